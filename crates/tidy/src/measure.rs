//! Figures of the whole tree, each with a bar: counts that are to fall and may not rise.
//!
//! All crates but `lab` are measured. Files of tests and benchmarks do not count, nor do the inline tests at
//! the end of a file. `tidy --measure` prints the figures, `tidy --places KEY` the places that one of them
//! counts; a plain run has a finding for each bar that is passed. The bars are the constants below. When a
//! count has fallen, lower its bar.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::source::{File, Tree, bracketed, words_of};

/// Names of types that several types share, in percent of all names of types.
const SHARED_NAMES_PERCENT_MAX: f64 = 6.0;
/// Comments that begin with "Who" or "What", in percent of all lines of comments.
const WHO_WHAT_PERCENT_MAX: f64 = 0.5;
/// Comments that begin with "The same", "Its" or "Those", in percent of all lines of comments.
const LEANING_PERCENT_MAX: f64 = 0.5;
/// Places of [`WORDS`] in comments.
const WORDS_MAX: usize = 0;
/// Functions with a tuple in place of parameters.
const PACKED_MAX: usize = 0;
/// Results whose error is text, which no caller can match and which loses its cause.
const TEXT_ERRORS_MAX: usize = 0;
/// Production lines of the largest crate, in percent of those of all crates.
const LARGEST_CRATE_PERCENT_MAX: f64 = 25.0;
/// Lookups whose absence becomes an empty value.
const GET_OR_DEFAULT_MAX: usize = 326;
/// Lines with the ordering `SeqCst` and without a comment that gives the reason.
const SEQ_CST_MAX: usize = 0;
/// Sleeps in the tests of the server: they wait for events.
const SLEEPS_MAX: usize = 0;
/// Places of these tests at which only a clock helps.
const CLOCK_WAITS_MAX: usize = 21;

/// Words of comments for which plain English has others.
const WORDS: &[&str] = &["told", "anew", "gone", "whoever", "somebody", "nobody"];
/// Bytes of the longest of them.
const WORD_BYTES_MAX: usize = 8;
/// Beginnings of comments that are neither noun phrases nor sentences.
const WHO_WHAT: &[&str] = &["Who", "What"];
/// Beginnings of comments that cannot be read without the line above.
const LEANING: &[&str] = &["The same", "Its", "Those"];
/// Tests whose sleeps are counted.
const SLEEPS_FOLDER: &str = "crates/newsreel/tests/main/";
/// Files of these that may sleep: one has all waits, the other is a slow line.
const WAITS_FILES: [&str; 2] =
    ["crates/newsreel/tests/main/waiting.rs", "crates/newsreel/tests/main/link.rs"];

/// A place that a figure counts.
struct Place {
    path: String,
    line: usize,
    what: String,
}

/// Count, or percentage, with its bar.
struct Figure {
    /// Name for `--places`.
    key: &'static str,
    title: String,
    /// How it is measured.
    how: &'static str,
    now: f64,
    /// `None` for a figure that is only printed.
    bar: Option<f64>,
    is_percent: bool,
    places: Vec<Place>,
}

/// One finding for each bar that is passed; for the words, one for each of them.
pub fn rule(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for figure in figures(tree).iter().filter(|figure| figure.is_passed()) {
        let (now, bar) = (figure.shown(figure.now), figure.shown(figure.bar.unwrap_or_default()));
        let (title, key) = (&figure.title, figure.key);
        match figure.places.first() {
            Some(_) if figure.bar == Some(0.0) => {
                found.extend(figure.places.iter().map(|p| Finding::new(&p.path, p.line, p.what.clone())));
            }
            Some(p) => {
                let what = format!("{title}: {now}, at most {bar}; listed by `tidy --places {key}`");
                found.push(Finding::new(&p.path, p.line, what));
            }
            None => found.push(Finding::new("Cargo.toml", 1, format!("{title}: {now}, at most {bar}"))),
        }
    }
    found
}

