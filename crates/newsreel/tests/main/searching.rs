//! Full text search: the same results as grep, no removed articles, and an index that survives kills.

use crate::client::article;
use crate::operated::{Operated, complaints};
use crate::purging::feed;
use crate::waiting::{let_pass, wait_for};
use crate::web::archive::mailbox;
use crate::web::http::{Answer, get};
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Configuration of search, with an index that follows quickly, and of web pages.
const SEARCH: &str = "\n[web]\nlisten = [\"127.0.0.1:0\"]\n\n[search]\nenabled = true\ndelay = \"1 s\"\n";

fn site(groups: &[&str]) -> Operated {
    let site = Operated::new();
    site.edit(|text| text.replacen("max_age_days = 10", "max_age_days = \"none\"", 1));
    site.edit(|text| text.replacen("size = \"1 MiB\"", "size = \"64 MiB\"", 1) + SEARCH);
    groups.iter().for_each(|group| drop(site.done(&["group", "add", group])));
    site
}

/// Returns the Message-IDs that a query finds.
fn found(site: &Operated, query: &str) -> BTreeSet<String> {
    let rows = site.done(&["search", "--json", "--limit", "1000", query]);
    let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
    rows.as_array().unwrap().iter().map(|row| row["message_id"].as_str().unwrap().to_owned()).collect()
}

fn status(site: &Operated) -> serde_json::Value {
    serde_json::from_str(&site.done(&["status", "--json"])).unwrap()
}

/// Waits until the index has everything that is stored.
fn indexed(site: &Operated) {
    wait_for(
        || status(site),
        |status| {
            let search = &status["server"]["search"];
            search["is_complete"] == true
                && search["waiting_bytes"] == 0
                && status["spool"]["articles"] == found(site, "after:1970").len()
        },
    );
}

/// Like [`indexed`], for a large spool: time is limited from one commit of the index to the next.
fn indexed_steadily(site: &Operated) {
    let is_complete = |status: &serde_json::Value| {
        let search = &status["server"]["search"];
        search["is_complete"] == true
            && search["waiting_bytes"] == 0
            && search["articles"] == status["spool"]["articles"]
    };
    let mut before = serde_json::Value::Null;
    while !is_complete(&before) {
        let is_further = |status: &serde_json::Value| {
            is_complete(status) || status["server"]["search"] != before["server"]["search"]
        };
        before = wait_for(|| status(site), is_further);
    }
    println!("{}", before["server"]["search"]);
}

