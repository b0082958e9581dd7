//! Timed operations, for metrics.

use site::Site;
use spool::LatencyCounts;

/// A timed operation.
#[derive(Debug, Clone)]
pub(super) struct TimedOperation {
    pub name: &'static str,
    pub help: &'static str,
    pub counts: LatencyCounts,
}

/// Returns all timed operations.
pub(super) fn of(site: &Site) -> Vec<TimedOperation> {
    let latencies = &site.counters.latencies;
    let timed = |name, help, counts| TimedOperation { name, help, counts };
    vec![
        timed(
            "filing_seconds",
            "From an article's arrival, whole, until it is filed or rejected, without waiting for the disk",
            latencies.filing.counts(),
        ),
        timed(
            "writer_held_seconds",
            "How long the spool's one writer was held for an article, in equal parts for those of a batch",
            site.spool.held_latency(),
        ),
        timed("sync_seconds", "Syncs that made articles durable", site.spool.sync_latency()),
        timed(
            "article_seconds",
            "ARTICLE, from the command until the answer is with the socket or gathered for it",
            latencies.article.counts(),
        ),
        timed("over_seconds", "OVER and XOVER, as for ARTICLE", latencies.over.counts()),
        timed(
            "connecting_seconds",
            "From an accepted connection until its greeting can be said, TLS included if that comes first",
            latencies.connecting.counts(),
        ),
    ]
}
