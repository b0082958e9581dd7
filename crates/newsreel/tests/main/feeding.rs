//! Feeding in bulk: many articles on one connection, large ones, several peers at once, and the readers'
//! view.

use crate::client::{Client, article};
use crate::running::Server;
use crate::waiting::{let_pass, wait_for};
use std::time::Duration;

fn takethis(id: &str, groups: &str, body: &str) -> String {
    format!("TAKETHIS {id}\r\n{}", article(id, groups, body))
}

#[test]
fn thousand_articles_in_one_write_are_filed() {
    let server = Server::start();
    let mut client = server.client();
    let ids: Vec<_> = (0..1000).map(|i| format!("<n{i}@x.example>")).collect();
    let all: String = ids.iter().map(|id| takethis(id, "misc.test", "a body\r\nof two lines")).collect();
    std::thread::scope(|scope| {
        let mut sender = server.client();
        let answers = scope.spawn(move || {
            sender.send(all);
            (0..1000).map(|_| sender.line()).collect::<Vec<_>>()
        });
        for (id, answer) in ids.iter().zip(answers.join().unwrap()) {
            assert_eq!(answer, format!("239 {id}"));
        }
    });
    assert_eq!(client.ask("GROUP misc.test"), "211 1000 1 1000 misc.test");
    assert!(client.ask("LISTGROUP").starts_with("211 "));
    assert_eq!(client.block(), (1..=1000).map(|n| n.to_string()).collect::<Vec<_>>());
    assert!(client.ask("OVER 1-").starts_with("224 "));
    let rows = client.block();
    assert_eq!(rows.len(), 1000);
    for (i, row) in rows.iter().enumerate() {
        let fields: Vec<_> = row.split('\t').collect();
        assert_eq!((fields[0], fields[4]), ((i + 1).to_string().as_str(), ids[i].as_str()));
        assert_eq!(fields[8], format!("Xref: site.example misc.test:{}", i + 1));
    }
}

#[test]
fn stored_articles_equal_those_sent() {
    let server = Server::start();
    let mut client = server.client();
    for (i, size) in [0, 1, 100, 15_000, 16_384, 17_000, 70_000, 120_000].into_iter().enumerate() {
        let id = format!("<s{i}@x.example>");
        let lines: Vec<_> = (0..size / 50)
            .map(|n| format!("{}{n:08}{}", if n % 7 == 0 { ".." } else { "" }, "x".repeat(38)))
            .collect();
        client.send(takethis(&id, "misc.test", &lines.join("\r\n")));
        assert_eq!(client.line(), format!("239 {id}"));
        assert!(client.ask(&format!("BODY {id}")).starts_with("222 0 "));
        let body = client.block();
        assert_eq!(body, if lines.is_empty() { vec![String::new()] } else { lines });
        assert!(client.ask(&format!("OVER {id}")).starts_with("224 "));
        let by_id = client.block().remove(0);
        assert!(client.ask("GROUP misc.test").starts_with("211 "));
        assert!(client.ask(&format!("ARTICLE {}", i + 1)).starts_with("220 "));
        let article = client.block();
        let octets: usize = article.iter().map(|l| l.len() + 2 - usize::from(l.starts_with('.'))).sum();
        assert_eq!(by_id.split('\t').nth(6).unwrap(), octets.to_string(), "{id}");
        assert!(client.ask(&format!("OVER {}", i + 1)).starts_with("224 "));
        assert_eq!(
            client.block().remove(0).split('\t').nth(6).unwrap(),
            octets.to_string(),
            "{id} by number"
        );
    }
}

