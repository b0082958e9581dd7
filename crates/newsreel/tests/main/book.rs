//! The book is followed as a reader does: each command of a page is run, in the order of the page and in a
//! directory of its own, and each piece of configuration is used.
//!
//! Commands stand in blocks of the language `console`, after `$ `; pieces of newsreel.toml in blocks of
//! `toml`. Ports are those that the system chooses, and sizes are a thousandth; nothing else is changed.

use crate::operated::{PATIENCE, complaints};
use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[derive(Debug, PartialEq, Eq)]
enum Item {
    Command(String),
    /// More of newsreel.toml.
    Sections(String),
}

/// What the page says, with the places and servers of a test.
fn elsewhere(text: &str) -> String {
    let places = [
        ("/etc/news/leafnode", "leafnode/etc"),
        ("/var/spool/news", "leafnode/spool"),
        ("/var/lib/newsreel", "site"),
        ("127.0.0.1:8119", "127.0.0.1:0"),
        ("news.example.net:119", "news.invalid:119"),
    ];
    places.iter().fold(text.to_owned(), |text, (there, here)| text.replace(there, here))
}

fn book() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src")
}

/// What is to be typed, in the order of the page.
fn items(page: &str) -> Vec<Item> {
    let mut items = Vec::new();
    for block in page.split("\n```").skip(1).step_by(2) {
        let (language, text) = block.split_once('\n').unwrap_or_default();
        match language {
            "console" => {
                let text = text.replace("\\\n", "");
                let commands =
                    text.lines().map(|line| line.strip_prefix("$ ").expect("a command begins with $"));
                items.extend(commands.map(|command| Item::Command(command.to_owned())));
            }
            "toml" => items.push(Item::Sections(format!("\n{text}\n"))),
            "text" => {}
            other => panic!("a block of {other}"),
        }
    }
    items
}

/// A reader of the book, with a directory and a server that ends with the value.
struct Reader {
    home: TempDir,
    server: RefCell<Option<Child>>,
}

impl Reader {
    fn new() -> Self {
        let reader = Self { home: TempDir::new().unwrap(), server: RefCell::default() };
        fs::create_dir(reader.home.path().join("bin")).unwrap();
        let file = reader.home.path().join("bin/newsreel");
        // `up` would take the usual ports.
        let program = env!("CARGO_BIN_EXE_newsreel");
        let script = format!(
            "#!/bin/sh\ncase $1 in\n  up) exec {program} \"$@\" --listen 127.0.0.1:0;;\n  \
             *) exec {program} \"$@\";;\nesac\n"
        );
        fs::write(&file, script).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
        reader
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
        let mut text = elsewhere(text).replace("512 MiB", "512 KiB").replace(" GiB", " MiB");
        for port in ["0.0.0.0:119", "0.0.0.0:563", "127.0.0.1:1119"] {
            text = text.replace(port, "127.0.0.1:0");
        }
        if let Some(server) = text.strip_suffix(" &") {
            let log = fs::File::create(self.home.path().join("log")).unwrap();
            let mut command = self.command(&format!("exec {server}"));
            let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
            *self.server.borrow_mut() = Some(child);
            let site = server.split_once("--dir").map_or(String::new(), |(_, dir)| format!("--dir {dir}"));
            let begun = Instant::now();
            let answers = format!("newsreel status {site} --json | grep -q '\"pid\"'");
            while !self.command(&answers).stderr(Stdio::null()).status().unwrap().success() {
                let log = fs::read_to_string(self.home.path().join("log")).unwrap();
                assert!(begun.elapsed() < PATIENCE, "{text}: {log}");
                std::thread::sleep(Duration::from_millis(50));
            }
            return;
        }
        let output = self.command(&text).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}: {said}{}", complaints(&output));
    }

    fn configure(&self, sections: &str) {
        let file = self.home.path().join("site/newsreel.toml");
        let text = fs::read_to_string(&file).unwrap();
        // A section of users comes before the one for everybody, and so does a rule for some groups.
        let kind = ["\n[[access]]", "\n[[rule]]"].into_iter().find(|kind| sections.contains(kind));
        let at = kind.and_then(|kind| text.find(kind)).unwrap_or(text.len());
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
                Item::Sections(sections) => self.configure(&sections),
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            self.command(&format!("kill {}", server.id())).status().unwrap();
            server.wait().unwrap();
        }
    }
}

fn follow(page: &str) {
    Reader::new().follow(page);
}

#[test]
fn the_first_site_is_up_in_five_minutes() {
    let begun = Instant::now();
    follow("first-site.md");
    assert!(begun.elapsed() < Duration::from_secs(300));
}

#[test]
fn fed_by_a_peer_and_feeding_one() {
    follow("peers.md");
}

#[test]
fn archives_of_mailing_lists() {
    follow("mailing-lists.md");
}

#[test]
fn from_leafnode() {
    let reader = Reader::new();
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

#[test]
fn a_private_site() {
    follow("private-site.md");
}

#[test]
fn a_cache_at_home() {
    follow("cache.md");
}

#[test]
fn how_large_buffers_should_be() {
    follow("sizing.md");
}

#[test]
fn backup_and_restore() {
    follow("backup.md");
}

#[test]
fn when_a_disk_dies() {
    follow("disk.md");
}

#[test]
fn every_page_is_in_the_contents_and_every_link_leads_somewhere() {
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

/// What is named and not run exists, too.
#[test]
fn every_command_that_is_named_exists() {
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
