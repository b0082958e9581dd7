//! What harms a cluster from outside: each is reported, nothing is lost, and members do not diverge.

use crate::nodes::{Nodes, Scratch, program, wait_until};
use crate::{Member, await_same_digest, members_of, newsreel, overview};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

/// A client of a node of the log that speaks the engine's protocol itself.
struct RawClient(BufReader<TcpStream>);

impl RawClient {
    fn connect(nodes: &Nodes) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", nodes.ports[0][0])).unwrap();
        let mut client = Self(BufReader::new(stream));
        assert!(client.line().starts_with("INFO "));
        client.send(b"CONNECT {\"verbose\":false}\r\nSUB raw.answers 1\r\n");
        client
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0);
        line
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    /// Publishes bytes; returns the answer.
    fn request(&mut self, subject: &str, bytes: &[u8]) -> String {
        self.send(format!("PUB {subject} raw.answers {}\r\n", bytes.len()).as_bytes());
        self.send(bytes);
        self.send(b"\r\n");
        loop {
            let line = self.line();
            if line.starts_with("PING") {
                self.send(b"PONG\r\n");
            } else if line.starts_with("MSG ") {
                let length: usize = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
                let mut answer = vec![0; length + 2];
                self.0.read_exact(&mut answer).unwrap();
                return String::from_utf8(answer).unwrap();
            }
        }
    }
}

fn post(member: &Member, id: &str) {
    let answer = member.client().post(id, "test.a").unwrap();
    assert!(answer.starts_with("240"), "{}: {answer}", member.name);
}

/// Returns what a server says that does not start.
fn refused_start(member: &Member) -> String {
    let refused = newsreel(&member.dir, &["serve"]);
    assert!(!refused.status.success(), "{refused:?}");
    String::from_utf8_lossy(&refused.stderr).into_owned()
}

#[test]
fn of_two_servers_with_one_name_the_first_stops_proposing_and_says_why() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("twins");
    let nodes = Nodes::start(program, &scratch.0, 3, "always");
    let mut members = members_of(&["fe1", "fe2"], &scratch, &nodes, "");
    post(&members[1], "<1@twins.example>");
    members[1].stop();
    // The whole directory is copied, as by one who clones a machine.
    let mut twin = Member::new(&scratch, "twin");
    let copied = Command::new("cp").arg("-a").arg(&members[1].dir).arg(&twin.dir).status().unwrap();
    assert!(copied.success());
    twin.edit(|text| {
        let text = text.replace(&format!(":{}\"", members[1].port), &format!(":{}\"", twin.port));
        text.replace(&format!(":{}\"", members[1].web), &format!(":{}\"", twin.web))
    });
    members[1].serve();
    post(&members[1], "<2@twins.example>");
    twin.serve();
    wait_until("the first stops proposing", || members[1].page("/ready") == 503);
    let state = members[1].state();
    assert!(state.contains("a later process of this member has begun"), "{state}");
    let answer = members[1].client().post("<refused@twins.example>", "test.a").unwrap();
    assert!(answer.starts_with("44"), "{answer}");
    // Readers are still served there.
    assert!(members[1].client().ask("STAT <2@twins.example>").unwrap().starts_with("223"));
    for (at, member) in [&members[0], &twin].into_iter().enumerate() {
        post(member, &format!("<both.{at}@twins.example>"));
    }
    members[1].kill();
    members[1] = twin;
    await_same_digest(&members);
}

/// A small disk, for a directory that is mounted until the end; making one needs root.
struct SmallDisk<'d>(&'d Path);

