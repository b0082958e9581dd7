//! `newsreel history export|import`: articles seen by another server are refused here, with a server and
//! without one, and the history here is written in the forms of INN and C News.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use spool::inn_hash;
use tempfile::TempDir;

use crate::buffers::Served;
use crate::client::{Client, article};

fn newsreel(site: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_newsreel"));
    command.args(arguments).env_remove("NEWSREEL_CONFIG").arg("--dir").arg(site).output().unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn site(home: &Path, name: &str) -> PathBuf {
    let dir = home.join(name);
    let init = ["init", "--listen", "127.0.0.1:0", "--peer", "127.0.0.1", "--max-age", "none"];
    said(&newsreel(&dir, &[&init[..], &["--buffer", "1 MiB"]].concat()));
    dir
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn hash(id: &str) -> String {
    format!("[{:032X}]", u128::from_be_bytes(inn_hash(id.as_bytes())))
}

fn import(site: &Path, lines: &str) -> Output {
    let file = site.join("their-history");
    fs::write(&file, lines).unwrap();
    newsreel(site, &["history", "import", file.to_str().unwrap()])
}

/// Returns whether peers cannot bring the article with this Message-ID in any way.
fn is_refused(client: &mut Client, id: &str) -> bool {
    let offered = client.ask(&format!("IHAVE {id}"));
    let checked = client.ask(&format!("CHECK {id}"));
    if !offered.starts_with("435 ") {
        assert!(offered.starts_with("335 "), "{offered}");
        // No response comes, and the connection is unusable.
        return false;
    }
    assert!(checked.starts_with("438 "), "{checked}");
    client.send(format!("TAKETHIS {id}\r\n{}", article(id, "local.test", "body")));
    let sent = client.line();
    assert!(sent.starts_with(&format!("439 {id}")), "{sent}");
    true
}

#[test]
fn imported_history_survives_restart_and_rebuild() {
    let home = TempDir::new().unwrap();
    let site = site(home.path(), "site");
    let (now, day) = (now(), 86_400);
    let lines = format!(
        "<cnews.article@x.example>\t{0}~-\tcomp.lang.c/7 a.b/8\n<cnews.gone@x.example>\t{0}~-\n\
         {1}\t{0}~-~{0}\t@030042310000000000000000000400000001@\n{2}\t{0}~-~-\n\
         <listed@x.example>\n<too.old@x.example>\t{3}~-\n{4}\t{3}~-~-\nno line\n[12]\t5~-~-\n",
        now - 2 * day,
        hash("<inn.article@X.Example>"),
        hash("<inn.gone@x.example>"),
        now - 12 * day,
        hash("<too.old.hash@x.example>"),
    );
    // Without a server.
    let output = import(&site, &lines);
    assert_eq!(output.status.code(), Some(1), "two lines are left out");
    let told = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(told.starts_with("5 ids remembered now\n2 are older than site.remember_days"), "{told}");
    assert!(told.ends_with("2 lines make no sense\n"), "{told}");
    let complaints = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(complaints.contains("not a line of history: no line\n"), "{complaints}");
    // Through a server; all but the new one are known.
    let (server, address) = Served::start(&site);
    let output = import(&site, &format!("{lines}{}\t{now}~-~-\n", hash("<late@x.example>")));
    assert_eq!(output.status.code(), Some(1), "two lines are left out");
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.starts_with("1 id remembered now\n5 were known already\n"), "{told}");
    let refused = [
        "<cnews.article@x.example>",
        "<cnews.gone@x.example>",
        // INN hashes the right-hand side in lower case.
        "<inn.article@x.EXAMPLE>",
        "<inn.gone@x.example>",
        "<listed@x.example>",
        "<late@x.example>",
    ];
    let mut address = Some((server, address));
    for round in ["at once", "after a restart", "after a rebuild"] {
        let (server, address) = address.take().unwrap_or_else(|| Served::start(&site));
        let mut client = Client::greeted(address);
        for id in refused {
            assert!(is_refused(&mut client, id), "{id} {round}");
        }
        for id in ["<too.old@x.example>", "<too.old.hash@x.example>", "<INN.gone@x.example>"] {
            assert!(client.ask(&format!("CHECK {id}")).starts_with("238 "), "{id} {round}");
        }
        let told = newsreel(&site, &["explain", "<inn.gone@x.example>"]);
        let told = String::from_utf8(told.stdout).unwrap();
        assert!(
            told.contains("remembered: another server's history, which was imported, has its hash"),
            "{told}"
        );
        // Posts and batches cannot bring them either.
        let mut batch = Command::new(env!("CARGO_BIN_EXE_newsreel"));
        batch.args(["rnews", "--dir"]).arg(&site).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut batch = batch.spawn().unwrap();
        let text = article("<inn.gone@x.example>", "local.test", "body").replace("\r\n.\r\n", "\r\n");
        batch.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let told = said(&batch.wait_with_output().unwrap());
        assert!(told.contains("1 duplicate"), "{told}");
        server.stop();
        if round == "after a restart" {
            said(&newsreel(&site, &["rebuild"]));
        }
    }
    // An article whose hash came with the history can still be imported.
    let inn = home.path().join("inn/articles/local/test");
    fs::create_dir_all(&inn).unwrap();
    let text = "Path: inn.example!not-for-mail\nFrom: a@b.example\nNewsgroups: local.test\nSubject: s\n\
                Message-ID: <inn.article@x.example>\nDate: 21 Nov 2026 05:00:00 GMT\n\nbody\n";
    fs::write(inn.join("1"), text).unwrap();
    let told = said(&newsreel(&site, &["import", "inn", home.path().join("inn").to_str().unwrap()]));
    assert!(told.contains("imported 1 article"), "{told}");
}

/// Returns the lines of a command, none of which may come twice.
fn lines(output: &Output) -> BTreeSet<String> {
    let lines: BTreeSet<String> = said(output).lines().map(str::to_owned).collect();
    assert_eq!(said(output).lines().count(), lines.len());
    lines
}

#[test]
fn history_moves_to_another_site_in_both_forms() {
    let home = TempDir::new().unwrap();
    let from = site(home.path(), "from");
    let (server, address) = Served::start(&from);
    said(&newsreel(&from, &["group", "add", "local.other"]));
    let mut client = Client::greeted(address);
    let id = |n: u32| format!("<{n}@Seen.example>");
    // The buffers hold about 400 of these; every third one has two copies.
    for n in 0..600 {
        let groups = if n % 3 == 0 { "local.test,local.other" } else { "local.test" };
        client.send(format!("TAKETHIS {}\r\n{}", id(n), article(&id(n), groups, &"text ".repeat(1000))));
        assert_eq!(client.line(), format!("239 {}", id(n)));
    }
    said(&newsreel(&from, &["cancel", &id(599), "<never.came@x.example>"]));
    let cnews = newsreel(&from, &["history", "export", "--form", "cnews"]);
    let inn = newsreel(&from, &["history", "export"]);
    let named = String::from_utf8(cnews.stderr.clone()).unwrap();
    assert!(named.starts_with("600 Message-IDs written\n"), "{named}");
    assert!(client.ask("GROUP local.test").starts_with("211 "));
    server.stop();

    // Each Message-ID once; stored articles with their groups, others without.
    let (cnews, inn) = (lines(&cnews), lines(&inn));
    assert_eq!((cnews.len(), inn.len()), (600, 600));
    let fields = |n: u32| {
        let line = cnews.iter().find(|line| line.starts_with(&format!("{}\t", id(n))));
        line.unwrap_or_else(|| panic!("{n} is missing")).split('\t').map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(fields(0).len(), 2, "{:?}", fields(0));
    assert_eq!(fields(599).len(), 2, "{:?}", fields(599));
    assert_eq!(fields(598)[2], "local.test/599");
    assert_eq!(fields(597)[2], "local.test/598 local.other/200");
    assert!(fields(0)[1].ends_with("~-"), "{:?}", fields(0));
    let size = fields(598)[1].rsplit_once("~-~").and_then(|(_, size)| size.parse::<u64>().ok());
    assert!(size.is_some_and(|size| (5_000..6_000).contains(&size)), "{:?}", fields(598));
    let posted = netnews::date::parse(b"15 Apr 1993 12:00:00 GMT").unwrap();
    let line = inn.iter().find(|line| line.starts_with(&hash(&id(598)))).unwrap();
    assert!(line.ends_with(&format!("~-~{posted}")), "{line}");
    // The result is the same without a server.
    assert_eq!(lines(&newsreel(&from, &["history", "export", "--form", "cnews"])), cnews);
    let out = home.path().join("out");
    said(&newsreel(&from, &["history", "export", "--out", out.to_str().unwrap()]));
    assert_eq!(fs::read_to_string(&out).unwrap().lines().map(str::to_owned).collect::<BTreeSet<_>>(), inn);

    // Nothing has read the journal of a restored site yet.
    let (snapshot, restored) = (home.path().join("news.snapshot"), home.path().join("restored"));
    said(&newsreel(&from, &["snapshot", snapshot.to_str().unwrap()]));
    fs::create_dir(&restored).unwrap();
    fs::copy(from.join("newsreel.toml"), restored.join("newsreel.toml")).unwrap();
    said(&newsreel(&restored, &["restore", snapshot.to_str().unwrap()]));
    let stored: BTreeSet<String> =
        cnews.iter().filter(|line| line.split('\t').count() == 3).cloned().collect();
    assert!(stored.len() > 100, "{} articles", stored.len());
    assert_eq!(lines(&newsreel(&restored, &["history", "export", "--form", "cnews"])), stored);

    // Another site refuses all of them.
    for (name, lines) in [("by-id", &cnews), ("by-hash", &inn)] {
        let to = site(home.path(), name);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let told = said(&import(&to, &text));
        assert_eq!(told, "600 ids remembered now\n");
        let (server, address) = Served::start(&to);
        let mut client = Client::greeted(address);
        for n in 0..600 {
            assert!(client.ask(&format!("CHECK {}", id(n))).starts_with("438 "), "{name} {n}");
        }
        assert!(client.ask(&format!("CHECK {}", id(600))).starts_with("238 "));
        server.stop();
    }
}
