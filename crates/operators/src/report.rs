//! A report of everything known about a running server, as one value: the output of `newsreel status`, its
//! JSON, and the source of every other view of a server.
//!
//! A report ([`of_server`]) is taken without the spool's writer lock and without reading a disk, in well
//! under a millisecond for thousands of groups and a hundred peers. Figures that need the disk are measured
//! every few seconds by a task ([`measure`]). Knows no socket: the caller provides the server's addresses.

use super::archive::Archives;
use super::days;
use super::pull::standing::Pulls;
use super::retention;
use crate::pull::{PullCounts, PullDetails};
use feeds::Feeds;
pub use feeds::status::{FeedStatus, OutputStatus};
use ingest::programs::FilterPrograms;
pub use ingest::programs::FilterStatus;
use serde::{Deserialize, Serialize};
use site::Site;
use site::session::SessionContext;
use site_base::clock::{unix_now, unix_secs};
use site_base::counters::read;
use site_base::units;
use site_config::Config;
use spool::{Glance, GlancedBuffer, Spool};
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

/// State of the server and its spool. Fields that only a running server knows are absent when `newsreel
/// status` reads the spool itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of newsreel.
    pub version: String,
    /// Our name in Path.
    pub path_identity: String,
    /// The running server; absent if none runs.
    pub server: Option<ServerStatus>,
    /// The spool.
    pub spool: SpoolStatus,
}

/// State that only a running server knows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerStatus {
    /// Process number.
    pub pid: u32,
    /// Seconds since the server began to listen.
    pub uptime_secs: u64,
    /// Addresses it listens on, with resolved ports.
    pub listen: Vec<String>,
    /// Addresses it listens on for HTTP.
    pub web: Vec<String>,
    /// Connections open now.
    pub connections: u64,
    /// Connections open now that are compressed.
    pub compressed: u64,
    /// Connections refused since the start: unknown addresses and limits.
    pub refused: u64,
    /// Connections of readers served since the start.
    pub readers_served: u64,
    /// Logins of clients.
    pub logins: LoginStatus,
    /// Unix seconds at which the first of the certificates expires; absent if there is none.
    pub certificate_expires: Option<i64>,
    /// Changes of the configuration that took effect since the start.
    pub reloads: u64,
    /// Peers, in the order of the configuration.
    pub peers: Vec<PeerStatus>,
    /// Unix seconds since when the operator has paused the acceptance of articles; absent if not paused.
    pub paused_since: Option<u64>,
    /// Reason for the pause, in the operator's words.
    pub paused_reason: String,
    /// Articles accepted since the start, from all sources.
    pub accepted: u64,
    /// Articles rejected since the start, from all sources.
    pub rejected: u64,
    /// Articles deferred with "try later" since the start.
    pub try_later: u64,
    /// Bytes of receive buffers beyond those that every connection has.
    pub receive_bytes: u64,
    /// Cancels and Supersedes that wait for the article they withdraw.
    pub early_cancels: u64,
    /// Articles that NoCeM notices listed before their arrival.
    pub early_hides: u64,
    /// Posts to moderated groups.
    pub moderation: ModerationStatus,
    /// Batches that wait in batches.incoming.
    pub batches: BatchesStatus,
    /// Standing pulls, in the order of the configuration.
    pub pulls: Vec<PullStatus>,
    /// Upstreams, in the order of the configuration.
    pub upstreams: Vec<UpstreamStatus>,
    /// Requests to the cache; absent if there is none.
    pub cache: Option<CacheStatus>,
    /// The search index; absent if there is none.
    pub search: Option<SearchStatus>,
    /// Filter programs, in the order of the configuration.
    pub filters: Vec<FilterStatus>,
    /// Archives, in the order of the configuration.
    pub archives: Vec<ArchiveStatus>,
}

