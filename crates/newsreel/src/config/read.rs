//! From the text of a file to a [`Config`], or to everything that is wrong with it.
//!
//! Three passes, each of which goes on after a fault: TOML's grammar (whose faults are reported alone, since what
//! follows a broken line cannot be trusted), keys and values against the table of `keys`, and `checks`.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::draft::{
    At, BufferDraft, ClassDraft, Draft, ExpireDraft, LimitsDraft, PeerDraft, RuleDraft, SiteDraft, TlsDraft,
};
use super::faults::{ConfigError, Fault, nearest};
use super::keys::{self, Absent, Key, SECTIONS};
use super::values::{self, Wrong};
use super::{Config, checks};

/// Reads and checks a file.
pub fn load(file: &Path) -> Result<Config, ConfigError> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| ConfigError::Unreadable { file: file.to_owned(), error })?;
    parse(&text, file)
}

/// Reads and checks `text`; `file` is its name and what relative paths start from.
pub fn parse(text: &str, file: &Path) -> Result<Config, ConfigError> {
    let faulty = |mut faults: Vec<Fault>| {
        faults.sort_by_key(|fault| (fault.span.start, fault.span.end));
        ConfigError::Faulty { file: file.to_owned(), text: text.to_owned(), faults }
    };
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(faulty(errors.iter().map(|error| grammar_fault(text, error)).collect()));
    }
    let mut reader = Reader { faults: Vec::new() };
    let draft = reader.document(document.get_ref());
    let end = text.trim_end().len();
    checks::check(&draft, end..end, &mut reader.faults);
    if !reader.faults.is_empty() {
        return Err(faulty(reader.faults));
    }
    draft.finish(file).ok_or_else(|| {
        faulty(vec![Fault {
            message: "a number is too large for this machine".into(),
            span: 0..0,
            label: String::new(),
            advice: None,
        }])
    })
}

/// The directory of the spool that `text` names, whatever else is wrong with it; `file` is its name. Where it names none
/// that can be read, the default.
pub fn data_in(text: &str, file: &Path) -> PathBuf {
    let (document, _) = DeTable::parse_recoverable(text);
    let mut reader = Reader { faults: Vec::new() };
    let site = reader.single(document.get_ref(), "site");
    let data = reader.site(&site).data.value.unwrap_or_else(|| ".".into());
    super::draft::data_dir(file, &data)
}

fn grammar_fault(text: &str, error: &toml::de::Error) -> Fault {
    let span = error.span().unwrap_or(text.len()..text.len());
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    let advice = if message.contains("must be quoted") || message.contains("expected") {
        Some("texts, sizes and times stand in quotes: size = \"2 GiB\"".into())
    } else if message.contains("duplicate") {
        Some("each key may be set once in a section; sections in [[double brackets]] may be repeated".into())
    } else {
        None
    };
    Fault { message: format!("not TOML: {message}"), span, label: "here".into(), advice }
}

/// A section of the file, or an absent one, of which all keys have their defaults.
pub(super) struct Entry<'a> {
    section: &'static str,
    table: Option<&'a DeTable<'a>>,
    pub(super) head: Range<usize>,
}

pub(super) struct Reader {
    faults: Vec<Fault>,
}

