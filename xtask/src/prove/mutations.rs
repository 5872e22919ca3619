//! `prove mutations`: whether the tests notice when a rule is broken.
//!
//! All mutations are built into one copy of the crate, each behind a question that is asked where it stands, and one of
//! them is switched on per run: so the crate is compiled once for all of them, and `src/` knows nothing of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::table::{LIVENESS, MUTATIONS, Mutation, SIMULATION};
use crate::command::{cargo, root, say};

/// How long the simulation looks for a world that notices.
const SECONDS: u64 = 40;

/// The tests that are to notice.
const TESTS: [&str; 6] = [SIMULATION, "wire", "store", "record", "holder", "traces"];

/// What came of a mutation.
pub struct Noticed {
    pub mutation: &'static Mutation,
    /// What it was noticed by, and after how many seeds; `None` where nothing was.
    pub by: Option<By>,
}

pub struct By {
    pub what: String,
    pub seeds: Option<u64>,
}

pub fn run() -> Result<Vec<Noticed>> {
    let folder = copy()?;
    say("Compiling", &format!("the rules with {} mutations", MUTATIONS.len()));
    test(&folder, &TESTS, &["--no-run"])?;
    is_quiet_without(&folder)?;
    let mut all = Vec::new();
    for (at, mutation) in MUTATIONS.iter().enumerate() {
        let started = Instant::now();
        let by = try_out(&folder, at + 1, mutation)?;
        let (rule, name) = (rule_of(mutation), mutation.name);
        match &by {
            Some(By { what, seeds }) => {
                let after = seeds.map_or(String::new(), |seeds| format!(", seeds needed: {seeds}"));
                println!("noticed   {rule:>8}  {name}: by {what}{after}");
            }
            None => println!("UNNOTICED {rule:>8}  {name}: not in {} s", started.elapsed().as_secs()),
        }
        all.push(Noticed { mutation, by });
    }
    Ok(all)
}

/// Writes the table into the documentation, between the lines that say where it is.
pub fn document(all: &[Noticed]) -> Result<()> {
    let path = root().join("docs/proof.md");
    let text = fs::read_to_string(&path).context("docs/proof.md cannot be read")?;
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let Some((before, after)) = parts else { bail!("docs/proof.md has no place for the table of mutations") };
    put(&path, &format!("{before}{BEGIN}\n\n{}\n{END}{after}", markdown(all)))
}

const BEGIN: &str = "<!-- Written by `cargo xtask prove mutations`. -->";
const END: &str = "<!-- The end of what it writes. -->";

fn markdown(all: &[Noticed]) -> String {
    let mut text = String::from("| rule | broken like this | noticed as | seeds needed |\n| --- | --- | --- | --- |\n");
    for Noticed { mutation, by } in all {
        let (what, seeds) = match by {
            Some(By { what, seeds }) => (what.as_str(), seeds.map_or("-".into(), |seeds| seeds.to_string())),
            None => ("**nothing**", "-".into()),
        };
        writeln!(text, "| {} | {} | {what} | {seeds} |", rule_of(mutation), mutation.name).unwrap_or_default();
    }
    text
}

fn rule_of(mutation: &Mutation) -> String {
    if mutation.rule == LIVENESS { "liveness".into() } else { mutation.rule.to_string() }
}

/// With no mutation switched on nothing is noticed: an alarm that always rings says nothing.
fn is_quiet_without(folder: &Path) -> Result<()> {
    for name in TESTS {
        let (success, text) = run_test(folder, name, 0, &[("LEASEHOLD_SEEDS", 2_000)])?;
        if !success {
            bail!("the test {name} fails without any mutation:\n{text}");
        }
    }
    Ok(())
}

fn try_out(folder: &Path, number: usize, mutation: &Mutation) -> Result<Option<By>> {
    let (success, text) = run_test(folder, mutation.test, number, &[("LEASEHOLD_SECONDS", SECONDS)])?;
    if success {
        return Ok(None);
    }
    if mutation.test == SIMULATION {
        return Ok(said_by_world(&text));
    }
    let failed = text.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    // A stack that overflows ends the whole program.
    let what = failed.map_or("the end of the program".into(), |name| format!("`{name}`"));
    Ok(Some(By { what: format!("tests/{}.rs: {what}", mutation.test), seeds: None }))
}

/// `seed 12 broke rule 3, expiry is a comparison: ...`
fn said_by_world(text: &str) -> Option<By> {
    let (seed, broken) = text.lines().find_map(|line| line.strip_prefix("seed ")?.split_once(" broke "))?;
    let (rule, _) = broken.split_once(": ")?;
    Some(By { what: rule.into(), seeds: Some(seed.parse::<u64>().ok()? + 1) })
}

