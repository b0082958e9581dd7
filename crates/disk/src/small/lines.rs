//! [`AppendLog`]: a text file of lines with checksums, to which lines are appended.
//!
//! A damaged line loses only itself (and the next one, if its end is damaged); it is counted, logged, and
//! stays in the file until that is replaced; the damaged file is then set aside. A file that was cut at the
//! end of a line cannot be distinguished from one to which the rest was never appended. Zeros without any
//! line before them count as a damaged line.

use super::aside::copy_aside;
use super::{Disk, DiskFile, FileAccess, durable_replace, parent, read_small};
use crate::crc::crc32c;
use std::io::{self, ErrorKind, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;
use tracing::{info, warn};

/// Digits of a line's checksum.
const CRC_DIGITS: usize = 8;

/// A line of an [`AppendLog`] as read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLine<'a> {
    /// Text of a line that was appended.
    Whole(&'a str),
    /// A line without the right checksum: damaged, or written by another program.
    Other(&'a [u8]),
}

/// A text file of lines `CHECKSUM TEXT`, where the checksum is the CRC-32C of the text as 8 hexadecimal
/// digits. Lines are appended, and the file is replaced when too many of them are obsolete.
#[derive(Debug)]
pub struct AppendLog {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    access: FileAccess,
    bytes_max: u64,
    file: Option<Arc<dyn DiskFile>>,
    end: u64,
    is_dirty: bool,
    /// Lines that were not understood when the file was opened; they are still in the file.
    damaged_lines: u64,
}

impl AppendLog {
    /// Reads the file, if it exists, and passes each line to `each`, which returns whether it understands the
    /// line; otherwise the line counts as damaged. An unfinished last line, as a crash leaves it, is
    /// overwritten by the next one. Nothing beyond `bytes_max` is read or appended.
    pub fn open(
        disk: Arc<dyn Disk>,
        path: PathBuf,
        access: FileAccess,
        bytes_max: u64,
        mut each: impl FnMut(LogLine<'_>) -> bool,
    ) -> io::Result<Self> {
        let bytes = read_small(&*disk, &path, bytes_max)?.unwrap_or_default();
        let end = end_of_lines(&bytes);
        let mut damaged_lines = 0;
        for line in checked_lines(&bytes) {
            damaged_lines += u64::from(!each(line));
        }
        let file = path.display();
        if damaged_lines > 0 {
            warn!(%file, damaged_lines, "lines are damaged; the file is set aside when it is replaced");
        }
        if end < bytes.len() as u64 {
            info!(%file, "the last line is unfinished, as a crash leaves it, and is left out");
        }
        Ok(Self { disk, path, access, bytes_max, file: None, end, is_dirty: false, damaged_lines })
    }

    /// Returns the number of lines that were not understood when the file was opened.
    pub fn damaged_lines(&self) -> u64 {
        self.damaged_lines
    }

    /// Appends a line, which the next [`AppendLog::sync`] makes durable. After an error the line may or may
    /// not be there.
    pub fn append(&mut self, text: &str) -> io::Result<()> {
        let line = line(text);
        let end = self.end + line.len() as u64;
        if end > self.bytes_max {
            return Err(io::Error::new(ErrorKind::FileTooLarge, "the file has reached its limit"));
        }
        let file = match &self.file {
            Some(file) => file,
            None => {
                let file = self.disk.open(&self.path, self.access.open())?;
                // Bytes after the last whole line are not a line.
                file.set_len(self.end)?;
                self.disk.sync_dir(parent(&self.path))?;
                self.file.insert(file)
            }
        };
        self.is_dirty = true;
        file.write_all_at(&[IoSlice::new(line.as_bytes())], self.end)?;
        self.end = end;
        Ok(())
    }

    /// Makes all lines durable.
    pub fn sync(&mut self) -> io::Result<()> {
        if let Some(file) = self.file.as_ref().filter(|_| self.is_dirty) {
            file.sync()?;
            self.is_dirty = false;
        }
        Ok(())
    }

    /// Replaces all lines with others, durably.
    pub fn replace<'a>(&mut self, texts: impl Iterator<Item = &'a str>) -> io::Result<()> {
        let content: String = texts.map(line).collect();
        if self.damaged_lines > 0 {
            copy_aside(&*self.disk, &self.path)?;
            self.damaged_lines = 0;
        }
        let replaced = durable_replace(&*self.disk, &self.path, &[content.as_bytes()], self.access);
        // The open file may be the old one or, if only the last step failed, nameless.
        self.file = None;
        self.is_dirty = false;
        self.end = match &replaced {
            Ok(()) => content.len() as u64,
            Err(_) => end_of_lines(&read_small(&*self.disk, &self.path, self.bytes_max)?.unwrap_or_default()),
        };
        replaced
    }
}

/// Returns the lines of such a file, without an unfinished one at the end. A file of zeros is a damaged line.
pub fn checked_lines(bytes: &[u8]) -> impl Iterator<Item = LogLine<'_>> {
    let whole = bytes.get(..end_of_lines(bytes) as usize).unwrap_or_default();
    let zeros = Some(bytes).filter(|bytes| whole.is_empty() && bytes.contains(&0));
    let lines = whole.split_inclusive(|b| *b == b'\n').map(|line| {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        checked(line).map_or(LogLine::Other(line), LogLine::Whole)
    });
    lines.chain(zeros.map(LogLine::Other))
}

/// Returns the end of the last whole line.
fn end_of_lines(bytes: &[u8]) -> u64 {
    bytes.iter().rposition(|b| *b == b'\n').map_or(0, |last| last as u64 + 1)
}

/// Formats a line with its checksum. A line end in the text would begin another line, and is replaced by a
/// blank.
fn line(text: &str) -> String {
    let text = text.replace(['\r', '\n'], " ");
    format!("{:0width$x} {text}\n", crc32c(text.as_bytes()), width = CRC_DIGITS)
}

/// Returns the text of a line if its checksum is right.
fn checked(line: &[u8]) -> Option<&str> {
    let (digits, text) = line.split_at_checked(CRC_DIGITS)?;
    let text = text.strip_prefix(b" ")?;
    let crc = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    std::str::from_utf8(text).ok().filter(|_| crc == crc32c(text))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PATH, crashes, on};
    use super::*;
    use crate::SimDisk;
    use std::path::Path;

    fn log(sim: &SimDisk) -> (AppendLog, Vec<String>) {
        let mut lines = Vec::new();
        let each = |line: LogLine<'_>| {
            lines.push(format!("{line:?}"));
            matches!(line, LogLine::Whole(_))
        };
        let log = AppendLog::open(Arc::new(sim.clone()), PATH.into(), FileAccess::Owner, 300, each).unwrap();
        (log, lines)
    }

    #[test]
    fn a_crash_leaves_the_lines_that_were_synced_and_whole_ones_after_them() {
        crashes(
            |sim| {
                let mut log = log(sim).0;
                log.append("zero").and_then(|()| log.sync())
            },
            |sim| {
                let mut log = log(sim).0;
                log.append("one")?;
                log.append("two\r\nlines")?;
                log.sync()
            },
            |sim, done, what| {
                let (mut log, lines) = log(sim);
                let whole: Vec<_> = lines.iter().filter(|line| line.starts_with("Whole")).collect();
                let all = ["Whole(\"zero\")", "Whole(\"one\")", "Whole(\"two  lines\")"];
                assert!(
                    !whole.is_empty()
                        && all.starts_with(&whole.iter().map(|l| l.as_str()).collect::<Vec<_>>()),
                    "{what}: {lines:?}"
                );
                assert!(whole.len() == 3 || !done, "{what}: {lines:?}");
                log.append("next").unwrap();
                let after = self::log(sim).1;
                assert_eq!(after.len(), lines.len() + 1, "{what}");
                assert_eq!(after.last().unwrap(), "Whole(\"next\")", "{what}");
            },
        );
        crashes(
            |sim| {
                let mut log = log(sim).0;
                ["a", "b", "c"].iter().try_for_each(|text| log.append(text))?;
                log.sync()
            },
            |sim| log(sim).0.replace(["b"].into_iter()),
            |sim, done, what| {
                let lines = log(sim).1.len();
                assert!(lines == 1 || (!done && lines == 3), "{what}");
            },
        );
    }

    #[test]
    fn appending_continues_after_a_replacement_that_fails_at_any_step() {
        for step in 0..8 {
            let sim = SimDisk::new();
            sim.create_dir(Path::new("/d")).unwrap();
            let mut log = log(&sim).0;
            log.append("a").and_then(|()| log.append("b")).unwrap();
            sim.fail_at(sim.steps() + step, SimDisk::EIO, false);
            let replaced = log.replace(["b"].into_iter()).is_ok();
            sim.stop_failing();
            log.append("c").unwrap();
            let lines = self::log(&sim).1.join(" ");
            let (new, old) = ("Whole(\"b\") Whole(\"c\")", "Whole(\"a\") Whole(\"b\") Whole(\"c\")");
            assert!(lines == new || (!replaced && lines == old), "step {step}: {lines}");
        }
    }

    #[test]
    fn damaged_and_foreign_lines_are_distinguished_and_the_file_is_bounded() {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        let content =
            [line("whole").as_bytes(), b"of another kind\n", b"00000000 damaged\n\n\xff\xff\xff\n12"]
                .concat();
        durable_replace(&sim, Path::new(PATH), &[&content], FileAccess::Owner).unwrap();
        let (mut log, lines) = log(&sim);
        assert_eq!(lines.iter().filter(|line| line.starts_with("Other")).count(), 4);
        assert_eq!(lines[0], "Whole(\"whole\")");
        while log.append("one more").is_ok() {}
        let error = log.append("one more").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert!(on(&sim).unwrap().len() <= 300);
        assert_eq!(log.damaged_lines(), 4);
        log.replace(["a", "b"].into_iter()).unwrap();
        let aside = read_small(&sim, Path::new("/d/state.damaged"), 300).unwrap().unwrap();
        assert!(aside.starts_with(&content[..30]), "the damaged file was not set aside");
        log.append("c").unwrap();
        assert_eq!(self::log(&sim).1, ["Whole(\"a\")", "Whole(\"b\")", "Whole(\"c\")"]);
    }
    #[test]
    fn each_flipped_byte_costs_at_most_two_lines_and_is_noticed() {
        let texts = ["one 1", "two 22", "three 333", "four"];
        let content: String = texts.iter().map(|text| line(text)).collect();
        let opened = |bytes: Option<&[u8]>| {
            let sim = SimDisk::new();
            sim.create_dir(Path::new("/d")).unwrap();
            if let Some(bytes) = bytes {
                durable_replace(&sim, Path::new(PATH), &[bytes], FileAccess::Owner).unwrap();
            }
            let (log, lines) = log(&sim);
            let whole: Vec<String> = lines.into_iter().filter(|line| line.starts_with("Whole")).collect();
            (log.damaged_lines(), log.end, whole)
        };
        let all: Vec<String> = texts.iter().map(|text| format!("Whole({text:?})")).collect();
        for at in 0..content.len() {
            for mask in [1, 0x80, 0xff] {
                let mut bytes = content.clone().into_bytes();
                bytes[at] ^= mask;
                let (damaged, end, whole) = opened(Some(&bytes));
                assert!(whole.len() >= 2 && whole.iter().all(|line| all.contains(line)), "{at}: {whole:?}");
                // A file without its last line end looks as a crash may leave it.
                assert!(damaged > 0 || end < content.len() as u64, "{at} was not noticed");
            }
            let (damaged, end, whole) = opened(content.as_bytes().get(..at));
            assert!(damaged == 0 && all.starts_with(&whole) && end <= at as u64, "cut at {at}");
        }
        assert_eq!(opened(None), (0, 0, Vec::new()));
        let (damaged, end, whole) = opened(Some(&vec![0; content.len()]));
        assert_eq!((damaged, end, whole), (1, 0, Vec::new()), "zeros are not taken for an unfinished line");
    }
}
