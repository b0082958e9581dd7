//! Providers with limits and failures: few connections, refused articles, interrupted transfers, and servers
//! that accept connections and stay silent.

use super::fake::{Fake, Fault, id};
use super::{CACHE, article_of, fake_article, section, showing};
use crate::client::Client;
use crate::posting::{headers, post};
use crate::running::Server;
use crate::waiting::wait_for;
use std::time::{Duration, Instant};

/// Shorter than the wait for a silent server, and longer than two seconds.
const SOON: Duration = Duration::from_secs(20);

fn lines_of(fake: &Fake, number: u64) -> Vec<String> {
    fake_article(fake, number).lines().map(str::to_owned).collect()
}

/// Returns an article as soon as it is available.
fn wait_for_article(client: &mut Client, command: &str) -> Vec<String> {
    wait_for(|| article_of(client, command), Option::is_some).unwrap()
}

#[test]
fn refused_article_does_not_break_the_connection() {
    let fake = Fake::with("comp.a", 10, 500);
    let server = showing(&[section("fake", fake.address, "")]);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 10 "));
    for (code, by_number, by_id) in [
        (430, "423 ", "430 "),
        (451, "423 ", "430 "),
        (403, "423 ", "430 "),
        (503, "423 ", "430 "),
        // These codes say nothing about the article.
        (480, "403 ", "403 "),
        (500, "403 ", "403 "),
        (502, "403 ", "403 "),
        (400, "403 ", "403 "),
    ] {
        fake.fail(Fault::Refuses(code));
        assert!(client.ask("ARTICLE 3").starts_with(by_number), "{code}");
        for verb in ["STAT", "ARTICLE"] {
            assert!(client.ask(&format!("{verb} {}", id("comp.a", 3))).starts_with(by_id), "{verb}: {code}");
        }
        fake.fail(Fault::None);
        wait_for_article(&mut client, &format!("ARTICLE {}", code % 7 + 4));
    }
    // The article is available again once it is served again.
    let shown = wait_for_article(&mut client, &format!("ARTICLE {}", id("comp.a", 3)));
    assert_eq!(shown, lines_of(&fake, 3));
}

#[test]
fn refused_article_is_fetched_from_another_server() {
    let (main, fill) = (Fake::with("comp.a", 3, 500), Fake::with("comp.a", 3, 500));
    let server = showing(&[section("main", main.address, ""), section("fill", fill.address, "fill = true")]);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 3 "));
    for (code, number) in [(451, 1), (403, 2), (430, 3)] {
        main.fail(Fault::Refuses(code));
        let article = article_of(&mut client, &format!("ARTICLE {number}")).unwrap_or_default();
        let without_xref = |mut lines: Vec<String>| {
            lines.retain(|line| !line.starts_with("Xref: "));
            lines
        };
        assert_eq!(without_xref(article), without_xref(lines_of(&fill, number)), "{code}");
    }
}

#[test]
fn connection_limit_of_a_provider_is_learned() {
    const ARTICLES: u64 = 120;
    let fake = Fake::with("comp.a", ARTICLES, 2_000);
    fake.delay(Duration::from_millis(5));
    fake.allow(2);
    let own = section("fake", fake.address, "connections = 10");
    let server = showing(&[own.replace("group_age = \"0 s\"", "group_age = \"1 h\"")]);
    let readers: Vec<_> = (0..8)
        .map(|reader| {
            let (mut client, fake) = (server.client(), fake.clone());
            std::thread::spawn(move || {
                assert!(client.ask("GROUP comp.a").starts_with("211 120 "));
                for number in (1..=ARTICLES).filter(|number| number % 8 == reader) {
                    let article = article_of(&mut client, &format!("ARTICLE {number}"));
                    assert_eq!(article, Some(lines_of(&fake, number)), "{number}");
                }
            })
        })
        .collect();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    let upstream = server.status()["upstreams"][0].clone();
    let limit = upstream["connections_limit"].as_u64().unwrap();
    assert!((1..=2).contains(&limit) && upstream["problem"] == "", "{upstream}");
}

#[test]
fn interrupted_article_is_continued_on_another_connection() {
    for bytes in [3_000, 300_000] {
        let fake = Fake::with("comp.a", 3, bytes);
        let own = section("fake", fake.address, "");
        let server = Server::start_showing(&[], |text| text.replace("128 KiB", "4 MiB") + &own + CACHE);
        let mut client = server.client();
        assert!(client.ask("GROUP comp.a").starts_with("211 3 "));
        for which in ["1".to_owned(), id("comp.a", 2)] {
            fake.fail(Fault::BreaksOffOnce);
            let article = article_of(&mut client, &format!("ARTICLE {which}")).unwrap();
            let number = if which == "1" { 1 } else { 2 };
            assert!(article == lines_of(&fake, number), "{which} of {bytes} bytes");
        }
        assert_eq!(server.status()["upstreams"][0]["failures"], 0);
    }
}

