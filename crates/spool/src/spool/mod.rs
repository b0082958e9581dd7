//! [`Spool`]: the handle that the server holds, for everything that it does with articles.
//!
//! Whatever else concerns an open spool belongs to types that borrow only those parts of it that they need,
//! such as [`Expiry`] and [`Verifier`]; the handle makes them.

pub(crate) mod archive;
mod digest;
pub(crate) mod maker;
mod notes;
pub(crate) mod readers;
pub(crate) mod rebuild;
pub(crate) mod snapshot;
#[cfg(test)]
mod tests;

use crate::apply::Applier;
use crate::apply::filing::Filing;
use crate::apply::forgetting::HourlyForgetting;
use crate::apply::hashes::ImportedHashes;
use crate::care::buffers::Buffers;
use crate::care::expire::{Expiry, ExpiryState};
use crate::care::explain::Tokens;
use crate::care::overview::OverviewCare;
use crate::care::reconfigure::Reconfiguration;
use crate::care::repair::Repairer;
use crate::care::status::SpoolMeter;
use crate::care::verify::Verifier;
use crate::index::change::{Change, ChangeKind, ChangeOutcome, CommitTicket};
use crate::index::fold::SharedIndexes;
use crate::index::groups::{Group, GroupTable};
use crate::index::shared_log::{JobLead, SharedLog};
use crate::open::recovery::{self, RecoveryReport};
use crate::read::article::ArticleBuf;
use crate::read::{Lookup, RowSelection};
use crate::reader::SpoolReader;
use crate::write::locked::LockedWriter;
use crate::write::syncer::{SyncState, failed_sync};
use arc_swap::ArcSwap;
use archive::CyclicArticles;
use disk::clock::unix_secs;
use disk::{Disk, Progress, ReadMode};
use netnews::GroupMarks;
use readers::JournalReaders;
use snapshot::write::Snapshots;
use spool_base::config::{Durability, SpoolConfig};
use spool_base::digest::SiteDigest;
use spool_base::error::{ReadError, SpoolError, SpoolTrouble, TroubleKind};
use spool_base::hidden::HiddenArticle;
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::latency::{LatencyCounts, LatencyHistogram};
use spool_base::ordered::{Ordered, rank};
use spool_base::status::SpoolMetrics;
use spool_base::token::Token;
use spool_history::{HistoryLookup, Reservation, Reservations};
use spool_journal::Readers;
use std::io;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time for which an offered Message-ID is reserved for the peer that was asked to send it.
const RESERVATION_TTL: Duration = Duration::from_secs(60);

/// Maximum number of Message-IDs on offer; beyond that peers are asked to try later.
const RESERVATIONS_MAX: usize = 1 << 20;

/// Answer to an offer (CHECK, IHAVE).
#[derive(Debug)]
pub enum OfferAnswer {
    /// The peer should send it; no other peer is asked to while the reservation lives.
    Wanted(Reservation),
    /// The Message-ID is already known.
    Have,
    /// Another peer was just asked to send it.
    InFlight,
    /// The article has arrived, but is not yet durable as `durability = "always"` promises: a power cut could
    /// still take it.
    Pending,
}

/// An open spool.
pub struct Spool {
    shared: Arc<SharedIndexes>,
    writer: LockedWriter,
    sync: Arc<SyncState>,
    thread: Ordered<Option<JoinHandle<()>>, { rank::THREAD }>,
    reservations: Arc<Reservations>,
    readers: Readers,
    hashes: ImportedHashes,
    forgetting: HourlyForgetting,
    /// Latest result of [`SpoolMeter::measure`].
    measured: ArcSwap<SpoolMetrics>,
    /// Times for which the writer was held, divided by the entries of a batch.
    held: LatencyHistogram,
    /// Held by a pass that compresses cold overview.
    packing_overview: Ordered<(), { rank::PACKING_OVERVIEW }>,
    /// Whether the indexes were checked for damage since the spool was opened.
    is_looked_over: AtomicBool,
    expiry: ExpiryState,
    /// Log that several machines share, if this spool follows one.
    shared_log: OnceLock<Arc<dyn SharedLog>>,
    _lock: Box<dyn Send + Sync>,
}

