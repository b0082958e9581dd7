//! Draft of the new configuration: sections, keys, their origins, and remarks on lines without an
//! equivalent.
//!
//! Every key or remark is added with the line of the old configuration it is about; lines not dealt with
//! are listed at the end, so that nothing is dropped silently. Parts that the configuration's own parser
//! refuses are written as comments, with the reason. Called by the converters of `settings`.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::Path;

use toml_edit::Value;

use super::text::{SourcePosition, quoted};
use netnews::printable::replaced;
use site_config as config;
use site_config::table;

/// Longest line of the file, in columns.
const COLUMNS: usize = 108;
/// Rightmost column at which comments after values begin.
const COMMENT_COLUMN_MAX: usize = 46;

/// A section.
#[derive(Debug, Clone)]
pub(super) struct DraftSection {
    name: &'static str,
    /// Text above its head.
    about: Vec<String>,
    items: Vec<DraftItem>,
    seen: Vec<SourcePosition>,
    /// Reason why it is written as a comment.
    off: Option<String>,
}

#[derive(Debug, Clone)]
struct DraftItem {
    /// Whether it belongs to the part of the section, such as `[peer.send]`.
    of_part: bool,
    what: DraftItemKind,
}

#[derive(Debug, Clone)]
enum DraftItemKind {
    Key {
        word: &'static str,
        /// TOML text.
        value: String,
        note: String,
        /// The line that says so; absent: several do, or none.
        from: Option<SourcePosition>,
        /// Reason why it is written as a comment.
        off: Option<String>,
    },
    Remark(String),
}

impl DraftSection {
    /// Creates an empty section of this name.
    pub fn new(name: &'static str) -> Self {
        Self { name, about: Vec::new(), items: Vec::new(), seen: Vec::new(), off: None }
    }

    /// Adds text above its head.
    pub fn about(&mut self, text: impl Into<String>) {
        self.about.push(text.into());
    }

    /// Marks lines as dealt with.
    pub fn saw(&mut self, places: impl IntoIterator<Item = SourcePosition>) {
        self.seen.extend(places);
    }

    /// Adds a key, from a line of the old configuration.
    pub fn key(&mut self, name: &'static str, value: impl Into<Value>, from: SourcePosition) {
        self.seen.push(from);
        self.put(name, value.into(), from.to_string(), Some(from));
    }

    /// Adds a key with a note after it.
    pub fn noted(&mut self, name: &'static str, value: impl Into<Value>, note: impl Into<String>) {
        self.put(name, value.into(), note.into(), None);
    }

    fn put(&mut self, name: &'static str, value: Value, note: String, from: Option<SourcePosition>) {
        debug_assert!(table::key(self.name, name).is_some(), "{}.{name}", self.name);
        let (of_part, word) = name.split_once('.').map_or((false, name), |(_, word)| (true, word));
        let value = value.to_string();
        let is_old = |item: &mut DraftItem| match &item.what {
            DraftItemKind::Key { word: old, .. } => (item.of_part, *old) == (of_part, word),
            DraftItemKind::Remark(_) => false,
        };
        let replaced: Vec<DraftItem> = self.items.extract_if(.., is_old).collect();
        self.items.push(DraftItem {
            of_part,
            what: DraftItemKind::Key { word, value: value.clone(), note, from, off: None },
        });
        for item in replaced {
            if let DraftItemKind::Key { value: old, from: Some(place), .. } = item.what
                && from.is_some_and(|from| from != place)
                && old != value
            {
                self.say(format!("{place}: `{word} = {old}` is not carried over: a later line decides"));
            }
        }
    }

    /// Adds a remark about a line that cannot be expressed as a key.
    pub fn remark(&mut self, from: SourcePosition, text: impl AsRef<str>) {
        self.seen.push(from);
        self.say(format!("{from}: {}", text.as_ref()));
    }

    /// Adds a remark that is not about one line.
    pub fn say(&mut self, text: impl Into<String>) {
        let of_part = self.items.iter().any(|item| item.of_part);
        self.items.push(DraftItem { of_part, what: DraftItemKind::Remark(text.into()) });
    }

