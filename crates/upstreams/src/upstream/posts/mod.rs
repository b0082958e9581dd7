//! Posts to groups of other servers: stored on disk before their posters get a 240, and sent in order of
//! arrival until the upstream has taken or refused them.
//!
//! A post is removed once the upstream has it, so a crash sends it twice at worst, with the same Message-ID,
//! which the upstream then recognizes; it is never lost. A post refused by an upstream after the poster was
//! answered is kept for the operator. `UpstreamPosts` is the queue, `Outbox` a post being delivered;
//! questions to upstreams are in `deliver`. Called by `inject`, `operators` and `server`. Sources: RFC 5537
//! section 3.4.2, the NewsCache paper.

mod deliver;
mod queue;
mod sending;

pub use deliver::{Outbox, PostDelivery, PostResult, PostTaker};
#[cfg(feature = "testing")]
pub use queue::rewritten;
pub use queue::{QueuedPost, is_whole as is_post_whole};

use disk::Disk;
use hashbrown::HashMap;
use queue::{PostQueue, name_of};
use site_base::back_off::BackOff;
use site_base::file_name::FileName;
use site_base::lock::Leaf;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tracing::error;

/// Pauses before a post is sent again.
const RETRY: BackOff = BackOff::new(Duration::from_secs(1), Duration::from_secs(60));

/// Posts that wait for upstreams, or were refused by them.
#[derive(Debug)]
pub struct UpstreamPosts {
    queue: PostQueue,
    entries: Leaf<HashMap<FileName, PostEntry>>,
    /// Notified when a post may be due.
    fresh: Notify,
}

/// State of a queued post beside its file.
#[derive(Debug)]
struct PostEntry {
    upstream: Arc<str>,
    queued: u64,
    refused: bool,
    /// Whether its poster is not answered yet, or it is being sent.
    is_busy: bool,
    /// Whether it may have arrived there before.
    tried: bool,
    tries: u32,
    /// Time when it is sent again.
    due: Instant,
    /// Reason why it was not taken at the last attempt.
    problem: String,
}

/// Reason why a post is not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuePostError {
    /// Already queued for one of the upstreams.
    Known,
    /// The queue is full.
    Full,
    /// The file could not be written.
    Io,
}

/// Numbers of queued posts for one upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueuedPostCounts {
    /// Posts still to be sent.
    pub waiting: u64,
    /// Posts that it has refused, kept for the operator.
    pub refused: u64,
}

/// A queued post as shown to an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedPostStatus {
    /// The post.
    pub post: QueuedPost,
    /// Attempts since the start.
    pub tries: u32,
    /// Reason why it was not taken at the last attempt; empty if there was none.
    pub problem: String,
}

impl UpstreamPosts {
    /// Opens the posts of the site in `data`. Blocks.
    pub fn open(disk: Arc<dyn Disk>, data: &Path) -> Self {
        let queue = PostQueue::of(disk, data);
        let entries =
            queue.all().into_iter().map(|(name, post)| (name, PostEntry::of(&post, true))).collect();
        Self { queue, entries: Leaf::new(entries), fresh: Notify::new() }
    }

    /// Returns the numbers of queued posts for an upstream.
    pub fn counts(&self, upstream: &str) -> QueuedPostCounts {
        let entries = self.entries.lock();
        let mut counts = QueuedPostCounts::default();
        for entry in entries.values().filter(|entry| *entry.upstream == *upstream) {
            let count = if entry.refused { &mut counts.refused } else { &mut counts.waiting };
            *count += 1;
        }
        counts
    }

    /// Returns all posts, oldest first. Blocks.
    pub fn all(&self) -> Vec<QueuedPostStatus> {
        let mut names: Vec<(u64, FileName)> =
            self.entries.lock().iter().map(|(name, entry)| (entry.queued, name.clone())).collect();
        names.sort_unstable();
        names.iter().filter_map(|(_, name)| self.waiting(name)).collect()
    }

