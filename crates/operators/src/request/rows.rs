//! Rows of answers.

use super::{BufferRow, GroupRow, HistoryCounts, Reply};
use crate::report::{ArchiveStatus, Report};
use serde::{Deserialize, Serialize};

/// What one kind of reply carries.
pub trait Carried: Sized {
    /// The value, if the reply is of that kind.
    fn of(reply: Reply) -> Option<Self>;
}

macro_rules! carried {
    ($($Kind:ident($Value:ty),)+) => {
        $(impl Carried for $Value {
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
    Group(GroupRow),
    Held(HeldRow),
    Hidden(HiddenRow),
    HistoryImported(HistoryCounts),
    Post(PostRow),
    Purged(Purged),
    Review(ReviewRow),
    Status(Box<Report>),
    WouldExpire(WouldExpire),
}

/// An article that a query has found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundRow {
    /// Its Message-ID.
    pub message_id: String,
    /// When it was written, Unix seconds; 0: it does not say.
    pub date: i64,
    /// Its From header, decoded.
    pub from: String,
    /// Its Subject header, decoded.
    pub subject: String,
    /// The groups in which it is.
    pub groups: Vec<String>,
}

/// A post that waits here for a moderator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldRow {
    /// Its Message-ID.
    pub message_id: String,
    /// The moderated group for which it waits.
    pub group: String,
    /// Unix seconds since when it waits.
    pub queued: u64,
    /// The address it was posted from.
    pub address: String,
    /// As whom its poster had logged in; empty: as nobody.
    pub user: String,
    /// Its From header.
    pub from: String,
    /// Its Subject header.
    pub subject: String,
}

/// A post that waits for an upstream, or that it has refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostRow {
    /// Its Message-ID.
    pub message_id: String,
    /// The upstream's name.
    pub upstream: String,
    /// Unix seconds since when it waits.
    pub queued: u64,
    /// Whether it was refused, and is not sent again by itself.
    pub is_refused: bool,
    /// How often it was sent since the start.
    pub tries: u32,
    /// Why it was not taken when it was last sent; empty: it was not sent yet.
    pub problem: String,
    /// The address it was posted from.
    pub address: String,
    /// As whom its poster had logged in; empty: as nobody.
    pub user: String,
    /// Its From header.
    pub from: String,
    /// Its Newsgroups header.
    pub groups: String,
    /// Its Subject header.
    pub subject: String,
}

/// What a filter found in an article, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewRow {
    /// Unix seconds.
    pub at: u64,
    /// The filter.
    pub filter: String,
    /// What it did: refused, hidden, set aside, would refuse.
    pub finding: String,
    /// Whether the article was filed.
    pub filed: bool,
    /// Its Message-ID.
    pub message_id: String,
    /// Its Newsgroups header.
    pub groups: String,
    /// Its Subject.
    pub subject: String,
    /// Why.
    pub reason: String,
    /// How it can be released: `now`, `when it comes`, or empty: not at all, or no more.
    pub release: String,
}

/// A hidden article, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenRow {
    /// Its Message-ID.
    pub message_id: String,
    /// Who hid it.
    pub by: String,
    /// Unix seconds.
    pub since: u64,
    /// Why; may be empty.
    pub reason: String,
}

/// What becomes of the articles that an `[[expire]]` section keeps longest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WouldExpire {
    /// Which section, from 1; absent: articles that no section decides about.
    pub section: Option<usize>,
    /// Its conditions, as the file has them; empty: none.
    pub conditions: String,
    /// Articles that it decides about.
    pub articles: u64,
    /// Of these, articles that would be gone now.
    pub now_articles: u64,
    /// Their bytes as stored.
    pub now_bytes: u64,
    /// Articles that would be gone after the days that were asked for; absent: none were.
    pub later_articles: Option<u64>,
    /// Their bytes as stored.
    pub later_bytes: Option<u64>,
}

/// What a purge did, or would do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purged {
    /// Whether nothing was done.
    pub dry_run: bool,
    /// Groups that matched.
    pub groups: u64,
    /// Articles that were removed.
    pub articles: u64,
    /// Articles that stay in groups that did not match.
    pub crossposts: u64,
    /// Article numbers that were removed.
    pub numbers: u64,
}

/// An article as files have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArticleText {
    /// When it arrived, Unix seconds.
    pub arrived: u64,
    /// The hash of its Message-ID, in hexadecimal digits.
    pub key: String,
    /// Its text in base64: lines end in LF, no dot-stuffing.
    pub text: String,
}