impl<'d> SmallDisk<'d> {
    fn mount(dir: &'d Path, mib: u64) -> Option<Self> {
        std::fs::create_dir_all(dir).unwrap();
        let options = format!("size={mib}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(dir).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(dir)),
            failed => {
                let _ = writeln!(std::io::stderr(), "skipped: no small disk can be mounted: {failed:?}");
                None
            }
        }
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_member_whose_disk_is_full_falls_behind_and_catches_up_once_there_is_room() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("full");
    let mount = scratch.0.join("fe2");
    let Some(disk) = SmallDisk::mount(&mount, 160) else { return };
    let nodes = Nodes::start(program, &scratch.0, 3, "always");
    let mut members = members_of(&["fe1", "fe2"], &scratch, &nodes, "");
    wait_until("both serve", || members.iter().all(|member| member.client().ask("DATE").is_some()));
    let filler = disk.0.join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    drop(file);
    // Journal and history grow with every article.
    let mut posted = 0;
    wait_until("the second member is behind", || {
        for _ in 0..50 {
            posted += 1;
            post(&members[0], &format!("<{posted}@full.example>"));
        }
        members[1].page("/ready") == 503
    });
    let state = members[1].state();
    assert!(state.contains("waits for its spool"), "{state}");
    let answer = members[1].client().post("<refused@full.example>", "test.a").unwrap();
    assert!(answer.starts_with("44"), "{answer}");
    assert!(members[1].client().ask("STAT <1@full.example>").unwrap().starts_with("223"));
    std::fs::remove_file(&filler).unwrap();
    wait_until("it follows again", || members[1].page("/ready") == 200);
    await_same_digest(&members);
    assert_eq!(overview(&mut members[0].client()), overview(&mut members[1].client()));
    members.iter_mut().for_each(Member::stop);
}

#[test]
fn an_invalid_message_in_the_log_stops_all_members_alike_and_readers_are_served() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("invalid");
    let mut nodes = Nodes::start(program, &scratch.0, 3, "always");
    let mut members = members_of(&["fe1", "fe2"], &scratch, &nodes, "");
    post(&members[0], "<1@invalid.example>");
    await_same_digest(&members);
    let before = members[0].digest();
    let answer = RawClient::connect(&nodes).request("nr.three.log", b"This is no message of a member.");
    assert!(answer.contains("\"seq\""), "{answer}");
    for member in &members {
        wait_until("the member stops", || member.page("/ready") == 503);
        let state = member.state();
        assert!(state.starts_with("has stopped: ") && state.contains("message "), "{state}");
        let answer = member.client().post("<refused@invalid.example>", "test.a").unwrap();
        assert!(answer.starts_with("44"), "{answer}");
        assert!(member.client().ask("STAT <1@invalid.example>").unwrap().starts_with("223"));
        assert_eq!(member.digest(), before);
    }
    members.iter_mut().for_each(Member::stop);
    let told = refused_start(&members[0]);
    assert!(told.contains("has stopped: "), "{told}");
    // Nodes that were made to acknowledge before they sync are refused by every start, too.
    (0..3).for_each(|node| nodes.kill(node));
    nodes.sync = "2m";
    (0..3).for_each(|node| nodes.run(node));
    let told = refused_start(&members[1]);
    assert_eq!(told.matches("acknowledges before it syncs").count(), 3, "{told}");
}

#[test]
fn the_log_of_another_cluster_is_refused_and_never_applied() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("foreign");
    let nodes = Nodes::start(program, &scratch.0, 3, "always");
    let mut members = members_of(&["fe1"], &scratch, &nodes, "");
    post(&members[0], "<1@foreign.example>");
    let before = members[0].digest();
    // Its log is deleted, and another site creates one of the same name.
    let mut raw = RawClient::connect(&nodes);
    for stream in ["NR_three_LOG", "KV_NR_three_STATE"] {
        let answer = raw.request(&format!("$JS.API.STREAM.DELETE.{stream}"), b"");
        assert!(answer.contains("\"success\":true"), "{answer}");
    }
    let other = Scratch(scratch.0.join("other"));
    std::fs::create_dir_all(&other.0).unwrap();
    let others = members_of(&["fe1"], &other, &nodes, "");
    post(&others[0], "<other@foreign.example>");
    wait_until("the member stops", || members[0].page("/ready") == 503);
    let state = members[0].state();
    assert_eq!(state, "has stopped: the log was created again");
    let answer = members[0].client().post("<refused@foreign.example>", "test.a").unwrap();
    assert!(answer.starts_with("44"), "{answer}");
    assert!(members[0].client().ask("STAT <1@foreign.example>").unwrap().starts_with("223"));
    assert!(members[0].client().ask("STAT <other@foreign.example>").unwrap().starts_with("430"));
    assert_eq!(members[0].digest(), before);
    members[0].stop();
    let told = refused_start(&members[0]);
    assert!(told.contains("the log is that of cluster"), "{told}");
}
