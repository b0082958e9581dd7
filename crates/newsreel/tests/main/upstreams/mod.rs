//! Groups of other servers: shown as they are there, beside local ones, and with servers that are away, slow,
//! or wrong.

mod ahead;
mod asking;
mod caching;
mod changes;
pub mod fake;
mod headers;
mod odd;
mod offline;
mod posts;
mod prefetching;
mod providers;
mod rights;
mod trouble;

use crate::client::Client;
use crate::posting;
use crate::running::Server;
use crate::transcripts::play_through;
use crate::waiting::{wait_for, wait_until};
use fake::{Fake, Fault, id};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Configuration of a cache that does not remember missing articles.
const CACHE: &str = "[cache]\nnegative_age = \"0 s\"\n";

/// Returns the section of an upstream whose lists and marks are never taken from the cache.
fn section(name: &str, address: SocketAddr, more: &str) -> String {
    format!(
        "[[upstream]]\nname = \"{name}\"\nhost = \"{address}\"\nactive_age = \"0 s\"\ngroup_age = \"0 s\"\n\
         answer_timeout = \"1 min\"\n{more}\n"
    )
}

/// Starts a site that shows only the groups of these upstreams.
fn showing(sections: &[String]) -> Server {
    Server::start_showing(&[], |text| text + &sections.concat() + CACHE)
}

fn article_of(client: &mut Client, command: &str) -> Option<Vec<String>> {
    client.ask(command).starts_with("220 ").then(|| client.block())
}

#[test]
fn transcripts_pass_through_an_upstream() {
    play_through(
        Server::start,
        |upstream| showing(&[section("site", upstream.address, "")]),
        // In two of them a reader reads articles fed by itself.
        |script| !script.posts() && !["mixed.txt", "numbers.txt"].contains(&script.name.as_str()),
    );
}

#[test]
fn upstreams_coexist_with_local_groups_and_each_other() {
    let (first, second) = (Fake::with("comp.a", 3, 500), Fake::with("comp.b", 2, 500));
    first.put("misc.x", 7, 500);
    second.put("misc.test", 1, 500);
    second.put("misc.x", 1, 500);
    let sections =
        [section("first", first.address, "groups = \"*,!comp.b\""), section("second", second.address, "")];
    let server = Server::start_showing(&[("misc.test", "y", "Ours")], |text| text + &sections.concat());
    let mut client = server.client();
    assert!(client.ask("LIST ACTIVE").starts_with("215 "));
    assert_eq!(client.block(), ["comp.a 3 1 y", "comp.b 2 1 y", "misc.test 0 1 y", "misc.x 7 7 y"]);
    assert_eq!(client.ask("GROUP misc.test"), "211 0 1 0 misc.test");
    assert_eq!(client.ask("GROUP comp.b"), "211 2 1 2 comp.b");
    assert_eq!(client.ask("GROUP misc.x"), "211 1 7 7 misc.x");
    assert_eq!(client.ask("GROUP comp.c"), "411 No such newsgroup");
    // Articles that several upstreams may have are requested from each in turn, by Message-ID.
    assert!(client.ask(&format!("STAT {}", id("comp.b", 2))).starts_with("223 "));
    assert!(client.ask(&format!("STAT {}", id("comp.b", 9))).starts_with("430 "));
    // Article numbers of another server are not shown.
    second.change(|groups| {
        let article = groups.get_mut("comp.b").unwrap().articles.get_mut(&2).unwrap();
        *article = article.replace("comp.b:2", "misc.x:1 comp.b:2 misc.test:1");
    });
    let article = article_of(&mut client, &format!("ARTICLE {}", id("comp.b", 2))).unwrap();
    assert!(article.contains(&"Xref: fake.example comp.b:2".to_owned()), "{article:?}");
}

#[test]
fn reload_adds_and_removes_upstreams() {
    let fake = Fake::with("comp.a", 3, 500);
    let server = showing(&[]);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("411 "));
    server.reload(|text| text + &section("fake", fake.address, "")).unwrap();
    assert_eq!(client.ask("GROUP comp.a"), "211 3 1 3 comp.a");
    server.reload(|text| text.split("[[upstream]]").next().unwrap().to_owned()).unwrap();
    assert!(client.ask("GROUP comp.a").starts_with("411 "));
}

