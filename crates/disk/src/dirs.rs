//! Directories of the machine: creating, listing, inspecting. Used by [`super::real`].

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Mode of new directories, before the process's umask.
const DIR_MODE: u32 = 0o750;

/// Opens a file or directory to read it, without waiting if it is a pipe.
pub(super) fn open_to_read(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

/// Returns the path of a directory, `.` for the empty path.
pub(super) fn here(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() { Path::new(".") } else { dir }
}

/// Creates a directory and its missing parents. With buckets every second level is a managed directory;
/// `managed` says whether this one is.
pub(super) fn make_levels(path: &Path, managed: Option<bool>) -> io::Result<()> {
    match make_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            make_levels(path.parent().ok_or(e)?, managed.map(|managed| !managed))?;
            make_dir(path)?;
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => return Ok(()),
        made => made?,
    }
    if managed == Some(true) {
        let mode = fs::metadata(path)?.permissions().mode();
        fs::set_permissions(path, fs::Permissions::from_mode(mode | 0o4000))?;
    }
    Ok(())
}

/// Creates one directory.
pub(super) fn make_dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(DIR_MODE).create(path)
}

pub(super) fn is_device(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.file_type().is_block_device())
}

/// Returns the names of all entries of one type in a directory, sorted.
pub(super) fn list(dir: &Path, is_wanted: fn(&fs::FileType) -> bool) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if is_wanted(&entry.file_type()?) {
            // Names that are not UTF-8 are none of ours.
            names.extend(entry.file_name().into_string().ok());
        }
    }
    names.sort_unstable();
    Ok(names)
}
