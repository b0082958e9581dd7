//! Parsing the text of a file into a [`Config`], or into all faults in it.
//!
//! Three passes: TOML's grammar, whose first fault is reported alone, since the text after a broken line
//! cannot be trusted; keys and values against the tables of the sections; and `checks`. The last two continue
//! after a fault.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::faults::{ConfigError, ConfigFault, nearest};
use super::kinds::{FaultReason, Toml, ValueFault, ValueKind};
use super::table::{self, ConfigKey, ConfigSection, SECTIONS, SectionTable, SpannedValue};
use super::{Buffer, Class, Config, Draft, Peer, PeerSend, Rule, SendTemplate, Site, Upstream, checks};

/// Reads and checks a file.
pub fn load(file: &Path) -> Result<Config, ConfigError> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| ConfigError::Unreadable { file: file.to_owned(), error })?;
    parse(&text, file)
}

/// Reads and checks `text`; `file` is its name, from which relative paths start.
pub fn parse(text: &str, file: &Path) -> Result<Config, ConfigError> {
    let faulty = |mut faults: Vec<ConfigFault>| {
        faults.sort_by_key(|fault| (fault.span.start, fault.span.end));
        ConfigError::Faulty { file: file.to_owned(), text: text.to_owned(), faults }
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    // Further errors are mostly consequences of the first.
    if let Some(first) = errors.first() {
        return Err(faulty(vec![grammar_fault(text, first)]));
    }
    let (of_a_cache, _) = DeTable::parse_recoverable(OF_A_CACHE);
    let usual = is_cache_alone(table.get_ref()).then(|| of_a_cache.get_ref());
    let mut document = ConfigDocument { table: table.get_ref(), usual, faults: Vec::new() };
    document.unknown_sections();
    let draft = Draft::read(&mut document);
    document.templates();
    let mut faults = document.faults;
    let end = text.trim_end().len();
    checks::check(&draft, end..end, &mut faults);
    match draft.finish(file) {
        Some(config) if faults.is_empty() => Ok(config.resolved()),
        _ => Err(faulty(faults)),
    }
}

/// Returns the directory of the spool that `text` names, whatever other faults it has; `file` is its name.
/// The default if no valid directory is named.
pub fn data_in(text: &str, file: &Path) -> PathBuf {
    let (table, _) = DeTable::parse_recoverable(text);
    let mut document = ConfigDocument { table: table.get_ref(), usual: None, faults: Vec::new() };
    let site = Site::read(document.single(Site::NAME));
    super::beside(file, &site.data.value.unwrap_or_else(|| ".".into()))
}

fn grammar_fault(text: &str, error: &toml::de::Error) -> ConfigFault {
    let span = error.span().unwrap_or(text.len()..text.len());
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    let value = text.get(span.clone()).unwrap_or_default().trim();
    let advice = if ["yes", "no", "on", "off"].contains(&value) {
        Some("a switch is true or false, without quotes".into())
    } else if message.contains("must be quoted") || message.contains("expected") {
        Some("texts, sizes and times need quotes: size = \"2 GiB\"".into())
    } else if message.contains("duplicate") {
        Some("each key may be set once in a section; sections in [[double brackets]] may be repeated".into())
    } else {
        None
    };
    ConfigFault { message: format!("not TOML: {message}"), span, label: "here".into(), advice }
}

/// Sections of a site that only shows the groups of other servers, where its file has none of their kind. The
/// buffer is for what such a site files itself, which is little.
const OF_A_CACHE: &str = r#"
buffer = [{ name = "text0", path = "text0.cyc", size = "16 MiB" }]
class = [{ name = "text", buffers = ["text0"] }]
rule = [{ class = "text" }]
access = [{ from = ["127.0.0.0/8", "::1"], read = "*", post = "*" }]
"#;

/// Returns true if a file names upstreams, and nothing about articles of its own.
fn is_cache_alone(table: &DeTable<'_>) -> bool {
    table.contains_key(Upstream::NAME)
        && ![Buffer::NAME, Class::NAME, Rule::NAME].iter().any(|name| table.contains_key(*name))
}

/// A file and its faults.
pub(super) struct ConfigDocument<'a> {
    table: &'a DeTable<'a>,
    /// Sections that count where the file has none of their kind.
    usual: Option<&'a DeTable<'a>>,
    faults: Vec<ConfigFault>,
}

