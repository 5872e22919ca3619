// `leasehold serve`: a lease store of one's own, and what becomes of it when it is ended, killed and started again.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { describe, test } from "node:test";
import { Folder, Leasehold, leasehold, type Settings } from "./support/command-line.ts";
import { Store, until } from "./support/store.ts";

/** A serve that answers. */
class Served implements AsyncDisposable {
  readonly run: Leasehold;
  readonly url: string;

  private constructor(run: Leasehold, url: string) {
    this.run = run;
    this.url = url;
  }

  static async start(dir: string, words = ["--open"], settings: Settings = {}): Promise<Served> {
    const run = new Leasehold(["serve", "--port", "0", "--dir", dir, ...words, "--json"], settings);
    const [line] = await run.prints(/^\{.*\}$/m);
    const told = JSON.parse(line) as { url: string; dir: string };
    assert.equal(told.dir, dir);
    return new Served(run, told.url);
  }

  get store(): Store {
    return new Store(this);
  }

  /** The process of workerd. */
  async workerd(): Promise<number> {
    for (const pid of await this.run.processes()) {
      const line = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
      if (/workerd\0serve/.test(line)) return pid;
    }
    throw new Error("there is no workerd");
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    this.run.process.kill(signal);
    const { code, stderr } = await this.run.ended;
    assert.deepEqual([code, stderr], [0, ""]);
    await this.run.leavesNothing();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.run[Symbol.asyncDispose]();
  }
}

