//! Cancels and Supersedes: which are obeyed, and what becomes of those that come before their article.
//!
//! An article that withdraws another one is filed like any other; only when it is filed is it obeyed. What it
//! names and is here goes at once, from every list. What is not here yet is refused when it comes (`early`).
//! Called by `ingest` for the few articles with a Control or Supersedes header. Sources: RFC 5537 sections
//! 5.3 and 5.4, RFC 8315 section 3.5, INN's `docancels`.

use super::control::{Asked, Keyring, Permit, Policy, Proof};
use super::early::Early;
use super::{Origin, Reject};
use crate::base::clock::unix_now;
use crate::cancel_lock;
use crate::config::{Config, Word};
use arc_swap::ArcSwap;
use netnews::article::Headers;
use netnews::control;
use netnews::{Article, Known, MessageId};
use spool::{ArticleBuf, Entry, Key, Lookup, Patience, Spool};
use std::fmt;
use std::sync::Arc;
use tracing::{debug, info, warn};

/// Why an article that is to withdraw another one withdraws nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotWithdrawn {
    /// `[[control]]` or `[cancel]` says so.
    NotHonored,
    /// The other article is not here, or the sender may not know of it.
    NotHere,
    /// The other article has no Cancel-Lock.
    NoLock,
    /// No Cancel-Key fits the lock.
    NoKey,
    /// The other article cannot be read or withdrawn now.
    Trouble,
}

/// What the poster is told.
impl fmt::Display for NotWithdrawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotHonored => "cancels are not honored here",
            Self::NotHere => "that article is not here",
            Self::NoLock => "that article has no lock",
            Self::NoKey => "no key fits that article's lock",
            Self::Trouble => "that article cannot be withdrawn now",
        })
    }
}

/// An article of a batch that withdraws another one.
#[derive(Debug)]
pub(super) struct Withdrawing<'a> {
    /// Which article of the batch.
    pub at: usize,
    pub target: MessageId<'a>,
    /// Its Cancel-Key.
    pub keys: &'a [u8],
    /// Its bytes.
    wire: &'a [u8],
}

/// What `article` withdraws, if it does; a header that cannot be read withdraws nothing.
pub(super) fn withdrawing<'a>(article: &Article<'a>, at: usize) -> Option<Withdrawing<'a>> {
    if article.count(Known::Control) == 0 && article.count(Known::Supersedes) == 0 {
        return None;
    }
    let target = control::withdrawal(article).ok()??.target();
    let keys = article.header(Known::CancelKey).unwrap_or_default();
    Some(Withdrawing { at, target, keys, wire: article.wire() })
}

/// Carries out withdrawals.
#[derive(Debug)]
pub(super) struct Withdrawals {
    policy: ArcSwap<Policy>,
    keyring: Keyring,
    early: Arc<Early>,
}

impl Withdrawals {
    pub fn new(config: &Arc<Config>, spool: &Spool) -> Self {
        let disk = spool.disk().clone();
        let early = Arc::new(Early::open(disk, &config.site.data, config.site.remember_days, unix_now()));
        let synced = Arc::downgrade(&early);
        spool.on_durable(Box::new(move || synced.upgrade().iter().for_each(|early| early.sync())));
        let keyring = Keyring::of(spool.disk().clone(), &config.site.data);
        Self { early, keyring, policy: ArcSwap::from_pointee(Policy::of(config.clone())) }
    }

    /// Goes by another configuration.
    pub fn apply(&self, config: &Arc<Config>) {
        self.policy.store(Arc::new(Policy::of(config.clone())));
        self.early.keep_for(config.site.remember_days);
    }

    /// Makes durable what waits for its article.
    pub fn sync(&self) {
        self.early.sync();
    }

    /// How many wait for their article.
    pub fn early_cancels(&self) -> usize {
        self.early.len()
    }

    /// Whether the article is one that is refused, or was withdrawn before it came.
    pub fn check(&self, article: &Article<'_>, key: Key) -> Result<(), Reject> {
        if self.policy.load().refuses(article) {
            return Err(Reject::ControlRefused);
        }
        let Some(keys) = self.early.keys(key) else { return Ok(()) };
        match opens_late(self.policy.load().late(), article.header(Known::CancelLock), &keys) {
            true => Err(Reject::Withdrawn),
            false => Ok(()),
        }
    }

