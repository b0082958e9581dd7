//! Follows `docs/feeding.md` as an operator does, with INN as the peer: each command is run as written, and
//! each piece of configuration is used.
//!
//! Names of other machines are replaced by addresses of this one, and programs that carry batches by one that
//! passes them to INN's rnews; nothing else is changed.

use super::{hand_in, hand_in_all};
use crate::client::{Client, article};
use crate::operated::{Operated, Serving, complaints};
use crate::transcripts::inn::Inn;
use crate::waiting::wait_until;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// The article that the page's examples name.
const ASKED: &str = "<1993Apr5.012345@example.org>";
/// Articles that arrive after each change of the configuration.
const ARTICLES: usize = 20;
/// Programs that batches are passed to.
const CARRIERS: [&str; 3] = ["/usr/bin/uux", "/usr/bin/ssh", "/usr/bin/rsync"];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    Commands(Vec<String>),
    /// Sections of newsreel's configuration.
    Sections(Vec<String>),
    /// A key that replaces the one of that name.
    Key(String),
    /// Part of INN's incoming.conf.
    Inn(String),
}

/// Returns the items of the page in order; includes commands within the text.
fn items(page: &str) -> Vec<Item> {
    let mut items = Vec::new();
    for paragraph in page.split("\n\n") {
        let code: Option<Vec<&str>> = paragraph.lines().map(|line| line.strip_prefix("    ")).collect();
        let Some(code) = code.filter(|code| !code.is_empty()) else {
            let spans = paragraph.split('`').skip(1).step_by(2).map(|span| span.replace('\n', " "));
            let commands = spans.filter(|span| span.starts_with("newsreel "));
            items.extend(commands.map(|command| Item::Commands(vec![command])));
            continue;
        };
        let text = code.join("\n") + "\n";
        items.push(match code[0].split_whitespace().next().unwrap() {
            "newsreel" | "mv" => Item::Commands(code.iter().map(|line| (*line).to_owned()).collect()),
            "after_batch" => {
                items.extend(code.iter().map(|line| Item::Key((*line).to_owned())));
                continue;
            }
            "peer" => Item::Inn(text),
            word if word.starts_with("[[") => Item::Sections(
                text.split("\n[[").map(|part| format!("[[{}\n", part.trim_start_matches('['))).collect(),
            ),
            _ => panic!("docs/feeding.md: is this a command, or configuration?\n{text}"),
        });
    }
    items
}

/// The operator who follows the page.
struct Reader {
    inn: Inn,
    site: Operated,
    serving: Serving,
    base: String,
    /// Sections in use; a new one replaces another of the same name.
    sections: Vec<String>,
    handed_in: usize,
}

impl Reader {
    fn new(inn: Inn) -> Self {
        inn.start_empty();
        let site = Operated::with(&["--peer", "127.0.0.1"]);
        site.done(&["group", "add", "misc.test"]);
        let base = fs::read_to_string(site.dir().join("newsreel.toml")).unwrap();
        let serving = site.serve();
        let reader = Self { inn, site, serving, base, sections: Vec::new(), handed_in: 0 };
        let bin = reader.bin();
        fs::create_dir(&bin).unwrap();
        let program = env!("CARGO_BIN_EXE_newsreel");
        reader.script("newsreel", &format!("exec {program} \"$@\" --dir {}", reader.site.dir().display()));
        reader.script("read-them", "cat \"$@\"");
        // rsync gets the file's name, the others its content.
        let rnews = reader.inn.command("rnews");
        reader.script(
            "carrier",
            &format!("case $1 in --quiet) exec {rnews} < \"$2\";; *) exec {rnews};; esac"),
        );
        reader
    }

    fn bin(&self) -> PathBuf {
        self.site.home().join("bin")
    }

