// The playground in a real browser, on a real workerd: what its clients do to each other, and what one sees of it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { BrowserContext, Locator, Page } from "playwright-core";
import { makeKey, secretOf } from "./support/keys.ts";
import { assertAccessible, assertFits, DESKTOP, Pages, PHONE } from "./support/pages.ts";
import { until } from "./support/store.ts";

/** Longer than anything takes, ms. */
const PATIENCE_MS = 20_000;

let pages: Pages;

before(async () => {
  pages = await Pages.start();
});

after(() => pages[Symbol.asyncDispose]());

test("pages and their threads load nothing from elsewhere, and run no script that is not a file of theirs", async () => {
  for (const path of ["/", "/console", "/playground/client.js", "/leasehold/index.js"]) {
    const { status, headers } = await fetch(pages.url + path);
    assert.equal(status, 200, path);
    const policy = headers.get("content-security-policy") ?? "";
    assert.match(policy, /^default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; /);
    assert.doesNotMatch(policy, /'unsafe-inline'|'unsafe-eval'|https?:|\*/);
  }
  const page = await open("policy");
  assert.ok(await page.evaluate(() => crossOriginIsolated));
  pages.assertQuiet();
  await page.evaluate(() => {
    document.body.append(
      Object.assign(document.createElement("script"), { textContent: "globalThis.ran = 1" }),
    );
    document.body.append(
      Object.assign(document.createElement("img"), { src: "http://127.0.0.2:1/" }),
    );
  });
  assert.equal(await page.evaluate(() => "ran" in globalThis), false);
  // What is forbidden does not go unnoticed here.
  await until(async () => pages.complaints.length >= 2, PATIENCE_MS);
  await close(
    page,
    /violates the following Content Security Policy directive/,
    /^asked http:\/\/127\.0\.0\.2/,
  );
});

test("tabs of one browser meet at a lock: who waits there is granted what is released here", async () => {
  const context = await pages.context();
  const here = await open("tabs", context);
  const there = await open("tabs", context);
  await there.getByRole("heading", { name: "Cleo" }).waitFor();

  await press(here, "Acquire Ada");
  await sees(here, "#holder", "Ada");
  await sees(there, "#holder", "Ada");
  await press(there, "Acquire Cleo");
  await sees(card(there, "Cleo"), ".state", "Refused: somebody has it");
  await press(there, "Wait Cleo");
  await sees(here, "#queue", "Cleo");
  const before = await fenceOf(here);
  await press(here, "Release Ada");
  await sees(here, "#holder", "Cleo");
  await sees(there, "#queue", "Nobody waits");
  assert.ok((await fenceOf(here)) > before, "the fence has not risen");
  // The counter, too, is seen in both.
  await until(async () => Number(await textOf(here, "#value")) > 0, PATIENCE_MS);
  // Also what happened is told in both.
  await logged(here, "Cleo", "is granted the lock");
  await logged(there, "Ada", "gives the lock back");
  await close(here);
});

test("the time left runs down, and leaps at each renewal", async () => {
  const page = await open("renewal");
  await page.getByLabel("A lease lasts").selectOption("3000");
  await press(page, "Acquire Ada");
  await sees(page, "#holder", "Ada");
  const seen: number[] = [];
  const leaps = () =>
    seen.filter((left, index) => index > 0 && left > seen[index - 1]! + 0.5).length;
  await until(async () => {
    const left = parseFloat(await textOf(page, "#left"));
    if (!Number.isNaN(left)) seen.push(left);
    return leaps() >= 2;
  }, PATIENCE_MS);
  assert.ok(Math.max(...seen) <= 3 && Math.min(...seen) > 0, `${seen}`);
  const width = await page.locator(".lease").evaluate((bar) => bar.getBoundingClientRect().width);
  await until(async () => {
    const now = await page.locator(".lease").evaluate((bar) => bar.getBoundingClientRect().width);
    return now > width + 5;
  }, PATIENCE_MS);
  await close(page);
});

test("who is cut off notices in time, loses the lock, and is back by itself", async () => {
  const page = await open("cut");
  await page.getByLabel("A lease lasts").selectOption("3000");
  await press(page, "Acquire Ada");
  await sees(page, "#holder", "Ada");
  await press(page, "Cut off Ada");
  await press(page, "Wait Ben");
  await sees(page, "#holder", "Ben");
  await sees(card(page, "Ada"), ".state", "Cut off from the store");
  // It wrote nothing that it had no right to.
  assert.equal(await page.locator(".mark.refused, .mark.overwrote").count(), 0);
  await press(page, "Mend Ada");
  await press(page, "Wait Ada");
  await sees(page, "#queue", "Ada");
  await press(page, "Release Ben");
  await sees(page, "#holder", "Ada");
  await close(page);
});

