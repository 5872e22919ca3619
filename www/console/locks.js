// The locks of a space as far as they were told, in the order of their names. No DOM here.

/** A lock that became free stays in its place for so long: what is taken again at once does not jump, ms. */
const LINGER_MS = 2_000;

export class Locks {
  /** In the order the store has: of code points. */
  names = [];
  /** Locks that are held, and how many wait for one. */
  held = 0;
  waiting = 0;
  #all = new Map();
  /** How often it was all told anew; what was not told in this round may be over. */
  #round = 0;
  #isFilling = true;
  #lastTold = undefined;
  /** Names of free ones and when they go, the earliest first. */
  #free = new Map();

  get(name) {
    return this.#all.get(name);
  }

  /** Locks that are held or awaited. */
  get count() {
    return this.names.length - this.#free.size;
  }

  /** Takes a change as `watch` yields it, or `ready`: all there was has been told. */
  take(change, now) {
    if (change.change === "reset") {
      this.#round += 1;
      this.#isFilling = true;
      this.#lastTold = undefined;
    } else if (change.change === "ready") {
      this.#isFilling = false;
      this.#sweep(this.#lastTold, undefined);
    } else {
      if (change.change === "present" && this.#isFilling) {
        this.#sweep(this.#lastTold, change.lock);
        this.#lastTold = change.lock;
      }
      this.#put(change, now);
    }
  }

  /** What `inspect` says of a lock is newer: nobody is told of renewals. */
  refresh({ lock, holders, waiters }, now) {
    if (!this.#all.has(lock)) return;
    this.#put({ lock, holders: holders.slice(0, 10), queue: waiters.length }, now);
  }

  /** Lets go of what has been free for long. Whether that changed anything. */
  prune(now) {
    let isChanged = false;
    for (const [name, goesAt] of this.#free) {
      if (now < goesAt) break;
      this.#remove(name);
      isChanged = true;
    }
    return isChanged;
  }

  clear() {
    Object.assign(this, { names: [], held: 0, waiting: 0 });
    this.#all.clear();
    this.#free.clear();
    this.take({ change: "reset" }, 0);
  }

  /** Where a name is, or would be. */
  indexOf(name) {
    let [low, high] = [0, this.names.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compare(this.names[middle], name) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #put({ lock, holders, queue }, now) {
    const before = this.#all.get(lock);
    if (!before) this.names.splice(this.indexOf(lock), 0, lock);
    this.#count(before, -1);
    const entry = {
      lock,
      queue,
      holders: holders.map(({ expiresInMs, heldMs = 0, ...holder }) => ({
        ...holder,
        endsAt: now + expiresInMs,
        heldSince: now - heldMs,
      })),
      round: this.#round,
    };
    // The first to end is the first to know better about.
    entry.endsAt = Math.min(...entry.holders.map(({ endsAt }) => endsAt));
    this.#all.set(lock, entry);
    this.#count(entry, 1);
    this.#free.delete(lock);
    if (isFree(entry)) this.#free.set(lock, now + LINGER_MS);
  }

  #remove(name) {
    this.names.splice(this.indexOf(name), 1);
    this.#forget(name);
  }

  #forget(name) {
    this.#count(this.#all.get(name), -1);
    this.#all.delete(name);
    this.#free.delete(name);
  }

  #count(entry, by) {
    if (!entry) return;
    if (entry.holders.length > 0) this.held += by;
    this.waiting += by * entry.queue;
  }

  /** What of an earlier round lies between two that were told one after the other is over. */
  #sweep(after, before) {
    const from = after === undefined ? 0 : this.indexOf(after) + 1;
    const to = before === undefined ? this.names.length : this.indexOf(before);
    if (from >= to) return;
    const between = this.names.slice(from, to);
    const kept = between.filter((name) => this.#all.get(name).round === this.#round);
    for (const name of between) if (this.#all.get(name).round !== this.#round) this.#forget(name);
    if (kept.length < between.length) {
      this.names = [...this.names.slice(0, from), ...kept, ...this.names.slice(to)];
    }
  }
}

function isFree({ holders, queue }) {
  return holders.length === 0 && queue === 0;
}

/** By code points, as the bytes of UTF-8 are: `<` is by halves of those above U+FFFF. */
function compare(one, other) {
  const length = Math.min(one.length, other.length);
  for (let at = 0; at < length; at += 1) {
    const [a, b] = [one.charCodeAt(at), other.charCodeAt(at)];
    if (a !== b) return rank(a) - rank(b);
  }
  return one.length - other.length;
}

function rank(unit) {
  return unit < 0xd800 ? unit : unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}
