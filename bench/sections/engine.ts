// What a command costs in the engine, by how much there is beside it: natively, and in WebAssembly.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isInstalled } from "../machine.ts";
import { type Figure, inTurns } from "../measure.ts";
import type { Row, Section } from "./section.ts";

const root = join(import.meta.dirname, "../..");

const LOCKS = [1_000, 1_000_000];
const WAITERS = [10, 9_999];
const FLAT = { atMost: 1.3 };

/** Counting takes some fifty times as long as running. */
const COUNTED_LOCKS = [1_000, 100_000];
const COUNTED = 5_000;

export const engine: Section = {
  name: "engine",
  title: "The engine",
  about: `Natively by criterion (\`bench/engine\`): a cycle is an acquire and a release of a free lock beside so many held ones; a
renewal is of one of the held ones, in no order that a cache could guess; a hand-off is a release, a grant to the first of
so many waiters and one more ask. A bare look-up finds the renewals' names in a hash map that has nothing else: what it costs
more among many is memory that no cache holds, and no engine is without it. In WebAssembly the same through the npm package's in-process store, in turns of 64 commands,
with what it takes to bring them over from JavaScript and back. The ratio is the larger to the smaller. Where valgrind is
installed its callgrind counts instructions: what the engine itself does.`,
  async run() {
    const rows: Row[] = [];
    const compare = (
      what: string,
      sizes: readonly number[],
      of: (size: number) => Figure | number | undefined,
      goal?: Row["goal"],
    ) => {
      const [small, large] = sizes.map(of);
      const [few = 0, many = 0] = sizes;
      if (!small || !large) return;
      const name = `at ${few.toLocaleString("en")}`;
      const isCounted = typeof large === "number";
      rows.push({
        what: `${what} at ${many.toLocaleString("en")}`,
        unit: isCounted ? "instructions" : "µs",
        ours: large,
        peer: { name, figure: small },
        ...(goal && { goal }),
      });
    };
    compare("native: cycle", LOCKS, (count) => criterion(`cycle ${count}`), FLAT);
    compare("native: renewal", LOCKS, (count) => criterion(`renew ${count}`), FLAT);
    compare("native: bare look-up", LOCKS, (count) => criterion(`look-up ${count}`));
    compare("native: hand-off", WAITERS, (count) => criterion(`hand-off ${count}`), FLAT);
    for (const work of ["cycle", "renew", "hand-off"]) {
      const counts = work === "hand-off" ? WAITERS : COUNTED_LOCKS;
      compare(`native: ${work}, instructions`, counts, (size) => instructions(work, size), FLAT);
    }
    const wasm = await inWebAssembly();
    compare("wasm: cycle", LOCKS, (count) => wasm.get(`cycle ${count}`), FLAT);
    compare("wasm: renewal", LOCKS, (count) => wasm.get(`renew ${count}`), FLAT);
    compare("wasm: hand-off", WAITERS, (count) => wasm.get(`hand-off ${count}`), FLAT);
    return { rows };
  },
};

/** The median and its confidence interval, in µs; none where criterion has not run. */
function criterion(name: string): Figure | undefined {
  const file = join(root, "target/bench/criterion", name, "new/estimates.json");
  if (!existsSync(file)) return undefined;
  const { median } = JSON.parse(readFileSync(file, "utf8"));
  const { lower_bound, upper_bound } = median.confidence_interval;
  return {
    median: median.point_estimate / 1_000,
    low: lower_bound / 1_000,
    high: upper_bound / 1_000,
  };
}

/** Instructions of one, as callgrind counts them, the same on every run; none where there is no valgrind. */
function instructions(work: string, size: number): number | undefined {
  const program = join(root, "target/bench/release/instructions");
  if (!isInstalled("valgrind") || !existsSync(program)) return undefined;
  const words = ["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=counted"];
  const { stderr } = spawnSync("valgrind", [...words, program, work, `${size}`, `${COUNTED}`], {
    encoding: "utf8",
  });
  const collected = /Collected : (\d+)/.exec(stderr)?.[1];
  return collected === undefined ? undefined : Number(collected) / COUNTED;
}

