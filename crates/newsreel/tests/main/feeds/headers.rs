//! Feeds of headers, whose bodies are fetched on demand.

use super::{hand_in, hand_in_all, id, section_to, status};
use crate::client::{Client, article};
use crate::running::Server;
use crate::upstreams::fake::{Fake, id as fake_id};
use crate::waiting::{let_pass, wait_for};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Starts a server that accepts headers from the test's address, and fetches bodies from these servers,
/// without a tight time limit.
fn taking_headers(servers: &[SocketAddr]) -> Server {
    taking_headers_within("1 min", servers, |text| text)
}

/// Like [`taking_headers`], with another time limit and configuration.
fn taking_headers_within(
    timeout: &str,
    servers: &[SocketAddr],
    edit: impl FnOnce(String) -> String,
) -> Server {
    let sections = servers.iter().enumerate().map(|(n, address)| {
        format!("\n[[body_server]]\nname = \"spool{n}\"\nfrom = \"{address}\"\ntimeout = \"{timeout}\"\n")
    });
    let sections: String = sections.collect();
    Server::start_with(|text| {
        let text = text.replace("\"site.example\"", "\"reader.example\"");
        edit(text.replace("xbatch = true", "headers_only = true")) + &sections
    })
}

/// Returns the number of stored articles, bodies included.
fn stored(server: &Server) -> u64 {
    let (replies, ok) = server.control(&serde_json::json!({ "do": "status" }));
    assert!(ok, "{replies:?}");
    replies[0]["status"]["spool"]["articles"].as_u64().unwrap()
}

/// Returns an article without the lines that each server has of its own.
fn common(article: &[String]) -> Vec<String> {
    let own = |line: &&String| !line.starts_with("Path: ") && !line.starts_with("Xref: ");
    article.iter().filter(own).cloned().collect()
}

/// Returns the block of a response with this code.
fn block(client: &mut Client, command: &str, code: &str) -> Vec<String> {
    let answer = client.ask(command);
    assert!(answer.starts_with(code), "{command}: {answer}");
    client.block()
}

/// Returns the headers of an article, as a feed of headers sends them.
fn headers_of(article: &str, lines: usize) -> String {
    let head = article.split("\r\n\r\n").next().unwrap();
    format!("{head}\r\nBytes: {}\r\nLines: {lines}\r\n\r\n.\r\n", article.len() - 3)
}

#[test]
fn bodies_are_fetched_on_demand_and_kept() {
    let upper = Server::start();
    let lower = taking_headers(&[upper.address]);
    let keys = "headers_only = true";
    upper.reload(|text| text + &section_to("down.example", lower.address, keys)).unwrap();
    let texts = ["one\r\n..two\r\n\r\nthree", "x", "", "nobody reads this"];
    let all: Vec<_> =
        texts.iter().enumerate().map(|(n, text)| (id(n), article(&id(n), "misc.test", text))).collect();
    hand_in_all(&mut upper.client(), &all);
    let (mut above, mut below) = (upper.client(), lower.client());
    wait_for(
        || (below.ask(&format!("STAT {}", id(3))), status(&upper, "down.example")),
        |(answer, _)| answer.starts_with("223"),
    );
    // Commands that need no bodies.
    for client in [&mut above, &mut below] {
        client.ask("GROUP misc.test");
    }
    let lines = |rows: Vec<String>| -> Vec<String> {
        rows.iter().map(|row| row.split('\t').nth(7).unwrap().to_owned()).collect()
    };
    assert_eq!(lines(block(&mut below, "OVER 1-4", "224")), lines(block(&mut above, "OVER 1-4", "224")));
    let head = block(&mut below, &format!("HEAD {}", id(3)), "221");
    assert!(head.iter().any(|line| line.starts_with("Bytes: ")), "{head:?}");
    let row = block(&mut below, &format!("OVER {}", id(3)), "224");
    assert_eq!(lines(row), ["1"]);
    assert_eq!(stored(&lower), 4, "nothing was fetched");
    // Each command that fetches a body.
    for (n, command) in
        [(0, "ARTICLE 1".to_owned()), (1, format!("ARTICLE {}", id(1))), (2, "ARTICLE 3".into())]
    {
        let original = block(&mut above, &command, "220");
        for _ in 0..2 {
            assert_eq!(common(&block(&mut below, &command, "220")), common(&original), "{n}");
        }
    }
    let path = block(&mut below, "ARTICLE 1", "220").into_iter().find(|line| line.starts_with("Path: "));
    let path = path.unwrap();
    assert!(
        path.starts_with("Path: reader.example!")
            && path.ends_with("!site.example!!peer.example!not-for-mail"),
        "{path}"
    );
    assert_eq!(block(&mut below, "BODY 1", "222"), ["one", "..two", "", "three"]);
    // Fetched bodies are kept, the rest is unavailable.
    drop(above);
    drop(upper);
    assert_eq!(block(&mut below, &format!("BODY {}", id(0)), "222"), ["one", "..two", "", "three"]);
    for command in [format!("ARTICLE {}", id(3)), "BODY 4".into()] {
        assert!(below.ask(&command).starts_with("403 "), "{command}");
    }
    assert_eq!(block(&mut below, "HEAD 4", "221"), head);
    assert_eq!(stored(&lower), 7, "three bodies");
}

