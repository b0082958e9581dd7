//! Everything that can be known of a running server, as one value: what `newsreel status` and its JSON print,
//! and what every other view of a server shows.
//!
//! A report ([`of_server`]) is taken without the spool's writer lock and without reading a disk, in well
//! under a millisecond for thousands of groups and a hundred peers. Figures that need the disk are measured
//! every few seconds by a task ([`measure`]). Knows no socket: the caller says where the server listens.

use super::archive::Archives;
use super::days;
use super::pull::standing::Pulls;
use super::retention;
use crate::pull::{PullCounts, PullDetails};
use feeds::Feeds;
pub use feeds::status::{FeedStatus, OutputStatus};
pub use ingest::programs::FilterStatus;
use ingest::programs::Programs;
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

/// Between two measurements of the spool.
const MEASURE_INTERVAL: Duration = Duration::from_secs(10);
/// How long a request for fresh figures waits for them, as the disk may not answer.
pub(crate) const FRESH_TIMEOUT: Duration = Duration::from_secs(10);

/// How the server and its spool are. Fields that only a running server knows are absent when `newsreel
/// status` reads the spool itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// newsreel's version.
    pub version: String,
    /// Our name in Path.
    pub path_identity: String,
    /// The running server; absent: none runs.
    pub server: Option<ServerStatus>,
    /// The spool.
    pub spool: SpoolStatus,
}

/// What a running server knows of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerStatus {
    /// Its process number.
    pub pid: u32,
    /// Seconds since it began to listen.
    pub uptime_secs: u64,
    /// The addresses it listens on, ports resolved.
    pub listen: Vec<String>,
    /// The addresses it listens on for HTTP.
    pub web: Vec<String>,
    /// Connections open now.
    pub connections: u64,
    /// Connections open now that are compressed.
    pub compressed: u64,
    /// Connections refused since the start: unknown addresses and limits.
    pub refused: u64,
    /// Connections of readers served since the start.
    pub readers_served: u64,
    /// How clients log in.
    pub logins: LoginStatus,
    /// Unix seconds at which the first of the certificates expires; absent: there is none.
    pub certificate_expires: Option<i64>,
    /// Times that another configuration took effect since the start.
    pub reloads: u64,
    /// The peers of the configuration, in its order.
    pub peers: Vec<PeerStatus>,
    /// Unix seconds since when no article is accepted, by order of the operator; absent: they are.
    pub paused_since: Option<u64>,
    /// Why, in the operator's words.
    pub paused_reason: String,
    /// Articles accepted since the start, from anyone.
    pub accepted: u64,
    /// Articles rejected since the start, from anyone.
    pub rejected: u64,
    /// Answers "try later" since the start.
    pub try_later: u64,
    /// Bytes of receive buffers beyond those that every connection has.
    pub receive_bytes: u64,
    /// Cancels and Supersedes that wait for the article they withdraw.
    pub early_cancels: u64,
    /// Articles that NoCeM notices listed before they came.
    pub early_hides: u64,
    /// Posts to moderated groups.
    pub moderation: ModerationStatus,
    /// Batches that wait in batches.incoming.
    pub batches: BatchesStatus,
    /// The pulls of the configuration, in its order.
    pub pulls: Vec<PullStatus>,
    /// The upstreams of the configuration, in its order.
    pub upstreams: Vec<UpstreamStatus>,
    /// What the cache was asked for; absent: there is none.
    pub cache: Option<CacheStatus>,
    /// The search index; absent: there is none.
    pub search: Option<SearchStatus>,
    /// The filter programs of the configuration, in its order.
    pub filters: Vec<FilterStatus>,
    /// The archives of the configuration, in its order.
    pub archives: Vec<ArchiveStatus>,
}

/// An archive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ArchiveStatus {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub path: String,
    /// When articles are copied, as the configuration writes it.
    pub when: String,
    /// What it is made of, as the configuration writes it.
    pub form: String,
    /// Articles copied, ever.
    pub archived: u64,
    /// Unix seconds of the last copy since the start; absent: there was none.
    pub last: Option<u64>,
    /// Bytes of journal that are to be looked at; absent: it copies articles when they leave.
    pub waiting_bytes: Option<u64>,
    /// Articles that went without a copy, ever.
    pub missed: u64,
    /// Articles that are due and wait for it, as it fails.
    pub held: u64,
    /// How long they wait at most, in seconds; absent: none does.
    pub gives_up_secs: Option<u64>,
    /// Why nothing can be copied now; empty: nothing is wrong.
    pub problem: String,
}

