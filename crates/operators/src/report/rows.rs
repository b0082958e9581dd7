//! The rows of a report: every figure with its type and help.
//!
//! The JSON of `newsreel status`, the metrics and `docs/figures.md` are made from them, and with the columns
//! after `=>` the tables of `newsreel status`, of `newsreel top` and of the operator's page. Columns that are
//! computed from several figures are in `texts`.

use super::texts::{ago, marked, overhead_text};
use crate::pull::{PullCounts, PullDetails};
use feeds::FeedStatus;
use ingest::programs::FilterStatus;
use ingest::{SpamCheckStatus, SpamSources};
use site_base::figures;
use site_base::units::{about_size, grouped};
use upstreams::{CacheStatus, UpstreamStatus};

figures! {
    /// State of the server and its spool. Fields that only a running server knows are absent when `newsreel
    /// status` reads the spool itself.
    pub struct Report {
        /// Version of newsreel.
        text version: String,
        /// Our name in Path.
        text path_identity: String,
        /// The running server; absent if none runs.
        part server: Option<ServerStatus>,
        /// The spool.
        part spool: SpoolStatus,
    }
}

figures! {
    /// State that only a running server knows.
    #[serde(default)]
    pub struct ServerStatus {
        /// Process number.
        gauge pid: u32,
        /// Seconds since the server began to listen.
        gauge uptime_secs: u64,
        /// Addresses it listens on, with resolved ports.
        hidden listen: Vec<String> => words("" = |server, _| server.listen.join(", "), Line("listens on")),
        /// Addresses it listens on for HTTP.
        hidden web: Vec<String> => words("" = |server, _| server.web.join(", "), Line("web on")),
        /// Connections open now.
        gauge connections: u64 => count("now", Line("connections")),
        /// Connections open now that are compressed.
        gauge compressed: u64 => count("of them compressed", Line("connections")),
        /// Connections refused since the start: unknown addresses and limits.
        counter refused: u64 => count("refused", Line("connections")),
        /// Connections of readers served since the start.
        counter readers_served: u64 => counted("reader", "served", Line("connections")),
        /// Overview rows read for pages of groups and threads since the start.
        counter page_rows: u64,
        /// Logins of clients.
        part logins: LoginStatus => part("logins"),
        /// Unix seconds at which the first of the certificates expires; absent if there is none.
        gauge certificate_expires: Option<i64> =>
            words("" = ServerStatus::certificate_text, Line("certificate")),
        /// Changes of the configuration that took effect since the start.
        counter reloads: u64 => count("", Line("reloads")),
        /// Peers, in the order of the configuration.
        list("peer") peers: Vec<PeerStatus>,
        /// Unix seconds since when the operator has paused the acceptance of articles; absent if not paused.
        gauge paused_since: Option<u64> => words("" = ServerStatus::paused_text, Line("PAUSED")),
        /// Reason for the pause, in the operator's words.
        text paused_reason: String,
        /// Articles accepted since the start, from all sources.
        counter accepted: u64 => count("accepted", Line("articles")),
        /// Articles rejected since the start, from all sources.
        counter rejected: u64 => count("rejected", Line("articles")),
        /// Articles deferred with "try later" since the start.
        counter try_later: u64 => count("to be tried later", Line("articles")),
        /// Bytes of receive buffers beyond those that every connection has.
        gauge receive_bytes: u64 => size("of receive buffers", Line("articles")),
        /// Cancels and Supersedes that wait for the article they withdraw.
        gauge early_cancels: u64 => count("waiting for their article", Line("cancels")),
        /// Articles that NoCeM notices listed before their arrival.
        gauge early_hides: u64 =>
            counted("article", "listed by notices before they came", Line("hides")),
        /// Posts to moderated groups.
        part moderation: ModerationStatus => part("moderation"),
        /// Batches that wait in batches.incoming.
        part batches: BatchesStatus =>
            part("batches")
            words("" = |server, _| server.batches.problem_text(), Line("NOT FILED")),
        /// Standing pulls, in the order of the configuration.
        list("pull") pulls: Vec<PullStatus>,
        /// Upstreams, in the order of the configuration.
        list("upstream") upstreams: Vec<UpstreamStatus>,
        /// Requests to the cache; absent if there is none.
        part cache: Option<CacheStatus>,
        /// The search index; absent if there is none.
        part search: Option<SearchStatus>,
        /// This server as a member of a cluster; absent if it is none.
        part cluster: Option<MemberFigures>,
        /// Filter programs, in the order of the configuration.
        list("filter") filters: Vec<FilterStatus>,
        /// Built-in filters that are on.
        list("check") spam: Vec<SpamCheckStatus>,
        /// Injecting sites and posting addresses that the built-in filters have seen most of, with counts of
        /// their articles.
        hidden spam_sources: SpamSources,
        /// Archives, in the order of the configuration.
        list("archive") archives: Vec<ArchiveStatus>,
    }
}

