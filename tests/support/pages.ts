// The pages of www/ as people meet them: served by wrangler as its configuration says, opened in Chromium.
import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { AxeResults } from "axe-core";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { launchChromium } from "./chromium.ts";
import { Proxy } from "./proxy.ts";
import { Wrangler } from "./wrangler.ts";

const root = resolve(import.meta.dirname, "../..");
const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

export const PHONE = { width: 360, height: 740 };
export const DESKTOP = { width: 1280, height: 900 };

export interface Look {
  readonly viewport?: { readonly width: number; readonly height: number };
  readonly colorScheme?: "light" | "dark";
  readonly reducedMotion?: "reduce" | "no-preference";
  /** Of a picture, in device pixels per pixel. */
  readonly deviceScaleFactor?: number;
}

/** The Worker and its pages, and a browser. `await using` ends both. */
export class Pages implements AsyncDisposable {
  /** Between the browser and the Worker, to be broken. */
  readonly proxy: Proxy;
  readonly #serve: (port?: string) => Promise<Wrangler>;
  #wrangler: Wrangler;
  readonly #browser: Browser;
  readonly #scratch: string;
  /** What pages have complained of since the last time that was looked at. */
  readonly complaints: string[] = [];

  private constructor(
    proxy: Proxy,
    serve: (port?: string) => Promise<Wrangler>,
    wrangler: Wrangler,
    browser: Browser,
    scratch: string,
  ) {
    this.proxy = proxy;
    this.#serve = serve;
    this.#wrangler = wrangler;
    this.#browser = browser;
    this.#scratch = scratch;
  }

  /** Open to everybody, unless `variables` say otherwise. */
  static async start(
    variables: Readonly<Record<string, string>> = { LEASEHOLD_OPEN: "true" },
  ): Promise<Pages> {
    const scratch = await mkdtemp(join(tmpdir(), "leasehold-pages-"));
    const words = Object.entries(variables).flatMap(([name, value]) => [
      "--var",
      `${name}:${value}`,
    ]);
    // Whom it refuses is no news.
    const quiet = ["--log-level", "error"];
    const persistent = ["--persist-to", join(scratch, "state"), ...quiet, ...words];
    const site = await siteIn(scratch);
    const serve = (port?: string) => Wrangler.start(site, scratch, persistent, port);
    const [wrangler, browser] = await Promise.all([serve(), launchChromium()]);
    return new Pages(await Proxy.before(wrangler.url), serve, wrangler, browser, scratch);
  }

  /** Kills the Worker with SIGKILL and starts it again on its state, at the same address. */
  async restart(): Promise<void> {
    await this.#wrangler[Symbol.asyncDispose]();
    this.#wrangler = await this.#serve(new URL(this.#wrangler.url).port);
  }

  get url(): string {
    return this.proxy.url;
  }

  /** The Worker itself, past the proxy. */
  get store(): { readonly url: string } {
    return this.#wrangler;
  }

  /** Tabs of one context share what tabs of one browser do. */
  context(look: Look = {}): Promise<BrowserContext> {
    return this.#browser.newContext({ viewport: DESKTOP, ...look });
  }

  /** A tab; what it complains of is kept. */
  async open(path: string, where: BrowserContext | Look = {}): Promise<Page> {
    const context = "newPage" in where ? where : await this.context(where);
    const page = await context.newPage();
    page.on("pageerror", (error) => this.complaints.push(String(error.stack)));
    page.on("console", (message) => {
      if (message.type() === "error") this.complaints.push(message.text());
    });
    // Said on the console too, but not by every worker.
    page.on("request", (request) => {
      if (new URL(request.url()).origin !== this.url)
        this.complaints.push(`asked ${request.url()}`);
    });
    await page.goto(`${this.url}${path}`);
    return page;
  }

  /** Fails where a page has complained: errors, what its Content-Security-Policy forbids, requests elsewhere. */
  assertQuiet(...allowed: readonly RegExp[]): void {
    const complaints = this.complaints
      .splice(0)
      .filter((text) => !allowed.some((of) => of.test(text)));
    assert.deepEqual(complaints, []);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#browser.close();
    await this.proxy[Symbol.asyncDispose]();
    await this.#wrangler[Symbol.asyncDispose]();
    await rm(this.#scratch, { recursive: true, force: true });
  }
}

/** What wrangler deploys, where nothing changes meanwhile: it would start again. */
async function siteIn(scratch: string): Promise<string> {
  const site = join(scratch, "site");
  for (const name of ["wrangler.jsonc", "dist/worker.js", "dist/worker.wasm", "www"]) {
    await cp(join(root, name), join(site, name), { recursive: true });
  }
  return site;
}

/** Fails where axe-core finds something serious or critical. */
export async function assertAccessible(page: Page): Promise<void> {
  // As a script of the page it would be forbidden; evaluated, it is none.
  await page.evaluate(await readFile(axe, "utf8"));
  const { violations } = await page.evaluate(() =>
    (globalThis as unknown as { axe: { run(): Promise<AxeResults> } }).axe.run(),
  );
  const bad = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  assert.deepEqual(
    bad.map(({ id, nodes }) => [
      id,
      nodes.map(({ html, failureSummary }) => [html, failureSummary]),
    ]),
    [],
  );
}

/** Fails where the page is wider than its window. */
export async function assertFits(page: Page): Promise<void> {
  const [content, window] = await page.evaluate(() => [
    document.documentElement.scrollWidth,
    document.documentElement.clientWidth,
  ]);
  assert.ok(content! <= window!, `the page is ${content} px wide in a window of ${window} px`);
}
