//! A server under measurement: newsreel with one storage method, or INN with one.
//!
//! Invariant: what was started is stopped when its [`Running`] is dropped.

use crate::client::Client;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a start may take.
const START_MAX: Duration = Duration::from_secs(60);
/// How long a graceful stop may take.
const STOP_MAX: Duration = Duration::from_secs(60);
/// Size of each of two buffers: all four batches fit into one.
const BUFFER_MB: u64 = 128;

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// newsreel with this storage method.
    Newsreel(&'static str),
    /// INN with this storage method.
    Inn(&'static str),
}

impl Subject {
    pub fn name(&self) -> String {
        match self {
            Self::Newsreel(method) => format!("newsreel {method}"),
            Self::Inn(method) => format!("INN {method}"),
        }
    }
}

/// What servers are started from.
#[derive(Debug)]
pub struct Workshop<'a> {
    /// newsreel's binary.
    pub binary: PathBuf,
    /// The script that runs private INN instances.
    pub inn: Option<PathBuf>,
    pub dir: &'a Path,
    pub port: u16,
    /// The groups, one a line.
    pub groups: PathBuf,
}

/// A server that runs.
#[derive(Debug)]
pub struct Running {
    /// Its process.
    pub pid: u32,
    /// The directory of its files.
    pub dir: PathBuf,
    child: Option<Child>,
    inn: Option<PathBuf>,
}

impl Workshop<'_> {
    /// Creates a new, empty server and starts it.
    pub fn start(&self, subject: &Subject) -> io::Result<Running> {
        let dir = self.dir.join(subject.name().replace(' ', "-"));
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        match subject {
            Subject::Newsreel(method) => self.newsreel(&dir, method),
            Subject::Inn(method) => self.inn(dir, method),
        }
    }

    /// Where the server listens.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn newsreel(&self, dir: &Path, method: &str) -> io::Result<Running> {
        let mut init = Command::new(&self.binary);
        init.arg("init").arg("--dir").arg(dir).arg("--groups").arg(&self.groups);
        init.args(["--listen", &self.address(), "--buffer", &format!("{BUFFER_MB} MiB")]);
        run(init.args([
            "--max-age",
            "none",
            "--peer",
            "127.0.0.1",
            "--path-identity",
            "server.lab.example",
        ]))?;
        let config = dir.join("newsreel.toml");
        fs::write(&config, with_method(&fs::read_to_string(&config)?, method))?;
        run(Command::new(&self.binary).arg("check").arg("--config").arg(&config))?;
        let log = fs::File::create(dir.join("log"))?;
        let mut serve = Command::new(&self.binary);
        serve
            .arg("serve")
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let child = serve.spawn()?;
        let running = Running { pid: child.id(), dir: dir.to_owned(), child: Some(child), inn: None };
        let began = Instant::now();
        while let Err(error) = Client::connect(&self.address()) {
            if began.elapsed() > START_MAX {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(running)
    }

    fn inn(&self, dir: PathBuf, method: &str) -> io::Result<Running> {
        let script = self.inn.clone().ok_or_else(|| io::Error::other("no script that runs INN was named"))?;
        let (port, reader) = (self.port.to_string(), (self.port + 1).to_string());
        let mut setup = Command::new(&script);
        setup
            .arg("setup")
            .arg(&dir)
            .args(["--storage", method, "--overview", "tradindexed", "--active"])
            .arg(&self.groups);
        setup.args(["--port", &port, "--reader-port", &reader, "--cnfs-mb", &BUFFER_MB.to_string()]);
        run(&mut setup)?;
        run(Command::new(&script).arg("start").arg(&dir))?;
        let mut running = Running { pid: 0, dir: dir.clone(), child: None, inn: Some(script.clone()) };
        let pids = Command::new(&script).arg("pids").arg(&dir).output()?;
        let text = String::from_utf8_lossy(&pids.stdout).into_owned();
        let first = text.split_ascii_whitespace().next().and_then(|pid| pid.parse().ok());
        running.pid = first.ok_or_else(|| io::Error::other("INN does not run"))?;
        Ok(running)
    }
}

/// newsreel's own first configuration with another method.
pub(crate) fn with_method(config: &str, method: &str) -> String {
    if method == "cnfs" {
        return config.to_owned();
    }
    let size = if method == "memory" { format!("\nsize = \"{BUFFER_MB} MiB\"") } else { String::new() };
    let mut sections: Vec<&str> = config.split("\n[[").collect();
    sections.retain(|section| !section.starts_with("buffer]]"));
    let text = sections.join("\n[[");
    text.replace("buffers = [\"text0\", \"text1\"]", &format!("method = \"{method}\"{size}"))
}

impl Running {
    /// Stops the server in order.
    pub fn stop(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        if let Some(script) = self.inn.take() {
            return run(Command::new(script).arg("stop").arg(&self.dir));
        }
        let Some(mut child) = self.child.take() else { return Ok(()) };
        if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        }
        let began = Instant::now();
        while child.try_wait()?.is_none() {
            if began.elapsed() > STOP_MAX {
                child.kill()?;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("lab: a server did not stop: {error}");
        }
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8_lossy(&told).into_owned();
    let lines: Vec<&str> = told.lines().map(str::trim).filter(|line| !line.is_empty()).take(4).collect();
    Err(io::Error::other(format!("{}: {}", command.get_program().display(), lines.join(" / "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_method_is_put_in_and_buffers_go() {
        let config = "[site]\nx = 1\n\n[[buffer]]\nname = \"text0\"\n\n[[buffer]]\nname = \"text1\"\n\n\
            [[class]]\nname = \"text\"\nbuffers = [\"text0\", \"text1\"]\n\n[[rule]]\nclass = \"text\"\n";
        assert_eq!(with_method(config, "cnfs"), config);
        let changed = "[site]\nx = 1\n\n[[class]]\nname = \"text\"\nmethod = \"hashed\"\n\n[[rule]]\nclass \
            = \"text\"\n";
        assert_eq!(with_method(config, "hashed"), changed);
    }
}