    fn script(&self, name: &str, text: &str) {
        let file = self.bin().join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, command: &str) {
        if let Some(file) = command.strip_prefix("mv ").and_then(|rest| rest.split(' ').next()) {
            let file = self.site.dir().join(file);
            wait_until("the file of lines", || file.exists());
        }
        let path = format!("{}:{}", self.bin().display(), std::env::var("PATH").unwrap());
        let output =
            Command::new("sh").args(["-c", command]).current_dir(self.site.dir()).env("PATH", path).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{command}: {}", complaints(&output));
        if command.starts_with("newsreel why") {
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains("groups"), "{text}");
        }
    }

    fn put(&mut self, section: &str) {
        let names = |text: &str| text.lines().take(2).collect::<Vec<_>>().join("\n");
        self.sections.retain(|own| names(own) != names(section));
        self.sections.push(section.to_owned());
        self.apply();
    }

    /// Applies the configuration to the server, and feeds articles.
    fn apply(&mut self) {
        let mut text = self.base.clone() + "\n" + &self.sections.concat();
        text = text.replace("news.example.net:119", &self.inn.peer_address().to_string());
        text = text.replace("leaf.example.net:119", "127.0.0.1:1");
        for carrier in CARRIERS {
            text = text.replace(carrier, self.bin().join("carrier").to_str().unwrap());
        }
        self.site.edit(|_| text);
        self.run("newsreel check");
        self.run("newsreel ctl reload");
        let mut client = self.serving.client();
        hand_in(&mut client, self.handed_in..self.handed_in + ARTICLES, "misc.test");
        if self.handed_in == 0 {
            hand_in_all(&mut client, &[(ASKED.to_owned(), article(ASKED, "misc.test", "asked about"))]);
        }
        self.handed_in += ARTICLES;
    }

    fn feed(&self, peer: &str) -> serde_json::Value {
        let status: serde_json::Value = serde_json::from_str(&self.site.done(&["status", "--json"])).unwrap();
        let peers = status["server"]["peers"].as_array().unwrap();
        peers.iter().find(|of| of["name"] == peer).unwrap()["feed"].clone()
    }
}

fn page() -> Vec<Item> {
    items(include_str!("../../../../../docs/feeding.md"))
}

#[test]
fn the_page_has_commands_and_configuration() {
    let page = page();
    let commands = page.iter().filter(|item| matches!(item, Item::Commands(_))).count();
    let sections = page.iter().filter(|item| matches!(item, Item::Sections(_))).count();
    assert!(commands >= 8 && sections >= 4, "{page:#?}");
    assert!(page.iter().any(|item| matches!(item, Item::Inn(_))));
}

#[test]
#[ignore = "needs INN and root: make transcripts-inn"]
fn the_page_is_followed_with_inn_at_the_other_end() {
    let Some(inn) = Inn::found() else { return };
    let page = page();
    for item in &page {
        if let Item::Inn(text) = item {
            let text = text.replace("192.0.2.10", "127.0.0.1");
            inn.change("incoming.conf", |_| format!("streaming: true\n{text}"));
        }
    }
    let mut reader = Reader::new(inn);
    for item in &page {
        match item {
            Item::Commands(commands) => commands.iter().for_each(|command| reader.run(command)),
            Item::Sections(sections) => sections.iter().for_each(|section| reader.put(section)),
            Item::Key(line) => {
                let name = line.split(' ').next().unwrap();
                let of_that = |section: &&mut String| section.contains(&format!("\n{name} = "));
                let section = reader.sections.iter_mut().find(of_that).unwrap();
                let lines = section.lines().map(|own| if own.starts_with(name) { line } else { own });
                *section = lines.map(|line| format!("{line}\n")).collect();
                reader.apply();
                reader.run("newsreel batch leaf.example.net");
            }
            Item::Inn(_) => {}
        }
    }
    // INN has each article once, whichever way it came.
    let all = reader.handed_in + 1;
    wait_until("all articles at INN", || {
        let said = Client::greeted(reader.inn.reader_address()).ask("GROUP misc.test");
        said.starts_with(&format!("211 {all} 1 {all} "))
    });
    wait_until("the feed's end", || reader.feed("news.example.net")["lag_articles"] == 0);
    wait_until("batches at INN", || {
        let output = &reader.feed("leaf.example.net")["output"];
        output["batches_handed_over"].as_u64() > Some(0) && output["waiting_files"] == 0
    });
    let feed = reader.feed("news.example.net");
    // An article sent without an offer is rejected if a batch has brought it before.
    assert!(feed["accepted"].as_u64() > Some(0), "{feed}");
    assert_eq!((&feed["missed"], &feed["given_up"]), (&0.into(), &0.into()), "{feed}");
}
