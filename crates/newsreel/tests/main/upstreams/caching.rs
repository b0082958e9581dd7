//! Requests to an upstream and contents of the cache: each thing is fetched once; and the cache from its
//! operator's view.

use super::fake::{Fake, Fault, id};
use super::{article_of, section, showing};
use crate::client::Client;
use crate::operated::{Operated, complaints};
use crate::running::Server;
use crate::waiting::wait_for;
use std::fs;
use std::time::Duration;

#[test]
fn each_group_selection_requests_the_marks_once() {
    let fake = Fake::with("comp.a", 3, 500);
    let server = showing(&[section("fake", fake.address, "")]);
    for _ in 0..3 {
        assert_eq!(server.client().ask("GROUP comp.a"), "211 3 1 3 comp.a");
        assert_eq!(fake.take("GROUP"), ["GROUP comp.a"]);
    }
}

#[test]
fn first_selection_fetches_all_overview_if_configured() {
    let fake = Fake::with("comp.a", 1, 300);
    (2..=2_500).for_each(|number| fake.put("comp.a", number, 300));
    let own = section("fake", fake.address, "").replace("group_age = \"0 s\"", "group_age = \"1 h\"");
    let server = Server::start_showing(&[], |text| text + &own + "[prefetch]\nwhole_overview = true\n");
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 2500 "));
    assert!(client.ask("OVER 2401-2410").starts_with("224 "));
    assert_eq!(client.block().len(), 10);
    // In ranges of a thousand, the newest first, until all have come.
    assert_eq!(ranges_asked(&fake, 5), ["2401-2410", "1501-2400", "2411-2500", "501-1500", "1-500"]);
    // Rows that were fetched in reverse order are served without another request.
    for range in ["2001-2500", "1001-2000", "501-1000"] {
        assert!(client.ask(&format!("OVER {range}")).starts_with("224 "));
        client.block();
    }
    assert_eq!(fake.take("XOVER"), [""; 0]);
}

/// Returns the first ranges of which rows were requested, once there are this many.
fn ranges_asked(fake: &Fake, count: usize) -> Vec<String> {
    let mut asked = Vec::new();
    let look = || {
        asked.extend(fake.take("XOVER").into_iter().map(|command| command["XOVER ".len()..].to_owned()));
        asked.clone()
    };
    wait_for(look, |asked| asked.len() >= count)
}

#[test]
fn partial_overview_requests_are_extended_by_at_most_a_twentieth() {
    let fake = Fake::with("comp.a", 1, 300);
    (2..=2_500).for_each(|number| fake.put("comp.a", number, 300));
    let own = section("fake", fake.address, "").replace("group_age = \"0 s\"", "group_age = \"1 h\"");
    let server = Server::start_showing(&[], |text| text + &own);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 2500 "));
    for range in ["2401-2410", "1-5", "100-600", "1-2410"] {
        assert!(client.ask(&format!("OVER {range}")).starts_with("224 "));
        client.block();
    }
    // The rest is less than a twentieth of that.
    let asked = ["2401-2410", "1-5", "100-600", "6-99", "601-2400", "2411-2500"];
    assert_eq!(ranges_asked(&fake, asked.len()), asked);
    assert!(client.ask("OVER 1-").starts_with("224 "));
    assert_eq!(client.block().len(), 2_500);
    assert_eq!(fake.take("XOVER"), [""; 0]);
}

