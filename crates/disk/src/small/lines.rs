//! [`AppendLog`]: a text file of lines with checksums, to which lines are appended
//! (`docs/formats/lines.md`).
//!
//! A damaged line loses only itself (and the next one, if its end is damaged); it is counted, logged, and
//! stays in the file until that is replaced; the damaged file is then set aside. The first line, the head,
//! has the length that was durable when it was written: a shorter file has lost its end, which counts as a
//! damaged line, and so do zeros without any line before them. Files of earlier versions have no head.

use super::aside::copy_aside;
use super::{Disk, DiskFile, FileAccess, durable_replace, parent, read_small};
use crate::crc::crc32c;
use std::borrow::Cow;
use std::io::{self, ErrorKind, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;
use tracing::{info, warn};

/// Digits of a line's checksum.
const CRC_DIGITS: usize = 8;
/// Beginning of the head's text; the length follows.
const HEAD_TEXT: &str = "newsreel lines 2 ";
/// Digits of the length in the head.
const LENGTH_DIGITS: usize = 20;
/// Length of the head, with its line end.
const HEAD_BYTES: usize = CRC_DIGITS + 1 + HEAD_TEXT.len() + LENGTH_DIGITS + 1;
/// Line that is put in place of a lost end: damaged for every reader.
const LOST_LINE: &str = "-------- lines that were here are lost\n";

/// A line of an [`AppendLog`] as read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLine<'a> {
    /// Text of a line that was appended.
    Whole(&'a str),
    /// A line without the right checksum: damaged, or written by another program.
    Other(&'a [u8]),
}

impl<'a> LogLine<'a> {
    /// Returns the text of a whole line.
    pub fn text(self) -> Option<&'a str> {
        if let Self::Whole(text) = self { Some(text) } else { None }
    }
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
    form: FileForm,
    /// Lines that were not understood when the file was opened; they are still in the file.
    damaged_lines: u64,
}

/// Form of a file before the first line is appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileForm {
    /// The head will be written with the first line.
    Empty,
    /// Written by an earlier version: lines without a head.
    Headless,
    Whole,
    /// Shorter than its head says.
    Cut,
}

impl FileForm {
    fn of(bytes: &[u8]) -> Self {
        match (durable_bytes(bytes), end_of_lines(bytes)) {
            (Some(durable), end) if durable > end => Self::Cut,
            (Some(_), _) => Self::Whole,
            (None, 0) => Self::Empty,
            (None, _) => Self::Headless,
        }
    }
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
        let (end, form) = (end_of_lines(&bytes), FileForm::of(&bytes));
        let mut damaged_lines = 0;
        for line in checked_lines(&bytes) {
            damaged_lines += u64::from(!each(line));
        }
        let file = path.display();
        if damaged_lines > 0 {
            warn!(%file, damaged_lines, "lines are damaged; the file is set aside when it is replaced");
        }
        if form == FileForm::Cut {
            warn!(%file, "the end of the file is lost");
        } else if end < bytes.len() as u64 {
            info!(%file, "the last line is unfinished, as a crash leaves it, and is left out");
        }
        Ok(Self { disk, path, access, bytes_max, file: None, end, is_dirty: false, form, damaged_lines })
    }

    /// Returns the number of lines that were not understood when the file was opened.
    pub fn damaged_lines(&self) -> u64 {
        self.damaged_lines
    }

    /// Appends a line, which the next [`AppendLog::sync`] makes durable. After an error the line may or may
    /// not be there.
    pub fn append(&mut self, text: &str) -> io::Result<()> {
        match self.append_some(&[text])? {
            0 => Err(io::Error::new(ErrorKind::FileTooLarge, "the file has reached its limit")),
            _ => Ok(()),
        }
    }

    /// Appends as many of these lines as there is room for, in one write, and returns their number; like
    /// [`AppendLog::append`] otherwise.
    pub fn append_some(&mut self, texts: &[impl AsRef<str>]) -> io::Result<usize> {
        if self.form == FileForm::Headless {
            self.add_head()?;
        }
        let mut lines = match self.form {
            FileForm::Empty => head(HEAD_BYTES as u64),
            FileForm::Cut => LOST_LINE.to_owned(),
            FileForm::Headless | FileForm::Whole => String::new(),
        };
        let mut appended = 0;
        for text in texts {
            let before = lines.len();
            append_line(text.as_ref(), &mut lines);
            if self.end + lines.len() as u64 > self.bytes_max {
                lines.truncate(before);
                break;
            }
            appended += 1;
        }
        if appended == 0 {
            return Ok(0);
        }
        let end = self.end + lines.len() as u64;
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
        file.write_all_at(&[IoSlice::new(lines.as_bytes())], self.end)?;
        (self.end, self.form) = (end, FileForm::Whole);
        Ok(appended)
    }

    /// Replaces a file of an earlier version by one that begins with a head.
    fn add_head(&mut self) -> io::Result<()> {
        let end = self.end + HEAD_BYTES as u64;
        if end > self.bytes_max {
            return Ok(());
        }
        let mut lines = read_small(&*self.disk, &self.path, self.bytes_max)?.unwrap_or_default();
        lines.truncate(self.end as usize);
        durable_replace(&*self.disk, &self.path, &[head(end).as_bytes(), &lines], self.access)?;
        (self.end, self.form) = (end, FileForm::Whole);
        Ok(())
    }

    /// Makes all lines durable.
    pub fn sync(&mut self) -> io::Result<()> {
        if let Some(file) = self.file.as_ref().filter(|_| self.is_dirty) {
            file.sync()?;
            if self.form == FileForm::Whole {
                // Durable with a later sync: the head never counts bytes that a crash may take.
                file.write_all_at(&[IoSlice::new(head(self.end).as_bytes())], 0)?;
            }
            self.is_dirty = false;
        }
        Ok(())
    }

    /// Replaces all lines with others, durably.
    pub fn replace<'a>(&mut self, texts: impl Iterator<Item = &'a str>) -> io::Result<()> {
        let lines: String = texts.map(line).collect();
        let content = head((HEAD_BYTES + lines.len()) as u64) + &lines;
        if self.damaged_lines > 0 {
            copy_aside(&*self.disk, &self.path)?;
            self.damaged_lines = 0;
        }
        let replaced = durable_replace(&*self.disk, &self.path, &[content.as_bytes()], self.access);
        // The open file may be the old one or, if only the last step failed, nameless.
        self.file = None;
        self.is_dirty = false;
        (self.end, self.form) = match &replaced {
            Ok(()) => (content.len() as u64, FileForm::Whole),
            Err(_) => {
                let bytes = read_small(&*self.disk, &self.path, self.bytes_max)?.unwrap_or_default();
                (end_of_lines(&bytes), FileForm::of(&bytes))
            }
        };
        replaced
    }
}

