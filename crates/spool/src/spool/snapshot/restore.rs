//! Making a site of a snapshot.
//!
//! The entries are applied as changes to a spool that does not exist yet, or that an interrupted restoration
//! has begun: what is there already is passed over. Until the end the spool has a file `restoring`, and while
//! that exists nothing else opens it.

use super::arrival::SnapshotArrival;
use super::entry::{SnapshotEntry, SnapshotGroup};
use super::file::{SnapshotReader, damaged};
use crate::index::change::{
    ArticleGroups, ArticleIdent, Change, ChangeOutcome, Criteria, GroupUpdate, LocatedArticle, NewArticle,
};
use crate::index::groups::{GroupChange, NewGroup};
use crate::index::refusal::none_refused;
use crate::open::paths::SpoolPaths;
use crate::open::recovery::{RecoveryReport, read_secret_file, secret_text};
use crate::read::Lookup;
use crate::read::article::ArticleBuf;
use crate::spool::Spool;
use disk::{Disk, FileAccess, OpenMode, Progress, ReadMode, durable_replace};
use netnews::article::Known;
use netnews::overview_row::OverviewFields;
use netnews::{Article, control};
use spool_base::codec::ByteReader;
use spool_base::config::{ClassConfig, SpoolConfig};
use spool_base::digest::SiteDigest;
use spool_base::error::{SpoolError, SpoolTrouble};
use spool_base::facts::{ArticleKind, RowFacts, TaggedFields};
use spool_base::ids::GroupFlag;
use spool_base::key::ArticleKey;
use spool_base::token::MethodKind;
use spool_history::HistoryLookup;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Origin of restored articles: they are not obeyed, and go to no peer.
const ORIGIN: &str = "import";

/// Updates of groups in one change: three for a group.
const UPDATES_TOGETHER: usize = 3 * 256;

/// Result of a restoration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Articles of the snapshot.
    pub articles: u64,
    /// Articles among them that an interrupted restoration had stored.
    pub known: u64,
    /// Articles for which no class or buffer has room; their Message-IDs are known.
    pub unfit: u64,
    /// Articles whose numbers another article of the spool has; their Message-IDs are known.
    pub taken: u64,
    /// Articles that were overwritten by later ones, as buffers or rings are too small, or that a rule leaves
    /// out.
    pub displaced: u64,
    /// Classes in memory that got articles, which end with this process.
    pub in_memory: Vec<String>,
    /// Message-IDs without an article.
    pub ids: u64,
    /// Whether the restored site has the digest of the snapshot; `None` if that is not known.
    pub is_same: Option<bool>,
    /// Digest of the restored site.
    pub digest: Option<SiteDigest>,
    /// Record of the position in a shared log that the snapshot has; the restored site follows no log.
    pub position: Option<Vec<u8>>,
}

/// Spool of which a restoration makes a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreTarget {
    /// One that does not exist, or that an interrupted restoration of the same snapshot has begun.
    New,
    /// Also one that was restored from a snapshot of the same site: what is there already is passed over.
    Restored,
}

/// Makes a spool of the snapshot at `path`, in the directory, buffers and classes of `config`. Until it is
/// whole, nothing else opens it.
pub fn restore(
    disk: Arc<dyn Disk>,
    config: SpoolConfig,
    path: &Path,
    target: RestoreTarget,
    progress: &dyn Progress,
) -> Result<RestoreReport, SpoolError> {
    let reader = SnapshotReader::open(&*disk, path).map_err(SpoolError::io("read", path))?;
    progress.start("restoring", reader.len());
    let report = restore_from(reader, disk, config, path, target, progress)?;
    progress.finish();
    Ok(report)
}

/// Like [`restore`], while the snapshot still arrives.
pub fn restore_arriving(
    disk: Arc<dyn Disk>,
    config: SpoolConfig,
    path: &Path,
    arrival: &SnapshotArrival,
    target: RestoreTarget,
) -> Result<RestoreReport, SpoolError> {
    let reader = SnapshotReader::open_arriving(&*disk, path, arrival);
    let restored = reader
        .map_err(SpoolError::io("read", path))
        .and_then(|reader| restore_from(reader, disk, config, path, target, &()));
    arrival.give_up();
    restored
}