    /// Removes a key.
    pub fn forget(&mut self, name: &str) {
        self.items.retain(|item| !matches!(&item.what, DraftItemKind::Key { word, .. } if *word == name));
    }

    /// Has the section written as a comment.
    pub fn disable(&mut self, why: impl Into<String>) {
        self.off.get_or_insert_with(|| why.into());
    }

    /// Returns whether it is written as a comment.
    pub fn is_off(&self) -> bool {
        self.off.is_some()
    }

    /// Returns whether it has this key.
    pub fn has(&self, name: &str) -> bool {
        let (of_part, word) = name.split_once('.').map_or((false, name), |(_, word)| (true, word));
        self.items.iter().any(|item| {
            item.of_part == of_part
                && matches!(&item.what, DraftItemKind::Key { word: own, .. } if *own == word)
        })
    }

    /// Returns the position of an item: keys as in the manual, then remarks.
    fn rank(&self, item: &DraftItem) -> usize {
        let DraftItemKind::Key { word, .. } = &item.what else { return usize::MAX };
        let keys = table::section(self.name).map(|section| section.keys.as_slice()).unwrap_or_default();
        let is_own = |key: &table::ConfigKey| key.word() == *word && key.name.contains('.') == item.of_part;
        keys.iter().position(is_own).unwrap_or(usize::MAX - 1)
    }

    fn is_repeated(&self) -> bool {
        table::section(self.name).is_some_and(|section| section.repeated)
    }
}

/// The whole file.
#[derive(Debug, Default)]
pub(super) struct ConfigDraft {
    sections: Vec<DraftSection>,
    /// Remarks that belong to no section.
    loose: Vec<LooseRemark>,
    seen: HashSet<(&'static str, u32)>,
    /// Advice for the operator before the server is started.
    pub advice: Vec<String>,
}

/// A remark on a line, possibly shared with other lines.
#[derive(Debug)]
struct LooseRemark {
    place: SourcePosition,
    /// Text of the line; empty if `why` includes it.
    what: String,
    why: String,
}

/// A line of the file being written, with its section and item.
struct WrittenLine {
    span: Range<usize>,
    section: usize,
    item: Option<usize>,
}

impl ConfigDraft {
    /// Returns the section of this name that is not repeated.
    pub fn single(&mut self, name: &'static str) -> &mut DraftSection {
        let at = self.sections.iter().position(|section| section.name == name).unwrap_or_else(|| {
            self.sections.push(DraftSection::new(name));
            self.sections.len() - 1
        });
        &mut self.sections[at]
    }

    /// Adds a section.
    pub fn push(&mut self, section: DraftSection) {
        self.sections.push(section);
    }

    /// Marks lines as dealt with.
    pub fn saw(&mut self, places: impl IntoIterator<Item = SourcePosition>) {
        for place in places {
            self.seen.extend((place.line..=place.last).map(|line| (place.file, line)));
        }
    }

    /// Adds a remark on a line without an equivalent, outside of any section.
    pub fn remark(&mut self, from: SourcePosition, text: impl Into<String>) {
        self.saw([from]);
        self.loose.push(LooseRemark { place: from, what: String::new(), why: text.into() });
    }

    /// Adds a remark on `what` of a line; lines with the same remark are listed together.
    pub fn unsaid(&mut self, from: SourcePosition, what: impl Into<String>, why: impl Into<String>) {
        self.saw([from]);
        self.loose.push(LooseRemark { place: from, what: what.into(), why: why.into() });
    }

    /// Writes all sections of a name as comments.
    pub fn disable(&mut self, name: &str, why: &str) {
        self.sections
            .iter_mut()
            .filter(|section| section.name == name)
            .for_each(|section| section.disable(why));
    }

    /// Returns how many sections of a name are in effect.
    pub fn count(&self, name: &str) -> usize {
        self.sections.iter().filter(|section| section.name == name && !section.is_off()).count()
    }

    /// Returns the number of remarks.
    pub fn remarks(&self) -> usize {
        let of = |section: &DraftSection| {
            section.items.iter().filter(|item| matches!(item.what, DraftItemKind::Remark(_))).count()
        };
        self.loose.len() + self.sections.iter().map(of).sum::<usize>()
    }