describe("leasehold serve", { concurrency: 4 }, () => {
  test("ended by SIGINT or SIGTERM it leaves no process, and started again it has the same leases", async () => {
    await using folder = await Folder.create();
    const words = ["acquire", "kept", "--ttl", "1h"];
    const first = await Served.start(folder.path);
    const { token, fence } = JSON.parse((await leasehold(words, first)).stdout);
    await first.end("SIGINT");
    const second = await Served.start(folder.path);
    const env = { LEASEHOLD_TOKEN: token, LEASEHOLD_FENCE: String(fence) };
    const renewed = await leasehold(["renew", "kept"], { url: second.url, env });
    assert.equal(renewed.code, 0, renewed.stderr);
    const later = await second.store.hold("other");
    assert.ok(later.fence > fence);
    await second.end("SIGTERM");
  });

  test("a socket's messages are not compressed, which takes longer than what they ask for", async () => {
    await using folder = await Folder.create();
    await using served = await Served.start(folder.path);
    const socket = new WebSocket(`${served.url.replace("http", "ws")}/v1/spaces/default/session`);
    await once(socket, "open");
    assert.equal(socket.extensions, "");
    socket.close();
  });

  test("workerd killed with SIGKILL loses nothing, and serve says so and ends", async () => {
    await using folder = await Folder.create();
    await using first = await Served.start(folder.path);
    const held = await Promise.all(
      Array.from({ length: 20 }, (_, at) => first.store.hold(`lock/${at}`, { ttlMs: 600_000 })),
    );
    process.kill(await first.workerd(), "SIGKILL");
    const { code, stderr } = await first.run.ended;
    assert.equal(code, 70);
    assert.match(stderr, /workerd ended with 137/);
    await first.run.leavesNothing();
    await using second = await Served.start(folder.path);
    for (const [at, lease] of held.entries()) {
      const { status } = await second.store.command("renew", `lock/${at}`, lease);
      assert.equal(status, 200);
    }
  });

  test("a folder has one serve; killed with SIGKILL, it takes workerd along and the folder is free", async () => {
    await using folder = await Folder.create();
    await using first = await Served.start(folder.path);
    const words = ["serve", "--open", "--port", "0", "--dir", folder.path];
    const { code, stderr } = await leasehold(words);
    assert.equal(code, 69);
    assert.match(stderr, /another serve uses .*: end it, or give another --dir/);
    first.run.process.kill("SIGKILL");
    await first.run.ended;
    await first.run.leavesNothing();
    await using _ = await Served.start(folder.path);
  });

  test("as long as workerd lives, also without its serve, nobody else serves the folder", async () => {
    await using folder = await Folder.create();
    await using first = await Served.start(folder.path);
    const workerd = await first.workerd();
    for (const pid of await first.run.processes())
      if (pid !== workerd) process.kill(pid, "SIGKILL");
    await until(async () => (await first.run.processes()).length === 1, 10_000);
    const words = ["serve", "--open", "--port", "0", "--dir", folder.path];
    assert.equal((await leasehold(words)).code, 69);
  });

  test("keys let in whom they are for", async () => {
    await using folder = await Folder.create();
    const keys = folder.file("keys.json");
    const made = async (id: string, allow: string) => {
      const words = ["key", id, "--spaces", "default,t-*", "--allow", allow, "--keys", keys];
      const { code, stdout } = await leasehold(words);
      assert.equal(code, 0);
      assert.match(stdout, /^lh_[\w-]{43}\n$/);
      return stdout.trim();
    };
    const locker = await made("locker", "lock");
    const reader = await made("reader", "read,admin");
    assert.equal((await readFile(keys, "utf8")).includes(locker), false);
    await using served = await Served.start(folder.path, ["--keys", keys]);
    const attempt = async (words: string[], LEASEHOLD_KEY: string) =>
      (await leasehold(words, { url: served.url, env: { LEASEHOLD_KEY } })).code;
    assert.equal(await attempt(["run", "a", "--", "true"], locker), 0);
    assert.equal(await attempt(["run", "a", "--space", "t-1", "--", "true"], locker), 0);
    assert.equal(await attempt(["run", "a", "--space", "other", "--", "true"], locker), 77);
    assert.equal(await attempt(["run", "a", "--", "true"], reader), 77);
    assert.equal(await attempt(["ls"], reader), 0);
    assert.equal(await attempt(["ls"], "lh_wrong"), 77);
  });

  test("keys that the store does not understand are no reason to let everybody in", async () => {
    await using folder = await Folder.create();
    for (const LEASEHOLD_KEYS of ["[]", "{}", '[{"id":"a"}]']) {
      const words = ["serve", "--port", "0", "--dir", folder.path];
      const one = new Leasehold(words, { env: { LEASEHOLD_KEYS, LEASEHOLD_OPEN: "true" } });
      const { code, stderr } = await one.ended;
      assert.equal(code, 64, LEASEHOLD_KEYS);
      assert.match(stderr, /--keys, or another setting, is not as it must be/);
      await one.leavesNothing();
    }
  });

  test("a port that is taken is told, and nothing is left over", async () => {
    await using folder = await Folder.create();
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const dir = folder.file("made");
    const one = new Leasehold(["serve", "--open", "--port", `${port}`, "--dir", dir]);
    const { code, stderr } = await one.ended;
    server.close();
    assert.equal(code, 69);
    assert.match(
      stderr,
      /^leasehold: serve cannot listen \(.*address already in use.*--port .*\n$/,
    );
    await one.leavesNothing();
    assert.deepEqual(await readdir(folder.path), []);
  });

  test("a folder that cannot be used is named, with what to do", async () => {
    await using folder = await Folder.create();
    await writeFile(folder.file("file"), "");
    for (const dir of [folder.file("file"), folder.file("file/below")]) {
      const { code, stderr } = await leasehold(["serve", "--open", "--port", "0", "--dir", dir]);
      assert.equal(code, 69);
      assert.match(stderr, /^leasehold: E[A-Z]+: .*: --dir sets another folder\n$/);
    }
  });

  test("a program that is no workerd is refused", async () => {
    await using folder = await Folder.create();
    const words = ["serve", "--open", "--port", "0", "--dir", folder.path];
    for (const LEASEHOLD_WORKERD of ["/bin/true", "/nowhere"]) {
      const { code, stderr } = await leasehold(words, { env: { LEASEHOLD_WORKERD } });
      assert.equal(code, 69);
      assert.match(stderr, /is no workerd that runs here/);
    }
  });

  test("its alarm rings for who watches, while nobody asks for anything", async () => {
    await using folder = await Folder.create();
    await using served = await Served.start(folder.path);
    await using watch = new Leasehold(["watch"], served);
    const { fence } = await served.store.hold("dead", { ttlMs: 12_000 });
    await watch.prints(new RegExp(`^expired fence ${fence}  dead  free$`, "m"), 40_000);
  });
});
