//! Changes to the users file: one at a time, whole or not at all.
//!
//! A lock file serializes changes; the new file is written beside the old one, synced, and renamed over it,
//! so that a server reading meanwhile sees the one or the other. Readable only by the owner of the site's
//! directory. Called by `store`, `sign_ups` and the commands. Source: `docs/formats/users.md`.

use super::credentials::random;
use super::file::{self, FILE_NAME, UserTable};
use disk::{Disk, DiskFile, FileAccess, OpenMode, durable_replace};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Name of the lock file.
const LOCK_NAME: &str = "users.lock";
/// Interval at which another change is waited for.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

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
    disk: &dyn Disk,
    data: &Path,
    change: impl FnOnce(&mut UserTable) -> Result<T, E>,
) -> Result<T, EditError<E>> {
    let _one_at_a_time = locked(disk, data)?;
    let mut table = match file::load(disk, data)? {
        Some(table) => table,
        None => UserTable::empty(random().map_err(|_| io::Error::other("the system has no random numbers"))?),
    };
    let outcome = change(&mut table).map_err(EditError::Refused)?;
    let text = table.text();
    durable_replace(disk, &data.join(FILE_NAME), &[text.as_bytes()], FileAccess::Owner)?;
    Ok(outcome)
}

/// Waits for other changes to end, and excludes them as long as the returned file is open.
pub(super) fn locked(disk: &dyn Disk, data: &Path) -> io::Result<Arc<dyn DiskFile>> {
    let path = data.join(LOCK_NAME);
    let file = disk.open(&path, OpenMode::CreatePrivate)?;
    // An administrator other than the server's user creates a file that the server can open.
    disk.make_like(&path, data, false)?;
    loop {
        match file.try_lock() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(LOCK_INTERVAL),
            locked => return locked.map(|()| file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{User, UserRecord};
    use super::*;
    use disk::{CrashKind, RealDisk, SimDisk};
    use std::os::unix::fs::MetadataExt;

    fn record(name: &str) -> UserRecord {
        UserRecord { user: User::named(name), changed: 1, credentials: None, mail: None }
    }

    #[test]
    fn changes_by_many_at_once_are_all_there_and_the_file_is_private() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let data = dir.path();
                scope.spawn(move || {
                    for n in 0..10 {
                        edit(&RealDisk::new(), data, |table| {
                            table.put(record(&format!("user{writer}.{n}")));
                            Ok::<_, ()>(())
                        })
                        .unwrap();
                    }
                });
            }
        });
        assert_eq!(file::load(&RealDisk::new(), dir.path()).unwrap().unwrap().iter().count(), 40);
        let mode = std::fs::metadata(dir.path().join(FILE_NAME)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "the file and its lock");
    }

    #[test]
    fn a_refused_change_and_a_damaged_file_leave_everything_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        edit(&RealDisk::new(), dir.path(), |table| {
            table.put(record("fred"));
            Ok::<_, ()>(())
        })
        .unwrap();
        let before = std::fs::read(dir.path().join(FILE_NAME)).unwrap();
        let refused = edit(&RealDisk::new(), dir.path(), |table| {
            table.remove("fred");
            Err::<(), _>("no")
        });
        assert!(matches!(refused, Err(EditError::Refused("no"))));
        assert_eq!(std::fs::read(dir.path().join(FILE_NAME)).unwrap(), before);
        std::fs::write(dir.path().join(FILE_NAME), b"rubbish\n").unwrap();
        assert!(matches!(edit(&RealDisk::new(), dir.path(), |_| Ok::<_, ()>(())), Err(EditError::Io(_))));
        assert_eq!(std::fs::read(dir.path().join(FILE_NAME)).unwrap(), b"rubbish\n");
    }

    #[test]
    fn a_crash_at_any_write_leaves_the_users_before_or_after_the_change() {
        let data = Path::new("/site");
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = SimDisk::new();
                sim.create_dir(data).unwrap();
                let add = |name| {
                    edit(&sim, data, |table| {
                        table.put(record(name));
                        Ok::<_, ()>(())
                    })
                };
                add("fred").unwrap();
                sim.crash_at(sim.steps() + step, kind, step * 7919);
                let is_done = add("wilma").is_ok();
                let table = file::load(&sim.image().unwrap(), data).unwrap().unwrap();
                let names: Vec<&str> = table.iter().map(|record| &*record.user.name).collect();
                let (before, after) = (&["fred"][..], &["fred", "wilma"][..]);
                assert!(names == after || names == before && !is_done, "{kind:?} at step {step}: {names:?}");
                if !sim.crashed() {
                    assert!(step > 3, "nothing was tried");
                    break;
                }
            }
        }
    }
}