/// The figures as lines of an aligned table, after a line for each that says how it is measured.
pub fn table(tree: &Tree) -> Vec<String> {
    let figures = figures(tree);
    let mut lines = vec!["Measured over all crates but `lab`, tests apart:".to_owned()];
    let explained = figures.iter().filter(|figure| !figure.how.is_empty());
    lines.extend(explained.map(|figure| format!("  {:<8} {}", figure.key, figure.how)));
    let width = figures.iter().map(|figure| figure.title.len()).max().unwrap_or_default();
    let row = |title: &str, now: &str, bar: &str, remark: &str| {
        format!("{title:<width$}  {now:>9}  {bar:>6}  {remark}").trim_end().to_owned()
    };
    lines.extend([String::new(), row("figure", "now", "bar", "")]);
    lines.extend(figures.iter().map(|figure| {
        let bar = figure.bar.map_or_else(|| "-".into(), |bar| figure.shown(bar));
        row(&figure.title, &figure.shown(figure.now), &bar, figure.remark())
    }));
    lines
}

/// Everything that the figure with this key counts; `None` if there is no such figure.
pub fn places(tree: &Tree, key: &str) -> Option<Vec<String>> {
    let figure = figures(tree).into_iter().find(|figure| figure.key == key)?;
    Some(figure.places.iter().map(|p| format!("{}:{}: {}", p.path, p.line, p.what)).collect())
}

impl Figure {
    fn is_passed(&self) -> bool {
        self.bar.is_some_and(|bar| self.now > bar)
    }

    /// Only the counts are ratchets; the bars of percentages are aims, so they are not lowered.
    fn remark(&self) -> &'static str {
        match self.bar {
            Some(_) if self.is_passed() => "passed",
            Some(bar) if !self.is_percent && self.now < bar => "can be lowered",
            _ => "",
        }
    }

    fn shown(&self, value: f64) -> String {
        if self.is_percent { format!("{value:.1} %") } else { format!("{value:.0}") }
    }
}

/// A figure that is the number of its places.
fn count(key: &'static str, title: &str, how: &'static str, bar: usize, places: Vec<Place>) -> Figure {
    let now = places.len() as f64;
    Figure { key, title: title.into(), how, now, bar: Some(bar as f64), is_percent: false, places }
}

fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

fn figures(tree: &Tree) -> Vec<Figure> {
    let comments = Comments::of(tree);
    let of_comments = |key, title: &str, how, bar, places: Vec<Place>| {
        let now = percent(places.len(), comments.lines);
        Figure { key, title: title.into(), how, now, bar: Some(bar), is_percent: true, places }
    };
    let mut figures = vec![
        shared_names(tree),
        of_comments(
            "who",
            "comments that begin with Who or What",
            "comments that begin with one of the two words, in percent of all lines of comments",
            WHO_WHAT_PERCENT_MAX,
            comments.beginning_with(WHO_WHAT),
        ),
        of_comments(
            "lean",
            "comments that lean on their neighbour",
            "comments that begin with The same, Its or Those, in percent of all lines of comments",
            LEANING_PERCENT_MAX,
            comments.beginning_with(LEANING),
        ),
        count(
            "words",
            "words told, anew, gone, whoever, somebody, nobody",
            "places of these words in comments that have lines of their own, outside of backticks",
            WORDS_MAX,
            comments.words(),
        ),
        count(
            "packed",
            "functions with packed arguments",
            "functions that have a parameter such as `(a, b): (A, B)`",
            PACKED_MAX,
            packed(tree),
        ),
        count(
            "errors",
            "Result<_, String>",
            "places of a `Result` whose error is `String`, in signatures and elsewhere",
            TEXT_ERRORS_MAX,
            text_errors(tree),
        ),
        count(
            "default",
            "get(..).unwrap_or_default()",
            "calls of `get` that are followed directly by `unwrap_or_default`",
            GET_OR_DEFAULT_MAX,
            get_or_default(tree),
        ),
        count(
            "seqcst",
            "SeqCst without a comment",
            "lines with `SeqCst`, imports apart, whose statement has no comment in it or directly before it",
            SEQ_CST_MAX,
            seq_cst(tree),
        ),
        count(
            "sleeps",
            "sleeps in the tests of newsreel",
            "calls of a function `sleep` in crates/newsreel/tests/main, `waiting.rs` and `link.rs` apart",
            SLEEPS_MAX,
            calls_of_tests(tree, "sleep", "a test that sleeps, where `waiting` has waits for events"),
        ),
        count(
            "clock",
            "waits of these tests for a clock",
            "calls of a function `let_pass` in crates/newsreel/tests/main, `waiting.rs` and `link.rs` apart",
            CLOCK_WAITS_MAX,
            calls_of_tests(tree, "let_pass", "a test that lets time pass"),
        ),
    ];
    figures.extend(lines(tree));
    figures
}

