//! `test`: runs the runners, adds up what they counted, and ends with the one line
//! `N passed, N failed`. A stage that ran nothing has failed, and so has a test that was skipped.

use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;

use anyhow::{Context, Result, anyhow};

use crate::command::{cargo, line, root};
use crate::{build, prove, tools};

pub fn everything() -> Result<ExitCode> {
    let mut tally = Tally::default();
    tally += rust(&["--workspace"]);
    tally += mutations();
    tally += after_build(|| node(""));
    tally += wasmtime();
    Ok(tally.close())
}

/// The components on all their hosts.
pub fn component() -> Result<ExitCode> {
    let mut tally = after_build(|| node("component"));
    tally += wasmtime();
    Ok(tally.close())
}

/// The Rust tests of the core: no WebAssembly, no npm.
pub fn core() -> Result<ExitCode> {
    Ok(rust(&["--package", "leasehold"]).close())
}

/// The test files whose path contains the word.
pub fn javascript(word: &str) -> Result<ExitCode> {
    Ok(after_build(|| node(word)).close())
}

/// How many tests passed and failed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl Tally {
    const FAILURE: Tally = Tally { passed: 0, failed: 1 };

    /// Prints the last line.
    fn close(self) -> ExitCode {
        println!("{} passed, {} failed", self.passed, self.failed);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn after_build(stage: impl FnOnce() -> Result<Tally>) -> Tally {
    prepare().and_then(|()| stage()).unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        Tally::FAILURE
    })
}

/// Builds while what only the tests need is installed.
fn prepare() -> Result<()> {
    thread::scope(|scope| {
        let needs = scope.spawn(|| tools::TESTS.install().and_then(|()| tools::chromium()));
        build::for_tests()?;
        needs.join().map_err(|_| anyhow!("the installation of what the tests need broke off"))??;
        Ok(())
    })
}

fn rust(selection: &[&str]) -> Tally {
    let mut command = cargo(&["test", "--no-fail-fast"]);
    run(command.args(selection), cargo_tally)
}

/// Rules broken on purpose: each that is noticed is a test passed.
fn mutations() -> Tally {
    match prove::noticed() {
        Ok((passed, failed)) => Tally { passed, failed },
        Err(error) => {
            eprintln!("xtask: {error:#}");
            Tally::FAILURE
        }
    }
}

/// Of a crate by itself: nothing else waits for wasmtime to compile.
fn wasmtime() -> Tally {
    rust(&["--manifest-path", "tests/component/wasmtime/Cargo.toml", "--target-dir", "target/wasmtime"])
}

fn node(word: &str) -> Result<Tally> {
    let mut files = Vec::new();
    test_files(&root().join("tests"), &mut files)?;
    files.retain(|file| file.to_string_lossy().contains(word));
    files.sort();
    if files.is_empty() {
        // Without a file, Node's runner would go looking for some by itself.
        eprintln!("xtask: no test file of tests/ has \"{word}\" in its path");
        return Ok(Tally::FAILURE);
    }
    let mut command = tools::npm("node");
    command.args(["--test", "--test-concurrency=1", "--test-reporter=spec"]).args(files);
    command.env(tools::CHROMIUM_VARIABLE, tools::chromium()?);
    Ok(run(&mut command, node_tally))
}

/// The files `*.test.ts` below a folder, with paths from the workspace's folder.
fn test_files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        if path.ends_with("node_modules") {
            continue;
        } else if path.is_dir() {
            test_files(&path, found)?;
        } else if path.to_string_lossy().ends_with(".test.ts") {
            found.push(path.strip_prefix(root()).unwrap_or(&path).to_path_buf());
        }
    }
    Ok(())
}

/// Runs a test runner, shows what it prints and adds up the lines that count.
fn run(command: &mut Command, count: fn(&str) -> Option<Tally>) -> Tally {
    let ran = watch(command, count);
    match ran {
        Err(error) => {
            eprintln!("xtask: {error:#}");
            Tally::FAILURE
        }
        Ok((tally, success)) => match (tally, success) {
            (Tally { passed: 0, failed: 0 }, _) => {
                eprintln!("xtask: `{}` ran no test", line(command));
                Tally::FAILURE
            }
            (Tally { failed: 0, .. }, false) => {
                eprintln!("xtask: `{}` failed without counting a failure", line(command));
                Tally { failed: 1, ..tally }
            }
            _ => tally,
        },
    }
}

fn watch(command: &mut Command, count: fn(&str) -> Option<Tally>) -> Result<(Tally, bool)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("`{}` could not be started", line(command)))?;
    let mut tally = Tally::default();
    if let Some(output) = child.stdout.take() {
        for text in BufReader::new(output).lines() {
            let text = text.context("a test runner printed something that is not text")?;
            println!("{text}");
            tally += count(&text).unwrap_or_default();
        }
    }
    Ok((tally, child.wait()?.success()))
}

/// `test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
fn cargo_tally(text: &str) -> Option<Tally> {
    let (_, counts) = text.strip_prefix("test result: ")?.split_once(". ")?;
    let of = |what: &str| counts.split("; ").find_map(|count| count.strip_suffix(what)?.trim().parse::<u64>().ok());
    Some(Tally { passed: of("passed")?, failed: of("failed")? + of("ignored")? })
}

/// The closing lines of Node's runner, `ℹ pass 12` and its like, each on a line of its own.
fn node_tally(text: &str) -> Option<Tally> {
    let (what, count) = text.strip_prefix("ℹ ")?.split_once(' ')?;
    let count = count.parse().ok()?;
    match what {
        "pass" => Some(Tally { passed: count, failed: 0 }),
        "fail" | "cancelled" | "skipped" | "todo" => Some(Tally { passed: 0, failed: count }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_counts_an_ignored_test_as_failed() {
        let text = "test result: FAILED. 5 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(cargo_tally(text), Some(Tally { passed: 5, failed: 3 }));
        assert_eq!(cargo_tally("test tests::adds ... ok"), None);
    }

    #[test]
    fn node_counts_what_did_not_run_as_failed() {
        assert_eq!(node_tally("ℹ pass 12"), Some(Tally { passed: 12, failed: 0 }));
        assert_eq!(node_tally("ℹ todo 1"), Some(Tally { passed: 0, failed: 1 }));
        assert_eq!(node_tally("ℹ tests 13"), None);
        assert_eq!(node_tally("▶ pass 3"), None);
    }
}
