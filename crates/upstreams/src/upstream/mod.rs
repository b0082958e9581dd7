//! Groups of other servers as a source of news.
//!
//! Each upstream numbers some groups (`table`) and is asked over a few connections (`pool`, `line`), with
//! questions whose answers are checked (`questions`, `rows`, `bringing`). Known data of a group is kept in
//! the cache (`group`, `shelf`), lists and articles are passed on while they arrive (`lists`, `articles`),
//! and data that several readers want at once is requested once (`flight`). If an upstream is away, a
//! reader gets a 403 for data not cached here, without delay. Sources: the NewsCache paper, sections 2 to
//! 5; RFC 3977.

mod ahead;
mod allowance;
mod articles;
mod bringing;
mod changes;
mod flight;
mod group;
mod group_lists;
mod headers;
mod kept_headers;
mod known_groups;
mod line;
mod lists;
#[cfg(feature = "testing")]
pub mod parsers;
mod passing;
mod pool;
mod posts;
mod prefetching;
mod purging;
mod questions;
mod refusing;
mod rows;
mod searching;
mod selected;
mod shelf;
mod status;
mod table;
mod together;
mod trouble;
mod xref;

use super::{
    Answer, ArticleBytes, ArticlePart, CountingBase, Fetched, ForeseenRequest, GroupList, GroupSelection,
    HeaderLines, NeighbourSide, NewsSource, SourceError, SourceLocator,
};
use ahead::SessionAhead;
use arc_swap::ArcSwap;
use articles::{ArticleRest, Flights, ReadRequest};
use disk::Disk;
use group_lists::UpstreamGroups;
use netnews::GroupMarks;
use netnews::MessageId;
use netnews::nntp::response::code;
use newscache::{Cache, RequestKind};
use passing::AskPassed;
use prefetching::Prefetcher;
use questions::AskArrived;
use refusing::RefusedHeaders;
use selected::UpstreamGroup;
use site_base::clock::unix_secs;
use site_config::{Config, PassedList};
use spool::Spool;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};
use table::{IsLocal, Upstream, UpstreamTable};
use tokio::task::block_in_place;
use tracing::{error, info, warn};

pub use posts::{
    Outbox, PostDelivery, PostResult, PostTaker, QueuePostError, QueuedPost, QueuedPostStatus, UpstreamPosts,
    is_post_whole,
};
pub use purging::RefreshedGroup;
pub use status::{CacheCounts, CacheStatus, UpstreamStatus};

/// Numbers of a huge group requested at first to find an article's neighbour, and the factor by which
/// further requests grow.
const NEIGHBOURS_AT_FIRST: u64 = 4096;
const NEIGHBOURS_MORE: u64 = 16;

/// Upstreams of a site.
#[derive(Clone)]
pub struct Upstreams {
    shared: Arc<UpstreamsState>,
    /// Client for the access log; empty if unknown.
    client: Arc<str>,
    /// Requests that this client's session has made ahead.
    ahead: SessionAhead,
}

struct UpstreamsState {
    table: Arc<ArcSwap<UpstreamTable>>,
    local: IsLocal,
    disk: Arc<dyn Disk>,
    flights: Arc<Flights>,
    delivery: PostDelivery,
    prefetcher: Prefetcher,
    refusing: ArcSwap<RefusedHeaders>,
}

/// Longest command passed on.
const COMMAND_BYTES_MAX: usize = 500;
/// Size at which the access log is renamed.
const LOG_BYTES_MAX: u64 = 64 << 20;
/// Interval for saving the order of use.
const SAVE_INTERVAL: Duration = Duration::from_secs(300);

impl fmt::Debug for Upstreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.shared.table.load();
        f.debug_list().entries(table.upstreams.iter().map(|upstream| &upstream.config.name)).finish()
    }
}

