//! Real programs against the real binary: Python's nntplib, Perl's Net::NNTP, tin, slrn, nzbget, leafnode's
//! fetchnews, suck, and INN's innxmit, pullnews and actsync.
//!
//! `site` creates a site and serves it in a process of its own; `fed` and `corpus` provide articles as LF
//! files in a directory, with which the scripts (`reading.py`, `posting.py`, `reading.pl`) compare the
//! server's responses; `screen` drives a newsreader in tmux. If a program is not installed, its test is
//! skipped with a message, or fails if CI is set.

mod bulk;
mod corpus;
mod fed;
mod inn;
mod inn_spool;
mod latency;
pub(crate) mod leafnode;
mod nzbget;
mod readme;
pub mod screen;
mod scripts;
pub mod site;
pub mod slrn;
mod suck;
pub mod tin;
mod tunnel;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns whether the programs are installed; each is given with the Debian package that has it.
pub fn installed(programs: &[(&str, &str)]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |name: &str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    let absent: Vec<_> =
        programs.iter().filter(|(name, _)| !found(name)).map(|(_, package)| *package).collect();
    absent.is_empty() || skipped(&format!("(install {})", absent.join(", ")), true)
}

/// Reports, past the capture of test output, that a test is skipped; panics in CI if its requirements `must`
/// be there.
pub fn skipped(why: &str, must: bool) -> bool {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    assert!(!must || std::env::var_os("CI").is_none(), "{name}: {why}");
    // `eprintln` would be captured with the output of a test that passes.
    #[allow(clippy::explicit_write)]
    writeln!(std::io::stderr(), "SKIPPED: {name} {why}").unwrap();
    false
}

/// Writes an executable shell script from another process: a file open for writing here is briefly inherited
/// by processes that other tests start, and cannot be run meanwhile.
pub fn script(path: &Path, text: &str) {
    let mut writer = Command::new("sh")
        .args(["-c", "cat >\"$1\" && chmod 755 \"$1\"", "sh"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
}

/// Returns a path as text, for configuration files and command lines.
fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
