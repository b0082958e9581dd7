//! Articles of upstreams: which server is asked for which, and in which order.
//!
//! By its number an article is asked for at the server that numbers the group, and where that one does not
//! have it, or has something else, by its Message-ID at the others. What one server of an owner does not have
//! is not asked for at another. An article that several readers want at once is asked for once.

use super::bringing::{About, AskArticle, Brought, Expected, LARGE_BYTES, Wanted};
use super::flight::{Flight, Landing};
use super::group::Group;
use super::pool::Pool;
use super::questions::AskHas;
use super::rows::AskRows;
use super::table::{Table, Upstream};
use super::trouble::{Trouble, shown};
use super::xref::{fitted, has_place, with_xref};
use crate::base::clock::unix_secs;
use crate::source::{Answer, ArticleBytes, Fetched, Remainder, SourceError};
use hashbrown::{HashMap, HashSet};
use memchr::memmem;
use netnews::MessageId;
use netnews::article::content_of;
use netnews::overview_row::{self, index};
use newscache::{Access, RequestKind};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::task::block_in_place;
use tracing::warn;

/// What an article on its way comes to.
type OnItsWay = Arc<Flight<About>>;

/// Articles on their way: by Message-ID, or by group and number.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<HashMap<Box<[u8]>, OnItsWay>>);