impl Upstreams {
    /// Opens the upstreams of a configuration, which do not number the groups of `spool`, and the cache if
    /// there are any. Blocks.
    ///
    /// # Errors
    /// The cache cannot be opened.
    pub fn open(config: &Config, spool: &Arc<Spool>) -> io::Result<Self> {
        let (disk, groups) = (spool.disk().clone(), spool.clone());
        let local: IsLocal = Arc::new(move |name| groups.group_id(name).is_some());
        let cache = open_cache(config, &disk)?;
        let table = Arc::new(ArcSwap::from_pointee(UpstreamTable::new(config, &local, cache, None)));
        let posts = Arc::new(UpstreamPosts::open(disk.clone(), &config.site.data));
        let flights = Arc::<Flights>::default();
        let shared = Arc::new(UpstreamsState {
            delivery: PostDelivery::new(table.clone(), posts),
            table,
            local,
            disk,
            flights: flights.clone(),
            prefetcher: Prefetcher::new(config.prefetch.clone()),
            refusing: ArcSwap::from_pointee(RefusedHeaders::new(&config.cache.refuse)),
        });
        Ok(Self { shared, client: "".into(), ahead: SessionAhead::new(flights) })
    }

    /// Applies another configuration; unchanged upstreams keep their connections. Blocks.
    pub fn apply(&self, config: &Config) {
        let old = self.shared.table.load();
        let cache = match &old.cache {
            Some(cache) => configure(cache, config).map(|()| Some(cache.clone())),
            None => open_cache(config, &self.shared.disk),
        };
        let cache = cache.unwrap_or_else(|error| {
            error!(%error, "the cache cannot be used as configured");
            old.cache.clone()
        });
        let is_as_before = old.upstreams.len() == config.upstreams.len()
            && old.upstreams.iter().zip(&config.upstreams).all(|(old, new)| old.config == *new);
        let is_as_before = is_as_before
            && old.article_bytes_max == config.site.article_bytes_max
            && old.is_whole == config.prefetch.whole_overview;
        if !is_as_before {
            self.shared.table.store(Arc::new(UpstreamTable::new(
                config,
                &self.shared.local,
                cache,
                Some(&old),
            )));
            self.shared.delivery.posts().look();
        }
        self.shared.refusing.store(Arc::new(RefusedHeaders::new(&config.cache.refuse)));
        self.shared.prefetcher.apply(config.prefetch.clone());
    }

    /// Sends waiting posts to those for which `leads` returns true, prefetches, and saves the order of use of
    /// the cache at intervals, and when `stopping` resolves.
    pub async fn run(self, leads: impl Fn(&str) -> bool, stopping: impl Future<Output = ()>) {
        let UpstreamsState { table, flights, delivery, prefetcher, refusing, .. } = &*self.shared;
        tokio::select! {
            () = stopping => {}
            () = self.keep_saved() => {}
            () = delivery.keep_posting(leads) => {}
            () = prefetcher.run(table, flights, refusing) => {}
        }
        self.save();
    }

    async fn keep_saved(&self) {
        loop {
            tokio::time::sleep(SAVE_INTERVAL).await;
            self.save();
        }
    }

    fn save(&self) {
        if let Some(cache) = &self.shared.table.load().cache
            && let Err(error) = block_in_place(|| cache.save().and_then(|()| cache.flush_log()))
        {
            warn!(%error, "the cache cannot write down what was used");
        }
    }

    /// Returns the cache, if there is one.
    pub fn cache(&self) -> Option<Cache> {
        self.shared.table.load().cache.clone()
    }

    /// Returns counts of requests and cache hits; `None` if there is no cache.
    pub fn cache_status(&self) -> Option<CacheStatus> {
        self.shared.table.load().cache.as_ref().map(|cache| CacheStatus::of(&cache.stats()))
    }

    /// Returns the status of each, in the order of the configuration.
    pub fn status(&self) -> Vec<UpstreamStatus> {
        let table = self.shared.table.load();
        let status = |upstream: &Arc<Upstream>| {
            UpstreamStatus::of(upstream, self.shared.delivery.posts().counts(&upstream.config.name))
        };
        table.upstreams.iter().map(status).collect()
    }

    /// Returns whether an upstream that numbers groups is away, so that lists may lack its groups.
    pub fn may_lack_groups(&self) -> bool {
        let numbers = |upstream: &&Arc<Upstream>| !upstream.config.fill && !upstream.config.is_unread();
        let table = self.shared.table.load();
        table.upstreams.iter().filter(numbers).any(|upstream| upstream.pool.problem().is_some())
    }

    /// Returns the delivery of posts to upstreams.
    pub fn delivery(&self) -> &PostDelivery {
        &self.shared.delivery
    }

    /// Returns whether there are no upstreams.
    pub fn is_empty(&self) -> bool {
        self.shared.table.load().upstreams.is_empty()
    }
}

