// The commands of `leasehold` that ask a lease store for one thing, against one on workerd.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { Folder, Leasehold, leasehold, oldestNode } from "./support/command-line.ts";
import { makeKey, secretOf } from "./support/keys.ts";
import { Store, until } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

let workerd: Workerd;
let store: Store;

before(async () => {
  workerd = await Workerd.start();
  store = new Store(workerd);
});

after(() => workerd[Symbol.asyncDispose]());

/** Runs `leasehold` with these words, in the given environment. */
function call(words: readonly string[], env: Readonly<Record<string, string>> = {}) {
  return leasehold(words, { url: workerd.url, env });
}

/** What it printed, of a call that went well. */
async function printed(
  words: readonly string[],
  env?: Readonly<Record<string, string>>,
): Promise<string> {
  const { code, stdout, stderr } = await call(words, env);
  assert.deepEqual([code, stderr], [0, ""], words.join(" "));
  return stdout;
}

describe("leasehold acquire, renew, release", { concurrency: 4 }, () => {
  test("a lease is taken, renewed and given back by processes of their own", async () => {
    const lease = JSON.parse(await printed(["acquire", "apart", "--ttl", "60", "--info", "[1]"]));
    assert.deepEqual(Object.keys(lease), ["space", "lock", "token", "fence", "mode", "expiresAt"]);
    assert.deepEqual([lease.space, lease.lock, lease.mode], ["default", "apart", "exclusive"]);
    assert.equal((await call(["acquire", "apart", "-n"])).code, 1);
    const env = { LEASEHOLD_TOKEN: lease.token, LEASEHOLD_FENCE: String(lease.fence) };
    const renewed = JSON.parse(await printed(["renew", "apart", "--ttl", "1h", "--json"], env));
    assert.ok(renewed.expiresAt > lease.expiresAt + 3_000_000);
    assert.equal(renewed.token, undefined);
    const told = await printed(["renew", "apart", "--ttl", "120"], env);
    assert.equal(told, `renewed apart, fence ${lease.fence}, held for 1m59s\n`);
    assert.equal(
      await printed(["release", "apart"], env),
      `released apart, fence ${lease.fence}\n`,
    );
    assert.deepEqual((await store.send("/locks/apart")).reply.holders, []);
    for (const words of [
      ["release", "apart"],
      ["renew", "apart"],
    ]) {
      const lost = await call(words, env);
      assert.equal(lost.code, 75);
      assert.match(lost.stderr, /^leasehold: the lease is lost: released; .*acquire it anew\n$/);
    }
  });

  test("a shell script has it in its environment", async () => {
    const words = `${process.execPath} dist/command-line.js`;
    const script = `set -e
      eval "$(${words} acquire "it's" --format env)"
      ${words} renew "$LEASEHOLD_LOCK" --json
      ${words} release "$LEASEHOLD_LOCK"`;
    const env = { ...process.env, LEASEHOLD_URL: workerd.url };
    const { stdout } = await promisify(execFile)("sh", ["-c", script], { env });
    assert.match(stdout, /^\{"lock":"it's",.*\}\nreleased it's, fence \d+\n$/);
  });

  test("a script that evaluates what acquire prints does not go on without the lock", async () => {
    await store.hold("evaluated", { ttlMs: 600_000 });
    const program = `${process.execPath} dist/command-line.js`;
    for (const [words, code] of [
      ["evaluated -n", 1],
      ["evaluated -n -E 9", 9],
      ["evaluated --bogus", 64],
      ["evaluated -n --url http://127.0.0.1:9", 69],
      [
        `evaluated & until ${program} inspect evaluated | grep -q waiting; do :; done; kill $!`,
        143,
      ],
    ] as const) {
      const acquire = words.replace("evaluated", "acquire evaluated --format env");
      const script = `eval "$(${program} ${acquire})" || exit; echo went on`;
      const env = { ...process.env, LEASEHOLD_URL: workerd.url };
      const failed = await promisify(execFile)("sh", ["-c", script], { env }).catch((e) => e);
      assert.deepEqual([failed.code, failed.stdout], [code, ""], words);
    }
  });

  for (const node of [process.execPath, oldestNode()]) {
    test(`a lease that cannot be printed is given back, by ${node === process.execPath ? "this Node" : "the oldest Node"}`, async () => {
      const lock = `unprinted/${node === process.execPath}`;
      const env = { ...process.env, LEASEHOLD_URL: workerd.url };
      for (const [target, code] of [
        ["> /dev/full", 74],
        ["--format env > /dev/full", 74],
        ["> >(true)", 141],
      ] as const) {
        // The reader of the pipe is gone long before there is something to print.
        const script = `exec "${node}" dist/command-line.js acquire "${lock}" ${target}`;
        const failed = await promisify(execFile)("bash", ["-c", script], { env }).catch((e) => e);
        assert.equal(failed.code, code, `${target}: ${failed.stderr}`);
        assert.match(failed.stderr, /^leasehold: standard output cannot be written: /);
        assert.deepEqual(
          (await store.send(`/locks/${encodeURIComponent(lock)}`)).reply.holders,
          [],
        );
      }
    });
  }

  test("a lease that was waited for is handed over at its full length", async () => {
    const { token, fence } = await store.hold("waited", { ttlMs: 60_000 });
    await using acquire = new Leasehold(["acquire", "waited", "--ttl", "50"], workerd);
    await until(async () => (await store.send("/locks/waited")).reply.waiters.length === 1, 20_000);
    await store.command("release", "waited", { token, fence });
    assert.equal((await acquire.ended).code, 0);
    const [holder] = (await store.send("/locks/waited")).reply.holders;
    assert.ok(holder.expiresInMs > 30_000, String(holder.expiresInMs));
  });

  test("the token may come from a file or by standard input", async () => {
    await using folder = await Folder.create();
    const { token, fence } = await store.hold("file", { ttlMs: 60_000 });
    await writeFile(folder.file("token"), `${token}\n`);
    const words = ["file", "--fence", String(fence), "--json", "--token-file"];
    await printed(["renew", ...words, folder.file("token")]);
    const released = await leasehold(["release", ...words, "-"], {
      url: workerd.url,
      stdin: token,
    });
    assert.equal(released.stdout, '{"status":"released"}\n');
  });
});

describe("leasehold inspect, ls, watch, revoke", { concurrency: 4 }, () => {
  test("who holds and who waits, for people and for programs", async () => {
    const info = { text: "\u001b[31m\u202e\n" };
    const { fence } = await store.hold("seen\u0007/1", { ttlMs: 90_000, clientId: "one", info });
    await store.command("acquire", "seen\u0007/1", {
      ...{ token: "t", requestId: "r", waitMs: 0 },
    });
    await store.hold("seen\u0007/2", { mode: "shared" });
    const name = "seen\\u0007/1";
    const holder = `fence ${fence}  exclusive  one, for \\d+m?s, 1m\\d+s left`;
    const shown = String.raw`  \{"text":"\\u001b\[31m\\u202e\\n"\}`;
    const literal = (text: string) => text.replaceAll("\\u0007", "\\\\u0007");
    assert.match(
      await printed(["inspect", "seen\u0007/1"]),
      new RegExp(`^${literal(name)}\n  held     ${holder}${shown}\n$`),
    );
    assert.equal(await printed(["inspect", "nobody"]), "nobody  free\n");
    const lines = (await printed(["ls", "seen"])).split("\n");
    assert.equal(lines.length, 3);
    assert.match(lines[0]!, new RegExp(`^${literal(name)}  ${holder}`));
    const [first, second] = (await printed(["ls", "seen", "--json"])).trimEnd().split("\n");
    assert.deepEqual(JSON.parse(first!).holders[0].info, info);
    assert.equal(JSON.parse(second!).holders[0].mode, "shared");
    const { holders } = JSON.parse(await printed(["inspect", "seen\u0007/1", "--json"]));
    assert.equal(holders[0].clientId, "one");
    assert.equal(await printed(["ls", "nobody"]), "");
  });

  test("more locks than a page has", async () => {
    const locks = Array.from({ length: 1_050 }, (_, at) => `many/${at}`);
    for (let at = 0; at < locks.length; at += 50) {
      await Promise.all(locks.slice(at, at + 50).map((lock) => store.hold(lock)));
    }
    assert.equal((await printed(["ls", "many/", "--json"])).trimEnd().split("\n").length, 1_050);
  });

  for (const [name, node] of [
    ["this Node", process.execPath],
    ["the oldest Node, which has WebSockets behind a flag", oldestNode()],
  ] as const) {
    test(`every change is told while it is watched, by ${name}`, async () => {
      const lock = `watched/${node === process.execPath}`;
      const { token, fence } = await store.hold(lock, { ttlMs: 60_000, clientId: "w" });
      const settings = { url: workerd.url, node };
      await using plain = new Leasehold(["watch", "watched/"], settings);
      await using json = new Leasehold(["watch", lock, "--json"], settings);
      await plain.prints(new RegExp(`^present  ${lock}  fence ${fence}  exclusive  w`, "m"));
      await json.prints(/"present"/);
      await store.command("release", lock, { token, fence });
      await plain.prints(new RegExp(`^released fence ${fence}  ${lock}  free$`, "m"));
      const [line] = await json.prints(/^.*"released".*$/m);
      assert.deepEqual(JSON.parse(line), {
        ...{ change: "released", fence, lock, holders: [], queue: 0 },
      });
      for (const one of [plain, json]) {
        one.process.kill("SIGINT");
        assert.equal((await one.ended).signal, "SIGINT");
      }
    });
  }

  test("a lease is revoked, or only the one that is meant", async () => {
    const one = await store.hold("revoked", { mode: "shared" });
    await store.hold("revoked", { mode: "shared" });
    await store.hold("revoked", { mode: "shared" });
    const words = ["revoke", "revoked", "--fence", String(one.fence), "--reason", "stuck"];
    assert.equal(await printed(words), "1 lease revoked\n");
    assert.equal(await printed(words), "0 leases revoked\n");
    assert.equal(await printed(["revoke", "revoked", "--json"]), '{"revoked":2}\n');
  });
});

describe("what leasehold keeps to itself", { concurrency: 4 }, () => {
  test("a token is in no argument, and printed by nothing but acquire", async () => {
    await using folder = await Folder.create();
    const script = `echo "$LEASEHOLD_TOKEN" > ${folder.file("token")}; exec sleep 300`;
    const words = ["run", "secret", "--verbose", "--export-token", "-c", script];
    await using one = new Leasehold(words, workerd);
    await until(async () => (await folder.lines("token")).length === 1, 20_000);
    const [token] = await folder.lines("token");
    const pids = await one.processes();
    assert.ok(pids.length >= 3, "the command, its guard and what it runs");
    for (const pid of pids) {
      const line = await readFile(`/proc/${pid}/cmdline`, "utf8");
      assert.ok(!line.includes(token!), line);
    }
    for (const command of ["inspect", "ls"]) {
      assert.ok(!(await printed([command, "secret", "--json"])).includes(token!));
    }
    one.process.kill("SIGTERM");
    const { code, stdout, stderr } = await one.ended;
    assert.equal(code, 143);
    assert.match(stderr, /^leasehold: "secret" granted, fence \d+\nleasehold: released\n$/);
    assert.ok(!`${stdout}${stderr}`.includes(token!));
  });

  test("a key decides who may do what, wherever it comes from", async () => {
    await using folder = await Folder.create();
    const reader = makeKey("reader", ["read"]);
    const locker = makeKey("locker", ["lock"]);
    const LEASEHOLD_KEYS = secretOf([reader, locker]);
    await using closed = await Workerd.start({ variables: { LEASEHOLD_KEYS } });
    const attempt = (words: string[], env = {}, stdin = "") =>
      leasehold(words, { url: closed.url, env, stdin });
    await writeFile(folder.file("key"), `${locker.key}\n`);

    const none = await attempt(["run", "k", "--", "true"]);
    assert.equal(none.code, 77);
    assert.equal((await attempt(["ls"], { LEASEHOLD_KEY: "wrong" })).code, 77);
    assert.equal(
      (await attempt(["run", "k", "--", "true"], { LEASEHOLD_KEY: reader.key })).code,
      77,
    );
    assert.equal((await attempt(["revoke", "k"], { LEASEHOLD_KEY: locker.key })).code, 77);

    assert.equal((await attempt(["ls"], { LEASEHOLD_KEY: reader.key })).code, 0);
    assert.equal((await attempt(["ls", "--key", reader.key])).code, 0);
    assert.equal((await attempt(["ls", "--key-file", "-"], {}, reader.key)).code, 0);
    const run = ["run", "k", "--key-file", folder.file("key"), "--", "true"];
    assert.equal((await attempt(run, { LEASEHOLD_KEY: "wrong" })).code, 0);
    const said = [none.stderr, closed.log].join("");
    for (const { key } of [reader, locker]) assert.ok(!said.includes(key));
  });
});

describe("what goes wrong with leasehold", { concurrency: 4 }, () => {
  test("every refusal says by whom, why, and what to do next", async () => {
    const [reader, locker] = [makeKey("reader", ["read"]), makeKey("locker", ["lock"])];
    const LEASEHOLD_KEYS = secretOf([reader, locker]);
    await using closed = await Workerd.start({ variables: { LEASEHOLD_KEYS } });
    const bounds = { LEASEHOLD_OPEN: "true", LEASEHOLD_LOCKS_PER_SPACE: "1" };
    await using small = await Workerd.start({ variables: bounds });
    await using nobody = await Workerd.start();
    await nobody.kill();
    await new Store(small).hold("only");
    await store.hold("refused", { ttlMs: 600_000, clientId: "she" });
    await store.hold("counted", { ttlMs: 600_000, mode: "shared", limit: 2 });

    const [at, keyed, full, gone] = [workerd, closed, small, nobody].map(({ url }) => url);
    const proof = ["--token", "t", "--fence", "1"];
    const cases: readonly (readonly [
      words: readonly string[],
      url: string | undefined,
      key: string | undefined,
      code: number,
      says: string,
    ])[] = [
      [
        ...([["ls"], gone, undefined, 69] as const),
        `the lease store at ${gone} could not be reached (connect ECONNREFUSED 127.0.0.1:*); see that it runs there, or give another with --url or LEASEHOLD_URL`,
      ],
      [
        ...([["run", "a", "-w", "0.2", "--", "true"], gone, undefined, 69] as const),
        `the lease store at ${gone} could not be reached *; see that it runs there, or give another with --url or LEASEHOLD_URL`,
      ],
      [
        ...([["ls"], "http://no.such.invalid", undefined, 69] as const),
        "the lease store at http://no.such.invalid could not be reached (getaddrinfo E*); see that it runs there, *",
      ],
      [
        ...([["ls"], `${at}/elsewhere`, undefined, 69] as const),
        `there is no lease store at ${at}/elsewhere; see that it runs there, or give another with --url *`,
      ],
      [
        ...([["ls"], keyed, undefined, 77] as const),
        `the lease store at ${keyed} wants a key: set LEASEHOLD_KEY, or give --key-file`,
      ],
      [
        ...([["ls"], keyed, "wrong", 77] as const),
        `the lease store at ${keyed} does not know this key: ask who runs it for one`,
      ],
      [
        ...([["acquire", "a"], keyed, reader.key, 77] as const),
        'the key may not do that in the space default, it takes the right "lock" *: give another key, or --space',
      ],
      [
        ...([["revoke", "a"], keyed, locker.key, 77] as const),
        'the key may not do that in the space default, it takes the right "admin" *: give another key, or --space',
      ],
      [
        ...([["acquire", "another", "-n"], full, undefined, 69] as const),
        `space full, at ${full}: try again when locks have come free: those in use go on`,
      ],
      [
        ...([["acquire", "refused", "-n", "-E", "9"], at, undefined, 9] as const),
        "somebody else has the lock; fence *  exclusive  she, * left: --wait waits for it",
      ],
      [
        ...([["acquire", "refused", "-w", "0.1"], at, undefined, 1] as const),
        "the lock was not to be had in time: inspect shows who has it, --wait waits longer",
      ],
      [
        ...([["acquire", "counted", "--limit", "3", "-n"], at, undefined, 64] as const),
        "--limit must be that of those who hold it: *",
      ],
      [
        ...([["renew", "refused", ...proof], at, undefined, 75] as const),
        "the lease is lost: the store does not know it; look at the lock, --space, --token and --fence",
      ],
      [
        ...([["run", "a", "--", "no-such-command"], at, undefined, 127] as const),
        "no-such-command cannot be run (ENOENT): see that it is there, and executable",
      ],
    ];
    const literal = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    for (const [words, url, key, code, says] of cases) {
      const env = key === undefined ? {} : { LEASEHOLD_KEY: key };
      const ended = await leasehold(words, { url: url!, env });
      const [first] = ended.stderr.split("\n");
      const pattern = says.split("*").map(literal).join(".*");
      assert.match(first!, new RegExp(`^leasehold: ${pattern}$`), words.join(" "));
      assert.equal(ended.code, code, words.join(" "));
    }
  });

  test("who waits for a store that is not there is told so, while it waits", async () => {
    await using nobody = await Workerd.start();
    await nobody.kill();
    for (const words of [["run", "a", "--", "true"], ["acquire", "a"], ["watch"]]) {
      await using one = new Leasehold(words, nobody);
      const says = `leasehold: no answer from ${nobody.url} (connect ECONNREFUSED `;
      await until(async () => one.stderr.startsWith(says), 20_000);
      assert.equal(one.process.exitCode, null);
    }
  });

  test("a key that cannot be printed, or whose entry cannot be written, spoils no file", async () => {
    await using folder = await Folder.create();
    const keys = folder.file("keys.json");
    const make = `"${process.execPath}" dist/command-line.js key`;
    const call = (id: string, around: (line: string) => string) => {
      const line = around(`${make} ${id} --spaces a --allow read --keys ${keys}`);
      return promisify(execFile)("bash", ["-c", line]).catch((error) => error);
    };
    const unprinted = await call("a", (line) => `${line} > /dev/full`);
    assert.equal(unprinted.code, 74);
    assert.equal((await call("a", (line) => line)).code, undefined);
    const before = await readFile(keys, "utf8");
    assert.equal((await stat(keys)).mode & 0o777, 0o600);
    // A file may have no byte, as on a full disk.
    const unwritten = await call("b", (line) => `ulimit -f 0; ${line}`);
    assert.equal(unwritten.code, 74);
    assert.match(unwritten.stderr, /^leasehold: --keys cannot be written, and that key counts /);
    assert.equal(await readFile(keys, "utf8"), before);
    assert.deepEqual(await readdir(folder.path), ["keys.json"]);
  });

  test("no lease store answers", async () => {
    const nowhere = { url: "http://127.0.0.1:9" };
    for (const words of [
      ["run", "-n", "a", "--", "true"],
      ["run", "-w", "1", "a", "--", "true"],
      ["inspect", "a"],
      ["release", "a", "--token", "t", "--fence", "1"],
    ]) {
      const { code, stderr } = await leasehold(words, nowhere);
      assert.equal(code, 69, `${words.join(" ")}: ${stderr}`);
    }
    const { stderr } = await leasehold(["ls", "--json"], nowhere);
    assert.equal(JSON.parse(stderr).code, "unavailable");
  });

  test("words that are wrong are named, with what to do, and nothing is asked of the store", async () => {
    const run = (...words: string[]) => ["run", "a", ...words, "--", "true"];
    const key = (...words: string[]) => ["key", ...words];
    const cases: readonly (readonly [words: readonly string[], says: RegExp])[] = [
      [[], /a command is missing/],
      [["lock"], /no command lock/],
      [["run"], /the command is missing: leasehold run <lock> -- command/],
      [["run", "a"], /the command is missing: leasehold run a -- command/],
      [["run", "a", "true"], /the command is missing: leasehold run a -- command/],
      [["run", "a", "--"], /the command is missing/],
      [["run", "--", "true"], /<lock> is missing/],
      [["run", "a", "b", "--", "true"], /one word too many: b/],
      [["run", "a", "-c", "true", "--", "true"], /--command and -- command/],
      [["run", "..", "--", "true"], /<lock> must be 1 to 512 bytes/],
      [run("--bogus"), /there is no option --bogus: what is of the command stands after --/],
      [["run", "a", "ls", "-l"], /there is no option -l: what is of the command stands after --/],
      [["ls", "-w"], /there is no option -w\n/],
      [run("--wait"), /--wait needs a value: <duration>/],
      [run("-w", "-5"), /--wait must be a duration/],
      [
        run("--wait", "--ttl", "5"),
        /--wait needs a value, and --ttl looks like an option: --wait=</,
      ],
      [run("-w", "soon"), /--wait must be a duration/],
      [run("-w", "0.0001"), /--wait must be a duration/],
      [run("-w", "1", "-n"), /--nonblock and --wait/],
      [run("-n", "--shared=yes"), /--shared takes no value/],
      [run("-s", "-x"), /--exclusive and --shared/],
      [run("-x", "--limit", "2"), /--exclusive and --limit/],
      [run("--limit", "0"), /--limit must be an integer from 1/],
      [run("--limit", "two"), /--limit must be a whole number/],
      [run("-E", "256"), /--conflict-exit-code must be an exit code/],
      [run("--ttl", "10ms"), /--ttl must be a duration from 50ms to 1d/],
      [run("--ttl", "2d"), /--ttl must be a duration from 50ms to 1d/],
      [run("--ttl", "3 weeks"), /--ttl must be a duration/],
      [
        run("--ttl", "3", "--kill-after", "2"),
        /--kill-after must be at most 1500ms, half of --ttl/,
      ],
      [run("--max-hold", "1", "--kill-after", "2"), /at most 500ms, half of --max-hold/],
      [run("--kill-after", "x"), /--kill-after must be a duration/],
      [run("--max-hold", "8d"), /--max-hold must be a duration from 1ms to 7d/],
      [run("--lock-delay", "8d"), /--lock-delay must be a duration from 0ms to 7d/],
      [run("--info", "{"), /--info must be JSON/],
      [run("--info", JSON.stringify("x".repeat(1_100))), /--info must be at most 1024 bytes/],
      [run("--url", "here"), /--url must be a URL/],
      [run("--space", ""), /--space must be 1 to 512 bytes/],
      [run("--key", "two words"), /--key must be printable ASCII/],
      [run("--key", "a", "--key-file", "b"), /--key-file cannot be read/],
      [run("--key-file", "/nowhere"), /--key-file cannot be read/],
      [run("--key-file", "/dev/null"), /--key-file names a file with nothing in it/],
      [run("--key", "a", "--key-file", "package.json"), /--key and --key-file/],
      [["acquire"], /<lock> is missing/],
      [["acquire", "a", "--format", "xml"], /--format must be json or env/],
      [["acquire", "a", "--", "true"], /nothing may follow --/],
      [["renew", "a", "--fence", "1"], /the token is missing: set LEASEHOLD_TOKEN/],
      [["renew", "a", "--token", "t"], /--fence is missing/],
      [["renew", "a", "--token", "t", "--fence", "-1"], /--fence must be a whole number/],
      [["renew", "a", "--token", "t", "--fence", "0"], /--fence must be an integer from 1/],
      [["renew", "a", "--token", "t", "--fence", "1", "--ttl", "1ms"], /--ttl must be a duration/],
      [["release", "a", "--token", "t".repeat(200), "--fence", "1"], /--token must be 1 to 128/],
      [["release", "a", "--token-file", "/nowhere"], /--token-file cannot be read/],
      [["inspect"], /<lock> is missing/],
      [["ls", "a", "b"], /one word too many: b/],
      [["ls", "a".repeat(600)], /\[prefix\] must be at most 512 bytes/],
      [["watch", "a".repeat(600)], /\[prefix\] must be at most 512 bytes/],
      [["revoke", "a", "--fence", "x"], /--fence must be a whole number/],
      [["revoke", "a", "--reason", ""], /--reason must be 1 to 256 bytes/],
      [key(), /<id> is missing/],
      [key("a b", "--spaces", "a", "--allow", "read"), /<id> must be 1 to 64/],
      [key("a", "--allow", "read"), /--spaces is missing/],
      [key("a", "--spaces", "a*b", "--allow", "read"), /--spaces must be names/],
      [key("a", "--spaces", "a"), /--allow is missing/],
      [key("a", "--spaces", "a", "--allow", "read,read"), /--allow must be any of/],
      [
        key("a", "--spaces", "a", "--allow", "read", "--keys", "README.md"),
        /--keys must name a file/,
      ],
      [["serve", "here"], /one word too many: here/],
      [["serve", "--open", "--port", "70000"], /--port must be a port/],
      [["serve", "--keys", "/nowhere"], /--keys cannot be read/],
      [["serve"], /--keys is missing.*leasehold key/],
      [["serve", "--open", "--host", "0.0.0.0"], /--open with --host 0.0.0.0.*--open-to-network/],
      [["serve", "--open", "--keys", "README.md"], /--open and keys/],
    ];
    const left = [...cases];
    const one = async () => {
      for (let next; (next = left.pop());) {
        const [words, says] = next;
        const { code, stdout, stderr } = await leasehold(words, { url: "http://127.0.0.1:9" });
        assert.deepEqual([code, stdout], [64, ""], `${words.join(" ")}: ${stderr}`);
        assert.match(stderr, says, words.join(" "));
        assert.match(stderr, /\nleasehold: see leasehold .*--help\n$/);
      }
    };
    await Promise.all([one(), one()]);
  });

  test("every command has a help that names all of its options", async () => {
    const all = await printed(["--help"]);
    const names = [...all.matchAll(/^ {2}([a-z]+)/gm)].map(([, name]) => name!);
    assert.deepEqual(names, [
      ...["run", "acquire", "renew", "release", "inspect", "ls", "watch", "revoke", "serve", "key"],
    ]);
    const page = await readFile("docs/command-line.md", "utf8");
    for (const name of names) {
      const help = await printed([name, "--help"]);
      assert.ok(help.startsWith(`leasehold ${name}`), help);
      const options = [...help.matchAll(/^ {2}.{4}(--[a-z-]+)/gm)].map(([, option]) => option!);
      assert.ok(options.length > 0);
      for (const option of options) assert.ok(page.includes(`\`${option}`), `${name} ${option}`);
    }
  });
});
