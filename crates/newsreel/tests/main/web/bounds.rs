//! What one page or one client may cost the others over HTTP: time, and memory.

use super::http::{address, connect, get};
use crate::running::Server;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The test site with pages and these articles in misc.test: further header lines, and a body.
fn site(web_keys: &str, articles: impl Iterator<Item = (String, String)>) -> (Server, SocketAddr) {
    let server = Server::start();
    let mut client = server.client();
    for (n, (head, body)) in articles.enumerate() {
        client.send(format!(
            "TAKETHIS <{n}@x.example>\r\nPath: peer.example!not-for-mail\r\nFrom: Jane <j@x.example>\r\n\
             Message-ID: <{n}@x.example>\r\nDate: Thu, 1 Jan 2026 00:00:00 +0000\r\nNewsgroups: misc.test\r\n\
             {head}\r\n{body}.\r\n"
        ));
        let answer = client.line();
        assert!(answer.starts_with("239"), "{answer}");
    }
    drop(client);
    server.reload(|text| format!("{text}\n[web]\nlisten = [\"127.0.0.1:0\"]\n{web_keys}\n")).unwrap();
    let address = address(&server);
    (server, address)
}

#[test]
fn a_page_of_many_colons_and_brackets_holds_up_nobody() {
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
    // Some milliseconds; with a line looked through again for each colon it is a minute.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_thread_of_absent_ancestors_takes_time_by_its_articles() {
    let references = |n: usize| {
        let ids: Vec<String> = (49 * n..49 * n + 50).map(|id| format!("<{id:x}@a>")).collect();
        (format!("Subject: x\r\nReferences: {}\r\n", ids.join(" ")), "x\r\n".to_owned())
    };
    let (_server, address) = site("page_timeout = \"30 s\"", (0..300).map(references));
    let begun = Instant::now();
    let page = get(address, "/groups/misc.test/thread/100%40x.example");
    assert_eq!(page.status, 200);
    assert!(page.body.matches("<li").count() >= 300, "{}", page.body);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// The `n`th article of one thread, of some 32 KB.
fn large_article(n: usize) -> (String, String) {
    let references = if n == 0 { String::new() } else { "References: <0@x.example>\r\n".to_owned() };
    (format!("Subject: x\r\n{references}"), format!("{}\r\n", "x".repeat(78)).repeat(400))
}

#[test]
fn downloads_that_nobody_reads_wait_within_the_memory_and_are_whole_in_the_end() {
    const ARTICLES: usize = 40;
    let (server, address) =
        site("memory_max = \"1 MiB\"\npage_timeout = \"30 s\"", (0..ARTICLES).map(large_article));
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
fn answers_for_which_there_is_no_memory_are_asked_for_again_later() {
    let keys = "memory_max = \"1 MiB\"\npage_timeout = \"100 ms\"\nconnections_per_address_max = 500";
    // More than the sockets take.
    let (_server, address) = site(keys, (0..400).map(large_article));
    let mbox = format!("GET /groups/misc.test/thread/1%40x.example/mbox HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let mut unread = Vec::new();
    let begun = Instant::now();
    let refused = loop {
        let answer = get(address, "/article/1%40x.example");
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
    while get(address, "/article/1%40x.example").status != 200 {
        assert!(begun.elapsed() < Duration::from_secs(120), "the memory is not given back");
        std::thread::sleep(Duration::from_millis(20));
    }
}
