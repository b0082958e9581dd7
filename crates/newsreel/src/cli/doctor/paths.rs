//! Checks of the site's paths: file systems, free space, and owners of the files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};

use super::{CheckResult, part};
use crate::cli::owner;
use site::inject::Secret;
use site_base::units;
use site_config::Config;
use usenetfs::{MountEntry, mount_of, mounts};

/// Free space, in bytes, below which the journal and the indexes may run out of room soon.
const FREE_BYTES_FEW: u64 = 1 << 30;
/// Free space, in bytes, below which nothing can be expected to work.
const FREE_BYTES_MIN: u64 = 64 << 20;
/// Maximum number of files whose owners are checked.
const FILES_MAX: usize = 20_000;
/// File names that a line shows.
const NAMES_SHOWN: usize = 3;
/// File systems of other machines, whose locks and failures differ from those of a disk.
const REMOTE: [&str; 10] =
    ["nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "afs", "fuse.sshfs", "fuse.glusterfs"];

/// Contents of one file system.
struct FileSystemUse {
    mount: MountEntry,
    /// An existing path on it.
    path: PathBuf,
    /// What the configuration has there.
    what: Vec<String>,
    /// Bytes of buffers for which the file system has not yet allocated blocks.
    promised_bytes: u64,
}

pub(super) fn parts(config: &Config) -> Vec<CheckResult> {
    let mounts = mounts().unwrap_or_default();
    let mut places: Vec<FileSystemUse> = Vec::new();
    for (what, path) in paths(config) {
        // Nothing is known of a path that is away; `check` reports it.
        let Some(path) = path.ancestors().find_map(|path| fs::canonicalize(path).ok()) else { continue };
        let Some(mount) = mount_of(&mounts, &path) else { continue };
        let promised_bytes = promised(&path);
        match places.iter_mut().find(|place| place.mount == *mount) {
            Some(place) => {
                place.what.push(what);
                place.promised_bytes += promised_bytes;
            }
            None => {
                places.push(FileSystemUse { mount: mount.clone(), path, what: vec![what], promised_bytes })
            }
        }
    }
    let mut parts: Vec<CheckResult> = places.iter().map(room).collect();
    parts.push(archives(config, &places));
    parts.push(owners(&config.site.data));
    parts.push(secrets(config));
    parts
}

/// Returns everything that the site writes to, as name and path.
fn paths(config: &Config) -> Vec<(String, PathBuf)> {
    let mut paths = vec![("data".to_owned(), config.site.data.clone())];
    paths
        .extend(config.buffers.iter().map(|buffer| (format!("buffer {}", buffer.name), buffer.path.clone())));
    let classes = config.classes.iter().filter_map(|class| Some((&class.name, class.path.clone()?)));
    paths.extend(classes.map(|(name, path)| (format!("class {name}"), path)));
    paths.extend(config.archives.iter().map(|one| (format!("archive {}", one.name), one.path.clone())));
    if !config.upstreams.is_empty() {
        paths.push(("cache".to_owned(), config.cache.path.clone()));
    }
    paths
}

/// Returns how much more room a sparse file may take on its file system; 0 for other things.
fn promised(path: &Path) -> u64 {
    let Ok(about) = fs::metadata(path) else { return 0 };
    // Blocks are always counted in units of 512 bytes.
    if about.is_file() { about.len().saturating_sub(about.blocks() * 512) } else { 0 }
}

fn room(place: &FileSystemUse) -> CheckResult {
    let FileSystemUse { mount, path, what, promised_bytes } = place;
    let (point, kind, what) = (mount.point.display(), &mount.kind, what.join(", "));
    let space = match statvfs(path) {
        Ok(space) => space,
        Err(error) => {
            let mut part = part("disk", "");
            part.found.problem(format!("{point} ({kind}) of {what} cannot be looked at: {error}"));
            return part;
        }
    };
    let (free, total) = (space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize);
    let size = units::about_size;
    let mut part =
        part("disk", format!("{point} ({kind}): {} of {} are free; {what}", size(free), size(total)));
    let found = &mut part.found;
    if space.f_flag.contains(StatVfsMountFlags::RDONLY) {
        found
            .problem(format!("{point} of {what} is mounted read-only; see what the kernel says of its disk"));
    }
    if free < FREE_BYTES_MIN {
        found.problem(format!("{point} has {} free, for {what}; make room", size(free)));
    } else if *promised_bytes > free {
        found.problem(format!(
            "{point} has {} free, but buffers there will take {} more as they fill; make room, or smaller buffers",
            size(free),
            size(*promised_bytes)
        ));
    } else if free - promised_bytes < FREE_BYTES_FEW {
        found.warning(format!(
            "{point} has {} free for what grows of {what} (journal, indexes); make room",
            size(free - promised_bytes)
        ));
    }
    if REMOTE.contains(&kind.as_str()) {
        found.warning(format!(
            "{point} ({kind}) of {what} is another machine's: a server needs a disk of its own for its spool"
        ));
    } else if ["tmpfs", "ramfs"].contains(&kind.as_str()) {
        found.warning(format!("{point} ({kind}) of {what} is in memory: everything is gone after a reboot"));
    } else if kind == "overlay" {
        found.warning(format!("{point} (overlay) of {what} goes with its container; mount a volume there"));
    }
    part
}

/// Checks whether archives are on other disks than the site, so that one failure does not take both.
fn archives(config: &Config, places: &[FileSystemUse]) -> CheckResult {
    let mut part = part("archives", "none");
    if config.archives.is_empty() {
        return part;
    }
    part.well = "are on file systems of their own".into();
    for place in places {
        let archive = place.what.iter().find(|what| what.starts_with("archive "));
        let other = place.what.iter().find(|what| !what.starts_with("archive "));
        if let (Some(archive), Some(other)) = (archive, other) {
            part.found.warning(format!(
                "{archive} is on the file system of {other}: a disk that dies takes both; put it on another one"
            ));
        }
    }
    part
}

/// Checks whether all files belong to the owner of the directory, whose server must be able to use them.
fn owners(data: &Path) -> CheckResult {
    let mut part = part("owner", "nothing is there yet");
    let Ok(about) = fs::metadata(data) else { return part };
    let user = owner::user_name(about.uid());
    part.well = format!("{} and what is in it belong to {user}", data.display());
    let (mut dirs, mut seen, mut others) = (vec![data.to_owned()], 0, Vec::new());
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            seen += 1;
            // The link itself, not its target.
            let Ok(found) = entry.metadata() else { continue };
            if found.uid() != about.uid() {
                others.push(entry.path().display().to_string());
            }
            if found.is_dir() && seen < FILES_MAX {
                dirs.push(entry.path());
            }
        }
    }
    if !others.is_empty() {
        let more = if others.len() > NAMES_SHOWN { ", ..." } else { "" };
        part.found.problem(format!(
            "{} in {} belong to others than {user}: {}{more}; type: chown -R {user} {}",
            units::counted(others.len() as u64, "file"),
            data.display(),
            others.iter().take(NAMES_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", "),
            data.display()
        ));
    }
    part
}

