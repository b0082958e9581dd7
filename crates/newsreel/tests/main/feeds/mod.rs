//! Outgoing feeds: to a peer that records everything and may be difficult, and to another newsreel.

mod batches;
mod chain;
pub(crate) mod cnews;
mod difficult;
mod headers;
mod inn;
mod keys;
mod lines;
mod manners;
mod odd_answers;
pub(crate) mod odd_peer;
mod page;
mod recorder;
mod restarts;
mod sendme;
mod slow;
mod transit;
mod triangle;

use crate::client::{Client, article};
use crate::running::Server;
use crate::waiting::wait_for;
use recorder::{Behaviour, Recorder};
use std::net::SocketAddr;

/// Returns the section of a peer that is fed, with short pauses.
fn section(name: &str, recorder: &Recorder, keys: &str) -> String {
    section_to(name, recorder.address, keys)
}

/// Like [`section`], for a peer at this address.
fn section_to(name: &str, address: SocketAddr, keys: &str) -> String {
    format!(
        "\n[[peer]]\nname = \"{name}\"\n[peer.send]\nto = \"{address}\"\nretry_first = \"10ms\"\n\
         retry_longest = \"200ms\"\n{keys}\n"
    )
}

/// Starts a server that feeds a recorder.
fn feeding(recorder: &Recorder, keys: &str) -> Server {
    let section = section("down.example", recorder, keys);
    Server::start_with(|text| text + &section)
}

fn id(n: usize) -> String {
    format!("<{n}@x.example>")
}

/// Feeds articles to the server, which accepts all of them.
fn hand_in(client: &mut Client, numbers: std::ops::Range<usize>, groups: &str) {
    for chunk in numbers.collect::<Vec<_>>().chunks(100) {
        let all: Vec<_> = chunk.iter().map(|n| (id(*n), article(&id(*n), groups, "..body"))).collect();
        hand_in_all(client, &all);
    }
}

/// Feeds these articles, each with its Message-ID.
fn hand_in_all(client: &mut Client, articles: &[(String, String)]) {
    client
        .send(articles.iter().map(|(id, article)| format!("TAKETHIS {id}\r\n{article}")).collect::<String>());
    articles.iter().for_each(|(id, _)| assert_eq!(client.line().trim_end(), format!("239 {id}")));
}

/// Returns the status of the feed to a peer.
fn status(server: &Server, peer: &str) -> serde_json::Value {
    let status = server.status();
    let peers = status["peers"].as_array().unwrap();
    peers.iter().find(|of| of["name"] == peer).unwrap()["feed"].clone()
}

/// Waits until the status of a feed is as wanted.
fn wait_for_status(server: &Server, peer: &str, is_so: impl Fn(&serde_json::Value) -> bool) {
    wait_for(|| status(server, peer), is_so);
}

#[test]
fn peer_gets_articles_as_stored() {
    let recorder = Recorder::start(Behaviour::default());
    let server = feeding(&recorder, "groups = \"misc.*\"");
    let mut client = server.client();
    hand_in(&mut client, 0..3, "misc.test");
    hand_in(&mut client, 3..5, "local.closed");
    hand_in(&mut client, 5..6, "misc.test,local.closed");
    recorder.wait_for(4);
    let accepted = recorder.seen(|seen| seen.accepted.clone());
    assert_eq!(accepted, [id(0), id(1), id(2), id(5)]);
    let sent = recorder.seen(|seen| seen.articles[&id(5)].clone());
    let expected =
        article(&id(5), "misc.test,local.closed", "..body").replace("Path: ", "Path: site.example!!");
    assert_eq!(sent, expected.strip_suffix(".\r\n").unwrap());
    wait_for_status(&server, "down.example", |feed| {
        feed["accepted"] == 4
            && feed["lag_articles"] == 0
            && feed["state"] == "sending"
            && feed["connections"] == 1
    });
    let feed = status(&server, "down.example");
    assert_eq!((&feed["offered"], &feed["wanted"], &feed["refused"]), (&4.into(), &4.into(), &0.into()));
}