    /// Obeys the withdrawal by an article from `origin`, if it is to be obeyed; `None`: it came before the
    /// server started. May wait for the disk.
    pub fn obey(
        &self,
        spool: &Spool,
        origin: Option<&Origin>,
        withdrawing: &Withdrawing<'_>,
    ) -> Result<(), NotWithdrawn> {
        let id = withdrawing.target;
        let key = spool.key(id.as_bytes());
        let policy = self.policy.load_full();
        let article = Article::parse(withdrawing.wire).map_err(|_| NotWithdrawn::Trouble)?;
        let asked = Asked::of(&article).ok_or(NotWithdrawn::Trouble)?;
        let proof = Proof::of(&article, &self.keyring);
        let signed = |names: &[String]| proof.is_by(names);
        match spool.lookup(&key) {
            Lookup::Present(_) => {}
            Lookup::Unknown => match policy.withdrawal(&asked, &signed) {
                (Permit::NotHonored, _) => {}
                // Its groups are not known; so who may withdraw in some of them only cannot do so yet.
                (Permit::Nothing, section) if section.is_none_or(|s| s.groups.as_str() == "*") => {
                    let arrived = u64::try_from(unix_now()).unwrap_or_default();
                    let mut outcomes = Vec::new();
                    if let Err(trouble) = spool.commit(&[Entry::Remember { key, arrived }], &mut outcomes) {
                        warn!(%id, %trouble, "cannot remember an article that was withdrawn before it came");
                    }
                }
                (permit, _) => {
                    self.early.remember(key, withdrawing.keys, permit == Permit::KeyIfLocked, unix_now());
                }
            },
            Lookup::Remembered | Lookup::Gone => {
                return Err(match policy.withdrawal(&asked, &signed) {
                    (Permit::NotHonored, _) => NotWithdrawn::NotHonored,
                    _ => NotWithdrawn::NotHere,
                });
            }
        }
        // Also if it was not here: it may have come meanwhile, by another connection.
        let withdrawn = withdraw(spool, key, id, withdrawing.keys, |head, lock, is_open| {
            // Without its key nobody can withdraw, or even find, what they may not read.
            if !is_open && origin.is_some_and(|origin| !origin.sees(head)) {
                return Err(NotWithdrawn::NotHere);
            }
            let (permit, section) = policy.withdrawal(&asked.clone().and_of(head), &signed);
            if permit == Permit::NotHonored {
                if let Some(section) = section {
                    let (what, action) = (asked.what.word(), section.action.word());
                    info!(%id, what, from = asked.sender, action, "not withdrawn: a [[control]] section says so");
                }
                return Err(NotWithdrawn::NotHonored);
            }
            match (permit, lock) {
                _ if is_open => Ok(()),
                (Permit::Nothing, _) | (Permit::KeyIfLocked, None) => Ok(()),
                (_, None) => Err(NotWithdrawn::NoLock),
                (_, Some(_)) => Err(NotWithdrawn::NoKey),
            }
        });
        match policy.withdrawal(&asked, &signed) {
            (Permit::NotHonored, _) if withdrawn == Err(NotWithdrawn::NotHere) => {
                Err(NotWithdrawn::NotHonored)
            }
            _ => withdrawn,
        }
    }

    /// Changes whenever a withdrawal comes before its article.
    pub fn epoch(&self) -> u64 {
        self.early.epoch()
    }

    /// Withdraws an article just filed, if its withdrawal came while it was being filed.
    pub fn check_again(&self, spool: &Spool, key: Key, id: MessageId<'_>) {
        if let Some(keys) = self.early.keys(key) {
            let permit = self.policy.load().late();
            let _nobody_asks = withdraw(spool, key, id, &keys, |_, lock, _| {
                opens_late(permit, lock, &keys).then_some(()).ok_or(NotWithdrawn::NoKey)
            });
        }
    }
}

/// Whether what was shown before the article came withdraws it.
fn opens_late(permit: Permit, lock: Option<&[u8]>, keys: &[u8]) -> bool {
    match (permit, lock) {
        (Permit::Nothing, _) | (Permit::KeyIfLocked, None) => true,
        (Permit::NotHonored, _) | (_, None) => false,
        (_, Some(lock)) => cancel_lock::opens(lock, keys),
    }
}

/// Withdraws an article if `permits` says so of its header lines, its lock, and whether a key opens that.
fn withdraw(
    spool: &Spool,
    key: Key,
    id: MessageId<'_>,
    keys: &[u8],
    permits: impl FnOnce(&[u8], Option<&[u8]>, bool) -> Result<(), NotWithdrawn>,
) -> Result<(), NotWithdrawn> {
    let mut article = ArticleBuf::default();
    let Lookup::Present(token) = spool.lookup(&key) else { return Err(NotWithdrawn::NotHere) };
    match spool.read(&token, Some(&key), Patience::Wait, &mut article) {
        Ok(true) => {}
        Ok(false) => return Err(NotWithdrawn::NotHere),
        Err(error) => {
            warn!(%id, %error, "cannot read what is to be withdrawn");
            return Err(NotWithdrawn::Trouble);
        }
    }
    let mut headers = Headers::of(article.head());
    let lock = headers.find(|(name, _)| name.eq_ignore_ascii_case(b"Cancel-Lock")).map(|(_, value)| value);
    let is_open = lock.is_some_and(|lock| cancel_lock::opens(lock, keys));
    if let Err(why) = permits(article.head(), lock, is_open) {
        debug!(%id, %why, "not withdrawn");
        return Err(why);
    }
    match spool.cancel(id.as_bytes()) {
        Ok(true) => {
            debug!(%id, "withdrawn");
            Ok(())
        }
        Ok(false) => Err(NotWithdrawn::NotHere),
        Err(trouble) => {
            warn!(%id, %trouble, "cannot withdraw");
            Err(NotWithdrawn::Trouble)
        }
    }
}
