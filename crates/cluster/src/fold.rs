//! The fold: applies the messages of the log, in their order, to the spool of this member.
//!
//! What it does follows from the log alone: it asks no clock, draws no number, and stops rather than guess,
//! at a gap, at a foreign or malformed message, and at trouble of the spool. Called by [`crate::Member`].

use crate::agreement::{AppliedWindow, WindowDigest};
use crate::engine::EngineMessage;
use crate::entry::{ArticleBody, ArticleEntry, LogEntry, read_body};
use crate::message::{ClusterId, LogMessage, MessageError, MessageTag};
use crate::parts::PartFiles;
use crate::position::{LogPosition, TagVerdict};
use spool::{ArticleIdent, Change, ChangeOutcome, CommitTicket, Spool, SpoolTrouble};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Seconds by which a member's clock may be ahead of the engine's.
const AHEAD_SECS_MAX: u32 = 2;
/// Maximum number of withdrawals that are carried out at once, as on a full disk.
const WITHDRAWN_AT_ONCE_MAX: usize = 64;

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryOutcome {
    /// It was a change.
    Applied(ChangeOutcome),
    /// Parts of the article are missing, at every member alike.
    NoBody,
    /// It changes nothing.
    Nothing,
}

/// A message that was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldedMessage {
    /// Tag of the message.
    pub tag: MessageTag,
    /// Whether its entries counted.
    pub verdict: TagVerdict,
    /// What became of each entry; empty if they did not count.
    pub outcomes: Vec<EntryOutcome>,
    /// Ticket of the spool.
    pub ticket: CommitTicket,
    /// Digest of the window that ends with this message, if it does and the digest is known.
    pub window: Option<WindowDigest>,
    /// Digests of windows that the message has, each with the last message of its window.
    pub digests: Vec<(u64, WindowDigest)>,
}

/// Reason why the fold stops.
#[derive(Debug)]
pub enum FoldStop {
    /// The spool belongs to no cluster.
    NoPosition,
    /// Messages are missing.
    Gap {
        /// Sequence of the next message.
        expected: u64,
        /// Sequence of the message that came.
        found: u64,
    },
    /// A message cannot be read.
    Message {
        /// Sequence of the message.
        sequence: u64,
        /// Reason.
        error: MessageError,
    },
    /// A message of another cluster.
    Foreign {
        /// Sequence of the message.
        sequence: u64,
        /// Cluster that wrote it.
        cluster: ClusterId,
    },
    /// The spool accepts nothing at the moment, or has no room.
    Trouble(SpoolTrouble),
    /// Parts of a large article cannot be kept or read.
    Parts(io::Error),
}

impl FoldStop {
    /// Reports whether the same message may be applied later, as once a disk has room again.
    pub fn passes(&self) -> bool {
        match self {
            Self::Trouble(_) => true,
            Self::Parts(error) => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }
}

impl fmt::Display for FoldStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPosition => f.write_str("the spool has no position in a log: it belongs to no cluster"),
            Self::Gap { expected, found } => {
                write!(f, "the log has message {found} where {expected} should follow")
            }
            Self::Message { sequence, error } => write!(f, "message {sequence} of the log: {error}"),
            Self::Foreign { sequence, cluster } => {
                write!(f, "message {sequence} of the log is of another cluster, {cluster}")
            }
            Self::Trouble(trouble) => trouble.fmt(f),
            Self::Parts(error) => write!(f, "parts of a large article: {error}"),
        }
    }
}

impl std::error::Error for FoldStop {}

