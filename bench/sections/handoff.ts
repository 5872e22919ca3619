// From a release to the next holder.
import { setTimeout as sleep } from "node:timers/promises";
import { quantile } from "../measure.ts";
import { byHand } from "../services/frames.ts";
import { handWritten, handWrittenOn } from "../services/hand-written.ts";
import { leasehold } from "../services/leasehold.ts";
import type { Client, Kind, Release } from "../services/service.ts";
import type { Row, Section } from "./section.ts";

const ROUNDS = 4;

/** A round of one service ends after so many hand-offs, or when its time is up. */
const COUNT = 50;
const TIME_MS = 3_500;

/** How long each holds the lock, and up to how much longer, at random: those who poll must not fall into step. */
const HOLD_MS = 5;
const MORE_MS = 10;

/** The longest that is waited for the last messages of a hand-off. */
const SETTLE_MS = 500;

/** A waiter of etcd hears at once only when it has waited for a while (its watches are caught up every 100 ms); alone, it has. */
const HOLD_FOR_ONE_MS = 110;

/** The most a goal says our p50 may be of theirs, where it says something. */
const MOST: Record<string, readonly number[]> = {
  "redis-semaphore": [1, 10, 100],
  etcd: [1, 10, 100],
  redlock: [1, 10],
};

export const handoff: Section = {
  name: "handoff",
  title: "Hand-off",
  about: `Each waiter is a client with a connection of its own. The holder keeps the lock for ${HOLD_MS} to ${HOLD_MS + MORE_MS} ms, or ${HOLD_FOR_ONE_MS} to
${HOLD_FOR_ONE_MS + MORE_MS} ms with one waiter, which suits etcd best; then the time runs from its call of release until one of the waiters has the lock; then it waits again itself. Messages are those that the server
sent to all clients between that call and that instant, less the answer to the release. The hand-written object
(\`bench/reference/waiting.js\`) has nothing but a list of who waits: what it takes is what a hand-off over workerd takes.`,
  async run({ peers, service, workerd }) {
    const rows: Row[] = [];
    const plot = new Map<string, number[]>();
    for (const waiters of [1, 10, 100]) {
      const arenas = new Map<string, Arena>();
      for (const [kind, { address }] of [
        [leasehold, service] as const,
        [byHand, service] as const,
        [handWritten, handWrittenOn(workerd)] as const,
        ...peers,
      ]) {
        arenas.set(kind.name, await Arena.open(kind, address, waiters));
      }
      const holdMs = waiters === 1 ? HOLD_FOR_ONE_MS : HOLD_MS;
      for (let round = 0; round < ROUNDS; round += 1) {
        for (const arena of arenas.values()) await arena.round(holdMs);
      }
      for (const [name, { times }] of arenas)
        plot.set(name, [...(plot.get(name) ?? []), quantile(times, 0.5)]);
      const ours = arenas.get(leasehold.name);
      for (const [name, theirs] of arenas)
        if (ours && theirs !== ours) rows.push(...compare(waiters, ours, name, theirs));
      if (ours) {
        const goal = { atMost: 1 };
        rows.push({
          what: `${waiting(waiters)}: messages, the median`,
          unit: "messages",
          ours: quantile(ours.messages, 0.5),
          goal,
        });
      }
      for (const arena of arenas.values()) await arena.close();
    }
    const series = [...plot].map(([name, values]) => ({ name, values }));
    const bars = ["1 waiter", "10 waiters", "100 waiters"];
    return {
      rows,
      plots: [{ name: "handoff", title: `${this.title}, p50`, unit: "ms", bars, series }],
    };
  },
};

