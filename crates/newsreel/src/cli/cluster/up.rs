//! `cluster up`: a whole cluster on this machine.
//!
//! Everything is below one directory: `e1` to `e3` are nodes of the log, `fe1` to `fe3` members, `keys` has
//! the keys of both, `ports` the ports that were chosen. Every step is passed over if it is done, so a call
//! that was interrupted is repeated. Nodes and servers are child processes in groups of their own, so that
//! Ctrl-C reaches only this one, which ends the servers before the nodes.

use super::super::args::{ClusterUpOptions, InitOptions};
use super::super::output::make_dir;
use super::super::screen::{CliError, complain, problem, say};
use super::super::{bar::Bar, init, reach, serve};
use crate::member::{JoinSource, NodePlan, OPERATOR, joining};
use disk::{FileAccess, RealDisk, durable_replace};
use rustix::process::{Pid, Signal, kill_process};
use site_config::{Config, list, quoted};
use spool::SpoolError;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Name of the site at the log, and its identity in Path.
const SITE: &str = "try";
const PATH_IDENTITY: &str = "cluster.invalid";
/// Sizes, in bytes: of each buffer of a member, of its ring, and of the log.
const BUFFER_BYTES: u64 = 96 << 20;
const RING_BYTES: u64 = 128 << 20;
const LOG_BYTES: u64 = 256 << 20;
/// Distances of further ports from that of the first server: for browsers, and of the nodes for members, for
/// other nodes, and for monitoring.
const WEB_FROM: u16 = 7_000;
const ENGINE_FROM: [u16; 3] = [13_103, 13_203, 13_303];
/// Wait for a program that starts or ends.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// Interval at which is looked whether a program has started, or ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Lines of a program's log that are shown if it does not start.
const LINES_SHOWN: usize = 12;

/// Ports of a node or a member.
type Ports = Vec<u16>;

/// A cluster on this machine.
struct LocalCluster {
    dir: PathBuf,
    engine: PathBuf,
    /// Ports by name.
    ports: BTreeMap<String, Ports>,
    nodes: Vec<String>,
    members: Vec<String>,
    running: Vec<RunningProgram>,
    _lock: File,
}

/// A child process.
struct RunningProgram {
    name: String,
    child: Child,
    log: PathBuf,
}

pub(super) fn up(options: &ClusterUpOptions) -> Result<(), CliError> {
    let engine = find_engine(options.engine.as_deref())?;
    make_dir(&options.dir)?;
    let dir = fs::canonicalize(&options.dir).map_err(cannot("use", &options.dir))?;
    let lock = lock(&dir)?;
    let names = |prefix: &str, count: u16| (1..=count).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>();
    let (nodes, members) = (names("e", options.nodes), names("fe", options.members));
    let ports = ports(&dir, &nodes, &members, options.port)?;
    let mut cluster = LocalCluster { dir, engine, ports, nodes, members, running: Vec::new(), _lock: lock };
    let runtime = crate::server::runtime().map_err(problem)?;
    let stop = {
        let _inside = runtime.enter();
        serve::stop_signal().map_err(problem)?
    };
    let stopping = runtime.spawn(stop);
    let started = cluster.start(&|| stopping.is_finished());
    if started.is_ok() {
        say(cluster.invitation())?;
        cluster.watch(&|| stopping.is_finished());
    }
    let ended = cluster.end();
    match started {
        // Ended by the operator before it had started.
        Err(_) if stopping.is_finished() => ended,
        started => started.and(ended),
    }
}

/// Returns the engine's program; refuses one that is missing or too old, with advice.
fn find_engine(named: Option<&Path>) -> Result<PathBuf, CliError> {
    let in_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|dir| dir.join("nats-server")).find(|file| file.is_file())
    };
    let how = "On Debian and Ubuntu it is the package nats-server, which may be too old; with Go: go install \
               github.com/nats-io/nats-server/v2@latest puts it into ~/go/bin. Name one with --engine FILE";
    let file = match named {
        Some(file) => file.to_owned(),
        None => in_path().ok_or_else(|| {
            CliError::Problem(format!(
                "there is no nats-server in PATH. A cluster's log needs nats-server 2.15.2 or later. {how}"
            ))
        })?,
    };
    let output = Command::new(&file).arg("--version").output().map_err(cannot("run", &file))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.trim().rsplit(['v', ' ']).next().unwrap_or_default();
    joining::check_engine_version(version)
        .map_err(|error| CliError::Problem(format!("{}: {error}. {how}", file.display())))?;
    Ok(file)
}

