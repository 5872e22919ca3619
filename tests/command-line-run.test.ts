// `leasehold run`, against a lease store on workerd.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { readFile, writeFile } from "node:fs/promises";
import { Folder, isAlive, Leasehold, leasehold, type Settings } from "./support/command-line.ts";
import { Proxy } from "./support/proxy.ts";
import { sleep, Store, until } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

let workerd: Workerd;
let store: Store;

before(async () => {
  workerd = await Workerd.start();
  store = new Store(workerd);
});

after(() => workerd[Symbol.asyncDispose]());

/** `leasehold run` with these words. */
function run(...words: string[]): Leasehold {
  return new Leasehold(["run", ...words], { url: workerd.url });
}

async function holders(lock: string): Promise<{ fence: number }[]> {
  return (await store.send(`/locks/${lock}`)).reply.holders;
}

async function isHeld(lock: string): Promise<boolean> {
  return (await holders(lock)).length > 0;
}

describe("leasehold run", { concurrency: 6 }, () => {
  test("runs of one lock do not overlap, and the fence in their environment rises", async () => {
    await using folder = await Folder.create();
    const log = folder.file("log");
    const script = `echo begin $LEASEHOLD_FENCE >> ${log}; sleep 0.1; echo end $LEASEHOLD_FENCE >> ${log}`;
    const runs = Array.from({ length: 6 }, () => run("turns", "--", "sh", "-c", script));
    for (const { code } of await Promise.all(runs.map(({ ended }) => ended))) {
      assert.equal(code, 0);
    }
    const lines = await folder.lines("log");
    const fences = lines.filter((_, at) => at % 2 === 0).map((line) => Number(line.split(" ")[1]));
    assert.deepEqual(
      lines,
      fences.flatMap((fence) => [`begin ${fence}`, `end ${fence}`]),
    );
    assert.equal(fences.length, 6);
    assert.ok(fences.every((fence, at) => at === 0 || fence > fences[at - 1]!));
    await Promise.all(runs.map((one) => one.leavesNothing()));
  });

  test("a lock that is held is refused as flock does it: at once, late, with which code, in silence", async () => {
    await store.hold("taken", { ttlMs: 60_000 });
    const refusals = [
      { words: ["-n"], code: 1 },
      { words: ["--nonblock", "-E", "9"], code: 9 },
      { words: ["-n", "--conflict-exit-code", "0"], code: 0 },
      { words: ["-w", "0"], code: 1 },
      { words: ["-s", "-n"], code: 1 },
    ];
    for (const { words, code } of refusals) {
      const ended = await run(...words, "taken", "--", "echo", "ran").ended;
      assert.deepEqual(ended, { code, signal: null, stdout: "", stderr: "" }, words.join(" "));
    }
    const start = performance.now();
    assert.equal((await run("taken", "-w", "0.5", "--", "true").ended).code, 1);
    assert.ok(performance.now() - start >= 500);
    const told = await run("taken", "-n", "--verbose", "--", "true").ended;
    assert.match(told.stderr, /^leasehold: somebody else has the lock; fence \d+ {2}exclusive, /);
    assert.deepEqual((await store.send("/locks/taken")).reply.waiters, []);
  });

  test("who waited is told that the lock was held, also if the connection broke meanwhile", async () => {
    await store.hold("broken", { ttlMs: 60_000 });
    await using proxy = await Proxy.before(workerd.url);
    const words = ["run", "broken", "-w", "4", "--", "true"];
    await using one = new Leasehold(words, { url: proxy.url });
    const waiters = async () => (await store.send("/locks/broken")).reply.waiters.length;
    await until(async () => (await waiters()) === 1, 20_000);
    const { connections } = proxy;
    proxy.cut();
    await until(async () => proxy.connections > connections, 20_000);
    assert.equal((await one.ended).code, 1);
  });

  test("shared holders run together, counted ones up to the limit, and exclude an exclusive one", async () => {
    await using folder = await Folder.create();
    const wait = `while ! [ -e ${folder.file("go")} ]; do sleep 0.05; done`;
    const both = (...words: string[]) => [run(...words, "-c", wait), run(...words, "-c", wait)];
    const runs = [...both("readers", "--shared"), ...both("permits", "--limit", "2")];
    for (const lock of ["readers", "permits"]) {
      await until(async () => (await holders(lock)).length === 2, 20_000);
    }
    assert.equal((await run("readers", "-n", "--", "true").ended).code, 1);
    assert.equal((await run("permits", "-n", "--limit", "2", "--", "true").ended).code, 1);
    await writeFile(folder.file("go"), "");
    for (const { ended } of runs) assert.equal((await ended).code, 0);

    await store.hold("full", { mode: "shared", limit: 1 });
    assert.equal((await run("full", "--limit", "1", "-n", "--", "true").ended).code, 1);
    const other = await run("full", "--limit", "2", "-n", "--", "true").ended;
    assert.equal(other.code, 64);
    assert.match(other.stderr, /--limit must be that of those who hold it/);
  });

  test("the command has its lease in its environment, and the token only if that is asked for", async () => {
    const env = { LEASEHOLD_TOKEN: "of-another-lease", LEASEHOLD_SPACE: "builds" };
    const words = ["run", "--url", workerd.url, "environment"];
    const plain = await leasehold([...words, "--", "env"], { env });
    const told = Object.fromEntries(
      plain.stdout
        .split("\n")
        .filter((line) => line.startsWith("LEASEHOLD_"))
        .map((line) => line.split(/=(.*)/s).slice(0, 2)),
    );
    assert.match(told.LEASEHOLD_FENCE, /^\d+$/);
    assert.deepEqual(told, {
      LEASEHOLD_LOCK: "environment",
      LEASEHOLD_SPACE: "builds",
      LEASEHOLD_URL: workerd.url,
      LEASEHOLD_FENCE: told.LEASEHOLD_FENCE,
    });
    const renewing = `${process.execPath} dist/command-line.js renew --json environment`;
    const own = await leasehold([...words, "--export-token", "-c", renewing], { env });
    assert.equal(own.code, 0, own.stderr);
    assert.equal(JSON.parse(own.stdout).lock, "environment");
  });

  test("the key is not in the command's environment unless that is asked for", async () => {
    const LEASEHOLD_KEY = "of-the-one-who-runs-it";
    const words = ["keyed", "-c", 'echo "<$LEASEHOLD_KEY>"'];
    const printed = async (more: string[], settings: Settings) =>
      (await leasehold(["run", ...more, ...words], { url: workerd.url, ...settings })).stdout;
    const env = { LEASEHOLD_KEY };
    assert.equal(await printed([], { env }), "<>\n");
    assert.equal(await printed(["--export-key"], { env }), `<${LEASEHOLD_KEY}>\n`);
    const stdin = "of-a-file";
    assert.equal(
      await printed(["--key-file", "-", "--export-key"], { env, stdin }),
      `<${stdin}>\n`,
    );
  });

  test("standard input, output and error are the command's", async () => {
    const ended = await leasehold(["run", "pipes", "-c", "cat; echo complaint >&2"], {
      url: workerd.url,
      stdin: "a line\n",
    });
    assert.deepEqual(ended, { code: 0, signal: null, stdout: "a line\n", stderr: "complaint\n" });
  });

  test("its exit code is the command's, and the lock is free then", async () => {
    const codes = [
      { words: ["--", "sh", "-c", "exit 7"], code: 7 },
      { words: ["-c", "kill -9 $$"], code: 137 },
      { words: ["-c", "kill -TERM $$"], code: 143 },
      { words: ["--", "no-such-command"], code: 127 },
      { words: ["--", "/etc/passwd"], code: 126 },
    ];
    for (const { words, code } of codes) {
      const one = run("codes", ...words);
      assert.equal((await one.ended).code, code, words.join(" "));
      assert.equal(await isHeld("codes"), false);
      await one.leavesNothing();
    }
  });

  test("signals are passed on to the command and what it started", async () => {
    await using folder = await Folder.create();
    const log = folder.file("log");
    const names = ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"];
    const traps = names.map((name) => `trap "echo $1 ${name} >> ${log}" ${name}`).join("\n");
    await writeFile(
      folder.file("trap.sh"),
      `${traps}\necho $1 ready >> ${log}\nwhile :; do sleep 0.1; done\n`,
    );
    // A pipe and not `&`, after which a shell has SIGINT and SIGQUIT ignored.
    const trap = `sh ${folder.file("trap.sh")}`;
    await using one = run(
      "signals",
      "-c",
      `trap : ${names.join(" ")}; ${trap} one | ${trap} other`,
    );
    const both = async (what: string) => {
      const lines = await folder.lines("log");
      return ["one", "other"].every((who) => lines.includes(`${who} ${what}`));
    };
    await until(() => both("ready"), 20_000);
    for (const name of names) {
      one.process.kill(`SIG${name}` as NodeJS.Signals);
      await until(() => both(name), 20_000);
    }

    const states = async () => {
      const pids = (await one.processes()).filter((pid) => pid !== one.pid);
      const stats = await Promise.all(
        [one.pid, ...pids].map((pid) => readFile(`/proc/${pid}/stat`, "utf8").catch(() => ") ?")),
      );
      return stats.map((stat) => stat.slice(stat.lastIndexOf(")") + 2)[0]);
    };
    one.process.kill("SIGTSTP");
    // The guard alone goes on.
    await until(async () => (await states()).filter((state) => state === "T").length >= 4, 20_000);
    one.process.kill("SIGCONT");
    await until(async () => !(await states()).includes("T"), 20_000);
  });

  test("a signal while it waits takes it out of the queue, and it dies of that signal", async () => {
    await store.hold("queue", { ttlMs: 60_000 });
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      const one = run("queue", "--", "echo", "ran");
      const waiters = async () => (await store.send("/locks/queue")).reply.waiters.length;
      await until(async () => (await waiters()) === 1, 20_000);
      one.process.kill(signal);
      const ended = await one.ended;
      assert.deepEqual([ended.signal, ended.stdout], [signal, ""]);
      assert.equal(await waiters(), 0);
    }
  });

  test("a revoked lease ends the command and what it started, whether they listen to SIGTERM or not", async () => {
    for (const [lock, deaf] of [
      ["revoked", ""],
      ["revoked-deaf", `trap "" TERM;`],
    ] as const) {
      await using folder = await Folder.create();
      const log = folder.file("pids");
      const script = `${deaf} sleep 300 & echo $! >> ${log}; echo $$ >> ${log}; wait; sleep 300`;
      await using one = run(lock, "--kill-after", "0.3", "-c", script);
      await until(async () => (await folder.lines("pids")).length === 2, 20_000);
      await store.command("revoke", lock, {});
      const { code, stderr } = await one.ended;
      assert.equal(code, 75);
      assert.match(
        stderr,
        /^leasehold: the lease on "revoked.*" was lost \(revoked\): ending the command\n$/,
      );
      for (const pid of await folder.lines("pids")) assert.equal(isAlive(Number(pid)), false);
      await one.leavesNothing();
    }
  });

  test("a command that cannot be ended softly is dead before its lease is over at the store", async () => {
    await using folder = await Folder.create();
    await using proxy = await Proxy.before(workerd.url);
    const beat = `trap "" TERM; while :; do date +%s%3N >> ${folder.file("beats")}; sleep 0.02; done`;
    await using one = new Leasehold(["run", "cut", "--ttl", "6", "-c", beat], { url: proxy.url });
    const beats = () => folder.lines("beats");
    await until(async () => (await beats()).length > 0, 20_000);
    proxy.isDeaf = true;
    await until(async () => !(await isHeld("cut")), 20_000);
    const freeAt = Date.now();
    const [last] = (await beats()).slice(-1);
    assert.ok(Number(last) < freeAt, `${last} is not before ${freeAt}`);
    const { code, stderr } = await one.ended;
    assert.equal(code, 75);
    assert.match(stderr, /"cut" is about to end: it was not renewed: ending the command\n/);
    assert.deepEqual((await beats()).slice(-1), [last]);
  });

  test("renewals go on as long as the command does, and stop at --max-hold", async () => {
    assert.equal((await run("long", "--ttl", "5", "--", "sleep", "7").ended).code, 0);
    const ended = await run("capped", "--max-hold", "1.5", "--", "sleep", "60").ended;
    assert.equal(ended.code, 75);
    assert.match(
      ended.stderr,
      /"capped" is about to end: --max-hold is over, or it was not renewed/,
    );
  });

  test("a lease that was over when it arrived was told of as a store that does not answer", async () => {
    await using proxy = await Proxy.before(workerd.url);
    proxy.delayMs = () => 50;
    const words = ["run", "short", "--max-hold", "10ms", "-n", "--", "true"];
    const { code, stderr } = await new Leasehold(words, { url: proxy.url }).ended;
    const says = "the lease was over when it arrived: give a longer --ttl or --max-hold";
    assert.deepEqual([code, stderr], [75, `leasehold: ${says}\n`]);
  });

  test("stopped by itself, it does not leave the command running past its lease", async () => {
    await using folder = await Folder.create();
    const beat = `trap "" TERM; while :; do date +%s%3N >> ${folder.file("beats")}; sleep 0.02; done`;
    await using one = run("frozen", "--ttl", "6", "-c", beat);
    const beats = () => folder.lines("beats");
    await until(async () => (await beats()).length > 0, 20_000);
    one.process.kill("SIGSTOP");
    await until(async () => !(await isHeld("frozen")), 20_000);
    const freeAt = Date.now();
    const [last] = (await beats()).slice(-1);
    assert.ok(Number(last) < freeAt, `${last} is not before ${freeAt}`);
    await sleep(200);
    assert.deepEqual((await beats()).slice(-1), [last]);
    one.process.kill("SIGCONT");
    assert.equal((await one.ended).code, 75);
    await one.leavesNothing();
  });

  test("killed with SIGKILL, it takes the command with it while the lease lasts", async () => {
    await using folder = await Folder.create();
    const pids = folder.file("pids");
    const script = `trap "" TERM; sleep 300 & echo $! $$ > ${pids}; wait`;
    await using one = run("killed", "--ttl", "12", "-c", script);
    await until(async () => (await folder.lines("pids")).length > 0, 20_000);
    one.process.kill("SIGKILL");
    await one.ended;
    await one.leavesNothing();
    assert.equal(await isHeld("killed"), true);
  });

  test("a lease that cannot be given back is told, and the exit code stays", async () => {
    await using proxy = await Proxy.before(workerd.url);
    await using one = new Leasehold(["run", "kept", "-c", "echo begun; sleep 1; exit 3"], {
      url: proxy.url,
    });
    await one.prints(/begun/);
    proxy.isDeaf = true;
    const { code, stderr } = await one.ended;
    assert.equal(code, 3);
    assert.match(
      stderr,
      /^leasehold: the lease was not given back, and ends by itself with its ttl: /,
    );
  });

  test("what the command leaves running goes on, and so does what a signal is not for with --foreground", async () => {
    await using folder = await Folder.create();
    const pids = folder.file("pids");
    const left = run("left", "-c", `sleep 300 >/dev/null 2>&1 & echo $! >> ${pids}`);
    assert.equal((await left.ended).code, 0);
    await using front = run(
      "front",
      "--foreground",
      "-c",
      `sleep 300 >/dev/null 2>&1 & echo $! >> ${pids}; exec sleep 300`,
    );
    await until(async () => (await folder.lines("pids")).length === 2, 20_000);
    await sleep(200);
    front.process.kill("SIGTERM");
    assert.equal((await front.ended).code, 143);
    for (const pid of await folder.lines("pids")) {
      assert.equal(isAlive(Number(pid)), true);
      process.kill(Number(pid), "SIGKILL");
    }
  });
});
