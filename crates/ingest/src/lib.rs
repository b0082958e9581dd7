//! The one road of an article: IHAVE, TAKETHIS, POST and rnews all come through [`Filer::ingest`].
//!
//! A batch is judged (`judging`: guards, then filters; no side effects), committed in one call of the
//! spool, whose journal rows are the commit point (`committing`), and followed up (`follow_ups`: what it
//! withdraws). Only then is anyone told. What was rejected by policy is remembered in the same commit;
//! damage in transit and our own trouble are not. Called by `relay`, `inject`, the control socket. Source:
//! RFC 5537 section 3.6.
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
mod turn;
mod turned_away;
mod withdraw;

#[cfg(feature = "testing")]
pub use aside::label_and_back;
pub use batch::{BatchOutcome, Fate};
pub use choose::carried;
pub use control::{is_key_file, is_key_whole};
pub(crate) use controls::Controls;
pub use drafts::{is_from_journal, kind};
pub use early::is_whole as is_early_cancel_whole;
pub use filters::{Opinion, reject as filtered};
pub use follow_ups::{Pending, Worker};
pub use hides::{Hider, Hides, is_whole as is_early_hide_whole};
pub use import::{ImportOutcome, ImportResult, Imported};
pub use origin::Origin;
pub use pause::{Paused, REASON_BYTES_MAX as PAUSE_REASON_BYTES_MAX};
pub use reject::Reject;
pub use reviews::{is_release_whole, is_whole as is_review_whole};
pub use turned_away::TurnedAway;
pub use withdraw::NotWithdrawn;

use arc_swap::ArcSwap;
use follow_ups::{FollowUps, Hold};
use judging::{Judged, Rules};
use pause::Pause;
use programs::Programs;
use reviews::Reviews;
use routing::{Route, Router};
use site_base::clock::unix_now;
use site_base::counters::Counters;
use site_base::patiently::patiently;
use site_config::Config;
use spool::{Key, MethodKind, Spool, Ticket, Token, Trouble};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use turn::Turn;
use withdraw::{Obey, Task, Withdrawals, Withdrawing};

/// An article as it came in: wire format without the final `.` line.
#[derive(Debug, Clone, Copy)]
pub struct Incoming<'a> {
    pub wire: &'a [u8],
    /// The Message-ID it was announced with; the article must have the same.
    pub claimed_id: Option<&'a [u8]>,
}

/// What became of an article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disposition {
    /// It is stored there; `None`: it is a control message that no group takes, and only remembered.
    Accepted(Option<Token>),
    /// It is not wanted.
    Rejected(Reject),
    /// We are in trouble; see [`Receipt::trouble`].
    TryLater,
    /// It is to come later.
    Deferred(Later),
}

/// Why an article is to come later, though the spool takes others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Later {
    /// A filter cannot judge it now.
    Unjudged,
    /// The server is paused.
    Paused,
    /// Its storage class is full; [`Receipt::trouble`] says so.
    ClassFull,
}

/// What became of a batch as a whole.
#[derive(Debug, Default)]
pub struct Receipt {
    /// Answers may be given when this is durable.
    pub ticket: Option<Ticket>,
    /// Why some dispositions are `TryLater`, or `Deferred` since a class is full.
    pub trouble: Option<Trouble>,
    /// Other sessions were committing when this one came.
    pub waited: bool,
    /// What is still to be carried out of it.
    pub pending: Option<Pending>,
}

/// Files articles in the spool.
pub struct Filer {
    spool: Arc<Spool>,
    rules: ArcSwap<Rules>,
    follow_ups: Arc<FollowUps>,
    /// Which article goes to which peer.
    pub router: Router,
    /// Articles that are hidden when they come.
    pub hides: Hides,
    /// What filters found.
    reviews: Arc<Reviews>,
    /// Control messages and notices filed since the start.
    pub controls: Controls,
    /// Whether articles are taken.
    pause: Pause,
    /// Whose commit is next.
    turn: Turn,
    counters: Arc<Counters>,
    /// Whether the last commit failed; so that trouble is logged when it comes and goes, not for every
    /// article.
    in_trouble: AtomicBool,
    /// A storage class was found full; said once.
    class_full: AtomicBool,
}

