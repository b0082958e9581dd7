//! Prefetching: articles fetched before a reader asks for them, and those fetched later.

use super::fake::{Fake, Fault, id};
use super::{article_of, section, wait_until_asked};
use crate::running::Server;
use crate::waiting::wait_for;
use std::time::{Duration, Instant};

/// Starts a site with this upstream, and these keys of [prefetch].
fn prefetching(fake: &Fake, group_age: &str, keys: &str) -> Server {
    let own = section("fake", fake.address, "")
        .replace("group_age = \"0 s\"", &format!("group_age = \"{group_age}\""))
        .replace("active_age = \"0 s\"", "active_age = \"1 h\"");
    let keys = format!("[cache]\nnegative_age = \"0 s\"\n[prefetch]\n{keys}\n");
    Server::start_showing(&[], |text| text + &own + &keys)
}

/// Returns the articles requested from the upstream until this one is.
fn asked_until(fake: &Fake, last: &str) -> Vec<String> {
    let mut asked = Vec::new();
    let look = || {
        asked.extend(fake.take("ARTICLE"));
        asked.clone()
    };
    wait_for(look, |asked| asked.iter().any(|command| command == last))
}

#[test]
fn listed_groups_are_prefetched_at_the_configured_rate() {
    let fake = Fake::with("comp.a", 4, 3_000);
    fake.put("comp.a", 5, 50_000);
    fake.put("comp.a", 6, 3_000);
    fake.put("comp.b", 1, 3_000);
    let begun = Instant::now();
    let keys = "groups = \"comp.*,!comp.b\"\nbytes_max = \"10 KiB\"\nbytes_per_sec_max = \"5 KiB\"";
    let server = prefetching(&fake, "1 h", keys);
    let asked = asked_until(&fake, "ARTICLE 6");
    assert_eq!(asked, ["ARTICLE 1", "ARTICLE 2", "ARTICLE 3", "ARTICLE 4", "ARTICLE 6"]);
    // Before the last of them came rows and four times three thousand bytes, with a burst of 5 KiB.
    assert!(begun.elapsed() > Duration::from_secs(1), "{:?}", begun.elapsed());
    let mut client = server.client();
    assert_eq!(client.ask("GROUP comp.a"), "211 6 1 6 comp.a");
    assert!(client.ask("OVER 1-").starts_with("224 "));
    assert_eq!(client.block().len(), 6);
    (1..=4).for_each(|number| assert!(article_of(&mut client, &format!("ARTICLE {number}")).is_some()));
    assert_eq!(fake.take("ARTICLE"), [""; 0]);
}

#[test]
fn descriptions_are_prefetched() {
    let fake = Fake::with("comp.a", 1, 500);
    let _server = prefetching(&fake, "1 h", "groups = \"comp.*\"\nwhat = \"overview\"");
    wait_for(|| fake.take("LIST NEWSGROUPS"), |asked| !asked.is_empty());
}

#[test]
fn groups_are_prefetched_once_read() {
    let fake = Fake::with("comp.a", 2, 3_000);
    fake.put("comp.b", 1, 3_000);
    let server = prefetching(&fake, "0 s", "read_within = \"1 h\"\ninterval = \"1 s\"");
    let mut client = server.client();
    // A group that is only selected does not count as read.
    assert!(client.ask("GROUP comp.b").starts_with("211 "));
    assert!(client.ask("GROUP comp.a").starts_with("211 "));
    assert!(article_of(&mut client, "ARTICLE 1").is_some());
    assert_eq!(asked_until(&fake, "ARTICLE 2"), ["ARTICLE 1", "ARTICLE 2"]);
    fake.put("comp.a", 3, 3_000);
    assert_eq!(asked_until(&fake, "ARTICLE 3"), ["ARTICLE 3"]);
}

#[test]
fn only_followed_threads_are_prefetched() {
    let fake = Fake::with("comp.a", 5, 3_000);
    let refers = |number: u64, to: u64| {
        fake.change(|groups| {
            let article = groups.get_mut("comp.a").unwrap().articles.get_mut(&number).unwrap();
            let references = format!("References: {}\r\nSubject: ", id("comp.a", to));
            *article = article.replacen("Subject: ", &references, 1);
        });
    };
    for (number, to) in [(3, 1), (4, 2), (5, 3)] {
        refers(number, to);
    }
    let server = prefetching(&fake, "0 s", "read_within = \"1 h\"\nwhat = \"threads\"\ninterval = \"1 s\"");
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 "));
    assert!(article_of(&mut client, "ARTICLE 1").is_some());
    // The follow-up, and the follow-up to that.
    assert_eq!(asked_until(&fake, "ARTICLE 5"), ["ARTICLE 1", "ARTICLE 3", "ARTICLE 5"]);
}

#[test]
fn articles_requested_during_an_outage_are_fetched_later() {
    let fake = Fake::with("comp.a", 2, 3_000);
    let mut server = prefetching(&fake, "1 h", "fetch_later = true");
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 "));
    assert!(client.ask("OVER 1-").starts_with("224 "));
    client.block();
    fake.fail(Fault::Dead);
    assert!(client.ask("ARTICLE 2").starts_with("403 "));
    assert!(client.ask(&format!("ARTICLE {}", id("comp.a", 1))).starts_with("403 "));
    // Also after a restart.
    drop(client);
    server = server.again_as_configured();
    fake.take("");
    fake.fail(Fault::None);
    let mut client = server.client();
    wait_until_asked(&mut client);
    let last = format!("ARTICLE {}", id("comp.a", 1));
    assert_eq!(asked_until(&fake, &last), ["ARTICLE 2".to_owned(), last.clone()]);
    assert!(client.ask("GROUP comp.a").starts_with("211 "));
    assert!(article_of(&mut client, "ARTICLE 2").is_some());
    assert_eq!(fake.take("ARTICLE"), [""; 0]);
}

/// Some servers end the connection at an article that is damaged there.
#[test]
fn an_article_at_which_the_upstream_breaks_off_keeps_no_other_from_being_prefetched() {
    let fake = Fake::with("comp.a", 4, 3_000);
    fake.fail(Fault::BreaksOffAt(2));
    let _server = prefetching(&fake, "0 s", "groups = \"comp.*\"\ninterval = \"1 s\"");
    let asked = asked_until(&fake, "ARTICLE 4");
    assert!(asked.starts_with(&["ARTICLE 1".to_owned(), "ARTICLE 2".to_owned()]), "{asked:?}");
    assert!(asked.contains(&"ARTICLE 3".to_owned()), "{asked:?}");
    // It comes once the upstream has it again.
    fake.fail(Fault::None);
    asked_until(&fake, "ARTICLE 2");
}

#[test]
fn an_article_at_which_the_upstream_breaks_off_keeps_no_other_from_being_fetched_later() {
    let fake = Fake::with("comp.a", 2, 3_000);
    let server = prefetching(&fake, "1 h", "fetch_later = true");
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 "));
    fake.fail(Fault::Dead);
    assert!(client.ask("ARTICLE 1").starts_with("403 "));
    assert!(client.ask("ARTICLE 2").starts_with("403 "));
    fake.take("");
    fake.fail(Fault::BreaksOffAt(1));
    let asked = asked_until(&fake, "ARTICLE 2");
    // On a second connection, too.
    assert_eq!(asked, ["ARTICLE 1", "ARTICLE 1", "ARTICLE 2"]);
}
