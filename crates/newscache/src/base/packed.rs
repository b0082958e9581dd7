//! Names and bookkeeping of files in 44 bytes each: a full cache of 50 GB has 170,000.
//!
//! Key and generation of a group's file are its group's, so only the rest of its name is here. Times are
//! seconds in 32 bits, sizes are counted in blocks. Called by `bookkeeping` and `opening`.

use std::path::{Path, PathBuf};

/// Index of a unit or a group that does not exist.
pub(crate) const NONE: u32 = u32::MAX;
/// Block size of a file system: files take whole blocks.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// Identity of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum CacheFile {
    /// Articles and rows of a group.
    Segment { key: u64, generation: u64, seq: u32 },
    /// The numbers of a group.
    Numbers { key: u64, generation: u64 },
    /// One large article, by the hash of its Message-ID.
    Large(u128),
}

impl CacheFile {
    /// Returns its path below the cache's directory.
    pub fn path(&self, dir: &Path) -> PathBuf {
        match self {
            Self::Segment { key, generation, seq } => {
                dir.join(format!("groups/{:02x}/{key:016x}-{generation:x}-{seq:x}.seg", key >> 56))
            }
            Self::Numbers { key, generation } => {
                dir.join(format!("groups/{:02x}/{key:016x}-{generation:x}.num", key >> 56))
            }
            Self::Large(hash) => dir.join(format!("large/{:02x}/{hash:032x}.art", hash >> 120)),
        }
    }

    /// Parses a file's name; returns `None` if it is none of ours.
    pub fn of_name(name: &str) -> Option<Self> {
        let (stem, kind) = name.rsplit_once('.')?;
        let mut parts = stem.split('-');
        let mut hex = || u64::from_str_radix(parts.next()?, 16).ok();
        let file = match kind {
            "seg" => Self::Segment { key: hex()?, generation: hex()?, seq: u32::try_from(hex()?).ok()? },
            "num" => Self::Numbers { key: hex()?, generation: hex()? },
            "art" => return Some(Self::Large(u128::from_str_radix(stem, 16).ok()?)),
            _ => return None,
        };
        parts.next().is_none().then_some(file)
    }
}

/// Kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CacheFileKind {
    Segment,
    Numbers,
    Large,
}

/// A file in the books.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedUnit {
    /// Hash of a large article, or sequence number and highest number of a segment.
    name: [u32; 4],
    /// Slot of its group; [`NONE`] if the file does not exist.
    pub slot: u32,
    pub blocks: u32,
    pub expires: u32,
    pub used: u32,
    pub before: u32,
    pub after: u32,
    pub uses: u8,
    kind: CacheFileKind,
    /// True if all of it was read and found undamaged since the start, or written.
    pub is_checked: bool,
}

const _: () = assert!(size_of::<PackedUnit>() == 44, "what a file costs");

/// Converts seconds to 32 bits, which reach to the year 2106; later times are clamped.
pub(crate) fn seconds(seconds: u64) -> u32 {
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// Returns the number of blocks for this many bytes.
pub(crate) fn blocks(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(BLOCK_BYTES)).unwrap_or(u32::MAX)
}

fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

impl PackedUnit {
    /// Creates a file of a group that has just been used.
    pub fn new(slot: u32, file: CacheFile, bytes: u64, expires: u64, now: u64) -> Self {
        let [unknown, _] = halves(u64::MAX);
        let (kind, name) = match file {
            CacheFile::Segment { seq, .. } => (CacheFileKind::Segment, [seq, unknown, unknown, 0]),
            CacheFile::Numbers { .. } => (CacheFileKind::Numbers, [0; 4]),
            CacheFile::Large(hash) => {
                let ([one, two], [three, four]) = (halves(hash as u64), halves((hash >> 64) as u64));
                (CacheFileKind::Large, [one, two, three, four])
            }
        };
        Self {
            name,
            slot,
            blocks: blocks(bytes),
            expires: seconds(expires),
            used: seconds(now),
            before: NONE,
            after: NONE,
            uses: 1,
            kind,
            is_checked: false,
        }
    }

    /// Returns whether the file exists.
    pub fn is_there(&self) -> bool {
        self.slot != NONE
    }

    /// Returns the hash that names a large article; `None` for others, or if the file does not exist.
    pub fn large(&self) -> Option<u128> {
        let [one, two, three, four] = self.name.map(u128::from);
        (self.kind == CacheFileKind::Large && self.is_there())
            .then_some(one | two << 32 | three << 64 | four << 96)
    }

    /// Returns the identity of the file, in a group with this key and generation.
    pub fn file(&self, key: u64, generation: u64) -> CacheFile {
        let [one, two, three, four] = self.name;
        match self.kind {
            CacheFileKind::Segment => CacheFile::Segment { key, generation, seq: one },
            CacheFileKind::Numbers => CacheFile::Numbers { key, generation },
            CacheFileKind::Large => {
                let [one, two, three, four] = [one, two, three, four].map(u128::from);
                CacheFile::Large(one | two << 32 | three << 64 | four << 96)
            }
        }
    }

    /// Returns its size, in whole blocks.
    pub fn bytes(&self) -> u64 {
        u64::from(self.blocks) * BLOCK_BYTES
    }

    /// Returns the highest number in it; the maximum if it is not known.
    pub fn last(&self) -> u64 {
        let [_, low, high, _] = self.name.map(u64::from);
        if self.kind == CacheFileKind::Segment { low | high << 32 } else { u64::MAX }
    }

    /// Records the highest number, in files with numbers.
    pub fn set_last(&mut self, last: u64) {
        if self.kind == CacheFileKind::Segment {
            let ([low, high], [seq, _, _, rest]) = (halves(last), self.name);
            self.name = [seq, low, high, rest];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_file_is_unpacked_unchanged() {
        let files = [
            CacheFile::Segment { key: 3, generation: 4, seq: u32::MAX },
            CacheFile::Numbers { key: 3, generation: 4 },
            CacheFile::Large(0x0123_4567_89ab_cdef_0011_2233_4455_6677),
        ];
        for file in files {
            let mut packed = PackedUnit::new(7, file, 4097, u64::MAX, 9);
            assert_eq!((packed.file(3, 4), packed.bytes(), packed.last()), (file, 8192, u64::MAX));
            assert_eq!((packed.expires, packed.used, packed.is_there()), (u32::MAX, 9, true));
            packed.set_last(1 << 40);
            let is_segment = matches!(file, CacheFile::Segment { .. });
            assert_eq!(packed.last(), if is_segment { 1 << 40 } else { u64::MAX });
            assert_eq!(packed.file(3, 4), file);
            let hash = if let CacheFile::Large(hash) = file { Some(hash) } else { None };
            assert_eq!(packed.large(), hash);
            packed.slot = NONE;
            assert_eq!((packed.is_there(), packed.large()), (false, None));
        }
    }
}
