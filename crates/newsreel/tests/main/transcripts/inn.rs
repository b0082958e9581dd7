//! Plays the transcripts to INN, which must answer as they specify, or as their `I[...]` lines do.
//!
//! A private INN with the groups, the texts for LIST and the rights of the test site is set up by `inn.sh` in
//! the directory that `INN` names; it is empty for each transcript. Peers connect to innd, readers to nnrpd.
//! Run by `make transcripts-inn`; without INN, or not as root, the test prints a message and passes.

use super::play::{Answers, Report, Stage, play};
use super::script::Who;
use super::scripts;
use crate::clients::skipped;
use crate::running::Server;
use crate::test_site::{GROUPS, GROUPS_CREATED, GROUPS_CREATOR, LISTS};
use crate::waiting::wait_until;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use tempfile::TempDir;

/// Path of innd in Debian.
const INND: &str = "/usr/lib/news/bin/innd";

/// A private INN.
pub(crate) struct Inn {
    script: PathBuf,
    dir: TempDir,
    port: u16,
}

impl Inn {
    /// Returns an INN with the groups of the test site; returns `None` and prints a message if not available.
    pub(crate) fn found() -> Option<Self> {
        script().map(Self::set_up)
    }

    fn set_up(script: PathBuf) -> Self {
        let dir = TempDir::new().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let inn = Self { script, dir, port: free_ports() };
        let active = inn.dir.path().join("groups");
        let names: String = GROUPS.iter().map(|(name, _, _)| format!("{name}\n")).collect();
        fs::write(&active, names).unwrap();
        let (port, reader) = (inn.port.to_string(), (inn.port + 1).to_string());
        let mut options = vec!["--storage", "tradspool", "--overview", "tradindexed", "--histsize", "1000"];
        options.extend(["--active", active.to_str().unwrap(), "--port", &port, "--reader-port", &reader]);
        options.extend(["--cnfs-mb", "1", "--cnfs-count", "1"]);
        for line in
            ["pathhost: site.example", "organization: \"Example Site\"", "artcutoff: 0", "icdsynccount: 1"]
        {
            options.extend(["--set", line]);
        }
        inn.run("setup", &options);
        inn.configure();
        inn
    }

    /// Returns INN's directory.
    pub(crate) fn site(&self) -> PathBuf {
        self.dir.path().join("inn")
    }

    /// Configures groups, rights and texts of the test site.
    fn configure(&self) {
        let etc = self.site().join("etc");
        let active: String =
            GROUPS.iter().map(|(name, flag, _)| format!("{name} 0000000000 0000000001 {flag}\n")).collect();
        fs::write(etc.join("active.initial"), active).unwrap();
        for (file, old, new) in [
            ("incoming.conf", "  hostname:", "  patterns: \"*,!local.hidden\"\n  hostname:"),
            ("readers.conf", "newsgroups: \"*\"", "read: \"*\"\n    post: \"*,!control\""),
            ("readers.conf", "access: RPA", "access: RPN"),
        ] {
            let text = fs::read_to_string(etc.join(file)).unwrap();
            assert!(text.contains(old), "{file}: {text}");
            self.write(&etc.join(file), &text.replace(old, new));
        }
        for (name, text) in LISTS {
            let name = if *name == "motd" { "motd.nnrpd" } else { name };
            self.write(&etc.join(name), text);
        }
    }

    /// Starts it, without articles.
    pub(crate) fn start_empty(&self) {
        self.run("reset", &[]);
        let db = self.site().join("db");
        let times = GROUPS.iter().map(|(name, _, _)| format!("{name} {GROUPS_CREATED} {GROUPS_CREATOR}\n"));
        self.write(&db.join("active.times"), &times.collect::<String>());
        let described = GROUPS.iter().filter(|(_, _, description)| !description.is_empty());
        let titles = described.map(|(name, _, description)| format!("{name}\t{description}\n"));
        self.write(&db.join("newsgroups"), &titles.collect::<String>());
        self.run("start", &[]);
    }

