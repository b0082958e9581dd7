//! Cancels and Supersedes: which are obeyed, and how those that arrive before their article are kept.
//!
//! An article that withdraws another one is filed like any other; it is obeyed after that. The article it
//! names, if present, disappears from every list. One that has not arrived yet is refused on arrival
//! (`early`). Called by `follow_ups`, with many at once. Sources: RFC 5537 sections 5.3 and 5.4, RFC 8315
//! section 3.5, INN's `docancels`.

use super::control::{ControlPolicy, ControlRequest, Keyring, SignatureProof, WithdrawalProof};
use super::early::{self, EarlyWithdrawals};
use super::{Reject, aside, origin};
use access::cancel_lock;
use arc_swap::ArcSwap;
use disk::ReadMode;
use netnews::article::Headers;
use netnews::control;
use netnews::{Article, Known, MessageId, newsgroups};
use site_base::clock::{unix_now, unix_secs};
use site_config::{Config, ConfigWord, NamePattern};
use site_log::SiteLog;
use spool::{
    ArticleBuf, ArticleIdent, ArticleKey, Change, ChangeMaker as _, ChangeOutcome, Lookup, Spool,
    SpoolTrouble,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tracing::{debug, info, warn};

/// Reason why an article withdraws nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WithdrawalRefusal {
    /// Not honored according to `[[control]]` or `[cancel]`.
    #[error("cancels are not honored here")]
    NotHonored,
    /// The target is not here, or the sender may not know of it.
    #[error("that article is not here")]
    NotHere,
    /// The target has no Cancel-Lock.
    #[error("that article has no lock")]
    NoLock,
    /// No Cancel-Key matches the lock.
    #[error("no key fits that article's lock")]
    NoKey,
    /// The target cannot be read or withdrawn now.
    #[error("that article cannot be withdrawn now")]
    Trouble,
}

/// Text reported to the poster.
/// An article of a batch that withdraws another one.
#[derive(Debug)]
pub(super) struct BatchWithdrawal<'a> {
    /// Index in the batch.
    pub at: usize,
    pub target: MessageId<'a>,
    /// Header lines kept until it is obeyed.
    pub kept: Box<[u8]>,
    /// Whether a group takes it, so that it can be found in the spool.
    pub is_filed: bool,
}

/// Returns the article that `article` withdraws, if any; an invalid header withdraws nothing.
pub(super) fn target<'a>(article: &Article<'a>) -> Option<MessageId<'a>> {
    if article.count(Known::Control) == 0 && article.count(Known::Supersedes) == 0 {
        return None;
    }
    Some(control::withdrawal(article).ok()??.target())
}

/// Returns the withdrawal of an article in a batch, if any; `is_filed` states whether a group takes it.
pub(super) fn withdrawing<'a>(
    article: &Article<'a>,
    at: usize,
    is_filed: bool,
) -> Option<BatchWithdrawal<'a>> {
    Some(BatchWithdrawal { at, target: target(article)?, kept: kept(article), is_filed })
}

/// A task to carry out once a batch is committed.
#[derive(Debug)]
pub(super) enum FollowUpTask {
    /// An article withdraws another one.
    Obey(WithdrawalRequest),
    /// The withdrawal of this article arrived while it was being filed.
    Late(ArticleKey),
}

/// An article that withdraws another one.
#[derive(Debug)]
pub(super) struct WithdrawalRequest {
    /// Header lines that decide, as an article without a body; a signed article as a whole.
    wire: Box<[u8]>,
    /// Groups that its poster may read; `None`: all.
    reads: Option<NamePattern>,
    /// Records that it withdrew nothing, for its sender.
    pub answer: Option<Arc<OnceLock<WithdrawalRefusal>>>,
}

/// Headers examined by [`Withdrawals`] in an article without a signature.
const DECIDING: [Known; 6] =
    [Known::Control, Known::Supersedes, Known::CancelKey, Known::Sender, Known::From, Known::Newsgroups];

impl WithdrawalRequest {
    /// Creates the request; for `kept`, see [`kept`].
    pub fn of(kept: Box<[u8]>, reads: Option<NamePattern>) -> Self {
        Self { wire: kept, reads, answer: None }
    }

    /// Returns its size in memory.
    pub fn bytes(&self) -> usize {
        self.wire.len()
    }
}