/// Opens the cache of a configuration; returns `None` if there is no upstream.
fn open_cache(config: &Config, disk: &Arc<dyn Disk>) -> io::Result<Option<Cache>> {
    if config.upstreams.is_empty() {
        return Ok(None);
    }
    let path = &config.cache.path;
    let opened = Cache::open(disk.clone(), path, config.cache.settings(), unix_secs());
    let (cache, opened) = opened.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot open the cache in {}: {error}", path.display()))
    })?;
    info!(groups = opened.groups, files = opened.files, bytes = opened.bytes, "cache opened");
    if !opened.removed.is_empty() {
        warn!(files = opened.removed.len(), "damaged or unfinished files of the cache were removed");
    }
    cache.keep_overview_headers(&config.site.overview_headers);
    cache.log_to(config.cache.log.as_deref(), LOG_BYTES_MAX)?;
    Ok(Some(cache))
}

fn configure(cache: &Cache, config: &Config) -> io::Result<()> {
    cache.set(config.cache.settings())?;
    cache.keep_overview_headers(&config.site.overview_headers);
    cache.log_to(config.cache.log.as_deref(), LOG_BYTES_MAX)
}

impl Upstreams {
    /// Returns whether there is an article that is not refused because of its head. It was not requested
    /// for reading, so it is not remembered if it is not available now.
    async fn is_shown(&self, place: SourceLocator<'_, UpstreamGroup>) -> Answer<bool> {
        let mut head = ArticleBytes::default();
        let found = Box::pin(self.fetched(place, ArticlePart::Head, false, &mut head)).await?;
        Ok(!matches!(found, Fetched::Missing))
    }

    /// Reads an article; `is_for_later`: remembers it if it is not available now.
    async fn fetched(
        &self,
        place: SourceLocator<'_, UpstreamGroup>,
        part: ArticlePart,
        is_for_later: bool,
        into: &mut ArticleBytes,
    ) -> Answer<Fetched<ArticleRest>> {
        let client = &*self.client;
        let request = |place, ahead| ReadRequest { place, part, is_for_later, client, ahead };
        let request = match place {
            SourceLocator::MessageId(id) => {
                let place = articles::UpstreamLocator::Id(id.as_bytes().into());
                let ahead = self.ahead.take_article(&place, part);
                request(place, ahead)
            }
            SourceLocator::Number(selected, number) => {
                let group = selected.current()?;
                let place = articles::UpstreamLocator::Number(group.clone(), number);
                if let Some(ahead) = self.ahead.take_article(&place, part) {
                    return self.brought(request(place, Some(ahead)), into).await;
                }
                let Some((range, marks)) = group.within(number..=number).await? else {
                    return Ok(Fetched::Missing);
                };
                if !group.is_compared(marks) && group.is_gone(number, &range, marks).await? {
                    return Ok(Fetched::Missing);
                }
                request(place, None)
            }
        };
        self.brought(request, into).await
    }

    /// Reads an article that is not known to be missing, unless it is refused because of its head.
    async fn brought(
        &self,
        request: ReadRequest<'_>,
        into: &mut ArticleBytes,
    ) -> Answer<Fetched<ArticleRest>> {
        let fetched =
            articles::article(&self.shared.table.load_full(), &self.shared.flights, request, into).await?;
        if !matches!(fetched, Fetched::Missing) && self.shared.refusing.load().refuses(into.head()) {
            return Ok(Fetched::Missing);
        }
        Ok(fetched)
    }
}

impl NewsSource for Upstreams {
    type Group = UpstreamGroup;
    type Groups = UpstreamGroups;
    type Rest = ArticleRest;

    fn of_client(self, client: &str) -> Self {
        if self.is_empty() {
            self
        } else {
            Self { client: client.into(), ahead: self.ahead.of_session(), ..self }
        }
    }