    /// Writes a file that belongs to the user of its directory, as INN requires.
    pub(crate) fn write(&self, path: &Path, text: &str) {
        use std::os::unix::fs::MetadataExt;
        fs::write(path, text).unwrap();
        let owner = fs::metadata(path.parent().unwrap()).unwrap();
        chown(path, Some(owner.uid()), Some(owner.gid())).unwrap();
    }

    /// Returns the address for peers.
    pub(crate) fn peer_address(&self) -> SocketAddr {
        self.address(Who::Peer)
    }

    /// Returns the address for readers.
    pub(crate) fn reader_address(&self) -> SocketAddr {
        self.address(Who::Reader)
    }

    /// Changes one of its configuration files.
    pub(crate) fn change(&self, file: &str, change: impl FnOnce(String) -> String) {
        let file = self.site().join("etc").join(file);
        self.write(&file, &change(fs::read_to_string(&file).unwrap()));
    }

    /// Starts it after a kill, as it was.
    pub(crate) fn start(&self) {
        self.run("start", &[]);
    }

    /// Stops it.
    pub(crate) fn stop(&self) {
        self.run("stop", &[]);
    }

    /// Kills innd, innfeed and nnrpd with SIGKILL.
    pub(crate) fn kill(&self) {
        for name in ["innd.pid", "innfeed.pid", &format!("nnrpd-{}.pid", self.port + 1)] {
            let Ok(text) = fs::read_to_string(self.site().join("run").join(name)) else { continue };
            let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw) else { continue };
            // The process may have ended by itself.
            let _ended = kill_process(pid, Signal::KILL);
            wait_until(format_args!("{name} ends by SIGKILL"), || test_kill_process(pid).is_err());
        }
    }

    /// Runs one of its programs, with standard input; returns the output.
    pub(crate) fn tool(&self, words: &[&str], input: &[u8]) -> Vec<u8> {
        let mut command = Command::new(&self.script);
        command.arg("news").arg(self.site()).args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        output.stdout
    }

    /// Returns the shell command that runs one of its programs.
    pub(crate) fn command(&self, program: &str) -> String {
        format!("{} news {} {program}", self.script.display(), self.site().display())
    }

    /// Returns the shell command that stops it.
    pub(crate) fn stop_command(&self) -> String {
        format!("{} stop {}", self.script.display(), self.site().display())
    }

    fn run(&self, command: &str, options: &[&str]) {
        let output = Command::new(&self.script).arg(command).arg(self.site()).args(options).output().unwrap();
        assert!(output.status.success(), "inn.sh {command}: {output:?}");
    }
}

impl Stage for Inn {
    fn address(&self, who: Who) -> SocketAddr {
        let port = if who == Who::Peer { self.port } else { self.port + 1 };
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn operate(&self, words: &[&str]) -> bool {
        let (name, rest) = words.split_first().unwrap();
        let mut command = vec!["ctlinnd", "-s", name];
        command.extend(rest);
        if *name == "newgroup" {
            command.push(GROUPS_CREATOR);
        }
        self.run("news", &command);
        true
    }

    fn answers(&self, _: Who) -> Answers {
        Answers::Inns
    }
}

/// An INN whose groups this server shows: peers connect to INN, readers to the server.
struct Through<'a>(&'a Inn, Server);

impl Stage for Through<'_> {
    fn address(&self, who: Who) -> SocketAddr {
        if who == Who::Peer { self.0.address(who) } else { self.1.address }
    }

    fn operate(&self, words: &[&str]) -> bool {
        if words.first() == Some(&"user") { self.1.operate(words) } else { self.0.operate(words) }
    }

    fn answers(&self, who: Who) -> Answers {
        if who == Who::Peer { Answers::Inns } else { Answers::Either }
    }
}

impl Drop for Inn {
    fn drop(&mut self) {
        let _stopped_or_not = Command::new(&self.script).arg("stop").arg(self.site()).output();
    }
}