/// Names of structs, enums and traits; the places are those of the names that several types have.
fn shared_names(tree: &Tree) -> Figure {
    let mut types: BTreeMap<&str, Vec<(&File, usize)>> = BTreeMap::new();
    for file in tree.production() {
        for keyword in ["struct", "enum", "trait"] {
            for at in file.places(keyword).filter(|at| !file.is_in_tests(*at) && begins_item(file, *at)) {
                let name = file.words_in(at, file.code.len()).nth(1).unwrap_or_default();
                types.entry(name).or_default().push((file, at));
            }
        }
    }
    let mut shared: Vec<_> = types.iter().filter(|(_, places)| places.len() > 1).collect();
    shared.sort_by_key(|(_, places)| std::cmp::Reverse(places.len()));
    let place = |name: &str, of: &[(&File, usize)]| -> Vec<Place> {
        let what = format!("{name} is the name of {} types", of.len());
        of.iter().map(|(file, at)| at_place(file, *at, &what)).collect()
    };
    Figure {
        key: "names",
        title: "type names that several types share".into(),
        how: "names of structs, enums and traits that are declared more than once, in percent of all names",
        now: percent(shared.len(), types.len()),
        bar: Some(SHARED_NAMES_PERCENT_MAX),
        is_percent: true,
        places: shared.iter().flat_map(|(name, of)| place(name, of)).collect(),
    }
}

/// Whether only a visibility stands before this place in its line.
fn begins_item(file: &File, at: usize) -> bool {
    let before = file.code.get(..at).unwrap_or_default().rsplit('\n').next().unwrap_or_default().trim();
    before.is_empty() || before == "pub" || before.starts_with("pub(") && before.ends_with(')')
}

fn at_place(file: &File, at: usize, what: impl Into<String>) -> Place {
    Place { path: file.path.clone(), line: file.line_at(at), what: what.into() }
}

/// Comments of production code that have lines of their own.
struct Comments<'a> {
    /// Number of their lines.
    lines: usize,
    /// Their lines without slashes: file, number, text, and whether it is the first of a comment.
    all: Vec<(&'a File, usize, &'a str, bool)>,
}

impl<'a> Comments<'a> {
    fn of(tree: &'a Tree) -> Self {
        let mut all = Vec::new();
        for file in tree.production() {
            let mut is_first = true;
            for (at, line) in file.production_text().lines().enumerate() {
                let line = line.trim_start();
                if line.starts_with("//") {
                    all.push((file, at + 1, line.trim_start_matches(['/', '!']).trim(), is_first));
                    is_first = false;
                } else {
                    is_first = true;
                }
            }
        }
        Self { lines: all.len(), all }
    }

