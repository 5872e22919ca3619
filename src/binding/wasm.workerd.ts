// workerd refuses to compile bytes and hands out compiled modules instead.
import module from "./leasehold.wasm";

export const wasm = (): WebAssembly.Module => module;
