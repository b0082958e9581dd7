//! A newsreel site of the lab's own, and the process that serves it.
//!
//! Invariant: a process that was started is dead when its [`Site`] is dropped.

use crate::Place;
use crate::articles::group_name;
use crate::client::Client;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Threads that compress overview and examine what is stored, for hours after a large spool was filled.
const UPKEEP: [&str; 2] = ["overview-pack", "look-over"];
/// The server's name in Path and Xref.
pub const IDENTITY: &str = "server.lab.example";
/// How long a start may take at most.
const START_MAX: Duration = Duration::from_secs(120);
/// How long a graceful stop may take.
const STOP_MAX: Duration = Duration::from_secs(60);
/// Between two tries to connect.
const RETRY: Duration = Duration::from_millis(1);

/// How to create a site.
#[derive(Debug)]
pub struct Plan<'a> {
    /// How many groups it has; see [`group_name`].
    pub groups: u64,
    /// Size of each of its two buffers.
    pub buffer_bytes: u64,
    /// As in the configuration; `None`: the default.
    pub durability: Option<&'a str>,
}

/// A site.
#[derive(Debug)]
pub struct Site {
    binary: PathBuf,
    dir: PathBuf,
    port: u16,
    child: Option<Child>,
}

impl Site {
    /// The site that [`Site::make`] has left in `place.dir/name`.
    pub fn open(place: &Place, name: &str, port: u16) -> io::Result<Self> {
        Ok(Self { binary: place.newsreel()?, dir: place.dir.join(name), port, child: None })
    }

    /// Creates a new site in `place.dir/name`, after deleting what is there.
    pub fn make(place: &Place, name: &str, port: u16, plan: Plan<'_>) -> io::Result<Self> {
        let (binary, dir) = (place.newsreel()?, place.dir.join(name));
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir_all(&place.dir)?;
        let groups = place.dir.join(format!("{name}.groups"));
        fs::write(&groups, (0..plan.groups).map(|n| group_name(n) + "\n").collect::<String>())?;
        let mut init = Command::new(&binary);
        init.arg("init").arg("--dir").arg(&dir).arg("--groups").arg(&groups);
        init.args(["--listen", &format!("127.0.0.1:{port}"), "--buffer", &plan.buffer_bytes.to_string()]);
        init.args([
            "--max-age",
            "none",
            "--peer",
            "127.0.0.1",
            "--reader",
            "127.0.0.1",
            "--path-identity",
            IDENTITY,
        ]);
        init.args(plan.durability.map(|durability| format!("--durability={durability}")));
        let made = init.output().map_err(|error| {
            io::Error::other(format!(
                "cannot run {}: {error}; build it first, or name one with --binary",
                binary.display()
            ))
        })?;
        if !made.status.success() {
            return Err(io::Error::other(format!(
                "newsreel init: {}",
                String::from_utf8_lossy(&made.stderr)
            )));
        }
        fs::remove_file(&groups)?;
        let config = dir.join("newsreel.toml");
        let text = fs::read_to_string(&config)?;
        fs::write(&config, text.replace("[[peer]]", "[[peer]]\nmax_connections = 20000"))?;
        Ok(Self { binary, dir, port, child: None })
    }

    /// Its configuration file.
    pub fn config(&self) -> PathBuf {
        self.dir.join("newsreel.toml")
    }

    /// From its next start on it serves pages at this address, to this machine as to its operator.
    pub fn add_pages(&self, address: SocketAddr) -> io::Result<()> {
        let text = fs::read_to_string(self.config())?;
        let text = text.replace("\n[[access]]\n", "\n[[access]]\noperator = true\n");
        fs::write(self.config(), text + &format!("\n[web]\nlisten = [\"{address}\"]\n"))
    }

    /// The program that serves it.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map(Child::id).unwrap_or_default()
    }

    /// Starts the process without waiting for anything.
    pub fn spawn(&mut self) -> io::Result<()> {
        let log = File::options().create(true).append(true).open(self.dir.join("log"))?;
        let mut command = Command::new(&self.binary);
        command.arg("serve").arg("--config").arg(self.config());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn()?);
        Ok(())
    }

    /// Starts it; how long it took from exec to the answer to GROUP.
    pub fn start(&mut self, group: &str) -> io::Result<Duration> {
        let began = Instant::now();
        self.spawn()?;
        loop {
            match Client::connect(&self.address()) {
                Ok(mut client) => {
                    client.group(group)?;
                    return Ok(began.elapsed());
                }
                Err(error) if began.elapsed() > START_MAX => return Err(error),
                Err(_) => std::thread::sleep(RETRY),
            }
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait()?
            {
                return Err(io::Error::other(format!("the server ended with {status}: {}", self.log_end())));
            }
        }
    }

    /// kill -9.
    pub fn kill(&mut self) -> io::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// SIGTERM; waits for the end.
    pub fn stop(&mut self) -> io::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        }
        let began = Instant::now();
        while child.try_wait()?.is_none() {
            if began.elapsed() > STOP_MAX {
                child.kill()?;
                child.wait()?;
                return Err(io::Error::other("the server did not stop"));
            }
            std::thread::sleep(RETRY);
        }
        Ok(())
    }

    /// What the server reported about its last recovery.
    pub fn recovery(&self) -> String {
        let text = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        let line = text.lines().rfind(|line| line.contains("spool "));
        line.and_then(|line| line.rsplit_once("spool ")).map(|(_, told)| told.to_owned()).unwrap_or_default()
    }

    fn log_end(&self) -> String {
        let text = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// What a process has had read from disks, in bytes (proc_pid_io(5)).
pub fn bytes_read(pid: u32) -> io::Result<u64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io"))?;
    let read = io.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok());
    Ok(read.unwrap_or_default())
}

/// Takes the files below a directory that have one of these suffixes out of the machine's memory, as far as
/// no process has mapped them.
pub fn take_from_memory(dir: &Path, suffixes: &[&str]) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            take_from_memory(&path, suffixes)?;
        } else if path.extension().and_then(|suffix| suffix.to_str()).is_some_and(|s| suffixes.contains(&s)) {
            let file = File::open(&path)?;
            file.sync_data()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}

/// What a process has taken of the processors (proc_pid_stat(5)).
pub fn processor_time(pid: u32) -> io::Result<Duration> {
    time_in(&fs::read_to_string(format!("/proc/{pid}/stat"))?)
}

/// What a server has taken of the processors, without the threads that look after its spool whatever clients
/// do ([`UPKEEP`]).
pub fn serving_time(pid: u32) -> io::Result<Duration> {
    let mut upkeep = Duration::ZERO;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?.path();
        // A thread may have just ended.
        let name = fs::read_to_string(thread.join("comm")).unwrap_or_default();
        if UPKEEP.contains(&name.trim_end()) {
            upkeep += time_in(&fs::read_to_string(thread.join("stat"))?)?;
        }
    }
    Ok(processor_time(pid)?.saturating_sub(upkeep))
}

/// The time in the text of a `stat` file.
fn time_in(stat: &str) -> io::Result<Duration> {
    // The name, in parentheses, may have blanks.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}
