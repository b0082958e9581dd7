//! Trouble with our disk: nothing is accepted, clients are deferred, and readers continue to read (guarantees
//! G1, G7).

use crate::client::{Client, article};
use crate::operated::with_tight_class;
use crate::running::Server;
use crate::waiting::{wait_for, wait_until};
use disk::{CrashKind, SimDisk};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

fn takethis(id: &str) -> String {
    format!("TAKETHIS {id}\r\n{}", article(id, "misc.test", "b"))
}

#[test]
fn full_disk_defers_everyone() {
    let disk = SimDisk::new();
    let mut server = Server::start_on(Arc::new(disk.clone()), |text| text);
    server.may_fail = true;
    let mut reader = server.client();
    let mut feed = server.client();
    feed.send(takethis("<1@x.example>"));
    assert_eq!(feed.line(), "239 <1@x.example>");

    disk.fail_at(disk.steps(), SimDisk::ENOSPC, true);
    // RFC 4644 section 2.5.2: 400 and the end of the connection. Nothing of the batch is answered 239.
    feed.send(takethis("<2@x.example>") + &takethis("<3@x.example>"));
    assert!(feed.line().starts_with("400 "));
    assert_eq!(feed.line_or_end(), None);
    let mut feed = server.client();
    assert!(ihave(&mut feed, "<2@x.example>").starts_with("436 "));
    assert!(feed.ask("POST").starts_with("340 "));
    feed.send(article("<4@x.example>", "misc.test", "b").replace("Path: peer.example!not-for-mail\r\n", ""));
    assert!(feed.line().starts_with("441 "));

    assert_eq!(reader.ask("GROUP misc.test"), "211 1 1 1 misc.test");
    assert!(reader.ask("ARTICLE 1").starts_with("220 1 <1@x.example>"));
    assert_eq!(reader.block().last().unwrap(), "b");
}

/// Returns the site's configuration, with its data in `dir`, and durability "always".
fn always(text: &str, dir: &std::path::Path) -> String {
    let data = format!("data = \"{}\"", dir.display());
    let lines = text.lines().map(|line| if line.starts_with("data = ") { &data } else { line });
    lines.collect::<Vec<_>>().join("\n").replace("\"process\"", "\"always\"")
}

/// Offers an article with IHAVE, and sends it if it is wanted; returns the last response.
fn ihave(feed: &mut Client, id: &str) -> String {
    let answer = feed.ask(&format!("IHAVE {id}"));
    if !answer.starts_with("335 ") {
        return answer;
    }
    feed.send(article(id, "misc.test", "b"));
    feed.line()
}

/// While the disk is full no article is requested, and an offer alone detects when there is room again.
#[test]
fn nothing_is_requested_while_the_disk_is_full() {
    let disk = SimDisk::new();
    let server = Server::start_on(Arc::new(disk.clone()), |text| text);
    let mut feed = server.client();
    feed.send(takethis("<first@x.example>"));
    assert_eq!(feed.line(), "239 <first@x.example>");
    assert_eq!(feed.ask("CHECK <asked@x.example>"), "238 <asked@x.example>");
    disk.fill_at(disk.steps());
    let full = (0..10_000).any(|n| !ihave(&mut feed, &format!("<full{n}@x.example>")).starts_with("235 "));
    assert!(full, "nothing met the full disk");
    for id in ["<asked@x.example>", "<new@x.example>"] {
        assert_eq!(feed.ask(&format!("CHECK {id}")), format!("431 {id}"));
    }
    assert_eq!(feed.ask("CHECK <first@x.example>"), "438 <first@x.example>");
    assert!(feed.ask("IHAVE <new@x.example>").starts_with("436 "));
    assert!(feed.ask("IHAVE <first@x.example>").starts_with("435 "));
    assert_eq!(feed.ask("CHECK nonsense"), "438 nonsense");
    disk.free();
    wait_for(|| feed.ask("CHECK <new@x.example>"), |answer| answer == "238 <new@x.example>");
    feed.send(takethis("<new@x.example>"));
    assert_eq!(feed.line(), "239 <new@x.example>");
}