#[test]
fn crosspost_is_fetched_and_stored_once() {
    let (isp, project) = (Fake::with("comp.a", 1, 3_000), Fake::with("project.a", 7, 3_000));
    // One article in three groups, on two servers.
    let mut article = String::new();
    isp.change(|groups| {
        let text = groups.get_mut("comp.a").unwrap().articles.get_mut(&1).unwrap();
        *text = text
            .replace("comp.a:1", "comp.a:1 comp.b:1")
            .replace("Newsgroups: comp.a", "Newsgroups: comp.a,comp.b");
        article.clone_from(text);
        let other = super::fake::Group { high: 1, articles: [(1, text.clone())].into() };
        groups.insert("comp.b".into(), other);
    });
    project.change(|groups| _ = groups.get_mut("project.a").unwrap().articles.insert(7, article));
    let sections =
        [section("isp", isp.address, ""), section("project", project.address, "groups = \"project.*\"")];
    let server = showing(&sections);
    let mut client = server.client();
    for (group, number) in [("comp.a", 1), ("comp.b", 1), ("project.a", 7)] {
        assert!(client.ask(&format!("GROUP {group}")).starts_with("211 "));
        assert!(client.ask("OVER 1-").starts_with("224 "));
        client.block();
        let text = article_of(&mut client, &format!("ARTICLE {number}")).unwrap();
        assert!(text.contains(&format!("Message-ID: {}", id("comp.a", 1))), "{group}: {text:?}");
        let xref = text.iter().find(|line| line.starts_with("Xref: ")).unwrap();
        assert!(xref.contains(&format!("{group}:{number}")), "{xref}");
    }
    assert_eq!((isp.take("ARTICLE").len(), project.take("ARTICLE").len()), (1, 0));
    let (replies, _) = server.control(&serde_json::json!({ "do": "verify_cache" }));
    let said = replies.last().unwrap()["text"].as_str().unwrap();
    assert!(said.starts_with("3 groups, 1 small article, 0 large articles, "), "{said}");
}

#[test]
fn access_log_names_the_client() {
    let fake = Fake::with("comp.a", 3, 500);
    let own = section("fake", fake.address, "");
    let mut server = Server::start_showing(&[], |text| text + &own + "[cache]\nlog = \"access.log\"\n");
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 "));
    assert!(client.ask("OVER 1-").starts_with("224 "));
    client.block();
    assert!(article_of(&mut client, "ARTICLE 2").is_some());
    assert!(client.ask("LIST ACTIVE").starts_with("215 "));
    client.block();
    let file = server.data().join("access.log");
    drop(client);
    server.join();
    let log = fs::read_to_string(&file).unwrap_or_default();
    for kind in ["active", "group", "overview", "article"] {
        assert!(log.lines().any(|line| line.contains(&format!(" 127.0.0.1 {kind} fake "))), "{kind}: {log}");
    }
}

#[test]
fn cache_commands_create_show_and_verify_a_cache() {
    let (fake, site) = (Fake::with("comp.a", 3, 500), Operated::unmade());
    // It has a group with the name that other new sites begin with.
    fake.put("local.test", 7, 500);
    let host = fake.address.to_string();
    let up = ["cache", "up", "--upstream", &host, "--size", "16 MiB", "--listen", "127.0.0.1:0"];
    // A password that cannot be read is reported before anything is made.
    let login = ["--user", "fred", "--password-file", "no-such-file"];
    let refused = site.run(&[&up[..], &login].concat());
    assert!(!refused.status.success() && complaints(&refused).contains("no-such-file"), "{refused:?}");
    assert!(!site.dir().join("newsreel.toml").exists());
    // Created and served until its address is shown.
    let mut served = site.command(&up).spawn().unwrap();
    let mut said = String::new();
    let out = served.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut said).unwrap();
    served.kill().unwrap();
    served.wait().unwrap();
    assert!(said.contains(" on 127.0.0.1:"), "{said}");
    let made = fs::read_to_string(site.dir().join("newsreel.toml")).unwrap();
    assert!(!["[[buffer]]", "[[class]]", "[[rule]]"].iter().any(|section| made.contains(section)), "{made}");
    assert!(site.dir().join("lists").is_dir());
    assert!(made.contains("\n[web]\n") && made.contains("\ntls_listen = "), "{made}");
    let other = site.run(&["cache", "up", "--upstream", "other.example"]);
    assert!(
        complaints(&other).contains("no [[upstream]] in it has host = \"other.example:119\""),
        "{other:?}"
    );
    let server = site.serve();
    let mut client = crate::client::Client::greeted(server.address);
    assert_eq!(client.ask("GROUP comp.a"), "211 3 1 3 comp.a");
    for _ in 0..2 {
        assert!(article_of(&mut client, "ARTICLE 2").is_some());
    }
    let check = |when: &str| {
        let shown = site.done(&["cache", "stats"]);
        let words: Vec<_> =
            shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for line in ["article 2 1 50 %", "upstream 3 1 33 %", "comp.a 3 1 33 %"] {
            assert!(words.iter().any(|words| words.starts_with(line)), "{when}: {line}: {shown}");
        }
        let verified = site.done(&["cache", "verify"]);
        assert!(verified.contains("1 group, 1 small article, 0 large articles"), "{when}: {verified}");
    };
    check("while it is served");
    drop(client);
    server.stop();
    check("after that");
    let server = site.serve();
    let mut client = crate::client::Client::greeted(server.address);
    assert_eq!(client.ask("GROUP local.test"), "211 1 7 7 local.test");
    assert!(client.ask("LIST ACTIVE").starts_with("215 "));
    assert_eq!(client.block(), ["comp.a 3 1 y", "local.test 7 7 y"]);
}

