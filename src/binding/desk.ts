// Where what a store says without having been asked finds whom it is meant for: one desk per client.
import type { Listener, Push } from "./carrier.ts";
import type { Driver } from "./driver.ts";
import type { Told, Watcher } from "./watch.ts";

export class Desk implements Listener {
  /** Those that are not done. */
  readonly drivers = new Set<Driver>();
  readonly watchers = new Set<Watcher>();
  readonly #expected = new Map<string, Driver>();

  /** What is pushed about that lock and that requestId or fence is for `driver`. */
  expect(space: string, lock: string, which: string | number, driver: Driver): void {
    this.#expected.set(key(space, lock, which), driver);
  }

  /** Nobody expects anything about it any more. */
  forget(space: string, lock: string, which: string | number, driver: Driver): void {
    const name = key(space, lock, which);
    if (this.#expected.get(name) === driver) this.#expected.delete(name);
  }

  onPush(space: string, push: Push): void {
    if (push.push === "changed") {
      for (const watcher of this.watchers) watcher.hear(space, push as Told);
      return;
    }
    const { lock = "", requestId, fence } = push as Push & { requestId?: string; fence?: number };
    this.#expected.get(key(space, lock, requestId ?? fence ?? ""))?.hearPush(push);
  }

  onGap(space: string): void {
    for (const watcher of this.watchers) if (watcher.space === space) watcher.startOver();
    for (const driver of [...this.drivers]) if (driver.line.space === space) driver.missed();
  }

  isListening(space: string): boolean {
    for (const { line } of this.drivers) if (line.space === space) return true;
    for (const watcher of this.watchers) if (watcher.space === space) return true;
    return false;
  }
}

function key(space: string, lock: string, which: string | number): string {
  return `${space.length} ${lock.length} ${typeof which} ${space}${lock}${which}`;
}