fn ids(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

#[test]
fn withdrawn_articles_vanish_from_results_at_once() {
    let site = site(&["misc.one", "misc.two"]);
    // Some arrive before there is a server, some while it runs.
    feed(&site, &[("<1@x.example>", "misc.one"), ("<2@x.example>", "misc.one,misc.two")]);
    let serving = site.serve();
    feed(&site, &[("<3@x.example>", "misc.two"), ("<4@x.example>", "misc.two")]);
    indexed(&site);
    let all = ids(&["<1@x.example>", "<2@x.example>", "<3@x.example>", "<4@x.example>"]);
    assert_eq!(found(&site, "from:tester subject:test"), all);
    assert_eq!(found(&site, "group:*.two"), ids(&["<2@x.example>", "<3@x.example>", "<4@x.example>"]));
    assert_eq!(found(&site, "tester -3"), ids(&["<1@x.example>", "<2@x.example>", "<4@x.example>"]));
    assert_eq!(found(&site, "thread:<2@x.example>"), ids(&["<2@x.example>"]));
    assert_eq!(found(&site, "before:1993-04-15"), ids(&[]));

    // No wait in between: removed articles are never shown.
    site.done(&["cancel", "<1@x.example>"]);
    assert_eq!(found(&site, "tester"), ids(&["<2@x.example>", "<3@x.example>", "<4@x.example>"]));
    site.done(&["hide", "<2@x.example>"]);
    assert_eq!(found(&site, "tester"), ids(&["<3@x.example>", "<4@x.example>"]));
    site.done(&["unhide", "<2@x.example>"]);
    assert_eq!(found(&site, "tester"), ids(&["<2@x.example>", "<3@x.example>", "<4@x.example>"]));
    site.done(&["purge", "--groups", "misc.two", "--yes"]);
    assert_eq!(found(&site, "tester"), ids(&["<2@x.example>"]));

    let bad = site.run(&["search", "after:x"]);
    assert!(!bad.status.success() && complaints(&bad).contains("not a date"), "{}", complaints(&bad));
    site.done(&["rebuild", "--search"]);
    indexed(&site);
    assert_eq!(found(&site, "tester"), ids(&["<2@x.example>"]));
    serving.stop();
    let none = site.run(&["search", "tester"]);
    assert!(complaints(&none).contains("no server runs"), "{}", complaints(&none));
    // Disabled search leaves no files, and claims nothing of the journal.
    site.edit(|text| text.replace("enabled = true", "enabled = false"));
    let _serving = site.serve();
    let readers = || status(&site)["spool"]["readers"].to_string();
    wait_for(readers, |readers| !readers.contains("\"name\":\"search\""));
    assert!(complaints(&site.run(&["search", "tester"])).contains("there is no search index"));
}

/// Nothing is said to be found nowhere while there is no index to find it in.
#[test]
fn an_index_that_cannot_be_opened_is_no_answer() {
    let site = site(&["misc.one"]);
    feed(&site, &[("<1@x.example>", "misc.one")]);
    let serving = site.serve();
    indexed(&site);
    serving.stop();
    let dir = site.dir().join("search");
    fs::remove_dir_all(&dir).unwrap();
    fs::write(&dir, "not a directory").unwrap();
    let serving = site.serve();
    let search = || complaints(&site.run(&["search", "tester"]));
    wait_for(search, |said| said.contains("the search index cannot be opened"));
    let address: SocketAddr = status(&site)["server"]["web"][0].as_str().unwrap().parse().unwrap();
    let answer = page(address, "tester");
    assert!(answer.status == 500 && answer.body.contains("cannot be searched"), "{}", answer.body);
    drop(serving);
}

fn page(address: SocketAddr, query: &str) -> Answer {
    get(address, &format!("/search?q={query}"))
}

#[test]
fn search_page_shows_only_readable_articles() {
    let site = site(&["misc.one", "secret.two"]);
    feed(&site, &[("<1@x.example>", "misc.one"), ("<2@x.example>", "secret.two")]);
    feed(&site, &[("<3@x.example>", "misc.one,secret.two")]);
    let answer = "From: a@x.example\nPath: x!y\nNewsgroups: secret.two\nSubject: an answer\n\
                  Message-ID: <4@x.example>\nReferences: <1@x.example>\nDate: 15 Apr 1993 12:00:00 GMT\n\nb\n";
    assert!(site.run_with(&["rnews"], answer.as_bytes()).status.success());
    let _serving = site.serve();
    indexed(&site);
    let address: SocketAddr = status(&site)["server"]["web"][0].as_str().unwrap().parse().unwrap();
    let thread = || page(address, "thread:%3C4@x.example%3E").body;
    assert!(thread().contains("/article/1%40x.example"));
    let all = page(address, "tester").body;
    assert!(all.contains("/article/1%40x.example") && all.contains("/article/2%40x.example"), "{all}");
    assert!(get(address, "/groups").body.contains("href=\"/search\""));
    let bad = page(address, "-x");
    assert!(bad.status == 400 && bad.body.contains("role=\"alert\""), "{}", bad.body);
    let hostile = page(address, "%22%3E%3Cscript%3Ealert(1)%3C/script%3E").body;
    assert!(!hostile.contains("<script>"), "{hostile}");
    assert_eq!(page(address, "tester&from=99999999999999999999").status, 400);
    assert_eq!(page(address, &"a+".repeat(600)).status, 400);

    site.edit(|text| text.replace("read = \"*\"", "read = \"*,!secret.*\""));
    site.done(&["ctl", "reload"]);
    let open = page(address, "tester").body;
    assert!(open.contains("/article/1%40x.example") && open.contains("/article/3%40x.example"), "{open}");
    assert!(!open.contains("/article/2%40x.example") && !open.contains("secret.two"), "{open}");
    // Nor does an article that cannot be read say which thread it belongs to.
    assert!(!thread().contains("/article/1%40x.example"));
    let named = page(address, "group:secret.*").body;
    assert!(!named.contains("/article/2%40x"), "{named}");
}

#[test]
fn results_have_snippets_facets_and_an_order_and_are_downloaded() {
    let site = site(&["misc.one", "misc.two"]);
    feed(
        &site,
        &[("<1@x.example>", "misc.one"), ("<2@x.example>", "misc.two"), ("<3@x.example>", "misc.two")],
    );
    let serving = site.serve();
    indexed(&site);
    let address: SocketAddr = status(&site)["server"]["web"][0].as_str().unwrap().parse().unwrap();
    // The body of each article is the letter b.
    let found = page(address, "b").body;
    assert!(found.contains("<mark>b</mark>"), "{found}");
    assert!(found.contains("misc.two (2)") && found.contains("misc.one (1)"), "{found}");
    assert!(found.contains("/search?q=b%20group%3Amisc.two") && found.contains("order%3Aoldest"), "{found}");
    assert_eq!(get(address, "/search?q=b").header("Cache-Control"), Some("no-store"));
    let narrower = page(address, "b%20group%3Amisc.two").body;
    assert!(
        narrower.contains("/article/2%40x.example") && !narrower.contains("/article/1%40x"),
        "{narrower}"
    );
    assert!(page(address, "b+form:jane").body.contains("form: is no field"));
    let json = get(address, "/api/v1/search?q=b").body;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["articles"].as_array().unwrap().len(), 3, "{json}");
    let bad = get(address, "/api/v1/search?q=-b");
    assert!(bad.status == 400 && bad.body.starts_with("{\"error\":\"only words to leave out"), "{bad:?}");
    assert_eq!(mailbox(address, "/search/mbox.gz?q=b").matches("\nMessage-ID: <").count(), 3);
    assert_eq!(mailbox(address, "/search/mbox.gz?q=group:misc.two").matches("\nMessage-ID: <").count(), 2);
    serving.stop();
}