#[test]
fn unknown_commands_are_passed_on_as_configured() {
    let fake = Fake::with("comp.a", 3, 500);
    let more = "pass_commands = [\"XMOTD 217\", \"XVERSION\"]";
    let server = showing(&[section("fake", fake.address, more)]);
    let mut client = server.client();
    assert_eq!(client.ask("XVERSION"), "207 fake 1.0");
    assert!(client.ask("GROUP comp.a").starts_with("211 "));
    // In the group that the reader has selected.
    assert_eq!(client.ask("XMOTD 20260101 000000"), "217 comp.a");
    assert_eq!(client.block(), ["hello XMOTD 20260101 000000", "..dot"]);
    // Nothing that no newsreader could take.
    assert_eq!(client.ask("XMOTD odd"), "217 so it is");
    assert_eq!(client.block(), ["one two ", "..dot"]);
    let answer = client.ask("XMOTD long");
    assert!(answer.starts_with("403 "), "{answer}");
    assert_eq!(client.ask("XOTHER"), "500 Unknown command");
    assert!(client.ask("STAT 3").starts_with("223 "));
    assert_eq!(fake.take("XOTHER"), [""; 0]);
}

#[test]
fn refused_articles_are_reported_as_absent() {
    let fake = Fake::with("comp.a", 3, 500);
    let server = showing(&[section("fake", fake.address, "")]);
    let mut client = server.client();
    let numbers = |client: &mut Client| -> Vec<String> {
        assert!(client.ask("GROUP comp.a").starts_with("211 "));
        assert!(client.ask("OVER 1-").starts_with("224 "));
        client.block().iter().map(|row| row.split('\t').next().unwrap().to_owned()).collect()
    };
    assert_eq!(numbers(&mut client), ["1", "2", "3"]);
    assert!(article_of(&mut client, "ARTICLE 2").is_some());
    // Including articles already cached.
    let refuse =
        "[cache]\nrefuse = [{ name = \"Subject\", matches = \"S 2\" }, { name = \"X-No\", matches = \"*\" }]";
    server.reload(|text| text.replace("[cache]", refuse)).unwrap();
    assert_eq!(numbers(&mut client), ["1", "3"]);
    assert!(client.ask("ARTICLE 2").starts_with("423 "));
    assert!(client.ask(&format!("HEAD {}", id("comp.a", 2))).starts_with("430 "));
    assert!(client.ask("HDR Newsgroups 1-").starts_with("225 "));
    assert_eq!(client.block(), ["1 comp.a", "3 comp.a"]);
    assert!(article_of(&mut client, "ARTICLE 3").is_some());
}

/// Returns the resident memory of a process, in bytes.
pub(super) fn resident_bytes(pid: u32) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Returns the processor time that a process has taken so far.
pub(super) fn processor_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // Behind the name of the program, which is in parentheses: proc(5).
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    // Linux counts hundredths of a second for programs, whatever it counts for itself.
    Duration::from_millis(10 * ticks)
}

