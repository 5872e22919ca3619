// The sums of docs/scale.md are right.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

const page = await readFile(new URL("../docs/scale.md", import.meta.url), "utf8");

/** Lines `label    left = right`; numbers as JavaScript writes them, some of them money. */
const sums = [...page.matchAll(/^```sum\n([^]*?)^```$/gm)].flatMap(([, block = ""]) =>
  block.trimEnd().split("\n"),
);

test("every sum on the page is right, to the last digit that it shows", () => {
  assert.ok(sums.length > 30);
  for (const sum of sums) {
    const [, left = "", right = ""] = /^.+? {2,}(\S.*) = \$?([\d_.]+)$/.exec(sum) ?? [];
    const shown = right.replaceAll("_", "");
    const digits = shown.split(".")[1]?.length ?? 0;
    assert.equal(value(left).toFixed(digits), shown, sum);
  }
});

function value(sum: string): number {
  const plain = sum.replaceAll("$", "");
  assert.match(plain, /^[\d_.()+*/ -]+$/, sum);
  return Number(Function(`return ${plain}`)());
}
