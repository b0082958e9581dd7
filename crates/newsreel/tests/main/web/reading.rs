//! Reading on the web: visible groups and articles by rights, and posting.

use super::http::{address, get};
use super::{cookie_of, form_of, post};
use crate::running::Server;
use std::net::SocketAddr;

/// Starts the test site with pages and articles.
fn site() -> (Server, SocketAddr) {
    let server = Server::start();
    let mut client = server.client();
    let article = |n: u32, head: &str, body: &str| {
        format!(
            "Path: peer.example!not-for-mail\r\nFrom: Jane <{n}@x.example>\r\nMessage-ID: <{n}/a@x.example>\r\n\
             Date: Thu, 1 Jan 2026 00:00:{n:02} +0000\r\n{head}\r\n{body}"
        )
    };
    let answer = "Newsgroups: misc.test\r\nSubject: Re: First <b>\r\nReferences: <1/a@x.example>\r\n";
    let file = "see\r\nbegin 644 ../x.gif\r\n#9F]U\r\n`\r\nend\r\n";
    let articles = [
        article(1, "Newsgroups: misc.test\r\nSubject: First <b>\r\n", "one <script>alert(1)</script>\r\n"),
        article(2, answer, "> one\r\ntwo\r\n"),
        article(3, "Newsgroups: misc.test\r\nSubject: A file\r\n", file),
        article(4, "Newsgroups: local.closed\r\nSubject: Closed\r\n", "x\r\n"),
    ];
    for (n, article) in articles.iter().enumerate() {
        client.send(format!("TAKETHIS <{}/a@x.example>\r\n{article}.\r\n", n + 1));
        let answer = client.line();
        assert!(answer.starts_with("239"), "{answer}");
    }
    drop(client);
    server.reload(|text| format!("{text}\n[web]\nlisten = [\"127.0.0.1:0\"]\n")).unwrap();
    let address = address(&server);
    (server, address)
}

const FIRST: &str = "/article/1%2Fa%40x.example";

#[test]
fn groups_threads_and_articles_are_pages() {
    let (_server, address) = site();
    let groups = get(address, "/groups").body;
    assert!(groups.contains("\"/groups/misc.test\"") && groups.contains("For trying things out"), "{groups}");
    assert!(!groups.contains("alias.test") && !groups.contains("local.refused"), "{groups}");
    assert!(!get(address, "/groups?match=closed").body.contains("misc.test"));
    assert!(!get(address, "/groups?after=m").body.contains("local."));

    let group = get(address, "/groups/misc.test").body;
    // Newest first, and a thread in one line.
    let (file, thread) = (group.find("A file").unwrap(), group.find("First &lt;b&gt;").unwrap());
    assert!(file < thread && group.matches("First").count() == 1, "{group}");
    assert!(group.contains("application/atom+xml"));
    let thread = get(address, "/groups/misc.test/thread/2%2Fa%40x.example").body;
    assert!(thread.contains("class=\"in0\"") && thread.contains("class=\"in1\""), "{thread}");

    let article = get(address, FIRST);
    assert_eq!(article.status, 200);
    assert!(article.body.contains("one &lt;script&gt;alert(1)&lt;/script&gt;"), "{}", article.body);
    assert!(!article.body.contains("<script>"), "{}", article.body);
    let number = get(address, "/groups/misc.test/1");
    assert_eq!((number.status, number.header("Location")), (302, Some(FIRST)));
    for nothing in [
        "/groups/misc.test/99",
        "/groups/misc.test/x",
        "/groups/no.such",
        "/groups/misc.test/thread/4%2Fa%40x.example",
        "/article/no%40such",
        "/article/%3C%3E",
        "/article/3%2Fa%40x.example/file/2/x",
    ] {
        assert_eq!(get(address, nothing).status, 404, "{nothing}");
    }
}

#[test]
fn raw_source_files_feeds_and_mboxes_are_for_programs() {
    let (_server, address) = site();
    let raw = get(address, &format!("{FIRST}/raw"));
    assert_eq!(raw.header("Content-Type"), Some("text/plain; charset=utf-8"));
    assert!(raw.body.contains("\r\n\r\none <script>"), "{}", raw.body);
    let file = get(address, "/article/3%2Fa%40x.example/file/1/x.gif");
    assert_eq!((file.status, file.body.as_str()), (200, "fou"));
    assert_eq!(file.header("Content-Type"), Some("application/octet-stream"));
    assert!(file.header("Content-Disposition").unwrap().starts_with("attachment; filename=\"x.gif\""));
    let thread = "/groups/misc.test/thread/1%2Fa%40x.example";
    for (feed, entries) in [("/groups/misc.test/atom".to_owned(), 3), (format!("{thread}/atom"), 2)] {
        let feed = get(address, &feed);
        assert_eq!(feed.header("Content-Type"), Some("application/atom+xml; charset=utf-8"));
        assert_eq!(feed.body.matches("<entry>").count(), entries, "{}", feed.body);
        assert!(feed.body.contains("<id>news:1%2Fa@x.example</id>"), "{}", feed.body);
        assert!(feed.body.contains(&format!("href=\"http://{address}{FIRST}\"")), "{}", feed.body);
    }
    let mbox = get(address, &format!("{thread}/mbox")).body;
    assert_eq!(mbox.matches("From newsreel Thu Jan  1 00:00:0").count(), 2, "{mbox}");
}

