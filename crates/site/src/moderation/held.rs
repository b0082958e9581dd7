//! Posts held here for a moderator: one file each, written whole and durably before it gets its name.
//!
//! A file is removed after its post was filed or its poster was mailed, so a crash at worst leaves the post
//! waiting, and approving it again finds the article known. Called by `moderation`. Format:
//! `docs/formats/moderation.md`.

use disk::{CheckedFile, Disk, FileAccess, UNFINISHED, durable_create, hex, read_or_set_aside};
use hashbrown::HashSet;
use ring::digest::{SHA256, digest};
use site_base::fields;
use site_base::lock::Leaf;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tracing::error;

/// Directory below `site.data`.
const DIR: &str = "moderation/held";
/// Beginning of the first line of a file.
const KIND: &str = "newsreel held";
/// Suffix of the name of a post's file.
const POST: &str = ".post";
/// Octets of the Message-ID's SHA-256 hash in the name, in hexadecimal.
const NAME_BYTES: usize = 16;
/// Maximum bytes read from a file; articles are shorter.
const POST_BYTES_MAX: u64 = 2 << 30;

/// A held post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldPost {
    /// Message-ID of the post.
    pub message_id: String,
    /// The moderated group for which it is held.
    pub group: String,
    /// The address it was posted from.
    pub address: String,
    /// The user that its poster had logged in as; empty if none.
    pub user: String,
    /// Unix seconds.
    pub queued: i64,
    /// The proto-article in wire format without the final `.` line; it has Message-ID and Date.
    pub wire: Vec<u8>,
}

/// The result of adding a post.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldOutcome {
    Waits,
    /// The maximum number of posts is held.
    Full,
    /// A post with its Message-ID is held already.
    Known,
}

/// The held posts.
#[derive(Debug)]
pub struct HeldPosts {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    waiting: AtomicUsize,
    /// Locked while a post is added, which counts them first.
    adding: Leaf<()>,
    /// Message-IDs of posts about which a decision is being made.
    claimed: Leaf<HashSet<String>>,
}

/// The exclusive right to decide about a post, until this is dropped.
#[derive(Debug)]
pub struct HeldPostClaim<'a> {
    held: &'a HeldPosts,
    message_id: &'a str,
}

impl Drop for HeldPostClaim<'_> {
    fn drop(&mut self) {
        self.held.claimed.lock().remove(self.message_id);
    }
}

impl HeldPosts {
    /// Opens the held posts of the site in `data`; unfinished files are removed.
    pub fn open(disk: Arc<dyn Disk>, data: &Path) -> io::Result<Self> {
        let (waiting, adding, claimed) = <(AtomicUsize, Leaf<()>, Leaf<_>)>::default();
        let held = Self { disk, dir: data.join(DIR), waiting, adding, claimed };
        for name in held.disk.list(&held.dir).unwrap_or_default() {
            if name.ends_with(UNFINISHED) {
                held.disk.remove(&held.dir.join(name))?;
            }
        }
        held.count_again();
        Ok(held)
    }

    /// Counts the posts.
    pub fn count_again(&self) {
        self.waiting.store(self.names().len(), Ordering::Relaxed);
    }

    /// Adds a post, of which at most `max` may be held; durable when this returns.
    pub fn put(&self, post: &HeldPost, max: usize) -> io::Result<HoldOutcome> {
        let _adding = self.adding.lock();
        if self.len() >= max {
            return Ok(HoldOutcome::Full);
        }
        self.disk.create_dir(&self.dir)?;
        let HeldPost { message_id, group, address, user, queued, wire } = post;
        let queued = queued.to_string();
        let fields: [(&str, &str); 5] =
            [("id", message_id), ("group", group), ("from", address), ("user", user), ("queued", &queued)];
        let (head, sum) = fields::around(KIND, &fields, wire);
        let parts = [head.as_bytes(), wire, sum.as_bytes()];
        let is_new = durable_create(&*self.disk, &self.path(message_id), &parts, FileAccess::Owner)?;
        self.waiting.fetch_add(usize::from(is_new), Ordering::Relaxed);
        Ok(if is_new { HoldOutcome::Waits } else { HoldOutcome::Known })
    }

    /// Returns the number of held posts.
    pub fn len(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn names(&self) -> Vec<String> {
        let names = self.disk.list(&self.dir).unwrap_or_default();
        names.into_iter().filter(|name| name.ends_with(POST)).collect()
    }

    /// Returns the held posts, oldest first.
    pub fn all(&self) -> Vec<HeldPost> {
        let mut all: Vec<HeldPost> =
            self.names().iter().filter_map(|name| self.read(&self.dir.join(name))).collect();
        all.sort_by(|a, b| (a.queued, &a.message_id).cmp(&(b.queued, &b.message_id)));
        all
    }

    /// Returns the post with this Message-ID.
    pub fn get(&self, message_id: &str) -> Option<HeldPost> {
        self.read(&self.path(message_id)).filter(|post| post.message_id == message_id)
    }

    fn read(&self, path: &Path) -> Option<HeldPost> {
        let costs = "this post does not wait for a moderator any more";
        match read_or_set_aside(&*self.disk, path, POST_BYTES_MAX, costs, parsed) {
            Ok(CheckedFile::Absent) => None,
            Ok(CheckedFile::Whole(post)) => Some(post),
            Ok(CheckedFile::SetAside(_)) => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                None
            }
            Err(error) => {
                error!(file = %path.display(), %error, "cannot read a post that waits for a moderator");
                None
            }
        }
    }

