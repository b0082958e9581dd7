//! Where a reader's news comes from.
//!
//! [`NewsSource`] is the seam between the serving agent and what holds the news: the local spool
//! ([`LocalSpool`]), a cache of other servers' articles, or several sources side by side. It has types of its
//! own, so that a source needs nothing of the spool. Every question is asynchronous, and every one may be
//! answered with [`SourceError::Unavailable`]: the client gets a 403 and keeps its connection. Long answers
//! come piece by piece: lists of groups as a [`GroupStream`], an article that is still arriving as a
//! [`Remainder`], overview rows and numbers by asking again. Called by `serve`.

mod article;
mod beside;
mod bodies;
mod listed;
mod local;
mod upstream;

pub(crate) use article::newsgroups_of;
pub use article::{ArticleBytes, ArticleLayout, Fetched, More, Part, Remainder};
pub use beside::{Beside, Either, Merged, Split};
pub use local::LocalSpool;
#[cfg(feature = "mount")]
pub(crate) use local::is_bodiless;
#[cfg(feature = "testing")]
pub(crate) use upstream::parsers;
pub use upstream::{CacheCounts, CacheStatus, LocalFirst, UpstreamStatus, Upstreams};
pub(crate) use upstream::{Fate, NotQueued, Outbox, Posts, QueuedPost, Taker, Waiting, is_post_whole};

use crate::config::{Live, PassedList};
use netnews::MessageId;
use std::error::Error;
use std::fmt::{self, Debug};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// What a source answers.
pub type Answer<T> = Result<T, SourceError>;

/// Why a source has no answer.
#[derive(Debug)]
pub enum SourceError {
    /// It cannot tell now, as when another server does not respond; asking again later may help. The reason
    /// is for the log.
    Unavailable(String),
    /// A fault of its own, as when a disk cannot be read.
    Fault(Box<dyn Error + Send + Sync>),
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(reason) => f.write_str(reason),
            Self::Fault(error) => Debug::fmt(error, f),
        }
    }
}

impl Error for SourceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unavailable(_) => None,
            Self::Fault(error) => Some(&**error),
        }
    }
}

/// How an article is found.
#[derive(Debug)]
pub enum Place<'a, G> {
    /// By group and number.
    Number(&'a G, u64),
    /// By Message-ID.
    MessageId(MessageId<'a>),
}

// Not derived, since a place is copied whatever a group is.
impl<G> Clone for Place<'_, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G> Copy for Place<'_, G> {}

/// Why a source shows no article with a Message-ID, as far as that concerns other sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdStanding {
    /// Nothing that would keep other sources from showing one.
    Free,
    /// It was cancelled or refused here.
    Refused,
    /// It is hidden here: shown to nobody, wherever it may come from.
    Hidden,
}

