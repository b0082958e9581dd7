//! Directory in which batches wait to be filed.
//!
//! Batches are put there by `newsreel rnews` when the site cannot file them, by XBATCH, and by anyone who
//! moves files there. A batch of ours is written whole and synced before it gets its name. The bytes of all
//! waiting batches are bounded. The running server files them, oldest first, and removes each one after
//! filing it. Format: `docs/formats/incoming.md`.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use disk::{Disk, NewFile};

use site_config::Config;

/// Suffixes of a batch of ours, and of one being written.
const KEPT: &str = ".batch";
const UNFINISHED: &str = ".new";
/// Most files in the directory.
const FILES_MAX: usize = 100_000;
/// Bytes that a batch writes until it looks again at how much room there is: others arrive beside it.
const LOOK_BYTES: u64 = 1 << 20;
/// Time for which a file of another program must have been unchanged.
const SETTLED_AFTER: Duration = Duration::from_secs(2);
/// Age at which an unfinished file is considered abandoned.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The directory of waiting batches.
#[derive(Debug, Clone)]
pub struct IncomingDir {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    data: PathBuf,
    bytes_max: u64,
}

/// A waiting batch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitingBatch {
    /// Time of arrival.
    since: SystemTime,
    /// Path of its file.
    pub path: PathBuf,
    /// Size of its file in bytes.
    pub bytes: u64,
    /// Sending peer; `None` for batches of this machine.
    pub sender: Option<BatchSender>,
}

/// A peer that sent a batch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchSender {
    /// Name of its section.
    pub peer: String,
    /// Address it connected from.
    pub address: String,
}

/// Reason why a batch is not kept.
#[derive(Debug)]
pub enum BatchNotKept {
    /// The waiting batches fill the directory.
    NoRoom,
    /// It cannot be written.
    Io(io::Error),
}

