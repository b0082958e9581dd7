//! What harms a cluster from outside: each is reported, nothing is lost, and members do not diverge.

use crate::blows::{make_peer, signal};
use crate::nodes::{Nodes, Scratch, WAIT_MAX, program, wait_until};
use crate::{Client, Member, await_same_digest, done, members_of, newsreel, overview};
use disk::RealDisk;
use spool::{Change, GroupUpdate, Spool};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

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

/// Days by which the clocks of members are wrong.
const YEAR: [(usize, &str, &str); 2] = [(1, "+366d", "ahead of"), (2, "-366d", "behind")];
/// Classes of a site that keeps articles for a while, and then removes them.
const EXPIRING: &str = "\n[[class]]\nname = \"kept\"\nmethod = \"appendonly\"\nfile_size = \"16 MiB\"\n\n\
                        [[expire]]\ngroups = \"test.*\"\nkeep = \"100 days\"\n";

/// The library that shifts the clock of a program (Debian's package libfaketime).
fn shifts_clocks() -> Option<PathBuf> {
    let found = std::fs::read_dir("/usr/lib").ok()?.flatten().find_map(|entry| {
        let file = entry.path().join("faketime/libfaketimeMT.so.1");
        file.is_file().then_some(file)
    });
    if found.is_none() {
        let why = "skipped: libfaketime is not installed, which shifts clocks";
        assert!(std::env::var_os("CI").is_none(), "{why}");
        let _ = writeln!(std::io::stderr(), "{why}");
    }
    found
}

#[test]
fn members_whose_clocks_are_a_year_off_accept_nothing_and_say_so_and_lose_nothing() {
    let (Some(program), Some(library)) = (program(), shifts_clocks()) else { return };
    let scratch = Scratch::new("clocks");
    let nodes = Nodes::start(program, &scratch.0, 3, "always");
    let mut peer = make_peer(&scratch);
    peer.serve();
    let more = format!(
        "{EXPIRING}\n[[peer]]\nname = \"to.peer\"\naddresses = [\"127.0.0.2\"]\n[peer.send]\nto = \"127.0.0.1:{}\"\n",
        peer.port
    );
    let mut members = members_of(&["fe1", "fe2", "fe3"], &scratch, &nodes, &more);
    let mut posted = Vec::new();
    let mut post_some = |member: &Member| {
        for _ in 0..5 {
            let id = format!("<{}@clocks.example>", posted.len());
            post(member, &id);
            posted.push(id);
        }
        posted.clone()
    };
    members.iter().for_each(|member| drop(post_some(member)));
    for (at, shift, _) in YEAR {
        members[at].stop();
        let library = library.to_str().unwrap().to_owned();
        let variables = [("LD_PRELOAD", library), ("FAKETIME", shift.to_owned())];
        members[at].environment.extend(variables);
        // Only the time of day is wrong.
        for variable in ["FAKETIME_DONT_FAKE_MONOTONIC", "DONT_FAKE_MONOTONIC", "NO_FAKE_STAT"] {
            members[at].environment.push((variable, "1".to_owned()));
        }
        members[at].serve();
        members[at].environment.clear();
    }
    let ids = post_some(&members[0]);
    for (at, _, side) in YEAR {
        let member = &members[at];
        wait_until("it says that its clock is wrong", || member.state().contains(side));
        assert!(member.state().contains("the clock of this machine is 31622"), "{}", member.state());
        assert_eq!(member.page("/ready"), 503);
        let answer = member.client().post("<refused@clocks.example>", "test.a").unwrap();
        assert!(answer.starts_with("44"), "{answer}");
        let answer = member.client().ask("CHECK <refused@clocks.example>").unwrap();
        assert!(answer.starts_with("431"), "{answer}");
        // Nothing is due by its clock.
        let expired = newsreel(&member.dir, &["expire"]);
        let is_refused = String::from_utf8_lossy(&expired.stderr).contains("the clock of this machine is");
        assert!(is_refused || expired.stdout.starts_with(b"0 of "), "{expired:?}");
        for id in &ids {
            let found = member.client().ask(&format!("STAT {id}")).unwrap();
            assert!(found.starts_with("223"), "{id}: {found}");
        }
        let status = || done(&members[0].dir, &["cluster", "status"]);
        wait_until("others see it", || status().contains(&format!("s {side} those of the log")));
    }
    assert_eq!(members[0].page("/ready"), 200);
    post_some(&members[0]);
    await_same_digest(&members);
    // Put right, each is as any other.
    for (at, ..) in YEAR {
        members[at].stop();
        members[at].serve();
        wait_until("its clock is right", || members[at].page("/ready") == 200);
    }
    members.iter().for_each(|member| drop(post_some(member)));
    let ids = post_some(&members[0]);
    await_same_digest(&members);
    for member in members.iter().chain([&peer]) {
        wait_until("all of it is there", || {
            let mut client = member.client();
            ids.iter().all(|id| client.ask(&format!("STAT {id}")).unwrap().starts_with("223"))
        });
    }
    members.iter_mut().for_each(Member::stop);
}

