//! Writing a snapshot of an open spool.
//!
//! History is read from its first record to its last, without any lock, while articles arrive and leave: each
//! record becomes an article or a remembered id. What has left since is written without the lock, too; under
//! it follow what has left since then, the groups, what is hidden, notes, the digest. Meanwhile history keeps
//! its records, also those that are forgotten. A snapshot that was interrupted is continued after its last
//! whole frame before what has left, as long as the journal still has what happened since its beginning.

use super::entry::{SnapshotEntry, SnapshotGroup};
use super::file::{SnapshotReader, SnapshotWriter};
use crate::index::fold::SharedIndexes;
use crate::index::groups::{Group, GroupTable};
use crate::open::paths::SpoolPaths;
use crate::read::article::ArticleBuf;
use crate::spool::readers::JournalReaders;
use crate::write::commit::SpoolWriter;
use crate::write::locked::LockedWriter;
use disk::{Progress, ReadMode};
use netnews::Article;
use spool_base::codec::ByteReader;
use spool_base::error::{SpoolError, SpoolTrouble, TroubleKind};
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::note::NoteKind;
use spool_history::{HistoryHold, HistoryLookup, HistoryRecord};
use spool_journal::{JournalReader, JournalRow};
use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The file would have such an article with its old numbers.
const CAME_AGAIN: &str =
    "an article was forgotten and has come again meanwhile; remove the file and begin again";
/// The journal alone says which articles have left some of their groups, and which ids were forgotten.
const ROWS_MISSING: &str =
    "the journal does not have everything since the beginning; remove the file and begin again";
/// Records of history that are read together.
const RECORDS_TOGETHER: u64 = 1_024;
/// Records that may be left for the end, under the writer's lock.
const LEFT_FOR_THE_END: u64 = 256;

/// Result of a snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotReport {
    /// Articles in the file.
    pub articles: u64,
    /// Message-IDs without an article in the file.
    pub ids: u64,
    /// Articles that could not be read, whose Message-IDs are in the file, and damaged records of history.
    pub unreadable: u64,
    /// Articles that are in no group any more, of classes that keep; their Message-IDs are in the file.
    pub in_no_group: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Whether an interrupted snapshot was continued.
    pub is_continued: bool,
}

/// Numbers as bits.
#[derive(Default)]
struct RecordBits {
    words: Vec<u64>,
    /// First number.
    from: u64,
}

impl RecordBits {
    fn insert(&mut self, number: u64) {
        let at = number.saturating_sub(self.from);
        let word = (at / 64) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        if let Some(word) = self.words.get_mut(word) {
            *word |= 1 << (at % 64);
        }
    }

    fn all(&self) -> impl Iterator<Item = u64> + '_ {
        (self.from..).step_by(64).zip(&self.words).flat_map(|(first, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first + bit)
        })
    }
}

/// A snapshot in progress.
struct SnapshotRun<'a> {
    spool: Snapshots<'a>,
    out: SnapshotWriter,
    /// Position of the journal at the beginning.
    position: u64,
    /// Position of the journal up to which the file has what has left.
    left_upto: u64,
    /// Keeps the records of history that are in the file.
    history: HistoryHold<'a>,
    /// Next record of history.
    next: u64,
    /// Records whose article is in the file.
    articles: RecordBits,
    /// Records whose Message-ID is in the file without an article, by key: few are forgotten.
    ids: u64,
    /// Groups that the file names, with their ids: another one may get the name of one that is removed.
    groups: HashMap<String, GroupId>,
    /// Message-IDs that were forgotten one by one since the beginning.
    forgotten: Vec<ArticleKey>,
    /// Time before which the Message-IDs had arrived that were forgotten since the beginning.
    ids_before: u32,
    buf: ArticleBuf,
    report: SnapshotReport,
}

/// Snapshots of an open spool; see the module's documentation.
#[derive(Debug, Clone, Copy)]
pub struct Snapshots<'s> {
    journal: JournalReaders<'s>,
    shared: &'s SharedIndexes,
    writer: &'s LockedWriter,
}

impl<'s> Snapshots<'s> {
    pub(crate) fn new(
        journal: JournalReaders<'s>,
        shared: &'s SharedIndexes,
        writer: &'s LockedWriter,
    ) -> Self {
        Self { journal, shared, writer }
    }

