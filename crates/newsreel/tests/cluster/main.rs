//! Three servers of one site, with three nodes of a real engine: what one accepts, all have, under the same
//! number, while a member and a node are killed. Without nats-server (2.15.2 or later, in PATH or named by
//! `NEWSREEL_NATS_SERVER`) the tests are skipped with a message, or fail if CI is set.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod bench;
mod blows;
mod chapter;
mod client;
mod enemies;
mod links;
#[path = "../../../cluster/tests/nodes/mod.rs"]
mod nodes;
mod operating;
mod reading;
mod transcripts;

use links::Link;
use nodes::{Nodes, Scratch, WAIT_MAX, free_port, program, wait_until};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const GROUPS: &str = "test.a y For a test\ntest.b y For a test\n";

/// Runs a command of newsreel.
fn newsreel(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_newsreel"))
        .args(words)
        .arg("--dir")
        .arg(dir)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Runs a command of newsreel that reads a line.
fn told_a_line(dir: &Path, words: &[&str], line: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_newsreel"))
        .args(words)
        .arg("--dir")
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Runs a command of newsreel that succeeds; returns what it prints.
fn done(dir: &Path, words: &[&str]) -> String {
    let output = newsreel(dir, words);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{words:?}: {out}{err}");
    out.into_owned()
}

/// A server of the site.
struct Member {
    name: &'static str,
    dir: PathBuf,
    port: u16,
    web: u16,
    /// Variables of the environment in which it runs.
    environment: Vec<(&'static str, String)>,
    running: Option<Child>,
}

impl Member {
    fn new(scratch: &Scratch, name: &'static str) -> Self {
        let (port, web) = (free_port(), free_port());
        Self { name, dir: scratch.0.join(name), port, web, environment: Vec::new(), running: None }
    }

    /// Returns the section of the configuration that names this member of the cluster.
    fn section(&self, nodes: &Nodes) -> String {
        let all = |at: usize| {
            let address = |ports: &[u16; 3]| format!("\"127.0.0.1:{}\"", ports[at]);
            nodes.ports.iter().map(address).collect::<Vec<_>>().join(", ")
        };
        format!(
            "\n[cluster]\nservers = [{}]\nmonitor = [{}]\nsite = \"three\"\nmember = \"{}\"\nlog_size = \"256 MiB\"\n",
            all(0),
            all(2),
            self.name
        )
    }

    /// Writes the configuration, which names this member of the cluster.
    fn configure(&self, nodes: &Nodes, text: &str) {
        std::fs::create_dir_all(&self.dir).unwrap();
        std::fs::write(self.dir.join("newsreel.toml"), text.to_owned() + &self.section(nodes)).unwrap();
    }

    /// Changes the configuration.
    fn edit(&self, change: impl FnOnce(String) -> String) {
        let file = self.dir.join("newsreel.toml");
        let text = change(std::fs::read_to_string(&file).unwrap());
        std::fs::write(file, text).unwrap();
    }

    /// Has this member reach the nodes through links from its next start on.
    fn connect_through(&self, nodes: &Nodes, links: &[Link]) {
        self.edit(|text| {
            let ports = nodes.ports.iter().zip(links);
            ports.fold(text, |text, (node, link)| {
                text.replace(&format!("127.0.0.1:{}\"", node[0]), &format!("127.0.0.1:{}\"", link.port))
            })
        });
    }

    /// Returns the state of the member, as `newsreel status` says it.
    fn state(&self) -> String {
        let report: serde_json::Value =
            serde_json::from_str(&done(&self.dir, &["status", "--json"])).unwrap();
        report["server"]["cluster"]["state"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the number of jobs that another member does, as this one knows.
    fn jobs_of(&self, name: &str) -> u64 {
        let report: serde_json::Value =
            serde_json::from_str(&done(&self.dir, &["status", "--json"])).unwrap();
        let members = report["server"]["cluster"]["members"].as_array().unwrap();
        let member = members.iter().find(|member| member["name"] == name);
        // Not yet known.
        member.and_then(|member| member["leases"].as_u64()).unwrap_or_default()
    }

    /// Starts the server, and waits until it answers.
    fn serve(&mut self) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_newsreel"));
        let child = command
            .args(["serve", "--dir"])
            .arg(&self.dir)
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.running = Some(child);
        wait_until(&format!("{} serves", self.name), || {
            let has_ended = self.running.as_mut().is_some_and(|child| child.try_wait().unwrap().is_some());
            assert!(!has_ended, "{}: {}", self.name, std::fs::read_to_string(self.log()).unwrap());
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    fn log(&self) -> PathBuf {
        self.dir.with_extension("log")
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.running.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Ends the server in good order.
    fn stop(&mut self) {
        let mut child = self.running.take().unwrap();
        assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        let mut has_ended = None;
        wait_until("the server ends", || {
            has_ended = child.try_wait().unwrap();
            has_ended.is_some()
        });
        let log = std::fs::read_to_string(self.log()).unwrap();
        assert!(has_ended.unwrap().success(), "{log}");
    }

    fn client(&self) -> Client {
        Client::connect(self.port).unwrap()
    }

    /// Returns the status of a page.
    fn page(&self, path: &str) -> u16 {
        let mut stream = TcpStream::connect(("127.0.0.1", self.web)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Returns the digest of the news.
    fn digest(&self) -> String {
        let report: serde_json::Value =
            serde_json::from_str(&done(&self.dir, &["status", "--json"])).unwrap();
        report["spool"]["digest"].as_str().unwrap().to_owned()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A client of a server; `None` of its answers: the connection has ended.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(port: u16) -> Option<Self> {
        Self::of(TcpStream::connect(("127.0.0.1", port)).ok()?)
    }

    /// Returns the client of a connection that has been greeted.
    fn of(stream: TcpStream) -> Option<Self> {
        stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
        Self::greeted(stream)
    }

    /// Like [`Client::of`], with the read timeout that the connection has.
    fn greeted(stream: TcpStream) -> Option<Self> {
        let mut client = Self(BufReader::new(stream));
        client.line()?.starts_with("20").then_some(client)
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let read = self.0.read_until(b'\n', &mut line).ok()?;
        (read > 0).then(|| String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    fn send(&mut self, text: &str) -> Option<()> {
        self.0.get_mut().write_all(text.as_bytes()).ok()
    }

    fn ask(&mut self, command: &str) -> Option<String> {
        self.send(&format!("{command}\r\n"))?;
        self.line()
    }

    /// Returns the lines of an answer of several lines, without the first.
    fn lines(&mut self, command: &str) -> Vec<String> {
        let first = self.ask(command).unwrap();
        assert!(first.starts_with('2'), "{command}: {first}");
        std::iter::repeat_with(|| self.line().unwrap()).take_while(|line| line != ".").collect()
    }

    fn post(&mut self, id: &str, group: &str) -> Option<String> {
        let first = self.ask("POST")?;
        if !first.starts_with("340") {
            return Some(first);
        }
        self.ask(&format!(
            "From: a@x.example\r\nNewsgroups: {group}\r\nSubject: a post\r\nMessage-ID: {id}\r\n\r\nA line.\r\n."
        ))
    }

    fn take_this(&mut self, id: &str, group: &str) -> Option<String> {
        let article = format!(
            "Path: peer.example!not-for-mail\r\nFrom: a@x.example\r\nNewsgroups: {group}\r\nSubject: fed\r\n\
             Message-ID: {id}\r\nDate: {DATE}\r\n\r\nA line.\r\n"
        );
        self.ask(&format!("TAKETHIS {id}\r\n{article}."))
    }
}

/// Date of what is fed; the site takes articles of any age.
const DATE: &str = "Sat, 21 Nov 2026 10:00:00 +0000";

/// Returns the overview of both groups, with all numbers.
fn overview(client: &mut Client) -> Vec<String> {
    let mut all = Vec::new();
    for group in ["test.a", "test.b"] {
        let marks = client.ask(&format!("GROUP {group}")).unwrap();
        assert!(marks.starts_with("211"), "{marks}");
        if !marks.starts_with("211 0 ") {
            all.extend(client.lines("OVER 1-").into_iter().map(|line| format!("{group} {line}")));
        }
        all.push(marks);
    }
    all
}

/// Takes the filters of an open site out of a configuration: they are in a paragraph of their own.
fn without_spam(text: String) -> String {
    let is_other = |part: &&str| !part.contains("\n[spam]\n");
    text.split("\n\n").filter(is_other).collect::<Vec<_>>().join("\n\n")
}

/// Makes members of a new site, all of which serve, with more sections in their configurations.
fn members_of(names: &[&'static str], scratch: &Scratch, nodes: &Nodes, more: &str) -> Vec<Member> {
    let (first, others) = names.split_first().unwrap();
    let groups = scratch.0.join("groups");
    std::fs::write(&groups, GROUPS).unwrap();
    let mut first = Member::new(scratch, first);
    let listen = format!("127.0.0.1:{}", first.port);
    let web = format!("127.0.0.1:{}", first.web);
    done(
        &first.dir,
        &[
            "init",
            "--listen",
            &listen,
            "--web-listen",
            &web,
            "--buffer",
            "32 MiB",
            "--peer",
            "127.0.0.1",
            "--max-age",
            "none",
            "--path-identity",
            "news.three.example",
            "--groups",
            groups.to_str().unwrap(),
        ],
    );
    let text = without_spam(std::fs::read_to_string(first.dir.join("newsreel.toml")).unwrap()) + more;
    first.configure(nodes, &text);
    let refused = newsreel(&first.dir, &["cluster", "create"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("class `text` has no ring"), "{refused:?}");
    let text = text.replace("[[class]]\nname = \"text\"\n", "[[class]]\nname = \"text\"\nring = \"8 MiB\"\n");
    // Articles go to the second class, if there is one.
    let text = match text.contains("name = \"kept\"") {
        true => text.replace("[[rule]]\n", "[[rule]]\nclass = \"kept\"\ngroups = \"test.*\"\n\n[[rule]]\n"),
        false => text,
    };
    first.configure(nodes, &text);
    let told = done(&first.dir, &["cluster", "create"]);
    assert!(told.contains("its first member"), "{told}");
    let again = newsreel(&first.dir, &["cluster", "create"]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("belongs to a cluster already"));
    first.serve();
    // What is there before the others join is theirs, too.
    let answer = first.client().post("<before@three.example>", "test.a,test.b").unwrap();
    assert!(answer.starts_with("240"), "{answer}");
    let mut members = vec![first];
    for name in others {
        let mut member = Member::new(scratch, name);
        let file = scratch.0.join(format!("{name}.snapshot"));
        let told = done(&members[0].dir, &["cluster", "invite", name, file.to_str().unwrap()]);
        assert!(told.contains("newsreel cluster join"), "{told}");
        // Other buffers than the first member has: rings decide what stays.
        let own = text.replace("\"32 MiB\"", "\"24 MiB\"");
        let own = own.replace(&listen, &format!("127.0.0.1:{}", member.port));
        member.configure(nodes, &own.replace(&web, &format!("127.0.0.1:{}", member.web)));
        let key = members[0].dir.join("cluster.key");
        std::fs::copy(key, member.dir.join("cluster.key")).unwrap();
        // What is posted between the snapshot and the start comes from the log.
        let answer = members[0].client().post(&format!("<{name}@three.example>"), "test.b").unwrap();
        assert!(answer.starts_with("240"), "{answer}");
        let told = done(&member.dir, &["cluster", "join", "--snapshot", file.to_str().unwrap()]);
        assert!(told.contains("joined with"), "{told}");
        member.serve();
        members.push(member);
    }
    members
}

/// Describes how members differ.
fn differences(members: &[Member]) -> String {
    let mut all = String::new();
    let first = overview(&mut members[0].client());
    for member in members {
        let report: serde_json::Value =
            serde_json::from_str(&done(&member.dir, &["status", "--json"])).unwrap();
        let (spool, cluster) = (&report["spool"], &report["server"]["cluster"]);
        let counts = ["articles", "history_entries", "hidden", "groups"].map(|name| spool[name].to_string());
        all += &format!("{} {counts:?} {cluster}\n", member.name);
        let own = overview(&mut member.client());
        all.extend(own.iter().filter(|line| !first.contains(line)).take(3).map(|line| format!("+ {line}\n")));
        all.extend(first.iter().filter(|line| !own.contains(line)).take(3).map(|line| format!("- {line}\n")));
        all += &done(&member.dir, &["group", "list"]);
    }
    all
}

/// Waits until all members have the same digest.
fn await_same_digest(members: &[Member]) {
    let mut digests = Vec::new();
    let begun = Instant::now();
    loop {
        digests.clear();
        digests.extend(members.iter().map(Member::digest));
        if digests.iter().all(|digest| *digest == digests[0]) {
            return;
        }
        assert!(begun.elapsed() < WAIT_MAX, "{digests:?}\n{}", differences(members));
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn what_one_member_accepts_all_have_under_the_same_number_while_a_member_and_a_node_are_killed() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("members");
    let mut nodes = Nodes::start(program, &scratch.0, 3, "always");
    let mut members = members_of(&["fe1", "fe2", "fe3"], &scratch, &nodes, "");

    // An answer to one client is seen by others at once, at any member.
    for (at, member) in members.iter().enumerate() {
        let id = format!("<{at}@three.example>");
        let answer = member.client().post(&id, "test.a").unwrap();
        assert!(answer.starts_with("240"), "{answer}");
        let seen: Vec<String> =
            members.iter().map(|member| overview(&mut member.client()).join("\n")).collect();
        assert!(seen[0].contains(&id), "{}", seen[0]);
        assert!(seen.iter().all(|one| *one == seen[0]), "{seen:#?}");
        let number = members[2].client().ask(&format!("STAT {id}")).unwrap();
        assert!(number.starts_with("223"), "{number}");
    }
    // Also by Message-ID alone, and by an operator who withdraws it elsewhere.
    let mut readers: Vec<Client> = members.iter().map(Member::client).collect();
    for at in 0..60 {
        let id = format!("<at-once.{at}@three.example>");
        let answer = members[at % 3].client().post(&id, "test.a").unwrap();
        assert!(answer.starts_with("240"), "{answer}");
        for reader in &mut readers {
            let found = reader.ask(&format!("STAT {id}")).unwrap();
            assert!(found.starts_with("223"), "{found}");
        }
    }
    for at in 0..6 {
        let id = format!("<withdrawn.{at}@three.example>");
        let answer = members[at % 3].client().post(&id, "test.a").unwrap();
        assert!(answer.starts_with("240"), "{answer}");
        let told = done(&members[(at + 1) % 3].dir, &["cancel", &id]);
        assert!(told.contains("> cancelled"), "{told}");
        // What is known is not asked about: another member has it for a moment longer.
        for reader in &mut readers {
            wait_until("it is withdrawn", || reader.ask(&format!("STAT {id}")).unwrap().starts_with("430"));
        }
    }
    // One of two peers that bring an article is second, whichever member it went to.
    let mut clients: Vec<Client> = members.iter().map(Member::client).collect();
    for at in 0..20 {
        let id = format!("<twice.{at}@three.example>");
        let answers: Vec<String> = std::thread::scope(|scope| {
            let ask = |client| scope.spawn(|| Client::take_this(client, &id, "test.b").unwrap());
            let asked: Vec<_> = clients.iter_mut().map(ask).collect();
            asked.into_iter().map(|answer| answer.join().unwrap()).collect()
        });
        let taken = answers.iter().filter(|answer| answer.starts_with("239")).count();
        let known = answers.iter().filter(|answer| answer.starts_with("439")).count();
        assert_eq!((taken, known), (1, 2), "{answers:?}");
    }
    // So are changes of operators, and withdrawals.
    done(&members[1].dir, &["group", "add", "test.new", "--description", "Made at fe2"]);
    for member in &members {
        let marks = member.client().ask("GROUP test.new").unwrap();
        assert!(marks.starts_with("211 0 "), "{marks}");
    }
    done(&members[2].dir, &["cancel", "<0@three.example>"]);
    for member in &members {
        let mut client = member.client();
        wait_until("the article is gone everywhere", || {
            client.ask("STAT <0@three.example>").unwrap().starts_with("430")
        });
        assert_eq!((member.page("/health"), member.page("/ready")), (200, 200));
    }
    await_same_digest(&members);
    // A purge removes the articles of a group everywhere, but for those that are elsewhere, too.
    for (id, groups) in [("<alone@three.example>", "test.new"), ("<both@three.example>", "test.new,test.a")] {
        let answer = members[0].client().post(id, groups).unwrap();
        assert!(answer.starts_with("240"), "{answer}");
    }
    done(&members[1].dir, &["purge", "--groups", "test.new", "--yes"]);
    for member in &members {
        let mut client = member.client();
        let marks = client.ask("GROUP test.new").unwrap();
        assert!(marks.starts_with("211 0 "), "{marks}");
        assert!(client.ask("STAT <alone@three.example>").unwrap().starts_with("430"));
        assert!(client.ask("STAT <both@three.example>").unwrap().starts_with("223"));
    }
    await_same_digest(&members);

    // A member and a node are killed under load; what was answered 2xx is everywhere in the end.
    let (is_over, posts) = (AtomicBool::new(false), AtomicU64::new(0));
    let ports: Vec<u16> = members.iter().map(|member| member.port).collect();
    let accepted: Vec<Vec<String>> = std::thread::scope(|scope| {
        let load = |at: usize| {
            let (is_over, posts, port) = (&is_over, &posts, ports[at % 3]);
            scope.spawn(move || {
                let (mut accepted, mut client) = (Vec::new(), None);
                while !is_over.load(Ordering::Relaxed) {
                    let id = format!("<{}.load@three.example>", posts.fetch_add(1, Ordering::Relaxed));
                    if client.is_none() {
                        client = Client::connect(port);
                    }
                    let Some(connected) = client.as_mut() else {
                        std::thread::sleep(Duration::from_millis(100));
                        continue;
                    };
                    let answer = match at < 3 {
                        true => connected.post(&id, "test.a"),
                        false => connected.take_this(&id, "test.a,test.b"),
                    };
                    match answer {
                        Some(answer) if answer.starts_with('2') => accepted.push(id),
                        Some(answer) if answer.starts_with("44") => {}
                        _ => client = None,
                    }
                }
                accepted
            })
        };
        let loads: Vec<_> = (0..6).map(load).collect();
        std::thread::sleep(Duration::from_secs(2));
        members[1].kill();
        std::thread::sleep(Duration::from_secs(1));
        nodes.kill(0);
        std::thread::sleep(Duration::from_secs(1));
        members[1].serve();
        std::thread::sleep(Duration::from_secs(6));
        nodes.run(0);
        std::thread::sleep(Duration::from_secs(3));
        is_over.store(true, Ordering::Relaxed);
        loads.into_iter().map(|load| load.join().unwrap()).collect()
    });
    let accepted: Vec<String> = accepted.into_iter().flatten().collect();
    assert!(accepted.len() > 100, "{}", accepted.len());
    await_same_digest(&members);
    let seen = overview(&mut members[0].client());
    let mut numbers: BTreeMap<&str, u64> = BTreeMap::new();
    for line in &seen {
        if let Some(id) = line.split('\t').nth(4) {
            *numbers.entry(id).or_default() += 1;
        }
    }
    let missing: Vec<&String> = accepted.iter().filter(|id| !numbers.contains_key(id.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for member in &members[1..] {
        assert_eq!(overview(&mut member.client()), seen, "{}", member.name);
    }

    // Without a quorum readers are served, and nothing is accepted; it comes back by itself.
    nodes.kill(1);
    nodes.kill(2);
    let marks = members[0].client().ask("GROUP test.a").unwrap();
    assert!(marks.starts_with("211"), "{marks}");
    wait_until("the member says that it takes nothing", || members[0].page("/ready") == 503);
    let answer = members[0].client().ask("CHECK <later@three.example>").unwrap();
    assert!(answer.starts_with("431"), "{answer}");
    assert_eq!(members[0].page("/health"), 200);
    nodes.run(1);
    nodes.run(2);
    wait_until("posts are accepted again", || {
        let id = format!("<{}.after@three.example>", posts.fetch_add(1, Ordering::Relaxed));
        members[0].client().post(&id, "test.a").is_some_and(|answer| answer.starts_with("240"))
    });
    await_same_digest(&members);

    // A member that has left does not start again, and its name is free.
    let status = done(&members[0].dir, &["cluster", "status"]);
    assert!(["fe1", "fe2", "fe3"].iter().all(|name| status.contains(name)), "{status}");
    members[2].stop();
    let told = done(&members[2].dir, &["cluster", "leave"]);
    assert!(told.contains("2 members left"), "{told}");
    let refused = newsreel(&members[2].dir, &["serve"]);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("fe3 is no member of the cluster"),
        "{refused:?}"
    );
    // A spool of a cluster is not changed alone.
    let refused = newsreel(&members[2].dir, &["group", "add", "test.alone"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("belongs to a cluster"), "{refused:?}");
    members[0].stop();
    members[1].stop();
}

#[test]
fn a_peer_is_fed_by_one_member_and_by_another_once_that_is_killed() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("feeding");
    let nodes = Nodes::start(program, &scratch.0, 3, "always");
    // The peer is a site of its own.
    let groups = scratch.0.join("groups");
    std::fs::write(&groups, GROUPS).unwrap();
    let mut peer = Member::new(&scratch, "peer");
    let listen = format!("127.0.0.1:{}", peer.port);
    done(
        &peer.dir,
        &[
            "init",
            "--listen",
            &listen,
            "--buffer",
            "32 MiB",
            "--peer",
            "127.0.0.1",
            "--max-age",
            "none",
            "--path-identity",
            "peer.example",
            "--groups",
            groups.to_str().unwrap(),
        ],
    );
    peer.serve();
    let more = format!(
        "\n[[peer]]\nname = \"to.peer\"\naddresses = [\"127.0.0.2\"]\n\
         [peer.send]\nto = \"{listen}\"\n"
    );
    let mut members = members_of(&["fe1", "fe2"], &scratch, &nodes, &more);
    let feed = |member: &Member| {
        let report: serde_json::Value =
            serde_json::from_str(&done(&member.dir, &["status", "--json"])).unwrap();
        let peers = report["server"]["peers"].as_array().unwrap();
        let feed = peers.iter().find(|peer| peer["name"] == "to.peer").unwrap()["feed"].clone();
        (feed["state"].as_str().unwrap() == "elsewhere", feed["offered"].as_u64().unwrap())
    };
    wait_until("one of them feeds the peer", || members.iter().filter(|member| !feed(member).0).count() == 1);
    let has_all = |ids: &[String]| {
        let mut client = peer.client();
        ids.iter().all(|id| client.ask(&format!("STAT {id}")).unwrap().starts_with("223"))
    };
    let post = |member: &Member, from: u64| {
        let mut client = member.client();
        let ids: Vec<String> = (from..from + 20).map(|n| format!("<{n}.feed@three.example>")).collect();
        for id in &ids {
            let answer = client.post(id, "test.a").unwrap();
            assert!(answer.starts_with("240"), "{answer}");
        }
        ids
    };
    // What any member accepts is sent, by that one alone.
    let mut ids = [post(&members[0], 0), post(&members[1], 100)].concat();
    wait_until("the peer has what both took", || has_all(&ids));
    let (at_work, waits) = if feed(&members[0]).0 { (1, 0) } else { (0, 1) };
    assert_eq!(feed(&members[waits]).1, 0);
    members[at_work].kill();
    let begun = Instant::now();
    ids.extend(post(&members[waits], 200));
    wait_until("the other member feeds the peer", || has_all(&ids));
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    // A member that stops in good order leaves the peer to the other at once.
    members[at_work].serve();
    wait_until("it waits", || feed(&members[at_work]).0);
    members[waits].stop();
    let begun = Instant::now();
    ids.extend(post(&members[at_work], 300));
    wait_until("the first member feeds the peer again", || has_all(&ids));
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    members[at_work].stop();
    peer.stop();
}

#[test]
fn users_and_the_configuration_are_those_of_all_members() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("shared");
    let nodes = Nodes::start(program, &scratch.0, 3, "always");
    let more = "\n[auth]\nfailures_per_address_max = 100000\nfailures_per_user_max = 100000\n";
    let mut members = members_of(&["fe1", "fe2"], &scratch, &nodes, more);
    let logs_in = |member: &Member, name: &str, password: &str| {
        let mut client = member.client();
        client.ask(&format!("AUTHINFO USER {name}")).unwrap();
        client.ask(&format!("AUTHINFO PASS {password}")).unwrap().starts_with("281")
    };
    // A user of one member is one of the other, whether that runs or not.
    let added = told_a_line(&members[1].dir, &["user", "add", "fred"], "flintstone\n");
    assert!(added.status.success(), "{added:?}");
    wait_until("fred logs in at both", || members.iter().all(|member| logs_in(member, "fred", "flintstone")));
    members[1].stop();
    let added = told_a_line(&members[0].dir, &["user", "add", "wilma"], "pebbles-and-more\n");
    assert!(added.status.success(), "{added:?}");
    members[1].serve();
    wait_until("wilma logs in at both", || members.iter().all(|m| logs_in(m, "wilma", "pebbles-and-more")));
    done(&members[0].dir, &["user", "remove", "fred"]);
    wait_until("fred logs in nowhere", || {
        !members.iter().any(|member| logs_in(member, "fred", "flintstone"))
    });

    // A configuration that only one member can have changes none.
    let file = |member: &Member| member.dir.join("newsreel.toml");
    let read = |member: &Member| std::fs::read_to_string(file(member)).unwrap();
    let before: Vec<String> = members.iter().map(read).collect();
    let new = scratch.0.join("new.toml");
    let candidate = |ring: &str, limit: u64| {
        let text = before[0].replace("ring = \"8 MiB\"", &format!("ring = \"{ring}\""));
        text + &format!("\n[limits]\nconnections_per_address_max = {limit}\n")
    };
    std::fs::write(&new, candidate("40 MiB", 77)).unwrap();
    let refused = newsreel(&members[0].dir, &["cluster", "config", "apply", new.to_str().unwrap()]);
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains("fe2") && told.contains("have room for a ring of"), "{told}");
    assert_eq!(members.iter().map(read).collect::<Vec<_>>(), before);
    // One that all can have is that of all, with their own keys of the machine.
    std::fs::write(&new, candidate("9 MiB", 77)).unwrap();
    let told = done(&members[0].dir, &["cluster", "config", "apply", new.to_str().unwrap()]);
    assert!(told.contains("2 members have switched"), "{told}");
    for member in &members {
        assert_eq!(done(&member.dir, &["show", "limits.connections_per_address_max"]).trim(), "77");
        assert_eq!(done(&member.dir, &["show", "class.ring"]).trim(), "9 MiB");
        assert_eq!(done(&member.dir, &["show", "cluster.member"]).trim(), member.name);
        assert_eq!(member.page("/ready"), 200);
    }
    assert!(
        done(&members[1].dir, &["cluster", "config", "show"]).contains("connections_per_address_max = 77")
    );
    // A reload at one member changes keys of the machine alone.
    let applied = read(&members[1]);
    std::fs::write(
        file(&members[1]),
        applied.replace("connections_per_address_max = 77", "connections_per_address_max = 78"),
    )
    .unwrap();
    let refused = newsreel(&members[1].dir, &["ctl", "reload"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("newsreel cluster config apply"), "{refused:?}");
    let quiet = applied.replace("[site]\n", "[site]\nlog_level = \"warn\"\n");
    std::fs::write(file(&members[1]), &quiet).unwrap();
    done(&members[1].dir, &["ctl", "reload"]);
    // A member that was away switches when it is back; one that cannot takes nothing.
    members[1].stop();
    std::fs::write(&new, candidate("9 MiB", 79)).unwrap();
    wait_until("the member is known to be away", || {
        newsreel(&members[0].dir, &["cluster", "config", "apply", new.to_str().unwrap()]).status.success()
    });
    members[1].serve();
    wait_until("it has switched", || {
        read(&members[1]).contains("connections_per_address_max = 79") && members[1].page("/ready") == 200
    });
    members[0].stop();
    members[1].stop();
}

#[test]
fn kept_articles_that_are_due_leave_all_members() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("kept");
    let nodes = Nodes::start(program, &scratch.0, 3, "always");
    let mut members = members_of(&["fe1", "fe2"], &scratch, &nodes, KEPT);
    let post = |member: &Member, id: &str, groups: &str| {
        let answer = member.client().post(id, groups).unwrap();
        assert!(answer.starts_with("240"), "{answer}");
    };
    let stat = |members: &[Member], id: &str| -> Vec<String> {
        members.iter().map(|member| member.client().ask(&format!("STAT {id}")).unwrap()).collect()
    };
    post(&members[0], "<short@three.example>", "test.b");
    post(&members[1], "<long@three.example>", "test.b,test.a");
    std::thread::sleep(Duration::from_secs(3));
    let told = done(&members[1].dir, &["expire"]);
    assert!(told.contains(" expired, "), "{told}");
    let seen = stat(&members, "<short@three.example>");
    assert!(seen.iter().all(|answer| answer.starts_with("430")), "{seen:?}");
    let seen = stat(&members, "<long@three.example>");
    assert!(seen.iter().all(|answer| answer.starts_with("223")), "{seen:?}");
    for member in &members {
        let marks = member.client().ask("GROUP test.b").unwrap();
        assert!(marks.starts_with("211 0 "), "{marks}");
    }
    await_same_digest(&members);
    // A member that is killed has what it had, and gets what it lacks.
    members[1].kill();
    post(&members[0], "<later@three.example>", "test.a");
    members[1].serve();
    await_same_digest(&members);
    members[0].stop();
    members[1].stop();
}

/// Classes of a site that keeps the articles of a group for two seconds.
const KEPT: &str = "\n[[class]]\nname = \"kept\"\nmethod = \"appendonly\"\nfile_size = \"64 KiB\"\n\n\
                    [[expire]]\ngroups = \"test.b\"\nkeep = \"2 s\"\n";

#[test]
fn control_messages_are_carried_out_by_one_member_and_by_another_once_that_is_killed() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("control");
    let nodes = Nodes::start(program, &scratch.0, 3, "always");
    let more = "\n[[control]]\ntype = \"newgroup\"\nfrom = \"admin@x.example\"\ngroups = \"made.*\"\n\
                action = \"do\"\nage_max = \"10000 days\"\n";
    let mut members = members_of(&["fe1", "fe2"], &scratch, &nodes, more);
    done(&members[0].dir, &["group", "add", "control"]);
    let send = |member: &Member, group: &str| {
        let id = format!("<{group}@three.example>");
        let answer = member.client().ask(&format!(
            "TAKETHIS {id}\r\nPath: peer.example!not-for-mail\r\nFrom: admin@x.example\r\n\
             Newsgroups: {group}\r\nSubject: cmsg newgroup {group}\r\nControl: newgroup {group}\r\n\
             Approved: admin@x.example\r\nMessage-ID: {id}\r\nDate: {DATE}\r\n\r\nA new group.\r\n."
        ));
        assert!(answer.as_ref().unwrap().starts_with("239"), "{answer:?}");
    };
    let has = |member: &Member, group: &str| {
        member.client().ask(&format!("GROUP {group}")).unwrap().starts_with("211")
    };
    // Whichever of them took it.
    send(&members[0], "made.a");
    send(&members[1], "made.b");
    wait_until("both groups are there", || {
        members.iter().all(|member| has(member, "made.a") && has(member, "made.b"))
    });
    members[0].kill();
    let begun = Instant::now();
    send(&members[1], "made.c");
    wait_until("the second carries it out", || has(&members[1], "made.c"));
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    members[0].serve();
    members[1].kill();
    let begun = Instant::now();
    send(&members[0], "made.d");
    wait_until("the first carries it out", || has(&members[0], "made.d"));
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    members[1].serve();
    await_same_digest(&members);
    members[0].stop();
    members[1].stop();
}

#[test]
fn logs_that_are_not_safe_are_refused_with_the_cure() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("unsafe");
    let nodes = Nodes::start(program, &scratch.0, 3, "2m");
    let member = Member::new(&scratch, "fe1");
    done(&member.dir, &["init", "--buffer", "32 MiB", "--path-identity", "news.three.example"]);
    let text = std::fs::read_to_string(member.dir.join("newsreel.toml")).unwrap();
    let text = text.replace("[[class]]\n", "[[class]]\nring = \"8 MiB\"\n");
    let refused = newsreel(&member.dir, &["cluster", "create"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("[cluster] servers"), "{refused:?}");
    member.configure(&nodes, &text);
    // Not a member yet.
    let refused = newsreel(&member.dir, &["serve"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("newsreel cluster create"), "{refused:?}");
    let refused = newsreel(&member.dir, &["cluster", "create"]);
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(
        told.contains("sync_interval: always") && told.matches("acknowledges before it syncs").count() == 3,
        "{told}"
    );
}
