// The component in V8: the vectors by both interfaces, and what no host should pass.
import assert from "node:assert/strict";
import { test } from "node:test";
import { kernel, wire } from "../target/components/js/decider/decider.js";
import { Host } from "./component/host.ts";
import { LIMITS, spaceOf, throughKernel, throughWire } from "./component/kernels.ts";
import { difference, type Store, vectors } from "./component/vectors.ts";

async function play(make: () => Store) {
  assert.ok(vectors.length > 50);
  const differences: string[] = [];
  for (const vector of vectors) {
    const differs = await difference(vector, make());
    if (differs !== undefined) differences.push(differs);
  }
  assert.deepEqual(differences, []);
}

test("every vector holds through the interface wire, in V8", () =>
  play(() => new Host(throughWire)));

test("every vector holds through the interface kernel, in V8", () =>
  play(() => new Host(throughKernel)));

test("bytes that are no record are an error with a name, and the instance goes on", () => {
  const decide = (prior: Uint8Array) =>
    kernel.decide(prior, "lock", { tag: "inspect" }, 0n, spaceOf(0n), LIMITS);
  const fault = (tag: string) => (error: { tag: string }) => error.tag === tag;
  assert.throws(() => decide(new Uint8Array([9, 1, 2])), fault("newer-record"));
  for (let length = 0; length < 2_000; length += 1) {
    const bytes = Uint8Array.from({ length }, (_, at) =>
      at === 0 ? 1 : (at * 31 + length * 7) % 256,
    );
    assert.throws(() => decide(bytes), fault("unreadable-record"));
  }
  assert.equal(decide(stored()).reply.tag, "inspected");
});

test("a number that is no length is refused, at the boundary or by its name, and not rounded", () => {
  const ask = (ttlMs: unknown) => {
    const val = { token: "t", requestId: "r", mode: "exclusive", steal: false, ttlMs } as never;
    return kernel.decide(undefined, "lock", { tag: "acquire", val }, 0n, spaceOf(0n), LIMITS).reply;
  };
  for (const ttlMs of [1.5, 30_000.5, NaN, Infinity, {}, "thirty"]) {
    assert.throws(() => ask(ttlMs), String(ttlMs));
  }
  for (const ttlMs of [
    0n,
    49n,
    86_400_001n,
    2n ** 53n + 1n,
    2n ** 64n - 1n,
    -1,
    1e300,
    "30",
    true,
  ]) {
    const reply = ask(ttlMs);
    assert.ok(reply.tag === "refused" && reply.val.tag === "invalid-argument", String(ttlMs));
    assert.equal(reply.val.val.field, "ttlMs");
  }
});

function stored(): Uint8Array {
  const fields = JSON.stringify({ token: "a", requestId: "1" });
  const { change } = wire.decide(undefined, "acquire", "lock", fields, 0n, spaceOf(0n), LIMITS);
  assert.ok(change.tag === "store");
  return change.val;
}