#[test]
fn a_member_that_gives_other_numbers_stops_serving_and_joins_again() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("diverged");
    let nodes = Nodes::start(program, &scratch.0, 3, "always");
    let mut members = members_of(&["fe1", "fe2", "fe3"], &scratch, &nodes, "");
    // A bug, or a bad disk: a mark of the third is higher than the log says.
    members[2].stop();
    let config = site_config::load(&members[2].dir.join("newsreel.toml")).unwrap();
    let (spool, _) = Spool::open(Arc::new(RealDisk::new()), config.spool_config(), &()).unwrap();
    let position = spool.position().unwrap();
    let raised = [GroupUpdate::RaiseHigh("test.a".into(), 5_000)];
    let changes = [Change::Groups(&raised), Change::Position { record: &position }];
    spool.apply(1, &changes, &mut Vec::new()).unwrap();
    spool.close().unwrap();
    drop(spool);
    members[2].serve();
    // Many at a time, as each is a message.
    let ports = [members[0].port, members[1].port];
    let next = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for at in 0..8 {
            let (next, is_over, port) = (&next, &is_over, ports[at % 2]);
            scope.spawn(move || {
                let mut client = Client::connect(port).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    let id = format!("<{}@diverged.example>", next.fetch_add(1, Ordering::Relaxed));
                    let answer = client.take_this(&id, "test.a").unwrap();
                    assert!(answer.starts_with("239"), "{answer}");
                }
            });
        }
        let child = members[2].running.as_mut().unwrap();
        let mut has_ended = false;
        // Two windows of messages at most.
        let begun = Instant::now();
        while !has_ended && begun.elapsed() < 4 * WAIT_MAX {
            std::thread::sleep(Duration::from_millis(100));
            has_ended = child.try_wait().unwrap().is_some();
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(has_ended, "the third still serves");
    });
    members[2].running = None;
    let told = std::fs::read_to_string(members[2].log()).unwrap();
    assert!(told.contains("its news differ from those of the other members, as of message"), "{told}");
    let status = done(&members[0].dir, &["cluster", "status"]);
    assert!(status.contains("its news differ"), "{status}");
    let told = refused_start(&members[2]);
    assert!(told.contains("its news differ") && told.contains("cluster join --replace"), "{told}");
    // The others agree, and go on.
    await_same_digest(&members[..2]);
    assert!(members[..2].iter().all(|member| member.page("/ready") == 200));
    crate::operating::lose_disk(&members[2]);
    std::fs::copy(members[0].dir.join("cluster.key"), members[2].dir.join("cluster.key")).unwrap();
    wait_until("the third is known to be away", || {
        newsreel(&members[2].dir, &["cluster", "join", "--replace"]).status.success()
    });
    members[2].serve();
    post(&members[2], "<after@diverged.example>");
    await_same_digest(&members);
    members.iter_mut().for_each(Member::stop);
}

#[test]
fn a_cluster_is_created_while_the_nodes_of_its_log_elect_a_leader() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("electing");
    let nodes = Nodes::start(program, &scratch.0, 3, "always");
    let member = Member::new(&scratch, "fe1");
    done(&member.dir, &["init", "--buffer", "32 MiB", "--path-identity", "news.three.example"]);
    let text = std::fs::read_to_string(member.dir.join("newsreel.toml")).unwrap();
    member.configure(&nodes, &text.replace("[[class]]\n", "[[class]]\nring = \"8 MiB\"\n"));
    let pids: Vec<u32> = nodes.running[1..].iter().map(|node| node.as_ref().unwrap().id()).collect();
    pids.iter().for_each(|pid| signal("-STOP", *pid));
    let told = std::thread::scope(|scope| {
        let created = scope.spawn(|| done(&member.dir, &["cluster", "create"]));
        // Longer than a leader is kept, and than one question is waited for.
        std::thread::sleep(Duration::from_secs(12));
        assert!(!created.is_finished(), "created without a quorum");
        pids.iter().for_each(|pid| signal("-CONT", *pid));
        created.join().unwrap()
    });
    assert!(told.contains("its first member"), "{told}");
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
    wait_until("its jobs are done by the other", || {
        members[0].jobs_of("fe2") == 0 && members[0].jobs_of("fe1") > 0
    });
    let answer = members[1].client().post("<refused@full.example>", "test.a").unwrap();
    assert!(answer.starts_with("44"), "{answer}");
    assert!(members[1].client().ask("STAT <1@full.example>").unwrap().starts_with("223"));
    // So it does after a start, which says what is wrong.
    members[1].kill();
    post(&members[0], "<meanwhile@full.example>");
    members[1].serve();
    wait_until("it says that its disk is full", || members[1].state().contains("waits for its spool"));
    let told = std::fs::read_to_string(members[1].log()).unwrap();
    assert!(told.contains("what the log has cannot be applied: readers are served"), "{told}");
    assert_eq!(members[1].page("/ready"), 503);
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
        let is_logged =
            || std::fs::read_to_string(member.log()).unwrap().contains("the member has stopped: ");
        wait_until("the reason is in its log", is_logged);
        let answer = member.client().post("<refused@invalid.example>", "test.a").unwrap();
        assert!(answer.starts_with("44"), "{answer}");
        assert!(member.client().ask("STAT <1@invalid.example>").unwrap().starts_with("223"));
        assert_eq!(member.digest(), before);
    }
    members.iter_mut().for_each(Member::stop);
    // Readers are served after a restart, too.
    members[0].serve();
    assert_eq!(members[0].page("/ready"), 503);
    assert!(members[0].client().ask("STAT <1@invalid.example>").unwrap().starts_with("223"));
    let state = members[0].state();
    assert!(state.starts_with("has stopped: ") && state.contains("newsreel restore"), "{state}");
    members[0].stop();
    // Nodes that were made to acknowledge before they sync are refused by every start, too.
    (0..3).for_each(|node| nodes.kill(node));
    nodes.sync = "2m";
    (0..3).for_each(|node| nodes.run(node));
    let told = refused_start(&members[1]);
    assert_eq!(told.matches("acknowledges before it syncs").count(), 3, "{told}");
}

