//! The simple rules, a function for each, which `main` runs with the others.

use std::collections::HashSet;

use crate::finding::{Finding, Rule, finding};
use crate::source::{File, Function, Tree};

/// Lines of code that a key of the configuration may cost, over all of [`CONFIG_FOLDER`] and without tests.
const CODE_LINES_PER_KEY_MAX: usize = 20;

/// Crates that nothing depends on, but [`MAY_USE_ALL`] and their own tests: they are the ends of the tree.
const ENDS: &[&str] = &["newsreel", "lab", "tidy"];
/// Manifests that may name any crate.
const MAY_USE_ALL: &[&str] = &["crates/lab/Cargo.toml", "fuzz/Cargo.toml", "Cargo.toml"];

/// The folder of the configuration.
const CONFIG_FOLDER: &str = "crates/site-config/src/";

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

/// The file of [`OTHER_WORDS`], which names them.
const OTHER_WORDS_FILE: &str = "crates/tidy/src/rules.rs";

/// Columns that a line of prose or code may have.
const LINE_CHARS_MAX: usize = 110;
/// The crates whose sources keep to that with their messages too; in the others, comments do.
const NARROW_CRATES: &[&str] = &[
    "netnews",
    "disk",
    "spool-base",
    "spool-journal",
    "spool-history",
    "spool-methods",
    "spool",
    "newscache",
    "lab",
];
/// Pages with longer lines: this one is generated from texts without line ends.
const WIDE_PAGES: &[&str] = &["docs/config.md"];

/// Locks that have ranks in `lock_order`.
const LOCKS: &[&str] = &["Mutex", "RwLock"];

/// Calls of the standard library that create, change or remove files.
const FILE_CHANGES: &[&str] = &[
    "DirBuilder",
    "File::create",
    "File::options",
    "OpenOptions",
    "fs::copy",
    "fs::create_dir",
    "fs::hard_link",
    "fs::remove_",
    "fs::rename",
    "fs::set_permissions",
    "fs::write",
    "sync_all",
    "sync_data",
];
/// Modules that may call them, as none of their files must survive a crash.
const MAY_CHANGE_FILES: &[&str] = &[
    // It is `Disk`.
    "crates/disk/src/",
    // The tree below the mount is the kernel's business.
    "crates/usenetfs/src/",
    // Ends of the tree that do not ship, and fuzz targets.
    "crates/lab/src/",
    "crates/tidy/src/",
    "crates/newsreel/src/fuzzing.rs",
    // The socket.
    "crates/operators/src/control_socket/mod.rs",
    // Exports, manuals and drawings, at places that are named on the command line.
    "crates/newsreel/src/cli/cache.rs",
    "crates/newsreel/src/cli/export.rs",
    "crates/newsreel/src/cli/manuals.rs",
    "crates/newsreel/src/cli/output.rs",
    // What the programs of a whole cluster on one machine print.
    "crates/newsreel/src/cli/cluster/up.rs",
    // A site whose creation has failed is removed.
    "crates/newsreel/src/cli/init.rs",
];
/// Modules that choose the real disk; the others are given one, and so are run on the simulated disk.
const MAY_CHOOSE_THE_DISK: &[&str] = &[
    "crates/disk/src/",
    "crates/lab/src/",
    "crates/newsreel/src/",
    // It reads the site of another newsreel, and edits the file that a person wrote.
    "crates/migrate/src/newsreel.rs",
    "crates/site-config/src/edit.rs",
];

/// Names of files and modules that say nothing.
const DRAWERS: &[&str] = &["utils", "util", "common", "helpers", "misc"];

/// Crates that may apply changes to a spool: its own, the log before it, and the log of a cluster.
const MAY_APPLY: &[&str] = &["crates/spool/src/", "crates/site-log/src/", "crates/cluster/src/"];
/// Crate that a simulation drives: time, waiting and randomness come from its trait `World`.
const SIMULATED: &str = "crates/cluster/src/";
/// Files in it that are the world: the machine's, the connection to an engine, and the threads of a test that
/// plays many simulations.
const WORLDS: &[&str] = &[
    "crates/cluster/src/machine.rs",
    "crates/cluster/src/nats.rs",
    "crates/cluster/src/nats/replicas.rs",
    "crates/cluster/src/simulation/seeds.rs",
];
/// Time, waiting, tasks and randomness.
const WORLDLY: &[&str] = &[
    "tokio::",
    "thread::",
    "disk::clock",
    "base::clock",
    "SystemTime",
    "Instant",
    "getrandom",
    "thread_rng",
    "SystemRandom",
    "RandomState",
    "wait_for(",
    "wait_until(",
];

