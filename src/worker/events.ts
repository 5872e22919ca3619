// What happens in a space, one data point each, to Workers Analytics Engine where the deployment has it.

/** Data points that one invocation of a Worker may write; more of them would be dropped with an error. */
const POINTS = 250;

/** An index is at most so long. */
const INDEX_BYTES = 96;

/** Writes what a turn tells of: JSON of `[event, lock, reason, fence, waitedMs]` each. */
export function count(
  dataset: AnalyticsEngineDataset,
  space: string,
  events: readonly string[],
): void {
  const index = space.slice(
    0,
    new TextEncoder().encodeInto(space, new Uint8Array(INDEX_BYTES)).read,
  );
  for (const event of events.slice(0, POINTS)) {
    const [name, lock, reason, fence, waitedMs] = JSON.parse(event) as Event;
    try {
      dataset.writeDataPoint({
        indexes: [index],
        blobs: [name, space, lock, reason],
        doubles: [fence, waitedMs / 1_000],
      });
    } catch {
      // Leases do not depend on being counted.
      return;
    }
  }
}

type Event = readonly [name: string, lock: string, reason: string, fence: number, waitedMs: number];
