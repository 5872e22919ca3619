//! What the fuzzer found worth keeping, played as ordinary tests: for each target the smallest set of files that reaches
//! all that was reached, and every input that once broke something.

mod fuzz;
mod support;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use fuzz::TARGETS;

#[test]
fn every_file_of_the_corpus_keeps_the_promises() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    for (name, run) in TARGETS {
        let folder = fs::read_dir(corpus.join(name)).expect("every target has a corpus");
        let files: Vec<_> = folder.map(|file| file.expect("the folder can be read").path()).collect();
        assert!(files.len() >= 20, "the corpus of {name} has only {} files", files.len());
        let broken = files.iter().filter(|file| {
            let bytes = fs::read(file).expect("a file of the corpus can be read");
            catch_unwind(AssertUnwindSafe(|| run(&bytes))).is_err()
        });
        let broken: Vec<_> = broken.collect();
        assert!(broken.is_empty(), "{name}: what happens with {broken:?} is above");
    }
}
