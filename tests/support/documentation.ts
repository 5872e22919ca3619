// The pages of the documentation, as tests read them.
import { globSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

const root = resolve(import.meta.dirname, "../..");

/** An example, and its language. */
export interface Block {
  readonly language: string;
  readonly text: string;
}

export function pageOf(file: string): string {
  return readFileSync(resolve(root, file), "utf8");
}

/** The examples of a page, also those within a list. */
export function blocksOf(file: string): Block[] {
  return [...pageOf(file).matchAll(/^( *)```(\w+)\n(.*?)^\1```$/gms)].map(
    ([, indent = "", language, text]) => ({
      language: language!,
      text: text!.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
    }),
  );
}

/** The pages of the repository, by their paths. */
export const PAGES = globSync("**/*.md", {
  cwd: root,
  exclude: (path) => /(^|\/)(node_modules|target|dist)$/.test(path),
});

/** A link of a page that is to be found beside it. */
export interface Link {
  /** From the root of the repository; a folder without a slash at the end. */
  readonly path: string;
  readonly anchor: string | undefined;
  readonly isPicture: boolean;
}

/** The relative links of a page. */
export function linksOf(file: string): Link[] {
  const prose = pageOf(file).replaceAll(/^( *)```.*?^\1```$|`[^`\n]*`/gms, "");
  return [...prose.matchAll(/(!?)\[[^\]]*\]\(([^)\s]+)\)/g)]
    .filter(([, , target]) => !/^[a-z]+:/.test(target!))
    .map(([, mark, target]) => {
      const [path = "", anchor] = target!.split("#");
      const found = path === "" ? file : join(dirname(file), path).replace(/\/$/, "");
      return { path: found, anchor, isPicture: mark === "!" };
    });
}

/** What a link may name after the `#`: the headings, as GitHub spells them. */
export function anchorsOf(file: string): Set<string> {
  const prose = pageOf(file).replaceAll(/^( *)```.*?^\1```$/gms, "");
  const named = [...prose.matchAll(/ (?:id|name)="([^"]+)"/g)].map(([, name]) => name!);
  const headings = [...prose.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
  return new Set([...named, ...headings]);
}
