//! Follows the book as a reader does: each command of a page is run, in order and in a directory of its own,
//! and each piece of configuration is used.
//!
//! Commands are in blocks of the language `console`, after `$ `; pieces of newsreel.toml in blocks of `toml`.
//! Ports are chosen by the system, directories are below the test's own, and sizes are a thousandth. Commands
//! about the machine's services and users have stand-ins that act on the servers of the test; nothing else is
//! changed.

use crate::client::{Client, article};
use crate::clients::leafnode;
use crate::leafnode_home::Home;
use crate::operated::{Operated, complaints};
use crate::purging::feed;
use crate::transcripts::inn::{Inn, free_ports};
use crate::waiting::{wait_for, wait_until};
use std::cell::RefCell;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[derive(Debug, PartialEq, Eq)]
enum Item {
    Command(String),
    /// More of newsreel.toml: at its end, or before the first section of the same kind.
    Sections(String, Position),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    End,
    Before,
}

/// Paths and servers of pages, and their replacements in a test.
const PLACES: [(&str, &str); 6] = [
    ("/etc/news/leafnode", "leafnode/etc"),
    ("/var/spool/news", "leafnode/spool"),
    ("/var/lib/newsreel-trial", "trial"),
    ("/var/lib/newsreel", "site"),
    ("127.0.0.1:8119", "127.0.0.1:0"),
    ("news.example.net:119", "news.invalid:119"),
];

/// Returns the page with the paths and servers of a test.
fn elsewhere(text: &str) -> String {
    PLACES.iter().fold(text.to_owned(), |text, (there, here)| text.replace(there, here))
}

fn book() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src")
}

/// Returns the items of a page in order.
fn items(page: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let pieces: Vec<&str> = page.split("\n```").collect();
    for piece in pieces.chunks_exact(2) {
        let [said, block] = piece else { unreachable!() };
        let (language, text) = block.split_once('\n').unwrap_or_default();
        let said = said.rsplit("\n\n").find(|paragraph| !paragraph.trim().is_empty()).unwrap_or_default();
        let is_before = said.replace('\n', " ").contains("before the one that `init` created");
        let position = if is_before { Position::Before } else { Position::End };
        match language {
            "console" => {
                let text = text.replace("\\\n", "");
                let commands =
                    text.lines().map(|line| line.strip_prefix("$ ").expect("a command begins with $"));
                items.extend(commands.map(|command| Item::Command(command.to_owned())));
            }
            "toml" => items.push(Item::Sections(format!("\n{text}\n"), position)),
            "text" => {}
            other => panic!("a block of {other}"),
        }
    }
    items
}

/// A reader of the book, with a directory and a server; both end when it is dropped.
struct Reader {
    home: TempDir,
    server: RefCell<Option<Child>>,
    /// Replacements of this test that take precedence over [`PLACES`].
    places: Vec<(&'static str, String)>,
}

/// `systemctl` for the server of this test's site, and for INN; the user newsreel is not created.
const STAND_INS: [(&str, &str); 2] = [
    ("chown", "exit 0"),
    (
        "systemctl",
        "case $1-$2 in\n  stop-inn2) exec ./stop-inn;;\n  \
         start-newsreel) newsreel serve --dir site > log 2>&1 & echo $! > pid;;\n  *) exit 1;;\nesac\n\
         until newsreel status --dir site --json 2>/dev/null | grep -q '\"pid\"'; do\n  \
         kill -0 $(cat pid) || { cat log >&2; exit 1; }\n  sleep 0.05\ndone",
    ),
];

impl Reader {
    fn new() -> Self {
        let (home, server) = (TempDir::new().unwrap(), RefCell::default());
        let reader = Self { home, server, places: Vec::new() };
        fs::create_dir(reader.home.path().join("bin")).unwrap();
        // `up` would use the default ports.
        let program = env!("CARGO_BIN_EXE_newsreel");
        let script = format!(
            "case $1 in\n  up) exec {program} \"$@\" --listen 127.0.0.1:0;;\n  \
             *) exec {program} \"$@\";;\nesac\n"
        );
        reader.program("bin/newsreel", &script);
        STAND_INS.iter().for_each(|(name, script)| reader.program(&format!("bin/{name}"), script));
        reader
    }

    /// Creates a reader with the package installed, which has created a directory for the site.
    fn with_package() -> Self {
        let reader = Self::new();
        fs::create_dir(reader.home.path().join("site")).unwrap();
        reader
    }

