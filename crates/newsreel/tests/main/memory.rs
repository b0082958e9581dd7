//! Memory for arriving articles: clients that hold it do not stop others, and every client gets a response.

use crate::client::{Client, article};
use crate::running::Server;
use crate::waiting::let_pass;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Address of the peer; the others are those of posters.
const PEER: [u8; 4] = [127, 0, 0, 1];
const SLOW: [u8; 4] = [127, 0, 0, 2];
const OTHER: [u8; 4] = [127, 0, 0, 3];

/// Starts the test site with the default `article_bytes_max`, for readers of the whole loopback network.
fn start(limits: &str) -> Server {
    Server::start_with(|text| {
        text.replace("from = [\"127.0.0.1\"]", "from = [\"127.0.0.0/8\"]")
            .replace("\"128 KiB\"", "\"4 MiB\"")
            .replace("32 MiB", "512 MiB")
            .replace("[limits]", &format!("[limits]\n{limits}"))
            // No timeouts, even on a slow machine.
            .replace("\"3 min\"", "\"1 h\"")
            .replace("\"1 min\"", "\"1 h\"")
    })
}

/// Returns a proto-article with this many octets of body.
fn proto(id: &str, octets: usize) -> String {
    let line = "x".repeat(62) + "\r\n";
    article(id, "misc.test", &line.repeat(octets / 64)).replacen("Path: peer.example!not-for-mail\r\n", "", 1)
}

fn post(client: &mut Client, id: &str, octets: usize) -> String {
    assert!(client.ask("POST").starts_with("340 "));
    client.send(proto(id, octets));
    client.line()
}

#[test]
fn slow_posters_do_not_stop_others() {
    const POSTERS: usize = 159;
    let server = start("receive_bytes_per_address_max = \"5 MiB\"");
    let begun = |n: usize| {
        let mut client = Client::greeted_from(SLOW, server.address);
        assert!(client.ask("POST").starts_with("340 "));
        let wire = proto(&format!("<slow{n}@x.example>"), 40_000);
        client.send(&wire[..20_000]);
        (client, wire)
    };
    let slow: Vec<_> = (0..POSTERS).map(begun).collect();
    let_pass(
        Duration::from_secs(6),
        "new clients are not the slowest, even on a machine that stalls for a moment",
    );
    // A peer, another address, and also their own, where the slowest give way.
    let mut peer = Client::greeted_from(PEER, server.address);
    for (n, octets) in [20_000, 100_000, 3_000_000].into_iter().enumerate() {
        let id = format!("<fed{n}@x.example>");
        peer.send(format!("TAKETHIS {id}\r\nPath: peer.example!x\r\n{}", proto(&id, octets)));
        assert_eq!(peer.line(), format!("239 {id}"));
    }
    for host in [OTHER, SLOW] {
        let mut client = Client::greeted_from(host, server.address);
        for octets in [20_000, 100_000, 3_000_000] {
            let id = format!("<posted.{}.{octets}@x.example>", host[3]);
            let answer = post(&mut client, &id, octets);
            assert!(answer.starts_with("240 "), "{octets} from {host:?}: {answer}");
        }
    }
    let mut taken = 0;
    for (mut client, wire) in slow {
        client.send(&wire[20_000..]);
        let answer = client.line();
        assert!(answer.starts_with("240 ") || answer.contains("try again later"), "{answer}");
        taken += usize::from(answer.starts_with("240 "));
        assert!(client.ask("DATE").starts_with("111 "));
    }
    assert!(taken < POSTERS, "nobody gave way");
}

/// Posts at once from one address: every post is accepted or deferred, and can be posted later.
fn all_are_answered(limits: &str, posts: usize, octets: usize) {
    let server = start(limits);
    let (taken, told) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // Shared, since a thousand copies would not fit.
    let body = ("x".repeat(62) + "\r\n").repeat(octets / 64);
    std::thread::scope(|scope| {
        for n in 0..posts {
            let (server, taken, told, body) = (&server, &taken, &told, &body);
            scope.spawn(move || {
                let mut client = Client::greeted_from(OTHER, server.address);
                let head = proto(&format!("<many{n}@x.example>"), 0);
                for attempt in 0..1000 {
                    let_pass(Duration::from_millis(50 * attempt.min(100)), "deferred posts come again later");
                    assert!(client.ask("POST").starts_with("340 "));
                    client.send(head.trim_end_matches(".\r\n"));
                    client.send(body);
                    client.send(".\r\n");
                    let answer = client.line();
                    if answer.starts_with("240 ") {
                        taken.fetch_add(1, Ordering::Relaxed);
                        return;
                    }
                    assert!(answer.starts_with("441 ") && answer.ends_with("try again later"), "{answer}");
                    told.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let (taken, told) = (taken.into_inner(), told.into_inner());
    assert_eq!(taken, posts, "told {told} times to come back");
}

#[test]
fn many_large_posts_at_once_are_all_answered() {
    all_are_answered("receive_bytes_per_address_max = \"5 MiB\"", 60, 1_000_000);
}

#[test]
#[ignore = "long: part of `make soak`"]
fn a_thousand_posts_of_four_megabytes_at_once_are_all_answered() {
    all_are_answered("", 1000, 4_000_000);
}

/// Sends an article of 3 MB in two parts, the second when both transfers have their first.
fn transfer(mut client: Client, opening: &str, wire: &str, both: &std::sync::Barrier) -> String {
    client.send(opening);
    if opening.starts_with("IHAVE") {
        assert!(client.line().starts_with("335 "));
    }
    client.send(&wire[..600_000]);
    both.wait();
    // Otherwise both transfers are accepted, and the test is repeated.
    let_pass(Duration::from_millis(100), "the server reads it");
    // A server that disconnects does not wait forever for the rest of the article.
    let _cut_off = client.try_send(&wire[600_000..]);
    client.line()
}

#[test]
fn competing_transfers_are_deferred() {
    // Room for both articles as they begin, but only for one as it ends.
    let server = start("receive_bytes_from_peers_max = \"6 MiB\"");
    let mut refused = 0;
    for attempt in 0..100 {
        let both = std::sync::Barrier::new(2);
        let answers = std::thread::scope(|scope| {
            let transfers = ["TAKETHIS", "IHAVE"].map(|command| {
                let (client, both) = (server.client(), &both);
                scope.spawn(move || {
                    let id = format!("<{command}.{attempt}@x.example>");
                    let wire = format!("Path: peer.example!x\r\n{}", proto(&id, 3_000_000));
                    transfer(client, &format!("{command} {id}\r\n"), &wire, both)
                })
            });
            transfers.map(|transfer| transfer.join().unwrap())
        });
        match [&answers[0][..4], &answers[1][..4]] {
            ["239 ", "235 "] => {}
            ["400 ", "235 "] | ["239 ", "436 "] => refused += 1,
            _ => panic!("{answers:?}"),
        }
        if refused > 0 {
            let told = if answers[0].starts_with("400 ") { &answers[0] } else { &answers[1] };
            assert_eq!(&told[4..], "Peers send too much at once, try again later");
            return;
        }
    }
    panic!("no transfer had to give way");
}

#[test]
fn articles_that_a_client_may_not_send_are_read_and_refused() {
    let server = start("");
    let mut client = Client::greeted_from(OTHER, server.address);
    let wire = proto("<stranger@x.example>", 3_000_000);
    client.send(format!("TAKETHIS <stranger@x.example>\r\n{wire}"));
    assert_eq!(client.line(), "502 You may not send articles here");
    assert!(client.ask("DATE").starts_with("111 "));
}