/// An archive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ArchiveStatus {
    /// Name.
    pub name: String,
    /// Directory.
    pub path: String,
    /// When articles are copied, as the configuration writes it.
    pub when: String,
    /// Form of the archive, as the configuration writes it.
    pub form: String,
    /// Number of articles ever copied.
    pub archived: u64,
    /// Unix seconds of the last copy since the start; absent if there was none.
    pub last: Option<u64>,
    /// Bytes of journal that are still to be read; absent if articles are copied on expiry.
    pub waiting_bytes: Option<u64>,
    /// Number of articles ever removed without a copy.
    pub missed: u64,
    /// Articles due that wait because the archive fails.
    pub held: u64,
    /// Longest time they still wait, in seconds; absent if none waits.
    pub gives_up_secs: Option<u64>,
    /// Reason why nothing can be copied now; empty if there is none.
    pub problem: String,
}

/// The search index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchStatus {
    /// Articles in the index, including some that have been removed.
    pub articles: u64,
    /// Whether it has all articles that were here when it was begun.
    pub is_complete: bool,
    /// Bytes of journal that it has not read yet.
    pub waiting_bytes: u64,
    /// Delay of the index behind the latest arrivals, in seconds.
    pub late_secs: u64,
    /// Whether it waits because a feed is busy.
    pub gives_way: bool,
    /// Reason why nothing is added now; empty if there is none.
    pub problem: String,
}

/// Logins since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginStatus {
    /// Successful logins.
    pub succeeded: u64,
    /// Logins with a wrong name, password or proof.
    pub failed: u64,
    /// Failures that locked out an address or a user.
    pub lock_outs: u64,
    /// Attempts refused because of a lock-out.
    pub refused: u64,
}

/// Batches that arrive as files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchesStatus {
    /// Batches that wait to be filed.
    pub waiting: u64,
    /// Bytes of waiting batches.
    pub waiting_bytes: u64,
    /// Batches filed since the start.
    pub filed: u64,
    /// Articles accepted from batches.
    pub accepted: u64,
    /// Damaged pieces of batches in quarantine.
    pub damaged: u64,
    /// Reason why the oldest batch waits; empty if it does not, or has not been tried yet.
    pub problem: String,
}

/// A standing pull.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PullStatus {
    /// Name.
    pub name: String,
    /// Server to pull from.
    pub from: String,
    /// Unix seconds of the start of the current run; absent if none is in progress.
    pub running_since: Option<u64>,
    /// Unix seconds of the end of the last run, with or without an error; absent if there was none.
    pub last_run: Option<u64>,
    /// Start in Unix seconds of the last complete run, as of which everything on the server is here; absent
    /// if there was none.
    pub complete: Option<u64>,
    /// Runs since the start.
    pub runs: u64,
    /// Articles fetched since the start.
    pub fetched: u64,
    /// Articles filed since the start.
    pub accepted: u64,
    /// Counts of the current or the last run.
    pub run: PullCounts,
    /// Details besides the counts.
    pub details: PullDetails,
    /// Reason why the last run ended early; empty if it did not.
    pub last_error: String,
}

/// The queue of mails to moderators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModerationStatus {
    /// Mails to be sent.
    pub waiting: u64,
    /// Mails sent since the start.
    pub sent: u64,
    /// Mails set aside since the start because they cannot be sent.
    pub failed: u64,
    /// Posts that wait for `newsreel moderation`.
    pub held: u64,
}

/// Figures of one peer since the start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Name.
    pub name: String,
    /// Open connections from the peer.
    pub connections: u64,
    /// Message-IDs offered by the peer (IHAVE, CHECK, and TAKETHIS without CHECK).
    pub offered: u64,
    /// Articles accepted from the peer.
    pub accepted: u64,
    /// Articles from the peer that were rejected.
    pub rejected: u64,
    /// The feed to the peer; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feed: Option<FeedStatus>,
}

