//! Filing what a batch brings that rnews was handed.
//!
//! Called by the control socket and by `newsreel rnews` on a site that is not served.

use super::{Disposition, Filer, Incoming, Origin, Reject};
use serde::{Deserialize, Serialize};

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

impl Filer {
    /// Files one article that a batch brought, in wire format without the final `.` line; blocking. Returns
    /// what became of it and why.
    pub fn file(&self, wire: &[u8]) -> (BatchOutcome, String) {
        let origin = Origin::batch(&self.rules.load().config.site.path_identity);
        let mut dispositions = Vec::new();
        let receipt = self.ingest_now(&origin, &[Incoming { wire, claimed_id: None }], &mut dispositions);
        match dispositions.first() {
            Some(Disposition::Accepted(_)) => (BatchOutcome::Accepted, String::new()),
            Some(Disposition::Rejected(reject)) => {
                let outcome = match reject {
                    Reject::Duplicate => BatchOutcome::Duplicate,
                    Reject::Malformed(_) | Reject::BadMessageId => BatchOutcome::Malformed,
                    _ => BatchOutcome::Rejected,
                };
                (outcome, reject.to_string())
            }
            Some(Disposition::TryLater) | None => {
                let text = receipt.trouble.map_or_else(String::new, |trouble| trouble.to_string());
                (BatchOutcome::TryLater, text)
            }
        }
    }
}
