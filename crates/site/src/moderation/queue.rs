//! The queue of mails on disk: one file each, written whole and durably before it gets its name.
//!
//! Names sort in the order of queueing, and say what the mail is. Nothing else is stored: numbers and times
//! of tries are forgotten at a restart. Called by `moderation`. Format: `docs/formats/moderation.md`.

use disk::{Disk, FileAccess, UNFINISHED, durable_create, read_small};
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tracing::{error, warn};

use access::users::{RESET_VALID_SECS, SIGN_UP_VALID_SECS};
use site_base::counters::add;
use site_base::fields;
use site_base::file_name::FileName;

/// Directory below `site.data`.
const DIR: &str = "moderation";
/// Beginning of the first line of a file.
const KIND: &str = "newsreel moderation";
/// Suffix of the name of a queued mail.
const QUEUED: &str = ".mail";
/// Suffixes of the names of mails that are no posts.
const NOTICE: &str = ".notice.mail";
const ACCOUNT: &str = ".account.mail";

/// Maximum bytes read from a file; articles are shorter.
const MAIL_BYTES_MAX: u64 = 2 << 30;

/// Size of a file that is written to see whether there is room for a mail, in bytes.
const ROOM_BYTES: usize = 8 << 10;

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

/// What a mail is, which the name of its file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailKind {
    /// A post, for its moderator.
    Post,
    /// A text for the newsmaster or a poster.
    Notice,
    /// A link to an account, for its owner: such a mail is of no use after [`LINK_TIME`], and is never set
    /// aside, as the link works for every reader.
    Account,
}

/// Time for which a link to an account works.
const LINK_TIME: Duration = Duration::from_secs(if SIGN_UP_VALID_SECS > RESET_VALID_SECS {
    SIGN_UP_VALID_SECS
} else {
    RESET_VALID_SECS
});

impl MailKind {
    /// Returns the kind of the mail in a file of this name.
    pub(super) fn of(name: &FileName) -> Self {
        match name.as_str() {
            name if name.ends_with(ACCOUNT) => Self::Account,
            name if name.ends_with(NOTICE) => Self::Notice,
            _ => Self::Post,
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::Post => QUEUED,
            Self::Notice => NOTICE,
            Self::Account => ACCOUNT,
        }
    }
}

impl fmt::Display for MailKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Post => "post for a moderator",
            Self::Notice => "notice",
            Self::Account => "link to an account",
        })
    }
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
    pub fn put(&self, kind: MailKind, mail: &QueuedMail, max: usize) -> io::Result<bool> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= max {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Ok(false);
        }
        let written = self.write(kind, mail);
        if written.is_err() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        written.map(|()| true)
    }

    /// Returns whether a mail could be queued now, if at most `max` may wait: a file of the usual size is
    /// written durably, and removed.
    pub fn has_room(&self, max: usize) -> io::Result<bool> {
        if self.len() >= max {
            return Ok(false);
        }
        self.disk.create_dir(&self.failed)?;
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(format!("room-{count}{UNFINISHED}"));
        let tried = durable_create(&*self.disk, &path, &[&[b'\n'; ROOM_BYTES]], FileAccess::Owner);
        // Neither file need be there after a failure.
        let removed = self.disk.remove(&path);
        match tried? {
            true => removed.map(|()| true),
            false => Ok(false),
        }
    }

    fn write(&self, kind: MailKind, mail: &QueuedMail) -> io::Result<()> {
        self.disk.create_dir(&self.failed)?;
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let name = format!("{nanos:020}-{count}{}", kind.suffix());
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

    /// Removes mails whose link does not work any more at this time.
    pub fn remove_expired(&self, now: SystemTime) {
        for name in self.names() {
            let nanos = name.as_str().get(..20).and_then(|nanos| nanos.parse().ok());
            let queued = nanos.and_then(|nanos| UNIX_EPOCH.checked_add(Duration::from_nanos(nanos)));
            let age = queued.and_then(|queued| now.duration_since(queued).ok());
            if MailKind::of(&name) == MailKind::Account && age.is_some_and(|age| age >= LINK_TIME) {
                warn!(mail = %name, "a link to an account could not be mailed in time and is removed");
                self.remove(&name);
            }
        }
    }

    /// Reads a mail of the queue; an unreadable one is given up.
    pub fn read(&self, name: &FileName) -> Option<QueuedMail> {
        let path = name.path_in(&self.dir);
        match read_small(&*self.disk, &path, MAIL_BYTES_MAX) {
            Ok(bytes) => {
                let mail = parsed(&bytes.unwrap_or_default());
                if mail.is_none() {
                    let kept = self.give_up(name);
                    error!(file = %path.display(), "not a queued mail; it is {kept}");
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

    /// Moves a mail to `failed`, or removes it if it may not be kept; returns the result in words.
    pub fn give_up(&self, name: &FileName) -> &'static str {
        if MailKind::of(name) == MailKind::Account {
            self.remove(name);
            return "removed";
        }
        self.leave(name, self.disk.rename(&name.path_in(&self.dir), &name.path_in(&self.failed)));
        add(&self.put_aside, 1);
        "in moderation/failed"
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
        assert!(
            queue.put(MailKind::Post, &mail(1), 3).unwrap()
                && queue.put(MailKind::Post, &mail(2), 3).unwrap()
        );
        drop(queue);
        write(&sim, "1.mail.new", b"newsreel mod");
        let queue = open(&sim);
        assert_eq!(sim.list(&queue.dir).unwrap().len(), 2);
        assert_eq!(mails(&queue), [mail(1), mail(2)]);
        assert!(queue.put(MailKind::Post, &mail(3), 3).unwrap());
        assert!(!queue.put(MailKind::Post, &mail(4), 3).unwrap(), "full");
        let names = queue.names();
        queue.remove(&names[0]);
        assert_eq!(queue.give_up(&names[1]), "in moderation/failed");
        assert_eq!((queue.len(), queue.names().len()), (1, 1));
        assert!(queue.put(MailKind::Post, &mail(5), 3).unwrap());
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
                        if queue.put(MailKind::Post, &mail(n), 9).is_ok() {
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
                assert!(after.put(MailKind::Post, &mail(9), 9).unwrap(), "{what}");
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
        assert!(queue.put(MailKind::Post, &mail(1), 3).unwrap());
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

    #[test]
    fn links_to_accounts_are_kept_no_longer_than_they_work() {
        let sim = SimDisk::new();
        let queue = open(&sim);
        for kind in
            [MailKind::Account, MailKind::Notice, MailKind::Account, MailKind::Account, MailKind::Post]
        {
            assert!(queue.put(kind, &mail(1), 9).unwrap());
        }
        let names = queue.names();
        let kinds: Vec<MailKind> = names.iter().map(MailKind::of).collect();
        assert_eq!(kinds[..2], [MailKind::Account, MailKind::Notice]);
        assert_eq!(queue.give_up(&names[0]), "removed");
        write(&sim, &names[2].to_string(), b"damaged");
        assert_eq!(queue.read(&names[2]), None);
        assert_eq!((queue.len(), sim.list(&queue.failed).unwrap().len()), (3, 0));
        queue.remove_expired(SystemTime::now());
        assert_eq!(queue.len(), 3);
        queue.remove_expired(SystemTime::now() + LINK_TIME);
        assert_eq!((queue.len(), queue.names()), (2, vec![names[1].clone(), names[4].clone()]));
        assert_eq!(queue.give_up(&names[1]), "in moderation/failed");
        assert_eq!((queue.len(), sim.list(&queue.failed).unwrap().len()), (1, 1));
    }
}
