//! File systems to measure on: images in sparse files, mounted by loop devices, which are gone at the end.

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// What is measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// ext4 that finds names by reading directories, as ext2 did.
    Unindexed,
    Ext4,
    Xfs,
    /// ext4 without a journal whose directories are written at once, as the file system of the CNFS paper
    /// did.
    Synchronous,
}

impl Kind {
    /// Those of the Usenetfs paper's comparison.
    pub const ALL: [Self; 3] = [Self::Unindexed, Self::Ext4, Self::Xfs];

    pub fn name(self) -> &'static str {
        match self {
            Self::Unindexed => "ext4 without dir_index",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Synchronous => "ext4, directories written at once",
        }
    }

    /// As part of a file's name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unindexed => "unindexed",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Synchronous => "synchronous",
        }
    }

    fn mount_options(self) -> &'static str {
        match self {
            Self::Synchronous => "noatime,dirsync",
            _ => "noatime",
        }
    }
}

/// Runs a program that must succeed; what it prints.
pub fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| "a path that is not UTF-8".into())
}

/// A file system in a file.
pub struct Volume {
    kind: Kind,
    image: PathBuf,
    point: PathBuf,
    device: String,
    is_mounted: bool,
}

impl Volume {
    /// Makes one and mounts it below `dir`. An unindexed one has an index until [`Volume::drop_index`], so
    /// that it can be filled.
    pub fn make(kind: Kind, dir: &Path, bytes: u64, inodes: u64) -> Result<Self> {
        let (image, point) = (dir.join(format!("{}.img", kind.word())), dir.join(kind.word()));
        clear(&image, &point);
        File::create(&image)?.set_len(bytes)?;
        Self::on(kind, image, point, inodes)
    }

    /// Makes one in a file that is there, and mounts it.
    pub fn on(kind: Kind, image: PathBuf, point: PathBuf, inodes: u64) -> Result<Self> {
        std::fs::create_dir_all(&point)?;
        let device = run("losetup", &["--find", "--show", text(&image)?])?;
        let mut volume = Self { kind, image, point, device, is_mounted: false };
        let (device, inodes) = (volume.device.as_str(), inodes.to_string());
        match kind {
            Kind::Xfs => run("mkfs.xfs", &["-q", "-f", "-i", "maxpct=60", device])?,
            Kind::Ext4 | Kind::Unindexed => {
                run("mkfs.ext4", &["-q", "-F", "-N", &inodes, "-E", "nodiscard", device])?
            }
            Kind::Synchronous => {
                // All of it is made now: the kernel would do the rest later, while somebody measures.
                let extended = "nodiscard,lazy_itable_init=0";
                run("mkfs.ext4", &["-q", "-F", "-O", "^has_journal", "-N", &inodes, "-E", extended, device])?
            }
        };
        volume.mount()?;
        Ok(volume)
    }

    pub fn point(&self) -> &Path {
        &self.point
    }

    fn mount(&mut self) -> Result<()> {
        run("mount", &["-o", self.kind.mount_options(), &self.device, text(&self.point)?])?;
        self.is_mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> Result<()> {
        run("umount", &[text(&self.point)?])?;
        self.is_mounted = false;
        Ok(())
    }

    /// Mounts it again: names, inodes and directories are in no cache then.
    pub fn cool(&mut self) -> Result<()> {
        self.unmount()?;
        self.mount()
    }

    /// From now on directories are searched from the beginning.
    pub fn drop_index(&mut self) -> Result<()> {
        if self.kind != Kind::Unindexed {
            return Ok(());
        }
        self.unmount()?;
        run("tune2fs", &["-O", "^dir_index", &self.device])?;
        // It ends with 1 when it has changed something, which it is asked for.
        let _changed = Command::new("e2fsck").args(["-fyD", &self.device]).output()?;
        self.mount()
    }
}

/// Removes what a run has left that was killed.
fn clear(image: &Path, point: &Path) {
    let Ok((image, point)) = text(image).and_then(|image| Ok((image, text(point)?))) else { return };
    // Mostly there is nothing.
    let _none = run("umount", &["--lazy", point]);
    for line in run("losetup", &["--associated", image]).unwrap_or_default().lines() {
        let device = line.split(':').next().unwrap_or_default();
        let _busy = run("losetup", &["--detach", device]);
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let point = self.point.to_str().unwrap_or_default();
        if self.is_mounted && run("umount", &[point]).is_err() {
            let _left = run("umount", &["--lazy", point]);
        }
        let _left = run("losetup", &["--detach", &self.device]);
        let _left = std::fs::remove_file(&self.image);
        let _left = std::fs::remove_dir(&self.point);
    }
}