#[test]
fn cancels_reinstatements_and_renumbering_there_apply_here() {
    let fake = Fake::with("comp.a", 5, 500);
    let server = showing(&[section("fake", fake.address, "")]);
    let mut client = server.client();
    let listed = |client: &mut Client| {
        assert!(client.ask("LISTGROUP comp.a").starts_with("211 "));
        client.block().join(" ")
    };
    assert_eq!(listed(&mut client), "1 2 3 4 5");
    assert!(client.ask("OVER 1-").starts_with("224 "));
    assert_eq!(client.block().len(), 5);
    let kept = fake_article(&fake, 3);
    fake.change(|groups| _ = groups.get_mut("comp.a").unwrap().articles.remove(&3));
    assert_eq!(client.ask("STAT 3"), "423 No article with that number");
    assert!(client.ask("ARTICLE 3").starts_with("423 "));
    assert_eq!(client.ask("GROUP comp.a"), "211 4 1 5 comp.a");
    assert_eq!(listed(&mut client), "1 2 4 5");
    fake.change(|groups| _ = groups.get_mut("comp.a").unwrap().articles.insert(3, kept));
    assert_eq!(listed(&mut client), "1 2 3 4 5");
    assert!(client.ask("STAT 3").starts_with("223 "));
    // The high mark may fall as the last article is removed (RFC 3977 6.1.1.2): nothing begins anew.
    fake.change(|groups| {
        let group = groups.get_mut("comp.a").unwrap();
        _ = group.articles.remove(&5);
        group.high = 4;
    });
    assert!(client.ask("STAT").starts_with("223 3 "));
    assert_eq!(listed(&mut client), "1 2 3 4");
    fake.put("comp.a", 6, 500);
    assert_eq!(listed(&mut client), "1 2 3 4 6");
    assert!(client.ask("STAT 3").starts_with("223 "));
    // After renumbering, a client with the group selected gets an error, and selects it again.
    fake.change(|groups| groups.clear());
    fake.put("comp.a", 2, 700);
    assert!(client.ask("STAT").starts_with("403 "));
    assert_eq!(client.ask("GROUP comp.a"), "211 1 2 2 comp.a");
    assert!(client.ask("OVER 1-").starts_with("224 "));
    assert_eq!(client.block().len(), 1);
    // The number now belongs to another article.
    assert!(client.ask("STAT 2").starts_with("223 "));
    fake.change(|groups| {
        let article = groups.get_mut("comp.a").unwrap().articles.get_mut(&2).unwrap();
        *article = article.replace("<2.", "<other.");
    });
    assert!(client.ask("ARTICLE 2").starts_with("403 "));
    assert_eq!(client.ask("GROUP comp.a"), "211 1 2 2 comp.a");
    assert_eq!(client.ask("STAT 2"), "223 2 <other.comp.a@fake.example>");
}

/// Waits until the upstream is asked again.
fn wait_until_asked(client: &mut Client) {
    wait_for(|| client.ask(&format!("STAT {}", id("comp.a", 1))), |answer| answer.starts_with("223 "));
}

fn fake_article(fake: &Fake, number: u64) -> String {
    let mut found = String::new();
    fake.change(|groups| found.clone_from(&groups["comp.a"].articles[&number]));
    found
}

#[test]
fn wrong_responses_are_never_shown() {
    let (liar, honest) = (Fake::with("comp.a", 20, 3_000), Fake::with("comp.a", 20, 3_000));
    let alone = showing(&[section("liar", liar.address, "")]);
    let filled =
        showing(&[section("liar", liar.address, ""), section("honest", honest.address, "fill = true")]);
    let faults = [
        Fault::OtherNumber,
        Fault::OtherId,
        Fault::OtherArticle,
        Fault::Exchanged,
        Fault::Truncated,
        Fault::BreaksOff,
        Fault::Garbage,
        Fault::Forgetful,
    ];
    // A different article for each, as correct ones stay in the cache.
    for (fault, number) in faults.into_iter().zip(2..) {
        let right: Vec<_> = fake_article(&honest, number).lines().map(str::to_owned).collect();
        for (server, is_filled) in [(&alone, false), (&filled, true)] {
            liar.fail(Fault::None);
            let mut client = server.client();
            // A broken connection causes a pause.
            wait_until_asked(&mut client);
            assert!(client.ask("GROUP comp.a").starts_with("211 "));
            assert!(client.ask("OVER 1-").starts_with("224 "));
            client.block();
            liar.fail(fault);
            let answer = client.ask(&format!("ARTICLE {number}"));
            if is_filled {
                assert!(answer.starts_with(&format!("220 {number} ")), "{fault:?}: {answer}");
                assert_eq!(client.block(), right, "{fault:?}");
            } else if fault == Fault::OtherNumber {
                // The server has it by its Message-ID.
                assert_eq!(client.block(), right, "{answer}");
            } else {
                let code = if fault == Fault::Forgetful { "423 " } else { "403 " };
                assert!(answer.starts_with(code), "{fault:?}: {answer}");
            }
        }
    }
    liar.fail(Fault::OtherRows);
    let fresh = showing(&[section("liar", liar.address, "")]);
    let mut client = fresh.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 "));
    assert!(client.ask("OVER 1-").starts_with("403 "));
}

