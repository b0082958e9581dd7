//! How much memory a process uses, from /proc (proc_pid_smaps_rollup(5)).

use std::fs;
use std::io;

/// In kilobytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident, shared pages counted whole.
    pub rss_kb: u64,
    /// Resident, shared pages counted in part.
    pub pss_kb: u64,
    /// Not of a file: heap, stacks, the allocator's own.
    pub anonymous_kb: u64,
}

impl Memory {
    /// Of a process.
    pub fn of(pid: u32) -> io::Result<Self> {
        Ok(Self::parse(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?))
    }

    fn parse(text: &str) -> Self {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        Self { rss_kb: field("Rss:"), pss_kb: field("Pss:"), anonymous_kb: field("Anonymous:") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found() {
        let text = "55d-7ff ---p 00000000 00:00 0    [rollup]\nRss:    5120 kB\nPss:    4100 kB\n\
            Pss_Dirty:  7 kB\nAnonymous:   3000 kB\n";
        assert_eq!(Memory::parse(text), Memory { rss_kb: 5120, pss_kb: 4100, anonymous_kb: 3000 });
    }
}
