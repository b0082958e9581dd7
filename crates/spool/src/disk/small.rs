//! Small files that are there whole or not at all: replaced, created, or appended to line by line.
//!
//! For state beside the spool, such as users, secrets, queues and the configuration. A machine that crashes
//! at any moment leaves what was there or what is to be there; after a call has returned, what is to be
//! there.
//! Whoever writes the same file from several places keeps them apart with a lock.

use super::{Disk, DiskFile, Open};
use crate::base::crc::crc32c;
use std::ffi::OsString;
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the name of a file ends that is not there yet.
pub(crate) const UNFINISHED: &str = ".new";
/// Digits of a line's checksum.
const CRC_DIGITS: usize = 8;

/// Who may read a file that did not exist. One that is replaced keeps its owner and, unless its owner alone
/// may read it, its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Its owner and the site's group.
    Group,
    /// Its owner alone.
    Owner,
    /// All users of the machine.
    All,
}

impl Access {
    fn open(self) -> Open {
        match self {
            Self::Group => Open::Create,
            Self::Owner => Open::CreatePrivate,
            Self::All => Open::CreatePublic,
        }
    }
}

/// Puts a file with these bytes, one part after the other, in the place of `path`.
pub fn durable_replace(disk: &dyn Disk, path: &Path, parts: &[&[u8]], access: Access) -> io::Result<()> {
    let mut new = Replacements::new(disk, parent(path));
    new.add(path, parts, access)?;
    new.sync()?;
    new.name()
}

/// Files of one directory that are replaced together, each as by [`durable_replace`]: they wait for the disk
/// once. Dropped before [`Replacements::name`] they are removed; a crash leaves some of them unfinished, and
/// while they get their names it leaves some of them there.
#[derive(Debug)]
pub struct Replacements<'a> {
    disk: &'a dyn Disk,
    dir: PathBuf,
    /// What each is to be called; those before `named` are.
    paths: Vec<PathBuf>,
    named: usize,
    /// The first of them, open: as many as are synced one by one.
    few: Vec<Arc<dyn DiskFile>>,
}

impl<'a> Replacements<'a> {
    /// Up to so many files are synced by themselves; more share one sync of the file system.
    const FEW_MAX: usize = 4;

    /// None yet; all will be in `dir`.
    pub fn new(disk: &'a dyn Disk, dir: &Path) -> Self {
        Self { disk, dir: dir.to_owned(), paths: Vec::new(), named: 0, few: Vec::new() }
    }

