//! The one road of an article: IHAVE, TAKETHIS, POST and rnews all come through [`Filer::ingest`].
//!
//! A batch is judged (`judging`: guards, then filters; no side effects), committed in one call of the
//! spool, whose journal rows are the commit point (`committing`), recorded (`outcomes`), and followed up
//! (`obeying`: what it withdraws). Answers are sent only after that. Message-IDs rejected by policy are
//! remembered in the same commit; those of articles damaged in transit, or refused because of local trouble,
//! are not. Called by `relay`, `inject` and the control socket. Source: RFC 5537 section 3.6.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod again;
mod aside;
mod batch;
pub mod batches;
pub mod checks;
mod choose;
mod committing;
pub mod control;
mod controls;
mod drafts;
mod early;
mod filters;
mod follow_ups;
mod hides;
mod import;
mod judging;
mod obeying;
mod opinions;
mod origin;
mod outcomes;
mod pause;
pub mod programs;
mod reject;
pub mod release;
pub mod reviews;
pub mod routing;
mod spam;
mod turned_away;
mod withdraw;

#[cfg(feature = "testing")]
pub use aside::label_and_back;
pub use batch::{BatchOutcome, BatchResult};
pub use choose::carried;
pub use control::{is_key_file, is_key_whole};
pub(crate) use controls::ControlCounts;
pub use drafts::{is_from_journal, kind};
pub use follow_ups::{FollowUpThread, PendingWithdrawals};
pub use hides::{EarlyHides, Hider};
pub use import::{ImportOutcome, ImportResult, ImportedArticle};
pub use opinions::Opinion;
pub use origin::Origin;
pub use pause::{Paused, REASON_BYTES_MAX as PAUSE_REASON_BYTES_MAX};
pub use reject::Reject;
pub use reviews::{is_release_whole, is_whole as is_review_whole};
pub use spam::{SourceCounts, SpamCheckStatus, SpamSource, SpamSources};
pub use turned_away::ClassFullIds;
pub use withdraw::WithdrawalRefusal;

use aside::AsideOriginal;
use drafts::BatchDrafts;
use follow_ups::{FollowUps, PositionHold};
use judging::{ArticleJudge, JudgedBatch};
use obeying::{follow_up, obey_unfiled};
use outcomes::OutcomeRecord;
use programs::FilterPrograms;
use reviews::FilterReviews;
use routing::{PeerRoute, Router};
use site_base::clock::{unix_now, unix_secs};
use site_base::counters::ServerCounters;
use site_base::patiently::patiently;
use site_config::Config;
use site_log::{SiteLog, TurnGuard};
use spool::{CommitTicket, Cursor, Spool, SpoolTrouble, Token, TroubleKind};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use withdraw::Withdrawals;

const DAY_SECS: i64 = 86_400;

/// An article as received: wire format without the final `.` line.
#[derive(Debug, Clone, Copy)]
pub struct IncomingArticle<'a> {
    /// The article.
    pub wire: &'a [u8],
    /// Message-ID it was announced with; the article must have the same one.
    pub claimed_id: Option<&'a [u8]>,
}

/// Disposition of an article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disposition {
    /// Stored at this token; `None` for a control message that no group takes and that is only remembered.
    Accepted(Option<Token>),
    /// Not wanted.
    Rejected(Reject),
    /// Not taken because of local trouble; see [`Receipt::trouble`].
    TryLater,
    /// To be sent again later.
    Deferred(DeferralReason),
}

/// Reason why an article is deferred although the spool takes others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeferralReason {
    /// A filter cannot judge the article now.
    Unjudged,
    /// The server is paused.
    Paused,
    /// The storage class of the article is full; [`Receipt::trouble`] has the details.
    ClassFull,
}

/// Outcome of a batch as a whole.
#[derive(Debug, Default)]
pub struct Receipt {
    /// Ticket whose durability allows answers to be sent.
    pub ticket: Option<CommitTicket>,
    /// Reason for dispositions that are `TryLater`, or `Deferred` because a class is full.
    pub trouble: Option<SpoolTrouble>,
    /// Whether other sessions were committing when this batch arrived.
    pub waited: bool,
    /// Work that the batch still has to have carried out.
    pub pending: Option<PendingWithdrawals>,
}

