//! Peers that give unexpected responses about some articles.

use super::odd_peer::OddPeer;
use super::{hand_in_all, section_to, status, wait_for_status};
use crate::client::article;
use crate::operated::Operated;
use crate::running::Server;
use crate::waiting::wait_for;
use disk::RealDisk;
use nntp_io::{AnswerJudgement, ArticleRequest, JUDGEMENTS, ODD_ANSWERS_MAX};
use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::NamedTempFile;

fn feeding(peer: &OddPeer, keys: &str) -> Server {
    let section = section_to("down.example", peer.address, keys);
    Server::start_with(|text| text + &section)
}

fn hand_in(server: &Server, ids: &[String]) {
    let all: Vec<_> = ids.iter().map(|id| (id.clone(), article(id, "misc.test", "body"))).collect();
    hand_in_all(&mut server.client(), &all);
}

fn plain(n: usize) -> String {
    format!("<plain.{n}@x.example>")
}

fn verb_of(request: ArticleRequest) -> &'static str {
    match request {
        ArticleRequest::Check => "CHECK",
        ArticleRequest::Takethis => "TAKETHIS",
        ArticleRequest::Ihave => "IHAVE",
        ArticleRequest::Transfer => "ARTICLE",
    }
}

/// Returns a Message-ID that encodes the response to a command.
fn scripted(verb: &str, answer: &str) -> String {
    format!("<{verb}.{}@x.example>", answer.replace(' ', "_"))
}

/// Returns the response that the Message-ID of an article asks for.
fn script(verb: &str, id: &str) -> Option<String> {
    let (own, answer) = id.trim_start_matches('<').split_once('@')?.0.split_once('.')?;
    let answer = answer.replace('_', " ").replace("SELF", id).replace("OTHER", "<other@x.example>");
    (own == verb).then_some(answer)
}

/// Responses that are not in the table, with their meaning.
const OTHERS: [(&str, &str, AnswerJudgement); 16] = [
    ("CHECK", "501 Message-ID too long", AnswerJudgement::Odd),
    ("CHECK", "500 what", AnswerJudgement::Odd),
    ("CHECK", "503 not now", AnswerJudgement::Odd),
    ("CHECK", "480 log in", AnswerJudgement::Unentitled),
    ("CHECK", "438", AnswerJudgement::Odd),
    ("CHECK", "436 later", AnswerJudgement::Odd),
    ("CHECK", "239 SELF", AnswerJudgement::Odd),
    ("CHECK", "238 OTHER", AnswerJudgement::OutOfStep),
    ("CHECK", "100 help follows", AnswerJudgement::OutOfStep),
    ("CHECK", "what do you mean", AnswerJudgement::OutOfStep),
    ("TAKETHIS", "501 bad", AnswerJudgement::Odd),
    ("TAKETHIS", "437 unwanted", AnswerJudgement::Odd),
    ("TAKETHIS", "439 OTHER", AnswerJudgement::OutOfStep),
    ("IHAVE", "501 too long", AnswerJudgement::Odd),
    ("IHAVE", "438 had it", AnswerJudgement::Odd),
    ("ARTICLE", "435 had it", AnswerJudgement::Odd),
];

/// Returns the rows of the table, and other responses, for one way of feeding.
fn rows(streaming: bool) -> Vec<(String, AnswerJudgement)> {
    let mut rows = Vec::new();
    for (requests, code, judgement) in JUDGEMENTS {
        for request in *requests {
            rows.push((verb_of(*request), format!("{code} SELF"), *judgement));
        }
    }
    rows.extend(OTHERS.map(|(verb, answer, judgement)| (verb, answer.to_owned(), judgement)));
    rows.retain(|(verb, ..)| streaming == ["CHECK", "TAKETHIS"].contains(verb));
    rows.into_iter().map(|(verb, answer, judgement)| (scripted(verb, &answer), judgement)).collect()
}

#[test]
fn every_response_has_its_consequence_and_other_articles_are_sent() {
    for streaming in [true, false] {
        let rows = rows(streaming);
        let passing: BTreeSet<String> = rows
            .iter()
            .filter(|(_, judgement)| {
                matches!(
                    judgement,
                    AnswerJudgement::Later | AnswerJudgement::Unentitled | AnswerJudgement::Closing
                )
            })
            .map(|(id, _)| id.clone())
            .collect();
        let first_only = passing.clone();
        let peer = OddPeer::start(streaming, move |verb, id, before| {
            if before > 0 && first_only.contains(id) { None } else { script(verb, id) }
        });
        let server = feeding(&peer, "connections = 1\nno_check_high = 100");
        let mut ids: Vec<String> = (0..40).map(plain).collect();
        for (n, (id, _)) in rows.iter().enumerate() {
            ids.insert(2 * n % 36, id.clone());
        }
        hand_in(&server, &ids);
        let is_odd = |judgement: &AnswerJudgement| {
            matches!(judgement, AnswerJudgement::Odd | AnswerJudgement::OutOfStep)
        };
        let odd = rows.iter().filter(|(_, judgement)| is_odd(judgement)).count();
        wait_for_status(&server, "down.example", |feed| {
            feed["lag_articles"] == 0 && feed["waiting"] == 0 && feed["given_up"] == odd
        });
        let taken = peer.articles();
        (0..40).for_each(|n| assert!(taken.contains(&plain(n)), "{n}"));
        for (id, judgement) in &rows {
            let is_taken = matches!(judgement, AnswerJudgement::Wanted | AnswerJudgement::Accepted);
            assert_eq!(taken.contains(id), is_taken || passing.contains(id), "{id} {judgement:?}");
        }
        let feed = status(&server, "down.example");
        assert_eq!((&feed["missed"], &feed["set_aside"]), (&0.into(), &0.into()), "{feed}");
        let listed = feed["set_aside_articles"].as_array().unwrap();
        assert_eq!(listed.len(), odd, "{feed}");
        assert!(listed.iter().all(|of| of["answers"].as_u64() >= Some(u64::from(ODD_ANSWERS_MAX))), "{feed}");
    }
}

