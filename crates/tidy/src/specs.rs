//! The pages that name tests, `docs/specs.md` and `docs/promises.md`: sections of transcripts, test
//! functions, differences from INN.
//!
//! A row about a section that is followed, or about a promise, names the test that proves it, and that test
//! exists. Each difference from INN in a transcript is explained, and each explained difference is in one.
//! One of the rules.

use std::collections::BTreeSet;

use crate::finding::{Finding, finding};
use crate::source::{File, Tree};

const PAGE: &str = "docs/specs.md";
const PROMISES: &str = "docs/promises.md";
const TRANSCRIPTS: &str = "crates/newsreel/tests/transcripts/";

/// Words for how a section is followed, and whether a row with the word must name a test.
const WORDS: &[(&str, bool)] =
    &[("followed", true), ("partial", true), ("deviation", true), ("not here", false), ("client", false)];

/// Everything that is wrong with the two pages.
pub fn rule(tree: &Tree) -> Vec<Finding> {
    let tests = Tests::of(tree);
    let page = |path| tree.files.iter().find(|file| file.path == path);
    let mut found = page(PROMISES).map_or_else(Vec::new, |page| promises(page, &tests));
    if let Some(page) = page(PAGE) {
        found.extend(standards(page, &tests, tree));
    }
    found
}

/// Each row of `docs/promises.md` names tests that exist, or a command of the Makefile.
fn promises(page: &File, tests: &Tests) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, line) in page.text.lines().enumerate() {
        let Some(&[_, shown]) = cells(line).as_deref() else { continue };
        for name in quoted(shown).filter(|name| is_reference(name) && !tests.has(name)) {
            found.push(finding(page, at + 1, format!("there is no test `{name}`")));
        }
        if !quoted(shown).any(|name| is_reference(name) || name.starts_with("make ")) {
            found.push(finding(page, at + 1, "names no test and no command".to_owned()));
        }
    }
    found
}

fn standards(page: &File, tests: &Tests, tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut explained = BTreeSet::new();
    let mut of_inn = false;
    for (at, line) in page.text.lines().enumerate() {
        if let Some(title) = line.strip_prefix("## ") {
            of_inn = title.contains("INN");
        }
        let Some(cells) = cells(line) else { continue };
        for name in quoted(line).filter(|name| is_reference(name) && !tests.has(name)) {
            found.push(finding(page, at + 1, format!("there is no test `{name}`")));
        }
        if of_inn {
            explained.extend(cells.first().and_then(|cell| quoted(cell).next()).map(str::to_owned));
        } else if let Some(word) = cells.get(2) {
            let known = WORDS.iter().find(|(known, _)| known == word);
            let named = quoted(line).any(is_reference);
            match known {
                None => found.push(finding(page, at + 1, format!("`{word}` is no word for a section"))),
                Some((_, true)) if !named => {
                    found.push(finding(page, at + 1, "names no test".to_owned()));
                }
                Some(_) => {}
            }
        }
    }
    let met = differences(tree);
    let absent =
        met.difference(&explained).map(|name| format!("does not explain the difference `{name}` from INN"));
    let idle = explained.difference(&met).map(|name| format!("explains `{name}`, which no transcript has"));
    found.extend(absent.chain(idle).map(|what| finding(page, 1, what)));
    found
}

/// The cells of a row of a table; `None` for its head and for other lines.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<_> = inner.split('|').map(str::trim).collect();
    let head = cells.iter().all(|cell| cell.trim_matches('-').is_empty())
        || matches!(cells.first(), Some(&("section" | "name" | "promise")));
    (!head).then_some(cells)
}

/// The parts of a text between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn is_reference(name: &str) -> bool {
    name.contains(".txt#") || name.contains("::")
}

/// The tests that a page can name.
struct Tests {
    sections: BTreeSet<String>,
    functions: BTreeSet<String>,
}

