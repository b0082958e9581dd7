//! The queue of mails on disk: one file each, written whole and durably before it gets its name.
//!
//! Names sort in the order of queueing. Nothing else is stored: numbers and times of tries are forgotten at a
//! restart. Called by `moderation`. Format: `docs/formats/moderation.md`.

use disk::{Disk, FileAccess, durable_create, read_small};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::error;

use site_base::counters::add;
use site_base::fields;
use site_base::file_name::FileName;

/// Directory below `site.data`.
const DIR: &str = "moderation";
/// Beginning of the first line of a file.
const KIND: &str = "newsreel moderation";
/// Suffix of the name of a queued mail, and of one being written.
const QUEUED: &str = ".mail";
const UNFINISHED: &str = ".new";

/// Maximum bytes read from a file; articles are shorter.
const MAIL_BYTES_MAX: u64 = 2 << 30;

/// A mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueuedMail {
    pub to: String,
    /// Envelope sender.
    pub from: String,
    /// Unix seconds.
    pub queued: i64,
    /// Headers and body, CRLF lines, no dot-stuffing.
    pub text: Vec<u8>,
}

/// The queue.
#[derive(Debug)]
pub(super) struct MailQueue {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    failed: PathBuf,
    waiting: AtomicUsize,
    count: AtomicU64,
    /// Mails moved to `failed` since the start.
    pub put_aside: AtomicU64,
}

impl MailQueue {
    /// Opens the queue of the site in `data`; unfinished files are removed. Directories are created when
    /// needed.
    pub fn open(disk: Arc<dyn Disk>, data: &Path) -> io::Result<Self> {
        let dir = data.join(DIR);
        let failed = dir.join("failed");
        let (waiting, count, put_aside) = <(AtomicUsize, AtomicU64, AtomicU64)>::default();
        let queue = Self { disk, dir, failed, waiting, count, put_aside };
        for name in queue.disk.list(&queue.dir).unwrap_or_default() {
            if name.ends_with(UNFINISHED) {
                queue.disk.remove(&queue.dir.join(name))?;
            }
        }
        queue.count_again();
        Ok(queue)
    }

