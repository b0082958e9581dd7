//! History as text: Message-IDs seen here, written for another server, and those of another server,
//! remembered here.
//!
//! Both directions stream, and their memory does not grow with the history. Only Message-IDs that can still
//! be read are written: those of stored articles, from the overview, and those in the journal. Other IDs
//! exist only as keyed hashes, which mean nothing elsewhere; they are counted.

use std::collections::HashMap;

use disk::ReadMode;
use netnews::overview_row::{self, index};
use netnews::{date, decimal};
use spool::{
    ArticleIdent, ArticleKey, ArticleRow, ChangeMaker as _, Group, ImportedIdOutcome, JournalBatch,
    JournalEvent, Spool, TailStart,
};

use super::Sink;
use super::operation::{OperatedSite, Operation};
use super::reply::{HistoryCounts, Reply};
use clap::ValueEnum;
use migrate::history::{HistoryEntry, parse};
use serde::{Deserialize, Serialize};
use site_base::clock::unix_secs;
use site_log::SiteLog;

/// Message-IDs that are remembered in one commit.
const IDS_PER_COMMIT: usize = 1024;
/// Size of the replies, in bytes.
const REPLY_BYTES: usize = 64 << 10;
/// Read size for overview, in bytes.
const ROWS_BYTES: usize = 256 << 10;
/// Maximum number of articles whose Expires header is noted.
const EXPIRES_MAX: usize = 1_000_000;
/// Maximum number of invalid lines quoted.
const QUOTED_MAX: usize = 5;

/// Format of history files that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum HistoryForm {
    /// INN 2: hashes of Message-IDs.
    Inn,
    /// C News: Message-IDs, with groups and numbers of stored articles.
    Cnews,
}

/// Remember the Message-IDs of another server's history; answered by [`Reply::HistoryImported`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryImportOperation {
    /// Lines of the history file.
    pub lines: String,
}

impl Operation for HistoryImportOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        import(&site.log(), &self.lines, sink)
    }
}

/// Export history as text; answered by [`Reply::Text`] with many lines each, and
/// [`Reply::HistoryExported`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryExportOperation {
    /// Format of the lines.
    pub form: HistoryForm,
}

impl Operation for HistoryExportOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        export(site.spool(), self.form, sink)
    }
}

/// Returns the text after the server's name in the Xref field of a row.
fn places(field: &[u8]) -> &[u8] {
    let value = field.strip_prefix(b"Xref: ").unwrap_or(field).trim_ascii();
    let end = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
    value.get(end..).unwrap_or_default()
}

/// Returns the groups and numbers of this text.
fn pairs(places: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    places.split(|byte| *byte == b' ').filter_map(|word| {
        let (name, number) = word.split_at_checked(memchr::memrchr(b':', word)?)?;
        Some((name, decimal::parse_decimal(number.get(1..)?)?))
    })
}

