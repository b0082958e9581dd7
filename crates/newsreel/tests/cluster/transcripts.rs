//! The transcripts, played to each member of a cluster, and through a balancer that changes members between
//! commands.
//!
//! The balancer keeps a connection to each member for each of its clients. What brings an article goes to one
//! member, the next one each time. Everything else goes to all of them, so that they have the same group and
//! article selected, and must answer alike; the next one's answer is passed on.

#[path = "../main/transcripts/play.rs"]
#[allow(dead_code)]
mod play;
#[path = "../main/transcripts/script.rs"]
#[allow(dead_code)]
mod script;
#[path = "../main/test_site.rs"]
#[allow(dead_code)]
mod test_site;

use crate::client::Client;
use crate::nodes::{Nodes, Scratch, program};
use crate::{Member, await_same_digest, done, newsreel, told_a_line};
use disk::RealDisk;
use play::{Report, Stage, play};
use script::{Script, Step, Who, is_multi_line};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Verbs that bring an article.
const BRINGING: [&str; 4] = ["POST", "IHAVE", "CHECK", "TAKETHIS"];

/// Transcripts that are not played: site-wide marks of their own, and raw octets by count.
const NOT_PLAYED: [&str; 3] = ["numbers", "old_clients", "batches"];

/// Two members of one site, made for a transcript.
struct TestCluster {
    members: Vec<Member>,
    /// Address that clients connect to, if it is not a member's.
    balancer: Option<SocketAddr>,
    /// Member to which clients connect without a balancer.
    at: usize,
}

impl TestCluster {
    /// Makes the cluster of the test site, under a name of its own.
    fn make(nodes: &Nodes, scratch: &Scratch, site: &str) -> Vec<Member> {
        let mut members = ["fe1", "fe2"].map(|name| Member::new(scratch, name));
        for member in &mut members {
            member.dir = scratch.0.join(site).join(member.name);
            std::fs::create_dir_all(&member.dir).unwrap();
            let cluster = member.section(nodes).replace("site = \"three\"", &format!("site = \"{site}\""));
            let listen = format!("listen = [\"127.0.0.1:{}\"]", member.port);
            let change = |text: String| {
                let text = text.replace("listen = [\"127.0.0.1:0\"]", &listen);
                text.replace("name = \"text\"\n", "name = \"text\"\nring = \"16 MiB\"\n") + &cluster
            };
            let (_, spool) = test_site::make(Arc::new(RealDisk::new()), &member.dir, change);
            spool.close().unwrap();
            drop(spool);
            if member.name == "fe1" {
                done(&member.dir, &["cluster", "create"]);
                member.serve();
            }
        }
        let [first, mut second] = members;
        // The groups come from the log, the texts for LIST do not.
        let data = second.dir.join("data");
        for entry in std::fs::read_dir(&data).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true if path.ends_with("lists") => {}
                true => std::fs::remove_dir_all(path).unwrap(),
                false => std::fs::remove_file(path).unwrap(),
            }
        }
        std::fs::copy(first.dir.join("cluster.key"), second.dir.join("cluster.key")).unwrap();
        done(&first.dir, &["cluster", "invite", "fe2"]);
        done(&second.dir, &["cluster", "join"]);
        second.serve();
        vec![first, second]
    }
}

impl Stage for TestCluster {
    fn address(&self, _: Who) -> SocketAddr {
        self.balancer.unwrap_or_else(|| ([127, 0, 0, 1], self.members[self.at].port).into())
    }

    fn operate(&self, words: &[&str]) -> bool {
        let dir = &self.members[self.at].dir;
        let ok = |words: &[&str]| newsreel(dir, words).status.success();
        match words {
            ["cancel", id] => ok(&["cancel", id]),
            ["newgroup", name, flag] => ok(&["group", "add", name, "--flag", flag]),
            ["changegroup", name, flag] => ok(&["group", "set", name, "--flag", flag]),
            ["rmgroup", name] => ok(&["group", "remove", name]),
            ["user", name, password @ ..] => {
                let added = told_a_line(dir, &["user", "add", name], &format!("{}\n", password.join(" ")));
                // The file of users comes to other members within seconds.
                std::thread::sleep(std::time::Duration::from_secs(8));
                added.status.success()
            }
            _ => false,
        }
    }
}

/// Listens for clients, and serves each through all members; returns the address. Answers that differ between
/// members are noted. The thread ends with the process.
fn balancer(ports: Vec<u16>, differences: Arc<Mutex<Vec<String>>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, ports, differences) = (client.unwrap(), ports.clone(), differences.clone());
            std::thread::spawn(move || {
                let members = ports.iter().map(|port| Client::connect(([127, 0, 0, 1], *port).into()));
                let session = BalancedSession {
                    client: BufReader::new(client),
                    members: members.collect(),
                    next: 0,
                    differences,
                };
                session.serve();
            });
        }
    });
    address
}

/// A client, and its connections to all members.
struct BalancedSession {
    client: BufReader<TcpStream>,
    members: Vec<Client>,
    /// Member whose turn it is.
    next: usize,
    differences: Arc<Mutex<Vec<String>>>,
}

