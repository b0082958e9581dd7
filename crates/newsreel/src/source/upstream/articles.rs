//! Articles of upstreams: which server is asked for which, and in which order.
//!
//! An article that several readers want at once is asked for once (`searching`), and read while it arrives.
//! Of one that is not here and not small, HEAD fetches the head alone.

use super::bringing::{About, LARGE_BYTES};
use super::flight::{Flight, Landing};
use super::group::Group;
use super::questions::AskHas;
use super::searching::Search;
use super::table::Table;
use super::trouble::Trouble;
use super::xref::{fitted, has_place, with_xref};
use crate::base::clock::unix_secs;
use crate::source::{Answer, ArticleBytes, Fetched, Part, Remainder, SourceError};
use hashbrown::{HashMap, HashSet};
use memchr::memmem;
use netnews::MessageId;
use netnews::article::content_of;
use netnews::overview_row::{self, index};
use newscache::{Access, RequestKind, Want};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::block_in_place;
use tracing::warn;

/// An article up to this size is fetched whole for its head: its body is likely to be asked for next.
const SMALL_BYTES_MAX: u64 = 4 << 10;

/// So many articles are read from the cache at once. Each occupies a thread, and holds its bytes.
static READS: Semaphore = Semaphore::const_new(8);

/// What an article on its way comes to.
type OnItsWay = Arc<Flight<About>>;

/// Articles on their way: by Message-ID, or by group and number.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<HashMap<Box<[u8]>, OnItsWay>>);

/// An article that a reader wants.
pub(super) struct Asked<'a> {
    pub place: Place,
    /// What of it.
    pub part: Part,
    /// Whether it is remembered if it cannot be had now.
    pub is_for_later: bool,
    /// Who asks, for the log of accesses.
    pub client: &'a str,
}

/// Which article it is.
#[derive(Clone)]
pub(super) enum Place {
    Number(Arc<Group>, u64),
    Id(Box<[u8]>),
}

impl Place {
    /// What it is called while this part of it is on its way.
    fn key(&self, part: Part) -> Box<[u8]> {
        let part: &[u8] = if part == Part::Head { b"HEAD " } else { b"" };
        match self {
            Self::Id(id) => [part, id].concat().into(),
            Self::Number(group, number) => {
                let upstream = group.pool.name().as_bytes();
                [part, upstream, b" ", &group.name, b" ", &number.to_be_bytes()].concat().into()
            }
        }
    }

    /// Whether it is known to be so small that it is fetched whole, whatever of it is wanted.
    fn is_small(&self) -> bool {
        match self {
            Self::Number(group, number) => {
                group.shelf.size_of(*number).is_some_and(|bytes| bytes <= SMALL_BYTES_MAX)
            }
            Self::Id(_) => false,
        }
    }
}

/// The rest of an article.
#[derive(Debug)]
pub struct Rest {
    flight: OnItsWay,
    at: usize,
    is_over: bool,
}

impl Remainder for Rest {
    async fn next(&mut self, into: &mut Vec<u8>) -> Answer<bool> {
        if self.is_over {
            return Ok(false);
        }
        let at = self.at;
        let copied = self.flight.wait(|cargo| match (cargo.bytes.get(at..), &cargo.end) {
            (Some(more), _) if !more.is_empty() => {
                into.extend_from_slice(more);
                Some(Ok(more.len()))
            }
            (_, Some(end)) => Some(end.clone().map(|()| 0)),
            _ => None,
        });
        match copied.await? {
            0 => {
                self.is_over = true;
                into.extend_from_slice(b".\r\n");
            }
            len => self.at += len,
        }
        Ok(true)
    }
}

/// Brings an article into the cache, unless it is there; how many bytes that took.
pub(super) async fn bring(table: &Arc<Table>, flights: &Arc<Flights>, place: &Place) -> Result<u64, Trouble> {
    let flight = on_its_way(table, flights, place, Part::Article);
    flight.wait(|cargo| cargo.end.clone().map(|end| end.map(|()| cargo.bytes.len() as u64))).await
}

