// The console as a person uses it: in Chromium, against the Worker that wrangler serves, with real locks.
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { Leasehold, type LeaseholdOptions } from "leasehold";
import type { Page } from "playwright-core";
import { makeKey, secretOf } from "./support/keys.ts";
import { assertAccessible, assertFits, DESKTOP, type Look, PHONE, Pages } from "./support/pages.ts";
import { sleep, until } from "./support/store.ts";

/** For what a busy machine takes its time with, ms. */
const SOON_MS = 15_000;

const HOUR_MS = 3_600_000;

const admin = makeKey("admin", ["read", "lock", "admin"]);
const reader = makeKey("reader", ["read"]);
const locker = makeKey("locker", ["lock"]);
const elsewhere = makeKey("elsewhere", ["read"], ["other"]);

let open: Pages;
let locked: Pages;
const clients: Leasehold[] = [];

before(async () => {
  const LEASEHOLD_KEYS = secretOf([admin, reader, locker, elsewhere]);
  [open, locked] = await Promise.all([Pages.start(), Pages.start({ LEASEHOLD_KEYS })]);
});
afterEach(() => Promise.all(clients.splice(0).map((client) => client.close())));
after(async () => {
  await open[Symbol.asyncDispose]();
  await locked[Symbol.asyncDispose]();
});

/** Somebody else, past the proxy that the page goes through. */
function client(pages: Pages, options: LeaseholdOptions): Leasehold {
  const made = new Leasehold(pages.store.url, options);
  clients.push(made);
  return made;
}

async function visit(pages: Pages, view: Record<string, string>, look: Look = {}): Promise<Page> {
  const page = await pages.open(`/console#${new URLSearchParams(view).toString()}`, look);
  page.setDefaultTimeout(SOON_MS);
  return page;
}

/** Opened, and told all there is. */
async function live(pages: Pages, view: Record<string, string>, look: Look = {}): Promise<Page> {
  const page = await visit(pages, view, look);
  await isLive(page);
  return page;
}

async function isLive(page: Page): Promise<void> {
  await page.locator('.link[data-link="live"]').waitFor();
}

/** What the row of that lock says, cell by cell; undefined where there is none. */
async function rowOf(page: Page, lock: string): Promise<Record<string, string> | undefined> {
  return page.evaluate((lock) => {
    const rows = [...document.querySelectorAll("#locks tbody tr")];
    const row = rows.find((row) => row.querySelector(".name")?.textContent === lock);
    const cells = [...(row?.querySelectorAll("td") ?? [])];
    const texts = cells.map((cell) => [cell.className.split(" ")[0], cell.textContent] as const);
    return row && (Object.fromEntries(texts) as Record<string, string>);
  }, lock);
}

async function says(page: Page, selector: string, what: RegExp | string): Promise<void> {
  let text: string | null = null;
  const isSaid = async () => {
    text = await page.locator(selector).first().textContent();
    return typeof what === "string" ? text === what : what.test(text ?? "");
  };
  await until(isSaid, SOON_MS).catch(() => assert.fail(`${selector} says ${text}, not ${what}`));
}

async function giveKey(page: Page, key: string): Promise<void> {
  const dialog = (await page.locator("dialog[open]").elementHandle())!;
  await page.locator("dialog input[type=password]").fill(key);
  await page.keyboard.press("Enter");
  await dialog.waitForElementState("hidden");
}

function secondsOf(text: string): number {
  return Number(/^(\d+\.\d) s$/.exec(text)?.[1]);
}

