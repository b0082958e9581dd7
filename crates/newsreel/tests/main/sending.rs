//! `newsreel send`: articles of files and groups to a server, by streaming and by IHAVE.

use crate::client::article;
use crate::feeds::odd_peer::OddPeer;
use crate::operated::{Operated, complaints};
use crate::running::Server;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Returns an article as stored in a file.
fn text(n: usize, group: &str) -> String {
    let wire = article(&format!("<{n}@x.example>"), group, &format!("..dot\r\nbody of {n}"));
    wire.replace("\r\n..", "\r\n.").replace("\r\n", "\n").strip_suffix(".\n").unwrap().to_owned()
}

fn batch(numbers: std::ops::Range<usize>, group: &str) -> String {
    numbers.map(|n| text(n, group)).map(|text| format!("#! rnews {}\n{text}", text.len())).collect()
}

fn site() -> Operated {
    let site = Operated::new();
    site.edit(|text| text.replacen("max_age_days = 10", "max_age_days = \"none\"", 1));
    site
}

fn printed(output: &std::process::Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn batches_articles_and_groups_are_sent_by_streaming_and_ihave() {
    for streaming in [true, false] {
        let other = Server::start_with(|text| {
            text.replace("[[peer]]", &format!("[[peer]]\nstreaming = {streaming}"))
        });
        let to = other.address.to_string();
        let site = site();
        let file = site.home().join("batch");
        let whole = batch(0..300, "misc.test") + &batch(300..310, "no.such") + "#! rnews 9\nnonsense\n";
        fs::write(&file, zstd::encode_all(whole.as_bytes(), 1).unwrap()).unwrap();
        let send = |what: &str| site.run(&["send", what, &to]);
        let sent = send(file.to_str().unwrap());
        assert_eq!(sent.status.code(), Some(1), "{}", complaints(&sent));
        let said = printed(&sent);
        assert!(said.starts_with("310 articles offered: 300 accepted ("), "{said}");
        assert!(said.ends_with("), 0 not wanted, 10 rejected, 1 damaged pieces not sent\n"), "{said}");
        assert_eq!(complaints(&sent).matches("no group carried here").count(), 10, "{}", complaints(&sent));
        let again = printed(&send(file.to_str().unwrap()));
        assert!(again.contains(": 0 accepted (0 B), 310 not wanted, 0 rejected"), "{again}");
        let one = site.run_with(&["send", "-", &to, "--json"], text(400, "misc.test").as_bytes());
        let counts: serde_json::Value = serde_json::from_str(&printed(&one)).unwrap();
        assert_eq!((&counts["offered"], &counts["accepted"]), (&1.into(), &1.into()), "{}", complaints(&one));
        let mut client = other.client();
        assert!(client.ask("GROUP misc.test").starts_with("211 301 "));
        assert!(client.ask("BODY <7@x.example>").starts_with("222 "));
        assert_eq!(client.block(), ["..dot", "body of 7"]);
        // The articles of a group, from the spool and through a server.
        site.done(&["group", "add", "misc.test"]);
        assert!(site.run_with(&["rnews"], batch(500..520, "misc.test").as_bytes()).status.success());
        let group = send("misc.test");
        assert!(printed(&group).starts_with("20 articles offered: 20 accepted ("), "{}", complaints(&group));
        let serving = site.serve();
        assert!(site.run_with(&["rnews"], batch(520..530, "misc.test").as_bytes()).status.success());
        let group = send("misc.test");
        let said = printed(&group);
        assert!(
            said.starts_with("30 articles offered: 10 accepted (") && said.contains("20 not wanted"),
            "{said}"
        );
        drop(serving);
        assert!(client.ask("GROUP misc.test").starts_with("211 331 "));
        for (what, to, code, why) in [
            ("no.such", to.as_str(), 2, "there is no file and no group no.such"),
            ("/no/such/file", &to, 2, "there is no file /no/such/file"),
            ("misc.test", "127.0.0.1:1", 75, "cannot connect to"),
        ] {
            let output = site.run(&["send", what, to]);
            assert_eq!(output.status.code(), Some(code), "{what}: {}", complaints(&output));
            assert!(complaints(&output).contains(why), "{what}: {}", complaints(&output));
        }
    }
}

/// Starts a peer that hangs up in the middle, defers every seventh article the first time, and answers the
/// others as they come; returns counts of connections and articles.
fn fickle() -> (SocketAddr, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (connections, taken) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (connections.clone(), taken.clone());
    thread::spawn(move || {
        let mut known = std::collections::HashSet::new();
        let mut asked = std::collections::HashSet::new();
        for stream in listener.incoming() {
            let connection = counts.0.fetch_add(1, Ordering::Relaxed);
            let _broken = converse(stream.unwrap(), connection, &mut known, &mut asked, &counts.1);
        }
    });
    (address, connections, taken)
}

fn converse(
    stream: TcpStream,
    connection: usize,
    known: &mut std::collections::HashSet<String>,
    asked: &mut std::collections::HashSet<String>,
    taken: &AtomicUsize,
) -> std::io::Result<()> {
    let mut out = stream.try_clone()?;
    let mut lines = BufReader::new(stream).lines();
    write!(out, "200 fickle\r\n")?;
    let mut articles = 0;
    while let Some(line) = lines.next() {
        let line = line?;
        let (verb, id) = line.split_once(' ').unwrap_or((&line, ""));
        match verb {
            "MODE" => write!(out, "203 streaming\r\n")?,
            "QUIT" => return write!(out, "205 bye\r\n"),
            "CHECK" if known.contains(id) => write!(out, "438 {id}\r\n")?,
            "CHECK" if asked.insert(id.to_owned()) && asked.len().is_multiple_of(7) => {
                write!(out, "431 {id}\r\n")?
            }
            "CHECK" => write!(out, "238 {id}\r\n")?,
            "TAKETHIS" => {
                while lines.next().is_some_and(|line| line.is_ok_and(|line| line != ".")) {}
                articles += 1;
                // Recorded before the sender can know of it.
                known.insert(id.to_owned());
                taken.store(known.len(), Ordering::Relaxed);
                if connection < 3 && articles > 20 {
                    // Accepted, but not answered.
                    return Ok(());
                }
                write!(out, "239 {id}\r\n")?;
            }
            _ => write!(out, "500 what?\r\n")?,
        }
    }
    Ok(())
}

#[test]
fn all_articles_are_sent_despite_broken_connections_and_deferrals() {
    let (address, connections, taken) = fickle();
    let site = site();
    let file = site.home().join("batch");
    fs::write(&file, batch(0..300, "misc.test")).unwrap();
    let sent = site.run(&["send", file.to_str().unwrap(), &address.to_string()]);
    assert!(sent.status.success(), "{}", complaints(&sent));
    let said = printed(&sent);
    assert!(said.starts_with("300 articles offered: ") && !said.contains("later"), "{said}");
    // An article that was accepted without a response is not wanted the second time.
    let number = |before: &str| -> usize {
        let words: Vec<&str> = said.split_once(before).unwrap().0.rsplit([' ', ':', ',']).collect();
        words[0].parse().unwrap()
    };
    assert_eq!(number(" accepted (") + number(" not wanted"), 300, "{said}");
    assert!(said.contains(" 0 rejected"), "{said}");
    assert!(connections.load(Ordering::Relaxed) >= 4);
    assert_eq!(taken.load(Ordering::Relaxed), 300);
}

#[test]
fn send_skips_articles_with_odd_responses_or_broken_connections() {
    for (streaming, verb, answer) in [
        (true, "CHECK", "501 too long"),
        (true, "CHECK", "HANG UP"),
        (true, "CHECK", "238 <other@x.example>"),
        (true, "TAKETHIS", "437 unwanted"),
        (true, "TAKETHIS", "what?"),
        (false, "IHAVE", "438 had it"),
        (false, "ARTICLE", "501 bad"),
        (false, "IHAVE", "HANG UP"),
    ] {
        let peer = OddPeer::start(streaming, move |own, id, _| {
            (own == verb && id == "<2@x.example>").then(|| answer.to_owned())
        });
        let site = site();
        let sent =
            site.run_with(&["send", "-", &peer.address.to_string()], batch(0..6, "misc.test").as_bytes());
        let said = printed(&sent);
        assert_eq!(peer.articles().len(), 5, "{verb} {answer}: {said}");
        assert!(
            said.starts_with("6 articles offered: ")
                && said.contains(", 1 given up after unexpected answers"),
            "{verb} {answer}: {said}"
        );
        let complaints = complaints(&sent);
        assert!(complaints.contains("<2@x.example>: given up after 3 unexpected answers"), "{complaints}");
        assert_eq!((sent.status.code(), peer.count(verb, "<2@x.example>")), (Some(1), 3), "{verb} {answer}");
    }
}

#[test]
fn send_gives_up_no_article_for_a_missing_or_expired_login() {
    let is_it = |verb: &str, id: &str| verb == "CHECK" && id == "<2@x.example>";
    let peer = OddPeer::start(true, move |verb, id, _| is_it(verb, id).then(|| "480 log in".to_owned()));
    let sent =
        site().run_with(&["send", "-", &peer.address.to_string()], batch(0..6, "misc.test").as_bytes());
    let said = printed(&sent);
    assert_eq!((peer.articles().len(), peer.count("CHECK", "<2@x.example>")), (5, 3), "{said}");
    assert!(said.contains("later") && !said.contains("given up"), "{said}");
    let complaints_about = complaints(&sent);
    assert_eq!(complaints_about.matches("480 log in").count(), 1, "{complaints_about}");
    assert!(complaints_about.contains("<2@x.example>: wanted later"), "{complaints_about}");
    // With a login the connection is replaced; if it happens again the server is at fault.
    for (times, code) in [(3, Some(0)), (usize::MAX, Some(75))] {
        let peer = OddPeer::start(true, move |verb, id, before| {
            // Each time after others were answered, or never.
            let is_asked = if times == 3 { is_it(verb, id) && before < 1 } else { verb == "CHECK" };
            is_asked.then(|| "480 log in".to_owned())
        });
        let site = site();
        let password = site.home().join("password");
        fs::write(&password, "secret\n").unwrap();
        let to = peer.address.to_string();
        let arguments = ["send", "-", &to, "--user", "fred", "--password-file", password.to_str().unwrap()];
        let sent = site.run_with(&arguments, batch(0..6, "misc.test").as_bytes());
        assert_eq!(sent.status.code(), code, "{} {}", printed(&sent), complaints(&sent));
        assert_eq!(peer.connections(), 2, "{}", complaints(&sent));
        let honours = !complaints(&sent).contains("no longer honours the login");
        assert_eq!((honours, peer.articles().len()), if times == 3 { (true, 6) } else { (false, 0) });
    }
}

#[test]
fn send_exits_with_2_for_a_missing_file_and_with_1_where_trying_again_cannot_help() {
    let site = site();
    for missing in ["no/such/batch", "no.such.batch"] {
        let sent = site.run_with(&["send", missing, "127.0.0.1:9"], b"");
        assert_eq!(sent.status.code(), Some(2), "{}", complaints(&sent));
        assert!(complaints(&sent).contains("there is no file"), "{}", complaints(&sent));
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _sent = std::io::Write::write_all(&mut stream, b"502 not you\r\n");
        }
    });
    let sent = site.run_with(&["send", "-", &to], batch(0..2, "misc.test").as_bytes());
    assert_eq!(sent.status.code(), Some(1), "{}", complaints(&sent));
    assert!(complaints(&sent).contains("502 not you"), "{}", complaints(&sent));
}

#[test]
fn send_ends_when_a_server_has_only_odd_responses() {
    let peer = OddPeer::start(true, |verb, _, _| (verb == "CHECK").then(|| "500 what?".to_owned()));
    let sent =
        site().run_with(&["send", "-", &peer.address.to_string()], batch(0..60, "misc.test").as_bytes());
    assert_eq!(sent.status.code(), Some(75), "{}", complaints(&sent));
    assert!(complaints(&sent).contains("unexpected answers about articles"), "{}", complaints(&sent));
}
