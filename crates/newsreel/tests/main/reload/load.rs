//! Every kind of change, one after the other, under 200 readers and 20 feeders, none of which may be
//! affected.

use super::cases::{self, Case};
use crate::client::{Client, article};
use crate::running::{AtEnd, Server};
use crate::waiting::{let_pass, wait_until};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const READERS: usize = 200;
const READER_THREADS: usize = 8;
const FEEDERS: usize = 20;

/// Addresses of the load's readers and feeders.
pub const READER: u8 = 3;
pub const FEEDER: u8 = 2;
/// Addresses of a peer, a reader and a stranger for the checks.
pub const PEER: u8 = 4;
pub const GUEST: u8 = 5;
pub const OTHER: u8 = 6;

const CONFIG: &str = r#"
[site]
path_identity = "site.example"
listen = ["127.0.0.1:0"]
data = "{DATA}"
durability = "process"
max_age_days = "none"
article_bytes_max = "128 KiB"
# site
[limits]
# limits
[auth]
# auth
[posting]
# posting
[cancel]
# cancel
[moderation]
sendmail = "/bin/false %s"
# moderation
[[buffer]]
name = "text0"
path = "text0.cyc"
size = "16 MiB"
# buffers
[[class]]
name = "text"
buffers = ["text0"]
# text
[[class]]
name = "kept"
method = "tradspool"
path = "kept"
# classes
[[rule]]
class = "kept"
groups = "local.closed"
# rules
[[rule]]
class = "text"
# expire
[[peer]]
name = "feed.example"
addresses = ["127.0.0.2"]
max_connections = 100
[[peer]]
name = "probe.example"
addresses = ["127.0.0.4"]
# peer
# peers
[[access]]
from = "127.0.0.3"
read = "*"
post = "*"
# access
[[access]]
from = "127.0.0.5"
read = "*"
# guest
"#;

/// The server, and helpers for the checks.
pub struct Site {
    pub server: Server,
    next_id: AtomicU64,
}

impl Site {
    /// Returns a connection from 127.0.0.`host`.
    pub fn at(&self, host: u8) -> Client {
        Client::connect_from(IpAddr::from([127, 0, 0, host]), self.server.address)
    }

    /// Like [`at`](Self::at), after the greeting.
    pub fn greeted(&self, host: u8) -> Client {
        let mut client = self.at(host);
        let greeting = client.line();
        assert!(greeting.starts_with("200 ") || greeting.starts_with("201 "), "{greeting}");
        client
    }

    /// Like [`greeted`](Self::greeted), where closed connections may still be counted.
    pub fn greeted_at_last(&self, host: u8) -> Client {
        let mut greeted = None;
        wait_until(format_args!("there is a place for 127.0.0.{host}"), || {
            let mut client = self.at(host);
            let is_welcome = client.line().starts_with("20");
            greeted = is_welcome.then_some(client);
            is_welcome
        });
        greeted.unwrap()
    }

    /// Returns the first line of the response to a command on a new connection.
    pub fn ask(&self, host: u8, command: &str) -> String {
        self.greeted(host).ask(command)
    }

    /// Returns all lines of the response to a command.
    pub fn lines(&self, host: u8, command: &str) -> String {
        let mut client = self.greeted(host);
        let first = client.ask(command);
        if first.starts_with('2') || first.starts_with('1') { client.block().join("\n") } else { first }
    }

