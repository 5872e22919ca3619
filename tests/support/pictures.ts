// `cargo xtask pictures`: the pictures of the README, from the running pages.
import { mkdir, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Page } from "playwright-core";
import { Pages } from "./pages.ts";
import { ask, sleep, Store } from "./store.ts";

const folder = resolve(import.meta.dirname, "../../docs/pictures");
const LOOK = { viewport: { width: 1200, height: 940 }, colorScheme: "light" } as const;
const PATIENCE_MS = 30_000;

await mkdir(folder, { recursive: true });
await using pages = await Pages.start();
await playgroundAfterRefusal();
await consoleAtWork();
pages.assertQuiet();

/** Just after the paused client has woken up, written, and been refused. */
async function playgroundAfterRefusal(): Promise<void> {
  const page = await pages.open("/#invoice-42", LOOK);
  const press = (name: string) => page.getByRole("button", { name, exact: true }).click();
  await press("Acquire Ada");
  await sleep(5_000);
  await press("Wait Ben");
  await sleep(1_000);
  await press("Pause Ada");
  await page.locator("#holder", { hasText: "Ben" }).waitFor({ timeout: PATIENCE_MS });
  await sleep(4_000);
  await press("Wake Ada");
  await page.locator(".refused").first().waitFor({ timeout: PATIENCE_MS });
  await press("Wait Ada");
  await sleep(1_500);
  await take(page, "playground");
}

/** A space at work. */
async function consoleAtWork(): Promise<void> {
  const store = new Store(pages.store, "billing");
  const names = [
    "customer/7",
    "customer/31",
    "customer/118",
    "export/nightly",
    "invoice/40",
    "invoice/41",
    "invoice/42",
  ];
  for (const [index, name] of names.entries()) {
    const info = { job: name.split("/")[0]!, host: `edge-${(index % 3) + 1}` };
    await store.hold(name, {
      ttlMs: 60_000 + 41_000 * index,
      clientId: `worker-${index + 1}`,
      info,
    });
  }
  for (const limit of [1, 2, 3]) {
    const permit = { mode: "shared", limit: 5, ttlMs: 120_000, clientId: `mailer-${limit}` };
    await store.hold("mail/permits", permit);
  }
  const page = await pages.open("/console#space=billing", LOOK);
  await page.getByText("invoice/42").first().waitFor({ timeout: PATIENCE_MS });
  const waits: Promise<unknown>[] = [];
  for (const number of [8, 9, 10]) {
    const info = { job: "invoice", host: "edge-2" };
    const fields = ask({ waitMs: 40_000, clientId: `worker-${number}`, info });
    waits.push(store.command("acquire", "invoice/42", fields));
    await sleep(300);
  }
  // What comes and goes, so that there is something to plot.
  for (const end = Date.now() + 22_000; Date.now() < end;) {
    const first = await store.hold("cache/warm", { ttlMs: 5_000 });
    const next = ask({ ttlMs: 5_000, waitMs: 5_000 });
    const wait = store.command("acquire", "cache/warm", next);
    await sleep(50 + 400 * Math.random());
    await store.command("release", "cache/warm", first);
    const { fence } = (await wait).reply.lease;
    await store.command("release", "cache/warm", { token: next.token, fence });
  }
  await page.getByText("invoice/42").first().click();
  await sleep(1_000);
  await take(page, "console");
  await Promise.all(waits);
}

async function take(page: Page, name: string): Promise<void> {
  const path = join(folder, `${name}.png`);
  await page.screenshot({ path, animations: "disabled" });
  console.log(`docs/pictures/${name}.png, ${Math.round((await stat(path)).size / 1000)} kB`);
  await page.close();
}
