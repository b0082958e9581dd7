//! The state of a spool in numbers, for `newsreel status` and metrics; taken in `care::status`.

use super::error::Trouble;

/// One volume.
#[derive(Debug, Clone, PartialEq)]
pub struct BufferStatus {
    /// Its name.
    pub name: String,
    /// Its method's name.
    pub method: &'static str,
    /// Its size: that of its file, or of its memory.
    pub size_bytes: u64,
    /// Room for records, in bytes.
    pub area_bytes: u64,
    /// Bytes between the oldest living record and the write position.
    pub used_bytes: u64,
    /// Times wrapped, from 1 (CNFS cycle number).
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
    /// How much of what lies there is compressed, from 0 to 1, from samples; `None`: nothing lies there.
    pub compressed_share: Option<f64>,
    /// How much of it belongs to no article any more, as that was withdrawn; from samples, likewise.
    pub holes_share: Option<f64>,
}

/// A volume that keeps its articles until they are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptStatus {
    /// Its name, which is that of its class.
    pub name: String,
    /// Its method's name.
    pub method: &'static str,
    /// Articles in it; cancelled ones are counted until expiry has passed them.
    pub articles: u64,
    /// Bytes of those articles as stored.
    pub bytes: u64,
    /// It takes no more for now.
    pub full: bool,
    /// Arrival of the oldest, Unix seconds.
    pub oldest_arrival: Option<u64>,
    /// Bytes of those that arrived in the last hour.
    pub written_hour_bytes: u64,
    /// Bytes of those that arrived in the last day.
    pub written_day_bytes: u64,
    /// Bytes that it has room for, those in it included: of the files it may have, or on its file system.
    pub room_bytes: u64,
}

/// One storage class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// Its method's name.
    pub method: &'static str,
    /// Names of the buffers it writes to.
    pub buffers: Vec<String>,
    /// Articles that went to its overflow since the start, as they would have displaced what is to stay.
    pub spilled: u64,
    /// Articles not stored since the start, as neither it nor an overflow could take them.
    pub turned_away: u64,
}

/// A reader of the journal, such as a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderStatus {
    /// Its name.
    pub name: String,
    /// It has a cursor file.
    pub durable: bool,
    /// Rows from here on are claimed for it.
    pub position: u64,
    /// Bytes of journal from there to the last row.
    pub backlog_bytes: u64,
    /// Bytes of journal that were removed before it read them.
    pub lost_bytes: u64,
    /// Articles whose rows were among them.
    pub lost_articles: u64,
    /// What was found wrong with its file since the spool was opened.
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
    /// Whether the reader went back to the oldest row.
    pub fn went_back(self) -> bool {
        self != Self::OneCopy
    }
}

/// The whole spool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Status {
    /// When its volumes, classes and files were measured, Unix seconds; 0: not yet.
    pub measured: u64,
    /// Classes, in the order of the configuration.
    pub classes: Vec<ClassStatus>,
    /// Volumes, in the order of the configuration.
    pub buffers: Vec<BufferStatus>,
    /// Volumes that keep.
    pub kept: Vec<KeptStatus>,
    /// Groups carried.
    pub groups: u64,
    /// Living articles.
    pub articles: u64,
    /// Of these, hidden articles.
    pub hidden: u64,
    /// Message-IDs known.
    pub history_entries: u64,
    /// Bytes of history files.
    pub history_bytes: u64,
    /// Bytes of overview segments.
    pub overview_bytes: u64,
    /// Bytes of residents files.
    pub residents_bytes: u64,
    /// Bytes of both copies of the last checkpoint.
    pub checkpoint_bytes: u64,
    /// Bytes of journal kept.
    pub journal_bytes: u64,
    /// Journal rows that a crash now would replay.
    pub rows_to_replay: u64,
    /// Bytes ever written to the journal.
    pub journal_position: u64,
    /// Bytes of journal that a power cut now could take.
    pub undurable_bytes: u64,
    /// Bytes that a busy feed wrote and whose memory was given back to the machine, since the spool was
    /// opened.
    pub released_bytes: u64,
    /// Readers of the journal.
    pub readers: Vec<ReaderStatus>,
    /// Message-IDs that a peer was asked to send and has not sent yet.
    pub offers: u64,
    /// Pages of mapped files that could not be read and were rebuilt since the spool was opened.
    pub mended_pages: u64,
    /// Names of articles' files that were passed over since the spool was opened, as files that no index
    /// knows have them.
    pub passed_over: u64,
    /// What articles without numbers have saved since the spool was opened; `None`: there were none.
    pub unnumbered: Option<Saved>,
    /// Why nothing is accepted at the moment.
    pub trouble: Option<Trouble>,
}

/// What articles without numbers save.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Saved {
    /// How many there were.
    pub articles: u64,
    /// Bytes of overview rows that they would have, uncompressed.
    pub overview_bytes: u64,
    /// What making and indexing those rows would have taken at least, in nanoseconds: with everything in the
    /// processor's caches, as measured here.
    pub nanos: u64,
}
