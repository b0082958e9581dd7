//! What one connection asks for does not keep others waiting.

use crate::client::Client;
use crate::posting::{headers, post};
use crate::running::Server;
use std::sync::atomic::{AtomicBool, Ordering};

/// As many clients as there are threads to serve them send `commands`; meanwhile others are served.
fn others_are_served_during(server: &Server, prepare: impl Fn(&mut Client), commands: &str) {
    let busy = std::thread::available_parallelism().map_or(2, |n| n.get());
    let done = AtomicBool::new(false);
    let mut others: Vec<Client> = (0..4).map(|_| server.client()).collect();
    std::thread::scope(|scope| {
        for _ in 0..busy {
            let mut client = server.client();
            prepare(&mut client);
            client.send(commands);
            client.send("QUIT\r\n");
            let done = &done;
            scope.spawn(move || {
                let answers = client.rest();
                done.store(true, Ordering::Release);
                assert!(answers.ends_with("\r\n"), "{:?}", answers.lines().next_back());
                assert!(answers.lines().next_back().is_some_and(|last| last.starts_with("205 ")));
            });
        }
        others.iter_mut().for_each(|other| other.send("DATE\r\n"));
        assert!(server.client().ask("DATE").starts_with("111 "));
        assert!(others.iter_mut().all(|other| other.line().starts_with("111 ")));
        assert!(!done.load(Ordering::Acquire), "the others had to wait");
    });
}

#[test]
fn a_compressed_pipeline_holds_up_nobody() {
    let server = Server::start();
    others_are_served_during(&server, Client::compress, &"LIST ACTIVE\r\n".repeat(100_000));
}

#[test]
fn a_search_that_finds_nothing_holds_up_nobody() {
    let server = Server::start();
    let mut client = server.client();
    for n in 0..40 {
        let long = format!("Summary: {}\r\n", format!("{}\r\n ", "a".repeat(900)).repeat(4) + "a");
        assert!(post(&mut client, &headers("misc.test", &long), &n.to_string()).starts_with("240 "));
    }
    let search = format!("XPAT Summary 1- *{}d*\r\n", "[a-c]".repeat(20));
    let select = |client: &mut Client| assert!(client.ask("GROUP misc.test").starts_with("211 "));
    others_are_served_during(&server, select, &search.repeat(500));
}
