// What an import of a WebAssembly file is: a compiled module in workerd, text where the build puts the
// bytes into the script.
declare module "*.wasm" {
  const module: WebAssembly.Module;
  export default module;
}
declare module "#wasm-module" {
  const module: WebAssembly.Module;
  export default module;
}
declare module "#wasm-text" {
  const text: string;
  export default text;
}