    /// Returns the number of waiting mails.
    pub fn len(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Counts the waiting mails.
    pub fn count_again(&self) {
        self.waiting.store(self.names().len(), Ordering::Relaxed);
    }

    /// Queues a mail durably; returns false if `max` are waiting already.
    pub fn put(&self, mail: &QueuedMail, max: usize) -> io::Result<bool> {
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

    fn write(&self, mail: &QueuedMail) -> io::Result<()> {
        self.disk.create_dir(&self.failed)?;
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let name = format!("{nanos:020}-{}{QUEUED}", self.count.fetch_add(1, Ordering::Relaxed));
        let queued = mail.queued.to_string();
        let fields: [(&str, &str); 3] = [("to", &mail.to), ("from", &mail.from), ("queued", &queued)];
        let (head, sum) = fields::around(KIND, &fields, &mail.text);
        let parts = [head.as_bytes(), &mail.text, sum.as_bytes()];
        match durable_create(&*self.disk, &self.dir.join(name), &parts, FileAccess::Owner)? {
            true => Ok(()),
            false => Err(ErrorKind::AlreadyExists.into()),
        }
    }

    /// Returns the names of waiting mails, oldest first.
    pub fn names(&self) -> Vec<FileName> {
        let names = self.disk.list(&self.dir).unwrap_or_default();
        FileName::ending_with(names, QUEUED).collect()
    }

    /// Reads a mail of the queue; an unreadable one is put aside.
    pub fn read(&self, name: &FileName) -> Option<QueuedMail> {
        let path = name.path_in(&self.dir);
        match read_small(&*self.disk, &path, MAIL_BYTES_MAX) {
            Ok(bytes) => {
                let mail = parsed(&bytes.unwrap_or_default());
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

    /// Removes a mail from the queue.
    pub fn remove(&self, name: &FileName) {
        self.leave(name, self.disk.remove(&name.path_in(&self.dir)));
    }

    /// Moves a mail to `failed`.
    pub fn put_aside(&self, name: &FileName) {
        self.leave(name, self.disk.rename(&name.path_in(&self.dir), &name.path_in(&self.failed)));
        add(&self.put_aside, 1);
    }

    fn leave(&self, name: &FileName, done: io::Result<()>) {
        match done.and_then(|()| self.disk.sync_dir(&self.dir)) {
            Ok(()) => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
            }
            Err(error) => {
                error!(mail = %name, %error, "cannot remove a mail from the queue; it may be sent again")
            }
        }
    }
}

/// Returns true if a file of this kind is whole.
pub fn is_whole(bytes: &[u8]) -> bool {
    parsed(bytes).is_some()
}

fn parsed(bytes: &[u8]) -> Option<QueuedMail> {
    let ([to, from, queued], text) = fields::read(bytes, KIND, ["to", "from", "queued"])?;
    Some(QueuedMail { to, from, queued: queued.parse().ok()?, text: text.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{CrashKind, SimDisk};

    fn mail(n: i64) -> QueuedMail {
        QueuedMail {
            to: "mod@x".into(),
            from: "news@me".into(),
            queued: n,
            text: b"To: mod@x\r\n\r\nbody\n\n\r\n".into(),
        }
    }

    fn open(sim: &SimDisk) -> MailQueue {
        MailQueue::open(Arc::new(sim.clone()), Path::new("/d")).unwrap()
    }

    fn mails(queue: &MailQueue) -> Vec<QueuedMail> {
        queue.names().iter().filter_map(|name| queue.read(name)).collect()
    }

    fn write(sim: &SimDisk, name: &str, bytes: &[u8]) {
        let path = Path::new("/d").join(DIR).join(name);
        disk::durable_replace(sim, &path, &[bytes], FileAccess::Owner).unwrap();
    }

    #[test]
    fn mails_survive_a_restart_and_half_written_ones_are_removed() {
        let sim = SimDisk::new();
        let queue = open(&sim);
        assert!(queue.put(&mail(1), 3).unwrap() && queue.put(&mail(2), 3).unwrap());
        drop(queue);
        write(&sim, "1.mail.new", b"newsreel mod");
        let queue = open(&sim);
        assert_eq!(sim.list(&queue.dir).unwrap().len(), 2);
        assert_eq!(mails(&queue), [mail(1), mail(2)]);
        assert!(queue.put(&mail(3), 3).unwrap());
        assert!(!queue.put(&mail(4), 3).unwrap(), "full");
        let names = queue.names();
        queue.remove(&names[0]);
        queue.put_aside(&names[1]);
        assert_eq!((queue.len(), queue.names().len()), (1, 1));
        assert!(queue.put(&mail(5), 3).unwrap());
        assert_eq!(sim.list(&queue.failed).unwrap().len(), 1);
    }

    #[test]
    fn a_crash_at_any_step_loses_no_mail_that_was_queued() {
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = SimDisk::new();
                sim.crash_at(step, kind, step * 7919);
                let mut queued = Vec::new();
                if let Ok(queue) = MailQueue::open(Arc::new(sim.clone()), Path::new("/d")) {
                    for n in 1..=3 {
                        if queue.put(&mail(n), 9).is_ok() {
                            queued.push(mail(n));
                        }
                    }
                    if queued.len() == 3 {
                        queue.remove(&queue.names()[0]);
                    }
                }
                let (what, after) = (format!("{kind:?} at step {step}"), open(&sim.image().unwrap()));
                let left = mails(&after);
                // The first may be removed, and one whose poster was not answered may be there in addition.
                let must = if queued.len() == 3 { &queued[1..] } else { &queued };
                assert!(must.iter().all(|mail| left.contains(mail)), "{what}: {left:?}");
                assert!(left.len() <= queued.len() + 1, "{what}: {left:?}");
                assert!(after.put(&mail(9), 9).unwrap(), "{what}");
                if !sim.crashed() {
                    assert_eq!(left, [mail(2), mail(3)], "{what}");
                    assert!(step > 12, "nothing was tried");
                    break;
                }
            }
        }
    }

    #[test]
    fn invalid_files_are_put_aside() {
        let sim = SimDisk::new();
        let queue = open(&sim);
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
        write(&sim, &name.to_string(), b"garbage");
        assert_eq!(queue.read(&name), None);
        assert_eq!((queue.len(), queue.names().len()), (0, 0));
    }
}
