//! Sources of a reader's news.
//!
//! [`NewsSource`] is the interface between the serving agent and the holder of the news: the local spool
//! ([`LocalSpool`]), a cache of other servers' articles, or several sources side by side. It has types of
//! its own, so that a source does not depend on the spool. Every question is asynchronous, and may be
//! answered with [`SourceError::Unavailable`]: the client gets a 403 and keeps its connection. Long answers
//! arrive in pieces: lists of groups as a [`GroupStream`], an article that is still arriving as a
//! [`Remainder`], overview rows and numbers by repeated calls. Called by `serve`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod article;
mod beside;
mod bodies;
mod listed;
mod local;
mod upstream;

pub use article::newsgroups_of;
pub use article::{ArticleBytes, ArticleLayout, ArticlePart, Fetched, More, Remainder};
pub use beside::{Either, GroupSplit, LocalFirst, MergedGroups, SideBySide};
pub use local::LocalSpool;
pub use local::is_bodiless;
#[cfg(feature = "testing")]
pub use upstream::parsers;
pub use upstream::{CacheCounts, CacheStatus, RefreshedGroup, UpstreamStatus, Upstreams};
pub use upstream::{
    Outbox, PostDelivery, PostResult, PostTaker, QueuePostError, QueuedPost, QueuedPostStatus, UpstreamPosts,
    is_post_whole,
};

use netnews::{GroupMarks, MessageId};
use site_config::{LiveConfig, PassedList};
use std::error::Error;
use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Result of a question to a source.
pub type Answer<T> = Result<T, SourceError>;

/// Reason why a source has no answer.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The answer is not available now, as when another server does not respond; asking again later may
    /// help. The reason is for the log.
    #[error("{0}")]
    Unavailable(String),
    /// An internal fault, as when a disk cannot be read.
    #[error("{0:?}")]
    Fault(#[source] Box<dyn Error + Send + Sync>),
}

/// Locator of an article.
#[derive(Debug)]
pub enum SourceLocator<'a, G> {
    /// Group and number.
    Number(&'a G, u64),
    /// Message-ID.
    MessageId(MessageId<'a>),
}

// Not derived, since a locator can be copied whatever the group type is.
impl<G> Clone for SourceLocator<'_, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G> Copy for SourceLocator<'_, G> {}

/// Reason why a source shows no article with a Message-ID, as far as it concerns other sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdStanding {
    /// No reason to keep other sources from showing one.
    Free,
    /// The article was cancelled or refused here.
    Refused,
    /// The article is hidden here: not shown, from whatever source.
    Hidden,
}