figures! {
    /// An archive.
    #[derive(Eq)]
    #[serde(default)]
    pub struct ArchiveStatus {
        /// Name.
        name name: String,
        /// When articles are copied, as the configuration writes it.
        text when: String => text("at", Status, Page),
        /// Form of the archive, as the configuration writes it.
        text form: String => text("form", Status, Page),
        /// Number of articles ever copied.
        counter archived: u64 => count("copied", Status, Page),
        /// Number of articles ever removed without a copy.
        counter missed: u64 => count("missed", Status, Page),
        /// Unix seconds of the last copy since the start; absent if there was none.
        gauge last: Option<u64> =>
            words("last copy" = |archive, now| ago(archive.last, "not since the start", now), Status, Page),
        /// Bytes of journal that are still to be read; absent if articles are copied on expiry.
        gauge waiting_bytes: Option<u64> => size("to read", Status, Page),
        /// Directory.
        text path: String => text("in", Status, Page),
        /// Articles due that wait because the archive fails.
        gauge held: u64,
        /// Longest time they still wait, in seconds; absent if none waits.
        gauge gives_up_secs: Option<u64>,
        /// Reason why nothing can be copied now; empty if there is none.
        trouble("Whether nothing can be copied now") problem: String,
    }
}

figures! {
    /// The search index.
    #[derive(Eq)]
    #[serde(default)]
    pub struct SearchStatus {
        /// Articles in the index, including some that have been removed.
        gauge articles: u64,
        /// Whether it has all articles that were here when it was begun.
        gauge is_complete: bool,
        /// Bytes of journal that it has not read yet.
        gauge waiting_bytes: u64,
        /// Delay of the index behind the latest arrivals, in seconds.
        gauge late_secs: u64,
        /// Whether it waits because a feed is busy.
        gauge gives_way: bool,
        /// Reason why nothing is added now; empty if there is none.
        trouble("Whether nothing can be added to the search index") problem: String,
    }
}

figures! {
    /// This server as a member of a cluster.
    #[derive(Eq)]
    #[serde(default)]
    pub struct MemberFigures {
        /// Name of the member.
        text member: String,
        /// State, in a few words.
        text state: String,
        /// Whether articles are accepted, as far as the log of the cluster has a say in that.
        gauge accepting: bool,
        /// Last message of the log that is applied here.
        gauge position: u64,
        /// First message that the log still has.
        gauge log_first: u64,
        /// Last message of the log.
        gauge log_last: u64,
        /// Messages of the log that are not applied here yet.
        gauge lag_messages: u64,
        /// Seconds since the log had something that is not applied here yet, or has answered, whichever is
        /// longer.
        gauge lag_secs: u64,
        /// Messages on their way to the log.
        gauge in_flight: u64,
        /// Messages that were sent to the log again, since the start.
        counter retries: u64,
        /// Answers to readers that were to be as fresh as the log, and may not have been, since the start.
        counter stale_reads: u64,
        /// Seconds for which a member may be away until the log has overtaken it, and it has to join again;
        /// while the log is not full, at the rate so far. Absent until it is known.
        gauge log_reach_secs: Option<u64>,
        /// Members that have not left, this one among them, as they have said last.
        list("member") members: Vec<ClusterMemberFigures>,
        /// Machines that keep the log.
        list("node") nodes: Vec<LogNodeFigures>,
    }
}