    /// Lists the lines that were not dealt with.
    pub fn complete(&mut self, files: &BTreeMap<&'static str, String>, order: &[&str]) {
        for section in &mut self.sections {
            for place in std::mem::take(&mut section.seen) {
                self.seen.extend((place.line..=place.last).map(|line| (place.file, line)));
            }
        }
        for (file, text) in files {
            for line in super::text::lines(file, text) {
                if line.text.contains(char::REPLACEMENT_CHARACTER) {
                    let why = "has bytes that are not UTF-8: look at what was made of it".to_owned();
                    self.loose.push(LooseRemark { place: line.place, what: String::new(), why });
                }
                if !self.seen.contains(&(*file, line.place.line)) {
                    // Passwords are not copied.
                    let is_secret = *file == "passwd.nntp" || line.text.contains("password");
                    let text = if is_secret {
                        "a line with a password".into()
                    } else {
                        format!("`{}`", quoted(&line.text))
                    };
                    let why = format!("{text}: not understood");
                    self.loose.push(LooseRemark { place: line.place, what: String::new(), why });
                }
            }
        }
        let rank = |file: &str| order.iter().position(|own| *own == file);
        self.loose.sort_by_key(|loose| (rank(loose.place.file), loose.place.line));
    }

    /// Returns the file as accepted by the configuration's parser: refused parts are turned into comments.
    /// Also returns the error that remains, if any.
    pub fn settle(&mut self, head: &str) -> (String, Option<String>) {
        let rank = |name: &str| {
            table::SECTIONS.iter().position(|section| section.name == name).unwrap_or(usize::MAX)
        };
        // Control sections come last, as hundreds of them would be hard to read in the middle.
        self.sections.sort_by_key(|section| (section.name == "control", rank(section.name)));
        loop {
            let (text, lines) = self.written(head);
            let error = match config::parse(&text, Path::new("newsreel.toml")) {
                Ok(_) => return (text, None),
                Err(error) => error,
            };
            let mut changed = false;
            for fault in error.faults() {
                changed |= self.refused(&lines, fault);
            }
            if !changed {
                return (text, Some(error.report(false)));
            }
        }
    }

    /// Disables the part that a fault is about; returns whether that was possible.
    fn refused(&mut self, lines: &[WrittenLine], fault: &config::ConfigFault) -> bool {
        let Some(origin) = lines.iter().find(|line| line.span.contains(&fault.span.start)) else {
            return false;
        };
        let Some(section) = self.sections.get_mut(origin.section) else { return false };
        if section.is_repeated() {
            let is_new = section.off.is_none();
            section.disable(fault.message.clone());
            return is_new;
        }
        match origin.item.and_then(|at| section.items.get_mut(at)).map(|item| &mut item.what) {
            Some(DraftItemKind::Key { off, .. }) if off.is_none() => {
                *off = Some(fault.message.clone());
                true
            }
            _ => false,
        }
    }

    fn written(&self, head: &str) -> (String, Vec<WrittenLine>) {
        let mut page = DraftPage { text: String::new(), lines: Vec::new() };
        page.comment(head);
        if !self.advice.is_empty() {
            page.comment("\nBefore you start the server:");
            for text in &self.advice {
                page.wrapped("  - ", text);
            }
        }
        let is_last = |section: &DraftSection| section.name == "control";
        for (at, section) in self.sections.iter().enumerate().filter(|(_, section)| !is_last(section)) {
            page.section(at, section);
        }
        self.write_loose(&mut page);
        for (at, section) in self.sections.iter().enumerate().filter(|(_, section)| is_last(section)) {
            page.section(at, section);
        }
        (page.text, page.lines)
    }

