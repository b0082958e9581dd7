//! The commit: a batch of articles and remembered ids is stored, journaled and published together.
//!
//! Order, per part of a batch: assign numbers and places, displace the articles at those places, write the
//! bytes, write the journal rows (the commit point), publish the articles. One thread at a time executes
//! this.

mod ahead;
mod claims;
mod full;
mod hiding;
mod naming;
mod place;
mod record;

use crate::index::change::{ArticleIdent, Change, ChangeOutcome, CommitTicket, FiledArticle};
use crate::index::checkpoint;
use crate::index::fold::{Folds, PublishContext, PublishedArticle, is_full};
use crate::index::hidden::PendingHides;
use crate::write::behind::WriteBehind;
use crate::write::fence::Fence;
use crate::write::floor::Floors;
use crate::write::leaving::ExpiryRow;
use crate::write::manager::Class;
use crate::write::policy::ExpiryPolicy;
use crate::write::syncer::{CheckpointHandover, SyncState, failed_sync};
use hashbrown::HashSet;
use naming::{FilingArticle, FoundGroups};
use place::{Placement, planned};
use spool_base::config::{BufferConfig, ClassConfig};
use spool_base::error::{SpoolTrouble, TroubleKind};
use spool_base::hidden::HiddenArticle;
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::moved;
use spool_base::token::Token;
use spool_base::{bug, own_bug};
use spool_history::HistoryLookup;
use spool_journal::{GroupsFile, JournalRow, JournalWriter, VolumeRow};
use spool_methods::packing::PackedArticle;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use tracing::{info, warn};

/// Prefetch distance, in articles, for cache lines that the commit will write.
const FETCHED_AHEAD: usize = 4;
/// Maximum number of entries in a part: they are looked up together.
const LOOKED_UP_MAX: usize = 1024;

/// Records to be written to one volume in one call.
#[derive(Debug)]
struct WriteRun {
    volume: usize,
    place: u64,
    /// Write position after the records.
    end: u64,
    bytes: Range<usize>,
}

/// Data of an entry between its preparation and its publication: what its row has, with the places of its
/// texts in the [`CommitScratch`].
#[derive(Debug, Default)]
struct PreparedEntry {
    /// Index of its change in the batch.
    at: usize,
    key: ArticleKey,
    token: Option<Token>,
    arrived: u32,
    expires: u32,
    stored_bytes: u64,
    sequence: u64,
    numbers: Range<usize>,
    row_numbers: Range<usize>,
    xref: Range<usize>,
    fields: Range<usize>,
    /// Entry of an article that is hidden from the start.
    hidden: Option<Box<HiddenArticle>>,
}

/// Buffers of a part, reused for the next one.
#[derive(Debug, Default)]
struct CommitScratch {
    /// Record bytes by volume.
    stage: Vec<Vec<u8>>,
    /// Planned write positions by volume.
    heads: Vec<Option<u64>>,
    runs: Vec<WriteRun>,
    prepared: Vec<PreparedEntry>,
    numbers: Vec<(GroupId, u64)>,
    text: Vec<u8>,
    /// Numbers as article rows have them.
    row_numbers: Vec<u8>,
    promises: Vec<(GroupId, u64)>,
    keys: HashSet<u128>,
    /// Keys of the entries, followed by the results of looking them up in history.
    asked: Vec<ArticleKey>,
    known: Vec<HistoryLookup>,
    bytes: u64,
    sync_first: bool,
    xref: Vec<u8>,
    /// Headers of one article.
    head: Vec<u8>,
}

impl CommitScratch {
    fn clear(&mut self, volumes: usize) {
        self.stage.resize_with(volumes, Vec::new);
        self.stage.iter_mut().for_each(Vec::clear);
        self.heads.clear();
        self.heads.resize(volumes, None);
        self.runs.clear();
        self.prepared.clear();
        self.numbers.clear();
        self.text.clear();
        self.row_numbers.clear();
        self.promises.clear();
        self.keys.clear();
        self.asked.clear();
        self.known.clear();
        self.bytes = 0;
        self.sync_first = false;
    }