    /// Writes a file with these bytes, one part after the other, that is to be called `path`.
    pub fn add(&mut self, path: &Path, parts: &[&[u8]], access: Access) -> io::Result<()> {
        // What is written of it by an error goes as well.
        self.paths.push(path.to_owned());
        let file = write(self.disk, path, &unfinished(path), parts, access);
        match file {
            Ok(file) if self.few.len() < Self::FEW_MAX => self.few.push(file),
            Ok(_) => {}
            Err(error) => {
                self.remove_from(self.paths.len() - 1);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Makes what is in them durable.
    pub fn sync(&self) -> io::Result<()> {
        match self.paths.len() <= Self::FEW_MAX {
            true => self.few.iter().try_for_each(|file| file.sync()),
            false => self.disk.sync_tree(&self.dir),
        }
    }

    /// Gives them their names, in order, and makes these durable.
    pub fn name(mut self) -> io::Result<()> {
        for path in &self.paths {
            self.disk.rename(&unfinished(path), path)?;
            self.named += 1;
        }
        self.disk.sync_dir(&self.dir)
    }

    /// Removes those from the `first` on that have no name yet.
    fn remove_from(&mut self, first: usize) {
        for path in self.paths.drain(first..) {
            // It may never have been made.
            let _gone = self.disk.remove(&unfinished(&path));
        }
    }
}

impl Drop for Replacements<'_> {
    fn drop(&mut self) {
        self.remove_from(self.named);
    }
}

/// Makes a file with these bytes. False, and nothing is changed, if there is one.
pub fn durable_create(disk: &dyn Disk, path: &Path, parts: &[&[u8]], access: Access) -> io::Result<bool> {
    let new = unfinished(path);
    let written = write(disk, path, &new, parts, access).and_then(|file| file.sync());
    let linked = match written.and_then(|()| disk.link(&new, path)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    };
    let removed = disk.remove(&new);
    let created = linked?;
    removed.and_then(|()| disk.sync_dir(parent(path)))?;
    Ok(created)
}

/// A file that is written bit by bit, and gets its name once it is whole and durable. Dropped before that it
/// is removed; a crash leaves it under the name `unfinished`.
#[derive(Debug)]
pub struct NewFile {
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    unfinished: PathBuf,
    end: u64,
    is_finished: bool,
}

impl NewFile {
    /// Begins it; an error if `unfinished` exists. It gets the owner of `like`, a file or a directory.
    pub fn begin(disk: Arc<dyn Disk>, unfinished: PathBuf, like: &Path) -> io::Result<Self> {
        let file = disk.open(&unfinished, Open::CreateNew)?;
        let new = Self { disk, file, unfinished, end: 0, is_finished: false };
        new.disk.make_like(&new.unfinished, like, false)?;
        Ok(new)
    }

    /// Others see it with this length from now on.
    pub fn announce(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    /// Appends.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(&[IoSlice::new(bytes)], self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Makes it durable under the name `path`, in place of what has that name.
    pub fn finish(mut self, path: &Path) -> io::Result<()> {
        self.file.set_len(self.end)?;
        self.file.sync()?;
        self.disk.rename(&self.unfinished, path)?;
        self.is_finished = true;
        self.disk.sync_dir(parent(path))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_finished {
            // It may not have been made.
            let _gone = self.disk.remove(&self.unfinished);
        }
    }
}

/// The bytes of a file, at most so many; `None` if there is none.
pub fn read_small(disk: &dyn Disk, path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(path, Open::ReadOnly) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = vec![0; file.len()?.min(bytes_max) as usize];
    let n = file.read_at(&mut bytes, 0)?;
    bytes.truncate(n);
    Ok(Some(bytes))
}

/// Writes the file `new`, which is to be called `path`.
fn write(
    disk: &dyn Disk,
    path: &Path,
    new: &Path,
    parts: &[&[u8]],
    access: Access,
) -> io::Result<Arc<dyn DiskFile>> {
    // One that a crash has left may be a second name of `path`.
    match disk.remove(new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.open(new, access.open())?;
    disk.make_like(new, path, access != Access::Owner)?;
    let parts: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    file.write_all_at(&parts, 0)?;
    Ok(file)
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(UNFINISHED);
    path.with_file_name(name)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A line of an [`AppendLog`] that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// One that was appended.
    Whole(&'a str),
    /// One without the right checksum: damaged, or written by something else.
    Other(&'a [u8]),
}

/// A text file of lines `CHECKSUM TEXT`, where the checksum is the CRC-32C of the text as 8 hexadecimal
/// digits. Lines are appended, and the file is replaced when too many of them are of no use.
#[derive(Debug)]
pub struct AppendLog {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    access: Access,
    bytes_max: u64,
    file: Option<Arc<dyn DiskFile>>,
    end: u64,
    is_dirty: bool,
}

impl AppendLog {
    /// Reads the file, if there is one, and passes on each line. An unfinished last line, as a crash leaves
    /// it, is overwritten by the next one. Beyond `bytes_max` nothing is read, and nothing appended.
    pub fn open(
        disk: Arc<dyn Disk>,
        path: PathBuf,
        access: Access,
        bytes_max: u64,
        mut each: impl FnMut(Line<'_>),
    ) -> io::Result<Self> {
        let bytes = read_small(&*disk, &path, bytes_max)?.unwrap_or_default();
        let end = end_of_lines(&bytes);
        for line in bytes.get(..end as usize).unwrap_or_default().split_inclusive(|b| *b == b'\n') {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            each(checked(line).map_or(Line::Other(line), Line::Whole));
        }
        Ok(Self { disk, path, access, bytes_max, file: None, end, is_dirty: false })
    }

    /// Appends a line, which the next [`AppendLog::sync`] makes durable. After an error the line may be there
    /// or not.
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
                // What follows the last whole line is not one.
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

    /// Puts other lines in the place of all of them, durably.
    pub fn replace<'a>(&mut self, texts: impl Iterator<Item = &'a str>) -> io::Result<()> {
        let content: String = texts.map(line).collect();
        let replaced = durable_replace(&*self.disk, &self.path, &[content.as_bytes()], self.access);
        // The open file may be the old one or, if only the last step failed, neither here nor there.
        self.file = None;
        self.is_dirty = false;
        self.end = match &replaced {
            Ok(()) => content.len() as u64,
            Err(_) => end_of_lines(&read_small(&*self.disk, &self.path, self.bytes_max)?.unwrap_or_default()),
        };
        replaced
    }
}

/// Where the last whole line ends.
fn end_of_lines(bytes: &[u8]) -> u64 {
    bytes.iter().rposition(|b| *b == b'\n').map_or(0, |last| last as u64 + 1)
}

/// A line with its checksum. A line end in the text would begin another one, and is a blank.
fn line(text: &str) -> String {
    let text = text.replace(['\r', '\n'], " ");
    format!("{:0width$x} {text}\n", crc32c(text.as_bytes()), width = CRC_DIGITS)
}

/// The text of a line with the right checksum.
fn checked(line: &[u8]) -> Option<&str> {
    let (digits, text) = line.split_at_checked(CRC_DIGITS)?;
    let text = text.strip_prefix(b" ")?;
    let crc = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    std::str::from_utf8(text).ok().filter(|_| crc == crc32c(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{CrashKind, SimDisk};

    const PATH: &str = "/d/state";

    fn on(sim: &SimDisk) -> Option<Vec<u8>> {
        read_small(sim, Path::new(PATH), 1 << 20).unwrap()
    }

    /// Lets `change` meet every crash, and looks at what is left.
    fn crashes(
        prepare: impl Fn(&SimDisk) -> io::Result<()>,
        change: impl Fn(&SimDisk) -> io::Result<()>,
        check: impl Fn(&SimDisk, bool, &str),
    ) {
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = SimDisk::new();
                sim.create_dir(Path::new("/d")).unwrap();
                prepare(&sim).unwrap();
                sim.crash_at(sim.steps() + step, kind, step * 7919);
                let done = change(&sim).is_ok();
                check(&sim.image().unwrap(), done, &format!("{kind:?} at step {step}"));
                if !sim.crashed() {
                    assert!(step > 3, "nothing was tried");
                    break;
                }
            }
        }
    }

    #[test]
    fn a_crash_leaves_the_old_file_or_the_new_one() {
        let write =
            |sim: &SimDisk, text: &[u8]| durable_replace(sim, Path::new(PATH), &[text], Access::Owner);
        crashes(
            |sim| write(sim, b"the old one, which is longer"),
            |sim| write(sim, b"the new one"),
            |sim, done, what| {
                let found = on(sim).unwrap();
                assert!(
                    found == b"the new one" || (!done && found == b"the old one, which is longer"),
                    "{what}"
                );
                write(sim, b"another").unwrap();
                assert_eq!(on(sim).unwrap(), b"another", "{what}");
            },
        );
    }

    #[test]
    fn a_crash_leaves_of_several_replacements_each_whole_or_as_it_was() {
        // As many as are synced one by one, and more.
        for files in [3, 7] {
            let path = |n: usize| PathBuf::from(format!("/d/{n}"));
            let replace = |sim: &SimDisk, text: &str| {
                let mut new = Replacements::new(sim, Path::new("/d"));
                for n in 0..files {
                    new.add(&path(n), &[text.as_bytes(), n.to_string().as_bytes()], Access::Group)?;
                }
                new.sync()?;
                new.name()
            };
            let read = |sim: &SimDisk, n| read_small(sim, &path(n), 100).unwrap();
            crashes(
                // The last of them is new.
                |sim| {
                    replace(sim, "old ")
                        .and_then(|()| sim.remove(&path(files - 1)))
                        .and_then(|()| sim.sync_dir(Path::new("/d")))
                },
                |sim| replace(sim, "new "),
                |sim, done, what| {
                    for n in 0..files {
                        let (found, old) = (read(sim, n), (n + 1 < files).then(|| format!("old {n}")));
                        let is_new = found.as_deref() == Some(format!("new {n}").as_bytes());
                        assert!(is_new || !done && found == old.map(String::into_bytes), "{what}: {n}");
                    }
                },
            );
            let sim = SimDisk::new();
            sim.create_dir(Path::new("/d")).unwrap();
            let mut new = Replacements::new(&sim, Path::new("/d"));
            (0..files).for_each(|n| new.add(&path(n), &[b"x"], Access::Group).unwrap());
            drop(new);
            assert_eq!(sim.list(Path::new("/d")).unwrap(), Vec::<String>::new(), "none has got its name");
        }
    }

    #[test]
    fn a_crash_leaves_no_file_or_a_whole_one_and_an_old_one_stays() {
        let create = |sim: &SimDisk, text: &[u8]| {
            durable_create(sim, Path::new(PATH), &[text, b" in parts"], Access::Group)
        };
        crashes(
            |_| Ok(()),
            |sim| create(sim, b"new").map(|made| assert!(made)),
            |sim, done, what| {
                let found = on(sim);
                assert!(found.as_deref() == Some(b"new in parts") || (!done && found.is_none()), "{what}");
                assert_eq!(create(sim, b"later").unwrap(), found.is_none(), "{what}");
                assert_eq!(on(sim).is_some_and(|now| now == b"later in parts"), found.is_none(), "{what}");
            },
        );
    }

    #[test]
    fn a_crash_leaves_a_file_under_its_name_only_if_it_is_whole() {
        let begin = |sim: &SimDisk| {
            NewFile::begin(Arc::new(sim.clone()), "/d/.part".into(), Path::new("/d")).and_then(|mut new| {
                new.announce(9)?;
                new.append(b"in ")?;
                new.append(b"parts")?;
                Ok(new)
            })
        };
        crashes(
            |_| Ok(()),
            |sim| begin(sim)?.finish(Path::new(PATH)),
            |sim, done, what| {
                let found = on(sim);
                assert!(found.as_deref() == Some(b"in parts") || (!done && found.is_none()), "{what}");
            },
        );
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        let new = begin(&sim).unwrap();
        assert_eq!(sim.about(Path::new("/d/.part")).unwrap().map(|about| about.bytes), Some(9));
        assert!(begin(&sim).is_err(), "it is being written");
        drop(new);
        assert_eq!(sim.list(Path::new("/d")).unwrap(), Vec::<String>::new());
    }

    fn log(sim: &SimDisk) -> (AppendLog, Vec<String>) {
        let mut lines = Vec::new();
        let each = |line: Line<'_>| lines.push(format!("{line:?}"));
        let log = AppendLog::open(Arc::new(sim.clone()), PATH.into(), Access::Owner, 300, each).unwrap();
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
    fn a_replacement_that_fails_at_any_step_leaves_a_log_that_goes_on() {
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
    fn damaged_and_foreign_lines_are_told_apart_and_the_file_is_bounded() {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        let content =
            [line("whole").as_bytes(), b"of another kind\n", b"00000000 damaged\n\n\xff\xff\xff\n12"]
                .concat();
        durable_replace(&sim, Path::new(PATH), &[&content], Access::Owner).unwrap();
        let (mut log, lines) = log(&sim);
        assert_eq!(lines.iter().filter(|line| line.starts_with("Other")).count(), 4);
        assert_eq!(lines[0], "Whole(\"whole\")");
        while log.append("one more").is_ok() {}
        let error = log.append("one more").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert!(on(&sim).unwrap().len() <= 300);
        log.replace(["a", "b"].into_iter()).unwrap();
        log.append("c").unwrap();
        assert_eq!(self::log(&sim).1, ["Whole(\"a\")", "Whole(\"b\")", "Whole(\"c\")"]);
    }
}
