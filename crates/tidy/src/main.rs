//! tidy: checks the rules of this tree that neither rustc nor clippy knows, and prints each finding as
//! `path:line: what`.
//!
//! Run by `make check` from the root of the tree; the last line has the counts. `source` reads the files,
//! `rules` has a function for each simple rule, `specs` checks the pages that name tests, `figures` those
//! that state figures, `callers` what heads of files say, `floors` and `circles` the imports of files,
//! `measure` the counts that may only fall, `licences` the crates that are used. CONTRIBUTING.md has the
//! reasons for the rules. With `--measure` it prints the counts instead, with `--places KEY` everything that
//! one of them counts, with `--advice` long functions and files; with `--html DIR` it writes the documents as
//! HTML (`handbook`), with `--sbom` it prints what the server is built of (`sbom`).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod advice;
mod callers;
mod circles;
mod figures;
mod finding;
mod floors;
mod handbook;
mod imports;
mod licences;
mod measure;
mod rules;
mod sbom;
mod source;
mod specs;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use finding::{Finding, Rule};
use handbook::Handbook;
use source::Tree;

/// How tidy is called.
const USAGE: &str =
    "usage: tidy [--measure | --places KEY | --advice | --html DIR | --sbom [cluster]] [ROOT]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => check("."),
        ["--measure"] => with_tree(".", measured),
        ["--measure", root] => with_tree(root, measured),
        ["--advice"] => with_tree(".", advised),
        ["--advice", root] => with_tree(root, advised),
        ["--places", key] => with_tree(".", |tree| listed(tree, key)),
        ["--places", key, root] => with_tree(root, |tree| listed(tree, key)),
        ["--sbom"] => billed(&[]),
        ["--sbom", "cluster"] => billed(&[licences::CLUSTER]),
        ["--html", out] => written(".", out),
        ["--html", out, root] => written(root, out),
        [root] if !root.starts_with('-') => check(root),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Reads the tree below `root` for `work`.
fn with_tree(root: &str, work: impl FnOnce(&Tree) -> ExitCode) -> ExitCode {
    match Tree::read(Path::new(root)) {
        Ok(tree) => work(&tree),
        Err(error) => {
            eprintln!("tidy: cannot read {root}: {error}");
            ExitCode::from(2)
        }
    }
}

/// Prints all findings.
fn check(root: &str) -> ExitCode {
    // Cargo takes as long as all other rules together.
    let licences = thread::spawn(licences::findings);
    with_tree(root, |tree| {
        let mut lines: Vec<String> = findings(tree).iter().map(ToString::to_string).collect();
        let licences = licences.join().unwrap_or_else(|_| Err(std::io::Error::other("the check panicked")));
        let pages = Handbook::read(Path::new(root)).map(|pages| pages.findings()).unwrap_or_else(|error| {
            vec![Finding::new("README.md", 1, format!("the pages cannot be read: {error}"))]
        });
        lines.extend(pages.iter().map(ToString::to_string));
        lines.extend(licences.unwrap_or_else(|e| vec![format!("Cargo.lock:1: cannot check licences: {e}")]));
        print(&lines, &format!("tidy: {} files, {} findings", tree.files.len(), lines.len()));
        if lines.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    })
}

/// Everything in the tree that breaks a rule. Each rule has a thread of its own.
fn findings(tree: &Tree) -> Vec<Finding> {
    let others: [Rule; 6] =
        [callers::rule, floors::rule, circles::rule, measure::rule, specs::rule, figures::rule];
    let rules = rules::RULES.iter().copied().chain(others);
    let panicked = |_| vec![Finding::new("crates/tidy/src/main.rs", 1, "a rule panicked")];
    thread::scope(|scope| {
        let running: Vec<_> = rules.map(|rule| scope.spawn(move || rule(tree))).collect();
        running.into_iter().flat_map(|rule| rule.join().unwrap_or_else(panicked)).collect()
    })
}

fn measured(tree: &Tree) -> ExitCode {
    let lines = measure::table(tree);
    print(&lines, &format!("tidy: {} files", tree.files.len()));
    ExitCode::SUCCESS
}

fn advised(tree: &Tree) -> ExitCode {
    let lines = advice::lines(tree);
    print(&lines, &format!("tidy: {} long functions and files", lines.len()));
    ExitCode::SUCCESS
}

/// Prints the software bill of materials of a build with these features.
fn billed(features: &[&str]) -> ExitCode {
    match sbom::bill(features) {
        Ok(bill) => {
            let _ = std::io::stdout().write_all(bill.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("tidy: no bill of materials: {error}");
            ExitCode::from(2)
        }
    }
}

/// Writes the documents as HTML below a directory.
fn written(root: &str, out: &str) -> ExitCode {
    let done = Handbook::read(Path::new(root)).and_then(|pages| pages.write(Path::new(out)));
    match done {
        Ok(pages) => {
            print(&[], &format!("tidy: {pages} pages in {out}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("tidy: cannot write the pages of {root} to {out}: {error}");
            ExitCode::from(2)
        }
    }
}

fn listed(tree: &Tree, key: &str) -> ExitCode {
    let Some(lines) = measure::places(tree, key) else {
        eprintln!("tidy: no figure `{key}`; `tidy --measure` lists them");
        return ExitCode::from(2);
    };
    print(&lines, &format!("tidy: {} places", lines.len()));
    ExitCode::SUCCESS
}

/// Prints lines and a last one. A reader that stops early, such as `head`, is no fault.
fn print(lines: &[String], last: &str) {
    let text: String =
        lines.iter().map(String::as_str).chain([last]).map(|line| format!("{line}\n")).collect();
    let _ = std::io::stdout().write_all(text.as_bytes());
}
