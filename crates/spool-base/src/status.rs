//! The state of a spool in numbers, for `newsreel status` and metrics; taken in `care::status`.

use super::digest::SiteDigest;
use super::error::SpoolTrouble;

/// A cyclic volume.
#[derive(Debug, Clone, PartialEq)]
pub struct BufferStatus {
    /// Name of the volume.
    pub name: String,
    /// Name of its storage method.
    pub method: &'static str,
    /// Size of the file, or of the memory.
    pub size_bytes: u64,
    /// Space for records, in bytes.
    pub area_bytes: u64,
    /// Bytes between the oldest living record and the write position.
    pub used_bytes: u64,
    /// Number of the current cycle: times wrapped, from 1 (CNFS cycle number).
    pub cycle: u64,
    /// Offset of the write position in the area.
    pub free: u64,
    /// Arrival of the oldest living article, Unix seconds.
    pub oldest_arrival: Option<u64>,
    /// Bytes written in the last hour.
    pub written_hour_bytes: u64,
    /// Bytes written in the last day.
    pub written_day_bytes: u64,
    /// Bytes that a record takes beyond its article, on average over the last ones: header, padding and usage
    /// bits.
    pub record_overhead_bytes: Option<u64>,
    /// Share of the stored data that is compressed, from 0 to 1, from samples; `None`: the volume is empty.
    pub compressed_share: Option<f64>,
    /// Share of the stored data that belongs to withdrawn articles, from 0 to 1, from samples.
    pub holes_share: Option<f64>,
}

/// A volume that retains its articles until they are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptStatus {
    /// Name of the volume, which is that of its class.
    pub name: String,
    /// Name of its storage method.
    pub method: &'static str,
    /// Articles in the volume; cancelled ones are counted until expiry has passed them.
    pub articles: u64,
    /// Bytes of those articles as stored.
    pub bytes: u64,
    /// Whether it accepts no more articles for now.
    pub full: bool,
    /// Arrival of the oldest article, Unix seconds.
    pub oldest_arrival: Option<u64>,
    /// Bytes of the articles that arrived in the last hour.
    pub written_hour_bytes: u64,
    /// Bytes of the articles that arrived in the last day.
    pub written_day_bytes: u64,
    /// Capacity in bytes, including what is stored: of the files it may have, or of its file system.
    pub room_bytes: u64,
}

/// One storage class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassStatus {
    /// Name of the class.
    pub name: String,
    /// Name of its storage method.
    pub method: &'static str,
    /// Names of the buffers it writes to.
    pub buffers: Vec<String>,
    /// Articles sent to the overflow class since the start, as they would have displaced protected ones.
    pub spilled: u64,
    /// Articles not stored since the start, as neither the class nor an overflow could take them.
    pub turned_away: u64,
    /// Articles that its buffers have overwritten since the start although they had not left its ring;
    /// `None`: it has no ring.
    pub overwritten_early: Option<u64>,
}

/// A reader of the journal, such as a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderStatus {
    /// Name of the reader.
    pub name: String,
    /// Whether it has a cursor file.
    pub durable: bool,
    /// Position from which on rows are claimed for the reader.
    pub position: u64,
    /// Bytes of journal from that position to the end of the last row.
    pub backlog_bytes: u64,
    /// Bytes of journal that were removed before the reader had read them.
    pub lost_bytes: u64,
    /// Articles whose rows were among the lost bytes.
    pub lost_articles: u64,
    /// Damage of its file found since the spool was opened.
    pub damage: Option<CursorDamage>,
}

/// Damage of the file of a durable reader of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorDamage {
    /// One of its two copies was damaged; the reader continued with the other.
    OneCopy,
    /// Both copies were damaged; the reader went back to the oldest row.
    BothCopies,
    /// The file was missing; the reader went back to the oldest row.
    Missing,
}

impl CursorDamage {
    /// Reports whether the reader went back to the oldest row.
    pub fn went_back(self) -> bool {
        self != Self::OneCopy
    }
}

/// The whole spool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SpoolMetrics {
    /// Time at which volumes, classes and files were measured, Unix seconds; 0: not yet.
    pub measured: u64,
    /// Classes, in the order of the configuration.
    pub classes: Vec<ClassStatus>,
    /// Volumes, in the order of the configuration.
    pub buffers: Vec<BufferStatus>,
    /// Volumes that retain articles until they are due.
    pub kept: Vec<KeptStatus>,
    /// Number of carried groups.
    pub groups: u64,
    /// Number of living articles.
    pub articles: u64,
    /// Hidden articles among them.
    pub hidden: u64,
    /// Number of known Message-IDs.
    pub history_entries: u64,
    /// Digest of the site; see `Spool::digest` in `spool`.
    pub digest: Option<SiteDigest>,
    /// Bytes of history files.
    pub history_bytes: u64,
    /// Bytes of overview segments.
    pub overview_bytes: u64,
    /// Bytes of residents files.
    pub residents_bytes: u64,
    /// Bytes of both copies of the last checkpoint.
    pub checkpoint_bytes: u64,
    /// Bytes of kept journal files.
    pub journal_bytes: u64,
    /// Journal rows that would be replayed after a crash now.
    pub rows_to_replay: u64,
    /// Bytes ever written to the journal.
    pub journal_position: u64,
    /// Bytes of journal that a power cut now could take.
    pub undurable_bytes: u64,
    /// Bytes written by a busy feed whose memory was released to the machine since the spool was opened.
    pub released_bytes: u64,
    /// Readers of the journal.
    pub readers: Vec<ReaderStatus>,
    /// Message-IDs that a peer was asked to send and has not sent yet.
    pub offers: u64,
    /// Pages of mapped files that could not be read and were rebuilt since the spool was opened.
    pub mended_pages: u64,
    /// File names of articles that were skipped since the spool was opened, as unindexed files have them
    /// already.
    pub passed_over: u64,
    /// Savings by articles without numbers since the spool was opened; `None`: there were none.
    pub unnumbered: Option<RowSavings>,
    /// Reason why nothing is accepted at the moment.
    pub trouble: Option<SpoolTrouble>,
}

/// Savings by articles without numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowSavings {
    /// Number of articles.
    pub articles: u64,
    /// Bytes of overview rows that they would have, uncompressed.
    pub overview_bytes: u64,
    /// Minimum time that making and indexing those rows would have taken, in nanoseconds: measured here with
    /// everything in the processor's caches.
    pub nanos: u64,
}
