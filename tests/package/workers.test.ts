// The packed package in a user's Worker, bundled from node_modules and run by wrangler: in TypeScript and in JavaScript.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { plainJavaScript } from "../support/plain-javascript.ts";
import { UserFolder } from "../support/user-folder.ts";
import { assertRising } from "./every-way.ts";
import { scenario } from "./scenario.ts";

let folder: UserFolder;

before(async () => {
  folder = await UserFolder.create();
});
after(() => folder?.[Symbol.asyncDispose]());

for (const [language, ending] of [
  ["TypeScript", "ts"],
  ["JavaScript", "js"],
] as const) {
  test(`a Worker in ${language}`, async () => {
    await folder.write(`${language}/worker.${ending}`, source("worker/worker.ts", ending));
    await folder.write(`${language}/scenario.${ending}`, source("scenario.ts", ending));
    const config = source("worker/wrangler.jsonc", "ts").replace("worker.ts", `worker.${ending}`);
    await folder.write(`${language}/wrangler.jsonc`, config);
    const url = await folder.serve(`${language}/wrangler.jsonc`);

    const { byStub, inProcess } = (await ask(url, "/scenario")) as Record<string, number[]>;
    assertRising(byStub!);
    assertRising(inProcess!);
    assertRising(await scenario(url));

    const counts = await Promise.all(Array.from({ length: 20 }, () => ask(url, "/count")));
    const inOrder = (counts as number[]).sort((one, other) => one - other);
    assert.deepEqual(
      inOrder,
      Array.from({ length: 20 }, (_, index) => index + 1),
    );
  });
}

function source(path: string, ending: "ts" | "js"): string {
  return ending === "js"
    ? plainJavaScript(`tests/package/${path}`)
    : readFileSync(join(import.meta.dirname, path), "utf8");
}

async function ask(url: string, path: string): Promise<unknown> {
  const response = await fetch(url + path);
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return JSON.parse(text);
}
