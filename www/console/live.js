// One space at a time, followed as it changes.
import { follow } from "./follow.js";

export class Live {
  session;
  /** Whether all there is has been told, and changes are. */
  isReady = false;
  #on;
  #prefix = "";
  /** Ends the watch there is. */
  #watching = new AbortController();

  /**
   * `on.change(change)` hears what `watch` yields; `on.ready()`, that it has told all there is; `on.lost()`, that
   * changes may be missed from now on; `on.failed(error)`, that an attempt to go on came to nothing; `on.refused(error)`,
   * that the store answers so for good.
   */
  constructor(on) {
    this.#on = on;
  }

  begin(session, prefix) {
    this.session = session;
    this.#prefix = prefix;
    session.addEventListener("closed", () => {
      if (session === this.session) this.#lost();
    });
    void this.#watch();
  }

  /** Only names that start with `prefix` from now on. */
  filter(prefix) {
    this.#prefix = prefix;
    void this.#watch();
  }

  end() {
    this.#watching.abort();
    this.session?.end();
    this.session = undefined;
    this.isReady = false;
  }

  async #watch() {
    this.#watching.abort();
    const { signal } = (this.#watching = new AbortController());
    this.isReady = false;
    this.#on.change({ change: "reset" });
    try {
      await follow(this.session, this.#prefix, signal, (change) => this.#told(change));
    } catch (error) {
      if (!signal.aborted) this.#on.refused(error);
    }
  }

  #told(change) {
    if (change.change === "failed") return this.#on.failed(change.error);
    this.#on.change(change);
    if (change.change === "reset") this.#lost();
    if (change.change !== "ready") return;
    this.isReady = true;
    this.#on.ready();
  }

  #lost() {
    if (!this.isReady) return;
    this.isReady = false;
    this.#on.lost();
  }
}
