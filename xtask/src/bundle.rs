//! TypeScript to what npm and wrangler take: esbuild joins it with the glue, tsc writes the types.

use anyhow::Result;

use crate::tools::run_npm;

/// One JavaScript file of dist/.
struct Bundle {
    entry: &'static str,
    output: &'static str,
    options: &'static [&'static str],
}

const WORKER: Bundle =
    Bundle { entry: "src/worker/worker.ts", output: "dist/worker.js", options: &["--external:*.wasm"] };

const FAULTS: Bundle = Bundle {
    entry: "src/worker/worker.ts",
    output: "target/faults/dist/worker.js",
    options: &["--alias:#glue/worker.js=./target/glue/faults.js", "--external:*.wasm"],
};

/// The npm package, once for each way to come by the WebAssembly module.
const BINDING: [Bundle; 3] = [
    Bundle {
        entry: "src/binding/index.ts",
        output: "dist/index.workerd.js",
        options: &["--alias:#wasm=./src/binding/wasm.workerd.ts", "--external:*.wasm"],
    },
    Bundle {
        entry: "src/binding/index.ts",
        output: "dist/index.node.js",
        options: &["--alias:#wasm=./src/binding/wasm.node.ts"],
    },
    Bundle {
        entry: "src/binding/index.ts",
        output: "dist/index.js",
        options: &[
            "--alias:#wasm=./src/binding/wasm.default.ts",
            "--alias:#wasm-bytes=./dist/leasehold.wasm",
            "--loader:.wasm=binary",
        ],
    },
];

pub fn worker() -> Result<()> {
    WORKER.write()
}

pub fn faults() -> Result<()> {
    FAULTS.write()
}

pub fn binding() -> Result<()> {
    BINDING.iter().try_for_each(Bundle::write)
}

/// The `.d.ts` files beside the JavaScript; a type error stops here.
pub fn types() -> Result<()> {
    for part in ["src/worker", "src/binding"] {
        run_npm("tsc", &["--project", part, "--noEmit", "false", "--emitDeclarationOnly"])?;
    }
    Ok(())
}

impl Bundle {
    fn write(&self) -> Result<()> {
        let output = format!("--outfile={}", self.output);
        // `neutral`: no condition or global of a platform is assumed; imports of one stay as they are.
        let common = [
            self.entry,
            &output,
            "--bundle",
            "--format=esm",
            "--platform=neutral",
            "--target=es2022",
            // The sizes are promised.
            "--minify",
            "--external:cloudflare:*",
            "--external:node:*",
            "--log-level=warning",
        ];
        run_npm("esbuild", &[&common, self.options].concat())
    }
}