#[test]
fn unreadable_groups_and_articles_are_absent() {
    let (server, address) = site();
    let closed = "/article/4%2Fa%40x.example";
    assert_eq!(get(address, closed).status, 200);
    server.reload(|text| text.replace("read = \"*\"", "read = \"*,!local.closed\"")).unwrap();
    for hidden in [
        closed,
        "/article/4%2Fa%40x.example/raw",
        "/groups/local.closed",
        "/groups/local.closed/1",
        "/groups/local.closed/atom",
        "/groups/local.closed/thread/4%2Fa%40x.example/mbox",
    ] {
        assert_eq!(get(address, hidden).status, 404, "{hidden}");
    }
    assert!(!get(address, "/groups").body.contains("local.closed"));
    // With reading disabled there are no pages for anyone.
    server.reload(|text| format!("{text}reading = false\n")).unwrap();
    for path in ["/groups", FIRST, "/groups/misc.test"] {
        assert_eq!(get(address, path).status, 404, "{path}");
    }
}

#[test]
fn robots_are_excluded_unless_configured() {
    let (server, address) = site();
    assert_eq!(get(address, "/robots.txt").body, "User-agent: *\nDisallow: /\n");
    assert_eq!(get(address, FIRST).header("X-Robots-Tag"), Some("noindex, nofollow"));
    server.reload(|text| format!("{text}robots = true\n")).unwrap();
    assert!(!get(address, "/robots.txt").body.contains("Disallow: /\n"));
    assert_eq!(get(address, FIRST).header("X-Robots-Tag"), None);
}

#[test]
fn users_with_posting_rights_post_and_follow_up() {
    let (_server, address) = site();
    let form = get(address, &format!("{FIRST}/follow-up"));
    let quoted = form.body.contains("value=\"Re: First &lt;b&gt;\"") && form.body.contains("&gt; one");
    assert!(quoted, "{}", form.body);
    let (token, cookie) = form_of(&form);
    let written = |token: &str, more: &str| {
        format!(
            "form_token={token}&from=J%C3%BCrgen+%3Cj%40x.example%3E&groups=misc.test\
             &subject=Gr%C3%BC%C3%9Fe{more}&references=%3C1%2Fa%40x.example%3E&body=.dot%0D%0Aend"
        )
    };
    let send = |cookie: &str, body: &str| post(address, "/groups/misc.test/write", cookie, body, "");
    // Rejected without the token of the form, and with a header hidden in a field.
    assert_eq!(send(&cookie, &written("x", "")).status, 403);
    assert_eq!(send("", &written(&token, "")).status, 403);
    let smuggled = send(&cookie, &written(&token, "%0D%0AApproved:+me%40x.example"));
    assert_eq!(smuggled.status, 400);
    assert!(smuggled.body.contains("A header has one line."), "{}", smuggled.body);

    let sent = send(&cookie, &written(&token, ""));
    assert_eq!(sent.status, 303, "{sent:?}");
    let article = get(address, sent.header("Location").unwrap()).body;
    for part in ["J\u{fc}rgen &lt;j@x.example&gt;", "Gr\u{fc}\u{df}e", ".dot\nend", FIRST] {
        assert!(article.contains(part), "{part} is not in {article}");
    }
    // Refusals by the injecting agent are shown, and the text is not lost.
    let refused = send(&cookie, &written(&token, "").replace("misc.test", "no.such.group"));
    assert_eq!(refused.status, 422);
    let is_told = refused.body.contains(".dot") && refused.body.contains("class=\"problem\"");
    assert!(is_told && cookie_of(&refused).is_none(), "{}", refused.body);
}

#[test]
fn users_without_posting_rights_see_no_form() {
    let (server, address) = site();
    server.reload(|text| text.replace("post = \"*,!control\"", "post = \"local.empty\"")).unwrap();
    assert!(!get(address, FIRST).body.contains("follow-up"));
    assert_eq!(get(address, &format!("{FIRST}/follow-up")).status, 403);
    assert_eq!(get(address, "/groups/misc.test/write").status, 403);
    assert_eq!(get(address, "/groups/local.empty/write").status, 200);
}