    /// Claims a post for a decision; `None` if it is claimed already.
    pub fn claim<'a>(&'a self, message_id: &'a str) -> Option<HeldPostClaim<'a>> {
        let is_free = self.claimed.lock().insert(message_id.to_owned());
        is_free.then_some(HeldPostClaim { held: self, message_id })
    }

    /// Removes a post; durable when this returns.
    pub fn remove(&self, message_id: &str) -> io::Result<()> {
        self.disk.remove(&self.path(message_id))?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.disk.sync_dir(&self.dir)
    }

    fn path(&self, message_id: &str) -> PathBuf {
        let hash = digest(&SHA256, message_id.as_bytes());
        self.dir.join(hex::start_of(hash, NAME_BYTES) + POST)
    }
}

/// Returns true if a file of this kind is whole.
pub fn is_whole(bytes: &[u8]) -> bool {
    parsed(bytes).is_some()
}

fn parsed(bytes: &[u8]) -> Option<HeldPost> {
    let names = ["id", "group", "from", "user", "queued"];
    let ([message_id, group, address, user, queued], wire) = fields::read(bytes, KIND, names)?;
    Some(HeldPost { message_id, group, address, user, queued: queued.parse().ok()?, wire: wire.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{CrashKind, SimDisk};

    fn post(n: i64) -> HeldPost {
        HeldPost {
            message_id: format!("<{n}@x.example>"),
            group: "local.mod".into(),
            address: "192.0.2.7".into(),
            user: if n == 1 { "fred".into() } else { String::new() },
            queued: n,
            wire: format!("Subject: {n}\r\n\r\nbody\n\n\r\n").into_bytes(),
        }
    }

    fn open(sim: &SimDisk) -> HeldPosts {
        HeldPosts::open(Arc::new(sim.clone()), Path::new("/d")).unwrap()
    }

    #[test]
    fn posts_are_held_in_order_up_to_the_limit() {
        let sim = SimDisk::new();
        let held = open(&sim);
        for n in [3, 1] {
            assert_eq!(held.put(&post(n), 2).unwrap(), HoldOutcome::Waits);
        }
        assert_eq!(held.put(&post(2), 2).unwrap(), HoldOutcome::Full);
        assert_eq!(held.put(&HeldPost { wire: Vec::new(), ..post(1) }, 9).unwrap(), HoldOutcome::Known);
        let held = open(&sim);
        assert_eq!(held.all(), [post(1), post(3)]);
        assert_eq!((held.get("<3@x.example>"), held.get("<2@x.example>")), (Some(post(3)), None));
        let claim = held.claim("<1@x.example>").unwrap();
        assert!(held.claim("<1@x.example>").is_none() && held.claim("<3@x.example>").is_some());
        drop(claim);
        assert!(held.claim("<1@x.example>").is_some());
        held.remove("<1@x.example>").unwrap();
        assert_eq!((held.all(), held.len()), (vec![post(3)], 1));
        disk::durable_replace(&sim, &held.path("<3@x.example>"), &[b"garbage"], FileAccess::Owner).unwrap();
        assert_eq!((held.all(), held.len()), (Vec::new(), 0));
        assert_eq!(held.put(&post(3), 1).unwrap(), HoldOutcome::Waits, "it may be posted again");
    }

    #[test]
    fn a_crash_at_any_step_loses_no_held_post() {
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = SimDisk::new();
                sim.crash_at(step, kind, step * 7919);
                let mut put = Vec::new();
                if let Ok(held) = HeldPosts::open(Arc::new(sim.clone()), Path::new("/d")) {
                    put.extend((1..=3).filter(|n| held.put(&post(*n), 9).is_ok()));
                    let removed = put.len() == 3 && held.remove("<1@x.example>").is_ok();
                    put.retain(|n| *n != 1 || !removed);
                }
                let (what, after) = (format!("{kind:?} at step {step}"), open(&sim.image().unwrap()));
                let names = after.disk.list(&after.dir).unwrap_or_default();
                assert!(names.iter().all(|name| name.ends_with(POST)), "{what}: {names:?}");
                let left = after.all();
                // The first may be removed, and one whose poster was not answered may be there in addition.
                let must = put.iter().filter(|n| **n != 1 || put.len() < 3);
                must.for_each(|n| assert!(left.contains(&post(*n)), "{what}: {left:?}"));
                assert!(left.len() <= put.len() + 1, "{what}: {left:?}");
                assert_ne!(after.put(&post(9), 9).unwrap(), HoldOutcome::Full, "{what}");
                if !sim.crashed() {
                    assert!(left == [post(2), post(3)] && step > 12, "{what}: {left:?}");
                    break;
                }
            }
        }
    }
}
