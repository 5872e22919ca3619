// The package as npm would publish it, in a Worker of a user's own, bundled and run by wrangler.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { after, before, test } from "node:test";
import { Leasehold } from "leasehold";
import { cases, waiting, watching } from "./support/cases.ts";
import { UserFolder } from "./support/user-folder.ts";

let folder: UserFolder;
let url: string;

before(
  async () => {
    folder = await UserFolder.create();
    for (const name of ["user-worker/index.ts", "user-worker/wrangler.jsonc", "support/cases.ts"]) {
      await folder.write(name, readFileSync(resolve(import.meta.dirname, name), "utf8"));
    }
    url = await folder.serve("user-worker/wrangler.jsonc");
  },
  { timeout: 90_000 },
);

after(() => folder?.[Symbol.asyncDispose]());

test("one export line and one binding: a critical section is guarded", async () => {
  const answers = await Promise.all(
    Array.from(
      { length: 30 },
      async () =>
        (await fetch(`${url}/count`)).json() as Promise<{ counter: number; fence: number }>,
    ),
  );
  assert.deepEqual(
    answers.map(({ counter }) => counter).sort((a, b) => a - b),
    Array.from({ length: 30 }, (_, index) => index + 1),
  );
  assert.equal(new Set(answers.map(({ fence }) => fence)).size, 30);
});

test("the same Worker serves its leases over HTTP", async () => {
  const locks = new Leasehold(url);
  await locks.request("over HTTP", async ({ fence }) => assert.ok(fence > 0));
});

for (const over of ["stub", "service", "memory"]) {
  const long = over === "stub" ? waiting : {};
  for (const title of Object.keys({ ...cases, ...watching, ...long })) {
    test(`in workerd, over ${over}: ${title}`, async () => {
      const response = await fetch(`${url}/cases?${new URLSearchParams({ over, title })}`);
      assert.equal(await response.text(), "passed");
    });
  }
}