#[test]
fn article_bytes_max_is_exact() {
    let server = Server::start();
    let mut client = server.client();
    let bare = article("<m@x.example>", "misc.test", "").len() - ".\r\n".len();
    for (over, answer) in
        [(1, "439 <m@x.example> too large (at most 131072 bytes)"), (0, "239 <m@x.example>")]
    {
        // Lines of 64 octets, and a last one to fill up.
        let room = (128 << 10) - bare + over;
        let body = ("x".repeat(62) + "\r\n").repeat(room / 64 - 1);
        let body = body.clone() + &"y".repeat(room - body.len());
        let wire = takethis("<m@x.example>", "misc.test", &body);
        if over == 1 {
            // Oversized articles are remembered, so the other one is offered under its own name.
            client.send(wire.replace("<m@x.example>", "<n@x.example>"));
            assert_eq!(client.line(), answer.replace("<m@", "<n@"));
        } else {
            client.send(wire);
            assert_eq!(client.line(), answer);
        }
    }
}

#[test]
fn large_articles_beyond_the_memory_limit_wait_and_are_filed() {
    // Room for about 6 of these articles; the others wait, but not forever.
    let server = Server::start_with(|text| {
        text.replace("\"128 KiB\"", "\"2 MiB\"")
            .replace("[limits]", "[limits]\nreceive_bytes_from_peers_max = \"12 MiB\"")
            .replace("32 MiB", "64 MiB")
    });
    let body = ("x".repeat(62) + "\r\n").repeat(20_000);
    std::thread::scope(|scope| {
        for feed in 0..20 {
            let (mut client, body) = (server.client(), &body);
            scope.spawn(move || {
                for i in 0..2 {
                    let id = format!("<l{feed}.{i}@x.example>");
                    let wire = takethis(&id, "misc.test", body);
                    let (first, second) = wire.split_at(800_000);
                    client.send(first);
                    let_pass(Duration::from_millis(20), "the other transfers begin");
                    client.send(second);
                    assert_eq!(client.line(), format!("239 {id}"));
                }
            });
        }
    });
    let mut client = server.client();
    assert_eq!(client.ask("GROUP misc.test"), "211 40 1 40 misc.test");
    assert!(client.ask("BODY 40").starts_with("222 40 "));
    assert_eq!(client.block().len(), 20_001);
}

#[test]
fn oversized_articles_are_not_requested_again() {
    let server = Server::start();
    let mut client = server.client();
    // More than a receive buffer with read-ahead holds.
    let body = "0123456789\r\n".repeat(60_000);
    client.send(takethis("<big@x.example>", "misc.test", &body));
    assert_eq!(client.line(), "439 <big@x.example> too large (at most 131072 bytes)");
    assert_eq!(client.ask("CHECK <big@x.example>"), "438 <big@x.example>");
    assert!(client.ask("IHAVE <big2@x.example>").starts_with("335 "));
    client.send(article("<big2@x.example>", "misc.test", &body));
    assert_eq!(client.line(), "437 too large (at most 131072 bytes)");
    assert!(client.ask("IHAVE <big2@x.example>").starts_with("435 "));
    // Announcing another's article in a wrong way cannot get it rejected.
    client.send(takethis("<big3@x.example>", "misc.test", &body).replacen("<big3@", "<victim@", 1));
    assert_eq!(client.line(), "439 <victim@x.example> too large (at most 131072 bytes)");
    assert_eq!(client.ask("CHECK <victim@x.example>"), "238 <victim@x.example>");
    assert!(client.ask("POST").starts_with("340 "));
    client.send(article("<big4@x.example>", "misc.test", &body));
    assert_eq!(client.line(), "441 Article is too large: at most 131072 bytes are accepted");
}

#[test]
fn second_peer_offering_an_article_is_deferred() {
    let server = Server::start();
    let (mut one, mut two) = (server.client(), server.client());
    assert_eq!(one.ask("CHECK <r@x.example>"), "238 <r@x.example>");
    assert_eq!(two.ask("CHECK <r@x.example>"), "431 <r@x.example>");
    assert!(two.ask("IHAVE <r@x.example>").starts_with("436 "));
    // A peer that sends without asking is first.
    two.send(takethis("<r@x.example>", "misc.test", "two"));
    assert_eq!(two.line(), "239 <r@x.example>");
    one.send(takethis("<r@x.example>", "misc.test", "one"));
    assert_eq!(one.line(), "439 <r@x.example> duplicate");
    // A reservation ends with its connection.
    assert_eq!(one.ask("CHECK <q@x.example>"), "238 <q@x.example>");
    drop(one);
    wait_for(|| two.ask("CHECK <q@x.example>"), |answer| answer == "238 <q@x.example>");
}

