//! How far articles were fetched from a server: a mark for each group, durable.
//!
//! One file for each server, replaced as a whole. A mark never passes an article that is neither filed nor
//! decided about, so what a crash takes is fetched again and known. A lock beside the file keeps two pulls
//! from one server apart. Format: `docs/formats/pull.md`. Called by `pull::run`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use spool::{Access, Checked, Disk, RealDisk, durable_replace, read_or_set_aside};

use crate::base::summed::{text_without_sum, with_sum};

/// Directory below `site.data`.
const DIR: &str = "pull";
const FIRST_LINE: &str = "newsreel pull 1";
/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The marks of one server.
pub(super) struct Marks {
    file: PathBuf,
    /// By group: the highest number that is dealt with.
    groups: BTreeMap<String, u64>,
    /// By wildmat: since when NEWNEWS is to be asked, Unix seconds by the server's clock.
    newnews: BTreeMap<String, u64>,
    is_changed: bool,
    /// Held as long as the marks may be written.
    _lock: Box<dyn Send + Sync>,
}

impl fmt::Debug for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Marks").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Marks {
    /// Those of the server at `address`, for a site whose spool is in `data`. Those of a damaged file are as
    /// good as none: says so in the second value.
    pub fn open(data: &Path, address: &str) -> io::Result<(Self, bool)> {
        let dir = data.join(DIR);
        if !dir.is_dir() {
            fs::create_dir(&dir)?;
        }
        let name = file_name(address);
        // It ends with the value, though a program that is being started has its descriptor.
        let lock =
            RealDisk::new().lock(&dir.join(format!("{name}.lock"))).map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => io::Error::new(
                    io::ErrorKind::WouldBlock,
                    format!("another pull from {address} is running"),
                ),
                _ => error,
            })?;
        let file = dir.join(format!("{name}.marks"));
        let costs = "what was fetched from this server is looked at again, and what is here is not fetched";
        let read = read_or_set_aside(&RealDisk::new(), &file, FILE_BYTES_MAX, costs, parse)?;
        let is_damaged = matches!(read, Checked::SetAside(_));
        let (groups, newnews) = read.whole().unwrap_or_default();
        Ok((Self { file, groups, newnews, is_changed: false, _lock: lock }, is_damaged))
    }

    /// The mark of a group; `None`: it was never fetched from.
    pub fn group(&self, name: &str) -> Option<u64> {
        self.groups.get(name).copied()
    }

    /// Everything up to `mark` is dealt with.
    pub fn set_group(&mut self, name: &str, mark: u64) {
        self.is_changed |= self.groups.insert(name.to_owned(), mark) != Some(mark);
    }

    /// Since when NEWNEWS is to be asked about these groups.
    pub fn newnews(&self, groups: &str) -> Option<u64> {
        self.newnews.get(groups).copied()
    }

    /// What had arrived by `since` is dealt with.
    pub fn set_newnews(&mut self, groups: &str, since: u64) {
        self.is_changed |= self.newnews.insert(groups.to_owned(), since) != Some(since);
    }

    /// Writes them durably, if they have changed. What they stand for must be durable already.
    pub fn save(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_changed) {
            let written =
                durable_replace(&RealDisk::new(), &self.file, &[self.text().as_bytes()], Access::Group);
            self.is_changed = written.is_err();
            written?;
        }
        Ok(())
    }

    fn text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        self.groups.iter().for_each(|(name, mark)| text.push_str(&format!("group {mark} {name}\n")));
        self.newnews.iter().for_each(|(groups, since)| text.push_str(&format!("newnews {since} {groups}\n")));
        with_sum(text)
    }
}

/// Whether a file of marks is whole.
pub(crate) fn is_whole(bytes: &[u8]) -> bool {
    parse(bytes).is_some()
}

type Parsed = (BTreeMap<String, u64>, BTreeMap<String, u64>);

fn parse(text: &[u8]) -> Option<Parsed> {
    let lines = text_without_sum(text)?;
    let mut lines = lines.lines();
    if lines.next() != Some(FIRST_LINE) {
        return None;
    }
    let mut parsed = Parsed::default();
    for line in lines {
        let mut words = line.splitn(3, ' ');
        let (kind, number, name) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
        match kind {
            "group" => parsed.0.insert(name.to_owned(), number),
            "newnews" => parsed.1.insert(name.to_owned(), number),
            _ => return None,
        };
    }
    Some(parsed)
}

/// `news.example.net:119` as the name of a file: what is not a letter, digit, `.` or `-` is `_`.
fn file_name(address: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '_' };
    address.to_ascii_lowercase().chars().map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    const SERVER: &str = "News.example.net:119";

    #[test]
    fn marks_are_read_as_they_were_saved_and_only_one_pull_has_them() {
        let data = tempfile::tempdir().unwrap();
        let (mut marks, is_damaged) = Marks::open(data.path(), SERVER).unwrap();
        assert!(!is_damaged && marks.group("a.b").is_none());
        marks.set_group("a.b", 17);
        marks.set_newnews("a.*,!a.c", 1_000_000_000);
        marks.save().unwrap();
        assert_eq!(Marks::open(data.path(), SERVER).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        Marks::open(data.path(), "news.example.net:563").unwrap();
        drop(marks);
        let (marks, is_damaged) = Marks::open(data.path(), SERVER).unwrap();
        assert_eq!((marks.group("a.b"), marks.newnews("a.*,!a.c")), (Some(17), Some(1_000_000_000)));
        assert!(!is_damaged && marks.file.ends_with("pull/news.example.net_119.marks"));
    }

    #[test]
    fn a_damaged_file_is_noticed_whatever_the_damage() {
        let data = tempfile::tempdir().unwrap();
        let (mut marks, _) = Marks::open(data.path(), SERVER).unwrap();
        marks.set_group("a.b", 17);
        marks.save().unwrap();
        let file = marks.file.clone();
        drop(marks);
        let whole = fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            for text in [&damaged[..], &whole[..at]] {
                fs::write(&file, text).unwrap();
                let (marks, is_damaged) = Marks::open(data.path(), SERVER).unwrap();
                assert!(is_damaged && marks.group("a.b").is_none(), "{at}");
            }
        }
    }
}
