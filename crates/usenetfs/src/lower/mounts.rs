//! Mounts on this machine, and which of them are ours.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Beginning of a mount's source in `/proc/mounts`; the lower directory follows.
pub const SOURCE: &str = "usenetfs:";
/// Beginning of the source of a mount of a server's articles; the site's directory follows.
pub const SPOOL_SOURCE: &str = "newsreel:";

/// Returns the source of our mount at a point, if there is one.
pub fn mounted_at(point: &Path) -> io::Result<Option<String>> {
    let last = mounts()?.into_iter().rfind(|mount| mount.point == point);
    let is_ours = |source: &String| source.starts_with(SOURCE) || source.starts_with(SPOOL_SOURCE);
    Ok(last.map(|mount| mount.source).filter(is_ours))
}

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// Mount point.
    pub point: PathBuf,
    /// Type of the file system, such as `ext4`.
    pub kind: String,
    source: String,
    /// Lower directory, if it is a tree of ours.
    pub lower: Option<PathBuf>,
}

/// Returns all mounts of this process, the latest last.
///
/// # Errors
/// If the system's table cannot be read.
pub fn mounts() -> io::Result<Vec<MountEntry>> {
    let text = fs::read("/proc/self/mountinfo")?;
    Ok(text.split(|b| *b == b'\n').filter_map(MountEntry::parse).collect())
}

/// Returns the mount of a path among these: the last of those nearest to it.
pub fn mount_of<'a>(mounts: &'a [MountEntry], path: &Path) -> Option<&'a MountEntry> {
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    above.max_by_key(|mount| mount.point.components().count())
}

impl MountEntry {
    /// Parses a line of mountinfo (proc_pid_mountinfo(5)).
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|b| *b == b' ');
        let point = unescape(fields.nth(4)?);
        let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
        let (kind, source) = (String::from_utf8_lossy(fields.next()?).into_owned(), fields.next()?);
        let lower = source.strip_prefix(SOURCE.as_bytes()).map(unescape);
        Some(Self { point, kind, source: unescape(source).to_string_lossy().into_owned(), lower })
    }
}

/// Decodes a field in which blanks and backslashes are octal.
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
        let mount = MountEntry::parse(line).unwrap();
        assert_eq!((mount.point, mount.lower), (PathBuf::from("/mnt/a b"), Some(PathBuf::from("/srv/x\\y"))));
        assert!(MountEntry::parse(b"36 35 98:0 / / rw - ext4 /dev/vda rw").unwrap().lower.is_none());
        assert!(MountEntry::parse(b"").is_none());
    }

    #[test]
    fn a_path_is_on_the_file_system_that_is_mounted_nearest() {
        let table = [
            &b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw"[..],
            b"35 22 0:30 / /srv/news rw - nfs4 host:/news rw",
            b"36 35 8:17 / /srv/news/my\\040disk rw,noatime shared:2 master:3 - xfs /dev/sdb1 rw",
        ];
        let mounts: Vec<_> = table.into_iter().filter_map(MountEntry::parse).collect();
        let kind = |path: &str| mount_of(&mounts, Path::new(path)).map(|mount| mount.kind.as_str());
        assert_eq!(kind("/srv"), Some("ext4"));
        assert_eq!(kind("/srv/newsreel"), Some("ext4"));
        assert_eq!(kind("/srv/news/text0.cyc"), Some("nfs4"));
        assert_eq!(kind("/srv/news/my disk/text1.cyc"), Some("xfs"));
    }
}
