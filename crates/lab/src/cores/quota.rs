//! Parts of a machine: a bound on the processor time of a process (cgroups(7), version 1 or 2), and one
//! processor for the threads of this one (sched_setaffinity(2)).

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup";
/// Microseconds in which the bound holds: short, so that a server does not stand still for long.
const PERIOD_US: u64 = 10_000;

/// A bound on a process; gone with the value, which must not go before the process.
#[derive(Debug)]
pub struct Quota(PathBuf);

impl Quota {
    /// The process and its threads get as much time as this many processors have. It takes root.
    pub fn new(pid: u32, cores: f64) -> io::Result<Self> {
        let (first, second) = (Path::new(ROOT).join("cpu"), Path::new(ROOT));
        let is_first = first.join("cpu.cfs_quota_us").exists();
        let group = if is_first { first } else { second.to_owned() }.join(format!("newsreel-lab-{pid}"));
        if !is_first {
            fs::write(second.join("cgroup.subtree_control"), "+cpu")?;
        }
        fs::create_dir_all(&group)?;
        let quota = Self(group);
        for (file, text) in bounds(is_first, cores) {
            quota.write(file, &text)?;
        }
        quota.write("cgroup.procs", &pid.to_string())?;
        Ok(quota)
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let file = self.0.join(file);
        fs::write(&file, text).map_err(|error| io::Error::other(format!("{}: {error}", file.display())))
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            eprintln!("lab: {}: {error}", self.0.display());
        }
    }
}

/// What is written, and to which files of the group.
fn bounds(is_first: bool, cores: f64) -> Vec<(&'static str, String)> {
    let time = (cores * PERIOD_US as f64) as u64;
    if is_first {
        vec![("cpu.cfs_period_us", PERIOD_US.to_string()), ("cpu.cfs_quota_us", time.to_string())]
    } else {
        vec![("cpu.max", format!("{time} {PERIOD_US}"))]
    }
}

/// This thread, and those that it starts, on the machine's last processor, until the value goes.
#[derive(Debug)]
pub struct Pinned(CpuSet);

impl Pinned {
    pub fn to_the_last() -> io::Result<Self> {
        let before = sched_getaffinity(None::<Pid>)?;
        let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| before.is_set(*cpu));
        let mut one = CpuSet::new();
        one.set(last.unwrap_or_default());
        sched_setaffinity(None, &one)?;
        Ok(Self(before))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Err(error) = sched_setaffinity(None, &self.0) {
            eprintln!("lab: processors: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_written_as_each_version_has_it() {
        assert_eq!(
            bounds(true, 0.25),
            [("cpu.cfs_period_us", "10000".to_owned()), ("cpu.cfs_quota_us", "2500".to_owned())]
        );
        assert_eq!(bounds(false, 1.5), [("cpu.max", "15000 10000".to_owned())]);
    }

    #[test]
    fn a_thread_is_on_one_processor_and_then_on_all_again() {
        let before = sched_getaffinity(None).unwrap();
        let pinned = Pinned::to_the_last().unwrap();
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        drop(pinned);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