/// Calls that apply changes.
const APPLYING: &[&str] = &["spool.apply(", "spool().apply(", "Spool::apply(", ".try_apply("];

/// Folders of the article storage whose code runs the same on every machine that applies the same changes.
const FOLDING: &[&str] = &[
    "crates/spool-base/src/",
    "crates/spool-history/src/",
    "crates/spool/src/index/",
    "crates/spool/src/write/commit",
];
/// A file there that is about offers, which every machine has for itself.
const OWN_OFFERS: &str = "crates/spool-history/src/reservation.rs";
/// Clocks, and sources of random numbers.
const UNREPEATABLE: &[&str] = &[
    "clock::unix_",
    "unix_secs()",
    "unix_now()",
    "unix_ms()",
    "SystemTime",
    "Instant::now",
    "getrandom",
    "thread_rng",
    "SystemRandom",
    "RandomState",
];

/// The simple rules, in the order in which their findings are printed.
pub const RULES: &[Rule] = &[
    ends_are_not_used,
    file_heads,
    other_words,
    drawers,
    tests_assert,
    one_commit_point,
    changes_go_through_the_log,
    folds_are_repeatable,
    simulated_code_asks_the_world,
    machine_paths,
    line_lengths,
    files_named_exist,
    targets_named_exist,
    lines_per_key,
    doors_for_tests,
    locks_have_ranks,
    files_are_changed_by_the_disk,
    tests_are_run,
];

/// Cargo keeps the order of the crates; it does not know which of them are no libraries.
fn ends_are_not_used(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.files.iter().filter(|file| file.path.ends_with("Cargo.toml"));
    let mut found = Vec::new();
    for file in manifests.filter(|file| !MAY_USE_ALL.contains(&file.path.as_str())) {
        let own = file.path.rsplit('/').nth(1).unwrap_or_default();
        for (at, line) in file.text.lines().enumerate() {
            // As a key, as a section of its own, or under another name.
            let section = line.strip_prefix('[').and_then(|line| line.split_once("dependencies."));
            let renamed = line.split_once("package = \"");
            let rest = section.or(renamed).map_or(line, |(_, rest)| rest);
            let word = rest.split(['.', '=', ' ', ']', '"']).next().unwrap_or_default();
            // Tests of a crate depend on the crate itself, with its feature for tests.
            if word != own && ENDS.contains(&word) {
                found.push(finding(file, at + 1, format!("{own} must not depend on {word}")));
            }
        }
    }
    found
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
    let mut is_start = [false; 256];
    for (bad, _) in OTHER_WORDS {
        let first = bad.as_bytes()[0];
        is_start[first as usize] = true;
        is_start[first.to_ascii_uppercase() as usize] = true;
    }
    let is_read = |file: &&File| file.is_rust() || file.path.ends_with(".md");
    for file in tree.files.iter().filter(is_read).filter(|file| file.path != OTHER_WORDS_FILE) {
        each_word(&file.text, |at, word| {
            if is_start[word[0] as usize] {
                let other = OTHER_WORDS.iter().find(|(bad, _)| bad.as_bytes().eq_ignore_ascii_case(word));
                found.extend(
                    other.map(|(bad, good)| {
                        finding(file, file.line_at(at), format!("not `{bad}` but {good}"))
                    }),
                );
            }
        });
    }
    found
}

/// Letters of ASCII: 1 for a small one, 2 for a large one, 0 for other bytes.
const LETTERS: [u8; 256] = {
    let mut letters = [0; 256];
    let mut byte = 0;
    while byte < letters.len() {
        letters[byte] = (byte as u8).is_ascii_lowercase() as u8 + 2 * (byte as u8).is_ascii_uppercase() as u8;
        byte += 1;
    }
    letters
};

/// Calls `each` with the words of a text and their places; names are taken apart at `_` and at capitals.
fn each_word<'a>(text: &'a str, mut each: impl FnMut(usize, &'a [u8])) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if LETTERS[bytes[at] as usize] == 0 {
            at += 1;
            continue;
        }
        let start = at;
        let mut before = 0;
        while at < bytes.len() {
            let letter = LETTERS[bytes[at] as usize];
            if letter == 0 || before == 1 && letter == 2 {
                break;
            }
            before = letter;
            at += 1;
        }
        each(start, &bytes[start..at]);
    }
}

