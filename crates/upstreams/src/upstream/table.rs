//! Upstreams of the configuration, and the groups that each numbers.
//!
//! The upstream that numbers a group is determined by the group's name alone; groups carried here belong to
//! no upstream.

use super::group::NumberedGroup;
use super::kept_headers::KeptHeaders;
use super::known_groups::KnownGroups;
use super::lists::GroupLists;
use super::pool::ConnectionPool;
use super::questions::{AskMarks, MarksAnswer};
use super::trouble::UpstreamError;
use super::xref::NumbersHere;
use crate::Answer;
use hashbrown::HashMap;
use lock_order::Ordered;
use netnews::newsgroups;
use newscache::{Cache, CacheAccess, RequestKind};
use site_base::clock::unix_secs;
use site_base::lock::{Leaf, rank};
use site_config as config;
use site_config::{Config, PassedCommand};
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Decides which groups are this server's own.
pub(super) type IsLocal = NumbersHere;

/// Determines which upstream numbers a group.
pub(super) struct NumberingRules {
    sections: Vec<config::Upstream>,
    local: IsLocal,
}

impl NumberingRules {
    /// Returns the index of the upstream that numbers a group; `None` if there is none, or this server
    /// does.
    pub fn numbering(&self, group: &[u8]) -> Option<usize> {
        let sections = self.sections.iter().enumerate().filter(|(_, section)| !section.fill);
        let matching =
            sections.filter_map(|(at, section)| Some((section.groups.longest_match(group)?, Reverse(at))));
        matching.max().map(|(_, Reverse(at))| at).filter(|_| !(self.local)(group))
    }
}

/// An upstream.
pub(super) struct Upstream {
    pub config: config::Upstream,
    pub pool: Arc<ConnectionPool>,
    pub lists: GroupLists,
    pub headers: Arc<KeptHeaders>,
    pub cache: Cache,
    /// Decides whose groups' numbers are valid here.
    pub is_here: NumbersHere,
    /// Whether the first request for overview rows of a group has all others fetched as well.
    pub is_whole: bool,
    groups: Ordered<KnownGroups, { rank::UPSTREAM_GROUPS }>,
    /// Groups whose marks have changed since these times, as articles were posted to them: older lists are
    /// outdated for them.
    changed: Leaf<HashMap<Box<[u8]>, Instant>>,
}

impl Upstream {
    /// Returns a group of the upstream; `None` if there is none of this name. If marks of the group are
    /// known, a silent server is not waited for.
    pub async fn group(&self, name: &[u8]) -> Answer<Option<Arc<NumberedGroup>>> {
        self.group_within(name, false).await
    }

    /// Like [`Upstream::group`], without waiting for a silent server.
    pub async fn group_soon(&self, name: &[u8]) -> Answer<Option<Arc<NumberedGroup>>> {
        self.group_within(name, true).await
    }

    async fn group_within(&self, name: &[u8], is_soon: bool) -> Answer<Option<Arc<NumberedGroup>>> {
        if !newsgroups::valid_name(name) {
            return Ok(None);
        }
        self.take_listed_marks(name);
        if let Some(known) = self.groups.lock().get(name) {
            return Ok(Some(known));
        }
        let add = |group| self.groups.lock().get_or_add(Arc::new(group));
        if let Some(at) = self.marks_asked_at(name) {
            return Ok(Some(add(NumberedGroup::new(name, self, Some(at)))));
        }
        let at = Instant::now();
        let asked = self.pool.ask_apart(self.question(name));
        let is_soon = is_soon || self.cache.known_marks(&self.config.name, name).is_some();
        let answer = if is_soon { self.pool.soon(asked).await } else { asked.await };
        match answer {
            // Nonexistent groups are not kept.
            Ok(said) => Ok(self.group_with(name, said, at)),
            Err(UpstreamError::Away(text)) => {
                let group = NumberedGroup::new(name, self, None);
                group.shelf.marks().ok_or(UpstreamError::Away(text))?;
                Ok(Some(add(group)))
            }
            Err(trouble) => Err(trouble.into()),
        }
    }

    /// Returns the question for the marks of a group.
    pub fn question(&self, name: &[u8]) -> AskMarks {
        let known = self.groups.lock().get(name);
        match known {
            Some(known) => known.question(),
            None if self.cache.known_marks(&self.config.name, name).is_some() => {
                NumberedGroup::new(name, self, None).question()
            }
            None => AskMarks { group: name.into(), known: Vec::new() },
        }
    }

