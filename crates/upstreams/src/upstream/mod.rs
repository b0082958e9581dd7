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
mod questions;
mod refusing;
mod rows;
mod searching;
mod shelf;
mod status;
mod table;
mod together;
mod trouble;
mod xref;

use super::beside::GroupSplit;
use super::listed::OwnedGroupInfo;
use super::{
    Answer, ArticleBytes, ArticlePart, CountingBase, Fetched, ForeseenRequest, GroupInfo, GroupList,
    GroupSelection, GroupStream, HeaderLines, NeighbourSide, NewsSource, SourceError, SourceLocator, Wanted,
};
use ahead::{AheadLimit, SharedAhead};
use arc_swap::ArcSwap;
use articles::{ArticleRest, Flights, ReadRequest};
use disk::Disk;
use group::NumberedGroup;
use lists::{CachedListKind, ListLines};
use netnews::GroupMarks;
use netnews::MessageId;
use netnews::date::format_nntp;
use netnews::nntp::response::code;
use newscache::{Cache, RequestKind};
use passing::AskPassed;
use questions::AskArrived;
use refusing::RefusedHeaders;
use site_base::clock::unix_secs;
use site_config as config;
use site_config::{Config, PassedList};
use spool::Spool;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};
use table::{IsLocal, NumberingRules, Upstream, UpstreamTable};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, block_in_place};
use tracing::{error, info, warn};
use trouble::UpstreamError;

pub use posts::{
    Outbox, PostResult, PostTaker, QueuePostError, QueuedPost, QueuedPostStatus, UpstreamPosts, is_post_whole,
};
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
    ahead: SharedAhead,
}

struct UpstreamsState {
    table: ArcSwap<UpstreamTable>,
    local: IsLocal,
    disk: Arc<dyn Disk>,
    flights: Arc<Flights>,
    ahead_limit: AheadLimit,
    posts: Arc<UpstreamPosts>,
    prefetch: ArcSwap<config::Prefetch>,
    refusing: ArcSwap<RefusedHeaders>,
    /// Notified when the configuration changes.
    reconfigured: Notify,
}

/// Longest command passed on.
const COMMAND_BYTES_MAX: usize = 500;
/// Size at which the access log is renamed.
const LOG_BYTES_MAX: u64 = 64 << 20;
/// Interval for saving the order of use.
const SAVE_INTERVAL: Duration = Duration::from_secs(300);

/// A group of an upstream, valid until it is renumbered.
#[derive(Clone)]
pub struct UpstreamGroup {
    group: Arc<NumberedGroup>,
    made: u64,
}

impl PartialEq for UpstreamGroup {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.group, &other.group) && self.made == other.made
    }
}

impl fmt::Debug for UpstreamGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", String::from_utf8_lossy(&self.group.name), self.group.pool.name())
    }
}

impl fmt::Debug for Upstreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.shared.table.load();
        f.debug_list().entries(table.upstreams.iter().map(|upstream| &upstream.config.name)).finish()
    }
}

impl UpstreamGroup {
    fn of(group: Arc<NumberedGroup>) -> Self {
        Self { made: group.renumberings.count(), group }
    }

