//! The callers that the head of a source file names: "Called by `hub`." One of the rules.
//!
//! Each name in backticks is that of a crate, a module, a program of fuzz tests, or something that is
//! declared in the tree, so a head that names what was renamed or removed is a finding.

use std::collections::BTreeSet;

use crate::finding::{Finding, finding};
use crate::source::{File, Tree};

/// Beginnings of the sentence.
const BEGINNINGS: [&str; 2] = ["Called by ", "Used by "];
/// Words before the names of declarations.
const DECLARING: [&str; 6] = ["struct", "enum", "trait", "mod", "fn", "type"];

/// One finding for each caller that is not there.
pub fn rule(tree: &Tree) -> Vec<Finding> {
    let known = names(tree);
    let mut found = Vec::new();
    for file in tree.production() {
        for caller in callers(&head(file)) {
            let mut parts = caller.split("::").filter(|part| !["crate", "super", "self"].contains(part));
            // The folder of a crate has hyphens in its name.
            if !parts.all(|part| known.contains(part) || known.contains(part.replace('_', "-").as_str())) {
                found.push(finding(file, 1, format!("it is called by `{caller}`, which is not there")));
            }
        }
    }
    found
}

/// Names of crates, modules, programs and declarations.
fn names(tree: &Tree) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    let sources = tree.rust().filter(|file| file.path.contains("/src/") || file.path.starts_with("fuzz/"));
    for file in sources {
        names.extend(file.path.split('/').map(|part| part.strip_suffix(".rs").unwrap_or(part)));
        let mut words = file.words_in(0, file.code.len()).peekable();
        while let Some(word) = words.next() {
            if DECLARING.contains(&word) {
                names.extend(words.peek());
            }
        }
    }
    names
}

/// The `//!` lines at the beginning of a file, as one text.
fn head(file: &File) -> String {
    let lines = file.text.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The names in backticks of the sentences about callers.
fn callers(head: &str) -> Vec<&str> {
    let sentences = BEGINNINGS.iter().flat_map(|beginning| head.split(beginning).skip(1));
    let names = sentences.flat_map(|rest| {
        let end = rest.find(". ").unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default().split('`').skip(1).step_by(2)
    });
    names.filter(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_:-".contains(&b))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_is_not_there_is_reported() {
        let text = "//! Head. Called by `hub`, `other::Reader` and\n//! `gone`. Then `nothing`. Used by `gone::hub`.\n";
        let files = [
            ("crates/feeds/src/a.rs", text),
            (
                "crates/feeds/src/hub.rs",
                "//! Head. Called by `[[peer]]` and `newsreel rnews`.\nstruct Reader;\n",
            ),
            ("crates/other/src/lib.rs", "//! Head.\n"),
            ("crates/site-base/src/lib.rs", "//! Head. Called by `site_base`.\n"),
        ];
        let tree = Tree::of(files.iter().map(|(path, text)| File::new(path, text)).collect());
        let found: Vec<String> = rule(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "crates/feeds/src/a.rs:1: it is called by `gone`, which is not there",
                "crates/feeds/src/a.rs:1: it is called by `gone::hub`, which is not there"
            ]
        );
    }
}
