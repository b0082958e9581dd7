//! Expensive commands of one connection do not delay others.

use crate::client::Client;
use crate::posting::{headers, post};
use crate::running::{AtEnd, Server};
use crate::waiting::wait_for;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Sends `count` commands from as many clients as there are server threads; meanwhile others must be served.
fn others_are_served_during(server: &Server, prepare: impl Fn(&mut Client), commands: &str, count: usize) {
    let busy = std::thread::available_parallelism().map_or(2, |n| n.get());
    let (begun, served) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut others: Vec<Client> = (0..4).map(|_| server.client()).collect();
    std::thread::scope(|scope| {
        // Also if this thread fails, as the scope waits for the others.
        let _end = AtEnd(|| served.store(true, Ordering::Release));
        for _ in 0..busy {
            let mut client = server.client();
            prepare(&mut client);
            let (begun, served) = (&begun, &served);
            scope.spawn(move || {
                client.send(commands);
                let mut is_first = true;
                while !served.load(Ordering::Acquire) {
                    // More commands arrive before all are answered.
                    client.send(commands);
                    for _ in 0..count {
                        assert!(client.line().starts_with('2'));
                        client.block();
                        begun.fetch_add(usize::from(std::mem::take(&mut is_first)), Ordering::AcqRel);
                    }
                }
                client.send("QUIT\r\n");
                let answers = client.rest();
                assert!(answers.ends_with("\r\n"), "{:?}", answers.lines().next_back());
                assert!(answers.lines().next_back().is_some_and(|last| last.starts_with("205 ")));
            });
        }
        wait_for(|| begun.load(Ordering::Acquire), |begun| *begun >= busy);
        // Without fair scheduling these would wait forever.
        others.iter_mut().for_each(|other| other.send("DATE\r\n"));
        assert!(server.client().ask("DATE").starts_with("111 "));
        assert!(others.iter_mut().all(|other| other.line().starts_with("111 ")));
    });
}

#[test]
fn compressed_pipeline_does_not_delay_others() {
    let server = Server::start();
    others_are_served_during(&server, Client::compress, &"LIST ACTIVE\r\n".repeat(2_000), 2_000);
}

#[test]
fn search_without_hits_does_not_delay_others() {
    let server = Server::start();
    let mut client = server.client();
    for n in 0..40 {
        let long = format!("Summary: {}\r\n", format!("{}\r\n ", "a".repeat(900)).repeat(4) + "a");
        assert!(post(&mut client, &headers("misc.test", &long), &n.to_string()).starts_with("240 "));
    }
    let search = format!("XPAT Summary 1- *{}d*\r\n", "[a-c]".repeat(20));
    let select = |client: &mut Client| assert!(client.ask("GROUP misc.test").starts_with("211 "));
    others_are_served_during(&server, select, &search.repeat(20), 20);
}