#[test]
fn full_disk_with_room_again_needs_no_restart() {
    let disk = SimDisk::new();
    let server = Server::start_on(Arc::new(disk.clone()), |text| text);
    let mut feed = server.client();
    feed.send(takethis("<first@x.example>"));
    assert_eq!(feed.line(), "239 <first@x.example>");
    let mut taken = vec!["<first@x.example>".to_owned()];
    disk.fill_at(disk.steps());
    // Journal and history have room reserved; overview does not for long.
    let refused = (0..10_000).find(|n| {
        let id = format!("<full{n}@x.example>");
        let answer = ihave(&mut feed, &id);
        assert!(answer.starts_with("235 ") || answer.starts_with("436 "), "{answer}");
        let is_taken = answer.starts_with("235 ");
        taken.extend(is_taken.then_some(id));
        !is_taken
    });
    assert!(refused.is_some(), "nothing met the full disk");
    disk.free();
    wait_for(|| ihave(&mut feed, "<room@x.example>"), |answer| answer.starts_with("235 "));
    let mut reader = server.client();
    let count = taken.len() + 1;
    assert!(reader.ask("GROUP misc.test").starts_with(&format!("211 {count} 1 ")));
    for id in &taken {
        assert_eq!(reader.ask(&format!("STAT {id}")), format!("223 0 {id}"));
    }
}

#[test]
fn responses_follow_the_sync_with_durability_always() {
    let dir = tempfile::TempDir::new().unwrap();
    let configured = |text: String| always(&text, dir.path());
    let disk = SimDisk::new();
    let server = Server::start_on(Arc::new(disk.clone()), configured);
    let mut feed = server.client();
    for i in 1..=20 {
        let id = format!("<a{i}@x.example>");
        feed.send(takethis(&id));
        assert_eq!(feed.line(), format!("239 {id}"));
    }
    // A power failure loses everything that was not synced.
    let image = disk.image_after(CrashKind::Lost, 1).unwrap();
    drop(feed);
    drop(server);
    let server = Server::start_on(Arc::new(image), configured);
    let mut reader = server.client();
    assert!(reader.ask("GROUP misc.test").starts_with("211 20 1 "));
    for i in 1..=20 {
        assert_eq!(reader.ask(&format!("STAT <a{i}@x.example>")), format!("223 0 <a{i}@x.example>"));
    }
}

/// A peer that gets a duplicate response never sends the article again, so the article must survive a power
/// failure.
#[test]
fn duplicates_are_reported_after_the_sync_with_durability_always() {
    let dir = tempfile::TempDir::new().unwrap();
    let disk = SimDisk::new();
    let server = Server::start_on(Arc::new(disk.clone()), |text| always(&text, dir.path()));
    let (mut first, mut second, mut third) = (server.client(), server.client(), server.client());
    let id = "<w1@x.example>";
    disk.hold_syncs(true);
    first.send(takethis(id));
    // Readers see it before that.
    wait_for(|| second.ask(&format!("STAT {id}")), |answer| answer.starts_with("223 "));
    assert_eq!(second.ask(&format!("CHECK {id}")), format!("431 {id}"));
    assert!(second.ask(&format!("IHAVE {id}")).starts_with("436 "));
    third.send(takethis(id));
    first.answers_nothing_for(Duration::from_millis(200));
    third.answers_nothing_for(Duration::from_millis(200));
    disk.hold_syncs(false);
    assert_eq!(first.line(), format!("239 {id}"));
    assert!(third.line().starts_with(&format!("439 {id}")));
    assert_eq!(second.ask(&format!("CHECK {id}")), format!("438 {id}"));
    assert!(second.ask(&format!("IHAVE {id}")).starts_with("435 "));
}

