//! Cancels and Supersedes: which are obeyed, and what becomes of those that come before their article.
//!
//! An article that withdraws another one is filed like any other; only when it is filed is it obeyed. What it names and is
//! here goes at once, from every list. What is not here yet is refused when it comes (`early`). Called by `ingest` for the
//! few articles with a Control or Supersedes header. Sources: RFC 5537 sections 5.3 and 5.4, RFC 8315 section 3.5, INN's
//! `docancels`.

use super::Reject;
use super::early::Early;
use crate::cancel_lock;
use crate::config::{Cancel, Config, Honor};
use crate::site::unix_now;
use arc_swap::ArcSwap;
use netnews::article::Headers;
use netnews::control;
use netnews::{Article, Known, MessageId};
use spool::{ArticleBuf, Entry, Key, Lookup, Patience, Spool};
use std::sync::Arc;
use tracing::{debug, warn};

/// An article of a batch that withdraws another one.
#[derive(Debug)]
pub(super) struct Withdrawing<'a> {
    /// Which article of the batch.
    pub at: usize,
    pub target: MessageId<'a>,
    /// Its Cancel-Key.
    pub keys: &'a [u8],
}

/// What `article` withdraws, if it does; a header that cannot be read withdraws nothing.
pub(super) fn withdrawing<'a>(article: &Article<'a>, at: usize) -> Option<Withdrawing<'a>> {
    if article.count(Known::Control) == 0 && article.count(Known::Supersedes) == 0 {
        return None;
    }
    let target = control::withdrawal(article).ok()??.target();
    Some(Withdrawing { at, target, keys: article.header(Known::CancelKey).unwrap_or_default() })
}

/// Carries out withdrawals.
#[derive(Debug)]
pub(super) struct Withdrawals {
    policy: ArcSwap<Cancel>,
    early: Early,
}

impl Withdrawals {
    pub fn new(config: &Config) -> Self {
        Self {
            early: Early::open(&config.site.data, config.site.remember_days, unix_now()),
            policy: ArcSwap::from_pointee(config.cancel.clone()),
        }
    }

    /// Goes by another configuration.
    pub fn apply(&self, config: &Config) {
        self.policy.store(Arc::new(config.cancel.clone()));
        self.early.keep_for(config.site.remember_days);
    }

    /// Whether the article was withdrawn before it came.
    pub fn check(&self, article: &Article<'_>, key: Key) -> Result<(), Reject> {
        let Some(keys) = self.early.keys(key) else { return Ok(()) };
        match self.permits(article.header(Known::CancelLock), &keys) {
            true => Err(Reject::Withdrawn),
            false => Ok(()),
        }
    }

    /// Obeys the withdrawal of a filed article, if it is to be obeyed. May wait for the disk.
    pub fn obey(&self, spool: &Spool, withdrawing: &Withdrawing<'_>) {
        let id = withdrawing.target;
        let key = spool.key(id.as_bytes());
        let policy = self.policy.load_full();
        if policy.honor == Honor::None {
            return;
        }
        match spool.lookup(&key) {
            Lookup::Present(_) => self.withdraw(spool, key, id, withdrawing.keys),
            Lookup::Unknown if policy.honor == Honor::All => {
                let arrived = u64::try_from(unix_now()).unwrap_or_default();
                let mut outcomes = Vec::new();
                if let Err(trouble) = spool.commit(&[Entry::Remember { key, arrived }], &mut outcomes) {
                    warn!(%id, %trouble, "cannot remember an article that was withdrawn before it came");
                }
            }
            Lookup::Unknown => self.early.remember(key, withdrawing.keys, policy.unlocked, unix_now()),
            Lookup::Remembered | Lookup::Gone => return,
        }
        // It may have come meanwhile, by another connection.
        if let Lookup::Present(_) = spool.lookup(&key) {
            self.withdraw(spool, key, id, withdrawing.keys);
        }
    }

    /// Changes whenever a withdrawal comes before its article.
    pub fn epoch(&self) -> u64 {
        self.early.epoch()
    }

    /// Withdraws an article just filed, if its withdrawal came while it was being filed.
    pub fn check_again(&self, spool: &Spool, key: Key, id: MessageId<'_>) {
        if let Some(keys) = self.early.keys(key) {
            self.withdraw(spool, key, id, &keys);
        }
    }

    fn withdraw(&self, spool: &Spool, key: Key, id: MessageId<'_>, keys: &[u8]) {
        let mut article = ArticleBuf::default();
        let Lookup::Present(token) = spool.lookup(&key) else { return };
        match spool.read(&token, Some(&key), Patience::Wait, &mut article) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                warn!(%id, %error, "cannot read what is to be withdrawn");
                return;
            }
        }
        let mut headers = Headers::of(article.head());
        let lock =
            headers.find(|(name, _)| name.eq_ignore_ascii_case(b"Cancel-Lock")).map(|(_, value)| value);
        if !self.permits(lock, keys) {
            debug!(%id, "not withdrawn: no key opens its lock");
            return;
        }
        match spool.cancel(id.as_bytes()) {
            Ok(cancelled) => debug!(%id, cancelled, "withdrawn"),
            Err(trouble) => warn!(%id, %trouble, "cannot withdraw"),
        }
    }

    /// Whether these keys may withdraw an article with this lock.
    fn permits(&self, lock: Option<&[u8]>, keys: &[u8]) -> bool {
        let policy = self.policy.load();
        match (policy.honor, lock) {
            (Honor::None, _) => false,
            (Honor::All, _) => true,
            (Honor::Verified, None) => policy.unlocked,
            (Honor::Verified, Some(lock)) => cancel_lock::opens(lock, keys),
        }
    }
}