    async fn group(&self, name: &[u8], base: CountingBase) -> Answer<Option<(UpstreamGroup, GroupMarks)>> {
        let table = self.shared.table.load_full();
        let Some(upstream) = table.numbering(name) else { return Ok(None) };
        let asked = upstream.pool.questions();
        let ahead = self.ahead.take_marks(upstream, name).await;
        let begun = ahead.map_or_else(Instant::now, |(_, at)| at);
        let group = match ahead {
            Some((said, at)) => upstream.group_with(name, said, at),
            None => upstream.group(name).await?,
        };
        let Some(group) = group else { return Ok(None) };
        let marks = group.marks_above(base, begun).await?;
        let is_hit = ahead.is_none() && upstream.pool.questions() == asked;
        upstream.record(&self.client, RequestKind::Group, &group.name, is_hit);
        Ok(marks.map(|marks| (UpstreamGroup::of(group), marks)))
    }

    async fn groups(
        &self,
        list: GroupList,
        which: GroupSelection<'_, UpstreamGroup>,
        base: CountingBase,
    ) -> Answer<UpstreamGroups> {
        UpstreamGroups::list(&self.shared.table.load_full(), &self.client, list, which, base).await
    }

    async fn article(
        &self,
        place: SourceLocator<'_, UpstreamGroup>,
        part: ArticlePart,
        into: &mut ArticleBytes,
    ) -> Answer<Fetched<ArticleRest>> {
        let is_for_later = self.shared.prefetcher.fetches_later();
        self.fetched(place, part, is_for_later, into).await
    }

    fn looks_ahead(&self) -> bool {
        !self.is_empty()
    }