#[test]
fn distributions_are_refused_by_site_and_by_peer() {
    let server = Server::start_with(|text| {
        text.replace("[site]\n", "[site]\ndistributions = \"!secret\"\n")
            .replace("[[peer]]\n", "[[peer]]\ndistributions = \"Usa,secret\"\n")
    });
    let mut client = server.client();
    let limited = |id: &str, to: &str| {
        article(id, "misc.test", "b").replacen("\r\n", &format!("\r\nDistribution: {to}\r\n"), 1)
    };
    for (n, (to, answer, again)) in [
        ("usa", "239 ID", "438 ID"),
        ("uk,\r\n USA", "239 ID", "438 ID"),
        ("World", "239 ID", "438 ID"),
        ("uk", "439 ID distribution not accepted from you", "238 ID"),
        ("Secret", "439 ID distribution not accepted here", "438 ID"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("<d{n}@x.example>");
        client.send(format!("TAKETHIS {id}\r\n{}", limited(&id, to)));
        assert_eq!(client.line(), answer.replace("ID", &id), "{to}");
        assert_eq!(client.ask(&format!("CHECK {id}")), again.replace("ID", &id), "{to}");
        let id = format!("<i{n}@x.example>");
        assert!(client.ask(&format!("IHAVE {id}")).starts_with("335 "));
        client.send(limited(&id, to));
        let (line, refusal) = (client.line(), answer.strip_prefix("439 ID "));
        match refusal {
            Some(reason) => assert_eq!(line, format!("437 {reason}")),
            None => assert!(line.starts_with("235 "), "{to}: {line}"),
        }
    }
    // An article that this peer may not send is accepted from another; the site's own list applies to posts
    // too, and a corrected post is accepted under the same Message-ID.
    let mut post = |id: &str, to: &str| {
        assert!(client.ask("POST").starts_with("340 "));
        client.send(limited(id, to));
        client.line()
    };
    assert!(post("<d3@x.example>", "uk").starts_with("240 "));
    assert_eq!(post("<p@x.example>", "secret"), "441 Posting failed: distribution not accepted here");
    assert!(post("<p@x.example>", "uk").starts_with("240 "));
}

#[test]
fn peers_that_race_file_every_article_once() {
    let server = Server::start();
    let ids: Vec<_> = (0..300).map(|i| format!("<race{i}@x.example>")).collect();
    let accepted: usize = std::thread::scope(|scope| {
        let feeds: Vec<_> = (0..6)
            .map(|feed| {
                let (mut client, ids) = (server.client(), &ids);
                scope.spawn(move || {
                    let mut accepted = 0;
                    for chunk in ids.chunks(10 + feed) {
                        client
                            .send(chunk.iter().map(|id| takethis(id, "misc.test", "b")).collect::<String>());
                        accepted += chunk.iter().filter(|_| client.line().starts_with("239 ")).count();
                    }
                    accepted
                })
            })
            .collect();
        feeds.into_iter().map(|feed| feed.join().unwrap()).sum()
    });
    assert_eq!(accepted, ids.len());
    assert_eq!(server.client().ask("GROUP misc.test"), "211 300 1 300 misc.test");
}

#[test]
fn readers_see_only_their_groups() {
    let server = Server::start_with(|text| {
        text.replace("read = \"*\"", "read = \"*,!local.hidden\"")
            .replace("accept = \"*,!local.hidden\"", "accept = \"*\"")
    });
    let mut client = server.client();
    for (id, groups) in [("<v1@x.example>", "local.hidden"), ("<v2@x.example>", "local.hidden,misc.test")] {
        client.send(takethis(id, groups, "b"));
        assert_eq!(client.line(), format!("239 {id}"));
    }
    assert!(client.ask("GROUP local.hidden").starts_with("411 "));
    assert!(client.ask("LISTGROUP local.hidden").starts_with("411 "));
    for command in ["ARTICLE", "HEAD", "BODY", "STAT", "OVER", "HDR Subject"] {
        assert!(client.ask(&format!("{command} <v1@x.example>")).starts_with("430 "), "{command}");
        let answer = client.ask(&format!("{command} <v2@x.example>"));
        assert!(answer.starts_with("22"), "{command}: {answer}");
        if command != "STAT" {
            client.block();
        }
    }
    for list in [
        "LIST",
        "LIST ACTIVE",
        "LIST NEWSGROUPS",
        "LIST COUNTS",
        "LIST ACTIVE.TIMES",
        "NEWGROUPS 19990101 000000",
    ] {
        assert!(client.ask(list).starts_with("2"));
        let lines = client.block();
        assert!(lines.iter().any(|line| line.starts_with("misc.test")), "{list}");
        assert!(!lines.iter().any(|line| line.starts_with("local.hidden")), "{list}");
    }
    assert!(client.ask("NEWNEWS local.hidden 20200101 000000").starts_with("230 "));
    assert_eq!(client.block(), Vec::<String>::new());
    client.send("POST\r\n");
    assert!(client.line().starts_with("340 "));
    client.send("From: a@b.example\r\nNewsgroups: local.hidden\r\nSubject: s\r\n\r\nb\r\n.\r\n");
    assert!(client.line().starts_with("441 "));
}

#[test]
fn clients_without_feeding_or_reading_rights_get_502() {
    let server = Server::start_with(|text| text.replace("from = [\"127.0.0.1\"]", "from = [\"127.0.0.2\"]"));
    let mut peer = Client::connect(server.address);
    assert!(peer.line().starts_with("200 "));
    for command in ["GROUP misc.test", "LIST", "NEWNEWS * 20200101 000000", "ARTICLE <a@b.example>"] {
        assert!(peer.ask(command).starts_with("502 "), "{command}");
    }
    assert!(peer.ask("STAT <a@b.example>").starts_with("430 "));
    assert!(peer.ask("POST").starts_with("440 "));
    assert!(peer.ask("CAPABILITIES").starts_with("101 "));
    let capabilities = peer.block();
    assert!(capabilities.contains(&"STREAMING".to_owned()) && !capabilities.contains(&"READER".to_owned()));
    assert_eq!(peer.ask("CHECK <a@b.example>"), "238 <a@b.example>");
    assert!(peer.ask("MODE READER").starts_with("502 "));
    assert_eq!(peer.line_or_end(), None);
    drop(server);

    let server = Server::start_with(|text| {
        text.replace("addresses = [\"127.0.0.1\"]", "addresses = [\"127.0.0.2\"]")
            .replace("post = \"*,!control\"", "post = \"\"")
    });
    let mut reader = Client::connect(server.address);
    assert!(reader.line().starts_with("201 "));
    assert!(reader.ask("MODE READER").starts_with("201 "));
    for command in ["IHAVE <a@b.example>", "CHECK <a@b.example>", "MODE STREAM"] {
        assert!(reader.ask(command).starts_with("502 "), "{command}");
    }
    reader.send(takethis("<a@b.example>", "misc.test", "b"));
    assert!(reader.line().starts_with("502 "));
    reader.send(takethis("<a@b.example>", "misc.test", &"0123456789\r\n".repeat(50_000)));
    assert!(reader.line().starts_with("502 "));
    assert!(reader.ask("POST").starts_with("440 "));
    assert!(reader.ask("CAPABILITIES").starts_with("101 "));
    let capabilities = reader.block();
    assert!(!capabilities.iter().any(|line| line == "STREAMING" || line == "IHAVE" || line == "POST"));
    assert!(reader.ask("GROUP misc.test").starts_with("211 0 "));
}
