//! The pages state what the code has: limits and sizes, the kinds of journal rows, the methods in a token,
//! and the magic numbers of files.
//!
//! A figure is tied to its constant by the words around it in the page, so a change of either side alone is
//! reported. Called by `main`.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Finding, finding};
use crate::source::{File, Tree};

/// A sentence of a page with a gap for a figure, and the constant or default (`field: value`) that it states.
/// The gap is `{n}` for a number (65,536), `{p}` for plain digits, `{b}` for a size in bytes (64 KiB), `{w}`
/// for a number in words. The name may be preceded by a part of the file's path and `::`, and followed by an
/// index into an array.
const FIGURES: &[(&str, &str, &str)] = &[
    ("docs/decisions/0003", "Promises are made ahead, {n} numbers at a time", "MARGIN_MIN"),
    ("docs/decisions/0017", "at most {n} are kept between answers", "KEPT_COMPRESSORS_MAX"),
    ("docs/decisions/0017", "at most {n} compressed connections", "COMPRESSED_CONNECTIONS_MAX"),
    ("docs/decisions/0017", "one octet may expand to {n} on average", "EXPANSION_MAX"),
    ("docs/decisions/0024", "passed over {n} times", "PASSED_OVER_MAX"),
    ("docs/decisions/0025", "for a stripe of {b}", "STRIPE_BYTES_MAX"),
    ("docs/decisions/0025", "or a {n}th of a smaller buffer's area", "STRIPE_PART"),
    ("docs/decisions/0026", "in steps of {b}", "STEP_BYTES_MAX"),
    ("docs/decisions/0029", "Reading ahead ({b})", "READ_AHEAD_TOTAL_BYTES_MAX"),
    ("docs/decisions/0029", "arrives more slowly than {b}/s", "SLOW_BYTES_PER_SEC"),
    ("docs/formats/checkpoint.md", "at least {n} rows", "config::checkpoint_rows"),
    ("docs/formats/cnfs.md", "| {p} | 4096 | header, slot 1 |", "SLOT_BYTES"),
    ("docs/formats/cnfs.md", "rounded down to whole blocks; at least {b}", "AREA_BYTES_MIN"),
    ("docs/formats/cnfs.md", "power of two, at most {b}", "STEP_BYTES_MAX"),
    ("docs/formats/cnfs.md", "no more than an {n}nd", "STEP_PART"),
    ("docs/formats/dictionary.md", "from the first {n} articles", "SAMPLES_USUAL"),
    ("docs/formats/dictionary.md", "(or the first {b} of them)", "SAMPLES_BYTES_MAX"),
    ("docs/formats/groups.md", "in steps of {b}", "RESERVE_BYTES"),
    ("docs/formats/history.md", "to (*s* + 1) x 2^20 - 1, {n} bytes each", "RECORD_BYTES"),
    ("docs/formats/history.md", "tested on opening with {n} records", "spool-history::SAMPLES"),
    ("docs/formats/journal.md", "| length of the payload, 1 to {n} |", "spool-journal::ROW_BYTES_MAX"),
    ("docs/formats/journal.md", "has reached {b}", "config::journal_file_bytes"),
    ("docs/formats/journal.md", "some {b} ", "GAP_BYTES"),
    ("docs/formats/journal.md", "(varints to the end; at most {n} a row)", "VOIDS_PER_ROW_MAX"),
    ("docs/formats/journal.md", "promises {n} numbers with the group", "MARGIN_MIN"),
    ("docs/formats/journal.md", "The margin is {n} times the numbers", "MARGIN_SYNCS"),
    ("docs/formats/journal.md", "at least {n} and at most {n}.", "MARGIN_MIN MARGIN_MAX"),
    ("docs/formats/kept.md", "It is full at {b}", "kept::FILE_BYTES"),
    ("docs/formats/kept.md", "at most {n} entries", "ENTRIES_PER_STEP"),
    ("docs/formats/notes.md", "At most {n} bytes", "KEYS_BYTES_MAX"),
    (
        "docs/formats/notes.md",
        "Key and value have at most {n} and {n} bytes",
        "NOTE_KEY_BYTES_MAX NOTE_VALUE_BYTES_MAX",
    ),
    ("docs/formats/overview.md", "holds {b} of text", "config::block_text_bytes"),
    ("docs/formats/overview.md", "has reached {b}", "config::segment_bytes"),
    ("docs/formats/overview.md", "more than {b} over all groups", "OPEN_TEXT_BYTES_MAX"),
    ("docs/formats/overview.md", "up to {w} consecutive ones", "BLOCKS_MERGED"),
    ("docs/formats/residents.md", "**pages** of {b}", "residents::PAGE_BYTES"),
    ("docs/formats/residents.md", "until there are {b} of them", "residents::WRITE_BYTES"),
    ("docs/formats/residents.md", "*n* x {b}", "residents::FILE_BYTES"),
    ("docs/formats/tree.md", "A kill leaves at most {b}", "PART_BYTES_MAX"),
    ("docs/states.md", "(at most {b}, or one larger article)", "PART_BYTES_MAX"),
    ("docs/states.md", "up to {n} numbers in a quiet group", "MARGIN_MIN"),
    ("docs/states.md", "up to {n} and more in one", "MARGIN_MAX"),
    ("docs/states.md", "every {n} seconds", "PROCESS_INTERVAL"),
    ("docs/states.md", "when {b} are waiting", "UNSYNCED_BYTES_SOFT"),
    ("docs/states.md", "at {b} the writer waits", "UNSYNCED_BYTES_MAX"),
];

