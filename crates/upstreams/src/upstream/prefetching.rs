//! Prefetching: fetches data from upstreams before a reader requests it.
//!
//! A pass goes through the wanted groups: those of the configuration, those read recently, and those
//! requested most per byte. For each it fetches the overview of its newest articles and, as configured, the
//! articles of threads that are in the cache, or all. Articles that readers requested while an upstream was
//! away are fetched once it is back. One at which an upstream breaks off is requested after all others.
//! Sources: the NewsCache paper, section 5; leafnode, which subscribes to groups that are read, and fetches
//! bodies later.

use super::articles::{Flights, UpstreamLocator, bring};
use super::group::NumberedGroup;
use super::group_lists::{names, refresh_descriptions};
use super::refusing::RefusedHeaders;
use super::rows::size_in;
use super::table::UpstreamTable;
use super::trouble::{UpstreamError, shown};
use crate::Answer;
use arc_swap::ArcSwap;
use hashbrown::{HashMap, HashSet};
use netnews::decimal::parse_decimal;
use netnews::overview_row::{field, index};
use newscache::{Cache, MissedArticle, ReadGroup};
use nntp_io::rate::Bandwidth;
use site_base::back_off::BackOff;
use site_base::clock::unix_secs;
use site_base::lock::Leaf;
use site_config::{Prefetch, PrefetchScope};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::block_in_place;
use tracing::{debug, info};

/// Interval for retrying requests that failed.
const LATER_INTERVAL: Duration = Duration::from_secs(5);
/// Interval for checking whether the configured hours have begun.
const HOURS_INTERVAL: Duration = Duration::from_secs(60);
/// Practically forever.
const IDLE: Duration = Duration::from_secs(1 << 30);
/// Bytes of overview rows examined at once.
const ROWS_BYTES: usize = 64 << 10;
/// Message-IDs in References that are looked up.
const REFERENCES_MAX: usize = 16;

/// Time for which an article at which an upstream broke off is left alone.
const PUT_OFF: BackOff = BackOff::new(Duration::from_secs(30), Duration::from_secs(3600));
/// Articles that are remembered for that.
const PUT_OFF_MAX: usize = 10_000;

/// Articles at which an upstream broke off, as some servers do each time. They are requested after others and
/// less and less often: each time the upstream counts as away for a while.
#[derive(Default)]
struct PutOffArticles(HashMap<MissedArticle, PutOffArticle>);

struct PutOffArticle {
    times: u32,
    until: Instant,
}

impl PutOffArticles {
    fn has(&self, article: &MissedArticle) -> bool {
        self.0.contains_key(article)
    }

    /// Returns whether an article need not be left alone now.
    fn is_due(&self, article: &MissedArticle, now: Instant) -> bool {
        self.0.get(article).is_none_or(|put_off| put_off.until <= now)
    }

    fn put_off(&mut self, article: MissedArticle, now: Instant) {
        if self.0.len() >= PUT_OFF_MAX {
            self.0.retain(|_, put_off| put_off.until > now);
        }
        if self.0.len() < PUT_OFF_MAX || self.has(&article) {
            let put_off = self.0.entry(article).or_insert(PutOffArticle { times: 0, until: now });
            put_off.times = put_off.times.saturating_add(1);
            put_off.until = now + PUT_OFF.pause(put_off.times);
        }
    }

    fn forget(&mut self, article: &MissedArticle) {
        self.0.remove(article);
    }
}

/// State and limits of a pass.
struct PrefetchPass<'p> {
    config: Arc<Prefetch>,
    table: Arc<UpstreamTable>,
    flights: &'p Arc<Flights>,
    refusing: &'p ArcSwap<RefusedHeaders>,
    put_off: &'p Leaf<PutOffArticles>,
    /// Articles of this pass that are put off.
    last: Vec<(Arc<NumberedGroup>, u64)>,
    cache: Cache,
    bandwidth: Option<Bandwidth>,
    groups: u64,
    articles: u64,
    bytes: u64,
    bytes_max: u64,
}

