// workerd refuses to compile bytes and hands out compiled modules instead.
import module from "#wasm-module";

export const wasm = (): WebAssembly.Module => module;
