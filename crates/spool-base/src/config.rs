//! The spool's configuration: buffers, classes, rules, durability. The server translates its TOML file into
//! this form.

use crate::token::MethodKind;
use std::path::PathBuf;
use std::time::Duration;

/// Reason why the configuration could not be changed, from the function that was to change it.
pub type CommitError = Box<dyn std::error::Error + Send + Sync>;

/// Function that makes a change of the configuration durable; an error leaves everything as it was.
pub type Commit<'a> = &'a mut dyn FnMut() -> Result<(), CommitError>;

/// A cyclic buffer ("rawpart", CNFS-01).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferConfig {
    /// Unique name, at most 15 bytes; first part of a token's text form.
    pub name: String,
    /// File or block device.
    pub path: PathBuf,
    /// Size of the whole file in bytes, headers and bitmap included; 0: that of the existing file or device.
    pub size_bytes: u64,
    /// Unit in which records start; a power of two, 64 to 16384.
    pub block_bytes: u32,
    /// Whether the buffer accepts no more articles; those it holds stay.
    pub retired: bool,
}

/// Order in which a class uses its buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BufferOrder {
    /// Round-robin, one stripe per buffer (CNFS-04).
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
    /// For `cnfs`: names of the class's buffers.
    pub buffers: Vec<String>,
    /// For `cnfs`: order in which the buffers are used.
    pub order: BufferOrder,
    /// For `memory`: size of the buffer in bytes.
    pub size_bytes: u64,
    /// Compression of the articles; `None`: not compressed.
    pub compress: Option<CompressConfig>,
    /// For methods that retain articles until they are due.
    pub tree: TreeConfig,
    /// Minimum retention, and the overflow class for new articles that could only be stored by violating it.
    pub floor: Option<Floor>,
    /// For `cnfs`: bytes, counted without compression, that are filed in the class after an article before it
    /// leaves; `None`: it stays until its buffer overwrites it.
    pub ring_bytes: Option<u64>,
}

/// Place and form in which a class keeps articles until they are due: for `appendonly` and for the methods
/// with one file per article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeConfig {
    /// Directory of the files.
    pub path: PathBuf,
    /// For `appendonly`: length at which a file is full, in bytes.
    pub file_bytes: u64,
    /// For `appendonly`: maximum number of files; 0: unlimited.
    pub files_max: u64,
    /// For methods with one file per article: lines end in LF, without dot-stuffing, as in C News; else wire
    /// format, as in INN.
    pub lines_end_in_lf: bool,
    /// Free space below which the class gives up its oldest articles.
    pub free_min: Option<FreeMin>,
}

impl Default for TreeConfig {
    fn default() -> Self {
        let (file_bytes, files_max) = (256 << 20, 0);
        Self { path: PathBuf::new(), file_bytes, files_max, lines_end_in_lf: false, free_min: None }
    }
}

/// Space to be left free on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreeMin {
    /// Number of bytes.
    Bytes(u64),
    /// Percentage of the file system.
    Percent(u8),
}

/// Value in [`Retention::Secs`] for no end.
pub const NEVER: u64 = u64::MAX;

/// Retention of articles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Retention {
    /// Until they are cancelled.
    #[default]
    Forever,
    /// Seconds from arrival: `default` without an Expires header, else until that date, but at least `min`
    /// and at most `max` (CN-46). Each may be [`NEVER`].
    Secs {
        /// Minimum for articles with an Expires header.
        min: u64,
        /// Retention of articles without an Expires header.
        default: u64,
        /// Maximum for articles with an Expires header.
        max: u64,
    },
}

impl Retention {
    /// Returns when an article is due whose age counts from `since`, with an Expires date or 0 (all Unix
    /// seconds); `None`: never. The bounds apply to Expires dates only, as in INN.
    pub fn due(self, since: u64, expires: u64) -> Option<u64> {
        let Self::Secs { min, default, max } = self else { return None };
        let after = |secs: u64| since.saturating_add(secs);
        let due = if expires == 0 { after(default) } else { expires.max(after(min)).min(after(max)) };
        (due != NEVER).then_some(due)
    }

