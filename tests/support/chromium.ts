// The Chromium that `cargo xtask test` found or installed, without a window and without a word to anybody else.
import { existsSync } from "node:fs";
import { type Browser, chromium } from "playwright-core";

export function launchChromium(): Promise<Browser> {
  const executablePath = process.env["LEASEHOLD_CHROMIUM"] ?? "/usr/bin/chromium";
  if (!existsSync(executablePath))
    throw new Error("LEASEHOLD_CHROMIUM is not the path of a Chromium");
  return chromium.launch({
    executablePath,
    // Root, as in containers, has no sandbox to offer.
    chromiumSandbox: process.getuid?.() !== 0,
    args: [
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}