/// Prefetching as configured.
pub(super) struct Prefetcher {
    config: ArcSwap<Prefetch>,
    /// Notified when the configuration changes.
    reconfigured: Notify,
    put_off: Leaf<PutOffArticles>,
}

impl Prefetcher {
    pub fn new(config: Prefetch) -> Self {
        Self { config: ArcSwap::from_pointee(config), reconfigured: Notify::new(), put_off: Leaf::default() }
    }

    /// Applies another configuration.
    pub fn apply(&self, config: Prefetch) {
        self.config.store(Arc::new(config));
        self.reconfigured.notify_one();
    }

    /// Returns whether articles that are not available when they are requested are fetched later.
    pub fn fetches_later(&self) -> bool {
        self.config.load().fetch_later
    }

    /// Makes passes as configured, and in between fetches articles requested earlier.
    pub async fn run(
        &self,
        table: &ArcSwap<UpstreamTable>,
        flights: &Arc<Flights>,
        refusing: &ArcSwap<RefusedHeaders>,
    ) {
        let mut next_pass = Instant::now();
        loop {
            let config = self.config.load_full();
            let pass = || PrefetchPass::begin(&config, table.load_full(), flights, refusing, &self.put_off);
            if config.fetch_later
                && let Some(mut pass) = pass()
            {
                pass.bring_wanted().await;
            }
            if config.is_on() && Instant::now() >= next_pass && config.hours.has(unix_secs()) {
                if let Some(mut pass) = pass() {
                    pass.prefetch().await;
                    let (groups, articles, bytes) = (pass.groups, pass.articles, pass.bytes);
                    info!(groups, articles, bytes, "prefetched");
                }
                next_pass = Instant::now() + config.interval;
            }
            tokio::select! {
                () = self.reconfigured.notified() => next_pass = Instant::now(),
                () = tokio::time::sleep(pause(&config, next_pass)) => {}
            }
        }
    }
}

impl<'p> PrefetchPass<'p> {
    /// Begins a pass, unless there is no cache.
    fn begin(
        config: &Arc<Prefetch>,
        table: Arc<UpstreamTable>,
        flights: &'p Arc<Flights>,
        refusing: &'p ArcSwap<RefusedHeaders>,
        put_off: &'p Leaf<PutOffArticles>,
    ) -> Option<Self> {
        let cache = table.cache.clone()?;
        let bandwidth = config.bytes_per_sec_max.map(|bytes| Bandwidth::new(bytes, Instant::now()));
        let bytes_max = cache.settings().size_bytes / 4;
        Some(Self {
            config: config.clone(),
            table,
            flights,
            refusing,
            put_off,
            last: Vec::new(),
            cache,
            bandwidth,
            groups: 0,
            articles: 0,
            bytes: 0,
            bytes_max,
        })
    }

    /// Fetches articles that readers requested when they were not available.
    async fn bring_wanted(&mut self) {
        for want in self.cache.wanted() {
            if !self.put_off.lock().is_due(&want, Instant::now()) {
                continue;
            }
            let place = if want.group.is_empty() {
                Some(UpstreamLocator::Id(want.id.as_slice().into()))
            } else {
                match self.group(&want.group).await {
                    Ok(group) => group.map(|group| UpstreamLocator::Number(group, want.number)),
                    Err(_) => continue,
                }
            };
            let brought = match place {
                Some(place) => self.bring_one(&place, &want).await,
                None => Ok(()),
            };
            if !matches!(brought, Err(UpstreamError::Away(_))) {
                self.cache.not_wanted(&want);
            }
        }
    }

    /// Fetches an article; puts it off if an upstream breaks off at it.
    async fn bring_one(
        &mut self,
        place: &UpstreamLocator,
        article: &MissedArticle,
    ) -> Result<(), UpstreamError> {
        let broken = self.broken();
        let brought = bring(&self.table, self.flights, place).await;
        match &brought {
            Err(UpstreamError::Away(_)) if self.broken() == broken => {}
            Err(UpstreamError::Away(_)) => self.put_off.lock().put_off(article.clone(), Instant::now()),
            _ => self.put_off.lock().forget(article),
        }
        self.take(brought?).await;
        self.articles += 1;
        Ok(())
    }

