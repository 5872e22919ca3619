//! `bench`: Leasehold beside what else one could use, measured on this machine by the programs in `bench/`.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::command::{cargo, find_on_path, line, root, run, say};
use crate::tools::{self, npm, run_npm};
use crate::{build, debian};

/// The sections whose name contains the word. A full run also writes `bench/REPORT.md`.
pub fn sections(word: &str) -> Result<ExitCode> {
    build::everything()?;
    tools::BENCH.install()?;
    run_npm("tsc", &["--project", "bench"])?;
    servers();
    if "engine".contains(word) {
        native_engine()?;
    }
    let status = npm("node").args(["bench/main.ts", word]).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The servers of the peers, with the Debian package that each is in.
const SERVERS: [(&str, &str); 2] = [("redis-server", "redis-server"), ("etcd", "etcd-server")];

/// Tries to install the servers that are missing. Whoever needs one that stays missing is left out, which `bench/main.ts`
/// says.
fn servers() {
    let missing = SERVERS.iter().filter(|(program, _)| find_on_path(program).is_none());
    let packages: Vec<_> = missing.map(|(_, package)| *package).collect();
    if !packages.is_empty() {
        debian::install(&packages);
    }
}

/// Times the engine by itself; `bench/main.ts` reads what criterion found.
fn native_engine() -> Result<()> {
    say("Timing", "the engine, natively");
    let folder = root().join("target/bench");
    let mut bench =
        cargo(&["bench", "--bench", "engine", "--quiet", "--manifest-path", "bench/engine/Cargo.toml", "--target-dir"]);
    bench.arg(&folder).args(["--", "--quiet", "--noplot"]).env("CRITERION_HOME", folder.join("criterion"));
    let mut counted =
        cargo(&["build", "--release", "--quiet", "--manifest-path", "bench/engine/Cargo.toml", "--target-dir"]);
    run(counted.arg(&folder))?;
    let output = bench.output()?;
    if !output.status.success() {
        bail!("`{}` failed ({}): {}", line(&bench), output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