/// State of the spool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpoolStatus {
    /// Directory.
    pub dir: String,
    /// Durability of stored articles, as the configuration writes it.
    pub durability: String,
    /// Reason why the spool stopped accepting articles; absent if it accepts them.
    pub stopped: Option<String>,
    /// Reason why the spool cannot be opened; the figures are then those of its last checkpoint and of the
    /// headers of its buffers. Absent if it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unopened: Option<String>,
    /// Articles stored.
    pub articles: u64,
    /// Hidden articles among these.
    pub hidden: u64,
    /// Groups.
    pub groups: u64,
    /// Message-IDs in history.
    pub history_entries: u64,
    /// Message-IDs of articles that peers were asked to send and have not sent yet.
    pub offers: u64,
    /// Unix seconds of the last measurement of data on disk: buffers, kept volumes, classes and file sizes.
    pub measured: u64,
    /// Bytes of journal.
    pub journal_bytes: u64,
    /// Bytes ever written to the journal.
    pub journal_position: u64,
    /// Bytes of journal that a power failure now could lose.
    pub undurable_bytes: u64,
    /// Bytes of recent writes of a busy feed that stay in memory; absent if all do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot_memory_bytes: Option<u64>,
    /// Bytes written by busy feeds whose memory was released, since the start.
    #[serde(default)]
    pub released_bytes: u64,
    /// Readers of the journal.
    #[serde(default)]
    pub readers: Vec<JournalReaderReport>,
    /// Journal rows that a start after a crash now would replay.
    pub rows_to_replay: u64,
    /// Bytes of history files.
    pub history_bytes: u64,
    /// Bytes of overview files.
    pub overview_bytes: u64,
    /// Bytes of residents files.
    pub residents_bytes: u64,
    /// Bytes of both copies of the last checkpoint.
    pub checkpoint_bytes: u64,
    /// Pages of mapped files that could not be read and were rebuilt.
    pub mended_pages: u64,
    /// File names of articles that were skipped, because files unknown to the indexes have them.
    pub passed_over: u64,
    /// Articles filed without numbers since the start (site.numbers), and the savings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unnumbered: Option<UnnumberedSavings>,
    /// Bytes on disk for each article beyond its own; absent with too few articles for an estimate.
    pub overhead: Option<Overhead>,
    /// The classes.
    pub classes: Vec<ClassReport>,
    /// The buffers.
    pub buffers: Vec<BufferReport>,
    /// Volumes that keep their articles until they are due.
    pub kept: Vec<KeptVolumeReport>,
}

/// A reader of the journal, such as a feed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JournalReaderReport {
    /// Name.
    pub name: String,
    /// Whether the reader has a cursor file, by which its position and its claim survive a restart.
    pub durable: bool,
    /// Position from which rows are claimed for the reader.
    pub position: u64,
    /// Bytes of journal from there to the end.
    pub backlog_bytes: u64,
    /// Bytes of journal that were removed before the reader reached them.
    pub lost_bytes: u64,
    /// Articles that it lost with them.
    pub lost_articles: u64,
    /// Damage found in the cursor file since the start, and its consequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

/// Savings by articles without numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UnnumberedSavings {
    /// Number of these articles.
    pub articles: u64,
    /// Bytes of overview saved, uncompressed.
    pub overview_bytes: u64,
    /// Lower bound for the time that numbers and overview would have taken, in nanoseconds.
    pub nanos: u64,
}

/// Bytes on disk for each article beyond its own, on average.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Header, padding and usage bits of the record.
    pub record_bytes: u64,
    /// Retained journal.
    pub journal_bytes: u64,
    /// History.
    pub history_bytes: u64,
    /// Overview.
    pub overview_bytes: u64,
    /// Residents.
    pub residents_bytes: u64,
    /// Both copies of the checkpoint: living numbers, and overview that is not in a file of its own yet.
    pub checkpoint_bytes: u64,
}

impl Overhead {
    /// Returns the total.
    pub fn sum(&self) -> u64 {
        let Self {
            record_bytes,
            journal_bytes,
            history_bytes,
            overview_bytes,
            residents_bytes,
            checkpoint_bytes,
        } = self;
        record_bytes + journal_bytes + history_bytes + overview_bytes + residents_bytes + checkpoint_bytes
    }
}