fn restore_from(
    mut reader: SnapshotReader<'_>,
    disk: Arc<dyn Disk>,
    config: SpoolConfig,
    path: &Path,
    target: RestoreTarget,
    progress: &dyn Progress,
) -> Result<RestoreReport, SpoolError> {
    let io = || SpoolError::io("read", path);
    let begin = Begin::read(&mut reader, path).map_err(io())?;
    reader.rewind();
    let is_continued = begin.prepare(&*disk, &config, target)?;
    let marker = SpoolPaths::new(&config.dir).restoring;
    let (spool, recovery) = Spool::open_in_part(disk.clone(), config.clone(), &())?;
    if is_continued {
        can_continue(&config, &recovery)?;
    }
    let mut restoring = Restoration { spool: &spool, time: 0, report: RestoreReport::default(), end: None };
    let applied = reader.read_ahead(|frames| {
        for frame in frames {
            let frame = frame.map_err(io())?;
            let (mut entries, mut all) = (ByteReader(&frame.entries), Vec::new());
            while !entries.is_empty() {
                let entry = SnapshotEntry::read(&mut entries);
                let unknown = || io()(damaged(path, "it has entries that this version does not know"));
                all.push(entry.ok_or_else(unknown)?);
            }
            restoring.apply(&all).map_err(|trouble| SpoolError::Unfit(trouble.to_string()))?;
            progress.step(frame.end);
        }
        Ok(())
    });
    let report =
        applied.and_then(|()| restoring.finish().ok_or_else(|| io()(damaged(path, "its end is missing"))));
    // Also after an error, so that it can be continued.
    let closed = spool.close();
    let report = report?;
    closed?;
    let dir = marker.parent().unwrap_or(Path::new("."));
    disk.remove(&marker).and_then(|()| disk.sync_dir(dir)).map_err(SpoolError::io("remove", &marker))?;
    Ok(report)
}

/// Refuses to continue where numbers count as given out although their articles are not there: after the
/// machine went down, and where a kill leaves files with numbers.
fn can_continue(config: &SpoolConfig, recovery: &RecoveryReport) -> Result<(), SpoolError> {
    let is_numbered =
        |class: &ClassConfig| matches!(class.method, MethodKind::Tradspool | MethodKind::Bucketed);
    let begins_again = recovery.power_lost || recovery.crashed && config.classes.iter().any(is_numbered);
    if !begins_again {
        return Ok(());
    }
    let why = if recovery.power_lost { "the machine went down" } else { "the restoration was killed" };
    Err(must_begin_again(config, &format!("{why} while the snapshot was restored")))
}

/// Returns the error that says what to remove before another attempt.
fn must_begin_again(config: &SpoolConfig, why: &str) -> SpoolError {
    let spool = ["secret", "groups", "groups.copy", "journal", "index", "dictionaries", "restoring"];
    let buffers = config.buffers.iter().map(|buffer| buffer.path.clone());
    let kept =
        config.classes.iter().filter(|class| class.method.keeps()).map(|class| class.tree.path.clone());
    let all = spool.iter().map(|name| config.dir.join(name)).chain(buffers).chain(kept);
    let all: Vec<String> = all.map(|path| path.display().to_string()).collect();
    SpoolError::Unfit(format!("{why}, so it must begin again: rm -rf {}", all.join(" ")))
}

/// Refuses a spool of which only a part is restored.
pub(crate) fn is_whole(disk: &dyn Disk, dir: &Path) -> Result<(), SpoolError> {
    let marker = SpoolPaths::new(dir).restoring;
    match disk.has_name(&marker).map_err(SpoolError::io("examine", &marker))? {
        false => Ok(()),
        true => Err(SpoolError::Unfit(format!(
            "only a part of a snapshot is restored in {}; repeat the newsreel restore that was interrupted",
            dir.display()
        ))),
    }
}