fn drawers(tree: &Tree) -> Vec<Finding> {
    let stem =
        |file: &File| file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
    let folder = |file: &File| file.path.rsplit('/').nth(1).unwrap_or_default().to_owned();
    tree.rust()
        .filter(|file| DRAWERS.contains(&stem(file).as_str()) || DRAWERS.contains(&folder(file).as_str()))
        .map(|file| finding(file, 1, "a name that says nothing; put each thing where its user is"))
        .collect()
}

/// Tests that cannot fail: without an assertion, their own or in a function they call.
fn tests_assert(tree: &Tree) -> Vec<Finding> {
    let is_assertion = |word: &str| match word.as_bytes().first() {
        Some(b'a') => word.starts_with("assert"),
        Some(b'd') => word.starts_with("debug_assert"),
        Some(b'p') => word == "panic" || word.starts_with("prop_assert"),
        Some(b'u') => word == "unwrap_err",
        Some(b'e') => word == "expect_err",
        _ => false,
    };
    let asserts = |file: &File, function: &Function| function.words(file).any(is_assertion);
    let mut checking: HashSet<&str> = HashSet::new();
    for file in tree.rust() {
        let helpers = file.functions.iter().filter(|f| !f.is_test && asserts(file, f));
        checking.extend(helpers.map(|f| f.name.as_str()));
    }
    let mut found = Vec::new();
    for file in tree.rust() {
        for test in file.functions.iter().filter(|f| f.is_test) {
            if !asserts(file, test) && !test.words(file).any(|name| checking.contains(name)) {
                found.push(finding(file, test.line, format!("the test {} asserts nothing", test.name)));
            }
        }
    }
    found
}

fn one_commit_point(tree: &Tree) -> Vec<Finding> {
    let mark = concat!("// COMMIT ", "POINT");
    let marked = |file: &File| file.text.find(mark).map(|at| file.line_at(at));
    let all: Vec<Finding> = tree
        .rust()
        .filter_map(|file| marked(file).map(|line| finding(file, line, "a second commit point")))
        .collect();
    all.into_iter().skip(1).collect()
}

/// Everything that alters the news of a site goes through its log.
fn changes_go_through_the_log(tree: &Tree) -> Vec<Finding> {
    let others = |file: &&File| {
        file.path.contains("/src/")
            && !file.path.ends_with("/tests.rs")
            && !MAY_APPLY.iter().any(|folder| file.path.starts_with(folder))
    };
    calls(tree.rust().filter(others), APPLYING, "goes past the log of the site")
}

/// Folds call no clock and draw no random number: time comes with the changes.
fn folds_are_repeatable(tree: &Tree) -> Vec<Finding> {
    let folds = |file: &&File| {
        FOLDING.iter().any(|folder| file.path.starts_with(folder))
            && !file.path.ends_with("/tests.rs")
            && file.path != OWN_OFFERS
    };
    calls(tree.rust().filter(folds), UNREPEATABLE, "differs from machine to machine")
}

/// What a simulation drives asks its world for time, waiting and randomness.
fn simulated_code_asks_the_world(tree: &Tree) -> Vec<Finding> {
    let simulated = |file: &&File| file.path.starts_with(SIMULATED) && !WORLDS.contains(&file.path.as_str());
    calls(tree.rust().filter(simulated), WORLDLY, "goes past the world that a simulation drives")
}

/// Lines of these files, tests apart, that call one of these.
fn calls<'f>(files: impl Iterator<Item = &'f File>, names: &[&str], what: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in files {
        for line in 1..=file.production_text().lines().count() {
            if let Some(name) = names.iter().find(|name| file.code_line(line).contains(**name)) {
                found.push(finding(file, line, format!("`{name}` {what}")));
            }
        }
    }
    found
}