/// Returns the lines of such a file, without the head and an unfinished one at the end. A file of zeros is a
/// damaged line, and so is an end that is lost.
pub fn checked_lines(bytes: &[u8]) -> impl Iterator<Item = LogLine<'_>> {
    let (durable, end) = (durable_bytes(bytes), end_of_lines(bytes));
    let first = if durable.is_some() { HEAD_BYTES } else { 0 };
    let whole = bytes.get(first..end as usize).unwrap_or_default();
    let zeros = Some(bytes).filter(|bytes| end == 0 && bytes.contains(&0));
    let lost = durable.filter(|durable| *durable > end).map(|_| &[][..]);
    let lines = whole.split_inclusive(|b| *b == b'\n').map(|line| {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        checked(line).map_or(LogLine::Other(line), LogLine::Whole)
    });
    lines.chain(zeros.or(lost).map(LogLine::Other))
}

/// Formats the first line of a file of which this many bytes are durable.
fn head(durable_bytes: u64) -> String {
    line(&format!("{HEAD_TEXT}{durable_bytes:0width$}", width = LENGTH_DIGITS))
}

/// Returns the length that the head says was durable; `None` without a head.
fn durable_bytes(bytes: &[u8]) -> Option<u64> {
    let head = bytes.get(..HEAD_BYTES)?.strip_suffix(b"\n")?;
    checked(head)?.strip_prefix(HEAD_TEXT)?.parse().ok()
}

/// Returns the end of the last whole line.
fn end_of_lines(bytes: &[u8]) -> u64 {
    bytes.iter().rposition(|b| *b == b'\n').map_or(0, |last| last as u64 + 1)
}

/// Formats a line with its checksum.
fn line(text: &str) -> String {
    let mut line = String::with_capacity(text.len() + CRC_DIGITS + 2);
    append_line(text, &mut line);
    line
}