    /// Returns the group, unless it was renumbered.
    fn current(&self) -> Answer<&Arc<NumberedGroup>> {
        if self.made == self.group.renumberings.count() { Ok(&self.group) } else { Err(self.group.stale()) }
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
        let table = ArcSwap::from_pointee(UpstreamTable::new(config, &local, cache, None));
        let posts = Arc::new(UpstreamPosts::open(disk.clone(), &config.site.data));
        let shared = Arc::new(UpstreamsState {
            table,
            local,
            disk,
            flights: Arc::default(),
            ahead_limit: AheadLimit::default(),
            posts,
            prefetch: ArcSwap::from_pointee(config.prefetch.clone()),
            refusing: ArcSwap::from_pointee(RefusedHeaders::new(&config.cache.refuse)),
            reconfigured: Notify::new(),
        });
        Ok(Self { shared, client: "".into(), ahead: SharedAhead::default() })
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
            self.shared.posts.look();
        }
        self.shared.refusing.store(Arc::new(RefusedHeaders::new(&config.cache.refuse)));
        self.shared.prefetch.store(Arc::new(config.prefetch.clone()));
        self.shared.reconfigured.notify_one();
    }

    /// Returns the names of all groups, as far as they can be listed now.
    async fn names(&self) -> Answer<Vec<Vec<u8>>> {
        let mut groups = self.groups(GroupList::Names, GroupSelection::All, |_| 0).await?;
        let mut names = Vec::new();
        while let Some(group) = groups.next(&|_| true).await? {
            names.push(group.name.to_vec());
        }
        Ok(names)
    }

    /// Sends waiting posts, prefetches, and saves the order of use of the cache at intervals, and when
    /// `stopping` resolves.
    pub async fn run(self, stopping: impl Future<Output = ()>) {
        tokio::select! {
            () = stopping => {}
            () = self.keep_saved() => {}
            () = self.keep_posting() => {}
            () = self.keep_prefetching() => {}
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
            UpstreamStatus::of(upstream, self.shared.posts.counts(&upstream.config.name))
        };
        table.upstreams.iter().map(status).collect()
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

/// The local spool's groups, and those of upstreams beside them.
#[derive(Debug, Clone)]
pub struct LocalFirst {
    /// The spool.
    pub spool: Arc<Spool>,
    /// The upstreams.
    pub upstreams: Upstreams,
}

impl GroupSplit for LocalFirst {
    fn in_first(&self, name: &[u8]) -> bool {
        self.only_first() || self.spool.group_id(name).is_some()
    }

    fn only_first(&self) -> bool {
        self.upstreams.is_empty()
    }
}

/// Groups of upstreams, in the order of their names if the upstreams list them in order.
pub struct UpstreamGroups {
    list: GroupList,
    base: CountingBase,
    routes: Arc<NumberingRules>,
    parts: Vec<ListPart>,
    last: OwnedGroupInfo,
}

/// The list of one upstream, and its next group.
struct ListPart {
    /// Index of the upstream.
    at: usize,
    lines: ListLines,
    next: Option<OwnedGroupInfo>,
    is_over: bool,
}

impl ListPart {
    /// Advances to the next wanted group.
    async fn advance(
        &mut self,
        list: GroupList,
        base: CountingBase,
        routes: &NumberingRules,
        wanted: Wanted<'_>,
    ) -> Answer<()> {
        while self.next.is_none() && !self.is_over {
            match self.lines.next().await? {
                None => self.is_over = true,
                Some(line) => {
                    let found = lists::info(list, line, base).filter(|group| wanted(group.name));
                    let own = found.filter(|group| routes.numbering(group.name) == Some(self.at));
                    self.next = own.map(|group| OwnedGroupInfo::of(&group));
                }
            }
        }
        Ok(())
    }
}

impl GroupStream for UpstreamGroups {
    async fn next<'s>(&'s mut self, wanted: Wanted<'_>) -> Answer<Option<GroupInfo<'s>>> {
        for part in &mut self.parts {
            part.advance(self.list, self.base, &self.routes, wanted).await?;
        }
        let names = self.parts.iter().enumerate();
        let first = names.filter_map(|(at, part)| Some((&part.next.as_ref()?.name, at))).min();
        let part = first.map(|(_, at)| at).and_then(|at| self.parts.get_mut(at));
        let Some(next) = part.and_then(|part| part.next.take()) else { return Ok(None) };
        self.last = next;
        Ok(Some(self.last.info()))
    }
}

/// Returns the list of an upstream from which groups are listed.
async fn lines_of(upstream: &Upstream, list: GroupList) -> Result<ListLines, UpstreamError> {
    let (pool, age_max) = (&upstream.pool, upstream.config.active_age);
    let kept = async |kind| upstream.lists.list(kind, pool, &upstream.cache, age_max).await;
    let found = match list {
        GroupList::Active | GroupList::Names | GroupList::Changed { .. } => {
            kept(CachedListKind::Active).await
        }
        GroupList::Times => kept(CachedListKind::Times).await,
        GroupList::Descriptions => kept(CachedListKind::Descriptions).await,
        GroupList::Counts => match kept(CachedListKind::Counts).await {
            Err(UpstreamError::Refused(..) | UpstreamError::Away(_)) => match kept(CachedListKind::Active)
                .await
            {
                // For readers of counts a partial list will do; LIST ACTIVE is copied by other servers.
                Err(UpstreamError::Away(_)) => Ok(lists::of_known(&upstream.cache, &upstream.config.name)),
                active => active,
            },
            counts => counts,
        },
        GroupList::New { since } => {
            let digits = format_nntp(i64::try_from(since).unwrap_or_default());
            let (day, time) = digits.as_ref().split_at_checked(8).unwrap_or_default();
            lists::fetch(pool, [b"NEWGROUPS ", day, b" ", time, b" GMT"].concat()).await
        }
    };
    found.map(ListLines::of)
}

/// Fetches the list in a task of its own, counted as a request of this client.
fn ask_list(
    upstream: Arc<Upstream>,
    list: GroupList,
    client: &Arc<str>,
) -> JoinHandle<Result<ListLines, UpstreamError>> {
    let client = client.clone();
    tokio::spawn(async move {
        let asked = upstream.pool.questions();
        let lines = lines_of(&upstream, list).await?;
        let is_hit = upstream.pool.questions() == asked;
        upstream.record(&client, RequestKind::Active, b"", is_hit);
        Ok(lines)
    })
}

/// Returns the line of one group in a list.
async fn one_line(upstream: &Upstream, list: GroupList, name: &[u8]) -> Answer<Option<OwnedGroupInfo>> {
    let (kind, word) = match list {
        GroupList::Times => (CachedListKind::Times, "ACTIVE.TIMES"),
        GroupList::Descriptions => (CachedListKind::Descriptions, "NEWSGROUPS"),
        _ => (CachedListKind::Active, "ACTIVE"),
    };
    let found = match upstream.lists.at_hand(kind, upstream.config.active_age) {
        Some(found) => found,
        None => match lists::fetch(&upstream.pool, [b"LIST ", word.as_bytes(), b" ", name].concat()).await {
            // The list fetched last has it, too.
            Err(UpstreamError::Away(_)) => {
                let age_max = upstream.config.active_age;
                upstream.lists.list(kind, &upstream.pool, &upstream.cache, age_max).await?
            }
            found => found?,
        },
    };
    let mut lines = ListLines::of(found);
    let list = match list {
        GroupList::Changed { .. } => list,
        list if kind != CachedListKind::Active => list,
        _ => GroupList::Active,
    };
    while let Some(line) = lines.next().await? {
        if let Some(group) = lists::info(list, line, |_| 0).filter(|group| group.name == name) {
            return Ok(Some(OwnedGroupInfo::of(&group)));
        }
    }
    Ok(None)
}

impl Upstreams {
    /// Returns the information on one group, if it exists.
    async fn one(
        &self,
        list: GroupList,
        name: &[u8],
        base: CountingBase,
        with_flag: bool,
    ) -> Answer<Option<OwnedGroupInfo>> {
        let table = self.shared.table.load_full();
        let Some(upstream) = table.numbering(name) else { return Ok(None) };
        match list {
            GroupList::Times
            | GroupList::Descriptions
            | GroupList::New { .. }
            | GroupList::Changed { .. } => one_line(upstream, list, name).await,
            GroupList::Active | GroupList::Counts | GroupList::Names => {
                let begun = Instant::now();
                let Some(group) = upstream.group(name).await? else { return Ok(None) };
                let Some(marks) = group.marks_above(base, begun).await? else { return Ok(None) };
                let line = if with_flag { one_line(upstream, GroupList::Active, name).await? } else { None };
                let flag = line.map_or_else(|| b"y".to_vec(), |line| line.flag);
                Ok(Some(OwnedGroupInfo { name: name.to_vec(), marks, flag, ..OwnedGroupInfo::default() }))
            }
        }
    }
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
                let ahead = self.article_ahead(&place, part);
                request(place, ahead)
            }
            SourceLocator::Number(selected, number) => {
                let group = selected.current()?;
                let place = articles::UpstreamLocator::Number(group.clone(), number);
                if let Some(ahead) = self.article_ahead(&place, part) {
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
            Self { client: client.into(), ahead: SharedAhead::default(), ..self }
        }
    }

    async fn group(&self, name: &[u8], base: CountingBase) -> Answer<Option<(UpstreamGroup, GroupMarks)>> {
        let table = self.shared.table.load_full();
        let Some(upstream) = table.numbering(name) else { return Ok(None) };
        let asked = upstream.pool.questions();
        let ahead = self.marks_ahead(upstream, name).await;
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
        let table = self.shared.table.load_full();
        let mut groups = UpstreamGroups {
            list,
            base,
            routes: table.routes.clone(),
            parts: Vec::new(),
            last: OwnedGroupInfo::default(),
        };
        let one = match which {
            GroupSelection::All | GroupSelection::Like(_) => {
                // All are asked before the first has answered.
                let asked = table.upstreams.iter().enumerate();
                let asked = asked.filter(|(_, u)| !u.config.fill && !u.config.is_unread());
                let asked = asked
                    .map(|(at, upstream)| (at, upstream, ask_list(upstream.clone(), list, &self.client)));
                for (at, upstream, lines) in asked.collect::<Vec<_>>() {
                    let lines = match lines.await.map_err(|error| SourceError::Fault(error.into()))? {
                        // No reader has seen its groups yet, so none is missed.
                        Err(UpstreamError::Away(_)) if upstream.is_unheard() => continue,
                        lines => lines?,
                    };
                    groups.parts.push(ListPart { at, lines, next: None, is_over: false });
                }
                return Ok(groups);
            }
            GroupSelection::Named(name) => self.one(list, name, base, true).await?,
            GroupSelection::One(selected) => match selected.current() {
                Ok(group) => self.one(list, &group.name, base, false).await?,
                Err(_) => None,
            },
        };
        if let Some(one) = one
            && let Some(at) = table.routes.numbering(&one.name)
        {
            groups.parts.push(ListPart { at, lines: ListLines::none(), next: Some(one), is_over: true });
        }
        Ok(groups)
    }

    async fn article(
        &self,
        place: SourceLocator<'_, UpstreamGroup>,
        part: ArticlePart,
        into: &mut ArticleBytes,
    ) -> Answer<Fetched<ArticleRest>> {
        let is_for_later = self.shared.prefetch.load().fetch_later;
        self.fetched(place, part, is_for_later, into).await
    }

    fn looks_ahead(&self) -> bool {
        !self.is_empty()
    }

    async fn look_ahead(&self, foreseen: &[ForeseenRequest<'_, UpstreamGroup>]) {
        self.ask_ahead(foreseen).await;
    }

    fn article_at_hand(
        &self,
        place: SourceLocator<'_, UpstreamGroup>,
        part: ArticlePart,
        into: &mut ArticleBytes,
    ) -> Option<Fetched<ArticleRest>> {
        if !self.ahead.lock().is_empty() {
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
            let ahead = self.existence_ahead(id.as_bytes());
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
        if group.shelf.numbers(range, max, into) { Ok(()) } else { known }
    }

    async fn neighbour(
        &self,
        group: &UpstreamGroup,
        number: u64,
        side: NeighbourSide,
    ) -> Answer<Option<u64>> {
        let group = group.current()?;
        let (mut from, mut len) = (number, NEIGHBOURS_AT_FIRST);
        loop {
            let range = match side {
                NeighbourSide::Next => from.saturating_add(1)..=from.saturating_add(len),
                NeighbourSide::Previous => from.saturating_sub(len)..=from.saturating_sub(1),
            };
            len = len.saturating_mul(NEIGHBOURS_MORE);
            let far = if side == NeighbourSide::Next { *range.end() } else { *range.start() };
            let Some((range, marks)) = group.within(range).await? else { return Ok(None) };
            let known = group.know_numbers(&range, marks).await;
            if let Some(found) = group.shelf.neighbour(range, side) {
                return Ok(Some(found));
            }
            known?;
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