/// A generator of the same numbers each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// Compares queries for words with grep, which searches `files`: name, Message-ID and text of each.
fn compare(site: &Operated, files: &[(String, String, String)], queries: usize) {
    let dir = site.home().join("texts");
    fs::create_dir_all(&dir).unwrap();
    let mut words = BTreeSet::new();
    for (name, _, text) in files {
        fs::write(dir.join(name), text).unwrap();
        let plain = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| (1..=40).contains(&w.len()));
        words.extend(plain.map(str::to_lowercase));
    }
    let words: Vec<String> = words.into_iter().collect();
    let known: BTreeSet<&String> = files.iter().map(|(_, id, _)| id).collect();
    let mut numbers = Numbers(7);
    for _ in 0..queries {
        let word = &words[numbers.below(words.len())];
        let mut expected = BTreeSet::new();
        for name in grep(&dir, word) {
            expected.extend(files.iter().filter(|(own, ..)| *own == name).map(|(_, id, _)| id.clone()));
        }
        if expected.len() > 900 {
            // More than are asked for.
            continue;
        }
        let found: BTreeSet<String> = found(site, word).into_iter().filter(|id| known.contains(id)).collect();
        assert_eq!(found, expected, "{word}");
    }
}

/// Returns the names of the files that have a word.
fn grep(dir: &Path, word: &str) -> Vec<String> {
    let pattern = format!("(^|[^[:alnum:]]){word}([^[:alnum:]]|$)");
    let output =
        Command::new("grep").env("LC_ALL", "C").args(["-rliE", &pattern, "."]).current_dir(dir).output();
    let names = String::from_utf8(output.unwrap().stdout).unwrap();
    names.lines().map(|name| name.trim_start_matches("./").to_owned()).collect()
}

#[test]
fn results_for_two_hundred_words_equal_those_of_grep() {
    let site = site(&["misc.test"]);
    let mut numbers = Numbers(42);
    let mut files = Vec::new();
    let mut batch = String::new();
    for n in 0..300 {
        let id = format!("<{n}@x.example>");
        let words: Vec<String> = (0..60)
            .map(|_| {
                // Some words are in many articles, most in few.
                let bound = numbers.below(2_000) + 1;
                let rank = numbers.below(bound);
                let joints = [" ", "-", "\n", ", ", "_", "> "];
                format!("w{rank}{}", joints[numbers.below(joints.len())])
            })
            .collect();
        let text = article(&id, "misc.test", &words.concat()).replace("\r\n", "\n");
        let text = text.trim_end_matches(".\n").to_owned();
        batch += &format!("#! rnews {}\n{text}", text.len());
        files.push((n.to_string(), id, plain_text(&text)));
    }
    let filed = site.run_with(&["rnews"], batch.as_bytes());
    assert!(filed.status.success(), "{}", complaints(&filed));
    let _serving = site.serve();
    indexed(&site);
    compare(&site, &files, 200);
}