/// The search index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchStatus {
    /// Articles that it knows, among them some that are gone.
    pub articles: u64,
    /// Whether it knows all that were here when it was begun.
    pub is_complete: bool,
    /// Bytes of journal that it has not read yet.
    pub waiting_bytes: u64,
    /// How long it has not known all that has arrived, seconds.
    pub late_secs: u64,
    /// Whether it waits because a feed is busy.
    pub gives_way: bool,
    /// Why nothing is added now; empty: nothing is wrong.
    pub problem: String,
}

/// Logins since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginStatus {
    /// Those that succeeded.
    pub succeeded: u64,
    /// Those with a wrong name, password or proof.
    pub failed: u64,
    /// Failures that locked out an address or a user.
    pub lock_outs: u64,
    /// Attempts refused because of a lock-out.
    pub refused: u64,
}

/// Batches that come as files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchesStatus {
    /// Batches that wait to be filed.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// Batches filed since the start.
    pub filed: u64,
    /// Articles accepted from them.
    pub accepted: u64,
    /// Damaged pieces of them in quarantine.
    pub damaged: u64,
    /// Why the oldest one waits; empty: it does not, or nobody has looked yet.
    pub problem: String,
}

/// A standing pull.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PullStatus {
    /// Its name.
    pub name: String,
    /// The server.
    pub from: String,
    /// Unix seconds of the beginning of the run that is going on; absent: none is.
    pub running_since: Option<u64>,
    /// Unix seconds of the end of the last run, however it ended; absent: none has.
    pub last_run: Option<u64>,
    /// Everything that the server had then is here, Unix seconds; absent: no run was complete.
    pub complete: Option<u64>,
    /// Runs since the start.
    pub runs: u64,
    /// Articles fetched since the start.
    pub fetched: u64,
    /// Articles filed of them.
    pub accepted: u64,
    /// Counts of the run that is going on, or of the last one.
    pub run: PullCounts,
    /// What they do not say.
    pub details: PullDetails,
    /// Why the last run ended early; empty: it did not.
    pub last_error: String,
}

/// The queue of mails to moderators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModerationStatus {
    /// Mails that are to be sent.
    pub waiting: u64,
    /// Mails sent since the start.
    pub sent: u64,
    /// Mails put aside since the start, as they cannot be sent.
    pub failed: u64,
    /// Posts that wait for newsreel moderation.
    pub held: u64,
}

/// What one peer did since the start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Its name.
    pub name: String,
    /// Its connections now.
    pub connections: u64,
    /// Message-IDs it offered (IHAVE, CHECK, and TAKETHIS without CHECK).
    pub offered: u64,
    /// Articles accepted from it.
    pub accepted: u64,
    /// Articles it sent that were rejected.
    pub rejected: u64,
    /// What it is sent; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feed: Option<FeedStatus>,
}

/// How the spool is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpoolStatus {
    /// Its directory.
    pub dir: String,
    /// When an article counts as safely stored, as the configuration writes it.
    pub durability: String,
    /// Why it stopped accepting articles; absent: it accepts.
    pub stopped: Option<String>,
    /// Why it cannot be opened; the figures are then those of its last checkpoint and of the headers of its
    /// buffers. Absent: it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unopened: Option<String>,
    /// Articles that are stored.
    pub articles: u64,
    /// Of these, articles that are hidden.
    pub hidden: u64,
    /// Groups.
    pub groups: u64,
    /// Message-IDs in history.
    pub history_entries: u64,
    /// Message-IDs that peers were asked to send and have not sent yet.
    pub offers: u64,
    /// When what lies on disk was measured, Unix seconds: buffers, kept volumes, classes and sizes of files.
    pub measured: u64,
    /// Bytes of journal.
    pub journal_bytes: u64,
    /// Bytes ever written to the journal.
    pub journal_position: u64,
    /// Bytes of journal that a power cut now could take.
    pub undurable_bytes: u64,
    /// How much of what a busy feed has just written stays in memory, in bytes; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot_memory_bytes: Option<u64>,
    /// Bytes that busy feeds wrote and whose memory was given back, since the start.
    #[serde(default)]
    pub released_bytes: u64,
    /// What follows the journal.
    #[serde(default)]
    pub readers: Vec<ReaderStatus>,
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
    /// Names of articles' files that were passed over, as files that no index knows have them.
    pub passed_over: u64,
    /// Articles filed without numbers since the start (site.numbers), and what that saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unnumbered: Option<Unnumbered>,
    /// Bytes on disk for each article beyond its own; absent: there are too few articles to tell.
    pub overhead: Option<Overhead>,
    /// The classes.
    pub classes: Vec<ClassStatus>,
    /// The buffers.
    pub buffers: Vec<BufferStatus>,
    /// The volumes that keep their articles until they are due.
    pub kept: Vec<KeptStatus>,
}

