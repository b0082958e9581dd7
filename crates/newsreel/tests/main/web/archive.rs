//! The pages of an archive: front page, threads as wholes, dates, mailboxes, pictures, and what caches,
//! crawlers and programs get.

use super::http::{address, connect, exchange, get, get_with};
use super::{cookie_of, log_in};
use crate::client::Client;
use crate::operated::Operated;
use crate::running::Server;
use flate2::read::GzDecoder;
use ring::digest::{SHA256, digest};
use std::io::{Read, Write};
use std::net::SocketAddr;

/// Hands in an article of misc.test: its number, further header lines, and its body.
fn hand_in(server: &Server, n: u32, head: &str, body: &str) {
    send_article(&mut server.client(), n, head, body);
}

fn send_article(client: &mut Client, n: u32, head: &str, body: &str) {
    client.send(format!(
        "TAKETHIS <{n}@x.example>\r\nPath: peer.example!not-for-mail\r\nFrom: Jane {n} <{n}@x.example>\r\n\
         Message-ID: <{n}@x.example>\r\nNewsgroups: misc.test\r\n{head}\r\n{body}.\r\n"
    ));
    let answer = client.line();
    assert!(answer.starts_with("239"), "{answer}");
}

/// Starts the test site with pages, after some articles were handed in.
fn site(web_keys: &str, articles: &[(u32, &str, &str)]) -> (Server, SocketAddr) {
    let server = Server::start();
    for (n, head, body) in articles {
        hand_in(&server, *n, head, body);
    }
    server.reload(|text| format!("{text}\n[web]\nlisten = [\"127.0.0.1:0\"]\n{web_keys}\n")).unwrap();
    let address = address(&server);
    (server, address)
}

const JANUARY: &str = "Subject: First\r\nDate: Thu, 1 Jan 2026 00:00:00 +0000\r\n";
const MARCH: &str = "Subject: Third\r\nDate: Sun, 1 Mar 2026 00:00:00 +0000\r\n";

/// Requests a page; returns the header lines and the octets of the body.
fn octets(address: SocketAddr, path: &str, headers: &str) -> (String, Vec<u8>) {
    let mut socket = connect(address);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let mut octets = Vec::new();
    socket.read_to_end(&mut octets).unwrap();
    let end = octets.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    (String::from_utf8(octets[..end].to_vec()).unwrap().to_lowercase(), octets[end + 4..].to_vec())
}

/// Joins the chunks of a body.
fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return all;
        }
        all.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
}

/// Downloads a compressed mailbox; returns its text.
pub fn mailbox(address: SocketAddr, path: &str) -> String {
    let (head, body) = octets(address, path, "");
    assert!(head.starts_with("http/1.1 200") && head.contains("content-type: application/gzip"), "{head}");
    let mut text = String::new();
    GzDecoder::new(&*unchunked(&body)).read_to_string(&mut text).unwrap();
    text
}

#[test]
fn front_page_shows_readable_groups_and_the_way_for_newsreaders() {
    let about =
        "about = \"\"\"\nNews of *all* kinds, see [the rules](/article/1%40x.example).\n<b>x</b>\"\"\"";
    let (server, address) = site(about, &[(1, JANUARY, "one\r\n")]);
    let page = get(address, "/").body;
    assert!(page.contains("<em>all</em>") && page.contains("href=\"/article/1%40x.example\""), "{page}");
    assert!(page.contains("&lt;b&gt;x"), "{page}");
    assert!(page.contains("\"/groups/misc.test\"") && page.contains("\"/groups?in=misc\""), "{page}");
    assert!(page.contains("1 article, 0 in the last 30 days"), "{page}");
    let port = server.address.port();
    assert!(page.contains(&format!("news://127.0.0.1:{port}/")), "{page}");
    assert!(get(address, "/groups?in=misc").body.contains("misc.test"));
    assert!(!get(address, "/groups?in=mis").body.contains("misc.test"), "whole parts of names count");
    // Groups that a visitor may not read are not there.
    server.reload(|text| text.replace("read = \"*\"", "read = \"*,!misc.*\"")).unwrap();
    let page = get(address, "/").body;
    assert!(!page.contains("misc.test") && page.contains("local."), "{page}");
    // A visitor who may read nothing sees the page without groups.
    server.reload(|text| format!("{text}reading = false\n")).unwrap();
    let page = get(address, "/").body;
    assert!(!page.contains("local.") && page.contains("<em>all</em>"), "{page}");
}

