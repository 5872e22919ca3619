// Makes JavaScript of the components, for the tests in V8: target/components/js/<name>/<name>.js and its types.
import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { transpile } from "@bytecodealliance/jco-transpile";

const components = {
  decider: "dist/leasehold.component.wasm",
  provider: "dist/leasehold-provider.component.wasm",
  "provider-sync": "dist/leasehold-provider-sync.component.wasm",
};

for (const [name, path] of Object.entries(components)) {
  const outDir = resolve("target/components/js", name);
  await rm(outDir, { recursive: true, force: true });
  const { files } = await transpile(path, { name, outDir });
  for (const [file, content] of Object.entries(files)) {
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, content);
  }
}
