//! Counters of requests, and of answers from the cache: table 3 of the paper, also by group and upstream.
//!
//! Bounded: only the 1,024 most requested groups, or nearly so, are kept. Called by `cache`.

use hashbrown::HashMap;

/// Maximum number of groups that are counted.
const GROUPS_MAX: usize = 2048;
/// Number of groups that are kept when there are more.
const GROUPS_KEPT: usize = 1024;
/// Maximum number of upstreams that are counted.
const UPSTREAMS_MAX: usize = 256;

/// Kind of a reader's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestKind {
    /// A list of groups.
    Active,
    /// A group, or the numbers in it.
    Group,
    /// Overview rows.
    Overview,
    /// An article or a part of one.
    Article,
}

impl RequestKind {
    /// All kinds, in the order of the paper's table.
    pub const ALL: [Self; 4] = [Self::Active, Self::Group, Self::Overview, Self::Article];

    /// Returns its word in the access log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Group => "group",
            Self::Overview => "overview",
            Self::Article => "article",
        }
    }
}

/// A request of a reader.
#[derive(Debug, Clone, Copy)]
pub struct CacheAccess<'a> {
    /// Time in Unix seconds.
    pub at: u64,
    /// Client that made the request.
    pub client: &'a str,
    /// Kind of request.
    pub kind: RequestKind,
    /// Upstream of the requested data.
    pub upstream: &'a str,
    /// Group; empty if there is none.
    pub group: &'a [u8],
    /// Number of the article, or first one of the rows; 0 if there is none.
    pub number: u64,
    /// Message-ID of the article; empty if unknown.
    pub id: &'a [u8],
    /// Bytes from the cache.
    pub cache_bytes: u64,
    /// Bytes from upstream.
    pub upstream_bytes: u64,
    /// True if the cache had everything.
    pub is_hit: bool,
}

/// Counts of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// All requests.
    pub requests: u64,
    /// Requests answered from the cache alone.
    pub hits: u64,
    /// Bytes from the cache.
    pub cache_bytes: u64,
    /// Bytes from upstream.
    pub upstream_bytes: u64,
}

impl RequestCounts {
    pub(crate) fn add(&mut self, access: &CacheAccess<'_>) {
        self.requests += 1;
        self.hits += u64::from(access.is_hit);
        self.cache_bytes += access.cache_bytes;
        self.upstream_bytes += access.upstream_bytes;
    }
}

/// Counts of the four kinds of requests.
pub type CountsByKind = [RequestCounts; 4];

/// A group that readers read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadGroup {
    /// Name of the group.
    pub name: Vec<u8>,
    /// Time of the last request for its overview or an article, in Unix seconds.
    pub read_at: u64,
    /// Number of such requests.
    pub requests: u64,
    /// Number of bytes sent for them.
    pub bytes: u64,
}

/// Statistics of a cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Counts by kind, in the order of [`RequestKind::ALL`].
    pub kinds: CountsByKind,
    /// Counts by upstream.
    pub upstreams: Vec<(String, CountsByKind)>,
    /// Counts by group, the most requested first.
    pub groups: Vec<(Vec<u8>, CountsByKind)>,
    /// Size of the cache on disk.
    pub used_bytes: u64,
    /// Maximum size of the cache.
    pub size_bytes: u64,
    /// Number of files.
    pub files: u64,
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct CacheCounters {
    kinds: CountsByKind,
    upstreams: HashMap<Box<str>, CountsByKind>,
    groups: HashMap<Box<[u8]>, GroupCounts>,
}

/// Counts of a group.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GroupCounts {
    kinds: CountsByKind,
    /// Time of the last read.
    read_at: Option<u64>,
}

impl GroupCounts {
    /// Counts a request.
    pub fn add(&mut self, access: &CacheAccess<'_>) {
        if let Some(counts) = self.kinds.get_mut(access.kind as usize) {
            counts.add(access);
        }
        if matches!(access.kind, RequestKind::Overview | RequestKind::Article) {
            self.read_at = self.read_at.max(Some(access.at));
        }
    }

    /// Returns whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.read_at.is_none() && requests(&self.kinds) == 0
    }
}

