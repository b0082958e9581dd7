//! Opening the volumes of retained articles: one directory per class, whose header identifies its owner.

use disk::Disk;
use spool_base::config::{ClassConfig, SpoolConfig};
use spool_base::error::SpoolError;
use spool_base::ids::GroupNames;
use spool_base::token::MethodKind;
use spool_methods::tree_header::{FILE, TreeHeader, is_ours};
use spool_methods::{AppendOnly, FileTree, Volume};
use std::io;
use std::sync::Arc;

/// Reads the headers of the directories of all classes that retain articles.
pub(crate) fn headers(disk: &dyn Disk, config: &SpoolConfig) -> Result<Vec<TreeHeader>, SpoolError> {
    let mut headers = Vec::new();
    for class in config.classes.iter().filter(|c| c.method.keeps()) {
        let dir = &class.tree.path;
        headers.extend(TreeHeader::read(disk, dir).map_err(SpoolError::io("look at", dir.join(FILE)))?);
    }
    Ok(headers)
}

/// Returns the error for a class with articles whose directory is missing.
pub(super) fn missing(class: &ClassConfig) -> SpoolError {
    SpoolError::Unfit(format!(
        "class \"{0}\" is missing its articles: there is no {1}; mount its disk or put the directory \
         back, or run `newsreel rebuild --without {0}` to go on without them, with a new directory",
        class.name,
        class.tree.path.join(FILE).display()
    ))
}

/// Further information about a class's volume.
pub(crate) struct TreeInfo<'a> {
    pub head: Option<u64>,
    /// Number for a new volume.
    pub id: u16,
    pub secret: &'a str,
    /// Whether a checkpoint refers to articles in it.
    pub used: bool,
}

/// Opens or creates the volume of a class.
pub(crate) fn open(
    disk: &Arc<dyn Disk>,
    names: &Arc<GroupNames>,
    class: &ClassConfig,
    known: TreeInfo<'_>,
) -> Result<Arc<dyn Volume>, SpoolError> {
    let dir = &class.tree.path;
    let io = |doing: &'static str| SpoolError::io(doing, dir.clone());
    let header = TreeHeader::read(&**disk, dir).map_err(io("look at"))?;
    let header = match header {
        Some(header) => header,
        None if known.used => return Err(missing(class)),
        None => make(disk, class, &known).map_err(io("make"))?.ok_or_else(|| {
            SpoolError::Unfit(format!(
                "{} holds something that is not a newsreel spool and is left alone; name another path for \
                    class \"{}\", or \
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
    Ok(if class.method == MethodKind::AppendOnly {
        Arc::new(AppendOnly::open(disk, header.volume, class, known.head).map_err(io("look at"))?)
    } else {
        Arc::new(FileTree::open(disk, names, header.volume, class, known.head))
    })
}

/// Starts using a directory; `None` if it contains other files.
fn make(disk: &Arc<dyn Disk>, class: &ClassConfig, known: &TreeInfo<'_>) -> io::Result<Option<TreeHeader>> {
    let dir = &class.tree.path;
    disk.create_dir(dir)?;
    let others = disk.list(dir)?.into_iter().any(|name| !is_ours(&name));
    // The root directory of a file system may contain `lost+found`.
    if others || disk.list_dirs(dir)?.into_iter().any(|name| name != "lost+found") {
        return Ok(None);
    }
    let (name, method) = (class.name.clone(), class.method.name().to_owned());
    let header = TreeHeader { name, method, volume: known.id, secret: known.secret.to_owned() };
    header.write(&**disk, dir)?;
    Ok(Some(header))
}
