//! Overview of an INN with `ovmethod: tradindexed`: numbers under which it shows articles.
//!
//! Expiry and cancels remove an article from the overview of a group; its Xref keeps the number, and the file
//! of a crossposted article stays until it has expired in all groups. Files that are damaged or of another
//! machine's layout are left aside. Called by `site`. Format: `docs/formats/inn.md`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use md5::{Digest, Md5};
use netnews::decimal;

/// Magic of group.index, in the byte order of a little-endian machine.
const MAGIC: [u8; 4] = [0xc2, 0x0c, 0x0f, 0x0e];
/// Length of the head of group.index in bytes: the magic, and a table of 16,384 chains and the free one.
const HEAD_BYTES: u64 = 65_544;
/// Length of a group's entry in group.index, in bytes.
const GROUP_BYTES: usize = 88;
/// Offset in a group's entry of the number of the first article in the group's file.
const BASE_AT: usize = 48;
/// Offset in a group's entry of its count of articles.
const COUNT_AT: usize = 56;
/// Offset in a group's entry of the time at which the group was removed.
const DELETED_AT: usize = 64;
/// Length of an article's entry in the file of a group, in bytes.
const ARTICLE_BYTES: usize = 56;
/// Most entries of group.index that are read.
const GROUPS_MAX: usize = 1 << 20;
/// Most articles of a group.
const ARTICLES_MAX: usize = 1 << 30;

/// Numbers of a group that are in INN's overview.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ShownNumbers {
    /// Number of the first bit.
    base: u64,
    /// One bit for each number.
    bits: Vec<u64>,
}

impl ShownNumbers {
    /// Returns whether an article is shown under this number.
    pub fn has(&self, number: u64) -> bool {
        let Some(at) = number.checked_sub(self.base) else { return false };
        let word = usize::try_from(at / 64).ok().and_then(|word| self.bits.get(word));
        word.is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    fn set(&mut self, at: usize) {
        let word = at / 64;
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        if let Some(bits) = self.bits.get_mut(word) {
            *bits |= 1 << (at % 64);
        }
    }
}

/// Groups of a group.index.
#[derive(Debug)]
pub(crate) struct OverviewIndex {
    root: PathBuf,
    /// First number and count of each group, by the MD5 of its name.
    groups: HashMap<[u8; 16], (u64, i32)>,
}

impl OverviewIndex {
    /// Reads the group.index below `root`; `None` if there is none of this layout.
    pub fn read(root: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(root.join("group.index")) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let bytes = file.metadata()?.len();
        let mut begun = [0; 4];
        let is_whole = bytes.checked_sub(HEAD_BYTES).is_some_and(|rest| rest % GROUP_BYTES as u64 == 0);
        if !is_whole || file.read_exact_at(&mut begun, 0).is_err() || begun != MAGIC {
            return Ok(None);
        }
        let mut entries = Vec::new();
        let mut rest = &file;
        io::Seek::seek(&mut rest, io::SeekFrom::Start(HEAD_BYTES))?;
        rest.take((GROUPS_MAX * GROUP_BYTES) as u64).read_to_end(&mut entries)?;
        let groups = entries.chunks_exact(GROUP_BYTES).filter_map(group).collect();
        Ok(Some(Self { root: root.to_owned(), groups }))
    }

    /// Returns the numbers of a group; `None` if there is no overview of it that can be trusted.
    pub fn shown(&self, name: &str) -> io::Result<Option<ShownNumbers>> {
        let Some((base, count)) = self.groups.get(&<[u8; 16]>::from(Md5::digest(name))) else {
            return Ok(None);
        };
        let files = self.files(name);
        let index = match File::open(files.with_extension_added("IDX")) {
            Ok(index) => index,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut index = BufReader::with_capacity(1 << 20, index);
        let mut shown = ShownNumbers { base: *base, bits: Vec::new() };
        let mut entry = [0; ARTICLE_BYTES];
        let mut first = None;
        for at in 0..ARTICLES_MAX {
            match index.read_exact(&mut entry) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error),
            }
            let (offset, bytes) = (number(&entry, 0), number(&entry, 8).map(|bytes| bytes as u32 as i32));
            if let (Some(offset), Some(1..)) = (offset, bytes) {
                shown.set(at);
                first.get_or_insert((at as u64, offset));
            }
        }
        let is_right = match first {
            Some((at, offset)) => {
                base.checked_add(at) == row_number(&files.with_extension_added("DAT"), offset)?
            }
            // All articles were removed.
            None => *count <= 0,
        };
        Ok(is_right.then_some(shown))
    }

