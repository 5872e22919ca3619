//! `history-checker <leap> <file>..`: whether the histories that clients recorded against a real store can be true, and whether
//! the same histories are found out once they were tampered with. One JSON object a line; see `history.rs`. `leap`: by so many
//! microseconds the store's clock may have leapt meanwhile.

mod check;
mod history;
mod lock;
mod tamper;

use std::env;
use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use history::History;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let Some((Ok(leap), files)) = words.split_first().map(|(leap, files)| (leap.parse(), files)) else {
        eprintln!("history-checker <leap> <file>..");
        return ExitCode::from(2);
    };
    lock::bear_with(leap);
    match files.iter().try_for_each(|file| judge(file)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The history must be accepted, and every tampered copy of it refused.
fn judge(file: &str) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("{file} cannot be read"))?;
    let history = History::read(&text).with_context(|| file.to_owned())?;
    check::all(&history).with_context(|| format!("{file} cannot be true"))?;
    println!("{} events on {} locks: linearizable", history.events.len(), history.locks().len());
    for kind in tamper::KINDS {
        let copies = (kind.copies)(&history);
        ensure!(!copies.is_empty(), "{file} holds nothing to try \"{}\" on", kind.name);
        for copy in &copies {
            ensure!(check::all(copy).is_err(), "{file} tampered with was accepted: {}", kind.name);
        }
        println!("tampered with, {}: {} of {} refused", kind.name, copies.len(), copies.len());
    }
    Ok(())
}