impl BalancedSession {
    /// Passes commands on until one side closes.
    fn serve(mut self) -> Option<()> {
        self.answer_of_all(b"")?;
        loop {
            let mut command = Vec::new();
            if self.client.read_until(b'\n', &mut command).ok()? == 0 {
                return None;
            }
            self.next = (self.next + 1) % self.members.len();
            let text = String::from_utf8_lossy(&command).trim_ascii().to_ascii_uppercase();
            let verb = text.split_ascii_whitespace().next().unwrap_or_default();
            if verb == "CHECK" {
                self.freshen();
            }
            let status = match BRINGING.contains(&verb) {
                true => self.bring(&command, verb)?,
                false => {
                    self.members.iter_mut().for_each(|member| _ = member.try_send(&command));
                    self.answer_of_all(&command)?
                }
            };
            if [b"205", b"400"].iter().any(|code| status.starts_with(*code)) {
                return None;
            }
        }
    }

    /// Has all members apply what the log has: CHECK is answered from what a member knows, but a question for
    /// an unknown Message-ID waits until the member has caught up.
    fn freshen(&mut self) {
        for member in &mut self.members {
            member.try_send(b"STAT <nowhere@three.example>\r\n");
            let _ = member.raw_line();
        }
    }

    /// Reads the answers of all members, and passes that of the next one on; returns its first line.
    fn answer_of_all(&mut self, command: &[u8]) -> Option<Vec<u8>> {
        let answers: Vec<Vec<u8>> =
            self.members.iter_mut().map(|member| answer(member, command)).collect::<Option<_>>()?;
        let is_time = command.trim_ascii().eq_ignore_ascii_case(b"DATE");
        if !is_time && answers.iter().any(|other| *other != answers[0]) {
            let texts: Vec<_> = answers.iter().map(|answer| String::from_utf8_lossy(answer)).collect();
            let told = format!("{}: {texts:#?}", String::from_utf8_lossy(command));
            self.differences.lock().unwrap().push(told);
        }
        let answer = &answers[self.next];
        self.client.get_mut().write_all(answer).ok()?;
        answer.split_inclusive(|byte| *byte == b'\n').next().map(<[u8]>::to_vec)
    }

    /// Passes a command that brings an article on to the next member, with the article; returns the answer.
    fn bring(&mut self, command: &[u8], verb: &str) -> Option<Vec<u8>> {
        let mut sent = command.to_vec();
        if verb == "TAKETHIS" {
            sent.extend(self.article()?);
        }
        let mut status = self.exchange(&sent)?;
        if status.starts_with(b"335") || status.starts_with(b"340") {
            let article = self.article()?;
            status = self.exchange(&article)?;
        }
        Some(status)
    }

    fn exchange(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let member = &mut self.members[self.next];
        member.try_send(bytes);
        let status = member.raw_line()?;
        self.client.get_mut().write_all(&status).ok()?;
        Some(status)
    }

    /// Reads lines of the client up to a final dot.
    fn article(&mut self) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let begun = all.len();
            if self.client.read_until(b'\n', &mut all).ok()? == 0 {
                return None;
            }
            if all[begun..] == *b".\r\n" {
                return Some(all);
            }
        }
    }
}

/// Reads the answer of a member to a command; `None` at the end of the connection.
fn answer(member: &mut Client, command: &[u8]) -> Option<Vec<u8>> {
    let mut answer = member.raw_line()?;
    let status = String::from_utf8_lossy(&answer).into_owned();
    while is_multi_line(command, &status) && !(answer.ends_with(b"\r\n.\r\n")) {
        answer.extend(member.raw_line()?);
    }
    Some(answer)
}

fn scripts() -> Vec<Script> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let only = std::env::var("NEWSREEL_TEST_TRANSCRIPT").ok();
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    let mut scripts: Vec<Script> = files.iter().map(|file| Script::read(file)).collect();
    scripts.retain(|script| {
        let is_meant = only.as_ref().is_none_or(|only| script.name.contains(only.as_str()));
        is_meant && !NOT_PLAYED.iter().any(|name| script.name.contains(name))
    });
    scripts
}

/// Plays each transcript to a cluster of its own, as `stage` makes it of the members; all answers must be as
/// expected, and all members the same in the end.
fn play_all(scratch: &Scratch, nodes: &Nodes, stage: impl Fn(usize, Vec<Member>) -> TestCluster) {
    let mut report = Report::default();
    for (at, script) in scripts().iter().enumerate() {
        let members = TestCluster::make(nodes, scratch, &format!("t{at}"));
        let cluster = stage(at, members);
        let had_operators = script.steps.iter().any(|step| matches!(step, Step::Operator { .. }));
        play(script, &cluster, &mut report);
        await_same_digest(&cluster.members);
        println!("{}{}", script.name, if had_operators { ", with an operator" } else { "" });
    }
    let told: Vec<String> = report.otherwise.iter().map(ToString::to_string).collect();
    assert!(told.is_empty(), "\n{}", told.join("\n"));
    println!("{} exchanges", report.played);
}

#[test]
fn members_answer_the_transcripts() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("transcripts");
    let nodes = Nodes::start(program, &scratch.0, 3, "always");
    play_all(&scratch, &nodes, |at, members| TestCluster { members, balancer: None, at: at % 2 });
}

#[test]
fn members_that_change_between_commands_answer_the_transcripts() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("balanced");
    let nodes = Nodes::start(program, &scratch.0, 3, "always");
    let differences = Arc::new(Mutex::new(Vec::new()));
    play_all(&scratch, &nodes, |_, members| {
        let ports = members.iter().map(|member| member.port).collect();
        TestCluster { balancer: Some(balancer(ports, differences.clone())), members, at: 0 }
    });
    let differences = differences.lock().unwrap();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