#[test]
fn article_with_odd_responses_is_offered_three_times_and_named() {
    for (streaming, verb, answer) in
        [(true, "CHECK", "501 too long"), (true, "TAKETHIS", "501 bad"), (false, "IHAVE", "501 no")]
    {
        let bad = scripted(verb, answer);
        let peer = OddPeer::start(streaming, |verb, id, _| script(verb, id));
        let server = feeding(&peer, "connections = 1");
        let ids: Vec<String> = (0..5).map(plain).chain([bad.clone()]).chain((5..10).map(plain)).collect();
        hand_in(&server, &ids);
        peer.wait_for(10);
        wait_for_status(&server, "down.example", |feed| feed["given_up"] == 1 && feed["waiting"] == 0);
        assert_eq!((peer.count(verb, &bad), peer.connections()), (usize::from(ODD_ANSWERS_MAX), 1));
        let feed = status(&server, "down.example");
        let named = &feed["set_aside_articles"][0];
        assert_eq!((&named["message_id"], &named["answer"]), (&bad.clone().into(), &answer.into()), "{feed}");
        let request = serde_json::json!({ "do": "why", "message_id": bad, "peer": "down.example" });
        let (replies, ok) = server.control(&request);
        let said = serde_json::to_string(&replies).unwrap();
        assert!(
            ok && said.contains("given up: unexpected answer, 3 times") && said.contains(answer),
            "{said}"
        );
    }
}

#[test]
fn article_on_which_a_peer_hangs_up_does_not_delay_others() {
    for (streaming, verb) in [(true, "CHECK"), (false, "IHAVE")] {
        let peer = OddPeer::start(streaming, |verb, id, _| script(verb, id));
        let server = feeding(&peer, "connections = 1");
        let ids: Vec<String> = [scripted(verb, "HANG UP")].into_iter().chain((0..10).map(plain)).collect();
        hand_in(&server, &ids);
        peer.wait_for(10);
        // The connection is at fault, so the article is never given up.
        wait_for_status(&server, "down.example", |feed| {
            feed["lag_articles"] == 0 && feed["waiting"] == 1 && feed["given_up"] == 0
        });
    }
}

#[test]
fn article_is_not_given_up_for_480_or_483() {
    for (streaming, verb, answer) in [
        (true, "CHECK", "480 log in"),
        (true, "TAKETHIS", "483 not without TLS"),
        (false, "IHAVE", "480 log in"),
        (false, "ARTICLE", "483 not without TLS"),
    ] {
        let peer = OddPeer::start(streaming, |verb, id, _| script(verb, id));
        let server = feeding(&peer, "connections = 1");
        let bad = scripted(verb, answer);
        let ids: Vec<String> = (0..5).map(plain).chain([bad.clone()]).chain((5..10).map(plain)).collect();
        hand_in(&server, &ids);
        peer.wait_for(10);
        wait_for_status(&server, "down.example", |feed| {
            peer.count(verb, &bad) >= usize::from(ODD_ANSWERS_MAX)
                && feed["lag_articles"] == 0
                && feed["set_aside"] == 1
                && feed["given_up"] == 0
        });
        assert_eq!(peer.connections(), 1, "{verb}");
    }
}

#[test]
fn article_set_aside_is_explained_after_a_restart() {
    let peer = OddPeer::start(true, |verb, id, _| script(verb, id));
    let section = section_to("down.example", peer.address, "connections = 1");
    let section = section.replace("10ms", "1 h").replace("200ms", "1 h");
    let server = Server::start_with(|text| text + &section);
    let bad = scripted("CHECK", "501 too long");
    hand_in(&server, &[plain(0), bad.clone(), plain(1)]);
    peer.wait_for(2);
    wait_for_status(&server, "down.example", |feed| feed["set_aside"] == 1 && feed["lag_articles"] == 0);
    let server = server.again(Arc::new(RealDisk::new()));
    let feed = status(&server, "down.example");
    let named = &feed["set_aside_articles"][0];
    assert_eq!((&feed["set_aside"], &named["answers"]), (&1.into(), &1.into()), "{feed}");
    let request = serde_json::json!({ "do": "why", "message_id": bad, "peer": "down.example" });
    let (replies, ok) = server.control(&request);
    let said = serde_json::to_string(&replies).unwrap();
    assert!(ok && said.contains("501 too long"), "{said}");
}