fn cannot<'a>(doing: &'a str, path: &'a Path) -> impl Fn(std::io::Error) -> CliError + 'a {
    move |error| CliError::Problem(format!("cannot {doing} {}: {error}", path.display()))
}

/// Locks the directory against another call.
fn lock(dir: &Path) -> Result<File, CliError> {
    let file = File::open(dir).map_err(cannot("open", dir))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| CliError::Problem(format!("the cluster in {} runs already", dir.display())))?;
    Ok(file)
}

/// Returns the ports of all programs: those that were chosen before, and new ones.
fn ports(
    dir: &Path,
    nodes: &[String],
    members: &[String],
    first: u16,
) -> Result<BTreeMap<String, Ports>, CliError> {
    let file = dir.join("ports");
    let known = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(cannot("read", &file)(error)),
    };
    let mut all: BTreeMap<String, Ports> = BTreeMap::new();
    for line in known.lines() {
        let mut words = line.split(' ').map(str::to_owned);
        let name = words.next().unwrap_or_default();
        all.insert(name, words.filter_map(|word| word.parse().ok()).collect());
    }
    let wanted = nodes
        .iter()
        .map(|name| (name, &ENGINE_FROM[..]))
        .chain(members.iter().map(|name| (name, &[0, WEB_FROM][..])));
    for (name, distances) in wanted {
        if all.get(name).is_some_and(|ports| ports.len() == distances.len()) {
            continue;
        }
        let mut ports = Ports::new();
        for distance in distances {
            let is_taken = |port: &u16| all.values().flatten().any(|taken| taken == port) || !is_free(*port);
            let mut free = (first.saturating_add(*distance)..u16::MAX).filter(|port| !is_taken(port));
            ports.extend(free.next());
        }
        all.insert(name.clone(), ports);
    }
    let mut text = String::new();
    for (name, ports) in &all {
        text.push_str(name);
        ports.iter().for_each(|port| text.push_str(&format!(" {port}")));
        text.push('\n');
    }
    durable_replace(&RealDisk::new(), &file, &[text.as_bytes()], FileAccess::All)
        .map_err(cannot("write", &file))?;
    Ok(all)
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

impl LocalCluster {
    /// Returns a port of a program, by its place in the list of its ports.
    fn port(&self, name: &str, at: usize) -> u16 {
        self.ports.get(name).and_then(|ports| ports.get(at)).map_or(0, |port| *port)
    }

    fn address(&self, name: &str, at: usize) -> String {
        format!("127.0.0.1:{}", self.port(name, at))
    }

    fn node_addresses(&self, at: usize) -> Vec<String> {
        self.nodes.iter().map(|name| self.address(name, at)).collect()
    }

    fn keys(&self) -> PathBuf {
        self.dir.join("keys")
    }

    /// Starts everything, and makes what is missing.
    fn start(&mut self, is_over: &dyn Fn() -> bool) -> Result<(), CliError> {
        for name in self.nodes.clone() {
            self.start_node(&name)?;
        }
        for name in self.nodes.clone() {
            self.wait_for(&name, 2, "", is_over)?;
        }
        let members = self.members.clone();
        for (at, name) in members.iter().enumerate() {
            let config = self.make_member(name, members.first().filter(|_| at > 0))?;
            let dir = config.file.parent().unwrap_or(Path::new(".")).to_owned();
            let mut serve = Command::new(std::env::current_exe().map_err(problem)?);
            serve.args(["serve", "--dir"]).arg(dir);
            self.run(name, serve)?;
            self.wait_for(name, 0, "20", is_over)?;
        }
        Ok(())
    }

    fn start_node(&mut self, name: &str) -> Result<(), CliError> {
        let dir = self.dir.join(name);
        make_dir(&dir)?;
        let plan = NodePlan {
            site: SITE.into(),
            name: name.into(),
            listen: self.address(name, 0),
            route: self.address(name, 1),
            monitor: self.address(name, 2),
            routes: self.node_addresses(1),
            store: dir.join("data"),
            log_bytes: LOG_BYTES,
            keys: self.keys(),
            members: self.members.clone(),
            tls: None,
            allows_changes: false,
        };
        let file = dir.join("nats.conf");
        let text = joining::node_conf(&plan).map_err(problem)?;
        durable_replace(&RealDisk::new(), &file, &[text.as_bytes()], FileAccess::Owner)
            .map_err(cannot("write", &file))?;
        let mut program = Command::new(&self.engine);
        program.arg("-c").arg(&file);
        self.run(name, program)
    }