/// Remembers what cannot be had now.
fn want(table: &Table, place: &Place) {
    let Some(cache) = &table.cache else { return };
    cache.want(match place {
        Place::Number(group, number) => Want { group: group.name.to_vec(), number: *number, id: Vec::new() },
        Place::Id(id) => Want { group: Vec::new(), number: 0, id: id.to_vec() },
    });
}

/// Reads an article.
pub(super) async fn article(
    table: &Arc<Table>,
    flights: &Arc<Flights>,
    Asked { place, part, is_for_later, client }: Asked<'_>,
    into: &mut ArticleBytes,
) -> Answer<Fetched<Rest>> {
    let found = {
        let _permit = READS.acquire().await;
        block_in_place(|| cached(table, &place))
    };
    if let Some((id, bytes)) = found {
        record(table, (&place, client), &id, (bytes.len() as u64, 0));
        let mut bytes = fitted_to(table, &place, None, bytes);
        bytes.extend_from_slice(b".\r\n");
        into.set(&id, &bytes);
        return Ok(Fetched::Whole);
    }
    let flight = on_its_way(table, flights, &place, part);
    let about = flight.wait(|cargo| match (&cargo.about, &cargo.end) {
        (_, Some(Err(trouble))) => Some(Err(trouble.clone())),
        (Some(about), end) => Some(Ok((about.clone(), cargo.bytes.clone(), end.is_some()))),
        _ => None,
    });
    let (about, mut bytes, is_whole) = match about.await {
        Ok(found) => found,
        Err(Trouble::Missing) => return Ok(Fetched::Missing),
        Err(trouble @ Trouble::Away(_)) if is_for_later => {
            want(table, &place);
            return Err(trouble.into());
        }
        Err(trouble) => return Err(trouble.into()),
    };
    let at = bytes.len();
    record(table, (&place, client), &about.id, (0, at as u64));
    bytes = fitted_to(table, &place, Some(about.from), bytes);
    if is_whole {
        bytes.extend_from_slice(b".\r\n");
    }
    into.set(&about.id, &bytes);
    Ok(if is_whole { Fetched::Whole } else { Fetched::Begun(Rest { flight, at, is_over: false }) })
}

/// The article that the cache has, and its Message-ID.
fn cached(table: &Table, place: &Place) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut bytes = Vec::new();
    match place {
        Place::Number(group, number) => group.shelf.article(*number, &mut bytes).map(|id| (id, bytes)),
        Place::Id(id) => {
            let found = table.cache.as_ref()?.by_id(id, &mut bytes, unix_secs());
            found
                .unwrap_or_else(|error| {
                    warn!(%error, "the cache cannot be read");
                    false
                })
                .then(|| (id.to_vec(), bytes))
        }
    }
}

/// Counts a request.
fn record(
    table: &Table,
    (place, client): (&Place, &str),
    id: &[u8],
    (cache_bytes, upstream_bytes): (u64, u64),
) {
    let Some(cache) = &table.cache else { return };
    let (upstream, group, number) = match place {
        Place::Number(group, number) => (group.pool.name(), &*group.name, *number),
        Place::Id(_) => ("", &b""[..], 0),
    };
    let (at, is_hit) = (unix_secs(), upstream_bytes == 0);
    let kind = RequestKind::Article;
    cache.record(&Access {
        at,
        client,
        kind,
        upstream,
        group,
        number,
        id,
        cache_bytes,
        upstream_bytes,
        is_hit,
    });
}

/// The article with the Xref that readers are to see; `from` is the place of the upstream that it comes from,
/// `None`: it was fitted before.
fn fitted_to(table: &Table, place: &Place, from: Option<usize>, bytes: Vec<u8>) -> Vec<u8> {
    let end = memmem::find(&bytes, b"\r\n\r\n").map_or(bytes.len(), |end| end + 2);
    let head = bytes.get(..end).unwrap_or_default();
    match other_xref(table, place, from, head) {
        Some(xref) => with_xref(&bytes, &xref),
        None => bytes,
    }
}

