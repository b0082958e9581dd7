//! Commits a judged batch.
//!
//! All articles go to the spool in one call, whose journal rows are the commit point. Called by `ingest`.

use super::drafts::BatchDrafts;
use super::{DeferralReason, Disposition, Filer, Receipt, Reject, patiently};
use netnews::MessageId;
use netnews::article::Headers;
use site_base::clock::unix_now;
use spool::{ArticleIdent, Change, ChangeMaker as _, ChangeOutcome, CommitTicket, SpoolTrouble, TroubleKind};
use std::sync::atomic::Ordering;
use tracing::{error, info, warn};

/// Headers examined in an article that is too large to be taken.
const HEADERS_MAX: usize = 200;

impl Filer {
    /// Commits the drafts and sets the dispositions of the articles.
    pub(super) fn commit(
        &self,
        drafts: &mut BatchDrafts<'_>,
        now: i64,
        dispositions: &mut [Disposition],
    ) -> Receipt {
        if drafts.is_empty() {
            // "Already known" promises as much as "taken".
            return Receipt { ticket: Some(self.spool.ticket()), ..Receipt::default() };
        }
        let mut outcomes = Vec::new();
        let _filing = self.controls.filing(drafts.controls());
        let _looked_up = self.hides.filing();
        drafts.hide_awaited(&self.hides);
        let result = drafts.with_changes(now, |changes| self.log.commit(changes, &mut outcomes));
        for (at, outcome) in drafts.committed().zip(&outcomes) {
            if let Some(disposition) = dispositions.get_mut(at) {
                *disposition = disposition_of(outcome);
            }
        }
        let asides = outcomes.get(drafts.len()..).unwrap_or_default();
        match result.and_then(|ticket| self.remember_aside(drafts, asides, now, ticket)) {
            Ok(ticket) => {
                if self.in_trouble.load(Ordering::Relaxed) && self.in_trouble.swap(false, Ordering::Relaxed) {
                    info!("spool accepts articles again");
                }
                let full = outcomes.contains(&ChangeOutcome::Full);
                if full && !self.class_full.swap(true, Ordering::Relaxed) {
                    warn!("a storage class is full: its articles are turned away; see `newsreel status`");
                }
                Receipt { ticket: Some(ticket), trouble: full.then(class_full), ..Receipt::default() }
            }
            Err(trouble) => {
                if !self.in_trouble.swap(true, Ordering::Relaxed) {
                    error!(%trouble, "spool stopped accepting articles");
                }
                // Articles committed before the trouble stay, and must be durable before the answer.
                Receipt { ticket: Some(self.spool.ticket()), trouble: Some(trouble), ..Receipt::default() }
            }
        }
    }

    /// Remembers the Message-IDs, where not yet known, of articles set aside before; peers are answered
    /// only then. Those of articles set aside now are remembered by the same rows, whose ticket is
    /// `ticket`.
    fn remember_aside(
        &self,
        drafts: &BatchDrafts<'_>,
        outcomes: &[ChangeOutcome],
        now: i64,
        ticket: CommitTicket,
    ) -> Result<CommitTicket, SpoolTrouble> {
        let arrived = u64::try_from(now).unwrap_or_default();
        let kept = drafts.asides().zip(outcomes).filter(|(_, outcome)| **outcome == ChangeOutcome::Duplicate);
        let remember = |(key, _)| Change::Remember { id: ArticleIdent::Key(key), arrived };
        let changes: Vec<Change<'_>> = kept.map(remember).collect();
        if changes.is_empty() {
            return Ok(ticket);
        }
        if !self.spool.is_durable(ticket) {
            patiently(|| self.spool.sync())?;
        }
        self.log.commit(&changes, &mut Vec::new())
    }

    /// Remembers the Message-ID of an article that is too large and was only read up to this point, so that
    /// it is not asked for again; only if the article has the announced Message-ID.
    pub fn remember_too_large(&self, announced: &[u8], begun: &[u8]) {
        let mut headers = Headers::of(begun).take(HEADERS_MAX);
        let own = headers.find(|(name, _)| name.eq_ignore_ascii_case(b"Message-ID"));
        let own = own.and_then(|(_, value)| MessageId::from_header(value));
        if own.is_none_or(|own| own.as_bytes() != announced) {
            return;
        }
        let mut drafts = BatchDrafts::new(1, &self.router, self.spool.group_table());
        drafts.remember(self.spool.key(announced));
        self.commit(&mut drafts, unix_now(), &mut []);
    }
}

fn disposition_of(outcome: &ChangeOutcome) -> Disposition {
    match outcome {
        ChangeOutcome::Filed(filed) => Disposition::Accepted(Some(filed.token)),
        ChangeOutcome::Remembered => Disposition::Accepted(None),
        ChangeOutcome::Duplicate => Disposition::Rejected(Reject::Duplicate),
        ChangeOutcome::Full => Disposition::Deferred(DeferralReason::ClassFull),
        ChangeOutcome::NoBody => Disposition::TryLater,
        ChangeOutcome::Unfit => Disposition::Rejected(Reject::NoPlace),
        ChangeOutcome::NumberTaken => Disposition::Rejected(Reject::NumberTaken),
        // Its groups were removed while it was judged.
        ChangeOutcome::NoGroup => Disposition::Rejected(Reject::UnknownGroups),
        // Outcomes of other changes.
        ChangeOutcome::NotHere | ChangeOutcome::Refused(_) | ChangeOutcome::Changed(_) => {
            Disposition::TryLater
        }
    }
}

/// Returns why an article must wait although the spool takes others.
fn class_full() -> SpoolTrouble {
    let text = "its storage class is full until articles there are due or the operator makes room";
    SpoolTrouble::new(TroubleKind::Full, text)
}
