// Where what a store says without having been asked finds whom it is meant for: one desk per client.
import type { Listener, Push } from "./carrier.ts";
import type { Driver } from "./driver.ts";
import { Roll } from "./roll.ts";
import type { Told, Watcher } from "./watch.ts";

export class Desk implements Listener {
  /** Those that are not done. */
  readonly drivers = new Roll<Driver>();
  readonly watchers = new Set<Watcher>();
  /** Whether a token came from the caller, and so several may have one lease. */
  mayHaveTwins = false;

  onPush(space: string, push: Push): void {
    if (push.push === "changed") {
      for (const watcher of this.watchers) watcher.hear(space, push as Told);
      return;
    }
    const { lock, requestId, fence } = push as Push & { requestId?: string; fence?: number };
    const meant: Driver[] = [];
    // One look at each costs less than an index that every command would keep up.
    for (const driver of this.drivers) {
      const isOfAsk = requestId !== undefined && driver.requestId === requestId;
      const isOfLease = fence !== undefined && driver.fence === fence;
      if (!isOfAsk && !isOfLease) continue;
      if (driver.line.lock === lock && driver.line.space === space) meant.push(driver);
    }
    for (const driver of meant) driver.hearPush(push);
  }

  /** Others of this client that have its lease are told: the store tells other clients. */
  released({ line: { space, lock }, fence }: Driver): void {
    const push = { push: "ended", lock, fence, status: "lost", reason: "released" };
    if (this.mayHaveTwins) this.onPush(space, push);
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
