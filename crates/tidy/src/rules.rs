//! The rules, one function each; [`all`] runs them.

use std::collections::HashSet;
use std::fmt;

use crate::source::{File, Tree, functions};

/// Lines that a Rust file may have.
const FILE_LINES_MAX: usize = 800;
/// Lines that a function may have, tests apart.
const FUNCTION_LINES_MAX: usize = 70;

/// Crates and the crates of ours that each may depend on.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("lock-order", &[]),
    ("netnews", &[]),
    ("newspages", &["netnews"]),
    ("nntp-io", &["lock-order", "netnews"]),
    ("spool", &["lock-order", "netnews"]),
    ("newscache", &["lock-order", "netnews", "spool"]),
    ("usenetfs", &["lock-order", "netnews"]),
    ("newssearch", &["lock-order", "netnews", "newspages", "spool"]),
    (
        "newsreel",
        &["lock-order", "netnews", "nntp-io", "spool", "newscache", "newspages", "newssearch", "usenetfs"],
    ),
];

/// Lines of code that a key of the configuration may cost, over all of `config` and without tests.
const CODE_LINES_PER_KEY_MAX: usize = 20;

/// Functions of what ships whose errors are bare text, which lose what caused them: a ratchet, to be lowered.
const TEXT_ERRORS_MAX: usize = 90;

/// Words for which the field has another one; each with that one.
const OTHER_WORDS: &[(&str, &str)] = &[
    ("frontend", "serving or injecting agent"),
    ("backend", "upstream, or storage method"),
    ("guid", "Message-ID"),
    ("evict", "replacement"),
    ("eviction", "replacement"),
    ("wal", "journal"),
    ("tier", "class"),
    ("subscription", "newsfeed"),
];

/// Columns that a line of prose or code may have.
const LINE_CHARS_MAX: usize = 110;
/// The crates whose sources keep to that with their messages too; in the others, comments do.
const NARROW_CRATES: &[&str] = &["netnews", "spool", "newscache", "lab"];
/// Pages that do not: this one is generated from texts without line ends.
const WIDE_PAGES: &[&str] = &["docs/config.md"];

/// Names of files and modules that say nothing.
const DRAWERS: &[&str] = &["utils", "util", "common", "helpers", "misc"];

/// Something that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

pub fn finding(file: &File, line: usize, what: impl Into<String>) -> Finding {
    Finding { path: file.path.clone(), line, what: what.into() }
}

/// Everything in the tree that breaks a rule.
pub fn all(tree: &Tree) -> Vec<Finding> {
    [
        crate_dependencies(tree),
        file_lengths(tree),
        function_lengths(tree),
        file_heads(tree),
        other_words(tree),
        drawers(tree),
        tests_assert(tree),
        one_commit_point(tree),
        machine_paths(tree),
        line_lengths(tree),
        files_named_exist(tree),
        lines_per_key(tree),
        errors_are_typed(tree),
        doors_for_tests(tree),
        locks_have_ranks(tree),
        tests_are_run(tree),
        crate::floors::rule(tree),
        crate::specs::rule(tree),
        crate::figures::rule(tree),
    ]
    .concat()
}

fn crate_dependencies(tree: &Tree) -> Vec<Finding> {
    let ours: Vec<&str> = MAY_DEPEND_ON.iter().map(|(name, _)| *name).chain(["lab"]).collect();
    let mut found = Vec::new();
    for (name, allowed) in MAY_DEPEND_ON {
        let path = format!("crates/{name}/Cargo.toml");
        let Some(file) = tree.files.iter().find(|file| file.path == path) else { continue };
        for (at, line) in file.text.lines().enumerate() {
            let word = line.split(['.', '=', ' ']).next().unwrap_or_default();
            // A crate's tests depend on the crate itself, with its feature for tests.
            if word != "name" && word != *name && ours.contains(&word) && !allowed.contains(&word) {
                found.push(finding(file, at + 1, format!("{name} must not depend on {word}")));
            }
        }
    }
    found
}

fn file_lengths(tree: &Tree) -> Vec<Finding> {
    let too_long = |file: &&File| file.text.lines().count() > FILE_LINES_MAX;
    tree.rust()
        .filter(too_long)
        .map(|file| finding(file, FILE_LINES_MAX, format!("a file of more than {FILE_LINES_MAX} lines")))
        .collect()
}