    /// Makes a member, if it is not one yet: the first of a new site, others of the news of the first.
    fn make_member(&self, name: &str, first: Option<&String>) -> Result<Config, CliError> {
        let options = InitOptions {
            dir: self.dir.join(name),
            listen: vec![self.address(name, 0)],
            web_listen: vec![self.address(name, 1)],
            buffer: Some(BUFFER_BYTES),
            path_identity: Some(PATH_IDENTITY.into()),
            ..InitOptions::default()
        };
        let key = self.keys().join(format!("{name}.nk"));
        let section = format!(
            "\n[cluster]\nservers = {}\nmonitor = {}\nsite = {}\nmember = {}\ncredentials = {}\n\
             key = {}\nlog_size = \"{} MiB\"\n",
            list(&self.node_addresses(0)),
            list(&self.node_addresses(2)),
            quoted(SITE),
            quoted(name),
            quoted(&key.display().to_string()),
            quoted(&self.keys().join("cluster.key").display().to_string()),
            LOG_BYTES >> 20,
        );
        let file = init::config_file(&options.dir);
        match first {
            None => init::make_first_member(&options, RING_BYTES, &section)?,
            Some(_) => init::configure_member(&options, RING_BYTES, &section)?,
        }
        let config = site_config::load(&file)?;
        match first {
            None => self.create(&config)?,
            Some(first) if !is_joined(&config)? => self.join(&config, first)?,
            Some(_) => {}
        }
        Ok(config)
    }

    /// Makes a cluster of the first member's site, unless it is one.
    fn create(&self, config: &Config) -> Result<(), CliError> {
        let (spool, _) = reach::open_existing(config)?;
        let made = match spool.position() {
            Some(_) => Ok(()),
            None => {
                let operator = self.keys().join(format!("{OPERATOR}.nk"));
                joining::create(config, Some(&operator), &spool).map(drop).map_err(problem)
            }
        };
        spool.close()?;
        made
    }

    /// Lets a member join with the news of the first one, which runs.
    fn join(&self, config: &Config, first: &str) -> Result<(), CliError> {
        let name = config.cluster.member.as_deref().unwrap_or_default();
        let first_config = site_config::load(&init::config_file(&self.dir.join(first)))?;
        joining::invite_again(&first_config, name).map_err(problem)?;
        let source = JoinSource::Member(Some(first.to_owned()));
        joining::join(config, &source, true, &Bar::new()).map(drop).map_err(problem)
    }

    /// Starts a program, whose output goes to a file.
    fn run(&mut self, name: &str, mut program: Command) -> Result<(), CliError> {
        let ports = self.ports.get(name).into_iter().flatten();
        if let Some(port) = ports.copied().find(|port| !is_free(*port)) {
            return Err(CliError::Problem(format!(
                "port {port}, which {name} had before, is in use; stop what listens there, or remove the line of {name} \
                 in {} and the directory {}",
                self.dir.join("ports").display(),
                self.dir.join(name).display()
            )));
        }
        let log = self.dir.join(name).join("output");
        let output =
            OpenOptions::new().create(true).append(true).open(&log).map_err(cannot("write", &log))?;
        let errors = output.try_clone().map_err(cannot("write", &log))?;
        program.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        let child =
            program.spawn().map_err(|error| CliError::Problem(format!("cannot start {name}: {error}")))?;
        self.running.push(RunningProgram { name: name.to_owned(), child, log });
        Ok(())
    }