/// Returns the text for grep: the values of the header fields except Path, and the body.
fn plain_text(article: &str) -> String {
    let (head, body) = article.split_once("\n\n").unwrap_or((article, ""));
    let mut text = String::new();
    let mut is_left_out = false;
    for line in head.lines() {
        if line.starts_with([' ', '\t']) {
            text += if is_left_out { "" } else { line };
        } else {
            let (name, value) = line.split_once(':').unwrap_or(("", line));
            is_left_out = ["path", "xref"].contains(&name.to_lowercase().as_str());
            text += "\n";
            text += if is_left_out { "" } else { value };
        }
    }
    text + "\n" + body
}

/// Needs `NEWSREEL_CORPUS`, a directory of articles.
#[test]
#[ignore = "needs a corpus: make soak"]
fn results_for_two_hundred_words_of_a_corpus_equal_those_of_grep() {
    let corpus = std::env::var_os("NEWSREEL_CORPUS").expect("NEWSREEL_CORPUS names a directory of articles");
    let (mut articles, mut groups) = (Vec::new(), BTreeSet::new());
    let mut dirs = vec![std::path::PathBuf::from(corpus)];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                dirs.push(entry);
                continue;
            }
            let Ok(text) = fs::read(&entry).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()) else {
                continue;
            };
            let header = |name: &str| {
                let head = text.split("\n\n").next().unwrap_or_default();
                head.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
            };
            let (Some(id), Some(named)) = (header("Message-ID:"), header("Newsgroups:")) else { continue };
            groups.extend(named.split(',').next().map(|group| group.trim().to_owned()));
            articles.push((id, text));
        }
    }
    assert!(articles.len() > 1_000, "{}", articles.len());
    let site = site(&groups.iter().map(String::as_str).collect::<Vec<_>>());
    let batch: Vec<u8> = articles
        .iter()
        .flat_map(|(_, text)| [format!("#! rnews {}\n", text.len()).as_bytes(), text.as_bytes()].concat())
        .collect();
    let filed = site.run_with(&["rnews"], &batch);
    println!("{}", complaints(&filed));
    let serving = site.serve();
    // More hits than are shown at once.
    indexed_steadily(&site);
    let mut client = serving.client();
    // Texts without encoded parts.
    let is_plain = |text: &str| {
        let coded =
            ["=?", "quoted-printable", "base64", "=ybegin", "\nbegin ", "multipart", "text/html", "flowed"];
        text.is_ascii() && !coded.iter().any(|mark| text.to_lowercase().contains(mark))
    };
    let stored = articles
        .iter()
        .filter(|(id, text)| is_plain(text) && client.ask(&format!("STAT {id}")).starts_with("223"));
    let files: Vec<_> =
        stored.enumerate().map(|(n, (id, text))| (n.to_string(), id.clone(), plain_text(text))).collect();
    println!("{} of {} articles are compared", files.len(), articles.len());
    assert!(files.len() > 1_000);
    compare(&site, &files, 200);
}

/// Repeatedly kills a server while articles arrive.
fn killed(kills: usize, articles_per_round: usize) {
    let site = site(&["misc.test"]);
    let mut serving = site.serve();
    let mut numbers = Numbers(3);
    let mut next = 0;
    for round in 0..kills {
        let ids: Vec<String> =
            (next..next + articles_per_round).map(|n| format!("<{n}@x.example>")).collect();
        next += articles_per_round;
        let named: Vec<(&str, &str)> = ids.iter().map(|id| (id.as_str(), "misc.test")).collect();
        feed(&site, &named);
        if round % 3 == 2 {
            site.done(&["cancel", &format!("<{}@x.example>", next - 1)]);
        }
        let_pass(
            Duration::from_millis(numbers.below(1_500) as u64),
            "the kill comes during a commit, or before, or after",
        );
        drop(serving);
        serving = site.serve();
    }
    indexed_steadily(&site);
    let per_round = |round: usize| {
        (round * articles_per_round..(round + 1) * articles_per_round).filter(move |n| {
            let is_last = *n == (round + 1) * articles_per_round - 1;
            !(is_last && round % 3 == 2)
        })
    };
    let expected: BTreeSet<String> =
        (0..kills).flat_map(per_round).map(|n| format!("<{n}@x.example>")).collect();
    assert_eq!(found(&site, "tester"), expected);
}

#[test]
fn index_catches_up_after_a_kill() {
    killed(2, 20);
}

#[test]
#[ignore = "long: part of `make soak`"]
fn index_catches_up_after_twenty_kills() {
    killed(20, 45);
}