fn function_lengths(tree: &Tree) -> Vec<Finding> {
    let mut long = Vec::new();
    for file in tree.rust().filter(|file| file.path.contains("/src/")) {
        for function in functions(&file.code) {
            if function.lines > FUNCTION_LINES_MAX && !function.is_test {
                let what =
                    format!("{} has {} lines, more than {FUNCTION_LINES_MAX}", function.name, function.lines);
                long.push(finding(file, function.line, what));
            }
        }
    }
    long
}

fn file_heads(tree: &Tree) -> Vec<Finding> {
    let headless = |file: &&File| !file.text.starts_with("//!") && !file.text.starts_with("#!");
    tree.rust()
        .filter(headless)
        .map(|file| finding(file, 1, "begin with `//!` lines: what it is, invariants, who calls it, source"))
        .collect()
}

fn other_words(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let spoken = |file: &&File| file.is_rust() || file.path.ends_with(".md");
    for file in tree.files.iter().filter(spoken).filter(|file| !file.path.ends_with("tidy/rules.rs")) {
        for (at, line) in file.text.lines().enumerate() {
            for word in words(line) {
                let other = OTHER_WORDS.iter().find(|(bad, _)| *bad == word);
                found.extend(
                    other.map(|(bad, good)| finding(file, at + 1, format!("not `{bad}` but {good}"))),
                );
            }
        }
    }
    found
}

/// The words of a line in lower case; names are taken apart at `_` and at capitals.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for c in line.chars() {
        if !c.is_alphabetic() || (after_small && c.is_uppercase()) {
            words.push(String::new());
        }
        after_small = c.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| c.is_alphabetic()) {
            word.extend(c.to_lowercase());
        }
    }
    words
}

fn drawers(tree: &Tree) -> Vec<Finding> {
    let stem =
        |file: &File| file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
    let folder = |file: &File| file.path.rsplit('/').nth(1).unwrap_or_default().to_owned();
    tree.rust()
        .filter(|file| DRAWERS.contains(&stem(file).as_str()) || DRAWERS.contains(&folder(file).as_str()))
        .map(|file| finding(file, 1, "a drawer; put each thing where its user is"))
        .collect()
}

/// Tests that cannot fail: without an assertion, their own or in a function they call.
fn tests_assert(tree: &Tree) -> Vec<Finding> {
    let asserts = |body: &str| {
        ["assert", "panic!", "unwrap_err(", "expect_err("].iter().any(|sign| body.contains(sign))
    };
    let mut checking: HashSet<String> = HashSet::new();
    for file in tree.rust() {
        let helpers = functions(&file.code).into_iter().filter(|f| !f.is_test && asserts(&f.body));
        checking.extend(helpers.map(|f| f.name));
    }
    let mut found = Vec::new();
    for file in tree.rust() {
        for test in functions(&file.code).into_iter().filter(|f| f.is_test) {
            let calls = || {
                let names = test.body.split(|c: char| !(c.is_alphanumeric() || c == '_'));
                names.skip(2).any(|name| checking.contains(name))
            };
            if !asserts(&test.body) && !calls() {
                found.push(finding(file, test.line, format!("the test {} asserts nothing", test.name)));
            }
        }
    }
    found
}

fn one_commit_point(tree: &Tree) -> Vec<Finding> {
    let mark = concat!("// COMMIT ", "POINT");
    let marked = |file: &File| file.text.lines().position(|line| line.contains(mark)).map(|at| at + 1);
    let all: Vec<Finding> = tree
        .rust()
        .filter_map(|file| marked(file).map(|line| finding(file, line, "a second commit point")))
        .collect();
    all.into_iter().skip(1).collect()
}

fn machine_paths(tree: &Tree) -> Vec<Finding> {
    let signs = [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/")];
    let mut found = Vec::new();
    for file in &tree.files {
        for (at, line) in file.text.lines().enumerate() {
            if let Some(sign) = signs.iter().find(|sign| line.contains(*sign)) {
                found.push(finding(file, at + 1, format!("names a directory of one machine: {sign}")));
            }
        }
    }
    found
}

/// Sources that a page names, such as `crates/spool/src/disk/map.rs`, or a folder of them.
fn files_named_exist(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for page in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (at, line) in page.text.lines().enumerate() {
            let named = line.split('`').filter(|word| word.starts_with("crates/") && word.contains("/src/"));
            for path in named.filter(|path| !path.contains(['*', ' '])) {
                let folder = format!("{}/", path.trim_end_matches('/'));
                let is_there = |file: &File| file.path == path || file.path.starts_with(&folder);
                if !tree.files.iter().any(is_there) {
                    found.push(finding(page, at + 1, format!("there is no file {path}")));
                }
            }
        }
    }
    found
}