/// Returns a free port whose successor is free, too; a different one each time, as INN binds it only later.
pub(crate) fn free_ports() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(12_000);
    let free = |port: &u16| (0..2).all(|n| TcpListener::bind(("127.0.0.1", port + n)).is_ok());
    let next = || Some(NEXT.fetch_add(10, Ordering::Relaxed)).filter(|port| *port < 32_000);
    std::iter::from_fn(next).find(free).unwrap()
}

/// Returns the script that sets INN up; returns `None` and prints a message if that is not possible.
fn script() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = std::env::var_os("INN").unwrap_or_else(|| "../shared/peers/inn".into());
    let script = root.join(dir).join("inn.sh");
    let why = if !Path::new(INND).is_file() {
        "(install inn2)"
    } else if !script.is_file() {
        "(INN must name the directory of inn.sh)"
    } else if !rustix::process::geteuid().is_root() {
        "(only root can run INN as its own user)"
    } else {
        return Some(script);
    };
    skipped(why, false);
    None
}

#[test]
#[ignore = "needs INN and root: make transcripts-inn"]
fn inn_answers_as_in_the_transcripts() {
    let Some(script) = script() else { return };
    let inn = Inn::set_up(script);
    let mut report = Report::default();
    let mut passed_over = 0;
    for script in scripts() {
        if script.newsreel_only {
            passed_over += script.exchanges();
            continue;
        }
        inn.start_empty();
        play(&script, &inn, &mut report);
    }
    let told: Vec<_> = report.otherwise.iter().map(ToString::to_string).collect();
    assert!(told.is_empty(), "\n{}\n{} turns are answered otherwise by INN", told.join("\n"), told.len());
    let explained: usize = report.explained.values().sum();
    println!(
        "INN: {} exchanges played, {explained} of them answered otherwise and explained; {passed_over} not for INN",
        report.played
    );
    let mut names: Vec<_> = report.explained.iter().collect();
    names.sort();
    names.iter().for_each(|(name, times)| println!("  {name}: {times}"));
}

/// In the first two a reader reads articles fed by itself, which a cache in front of another server cannot
/// show; in the last one groups and articles come and go while the cache stays connected, and what INN shows
/// to a lasting connection depends on timing.
const NOT_THROUGH: [&str; 3] = ["mixed.txt", "numbers.txt", "gone.txt"];

/// INN's articles are passed on as they are: the position of Xref and the beginning of Path, and a list of
/// all groups in place of the changed ones, which INN cannot determine.
const INNS_OWN: [&str; 5] =
    ["articles.txt:78", "articles.txt:167", "articles.txt:181", "lists.txt:254", "lists.txt:258"];

#[test]
#[ignore = "needs INN and root: make transcripts-inn"]
fn the_transcripts_pass_through_a_cache_in_front_of_inn() {
    let Some(script) = script() else { return };
    let inn = Inn::set_up(script);
    let mut report = Report::default();
    let is_meant = |name: &str| !NOT_THROUGH.contains(&name);
    for script in scripts().iter().filter(|script| is_meant(&script.name) && !script.newsreel_only) {
        if script.posts() {
            continue;
        }
        inn.start_empty();
        let upstream = format!(
            "[[upstream]]\nname = \"inn\"\nhost = \"{}\"\nactive_age = \"0 s\"\ngroup_age = \"0 s\"\n\
             [cache]\nnegative_age = \"0 s\"\n",
            inn.reader_address()
        );
        let server = Server::start_showing(&[], |text| text + &upstream);
        play(script, &Through(&inn, server), &mut report);
    }
    let is_own = |place: &str| INNS_OWN.iter().any(|own| place.split(' ').next() == Some(*own));
    let others = report.otherwise.iter().filter(|otherwise| !is_own(&otherwise.place));
    let told: Vec<_> = others.map(ToString::to_string).collect();
    assert!(told.is_empty(), "\n{}\n{} turns are answered otherwise", told.join("\n"), told.len());
    println!("{} exchanges played through a cache in front of INN", report.played);
}
