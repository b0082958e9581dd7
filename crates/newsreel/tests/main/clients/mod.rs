//! Real programs against the real binary: Python's nntplib, Perl's Net::NNTP, tin, slrn, nzbget, leafnode's
//! fetchnews, suck, and INN's innxmit, pullnews and actsync.
//!
//! `site` makes a site and serves it in a process of its own; `fed` and `corpus` give the articles, LF files
//! in a directory that the scripts (`reading.py`, `posting.py`, `reading.pl`) compare the server's answers
//! with; `screen` drives a newsreader in tmux. A program that is not installed skips its test, aloud; with CI
//! set it fails it.

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

/// Whether the programs are installed; each is named with the Debian package that has it.
pub fn installed(programs: &[(&str, &str)]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |name: &str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    let absent: Vec<_> =
        programs.iter().filter(|(name, _)| !found(name)).map(|(_, package)| *package).collect();
    absent.is_empty() || skipped(&format!("(install {})", absent.join(", ")), true)
}

/// Says aloud, past the capture of test output, that a test is skipped; on CI what it `must` have had is
/// missed.
pub fn skipped(why: &str, must: bool) -> bool {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    assert!(!must || std::env::var_os("CI").is_none(), "{name}: {why}");
    // `eprintln` would be captured with the output of a test that passes.
    #[allow(clippy::explicit_write)]
    writeln!(std::io::stderr(), "SKIPPED: {name} {why}").unwrap();
    false
}

/// Writes a shell script that can be run, by another process: what this one has open for writing is inherited
/// for a moment by processes that other tests start, and cannot be run as long as they have it.
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

/// The text of a path, for configuration files and command lines.
fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