/// The Xref that readers are to see, if it is not the one that the article has.
fn other_xref(table: &Table, place: &Place, from: Option<usize>, head: &[u8]) -> Option<Vec<u8>> {
    let value = content_of(head, b"Xref").unwrap_or_default();
    let fitted = match place {
        Place::Number(group, number) => {
            let is_own = from.is_none_or(|from| from == table.place_of(&group.pool));
            if is_own && has_place(head, &group.name, *number) {
                fitted(value, Some((&group.name, *number)), &*group.is_here)
            } else {
                match group.shelf.row(*number) {
                    Some(row) => overview_row::field(&row, index::XREF)?.get(6..)?.to_vec(),
                    None => fitted(b"", Some((&group.name, *number)), &*group.is_here),
                }
            }
        }
        // The numbers are those of the server that it came from.
        Place::Id(_) => {
            let from = from?;
            fitted(value, None, &|name| table.routes.numbering(name) == Some(from))
        }
    };
    (fitted != value).then_some(fitted)
}

/// The article that is on its way already, or is from now on.
fn on_its_way(table: &Arc<Table>, flights: &Arc<Flights>, place: &Place, part: Part) -> OnItsWay {
    let is_small = part == Part::Head && place.is_small();
    let mut all = flights.0.lock();
    if let Some(flight) = all.get(&place.key(Part::Article)) {
        return flight.clone();
    }
    let part = if part == Part::Head && !is_small { Part::Head } else { Part::Article };
    let key = place.key(part);
    if let Some(flight) = all.get(&key) {
        return flight.clone();
    }
    let (flight, landing) = Flight::begin();
    all.insert(key.clone(), flight.clone());
    drop(all);
    let (table, flights, place) = (table.clone(), flights.clone(), place.clone());
    tokio::spawn(async move {
        let landing = Arc::new(landing);
        let _leaves = Leaving { flights, key };
        let end = Search { table: &table, place: &place, part, landing: &landing }.run().await;
        if end.is_ok() && part == Part::Article {
            block_in_place(|| keep(&table, &place, &landing));
        }
        landing.end(end);
    });
    flight
}

/// Puts an article that is whole into the cache.
fn keep(table: &Table, place: &Place, landing: &Landing<About>) {
    let (about, bytes) = landing.change(|cargo| (cargo.about.clone(), cargo.bytes.clone()));
    let (Some(about), Some(cache)) = (about, &table.cache) else { return };
    let bytes = fitted_to(table, place, Some(about.from), bytes);
    match place {
        Place::Number(group, number) => group.shelf.put_article(*number, &about.id, &bytes),
        Place::Id(_) => {
            let origin = table.upstreams.get(about.from).map_or("", |upstream| &upstream.config.name);
            if let Err(error) = cache.put_by_id(origin, &about.id, &bytes, unix_secs()) {
                warn!(%error, "the cache cannot keep an article");
            }
        }
    }
}

/// Takes an article out of those on their way.
struct Leaving {
    flights: Arc<Flights>,
    key: Box<[u8]>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.flights.0.lock().remove(&self.key);
    }
}

/// Whether some upstream has an article with this Message-ID.
pub(super) async fn has(table: &Table, id: MessageId<'_>) -> Answer<bool> {
    if let Some(cache) = &table.cache
        && block_in_place(|| cache.has_id(id.as_bytes(), unix_secs())).unwrap_or_default()
    {
        return Ok(true);
    }
    let (mut trouble, mut without) = (None, HashSet::new());
    for upstream in table.in_order_of(None) {
        let owner = upstream.config.owner();
        if without.contains(owner) || table.is_known_without(owner, id.as_bytes()) {
            continue;
        }
        match upstream.pool.ask_apart(AskHas(id.as_bytes().into())).await {
            Ok(true) => return Ok(true),
            Ok(false) => {
                table.is_without(owner, id.as_bytes());
                without.insert(owner);
            }
            Err(other) => trouble = Some(other),
        }
    }
    trouble.map_or(Ok(false), |trouble| Err(SourceError::from(trouble)))
}

const _: () = assert!(LARGE_BYTES <= netnews::article::HEADER_BYTES_MAX, "a head is whole when it is shown");
