// A client, in a thread of its own: it takes the lock and, while it holds it, counts up the counter. The page tells
// it what to do; that it is paused, cut off or killed is real.
import { Leasehold } from "/leasehold/index.js";
import { Counter } from "./counter.js";
import { Network } from "./network.js";

/** How long a client works out its next value, ms. */
const WORK_MS = 800;

class Client {
  #who;
  #lock;
  #locks;
  #counter;
  #network = new Network();
  /** Shared with the page: the thread stands still while it is 1. */
  #gate;
  #lease;
  #wait;
  #isToStand = false;
  #hurry = () => {};

  constructor({ who, lock, space, key, gate }) {
    this.#who = who;
    this.#lock = lock;
    this.#gate = gate;
    const options = { space, clientId: who.id, ...this.#network.options };
    this.#locks = new Leasehold(location.origin, key === undefined ? options : { ...options, key });
    this.#counter = Counter.open(lock);
  }

  async acquire({ ttlMs }) {
    await this.#take("asking", (terms) => this.#locks.tryAcquire(this.#lock, terms), ttlMs);
  }

  async wait({ ttlMs }) {
    this.#wait = new AbortController();
    const { signal } = this.#wait;
    const take = (terms) => this.#locks.acquire(this.#lock, { ...terms, signal });
    await this.#take("waiting", take, ttlMs);
    this.#wait = undefined;
  }

  async release() {
    const lease = this.#lease;
    this.#lease = undefined;
    this.#wait?.abort();
    if (!lease) return;
    tell({ phase: "idle", note: "released" });
    await lease.release().catch(({ message }) => tell({ phase: "idle", note: message }));
  }

  /** At once, unless it holds the lock: then where it hurts. */
  pause() {
    this.#isToStand = true;
    if (this.#lease) this.#hurry();
    else this.#standIfTold();
  }

  cut() {
    this.#network.cut();
  }

  mend() {
    this.#network.mend();
  }

  async #take(phase, take, ttlMs) {
    tell({ phase });
    try {
      const { name, hue } = this.#who;
      const lease = await take({ ttlMs, info: { name, hue } });
      if (!lease) return tell({ phase: "idle", note: "refused" });
      this.#lease = lease;
      lease.signal.addEventListener("abort", () => this.#lose(lease), { once: true });
      tell({ phase: "holding", fence: lease.fence });
      void this.#work(lease);
    } catch (error) {
      tell({ phase: "idle", note: error.name === "AbortError" ? "left" : error.message });
    }
  }

  /** What careful code does, and what is not enough. */
  async #work(lease) {
    const counter = await this.#counter;
    for (;;) {
      await this.#workOut();
      const { value } = await counter.read(lease.fence);
      // It looks whether it still holds the lease,
      if (this.#lease !== lease || !lease.held) return this.#standIfTold();
      // and it is after this that it is paused,
      this.#standIfTold();
      // and wakes up here, having looked.
      await counter.write({ value: value + 1, fence: lease.fence, who: this.#who });
    }
  }

  #workOut() {
    return new Promise((resolve) => {
      this.#hurry = () => resolve(undefined);
      setTimeout(this.#hurry, this.#isToStand ? 0 : WORK_MS);
    });
  }

  /** Stops this thread, with its timers, renewals and sockets, until the page lets it go on. */
  #standIfTold() {
    if (!this.#isToStand) return;
    this.#isToStand = false;
    // Told before the thread stands: after that it tells nothing.
    tell({ isPaused: true });
    Atomics.wait(this.#gate, 0, 1);
    tell({ isPaused: false });
  }

  #lose(lease) {
    if (this.#lease !== lease) return;
    this.#lease = undefined;
    tell({ phase: "idle", note: "lost", reason: lease.signal.reason?.reason, fence: lease.fence });
  }
}

function tell(news) {
  postMessage(news);
}

let client;

addEventListener("message", ({ data: { order, ...rest } }) => {
  if (order === "start") client = new Client(rest);
  else void client[order](rest);
});