/// Starts a server that answers ARTICLE by a script, after a while; returns a count of the requests.
fn scripted(
    answer: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let (count, answer) = (asked.clone(), Arc::new(answer));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (count, answer) = (count.clone(), answer.clone());
            std::thread::spawn(move || converse(&stream.unwrap(), &count, &*answer));
        }
    });
    (address, asked)
}

fn converse(mut stream: &TcpStream, asked: &AtomicUsize, answer: &dyn Fn(&str) -> Option<String>) {
    let mut lines = BufReader::new(stream).lines();
    let mut reply = Some("200 ready\r\n".to_owned());
    while let Some(text) = reply {
        // The other side may have closed.
        if stream.write_all(text.as_bytes()).is_err() {
            return;
        }
        let Some(Ok(line)) = lines.next() else { return };
        reply = match line.split_once(' ') {
            Some(("ARTICLE", id)) => {
                asked.fetch_add(1, Ordering::SeqCst);
                let_pass(Duration::from_millis(200), "others ask for this body before it is there");
                answer(id)
            }
            _ if line == "CAPABILITIES" => Some("101 these\r\nVERSION 2\r\nREADER\r\n.\r\n".to_owned()),
            _ => Some("500 what?\r\n".to_owned()),
        };
    }
}

/// Feeds the headers of this article.
fn bring(server: &Server, article: &str) {
    let mut client = server.client();
    assert!(client.ask("MODE HEADFEED").starts_with("250 "));
    let id = article.split("Message-ID: ").nth(1).unwrap().split("\r\n").next().unwrap();
    client.send(format!("TAKETHIS {id}\r\n{}", headers_of(article, 1)));
    assert_eq!(client.line().trim_end(), format!("239 {id}"));
}

