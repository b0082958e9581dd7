//! Filing what a batch brings that rnews was handed.
//!
//! Called by the control socket, by the task that files batches which wait, and by `newsreel rnews` on a site
//! that is not served.

use super::{Disposition, Filer, Incoming, Later, Origin, Reject};
use netnews::{Article, Known};
use serde::{Deserialize, Serialize};
use spool::Trouble;

/// What became of an article of a batch: the three dispositions, and of the rejected ones what senders see
/// often or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchOutcome {
    /// It is stored.
    Accepted,
    /// It is not wanted; do not send it again.
    Rejected,
    /// It is not wanted, as its Message-ID is known.
    Duplicate,
    /// It is not wanted, as it is no article: damaged, or something else.
    Malformed,
    /// We are in trouble; send it again later.
    TryLater,
}

/// What became of one article of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fate {
    /// What became of it.
    pub outcome: BatchOutcome,
    /// Its Message-ID, where somebody is to read of it: if it was rejected or is to be tried later.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message_id: String,
    /// Why, in words; empty if accepted or a duplicate.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// It is to be tried later for a reason of its own: others may be taken now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_alone: bool,
}

impl Filer {
    /// Files articles that a batch brought, in wire format without the final `.` line, in one commit;
    /// blocking. Returns what became of each, in order.
    pub fn file_batch(&self, wires: &[&[u8]]) -> Vec<Fate> {
        let rules = self.rules.load();
        let origin = Origin::batch(&rules.config.site.path_names()).accepting(&rules.config.batches.accept);
        self.file_from(&origin, wires)
    }

    /// The same for articles that came from elsewhere.
    pub(crate) fn file_from(&self, origin: &Origin, wires: &[&[u8]]) -> Vec<Fate> {
        let incoming: Vec<Incoming<'_>> =
            wires.iter().map(|wire| Incoming { wire, claimed_id: None }).collect();
        let mut dispositions = Vec::with_capacity(wires.len());
        let receipt = self.ingest_now(origin, &incoming, &mut dispositions);
        let fate = |(wire, disposition)| self.fate(wire, Some(disposition), receipt.trouble.as_ref());
        wires.iter().copied().zip(&dispositions).map(fate).collect()
    }

    /// What became of an article, in words. Without a disposition it is to come later.
    pub(super) fn fate(
        &self,
        wire: &[u8],
        disposition: Option<&Disposition>,
        trouble: Option<&Trouble>,
    ) -> Fate {
        let paused = || self.paused().map_or_else(String::new, |paused| paused.to_string());
        let (outcome, reason) = match disposition.unwrap_or(&Disposition::TryLater) {
            Disposition::Accepted(_) => (BatchOutcome::Accepted, String::new()),
            Disposition::Rejected(Reject::Duplicate) => (BatchOutcome::Duplicate, String::new()),
            Disposition::Rejected(reject @ (Reject::Malformed(_) | Reject::BadMessageId)) => {
                (BatchOutcome::Malformed, reject.to_string())
            }
            Disposition::Rejected(reject) => (BatchOutcome::Rejected, reject.to_string()),
            Disposition::TryLater | Disposition::Deferred(Later::ClassFull) => {
                (BatchOutcome::TryLater, trouble.map_or_else(String::new, Trouble::to_string))
            }
            Disposition::Deferred(Later::Unjudged) => {
                (BatchOutcome::TryLater, "a filter cannot judge it now".to_owned())
            }
            Disposition::Deferred(Later::Paused) => (BatchOutcome::TryLater, paused()),
        };
        let is_shown = matches!(outcome, BatchOutcome::Rejected | BatchOutcome::TryLater);
        let message_id = if is_shown { message_id(wire) } else { String::new() };
        let is_alone = matches!(disposition, Some(Disposition::Deferred(Later::ClassFull | Later::Unjudged)));
        Fate { outcome, message_id, reason, is_alone }
    }
}

fn message_id(wire: &[u8]) -> String {
    let article = Article::parse(wire).ok();
    let value = article.as_ref().and_then(|article| article.header(Known::MessageId));
    String::from_utf8_lossy(value.unwrap_or_default()).trim().to_owned()
}
