//! The site for the tests and for the fuzz target for whole sessions: its groups, its texts for LIST, its
//! configuration.

use disk::Disk;
use newsreel::server;
use site::listening::Listeners;
use site_config as config;
use site_config::Config;
use spool::{ChangeMaker as _, GroupFlag, NewGroup, Spool};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use upstreams::NewsSource;

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

/// Creation time of the groups of the test site, in Unix seconds.
pub const GROUPS_CREATED: u64 = 1_000_000_000;

/// Creator of the groups of the test site.
pub const GROUPS_CREATOR: &str = "admin@site.example";

/// Texts for LIST: file name and content.
pub const LISTS: &[(&str, &str)] = &[
    ("motd", "Welcome.\n\n.This line begins with a dot.\nGr\u{fc}\u{df}e!\n"),
    ("distributions", "# what they mean\nlocal\tLocal to this site\nworld\tEverywhere\n"),
    ("distrib.pats", "10:local.*:local\n\n1:*:world\n"),
    ("subscriptions", "misc.test\nlocal.closed\nno.such.group\n"),
];

/// Configuration of the test site; `{DATA}` is its directory.
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
command_timeout = "1 min"
connections_max = 12000
connections_per_address_max = 12000

[moderation]
sendmail = "/bin/false %s"
default_address = "%s@moderators.example"

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
xbatch = true

# Whoever logs in by this name has a newsreader that reads no article numbers above 2,147,483,647.
[[access]]
from = ["127.0.0.1"]
users = "old"
read = "*"
post = "*,!control"
approve = "*"
numbers = "31-bit"

[[access]]
from = ["127.0.0.1"]
read = "*"
post = "*,!control"
approve = "*"
"#;

/// Creates the site in `dir`: its configuration, changed by `change`, its groups and its texts.
pub fn make(disk: Arc<dyn Disk>, dir: &Path, change: impl FnOnce(String) -> String) -> (Config, Arc<Spool>) {
    make_with(GROUPS, disk, dir, change)
}

/// Like [`make`], with other groups: name, flag, description.
pub fn make_with(
    groups: &[(&str, &str, &str)],
    disk: Arc<dyn Disk>,
    dir: &Path,
    change: impl FnOnce(String) -> String,
) -> (Config, Arc<Spool>) {
    let file = dir.join("newsreel.toml");
    let text = change(CONFIG.replace("{DATA}", dir.join("data").to_str().unwrap()));
    let config = config::parse(&text, &file).map_err(|e| e.to_string()).unwrap();
    std::fs::create_dir_all(&config.site.data).unwrap();
    std::fs::write(file, &text).unwrap();
    let (spool, _) = Spool::open(disk, config.spool_config(), &()).unwrap();
    let groups: Vec<_> = groups
        .iter()
        .map(|(name, flag, description)| NewGroup {
            name: (*name).into(),
            flag: GroupFlag::parse(flag).unwrap(),
            description: (*description).into(),
            creator: GROUPS_CREATOR.into(),
            created: GROUPS_CREATED,
            high: 0,
        })
        .collect();
    spool.add_groups(&groups).unwrap();
    std::fs::create_dir_all(&config.site.lists).unwrap();
    for (name, text) in LISTS {
        std::fs::write(config.site.lists.join(name), text).unwrap();
    }
    (config, Arc::new(spool))
}

/// Serves the site in a thread of its own, on one plain listener and optionally one for TLS. Readers read
/// from `source`.
pub fn serve(
    config: Config,
    spool: Arc<Spool>,
    source: impl NewsSource,
    plain: TcpListener,
    tls: Option<TcpListener>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<std::io::Result<()>> {
    let listeners = Listeners {
        plain: vec![plain.into()],
        tls: tls.into_iter().map(Into::into).collect(),
        ..Listeners::default()
    };
    std::thread::spawn(move || {
        server::runtime().unwrap().block_on(server::run_with(
            Arc::new(config),
            spool,
            source,
            listeners,
            stop,
        ))
    })
}