    /// Returns the name of a group's files without its extension: below a directory for the first letter of
    /// each part of the group's name.
    fn files(&self, name: &str) -> OverviewFiles {
        let letters = name.split('.').filter_map(|part| part.chars().next()).map(String::from);
        OverviewFiles(self.root.join(letters.collect::<PathBuf>()).join(name))
    }
}

/// Files of a group, without their extensions.
struct OverviewFiles(PathBuf);

impl OverviewFiles {
    /// Returns the file with this extension; the name of a group may have dots.
    fn with_extension_added(&self, extension: &str) -> PathBuf {
        let mut name = self.0.clone().into_os_string();
        name.push(".");
        name.push(extension);
        name.into()
    }
}

/// Parses a group's entry; `None` for groups that were removed.
fn group(entry: &[u8]) -> Option<([u8; 16], (u64, i32))> {
    let hash = *entry.first_chunk()?;
    let count = number(entry, COUNT_AT)? as u32 as i32;
    (number(entry, DELETED_AT)? == 0).then_some((hash, (number(entry, BASE_AT)?, count)))
}

fn number(entry: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*entry.get(at..)?.first_chunk()?))
}

/// Returns the number at the beginning of a row of overview.
fn row_number(file: &Path, offset: u64) -> io::Result<Option<u64>> {
    let file = match File::open(file) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut begun = [0; 24];
    let read = file.read_at(&mut begun, offset)?;
    let number = begun.get(..read).and_then(|begun| begun.split(|byte| *byte == b'\t').next());
    Ok(number.and_then(decimal::parse_decimal))
}

#[cfg(test)]
mod tests {
    use super::super::site::OtherSite;
    use super::*;
    use std::fs;

    /// Writes an overview as INN does, for tests: for each group its name, the number of the first entry, and
    /// which of the numbers from that one on are shown.
    fn write_overview(root: &Path, groups: &[(&str, u64, &[bool])]) {
        let mut index = vec![0; HEAD_BYTES as usize];
        index[..4].copy_from_slice(&MAGIC);
        for (name, base, shown) in groups {
            let mut entry = [0; GROUP_BYTES];
            entry[..16].copy_from_slice(&Md5::digest(name));
            entry[BASE_AT..BASE_AT + 8].copy_from_slice(&base.to_le_bytes());
            let count = shown.iter().filter(|shown| **shown).count() as u32;
            entry[COUNT_AT..COUNT_AT + 4].copy_from_slice(&count.to_le_bytes());
            index.extend_from_slice(&entry);
            let (mut rows, mut entries) = (Vec::new(), Vec::new());
            for (number, shown) in (*base..).zip(*shown) {
                let mut entry = [0; ARTICLE_BYTES];
                if *shown {
                    let row = format!("{number}\tsubject\r\n");
                    entry[..8].copy_from_slice(&(rows.len() as u64).to_le_bytes());
                    entry[8..12].copy_from_slice(&(row.len() as u32).to_le_bytes());
                    rows.extend_from_slice(row.as_bytes());
                }
                entries.extend_from_slice(&entry);
            }
            let files = OverviewIndex { root: root.to_owned(), groups: HashMap::new() }.files(name);
            fs::create_dir_all(files.0.parent().unwrap()).unwrap();
            fs::write(files.with_extension_added("IDX"), entries).unwrap();
            fs::write(files.with_extension_added("DAT"), rows).unwrap();
        }
        fs::write(root.join("group.index"), index).unwrap();
    }

