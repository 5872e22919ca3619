// `leasehold` as npm installs it, in a folder of a user's own, with the oldest Node that it is for.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { oldestNode } from "./support/command-line.ts";
import { until } from "./support/store.ts";
import { UserFolder } from "./support/user-folder.ts";

const root = resolve(import.meta.dirname, "..");
const execute = promisify(execFile);

interface Failed {
  readonly code: number;
  readonly stderr: string;
}

test("installed from the tarball, the command serves and runs, and says what is missing", async () => {
  await using user = await UserFolder.create();
  const bin = join(user.path, "node_modules/.bin/leasehold");
  // No workerd on the path, and the oldest Node first.
  const PATH = `${dirname(oldestNode())}:${dirname(process.execPath)}:/usr/bin:/bin`;
  const env = { PATH, HOME: user.path };
  const call = (file: string, args: string[], more = {}) =>
    execute(file, args, { cwd: user.path, env: { ...env, ...more } });
  const fails = (args: string[], more = {}): Promise<Failed> =>
    call(bin, args, more).then(
      () => assert.fail("it did not fail"),
      (error: Failed) => error,
    );

  const { version } = (await import("../package.json", { with: { type: "json" } })).default;
  const { stdout } = await call("npx", ["--offline", "leasehold", "--version"]);
  assert.equal(stdout, `${version}\n`);

  const missing = await fails(["serve", "--open", "--port", "0"]);
  assert.equal(missing.code, 69);
  assert.match(
    missing.stderr,
    /workerd, and it is not installed: npm install workerd@">=1\.\d{8}"/,
  );

  const old = join(user.path, "old-workerd");
  await writeFile(old, "#!/bin/sh\necho workerd 2024-01-01\n");
  await chmod(old, 0o755);
  const refused = await fails(["serve", "--open"], { LEASEHOLD_WORKERD: old });
  assert.equal(refused.code, 69);
  assert.match(refused.stderr, /is of 2024-01-01, and 2\d{3}-\d\d-\d\d or newer is needed/);

  // As `npm install wrangler` would bring it, without a name of its own at the top.
  await mkdir(join(user.path, "node_modules"), { recursive: true });
  await symlink(join(root, "node_modules/wrangler"), join(user.path, "node_modules/wrangler"));
  const serve = spawn(bin, ["serve", "--open", "--port", "0"], {
    cwd: user.path,
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    let said = "";
    serve.stdout.setEncoding("utf8").on("data", (text: string) => (said += text));
    const url = () => /serving (\S+), state in .*\.leasehold$/m.exec(said)?.[1];
    await until(async () => url() !== undefined, 30_000);
    const LEASEHOLD_URL = url()!;
    const words = ["run", "a", "--", "sh", "-c", "echo $LEASEHOLD_FENCE; node --version"];
    const ran = await call(bin, words, { LEASEHOLD_URL });
    assert.match(ran.stdout, /^\d+\nv20\.\d+\.\d+\n$/);
  } finally {
    const exit = new Promise((resolve) => serve.once("exit", resolve));
    serve.kill("SIGTERM");
    assert.equal(await exit, 0);
  }
});
