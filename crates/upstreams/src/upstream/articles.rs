//! Articles of upstreams: which server is asked for which, and in which order.
//!
//! An article that several readers want at once is requested once (`searching`), and read while it arrives.
//! For a HEAD of an article that is neither cached nor small, only the head is fetched and kept.

use super::bringing::{AskArticle, FlightFacts, LARGE_BYTES};
use super::flight::{Flight, Landing};
use super::group::NumberedGroup;
use super::questions::{AskExists, IdStatus};
use super::searching::ArticleSearch;
use super::table::{Upstream, UpstreamTable};
use super::together::{EarlyQuestion, QuestionTicket};
use super::trouble::UpstreamError;
use super::xref::{XrefHead, fitted, has_place, is_only, with_xref};
use crate::{Answer, ArticleBytes, ArticleLayout, ArticlePart, Fetched, More, Remainder, SourceError};
use disk::ReadMode;
use hashbrown::{HashMap, HashSet};
use netnews::MessageId;
use netnews::overview_row::{self, index};
use newscache::{CacheAccess, CacheHit, LargeReader, MissedArticle, RequestKind};
use site_base::clock::unix_secs;
use site_base::lock::Leaf;
use std::io;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::block_in_place;
use tracing::{debug, warn};

/// Size up to which an article is fetched whole for its head: its body is likely to be requested next.
const SMALL_BYTES_MAX: u64 = 4 << 10;

/// Line that ends an article.
const END: &[u8] = b".\r\n";

/// Limits how many tasks wait for the disk of the cache at once, as each occupies a thread.
static READS: Semaphore = Semaphore::const_new(8);

/// An article being fetched.
pub(super) type ArticleFlight = Arc<Flight<FlightFacts>>;

/// Articles being fetched, by Message-ID, or by group and number.
#[derive(Debug, Default)]
pub(super) struct Flights(Leaf<HashMap<Box<[u8]>, ArticleFlight>>);

/// A reader's request for an article.
pub(super) struct ReadRequest<'a> {
    pub place: UpstreamLocator,
    /// Requested part.
    pub part: ArticlePart,
    /// Whether the article is to be fetched later if it is not available now.
    pub is_for_later: bool,
    /// Client for the access log.
    pub client: &'a str,
    /// Flight begun when the session looked ahead.
    pub ahead: Option<ArticleFlight>,
}

/// Locator of an article.
#[derive(Clone)]
pub(super) enum UpstreamLocator {
    Number(Arc<NumberedGroup>, u64),
    Id(Box<[u8]>),
}

impl UpstreamLocator {
    /// Returns the key in [`Flights`] for this part of it.
    pub fn key(&self, part: ArticlePart) -> Box<[u8]> {
        let part: &[u8] = if part == ArticlePart::Head { b"HEAD " } else { b"" };
        match self {
            Self::Id(id) => [part, id].concat().into(),
            Self::Number(group, number) => {
                let upstream = group.pool.name().as_bytes();
                let made = group.renumberings.count().to_be_bytes();
                [part, upstream, b" ", &group.name, b" ", &number.to_be_bytes(), &made].concat().into()
            }
        }
    }

    /// Returns the count of renumberings of the group, for an article by its number.
    fn renumberings(&self) -> u64 {
        match self {
            Self::Number(group, _) => group.renumberings.count(),
            Self::Id(_) => 0,
        }
    }

    /// Returns the group, for an article by its number.
    pub fn group(&self) -> Option<&[u8]> {
        match self {
            Self::Number(group, _) => Some(&group.name),
            Self::Id(_) => None,
        }
    }

    /// Returns whether this server numbers its group.
    pub fn is_numbered_by(&self, upstream: &Upstream) -> bool {
        matches!(self, Self::Number(group, _) if Arc::ptr_eq(&group.pool, &upstream.pool))
    }

