// What a run of scenario.ts that went well has resolved with.
import assert from "node:assert/strict";

/** Of each way to the store the three fences that were granted, one larger than the other. */
export function assertEveryWay(fences: Record<string, number[]>): void {
  assert.deepEqual(Object.keys(fences), ["bySocket", "byHttp", "inProcess"]);
  for (const way of Object.values(fences)) assertRising(way);
}

export function assertRising(fences: number[]): void {
  assert.equal(fences.length, 3);
  assert.ok(0 < fences[0]! && fences[0]! < fences[1]! && fences[1]! < fences[2]!, String(fences));
}
