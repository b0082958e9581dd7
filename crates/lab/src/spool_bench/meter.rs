//! What a feed costs a server's process and its disk, as counted by the kernel.
//!
//! Figures are differences between two moments. Those of the disk count everything that is written to it in
//! between, by whomever; so a bench takes the least of several runs.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Groups of system calls that `perf stat` counts.
const CALLS: [(&str, &[&str]); 5] = [
    ("all", &["raw_syscalls:sys_enter"]),
    ("read", &["read", "readv", "pread64", "preadv", "recvfrom", "recvmsg"]),
    ("write", &["write", "writev", "pwrite64", "pwritev", "sendto", "sendmsg"]),
    (
        "path",
        &[
            "open",
            "openat",
            "newstat",
            "newlstat",
            "newfstatat",
            "statx",
            "access",
            "mkdir",
            "mkdirat",
            "link",
            "linkat",
            "rename",
            "renameat2",
            "unlink",
            "unlinkat",
        ],
    ),
    ("sync", &["fsync", "fdatasync", "msync", "sync_file_range"]),
];

/// Counters of a process and of the disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counters {
    /// Bytes that the process caused to be written to disk.
    pub written_bytes: u64,
    /// Page faults without and with reading from disk.
    pub faults: u64,
    pub major_faults: u64,
    /// Processor time, in ticks.
    pub user_ticks: u64,
    pub system_ticks: u64,
    /// Writes that the disk carried out, and their bytes.
    pub disk_writes: u64,
    pub disk_bytes: u64,
    /// The same of reads.
    pub disk_reads: u64,
    pub disk_read_bytes: u64,
    /// How long the disk had something to do.
    pub disk_ms: u64,
}

impl Counters {
    /// Reads them; `dir` selects the disk. Without a process (it has ended) its own counters are 0.
    pub fn read(pid: u32, dir: &Path) -> io::Result<Self> {
        let mut counters = Self::default();
        if let Ok(text) = fs::read_to_string(format!("/proc/{pid}/io")) {
            let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
            counters.written_bytes = line.and_then(|n| n.trim().parse().ok()).unwrap_or(0);
        }
        if let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat")) {
            // After the name, which may contain anything, the first word is field 3.
            let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
            let field =
                |n: usize| rest.split_ascii_whitespace().nth(n - 3).and_then(|w| w.parse::<u64>().ok());
            counters.faults = field(10).unwrap_or(0);
            counters.major_faults = field(12).unwrap_or(0);
            counters.user_ticks = field(14).unwrap_or(0);
            counters.system_ticks = field(15).unwrap_or(0);
        }
        let device = fs::metadata(dir)?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        if let Ok(text) = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")) {
            let field =
                |n: usize| text.split_ascii_whitespace().nth(n).and_then(|w| w.parse().ok()).unwrap_or(0);
            (counters.disk_reads, counters.disk_read_bytes) = (field(0), field(2) * 512);
            (counters.disk_writes, counters.disk_bytes) = (field(4), field(6) * 512);
            counters.disk_ms = field(9);
        }
        Ok(counters)
    }

    /// What was counted since `before`.
    pub fn since(&self, before: &Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    /// The least of each.
    pub fn least(&self, other: &Self) -> Self {
        self.with(other, u64::min)
    }

    /// Each of them with the other's.
    fn with(&self, other: &Self, both: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            written_bytes: both(self.written_bytes, other.written_bytes),
            faults: both(self.faults, other.faults),
            major_faults: both(self.major_faults, other.major_faults),
            user_ticks: both(self.user_ticks, other.user_ticks),
            system_ticks: both(self.system_ticks, other.system_ticks),
            disk_writes: both(self.disk_writes, other.disk_writes),
            disk_bytes: both(self.disk_bytes, other.disk_bytes),
            disk_reads: both(self.disk_reads, other.disk_reads),
            disk_read_bytes: both(self.disk_read_bytes, other.disk_read_bytes),
            disk_ms: both(self.disk_ms, other.disk_ms),
        }
    }
}

/// Writes out everything on the file system of `dir`.
pub fn sync(dir: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(fs::File::open(dir)?)?)
}

/// How many more files and directories the file system of `dir` has room for.
pub fn free_inodes(dir: &Path) -> io::Result<u64> {
    Ok(rustix::fs::statvfs(dir)?.f_ffree)
}

/// System calls, by [`CALLS`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Calls {
    pub all: u64,
    pub read: u64,
    pub write: u64,
    pub path: u64,
    pub sync: u64,
}

/// Counts a process's system calls with perf, from its making until [`CallCounter::end`].
#[derive(Debug)]
pub struct CallCounter(Child);

impl CallCounter {
    /// Begins; `None` where perf or its trace points are missing.
    pub fn begin(pid: u32) -> Option<Self> {
        let events = fs::read_dir("/sys/kernel/tracing/events/syscalls").ok()?;
        let known: Vec<String> = events.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
        let mut list = Vec::new();
        for (_, names) in CALLS {
            for name in names {
                let event = if name.contains(':') {
                    (*name).to_owned()
                } else {
                    format!("syscalls:sys_enter_{name}")
                };
                if name.contains(':') || known.iter().any(|k| event.ends_with(k.as_str())) {
                    list.push(event);
                }
            }
        }
        let mut perf = Command::new("perf");
        perf.args(["stat", "-x", ",", "-e", &list.join(","), "-p", &pid.to_string()]);
        let child = perf.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().ok()?;
        // perf says nothing when it has attached.
        std::thread::sleep(Duration::from_secs(1));
        Some(Self(child))
    }

    /// Ends, and returns what was counted; `None` if perf could not count.
    pub fn end(mut self) -> io::Result<Option<Calls>> {
        if self.0.try_wait()?.is_none()
            && let Some(pid) = rustix::process::Pid::from_raw(self.0.id() as i32)
        {
            rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
        }
        let output = self.0.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        let count = |names: &[&str]| {
            let mut sum = 0;
            for line in text.lines() {
                let mut fields = line.split(',');
                let (number, event) = (fields.next().unwrap_or_default(), fields.nth(1).unwrap_or_default());
                let name = event.strip_prefix("syscalls:sys_enter_").unwrap_or(event);
                if names.contains(&name) {
                    sum += number.parse::<u64>().unwrap_or(0);
                }
            }
            sum
        };
        let [all, read, write, path, sync] = CALLS.map(|(_, names)| count(names));
        Ok((all > 0).then_some(Calls { all, read, write, path, sync }))
    }
}