impl<'a> ConfigDocument<'a> {
    fn unknown_sections(&mut self) {
        for (name, value) in self.table {
            let word = name.get_ref().as_ref();
            if table::section(word).is_some() {
                continue;
            }
            let is_section = matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_));
            let near = || nearest(word, SECTIONS.iter().map(|section| section.name)).and_then(table::section);
            let (message, label, advice) = if !is_section || table::keys().any(|key| key.word() == word) {
                (format!("`{word}` is outside any section"), "no section", home_of(word))
            } else {
                let advice = near().map(|near| format!("did you mean {}?", near.brackets()));
                (format!("there is no section `{word}`"), "unknown section", advice)
            };
            let all = || SECTIONS.iter().map(ConfigSection::brackets).collect::<Vec<_>>().join(", ");
            let advice = Some(advice.unwrap_or_else(|| format!("the sections are: {}", all())));
            self.faults.push(ConfigFault { message, span: name.span(), label: label.into(), advice });
        }
    }

    /// Returns the only section of this name; if it is absent, all its keys have their defaults.
    pub(super) fn single(&mut self, name: &'static str) -> SectionReader<'_> {
        match self.table.get(name) {
            Some(value) => self.entry(name, value),
            None => SectionReader {
                section: name,
                table: None,
                head: 0..0,
                template: None,
                is_template: false,
                document: self.table,
                faults: &mut self.faults,
            },
        }
    }

    /// Checks the values of templates, even if no peer uses them.
    fn templates(&mut self) {
        for template in templates(self.table) {
            let entry = SectionReader {
                section: Peer::NAME,
                table: Some(template),
                head: 0..0,
                template: None,
                is_template: true,
                document: self.table,
                faults: &mut self.faults,
            };
            let _draft = PeerSend::read(entry);
        }
        // A fault in a template is reported once, not for each peer.
        self.faults.sort_by(|a, b| (a.span.start, &a.message).cmp(&(b.span.start, &b.message)));
        self.faults.dedup_by(|a, b| a.span == b.span && a.message == b.message);
    }

    /// Reads all sections of this name.
    pub(super) fn each<T>(&mut self, name: &'static str, read: fn(SectionReader<'_>) -> T) -> Vec<T> {
        let given = self.table.get(name).or_else(|| self.usual.and_then(|usual| usual.get(name)));
        match given.map(|value| (value, value.get_ref().as_array())) {
            None => Vec::new(),
            Some((value, None)) => {
                self.faults.push(wrong_brackets(name, value.span()));
                Vec::new()
            }
            Some((_, Some(sections))) => {
                sections.iter().map(|section| read(self.entry(name, section))).collect()
            }
        }
    }

    fn entry(&mut self, section: &'static str, value: &'a Toml<'a>) -> SectionReader<'_> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.faults.push(wrong_brackets(section, value.span()));
        }
        for name in table.into_iter().flat_map(|table| table.keys()) {
            let word = name.get_ref().as_ref();
            let is_part = table::section(&format!("{section}.{word}")).is_some();
            let is_shared = section == SendTemplate::NAME && is_shared(word);
            if table::key(section, word).is_none() && !is_part && !is_shared {
                self.faults.push(unknown_key(section, word, name.span()));
            }
        }
        let (document, faults) = (self.table, &mut self.faults);
        SectionReader {
            section,
            table,
            head: value.span(),
            template: None,
            is_template: false,
            document,
            faults,
        }
    }
}

/// Returns true if a key is allowed in a template.
pub(super) fn is_shared(word: &str) -> bool {
    let keys = table::section(PeerSend::NAME).map(|section| section.keys.as_slice()).unwrap_or_default();
    word != "template" && keys.iter().any(|key| key.word() == word)
}

/// Returns all templates with keys that peers may share.
fn templates<'a>(document: &'a DeTable<'a>) -> impl Iterator<Item = &'a DeTable<'a>> {
    let all = document.get(SendTemplate::NAME).and_then(|value| value.get_ref().as_array());
    all.into_iter().flatten().filter_map(|template| template.get_ref().as_table())
}

fn template_name<'a>(template: &'a DeTable<'a>) -> Option<&'a str> {
    template.get("name").and_then(|value| value.get_ref().as_str())
}

fn wrong_brackets(section: &str, span: Range<usize>) -> ConfigFault {
    let message = format!("the section `{section}` is not written so");
    let advice = format!("write {} on a line of its own", brackets(section));
    ConfigFault { message, span, label: "not a section".into(), advice: Some(advice) }
}

fn unknown_key(section: &str, word: &str, span: Range<usize>) -> ConfigFault {
    let keys = table::section(section).into_iter().flat_map(|section| &section.keys);
    let known: Vec<&str> = keys.map(ConfigKey::word).collect();
    let advice = match nearest(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => home_of(word).unwrap_or_else(|| format!("its keys are: {}", known.join(", "))),
    };
    let message = format!("{} has no key `{word}`", brackets(section));
    ConfigFault { message, span, label: "unknown key".into(), advice: Some(advice) }
}