/// Checks that a member takes no posts, and that readers get an article that it has.
fn accepts_nothing_and_serves(member: &Member, id: &str) {
    assert_eq!(member.page("/ready"), 503);
    let answer = member.client().post("<refused@three.example>", "test.a").unwrap();
    assert!(answer.starts_with("44"), "{answer}");
    assert!(member.client().ask(&format!("STAT {id}")).unwrap().starts_with("223"));
}

#[test]
fn an_older_copy_of_the_log_is_noticed_and_not_applied() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("older");
    let mut nodes = Nodes::start(program, &scratch.0, 3, "always");
    let mut members = members_of(&["fe1", "fe2"], &scratch, &nodes, "");
    post(&members[0], "<0@older.example>");
    await_same_digest(&members);
    // Copied as by a backup of the nodes, and put back later.
    let of_node = |node: usize, name: &str| scratch.0.join(format!("n{node}/{name}"));
    let copy = |from: &str, to: &str| {
        for node in 0..3 {
            let to = of_node(node, to);
            let _absent = std::fs::remove_dir_all(&to);
            let copied = Command::new("cp").arg("-a").args([of_node(node, from), to]).status().unwrap();
            assert!(copied.success());
        }
    };
    (0..3).for_each(|node| nodes.kill(node));
    copy("data", "old");
    (0..3).for_each(|node| nodes.run(node));
    wait_until("articles are accepted", || members.iter().all(|member| member.page("/ready") == 200));
    (1..30).for_each(|n| post(&members[n % 2], &format!("<{n}@older.example>")));
    await_same_digest(&members);
    let before = members[0].digest();
    (0..3).for_each(|node| nodes.kill(node));
    copy("old", "data");
    (0..3).for_each(|node| nodes.run(node));
    for member in &members {
        wait_until("it is noticed", || member.state().contains("it is an older copy"));
        accepts_nothing_and_serves(member, "<29@older.example>");
        assert_eq!(member.digest(), before);
    }
    members.iter_mut().for_each(Member::stop);
    let told = refused_start(&members[0]);
    assert!(told.contains("it is an older copy") && told.contains("newsreel restore"), "{told}");
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
    assert!(state.starts_with("has stopped: the log was created again"), "{state}");
    let answer = members[0].client().post("<refused@foreign.example>", "test.a").unwrap();
    assert!(answer.starts_with("44"), "{answer}");
    assert!(members[0].client().ask("STAT <1@foreign.example>").unwrap().starts_with("223"));
    assert!(members[0].client().ask("STAT <other@foreign.example>").unwrap().starts_with("430"));
    assert_eq!(members[0].digest(), before);
    members[0].stop();
    let told = refused_start(&members[0]);
    assert!(told.contains("the log is that of cluster"), "{told}");
}

#[test]
fn a_deleted_log_is_named_and_readers_are_served() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("deleted");
    let nodes = Nodes::start(program, &scratch.0, 3, "always");
    let members = members_of(&["fe1", "fe2"], &scratch, &nodes, "");
    post(&members[0], "<1@deleted.example>");
    await_same_digest(&members);
    let answer = RawClient::connect(&nodes).request("$JS.API.STREAM.DELETE.NR_three_LOG", b"");
    assert!(answer.contains("\"success\":true"), "{answer}");
    for member in &members {
        wait_until("it is noticed", || member.state().contains("the engine no longer has the log"));
        accepts_nothing_and_serves(member, "<1@deleted.example>");
    }
}
