// The protected resource: a counter in this browser's IndexedDB, which all of its tabs share. It knows nothing of
// leases; whether it compares fences is the whole difference.

/** What a counter is before anybody has written. */
const NEW = { value: 0, fence: 0, checks: true };

export class Counter {
  #database;
  #name;

  /** The counter that goes with a lock. */
  static async open(name) {
    const opening = indexedDB.open("leasehold-playground", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("counters");
    return new Counter(await settled(opening), name);
  }

  constructor(database, name) {
    this.#database = database;
    this.#name = name;
  }

  /** `{ value, fence, checks }`: the fence is the newest that it has seen. */
  look() {
    return this.#change((now) => [now, now]);
  }

  /**
   * What the next value is worked out from. The fence is shown already now: otherwise an older holder could still
   * write between this and the first write.
   */
  read(fence) {
    return this.#change((now) => {
      const next = { ...now, fence: Math.max(fence, now.fence) };
      return [next, next];
    });
  }

  /**
   * Writes a value that was worked out from one read before. Resolves with what came of it, which every tab hears:
   * `written`; `refused`, where fences are checked and this one is older than the newest seen; or `overwrote`,
   * where they are not and `lost` updates of others are gone with it.
   */
  async write({ value, fence, who }) {
    const report = await this.#change((now) => {
      if (now.checks && fence < now.fence) return [now, { outcome: "refused", now }];
      const next = { ...now, value, fence: Math.max(fence, now.fence) };
      const lost = Math.max(0, now.value + 1 - value);
      return [next, { outcome: lost > 0 ? "overwrote" : "written", lost, now: next }];
    });
    this.#tell({ ...report, value, fence, who });
    return report;
  }

  /** From now on fences are compared, or not. */
  async setChecks(checks) {
    const now = await this.#change((before) => [
      { ...before, checks },
      { ...before, checks },
    ]);
    this.#tell({ outcome: "set", now });
  }

  /** Hears what any tab does with it. */
  onNews(hear) {
    this.#channel().addEventListener("message", ({ data }) => hear(data));
  }

  /** Over a channel of its own, since a channel does not hear what is said on itself. */
  #tell(news) {
    const channel = this.#channel();
    channel.postMessage(news);
    channel.close();
  }

  #channel() {
    return new BroadcastChannel(`leasehold-playground ${this.#name}`);
  }

  /** Looks, decides and writes in one transaction, and waits for its end: an open one would keep others waiting. */
  async #change(decide) {
    const transaction = this.#database.transaction("counters", "readwrite");
    const ended = new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = () => reject(transaction.error);
    });
    const counters = transaction.objectStore("counters");
    const now = (await settled(counters.get(this.#name))) ?? NEW;
    const [next, answer] = decide(now);
    if (next !== now) counters.put(next, this.#name);
    await ended;
    return answer;
  }
}

function settled(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
