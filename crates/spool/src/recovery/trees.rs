//! Opening the volumes that keep: one directory for each class, told by a file of ours in it.
//!
//! The file `newsreel.tree` and its copy say whose the directory is, so that a foreign one is left alone and one that should be
//! there is missed. Written as the directory is taken into use; a damaged one is written again from the other by the next
//! opening, or by a repair. Layout: `docs/formats/tree.md`.

use crate::config::{ClassConfig, SpoolConfig};
use crate::disk::{Disk, Open, read_around};
use crate::error::SpoolError;
use crate::groups::GroupNames;
use crate::method::{AppendOnly, FileTree, Volume};
use crate::token::MethodKind;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FILE: &str = "newsreel.tree";
/// The file and its copy.
const FILES: [&str; 2] = [FILE, "newsreel.tree.copy"];
const MAGIC: &str = "newsreel tree 1";
const FILE_BYTES_MAX: usize = 4096;

/// What `newsreel.tree` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeHeader {
    pub name: String,
    pub method: String,
    pub volume: u16,
    /// Secret of the Message-ID hash, hexadecimal.
    pub secret: String,
}

impl TreeHeader {
    fn encode(&self) -> Vec<u8> {
        let Self { name, method, volume, secret } = self;
        let body = format!("{MAGIC}\nname {name}\nmethod {method}\nvolume {volume}\nsecret {secret}\n");
        format!("{body}crc32c {:08x}\n", crate::crc::crc32c(body.as_bytes())).into_bytes()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, crc) = std::str::from_utf8(bytes).ok()?.split_once("crc32c ")?;
        if u32::from_str_radix(crc.trim_end(), 16).ok()? != crate::crc::crc32c(body.as_bytes()) {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != MAGIC {
            return None;
        }
        let mut value = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ').map(str::to_owned);
        Some(Self {
            name: value("name")?,
            method: value("method")?,
            volume: value("volume")?.parse().ok()?,
            secret: value("secret")?,
        })
    }

    /// Reads the one in a directory; `None` if there is none, or its writing was cut off.
    pub fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Option<Self>> {
        for name in FILES {
            let read = Self::read_file(disk, &dir.join(name))?;
            if read.is_some() {
                return Ok(read);
            }
        }
        Ok(None)
    }

    fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Option<Self>> {
        let file = match disk.open(path, Open::ReadOnly) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = vec![0; FILE_BYTES_MAX];
        let n = read_around(&*file, &mut bytes, 0)?;
        let bytes = bytes.get(..n).unwrap_or_default();
        Ok(Self::decode(bytes).filter(|header| header.encode() == bytes))
    }

    /// Writes the copies again that do not say this.
    fn write(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        for name in FILES {
            let path = dir.join(name);
            if Self::read_file(disk, &path)?.as_ref() != Some(self) {
                let file = disk.open(&path, Open::CreatePrivate)?;
                file.set_len(0)?;
                file.write_all_at(&[IoSlice::new(&self.encode())], 0)?;
                file.sync()?;
                disk.sync_dir(dir)?;
            }
        }
        Ok(())
    }
}

/// The copies of `newsreel.tree` that are damaged or missing.
pub(crate) fn damaged(disk: &dyn Disk, dir: &Path) -> Vec<PathBuf> {
    let paths = FILES.map(|name| dir.join(name));
    let whole = |path: &PathBuf| matches!(TreeHeader::read_file(disk, path), Ok(Some(_)));
    paths.into_iter().filter(|path| !whole(path)).collect()
}

/// Writes a damaged copy again from the other one; an error if there is none.
pub(crate) fn mend(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let header = TreeHeader::read(disk, dir)?;
    header.ok_or_else(|| io::Error::other("both copies are damaged"))?.write(disk, dir)
}

/// Whether a directory does not say whose it is.
pub(crate) fn is_blank(disk: &dyn Disk, dir: &Path) -> Result<bool, SpoolError> {
    let header = TreeHeader::read(disk, dir).map_err(SpoolError::io("look at", dir.join(FILE)))?;
    Ok(header.is_none())
}

