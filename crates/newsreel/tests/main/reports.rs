//! The report of a running server, printed by `newsreel status --json`.

use crate::auth::{add_users, plain};
use crate::client::{Client, article};
use crate::operated::{Operated, complaints};
use crate::posting::{headers, post};
use crate::purging::feed;
use crate::running::Server;
use crate::tls::Site;
use crate::waiting::wait_for;
use serde_json::{Value, json};
use std::fmt::Write;

const PEERS: usize = 100;
const GROUPS: usize = 3_000;

fn report(server: &Server) -> Value {
    let (replies, ok) = server.control(&json!({ "do": "status" }));
    assert!(ok, "{replies:?}");
    replies[0]["status"].clone()
}

#[test]
fn large_site_reports_peers_groups_and_spool() {
    let server = Server::start_with(|text| {
        let mut peers = String::new();
        for n in 0..PEERS {
            write!(peers, "[[peer]]\nname = \"p{n}\"\naddresses = [\"192.0.2.{n}\"]\n\n").unwrap();
        }
        text.replacen("[[peer]]", &format!("{peers}[[peer]]"), 1)
    });
    // The control socket exists once the server greets.
    let mut peer = server.client();
    let groups: Vec<_> = (0..GROUPS).map(|n| json!({ "name": format!("local.g{n}"), "flag": "y" })).collect();
    assert!(server.control(&json!({ "do": "group_add", "groups": groups })).1);
    peer.send(format!("TAKETHIS <a@x.example>\r\n{}", article("<a@x.example>", "misc.test", "body")));
    assert_eq!(peer.line(), "239 <a@x.example>");
    let report = report(&server);
    let of_server = &report["server"];
    let peers = of_server["peers"].as_array().unwrap();
    assert_eq!((peers.len(), of_server["connections"].as_u64()), (PEERS + 1, Some(1)), "{report}");
    let expected =
        json!({ "name": "peer.example", "connections": 1, "offered": 1, "accepted": 1, "rejected": 0 });
    assert_eq!(peers[PEERS], expected);
    assert_eq!(of_server["listen"], json!([server.address.to_string()]));
    let spool = &report["spool"];
    assert_eq!((spool["articles"].as_u64(), spool["offers"].as_u64()), (Some(1), Some(0)), "{report}");
    assert!(spool["groups"].as_u64().unwrap() > GROUPS as u64);
    for name in ["measured", "journal_bytes", "journal_position", "rows_to_replay", "history_bytes"] {
        assert!(spool[name].as_u64().unwrap() > 0, "{name}: {report}");
    }
    assert!(spool["buffers"][0]["used_bytes"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn events_on_a_server_are_counted() {
    let site = Site::start_with("", |text| {
        let text = text.replacen("/bin/false %s", "/bin/true %s", 1);
        text + "\n[auth]\nfailures_per_address_max = 2\nlockout_first = \"10 min\"\n"
    });
    let server = &site.server;
    // The control socket exists once the server greets.
    let mut client = server.client();
    let before = &report(server)["server"];
    assert!(before["certificate_expires"].as_i64().is_some_and(|at| at > 0), "{before}");
    for path in [
        "/refused",
        "/compressed",
        "/reloads",
        "/early_cancels",
        "/early_hides",
        "/logins/failed",
        "/moderation/sent",
    ] {
        assert_eq!(before.pointer(path), Some(&json!(0)), "{path}: {before}");
    }
    add_users(server);
    assert!(client.ask(&plain("fred", "flintstone")).starts_with("281 "));
    let mut guesser = server.client();
    for answer in ["481 Authentication failed", "481 Authentication failed", "481 Too many failures"] {
        assert!(guesser.ask(&plain("nobody", "guess")).starts_with(answer));
    }
    let mut stranger = Client::connect_from([127, 0, 0, 2].into(), server.address);
    assert!(stranger.line().starts_with("502 "));
    let mut peer = server.client();
    let cancel = article("<c@x.example>", "misc.test", "b").replacen(
        "\r\n",
        "\r\nControl: cancel <late@x.example>\r\nCancel-Key: sha256:a2V5\r\n",
        1,
    );
    peer.send(format!("TAKETHIS <c@x.example>\r\n{cancel}"));
    assert_eq!(peer.line(), "239 <c@x.example>");
    peer.compress();
    let mut poster = server.client();
    assert!(post(&mut poster, &headers("local.moderated", ""), "b").starts_with("240 "));
    server.reload(|text| text.replacen("Example Site", "Another Site", 1)).unwrap();
    let logins = json!({ "succeeded": 1, "failed": 2, "lock_outs": 1, "refused": 1 });
    let mailed = json!({ "waiting": 0, "sent": 1, "failed": 0, "held": 0 });
    let counts = [("refused", 1), ("compressed", 1), ("reloads", 1), ("early_cancels", 1)];
    // Work after a response, such as mails, is counted once it is done.
    wait_for(
        || report(server)["server"].clone(),
        |now| {
            let is_counted = counts.iter().all(|(name, count)| now[name] == *count);
            is_counted && now["logins"] == logins && now["moderation"] == mailed
        },
    );
}

#[test]
fn day_is_recorded_and_reported() {
    let site = Operated::new();
    site.edit(|text| text.replacen("max_age_days = 10", "max_age_days = \"none\"", 1));
    site.done(&["group", "add", "misc.one"]);
    let serving = site.serve();
    let mut client = serving.client();
    feed(
        &site,
        &[("<1@x.example>", "misc.one"), ("<2@x.example>", "misc.one"), ("<3@x.example>", "no.such")],
    );
    assert!(client.ask("GROUP misc.one").starts_with("211 2 "));
    drop(client);
    serving.stop();
    // A day may have ended meanwhile.
    let told = |form: &str| {
        let days =
            ["yesterday", "today"].map(|day| site.run(&["report", "--day", day, "--format", form]).stdout);
        String::from_utf8(days.concat()).unwrap()
    };
    let text = told("text");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    for row in [
        &["misc.one", "2"][..],
        &["rnews", "2"],
        &["no", "group", "carried", "here", "1"],
        &["peer.example", "100.0", "%"],
    ] {
        assert!(rows.iter().any(|own| own == row), "{row:?} is not in:\n{text}");
    }
    // Selected once by a newsreader, and twice here by articles.
    assert_eq!(rows.iter().filter(|row| row.first() == Some(&"misc.one")).count(), 2, "{text}");
    assert!(told("html").contains("<td>misc.one</td><td>2</td>"));
    assert!(told("mail").starts_with("To: news\nSubject: newsreel on "));
    assert!(complaints(&site.run(&["report", "--day", "2000-01-01"])).contains("nothing is recorded"));
    // The next start continues the record, and counts nothing twice.
    site.serve().stop();
    assert_eq!(told("text"), text);
}
