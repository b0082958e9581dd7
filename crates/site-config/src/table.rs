//! What every table of keys has: what the manual says of a key, and how its section is read and printed.
//!
//! The tables themselves are written with `section!` (see `declare`), which implements [`Table`] for each
//! section.

use std::ops::Range;
use std::sync::LazyLock;

use super::kinds::Kind;
use super::read::Entry;

/// When a changed value takes effect in a running server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// When the file is reloaded.
    Reload,
    /// When the server is next started; a reload takes all the rest and says so.
    Restart,
    /// Not in a running server: a reload that finds it changed is refused as a whole. What to do instead.
    Refused(&'static str),
}

/// What the manual and error reports say of a key.
#[derive(Debug)]
pub struct Key {
    /// Its section's name.
    pub section: &'static str,
    /// Its own name; in a part of a section it begins with the part's.
    pub name: &'static str,
    /// Its type, in words.
    pub takes: String,
    /// What holds without it, as TOML.
    pub default: Option<&'static str>,
    /// What holds without it if that is no value of the table, in words.
    pub absent: &'static str,
    /// What it is for, in one paragraph.
    pub doc: String,
    /// A line as it may stand in the file.
    pub example: String,
    /// When a changed value takes effect.
    pub effect: Effect,
}

impl Key {
    /// The key of a row of `section!`: section and name, what its kind says, default, the lines of its
    /// documentation, example, effect. Not inlined, as there are hundreds of them.
    #[inline(never)]
    pub(super) fn new(
        (section, name): (&'static str, &'static str),
        (takes, absent): (String, &'static str),
        default: Option<&'static str>,
        doc: &[&str],
        example: &'static str,
        effect: Effect,
    ) -> Self {
        // The compiler breaks long values into lines.
        let example = example.replace('\n', " ");
        Self { section, name, takes, default, absent, doc: paragraph(doc), example, effect }
    }

    /// The last word of its name: what stands before its value.
    pub fn word(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// `section.name`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }
}

/// What a key of a `T` takes and what holds without it, in words.
#[inline(never)]
pub(super) fn words_of<T>(kind: impl Kind<Value = T>) -> (String, &'static str) {
    (kind.words(), kind.absent_words())
}

/// The lines of a documentation comment as one.
#[inline(never)]
pub(super) fn paragraph(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// A section's name, manual and keys.
#[derive(Debug)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    /// Whether it stands in double brackets and may be repeated.
    pub repeated: bool,
    /// What it is for, in one paragraph.
    pub doc: String,
    /// Its keys, in the order of the documentation.
    pub keys: Vec<Key>,
}

impl Section {
    /// `[site]`, `[[buffer]]`.
    pub fn brackets(&self) -> String {
        if self.repeated { format!("[[{}]]", self.name) } else { format!("[{}]", self.name) }
    }
}

/// Every section, in the order of the documentation.
pub static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(super::Draft::sections);

/// Every key, in the order of the documentation.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    SECTIONS.iter().flat_map(|section| &section.keys)
}

/// The section of that name.
pub fn section(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.name == name)
}

/// The key `section.name`, which may be one of a part: `peer`, `send.to`.
pub fn key(of: &str, name: &str) -> Option<&'static Key> {
    keys().find(|key| key.section == of && key.name == name)
}

/// A value and its place; for a default, the place of its section's head. Faulty values are absent.
#[derive(Debug)]
pub(super) struct At<T> {
    pub(super) value: Option<T>,
    pub(super) span: Range<usize>,
}

/// The keys of one section as they are printed: names and TOML values.
pub(super) type Lines = Vec<(&'static str, String)>;

/// A key as it is printed. Not inlined, as [`Key::new`].
#[inline(never)]
pub(super) fn line(name: &'static str, value: &toml_edit::Value) -> (&'static str, String) {
    (name, value.to_string())
}

/// A section that was declared with `section!`.
pub(super) trait Table: Sized {
    /// Its values with their places in the file.
    type Draft;
    /// Its name.
    const NAME: &'static str;
    /// What the manual says of it, and of its part if it has one.
    fn manual() -> Vec<Section>;
    /// Reads it; what is wrong is noted in the entry.
    fn read(entry: Entry<'_>) -> Self::Draft;
    /// The values; `None` if one of them is faulty.
    fn finish(draft: Self::Draft) -> Option<Self>;
    /// Its keys and values, defaults included.
    fn lines(&self) -> Lines;
}
