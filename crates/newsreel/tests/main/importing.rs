//! An import that is larger than its buffers: compared before, counted after, in a dry run, through a server
//! and without one. Imports from another newsreel that continues to serve.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::buffers::Served;
use crate::client::Client;

/// Articles of the other server.
const ARTICLES: u64 = 400;

/// Creates a directory like INN's tradspool, with its active file.
fn inn(dir: &Path) {
    inn_group(dir, "a");
}

/// Creates such a directory with the group `inn.NAME`.
fn inn_group(dir: &Path, name: &str) {
    let group = dir.join("articles/inn").join(name);
    fs::create_dir_all(&group).unwrap();
    for n in 1..=ARTICLES {
        let head = format!(
            "Path: inn.example!not-for-mail\nFrom: a@b.example\nNewsgroups: inn.{name}\nSubject: s \
             {n}\nMessage-ID: <{n}@{name}.inn.example>\n\
             Date: 21 Nov 2026 05:00:00 GMT\nXref: inn.example inn.{name}:{n}\n"
        );
        fs::write(group.join(n.to_string()), format!("{head}\n{}", "seven b\n".repeat(500))).unwrap();
    }
    let active = format!("inn.{name} 0000000400 0000000001 y\ninn.moderated 0000000000 0000000001 m\n");
    fs::write(dir.join("active"), active).unwrap();
}

fn newsreel(site: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_newsreel"));
    command.args(arguments).env_remove("NEWSREEL_CONFIG").arg("--dir").arg(site).output().unwrap()
}

fn site(home: &Path, name: &str, buffer: &str) -> std::path::PathBuf {
    let dir = home.join(name);
    let made = newsreel(&dir, &["init", "--listen", "127.0.0.1:0", "--buffer", buffer]);
    assert!(made.status.success(), "{made:?}");
    dir
}

/// Returns the JSON output of an import, and its exit code.
fn import(site: &Path, options: &[&str], from: &Path) -> (serde_json::Value, Option<i32>) {
    let from = from.to_str().unwrap();
    let output = newsreel(site, &[&["import", "inn", from, "--json"], options].concat());
    let told = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    (told, output.status.code())
}

/// Returns the number of readable articles in the group.
fn living(site: &Path) -> u64 {
    living_in(site, "inn.a")
}

fn living_in(site: &Path, group: &str) -> u64 {
    let output = newsreel(site, &["group", "list", group, "--json"]);
    let groups: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    groups[0]["count"].as_u64().unwrap()
}