/// Returns the part of an article kept until it is obeyed: the header lines that decide what it may
/// withdraw, and no body. Repeated Control or Supersedes headers withdraw nothing; of all others the first
/// counts. An article that may be signed is kept whole.
pub(super) fn kept(article: &Article<'_>) -> Box<[u8]> {
    if SignatureProof::may_be(article) {
        return article.wire().into();
    }
    let mut lines = Vec::new();
    for known in DECIDING {
        if let Some(value) = article.header(known) {
            lines.extend_from_slice(known.name().as_bytes());
            lines.extend_from_slice(b": ");
            lines.extend_from_slice(value);
            lines.extend_from_slice(b"\r\n");
        }
    }
    lines.extend_from_slice(b"\r\n");
    lines.into()
}

/// Outcome of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WithdrawalOutcome {
    Withdrawn,
    Nothing(WithdrawalRefusal),
    /// The spool is in trouble: to be tried again after the next start.
    Undone,
}

/// Decision on a task.
#[derive(Debug, Clone, Copy)]
enum WithdrawalVerdict {
    /// The article is here, and is withdrawn.
    Withdraw(ArticleKey),
    /// The article is not here, and is refused on arrival.
    Refuse(ArticleKey),
    Nothing(WithdrawalRefusal),
    /// The spool takes nothing now.
    Undone,
}

/// Carries out withdrawals.
#[derive(Debug)]
pub(super) struct Withdrawals {
    policy: ArcSwap<ControlPolicy>,
    keyring: Keyring,
    early: EarlyWithdrawals,
    /// Articles entered into history or notes because they are to be refused.
    entered: AtomicU64,
}

impl Withdrawals {
    pub fn new(config: &Arc<Config>, log: &Arc<SiteLog>, oldest: i64) -> Self {
        let early = EarlyWithdrawals::open(log.clone(), &config.site.data, oldest);
        let keyring = Keyring::of(log.spool().disk().clone(), &config.site.data);
        let policy = ArcSwap::from_pointee(ControlPolicy::of(config.clone()));
        Self { early, keyring, policy, entered: AtomicU64::new(0) }
    }

    /// Applies another configuration.
    pub fn apply(&self, config: &Arc<Config>) {
        self.policy.store(Arc::new(ControlPolicy::of(config.clone())));
    }

    /// Returns how many wait for their article.
    pub fn early_cancels(&self) -> usize {
        self.early.len()
    }

    /// Rejects an article that is refused by policy, or was withdrawn before it arrived.
    pub fn check(&self, article: &Article<'_>, key: ArticleKey) -> Result<(), Reject> {
        if self.policy.load().refuses(article) {
            return Err(Reject::ControlRefused);
        }
        let Some(keys) = self.early.keys(key) else { return Ok(()) };
        let newsgroups = article.header(Known::Newsgroups);
        match self.opens_late(newsgroups, article.header(Known::CancelLock), &keys) {
            true => Err(Reject::Withdrawn),
            false => Ok(()),
        }
    }

