//! Changes to the users file: one at a time, whole or not at all.
//!
//! A lock file serializes changes; the new file is written beside the old one, synced, and renamed over it,
//! so that a server reading meanwhile sees the one or the other. Readable only by the owner of the site's
//! directory. Called by `cli`. Source: `docs/formats/users.md`.

use super::credentials::random;
use super::file::{self, FILE_NAME, UserTable};
use disk::{FileAccess, RealDisk, durable_replace};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;

/// Name of the lock file.
const LOCK_NAME: &str = "users.lock";

/// The reason why the file was not changed.
#[derive(Debug)]
pub enum EditError<E> {
    /// Reading or writing the file failed.
    Io(io::Error),
    /// The change itself returned this error.
    Refused(E),
}

impl<E> From<io::Error> for EditError<E> {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Applies `change` to the users in `data` and replaces the file. Blocks.
pub fn edit<T, E>(
    data: &Path,
    change: impl FnOnce(&mut UserTable) -> Result<T, E>,
) -> Result<T, EditError<E>> {
    let lock = lock_file(data)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(io::Error::from)?;
    let mut table = match file::load(data)? {
        Some(table) => table,
        None => UserTable::empty(random().map_err(|_| io::Error::other("the system has no random numbers"))?),
    };
    let outcome = change(&mut table).map_err(EditError::Refused)?;
    let text = table.text();
    durable_replace(&RealDisk::new(), &data.join(FILE_NAME), &[text.as_bytes()], FileAccess::Owner)?;
    Ok(outcome)
}

/// Opens the lock file, which only the directory's owner may read.
fn lock_file(data: &Path) -> io::Result<File> {
    let owner = std::fs::metadata(data)?;
    let path = data.join(LOCK_NAME);
    let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let own = opened.metadata()?;
    if (own.uid(), own.gid()) != (owner.uid(), owner.gid()) {
        // An administrator other than the server's user creates a file that the server can read.
        fchown(&opened, Some(owner.uid()), Some(owner.gid()))?;
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::super::{User, UserRecord};
    use super::*;

    fn record(name: &str) -> UserRecord {
        UserRecord { user: User { name: name.into(), groups: Box::default() }, changed: 1, credentials: None }
    }

    #[test]
    fn changes_by_many_at_once_are_all_there_and_the_file_is_private() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let data = dir.path();
                scope.spawn(move || {
                    for n in 0..10 {
                        edit(data, |table| {
                            table.put(record(&format!("user{writer}.{n}")));
                            Ok::<_, ()>(())
                        })
                        .unwrap();
                    }
                });
            }
        });
        assert_eq!(file::load(dir.path()).unwrap().unwrap().iter().count(), 40);
        let mode = std::fs::metadata(dir.path().join(FILE_NAME)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "the file and its lock");
    }

    #[test]
    fn a_refused_change_and_a_damaged_file_leave_everything_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        edit(dir.path(), |table| {
            table.put(record("fred"));
            Ok::<_, ()>(())
        })
        .unwrap();
        let before = std::fs::read(dir.path().join(FILE_NAME)).unwrap();
        let refused = edit(dir.path(), |table| {
            table.remove("fred");
            Err::<(), _>("no")
        });
        assert!(matches!(refused, Err(EditError::Refused("no"))));
        assert_eq!(std::fs::read(dir.path().join(FILE_NAME)).unwrap(), before);
        std::fs::write(dir.path().join(FILE_NAME), b"rubbish\n").unwrap();
        assert!(matches!(edit(dir.path(), |_| Ok::<_, ()>(())), Err(EditError::Io(_))));
        assert_eq!(std::fs::read(dir.path().join(FILE_NAME)).unwrap(), b"rubbish\n");
    }
}
