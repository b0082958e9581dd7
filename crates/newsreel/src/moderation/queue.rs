//! The queue of mails on disk: one file each, written whole and durably before it has its name.
//!
//! Names sort in the order they were queued. Nothing else keeps state here: tries and times are forgotten at a restart.
//! Called by `moderation`. Format: `docs/formats/moderation.md`.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::error;

use crate::base::counters::add;

/// Directory below `site.data`.
const DIR: &str = "moderation";
const FIRST_LINE: &str = "newsreel moderation 1";
/// How the name of a queued mail ends, and of one being written.
const QUEUED: &str = ".mail";
const UNFINISHED: &str = ".new";

/// A mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mail {
    pub to: String,
    /// Envelope sender.
    pub from: String,
    /// Unix seconds.
    pub queued: i64,
    /// Headers and body, CRLF lines, no dot-stuffing.
    pub text: Vec<u8>,
}

/// A file's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Name(String);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The queue.
#[derive(Debug)]
pub(super) struct Queue {
    dir: PathBuf,
    failed: PathBuf,
    waiting: AtomicUsize,
    count: AtomicU64,
    /// Mails moved to `failed` since the start.
    pub put_aside: AtomicU64,
}

impl Queue {
    /// The queue of the site in `data`; files that were being written are removed. Its directories are made when needed.
    pub fn open(data: &Path) -> io::Result<Self> {
        let dir = data.join(DIR);
        let failed = dir.join("failed");
        let (waiting, count, put_aside) = <(AtomicUsize, AtomicU64, AtomicU64)>::default();
        let queue = Self { dir, failed, waiting, count, put_aside };
        if let Ok(entries) = fs::read_dir(&queue.dir) {
            for entry in entries.flatten() {
                if entry.file_name().to_string_lossy().ends_with(UNFINISHED) {
                    fs::remove_file(entry.path())?;
                }
            }
        }
        queue.waiting.store(queue.names().len(), Ordering::Relaxed);
        Ok(queue)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Queues a mail durably; false if `max` wait already.
    pub fn put(&self, mail: &Mail, max: usize) -> io::Result<bool> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= max {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Ok(false);
        }
        let written = self.write(mail);
        if written.is_err() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        written.map(|()| true)
    }

    fn write(&self, mail: &Mail) -> io::Result<()> {
        if !self.failed.is_dir() {
            fs::create_dir_all(&self.failed)?;
            self.dir.parent().map_or(Ok(()), sync_dir)?;
        }
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let name = format!("{nanos:020}-{}", self.count.fetch_add(1, Ordering::Relaxed));
        let unfinished = self.dir.join(format!("{name}{UNFINISHED}"));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        let head = format!("{FIRST_LINE}\nto {}\nfrom {}\nqueued {}\n\n", mail.to, mail.from, mail.queued);
        file.write_all(head.as_bytes())?;
        file.write_all(&mail.text)?;
        file.sync_all()?;
        fs::rename(&unfinished, self.dir.join(format!("{name}{QUEUED}")))?;
        sync_dir(&self.dir)
    }

    /// What waits, the oldest first.
    pub fn names(&self) -> Vec<Name> {
        let Ok(entries) = fs::read_dir(&self.dir) else { return Vec::new() };
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.filter(|name| name.ends_with(QUEUED)).map(Name).collect();
        names.sort_unstable();
        names
    }

    /// A mail of the queue; what cannot be read is put aside.
    pub fn read(&self, name: &Name) -> Option<Mail> {
        let path = self.dir.join(&name.0);
        match fs::read(&path) {
            Ok(bytes) => {
                let mail = parsed(&bytes);
                if mail.is_none() {
                    error!(file = %path.display(), "not a queued mail; it is in moderation/failed");
                    self.put_aside(name);
                }
                mail
            }
            Err(error) => {
                error!(file = %path.display(), %error, "cannot read a queued mail");
                None
            }
        }
    }

    /// Takes a mail out of the queue.
    pub fn remove(&self, name: &Name) {
        self.leave(name, fs::remove_file(self.dir.join(&name.0)));
    }

    /// Moves a mail to `failed`.
    pub fn put_aside(&self, name: &Name) {
        self.leave(name, fs::rename(self.dir.join(&name.0), self.failed.join(&name.0)));
        add(&self.put_aside, 1);
    }

    fn leave(&self, name: &Name, done: io::Result<()>) {
        match done.and_then(|()| sync_dir(&self.dir)) {
            Ok(()) => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
            }
            Err(error) => {
                error!(mail = %name, %error, "cannot take a mail out of the queue; it may be sent again")
            }
        }
    }
}

fn parsed(bytes: &[u8]) -> Option<Mail> {
    let end = memchr::memmem::find(bytes, b"\n\n")?;
    let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let mut lines = head.lines();
    if lines.next()? != FIRST_LINE {
        return None;
    }
    let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned);
    let (to, from, queued) = (value("to")?, value("from")?, value("queued")?);
    Some(Mail { to, from, queued: queued.parse().ok()?, text: bytes.get(end + 2..)?.to_vec() })
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail(n: i64) -> Mail {
        Mail {
            to: "mod@x".into(),
            from: "news@me".into(),
            queued: n,
            text: b"To: mod@x\r\n\r\nbody\n\n\r\n".into(),
        }
    }

    #[test]
    fn mails_outlive_a_restart_and_half_written_ones_do_not() {
        let dir = tempfile::TempDir::new().unwrap();
        let queue = Queue::open(dir.path()).unwrap();
        assert!(queue.put(&mail(1), 3).unwrap() && queue.put(&mail(2), 3).unwrap());
        drop(queue);
        let half = dir.path().join(DIR).join("1.new");
        fs::write(&half, b"newsreel mod").unwrap();
        let queue = Queue::open(dir.path()).unwrap();
        assert!(!half.exists());
        let names = queue.names();
        assert_eq!(names.iter().filter_map(|name| queue.read(name)).collect::<Vec<_>>(), [mail(1), mail(2)]);
        assert!(queue.put(&mail(3), 3).unwrap());
        assert!(!queue.put(&mail(4), 3).unwrap(), "full");
        queue.remove(&names[0]);
        queue.put_aside(&names[1]);
        assert_eq!((queue.len(), queue.names().len()), (1, 1));
        assert!(queue.put(&mail(5), 3).unwrap());
        assert_eq!(fs::read_dir(dir.path().join(DIR).join("failed")).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_mail_is_put_aside() {
        let dir = tempfile::TempDir::new().unwrap();
        let queue = Queue::open(dir.path()).unwrap();
        assert!(queue.put(&mail(1), 3).unwrap());
        let name = queue.names().remove(0);
        for bad in [
            "",
            "x\n\n",
            "newsreel moderation 1\nto a\nfrom b\nqueued x\n\nt",
            "newsreel moderation 1\nto a\n\nt",
        ] {
            assert_eq!(parsed(bad.as_bytes()), None, "{bad}");
        }
        fs::write(dir.path().join(DIR).join(&name.0), b"garbage").unwrap();
        assert_eq!(queue.read(&name), None);
        assert_eq!((queue.len(), queue.names().len()), (0, 0));
    }
}
