//! Counts of a pull, during and after it.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::aside::{AsideArticle, RemoteArticle};
use site_base::counters::{add, read};
use site_base::figures;
use site_base::lock::Leaf;
use site_base::units::counted;

/// Maximum number of reasons for rejection that are distinguished; others count as one.
const REASONS_MAX: usize = 20;
/// Examples of articles for each reason.
const EXAMPLES_MAX: usize = 3;
/// Maximum number of lines about omitted articles.
const LINES_MAX: usize = 20;

/// Counts of one run, or of all runs of a section since the start.
#[derive(Debug, Default)]
pub(crate) struct PullCounters {
    /// Numbers, or Message-IDs, that the run examines, and those done.
    pub total: AtomicU64,
    pub done: AtomicU64,
    /// Groups with new articles.
    pub groups: AtomicU64,
    /// Groups that match there and are not carried here.
    pub not_carried: AtomicU64,
    /// Groups that were created.
    pub groups_made: AtomicU64,
    /// Articles received, and their bytes.
    fetched: AtomicU64,
    bytes: AtomicU64,
    pub accepted: AtomicU64,
    rejected: AtomicU64,
    /// Articles received that were known by then.
    pub duplicates: AtomicU64,
    /// Articles not requested because they are known here.
    pub known: AtomicU64,
    /// Articles that the server listed but did not have.
    pub missing: AtomicU64,
    /// Articles that the server refused to send, and those given up.
    pub set_aside: AtomicU64,
    pub given_up: AtomicU64,
    /// Groups that the server does not let us read.
    pub groups_skipped: AtomicU64,
    /// Invalid lines in the server's lists.
    pub odd_lines: AtomicU64,
    details: Leaf<PullDetails>,
}

figures! {
    /// Snapshot of `PullCounters`.
    #[derive(Copy, Eq)]
    #[serde(default)]
    pub struct PullCounts {
        /// Numbers, or Message-IDs, to be examined.
        gauge total: u64,
        /// Numbers, or Message-IDs, that were examined.
        gauge done: u64,
        /// Groups with new articles.
        gauge groups: u64,
        /// Groups that match there and are not carried here.
        gauge not_carried: u64,
        /// Groups that were created here.
        gauge groups_made: u64,
        /// Articles received.
        gauge fetched: u64,
        /// Bytes received.
        gauge bytes: u64,
        /// Articles that were filed.
        gauge accepted: u64,
        /// Articles received and rejected.
        gauge rejected: u64,
        /// Articles received that were known by then.
        gauge duplicates: u64,
        /// Articles not requested because they are known here.
        gauge known: u64,
        /// Articles that the server listed but did not have.
        gauge missing: u64,
        /// Articles that the server refused to send; they are requested again later.
        gauge set_aside: u64,
        /// Articles refused for too long, which are not requested any more.
        gauge given_up: u64,
        /// Groups that the server does not let us read.
        gauge groups_skipped: u64,
        /// Invalid lines in the server's lists.
        gauge odd_lines: u64,
    }
}

impl PullCounts {
    /// Returns whether something that the server listed was omitted.
    pub fn lacks_some(&self) -> bool {
        self.set_aside + self.given_up + self.groups_skipped > 0
    }
}

/// A reason for rejecting articles.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RejectReason {
    /// Text of the reason.
    pub reason: String,
    /// Number of articles rejected for it.
    pub count: u64,
    /// Message-IDs of some of them.
    pub examples: Vec<String>,
}

figures! {
    /// Details of a run besides the counts.
    #[derive(Eq)]
    #[serde(default)]
    pub struct PullDetails {
        /// Reasons for which articles were rejected.
        hidden rejected: Vec<RejectReason>,
        /// Some of the listed articles that were not sent, with the server's responses.
        hidden left_out: Vec<String>,
        /// Number of articles that wait for a later run.
        gauge waiting: u64,
        /// Some of these, with the server's last responses.
        hidden asides: Vec<String>,
    }
}

impl PullDetails {
    /// Returns the details as lines for people.
    pub fn lines(&self) -> Vec<String> {
        use site_base::units::grouped;
        let rejected = self.rejected.iter().map(|RejectReason { reason, count, examples }| {
            format!("rejected: {} {reason}: {}", grouped(*count), examples.join(", "))
        });
        let left_out = self.left_out.iter().cloned();
        rejected.chain(left_out).chain(self.waiting_lines()).collect()
    }

    /// Returns the lines about articles that wait.
    pub fn waiting_lines(&self) -> Vec<String> {
        let others = self.waiting.saturating_sub(self.asides.len() as u64);
        let more = (others > 0).then(|| format!("waiting: {others} more"));
        self.asides.iter().map(|aside| format!("waiting: {aside}")).chain(more).collect()
    }
}

impl PullCounters {
    /// Counts an article received, and its size.
    pub fn count_fetched(&self, bytes: usize) {
        add(&self.fetched, 1);
        add(&self.bytes, bytes);
    }

    /// Returns the number of articles received.
    pub fn fetched(&self) -> u64 {
        read(&self.fetched)
    }

    /// Counts a rejected article.
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

    /// Records an omission; returns whether it is among those named.
    pub fn leave_out(&self, line: String) -> bool {
        let mut details = self.details.lock();
        let is_named = details.left_out.len() < LINES_MAX;
        if is_named {
            details.left_out.push(line);
        }
        is_named
    }

    /// Records the articles that wait for a later run.
    pub(super) fn note_waiting<'a>(
        &self,
        asides: impl ExactSizeIterator<Item = (&'a RemoteArticle, &'a AsideArticle)>,
    ) {
        let mut details = self.details.lock();
        details.waiting = asides.len() as u64;
        let lines = asides.take(LINES_MAX).map(|(article, aside)| {
            format!("{article}: {} (refused {})", aside.refusal, counted(u64::from(aside.tries), "time"))
        });
        details.asides = lines.collect();
    }

    /// Returns the details of the run.
    pub fn details(&self) -> PullDetails {
        self.details.lock().clone()
    }

    /// Returns a snapshot.
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

    /// Adds `n` to a counter.
    pub fn count(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}
