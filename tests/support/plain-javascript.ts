// TypeScript of this repository for those who cannot read it: the same without its types.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { transformSync } from "esbuild";

/** `path`: from the folder of the repository. */
export function plainJavaScript(path: string): string {
  const text = readFileSync(resolve(import.meta.dirname, "../..", path), "utf8");
  return transformSync(text, { loader: "ts", format: "esm", target: "es2022" }).code;
}
