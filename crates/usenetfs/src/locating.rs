//! The lower directory of a path: the path itself, or, on a mount, the directory shown there.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use netnews::bucket::BucketScheme;

use crate::directory::LowerDirectory;
use crate::lower::mounts::mounts;
use crate::lower::{self, marking};

/// Maximum length of such a path, in bytes.
const PATH_BYTES_MAX: usize = 64;

/// Returns the lower directory of a path.
pub fn lower_directory(path: &Path, scheme: BucketScheme) -> io::Result<LowerDirectory> {
    let path = path.canonicalize()?;
    let mount = mounts()?.into_iter().rfind(|mount| path.starts_with(&mount.point));
    let (root, rest) = match mount.and_then(|mount| Some((mount.lower?, mount.point))) {
        Some((lower, point)) => {
            let root = lower_root(&point).unwrap_or(lower);
            (root, path.strip_prefix(&point).unwrap_or(Path::new("")).to_owned())
        }
        None => (path, PathBuf::new()),
    };
    marking::check_within(&root, scheme)?;
    let root = OwnedFd::from(fs::File::open(&root)?);
    let mut dir = LowerDirectory::new(Arc::new(root), scheme)?;
    for name in &rest {
        let found = dir.find(name)?;
        dir = LowerDirectory::new(Arc::new(lower::open_path(&dir.fd, &found.path)?), scheme)?;
    }
    if lower::is_dir(&dir.stat) { Ok(dir) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// Returns the lower root of a mount, from its attribute.
fn lower_root(point: &Path) -> Option<PathBuf> {
    let mut value = [0; PATH_BYTES_MAX];
    let length = rustix::fs::getxattr(point, lower::LOWER_ROOT, &mut value).ok()?;
    Some(PathBuf::from(OsString::from_vec(value.get(..length)?.to_vec())))
}
