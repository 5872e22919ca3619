// Node, Deno and Bun: the file beside this one.
import { readFileSync } from "node:fs";

export const wasm = (): BufferSource => readFileSync(new URL("./leasehold.wasm", import.meta.url));
