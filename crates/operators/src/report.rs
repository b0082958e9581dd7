//! A report of everything known about a running server, as one value: the output of `newsreel status`, its
//! JSON, and the source of every other view of a server.
//!
//! A report ([`of_server`]) is taken without the spool's writer lock and without reading a disk, in well
//! under a millisecond for thousands of groups and a hundred peers. Figures that need the disk are measured
//! every few seconds by a task ([`measure`]). Knows no socket: the caller provides the server's addresses.

pub mod page;
mod rows;
mod texts;

pub use rows::{
    ArchiveStatus, BatchesStatus, BufferReport, ClassReport, ClusterMemberFigures, JournalReaderReport,
    KeptVolumeReport, LogNodeFigures, LoginStatus, MemberFigures, ModerationStatus, Overhead, PeerStatus,
    PullStatus, Report, SearchStatus, ServerStatus, SpoolStatus, UnnumberedSavings,
};

use super::archive::Archives;
use super::days;
use super::pull::standing::Pulls;
use super::retention;
use feeds::Feeds;
pub use feeds::{FeedStatus, OutputStatus};
use ingest::programs::FilterPrograms;
pub use ingest::programs::FilterStatus;
pub use ingest::{SourceCounts, SpamCheckStatus, SpamSource, SpamSources};
use site::Site;
use site::session::SessionContext;
use site_base::clock::{unix_now, unix_secs};
use site_base::counters::read;
use site_base::units;
use site_config::Config;
use spool::{
    Glance, GlancedBuffer, LogNodeOverview, MemberOverview, SharedLogOverview, SharedLogStatus, Spool,
};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::block_in_place;
use tokio::time::{sleep, timeout};
use tracing::warn;
use upstreams::Upstreams;
pub use upstreams::{CacheCounts, CacheStatus, UpstreamStatus};

/// Time between two measurements of the spool.
const MEASURE_INTERVAL: Duration = Duration::from_secs(10);
/// Time that a request for fresh figures waits for them, as the disk may not answer.
pub(crate) const FRESH_TIMEOUT: Duration = Duration::from_secs(10);

/// Parts of a server that report on themselves.
#[derive(Clone, Copy)]
pub(crate) struct ReportSources<'a> {
    pub feeds: &'a Feeds,
    pub pulls: &'a Pulls,
    pub archives: &'a Archives,
    pub upstreams: &'a Upstreams,
}

/// Returns the report of a running server that listens on these addresses, for newsreaders and peers
/// (`listen`) and for browsers (`web`).
pub(crate) fn of_server(
    site: &Site,
    context: &SessionContext,
    sources: ReportSources<'_>,
    listen: &[SocketAddr],
    web: &[SocketAddr],
) -> Report {
    let config = site.config.load();
    let texts = |addresses: &[SocketAddr]| addresses.iter().map(ToString::to_string).collect();
    let ReportSources { feeds, pulls, archives, upstreams } = sources;
    let server = server(site, context, feeds, &config);
    let (pulls, archives) = (pulls.status(&config), archives.status(&site.spool));
    let (upstreams, cache) = (upstreams.status(), upstreams.cache_status());
    let (listen, web) = (texts(listen), texts(web));
    let server = ServerStatus { listen, web, pulls, archives, upstreams, cache, ..server };
    Report { server: Some(server), ..of_status(&site.spool.meter().report(), &config) }
}

/// Returns the report of a spool that no server has open; reads the disk.
pub fn of_spool(spool: &Spool, config: &Config) -> io::Result<Report> {
    let mut report = of_status(&spool.meter().status()?, config);
    let history = days::history(&**spool.disk(), &config.site.data);
    days::foretell(&mut report.spool.classes, &history, unix_secs());
    Ok(report)
}

/// Returns the report of a spool that cannot be opened, with the reason.
pub fn of_closed(glance: &Glance, why: String, config: &Config) -> Report {
    let buffer = |buffer: &GlancedBuffer| BufferReport {
        name: buffer.config.name.clone(),
        size_bytes: buffer.config.size_bytes,
        area_bytes: buffer.area_bytes,
        used_bytes: buffer.used_bytes,
        cycle: buffer.cycle,
        away: buffer.is_away,
        ..BufferReport::default()
    };
    Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        path_identity: config.site.path_identity.clone(),
        server: None,
        spool: SpoolStatus {
            dir: config.site.data.display().to_string(),
            durability: units::durability_text(config.site.durability),
            unopened: Some(why),
            articles: glance.articles,
            groups: glance.groups,
            measured: unix_secs(),
            buffers: glance.buffers.iter().map(buffer).collect(),
            ..SpoolStatus::default()
        },
    }
}

