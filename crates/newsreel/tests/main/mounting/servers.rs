//! Servers whose spool is on a mount: current INN, and INN 1.7.2, which the Usenetfs paper used.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use tempfile::TempDir;

use crate::client::Client;
use crate::clients::skipped;
use crate::transcripts::inn::{Inn, free_ports};

/// Groups of [`OldInn`]: those of the test site in which articles are filed here.
const GROUPS: &str = "misc.test\nlocal.closed\nlocal.empty\n";

/// A news server with a file for each article.
pub(super) trait Server: Sync + Sized {
    /// Returns a server that is set up; returns `None` and prints a message if that is not possible.
    fn found() -> Option<Self>;

    /// Starts it without articles; calls `mount` with the root of its spool when that can be mounted on.
    fn start_on(&self, mount: impl FnOnce(&Path));

    /// Returns the directory below which groups are.
    fn articles(&self) -> PathBuf;

    /// Returns the address for peers.
    fn peers(&self) -> SocketAddr;

    /// Returns a reader's connection after the greeting.
    fn reader(&self) -> Client;

    /// Runs one of its programs, which must succeed.
    fn tool(&self, words: &[&str]);

    /// Expires by these lines of expire.ctl, and updates the marks of groups.
    fn expire(&self, lines: &str);

    /// Stops it.
    fn stop(&self);
}

impl Server for Inn {
    fn found() -> Option<Self> {
        Self::found()
    }

    fn start_on(&self, mount: impl FnOnce(&Path)) {
        self.start_empty();
        mount(&self.articles());
    }

    fn articles(&self) -> PathBuf {
        self.site().join("spool/articles")
    }

    fn peers(&self) -> SocketAddr {
        self.peer_address()
    }

    fn reader(&self) -> Client {
        Client::greeted(self.reader_address())
    }

    fn tool(&self, words: &[&str]) {
        self.tool(words, b"");
    }

    fn expire(&self, lines: &str) {
        self.change("expire.ctl", |_| format!("/remember/:11\n{lines}"));
        self.tool(&["sh", "-c", "expireover && expire -v1 && ctlinnd -s renumber ''"], b"");
    }

    fn stop(&self) {
        self.stop();
    }
}

/// A private INN 1.7.2, set up by `inn17.sh` in the directory that `INN17` names, which fetches it once.
pub(super) struct OldInn {
    script: PathBuf,
    dir: TempDir,
    port: u16,
}

impl OldInn {
    fn site(&self) -> PathBuf {
        self.dir.path().join("inn17")
    }

    fn run(&self, command: &str, words: &[&str]) {
        let mut run = Command::new(&self.script);
        let output = run.arg(command).arg(self.site()).args(words).output().unwrap();
        assert!(output.status.success(), "inn17.sh {command} {words:?}: {output:?}");
    }
}

/// Returns the directory of its programs; `None` if they are not available.
fn programs(script: &Path) -> Option<PathBuf> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = INSTALLING.lock().unwrap();
    let programs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("inn17");
    let installed = || programs.join("x/usr/sbin/innd").is_file();
    if !installed() {
        let output = Command::new(script).arg("install").arg(&programs).output().unwrap();
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            skipped(&format!("(INN 1.7.2 cannot be fetched: {})", why.trim_end()), false);
        }
    }
    installed().then_some(programs)
}

impl Server for OldInn {
    fn found() -> Option<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let dir = std::env::var_os("INN17").unwrap_or_else(|| "../shared/peers/inn17".into());
        let script = root.join(dir).join("inn17.sh");
        if !script.is_file() || !rustix::process::geteuid().is_root() {
            skipped("(INN17 must name the directory of inn17.sh, and only root can run it)", false);
            return None;
        }
        let programs = programs(&script)?;
        let inn = Self { script, dir: TempDir::new().unwrap(), port: free_ports() };
        fs::set_permissions(inn.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let groups = inn.dir.path().join("groups");
        fs::write(&groups, GROUPS).unwrap();
        let port = inn.port.to_string();
        let (programs, groups) = (programs.to_str().unwrap(), groups.to_str().unwrap());
        inn.run("setup", &[programs, "--active", groups, "--port", &port]);
        Some(inn)
    }

    fn start_on(&self, mount: impl FnOnce(&Path)) {
        // The server sees only file systems that are mounted when it starts.
        mount(&self.articles());
        self.run("start", &[]);
    }

    fn articles(&self) -> PathBuf {
        self.site().join("spool")
    }

    fn peers(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    fn reader(&self) -> Client {
        let mut client = Client::greeted(self.peers());
        assert!(client.ask("MODE READER").starts_with("200 "));
        client
    }

    fn tool(&self, words: &[&str]) {
        self.run("news", words);
    }

    fn expire(&self, lines: &str) {
        fs::write(self.site().join("etc/expire.ctl"), format!("/remember/:14\n{lines}")).unwrap();
        self.tool(&["sh", "-c", "expire -v1 && expireover -s && ctlinnd -s renumber ''"]);
    }

    fn stop(&self) {
        self.run("stop", &[]);
    }
}

impl Drop for OldInn {
    fn drop(&mut self) {
        let _stopped_or_not = Command::new(&self.script).arg("stop").arg(self.site()).output();
    }
}