/// An article that a reader wants.
pub(super) struct Asked<'a> {
    pub place: Place,
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
    fn key(&self) -> Box<[u8]> {
        match self {
            Self::Id(id) => id.clone(),
            Self::Number(group, number) => {
                let upstream = group.pool.name().as_bytes();
                [upstream, b" ", &group.name, b" ", &number.to_be_bytes()].concat().into()
            }
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

/// Reads an article.
pub(super) async fn article(
    table: &Arc<Table>,
    flights: &Arc<Flights>,
    Asked { place, client }: Asked<'_>,
    into: &mut ArticleBytes,
) -> Answer<Fetched<Rest>> {
    if let Some((id, bytes)) = block_in_place(|| cached(table, &place)) {
        record(table, (&place, client), &id, (bytes.len() as u64, 0));
        let mut bytes = fitted_to(table, &place, None, bytes);
        bytes.extend_from_slice(b".\r\n");
        into.set(&id, &bytes);
        return Ok(Fetched::Whole);
    }
    let flight = on_its_way(table, flights, &place);
    let about = flight.wait(|cargo| match (&cargo.about, &cargo.end) {
        (_, Some(Err(trouble))) => Some(Err(trouble.clone())),
        (Some(about), end) => Some(Ok((about.clone(), cargo.bytes.clone(), end.is_some()))),
        _ => None,
    });
    let (about, mut bytes, is_whole) = match about.await {
        Ok(found) => found,
        Err(Trouble::Missing) => return Ok(Fetched::Missing),
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
fn on_its_way(table: &Arc<Table>, flights: &Arc<Flights>, place: &Place) -> OnItsWay {
    let key = place.key();
    let mut all = flights.0.lock();
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
        let end = Search { table: &table, place: &place, landing: &landing }.run().await;
        if end.is_ok() {
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

/// The search for one article.
struct Search<'a> {
    table: &'a Table,
    place: &'a Place,
    landing: &'a Arc<Landing<About>>,
}

impl Search<'_> {
    /// Asks one server after the other.
    async fn run(&self) -> Result<(), Trouble> {
        let (mut trouble, mut without) = (None, HashSet::new());
        let mut id = match self.place {
            Place::Id(id) => Some(id.to_vec()),
            Place::Number(group, number) => group.shelf.id_of(*number),
        };
        if let Place::Number(group, number) = self.place {
            match self.by_number(group, *number, &mut id).await {
                Ok(Brought::Whole) => return Ok(()),
                Ok(_) => _ = without.insert(self.table.owner_of(&group.pool)),
                Err(other) => trouble = Some(other),
            }
        }
        let Some(id) = id else { return Err(self.not_found(trouble)) };
        for upstream in self.table.in_order_of(self.group()) {
            let owner = upstream.config.owner();
            let is_without = without.contains(owner) || self.table.is_known_without(owner, &id);
            if is_without || self.is_numbering(upstream) && trouble.is_none() {
                continue;
            }
            let expected = Expected { id: Some(id.clone()), ..self.expected() };
            match self.ask(&upstream.pool, Wanted::Id(id.clone().into()), expected).await {
                Ok(Brought::Whole) => return Ok(()),
                Ok(_) => {
                    self.table.is_without(upstream.config.owner(), &id);
                    without.insert(upstream.config.owner());
                }
                Err(other) => trouble = Some(other),
            }
        }
        Err(self.not_found(trouble))
    }

    /// Why it is not brought. A number whose article nobody has is forgotten; where another server has it,
    /// its row is still needed.
    fn not_found(&self, trouble: Option<Trouble>) -> Trouble {
        if let (None, Place::Number(group, number)) = (&trouble, self.place) {
            group.shelf.forget(*number);
        }
        trouble.unwrap_or(Trouble::Missing)
    }

    fn group(&self) -> Option<&[u8]> {
        match self.place {
            Place::Number(group, _) => Some(&group.name),
            Place::Id(_) => None,
        }
    }

    fn is_numbering(&self, upstream: &Upstream) -> bool {
        matches!(self.place, Place::Number(group, _) if Arc::ptr_eq(&group.pool, &upstream.pool))
    }

    fn expected(&self) -> Expected {
        let bytes = match self.place {
            Place::Number(group, number) => group.shelf.size_of(*number),
            Place::Id(_) => None,
        };
        Expected { id: None, bytes, bytes_max: self.table.article_bytes_max }
    }

    async fn ask(&self, pool: &Arc<Pool>, wanted: Wanted, expected: Expected) -> Result<Brought, Trouble> {
        let from = self.table.place_of(pool);
        pool.ask(AskArticle { wanted, expected, from, landing: self.landing.clone() }).await
    }

    /// Asks the server that numbers the group. Where it has another article by the number than was known,
    /// either the group was renumbered, or it lies.
    async fn by_number(
        &self,
        group: &Arc<Group>,
        number: u64,
        id: &mut Option<Vec<u8>>,
    ) -> Result<Brought, Trouble> {
        let wanted = Wanted::Number(group.name.clone(), number);
        let expected = Expected { id: id.clone(), ..self.expected() };
        let brought = self.ask(&group.pool, wanted, expected).await?;
        match &brought {
            Brought::Other(other) if row_says(group, number, other).await? => {
                group.begin_anew();
                *id = None;
                return Err(Trouble::Away(format!("{} was renumbered", shown(&group.name))));
            }
            Brought::Other(other) => {
                let (upstream, name) = (group.pool.name(), shown(&group.name));
                let other = shown(other);
                warn!(upstream, "wrong answer: the article {other} for {number} in {name}");
                group.pool.told_wrong();
                return Err(Trouble::Wrong(format!("another article by the number {number}")));
            }
            Brought::Missing | Brought::Whole => {}
        }
        Ok(brought)
    }
}

/// Whether the overview of the server says now that a number is this article's.
async fn row_says(group: &Group, number: u64, id: &[u8]) -> Result<bool, Trouble> {
    let said = Arc::<Mutex<Vec<u8>>>::default();
    let rows = said.clone();
    let question = AskRows {
        group: group.name.clone(),
        ranges: vec![number..=number],
        is_here: group.is_here.clone(),
        take: move |_, row: &[u8]| rows.lock().extend_from_slice(row),
    };
    group.pool.ask(question).await?;
    let row = said.lock();
    Ok(overview_row::field(&row, index::MESSAGE_ID) == Some(id))
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