test("who is killed is succeeded when its lease has run out, and starts anew", async () => {
  const page = await open("kill");
  await page.getByLabel("A lease lasts").selectOption("3000");
  await press(page, "Acquire Ada");
  await press(page, "Wait Ben");
  await sees(page, "#queue", "Ben");
  await press(page, "Kill Ada");
  await sees(card(page, "Ada"), ".state", "Killed: it gave nothing back");
  // The store does not know, and lets it run out.
  assert.equal(await textOf(page, "#holder"), "Ada");
  await sees(page, "#holder", "Ben");
  await logged(page, "Ada", "its lease ended by itself");
  await press(page, "Start Ada");
  await press(page, "Acquire Ada");
  await sees(card(page, "Ada"), ".state", "Refused: somebody has it");
  await close(page);
});

test("the guided minute by keyboard alone: refused with fences compared, corrupted without", async () => {
  const page = await open("keyboard");
  await page.getByLabel("A lease lasts").selectOption("3000");
  await page.getByLabel("Lock").focus();
  const go = "Go to button";
  // What is pressed is what the guide leads to.
  const step = async (number: number, expected: string) => {
    await sees(page, "#step-count", `Step ${number} of 11`);
    await tabTo(page, go);
    await page.keyboard.press("Enter");
    assert.equal(await focused(page), expected);
    await page.keyboard.press("Space");
    // A button that is of no use any more has kept the focus.
    assert.notEqual(await focused(page), "");
  };
  await step(1, "Acquire Ada");
  await step(2, "Wait Ben");
  await step(3, "Pause Ada");
  await step(5, "Wake Ada");
  await sees(page, "#step-count", "Step 6 of 11");
  assert.match(await textOf(page, "#step-said"), /^Refused/);
  await logged(page, "Ada", "and is refused: the counter has seen");
  const before = Number(await textOf(page, "#value"));
  assert.ok(before >= 1);
  await step(6, "Compare fences");
  await step(7, "Wait Ada");
  await step(8, "Pause Ben");
  await sees(page, "#step-count", "Step 10 of 11");
  // While fences are compared again there is nothing to see.
  await page.getByLabel("Compare fences").check();
  await step(6, "Compare fences");
  await step(10, "Wake Ben");
  await sees(page, "#step-count", "Step 11 of 11");
  await logged(page, "Ben", "of others lost");
  await sees(page, ".overwrote .outcome", "lost");
  // And again.
  await tabTo(page, "Start over");
  await page.keyboard.press("Enter");
  await sees(page, "#step-count", "Step 1 of 11");
  assert.equal(await focused(page), go);
  await until(() => page.getByLabel("Compare fences").isChecked(), PATIENCE_MS);
  await sees(page, "#holder", "Nobody");
  const moved = await shifts(page);
  assert.ok(moved < 0.05, `things have moved that were being looked at: ${moved}`);
  await close(page);
});

test("the guide goes back when what a step needs is no more, and says how to have it again", async () => {
  const page = await open("detours");
  await sees(page, "#holder", "Nobody");
  await sees(page, "#queue", "Nobody waits");
  const current = '#steps > [aria-current="step"]';
  await press(page, "Acquire Ada");
  await sees(page, "#step-count", "Step 2 of 11");
  await press(page, "Wait Ben");
  await sees(page, "#step-count", "Step 3 of 11");
  // Woken before its lease is over.
  await press(page, "Pause Ada");
  await sees(page, "#step-count", "Step 4 of 11");
  await press(page, "Wake Ada");
  await sees(page, "#step-count", "Step 3 of 11");
  // Killed, and succeeded.
  await press(page, "Kill Ada");
  await sees(page, "#step-count", "Step 1 of 11");
  await sees(page, current, "Press “Start” on Ada");
  await press(page, "Start Ada");
  await sees(page, current, "Press “Release” on Ben");
  await page.getByRole("button", { name: "Go to button" }).click();
  assert.equal(await focused(page), "Release Ben");
  await page.keyboard.press("Enter");
  await sees(page, current, "Press “Acquire” on Ada");
  await press(page, "Acquire Ada");
  await sees(page, "#step-count", "Step 2 of 11");
  await close(page);
});

test("a guide whose lock is held in another tab says so, until it is released there", async () => {
  const context = await pages.context();
  const here = await open("elsewhere", context);
  await press(here, "Acquire Ada");
  await sees(here, "#holder", "Ada");
  const there = await open("elsewhere", context);
  const current = '#steps > [aria-current="step"]';
  await sees(there, current, "Somebody in another tab holds the lock");
  await press(here, "Release Ada");
  await sees(there, current, "Press “Acquire” on Cleo");
  await press(there, "Acquire Cleo");
  await sees(there, "#step-count", "Step 2 of 11");
  await close(here);
});

test("an address that names no lock is refused in words, and an emptied name is put back", async () => {
  for (const name of ["-x", "x".repeat(600)]) {
    const page = await pages.open(`/#${name}`);
    await sees(page, ".link", "Not connected");
    await sees(page, "#notice", "lock must be");
    // Whatever its socket has to say after that.
    await page.waitForTimeout(500);
    assert.equal(await textOf(page, ".link"), "Not connected");
    assert.ok(await page.locator("#notice").isVisible());
    assert.equal(await page.locator(".client").count(), 0);
    await close(page);
  }
  const page = await open("kept");
  await page.getByLabel("Lock").fill("");
  await page.keyboard.press("Enter");
  assert.equal(await page.getByLabel("Lock").inputValue(), "kept");
  await close(page);
});