    /// Returns the group for an answer of the upstream; `None` if there is none of this name.
    pub fn group_with(&self, name: &[u8], said: MarksAnswer, at: Instant) -> Option<Arc<NumberedGroup>> {
        let known = self.groups.lock().get(name);
        let group = match (known, said.marks) {
            (Some(known), _) => known,
            (None, None) => return None,
            (None, Some(_)) => {
                let group = Arc::new(NumberedGroup::new(name, self, None));
                self.groups.lock().get_or_add(group)
            }
        };
        group.take_said(said, at);
        Some(group)
    }

    /// Takes the marks of a group from a recent list, unless known data of the group would have to be
    /// compared with them.
    fn take_listed_marks(&self, name: &[u8]) {
        if self.knows_marks(name) {
            return;
        }
        let Some((listed, at)) = self.lists.marks_of(name, self.config.group_age) else { return };
        if self.changed.lock().get(name).is_some_and(|changed| at <= *changed) {
            return;
        }
        let known = self.cache.known_marks(&self.config.name, name).map(|asked| asked.value);
        let marks = match known {
            None => listed,
            Some(known) if (known.low, known.high) == (listed.low, listed.high) => known,
            Some(_) => return,
        };
        self.group_with(name, MarksAnswer::of(Some(marks)), at);
    }

    fn knows_marks(&self, name: &[u8]) -> bool {
        let known = self.groups.lock().get(name);
        match known {
            Some(known) => known.knows_marks(),
            None => self.marks_asked_at(name).is_some(),
        }
    }

    /// Returns whether the marks of a group are unknown, or too old.
    pub fn must_ask_for_marks(&self, name: &[u8]) -> bool {
        if !newsgroups::valid_name(name) {
            return false;
        }
        self.take_listed_marks(name);
        !self.knows_marks(name)
    }

    /// Returns when the cached marks of a group were requested, if they are still fresh enough.
    pub(super) fn marks_asked_at(&self, name: &[u8]) -> Option<Instant> {
        let asked = self.cache.known_marks(&self.config.name, name)?;
        // The marks may be a second older than whole seconds show.
        let age = Duration::from_secs(unix_secs().checked_sub(asked.at)? + 1);
        if age > self.config.group_age { None } else { Instant::now().checked_sub(age) }
    }

    /// Has the marks of a group requested when they are next wanted.
    pub fn look_again(&self, name: &[u8]) {
        self.cache.marks_are_old(&self.config.name, name);
        {
            // Lists older than this are not used any more.
            let (now, age_max) = (Instant::now(), self.config.group_age);
            let mut changed = self.changed.lock();
            changed.retain(|_, at| now.duration_since(*at) <= age_max);
            changed.insert(name.into(), now);
        }
        let known = self.groups.lock().get(name);
        if let Some(group) = known {
            group.look_again();
        }
    }

    /// Forgets a group of which the cache has nothing any more.
    pub fn forget(&self, name: &[u8]) {
        let known = self.groups.lock().get(name);
        if let Some(group) = known {
            group.forget();
        }
        self.headers.forget(name);
        self.look_again(name);
    }

    /// Returns whether the upstream was never heard, as far as is known.
    pub fn is_unheard(&self) -> bool {
        !self.pool.was_heard() && self.cache.known_groups(&self.config.name).is_empty()
    }

    /// Counts a request of a reader.
    pub fn record(&self, client: &str, kind: RequestKind, group: &[u8], is_hit: bool) {
        self.cache.record(&CacheAccess {
            at: unix_secs(),
            client,
            kind,
            upstream: &self.config.name,
            group,
            number: 0,
            id: b"",
            cache_bytes: 0,
            upstream_bytes: 0,
            is_hit,
        });
    }
}

/// Assumed answer time of an upstream about which nothing is known yet.
const ASSUMED_TIME: Duration = Duration::from_millis(20);

/// Returns whether a difference in answer time justifies another order: a fifth, and a noticeable amount.
fn is_slower(usual: Duration, least: Duration) -> bool {
    usual > least + least / 5 + Duration::from_millis(5)
}

/// Upstreams of the configuration.
pub(super) struct UpstreamTable {
    pub upstreams: Vec<Arc<Upstream>>,
    pub routes: Arc<NumberingRules>,
    /// Largest article taken.
    pub article_bytes_max: u64,
    /// See [`Upstream::is_whole`].
    pub is_whole: bool,
    /// Cache; absent if there is no upstream.
    pub cache: Option<Cache>,
    /// Order in which they are asked by Message-ID.
    order: Vec<usize>,
}