    /// Returns how many answers of all upstreams have broken off so far.
    fn broken(&self) -> u64 {
        self.table.upstreams.iter().map(|upstream| upstream.pool.broken()).sum()
    }

    async fn prefetch(&mut self) {
        let wanted = self.wanted_groups().await;
        if !wanted.is_empty() {
            // Pages and newsreaders show them beside the names.
            refresh_descriptions(&self.table).await;
        }
        for name in wanted {
            if !self.may_go_on() {
                return;
            }
            match self.group(&name).await {
                Ok(Some(group)) => match self.prefetch_group(&group).await {
                    Ok(()) => self.groups += 1,
                    Err(error) => debug!(group = shown(&name), %error, "not prefetched"),
                },
                Ok(None) => {}
                Err(error) => debug!(group = shown(&name), %error, "not prefetched"),
            }
        }
        for (group, number) in std::mem::take(&mut self.last) {
            let article = group.missed(number);
            if self.may_go_on() && self.put_off.lock().is_due(&article, Instant::now()) {
                // It stays put off, or is not there any more.
                let _ = self.bring_one(&UpstreamLocator::Number(group, number), &article).await;
            }
        }
    }

    /// Returns the groups of a pass: those of the configuration, those that were read, those that are
    /// requested most.
    async fn wanted_groups(&self) -> Vec<Vec<u8>> {
        let names = match &self.config.groups {
            Some(_) => names(&self.table).await.unwrap_or_else(|error| {
                debug!(%error, "no list of groups to prefetch");
                Vec::new()
            }),
            None => Vec::new(),
        };
        chosen(&self.config, names, self.cache.read_groups(), unix_secs())
    }

    async fn prefetch_group(&mut self, group: &Arc<NumberedGroup>) -> Answer<()> {
        let Some(marks) = group.marks().await? else { return Ok(()) };
        let first = marks.low.max(marks.high.saturating_sub(self.config.articles_max - 1));
        let (mut next, mut rows) = (Some(first), Vec::new());
        while let Some(from) = next.filter(|from| *from <= marks.high) {
            if !self.may_go_on() {
                return Ok(());
            }
            rows.clear();
            let asked = group.pool.questions();
            next = group.rows(from..=marks.high, ROWS_BYTES, &mut rows).await?;
            if group.pool.questions() != asked {
                self.take(rows.len() as u64).await;
            }
            for row in rows.split_inclusive(|b| *b == b'\n') {
                let is_refused = self.refusing.load().refuses_row(row);
                if !is_refused && self.may_go_on() && self.is_wanted(row) {
                    let Some(number) = field(row, index::NUMBER).and_then(parse_decimal) else { continue };
                    let article = group.missed(number);
                    if self.put_off.lock().has(&article) {
                        self.last.push((group.clone(), number));
                        continue;
                    }
                    match self.bring_one(&UpstreamLocator::Number(group.clone(), number), &article).await {
                        Ok(()) | Err(UpstreamError::Missing) => {}
                        Err(trouble) => return Err(trouble.into()),
                    }
                }
            }
        }
        Ok(())
    }

    fn may_go_on(&self) -> bool {
        self.bytes < self.bytes_max && self.config.hours.has(unix_secs())
    }

    /// Counts bytes, and waits as the rate requires.
    async fn take(&mut self, bytes: u64) {
        self.bytes += bytes;
        if let Some(bandwidth) = &self.bandwidth {
            bandwidth.sent(usize::try_from(bytes).unwrap_or(usize::MAX));
            bandwidth.allowance(1).await;
        }
    }

    /// Returns a group whose upstream can be asked.
    async fn group(&self, name: &[u8]) -> Answer<Option<Arc<NumberedGroup>>> {
        let Some(upstream) = self.table.numbering(name) else { return Ok(None) };
        if upstream.pool.is_away() {
            return Err(UpstreamError::Away(format!("{} is away", upstream.config.name)).into());
        }
        upstream.group(name).await
    }

