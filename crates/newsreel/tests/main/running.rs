//! A server on a free port, with a spool in a temporary directory, that stops when dropped.

use newsreel::{config, server};
use spool::{Disk, Flag, GroupChange, NewGroup, RealDisk, Spool};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::client::Client;

/// Groups of the test site: name, flag, description.
pub const GROUPS: &[(&str, &str, &str)] = &[
    ("alias.test", "=misc.test", ""),
    ("control", "n", "Control messages"),
    ("control.cancel", "n", "Cancels"),
    ("junk", "n", "Articles without a carried group"),
    ("local.closed", "n", "No local posting"),
    ("local.empty", "y", "Nothing in it"),
    ("local.flood", "j", "Filed in junk"),
    ("local.hidden", "y", "Not for readers of the restricted view"),
    ("local.moderated", "m", "Approved articles only"),
    ("local.refused", "x", "No articles"),
    ("misc.test", "y", "For trying things out"),
];

/// When the groups of the test site were made, Unix seconds.
pub const GROUPS_CREATED: u64 = 1_000_000_000;

/// Who made the groups of the test site.
pub const GROUPS_CREATOR: &str = "admin@site.example";

/// Texts for LIST: file name and content.
pub const LISTS: &[(&str, &str)] = &[
    ("motd", "Welcome.\n\n.This line begins with a dot.\nGr\u{fc}\u{df}e!\n"),
    ("distributions", "# what they mean\nlocal\tLocal to this site\nworld\tEverywhere\n"),
    ("distrib.pats", "10:local.*:local\n\n1:*:world\n"),
    ("subscriptions", "misc.test\nlocal.closed\nno.such.group\n"),
];

/// The configuration of the test site; `{DATA}` is its directory.
const CONFIG: &str = r#"
[site]
path_identity = "site.example"
organization = "Example Site"
listen = ["127.0.0.1:0"]
data = "{DATA}"
durability = "process"
max_age_days = "none"
article_bytes_max = "128 KiB"

[limits]
idle_timeout = "3 min"
command_timeout = "1 s"
connections_max = 12000
connections_per_address_max = 12000

[moderation]
sendmail = "/bin/false %s"

[[buffer]]
name = "text0"
path = "text0.cyc"
size = "32 MiB"

[[class]]
name = "text"
buffers = ["text0"]

[[rule]]
class = "text"

[[peer]]
name = "peer.example"
addresses = ["127.0.0.1"]
accept = "*,!local.hidden"
max_connections = 8000

[[access]]
from = ["127.0.0.1"]
read = "*"
post = "*,!control"
approve = "*"
"#;

/// A running server.
pub struct Server {
    pub address: SocketAddr,
    /// Where connections begin with TLS, if the configuration has such a place.
    pub tls_address: Option<SocketAddr>,
    dir: TempDir,
    spool: Arc<Spool>,
    /// Whether the server may end with an error, as after a failed disk.
    pub may_fail: bool,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Server {
    /// The test site.
    pub fn start() -> Self {
        Self::start_with(|text| text)
    }

    /// The test site with a changed configuration.
    pub fn start_with(change: impl FnOnce(String) -> String) -> Self {
        Self::start_on(Arc::new(RealDisk::new()), change)
    }

    /// The same on another disk.
    pub fn start_on(disk: Arc<dyn Disk>, change: impl FnOnce(String) -> String) -> Self {
        let dir = TempDir::new().unwrap();
        let text = change(CONFIG.replace("{DATA}", dir.path().join("data").to_str().unwrap()));
        let config =
            config::parse(&text, &dir.path().join("newsreel.toml")).map_err(|e| e.to_string()).unwrap();
        std::fs::create_dir_all(&config.site.data).unwrap();
        std::fs::write(dir.path().join("newsreel.toml"), &text).unwrap();
        let (spool, _) = Spool::open(disk, config.spool_config(), &()).unwrap();
        let groups: Vec<_> = GROUPS
            .iter()
            .map(|(name, flag, description)| NewGroup {
                name: (*name).into(),
                flag: Flag::parse(flag).unwrap(),
                description: (*description).into(),
                creator: GROUPS_CREATOR.into(),
                created: GROUPS_CREATED,
                high: 0,
            })
            .collect();
        spool.add_groups(&groups).unwrap();
        let spool = Arc::new(spool);
        std::fs::create_dir_all(&config.site.lists).unwrap();
        for (name, text) in LISTS {
            std::fs::write(config.site.lists.join(name), text).unwrap();
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let tls = config.site.tls_listen.first().map(|address| TcpListener::bind(address).unwrap());
        let tls_address = tls.as_ref().map(|listener| listener.local_addr().unwrap());
        let listeners = server::Listeners { plain: vec![listener], tls: tls.into_iter().collect() };
        let (stop, stopped) = oneshot::channel();
        let served = spool.clone();
        let thread = std::thread::spawn(move || {
            let shutdown = async {
                let _dropped = stopped.await;
            };
            let run = server::run(Arc::new(config), served, listeners, shutdown);
            server::runtime().unwrap().block_on(run)
        });
        Self { address, tls_address, dir, spool, may_fail: false, stop: Some(stop), thread: Some(thread) }
    }

    /// The spool's directory.
    pub fn data(&self) -> std::path::PathBuf {
        self.dir.path().join("data")
    }

    /// Runs `newsreel user` on the site; `input` is its standard input. Gives what it printed, or what it complained of.
    pub fn user(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_newsreel"));
        command.arg("user").args(arguments).arg("--config").arg(self.dir.path().join("newsreel.toml"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A command that asks nothing may have ended already.
        let _ended = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// A connection, past the greeting.
    pub fn client(&self) -> Client {
        Client::greeted(self.address)
    }

    /// Does what an operator does: `cancel ID`, `newgroup NAME FLAG [HIGH]`, `changegroup NAME FLAG`, `rmgroup NAME`,
    /// `user NAME PASSWORD`.
    pub fn operate(&self, words: &[&str]) -> bool {
        match words {
            ["cancel", id] => self.spool.cancel(id.as_bytes()).unwrap(),
            ["newgroup", name, flag, high @ ..] => {
                let flag = Flag::parse(flag).unwrap();
                let high = high.first().map_or(0, |high| high.parse().unwrap());
                let group = NewGroup { name: (*name).into(), flag, high, ..NewGroup::default() };
                self.spool.add_groups(&[group]).unwrap() == 1
            }
            ["changegroup", name, flag] => {
                let change = GroupChange { flag: Flag::parse(flag), ..GroupChange::default() };
                self.spool.change_group(name, &change).unwrap()
            }
            ["user", name, password @ ..] => self.user(&["add", name], &password.join(" ")).is_ok(),
            ["rmgroup", name] => self.spool.remove_group(name).unwrap(),
            _ => false,
        }
    }

    /// Tells the server to stop, without waiting for it.
    pub fn tell_to_stop(&mut self) {
        self.stop.take();
    }

    /// Waits for the server's end.
    pub fn join(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join().unwrap();
            assert!(ended.is_ok() || self.may_fail, "{ended:?}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.join();
        }
    }
}