/// Remembers the Message-IDs in `lines`.
fn import(log: &SiteLog, lines: &str, sink: &mut Sink<'_>) -> bool {
    let now = unix_secs();
    let mut counts = HistoryCounts::default();
    let mut ids: Vec<(ArticleIdent<'_>, u64)> = Vec::with_capacity(IDS_PER_COMMIT);
    let mut lines = lines.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    loop {
        let line = lines.next();
        if ids.len() >= IDS_PER_COMMIT || line.is_none() {
            match log.remember_moved(&ids) {
                Ok(fates) => fates.iter().for_each(|fate| *of(&mut counts, *fate) += 1),
                Err(trouble) => {
                    sink(Reply::Error(trouble.to_string()));
                    return false;
                }
            }
            ids.clear();
        }
        let Some(line) = line else { break };
        match parse(line.as_bytes()) {
            Some(line) => ids.push((line.id, line.arrived.unwrap_or(now))),
            None => {
                counts.damaged += 1;
                if counts.quoted.len() < QUOTED_MAX {
                    counts.quoted.push(line.chars().take(100).collect());
                }
            }
        }
    }
    if let Err(trouble) = log.spool().settle() {
        sink(Reply::Error(trouble.to_string()));
        return false;
    }
    sink(Reply::HistoryImported(counts));
    true
}

fn of(counts: &mut HistoryCounts, fate: ImportedIdOutcome) -> &mut u64 {
    match fate {
        ImportedIdOutcome::Remembered => &mut counts.remembered,
        ImportedIdOutcome::Known => &mut counts.known,
        ImportedIdOutcome::Old => &mut counts.old,
    }
}

/// Replies a line for each Message-ID that can be named.
fn export(spool: &Spool, form: HistoryForm, sink: &mut Sink<'_>) -> bool {
    match Export::new(spool, form, sink).run() {
        Ok(()) => true,
        Err(error) => {
            sink(Reply::Error(format!("cannot read what is stored: {error}")));
            false
        }
    }
}

/// An export in progress.
struct Export<'a, 'b> {
    spool: &'a Spool,
    form: HistoryForm,
    sink: &'a mut Sink<'b>,
    lines: String,
    named: u64,
    /// Number of history entries at the start.
    entries: u64,
    /// Expiry times of articles with an Expires header, as far as the journal still has them.
    expires: HashMap<ArticleKey, u32>,
}

impl<'a, 'b> Export<'a, 'b> {
    fn new(spool: &'a Spool, form: HistoryForm, sink: &'a mut Sink<'b>) -> Self {
        Self {
            spool,
            form,
            sink,
            lines: String::new(),
            named: 0,
            entries: spool.history_entries(),
            expires: HashMap::new(),
        }
    }

    fn run(mut self) -> std::io::Result<()> {
        // Articles that arrive from here on are named from the journal.
        let begun = self.spool.journal().mark(TailStart::Now)?.position;
        self.note_expires()?;
        for group in self.spool.groups().iter() {
            self.group(group)?;
        }
        self.journal(begun)?;
        self.flush();
        self.progress(self.entries.max(1));
        let (named, unnamed) = (self.named, self.entries.saturating_sub(self.named));
        (self.sink)(Reply::HistoryExported { named, unnamed });
        Ok(())
    }

    /// Exports the living articles of a group that are in no earlier group by their Xref.
    fn group(&mut self, group: &Group) -> std::io::Result<()> {
        let Some(marks) = self.spool.marks(group.id) else { return Ok(()) };
        let mut rows = Vec::new();
        let mut from = Some(marks.low);
        while let Some(number) = from.filter(|number| *number <= marks.high) {
            rows.clear();
            let read = self.spool.over(group.id, number..=marks.high, ROWS_BYTES, ReadMode::Wait, &mut rows);
            from = read.map_err(|error| std::io::Error::other(error.to_string()))?;
            rows.split_inclusive(|byte| *byte == b'\n').for_each(|row| self.row(group, row));
        }
        Ok(())
    }

    fn row(&mut self, group: &Group, row: &[u8]) {
        let field = |at| overview_row::field(row, at);
        let Some(message_id) = field(index::MESSAGE_ID) else { return };
        let places = field(index::XREF).map(places).unwrap_or_default();
        let is_here = |(name, number): &(&[u8], u64)| {
            self.spool.group_id(name).is_some_and(|id| self.spool.exists(id, *number))
        };
        let first = pairs(places).find(is_here);
        if first.is_some_and(|(name, _)| name != group.name.as_bytes()) {
            return;
        }
        let key = self.spool.key(message_id);
        let Some((arrived, true)) = self.spool.seen(&key) else { return };
        let posted = field(index::DATE).and_then(date::parse);
        let expires = self.expires.get(&key).copied().unwrap_or(0);
        let bytes = field(index::BYTES).and_then(decimal::parse_decimal);
        self.put(&HistoryEntry { message_id, arrived, expires, posted, bytes, places });
    }

    /// Reads from the journal the expiry times, which the overview does not have.
    fn note_expires(&mut self) -> std::io::Result<()> {
        let mut tail = self.spool.journal().tail("history export", TailStart::Oldest)?;
        let mut batch = JournalBatch::default();
        loop {
            tail.next(&mut batch)?;
            if batch.is_empty() {
                return Ok(());
            }
            for (_, event) in batch.events() {
                if let JournalEvent::Article(article) = event
                    && article.expires > 0
                    && self.expires.len() < EXPIRES_MAX
                {
                    self.expires.insert(article.key, article.expires);
                }
            }
        }
    }

    /// Exports the articles that are only in the journal.
    fn journal(&mut self, begun: u64) -> std::io::Result<()> {
        let mut tail = self.spool.journal().tail("history export", TailStart::Oldest)?;
        let mut batch = JournalBatch::default();
        loop {
            tail.next(&mut batch)?;
            if batch.is_empty() {
                return Ok(());
            }
            for (position, event) in batch.events() {
                if let JournalEvent::Article(article) = event {
                    self.article(&article, position >= begun);
                }
            }
        }
    }

    fn article(&mut self, article: &ArticleRow<'_>, is_new: bool) {
        let mut numbers = Vec::new();
        article.numbers(&mut numbers);
        let lives = numbers.iter().any(|(group, number)| self.spool.exists(*group, *number));
        if lives && !is_new {
            return;
        }
        let Some((arrived, _)) = self.spool.seen(&article.key) else { return };
        let posted = article.fields.split(|byte| *byte == b'\t').nth(2).and_then(date::parse);
        let (message_id, expires) = (article.message_id, article.expires);
        self.put(&HistoryEntry { message_id, arrived, expires, posted, bytes: None, places: b"" });
    }

    fn put(&mut self, seen: &HistoryEntry<'_>) {
        match self.form {
            HistoryForm::Inn => seen.append_inn(&mut self.lines),
            HistoryForm::Cnews => seen.append_cnews(&mut self.lines),
        }
        self.named += 1;
        if self.lines.len() >= REPLY_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        let lines = lines.trim_end_matches('\n');
        if !lines.is_empty() {
            (self.sink)(Reply::Text(lines.to_owned()));
            self.progress(self.named.min(self.entries));
        }
    }

    fn progress(&mut self, done: u64) {
        let (what, total) = ("writing history".to_owned(), self.entries.max(1));
        (self.sink)(Reply::Progress { what, done, total });
    }
}
