//! Keys of `[peer.send]` for connections, and for where a feed begins and what it skips.

use super::recorder::{Behaviour, Recorder};
use super::{hand_in, id, section, status, wait_for_status};
use crate::layers::Authority;
use crate::running::Server;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// A newsreel that is fed: it has a certificate for `localhost`, and a user.
struct Lower {
    server: Server,
    dir: TempDir,
}

impl Lower {
    /// Starts it; `keys` are those of its only peer.
    fn start(keys: &str) -> Self {
        let (dir, authority) = (TempDir::new().unwrap(), Authority::new());
        let file = |name: &str| dir.path().join(name);
        authority.write(&file("ca.crt"));
        authority.sign("localhost").write(&file("news.crt"), &file("news.key"));
        Authority::new().write(&file("other.crt"));
        let (certificate, key) = (file("news.crt"), file("news.key"));
        let tls = format!("\n[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n\n[limits]");
        let server = Server::start_with(|text| {
            text.replace("\n[limits]", &tls)
                .replace("[site]", "[site]\ntls_listen = [\"127.0.0.1:0\"]")
                .replace("\"site.example\"", "\"lower.example\"")
                .replace("name = \"peer.example\"\naddresses = [\"127.0.0.1\"]", keys)
        });
        assert!(server.operate(&["user", "fred", "secret", "of", "his"]));
        Self { server, dir }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a server that feeds it, at one of its ports.
    fn fed(&self, port: u16, keys: &str) -> Server {
        let section = format!(
            "\n[[peer]]\nname = \"lower.example\"\n[peer.send]\nto = \"localhost:{port}\"\n\
             retry_first = \"10ms\"\nretry_longest = \"100ms\"\n{keys}\n"
        );
        Server::start_with(|text| text + &section)
    }

    fn plain(&self) -> u16 {
        self.server.address.port()
    }

    fn encrypted(&self) -> u16 {
        self.server.tls_address.unwrap().port()
    }
}

/// Feeds one article, which must be accepted.
fn it_is_taken(server: &Server, number: usize) {
    hand_in(&mut server.client(), number..number + 1, "misc.test");
    wait_for_status(server, "lower.example", |feed| {
        feed["accepted"] == 1 && feed["lag_articles"] == 0 && feed["last_error"].is_null()
    });
}

/// Feeds one article, which must fail with this error.
fn it_fails(server: &Server, number: usize, error: &str) {
    hand_in(&mut server.client(), number..number + 1, "misc.test");
    wait_for_status(server, "lower.example", |feed| {
        feed["last_error"].as_str().is_some_and(|last| last.contains(error))
    });
    let feed = status(server, "lower.example");
    // The article is still to be offered, or was set aside.
    let waits = ["lag_articles", "waiting"].into_iter().filter_map(|key| feed[key].as_u64()).sum::<u64>();
    assert_eq!((waits, &feed["accepted"]), (1, &0.into()), "{feed}");
}

#[test]
fn tls_is_used_as_configured_with_a_verified_certificate() {
    let lower = Lower::start("name = \"upper.example\"\naddresses = [\"127.0.0.1\"]\ntls = \"require\"");
    it_fails(&lower.fed(lower.plain(), ""), 0, "483");
    let ways = [("starttls", lower.plain()), ("implicit", lower.encrypted())];
    for (number, (tls, port)) in ways.into_iter().enumerate() {
        let keys = |ca: &str| format!("tls = \"{tls}\"\ntls_ca = {:?}", lower.file(ca));
        it_is_taken(&lower.fed(port, &keys("ca.crt")), 10 + number);
        it_fails(&lower.fed(port, &keys("other.crt")), 20 + number, "TLS failed");
        let unverified = format!("{}\ntls_verify = false", keys("other.crt"));
        it_is_taken(&lower.fed(port, &unverified), 30 + number);
    }
}

#[test]
fn feed_logs_in_and_rereads_the_password_for_each_connection() {
    let lower = Lower::start(
        "name = \"upper.example\"\naddresses = [\"127.0.0.1\"]\nuser = \"fred\"\ntls = \"require\"",
    );
    let password = lower.file("password");
    fs::write(&password, "something else\n").unwrap();
    let tls = format!("tls = \"implicit\"\ntls_ca = {:?}", lower.file("ca.crt"));
    it_fails(&lower.fed(lower.encrypted(), &tls), 0, "480");
    let server =
        lower.fed(lower.encrypted(), &format!("{tls}\nuser = \"fred\"\npassword_file = {password:?}"));
    it_fails(&server, 1, "481");
    fs::write(&password, "secret of his\n").unwrap();
    wait_for_status(&server, "lower.example", |feed| feed["accepted"] == 1 && feed["last_error"].is_null());
}

/// Each key between two newsreels.
#[test]
fn compress_works_alone_and_within_tls() {
    let lower = Lower::start("name = \"upper.example\"\naddresses = [\"127.0.0.1\"]");
    let compressed = || lower.server.status()["compressed"].clone();
    for (number, keys, expected) in [
        (0, "", 0),
        (1, "compress = true", 1),
        (2, "tls = \"starttls\"\ntls_verify = false\ncompress = true", 1),
    ] {
        let server = lower.fed(lower.plain(), keys);
        it_is_taken(&server, number);
        // The connection is still open.
        assert_eq!(compressed(), expected, "{keys}");
        drop(server);
        lower.server.wait_for_connections(0);
    }
    // A peer without compression is fed uncompressed.
    let recorder = Recorder::start(Behaviour::default());
    let server = Server::start_with(|text| text + &section("down.example", &recorder, "compress = true"));
    hand_in(&mut server.client(), 0..1, "misc.test");
    recorder.wait_for(1);
}

#[test]
fn bind_sets_the_address_that_the_peer_sees() {
    let lower = Lower::start("name = \"upper.example\"\naddresses = [\"127.86.16.1\"]");
    it_fails(&lower.fed(lower.plain(), "bind = \"127.86.16.2\""), 0, "");
    it_is_taken(&lower.fed(lower.plain(), "bind = \"127.86.16.1\""), 1);
}

#[test]
fn first_address_that_answers_is_used() {
    let [first, second] = [0, 1].map(|_| Recorder::start(Behaviour::default()));
    let to = format!("to = [\"127.0.0.1:1\", \"{}\", \"{}\"]", first.address, second.address);
    let section = section("down.example", &first, "").replace(&format!("to = \"{}\"", first.address), &to);
    let server = Server::start_with(|text| text + &section);
    let mut client = server.client();
    hand_in(&mut client, 0..3, "misc.test");
    first.wait_for(3);
    // The peer ends its connections, and accepts no more.
    first.set_down(true);
    hand_in(&mut client, 3..6, "misc.test");
    second.wait_for(3);
    assert_eq!(second.seen(|seen| seen.accepted.clone()), (3..6).map(id).collect::<Vec<_>>());
    assert_eq!(first.seen(|seen| seen.accepted.len()), 3);
}

#[test]
fn backlog_beyond_the_limit_is_skipped_and_counted() {
    let recorder = Recorder::start(Behaviour::default());
    recorder.set_down(true);
    let section = section("down.example", &recorder, "backlog_max_bytes = \"64 KiB\"");
    let server = Server::start_with(|text| text + &section);
    const ARTICLES: usize = 1_000;
    hand_in(&mut server.client(), 0..ARTICLES, "misc.test");
    wait_for_status(&server, "down.example", |feed| feed["lag_articles"] == ARTICLES);
    let lag_bytes = status(&server, "down.example")["lag_bytes"].as_u64().unwrap();
    assert!(lag_bytes > 100_000, "{lag_bytes}");
    recorder.set_down(false);
    wait_for_status(&server, "down.example", |feed| feed["lag_articles"] == 0);
    let feed = status(&server, "down.example");
    let (accepted, missed) = (feed["accepted"].as_u64().unwrap(), feed["missed"].as_u64().unwrap());
    assert_eq!(accepted + missed, ARTICLES as u64, "{feed}");
    // By their share of the journal, approximately.
    let expected = ARTICLES as u64 * 65_536 / lag_bytes;
    assert!(accepted.abs_diff(expected) <= expected / 5, "{accepted} of {expected}");
    // The newest ones.
    let first = ARTICLES - accepted as usize;
    assert_eq!(recorder.seen(|seen| seen.accepted.clone()), (first..ARTICLES).map(id).collect::<Vec<_>>());
}

#[test]
fn new_feed_begins_at_its_date() {
    let server = Server::start();
    hand_in(&mut server.client(), 0..5, "misc.test");
    let recorders = [0, 1].map(|_| Recorder::start(Behaviour::default()));
    let [past, future] = &recorders;
    let sections = section("past.example", past, "from = \"1993-04-15\"")
        + &section("future.example", future, "from = \"2093-04-15\"");
    server.reload(|text| text + &sections).unwrap();
    past.wait_for(5);
    wait_for_status(&server, "future.example", |feed| feed["lag_articles"] == 0);
    assert_eq!(future.seen(|seen| seen.attempts.len()), 0);
}