#[test]
fn readers_of_large_cached_articles_cost_little_memory() {
    const BYTES: usize = 8 << 20;
    const READERS: u64 = 24;
    let (fake, site) = (Fake::with("comp.a", 1, BYTES), Operated::new());
    site.edit(|text| {
        text.replace("[site]", "[site]\narticle_bytes_max = \"16 MiB\"") + &section("fake", fake.address, "")
    });
    // The memory of a server that has not fetched the article itself.
    let right: Vec<_> = super::fake_article(&fake, 1).lines().map(str::to_owned).collect();
    let serving = site.serve();
    let mut client = serving.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 "));
    assert_eq!(article_of(&mut client, "ARTICLE 1").as_ref(), Some(&right));
    drop(client);
    serving.stop();
    fake.take("");
    let serving = site.serve();
    let before = resident_bytes(serving.pid());
    let mut stalled = Vec::new();
    for _ in 0..READERS {
        let mut client = serving.client();
        assert!(client.ask("GROUP comp.a").starts_with("211 "));
        assert!(client.ask("ARTICLE 1").starts_with("220 "));
        stalled.push(client);
    }
    let cost = resident_bytes(serving.pid()).saturating_sub(before);
    assert!(cost < READERS * (1 << 20), "{cost} bytes for {READERS} readers");
    assert_eq!(stalled.pop().unwrap().block(), right[..]);
    assert_eq!(fake.take("ARTICLE"), [""; 0]);
}

/// Starts a site whose marks of groups are young for an hour.
fn with_young_marks(fake: &Fake) -> Server {
    let own = section("fake", fake.address, "").replace("group_age = \"0 s\"", "group_age = \"1 h\"");
    showing(&[own])
}

/// Carries out an operation of the cache; returns its last line and whether it succeeded.
fn operated(server: &Server, operation: &str, field: &str, name: &str) -> (String, bool) {
    let mut request = serde_json::json!({ "do": operation });
    request[field] = serde_json::json!([name]);
    let (replies, ok) = server.control(&request);
    let last = replies.last().unwrap();
    let text = last["text"].as_str().or_else(|| last["error"].as_str());
    (text.unwrap().to_owned(), ok)
}

#[test]
fn a_purged_article_is_fetched_again_and_all_else_is_still_cached() {
    let fake = Fake::with("comp.a", 4, 500);
    let server = with_young_marks(&fake);
    let mut client = server.client();
    assert_eq!(client.ask("GROUP comp.a"), "211 4 1 4 comp.a");
    assert!(client.ask("OVER 1-4").starts_with("224 "));
    client.block();
    for n in 1..=4 {
        assert!(article_of(&mut client, &format!("ARTICLE {n}")).is_some());
    }
    fake.take("");
    // What the upstream sent was wrong.
    fake.change(|groups| {
        let article = groups.get_mut("comp.a").unwrap().articles.get_mut(&2).unwrap();
        *article = article.replacen("\r\n\r\n", "\r\n\r\nThis is the right article.\r\n", 1);
    });
    let wrong = article_of(&mut client, "ARTICLE 2").unwrap();
    let purged = operated(&server, "purge_cache", "names", &id("comp.a", 2));
    let name = id("comp.a", 2);
    assert_eq!(purged, (format!("{name} is purged, and fetched again when it is wanted"), true));
    assert_eq!(fake.take(""), [""; 0], "a purge asks for nothing");
    let right = article_of(&mut client, "ARTICLE 2").unwrap();
    assert!(right.contains(&"This is the right article.".to_owned()) && right.len() > wrong.len());
    assert_eq!(fake.take("ARTICLE").len(), 1);
    assert!(article_of(&mut client, &format!("ARTICLE {name}")).is_some());
    for n in [1, 3, 4] {
        assert!(article_of(&mut client, &format!("ARTICLE {n}")).is_some());
    }
    assert!(client.ask("OVER 1-4").starts_with("224 "));
    assert_eq!(client.block().len(), 4);
    assert_eq!(fake.take("ARTICLE"), [""; 0], "the others are still cached");
    for (unknown, why) in [
        ("<never@fake.example>", "this article is not in the cache"),
        ("comp.never", "nothing of this group is in the cache"),
        ("not a group", "neither a Message-ID, with its angle brackets, nor a group"),
    ] {
        let refused = operated(&server, "purge_cache", "names", unknown);
        assert_eq!(refused, (format!("{unknown}: {why}"), false));
    }
}

