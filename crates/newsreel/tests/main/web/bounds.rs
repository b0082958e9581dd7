//! Limits on the time and memory that one page or client may use over HTTP.

use super::http::{address, connect, get};
use crate::client::Client;
use crate::operated::Operated;
use crate::running::Server;
use crate::waiting::{let_pass, wait_for};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Feeds these articles to misc.test: additional header lines, and a body.
fn hand_in(client: &mut Client, articles: impl Iterator<Item = (String, String)>) {
    for (n, (head, body)) in articles.enumerate() {
        client.send(format!(
            "TAKETHIS <{n}@x.example>\r\nPath: peer.example!not-for-mail\r\nFrom: Jane <j@x.example>\r\n\
             Message-ID: <{n}@x.example>\r\nDate: Thu, 1 Jan 2026 00:00:00 +0000\r\nNewsgroups: misc.test\r\n\
             {head}\r\n{body}.\r\n"
        ));
        let answer = client.line();
        assert!(answer.starts_with("239"), "{answer}");
    }
}

/// Starts the test site with pages and these articles.
fn site(web_keys: &str, articles: impl Iterator<Item = (String, String)>) -> (Server, SocketAddr) {
    let server = Server::start();
    hand_in(&mut server.client(), articles);
    server.reload(|text| format!("{text}\n[web]\nlisten = [\"127.0.0.1:0\"]\n{web_keys}\n")).unwrap();
    let address = address(&server);
    (server, address)
}

#[test]
fn page_with_many_colons_and_brackets_is_fast() {
    let line = format!("{}{} \r\n", "abc:".repeat(250), ")".repeat(1_000));
    let urls = format!("{}{} \r\n", "http:".repeat(200), ")".repeat(1_000));
    let articles = [line, urls].map(|line| ("Subject: x\r\n".to_owned(), line.repeat(16)));
    let (server, address) = site("", articles.into_iter());
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for n in 0..6 {
            scope.spawn(move || {
                assert_eq!(get(address, &format!("/article/{}%40x.example", n % 2)).status, 200)
            });
        }
        assert!(server.client().ask("DATE").starts_with("111 "));
    });
    // Takes some milliseconds; rescanning a line for each colon would take a minute.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn thread_with_absent_ancestors_takes_linear_time() {
    let references = |n: usize| {
        let ids: Vec<String> = (49 * n..49 * n + 50).map(|id| format!("<{id:x}@a>")).collect();
        (format!("Subject: x\r\nReferences: {}\r\n", ids.join(" ")), "x\r\n".to_owned())
    };
    let (_server, address) = site("page_timeout = \"30 s\"", (0..300).map(references));
    let begun = Instant::now();
    let page = get(address, "/groups/misc.test/thread/100%40x.example");
    assert_eq!(page.status, 200);
    assert!(page.body.contains("of 300 articles"), "{}", page.body);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// Returns the `n`th article of one thread, about 32 KB.
fn large_article(n: usize) -> (String, String) {
    let references = if n == 0 { String::new() } else { "References: <0@x.example>\r\n".to_owned() };
    (format!("Subject: x\r\n{references}"), format!("{}\r\n", "x".repeat(78)).repeat(400))
}