    async fn look_ahead(&self, foreseen: &[ForeseenRequest<'_, UpstreamGroup>]) {
        let needs_heads = !self.shared.refusing.load().is_nothing();
        self.ahead.ask(&self.shared.table.load_full(), foreseen, needs_heads).await;
    }

    fn article_at_hand(
        &self,
        place: SourceLocator<'_, UpstreamGroup>,
        part: ArticlePart,
        into: &mut ArticleBytes,
    ) -> Option<Fetched<ArticleRest>> {
        if !self.ahead.is_empty() {
            // The article may be among those requested ahead.
            return None;
        }
        let at = match place {
            SourceLocator::MessageId(id) => articles::UpstreamLocatorRef::Id(id.as_bytes()),
            SourceLocator::Number(selected, number) => {
                let group = selected.current().ok()?;
                articles::UpstreamLocatorRef::Number(group.is_at_hand(number).then_some(&**group)?, number)
            }
        };
        let fetched = articles::at_hand(&self.shared.table.load(), at, &self.client, part, into)?;
        let is_refused = self.shared.refusing.load().refuses(into.head());
        Some(if is_refused { Fetched::Missing } else { fetched })
    }

    async fn has(&self, id: MessageId<'_>) -> Answer<bool> {
        if self.shared.refusing.load().is_nothing() {
            let ahead = self.ahead.take_existence(id.as_bytes());
            return articles::has(&self.shared.table.load_full(), id, ahead).await;
        }
        self.is_shown(SourceLocator::MessageId(id)).await
    }

    async fn shows(&self, group: &UpstreamGroup, number: u64) -> Answer<bool> {
        if !self.shared.refusing.load().needs_heads() {
            return Ok(true);
        }
        match self.is_shown(SourceLocator::Number(group, number)).await {
            // The last known state.
            Err(SourceError::Unavailable(_)) => Ok(true),
            is_shown => is_shown,
        }
    }

    async fn numbers(
        &self,
        group: &UpstreamGroup,
        range: RangeInclusive<u64>,
        max: usize,
        into: &mut Vec<u64>,
    ) -> Answer<()> {
        let group = group.current()?;
        let Some((range, marks)) = group.within(range).await? else { return Ok(()) };
        let known = group.know_numbers(&range, marks).await;
        // All of the range or nothing, as its end cannot be had later.
        if known.is_err() && group.shelf.count(range.clone()).is_none() {
            return known;
        }
        if !group.shelf.numbers(range.clone(), max, into) {
            known?;
            group.shelf.all_kept(range)?;
        }
        Ok(())
    }

    async fn neighbour(
        &self,
        group: &UpstreamGroup,
        number: u64,
        side: NeighbourSide,
    ) -> Answer<Option<u64>> {
        let group = group.current()?;
        // Numbers outside the marks need not be looked at.
        let Some((all, _)) = group.within(0..=u64::MAX).await? else { return Ok(None) };
        let mut from = match side {
            NeighbourSide::Next => number.max(all.start().saturating_sub(1)),
            NeighbourSide::Previous => number.min(all.end().saturating_add(1)),
        };
        let mut len = NEIGHBOURS_AT_FIRST;
        loop {
            let range = match side {
                NeighbourSide::Next => from.saturating_add(1)..=from.saturating_add(len),
                NeighbourSide::Previous => from.saturating_sub(len)..=from.saturating_sub(1),
            };
            len = len.saturating_mul(NEIGHBOURS_MORE);
            let far = if side == NeighbourSide::Next { *range.end() } else { *range.start() };
            let Some((range, marks)) = group.within(range).await? else { return Ok(None) };
            let known = group.know_numbers(&range, marks).await;
            if let Some(found) = group.shelf.neighbour(range.clone(), side) {
                return Ok(Some(found));
            }
            known?;
            group.shelf.all_kept(range)?;
            from = far;
        }
    }

    async fn over(
        &self,
        group: &UpstreamGroup,
        range: RangeInclusive<u64>,
        limit_bytes: usize,
        into: &mut Vec<u8>,
    ) -> Answer<Option<u64>> {
        let (group, start, first) = (group.current()?, into.len(), *range.start());
        let asked = group.pool.questions();
        let next = group.rows(range, limit_bytes, into).await?;
        self.shared.refusing.load().leave_out(into, start);
        let is_hit = group.pool.questions() == asked;
        let bytes = (into.len() - start) as u64;
        let bytes = if is_hit { (bytes, 0) } else { (0, bytes) };
        group.shelf.record(&newscache::CacheAccess {
            at: unix_secs(),
            client: &self.client,
            kind: RequestKind::Overview,
            upstream: group.pool.name(),
            group: &group.name,
            number: first,
            id: b"",
            cache_bytes: bytes.0,
            upstream_bytes: bytes.1,
            is_hit,
        });
        Ok(next)
    }

    async fn header(
        &self,
        group: &UpstreamGroup,
        range: RangeInclusive<u64>,
        name: &[u8],
    ) -> Answer<Option<HeaderLines>> {
        let group = group.current()?;
        if !self.shared.refusing.load().is_nothing() {
            return Ok(None);
        }
        group.header(range, name).await
    }

    async fn pass_on(&self, command: &[u8], selected: Option<&UpstreamGroup>) -> Answer<Option<Vec<u8>>> {
        let table = self.shared.table.load_full();
        let is_plain = command.len() <= COMMAND_BYTES_MAX && !command.iter().any(|b| b.is_ascii_control());
        let Some((upstream, passed)) = table.passing(command).filter(|_| is_plain) else { return Ok(None) };
        let of_it = selected.filter(|selected| Arc::ptr_eq(&selected.group.pool, &upstream.pool));
        let group = match of_it {
            Some(selected) => Some(selected.current()?.name.clone()),
            None => None,
        };
        let question = AskPassed { group, command: command.into(), block_code: passed.block_code };
        Ok(Some(upstream.pool.ask_apart(question).await?))
    }

    async fn list_text(&self, list: PassedList) -> Answer<Option<Vec<u8>>> {
        let table = self.shared.table.load_full();
        let passing = table.upstreams.iter().filter(|of| of.config.pass_lists.contains(&list));
        for upstream in passing {
            let command = format!("LIST {}", list.keyword()).into_bytes().into();
            let question = AskPassed { group: None, command, block_code: Some(code::LIST_FOLLOWS) };
            let answer = upstream.pool.ask_apart(question).await?;
            let follows = answer.strip_prefix(b"215 ").and_then(|rest| rest.strip_suffix(b".\r\n"));
            if let Some((_, lines)) =
                follows.and_then(|rest| rest.split_at_checked(memchr::memchr(b'\n', rest)? + 1))
            {
                return Ok(Some(lines.to_vec()));
            }
        }
        Ok(None)
    }

    fn passes_list(&self, list: PassedList) -> bool {
        self.shared.table.load().upstreams.iter().any(|of| of.config.pass_lists.contains(&list))
    }

    async fn arrived_since(&self, name: &[u8], since: u64, into: &mut Vec<u8>) -> Answer<()> {
        let table = self.shared.table.load_full();
        let Some(upstream) = table.numbering(name) else { return Ok(()) };
        into.extend(upstream.pool.ask_apart(AskArrived { group: name.into(), since }).await?);
        Ok(())
    }
}
