//! The files of a machine that all members of a cluster have: what there is, and writing what others have
//! changed.
//!
//! A table with one row for each kind. Users are shared one by one, so that those that two members add at a
//! time are all there; anything else is shared as a whole file.

use super::sealed::{ContentHash, FILE_BYTES_MAX};
use access::users::sha256;
use access::users::{self, SIGN_UPS_FILE_NAME, USERS_FILE_NAME, UserTable};
use disk::{Disk, FileAccess, FileMetadata, durable_replace, read_small};
use site::inject;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Name of the secret of the users file among shared files.
const USERS_HEAD: &str = "users";
/// Begins the names of single users among shared files.
const USER: &str = "users/";
/// Time for which posts are left to the member that took them.
const POSTS_AGE_MIN: Duration = Duration::from_secs(30);

/// A kind of whole files.
struct SharedFileKind {
    /// Directory below `site.data`; empty for `site.data` itself, in which a missing file is a lost one.
    dir: &'static str,
    is_one: fn(&str) -> bool,
    access: FileAccess,
    /// Age from which on a file is shared.
    age_min: Duration,
}

const WHOLE: [SharedFileKind; 6] = [
    SharedFileKind::of("", |name| name == inject::Secret::FILE_NAME || name == SIGN_UPS_FILE_NAME),
    SharedFileKind { access: FileAccess::Group, ..SharedFileKind::of("keyring", ingest::is_key_file) },
    SharedFileKind::of("moderation", |name| name.ends_with(".mail")),
    SharedFileKind::of("moderation/held", |name| name.ends_with(".post")),
    SharedFileKind { age_min: POSTS_AGE_MIN, ..SharedFileKind::of("posts", |name| name.ends_with(".post")) },
    SharedFileKind::of("pull", |name| name.ends_with(".marks")),
];

impl SharedFileKind {
    const fn of(dir: &'static str, is_one: fn(&str) -> bool) -> Self {
        Self { dir, is_one, access: FileAccess::Owner, age_min: Duration::ZERO }
    }

    fn name_of(&self, file: &str) -> String {
        if self.dir.is_empty() { file.to_owned() } else { format!("{}/{file}", self.dir) }
    }
}

/// Returns the kind of a whole file, and its name in the directory.
fn kind_of(name: &str) -> Option<(&'static SharedFileKind, &str)> {
    let (dir, file) = name.rsplit_once('/').unwrap_or(("", name));
    let kind = WHOLE.iter().find(|kind| kind.dir == dir && (kind.is_one)(file))?;
    Some((kind, file))
}

/// Identity of a file, and its size and time of modification.
type FileStamp = ((u64, u64), FileMetadata);

/// The shared files of this machine.
pub(super) struct LocalFiles {
    disk: Arc<dyn Disk>,
    data: PathBuf,
    stamps: BTreeMap<String, (FileStamp, ContentHash)>,
    users: Option<(FileStamp, BTreeMap<String, ContentHash>)>,
    /// Whether the directory of each kind was there at the last look, and the file of users.
    has_dirs: [bool; WHOLE.len()],
}

impl LocalFiles {
    /// Opens those of the site in `data`.
    pub fn of(disk: Arc<dyn Disk>, data: &Path) -> Self {
        let data = data.to_owned();
        Self { disk, data, stamps: BTreeMap::new(), users: None, has_dirs: [false; WHOLE.len()] }
    }

    /// Returns the disk, and the site's directory.
    pub fn place(&self) -> (&dyn Disk, &Path) {
        (&*self.disk, &self.data)
    }

    fn stamp(&self, path: &Path) -> io::Result<Option<FileStamp>> {
        Ok(self.disk.identity(path)?.zip(self.disk.about(path)?))
    }

