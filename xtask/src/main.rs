//! `cargo xtask <command>`: builds, serves, tests and checks Leasehold, and does the set-up that needs.

mod bench;
mod build;
mod bundle;
mod check;
mod command;
mod component;
mod debian;
mod declarations;
mod freshness;
mod pictures;
mod prove;
mod rust_worker;
mod serve;
mod test;
mod text;
mod tools;
mod wasm;
mod wit;

use std::env;
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask <command>

  build                     everything into dist/
  build worker | binding | component
                            one artefact
  start                     the Worker on workerd, for local use; PORT sets the port (8787)
  test                      build, then every test
  test core                 the Rust tests of the package leasehold
  test component            the tests of the component, in V8 and in wasmtime
  test <word>               the JavaScript tests of the files whose path contains the word
  bench                     measures everything beside its peers, and writes bench/REPORT.md
  bench <word>              the sections whose name contains the word
  prove [part] [--minutes n] [--seed n]
                            the long runs: simulation, model, exhaustive, inputs, fuzz, mutations
  wit                       docs/wit.md anew, from wit/
  pictures                  docs/pictures/ anew, from the running pages
  check                     format, lint, documentation, types";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["build"] => build::everything(),
        ["build", "worker"] => build::worker(),
        ["build", "binding"] => build::binding(),
        ["build", "component"] => build::components(),
        ["start"] => serve::start(),
        ["test"] => test::everything(),
        ["test", "core"] => test::core(),
        ["test", "component"] => test::component(),
        ["test", word] => test::javascript(word),
        ["bench"] => bench::sections(""),
        ["bench", word] => bench::sections(word),
        ["prove", ..] => prove::parts(&words[1..]),
        ["wit"] => wit::write(),
        ["pictures"] => pictures::take(),
        ["check"] => check::everything(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
