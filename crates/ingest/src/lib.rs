//! The one road of an article: IHAVE, TAKETHIS, POST and rnews all come through [`Filer::ingest`].
//!
//! A batch is judged (`judging`: guards, then filters; no side effects), committed in one call of the
//! spool, whose journal rows are the commit point (`committing`), and followed up (`follow_ups`: what it
//! withdraws). Answers are sent only after that. Message-IDs rejected by policy are remembered in the same
//! commit; those of articles damaged in transit, or refused because of local trouble, are not. Called by
//! `relay`, `inject` and the control socket. Source: RFC 5537 section 3.6.
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
mod origin;
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
pub use early::is_whole as is_early_cancel_whole;
pub use filters::{Opinion, reject as filtered};
pub use follow_ups::{FollowUpThread, PendingWithdrawals};
pub use hides::{EarlyHides, Hider, is_whole as is_early_hide_whole};
pub use import::{ImportOutcome, ImportResult, ImportedArticle};
pub use origin::Origin;
pub use pause::{Paused, REASON_BYTES_MAX as PAUSE_REASON_BYTES_MAX};
pub use reject::Reject;
pub use reviews::{is_release_whole, is_whole as is_review_whole};
pub use turned_away::ClassFullIds;
pub use withdraw::WithdrawalRefusal;

use arc_swap::ArcSwap;
use follow_ups::{FollowUps, PositionHold};
use judging::{FilingRules, JudgedBatch};
use pause::Pause;
use programs::FilterPrograms;
use reviews::FilterReviews;
use routing::{PeerRoute, Router};
use site_base::clock::unix_now;
use site_base::counters::ServerCounters;
use site_base::patiently::patiently;
use site_config::Config;
use site_log::SiteLog;
use spool::{ArticleKey, CommitTicket, MethodKind, Spool, SpoolTrouble, Token};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use withdraw::{BatchWithdrawal, FollowUpTask, WithdrawalRequest, Withdrawals};

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
    rules: ArcSwap<FilingRules>,
    follow_ups: Arc<FollowUps>,
    /// Decides which article goes to which peer.
    pub router: Router,
    /// Articles to be hidden when they arrive.
    pub hides: EarlyHides,
    /// Findings of the filters.
    reviews: Arc<FilterReviews>,
    /// Control messages and notices filed since the start.
    pub controls: ControlCounts,
    /// Whether articles are currently taken.
    pause: Pause,
    counters: Arc<ServerCounters>,
    /// Whether the last commit failed, so that trouble is logged when it begins and ends, not for every
    /// article.
    in_trouble: AtomicBool,
    /// Whether a storage class was found full; logged once.
    class_full: AtomicBool,
}