/// Appends a line with its checksum. A line end in the text would begin another line, and is replaced by a
/// blank.
fn append_line(text: &str, out: &mut String) {
    let text = match text.contains(['\r', '\n']) {
        true => Cow::Owned(text.replace(['\r', '\n'], " ")),
        false => Cow::Borrowed(text),
    };
    let crc = crc32c(text.as_bytes());
    let digit = |n: usize| char::from_digit(crc >> (4 * (CRC_DIGITS - 1 - n)) & 0xf, 16).unwrap_or_default();
    out.extend((0..CRC_DIGITS).map(digit));
    out.push(' ');
    out.push_str(&text);
    out.push('\n');
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
        assert!(aside[HEAD_BYTES..].starts_with(&content[..30]), "the damaged file was not set aside");
        log.append("c").unwrap();
        assert_eq!(self::log(&sim).1, ["Whole(\"a\")", "Whole(\"b\")", "Whole(\"c\")"]);
    }
    #[test]
    fn each_flipped_byte_costs_at_most_two_lines_and_is_noticed() {
        let texts = ["one 1", "two 22", "three 333", "four"];
        let lines: String = texts.iter().map(|text| line(text)).collect();
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
        // Files of earlier versions have no head.
        for head_bytes in [HEAD_BYTES, 0] {
            let content = match head_bytes {
                0 => lines.clone(),
                _ => head((HEAD_BYTES + lines.len()) as u64) + &lines,
            };
            for at in 0..content.len() {
                for mask in [1, 0x80, 0xff] {
                    let mut bytes = content.clone().into_bytes();
                    bytes[at] ^= mask;
                    let (damaged, end, whole) = opened(Some(&bytes));
                    assert!(
                        whole.len() >= 2 && whole.iter().all(|line| all.contains(line)),
                        "{at}: {whole:?}"
                    );
                    // Without a head, a file without its last line end looks as a crash may leave it.
                    let is_unfinished = head_bytes == 0 && end < content.len() as u64;
                    assert!(damaged > 0 || is_unfinished, "{at} was not noticed");
                }
                let (damaged, end, whole) = opened(content.as_bytes().get(..at));
                assert!(all.starts_with(&whole) && end <= at as u64, "cut at {at}");
                // A file that ends in its head may be one that has just been begun.
                assert_eq!(damaged, u64::from(head_bytes > 0 && at >= head_bytes), "cut at {at}");
            }
        }
        assert_eq!(opened(None), (0, 0, Vec::new()));
        let (damaged, end, whole) = opened(Some(&vec![0; lines.len()]));
        assert_eq!((damaged, end, whole), (1, 0, Vec::new()), "zeros are not taken for an unfinished line");
    }

    #[test]
    fn a_lost_end_is_noticed_until_the_file_is_replaced() {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        let (mut first, _) = log(&sim);
        ["one", "two"].iter().for_each(|text| first.append(text).unwrap());
        first.sync().unwrap();
        first.append("not synced").unwrap();
        let whole = on(&sim).unwrap();
        let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[..*at].ends_with(b"\n")).collect();
        let [head_end, one_end, two_end] = ends[..] else { panic!("{ends:?}") };
        for (at, lines_left) in [(head_end, 0), (one_end, 1), (one_end + 3, 1), (two_end - 1, 1)] {
            durable_replace(&sim, Path::new(PATH), &[&whole[..at]], FileAccess::Owner).unwrap();
            for found in [log(&sim), log(&sim)] {
                assert_eq!((found.0.damaged_lines(), found.1.len()), (1, lines_left + 1), "cut at {at}");
            }
            let (mut cut, _) = log(&sim);
            cut.append("later").and_then(|()| cut.sync()).unwrap();
            let (mut again, lines) = log(&sim);
            assert_eq!((again.damaged_lines(), lines.len()), (1, lines_left + 2), "cut at {at}");
            again.replace(["later"].into_iter()).unwrap();
            assert_eq!((log(&sim).0.damaged_lines(), log(&sim).1.len()), (0, 1), "cut at {at}");
        }
        // A crash may take what was not synced.
        durable_replace(&sim, Path::new(PATH), &[&whole[..two_end]], FileAccess::Owner).unwrap();
        assert_eq!((log(&sim).0.damaged_lines(), log(&sim).1.len()), (0, 2));
    }

    #[test]
    fn a_file_of_an_earlier_version_gets_a_head_with_its_next_line() {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        let old = line("one") + &line("two") + "unfinished";
        durable_replace(&sim, Path::new(PATH), &[old.as_bytes()], FileAccess::Owner).unwrap();
        let (mut log, lines) = log(&sim);
        assert_eq!(lines, ["Whole(\"one\")", "Whole(\"two\")"]);
        log.append("three").and_then(|()| log.sync()).unwrap();
        let lines = line("one") + &line("two") + &line("three");
        let new = head((HEAD_BYTES + lines.len()) as u64) + &lines;
        assert_eq!(String::from_utf8(on(&sim).unwrap()).unwrap(), new);
    }
}
