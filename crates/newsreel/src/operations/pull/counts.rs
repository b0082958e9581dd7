//! What a pull counts, while it runs and when it has ended.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::aside::{AsideArticle, RemoteArticle};
use crate::base::counters::{add, read};
use crate::base::lock::Leaf;
use crate::base::units::counted;

/// Reasons of rejections that are told apart; others count as one.
const REASONS_MAX: usize = 20;
/// Articles named for each of them.
const EXAMPLES_MAX: usize = 3;
/// Lines about what was left out.
const LINES_MAX: usize = 20;

/// Counts of one run, or of all runs of a section since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Numbers, or Message-IDs, that the run looks at, and those dealt with.
    pub total: AtomicU64,
    pub done: AtomicU64,
    /// Groups with something new.
    pub groups: AtomicU64,
    /// Groups that match there and are not carried here.
    pub not_carried: AtomicU64,
    /// Groups that were made.
    pub groups_made: AtomicU64,
    /// Articles that came, and their bytes.
    fetched: AtomicU64,
    bytes: AtomicU64,
    pub accepted: AtomicU64,
    rejected: AtomicU64,
    /// Articles that came and were known by then.
    pub duplicates: AtomicU64,
    /// Articles that were not asked for, as they are known here.
    pub known: AtomicU64,
    /// Articles that the server has listed and not sent.
    pub missing: AtomicU64,
    /// Articles that the server has refused to send, or for which there is no room, and those given up.
    pub set_aside: AtomicU64,
    pub given_up: AtomicU64,
    /// Groups that the server does not let us read.
    pub groups_skipped: AtomicU64,
    /// Lines of the server's lists that make no sense.
    pub odd_lines: AtomicU64,
    details: Leaf<PullDetails>,
}

/// The same as values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PullCounts {
    /// Numbers, or Message-IDs, that were to be looked at.
    pub total: u64,
    /// Those that were.
    pub done: u64,
    /// Groups with something new.
    pub groups: u64,
    /// Groups that match there and are not carried here.
    pub not_carried: u64,
    /// Groups that were made here.
    pub groups_made: u64,
    /// Articles that came.
    pub fetched: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Articles that were filed.
    pub accepted: u64,
    /// Articles that came and were rejected.
    pub rejected: u64,
    /// Articles that came and were known by then.
    pub duplicates: u64,
    /// Articles that were not asked for, as they are known here.
    pub known: u64,
    /// Articles that the server has listed and not sent.
    pub missing: u64,
    /// Articles that the server has refused to send, or for which there is no room here; they are asked for
    /// again later.
    pub set_aside: u64,
    /// Articles for which this went on for too long; they are not asked for any more.
    pub given_up: u64,
    /// Groups that it does not let us read.
    pub groups_skipped: u64,
    /// Lines of its lists that make no sense.
    pub odd_lines: u64,
}

impl PullCounts {
    /// Whether something was left out that the server says it has.
    pub fn lacks_some(&self) -> bool {
        self.set_aside + self.given_up + self.groups_skipped > 0
    }
}

/// Why articles were rejected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RejectReason {
    /// In words.
    pub reason: String,
    /// Articles that were.
    pub count: u64,
    /// Message-IDs of some, or group and number.
    pub examples: Vec<String>,
}

/// What counts do not say of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PullDetails {
    /// Why articles were rejected.
    pub rejected: Vec<RejectReason>,
    /// What the server lists and did not send, with its answers: some of it.
    pub left_out: Vec<String>,
    /// Articles that wait for a later run.
    pub waiting: u64,
    /// Some of them, with the reasons.
    pub asides: Vec<String>,
}

impl PullDetails {
    /// Lines for people.
    pub fn lines(&self) -> Vec<String> {
        use crate::base::units::grouped;
        let rejected = self.rejected.iter().map(|RejectReason { reason, count, examples }| {
            format!("rejected: {} {reason}: {}", grouped(*count), examples.join(", "))
        });
        let left_out = self.left_out.iter().cloned();
        rejected.chain(left_out).chain(self.waiting_lines()).collect()
    }

    /// Those about articles that wait.
    pub fn waiting_lines(&self) -> Vec<String> {
        let others = self.waiting.saturating_sub(self.asides.len() as u64);
        let more = (others > 0).then(|| format!("waiting: {others} more"));
        self.asides.iter().map(|aside| format!("waiting: {aside}")).chain(more).collect()
    }
}

impl Counts {
    /// An article of so many bytes has come.
    pub fn count_fetched(&self, bytes: usize) {
        add(&self.fetched, 1);
        add(&self.bytes, bytes);
    }

    /// Articles that came.
    pub fn fetched(&self) -> u64 {
        read(&self.fetched)
    }

    /// An article was rejected.
    pub(super) fn reject(&self, reason: &str, article: &RemoteArticle) {
        add(&self.rejected, 1);
        let mut details = self.details.lock();
        let rejected = &mut details.rejected;
        let known = rejected.iter().position(|known| known.reason == reason);
        let reason = if rejected.len() < REASONS_MAX { reason } else { "for other reasons" };
        let at = known.or_else(|| rejected.iter().position(|known| known.reason == reason));
        let at = at.unwrap_or_else(|| {
            rejected.push(RejectReason { reason: reason.to_owned(), ..RejectReason::default() });
            rejected.len() - 1
        });
        let Some(entry) = rejected.get_mut(at) else { return };
        entry.count += 1;
        if entry.examples.len() < EXAMPLES_MAX {
            entry.examples.push(article.shortest());
        }
    }

    /// Something was left out; returns whether it is among those that are named.
    pub fn leave_out(&self, line: String) -> bool {
        let mut details = self.details.lock();
        let is_named = details.left_out.len() < LINES_MAX;
        if is_named {
            details.left_out.push(line);
        }
        is_named
    }

    /// These articles wait for a later run.
    pub(super) fn note_waiting<'a>(
        &self,
        asides: impl ExactSizeIterator<Item = (&'a RemoteArticle, &'a AsideArticle)>,
    ) {
        let mut details = self.details.lock();
        details.waiting = asides.len() as u64;
        let line = |(article, aside): (&RemoteArticle, &AsideArticle)| {
            format!("{article}: {} (refused {})", aside.refusal, counted(u64::from(aside.tries), "time"))
        };
        details.asides = asides.take(LINES_MAX).map(line).collect();
    }

    /// What counts do not say.
    pub fn details(&self) -> PullDetails {
        self.details.lock().clone()
    }

    /// How they stand.
    pub fn now(&self) -> PullCounts {
        PullCounts {
            total: read(&self.total),
            done: read(&self.done),
            groups: read(&self.groups),
            not_carried: read(&self.not_carried),
            groups_made: read(&self.groups_made),
            fetched: read(&self.fetched),
            bytes: read(&self.bytes),
            accepted: read(&self.accepted),
            rejected: read(&self.rejected),
            duplicates: read(&self.duplicates),
            known: read(&self.known),
            missing: read(&self.missing),
            set_aside: read(&self.set_aside),
            given_up: read(&self.given_up),
            groups_skipped: read(&self.groups_skipped),
            odd_lines: read(&self.odd_lines),
        }
    }

    /// Counts `n` of something.
    pub fn count(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}