impl Tests {
    fn of(tree: &Tree) -> Self {
        let mut sections = BTreeSet::new();
        for (name, file) in transcripts(tree) {
            let titles = file.text.lines().filter_map(|line| line.strip_prefix("## "));
            let words = titles.filter_map(|title| title.split_whitespace().next());
            sections.extend(words.map(|word| format!("{name}#{word}")));
        }
        let mut found = BTreeSet::new();
        for file in tree.rust() {
            let module = module(&file.path);
            let tests = file.functions.iter().filter(|function| function.is_test);
            found.extend(tests.map(|test| format!("{module}::{}", test.name)));
        }
        Self { sections, functions: found }
    }

    fn has(&self, name: &str) -> bool {
        self.sections.contains(name) || self.functions.contains(name)
    }
}

/// The name of a test's file in the pages: its own, or the next folder's if its own says nothing. A file that
/// is directly in `src` or `tests` has the name of its crate.
fn module(path: &str) -> &str {
    let mut parts = path.trim_end_matches(".rs").rsplit('/');
    let says_nothing = |part: &&str| matches!(*part, "mod" | "tests" | "lib" | "main" | "src");
    parts.find(|part| !says_nothing(part)).unwrap_or_default()
}

fn transcripts(tree: &Tree) -> impl Iterator<Item = (&str, &File)> {
    tree.files.iter().filter_map(|file| Some((file.path.strip_prefix(TRANSCRIPTS)?, file)))
}

/// The differences from INN that transcripts have.
fn differences(tree: &Tree) -> BTreeSet<String> {
    let lines =
        transcripts(tree).filter(|(name, _)| name.ends_with(".txt")).flat_map(|(_, file)| file.text.lines());
    lines.filter_map(|line| Some(line.strip_prefix("I[")?.split_once(']')?.0.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<String> {
        let transcript = "## group the text\nC: GROUP x\nS: 211\nI[slow]: 211\n";
        let test = "//! Head.\n#[test]\nfn reads() { assert!(true); }\nfn helper() {}\n";
        let files = vec![
            File::new("crates/newsreel/tests/transcripts/a.txt", transcript),
            File::new("crates/netnews/src/date/tests.rs", test),
            File::new(PAGE, page),
        ];
        rule(&Tree::of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn tests_of_a_whole_crate_have_its_name() {
        let paths = ["crates/feeds/src/tests.rs", "crates/feeds/src/lib.rs", "crates/feeds/tests/main/a.rs"];
        assert_eq!(paths.map(module), ["feeds", "feeds", "a"]);
    }

    #[test]
    fn a_promise_names_a_test_or_a_command() {
        let test = "//! Head.\n#[test]\nfn reads() { assert!(true); }\n";
        let page = "| promise | shown by |\n|---|---|\n| a | `date::reads` |\n| b | `make soak` |\n\
                    | c | it is so |\n| d | `date::writes` |\n";
        let files = vec![File::new("crates/netnews/src/date/tests.rs", test), File::new(PROMISES, page)];
        let found: Vec<_> = rule(&Tree::of(files)).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "docs/promises.md:5: names no test and no command",
                "docs/promises.md:6: there is no test `date::writes`",
            ]
        );
    }

    #[test]
    fn tests_and_differences_that_rows_name_exist() {
        let good = "| section | about | how | test |\n|---|---|---|---|\n\
                    | 1 | a | followed | `a.txt#group`, `date::reads` |\n| 2 | b | client | |\n\
                    ## INN\n| `slow` | theirs |\n";
        assert_eq!(found(good), Vec::<String>::new());
        let bad = "| 1 | a | followed | `a.txt#none` |\n| 2 | b | partial | |\n| 3 | c | perhaps | |\n\
                   | 4 | d | followed | `date::helper` |\n## INN\n| `fast` | ours |\n";
        assert_eq!(
            found(bad),
            [
                "docs/specs.md:1: there is no test `a.txt#none`",
                "docs/specs.md:2: names no test",
                "docs/specs.md:3: `perhaps` is no word for a section",
                "docs/specs.md:4: there is no test `date::helper`",
                "docs/specs.md:1: does not explain the difference `slow` from INN",
                "docs/specs.md:1: explains `fast`, which no transcript has",
            ]
        );
    }
}