/// The file of this table, for findings about it.
const TABLE: &str = "crates/tidy/src/figures.rs";

/// Everything in the pages that the code contradicts.
pub fn rule(tree: &Tree) -> Vec<Finding> {
    [figures(tree, FIGURES), row_kinds(tree), methods(tree), magics(tree)].concat()
}

fn figures(tree: &Tree, table: &[(&str, &str, &str)]) -> Vec<Finding> {
    let definitions = Definitions::of(tree);
    let mut found = Vec::new();
    for (page, phrase, names) in table {
        let Some(file) = tree.files.iter().find(|file| file.path.starts_with(page)) else {
            found.push(Finding::new(TABLE, 1, format!("there is no page {page} that states {names}")));
            continue;
        };
        match stated(&definitions, phrase, names) {
            Ok(expected) if flat(&file.text).contains(&expected) => {}
            Ok(expected) => found.push(finding(file, 1, format!("by {names} this should read: {expected}"))),
            Err(NoValue(name)) => {
                found.push(finding(file, 1, format!("no single constant {name} for: {phrase}")));
            }
        }
    }
    found
}

/// A constant that has no value, or several, or no gap in its phrase.
struct NoValue(String);

/// The phrase with the values of the constants in its gaps.
fn stated(definitions: &Definitions<'_>, phrase: &str, names: &str) -> Result<String, NoValue> {
    let mut text = phrase.to_owned();
    for name in names.split(' ') {
        let value = definitions.value(name).ok_or_else(|| NoValue(name.to_owned()))?;
        let gap = text.find('{').ok_or_else(|| NoValue(name.to_owned()))?;
        let form = text.get(gap..gap + 3).unwrap_or_default();
        let filled = match form {
            "{b}" => size(value),
            "{w}" => in_words(value),
            "{p}" => value.to_string(),
            _ => grouped(value),
        };
        text = text.replacen(form, &filled, 1);
    }
    Ok(text)
}

/// The text with every run of white space as one blank, so that line ends do not count.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Where constants and fields may be defined: the sources, and those that declare a constant of each name.
struct Definitions<'a> {
    files: Vec<&'a File>,
    constants: BTreeMap<&'a str, Vec<&'a File>>,
}

impl<'a> Definitions<'a> {
    fn of(tree: &'a Tree) -> Self {
        let is_source = |file: &&File| file.path.contains("/src/") && !file.path.starts_with("crates/tidy/");
        let files: Vec<&File> = tree.rust().filter(is_source).collect();
        let mut constants: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
        for file in &files {
            for at in file.places("const") {
                let name = file.words_in(at, file.code.len()).nth(1).unwrap_or_default();
                constants.entry(name).or_default().push(file);
            }
        }
        Self { files, constants }
    }

    /// The value of a constant or field; `None` if there is none of this name, or several that differ.
    fn value(&self, name: &str) -> Option<u64> {
        let (part, name) = name.rsplit_once("::").unwrap_or(("", name));
        let (name, index) = name.strip_suffix(']').and_then(|n| n.split_once('[')).unwrap_or((name, ""));
        let files = if is_field(name) { Some(&self.files) } else { self.constants.get(name) };
        let is_in_place =
            |file: &&&File| part.is_empty() || file.path.split(['/', '.']).any(|piece| piece == part);
        let files = files?.iter().filter(is_in_place);
        let values: BTreeSet<u64> = files.filter_map(|file| defined(&file.code, name, index)).collect();
        values.first().copied().filter(|_| values.len() == 1)
    }
}

/// Whether this is the name of a field with a default, not of a constant.
fn is_field(name: &str) -> bool {
    name.starts_with(|c: char| c.is_lowercase())
}

