//! The servers under measurement, each with the programs that file, batch and expire.
//!
//! Invariant: what was started is stopped when its [`Site`] is dropped.

use super::batch::GROUPS;
use super::cost::Task;
use crate::articles::group_name;
use crate::client::Client;
use crate::others::{self, Inn, Plan, Scripts};
use crate::spool_bench::with_method;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The site that batches are made for.
const PEER: &str = "out.example";
/// Bytes of a batch that is made.
const BATCH_BYTES: &str = "65536";
/// How long a start may take.
const START_MAX: Duration = Duration::from_secs(60);

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    CNews,
    Inn(Inn),
    /// newsreel with this storage method.
    Newsreel(&'static str),
}

/// All of them.
pub const KINDS: [Kind; 6] = [
    Kind::CNews,
    Kind::Inn(Inn::Old),
    Kind::Inn(Inn::New("tradspool")),
    Kind::Inn(Inn::New("cnfs")),
    Kind::Newsreel("tradspool"),
    Kind::Newsreel("cnfs"),
];

impl Kind {
    pub fn name(self) -> String {
        match self {
            Self::CNews => "C News".into(),
            Self::Inn(inn) => inn.name(),
            Self::Newsreel(method) => format!("newsreel {method}"),
        }
    }

    pub fn is_ours(self) -> bool {
        matches!(self, Self::Newsreel(_))
    }

    /// Whether it looks at the age of what its peers send, as it is set up here.
    pub fn knows_old_age(self) -> bool {
        self != Self::Inn(Inn::Old)
    }

    /// Whether articles leave it by age, not by being overwritten.
    pub fn expires(self) -> bool {
        !matches!(self, Self::Inn(Inn::New("cnfs")) | Self::Newsreel("cnfs"))
    }
}

/// What sites are made from.
#[derive(Debug)]
pub struct Workshop {
    pub binary: PathBuf,
    pub scripts: Scripts,
    pub dir: PathBuf,
    pub port: u16,
    /// Size of each cyclic buffer.
    pub buffer_mib: u64,
}

/// A site, and its server if it has one.
#[derive(Debug)]
pub struct Site {
    kind: Kind,
    dir: PathBuf,
    port: u16,
    /// newsreel itself, or the script that runs the others.
    program: PathBuf,
    /// The process that files, if it is another than the one that is given batches.
    pub server: Option<u32>,
    child: Option<Child>,
}

impl Workshop {
    /// What files for it; `None` with a word if it cannot be had here.
    fn program(&self, kind: Kind) -> io::Result<Option<PathBuf>> {
        match kind {
            Kind::Newsreel(_) => Ok(Some(self.binary.clone())),
            Kind::CNews => self.scripts.find("cnews"),
            Kind::Inn(inn) => self.scripts.inn(inn),
        }
    }

    /// A new, empty site, started; `None`: it cannot be had here.
    pub fn make(&self, kind: Kind) -> io::Result<Option<Site>> {
        let Some(program) = self.program(kind)? else { return Ok(None) };
        let dir = self.dir.join("site");
        let mut site = Site { kind, dir, port: self.port, program, server: None, child: None };
        site.remove()?;
        let active = self.dir.join("groups");
        fs::write(&active, (0..GROUPS).map(|n| group_name(n) + "\n").collect::<String>())?;
        match kind {
            Kind::CNews => site.set_up_cnews(&self.scripts.prefix("cnews"), &active)?,
            Kind::Inn(inn) => {
                let (dir, port, active) = (site.dir.as_path(), site.port, active.as_path());
                let plan = Plan { dir, port, active, buffer_mib: self.buffer_mib, feed: Some(PEER) };
                self.scripts.set_up(inn, &site.program, &plan)?;
                others::call(&site.program, "start", &site.dir, &[])?;
                site.server = Some(others::inn_process(&site.program, &site.dir)?);
            }
            Kind::Newsreel(method) => site.set_up_newsreel(method, &active, self.buffer_mib)?,
        }
        Ok(Some(site))
    }
}