test("locks are listed with their holders, info, time left and queue; one in full beside them", async () => {
  const space = "listed";
  const [one, two, three] = ["one", "two", "three"].map((clientId) =>
    client(open, { space, clientId }),
  );
  const lease = await one!.acquire("invoice:42", {
    ttlMs: 50_000,
    renew: false,
    info: { step: "render", pages: [1, 2] },
  });
  const stop = new AbortController();
  const queued = (count: number) =>
    until(async () => (await one!.inspect("invoice:42")).waiters.length === count, SOON_MS);
  const waits = [
    two!.acquire("invoice:42", { signal: stop.signal, info: "second" }).catch(() => {}),
  ];
  await queued(1);
  waits.push(three!.acquire("invoice:42", { signal: stop.signal }).catch(() => {}));
  for (const limit of [1, 2, 3])
    await one!.acquire("permits", { mode: "shared", limit: 3, info: limit });
  await queued(2);

  const page = await live(open, { space });
  await says(page, "#count", "2 locks, 2 held, 2 waiting");
  const row = (await rowOf(page, "invoice:42"))!;
  assert.equal(row["holder"], "one");
  assert.equal(row["fence"], String(lease.fence));
  assert.equal(row["info"], '{"step":"render","pages":[1,2]}');
  assert.equal(row["queue"], "2 waiting");
  const left = secondsOf(row["left"]!);
  assert.ok(left > 20 && left <= 50, row["left"]);
  assert.equal((await rowOf(page, "permits"))!["holder"], "one+2");

  // Time runs down in its text node, and nothing else is touched.
  const touched = await page.evaluate(async () => {
    const seen = new Set<string>();
    const observer = new MutationObserver((records) => {
      for (const { type, target } of records) {
        const element = target instanceof Element ? target : target.parentElement!;
        seen.add(`${type} ${element.className}`);
      }
    });
    const table = document.querySelector("#locks")!;
    observer.observe(table, { subtree: true, childList: true, characterData: true });
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    observer.disconnect();
    return [...seen];
  });
  assert.deepEqual(touched, ["characterData left figure"]);
  assert.ok(secondsOf((await rowOf(page, "invoice:42"))!["left"]!) < left - 1);

  await page.getByRole("button", { name: "invoice:42" }).click();
  await says(page, '[data-part="held"]', "1 holder");
  await says(page, '[data-part="waiting"]', "2 waiting");
  await says(
    page,
    '[data-part="holders"] pre',
    JSON.stringify({ step: "render", pages: [1, 2] }, null, 2),
  );
  assert.match(await page.locator('[data-part="holders"] .lengths').innerText(), /\d\.\d s left/);
  const waiters = await page.locator('[data-part="waiters"] li').allInnerTexts();
  assert.match(waiters[0]!, /^two\s+\d+\.\d s waited\s+"second"$/);
  assert.match(waiters[1]!, /^three\s+\d+\.\d s waited$/);

  // Whoever is next moves up without anybody asking for it.
  await lease.release();
  await says(page, '[data-part="holders"] .who', /two/);
  await says(page, '[data-part="waiting"]', "1 waiting");
  stop.abort();
  await Promise.all(waits);
  await page.keyboard.press("Escape");
  await page.locator('[data-part="hint"]').waitFor();
  open.assertQuiet();
  await page.context().close();
});

test("nothing is counted before it was told, however slow the network is", async () => {
  const space = "slow";
  await client(open, { space }).acquire("a", { ttlMs: HOUR_MS, renew: false });
  const page = await live(open, { space: "before" });
  await says(page, "#count", "0 locks, 0 held, 0 waiting");
  open.proxy.delayMs = () => 100;
  const seen = await page.evaluate(async (space) => {
    const count = document.querySelector("#count")!;
    const seen: string[] = [];
    const observer = new MutationObserver(() => seen.push(count.textContent));
    observer.observe(count, { subtree: true, childList: true, characterData: true });
    location.hash = `space=${space}`;
    for (let looks = 0; looks < 300 && !count.textContent.startsWith("1 lock"); looks += 1)
      await new Promise((resolve) => setTimeout(resolve, 50));
    return seen;
  }, space);
  open.proxy.delayMs = () => 0;
  assert.deepEqual(seen, ["Not known yet", "1 lock, 1 held, 0 waiting"]);
  await page.context().close();
});

test("of many holders ten are shown, and more when asked for", async () => {
  const space = "folded";
  const outside = client(open, { space });
  for (let limit = 0; limit < 110; limit += 1)
    await outside.acquire("permits", { mode: "shared", limit: 110, ttlMs: HOUR_MS, renew: false });
  const page = await live(open, { space, lock: "permits" });
  await says(page, '[data-part="held"]', "110 holders");
  const items = page.locator('[data-part="holders"] > li:not(.rest)');
  assert.equal(await items.count(), 10);
  await says(page, '[data-part="holders"] .rest', "and 100 more");
  await page.getByRole("button", { name: "Show 90 more holders" }).click();
  assert.equal(await items.count(), 100);
  await says(page, '[data-part="holders"] .rest', "and 10 more");
  await page.getByRole("button", { name: "Show 10 holders" }).click();
  assert.equal(await items.count(), 10);
  await page.context().close();
});

