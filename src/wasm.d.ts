// What an import of a WebAssembly file is: a compiled module in workerd, bytes where the build
// inlines the file.
declare module "*.wasm" {
  const module: WebAssembly.Module;
  export default module;
}
declare module "#wasm-bytes" {
  const bytes: Uint8Array<ArrayBuffer>;
  export default bytes;
}