impl std::fmt::Debug for Spool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spool").field("dir", &self.shared.config.dir).finish()
    }
}

impl Spool {
    /// Opens a spool, creating missing parts of a new one and replaying the journal after a crash. One of
    /// which only a part is restored is refused.
    pub fn open(
        disk: Arc<dyn Disk>,
        config: SpoolConfig,
        progress: &dyn Progress,
    ) -> Result<(Self, RecoveryReport), SpoolError> {
        snapshot::is_whole(&*disk, &config.dir)?;
        Self::open_in_part(disk, config, progress)
    }

    /// Like [`Spool::open`], also if only a part is restored.
    fn open_in_part(
        disk: Arc<dyn Disk>,
        config: SpoolConfig,
        progress: &dyn Progress,
    ) -> Result<(Self, RecoveryReport), SpoolError> {
        let lock = recovery::lock(&*disk, &config.dir)?;
        let (mut writer, mut recovery) = recovery::recover(disk, config, progress)?;
        let taken = if recovery.new || recovery.rebuilt.is_some() {
            writer.checkpoint()
        } else if recovery.power_lost || recovery.lone_checkpoint {
            // The previous checkpoint and the journal are enough to serve, and to free space.
            writer.checkpoint_or_later()
        } else {
            Ok(())
        };
        // Without its journal, a rebuild does not know what was durable either.
        let power_lost = recovery.power_lost || recovery.rebuilt.is_some();
        let dir = &writer.folds.shared.config.dir;
        taken.map_err(SpoolError::io("take a checkpoint in", dir))?;
        recovery.log(dir);
        let shared = writer.folds.shared.clone();
        let (sync, readers) =
            (writer.sync.clone(), Readers::of(&writer.journal, power_lost, recovery.crashed));
        let thread = {
            let (sync, shared) = (sync.clone(), shared.clone());
            std::thread::Builder::new().name("spool-sync".into()).spawn(move || sync.run(&shared))
        };
        let thread = thread.map_err(SpoolError::io("start the syncing thread for", &shared.config.dir))?;
        let forgetting = HourlyForgetting::since(writer.folds.forgotten_at.into());
        let spool = Self {
            hashes: ImportedHashes::of(&shared),
            shared,
            writer: LockedWriter::new(writer),
            sync,
            thread: Ordered::new(Some(thread)),
            reservations: Reservations::new(RESERVATIONS_MAX),
            readers,
            forgetting,
            measured: ArcSwap::default(),
            held: LatencyHistogram::default(),
            packing_overview: Ordered::default(),
            is_looked_over: AtomicBool::new(recovery.new),
            expiry: ExpiryState::default(),
            shared_log: OnceLock::new(),
            _lock: lock,
        };
        recovery.mended = spool.repairer().look_over_at_opening();
        Ok((spool, recovery))
    }

    /// Reports whether overview rows may have more headers than the standard ones: rows that were created
    /// while some were configured have them.
    pub fn rows_have_headers(&self) -> bool {
        self.shared.row_headers.any()
    }

    /// Returns the hash of a Message-ID.
    pub fn key(&self, message_id: &[u8]) -> ArticleKey {
        self.shared.hasher.key(message_id)
    }

    /// Looks up a Message-ID in the history.
    pub fn lookup(&self, key: &ArticleKey) -> Lookup {
        self.reader().lookup(key)
    }

    /// Reports which of these Message-IDs, passed with their keys, history knows; much faster than individual
    /// look-ups.
    pub fn are_known(&self, keys: &[ArticleKey], message_ids: &[&[u8]]) -> Vec<bool> {
        let mut found = Vec::with_capacity(keys.len());
        self.shared.history.lookup_all(keys, &mut found);
        let pairs = found.iter().zip(message_ids);
        pairs.map(|(found, id)| *found != HistoryLookup::None || self.is_hash_known(id)).collect()
    }

