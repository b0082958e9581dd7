//! Bad input: each case of the table gets its code, the session continues where it may, and a second
//! connection is not affected (guarantee G6).

use crate::client::{Client, article};
use crate::running::Server;
use crate::waiting::{let_pass, wait_for, wait_until};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Input with the expected responses.
struct Case {
    name: &'static str,
    send: Vec<u8>,
    /// Beginning of each response line, in order.
    answers: Vec<&'static str>,
}

fn case(name: &'static str, send: impl Into<Vec<u8>>, answers: &[&'static str]) -> Case {
    Case { name, send: send.into(), answers: answers.to_vec() }
}

/// Returns a TAKETHIS with a whole article whose header lines and body are given.
fn takethis(id: &str, rest: &str) -> String {
    format!("TAKETHIS {id}\r\n{rest}.\r\n")
}

/// Returns a well-formed article with one thing replaced.
fn takethis_with(id: &str, from: &str, to: &str) -> String {
    let article = article(id, "misc.test", "body");
    let changed = article.replace(from, to);
    assert_ne!(article, changed);
    format!("TAKETHIS {id}\r\n{changed}")
}

fn command_lines() -> Vec<Case> {
    let long = "x".repeat(600);
    vec![
        case("empty lines", "\r\n\r\n \r\nDATE\r\n", &["111 "]),
        case("bare LF ends a command", "DATE\nDATE\r\n", &["111 ", "111 "]),
        case("512 octets are a command", format!("STAT <{}>\r\n", "x".repeat(503)), &["501 "]),
        case("too long a line", format!("{long}\r\n"), &["501 "]),
        case("too long a line of a known verb", format!("GROUP {long}\r\n"), &["501 "]),
        case("a very long line", "x".repeat(1 << 20) + "\r\n", &["501 "]),
        case("NUL in a command", "GROUP misc\0test\r\n", &["501 "]),
        case("CR in a command", "GROUP misc\rtest\r\n", &["501 "]),
        case("8-bit verb", b"\xff\xfe\r\n".to_vec(), &["500 "]),
        case("8-bit group name", b"GROUP caf\xe9\r\n".to_vec(), &["411 "]),
        case("only NULs", "\0\0\0\r\n", &["500 "]),
        case("path traversal", "GROUP ../../../etc/passwd\r\n", &["411 "]),
        case("absolute path", "GROUP /etc/passwd\r\n", &["411 "]),
        case("wildcards in a group name", "GROUP *\r\n", &["411 "]),
        case("number too large", "STAT 99999999999999999999\r\n", &["501 "]),
        case("negative number", "STAT -1\r\n", &["501 "]),
        case("range of ranges", "OVER 1-2-3\r\n", &["501 "]),
        case("Message-ID without end", "STAT <a@b\r\n", &["501 "]),
        case("Message-ID too long", format!("STAT <{}@b>\r\n", "a".repeat(250)), &["501 "]),
        case("unbalanced wildmat", "LIST ACTIVE [a\r\n", &["501 "]),
        case("bad date", "NEWNEWS * 20209999 999999\r\n", &["501 "]),
        case("bad CHECK argument", "CHECK <a b>\r\n", &["438 <a b>"]),
    ]
}

