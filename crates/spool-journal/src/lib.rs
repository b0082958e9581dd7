//! The journal: one row for every event, in order (`docs/formats/journal.md`).
//!
//! Files `<start position, hex>.journal`, each with a short head and then framed rows. A position is a byte
//! count over all files; a file's name is the position of its first byte. Opening cuts off everything after
//! the last whole row, so that remnants of earlier runs can never be read as rows.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod context;
mod cursor;
mod deferred;
mod follow;
mod groups_file;
mod known;
mod mark;
mod reader;
mod readers;
mod row;
mod sync_set;
mod tail;
mod writer;

pub use cursor::Cursor;
pub use deferred::{Deferrals, DeferredArticle, ODD_ANSWER_BYTES_MAX, OddAnswerRecord};
pub use follow::Pin;
pub use mark::JournalMark;
pub use row::ArticleRow;
pub use tail::{JournalBatch, JournalEvent, Tail, TailStart};

use follow::FollowState;

pub use cursor::go_back;
pub use groups_file::{GroupsFile, GroupsFound, GroupsState};
pub use reader::JournalReader;
pub use readers::{ReaderDamage, Readers};
pub use row::{
    GroupRow, JournalRow, VolumeRow, put_group, put_hidden, put_numbers, put_volume, read_group, read_hidden,
    read_numbers, read_volume,
};
pub use sync_set::SyncSet;
pub use writer::{ClaimLimits, JournalWriter, reserved_bytes};

/// Head of a file: magic and start position.
const FILE_HEAD_BYTES: u64 = 16;
const FILE_MAGIC: &[u8; 8] = b"NJournl1";
/// Length and checksum before each row.
const FRAME_BYTES: usize = 8;
/// Longest payload: an article row has a bounded header block.
const ROW_BYTES_MAX: usize = 1 << 20;

/// Returns the name of the file that begins at a position.
pub fn file_name(start: u64) -> String {
    format!("{start:016x}.journal")
}

fn start_of(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_suffix(".journal")?, 16).ok()
}

/// Returns the checksum of a row, which covers its position, so that a row is valid only where it was
/// written.
fn checksum(position: u64, payload: &[u8]) -> u32 {
    disk::crc::crc32c_of_two(&position.to_le_bytes(), payload)
}

/// Returns the starts of the files in a directory, ascending.
pub fn starts(disk: &dyn disk::Disk, dir: &std::path::Path) -> std::io::Result<Vec<u64>> {
    let mut starts: Vec<u64> = disk.list(dir)?.iter().filter_map(|n| start_of(n)).collect();
    starts.sort_unstable();
    Ok(starts)
}