impl Filer {
    /// A filer for `spool` by the rules of `config`.
    pub fn new(config: Arc<Config>, spool: Arc<Spool>) -> Self {
        let reviews = Arc::new(Reviews::of(spool.disk().clone(), &config.site.data));
        let synced = Arc::downgrade(&reviews);
        spool.on_durable(Box::new(move || synced.upgrade().iter().for_each(|reviews| reviews.sync())));
        let router = Router::new(spool.group_table());
        // What is filed without a server leaves with the next one. Peers that are new begin with that.
        router.replace(
            &config.site,
            Route::known(&config, |name| spool.known_site(name)),
            spool.group_table(),
        );
        Self {
            follow_ups: Arc::new(FollowUps::new(spool.clone(), Withdrawals::new(&config, &spool))),
            hides: Hides::open(
                spool.disk().clone(),
                &config.site.data,
                config.site.remember_days,
                unix_now(),
            ),
            reviews,
            router,
            controls: Controls::default(),
            pause: Pause::default(),
            turn: Turn::default(),
            rules: ArcSwap::from_pointee(Rules::of(config, None, &spool)),
            spool,
            counters: Arc::new(Counters::default()),
            in_trouble: AtomicBool::new(false),
            class_full: AtomicBool::new(false),
        }
    }

    /// Goes by another configuration from the next batch on.
    pub fn apply(&self, config: &Arc<Config>) {
        self.follow_ups.withdrawals.apply(config);
        self.hides.keep_for(config.site.remember_days);
        let rules = Rules::of(config.clone(), Some(&self.rules.load()), &self.spool);
        rules.programs.begin();
        self.rules.store(Arc::new(rules));
    }

    /// Starts the programs that judge articles, posts and logins, and waits until they are ready. Without
    /// this each is started when it is first asked.
    pub fn start_filters(&self) {
        self.rules.load().programs.start();
    }

    /// Ends them.
    pub fn end_filters(&self) {
        self.rules.load().programs.end();
    }

    /// Whether articles are to come later, since the server is paused or a filter cannot judge them now.
    pub fn is_deferring(&self) -> bool {
        self.pause.lasts() || self.rules.load().programs.is_deferring()
    }

    /// Takes no article from now on, until [`Filer::go`]: who offers one is to come later.
    pub fn pause(&self, reason: String) {
        self.pause.begin(reason);
    }

    /// Takes articles again; the pause that has ended.
    pub fn go(&self) -> Option<Arc<Paused>> {
        self.pause.end()
    }

    /// Since when and why no article is taken.
    pub fn paused(&self) -> Option<Arc<Paused>> {
        self.pause.now()
    }

    /// What does `work` with the programs that judge articles, posts and logins.
    pub fn with_filters<T>(&self, work: impl FnOnce(&Programs) -> T) -> T {
        work(&self.rules.load_full().programs)
    }

    /// What filters found.
    pub fn reviews(&self) -> &Reviews {
        &self.reviews
    }

    /// The same, counting into `counters`.
    pub fn counted_by(self, counters: Arc<Counters>) -> Self {
        Self { counters, ..self }
    }

    /// Cancels and Supersedes that wait for the article they withdraw.
    pub fn early_cancels(&self) -> usize {
        self.follow_ups.withdrawals.early_cancels()
    }

    /// Articles that NoCeM notices listed before they came.
    pub fn early_hides(&self) -> usize {
        self.hides.len()
    }