impl UpstreamTable {
    /// Returns the table of a configuration; unchanged upstreams of `old` keep their connections.
    pub fn new(config: &Config, local: &IsLocal, cache: Option<Cache>, old: Option<&Self>) -> Self {
        // Without a cache there is no upstream.
        let sections = if cache.is_some() { config.upstreams.as_slice() } else { &[] };
        let routes = Arc::new(NumberingRules { sections: sections.to_vec(), local: local.clone() });
        let upstream = |at: usize, section: &config::Upstream| {
            let cache = cache.clone()?;
            let mut known = old.into_iter().flat_map(|old| &old.upstreams);
            let known = known.find(|known| known.config == *section);
            let pool = known.map_or_else(|| ConnectionPool::new(section), |known| known.pool.clone());
            let routes = routes.clone();
            Some(Arc::new(Upstream {
                cache,
                config: section.clone(),
                pool,
                lists: GroupLists::default(),
                headers: Arc::default(),
                is_here: Arc::new(move |name| routes.numbering(name) == Some(at)),
                is_whole: config.prefetch.whole_overview,
                groups: Ordered::default(),
                changed: Leaf::default(),
            }))
        };
        let numbered = sections.iter().enumerate();
        let upstreams: Vec<_> = numbered.filter_map(|(at, section)| upstream(at, section)).collect();
        let mut order: Vec<usize> = (0..upstreams.len()).collect();
        order.retain(|at| sections.get(*at).is_some_and(|section| !section.is_unread()));
        order.sort_by_key(|at| sections.get(*at).map(|section| (section.fill, section.priority)));
        Self {
            upstreams,
            routes,
            article_bytes_max: config.site.article_bytes_max,
            is_whole: config.prefetch.whole_overview,
            cache,
            order,
        }
    }

    /// Returns the upstream that numbers a group.
    pub fn numbering(&self, group: &[u8]) -> Option<&Arc<Upstream>> {
        self.upstreams.get(self.routes.numbering(group)?)
    }

    /// Returns the first upstream to which a command is passed on.
    pub fn passing(&self, command: &[u8]) -> Option<(&Upstream, &PassedCommand)> {
        let verb = command.split(|b| b.is_ascii_whitespace()).find(|word| !word.is_empty())?;
        self.upstreams.iter().find_map(|upstream| {
            let mut passed = upstream.config.pass_commands.iter();
            let passed = passed.find(|passed| passed.verb.as_bytes().eq_ignore_ascii_case(verb))?;
            Some((&**upstream, passed))
        })
    }

    /// Returns the name of the upstream that takes posts to a group numbered by an upstream: that one,
    /// unless its `post` excludes the group; otherwise the one whose `post` matches it with the longest
    /// pattern.
    pub fn taker(&self, group: &[u8]) -> Option<Arc<str>> {
        let numbering = self.numbering(group)?;
        if numbering.config.post.as_ref().is_none_or(|post| post.matches(group)) {
            return Some(numbering.config.name.as_str().into());
        }
        let named = self.upstreams.iter().enumerate();
        let named = named.filter_map(|(at, upstream)| {
            let len = upstream.config.post.as_ref()?.longest_match(group)?;
            Some((len, Reverse(at), &upstream.config.name))
        });
        named.max().map(|(.., name)| name.as_str().into())
    }

    /// Returns the name of the upstream that also takes posts to a group carried here.
    pub fn taker_of_carried(&self, group: &[u8]) -> Option<Arc<str>> {
        let named = self.upstreams.iter().enumerate();
        let named = named.filter_map(|(at, upstream)| {
            let len = upstream.config.post_carried.longest_match(group)?;
            Some((len, Reverse(at), &upstream.config.name))
        });
        named.max().map(|(.., name)| name.as_str().into())
    }