/// The first entry of a snapshot.
struct Begin {
    secret: [u8; 16],
    /// Names the snapshot among those of its site.
    name: String,
}

impl Begin {
    fn read(reader: &mut SnapshotReader<'_>, path: &Path) -> io::Result<Self> {
        let first = reader.next()?;
        let first = first.and_then(|frame| match SnapshotEntry::read(&mut ByteReader(&frame.entries)) {
            Some(SnapshotEntry::Begin { secret, position, time }) => {
                Some(Self { secret, name: format!("{position:016x} {time:08x}\n") })
            }
            _ => None,
        });
        first.ok_or_else(|| damaged(path, "its first entry is missing"))
    }

    /// Gives a new spool the secret of the snapshot, and marks it as restored in part. Returns whether a
    /// restoration had begun.
    fn prepare(
        &self,
        disk: &dyn Disk,
        config: &SpoolConfig,
        target: RestoreTarget,
    ) -> Result<bool, SpoolError> {
        let dir = &config.dir;
        let (secret, marker) = (dir.join("secret"), SpoolPaths::new(dir).restoring);
        let refused = |why| {
            let into = "restore into a directory that has a newsreel.toml and nothing else";
            Err(SpoolError::Unfit(format!("{} {why}; {into}", dir.display())))
        };
        let own = read_secret_file(disk, &secret).map_err(SpoolError::io("read", &secret))?;
        let is_begun = disk.has_name(&marker).map_err(SpoolError::io("examine", &marker))?;
        match own {
            Some(own) if own != self.secret => {
                return refused("has a spool of its own, which newsreel init, up or serve has made");
            }
            Some(_) if is_begun && !self.is_named_in(disk, &marker)? => {
                let why = format!("{} has a part of another snapshot", dir.display());
                return Err(must_begin_again(config, &why));
            }
            Some(_) if !is_begun && target == RestoreTarget::New => {
                return refused("has the news of this site already");
            }
            _ => {}
        }
        let replace = |path: &Path, text: &str| {
            durable_replace(disk, path, &[text.as_bytes()], FileAccess::Owner)
                .map_err(SpoolError::io("write", path))
        };
        disk.create_dir(dir).map_err(SpoolError::io("create", dir))?;
        replace(&marker, &self.name)?;
        if own.is_none() {
            replace(&secret, &secret_text(&self.secret))?;
        }
        Ok(is_begun && own.is_some())
    }

    fn is_named_in(&self, disk: &dyn Disk, marker: &Path) -> Result<bool, SpoolError> {
        let mut text = vec![0; self.name.len()];
        let file = disk.open(marker, OpenMode::ReadOnly);
        match file.and_then(|file| file.read_exact_at(&mut text, 0)) {
            Ok(()) => Ok(text == self.name.as_bytes()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(SpoolError::io("read", marker)(error)),
        }
    }
}

/// A restoration in progress.
struct Restoration<'s> {
    spool: &'s Spool,
    /// Time of the changes, in Unix seconds.
    time: u64,
    report: RestoreReport,
    /// Number of articles that lived, and digest, according to the last entry.
    end: Option<(u64, Option<u128>)>,
}