impl Reader {
    fn document<'a>(&mut self, document: &'a DeTable<'a>) -> Draft {
        self.unknown_sections(document);
        let site = self.single(document, "site");
        let site = self.site(&site);
        let tls = self.single(document, "tls");
        let tls = self.tls(&tls);
        let limits = self.single(document, "limits");
        let limits = self.limits(&limits);
        let auth = self.single(document, "auth");
        let posting = self.single(document, "posting");
        let posting = self.posting(&posting);
        let cancel = self.single(document, "cancel");
        let cancel = self.cancel(&cancel);
        let moderation = self.single(document, "moderation");
        let moderation = self.moderation(&moderation);
        Draft {
            site,
            tls,
            limits,
            buffers: self.each(document, "buffer", Self::buffer),
            classes: self.each(document, "class", Self::class),
            rules: self.each(document, "rule", Self::rule),
            expire: self.each(document, "expire", Self::expire),
            peers: self.each(document, "peer", Self::peer),
            auth: self.auth(&auth),
            authenticators: self.each(document, "authenticator", Self::authenticator),
            access: self.each(document, "access", Self::access),
            posting,
            cancel,
            moderation,
            moderators: self.each(document, "moderator", Self::moderator),
        }
    }

    fn fault(&mut self, span: Range<usize>, message: String, label: &str, advice: Option<String>) {
        self.faults.push(Fault { message, span, label: label.into(), advice });
    }

    fn unknown_sections(&mut self, document: &DeTable<'_>) {
        for (name, value) in document {
            let word = name.get_ref().as_ref();
            if keys::section(word).is_some() {
                continue;
            }
            if !matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_))
                || keys::KEYS.iter().any(|key| key.name == word)
            {
                let advice = home_of(word).unwrap_or_else(sections_text);
                self.fault(
                    name.span(),
                    format!("`{word}` stands outside of any section"),
                    "no section",
                    Some(advice),
                );
                continue;
            }
            let advice = match nearest(word, SECTIONS.iter().map(|section| section.name)) {
                Some(near) => format!("did you mean {}?", brackets(near)),
                None => sections_text(),
            };
            self.fault(name.span(), format!("there is no section `{word}`"), "unknown section", Some(advice));
        }
    }

    fn single<'a>(&mut self, document: &'a DeTable<'a>, section: &'static str) -> Entry<'a> {
        match document.get(section) {
            Some(value) => match value.get_ref() {
                DeValue::Table(table) => self.entry(section, table, value.span()),
                _ => {
                    self.wrong_brackets(section, value.span());
                    Entry { section, table: None, head: value.span() }
                }
            },
            None => Entry { section, table: None, head: 0..0 },
        }
    }

    fn each<'a, T>(
        &mut self,
        document: &'a DeTable<'a>,
        section: &'static str,
        read: fn(&mut Self, &Entry<'a>) -> T,
    ) -> Vec<T> {
        let Some(value) = document.get(section) else { return Vec::new() };
        let DeValue::Array(elements) = value.get_ref() else {
            self.wrong_brackets(section, value.span());
            return Vec::new();
        };
        let mut read_entries = Vec::new();
        for element in elements.iter() {
            match element.get_ref() {
                DeValue::Table(table) => {
                    let entry = self.entry(section, table, element.span());
                    read_entries.push(read(self, &entry));
                }
                _ => self.wrong_brackets(section, element.span()),
            }
        }
        read_entries
    }

    fn wrong_brackets(&mut self, section: &str, span: Range<usize>) {
        let advice = format!("write {} on a line of its own", brackets(section));
        self.fault(span, format!("the section `{section}` is not written so"), "not a section", Some(advice));
    }

    fn entry<'a>(&mut self, section: &'static str, table: &'a DeTable<'a>, head: Range<usize>) -> Entry<'a> {
        for name in table.keys() {
            let word = name.get_ref().as_ref();
            if keys::key(section, word).is_some() {
                continue;
            }
            let known: Vec<&str> = keys::keys_of(section).map(|key| key.name).collect();
            let advice = match nearest(word, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => home_of(word).unwrap_or_else(|| format!("its keys are: {}", known.join(", "))),
            };
            let message = format!("{} has no key `{word}`", brackets(section));
            self.fault(name.span(), message, "unknown key", Some(advice));
        }
        Entry { section, table: Some(table), head }
    }

    /// The value of a key that must be there or has a default.
    pub(super) fn get<T>(
        &mut self,
        entry: &Entry<'_>,
        name: &str,
        convert: fn(&Key, &Spanned<DeValue<'_>>) -> Result<T, Wrong>,
    ) -> At<T> {
        let Some(key) = keys::key(entry.section, name) else {
            return At { value: None, span: entry.head.clone() };
        };
        if let Some(value) = entry.table.and_then(|table| table.get(name)) {
            return self.converted(key, value, convert);
        }
        let default = match key.absent {
            Absent::Value(text) => text.to_owned(),
            Absent::HostName => format!("{:?}", host_name()),
            Absent::Refused | Absent::Nothing => {
                let message = format!("{} lacks `{name}`", brackets(entry.section));
                let advice = Some(format!("add it, for example: {}", key.example));
                self.fault(entry.head.clone(), message, "in this section", advice);
                return At { value: None, span: entry.head.clone() };
            }
        };
        let value = DeValue::parse(&default).ok().and_then(|value| convert(key, &value).ok());
        At { value, span: entry.head.clone() }
    }

    /// The value of a key that may be absent.
    pub(super) fn opt<T>(
        &mut self,
        entry: &Entry<'_>,
        name: &str,
        convert: fn(&Key, &Spanned<DeValue<'_>>) -> Result<T, Wrong>,
    ) -> At<Option<T>> {
        let written = keys::key(entry.section, name).zip(entry.table.and_then(|table| table.get(name)));
        match written {
            Some((key, value)) => {
                let found = self.converted(key, value, convert);
                At { value: found.value.map(Some), span: found.span }
            }
            None => At { value: Some(None), span: entry.head.clone() },
        }
    }

    fn converted<T>(
        &mut self,
        key: &Key,
        value: &Spanned<DeValue<'_>>,
        convert: fn(&Key, &Spanned<DeValue<'_>>) -> Result<T, Wrong>,
    ) -> At<T> {
        match convert(key, value) {
            Ok(good) => At { value: Some(good), span: value.span() },
            Err(wrong) => {
                self.fault(wrong.span.clone(), wrong.message, "this value", wrong.advice);
                At { value: None, span: wrong.span }
            }
        }
    }

    fn site(&mut self, entry: &Entry<'_>) -> SiteDraft {
        SiteDraft {
            path_identity: self.get(entry, "path_identity", values::path_identity),
            organization: self.opt(entry, "organization", values::text),
            listen: self.get(entry, "listen", values::host_ports),
            tls_listen: self.get(entry, "tls_listen", values::host_ports),
            data: self.get(entry, "data", values::text),
            lists: self.get(entry, "lists", values::text),
            durability: self.get(entry, "durability", values::durability),
            max_age_days: self.get(entry, "max_age_days", values::days_or_none),
            article_bytes_max: self.get(entry, "article_bytes_max", values::size),
            remember_days: self.get(entry, "remember_days", values::integer),
            unknown_groups: self.get(entry, "unknown_groups", values::choice),
            distributions: self.get(entry, "distributions", values::distributions),
            journal_keep_bytes: self.get(entry, "journal_keep_bytes", values::size),
            compress_overview_after: self.get(entry, "compress_overview_after", values::span),
            log_level: self.get(entry, "log_level", values::choice),
            log_format: self.get(entry, "log_format", values::choice),
        }
    }

    fn tls(&mut self, entry: &Entry<'_>) -> TlsDraft {
        TlsDraft {
            certificate: self.get(entry, "certificate", values::paths),
            key: self.get(entry, "key", values::paths),
            client_ca: self.opt(entry, "client_ca", values::text),
        }
    }

    fn limits(&mut self, entry: &Entry<'_>) -> LimitsDraft {
        LimitsDraft {
            connections_max: self.get(entry, "connections_max", values::integer),
            connections_per_address_max: self.get(entry, "connections_per_address_max", values::integer),
            idle_timeout: self.get(entry, "idle_timeout", values::span),
            command_timeout: self.get(entry, "command_timeout", values::span),
            write_timeout: self.get(entry, "write_timeout", values::span),
            receive_bytes_from_peers_max: self.get(entry, "receive_bytes_from_peers_max", values::size),
            receive_bytes_from_posters_max: self.get(entry, "receive_bytes_from_posters_max", values::size),
            receive_bytes_per_address_max: self.get(entry, "receive_bytes_per_address_max", values::size),
            receive_bytes_per_user_max: self.get(entry, "receive_bytes_per_user_max", values::size),
        }
    }

    fn buffer(&mut self, entry: &Entry<'_>) -> BufferDraft {
        BufferDraft {
            name: self.get(entry, "name", values::name),
            path: self.get(entry, "path", values::text),
            size: self.opt(entry, "size", values::size),
            block: self.get(entry, "block", values::size),
            retired: self.get(entry, "retired", values::switch),
        }
    }

    fn class(&mut self, entry: &Entry<'_>) -> ClassDraft {
        ClassDraft {
            head: entry.head.clone(),
            name: self.get(entry, "name", values::name),
            method: self.get(entry, "method", values::choice),
            buffers: self.get(entry, "buffers", values::names),
            order: self.get(entry, "order", values::choice),
            size: self.get(entry, "size", values::size),
            compress: self.get(entry, "compress", values::choice),
            compress_level: self.get(entry, "compress_level", values::integer),
            path: self.opt(entry, "path", values::text),
            file_size: self.get(entry, "file_size", values::size),
            files_max: self.get(entry, "files_max", values::integer),
            line_ends: self.get(entry, "line_ends", values::choice),
            keep_at_least: self.opt(entry, "keep_at_least", values::span),
            overflow: self.opt(entry, "overflow", values::name),
            keep_target: self.opt(entry, "keep_target", values::span),
        }
    }

    fn expire(&mut self, entry: &Entry<'_>) -> ExpireDraft {
        ExpireDraft {
            groups: self.opt(entry, "groups", values::wildmat),
            class: self.opt(entry, "class", values::name),
            keep: self.opt(entry, "keep", values::span),
            keep_min: self.opt(entry, "keep_min", values::span),
            keep_max: self.opt(entry, "keep_max", values::span),
        }
    }

    fn rule(&mut self, entry: &Entry<'_>) -> RuleDraft {
        RuleDraft {
            head: entry.head.clone(),
            class: self.get(entry, "class", values::name),
            groups: self.opt(entry, "groups", values::wildmat),
            group_match: self.get(entry, "match", values::choice),
            larger_than: self.opt(entry, "larger_than", values::size),
            smaller_than: self.opt(entry, "smaller_than", values::size),
            crossposts_at_least: self.opt(entry, "crossposts_at_least", values::integer),
            from: self.opt(entry, "from", values::wildmat),
            path: self.opt(entry, "path", values::pattern),
            header: self.opt(entry, "header", values::headers),
            verdict: self.opt(entry, "verdict", values::pattern),
            origin: self.opt(entry, "origin", values::pattern),
            expires_within: self.opt(entry, "expires_within", values::span),
            expires_beyond: self.opt(entry, "expires_beyond", values::span),
        }
    }

    fn peer(&mut self, entry: &Entry<'_>) -> PeerDraft {
        PeerDraft {
            name: self.get(entry, "name", values::text),
            addresses: self.get(entry, "addresses", values::networks_or_none),
            certificate: self.get(entry, "certificate", values::certificates),
            tls: self.get(entry, "tls", values::choice),
            user: self.opt(entry, "user", values::text),
            accept: self.get(entry, "accept", values::wildmat),
            distributions: self.get(entry, "distributions", values::distributions),
            max_connections: self.get(entry, "max_connections", values::integer),
            streaming: self.get(entry, "streaming", values::switch),
        }
    }
}

/// `[site]`, `[[buffer]]`.
fn brackets(section: &str) -> String {
    match keys::section(section) {
        Some(row) if row.repeated => format!("[[{section}]]"),
        _ => format!("[{section}]"),
    }
}

fn sections_text() -> String {
    let all: Vec<String> = SECTIONS.iter().map(|section| brackets(section.name)).collect();
    format!("the sections are: {}", all.join(", "))
}

/// Where a key that stands in the wrong place belongs.
fn home_of(word: &str) -> Option<String> {
    let homes: Vec<String> =
        keys::KEYS.iter().filter(|key| key.name == word).map(|key| brackets(key.section)).collect();
    (!homes.is_empty()).then(|| format!("`{word}` belongs into {}", homes.join(" or ")))
}

/// The machine's name, if it can be a path identity.
pub fn host_name() -> String {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy().into_owned();
    if values::is_path_identity(&name) { name } else { "localhost".into() }
}
