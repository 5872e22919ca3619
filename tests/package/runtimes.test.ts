// The packed package, installed by npm into an empty folder, in every runtime that is no browser and no Worker.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { makeKey, secretOf } from "../support/keys.ts";
import { plainJavaScript } from "../support/plain-javascript.ts";
import { UserFolder } from "../support/user-folder.ts";
import { Workerd } from "../support/workerd.ts";
import { assertEveryWay } from "./every-way.ts";

const modules = resolve(import.meta.dirname, "../node_modules");
const admin = makeKey("admin", ["read", "lock", "admin"]);

let folder: UserFolder;
let workerd: Workerd;

before(async () => {
  workerd = await Workerd.start({ variables: { LEASEHOLD_KEYS: secretOf([admin]) } });
  folder = await UserFolder.create();
  await folder.write("scenario.js", plainJavaScript("tests/package/scenario.ts"));
  await folder.write(
    "main.js",
    `import { everyWay } from "./scenario.js";
const [url, key] = ${JSON.stringify([workerd.url, admin.key])};
console.log(JSON.stringify(await everyWay(url, key)));`,
  );
});

after(async () => {
  await workerd?.[Symbol.asyncDispose]();
  await folder?.[Symbol.asyncDispose]();
});

for (const major of [20, 26]) {
  test(`Node ${major}`, async () => {
    const node = nodeOf(major);
    assert.match(await folder.execute(node, ["--version"]), new RegExp(`^v${major}\\.`));
    assertEveryWay(JSON.parse(await folder.execute(node, ["main.js"])));
  });
}

test("Deno, allowed nothing but the network", async () => {
  const words = ["run", "--no-prompt", `--allow-net=${new URL(workerd.url).host}`, "main.js"];
  const variables = { DENO_DIR: join(folder.path, "deno"), DENO_NO_UPDATE_CHECK: "1" };
  const printed = await folder.execute(join(modules, "deno/deno"), words, variables);
  assertEveryWay(JSON.parse(printed));
});

test("Bun", async () => {
  const printed = await folder.execute(join(modules, "bun/bin/bun.exe"), ["run", "main.js"]);
  assertEveryWay(JSON.parse(printed));
});

/** A Node of that version: npm's where npm has one for this machine, else the one that is named or on the path. */
function nodeOf(major: number): string {
  const npms = join(modules, `node${major}-${process.platform}-${process.arch}/bin/node`);
  return existsSync(npms) ? npms : (process.env[`LEASEHOLD_NODE_${major}`] ?? "node");
}
