//! TypeScript to what npm and wrangler take: esbuild joins it with the glue, tsc writes the types.

use std::fs;

use anyhow::{Context, Result};

use crate::command::root;
use crate::declarations;
use crate::tools::run_npm;

/// One JavaScript file of dist/.
struct Bundle {
    entry: &'static str,
    output: &'static str,
    options: &'static [&'static str],
}

/// The client frees what it makes in Rust. To have a registry for what it might forget is a tenth of its time, and keeps
/// what was registered past the collection of young garbage.
const NO_FINALIZATION: &str = "--define:FinalizationRegistry=undefined";

const WORKER: Bundle =
    Bundle { entry: "src/worker/worker.ts", output: "dist/worker.js", options: &["--external:*.wasm"] };

const FAULTS: Bundle = Bundle {
    entry: "src/worker/worker.ts",
    output: "target/faults/dist/worker.js",
    options: &["--alias:#glue/worker.js=./target/glue/faults.js", "--external:*.wasm"],
};

/// The npm package: once for workerd, which wants to be handed compiled modules, and once with the bytes inside for
/// everybody else.
const CLIENT: [Bundle; 2] = [
    Bundle {
        entry: "src/binding/index.ts",
        output: "dist/index.workerd.js",
        options: &[
            "--alias:#wasm=./src/binding/wasm.workerd.ts",
            "--alias:#wasm-module=./leasehold.wasm",
            "--alias:#store=./store.workerd.js",
            "--external:./leasehold.wasm",
            "--external:./store.workerd.js",
            NO_FINALIZATION,
        ],
    },
    Bundle {
        entry: "src/binding/index.ts",
        output: "dist/index.js",
        options: &[
            "--alias:#wasm=./src/binding/wasm.default.ts",
            "--alias:#wasm-text=./target/glue/binding.text.js",
            "--alias:#store=./store.js",
            "--external:./store.js",
            NO_FINALIZATION,
        ],
    },
];

/// Its in-process store, which is loaded when it is first used, in the same two ways.
const MEMORY: [Bundle; 2] = [
    Bundle {
        entry: "src/binding/store.ts",
        output: "dist/store.workerd.js",
        options: &[
            "--alias:#wasm=./src/binding/wasm.workerd.ts",
            "--alias:#wasm-module=./leasehold-store.wasm",
            "--external:./leasehold-store.wasm",
        ],
    },
    Bundle {
        entry: "src/binding/store.ts",
        output: "dist/store.js",
        options: &["--alias:#wasm=./src/binding/wasm.default.ts", "--alias:#wasm-text=./target/glue/memory.text.js"],
    },
];

/// Guards for protected resources. No WebAssembly.
const FENCE: Bundle = Bundle { entry: "src/fence/index.ts", output: "dist/fence.js", options: &[] };

/// The command `leasehold`. It imports the package by its name, which in the package is the package itself.
const COMMAND_LINE: Bundle = Bundle {
    entry: "src/command-line/main.ts",
    output: "dist/command-line.js",
    options: &["--banner:js=#!/usr/bin/env node", "--external:leasehold"],
};

pub fn worker() -> Result<()> {
    WORKER.write()
}

pub fn faults() -> Result<()> {
    FAULTS.write()
}

pub fn client() -> Result<()> {
    CLIENT.iter().try_for_each(Bundle::write)
}

pub fn memory() -> Result<()> {
    MEMORY.iter().try_for_each(Bundle::write)
}

/// The browser's client, for the pages of `www/`: what is served is that folder as it is.
pub fn pages() -> Result<()> {
    let folder = root().join("www/leasehold");
    fs::create_dir_all(&folder).context("www/leasehold cannot be made")?;
    let copied = fs::copy(root().join("dist/index.js"), folder.join("index.js"));
    copied.map(|_| ()).context("dist/index.js cannot be copied to www/leasehold")
}

pub fn fence() -> Result<()> {
    FENCE.write()
}

pub fn command_line() -> Result<()> {
    COMMAND_LINE.write()?;
    make_executable(COMMAND_LINE.output)
}

/// The `.d.ts` files beside the JavaScript; a type error stops here.
pub fn types() -> Result<()> {
    for part in ["src/worker", "src/binding", "src/fence"] {
        run_npm("tsc", &["--project", part, "--noEmit", "false", "--emitDeclarationOnly"])?;
    }
    declarations::publish()?;
    // It imports the others' types by the name of the package, and has none to show.
    run_npm("tsc", &["--project", "src/command-line"])
}

/// npm sees to that in what it installs; this is for the file as it lies in `dist/`.
fn make_executable(output: &str) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(root().join(output), fs::Permissions::from_mode(0o755))
            .with_context(|| format!("{output} cannot be made executable"))?;
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
            // An uncaught error prints the line that it was thrown in.
            "--line-limit=2000",
            "--external:cloudflare:*",
            "--external:node:*",
            "--log-level=warning",
        ];
        run_npm("esbuild", &[&common, self.options].concat())
    }
}