/// A request that a client is about to make.
#[derive(Debug)]
pub enum ForeseenRequest<'a, G> {
    /// A group, by name.
    Group(&'a [u8]),
    /// At least this part of an article.
    Article(SourceLocator<'a, G>, ArticlePart),
    /// The existence of an article with this Message-ID.
    Existence(MessageId<'a>),
    /// Overview rows of these numbers.
    Rows(&'a G, RangeInclusive<u64>),
    /// The neighbours of a number on one side, one after the other, this many.
    Neighbours(&'a G, u64, NeighbourSide, usize),
}

/// Direction from an article to its neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeighbourSide {
    /// The article before it.
    Previous,
    /// The article after it.
    Next,
}

/// Returns, for a group's high mark, the number above which its articles count: 0 for all of them. Marks
/// are those of the articles above it.
pub type CountingBase = fn(high: u64) -> u64;

/// Selection of groups.
#[derive(Debug, Clone, Copy)]
pub enum GroupSelection<'a, G> {
    /// All groups.
    All,
    /// Groups that match this wildmat. A source may return others too: the caller filters.
    Like(&'a [u8]),
    /// The group of this name.
    Named(&'a [u8]),
    /// This group.
    One(&'a G),
}

/// Time that may pass before the change of an active entry is recorded, in seconds.
const CHANGE_SLACK_SECS: u64 = 2;

/// Returns whether an active entry that was changed at this time is listed as changed since then.
fn has_changed(at: u64, since: u64) -> bool {
    at.saturating_add(CHANGE_SLACK_SECS) >= since
}

/// Kind of a group list, named after the lists of the protocol: determines which fields of [`GroupInfo`]
/// must be set beside the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupList {
    /// LIST ACTIVE: high and low mark, flag.
    Active,
    /// LIST ACTIVE.MODTIME: as LIST ACTIVE, for groups whose marks or flag changed at or after this time
    /// (Unix seconds).
    Changed {
        /// Unix seconds.
        since: u64,
    },
    /// NEWGROUPS: as LIST ACTIVE, for groups created at or after this time.
    New {
        /// Unix seconds.
        since: u64,
    },
    /// LIST COUNTS: marks with the count, flag.
    Counts,
    /// LIST ACTIVE.TIMES: time of creation and creator.
    Times,
    /// LIST NEWSGROUPS: descriptions.
    Descriptions,
    /// NEWNEWS: names only.
    Names,
}

/// Information on a group. Fields that were not requested may be empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct GroupInfo<'a> {
    /// Name of the group.
    pub name: &'a [u8],
    /// Marks of the group.
    pub marks: GroupMarks,
    /// Posting status, as in LIST ACTIVE: `y`, `n`, `m`, `j`, `x` or `=name`.
    pub flag: &'a [u8],
    /// Time of creation, in Unix seconds.
    pub created: u64,
    /// Creator; empty if unknown.
    pub creator: &'a [u8],
    /// One-line description; empty if there is none.
    pub description: &'a [u8],
}

/// Decides by name whether a group is wanted.
pub type Wanted<'f> = &'f (dyn Fn(&[u8]) -> bool + Send + Sync);

/// Article numbers and values of a header, ascending; `None` if the article has no such header.
pub type HeaderValues = Vec<(u64, Option<Box<[u8]>>)>;

/// Values of a header for some articles of a group, as available from the source.
#[derive(Debug, Default)]
pub struct HeaderLines {
    /// Values by number.
    pub values: HeaderValues,
    /// Number to continue at; `None` at the end of the range.
    pub next: Option<u64>,
}

/// A list of groups, one after the other.
pub trait GroupStream: Send {
    /// Returns the next group whose name is wanted; `None` at the end.
    fn next<'s>(
        &'s mut self,
        wanted: Wanted<'_>,
    ) -> impl Future<Output = Answer<Option<GroupInfo<'s>>>> + Send;
}

/// A source of news.
///
/// Clones are handles of the same source; each session has one.
pub trait NewsSource: Clone + Send + Sync + 'static {
    /// A group selected by a reader. It may be removed while it is selected.
    type Group: Clone + PartialEq + Debug + Send + Sync;
    /// A list of groups.
    type Groups: GroupStream;
    /// The rest of an article that is still arriving; [`Infallible`](std::convert::Infallible) for sources
    /// whose articles are always whole.
    type Rest: Remainder;

    /// Returns this source for a server with this configuration, on which it may depend.
    #[must_use]
    fn under(self, _config: &LiveConfig) -> Self {
        self
    }

    /// Returns this source for the requests of this client.
    #[must_use]
    fn of_client(self, _client: &str) -> Self {
        self
    }

    /// Returns the group called `name`, with its marks.
    fn group(
        &self,
        name: &[u8],
        base: CountingBase,
    ) -> impl Future<Output = Answer<Option<(Self::Group, GroupMarks)>>> + Send;

    /// Returns groups, in the order of their names.
    fn groups(
        &self,
        list: GroupList,
        which: GroupSelection<'_, Self::Group>,
        base: CountingBase,
    ) -> impl Future<Output = Answer<Self::Groups>> + Send;

    /// Returns the text of LIST ACTIVE for all groups if it is ready, without the final `.`-line; otherwise
    /// it is built from [`NewsSource::groups`].
    fn active_text(&self) -> impl Future<Output = Answer<Option<Arc<Vec<u8>>>>> + Send {
        async { Ok(None) }
    }

    /// Reads an article, at least this part of it and always its head.
    fn article(
        &self,
        place: SourceLocator<'_, Self::Group>,
        part: ArticlePart,
        into: &mut ArticleBytes,
    ) -> impl Future<Output = Answer<Fetched<Self::Rest>>> + Send;

    /// Reads an article that is at hand: without asking another server or waiting for a disk. Returns
    /// `None` if it is not at hand or that is unknown; then [`NewsSource::article`] reads it.
    fn article_at_hand(
        &self,
        _place: SourceLocator<'_, Self::Group>,
        _part: ArticlePart,
        _into: &mut ArticleBytes,
    ) -> Option<Fetched<Self::Rest>> {
        None
    }

    /// Returns why an article with this Message-ID is not shown, though another source may have it.
    fn standing(&self, _id: MessageId<'_>) -> IdStanding {
        IdStanding::Free
    }

    /// Returns when an article arrived here, in Unix seconds; `None` if it did not, or that is unknown.
    fn arrived(&self, _id: MessageId<'_>) -> Option<i64> {
        None
    }

    /// Returns whether the source makes use of [`NewsSource::look_ahead`].
    fn looks_ahead(&self) -> bool {
        false
    }

    /// Announces the next questions of this client, the first one included, in order, so that articles can
    /// be fetched before they are requested. Those by number are of one group. Earlier announcements not
    /// repeated are dropped.
    fn look_ahead(&self, _foreseen: &[ForeseenRequest<'_, Self::Group>]) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Returns whether there is an article with this Message-ID.
    fn has(&self, id: MessageId<'_>) -> impl Future<Output = Answer<bool>> + Send;

    /// Appends numbers of articles in a range, ascending, at most `max`; fewer if there are no more.
    fn numbers(
        &self,
        group: &Self::Group,
        range: RangeInclusive<u64>,
        max: usize,
        into: &mut Vec<u64>,
    ) -> impl Future<Output = Answer<()>> + Send;

    /// Returns the first number after, or the last before, this one.
    fn neighbour(
        &self,
        group: &Self::Group,
        number: u64,
        side: NeighbourSide,
    ) -> impl Future<Output = Answer<Option<u64>>> + Send;

    /// Appends overview rows until `limit_bytes` are exceeded or no more are at hand; returns `Some(n)` to
    /// continue at `n`. Rows are as sent by OVER, except for further headers
    /// ([`NewsSource::rows_have_headers`]).
    fn over(
        &self,
        group: &Self::Group,
        range: RangeInclusive<u64>,
        limit_bytes: usize,
        into: &mut Vec<u8>,
    ) -> impl Future<Output = Answer<Option<u64>>> + Send;

    /// Returns whether overview rows may have further headers, as stored
    /// ([`netnews::overview_row::further`]).
    fn rows_have_headers(&self) -> bool {
        false
    }

    /// Returns whether readers may read the article of an overview row.
    fn shows(&self, _group: &Self::Group, _number: u64) -> impl Future<Output = Answer<bool>> + Send {
        async { Ok(true) }
    }

    /// Returns the values of a header that is not in overview rows, for the articles of a range; `None` if
    /// it must be read from each article.
    fn header(
        &self,
        _group: &Self::Group,
        _range: RangeInclusive<u64>,
        _name: &[u8],
    ) -> impl Future<Output = Answer<Option<HeaderLines>>> + Send {
        async { Ok(None) }
    }

    /// Returns another server's answer to a command that is not known here, with all its lines; `None` if
    /// no server is asked. The group is the one selected by the reader.
    fn pass_on(
        &self,
        _command: &[u8],
        _selected: Option<&Self::Group>,
    ) -> impl Future<Output = Answer<Option<Vec<u8>>>> + Send {
        async { Ok(None) }
    }

    /// Returns a list other than a group list from another server: its lines in wire format, without the
    /// final one; `None` if no server is asked, or none has it.
    fn list_text(&self, _list: PassedList) -> impl Future<Output = Answer<Option<Vec<u8>>>> + Send {
        async { Ok(None) }
    }

    /// Returns whether another server is asked for this list.
    fn passes_list(&self, _list: PassedList) -> bool {
        false
    }

    /// Appends the Message-IDs of the articles that arrived in the group called `name` since this time
    /// (Unix seconds), each with CRLF.
    fn arrived_since(
        &self,
        name: &[u8],
        since: u64,
        into: &mut Vec<u8>,
    ) -> impl Future<Output = Answer<()>> + Send;
}