test("a connection that is lost is said to be, and comes back by itself", async () => {
  const page = await open("lost");
  await press(page, "Acquire Ada");
  await sees(page, "#holder", "Ada");
  pages.proxy.isDown = true;
  pages.proxy.cut();
  await sees(page, ".link", "Lost, retrying");
  await sees(page, "#store", "As known last");
  pages.proxy.isDown = false;
  await sees(page, ".link", "Connected");
  await press(page, "Wait Ben");
  await sees(page, "#queue", "Ben");
  await close(page, /WebSocket connection to .* failed|net::ERR_/);
});

test("where the store wants a key it is asked for, and kept nowhere", async () => {
  const { key, entry, id } = makeKey("playground", ["read", "lock"], ["playground"]);
  await using locked = await Pages.start({ LEASEHOLD_KEYS: secretOf([{ key, entry, id }]) });
  const page = await locked.open("/#locked");
  const dialog = page.getByRole("dialog", { name: "A key, please" });
  await dialog.waitFor();
  await page.getByLabel("Key", { exact: true }).fill("lh_wrong");
  await page.keyboard.press("Enter");
  await dialog.getByText("needs one for the space").waitFor();
  await assertAccessible(page);
  await page.getByLabel("Key", { exact: true }).fill(key);
  await page.keyboard.press("Enter");
  await press(page, "Acquire Ada");
  await sees(page, "#holder", "Ada");
  const kept = await page.evaluate(() =>
    JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href]),
  );
  assert.ok(!kept.includes(key));
  await page.reload();
  await dialog.waitFor();
  // The browser says itself that it was not let in.
  locked.assertQuiet(/401|WebSocket connection to .* failed/);
});

test("nothing stands in the way of anybody: phone and desktop, light and dark", async () => {
  const page = await open("access");
  await assertAccessible(page);
  await press(page, "Acquire Ada");
  await press(page, "Wait Ben");
  await sees(page, "#queue", "Ben");
  await press(page, "Kill Ben");
  await press(page, "Add a client");
  await press(page, "Cut off Cleo");
  for (const viewport of [PHONE, DESKTOP]) {
    for (const colorScheme of ["light", "dark"] as const) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await assertAccessible(page);
      await assertFits(page);
    }
  }
  await close(page);
});

/** The playground at a lock of its own, connected. */
async function open(lock: string, context?: BrowserContext): Promise<Page> {
  const page = await pages.open(`/#${lock}`, context ?? (await pages.context()));
  page.setDefaultTimeout(PATIENCE_MS);
  await sees(page, ".link", "Connected");
  await page.locator(".client").nth(1).waitFor();
  return page;
}

/** Closes its browser's tabs. None may have complained, but of what is allowed. */
async function close(page: Page, ...allowed: RegExp[]): Promise<void> {
  await page.context().close();
  pages.assertQuiet(...allowed);
}

function card(page: Page, name: string): Locator {
  return page.getByRole("article", { name, exact: true });
}

/** A button by its whole name, which says whose it is. */
async function press(page: Page, name: string): Promise<void> {
  await page.getByRole("button", { name, exact: true }).click();
}

/** Waits until the first of what the selector finds says that, or more. */
async function sees(where: Page | Locator, selector: string, text: string): Promise<void> {
  await where
    .locator(selector)
    .filter({ hasText: text })
    .first()
    .waitFor({ state: "attached", timeout: PATIENCE_MS });
}

/** Waits until the log says that of somebody. */
async function logged(page: Page, name: string, text: string): Promise<void> {
  const row = page.locator("#log tr").filter({ hasText: name }).filter({ hasText: text });
  await row.first().waitFor({ state: "attached", timeout: PATIENCE_MS });
}

async function textOf(page: Page, selector: string): Promise<string> {
  return (await page.locator(selector).textContent()) ?? "";
}

/** The newest that the store has given. */
async function fenceOf(page: Page): Promise<number> {
  return Number(await page.locator("#fences li").first().getAttribute("title"));
}

/** How much of the page has moved since it was opened, as browsers count it: 0.1 is called good. */
function shifts(page: Page): Promise<number> {
  return page.evaluate(
    () =>
      new Promise<number>((resolve) => {
        const observer = new PerformanceObserver((list) => {
          const entries = list.getEntries() as (PerformanceEntry & { value: number })[];
          resolve(entries.reduce((sum, { value }) => sum + value, 0));
        });
        observer.observe({ type: "layout-shift", buffered: true });
        // None at all is nothing to observe.
        setTimeout(() => resolve(0), 1_000);
      }),
  );
}

/** What has the focus, by the words on it. */
function focused(page: Page): Promise<string> {
  return page.evaluate(() => {
    const element = document.activeElement as HTMLInputElement;
    return (element.labels?.[0] ?? element).textContent!.trim();
  });
}

async function tabTo(page: Page, name: string): Promise<void> {
  for (let presses = 0; presses < 60; presses += 1) {
    await page.keyboard.press("Tab");
    if ((await focused(page)) === name) return;
  }
  assert.fail(`“${name}” cannot be reached by Tab`);
}
