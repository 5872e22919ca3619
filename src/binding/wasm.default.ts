// Everywhere else: no two bundlers agree on how to ship a .wasm file, and what is bundled for Node or compiled into one
// program loses the file beside it. So the bytes travel in the script, as text that xtask/src/text.rs writes.
import text from "#wasm-text";

export function wasm(): BufferSource {
  const bytes = new Uint8Array(text.length);
  let length = 0;
  for (let at = 0; at < text.length; at += 1) {
    let value = valueAt(at);
    if (value >= PAIRS) value = PAIRS + (value - PAIRS) * VALUES + valueAt((at += 1));
    bytes[length++] = value;
  }
  return bytes.subarray(0, length);
}

const VALUES = 92;
const PAIRS = 90;

function valueAt(at: number): number {
  const code = text.charCodeAt(at);
  return (code === 32 ? 92 : code === 33 ? 60 : code) - 35;
}
