//! Results for the articles of an rnews batch, in words.
//!
//! Such batches are filed by the control socket, by the task that files waiting batches, and by `newsreel
//! rnews` on a site whose server is not running.

use super::{DeferralReason, Disposition, Paused, Reject};
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

impl BatchResult {
    /// Returns the result for an article, in words.
    pub(super) fn of(
        wire: &[u8],
        disposition: &Disposition,
        trouble: Option<&SpoolTrouble>,
        paused: Option<&Paused>,
    ) -> Self {
        let (outcome, reason) = match disposition {
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
            Disposition::Deferred(DeferralReason::Paused) => {
                (BatchOutcome::TryLater, paused.map_or_else(String::new, Paused::to_string))
            }
        };
        let is_shown = matches!(outcome, BatchOutcome::Rejected | BatchOutcome::TryLater);
        let message_id = if is_shown { message_id(wire) } else { String::new() };
        let is_alone = matches!(
            disposition,
            Disposition::Deferred(DeferralReason::ClassFull | DeferralReason::Unjudged)
        );
        Self { outcome, message_id, reason, is_alone }
    }
}

fn message_id(wire: &[u8]) -> String {
    let article = Article::parse(wire).ok();
    let value = article.as_ref().and_then(|article| article.header(Known::MessageId));
    String::from_utf8_lossy(value.unwrap_or_default()).trim().to_owned()
}