impl Restoration<'_> {
    /// Applies the entries of a frame.
    fn apply(&mut self, entries: &[SnapshotEntry<'_>]) -> Result<(), SpoolTrouble> {
        if let Some(begin @ SnapshotEntry::Begin { .. }) = entries.first() {
            self.change(begin)?;
        }
        // Groups are made together, since each change waits for the disk.
        let removed = entries.iter().position(|entry| matches!(entry, SnapshotEntry::GroupRemoved { .. }));
        let (first, others) = entries.split_at(removed.unwrap_or(entries.len()));
        let named = first.iter().filter_map(|entry| match entry {
            SnapshotEntry::Group(group) => Some(GroupUpdate::Add(new_group(group))),
            _ => None,
        });
        self.groups(&named.collect::<Vec<_>>())?;
        let first = first.iter().filter(|entry| !matches!(entry, SnapshotEntry::Group(_)));
        let rest: Vec<&SnapshotEntry<'_>> = first.chain(others).collect();
        let are_alike = |a: &&SnapshotEntry<'_>, b: &&SnapshotEntry<'_>| {
            is_filed(a) && is_filed(b) || is_group_now(a) && is_group_now(b)
        };
        for run in rest.chunk_by(are_alike) {
            match run {
                [first, ..] if is_filed(first) => self.file(run)?,
                [first, ..] if is_group_now(first) => self.groups_now(run)?,
                [entry] => self.change(entry)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Sets groups to what they are at the end.
    fn groups_now(&self, run: &[&SnapshotEntry<'_>]) -> Result<(), SpoolTrouble> {
        let mut missing = Vec::new();
        let mut changes = Vec::new();
        let mut marks = Vec::new();
        for entry in run {
            let SnapshotEntry::GroupNow(group) = entry else { continue };
            let name = text(group.name);
            let change = GroupChange {
                flag: GroupFlag::parse(&text(group.flag)),
                description: Some(text(group.description)),
            };
            missing.push(GroupUpdate::Add(new_group(group)));
            changes.push(GroupUpdate::Change(name.clone(), change));
            marks.push(GroupUpdate::RaiseHigh(name, group.high));
        }
        // Of several updates of one group in a change, only the first has an effect.
        [missing, changes, marks].iter().try_for_each(|updates| self.groups(updates))
    }

    /// Files articles and ids.
    fn file(&mut self, run: &[&SnapshotEntry<'_>]) -> Result<(), SpoolTrouble> {
        let drafts: Vec<Option<RestoredArticle<'_>>> =
            run.iter().map(|entry| RestoredArticle::of(entry)).collect();
        let mut changes = Vec::with_capacity(run.len());
        for (entry, draft) in run.iter().zip(&drafts) {
            match (entry, draft) {
                (_, Some(draft)) => changes.push(Change::Article(draft.article())),
                (SnapshotEntry::Remember { key, arrived, .. }, _) => {
                    let (id, arrived) = (ArticleIdent::Key(*key), u64::from(*arrived));
                    changes.push(Change::Remember { id, arrived });
                }
                // An article that cannot be parsed was never filed.
                _ => {}
            }
        }
        let mut outcomes = Vec::with_capacity(changes.len());
        // Articles of one class are stored in their order, so a kill leaves none without those before it.
        let classes = self.spool.writer.lock().classes_of(&changes);
        let (mut rest, mut classes) = (&changes[..], &classes[..]);
        while !rest.is_empty() {
            let first = classes.iter().flatten().next();
            let same = classes.iter().take_while(|class| class.is_none() || class.as_ref() == first).count();
            let (now, later) = rest.split_at(same.clamp(1, rest.len()));
            self.spool.apply(self.time, now, &mut outcomes)?;
            (rest, classes) = (later, classes.get(now.len()..).unwrap_or(&[]));
        }
        let mut left_out = Vec::new();
        for (change, outcome) in changes.iter().zip(&outcomes) {
            let Change::Article(article) = change else { continue };
            self.report.articles += 1;
            match outcome {
                ChangeOutcome::Filed(_) => {}
                ChangeOutcome::Duplicate => self.report.known += 1,
                outcome => {
                    let is_taken = matches!(outcome, ChangeOutcome::NumberTaken);
                    let count = if is_taken { &mut self.report.taken } else { &mut self.report.unfit };
                    *count += 1;
                    let id = ArticleIdent::Id(article.message_id);
                    left_out.push(Change::Remember { id, arrived: article.arrived });
                }
            }
        }
        if !left_out.is_empty() {
            self.spool.apply(self.time, &left_out, &mut Vec::new())?;
        }
        Ok(())
    }

    /// Applies another entry.
    fn change(&mut self, entry: &SnapshotEntry<'_>) -> Result<(), SpoolTrouble> {
        match entry {
            SnapshotEntry::Begin { time, .. } => {
                self.time = u64::from(*time);
                Ok(())
            }
            SnapshotEntry::Group(group) => self.groups(&[GroupUpdate::Add(new_group(group))]),
            SnapshotEntry::GroupRemoved { name, high } => {
                let name = text(name);
                if self.spool.group_id(name.as_bytes()).is_none() {
                    let new = NewGroup { name: name.clone(), high: *high, ..NewGroup::default() };
                    self.groups(&[GroupUpdate::Add(new)])?;
                }
                self.groups(&[GroupUpdate::RaiseHigh(name.clone(), *high)])?;
                self.groups(&[GroupUpdate::Remove(name)])
            }
            SnapshotEntry::Withdraw { key } => match self.located(*key) {
                Some(article) => self.one(Change::Cancel { id: ArticleIdent::Located(&article) }),
                None => Ok(()),
            },
            SnapshotEntry::Leave { key, groups } => {
                let groups: Vec<String> = groups.iter().map(|name| text(name)).collect();
                match self.located(*key) {
                    Some(article) => {
                        self.one(Change::Expire { id: ArticleIdent::Located(&article), groups: &groups })
                    }
                    None => Ok(()),
                }
            }
            SnapshotEntry::Forget { key } => match self.spool.shared.history.lookup(key) {
                HistoryLookup::Remembered { arrived } => {
                    self.one(Change::Forget { id: ArticleIdent::Key(*key), arrived })
                }
                _ => Ok(()),
            },
            SnapshotEntry::Hide { message_id, since, by, reason } => {
                let (by, reason) = (text(by), text(reason));
                let since = u64::from(*since);
                self.one(Change::Hide { message_id, by: &by, reason: &reason, since })
            }
            SnapshotEntry::Note { kind, since, key, value } => {
                let since = u64::from(*since);
                self.one(Change::Note { kind: *kind, key, value: Some(value), since })
            }
            SnapshotEntry::Position { record } => {
                self.report.position = Some(record.to_vec());
                Ok(())
            }
            SnapshotEntry::End { articles, ids, forgotten_at, digest } => {
                // What was forgotten then is forgotten here.
                self.spool.apply(u64::from(*forgotten_at), &[], &mut Vec::new())?;
                self.report.ids = *ids;
                self.end = Some((*articles, *digest));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn groups(&self, updates: &[GroupUpdate]) -> Result<(), SpoolTrouble> {
        updates.chunks(UPDATES_TOGETHER).try_for_each(|some| self.one(Change::Groups(some)))
    }

    fn one(&self, change: Change<'_>) -> Result<(), SpoolTrouble> {
        let mut outcomes = Vec::with_capacity(1);
        self.spool.apply(self.time, &[change], &mut outcomes)?;
        none_refused(&outcomes)
    }

    /// Returns the living article of a key, of which the lower 32 bits may be missing.
    fn located(&self, key: ArticleKey) -> Option<LocatedArticle> {
        let shared = &self.spool.shared;
        let Lookup::Present(token) = shared.lookup(&key) else { return None };
        let mut buf = ArticleBuf::default();
        shared.read(&token, None, ReadMode::Wait, &mut buf).ok()?;
        let key = buf.header?.key;
        Some(LocatedArticle { key, token, numbers: shared.groups.table().numbers_in(buf.head()) })
    }

    /// Compares what is there with the snapshot; `None` if that had no end.
    fn finish(self) -> Option<RestoreReport> {
        let (articles, expected) = self.end?;
        let living = self.spool.shared.articles.load(std::sync::atomic::Ordering::Relaxed);
        let digest = self.spool.digest();
        let left_out = self.report.unfit + self.report.taken;
        let displaced = articles.saturating_sub(living).saturating_sub(left_out);
        let is_same = digest.zip(expected).map(|(own, expected)| own.0 == expected);
        let volumes = self.spool.shared.volumes.load();
        let used =
            volumes.all().iter().filter(|volume| volume.method() == MethodKind::Memory && volume.head() > 0);
        let in_memory = used.map(|volume| volume.name().to_owned()).collect();
        Some(RestoreReport { articles, displaced, in_memory, is_same, digest, ..self.report })
    }
}

/// Returns whether an entry is filed together with its neighbours.
fn is_filed(entry: &SnapshotEntry<'_>) -> bool {
    matches!(entry, SnapshotEntry::Article { .. } | SnapshotEntry::Remember { .. })
}

fn is_group_now(entry: &SnapshotEntry<'_>) -> bool {
    matches!(entry, SnapshotEntry::GroupNow(_))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn new_group(group: &SnapshotGroup<'_>) -> NewGroup {
    NewGroup {
        name: text(group.name),
        flag: GroupFlag::parse(&text(group.flag)).unwrap_or_default(),
        description: text(group.description),
        creator: text(group.creator),
        created: group.created,
        high: group.high,
    }
}

/// What the change of an article borrows.
struct RestoredArticle<'a> {
    article: Article<'a>,
    message_id: &'a [u8],
    pieces: [&'a [u8]; 1],
    names: Vec<&'a [u8]>,
    numbers: Vec<u64>,
    tagged: Vec<u8>,
    arrived: u64,
    expires: Option<u64>,
    message_id_at: usize,
}

impl<'a> RestoredArticle<'a> {
    fn of(entry: &SnapshotEntry<'a>) -> Option<Self> {
        let SnapshotEntry::Article { arrived, expires, places, wire, .. } = entry else { return None };
        let article = Article::parse(wire).ok()?;
        let message_id = article.message_id()?.as_bytes();
        let lines = article.header_lines(Known::MessageId)?;
        let line = wire.get(lines.clone())?;
        let message_id_at = lines.start + memchr::memmem::find(line, message_id)?;
        let mut tagged = Vec::new();
        RowFacts {
            wire_bytes: wire.len() as u64,
            path: article.header(Known::Path).unwrap_or_default(),
            distribution: article.header(Known::Distribution).unwrap_or_default().trim_ascii(),
            origin: ORIGIN,
            kind: kind(&article),
            ..RowFacts::default()
        }
        .put(&mut tagged);
        Some(Self {
            message_id,
            pieces: [wire],
            names: places.iter().map(|(name, _)| *name).collect(),
            numbers: places.iter().map(|(_, number)| *number).collect(),
            tagged,
            arrived: u64::from(*arrived),
            expires: Some(u64::from(*expires)).filter(|expires| *expires > 0),
            message_id_at,
            article,
        })
    }

    fn article(&self) -> NewArticle<'_> {
        let value = |known| self.article.header(known).unwrap_or_default();
        NewArticle {
            message_id: self.message_id,
            key: None,
            pieces: &self.pieces,
            header_bytes: self.article.body_offset(),
            message_id_at: self.message_id_at,
            groups: match self.names.is_empty() {
                true => ArticleGroups::None,
                false => ArticleGroups::Named(&self.names),
            },
            numbers: &self.numbers,
            fields: OverviewFields::of(&self.article, self.message_id),
            arrived: self.arrived,
            expires: self.expires,
            criteria: Criteria {
                from: value(Known::From),
                path: value(Known::Path),
                head: self.article.head(),
                verdict: None,
                origin: ORIGIN,
                newsgroups: value(Known::Newsgroups),
            },
            tagged: TaggedFields::new(&self.tagged).unwrap_or_default(),
        }
    }
}

/// Returns the kind of an article.
fn kind(article: &Article<'_>) -> ArticleKind {
    let verb = article.header(Known::Control).map(control::verb);
    ArticleKind::default()
        .with(ArticleKind::CONTROL, verb.is_some())
        .with(ArticleKind::CANCEL, verb.is_some_and(|verb| verb.eq_ignore_ascii_case(b"cancel")))
        .with(ArticleKind::SUPERSEDES, article.count(Known::Supersedes) > 0)
        .with(ArticleKind::HEADERS, article.bodiless().is_some())
}