    /// Writes a snapshot to the file at `path`, a name that nothing has; meanwhile it is called `path.part`,
    /// and one of that name is continued if it is of this spool. The file has the spool's secret, so only its
    /// owner can read it. Ends with an error when `is_over` returns true: the next call continues.
    pub fn write(
        &self,
        path: &Path,
        is_over: &dyn Fn() -> bool,
        progress: &dyn Progress,
    ) -> Result<SnapshotReport, SpoolError> {
        self.write_file(path, true, is_over, progress)
    }

    /// Like [`write`](Self::write), for a file that is needed until the machine is started again: it is not
    /// synced.
    pub fn write_for_now(&self, path: &Path) -> Result<SnapshotReport, SpoolError> {
        self.write_file(path, false, &|| false, &())
    }

    fn write_file(
        &self,
        path: &Path,
        is_durable: bool,
        is_over: &dyn Fn() -> bool,
        progress: &dyn Progress,
    ) -> Result<SnapshotReport, SpoolError> {
        let io = || SpoolError::io("write", path);
        let (part, disk) = (part_of(path), &self.shared.disk);
        let is_free = || match disk.has_name(path)? {
            true => Err(io::Error::new(ErrorKind::AlreadyExists, "it exists; choose another name")),
            false => Ok(()),
        };
        is_free().map_err(io())?;
        let _claim = self.journal.pin("snapshot").map_err(io())?;
        let mut run = self.started(&part).map_err(io())?;
        run.run(is_over, progress).map_err(|error| match error {
            SnapshotFault::Io(error) => io()(error),
            SnapshotFault::Trouble(trouble) => SpoolError::Unfit(trouble.to_string()),
        })?;
        let mut report = run.report;
        let (file, bytes) = run.out.finish().map_err(io())?;
        report.bytes = bytes;
        if is_durable {
            file.sync().map_err(io())?;
        }
        is_free().map_err(io())?;
        disk.rename(&part, path).map_err(io())?;
        if is_durable {
            disk.sync_dir(path.parent().unwrap_or(Path::new("."))).map_err(io())?;
        }
        Ok(report)
    }

