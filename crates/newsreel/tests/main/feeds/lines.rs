//! Peers that get lines: in a file that is taken away, or to a program.

use super::{hand_in, id, wait_for_status};
use crate::operated::Operated;
use crate::running::Server;
use crate::waiting::{wait_for, wait_until};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;
use std::fs;
use std::path::Path;

fn section(keys: &str) -> String {
    format!(
        "\n[[peer]]\nname = \"archive\"\n[peer.send]\nretry_first = \"10ms\"\nretry_longest = \"100ms\"\n\
         {keys}\n"
    )
}

fn flush(server: &Server) {
    assert!(server.control(&json!({ "do": "feed", "peer": "archive", "command": "flush" })).1);
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn ids(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(id).collect()
}

#[test]
fn file_gets_a_line_for_each_article_and_is_rotated_as_with_inn() {
    let keys =
        "file = \"out/list\"\nlines = [\"message-id\", \"size\", \"token\", \"path\", \"arrived\", \"peer\"]";
    let section = section(keys);
    let server = Server::start_with(|text| text + &section);
    let mut client = server.client();
    hand_in(&mut client, 0..10, "misc.test");
    wait_for_status(&server, "archive", |feed| feed["accepted"] == 10);
    let (list, taken) = (server.data().join("out/list"), server.data().join("out/list.work"));
    fs::rename(&list, &taken).unwrap();
    flush(&server);
    hand_in(&mut client, 10..15, "misc.test");
    wait_for_status(&server, "archive", |feed| feed["accepted"] == 15);
    for (path, range) in [(&taken, 0..10), (&list, 10..15)] {
        let lines = lines(path);
        assert_eq!(lines.len(), range.len(), "{lines:?}");
        for (line, n) in lines.iter().zip(range) {
            let words: Vec<&str> = line.split(' ').collect();
            let (replies, _) = server.control(&json!({ "do": "explain", "subject": id(n) }));
            let token =
                replies.iter().find_map(|r| r["text"].as_str()?.strip_prefix("token          ")).unwrap();
            // An article in a buffer has no file.
            assert_eq!((words[0], words[2], words[3], words[5]), (&*id(n), token, token, "archive"));
            assert!(words[1].parse::<u64>().unwrap() > 100 && words[4].parse::<u64>().unwrap() > 1 << 30);
        }
    }
}

#[test]
fn three_hundred_peers_with_files_hold_no_descriptors() {
    const PEERS: usize = 300;
    const DESCRIPTORS_MAX: u64 = 220;
    let site = Operated::with(&["--peer", "127.0.0.1"]);
    site.done(&["group", "add", "misc.test"]);
    let section = |n| {
        format!("\n[[peer]]\nname = \"p{n}\"\n[peer.send]\nfile = \"out/p{n}\"\nlines = [\"message-id\"]\n")
    };
    let sections = (0..PEERS).map(section).collect::<String>();
    site.edit(|text| {
        let limits = "[limits]\nconnections_max = 20\n";
        if text.contains("[limits]") {
            text.replace("[limits]\n", limits) + &sections
        } else {
            format!("{text}\n{limits}{sections}")
        }
    });
    let server = site.serve();
    let pid = Pid::from_raw(server.pid() as i32);
    let limit = Rlimit { current: Some(DESCRIPTORS_MAX), maximum: Some(DESCRIPTORS_MAX) };
    prlimit(pid, Resource::Nofile, limit).unwrap();
    let mut client = server.client();
    for round in 0..3 {
        hand_in(&mut client, round * 10..(round + 1) * 10, "misc.test");
        let has_all = |n| lines(&site.dir().join(format!("out/p{n}"))) == ids(0..(round + 1) * 10);
        wait_until("every file has every article", || (0..PEERS).all(has_all));
    }
    // Readers are served at the same time.
    let mut readers: Vec<_> = (0..10).map(|_| server.client()).collect();
    for reader in &mut readers {
        assert_eq!(reader.ask("GROUP misc.test"), "211 30 1 30 misc.test");
    }
    let open = fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    assert!((open as u64) < DESCRIPTORS_MAX, "{open}");
    let log = server.log();
    assert!(!log.iter().any(|line| line.contains("Too many open files")), "{log:?}");
    server.stop();
}

#[test]
fn line_has_the_path_of_the_articles_file() {
    let section = section("file = \"out/list\"\nlines = [\"path\"]");
    let server = Server::start_with(|text| {
        text.replace("name = \"text\"\nbuffers = [\"text0\"]", "name = \"text\"\nmethod = \"tradspool\"")
            + &section
    });
    hand_in(&mut server.client(), 0..1, "misc.test");
    wait_for_status(&server, "archive", |feed| feed["accepted"] == 1);
    let path = lines(&server.data().join("out/list")).pop().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(&format!("Message-ID: {}", id(0))), "{path}: {text}");
}

