//! Converts storage.conf and cycbuff.conf: buffers, classes and rules.
//!
//! INN's buffers are read by `newsreel import inn` and never written: each gets a new file of the same
//! size. A class here is defined by how articles are stored, so several of INN's that share a metacycbuff
//! become one. Called by `settings`. Sources: storage.conf(5), cycbuff.conf(5).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use toml_edit::Value;

use super::blocks::{self, ConfBlock, ConfPair};
use super::patterns::{Patterns, storage_name};
use super::sheet::{ConfigDraft, DraftSection};
use super::text::{NotConverted, SourcePosition, continued, is_true, pieces, quoted};
use site_base::units::{size_text, span_text};

/// Smallest size of a buffer, in bytes.
const BUFFER_BYTES_MIN: u64 = 64 << 10;

/// Classes of the new configuration.
#[derive(Debug, Default)]
pub(super) struct ConvertedClasses {
    /// Names of classes that keep their articles, by INN's number.
    pub keeping: BTreeMap<u64, BTreeSet<String>>,
    names: BTreeSet<String>,
}

/// A line `cycbuff:` or `metacycbuff:`.
#[derive(Debug, Clone)]
struct InnBuffer {
    place: SourcePosition,
    name: String,
    path: String,
    bytes: u64,
}

#[derive(Debug, Clone)]
struct InnMetacycbuff {
    place: SourcePosition,
    buffers: Vec<String>,
    order: String,
}

/// Parsed cycbuff.conf.
#[derive(Debug, Default)]
pub(super) struct Cycbuffs {
    buffers: Vec<InnBuffer>,
    metas: BTreeMap<String, InnMetacycbuff>,
    notes: Vec<(SourcePosition, String)>,
}

impl Cycbuffs {
    /// Parses the file.
    pub fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for line in continued("cycbuff.conf", text) {
            let fields: Vec<&str> = line.text.split(':').map(str::trim).collect();
            let place = line.place;
            match *fields.as_slice() {
                ["cycbuffupdate" | "refreshinterval", value] => {
                    let why = "not needed, buffers are always up to date";
                    found.notes.push((place, format!("`{}:{value}`: {why}", fields[0])));
                }
                ["cycbuff", name, path, size] => match size.parse::<u64>() {
                    Ok(kilobytes) => found.buffers.push(InnBuffer {
                        place,
                        name: name.to_owned(),
                        path: path.to_owned(),
                        bytes: kilobytes.saturating_mul(1024),
                    }),
                    Err(_) => {
                        found.notes.push((place, format!("`{}` is not a size in kilobytes", quoted(size))))
                    }
                },
                ["metacycbuff", name, buffers] => found.meta(place, name, buffers, "INTERLEAVE"),
                ["metacycbuff", name, buffers, order] => found.meta(place, name, buffers, order),
                _ => found.notes.push((place, format!("`{}`: not understood", quoted(&line.text)))),
            }
        }
        found
    }

    fn meta(&mut self, place: SourcePosition, name: &str, buffers: &str, order: &str) {
        let buffers = pieces(buffers).map(str::to_owned).collect();
        let meta = InnMetacycbuff { place, buffers, order: order.to_ascii_uppercase() };
        self.metas.insert(name.to_owned(), meta);
    }
}

/// A `method` of storage.conf.
#[derive(Debug)]
struct StorageMethod<'a> {
    block: &'a ConfBlock,
    class: u64,
}

/// Writes buffers, classes and rules.
pub(super) fn convert(
    storage: Option<&str>,
    cycbuffs: &Cycbuffs,
    wire: bool,
    sheet: &mut ConfigDraft,
) -> ConvertedClasses {
    for (place, note) in &cycbuffs.notes {
        sheet.remark(*place, note);
    }
    let parsed = blocks::parse("storage.conf", storage.unwrap_or_default());
    for (place, why) in &parsed.faults {
        sheet.remark(*place, why);
    }
    let mut classes = ConvertedClasses::default();
    let mut in_use: BTreeSet<&str> = BTreeSet::new();
    let mut ends_with_all = false;
    for block in parsed.root.blocks.iter().filter(|block| block.word == "method") {
        let class = block.get("class").and_then(|pair| pair.value.parse().ok()).unwrap_or(0);
        let method = StorageMethod { block, class };
        if ends_with_all {
            sheet.remark(
                block.place,
                format!("`method {}` is never reached: the one before takes everything", quoted(&block.name)),
            );
            sheet.saw(block.pairs.iter().map(|pair| pair.place).chain([block.end]));
            continue;
        }
        let Some(name) = classes.add(&method, cycbuffs, &mut in_use, wire, sheet) else { continue };
        ends_with_all = rule(&method, &name, sheet);
    }
    for buffer in cycbuffs.buffers.iter().filter(|buffer| !in_use.contains(buffer.name.as_str())) {
        let text = format!(
            "cycbuff {} is in no class of storage.conf; what it holds is read by newsreel import inn",
            quoted(&buffer.name)
        );
        sheet.remark(buffer.place, text);
    }
    for (name, meta) in &cycbuffs.metas {
        if !classes.names.contains(&storage_name(name)) {
            sheet.remark(meta.place, format!("metacycbuff {} is in no class of storage.conf", quoted(name)));
        }
    }
    if !ends_with_all {
        last(&mut classes, sheet);
    }
    classes
}

