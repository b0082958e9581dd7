//! Counts of a pull, during and after it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::aside::{AsideArticle, RemoteArticle};
use site_base::counters::{add, read};
use site_base::figures;
use site_base::lock::Leaf;
use site_base::units::{counted, grouped};

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
        /// Number of further ones.
        hidden left_out_more: u64,
        /// Number of articles that wait for a later run.
        gauge waiting: u64,
        /// Number of these that were refused in this run.
        hidden refused_now: u64,
        /// Some of those that wait, with the server's last responses; refused ones of this run come last.
        hidden asides: Vec<String>,
    }
}

impl PullDetails {
    /// Returns the details as lines for people.
    pub fn lines(&self) -> Vec<String> {
        let rejected = self.rejected.iter().map(|RejectReason { reason, count, examples }| {
            format!("rejected: {} {reason}: {}", grouped(*count), examples.join(", "))
        });
        let more = self.left_out_more;
        let more = (more > 0).then(|| format!("set aside or left out: {} more", grouped(more)));
        let left_out = self.left_out.iter().cloned().chain(more);
        // Those refused in this run have been named.
        let before = self.waiting.saturating_sub(self.refused_now);
        rejected.chain(left_out).chain(self.first_waiting(before)).collect()
    }

    /// Returns the lines about articles that wait.
    pub fn waiting_lines(&self) -> Vec<String> {
        self.first_waiting(self.waiting).collect()
    }

    /// Returns lines about the first `count` of the articles that wait.
    fn first_waiting(&self, count: u64) -> impl Iterator<Item = String> {
        let named = self.asides.iter().take(usize::try_from(count).unwrap_or(usize::MAX));
        let others = count.saturating_sub(self.asides.len() as u64);
        let more = (others > 0).then(|| format!("waiting: {} more", grouped(others)));
        named.map(|aside| format!("waiting: {aside}")).chain(more)
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
        } else {
            details.left_out_more += 1;
        }
        is_named
    }

    /// Records the articles that wait for a later run; `before` are those that waited when this one began.
    pub(super) fn note_waiting(
        &self,
        asides: &BTreeMap<RemoteArticle, AsideArticle>,
        before: &BTreeMap<RemoteArticle, AsideArticle>,
    ) {
        let is_as_before = |(article, aside): &(&RemoteArticle, &AsideArticle)| {
            before.get(*article).is_some_and(|before| before.tries == aside.tries)
        };
        let (mut all, now): (Vec<_>, Vec<_>) = asides.iter().partition(is_as_before);
        let mut details = self.details.lock();
        details.refused_now = now.len() as u64;
        all.extend(now);
        details.waiting = all.len() as u64;
        let lines = all.into_iter().take(LINES_MAX).map(|(article, aside)| {
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

#[cfg(test)]
mod tests {
    use super::super::aside::FetchRefusal;
    use super::*;

    #[test]
    fn articles_set_aside_are_named_once_and_further_ones_counted() {
        let article = |number| RemoteArticle { group: "a.b".into(), number, id: "".into() };
        let refusal = FetchRefusal::answer(451, b"no");
        let aside = |last| AsideArticle { tries: 1, first: last, last, refusal: refusal.clone() };
        let counters = PullCounters::default();
        counters.leave_out("group left out: c.d: 411 no".into());
        for number in 1..=28 {
            counters.leave_out(format!("set aside: {}: {refusal} (refused 1 time)", article(number)));
        }
        let last = |number| if number <= 28 { 600 } else { 400 };
        let all: BTreeMap<_, _> = (1..=30).map(|number| (article(number), aside(last(number)))).collect();
        let before = all.iter().skip(28).map(|(article, aside)| (article.clone(), aside.clone())).collect();
        counters.note_waiting(&all, &before);
        let details = counters.details();
        assert_eq!((details.waiting, details.refused_now), (30, 28));
        let lines = details.lines();
        let count = |begin: &str| lines.iter().filter(|line| line.starts_with(begin)).count();
        assert_eq!((count("set aside: "), count("group left out: ")), (19, 1), "{lines:?}");
        assert_eq!(lines.last().map(String::as_str), Some("waiting: a.b 30: 451 no (refused 1 time)"));
        assert_eq!(count("waiting: "), 2, "{lines:?}");
        assert!(lines.contains(&"set aside or left out: 9 more".to_owned()), "{lines:?}");
        let waiting = details.waiting_lines();
        assert_eq!((waiting.len(), waiting.last().map(String::as_str)), (21, Some("waiting: 10 more")));
    }
}
