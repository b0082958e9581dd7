//! Requests to upstreams: in few round trips, with the commands that they support; and partial responses are
//! passed on before the rest arrives.

use super::fake::{Fake, Fault};
use super::{section, showing};
use crate::client::Client;
use crate::link::Link;
use crate::waiting::wait_until;
use std::time::Duration;

/// Returns a link on which a round trip is long enough to be distinguished from local delays.
fn slow_line(fake: &Fake) -> Link {
    Link::to(fake.address, Duration::from_millis(20))
}

fn listed(client: &mut Client, command: &str, code: &str) -> Vec<String> {
    assert!(client.ask(command).starts_with(code), "{command}");
    client.block()
}

#[test]
fn first_request_costs_one_more_round_trip_than_directly() {
    let fake = Fake::with("comp.a", 3, 500);
    for command in ["LIST ACTIVE", "GROUP comp.a", "HEAD <1.comp.a@fake.example>"] {
        let link = slow_line(&fake);
        let server = showing(&[section("fake", link.address(), "")]);
        let mut client = server.client();
        let trips = link.round_trips(|| assert!(client.ask(command).starts_with('2'), "{command}"));
        // Directly: the command. Through the cache MODE READER comes first, which must not be pipelined.
        assert_eq!(trips, 2, "{command}: {:?}", fake.take(""));
    }
}

#[test]
fn later_requests_cost_as_many_round_trips_as_directly() {
    let fake = Fake::with("comp.a", 3, 500);
    let link = slow_line(&fake);
    let own = section("fake", link.address(), "").replace("\"0 s\"", "\"1 h\"");
    let server = showing(&[own]);
    let mut client = server.client();
    assert_eq!(listed(&mut client, "LISTGROUP comp.a", "211 ").len(), 3);
    for command in ["XOVER 1-3", "ARTICLE 2", "XHDR Newsgroups 3", "LIST"] {
        let trips = link.round_trips(|| assert!(!listed(&mut client, command, "2").is_empty()));
        assert_eq!(trips, 1, "{command}: {:?}", fake.take(""));
    }
    // Several lists at a time: the second upstream is asked before the first has answered.
    let other = Fake::with("misc.a", 1, 500);
    let links = [&fake, &other].map(slow_line);
    let own = |at: usize, groups: &str| section(&format!("number {at}"), links[at].address(), groups);
    let server = showing(&[own(0, "groups = \"comp.*\""), own(1, "groups = \"misc.*\"")]);
    fake.hold(Some(0));
    let mut client = server.client();
    client.send("LIST ACTIVE\r\n");
    wait_until("the second upstream is asked", || !other.take("LIST").is_empty());
    fake.hold(None);
    assert!(client.line().starts_with("215 "));
    assert_eq!(client.block(), ["comp.a 3 1 y", "misc.a 1 1 y"]);
}

#[test]
fn upstream_gets_only_commands_it_supports() {
    const NEW: [&str; 5] = ["XOVER 2-3", "OVER 2-3", "OVER 1-1", "HDR Newsgroups 1-3", "HDR Path 1-3"];
    const OLD: [&str; 5] =
        ["XOVER 2-3", "XOVER 1-1", "HDR Newsgroups 1-3", "XHDR Newsgroups 1-3", "XHDR Path 1-3"];
    for (fault, expected) in [(Fault::LacksOld, &NEW[..]), (Fault::LacksNew, &OLD)] {
        let fake = Fake::with("comp.a", 3, 500);
        fake.fail(fault);
        let own = section("fake", fake.address, "").replace("\"0 s\"", "\"1 h\"");
        let server = showing(&[own]);
        let mut client = server.client();
        assert_eq!(listed(&mut client, "LISTGROUP comp.a", "211 "), ["1", "2", "3"], "{fault:?}");
        assert_eq!(listed(&mut client, "OVER 2-3", "224 ").len(), 2, "{fault:?}");
        assert_eq!(listed(&mut client, "OVER 1", "224 ").len(), 1, "{fault:?}");
        for name in ["Newsgroups", "Path"] {
            assert_eq!(listed(&mut client, &format!("HDR {name} 1-3"), "225 ").len(), 3, "{fault:?}");
        }
        // A command that it has refused once is not sent again.
        let mut asked = fake.take("");
        asked.retain(|command| command.contains("OVER ") || command.contains("HDR "));
        assert_eq!(asked, expected, "{fault:?}");
    }
    // A later group is requested by the command that was understood.
    let fake = Fake::with("comp.a", 3, 500);
    fake.put("comp.b", 7, 500);
    fake.fail(Fault::LacksNew);
    let server = showing(&[section("fake", fake.address, "")]);
    let mut client = server.client();
    for (group, numbers) in [("comp.a", &["1", "2", "3"][..]), ("comp.b", &["7"])] {
        assert_eq!(listed(&mut client, &format!("LISTGROUP {group}"), "211 "), numbers);
    }
    assert_eq!(fake.take("LISTGROUP"), ["LISTGROUP comp.a 1-3", "LISTGROUP comp.a", "LISTGROUP comp.b"]);
}

#[test]
fn list_is_passed_on_line_by_line_while_it_arrives() {
    let fake = Fake::start();
    (0..400).for_each(|at| fake.put(&format!("comp.g{at:03}"), 1, 100));
    let server = showing(&[section("fake", fake.address, "")]);
    for held in [1, 2, 300] {
        fake.hold(Some(held));
        let mut client = server.client();
        assert!(client.ask("LIST ACTIVE").starts_with("215 "));
        for at in 0..held {
            assert_eq!(client.line(), format!("comp.g{at:03} 1 1 y"));
        }
        fake.hold(None);
        assert_eq!(held + client.block().len(), 400);
    }
}

#[test]
fn interrupted_list_is_not_taken_as_complete() {
    let fake = Fake::start();
    (0..50).for_each(|at| fake.put(&format!("comp.g{at:03}"), 1, 100));
    let own =
        section("fake", fake.address, "").replace("answer_timeout = \"1 min\"", "answer_timeout = \"2 s\"");
    let server = showing(&[own]);
    let whole = listed(&mut server.client(), "LIST ACTIVE", "215 ");
    assert_eq!(whole.len(), 50);
    for fault in [Fault::BreaksOff, Fault::Stalls, Fault::EndlessLine] {
        fake.fail(fault);
        let mut client = server.client();
        // The received part is shown, and then the connection ends; if nothing was shown yet, there is no
        // list.
        let answer = client.ask("LIST ACTIVE");
        assert!(answer.starts_with("215 ") || fault == Fault::BreaksOff, "{fault:?}: {answer}");
        if !answer.starts_with("403 ") {
            let rest = client.rest();
            assert!(rest.starts_with("comp.g000 1 1 y\r\n"), "{fault:?}: {rest}");
            assert!(!rest.ends_with("\r\n.\r\n") && rest.len() < 10_000, "{fault:?}: {rest}");
        }
        // Afterwards the complete list is shown.
        fake.fail(Fault::Dead);
        let mut client = server.client();
        assert_eq!(listed(&mut client, "LIST ACTIVE", "215 "), whole, "{fault:?}");
        fake.take("");
        fake.fail(Fault::None);
        wait_until(format_args!("the list is fetched again after {fault:?}"), || {
            listed(&mut client, "LIST ACTIVE", "215 ") == whole && !fake.take("LIST").is_empty()
        });
    }
}