    /// Returns whether the cache has this part of it, as far as is known without reading it.
    pub fn is_here(&self, table: &UpstreamTable, part: ArticlePart) -> bool {
        let (now, Some(cache)) = (unix_secs(), &table.cache) else { return false };
        let id = match self {
            Self::Id(id) => Some(id.to_vec()),
            Self::Number(group, number) if group.shelf.has(*number) => return true,
            Self::Number(group, number) => group.shelf.id_of(*number),
        };
        let is_here = |id: &[u8]| -> io::Result<bool> {
            Ok(cache.has_id(id, now)? || part == ArticlePart::Head && cache.has_head(id, now)?)
        };
        id.is_some_and(|id| block_in_place(|| is_here(&id)).unwrap_or_default())
    }

    /// Returns whether it is known to be small enough to be fetched whole, whatever part is wanted.
    fn is_small(&self) -> bool {
        match self {
            Self::Number(group, number) => {
                group.shelf.size_of(*number).is_some_and(|bytes| bytes <= SMALL_BYTES_MAX)
            }
            Self::Id(_) => false,
        }
    }
}

/// A borrowed locator.
#[derive(Clone, Copy)]
pub(super) enum UpstreamLocatorRef<'a> {
    Number(&'a NumberedGroup, u64),
    Id(&'a [u8]),
}

impl<'a> From<&'a UpstreamLocator> for UpstreamLocatorRef<'a> {
    fn from(place: &'a UpstreamLocator) -> Self {
        match place {
            UpstreamLocator::Number(group, number) => Self::Number(group, *number),
            UpstreamLocator::Id(id) => Self::Id(id),
        }
    }
}

/// Rest of an article.
#[derive(Debug)]
pub struct ArticleRest {
    from: RestSource,
    is_over: bool,
}

/// Source of the rest of an article.
#[derive(Debug)]
enum RestSource {
    /// An upstream, with the number of bytes shown so far, and the last piece.
    Upstream(ArticleFlight, usize, Vec<u8>),
    /// The cache.
    Kept(LargeReader),
}

impl ArticleRest {
    fn of(from: RestSource) -> Self {
        Self { from, is_over: false }
    }
}

impl Remainder for ArticleRest {
    async fn next(&mut self) -> Answer<Option<More<'_>>> {
        if self.is_over {
            return Ok(None);
        }
        let has_more = match &mut self.from {
            RestSource::Upstream(flight, at, came) => arrived(flight, at, came).await?,
            RestSource::Kept(large) => patiently(|patience| large.read(patience))
                .await
                .map_err(|error| SourceError::Unavailable(error.to_string()))?,
        };
        self.is_over = !has_more;
        let end = if has_more { &b""[..] } else { END };
        Ok(Some(match &self.from {
            RestSource::Upstream(.., came) => [came, &[], end],
            RestSource::Kept(large) => {
                let [one, other] = large.parts();
                [one, other, end]
            }
        }))
    }
}

/// Copies the bytes that have arrived after `at`; returns false at the end.
async fn arrived(flight: &ArticleFlight, at: &mut usize, into: &mut Vec<u8>) -> Answer<bool> {
    into.clear();
    let copied = flight.wait(|cargo| match (cargo.bytes.get(*at..), &cargo.end) {
        (Some(more), _) if !more.is_empty() => {
            into.extend_from_slice(more);
            Some(Ok(more.len()))
        }
        (_, Some(end)) => Some(end.clone().map(|()| 0)),
        _ => None,
    });
    let len = copied.await?;
    *at += len;
    Ok(len > 0)
}

/// Reads from memory if possible, otherwise waits for the disk, with a limit on such tasks.
async fn patiently<T>(mut read: impl FnMut(ReadMode) -> io::Result<T>) -> io::Result<T> {
    match read(ReadMode::CacheOnly) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let _permit = READS.acquire().await;
            block_in_place(|| read(ReadMode::Wait))
        }
        read => read,
    }
}

/// Fetches an article into the cache; returns how many bytes that took.
pub(super) async fn bring(
    table: &Arc<UpstreamTable>,
    flights: &Arc<Flights>,
    place: &UpstreamLocator,
) -> Result<u64, UpstreamError> {
    let flight = on_its_way(table, flights, place, ArticlePart::Article, None);
    flight.wait(|cargo| cargo.end.clone().map(|end| end.map(|()| cargo.bytes.len() as u64))).await
}