#[test]
fn peer_that_takes_headers_gets_no_bodies() {
    let recorder = Recorder::start(Behaviour { takes_headers: true, ..Behaviour::default() });
    let server = feeding(&recorder, "headers_only = true");
    let mut client = server.client();
    let plain = article(&id(0), "misc.test", "one\r\n..two\r\nthree");
    let sized =
        article(&id(1), "misc.test", "body").replace("\r\nFrom: ", "\r\nBytes: 7\r\nLines: 40\r\nFrom: ");
    let control =
        article(&id(2), "misc.test", "whole").replace("\r\nFrom: ", "\r\nControl: checkgroups\r\nFrom: ");
    let all = [&plain, &sized, &control].map(|text| text.replace("Path: ", "Path: site.example!!"));
    hand_in_all(&mut client, &[(id(0), plain), (id(1), sized), (id(2), control)]);
    recorder.wait_for(3);
    let head_of = |text: &str| text.split("\r\n\r\n").next().unwrap().to_owned() + "\r\n";
    // Counted as in OVER: without the final line, and without stuffed dots.
    let bytes_of = |text: &str| text.len() - ".\r\n".len() - text.matches("\r\n..").count();
    let sent = |n: usize| recorder.seen(|seen| seen.articles[&id(n)].clone());
    assert_eq!(sent(0), format!("{}Bytes: {}\r\nLines: 3\r\n\r\n", head_of(&all[0]), bytes_of(&all[0])));
    let head = head_of(&all[1]).replace("Bytes: 7\r\n", "");
    assert_eq!(sent(1), format!("{head}Bytes: {}\r\n\r\n", bytes_of(&all[1])));
    assert_eq!(sent(2), all[2].strip_suffix(".\r\n").unwrap());

    // A peer without support for headers is sent nothing.
    let recorder = Recorder::start(Behaviour::default());
    let server = feeding(&recorder, "headers_only = true");
    hand_in(&mut server.client(), 0..1, "misc.test");
    let why = "MODE HEADFEED is answered `500 what?`";
    wait_for_status(&server, "down.example", |feed| {
        feed.to_string().contains(why) && feed["lag_articles"] == 1
    });
    assert_eq!(recorder.seen(|seen| seen.commands.clone()), Vec::<String>::new());
}

#[test]
fn articles_are_not_sent_to_peers_in_their_path() {
    let recorder = Recorder::start(Behaviour::default());
    let section =
        section("peer.example", &recorder, "").replacen("[[peer]]\nname = \"peer.example\"\n", "", 1);
    let other = self::section("down.example", &recorder, "path_never = [\"far.example\"]\ngroups = \"junk\"");
    let server = Server::start_with(|text| {
        text.replace("\n# Whoever logs in", &format!("{section}\n# Whoever logs in")) + &other
    });
    let mut client = server.client();
    hand_in(&mut client, 0..5, "misc.test");
    wait_for_status(&server, "peer.example", |feed| feed["lag_bytes"] == 0);
    assert_eq!(recorder.seen(|seen| seen.commands.clone()), Vec::<String>::new());
    let explained = |id: &str, peer: &str| {
        let (replies, ok) =
            server.control(&serde_json::json!({ "do": "why", "message_id": id, "peer": peer }));
        let lines: Vec<String> =
            replies.iter().map(|reply| reply["text"].to_string() + &reply["error"].to_string()).collect();
        (lines.join("\n"), ok)
    };
    let (lines, ok) = explained(&id(1), "peer.example");
    assert!(ok && lines.contains("origin         NO   came from this peer"), "{lines}");
    assert!(lines.contains("groups         yes  misc.test matches \\\"*\\\""), "{lines}");
    assert!(lines.contains("now            it would not be sent"), "{lines}");
    let (lines, ok) = explained(&id(1), "down.example");
    assert!(ok && lines.contains("groups         NO   none of misc.test matches \\\"junk\\\""), "{lines}");
    assert!(lines.contains("when it came   it was not to be sent"), "{lines}");
    for (id, peer, why) in [
        ("<9@x.example>", "down.example", "is unknown here"),
        ("<1@x.example>", "nobody", "there is no peer `nobody` with [peer.send]"),
    ] {
        let (lines, ok) = explained(id, peer);
        assert!(!ok && lines.contains(why), "{lines}");
    }
}

