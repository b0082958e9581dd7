//! A site from its operator's view: created, served and queried by the built binary, in separate processes.
//!
//! The configuration may be edited between the commands; the log of the server can be read. A server ends on
//! drop.

use crate::client::Client;
use crate::waiting::wait_for;
use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

pub struct Operated {
    home: TempDir,
    umask: &'static str,
}

/// A serving process, killed when dropped.
pub struct Serving {
    child: Child,
    log: PathBuf,
    pub address: SocketAddr,
}

impl Operated {
    /// Creates a site with small buffers on a port that the system chooses.
    pub fn new() -> Self {
        Self::with_umask("022")
    }

    /// Returns a place for a site, which the test creates.
    pub fn unmade() -> Self {
        Self { home: TempDir::new().unwrap(), umask: "022" }
    }

    /// Creates a site for articles of any age, with more options for `newsreel init`.
    pub fn with(options: &[&str]) -> Self {
        let site = Self::unmade();
        let init = ["init", "--listen", "127.0.0.1:0", "--buffer", "16 MiB", "--max-age", "none"];
        site.done(&[&init, options].concat());
        site
    }

    /// Like [`new`](Self::new), with every command run under a umask.
    pub fn with_umask(umask: &'static str) -> Self {
        let site = Self { umask, ..Self::unmade() };
        site.done(&["init", "--listen", "127.0.0.1:0", "--buffer", "1 MiB"]);
        site
    }

    /// Returns the site's directory.
    pub fn dir(&self) -> PathBuf {
        self.home.path().join("site")
    }

    /// Returns a directory for the test's own files.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Changes the text of the configuration.
    pub fn edit(&self, change: impl FnOnce(String) -> String) {
        let file = self.dir().join("newsreel.toml");
        let text = change(fs::read_to_string(&file).unwrap());
        fs::write(file, text).unwrap();
    }

    /// Returns a command on this site.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("umask {}; exec \"$0\" \"$@\"", self.umask)]);
        command.arg(env!("CARGO_BIN_EXE_newsreel")).args(arguments).arg("--dir").arg(self.dir());
        command
            .env_remove("NEWSREEL_CONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command with standard input.
    pub fn run_with(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        // A command that does not read it may have ended already.
        let _ended = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    /// Runs a command that must succeed; returns its output.
    pub fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", complaints(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Serves the site.
    pub fn serve(&self) -> Serving {
        let log = self.home.path().join("log");
        let child = self.command(&["serve"]).stderr(File::create(&log).unwrap()).spawn().unwrap();
        let mut serving = Serving { child, log, address: SocketAddr::from(([0, 0, 0, 0], 0)) };
        let line = serving.logged(|line| line.contains("listening"));
        let address = line.rsplit("address").next().unwrap();
        let plain = |c: char| c.is_ascii_digit() || ".:".contains(c);
        let address = address.trim_start_matches(|c: char| !c.is_ascii_digit());
        let end = address.find(|c| !plain(c)).unwrap_or(address.len());
        serving.address = address[..end].parse().unwrap();
        serving
    }
}

impl Serving {
    pub fn client(&self) -> Client {
        Client::greeted(self.address)
    }

    /// Returns the address it listens on, as text.
    pub fn client_address(&self) -> String {
        self.address.to_string()
    }

    /// Returns the lines logged so far.
    pub fn log(&self) -> Vec<String> {
        fs::read_to_string(&self.log).unwrap().lines().map(str::to_owned).collect()
    }

    /// Waits for a line of the log.
    pub fn logged(&mut self, is_wanted: impl Fn(&str) -> bool) -> String {
        let has_line = |log: &Vec<String>| log.iter().any(|line| is_wanted(line));
        let mut look = || {
            let (ended, log) = (self.child.try_wait().unwrap(), self.log());
            assert!(ended.is_none() || has_line(&log), "{ended:?}: {log:#?}");
            log
        };
        wait_for(&mut look, has_line).into_iter().find(|line| is_wanted(line)).unwrap()
    }
}

impl Serving {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the anonymous memory of the process, in KiB.
    pub fn memory_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Waits until the server has ended.
    pub fn end(mut self) -> std::process::ExitStatus {
        wait_for(|| (self.child.try_wait().unwrap(), self.log()), |(ended, _)| ended.is_some()).0.unwrap()
    }

    /// Stops it regularly, as a service manager does.
    pub fn stop(self) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
        let ended = self.end();
        assert!(ended.success(), "{ended}");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// Returns a command's standard error.
pub fn complaints(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A configuration in which a group has a storage class of its own, which a few large articles fill.
pub fn with_tight_class(text: &str, group: &str) -> String {
    let first = "[[rule]]\nclass = \"text\"";
    let tight = format!(
        "[[class]]\nname = \"tight\"\nmethod = \"appendonly\"\nfile_size = \"64 KiB\"\nfiles_max = 1\n\n\
         [[rule]]\nclass = \"tight\"\ngroups = \"{group}\"\n\n{first}"
    );
    text.replacen(first, &tight, 1)
}