impl Filer {
    /// Creates a filer for `spool` with the rules of `config`.
    pub fn new(config: Arc<Config>, spool: Arc<Spool>) -> Self {
        let reviews = Arc::new(FilterReviews::of(spool.disk().clone(), &config.site.data));
        let synced = Arc::downgrade(&reviews);
        spool.on_durable(Box::new(move || synced.upgrade().iter().for_each(|reviews| reviews.sync())));
        let log = Arc::new(SiteLog::new(spool.clone()));
        let router = Router::new(spool.group_table());
        // Articles filed without a server leave with the next one. New peers begin there.
        router.replace(
            &config.site,
            PeerRoute::known(&config, |name| spool.known_site(name)),
            spool.group_table(),
        );
        Self {
            follow_ups: Arc::new(FollowUps::new(
                log.clone(),
                spool.clone(),
                Withdrawals::new(&config, &spool),
            )),
            hides: EarlyHides::open(
                spool.disk().clone(),
                &config.site.data,
                config.site.remember_days,
                unix_now(),
            ),
            reviews,
            router,
            controls: ControlCounts::default(),
            pause: Pause::default(),
            rules: ArcSwap::from_pointee(FilingRules::of(config, None, &log)),
            spool,
            log,
            counters: Arc::new(ServerCounters::default()),
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
        self.hides.keep_for(config.site.remember_days);
        let rules = FilingRules::of(config.clone(), Some(&self.rules.load()), &self.log);
        rules.programs.begin();
        self.rules.store(Arc::new(rules));
    }

    /// Starts the programs that judge articles, posts and logins, and waits until they are ready. Without
    /// this call each starts at its first question.
    pub fn start_filters(&self) {
        self.rules.load().programs.start();
    }

    /// Ends the programs started by [`Filer::start_filters`].
    pub fn end_filters(&self) {
        self.rules.load().programs.end();
    }

    /// Returns whether articles are deferred, as the server is paused or a filter cannot judge them now.
    pub fn is_deferring(&self) -> bool {
        self.pause.lasts() || self.rules.load().programs.is_deferring()
    }

    /// Takes no articles until [`Filer::go`]: peers that offer one are asked to send it later.
    pub fn pause(&self, reason: String) {
        self.pause.begin(reason);
    }

    /// Takes articles again; returns the pause that has ended.
    pub fn go(&self) -> Option<Arc<Paused>> {
        self.pause.end()
    }

    /// Returns since when and why no articles are taken.
    pub fn paused(&self) -> Option<Arc<Paused>> {
        self.pause.now()
    }

    /// Runs `work` with the programs that judge articles, posts and logins.
    pub fn with_filters<T>(&self, work: impl FnOnce(&FilterPrograms) -> T) -> T {
        work(&self.rules.load_full().programs)
    }

    /// Returns the findings of the filters.
    pub fn reviews(&self) -> &FilterReviews {
        &self.reviews
    }

    /// Returns this filer, counting into `counters`.
    pub fn counted_by(self, counters: Arc<ServerCounters>) -> Self {
        Self { counters, ..self }
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
        let begun = Instant::now();
        let mut judged = self.judge(origin, batch, dispositions);
        let hold = self.follow_ups.hold();
        let unfiled = self.obey_unfiled(origin, &hold, &judged, dispositions);
        let (turn, waited) = if judged.drafts.is_empty() { (None, false) } else { self.log.turn().await };
        let receipt = self.commit(&mut judged.drafts, judged.now, dispositions);
        drop(turn);
        self.counters.latencies.filing.observe_many(begun.elapsed(), batch.len());
        self.count(origin, batch, dispositions.get(judged.first..).unwrap_or_default());
        self.review(batch, &judged, dispositions);
        let pending = self.follow_up(origin, &hold, &judged, dispositions).or(unfiled);
        Receipt { waited, pending, ..receipt }
    }

    /// Like [`Filer::ingest`], outside of a session; blocks, also until the withdrawals of the batch are
    /// done.
    fn ingest_now(
        &self,
        origin: &Origin,
        batch: &[IncomingArticle<'_>],
        dispositions: &mut Vec<Disposition>,
    ) -> Receipt {
        let begun = Instant::now();
        let judged = self.judge(origin, batch, dispositions);
        self.file_judged(origin, batch, judged, dispositions, begun)
    }

    /// Files the judged articles and carries out their requests. Blocks.
    fn file_judged<'a>(
        &self,
        origin: &'a Origin,
        batch: &[IncomingArticle<'a>],
        mut judged: JudgedBatch<'a>,
        dispositions: &mut [Disposition],
        begun: Instant,
    ) -> Receipt {
        let hold = self.follow_ups.hold();
        self.obey_unfiled(origin, &hold, &judged, dispositions);
        let receipt = self.commit(&mut judged.drafts, judged.now, dispositions);
        self.counters.latencies.filing.observe_many(begun.elapsed(), batch.len());
        self.count(origin, batch, dispositions.get(judged.first..).unwrap_or_default());
        self.review(batch, &judged, dispositions);
        if let Some(pending) = self.follow_up(origin, &hold, &judged, dispositions) {
            self.settle(&pending);
        }
        receipt
    }

    /// Obeys articles that no group takes, before the commit: after a crash nothing would be left of them.
    fn obey_unfiled(
        &self,
        origin: &Origin,
        hold: &PositionHold<'_>,
        judged: &JudgedBatch<'_>,
        dispositions: &[Disposition],
    ) -> Option<PendingWithdrawals> {
        let unfiled = judged.drafts.withdrawing.iter().filter(|withdrawing| {
            !withdrawing.is_filed && dispositions.get(withdrawing.at) == Some(&Disposition::TryLater)
        });
        let pending = hold.queue(unfiled.map(|withdrawing| self.obeying(origin, withdrawing)))?;
        self.settle(&pending);
        Some(pending)
    }

    /// Queues what follows a commit: withdrawals of its articles that arrived while they were filed, and
    /// withdrawals that its articles request.
    fn follow_up(
        &self,
        origin: &Origin,
        hold: &PositionHold<'_>,
        judged: &JudgedBatch<'_>,
        dispositions: &[Disposition],
    ) -> Option<PendingWithdrawals> {
        let drafts = &judged.drafts;
        let mut late = None;
        if self.follow_ups.withdrawals.epoch() != judged.epoch {
            let is_late = |key: &ArticleKey| self.follow_ups.withdrawals.is_awaited(*key);
            late = hold.queue(drafts.keys().filter(is_late).map(|key| (FollowUpTask::Late(key), None)));
        }
        let accepted = |withdrawing: &BatchWithdrawal<'_>| match dispositions.get(withdrawing.at) {
            Some(Disposition::Accepted(token)) if withdrawing.is_filed => Some(*token),
            _ => None,
        };
        let filed = drafts.withdrawing.iter().filter(|withdrawing| accepted(withdrawing).is_some());
        let pending = hold.queue(filed.map(|withdrawing| self.obeying(origin, withdrawing))).or(late)?;
        // An article that is not on disk cannot be obeyed after a crash, and is therefore obeyed before the
        // answer.
        let outlives = |token: Token| !matches!(token.method, MethodKind::Trash | MethodKind::Memory);
        let mut tokens = drafts.withdrawing.iter().filter_map(accepted);
        if !tokens.all(|token| token.is_some_and(outlives)) {
            self.settle(&pending);
        }
        Some(pending)
    }

    fn obeying(
        &self,
        origin: &Origin,
        withdrawing: &BatchWithdrawal<'_>,
    ) -> (FollowUpTask, Option<ArticleKey>) {
        let obey = WithdrawalRequest::of(withdrawing.kept.clone(), origin.reads().cloned());
        (FollowUpTask::Obey(obey), Some(self.spool.key(withdrawing.target.as_bytes())))
    }

    /// Waits until all withdrawals of a batch are done; returns why the first of its articles that withdrew
    /// nothing did not.
    pub fn settle(&self, pending: &PendingWithdrawals) -> Option<WithdrawalRefusal> {
        if !self.follow_ups.is_idle() {
            patiently(|| self.follow_ups.settle(pending.tickets()));
        }
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