/// The files that say whose a directory is.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    FILES.iter().map(|name| dir.join(name)).collect()
}

/// Whether a file in such a directory says whose it is.
pub(crate) fn is_ours(name: &str) -> bool {
    FILES.contains(&name)
}

/// The directories' files, of all classes that keep.
pub(crate) fn headers(disk: &dyn Disk, config: &SpoolConfig) -> Result<Vec<TreeHeader>, SpoolError> {
    let mut headers = Vec::new();
    for class in config.classes.iter().filter(|c| c.method.keeps()) {
        let dir = &class.tree.path;
        headers.extend(TreeHeader::read(disk, dir).map_err(SpoolError::io("look at", dir.join(FILE)))?);
    }
    Ok(headers)
}

/// What else is known of a class's volume.
pub(crate) struct Known<'a> {
    pub head: Option<u64>,
    /// The number a new volume gets.
    pub id: u16,
    pub secret: &'a str,
    /// A checkpoint names articles in it.
    pub used: bool,
}

/// Opens or makes the volume of a class.
pub(crate) fn open(
    disk: &Arc<dyn Disk>,
    names: &Arc<GroupNames>,
    class: &ClassConfig,
    known: Known<'_>,
) -> Result<Arc<dyn Volume>, SpoolError> {
    let dir = &class.tree.path;
    let io = |doing: &'static str| SpoolError::io(doing, dir.clone());
    let header = TreeHeader::read(&**disk, dir).map_err(io("look at"))?;
    let header = match header {
        Some(header) => header,
        None if known.used => {
            return Err(SpoolError::Unfit(format!(
                "class \"{}\" has lost its articles: there is no {}; put the directory back, or run `newsreel rebuild` to go on \
                 without them",
                class.name,
                dir.join(FILE).display()
            )));
        }
        None => make(disk, class, &known).map_err(io("make"))?.ok_or_else(|| {
            SpoolError::Unfit(format!(
                "{} holds something that is not a newsreel spool and is left alone; name another path for class \"{}\", or \
                 empty it first",
                dir.display(),
                class.name
            ))
        })?,
    };
    if header.name != class.name || header.method != class.method.name() {
        return Err(SpoolError::Unfit(format!(
            "{} belongs to class \"{}\" of method {}, not to \"{}\" of method {}",
            dir.display(),
            header.name,
            header.method,
            class.name,
            class.method.name()
        )));
    }
    if header.secret != known.secret {
        return Err(SpoolError::Unfit(format!(
            "{} belongs to another spool: its secret is not the one in the file `secret`",
            dir.display()
        )));
    }
    header.write(&**disk, dir).map_err(io("write newsreel.tree in"))?;
    let which = (header.volume, class.name.as_str(), PathBuf::from(dir));
    Ok(if class.method == MethodKind::AppendOnly {
        let sizes = (class.tree.file_bytes, class.tree.files_max);
        Arc::new(AppendOnly::open(disk, which, sizes, known.head).map_err(io("look at"))?)
    } else {
        let form = (class.method, class.tree.lines_end_in_lf);
        Arc::new(FileTree::open(disk, names, which, form, known.head))
    })
}

/// Takes a directory into use; `None` if something else is in it.
fn make(disk: &Arc<dyn Disk>, class: &ClassConfig, known: &Known<'_>) -> io::Result<Option<TreeHeader>> {
    let dir = &class.tree.path;
    disk.create_dir(dir)?;
    let others = disk.list(dir)?.into_iter().any(|name| !is_ours(&name));
    // A file system's root has that one.
    if others || disk.list_dirs(dir)?.into_iter().any(|name| name != "lost+found") {
        return Ok(None);
    }
    let (name, method) = (class.name.clone(), class.method.name().to_owned());
    let header = TreeHeader { name, method, volume: known.id, secret: known.secret.to_owned() };
    header.write(&**disk, dir)?;
    Ok(Some(header))
}