/// Remembers an article that is not available now.
fn want(table: &UpstreamTable, place: &UpstreamLocator) {
    let Some(cache) = &table.cache else { return };
    cache.want(match place {
        UpstreamLocator::Number(group, number) => group.missed(*number),
        UpstreamLocator::Id(id) => MissedArticle { group: Vec::new(), number: 0, id: id.to_vec() },
    });
}

/// Reads an article that the cache has in memory; returns `None` if it is not there, or would have to be
/// waited for.
pub(super) fn at_hand(
    table: &UpstreamTable,
    at: UpstreamLocatorRef<'_>,
    client: &str,
    part: ArticlePart,
    into: &mut ArticleBytes,
) -> Option<Fetched<ArticleRest>> {
    let kept = cached(table, at, part, ReadMode::CacheOnly, into).ok()??;
    Some(shown(table, at, client, kept, into))
}

/// Returns an article read from the cache, and counts the request.
fn shown(
    table: &UpstreamTable,
    at: UpstreamLocatorRef<'_>,
    client: &str,
    kept: CachedArticle,
    into: &ArticleBytes,
) -> Fetched<ArticleRest> {
    let CachedArticle { rest, size, now } = kept;
    record(table, at, client, into.message_id(), AnswerSource::Cache(size), now);
    rest.map_or(Fetched::Whole, |large| Fetched::Begun(ArticleRest::of(RestSource::Kept(large))))
}

/// Reads an article.
pub(super) async fn article(
    table: &Arc<UpstreamTable>,
    flights: &Arc<Flights>,
    ReadRequest { place, part, is_for_later, client, ahead }: ReadRequest<'_>,
    into: &mut ArticleBytes,
) -> Answer<Fetched<ArticleRest>> {
    if let Some(flight) = ahead {
        match followed(table, &flight, &place, part, client, into).await {
            Ok(fetched) => return Ok(fetched),
            Err(trouble) => debug!(%trouble, "what was asked for ahead is asked for again"),
        }
    }
    let found = patiently(|patience| cached(table, (&place).into(), part, patience, into)).await;
    let found = found.unwrap_or_else(|error| {
        warn!(%error, "the cache cannot be read");
        None
    });
    if let Some(kept) = found {
        return Ok(shown(table, (&place).into(), client, kept, into));
    }
    if let UpstreamLocator::Number(group, number) = &place
        && group.shelf.exists(*number) == Some(false)
    {
        return Ok(Fetched::Missing);
    }
    let flight = on_its_way(table, flights, &place, part, None);
    match followed(table, &flight, &place, part, client, into).await {
        Err(trouble @ UpstreamError::Away(_)) if is_for_later => {
            want(table, &place);
            Err(trouble.into())
        }
        fetched => Ok(fetched?),
    }
}

/// Reads an article being fetched.
async fn followed(
    table: &UpstreamTable,
    flight: &ArticleFlight,
    place: &UpstreamLocator,
    part: ArticlePart,
    client: &str,
    into: &mut ArticleBytes,
) -> Result<Fetched<ArticleRest>, UpstreamError> {
    let about = flight.wait(|cargo| match (&cargo.about, &cargo.end) {
        (_, Some(Err(trouble))) => Some(Err(trouble.clone())),
        // A head is shown once it is kept, so that the next request for it need not go upstream.
        (Some(_), None) if part == ArticlePart::Head => None,
        (Some(about), end) => Some(Ok((about.clone(), cargo.bytes.clone(), end.is_some()))),
        _ => None,
    });
    let (about, mut bytes, is_whole) = match about.await {
        Ok(found) => found,
        Err(UpstreamError::Missing) => return Ok(Fetched::Missing),
        Err(trouble) => return Err(trouble),
    };
    let at = bytes.len();
    record(table, place.into(), client, &about.id, AnswerSource::Upstream(at as u64), unix_secs());
    bytes = fitted_to(table, place, Some(about.from), bytes);
    if is_whole {
        bytes.extend_from_slice(END);
    }
    into.set(&about.id, &bytes);
    Ok(match is_whole {
        true => Fetched::Whole,
        false => Fetched::Begun(ArticleRest::of(RestSource::Upstream(flight.clone(), at, Vec::new()))),
    })
}

