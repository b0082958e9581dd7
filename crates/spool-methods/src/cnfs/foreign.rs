//! Recognizes files that are not buffers of ours, so that an error can say what a path holds before the
//! operator configures it again.
//!
//! Looks at the first 8 KiB only. Called by `Found::open`. Sources: INN's `cnfs-private.h`, the on-disk
//! formats named.

/// Magic bytes, their offsets, and what they belong to.
const KNOWN: &[(usize, &[u8], &str)] = &[
    (0, b"CBuf4", "an INN cyclic buffer (CNFSv4), which can be imported: see newsreel help import"),
    (0, b"Cycbuff", "an INN cyclic buffer (CNFSv3 or older)"),
    (1080, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (4086, b"SWAPSPACE2", "swap space"),
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    (536, b"LVM2 001", "an LVM physical volume"),
    (512, b"EFI PART", "a partition table (GPT); name a partition, not the disk"),
    (510, b"\x55\xaa", "a boot record or partition table; name a partition, not the disk"),
    (257, b"ustar", "a tar archive"),
    (0, b"\x1f\x8b", "gzip data"),
    (0, b"SQLite format 3\0", "an SQLite database"),
];

/// Describes a file by its first bytes.
pub(super) fn describe(begin: &[u8]) -> &'static str {
    let is = |(at, magic, _): &&(usize, &[u8], &str)| begin.get(*at..at + magic.len()) == Some(*magic);
    KNOWN.iter().find(is).map_or("something that is not a newsreel buffer", |(_, _, what)| what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_files_are_described() {
        let mut begin = vec![0; 8192];
        begin[1080..1082].copy_from_slice(b"\x53\xef");
        assert!(describe(&begin).contains("ext4"));
        begin[..5].copy_from_slice(b"CBuf4");
        assert!(describe(&begin).contains("INN"));
        assert!(describe(b"hello").contains("not a newsreel buffer"));
        assert!(describe(b"").contains("not a newsreel buffer"));
    }
}
