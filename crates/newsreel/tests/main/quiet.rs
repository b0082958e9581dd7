//! Quiet connections: input in two TCP segments after a long silence is accepted, through every layer.
//!
//! Source: RFC 3977 section 3.1.

use crate::client::{Client, article};
use crate::layers::settings;
use crate::tls::Site;
use crate::waiting::let_pass;
use std::time::{Duration, Instant};

/// The site's `command_timeout`, within which TLS must be negotiated even on a machine that stalls for
/// seconds.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer than that.
const SILENCE: Duration = Duration::from_millis(10_300);
/// Between two segments.
const GAP: Duration = Duration::from_millis(100);

/// Waits longer than `command_timeout`, then sends `text` in two segments. Returns false if this machine was
/// so slow that sending took too long.
fn send_after_silence(client: &mut Client, text: &str) -> bool {
    let_pass(SILENCE, "the client is silent for longer than `command_timeout`");
    let (first, second) = text.split_at(text.len() / 2);
    let begun = Instant::now();
    // On a connection that was cut off the next line is missing.
    let _cut_off = client.try_send(first.as_bytes());
    let_pass(GAP, "the two segments arrive separately");
    let _cut_off = client.try_send(second.as_bytes());
    begun.elapsed() < COMMAND_TIMEOUT / 2
}

/// Text sent in this way with its expected response, after `opening` was sent and answered.
struct Story {
    opening: (&'static str, &'static str),
    text: String,
    answer: &'static str,
}

fn stories(name: &str) -> Vec<Story> {
    let of = |way: &str| article(&format!("<{way}.{name}@x.example>"), "misc.test", "a body");
    let story = |opening, text, answer| Story { opening, text, answer };
    vec![
        story(("DATE\r\n", "111 "), "GROUP misc.test\r\n".into(), "211 "),
        story(
            ("MODE STREAM\r\n", "203 "),
            format!("TAKETHIS <takethis.{name}@x.example>\r\n{}", of("takethis")),
            "239 ",
        ),
        story(
            ("POST\r\n", "340 "),
            of("post").replacen("Path: peer.example!not-for-mail\r\n", "", 1),
            "240 ",
        ),
    ]
}

/// Opens a transfer that names the article, and completes it.
fn ihave(name: &str, attempt: u32, client: &mut Client) -> bool {
    let id = format!("<ihave{attempt}.{name}@x.example>");
    assert!(client.ask(&format!("IHAVE {id}")).starts_with("335 "));
    let quick = send_after_silence(client, &article(&id, "misc.test", "a body"));
    let answer = client.line_or_end();
    if quick {
        assert!(answer.as_ref().is_some_and(|line| line.starts_with("235 ")), "{name} IHAVE: {answer:?}");
    }
    quick
}

fn played(name: &str, story: &Story, attempt: u32, client: &mut Client) -> bool {
    client.send(story.opening.0);
    assert!(client.line().starts_with(story.opening.1));
    let text = story.text.replace('@', &format!(".{attempt}@"));
    let text = text.replace(&format!("tester.{attempt}@"), "tester@");
    let quick = send_after_silence(client, &text);
    let answer = client.line_or_end();
    if quick {
        let opening = story.opening.0;
        assert!(
            answer.as_ref().is_some_and(|line| line.starts_with(story.answer)),
            "{name} after {opening:?}: {answer:?}"
        );
    }
    quick
}

/// Repeats an attempt for which the machine was too slow.
fn until_quick(mut attempt: impl FnMut(u32) -> bool) {
    assert!((0..20).any(&mut attempt), "this machine takes seconds for {GAP:?}");
}

#[test]
fn input_after_a_long_silence_may_come_in_two_segments() {
    let site = Site::start_with("", |text| text.replace("\"1 min\"", &format!("\"{COMMAND_TIMEOUT:?}\"")));
    site.server.user(&["add", "fred"], "flintstone\n").unwrap();
    let plain = || Client::greeted(site.server.address);
    let encrypted = || Client::encrypted(site.server.tls_address.unwrap(), settings(&site.authority, None));
    let compressed = |mut client: Client| {
        client.compress();
        client
    };
    let connect = |name: &str| match name {
        "plain" => plain(),
        "tls" => encrypted(),
        "compress" => compressed(plain()),
        _ => compressed(encrypted()),
    };
    std::thread::scope(|scope| {
        for name in ["plain", "tls", "compress", "tls-compress"] {
            for story in stories(name) {
                scope.spawn(move || {
                    until_quick(|attempt| played(name, &story, attempt, &mut connect(name)));
                });
            }
            scope.spawn(move || until_quick(|attempt| ihave(name, attempt, &mut connect(name))));
        }
        // Logging in is not possible on a compressed connection (RFC 8054 section 2.2.2).
        for name in ["plain", "tls"] {
            let story = Story {
                opening: ("AUTHINFO SASL PLAIN\r\n", "383 "),
                text: "AGZyZWQAZmxpbnRzdG9uZQ==\r\n".into(),
                answer: "281 ",
            };
            scope.spawn(move || until_quick(|attempt| played(name, &story, attempt, &mut connect(name))));
        }
    });
}