/// Files articles in the spool.
pub struct Filer {
    spool: Arc<Spool>,
    /// The way of everything that is filed into the spool.
    log: Arc<SiteLog>,
    judge: ArticleJudge,
    follow_ups: Arc<FollowUps>,
    /// Decides which article goes to which peer.
    pub router: Arc<Router>,
    /// Articles to be hidden when they arrive.
    pub hides: EarlyHides,
    /// Control messages and notices filed since the start.
    pub controls: ControlCounts,
    record: OutcomeRecord,
    /// Whether the last commit failed, so that trouble is logged when it begins and ends, not for every
    /// article.
    in_trouble: AtomicBool,
    /// Whether a storage class was found full; logged once.
    class_full: AtomicBool,
}

/// Returns the Unix seconds before which what waits for its article no longer counts.
fn oldest_waiting(config: &Config) -> i64 {
    unix_now() - i64::from(config.site.remember_days) * DAY_SECS
}

/// Takes the files in which earlier versions kept withdrawals and hides that wait for their articles into the
/// log. A [`Filer`] does so, too.
pub fn take_over_old_files(config: &Config, log: &Arc<SiteLog>) {
    let (data, oldest) = (&config.site.data, oldest_waiting(config));
    drop(early::EarlyWithdrawals::open(log.clone(), data, oldest));
    drop(EarlyHides::open(log.clone(), data, oldest));
}

impl Filer {
    /// Creates a filer for `spool` with the rules of `config`.
    pub fn new(config: Arc<Config>, spool: Arc<Spool>) -> Self {
        let reviews = Arc::new(FilterReviews::of(spool.disk().clone(), &config.site.data));
        let synced = Arc::downgrade(&reviews);
        spool.on_durable(Box::new(move || synced.upgrade().iter().for_each(|reviews| reviews.sync())));
        let log = Arc::new(SiteLog::new(spool.clone()));
        let router = Arc::new(Router::new(spool.group_table()));
        // Articles filed without a server leave with the next one. New peers begin there.
        router.replace(
            &config.site,
            PeerRoute::known(&config, |name| spool.known_site(name)),
            spool.group_table(),
        );
        let site = &config.site;
        let oldest = oldest_waiting(&config);
        let withdrawals = Withdrawals::new(&config, &log, oldest);
        let follow_ups = Arc::new(FollowUps::new(log.clone(), spool.clone(), withdrawals));
        Self {
            hides: EarlyHides::open(log.clone(), &site.data, oldest),
            judge: ArticleJudge::new(
                config.clone(),
                log.clone(),
                router.clone(),
                follow_ups.clone(),
                reviews.clone(),
            ),
            follow_ups,
            router,
            controls: ControlCounts::default(),
            record: OutcomeRecord { counters: Arc::default(), reviews },
            spool,
            log,
            in_trouble: AtomicBool::new(false),
            class_full: AtomicBool::new(false),
        }
    }

    /// Returns the log through which changes reach the spool.
    pub fn log(&self) -> &Arc<SiteLog> {
        &self.log
    }

    /// Applies another configuration, beginning with the next batch.
    pub fn apply(&self, config: &Arc<Config>) {
        self.follow_ups.withdrawals.apply(config);
        self.judge.apply(config);
    }

    /// Starts the programs that judge articles, posts and logins, and waits until they are ready. Without
    /// this call each starts at its first question.
    pub fn start_filters(&self) {
        self.judge.rules.load().programs.start();
    }

    /// Ends the programs started by [`Filer::start_filters`].
    pub fn end_filters(&self) {
        self.judge.rules.load().programs.end();
    }

    /// Returns whether articles are deferred, as the server is paused or a filter cannot judge them now.
    pub fn is_deferring(&self) -> bool {
        self.judge.is_deferring()
    }

    /// Takes no articles until [`Filer::go`]: peers that offer one are asked to send it later.
    pub fn pause(&self, reason: String) {
        self.judge.pause.begin(reason);
    }

    /// Takes articles again; returns the pause that has ended.
    pub fn go(&self) -> Option<Arc<Paused>> {
        self.judge.pause.end()
    }

    /// Returns since when and why no articles are taken.
    pub fn paused(&self) -> Option<Arc<Paused>> {
        self.judge.pause.now()
    }

    /// Runs `work` with the programs that judge articles, posts and logins.
    pub fn with_filters<T>(&self, work: impl FnOnce(&FilterPrograms) -> T) -> T {
        work(&self.judge.rules.load_full().programs)
    }

