//! The lower directory that a path means: itself, or, on a mount, what is shown there.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use netnews::bucket::Scheme;

use crate::directory::Directory;
use crate::lower::{self, marking};
use crate::mounting::SOURCE;

/// Bytes of such a path.
const PATH_BYTES_MAX: usize = 64;

/// The lower directory of a path.
pub fn lower_directory(path: &Path, scheme: Scheme) -> io::Result<Directory> {
    let path = path.canonicalize()?;
    let mounts = fs::read("/proc/self/mountinfo")?;
    let mount =
        mounts.split(|b| *b == b'\n').filter_map(mount_of).rfind(|mount| path.starts_with(&mount.point));
    let (root, rest) = match mount.and_then(|mount| Some((mount.lower?, mount.point))) {
        Some((lower, point)) => {
            let root = lower_root(&point).unwrap_or(lower);
            (root, path.strip_prefix(&point).unwrap_or(Path::new("")).to_owned())
        }
        None => (path, PathBuf::new()),
    };
    marking::check_within(&root, scheme)?;
    let root = OwnedFd::from(fs::File::open(&root)?);
    let mut dir = Directory::new(Arc::new(root), scheme)?;
    for name in &rest {
        let found = dir.find(name)?;
        dir = Directory::new(Arc::new(lower::open_path(&dir.fd, &found.path)?), scheme)?;
    }
    if lower::is_dir(&dir.stat) { Ok(dir) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// What a mount says of its lower root.
fn lower_root(point: &Path) -> Option<PathBuf> {
    let mut value = [0; PATH_BYTES_MAX];
    let length = rustix::fs::getxattr(point, lower::LOWER_ROOT, &mut value).ok()?;
    Some(PathBuf::from(OsString::from_vec(value.get(..length)?.to_vec())))
}

struct Mount {
    point: PathBuf,
    /// If it is one of ours.
    lower: Option<PathBuf>,
}

/// A line of mountinfo (proc_pid_mountinfo(5)).
fn mount_of(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|b| *b == b' ');
    let point = unescape(fields.nth(4)?);
    let source = fields.skip_while(|field| *field != b"-").nth(2)?;
    Some(Mount { point, lower: source.strip_prefix(SOURCE.as_bytes()).map(unescape) })
}

/// A field in which blanks and backslashes are octal.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal =
            after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read() {
        let line = b"36 35 98:0 / /mnt/a\\040b rw,noatime shared:1 - fuse usenetfs:/srv/x\\134y rw,user_id=0";
        let mount = mount_of(line).unwrap();
        assert_eq!((mount.point, mount.lower), (PathBuf::from("/mnt/a b"), Some(PathBuf::from("/srv/x\\y"))));
        assert!(mount_of(b"36 35 98:0 / / rw - ext4 /dev/vda rw").unwrap().lower.is_none());
        assert!(mount_of(b"").is_none());
    }
}
