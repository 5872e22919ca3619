// What the store says of the lock: the page asks and watches as anybody may, and believes no client.
import { isRefusal } from "../shared/store.js";
import { personOf } from "./people.js";

/** Renewals are not told to those who watch: while somebody holds the lock it is asked so often, ms. */
const GLANCE_MS = 300;

/** A lease that lasts so much longer than it did was renewed, ms. */
const JUMP_MS = 250;

/** A watch that broke off is begun again after this, ms. */
const AGAIN_MS = 1_000;

const ENDS = ["released", "expired", "revoked", "stolen"];

/**
 * Tells `hear` what happens: `granted` and `ended` of a lease, `renewed`, `waiting`; and after each answer of the
 * store `state`, the lock as it is now.
 */
export class Observer {
  #locks;
  #lock;
  #hear;
  #waiting = new Map();
  #holder;
  /** How often in a row the answer to a question was another than what was told; the first one is believed. */
  #doubts = 1;
  #isAsking = false;
  #isToAskAgain = false;

  constructor(locks, lock, hear) {
    this.#locks = locks;
    this.#lock = lock;
    this.#hear = hear;
  }

  /** Watches, also through breaks. Ends only where the store refuses the key, which goes to `onRefusal`. */
  async observe(onRefusal) {
    setInterval(() => this.#isOfInterest() && this.#ask(), GLANCE_MS);
    document.addEventListener("visibilitychange", () => this.#ask());
    // Where there is nothing, a watch tells nothing.
    void this.#ask();
    for (;;) {
      try {
        for await (const change of this.#locks.watch({ prefix: this.#lock })) this.#take(change);
      } catch (error) {
        if (isRefusal(error)) return onRefusal(error);
      }
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }

  #isOfInterest() {
    return !document.hidden && (this.#holder !== undefined || this.#doubts > 0);
  }

  #take(change) {
    // The prefix may be that of other locks, too.
    if (change.change !== "reset" && change.lock !== this.#lock) return;
    if (ENDS.includes(change.change)) this.#end(change.fence, change.change);
    const [holder] = change.holders ?? [];
    if (holder) this.#hold(holder, change.change === "present");
    else if (change.holders) this.#holder = undefined;
    void this.#ask();
  }

  #hold(holder, isOld = false) {
    const { expiresInMs, fence, heldMs = 0 } = holder;
    const now = performance.now();
    const until = now + expiresInMs;
    if (this.#holder?.fence !== fence) {
      if (this.#holder) this.#end(this.#holder.fence);
      this.#holder = { who: personOf(holder), fence, until, fullMs: expiresInMs };
      this.#hear({ type: "granted", ...this.#holder, since: now - heldMs, isOld });
    } else if (until > this.#holder.until + JUMP_MS) {
      const fullMs = Math.max(this.#holder.fullMs, expiresInMs);
      this.#holder = { ...this.#holder, until, fullMs };
      this.#hear({ type: "renewed", ...this.#holder });
    }
    // Otherwise it is the same end, told a little earlier or later: the bar is not to tremble.
  }

  #end(fence, reason) {
    if (this.#holder?.fence !== fence) return;
    const { who } = this.#holder;
    this.#holder = undefined;
    this.#hear({ type: "ended", who, fence, reason });
  }

  /** One question at a time. */
  async #ask() {
    this.#isToAskAgain = true;
    if (this.#isAsking) return;
    this.#isAsking = true;
    while (this.#isToAskAgain) {
      this.#isToAskAgain = false;
      await this.#locks.inspect(this.#lock).then(
        (inspection) => this.#look(inspection),
        // The connection says so itself, and whoever watches begins again.
        () => {},
      );
    }
    this.#isAsking = false;
  }

  #look({ holders: [holder], waiters }) {
    const isAsTold = holder?.fence === this.#holder?.fence;
    this.#doubts = isAsTold ? 0 : this.#doubts + 1;
    // What is told may be on its way; twice in a row, and it was missed while there was no connection.
    if (isAsTold || this.#doubts > 1) {
      if (holder) this.#hold(holder, true);
      else if (this.#holder) this.#end(this.#holder.fence);
    }
    const before = this.#waiting;
    const people = waiters.map(personOf);
    this.#waiting = new Map(people.map((who) => [who.id, who]));
    for (const [index, who] of people.entries()) {
      if (!before.has(who.id)) this.#hear({ type: "waiting", who, place: index + 1 });
    }
    this.#hear({ type: "state", holder: this.#holder, waiters: people });
  }
}
