//! What a command costs, and the server that it has work for: time, processor time and system calls.

use nix::sys::resource::{UsageWho, getrusage};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Until strace has attached itself to a server.
const ATTACH: Duration = Duration::from_millis(700);

/// A command with what it reads.
#[derive(Debug)]
pub struct Task {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub input: Option<PathBuf>,
}

/// Seconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    pub real: f64,
    pub user: f64,
    pub system: f64,
}

impl Cost {
    /// The least of each: other work on the machine only ever adds.
    pub fn least(self, other: Self) -> Self {
        Self {
            real: self.real.min(other.real),
            user: self.user.min(other.user),
            system: self.system.min(other.system),
        }
    }

    /// Without another one.
    pub fn without(self, other: Self) -> Self {
        Self {
            real: (self.real - other.real).max(0.0),
            user: (self.user - other.user).max(0.0),
            system: (self.system - other.system).max(0.0),
        }
    }
}

impl Task {
    pub fn new(program: &Path, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        Self { program: program.to_owned(), arguments, input: None }
    }

    pub fn reading(self, input: &Path) -> Self {
        Self { input: Some(input.to_owned()), ..self }
    }

    /// Runs it to its end.
    pub fn run(&self) -> io::Result<()> {
        self.run_under(&[])
    }

    /// Runs it; what it cost, with its children, and the server meanwhile.
    pub fn cost(&self, server: Option<u32>) -> io::Result<Cost> {
        let (before, begun) = (spent(server)?, Instant::now());
        self.run()?;
        let real = begun.elapsed().as_secs_f64();
        let after = spent(server)?;
        Ok(Cost { real, user: after.user - before.user, system: after.system - before.system })
    }

    /// Runs it; how many system calls it made, with its children, and the server meanwhile.
    pub fn calls(&self, server: Option<u32>, dir: &Path) -> io::Result<u64> {
        let (own, servers) = (dir.join("calls"), dir.join("calls-of-server"));
        let path = servers.to_string_lossy().into_owned();
        let attached = server.map(|pid| {
            let pid = pid.to_string();
            let mut strace = Command::new("strace");
            strace.args(["-f", "-c", "-o", &path, "-p", &pid]);
            strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        });
        let attached = attached.transpose()?;
        if attached.is_some() {
            std::thread::sleep(ATTACH);
        }
        let ran = self.run_under(&["strace", "-f", "-c", "-o", &own.to_string_lossy()]);
        let mut calls = 0;
        if let Some(mut strace) = attached {
            if let Some(pid) = rustix::process::Pid::from_raw(strace.id() as i32) {
                rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
            }
            strace.wait()?;
            calls += total(&fs::read_to_string(&servers)?);
        }
        ran?;
        Ok(calls + total(&fs::read_to_string(&own)?))
    }

    /// Runs it to its end by this program and its arguments.
    pub fn run_under(&self, under: &[&str]) -> io::Result<()> {
        let mut command = match under.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        match &self.input {
            Some(file) => command.stdin(File::open(file)?),
            None => command.stdin(Stdio::null()),
        };
        let output = command.args(&self.arguments).stdout(Stdio::null()).stderr(Stdio::piped()).output()?;
        if output.status.success() {
            return Ok(());
        }
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(io::Error::other(format!("{}: {told}", self.program.display())))
    }
}

/// Processor time of all children that have ended, and of a server.
fn spent(server: Option<u32>) -> io::Result<Cost> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let (mut user, mut system) = (seconds(usage.user_time()), seconds(usage.system_time()));
    if let Some(pid) = server {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        // After the name, which may contain anything, the first word is field 3.
        let field = |n: usize| rest.split_ascii_whitespace().nth(n - 3).and_then(|w| w.parse::<f64>().ok());
        user += field(14).unwrap_or_default() / ticks;
        system += field(15).unwrap_or_default() / ticks;
    }
    Ok(Cost { real: 0.0, user, system })
}

/// The calls in strace's last line: `100.00 SECONDS USECS CALLS [ERRORS] total`.
fn total(summary: &str) -> u64 {
    let line = summary.lines().rfind(|line| line.ends_with(" total")).unwrap_or_default();
    line.split_ascii_whitespace().nth(3).and_then(|calls| calls.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_from_the_last_line() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n \
            33.96    0.053079        2527        21         9 futex\n\
            100.00    0.156274          68      2284        40 total\n";
        assert_eq!(total(summary), 2284);
        assert_eq!(total("100.00    0.000000           0        29           total"), 29);
        assert_eq!(total(""), 0);
    }

    #[test]
    fn a_command_costs_what_its_children_do() {
        let task =
            Task::new(Path::new("/bin/sh"), &["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]);
        let cost = task.cost(None).unwrap();
        assert!(cost.user > 0.0 && cost.real > 0.0, "{cost:?}");
        Task::new(Path::new("/bin/sh"), &["-c", "exit 3"]).run().unwrap_err();
    }
}
