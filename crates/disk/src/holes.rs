//! Ranges of a file with data, as opposed to space that was reserved but never written.

use std::fs::File;
use std::ops::Range;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// Returns the parts of a range that may have bytes other than zeros; the range must lie in the file. A part
/// that was read since it was reserved counts as written: the file system decides by what is in memory.
pub(super) fn between(file: &File, start: u64, end: u64) -> Vec<Range<u64>> {
    let (mut ranges, mut at) = (Vec::new(), start);
    while at < end {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.clamp(at, end),
            Err(Errno::NXIO) => break,
            // Devices and some file systems do not support this.
            Err(_) => at,
        };
        let hole = seek(file, SeekFrom::Hole(data)).ok().filter(|hole| *hole > data);
        at = hole.map_or(end, |hole| hole.min(end));
        ranges.push(data..at);
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    #[test]
    fn written_bytes_lie_in_ascending_parts() {
        let path = std::env::temp_dir().join(format!("newsreel-holes-{}", std::process::id()));
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(b"head").unwrap();
        file.set_len(8 << 20).unwrap();
        file.write_all_at(b"late", 5 << 20).unwrap();
        let parts = between(&file, 2, 8 << 20);
        let has = |at: u64| parts.iter().any(|part| part.contains(&at));
        assert!(has(2) && has(5 << 20), "{parts:?}");
        assert!(parts.windows(2).all(|two| two[0].end <= two[1].start), "{parts:?}");
        assert!(parts.iter().all(|part| part.start < part.end && part.end <= 8 << 20), "{parts:?}");
        assert_eq!(between(&file, 8 << 20, 8 << 20), []);
    }
}