fn articles() -> Vec<Case> {
    let id = "<bad@x.example>";
    let header = |name: &str| format!("439 {id} missing {name} header");
    let mut cases = vec![
        case("nothing", takethis(id, ""), &["439 <bad@x.example> "]),
        case("no blank line", takethis(id, "Path: a!b\r\n"), &["439 <bad@x.example> no blank line"]),
        case(
            "no colon",
            takethis_with(id, "Subject: ", "Subject "),
            &["439 <bad@x.example> header line without colon"],
        ),
        case(
            "empty header name",
            takethis_with(id, "Subject", ""),
            &["439 <bad@x.example> empty header name"],
        ),
        case("NUL in the body", takethis_with(id, "\r\nbody", "\r\nbo\0dy"), &["439 <bad@x.example> NUL"]),
        case("NUL in a header", takethis_with(id, "Subject: ", "Subject: \0"), &["439 <bad@x.example> NUL"]),
        case("bare LF", takethis_with(id, "\r\nbody", "\r\nbo\ndy"), &["439 <bad@x.example> LF without CR"]),
        case("bare CR", takethis_with(id, "\r\nbody", "\r\nbo\rdy"), &["439 <bad@x.example> CR without LF"]),
        case(
            "LF dot LF is no end",
            takethis_with(id, "\r\nbody", "\r\na\n.\nDATE\r\nb"),
            &["439 <bad@x.example> LF without CR"],
        ),
        case(
            "two From headers",
            takethis_with(id, "Subject:", "From: b@b\r\nSubject:"),
            &["439 <bad@x.example> repeated From"],
        ),
        case(
            "two Message-IDs",
            takethis_with(id, "Subject:", "Message-ID: <b@b>\r\nSubject:"),
            &["439 <bad@x.example> repeated Message-ID"],
        ),
        case(
            "two Xrefs",
            takethis_with(id, "Subject:", "Xref: a b:1\r\nXref: a b:1\r\nSubject:"),
            &["439 <bad@x.example> repeated Xref"],
        ),
        case(
            "no Message-ID in it",
            takethis_with(id, "Message-ID: <bad@x.example>", "Message-ID: none"),
            &["439 <bad@x.example> bad Message-ID"],
        ),
        case(
            "another Message-ID",
            takethis_with(id, "Message-ID: <bad", "Message-ID: <good"),
            &["439 <bad@x.example> Message-ID is not"],
        ),
        case(
            "no date",
            takethis_with(id, "15 Apr 1993 12:00:00 GMT", "some day"),
            &["439 <bad@x.example> bad date"],
        ),
        case(
            "traversal in Newsgroups",
            takethis_with("<t1@x.example>", "misc.test", "../../etc/passwd"),
            &["439 <t1@x.example> no group"],
        ),
        case(
            "commas only",
            takethis_with("<t2@x.example>", "misc.test", ",,"),
            &["439 <t2@x.example> no group"],
        ),
        case(
            "a header block without end",
            takethis_with(id, "Subject:", &format!("X-Long: {}\r\nSubject:", "x".repeat(100_000))),
            &["439 <bad@x.example> headers too large (at most 65536 bytes)"],
        ),
        case(
            "too large",
            takethis_with("<t3@x.example>", "\r\nbody", &format!("\r\n{}", "0123456789\r\n".repeat(20_000))),
            &["439 <t3@x.example> too large (at most 131072 bytes)"],
        ),
        case("bad argument", "TAKETHIS oops\r\nfoo\r\n.\r\n", &["439 oops bad Message-ID"]),
        case("no argument", "TAKETHIS\r\nfoo\r\n.\r\n", &["439  bad Message-ID"]),
    ];
    let answers: Vec<_> = ["Path", "From", "Newsgroups", "Subject", "Date", "Message-ID"]
        .iter()
        .map(|name| (*name, header(name)))
        .collect();
    for (name, answer) in answers {
        let send = takethis_with(id, &format!("{name}: "), "X-Other: ");
        cases.push(case("missing header", send, &[answer.leak()]));
    }
    cases
}

#[test]
fn each_case_gets_its_code_without_affecting_others() {
    let server = Server::start();
    let mut bystander = server.client();
    let mut same = server.client();
    let mut played = 0;
    for case in command_lines().into_iter().chain(articles()) {
        for fresh in [true, false] {
            let mut other;
            let client = if fresh {
                other = server.client();
                &mut other
            } else {
                &mut same
            };
            // Message-IDs that are remembered need another name the second time.
            let renamed = |text: String| if fresh { text } else { text.replace("<t", "<u") };
            let send: String = case.send.iter().map(|&b| b as char).collect();
            client.send(renamed(send).chars().map(|c| c as u8).collect::<Vec<_>>());
            for answer in &case.answers {
                let line = client.line();
                let answer = renamed((*answer).to_owned());
                assert!(line.starts_with(&answer), "{}: {line}, not {answer}", case.name);
            }
            assert!(client.ask("DATE").starts_with("111 "), "{}: the session goes on", case.name);
            assert!(bystander.ask("GROUP misc.test").starts_with("211 0 "), "{}: bystander", case.name);
            played += 1;
        }
    }
    assert!(played > 80, "{played}");
    // Nothing wrong with these articles was remembered, so a good copy is wanted.
    assert_eq!(same.ask("CHECK <bad@x.example>"), "238 <bad@x.example>");
    same.send(format!("TAKETHIS <bad@x.example>\r\n{}", article("<bad@x.example>", "misc.test", "good")));
    assert_eq!(same.line(), "239 <bad@x.example>");
}

