//! A lower directory and a mount of it, which is unmounted when the test ends, however it ends.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;
use usenetfs::{MountSettings, Mounted};

pub struct Site {
    // Unmounted before its directory is removed.
    mount: Option<Mounted>,
    dir: TempDir,
}

/// Whether this machine can mount; says aloud if not.
pub fn possible() -> bool {
    let missing = match () {
        () if !rustix::process::geteuid().is_root() => "needs root",
        () if !Path::new("/dev/fuse").exists() => "needs /dev/fuse",
        () => return true,
    };
    skipped(missing);
    false
}

/// Says aloud that a test is skipped.
pub fn skipped(missing: &str) {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    // `eprintln` would be captured with the output of a test that passes.
    #[allow(clippy::explicit_write)]
    writeln!(std::io::stderr(), "SKIPPED: {name} {missing}").unwrap();
}

impl Site {
    /// `None` where nothing can be mounted.
    pub fn new() -> Option<Self> {
        Self::with(&MountSettings::default())
    }

    pub fn with(options: &MountSettings) -> Option<Self> {
        if !possible() {
            return None;
        }
        let dir = tempfile::Builder::new().prefix("usenetfs-").tempdir().unwrap();
        // Other users come in, too.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(dir.path().join("lower")).unwrap();
        fs::create_dir(dir.path().join("mnt")).unwrap();
        let mut site = Self { mount: None, dir };
        site.mount(options);
        Some(site)
    }

    pub fn mount(&mut self, options: &MountSettings) {
        self.mount = Some(usenetfs::mount(&self.lower(""), &self.upper(""), options).unwrap());
    }

    pub fn unmount(&mut self) {
        self.mount = None;
    }

    pub fn mounted(&self) -> &Mounted {
        self.mount.as_ref().unwrap()
    }

    /// Returns a path below the lower directory.
    pub fn lower(&self, path: &str) -> PathBuf {
        self.dir.path().join("lower").join(path)
    }

    /// Returns a path below the mount.
    pub fn upper(&self, path: &str) -> PathBuf {
        self.dir.path().join("mnt").join(path)
    }

    /// Makes a managed directory through the mount.
    pub fn make_managed(&self, path: &str) {
        fs::create_dir(self.upper(path)).unwrap();
        manage(&self.upper(path));
    }
}

/// Sets the bit.
pub fn manage(dir: &Path) {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o4755)).unwrap();
}

/// Returns the names in a directory, in the order in which they are listed.
pub fn listed(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Returns the names in a directory, sorted.
pub fn sorted(dir: &Path) -> Vec<String> {
    let mut names = listed(dir);
    names.sort();
    names
}

/// A seeded source of chance (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n.max(1)
    }
}

/// Sets a flag when it goes, also by a panic, so that threads that wait for it end.
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