#[test]
fn unavailable_upstream_causes_403_without_delay() {
    let fake = Fake::with("comp.a", 3, 500);
    let server = Server::start_showing(&[("misc.test", "y", "Ours")], |text| {
        text + &section("fake", fake.address, "groups = \"*\"").replace("1 min", "2 s")
    });
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 "));
    assert!(client.ask("OVER 1-").starts_with("224 "));
    let rows = client.block();
    for fault in [Fault::Silent, Fault::Dead] {
        fake.fail(fault);
        let mut client = server.client();
        // The first client detects the failure, the others get the result.
        assert!(client.ask("GROUP comp.b").starts_with("403 "), "{fault:?}");
        let begun = Instant::now();
        fake.take("");
        assert!(client.ask("GROUP comp.b").starts_with("403 "));
        assert!(client.ask("STAT <no@where.example>").starts_with("403 "));
        assert!(client.ask("LIST ACTIVE").starts_with("403 "));
        // Known data is shown.
        assert_eq!(client.ask("GROUP comp.a"), "211 3 1 3 comp.a");
        assert!(client.ask("OVER 1-").starts_with("224 "));
        assert_eq!(client.block(), rows);
        assert_eq!(client.ask("GROUP misc.test"), "211 0 1 0 misc.test");
        assert_eq!(client.ask("GROUP comp.a"), "211 3 1 3 comp.a");
        assert!(client.ask("ARTICLE 1").starts_with("403 "));
        // The upstream is asked again after pauses, the first being the shortest, and not for each command.
        let (asked, pauses) = (fake.take(""), begun.elapsed().as_secs());
        assert!(asked.len() as u64 <= pauses, "{fault:?}: {asked:?} in {pauses} s");
        let mut client = server.client();
        fake.fail(Fault::None);
        wait_until_asked(&mut client);
    }
}

#[test]
fn expired_login_is_repeated_and_an_ignored_one_reported() {
    let fake = Fake::with("comp.a", 9, 500);
    let password = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&password, "secret\n").unwrap();
    let login = format!("post = \"*\"\nuser = \"fred\"\npassword_file = {:?}", password.path());
    let server = showing(&[section("fake", fake.address, &login)]);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 "));
    let logins = |fake: &Fake| fake.take("AUTHINFO PASS").len();
    assert!(logins(&fake) > 0);
    for command in ["ARTICLE 1", "GROUP comp.a", "HEAD 2", "OVER 1-", "LIST ACTIVE", "ARTICLE 3"] {
        fake.log_out(false);
        let answer = client.ask(command);
        assert!(answer.starts_with('2'), "{command}: {answer}");
        if !command.starts_with("GROUP") {
            client.block();
        }
    }
    assert!(logins(&fake) > 1);
    fake.log_out(false);
    let answer = posting::post(&mut client, &posting::headers("comp.a", ""), "body");
    assert!(answer.starts_with("240 "), "{answer}");
    wait_until("the post arrives", || !fake.posts().is_empty());
    // The new connection fails as well.
    fake.log_out(true);
    assert!(client.ask("ARTICLE 5").starts_with("403 "));
    let upstream = server.status()["upstreams"][0].clone();
    assert!(upstream["problem"].as_str().unwrap().contains("no longer honours the login: 480"), "{upstream}");
    assert!(upstream["failures"].as_u64() > Some(0), "{upstream}");
    fake.log_out(false);
    wait_until_asked(&mut client);
}