/// An article read from the cache: its whole head, and some of its body.
struct CachedArticle {
    /// Reader for the rest.
    rest: Option<LargeReader>,
    /// Size of the whole article in bytes.
    size: u64,
    /// Time of reading, in Unix seconds.
    now: u64,
}

/// Reads an article from the cache.
fn cached(
    table: &UpstreamTable,
    at: UpstreamLocatorRef<'_>,
    part: ArticlePart,
    patience: ReadMode,
    into: &mut ArticleBytes,
) -> io::Result<Option<CachedArticle>> {
    // The article is sent from the buffer that it is read into.
    let (mut bytes, scratch) = into.take();
    let read = read_cached(table, at, part, patience, &mut bytes);
    let Ok(Some((CacheHit { id, from, .. }, kept))) = read else {
        bytes.clear();
        into.put(bytes, scratch, ArticleLayout::default());
        return read.map(|_| None);
    };
    let article = bytes.get(from..).unwrap_or_default();
    let XrefHead { head, body_at, xref } = XrefHead::of(article);
    let other = other_xref(table, at, None, head, xref);
    let body_at = from + body_at;
    if kept.rest.is_none() {
        bytes.extend_from_slice(END);
    }
    into.put(bytes, scratch, ArticleLayout { article_at: from, body_at, message_id: id });
    if let Some(xref) = other {
        let (id, article) = (into.message_id().to_vec(), with_xref(into.article(), &xref));
        into.set(&id, &article);
    }
    Ok(Some(kept))
}

/// Reads an article from the cache into a buffer, and returns its location there.
fn read_cached(
    table: &UpstreamTable,
    at: UpstreamLocatorRef<'_>,
    part: ArticlePart,
    patience: ReadMode,
    into: &mut Vec<u8>,
) -> io::Result<Option<(CacheHit, CachedArticle)>> {
    let now = unix_secs();
    let found = match (at, &table.cache) {
        (UpstreamLocatorRef::Number(group, number), _) => group.shelf.find(number, patience, into, now)?,
        (UpstreamLocatorRef::Id(id), Some(cache)) => cache.find(id, patience, into, now)?,
        (UpstreamLocatorRef::Id(_), None) => None,
    };
    let kept = |rest, size| CachedArticle { rest, size, now };
    let Some(mut found) = found else {
        let head = if part == ArticlePart::Head { cached_head(table, at, patience, into)? } else { None };
        return Ok(head.map(|head| (head, kept(None, into.len() as u64))));
    };
    let Some(mut large) = found.large.take() else {
        let size = into.len().saturating_sub(found.from) as u64;
        return Ok(Some((found, kept(None, size))));
    };
    let size = large.bytes()?;
    let has_more = large.read_head(patience, into)?;
    Ok(Some((found, kept(has_more.then_some(large), size))))
}

/// Reads the head of an article of which the cache has nothing else.
fn cached_head(
    table: &UpstreamTable,
    at: UpstreamLocatorRef<'_>,
    patience: ReadMode,
    into: &mut Vec<u8>,
) -> io::Result<Option<CacheHit>> {
    let mut head = Vec::new();
    let id = match (at, &table.cache) {
        (UpstreamLocatorRef::Number(group, number), _) => group.shelf.head(number, patience, &mut head)?,
        (UpstreamLocatorRef::Id(id), Some(cache)) => {
            cache.head(id, patience, &mut head, unix_secs())?.then(|| id.to_vec())
        }
        (UpstreamLocatorRef::Id(_), None) => None,
    };
    Ok(id.map(|id| {
        into.clear();
        into.extend_from_slice(&id);
        into.extend_from_slice(&head);
        CacheHit { id: 0..id.len(), from: id.len(), large: None }
    }))
}