impl From<io::Error> for BatchNotKept {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl std::fmt::Display for BatchNotKept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoRoom => f.write_str("as much waits to be filed as may (batches.waiting_bytes_max)"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl IncomingDir {
    /// Returns the directory of a site.
    pub fn of(config: &Config, disk: &Arc<dyn Disk>) -> Self {
        Self {
            disk: disk.clone(),
            dir: config.batches.incoming.clone(),
            data: config.site.data.clone(),
            bytes_max: config.batches.waiting_bytes_max,
        }
    }

    /// Begins a batch from `sender`, or from this machine; `bytes` is its length, if known.
    pub fn begin(
        &self,
        sender: Option<&BatchSender>,
        bytes: Option<u64>,
    ) -> Result<ArrivingBatch, BatchNotKept> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        if !self.disk.has_dir(&self.dir)? {
            self.disk.create_dir(&self.dir)?;
            self.disk.make_like(&self.dir, &self.data, false)?;
        }
        let (files, waiting) = self.sizes()?;
        let room = self.bytes_max.saturating_sub(waiting);
        if files >= FILES_MAX || bytes.unwrap_or(1) > room {
            return Err(BatchNotKept::NoRoom);
        }
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let sender = sender.map_or_else(String::new, |BatchSender { peer, address }| {
            format!("@{}@{}", escaped(peer), escaped(address))
        });
        let name = format!("{nanos:020}-{}-{count}{sender}", std::process::id());
        let unfinished = self.dir.join(format!(".{name}{UNFINISHED}"));
        let file = NewFile::begin(self.disk.clone(), unfinished, &self.data)?;
        // Its length takes no room before it arrives, so that a slow peer leaves it to others.
        let kept = self.dir.join(name + KEPT);
        Ok(ArrivingBatch { incoming: self.clone(), file, kept, room, look_after: LOOK_BYTES })
    }

    /// Returns the number of files, unfinished ones included, and their bytes.
    fn sizes(&self) -> io::Result<(usize, u64)> {
        let (mut files, mut bytes) = (0, 0);
        for name in self.disk.list(&self.dir)? {
            // A batch may have been filed in the meantime.
            let Some(about) = self.disk.about(&self.dir.join(name))? else { continue };
            files += 1;
            bytes += about.bytes;
        }
        Ok((files, bytes))
    }

    /// Returns the batches that can be filed, oldest first; none if there is no directory.
    pub fn waiting(&self) -> io::Result<Vec<WaitingBatch>> {
        let now = SystemTime::now();
        let mut found = Vec::new();
        for name in self.disk.list(&self.dir)? {
            let path = self.dir.join(&name);
            let Some(about) = self.disk.about(&path)? else { continue };
            let since = about.modified;
            let age = now.duration_since(since).unwrap_or_default();
            if name.starts_with('.') {
                if name.ends_with(UNFINISHED) && age > ABANDONED_AFTER {
                    self.disk.remove(&path)?;
                }
                continue;
            }
            let own = name.strip_suffix(KEPT);
            if own.is_none() && age < SETTLED_AFTER {
                continue;
            }
            let sender = own.and_then(|own| own.split_once('@')).map(|(_, sender)| {
                let (peer, address) = sender.split_once('@').unwrap_or((sender, ""));
                BatchSender { peer: unescaped(peer), address: unescaped(address) }
            });
            found.push(WaitingBatch { since, path, bytes: about.bytes, sender });
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Removes a batch that has been filed.
    pub fn remove(&self, batch: &WaitingBatch) -> io::Result<()> {
        self.disk.remove(&batch.path)?;
        self.disk.sync_dir(&self.dir)
    }
}

/// A batch being written; removed if dropped unfinished.
#[derive(Debug)]
pub struct ArrivingBatch {
    incoming: IncomingDir,
    file: NewFile,
    kept: PathBuf,
    /// Bytes left to all, when it looked last.
    room: u64,
    /// Bytes until it looks again.
    look_after: u64,
}

impl ArrivingBatch {
    /// Appends to the batch.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), BatchNotKept> {
        let more = bytes.len() as u64;
        self.look_after = self.look_after.saturating_sub(more);
        if self.look_after == 0 {
            self.look_after = LOOK_BYTES;
            self.room = self.incoming.bytes_max.saturating_sub(self.incoming.sizes()?.1);
        }
        self.room = self.room.checked_sub(more).ok_or(BatchNotKept::NoRoom)?;
        Ok(self.file.append(bytes)?)
    }

    /// Finishes the batch durably.
    pub fn finish(self) -> io::Result<PathBuf> {
        self.file.finish(&self.kept)?;
        Ok(self.kept)
    }
}

/// Returns a peer's name or address as part of a file name: octets other than letters, digits, `.`, `_` and
/// `-` become `%` and two hexadecimal digits.
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
    use disk::{CrashKind, RealDisk, SimDisk};
    use std::fs::{self, File};
    use std::path::Path;

    fn incoming(data: &Path, bytes_max: u64) -> IncomingDir {
        on(Arc::new(RealDisk::new()), data, bytes_max)
    }

    fn on(disk: Arc<dyn Disk>, data: &Path, bytes_max: u64) -> IncomingDir {
        IncomingDir { disk, dir: data.join("incoming"), data: data.to_owned(), bytes_max }
    }

    /// Two batches arrive and the first one is filed; then the machine crashes at any step.
    #[test]
    fn a_crash_at_any_step_leaves_whole_batches_and_every_acknowledged_one() {
        let data = Path::new("/d");
        let texts = [&b"#! rnews 3\nabc"[..], b"#! rnews 6\nabcdef"];
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = SimDisk::new();
                sim.create_dir(data).unwrap();
                sim.crash_at(sim.steps() + step, kind, step * 7919);
                let incoming = on(Arc::new(sim.clone()), data, 100);
                let mut done = Vec::new();
                for text in texts {
                    let kept = incoming.begin(None, Some(text.len() as u64)).and_then(|mut arriving| {
                        let (begin, end) = text.split_at(5);
                        arriving.write(begin)?;
                        arriving.write(end)?;
                        Ok(arriving.finish()?)
                    });
                    done.push(kept.is_ok());
                }
                let first = incoming.waiting().ok().and_then(|waiting| waiting.into_iter().next());
                let removed = first.is_some_and(|first| incoming.remove(&first).is_ok());
                let crashed = sim.crashed();
                let left = sim.image().unwrap();
                let after = on(Arc::new(left.clone()), data, 100);
                let found = |path: &Path| disk::read_small(&left, path, 1_000).unwrap().unwrap();
                let waiting = after.waiting().unwrap();
                let found: Vec<_> = waiting.iter().map(|batch| found(&batch.path)).collect();
                let context = format!("{kind:?} at step {step}: {found:?}");
                assert!(found.iter().all(|bytes| texts.contains(&bytes.as_slice())), "{context}");
                assert!(!removed || found.iter().all(|bytes| bytes == texts[1]), "{context}");
                assert!(!done[1] || found.iter().any(|bytes| bytes == texts[1]), "{context}");
                let kept_first = found.iter().any(|bytes| bytes == texts[0]);
                assert!(!done[0] || done[1] || kept_first, "{context}");
                // The unfinished batch is removed, and there is room again.
                let names = left.list(&data.join("incoming")).unwrap();
                assert_eq!(names.len(), found.len(), "{context}");
                after.begin(None, Some(60)).map(drop).unwrap();
                if !crashed {
                    assert!(step > 10 && done == [true, true] && removed, "nothing was tried");
                    break;
                }
            }
        }
    }

    #[test]
    fn a_batch_gets_its_name_when_it_is_complete() {
        let data = tempfile::tempdir().unwrap();
        let incoming = incoming(data.path(), 100);
        assert_eq!(incoming.waiting().unwrap(), []);
        let sender = BatchSender { peer: "a@b!%\u{e9}".into(), address: "2001:db8::7".into() };
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
    fn bytes_of_waiting_batches_are_bounded() {
        let data = tempfile::tempdir().unwrap();
        let incoming = incoming(data.path(), 100);
        assert!(matches!(incoming.begin(None, Some(101)), Err(BatchNotKept::NoRoom)));
        let mut some = incoming.begin(None, Some(60)).unwrap();
        some.write(&[0; 60]).unwrap();
        assert!(matches!(incoming.begin(None, Some(60)), Err(BatchNotKept::NoRoom)));
        let mut other = incoming.begin(None, None).unwrap();
        other.write(&[0; 40]).unwrap();
        assert!(matches!(other.write(b"x"), Err(BatchNotKept::NoRoom)));
        drop(some);
        incoming.begin(None, Some(60)).unwrap();
    }

    #[test]
    fn batches_that_arrive_at_once_share_the_room_by_what_has_come_of_them() {
        let data = tempfile::tempdir().unwrap();
        let incoming = incoming(data.path(), 3 << 20);
        let mut slow = incoming.begin(None, Some(3 << 20)).unwrap();
        slow.write(b"x").unwrap();
        let mut all = [incoming.begin(None, None).unwrap(), incoming.begin(None, None).unwrap()];
        let piece = vec![0; 256 << 10];
        let mut taken = 0;
        for _ in 0..12 {
            taken += all.iter_mut().filter_map(|batch| batch.write(&piece).ok()).count();
        }
        let bytes = taken * piece.len();
        assert!((2 << 20..=4 << 20).contains(&bytes), "{bytes}");
    }

    #[test]
    fn foreign_files_are_taken_once_unchanged_and_hidden_ones_never() {
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