fn machine_paths(tree: &Tree) -> Vec<Finding> {
    let signs = [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/")];
    let mut found = Vec::new();
    for file in &tree.files {
        let mut last = 0;
        for (at, _) in file.text.match_indices('/') {
            let rest = file.text.get(at..).unwrap_or_default();
            let line = file.line_at(at);
            if let Some(sign) = signs.iter().find(|sign| rest.starts_with(*sign)).filter(|_| line > last) {
                found.push(finding(file, line, format!("names a directory of one machine: {sign}")));
                last = line;
            }
        }
    }
    found
}

/// Folders whose files and folders pages name with their whole paths.
const NAMED_FOLDERS: &[&str] = &["crates/", "docs/", "fuzz/", "packaging/"];
/// Pages on the source, which name some files of it without their folders.
const SOURCE_PAGES: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/parts.md"];

/// Files that a page names, such as `crates/spool-base/src/token.rs`, or a folder of them.
fn files_named_exist(tree: &Tree) -> Vec<Finding> {
    let is_end_of_a_path = |name: &str| {
        let end = format!("/{name}");
        tree.files.iter().any(|file| file.path.ends_with(&end))
    };
    let mut found = Vec::new();
    for page in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (at, line) in page.text.lines().enumerate() {
            let quoted = line.split('`').skip(1).step_by(2).filter(|word| !word.contains(['*', ' ', '<']));
            for word in quoted {
                let is_path = NAMED_FOLDERS.iter().any(|folder| word.starts_with(folder));
                let is_name = SOURCE_PAGES.contains(&page.path.as_str()) && word.ends_with(".rs");
                if is_path && !tree.has(word) || !is_path && is_name && !is_end_of_a_path(word) {
                    found.push(finding(page, at + 1, format!("there is no file {word}")));
                }
            }
        }
    }
    found
}

/// Targets of the Makefile that a page names, such as `make docs`.
fn targets_named_exist(tree: &Tree) -> Vec<Finding> {
    let Some(makefile) = tree.files.iter().find(|file| file.path == "Makefile") else { return Vec::new() };
    let is_target = |name: &str| {
        let start = format!("{name}:");
        makefile.text.lines().any(|line| line.starts_with(&start))
    };
    let mut found = Vec::new();
    for page in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (at, line) in page.text.lines().enumerate() {
            let quoted = line.split('`').skip(1).step_by(2).filter_map(|word| word.strip_prefix("make "));
            let indented = line.strip_prefix("    make ");
            for name in quoted.chain(indented).filter_map(|rest| rest.split_whitespace().next()) {
                let is_name = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
                if is_name && !is_target(name) {
                    found.push(finding(page, at + 1, format!("the Makefile has no target {name}")));
                }
            }
        }
    }
    found
}

/// The configuration stays declarative: the code of a key, with reading, checking, printing and the manual,
/// is short. The keys are those that the manual has.
fn lines_per_key(tree: &Tree) -> Vec<Finding> {
    let is_config = |file: &&File| file.path.starts_with(CONFIG_FOLDER) && !file.path.ends_with("/tests.rs");
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    let code = |file: &File| file.production_text().lines().filter(is_code).count();
    let lines: usize = tree.rust().filter(is_config).map(code).sum();
    let Some(manual) = tree.file("docs/config.md") else { return Vec::new() };
    let keys = manual.text.lines().filter(|line| line.starts_with("### ")).count();
    if lines <= CODE_LINES_PER_KEY_MAX * keys {
        return Vec::new();
    }
    let what = format!("{keys} keys cost {lines} lines of code, more than {CODE_LINES_PER_KEY_MAX} each");
    vec![finding(manual, 1, what)]
}

/// Code that only tests and fuzz targets need is not compiled into what ships.
fn doors_for_tests(tree: &Tree) -> Vec<Finding> {
    let guards = ["#[cfg(feature = \"testing\")]", "#[cfg(any(test, feature = \"testing\"))]"];
    let mut found = Vec::new();
    for file in tree.rust().filter(|file| file.path.ends_with("/src/lib.rs")) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let before = lines.get(..at).unwrap_or_default().iter().rev();
            let mut attributes = before.take_while(|line| line.starts_with("#["));
            let is_door =
                *line == "pub mod fuzzing;" || line.starts_with("pub use") && line.contains("SimDisk");
            if is_door && !attributes.any(|attribute| guards.contains(attribute)) {
                found.push(finding(file, at + 1, "only tests need this: put it behind the feature testing"));
            }
        }
    }
    found
}

