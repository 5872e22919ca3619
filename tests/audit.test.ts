// The trail of administrative acts: who ended whose lease, kept with the space.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { bearer, makeKey, posted, protocolsOf, secretOf, Socket } from "./support/keys.ts";
import { ask, type Answer, type Json, Store, until } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

const operator = makeKey("operator", ["read", "lock", "admin"]);
const worker = makeKey("worker", ["read", "lock"]);

let workerd: Workerd;

before(async () => {
  workerd = await Workerd.start({ variables: { LEASEHOLD_KEYS: secretOf([operator, worker]) } });
});
after(() => workerd[Symbol.asyncDispose]());

/** A space as the operator sees it. */
class Space {
  readonly name: string;
  readonly store: Store;

  constructor(name: string) {
    this.name = name;
    this.store = new Store(workerd, name);
  }

  command(op: string, lock: string, fields: unknown): Promise<Answer> {
    return this.store.send(`/locks/${lock}/${op}`, posted(fields, operator.key));
  }

  async hold(lock: string, fields = {}): Promise<number> {
    return (await this.command("acquire", lock, ask(fields))).reply.lease.fence;
  }

  async acts(query = ""): Promise<Json> {
    const { status, reply } = await this.store.send(`/audit${query}`, {
      headers: bearer(operator.key),
    });
    assert.equal(status, 200, JSON.stringify(reply));
    return reply;
  }
}

test("a revocation and a steal are kept with key, lock, fence, reason and way", async () => {
  const space = new Space("kept");
  const [one, two] = [await space.hold("a"), await space.hold("b")];
  const start = Date.now();
  await space.command("revoke", "a", { fence: one, reason: "stuck since noon" });
  await using socket = await Socket.open(workerd.url, "kept", {
    protocols: protocolsOf(operator.key),
  });
  const stolen = await socket.ask("acquire", "b", ask({ steal: true }));
  const { acts, cursor } = await space.acts();
  assert.equal(cursor, undefined);
  for (const { at } of acts) assert.ok(at >= start && at <= Date.now() + 1_000);
  assert.deepEqual(
    acts.map(({ at: _, ...act }: Json) => act),
    [
      {
        act: "steal",
        lock: "b",
        fence: two,
        ended: 1,
        key: "operator",
        via: "socket",
        newFence: stolen.lease.fence,
      },
      {
        act: "revoke",
        lock: "a",
        fence: one,
        ended: 1,
        key: "operator",
        via: "http",
        reason: "stuck since noon",
      },
    ],
  );
  // The log has them too.
  const lines = () => workerd.log.split("\n").filter((line) => line.includes('"event":"act"'));
  await until(async () => lines().length >= 2, 5_000);
  const [revoked] = lines().map((line) => JSON.parse(line) as Json);
  assert.deepEqual(
    [revoked.space, revoked.act, revoked.lock, revoked.fence, revoked.key],
    ["kept", "revoke", "a", one, "operator"],
  );
});

test("what ended no lease is no act", async () => {
  const space = new Space("none");
  const fence = await space.hold("a");
  await space.command("revoke", "free", {});
  await space.command("revoke", "a", { fence: fence + 1 });
  await space.command("acquire", "b", ask({ steal: true }));
  await space.store.send("/locks/a/revoke", posted({}, worker.key));
  await space.command("acquire", "a", ask());
  assert.deepEqual(await space.acts(), { acts: [] });
  assert.deepEqual(await space.store.call("audit"), { acts: [] });
});

test("a steal that is repeated is one act", async () => {
  const space = new Space("repeated");
  await space.hold("a");
  const steal = ask({ steal: true });
  const [first, again] = [
    await space.command("acquire", "a", steal),
    await space.command("acquire", "a", steal),
  ];
  assert.equal(first.reply.lease.fence, again.reply.lease.fence);
  assert.equal((await space.acts()).acts.length, 1);
});

test("every shared lease that a revocation ends is in one act", async () => {
  const space = new Space("shared");
  for (let at = 0; at < 5; at += 1) await space.hold("a", { mode: "shared" });
  await space.command("revoke", "a", {});
  const [act, ...others] = (await space.acts()).acts;
  assert.deepEqual([act.ended, others.length], [5, 0]);
});

test("what the account's own code does is in the log and not in the trail", async () => {
  const space = new Space("own");
  await space.hold("a");
  await space.store.call("revoke", "a", { reason: "by the binding" });
  assert.deepEqual((await space.acts()).acts, []);
  await until(
    async () => /"act":"revoke".*"via":"binding".*"by the binding"/.test(workerd.log),
    5_000,
  );
});

test("the trail survives a restart, and is durable when the answer is there", async () => {
  const space = new Space("durable");
  await space.hold("a");
  await space.command("revoke", "a", { reason: "first" });
  await workerd.restart();
  assert.equal((await space.acts()).acts[0].reason, "first");
});

test("it is read in pages, the latest first", async () => {
  const space = new Space("pages");
  for (let at = 0; at < 7; at += 1) {
    await space.hold("a");
    await space.command("revoke", "a", { reason: String(at) });
  }
  const seen: string[] = [];
  let query = "?pageSize=3";
  for (;;) {
    const { acts, cursor } = await space.acts(query);
    seen.push(...acts.map(({ reason }: Json) => reason));
    if (cursor === undefined) break;
    query = `?pageSize=3&cursor=${cursor}`;
  }
  assert.deepEqual(seen, ["6", "5", "4", "3", "2", "1", "0"]);
  for (const [query, field] of [
    ["?pageSize=0", "pageSize"],
    ["?pageSize=1001", "pageSize"],
    ["?pageSize=x", "pageSize"],
    ["?cursor=x", "cursor"],
    ["?cursor=-1", "cursor"],
    ["?cursor=%2B1", "cursor"],
    ["?since=1", "since"],
  ] as const) {
    const { status, reply } = await space.store.send(`/audit${query}`, {
      headers: bearer(operator.key),
    });
    assert.deepEqual([status, reply.field], [400, field], query);
  }
});

test("the latest 1000 acts are kept, whatever is in them", async () => {
  const space = new Space("bounded");
  await using socket = await Socket.open(workerd.url, "bounded", {
    protocols: protocolsOf(operator.key),
  });
  const lock = 'a"\\\u0000\n\u2028é';
  for (let round = 0; round < 21; round += 1) {
    const commands = Array.from({ length: 50 }, (_, at) => [
      { id: 2 * at, op: "acquire", lock, ...ask() },
      { id: 2 * at + 1, op: "revoke", lock, reason: `${round * 50 + at}` },
    ]).flat();
    // A message is 16 KiB at most.
    for (let at = 0; at < commands.length; at += 20) {
      socket.send(commands.slice(at, at + 20));
      await socket.told(Array.isArray);
    }
  }
  const { acts } = await space.acts("?pageSize=1000");
  assert.equal(acts.length, 1_000);
  assert.deepEqual([acts[0].reason, acts[0].lock, acts.at(-1).reason], ["1049", lock, "50"]);
});