/// The configuration stays declarative: what a key costs in code, with reading, checking, printing and the
/// manual. The keys are those that the manual has.
fn lines_per_key(tree: &Tree) -> Vec<Finding> {
    let is_config = |file: &&File| {
        let path = file.path.strip_prefix("crates/newsreel/src/config").unwrap_or_default();
        path.starts_with(['.', '/']) && !path.ends_with("/tests.rs")
    };
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    let code = |file: &File| {
        let lines = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().lines();
        lines.filter(is_code).count()
    };
    let lines: usize = tree.rust().filter(is_config).map(code).sum();
    let Some(manual) = tree.files.iter().find(|file| file.path == "docs/config.md") else {
        return Vec::new();
    };
    let keys = manual.text.lines().filter(|line| line.starts_with("### ")).count();
    if lines <= CODE_LINES_PER_KEY_MAX * keys {
        return Vec::new();
    }
    let what = format!("{keys} keys cost {lines} lines of code, more than {CODE_LINES_PER_KEY_MAX} each");
    vec![finding(manual, 1, what)]
}

/// Errors that are values of a type keep their source; text does not.
fn errors_are_typed(tree: &Tree) -> Vec<Finding> {
    let ships = |file: &&File| !file.path.starts_with("crates/lab/") && file.path.contains("/src/");
    let mut found = Vec::new();
    for file in tree.rust().filter(ships) {
        for (at, line) in file.code.lines().enumerate() {
            if line.contains("-> Result<") && line.contains(", String>") {
                found.push(finding(file, at + 1, "an error that is only a text; the tree has too many"));
            }
        }
    }
    if found.len() > TEXT_ERRORS_MAX { found } else { Vec::new() }
}

/// What only tests and fuzz targets need is no part of what ships.
fn doors_for_tests(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.rust().filter(|file| file.path.ends_with("/src/lib.rs")) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let before = lines.get(at.saturating_sub(2)..at).unwrap_or_default();
            let is_door =
                *line == "pub mod fuzzing;" || line.starts_with("pub use") && line.contains("SimDisk");
            if is_door && !before.contains(&"#[cfg(feature = \"testing\")]") {
                found.push(finding(file, at + 1, "only tests need this: put it behind the feature testing"));
            }
        }
    }
    found
}

/// The order of locks is checked where they have ranks: those that threads wait for, tests apart. The
/// simulated disk is one of the tests' own.
fn locks_have_ranks(tree: &Tree) -> Vec<Finding> {
    let ships = |file: &&File| {
        let path = file.path.as_str();
        let is_apart = ["crates/lab/", "crates/lock-order/", "crates/spool/src/disk/sim"];
        path.contains("/src/")
            && !path.contains("tests")
            && !is_apart.iter().any(|apart| path.starts_with(apart))
    };
    let mut found = Vec::new();
    for file in tree.rust().filter(ships) {
        let code = file.code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (at, line) in code.lines().enumerate() {
            let is_from = ["parking_lot::", "std::sync::"].iter().any(|source| line.contains(source));
            if is_from && ["Mutex", "RwLock"].iter().any(|lock| line.contains(lock)) {
                found.push(finding(file, at + 1, "a lock without a rank; take one of `lock_order`"));
            }
        }
    }
    found
}

/// `make test` runs its programs side by side, and so names them: none is left out. Those called `main` it
/// runs without naming more.
fn tests_are_run(tree: &Tree) -> Vec<Finding> {
    let Some(makefile) = tree.files.iter().find(|file| file.path == "Makefile") else { return Vec::new() };
    let is_run = |name: &str| {
        name == "main"
            || makefile.text.split_whitespace().collect::<Vec<_>>().windows(2).any(|w| w == ["--test", name])
    };
    let manifest =
        |name: &str| tree.files.iter().find(|file| file.path == format!("crates/{name}/Cargo.toml"));
    let mut found = Vec::new();
    for file in &tree.files {
        let name = match file.path.split('/').collect::<Vec<_>>()[..] {
            ["crates", of, "tests", name] => {
                let is_part = manifest(of).is_some_and(|file| file.text.contains("autotests = false"));
                name.strip_suffix(".rs").filter(|_| !is_part)
            }
            ["crates", _, "tests", name, "main.rs"] => Some(name),
            ["crates", _, "Cargo.toml"] => {
                let section = file.text.split("[[test]]\nname = \"").nth(1);
                section.and_then(|rest| rest.split('"').next())
            }
            _ => None,
        };
        if let Some(name) = name.filter(|name| !is_run(name)) {
            found.push(finding(file, 1, format!("make test does not run it: --test {name}")));
        }
    }
    found
}