#[test]
fn a_purged_group_is_fetched_again_by_readers_who_have_selected_it() {
    let fake = Fake::with("comp.a", 3, 500);
    (1..=2).for_each(|number| fake.put("comp.b", number, 500));
    let server = with_young_marks(&fake);
    let mut client = server.client();
    for group in ["comp.b", "comp.a"] {
        assert!(client.ask(&format!("GROUP {group}")).starts_with("211 "));
        assert!(client.ask("OVER 1-").starts_with("224 "));
        client.block();
        assert!(article_of(&mut client, "ARTICLE 1").is_some());
    }
    fake.take("");
    let purged = operated(&server, "purge_cache", "names", "comp.a");
    assert_eq!(purged, ("comp.a of fake is purged, and fetched again when it is wanted".to_owned(), true));
    assert!(article_of(&mut client, "ARTICLE 1").is_some(), "the group is still selected");
    assert!(client.ask("OVER 1-").starts_with("224 "));
    assert_eq!(client.block().len(), 3);
    assert_eq!(fake.take("ARTICLE").len(), 1);
    assert_eq!(client.ask("GROUP comp.b"), "211 2 1 2 comp.b");
    assert!(article_of(&mut client, "ARTICLE 1").is_some());
    assert_eq!(fake.take(""), [""; 0], "the other group is still cached");
}

#[test]
fn a_refreshed_group_shows_new_and_cancelled_articles_at_once() {
    let fake = Fake::with("comp.a", 3, 500);
    let server = with_young_marks(&fake);
    let mut client = server.client();
    assert_eq!(client.ask("GROUP comp.a"), "211 3 1 3 comp.a");
    assert!(client.ask("LISTGROUP comp.a").starts_with("211 "));
    client.block();
    (4..=5).for_each(|number| fake.put("comp.a", number, 500));
    fake.change(|groups| _ = groups.get_mut("comp.a").unwrap().articles.remove(&2));
    assert_eq!(client.ask("GROUP comp.a"), "211 3 1 3 comp.a", "the marks are young");
    let refreshed = operated(&server, "refresh_cache", "groups", "comp.a");
    let text = "comp.a has 4 articles at fake, 1 to 5: 2 numbers more than before";
    assert_eq!(refreshed, (text.to_owned(), true));
    assert!(client.ask("LISTGROUP comp.a").starts_with("211 4 1 5 "));
    assert_eq!(client.block(), ["1", "3", "4", "5"]);
    let refused = operated(&server, "refresh_cache", "groups", "comp.never");
    assert_eq!(refused, ("comp.never: fake has no such group".to_owned(), false));
}

#[test]
fn a_refresh_waits_for_a_slow_upstream_and_reports_one_that_is_away() {
    let fake = Fake::with("comp.a", 3, 500);
    let server = with_young_marks(&fake);
    let mut client = server.client();
    assert_eq!(client.ask("GROUP comp.a"), "211 3 1 3 comp.a");
    fake.put("comp.a", 4, 500);
    fake.delay(Duration::from_millis(300));
    let (text, ok) = operated(&server, "refresh_cache", "groups", "comp.a");
    assert!(ok && text.contains("1 to 4: 1 number more"), "{text}");
    fake.delay(Duration::ZERO);
    fake.fail(Fault::Dead);
    let (text, ok) = operated(&server, "refresh_cache", "groups", "comp.a");
    assert!(!ok && text.starts_with("comp.a: "), "{text}");
    // What is known is shown as before.
    assert_eq!(client.ask("GROUP comp.a"), "211 4 1 4 comp.a");
}

#[test]
fn a_purge_with_a_lying_upstream_caches_no_wrong_article() {
    let fake = Fake::with("comp.a", 3, 500);
    let server = with_young_marks(&fake);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 "));
    let before = article_of(&mut client, "ARTICLE 3").unwrap();
    assert!(operated(&server, "purge_cache", "names", &id("comp.a", 3)).1);
    fake.fail(Fault::OtherArticle);
    assert_eq!(article_of(&mut client, "ARTICLE 3"), None);
    fake.fail(Fault::None);
    assert_eq!(wait_for(|| article_of(&mut client, "ARTICLE 3"), Option::is_some).unwrap(), before);
}