#[test]
fn offers_on_one_connection_keep_the_order_of_arrival() {
    for high in [100, 95] {
        let recorder = Recorder::start(Behaviour::default());
        let server = feeding(&recorder, &format!("connections = 1\nno_check_high = {high}"));
        hand_in(&mut server.client(), 0..500, "misc.test");
        recorder.wait_for(500);
        let mut checks: Vec<String> = recorder.seen(|seen| seen.commands.clone());
        checks.retain(|command| command.starts_with("CHECK"));
        assert!(checks.len() >= 100 && (high < 100 || checks.len() == 500), "{}", checks.len());
        let expected: Vec<String> = (0..checks.len()).map(|n| format!("CHECK {}", id(n))).collect();
        assert_eq!(checks, expected);
        // Also when the rest is sent without asking.
        assert_eq!(recorder.seen(|seen| seen.accepted.clone()), (0..500).map(id).collect::<Vec<_>>());
    }
}

#[test]
fn peer_that_is_only_fed_gets_no_feeding_rights() {
    let recorder = Recorder::start(Behaviour::default());
    let section = section("down.example", &recorder, "");
    let stranger = Server::start_with(|text| {
        text.replace("[\"127.0.0.1\"]\naccept", "[\"192.0.2.7\"]\naccept") + &section
    });
    let mut client = stranger.client();
    for command in ["CHECK <1@x.example>", "IHAVE <1@x.example>"] {
        let answer = client.ask(command);
        assert!(answer.starts_with("480 ") || answer.starts_with("502 "), "{answer}");
    }
    // The fed peer's section comes first, and the known peer is still recognized.
    let server = Server::start_with(|text| text.replacen("\n[[peer]]", &format!("{section}\n[[peer]]"), 1));
    hand_in(&mut server.client(), 0..3, "misc.test");
    recorder.wait_for(3);
}

#[test]
fn backlog_may_be_sent_newest_first() {
    let recorder = Recorder::start(Behaviour::default());
    recorder.set_down(true);
    let server = feeding(&recorder, "connections = 1\norder = \"newest\"");
    let mut client = server.client();
    (0..100).rev().for_each(|n| hand_in(&mut client, n..n + 1, "misc.test"));
    wait_for_status(&server, "down.example", |feed| feed["lag_articles"] == 100);
    recorder.set_down(false);
    recorder.wait_for(100);
    assert_eq!(recorder.seen(|seen| seen.accepted.clone()), (0..100).map(id).collect::<Vec<_>>());
}

#[test]
fn peer_that_wants_everything_is_no_longer_asked() {
    let recorder = Recorder::start(Behaviour::default());
    let server = feeding(&recorder, "connections = 1");
    let mut client = server.client();
    hand_in(&mut client, 0..100, "misc.test");
    recorder.wait_for(100);
    wait_for_status(&server, "down.example", |feed| feed["no_check"] == true);
    hand_in(&mut client, 100..200, "misc.test");
    recorder.wait_for(200);
    let checks = recorder.seen(|seen| seen.commands.iter().filter(|c| c.starts_with("CHECK")).count());
    assert_eq!(checks, 100);
    // The peer has them from elsewhere: from 10 percent on it is asked again.
    recorder.behave(Behaviour { refuses: 100_000, rejects: 100_000, ..Behaviour::default() });
    hand_in(&mut client, 200..400, "misc.test");
    wait_for_status(&server, "down.example", |feed| feed["lag_articles"] == 0 && feed["no_check"] == false);
}

#[test]
fn delayed_article_cancelled_meanwhile_is_not_sent() {
    let recorder = Recorder::start(Behaviour::default());
    let server = feeding(&recorder, "delay = \"1 h\"");
    hand_in(&mut server.client(), 0..2, "misc.test");
    assert!(server.operate(&["cancel", &id(0)]));
    assert_eq!(recorder.seen(|seen| seen.commands.len()), 0);
    server.reload(|text| text.replace("delay = \"1 h\"", "delay = \"10 ms\"")).unwrap();
    recorder.wait_for(1);
    wait_for_status(&server, "down.example", |feed| feed["lag_articles"] == 0);
    assert_eq!(recorder.seen(|seen| seen.accepted.clone()), [id(1)]);
    assert_eq!(status(&server, "down.example")["missed"], 0, "a cancelled article is not missed");
}