const ROUNDS = 5;
const TURNS = 150;
const CALLS = 64;

interface Store {
  turn(
    calls: unknown[],
    now: number,
  ): [ticket: number, status: number, reply: { lease: { fence: number } }][];
}

async function inWebAssembly(): Promise<Map<string, Figure>> {
  const glue = await import(join(root, "target/glue/memory.js"));
  glue.initSync({ module: readFileSync(join(root, "dist/leasehold-store.wasm")) });
  const open = (): Store => {
    const store = new glue.Store("bench", 0);
    // Beside the answers it has what clients are told, which is nothing here.
    return { turn: (calls, now) => store.turn(calls, now)[0] };
  };
  const works = [
    ...LOCKS.flatMap((count) => {
      const [store, fences] = withLocks(open(), count);
      return [
        { name: `cycle ${count}`, turn: cycles(store) },
        { name: `renew ${count}`, turn: renewals(store, fences) },
      ];
    }),
    ...WAITERS.map((count) => ({ name: `hand-off ${count}`, turn: handOffs(open(), count) })),
  ];
  const contenders = works.map(({ name, turn }) => ({
    name,
    async round() {
      const startedAt = performance.now();
      let commands = 0;
      for (let turns = 0; turns < TURNS; turns += 1) commands += turn();
      return ((performance.now() - startedAt) * 1_000) / commands;
    },
  }));
  return inTurns(contenders, ROUNDS);
}

/** Stands still: nothing expires while it is timed. */
const NOW = Date.now();
const TTL_MS = 86_400_000;

let ids = 0;
const id = () => `${(ids += 1)}`.padStart(36, "0");

function withLocks(store: Store, count: number): [Store, Float64Array] {
  const fences = new Float64Array(count);
  for (let first = 0; first < count; first += 1_000) {
    const calls = Array.from({ length: Math.min(1_000, count - first) }, (_, index) => {
      const number = first + index;
      return [
        number,
        "acquire",
        `held:${number}`,
        { token: `${number}`, requestId: "0", ttlMs: TTL_MS },
      ];
    });
    for (const [number, , { lease }] of store.turn(calls, NOW)) fences[number] = lease.fence;
  }
  return [store, fences];
}

/** Locks that are free, acquired in one turn and released in the next; gives how many cycles that were. */
function cycles(store: Store): () => number {
  const locks = Array.from({ length: CALLS }, (_, number) => `free:${number}`);
  return () => {
    const tokens = locks.map(id);
    const asks = locks.map((lock, at) => [
      at,
      "acquire",
      lock,
      { token: tokens[at], requestId: tokens[at], ttlMs: TTL_MS },
    ]);
    const releases = store.turn(asks, NOW).map(([at, , { lease }]) => {
      return [at, "release", locks[at], { token: tokens[at], fence: lease.fence }];
    });
    store.turn(releases, NOW);
    return CALLS;
  };
}

function renewals(store: Store, fences: Float64Array): () => number {
  let at = 0;
  return () => {
    const calls = Array.from({ length: CALLS }, (_, ticket) => {
      at = (at + 618_033_989) % fences.length;
      return [ticket, "renew", `held:${at}`, { token: `${at}`, fence: fences[at] }];
    });
    store.turn(calls, NOW);
    return CALLS;
  };
}

function handOffs(store: Store, waiters: number): () => number {
  // Each ask has its own token, and its ticket says which; 0 is that of a release.
  const tokens = [""];
  const join = () => {
    const token = id();
    return [
      tokens.push(token) - 1,
      "acquire",
      "lock",
      { token, requestId: token, ttlMs: TTL_MS, waitMs: 60_000 },
    ];
  };
  let [[holder, , { lease }]] = store.turn([join()], NOW) as [
    [number, number, { lease: { fence: number } }],
  ];
  store.turn(Array.from({ length: waiters }, join), NOW);
  return () => {
    const release = [0, "release", "lock", { token: tokens[holder], fence: lease.fence }];
    for (const [ticket, , reply] of store.turn([release, join()], NOW)) {
      if (ticket > 0) [holder, lease] = [ticket, reply.lease];
    }
    return 1;
  };
}
