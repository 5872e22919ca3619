// A host in memory for a kernel: it keeps a record a lock and the last fence, holds the lines of those who
// wait, and has a clock that is turned by hand.
import assert from "node:assert/strict";
import { type Call, type Fields, type Reply, START_MS, type Step, type Store } from "./vectors.ts";

/** A kernel, however it is called. */
export interface Kernel {
  decide(prior: Uint8Array | undefined, call: Asked, nowMs: number, lastFence: bigint): Decided;
  readList(fields: Fields): Page | Reply;
}

export interface Asked {
  readonly op: string;
  readonly lock: string;
  readonly fields: Fields;
}

export interface Decided {
  readonly reply: Reply;
  readonly change: { tag: "unchanged" } | { tag: "store"; val: Uint8Array } | { tag: "delete" };
  readonly lastFence: bigint;
  readonly waiters: readonly { readonly ask: Ask; readonly reply: Reply }[];
  readonly dueMs: number | undefined;
}

export interface Ask {
  readonly token: unknown;
  readonly requestId: unknown;
}

export interface Page {
  readonly prefix: string;
  readonly cursor?: string | undefined;
  readonly pageSize: number;
}

interface Record {
  readonly bytes: Uint8Array;
  dueMs: number | undefined;
}

interface Line {
  readonly call: number;
  readonly lock: string;
  readonly ask: Ask;
  readonly deadlineMs: number;
}

type Answers = Map<number, Reply>;

export class Host implements Store {
  readonly #kernel: Kernel;
  #records = new Map<string, Record>();
  #lastFence = 0n;
  #lines: Line[] = [];
  #latestMs = 0;
  #aheadMs = 0;

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
  }

  async turn(step: Step): Promise<Answers> {
    if (step.restart) this.#lines = [];
    const before = { records: new Map(this.#records), lastFence: this.#lastFence };
    const open = [...this.#lines.map(({ call }) => call), ...step.calls.map(({ call }) => call)];
    const nowMs = this.#now(step);
    const answers: Answers = new Map();
    for (const call of step.calls) this.#call(call, nowMs, answers);
    for (const [lock, { dueMs = Infinity }] of [...this.#records]) {
      if (dueMs <= nowMs) this.#decide({ op: "tick", lock, fields: {} }, nowMs, answers);
    }
    for (const line of this.#lines.filter(({ deadlineMs }) => deadlineMs <= nowMs)) {
      this.#lines.splice(this.#lines.indexOf(line), 1);
      answers.set(line.call, this.#standing(line, nowMs, answers));
    }
    if (!step.fault) return answers;
    // Nothing could be stored: nothing happened, and whoever awaits an answer hears that nobody knows.
    this.#records = before.records;
    this.#lastFence = before.lastFence;
    this.#lines = [];
    return new Map(open.map((call) => [call, { code: "unavailable" }]));
  }

  async position(call: number): Promise<unknown> {
    const line = this.#lines.find((line) => line.call === call);
    return line && this.#standing(line, this.#latestMs, new Map())["position"];
  }

  #call({ call, op, lock: named, fields }: Call, nowMs: number, answers: Answers): void {
    const lock = typeof named === "string" ? named : "";
    if (op === "list") {
      answers.set(call, this.#list(fields, nowMs, answers));
      return;
    }
    const { reply } = this.#decide({ op, lock, fields }, nowMs, answers);
    if (op !== "acquire" || reply["status"] !== "waiting") {
      answers.set(call, reply);
      return;
    }
    const ask = { token: fields["token"], requestId: fields["requestId"] };
    // The same ask by another line: the earlier one hears how things stand.
    const earlier = this.#take(lock, ask);
    if (earlier) answers.set(earlier.call, this.#standing(earlier, nowMs, answers));
    this.#lines.push({ call, lock, ask, deadlineMs: nowMs + Number(reply["retryAfterMs"]) });
  }

  /** Load, decide, commit, tell. */
  #decide(asked: Asked, nowMs: number, answers: Answers): Decided {
    const { lock } = asked;
    const prior = this.#records.get(lock);
    const decided = this.#kernel.decide(prior?.bytes, asked, nowMs, this.#lastFence);
    const { change, dueMs } = decided;
    if (change.tag === "store") this.#records.set(lock, { bytes: change.val, dueMs });
    else if (change.tag === "delete") this.#records.delete(lock);
    else if (prior) prior.dueMs = dueMs;
    assert.ok(decided.lastFence >= this.#lastFence);
    this.#lastFence = decided.lastFence;
    for (const { ask, reply } of decided.waiters) {
      const line = this.#take(lock, ask);
      if (line) answers.set(line.call, reply);
    }
    return decided;
  }

  #standing({ lock, ask }: Line, nowMs: number, answers: Answers): Reply {
    return this.#decide({ op: "standing", lock, fields: { ...ask } }, nowMs, answers).reply;
  }

  #list(fields: Fields, nowMs: number, answers: Answers): Reply {
    const page = this.#kernel.readList(fields);
    if (!isPage(page)) return page;
    const names = [...this.#records.keys()]
      .filter((name) => name.startsWith(page.prefix))
      .filter((name) => page.cursor === undefined || bytes(name).compare(bytes(page.cursor)) > 0)
      .sort((a, b) => bytes(a).compare(bytes(b)))
      .slice(0, page.pageSize);
    const locks = names.flatMap((lock) => {
      const { reply } = this.#decide({ op: "inspect", lock, fields: {} }, nowMs, answers);
      const { holders, waiters } = reply as { holders: unknown[]; waiters: unknown[] };
      const isFree = holders.length + waiters.length === 0;
      return isFree ? [] : [{ lock, holders, queue: waiters.length }];
    });
    return names.length === page.pageSize ? { locks, cursor: names.at(-1) } : { locks };
  }

  #take(lock: string, ask: Ask): Line | undefined {
    const at = this.#lines.findIndex(
      (line) =>
        line.lock === lock && line.ask.token === ask.token && line.ask.requestId === ask.requestId,
    );
    return at < 0 ? undefined : this.#lines.splice(at, 1)[0];
  }

  /** A host's clock that is a little behind stands still, and one that is set back goes on from where it was. */
  #now({ atMs, restart }: Step): number {
    if (restart) this.#aheadMs = 0;
    const readMs = START_MS + atMs + this.#aheadMs;
    const behindMs = this.#latestMs - readMs;
    if (behindMs > 5_000) this.#aheadMs += behindMs;
    this.#latestMs = Math.max(this.#latestMs, readMs);
    return this.#latestMs;
  }
}

function isPage(page: Page | Reply): page is Page {
  return "pageSize" in page;
}

function bytes(text: string): Buffer {
  return Buffer.from(text);
}
