//! Small files that all members of a cluster have: users, the keyring, the secret of posting, what waits for
//! moderators and upstreams, marks of pulls.
//!
//! They stay the files that they are on one machine, and are changed as there, by commands and by the server.
//! Their contents are notes of the site, sealed under the key of the cluster (`sealed`). A member looks about
//! every second: what has changed here since both were alike is noted, and what has changed in the notes is
//! written here (`local`). Of changes of one file by several members the last in the log counts. What both
//! were alike in is in a file, so that a change while the server was stopped is noticed, too.

mod local;
pub(crate) mod sealed;
#[cfg(test)]
mod tests;

use access::sealing::ClusterKey;
use disk::{Disk, FileAccess, durable_replace, hex, read_small};
use local::{LocalFiles, is_shared};
use sealed::{ContentHash, SealedFiles};
use site::Site;
use site::moderation::ModerationQueue;
use site_config::Config;
use site_log::SiteLog;
use spool::{ChangeMaker as _, Spool};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::block_in_place;
use tokio::time::sleep;
use tracing::{info, warn};
use upstreams::Upstreams;

/// Interval of looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pause after an error.
const ERROR_PAUSE: Duration = Duration::from_secs(10);
/// Name of the file below `site.data` with what files and notes were alike in.
pub(crate) const ALIKE_FILE_NAME: &str = "shared-files";
/// Longest file of it that is read, in bytes.
const ALIKE_BYTES_MAX: u64 = 8 << 20;

/// What a look has written here.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WrittenFiles {
    /// Whether anything that waits for moderators has changed.
    is_of_moderation: bool,
    /// Whether posts for upstreams have changed.
    is_of_posts: bool,
}

/// The shared files of a member.
pub struct SharedFiles {
    local: LocalFiles,
    sealed: SealedFiles,
    /// What files and notes were alike in last.
    alike: BTreeMap<String, ContentHash>,
    /// Files of another key, as last warned about.
    unopened: usize,
}

impl SharedFiles {
    /// Opens those of a member, and writes here what others have changed; `None` if the server is no member
    /// of a cluster, or has no key of it.
    pub fn open(config: &Config, spool: &Spool) -> io::Result<Option<Self>> {
        let file = &config.cluster.key;
        if spool.shared_log().is_none() {
            return Ok(None);
        }
        let Some(key) = ClusterKey::read(&**spool.disk(), file)? else {
            warn!(
                "{} is missing: users, keys and what waits for moderators are not shared with the other members; copy \
                 the file from one of them",
                file.display()
            );
            return Ok(None);
        };
        let mut files = Self::under(key, spool.disk().clone(), &config.site.data)?;
        files.take(spool)?;
        Ok(Some(files))
    }

    fn under(key: ClusterKey, disk: Arc<dyn Disk>, data: &Path) -> io::Result<Self> {
        let text = read_small(&*disk, &data.join(ALIKE_FILE_NAME), ALIKE_BYTES_MAX)?;
        // Without it, what others have counts.
        let alike = text.as_deref().and_then(read_alike).unwrap_or_default();
        Ok(Self { local: LocalFiles::of(disk, data), sealed: SealedFiles::under(key), alike, unopened: 0 })
    }

    /// Writes here what others have changed.
    fn take(&mut self, spool: &Spool) -> io::Result<WrittenFiles> {
        self.look(spool, None)
    }