#[test]
fn cached_articles_need_no_upstream_and_survive_a_restart() {
    let fake = Fake::with("comp.a", 30, 2_000);
    fake.put("comp.a", 31, 100_000);
    let own = section("fake", fake.address, "").replace("\"0 s\"", "\"1 h\"");
    let mut server = Server::start_showing(&[], |text| text + &own);
    let read = |server: &Server| -> Vec<Vec<String>> {
        let mut client = server.client();
        assert_eq!(client.ask("GROUP comp.a"), "211 31 1 31 comp.a");
        let mut all: Vec<_> =
            [3, 31, 4].map(|n| article_of(&mut client, &format!("ARTICLE {n}")).unwrap()).into();
        all.push(article_of(&mut client, &format!("ARTICLE {}", id("comp.a", 3))).unwrap());
        assert!(client.ask("OVER 1-").starts_with("224 "));
        all.push(client.block());
        assert!(client.ask("LIST ACTIVE").starts_with("215 "));
        all.push(client.block());
        all
    };
    let first = read(&server);
    assert_eq!(first[4].len(), 31);
    assert!(first[0].contains(&"Xref: fake.example comp.a:3".to_owned()));
    fake.take("");
    assert_eq!(read(&server), first);
    assert_eq!(fake.take(""), [""; 0]);
    // After a restart marks are requested again, and while the upstream is away nothing is.
    server = server.again_as_configured();
    assert_eq!(read(&server), first);
    let asked = fake.take("");
    assert!(
        asked.iter().all(|command| !command.starts_with("ARTICLE") && !command.starts_with("XOVER")),
        "{asked:?}"
    );
    fake.fail(Fault::Dead);
    let server = server.again_as_configured();
    assert_eq!(read(&server), first);
}

#[test]
fn miss_is_remembered_for_a_while() {
    let fake = Fake::with("comp.a", 1, 500);
    let server = Server::start_showing(&[], |text| text + &section("fake", fake.address, ""));
    let mut client = server.client();
    for _ in 0..3 {
        assert!(client.ask("ARTICLE <no@where.example>").starts_with("430 "));
        assert!(client.ask("STAT <no@where.example>").starts_with("430 "));
    }
    assert_eq!(fake.take("ARTICLE").len(), 1);
}

#[test]
fn simultaneous_readers_share_one_fetch_while_it_arrives() {
    let fake = Fake::with("comp.a", 1, 300_000);
    let own = section("fake", fake.address, "").replace("group_age = \"0 s\"", "group_age = \"1 h\"");
    let server = Server::start_showing(&[], |text| text.replace("128 KiB", "4 MiB") + &own);
    fake.hold(Some(200_000));
    let readers: Vec<_> = (0..6)
        .map(|_| {
            let mut client = server.client();
            std::thread::spawn(move || {
                assert!(client.ask("GROUP comp.a").starts_with("211 "));
                assert!(client.ask("ARTICLE 1").starts_with("220 1 "));
                // The first part is here, the rest has not arrived.
                (0..500).for_each(|_| _ = client.line());
                client
            })
        })
        .collect();
    let mut clients: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    assert_eq!(fake.take("ARTICLE"), ["ARTICLE 1"]);
    fake.hold(None);
    let whole = fake_article(&fake, 1).lines().count();
    for client in &mut clients {
        assert_eq!(500 + client.block().len(), whole);
        assert!(client.ask("DATE").starts_with("111 "));
    }
}

#[test]
fn misses_are_shared_by_servers_of_one_owner() {
    let servers: Vec<_> = (0..4).map(|_| Fake::with("comp.a", 1, 500)).collect();
    let owners =
        ["fill = true\nowner = \"one\"", "fill = true\nowner = \"one\"", "fill = true\npriority = 5"];
    let fills = servers[1..].iter().zip(owners).enumerate();
    let mut sections = vec![section("first", servers[0].address, "")];
    sections.extend(fills.map(|(at, (fake, more))| section(&format!("fill{at}"), fake.address, more)));
    let server = showing(&sections);
    servers[..3].iter().for_each(|fake| fake.fail(Fault::Forgetful));
    let mut client = server.client();
    let article = article_of(&mut client, &format!("ARTICLE {}", id("comp.a", 1))).unwrap();
    assert!(article.contains(&"Subject: S 1".to_owned()));
    let asked: Vec<_> = servers.iter().map(|fake| fake.take("ARTICLE").len()).collect();
    assert_eq!(asked, [1, 1, 0, 1]);
}