test("a change is told by the watch: the page asks for nothing", async () => {
  const space = "told";
  const outside = client(open, { space, clientId: "outside" });
  let asked: string[] = [];
  const page = await open.open("/console", await open.context());
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  page.on("websocket", (socket) =>
    socket.on("framesent", ({ payload }) => void asked.push(String(payload))),
  );
  await page.evaluate((space) => (location.hash = `space=${space}`), space);
  await says(page, "#empty", /^Nobody holds or awaits a lock in this space/);
  asked = [];
  for (const name of ["a", "b", "c"]) {
    const lease = await outside.acquire(name, { ttlMs: HOUR_MS, renew: false });
    await until(async () => (await rowOf(page, name))?.["holder"] === "outside", SOON_MS);
    await lease.release();
    // It stays for a moment and says so: what is taken again at once does not jump.
    await until(async () => (await rowOf(page, name))?.["holder"] === "free", SOON_MS);
  }
  await until(async () => (await rowOf(page, "c")) === undefined, SOON_MS);
  await says(page, "#count", "0 locks, 0 held, 0 waiting");
  const isRead = (text: string) => text === `/v1/spaces/${space}/metrics` || text === "ping";
  assert.deepEqual(
    asked.filter((text) => !isRead(text)),
    [],
  );
  await page.context().close();
});

test("a lease that is renewed jumps up, and costs one question when its time runs out", async () => {
  const space = "renewed";
  const outside = client(open, { space, clientId: "outside" });
  const lease = await outside.acquire("a", { ttlMs: 3_000 });
  const page = await open.open("/console", await open.context());
  let questions = 0;
  page.on("websocket", (socket) =>
    socket.on("framesent", ({ payload }) => {
      if (String(payload).includes('"inspect"')) questions += 1;
    }),
  );
  await page.evaluate((space) => (location.hash = `space=${space}`), space);
  // The space that was shown before may be live still.
  await until(async () => (await rowOf(page, "a")) !== undefined, SOON_MS);
  const lefts: number[] = [];
  const start = performance.now();
  while (performance.now() - start < 5_000) {
    lefts.push(secondsOf((await rowOf(page, "a"))!["left"]!));
    await sleep(50);
  }
  assert.ok(lease.held);
  const jumps = lefts.filter((left, at) => left > (lefts[at - 1] ?? Infinity));
  assert.ok(jumps.length >= 2, `jumped ${jumps.length} times`);
  assert.ok(questions >= 2 && questions <= 7, `${questions} questions in 5 s`);
  await lease.release();
  await page.context().close();
});

