//! Readers served from other sources than the local spool: news in memory, two sources side by side, and one
//! that is unavailable or answers only piece by piece.
//!
//! Articles arrive in the server's spool as usual, and the sources copy them from there.

mod memory;

use crate::client::{Client, article};
use crate::running::Server;
use crate::transcripts::play_all;
use disk::{RealDisk, SimDisk};
use memory::{GROUPS_AT_ONCE, Gate, Memory};
use spool::Spool;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use upstreams::{LocalSpool, NewsSource, SideBySide};

/// Octets of the body of a large article.
const LARGE_BYTES: usize = 750_000;
const UNAVAILABLE: &str = "403 Not available now, try again later";

fn is_local(group: &[u8]) -> bool {
    group.starts_with(b"local.")
}

/// Starts the test site with another source for readers.
fn start<S: NewsSource>(source: impl FnOnce(&Arc<Spool>) -> S) -> Server {
    Server::start_from(Arc::new(RealDisk::new()), |text| text, source)
}

/// Starts the test site with large articles, read from memory through a closed gate.
fn start_gated() -> (Server, Arc<Gate>) {
    let gate = Arc::<Gate>::default();
    let change = |text: String| text.replace("\"128 KiB\"", "\"4 MiB\"");
    let source = |spool: &Arc<Spool>| Memory::of(spool, |_| true).gated(&gate);
    let server = Server::start_from(Arc::new(RealDisk::new()), change, source);
    (server, gate)
}

fn file(client: &mut Client, id: &str, body: &str) {
    client.send(format!("TAKETHIS {id}\r\n{}", article(id, "misc.test", body)));
    assert_eq!(client.line(), format!("239 {id}"));
}

#[test]
fn memory_source_passes_the_transcripts() {
    play_all(|| start(|spool| Memory::of(spool, |_| true)));
}

#[test]
fn two_sources_side_by_side_pass_the_transcripts() {
    play_all(|| {
        start(|spool| SideBySide {
            first: Memory::of(spool, is_local),
            second: Memory::of(spool, |group| !is_local(group)),
            split: is_local as fn(&[u8]) -> bool,
        })
    });
}

#[test]
fn memory_beside_the_local_spool_passes_the_transcripts() {
    play_all(|| {
        start(|spool| SideBySide {
            first: Memory::of(spool, is_local),
            second: LocalSpool::new(spool.clone()),
            split: is_local as fn(&[u8]) -> bool,
        })
    });
}

#[test]
fn unavailable_source_gives_403_and_keeps_the_connection() {
    let (server, gate) = start_gated();
    let mut client = server.client();
    file(&mut client, "<a@x.example>", "body");
    assert_eq!(client.ask("GROUP misc.test"), "211 1 1 1 misc.test");
    gate.closed.store(true, Ordering::SeqCst);
    for command in [
        "GROUP local.empty",
        "LISTGROUP",
        "STAT 1",
        "STAT <a@x.example>",
        "ARTICLE 1",
        "HEAD",
        "BODY <a@x.example>",
        "NEXT",
        "LAST",
        "OVER 1-",
        "XOVER",
        "OVER <a@x.example>",
        "HDR Subject 1-",
        "HDR Organization 1-",
        "HDR :lines <a@x.example>",
        "XPAT Subject 1- *",
        "XROVER 1-",
        "XPATH <a@x.example>",
        "XGTITLE",
        "XGTITLE *",
        "LIST",
        "LIST ACTIVE misc.*",
        "LIST ACTIVE.MODTIME 0",
        "LIST ACTIVE.TIMES",
        "LIST COUNTS",
        "LIST NEWSGROUPS",
        "LIST SUBSCRIPTIONS",
        "NEWGROUPS 19990101 000000 GMT",
        "NEWNEWS * 19990101 000000 GMT",
    ] {
        assert_eq!(client.ask(command), UNAVAILABLE, "{command}");
    }
    // Commands that do not need the source are answered, articles still arrive, and the session's state is
    // kept.
    assert!(client.ask("DATE").starts_with("111 "));
    file(&mut client, "<b@x.example>", "body");
    gate.closed.store(false, Ordering::SeqCst);
    assert_eq!(client.ask("STAT"), "223 1 <a@x.example>");
    assert_eq!(client.ask("NEXT"), "223 2 <b@x.example>");
}

