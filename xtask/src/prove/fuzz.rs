//! `prove fuzz`: libFuzzer on each target of `fuzz/`, beginning with the corpus of `tests/fuzz/`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};

use super::Plan;
use crate::command::{cargo, command, line, root, run, say};

const CARGO_FUZZ: &str = "0.13.2";

/// Longer inputs find no more, and take long: the bytes of 120 acts for the one, an ample message for the others.
const TARGETS: [(&str, usize); 5] =
    [("json", 4_096), ("wire", 4_096), ("frames", 4_096), ("records", 4_096), ("commands", 1_321)];

/// Shares the time among the targets.
pub fn targets(plan: &Plan) -> Result<String> {
    let tool = cargo_fuzz()?;
    run(nightly(&tool, "build")?.args(["--sanitizer", "none"]))?;
    let seconds = (plan.time.as_secs() / TARGETS.len() as u64).max(1);
    let mut told = Vec::new();
    for (target, longest) in TARGETS {
        say("Fuzzing", &format!("{target} for {seconds} s"));
        let Found { inputs, coverage } = fuzz(&tool, target, longest, seconds, plan.seed)?;
        told.push(format!("{target} {inputs} inputs, {coverage} edges"));
    }
    Ok(told.join("; "))
}

/// What a target came to.
struct Found {
    inputs: u64,
    coverage: u64,
}

fn fuzz(tool: &Path, target: &str, longest: usize, seconds: u64, seed: u64) -> Result<Found> {
    // What it learns stays in target/ and is where the next run begins.
    let [learnt, broken] = ["corpus", "artifacts"].map(|folder| root().join("target/fuzz").join(folder).join(target));
    for folder in [&learnt, &broken] {
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    }
    let known = root().join("tests/fuzz/corpus").join(target);
    let mut command = nightly(tool, "run")?;
    command.args(["--sanitizer", "none", target]).args([&learnt, &known]);
    command.args(["--", "-print_final_stats=1", "-timeout=20"]).args([
        format!("-max_total_time={seconds}"),
        format!("-max_len={longest}"),
        // 0 would be a seed of its own choice.
        format!("-seed={}", seed % u64::from(u32::MAX) + 1),
        format!("-artifact_prefix={}/", broken.display()),
    ]);
    let shown = line(&command);
    let mut child = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("`{shown}` could not be started"))?;
    let (mut inputs, mut coverage) = (0, 0);
    if let Some(output) = child.stderr.take() {
        for text in BufReader::new(output).lines() {
            let text = text?;
            coverage = number_after(&text, "cov: ").unwrap_or(coverage);
            inputs = number_after(&text, "stat::number_of_executed_units:").unwrap_or(inputs);
            let is_progress = text.starts_with('#') && !text.contains("DONE");
            if !is_progress {
                eprintln!("{text}");
            }
        }
    }
    if child.wait()?.success() {
        Ok(Found { inputs, coverage })
    } else {
        bail!(
            "{target} has found something: mend it, and put the file of {} into {}",
            broken.display(),
            known.display()
        )
    }
}

/// `12345` of `cov: 12345 ft: 1`.
fn number_after(text: &str, what: &str) -> Option<u64> {
    let (_, rest) = text.split_once(what)?;
    rest.split_whitespace().next()?.parse().ok()
}

/// cargo-fuzz under the nightly compiler, whose flags it needs.
fn nightly(tool: &Path, verb: &str) -> Result<Command> {
    let has_nightly = command("rustup").args(["run", "nightly", "rustc", "--version"]).stdout(Stdio::null()).status();
    if !has_nightly.is_ok_and(|status| status.success()) {
        bail!("fuzzing takes a nightly compiler: `rustup toolchain install nightly`");
    }
    let mut command = command("rustup");
    command.args(["run", "nightly"]).arg(tool).args(["fuzz", verb, "--fuzz-dir", "fuzz"]);
    command.args(["--target-dir", "target/fuzz/build"]);
    // They are those of the compiler that runs xtask.
    for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "CARGO_TARGET_DIR"] {
        command.env_remove(name);
    }
    Ok(command)
}

/// The program, installed into target/ where it is missing.
fn cargo_fuzz() -> Result<PathBuf> {
    let folder = root().join("target/cargo-fuzz");
    let program = folder.join("bin/cargo-fuzz");
    let version = Command::new(&program).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    if String::from_utf8_lossy(&version).trim() != format!("cargo-fuzz {CARGO_FUZZ}") {
        say("Installing", &format!("cargo-fuzz {CARGO_FUZZ}"));
        let folder = folder.to_str().ok_or_else(|| anyhow!("{} is no text", folder.display()))?;
        let name = format!("cargo-fuzz@{CARGO_FUZZ}");
        run(&mut cargo(&["install", "--locked", "--root", folder, &name]))
            .context("cargo-fuzz could not be installed")?;
    }
    Ok(program)
}