/// Adds separate counts.
fn add_all(counts: &mut CountsByKind, more: &CountsByKind) {
    for (counts, more) in counts.iter_mut().zip(more) {
        counts.requests += more.requests;
        counts.hits += more.hits;
        counts.cache_bytes += more.cache_bytes;
        counts.upstream_bytes += more.upstream_bytes;
    }
}

/// Returns the number of requests of all kinds.
fn requests(counts: &CountsByKind) -> u64 {
    counts.iter().map(|counts| counts.requests).sum()
}

impl CacheCounters {
    /// Counts a request.
    pub fn record(&mut self, access: &CacheAccess<'_>) {
        let mut counted = GroupCounts::default();
        counted.add(access);
        self.add(access.upstream, access.group, &counted);
    }

    /// Adds separate counts of a group of an upstream; without a name, of no group.
    pub fn add(&mut self, upstream: &str, group: &[u8], counted: &GroupCounts) {
        self.add_requests(upstream, &counted.kinds);
        if group.is_empty() {
            return;
        }
        if !self.groups.contains_key(group) {
            self.make_room();
        }
        let of_group = self.groups.entry_ref(group).or_default();
        add_all(&mut of_group.kinds, &counted.kinds);
        of_group.read_at = of_group.read_at.max(counted.read_at);
    }

    /// Adds separate counts of an upstream.
    pub fn add_requests(&mut self, upstream: &str, counted: &CountsByKind) {
        if requests(counted) == 0 {
            return;
        }
        add_all(&mut self.kinds, counted);
        if self.upstreams.len() < UPSTREAMS_MAX || self.upstreams.contains_key(upstream) {
            add_all(self.upstreams.entry_ref(upstream).or_default(), counted);
        }
    }

    /// Returns the groups that were read, in the order of their names.
    pub fn read_groups(&self) -> Vec<ReadGroup> {
        let read = self.groups.iter().filter_map(|(name, of_group)| {
            let read = of_group.kinds.get(RequestKind::Overview as usize..).unwrap_or_default();
            let sum = |field: fn(&RequestCounts) -> u64| read.iter().map(field).sum();
            let bytes = sum(|counts| counts.cache_bytes + counts.upstream_bytes);
            let (name, requests) = (name.to_vec(), sum(|counts| counts.requests));
            Some(ReadGroup { name, read_at: of_group.read_at?, requests, bytes })
        });
        let mut groups: Vec<_> = read.collect();
        groups.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        groups
    }

    /// Drops the least requested groups.
    fn make_room(&mut self) {
        if self.groups.len() < GROUPS_MAX {
            return;
        }
        let mut all: Vec<(Box<[u8]>, GroupCounts)> = self.groups.drain().collect();
        all.sort_unstable_by_key(|(_, of_group)| std::cmp::Reverse(requests(&of_group.kinds)));
        self.groups.extend(all.into_iter().take(GROUPS_KEPT));
    }

    pub fn stats(&self) -> CacheStats {
        let mut upstreams: Vec<(String, CountsByKind)> =
            self.upstreams.iter().map(|(name, counts)| (name.to_string(), *counts)).collect();
        upstreams.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let counted = self.groups.iter().filter(|(_, of_group)| requests(&of_group.kinds) > 0);
        let mut groups: Vec<(Vec<u8>, CountsByKind)> =
            counted.map(|(name, of_group)| (name.to_vec(), of_group.kinds)).collect();
        groups.sort_unstable_by(|a, b| (requests(&b.1), &a.0).cmp(&(requests(&a.1), &b.0)));
        groups.truncate(GROUPS_KEPT);
        CacheStats { kinds: self.kinds, upstreams, groups, ..CacheStats::default() }
    }