/// What a client is going to ask for.
#[derive(Debug)]
pub enum Foreseen<'a, G> {
    /// A group, by its name.
    Group(&'a [u8]),
    /// At least this part of an article.
    Article(Place<'a, G>, Part),
    /// Whether there is an article with this Message-ID.
    Existence(MessageId<'a>),
    /// Overview rows of these numbers.
    Rows(&'a G, RangeInclusive<u64>),
    /// The neighbours of a number on one side, one after the other, so many.
    Neighbours(&'a G, u64, Side, usize),
}

/// Which neighbour of an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The article before it.
    Previous,
    /// The article after it.
    Next,
}

/// Water marks and number of articles of a group, all of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// Lowest number of an article; `high + 1` in an empty group.
    pub low: u64,
    /// Highest number ever shown.
    pub high: u64,
    /// Number of articles.
    pub count: u64,
}

/// From a group's high mark, the number above which its articles count: 0 for all of them. Marks are those of
/// the articles above it.
pub type Base = fn(high: u64) -> u64;

/// Which groups are asked for.
#[derive(Debug, Clone, Copy)]
pub enum Which<'a, G> {
    /// All.
    All,
    /// Those that match this wildmat. A source may return others too: the caller filters.
    Like(&'a [u8]),
    /// The one of this name.
    Named(&'a [u8]),
    /// This one.
    One(&'a G),
}

/// What may pass between a change of an active entry and the moment it is noted, in seconds.
const CHANGE_SLACK_SECS: u64 = 2;

/// Whether an active entry that was changed at this time is listed as changed since.
fn has_changed(at: u64, since: u64) -> bool {
    at.saturating_add(CHANGE_SLACK_SECS) >= since
}

/// What groups are asked for, named after the lists of the protocol: says which fields of [`GroupInfo`] must
/// be filled beside the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupList {
    /// LIST ACTIVE: high and low mark, flag.
    Active,
    /// LIST ACTIVE.MODTIME: the same, of groups whose marks or flag changed at or after this time (Unix
    /// seconds).
    Changed {
        /// Unix seconds.
        since: u64,
    },
    /// NEWGROUPS: the same, of groups created at or after this time.
    New {
        /// Unix seconds.
        since: u64,
    },
    /// LIST COUNTS: marks with the count, flag.
    Counts,
    /// LIST ACTIVE.TIMES: when and by whom they were created.
    Times,
    /// LIST NEWSGROUPS: descriptions.
    Descriptions,
    /// NEWNEWS: nothing more.
    Names,
}

/// What is known of a group. Fields that were not asked for may be empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct GroupInfo<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its marks.
    pub marks: Marks,
    /// What may be done in it, as in LIST ACTIVE: `y`, `n`, `m`, `j`, `x` or `=name`.
    pub flag: &'a [u8],
    /// When it was created, Unix seconds.
    pub created: u64,
    /// Who created it; empty if that is not known.
    pub creator: &'a [u8],
    /// One line about it; empty if there is none.
    pub description: &'a [u8],
}

/// Decides by a group's name whether it is wanted.
pub type Wanted<'f> = &'f (dyn Fn(&[u8]) -> bool + Send + Sync);

/// Numbers and values of a header, ascending; `None`: the article has no such header.
pub type HeaderValues = Vec<(u64, Option<Box<[u8]>>)>;

/// A header of some articles of a group, as its source has it at hand.
#[derive(Debug, Default)]
pub struct HeaderLines {
    /// Its values.
    pub values: HeaderValues,
    /// Where to continue; `None`: that was all of the range.
    pub next: Option<u64>,
}

/// A list of groups, one after the other.
pub trait GroupStream: Send {
    /// The next group whose name is wanted; `None` at the end.
    fn next<'s>(
        &'s mut self,
        wanted: Wanted<'_>,
    ) -> impl Future<Output = Answer<Option<GroupInfo<'s>>>> + Send;
}

/// A source of news.
///
/// Clones are handles of the same source; each session has one.
pub trait NewsSource: Clone + Send + Sync + 'static {
    /// A group, for as long as a reader has it selected. It may be removed meanwhile.
    type Group: Clone + PartialEq + Debug + Send + Sync;
    /// A list of groups.
    type Groups: GroupStream;
    /// What is still to come of an article; [`Infallible`](std::convert::Infallible) where articles are
    /// always whole.
    type Rest: Remainder;

    /// The same, for a server with this configuration, of which a source may depend.
    #[must_use]
    fn under(self, _config: &Live) -> Self {
        self
    }

    /// The same, for what this client asks.
    #[must_use]
    fn of_client(self, _client: &str) -> Self {
        self
    }

    /// The group called `name`, with its marks.
    fn group(
        &self,
        name: &[u8],
        base: Base,
    ) -> impl Future<Output = Answer<Option<(Self::Group, Marks)>>> + Send;

    /// Groups, in the order of their names.
    fn groups(
        &self,
        list: GroupList,
        which: Which<'_, Self::Group>,
        base: Base,
    ) -> impl Future<Output = Answer<Self::Groups>> + Send;

    /// The text of LIST ACTIVE for all groups where it lies ready, without the final `.`-line; else it is
    /// made from [`NewsSource::groups`].
    fn active_text(&self) -> impl Future<Output = Answer<Option<Arc<Vec<u8>>>>> + Send {
        async { Ok(None) }
    }

    /// Reads an article, at least this part of it and always its head.
    fn article(
        &self,
        place: Place<'_, Self::Group>,
        part: Part,
        into: &mut ArticleBytes,
    ) -> impl Future<Output = Answer<Fetched<Self::Rest>>> + Send;

    /// Reads an article that is known to be at hand: without asking another server or waiting for a disk.
    /// `None`: it is not, or it cannot be said; then [`NewsSource::article`] reads it.
    fn article_at_hand(
        &self,
        _place: Place<'_, Self::Group>,
        _part: Part,
        _into: &mut ArticleBytes,
    ) -> Option<Fetched<Self::Rest>> {
        None
    }

    /// Why an article with this Message-ID is not shown, though another source may have it.
    fn standing(&self, _id: MessageId<'_>) -> IdStanding {
        IdStanding::Free
    }

    /// Whether it is worth to be told what is foreseen.
    fn looks_ahead(&self) -> bool {
        false
    }

    /// These are the next questions of this client, the first one included, in their order: what must be
    /// fetched for them can be on its way before they are asked. Those by number are of one group. What was
    /// foreseen before and is not any more is forgotten.
    fn look_ahead(&self, _foreseen: &[Foreseen<'_, Self::Group>]) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Whether there is an article with this Message-ID.
    fn has(&self, id: MessageId<'_>) -> impl Future<Output = Answer<bool>> + Send;

    /// Appends numbers of articles in a range, ascending, at most `max`; fewer if there are no more.
    fn numbers(
        &self,
        group: &Self::Group,
        range: RangeInclusive<u64>,
        max: usize,
        into: &mut Vec<u64>,
    ) -> impl Future<Output = Answer<()>> + Send;

    /// The first number after, or the last before, this one.
    fn neighbour(
        &self,
        group: &Self::Group,
        number: u64,
        side: Side,
    ) -> impl Future<Output = Answer<Option<u64>>> + Send;

    /// Appends overview rows until `limit_bytes` are exceeded or no more are at hand; `Some(n)`: continue at
    /// `n`. They are as OVER sends them, but for further headers ([`NewsSource::rows_have_headers`]).
    fn over(
        &self,
        group: &Self::Group,
        range: RangeInclusive<u64>,
        limit_bytes: usize,
        into: &mut Vec<u8>,
    ) -> impl Future<Output = Answer<Option<u64>>> + Send;

    /// Whether overview rows may have further headers, as they were stored
    /// ([`netnews::overview_row::further`]).
    fn rows_have_headers(&self) -> bool {
        false
    }

    /// Whether the article of an overview row is shown to readers when they ask for it.
    fn shows(&self, _group: &Self::Group, _number: u64) -> impl Future<Output = Answer<bool>> + Send {
        async { Ok(true) }
    }

    /// A header that overview rows do not have, of the articles of a range; `None`: it is to be read from
    /// each article.
    fn header(
        &self,
        _group: &Self::Group,
        _range: RangeInclusive<u64>,
        _name: &[u8],
    ) -> impl Future<Output = Answer<Option<HeaderLines>>> + Send {
        async { Ok(None) }
    }

    /// The answer to a command that is not known here, with all lines that belong to it, as another server
    /// gives it; `None`: nobody is asked. The group is the one that the reader has selected.
    fn pass_on(
        &self,
        _command: &[u8],
        _selected: Option<&Self::Group>,
    ) -> impl Future<Output = Answer<Option<Vec<u8>>>> + Send {
        async { Ok(None) }
    }

    /// A list that is no list of groups, as another server has it: its lines in wire format, without the
    /// final one; `None`: nobody is asked, or nobody has it.
    fn list_text(&self, _list: PassedList) -> impl Future<Output = Answer<Option<Vec<u8>>>> + Send {
        async { Ok(None) }
    }

    /// Whether another server is asked for this list.
    fn passes_list(&self, _list: PassedList) -> bool {
        false
    }

    /// Appends the Message-IDs of the articles that arrived in the group called `name` since then (Unix
    /// seconds), each with CRLF.
    fn arrived_since(
        &self,
        name: &[u8],
        since: u64,
        into: &mut Vec<u8>,
    ) -> impl Future<Output = Answer<()>> + Send;
}