#[test]
fn import_larger_than_the_buffers_is_reported_before_and_after() {
    let home = TempDir::new().unwrap();
    let from = home.path().join("inn");
    inn(&from);
    let small = site(home.path(), "small", "256 KiB");
    // Rough numbers: 400 articles of about 4.8 KB each, in 512 KiB.
    let (dry, code) = import(&small, &["--dry-run"], &from);
    assert_eq!((dry["imported"].as_u64(), code), (Some(ARTICLES), Some(1)), "{dry}");
    let expected = dry["still_there"].as_u64().unwrap();
    assert!((60..130).contains(&expected), "{dry}");
    assert_eq!(dry["displaced"].as_u64().unwrap() + expected, ARTICLES);
    let room = &dry["room"][0];
    assert_eq!((room["class"].as_str(), room["articles"].as_u64()), (Some("text"), Some(ARTICLES)));
    assert!(room["needed_bytes"].as_u64() > Some(3 * room["capacity_bytes"].as_u64().unwrap()), "{dry}");
    assert_eq!(newsreel(&small, &["group", "list", "inn.a", "--json"]).stdout, b"[]\n");

    // Nothing is filed unless the operator insists.
    let (told, code) = import(&small, &[], &from);
    assert_eq!((told["imported"].as_u64(), told["room"][0]["articles"].as_u64()), (Some(0), Some(ARTICLES)));
    assert_eq!(code, Some(1));
    let output = newsreel(&small, &["import", "inn", from.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let refused = String::from_utf8(output.stderr).unwrap();
    assert!(refused.contains("nothing was imported; to import all the same, give --yes"), "{refused}");
    assert_eq!(newsreel(&small, &["group", "list", "inn.a", "--json"]).stdout, b"[]\n");

    // The text report: the comparison first, then the result.
    let output = newsreel(&small, &["import", "inn", "--yes", from.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let warned = String::from_utf8(output.stderr).unwrap();
    let there = living(&small);
    assert!(there.abs_diff(expected) * 10 < there * 3, "{there} of {expected}");
    let before = said.find("class text: 400 articles of 1.8").unwrap_or_else(|| panic!("{said}"));
    let after = said.find("imported 400 articles").unwrap_or_else(|| panic!("{said}"));
    assert!(before < after && said.contains("but it has room for "), "{said}");
    let counted =
        format!("{there} of them are still stored; {} were displaced by later ones", ARTICLES - there);
    assert!(said.contains(&counted), "{counted}: {said}");
    assert!(warned.contains("not everything has room; make room first (newsreel buffer grow"), "{warned}");

    // Likewise through a server.
    let served = site(home.path(), "served", "256 KiB");
    let (server, _) = Served::start(&served);
    let (told, code) = import(&served, &[], &from);
    assert_eq!((told["imported"].as_u64(), code), (Some(0), Some(1)), "{told}");
    let (told, code) = import(&served, &["--yes"], &from);
    assert_eq!((told["imported"].as_u64(), code), (Some(ARTICLES), Some(1)), "{told}");
    assert_eq!(told["still_there"].as_u64(), Some(living(&served)), "{told}");
    assert_eq!(told["displaced"].as_u64(), Some(ARTICLES - living(&served)), "{told}");
    server.stop();
}

#[test]
fn import_that_would_displace_older_articles_needs_confirmation() {
    let home = TempDir::new().unwrap();
    let (first, second) = (home.path().join("first"), home.path().join("second"));
    inn_group(&first, "a");
    inn_group(&second, "b");
    // Each of the two has room, but not both.
    let site = site(home.path(), "site", "1300 KiB");
    let (told, code) = import(&site, &[], &first);
    assert_eq!((told["imported"].as_u64(), code), (Some(ARTICLES), Some(0)), "{told}");

    // What is here already needs no room, and a dry run counts it.
    for options in [&["--dry-run"][..], &[]] {
        let (told, code) = import(&site, options, &first);
        assert_eq!((told["imported"].as_u64(), code), (Some(0), Some(0)), "{options:?}: {told}");
        assert_eq!(told["duplicates"].as_u64(), Some(ARTICLES), "{options:?}: {told}");
        assert_eq!(told["room"], serde_json::json!([]), "{options:?}: {told}");
    }
    let out = home.path().join("out");
    assert!(newsreel(&site, &["export", "mbox", "inn.a", "--out", out.to_str().unwrap()]).status.success());
    let mbox = out.join("inn.a.mbox");
    for options in [&["--dry-run"][..], &[]] {
        let output =
            newsreel(&site, &[&["import", "mbox", mbox.to_str().unwrap(), "--json"], options].concat());
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{options:?}: {output:?}");
        assert_eq!((told["imported"].as_u64(), told["duplicates"].as_u64()), (Some(0), Some(ARTICLES)));
    }

    // Others have room in the class, but not in its free part.
    for options in [&["--dry-run"][..], &[]] {
        let (told, code) = import(&site, options, &second);
        assert_eq!(code, Some(1), "{options:?}: {told}");
        let room = &told["room"][0];
        assert_eq!(room["staying"].as_u64(), Some(ARTICLES), "{told}");
        assert!(room["free_bytes"].as_u64() < room["needed_bytes"].as_u64(), "{told}");
        assert!(room["older_displaced_bytes"].as_u64() > Some(0), "{told}");
        assert_eq!(living(&site), ARTICLES);
    }
    let output = newsreel(&site, &["import", "inn", second.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("older articles would be displaced, of other groups too"), "{output:?}");
    let (told, code) = import(&site, &["--yes"], &second);
    assert_eq!((told["imported"].as_u64(), code), (Some(ARTICLES), Some(1)), "{told}");
    assert_eq!(told["still_there"].as_u64(), Some(ARTICLES), "{told}");
    assert!(told["older_displaced_bytes"].as_u64() > Some(0), "{told}");
    assert!(living(&site) < ARTICLES && living_in(&site, "inn.b") == ARTICLES);
}

/// Writes an article of tradspool without Xref.
fn bare(root: &Path, path: &str, id: &str, newsgroups: &str) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let head = format!(
        "Path: old.example!not-for-mail\nFrom: a@b.example\nNewsgroups: {newsgroups}\nSubject: s\n\
         Message-ID: <{id}@old.example>\nDate: 21 Nov 2026 05:00:00 GMT\n"
    );
    fs::write(file, format!("{head}\nbody\n")).unwrap();
}

/// Returns an article's Xref as shown by `explain`.
fn xref(site: &Path, id: &str) -> String {
    let output = newsreel(site, &["explain", &format!("<{id}@old.example>")]);
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.starts_with("xref")).unwrap_or_else(|| panic!("{text}"));
    line.to_owned()
}

#[test]
fn file_names_are_the_numbers_without_xref() {
    let home = TempDir::new().unwrap();
    let site = site(home.path(), "site", "1 MiB");
    let added = newsreel(&site, &["group", "add", "old.a", "old.b", "old.c"]);
    assert!(added.status.success(), "{added:?}");
    let from = home.path().join("oldspool");
    bare(&from, "old/a/5000", "5000", "old.a");
    bare(&from, "old/a/5001", "5001", "old.a,old.b,old.c");
    fs::create_dir_all(from.join("old/b")).unwrap();
    fs::hard_link(from.join("old/a/5001"), from.join("old/b/70")).unwrap();
    bare(&from, "old/b/71", "71", "old.a, old.b");
    std::os::unix::fs::symlink(from.join("old/b/71"), from.join("old/a/5002")).unwrap();
    // A file whose name is not a number of a group that it names.
    bare(&from, "elsewhere/9", "9", "old.c");
    let output = newsreel(&site, &["import", "inn", from.to_str().unwrap()]);
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(
        said.contains("numbers: kept in 2 groups, new in 0 groups; 2 articles with a new number"),
        "{said}"
    );
    assert!(said.contains("without a number there: 1 article, "), "{said}");
    assert!(xref(&site, "5000").ends_with(" old.a:5000"), "{}", xref(&site, "5000"));
    for place in [" old.a:5001", " old.b:70", " old.c:1"] {
        assert!(xref(&site, "5001").contains(place), "{}", xref(&site, "5001"));
    }
    for place in [" old.a:5002", " old.b:71"] {
        assert!(xref(&site, "71").contains(place), "{}", xref(&site, "71"));
    }
    assert!(xref(&site, "9").ends_with(" old.c:2"), "{}", xref(&site, "9"));

    // A third source: numbers above all those used here are kept, others are not.
    let third = home.path().join("third");
    bare(&third, "old/a/6000", "6000", "old.a");
    bare(&third, "old/b/7", "7", "old.b");
    let output = newsreel(&site, &["import", "inn", third.to_str().unwrap()]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(xref(&site, "6000").ends_with(" old.a:6000"), "{}", xref(&site, "6000"));
    // Number 7 was never used here, but the group's numbers ascend.
    assert!(xref(&site, "7").ends_with(" old.b:72"), "{}", xref(&site, "7"));
    assert!(said.contains("1 article with a new number"), "{said}");
}

/// Writes an article of tradspool with an Xref, under its first name there and linked under the others that
/// `files` has.
fn crossposted(root: &Path, id: &str, xref: &str, files: &[&str]) {
    let groups: Vec<&str> = xref.split(' ').filter_map(|place| Some(place.rsplit_once(':')?.0)).collect();
    let text = format!(
        "Path: old.example!not-for-mail\nFrom: a@b.example\nNewsgroups: {}\nSubject: s\n\
         Message-ID: <{id}@old.example>\nDate: 21 Nov 2026 05:00:00 GMT\nXref: old.example {xref}\n\nbody\n",
        groups.join(",")
    );
    let paths: Vec<_> = files.iter().map(|file| root.join(file)).collect();
    paths.iter().for_each(|path| fs::create_dir_all(path.parent().unwrap()).unwrap());
    fs::write(&paths[0], text).unwrap();
    paths[1..].iter().for_each(|path| fs::hard_link(&paths[0], path).unwrap());
}

/// INN keeps the files of an article until it has expired in all groups; C News and leafnode remove one after
/// the other.
#[test]
fn articles_stay_out_of_groups_in_which_they_have_expired() {
    let home = TempDir::new().unwrap();
    let site = site(home.path(), "site", "1 MiB");
    let from = home.path().join("inn");
    let spool = from.join("articles");
    fs::create_dir_all(&from).unwrap();
    fs::write(from.join("active"), "inn.a 7 4 y\ninn.b 9 1 y\ninn.c 3 4 y\n").unwrap();
    crossposted(&spool, "low", "inn.a:2 inn.b:1", &["inn/a/2", "inn/b/1"]);
    crossposted(&spool, "nowhere", "inn.a:3 inn.c:3", &["inn/a/3", "inn/c/3"]);
    crossposted(&spool, "both", "inn.a:5 inn.b:2", &["inn/a/5", "inn/b/2"]);
    crossposted(&spool, "unlinked", "inn.a:6 inn.b:3", &["inn/b/3"]);
    // Another tree, in which this group has no directory.
    crossposted(&spool, "elsewhere", "inn.b:4 alt.there:8", &["inn/b/4"]);
    assert!(newsreel(&site, &["group", "add", "alt.there"]).status.success());
    let (told, code) = import(&site, &[], &from);
    assert_eq!((told["imported"].as_u64(), code), (Some(4), Some(0)), "{told}");
    let expired = &told["skipped"]["expired there in all groups that are wanted"];
    assert_eq!((expired.as_u64(), told["renumbered"].as_u64()), (Some(1), Some(0)), "{told}");
    for (id, places) in [
        ("low", &["inn.b:1"][..]),
        ("both", &["inn.a:5", "inn.b:2"]),
        ("unlinked", &["inn.b:3"]),
        ("elsewhere", &["alt.there:8", "inn.b:4"]),
    ] {
        let xref = xref(&site, id);
        let mut found: Vec<&str> =
            xref.split(' ').filter(|word| word.contains(':') && !word.ends_with(':')).collect();
        found.sort_unstable();
        assert_eq!(found, places, "{id}: {xref}");
    }
    // Marks do not fall below those that readers have seen, and peers cannot bring the expired one.
    let (server, address) = Served::start(&site);
    let mut client = Client::greeted(address);
    assert_eq!(client.ask("GROUP inn.a"), "211 1 5 7 inn.a");
    assert!(client.ask("STAT 2").starts_with("423 "));
    assert!(client.ask("GROUP inn.c").starts_with("211 0 "));
    assert!(client.ask("STAT <nowhere@old.example>").starts_with("430 "));
    server.stop();
    let explained = newsreel(&site, &["explain", "<nowhere@old.example>"]);
    let explained = String::from_utf8(explained.stdout).unwrap();
    assert!(explained.contains("remembered"), "{explained}");
    // Of the groups that are wanted, it is in none.
    let some = home.path().join("some");
    let some = self::site(&some, "site", "1 MiB");
    let (told, _) = import(&some, &["--groups", "inn.a"], &from);
    let expired = &told["skipped"]["expired there in all groups that are wanted"];
    assert_eq!((told["imported"].as_u64(), expired.as_u64()), (Some(1), Some(3)), "{told}");
}

/// The second import is that of the switch: docs/book/src/from-inn.md.
#[test]
fn articles_cancelled_at_inn_between_two_imports_are_listed() {
    let home = TempDir::new().unwrap();
    let from = home.path().join("inn");
    inn(&from);
    let site = site(home.path(), "site", "4 MiB");
    let (told, code) = import(&site, &[], &from);
    assert_eq!((told["imported"].as_u64(), code), (Some(ARTICLES), Some(0)), "{told}");
    assert!(told.get("removed_there").is_none(), "{told}");
    // An article that came otherwise, which INN never had.
    let batch = home.path().join("batch");
    fs::write(
        &batch,
        "Path: x!y\nFrom: a@b.example\nNewsgroups: inn.a\nSubject: s\nMessage-ID: <mine@inn.example>\n\
         Date: 21 Nov 2026 05:00:00 GMT\n\nbody\n",
    )
    .unwrap();
    assert!(newsreel(&site, &["rnews", batch.to_str().unwrap()]).status.success());
    // At INN 1 and 2 expire, 3 and 17 are cancelled, and one arrives.
    for n in [1, 2, 3, 17] {
        fs::remove_file(from.join(format!("articles/inn/a/{n}"))).unwrap();
    }
    fs::write(from.join("active"), "inn.a 0000000400 0000000003 y\n").unwrap();
    let (dry, _) = import(&site, &["--dry-run"], &from);
    assert_eq!(dry["removed_there"]["cancelled"].as_u64(), Some(1), "{dry}");
    assert!(dry["removed_there"].get("list").is_none(), "{dry}");
    let output = newsreel(&site, &["import", "inn", from.to_str().unwrap()]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("removed there since they were imported: 2 articles, still here"), "{said}");
    assert!(said.contains("1 of these may merely have expired there"), "{said}");
    let list = site.join("removed-there");
    let text = fs::read_to_string(&list).unwrap();
    assert!(said.contains(list.to_str().unwrap()) && text.contains("xargs"), "{said} {text}");
    let ids: Vec<&str> = text.lines().filter(|line| line.starts_with('<')).collect();
    assert_eq!(ids, ["<17@a.inn.example>", "<3@a.inn.example>"], "{text}");
    assert_eq!(living(&site), ARTICLES + 1, "nothing is removed without a command");
    // The command cancels them, and a third import has nothing to list.
    assert!(newsreel(&site, &[&["cancel"], &ids[..]].concat()).status.success());
    assert_eq!(living(&site), ARTICLES - 1);
    let (told, _) = import(&site, &[], &from);
    assert!(told.get("removed_there").is_none(), "{told}");
    // Another INN has none of these articles, and its import says nothing about them.
    let other = home.path().join("other");
    bare(&other.join("articles"), "inn/a/900", "900", "inn.a");
    fs::write(other.join("active"), "inn.a 900 1 y\n").unwrap();
    let (told, _) = import(&site, &[], &other);
    assert_eq!(told["imported"].as_u64(), Some(1), "{told}");
    assert!(told.get("removed_there").is_none(), "{told}");
}

#[test]
fn import_that_skips_articles_exits_with_1() {
    let home = TempDir::new().unwrap();
    let site = site(home.path(), "site", "1 MiB");
    assert!(newsreel(&site, &["group", "add", "old.a"]).status.success());
    let from = home.path().join("oldspool");
    bare(&from, "old/a/1", "1", "old.a");
    let (told, code) = import(&site, &[], &from);
    assert_eq!((told["imported"].as_u64(), code), (Some(1), Some(0)), "{told}");
    // Articles that were excluded are no loss.
    bare(&from, "old/a/2", "2", "old.a");
    let (told, code) = import(&site, &["--groups", "other.*"], &from);
    assert_eq!((told["imported"].as_u64(), code), (Some(0), Some(0)), "{told}");
    let no_date =
        "Path: x!y\nFrom: a@b.example\nNewsgroups: old.a\nSubject: s\nMessage-ID: <3@x.example>\n\nb\n";
    fs::write(from.join("old/a/3"), no_date).unwrap();
    for (options, imported) in [(&["--dry-run"][..], 1), (&[], 1), (&["--dry-run"], 0), (&[], 0)] {
        let (told, code) = import(&site, options, &from);
        assert_eq!((told["imported"].as_u64(), code), (Some(imported), Some(1)), "{options:?}: {told}");
    }
}

#[test]
fn import_with_enough_room_keeps_all_articles() {
    let home = TempDir::new().unwrap();
    let from = home.path().join("inn");
    inn(&from);
    let large = site(home.path(), "large", "2 MiB");
    let (dry, code) = import(&large, &["--dry-run"], &from);
    assert_eq!((dry["displaced"].as_u64(), code), (Some(0), Some(0)), "{dry}");
    let (told, code) = import(&large, &[], &from);
    assert_eq!((told["still_there"].as_u64(), code), (Some(ARTICLES), Some(0)), "{told}");
    assert_eq!(living(&large), ARTICLES);
    // Repeated when everything is known already.
    let again = newsreel(&large, &["import", "inn", from.to_str().unwrap()]);
    let advice = String::from_utf8(again.stderr).unwrap();
    assert!(advice.contains("inn.moderated") && advice.contains("[[moderator]]"), "{advice}");
    // Articles that rules discard are expected to be absent.
    let trash = site(home.path(), "trash", "256 KiB");
    let file = trash.join("newsreel.toml");
    let text = fs::read_to_string(&file).unwrap();
    let class = "[[class]]\nname = \"none\"\nmethod = \"trash\"\n\n[[rule]]\nclass = \"none\"\ngroups = \
        \"inn.*\"\n\n";
    fs::write(&file, text.replacen("[[rule]]", &format!("{class}[[rule]]"), 1)).unwrap();
    let (told, code) = import(&trash, &[], &from);
    assert_eq!((told["displaced"].as_u64(), code), (Some(0), Some(0)), "{told}");
    assert_eq!(told["room"][0]["class"], "none");
}

fn done(site: &Path, arguments: &[&str]) -> String {
    let output = newsreel(site, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Feeds articles through a connection; returns the numbers of those accepted.
fn feed(client: &mut Client, numbers: std::ops::Range<u64>) {
    for n in numbers.clone() {
        client.send(format!(
            "TAKETHIS <{n}@other.example>\r\nPath: x!not-for-mail\r\nFrom: a@b.example\r\nNewsgroups: \
             other.a\r\nSubject: s\r\nMessage-ID: <{n}@other.example>\r\nDate: 21 Nov 2026 05:00:00 \
             GMT\r\n\r\n{}..dots\r\n.\r\n",
            format!("body of {n}\r\n").repeat(40)
        ));
    }
    for n in numbers {
        let answer = client.line();
        assert_eq!(answer, format!("239 <{n}@other.example>"));
    }
}

/// Creates a site with compressed articles in one group, one of them hidden, one cancelled.
fn other(home: &Path) -> (std::path::PathBuf, Served, Client) {
    let other = home.join("other");
    done(
        &other,
        &["init", "--listen", "127.0.0.1:0", "--peer", "127.0.0.1", "--buffer", "2 MiB", "--max-age", "none"],
    );
    let file = other.join("newsreel.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("method = \"cnfs\"", "method = \"cnfs\"\ncompress = \"zstd\"", 1))
        .unwrap();
    done(&other, &["group", "add", "other.a", "--description", "About others"]);
    done(&other, &["group", "add", "other.m", "--flag", "m"]);
    let (server, address) = Served::start(&other);
    let mut client = Client::greeted(address);
    feed(&mut client, 1..101);
    done(&other, &["hide", "--reason", "r", "<17@other.example>"]);
    done(&other, &["cancel", "<23@other.example>"]);
    (other, server, client)
}

fn import_newsreel(site: &Path, from: &[&Path]) -> (serde_json::Value, String) {
    let from = from.iter().map(|path| path.to_str().unwrap());
    let arguments: Vec<&str> = ["import", "newsreel", "--json"].into_iter().chain(from).collect();
    let output = newsreel(site, &arguments);
    let told = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    (told, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn running_newsreel_is_imported() {
    let home = TempDir::new().unwrap();
    let (from, server, mut client) = other(home.path());
    let site = site(home.path(), "site", "2 MiB");
    let (told, _) = import_newsreel(&site, &[&from]);
    assert_eq!((told["imported"].as_u64(), told["damaged"].as_u64()), (Some(98), Some(0)), "{told}");
    assert_eq!((told["renumbered"].as_u64(), told["skipped"]["hidden there"].as_u64()), (Some(0), Some(1)));
    let groups: serde_json::Value =
        serde_json::from_str(&done(&site, &["group", "list", "other.*", "--json"])).unwrap();
    assert_eq!((groups[0]["count"].as_u64(), groups[0]["high"].as_u64()), (Some(98), Some(100)), "{groups}");
    assert_eq!((&groups[0]["description"], &groups[1]["flag"]), (&"About others".into(), &"m".into()));

    // The server continues, and newer articles follow.
    feed(&mut client, 101..151);
    let (told, warned) = import_newsreel(&site, &[&from]);
    let counts = (told["imported"].as_u64(), told["duplicates"].as_u64(), told["renumbered"].as_u64());
    assert_eq!(counts, (Some(50), Some(98), Some(0)), "{told} {warned}");

    // Identical to the byte, with the same numbers.
    let (here, address) = Served::start(&site);
    let mut reader = Client::greeted(address);
    for n in [1, 16, 100, 101, 150] {
        let ask = |client: &mut Client| {
            assert!(client.ask("GROUP other.a").starts_with("211 "));
            assert_eq!(client.ask(&format!("BODY {n}")), format!("222 {n} <{n}@other.example>"));
            client.block()
        };
        assert_eq!(ask(&mut reader), ask(&mut client));
    }
    assert!(reader.ask("STAT 17").starts_with("423 "));
    assert!(reader.ask("STAT <23@other.example>").starts_with("430 "));
    here.stop();
    server.stop();
}

#[test]
fn single_buffers_are_imported_and_missing_ones_named() {
    let home = TempDir::new().unwrap();
    let (from, server, client) = other(home.path());
    drop(client);
    server.stop();
    let site = site(home.path(), "site", "2 MiB");
    let buffers = fs::read_dir(&from).unwrap().map(|entry| entry.unwrap().path());
    let mut buffers: Vec<_> = buffers.filter(|path| path.extension().is_some_and(|e| e == "cyc")).collect();
    buffers.sort();
    // Single files: groups are derived from the articles, and hidden articles are not known.
    let alone: Vec<&Path> = buffers.iter().map(std::path::PathBuf::as_path).collect();
    let (told, warned) = import_newsreel(&site, &alone);
    assert_eq!(told["imported"].as_u64(), Some(99), "{told} {warned}");
    assert!(warned.contains("no list of groups was found"), "{warned}");
    // A buffer that lies elsewhere is reported by name.
    fs::rename(&buffers[0], home.path().join("elsewhere")).unwrap();
    let (_, warned) = import_newsreel(&site, &[&from]);
    let name = buffers[0].file_stem().unwrap().to_str().unwrap();
    let missing = format!("buffer {name} of that site is not among the files");
    assert!(warned.contains(&missing), "{missing}: {warned}");
    let (_, warned) = import_newsreel(&site, &[&from, &home.path().join("elsewhere")]);
    assert!(!warned.contains("not among the files"), "{warned}");
    // An empty directory, and other files.
    fs::create_dir(home.path().join("empty")).unwrap();
    let output = newsreel(&site, &["import", "newsreel", home.path().join("empty").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no buffer of a newsreel in "), "{output:?}");
}
