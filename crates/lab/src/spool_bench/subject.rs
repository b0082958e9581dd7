//! A server under measurement: newsreel with one storage method, or INN with one.
//!
//! Invariant: what was started is stopped when its [`Running`] is dropped.

use super::slow_disk::SlowDisk;
use crate::client::Client;
use crate::others::{self, Inn, Plan, Scripts};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a start may take.
const START_MAX: Duration = Duration::from_secs(60);
/// How long a graceful stop may take.
const STOP_MAX: Duration = Duration::from_secs(60);

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// newsreel with this storage method.
    Newsreel(&'static str),
    /// INN, an old or a new one.
    Inn(Inn),
}

impl Subject {
    pub fn name(&self) -> String {
        match self {
            Self::Newsreel(method) => format!("newsreel {method}"),
            Self::Inn(inn) => inn.name(),
        }
    }

    /// As it is asked for: `cnfs`, `inn-cnfs`, `inn17`.
    pub fn word(&self) -> String {
        match self {
            Self::Newsreel(method) => (*method).to_owned(),
            Self::Inn(Inn::New(method)) => format!("inn-{method}"),
            Self::Inn(Inn::Old) => "inn17".into(),
        }
    }
}

/// What servers are started from.
pub struct Workshop<'a> {
    /// newsreel's binary.
    pub binary: PathBuf,
    /// What runs INN.
    pub scripts: &'a Scripts,
    pub dir: &'a Path,
    pub port: u16,
    /// The groups, one a line.
    pub groups: PathBuf,
    /// Size of each of two buffers.
    pub buffer_mib: u64,
    /// The disk that `dir` is on, if it has a speed of its own.
    pub disk: Option<&'a SlowDisk>,
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
        let dir = self.place(subject);
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        match subject {
            Subject::Newsreel(method) => self.newsreel(&dir, method),
            Subject::Inn(inn) => self.inn(dir, *inn),
        }
    }

    /// The directory of a server's files.
    pub fn place(&self, subject: &Subject) -> PathBuf {
        self.dir.join(subject.word())
    }

    /// From now on the disk has its speed, or none.
    pub fn slow_down(&self, is_slow: bool) {
        if let Some(disk) = self.disk {
            disk.slow_down(is_slow);
        }
    }

    /// Where the server listens.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn newsreel(&self, dir: &Path, method: &str) -> io::Result<Running> {
        let mut init = Command::new(&self.binary);
        init.arg("init").arg("--dir").arg(dir).arg("--groups").arg(&self.groups);
        init.args(["--listen", &self.address(), "--buffer", &format!("{} MiB", self.buffer_mib)]);
        run(init.args([
            "--max-age",
            "none",
            "--peer",
            "127.0.0.1",
            "--path-identity",
            "server.lab.example",
        ]))?;
        let config = dir.join("newsreel.toml");
        fs::write(&config, with_method(&fs::read_to_string(&config)?, method, self.buffer_mib))?;
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

    fn inn(&self, dir: PathBuf, inn: Inn) -> io::Result<Running> {
        let script = self.scripts.inn(inn)?.ok_or_else(|| io::Error::other("it cannot be had here"))?;
        let plan = Plan {
            dir: &dir,
            port: self.port,
            active: &self.groups,
            buffer_mib: self.buffer_mib,
            feed: None,
        };
        self.scripts.set_up(inn, &script, &plan)?;
        others::call(&script, "start", &dir, &[])?;
        let mut running = Running { pid: 0, dir, child: None, inn: Some(script.clone()) };
        running.pid = others::inn_process(&script, &running.dir)?;
        Ok(running)
    }
}

/// newsreel's own first configuration with another method.
pub(crate) fn with_method(config: &str, method: &str, memory_mib: u64) -> String {
    if method == "cnfs" {
        return config.to_owned();
    }
    let size = if method == "memory" { format!("\nsize = \"{memory_mib} MiB\"") } else { String::new() };
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
            return others::call(&script, "stop", &self.dir, &[]).map(drop);
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
        assert_eq!(with_method(config, "cnfs", 8), config);
        let changed = "[site]\nx = 1\n\n[[class]]\nname = \"text\"\nmethod = \"hashed\"\n\n[[rule]]\nclass \
            = \"text\"\n";
        assert_eq!(with_method(config, "hashed", 8), changed);
    }
}