    /// Returns the records prepared for a volume.
    fn staged(&self, volume: usize) -> Result<&[u8], SpoolTrouble> {
        self.stage.get(volume).map(Vec::as_slice).ok_or_else(|| own_bug!("volume {volume} has no stage"))
    }

    /// Plans a volume's write position.
    fn plan_head(&mut self, volume: usize, head: u64) -> Result<(), SpoolTrouble> {
        let planned =
            self.heads.get_mut(volume).ok_or_else(|| own_bug!("volume {volume} has no planned position"))?;
        *planned = Some(head);
        Ok(())
    }
}

/// The spool's only writer.
#[derive(Debug)]
pub(crate) struct SpoolWriter {
    pub folds: Folds,
    pub journal: JournalWriter,
    pub classes: Vec<Class>,
    /// Buffers in the current configuration.
    pub buffers: Vec<BufferConfig>,
    pub sync: Arc<SyncState>,
    pub groups: Arc<GroupsFile>,
    /// Expiry rows that are written but not applied yet.
    pub leaving: VecDeque<ExpiryRow>,
    /// Journal position after those rows.
    pub leaving_upto: u64,
    /// Whether the disk was full since spent files were left last: there may be room for a row only.
    was_full: bool,
    /// Rows since the last checkpoint was taken.
    pub rows: u64,
    /// Journal position of the last checkpoint, and length of that checkpoint.
    pub checkpointed: (u64, u64),
    /// Whether a checkpoint is due, but the disk was full.
    checkpoint_late: bool,
    /// Whether the current journal file lacks its first rows, since the disk was full.
    journal_state_late: bool,
    /// Position in the last `Synced` row.
    pub synced_told: u64,
    /// Record of a position that the next rows lead to; its row is written with them.
    pub next_position: Option<Vec<u8>>,
    scratch: CommitScratch,
    fence: Fence,
    /// Volume whose next cycle an article waits for, and the first place of that cycle.
    entering: Option<(usize, u64)>,
    /// Expiry policy of retained articles.
    pub policy: Arc<ExpiryPolicy>,
    /// Fingerprint of the set of groups at the last pass of expiry.
    pub groups_expired: u64,
    /// Volumes that give up articles, until enough space is free again.
    pub giving_up: HashSet<u16>,
    /// Knowledge about the oldest articles of classes with a floor.
    pub floors: Floors,
    /// Classes that are no longer in the configuration; their volumes stay until a restart.
    pub left: Vec<ClassConfig>,
    /// Counter that increases with every change of the configuration.
    pub generation: u64,
    /// Compressed articles of the current batch, by entry.
    packed: Vec<Option<PackedArticle>>,
    /// Releases memory after a busy feed's writes.
    pub behind: WriteBehind,
}

impl SpoolWriter {
    pub fn new(mut folds: Folds, journal: JournalWriter, classes: Vec<Class>, sync: Arc<SyncState>) -> Self {
        let groups = folds.shared.groups_file.clone();
        journal.sync_set().put_groups(&groups);
        let synced_told = journal.end();
        let buffers = folds.shared.config.buffers.clone();
        let checkpointed = (journal.end(), 0);
        let fence = Fence::new(&folds.shared.volumes.load());
        let behind = WriteBehind::new(folds.shared.config.hot_memory);
        folds.ahead = PendingHides::default();
        Self {
            folds,
            journal,
            classes,
            buffers,
            sync,
            groups,
            rows: 0,
            checkpoint_late: false,
            leaving: VecDeque::new(),
            leaving_upto: 0,
            was_full: false,
            journal_state_late: false,
            checkpointed,
            synced_told,
            next_position: None,
            scratch: CommitScratch::default(),
            fence,
            entering: None,
            floors: Floors::default(),
            policy: Arc::default(),
            groups_expired: 0,
            giving_up: HashSet::new(),
            left: Vec::new(),
            generation: 0,
            packed: Vec::new(),
            behind,
        }
    }

    /// Returns the current classes of the articles of a batch, valid while the generation stays the same.
    pub fn classes_of(&self, batch: &[Change<'_>]) -> Vec<Option<usize>> {
        let table = self.folds.shared.groups.table();
        let class = |change: &Change<'_>| {
            let Change::Article(new) = change else { return None };
            let mut found = FoundGroups::default();
            self.class_of(&FilingArticle::of(new, ArticleKey::default(), &table, &mut found)?)
        };
        batch.iter().map(class).collect()
    }