/// Lines of pages and sources that are too long. Rows of tables and single long words are exempt.
fn line_lengths(tree: &Tree) -> Vec<Finding> {
    let is_narrow = |file: &File| {
        let mut crates = NARROW_CRATES.iter();
        file.is_rust() && crates.any(|name| file.path.starts_with(&format!("crates/{name}/")))
    };
    let is_page = |file: &File| file.path.ends_with(".md") && !WIDE_PAGES.contains(&file.path.as_str());
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| is_page(file) || file.is_rust()) {
        for (at, line) in file.text.lines().enumerate() {
            if file.is_rust() && !is_narrow(file) && !line.trim_start().starts_with("//") {
                continue;
            }
            let is_row = !file.is_rust() && line.starts_with('|');
            let is_word = !line.trim().contains(' ');
            if line.chars().count() > LINE_CHARS_MAX && !is_row && !is_word {
                found.push(finding(file, at + 1, format!("a line of more than {LINE_CHARS_MAX} columns")));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| File::new(path, text)).collect();
        all(&Tree { files }).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_clean_file_is_not_told() {
        let text = "//! Fine.\n#[test]\nfn t() { assert!(true); }\n";
        assert_eq!(told(&[("crates/lab/src/a.rs", text)]), Vec::<String>::new());
    }

    #[test]
    fn crates_depend_downwards_only() {
        let told = told(&[
            (
                "crates/spool/Cargo.toml",
                "[package]\nname = \"spool\"\n[dependencies]\nnewsreel.workspace = true\n",
            ),
            (
                "crates/newsreel/Cargo.toml",
                "[dependencies]\nspool.workspace = true\nlab = { path = \"../lab\" }\n",
            ),
        ]);
        assert_eq!(
            told,
            [
                "crates/spool/Cargo.toml:4: spool must not depend on newsreel",
                "crates/newsreel/Cargo.toml:3: newsreel must not depend on lab"
            ]
        );
    }

    #[test]
    fn a_test_without_assertion_is_told_unless_it_calls_one_that_has() {
        let text = "//! Head.\nfn check(x: u8) { assert!(x > 0); }\n#[test]\nfn good() { check(1); }\n\
                    #[test]\nfn bad() { let s = \"assert\"; }\n";
        assert_eq!(
            told(&[("crates/lab/src/a.rs", text)]),
            ["crates/lab/src/a.rs:6: the test bad asserts nothing"]
        );
    }

    #[test]
    fn words_of_other_fields_are_told_in_names_too() {
        let text = "//! Head.\nfn evict_one() {}\nstruct StorageBackend;\nfn walk() {}\n";
        assert_eq!(
            told(&[("crates/lab/src/a.rs", text)]),
            [
                "crates/lab/src/a.rs:2: not `evict` but replacement",
                "crates/lab/src/a.rs:3: not `backend` but upstream, or storage method"
            ]
        );
    }

    #[test]
    fn a_page_names_only_files_that_are_there() {
        let page = "`crates/lab/src/a.rs`, `crates/lab/src/`\n`crates/lab/src/b.rs`\n";
        assert_eq!(
            told(&[("docs/a.md", page), ("crates/lab/src/base/a.rs", "//! Head.\n")]),
            [
                "docs/a.md:1: there is no file crates/lab/src/a.rs",
                "docs/a.md:2: there is no file crates/lab/src/b.rs"
            ]
        );
    }

    #[test]
    fn a_configuration_that_costs_too_much_code_for_each_key_is_reported() {
        let code =
            |lines| format!("//! Head.\n\n{}#[cfg(test)]\nmod tests {{\n}}\n", "code();\n".repeat(lines));
        let manual = "# Configuration\n### site.a\n### site.b\n";
        let found = |lines: usize| {
            let files = [
                ("docs/config.md", manual),
                ("crates/newsreel/src/config/site.rs", &code(lines)),
                ("crates/newsreel/src/config/tests.rs", &code(100)),
                ("crates/newsreel/src/cli/config.rs", &code(100)),
            ];
            told(&files)
        };
        assert_eq!(found(40), Vec::<String>::new());
        assert_eq!(found(41), ["docs/config.md:1: 2 keys cost 41 lines of code, more than 20 each"]);
    }

    #[test]
    fn doors_for_tests_are_behind_a_feature_and_text_errors_do_not_multiply() {
        let door = "#[cfg(feature = \"testing\")]\n#[doc(hidden)]\npub mod fuzzing;\n";
        let lib = format!("//! Head.\n{door}pub use disk::SimDisk;\npub mod fuzzing;\n");
        let expected = [5, 6].map(|line| {
            let place = format!("crates/spool/src/lib.rs:{line}");
            format!("{place}: only tests need this: put it behind the feature testing")
        });
        assert_eq!(told(&[("crates/spool/src/lib.rs", &lib)]), expected);
        let of = |count| format!("//! Head.\n{}", "fn f() -> Result<u8, String> {}\n".repeat(count));
        let path = "crates/netnews/src/a.rs";
        assert_eq!(told(&[(path, &of(TEXT_ERRORS_MAX))]), Vec::<String>::new());
        assert_eq!(told(&[(path, &of(TEXT_ERRORS_MAX + 1))]).len(), TEXT_ERRORS_MAX + 1);
    }

    #[test]
    fn locks_without_ranks_are_reported() {
        let code = "//! Head.\nuse parking_lot::{Condvar, Mutex};\nuse std::sync::{Arc, OnceLock};\n\
                    type Lock = std::sync::RwLock<u8>;\nuse tokio::sync::Mutex as Turn;\n\
                    #[cfg(test)]\nmod tests {\n    use parking_lot::Mutex;\n}\n";
        let expected = [2, 4].map(|line| {
            format!("crates/nntp-io/src/a.rs:{line}: a lock without a rank; take one of `lock_order`")
        });
        assert_eq!(told(&[("crates/nntp-io/src/a.rs", code)]), expected);
        for elsewhere in
            ["crates/lab/src/a.rs", "crates/spool/src/disk/sim/a.rs", "crates/spool/src/disk/a/tests.rs"]
        {
            assert_eq!(told(&[(elsewhere, code)]), Vec::<String>::new());
        }
    }

    #[test]
    fn programs_of_tests_that_are_not_run_are_reported() {
        let makefile = "BESIDE = --lib --test power --test stores\n";
        let rust = "//! Head.\n";
        let manifest = "autotests = false\n[[test]]\nname = \"stores\"\n";
        let files = |makefile| {
            [
                ("Makefile", makefile),
                ("crates/newsreel/tests/main/main.rs", rust),
                ("crates/newsreel/tests/power/main.rs", rust),
                ("crates/newsreel/tests/power/device.rs", rust),
                ("crates/spool/Cargo.toml", manifest),
                ("crates/spool/tests/part.rs", rust),
                ("crates/netnews/tests/new.rs", rust),
            ]
        };
        let new = "crates/netnews/tests/new.rs:1: make test does not run it: --test new";
        assert_eq!(told(&files(makefile)), [new]);
        assert_eq!(told(&files("BESIDE = --lib\n")).len(), 3);
    }

    #[test]
    fn long_lines_are_reported_except_rows_of_tables_and_long_words() {
        let long = "word ".repeat(23);
        let files = [
            ("README.md", format!("{long}\n| {long} |\n{}\n", "x".repeat(200))),
            ("crates/netnews/src/a.rs", format!("//! Head.\n// {long}\n")),
            ("crates/nntp-io/src/a.rs", format!("//! Head.\nconst A: &str = \"{long}\";\n    // {long}\n")),
        ];
        let found = told(&files.each_ref().map(|(path, text)| (*path, text.as_str())));
        let expected = ["README.md:1", "crates/netnews/src/a.rs:2", "crates/nntp-io/src/a.rs:3"];
        assert_eq!(found, expected.map(|place| format!("{place}: a line of more than 110 columns")));
    }

    #[test]
    fn long_files_headless_files_drawers_and_machine_paths_are_told() {
        let long = format!("//! Head.\n{}", "\n".repeat(FILE_LINES_MAX));
        let path = concat!("/wo", "rk/x");
        let told = told(&[
            ("crates/lab/src/long.rs", &long),
            ("crates/lab/src/utils.rs", "fn f() {}\n"),
            ("README.md", path),
        ]);
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told[0].starts_with("crates/lab/src/long.rs:800: "), "{told:?}");
        assert!(told[3].starts_with("README.md:1: names a directory of one machine"), "{told:?}");
    }
}