    /// Continues the snapshot in the file `part`, or begins one.
    fn started(&self, part: &Path) -> io::Result<SnapshotRun<'s>> {
        let disk = &*self.shared.disk;
        let mut run = self.run_of(SnapshotWriter::open(disk, part)?);
        if self.is_continued(&mut run, part)? {
            return Ok(run);
        }
        // In a new file, which its owner alone can read: the old one may be of any kind.
        disk.remove(part)?;
        drop(run);
        let mut run = self.run_of(SnapshotWriter::open(disk, part)?);
        run.out.begin()?;
        // Rows are written whole while the writer is held.
        let time = {
            let mut writer = self.writer.lock();
            writer.let_all_go()?;
            run.position = writer.journal.end();
            run.left_upto = run.position;
            u32::try_from(writer.folds.time).unwrap_or(u32::MAX)
        };
        let (secret, position) = (*self.shared.hasher.secret(), run.position);
        SnapshotEntry::Begin { secret, position, time }.put(&mut run.out.content);
        Ok(run)
    }

    fn run_of(&self, out: SnapshotWriter) -> SnapshotRun<'s> {
        let history = self.shared.history.hold();
        let first = history.first();
        SnapshotRun {
            spool: *self,
            out,
            position: 0,
            left_upto: 0,
            history,
            next: first,
            articles: RecordBits { from: first, ..RecordBits::default() },
            ids: 0,
            groups: HashMap::new(),
            forgotten: Vec::new(),
            ids_before: 0,
            buf: ArticleBuf::default(),
            report: SnapshotReport::default(),
        }
    }

    /// Takes up what the file `part` has; returns false if that is not of this spool, or cannot be continued.
    fn is_continued(&self, run: &mut SnapshotRun<'s>, part: &Path) -> io::Result<bool> {
        let mut reader = match SnapshotReader::open(&*self.shared.disk, part) {
            Ok(reader) => reader,
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => return Ok(false),
            Err(e) => return Err(e),
        };
        let (mut end, mut last, mut begun, mut names) = (0, None, false, HashSet::new());
        loop {
            let frame = match reader.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                // The frame that was being written.
                Err(e) if e.kind() == ErrorKind::InvalidData => break,
                Err(e) => return Err(e),
            };
            let mut entries = ByteReader(&frame.entries);
            // Later changes begin a frame. They are looked for again.
            if SnapshotEntry::read(&mut ByteReader(&frame.entries)).is_some_and(|first| is_later(&first)) {
                break;
            }
            while !entries.is_empty() {
                match SnapshotEntry::read(&mut entries) {
                    Some(SnapshotEntry::Begin { secret, position, .. }) => {
                        (begun, run.position) = (secret == *self.shared.hasher.secret(), position);
                    }
                    Some(SnapshotEntry::Group(group)) => {
                        names.insert(String::from_utf8_lossy(group.name).into_owned());
                    }
                    // An article that is forgotten meanwhile cannot be taken back, and a rebuild gives others
                    // its record.
                    Some(SnapshotEntry::Article { record, wire, .. })
                        if record < run.articles.from || !is_of(&run.history, record, self.key_of(wire)) =>
                    {
                        return Ok(false);
                    }
                    Some(SnapshotEntry::Remember { record, key, .. })
                        if !is_of(&run.history, record, Some(key)) =>
                    {
                        return Ok(false);
                    }
                    Some(SnapshotEntry::Article { record, .. }) => {
                        run.articles.insert(record);
                        last = Some(record);
                        run.report.articles += 1;
                    }
                    Some(SnapshotEntry::Remember { record, .. }) => {
                        last = Some(record);
                        run.ids += 1;
                    }
                    // Added again meanwhile, and known to be the later one.
                    Some(SnapshotEntry::GroupRemoved { .. }) => {}
                    // The end was being written.
                    _ => return Ok(false),
                }
            }
            end = frame.end;
        }
        let journal = SpoolPaths::new(&self.shared.config.dir).journal;
        let oldest = JournalReader::open(&self.shared.disk, &journal, None)?.oldest();
        let known = self.shared.history.checkpoint();
        let is_here = run.position <= self.writer.lock().journal.end()
            && oldest.is_some_and(|oldest| oldest <= run.position)
            && last.is_none_or(|last| last < known.next_record);
        if !begun || !is_here {
            return Ok(false);
        }
        let table = self.shared.groups.snapshot();
        let named = names.iter().map(|name| Some((name.clone(), table.id(name.as_bytes())?)));
        run.groups = match named.collect() {
            Some(groups) => groups,
            None => return Ok(false),
        };
        if self.has_lost_a_group(run)? {
            return Ok(false);
        }
        run.left_upto = run.position;
        run.next = last.map_or(known.first_record, |last| last + 1).max(known.first_record);
        run.out.continue_at(end)?;
        run.report.is_continued = true;
        Ok(true)
    }

    /// Returns whether a group that the file names was removed since the beginning, or the journal does not
    /// say.
    fn has_lost_a_group(&self, run: &SnapshotRun<'_>) -> io::Result<bool> {
        let end = self.writer.lock().journal.end();
        let mut is_lost = false;
        let are_whole = self.each_row(run.position, end, &mut |row| {
            is_lost |= matches!(&row, JournalRow::GroupRemoved { name, .. } if run.groups.contains_key(name));
            Ok(())
        })?;
        Ok(is_lost || !are_whole)
    }

    /// Visits the rows of the journal from a position up to its end at some time. Returns false if one of
    /// them is missing.
    fn each_row(
        &self,
        from: u64,
        to: u64,
        visit: &mut dyn FnMut(JournalRow<'_>) -> io::Result<()>,
    ) -> io::Result<bool> {
        if from == to {
            return Ok(true);
        }
        let journal = SpoolPaths::new(&self.shared.config.dir).journal;
        let mut rows = JournalReader::open_to(&self.shared.disk, &journal, from, to)?;
        if !rows.is_open() {
            return Ok(false);
        }
        while let Some((_, payload)) = rows.next_row()? {
            match JournalRow::decode(payload) {
                Some(row) => visit(row)?,
                None => return Ok(false),
            }
        }
        Ok(rows.position() == to)
    }

    fn key_of(&self, wire: &[u8]) -> Option<ArticleKey> {
        let article = Article::parse(wire).ok()?;
        Some(self.shared.hasher.key(article.message_id()?.as_bytes()))
    }
}

