//! A site without article numbers: it accepts and relays articles of groups that it does not have, and serves
//! no readers.

use super::recorder::{Behaviour, Recorder};
use super::{hand_in, id, section, wait_for_status};
use crate::client::{Client, article};
use crate::running::Server;
use disk::RealDisk;
use std::sync::Arc;

fn transit(recorder: &Recorder, keys: &str) -> Server {
    let section = section("down.example", recorder, "groups = \"far.*,!far.never\"");
    Server::start_with(|text| {
        text.replace("[site]\n", &format!("[site]\nnumbers = false\n{keys}")) + &section
    })
}

#[test]
fn articles_of_any_group_wanted_by_a_peer_are_stored_and_relayed() {
    let recorder = Recorder::start(Behaviour::default());
    let server = transit(&recorder, "");
    let mut client = server.client();
    hand_in(&mut client, 0..3, "far.away");
    hand_in(&mut client, 3..4, "no.such.group,far.off");
    let why = "no group carried here";
    for groups in ["no.such.group", "far.never", "misc.test"] {
        let refused = format!("<{groups}@x.example>");
        client.send(format!("TAKETHIS {refused}\r\n{}", article(&refused, groups, "body")));
        assert_eq!(client.line(), format!("439 {refused} {why}"));
        assert!(client.ask(&format!("CHECK {refused}")).starts_with("438 "), "it is remembered");
    }
    recorder.wait_for(4);
    assert_eq!(recorder.seen(|seen| seen.accepted.clone()), [id(0), id(1), id(2), id(3)]);
    let sent = recorder.seen(|seen| seen.articles[&id(0)].clone());
    let expected = article(&id(0), "far.away", "..body").replace("Path: ", "Path: site.example!!");
    assert_eq!(sent, expected.strip_suffix(".\r\n").unwrap());

    let (replies, _) = server.control(&serde_json::json!({ "do": "status" }));
    let spool = &replies[0]["status"]["spool"];
    assert_eq!((&spool["articles"], &spool["unnumbered"]["articles"]), (&4.into(), &4.into()), "{spool}");
    assert!(spool["unnumbered"]["overview_bytes"].as_u64() > Some(4 * 100), "{spool}");
    assert!(spool["unnumbered"]["nanos"].as_u64() > Some(0), "{spool}");
    assert_eq!(server.status()["peers"][0]["accepted"], 4);
}

#[test]
fn peers_read_articles_only_by_message_id() {
    let recorder = Recorder::start(Behaviour::default());
    let server = transit(&recorder, "");
    let mut client = server.client();
    hand_in(&mut client, 0..1, "far.away");
    let capabilities = client.capabilities();
    let has = |label: &str| capabilities.iter().any(|line| line.split(' ').next() == Some(label));
    assert!(has("IHAVE") && has("STREAMING"), "{capabilities:?}");
    for label in ["READER", "POST", "NEWNEWS", "OVER", "HDR", "LIST", "XPAT"] {
        assert!(!has(label), "{label} in {capabilities:?}");
    }
    for command in [
        "GROUP misc.test",
        "LISTGROUP misc.test",
        "LIST",
        "LIST NEWSGROUPS",
        "OVER 1-",
        &format!("OVER {}", id(0)),
        "XOVER 1",
        "HDR Subject 1",
        "XPAT Subject 1 *",
        "NEXT",
        "LAST",
        "ARTICLE 1",
        "STAT",
        "NEWGROUPS 20200101 000000",
        "NEWNEWS * 20200101 000000",
    ] {
        let answer = client.ask(command);
        assert_eq!(answer, "502 This server only relays: it has no groups to read", "{command}");
    }
    assert!(client.ask("POST").starts_with("440 "));
    assert!(client.ask("DATE").starts_with("111 "));
    let whole = article(&id(0), "far.away", "..body").replace("Path: ", "Path: site.example!!");
    assert_eq!(client.ask(&format!("ARTICLE {}", id(0))), format!("220 0 {}", id(0)));
    assert_eq!(client.block(), whole.strip_suffix(".\r\n").unwrap().lines().collect::<Vec<_>>());
    assert_eq!(client.ask(&format!("HEAD {}", id(0))), format!("221 0 {}", id(0)));
    assert!(!client.block().iter().any(|line| line.starts_with("Xref:")));
    assert_eq!(client.ask(&format!("STAT {}", id(0))), format!("223 0 {}", id(0)));
    assert!(client.ask("STAT <none@x.example>").starts_with("430 "));
    assert!(client.ask("MODE READER").starts_with("502 "));
    assert!(client.is_cut_off());
}

