// Keeps an eye on the memory of WebAssembly. To be imported before what makes an instance.
const memories = [];

WebAssembly.Instance = class extends WebAssembly.Instance {
  constructor(module, imports) {
    super(module, imports);
    memories.push(this.exports.memory);
  }
};

/** Bytes of the latest instance: its memory never shrinks. */
export function wasmBytes() {
  return memories.at(-1).buffer.byteLength;
}