/// The value that a file gives to `const NAME` or, for a name in small letters, to the field `name:`.
fn defined(code: &str, name: &str, index: &str) -> Option<u64> {
    let text = if is_field(name) {
        let sign = format!("{name}: ");
        let places = code.match_indices(&sign).map(|(at, found)| at + found.len());
        let mut values = places.filter_map(|at| code.get(at..));
        let rest = values.find(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        rest?.split([',', '}']).next()?
    } else {
        let (_, rest) = code.split_once(&format!("const {name}: "))?;
        rest.split_once(" = ")?.1.split(';').next()?
    };
    let element = match index.parse::<usize>() {
        Ok(index) => text.trim().trim_start_matches('[').trim_end_matches(']').split(',').nth(index)?,
        Err(_) => text,
    };
    evaluated(code, element)
}

/// Products and shifts of numbers and other constants of the file; a `Duration` in seconds is its number.
fn evaluated(code: &str, text: &str) -> Option<u64> {
    let text = text.trim();
    let text = text.strip_prefix("Duration::from_secs(").and_then(|t| t.strip_suffix(')')).unwrap_or(text);
    if let Some((a, b)) = text.split_once("<<") {
        return evaluated(code, a)?.checked_shl(u32::try_from(evaluated(code, b)?).ok()?);
    }
    if let Some((a, b)) = text.split_once('*') {
        return evaluated(code, a)?.checked_mul(evaluated(code, b)?);
    }
    let digits = text.trim_end_matches(".0").replace('_', "");
    digits.parse().ok().or_else(|| {
        let is_name = !text.is_empty() && text.bytes().all(|b| b == b'_' || b.is_ascii_uppercase());
        is_name.then(|| defined(code, text, "")).flatten()
    })
}

fn size(value: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, unit)| value.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{} {name}", value / unit),
        None => format!("{value} bytes"),
    }
}

fn in_words(value: u64) -> String {
    match value {
        2 => "two".into(),
        4 => "four".into(),
        8 => "eight".into(),
        16 => "sixteen".into(),
        _ => value.to_string(),
    }
}

/// Each kind of journal row is in the table of the page about them. A kind that may be ignored has its number
/// as `MAY_BE_IGNORED | n`, and the old form of a row a name that ends in `_OLD`.
fn row_kinds(tree: &Tree) -> Vec<Finding> {
    let page = tree.files.iter().find(|file| file.path == "docs/formats/journal.md");
    let rows = tree.files.iter().find(|file| file.path.ends_with("spool-journal/src/row.rs"));
    let (Some(page), Some(rows)) = (page, rows) else { return Vec::new() };
    let kinds = rows.code.lines().filter_map(|line| {
        let (name, value) = line.trim().strip_prefix("pub const ")?.split_once(": u8 = ")?;
        let value = value.trim_end_matches(';');
        let (ignorable, number) = value.split_once(" | ").map_or((0, value), |(_, number)| (128, number));
        let number = number.parse::<u32>().ok()? + ignorable;
        Some(format!("| {number} | {}", camel(name.trim_end_matches("_OLD"))))
    });
    let missing = kinds.filter(|row| !page.text.contains(row));
    missing.map(|row| finding(page, 1, format!("lacks the row `{row}`"))).collect()
}

/// `GROUP_REMOVED` as `GroupRemoved`.
fn camel(name: &str) -> String {
    let words = name.split('_').map(|word| word.split_at(1.min(word.len())));
    words.map(|(first, rest)| first.to_owned() + &rest.to_lowercase()).collect()
}

/// Each method that a token may name is in the page about tokens.
fn methods(tree: &Tree) -> Vec<Finding> {
    let page = tree.files.iter().find(|file| file.path == "docs/formats/token.md");
    let token = tree.files.iter().find(|file| file.path.ends_with("/token.rs"));
    let (Some(page), Some(token)) = (page, token) else { return Vec::new() };
    let body = token.code.split_once("enum MethodKind").and_then(|(_, rest)| rest.split('}').next());
    let kinds = body
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.trim().trim_end_matches(',').split_once(" = "));
    let rows = kinds.map(|(name, value)| format!("| {value} | `{}` |", name.to_lowercase()));
    let missing = rows.filter(|row| !page.text.contains(row));
    missing.map(|row| finding(page, 1, format!("lacks the row `{row}`"))).collect()
}