    /// Waits until a program answers at a port, with a line that begins so.
    fn wait_for(
        &mut self,
        name: &str,
        at: usize,
        greeting: &str,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), CliError> {
        let (port, begun) = (self.port(name, at), Instant::now());
        let Some(running) = self.running.iter_mut().find(|running| running.name == name) else {
            return Ok(());
        };
        loop {
            if answers(port, greeting) {
                return Ok(());
            }
            let has_ended = running.child.try_wait().map_err(problem)?.is_some();
            if has_ended || is_over() || begun.elapsed() > WAIT_MAX {
                let said = fs::read_to_string(&running.log).unwrap_or_default();
                let first = said.lines().count().saturating_sub(LINES_SHOWN);
                let last = said.lines().skip(first).collect::<Vec<_>>().join("\n  ");
                return Err(CliError::Problem(format!("{name} does not start; it says:\n  {last}")));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Returns what is printed once everything runs.
    fn invitation(&self) -> String {
        let program = std::env::args().next().unwrap_or_else(|| "newsreel".into());
        let pid = |name: &str| {
            self.running.iter().find(|running| running.name == name).map_or(0, |running| running.child.id())
        };
        let dir = self.dir.display();
        let (first, port) = match self.members.first() {
            Some(first) => (first.as_str(), self.port(first, 0)),
            None => ("", 0),
        };
        let members: String = self
            .members
            .iter()
            .map(|name| {
                format!(
                    "  {name}  news on {}, pages on http://{}/, process {}\n",
                    self.address(name, 0),
                    self.address(name, 1),
                    pid(name)
                )
            })
            .collect();
        let nodes: String =
            self.nodes.iter().map(|name| format!("  {name}   process {}\n", pid(name))).collect();
        format!(
            "a cluster runs in {dir}: a log on {} nodes, and {} servers of one site\n{nodes}{members}\n\
             Try, in another terminal, and kill any one of these processes meanwhile:\n  \
             tin -r -g 127.0.0.1 -p {port}\n  \
             {program} cluster status --dir {dir}/{first}\n  \
             {program} group add misc.test --dir {dir}/{first}\n\
             What was killed is started again with: {program} serve --dir {dir}/{first}; \
             {engine} -c {dir}/e1/nats.conf\n\
             Stop with Ctrl-C.",
            self.nodes.len(),
            self.members.len(),
            engine = self.engine.display(),
        )
    }

    /// Waits for the end, and reports programs that end before.
    fn watch(&mut self, is_over: &dyn Fn() -> bool) {
        while !is_over() {
            self.running.retain_mut(|running| match running.child.try_wait() {
                Ok(None) | Err(_) => true,
                Ok(Some(status)) => {
                    complain(format_args!(
                        "newsreel: {} has ended: {status}; its last words are in {}",
                        running.name,
                        running.log.display()
                    ));
                    false
                }
            });
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Ends the servers, which still need the log, and then its nodes.
    fn end(&mut self) -> Result<(), CliError> {
        let (nodes, members): (Vec<_>, Vec<_>) = std::mem::take(&mut self.running)
            .into_iter()
            .partition(|running| self.nodes.contains(&running.name));
        let mut are_ended = true;
        for mut programs in [members, nodes] {
            for running in &programs {
                // One that has ended by itself needs no signal.
                let _ = kill_process(Pid::from_child(&running.child), Signal::TERM);
            }
            let begun = Instant::now();
            for running in &mut programs {
                while matches!(running.child.try_wait(), Ok(None)) && begun.elapsed() < WAIT_MAX {
                    std::thread::sleep(LOOK_EVERY);
                }
                if matches!(running.child.try_wait(), Ok(None)) {
                    complain(format_args!("newsreel: {} does not end, and is killed", running.name));
                    are_ended &= running.child.kill().and_then(|()| running.child.wait()).is_ok();
                }
            }
        }
        if are_ended { Ok(()) } else { Err(CliError::Told) }
    }
}

/// Reports whether the spool of a further member is there, and one of the cluster. An interrupted call may
/// have left none, or half of one.
fn is_joined(config: &Config) -> Result<bool, CliError> {
    let (spool, _) = match reach::open_existing(config) {
        Err(SpoolError::Unfit(_)) => return Ok(false),
        opened => opened?,
    };
    let is_joined = spool.position().is_some();
    spool.close()?;
    Ok(is_joined)
}

/// Reports whether something listens at a port, and greets so.
fn answers(port: u16, greeting: &str) -> bool {
    let Ok(stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return false };
    if greeting.is_empty() {
        return true;
    }
    let mut line = String::new();
    let is_set = stream.set_read_timeout(Some(WAIT_MAX)).is_ok();
    is_set && BufReader::new(stream).read_line(&mut line).is_ok() && line.starts_with(greeting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_chosen_once() {
        let dir = tempfile::tempdir().unwrap();
        let names = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let first = ports(dir.path(), &names(&["e1", "e2"]), &names(&["fe1"]), 20_119).unwrap();
        assert_eq!(first["e1"].len(), 3);
        let mut all: Vec<u16> = first.values().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 8, "{first:?}");
        let more = ports(dir.path(), &names(&["e1", "e2"]), &names(&["fe1", "fe2"]), 30_000).unwrap();
        assert!(first.iter().all(|(name, ports)| more[name] == *ports), "{first:?} {more:?}");
    }

    #[test]
    fn a_missing_or_old_engine_is_refused_with_advice() {
        let error = find_engine(Some(Path::new("/nowhere/nats-server"))).unwrap_err().to_string();
        assert!(error.contains("cannot run /nowhere/nats-server"), "{error}");
    }
}
