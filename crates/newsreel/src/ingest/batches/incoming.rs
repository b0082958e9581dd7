//! The directory in which batches wait to be filed.
//!
//! Batches come by `newsreel rnews` when the site cannot file them, by XBATCH, and from whoever moves files
//! there. A batch of ours is written whole and synced before it has its name. All that wait are bounded in
//! bytes. The running server files them, the oldest first, and removes each when it is filed. Format:
//! `docs/formats/incoming.md`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::give;
use crate::config::Config;

/// How the name of a batch of ours ends, and of one being written.
const KEPT: &str = ".batch";
const UNFINISHED: &str = ".new";
/// Files that there may be.
const FILES_MAX: usize = 100_000;
/// A file of somebody else must not have changed for so long.
const SETTLED_AFTER: Duration = Duration::from_secs(2);
/// An unfinished file that has not changed for so long is nobody's any more.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The directory.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    dir: PathBuf,
    data: PathBuf,
    bytes_max: u64,
}

/// A batch that waits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found {
    /// When it came.
    since: SystemTime,
    pub path: PathBuf,
    pub bytes: u64,
    /// Who sent it; `None`: it came from this machine.
    pub sender: Option<Sender>,
}

/// A peer that sent a batch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sender {
    /// The name of its section.
    pub peer: String,
    /// Where it connected from.
    pub address: String,
}

/// Why a batch is not kept.
#[derive(Debug)]
pub(crate) enum NotKept {
    /// So much waits already.
    NoRoom,
    Io(io::Error),
}

impl From<io::Error> for NotKept {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl std::fmt::Display for NotKept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoRoom => f.write_str("as much waits to be filed as may (batches.waiting_bytes_max)"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl Incoming {
    /// That of a site.
    pub fn of(config: &Config) -> Self {
        Self {
            dir: config.batches.incoming.clone(),
            data: config.site.data.clone(),
            bytes_max: config.batches.waiting_bytes_max,
        }
    }

    /// Begins a batch that comes from `sender`, or from this machine; `bytes` long, if that is known.
    pub fn begin(&self, sender: Option<&Sender>, bytes: Option<u64>) -> Result<Arriving, NotKept> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let site = fs::metadata(&self.data)?;
        if !self.dir.is_dir() {
            fs::create_dir_all(&self.dir)?;
            give(&self.dir, &site)?;
        }
        let (files, waiting) = self.sizes()?;
        let room = self.bytes_max.saturating_sub(waiting);
        if files >= FILES_MAX || bytes.unwrap_or(1) > room {
            return Err(NotKept::NoRoom);
        }
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let sender = sender.map_or_else(String::new, |Sender { peer, address }| {
            format!("@{}@{}", escaped(peer), escaped(address))
        });
        let name = format!("{nanos:020}-{}-{count}{sender}", std::process::id());
        let unfinished = self.dir.join(format!(".{name}{UNFINISHED}"));
        let file = File::options().write(true).create_new(true).open(&unfinished)?;
        let arriving =
            Arriving { file, dir: self.dir.clone(), kept: self.dir.join(name + KEPT), unfinished, room };
        give(&arriving.unfinished, &site)?;
        if let Some(bytes) = bytes {
            // What others see of the room that it will take.
            arriving.file.set_len(bytes)?;
        }
        Ok(arriving)
    }

    /// How many files there are, unfinished ones too, and their bytes.
    fn sizes(&self) -> io::Result<(usize, u64)> {
        let (mut files, mut bytes) = (0, 0);
        for entry in fs::read_dir(&self.dir)? {
            // One may have been filed meanwhile.
            let Ok(about) = entry?.metadata() else { continue };
            files += 1;
            bytes += about.len();
        }
        Ok((files, bytes))
    }

    /// The batches that can be filed, the oldest first. None, if there is no directory.
    pub fn waiting(&self) -> io::Result<Vec<Found>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let now = SystemTime::now();
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            let Ok(about) = entry.metadata() else { continue };
            let (name, since) = (entry.file_name(), about.modified()?);
            let age = now.duration_since(since).unwrap_or_default();
            let name = name.to_string_lossy();
            if name.starts_with('.') || !about.is_file() {
                if name.ends_with(UNFINISHED) && age > ABANDONED_AFTER {
                    fs::remove_file(entry.path())?;
                }
                continue;
            }
            let own = name.strip_suffix(KEPT);
            if own.is_none() && age < SETTLED_AFTER {
                continue;
            }
            let sender = own.and_then(|own| own.split_once('@')).map(|(_, sender)| {
                let (peer, address) = sender.split_once('@').unwrap_or((sender, ""));
                Sender { peer: unescaped(peer), address: unescaped(address) }
            });
            found.push(Found { since, path: entry.path(), bytes: about.len(), sender });
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Removes a batch that is filed.
    pub fn remove(&self, batch: &Found) -> io::Result<()> {
        fs::remove_file(&batch.path)?;
        sync_dir(&self.dir)
    }
}

/// A batch that is being written; removed if it is dropped unfinished.
#[derive(Debug)]
pub(crate) struct Arriving {
    file: File,
    dir: PathBuf,
    unfinished: PathBuf,
    kept: PathBuf,
    /// Bytes that it may still have.
    room: u64,
}

impl Arriving {
    /// Appends.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), NotKept> {
        self.room = self.room.checked_sub(bytes.len() as u64).ok_or(NotKept::NoRoom)?;
        Ok(self.file.write_all(bytes)?)
    }