/// Reason why a snapshot cannot be written.
enum SnapshotFault {
    Io(io::Error),
    Trouble(SpoolTrouble),
}

impl From<io::Error> for SnapshotFault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl SnapshotRun<'_> {
    fn run(&mut self, is_over: &dyn Fn() -> bool, progress: &dyn Progress) -> Result<(), SnapshotFault> {
        let spool = self.spool;
        let first = self.next;
        progress.start("writing the snapshot", spool.shared.history.next_record() - first);
        self.most_records(first, is_over, progress)?;
        // Later changes begin a frame, before which an interrupted snapshot is continued.
        self.out.write()?;
        let end = spool.writer.lock().journal.end();
        self.left(end)?;
        self.most_records(first, is_over, progress)?;
        let mut writer = spool.writer.lock_at_position();
        if let Some(trouble) = &writer.folds.failed {
            let text = format!("the indexes are not whole: {trouble}");
            return Err(SnapshotFault::Trouble(SpoolTrouble::new(TroubleKind::Io, text)));
        }
        writer.let_all_go()?;
        self.records(spool.shared.history.next_record())?;
        self.end(&mut writer)?;
        drop(writer);
        progress.finish();
        Ok(())
    }

    /// Writes records until few are left.
    fn most_records(
        &mut self,
        first: u64,
        is_over: &dyn Fn() -> bool,
        progress: &dyn Progress,
    ) -> Result<(), SnapshotFault> {
        let history = &self.spool.shared.history;
        while history.next_record() - self.next > LEFT_FOR_THE_END {
            let end = history.next_record().min(self.next + RECORDS_TOGETHER);
            self.records(end)?;
            if is_over() {
                let ended = io::Error::new(ErrorKind::Interrupted, "interrupted; the next call continues");
                return Err(ended.into());
            }
            progress.step(self.next - first);
        }
        Ok(())
    }

    /// Writes the records up to one, except those that are forgotten.
    fn records(&mut self, end: u64) -> io::Result<()> {
        let shared = self.spool.shared;
        let table = shared.groups.snapshot();
        let first = self.next.max(shared.history.checkpoint().first_record);
        let records: Vec<_> = self.history.records(first..end).collect();
        for (number, record) in records {
            let Some(record) = record else {
                self.report.unreadable += 1;
                continue;
            };
            if !self.article(&table, number, &record)? && record.key_bits != 0 {
                let HistoryRecord { key_bits, arrived, .. } = record;
                let key = ArticleKey(key_bits);
                SnapshotEntry::Remember { record: number, key, arrived }.put(&mut self.out.content);
                self.ids += 1;
            }
            self.out.write_full()?;
        }
        self.next = end;
        Ok(())
    }

    /// Writes the article of a record; returns false if it has none.
    fn article(&mut self, table: &GroupTable, number: u64, record: &HistoryRecord) -> io::Result<bool> {
        let shared = self.spool.shared;
        let Some(token) = record.token.filter(|token| shared.volumes.load().is_alive(token)) else {
            return Ok(false);
        };
        let mut buf = std::mem::take(&mut self.buf);
        let read = shared.read(&token, None, ReadMode::Wait, &mut buf);
        let is_here = matches!(read, Ok(true));
        let header = buf.header.filter(|h| is_here && (h.key.0 ^ record.key_bits) >> 32 == 0);
        // One that has left since it was looked up is not there either.
        self.report.unreadable += u64::from(header.is_none() && shared.volumes.load().is_alive(&token));
        let mut is_written = false;
        if let Some(header) = header {
            let lives = |(id, n): &(GroupId, u64)| {
                table.get(*id).is_some_and(|group| group.state().live.contains(*n))
            };
            let numbers: Vec<(GroupId, u64)> =
                table.numbers_in(buf.head()).into_iter().filter(lives).collect();
            let groups: Vec<_> = numbers.iter().filter_map(|(id, n)| Some((table.get(*id)?, *n))).collect();
            for (group, _) in &groups {
                self.group(group);
            }
            // What a class keeps by its groups has no place anywhere when it is in none.
            let is_kept = shared.volumes.load().get(token.volume).is_some_and(|v| v.method().keeps());
            if groups.is_empty() && is_kept {
                self.report.in_no_group += 1;
            } else {
                let places = groups.iter().map(|(group, n)| (group.name.as_bytes(), *n)).collect();
                let wire = without_frame(buf.article());
                let (arrived, expires) = (header.arrived, header.expires);
                SnapshotEntry::Article { record: number, arrived, expires, places, wire }
                    .put(&mut self.out.content);
                self.articles.insert(number);
                self.report.articles += 1;
                is_written = true;
            }
        }
        self.buf = buf;
        Ok(is_written)
    }

    /// Writes a group that an article is about to name.
    fn group(&mut self, group: &Group) {
        match self.groups.get(&*group.name) {
            Some(id) if *id == group.id => return,
            Some(_) => self.group_removed(&group.name),
            None => {}
        }
        self.groups.insert(group.name.to_string(), group.id);
        put_group(group, named, self);
    }

    /// Writes that a group is no more; one of its name has other articles.
    fn group_removed(&mut self, name: &str) {
        // Its high mark is that of the later one, or comes at the end.
        SnapshotEntry::GroupRemoved { name: name.as_bytes(), high: 0 }.put(&mut self.out.content);
    }

    /// Writes what has left since it was written, and all that is not an article; the writer is held.
    fn end(&mut self, writer: &mut SpoolWriter) -> io::Result<()> {
        let shared = self.spool.shared;
        self.out.write()?;
        self.left(writer.journal.end())?;
        for key in std::mem::take(&mut self.forgotten) {
            // One that is known again was filed or remembered since.
            if shared.history.lookup(&key) == HistoryLookup::None {
                SnapshotEntry::Forget { key }.put(&mut self.out.content);
                self.out.write_full()?;
            }
        }
        let table = shared.groups.snapshot();
        let groups = std::mem::take(&mut self.groups);
        for (name, _) in groups.iter().filter(|(name, id)| table.id(name.as_bytes()) != Some(**id)) {
            self.group_removed(name);
        }
        for group in table.sorted().iter() {
            put_group(group, now, self);
            self.out.write_full()?;
        }
        for (name, high) in &writer.folds.retired {
            let (name, high) = (name.as_bytes(), *high);
            SnapshotEntry::GroupRemoved { name, high }.put(&mut self.out.content);
        }
        for hidden in shared.hidden.all() {
            SnapshotEntry::Hide {
                message_id: hidden.message_id.as_bytes(),
                since: hidden.since,
                by: hidden.by.as_bytes(),
                reason: hidden.reason.as_bytes(),
            }
            .put(&mut self.out.content);
            self.out.write_full()?;
        }
        for keyed in NoteKind::ALL.into_iter().flat_map(|kind| shared.notes.all(kind)) {
            let (since, key, value) = (keyed.note.since, &*keyed.key, &*keyed.note.value);
            SnapshotEntry::Note { kind: keyed.kind, since, key, value }.put(&mut self.out.content);
            self.out.write_full()?;
        }
        if !writer.folds.position.is_empty() {
            SnapshotEntry::Position { record: &writer.folds.position }.put(&mut self.out.content);
        }
        SnapshotEntry::Forgotten { ids_before: self.ids_before }.put(&mut self.out.content);
        SnapshotEntry::End {
            articles: self.report.articles,
            ids: self.ids,
            forgotten_at: writer.folds.forgotten_at,
            digest: self.spool.shared.digest().map(|digest| digest.0),
        }
        .put(&mut self.out.content);
        self.report.ids = self.ids;
        self.out.write()
    }

    /// Writes which articles have left, and which have left some of their groups, up to a position of the
    /// journal.
    fn left(&mut self, end: u64) -> io::Result<()> {
        self.withdrawn()?;
        let (spool, from) = (self.spool, self.left_upto);
        let table = spool.shared.groups.snapshot();
        let Self { out, forgotten, ids_before, .. } = self;
        let are_whole = spool.each_row(from, end, &mut |row| {
            match row {
                JournalRow::Expire { key, gone: false, numbers, .. } => {
                    let names = numbers.iter().filter_map(|(id, _)| Some(table.get(*id)?.name.as_bytes()));
                    SnapshotEntry::Leave { key, groups: names.collect() }.put(&mut out.content);
                }
                JournalRow::Forget { key } => forgotten.push(key),
                JournalRow::Forgotten { ids_before: before, .. } => *ids_before = (*ids_before).max(before),
                _ => {}
            }
            out.write_full()
        })?;
        if !are_whole {
            return Err(io::Error::other(ROWS_MISSING));
        }
        self.left_upto = end;
        Ok(())
    }

    /// Writes which articles of the file are not there any more.
    fn withdrawn(&mut self) -> io::Result<()> {
        let history = &self.spool.shared.history;
        let first_known = history.checkpoint().first_record;
        let volumes = self.spool.shared.volumes.load();
        let from = self.articles.from;
        let articles = std::mem::replace(&mut self.articles, RecordBits { from, ..RecordBits::default() });
        for (number, record) in self.history.records(articles.all()) {
            let Some(record) = record else {
                self.report.unreadable += 1;
                continue;
            };
            let key = ArticleKey(record.key_bits);
            if number < first_known && history.lookup(&key) != HistoryLookup::None {
                return Err(io::Error::other(CAME_AGAIN));
            }
            if record.token.is_some_and(|token| volumes.is_alive(&token)) {
                self.articles.insert(number);
                continue;
            }
            SnapshotEntry::Withdraw { key }.put(&mut self.out.content);
            self.report.articles -= 1;
            self.ids += 1;
            self.out.write_full()?;
        }
        Ok(())
    }
}