    /// Returns the upstreams that may have an article by its Message-ID, of a group if one is known, in the
    /// order in which they are asked: by `fill` and `priority`, then the one that answers sooner, and last
    /// those that are away or gave wrong answers recently. The one that numbers the group ranks with the
    /// first.
    pub fn in_order_of(&self, group: Option<&[u8]>) -> Vec<&Upstream> {
        let numbering = group.and_then(|group| self.routes.numbering(group));
        let rank = |at: usize| match self.upstreams.get(at).map(|upstream| &upstream.config) {
            Some(config) if numbering != Some(at) => (config.fill, config.priority),
            _ => (false, 0),
        };
        let may_have = |at: &usize| {
            let config = self.upstreams.get(*at).map(|upstream| &upstream.config);
            config.is_some_and(|config| group.is_none_or(|group| config.groups.matches(group)))
        };
        let standing = |at: usize| {
            let pool = &self.upstreams.get(at)?.pool;
            Some((pool.is_trusted(), pool.usual_time()))
        };
        let mut order: Vec<_> =
            self.order.iter().copied().filter(may_have).map(|at| (at, standing(at))).collect();
        let soonest = |of: usize| {
            let equals = order.iter().filter(|(at, _)| rank(*at) == rank(of));
            let trusted = equals.filter_map(|(_, standing)| standing.filter(|(is_trusted, _)| *is_trusted));
            trusted.map(|(_, usual)| usual.unwrap_or(ASSUMED_TIME)).min()
        };
        let keys: HashMap<usize, _> = order
            .iter()
            .map(|(at, standing)| {
                let (is_trusted, usual) = standing.unwrap_or_default();
                let is_slower = usual.zip(soonest(*at)).is_some_and(|(usual, least)| is_slower(usual, least));
                (*at, (!is_trusted, rank(*at), is_slower, numbering != Some(*at)))
            })
            .collect();
        order.sort_by_key(|(at, _)| keys.get(at).copied());
        order.iter().filter_map(|(at, _)| self.upstreams.get(*at)).map(|upstream| &**upstream).collect()
    }

    /// Records that an owner's servers do not have an article; they are not asked again for a while.
    pub fn is_without(&self, owner: &str, id: &[u8]) {
        if let Some(cache) = &self.cache {
            cache.missing(owner, id, unix_secs() + cache.settings().negative_age);
        }
    }

    /// Records that an upstream has an article, so that it is not asked again for a while.
    pub fn is_with(&self, id: &[u8]) {
        if let Some(cache) = &self.cache {
            cache.present(id, unix_secs() + cache.settings().negative_age);
        }
    }

    /// Returns whether an owner's servers are known not to have an article.
    pub fn is_known_without(&self, owner: &str, id: &[u8]) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.is_missing(owner, id, unix_secs()))
    }

    /// Returns the index of the upstream with these connections.
    pub fn place_of(&self, pool: &Arc<ConnectionPool>) -> usize {
        let found = self.upstreams.iter().position(|upstream| Arc::ptr_eq(&upstream.pool, pool));
        found.unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pattern_decides_who_numbers_a_group() {
        let text = "[site]\ndata = \"/sim\"\n[[class]]\nname = \"c\"\nmethod = \"trash\"\n[[rule]]\nclass = \"c\"\n\
            [[upstream]]\nname = \"all\"\nhost = \"a:1\"\n\
            [[upstream]]\nname = \"comp\"\nhost = \"b:1\"\ngroups = \"comp.*,!comp.lang.*,comp.lang.c\"\n\
            [[upstream]]\nname = \"all again\"\nhost = \"c:1\"\npriority = 1\n\
            [[upstream]]\nname = \"fill\"\nhost = \"d:1\"\nfill = true\npriority = 0\ngroups = \"comp.*\"\n";
        let config = config::parse(text, std::path::Path::new("/sim/newsreel.toml"));
        let config = config.map_err(|error| error.to_string()).unwrap();
        let local: IsLocal = Arc::new(|name| name.starts_with(b"local."));
        let disk = Arc::new(disk::SimDisk::new());
        let (cache, _) = Cache::open(disk, &config.cache.path, config.cache.settings(), 0).unwrap();
        let table = UpstreamTable::new(&config, &local, Some(cache), None);
        let name = |group: &str| table.numbering(group.as_bytes()).map(|found| found.config.name.as_str());
        for (group, upstream) in [
            ("misc.test", Some("all")),
            ("comp.test", Some("comp")),
            ("comp.lang.c", Some("comp")),
            ("comp.lang.rust", Some("all")),
            ("local.test", None),
        ] {
            assert_eq!(name(group), upstream, "{group}");
        }
        let order = |group: Option<&[u8]>| -> Vec<&str> {
            table.in_order_of(group).iter().map(|upstream| upstream.config.name.as_str()).collect()
        };
        assert_eq!(order(None), ["all", "comp", "all again", "fill"]);
        assert_eq!(order(Some(b"misc.test")), ["all", "all again"]);
        let named =
            |name: &str| table.upstreams.iter().find(|upstream| upstream.config.name == name).unwrap();
        // Among equals the quicker one is first; upstreams of other ranks are not affected.
        named("all").pool.took(Duration::from_secs(1));
        named("comp").pool.took(Duration::from_millis(15));
        assert_eq!(order(None), ["comp", "all", "all again", "fill"]);
        assert_eq!(order(Some(b"misc.test")), ["all", "all again"]);
        // An upstream with wrong answers is asked last.
        named("comp").pool.told_wrong();
        assert_eq!(order(None), ["all", "all again", "fill", "comp"]);
    }
}
