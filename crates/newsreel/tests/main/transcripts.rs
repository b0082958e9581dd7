//! Plays the transcripts in `tests/transcripts` to a server, each to a fresh one.
//!
//! Lines: `C: text` is sent with CRLF; `S: text` must come, where `<any>` stands for any text in the line; `S* ` means
//! any number of lines up to the next expected one; `END` the end of the stream; `#` a comment. With
//! `NEWSREEL_TEST_ADDRESS=host:port` they are played to that server, which needs the groups of the test site and to be
//! empty; `NEWSREEL_TEST_TRANSCRIPT=name` plays only one.

use crate::client::Client;
use crate::running::Server;
use std::net::ToSocketAddrs;
use std::path::Path;

#[test]
fn all() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let only = std::env::var("NEWSREEL_TEST_TRANSCRIPT").ok();
    let mut played = 0;
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap();
        if only.as_ref().is_none_or(|only| only == name) {
            play(name, &std::fs::read_to_string(&file).unwrap());
            played += 1;
        }
    }
    assert!(played >= if only.is_some() { 1 } else { 7 }, "{played} transcripts");
}

fn play(name: &str, transcript: &str) {
    let server = std::env::var("NEWSREEL_TEST_ADDRESS").is_err().then(Server::start);
    let address = match &server {
        Some(server) => server.address,
        None => std::env::var("NEWSREEL_TEST_ADDRESS").unwrap().to_socket_addrs().unwrap().next().unwrap(),
    };
    let mut client = Client::connect(address);
    let mut skipping = false;
    for (number, line) in transcript.lines().enumerate() {
        let place = format!("{name}.txt:{}: {line}", number + 1);
        if let Some(text) = line.strip_prefix("C: ") {
            client.send(format!("{text}\r\n"));
        } else if line == "C:" {
            client.send("\r\n");
        } else if line == "S*" {
            skipping = true;
        } else if let Some(expected) = line.strip_prefix("S:") {
            let expected = expected.strip_prefix(' ').unwrap_or(expected);
            let mut got = client.line_or_end();
            while skipping && got.as_ref().is_some_and(|got| !matches(expected, got)) {
                got = client.line_or_end();
            }
            skipping = false;
            let got = got.unwrap_or_else(|| panic!("{place}\nthe server closed the connection"));
            assert!(matches(expected, &got), "{place}\ncame: {got}");
        } else if line == "END" {
            assert_eq!(client.line_or_end(), None, "{place}");
        } else {
            assert!(line.is_empty() || line.starts_with('#'), "{place}\nis not a transcript line");
        }
    }
}

/// Whether `got` is `expected`, where `<any>` stands for any text.
fn matches(expected: &str, got: &str) -> bool {
    let mut parts = expected.split("<any>");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = got.strip_prefix(first) else { return false };
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
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
    ] {
        assert_eq!(matches(expected, got), same, "{expected} {got}");
    }
}
