//! Plays the transcripts in `tests/transcripts`, each to a fresh server.
//!
//! `script` reads them, `play` plays them, `inn` plays them to INN. With `NEWSREEL_TEST_ADDRESS=host:port`
//! they are played to that server, which must be empty and have the groups of the test site (transcripts with
//! actions of the operator are skipped); `NEWSREEL_TEST_TRANSCRIPT=name` plays only one.

pub(crate) mod inn;
mod play;
mod script;

use crate::running::Server;
use play::{Report, Stage, matches, play};
use script::{Script, Step, Who};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

/// Least number of exchanges (a command and its response).
const EXCHANGES_MIN: usize = 400;

/// Returns all transcripts, or the one requested.
fn scripts() -> Vec<Script> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let only = std::env::var("NEWSREEL_TEST_TRANSCRIPT").ok();
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.retain(|file| {
        only.as_ref().is_none_or(|only| file.file_stem().is_some_and(|stem| stem == only.as_str()))
    });
    files.sort();
    assert!(!files.is_empty(), "no such transcript");
    files.iter().map(|file| Script::read(file)).collect()
}

/// A server of the test site, in this process.
struct Own(Server);

impl Stage for Own {
    fn address(&self, _: Who) -> SocketAddr {
        self.0.address
    }

    fn operate(&self, words: &[&str]) -> bool {
        self.0.operate(words)
    }
}

/// A server whose groups another one shows: peers connect to the first, readers to the second.
struct Through(Server, Server);

impl Stage for Through {
    fn address(&self, who: Who) -> SocketAddr {
        if who == Who::Peer { self.0.address } else { self.1.address }
    }

    fn operate(&self, words: &[&str]) -> bool {
        if words.first() == Some(&"user") { self.1.operate(words) } else { self.0.operate(words) }
    }
}

/// Any server.
struct Other(SocketAddr);

impl Stage for Other {
    fn address(&self, _: Who) -> SocketAddr {
        self.0
    }

    fn operate(&self, _: &[&str]) -> bool {
        false
    }
}

/// Plays all transcripts, each to a server of its own created by `start`; all responses must be as expected.
pub fn play_all(start: impl Fn() -> Server) {
    let mut report = Report::default();
    scripts().iter().for_each(|script| play(script, &Own(start()), &mut report));
    check(&report);
}

/// Plays the transcripts for which `is_meant` returns true, each to readers of a server that shows the groups
/// of another one.
pub fn play_through(
    start: impl Fn() -> Server,
    show: impl Fn(&Server) -> Server,
    is_meant: impl Fn(&Script) -> bool,
) {
    let mut report = Report::default();
    for script in scripts().iter().filter(|script| is_meant(script)) {
        let upstream = start();
        let shown = show(&upstream);
        play(script, &Through(upstream, shown), &mut report);
    }
    check(&report);
}

fn check(report: &Report) {
    let told: Vec<_> = report.otherwise.iter().map(ToString::to_string).collect();
    assert!(told.is_empty(), "\n{}", told.join("\n"));
    println!("{} exchanges", report.played);
}

#[test]
fn all() {
    let Ok(other) = std::env::var("NEWSREEL_TEST_ADDRESS") else { return play_all(Server::start) };
    let address = other.to_socket_addrs().unwrap().next().unwrap();
    let mut report = Report::default();
    for script in scripts() {
        if script.steps.iter().any(|step| matches!(step, Step::Operator { .. })) {
            println!("{} needs an operator: passed over", script.name);
        } else {
            play(&script, &Other(address), &mut report);
        }
    }
    check(&report);
}

#[test]
fn transcripts_have_enough_exchanges() {
    let all: Vec<_> = scripts().iter().map(|script| (script.name.clone(), script.exchanges())).collect();
    let count: usize = all.iter().map(|(_, exchanges)| exchanges).sum();
    let only = std::env::var("NEWSREEL_TEST_TRANSCRIPT").is_ok();
    assert!(only || count >= EXCHANGES_MIN, "only {count} exchanges: {all:?}");
}

#[test]
fn patterns() {
    for (expected, got, same) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a<any>", "abc", true),
        ("<any>c", "abc", true),
        ("a<any>b<any>c", "a1b2c", true),
        ("a<any>b<any>c", "a1c2b", false),
        ("<any>", "", true),
        ("\\xe9\\\\", "\u{e9}\\", true),
        ("\u{e9}", "\u{c3}\u{a9}", true),
    ] {
        assert_eq!(matches(expected, got), same, "{expected} {got}");
    }
}