#[test]
fn peer_without_a_greeting_is_dropped_after_answer_timeout() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let section = section_to("down.example", silent.local_addr().unwrap(), "answer_timeout = \"1 s\"");
    let server = Server::start_with(|text| text + &section);
    hand_in(&server, &[plain(0)]);
    wait_for_status(&server, "down.example", |feed| {
        feed["last_error"].as_str().is_some_and(|error| error.contains("timed out waiting for the greeting"))
    });
}

/// Like [`feeding`], with a login.
fn feeding_as_user(peer: &OddPeer, password: &NamedTempFile) -> Server {
    fs::write(password, "secret\n").unwrap();
    feeding(peer, &format!("connections = 1\nuser = \"fred\"\npassword_file = {:?}", password.path()))
}

#[test]
fn connection_with_expired_login_is_replaced() {
    let password = NamedTempFile::new().unwrap();
    for (streaming, verb) in [(true, "CHECK"), (true, "TAKETHIS"), (false, "IHAVE"), (false, "ARTICLE")] {
        let peer = OddPeer::start(streaming, move |own, id, before| {
            (own == verb && before == 0 && id == plain(5)).then(|| "480 log in".to_owned())
        });
        let server = feeding_as_user(&peer, &password);
        hand_in(&server, &(0..10).map(plain).collect::<Vec<_>>());
        peer.wait_for(10);
        wait_for_status(&server, "down.example", |feed| feed["lag_articles"] == 0 && feed["waiting"] == 0);
        let feed = status(&server, "down.example");
        assert_eq!((&feed["given_up"], &feed["set_aside"]), (&0.into(), &0.into()), "{verb}: {feed}");
        assert!(feed["set_aside_articles"].as_array().unwrap().is_empty(), "{verb}: {feed}");
        assert_eq!((peer.count(verb, &plain(5)), peer.connections()), (2, 2), "{verb}");
    }
}

#[test]
fn peer_that_ignores_logins_is_reported_and_loses_nothing() {
    let password = NamedTempFile::new().unwrap();
    let peer = OddPeer::start(true, |verb, id, before| {
        (verb == "CHECK" && id == plain(0) && before < 8).then(|| "480 log in".to_owned())
    });
    let server = feeding_as_user(&peer, &password);
    hand_in(&server, &[plain(0)]);
    wait_for_status(&server, "down.example", |feed| {
        feed["last_error"]
            .as_str()
            .is_some_and(|error| error.contains("no longer honours the login: 480 log in"))
    });
    peer.wait_for(1);
    wait_for_status(&server, "down.example", |feed| feed["waiting"] == 0 && feed["given_up"] == 0);
    assert_eq!(peer.connections(), 9);
}

#[test]
fn peer_with_only_odd_responses_loses_nothing() {
    let is_repaired = Arc::new(AtomicBool::new(false));
    let repaired = is_repaired.clone();
    let peer = OddPeer::start(true, move |verb, _, before| {
        let is_odd = before < 4 || !repaired.load(Ordering::Relaxed);
        (verb == "CHECK" && is_odd).then(|| "503 out of order".to_owned())
    });
    let server = feeding(&peer, "");
    hand_in(&server, &(0..30).map(plain).collect::<Vec<_>>());
    wait_for_status(&server, "down.example", |feed| {
        feed["last_error"].as_str().is_some_and(|error| error.contains("articles in a row"))
    });
    is_repaired.store(true, Ordering::Relaxed);
    peer.wait_for(30);
    wait_for_status(&server, "down.example", |feed| feed["waiting"] == 0 && feed["given_up"] == 0);
}

#[test]
fn article_set_aside_is_offered_again_after_a_crash() {
    let peer = OddPeer::start(true, |verb, id, before| if before < 1 { script(verb, id) } else { None });
    let site = Operated::with(&["--peer", "127.0.0.1"]);
    site.done(&["group", "add", "misc.test"]);
    let section = section_to("down.example", peer.address, "")
        .replace("\"10ms\"", "\"1 h\"")
        .replace("\"200ms\"", "\"1 h\"");
    site.edit(|text| text + &section);
    let bad = scripted("CHECK", "501 too long");
    let serving = site.serve();
    let ids = [bad.clone(), plain(0)].map(|id| (id.clone(), article(&id, "misc.test", "body")));
    hand_in_all(&mut serving.client(), &ids);
    peer.wait_for(1);
    wait_for(|| super::difficult::feed_of(&site), |feed| feed["lag_articles"] == 0);
    // Killed by SIGKILL.
    drop(serving);
    let serving = site.serve();
    site.done(&["ctl", "feed", "down.example", "flush"]);
    peer.wait_for(2);
    assert!(peer.articles().contains(&bad));
    drop(serving);
}
