// The public types in a user's project, strictly and with the declaration files checked as well: what passes, and what
// does not, is the same with the types of workerd and without.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { UserFolder } from "../support/user-folder.ts";

const compiler = resolve(import.meta.dirname, "../../node_modules/typescript/bin/tsc");
const surface = readFileSync(join(import.meta.dirname, "../binding-types.ts"), "utf8");

/** Only pages have the Web Locks API. */
const WITHOUT_LOCKS = "interface LockManager { query(): Promise<object> }\n";

const disposable = ["es2024", "esnext.disposable"];
const PLACES = {
  "without the types of any platform": { lib: [...disposable, "dom"], types: [], more: "" },
  "with @cloudflare/workers-types": {
    lib: disposable,
    types: ["@cloudflare/workers-types"],
    more: WITHOUT_LOCKS,
  },
};

let folder: UserFolder;

before(async () => {
  folder = await UserFolder.create();
  await folder.link("@cloudflare/workers-types");
});
after(() => folder?.[Symbol.asyncDispose]());

for (const [place, { lib, types, more }] of Object.entries(PLACES)) {
  test(place, async () => {
    const home = place.replaceAll(/\W/g, "-");
    await folder.write(`${home}/surface.ts`, surface + more);
    const compilerOptions = {
      target: "es2024",
      module: "nodenext",
      lib,
      types,
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: false,
      noEmit: true,
    };
    await folder.write(`${home}/tsconfig.json`, JSON.stringify({ compilerOptions }));
    await folder.execute(process.execPath, [compiler, "--project", home]);
  });
}
