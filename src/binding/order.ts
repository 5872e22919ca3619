// HTTP keeps no order among requests. What concerns the same lock is sent one after the other.
import { Timer } from "./clock.ts";

interface Sent {
  readonly space: string;
  /** Absent where it concerns every lock of the space. */
  readonly lock: string | undefined;
  readonly done: Promise<unknown>;
}

/** With none answered for so long they are not waited for: one may never be, and others have their own hurry. */
const PATIENCE_MS = 1_000;

export class Order {
  readonly #open = new Set<Sent>();

  /** Sends when what was sent before about the same is answered. */
  run<T>(space: string, lock: string | undefined, send: () => Promise<T>): Promise<T> {
    const earlier = [...this.#open].filter(
      (sent) =>
        sent.space === space &&
        (sent.lock === lock || sent.lock === undefined || lock === undefined),
    );
    const reply = earlier.length === 0 ? send() : all(earlier).then(send);
    const sent = { space, lock, done: reply.catch(() => {}) };
    this.#open.add(sent);
    void sent.done.then(() => this.#open.delete(sent));
    return reply;
  }
}

/** Each may have others before it, and so takes its time. */
function all(earlier: readonly Sent[]): Promise<void> {
  const timer = new Timer();
  return new Promise((resolve) => {
    const wait = () => timer.set(PATIENCE_MS, resolve);
    wait();
    void Promise.all(earlier.map(({ done }) => done.then(wait))).then(() => {
      timer.clear();
      resolve();
    });
  });
}