test("names are filtered by prefix, and the view is in the address", async () => {
  const space = "filtered";
  const outside = client(open, { space });
  const names = ["job:1", "job:2", "jobs", "user:1"];
  for (const name of names) await outside.acquire(name, { ttlMs: HOUR_MS, renew: false });
  const page = await live(open, { space });
  await says(page, "#count", /^4 locks/);
  await page.keyboard.press("/");
  await page.keyboard.type("job:");
  await says(page, "#count", /^2 locks/);
  assert.equal(await rowOf(page, "jobs"), undefined);
  assert.match(page.url(), /#space=filtered&prefix=job%3A$/);

  // What is told from now on is filtered, too.
  await outside.acquire("user:2", { ttlMs: HOUR_MS, renew: false });
  await outside.acquire("job:3", { ttlMs: HOUR_MS, renew: false });
  await says(page, "#count", /^3 locks/);
  await page.reload();
  await says(page, "#count", /^3 locks/);
  await page.locator("#filter").fill("nothing starts like this");
  await says(page, "#empty", /^No lock that starts like this/);
  await page.locator("#filter").press("Escape");
  await says(page, "#count", /^6 locks/);

  await page.locator("#space").fill("-no name");
  await page.keyboard.press("Enter");
  await says(page, "#said", /^Space must be /);
  await page.locator("#space").fill("filtered-too");
  await page.keyboard.press("Enter");
  await says(page, "#empty", /^Nobody holds/);
  await page.locator("#opened").getByText("filtered", { exact: true }).click();
  await says(page, "#count", /^6 locks/);
  assert.equal(await page.locator("#space").inputValue(), "filtered");
  await page.context().close();
});

test("5 000 locks are listed at once, with as many rows as are seen", async () => {
  const space = "many";
  const outside = client(open, { space, clientId: "outside" });
  const nameOf = (at: number) => `job:${String(at).padStart(4, "0")}`;
  const leases = await Promise.all(
    Array.from({ length: 5_000 }, (_, at) =>
      outside.acquire(nameOf(at), { ttlMs: HOUR_MS, renew: false }),
    ),
  );
  const page = await live(open, { space });
  await says(page, "#count", "5,000 locks, 5,000 held, 0 waiting");
  const isBounded = async () => {
    const count = await page.evaluate(() => document.querySelectorAll("*").length);
    assert.ok(count < 800, `${count} elements`);
  };
  await isBounded();
  assert.equal(await page.locator("#locks table").getAttribute("aria-rowcount"), "5001");

  await page.getByRole("button", { name: nameOf(0) }).focus();
  await page.keyboard.press("End");
  assert.equal(await page.evaluate(() => document.activeElement!.textContent), nameOf(4_999));
  await isBounded();
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("PageUp");
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowDown");
  assert.equal(await page.evaluate(() => document.activeElement!.textContent), nameOf(1));

  // In the middle: what comes and goes above moves nothing that is seen, and the focus stays where it was.
  const top = () =>
    page.evaluate(() => {
      const list = document.querySelector("#locks")!;
      const { left, top } = list.getBoundingClientRect();
      const row = document.elementFromPoint(left + 30, top + 200)!.closest("tr")!;
      return [
        row.querySelector(".name")!.textContent,
        Math.round(row.getBoundingClientRect().top),
      ] as const;
    });
  await page.locator("#locks").evaluate((list) => (list.scrollTop = list.scrollHeight / 2));
  await page.locator("#locks tr", { hasText: nameOf(2_500) }).waitFor();
  const [name, y] = await top();
  await Promise.all(
    ["a", "b", "c", "d"].map((name) => outside.acquire(name, { ttlMs: HOUR_MS, renew: false })),
  );
  await says(page, "#count", /^5,004 locks/);
  assert.deepEqual(await top(), [name, y]);
  assert.equal(await page.evaluate(() => document.activeElement!.textContent), nameOf(1));

  const at = Number(name!.slice(4));
  await leases[at]!.release();
  await until(async () => (await rowOf(page, name!))?.["holder"] === "free", SOON_MS);
  await until(async () => (await rowOf(page, name!)) === undefined, SOON_MS);
  await says(page, "#count", /^5,003 locks/);
  await Promise.all(leases.slice(0, 1_000).map((lease) => lease.release()));
  await says(page, "#count", /^4,00[34] locks/);
  await isBounded();
  open.assertQuiet();
  await page.context().close();
});

test("names and info that are meant to deceive are shown as what they are", async () => {
  const space = "hostile";
  const names = {
    markup: "<img src=x onerror=alert(1)>",
    bidi: "user:\u202Egpj.exe",
    unseen: "a\u200Bb\u00A0\u3164c",
    right: "\u05D0\u05D1\u05D2:42",
    newline: "one\ntwo\ttab",
    spaces: " twice  ",
    long: "n".repeat(512),
  };
  const outside = client(open, { space, clientId: "</td><script>alert(2)</script>\u202E" });
  for (const name of Object.values(names)) {
    const info = { "</pre><b id=injected>": "\u202Eevil\u200B", nested: [[[[]]]] };
    await outside.acquire(name, { ttlMs: HOUR_MS, renew: false, info });
  }
  for (const look of [{ viewport: PHONE }, { colorScheme: "dark" }] as const) {
    const page = await live(open, { space }, look);
    await says(page, "#count", /^7 locks/);
    const shown = await page.locator("#locks td.name").allTextContents();
    assert.deepEqual(
      new Set(shown),
      new Set([
        names.markup,
        "user:U+202Egpj.exe",
        "aU+200BbU+00A0U+3164c",
        names.right,
        "oneU+000AtwoU+0009tab",
        "U+0020twice U+0020",
        names.long,
      ]),
    );
    const heights = await page
      .locator("#locks tbody tr")
      .evaluateAll((rows) => rows.map((row) => row.getBoundingClientRect().height));
    assert.equal(new Set(heights).size, 1);
    for (const name of [names.markup, names.long]) {
      await page.getByRole("button", { name, exact: true }).click();
      await says(page, '[data-part="name"]', name);
      await says(page, '[data-part="holders"] .who', /<\/td><script>alert\(2\)<\/script>U\+202E/);
      await says(
        page,
        '[data-part="holders"] pre',
        /"<\/pre><b id=injected>": "U\+202EevilU\+200B"/,
      );
      await assertFits(page);
      await page.keyboard.press("Escape");
    }
    await assertAccessible(page);
    assert.equal(await page.locator("#injected, main script, main img, td b").count(), 0);
    await page.context().close();
  }
  open.assertQuiet();
});

test("counts and waits are numbers and lines from the metrics", async () => {
  const space = "measured";
  const outside = client(open, { space, clientId: "outside" });
  const held = await outside.acquire("a");
  const waiting = client(open, { space }).acquire("a");
  await until(async () => (await outside.inspect("a")).waiters.length === 1, SOON_MS);
  const page = await live(open, { space });
  await says(page, '[data-plot="held"] .value', "1");
  await says(page, '[data-plot="queue"] .value', "1");
  await held.release();
  await (await waiting).release();
  await says(page, '[data-plot="waitSeconds"] .value', /^\d+\.\d s$/);
  await says(page, '[data-plot="held"] .value', "0");
  await says(page, '[data-plot="grantsPerSecond"] .value', /^0\.\d$/);
  const line = await page.locator('[data-plot="held"] .line').getAttribute("d");
  assert.match(line!, /^M[-\d. ]+(L[-\d. ]+)+$/);
  const label = await page.locator('[data-plot="held"] svg').getAttribute("aria-label");
  assert.match(label!, /^Leases held, the latest \d+ samples: from 0 to 1$/);
  await page.context().close();
});

test("nothing serious for axe: light, dark, a phone, the lock beside, the question", async () => {
  const space = "accessible";
  const outside = client(open, { space, clientId: "outside" });
  await outside.acquire("a", { info: { job: 1 } });
  const stop = new AbortController();
  const waiting = outside.acquire("a", { signal: stop.signal, info: "x" });
  for (const look of [
    { colorScheme: "light", viewport: DESKTOP },
    { colorScheme: "dark", viewport: DESKTOP },
    { colorScheme: "light", viewport: PHONE },
    { colorScheme: "dark", viewport: PHONE, reducedMotion: "reduce" },
  ] as const) {
    const page = await live(open, { space }, look);
    await says(page, "#count", "1 lock, 1 held, 1 waiting");
    // On a phone, what is open takes the place of the list.
    if (look.viewport === PHONE) await assertAccessible(page);
    await assertFits(page);
    await page.getByRole("button", { name: "a", exact: true }).click();
    await says(page, '[data-part="waiting"]', "1 waiting");
    await assertAccessible(page);
    await page.getByRole("button", { name: /^Revoke the lease/ }).click();
    await page.locator("dialog[open]").waitFor();
    await assertAccessible(page);
    await assertFits(page);
    await page.keyboard.press("Escape");
    assert.match(
      (await page.evaluate(() => document.activeElement!.getAttribute("aria-label")))!,
      /^Revoke the lease/,
    );
    await page.context().close();
  }
  stop.abort();
  await waiting.catch(() => {});
  open.assertQuiet();
});

test("a key is asked for, and which of them are of no use is said", async () => {
  const space = "kept";
  await client(locked, { space, key: admin.key }).acquire("a", { ttlMs: HOUR_MS, renew: false });
  const page = await visit(locked, { space });
  await says(page, "dialog[open]", /This store asks for a key/);
  await giveKey(page, "lh_wrong");
  await says(page, "dialog[open]", /The store does not know this key/);
  await giveKey(page, elsewhere.key);
  await says(page, "dialog[open]", /This key may not read the space kept/);
  await giveKey(page, locker.key);
  await says(page, "dialog[open]", /This key may not read the space kept/);
  await page.keyboard.press("Escape");
  await says(page, "#said", /This key may not read the space kept/);
  await page.getByRole("button", { name: "Other key…" }).click();
  await giveKey(page, reader.key);
  await says(page, "#count", "1 lock, 1 held, 0 waiting");

  // What can be no key replaces none, and a key can be taken back.
  await page.getByRole("button", { name: "Other key…" }).click();
  await page.locator("dialog input[type=password]").fill("clé");
  await page.keyboard.press("Enter");
  await says(page, "dialog .problem", "A key is printable ASCII without spaces.");
  await page.keyboard.press("Escape");
  await says(page, "#count", "1 lock, 1 held, 0 waiting");
  await page.getByRole("button", { name: "Other key…" }).click();
  await giveKey(page, "");
  await says(page, "dialog[open]", /This store asks for a key/);
  await giveKey(page, reader.key);
  await says(page, "#count", "1 lock, 1 held, 0 waiting");

  const kept = await page.evaluate(() => [
    location.href,
    document.cookie,
    ...Object.values(localStorage),
    ...Object.values(sessionStorage),
    document.documentElement.outerHTML,
  ]);
  for (const { key } of [reader, locker]) assert.ok(!kept.join("\n").includes(key));
  await page.reload();
  await says(page, "dialog[open]", /This store asks for a key/);
  locked.assertQuiet(/status of 40[13]/);
  await page.context().close();
});

test("with a key that may only read, revoking is refused in words, and the lease goes on", async () => {
  const space = "refused";
  const holder = client(locked, { space, clientId: "holder", key: admin.key });
  const lease = await holder.acquire("a", { ttlMs: HOUR_MS, renew: false });
  const page = await visit(locked, { space, lock: "a" });
  await giveKey(page, reader.key);
  await page.getByRole("button", { name: `Revoke the lease with fence ${lease.fence}` }).click();
  const dialog = page.locator("dialog[open]");
  assert.match((await dialog.textContent())!, new RegExp(`Lock a.*holder.*${lease.fence}`));
  await dialog.getByRole("button", { name: `Revoke ${lease.fence}` }).click();
  await says(page, "dialog .problem", /This key may not revoke: that takes the right admin/);
  await dialog.getByRole("button", { name: "Keep it" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.equal((await holder.inspect("a")).holders[0]?.fence, lease.fence);
  assert.ok(lease.held);
  await page.context().close();
});

test("by keyboard alone: filter, choose, revoke with a reason; its holder learns, the next one is granted", async () => {
  const space = "ended";
  const holder = client(locked, { space, clientId: "holder", key: admin.key });
  const next = client(locked, { space, clientId: "next", key: admin.key });
  for (const name of ["a", "b", "z"]) await holder.acquire(name, { ttlMs: HOUR_MS, renew: false });
  const lease = await holder.acquire("job:1", { ttlMs: HOUR_MS, renew: false });
  const waiting = next.acquire("job:1");
  const page = await visit(locked, { space });
  await page.locator("dialog[open]").waitFor();
  await page.keyboard.type(admin.key);
  await page.keyboard.press("Enter");
  await says(page, "#count", /^4 locks/);

  const focused = () => page.evaluate(() => document.activeElement!.textContent);
  await page.keyboard.press("/");
  await page.keyboard.type("job");
  await says(page, "#count", /^1 lock, 1 held, 1 waiting/);
  await page.keyboard.press("ArrowDown");
  assert.equal(await focused(), "job:1");
  await page.keyboard.press("Enter");
  assert.equal(await focused(), "job:1");
  await says(page, '[data-part="held"]', "1 holder");
  for (let presses = 0; (await focused()) !== "Revoke"; presses += 1) {
    assert.ok(presses < 5, "the button is not reached");
    await page.keyboard.press("Tab");
  }
  await page.keyboard.press("Enter");
  await page.locator("dialog[open]").waitFor();
  // Pressed twice by mistake, Enter keeps the lease.
  assert.equal(await focused(), "Keep it");
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.type("stuck since noon");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  assert.equal(await focused(), `Revoke ${lease.fence}`);
  await page.keyboard.press("Enter");
  await says(page, '[data-part="notice"]', `Revoked the lease with fence ${lease.fence}.`);
  await until(async () => lease.signal.aborted, SOON_MS);
  assert.equal((lease.signal.reason as { reason?: string }).reason, "revoked");
  assert.ok((await waiting).held);
  await says(page, '[data-part="holders"] .who', /next/);
  assert.equal(await focused(), "job:1");
  await page.keyboard.press("Escape");
  assert.equal(await page.evaluate(() => document.activeElement!.closest("td")?.className), "name");

  const audit = await fetch(`${locked.store.url}/v1/spaces/${space}/audit`, {
    headers: { authorization: `Bearer ${admin.key}` },
  });
  assert.match(await audit.text(), /stuck since noon/);
  await page.context().close();
});

test("a lease that the page did not see end is not revoked twice; all of a lock's are at once", async () => {
  const space = "all";
  const holder = client(open, { space, clientId: "holder" });
  const leases = await Promise.all(
    [1, 2, 3].map(() => holder.acquire("permits", { mode: "shared", limit: 3 })),
  );
  const page = await live(open, { space, lock: "permits" });
  await page
    .getByRole("button", { name: `Revoke the lease with fence ${leases[0]!.fence}` })
    .click();
  await leases[0]!.release();
  await page.getByRole("button", { name: `Revoke ${leases[0]!.fence}` }).click();
  await says(page, '[data-part="notice"]', /had ended before/);
  await page.getByRole("button", { name: "Revoke all 2" }).click();
  await page.locator("dialog").getByRole("button", { name: "Revoke all" }).click();
  await says(page, '[data-part="notice"]', "Revoked 2 leases.");
  await until(async () => leases.every(({ held }) => !held), SOON_MS);
  await says(page, '[data-part="held"]', "Nobody holds it");
  open.assertQuiet();
  await page.context().close();
});

test("a connection that is lost is said, and comes back by itself with what has changed", async () => {
  const space = "lost";
  const outside = client(open, { space, clientId: "outside" });
  const early = await outside.acquire("early", { ttlMs: HOUR_MS, renew: false });
  // In the order of their bytes, which is not that of UTF-16.
  const kept = ["kept", "\uFF5E", "\u{1F600}"];
  for (const name of kept) await outside.acquire(name, { ttlMs: HOUR_MS, renew: false });
  const page = await live(open, { space });
  const names = () => page.locator("#locks td.name").allTextContents();
  await says(page, "#count", /^4 locks/);
  assert.deepEqual(await names(), ["early", ...kept]);

  open.proxy.isDown = true;
  open.proxy.cut();
  await page.locator('.link[data-link="lost"]').waitFor();
  await says(page, "#said", /\w/);
  // What was known stays.
  assert.equal((await rowOf(page, "kept"))?.["holder"], "outside");
  await early.release();
  await outside.acquire("later", { ttlMs: HOUR_MS, renew: false });
  open.proxy.isDown = false;
  await isLive(page);
  await until(async () => (await rowOf(page, "later")) !== undefined, SOON_MS);
  await says(page, "#count", /^4 locks/);
  assert.deepEqual(await names(), ["kept", "later", ...kept.slice(1)]);
  await says(page, "#said", "");
  await page.context().close();
});

test("the store is killed and started again: leases are shown as they were stored", async () => {
  const space = "killed";
  const outside = client(open, { space, clientId: "outside" });
  await outside.acquire("a", { ttlMs: HOUR_MS, renew: false });
  const page = await live(open, { space });
  await says(page, "#count", /^1 lock/);
  const restarted = open.restart();
  await page.locator('.link[data-link="lost"]').waitFor();
  await restarted;
  await isLive(page);
  await says(page, "#count", /^1 lock/);
  await client(open, { space }).acquire("b", { ttlMs: HOUR_MS, renew: false });
  await says(page, "#count", /^2 locks/);
  open.assertQuiet(/net::ERR_|WebSocket connection to/);
  await page.context().close();
});