#[test]
fn articles_overwritten_before_sending_are_counted_and_named() {
    let recorder = Recorder::start(Behaviour::default());
    recorder.set_down(true);
    let section = section("down.example", &recorder, "");
    let server = Server::start_with(|text| text.replace("\"32 MiB\"", "\"1 MiB\"") + &section);
    let mut client = server.client();
    let body = ("x".repeat(62) + "\r\n").repeat(1_500);
    for n in 0..30 {
        client.send(format!("TAKETHIS {}\r\n{}", id(n), article(&id(n), "misc.test", &body)));
        assert_eq!(client.line(), format!("239 {}", id(n)));
    }
    recorder.set_down(false);
    let number = |feed: &serde_json::Value, key: &str| feed[key].as_u64().unwrap();
    wait_for_status(&server, "down.example", |feed| {
        feed["lag_articles"] == 0 && number(feed, "missed") + number(feed, "accepted") >= 30
    });
    let feed = status(&server, "down.example");
    let (missed, accepted) = (feed["missed"].as_u64().unwrap(), feed["accepted"].as_u64().unwrap());
    assert!(missed > 10 && missed + accepted == 30, "{feed}");
    assert_eq!(feed["missed_ids"].as_array().unwrap().len() as u64, missed);
    assert_eq!(feed["missed_ids"][0], id(0));
}

#[test]
fn unreachable_peer_is_retried_and_obeys_stop_and_start() {
    let recorder = Recorder::start(Behaviour::default());
    recorder.set_down(true);
    let server = feeding(&recorder, "");
    let mut client = server.client();
    let order = |command: serde_json::Value| {
        server.control(&serde_json::json!({ "do": "feed", "peer": "down.example", "command": command }))
    };
    hand_in(&mut client, 0..10, "misc.test");
    wait_for_status(&server, "down.example", |feed| feed["last_error"].is_string());
    wait_for_status(&server, "down.example", |feed| feed["lag_articles"] == 10);
    assert!(order("stop".into()).1);
    recorder.set_down(false);
    wait_for_status(&server, "down.example", |feed| feed["state"] == "stopped");
    assert!(order("start".into()).1);
    recorder.wait_for(10);
    wait_for_status(&server, "down.example", |feed| feed["last_error"].is_null());
    // From the beginning: the peer has them all.
    recorder.may_be_offered_again();
    assert!(order(serde_json::json!({ "from": { "place": "oldest" } })).1);
    wait_for_status(&server, "down.example", |feed| feed["refused"] == 10);
    assert!(order("flush".into()).1);
    let (replies, ok) = order(serde_json::json!({ "from": { "place": "yesterday" } }));
    assert!(!ok && replies[0]["error"].as_str().unwrap().contains("neither \"now\""), "{replies:?}");
}

#[test]
fn reload_adds_changes_and_removes_feeds() {
    let (first, second) = (Recorder::start(Behaviour::default()), Recorder::start(Behaviour::default()));
    let server = feeding(&first, "groups = \"misc.*\"");
    let mut client = server.client();
    hand_in(&mut client, 0..5, "misc.test");
    first.wait_for(5);
    // A new peer gets everything if configured so.
    let section = section("second.example", &second, "from = \"oldest\"");
    server.reload(|text| text + &section).unwrap();
    second.wait_for(5);
    hand_in(&mut client, 5..10, "misc.test");
    first.wait_for(10);
    second.wait_for(10);
    assert_eq!(first.seen(|seen| seen.connections), 1, "the other feed noticed");
    server.reload(|text| text.replace("groups = \"misc.*\"", "groups = \"local.*\"")).unwrap();
    hand_in(&mut client, 10..12, "misc.test");
    second.wait_for(12);
    hand_in(&mut client, 12..13, "local.closed");
    first.wait_for(11);
    assert_eq!(first.seen(|seen| seen.accepted.last().cloned()), Some(id(12)));
    second.wait_for(13);
    let said = server.reload(|text| text.replace(&section, "")).unwrap();
    assert!(said.contains("[[peer]] second.example removed"), "{said}");
    assert!(!server.data().join("journal/feed.second.example.cursor").exists());
    hand_in(&mut client, 13..14, "local.closed");
    first.wait_for(12);
    assert_eq!(second.seen(|seen| seen.accepted.len()), 13);
}