/// Duplicate responses to posters, and to rnews about a batch, must remain true after a power failure.
#[test]
fn duplicate_posts_and_batches_wait_for_the_sync_with_durability_always() {
    let dir = tempfile::TempDir::new().unwrap();
    let disk = SimDisk::new();
    let server = Server::start_on(Arc::new(disk.clone()), |text| always(&text, dir.path()));
    let mut peer = server.client();
    let mut poster = server.client();
    let id = "<d1@x.example>";
    let post = article(id, "misc.test", "b").replace("Path: peer.example!not-for-mail\r\n", "");
    disk.hold_syncs(true);
    peer.send(takethis(id));
    let mut reader = server.client();
    wait_for(|| reader.ask(&format!("STAT {id}")), |answer| answer.starts_with("223 "));
    // The same article, posted and in a batch: both are known by a row that is not durable.
    assert!(poster.ask("POST").starts_with("340 "));
    poster.send(post);
    let batch = |ids: &[&str]| {
        let wires = ids.iter().map(|id| article(id, "misc.test", "b"));
        let wires: Vec<String> = wires.map(|wire| wire.strip_suffix(".\r\n").unwrap().to_owned()).collect();
        let sizes = [wires.concat().len(), wires.len()].into_iter().chain(wires.iter().map(String::len));
        let sizes: Vec<u8> = sizes.flat_map(|size| u32::try_from(size).unwrap().to_be_bytes()).collect();
        [sizes, wires.concat().into_bytes(), vec![0; 8]].concat()
    };
    let [known, new] = [batch(&[id]), batch(&["<d2@x.example>"])].map(|frames| {
        let mut socket = UnixStream::connect(dir.path().join("control")).unwrap();
        socket.write_all(b"{\"do\":\"rnews\"}\n").unwrap();
        socket.write_all(&frames).unwrap();
        socket
    });
    let mut batches = [known, new].map(BufReader::new);
    for (batch, disposition) in batches.iter_mut().zip(["duplicate", "accepted"]) {
        let mut line = String::new();
        batch.read_line(&mut line).unwrap();
        assert!(line.contains(disposition), "{line}");
    }
    poster.answers_nothing_for(Duration::from_millis(200));
    for batch in &mut batches {
        batch.get_ref().set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let early = batch.fill_buf();
        assert!(early.is_err(), "done before the sync: {:?}", early.map(String::from_utf8_lossy));
        batch.get_ref().set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    }
    disk.hold_syncs(false);
    assert_eq!(peer.line(), format!("239 {id}"));
    assert!(poster.line().starts_with("441 "));
    for batch in &mut batches {
        let mut line = String::new();
        batch.read_line(&mut line).unwrap();
        assert!(line.contains("done") && line.contains("true"), "{line}");
    }
    // A power failure loses what was not synced, and now everything is synced.
    let image = disk.image_after(CrashKind::Lost, 1).unwrap();
    drop((peer, poster, reader, batches));
    drop(server);
    let server = Server::start_on(Arc::new(image), |text| always(&text, dir.path()));
    let mut reader = server.client();
    for id in [id, "<d2@x.example>"] {
        assert!(reader.ask(&format!("STAT {id}")).starts_with("223 "), "{id}");
    }
}

/// Feeds articles until one is deferred for lack of room.
struct Filler {
    feed: Client,
    offered: usize,
}

impl Filler {
    /// Fills the disk with articles of a group; returns the Message-IDs of those that were accepted, more
    /// than ten. After room was made this may have to wait for a checkpoint.
    fn fill(&mut self, group: &str) -> Vec<String> {
        let body = "a line of an article that fills the disk\r\n".repeat(500);
        let mut accepted = Vec::new();
        wait_until("the disk takes articles and is full again", || {
            loop {
                let id = format!("<{}@x.example>", self.offered);
                self.offered += 1;
                assert!(self.feed.ask(&format!("IHAVE {id}")).starts_with("335 "));
                self.feed.send(article(&id, group, &body));
                let answer = self.feed.line();
                match answer.get(..4) {
                    Some("235 ") => accepted.push(id),
                    Some("436 ") => return accepted.len() > 10,
                    _ => panic!("{answer}"),
                }
            }
        });
        accepted
    }
}