#[test]
fn unread_downloads_stay_within_the_memory_limit_and_complete_later() {
    const ARTICLES: usize = 40;
    let (server, address) =
        site("memory_max = \"1 MiB\"\npage_timeout = \"5 min\"", (0..ARTICLES).map(large_article));
    let request = format!(
        "GET /groups/misc.test/thread/1%40x.example/mbox HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    );
    let mut unread: Vec<_> = (0..20).map(|_| connect(address)).collect();
    unread.iter_mut().for_each(|socket| socket.write_all(request.as_bytes()).unwrap());
    assert_eq!(get(address, "/health").status, 200);
    assert!(server.client().ask("DATE").starts_with("111 "));
    std::thread::scope(|scope| {
        for mut socket in unread {
            scope.spawn(move || {
                let mut octets = Vec::new();
                socket.read_to_end(&mut octets).unwrap();
                let text = String::from_utf8(octets).unwrap();
                assert!(text.starts_with("HTTP/1.1 200"), "{:?}", text.get(..200));
                assert_eq!(text.matches("From newsreel ").count(), ARTICLES);
                assert!(text.ends_with("0\r\n\r\n"), "the download has an end");
            });
        }
    });
    assert_eq!(get(address, "/groups/misc.test").status, 200, "the memory is given back");
}

#[test]
fn requests_without_memory_get_retry_after() {
    let keys = "memory_max = \"1 MiB\"\npage_timeout = \"100 ms\"\nconnections_per_address_max = 500";
    // More than the sockets buffer.
    let (_server, address) = site(keys, (0..400).map(large_article));
    let mbox = format!("GET /groups/misc.test/thread/1%40x.example/mbox HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let mut unread = Vec::new();
    let begun = Instant::now();
    // Another page each time, as pages are kept.
    let mut articles = 0..400;
    let refused = loop {
        let next = articles.next().expect("a refusal before the last article");
        let answer = get(address, &format!("/article/{next}%40x.example"));
        if answer.status != 200 {
            break answer;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is refused");
        let mut socket = connect(address);
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4096).unwrap();
        socket.write_all(mbox.as_bytes()).unwrap();
        unread.push(socket);
    };
    assert_eq!((refused.status, refused.header("Retry-After")), (503, Some("5")));
    drop(unread);
    wait_for(|| get(address, "/article/1%40x.example").status, |status| *status == 200);
}

#[test]
fn connections_beyond_the_limit_are_told_so() {
    let (_server, address) = site("connections_per_address_max = 2", std::iter::empty());
    let held = [connect(address), connect(address)];
    // The refusal is never lost to the request that crosses it.
    for _ in 0..50 {
        let refused = get(address, "/health");
        assert_eq!((refused.status, refused.header("Retry-After")), (503, Some("5")));
    }
    drop(held);
    wait_for(|| get(address, "/health").status, |status| *status == 200);
}

/// Requests the mbox of the thread of article 1, and reads only the status.
fn unread_mbox(address: SocketAddr) -> TcpStream {
    let mut socket = connect(address);
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4096).unwrap();
    let request =
        format!("GET /groups/misc.test/thread/1%40x.example/mbox HTTP/1.1\r\nHost: {address}\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let mut status = [0; 12];
    socket.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    socket
}

#[test]
fn unread_downloads_of_large_articles_stay_within_the_memory() {
    const DOWNLOADS: usize = 60;
    let large = |n: usize| {
        let references = if n == 0 { "" } else { "References: <0@x.example>\r\n" };
        // The requested one is small, so that there is room to look it up.
        let lines = if n == 1 { 1 } else { 13_000 };
        (format!("Subject: x\r\n{references}"), format!("{}\r\n", "x".repeat(78)).repeat(lines))
    };
    // In a separate process, whose memory can be measured.
    let site = Operated::with(&["--peer", "127.0.0.1"]);
    site.done(&["group", "add", "misc.test"]);
    let keys = "memory_max = \"4 MiB\"\nconnections_per_address_max = 500";
    site.edit(|text| format!("{text}\n[web]\nlisten = [\"127.0.0.1:0\"]\n{keys}\n"));
    let server = site.serve();
    hand_in(&mut server.client(), (0..4).map(large));
    let status: serde_json::Value = serde_json::from_str(&site.done(&["status", "--json"])).unwrap();
    let address: SocketAddr = status["server"]["web"][0].as_str().unwrap().parse().unwrap();
    // Memory used for filing is included.
    let before = server.memory_kib();
    let mut unread: Vec<TcpStream> = (0..DOWNLOADS).map(|_| unread_mbox(address)).collect();
    let most = (0..100).map(|_| {
        let_pass(Duration::from_millis(20), "the server may read ahead for connections that take nothing");
        server.memory_kib()
    });
    let most = most.max().unwrap();
    // The budget, and for each connection its buffers. One article per connection would be 60 MiB.
    assert!(most.saturating_sub(before) < 24 << 10, "{before} KiB, then {most} KiB");
    let mut first = unread.swap_remove(0);
    drop(unread);
    first.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut octets = Vec::new();
    let mut piece = vec![0; 64 << 10];
    while !octets.ends_with(b"0\r\n\r\n") {
        let read = first.read(&mut piece).unwrap();
        assert!(read > 0, "the download has an end");
        octets.extend_from_slice(&piece[..read]);
    }
    assert_eq!(String::from_utf8(octets).unwrap().matches("From newsreel ").count(), 4);
}

#[test]
fn thread_of_an_article_is_found_after_large_rows() {
    let large = |n: usize| {
        let mut ids: Vec<String> = (0..2_500).map(|id| format!("<{id}.{n}.xxxxxx@y>")).collect();
        ids.push("<0@x.example>".to_owned());
        let lines: Vec<String> = ids.chunks(20).map(|ids| ids.join(" ")).collect();
        (format!("Subject: large {n}\r\nReferences: {}\r\n", lines.join("\r\n ")), "x\r\n".to_owned())
    };
    let plain = || ("Subject: plain\r\n".to_owned(), "x\r\n".to_owned());
    let articles = (0..220).map(large).chain(std::iter::once(plain()));
    let (_server, address) = site("page_timeout = \"60 s\"", articles);
    assert_eq!(get(address, "/article/220%40x.example").status, 200);
    let page = get(address, "/groups/misc.test/thread/220%40x.example");
    assert_eq!(page.status, 200, "{}", page.body);
    assert!(page.body.contains("/article/220%40x.example"), "{}", page.body);
    // The page of the group begins with the newest, too.
    let group = get(address, "/groups/misc.test");
    assert!(group.body.contains("/article/220%40x.example"), "{}", group.status);
}

#[test]
fn page_mbox_and_feed_of_a_long_thread_contain_the_requested_article() {
    const ARTICLES: usize = 620;
    let answer = |n: usize| {
        let references = if n == 0 { "" } else { "References: <0@x.example>\r\n" };
        (format!("Subject: x\r\n{references}"), "x\r\n".to_owned())
    };
    let (_server, address) = site("page_timeout = \"60 s\"", (0..ARTICLES).map(answer));
    let thread = "/groups/misc.test/thread/600%40x.example";
    let page = get(address, thread);
    for id in [600, 601, 619] {
        assert!(page.body.contains(&format!("/article/{id}%40x.example")), "{id} in {}", page.body);
    }
    assert!(!page.body.contains("/article/1%40x.example"), "{}", page.body);
    assert!(page.body.contains("Articles 601 to 620 of 620 articles"), "{}", page.body);
    assert!(page.body.contains(&format!("{thread}?from=500")), "{}", page.body);
    let first = get(address, &format!("{thread}?from=0"));
    assert!(first.body.contains("Articles 1 to 100 of 620 articles"), "{}", first.body);
    assert!(first.body.contains(&format!("{thread}?from=100")), "{}", first.body);
    assert!(page.body.contains(&format!("{thread}/mbox")), "{}", page.body);
    let mbox = get(address, &format!("{thread}/mbox"));
    assert_eq!(mbox.header("X-Articles-Left-Out"), Some("120"));
    assert_eq!(mbox.body.matches("From newsreel ").count(), 500);
    assert!(mbox.body.contains("Message-ID: <600@x.example>"));
    let feed = get(address, &format!("{thread}/atom"));
    assert!(feed.body.contains("/article/619%40x.example"), "{}", feed.body);
}

/// Returns the `n`th of the articles that are in threads of ten, of which each answers the one before.
fn of_ten(n: usize) -> (String, String) {
    let begin = n - n % 10;
    let references: Vec<String> = (begin..n).map(|id| format!("<{id}@x.example>")).collect();
    let (re, references) = match n % 10 {
        0 => ("", String::new()),
        _ => ("Re: ", format!("References: {}\r\n", references.join(" "))),
    };
    (format!("Subject: {re}thread {begin}\r\n{references}"), "x\r\n".to_owned())
}

#[test]
fn thread_of_ten_in_a_large_group_reads_ten_rows() {
    const ARTICLES: usize = 20_000;
    let server = Server::start();
    let mut client = server.client();
    for first in (0..ARTICLES).step_by(200) {
        let articles = (first..first + 200).map(|n| {
            let (head, body) = of_ten(n);
            format!(
                "TAKETHIS <{n}@x.example>\r\nPath: peer.example!not-for-mail\r\nFrom: Jane <j@x.example>\r\n\
                 Message-ID: <{n}@x.example>\r\nDate: Thu, 1 Jan 2026 00:00:00 +0000\r\n\
                 Newsgroups: misc.test\r\n{head}\r\n{body}.\r\n"
            )
        });
        client.send(articles.collect::<String>());
        assert!((0..200).all(|_| client.line().starts_with("239")));
    }
    server
        .reload(|text| format!("{text}\n[web]\nlisten = [\"127.0.0.1:0\"]\ncache_age = \"0 s\"\n"))
        .unwrap();
    let address = address(&server);
    let rows = || server.status()["page_rows"].as_u64().unwrap();
    let thread = |n: usize| format!("/groups/misc.test/thread/{n}%40x.example");
    let shown = |page: &str, n: usize| page.contains(&format!("/article/{n}%40x.example"));
    let first = get(address, &thread(12_345));
    assert_eq!(first.status, 200, "{}", first.body);
    let read = rows();
    assert!((3_000..4_000).contains(&read), "the first page nearby reads all around: {read}");
    for (path, n) in [(thread(12_345), 12_345), (thread(12_781), 12_781), (thread(12_345) + "/mbox", 12_345)]
    {
        let before = rows();
        let page = get(address, &path);
        let begin = n - n % 10;
        assert_eq!(page.status, 200, "{}", page.body);
        if path.ends_with("/mbox") {
            assert_eq!(page.body.matches("From newsreel ").count(), 10);
        } else {
            assert!((begin..begin + 10).all(|n| shown(&page.body, n)), "{}", page.body);
            assert!(!shown(&page.body, begin - 1) && !shown(&page.body, begin + 10), "{}", page.body);
        }
        // The second one is a little further on.
        let (read, most) = (rows() - before, if n == 12_781 { 10 + 436 + 256 } else { 10 });
        assert!((10..=most).contains(&read), "{path}: {read}");
    }
    // What arrives, is hidden or is shown again is on the page at once.
    let last = ARTICLES - 5;
    let count = |pages: &str| (ARTICLES - 10..ARTICLES + 10).filter(|n| shown(pages, *n)).count();
    assert_eq!(count(&get(address, &thread(last)).body), 10);
    let before = rows();
    let (head, body) = of_ten(ARTICLES - 1);
    let answer = head.replace("References:", &format!("References: <{}@x.example>", ARTICLES - 10));
    client.send(format!(
        "TAKETHIS <{ARTICLES}@x.example>\r\nPath: peer.example!not-for-mail\r\nFrom: Jane <j@x.example>\r\n\
         Message-ID: <{ARTICLES}@x.example>\r\nDate: Thu, 1 Jan 2026 00:00:00 +0000\r\n\
         Newsgroups: misc.test\r\n{answer}\r\n{body}.\r\n"
    ));
    assert!(client.line().starts_with("239"));
    let page = get(address, &thread(last));
    assert_eq!((count(&page.body), rows() - before), (11, 12), "{}", page.body);
    let hidden = format!("<{last}@x.example>");
    assert!(server.operate(&["hide", &hidden]));
    assert_eq!(count(&get(address, &thread(ARTICLES)).body), 10);
    let unhide = serde_json::json!(
        { "do": "unhide", "message_ids": [hidden], "by": { "issuer": null, "since": null }, "dry_run": false }
    );
    assert!(server.control(&unhide).1);
    assert_eq!(count(&get(address, &thread(ARTICLES)).body), 11);
}