/// Starts four servers with the same articles, later one slow, one dead, one wrong, and the best one.
fn four(articles: u64, delay: Duration) -> Vec<Fake> {
    let servers: Vec<_> = (0..4).map(|_| Fake::with("comp.a", articles, 3_000)).collect();
    servers[0].delay(Duration::from_secs(1));
    servers[1].fail(Fault::Dead);
    servers[3].delay(delay);
    servers
}

/// Starts a site in front of these, all with equal priority: the first numbers the group.
fn in_front_of(servers: &[&Fake]) -> Server {
    let sections: Vec<_> = servers
        .iter()
        .enumerate()
        .map(|(at, fake)| {
            let section = section(&format!("number {at}"), fake.address, "");
            section.replace("group_age = \"0 s\"", "group_age = \"1 h\"")
        })
        .collect();
    Server::start_showing(&[], |text| text + &sections.concat() + "[cache]\nnegative_age = \"1 h\"\n")
}

/// Reads all articles; returns the sorted durations. Calls `before` before each one.
fn times_of_all(client: &mut Client, fake: &Fake, articles: u64, before: impl Fn(u64)) -> Vec<Duration> {
    assert!(client.ask("GROUP comp.a").starts_with(&format!("211 {articles} ")));
    assert!(client.ask("OVER 1-").starts_with("224 "));
    client.block();
    let mut times: Vec<_> = (1..=articles)
        .map(|number| {
            let right: Vec<_> = fake_article(fake, number).lines().map(str::to_owned).collect();
            before(number);
            let begun = Instant::now();
            let article = article_of(client, &format!("ARTICLE {number}"));
            assert_eq!(article.as_ref(), Some(&right), "{number}");
            begun.elapsed()
        })
        .collect();
    times.sort();
    times
}

/// Makes the server give a different wrong response for each article.
fn lie(liar: &Fake, number: u64) {
    let faults = [Fault::OtherNumber, Fault::OtherId, Fault::Truncated, Fault::Garbage, Fault::Exchanged];
    liar.fail(faults[number as usize % faults.len()]);
}

#[test]
fn best_of_four_upstreams_is_used() {
    const ARTICLES: u64 = 40;
    let servers = four(ARTICLES, Duration::ZERO);
    let [slow, dead, liar, best] = &servers[..] else { unreachable!() };
    let server = in_front_of(&[slow, dead, liar, best]);
    times_of_all(&mut server.client(), best, ARTICLES, |number| lie(liar, number));
    // All but a twentieth have taken no longer than with the best server.
    let upstreams = server.status()["upstreams"].clone();
    let others = slow.take("ARTICLE").len() + liar.take("ARTICLE").len();
    assert!(others <= 2 && best.take("ARTICLE").len() == ARTICLES as usize, "{others}: {upstreams}");
    let count = |at: usize, of: &str| upstreams[at][of].as_u64().unwrap();
    assert!((1..10).contains(&count(1, "failures")) && count(2, "wrong") >= 1, "{upstreams}");
    assert!(count(3, "wrong") == 0 && count(3, "failures") == 0, "{upstreams}");
    // An article that no server has is requested once.
    let missing = id("comp.a", 99);
    for _ in 0..3 {
        let answer = server.client().ask(&format!("STAT {missing}"));
        assert!(answer.starts_with("403 "), "one of them cannot be asked: {answer}");
    }
    assert_eq!(best.take(&format!("STAT {missing}")).len(), 1);
}

#[test]
#[ignore = "long: part of `make soak`"]
fn four_upstreams_are_as_fast_as_the_best_one() {
    const ARTICLES: u64 = 100;
    let servers = four(ARTICLES, Duration::from_millis(100));
    let [slow, dead, liar, best] = &servers[..] else { unreachable!() };
    let alone = times_of_all(&mut in_front_of(&[best]).client(), best, ARTICLES, |_| {});
    let server = in_front_of(&[slow, dead, liar, best]);
    let among = times_of_all(&mut server.client(), best, ARTICLES, |number| lie(liar, number));
    let p95 = |times: &[Duration]| times[times.len() * 95 / 100];
    println!("95 % within: the best one alone {:?}, among four {:?}", p95(&alone), p95(&among));
    assert!(p95(&among) <= p95(&alone) * 6 / 5, "{:?} and {:?}", p95(&alone), p95(&among));
}

