//! Making a site of a snapshot.
//!
//! The entries are applied as changes to a spool that does not exist yet, or that an interrupted restoration
//! has begun: what is there already is passed over. Nothing else may use the spool meanwhile.

use super::entry::{SnapshotEntry, SnapshotGroup};
use super::file::{SnapshotReader, damaged};
use crate::base::config::SpoolConfig;
use crate::base::digest::SiteDigest;
use crate::base::error::{SpoolError, SpoolTrouble};
use crate::base::facts::{ArticleKind, RowFacts, TaggedFields};
use crate::base::ids::GroupFlag;
use crate::base::key::ArticleKey;
use crate::index::change::{
    ArticleGroups, ArticleIdent, Change, ChangeOutcome, Criteria, GroupUpdate, LocatedArticle, NewArticle,
};
use crate::index::groups::{GroupChange, NewGroup};
use crate::index::history::HistoryLookup;
use crate::open::recovery::{read_secret_file, secret_text};
use crate::read::Lookup;
use crate::read::article::ArticleBuf;
use crate::spool::Spool;
use disk::{Disk, FileAccess, Progress, ReadMode, durable_replace};
use netnews::article::Known;
use netnews::overview_row::OverviewFields;
use netnews::{Article, control};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Origin of restored articles: they are not obeyed, and go to no peer.
const ORIGIN: &str = "import";

/// Result of a restoration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Articles of the snapshot.
    pub articles: u64,
    /// Articles among them that an interrupted restoration had stored.
    pub known: u64,
    /// Articles for which no class or buffer has room.
    pub unfit: u64,
    /// Articles that were overwritten by later ones, as the buffers are too small.
    pub displaced: u64,
    /// Message-IDs without an article.
    pub ids: u64,
    /// Whether the restored site has the digest of the snapshot; `None` if that is not known.
    pub is_same: Option<bool>,
    /// Digest of the restored site.
    pub digest: Option<SiteDigest>,
    /// Record of the position in a shared log that the snapshot has; the restored site follows no log.
    pub position: Option<Vec<u8>>,
}

/// Makes a spool of the snapshot at `path`, in the directory, buffers and classes of `config`.
pub fn restore(
    disk: Arc<dyn Disk>,
    config: SpoolConfig,
    path: &Path,
    progress: &dyn Progress,
) -> Result<RestoreReport, SpoolError> {
    let io = || SpoolError::io("read", path);
    let mut reader = SnapshotReader::open(&*disk, path).map_err(io())?;
    let secret = secret_of(&mut reader, path).map_err(io())?;
    prepare(&*disk, &config, &secret)?;
    let (spool, _) = Spool::open(disk.clone(), config, progress)?;
    let mut reader = SnapshotReader::open(&*disk, path).map_err(io())?;
    let mut restoring = Restoration { spool: &spool, time: 0, report: RestoreReport::default(), end: None };
    progress.start("restoring", reader.len());
    while let Some(mut entries) = reader.next().map_err(io())? {
        let mut all = Vec::new();
        while !entries.is_empty() {
            let entry = SnapshotEntry::read(&mut entries);
            all.push(
                entry.ok_or_else(|| io()(damaged(path, "it has entries that this version does not know")))?,
            );
        }
        restoring.apply(&all).map_err(|trouble| SpoolError::Unfit(trouble.to_string()))?;
        progress.step(reader.at);
    }
    let report = restoring.finish().ok_or_else(|| io()(damaged(path, "its end is missing")))?;
    spool.close()?;
    progress.finish();
    Ok(report)
}

/// Reads the secret in the first entry.
fn secret_of(reader: &mut SnapshotReader, path: &Path) -> io::Result<[u8; 16]> {
    let first = reader.next()?.and_then(|mut entries| match SnapshotEntry::read(&mut entries) {
        Some(SnapshotEntry::Begin { secret, .. }) => Some(secret),
        _ => None,
    });
    first.ok_or_else(|| damaged(path, "its first entry is missing"))
}

/// Gives a new spool the secret of the snapshot; one that exists must have it.
fn prepare(disk: &dyn Disk, config: &SpoolConfig, secret: &[u8; 16]) -> Result<(), SpoolError> {
    let path = config.dir.join("secret");
    match read_secret_file(disk, &path).map_err(SpoolError::io("read", &path))? {
        Some(own) if own == *secret => Ok(()),
        Some(_) => Err(SpoolError::Unfit(format!(
            "{} belongs to another site; restore into a directory that has a configuration and no spool",
            config.dir.display()
        ))),
        None => {
            disk.create_dir(&config.dir).map_err(SpoolError::io("create", &config.dir))?;
            let text = secret_text(secret);
            durable_replace(disk, &path, &[text.as_bytes()], FileAccess::Owner)
                .map_err(SpoolError::io("write", &path))
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
        for run in entries.chunk_by(|a, b| is_filed(a) && is_filed(b)) {
            match run {
                [first, ..] if is_filed(first) => self.file(run)?,
                [entry] => self.change(entry)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Files articles and ids.
    fn file(&mut self, run: &[SnapshotEntry<'_>]) -> Result<(), SpoolTrouble> {
        let drafts: Vec<Option<RestoredArticle<'_>>> = run.iter().map(RestoredArticle::of).collect();
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
        for (change, outcome) in changes.iter().zip(&outcomes) {
            if !matches!(change, Change::Article(_)) {
                continue;
            }
            self.report.articles += 1;
            match outcome {
                ChangeOutcome::Filed(_) => {}
                ChangeOutcome::Duplicate => self.report.known += 1,
                _ => self.report.unfit += 1,
            }
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
            SnapshotEntry::GroupNow(group) => {
                let name = text(group.name);
                let change = GroupChange {
                    flag: GroupFlag::parse(&text(group.flag)),
                    description: Some(text(group.description)),
                };
                self.groups(&[GroupUpdate::Add(new_group(group))])?;
                self.groups(&[GroupUpdate::Change(name.clone(), change)])?;
                self.groups(&[GroupUpdate::RaiseHigh(name, group.high)])
            }
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
        self.one(Change::Groups(updates))
    }

    fn one(&self, change: Change<'_>) -> Result<(), SpoolTrouble> {
        self.spool.apply(self.time, &[change], &mut Vec::new()).map(drop)
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
        let displaced = articles.saturating_sub(living).saturating_sub(self.report.unfit);
        let is_same = digest.zip(expected).map(|(own, expected)| own.0 == expected);
        Some(RestoreReport { displaced, is_same, digest, ..self.report })
    }
}

/// Returns whether an entry is filed together with its neighbours.
fn is_filed(entry: &SnapshotEntry<'_>) -> bool {
    matches!(entry, SnapshotEntry::Article { .. } | SnapshotEntry::Remember { .. })
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