function compare(waiters: number, ours: Arena, name: string, theirs: Arena): Row[] {
  const row = (part: string, unit: Row["unit"], of: (arena: Arena) => number): Row => ({
    what: `${waiting(waiters)}: ${part}`,
    unit,
    ours: of(ours),
    peer: { name, figure: of(theirs) },
  });
  const atMost = name === "redlock" ? 1 / 20 : 1 / 5;
  const goal = MOST[name]?.includes(waiters) && { goal: { atMost } };
  return [
    { ...row("p50", "ms", ({ times }) => quantile(times, 0.5)), ...goal },
    row("p99", "ms", ({ times }) => quantile(times, 0.99)),
    row("messages", "messages", ({ messagesEach }) => messagesEach),
  ];
}

const waiting = (waiters: number) => `hand-off, ${waiters} ${waiters === 1 ? "waiter" : "waiters"}`;

interface Grant {
  readonly client: Client;
  readonly release: Release;
  readonly at: number;
}

/** A lock of one service, its holder, and those who wait for it. */
class Arena {
  readonly times: number[] = [];
  readonly messages: number[] = [];
  readonly #clients: readonly Client[];
  readonly #lock: string;
  /** Whose messages are counted. */
  readonly #counted: readonly Client[];
  readonly #waiters: Kind["waiters"];
  #holder: Grant;
  #onGrant: (grant: Grant) => void = () => {};

  private constructor(kind: Kind, lock: string, clients: readonly Client[], holder: Grant) {
    this.#counted = kind.counts === "together" ? clients.slice(0, 1) : clients;
    this.#waiters = kind.waiters;
    this.#clients = clients;
    this.#lock = lock;
    this.#holder = holder;
  }

  static async open(kind: Kind, address: string, waiters: number): Promise<Arena> {
    const lock = `hand-off ${waiters} ${kind.name}`;
    const connecting = Array.from({ length: waiters + 1 }, () => kind.connect(address));
    const [first, ...others] = await Promise.all(connecting);
    if (!first) throw new Error("a lock needs a holder");
    const holder = { client: first, release: await first.acquire(lock), at: 0 };
    const arena = new Arena(kind, lock, [first, ...others], holder);
    for (const client of others) arena.#queue(client);
    await sleep(200);
    return arena;
  }

  get messagesEach(): number {
    return this.messages.reduce((sum, count) => sum + count, 0) / this.messages.length;
  }

  async round(holdMs: number): Promise<void> {
    const endAt = performance.now() + TIME_MS;
    for (let count = 0; count < COUNT && performance.now() < endAt; count += 1) {
      await sleep(holdMs + MORE_MS * Math.random());
      await this.#handOff();
    }
  }

  async #handOff(): Promise<void> {
    const before = await this.#settled();
    const granted = new Promise<Grant>((resolve) => (this.#onGrant = resolve));
    const releasedAt = performance.now();
    const released = this.#holder.release();
    const next = await Promise.race([granted, released.then(() => granted)]);
    const after = await this.#countMessages();
    this.times.push(next.at - releasedAt);
    await released;
    this.messages.push(after - before - 1);
    this.#queue(this.#holder.client);
    this.#holder = next;
  }

  #queue(client: Client): void {
    const granted = (release: Release) => this.#onGrant({ client, release, at: performance.now() });
    client.acquire(this.#lock).then(granted, () => {});
  }

  /** The messages so far, once those that the last hand-off brought on are all there: a claim, and a place in the queue. */
  async #settled(): Promise<number> {
    let count = await this.#countMessages();
    for (const giveUpAt = performance.now() + SETTLE_MS; performance.now() < giveUpAt;) {
      if (this.#waiters === "ask") break;
      await sleep(5);
      const before = count;
      count = await this.#countMessages();
      if (count === before) break;
    }
    return count;
  }

  async #countMessages(): Promise<number> {
    const counts = await Promise.all(this.#counted.map((client) => client.messages()));
    return counts.reduce((sum, count) => sum + count, 0);
  }

  async close(): Promise<void> {
    this.#onGrant = ({ release }) => void release().catch(() => {});
    await this.#holder.release();
    for (const client of this.#clients) await client.close();
  }
}