    /// Writes here what others have changed, and, with a log, notes what has changed here.
    fn look(&mut self, spool: &Spool, log: Option<&SiteLog>) -> io::Result<WrittenFiles> {
        let unopened = self.sealed.refresh(spool);
        if unopened > self.unopened {
            warn!(files = unopened, "shared files were sealed under another key than that of [cluster] key");
        }
        self.unopened = unopened;
        let here = self.local.look()?;
        let noted: BTreeMap<String, ContentHash> =
            self.sealed.all().into_iter().map(|(name, hash)| (name.to_owned(), hash)).collect();
        let names: BTreeSet<&String> = here.keys().chain(noted.keys()).chain(self.alike.keys()).collect();
        let names: Vec<String> = names.into_iter().filter(|name| is_shared(name)).cloned().collect();
        let (before, mut written) = (self.alike.clone(), WrittenFiles::default());
        for name in names {
            let (own, other, alike) = (here.get(&name), noted.get(&name), before.get(&name));
            let now = match own {
                _ if own == other => own,
                _ if other != alike || own.is_none() && !self.local.is_removal(&name) => {
                    self.write(spool, &name, &mut written)?;
                    other
                }
                _ => match log {
                    Some(log) => {
                        self.note(log, &name)?;
                        own
                    }
                    None => alike,
                },
            };
            match now.copied() {
                Some(hash) => _ = self.alike.insert(name, hash),
                None => _ = self.alike.remove(&name),
            }
        }
        if self.alike != before {
            let (disk, data) = self.local.place();
            let path = data.join(ALIKE_FILE_NAME);
            durable_replace(disk, &path, &[alike_text(&self.alike).as_bytes()], FileAccess::Owner)?;
        }
        Ok(written)
    }

    /// Writes a file here as the notes have it.
    fn write(&mut self, spool: &Spool, name: &str, written: &mut WrittenFiles) -> io::Result<()> {
        let content = self.sealed.content(spool, name);
        self.local.put(name, content.as_deref())?;
        let done = if content.is_some() { "written" } else { "removed" };
        info!(name, "a file that members of the cluster share is {done}");
        written.is_of_moderation |= name.starts_with("moderation/");
        written.is_of_posts |= name.starts_with("posts/");
        Ok(())
    }

    /// Notes a file as it is here.
    fn note(&self, log: &SiteLog, name: &str) -> io::Result<()> {
        let content = self.local.content(name)?;
        let notes = self.sealed.notes_of(log.spool(), name, content.as_deref())?;
        let changes: Vec<_> = notes.iter().map(sealed::SealedNote::change).collect();
        log.commit(&changes, &mut Vec::new()).map(drop).map_err(|trouble| io::Error::other(trouble.text))
    }
}

/// Keeps the files of a member and those of the others alike, until the server stops.
pub async fn keep_sharing(
    site: Arc<Site>,
    files: Option<SharedFiles>,
    moderation: Arc<ModerationQueue>,
    upstreams: Upstreams,
) {
    let Some(mut files) = files else { return };
    let mut stopping = std::pin::pin!(site.stopping());
    loop {
        let pause = match block_in_place(|| files.look(&site.spool, Some(site.filer.log()))) {
            Ok(written) => {
                if written.is_of_moderation {
                    block_in_place(|| moderation.look());
                }
                if written.is_of_posts {
                    block_in_place(|| upstreams.delivery().posts().look_again());
                }
                LOOK_EVERY
            }
            Err(error) => {
                warn!(%error, "files that members of the cluster share are not kept alike now");
                ERROR_PAUSE
            }
        };
        tokio::select! {
            () = &mut stopping => return,
            () = sleep(pause) => {}
        }
    }
}

/// Returns the text of the file with what files and notes were alike in.
fn alike_text(alike: &BTreeMap<String, ContentHash>) -> String {
    let mut text = String::new();
    for (name, hash) in alike {
        // Writing to a String does not fail.
        let _infallible = writeln!(text, "{} {name}", hex::digits(hash));
    }
    site_base::summed::with_sum(text)
}

/// Returns true if a file with what files and notes were alike in is whole.
pub(crate) fn is_alike_whole(text: &[u8]) -> bool {
    read_alike(text).is_some()
}

/// Reads what [`alike_text`] wrote; `None` if it is damaged.
fn read_alike(text: &[u8]) -> Option<BTreeMap<String, ContentHash>> {
    let line = |line: &str| {
        let (digits, name) = line.split_once(' ')?;
        Some((name.to_owned(), hex::octets(digits.as_bytes())?))
    };
    site_base::summed::text_without_sum(text)?.lines().map(line).collect()
}