/// Returns the name with its brackets: `[site]`, `[[buffer]]`.
fn brackets(section: &str) -> String {
    table::section(section).map_or_else(|| format!("[{section}]"), ConfigSection::brackets)
}

/// Returns advice on the section to which a misplaced key belongs.
fn home_of(word: &str) -> Option<String> {
    let has = |section: &&ConfigSection| section.keys.iter().any(|key| key.word() == word);
    let homes: Vec<String> = SECTIONS.iter().filter(has).map(ConfigSection::brackets).collect();
    (!homes.is_empty()).then(|| format!("`{word}` belongs into {}", homes.join(" or ")))
}

/// A section of the file, or an absent one.
pub(super) struct SectionReader<'a> {
    section: &'static str,
    table: Option<&'a DeTable<'a>>,
    /// Beginning of the section.
    pub(super) head: Range<usize>,
    /// Source of values that are not in the section itself.
    template: Option<&'a DeTable<'a>>,
    /// The section is a template, which may be incomplete.
    is_template: bool,
    document: &'a DeTable<'a>,
    faults: &'a mut Vec<ConfigFault>,
}

impl SectionReader<'_> {
    /// Returns the value of a key, or its default.
    pub(super) fn get<K: ValueKind>(&mut self, name: &str, kind: K) -> SpannedValue<K::Value> {
        let Some(key) = table::key(self.section, name) else {
            return SpannedValue { value: None, span: self.head.clone() };
        };
        let mut given = self.table.into_iter().chain(self.template);
        if let Some(value) = given.find_map(|table| table.get(key.word())) {
            let read = kind.read(value).map_err(|wrong| self.faults.push(fault(key, wrong)));
            return SpannedValue { value: read.ok(), span: value.span() };
        }
        let value = match &key.default {
            Some(default) => DeValue::parse(default).ok().and_then(|value| kind.read(&value).ok()),
            None => kind.absent(),
        };
        if value.is_none() && !self.is_template {
            self.faults.push(ConfigFault {
                message: format!("{} lacks `{name}`", brackets(self.section)),
                span: self.head.clone(),
                label: "in this section".into(),
                advice: Some(format!("add it, for example: {}", key.example)),
            });
        }
        SpannedValue { value, span: self.head.clone() }
    }

    /// Returns a part of the section, if it is there.
    pub(super) fn part(&mut self, name: &str) -> Option<SectionReader<'_>> {
        let value = self.table?.get(name)?;
        let full = format!("{}.{name}", self.section);
        let Some(table) = value.get_ref().as_table() else {
            self.faults.push(wrong_brackets(&full, value.span()));
            return None;
        };
        for word in table.keys() {
            if table::key(self.section, &format!("{name}.{}", word.get_ref())).is_none() {
                self.faults.push(unknown_key(&full, word.get_ref(), word.span()));
            }
        }
        let template = table.get("template").and_then(|value| self.template(value));
        Some(SectionReader {
            section: self.section,
            table: Some(table),
            head: value.span(),
            template,
            is_template: false,
            document: self.document,
            faults: self.faults,
        })
    }
}

impl<'a> SectionReader<'a> {
    /// Returns the template of a name given in the file.
    fn template(&mut self, name: &Toml<'_>) -> Option<&'a DeTable<'a>> {
        let wanted = name.get_ref().as_str()?;
        let found = templates(self.document).find(|template| template_name(template) == Some(wanted));
        if found.is_none() {
            let names = templates(self.document).filter_map(template_name);
            let advice = nearest(wanted, names).map(|near| format!("did you mean `{near}`?"));
            self.faults.push(ConfigFault {
                message: format!("there is no send_template `{wanted}`"),
                span: name.span(),
                label: "this name".into(),
                advice: advice.or(Some(format!("add [[send_template]] with name = \"{wanted}\""))),
            });
        }
        found
    }
}

fn fault(key: &ConfigKey, wrong: ValueFault) -> ConfigFault {
    let path = key.path();
    let message = match wrong.reason {
        FaultReason::NotTaken(found) => format!("{path} must be {}, not {found}", key.takes),
        FaultReason::Because(reason) => format!("{path}: {reason}"),
        FaultReason::Must(what) => format!("{path} {what}"),
        FaultReason::Whole(message) => message,
    };
    let advice = wrong.advice.unwrap_or_else(|| format!("for example: {}", key.example));
    ConfigFault { message, span: wrong.span, label: "this value".into(), advice: Some(advice) }
}