    /// Returns lines that [`CacheCounters::take`] reads.
    pub fn put(&self) -> String {
        let stats = self.stats();
        let line = |word: &str, name: &str, counts: &CountsByKind| {
            let numbers = counts.iter().flat_map(|c| [c.requests, c.hits, c.cache_bytes, c.upstream_bytes]);
            let numbers: Vec<String> = numbers.map(|n| n.to_string()).collect();
            format!("{word} {} {name}\n", numbers.join(" "))
        };
        let mut text = line("all", "-", &stats.kinds);
        text.extend(stats.upstreams.iter().map(|(name, counts)| line("upstream", name, counts)));
        let named = stats.groups.iter().filter_map(|(name, c)| Some((std::str::from_utf8(name).ok()?, c)));
        text.extend(named.map(|(name, counts)| line("group", name, counts)));
        let read = self.groups.iter();
        let read = read.filter_map(|(name, of)| Some((std::str::from_utf8(name).ok()?, of.read_at?)));
        text.extend(read.map(|(name, at)| format!("read {at} {name}\n")));
        text
    }

    /// Reads counters from lines; unknown lines are skipped.
    pub fn take(text: &str) -> Self {
        let mut counters = Self::default();
        for line in text.lines() {
            if let Some((at, name)) = line.strip_prefix("read ").and_then(|rest| rest.split_once(' ')) {
                if let Ok(at) = at.parse() {
                    counters.groups.entry(name.as_bytes().into()).or_default().read_at = Some(at);
                }
                continue;
            }
            let mut words = line.splitn(18, ' ');
            let Some(word) = words.next() else { continue };
            let mut by_kind = CountsByKind::default();
            for counts in &mut by_kind {
                let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
                counts.requests = number();
                counts.hits = number();
                counts.cache_bytes = number();
                counts.upstream_bytes = number();
            }
            let Some(name) = words.next() else { continue };
            match word {
                "all" => counters.kinds = by_kind,
                "upstream" => _ = counters.upstreams.insert(name.into(), by_kind),
                "group" => counters.groups.entry(name.as_bytes().into()).or_default().kinds = by_kind,
                _ => {}
            }
        }
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(group: &[u8], kind: RequestKind, is_hit: bool) -> CacheAccess<'_> {
        CacheAccess {
            at: 1,
            client: "192.0.2.1",
            kind,
            upstream: "isp",
            group,
            number: 5,
            id: b"",
            cache_bytes: if is_hit { 100 } else { 0 },
            upstream_bytes: if is_hit { 0 } else { 100 },
            is_hit,
        }
    }

    #[test]
    fn requests_are_counted_by_kind_group_and_upstream() {
        let mut counters = CacheCounters::default();
        counters.record(&access(b"a.b", RequestKind::Article, true));
        counters.record(&access(b"a.b", RequestKind::Article, false));
        counters.record(&access(b"c.d", RequestKind::Overview, true));
        counters.record(&access(b"", RequestKind::Active, true));
        let stats = counters.stats();
        let articles = RequestCounts { requests: 2, hits: 1, cache_bytes: 100, upstream_bytes: 100 };
        assert_eq!(stats.kinds[RequestKind::Article as usize], articles);
        assert_eq!(stats.kinds.map(|counts| counts.requests), [1, 0, 1, 2]);
        assert_eq!(stats.upstreams.len(), 1);
        assert_eq!(stats.groups[0].0, b"a.b");
        counters.record(&CacheAccess { at: 9, ..access(b"e.f", RequestKind::Group, true) });
        let stats = counters.stats();
        let read = |name: &[u8], requests| ReadGroup {
            name: name.into(),
            read_at: 1,
            requests,
            bytes: 100 * requests,
        };
        assert_eq!(counters.read_groups(), [read(b"a.b", 2), read(b"c.d", 1)]);
        assert_eq!(CacheCounters::take(&counters.put()).read_groups(), counters.read_groups());
        assert_eq!(CacheCounters::take(&counters.put()).stats(), stats);
    }

    #[test]
    fn most_requested_groups_are_kept() {
        let mut counters = CacheCounters::default();
        for n in 0..50_000_u32 {
            counters.record(&access(b"always", RequestKind::Article, true));
            counters.record(&access(format!("g{n}").as_bytes(), RequestKind::Article, true));
        }
        assert!(counters.groups.len() <= GROUPS_MAX);
        let stats = counters.stats();
        assert_eq!((stats.groups[0].0.as_slice(), stats.groups.len()), (&b"always"[..], GROUPS_KEPT));
        assert_eq!(stats.groups[0].1[3].requests, 50_000);
    }
}