/// Source of an answer to a reader, with its size in bytes.
#[derive(Clone, Copy)]
enum AnswerSource {
    Cache(u64),
    Upstream(u64),
}

/// Counts a request made at this time, in Unix seconds.
fn record(
    table: &UpstreamTable,
    place: UpstreamLocatorRef<'_>,
    client: &str,
    id: &[u8],
    source: AnswerSource,
    at: u64,
) {
    let (cache_bytes, upstream_bytes) = match source {
        AnswerSource::Cache(bytes) => (bytes, 0),
        AnswerSource::Upstream(bytes) => (0, bytes),
    };
    let (upstream, group, number) = match place {
        UpstreamLocatorRef::Number(group, number) => (group.pool.name(), &*group.name, number),
        UpstreamLocatorRef::Id(_) => ("", &b""[..], 0),
    };
    let access = CacheAccess {
        at,
        client,
        kind: RequestKind::Article,
        upstream,
        group,
        number,
        id,
        cache_bytes,
        upstream_bytes,
        is_hit: upstream_bytes == 0,
    };
    match (place, &table.cache) {
        (UpstreamLocatorRef::Number(group, _), _) => group.shelf.record(&access),
        (UpstreamLocatorRef::Id(_), Some(cache)) => cache.record(&access),
        (UpstreamLocatorRef::Id(_), None) => {}
    }
}

/// Returns the article with the Xref shown to readers; `from` is the index of the upstream it comes from,
/// or `None` if it was fitted before.
fn fitted_to(table: &UpstreamTable, place: &UpstreamLocator, from: Option<usize>, bytes: Vec<u8>) -> Vec<u8> {
    let XrefHead { head, xref, .. } = XrefHead::of(&bytes);
    match other_xref(table, place.into(), from, head, xref) {
        Some(xref) => with_xref(&bytes, &xref),
        None => bytes,
    }
}

/// Returns the Xref shown to readers, if it differs from the article's own.
fn other_xref(
    table: &UpstreamTable,
    at: UpstreamLocatorRef<'_>,
    from: Option<usize>,
    head: &[u8],
    value: &[u8],
) -> Option<Vec<u8>> {
    let fitted = match at {
        UpstreamLocatorRef::Number(group, number)
            if from.is_none() && is_only(value, &group.name, number) =>
        {
            return None;
        }
        UpstreamLocatorRef::Number(group, number) => {
            let is_own = from.is_none_or(|from| from == table.place_of(&group.pool));
            if is_own && has_place(head, &group.name, number) {
                fitted(value, Some((&group.name, number)), &*group.is_here)
            } else {
                match group.shelf.row(number) {
                    Some(row) => overview_row::field(&row, index::XREF)?.get(6..)?.to_vec(),
                    None => fitted(b"", Some((&group.name, number)), &*group.is_here),
                }
            }
        }
        // The numbers are those of the server it came from.
        UpstreamLocatorRef::Id(_) => {
            let from = from?;
            fitted(value, None, &|name| table.routes.numbering(name) == Some(from))
        }
    };
    (fitted != value).then_some(fitted)
}

/// Returns the flight of the article, beginning it if necessary; with a ticket it is requested together
/// with others.
pub(super) fn on_its_way(
    table: &Arc<UpstreamTable>,
    flights: &Arc<Flights>,
    place: &UpstreamLocator,
    part: ArticlePart,
    ticket: Option<QuestionTicket<AskArticle>>,
) -> ArticleFlight {
    let is_small = part == ArticlePart::Head && place.is_small();
    let mut all = flights.0.lock();
    if let Some(flight) = all.get(&place.key(ArticlePart::Article)) {
        return flight.clone();
    }
    let part = if part == ArticlePart::Head && !is_small { ArticlePart::Head } else { ArticlePart::Article };
    let key = place.key(part);
    if let Some(flight) = all.get(&key) {
        return flight.clone();
    }
    let (flight, landing) = Flight::begin();
    all.insert(key.clone(), flight.clone());
    drop(all);
    let (table, flights, place) = (table.clone(), flights.clone(), place.clone());
    let made = place.renumberings();
    tokio::spawn(async move {
        let landing = Arc::new(landing);
        let _leaves = FlightGuard { flights, key };
        let together = Leaf::new(ticket);
        let end =
            ArticleSearch { table: &table, place: &place, part, landing: &landing, together }.run().await;
        if end.is_ok() {
            block_in_place(|| keep(&table, &place, part, &landing, made));
        }
        landing.end(end);
    });
    flight
}