fn run_test(folder: &Path, name: &str, mutation: usize, limits: &[(&str, u64)]) -> Result<(bool, String)> {
    let mut command = cargo(&["test", "--quiet", "--manifest-path"]);
    command.arg(folder.join("Cargo.toml")).arg("--target-dir").arg(target()).args(["--test", name]);
    without_symbols(&mut command);
    command.args(["--", "--nocapture", "--format", "pretty"]);
    command.env("LEASEHOLD_MUTATION", mutation.to_string()).env("LEASEHOLD_SHRINK", "0").env("RUST_BACKTRACE", "0");
    command.envs(limits.iter().map(|(name, value)| (*name, value.to_string())));
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

fn test(folder: &Path, names: &[&str], words: &[&str]) -> Result<()> {
    let mut command = cargo(&["test", "--quiet", "--manifest-path"]);
    command.arg(folder.join("Cargo.toml")).arg("--target-dir").arg(target());
    without_symbols(&mut command);
    command.args(names.iter().flat_map(|name| ["--test", name])).args(words);
    crate::command::run(&mut command)
}

/// Nobody looks into these programs, and they are built sooner.
fn without_symbols(command: &mut Command) {
    command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_PROFILE_TEST_DEBUG", "0");
}

/// Not that of the workspace: to cargo the copy is the same crate, and would take the place of the real one.
fn target() -> PathBuf {
    root().join("target/mutations/target")
}

/// The crate with every mutation in it, in a folder of its own.
fn copy() -> Result<PathBuf> {
    let (from, to) = (root(), root().join("target/mutations"));
    let manifest = fs::read_to_string(from.join("Cargo.toml")).context("Cargo.toml cannot be read")?;
    // A workspace by itself, of this crate alone, and without what none of these tests needs.
    let alone = manifest.lines().filter(|line| !line.starts_with("members = ") && !line.starts_with("proptest = "));
    put(&to.join("Cargo.toml"), &alone.collect::<Vec<_>>().join("\n"))?;
    put(&to.join("Cargo.lock"), &fs::read_to_string(from.join("Cargo.lock"))?)?;
    let mut sources = BTreeMap::new();
    read_all(&from.join("src"), "", &mut sources)?;
    for (name, text) in &mut sources {
        *text = mutated(name, text)?;
    }
    for mutation in MUTATIONS {
        if !sources.contains_key(mutation.file) {
            bail!("there is no src/{}, which \"{}\" changes", mutation.file, mutation.name);
        }
    }
    let library = sources.get_mut("lib.rs").context("there is no src/lib.rs")?;
    *library = format!("#![allow(warnings)]\n{library}\n{QUESTION}");
    for (name, text) in &sources {
        put(&to.join("src").join(name), text)?;
    }
    let mut tests = BTreeMap::new();
    read_all(&from.join("tests"), "", &mut tests)?;
    let is_needed = |name: &str| {
        let top = name.split('/').next().unwrap_or_default();
        matches!(top, "support" | "world" | "golden" | "traces") || TESTS.iter().any(|test| top == format!("{test}.rs"))
    };
    for (name, text) in tests.iter().filter(|(name, _)| is_needed(name)) {
        put(&to.join("tests").join(name), text)?;
    }
    Ok(to)
}

/// What every site asks.
const QUESTION: &str = "
/// Whether that mutation is switched on.
pub fn is_mutated(number: u32) -> bool {
    static NUMBER: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let read = || std::env::var(\"LEASEHOLD_MUTATION\").ok().and_then(|number| number.parse().ok()).unwrap_or(0);
    *NUMBER.get_or_init(read) == number
}
";

/// A source with its mutations, each behind its question.
fn mutated(file: &str, text: &str) -> Result<String> {
    // By the part of the source that they change: several may change the same.
    let mut spans: BTreeMap<(usize, usize), Vec<(usize, &Mutation)>> = BTreeMap::new();
    for (at, mutation) in MUTATIONS.iter().enumerate().filter(|(_, mutation)| mutation.file == file) {
        spans.entry(span(mutation, text)?).or_default().push((at + 1, mutation));
    }
    let mut done = String::new();
    let mut from = 0;
    for ((start, end), all) in spans {
        if start < from {
            bail!("\"{}\" changes what another mutation of src/{file} changes in part", all[0].1.name);
        }
        let original = &text[start..end];
        done.push_str(&text[from..start]);
        done.push_str(&asked(original, &all));
        from = end;
    }
    done.push_str(&text[from..]);
    Ok(done)
}

fn asked(original: &str, all: &[(usize, &Mutation)]) -> String {
    let mut text = format!("{{ {original} }}");
    for (number, mutation) in all {
        text = format!("if crate::is_mutated({number}) {{ {} }} else {text}", mutation.instead);
    }
    // Statements stay statements; an expression may stand among operators.
    if original.ends_with(';') { text } else { format!("({text})") }
}

/// Where in the source the mutation is.
fn span(mutation: &Mutation, text: &str) -> Result<(usize, usize)> {
    let Mutation { name, file, site, .. } = mutation;
    let parts = site.split_once('«').and_then(|(before, rest)| Some((before, rest.split_once('»')?)));
    let Some((before, (changed, after))) = parts else { bail!("\"{name}\" does not say what it changes") };
    let whole = format!("{before}{changed}{after}");
    let mut found = text.match_indices(&whole);
    match (found.next(), found.next()) {
        (Some((at, _)), None) => Ok((at + before.len(), at + before.len() + changed.len())),
        (None, _) => {
            bail!("\"{name}\": src/{file} has no `{whole}` any more; xtask/src/prove/table.rs has to follow it")
        }
        (Some(_), Some(_)) => bail!("\"{name}\": src/{file} has `{whole}` more than once"),
    }
}

/// Written only where it is another than before, so that cargo has nothing to do again.
fn put(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}

/// The texts below a folder, by their paths in it.
fn read_all(folder: &Path, prefix: &str, found: &mut BTreeMap<String, String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        let name = format!("{prefix}{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() {
            if name != "node_modules" {
                read_all(&path, &format!("{name}/"), found)?;
            }
        } else if let Ok(text) = fs::read_to_string(&path) {
            found.insert(name, text);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_has_its_place_in_the_sources() {
        let mut sources = BTreeMap::new();
        read_all(&root().join("src"), "", &mut sources).unwrap();
        for (name, text) in sources {
            mutated(&name, &text).unwrap();
        }
    }

    #[test]
    fn a_site_becomes_a_question() {
        let mutation = &MUTATIONS[0];
        assert_eq!(asked("a == b", &[(1, mutation)]), "(if crate::is_mutated(1) { true } else { a == b })");
        assert_eq!(asked("a();", &[(1, mutation)]), "if crate::is_mutated(1) { true } else { a(); }");
    }
}
