//! Peers that are slow to answer on each connection.

use super::odd_peer::OddPeer;
use super::{hand_in, section_to, status, wait_for_status};
use crate::running::Server;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

const ANSWER: Duration = Duration::from_millis(10);

fn feeding(peer: &OddPeer, keys: &str) -> Server {
    let section = section_to("down.example", peer.address, keys);
    Server::start_with(|text| text + &section)
}

#[test]
fn slow_peer_gets_all_configured_connections() {
    for streaming in [true, false] {
        let peer = OddPeer::start_slow(streaming, ANSWER, |_, _, _| None);
        let server = feeding(&peer, "connections = 4");
        // Sixteen seconds over one connection.
        hand_in(&mut server.client(), 0..800, "misc.test");
        peer.wait_for(800);
        assert_eq!(peer.open_most(), 4, "streaming: {streaming}");
        wait_for_status(&server, "down.example", |feed| feed["lag_articles"] == 0);
    }
}

#[test]
fn articles_after_an_unanswered_one_use_another_connection() {
    for streaming in [true, false] {
        // Answered when the test ends.
        let (_end, ended) = mpsc::channel::<()>();
        let ended = Mutex::new(ended);
        let peer = OddPeer::start(streaming, move |_, id, _| {
            if id == super::id(0) {
                let _end = ended.lock().unwrap().recv();
            }
            None
        });
        let server = feeding(&peer, "connections = 2");
        let mut client = server.client();
        hand_in(&mut client, 0..1, "misc.test");
        wait_for_status(&server, "down.example", |feed| feed["connections"] == 1);
        // More than the window of the first connection.
        hand_in(&mut client, 1..200, "misc.test");
        peer.wait_for(if streaming { 168 } else { 199 });
        assert_eq!(peer.open_most(), 2);
    }
}

#[test]
fn check_is_used_as_configured() {
    for (keys, checks) in [("no_check_high = 0", 0), ("no_check_high = 100", 1_200)] {
        let peer = OddPeer::start(true, |_, _, _| None);
        let server = feeding(&peer, &format!("connections = 1\n{keys}"));
        hand_in(&mut server.client(), 0..1_200, "misc.test");
        peer.wait_for(1_200);
        let checked = (0..1_200).map(|n| peer.count("CHECK", &super::id(n))).sum::<usize>();
        assert_eq!(checked, checks, "{keys}");
        assert_eq!(status(&server, "down.example")["no_check"], checks == 0);
    }
}

#[test]
fn peer_that_wants_everything_is_soon_fed_without_check() {
    let peer = OddPeer::start_slow(true, Duration::from_millis(2), |_, _, _| None);
    let server = feeding(&peer, "connections = 1");
    hand_in(&mut server.client(), 0..600, "misc.test");
    peer.wait_for(600);
    let checked = (0..600).map(|n| peer.count("CHECK", &super::id(n))).sum::<usize>();
    // As many as decide, and those in the window.
    assert!((100..300).contains(&checked), "{checked}");
    wait_for_status(&server, "down.example", |feed| feed["no_check"] == true);
}