    pub fn id(&self) -> String {
        format!("<{}@x.example>", self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Feeds an article of a group as the peer, with more header lines; returns its Message-ID and the
    /// response code.
    pub fn feed(&self, group: &str, headers: &str, body: &str) -> (String, String) {
        let id = self.id();
        let wire = article(&id, group, body).replacen("\r\n\r\n", &format!("\r\n{headers}\r\n"), 1);
        let mut client = self.greeted(PEER);
        client.send(format!("TAKETHIS {id}\r\n{wire}"));
        let code = client.line()[..3].to_owned();
        // Answered once the withdrawals of the article are carried out.
        client.ask("QUIT");
        (id, code)
    }

    /// Posts as the guest; returns the response.
    pub fn post(&self, group: &str, body: &str) -> String {
        let mut client = self.greeted(GUEST);
        let sends = client.ask("POST");
        if !sends.starts_with("340 ") {
            return sends;
        }
        client.send(format!("From: a@b.example\r\nNewsgroups: {group}\r\nSubject: s\r\n\r\n{body}\r\n.\r\n"));
        client.line()
    }

    /// Logs in on a new connection; returns the response.
    pub fn login(&self, host: u8, name: &str) -> (Client, String) {
        let mut client = self.greeted(host);
        client.ask(&format!("AUTHINFO USER {name}"));
        let answer = client.ask("AUTHINFO PASS secret");
        (client, answer)
    }

    /// Returns a value of the server's status.
    pub fn status(&self, path: &str) -> serde_json::Value {
        let (replies, _) = self.server.control(&serde_json::json!({ "do": "status" }));
        replies[0]["status"].pointer(path).cloned().unwrap_or_default()
    }

    /// Returns the server's description of what the file would change.
    fn compare(&self) -> String {
        let file = self.server.file();
        let text = std::fs::read_to_string(&file).unwrap();
        let (replies, _) =
            self.server.control(&serde_json::json!({ "do": "compare", "file": file, "text": text }));
        replies[0]["text"].as_str().unwrap_or_default().to_owned()
    }

    fn apply(&self, case: &Case) {
        eprintln!("{}", case.name);
        let before = std::fs::read_to_string(self.server.file()).unwrap();
        let said = self.server.reload(|text| {
            let edited = (case.edit)(&text);
            assert_ne!(edited, text, "{}: the file does not change", case.name);
            edited
        });
        match case.refusal {
            None => {
                let said = said.unwrap_or_else(|said| panic!("{}: {said}", case.name));
                assert!(!said.contains("no change"), "{}: {said}", case.name);
                assert!(self.compare().contains(": no change"), "{}: {}", case.name, self.compare());
            }
            Some(reason) => {
                let said = said.expect_err(case.name);
                assert!(said.contains(reason), "{}: {said}", case.name);
                std::fs::write(self.server.file(), before).unwrap();
                assert!(self.compare().ends_with(": no change"), "{}: {}", case.name, self.compare());
            }
        }
        (case.check)(self);
    }
}

/// Sends one reader's next command, and checks the beginning of the response.
fn read(client: &mut Client, turn: usize) {
    let (command, code) =
        [("DATE", "111 "), ("GROUP misc.test", "211 "), ("STAT <none@x>", "430 ")][turn % 3];
    let answer = client.ask(command);
    assert!(answer.starts_with(code), "{command}: {answer}");
}

fn feed(client: &mut Client, id: &str) {
    client.send(format!("TAKETHIS {id}\r\n{}", article(id, "misc.test", "load")));
    let answer = client.line();
    assert!(answer.starts_with("239 ") || answer.starts_with("439 "), "{answer}");
}

/// Uses the connections until everything is done; each must still be open then.
fn use_all(mut clients: Vec<Client>, done: &AtomicBool, mut one: impl FnMut(&mut Client, usize)) {
    for turn in 0.. {
        if done.load(Ordering::Relaxed) {
            break;
        }
        clients.iter_mut().for_each(|client| one(client, turn));
        let_pass(Duration::from_millis(5), "the connections are in use while the configuration changes");
    }
    for mut client in clients {
        assert!(client.ask("QUIT").starts_with("205 "));
    }
}

#[test]
fn every_kind_of_change_takes_effect_without_dropping_permitted_clients() {
    let server = Server::start_with(|text| {
        let data = text.lines().find(|line| line.starts_with("data = ")).unwrap();
        CONFIG.replace("\"{DATA}\"", data.trim_start_matches("data = "))
    });
    let site = Site { server, next_id: AtomicU64::new(0) };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (site, done) = (&site, &done);
        for _ in 0..READER_THREADS {
            let clients = (0..READERS / READER_THREADS).map(|_| site.greeted(READER)).collect();
            scope.spawn(move || use_all(clients, done, read));
        }
        for feeder in 0..FEEDERS {
            let clients = vec![site.greeted(FEEDER)];
            let feed = move |client: &mut Client, turn| feed(client, &format!("<{turn}@feeder{feeder}>"));
            scope.spawn(move || use_all(clients, done, feed));
        }
        // A failing check must not leave the load running.
        let _end = AtEnd(|| done.store(true, Ordering::Relaxed));
        let cases = cases::all();
        assert!(cases.len() >= 50, "{}", cases.len());
        cases.iter().for_each(|case| site.apply(case));
    });
}