    /// Like [`SpoolWriter::commit`], with articles of the batch that were compressed beforehand, entry by
    /// entry.
    pub fn commit_packed(
        &mut self,
        batch: &[Change<'_>],
        packed: Vec<Option<PackedArticle>>,
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<CommitTicket, SpoolTrouble> {
        self.packed = packed;
        let result = self.commit(batch, outcomes);
        self.packed.clear();
        result
    }

    /// Commits a batch, part by part. On `Err` the outcomes so far are valid; the other entries were not
    /// accepted.
    pub fn commit(
        &mut self,
        batch: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<CommitTicket, SpoolTrouble> {
        let mut done = 0;
        let mut ticket = CommitTicket(self.journal.end());
        while done < batch.len() {
            self.sync.wait_for_room();
            self.accepting()?;
            self.hide_ahead(batch.iter().skip(done).take(LOOKED_UP_MAX))?;
            let n = self.commit_part(batch, done, outcomes)?;
            if n == 0 {
                match self.entering.take() {
                    Some((volume, head)) => self.enter_cycle(volume, head)?,
                    None => self.move_fence()?,
                }
                continue;
            }
            done += n;
            ticket = CommitTicket(self.journal.end());
            self.after_part(n as u64);
        }
        Ok(ticket)
    }

    /// Moves a volume's write position to the first place of a cycle, durably.
    fn enter_cycle(&mut self, volume: usize, head: u64) -> Result<(), SpoolTrouble> {
        let shared = self.folds.shared.clone();
        let id = planned(&shared.volumes.load(), volume).map_err(|bug| self.sync.stop(bug))?.id();
        self.journal.push(&JournalRow::Skip { volume: id, head });
        self.write_now()?;
        self.folds.displace(volume, head).map_err(|e| self.sync.stop(trouble("read residents", &e)))?;
        self.fence.enter(id, head);
        Ok(())
    }

    /// Syncs everything and records that durably, so that everything written so far may be overwritten.
    fn move_fence(&mut self) -> Result<(), SpoolTrouble> {
        let shared = self.folds.shared.clone();
        self.sync.sync_now(&shared).map_err(|e| self.sync.stop(failed_sync(&e)))?;
        self.tell_synced(self.sync.durable());
        self.write_now()?;
        self.fence.all_told(&shared.volumes.load());
        Ok(())
    }

    /// Records in the journal up to where everything is durable, if that has changed.
    fn tell_synced(&mut self, durable: u64) {
        if durable > self.synced_told {
            self.synced_told = durable;
            self.journal.push(&JournalRow::Synced { upto: durable });
            self.fence.told(durable, self.journal.pushed_end());
        }
    }

    /// Commits as many entries from `done` on as fit into one part; returns how many: none if the fence must
    /// be moved first.
    fn commit_part(
        &mut self,
        batch: &[Change<'_>],
        done: usize,
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<usize, SpoolTrouble> {
        let mut s = std::mem::take(&mut self.scratch);
        let (shared, written) = (self.folds.shared.clone(), self.journal.end());
        let (groups, volumes) = (shared.groups.table(), shared.volumes.load());
        let context = PublishContext { groups: &groups, volumes: &volumes, now: self.folds.time };
        s.clear(volumes.all().len());
        let told = outcomes.len();
        let keys = batch.iter().skip(done).take(LOOKED_UP_MAX).map(|change| change.key(&shared.hasher));
        s.asked.extend(keys);
        shared.history.lookup_all(&s.asked, &mut s.known);
        let result = self.prepare_all(batch, done, &context, &mut s, outcomes);
        let result = result.and_then(|n| self.store_and_publish(batch, &context, &mut s).map(|()| n));
        self.scratch = s;
        match result {
            Ok(n) => Ok(n),
            Err(trouble) => {
                self.journal.discard();
                shared.history.release();
                outcomes.truncate(told);
                if self.journal.end() == written {
                    self.forget_numbers();
                }
                self.forget_promises();
                Err(self.sync.stop(trouble))
            }
        }
    }

    /// Prepares entries from `done` on until one must wait for the next part; returns how many.
    fn prepare_all(
        &mut self,
        batch: &[Change<'_>],
        done: usize,
        context: &PublishContext<'_>,
        s: &mut CommitScratch,
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<usize, SpoolTrouble> {
        let mut n = 0;
        for change in batch.iter().skip(done).take(LOOKED_UP_MAX) {
            if let Some(Change::Article(later)) = batch.get(done + n + FETCHED_AHEAD)
                && let Some(groups) = later.groups.ids_in(context.groups)
            {
                self.fetch_numbers(groups);
                groups.iter().filter_map(|id| context.groups.get(*id)).for_each(|group| group.fetch());
            }
            let packed = self.packed.get_mut(done + n).and_then(Option::take);
            let Some((key, found)) = s.asked.get(n).copied().zip(s.known.get(n)) else {
                return Err(own_bug!("history was not asked for entry {n} of a part"));
            };
            let is_known = *found != HistoryLookup::None || s.keys.contains(&key.0);
            let outcome = match change {
                _ if is_known => Ok(Some(ChangeOutcome::Duplicate)),
                Change::Article(new) => {
                    let mut found = FoundGroups::default();
                    match FilingArticle::of(new, key, context.groups, &mut found) {
                        Some(f) => self.prepare(&f, done + n, packed.as_ref(), context, s),
                        None => Ok(Some(ChangeOutcome::NoGroup)),
                    }
                }
                Change::Remember { id, arrived } => Ok(Some(self.remember_id(id, key, *arrived, s))),
                _ => Err(own_bug!("a change of another kind is filed")),
            };
            match outcome {
                Ok(Some(outcome)) => outcomes.push(outcome),
                Ok(None) => {
                    if let Some(slot) = self.packed.get_mut(done + n) {
                        *slot = packed;
                    }
                    break;
                }
                Err(bug) => {
                    self.take_back(context, s);
                    return Err(bug);
                }
            }
            n += 1;
        }
        Ok(n)
    }

    fn store_and_publish(
        &mut self,
        batch: &[Change<'_>],
        context: &PublishContext<'_>,
        s: &mut CommitScratch,
    ) -> Result<(), SpoolTrouble> {
        if s.prepared.is_empty() {
            return Ok(());
        }
        if let Err(trouble) = self.reserve(s) {
            self.take_back(context, s);
            return Err(trouble);
        }
        let durable = self.sync.durable();
        self.fence.follow(durable, self.journal.end(), context.volumes);
        self.tell_synced(durable);
        for (volume, head) in s.heads.iter().enumerate() {
            if let Some(head) = head {
                self.folds.displace(volume, *head).map_err(|e| trouble("read residents", &e))?;
            }
        }
        self.write_records(context, s)?;
        let begun = self.behind.begin();
        self.journal.write().map_err(|e| trouble("write journal", &e))?; // COMMIT POINT
        let (file, end) = self.journal.file_end();
        self.behind.wrote(begun, None, file, end);
        if s.sync_first {
            self.journal.sync_set().sync().map_err(|e| failed_sync(&e))?;
        }
        let mut articles = 0;
        let groups_of = |place: usize| {
            let numbers = s.prepared.get(place).and_then(|p| s.numbers.get(p.numbers.clone()));
            numbers.unwrap_or_default().iter().filter_map(|(id, _)| context.groups.get(*id))
        };
        (0..2 * FETCHED_AHEAD).flat_map(groups_of).for_each(|group| group.fetch());
        for (i, p) in s.prepared.iter().enumerate() {
            groups_of(i + 2 * FETCHED_AHEAD).for_each(|group| group.fetch());
            groups_of(i + FETCHED_AHEAD).for_each(|group| group.fetch_next_writes());
            let Some(token) = p.token else {
                self.folds.remember(p.key, p.arrived);
                continue;
            };
            let Some(Change::Article(new)) = batch.get(p.at) else {
                return Err(own_bug!("change {} was filed as an article", p.at));
            };
            let published = PublishedArticle {
                row: p.row(new, token, s)?,
                numbers: part(&s.numbers, &p.numbers)?,
                xref: part(&s.text, &p.xref)?,
                hidden: p.hidden.as_deref(),
            };
            articles += u64::from(self.folds.publish(context, &published));
        }
        self.folds.count_published(articles);
        self.folds.turn_rings(false);
        self.journal.reveal(self.folds.next_sequence);
        self.sync.wrote(s.bytes);
        Ok(())
    }

    /// Writes the records of a part to their volumes.
    fn write_records(&mut self, context: &PublishContext<'_>, s: &CommitScratch) -> Result<(), SpoolTrouble> {
        for run in &s.runs {
            let bytes = part(s.staged(run.volume)?, &run.bytes)?;
            let volume = planned(context.volumes, run.volume)?;
            let begun = self.behind.begin();
            if let Err(e) = volume.write(run.place, bytes) {
                self.take_back(context, s);
                return Err(trouble("store articles", &e));
            }
            if let Some((file, end)) = volume.cycbuff().and_then(|buffer| buffer.file_at(run.end)) {
                self.behind.wrote(begun, Some(volume.id()), file, end);
            }
        }
        Ok(())
    }

    /// Assigns numbers and place to the article of a change, and builds its record and row; `None` if it must
    /// wait for the next part.
    fn prepare(
        &mut self,
        f: &FilingArticle<'_>,
        at: usize,
        packed: Option<&PackedArticle>,
        context: &PublishContext<'_>,
        s: &mut CommitScratch,
    ) -> Result<Option<ChangeOutcome>, SpoolTrouble> {
        if !self.are_free(f) {
            return Ok(Some(ChangeOutcome::NumberTaken));
        }
        if self.hides_too_much(f, s.prepared.len()) {
            // Those before it may hide others, or displace hidden ones: in a cluster the outcome must not
            // depend on what is committed together.
            return Ok(s.prepared.is_empty().then_some(ChangeOutcome::Unfit));
        }
        let token = match self.place(f, packed, context, s)? {
            Placement::Later => return Ok(None),
            // All members of a cluster file what the log has, in its order: this one waits, and those before
            // it are stored.
            Placement::NoRoom if self.follows_log() && !s.prepared.is_empty() => return Ok(None),
            Placement::NoRoom if self.follows_log() => return Err(no_room()),
            Placement::NoRoom => return Ok(Some(ChangeOutcome::Full)),
            Placement::Nowhere | Placement::Full(_) => return Ok(Some(ChangeOutcome::Unfit)),
            Placement::Trash(token) => {
                let arrived = u32::try_from(f.new.arrived).unwrap_or(u32::MAX);
                self.remember(f.key, arrived, s);
                f.new.tagged.stands_for().into_iter().for_each(|key| self.remember(key, arrived, s));
                token
            }
            Placement::At(planned) => {
                let packed = packed.filter(|p| p.class == usize::from(planned.token.class));
                self.put_article(f, at, packed, context, planned, s)?
            }
        };
        Ok(Some(ChangeOutcome::Filed(FiledArticle { token })))
    }

    /// Remembers a Message-ID; with a hash of INN's, also the marks by which such hashes are found.
    fn remember_id(
        &mut self,
        id: &ArticleIdent<'_>,
        key: ArticleKey,
        arrived: u64,
        s: &mut CommitScratch,
    ) -> ChangeOutcome {
        let seconds = u32::try_from(arrived).unwrap_or(u32::MAX);
        if let ArticleIdent::InnHash(_) = id {
            let shared = self.folds.shared.clone();
            let is_new = |mark: &ArticleKey| shared.history.lookup(mark) == HistoryLookup::None;
            for mark in moved::marks(&shared.hasher, arrived).into_iter().filter(is_new) {
                if !s.keys.contains(&mark.0) {
                    self.remember(mark, seconds, s);
                }
            }
        }
        self.remember(key, seconds, s);
        ChangeOutcome::Remembered
    }

    fn remember(&mut self, key: ArticleKey, arrived: u32, s: &mut CommitScratch) {
        s.keys.insert(key.0);
        self.journal.push(&JournalRow::Remember { key, arrived });
        s.prepared.push(PreparedEntry { key, arrived, ..PreparedEntry::default() });
    }
}

impl SpoolWriter {
    /// Does the housekeeping between parts: the next journal file, the next checkpoint.
    fn after_part(&mut self, rows: u64) {
        self.rows += rows;
        self.stop_if_late();
        self.continue_or_stop();
        self.checkpoint_if_due();
    }

    /// Takes a checkpoint after enough rows, unless rows wait to be applied, or files to be removed.
    pub fn checkpoint_if_due(&mut self) {
        let (position, bytes) = self.checkpointed;
        if self.rows >= self.folds.shared.config.checkpoint_rows
            && self.journal.end().saturating_sub(position) >= 4 * bytes
            && self.leaving.is_empty()
            && self.folds.shared.removals.is_empty()
        {
            self.checkpoint_unless_pending();
        }
    }

    /// Takes a checkpoint, unless one is being written or an index has failed.
    pub fn checkpoint_unless_pending(&mut self) {
        let may =
            self.folds.failed.is_none() && !self.sync.is_checkpoint_pending() && !self.is_between_positions();
        if may && let Err(e) = self.checkpoint() {
            self.checkpoint_is_late(&e);
        }
    }

    /// Takes a checkpoint, or postpones it if there is no space; until then nothing is accepted. Takes none
    /// if an index has failed: a restart then begins with the previous one.
    pub fn checkpoint_or_later(&mut self) -> io::Result<()> {
        if self.folds.failed.is_some() {
            return Ok(());
        }
        let taken = self.checkpoint();
        if let Err(e) = taken.as_ref()
            && is_full(e)
        {
            self.checkpoint_is_late(e);
            return Ok(());
        }
        taken
    }

    /// Stops accepting until a checkpoint can be taken.
    fn checkpoint_is_late(&mut self, e: &io::Error) {
        if !self.checkpoint_late {
            let dir = self.folds.shared.config.dir.display();
            warn!("spool {dir}: a checkpoint cannot be taken now, and the one before counts: {e}");
        }
        self.checkpoint_late = is_full(e);
        self.sync.stop(trouble("take a checkpoint", e));
    }

    /// Takes a checkpoint and passes it to the syncing thread.
    pub fn checkpoint(&mut self) -> io::Result<()> {
        if let Some(text) = &self.folds.failed {
            // A restart must not begin with an incomplete index.
            return Err(io::Error::other(text.clone()));
        }
        self.let_all_go()?;
        let volumes = self.folds.shared.volumes.load_full();
        self.folds.shared.removals.finish(&volumes)?;
        let dir = self.folds.shared.config.dir.join("index");
        let (forget_before, now) = (self.folds.shared.history.checkpoint().first_record, self.folds.time);
        let taken = checkpoint::take(&mut self.folds, &dir, self.journal.end(), now)?;
        let dead_journals = self.dead_journals(taken.position)?;
        self.checkpointed = (taken.position, taken.bytes());
        if self.checkpoint_late {
            let dir = self.folds.shared.config.dir.display();
            info!("spool {dir}: the late checkpoint at {} is taken", taken.position);
        }
        (self.rows, self.checkpoint_late) = (0, false);
        self.groups.begin();
        let groups = (self.groups.clone(), self.groups_state());
        self.sync.hand_over(CheckpointHandover { taken, groups, dead_journals, forget_before });
        Ok(())
    }

    /// Applies the expiry rows that are written, so that the indexes are those of the journal's end. Files of
    /// single articles are removed afterwards.
    pub fn let_all_go(&mut self) -> io::Result<()> {
        while !self.leaving.is_empty() {
            self.let_go().map_err(|trouble| io::Error::other(trouble.text))?;
        }
        Ok(())
    }

    /// Writes one of the two copies of each volume's state header.
    pub fn write_headers(&self) -> io::Result<()> {
        self.folds.shared.volumes.load().cycbuffs().try_for_each(|v| v.write_header(self.folds.time))
    }

    /// Commits one row and makes it durable before it is applied: for rows whose application changes bytes in
    /// place.
    pub fn commit_now(&mut self, row: &JournalRow<'_>) -> Result<(), SpoolTrouble> {
        self.accepting()?;
        self.commit_rows(std::slice::from_ref(row))
    }

    /// Commits rows and makes them durable; the caller then applies them, and has called
    /// [`SpoolWriter::accepting`] or [`SpoolWriter::may_free`]. Without rows nothing is written.
    pub fn commit_rows(&mut self, rows: &[JournalRow<'_>]) -> Result<(), SpoolTrouble> {
        if rows.is_empty() {
            return Ok(());
        }
        rows.iter().for_each(|row| self.journal.push(row));
        let position = self.next_position.take();
        position
            .iter()
            .for_each(|record| self.journal.push(&JournalRow::Position { record: record.clone() }));
        self.write_now().inspect_err(|_| self.journal.discard())?;
        self.folds.position = position.unwrap_or_else(|| std::mem::take(&mut self.folds.position));
        Ok(())
    }

    /// Records that everything up to a position in a shared log is applied.
    pub fn reach(&mut self, record: &[u8]) -> Result<(), SpoolTrouble> {
        self.accepting()?;
        self.next_position = None;
        if self.folds.position != record || self.is_between_positions() {
            self.journal.push(&JournalRow::Position { record: record.to_vec() });
            self.write_unsynced().inspect_err(|_| self.journal.discard())?;
            self.folds.position = record.to_vec();
        }
        self.after_part(0);
        Ok(())
    }

    /// Reports whether the changes come from a shared log.
    fn follows_log(&self) -> bool {
        !self.folds.position.is_empty()
    }

    /// Reports whether changes after the last position in a shared log are applied. A checkpoint would keep
    /// a recovery from taking them back.
    pub fn is_between_positions(&self) -> bool {
        self.follows_log() && self.journal.is_amid()
    }

    /// Writes the pushed rows and syncs the journal. The caller has called [`SpoolWriter::accepting`] or
    /// [`SpoolWriter::may_free`] before pushing them.
    pub fn write_now(&mut self) -> Result<(), SpoolTrouble> {
        self.rows += 1;
        self.journal.write().map_err(|e| self.sync.stop(trouble("write journal", &e)))?;
        self.journal.sync_set().sync().map_err(|e| self.sync.stop(failed_sync(&e)))?;
        self.wrote();
        Ok(())
    }

    /// Like [`SpoolWriter::write_now`], without the sync, which must precede carrying out the rows.
    pub fn write_unsynced(&mut self) -> Result<(), SpoolTrouble> {
        self.rows += 1;
        self.journal.write().map_err(|e| self.sync.stop(trouble("write journal", &e)))?;
        self.wrote();
        Ok(())
    }

    fn wrote(&mut self) {
        self.journal.reveal(self.folds.next_sequence);
        self.sync.wrote(0);
    }

    /// Takes back the numbers of a part whose rows were not written, which therefore no one has seen. In a
    /// cluster numbers follow from the log alone, however often a member tries.
    fn forget_numbers(&mut self) {
        for (group, number) in self.scratch.numbers.iter().rev() {
            if let Some(numbers) = self.folds.numbers.get_mut(group.0 as usize) {
                numbers.assigned = number.saturating_sub(1);
            }
        }
    }

    /// Forgets the promises in rows that were not written.
    fn forget_promises(&mut self) {
        let end = self.journal.end();
        for (group, _) in &self.scratch.numbers {
            if let Some(numbers) = self.folds.numbers.get_mut(group.0 as usize) {
                numbers.forget_promise_from(end);
            }
        }
    }

    /// Writes the last row and a last checkpoint.
    pub fn close(&mut self) -> io::Result<()> {
        if self.sync.trouble().is_some() || self.is_between_positions() {
            return Ok(());
        }
        // The row asserts that everything before it is durable.
        self.sync.sync_now(&self.folds.shared)?;
        while self.sync.is_checkpoint_pending() && self.sync.trouble().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        match self.write_last() {
            // Everything is durable; the next start replays the rows after the previous checkpoint.
            Err(e) if is_full(&e) => {
                self.journal.discard();
                Ok(())
            }
            written => written,
        }
    }

    fn write_last(&mut self) -> io::Result<()> {
        self.journal.push(&JournalRow::Closed);
        self.journal.write()?;
        self.folds.closed = true;
        self.journal.reveal(self.folds.next_sequence);
        self.checkpoint()
    }

    /// Forgets the oldest Message-IDs, as of a time in Unix seconds: those that arrived before the remember
    /// time and before every living article, and notes about Message-IDs that are as old. The row says which,
    /// since a replay can't tell which articles lived.
    pub fn forget_old(&mut self, at: u64) -> Result<(), SpoolTrouble> {
        let shared = self.folds.shared.clone();
        let seconds = |time: u64| u32::try_from(time).unwrap_or(u32::MAX);
        let notes_before = seconds(at.saturating_sub(shared.current.load().remember_secs));
        let old = shared.history.first_since(notes_before);
        let living = shared.history.first_living(old, &|token| shared.volumes.load().is_alive(token));
        let first_alive = if living < old { shared.history.arrival_of(living) } else { None };
        let ids_before = first_alive.unwrap_or(notes_before);
        self.forget_as(JournalRow::Forgotten { at: seconds(at), ids_before, notes_before })
    }

    /// Forgets the Message-IDs and notes that a row names.
    pub fn forget_as(&mut self, row: JournalRow<'_>) -> Result<(), SpoolTrouble> {
        self.journal.push(&row);
        self.write_unsynced().inspect_err(|_| self.journal.discard())?;
        self.folds.apply(&row).map_err(|e| self.sync.stop(trouble("forget Message-IDs", &e)))
    }

    /// Begins a journal file; each starts with the state that a rebuild could not find in the buffers.
    pub fn next_journal_file(&mut self) -> io::Result<()> {
        if !self.journal_state_late {
            self.journal.next_file()?;
        }
        self.journal_state_late = true;
        self.push_state();
        self.journal.write()?;
        self.journal_state_late = false;
        self.sync.ask();
        Ok(())
    }

    /// Pushes rows with the current identity, boot, volumes and groups.
    pub fn push_state(&mut self) {
        let shared = self.folds.shared.clone();
        self.journal.push(&JournalRow::Begun { at: u32::try_from(self.folds.time).unwrap_or(u32::MAX) });
        self.journal.push(&JournalRow::Identity(self.folds.identity.clone()));
        self.journal.push(&JournalRow::Opened { boot_id: self.folds.boot_id });
        for v in shared.volumes.load().all() {
            let row =
                VolumeRow { id: v.id(), method: v.method() as u8, name: v.name().to_owned(), head: v.head() };
            self.journal.push(&JournalRow::Volume(row));
        }
        if let Some(row) = self.folds.last_volume() {
            self.journal.push(&JournalRow::Volume(row));
        }
        let folds = &self.folds;
        let sites = (0..).zip(&folds.sites);
        self.journal.restate(sites.map(|(number, name)| JournalRow::Site { number, name: name.clone() }));
        let retired = folds.retired.iter();
        self.journal.restate(
            retired.map(|(name, high)| JournalRow::GroupRemoved { name: name.clone(), high: *high }),
        );
        let groups = shared.groups.snapshot();
        self.journal.restate(groups.sorted().iter().map(|group| JournalRow::Group(folds.group_row(group))));
        if !folds.position.is_empty() {
            // Rows after this one restate nothing.
            self.journal.push(&JournalRow::Probe);
        }
    }
}

/// Returns the part of a buffer at a range that was prepared.
fn part<'a, T>(all: &'a [T], range: &Range<usize>) -> Result<&'a [T], SpoolTrouble> {
    all.get(range.clone()).ok_or_else(|| own_bug!("{range:?} of {} were prepared", all.len()))
}

/// Returns the trouble of a member of a cluster whose storage class is full.
fn no_room() -> SpoolTrouble {
    SpoolTrouble::new(TroubleKind::Full, "a storage class has no room for an article of the log")
}

/// Returns the trouble that an error causes.
pub(crate) fn trouble(doing: &str, e: &io::Error) -> SpoolTrouble {
    if let Some(bug) = bug::in_error(e) {
        return bug.clone();
    }
    let kind = if is_full(e) { TroubleKind::Full } else { TroubleKind::Io };
    SpoolTrouble::caused_by(kind, format!("cannot {doing}: {e}"), e)
}