impl ConvertedClasses {
    /// Writes the class of a method, unless it exists; returns its name, if the name is valid.
    fn add<'a>(
        &mut self,
        method: &StorageMethod<'_>,
        cycbuffs: &'a Cycbuffs,
        in_use: &mut BTreeSet<&'a str>,
        wire: bool,
        sheet: &mut ConfigDraft,
    ) -> Option<String> {
        let block = method.block;
        let number = method.class;
        let (name, kind) = match block.name.as_str() {
            "cnfs" => return self.cnfs(method, cycbuffs, in_use, sheet),
            "tradspool" => (format!("tradspool-{number}"), "tradspool"),
            "timehash" => (format!("timehash-{number}"), "timehash"),
            "timecaf" => (format!("timecaf-{number}"), "appendonly"),
            "trash" => ("trash".to_owned(), "trash"),
            other => {
                sheet.saw(block.pairs.iter().map(|pair| pair.place).chain([block.end]));
                sheet.remark(block.place, format!("`method {}` is none of INN's: left out", quoted(other)));
                return None;
            }
        };
        let name = storage_name(&name);
        if kind != "trash" {
            self.keeping.entry(number).or_default().insert(name.clone());
        }
        if self.names.insert(name.clone()) {
            let mut class = DraftSection::new("class");
            class.noted("name", name.as_str(), format!("class {number} of INN"));
            class.key("method", kind, block.place);
            if block.name == "timecaf" {
                class.say("timecaf has no equivalent; appendonly, too, keeps many articles in a file.");
            }
            if !wire && kind != "appendonly" && kind != "trash" {
                class.noted("line_ends", "lf", "inn.conf: wireformat");
            }
            sheet.push(class);
        }
        Some(name)
    }

    fn cnfs<'a>(
        &mut self,
        method: &StorageMethod<'_>,
        cycbuffs: &'a Cycbuffs,
        in_use: &mut BTreeSet<&'a str>,
        sheet: &mut ConfigDraft,
    ) -> Option<String> {
        let block = method.block;
        let option = block.get("options").map(|pair| pair.value.as_str()).unwrap_or_default();
        let Some(meta) = cycbuffs.metas.get(option) else {
            sheet.saw(block.pairs.iter().map(|pair| pair.place).chain([block.end]));
            let text =
                format!("cycbuff.conf has no metacycbuff `{}`: this method is left out", quoted(option));
            sheet.remark(block.place, text);
            return None;
        };
        let name = storage_name(option);
        if !self.names.insert(name.clone()) {
            sheet.saw(block.get("options").map(|pair| pair.place));
            return Some(name);
        }
        let mut names = Vec::new();
        for own in &meta.buffers {
            match cycbuffs.buffers.iter().find(|buffer| buffer.name == *own) {
                Some(buffer) if in_use.insert(&buffer.name) => {
                    names.push(storage_name(own));
                    sheet.push(buffer_section(buffer));
                }
                Some(_) => {
                    sheet.remark(meta.place, format!("cycbuff {} is in another class already", quoted(own)))
                }
                None => sheet.remark(meta.place, format!("there is no cycbuff {}", quoted(own))),
            }
        }
        let mut class = DraftSection::new("class");
        class.noted(
            "name",
            name.as_str(),
            format!("the metacycbuff of {}", block.get("options").map_or(block.place, |pair| pair.place)),
        );
        class.saw(block.get("options").map(|pair| pair.place));
        class.key("buffers", Value::from_iter(names), meta.place);
        class.key("order", if meta.order == "SEQUENTIAL" { "sequential" } else { "interleave" }, meta.place);
        sheet.push(class);
        Some(name)
    }
}

fn buffer_section(buffer: &InnBuffer) -> DraftSection {
    let mut section = DraftSection::new("buffer");
    let name = storage_name(&buffer.name);
    section.key("name", name.as_str(), buffer.place);
    section.noted("path", format!("{name}.cyc"), format!("a new file; INN's is {}", quoted(&buffer.path)));
    section.noted("size", size_text(buffer.bytes.clamp(BUFFER_BYTES_MIN, 1 << 50)), "");
    section
}

