// A client of the npm package in a thread of its own, which stands still now and then, longer than its lease lasts:
// what it believes of its lease goes into the history, beside what the store told others.
import { parentPort, workerData } from "node:worker_threads";
import { Leasehold } from "leasehold";
import { block, dice } from "../support/faulty.ts";
import { sleep } from "../support/store.ts";
import { type Recorded, Recorder } from "./recorder.ts";

/** More than lies between what the package sends and what it tells. */
const MOMENT_US = 5_000;

const { url, seed, startedAt } = workerData as { url: string; seed: number; startedAt: bigint };
const port = parentPort as NonNullable<typeof parentPort>;
const recorder = new Recorder(startedAt, (event: Recorded) => port.postMessage(event));
const random = dice(seed);
let isEnding = false;
port.once("message", () => (isEnding = true));

const locks = new Leasehold(url);
for (let round = 0; !isEnding; round += 1) {
  await hold(random() < 0.5 ? "north" : "south", `${seed}:${round}`);
  await sleep(random() * 60);
}

async function hold(lock: string, ask: string): Promise<void> {
  const ttlMs = 200 + Math.floor(random() * 800);
  const calledAt = recorder.now();
  let lease;
  const abandoned = { what: "abandoned", ask, limit: null, steal: false } as const;
  try {
    lease = await locks.acquire(lock, { ttlMs, waitMs: 1_000, info: ask });
  } catch {
    return recorder.givenUp(lock, calledAt, abandoned);
  }
  const { fence } = lease;
  // It may have had one before, which was over when it heard of it: then it asked anew.
  recorder.answered(lock, calledAt, abandoned);
  recorder.answered(lock, calledAt, { what: "kept", fence, limit: null, ttlMs });
  // Who believes no more, a margin before the store does, gives back what may be left: sent just before this is heard of.
  const onAbort = () => {
    recorder.perhaps(lock, recorder.now() - MOMENT_US, { what: "perhapsReleased", fence });
  };
  lease.signal.addEventListener("abort", onAbort);
  for (let left = Math.floor(random() * 12); left > 0; left -= 1) {
    const askedAt = recorder.now();
    if (lease.held) recorder.answered(lock, askedAt, { what: "believed", fence });
    if (random() < 0.1) block(random() * ttlMs * 1.5);
    else await sleep(random() * 60);
  }
  lease.signal.removeEventListener("abort", onAbort);
  const releasedAt = recorder.now();
  await lease.release().catch(() => {});
  recorder.perhaps(lock, releasedAt, { what: "perhapsReleased", fence });
}