/// Checks whether others can read secret files. Keys of certificates are checked by `check` as well.
fn secrets(config: &Config) -> CheckResult {
    let mut part = part("secrets", "can be read by their owner and group alone");
    let data = &config.site.data;
    let own = [data.join(Secret::FILE_NAME), data.join("users")];
    for path in own.into_iter().chain(config.password_files().map(Path::to_owned)) {
        if fs::metadata(&path).is_ok_and(|about| about.mode() & 0o007 != 0) {
            let path = path.display();
            part.found.warning(format!("{path} can be used by everyone; type: chmod o= {path}"));
        }
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsuitable_kinds_of_file_systems_are_reported() {
        let home = tempfile::tempdir().unwrap();
        let point = home.path().display();
        let place = |kind: &str, promised_bytes| FileSystemUse {
            mount: MountEntry::parse(format!("1 1 8:1 / {point} rw - {kind} none rw").as_bytes()).unwrap(),
            path: home.path().to_owned(),
            what: vec!["data".into()],
            promised_bytes,
        };
        let warned = |kind| room(&place(kind, 0)).found.warnings.join("\n");
        assert!(warned("nfs4").contains("another machine's"), "{}", warned("nfs4"));
        assert!(warned("tmpfs").contains("gone after a reboot"));
        assert!(warned("overlay").contains("mount a volume"));
        assert!(!warned("ext4").contains("ext4"));
        let short = room(&place("ext4", u64::MAX)).found.problems.join("\n");
        assert!(short.contains("more as they fill") || short.contains("make room"), "{short}");
    }

    #[test]
    fn holes_are_counted_and_readable_secrets_reported() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("text0.cyc");
        fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
        assert!(promised(&file) > 0);
        assert_eq!(promised(home.path()), 0);
        let mut config = site_config::testing::with_trash("");
        config.site.data = home.path().to_owned();
        let users = home.path().join("users");
        fs::write(&users, "").unwrap();
        let mode =
            |mode| fs::set_permissions(&users, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        mode(0o640);
        assert!(secrets(&config).found.warnings.is_empty());
        mode(0o644);
        assert!(secrets(&config).found.warnings[0].contains("chmod o="), "{:?}", secrets(&config));
        assert!(owners(home.path()).found.problems.is_empty());
    }
}
