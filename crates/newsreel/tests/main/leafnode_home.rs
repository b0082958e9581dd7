//! Directories for leafnode, whose paths are built into its programs (`/etc/news/leafnode`,
//! `/var/spool/news`): they run in a mount namespace of their own, which needs root, with other directories
//! mounted over `/etc` and `/var/spool`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of `/etc` that programs need.
const ETC: [&str; 7] = ["passwd", "group", "hosts", "nsswitch.conf", "services", "protocols", "ld.so.cache"];
/// Directories that fetchnews expects in its spool.
const SPOOL: [&str; 6] =
    ["interesting.groups", "leaf.node", "message.id", "out.going", "failed.postings", "temp.files"];
/// leafnode runs as the user news, who must be able to write there.
const PREPARED: &str = "chown -R news:news /var/spool/news && chmod 2775 /var/spool/news && chmod 711 \"$3\"";

/// The two directories that are mounted, and their parent.
pub struct Home {
    pub dir: PathBuf,
    pub etc: PathBuf,
    pub spool: PathBuf,
}

impl Home {
    /// Returns the home in this directory.
    pub fn of(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), etc: dir.join("etc"), spool: dir.join("spool") }
    }

    /// Creates it; these groups are fetched.
    pub fn make(dir: &Path, config: &str, groups: &[String]) -> io::Result<Self> {
        let home = Self::of(dir);
        let news = home.spool.join("news");
        fs::create_dir_all(home.etc.join("news/leafnode"))?;
        for name in ETC {
            // Not every system has all of them.
            let _absent = fs::copy(Path::new("/etc").join(name), home.etc.join(name));
        }
        fs::write(home.etc.join("news/leafnode/config"), config)?;
        SPOOL.iter().try_for_each(|name| fs::create_dir_all(news.join(name)))?;
        (0..1000).try_for_each(|n| fs::create_dir(news.join(format!("message.id/{n:03}"))))?;
        groups.iter().try_for_each(|group| fs::write(news.join("interesting.groups").join(group), ""))?;
        Ok(home)
    }

    /// Returns a shell command that runs with these directories.
    pub fn command(&self, command: &str) -> Command {
        let script = format!("mount --bind \"$1\" /etc && mount --bind \"$2\" /var/spool && {command}");
        let mut among = Command::new("unshare");
        among.args(["--mount", "sh", "-c", &script, "sh"]).args([&self.etc, &self.spool, &self.dir]);
        among
    }

    /// Returns the command that fetches by this program, as configured.
    pub fn fetch(&self, fetchnews: &str) -> Command {
        self.command(&format!("{PREPARED} && exec {fetchnews} -vvv -w"))
    }
}