#[test]
fn silent_server_is_skipped_if_another_has_the_article() {
    let (silent, other) = (Fake::with("comp.a", 2, 500), Fake::with("comp.a", 2, 500));
    let patient = section("silent", silent.address, "").replace("\"2 s\"", "\"10 min\"");
    let own = patient.replace("group_age = \"0 s\"", "group_age = \"1 h\"");
    let server = showing(&[own, section("other", other.address, "fill = true")]);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 2 "));
    assert!(client.ask("OVER 1-").starts_with("224 "));
    client.block();
    silent.fail(Fault::Silent);
    assert!(article_of(&mut client, "ARTICLE 1").is_some());
    // If no other may have the article, the server is asked as soon as it answers, however slowly.
    other.fail(Fault::Forgetful);
    silent.fail(Fault::None);
    silent.delay(Duration::from_secs(3));
    let answer = wait_for(|| client.ask("ARTICLE 2"), |answer| !answer.starts_with("403 "));
    assert!(answer.starts_with("220 "), "{answer}");
}

#[test]
fn head_fetches_no_body_of_a_large_article() {
    let fake = Fake::with("comp.a", 3, 500);
    fake.put("comp.a", 2, 300_000);
    let own = section("fake", fake.address, "").replace("\"0 s\"", "\"1 h\"");
    let server = showing(&[own]);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 3 "));
    assert!(client.ask("OVER 1-").starts_with("224 "));
    client.block();
    fake.take("");
    let head = |client: &mut Client, which: &str, shown: &str| {
        assert_eq!(client.ask(&format!("HEAD {which}")), format!("221 {shown}"));
        client.block()
    };
    let of_large = head(&mut client, "2", &format!("2 {}", id("comp.a", 2)));
    assert!(of_large.contains(&"Subject: S 2".to_owned()) && of_large.len() == 7, "{of_large:?}");
    let by_id = head(&mut client, &id("comp.a", 2), &format!("0 {}", id("comp.a", 2)));
    assert_eq!(by_id, of_large);
    assert!(client.ask(&format!("STAT {}", id("comp.a", 2))).starts_with("223 "));
    // Fetched articles are kept for all commands.
    assert_eq!(fake.take(""), ["HEAD 2"]);
    // A small one is fetched whole, as its body is likely to be requested next.
    head(&mut client, "1", &format!("1 {}", id("comp.a", 1)));
    assert!(client.ask("BODY 1").starts_with("222 "));
    client.block();
    assert_eq!(fake.take(""), ["ARTICLE 1"]);
    // Heads are verified like articles.
    fake.fail(Fault::OtherId);
    assert!(server.client().ask(&format!("HEAD {}", id("comp.a", 3))).starts_with("403 "));
}

#[test]
fn heads_are_cached_without_overview_rows() {
    let fake = Fake::with("comp.a", 2, 100_000);
    let own = section("fake", fake.address, "").replace("\"0 s\"", "\"1 h\"");
    let mut server = showing(&[own]);
    for round in 0..2 {
        let mut client = server.client();
        assert!(client.ask("GROUP comp.a").starts_with("211 2 "));
        for which in ["1".to_owned(), id("comp.a", 2), id("comp.a", 1)] {
            assert!(client.ask(&format!("HEAD {which}")).starts_with("221 "), "{round}: {which}");
            assert_eq!(client.block().len(), 7, "{round}: {which}");
        }
        let asked = ["HEAD 1".to_owned(), format!("HEAD {}", id("comp.a", 2))];
        let asked = if round == 0 { &asked[..] } else { &[] };
        assert_eq!(fake.take("HEAD"), asked, "{round}");
        drop(client);
        server = server.again_as_configured();
    }
    // The whole article is fetched on request.
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 2 "));
    let right: Vec<_> = fake_article(&fake, 1).lines().map(str::to_owned).collect();
    assert_eq!(article_of(&mut client, "ARTICLE 1").as_ref(), Some(&right));
    assert_eq!(article_of(&mut client, "ARTICLE 1").as_ref(), Some(&right));
    assert_eq!(fake.take("ARTICLE"), ["ARTICLE 1"]);
}