    /// Carries out tasks, in order; one sync of the journal serves many. May wait for the disk.
    pub fn carry_out<'t>(
        &self,
        log: &SiteLog,
        tasks: impl Iterator<Item = &'t FollowUpTask> + Clone,
    ) -> Vec<WithdrawalOutcome> {
        let spool = log.spool();
        let mut verdicts: Vec<WithdrawalVerdict> =
            tasks.clone().map(|task| self.judge(spool, task)).collect();
        let refused = self.refuse_from_now_on(log, tasks, &mut verdicts);
        let keys: Vec<ArticleKey> = verdicts.iter().filter_map(WithdrawalVerdict::withdrawn).collect();
        let cancelled = log.cancel_all(&keys);
        if let Err(trouble) = &cancelled {
            warn!(%trouble, articles = keys.len(), "cannot withdraw");
        }
        let mut cancelled = cancelled.map(Vec::into_iter);
        let mut outcome = |verdict: &WithdrawalVerdict| match verdict {
            WithdrawalVerdict::Nothing(why) => WithdrawalOutcome::Nothing(*why),
            WithdrawalVerdict::Refuse(_) if refused => WithdrawalOutcome::Nothing(WithdrawalRefusal::NotHere),
            WithdrawalVerdict::Refuse(_) | WithdrawalVerdict::Undone => WithdrawalOutcome::Undone,
            WithdrawalVerdict::Withdraw(_) => match cancelled.as_mut().map(Iterator::next) {
                Ok(Some(true)) => WithdrawalOutcome::Withdrawn,
                Ok(_) => WithdrawalOutcome::Nothing(WithdrawalRefusal::NotHere),
                Err(_) => WithdrawalOutcome::Undone,
            },
        };
        verdicts.iter().map(&mut outcome).collect()
    }

    /// Enters the articles to be refused into history; those that have arrived in the meantime are judged
    /// again. Returns false if the spool takes nothing now.
    fn refuse_from_now_on<'t>(
        &self,
        log: &SiteLog,
        tasks: impl Iterator<Item = &'t FollowUpTask>,
        verdicts: &mut [WithdrawalVerdict],
    ) -> bool {
        let arrived = unix_secs();
        let mut refused: Vec<_> = tasks
            .zip(verdicts)
            .filter(|(_, verdict)| matches!(verdict, WithdrawalVerdict::Refuse(_)))
            .collect();
        let change = |(_, verdict): &(&FollowUpTask, &mut WithdrawalVerdict)| match verdict {
            WithdrawalVerdict::Refuse(key) => Some(Change::Remember { id: ArticleIdent::Key(*key), arrived }),
            _ => None,
        };
        let changes: Vec<Change<'_>> = refused.iter().filter_map(change).collect();
        if changes.is_empty() {
            return true;
        }
        let mut outcomes = Vec::new();
        let committed = log.commit(&changes, &mut outcomes);
        for ((task, verdict), outcome) in refused.iter_mut().zip(&outcomes) {
            if *outcome == ChangeOutcome::Duplicate {
                **verdict = self.judge(log.spool(), task);
            }
        }
        self.entered.fetch_add(outcomes.len() as u64, Ordering::Relaxed);
        if let Err(trouble) = &committed {
            warn!(%trouble, "cannot remember articles that were withdrawn before they came");
        }
        committed.is_ok()
    }

    /// Decides on a task. Remembers the keys shown for an article that is not here. May wait for the disk.
    fn judge(&self, spool: &Spool, task: &FollowUpTask) -> WithdrawalVerdict {
        let judged = match task {
            FollowUpTask::Obey(asking) => self.judge_withdrawal(spool, asking),
            FollowUpTask::Late(key) => self.judge_late(spool, *key),
        };
        judged.unwrap_or_else(WithdrawalVerdict::Nothing)
    }

    fn judge_withdrawal(
        &self,
        spool: &Spool,
        asking: &WithdrawalRequest,
    ) -> Result<WithdrawalVerdict, WithdrawalRefusal> {
        let policy = self.policy.load_full();
        let article = Article::parse(&asking.wire).map_err(|_| WithdrawalRefusal::Trouble)?;
        let id = target(&article).ok_or(WithdrawalRefusal::Trouble)?;
        let asked = ControlRequest::of(&article).ok_or(WithdrawalRefusal::Trouble)?;
        let shown = article.header(Known::CancelKey).unwrap_or_default();
        let proof = SignatureProof::of(&article, &self.keyring);
        let signed = |names: &[String]| proof.is_by(names);
        let key = aside::withdrawn_by(spool, id.as_bytes());
        if spool.lookup(&key) == Lookup::Unknown {
            let proofs = policy.early(&asked, &signed);
            match proofs.first() {
                None | Some((WithdrawalProof::NotHonored, _)) => {}
                Some((WithdrawalProof::Nothing, "*")) => return Ok(WithdrawalVerdict::Refuse(key)),
                // The groups of the article are not known, and decide which proof is needed.
                Some(_) => {
                    if let Err(trouble) = self.remember(key, shown, &early::permits(&proofs)) {
                        warn!(%trouble, "cannot keep a withdrawal that came before its article");
                        return Ok(WithdrawalVerdict::Undone);
                    }
                }
            }
        }
        // Judged even if it was not here: it may have arrived since, on another connection.
        let judged = judge_article(spool, key, shown, |head, lock, is_open| {
            // Without the key, a reader can neither withdraw nor discover an article in groups closed to
            // them.
            if !is_open && !origin::may_read(asking.reads.as_ref(), head) {
                return Err(WithdrawalRefusal::NotHere);
            }
            let (permit, section) = policy.withdrawal(&asked.clone().and_of(head), &signed);
            if permit == WithdrawalProof::NotHonored {
                if let Some(section) = section {
                    let (what, action) = (asked.what.word(), section.action.word());
                    info!(%id, what, from = asked.sender, action, "not withdrawn: a [[control]] section says so");
                }
                return Err(WithdrawalRefusal::NotHonored);
            }
            match (permit, lock) {
                _ if is_open => Ok(()),
                (WithdrawalProof::Nothing, _) | (WithdrawalProof::KeyIfLocked, None) => Ok(()),
                (_, None) => Err(WithdrawalRefusal::NoLock),
                (_, Some(_)) => Err(WithdrawalRefusal::NoKey),
            }
        });
        match judged {
            Ok(verdict) => {
                debug!(%id, "withdrawn");
                Ok(verdict)
            }
            Err(WithdrawalRefusal::NotHere)
                if policy.withdrawal(&asked, &signed).0 == WithdrawalProof::NotHonored =>
            {
                Err(WithdrawalRefusal::NotHonored)
            }
            Err(why) => {
                debug!(%id, %why, "not withdrawn");
                Err(why)
            }
        }
    }

    /// Keeps the keys shown for an article that is not here.
    fn remember(&self, key: ArticleKey, shown: &[u8], permits: &str) -> Result<(), SpoolTrouble> {
        let is_new = self.early.remember(key, shown, permits, unix_now())?;
        self.entered.fetch_add(u64::from(is_new), Ordering::Relaxed);
        Ok(())
    }

    fn judge_late(&self, spool: &Spool, key: ArticleKey) -> Result<WithdrawalVerdict, WithdrawalRefusal> {
        let keys = self.early.keys(key).ok_or(WithdrawalRefusal::NotHere)?;
        judge_article(spool, key, &keys, |head, lock, _| {
            let newsgroups = header(head, Known::Newsgroups);
            self.opens_late(newsgroups, lock, &keys).then_some(()).ok_or(WithdrawalRefusal::NoKey)
        })
    }

    /// Reports whether withdrawals that arrived before their article, with these keys and permits, withdraw
    /// it.
    fn opens_late(&self, newsgroups: Option<&[u8]>, lock: Option<&[u8]>, keys: &[u8]) -> bool {
        let groups: Vec<&[u8]> = newsgroups::split(newsgroups.unwrap_or_default()).collect();
        self.policy.load().honors_any()
            && (lock.is_some_and(|lock| cancel_lock::opens(lock, keys))
                || early::needs_no_key(keys, lock.is_some(), &groups))
    }

    /// Returns whether a withdrawal waits for this article.
    pub fn is_awaited(&self, key: ArticleKey) -> bool {
        self.early.keys(key).is_some()
    }

    /// Returns the number of articles entered into history or notes because they are to be refused.
    pub fn entered(&self) -> u64 {
        self.entered.load(Ordering::Relaxed)
    }

    /// Returns a counter that changes whenever a withdrawal arrives before its article.
    pub fn epoch(&self) -> u64 {
        self.early.epoch()
    }
}

