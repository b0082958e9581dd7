//! Rows of answers.

use super::Reply;
use crate::report::{ArchiveStatus, Report};
use serde::{Deserialize, Serialize};

/// A value that one kind of reply carries.
pub trait FromReply: Sized {
    /// Returns the value, if the reply is of that kind.
    fn of(reply: Reply) -> Option<Self>;
}

macro_rules! carried {
    ($($Kind:ident($Value:ty),)+) => {
        $(impl FromReply for $Value {
            fn of(reply: Reply) -> Option<Self> {
                if let Reply::$Kind(value) = reply { Some(value) } else { None }
            }
        })+
    };
}

carried! {
    Archive(ArchiveStatus),
    Buffer(BufferRow),
    FoundArticle(FoundRow),
    Group(GroupListRow),
    Held(HeldRow),
    Hidden(HiddenRow),
    HistoryImported(HistoryCounts),
    Post(PostRow),
    Purged(PurgeRow),
    Review(ReviewRow),
    SignUp(SignUpRow),
    Status(Box<Report>),
    WouldExpire(ExpirePreview),
}

/// An article found by a query.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundRow {
    /// Message-ID.
    pub message_id: String,
    /// Unix seconds of the Date header; 0 if it has none.
    pub date: i64,
    /// From header, decoded.
    pub from: String,
    /// Subject header, decoded.
    pub subject: String,
    /// Groups of the article.
    pub groups: Vec<String>,
}

/// A post that waits for a moderator here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldRow {
    /// Message-ID.
    pub message_id: String,
    /// Moderated group for which it waits.
    pub group: String,
    /// Unix seconds since when it waits.
    pub queued: u64,
    /// Address from which it was posted.
    pub address: String,
    /// Login of its poster; empty if there was none.
    pub user: String,
    /// From header.
    pub from: String,
    /// Subject header.
    pub subject: String,
}

/// An account that waits for an operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignUpRow {
    /// Name.
    pub name: String,
    /// Unix seconds since when it waits.
    pub asked: u64,
    /// Address from which it was asked for.
    pub address: String,
    /// Line that the applicant wrote to the operator; may be empty.
    pub note: String,
}

/// A post that waits for an upstream, or was refused by one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostRow {
    /// Message-ID.
    pub message_id: String,
    /// Name of the upstream.
    pub upstream: String,
    /// Unix seconds since when it waits.
    pub queued: u64,
    /// Whether it was refused, and is not sent again automatically.
    pub is_refused: bool,
    /// Number of attempts since the start.
    pub tries: u32,
    /// Reason why the last attempt failed; empty if there was none.
    pub problem: String,
    /// Address from which it was posted.
    pub address: String,
    /// Login of its poster; empty if there was none.
    pub user: String,
    /// From header.
    pub from: String,
    /// Newsgroups header.
    pub groups: String,
    /// Subject header.
    pub subject: String,
}

/// A filter's finding in an article, in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewRow {
    /// Time of the finding, in Unix seconds.
    pub at: u64,
    /// Name of the filter.
    pub filter: String,
    /// Action of the filter: refused, hidden, set aside, would refuse.
    pub finding: String,
    /// Whether the article was filed.
    pub filed: bool,
    /// Message-ID.
    pub message_id: String,
    /// Newsgroups header.
    pub groups: String,
    /// Subject header.
    pub subject: String,
    /// Reason.
    pub reason: String,
    /// How it can be released: `now`, `when it comes`, or empty if it cannot be, or no longer.
    pub release: String,
}

/// A hidden article in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenRow {
    /// Message-ID.
    pub message_id: String,
    /// Issuer that hid it.
    pub by: String,
    /// Unix seconds since when it is hidden.
    pub since: u64,
    /// Reason; may be empty.
    pub reason: String,
}

/// Effect of expiry on the articles that an `[[expire]]` section keeps longest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpirePreview {
    /// Number of the section, from 1; absent for articles without a deciding section.
    pub section: Option<usize>,
    /// Conditions, as in the file; empty if there are none.
    pub conditions: String,
    /// Articles that the section decides about.
    pub articles: u64,
    /// Articles of these that would be deleted now.
    pub now_articles: u64,
    /// Stored size of those, in bytes.
    pub now_bytes: u64,
    /// Articles that would be deleted after the requested days; absent if no days were given.
    pub later_articles: Option<u64>,
    /// Stored size of those, in bytes.
    pub later_bytes: Option<u64>,
}

/// Result of a purge, done or simulated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeRow {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Groups that matched.
    pub groups: u64,
    /// Articles removed.
    pub articles: u64,
    /// Articles that stay in groups that did not match.
    pub crossposts: u64,
    /// Article numbers removed.
    pub numbers: u64,
}

/// An article in the form of a text file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArticleText {
    /// Time of arrival, in Unix seconds.
    pub arrived: u64,
    /// Hash of the Message-ID, in hexadecimal digits.
    pub key: String,
    /// Text in base64: lines end in LF, no dot-stuffing.
    pub text: String,
}

/// A buffer in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferRow {
    /// Name.
    pub name: String,
    /// Class that the buffer belongs to.
    pub class: String,
    /// File or device.
    pub path: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Bytes for articles when the buffer is full.
    #[serde(default)]
    pub area_bytes: u64,
    /// Block size in bytes.
    pub block_bytes: u32,
    /// Bytes between the oldest article and the write position.
    pub used_bytes: u64,
    /// Whether the buffer accepts no more articles.
    pub retired: bool,
    /// Unix seconds of the arrival of the oldest article; absent if the buffer is empty, or the spool not
    /// open.
    pub oldest_arrival: Option<u64>,
    /// Whether the file is missing: its disk is not mounted, and the spool cannot be opened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub away: bool,
}

/// A group with its counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupListRow {
    /// Name.
    pub name: String,
    /// `y`, `n`, `m`, `j`, `x` or `=other.name`.
    pub flag: String,
    /// Low water mark.
    pub low: u64,
    /// High water mark.
    pub high: u64,
    /// Number of articles.
    pub count: u64,
    /// Description in one line; empty if there is none.
    pub description: String,
    /// Unix seconds of the creation.
    pub created: u64,
    /// Creator.
    pub creator: String,
}

/// Result of `HistoryImportOperation`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryCounts {
    /// Message-IDs newly remembered.
    pub remembered: u64,
    /// Message-IDs that were known already.
    pub known: u64,
    /// Message-IDs older than the history here remembers.
    pub old: u64,
    /// Invalid lines.
    pub damaged: u64,
    /// The first invalid lines.
    pub quoted: Vec<String>,
}
