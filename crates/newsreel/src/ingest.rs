//! The one road of an article: IHAVE, TAKETHIS, POST and rnews all come through [`Filer::ingest`].
//!
//! A batch goes: each article is identified and judged (no side effects), then all are committed in one call
//! of the spool, whose journal rows are the commit point; only then is anyone told. What was rejected by
//! policy is remembered in the same commit, damage in transit and our own trouble are not. Called by `relay`,
//! `inject`, the control socket. Sources: DESIGN.md section 3, RFC 5537 section 3.6.

mod again;
mod batch;
pub(crate) mod batches;
pub(crate) mod checks;
mod choose;
pub(crate) mod control;
mod controls;
mod drafts;
mod early;
mod import;
mod origin;
mod reject;
pub(crate) mod routing;
mod turn;
mod withdraw;

pub use batch::{BatchOutcome, Fate};
pub(crate) use choose::carried;
pub(crate) use controls::Controls;
pub(crate) use drafts::kind;
pub use import::{ImportOutcome, ImportResult, Imported};
pub(crate) use origin::Origin;
pub(crate) use reject::Reject;

use crate::base::clock::unix_now;
use crate::base::counters::{Counters, add};
use crate::config::Config;
use arc_swap::ArcSwap;
use checks::Policy;
use drafts::{Draft, Drafts};
use netnews::article::Headers;
use netnews::nntp::wire;
use netnews::{Article, Known, MessageId};
use routing::{Route, Router};
use spool::{Durability, GroupId, GroupTable, Key, Outcome, Spool, Ticket, Token, Trouble, TroubleKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::{debug, error, info, warn};
use turn::Turn;
pub(crate) use withdraw::NotWithdrawn;
use withdraw::{Withdrawals, withdrawing};

/// Headers looked at in an article that is too large to be taken.
const HEADERS_MAX: usize = 200;

/// An article as it came in: wire format without the final `.` line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Incoming<'a> {
    pub wire: &'a [u8],
    /// The Message-ID it was announced with; the article must have the same.
    pub claimed_id: Option<&'a [u8]>,
}

/// What became of an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// It is stored there; `None`: it is a control message that no group takes, and only remembered.
    Accepted(Option<Token>),
    /// It is not wanted.
    Rejected(Reject),
    /// We are in trouble; see [`Receipt::trouble`].
    TryLater,
}

/// What became of a batch as a whole.
#[derive(Debug, Default)]
pub(crate) struct Receipt {
    /// Answers may be given when this is durable.
    pub ticket: Option<Ticket>,
    /// Why some dispositions are `TryLater`.
    pub trouble: Option<Trouble>,
    /// Other sessions were committing when this one came.
    pub waited: bool,
    /// Why the last article that was to withdraw another one did not.
    pub not_withdrawn: Option<NotWithdrawn>,
}

/// A batch that was judged and is to be committed.
struct Considered<'a> {
    drafts: Drafts<'a>,
    /// Unix seconds.
    now: i64,
    /// Where its dispositions begin.
    first: usize,
    /// When it was judged, in the order of withdrawals.
    epoch: u64,
}

/// What the configuration says of filing; as of one moment.
struct Rules {
    config: Arc<Config>,
    policy: Policy,
    /// Whether a storage rule asks for a verdict; else nobody looks into bodies.
    asks_verdict: bool,
}

impl Rules {
    fn of(config: Arc<Config>) -> Self {
        let asks_verdict = config.rules.iter().any(|rule| rule.verdict.is_some());
        Self { policy: Policy::of(&config), config, asks_verdict }
    }

    /// Whether the article is taken, and the groups it is filed in.
    fn judge(
        &self,
        origin: &Origin,
        article: &Article<'_>,
        table: &GroupTable,
        now: i64,
        groups: &mut Vec<GroupId>,
    ) -> Result<(), Reject> {
        checks::relayable(article, &self.policy, origin, now)?;
        choose::groups(table, self.config.site.unknown_groups, origin, article, groups)
    }
}

