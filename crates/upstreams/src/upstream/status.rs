//! Status of an upstream since the start, and of the cache.

use super::posts::QueuedPostCounts;
use super::table::Upstream;
use newscache::{CacheStats, RequestKind};
use site_base::counters::read;
use site_base::figures;
use site_base::units::grouped;

figures! {
    /// Status of an upstream since the start.
    #[derive(Eq)]
    #[serde(default)]
    pub struct UpstreamStatus {
        /// Name of the upstream.
        name name: String,
        /// The server.
        text host: String =>
            text("server", Status)
            words("state" = |upstream, _| upstream.state().to_owned(), Status),
        /// Connections made.
        counter connections: u64 => count("connections", Status, Page),
        /// Most connections that the server lets us have at once, if it has refused one more; 0 if it has
        /// not.
        gauge connections_limit: u64 =>
            number("at most" = |upstream, _| upstream.limit_text(), Status, Page),
        /// Questions asked.
        counter questions: u64 => count("questions", Status, Page),
        /// Questions without an answer.
        counter failures: u64 => count("failures", Status, Page),
        /// Wrong answers.
        counter wrong: u64 => count("wrong", Status, Page),
        /// Bytes received.
        counter bytes: u64 => size("received", Status, Page),
        /// Posts waiting for the upstream.
        gauge posts_waiting: u64 => count("posts", Status, Page),
        /// Posts refused by the upstream and kept for the operator.
        gauge posts_refused: u64 => count("refused", Status, Page),
        /// Reason why it is away; empty if it answers, as far as is known.
        trouble("Whether the upstream is away") problem: String,
    }
}

impl UpstreamStatus {
    /// Returns `answers`, `away` or `not asked yet`.
    pub fn state(&self) -> &'static str {
        match (self.problem.is_empty(), self.questions) {
            (false, _) => "away",
            (true, 0) => "not asked yet",
            (true, _) => "answers",
        }
    }

    fn limit_text(&self) -> String {
        if self.connections_limit == 0 { "-".to_owned() } else { grouped(self.connections_limit) }
    }

    pub(super) fn of(upstream: &Upstream, posts: QueuedPostCounts) -> Self {
        let tally = &upstream.pool.tally;
        Self {
            name: upstream.config.name.clone(),
            host: upstream.config.host.clone(),
            connections: read(&tally.connections),
            connections_limit: upstream.pool.limit().map_or(0, |limit| limit as u64),
            questions: read(&tally.questions),
            failures: read(&tally.failures),
            wrong: read(&tally.wrong),
            bytes: read(&tally.bytes),
            posts_waiting: posts.waiting,
            posts_refused: posts.refused,
            problem: upstream.pool.problem().unwrap_or_default(),
        }
    }
}

figures! {
    /// Status of the cache, with the counts that it keeps across restarts.
    #[derive(Eq)]
    #[serde(default)]
    pub struct CacheStatus {
        /// Bytes used by its files.
        gauge used_bytes: u64,
        /// Bytes that its files may use.
        gauge size_bytes: u64,
        /// Number of files.
        gauge files: u64,
        /// Requests of readers by kind: "active", "group", "overview", "article".
        list("kind") kinds: Vec<CacheCounts>,
        /// Requests of readers by upstream.
        list("upstream") upstreams: Vec<CacheCounts>,
        /// Requests of readers by group, most requested first.
        hidden groups: Vec<CacheCounts>,
    }
}

figures! {
    /// Requests of one kind, upstream or group.
    #[derive(Eq)]
    #[serde(default)]
    pub struct CacheCounts {
        /// Name of the kind, upstream or group.
        name of: String,
        /// Number of requests.
        counter requests: u64 => count("requests", Status, Page),
        /// Requests answered completely from the cache.
        counter hits: u64 =>
            count("hits", Status, Page)
            number("share" = |counts, _| counts.share_text(), Status, Page),
        /// Bytes from the cache.
        counter cache_bytes: u64 => size("from cache", Status, Page),
        /// Bytes from upstream.
        counter upstream_bytes: u64 => size("from upstream", Status, Page),
    }
}

impl CacheCounts {
    /// Returns the share of requests that the cache answered.
    fn share_text(&self) -> String {
        match self.requests {
            0 => "-".to_owned(),
            requests => format!("{} %", self.hits * 100 / requests),
        }
    }
}

impl CacheStatus {
    /// Returns the status for the statistics of a cache.
    pub fn of(stats: &CacheStats) -> Self {
        let kinds = RequestKind::ALL.iter().zip(&stats.kinds);
        let groups = stats.groups.iter().map(|(name, counts)| (String::from_utf8_lossy(name), counts));
        Self {
            used_bytes: stats.used_bytes,
            size_bytes: stats.size_bytes,
            files: stats.files,
            kinds: kinds.map(|(kind, counts)| counted(kind.name(), &[*counts])).collect(),
            upstreams: stats.upstreams.iter().map(|(name, counts)| counted(name, counts)).collect(),
            groups: groups.map(|(name, counts)| counted(&name, counts)).collect(),
        }
    }
}

fn counted(of: &str, counts: &[newscache::RequestCounts]) -> CacheCounts {
    let sum = |field: fn(&newscache::RequestCounts) -> u64| counts.iter().map(field).sum();
    CacheCounts {
        of: of.to_owned(),
        requests: sum(|counts| counts.requests),
        hits: sum(|counts| counts.hits),
        cache_bytes: sum(|counts| counts.cache_bytes),
        upstream_bytes: sum(|counts| counts.upstream_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_that_was_not_asked_does_not_answer() {
        let state = |questions, problem: &str| {
            UpstreamStatus { questions, problem: problem.into(), ..UpstreamStatus::default() }.state()
        };
        assert_eq!([state(0, ""), state(1, ""), state(1, "refused")], ["not asked yet", "answers", "away"]);
    }
}
