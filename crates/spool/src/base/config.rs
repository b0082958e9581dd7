//! The spool's configuration: buffers, classes, rules, durability. The server's TOML file is translated into
//! this.

use crate::base::token::MethodKind;
use std::path::PathBuf;
use std::time::Duration;

/// A cyclic buffer ("rawpart", CNFS-01).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferConfig {
    /// Unique name, at most 15 bytes; first part of a token's text form.
    pub name: String,
    /// File or block device.
    pub path: PathBuf,
    /// Size of the whole file in bytes, headers and bitmap included; 0: what the file or device has.
    pub size_bytes: u64,
    /// Unit in which records start; a power of two, 64 to 16384.
    pub block_bytes: u32,
    /// Whether it accepts no more articles; those it holds stay.
    pub retired: bool,
}

/// How a class picks among its buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Round-robin, a stripe each (CNFS-04).
    #[default]
    Interleave,
    /// One buffer until it wraps, then the next.
    Sequential,
}

/// A storage class ("metarawpart", CNFS-20).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassConfig {
    /// Unique name.
    pub name: String,
    /// The storage method.
    pub method: MethodKind,
    /// For `cnfs`: names of its buffers.
    pub buffers: Vec<String>,
    /// For `cnfs`: how it picks among them.
    pub order: Order,
    /// For `memory`: size of its buffer in bytes.
    pub size_bytes: u64,
    /// Whether and how its articles are compressed.
    pub compress: Option<Compress>,
    /// For the methods that keep what they have.
    pub tree: Tree,
    /// How long its articles stay at least, and where new ones go that could only be stored by breaking that.
    pub floor: Option<Floor>,
}

/// Where and how a class keeps articles until they are due: `appendonly` and the methods with a file an
/// article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// Its directory.
    pub path: PathBuf,
    /// For `appendonly`: length at which a file is full, in bytes.
    pub file_bytes: u64,
    /// For `appendonly`: files there may be; 0: any number.
    pub files_max: u64,
    /// For a file an article: lines end in LF, without dot-stuffing, as in C News; else wire format, as in
    /// INN.
    pub lines_end_in_lf: bool,
    /// With less room than this on its file system, it gives up its oldest articles.
    pub free_min: Option<FreeMin>,
}

impl Default for Tree {
    fn default() -> Self {
        let (file_bytes, files_max) = (256 << 20, 0);
        Self { path: PathBuf::new(), file_bytes, files_max, lines_end_in_lf: false, free_min: None }
    }
}

/// Room that is to be left on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreeMin {
    /// So many bytes.
    Bytes(u64),
    /// A part of the whole.
    Percent(u8),
}

/// In [`Keep::Secs`]: no end.
pub const NEVER: u64 = u64::MAX;

/// How long articles are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// Until they are cancelled.
    #[default]
    Forever,
    /// Seconds from arrival: `default` without an Expires header, else until that date, but at least `min`
    /// and at most `max` (CN-46). Each may be [`NEVER`].
    Secs {
        /// With an Expires header: at least.
        min: u64,
        /// Without one.
        default: u64,
        /// With one: at most.
        max: u64,
    },
}

/// One expiry rule; the first whose conditions hold decides, and without one an article is kept forever.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExpireConfig {
    /// Wildmat tested on each group that an article is filed in.
    pub groups: Option<String>,
    /// Name of a class.
    pub class: Option<String>,
    /// Whether the group is moderated.
    pub moderated: Option<bool>,
    /// How long.
    pub keep: Keep,
    /// Whether the age of an article is that of the newest article of its thread.
    pub by_thread: bool,
    /// Whether an article that leaves a group by this rule leaves all its groups.
    pub from_all_groups: bool,
    /// Articles that a group may have, of those that the rule decides about; the newest stay.
    pub articles_max: Option<u64>,
    /// Bytes that they may take as stored.
    pub bytes_max: Option<u64>,
}