#[test]
fn articles_no_peer_wants_are_stored_as_unknown_groups_decides() {
    let recorder = Recorder::start(Behaviour::default());
    let server = transit(&recorder, "unknown_groups = \"junk\"\n");
    let mut client = server.client();
    hand_in(&mut client, 0..2, "no.such.group");
    hand_in(&mut client, 2..3, "far.away");
    recorder.wait_for(1);
    assert_eq!(recorder.seen(|seen| seen.accepted.clone()), [id(2)]);
    assert!(client.ask(&format!("STAT {}", id(0))).starts_with("223 "));
    // Articles that a peer may not send are rejected.
    client.send(format!("TAKETHIS {}\r\n{}", id(9), article(&id(9), "local.hidden", "body")));
    assert!(client.line().starts_with("439 "));
}

/// Hiding needs no numbers, by the operator or a filter, and survives restart and rebuild.
#[test]
fn hidden_articles_are_not_readable_by_message_id() {
    let recorder = Recorder::start(Behaviour::default());
    let server = transit(&recorder, "");
    let server = {
        let text = std::fs::read_to_string(server.file()).unwrap();
        std::fs::write(server.file(), text + "\n[spam]\ntypes = \"hide\"\n").unwrap();
        server.again(Arc::new(RealDisk::new()))
    };
    let mut client = server.client();
    hand_in(&mut client, 0..3, "far.away");
    let html =
        article(&id(3), "far.away", "b").replacen("Subject: ", "Content-Type: text/html\r\nSubject: ", 1);
    client.send(format!("TAKETHIS {}\r\n{html}", id(3)));
    assert_eq!(client.line(), format!("239 {}", id(3)));
    let by = serde_json::json!({ "issuer": null, "since": null });
    let hide = serde_json::json!(
        { "do": "hide", "message_ids": [id(1)], "reason": "r", "dry_run": false, "list": false, "by": by }
    );
    let (replies, ok) = server.control(&hide);
    assert!(ok, "{replies:?}");
    let shown = |client: &mut Client| -> Vec<bool> {
        (0..4).map(|n| client.ask(&format!("STAT {}", id(n))).starts_with("223 ")).collect()
    };
    assert_eq!(shown(&mut client), [true, false, true, false]);
    // Peers are refused hidden articles as duplicates, and are not sent those hidden by a filter.
    assert!(client.ask(&format!("CHECK {}", id(3))).starts_with("438 "));
    recorder.wait_for(2);
    // A feed that had not passed it before the restart would offer it once it is shown.
    wait_for_status(&server, "down.example", |feed| feed["lag_articles"] == 0);
    drop(client);
    let server = server.again(Arc::new(RealDisk::new()));
    let mut client = server.client();
    assert_eq!(shown(&mut client), [true, false, true, false]);
    let ids = [id(1), id(3)];
    let unhide = serde_json::json!({ "do": "unhide", "message_ids": ids, "dry_run": false, "by": by });
    let (replies, ok) = server.control(&unhide);
    assert!(ok, "{replies:?}");
    assert_eq!(shown(&mut client), [true; 4]);
    hand_in(&mut client, 4..5, "far.away");
    recorder.wait_for(3);
    assert!(!recorder.seen(|seen| seen.accepted.contains(&id(3))));
}

/// Numbers continue where they ended; articles that came meanwhile have none.
#[test]
fn numbers_key_may_change_between_starts() {
    let server = Server::start();
    hand_in(&mut server.client(), 0..2, "misc.test");
    let switched = |server: Server, from: &str, to: &str| {
        let text = std::fs::read_to_string(server.file()).unwrap();
        std::fs::write(server.file(), text.replace(from, to)).unwrap();
        server.again(Arc::new(RealDisk::new()))
    };
    let server = switched(server, "[site]\n", "[site]\nnumbers = false\nunknown_groups = \"junk\"\n");
    let mut client = server.client();
    hand_in(&mut client, 2..4, "misc.test");
    assert!(client.ask(&format!("STAT {}", id(0))).starts_with("223 "));
    let text = std::fs::read_to_string(server.file()).unwrap();
    let (replies, ok) = {
        std::fs::write(server.file(), text.replace("numbers = false\n", "")).unwrap();
        server.control(&serde_json::json!({ "do": "reload" }))
    };
    assert!(!ok, "a reload does not switch it: {replies:?}");
    let server = switched(server, "numbers = false\n", "");
    let mut client = server.client();
    assert_eq!(client.ask("GROUP misc.test"), "211 2 1 2 misc.test");
    hand_in(&mut client, 4..5, "misc.test");
    assert_eq!(client.ask("GROUP misc.test"), "211 3 1 3 misc.test");
    assert_eq!(client.ask("STAT 3"), format!("223 3 {}", id(4)));
    assert!(client.ask(&format!("STAT {}", id(2))).starts_with("223 "));
    assert_eq!(client.ask(&format!("HEAD {}", id(2))), format!("221 0 {}", id(2)));
    client.block();
    assert!(client.ask(&format!("CHECK {}", id(3))).starts_with("438 "));
}