/// State of a class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassReport {
    /// Name.
    pub name: String,
    /// Storage method.
    pub method: String,
    /// Unix seconds of the arrival of the oldest article; absent if there is none.
    pub oldest_arrival: Option<u64>,
    /// Bytes written per second, over the last hour.
    pub hour_bytes_per_sec: f64,
    /// Bytes written per second, over the last day.
    pub day_bytes_per_sec: f64,
    /// Seconds that an article stays at the last day's rate; absent if nothing was written, or not for an
    /// hour yet.
    pub stays_secs: Option<u64>,
    /// Capacity in bytes.
    #[serde(default)]
    pub room_bytes: u64,
    /// Day of the last year on which most was stored, such as 2026-01-31; absent if no day is recorded.
    #[serde(default)]
    pub worst_day: Option<String>,
    /// Seconds that an article would stay if every day were like that.
    #[serde(default)]
    pub stays_worst_secs: Option<u64>,
    /// Unix seconds from which articles will not stay as long as they should; absent if they will, at the
    /// last day's rate.
    #[serde(default)]
    pub target_missed: Option<u64>,
    /// Unix seconds from which articles will not stay as long as promised, likewise.
    #[serde(default)]
    pub promise_missed: Option<u64>,
    /// Target for how long articles stay, in seconds.
    pub keep_target_secs: Option<u64>,
    /// Promise of how long articles stay, in seconds.
    pub keep_at_least_secs: Option<u64>,
    /// Articles that went to the overflow class since the start.
    pub spilled: u64,
    /// Articles rejected since the start, because only articles under the promise could have made room.
    pub turned_away: u64,
}

impl ClassReport {
    /// Returns whether the class discards its articles.
    pub fn keeps_nothing(&self) -> bool {
        self.method == "trash"
    }

    /// Returns whether the class will not keep articles as long as it should.
    pub fn is_below_target(&self) -> bool {
        self.stays_secs.zip(self.keep_target_secs).is_some_and(|(stays, target)| stays < target)
    }
}

/// State of a buffer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BufferReport {
    /// Name.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Bytes for articles when the buffer is full; 0 if unknown.
    #[serde(default)]
    pub area_bytes: u64,
    /// Bytes that hold articles.
    pub used_bytes: u64,
    /// Cycle number: 1 until the buffer wraps for the first time.
    pub cycle: u64,
    /// Write position in the area of articles; 0 if the spool cannot be opened.
    #[serde(default)]
    pub head_bytes: u64,
    /// Bytes written in the last hour.
    #[serde(default)]
    pub written_hour_bytes: u64,
    /// Bytes written in the last day.
    #[serde(default)]
    pub written_day_bytes: u64,
    /// Share of the stored articles that is compressed, from 0 to 1, from samples; absent if nothing is
    /// stored.
    #[serde(default)]
    pub compressed_share: Option<f64>,
    /// Share of the used bytes that belongs to withdrawn articles, from samples, likewise.
    #[serde(default)]
    pub holes_share: Option<f64>,
    /// Unix seconds of the arrival of the oldest article; absent if the buffer is empty, or the spool not
    /// open.
    pub oldest_arrival: Option<u64>,
    /// Whether the file is missing: its disk is not mounted, and the spool cannot be opened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub away: bool,
}

/// State of a volume that keeps its articles until they are due.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptVolumeReport {
    /// Name, which is that of the class.
    pub name: String,
    /// Storage method.
    pub method: String,
    /// Number of articles; cancelled ones are counted until expiry has passed them.
    pub articles: u64,
    /// Stored size of the articles, in bytes.
    pub bytes: u64,
    /// Capacity in bytes, including the articles.
    pub room_bytes: u64,
    /// Whether the volume accepts no more articles for now.
    pub full: bool,
    /// Unix seconds of the arrival of the oldest article; absent if the volume is empty.
    pub oldest_arrival: Option<u64>,
}

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
    Report { server: Some(server), ..of_status(&site.spool.report(), &config) }
}

/// Returns the report of a spool that no server has open; reads the disk.
pub fn of_spool(spool: &Spool, config: &Config) -> io::Result<Report> {
    let mut report = of_status(&spool.status()?, config);
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
        if let Err(error) = block_in_place(|| site.spool.measure()) {
            warn!(%error, "cannot measure the spool; its figures are those of the last time");
        }
        let now = site.spool.report().passed_over;
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