    /// Returns the status of the built-in filters that are on.
    pub fn spam_status(&self) -> Vec<SpamCheckStatus> {
        let rules = self.judge.rules.load_full();
        let counts = rules.spam_counts.as_ref();
        counts.map_or_else(Vec::new, |counts| counts.status(&rules.config.spam))
    }

    /// Returns the busiest sources of articles, as far as a built-in filter is on.
    pub fn spam_sources(&self) -> SpamSources {
        let rules = self.judge.rules.load_full();
        rules.spam_counts.as_ref().map_or_else(SpamSources::default, |counts| counts.sources(unix_secs()))
    }

    /// Returns the findings of the filters.
    pub fn reviews(&self) -> &FilterReviews {
        &self.record.reviews
    }

    /// Returns this filer, counting into `counters`.
    pub fn counted_by(self, counters: Arc<ServerCounters>) -> Self {
        Self { record: OutcomeRecord { counters, ..self.record }, ..self }
    }

    /// Returns the number of Cancels and Supersedes that wait for the article they withdraw.
    pub fn early_cancels(&self) -> usize {
        self.follow_ups.withdrawals.early_cancels()
    }

    /// Returns the number of articles listed in NoCeM notices that have not arrived yet.
    pub fn early_hides(&self) -> usize {
        self.hides.len()
    }