    /// First lines that begin with one of these words.
    fn beginning_with(&self, words: &[&str]) -> Vec<Place> {
        let begins = |text: &str| {
            let rests = words.iter().filter_map(|word| text.strip_prefix(word));
            rests.into_iter().any(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        };
        let firsts = self.all.iter().filter(|(_, _, text, is_first)| *is_first && begins(text));
        let place = |(file, line, text, _): &(&File, usize, &str, bool)| Place {
            path: file.path.clone(),
            line: *line,
            what: (*text).to_owned(),
        };
        firsts.map(place).collect()
    }

    /// Places of [`WORDS`], in small or large letters.
    fn words(&self) -> Vec<Place> {
        let mut found = Vec::new();
        for (file, line, text, _) in &self.all {
            for (at, len) in words_of(text) {
                let word = text.get(at..at + len).unwrap_or_default();
                let is_bad = len <= WORD_BYTES_MAX && WORDS.iter().any(|bad| bad.eq_ignore_ascii_case(word));
                // Before a quoted part ends, the number of backticks is odd.
                if is_bad && text.get(..at).unwrap_or_default().matches('`').count() % 2 == 0 {
                    let what = format!("`{word}` is not plain English here: {text}");
                    found.push(Place { path: file.path.clone(), line: *line, what });
                }
            }
        }
        found
    }
}

/// Functions with a parameter that is a tuple which is taken apart at once.
fn packed(tree: &Tree) -> Vec<Place> {
    let mut found = Vec::new();
    for file in tree.production() {
        for function in file.functions.iter().filter(|function| !file.is_in_tests(function.start)) {
            let signature = function.signature(file);
            let mut opens = signature.match_indices('(').skip(1);
            let is_packed = opens.any(|(at, _)| {
                let pattern = bracketed(signature.get(at..).unwrap_or_default());
                let after = pattern.and_then(|pattern| signature.get(at + pattern.len()..));
                let of_type = after.and_then(|after| after.trim_start().strip_prefix(':'));
                of_type.is_some_and(|rest| rest.trim_start().starts_with('('))
            });
            if is_packed {
                found.push(at_place(file, function.start, format!("{} has packed arguments", function.name)));
            }
        }
    }
    found
}

/// Results whose error is `String`.
fn text_errors(tree: &Tree) -> Vec<Place> {
    let mut found = Vec::new();
    for file in tree.production() {
        for at in file.places("Result").take_while(|at| !file.is_in_tests(*at)) {
            let parameters = file.code.get(at + "Result".len()..).and_then(bracketed).unwrap_or_default();
            let error = parameters.trim_end_matches('>').trim_end_matches([',', ' ', '\n']);
            if error.rsplit(',').next().is_some_and(|error| error.trim() == "String") && error.contains(',') {
                found.push(at_place(file, at, "an error that is only a text"));
            }
        }
    }
    found
}

/// Calls of `get` whose absence becomes an empty value.
fn get_or_default(tree: &Tree) -> Vec<Place> {
    let mut found = Vec::new();
    for file in tree.production() {
        for at in file.places("get").take_while(|at| !file.is_in_tests(*at)) {
            let rest = file.code.get(at + "get".len()..).unwrap_or_default();
            let after = bracketed(rest).and_then(|arguments| rest.get(arguments.len()..));
            if after.is_some_and(|after| after.trim_start().starts_with(".unwrap_or_default()")) {
                found.push(at_place(file, at, "an absence that becomes an empty value"));
            }
        }
    }
    found
}

/// Lines with `SeqCst` and without a reason.
fn seq_cst(tree: &Tree) -> Vec<Place> {
    let mut found = Vec::new();
    for file in tree.production() {
        let lines = file.places("SeqCst").take_while(|at| !file.is_in_tests(*at)).map(|at| file.line_at(at));
        for line in lines.collect::<BTreeSet<usize>>() {
            let is_import = file.code_line(line).trim_start().starts_with("use ");
            if !is_import && !has_reason(file, line) {
                found.push(Place { path: file.path.clone(), line, what: "`SeqCst` without a reason".into() });
            }
        }
    }
    found
}

/// Whether the statement of this line has a comment, or one directly before it. Statements with `SeqCst` that
/// follow each other may share one.
fn has_reason(file: &File, line: usize) -> bool {
    let mut line = line;
    while line > 0 {
        let text = file.text_line(line);
        if text.contains("//") {
            return true;
        }
        let before = file.code_line(line - 1).trim_end();
        let is_end = before.ends_with([';', '{', '}']) && !before.contains("SeqCst");
        let has_comment = file.text_line(line - 1).contains("//");
        if !has_comment && (is_end || before.trim().is_empty()) {
            return false;
        }
        line -= 1;
    }
    false
}

/// Calls of a function in the tests of the server.
fn calls_of_tests(tree: &Tree, function: &str, what: &str) -> Vec<Place> {
    let is_counted =
        |file: &&File| file.path.starts_with(SLEEPS_FOLDER) && !WAITS_FILES.contains(&file.path.as_str());
    let mut found = Vec::new();
    for file in tree.rust().filter(is_counted) {
        let is_call =
            |at: &usize| file.code.get(at + function.len()..).is_some_and(|rest| rest.starts_with('('));
        let is_declared = |at: &usize| file.code.get(..*at).is_some_and(|before| before.ends_with("fn "));
        let calls = file.places(function).filter(|at| is_call(at) && !is_declared(at));
        found.extend(calls.map(|at| at_place(file, at, what)));
    }
    found
}

/// Production lines of the largest crate, of all crates, and of each.
fn lines(tree: &Tree) -> Vec<Figure> {
    let mut crates: BTreeMap<&str, usize> = BTreeMap::new();
    for file in tree.production() {
        let name = file.path.split('/').nth(1).unwrap_or_default();
        *crates.entry(name).or_default() += file.production_text().lines().count();
    }
    let total: usize = crates.values().sum();
    let mut crates: Vec<(&str, usize)> = crates.into_iter().collect();
    crates.sort_by_key(|(_, lines)| std::cmp::Reverse(*lines));
    let (largest, most) = crates.first().copied().unwrap_or_default();
    let figure = |title: String, lines: usize| Figure {
        key: "lines",
        title,
        how: "",
        now: lines as f64,
        bar: None,
        is_percent: false,
        places: Vec::new(),
    };
    let share = Figure {
        key: "largest",
        title: format!("largest crate ({largest})"),
        how: "production lines of the crate that has most, in percent of those of all",
        now: percent(most, total),
        bar: Some(LARGEST_CRATE_PERCENT_MAX),
        is_percent: true,
        places: Vec::new(),
    };
    let of_all =
        Figure { how: "lines of files up to their inline tests", ..figure("production lines".into(), total) };
    let each = crates.iter().map(|(name, lines)| figure(format!("  {name}"), *lines));
    [share, of_all].into_iter().chain(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        Tree::of(files.iter().map(|(path, text)| File::new(path, text)).collect())
    }

    fn counted(key: &str, text: &str) -> Vec<String> {
        let tests = format!("{text}#[cfg(test)]\nmod tests {{\n{text}}}\n");
        places(&tree(&[("crates/a/src/a.rs", &tests), ("crates/lab/src/a.rs", text)]), key).unwrap()
    }

    fn lines_of(key: &str, text: &str) -> Vec<String> {
        let line = |place: String| place.split(':').nth(1).unwrap_or_default().to_owned();
        counted(key, text).into_iter().map(line).collect()
    }

    #[test]
    fn names_that_several_types_have_are_counted_once() {
        let files = [
            ("crates/a/src/a.rs", "pub struct Place;\npub(crate) enum Line {}\n// struct Line\n"),
            ("crates/b/src/b.rs", "pub(super) trait Place {}\nstruct Other;\n"),
            ("crates/b/src/tests.rs", "struct Other;\n"),
        ];
        let figure = shared_names(&tree(&files));
        assert_eq!(format!("{:.1}", figure.now), "33.3");
        assert_eq!(figure.places.len(), 2);
    }

    #[test]
    fn comments_are_counted_by_their_first_words() {
        let text = "/// What a file is.\n/// What else.\nfn a() {}\n// Its end.\nfn b() {}\n/// Whatever.\n\
                    fn c() {}\n    /// The same for bodies.\n//\n";
        assert_eq!(lines_of("who", text), ["1"]);
        assert_eq!(lines_of("lean", text), ["4", "8"]);
    }

    #[test]
    fn words_are_counted_outside_of_backticks() {
        let text =
            "//! Clients are told.\n/// `synced_told` and `told`, untold.\nfn a() { told(); }\n// Nobody.\n";
        assert_eq!(lines_of("words", text), ["1", "4"]);
        let found = rule(&tree(&[("crates/a/src/a.rs", text)]));
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(found[0].starts_with("crates/a/src/a.rs:1: `told` is not plain English"), "{found:?}");
    }

    #[test]
    fn packed_arguments_are_found_in_parameters_alone() {
        let text = "fn a((x, y): (u8, u8)) {}\nfn b(x: (u8, u8)) { let (c, d): (u8, u8) = x; }\n\
                    fn c(\n    &self,\n    (a, mut b): (A, B),\n) {}\nfn d(f: impl Fn(u8) -> (u8, u8)) {}\n";
        assert_eq!(lines_of("packed", text), ["1", "3"]);
    }

    #[test]
    fn errors_that_are_text_are_found_in_nested_types() {
        let text = "fn a() -> Result<Vec<Option<u8>>, String> {}\nfn b() -> Result<String, E> {}\n\
                    fn c() -> Result<String> {}\nfn d() -> Option<Result<\n    (),\n    String,\n>> {}\n";
        assert_eq!(lines_of("errors", text), ["1", "4"]);
    }

    #[test]
    fn empty_values_for_absent_ones_are_found_over_line_ends() {
        let text = "fn a() { b.get(c(d)).unwrap_or_default(); }\nfn e() { b.get(c)\n.unwrap_or_default(); }\n\
                    fn f() { b.get(c).copied().unwrap_or_default(); }\n";
        assert_eq!(lines_of("default", text), ["1", "2"]);
    }

    #[test]
    fn an_ordering_needs_a_reason_nearby() {
        let text = "use std::sync::atomic::Ordering::SeqCst;\nfn a() {\n    b.load(SeqCst); // A reason.\n    c();\n\
                    \x20   b.load(SeqCst);\n    // Another.\n    b.swap(\n        1,\n        SeqCst,\n    );\n\
                    \x20   // Of both.\n    b.load(SeqCst);\n    b.load(SeqCst);\n}\n";
        assert_eq!(lines_of("seqcst", text), ["5"]);
    }

    #[test]
    fn sleeps_of_the_servers_tests_are_counted() {
        let text = "fn sleep() {}\nfn a() { thread::sleep(b); sleep(c); asleep(d); let_pass(e, f); }\n";
        let tree = tree(&[
            ("crates/newsreel/tests/main/a.rs", text),
            (WAITS_FILES[0], text),
            ("crates/spool/tests/a.rs", text),
        ]);
        assert_eq!(places(&tree, "sleeps").unwrap().len(), 2);
        assert_eq!(places(&tree, "clock").unwrap().len(), 1);
    }

    #[test]
    fn a_bar_that_is_passed_is_a_finding_and_the_table_has_every_figure() {
        let call = "fn f() { a.get(b).unwrap_or_default(); }\n";
        let text = format!("//! A.\n{call}fn g() -> Result<u8, String> {{}}\n");
        let many = format!("//! A.\n{}", call.repeat(GET_OR_DEFAULT_MAX + 1));
        let found = |text: &str| {
            let files = [("crates/a/src/a.rs", text), ("crates/b/src/b.rs", ""), ("crates/c/src/c.rs", "")];
            let found = rule(&tree(&files)).iter().map(ToString::to_string).collect::<Vec<_>>();
            found.into_iter().filter(|what| !what.contains("largest crate")).collect::<Vec<_>>()
        };
        assert_eq!(found(&text), ["crates/a/src/a.rs:3: an error that is only a text"], "with the bar 0");
        let expected = format!(
            "crates/a/src/a.rs:2: get(..).unwrap_or_default(): {}, at most {GET_OR_DEFAULT_MAX}; \
             listed by `tidy --places default`",
            GET_OR_DEFAULT_MAX + 1
        );
        assert_eq!(found(&many), [expected]);
        let table = table(&tree(&[("crates/a/src/a.rs", &text)]));
        let row = table.iter().find(|line| line.starts_with("get(..)")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells[..3], ["get(..).unwrap_or_default()", "1", &GET_OR_DEFAULT_MAX.to_string()]);
        assert!(table.last().unwrap().starts_with("  a "), "{table:?}");
    }
}
