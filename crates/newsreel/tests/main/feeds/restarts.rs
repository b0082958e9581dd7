//! Feeds of servers that are stopped and killed.

use super::recorder::{Behaviour, Recorder};
use super::{hand_in, id, section};
use crate::operated::Operated;

/// A site on which `recorder` is fed.
fn site(recorder: &Recorder, keys: &str) -> Operated {
    let site = Operated::unmade();
    site.done(&["init", "--listen", "127.0.0.1:0", "--max-age", "none", "--peer", "127.0.0.1"]);
    site.done(&["group", "add", "misc.test"]);
    let section = section("down.example", recorder, keys);
    site.edit(|text| text + &section);
    site
}

#[test]
fn nothing_is_lost_and_little_comes_twice_when_the_server_is_killed() {
    // In turn it is killed while nothing is sent, while articles are on their way, and while some wait.
    let recorder = Recorder::start(Behaviour::default());
    let site = site(&recorder, "connections = 2");
    let mut handed_in = 0;
    for round in 0..6 {
        let behaviour = match round % 3 {
            0 => Behaviour::default(),
            1 => Behaviour { later: 300, ..Behaviour::default() },
            _ => Behaviour { later: 50, closes: 5, dies: 5, ..Behaviour::default() },
        };
        recorder.behave(behaviour);
        let server = site.serve();
        hand_in(&mut server.client(), handed_in..handed_in + 300, "misc.test");
        handed_in += 300;
        let enough = handed_in - 150;
        recorder.wait("a part of the articles", |seen| seen.accepted.len() >= enough - 100);
        // Killed with -9.
        drop(server);
    }
    recorder.behave(Behaviour::default());
    let server = site.serve();
    recorder.wait_for(handed_in);
    let accepted = recorder.seen(|seen| seen.accepted.clone());
    let mut ids: Vec<String> = (0..handed_in).map(id).collect();
    ids.sort_unstable();
    let mut sorted = accepted.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ids, "every article once");
    drop(server);
}

#[test]
fn after_a_kill_only_what_was_on_its_way_is_offered_again() {
    let recorder = Recorder::start(Behaviour::default());
    let site = site(&recorder, "connections = 1");
    let server = site.serve();
    hand_in(&mut server.client(), 0..500, "misc.test");
    recorder.wait_for(500);
    // The answers to the last ones may not be noted yet.
    let window = 2_048;
    drop(server);
    let before = recorder.seen(|seen| seen.commands.len());
    let server = site.serve();
    hand_in(&mut server.client(), 500..501, "misc.test");
    recorder.wait_for(501);
    let again = recorder.seen(|seen| seen.commands.len()) - before - 2;
    assert!(again <= window, "{again} offers again");
    drop(server);
}

#[test]
fn after_a_stop_nothing_is_offered_again() {
    let recorder = Recorder::start(Behaviour { later: 1_000, ..Behaviour::default() });
    let site = site(&recorder, "connections = 1");
    let server = site.serve();
    hand_in(&mut server.client(), 0..50, "misc.test");
    recorder.wait("offers", |seen| seen.commands.len() >= 50);
    recorder.behave(Behaviour::default());
    recorder.wait_for(50);
    server.stop();
    let before = recorder.seen(|seen| seen.commands.len());
    let server = site.serve();
    hand_in(&mut server.client(), 50..51, "misc.test");
    recorder.wait_for(51);
    let commands = recorder.seen(|seen| seen.commands.get(before..).map(<[String]>::to_vec)).unwrap();
    assert_eq!(commands, [format!("CHECK {}", id(50)), format!("TAKETHIS {}", id(50))]);
}