/// Files articles in the spool.
pub struct Filer {
    spool: Arc<Spool>,
    rules: ArcSwap<Rules>,
    withdrawals: Withdrawals,
    /// Which article goes to which peer.
    pub(crate) router: Router,
    /// Control messages filed since the start.
    pub(crate) controls: Controls,
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
        let router = Router::new(spool.group_table());
        // What is filed without a server leaves with the next one. Peers that are new begin with that.
        router.replace(
            &config.site,
            Route::known(&config, |name| spool.known_site(name)),
            spool.group_table(),
        );
        Self {
            withdrawals: Withdrawals::new(&config, &spool),
            router,
            controls: Controls::default(),
            turn: Turn::default(),
            spool,
            rules: ArcSwap::from_pointee(Rules::of(config)),
            counters: Arc::new(Counters::default()),
            in_trouble: AtomicBool::new(false),
            class_full: AtomicBool::new(false),
        }
    }

    /// Goes by another configuration from the next batch on.
    pub(crate) fn apply(&self, config: &Arc<Config>) {
        self.withdrawals.apply(config);
        self.rules.store(Arc::new(Rules::of(config.clone())));
    }

    /// The same, counting into `counters`.
    pub(crate) fn counted_by(self, counters: Arc<Counters>) -> Self {
        Self { counters, ..self }
    }

    /// Cancels and Supersedes that wait for the article they withdraw.
    pub(crate) fn early_cancels(&self) -> usize {
        self.withdrawals.early_cancels()
    }

    /// Files a batch; appends one disposition for each article, in order. Sessions wait for their turn at the
    /// spool's writer as tasks: threads that waited would each cost two wake-ups a batch.
    pub(crate) async fn ingest(
        &self,
        origin: &Origin,
        batch: &[Incoming<'_>],
        dispositions: &mut Vec<Disposition>,
    ) -> Receipt {
        let considered = self.consider_all(origin, batch, dispositions);
        let (turn, waited) =
            if considered.drafts.is_empty() { (None, false) } else { self.turn.take().await };
        let receipt = self.commit(&considered.drafts, considered.now, considered.first, dispositions);
        drop(turn);
        let not_withdrawn = self.conclude(origin, batch, &considered, dispositions);
        Receipt { waited, not_withdrawn, ..receipt }
    }

    /// As [`Filer::ingest`] outside of a session; blocking.
    fn ingest_now(
        &self,
        origin: &Origin,
        batch: &[Incoming<'_>],
        dispositions: &mut Vec<Disposition>,
    ) -> Receipt {
        let considered = self.consider_all(origin, batch, dispositions);
        let receipt = self.commit(&considered.drafts, considered.now, considered.first, dispositions);
        let not_withdrawn = self.conclude(origin, batch, &considered, dispositions);
        Receipt { not_withdrawn, ..receipt }
    }

    /// Identifies and judges a batch; appends a provisional disposition for each article.
    fn consider_all<'a>(
        &self,
        origin: &'a Origin,
        batch: &[Incoming<'a>],
        dispositions: &mut Vec<Disposition>,
    ) -> Considered<'a> {
        let now = unix_now();
        let first = dispositions.len();
        let table = self.spool.group_table();
        let mut drafts = Drafts::new(batch.len(), self.router.routes(&table));
        let epoch = self.withdrawals.epoch();
        let keys: Vec<Key> =
            batch.iter().map(|incoming| self.spool.key(incoming.claimed_id.unwrap_or_default())).collect();
        let known = self.spool.are_known(&keys);
        let rules = self.rules.load();
        for (incoming, claimed) in batch.iter().zip(keys.into_iter().zip(known)) {
            drafts.at = dispositions.len();
            let verdict = self.consider(&rules, origin, incoming, claimed, (&table, now), &mut drafts);
            dispositions.push(verdict.map_or_else(Disposition::Rejected, |()| Disposition::TryLater));
        }
        Considered { drafts, now, first, epoch }
    }

    /// What is left to do once a batch is committed.
    fn conclude(
        &self,
        origin: &Origin,
        batch: &[Incoming<'_>],
        considered: &Considered<'_>,
        dispositions: &[Disposition],
    ) -> Option<NotWithdrawn> {
        self.count(origin, batch, dispositions.get(considered.first..).unwrap_or_default());
        self.obey(origin, &considered.drafts, considered.epoch, dispositions)
    }

    /// Identifies and judges one article; what is to be committed goes into `drafts`.
    fn consider<'a>(
        &self,
        rules: &Rules,
        origin: &'a Origin,
        incoming: &Incoming<'a>,
        claimed: (Key, bool),
        (table, now): (&GroupTable, i64),
        drafts: &mut Drafts<'a>,
    ) -> Result<(), Reject> {
        let claimed = self.claimed(incoming, claimed)?;
        let article = Article::parse(incoming.wire)?;
        article.required()?;
        checks::framing(&article)?;
        let (id, key) = self.identify(&article, claimed)?;
        if !id.is_relayable() {
            return Err(Reject::BadMessageId);
        }
        if let Err(reject) = self.withdrawals.check(&article, key) {
            drafts.remember(key);
            return Err(reject);
        }
        let groups_start = drafts.groups.len();
        match rules.judge(origin, &article, table, now, &mut drafts.groups) {
            Ok(()) => {
                let draft = Draft::of(&article, id, key, origin, groups_start..drafts.groups.len());
                let verdict = if rules.asks_verdict { checks::verdict(&article) } else { None };
                drafts.push(draft.with_verdict(verdict));
                drafts.withdrawing.extend(withdrawing(&article, drafts.at));
                Ok(())
            }
            Err(reject) => {
                drafts.groups.truncate(groups_start);
                if reject.remember() {
                    drafts.remember(key);
                }
                Err(reject)
            }
        }
    }

    /// Remembers the Message-ID of an article of which only this much was taken, as it is too large, so that
    /// it is not asked for again; only if the article has the announced one.
    pub(crate) fn remember_too_large(&self, announced: &[u8], begun: &[u8]) {
        let mut headers = Headers::of(begun).take(HEADERS_MAX);
        let own = headers.find(|(name, _)| name.eq_ignore_ascii_case(b"Message-ID"));
        let own = own.and_then(|(_, value)| MessageId::from_header(value));
        if own.is_none_or(|own| own.as_bytes() != announced) {
            return;
        }
        let mut drafts = Drafts::new(1, self.router.routes(&self.spool.group_table()));
        drafts.remember(self.spool.key(announced));
        self.commit(&drafts, unix_now(), 0, &mut []);
    }

    /// The announced Message-ID and its key, if there is one; a known one is rejected before the article is
    /// looked at.
    fn claimed<'a>(
        &self,
        incoming: &Incoming<'a>,
        (key, known): (Key, bool),
    ) -> Result<Option<(MessageId<'a>, Key)>, Reject> {
        let Some(text) = incoming.claimed_id else { return Ok(None) };
        let id = MessageId::parse(text).ok_or(Reject::BadMessageId)?;
        if known { Err(Reject::Duplicate) } else { Ok(Some((id, key))) }
    }

    /// The article's Message-ID, which must be the announced one, and its key.
    fn identify<'a>(
        &self,
        article: &Article<'a>,
        claimed: Option<(MessageId<'a>, Key)>,
    ) -> Result<(MessageId<'a>, Key), Reject> {
        let id = article.message_id().ok_or(Reject::BadMessageId)?;
        match claimed {
            Some((claimed, _)) if claimed != id => Err(Reject::OtherMessageId),
            Some((_, key)) => Ok((id, key)),
            None => {
                let key = self.spool.key(id.as_bytes());
                if self.spool.is_known(&key) { Err(Reject::Duplicate) } else { Ok((id, key)) }
            }
        }
    }

    /// Commits what was drafted and turns the provisional `TryLater` from `first` on into what became of the
    /// articles.
    fn commit(
        &self,
        drafts: &Drafts<'_>,
        now: i64,
        first: usize,
        dispositions: &mut [Disposition],
    ) -> Receipt {
        if drafts.is_empty() {
            // "Known already" promises as much as "taken".
            return Receipt { ticket: Some(self.spool.ticket()), ..Receipt::default() };
        }
        let mut outcomes = Vec::new();
        let _filing = self.controls.filing(drafts.controls());
        let result =
            drafts.with_entries(now, |entries| match self.spool.try_commit(entries, &mut outcomes) {
                Some(result) => result,
                None => patiently(|| self.spool.commit(entries, &mut outcomes)),
            });
        let waiting = dispositions.iter_mut().skip(first).filter(|d| **d == Disposition::TryLater);
        for (disposition, outcome) in waiting.zip(&outcomes) {
            *disposition = match outcome {
                Outcome::Filed(filed) => Disposition::Accepted(Some(filed.token)),
                Outcome::Remembered => Disposition::Accepted(None),
                Outcome::Duplicate => Disposition::Rejected(Reject::Duplicate),
                Outcome::Full => Disposition::TryLater,
                Outcome::Unfit => Disposition::Rejected(Reject::NoPlace),
                Outcome::NumberTaken => Disposition::Rejected(Reject::NumberTaken),
            };
        }
        match result {
            Ok(ticket) => {
                if self.in_trouble.load(Ordering::Relaxed) && self.in_trouble.swap(false, Ordering::Relaxed) {
                    info!("spool accepts articles again");
                }
                let full = outcomes.contains(&Outcome::Full);
                if full && !self.class_full.swap(true, Ordering::Relaxed) {
                    warn!("a storage class is full: its articles are turned away; see `newsreel status`");
                }
                Receipt { ticket: Some(ticket), trouble: full.then(class_full), ..Receipt::default() }
            }
            Err(trouble) => {
                if !self.in_trouble.swap(true, Ordering::Relaxed) {
                    error!(%trouble, "spool stopped accepting articles");
                }
                // What was committed before the trouble stands, and is to be durable before it is answered.
                Receipt { ticket: Some(self.spool.ticket()), trouble: Some(trouble), ..Receipt::default() }
            }
        }
    }

    /// Withdraws what the filed articles withdraw, and those of them whose withdrawal came since `epoch`.
    /// Returns why the last of them withdrew nothing.
    fn obey(
        &self,
        origin: &Origin,
        drafts: &Drafts<'_>,
        epoch: u64,
        dispositions: &[Disposition],
    ) -> Option<NotWithdrawn> {
        if self.withdrawals.epoch() != epoch {
            let check_again = |(key, id)| self.withdrawals.check_again(&self.spool, key, id);
            patiently(|| drafts.ids().for_each(check_again));
        }
        let mut not_withdrawn = None;
        for withdrawing in &drafts.withdrawing {
            if let Some(Disposition::Accepted(_)) = dispositions.get(withdrawing.at) {
                let obeyed = patiently(|| self.withdrawals.obey(&self.spool, Some(origin), withdrawing));
                not_withdrawn = obeyed.err();
            }
        }
        if !drafts.withdrawing.is_empty() && self.spool.config().durability == Durability::Always {
            patiently(|| self.withdrawals.sync());
        }
        not_withdrawn
    }

    fn count(&self, origin: &Origin, batch: &[Incoming<'_>], dispositions: &[Disposition]) {
        let (mut accepted, mut rejected) = (0, 0);
        for (incoming, disposition) in batch.iter().zip(dispositions) {
            match disposition {
                Disposition::Accepted(_) => accepted += 1,
                Disposition::TryLater => {}
                Disposition::Rejected(reject) => {
                    rejected += 1;
                    if tracing::enabled!(tracing::Level::DEBUG) {
                        debug!(from = origin.name(), id = %shown_id(incoming), reason = %reject, "rejected");
                    }
                }
            }
        }
        add(&self.counters.accepted, accepted);
        add(&self.counters.rejected, rejected);
        add(&self.counters.try_later, dispositions.len() - accepted - rejected);
        if let Some(peer) = origin.counters() {
            add(&peer.accepted, accepted);
            add(&peer.rejected, rejected);
        }
    }
}

/// Runs what may wait for the spool's writer without holding up other sessions of this thread.
fn patiently<T>(work: impl FnOnce() -> T) -> T {
    match tokio::runtime::Handle::try_current() {
        Ok(_) => tokio::task::block_in_place(work),
        Err(_) => work(),
    }
}

/// Why an article must wait though the spool takes others.
fn class_full() -> Trouble {
    let text = "its storage class is full until articles there are due or the operator makes room";
    Trouble { kind: TroubleKind::Full, text: text.into() }
}

/// The Message-ID to show in the log, as far as there is one.
fn shown_id(incoming: &Incoming<'_>) -> String {
    let header = || Article::parse(incoming.wire).ok().and_then(|article| article.header(Known::MessageId));
    let id = incoming.claimed_id.or_else(header).unwrap_or_default();
    String::from_utf8_lossy(id.get(..wire::LINE_BYTES_MAX).unwrap_or(id)).into_owned()
}

#[cfg(test)]
mod tests;
