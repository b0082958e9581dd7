//! Migration from INN: its configuration is imported, and the new site behaves as INN did.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::buffers::Served;
use crate::client::{Client, article};
use crate::clients::skipped;
use crate::feeds::cnews::CNews;
use crate::transcripts::inn::Inn;
use crate::waiting::wait_for_next_second;

fn newsreel(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_newsreel"));
    command.args(arguments).env_remove("NEWSREEL_CONFIG").output().unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Imports the configuration of another server in `etc` as that of a new site on a free port.
fn moved(command: &str, etc: &Path, home: &Path) -> String {
    let config = home.join("newsreel.toml");
    let output = newsreel(&["import", command, etc.to_str().unwrap(), "--out", config.to_str().unwrap()]);
    assert!(output.status.success(), "{}", told(&output));
    let text = fs::read_to_string(&config).unwrap();
    let rest = text.lines().filter(|line| !line.starts_with("listen = "));
    let rest: String = rest.map(|line| format!("{line}\n")).collect();
    fs::write(&config, rest.replace("\n[site]\n", "\n[site]\nlisten = [\"127.0.0.1:0\"]\n")).unwrap();
    let made = newsreel(&["init", "--dir", home.to_str().unwrap(), "--groups", "/dev/null"]);
    assert!(made.status.success(), "{}", told(&made));
    text
}

#[test]
fn inns_default_files_become_a_working_site() {
    let etc = Path::new("/etc/news");
    if !etc.join("inn.conf").is_file() {
        skipped("(install inn2)", false);
        return;
    }
    let home = TempDir::new().unwrap();
    let text = moved("inn-config", etc, home.path());
    assert!(!text.contains("not understood") && !text.contains("has no such key"), "{text}");
    let (server, address) = Served::start(home.path());
    let mut client = Client::greeted(address);
    assert!(client.ask("GROUP control").starts_with("211 "));
    server.stop();
}

#[test]
fn passwords_and_texts_are_written_beside_the_configuration() {
    let home = TempDir::new().unwrap();
    let etc = home.path().join("etc");
    fs::create_dir(&etc).unwrap();
    for (name, text) in [
        ("inn.conf", "pathhost: a.example\nbindaddress: 127.0.0.1\n"),
        ("incoming.conf", "peer up.example {\n  hostname: 192.0.2.1\n  password: \"open sesame\"\n}\n"),
        ("newsfeeds", "ME:*::\ndown.example:*:Tf,Wnm:\n"),
        ("nntpsend.ctl", "down.example:down.example::\n"),
        ("passwd.nntp", "down.example:us:hush\nnobody.example:x:whisper\n"),
        ("subscriptions", "local.test\n"),
        ("motd.nnrpd", "Welcome.\n"),
    ] {
        fs::write(etc.join(name), text).unwrap();
    }
    let site = home.path().join("site");
    let text = moved("inn-config", &etc, &site);
    for (file, password) in [("up.example.incoming", "open sesame\n"), ("down.example.password", "hush\n")] {
        let file = site.join("passwords").join(file);
        assert_eq!(fs::read_to_string(&file).unwrap(), password);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    for secret in ["sesame", "hush", "whisper"] {
        assert!(!text.contains(secret), "{text}");
    }
    assert_eq!(fs::read_to_string(site.join("lists/motd")).unwrap(), "Welcome.\n");
    assert_eq!(fs::read_to_string(site.join("lists/subscriptions")).unwrap(), "local.test\n");
    // Existing files stay as they are.
    let config = site.join("newsreel.toml");
    let again = newsreel(&["import", "inn-config", etc.to_str().unwrap(), "--out", config.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(2), "{}", told(&again));
    let none = newsreel(&["import", "inn-config", site.to_str().unwrap()]);
    assert!(told(&none).contains("there is no inn.conf in"), "{}", told(&none));
}

/// Commands of a reader, and whether all of the response is compared or only the code.
const READING: [(&str, bool); 12] = [
    ("LIST ACTIVE", true),
    ("LIST NEWSGROUPS", true),
    ("LIST ACTIVE.TIMES misc.*", true),
    ("LIST SUBSCRIPTIONS", true),
    ("LIST DISTRIB.PATS", true),
    ("GROUP misc.test", true),
    ("GROUP local.hidden", true),
    ("GROUP no.such.group", false),
    ("LISTGROUP misc.test", true),
    ("NEWNEWS misc.* 19990101 000000 GMT", true),
    ("STAT <1@moving.example>", false),
    ("XPAT", false),
];

/// Returns the responses, with blocks as sorted lines.
fn answers(address: SocketAddr) -> Vec<String> {
    let mut client = Client::greeted(address);
    client.ask("MODE READER");
    let mut all = Vec::new();
    for (command, whole) in READING {
        let line = client.ask(command);
        let has_block = ["215", "230"].contains(&&line[..3])
            || (command.starts_with("LISTGROUP") && line.starts_with("211"));
        let mut block = if has_block { client.block() } else { Vec::new() };
        // Numbers in INN's format.
        let plain = |line: &String| match command == "LIST ACTIVE" {
            true => line.split(' ').map(plain_number).collect::<Vec<_>>().join(" "),
            false => line.clone(),
        };
        block = block.iter().map(plain).collect();
        block.sort();
        let line = if whole && !has_block { line } else { line[..3].to_owned() };
        all.push(format!("{command}: {line} {}", block.join("|")));
    }
    all
}

fn plain_number(word: &str) -> String {
    word.parse::<u64>().map_or_else(|_| word.to_owned(), |number| number.to_string())
}

/// Posts, and returns the results.
fn posted(address: SocketAddr) -> Vec<String> {
    let mut client = Client::greeted(address);
    client.ask("MODE READER");
    let mut number = 0;
    let post = |groups: &str| {
        assert!(client.ask("POST").starts_with("340 "));
        number += 1;
        client.send(format!(
            "From: poster@moving.example\r\nNewsgroups: {groups}\r\nSubject: {number}\r\n\
             Message-ID: <post.{number}@moving.example>\r\n\r\nbody\r\n.\r\n"
        ));
        let line = client.line();
        format!("POST {groups}: {}", &line[..3])
    };
    ["misc.test", "local.closed", "local.refused", "no.such.group", "misc.test,local.empty"]
        .map(post)
        .to_vec()
}

/// Offers articles as a peer.
fn fed(address: SocketAddr) -> Vec<String> {
    let mut client = Client::greeted(address);
    let mut all = vec![client.ask("MODE STREAM")[..3].to_owned()];
    for (id, groups) in [
        ("1", "misc.test"),
        ("2", "misc.test,local.empty"),
        ("3", "local.hidden"),
        ("4", "no.such"),
        ("1", "misc.test"),
    ] {
        let id = format!("<{id}@moving.example>");
        all.push(client.ask(&format!("CHECK {id}"))[..3].to_owned());
        client.send(format!("TAKETHIS {id}\r\n{}", article(&id, groups, "body")));
        all.push(format!("{groups}: {}", &client.line()[..3]));
    }
    all.push(client.ask("IHAVE <1@moving.example>")[..3].to_owned());
    all.push(client.ask("IHAVE <5@moving.example>")[..3].to_owned());
    client.send(article("<5@moving.example>", "misc.test", "body"));
    all.push(client.line()[..3].to_owned());
    all
}

/// Returns the Message-IDs in a file feed.
fn listed(file: &Path) -> Vec<String> {
    let mut ids: Vec<String> =
        fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect();
    ids.sort();
    ids
}

#[test]
#[ignore = "needs INN and root: make transcripts-inn"]
fn a_site_that_has_moved_in_answers_as_inn_did() {
    let Some(inn) = Inn::found() else { return };
    inn.change("newsfeeds", |text| text + "down.example:*,!control,!control.*,!junk,@local.empty:Tf,Wm:\n");
    // With other patterns nnrpd adds a Distribution to posts, which this site then refuses: docs/from-inn.md.
    inn.change("distrib.pats", |_| "1:*:world\n".to_owned());
    inn.change("subscriptions", |_| "misc.test\nlocal.closed\n".to_owned());
    inn.start_empty();
    let home = TempDir::new().unwrap();
    let text = moved("inn-config", &inn.site(), home.path());
    let site = home.path().to_str().unwrap();
    let imported = newsreel(&["import", "inn", inn.site().to_str().unwrap(), "--dir", site]);
    assert!(imported.status.success(), "{}", told(&imported));
    let (server, address) = Served::start(home.path());
    let (peers, readers) = (inn.peer_address(), inn.reader_address());
    let mut ours = [fed(address), posted(address), answers(address)].concat();
    let mut theirs = [fed(peers), posted(readers), answers(readers)].concat();
    // Articles fed to others.
    inn.tool(&["ctlinnd", "-s", "flush", "down.example"], b"");
    ours.extend(listed(&home.path().join("out/down.example")));
    let fed_on = listed(&inn.site().join("spool/outgoing/down.example"));
    assert!(fed_on.len() >= 3, "{fed_on:?}");
    theirs.extend(fed_on);
    let differing: Vec<_> = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs).collect();
    assert_eq!((differing, ours.len()), (Vec::new(), theirs.len()), "{text}");
    server.stop();
}

/// Returns the numbers of a group.
fn numbers(address: SocketAddr, group: &str) -> Vec<String> {
    let mut client = Client::greeted(address);
    client.ask("MODE READER");
    assert!(client.ask(&format!("LISTGROUP {group}")).starts_with("211 "));
    client.block()
}

#[test]
#[ignore = "needs INN and root: make transcripts-inn"]
fn a_site_that_has_expired_and_cancelled_articles_moves_in_without_them() {
    let Some(inn) = Inn::found() else { return };
    inn.change("expire.ctl", |_| "/remember/:11\n*:A:1:10:never\nlocal.empty:A:0:0:0\n".to_owned());
    inn.start_empty();
    let mut client = Client::greeted(inn.peer_address());
    for n in 1..=6 {
        let id = format!("<{n}@moving.example>");
        let groups = if n > 4 { "local.empty" } else { "misc.test,local.empty" };
        client.send(format!("TAKETHIS {id}\r\n{}", article(&id, groups, "body")));
        assert_eq!(client.line(), format!("239 {id}"));
    }
    // INN keeps what arrived within the second of its expiry.
    wait_for_next_second();
    inn.tool(&["news.daily", "delayrm", "expireover", "lowmark"], b"");
    let home = TempDir::new().unwrap();
    moved("inn-config", &inn.site(), home.path());
    let from = inn.site();
    let import = || {
        let site = home.path().to_str().unwrap();
        let imported = newsreel(&["import", "inn", from.to_str().unwrap(), "--dir", site]);
        assert!(imported.status.success(), "{}", told(&imported));
        told(&imported)
    };
    let imported = import();
    assert!(imported.contains("imported 4 articles"), "{imported}");
    inn.tool(&["ctlinnd", "-s", "cancel", "<2@moving.example>"], b"");
    let imported = import();
    assert!(imported.contains("removed there since they were imported: 1 article, still here"), "{imported}");
    let list = fs::read_to_string(home.path().join("removed-there")).unwrap();
    assert!(list.lines().any(|line| line == "<2@moving.example>"), "{list}");
    let cancelled = newsreel(&["cancel", "<2@moving.example>", "--dir", home.path().to_str().unwrap()]);
    assert!(cancelled.status.success(), "{}", told(&cancelled));
    let (server, address) = Served::start(home.path());
    for group in ["misc.test", "local.empty"] {
        assert_eq!(numbers(address, group), numbers(inn.reader_address(), group), "{group}");
    }
    assert_eq!(numbers(address, "misc.test"), ["1", "3", "4"]);
    server.stop();
}

#[test]
#[ignore = "needs C News and root: make batches-inn"]
fn a_site_of_c_news_that_has_moved_in_has_its_groups_and_articles() {
    let Some(cnews) = CNews::found() else { return };
    let home = TempDir::new().unwrap();
    let (batch, site) = (home.path().join("batch"), home.path().join("site"));
    let articles: String = (1..=3)
        .map(|n| {
            let text = article(&format!("<{n}@moving.example>"), "misc.test", "body").replace("\r\n", "\n");
            let text = text.strip_suffix(".\n").unwrap();
            format!("#! rnews {}\n{text}", text.len())
        })
        .collect();
    fs::write(&batch, articles).unwrap();
    cnews.run("relay", &cnews.site(), &[batch.to_str().unwrap()]);
    let ctl = cnews.site().join("ctl");
    let text = moved("cnews-config", &ctl, &site);
    let (arts, active) = (cnews.site().join("arts"), ctl.join("active"));
    let dir = site.to_str().unwrap();
    let from = [arts.to_str().unwrap(), active.to_str().unwrap()];
    let imported = newsreel(&["import", "inn", from[0], from[1], "--dir", dir]);
    assert!(imported.status.success(), "{}", told(&imported));
    let (server, address) = Served::start(&site);
    let mut client = Client::greeted(address);
    assert!(client.ask("GROUP misc.test").starts_with("211 3 1 3 "), "{text}");
    assert!(client.ask("LIST ACTIVE local.closed").starts_with("215 "));
    assert_eq!(client.block().len(), 1);
    // Repeated articles are duplicates, and the site that C News fed is fed.
    let again = newsreel(&["rnews", batch.to_str().unwrap(), "--dir", dir]);
    assert!(told(&again).contains("3 duplicates"), "{}", told(&again));
    let status = newsreel(&["status", "--json", "--dir", dir]);
    assert!(told(&status).contains("lower"), "{}", told(&status));
    server.stop();
}
