//! The ways to a directory of articles that are compared, and the mounts of those that need one.

use super::passthrough;
use crate::volume::{Kind, run};
use netnews::bucket::BucketScheme;
use std::error::Error;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// How long a mount may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Directories of the tree that lie below each other.
pub const FLAT: &str = "flat";

/// A way to articles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The flat directory itself.
    Flat,
    /// Through the least that FUSE can be.
    Bare,
    /// Through bindfs.
    Bindfs,
    /// The flat directory through the mount.
    Unmanaged,
    /// A managed directory through the mount.
    Managed(BucketScheme),
    /// A managed directory without a mount, by a program that knows the rule: the method `bucketed`.
    Bucketed,
}

impl Way {
    pub const ALL: [Self; 9] = [
        Self::Flat,
        Self::Bare,
        Self::Bindfs,
        Self::Unmanaged,
        Self::Managed(BucketScheme::Tens),
        Self::Managed(BucketScheme::Pairs),
        Self::Managed(BucketScheme::SwappedPairs),
        Self::Managed(BucketScheme::Last),
        Self::Bucketed,
    ];

    pub fn name(self) -> String {
        match self {
            Self::Flat => "flat".into(),
            Self::Bare => "bare FUSE".into(),
            Self::Bindfs => "bindfs".into(),
            Self::Unmanaged => "mount, unmanaged".into(),
            Self::Managed(scheme) => format!("mount, {scheme}"),
            Self::Bucketed => "bucketed".into(),
        }
    }

    /// The directory below the volume that has its articles.
    pub fn tree(self) -> String {
        match self {
            Self::Flat | Self::Bare | Self::Bindfs | Self::Unmanaged => FLAT.into(),
            Self::Managed(scheme) => scheme_dir(scheme),
            Self::Bucketed => scheme_dir(BucketScheme::Tens),
        }
    }

    /// Whether it can be used on this machine.
    pub fn is_possible(self, kind: Kind) -> bool {
        match self {
            Self::Bindfs => kind != Kind::Xfs && run("bindfs", &["--version"]).is_ok(),
            Self::Managed(scheme) => scheme == BucketScheme::Tens || kind == Kind::Unindexed,
            _ => true,
        }
    }

    /// An article's path below a directory.
    pub fn path(self, dir: &Path, number: u64) -> PathBuf {
        let name = number.to_string();
        match self {
            Self::Bucketed => dir.join(BucketScheme::Tens.bucket(name.as_bytes()).as_str()).join(name),
            _ => dir.join(name),
        }
    }
}

/// The directory with the trees of a scheme.
pub fn scheme_dir(scheme: BucketScheme) -> String {
    format!("scheme-{}", scheme.to_string().replace('/', "-"))
}

/// A mount that is gone when dropped.
pub struct Reached {
    point: Option<PathBuf>,
    root: PathBuf,
    process: Option<Child>,
}

impl Reached {
    /// Reaches the tree of a way, which lies at `lower`; a mount is made on `point`.
    pub fn new(way: Way, lower: &Path, point: &Path) -> Result<Self> {
        let mut command = match way {
            Way::Flat | Way::Bucketed => {
                return Ok(Self { point: None, root: lower.to_owned(), process: None });
            }
            Way::Bindfs => {
                let mut command = Command::new("bindfs");
                command.args(["-f", "--no-allow-other", "-o", "attr_timeout=1,entry_timeout=1"]);
                command
            }
            Way::Bare | Way::Unmanaged | Way::Managed(_) => {
                let mut command = Command::new(std::env::current_exe()?);
                let scheme = if let Way::Managed(scheme) = way { scheme } else { BucketScheme::Tens };
                command.args(["usenetfs-mount", "--scheme", &scheme.to_string()]);
                if way == Way::Bare {
                    command.arg("--bare");
                }
                command
            }
        };
        command.arg(lower).arg(point);
        Self::by(command, &way.name(), point)
    }

    /// Reaches what a command mounts on `point`, which is called `name`.
    pub fn by(mut command: Command, name: &str, point: &Path) -> Result<Self> {
        // What a run has left that was killed.
        let _none = run("umount", &["--lazy", point.to_str().unwrap_or_default()]);
        std::fs::create_dir_all(point)?;
        let before = std::fs::metadata(point)?.dev();
        let child = command.stdin(Stdio::null()).spawn()?;
        let reached = Self { point: Some(point.to_owned()), root: point.to_owned(), process: Some(child) };
        let begun = Instant::now();
        while std::fs::metadata(point).map_or(before, |stat| stat.dev()) == before {
            if begun.elapsed() > PATIENCE {
                return Err(format!("{name} does not mount").into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(reached)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        if let Some(point) = self.point.as_deref().and_then(Path::to_str)
            && run("umount", &[point]).is_err()
        {
            let _left = run("umount", &["--lazy", point]);
        }
        if let Some(process) = &mut self.process {
            let begun = Instant::now();
            while begun.elapsed() < PATIENCE && process.try_wait().is_ok_and(|ended| ended.is_none()) {
                std::thread::sleep(Duration::from_millis(2));
            }
            // If it has not ended by itself.
            let _ended = process.kill();
            let _ended = process.wait();
        }
    }
}

/// `lab usenetfs-mount`: the process of a mount.
pub fn serve(lower: &Path, point: &Path, scheme: BucketScheme, is_bare: bool) -> Result<()> {
    if is_bare {
        return Ok(passthrough::serve(lower, point)?);
    }
    let options = usenetfs::MountSettings { scheme, ..usenetfs::MountSettings::default() };
    let mounted = usenetfs::mount(lower, point, &options)?;
    mounted.end()()?;
    Ok(())
}
