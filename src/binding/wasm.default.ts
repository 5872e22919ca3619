// Browsers and bundlers: no two agree on how to ship a .wasm file, so the bytes travel in the script.
import bytes from "#wasm-bytes";

export const wasm = (): BufferSource => bytes;