    /// Writes a shell script into the reader's PATH.
    fn program(&self, name: &str, script: &str) {
        let file = self.home.path().join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns the address of the site in this directory.
    fn address(&self, dir: &str) -> SocketAddr {
        let output = self.command(&format!("newsreel status --json --dir {dir}")).output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        status["server"]["listen"][0].as_str().unwrap().parse().unwrap()
    }

    fn command(&self, text: &str) -> Command {
        let mut command = Command::new("sh");
        let path = format!("{}:{}", self.home.path().join("bin").display(), std::env::var("PATH").unwrap());
        command
            .args(["-c", text])
            .current_dir(self.home.path())
            .env("PATH", path)
            .env_remove("NEWSREEL_CONFIG");
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, text: &str) {
        let text = self.places.iter().fold(text.to_owned(), |text, (there, here)| text.replace(there, here));
        // A path replaced by this test must not be replaced again.
        let is_own = |there: &str| self.places.iter().any(|(own, _)| *own == there);
        let usual = PLACES.iter().filter(|(there, _)| !is_own(there));
        let text = usual.fold(text, |text, (there, here)| text.replace(there, here));
        let mut text = text.replace("512 MiB", "512 KiB").replace(" GiB", " MiB");
        if text == "kill %1" {
            return self.end_server();
        }
        // Adapts the file that an import of another server's configuration writes.
        self.listens_elsewhere();
        for port in ["0.0.0.0:119", "0.0.0.0:563", "127.0.0.1:1119"] {
            text = text.replace(port, "127.0.0.1:0");
        }
        if let Some(server) = text.strip_suffix(" &") {
            let log = fs::File::create(self.home.path().join("log")).unwrap();
            let mut command = self.command(&format!("exec {server}"));
            let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
            *self.server.borrow_mut() = Some(child);
            let site = server.split_once("--dir").map_or(String::new(), |(_, dir)| format!("--dir {dir}"));
            let answers = format!("newsreel status {site} --json | grep -q '\"pid\"'");
            wait_for(
                || {
                    let status = self.command(&answers).stderr(Stdio::null()).status().unwrap();
                    (status.success(), fs::read_to_string(self.home.path().join("log")).unwrap())
                },
                |(answers, _)| *answers,
            );
            return;
        }
        let output = self.command(&text).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}: {said}{}", complaints(&output));
    }

    /// Changes the port of leafnode, which is that of every other news server.
    fn listens_elsewhere(&self) {
        let file = self.home.path().join("site/newsreel.toml");
        let Ok(text) = fs::read_to_string(&file) else { return };
        if text.contains("127.0.0.1:119\"") {
            fs::write(file, text.replace("127.0.0.1:119\"", "127.0.0.1:0\"")).unwrap();
        }
    }

    fn configure(&self, sections: &str, position: Position) {
        let file = self.home.path().join("site/newsreel.toml");
        let text = fs::read_to_string(&file).unwrap();
        // A section of users comes before the one for everyone, and a rule for some groups before the others.
        let kind = ["\n[[access]]", "\n[[rule]]"].into_iter().find(|kind| sections.contains(kind));
        let at = match position {
            Position::End => text.len(),
            Position::Before => kind.and_then(|kind| text.find(kind)).expect("what it comes before"),
        };
        let (before, after) = text.split_at(at);
        let sections = elsewhere(sections);
        fs::write(file, [before, &sections, after].concat()).unwrap();
        self.run("newsreel check --dir site");
    }