/// The order of locks is checked where they have ranks: those that threads wait for, tests apart. Only tests
/// use the simulated disk.
fn locks_have_ranks(tree: &Tree) -> Vec<Finding> {
    let ships = |file: &&File| {
        let path = file.path.as_str();
        let is_apart = ["crates/lab/", "crates/lock-order/", "crates/disk/src/sim"];
        path.contains("/src/")
            && !path.contains("tests")
            && !is_apart.iter().any(|apart| path.starts_with(apart))
    };
    let mut found = Vec::new();
    for file in tree.rust().filter(ships).filter(|file| LOCKS.iter().any(|lock| file.code.contains(lock))) {
        let code = file.code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (at, line) in code.lines().enumerate() {
            let is_lock = LOCKS.iter().any(|lock| line.contains(lock));
            if is_lock && ["parking_lot::", "std::sync::"].iter().any(|source| line.contains(source)) {
                found.push(finding(file, at + 1, "a lock without a rank; take one of `lock_order`"));
            }
        }
    }
    found
}

/// What a crash leaves of a file is tried out on the simulated disk, which sees what is done through `Disk`.
fn files_are_changed_by_the_disk(tree: &Tree) -> Vec<Finding> {
    let is_in = |file: &File, places: &[&str]| places.iter().any(|place| file.path.starts_with(place));
    let ships = |file: &&File| file.path.contains("/src/") && !file.path.contains("tests");
    let mut found = Vec::new();
    for file in tree.rust().filter(ships) {
        let code = file.code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (at, line) in code.lines().enumerate() {
            if FILE_CHANGES.iter().any(|call| line.contains(call)) && !is_in(file, MAY_CHANGE_FILES) {
                found.push(finding(file, at + 1, "a file is changed without `Disk`"));
            }
            if line.contains("RealDisk") && !is_in(file, MAY_CHOOSE_THE_DISK) {
                found.push(finding(file, at + 1, "chooses the real disk; be given a `Disk`"));
            }
        }
    }
    found
}