/// Writes the rule of a method; returns whether it matches every article.
fn rule(method: &StorageMethod<'_>, class: &str, sheet: &mut ConfigDraft) -> bool {
    let block = method.block;
    let mut rule = DraftSection::new("rule");
    rule.key("class", class, block.place);
    rule.saw([block.end]);
    if block.get("newsgroups").is_none() {
        rule.disable("it names no newsgroups, so that INN never uses it");
    }
    let mut undated = None;
    // The key that may need two rules comes last.
    let (expires, others) = block.pairs.iter().partition::<Vec<_>, _>(|pair| pair.key == "expires");
    for pair in others.into_iter().chain(expires) {
        let before = rule.clone();
        if let Err(why) = condition(pair, &mut rule) {
            rule.remark(pair.place, format!("`{}: {}`: {why}", quoted(&pair.key), quoted(&pair.value)));
            rule.disable(format!("line {} cannot be said here", pair.place.line));
        }
        if rule.has("expires_within") && !rule.has("expires_beyond") {
            let mut rest = before;
            rest.key("expires_absent", true, pair.place);
            undated = Some(rest);
        }
    }
    let conditions = ["groups", "larger_than", "smaller_than", "expires_within", "expires_beyond"];
    let takes_all = !rule.is_off() && !conditions.iter().any(|key| rule.has(key));
    if let Some(mut rest) = undated.filter(|_| !rule.is_off()) {
        rest.about("As in INN, articles without an Expires header, too.");
        sheet.push(rule);
        sheet.push(rest);
        return false;
    }
    sheet.push(rule);
    takes_all
}

fn condition(pair: &ConfPair, rule: &mut DraftSection) -> Result<(), NotConverted> {
    let place = pair.place;
    match pair.key.as_str() {
        "class" | "options" => rule.saw([place]),
        "newsgroups" => {
            let patterns = Patterns::parse(&pair.value)?;
            match patterns.groups.as_str() {
                "" => return Err("no group matches".into()),
                "*" => rule.saw([place]),
                groups => {
                    rule.key("groups", groups, place);
                    rule.noted("match", "any", "any group, as in INN");
                }
            }
            if !patterns.never.is_empty() {
                rule.remark(
                    place,
                    "a group with @ keeps an article out of INN's class; here it only does not count",
                );
            }
        }
        "size" => {
            let (min, max) = range(&pair.value, |text| text.parse().ok())?;
            if min > 0 {
                rule.key("larger_than", size_text(min - 1), place);
            }
            if max > 0 {
                rule.key("smaller_than", size_text(max.saturating_add(1)), place);
            }
            rule.saw([place]);
        }
        "expires" => {
            let (min, max) = range(&pair.value, expires)?;
            if min > 0 {
                rule.key("expires_beyond", span_text(Duration::from_secs(min)), place);
            }
            if max > 0 {
                rule.key("expires_within", span_text(Duration::from_secs(max)), place);
            }
            rule.saw([place]);
        }
        "exactmatch" if !is_true(&pair.value) => rule.saw([place]),
        "exactmatch" => {
            rule.remark(place, "`exactmatch` has no equivalent: one group that matches is enough")
        }
        "filtered" if is_true(&pair.value) => rule.key("verdict", "*", place),
        "filtered" => rule.saw([place]),
        _ => return Err("not a key of storage.conf".into()),
    }
    Ok(())
}

/// Parses `min` or `min,max`.
fn range(text: &str, read: impl Fn(&str) -> Option<u64>) -> Result<(u64, u64), NotConverted> {
    let mut parts = text.split(',').map(|part| read(part.trim()));
    let min = parts.next().flatten().ok_or("not a range")?;
    let max = parts.next().unwrap_or(Some(0)).ok_or("not a range")?;
    Ok((min, max))
}

/// Parses a time such as `3d12h`, in seconds.
fn expires(text: &str) -> Option<u64> {
    let mut secs = 0_u64;
    let mut number: Option<u64> = None;
    for c in text.chars() {
        if let Some(digit) = c.to_digit(10) {
            number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(digit.into())?);
            continue;
        }
        let unit = match c.to_ascii_lowercase() {
            'd' => 86_400,
            'h' => 3_600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        secs = secs.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    // A century is the most that newsreel accepts.
    (number.is_none() && !text.is_empty()).then_some(secs.min(100 * 365 * 86_400))
}

/// Writes the last rule, for articles that match no other.
fn last(classes: &mut ConvertedClasses, sheet: &mut ConfigDraft) {
    let is_empty = classes.names.is_empty();
    let (name, method) = if is_empty { ("articles", "appendonly") } else { ("elsewhere", "trash") };
    let mut class = DraftSection::new("class");
    class.about(match is_empty {
        true => "The old files name no storage; articles are kept in files of 256 MiB until they are due.",
        false => {
            "INN refuses what no method in storage.conf takes. Here the last rule takes everything; this class \
             stores nothing."
        }
    });
    class.noted("name", name, "");
    class.noted("method", method, "");
    sheet.push(class);
    let mut rule = DraftSection::new("rule");
    rule.noted("class", name, "what no rule above takes");
    sheet.push(rule);
    classes.names.insert(name.to_owned());
    if is_empty {
        classes.keeping.entry(0).or_default().insert(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_expires_are_parsed() {
        for (text, secs) in [
            ("0s", Some(0)),
            ("1d2h3m4s", Some(93_784)),
            ("90d", Some(7_776_000)),
            ("", None),
            ("5", None),
            ("d", None),
            ("99999999999999999999d", None),
        ] {
            assert_eq!(expires(text), secs, "{text}");
        }
    }
}