    /// Files a batch; appends one disposition for each article, in order. Sessions wait for their turn at the
    /// spool's writer as tasks: threads that waited would each cost two wake-ups a batch.
    pub async fn ingest(
        &self,
        origin: &Origin,
        batch: &[Incoming<'_>],
        dispositions: &mut Vec<Disposition>,
    ) -> Receipt {
        let begun = Instant::now();
        let mut judged = self.judge(origin, batch, dispositions);
        let hold = self.follow_ups.hold();
        let unfiled = self.obey_unfiled(origin, &hold, &judged, dispositions);
        let (turn, waited) = if judged.drafts.is_empty() { (None, false) } else { self.turn.take().await };
        let receipt = self.commit(&mut judged.drafts, judged.now, dispositions);
        drop(turn);
        self.counters.latencies.filing.observe_many(begun.elapsed(), batch.len());
        self.count(origin, batch, dispositions.get(judged.first..).unwrap_or_default());
        self.review(batch, &judged, dispositions);
        let pending = self.follow_up(origin, &hold, &judged, dispositions).or(unfiled);
        Receipt { waited, pending, ..receipt }
    }

    /// As [`Filer::ingest`] outside of a session; blocks, also until what it withdraws is withdrawn.
    fn ingest_now(
        &self,
        origin: &Origin,
        batch: &[Incoming<'_>],
        dispositions: &mut Vec<Disposition>,
    ) -> Receipt {
        let begun = Instant::now();
        let judged = self.judge(origin, batch, dispositions);
        self.file_judged((origin, batch), judged, dispositions, begun)
    }

    /// Files what was judged, and carries out what it asks for. Blocks.
    fn file_judged<'a>(
        &self,
        (origin, batch): (&'a Origin, &[Incoming<'a>]),
        mut judged: Judged<'a>,
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

    /// Obeys those articles that no group takes, before they are committed: nothing would be left of them
    /// after a crash.
    fn obey_unfiled(
        &self,
        origin: &Origin,
        hold: &Hold<'_>,
        judged: &Judged<'_>,
        dispositions: &[Disposition],
    ) -> Option<Pending> {
        let unfiled = judged.drafts.withdrawing.iter().filter(|withdrawing| {
            !withdrawing.is_filed && dispositions.get(withdrawing.at) == Some(&Disposition::TryLater)
        });
        let pending = hold.queue(unfiled.map(|withdrawing| self.obeying(origin, withdrawing)))?;
        self.settle(&pending);
        Some(pending)
    }

    /// Queues what follows a commit: those of its articles whose withdrawal came while they were filed, and
    /// what its articles withdraw.
    fn follow_up(
        &self,
        origin: &Origin,
        hold: &Hold<'_>,
        judged: &Judged<'_>,
        dispositions: &[Disposition],
    ) -> Option<Pending> {
        let drafts = &judged.drafts;
        let mut late = None;
        if self.follow_ups.withdrawals.epoch() != judged.epoch {
            let is_late = |key: &Key| self.follow_ups.withdrawals.is_awaited(*key);
            late = hold.queue(drafts.keys().filter(is_late).map(|key| (Task::Late(key), None)));
        }
        let accepted = |withdrawing: &Withdrawing<'_>| match dispositions.get(withdrawing.at) {
            Some(Disposition::Accepted(token)) if withdrawing.is_filed => Some(*token),
            _ => None,
        };
        let filed = drafts.withdrawing.iter().filter(|withdrawing| accepted(withdrawing).is_some());
        let pending = hold.queue(filed.map(|withdrawing| self.obeying(origin, withdrawing))).or(late)?;
        // What is not on disk cannot be obeyed after a crash, so it is obeyed before it is answered.
        let outlives = |token: Token| !matches!(token.method, MethodKind::Trash | MethodKind::Memory);
        let mut tokens = drafts.withdrawing.iter().filter_map(accepted);
        if !tokens.all(|token| token.is_some_and(outlives)) {
            self.settle(&pending);
        }
        Some(pending)
    }

    fn obeying(&self, origin: &Origin, withdrawing: &Withdrawing<'_>) -> (Task, Option<Key>) {
        let obey = Obey::of(withdrawing.kept.clone(), origin.reads().cloned());
        (Task::Obey(obey), Some(self.spool.key(withdrawing.target.as_bytes())))
    }

    /// Returns once all that a batch withdraws is withdrawn: why the first of its articles that withdrew
    /// nothing did not.
    pub fn settle(&self, pending: &Pending) -> Option<NotWithdrawn> {
        if !self.follow_ups.is_idle() {
            patiently(|| self.follow_ups.settle(pending.tickets()));
        }
        pending.answer()
    }

    /// Returns once all is withdrawn that a batch, and those before it, withdraw.
    pub fn settle_up_to(&self, pending: &Pending) {
        if !self.follow_ups.is_idle() {
            patiently(|| self.follow_ups.settle_up_to(*pending.tickets().end()));
        }
    }

    /// Starts the thread that carries out what follows commits.
    pub fn start_follow_ups(&self) -> io::Result<Worker> {
        Worker::start(&self.follow_ups)
    }
}

#[cfg(test)]
mod tests;