    /// Reports whether history knows a Message-ID, with or without an article.
    pub fn is_known(&self, key: &ArticleKey) -> bool {
        self.shared.history.lookup(key) != HistoryLookup::None
    }

    /// Reports whether INN's hash of this Message-ID was imported, and is still remembered.
    pub fn is_hash_known(&self, message_id: &[u8]) -> bool {
        self.hashes.is_known(&self.shared, message_id)
    }

    /// Returns for how long Message-IDs without an article are remembered, in seconds.
    pub fn remember_secs(&self) -> u64 {
        self.shared.current.load().remember_secs
    }

    /// Returns when an article arrived (Unix seconds), and whether it is still stored; `None` if its
    /// Message-ID is unknown.
    pub fn seen(&self, key: &ArticleKey) -> Option<(u32, bool)> {
        match self.shared.history.lookup(key) {
            HistoryLookup::None => None,
            HistoryLookup::Remembered { arrived } => Some((arrived, false)),
            HistoryLookup::At(token, arrived) => Some((arrived, self.shared.volumes.load().is_alive(&token))),
        }
    }

    /// Returns the number of Message-IDs in history, with and without articles, including imported hashes and
    /// their marks.
    pub fn history_entries(&self) -> u64 {
        self.shared.history.entries()
    }

    /// Answers offers of these Message-IDs, passed with their keys, one by one.
    pub fn reserve<'s>(
        &'s self,
        keys: &'s [ArticleKey],
        message_ids: &[&[u8]],
    ) -> impl Iterator<Item = OfferAnswer> + use<'s> {
        keys.iter().zip(self.are_known(keys, message_ids)).map(|(key, is_known)| match is_known {
            true if self.is_pending(key) => OfferAnswer::Pending,
            true => OfferAnswer::Have,
            false => self
                .reservations
                .reserve(*key, RESERVATION_TTL)
                .map_or(OfferAnswer::InFlight, OfferAnswer::Wanted),
        })
    }

    /// Applies changes at a time, in Unix seconds, in their order. All news comes into the spool by this call
    /// or [`Spool::try_apply`]. Blocks for microseconds, or while the disk is slow. Returns an outcome for
    /// each. On `Err` the outcomes so far are valid, and of the other changes some may have been applied,
    /// which are unchanged if they are applied again.
    pub fn apply(
        &self,
        time: u64,
        changes: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<CommitTicket, SpoolTrouble> {
        self.forgetting.forget_old(&self.writer, time)?;
        let mut applier = Applier::new(&self.shared, &self.writer, time, outcomes);
        let mut ticket = None;
        let mut runs = changes.chunk_by(|change, next| change.kind() == next.kind()).peekable();
        while let Some(run) = runs.next() {
            applier.announce(run, runs.peek().and_then(|next| next.first()));
            match run.first().map(Change::kind) {
                Some(ChangeKind::Filing) => ticket = Some(self.filing().file(time, run, applier.outcomes)?),
                Some(ChangeKind::Withdrawing) => applier.withdraw(run)?,
                Some(ChangeKind::Forgetting) => applier.forget(run)?,
                Some(ChangeKind::Hiding) => applier.hide(run)?,
                Some(ChangeKind::Unhiding) => applier.unhide(run)?,
                Some(ChangeKind::Groups) => applier.change_groups(run)?,
                Some(ChangeKind::Noting) => applier.note(run)?,
                Some(ChangeKind::Site) => applier.name_sites(run)?,
                Some(ChangeKind::Position) => applier.reach(run)?,
                None => {}
            }
        }
        Ok(ticket.unwrap_or_else(|| self.ticket()))
    }

    /// Like [`Spool::apply`], but returns `None` if another thread is applying changes, a sync has to be
    /// waited for, or articles may have to be compressed.
    pub fn try_apply(
        &self,
        time: u64,
        changes: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Option<Result<CommitTicket, SpoolTrouble>> {
        let are_filed = changes.iter().all(|change| change.kind() == ChangeKind::Filing);
        let is_ready = are_filed && !self.forgetting.is_due(time);
        if is_ready { self.filing().try_file(time, changes, outcomes) } else { None }
    }

    fn filing(&self) -> Filing<'_> {
        let Self { shared, writer, held, hashes, .. } = self;
        Filing { shared, writer, held, hashes }
    }

    fn is_pending(&self, key: &ArticleKey) -> bool {
        self.sync.durability() == Durability::Always && self.sync.is_pending(&self.shared, key)
    }

    /// Makes everything committed so far durable, if acknowledgements promise that (G1); blocks for a sync.
    pub fn settle(&self) -> Result<(), SpoolTrouble> {
        if self.is_durable(self.ticket()) { Ok(()) } else { self.sync() }
    }

    /// Returns the durations of effective syncs since the spool was opened.
    pub fn sync_latency(&self) -> LatencyCounts {
        self.sync.latency.counts()
    }

    /// Returns the times for which the writer was held, divided equally among the entries of each batch,
    /// since the spool was opened.
    pub fn held_latency(&self) -> LatencyCounts {
        self.held.counts()
    }

    /// Makes everything committed so far durable, with any durability setting; blocks for a sync.
    pub fn sync(&self) -> Result<(), SpoolTrouble> {
        self.sync.sync_now(&self.shared).map_err(|e| self.sync.stop(failed_sync(&e)))
    }

    /// Reports whether an acknowledgement of the commit with this ticket keeps the configured promise (G1).
    pub fn is_durable(&self, ticket: CommitTicket) -> bool {
        self.sync.durability() != Durability::Always || self.sync.durable() >= ticket.0
    }

    /// Returns the ticket of everything committed so far.
    pub fn ticket(&self) -> CommitTicket {
        CommitTicket(self.sync.written())
    }

    /// Returns why nothing is accepted at the moment, if so.
    pub fn trouble(&self) -> Option<SpoolTrouble> {
        self.sync.trouble()
    }

    /// Reports whether articles are accepted at the moment. After a full disk this also checks once a second
    /// whether there is space again, without waiting for the writer.
    pub fn is_accepting(&self) -> bool {
        let tries = |trouble: &SpoolTrouble| {
            let writer = || self.writer.try_lock();
            trouble.kind == TroubleKind::Full && writer().is_some_and(|mut writer| writer.accepting().is_ok())
        };
        self.sync.trouble().as_ref().is_none_or(tries)
    }

    /// Adds a function to be called after every sync, and when accepting stops.
    pub fn on_durable(&self, callback: Box<dyn Fn() + Send + Sync>) {
        self.sync.on_durable(callback);
    }

    /// Returns all hidden articles, in the order in which they were hidden.
    pub fn hidden(&self) -> Vec<Arc<HiddenArticle>> {
        self.shared.hidden.all()
    }

    /// Returns the entry of a hidden article; `None`: it is not hidden, or no longer stored.
    pub fn hidden_article(&self, key: &ArticleKey) -> Option<Arc<HiddenArticle>> {
        self.shared.hidden.get(key)
    }

    /// Returns the names of all sites, by their numbers.
    pub fn site_names(&self) -> Vec<String> {
        self.writer.lock().folds.sites.clone()
    }

    /// Returns the number that stands for a site in [`crate::RowFacts::sites`], if it has one; it never
    /// stands for another site.
    pub fn known_site(&self, name: &str) -> Option<u32> {
        let writer = self.writer.lock();
        writer.folds.sites.iter().position(|site| site == name).map(|number| number as u32)
    }

    /// Returns the current table of groups, for many look-ups.
    pub fn group_table(&self) -> Arc<GroupTable> {
        self.shared.groups.snapshot()
    }

    /// Returns a group's number.
    pub fn group_id(&self, name: &[u8]) -> Option<GroupId> {
        self.shared.groups.table().id(name)
    }

    /// Returns a group by number.
    pub fn group(&self, id: GroupId) -> Option<Arc<Group>> {
        self.shared.groups.get(id)
    }

    /// Returns all groups, sorted by name.
    pub fn groups(&self) -> Arc<[Arc<Group>]> {
        self.shared.groups.sorted()
    }

    /// Returns a group's marks, exact at this moment.
    pub fn marks(&self, id: GroupId) -> Option<GroupMarks> {
        self.shared.groups.table().get(id).map(|g| g.marks())
    }

    /// Returns a group's marks as seen above a base; see [`Group::marks_above`].
    pub fn marks_above(&self, id: GroupId, base: impl FnOnce(u64) -> u64) -> Option<GroupMarks> {
        self.shared.groups.table().get(id).map(|g| g.marks_above(base))
    }

    /// Returns the whole text of LIST ACTIVE.
    pub fn list_active(&self) -> Arc<Vec<u8>> {
        self.shared.list_active()
    }

    /// Returns the last arrival in history, in Unix seconds; 0 if it is empty.
    pub fn last_arrival(&self) -> u32 {
        self.shared.history.last_arrival()
    }

    /// Reads an article; returns false if it does not exist (any more), or is hidden. With `expect`, reads
    /// only the article of that Message-ID.
    pub fn read(
        &self,
        token: &Token,
        expect: Option<&ArticleKey>,
        patience: ReadMode,
        out: &mut ArticleBuf,
    ) -> Result<bool, ReadError> {
        self.reader().read(token, expect, patience, out)
    }

    /// Has the disk begin to read an article that will be asked for soon, without waiting; true if it is not
    /// in memory.
    pub fn begin_read(&self, token: &Token) -> bool {
        self.shared.begin_read(token)
    }

    /// Has the disk begin to read overview rows of a range that will be asked for soon, without waiting.
    pub fn begin_rows(&self, group: GroupId, range: RangeInclusive<u64>) {
        self.shared.begin_rows(group, range);
    }

    /// Like [`Spool::read`], including hidden articles: for decisions about them, not for readers.
    pub fn read_stored(
        &self,
        token: &Token,
        expect: Option<&ArticleKey>,
        patience: ReadMode,
        out: &mut ArticleBuf,
    ) -> Result<bool, ReadError> {
        self.reader().read_whole(patience, out, |out| self.shared.read(token, expect, patience, out))
    }

    /// Returns the token of the article with this number.
    pub fn token_of(
        &self,
        group: GroupId,
        number: u64,
        patience: ReadMode,
    ) -> Result<Option<Token>, ReadError> {
        self.shared.token_of(group, number, patience)
    }

    /// Appends shown numbers of a range, at most `max` of them.
    pub fn numbers(&self, group: GroupId, range: RangeInclusive<u64>, max: usize, out: &mut Vec<u64>) {
        if let Some(group) = self.shared.groups.table().get(group) {
            out.extend(group.state().shown(range).take(max));
        }
    }

    /// Reports whether an article with this number is shown.
    pub fn exists(&self, group: GroupId, number: u64) -> bool {
        self.shared.groups.table().get(group).is_some_and(|g| g.state().shows(number))
    }

    /// Returns the first shown number after this one.
    pub fn next_number(&self, group: GroupId, after: u64) -> Option<u64> {
        self.shared.groups.table().get(group)?.state().shown_from(after.checked_add(1)?)
    }

    /// Returns the last shown number before this one.
    pub fn previous_number(&self, group: GroupId, before: u64) -> Option<u64> {
        self.shared.groups.table().get(group)?.state().shown_to(before.checked_sub(1)?)
    }

    /// Appends overview rows in wire form until `limit_bytes` are exceeded; `Some(n)`: continue at `n`.
    pub fn over(
        &self,
        group: GroupId,
        range: RangeInclusive<u64>,
        limit_bytes: usize,
        patience: ReadMode,
        out: &mut Vec<u8>,
    ) -> Result<Option<u64>, ReadError> {
        self.shared.over(group, range, RowSelection::Shown, limit_bytes, patience, out)
    }

    /// Appends one overview row; returns false if there is no such article.
    pub fn row(
        &self,
        group: GroupId,
        number: u64,
        patience: ReadMode,
        out: &mut Vec<u8>,
    ) -> Result<bool, ReadError> {
        let start = out.len();
        self.shared.over(group, number..=number, RowSelection::Shown, usize::MAX, patience, out)?;
        Ok(out.len() > start)
    }

    /// Calls `visit` with the Message-IDs of a group's living articles that arrived at `since` (Unix seconds)
    /// or later.
    pub fn arrived_since(
        &self,
        group: GroupId,
        since: u64,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<(), ReadError> {
        self.shared.arrived_since(group, since, visit)
    }

    /// Returns a counter that has increased before a withdrawal, a hide or an unhide is acknowledged: what
    /// was made of articles before may contain some that are no longer shown.
    pub fn withdrawals(&self) -> u64 {
        self.shared.withdrawals.load(Ordering::Acquire)
    }

    /// Returns how many of these articles are still stored.
    pub fn count_living(&self, tokens: &[Token]) -> u64 {
        let volumes = self.shared.volumes.load();
        tokens.iter().filter(|token| volumes.is_alive(token)).count() as u64
    }

    /// Sends all changes through this log from now on; a later call changes nothing.
    pub fn follow(&self, log: Arc<dyn SharedLog>) {
        let _ = self.shared_log.set(log);
    }

    /// Returns the log that this spool follows.
    pub fn shared_log(&self) -> Option<&dyn SharedLog> {
        self.shared_log.get().map(|log| &**log)
    }

    /// Waits until readers here see what readers of other machines of the site may have seen, as far as the
    /// shared log is asked to; without one, not at all.
    pub fn freshen(&self) {
        if let Some(log) = self.shared_log() {
            log.freshen();
        }
    }

    /// Looks up a Message-ID as [`Spool::lookup`] does. Whatever is unknown is looked up again after
    /// [`Spool::freshen`]: another machine may have taken the article a moment ago.
    pub fn lookup_fresh(&self, key: &ArticleKey) -> Lookup {
        match self.lookup(key) {
            Lookup::Unknown if self.shared_log().is_some() => {
                self.freshen();
                self.lookup(key)
            }
            found => found,
        }
    }

    /// Reports whether this machine does a job that one machine of the site does at a time; without a shared
    /// log, always. To be asked again before each piece of work.
    pub fn leads(&self, job: &str) -> bool {
        let lead = self.shared_log().map(|log| log.lead(job, 0));
        !matches!(lead, Some(JobLead::Elsewhere { .. }))
    }

    /// Returns the secret under which Message-IDs are hashed.
    pub fn secret(&self) -> [u8; 16] {
        *self.shared.hasher.secret()
    }

    /// Returns the record of the position in a shared log up to which everything is applied; `None` if the
    /// changes come from no such log.
    pub fn position(&self) -> Option<Vec<u8>> {
        let writer = self.writer.lock();
        Some(writer.folds.position.clone()).filter(|record| !record.is_empty())
    }

    /// Returns the record of the position in a shared log with the digest of the site there; `None` without
    /// such a log, while a message of it is being applied, and while the digest is not known.
    pub fn digest_at_position(&self) -> Option<(Vec<u8>, SiteDigest)> {
        let writer = self.writer.lock();
        let record = Some(&writer.folds.position).filter(|record| !record.is_empty());
        let record = record.filter(|_| !writer.is_between_positions())?;
        Some((record.clone(), self.digest()?))
    }

    /// Returns the disk of the spool, for small files beside it.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.shared.disk
    }

    /// Returns the configuration with which it was opened.
    pub fn config(&self) -> &SpoolConfig {
        &self.shared.config
    }

    /// Takes a checkpoint of the indexes and waits until it is on disk.
    pub fn checkpoint(&self) -> io::Result<()> {
        self.writer.checkpoint()
    }

    /// Returns what looks up and reads articles.
    pub fn reader(&self) -> SpoolReader<'_> {
        SpoolReader::new(&self.shared, &self.writer)
    }

    /// Returns the journal, for readers.
    pub fn journal(&self) -> JournalReaders<'_> {
        JournalReaders::new(&self.readers, &self.writer)
    }

    /// Returns the articles of volumes that overwrite them, for archives.
    pub fn cyclic_articles(&self) -> CyclicArticles<'_> {
        CyclicArticles::new(&self.shared)
    }

    /// Returns tokens as people and other programs see them.
    pub fn tokens(&self) -> Tokens<'_> {
        Tokens::new(&self.shared, self.reader())
    }

    /// Returns the state in numbers.
    pub fn meter(&self) -> SpoolMeter<'_> {
        SpoolMeter::new(&self.shared, &self.writer, &self.readers, &self.reservations, &self.measured)
    }

    /// Returns the checks of spool and indexes against each other.
    pub fn verifier(&self) -> Verifier<'_> {
        Verifier::new(&self.shared, &self.writer, &self.readers)
    }

    /// Returns the repairs of damage.
    pub fn repairer(&self) -> Repairer<'_> {
        Repairer::new(self.verifier(), &self.is_looked_over)
    }

    /// Returns the expiry of retained articles.
    pub fn expiry(&self) -> Expiry<'_> {
        Expiry::new(&self.shared, &self.writer, &self.forgetting, &self.expiry)
    }

    /// Returns the maintenance of buffers.
    pub fn buffers(&self) -> Buffers<'_> {
        Buffers::new(&self.shared, &self.writer)
    }

    /// Returns the changes of the configuration.
    pub fn reconfiguration(&self) -> Reconfiguration<'_> {
        Reconfiguration::new(&self.shared, &self.writer)
    }

    /// Returns the writing of snapshots.
    pub fn snapshots(&self) -> Snapshots<'_> {
        Snapshots::new(self.journal(), &self.shared, &self.writer)
    }

    /// Returns the care for overview.
    pub fn overview(&self) -> OverviewCare<'_> {
        OverviewCare::new(&self.shared, &self.writer, &self.packing_overview)
    }

    /// Closes the spool properly: writes everything in memory and syncs, so that the next start replays
    /// nothing. On a full disk everything is synced, and the next start replays what could not be written.
    pub fn close(&self) -> Result<(), SpoolError> {
        let Some(thread) = self.thread.lock().take() else { return Ok(()) };
        self.shared.packing.finish();
        let dir = self.shared.config.dir.clone();
        let mut writer = self.writer.lock_at(unix_secs());
        let result = writer.close().map_err(SpoolError::io("close", &dir));
        self.shared.history.close();
        self.sync.end();
        let stopped = SpoolTrouble::new(TroubleKind::Io, "the spool is closed");
        if thread.join().is_err() {
            return Err(SpoolError::Unfit("the syncing thread has failed".into()));
        }
        if let Some(trouble) = self.sync.trouble().filter(|trouble| trouble.kind != TroubleKind::Full) {
            return result.and(Err(SpoolError::Unfit(format!("closed after trouble: {trouble}"))));
        }
        self.readers.close();
        self.sync.stop(stopped);
        result
    }
}

impl Drop for Spool {
    /// Without [`Spool::close`] this resembles a crash of the process: nothing is lost, the next start
    /// replays.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.lock().take() {
            self.shared.packing.finish();
            self.readers.close();
            self.sync.abandon();
            let _ = thread.join();
        }
    }
}
