//! The users of a running server: the file as last read, and read again when it has changed.
//!
//! A file has changed if its inode, size or time of modification has, as after every replacement by rename. A
//! file that cannot be read or parsed leaves the users as they were, and is logged once. Called by `gate`.

use super::edit::{self, EditError};
use super::file::{self, FILE_NAME, UserTable};
use disk::{Disk, FileMetadata};
use site_base::lock::Leaf;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::block_in_place;
use tracing::{error, info};

/// Maximum age of the last look at the file where a moment does not matter.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Identity of the file, and its size and time of modification; `None` if there is no file.
type UsersFileStamp = Option<((u64, u64), FileMetadata)>;

#[derive(Debug)]
pub(crate) struct UserStore {
    disk: Arc<dyn Disk>,
    data: PathBuf,
    current: Leaf<LoadedUsers>,
}

#[derive(Debug)]
struct LoadedUsers {
    stamp: UsersFileStamp,
    looked: Instant,
    table: Option<Arc<UserTable>>,
    /// The file could not be read, and none was read before it: the users are unknown.
    is_unknown: bool,
}

impl UserStore {
    /// Opens the users in `data` and reads them.
    pub fn open(disk: Arc<dyn Disk>, data: PathBuf) -> Self {
        let current = LoadedUsers { stamp: None, looked: Instant::now(), table: None, is_unknown: false };
        let store = Self { disk, data, current: Leaf::new(current) };
        store.table();
        store
    }

    /// Returns the users as of now; `None` if there is no file.
    pub fn table(&self) -> Option<Arc<UserTable>> {
        let stamp = self.stamp();
        let mut current = self.current.lock();
        current.looked = Instant::now();
        if current.stamp == stamp {
            return current.table.clone();
        }
        match file::load(&*self.disk, &self.data) {
            Ok(table) => {
                let users = table.as_ref().map_or(0, |table| table.iter().count());
                info!(users, "read the file of users");
                current.table = table.map(Arc::new);
                current.is_unknown = false;
            }
            Err(error) if current.table.is_some() => {
                error!(%error, "cannot read the file of users; going on with the users known so far")
            }
            Err(error) => {
                error!(%error, "cannot read the file of users; nobody can log in with a password");
                current.is_unknown = true;
            }
        }
        current.stamp = stamp;
        current.table.clone()
    }

    /// Returns true if the users are unknown: there is a file, and it was damaged from the start.
    pub fn is_unknown(&self) -> bool {
        self.current.lock().is_unknown
    }

    /// Returns the users as of a moment ago. Looks at the disk at most once a second while there are users,
    /// and reads the file only when it has changed, so it may be called anywhere in the server.
    pub fn recent(&self) -> Option<Arc<UserTable>> {
        {
            let current = self.current.lock();
            let fresh = current.table.is_some() && current.looked.elapsed() < LOOK_AGAIN;
            if fresh || current.stamp == self.stamp() {
                return current.table.clone();
            }
        }
        block_in_place(|| self.table())
    }

    /// Returns the disk.
    pub fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// Returns the site's directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Changes the users, and reads the file again. Blocks.
    pub fn edit<T, E>(&self, change: impl FnOnce(&mut UserTable) -> Result<T, E>) -> Result<T, EditError<E>> {
        let changed = edit::edit(&*self.disk, &self.data, change)?;
        self.table();
        Ok(changed)
    }

    fn stamp(&self) -> UsersFileStamp {
        let path = self.data.join(FILE_NAME);
        Some((self.disk.identity(&path).ok()??, self.disk.about(&path).ok()??))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{User, UserRecord, edit};
    use super::*;
    use disk::RealDisk;

    fn add(data: &std::path::Path, name: &str) {
        let user = User::named(name);
        edit(&RealDisk::new(), data, |table| {
            table.put(UserRecord { user, changed: 1, credentials: None, mail: None });
            Ok::<_, ()>(())
        })
        .unwrap();
    }

    #[test]
    fn changes_are_seen_and_damage_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = UserStore::open(Arc::new(RealDisk::new()), dir.path().to_owned());
        assert!(store.table().is_none());
        add(dir.path(), "fred");
        assert!(store.recent().unwrap().get("fred").is_some(), "no users are looked for at once");
        assert!(store.table().unwrap().get("fred").is_some());
        add(dir.path(), "wilma");
        assert!(store.table().unwrap().get("wilma").is_some());
        std::fs::write(dir.path().join(FILE_NAME), b"rubbish").unwrap();
        assert!(store.table().unwrap().get("wilma").is_some());
        assert!(!store.is_unknown());
        let damaged = UserStore::open(Arc::new(RealDisk::new()), dir.path().to_owned());
        assert!(damaged.table().is_none() && damaged.is_unknown());
        std::fs::remove_file(dir.path().join(FILE_NAME)).unwrap();
        assert!(store.table().is_none() && damaged.table().is_none() && !damaged.is_unknown());
    }
}
