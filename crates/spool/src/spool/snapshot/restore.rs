//! Making a site of a snapshot.
//!
//! The entries are applied as changes to a spool that does not exist yet, or that an interrupted restoration
//! has begun: what is applied already is passed over. Until the end the spool has a file `restoring`, which
//! says what that is, and while it exists nothing else opens the spool.

use super::arrival::SnapshotArrival;
use super::entry::{SnapshotEntry, SnapshotGroup};
use super::file::{SnapshotReader, damaged};
use super::marker::{Reached, RestoringMarker, line};
use crate::apply::withdraw::living_numbers;
use crate::index::change::{
    ArticleGroups, ArticleIdent, Change, ChangeOutcome, Criteria, GroupUpdate, LocatedArticle, NewArticle,
    none_refused,
};
use crate::index::groups::{GroupChange, NewGroup};
use crate::open::paths::SpoolPaths;
use crate::open::recovery::{RecoveryReport, read_secret_file, secret_text};
use crate::read::Lookup;
use crate::read::article::ArticleBuf;
use crate::spool::Spool;
use crate::write::commit::trouble;
use disk::{Disk, FileAccess, Progress, ReadMode, durable_replace};
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
use spool_journal::JournalRow;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::mem::discriminant;
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
    /// Also one that was made of the same snapshot: nothing is applied again.
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
    let reached = begin.reached(&*disk, &config, target)?;
    let marker = match reached {
        Some(Reached::WHOLE) => None,
        _ => Some(begin.prepare(&*disk, &config, reached.unwrap_or_default())?),
    };
    let (spool, recovery) = Spool::open_in_part(disk.clone(), config.clone(), &())?;
    if marker.is_some() && reached.is_some() {
        can_continue(&config, &recovery)?;
    }
    let mut restoring = Restoration {
        spool: &spool,
        marker,
        reached: reached.unwrap_or_default(),
        time: 0,
        ids_before: None,
        report: RestoreReport::default(),
        end: None,
    };
    let applied = reader.read_ahead(|frames| {
        for frame in frames {
            let frame = frame.map_err(io())?;
            let (mut entries, mut all) = (ByteReader(&frame.entries), Vec::new());
            while !entries.is_empty() {
                let entry = SnapshotEntry::read(&mut entries);
                let unknown = || io()(damaged(path, "it has entries that this version does not know"));
                all.push(entry.ok_or_else(unknown)?);
            }
            restoring.apply(frame.end, &all).map_err(|trouble| SpoolError::Unfit(trouble.to_string()))?;
            progress.step(frame.end);
        }
        Ok(())
    });
    let marker = restoring.marker.take();
    let report =
        applied.and_then(|()| restoring.finish().ok_or_else(|| io()(damaged(path, "its end is missing"))));
    // Also after an error, so that it can be continued.
    let closed = spool.close();
    let paths = SpoolPaths::new(&config.dir);
    let io = || SpoolError::io("write", &paths.restoring);
    let noted = marker.as_ref().map_or(Ok(()), RestoringMarker::sync).map_err(io());
    let report = report?;
    closed.and(noted)?;
    if marker.is_some() {
        let renamed = disk.rename(&paths.restoring, &paths.restored);
        renamed.and_then(|()| disk.sync_dir(&paths.dir)).map_err(io())?;
    }
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
    let spool =
        ["secret", "groups", "groups.copy", "journal", "index", "dictionaries", "restoring", "restored"];
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
                Some(Self { secret, name: line(position, time) })
            }
            _ => None,
        });
        first.ok_or_else(|| damaged(path, "its first entry is missing"))
    }

    /// Returns how far the restoration of this snapshot has come; `None` if it has not begun.
    fn reached(
        &self,
        disk: &dyn Disk,
        config: &SpoolConfig,
        target: RestoreTarget,
    ) -> Result<Option<Reached>, SpoolError> {
        let (dir, paths) = (&config.dir, SpoolPaths::new(&config.dir));
        let secret = dir.join("secret");
        let Some(own) = read_secret_file(disk, &secret).map_err(SpoolError::io("read", &secret))? else {
            return Ok(None);
        };
        let refused = |why| {
            let into = "restore into a directory that has a newsreel.toml and nothing else";
            Err(SpoolError::Unfit(format!("{} {why}; {into}", dir.display())))
        };
        if own != self.secret {
            return refused("has a spool of its own, which newsreel init, up or serve has made");
        }
        let reached = |path: &Path| {
            let is_there = disk.has_name(path).map_err(SpoolError::io("examine", path))?;
            let read = is_there.then(|| RestoringMarker::read(disk, path, &self.name));
            read.transpose().map_err(SpoolError::io("read", path))
        };
        match reached(&paths.restoring)? {
            Some(Some(reached)) => return Ok(Some(reached)),
            Some(None) => {
                let why = format!("{} has a part of another snapshot", dir.display());
                return Err(must_begin_again(config, &why));
            }
            None if target == RestoreTarget::New => return refused("has the news of this site already"),
            None => {}
        }
        match reached(&paths.restored)? {
            Some(Some(_)) => Ok(Some(Reached::WHOLE)),
            _ => {
                let why = format!("{} has news of this site that is not of this snapshot", dir.display());
                Err(must_begin_again(config, &why))
            }
        }
    }

    /// Gives a new spool the secret of the snapshot, and marks it as restored in part.
    fn prepare(
        &self,
        disk: &dyn Disk,
        config: &SpoolConfig,
        reached: Reached,
    ) -> Result<RestoringMarker, SpoolError> {
        let (dir, marker) = (&config.dir, SpoolPaths::new(&config.dir).restoring);
        let secret = dir.join("secret");
        disk.create_dir(dir).map_err(SpoolError::io("create", dir))?;
        let made = RestoringMarker::begin(disk, &marker, &self.name, reached);
        let made = made.map_err(SpoolError::io("write", &marker))?;
        let own = read_secret_file(disk, &secret).map_err(SpoolError::io("read", &secret))?;
        if own.is_none() {
            let text = secret_text(&self.secret);
            durable_replace(disk, &secret, &[text.as_bytes()], FileAccess::Owner)
                .map_err(SpoolError::io("write", &secret))?;
        }
        Ok(made)
    }
}