/// A class's promise: no article is displaced before it has stayed this long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Floor {
    /// Seconds from arrival.
    pub keep_at_least_secs: u64,
    /// Name of the class that takes what would displace a younger article; without one, or where that class
    /// cannot take it either, the article is not stored.
    pub overflow: Option<String>,
}

impl Default for ClassConfig {
    /// A class without a name, of cyclic buffers in turn.
    fn default() -> Self {
        Self {
            name: String::new(),
            method: MethodKind::Cnfs,
            buffers: Vec::new(),
            order: Order::default(),
            size_bytes: 0,
            compress: None,
            tree: Tree::default(),
            floor: None,
        }
    }
}

/// How a class compresses its articles with zstd (`docs/formats/dictionary.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compress {
    /// zstd's level, 1 to 19.
    pub level: i32,
    /// How many articles the class's dictionary is trained from; 0: none.
    pub samples: u32,
}

impl Compress {
    /// Articles a dictionary is trained from, outside of tests.
    pub const SAMPLES_USUAL: u32 = 2000;
}

/// One storage rule; all given conditions must hold (CNFS-22 to CNFS-26).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleConfig {
    /// Name of the class that an article goes to.
    pub class: String,
    /// Wildmat tested on the groups it is filed in.
    pub groups: Option<String>,
    /// Whether `groups` may match any of them, or must match the first (CNFS-22).
    pub any_group: bool,
    /// Size above this many bytes.
    pub larger_than: Option<u64>,
    /// Size below this many bytes.
    pub smaller_than: Option<u64>,
    /// Filed in at least this many groups.
    pub crossposts_at_least: Option<usize>,
    /// Wildmat tested on the From header.
    pub from: Option<String>,
    /// Wildmat tested on each path identity of the Path header, and on the whole of it.
    pub path: Option<String>,
    /// Headers it must have; all of them.
    pub headers: Vec<HeaderCondition>,
    /// Wildmat tested on the filter's verdict; an article without one does not match.
    pub verdict: Option<String>,
    /// Wildmat matched against its origin.
    pub origin: Option<String>,
    /// Has an Expires date at most this many seconds away.
    pub expires_within_secs: Option<u64>,
    /// Has an Expires date more than this many seconds away.
    pub expires_beyond_secs: Option<u64>,
    /// Has no Expires date, or has one.
    pub expires_absent: Option<bool>,
}

/// A header that an article must have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderCondition {
    /// Its name, in any case.
    pub name: String,
    /// Wildmat tested on its value; one of several headers of the name is enough.
    pub matches: String,
}

/// What an acknowledgement promises (guarantee G1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Survives the death of the process; a power cut may take the last seconds.
    Process,
    /// As `Process`, but a power cut takes at most what arrived within this time: syncs begin early enough,
    /// and the writer waits where the disk is slower.
    Interval(Duration),
    /// On disk before it is acknowledged; syncs are shared by everyone waiting.
    Always,
}

/// Sizes of history's files and shards (`docs/formats/history.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryShape {
    /// log2 of the records in a segment of the log.
    pub segment_bits: u32,
    /// log2 of the number of shards of the index.
    pub shard_bits: u32,
}

impl HistoryShape {
    /// What is used outside of tests.
    pub const USUAL: Self = Self { segment_bits: 20, shard_bits: 10 };
}

/// Sizes of the overview's blocks and files (`docs/formats/overview.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverviewShape {
    /// Row text in a block, in bytes, unless a single row is longer.
    pub block_text_bytes: usize,
    /// Length at which a segment is full, in bytes.
    pub segment_bytes: u64,
}

impl OverviewShape {
    /// What is used outside of tests.
    pub const USUAL: Self = Self { block_text_bytes: 16 << 10, segment_bytes: 64 << 20 };
}