/// `make test` runs programs of tests side by side, and so names them: none is left out. It runs all that are
/// called `main` together.
fn tests_are_run(tree: &Tree) -> Vec<Finding> {
    let Some(makefile) = tree.file("Makefile") else { return Vec::new() };
    let options: Vec<&str> = makefile.text.split_whitespace().collect();
    let is_run = |name: &str| name == "main" || options.windows(2).any(|pair| pair == ["--test", name]);
    let manifest = |name: &str| tree.file(&format!("crates/{name}/Cargo.toml"));
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
        let is_wide = file.is_rust() && !is_narrow(file);
        for (at, line) in file.text.lines().enumerate() {
            if line.len() <= LINE_CHARS_MAX || is_wide && !line.trim_start().starts_with("//") {
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

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::of(files.iter().map(|(path, text)| File::new(path, text)).collect());
        let all = RULES.iter().flat_map(|rule| rule(&tree));
        all.map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_clean_file_has_no_findings() {
        let text = "//! Fine.\n#[test]\nfn t() { assert!(true); }\n";
        assert_eq!(found(&[("crates/lab/src/a.rs", text)]), Vec::<String>::new());
    }

    #[test]
    fn nothing_depends_on_the_ends_but_the_lab_and_fuzz_targets() {
        let uses =
            "[dependencies]\nspool.workspace = true\nnewsreel = { path = \"x\" }\nlab.workspace = true\n";
        let found = found(&[
            ("Cargo.toml", uses),
            ("fuzz/Cargo.toml", uses),
            ("crates/lab/Cargo.toml", uses),
            ("crates/newsreel/Cargo.toml", uses),
            ("crates/feeds/Cargo.toml", "[dev-dependencies.tidy]\nx = { package = \"lab\" }\n"),
            (
                "crates/web/Cargo.toml",
                "[package]\nname = \"web\"\n[dependencies]\nnewsreel.workspace = true\n",
            ),
        ]);
        let expected = [
            "crates/feeds/Cargo.toml:1: feeds must not depend on tidy",
            "crates/feeds/Cargo.toml:2: feeds must not depend on lab",
            "crates/newsreel/Cargo.toml:4: newsreel must not depend on lab",
            "crates/web/Cargo.toml:4: web must not depend on newsreel",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_test_without_assertion_is_reported_unless_a_function_it_calls_has_one() {
        let text = "//! Head.\nfn check(x: u8) { assert!(x > 0); }\n#[test]\nfn good() { check(1); }\n\
                    #[test]\nfn bad() { let s = \"assert\"; }\n";
        assert_eq!(
            found(&[("crates/lab/src/a.rs", text)]),
            ["crates/lab/src/a.rs:6: the test bad asserts nothing"]
        );
    }

    #[test]
    fn words_of_other_fields_are_reported_in_names_too() {
        let text = "//! Head.\nfn evict_one() {}\nstruct StorageBackend;\nfn walk() {}\n";
        assert_eq!(
            found(&[("crates/lab/src/a.rs", text)]),
            [
                "crates/lab/src/a.rs:2: not `evict` but replacement",
                "crates/lab/src/a.rs:3: not `backend` but upstream, or storage method"
            ]
        );
    }

    #[test]
    fn a_page_names_only_files_that_are_there() {
        let page =
            "`crates/lab/src/a.rs`, `crates/lab/src/`\n`crates/lab/src/b.rs`, `docs/a.md`, `docs/b.md`\n";
        let overview = "`base/a.rs`, `b.rs`, `crates/*/src`\n";
        let files =
            [("docs/a.md", page), ("ARCHITECTURE.md", overview), ("crates/lab/src/base/a.rs", "//! Head.\n")];
        assert_eq!(
            found(&files),
            [
                "ARCHITECTURE.md:1: there is no file b.rs",
                "docs/a.md:1: there is no file crates/lab/src/a.rs",
                "docs/a.md:2: there is no file crates/lab/src/b.rs",
                "docs/a.md:2: there is no file docs/b.md"
            ]
        );
    }

    #[test]
    fn a_page_names_only_targets_of_the_makefile() {
        let page =
            "    make docs\n`make quick`, `make FEATURES=cluster`, `make` and make up\n    make b-2 # none\n";
        let files = [("Makefile", "docs: ## pages\n\tcargo run\n"), ("docs/a.md", page)];
        let expected =
            ["docs/a.md:2: the Makefile has no target quick", "docs/a.md:3: the Makefile has no target b-2"];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn a_configuration_that_costs_too_much_code_for_each_key_is_reported() {
        let code =
            |lines| format!("//! Head.\n\n{}#[cfg(test)]\nmod tests {{\n}}\n", "code();\n".repeat(lines));
        let manual = "# Configuration\n### site.a\n### site.b\n";
        let found = |lines: usize| {
            let files = [
                ("docs/config.md", manual),
                ("crates/site-config/src/site.rs", &code(lines)),
                ("crates/site-config/src/tests.rs", &code(100)),
                ("crates/newsreel/src/cli/config.rs", &code(100)),
            ];
            found(&files)
        };
        assert_eq!(found(40), Vec::<String>::new());
        assert_eq!(found(41), ["docs/config.md:1: 2 keys cost 41 lines of code, more than 20 each"]);
    }

    #[test]
    fn changes_past_the_log_and_clocks_in_folds_are_reported() {
        let past = "//! Head.\nfn f() { self.spool.apply(1, &[], &mut out); }\n";
        let clock = "//! Head.\nfn f() -> u64 { unix_now() }\n";
        let files = [
            ("crates/ingest/src/a.rs", past),
            ("crates/site-log/src/lib.rs", past),
            ("crates/spool/src/index/fold.rs", clock),
            ("crates/spool/src/care/purge.rs", clock),
        ];
        let found = found(&files);
        assert_eq!(
            found,
            [
                "crates/ingest/src/a.rs:2: `spool.apply(` goes past the log of the site",
                "crates/spool/src/index/fold.rs:2: `unix_now()` differs from machine to machine",
            ]
        );
    }

    #[test]
    fn time_past_the_world_of_a_simulation_is_reported() {
        let clock = "//! Head.\nfn f() { std::thread::sleep(A); }\n";
        let files = [("crates/cluster/src/fold.rs", clock), ("crates/cluster/src/machine.rs", clock)];
        let expected =
            "crates/cluster/src/fold.rs:2: `thread::` goes past the world that a simulation drives";
        assert_eq!(found(&files), [expected]);
    }

    #[test]
    fn doors_for_tests_are_behind_a_feature() {
        let door = "#[cfg(feature = \"testing\")]\n#[doc(hidden)]\npub mod fuzzing;\n\
                    #[cfg(any(test, feature = \"testing\"))]\npub use sim::SimDisk;\n";
        let lib = format!("//! Head.\n{door}pub use disk::SimDisk;\npub mod fuzzing;\n");
        let expected = [7, 8].map(|line| {
            let place = format!("crates/spool/src/lib.rs:{line}");
            format!("{place}: only tests need this: put it behind the feature testing")
        });
        assert_eq!(found(&[("crates/spool/src/lib.rs", &lib)]), expected);
    }

    #[test]
    fn locks_without_ranks_are_reported() {
        let code = "//! Head.\nuse parking_lot::{Condvar, Mutex};\nuse std::sync::{Arc, OnceLock};\n\
                    type Lock = std::sync::RwLock<u8>;\nuse tokio::sync::Mutex as Turn;\n\
                    #[cfg(test)]\nmod tests {\n    use parking_lot::Mutex;\n}\n";
        let expected = [2, 4].map(|line| {
            format!("crates/nntp-io/src/a.rs:{line}: a lock without a rank; take one of `lock_order`")
        });
        assert_eq!(found(&[("crates/nntp-io/src/a.rs", code)]), expected);
        for elsewhere in ["crates/lab/src/a.rs", "crates/disk/src/sim/a.rs", "crates/disk/src/a/tests.rs"] {
            assert_eq!(found(&[(elsewhere, code)]), Vec::<String>::new());
        }
    }

    #[test]
    fn files_changed_without_the_trait_for_them_are_reported() {
        let code = "//! Head.\nuse disk::RealDisk;\nfn f() { std::fs::rename(a, b) }\n\
                    #[cfg(test)]\nmod tests {\n    fn g() { fs::write(a, RealDisk::new()) }\n}\n";
        let expected = [
            "crates/feeds/src/a.rs:2: chooses the real disk; be given a `Disk`",
            "crates/feeds/src/a.rs:3: a file is changed without `Disk`",
        ];
        assert_eq!(found(&[("crates/feeds/src/a.rs", code)]), expected);
        assert_eq!(found(&[("crates/newsreel/src/cli/a.rs", code)]).len(), 1);
        for elsewhere in ["crates/lab/src/a.rs", "crates/feeds/tests/a.rs", "crates/feeds/src/a/tests.rs"] {
            assert_eq!(found(&[(elsewhere, code)]), Vec::<String>::new());
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
        assert_eq!(found(&files(makefile)), [new]);
        assert_eq!(found(&files("BESIDE = --lib\n")).len(), 3);
    }

    #[test]
    fn long_lines_are_reported_except_rows_of_tables_and_long_words() {
        let long = "word ".repeat(23);
        let files = [
            ("README.md", format!("{long}\n| {long} |\n{}\n", "x".repeat(200))),
            ("crates/netnews/src/a.rs", format!("//! Head.\n// {long}\n")),
            ("crates/nntp-io/src/a.rs", format!("//! Head.\nconst A: &str = \"{long}\";\n    // {long}\n")),
        ];
        let found = found(&files.each_ref().map(|(path, text)| (*path, text.as_str())));
        let expected = ["README.md:1", "crates/netnews/src/a.rs:2", "crates/nntp-io/src/a.rs:3"];
        assert_eq!(found, expected.map(|place| format!("{place}: a line of more than 110 columns")));
    }

    #[test]
    fn headless_files_drawers_and_machine_paths_are_reported() {
        let path = concat!("/wo", "rk/x");
        let found =
            found(&[("crates/lab/src/utils.rs", "fn f() {}\n"), ("README.md", &format!("{path} {path}\n"))]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("crates/lab/src/utils.rs:1: begin with `//!`"), "{found:?}");
        assert!(found[1].starts_with("crates/lab/src/utils.rs:1: a name that says nothing"), "{found:?}");
        assert!(found[2].starts_with("README.md:1: names a directory of one machine"), "{found:?}");
    }

    #[test]
    fn names_are_taken_apart_at_capitals_and_underscores() {
        let mut words = Vec::new();
        each_word("let a_bC2d = Ef;", |at, word| words.push((at, String::from_utf8_lossy(word))));
        let words: Vec<_> = words.iter().map(|(at, word)| (*at, word.as_ref())).collect();
        assert_eq!(words, [(0, "let"), (4, "a"), (6, "b"), (7, "C"), (9, "d"), (13, "Ef")]);
    }
}