figures! {
    /// A member of the cluster.
    #[derive(Eq)]
    #[serde(default)]
    pub struct ClusterMemberFigures {
        /// Name.
        name name: String,
        /// Version of newsreel.
        text version: String,
        /// State, in a few words.
        text state: String,
        /// Whether it has reported lately, and has not stopped.
        gauge running: bool,
        /// Seconds since its last report; absent if it never made one.
        gauge silent_secs: Option<u64>,
        /// Last message of the log that it has applied.
        gauge position: u64,
        /// Messages of the log that it has not applied yet.
        gauge lag_messages: u64,
        /// Whether it has the same news as others at its position; absent if there are none to compare with.
        gauge agrees: Option<bool>,
        /// Number of jobs that it does, of those that one member does at a time.
        gauge leases: u64,
        /// The jobs, separated by spaces.
        text jobs: String,
    }
}

figures! {
    /// A machine that keeps the log of the cluster.
    #[derive(Eq)]
    #[serde(default)]
    pub struct LogNodeFigures {
        /// Name.
        name name: String,
        /// Whether it leads the log.
        gauge leads: bool,
        /// Whether it has everything.
        gauge current: bool,
    }
}

figures! {
    /// Logins since the start.
    #[derive(Copy, Eq)]
    pub struct LoginStatus {
        /// Successful logins.
        counter succeeded: u64 => count("succeeded", Status),
        /// Logins with a wrong name, password or proof.
        counter failed: u64 => count("failed", Status),
        /// Failures that locked out an address or a user.
        counter lock_outs: u64 => count("lock-outs", Status),
        /// Attempts refused because of a lock-out.
        counter refused: u64 => count("refused by them", Status),
    }
}

figures! {
    /// Batches that arrive as files.
    #[derive(Eq)]
    #[serde(default)]
    pub struct BatchesStatus {
        /// Batches that wait to be filed.
        gauge waiting: u64 => count("waiting", Status),
        /// Bytes of waiting batches.
        gauge waiting_bytes: u64 => size("in them", Status),
        /// Batches filed since the start.
        counter filed: u64 => count("filed", Status),
        /// Articles accepted from batches.
        counter accepted: u64 => counted("article", "accepted", Status),
        /// Damaged pieces of batches in quarantine.
        gauge damaged: u64 => counted("damaged piece", "in quarantine", Status),
        /// Reason why the oldest batch waits; empty if it does not, or has not been tried yet.
        trouble("Whether the oldest batch cannot be filed") problem: String,
    }
}

figures! {
    /// A standing pull.
    #[derive(Eq)]
    #[serde(default)]
    pub struct PullStatus {
        /// Name.
        name name: String,
        /// Server to pull from.
        text from: String => text("from", Status, Page),
        /// Unix seconds of the start of the current run; absent if none is in progress.
        gauge running_since: Option<u64>,
        /// Unix seconds of the end of the last run, with or without an error; absent if there was none.
        gauge last_run: Option<u64> => words("last run" = PullStatus::last_run_text, Status, Page),
        /// Start in Unix seconds of the last complete run, as of which everything on the server is here;
        /// absent if there was none.
        gauge complete: Option<u64> =>
            words("complete" = |pull, now| ago(pull.complete, "never", now), Status, Page)
            number("to do" = |pull, _| grouped(pull.run.total.saturating_sub(pull.run.done)), Status, Page),
        /// Runs since the start.
        counter runs: u64,
        /// Articles fetched since the start.
        counter fetched: u64 => count("fetched", Status, Page),
        /// Articles filed since the start.
        counter accepted: u64 => count("accepted", Status, Page),
        /// Counts of the current or the last run.
        part run: PullCounts,
        /// Details besides the counts.
        part details: PullDetails,
        /// Reason why the last run ended early; empty if it did not.
        trouble("Whether the last run ended early") last_error: String,
    }
}

