//! `prove`: the long runs. Each part is a program that looks for a broken rule, from a seed and for as long as it is
//! given, and says in its last words what it has seen.

mod fuzz;
mod mutations;
mod table;

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};

use crate::command::{cargo, line, say};
use crate::{build, tools};

/// Something that is proved by trying.
struct Part {
    name: &'static str,
    run: fn(&Plan) -> Result<String>,
    /// Whether it goes on for as long as there is time.
    takes: Takes,
}

enum Takes {
    TimeGiven,
    ItsTime,
}

/// A part is a function, or a program to which `program` hands the plan; add it here and it is in the summary.
const PARTS: &[Part] = &[
    Part { name: "simulation", run: |plan| rust_test("simulation", plan), takes: Takes::TimeGiven },
    Part { name: "model", run: |plan| rust_test("model", plan), takes: Takes::TimeGiven },
    Part { name: "exhaustive", run: |plan| rust_test("exhaustive", plan), takes: Takes::TimeGiven },
    Part { name: "histories", run: |plan| node_test("histories", plan), takes: Takes::TimeGiven },
    Part { name: "load", run: |plan| node_test("load", plan), takes: Takes::TimeGiven },
    Part { name: "inputs", run: |plan| node_test("bad-input", plan), takes: Takes::TimeGiven },
    Part { name: "fuzz", run: fuzz::targets, takes: Takes::TimeGiven },
    Part { name: "mutations", run: mutations, takes: Takes::ItsTime },
];

/// What is asked for on the command line.
struct Plan {
    seed: u64,
    /// For each part that takes what it is given.
    time: Duration,
}

const MINUTES: u64 = 30;

/// `[part] [--minutes n] [--seed n]`
pub fn parts(words: &[&str]) -> Result<ExitCode> {
    let (mut wanted, mut minutes, mut seed) = (None, MINUTES, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut number =
            || words.next().and_then(|text| text.parse().ok()).ok_or_else(|| anyhow!("{word} needs a number"));
        match *word {
            "--minutes" => minutes = number()?,
            "--seed" => seed = Some(number()?),
            name => wanted = Some(name),
        }
    }
    let parts: Vec<_> = PARTS.iter().filter(|part| wanted.is_none_or(|name| part.name == name)).collect();
    if parts.is_empty() {
        let names: Vec<_> = PARTS.iter().map(|part| part.name).collect();
        bail!("there is nothing to prove of that name; there is {}", names.join(", "));
    }
    let timed = parts.iter().filter(|part| matches!(part.takes, Takes::TimeGiven)).count();
    let time = Duration::from_secs(minutes * 60) / u32::try_from(timed.max(1))?;
    let seed = seed.unwrap_or_else(seed_of_now);
    say("Proving", &format!("with seed {seed}; `--seed {seed}` begins there again"));
    Ok(run(&parts, &Plan { seed, time }))
}

/// The short run of the mutations that is part of `test`.
pub fn noticed() -> Result<(u64, u64)> {
    let all = mutations::run()?;
    let noticed = all.iter().filter(|one| one.by.is_some()).count();
    Ok((noticed as u64, (all.len() - noticed) as u64))
}

fn run(parts: &[&Part], plan: &Plan) -> ExitCode {
    let mut summary = Vec::new();
    let mut code = ExitCode::SUCCESS;
    for part in parts {
        say("Proving", part.name);
        let started = Instant::now();
        let came_to = (part.run)(plan).unwrap_or_else(|error| {
            code = ExitCode::FAILURE;
            format!("FAILED: {error:#}")
        });
        summary.push((part.name, started.elapsed().as_secs(), came_to));
    }
    println!("\n| part | seconds | came to |\n| --- | --- | --- |");
    for (name, seconds, came_to) in summary {
        println!("| {name} | {seconds} | {came_to} |");
    }
    code
}

fn mutations(_: &Plan) -> Result<String> {
    let all = mutations::run()?;
    mutations::document(&all)?;
    let unnoticed: Vec<_> = all.iter().filter(|one| one.by.is_none()).map(|one| one.mutation.name).collect();
    if unnoticed.is_empty() {
        Ok(format!("{} mutations, all noticed", all.len()))
    } else {
        bail!("nobody notices: {}", unnoticed.join("; "))
    }
}

/// A file of `tests/` that reads the plan from its environment.
fn rust_test(name: &str, plan: &Plan) -> Result<String> {
    let mut command = cargo(&["test", "--quiet", "--package", "leasehold", "--test", name, "--", "--nocapture"]);
    program(&mut command, plan)
}

/// The same of a file that Node runs, against the Worker as it is built.
fn node_test(name: &str, plan: &Plan) -> Result<String> {
    build::for_tests()?;
    let mut command = tools::npm("node");
    command.args(["--test", "--test-reporter=spec", &format!("tests/{name}.test.ts")]);
    program(&mut command, plan)
}

/// Runs a program of a part. It finds where to begin in `LEASEHOLD_SEED` and how long it has in `LEASEHOLD_SECONDS`;
/// what it came to is the rest of a line after `proof: `.
fn program(command: &mut Command, plan: &Plan) -> Result<String> {
    command.env("LEASEHOLD_SEED", plan.seed.to_string());
    command.env("LEASEHOLD_SECONDS", plan.time.as_secs().max(1).to_string());
    let shown = line(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("`{shown}` could not be started"))?;
    let mut came_to = Vec::new();
    if let Some(output) = child.stdout.take() {
        for text in BufReader::new(output).lines() {
            let text = text?;
            println!("{text}");
            // A test runner may have left a dot in front of it.
            came_to.extend(text.split_once("proof: ").map(|(_, rest)| rest.to_owned()));
        }
    }
    match (child.wait()?.success(), came_to.is_empty()) {
        (true, false) => Ok(came_to.join("; ")),
        (true, true) => bail!("`{shown}` did not say what it came to"),
        (false, _) => bail!("`{shown}` found something; it is above"),
    }
}

fn seed_of_now() -> u64 {
    let given = env::var("LEASEHOLD_SEED").ok().and_then(|text| text.parse().ok());
    // Seeds are counted up from here, and are to be typed.
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() * 1_000_000;
    given.unwrap_or_else(now)
}