#[test]
fn article_is_sent_while_it_arrives() {
    let (server, gate) = start_gated();
    let mut client = server.client();
    let body = ("x".repeat(62) + "\r\n").repeat(LARGE_BYTES / 64);
    file(&mut client, "<large@x.example>", &body);
    for (command, code) in [("ARTICLE", "220"), ("BODY", "222")] {
        assert_eq!(
            client.ask(&format!("{command} <large@x.example>")),
            format!("{code} 0 <large@x.example>")
        );
        // The head and the first piece are sent, though the source has no more yet.
        if command == "ARTICLE" {
            assert!(std::iter::from_fn(|| Some(client.line())).any(|line| line.is_empty()));
        }
        let mut lines = 0;
        while lines < 100 {
            assert_eq!(client.line(), "x".repeat(62));
            lines += 1;
        }
        gate.pieces.add_permits(LARGE_BYTES);
        lines += client.block().iter().filter(|line| line.len() == 62).count();
        assert_eq!(lines, LARGE_BYTES / 64, "{command}");
        gate.pieces.forget_permits(usize::MAX);
    }
    // Commands that need only the head do not wait for the body; those that count its octets do.
    assert!(client.ask("HEAD <large@x.example>").starts_with("221 "));
    assert!(client.block().iter().any(|line| line == "Subject: test <large@x.example>"));
    assert!(client.ask("HDR Subject <large@x.example>").starts_with("225 "));
    assert_eq!(client.block(), ["0 test <large@x.example>"]);
    gate.pieces.add_permits(LARGE_BYTES);
    assert!(client.ask("HDR :lines <large@x.example>").starts_with("225 "));
    assert_eq!(client.block(), [format!("0 {}", LARGE_BYTES / 64 + 1)]);
}

#[test]
fn list_is_sent_while_it_arrives() {
    let (server, gate) = start_gated();
    let mut client = server.client();
    assert!(client.ask("LIST").starts_with("215 "));
    let first: Vec<_> = (0..GROUPS_AT_ONCE).map(|_| client.line()).collect();
    assert_eq!(first[0], "alias.test 0 1 =misc.test");
    gate.pieces.add_permits(1_000);
    assert_eq!(first.len() + client.block().len(), crate::test_site::GROUPS.len());
}

#[test]
fn interrupted_answer_ends_the_connection_without_a_final_dot() {
    let (server, gate) = start_gated();
    let mut client = server.client();
    file(&mut client, "<large@x.example>", &("x".repeat(62) + "\r\n").repeat(LARGE_BYTES / 64));
    for command in ["ARTICLE <large@x.example>", "LIST ACTIVE"] {
        let mut client = server.client();
        assert!(client.ask(command).starts_with('2'), "{command}");
        assert!(client.line().len() > 3);
        gate.closed.store(true, Ordering::SeqCst);
        gate.pieces.add_permits(1);
        let rest = client.rest();
        assert!(!rest.is_empty() && !rest.contains("\r\n.\r\n"), "{command}: {rest}");
        gate.closed.store(false, Ordering::SeqCst);
    }
    // Other connections are not disturbed.
    assert_eq!(client.ask("GROUP misc.test"), "211 1 1 1 misc.test");
}

#[test]
fn pipelined_articles_that_are_not_in_memory_are_waited_for_together() {
    let disk = SimDisk::new();
    let server = Server::start_on(Arc::new(disk.clone()), |text| text);
    let mut client = server.client();
    let body = "A line of an article that fills most of a page.\r\n".repeat(60);
    let ids: Vec<String> = (0..20).map(|n| format!("<{n}@cold.example>")).collect();
    ids.iter().for_each(|id| file(&mut client, id, &body));
    let mut waits = |commands: String| {
        disk.take_from_memory();
        client.send(commands);
        for id in &ids {
            assert_eq!(client.line(), format!("220 0 {id}"));
            assert!(client.block().len() > 60);
        }
        disk.waits()
    };
    // The first, and all others together.
    let by_id = waits(ids.iter().map(|id| format!("ARTICLE {id}\r\n")).collect());
    assert_eq!(by_id, 2);
}