    /// Reports whether an article of this age (seconds) may be given up to free space.
    pub fn may_give_up(self, age: u64) -> bool {
        matches!(self, Self::Secs { min, .. } if age >= min && min != NEVER)
    }
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
    /// Retention.
    pub keep: Retention,
    /// Whether the age of an article is that of the newest article of its thread.
    pub by_thread: bool,
    /// Whether an article that leaves a group by this rule leaves all its groups.
    pub from_all_groups: bool,
    /// Maximum number of articles in a group, among those that the rule decides about; the newest stay.
    pub articles_max: Option<u64>,
    /// Maximum total size of those articles as stored, in bytes.
    pub bytes_max: Option<u64>,
}

/// Minimum retention of a class: no article is displaced before it has stayed this long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Floor {
    /// Seconds from arrival.
    pub keep_at_least_secs: u64,
    /// Name of the class for articles that would displace a younger one. Without an overflow class, or if it
    /// cannot take the article either, the article is not stored.
    pub overflow: Option<String>,
}

impl Default for ClassConfig {
    /// Returns a class without a name, with cyclic buffers used in turn.
    fn default() -> Self {
        Self {
            name: String::new(),
            method: MethodKind::Cnfs,
            buffers: Vec::new(),
            order: BufferOrder::default(),
            size_bytes: 0,
            compress: None,
            tree: TreeConfig::default(),
            floor: None,
            ring_bytes: None,
        }
    }
}

/// Compression of a class's articles with zstd (`docs/formats/dictionary.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressConfig {
    /// Compression level of zstd, 1 to 19.
    pub level: i32,
    /// Number of articles that the class's dictionary is trained from; 0: no dictionary.
    pub samples: u32,
}

impl CompressConfig {
    /// Articles that a dictionary is trained from, outside of tests.
    pub const SAMPLES_USUAL: u32 = 2000;
}

/// One storage rule; all given conditions must hold (CNFS-22 to CNFS-26).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleConfig {
    /// Name of the class that an article goes to.
    pub class: String,
    /// Wildmat tested on the groups of the article.
    pub groups: Option<String>,
    /// Whether `groups` may match any of them, or must match the first (CNFS-22).
    pub any_group: bool,
    /// Matches articles larger than this many bytes.
    pub larger_than: Option<u64>,
    /// Matches articles smaller than this many bytes.
    pub smaller_than: Option<u64>,
    /// Matches articles filed in at least this many groups.
    pub crossposts_at_least: Option<usize>,
    /// Wildmat tested on the From header.
    pub from: Option<String>,
    /// Wildmat tested on each path identity of the Path header, and on the whole of it.
    pub path: Option<String>,
    /// Headers that the article must have, all of them.
    pub headers: Vec<HeaderCondition>,
    /// Wildmat tested on the filter's verdict; articles without a verdict do not match.
    pub verdict: Option<String>,
    /// Wildmat tested on the article's origin.
    pub origin: Option<String>,
    /// Matches articles with an Expires date at most this many seconds away.
    pub expires_within_secs: Option<u64>,
    /// Matches articles with an Expires date more than this many seconds away.
    pub expires_beyond_secs: Option<u64>,
    /// Matches articles without an Expires date (true), or with one (false).
    pub expires_absent: Option<bool>,
}

/// A header that an article must have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderCondition {
    /// Name of the header, in any case.
    pub name: String,
    /// Wildmat tested on the value; one matching header of that name is enough.
    pub matches: String,
}

/// Meaning of an acknowledgement (guarantee G1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The article survives the death of the process; a power cut may take the last seconds.
    Process,
    /// Like `Process`, but a power cut takes at most what arrived within this time: syncs begin early enough,
    /// and the writer waits if the disk is slower.
    Interval(Duration),
    /// The article is on disk before it is acknowledged; waiting clients share syncs.
    Always,
}

/// Sizes of history's files and shards (`docs/formats/history.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryShape {
    /// log2 of the records in a segment of the log.
    pub segment_bits: u32,
    /// log2 of the number of shards of the index.
    pub shard_bits: u32,
    /// log2 of how many buckets of the index go with one in memory, which gathers new slots: two fill a page.
    pub gathered_shift: u32,
    /// log2 of the buckets in memory for each shard from which on slots are gathered there.
    pub gathered_level_min: u32,
}

impl HistoryShape {
    /// Sizes used outside of tests.
    pub const USUAL: Self =
        Self { segment_bits: 20, shard_bits: 10, gathered_shift: 5, gathered_level_min: 5 };

    /// Returns sizes for tests, with which slots are gathered from the beginning.
    pub const fn small(segment_bits: u32, shard_bits: u32) -> Self {
        Self { segment_bits, shard_bits, gathered_shift: 3, gathered_level_min: 1 }
    }
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
    /// Sizes used outside of tests.
    pub const USUAL: Self = Self { block_text_bytes: 16 << 10, segment_bytes: 64 << 20 };
}