    /// Files a batch; appends one disposition per article, in order. Sessions wait for the spool's writer
    /// as tasks: threads that waited would each cost two wake-ups a batch.
    pub async fn ingest(
        &self,
        origin: &Origin,
        batch: &[IncomingArticle<'_>],
        dispositions: &mut Vec<Disposition>,
    ) -> Receipt {
        let mut judged = self.judge.judge(origin, batch, dispositions);
        let hold = self.follow_ups.hold();
        let unfiled = obey_unfiled(&self.follow_ups, &hold, &judged, dispositions);
        let (turn, waited) = if judged.drafts.is_empty() { (None, false) } else { self.log.turn().await };
        let receipt = self.file(batch, &mut judged, &hold, turn, dispositions);
        Receipt { waited, pending: receipt.pending.or(unfiled), ..receipt }
    }

    /// Like [`Filer::ingest`], outside of a session; blocks, also until the withdrawals of the batch are
    /// done.
    fn ingest_now(
        &self,
        origin: &Origin,
        batch: &[IncomingArticle<'_>],
        dispositions: &mut Vec<Disposition>,
    ) -> Receipt {
        let judged = self.judge.judge(origin, batch, dispositions);
        self.file_now(batch, judged, dispositions)
    }

    /// Files the judged articles and carries out their requests. Blocks.
    fn file_now(
        &self,
        batch: &[IncomingArticle<'_>],
        mut judged: JudgedBatch<'_>,
        dispositions: &mut [Disposition],
    ) -> Receipt {
        let hold = self.follow_ups.hold();
        obey_unfiled(&self.follow_ups, &hold, &judged, dispositions);
        let mut receipt = self.file(batch, &mut judged, &hold, None, dispositions);
        receipt.pending.take().iter().for_each(|pending| self.follow_ups.settle_all(pending));
        receipt
    }

    /// Commits the judged articles, whose turn it is, and records the outcome; then queues their requests.
    fn file(
        &self,
        batch: &[IncomingArticle<'_>],
        judged: &mut JudgedBatch<'_>,
        hold: &PositionHold<'_>,
        turn: Option<TurnGuard<'_>>,
        dispositions: &mut [Disposition],
    ) -> Receipt {
        let receipt = self.commit(&mut judged.drafts, judged.now, dispositions);
        drop(turn);
        if receipt.trouble.as_ref().is_some_and(|trouble| trouble.kind == TroubleKind::InDoubt) {
            hold.keep_in_doubt();
        }
        self.record.filed(batch, judged, dispositions);
        let pending = follow_up(&self.follow_ups, hold, judged, dispositions);
        Receipt { pending, ..receipt }
    }

    /// Files the articles of a batch, in wire format without the final `.` line, in one commit. Blocks.
    /// Returns the result for each, in order.
    pub fn file_batch(&self, wires: &[&[u8]]) -> Vec<BatchResult> {
        let config = self.judge.rules.load().config.clone();
        let origin = Origin::batch(&config.site.path_names()).accepting(&config.batches.accept);
        self.file_from(&origin, wires)
    }

    /// Like [`Filer::file_batch`], for articles of another origin.
    pub fn file_from(&self, origin: &Origin, wires: &[&[u8]]) -> Vec<BatchResult> {
        let incoming: Vec<IncomingArticle<'_>> =
            wires.iter().map(|wire| IncomingArticle { wire, claimed_id: None }).collect();
        let mut dispositions = Vec::with_capacity(wires.len());
        let trouble = self.ingest_now(origin, &incoming, &mut dispositions).trouble;
        let paused = self.paused();
        let result =
            |(wire, disposition)| BatchResult::of(wire, disposition, trouble.as_ref(), paused.as_deref());
        wires.iter().copied().zip(&dispositions).map(result).collect()
    }

    /// Files a batch of another server's articles, in order; returns one result for each. Blocks.
    pub fn import(&self, batch: &[ImportedArticle<'_>]) -> Vec<ImportResult> {
        if let Some(paused) = self.paused() {
            return vec![ImportResult::later(paused.to_string()); batch.len()];
        }
        let (now, origin) = (unix_now(), Origin::import());
        let mut drafts = BatchDrafts::new(batch.len(), &self.router, self.spool.group_table());
        let mut dispositions = Vec::with_capacity(batch.len());
        import::adopt_all(&self.judge, &origin, batch, now, &mut drafts, &mut dispositions);
        let receipt = self.commit(&mut drafts, now, &mut dispositions);
        let incoming: Vec<IncomingArticle<'_>> =
            batch.iter().map(|i| IncomingArticle { wire: i.wire, claimed_id: None }).collect();
        self.record.count(&origin, &incoming, &dispositions);
        let trouble = receipt.trouble.map(|trouble| trouble.to_string()).unwrap_or_default();
        dispositions.iter().map(|disposition| ImportResult::of(disposition, &trouble)).collect()
    }

    /// Files an article that was set aside in its own groups, whatever filters decide. All other checks
    /// apply; then `forget` removes its Message-ID from history, or returns why not. Blocks.
    fn file_released<E>(
        &self,
        aside: &AsideOriginal,
        forget: impl FnOnce() -> Result<(), E>,
    ) -> Result<BatchResult, E> {
        let origin = Origin::released(&aside.origin, aside.groups.clone());
        let batch = [IncomingArticle { wire: &aside.wire, claimed_id: None }];
        let mut dispositions = Vec::new();
        let judged = self.judge.judge(&origin, &batch, &mut dispositions);
        let mut trouble = None;
        if dispositions.first() == Some(&Disposition::TryLater) {
            forget()?;
            trouble = self.file_now(&batch, judged, &mut dispositions).trouble;
        }
        let disposition = dispositions.first().unwrap_or(&Disposition::TryLater);
        Ok(BatchResult::of(&aside.wire, disposition, trouble.as_ref(), self.paused().as_deref()))
    }

    /// Obeys articles that were filed and not obeyed before a crash; keeps the position up to which all is
    /// carried out from then on. Returns how many articles were examined that withdraw others, or arrived
    /// during their own withdrawal. Blocks.
    pub fn obey_again(&self) -> io::Result<usize> {
        again::obey_again(&self.follow_ups)
    }

    /// Obeys articles after a cursor that withdraw others, by whichever member of a cluster they were filed.
    /// Returns how many were examined. Blocks.
    pub fn obey_from(&self, cursor: &mut Cursor) -> io::Result<usize> {
        again::obey_from(&self.follow_ups, cursor)
    }

    /// Waits until all withdrawals of a batch are done; returns why the first of its articles that withdrew
    /// nothing did not.
    pub fn settle(&self, pending: &PendingWithdrawals) -> Option<WithdrawalRefusal> {
        self.follow_ups.settle_all(pending);
        pending.answer()
    }

    /// Waits until all withdrawals of a batch, and of those before it, are done.
    pub fn settle_up_to(&self, pending: &PendingWithdrawals) {
        if !self.follow_ups.is_idle() {
            patiently(|| self.follow_ups.settle_up_to(*pending.tickets().end()));
        }
    }

    /// Starts the thread that carries out follow-ups of commits.
    pub fn start_follow_ups(&self) -> io::Result<FollowUpThread> {
        FollowUpThread::start(&self.follow_ups)
    }
}

#[cfg(test)]
mod tests;
