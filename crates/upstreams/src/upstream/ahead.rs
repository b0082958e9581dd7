//! Look-ahead: requests a client has sent after the current command are sent upstream together with it.
//!
//! A session answers one command after the other. Later requests in its input are fetched in the meantime:
//! articles as flights, which the requests then follow, marks and existence as promised answers. Questions
//! to the same upstream are sent together (`together`). Fetched articles are held for the session until
//! their turn comes, so that each is fetched once whether the cache keeps it or not; the amount held is
//! limited for each session and for all of them. Called by `upstream`.

use super::articles::{self, ArticleFlight, Flights, UpstreamLocator, on_its_way};
use super::bringing::AskArticle;
use super::group::NumberedGroup;
use super::pool::ConnectionPool;
use super::questions::{AskExists, AskMarks, IdStatus, MarksAnswer};
use super::searching::first_asked;
use super::selected::UpstreamGroup;
use super::table::{Upstream, UpstreamTable};
use super::together::{EarlyQuestion, Pipelined, ask_together, tickets};
use crate::{ArticlePart, ForeseenRequest, NeighbourSide};
use hashbrown::{HashMap, HashSet};
use site_base::lock::Leaf;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of articles that one session may fetch ahead, estimated by the usual size.
const SESSION_BYTES_MAX: u64 = 16 << 20;
/// Bytes of articles that all sessions together may fetch ahead.
const ALL_BYTES_MAX: u64 = 128 << 20;
/// Bytes represented by one permit.
const PERMIT_BYTES: u64 = 64 << 10;
/// Among so many times their count of numbers neighbours are looked for.
const SPARSE_MAX: u64 = 8;
/// Assumed size of an article before any has arrived.
const USUAL_BYTES: u64 = 64 << 10;

/// An article requested ahead.
struct AheadArticle {
    flight: ArticleFlight,
    _permit: OwnedSemaphorePermit,
}

/// Requests made ahead for one session.
#[derive(Default)]
struct AheadRequests {
    articles: HashMap<Box<[u8]>, AheadArticle>,
    existence: HashMap<Box<[u8]>, EarlyQuestion<IdStatus>>,
    marks: HashMap<Box<[u8]>, EarlyQuestion<MarksAnswer>>,
}

/// Look-ahead of one session.
#[derive(Clone)]
pub(super) struct SessionAhead {
    requests: Arc<Leaf<AheadRequests>>,
    limit: Arc<AheadLimit>,
    flights: Arc<Flights>,
}

/// Limit on articles requested ahead by all sessions.
struct AheadLimit {
    permits: Arc<Semaphore>,
    usual_bytes: AtomicU64,
}

impl Default for AheadLimit {
    fn default() -> Self {
        let permits = Arc::new(Semaphore::new((ALL_BYTES_MAX / PERMIT_BYTES) as usize));
        Self { permits, usual_bytes: AtomicU64::new(USUAL_BYTES) }
    }
}

impl AheadLimit {
    /// Updates the usual size with that of an article.
    fn learn(&self, bytes: u64) {
        let usual = self.usual_bytes.load(Ordering::Relaxed);
        self.usual_bytes.store((usual * 7 + bytes) / 8, Ordering::Relaxed);
    }

    fn permit(&self) -> Option<OwnedSemaphorePermit> {
        let permits = self.usual_bytes.load(Ordering::Relaxed).div_ceil(PERMIT_BYTES).max(1);
        let permits = u32::try_from(permits).ok()?;
        self.permits.clone().try_acquire_many_owned(permits).ok()
    }
}

impl AheadRequests {
    /// Returns whether nothing was requested ahead.
    fn is_empty(&self) -> bool {
        self.articles.is_empty() && self.existence.is_empty() && self.marks.is_empty()
    }

    /// Returns whether an article was requested.
    fn has_article(&self, key: &[u8]) -> bool {
        self.articles.contains_key(key)
    }

    /// Returns the flights of articles not taken yet.
    fn flights(&self) -> Vec<ArticleFlight> {
        self.articles.values().map(|held| held.flight.clone()).collect()
    }
}

