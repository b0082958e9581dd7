//! The caches that are compared, each empty when it is started, in front of the upstream at the other end of
//! a line.

use super::Options;
use super::jobs::GROUPS;
use super::leafnode_home::Home;
use crate::articles::group_name;
use crate::client::Client;
use crate::site::{Plan, Site};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_MAX: Duration = Duration::from_secs(20);
/// For this long both show lists and marks again without asking.
const AGE_SECS: u32 = 3_600;
/// Room for everything.
const SIZE_KB: u32 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Newsreel,
    NewsCache,
    Leafnode,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Newsreel, Self::NewsCache, Self::Leafnode];

    pub fn name(self) -> &'static str {
        match self {
            Self::Newsreel => "newsreel",
            Self::NewsCache => "NewsCache 1.2rc6",
            Self::Leafnode => "leafnode",
        }
    }

    /// Whether it asks upstream while a reader waits; leafnode has only what was fetched before.
    pub fn asks(self) -> bool {
        self != Self::Leafnode
    }
}

/// A cache; ends with the value.
#[derive(Debug)]
pub enum Server {
    Newsreel(Box<Site>),
    NewsCache { script: PathBuf, dir: PathBuf, port: u16 },
    Leafnode { listener: Child, dir: PathBuf, port: u16 },
}

impl Server {
    /// An empty one; `None`: it is not to be compared.
    pub fn start(options: &Options, kind: Kind, upstream: SocketAddr) -> io::Result<Option<Self>> {
        let port = options.place.port + 1;
        let cache = match kind {
            Kind::Newsreel => newsreel(options, upstream, port)?,
            Kind::NewsCache => match &options.newscache {
                Some(scripts) => newscache(options, scripts.join("newscache.sh"), upstream, port)?,
                None => return Ok(None),
            },
            Kind::Leafnode => match &options.leafnode {
                Some(programs) => leafnode(options, programs, upstream, port)?,
                None => return Ok(None),
            },
        };
        let begun = Instant::now();
        while let Err(error) = Client::connect(&cache.address().to_string()) {
            if begun.elapsed() > START_MAX {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Some(cache))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        let port = match self {
            Self::Newsreel(site) => site.address().rsplit(':').next().and_then(|port| port.parse().ok()),
            Self::NewsCache { port, .. } | Self::Leafnode { port, .. } => Some(*port),
        };
        ([127, 0, 0, 1], port.unwrap_or_default()).into()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        match self {
            Self::Newsreel(site) => {
                let _stopped = site.stop();
                let _removed = fs::remove_dir_all(site.dir());
            }
            Self::NewsCache { script, dir, .. } => {
                let _stopped = Command::new(script).arg("stop").arg(&*dir).output();
                let _removed = fs::remove_dir_all(dir);
            }
            Self::Leafnode { listener, dir, .. } => {
                let _stopped = listener.kill().and_then(|()| listener.wait());
                let _removed = fs::remove_dir_all(dir);
            }
        }
    }
}

fn newsreel(options: &Options, upstream: SocketAddr, port: u16) -> io::Result<Server> {
    let mut site = newsreel_of(options, upstream, port, SIZE_KB.into())?;
    site.spawn()?;
    Ok(Server::Newsreel(Box::new(site)))
}

/// A site that caches an upstream, and is not started.
pub fn newsreel_of(options: &Options, upstream: SocketAddr, port: u16, size_kb: u64) -> io::Result<Site> {
    let plan = Plan { groups: 0, buffer_bytes: 1 << 20, durability: None };
    let site = Site::make(&options.place, "cache", port, plan)?;
    let text = fs::read_to_string(site.config())?;
    let own = format!(
        "\n[[upstream]]\nname = \"upstream\"\nhost = \"{upstream}\"\nactive_age = \"{AGE_SECS} s\"\n\
         group_age = \"{AGE_SECS} s\"\n[cache]\nsize = \"{size_kb} KiB\"\n"
    );
    fs::write(site.config(), text + &own)?;
    Ok(site)
}

fn newscache(options: &Options, script: PathBuf, upstream: SocketAddr, port: u16) -> io::Result<Server> {
    let run = |arguments: &[&str]| {
        let output = Command::new(&script).args(arguments).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(io::Error::other(format!("newscache.sh: {said}"))) }
    };
    let prefix = options.prefix.clone().unwrap_or_else(|| options.place.dir.join("newscache.prefix"));
    let dir = options.place.dir.join("newscache");
    let (prefix, at) = (prefix.to_string_lossy().into_owned(), dir.to_string_lossy().into_owned());
    if !PathBuf::from(&prefix).join("bin/newscache").is_file() {
        run(&["install", &prefix])?;
    }
    let [up, listen, size, age] =
        [upstream.port().to_string(), port.to_string(), SIZE_KB.to_string(), AGE_SECS.to_string()];
    let ages = ["--group-timeout", &age, "--active-timeout", &age];
    run(&[&["setup", &at, &prefix, "127.0.0.1", &up, &listen, &size], &ages[..]].concat())?;
    run(&["start", &at])?;
    Ok(Server::NewsCache { script, dir, port })
}

/// One that has fetched all articles; it is started for each connection, as by inetd.
fn leafnode(options: &Options, programs: &Path, upstream: SocketAddr, port: u16) -> io::Result<Server> {
    let dir = options.place.dir.join("leafnode");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    let config = format!(
        "server = 127.0.0.1\nport = {}\nexpire = 20000\nmaxage = 20000\nhostname = news.leafsite.net\n",
        upstream.port()
    );
    let groups: Vec<String> = (0..GROUPS).map(group_name).collect();
    let home = Home::make(&dir, &config, &groups)?;
    let program = |name: &str| programs.join(name).to_string_lossy().into_owned();
    let output = home.fetch(&program("fetchnews")).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(format!("fetchnews: {said}")));
    }
    let listen = format!(
        "exec systemd-socket-activate --inetd --accept --listen=127.0.0.1:{port} {}",
        program("leafnode")
    );
    let listener = home.command(&listen).stderr(Stdio::null()).spawn()?;
    Ok(Server::Leafnode { listener, dir, port })
}
