//! Checks of the site's directory, and of the files in it that are not the spool's.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use rustix::fs::{Access, FlockOperation, access, flock};

use super::{Findings, RunningServer};
use disk::RealDisk;
use operators::control_socket::{SOCKET_PATH_BYTES_MAX, socket_path};
use site::inject::Secret;
use site_config::{Config, PassedList};

/// Directories below the site's that the server writes to.
const WRITTEN: [&str; 6] =
    ["journal", "index", "index/history", "index/overview", "dictionaries", "moderation"];

pub(super) fn look(config: &Config, running: Option<&RunningServer>, found: &mut Findings) {
    let data = &config.site.data;
    directory(data, found);
    let socket = socket_path(data);
    let bytes = socket.as_os_str().len();
    if bytes > SOCKET_PATH_BYTES_MAX {
        found.problem(format!(
            "the path of the control socket, {}, has {bytes} bytes, and {SOCKET_PATH_BYTES_MAX} are \
             possible; choose a shorter data in [site]",
            socket.display()
        ));
    }
    if running.is_none() {
        lock(data, found);
    }
    // Opening would create the file where it is missing.
    if let Err(error) = Secret::read(&RealDisk::new(), data) {
        found.problem(error.to_string());
    }
    lists(&config.site.lists, found);
    for archive in &config.archives {
        if let Err(error) = access(&archive.path, Access::WRITE_OK | Access::EXEC_OK) {
            found.warning(format!(
                "archive {} cannot be written: {}: {error}; nothing is copied until it can",
                archive.name,
                archive.path.display()
            ));
        }
    }
}

fn directory(data: &Path, found: &mut Findings) {
    let writable = |dir: &Path| access(dir, Access::WRITE_OK | Access::EXEC_OK);
    let exists = |dir: &&Path| dir.symlink_metadata().is_ok();
    match fs::metadata(data) {
        Ok(about) if !about.is_dir() => found.problem(format!("{} is not a directory", data.display())),
        Ok(_) => {
            let dirs = WRITTEN.map(|name| data.join(name));
            let all = std::iter::once(data.to_owned()).chain(dirs.into_iter().filter(|dir| dir.is_dir()));
            for dir in all {
                if let Err(error) = writable(&dir) {
                    found.problem(format!("{} cannot be written to: {error}", dir.display()));
                }
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let above = data.ancestors().find(exists).filter(|dir| !dir.as_os_str().is_empty());
            if let Err(error) = writable(above.unwrap_or(Path::new("."))) {
                found.problem(format!("{} cannot be created: {error}", data.display()));
            }
        }
        Err(error) => found.problem(format!("cannot look at {}: {error}", data.display())),
    }
}

/// Checks whether a process holds the spool but does not answer on its control socket.
fn lock(data: &Path, found: &mut Findings) {
    let path = data.join("lock");
    let Ok(file) = fs::File::open(&path) else { return };
    if flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK) {
        let pid = fs::read_to_string(&path).unwrap_or_default();
        found.problem(format!(
            "{} is in use by process {}, which does not answer on its control socket",
            data.display(),
            pid.trim()
        ));
    }
}

fn lists(dir: &Path, found: &mut Findings) {
    match fs::metadata(dir) {
        Ok(about) if about.is_dir() => {}
        Ok(_) => return found.problem(format!("{}, the lists of [site], is not a directory", dir.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return found.warning(format!(
                "there is no directory {} with the texts for LIST MOTD, SUBSCRIPTIONS, DISTRIBUTIONS and \
                 DISTRIB.PATS (lists in [site])",
                dir.display()
            ));
        }
        Err(error) => return found.problem(format!("cannot look at {}: {error}", dir.display())),
    }
    for path in PassedList::ALL.into_iter().filter_map(PassedList::file_name).map(|name| dir.join(name)) {
        match fs::read(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                found.problem(format!("cannot read {}: {error}", path.display()));
            }
            _ => {}
        }
    }
}