#[test]
fn input_sent_octet_by_octet_gets_the_same_answers() {
    let server = Server::start();
    let mut client = server.client();
    let sent = "\r\nDATE\r\nTAKETHIS <slow@x.example>\r\n".to_owned()
        + &article("<slow@x.example>", "misc.test", "..a\r\n.\rb")
        + "TAKETHIS <slow@x.example>\r\n"
        + &article("<slow@x.example>", "misc.test", "..a\r\n.. b")
        + "STAT <slow@x.example>\r\nQUIT\r\n";
    for octet in sent.as_bytes() {
        client.send([*octet]);
    }
    assert!(client.line().starts_with("111 "));
    assert_eq!(client.line(), "439 <slow@x.example> CR without LF");
    assert_eq!(client.line(), "239 <slow@x.example>");
    assert_eq!(client.line(), "223 0 <slow@x.example>");
    assert!(client.line().starts_with("205 "));
    assert_eq!(client.line_or_end(), None);
}

#[test]
fn ten_thousand_pipelined_commands_are_answered() {
    let server = Server::start();
    let mut client = server.client();
    let commands = "STAT <none@x.example>\r\n".repeat(10_000);
    let sender = std::thread::scope(|scope| {
        let mut reading = server.client();
        reading.send(&commands);
        let answers = scope.spawn(move || (0..10_000).filter(|_| reading.line().starts_with("430 ")).count());
        for _ in 0..100 {
            assert!(client.ask("DATE").starts_with("111 "));
        }
        answers.join().unwrap()
    });
    assert_eq!(sender, 10_000);
}

#[test]
fn the_first_of_many_pipelined_answers_does_not_wait_for_the_last() {
    const COMMANDS: usize = 1_000;
    let server = Server::start();
    let mut client = server.client();
    for n in 0..200 {
        let id = format!("<{n}@x.example>");
        client.send(format!("TAKETHIS {id}\r\n{}", article(&id, "misc.test", "body")));
        assert_eq!(client.line(), format!("239 {id}"));
    }
    assert!(client.ask("GROUP misc.test").starts_with("211 "));
    client.send("XPAT Subject 1- *zz*\r\n".repeat(COMMANDS));
    let begun = Instant::now();
    assert!(client.line().starts_with("221 "));
    assert_eq!(client.block(), [""; 0]);
    let first = begun.elapsed();
    for _ in 1..COMMANDS {
        assert!(client.line().starts_with("221 "));
        assert_eq!(client.block(), [""; 0]);
    }
    let all = begun.elapsed();
    assert!(first < all / 2, "{first:?} of {all:?}");
}

#[test]
fn half_closed_connections_are_served_to_the_end() {
    let server = Server::start();
    let mut client = server.client();
    client.send(format!(
        "DATE\r\nTAKETHIS <h@x.example>\r\n{}DATE\r\nDAT",
        article("<h@x.example>", "misc.test", "b")
    ));
    client.half_close();
    assert!(client.line().starts_with("111 "));
    assert_eq!(client.line(), "239 <h@x.example>");
    assert!(client.line().starts_with("111 "));
    assert_eq!(client.line_or_end(), None);
    // An incomplete article is not filed.
    let mut client = server.client();
    client.send("TAKETHIS <i@x.example>\r\nPath: a!b\r\n");
    client.half_close();
    assert_eq!(client.line_or_end(), None);
    assert_eq!(server.client().ask("CHECK <i@x.example>"), "238 <i@x.example>");
}

