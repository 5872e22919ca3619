//! What the build needs beyond cargo: the WebAssembly target, the npm packages, and a Node that is new
//! enough for them; and a Chromium for the tests. Each is installed when it is missing; what cannot be had is
//! named with its remedy.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::command::{command, find_on_path, line, root, run, say};
use crate::debian;
use crate::freshness::Step;

pub const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// The tests need the runner and the type stripping of this one, wrangler a little less.
const NODE_MAJOR: u32 = 24;
/// Taken from npm where the machine's own is older: a package without install scripts.
const NODE_VERSION: &str = "24.21.0";

/// Makes sure that rustc can compile to WebAssembly.
pub fn wasm_target() -> Result<()> {
    if has_wasm_target() {
        return Ok(());
    }
    let mut add = command("rustup");
    add.args(["target", "add", WASM_TARGET]);
    if add.status().is_ok_and(|status| status.success()) && has_wasm_target() {
        return Ok(());
    }
    bail!("the Rust target {WASM_TARGET} is missing and rustup could not add it; `{}` would mend it", line(&add))
}

fn has_wasm_target() -> bool {
    let mut libraries = command("rustc");
    libraries.args(["--print", "target-libdir", "--target", WASM_TARGET]).stderr(Stdio::null());
    libraries.output().is_ok_and(|output| {
        output.status.success() && Path::new(String::from_utf8_lossy(&output.stdout).trim()).exists()
    })
}

/// A folder with a package.json of its own, and what its packages are for.
pub struct Packages {
    folder: &'static str,
    purpose: &'static str,
}

/// What building needs.
pub const BUILD: Packages = Packages { folder: ".", purpose: "npm packages" };
/// What only the tests need.
pub const TESTS: Packages = Packages { folder: "tests", purpose: "npm packages of the tests" };
/// The clients of the benchmark's peers, and what draws.
pub const BENCH: Packages = Packages { folder: "bench", purpose: "npm packages of the benchmark" };

impl Packages {
    /// Makes sure that node_modules/ is what package-lock.json says.
    pub fn install(&self) -> Result<()> {
        let folder = root().join(self.folder);
        let modules = folder.join("node_modules");
        let step = Step {
            // Inside the folder it vouches for, so that it goes with it.
            stamp: modules.join(".leasehold"),
            maker: "npm ci".into(),
            inputs: &[folder.join("package-lock.json")],
            outputs: &[modules.join(".package-lock.json")],
        };
        step.unless_fresh(|| {
            say("Installing", self.purpose);
            let mut install = command("npm");
            // Complaints about the machine's Node are beside the point: the packages run on their own one.
            install.args(["ci", "--loglevel=error"]).current_dir(&folder);
            match install.stdout(Stdio::null()).status() {
                Ok(status) if status.success() => Ok(()),
                Ok(_) => bail!("the {} could not be installed; `npm ci` in {} shows why", self.purpose, self.folder),
                Err(_) => bail!("npm is not on the path; install Node.js 20 or newer, which brings it"),
            }
        })
    }
}

/// Makes sure that there is a Chromium for the tests, and says where.
pub fn chromium() -> Result<PathBuf> {
    if let Some(named) = env::var_os(CHROMIUM_VARIABLE) {
        return Ok(named.into());
    }
    find_chromium()
        .or_else(|| {
            debian::install(&["chromium"]);
            find_chromium()
        })
        .with_context(|| {
            format!("the tests need Chromium or Chrome: install one, or name its program in {CHROMIUM_VARIABLE}")
        })
}

/// Where the tests, too, look for the path.
pub const CHROMIUM_VARIABLE: &str = "LEASEHOLD_CHROMIUM";

fn find_chromium() -> Option<PathBuf> {
    let on_path = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let on_macos = ["Chromium", "Google Chrome"]
        .map(|name| PathBuf::from(format!("/Applications/{name}.app/Contents/MacOS/{name}")));
    on_path.iter().find_map(|name| find_on_path(name)).or_else(|| on_macos.into_iter().find(|path| path.exists()))
}

/// Makes sure that there is a Node new enough: the machine's, or one of the project's own.
pub fn node() -> Result<()> {
    if machine_has_node() || own_node().exists() {
        return Ok(());
    }
    let Some(package) = node_package() else {
        bail!("Node.js {NODE_MAJOR} or newer is needed, and npm has none for this machine; install it")
    };
    say("Installing", &package);
    let mut install = command("npm");
    install.args(["install", "--prefix", OWN_NODE, "--no-save", "--no-package-lock", "--loglevel=error", &package]);
    match install.stdout(Stdio::null()).status() {
        Ok(status) if status.success() && own_node().exists() => Ok(()),
        _ => bail!("npm has no Node.js {NODE_MAJOR} for this machine (`{}` shows why); install it", line(&install)),
    }
}

const OWN_NODE: &str = "target/node";

fn own_node() -> PathBuf {
    let name = node_package().unwrap_or_default();
    let (package, _) = name.split_once('@').unwrap_or((&name, ""));
    root().join(OWN_NODE).join("node_modules").join(package).join("bin/node")
}

fn node_package() -> Option<String> {
    let system = match env::consts::OS {
        "linux" => "linux",
        "macos" => "darwin",
        _ => return None,
    };
    let processor = match env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        _ => return None,
    };
    Some(format!("node-{system}-{processor}@{NODE_VERSION}"))
}

fn machine_has_node() -> bool {
    let version = command("node").arg("--version").output();
    let major = version.ok().and_then(|output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.strip_prefix('v')?.split('.').next()?.parse::<u32>().ok()
    });
    major.is_some_and(|major| major >= NODE_MAJOR)
}

/// A program of the npm packages, or `node` itself, run by a Node that is new enough.
pub fn npm(program: &str) -> Command {
    let mut npm = match program {
        "node" if own_node().exists() => command(&own_node().to_string_lossy()),
        "node" => command("node"),
        _ => command(&root().join("node_modules/.bin").join(program).to_string_lossy()),
    };
    let folders = own_node().parent().map(Path::to_path_buf).into_iter().chain([root().join("node_modules/.bin")]);
    npm.env("PATH", first_on_path(folders));
    // Nothing is reported home, asked of the user or fetched from Cloudflare, and wrangler's files stay here.
    npm.env("WRANGLER_SEND_METRICS", "false");
    npm.env("CLOUDFLARE_CF_FETCH_ENABLED", "false");
    npm.env("CI", "1");
    npm.env("WRANGLER_LOG_PATH", root().join(".wrangler/logs"));
    npm.env("WRANGLER_REGISTRY_PATH", root().join(".wrangler/registry"));
    npm
}

fn first_on_path(folders: impl Iterator<Item = PathBuf>) -> OsString {
    let rest = env::var_os("PATH").unwrap_or_default();
    let all = folders.chain(env::split_paths(&rest));
    env::join_paths(all).unwrap_or(rest)
}

/// Runs a program of the npm packages to its end.
pub fn run_npm(program: &str, words: &[&str]) -> Result<()> {
    run(npm(program).args(words))
}