    fn follow(&self, page: &str) {
        let items = items(&fs::read_to_string(book().join(page)).unwrap());
        assert!(items.iter().any(|item| matches!(item, Item::Command(_))), "{page}");
        for item in items {
            match item {
                Item::Command(command) => self.run(&command),
                Item::Sections(sections, position) => self.configure(&sections, position),
            }
        }
    }
}

impl Reader {
    fn end_server(&self) {
        if let Some(mut server) = self.server.take() {
            self.command(&format!("kill {}", server.id())).status().unwrap();
            server.wait().unwrap();
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.end_server();
        self.command("[ ! -e pid ] || kill $(cat pid)").status().unwrap();
    }
}

fn follow(page: &str) {
    Reader::new().follow(page);
}

#[test]
fn first_site_page_works_within_five_minutes() {
    let begun = Instant::now();
    follow("first-site.md");
    assert!(begun.elapsed() < Duration::from_secs(300));
}

#[test]
fn peers_page_works() {
    follow("peers.md");
}

#[test]
fn mailing_lists_page_works() {
    follow("mailing-lists.md");
}

#[test]
fn from_leafnode_page_works_without_leafnode() {
    let reader = Reader::with_package();
    reader.program("bin/fetchnews", "exit 0");
    let leafnode = reader.home.path().join("leafnode");
    let group = leafnode.join("spool/misc/test");
    for dir in ["etc", "spool/leaf.node", "spool/interesting.groups", "spool/misc/test"] {
        fs::create_dir_all(leafnode.join(dir)).unwrap();
    }
    fs::write(leafnode.join("etc/config"), "server = news.invalid\nexpire = 20\n").unwrap();
    fs::write(group.join(".overview"), "7\tHello\n").unwrap();
    let article = "From: Me <me@example.org>\nNewsgroups: misc.test\nSubject: Hello\nPath: not-for-mail\n\
                   Date: Sat, 21 Nov 2026 12:00:00 +0000\nMessage-ID: <7@example.org>\n\nHello.\n";
    fs::write(group.join("7"), article).unwrap();
    reader.follow("from-leafnode.md");
    let shown = reader.command("newsreel group list --dir site").output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.lines().any(|line| line.starts_with("misc.test") && line.contains('7')), "{shown}");
}

/// leafnode has fetched two groups of a server that accepts posts; the import follows the page.
#[test]
fn from_leafnode_page_works() {
    if !leafnode::runs() {
        return;
    }
    let upstream = Operated::new();
    for group in ["misc.test", "local.quiet"] {
        upstream.done(&["group", "add", group, "--description", "Trying things out"]);
    }
    let ids: Vec<String> = (1..=3).map(|n| format!("<{n}@moving.example>")).collect();
    let articles: Vec<(&str, &str)> = ids.iter().map(|id| (id.as_str(), "misc.test")).collect();
    upstream.edit(|text| text.replacen("max_age_days = 10", "max_age_days = \"none\"", 1));
    feed(&upstream, &articles);
    let serving = upstream.serve();
    let mut reader = Reader::with_package();
    let config = format!(
        "server = 127.0.0.1\nport = {}\nexpire = 20000\nmaxage = 20000\nhostname = news.leafsite.net\n",
        serving.address.port()
    );
    let dir = reader.home.path().join("leafnode");
    fs::create_dir(&dir).unwrap();
    let home = Home::make(&dir, &config, &["misc.test".into(), "local.quiet".into()]).unwrap();
    let places = [
        ("/etc/news/leafnode", home.etc.join("news/leafnode")),
        ("/var/spool/news", home.spool.join("news")),
    ];
    reader.places = places.map(|(there, here)| (there, here.display().to_string())).into();
    let fetched = home.fetch("fetchnews").output().unwrap();
    assert!(fetched.status.success(), "{}", complaints(&fetched));
    reader.program("bin/fetchnews", "exit 0");
    reader.follow("from-leafnode.md");
    let mut client = Client::greeted(reader.address("site"));
    // The numbers are those of leafnode's files.
    let files = fs::read_dir(home.spool.join("news/misc/test")).unwrap();
    let mut numbers: Vec<u64> =
        files.filter_map(|file| file.unwrap().file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    let [low, _, high] = numbers[..] else { panic!("{numbers:?}") };
    assert_eq!(client.ask("GROUP misc.test"), format!("211 3 {low} {high} misc.test"));
    assert!(client.ask("LIST NEWSGROUPS misc.test").starts_with("215 "));
    assert_eq!(client.block(), ["misc.test\tTrying things out"]);
    // Posts go to the server that leafnode sent them to.
    assert!(client.ask("POST").starts_with("340 "));
    client.send(
        "From: me <me@moving.example>\r\nNewsgroups: misc.test\r\nSubject: moved\r\n\
         Message-ID: <post@moving.example>\r\n\r\nbody\r\n.\r\n",
    );
    let answer = client.line();
    assert!(
        answer.starts_with("240 ") && !answer.contains("refused") && !answer.contains("queued"),
        "{answer}"
    );
    assert!(client.ask("STAT <post@moving.example>").starts_with("223 "));
    assert!(serving.client().ask("STAT <post@moving.example>").starts_with("223 "));
}

/// An INN with articles feeds the trial site and is then replaced, following the page.
#[test]
#[ignore = "needs INN and root: make transcripts-inn"]
fn from_inn_page_works() {
    let Some(inn) = Inn::found() else { return };
    inn.change("newsfeeds", |text| text + "innfeed!:!*:Tc,Wnm*:/usr/lib/news/bin/innfeed\n");
    inn.start_empty();
    let mut peer = Client::greeted(inn.peer_address());
    assert!(peer.ask("MODE STREAM").starts_with("203 "));
    let mut hand_in = |n: u32| {
        let id = format!("<{n}@moving.example>");
        peer.send(format!("TAKETHIS {id}\r\n{}", article(&id, "misc.test", "body")));
        assert!(peer.line().starts_with("239 "));
    };
    (1..=5).for_each(&mut hand_in);
    let mut reader = Reader::with_package();
    let (site, port) = (inn.site(), free_ports());
    let path = |below: &str| site.join(below).display().to_string();
    reader.places = vec![
        ("/etc/news", path("etc")),
        ("/var/lib/news/history", path("db/history")),
        ("port-number: 1119", format!("port-number: {port}")),
    ];
    reader.program("bin/ctlinnd", &format!("exec {} \"$@\"", inn.command("ctlinnd")));
    reader.program("stop-inn", &inn.stop_command());
    let items = items(&fs::read_to_string(book().join("from-inn.md")).unwrap());
    let mut fed = false;
    for item in items {
        let Item::Command(command) = item else { panic!("{item:?}") };
        reader.run(&command);
        if command.contains("inn-config") && command.contains("--trial") {
            let file = reader.home.path().join("trial/newsreel.toml");
            let text = fs::read_to_string(&file).unwrap();
            assert!(text.contains("path_identity = \"trial.site.example\""), "{text}");
            fs::write(&file, text.replace(":1119\"", &format!(":{port}\""))).unwrap();
        }
        if command.starts_with("ctlinnd") && !fed {
            fed = true;
            (6..=8).for_each(&mut hand_in);
            let mut trial = Client::greeted(reader.address("trial"));
            wait_until("INN feeds the trial", || trial.ask("STAT <8@moving.example>").starts_with("223 "));
            trial.ask("GROUP misc.test");
            assert!(trial.ask("HEAD <8@moving.example>").starts_with("221 "));
            let path = trial.block().into_iter().find(|line| line.starts_with("Path: ")).unwrap();
            assert!(
                path.starts_with("Path: trial.site.example!") && path.contains("!site.example!"),
                "{path}"
            );
        }
    }
    // The site listens where INN did, and has INN's articles.
    let mut client = Client::greeted(inn.peer_address());
    assert_eq!(client.ask("GROUP misc.test"), "211 8 1 8 misc.test");
    assert!(client.ask("IHAVE <3@moving.example>").starts_with("435 "));
}

#[test]
fn private_site_page_works() {
    follow("private-site.md");
}

#[test]
fn cache_page_works() {
    follow("cache.md");
}

#[test]
fn sizing_page_works() {
    follow("sizing.md");
}

#[test]
fn backup_page_works() {
    follow("backup.md");
}

#[test]
fn disk_page_works() {
    follow("disk.md");
}

#[test]
fn every_page_is_in_the_contents_and_every_link_resolves() {
    let contents = fs::read_to_string(book().join("SUMMARY.md")).unwrap();
    for entry in fs::read_dir(book()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(name == "SUMMARY.md" || contents.contains(&format!("]({name})")), "{name}");
        let text = fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap();
            assert!(link.contains("://") || path.parent().unwrap().join(file).exists(), "{name}: {link}");
        }
    }
}

/// Commands that are named but not run exist, too.
#[test]
fn every_named_command_exists() {
    for entry in fs::read_dir(book()).unwrap() {
        let page = fs::read_to_string(entry.unwrap().path()).unwrap();
        let begins = ["`newsreel ", "$ newsreel ", "\n   newsreel "];
        let verbs = begins.iter().flat_map(|begin| {
            page.match_indices(begin)
                .filter_map(|(at, _)| page[at + begin.len()..].split([' ', '`', '\n']).next())
        });
        for verb in verbs.collect::<std::collections::BTreeSet<_>>() {
            let mut help = Command::new(env!("CARGO_BIN_EXE_newsreel"));
            let output = help.args([verb, "--help"]).output().unwrap();
            assert!(output.status.success(), "newsreel {verb}");
        }
    }
}
