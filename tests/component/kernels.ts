// The component in V8, by both of its interfaces.
import { kernel, wire } from "../../target/components/js/decider/decider.js";
import type {
  Command,
  Decision,
  Limits,
  Reply as TypedReply,
  Space,
} from "../../target/components/js/decider/interfaces/leasehold-lease-kernel.js";
import type { Asked, Decided, Kernel, Page } from "./host.ts";
import type { Fields, Reply } from "./vectors.ts";

export const LIMITS: Limits = { rememberMs: 3_600_000n, recordBytesMax: 1n << 40n };

export function spaceOf(lastFence: bigint): Space {
  return { name: "a space", lastFence, fenceFloor: 0n };
}

/** By `wire`: JSON in, JSON out. */
export const throughWire: Kernel = {
  decide(prior, { op, lock, fields }, nowMs, lastFence): Decided {
    const text = JSON.stringify(fields);
    const answer = wire.decide(prior, op, lock, text, BigInt(nowMs), spaceOf(lastFence), LIMITS);
    return {
      reply: JSON.parse(answer.message.body),
      change: answer.change,
      lastFence: answer.lastFence,
      waiters: answer.waiters.map(({ ask, message }) => ({ ask, reply: JSON.parse(message.body) })),
      dueMs: plain(answer.wakeAt ?? answer.cleanAt),
    };
  },

  readList(fields): Page | Reply {
    try {
      const page = wire.readList(JSON.stringify(fields));
      return { prefix: page.prefix, cursor: page.cursor, pageSize: Number(page.pageSize) };
    } catch (error) {
      return JSON.parse((error as { body: string }).body);
    }
  },
};

/** By `kernel`, with typed commands; what no type can say goes through `wire`, which refuses it. */
export const throughKernel: Kernel = {
  decide(prior, asked, nowMs, lastFence): Decided {
    const command = typed(asked);
    if (!command) return throughWire.decide(prior, asked, nowMs, lastFence);
    const space = spaceOf(lastFence);
    const decision = kernel.decide(prior, asked.lock, command, BigInt(nowMs), space, LIMITS);
    return {
      reply: untyped(decision.reply, asked.lock),
      change: decision.change,
      lastFence: decision.lastFence,
      waiters: waiters(decision, asked.lock),
      dueMs: plain(decision.wakeAt ?? decision.cleanAt),
    };
  },

  readList: throughWire.readList,
};

function waiters({ grants, departures }: Decision, lock: string): Decided["waiters"] {
  return [
    ...grants.map(({ requestId, grant }) => ({
      ask: { token: grant.lease.token, requestId },
      reply: untyped({ tag: "granted", val: grant }, lock),
    })),
    ...departures.map(({ ask, reply }) => ({ ask, reply: untyped(reply, lock) })),
  ];
}

const TEXTS = ["token", "requestId", "clientId", "reason"];
const NUMBERS = ["ttlMs", "waitMs", "maxHoldMs", "lockDelayMs", "limit", "fence"];
const MEMBERS: Record<string, readonly string[]> = {
  acquire: ["token", "requestId", "mode", "steal", "info", "clientId", ...NUMBERS.slice(0, 5)],
  renew: ["token", "fence", "ttlMs"],
  release: ["token", "fence"],
  cancel: ["token", "requestId"],
  standing: ["token", "requestId"],
  revoke: ["fence", "reason"],
  inspect: [],
  tick: [],
};
const REQUIRED = ["token", "requestId", "fence"];

/** Undefined where there is no such value of the type. */
function typed({ op, fields }: Asked): Command | undefined {
  const members = MEMBERS[op] ?? [];
  const isWhole =
    op === "revoke" || members.every((name) => !REQUIRED.includes(name) || name in fields);
  const areTyped = Object.entries(fields).every(([name, value]) => {
    if (!members.includes(name)) return false;
    if (TEXTS.includes(name)) return typeof value === "string";
    if (NUMBERS.includes(name))
      return Number.isInteger(value) && Number(value) >= 0 && !Object.is(value, -0);
    if (name === "mode") return value === "exclusive" || value === "shared";
    return name === "info" || typeof value === "boolean";
  });
  if (!isWhole || !areTyped) return undefined;
  const val = {
    mode: "exclusive",
    steal: false,
    ...Object.fromEntries(
      Object.entries(fields).map(([name, value]) => {
        if (name === "info") return [name, JSON.stringify(value)];
        return [name, typeof value === "number" ? BigInt(value) : value];
      }),
    ),
  };
  return { tag: op, val } as unknown as Command;
}

/** A typed reply as the wire says it. */
function untyped(reply: TypedReply, lock: string): Reply {
  switch (reply.tag) {
    case "granted":
    case "held":
    case "waiting":
      return { status: reply.tag, ...(plain(reply.val) as Reply) };
    case "renewed":
      return { status: reply.tag, lease: plain(reply.val) };
    case "lost":
      return { status: reply.tag, reason: reply.val };
    case "released":
    case "cancelled":
      return { status: reply.tag };
    case "revoked":
      return { revoked: plain(reply.val) };
    case "inspected":
      return { lock, ...(plain(reply.val) as Reply) };
    case "settled":
      return {};
    case "refused": {
      const code = reply.val.tag.replaceAll("-", "_");
      return reply.val.tag === "invalid-argument" ? { code, field: reply.val.val.field } : { code };
    }
  }
}

/** Integers as numbers, `info` as what its text says. */
function plain<T>(value: T): any {
  if (typeof value === "bigint") return Number(value);
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== "object") return value;
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(
    members.map(([name, member]) => [name, name === "info" ? JSON.parse(member) : plain(member)]),
  );
}

export type { Fields };