    /// Returns the files and users that there are, with the hashes of their contents.
    pub fn look(&mut self) -> io::Result<BTreeMap<String, ContentHash>> {
        let mut found = BTreeMap::new();
        let mut stamps = BTreeMap::new();
        for (kind, has_dir) in WHOLE.iter().zip(0..) {
            let dir = self.data.join(kind.dir);
            let is_there = kind.dir.is_empty() || self.disk.has_dir(&dir)?;
            self.has_dirs.iter_mut().skip(has_dir).take(1).for_each(|has| *has = is_there);
            for file in self.disk.list(&dir)?.iter().filter(|file| (kind.is_one)(file)) {
                let (name, path) = (kind.name_of(file), dir.join(file));
                let Some(stamp) = self.stamp(&path)? else { continue };
                let age = SystemTime::now().duration_since(stamp.1.modified).unwrap_or_default();
                if stamp.1.bytes > FILE_BYTES_MAX as u64 || age < kind.age_min {
                    continue;
                }
                let known = self.stamps.get(&name).filter(|(known, _)| *known == stamp);
                let hash = match known {
                    Some((_, hash)) => *hash,
                    None => match read_small(&*self.disk, &path, FILE_BYTES_MAX as u64)? {
                        Some(content) => sha256(&content),
                        None => continue,
                    },
                };
                found.insert(name.clone(), hash);
                stamps.insert(name, (stamp, hash));
            }
        }
        self.stamps = stamps;
        let stamp = self.stamp(&self.data.join(USERS_FILE_NAME))?;
        let is_known = |(known, _): &(FileStamp, _)| Some(known) == stamp.as_ref();
        if !self.users.as_ref().is_some_and(is_known) {
            self.users = match (stamp, users::load(&*self.disk, &self.data)) {
                (Some(stamp), Ok(Some(table))) => Some((stamp, hashes_of(&table))),
                _ => None,
            };
        }
        found.extend(self.users.iter().flat_map(|(_, users)| users.clone()));
        Ok(found)
    }

    /// Reports whether a file that is not there has been removed, and is not lost together with all others.
    pub fn is_removal(&self, name: &str) -> bool {
        if name.starts_with(USER) {
            return self.users.is_some();
        }
        let (dir, _) = name.rsplit_once('/').unwrap_or_default();
        let kind = WHOLE.iter().position(|kind| !kind.dir.is_empty() && kind.dir == dir);
        kind.and_then(|kind| self.has_dirs.get(kind)).copied().unwrap_or(false)
    }

    /// Reads a file or user; `None` if it is not there.
    pub fn content(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        if name == USERS_HEAD || name.starts_with(USER) {
            let table = users::load(&*self.disk, &self.data)?;
            return Ok(table.and_then(|table| content_of_user(&table, name)));
        }
        read_small(&*self.disk, &self.data.join(name), FILE_BYTES_MAX as u64)
    }

    /// Gives a file or user this content, or removes it.
    pub fn put(&mut self, name: &str, content: Option<&[u8]>) -> io::Result<()> {
        if name == USERS_HEAD || name.starts_with(USER) {
            return self.put_user(name, content);
        }
        let Some((kind, _)) = kind_of(name) else { return Err(unknown(name)) };
        let (dir, path) = (self.data.join(kind.dir), self.data.join(name));
        match content {
            Some(content) => {
                self.disk.create_dir(&dir)?;
                durable_replace(&*self.disk, &path, &[content], kind.access)?;
            }
            None => {
                match self.disk.remove(&path) {
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    removed => removed?,
                }
                self.disk.sync_dir(&dir)?;
            }
        }
        Ok(())
    }

    fn put_user(&mut self, name: &str, content: Option<&[u8]>) -> io::Result<()> {
        let shared = match content {
            Some(content) => {
                let text = std::str::from_utf8(content).map_err(|_| unknown(name))?;
                Some(UserTable::parse(text).map_err(|_| unknown(name))?)
            }
            None => None,
        };
        let change = |table: &mut UserTable| {
            match (shared, name.strip_prefix(USER)) {
                (Some(shared), None) => table.decoy = shared.decoy,
                (Some(shared), Some(_)) => shared.iter().for_each(|record| table.put(record.clone())),
                (None, Some(user)) => _ = table.remove(user),
                (None, None) => {}
            }
            Ok::<(), ()>(())
        };
        match users::edit(&*self.disk, &self.data, change) {
            Ok(()) | Err(users::EditError::Refused(())) => Ok(()),
            Err(users::EditError::Io(error)) => Err(error),
        }
    }
}

/// Reports whether a name is that of a file or user that may be written here.
pub(super) fn is_shared(name: &str) -> bool {
    name == USERS_HEAD || name.starts_with(USER) || kind_of(name).is_some_and(|(_, file)| !file.contains('/'))
}

fn unknown(name: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("{name} is no shared file of this version"))
}

/// Returns the text that stands for a user, or for the secret of the file.
fn content_of_user(table: &UserTable, name: &str) -> Option<Vec<u8>> {
    let Some(user) = name.strip_prefix(USER) else {
        return Some(UserTable::empty(table.decoy).text().into_bytes());
    };
    let mut one = UserTable::empty(Default::default());
    one.put(table.get(user)?.clone());
    Some(one.text().into_bytes())
}

fn hashes_of(table: &UserTable) -> BTreeMap<String, ContentHash> {
    let names = table.iter().map(|record| format!("{USER}{}", record.user.name));
    let names = names.chain([USERS_HEAD.to_owned()]);
    let hash = |name: String| Some((name.clone(), sha256(&content_of_user(table, &name)?)));
    names.filter_map(hash).collect()
}
