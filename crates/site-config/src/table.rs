//! The common form of all tables of keys: the manual of a key, and reading and printing of its section.
//!
//! The tables themselves are written with `section!` (see `declare`), which implements [`SectionTable`] for
//! each section.

use std::ops::Range;
use std::sync::LazyLock;

use super::kinds::ValueKind;
use super::read::SectionReader;
use super::shape::ValueShape;

/// The time when a changed value takes effect in a running server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadEffect {
    /// When the file is reloaded.
    Reload,
    /// When the server is next started; a reload applies all other changes and reports this one.
    Restart,
    /// Not in a running server: a reload that finds it changed is refused as a whole. The text is the
    /// alternative.
    Refused(&'static str),
}

/// What a key describes, for a site on several machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOwner {
    /// The site: all its machines have the same value, since it decides what becomes of articles and what
    /// clients are answered.
    Site,
    /// One machine: paths, addresses, room and logs.
    Machine,
}

/// A key as described in the manual and in error reports.
#[derive(Debug)]
pub struct ConfigKey {
    /// Name of the section.
    pub section: &'static str,
    /// Name of the key; for a part of a section it begins with the name of the part.
    pub name: &'static str,
    /// Description of accepted values.
    pub takes: String,
    /// Form of the value.
    pub(super) shape: ValueShape,
    /// Whether a section without the key is incomplete.
    pub is_required: bool,
    /// Default value, as TOML.
    pub default: Option<String>,
    /// Description of the value without the key, if it has no default in the table.
    pub absent: &'static str,
    /// Purpose of the key, in one paragraph.
    pub doc: String,
    /// An example line of the file.
    pub example: String,
    /// Time when a changed value takes effect.
    pub effect: ReloadEffect,
    /// What the key describes.
    pub owner: KeyOwner,
}

/// Returns a literal as people write it: without the underscores that Rust has in long numbers.
fn plain(literal: &str) -> String {
    let outside = |part: &str| {
        let bytes = part.as_bytes();
        let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
        let is_separator =
            |at: usize, c| c == '_' && is_digit(at.checked_sub(1)) && is_digit(at.checked_add(1));
        part.char_indices().filter(|(at, c)| !is_separator(*at, *c)).map(|(_, c)| c).collect::<String>()
    };
    // Every other part is the text of a string.
    let parts = literal.split('"').enumerate();
    let parts: Vec<String> =
        parts.map(|(at, part)| if at % 2 == 0 { outside(part) } else { part.to_owned() }).collect();
    parts.join("\"")
}

/// A row of `section!`, except for its documentation and the kind of its value.
pub(super) struct KeyRow {
    pub section: &'static str,
    pub name: &'static str,
    pub default: Option<&'static str>,
    pub example: &'static str,
    pub effect: ReloadEffect,
    pub owner: KeyOwner,
}

impl ConfigKey {
    /// Creates the key of a row of `section!`; `doc` has the lines of its documentation. Not inlined, as
    /// there are hundreds of calls.
    #[inline(never)]
    pub(super) fn new(row: KeyRow, words: ValueWords, doc: &[&str]) -> Self {
        let KeyRow { section, name, default, example, effect, owner } = row;
        // The compiler breaks long values into lines.
        let (default, example) = (default.map(plain), plain(&example.replace('\n', " ")));
        let ValueWords { takes, shape, absent, is_required } = words;
        let (doc, is_required) = (paragraph(doc), is_required && default.is_none());
        Self { section, name, takes, shape, is_required, default, absent, doc, example, effect, owner }
    }

    /// Returns the last word of the name, which stands before the value in the file.
    pub fn word(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// Returns `section.name`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }
}

/// The descriptions of a kind of value.
pub(super) struct ValueWords {
    /// Description of accepted values.
    takes: String,
    /// Form of the value.
    shape: ValueShape,
    /// Description of the value without the key.
    absent: &'static str,
    /// Whether there is no value without the key.
    is_required: bool,
}

/// Returns the descriptions of a kind of value.
#[inline(never)]
pub(super) fn words_of<T>(kind: impl ValueKind<Value = T>) -> ValueWords {
    ValueWords {
        takes: kind.words(),
        shape: kind.shape(),
        absent: kind.absent_words(),
        is_required: kind.absent().is_none(),
    }
}

/// Joins the lines of a documentation comment.
#[inline(never)]
pub(super) fn paragraph(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// A section's name, manual and keys.
#[derive(Debug)]
pub struct ConfigSection {
    /// Name of the section.
    pub name: &'static str,
    /// The section has double brackets and may be repeated.
    pub repeated: bool,
    /// Purpose of the section, in one paragraph.
    pub doc: String,
    /// Keys in the order of the documentation.
    pub keys: Vec<ConfigKey>,
}

impl ConfigSection {
    /// Returns the name with its brackets: `[site]`, `[[buffer]]`.
    pub fn brackets(&self) -> String {
        if self.repeated { format!("[[{}]]", self.name) } else { format!("[{}]", self.name) }
    }
}

/// All sections, in the order of the documentation.
pub static SECTIONS: LazyLock<Vec<ConfigSection>> = LazyLock::new(super::Draft::sections);

/// Returns all keys, in the order of the documentation.
pub fn keys() -> impl Iterator<Item = &'static ConfigKey> {
    SECTIONS.iter().flat_map(|section| &section.keys)
}

/// Returns the section of that name.
pub fn section(name: &str) -> Option<&'static ConfigSection> {
    SECTIONS.iter().find(|section| section.name == name)
}

/// Returns the key `section.name`, which may be one of a part: `peer`, `send.to`.
pub fn key(of: &str, name: &str) -> Option<&'static ConfigKey> {
    keys().find(|key| key.section == of && key.name == name)
}

/// A value and its place; for a default, the place of its section's head. Faulty values are `None`.
#[derive(Debug)]
pub(super) struct SpannedValue<T> {
    pub(super) value: Option<T>,
    pub(super) span: Range<usize>,
}

/// The keys of a section as printed: names and TOML values.
pub(super) type Lines = Vec<(&'static str, String)>;

/// Returns a key as printed. Not inlined, like [`ConfigKey::new`].
#[inline(never)]
pub(super) fn line(name: &'static str, value: &toml_edit::Value) -> (&'static str, String) {
    (name, value.to_string())
}

/// A section that was declared with `section!`.
pub(super) trait SectionTable: Sized {
    /// The values with their places in the file.
    type Draft;
    /// Name of the section.
    const NAME: &'static str;
    /// Returns the manual of the section, and of its part if it has one.
    fn manual() -> Vec<ConfigSection>;
    /// Reads the section; faults are recorded in the entry.
    fn read(entry: SectionReader<'_>) -> Self::Draft;
    /// Returns the values; `None` if one of them is faulty.
    fn finish(draft: Self::Draft) -> Option<Self>;
    /// Returns the keys and values, defaults included.
    fn lines(&self) -> Lines;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_they_are_written_in_the_file() {
        for (literal, shown) in [
            ("1_048_576", "1048576"),
            ("[1_000, 2_000_000]", "[1000, 2000000]"),
            ("articles_max = 1_000", "articles_max = 1000"),
            ("\"1_000\"", "\"1_000\""),
            ("key_2 = \"a\"", "key_2 = \"a\""),
        ] {
            assert_eq!(plain(literal), shown);
        }
    }
}