#[test]
fn operators_can_free_a_full_disk() {
    let disk = SimDisk::new();
    let server = Server::start_on(Arc::new(disk.clone()), |text| {
        let class = "name = \"text\"\nmethod = \"appendonly\"\nfile_size = \"64 KiB\"\n";
        let text = text.replace("name = \"text\"\nbuffers = [\"text0\"]\n", class);
        text + "\n[[expire]]\ngroups = \"local.empty\"\nkeep = \"1 ms\"\n"
    });
    let mut filler = Filler { feed: server.client(), offered: 0 };
    // The first article makes history reserve its room.
    assert!(filler.feed.ask("IHAVE <first@x.example>").starts_with("335 "));
    filler.feed.send(article("<first@x.example>", "local.closed", "b"));
    assert!(filler.feed.line().starts_with("235 "));
    disk.leave_bytes(1 << 20);
    let ask = |request: serde_json::Value| {
        let (replies, ok) = server.control(&request);
        let is_progress = |reply: &serde_json::Value| reply.get("progress").is_some();
        let replies: Vec<_> = replies.into_iter().filter(|reply| !is_progress(reply)).collect();
        assert!(ok && replies.len() == 1, "{replies:?}");
        replies[0].clone()
    };

    let all = filler.fill("local.empty").len();
    let dry = ask(serde_json::json!({ "do": "expire", "dry_run": true }));
    let expected = format!("{all} of {} articles would be expired, with {all} article numbers and ", all + 1);
    assert!(dry["text"].as_str().unwrap().starts_with(&expected), "{dry}");
    let done = ask(serde_json::json!({ "do": "expire", "dry_run": false }));
    let expected = format!("{all} of {} articles expired, with {all} article numbers and ", all + 1);
    assert!(done["text"].as_str().unwrap().starts_with(&expected), "{done}");

    let all = filler.fill("misc.test").len();
    let purged = ask(serde_json::json!({ "do": "purge", "groups": "misc.test", "dry_run": false }));
    assert_eq!(purged["purged"]["articles"], all, "{purged}");

    for id in filler.fill("misc.test") {
        let cancelled = ask(serde_json::json!({ "do": "cancel", "message_ids": [id], "dry_run": false }));
        assert_eq!(cancelled["text"], format!("{id} cancelled"));
    }
    filler.fill("misc.test");
}

/// Returns an article for a group, by TAKETHIS.
fn takethis_in(group: &str, id: &str) -> String {
    let body = "a line of an article that fills a class\r\n".repeat(500);
    format!("TAKETHIS {id}\r\n{}", article(id, group, &body))
}

#[test]
fn full_class_does_not_end_the_connection_of_a_peer() {
    let server = Server::start_with(|text| with_tight_class(&text, "local.empty"));
    let mut feed = server.client();
    let mut accepted = 0;
    let refused = loop {
        let id = format!("<{accepted}@x.example>");
        feed.send(takethis_in("local.empty", &id));
        match feed.line() {
            answer if answer == format!("239 {id}") => accepted += 1,
            answer => {
                assert_eq!(answer, format!("431 {id}"));
                break id;
            }
        }
        assert!(accepted < 100);
    };
    assert!(accepted > 0);
    // Articles sent with it get their own responses.
    let ids = ["<a@x.example>", "<b@x.example>", "<c@x.example>"];
    let groups = ["misc.test", "local.empty", "misc.test"];
    feed.send(ids.iter().zip(groups).map(|(id, group)| takethis_in(group, id)).collect::<String>());
    assert_eq!(ids.map(|_| feed.line()), ["239 <a@x.example>", "431 <b@x.example>", "239 <c@x.example>"]);
    // The article is not requested again at once, from this peer or another one.
    let mut other = server.client();
    for feed in [&mut feed, &mut other] {
        assert_eq!(feed.ask(&format!("CHECK {refused}")), format!("431 {refused}"));
        assert!(feed.ask(&format!("IHAVE {refused}")).starts_with("436 "));
        assert_eq!(feed.ask("CHECK <a@x.example>"), "438 <a@x.example>");
    }
    assert!(feed.ask("IHAVE <d@x.example>").starts_with("335 "));
    feed.send(article("<d@x.example>", "local.empty", &"a long text\r\n".repeat(5_000)));
    assert!(feed.line().starts_with("436 "));
    assert!(other.ask("IHAVE <d@x.example>").starts_with("436 "));
}
