//! Filing of the articles of an rnews batch.
//!
//! Called by the control socket, by the task that files waiting batches, and by `newsreel rnews` on a site
//! whose server is not running.

use super::{DeferralReason, Disposition, Filer, IncomingArticle, Origin, Reject};
use netnews::{Article, Known};
use serde::{Deserialize, Serialize};
use spool::SpoolTrouble;

/// Outcome for an article of a batch: the three dispositions, with two kinds of rejection apart, one
/// frequent and one rare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchOutcome {
    /// Stored.
    Accepted,
    /// Not wanted; not to be sent again.
    Rejected,
    /// Not wanted, as its Message-ID is known.
    Duplicate,
    /// Not wanted, as it is not an article: damaged, or something else.
    Malformed,
    /// Not taken because of local trouble; to be sent again later.
    TryLater,
}

/// Result for one article of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchResult {
    /// Kind of result.
    pub outcome: BatchOutcome,
    /// Message-ID, present if it is to be reported: for rejected articles and those to be tried later.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message_id: String,
    /// Reason in words; empty if accepted or a duplicate.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Whether the article alone is to be tried later: others may be taken now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_alone: bool,
}

impl Filer {
    /// Files the articles of a batch, in wire format without the final `.` line, in one commit. Blocks.
    /// Returns the result for each, in order.
    pub fn file_batch(&self, wires: &[&[u8]]) -> Vec<BatchResult> {
        let rules = self.rules.load();
        let origin = Origin::batch(&rules.config.site.path_names()).accepting(&rules.config.batches.accept);
        self.file_from(&origin, wires)
    }

    /// Like [`Filer::file_batch`], for articles of another origin.
    pub fn file_from(&self, origin: &Origin, wires: &[&[u8]]) -> Vec<BatchResult> {
        let incoming: Vec<IncomingArticle<'_>> =
            wires.iter().map(|wire| IncomingArticle { wire, claimed_id: None }).collect();
        let mut dispositions = Vec::with_capacity(wires.len());
        let receipt = self.ingest_now(origin, &incoming, &mut dispositions);
        let fate = |(wire, disposition)| self.fate(wire, Some(disposition), receipt.trouble.as_ref());
        wires.iter().copied().zip(&dispositions).map(fate).collect()
    }

    /// Returns the result for an article, in words. An article without a disposition is to be tried later.
    pub(super) fn fate(
        &self,
        wire: &[u8],
        disposition: Option<&Disposition>,
        trouble: Option<&SpoolTrouble>,
    ) -> BatchResult {
        let paused = || self.paused().map_or_else(String::new, |paused| paused.to_string());
        let (outcome, reason) = match disposition.unwrap_or(&Disposition::TryLater) {
            Disposition::Accepted(_) => (BatchOutcome::Accepted, String::new()),
            Disposition::Rejected(Reject::Duplicate) => (BatchOutcome::Duplicate, String::new()),
            Disposition::Rejected(reject @ (Reject::Malformed(_) | Reject::BadMessageId)) => {
                (BatchOutcome::Malformed, reject.to_string())
            }
            Disposition::Rejected(reject) => (BatchOutcome::Rejected, reject.to_string()),
            Disposition::TryLater | Disposition::Deferred(DeferralReason::ClassFull) => {
                (BatchOutcome::TryLater, trouble.map_or_else(String::new, SpoolTrouble::to_string))
            }
            Disposition::Deferred(DeferralReason::Unjudged) => {
                (BatchOutcome::TryLater, "a filter cannot judge it now".to_owned())
            }
            Disposition::Deferred(DeferralReason::Paused) => (BatchOutcome::TryLater, paused()),
        };
        let is_shown = matches!(outcome, BatchOutcome::Rejected | BatchOutcome::TryLater);
        let message_id = if is_shown { message_id(wire) } else { String::new() };
        let is_alone = matches!(
            disposition,
            Some(Disposition::Deferred(DeferralReason::ClassFull | DeferralReason::Unjudged))
        );
        BatchResult { outcome, message_id, reason, is_alone }
    }
}

fn message_id(wire: &[u8]) -> String {
    let article = Article::parse(wire).ok();
    let value = article.as_ref().and_then(|article| article.header(Known::MessageId));
    String::from_utf8_lossy(value.unwrap_or_default()).trim().to_owned()
}
