//! Records the outcomes of batches: counts, log lines, and findings of filters for the operator.
//!
//! Called by [`Filer`](super::Filer) after each commit.

use super::judging::JudgedBatch;
use super::reviews::{FilterAction, FilterReview, FilterReviews};
use super::{Disposition, IncomingArticle, Origin, Reject};
use netnews::nntp::wire;
use netnews::{Article, Known};
use site_base::counters::{ServerCounters, add};
use std::sync::Arc;
use tracing::debug;

/// Record of what became of articles.
pub(super) struct OutcomeRecord {
    pub counters: Arc<ServerCounters>,
    /// Findings of the filters.
    pub reviews: Arc<FilterReviews>,
}

impl OutcomeRecord {
    /// Records a batch that was committed.
    pub fn filed(
        &self,
        batch: &[IncomingArticle<'_>],
        judged: &JudgedBatch<'_>,
        dispositions: &[Disposition],
    ) {
        self.counters.latencies.filing.observe_many(judged.begun.elapsed(), batch.len());
        self.count(judged.origin, batch, dispositions.get(judged.first..).unwrap_or_default());
        self.review(batch, judged, dispositions);
    }

    /// Keeps the findings of the filters for the articles of a batch, for the operator.
    fn review(&self, batch: &[IncomingArticle<'_>], judged: &JudgedBatch<'_>, dispositions: &[Disposition]) {
        if judged.found.is_empty() {
            return;
        }
        self.reviews.add(judged.found.iter().filter_map(|found| {
            let happened = match dispositions.get(found.at)? {
                Disposition::Accepted(Some(_)) => found.finding.is_filed(),
                Disposition::Rejected(Reject::Filtered(_)) => !found.finding.is_filed(),
                // The article was set aside before, and its Message-ID is remembered now.
                Disposition::Rejected(Reject::Duplicate) => found.finding == FilterAction::Aside,
                _ => false,
            };
            let incoming = batch.get(found.at.checked_sub(judged.first)?).filter(|_| happened)?;
            Some(FilterReview::of(found, &Article::parse(incoming.wire).ok()?, judged.now))
        }));
    }

    /// Counts and logs the outcomes of a batch.
    pub fn count(&self, origin: &Origin, batch: &[IncomingArticle<'_>], dispositions: &[Disposition]) {
        let (mut accepted, mut rejected) = (0, 0);
        for (incoming, disposition) in batch.iter().zip(dispositions) {
            match disposition {
                Disposition::Accepted(_) => accepted += 1,
                Disposition::TryLater | Disposition::Deferred(_) => {}
                Disposition::Rejected(reject) => {
                    rejected += 1;
                    if tracing::enabled!(tracing::Level::DEBUG) {
                        debug!(from = origin.name(), id = %shown_id(incoming), reason = %reject, "rejected");
                    }
                }
            }
        }
        if rejected > 0 {
            let reason = |disposition: &Disposition| match disposition {
                Disposition::Rejected(reject) => Some(reject.text()),
                _ => None,
            };
            self.counters.reject(dispositions.iter().filter_map(reason));
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

/// Returns the Message-ID to be logged, if there is one.
fn shown_id(incoming: &IncomingArticle<'_>) -> String {
    let header = || Article::parse(incoming.wire).ok().and_then(|article| article.header(Known::MessageId));
    let id = incoming.claimed_id.or_else(header).unwrap_or_default();
    String::from_utf8_lossy(id.get(..wire::LINE_BYTES_MAX).unwrap_or(id)).into_owned()
}
