// Nobody is told of renewals. So when the time that is shown of a lease is about to run out, and its end was not
// told, the store is asked once how long it has now: a question per lease length of what is seen, and no polling.

/** With so little left, ms. */
export const CLOSE_MS = 1_000;

/** No lock is asked about more often, ms. */
const APART_MS = 1_000;

/** Questions at once. */
const AT_ONCE = 16;

export class Lookout {
  #locks;
  /** When each was asked about, the earliest first. */
  #asked = new Map();
  #open = 0;
  #onNews;

  /** `onNews` hears that a lock was refreshed. */
  constructor(locks, onNews) {
    this.#locks = locks;
    this.#onNews = onNews;
  }

  /** Looks at those of `names`; `session` is where to ask. */
  look(names, session, now) {
    for (const [name, at] of this.#asked) {
      if (now - at < APART_MS) break;
      this.#asked.delete(name);
    }
    for (const name of names) {
      if (this.#open >= AT_ONCE) return;
      const entry = this.#locks.get(name);
      if (entry && entry.endsAt - now < CLOSE_MS && !this.#asked.has(name)) {
        this.#asked.set(name, now);
        void this.#ask(name, session);
      }
    }
  }

  async #ask(name, session) {
    this.#open += 1;
    try {
      const found = await session.locks.inspect(name);
      this.#locks.refresh(found, performance.now());
      this.#onNews();
    } catch {
      // The connection is looked after elsewhere.
    } finally {
      this.#open -= 1;
    }
  }
}