/// Returns whether a record of history is of this key. One that was forgotten is of any.
fn is_of(history: &HistoryHold<'_>, record: u64, key: Option<ArticleKey>) -> bool {
    let found = history.records([record].into_iter().filter(|record| *record >= history.first())).next();
    let is_same = |bits: u128| bits == 0 || key.is_some_and(|key| (key.0 ^ bits) >> 32 == 0);
    found.and_then(|(_, record)| record).is_none_or(|record| is_same(record.key_bits))
}

/// Returns whether an entry says what has changed since the beginning.
fn is_later(entry: &SnapshotEntry<'_>) -> bool {
    !matches!(
        entry,
        SnapshotEntry::Begin { .. }
            | SnapshotEntry::Group(_)
            | SnapshotEntry::Article { .. }
            | SnapshotEntry::Remember { .. }
            | SnapshotEntry::GroupRemoved { .. }
    )
}

/// Returns the entry of a group that articles are about to name.
fn named(group: SnapshotGroup<'_>) -> SnapshotEntry<'_> {
    SnapshotEntry::Group(SnapshotGroup { high: 0, ..group })
}

/// Returns the entry of a group at the end.
fn now(group: SnapshotGroup<'_>) -> SnapshotEntry<'_> {
    SnapshotEntry::GroupNow(group)
}

/// Writes a group as the entry that `entry` makes of it.
fn put_group(
    group: &Group,
    entry: impl FnOnce(SnapshotGroup<'_>) -> SnapshotEntry<'_>,
    run: &mut SnapshotRun<'_>,
) {
    let state = group.state();
    let (flag, description, high) = (state.flag.to_string(), state.description.clone(), state.high);
    drop(state);
    let group = SnapshotGroup {
        name: group.name.as_bytes(),
        flag: flag.as_bytes(),
        description: description.as_bytes(),
        creator: group.creator.as_bytes(),
        created: group.created,
        high,
    };
    entry(group).put(&mut run.out.content);
}

/// Returns a stored article without its Xref line and the final `.` line.
fn without_frame(stored: &[u8]) -> &[u8] {
    let rest = memchr::memchr(b'\n', stored).and_then(|end| stored.get(end + 1..)).unwrap_or_default();
    rest.strip_suffix(b".\r\n").unwrap_or(rest)
}

/// Returns the name of an unfinished snapshot.
fn part_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    path.with_file_name(name)
}