/// Requests for fresh measurements.
#[derive(Debug)]
pub struct MeasureRequests {
    /// Number of measurements requested.
    asked: AtomicU64,
    wake: Notify,
    /// Value of `asked` when the latest finished measurement began.
    done: watch::Sender<u64>,
}

impl MeasureRequests {
    /// Returns the means of requesting measurements from [`measure`], which answers them.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { asked: AtomicU64::new(0), wake: Notify::new(), done: watch::Sender::new(0) })
    }

    /// Resolves after a measurement that begins after this call, or after `at_most` if the disk does not
    /// answer.
    pub async fn refresh(&self, at_most: Duration) {
        let mut done = self.done.subscribe();
        let own = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        self.wake.notify_one();
        if timeout(at_most, done.wait_for(|done| *done >= own)).await.is_err() {
            warn!("measuring the spool takes long; the figures are those of the last time");
        }
    }
}

/// Measures the spool every few seconds and when asked, until the server stops.
pub async fn measure(site: Arc<Site>, measuring: Arc<MeasureRequests>) {
    let mut stopping = pin!(site.stopping());
    let mut passed_over = 0;
    loop {
        let asked = measuring.asked.load(Ordering::Acquire);
        if let Err(error) = block_in_place(|| site.spool.meter().measure()) {
            warn!(%error, "cannot measure the spool; its figures are those of the last time");
        }
        let now = site.spool.meter().report().passed_over;
        if now > passed_over {
            let names = now - passed_over;
            warn!(names, "names were passed over: files that no index knows have them; see newsreel verify");
            passed_over = now;
        }
        measuring.done.send_replace(asked);
        tokio::select! {
            () = &mut stopping => break,
            () = measuring.wake.notified() => {}
            () = sleep(MEASURE_INTERVAL) => {}
        }
    }
    // Requests for another measurement must not wait.
    measuring.done.send_replace(u64::MAX);
}

fn server(site: &Site, context: &SessionContext, feeds: &Feeds, config: &Config) -> ServerStatus {
    let (counters, logins, moderation) = (&site.counters, &site.gate.logins, context.injector.moderation());
    let peer = |peer: &site_config::Peer| {
        let counters = counters.of_peer(&peer.name);
        PeerStatus {
            name: peer.name.clone(),
            connections: site.permits.of_peer(&peer.name) as u64,
            offered: read(&counters.offered),
            accepted: read(&counters.accepted),
            rejected: read(&counters.rejected),
            feed: feeds.status(&peer.name),
        }
    };
    let paused = site.filer.paused();
    ServerStatus {
        pid: std::process::id(),
        uptime_secs: site.started.elapsed().as_secs(),
        listen: Vec::new(),
        web: Vec::new(),
        connections: site.permits.all() as u64,
        compressed: site.compressed.connections() as u64,
        refused: read(&counters.refused),
        readers_served: read(&counters.readers_served),
        page_rows: read(&counters.page_rows),
        logins: LoginStatus {
            succeeded: read(&logins.succeeded),
            failed: read(&logins.failed),
            lock_outs: read(&logins.lock_outs),
            refused: read(&logins.refused),
        },
        certificate_expires: site.tls.load().as_ref().and_then(|offer| offer.current().expires()),
        reloads: site.reloads(),
        peers: config.peers.iter().map(peer).collect(),
        paused_since: paused.as_ref().map(|paused| paused.since),
        paused_reason: paused.map_or_else(String::new, |paused| paused.reason.clone()),
        accepted: read(&counters.accepted),
        rejected: read(&counters.rejected),
        try_later: read(&counters.try_later),
        receive_bytes: context.budget.bytes() as u64,
        filters: site.filer.with_filters(FilterPrograms::status),
        spam: site.filer.spam_status(),
        spam_sources: site.filer.spam_sources(),
        early_cancels: site.filer.early_cancels() as u64,
        early_hides: site.filer.early_hides() as u64,
        moderation: ModerationStatus {
            waiting: moderation.waiting() as u64,
            sent: read(&moderation.sent),
            failed: moderation.failed(),
            held: moderation.held().len() as u64,
        },
        batches: BatchesStatus {
            waiting: read(&site.waiting.batches),
            waiting_bytes: read(&site.waiting.bytes),
            filed: read(&site.waiting.filed),
            accepted: read(&site.waiting.accepted),
            damaged: read(&site.waiting.damaged),
            problem: site.waiting.problem.lock().clone(),
        },
        pulls: Vec::new(),
        archives: Vec::new(),
        upstreams: Vec::new(),
        cache: None,
        search: None,
        cluster: site.spool.shared_log().map(|log| member(&log.status(), log.overview())),
    }
}