/// Puts a complete article, or its head, into the cache; `made` is the count of renumberings at its request.
fn keep(
    table: &UpstreamTable,
    place: &UpstreamLocator,
    part: ArticlePart,
    landing: &Landing<FlightFacts>,
    made: u64,
) {
    let (about, bytes) = landing.change(|cargo| (cargo.about.clone(), cargo.bytes.clone()));
    let (Some(about), Some(cache)) = (about, &table.cache) else { return };
    let bytes = fitted_to(table, place, Some(about.from), bytes);
    match (place, part) {
        (UpstreamLocator::Number(group, number), part) => group.keep(*number, part, &about.id, &bytes, made),
        (UpstreamLocator::Id(_), part) => {
            let origin = table.upstreams.get(about.from).map_or("", |upstream| &upstream.config.name);
            let kept = match part {
                ArticlePart::Head => cache.put_head(origin, &about.id, &bytes, unix_secs()),
                _ => cache.put_by_id(origin, &about.id, &bytes, unix_secs()),
            };
            if let Err(error) = kept {
                warn!(%error, "the cache cannot keep an article");
            }
        }
    }
}

/// Removes an article from the flights when dropped.
struct FlightGuard {
    flights: Arc<Flights>,
    key: Box<[u8]>,
}

impl Drop for FlightGuard {
    fn drop(&mut self) {
        self.flights.0.lock().remove(&self.key);
    }
}

/// Returns whether the article with a Message-ID, or its head, is cached, or known to be at an upstream.
pub(super) fn is_known(table: &UpstreamTable, id: &[u8]) -> bool {
    let (now, Some(cache)) = (unix_secs(), &table.cache) else { return false };
    let is_here = || -> io::Result<bool> { Ok(cache.has_id(id, now)? || cache.has_head(id, now)?) };
    cache.is_present(id, now) || block_in_place(is_here).unwrap_or_default()
}

/// Returns whether some upstream has an article with this Message-ID; `ahead` is the question asked when
/// the session looked ahead.
pub(super) async fn has(
    table: &UpstreamTable,
    id: MessageId<'_>,
    mut ahead: Option<EarlyQuestion<IdStatus>>,
) -> Answer<bool> {
    if is_known(table, id.as_bytes()) {
        return Ok(true);
    }
    let (mut trouble, mut without) = (None, HashSet::new());
    let order = table.in_order_of(None);
    let is_only = order.len() == 1;
    for upstream in order {
        let owner = upstream.config.owner();
        if without.contains(owner) || table.is_known_without(owner, id.as_bytes()) {
            continue;
        }
        let promised = match ahead.take_if(|ahead| Arc::ptr_eq(&ahead.pool, &upstream.pool)) {
            Some(ahead) => ahead.answer.await.ok(),
            None => None,
        };
        let asked = || upstream.pool.ask_apart(AskExists(id.as_bytes().into()));
        let answer = match promised {
            Some(answer) => answer,
            None if is_only => asked().await,
            None => upstream.pool.soon(asked()).await,
        };
        match answer {
            Ok(IdStatus::Present) => {
                table.is_with(id.as_bytes());
                return Ok(true);
            }
            Ok(IdStatus::Missing) => {
                table.is_without(owner, id.as_bytes());
                without.insert(owner);
            }
            Ok(IdStatus::Refused) => _ = without.insert(owner),
            Err(other) => trouble = Some(other),
        }
    }
    trouble.map_or(Ok(false), |trouble| Err(SourceError::from(trouble)))
}

const _: () = assert!(LARGE_BYTES <= netnews::article::HEADER_BYTES_MAX, "a head is whole when it is shown");