#[test]
fn idle_connections_are_closed_silently() {
    let server = Server::start_with(|text| text.replace("\"3 min\"", "\"1 s\""));
    let begun = Instant::now();
    let mut client = server.client();
    // On a machine that stalls for a second the command comes too late, and is not answered.
    let _too_late = client.try_send("DATE\r\n");
    let said = client.rest();
    assert!(said.is_empty() || said.starts_with("111 ") && said.lines().count() == 1, "{said}");
    assert!(begun.elapsed() > Duration::from_millis(900), "{:?}", begun.elapsed());
}

/// More than a command line, without its end.
const LONG: &str = match std::str::from_utf8(&[b'y'; 700]) {
    Ok(text) => text,
    Err(_) => "",
};

/// Sends `opening` and then an octet now and then, and expects responses with these beginnings before the
/// 400.
fn dribble(mut client: Client, opening: &str, answers: &[&str]) {
    client.send(opening);
    let mut sender = client.sender();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) && sender.write_all(b"z").is_ok() {
                let_pass(Duration::from_millis(100), "octets come slowly");
            }
        });
        for answer in answers.iter().chain(&["400 Timed out"]) {
            let line = client.line_or_end();
            assert!(line.as_ref().is_some_and(|line| line.starts_with(answer)), "{opening}: {line:?}");
        }
        assert_eq!(client.line_or_end(), None);
        ended.store(true, Ordering::Relaxed);
    });
}

#[test]
fn clients_that_send_too_slowly_are_cut_off() {
    let server = Server::start_with(|text| text.replace("\"1 min\"", "\"1 s\""));
    std::thread::scope(|scope| {
        for (opening, answers) in [
            ("DAT", &[][..]),
            ("TAKETHIS <d@x.example>\r\nPath: ", &[]),
            ("IHAVE <d@x.example>\r\n", &["335 "]),
            ("POST\r\n", &["340 "]),
            (LONG, &["501 "]),
        ] {
            let client = server.client();
            scope.spawn(move || dribble(client, opening, answers));
        }
    });
    // The article is available again once the sessions that reserved it have ended.
    let mut client = server.client();
    wait_for(|| client.ask("CHECK <d@x.example>"), |answer| answer == "238 <d@x.example>");
}

#[test]
fn clients_that_do_not_read_are_cut_off_without_delaying_others() {
    let server = Server::start_with(|text| {
        text.replace("command_timeout", "write_timeout = \"1 s\"\ncommand_timeout")
    });
    let mut feed = server.client();
    for i in 0..40 {
        let id = format!("<big{i}@x.example>");
        feed.send(format!("TAKETHIS {id}\r\n{}", article(&id, "misc.test", &"0123456789".repeat(10_000))));
        assert_eq!(feed.line(), format!("239 {id}"));
    }
    let mut deaf = server.client();
    deaf.send("GROUP misc.test\r\n");
    deaf.send("ARTICLE 1\r\n".repeat(2_000));
    wait_until("the server ends the deaf connection", || {
        assert!(feed.ask("DATE").starts_with("111 "));
        server.status()["connections"] == 1
    });
    let got = deaf.rest().len();
    assert!(got < 100 << 20, "{got} bytes came in spite of the timeout");
}

#[test]
fn strangers_and_excess_connections_are_rejected() {
    let server = Server::start_with(|text| {
        text.replace("from = [\"127.0.0.1\"]", "from = [\"127.0.0.2\"]")
            .replace("addresses = [\"127.0.0.1\"]", "addresses = [\"127.0.0.3\"]")
    });
    let mut stranger = Client::connect(server.address);
    assert!(stranger.line().starts_with("502 "));
    assert_eq!(stranger.line_or_end(), None);
    drop(server);

    let server = Server::start_with(|text| text.replace("max_connections = 8000", "max_connections = 2"));
    let (first, _second) = (server.client(), server.client());
    let mut third = Client::connect(server.address);
    assert!(third.line().starts_with("400 "));
    assert_eq!(third.line_or_end(), None);
    drop(first);
    wait_for(|| Client::connect(server.address).line(), |greeting| greeting.starts_with("200 "));
}