/// How much of what a busy feed has just written stays in the machine's memory (decision 42).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotMemory {
    /// Bytes that stay; `u64::MAX`: all, for as long as the machine keeps them.
    pub bytes: u64,
    /// What is given back at a time, in bytes; smaller ones are for tests.
    pub step_bytes: u64,
    /// A feed is busy that writes a step in this time or less.
    pub busy_step: Duration,
    /// The machine has to look for memory where writing a step takes more processor time than this.
    pub slow_step: Duration,
}

impl HotMemory {
    /// With the steps that are used outside of tests. A feed that writes 16 MiB a second is busy: in a few
    /// minutes it would fill the memory of most machines. A step takes 0.15 to 0.35 ms into memory that is at
    /// hand, and 2.4 ms into memory that the host of a virtual machine has to find.
    pub const fn of(bytes: u64) -> Self {
        let (busy_step, slow_step) = (Duration::from_micros(62_500), Duration::from_millis(1));
        Self { bytes, step_bytes: 1 << 20, busy_step, slow_step }
    }
}

/// The whole configuration of a spool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolConfig {
    /// Directory of journal and indexes.
    pub dir: PathBuf,
    /// Our name in Xref.
    pub path_identity: String,
    /// The cyclic buffers.
    pub buffers: Vec<BufferConfig>,
    /// The storage classes.
    pub classes: Vec<ClassConfig>,
    /// The storage rules, first match wins.
    pub rules: Vec<RuleConfig>,
    /// When kept articles are due, first match wins.
    pub expire: Vec<ExpireConfig>,
    /// What an acknowledgement promises.
    pub durability: Durability,
    /// Message-IDs are remembered at least this long after their arrival, whatever became of their articles.
    pub remember_secs: u64,
    /// Journal kept beyond what the indexes need, in bytes.
    pub journal_keep_bytes: u64,
    /// Journal that readers may claim beyond that, in bytes.
    pub journal_claim_bytes: u64,
    /// Age of a journal file from which on it cannot be claimed any more, in seconds.
    pub journal_claim_secs: u64,
    /// Longest article that will ever be committed, in bytes; bounds what a start after a crash must check.
    pub article_bytes_max: u64,
    /// Length of a journal file, in bytes; its space is reserved when it is made.
    pub journal_file_bytes: u64,
    /// Sizes of history's files; small ones are for tests.
    pub history: HistoryShape,
    /// Sizes of the overview's blocks and files; small ones are for tests.
    pub overview: OverviewShape,
    /// Overview is compressed once its rows are so old, in seconds; 0: at once. See
    /// [`crate::Spool::pack_overview`].
    pub overview_cold_secs: u64,
    /// Headers that overview rows keep besides the fields that all rows have.
    pub overview_headers: Vec<String>,
    /// How much of what a busy feed writes stays in memory.
    pub hot_memory: HotMemory,
    /// Journal rows between two checkpoints of the indexes, at least.
    pub checkpoint_rows: u64,
    /// After a full disk, time between two tries whether there is room again.
    pub full_disk_retry: Duration,
}

impl SpoolConfig {
    /// A configuration with the usual limits and nothing to store in.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            path_identity: "localhost".into(),
            buffers: Vec::new(),
            classes: Vec::new(),
            rules: Vec::new(),
            expire: Vec::new(),
            durability: Durability::Interval(Duration::from_millis(100)),
            remember_secs: 11 * 86_400,
            journal_keep_bytes: 0,
            journal_claim_bytes: 4 << 30,
            journal_claim_secs: 7 * 86_400,
            article_bytes_max: 4 << 20,
            journal_file_bytes: 64 << 20,
            history: HistoryShape::USUAL,
            overview: OverviewShape::USUAL,
            overview_cold_secs: 600,
            overview_headers: Vec::new(),
            hot_memory: HotMemory::of(u64::MAX),
            checkpoint_rows: 1 << 18,
            full_disk_retry: Duration::from_secs(1),
        }
    }
}