    /// Returns whether the article of a row should be fetched.
    fn is_wanted(&self, row: &[u8]) -> bool {
        let is_here = |id: &[u8]| block_in_place(|| self.cache.has_id(id, unix_secs())).unwrap_or_default();
        let id = field(row, index::MESSAGE_ID).unwrap_or_default();
        if size_in(row).is_none_or(|bytes| bytes > self.config.bytes_max) || is_here(id) {
            return false;
        }
        match self.config.what {
            PrefetchScope::Overview => false,
            PrefetchScope::Articles => true,
            PrefetchScope::Threads => {
                let references = field(row, index::REFERENCES).unwrap_or_default();
                let ids = references.split(u8::is_ascii_whitespace).filter(|id| !id.is_empty());
                let ids: Vec<_> = ids.collect();
                ids.iter().rev().take(REFERENCES_MAX).any(|id| is_here(id))
            }
        }
    }
}

/// Returns how long there is nothing to do under this configuration.
fn pause(config: &Prefetch, next_pass: Instant) -> Duration {
    let until_pass = match config.is_on() {
        true if config.hours.has(unix_secs()) => next_pass.saturating_duration_since(Instant::now()),
        true => HOURS_INTERVAL,
        false => IDLE,
    };
    if config.fetch_later { until_pass.min(LATER_INTERVAL) } else { until_pass }
}

/// Returns the groups of a pass, from all names and those that were read.
fn chosen(config: &Prefetch, mut groups: Vec<Vec<u8>>, read: Vec<ReadGroup>, now: u64) -> Vec<Vec<u8>> {
    groups.retain(|name| config.groups.as_ref().is_some_and(|wildmat| wildmat.matches(name)));
    if !config.read_within.is_zero() {
        let least = now.saturating_sub(config.read_within.as_secs());
        groups.extend(read.iter().filter(|group| group.read_at >= least).map(|group| group.name.clone()));
    }
    groups.extend(popular(read).into_iter().take(config.popular));
    let mut seen = HashSet::new();
    groups.retain(|name| seen.insert(name.clone()));
    groups
}

/// Returns groups by requests per byte, highest first.
fn popular(mut groups: Vec<ReadGroup>) -> Vec<Vec<u8>> {
    groups.retain(|group| group.bytes > 0);
    let rate = |group: &ReadGroup| group.requests as f64 / group.bytes as f64;
    groups.sort_by(|one, other| rate(other).total_cmp(&rate(one)));
    groups.into_iter().map(|group| group.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_no_longer_read_are_left_out() {
        let text = "[site]\ndata = \"/sim\"\n[[class]]\nname = \"c\"\nmethod = \"trash\"\n[[rule]]\nclass = \"c\"\n\
            [prefetch]\ngroups = \"a.*\"\nread_within = \"7 days\"\npopular = 1\n";
        let config = site_config::parse(text, std::path::Path::new("/sim/newsreel.toml")).unwrap();
        let read = |name: &str, days_ago: u64, requests| ReadGroup {
            name: name.into(),
            read_at: 86_400 * (100 - days_ago),
            requests,
            bytes: 1_000,
        };
        let read =
            vec![read("b.read", 6, 1), read("b.unread", 8, 2), read("b.popular", 50, 9), read("a.a", 1, 3)];
        let names = vec![b"a.a".to_vec(), b"a.b".to_vec(), b"b.read".to_vec(), b"c.c".to_vec()];
        let chosen = chosen(&config.prefetch, names, read, 86_400 * 100);
        assert_eq!(chosen, [&b"a.a"[..], b"a.b", b"b.read", b"b.popular"]);
    }

    #[test]
    fn popular_groups_have_the_most_requests_per_byte() {
        let group =
            |name: &str, requests, bytes| ReadGroup { name: name.into(), read_at: 1, requests, bytes };
        let groups = vec![group("large", 100, 1_000_000), group("small", 10, 1_000), group("none", 5, 0)];
        assert_eq!(popular(groups), [b"small".to_vec(), b"large".to_vec()]);
    }
}