    /// Keeps the batch durably.
    pub fn finish(self) -> io::Result<PathBuf> {
        self.file.sync_all()?;
        fs::rename(&self.unfinished, &self.kept)?;
        sync_dir(&self.dir)?;
        Ok(self.kept.clone())
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        // Under its own name it stays.
        let _kept = fs::remove_file(&self.unfinished);
    }
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// A peer's name or address as part of a file's: other octets than letters, digits, `.`, `_` and `-` as `%`
/// and two hexadecimal digits.
fn escaped(name: &str) -> String {
    let octet = |octet: u8| match octet {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => char::from(octet).to_string(),
        other => format!("%{other:02x}"),
    };
    name.bytes().map(octet).collect()
}

fn unescaped(name: &str) -> String {
    let mut parts = name.split('%');
    let mut octets: Vec<u8> = parts.next().unwrap_or_default().into();
    for part in parts {
        let octet = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        octets.extend(octet);
        octets.extend_from_slice(part.get(2..).unwrap_or_default().as_bytes());
    }
    String::from_utf8_lossy(&octets).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incoming(data: &Path, bytes_max: u64) -> Incoming {
        Incoming { dir: data.join("incoming"), data: data.to_owned(), bytes_max }
    }

    #[test]
    fn a_batch_has_its_name_when_it_is_whole() {
        let data = tempfile::tempdir().unwrap();
        let incoming = incoming(data.path(), 100);
        assert_eq!(incoming.waiting().unwrap(), []);
        let sender = Sender { peer: "a@b!%\u{e9}".into(), address: "2001:db8::7".into() };
        let mut arriving = incoming.begin(Some(&sender), None).unwrap();
        arriving.write(b"some").unwrap();
        assert_eq!(incoming.waiting().unwrap(), []);
        let path = arriving.finish().unwrap();
        let waiting = incoming.waiting().unwrap();
        assert_eq!((waiting.len(), &waiting[0].path, waiting[0].bytes), (1, &path, 4));
        assert_eq!(waiting[0].sender, Some(sender));
        drop(incoming.begin(None, Some(9)).unwrap());
        assert_eq!(fs::read_dir(data.path().join("incoming")).unwrap().count(), 1);
        incoming.remove(&waiting[0]).unwrap();
        assert_eq!(incoming.waiting().unwrap(), []);
    }

    #[test]
    fn all_that_wait_are_bounded() {
        let data = tempfile::tempdir().unwrap();
        let incoming = incoming(data.path(), 100);
        let announced = incoming.begin(None, Some(60)).unwrap();
        assert!(matches!(incoming.begin(None, Some(60)), Err(NotKept::NoRoom)));
        let mut other = incoming.begin(None, None).unwrap();
        other.write(&[0; 40]).unwrap();
        assert!(matches!(other.write(b"x"), Err(NotKept::NoRoom)));
        drop(announced);
        incoming.begin(None, Some(60)).unwrap();
    }

    #[test]
    fn files_of_others_are_taken_when_they_rest_and_hidden_ones_never() {
        let data = tempfile::tempdir().unwrap();
        let incoming = incoming(data.path(), 100);
        let dir = data.path().join("incoming");
        fs::create_dir(&dir).unwrap();
        for (name, seconds_old) in
            [("fresh", 0), ("old", 60), (".hidden", 60), (".x.new", 90_000), ("older", 90)]
        {
            let file = File::create(dir.join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds_old)).unwrap();
        }
        fs::create_dir(dir.join("folder")).unwrap();
        let names: Vec<_> = incoming.waiting().unwrap().iter().map(|found| found.path.clone()).collect();
        assert_eq!(names, [dir.join("older"), dir.join("old")]);
        assert!(!dir.join(".x.new").exists() && dir.join(".hidden").exists());
    }
}