figures! {
    /// The queue of mails.
    #[derive(Copy, Eq)]
    pub struct ModerationStatus {
        /// Mails to be sent.
        gauge waiting: u64 => count("to be mailed", Status),
        /// Mails sent since the start.
        counter sent: u64 => count("mailed", Status),
        /// Mails set aside since the start because they cannot be sent.
        gauge failed: u64 => count("put aside", Status),
        /// Posts that wait for `newsreel moderation`.
        gauge held: u64 => count("to approve", Status),
    }
}

figures! {
    /// Figures of one peer since the start.
    pub struct PeerStatus {
        /// Name.
        name name: String,
        /// Open connections from the peer.
        gauge connections: u64 => count("connections", Status, Page) count("conn", Top),
        /// Message-IDs offered by the peer (IHAVE, CHECK, and TAKETHIS without CHECK).
        counter offered: u64 => count("offered", Status, Page),
        /// Articles accepted from the peer.
        counter accepted: u64 => count("accepted", Status, Page) growth("from/s", Top),
        /// Articles from the peer that were rejected.
        counter rejected: u64 =>
            count("rejected", Status, Page)
            number("not wanted" = |peer, _| grouped(peer.not_wanted()), Page)
            growth("rejected/s", Top),
        /// The feed to the peer; absent if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part feed: Option<FeedStatus>,
    }
}

figures! {
    /// State of the spool.
    #[serde(default)]
    pub struct SpoolStatus {
        /// Directory.
        text dir: String,
        /// Durability of stored articles, as the configuration writes it.
        text durability: String,
        /// Reason why the spool stopped accepting articles; absent if it accepts them.
        trouble("Whether no articles are accepted") stopped: Option<String> =>
            words("" = |spool, _| spool.stopped.clone().unwrap_or_default(), Line("ACCEPTS NOTHING:")),
        /// Reason why the spool cannot be opened; the figures are then those of its last checkpoint and of
        /// the headers of its buffers. Absent if it is open.
        #[serde(skip_serializing_if = "Option::is_none")]
        hidden unopened: Option<String>,
        /// Articles stored.
        gauge articles: u64 => words("" = |spool, _| spool.articles_text(), Line("articles")),
        /// Hidden articles among these.
        gauge hidden: u64,
        /// Groups.
        gauge groups: u64,
        /// Message-IDs in history.
        gauge history_entries: u64 => counted("Message-ID", "in history", Line("articles")),
        /// Digest of all that readers, peers and history can see, in hexadecimal digits: equal for sites with
        /// one secret that have the same news. Absent if damage was repaired since the start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hidden digest: Option<String> =>
            words("" = |spool, _| spool.digest.clone().unwrap_or_default(), Line("digest")),
        /// First 48 bits of that digest, as a number; absent like it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gauge digest_start: Option<u64>,
        /// Message-IDs of articles that peers were asked to send and have not sent yet.
        gauge offers: u64 => count("requested from peers", Line("articles")),
        /// Unix seconds of the last measurement of data on disk: buffers, kept volumes, classes and file
        /// sizes.
        gauge measured: u64 => words("" = SpoolStatus::measured_text, Line("MEASURED")),
        /// Bytes of journal.
        gauge journal_bytes: u64 => size("", Line("journal")),
        /// Bytes ever written to the journal.
        counter journal_position: u64,
        /// Bytes of journal that a power failure now could lose.
        gauge undurable_bytes: u64 => size("of it not durable yet", Line("journal")),
        /// Bytes of recent writes of a busy feed that stay in memory; absent if all do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gauge hot_memory_bytes: Option<u64> =>
            size("of recent writes in memory", Line("busy feeds")),
        /// Bytes written by busy feeds whose memory was released, since the start.
        #[serde(default)]
        counter released_bytes: u64 =>
            words("released since the start" = |spool, _| spool.released_text(), Line("busy feeds")),
        /// Readers of the journal.
        #[serde(default)]
        list("reader") readers: Vec<JournalReaderReport>,
        /// Journal rows that a start after a crash now would replay.
        gauge rows_to_replay: u64 => counted("row", "to replay after a crash", Line("journal")),
        /// Bytes of history files.
        gauge history_bytes: u64 => size("of history", Line("indexes")),
        /// Bytes of overview files.
        gauge overview_bytes: u64 => size("of overview", Line("indexes")),
        /// Bytes of residents files.
        gauge residents_bytes: u64 => size("of residents", Line("indexes")),
        /// Bytes of both copies of the last checkpoint.
        gauge checkpoint_bytes: u64 => size("of checkpoints", Line("indexes")),
        /// Pages of mapped files that could not be read and were rebuilt.
        counter mended_pages: u64 => some("unreadable pages rebuilt", Line("repaired")),
        /// File names of articles that were skipped, because files unknown to the indexes have them.
        counter passed_over: u64 =>
            some("names skipped: files that no index knows have them", Line("file names")),
        /// Articles filed without numbers since the start (site.numbers), and the savings.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part unnumbered: Option<UnnumberedSavings> =>
            words("" = |spool, _| spool.unnumbered_text(), Line("unnumbered")),
        /// Bytes on disk for each article beyond its own; absent with too few articles for an estimate.
        part overhead: Option<Overhead> =>
            words("" = |spool, _| overhead_text(spool.overhead.as_ref()), Line("overhead")),
        /// The classes.
        list("class") classes: Vec<ClassReport>,
        /// The buffers.
        list("buffer") buffers: Vec<BufferReport>,
        /// Volumes that keep their articles until they are due.
        list("volume") kept: Vec<KeptVolumeReport>,
    }
}