    fn numbers(root: &Path, name: &str) -> Option<Vec<u64>> {
        let shown = OverviewIndex::read(root).unwrap()?.shown(name).unwrap()?;
        Some((0..200).filter(|number| shown.has(*number)).collect())
    }

    #[test]
    fn numbers_in_the_overview_are_shown() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(numbers(dir.path(), "g1.x"), None);
        let mut many = [true; 100];
        many[70] = false;
        write_overview(
            dir.path(),
            &[("g1.x", 0, &[]), ("control", 7, &[false, true, false, true]), ("c.many", 11, &many)],
        );
        assert_eq!(numbers(dir.path(), "g1.x"), Some(vec![]));
        assert_eq!(numbers(dir.path(), "control"), Some(vec![8, 10]));
        assert!(dir.path().join("c/m/c.many.IDX").exists());
        let expected: Vec<u64> = (11..111).filter(|number| *number != 81).collect();
        assert_eq!(numbers(dir.path(), "c.many"), Some(expected));
        assert_eq!(numbers(dir.path(), "not.there"), None);
    }

    #[test]
    fn overview_that_contradicts_itself_is_left_aside() {
        let dir = tempfile::tempdir().unwrap();
        write_overview(dir.path(), &[("a.b", 5, &[true, true])]);
        let (index, rows) = (dir.path().join("a/b/a.b.IDX"), dir.path().join("a/b/a.b.DAT"));
        let entries = fs::read(&index).unwrap();
        // Entries moved by one.
        fs::write(&index, &entries[ARTICLE_BYTES..]).unwrap();
        assert_eq!(numbers(dir.path(), "a.b"), None);
        // A lost file.
        fs::write(&index, b"").unwrap();
        assert_eq!(numbers(dir.path(), "a.b"), None);
        fs::write(&index, &entries).unwrap();
        assert_eq!(numbers(dir.path(), "a.b"), Some(vec![5, 6]));
        fs::remove_file(&rows).unwrap();
        assert_eq!(numbers(dir.path(), "a.b"), None);
        // Another layout.
        fs::write(dir.path().join("group.index"), b"12345").unwrap();
        assert_eq!(numbers(dir.path(), "a.b"), None);
    }

    /// Numbers and marks are those of an INN 2.7 after `news.daily expireover lowmark`: the low mark of a
    /// group whose articles have all expired is its highest number.
    #[test]
    fn articles_are_shown_where_the_overview_has_them() {
        let inn = tempfile::tempdir().unwrap();
        for dir in ["db", "spool/articles", "spool/overview"] {
            fs::create_dir_all(inn.path().join(dir)).unwrap();
        }
        let active = "g1.x 14 14 y\ng2.x 8 1 y\ng3.x 5 3 y\n";
        fs::write(inn.path().join("db/active"), active).unwrap();
        let overview = inn.path().join("spool/overview");
        write_overview(&overview, &[("g1.x", 0, &[]), ("g2.x", 1, &[true, false, true])]);
        let read = || OtherSite::inn(&[inn.path().to_owned()]).unwrap();
        let shown = |site: &OtherSite, name: &str| {
            (0..20).filter(|number| site.shows(None, name.as_bytes(), *number)).collect::<Vec<u64>>()
        };
        let site = read();
        // Numbers above those of `active` have been given out since that was read.
        assert_eq!(shown(&site, "g1.x"), [15, 16, 17, 18, 19]);
        assert_eq!(shown(&site, "g2.x")[..3], [1, 3, 9]);
        assert_eq!(shown(&site, "g3.x")[..3], [3, 4, 5]);
        assert_eq!(shown(&site, "not.listed").len(), 20);
        // With another overview, there is only the low mark.
        fs::write(inn.path().join("inn.conf"), "ovmethod: ovsqlite\n").unwrap();
        assert_eq!(shown(&read(), "g1.x")[..2], [14, 15]);
        assert_eq!(shown(&read(), "g2.x")[..3], [1, 2, 3]);
    }
}