/// Amount of recently written data of a busy feed that stays in memory (decision 42).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotMemory {
    /// Bytes that stay; `u64::MAX`: all, for as long as the machine keeps them.
    pub bytes: u64,
    /// Amount of memory released at a time, in bytes; smaller steps are for tests.
    pub step_bytes: u64,
    /// A feed is busy if it writes a step in at most this time.
    pub busy_step: Duration,
    /// Processor time for writing a step above which the machine is short of free memory.
    pub slow_step: Duration,
}

impl HotMemory {
    /// Returns a configuration with the steps used outside of tests. A feed that writes 16 MiB a second is
    /// busy: in a few minutes it would fill the memory of most machines. A step takes 0.15 to 0.35 ms into
    /// memory that is at hand, and 2.4 ms into memory that the host of a virtual machine has to find.
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
    /// Expiry of retained articles, first match wins.
    pub expire: Vec<ExpireConfig>,
    /// Meaning of an acknowledgement.
    pub durability: Durability,
    /// Minimum time from arrival for which Message-IDs are remembered, even if their articles are removed.
    pub remember_secs: u64,
    /// Journal kept beyond what the indexes need, in bytes.
    pub journal_keep_bytes: u64,
    /// Journal that readers may claim beyond that, in bytes.
    pub journal_claim_bytes: u64,
    /// Age of a journal file above which it can no longer be claimed, in seconds.
    pub journal_claim_secs: u64,
    /// Longest article that is ever committed, in bytes; bounds what a start after a crash must check.
    pub article_bytes_max: u64,
    /// Length of a journal file, in bytes; its space is reserved when the file is created.
    pub journal_file_bytes: u64,
    /// Sizes of history's files; small ones are for tests.
    pub history: HistoryShape,
    /// Sizes of the overview's blocks and files; small ones are for tests.
    pub overview: OverviewShape,
    /// Age above which overview is compressed, in seconds; 0: at once. See `OverviewCare::pack` in `spool`.
    pub overview_cold_secs: u64,
    /// Headers that overview rows keep besides the fields that all rows have.
    pub overview_headers: Vec<String>,
    /// Amount of recently written data that stays in memory.
    pub hot_memory: HotMemory,
    /// Minimum number of journal rows between two checkpoints of the indexes.
    pub checkpoint_rows: u64,
    /// Interval between attempts to write again after the disk was full.
    pub full_disk_retry: Duration,
    /// Secret under which a new spool hashes Message-IDs; `None`: a random one.
    pub secret: Option<[u8; 16]>,
}

impl SpoolConfig {
    /// Returns a configuration with the usual limits and no storage.
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
            secret: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CN-46: min-default-max; `never` as in INN's expire.ctl: EXPkeepit() of expire.c.
    #[test]
    fn an_explicit_date_is_honoured_within_bounds() {
        let due = |min, default, max, expires| Retention::Secs { min, default, max }.due(1000, expires);
        assert_eq!(due(10, 70, 300, 0), Some(1070));
        assert_eq!(due(10, 70, 300, 1200), Some(1200));
        assert_eq!(due(10, 70, 300, 1001), Some(1010));
        assert_eq!(due(10, 70, 300, 9999), Some(1300));
        // The bounds do not apply to articles without a date.
        assert_eq!((due(100, 70, 300, 0), due(0, 70, 30, 0)), (Some(1070), Some(1070)));
        assert_eq!((due(10, NEVER, 300, 0), due(10, NEVER, 300, 9999)), (None, Some(1300)));
        assert_eq!((due(0, NEVER, NEVER, 1200), due(0, 70, NEVER, 9999)), (Some(1200), Some(9999)));
        assert_eq!((due(NEVER, 70, NEVER, 1200), due(NEVER, 70, NEVER, 0)), (None, Some(1070)));
        assert_eq!(Retention::Forever.due(1000, 1200), None);
    }

    #[test]
    fn unlimited_and_too_young_articles_are_not_given_up() {
        let keep = |min| Retention::Secs { min, default: 70, max: 300 };
        assert_eq!([9, 10].map(|age| keep(10).may_give_up(age)), [false, true]);
        assert!(
            keep(0).may_give_up(0) && !keep(NEVER).may_give_up(NEVER) && !Retention::Forever.may_give_up(99)
        );
    }
}