/// What follows the journal, such as a feed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReaderStatus {
    /// Its name.
    pub name: String,
    /// It has a cursor file: its position outlives a restart, and its claim a stop.
    pub durable: bool,
    /// Rows from this position on are claimed for it.
    pub position: u64,
    /// Bytes of journal from there to the end.
    pub backlog_bytes: u64,
    /// Bytes of journal that were removed before it read them.
    pub lost_bytes: u64,
    /// Articles that it lost with them.
    pub lost_articles: u64,
    /// What was found wrong with its file since the start, and what was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

/// What articles without numbers have saved.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Unnumbered {
    /// How many there were.
    pub articles: u64,
    /// Bytes of overview that they would have, uncompressed.
    pub overview_bytes: u64,
    /// The least time that numbers and overview would have taken, in nanoseconds.
    pub nanos: u64,
}

/// Bytes on disk for each article beyond its own, on average.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Header, padding and usage bits of its record.
    pub record_bytes: u64,
    /// What is kept of the journal.
    pub journal_bytes: u64,
    /// History.
    pub history_bytes: u64,
    /// Overview.
    pub overview_bytes: u64,
    /// Residents.
    pub residents_bytes: u64,
    /// Both copies of the checkpoint: living numbers, and overview that is in no file of its own yet.
    pub checkpoint_bytes: u64,
}

impl Overhead {
    /// All of it.
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

/// How a class is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// Its method.
    pub method: String,
    /// Unix seconds of the arrival of its oldest article; absent: it has none.
    pub oldest_arrival: Option<u64>,
    /// Bytes written in a second, over the last hour.
    pub hour_bytes_per_sec: f64,
    /// The same over the last day.
    pub day_bytes_per_sec: f64,
    /// So many seconds an article stays at the last day's rate; absent: nothing was written, or not for an
    /// hour yet.
    pub stays_secs: Option<u64>,
    /// Bytes that it has room for.
    #[serde(default)]
    pub room_bytes: u64,
    /// The day of the last year on which most was stored, such as 2026-01-31; absent: no day is recorded.
    #[serde(default)]
    pub worst_day: Option<String>,
    /// How many seconds an article would stay if every day were like that.
    #[serde(default)]
    pub stays_worst_secs: Option<u64>,
    /// From when on articles will not stay as long as they should, Unix seconds; absent: they will, at the
    /// last day's rate.
    #[serde(default)]
    pub target_missed: Option<u64>,
    /// From when on they will not stay as long as is promised, likewise.
    #[serde(default)]
    pub promise_missed: Option<u64>,
    /// How long articles should stay, in seconds.
    pub keep_target_secs: Option<u64>,
    /// How long they are promised to stay, in seconds.
    pub keep_at_least_secs: Option<u64>,
    /// Articles that went to its overflow since the start.
    pub spilled: u64,
    /// Articles rejected since the start, as only what is promised to stay could have made room.
    pub turned_away: u64,
}

impl ClassStatus {
    /// Whether its articles are thrown away.
    pub fn keeps_nothing(&self) -> bool {
        self.method == "trash"
    }

    /// Whether its articles will not stay as long as they should.
    pub fn is_below_target(&self) -> bool {
        self.stays_secs.zip(self.keep_target_secs).is_some_and(|(stays, target)| stays < target)
    }
}

/// How a buffer is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BufferStatus {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Bytes of it that hold articles when it is full; 0 if that cannot be seen.
    #[serde(default)]
    pub area_bytes: u64,
    /// Bytes of it that hold articles.
    pub used_bytes: u64,
    /// Its cycle number: 1 until it wraps for the first time.
    pub cycle: u64,
    /// Where in the area of articles it is written next; 0 if the spool cannot be opened.
    #[serde(default)]
    pub head_bytes: u64,
    /// Bytes written in the last hour.
    #[serde(default)]
    pub written_hour_bytes: u64,
    /// Bytes written in the last day.
    #[serde(default)]
    pub written_day_bytes: u64,
    /// How much of what lies there is compressed, from 0 to 1, from samples; absent: nothing lies there.
    #[serde(default)]
    pub compressed_share: Option<f64>,
    /// How much of it belongs to no article any more, as that was withdrawn; from samples, likewise.
    #[serde(default)]
    pub holes_share: Option<f64>,
    /// Unix seconds of the arrival of its oldest article; absent: it is empty, or the spool cannot be opened.
    pub oldest_arrival: Option<u64>,
    /// There is no file of it: its disk is not mounted, and the spool cannot be opened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub away: bool,
}