    /// Writes the remarks on lines that belong to no section.
    fn write_loose(&self, page: &mut DraftPage) {
        if !self.loose.is_empty() {
            page.text.push('\n');
            page.comment("What has no equivalent here, line by line.");
        }
        let mut file = "";
        for (at, first) in self.loose.iter().enumerate() {
            let is_same = |other: &LooseRemark| {
                (other.place.file, &other.why) == (first.place.file, &first.why) && !first.what.is_empty()
            };
            if self.loose.iter().take(at).any(is_same) {
                continue;
            }
            if first.place.file != file {
                page.text.push_str("#\n");
                file = first.place.file;
            }
            let alike: Vec<&LooseRemark> =
                self.loose.iter().skip(at + 1).filter(|other| is_same(other)).collect();
            page.loose(first, &alike);
        }
    }
}

struct DraftPage {
    text: String,
    lines: Vec<WrittenLine>,
}

impl DraftPage {
    /// Writes lines of comment unchanged.
    fn comment(&mut self, text: &str) {
        for line in text.lines() {
            self.text.push_str(format!("# {line}").trim_end());
            self.text.push('\n');
        }
    }

    /// Writes a comment, wrapped; `lead` comes before the first line.
    fn wrapped(&mut self, lead: &str, text: &str) {
        let indent = if lead.is_empty() { "  ".to_owned() } else { " ".repeat(lead.len()) };
        let mut line = format!("# {lead}");
        let mut is_empty = true;
        for word in quoted_long(text).split(' ').filter(|word| !word.is_empty()) {
            if !is_empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
                self.text.push_str(line.trim_end());
                self.text.push('\n');
                line = format!("# {indent}");
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
            is_empty = false;
        }
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Writes a remark on a line, and on others like it.
    fn loose(&mut self, first: &LooseRemark, alike: &[&LooseRemark]) {
        let places: Vec<SourcePosition> =
            std::iter::once(first.place).chain(alike.iter().map(|other| other.place)).collect();
        let colon = if first.what.is_empty() { "" } else { ": " };
        let what: Vec<&str> = std::iter::once(first.what.as_str())
            .chain(alike.iter().map(|other| other.what.as_str()))
            .collect();
        self.wrapped("", &format!("{}: {}{colon}{}", origins(&places), what.join(", "), first.why));
    }

    /// Writes a line that a fault may be about.
    fn line(&mut self, section: usize, item: Option<usize>, text: &str) {
        let from = self.text.len();
        self.text.push_str(text.trim_end());
        self.text.push('\n');
        self.lines.push(WrittenLine { span: from..self.text.len(), section, item });
    }

    fn section(&mut self, at: usize, section: &DraftSection) {
        if section.items.is_empty() && section.about.is_empty() {
            return;
        }
        self.text.push('\n');
        section.about.iter().for_each(|text| self.wrapped("", text));
        let off = if section.is_off() { "# " } else { "" };
        if let Some(why) = &section.off {
            self.wrapped("", &format!("Not carried over, since {why}:"));
        }
        let brackets = table::section(section.name).map_or_else(String::new, table::ConfigSection::brackets);
        self.line(at, None, &format!("{off}{brackets}"));
        for of_part in [false, true] {
            let items = || {
                let mut items: Vec<(usize, &DraftItem)> =
                    section.items.iter().enumerate().filter(|(_, item)| item.of_part == of_part).collect();
                items.sort_by_key(|(_, item)| section.rank(item));
                items.into_iter()
            };
            if of_part && items().next().is_some() {
                self.line(at, None, &format!("{off}[{}.send]", section.name));
            }
            let width = |item: &DraftItem| match &item.what {
                DraftItemKind::Key { word, value, off: None, .. } => assignment(word, value).chars().count(),
                _ => 0,
            };
            let widths = items().map(|(_, item)| width(item)).filter(|width| *width <= COMMENT_COLUMN_MAX);
            let column = widths.max().unwrap_or(0);
            for (number, item) in items() {
                match &item.what {
                    DraftItemKind::Key { word, value, note, off: None, .. } => {
                        let text = format!("{off}{}", assignment(word, value));
                        self.key(at, number, &text, note, off.len() + column);
                    }
                    DraftItemKind::Key { word, value, note, off: Some(why), .. } => {
                        self.wrapped(
                            "",
                            &format!("{note}: {}: not carried over, since {why}", assignment(word, value)),
                        );
                    }
                    DraftItemKind::Remark(text) => self.wrapped("", text),
                }
            }
        }
    }

    /// Writes the text of a key, with its note after it in `column` if there is room, otherwise above it.
    fn key(&mut self, section: usize, item: usize, text: &str, note: &str, column: usize) {
        let line = format!("{text:column$}  # {note}");
        if note.is_empty() {
            self.line(section, Some(item), text);
        } else if line.chars().count() <= COLUMNS {
            self.line(section, Some(item), &line);
        } else {
            self.wrapped("", note);
            self.line(section, Some(item), text);
        }
    }
}

/// Returns a text such as `control.ctl 7-9, 12`.
pub(super) fn origins(places: &[SourcePosition]) -> String {
    let mut lines: Vec<(u32, u32)> = places.iter().map(|place| (place.line, place.last)).collect();
    lines.sort_unstable();
    lines.dedup();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for (line, end) in lines {
        match ranges.last_mut().filter(|(_, last)| last.saturating_add(1) == line) {
            Some((_, last)) => *last = end,
            None => ranges.push((line, end)),
        }
    }
    let texts: Vec<String> = ranges
        .iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    format!("{} {}", places.first().map_or("", |place| place.file), texts.join(", "))
}

fn assignment(word: &str, value: &str) -> String {
    format!("{word} = {}", value.trim())
}

/// Returns a text of any length in a form allowed in a comment.
fn quoted_long(text: &str) -> String {
    replaced(text, ' ').into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(text: &str) -> BTreeMap<&'static str, String> {
        BTreeMap::from([("inn.conf", text.to_owned())])
    }