impl From<SpoolTrouble> for FoldStop {
    fn from(trouble: SpoolTrouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// The message that was applied last, by which an older copy of the log is recognised once it has grown.
#[derive(Debug, Clone, Copy)]
pub struct AppliedMark {
    /// Sequence of the message.
    pub sequence: u64,
    /// Tag of the message; `None` if another process has applied it.
    tag: Option<MessageTag>,
}

/// A message of which some entries are applied.
#[derive(Debug)]
struct AmidMessage {
    sequence: u64,
    verdict: TagVerdict,
    /// Position once all entries are applied.
    position: LogPosition,
    outcomes: Vec<EntryOutcome>,
    /// Whether it is known what became of all entries: not after a crash within the message.
    is_known: bool,
}

/// The fold of a member.
#[derive(Debug)]
pub struct Fold {
    spool: Arc<Spool>,
    position: LogPosition,
    amid: Option<AmidMessage>,
    /// Sequence and tag of the last message, once this process has applied one.
    last: Option<(u64, MessageTag)>,
    parts: PartFiles,
    window: AppliedWindow,
    /// Names of sites by their number in this spool.
    sites: Vec<String>,
    #[cfg(test)]
    pub(crate) flaw: Option<crate::flaw::PlantedFlaw>,
}

impl Fold {
    /// Makes a spool that belongs to no cluster a member of one: its news are those of the log up to a
    /// message.
    pub fn begin(spool: &Spool, position: &LogPosition) -> Result<(), FoldStop> {
        // No recovery may cut off what came before the first position.
        spool.sync()?;
        let record = position.encode();
        let changes = [Change::Position { record: &record }];
        spool.apply(u64::from(position.time), &changes, &mut Vec::new())?;
        Ok(spool.sync()?)
    }

    /// Makes the spool of a member one that belongs to no cluster, with the same news. Everything in the log
    /// is to be applied.
    pub fn end(spool: &Spool) -> Result<(), FoldStop> {
        spool.sync()?;
        let time =
            spool.position().as_deref().and_then(LogPosition::decode).map_or(0, |position| position.time);
        spool.apply(u64::from(time), &[Change::Position { record: &[] }], &mut Vec::new())?;
        Ok(spool.sync()?)
    }

    /// Opens the fold of a member's spool.
    pub fn open(spool: Arc<Spool>) -> Result<Self, FoldStop> {
        let record = spool.position().ok_or(FoldStop::NoPosition)?;
        let position = LogPosition::decode(&record).ok_or(FoldStop::NoPosition)?;
        let parts = PartFiles::open(spool.disk(), parts_dir(&spool), &position).map_err(FoldStop::Parts)?;
        let sites = spool.site_names();
        Ok(Self {
            spool,
            position,
            amid: None,
            last: None,
            parts,
            window: AppliedWindow::new(),
            sites,
            #[cfg(test)]
            flaw: None,
        })
    }

    /// Returns the position: all entries up to there are applied.
    pub fn position(&self) -> &LogPosition {
        &self.position
    }

    /// Returns the sequence of the last message that is applied as a whole.
    pub fn reached(&self) -> u64 {
        if self.position.entries == 0 { self.position.sequence } else { self.position.sequence - 1 }
    }

    /// Returns the message that was applied last; `None` if none was.
    pub fn mark(&self) -> Option<AppliedMark> {
        let sequence = self.reached();
        let tag = self.last.filter(|(last, _)| *last == sequence).map(|(_, tag)| tag);
        (sequence > 0).then_some(AppliedMark { sequence, tag })
    }

    /// Reports whether the message at the place of a mark can be the one that was applied there. If not, the
    /// log is an older copy that has grown since.
    pub fn is_marked(&self, mark: AppliedMark, message: &EngineMessage) -> bool {
        let Ok(read) = LogMessage::read(&message.bytes) else { return false };
        // Times are not compared, as one that did not count may be later than those that did.
        read.head.cluster == self.position.cluster
            && mark.tag.map_or_else(
                || self.position.tags.clone().note(read.head.tag) != TagVerdict::Fresh,
                |tag| tag == read.head.tag,
            )
    }

    /// Returns the names of sites by their number in this spool.
    pub fn sites(&self) -> &[String] {
        &self.sites
    }

    /// Returns the spool.
    pub fn spool(&self) -> &Arc<Spool> {
        &self.spool
    }

    /// Applies a message; `None` if it was applied before. After trouble of the spool the same message is to
    /// be applied again.
    pub fn apply(&mut self, message: &EngineMessage) -> Result<Option<FoldedMessage>, FoldStop> {
        let (found, expected) = (message.sequence, self.reached() + 1);
        if found < expected {
            return Ok(None);
        }
        if found > expected {
            return Err(FoldStop::Gap { expected, found });
        }
        let bad = |error| FoldStop::Message { sequence: found, error };
        let read = LogMessage::read(&message.bytes).map_err(bad)?;
        if read.head.cluster != self.position.cluster {
            return Err(FoldStop::Foreign { sequence: found, cluster: read.head.cluster });
        }
        let entries = read_body(&read.body).map_err(bad)?;
        let mut amid = match self.amid.take() {
            Some(amid) if amid.sequence == found => amid,
            _ => self.begin_message(message, &read),
        };
        let applied = match amid.verdict {
            TagVerdict::Fresh => self.apply_entries(&read, &entries, &mut amid),
            _ => Ok(()),
        };
        let applied = applied.and_then(|()| self.end_message(&mut amid));
        match applied {
            Ok(ticket) => {
                let made = amid.is_known.then(|| self.made_of(&amid, &entries));
                let window = self.window.add(found, made.as_deref());
                self.last = Some((found, read.head.tag));
                let AmidMessage { verdict, outcomes, .. } = amid;
                let digests = entries.iter().filter_map(|entry| match entry {
                    LogEntry::Digest { upto, digest } if verdict == TagVerdict::Fresh => {
                        Some((*upto, *digest))
                    }
                    _ => None,
                });
                let digests = digests.collect();
                Ok(Some(FoldedMessage { tag: read.head.tag, verdict, outcomes, ticket, window, digests }))
            }
            Err(stop) => {
                self.amid = Some(amid);
                Err(stop)
            }
        }
    }

    /// Returns where a message begins to be applied: at its first entry, or where a crash has left off.
    fn begin_message(&mut self, message: &EngineMessage, read: &LogMessage<'_>) -> AmidMessage {
        let mut position = self.position.clone();
        let done = std::mem::take(&mut position.entries);
        let verdict = if done > 0 { TagVerdict::Fresh } else { self.judge(&mut position, read.head.tag) };
        if done == 0 && verdict == TagVerdict::Fresh {
            position.time = position.time.max(self.time_of(message, read));
        }
        position.sequence = message.sequence;
        self.parts.drop_old(&mut position, message.sequence);
        let outcomes = vec![EntryOutcome::Nothing; usize::try_from(done).unwrap_or_default()];
        AmidMessage { sequence: message.sequence, verdict, position, outcomes, is_known: done == 0 }
    }

    /// Returns what this member has made of a message, as bytes that all members must have alike: what became
    /// of its articles, and where the numbers of their groups are. What becomes of withdrawals is left out:
    /// it depends on articles from before a member has joined.
    fn made_of(&self, amid: &AmidMessage, entries: &[LogEntry<'_>]) -> Vec<u8> {
        let mut made = vec![amid.verdict as u8];
        made.extend_from_slice(&amid.position.time.to_le_bytes());
        let mut groups: BTreeSet<&[u8]> = BTreeSet::new();
        for (entry, outcome) in entries.iter().zip(&amid.outcomes) {
            match entry {
                LogEntry::Article(article) => groups.extend(article.groups.iter().flatten()),
                LogEntry::Groups(updates) => {
                    groups.extend(updates.iter().map(|update| update.name().as_bytes()))
                }
                _ => continue,
            }
            made.push(match outcome {
                EntryOutcome::Applied(ChangeOutcome::Filed(_)) => 1,
                EntryOutcome::Applied(ChangeOutcome::Duplicate) => 2,
                EntryOutcome::Applied(_) => 3,
                EntryOutcome::NoBody => 4,
                EntryOutcome::Nothing => 5,
            });
        }
        for name in groups {
            made.extend_from_slice(name);
            let group = self.spool.group_id(name).and_then(|id| self.spool.group(id));
            let numbers = group.map(|group| (group.created, group.marks().high));
            let (created, high) = numbers.unwrap_or((u64::MAX, u64::MAX));
            made.extend_from_slice(&created.to_le_bytes());
            made.extend_from_slice(&high.to_le_bytes());
        }
        made
    }

    fn judge(&self, position: &mut LogPosition, tag: MessageTag) -> TagVerdict {
        let verdict = position.tags.note(tag);
        #[cfg(test)]
        if self.flaw.is_some_and(|flaw| flaw.overlooks(verdict)) {
            return TagVerdict::Fresh;
        }
        verdict
    }

    fn time_of(&self, message: &EngineMessage, read: &LogMessage<'_>) -> u32 {
        #[cfg(test)]
        if let Some(crate::flaw::PlantedFlaw::ReadsClock(now)) = self.flaw {
            return now;
        }
        read.head.time.min(message.time.saturating_add(AHEAD_SECS_MAX))
    }

    /// Applies the entries of a message that are not applied yet.
    fn apply_entries(
        &mut self,
        read: &LogMessage<'_>,
        entries: &[LogEntry<'_>],
        amid: &mut AmidMessage,
    ) -> Result<(), FoldStop> {
        while let Some(rest) = entries.get(amid.outcomes.len()..).filter(|rest| !rest.is_empty()) {
            let unit = unit_of(rest);
            match rest.get(..unit) {
                Some([LogEntry::Part(part)]) => {
                    let member = read.head.tag.member;
                    let kept = self.parts.put(&mut amid.position, member, amid.sequence, part);
                    kept.map_err(FoldStop::Parts)?;
                    amid.outcomes.push(EntryOutcome::Nothing);
                }
                Some(unit) if unit.first().is_some_and(is_in_place) => {
                    self.apply_in_place(unit, amid, entries.len())?;
                }
                unit => self.apply_unit(unit.unwrap_or_default(), read.head.tag.member, amid)?,
            }
        }
        Ok(())
    }

    /// Applies entries that a recovery can take back.
    fn apply_unit(
        &mut self,
        unit: &[LogEntry<'_>],
        member: u16,
        amid: &mut AmidMessage,
    ) -> Result<(), FoldStop> {
        let mut position = amid.position.clone();
        let time = position.time;
        let mut bodies: Vec<Option<Cow<'_, [u8]>>> = Vec::with_capacity(unit.len());
        let mut tagged: Vec<Vec<u8>> = Vec::with_capacity(unit.len());
        for entry in unit {
            let LogEntry::Article(article) = entry else {
                bodies.push(None);
                tagged.push(Vec::new());
                continue;
            };
            bodies.push(match article.body {
                ArticleBody::Inline(bytes) => Some(Cow::Borrowed(bytes)),
                ArticleBody::Upload { upload, bytes } => {
                    let taken = self.parts.take(&mut position, member, upload, bytes);
                    taken.map_err(FoldStop::Parts)?.filter(|bytes| article.fits(bytes)).map(Cow::Owned)
                }
            });
            let mut facts = Vec::new();
            let sites = self.site_bits(article);
            article.put_facts(&sites, &mut facts);
            tagged.push(facts);
        }
        let pieces: Vec<[&[u8]; 1]> =
            bodies.iter().map(|body| [body.as_deref().unwrap_or_default()]).collect();
        let mut changes = Vec::with_capacity(unit.len());
        // Whether each entry is a change.
        let mut are_changes = Vec::with_capacity(unit.len());
        for (entry, (body, (pieces, tagged))) in
            unit.iter().zip(bodies.iter().zip(pieces.iter().zip(&tagged)))
        {
            let change = match (entry, body) {
                (LogEntry::Article(article), Some(body)) => {
                    article.change(body, pieces, tagged, u64::from(time))
                }
                (LogEntry::Article(_), None) => None,
                (entry, _) => change_of(entry, time),
            };
            are_changes.push(change.is_some());
            changes.extend(change);
        }
        let mut applied = Vec::with_capacity(changes.len());
        let result = self.spool.apply(u64::from(time), &changes, &mut applied);
        let mut applied = applied.into_iter();
        for (entry, is_change) in unit.iter().zip(are_changes) {
            let outcome = match (is_change, entry) {
                (false, LogEntry::Article(_)) => EntryOutcome::NoBody,
                (false, _) => EntryOutcome::Nothing,
                (true, _) => match applied.next() {
                    Some(outcome) => EntryOutcome::Applied(outcome),
                    None => break,
                },
            };
            amid.outcomes.push(outcome);
        }
        if unit.iter().any(|entry| matches!(entry, LogEntry::Site { .. })) {
            self.sites = self.spool.site_names();
        }
        result?;
        amid.position = position;
        Ok(())
    }

    /// Applies entries that change bytes in place, which a recovery cannot take back: everything before them
    /// is made durable, and the position is written with their rows.
    fn apply_in_place(
        &mut self,
        unit: &[LogEntry<'_>],
        amid: &mut AmidMessage,
        entries: usize,
    ) -> Result<(), FoldStop> {
        self.spool.sync()?;
        let done = amid.outcomes.len() + unit.len();
        let mut position = amid.position.clone();
        if done < entries {
            position.entries = done as u64;
        }
        let record = position.encode();
        let mut changes: Vec<Change<'_>> =
            unit.iter().filter_map(|entry| change_of(entry, position.time)).collect();
        changes.push(Change::Position { record: &record });
        let mut applied = Vec::new();
        self.spool.apply(u64::from(position.time), &changes, &mut applied)?;
        amid.outcomes.extend(applied.into_iter().take(unit.len()).map(EntryOutcome::Applied));
        self.position = position;
        Ok(())
    }

    /// Records that a message is applied.
    fn end_message(&mut self, amid: &mut AmidMessage) -> Result<CommitTicket, FoldStop> {
        let record = amid.position.encode();
        let changes = [Change::Position { record: &record }];
        let ticket = self.spool.apply(u64::from(amid.position.time), &changes, &mut Vec::new())?;
        self.position = amid.position.clone();
        if self.parts.has_unused() {
            self.spool.sync()?;
            self.parts.remove_unused().map_err(FoldStop::Parts)?;
        }
        Ok(ticket)
    }

    /// Returns the bits of the sites that want an article.
    fn site_bits(&self, article: &ArticleEntry<'_>) -> Vec<u8> {
        let mut bits = Vec::new();
        for name in article.sites() {
            let Some(number) = self.sites.iter().position(|site| site == name) else { continue };
            bits.resize(bits.len().max(number / 8 + 1), 0);
            bits.iter_mut().skip(number / 8).take(1).for_each(|byte| *byte |= 1 << (number % 8));
        }
        bits
    }
}

/// Gets the parts of the large articles that were on their way at a position, whose files another member has,
/// from the log, of which `message` returns the message of a sequence. Returns false if it no longer has all.
pub fn fetch_parts(
    spool: &Spool,
    position: &LogPosition,
    mut message: impl FnMut(u64) -> Option<EngineMessage>,
) -> Result<bool, FoldStop> {
    let Some(first) = position.uploads.iter().map(|upload| upload.begun).min() else { return Ok(true) };
    let mut found = LogPosition { uploads: Vec::new(), ..position.clone() };
    let mut files = PartFiles::open(spool.disk(), parts_dir(spool), &found).map_err(FoldStop::Parts)?;
    for sequence in first..=position.sequence {
        let Some(message) = message(sequence) else { return Ok(false) };
        let bad = |error| FoldStop::Message { sequence, error };
        let read = LogMessage::read(&message.bytes).map_err(bad)?;
        let member = read.head.tag.member;
        for entry in read_body(&read.body).map_err(bad)? {
            let LogEntry::Part(part) = entry else { continue };
            if position.uploads.iter().any(|open| (open.member, open.upload) == (member, part.upload)) {
                files.put(&mut found, member, sequence, &part).map_err(FoldStop::Parts)?;
            }
        }
    }
    Ok(found.uploads == position.uploads)
}

/// Returns the directory of parts.
fn parts_dir(spool: &Spool) -> PathBuf {
    spool.config().dir.join("parts")
}

/// Returns how many entries from the first on are applied together.
fn unit_of(entries: &[LogEntry<'_>]) -> usize {
    let run = |is_of: &dyn Fn(&LogEntry<'_>) -> bool| entries.iter().take_while(|entry| is_of(entry)).count();
    match entries.first() {
        Some(LogEntry::Part(_) | LogEntry::Forget { .. }) => 1,
        Some(entry) if is_in_parts(entry) => 1,
        Some(LogEntry::Cancel { .. }) => {
            run(&|entry| matches!(entry, LogEntry::Cancel { .. })).min(WITHDRAWN_AT_ONCE_MAX)
        }
        // Of several withdrawals of one article only the first counts, so it must be the only one.
        Some(LogEntry::Expire { .. }) => distinct_expiries(entries).min(WITHDRAWN_AT_ONCE_MAX),
        // Sites have their numbers before articles name them.
        Some(LogEntry::Site { .. }) => run(&|entry| matches!(entry, LogEntry::Site { .. })),
        _ => run(&|entry| {
            let is_apart = matches!(entry, LogEntry::Part(_) | LogEntry::Site { .. });
            !is_in_place(entry) && !is_in_parts(entry) && !is_apart
        }),
    }
}

/// Returns how many entries from the first on let articles expire, each another one.
fn distinct_expiries(entries: &[LogEntry<'_>]) -> usize {
    let mut seen = HashSet::new();
    let is_another = |entry: &&LogEntry<'_>| match entry {
        LogEntry::Expire { id: ArticleIdent::Key(key), .. } => seen.insert(*key),
        _ => false,
    };
    // One that is named otherwise is alone.
    entries.iter().take_while(is_another).count().max(1)
}

/// Reports whether an entry is an article that came in parts.
fn is_in_parts(entry: &LogEntry<'_>) -> bool {
    matches!(entry, LogEntry::Article(article) if matches!(article.body, ArticleBody::Upload { .. }))
}

fn is_in_place(entry: &LogEntry<'_>) -> bool {
    matches!(entry, LogEntry::Cancel { .. } | LogEntry::Forget { .. } | LogEntry::Expire { .. })
}

/// Returns the change of an entry that is no article.
fn change_of<'s>(entry: &'s LogEntry<'_>, time: u32) -> Option<Change<'s>> {
    Some(match entry {
        LogEntry::Remember { id, arrived } => {
            Change::Remember { id: *id, arrived: u64::from((*arrived).min(time)) }
        }
        LogEntry::Forget { id, arrived } => Change::Forget { id: *id, arrived: *arrived },
        LogEntry::Cancel { id } => Change::Cancel { id: *id },
        LogEntry::Hide { message_id, by, reason } => {
            Change::Hide { message_id, by, reason, since: u64::from(time) }
        }
        LogEntry::Note { kind, key, value } => {
            Change::Note { kind: *kind, key, value: *value, since: u64::from(time) }
        }
        LogEntry::Expire { id, groups } => Change::Expire { id: *id, groups },
        LogEntry::Unhide { id } => Change::Unhide { id: *id },
        LogEntry::Groups(updates) => Change::Groups(updates),
        LogEntry::Site { name } => Change::Site { name },
        LogEntry::Article(_)
        | LogEntry::Member(_)
        | LogEntry::Part(_)
        | LogEntry::Mark
        | LogEntry::Digest { .. }
        | LogEntry::Skipped => return None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::engine::EngineMessage;
    use crate::message::{MessageHead, encode};
    use disk::SimDisk;
    use spool::{ArticleKey, ChangeRefusal, NoteKind, SpoolConfig, put_bytes, put_varint};

    /// Time at which the log of tests was created.
    pub(crate) const CREATED: u64 = 7;

    /// Opens the fold of a spool, which belongs to the cluster from the first time on.
    pub(crate) fn fold_on(disk: &SimDisk) -> Fold {
        let config = SpoolConfig::new(std::path::Path::new("/s"));
        let (spool, _) = Spool::open(Arc::new(disk.clone()), config, &()).unwrap();
        if spool.position().is_none() {
            let position = LogPosition::after(ClusterId([1; 8]), CREATED, 0, 0);
            Fold::begin(&spool, &position).unwrap();
        }
        Fold::open(Arc::new(spool)).unwrap()
    }

    /// An earlier version has proposed what no spool can carry out, and the log has it.
    #[test]
    fn a_member_goes_on_after_what_is_refused() {
        let long = [b'x'; 20_000];
        let payload = |fields: &[&[u8]]| {
            let mut payload = Vec::new();
            fields.iter().for_each(|field| put_bytes(field, &mut payload));
            payload
        };
        // One update, which adds the group of the first name.
        let mut group = vec![1, 0, 0];
        put_bytes(b"y", &mut group);
        group.extend_from_slice(&payload(&[&long, b"creator"]));
        group.extend_from_slice(&[0, 0]);
        let mut note = vec![NoteKind::ControlDate.code()];
        put_bytes(b"key", &mut note);
        note.push(1);
        put_bytes(&long, &mut note);
        let entries = [
            (5, payload(&[b"<a@b>", b"operator", &long])),
            (5, payload(&[b"<a@b>", b"", b"why"])),
            (7, group),
            (9, note),
            (5, payload(&[b"<a@b>", b"operator", b"why"])),
        ];
        let mut body = vec![1];
        put_bytes(b"local.test", &mut body);
        put_varint(entries.len() as u64, &mut body);
        for (kind, payload) in &entries {
            body.push(*kind);
            put_bytes(payload, &mut body);
        }
        let tag = MessageTag { member: 1, incarnation: 1, counter: 0 };
        let head = MessageHead { cluster: ClusterId([1; 8]), tag, revision: 0, time: 9 };
        let bytes = encode(&head, &body, false).unwrap().into();
        let mut fold = fold_on(&SimDisk::new());
        let folded = fold.apply(&EngineMessage { sequence: 1, time: 9, bytes }).unwrap().unwrap();
        let refused = |refusal| EntryOutcome::Applied(ChangeOutcome::Refused(refusal));
        let expected = [
            refused(ChangeRefusal::Hider),
            refused(ChangeRefusal::Hider),
            refused(ChangeRefusal::GroupText),
            refused(ChangeRefusal::Note),
            EntryOutcome::Applied(ChangeOutcome::NotHere),
        ];
        assert_eq!(folded.outcomes, expected);
        assert_eq!(fold.reached(), 1);
    }

    #[test]
    fn an_article_expires_at_most_once_in_what_is_applied_together() {
        let expire = |key: u128| LogEntry::Expire {
            id: ArticleIdent::Key(ArticleKey(key)),
            groups: vec!["a.b".into()],
        };
        let named = LogEntry::Expire { id: ArticleIdent::Id(b"<a@b>"), groups: Vec::new() };
        assert_eq!(unit_of(&[expire(1), expire(2), expire(1), expire(3)]), 2);
        assert_eq!(unit_of(&[expire(1), named.clone(), expire(2)]), 1);
        assert_eq!(unit_of(&[named, expire(1)]), 1);
        let many: Vec<LogEntry<'_>> = (0..200).map(expire).collect();
        assert_eq!(unit_of(&many), WITHDRAWN_AT_ONCE_MAX);
    }
}