    fn waiting(&self, name: &FileName) -> Option<QueuedPostStatus> {
        let post = self.queue.read(name)?;
        let entries = self.entries.lock();
        let entry = entries.get(name)?;
        Some(QueuedPostStatus { post, tries: entry.tries, problem: entry.problem.clone() })
    }

    /// Returns the posts with a Message-ID, of one upstream if it is given. Blocks.
    pub fn of(&self, message_id: &str, upstream: Option<&str>) -> Vec<QueuedPostStatus> {
        let is_meant = |waiting: &QueuedPostStatus| {
            waiting.post.message_id == message_id
                && upstream.is_none_or(|upstream| waiting.post.upstream == upstream)
        };
        self.all().into_iter().filter(is_meant).collect()
    }

    /// Has a post sent again now, even if it was refused. Blocks.
    pub fn retry(&self, post: &QueuedPost) -> io::Result<()> {
        let name = name_of(&post.message_id, &post.upstream);
        if !post.refused.is_empty() {
            self.queue.replace(&name, &QueuedPost { refused: String::new(), ..post.clone() })?;
        }
        if let Some(entry) = self.entries.lock().get_mut(&name) {
            (entry.refused, entry.due) = (false, Instant::now());
        }
        self.fresh.notify_one();
        Ok(())
    }

    /// Removes a post. Returns false if it is being sent. Blocks.
    pub fn drop_post(&self, post: &QueuedPost) -> io::Result<bool> {
        let name = name_of(&post.message_id, &post.upstream);
        if self.entries.lock().get(&name).is_some_and(|entry| entry.is_busy) {
            return Ok(false);
        }
        self.remove(&name).map(|()| true)
    }

    /// Makes all posts due, as conditions may have changed.
    pub fn look(&self) {
        let now = Instant::now();
        self.entries.lock().values_mut().for_each(|entry| entry.due = now);
        self.fresh.notify_one();
    }

    /// Takes in posts whose files are new, and forgets those whose files are no more: another member of the
    /// cluster has changed them. Blocks.
    pub fn look_again(&self) {
        let files: HashMap<FileName, QueuedPost> = self.queue.all().into_iter().collect();
        let mut entries = self.entries.lock();
        entries.retain(|name, entry| entry.is_busy || files.contains_key(name));
        for (name, post) in files {
            entries.entry(name).or_insert_with(|| PostEntry::of(&post, true));
        }
        drop(entries);
        self.fresh.notify_one();
    }

    /// Queues a post, which stays busy; at most `max` may wait for its upstream. Blocks.
    fn put(&self, post: &QueuedPost, max: usize) -> Result<FileName, QueuePostError> {
        let name = name_of(&post.message_id, &post.upstream);
        {
            let mut entries = self.entries.lock();
            if entries.contains_key(&name) {
                return Err(QueuePostError::Known);
            }
            if entries.values().filter(|entry| *entry.upstream == *post.upstream).count() >= max {
                return Err(QueuePostError::Full);
            }
            entries.insert(name.clone(), PostEntry { is_busy: true, ..PostEntry::of(post, false) });
        }
        let why = match self.queue.create(&name, post) {
            Ok(true) => return Ok(name),
            Ok(false) => QueuePostError::Known,
            Err(error) => {
                error!(%error, "cannot queue a post for an upstream");
                QueuePostError::Io
            }
        };
        self.entries.lock().remove(&name);
        Err(why)
    }

    fn remove(&self, name: &FileName) -> io::Result<()> {
        let removed = self.queue.remove(name);
        self.entries.lock().remove(name);
        removed
    }
}

impl PostEntry {
    fn of(post: &QueuedPost, tried: bool) -> Self {
        Self {
            upstream: post.upstream.as_str().into(),
            queued: post.queued,
            refused: !post.refused.is_empty(),
            is_busy: false,
            tried,
            tries: 0,
            due: Instant::now(),
            problem: post.refused.clone(),
        }
    }

    /// Records a failed attempt and its reason.
    fn failed(&mut self, problem: &str) {
        self.tries = self.tries.saturating_add(1);
        self.due = Instant::now() + RETRY.pause(self.tries);
        problem.clone_into(&mut self.problem);
    }
}

#[cfg(test)]
mod tests;
