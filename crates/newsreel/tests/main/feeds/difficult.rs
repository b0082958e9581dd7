//! A peer with every kind of difficulty, which checks that the feed keeps to the rules meanwhile.

use super::manners::Pauses;
use super::recorder::{Behaviour, Recorder};
use super::restarts::site;
use super::{hand_in, id, section, status, wait_for_status};
use crate::operated::Operated;
use crate::running::Server;
use crate::waiting::wait_for;
use disk::SimDisk;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PAUSES: Pauses = Pauses { first: Duration::from_millis(10), longest: Duration::from_millis(200) };

fn difficult(no_streaming: bool) -> Behaviour {
    let lies = if no_streaming { 0 } else { 20 };
    Behaviour {
        no_streaming,
        takes_headers: false,
        later: 2_000,
        closes: 40,
        dies: 40,
        stalls: 10,
        lies,
        rejects: 3_000,
        refuses: 3_000,
    }
}

/// Returns the feed's status, from a server in a process of its own.
pub(super) fn feed_of(site: &Operated) -> serde_json::Value {
    let status: serde_json::Value = serde_json::from_str(&site.done(&["status", "--json"])).unwrap();
    let peers = status["server"]["peers"].as_array().unwrap();
    peers.iter().find(|peer| peer["name"] == "down.example").unwrap()["feed"].clone()
}

/// Feeds articles to such a peer, which must be offered each of them until settled; returns how much the
/// server's memory grew after the first quarter, in KiB.
fn all_come(behaviour: Behaviour, connections: usize, articles: usize) -> u64 {
    let recorder = Recorder::start_with(behaviour, Some(PAUSES), Box::new(|_, _| {}));
    let site = site(&recorder, &format!("connections = {connections}\nanswer_timeout = \"500ms\""));
    site.edit(|text| text.replace("\"1 GiB\"", "\"128 MiB\""));
    let serving = site.serve();
    let mut client = serving.client();
    hand_in(&mut client, 0..articles / 4, "misc.test");
    recorder.wait("a quarter of the articles", |seen| seen.manners.settled >= articles / 4);
    let memory = serving.memory_kib();
    hand_in(&mut client, articles / 4..articles, "misc.test");
    recorder.wait("every article", |seen| seen.manners.settled >= articles);
    let feed = wait_for(|| feed_of(&site), |feed| feed["lag_articles"] == 0 && feed["waiting"] == 0);
    let gained = serving.memory_kib().saturating_sub(memory);
    assert_eq!(feed["missed"], 0, "{feed}");
    assert!(feed["deferred"].as_u64().unwrap() > 0, "{feed}");
    recorder.seen(|seen| {
        assert_eq!(seen.manners.settled, articles);
        assert_eq!(seen.accepted.len(), seen.articles.len());
        // Articles refused when the response was lost may be rejected, or accepted, when offered again.
        let ids = seen.articles.keys().chain(seen.rejected.keys()).chain(seen.refused.keys());
        assert_eq!(ids.collect::<BTreeSet<_>>().len(), articles);
        assert!(!seen.breaks.is_empty(), "it never closed");
        if connections > 1 {
            return;
        }
        // Attempts and connections have the same numbers.
        for (number, when) in &seen.breaks {
            let Some(next) = seen.attempts.get(*number as usize) else { continue };
            let pause = next.saturating_duration_since(*when);
            assert!(pause >= PAUSES.first * 7 / 10, "tried again after {pause:?}");
        }
    });
    recorder.expects_no_faults();
    gained
}

#[test]
fn difficult_peer_gets_every_article_it_wants() {
    let worse = Behaviour { later: 10_000, closes: 300, dies: 300, stalls: 100, ..difficult(false) };
    all_come(Behaviour { lies: 200, ..worse }, 3, 600);
    all_come(worse, 1, 400);
    all_come(Behaviour { no_streaming: true, lies: 0, ..worse }, 3, 200);
}

#[test]
#[ignore = "soak: 100,000 articles each way, some minutes"]
fn a_difficult_peer_gets_a_hundred_thousand_articles() {
    for (no_streaming, connections) in [(false, 4), (false, 1), (true, 4)] {
        let begun = Instant::now();
        let gained = all_come(difficult(no_streaming), connections, 100_000);
        println!(
            "100,000 articles to a difficult peer, {connections} connections{}: {:.0} s, {gained} KiB gained",
            if no_streaming { ", IHAVE" } else { "" },
            begun.elapsed().as_secs_f64()
        );
        assert!(gained < 32 << 10, "{gained} KiB more");
    }
}

#[test]
fn unreachable_peer_is_retried_after_the_configured_pauses() {
    let recorder = Recorder::start(Behaviour::default());
    recorder.set_down(true);
    let section = section("down.example", &recorder, "")
        .replace("\"10ms\"", "\"40ms\"")
        .replace("\"200ms\"", "\"160ms\"");
    let server = Server::start_with(|text| text + &section);
    hand_in(&mut server.client(), 0..1, "misc.test");
    // If the pauses kept growing, the last would take more than a minute.
    recorder.wait("attempts", |seen| seen.attempts.len() >= 13);
    let attempts = recorder.seen(|seen| seen.attempts.clone());
    for (n, pair) in attempts.windows(2).enumerate() {
        let full = Duration::from_millis(40 << n.min(2));
        let pause = pair[1] - pair[0];
        assert!(pause + Duration::from_millis(1) >= full * 3 / 4, "{pause:?} before attempt {}", n + 2);
    }
}

#[test]
fn deferral_on_a_full_disk_is_recorded_once_there_is_room() {
    let recorder = Recorder::start(Behaviour { later: 100_000, ..Behaviour::default() });
    recorder.set_down(true);
    let section = section("down.example", &recorder, "");
    let disk = SimDisk::new();
    let server = Server::start_on(Arc::new(disk.clone()), |text| text + &section);
    hand_in(&mut server.client(), 0..20, "misc.test");
    wait_for_status(&server, "down.example", |feed| feed["lag_articles"] == 20);
    disk.fill_at(disk.steps());
    recorder.set_down(false);
    wait_for_status(&server, "down.example", |feed| {
        feed["last_error"].as_str().is_some_and(|error| error.contains("cannot note what was sent"))
    });
    assert_eq!(status(&server, "down.example")["lag_articles"], 20);
    disk.free();
    wait_for_status(&server, "down.example", |feed| {
        feed["lag_articles"] == 0 && feed["waiting"] == 20 && feed["last_error"].is_null()
    });
    recorder.behave(Behaviour::default());
    recorder.wait_for(20);
    wait_for_status(&server, "down.example", |feed| feed["waiting"] == 0);
    assert_eq!(
        recorder.seen(|seen| seen.accepted.iter().cloned().collect::<std::collections::BTreeSet<_>>()),
        (0..20).map(id).collect()
    );
}
