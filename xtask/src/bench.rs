//! `bench`: Leasehold beside what else one could use, measured on this machine by the programs in `bench/`.

use std::env;
use std::process::{ExitCode, Stdio};

use anyhow::{Result, bail};

use crate::build;
use crate::command::{cargo, command, line, root, say};
use crate::freshness::Step;
use crate::tools::{npm, run_npm};

/// The sections whose name contains the word. A full run also writes `bench/REPORT.md`.
pub fn sections(word: &str) -> Result<ExitCode> {
    build::everything()?;
    packages()?;
    run_npm("tsc", &["--project", "bench"])?;
    servers();
    if "engine".contains(word) {
        native_engine()?;
    }
    let status = npm("node").args(["bench/main.ts", word]).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The clients of the peers, and what draws: nobody else needs them, so they are no packages of the workspace.
fn packages() -> Result<()> {
    let folder = root().join("bench");
    let modules = folder.join("node_modules");
    let step = Step {
        stamp: modules.join(".leasehold"),
        maker: "npm ci".into(),
        inputs: &[folder.join("package-lock.json")],
        outputs: &[modules.join("ioredis")],
    };
    step.unless_fresh(|| {
        say("Installing", "npm packages of the benchmark");
        let mut install = command("npm");
        install.args(["ci", "--loglevel=error"]).current_dir(&folder);
        match install.stdout(Stdio::null()).status() {
            Ok(status) if status.success() => Ok(()),
            _ => bail!("the npm packages of bench/ could not be installed; `npm ci` there shows why"),
        }
    })
}

/// The servers of the peers, with the Debian package that each is in.
const SERVERS: [(&str, &str); 2] = [("redis-server", "redis-server"), ("etcd", "etcd-server")];

/// Tries to install the servers that are missing. Whoever needs one that stays missing is left out, which `bench/main.ts`
/// says.
fn servers() {
    let missing: Vec<_> =
        SERVERS.iter().filter(|(program, _)| !is_on_path(program)).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return;
    }
    say("Installing", &missing.join(", "));
    for words in [&["update"][..], &["install", "--yes", "--no-install-recommends"][..]] {
        let mut apt = command("apt-get");
        apt.arg("--quiet").args(words).env("DEBIAN_FRONTEND", "noninteractive");
        // As in single-user mode, so that no server is started: the benchmark starts its own.
        apt.env("RUNLEVEL", "1");
        if words != ["update"] {
            apt.args(&missing);
        }
        // Without the rights, or on another system, this comes to nothing.
        apt.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok();
    }
}

fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// Times the engine by itself; `bench/main.ts` reads what criterion found.
fn native_engine() -> Result<()> {
    say("Timing", "the engine, natively");
    let folder = root().join("target/bench");
    let mut bench = cargo(&["bench", "--quiet", "--manifest-path", "bench/engine/Cargo.toml", "--target-dir"]);
    bench.arg(&folder).args(["--", "--quiet", "--noplot"]).env("CRITERION_HOME", folder.join("criterion"));
    let output = bench.output()?;
    if !output.status.success() {
        bail!("`{}` failed ({}): {}", line(&bench), output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