/// Requests that follow from a list of foreseen commands.
#[derive(Default)]
struct AheadPlan {
    articles: Vec<(UpstreamLocator, ArticlePart)>,
    existence: Vec<Box<[u8]>>,
    groups: Vec<Box<[u8]>>,
}

impl SessionAhead {
    /// Begins the look-ahead of a first session, which shares its limit with those derived from it.
    pub fn new(flights: Arc<Flights>) -> Self {
        Self { requests: Arc::default(), limit: Arc::default(), flights }
    }

    /// Returns the look-ahead of another session.
    pub fn of_session(&self) -> Self {
        Self { requests: Arc::default(), ..self.clone() }
    }

    /// Returns whether nothing was requested ahead.
    pub fn is_empty(&self) -> bool {
        self.requests.lock().is_empty()
    }

    /// Takes an article that was requested ahead.
    pub fn take_article(&self, place: &UpstreamLocator, part: ArticlePart) -> Option<ArticleFlight> {
        let mut ahead = self.requests.lock();
        if ahead.articles.is_empty() {
            return None;
        }
        let flight = ahead.articles.remove(&place.key(part))?.flight;
        drop(ahead);
        let bytes = flight.look(|cargo| cargo.end.is_some().then_some(cargo.bytes.len() as u64));
        bytes.into_iter().for_each(|bytes| self.limit.learn(bytes));
        Some(flight)
    }

    /// Takes the question whether there is an article, if it was asked ahead.
    pub fn take_existence(&self, id: &[u8]) -> Option<EarlyQuestion<IdStatus>> {
        self.requests.lock().existence.remove(id)
    }

    /// Takes the marks of a group that were requested ahead, and the time of the request.
    pub async fn take_marks(&self, upstream: &Upstream, name: &[u8]) -> Option<(MarksAnswer, Instant)> {
        let asked = self.requests.lock().marks.remove(name)?;
        if !Arc::ptr_eq(&asked.pool, &upstream.pool) {
            return None;
        }
        Some((asked.answer.await.ok()?.ok()?, asked.at))
    }