/// A restoration in progress.
struct Restoration<'s> {
    spool: &'s Spool,
    /// Notes what is applied; `None` if all was applied before.
    marker: Option<RestoringMarker>,
    /// How much was applied before.
    reached: Reached,
    /// Time of the changes, in Unix seconds.
    time: u64,
    /// Time before which the Message-IDs had arrived that are forgotten at the end, if the snapshot says so.
    ids_before: Option<u32>,
    report: RestoreReport,
    /// Number of articles that lived, and digest, according to the last entry.
    end: Option<(u64, Option<u128>)>,
}

impl Restoration<'_> {
    /// Applies the entries of a frame, except those that were applied before.
    fn apply(&mut self, frame_end: u64, entries: &[SnapshotEntry<'_>]) -> Result<(), SpoolTrouble> {
        entries.iter().for_each(|entry| self.note(entry));
        let applied = self.reached.entries_of(frame_end).min(entries.len());
        let (before, rest) = entries.split_at(applied);
        let is_article = |entry: &&SnapshotEntry<'_>| matches!(entry, SnapshotEntry::Article { .. });
        self.report.known += before.iter().filter(is_article).count() as u64;
        // Groups are made together, since each change waits for the disk.
        let removed = rest.iter().position(|entry| matches!(entry, SnapshotEntry::GroupRemoved { .. }));
        let (first, _) = rest.split_at(removed.unwrap_or(rest.len()));
        self.add_groups(first.iter())?;
        let is_left = |at: usize, entry: &SnapshotEntry<'_>| {
            at >= first.len() || !matches!(entry, SnapshotEntry::Group(_))
        };
        let left: Vec<(usize, &SnapshotEntry<'_>)> =
            rest.iter().enumerate().filter(|(at, entry)| is_left(*at, entry)).collect();
        let are_alike = |(_, a): &(usize, &SnapshotEntry<'_>), (_, b): &(usize, &SnapshotEntry<'_>)| {
            is_filed(a) && is_filed(b) || discriminant(*a) == discriminant(*b)
        };
        for run in left.chunk_by(are_alike) {
            let (places, alike): (Vec<usize>, Vec<&SnapshotEntry<'_>>) = run.iter().copied().unzip();
            self.apply_run(&alike)?;
            let upto = applied + places.last().map_or(0, |last| last + 1);
            let reached = Reached { frame_end, entries: u32::try_from(upto).unwrap_or(u32::MAX) };
            let noted = self.marker.as_mut().map_or(Ok(()), |marker| marker.note(reached));
            noted.map_err(|error| trouble("note how much is restored", &error))?;
        }
        Ok(())
    }

    /// Takes from an entry what counts also if it was applied before.
    fn note(&mut self, entry: &SnapshotEntry<'_>) {
        match entry {
            SnapshotEntry::Begin { time, .. } => self.time = u64::from(*time),
            SnapshotEntry::Position { record } => self.report.position = Some(record.to_vec()),
            SnapshotEntry::Forgotten { ids_before } => self.ids_before = Some(*ids_before),
            SnapshotEntry::End { articles, ids, digest, .. } => {
                self.report.ids = *ids;
                self.end = Some((*articles, *digest));
            }
            _ => {}
        }
    }

    /// Applies entries of one kind.
    fn apply_run(&mut self, run: &[&SnapshotEntry<'_>]) -> Result<(), SpoolTrouble> {
        match run.first() {
            Some(SnapshotEntry::Article { .. } | SnapshotEntry::Remember { .. }) => self.file(run),
            Some(SnapshotEntry::Group(_)) => self.add_groups(run.iter().copied()),
            Some(SnapshotEntry::GroupNow(_)) => self.groups_now(run),
            Some(SnapshotEntry::GroupRemoved { .. }) => self.groups_removed(run),
            Some(SnapshotEntry::Leave { .. }) => self.leave(run),
            Some(SnapshotEntry::Withdraw { .. }) => {
                let keys = run.iter().filter_map(|entry| match entry {
                    SnapshotEntry::Withdraw { key } => Some(*key),
                    _ => None,
                });
                let living: Vec<LocatedArticle> = keys.filter_map(|key| self.located(key)).collect();
                self.all(living.iter().map(|article| Change::Cancel { id: ArticleIdent::Located(article) }))
            }
            Some(SnapshotEntry::Forget { .. }) => self.all(run.iter().filter_map(|entry| match entry {
                SnapshotEntry::Forget { key } => Some(forget(*key, self.remembered(key)?)),
                _ => None,
            })),
            Some(SnapshotEntry::Hide { .. }) => {
                let hides: Vec<_> = run
                    .iter()
                    .filter_map(|entry| match entry {
                        SnapshotEntry::Hide { message_id, since, by, reason } => {
                            Some((*message_id, u64::from(*since), text(by), text(reason)))
                        }
                        _ => None,
                    })
                    .collect();
                self.all(hides.iter().map(|(message_id, since, by, reason)| Change::Hide {
                    message_id,
                    by,
                    reason,
                    since: *since,
                }))
            }
            Some(SnapshotEntry::Note { .. }) => self.all(run.iter().filter_map(|entry| match entry {
                SnapshotEntry::Note { kind, since, key, value } => {
                    let since = u64::from(*since);
                    Some(Change::Note { kind: *kind, key, value: Some(value), since })
                }
                _ => None,
            })),
            Some(SnapshotEntry::End { forgotten_at, .. }) => self.forget_old(*forgotten_at),
            _ => Ok(()),
        }
    }

    /// Adds groups that articles are about to name.
    fn add_groups<'e>(
        &self,
        entries: impl Iterator<Item = &'e SnapshotEntry<'e>>,
    ) -> Result<(), SpoolTrouble> {
        let named = entries.filter_map(|entry| match entry {
            SnapshotEntry::Group(group) => Some(GroupUpdate::Add(new_group(group))),
            _ => None,
        });
        self.groups(&named.collect::<Vec<_>>())
    }

    /// Removes groups, whose names keep their high marks.
    fn groups_removed(&self, run: &[&SnapshotEntry<'_>]) -> Result<(), SpoolTrouble> {
        let mut marks: BTreeMap<String, u64> = BTreeMap::new();
        for entry in run {
            let SnapshotEntry::GroupRemoved { name, high } = entry else { continue };
            let mark = marks.entry(text(name)).or_default();
            *mark = (*mark).max(*high);
        }
        let add = |(name, high): (&String, &u64)| {
            GroupUpdate::Add(NewGroup { name: name.clone(), high: *high, ..NewGroup::default() })
        };
        let raise = |(name, high): (&String, &u64)| GroupUpdate::RaiseHigh(name.clone(), *high);
        self.groups(&marks.iter().map(add).collect::<Vec<_>>())?;
        self.groups(&marks.iter().map(raise).collect::<Vec<_>>())?;
        self.groups(&marks.keys().cloned().map(GroupUpdate::Remove).collect::<Vec<_>>())
    }

    /// Takes articles out of groups.
    fn leave(&self, run: &[&SnapshotEntry<'_>]) -> Result<(), SpoolTrouble> {
        let mut left: BTreeMap<ArticleKey, Vec<String>> = BTreeMap::new();
        for entry in run {
            let SnapshotEntry::Leave { key, groups } = entry else { continue };
            left.entry(*key).or_default().extend(groups.iter().map(|name| text(name)));
        }
        let table = self.spool.shared.groups.snapshot();
        let living = left.into_iter().filter_map(|(key, groups)| {
            let article = self.located(key)?;
            let is_named = |name: &[u8]| groups.iter().any(|group| group.as_bytes() == name);
            let (inside, _) = living_numbers(&article, &table, is_named);
            // One that is in none of them has left them before.
            (!inside.is_empty()).then_some((article, groups))
        });
        let living: Vec<(LocatedArticle, Vec<String>)> = living.collect();
        self.all(living.iter().map(|(article, groups)| {
            let id = ArticleIdent::Located(article);
            Change::Expire { id, groups }
        }))
    }

    /// Forgets what was forgotten while the snapshot was written. All its notes are from then or later.
    fn forget_old(&self, forgotten_at: u32) -> Result<(), SpoolTrouble> {
        let Some(ids_before) = self.ids_before else {
            return self.spool.apply(u64::from(forgotten_at), &[], &mut Vec::new()).map(drop);
        };
        let mut writer = self.spool.writer.lock_at(self.time);
        writer.accepting()?;
        writer.forget_as(JournalRow::Forgotten { at: forgotten_at, ids_before, notes_before: 0 })
    }

    /// Returns when a Message-ID arrived that is known without an article.
    fn remembered(&self, key: &ArticleKey) -> Option<u32> {
        match self.spool.shared.history.lookup(key) {
            HistoryLookup::Remembered { arrived } => Some(arrived),
            _ => None,
        }
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

    /// Files articles and ids. What was remembered when the snapshot began may have been forgotten, and filed
    /// or remembered again: the last entry of a Message-ID counts.
    fn file(&mut self, run: &[&SnapshotEntry<'_>]) -> Result<(), SpoolTrouble> {
        let hasher = &self.spool.shared.hasher;
        let drafts: Vec<Option<RestoredArticle<'_>>> =
            run.iter().map(|entry| RestoredArticle::of(entry)).collect();
        let key = |(entry, draft): (&&SnapshotEntry<'_>, &Option<RestoredArticle<'_>>)| match (entry, draft) {
            (SnapshotEntry::Remember { key, .. }, _) => Some(*key),
            // An article that cannot be parsed was never filed.
            (_, draft) => Some(hasher.key(draft.as_ref()?.message_id)),
        };
        let keys: Vec<Option<ArticleKey>> = run.iter().zip(&drafts).map(key).collect();
        let bits = |key: &ArticleKey| key.0 >> 32;
        let last: HashMap<u128, usize> =
            keys.iter().enumerate().filter_map(|(at, key)| Some((bits(key.as_ref()?), at))).collect();
        let (mut changes, mut forgotten) = (Vec::with_capacity(run.len()), Vec::new());
        for (at, ((entry, draft), key)) in run.iter().zip(&drafts).zip(&keys).enumerate() {
            let Some(key) = key else { continue };
            match (entry, draft) {
                (_, Some(draft)) => {
                    forgotten.extend(self.remembered(key).map(|known| forget(*key, known)));
                    changes.push(Change::Article(NewArticle { key: Some(*key), ..draft.article() }));
                }
                (SnapshotEntry::Remember { arrived, .. }, _) if last.get(&bits(key)) == Some(&at) => {
                    let known = self.remembered(key).filter(|known| known != arrived);
                    forgotten.extend(known.map(|known| forget(*key, known)));
                    let (id, arrived) = (ArticleIdent::Key(*key), u64::from(*arrived));
                    changes.push(Change::Remember { id, arrived });
                }
                _ => {}
            }
        }
        self.all(forgotten.into_iter())?;
        let mut outcomes = Vec::with_capacity(changes.len());
        // Articles of one class are stored in their order, and none before the ids that precede them are in
        // the journal, so a kill leaves none without what comes before it: history keeps the order.
        let classes = self.spool.writer.lock().classes_of(&changes);
        let (mut rest, mut classes) = (&changes[..], &classes[..]);
        while !rest.is_empty() {
            let first = classes.iter().flatten().next();
            let same = classes.iter().take_while(|class| class.is_none() || class.as_ref() == first).count();
            let (now, later) = rest.split_at(ids_last(rest).min(same).clamp(1, rest.len()));
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

    fn groups(&self, updates: &[GroupUpdate]) -> Result<(), SpoolTrouble> {
        updates.chunks(UPDATES_TOGETHER).try_for_each(|some| self.all([Change::Groups(some)].into_iter()))
    }

    /// Applies changes of one kind together; none of them may be refused.
    fn all<'c>(&self, changes: impl Iterator<Item = Change<'c>>) -> Result<(), SpoolTrouble> {
        let mut outcomes = Vec::new();
        self.spool.apply(self.time, &changes.collect::<Vec<_>>(), &mut outcomes)?;
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

/// Returns the length of the changes up to the first article that follows an id.
fn ids_last(changes: &[Change<'_>]) -> usize {
    let is_article = |change: &Change<'_>| matches!(change, Change::Article(_));
    let articles = changes.iter().take_while(|change| is_article(change)).count();
    let ids = changes.iter().skip(articles).take_while(|change| !is_article(change)).count();
    articles + ids
}

fn forget(key: ArticleKey, arrived: u32) -> Change<'static> {
    Change::Forget { id: ArticleIdent::Key(key), arrived }
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