    fn storage(sheet: &mut ConfigDraft) {
        let mut class = DraftSection::new("class");
        class.noted("name", "all", "");
        class.noted("method", "appendonly", "");
        sheet.push(class);
        let mut rule = DraftSection::new("rule");
        rule.noted("class", "all", "");
        sheet.push(rule);
    }

    #[test]
    fn lines_not_dealt_with_are_listed() {
        let mut sheet = ConfigDraft::default();
        storage(&mut sheet);
        sheet.single("site").key("path_identity", "news.example", SourcePosition::at("inn.conf", 1));
        sheet.remark(SourcePosition::at("inn.conf", 3), "`c: 1`: not needed");
        sheet.unsaid(SourcePosition::at("inn.conf", 5), "`d`", "not needed");
        sheet.unsaid(SourcePosition::at("inn.conf", 6), "`e`", "not needed");
        sheet.complete(&files("pathhost: news.example\n# x\nc: 1\nfour: \x1b5\nd\ne\n"), &["inn.conf"]);
        let (text, refused) = sheet.settle("Head.");
        assert_eq!(refused, None);
        assert!(
            text.starts_with("# Head.\n\n[site]\npath_identity = \"news.example\"  # inn.conf 1\n"),
            "{text}"
        );
        assert!(
            text.ends_with("# inn.conf 3: `c: 1`: not needed\n# inn.conf 4: `four: 5`: not understood\n# inn.conf 5-6: `d`, `e`: not needed\n"),
            "{text}"
        );
        assert_eq!(sheet.remarks(), 4);
    }

    #[test]
    fn parts_the_parser_refuses_become_comments_with_the_reason() {
        let mut sheet = ConfigDraft::default();
        storage(&mut sheet);
        let site = sheet.single("site");
        site.key("path_identity", "two words", SourcePosition::at("inn.conf", 1));
        site.key("organization", "O", SourcePosition::at("inn.conf", 2));
        for name in ["a", "b"] {
            let mut peer = DraftSection::new("peer");
            peer.noted("name", name, "");
            peer.noted("addresses", Value::from_iter(["192.0.2.1"]), "");
            sheet.push(peer);
        }
        sheet.complete(&files(""), &[]);
        let (text, refused) = sheet.settle("Head.");
        assert_eq!(refused, None);
        let text = text.replace("\n#   ", " ");
        assert!(text.contains("organization = \"O\"  # inn.conf 2\n"), "{text}");
        assert!(
            text.contains("not carried over, since site.path_identity: `two words` is not a path"),
            "{text}"
        );
        assert!(text.contains("# Not carried over, since `192.0.2.1` is an address of peer `a` already:\n# [[peer]]\n# name = \"b\""), "{text}");
        assert!(text.contains("\n[[peer]]\nname = \"a\""), "{text}");
    }
}