    /// Requests what is foreseen and not here; earlier requests that are no longer foreseen are dropped.
    /// `needs_heads`: whether an article exists for readers depends on its head.
    pub async fn ask(
        &self,
        table: &Arc<UpstreamTable>,
        foreseen: &[ForeseenRequest<'_, UpstreamGroup>],
        needs_heads: bool,
    ) {
        let plan = AheadPlan::of(foreseen, needs_heads).await;
        self.forget_all_but(&plan);
        self.ask_for_articles(table, plan.articles);
        self.ask_for_existence(table, plan.existence);
        self.ask_for_marks(table, plan.groups);
    }

    fn forget_all_but(&self, plan: &AheadPlan) {
        let mut ahead = self.requests.lock();
        if ahead.is_empty() {
            return;
        }
        let keys: HashSet<_> = plan.articles.iter().map(|(place, part)| place.key(*part)).collect();
        ahead.articles.retain(|key, _| keys.contains(key));
        ahead.existence.retain(|id, _| plan.existence.contains(id));
        ahead.marks.retain(|name, _| plan.groups.contains(name));
    }

    fn ask_for_articles(&self, table: &Arc<UpstreamTable>, articles: Vec<(UpstreamLocator, ArticlePart)>) {
        let mut missing = Vec::new();
        {
            let usual = self.limit.usual_bytes.load(Ordering::Relaxed).max(1);
            let flights = self.requests.lock().flights();
            let held = flights.iter().map(|flight| flight.look(|cargo| cargo.bytes.len() as u64));
            let mut bytes: u64 = held.sum();
            let ahead = self.requests.lock();
            for (place, part) in articles {
                if ahead.has_article(&place.key(part)) {
                    continue;
                }
                bytes += usual;
                if bytes > SESSION_BYTES_MAX {
                    break;
                }
                missing.push((place, part));
            }
        }
        missing.retain(|(place, part)| !place.is_here(table, *part));
        let mut by_pool: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for (place, part) in missing {
            let Some(permit) = self.limit.permit() else { break };
            let Some(pool) = first_asked(table, &place) else { break };
            let of_pool = by_pool.entry(Arc::as_ptr(&pool) as usize).or_default();
            of_pool.push((place, part, permit, pool));
        }
        for of_pool in by_pool.into_values() {
            self.ask_together_for(table, of_pool);
        }
    }

    /// Requests articles from one upstream.
    fn ask_together_for(
        &self,
        table: &Arc<UpstreamTable>,
        articles: Vec<(UpstreamLocator, ArticlePart, OwnedSemaphorePermit, Arc<ConnectionPool>)>,
    ) {
        let Some((.., pool)) = articles.first() else { return };
        let patience = (table.upstreams.len() > 1).then(|| pool.patience());
        let tickets = tickets::<AskArticle>(pool, patience, articles.len());
        for ((place, part, permit, _), ticket) in articles.into_iter().zip(tickets) {
            let flight = on_its_way(table, &self.flights, &place, part, Some(ticket));
            let held = AheadArticle { flight, _permit: permit };
            self.requests.lock().articles.insert(place.key(part), held);
        }
    }

    fn ask_for_existence(&self, table: &UpstreamTable, ids: Vec<Box<[u8]>>) {
        let is_asked = |id: &[u8]| self.requests.lock().existence.contains_key(id);
        let missing = ids.into_iter().filter(|id| !is_asked(id) && !articles::is_known(table, id));
        let asked = missing.filter_map(|id| {
            let pool = first_asked(table, &UpstreamLocator::Id(id.clone()))?;
            Some((pool, id.clone(), AskExists(id)))
        });
        ask(asked.collect(), |id, asked| _ = self.requests.lock().existence.insert(id, asked));
    }

    fn ask_for_marks(&self, table: &UpstreamTable, names: Vec<Box<[u8]>>) {
        let is_asked = |name: &[u8]| self.requests.lock().marks.contains_key(name);
        let missing = names.into_iter().filter(|name| !is_asked(name));
        let asked = missing.filter_map(|name| {
            let upstream = table.numbering(&name).filter(|upstream| upstream.must_ask_for_marks(&name))?;
            let question: AskMarks = upstream.question(&name);
            Some((upstream.pool.clone(), name, question))
        });
        ask(asked.collect(), |name, asked| _ = self.requests.lock().marks.insert(name, asked));
    }
}

impl AheadPlan {
    async fn of(foreseen: &[ForeseenRequest<'_, UpstreamGroup>], needs_heads: bool) -> Self {
        let mut plan = AheadPlan::default();
        let mut numbers: Vec<(&UpstreamGroup, u64, ArticlePart)> = Vec::new();
        let mut rows: Vec<(&UpstreamGroup, RangeInclusive<u64>)> = Vec::new();
        for one in foreseen {
            match *one {
                ForeseenRequest::Group(name) => plan.groups.push(name.into()),
                ForeseenRequest::Existence(id) if needs_heads => {
                    plan.articles.push((UpstreamLocator::Id(id.as_bytes().into()), ArticlePart::Head));
                }
                ForeseenRequest::Existence(id) => plan.existence.push(id.as_bytes().into()),
                ForeseenRequest::Article(crate::SourceLocator::MessageId(id), part) => {
                    plan.articles.push((UpstreamLocator::Id(id.as_bytes().into()), part));
                }
                ForeseenRequest::Article(crate::SourceLocator::Number(group, number), part) => {
                    numbers.push((group, number, part));
                }
                ForeseenRequest::Rows(group, ref range) => rows.push((group, range.clone())),
                ForeseenRequest::Neighbours(selected, from, side, count) => {
                    let Ok(group) = selected.current() else { continue };
                    rows.extend(neighbours(group, from, side, count).await.map(|range| (selected, range)));
                }
            }
        }
        if let Some((selected, _)) = rows.first()
            && let Ok(group) = selected.current()
        {
            fetch_rows(group, rows.into_iter().map(|(_, range)| range).collect()).await;
        }
        // All of them are in the selected group.
        if let Some((selected, ..)) = numbers.first()
            && let Ok(group) = selected.current()
        {
            let all = numbers.iter().map(|(_, number, part)| (*number, *part));
            plan.articles.extend(there(group, all.collect()).await);
        }
        plan
    }
}

/// Asks several questions of one kind, those to the same upstream together; each has a name.
fn ask<Q: Pipelined + 'static>(
    questions: Vec<(Arc<ConnectionPool>, Box<[u8]>, Q)>,
    mut take: impl FnMut(Box<[u8]>, EarlyQuestion<Q::Answer>),
) {
    let mut rest = questions;
    while let Some(pool) = rest.first().map(|(pool, ..)| pool.clone()) {
        let (these, others) = rest.into_iter().partition::<Vec<_>, _>(|(of, ..)| Arc::ptr_eq(of, &pool));
        rest = others;
        let at = Instant::now();
        let named = these.into_iter().map(|(_, name, question)| (name, question));
        let (names, questions) = named.unzip::<_, _, Vec<_>, Vec<_>>();
        for (name, answer) in names.into_iter().zip(ask_together(&pool, questions)) {
            take(name, EarlyQuestion { pool: pool.clone(), at, answer });
        }
    }
}

/// Returns those numbers of a group that have articles, as far as is known.
async fn there(
    group: &Arc<NumberedGroup>,
    numbers: Vec<(u64, ArticlePart)>,
) -> Vec<(UpstreamLocator, ArticlePart)> {
    let (Some(first), Some(last)) =
        (numbers.iter().map(|(n, _)| *n).min(), numbers.iter().map(|(n, _)| *n).max())
    else {
        return Vec::new();
    };
    let Ok(Some((range, marks))) = group.within(first..=last).await else { return Vec::new() };
    if !group.is_compared(marks) && group.shelf.count(range.clone()).is_some() {
        let _as_known = group.know_numbers(&range, marks).await;
    }
    let is_there = |(number, _): &(u64, ArticlePart)| {
        range.contains(number) && group.shelf.exists(*number) != Some(false)
    };
    let there = numbers.into_iter().filter(is_there);
    there.map(|(number, part)| (UpstreamLocator::Number(group.clone(), number), part)).collect()
}

/// Has the rows of some ranges fetched, as far as the group has such numbers.
async fn fetch_rows(group: &Arc<NumberedGroup>, ranges: Vec<RangeInclusive<u64>>) {
    let Ok(Some((all, _))) = group.within(0..=u64::MAX).await else { return };
    let within = |range: RangeInclusive<u64>| *range.start().max(all.start())..=*range.end().min(all.end());
    group.fetch_ahead(ranges.into_iter().map(within).filter(|range| !range.is_empty()).collect());
}

/// The range in which so many neighbours of a number are; `None`: it is not known.
async fn neighbours(
    group: &Arc<NumberedGroup>,
    from: u64,
    side: NeighbourSide,
    count: usize,
) -> Option<RangeInclusive<u64>> {
    let reach = (count as u64).saturating_mul(SPARSE_MAX);
    let range = match side {
        NeighbourSide::Next => from.checked_add(1)?..=from.saturating_add(reach),
        NeighbourSide::Previous => from.saturating_sub(reach)..=from.checked_sub(1)?,
    };
    let (range, marks) = group.within(range).await.ok()??;
    group.know_numbers(&range, marks).await.ok()?;
    let mut far = from;
    for _ in 0..count {
        let rest = match side {
            NeighbourSide::Next => far.max(*range.start() - 1) + 1..=*range.end(),
            NeighbourSide::Previous => *range.start()..=far.min(range.end() + 1).checked_sub(1)?,
        };
        match group.shelf.neighbour(rest, side) {
            Some(found) => far = found,
            None => break,
        }
    }
    match side {
        NeighbourSide::Next => (far > from).then(|| *range.start()..=far),
        NeighbourSide::Previous => (far < from).then(|| far..=*range.end()),
    }
}
