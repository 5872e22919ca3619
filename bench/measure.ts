// Rounds that take turns, and what they come to.
import { setTimeout as sleep } from "node:timers/promises";

/** One thing that is measured beside others. */
export interface Contender {
  readonly name: string;
  /** Does the work once, and says how it went. */
  round(): Promise<number>;
}

/** The median of the rounds, and the worst and the best of them. */
export interface Figure {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

/** What a server does after its round does not slow whoever is next. */
const PAUSE_MS = 100;

/**
 * Measures each contender `rounds` times, one after the other and over again, so that what slows the machine for a while
 * slows all of them. The first round of each warms up and does not count.
 */
export async function inTurns(
  contenders: readonly Contender[],
  rounds: number,
): Promise<Map<string, Figure>> {
  const results = new Map(contenders.map(({ name }) => [name, [] as number[]]));
  for (let round = 0; round <= rounds; round += 1) {
    for (const { name, round: measure } of contenders) {
      await sleep(PAUSE_MS);
      const result = await measure();
      if (round > 0) results.get(name)?.push(result);
    }
  }
  return new Map([...results].map(([name, values]) => [name, figure(values)]));
}

export function figure(values: readonly number[]): Figure {
  return { median: quantile(values, 0.5), low: Math.min(...values), high: Math.max(...values) };
}

/** The value below which that share of them lies; NaN where there are none. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

/** About how long a round of {@link throughput} takes. */
const ROUND_MS = 700;

/** How many cycles a second there are, `atOnce` of them side by side; each side has a number. */
export function throughput(
  name: string,
  atOnce: number,
  cycle: (lane: number) => Promise<unknown>,
): Contender {
  let count = 4 * atOnce;
  return {
    name,
    async round() {
      const startedAt = performance.now();
      let left = count;
      const lane = async (_: unknown, number: number): Promise<void> => {
        while (left-- > 0) await cycle(number);
      };
      await Promise.all(Array.from({ length: atOnce }, lane));
      const perSecond = (count / (performance.now() - startedAt)) * 1_000;
      count = Math.max(4 * atOnce, Math.round((perSecond * ROUND_MS) / 1_000));
      return perSecond;
    },
  };
}
