// The packed package's types in a user's project: strict, with the declaration files checked as well; and what tsc writes
// runs. In a Worker there are the types of workerd; elsewhere nothing of any platform is asked for but what the place has.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { makeKey, secretOf } from "../support/keys.ts";
import { UserFolder } from "../support/user-folder.ts";
import { Workerd } from "../support/workerd.ts";
import { assertEveryWay } from "./every-way.ts";

const compiler = resolve(import.meta.dirname, "../../node_modules/typescript/bin/tsc");
const admin = makeKey("admin", ["read", "lock", "admin"]);

/** Each has its own idea of what a module is called. */
const RESOLUTIONS = {
  bundler: { module: "esnext", moduleResolution: "bundler" },
  nodenext: { module: "nodenext" },
};

/** Where code is to run, and what is known there. */
const PLACES = {
  browser: { lib: ["es2022", "dom"], types: [], text: 'everyWay(location.origin, "key");' },
  Node: {
    lib: ["es2022"],
    types: ["node"],
    text: "everyWay(...(process.argv.slice(2) as [string, string])).then((fences) => console.log(JSON.stringify(fences)));",
  },
  Worker: { lib: ["es2022"], types: ["@cloudflare/workers-types"], text: undefined },
};

let folder: UserFolder;
let workerd: Workerd;

before(async () => {
  folder = await UserFolder.create();
  for (const name of ["@types/node", "undici-types", "@cloudflare/workers-types"]) {
    await folder.link(name);
  }
  workerd = await Workerd.start({ variables: { LEASEHOLD_KEYS: secretOf([admin]) } });
});
after(async () => {
  await workerd?.[Symbol.asyncDispose]();
  await folder?.[Symbol.asyncDispose]();
});

for (const [resolution, options] of Object.entries(RESOLUTIONS)) {
  for (const [place, { lib, types, text }] of Object.entries(PLACES)) {
    test(`${resolution}, ${place}`, async () => {
      const home = `${resolution}/${place}`;
      await folder.write(`${home}/scenario.ts`, source("scenario.ts"));
      const main = text
        ? `import { everyWay } from "./scenario.js";\n${text}\n`
        : source("worker/worker.ts");
      await folder.write(`${home}/main.ts`, main);
      const strict = { strict: true, exactOptionalPropertyTypes: true, skipLibCheck: false };
      const compilerOptions = {
        target: "es2022",
        lib,
        types,
        ...options,
        ...strict,
        outDir: "out",
        rootDir: ".",
      };
      await folder.write(`${home}/tsconfig.json`, JSON.stringify({ compilerOptions }));
      await folder.execute(process.execPath, [compiler, "--project", home]);
      if (place !== "Node") return;
      const words = [`${home}/out/main.js`, workerd.url, admin.key];
      assertEveryWay(JSON.parse(await folder.execute(process.execPath, words)));
    });
  }
}

function source(path: string): string {
  return readFileSync(join(import.meta.dirname, path), "utf8");
}