#[test]
fn simultaneous_readers_share_one_fetch() {
    let whole = article(&id(0), "misc.test", "the body");
    let answer = whole.clone();
    let (address, asked) = scripted(move |id| Some(format!("220 0 {id}\r\n{answer}")));
    let server = taking_headers(&[address]);
    bring(&server, &whole);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut client = server.client();
                assert_eq!(block(&mut client, &format!("BODY {}", id(0)), "222"), ["the body"]);
            });
        }
    });
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn body_of_a_kept_article_is_stored_in_buffers() {
    let whole = article(&id(0), "misc.test", "the body");
    let answer = whole.clone();
    let (address, asked) = scripted(move |id| Some(format!("220 0 {id}\r\n{answer}")));
    let files = "[[class]]\nname = \"files\"\nmethod = \"tradspool\"\n\n[[rule]]\nclass = \"files\"\n\
                 groups = \"misc.*\"\n\n[[rule]]";
    let server = taking_headers_within("1 min", &[address], |text| text.replacen("[[rule]]", files, 1));
    bring(&server, &whole);
    for _ in 0..3 {
        assert_eq!(block(&mut server.client(), &format!("BODY {}", id(0)), "222"), ["the body"]);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(stored(&server), 2);
}

#[test]
fn mismatched_bodies_are_rejected() {
    let whole = article(&id(0), "misc.test", "the body");
    let lies: [fn(&str) -> Option<String>; 6] = [
        // Another Message-ID; the right one with another author; no body; another size; a truncated article;
        // nothing.
        |id| Some(format!("220 0 {id}\r\n{}", article("<other@x>", "misc.test", "a lie"))),
        |id| {
            Some(format!("220 0 {id}\r\n{}", article(id, "misc.test", "a lie").replace("A Tester", "Nobody")))
        },
        |id| Some(format!("220 0 {id}\r\n{}", headers_of(&article(id, "misc.test", "a lie"), 1))),
        |id| Some(format!("220 0 {id}\r\n{}", article(id, "misc.test", &"a lie\r\n".repeat(200)))),
        |id| Some(format!("220 0 {id}\r\nPath: x\r\nFrom: ")),
        |_| None,
    ];
    for (n, lie) in lies.into_iter().enumerate() {
        let (liar, asked) = scripted(lie);
        // One of them sends nothing more and stays connected.
        let server = taking_headers_within("1 s", &[liar], |text| text);
        bring(&server, &whole);
        let mut client = server.client();
        let answer = client.ask(&format!("ARTICLE {}", id(0)));
        assert!(answer.starts_with("403 "), "{n}: {answer}");
        assert_eq!(asked.load(Ordering::SeqCst), 1, "{n}");
        // Nothing of it was kept, and the next server is asked.
        let answer = whole.clone();
        let (honest, _) = scripted(move |id| Some(format!("220 0 {id}\r\n{answer}")));
        let next = format!("\n[[body_server]]\nname = \"honest\"\nfrom = \"{honest}\"\n");
        server.reload(|text| text + &next).unwrap();
        assert_eq!(block(&mut client, &format!("BODY {}", id(0)), "222"), ["the body"], "{n}");
    }
    let (without, _) = scripted(|_| Some("430 no\r\n".to_owned()));
    let server = taking_headers(&[without]);
    bring(&server, &whole);
    assert!(server.client().ask(&format!("ARTICLE {}", id(0))).starts_with("430 "));
    assert!(server.client().ask(&format!("HEAD {}", id(0))).starts_with("221 "));
}

#[test]
fn headers_are_accepted_only_from_permitted_peers_that_announced_them() {
    let headers = headers_of(&article(&id(0), "misc.test", "the body"), 1);
    for (server, says, answer) in
        [(Server::start(), true, "502 "), (taking_headers(&["127.0.0.1:9".parse().unwrap()]), false, "250 ")]
    {
        let mut client = server.client();
        if says {
            assert!(client.ask("MODE HEADFEED").starts_with(answer));
        }
        client.send(format!("TAKETHIS {}\r\n{headers}", id(0)));
        assert_eq!(client.line().trim_end(), format!("439 {} only the headers", id(0)));
        // A whole copy may still come.
        hand_in(&mut client, 0..1, "misc.test");
    }
}

#[test]
fn body_server_is_logged_in_to_again_after_the_login_has_lapsed() {
    let fake = Fake::with("misc.test", 4, 500);
    let password = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&password, "secret\n").unwrap();
    let login = format!("user = \"fred\"\npassword_file = {:?}\n", password.path());
    let server = taking_headers(&[fake.address]);
    server.reload(|text| text + &login).unwrap();
    let mut whole = Vec::new();
    fake.change(|groups| whole.extend(groups["misc.test"].articles.values().cloned()));
    whole.iter().for_each(|text| bring(&server, &(text.clone() + ".\r\n")));
    let mut client = server.client();
    for number in 1..=3 {
        let body = block(&mut client, &format!("BODY {}", fake_id("misc.test", number)), "222");
        assert!(body.len() > 3, "{body:?}");
        assert_eq!(fake.take("AUTHINFO PASS").len(), 1, "{number}");
        fake.log_out(false);
    }
    // A new login is no better.
    fake.log_out(true);
    assert!(client.ask(&format!("BODY {}", fake_id("misc.test", 4))).starts_with("403 "));
}
