// Tokens and keys are looked for in everything the service says during a long run: they are nowhere but in the replies
// to their own holder.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { makeKey, posted, protocolsOf, secretOf, Socket } from "./support/keys.ts";
import { type Fields, type Json, Store, until } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

const keys = [
  makeKey("operator", ["read", "lock", "admin"]),
  makeKey("worker", ["lock"]),
  makeKey("viewer", ["read"]),
];
const [operator, worker, viewer] = keys as [Key, Key, Key];
type Key = ReturnType<typeof makeKey>;

/** Everything that was ever sent as a token. */
const tokens = new Set<string>();

function secretAsk(fields: Fields = {}): Fields & { token: string; requestId: string } {
  const token = `token-${randomUUID()}`;
  tokens.add(token);
  return { token, requestId: randomUUID(), ...fields };
}

/** How often a holder was told its own token. */
let told = 0;

/** Fails where a text has a token in it other than those that may be there, or a key. */
function assertSilent(text: string, what: string, ...own: string[]): void {
  for (const token of text.match(/token-[0-9a-f-]{36}/g) ?? []) {
    assert.ok(own.includes(token), `${what} tells a token: ${text.slice(0, 500)}`);
    told += 1;
  }
  for (const { key, entry } of keys) {
    assert.ok(!text.includes(key), `${what} tells a key`);
    assert.ok(!text.includes(entry.sha256), `${what} tells a digest`);
  }
}

test("no token and no key is ever told to anybody but its own holder", async () => {
  await using workerd = await Workerd.start({
    artefact: "target/faults/dist",
    variables: {
      LEASEHOLD_KEYS: secretOf(keys),
      LEASEHOLD_WAITERS_PER_LOCK: "3",
      LEASEHOLD_LOCKS_PER_SPACE: "20",
      COUNT_EVENTS: "true",
    },
  });
  const spaces = ["one", "two"].map((name) => ({ name, store: new Store(workerd, name) }));
  let answers = 0;
  const send = async (
    space: string,
    path: string,
    init: RequestInit,
    ...own: string[]
  ): Promise<Json> => {
    const response = await fetch(`${workerd.url}/v1/spaces/${space}${path}`, init);
    const text = `${[...response.headers].join("\n")}\n${await response.text()}`;
    assertSilent(text, `${init.method ?? "GET"} ${path}`, ...own);
    answers += 1;
    const body = text.slice(text.lastIndexOf("\n") + 1);
    return body.startsWith("{") ? JSON.parse(body) : undefined;
  };
  const command = (space: string, op: string, lock: string, fields: Fields, key = operator.key) =>
    send(
      space,
      `/locks/${lock}/${op}`,
      posted(fields, key),
      ...(mayTell(op) ? [String(fields["token"])] : []),
    );
  const look = (space: string, path: string, key = operator.key) =>
    send(space, path, { headers: { authorization: `Bearer ${key}` } });

  for (const { name, store } of spaces) {
    const watcher = await Socket.open(workerd.url, name, { protocols: protocolsOf(viewer.key) });
    assertSilent(JSON.stringify(await watcher.ask("watch", undefined)), "watch");
    const contender = await Socket.open(workerd.url, name, {
      protocols: protocolsOf(operator.key),
    });
    for (let round = 0; round < 60; round += 1) {
      const lock = `lock-${round % 12}`;
      const asked = secretAsk({ clientId: `c${round}`, info: { round }, ttlMs: 60_000 });
      const granted = await command(name, "acquire", lock, asked);
      const fence = granted?.lease?.fence ?? 1;
      const { token, requestId } = asked;
      const renewed = command(name, "renew", lock, { token, fence });
      const waiting = secretAsk({ waitMs: 100 });
      const waited = command(name, "acquire", lock, waiting);
      await Promise.all([
        renewed,
        command(name, "acquire", lock, secretAsk(), worker.key),
        // With everything that can be wrong.
        command(name, "acquire", lock, secretAsk({ ttlMs: 1 })),
        command(name, "acquire", lock, secretAsk({ unknown: 1 })),
        command(name, "acquire", lock, secretAsk({ steal: true }), worker.key),
        command(name, "acquire", "-bad", secretAsk()),
        command(name, "acquire", lock, secretAsk(), viewer.key),
        command(name, "renew", lock, { token: secretAsk().token, fence: fence + 1 }),
        command(name, "release", lock, { token: secretAsk().token, fence }),
        send(
          name,
          `/locks/${lock}/acquire`,
          posted(JSON.stringify(secretAsk()).slice(0, -3), operator.key),
        ),
        send(
          name,
          `/locks/${lock}/acquire`,
          posted(`{"token":"${secretAsk().token}","token":1}`, operator.key),
        ),
        send(name, `/locks/${lock}/acquire`, posted(secretAsk(), `${operator.key}x`)),
        send(
          name,
          `/locks/${lock}/acquire?token=${secretAsk().token}`,
          posted(secretAsk(), operator.key),
        ),
        send(name, `/locks?key=${operator.key}`, {}),
        look(name, `/locks/${lock}`),
        look(name, "/locks?pageSize=1000", viewer.key),
        look(name, "/metrics"),
        look(name, "/audit"),
      ]);
      const framed = secretAsk({ waitMs: 50 });
      const reply = await contender.ask("acquire", lock, framed);
      assertSilent(JSON.stringify(reply), "a frame", framed.token);
      if (round % 4 === 0) await command(name, "revoke", lock, { reason: "by the test" });
      if (round % 4 === 1) await command(name, "acquire", lock, secretAsk({ steal: true }));
      if (round % 4 === 2) await command(name, "release", lock, { token, fence });
      if (round % 4 === 3) await command(name, "cancel", lock, { token, requestId });
      await waited;
    }
    // A write that fails, a trap, an eviction.
    await store.call("breakStorage");
    await command(name, "acquire", "broken", secretAsk());
    await store.call("mendStorage");
    await store.call("panic");
    await command(name, "acquire", "after", secretAsk());
    assertSilent(JSON.stringify(await store.call("points")), "the dataset");
    // What the watcher was told, all of it.
    assertSilent(JSON.stringify(await watcher.ask("list", undefined)), "a list");
    for (let at = 0; at < 100; at += 1) {
      assertSilent(JSON.stringify(await watcher.told(({ push }) => push === "changed")), "a push");
    }
    await watcher[Symbol.asyncDispose]();
    await contender[Symbol.asyncDispose]();
  }
  await until(async () => (workerd.log.match(/"event":"panic"/g) ?? []).length === 2, 5_000);
  const lines = workerd.log.split("\n").filter(Boolean);
  for (const event of ["act", "refused", "failed_flush", "panic", "reset"]) {
    assert.ok(
      lines.some((line) => line.includes(`"event":"${event}"`)),
      event,
    );
  }
  for (const line of lines) assertSilent(line, "the log");
  // Where it may be it was seen.
  assert.ok(told > 50, `${told} tokens were told`);
  assert.ok(answers > 2_000 && tokens.size > 1_500, `${answers} answers, ${tokens.size} tokens`);
});

/** Which replies have the lease of whoever asked. */
function mayTell(op: string): boolean {
  return ["acquire", "renew", "cancel"].includes(op);
}