#[test]
fn article_continued_with_other_text_is_not_completed() {
    let fake = Fake::with("comp.a", 1, 300_000);
    let own = section("fake", fake.address, "");
    let server = Server::start_showing(&[], |text| text.replace("128 KiB", "4 MiB") + &own + CACHE);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 1 "));
    fake.fail(Fault::ContinuesOtherwise);
    assert!(client.ask("ARTICLE 1").starts_with("220 "));
    let rest = client.rest();
    assert!(rest.contains("xx\r\n") && !rest.contains("xy\r\n") && !rest.ends_with("\r\n.\r\n"));
}

/// Waits until the upstream with this index in the configuration is used again.
fn wait_until_back(server: &Server, at: usize) {
    wait_for(|| server.status()["upstreams"][at]["problem"].clone(), |problem| problem == "");
}

#[test]
fn silent_provider_is_awaited_once_and_retried_in_the_background() {
    const ARTICLES: u64 = 12;
    let (silent, fill) = (Fake::with("comp.a", ARTICLES, 500), Fake::with("comp.a", ARTICLES, 500));
    let sections =
        [section("silent", silent.address, ""), section("fill", fill.address, "fill = true\npriority = 5")];
    let server = showing(&sections);
    let mut client = server.client();
    silent.fail(Fault::Silent);
    let begun = Instant::now();
    for number in 1..ARTICLES {
        let article = article_of(&mut client, &format!("ARTICLE {}", id("comp.a", number)));
        assert!(article.is_some(), "{number}");
    }
    // An article that the silent server may have is not reported as absent, and the response takes no longer.
    assert!(client.ask("STAT <no@where.example>").starts_with("403 "));
    assert!(client.ask("ARTICLE <no@where.example>").starts_with("403 "));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    silent.fail(Fault::None);
    wait_until_back(&server, 0);
    silent.take("");
    assert!(article_of(&mut client, &format!("ARTICLE {}", id("comp.a", ARTICLES))).is_some());
    assert_eq!(silent.take("ARTICLE").len(), 1, "the time that was given up is not its usual time");
    assert!(client.ask("STAT <no@where.example>").starts_with("430 "));
}

#[test]
fn silent_fill_server_does_not_delay_misses() {
    let (main, silent) = (Fake::with("comp.a", 1, 500), Fake::with("comp.a", 2, 500));
    let server =
        showing(&[section("main", main.address, ""), section("silent", silent.address, "fill = true")]);
    silent.fail(Fault::Silent);
    let mut client = server.client();
    let begun = Instant::now();
    for verb in ["STAT", "ARTICLE", "HEAD"] {
        assert!(client.ask(&format!("{verb} {}", id("comp.a", 2))).starts_with("403 "), "{verb}");
    }
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[test]
fn upstream_that_never_answered_hides_no_other_groups() {
    let (silent, dead) = (Fake::with("never.a", 1, 500), Fake::with("dead.a", 1, 500));
    let well = Fake::with("comp.a", 3, 500);
    silent.fail(Fault::Silent);
    dead.fail(Fault::Dead);
    let sections = section("well", well.address, "")
        + &section("silent", silent.address, "groups = \"never.*\"")
        + &section("dead", dead.address, "groups = \"dead.*\"");
    let server = Server::start_showing(&[("misc.test", "y", "Ours")], |text| text + &sections);
    let mut client = server.client();
    let begun = Instant::now();
    for _ in 0..3 {
        assert!(client.ask("LIST ACTIVE").starts_with("215 "));
        assert_eq!(client.block(), ["comp.a 3 1 y", "misc.test 0 1 y"]);
    }
    assert!(client.ask("LIST NEWSGROUPS").starts_with("403 "), "it knows no such list");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[test]
fn silent_upstream_does_not_delay_cached_articles() {
    let fake = Fake::with("comp.a", 3, 500);
    let mut server = showing(&[section("fake", fake.address, "")]);
    let read = |client: &mut Client| {
        assert_eq!(client.ask("GROUP comp.a"), "211 3 1 3 comp.a");
        assert!(client.ask("OVER 1-3").starts_with("224 "));
        assert_eq!(client.block().len(), 3);
        assert!(article_of(client, "ARTICLE 1").is_some());
        assert!(client.ask("LIST ACTIVE").starts_with("215 "));
        assert_eq!(client.block(), ["comp.a 3 1 y"]);
    };
    read(&mut server.client());
    fake.fail(Fault::Silent);
    for _ in 0..2 {
        let begun = Instant::now();
        read(&mut server.client());
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        server = server.again_as_configured();
    }
}

#[test]
fn silent_upstream_does_not_delay_posters() {
    let fake = Fake::with("comp.a", 1, 500);
    let server = showing(&[section("isp", fake.address, "")]);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 1 "));
    fake.fail(Fault::Silent);
    let begun = Instant::now();
    for at in 1..=2 {
        let more = format!("Message-ID: <{at}@x.example>\r\n");
        let answer = post(&mut client, &headers("comp.a", &more), "b");
        assert!(answer.starts_with("240 Article queued for isp"), "{answer}");
    }
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    fake.fail(Fault::None);
    wait_for(|| fake.posts(), |posts| posts.len() >= 2);
}
