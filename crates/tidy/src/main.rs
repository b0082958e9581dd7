//! tidy: checks the rules of this tree that neither rustc nor clippy knows, and prints what breaks them.
//!
//! Run by `make check` from the root of the tree. `source` reads files, `rules` has one function for each
//! rule, `specs` checks the pages that name tests, `figures` those that state figures, `floors` what may
//! import what, `licences` the crates that are used; CONTRIBUTING.md says what the rules are for.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod figures;
mod floors;
mod imports;
mod licences;
mod rules;
mod source;
mod specs;

use std::path::Path;
use std::process::ExitCode;

use source::Tree;

fn main() -> ExitCode {
    let root = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let tree = match Tree::read(Path::new(&root)) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: cannot read {root}: {error}");
            return ExitCode::from(2);
        }
    };
    let found = rules::all(&tree);
    for finding in &found {
        println!("{finding}");
    }
    let licences =
        licences::findings().unwrap_or_else(|error| vec![format!("cannot check licences: {error}")]);
    for finding in &licences {
        println!("{finding}");
    }
    let findings = found.len() + licences.len();
    println!("tidy: {} files, {findings} findings", tree.files.len());
    if findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