/// The magic number that a format page states is one that the code writes.
fn magics(tree: &Tree) -> Vec<Finding> {
    let literals: BTreeSet<&str> = tree.rust().flat_map(byte_literals).collect();
    let mut found = Vec::new();
    for page in tree.files.iter().filter(|file| file.path.starts_with("docs/formats/")) {
        if page.path.ends_with("/inn.md") {
            continue;
        }
        for (at, line) in page.text.lines().enumerate() {
            let Some((_, rest)) = line.split_once("magic `") else { continue };
            let magic = rest.split('`').next().unwrap_or_default();
            if !literals.contains(magic) {
                found.push(finding(page, at + 1, format!("no code writes the magic `{magic}`")));
            }
        }
    }
    found
}

/// The byte strings of a file, such as `b"NOld"`, up to the first quote in them.
fn byte_literals(file: &File) -> impl Iterator<Item = &str> {
    let after = |at: usize| file.text.get(at..)?.strip_prefix("b\"");
    file.places("b").filter_map(move |at| after(at)?.split('"').next())
}

/// A number with a comma between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        Tree::of(files.iter().map(|(path, text)| File::new(path, text)).collect())
    }

    fn found(files: &[(&str, &str)], table: &[(&str, &str, &str)]) -> Vec<String> {
        figures(&tree(files), table).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_figure_that_differs_from_its_constant_is_reported() {
        let code = "const BUSY: u64 = 16;\nconst QUIET: u64 = 4 * BUSY;\nconst GROWTH: [u64; 2] = [16, 4];\n";
        let file = ("crates/spool/src/promise.rs", code);
        let table = [("docs/p.md", "for {n} syncs, {w}fold", "QUIET GROWTH[1]")];
        assert_eq!(
            found(&[file, ("docs/p.md", "lasted for\n64 syncs, fourfold.")], &table),
            Vec::<String>::new()
        );
        let other = found(&[file, ("docs/p.md", "lasted for 32 syncs, fourfold.")], &table);
        assert_eq!(other, ["docs/p.md:1: by QUIET GROWTH[1] this should read: for 64 syncs, fourfold"]);
        let renamed = [("docs/p.md", "for {n} syncs", "CALM")];
        assert_eq!(
            found(&[file, ("docs/p.md", "for 64 syncs")], &renamed),
            ["docs/p.md:1: no single constant CALM for: for {n} syncs"]
        );
        let absent = format!("{TABLE}:1: there is no page docs/p.md that states CALM");
        assert_eq!(found(&[file], &renamed), [absent]);
    }

    #[test]
    fn values_are_read_from_constants_and_defaults() {
        let code = "const A: u64 = 64 << 10;\nconst B: Duration = Duration::from_secs(5);\n\
                    const C: f64 = 32_768.0;\nfn d() -> D { D { rows: 1 << 18, size: 16 << 10 } }\n";
        let tree = tree(&[("crates/spool/src/config.rs", code)]);
        let values = ["A", "B", "config::C", "rows", "size"].map(|name| Definitions::of(&tree).value(name));
        assert_eq!(values, [Some(65_536), Some(5), Some(32_768), Some(262_144), Some(16_384)]);
        assert_eq!((size(65_536), grouped(262_144)), ("64 KiB".into(), "262,144".into()));
    }

    #[test]
    fn rows_methods_and_magics_that_are_missing_are_reported() {
        let files = [
            (
                "crates/spool-journal/src/row.rs",
                "pub const GROUP_REMOVED: u8 = 5;\npub const LOST: u8 = 17;\npub const BEGUN: u8 = \
                    MAY_BE_IGNORED | 1;\n",
            ),
            ("crates/spool/src/token.rs", "pub enum MethodKind {\n    Trash = 0,\n    Timehash = 7,\n}\n"),
            ("crates/spool/src/magic.rs", "const MAGIC: [u8; 4] = *b\"NNew\";\n"),
            ("docs/formats/journal.md", "| 5 | GroupRemoved | name |\n"),
            ("docs/formats/token.md", "| 0 | `trash` |\n| 0 | 8 | magic `NOld` |\nmagic `NNew`\n"),
        ];
        let all: Vec<String> = rule(&tree(&files)).iter().map(ToString::to_string).collect();
        let expected = [
            "docs/formats/journal.md:1: lacks the row `| 17 | Lost`",
            "docs/formats/journal.md:1: lacks the row `| 129 | Begun`",
            "docs/formats/token.md:1: lacks the row `| 7 | `timehash` |`",
            "docs/formats/token.md:2: no code writes the magic `NOld`",
        ];
        for line in expected {
            assert!(all.iter().any(|found| found == line), "{line}: {all:#?}");
        }
        assert!(!all.iter().any(|found| found.contains("NNew")), "{all:#?}");
    }
}