#[test]
fn a_thread_is_one_page_with_its_articles() {
    let answer =
        "Subject: Re: First\r\nReferences: <1@x.example>\r\nDate: Thu, 1 Jan 2026 00:00:01 +0000\r\n";
    let renamed = answer.replace("Re: First", "Other <b>");
    let (_server, address) = site(
        "",
        &[
            (1, JANUARY, "one\r\n"),
            (2, answer, "> one\r\n> > zero\r\n  two\r\n"),
            (3, &renamed, "three <i>\r\n"),
        ],
    );
    let page = get(address, "/groups/misc.test/thread/1%40x.example").body;
    for part in [
        "<pre class=\"text\" dir=\"auto\">\none\n",
        "&gt; one\n",
        "&gt;&gt; zero\n",
        "  two\n",
        "three &lt;i&gt;",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    // The tree and the links lead to the articles of the page.
    for part in
        ["<article id=\"a2\">", "href=\"#a2\"", "rel=\"next\" href=\"#a2\"", "class=\"in1\"", "<blockquote"]
    {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(page.contains("Subject: <b>Other &lt;b&gt;</b>"), "{page}");
    assert!(page.contains("/article/2%40x.example/follow-up"), "{page}");
    let article = get(address, "/article/2%40x.example").body;
    assert!(article.contains("/groups/misc.test/thread/2%40x.example#a2"), "{article}");
    // A permanent link may have the angle brackets.
    for path in ["/article/%3C2%40x.example%3E", "/article/2@x.example", "/article/%3C2@x.example%3E/raw"] {
        assert_eq!(get(address, path).status, 200, "{path}");
    }
}

#[test]
fn large_articles_are_named_in_their_thread_and_open_alone() {
    let site = Operated::with(&["--peer", "127.0.0.1"]);
    site.done(&["group", "add", "misc.test"]);
    site.edit(|text| format!("{text}\n[web]\nlisten = [\"127.0.0.1:0\"]\n"));
    let server = site.serve();
    let answer =
        "Subject: Re: First\r\nReferences: <1@x.example>\r\nDate: Thu, 1 Jan 2026 00:00:01 +0000\r\n";
    let large = format!("{}\r\n", "x".repeat(78)).repeat(4_000);
    send_article(&mut server.client(), 1, JANUARY, "one\r\n");
    send_article(&mut server.client(), 2, answer, &large);
    let status: serde_json::Value = serde_json::from_str(&site.done(&["status", "--json"])).unwrap();
    let address: SocketAddr = status["server"]["web"][0].as_str().unwrap().parse().unwrap();
    let page = get(address, "/groups/misc.test/thread/1%40x.example").body;
    assert!(page.contains("too many for this page") && page.contains("one\n"), "{page}");
    assert!(!page.contains("xxxxx"));
    assert!(get(address, "/article/2%40x.example").body.contains("xxxxx"));
}

#[test]
fn groups_are_entered_at_a_date_and_threads_are_counted_as_wholes() {
    let answers: Vec<(u32, String, String)> = (3..=122)
        .map(|n| {
            let head = format!(
                "Subject: Re: First\r\nReferences: <1@x.example>\r\nDate: Sun, 1 Feb 2026 00:{:02}:{:02} +0000\r\n",
                n / 60,
                n % 60
            );
            (n, head, "x\r\n".to_owned())
        })
        .collect();
    let other = JANUARY.replace("First", "Second");
    let mut articles = vec![(1, JANUARY, "one\r\n"), (2, other.as_str(), "two\r\n")];
    articles.extend(answers.iter().map(|(n, head, body)| (*n, head.as_str(), body.as_str())));
    articles.push((123, MARCH, "three\r\n"));
    let (_server, address) = site("", &articles);
    let page = get(address, "/groups/misc.test").body;
    // The thread began before the page, and is counted with what is on it.
    assert!(page.contains("121 articles") && page.contains("newest by <bdi>Jane 122"), "{page}");
    assert!(page.contains("Third") && !page.contains("Second"), "{page}");
    assert!(page.contains("?date=2026-03") && page.contains("Jump to a date"), "{page}");
    let january = get(address, "/groups/misc.test?date=2026-01").body;
    assert!(january.contains("Second") && january.contains("First"), "{january}");
    assert!(!january.contains("Third") && !january.contains("Jane 122"), "{january}");
    let nothing = get(address, "/groups/misc.test?date=%3Cscript%3E");
    assert!(nothing.status == 400 && !nothing.body.contains("<script>"), "{}", nothing.body);
    assert!(
        nothing.body.contains("is no date") && nothing.body.contains("role=\"alert\""),
        "{}",
        nothing.body
    );
    assert_eq!(get(address, "/groups/misc.test?date=").status, 200);
    let of_programs = get(address, "/api/v1/groups/misc.test/threads?date=2026-13");
    assert!(
        of_programs.status == 400 && of_programs.body.contains("date is no year"),
        "{}",
        of_programs.body
    );
}

#[test]
fn numbers_in_addresses_are_numbers() {
    let (_server, address) = site("", &[(1, JANUARY, "one\r\n")]);
    let (group, thread) = ("groups/misc.test", "1%40x.example");
    let paths = [
        (format!("/{group}"), "before"),
        (format!("/api/v1/{group}/threads"), "before"),
        (format!("/{group}/thread/{thread}"), "from"),
        (format!("/api/v1/{group}/threads/{thread}"), "from"),
        ("/search".to_owned(), "from"),
        ("/api/v1/search".to_owned(), "from"),
    ];
    for (path, field) in paths {
        let right = get(address, &format!("{path}?q=x&{field}=1"));
        assert_ne!(right.status, 400, "{path}: {right:?}");
        let wrong = get(address, &format!("{path}?q=x&{field}=x"));
        let is_told = wrong.body.contains(&format!("{field} is no number"));
        assert!(wrong.status == 400 && is_told, "{path}: {wrong:?}");
    }
}

#[test]
fn groups_are_downloaded_as_compressed_mailboxes() {
    let answer = "Subject: x\r\nDate: Sun, 1 Feb 2026 00:00:00 +0000\r\n";
    let (_server, address) =
        site("", &[(1, JANUARY, "one\r\n"), (2, answer, "From two\r\n"), (3, MARCH, "three\r\n")]);
    let mailbox = |query: &str| mailbox(address, &format!("/groups/misc.test/mbox.gz{query}"));
    let all = mailbox("");
    assert_eq!(all.matches("\nMessage-ID: <").count(), 3, "{all}");
    assert!(
        all.starts_with("From newsreel Thu Jan  1 00:00:00 2026") && all.contains("\n>From two"),
        "{all}"
    );
    assert_eq!(mailbox("?before=2026-02").matches("\nMessage-ID: <").count(), 1);
    assert_eq!(mailbox("?after=2026-03").matches("\nMessage-ID: <").count(), 1);
    assert_eq!(mailbox("?after=2027").matches("\nMessage-ID: <").count(), 0);
    let wrong = get(address, "/groups/misc.test/mbox.gz?after=yesterday");
    assert!(wrong.status == 400 && wrong.body.contains("is no year, month or day"), "{}", wrong.body);
}

#[test]
fn articles_with_odd_dates_are_selected_by_the_time_that_is_shown() {
    let dated = |subject: &str, date: &str| {
        format!("Subject: {subject}\r\nDate: {date}\r\nInjection-Date: Sun, 1 Mar 2026 00:00:00 +0000\r\n")
    };
    // The first two have the time of their arrival.
    let unreadable = dated("Unreadable", "yesterday evening");
    let future = dated("Future", "Fri, 1 Jan 2100 00:00:00 +0000");
    let epoch = dated("Epoch", "Thu, 1 Jan 1970 00:00:00 +0000");
    let zone = dated("Zone", "Sun, 1 Feb 2026 00:30:00 +0100");
    let heads = [&future, &unreadable, &epoch, MARCH, &zone, JANUARY];
    let articles: Vec<(u32, &str, &str)> = (1..).zip(heads).map(|(n, head)| (n, head, "x\r\n")).collect();
    let (_server, address) = site("", &articles);
    let found = |query: &str| {
        let text = mailbox(address, &format!("/groups/misc.test/mbox.gz{query}"));
        assert!(!text.contains("2100\nPath"), "{text}");
        let subjects = text.lines().filter_map(|line| line.strip_prefix("Subject: "));
        (subjects.map(str::to_owned).collect::<Vec<_>>(), text)
    };
    assert_eq!(found("?before=2026-02").0, ["Epoch", "Zone", "First"]);
    assert_eq!(found("?after=2026-01&before=2026-02").0, ["Zone", "First"]);
    assert_eq!(found("?after=2026-02&before=2026-03-02").0, ["Third"]);
    assert_eq!(found("?after=2026-03-02").0, ["Future", "Unreadable"]);
    assert!(found("?after=2099").0.is_empty());
    let (subjects, text) = found("?before=1971");
    assert!(subjects == ["Epoch"] && text.starts_with("From newsreel Thu Jan  1 00:00:00 1970\n"), "{text}");
    let atom = get(address, "/groups/misc.test/atom").body;
    assert_eq!(atom.matches("<updated>1970-01-01T00:00:00Z").count(), 1, "{atom}");
    assert!(!atom.contains("<updated>2100"), "{atom}");
    let page = get(address, "/groups/misc.test").body;
    assert!(page.contains("<time>1970-01-01 00:00</time>"), "{page}");
    assert!(!page.contains("<time></time>") && !page.contains("<time>2100"), "{page}");
    let epoch = get(address, "/article/3%40x.example").body;
    assert!(epoch.contains("1970-01-01 00:00 UTC"), "{epoch}");
    assert!(get(address, "/article/2%40x.example").body.contains("yesterday evening"));
    let json = get(address, "/api/v1/articles/3%40x.example").body;
    assert!(json.contains("\"date\":\"1970-01-01T00:00:00Z\""), "{json}");
}

#[test]
fn pictures_are_shown_on_demand_and_nothing_else_is() {
    let file = |name: &str, data: &str| {
        format!(
            "--b\r\nContent-Type: image/gif; name={name}\r\nContent-Disposition: attachment\r\n\
             Content-Transfer-Encoding: base64\r\n\r\n{data}\r\n"
        )
    };
    // GIF89a, and a script that claims to be a picture.
    let body = format!("{}{}--b--\r\n", file("a.gif", "R0lGODlhAQABAAAAACw="), file("b.gif", "PHNjcmlwdD4="));
    let head = format!("{JANUARY}MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n");
    let (_server, address) = site("", &[(1, &head, &body)]);
    let page = get(address, "/article/1%40x.example").body;
    assert!(page.contains("<details class=\"image\"><summary>Show the picture"), "{page}");
    assert!(page.contains("loading=\"lazy\"") && page.contains("file/1/a.gif?show=1"), "{page}");
    let (shown, _) = octets(address, "/article/1%40x.example/file/1/a.gif?show=1", "");
    assert!(shown.contains("content-type: image/gif") && shown.contains("sandbox"), "{shown}");
    for path in ["/article/1%40x.example/file/1/a.gif", "/article/1%40x.example/file/2/b.gif?show=1"] {
        let (head, _) = octets(address, path, "");
        assert!(head.contains("application/octet-stream") && head.contains("attachment"), "{head}");
    }
}

#[test]
fn pages_are_compressed_tagged_and_kept_until_an_article_is_withdrawn() {
    let (server, address) = site("cache_age = \"1 h\"", &[(1, JANUARY, "one\r\n"), (2, MARCH, "two\r\n")]);
    // Rights that a network has are not for caches of everyone.
    assert_eq!(get(address, "/groups/misc.test").header("Cache-Control"), Some("private, max-age=3600"));
    server.reload(|text| text.replace("from = [\"127.0.0.1\"]", "from = \"all\"")).unwrap();
    let page = get(address, "/groups/misc.test");
    assert_eq!(page.header("Cache-Control"), Some("public, max-age=3600"));
    let tag = page.header("ETag").unwrap().to_owned();
    let known = get_with(address, "/groups/misc.test", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((known.status, known.body.as_str(), known.header("ETag")), (304, "", Some(&*tag)));
    for coding in ["gzip", "zstd", "br"] {
        let (head, body) = octets(address, "/groups/misc.test", &format!("Accept-Encoding: {coding}\r\n"));
        assert!(head.contains(&format!("content-encoding: {coding}")), "{head}");
        assert!(body.len() < page.body.len() / 2 && head.contains("vary: accept-encoding"), "{head}");
    }
    // A kept page lacks what has arrived since, and never has what was withdrawn.
    hand_in(&server, 3, MARCH, "three\r\n");
    assert!(!get(address, "/groups/misc.test").body.contains("Jane 3"));
    assert!(server.operate(&["hide", "<2@x.example>"]));
    let page = get(address, "/groups/misc.test").body;
    assert!(page.contains("Jane 3") && !page.contains("Jane 2"), "{page}");
    // Other configurations make other pages.
    server.reload(|text| text.replace("read = \"*\"", "read = \"*,!misc.*\"")).unwrap();
    assert_eq!(get(address, "/groups/misc.test").status, 404);
}

#[test]
fn pages_for_one_visitor_are_kept_by_nobody() {
    let (server, address) = site("", &[(1, JANUARY, "one\r\n")]);
    assert!(server.operate(&["user", "fred", "secretive"]));
    server.reload(|text| text).unwrap();
    let form = get(address, "/groups/misc.test/write");
    assert_eq!((form.header("Cache-Control"), form.header("ETag")), (Some("no-store"), None));
    // The browser has its identifier already: the page has a token, and no cookie.
    let cookie = cookie_of(&form).unwrap();
    let again = get_with(
        address,
        "/groups/misc.test/write",
        &format!("Cookie: {cookie}\r\nAccept-Encoding: gzip\r\n"),
    );
    assert_eq!((again.header("Cache-Control"), again.header("Content-Encoding")), (Some("no-store"), None));
    let user = cookie_of(&log_in(address, "fred", "secretive", "/")).unwrap();
    let page = get_with(address, "/groups/misc.test", &format!("Cookie: {user}\r\n"));
    assert_eq!((page.header("Cache-Control"), page.header("ETag")), (Some("no-store"), None));
    assert!(page.body.contains("fred"));
    assert!(!get(address, "/groups/misc.test").body.contains("fred"));
}

#[test]
fn networks_have_budgets_and_a_proof_of_work_adds_to_them() {
    let (server, address) = site("pages_per_minute = 3\ncache_age = \"1 h\"", &[(1, JANUARY, "one\r\n")]);
    let path = |n: u32| format!("/groups/misc.test?before={n}");
    for n in 10..13 {
        assert_eq!(get(address, &path(n)).status, 200);
    }
    let refused = get(address, &path(13));
    assert_eq!(refused.status, 429);
    assert!(refused.header("Retry-After").unwrap().parse::<u32>().unwrap() <= 20, "{refused:?}");
    let kept = get(address, &path(12));
    assert_eq!(kept.status, 200, "a kept page costs nothing");
    let head = |path: &str| {
        exchange(address, &format!("HEAD {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"))
    };
    assert_eq!(head(&path(15)).status, 429, "HEAD costs what GET does");
    let of_program = get(address, "/api/v1/groups");
    assert_eq!((of_program.status, of_program.header("Content-Type")), (429, Some("application/json")));
    assert!(of_program.header("Retry-After").is_some(), "{of_program:?}");
    let again = head(&path(12));
    assert_eq!((again.status, again.body.as_str()), (200, ""));
    for name in ["ETag", "Cache-Control", "Content-Length"] {
        assert_eq!(again.header(name), kept.header(name), "{name}");
    }
    assert_eq!(get(address, "/health").status, 200);
    server.reload(|text| format!("{text}proof_of_work = true\n")).unwrap();
    let page = get(address, &path(14));
    assert_eq!(page.status, 429);
    let challenge =
        page.body.split_once("data-challenge=\"").unwrap().1.split_once('"').unwrap().0.to_owned();
    let is_solved = |proof: &String| digest(&SHA256, proof.as_bytes()).as_ref().starts_with(&[0, 0]);
    let proof = (0..).map(|n| format!("{challenge}.{n}")).find(is_solved).unwrap();
    let cookie = format!("Cookie: newsreel-work={proof}\r\n");
    for n in 20..23 {
        assert_eq!(get_with(address, &path(n), &cookie).status, 200);
    }
    assert_eq!(get_with(address, &path(23), &cookie).status, 429, "a proof has a budget, too");
    let wrong = format!("Cookie: newsreel-work={challenge}.x\r\n");
    assert_eq!(get_with(address, &path(24), &wrong).status, 429);
}

#[test]
fn robots_that_may_read_get_a_map_of_the_groups() {
    let (server, address) = site("", &[(1, JANUARY, "one\r\n")]);
    assert_eq!(get(address, "/sitemap.xml").status, 404);
    server.reload(|text| format!("{text}robots = true\n")).unwrap();
    assert!(get(address, "/robots.txt").body.contains(&format!("Sitemap: http://{address}/sitemap.xml")));
    let map = get(address, "/sitemap.xml").body;
    assert!(map.contains(&format!("<loc>http://{address}/groups/misc.test</loc>")), "{map}");
    assert!(!map.contains("local.empty"), "{map}");
}

#[test]
fn programs_read_what_the_pages_show_as_json() {
    let answer =
        "Subject: Re: First\r\nReferences: <1@x.example>\r\nDate: Thu, 1 Jan 2026 00:00:01 +0000\r\n";
    let (server, address) = site("", &[(1, JANUARY, "one\r\n"), (2, answer, "> one\r\ntwo\r\n")]);
    let json = |path: &str| -> serde_json::Value {
        let answer = get(address, &format!("/api/v1/{path}"));
        assert_eq!(answer.header("Content-Type"), Some("application/json"), "{answer:?}");
        serde_json::from_str(&answer.body).unwrap()
    };
    let groups = json("groups?in=misc");
    assert_eq!(groups["groups"][0]["name"], "misc.test");
    assert_eq!(json("groups/misc.test")["high"], 2);
    let threads = json("groups/misc.test/threads");
    assert_eq!((&threads["threads"][0]["articles"], &threads["next_before"]), (&2.into(), &().into()));
    let thread = json("groups/misc.test/threads/2%40x.example");
    assert_eq!((&thread["articles"][1]["depth"], &thread["total"]), (&1.into(), &2.into()));
    let article = json("articles/2%40x.example");
    assert_eq!(article["text"], "> one\ntwo\n");
    assert_eq!(article["date"], "2026-01-01T00:00:01Z");
    assert_eq!(json("openapi.json")["openapi"], "3.1.0");
    let missing = get(address, "/api/v1/articles/no%40such");
    assert_eq!((missing.status, missing.body.as_str()), (404, "{\"error\":\"Not Found\"}"));
    // Pages of other sites read it only if the operator says so.
    let origin = "Origin: https://www.example.org\r\n";
    let asked = |headers: &str| get_with(address, "/api/v1/groups", headers);
    assert_eq!(asked(origin).header("Access-Control-Allow-Origin"), None);
    server.reload(|text| format!("{text}api_origins = [\"https://www.example.org\"]\n")).unwrap();
    let allowed = asked(origin);
    assert_eq!(allowed.header("Access-Control-Allow-Origin"), Some("https://www.example.org"));
    assert_eq!(allowed.header("Cross-Origin-Resource-Policy"), Some("cross-origin"));
    assert_eq!(asked("Origin: https://evil.example\r\n").header("Access-Control-Allow-Origin"), None);
    assert_eq!(get_with(address, "/groups", origin).header("Access-Control-Allow-Origin"), None);
}
