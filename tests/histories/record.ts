// Records what clients see of a store that is killed, evicted and cut off while they use it.
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { dice } from "../support/faulty.ts";
import { Proxy } from "../support/proxy.ts";
import { sleep, Store } from "../support/store.ts";
import { Workerd } from "../support/workerd.ts";
import { callByHand } from "./by-hand.ts";
import { type Recorded, Recorder } from "./recorder.ts";

/** Clients that speak HTTP by themselves, and clients of the npm package, each in a thread that is blocked at times. */
const BY_HAND = 6;
const OF_THE_PACKAGE = 4;

export interface Faults {
  killed: number;
  evicted: number;
  cut: number;
}

export interface Recording {
  readonly events: Recorded[];
  /** How far the machine's clock of the day leapt against its monotonic one. The store goes by the former. */
  readonly leapUs: number;
  readonly faults: Faults;
}

/** So many rounds of trouble, each ending with SIGKILL and a restart on the same state. */
export async function record(seed: number, rounds: number): Promise<Recording> {
  // Of the clients: what asks are called by begins with it, and beyond 2 ** 53 two would be one.
  const first = (seed % 1_000_000_000_000) * 1_000;
  await using workerd = await Workerd.start();
  await using proxy = await Proxy.before(workerd.url);
  const recorder = new Recorder();
  const leap = new Leap(recorder);
  const ending = new AbortController();
  const byHand = Array.from({ length: BY_HAND }, (_, at) =>
    callByHand(new Store(proxy), recorder, dice(first + at), ending.signal),
  );
  const threads = Array.from({ length: OF_THE_PACKAGE }, (_, at) =>
    thread(proxy.url, first + 500 + at, recorder, ending.signal),
  );
  const faults = await trouble(workerd, proxy, rounds, dice(seed));
  ending.abort();
  await Promise.all([...byHand, ...threads]);
  return { events: recorder.events, leapUs: leap.end(), faults };
}

/** Watches the two clocks of this machine drift apart. */
class Leap {
  readonly #timer: NodeJS.Timeout;
  #leastUs = Infinity;
  #mostUs = -Infinity;

  constructor(recorder: Recorder) {
    this.#timer = setInterval(() => {
      const apartUs = Date.now() * 1_000 - recorder.now();
      this.#leastUs = Math.min(this.#leastUs, apartUs);
      this.#mostUs = Math.max(this.#mostUs, apartUs);
    }, 5);
  }

  end(): number {
    clearInterval(this.#timer);
    return Math.max(0, this.#mostUs - this.#leastUs);
  }
}

async function trouble(
  workerd: Workerd,
  proxy: Proxy,
  rounds: number,
  random: () => number,
): Promise<Faults> {
  const faults: Faults = { killed: 0, evicted: 0, cut: 0 };
  proxy.delayMs = () => (random() < 0.1 ? random() * 40 : 0);
  for (let round = 0; round < rounds; round += 1) {
    await sleep(150 + random() * 300);
    proxy.cut();
    faults.cut += 1;
    await sleep(150 + random() * 200);
    if (random() < 0.5) {
      await new Store(workerd).calls([["evict"]]);
      faults.evicted += 1;
      await sleep(100 + random() * 200);
    }
    proxy.isDeaf = random() < 0.3;
    await sleep(random() * 100);
    await workerd.kill();
    faults.killed += 1;
    proxy.isDeaf = false;
    await sleep(random() * 300);
    await workerd.restart();
  }
  // What is under way comes to its end.
  await sleep(500);
  return faults;
}

/** A client of the package, until it is told to end. */
async function thread(
  url: string,
  seed: number,
  recorder: Recorder,
  ending: AbortSignal,
): Promise<void> {
  const worker = new Worker(new URL("./of-the-package.ts", import.meta.url), {
    workerData: { url, seed, startedAt: recorder.startedAt },
  });
  worker.on("message", (event: Recorded) => recorder.events.push(event));
  ending.addEventListener("abort", () => worker.postMessage("end"));
  const [code] = (await once(worker, "exit")) as [number];
  if (code !== 0) throw new Error(`a client of the package ended with ${code}`);
}
