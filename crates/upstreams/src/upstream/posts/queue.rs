//! Queue of posts on disk: one file for each post and upstream, written whole and durably before it gets
//! its name.
//!
//! The name is derived from Message-ID and upstream, so a post is queued for an upstream at most once.
//! Called by `posts`. Format: `docs/formats/posts.md`.

use disk::{
    CheckedFile, Disk, FileAccess, UNFINISHED, durable_create, durable_replace, hex, read_or_set_aside,
};
use ring::digest::{SHA256, digest};
use site_base::fields;
use site_base::file_name::FileName;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::error;

/// Directory below `site.data`.
const DIR: &str = "posts";
/// Beginning of the first line of a file.
const KIND: &str = "newsreel post";
/// Suffix of the name of a post's file.
const POST: &str = ".post";
/// Octets of the SHA-256 hash in the name, in hexadecimal.
const NAME_BYTES: usize = 16;
/// Bytes of a file that are read; articles are shorter.
const POST_BYTES_MAX: u64 = 2 << 30;

/// A post for one upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedPost {
    /// Message-ID of the post.
    pub message_id: String,
    /// The upstream's name in the configuration.
    pub upstream: String,
    /// The address it was posted from.
    pub address: String,
    /// Login of its poster; empty if there was none.
    pub user: String,
    /// Unix time in nanoseconds; posts are sent in this order.
    pub queued: u64,
    /// Reason of a final refusal by the upstream; empty if it is still to be sent.
    pub refused: String,
    /// Proto-article in wire format without the final `.` line; it has Message-ID and Date.
    pub wire: Vec<u8>,
}

/// Returns the file name of a post for an upstream.
pub(super) fn name_of(message_id: &str, upstream: &str) -> FileName {
    let hash = digest(&SHA256, format!("{message_id}\n{upstream}").as_bytes());
    FileName::new(hex::start_of(hash, NAME_BYTES) + POST)
}

/// Files of the queue.
#[derive(Debug)]
pub(super) struct PostQueue {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

impl PostQueue {
    /// Opens the queue of the site in `data`; unfinished files are removed.
    pub fn of(disk: Arc<dyn Disk>, data: &Path) -> Self {
        let queue = Self { disk, dir: data.join(DIR) };
        for name in queue.disk.list(&queue.dir).unwrap_or_default() {
            if name.ends_with(UNFINISHED)
                && let Err(error) = queue.disk.remove(&queue.dir.join(&name))
            {
                error!(file = name, %error, "cannot remove an unfinished file of the posts for upstreams");
            }
        }
        queue
    }

    /// Returns all readable posts.
    pub fn all(&self) -> Vec<(FileName, QueuedPost)> {
        let names = self.disk.list(&self.dir).unwrap_or_default();
        let names = FileName::ending_with(names, POST);
        names.filter_map(|name| self.read(&name).map(|post| (name, post))).collect()
    }

    pub fn read(&self, name: &FileName) -> Option<QueuedPost> {
        let path = name.path_in(&self.dir);
        let costs = "this post does not go to its upstream";
        match read_or_set_aside(&*self.disk, &path, POST_BYTES_MAX, costs, parsed) {
            Ok(CheckedFile::Absent | CheckedFile::SetAside(_)) => None,
            Ok(CheckedFile::Whole(post)) => Some(post),
            Err(error) => {
                error!(file = %path.display(), %error, "cannot read a post for an upstream");
                None
            }
        }
    }

    /// Adds a post; durable on return. Returns false if it is there already.
    pub fn create(&self, name: &FileName, post: &QueuedPost) -> io::Result<bool> {
        self.disk.create_dir(&self.dir)?;
        let (head, sum) = around(post);
        let parts = [head.as_bytes(), &post.wire, sum.as_bytes()];
        durable_create(&*self.disk, &name.path_in(&self.dir), &parts, FileAccess::Owner)
    }

    /// Replaces a post; durable on return.
    pub fn replace(&self, name: &FileName, post: &QueuedPost) -> io::Result<()> {
        let (head, sum) = around(post);
        let parts = [head.as_bytes(), &post.wire, sum.as_bytes()];
        durable_replace(&*self.disk, &name.path_in(&self.dir), &parts, FileAccess::Owner)
    }

    /// Removes a post; durable on return.
    pub fn remove(&self, name: &FileName) -> io::Result<()> {
        self.disk.remove(&name.path_in(&self.dir))?;
        self.disk.sync_dir(&self.dir)
    }
}

/// Parses a file and writes it again; returns `None` if it is not a post.
#[cfg(feature = "testing")]
pub fn rewritten(bytes: &[u8]) -> Option<Vec<u8>> {
    parsed(bytes).map(|post| {
        let (head, sum) = around(&post);
        [head.as_bytes(), &post.wire, sum.as_bytes()].concat()
    })
}

/// Returns whether a file of this kind is complete.
pub fn is_whole(bytes: &[u8]) -> bool {
    parsed(bytes).is_some()
}

/// Returns the text before and after the post in its file.
fn around(post: &QueuedPost) -> (String, String) {
    let QueuedPost { message_id, upstream, address, user, queued, refused, .. } = post;
    let queued = queued.to_string();
    let fields: [(&str, &str); 6] = [
        ("id", message_id),
        ("to", upstream),
        ("from", address),
        ("user", user),
        ("queued", &queued),
        ("refused", refused),
    ];
    fields::around(KIND, &fields, &post.wire)
}

fn parsed(bytes: &[u8]) -> Option<QueuedPost> {
    let names = ["id", "to", "from", "user", "queued", "refused"];
    let ([message_id, upstream, address, user, queued, refused], wire) = fields::read(bytes, KIND, names)?;
    let queued = queued.parse().ok()?;
    Some(QueuedPost { message_id, upstream, address, user, queued, refused, wire: wire.to_vec() })
}