/// How a volume is that keeps its articles until they are due.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptStatus {
    /// Its name, which is that of its class.
    pub name: String,
    /// Its method.
    pub method: String,
    /// Articles in it; cancelled ones are counted until expiry has passed them.
    pub articles: u64,
    /// Bytes of them as stored.
    pub bytes: u64,
    /// Bytes that it has room for, those in it included.
    pub room_bytes: u64,
    /// It accepts no more for now.
    pub full: bool,
    /// Unix seconds of the arrival of its oldest article; absent: it is empty.
    pub oldest_arrival: Option<u64>,
}

/// The report of a running server that listens on these addresses.
pub(crate) fn of_server(
    site: &Site,
    context: &SessionContext,
    (feeds, pulls, archives, upstreams): (&Feeds, &Pulls, &Archives, &Upstreams),
    (listen, web): (&[SocketAddr], &[SocketAddr]),
) -> Report {
    let config = site.config.load();
    let texts = |addresses: &[SocketAddr]| addresses.iter().map(ToString::to_string).collect();
    let server = server(site, (context, feeds), &config);
    let (pulls, archives) = (pulls.status(&config), archives.status(&site.spool));
    let (upstreams, cache) = (upstreams.status(), upstreams.cache_status());
    let (listen, web) = (texts(listen), texts(web));
    let server = ServerStatus { listen, web, pulls, archives, upstreams, cache, ..server };
    Report { server: Some(server), ..of_status(&site.spool.report(), &config) }
}

/// The report of a spool that no server has open; reads the disk.
pub fn of_spool(spool: &Spool, config: &Config) -> io::Result<Report> {
    let mut report = of_status(&spool.status()?, config);
    let history = days::history(&**spool.disk(), &config.site.data);
    days::foretell(&mut report.spool.classes, &history, unix_secs());
    Ok(report)
}

/// The report of a spool that cannot be opened, and why.
pub fn of_closed(glance: &Glance, why: String, config: &Config) -> Report {
    let buffer = |buffer: &GlancedBuffer| BufferStatus {
        name: buffer.config.name.clone(),
        size_bytes: buffer.config.size_bytes,
        area_bytes: buffer.area_bytes,
        used_bytes: buffer.used_bytes,
        cycle: buffer.cycle,
        away: buffer.is_away,
        ..BufferStatus::default()
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

/// Asks for measurements: the side of those who want fresh figures.
#[derive(Debug)]
pub struct Measuring {
    /// How often a measurement was asked for.
    asked: AtomicU64,
    wake: Notify,
    /// What `asked` was when the latest finished measurement began.
    done: watch::Sender<u64>,
}

impl Measuring {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { asked: AtomicU64::new(0), wake: Notify::new(), done: watch::Sender::new(0) })
    }

    /// Resolves after a measurement that begins after this call, or after so long if the disk does not
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
pub async fn measure(site: Arc<Site>, measuring: Arc<Measuring>) {
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
    // Nobody is to wait for another one.
    measuring.done.send_replace(u64::MAX);
}

fn server(site: &Site, (context, feeds): (&SessionContext, &Feeds), config: &Config) -> ServerStatus {
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
        filters: site.filer.with_filters(Programs::status),
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

fn of_status(status: &spool::Status, config: &Config) -> Report {
    Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        path_identity: config.site.path_identity.clone(),
        server: None,
        spool: spool_status(status, config),
    }
}

/// What was wrong with the file of a durable reader, and what it did.
fn cursor_damage(damage: spool::CursorDamage) -> &'static str {
    match damage {
        spool::CursorDamage::OneCopy => "one of two copies was damaged; it continued with the other",
        spool::CursorDamage::BothCopies => "its file was damaged; it went back to the oldest row",
        spool::CursorDamage::Missing => "its file was missing; it went back to the oldest row",
    }
}

fn spool_status(status: &spool::Status, config: &Config) -> SpoolStatus {
    let buffer = |buffer: &spool::BufferStatus| BufferStatus {
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
    let kept = |kept: &spool::KeptStatus| KeptStatus {
        name: kept.name.clone(),
        method: kept.method.to_owned(),
        articles: kept.articles,
        bytes: kept.bytes,
        room_bytes: kept.room_bytes,
        full: kept.full,
        oldest_arrival: kept.oldest_arrival,
    };
    let reader = |reader: &spool::ReaderStatus| ReaderStatus {
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
        unnumbered: status.unnumbered.map(|saved| Unnumbered {
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