#[test]
fn file_is_bounded_and_later_lines_wait() {
    let section = section("file = \"list\"\nlines = [\"message-id\"]\nwaiting_bytes_max = \"1 KiB\"");
    let server = Server::start_with(|text| text + &section);
    let mut client = server.client();
    let list = server.data().join("list");
    let mut found = Vec::new();
    hand_in(&mut client, 0..200, "misc.test");
    while found.len() < 200 {
        wait_for_status(&server, "archive", |feed| feed["state"] == "full" || feed["lag_articles"] == 0);
        let taken = server.data().join("taken");
        fs::rename(&list, &taken).unwrap();
        flush(&server);
        let lines = lines(&taken);
        assert!(fs::metadata(&taken).unwrap().len() <= 1_024, "{lines:?}");
        found.extend(lines);
        if found.len() < 200 {
            let expected = found.len();
            wait_for_status(&server, "archive", |feed| {
                feed["accepted"].as_u64().unwrap() as usize > expected
            });
        }
    }
    assert_eq!(found, ids(0..200));
}

#[test]
fn file_has_every_line_whole_despite_kills() {
    let site = Operated::with(&["--peer", "127.0.0.1"]);
    site.done(&["group", "add", "misc.test"]);
    let list = site.home().join("list");
    let section = section(&format!("file = \"{}\"\nlines = [\"message-id\"]", list.display()));
    site.edit(|text| text + &section);
    for round in 0..4 {
        let server = site.serve();
        hand_in(&mut server.client(), round * 200..(round + 1) * 200, "misc.test");
        drop(server);
    }
    let server = site.serve();
    hand_in(&mut server.client(), 800..801, "misc.test");
    wait_for(|| (lines(&list), server.log()), |(lines, _)| lines.contains(&id(800)));
    let mut found = lines(&list);
    found.sort();
    found.dedup();
    let mut all = ids(0..801);
    all.sort();
    assert_eq!(found, all);
}

#[test]
fn program_that_ends_after_each_line_gets_every_line_once_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("list");
    let script = format!("read -r id && echo $id >> {}; echo no more >&2; exit 3", list.display());
    let keys = format!("program = [\"/bin/sh\", \"-c\", \"{script}\"]\nlines = [\"message-id\"]");
    let section = section(&keys);
    let server = Server::start_with(|text| text + &section);
    hand_in(&mut server.client(), 0..20, "misc.test");
    wait_for_status(&server, "archive", |feed| feed["accepted"] == 20);
    assert_eq!(lines(&list), ids(0..20));
    let error = "/bin/sh: ended: exit status: 3: no more";
    wait_for_status(&server, "archive", |feed| feed["last_error"] == error);
}

#[test]
fn lines_a_program_did_not_read_go_to_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("list");
    let deaf = "program = [\"/bin/sleep\", \"1000\"]\nlines = [\"message-id\"]";
    let section = section(deaf);
    let server = Server::start_with(|text| text + &section);
    let mut client = server.client();
    hand_in(&mut client, 0..100, "misc.test");
    wait_for_status(&server, "archive", |feed| feed["state"] == "sending");
    hand_in(&mut client, 100..200, "misc.test");
    wait_for_status(&server, "archive", |feed| feed["accepted"] == 0 && feed["lag_articles"] == 200);
    let reads = format!("[\"/bin/sh\", \"-c\", \"exec cat >> {}\"]", list.display());
    server.reload(|text| text.replace("[\"/bin/sleep\", \"1000\"]", &reads)).unwrap();
    wait_for_status(&server, "archive", |feed| feed["accepted"] == 200 && feed["lag_articles"] == 0);
    assert_eq!(lines(&list), ids(0..200));
    // Started again, it first reads to the end of its input.
    flush(&server);
    hand_in(&mut client, 200..210, "misc.test");
    wait_for_status(&server, "archive", |feed| feed["accepted"] == 210);
    assert_eq!(lines(&list), ids(0..210));
}