fn member(status: &SharedLogStatus, overview: SharedLogOverview) -> MemberFigures {
    let node = |node: LogNodeOverview| LogNodeFigures {
        name: node.name,
        leads: node.leads,
        current: node.is_current,
    };
    MemberFigures {
        member: status.member.clone(),
        state: status.state.clone(),
        accepting: status.is_accepting,
        position: status.position,
        log_first: status.log_first,
        log_last: status.log_last,
        lag_messages: status.log_last.saturating_sub(status.position),
        lag_secs: status.behind_ms / 1_000,
        in_flight: status.in_flight as u64,
        retries: status.retries,
        stale_reads: status.stale_reads,
        log_reach_secs: overview.reach_secs,
        members: overview.members.into_iter().map(cluster_member).collect(),
        nodes: overview.nodes.into_iter().map(node).collect(),
    }
}

fn cluster_member(member: MemberOverview) -> ClusterMemberFigures {
    ClusterMemberFigures {
        name: member.name,
        version: member.version,
        state: member.state,
        running: member.may_run,
        silent_secs: member.silent_secs,
        position: member.position,
        lag_messages: member.lag,
        agrees: member.agrees,
        leases: member.jobs.len() as u64,
        jobs: member.jobs.join(" "),
    }
}

fn of_status(status: &spool::SpoolMetrics, config: &Config) -> Report {
    Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        path_identity: config.site.path_identity.clone(),
        server: None,
        spool: spool_status(status, config),
    }
}

/// Describes the damage to the file of a durable reader, and its consequence.
fn cursor_damage(damage: spool::CursorDamage) -> &'static str {
    match damage {
        spool::CursorDamage::OneCopy => "one of two copies was damaged; it continued with the other",
        spool::CursorDamage::BothCopies => "its file was damaged; it went back to the oldest row",
        spool::CursorDamage::Missing => "its file was missing; it went back to the oldest row",
    }
}

fn spool_status(status: &spool::SpoolMetrics, config: &Config) -> SpoolStatus {
    let buffer = |buffer: &spool::BufferStatus| BufferReport {
        name: buffer.name.clone(),
        size_bytes: buffer.size_bytes,
        area_bytes: buffer.area_bytes,
        used_bytes: buffer.used_bytes,
        cycle: buffer.cycle,
        head_bytes: buffer.free,
        written_hour_bytes: buffer.written_hour_bytes,
        written_day_bytes: buffer.written_day_bytes,
        compressed_share: buffer.compressed_share,
        holes_share: buffer.holes_share,
        oldest_arrival: buffer.oldest_arrival,
        away: false,
    };
    let kept = |kept: &spool::KeptStatus| KeptVolumeReport {
        name: kept.name.clone(),
        method: kept.method.to_owned(),
        articles: kept.articles,
        bytes: kept.bytes,
        room_bytes: kept.room_bytes,
        full: kept.full,
        oldest_arrival: kept.oldest_arrival,
    };
    let reader = |reader: &spool::ReaderStatus| JournalReaderReport {
        name: reader.name.clone(),
        durable: reader.durable,
        position: reader.position,
        backlog_bytes: reader.backlog_bytes,
        lost_bytes: reader.lost_bytes,
        lost_articles: reader.lost_articles,
        damage: reader.damage.map(|damage| cursor_damage(damage).to_owned()),
    };
    SpoolStatus {
        dir: config.site.data.display().to_string(),
        durability: units::durability_text(config.site.durability),
        stopped: status.trouble.as_ref().map(|trouble| trouble.text.clone()),
        unopened: None,
        articles: status.articles,
        hidden: status.hidden,
        groups: status.groups,
        history_entries: status.history_entries,
        digest: status.digest.map(|digest| digest.to_string()),
        digest_start: status.digest.map(spool::SiteDigest::first_bits),
        offers: status.offers,
        measured: status.measured,
        journal_bytes: status.journal_bytes,
        journal_position: status.journal_position,
        undurable_bytes: status.undurable_bytes,
        hot_memory_bytes: Some(config.site.hot_memory).filter(|bytes| *bytes != u64::MAX),
        released_bytes: status.released_bytes,
        readers: status.readers.iter().map(reader).collect(),
        rows_to_replay: status.rows_to_replay,
        history_bytes: status.history_bytes,
        overview_bytes: status.overview_bytes,
        residents_bytes: status.residents_bytes,
        checkpoint_bytes: status.checkpoint_bytes,
        mended_pages: status.mended_pages,
        passed_over: status.passed_over,
        unnumbered: status.unnumbered.map(|saved| UnnumberedSavings {
            articles: saved.articles,
            overview_bytes: saved.overview_bytes,
            nanos: saved.nanos,
        }),
        overhead: retention::overhead(status),
        classes: retention::classes(status, config, unix_now()),
        buffers: status.buffers.iter().map(buffer).collect(),
        kept: status.kept.iter().map(kept).collect(),
    }
}

#[cfg(test)]
mod tests;