impl WithdrawalVerdict {
    fn withdrawn(&self) -> Option<ArticleKey> {
        match self {
            Self::Withdraw(key) => Some(*key),
            _ => None,
        }
    }
}

/// Returns the value of a header among these lines.
fn header(head: &[u8], known: Known) -> Option<&[u8]> {
    let mut headers = Headers::of(head);
    headers.find(|(name, _)| name.eq_ignore_ascii_case(known.name().as_bytes())).map(|(_, value)| value)
}

/// Checks whether an article is here and `permits` its withdrawal; `permits` is called with its header
/// lines, its lock, and whether a key opens the lock.
fn judge_article(
    spool: &Spool,
    key: ArticleKey,
    keys: &[u8],
    permits: impl FnOnce(&[u8], Option<&[u8]>, bool) -> Result<(), WithdrawalRefusal>,
) -> Result<WithdrawalVerdict, WithdrawalRefusal> {
    let mut article = ArticleBuf::default();
    // A hidden article can be withdrawn as well.
    let (Lookup::Present(token) | Lookup::Hidden(token)) = spool.lookup(&key) else {
        return Err(WithdrawalRefusal::NotHere);
    };
    match spool.read_stored(&token, Some(&key), ReadMode::Wait, &mut article) {
        Ok(true) => {}
        Ok(false) => return Err(WithdrawalRefusal::NotHere),
        Err(error) => {
            warn!(%token, %error, "cannot read what is to be withdrawn");
            return Err(WithdrawalRefusal::Trouble);
        }
    }
    let lock = header(article.head(), Known::CancelLock);
    let is_open = lock.is_some_and(|lock| cancel_lock::opens(lock, keys));
    permits(article.head(), lock, is_open).map(|()| WithdrawalVerdict::Withdraw(key))
}
