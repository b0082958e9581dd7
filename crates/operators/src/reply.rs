//! Replies to requests of operators: [`Reply`].
//!
//! Identical whether a running server answers over its control socket (as lines of JSON) or a command that
//! opened the spool itself.

mod rows;

pub use rows::{
    ArticleText, BufferRow, ExpirePreview, FoundRow, FromReply, GroupListRow, HeldRow, HiddenRow,
    HistoryCounts, PostRow, PurgeRow, ReviewRow, SignUpRow,
};

use crate::pull::{PullCounts, PullDetails};
use crate::report::{ArchiveStatus, Report};
use crate::transmit::SendCounts;
use ingest::{BatchResult, ImportResult};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One line of an answer; `{"kind": {...}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The answer to `StatusOperation`.
    Status(Box<Report>),
    /// The answer to `PingOperation`.
    Serving {
        /// Absolute path of the server's configuration.
        file: PathBuf,
    },
    /// A group.
    Group(GroupListRow),
    /// Result of a change to a group.
    Changed {
        /// Name of the group.
        name: String,
        /// Whether anything changed (adding a group that exists changes nothing).
        changed: bool,
        /// Reason why the change failed.
        error: Option<String>,
    },
    /// A buffer.
    Buffer(BufferRow),
    /// A line of explanation.
    Text(String),
    /// An article of `ArticlesOperation`.
    Article(ArticleText),
    /// The progress of a long operation.
    Progress {
        /// Name of the work.
        what: String,
        /// Steps done.
        done: u64,
        /// Total number of steps.
        total: u64,
    },
    /// A problem found by `verify`.
    Problem(String),
    /// Repair of the problem reported before, done or planned.
    Repair {
        /// The repair; empty if there is none.
        what: String,
        /// Reason why the repair failed; absent if it was done, or the run is dry.
        error: Option<String>,
    },
    /// An archive.
    Archive(ArchiveStatus),
    /// A post that waits for a moderator here.
    Held(HeldRow),
    /// An account that waits for an operator.
    SignUp(SignUpRow),
    /// A post that waits for an upstream, or was refused by one.
    Post(PostRow),
    /// An article that a query has found.
    FoundArticle(FoundRow),
    /// A hidden article.
    Hidden(HiddenRow),
    /// A filter's finding.
    Review(ReviewRow),
    /// Result of `PurgeOperation`.
    Purged(PurgeRow),
    /// Part of the answer to `ExpireOperation` with a file: effect of one section on its articles.
    WouldExpire(ExpirePreview),
    /// Fates of the articles of a parcel of `RnewsOperation`, in order.
    Articles(Vec<BatchResult>),
    /// Result of `PullOperation`.
    Pulled {
        /// Counts of the run.
        counts: PullCounts,
        /// Duration in seconds.
        seconds: f64,
        /// Details besides the counts.
        #[serde(default)]
        details: PullDetails,
    },
    /// Result of `SendOperation`.
    Sent {
        /// Counts of the articles.
        counts: SendCounts,
        /// Whether sending ended early for a reason that the same request cannot overcome later.
        #[serde(default)]
        is_final: bool,
    },
    /// Results of the articles of `ImportOperation`, in order.
    Imported(Vec<ImportResult>),
    /// The end of the answer to `MountOperation`.
    Mounted {
        /// Number of the mount.
        mount: u64,
    },
    /// A mount stands no longer.
    MountEnded {
        /// Reason of the failure; absent if it was unmounted.
        failure: Option<String>,
    },
    /// The answer to `CountLivingOperation`.
    Count(u64),
    /// The answer to `AreKnownOperation`, in the order of its Message-IDs.
    Known(Vec<bool>),
    /// The answer to `HistoryImportOperation`.
    HistoryImported(HistoryCounts),
    /// The end of the answer to `HistoryExportOperation`.
    HistoryExported {
        /// Number of Message-IDs written.
        named: u64,
        /// Number of entries known only by this site's own hash.
        unnamed: u64,
    },
    /// The request was invalid or could not be carried out.
    Error(String),
    /// The last line of an answer.
    Done {
        /// Whether the request succeeded and no problem was found.
        ok: bool,
    },
}

/// The last line of text or error of an answer.
#[derive(Debug, Default)]
pub(crate) struct LastWords(String);

impl LastWords {
    /// Takes note of a reply.
    pub fn hear(&mut self, reply: &Reply) {
        if let Reply::Text(text) | Reply::Error(text) = reply {
            self.0.clear();
            self.0.push_str(text.lines().next().unwrap_or_default());
        }
    }

    /// Returns the line.
    pub fn text(&self) -> &str {
        &self.0
    }
}