figures! {
    /// A reader of the journal, such as a feed.
    pub struct JournalReaderReport {
        /// Name.
        name name: String,
        /// Whether the reader has a cursor file, by which its position and its claim survive a restart.
        gauge durable: bool,
        /// Position from which rows are claimed for the reader.
        gauge position: u64 => count("position", Status),
        /// Bytes of journal from there to the end.
        gauge backlog_bytes: u64 => size("backlog", Status),
        /// Bytes of journal that were removed before the reader reached them.
        counter lost_bytes: u64,
        /// Articles that it lost with them.
        counter lost_articles: u64 => count("articles lost", Status),
        /// Damage found in the cursor file since the start, and its consequence.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hidden damage: Option<String> => words("" = |reader, _| reader.note(), Status),
    }
}

figures! {
    /// Savings by articles without numbers.
    pub struct UnnumberedSavings {
        /// Number of these articles.
        counter articles: u64,
        /// Bytes of overview saved, uncompressed.
        counter overview_bytes: u64,
        /// Lower bound for the time that numbers and overview would have taken, in nanoseconds.
        counter nanos: u64,
    }
}

figures! {
    /// Bytes on disk for each article beyond its own, on average.
    pub struct Overhead {
        /// Header, padding and usage bits of the record.
        gauge record_bytes: u64,
        /// Retained journal.
        gauge journal_bytes: u64,
        /// History.
        gauge history_bytes: u64,
        /// Overview.
        gauge overview_bytes: u64,
        /// Residents.
        gauge residents_bytes: u64,
        /// Both copies of the checkpoint: living numbers, and overview that is not in a file of its own yet.
        gauge checkpoint_bytes: u64,
    }
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

figures! {
    /// State of a class.
    pub struct ClassReport {
        /// Name.
        name name: String,
        /// Storage method.
        text method: String => text("method", Status),
        /// Unix seconds of the arrival of the oldest article; absent if there is none.
        gauge oldest_arrival: Option<u64> => age("oldest article", Status),
        /// Bytes written per second, over the last hour.
        gauge hour_bytes_per_sec: f64 => rate("last hour", Status),
        /// Bytes written per second, over the last day.
        gauge day_bytes_per_sec: f64 => rate("last day", Status),
        /// Seconds that an article stays at the last day's rate; absent if nothing was written, or not for an
        /// hour yet.
        gauge stays_secs: Option<u64> => number("articles stay" = |class, _| class.stays_text(), Status),
        /// Capacity in bytes.
        #[serde(default)]
        gauge room_bytes: u64,
        /// Day of the last year on which most was stored, such as 2026-01-31; absent if no day is recorded.
        #[serde(default)]
        hidden worst_day: Option<String>,
        /// Seconds that an article would stay if every day were like that.
        #[serde(default)]
        gauge stays_worst_secs: Option<u64> => span("worst day", Status),
        /// Unix seconds from which articles will not stay as long as they should; absent if they will, at the
        /// last day's rate.
        #[serde(default)]
        gauge target_missed: Option<u64>,
        /// Unix seconds from which articles will not stay as long as promised, likewise.
        #[serde(default)]
        gauge promise_missed: Option<u64>,
        /// Target for how long articles stay, in seconds.
        gauge keep_target_secs: Option<u64> => span("target", Status),
        /// Promise of how long articles stay, in seconds.
        gauge keep_at_least_secs: Option<u64> => span("promise", Status),
        /// Articles that went to the overflow class since the start.
        counter spilled: u64,
        /// Articles rejected since the start, because only articles under the promise could have made room.
        counter turned_away: u64,
        /// Articles that were overwritten since the start although they had not left the ring of the class.
        #[serde(default)]
        counter overwritten_early: u64 => words("" = ClassReport::notes, Status),
    }
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

figures! {
    /// State of a buffer.
    pub struct BufferReport {
        /// Name.
        name name: String,
        /// Size in bytes.
        gauge size_bytes: u64 => size("size", Status),
        /// Bytes for articles when the buffer is full; 0 if unknown.
        #[serde(default)]
        gauge area_bytes: u64,
        /// Bytes that hold articles.
        gauge used_bytes: u64 =>
            number("used" = |buffer, _| buffer.if_here(about_size(buffer.used_bytes)), Status)
            number("%" = |buffer, _| buffer.if_here(buffer.used_percent()), Status),
        /// Cycle number: 1 until the buffer wraps for the first time.
        gauge cycle: u64 =>
            number("cycle" = |buffer, _| buffer.if_here(buffer.cycle.to_string()), Status),
        /// Write position in the area of articles; 0 if the spool cannot be opened.
        #[serde(default)]
        gauge head_bytes: u64,
        /// Bytes written in the last hour.
        #[serde(default)]
        gauge written_hour_bytes: u64,
        /// Bytes written in the last day.
        #[serde(default)]
        gauge written_day_bytes: u64,
        /// Share of the stored articles that is compressed, from 0 to 1, from samples; absent if nothing is
        /// stored.
        #[serde(default)]
        gauge compressed_share: Option<f64>,
        /// Share of the used bytes that belongs to withdrawn articles, from samples, likewise.
        #[serde(default)]
        gauge holes_share: Option<f64>,
        /// Unix seconds of the arrival of the oldest article; absent if the buffer is empty, or the spool not
        /// open.
        gauge oldest_arrival: Option<u64> => number("oldest article" = BufferReport::oldest_text, Status),
        /// Whether the file is missing: its disk is not mounted, and the spool cannot be opened.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        hidden away: bool => words("" = |buffer, _| marked(buffer.away, "AWAY"), Status),
    }
}

figures! {
    /// State of a volume that keeps its articles until they are due.
    pub struct KeptVolumeReport {
        /// Name, which is that of the class.
        name name: String,
        /// Storage method.
        text method: String => text("method", Status),
        /// Number of articles; cancelled ones are counted until expiry has passed them.
        gauge articles: u64 => count("articles", Status),
        /// Stored size of the articles, in bytes.
        gauge bytes: u64 => size("size", Status),
        /// Capacity in bytes, including the articles.
        gauge room_bytes: u64 => size("room", Status),
        /// Whether the volume accepts no more articles for now.
        gauge full: bool,
        /// Unix seconds of the arrival of the oldest article; absent if the volume is empty.
        gauge oldest_arrival: Option<u64> =>
            age("oldest article", Status)
            words("" = |kept, _| marked(kept.full, "FULL"), Status),
    }
}