impl Site {
    fn dir_text(&self) -> String {
        self.dir.to_string_lossy().into_owned()
    }

    /// The script with this site and more words.
    fn script(&self, command: &str, words: &[&str]) -> Task {
        Task::new(&self.program, &[&[command, &self.dir_text()], words].concat())
    }

    fn set_up_cnews(&self, prefix: &Path, active: &Path) -> io::Result<()> {
        let (prefix, active) = (prefix.to_string_lossy(), active.to_string_lossy());
        self.script("setup", &[&prefix, "--active", &active, "--feed", PEER]).run()
    }

    fn set_up_newsreel(&mut self, method: &str, active: &Path, buffer_mib: u64) -> io::Result<()> {
        let (dir, listen) = (self.dir_text(), self.address());
        let (active, buffer) = (active.to_string_lossy(), format!("{buffer_mib} MiB"));
        let mut init = vec!["init", "--dir", &dir, "--groups", &active, "--listen", &listen];
        init.extend(["--buffer", &buffer, "--reader", "127.0.0.1", "--peer", "127.0.0.1"]);
        init.extend(["--path-identity", "server.lab.example"]);
        Task::new(&self.program, &init).run()?;
        let config = self.dir.join("newsreel.toml");
        let send = format!("batch = \"out/{PEER}\"\nbatch_bytes = {BATCH_BYTES}\n");
        let peer = format!("\n[[peer]]\nname = \"{PEER}\"\n[peer.send]\n{send}");
        fs::write(&config, with_method(&fs::read_to_string(&config)?, method, buffer_mib) + &peer)?;
        let log = fs::File::create(self.dir.join("log"))?;
        let mut serve = Command::new(&self.program);
        serve.args(["serve", "--dir", &dir]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = serve.spawn()?;
        self.server = Some(child.id());
        self.child = Some(child);
        let began = Instant::now();
        while let Err(error) = Client::connect(&listen) {
            if began.elapsed() > START_MAX {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.newsreel(&["ctl", "feed", PEER, "stop"]).run()
    }

    /// A command of newsreel for this site.
    fn newsreel(&self, words: &[&str]) -> Task {
        Task::new(&self.program, &[words, &["--dir", &self.dir_text()]].concat())
    }

    /// The address that peers connect to.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Does nothing, by the same way as the others: what the script costs.
    pub fn nothing(&self) -> Option<Task> {
        match self.kind {
            Kind::CNews => Some(self.script("run", &["true"])),
            Kind::Inn(_) => Some(self.script("news", &["true"])),
            Kind::Newsreel(_) => None,
        }
    }

    /// Files a batch.
    pub fn file(&self, batch: &Path) -> Task {
        match self.kind {
            Kind::CNews => {
                let line = "cd \"$NEWSARTS/in.coming\" && exec relaynews -o 10 >>\"$NEWSCTL/log\" \
                    2>>\"$NEWSCTL/errlog\"";
                self.script("run", &["sh", "-c", line])
            }
            Kind::Inn(_) => self.script("news", &["rnews"]),
            Kind::Newsreel(_) => self.newsreel(&["rnews", "-"]),
        }
        .reading(batch)
    }

    /// A file that INN notes articles in.
    fn queue(&self, name: &str) -> PathBuf {
        let outgoing = if self.kind == Kind::Inn(Inn::Old) { "spool/out.going" } else { "spool/outgoing" };
        self.dir.join(outgoing).join(name)
    }

    /// Makes batches of all that was filed.
    pub fn batch(&self) -> io::Result<Task> {
        Ok(match self.kind {
            Kind::CNews => self.script("batcher", &[PEER, BATCH_BYTES]),
            Kind::Inn(_) => {
                let (queue, batched) = (self.queue(PEER), self.queue("batched"));
                fs::rename(&queue, &batched)?;
                self.script("news", &["ctlinnd", "-s", "flush", PEER]).run()?;
                // It removes the file, if all is well.
                self.script("news", &["batcher", "-b", BATCH_BYTES, PEER, &batched.to_string_lossy()])
            }
            Kind::Newsreel(_) => {
                self.newsreel(&["ctl", "feed", PEER, "start"]).run()?;
                self.newsreel(&["batch", PEER])
            }
        })
    }

    /// Removes all articles, as too old.
    pub fn expire(&mut self) -> io::Result<Task> {
        Ok(match self.kind {
            Kind::CNews => {
                fs::write(self.dir.join("ctl/explist"), "/expired/\tx\t14\t-\nall\tx\t0\t-\n")?;
                self.script("expire", &[])
            }
            Kind::Inn(Inn::Old) => {
                fs::write(self.dir.join("etc/expire.ctl"), "/remember/:14\n*:A:0:0:0\n")?;
                self.script("news", &["sh", "-c", "expire -v1 && expireover -s"])
            }
            Kind::Inn(Inn::New(method)) => {
                fs::write(self.dir.join("etc/expire.ctl"), "/remember/:11\n*:A:0:0:0\n")?;
                // Without -N it leaves alone what is in cyclic buffers.
                let over = if method == "cnfs" { "expireover -N" } else { "expireover" };
                self.script("news", &["sh", "-c", &format!("{over} && expire -v1")])
            }
            Kind::Newsreel(_) => {
                self.end()?;
                let config = self.dir.join("newsreel.toml");
                fs::write(&config, fs::read_to_string(&config)? + "\n[[expire]]\nkeep = \"1 ms\"\n")?;
                self.newsreel(&["expire"])
            }
        })
    }

    /// Removes articles older than `keep`, beside the server.
    pub fn expire_beside(&self, keep: Duration) -> io::Result<Task> {
        let days = keep.as_secs_f64() / 86_400.0;
        Ok(match self.kind {
            Kind::Inn(Inn::New(_)) => {
                let text = format!("/remember/:11\n*:A:{days:.6}:{days:.6}:{days:.6}\n");
                fs::write(self.dir.join("etc/expire.ctl"), text)?;
                // It removes the articles. `expire` after it removes them from history, and has the server
                // refuse peers meanwhile.
                self.script("news", &["expireover"])
            }
            Kind::Newsreel(_) => {
                let config = self.dir.join("newsreel.toml");
                let rule = format!("\n[[expire]]\nkeep = \"{} s\"\n", keep.as_secs());
                fs::write(&config, fs::read_to_string(&config)? + &rule)?;
                self.newsreel(&["ctl", "reload"]).run()?;
                self.newsreel(&["expire"])
            }
            Kind::CNews | Kind::Inn(Inn::Old) => {
                return Err(io::Error::other("is not measured beside a peer"));
            }
        })
    }

    /// How many numbers its groups have given to articles.
    pub fn filed(&self) -> io::Result<u64> {
        if self.kind == Kind::CNews {
            let active = fs::read_to_string(self.dir.join("ctl/active"))?;
            let high = |line: &str| line.split(' ').nth(1).and_then(|high| high.parse::<u64>().ok());
            return Ok(active.lines().filter(|line| line.starts_with("lab.")).filter_map(high).sum());
        }
        let reader = if matches!(self.kind, Kind::Inn(Inn::New(_))) { self.port + 1 } else { self.port };
        let mut client = Client::connect(&format!("127.0.0.1:{reader}"))?;
        if self.kind == Kind::Inn(Inn::Old) {
            client.expect("MODE READER", "20")?;
        }
        (0..GROUPS).try_fold(0, |sum, group| Ok(sum + client.group(&group_name(group))?.2))
    }

    /// Stops the server, if there is one.
    fn end(&mut self) -> io::Result<()> {
        let is_inn = matches!(self.kind, Kind::Inn(_));
        if self.server.take().is_none() {
            return Ok(());
        }
        if is_inn {
            return self.script("stop", &[]).run();
        }
        let Some(mut child) = self.child.take() else { return Ok(()) };
        if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        }
        child.wait().map(|_| ())
    }

    fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Err(error) = self.end().and_then(|()| self.remove()) {
            eprintln!("lab: {}: {error}", self.kind.name());
        }
    }
}
