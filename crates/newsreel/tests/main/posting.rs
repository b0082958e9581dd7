//! Posting: added headers, refusals and their texts, flags of groups, rights, rate limits.

use crate::auth;
use crate::client::{Client, article};
use crate::running::Server;
use crate::waiting::wait_for;
use std::time::{Duration, Instant};

/// Posts a proto-article with these headers; returns the response.
pub fn post(client: &mut Client, headers: &str, body: &str) -> String {
    assert!(client.ask("POST").starts_with("340 "));
    client.send(format!("{headers}\r\n{body}\r\n.\r\n"));
    client.line()
}

/// Returns the headers of a valid proto-article.
pub fn headers(groups: &str, more: &str) -> String {
    format!("From: A. Poster <poster@x.example>\r\nNewsgroups: {groups}\r\nSubject: a post\r\n{more}")
}

/// Returns the Message-ID in a 240 response.
pub fn posted_id(answer: &str) -> String {
    assert!(answer.starts_with("240 "), "{answer}");
    answer.rsplit(' ').next().unwrap().to_owned()
}

/// Returns the header lines of an article, unfolded.
pub fn head(client: &mut Client, id: &str) -> Vec<String> {
    let answer = client.ask(&format!("HEAD {id}"));
    assert!(answer.starts_with("221 "), "{answer}");
    client.block().join("\n").replace("\n ", " ").lines().map(str::to_owned).collect()
}

fn value(head: &[String], name: &str) -> String {
    let start = format!("{name}: ");
    head.iter().find_map(|line| line.strip_prefix(&start)).unwrap_or_default().to_owned()
}

fn site_with(sections: &'static str) -> Server {
    Server::start_with(move |text| text + sections)
}

#[test]
fn poster_information_in_articles_is_configurable() {
    let server = site_with("\n[posting]\ncomplaints_to = \"abuse@site.example\"\n");
    let mut client = server.client();
    let id = posted_id(&post(&mut client, &headers("misc.test", ""), "b"));
    let shown = head(&mut client, &id);
    assert_eq!(value(&shown, "Path"), "site.example!.POSTED.127.0.0.1!not-for-mail");
    let info = value(&shown, "Injection-Info");
    assert!(info.starts_with("site.example; posting-host=\"127.0.0.1\"; logging-data=\""), "{info}");
    assert!(info.ends_with("; mail-complaints-to=\"abuse@site.example\""), "{info}");
    assert_eq!(value(&shown, "Organization"), "Example Site");
    assert_eq!(value(&shown, "Date"), value(&shown, "Injection-Date"));
    assert!(value(&shown, "Cancel-Lock").starts_with("sha256:"));

    let server =
        site_with("\n[posting]\nposting_host = \"hashed\"\nlogging_data = false\n[cancel]\nlock = false\n");
    let mut client = server.client();
    let mut hash = || {
        let id = posted_id(&post(&mut client, &headers("misc.test", ""), "b"));
        let shown = head(&mut client, &id);
        let info = value(&shown, "Injection-Info");
        let hash =
            info.strip_prefix("site.example; posting-host=\"").unwrap().strip_suffix('"').unwrap().to_owned();
        assert_eq!(value(&shown, "Path"), format!("site.example!.POSTED.{hash}!not-for-mail"));
        assert!(value(&shown, "Cancel-Lock").is_empty());
        hash
    };
    let (one, two) = (hash(), hash());
    assert_eq!((one.len(), &one), (16, &two));

    let server = site_with("\n[posting]\nposting_host = \"hidden\"\nlogging_data = false\n");
    let mut client = server.client();
    let id = posted_id(&post(&mut client, &headers("misc.test", ""), "b"));
    let hidden = head(&mut client, &id);
    assert_eq!(value(&hidden, "Path"), "site.example!.POSTED!not-for-mail");
    assert_eq!(value(&hidden, "Injection-Info"), "site.example");
    assert!(!hidden.join("\n").contains("127.0.0.1"));
}

#[test]
fn each_refusal_has_advice() {
    let server = site_with("\n[posting]\ngroups_max = 3\nfollowup_groups_max = 2\ncheck_quoted = true\n");
    let mut client = server.client();
    let good = headers("misc.test", "");
    let quoted = "> quoted\r\n".repeat(60) + "own";
    for (headers, body, answer) in [
        (good.clone(), "", "Article has no body; write something after the blank line"),
        (good.clone(), "\u{20}\r\n\t", "Article has no body; write something after the blank line"),
        (good.clone(), quoted.as_str(), "More quoted lines than new ones; quote only what you answer"),
        (
            good.replace("poster@x.example", "poster"),
            "b",
            "From header has no valid mail address; write it like: A. Poster <poster@example.org>",
        ),
        (headers("misc.test", "Followup-To: a..b\r\n"), "b", "\"a..b\" is not a valid newsgroup name"),
        (headers("misc.test,a,b,c", ""), "b", "More than 3 newsgroups; name fewer"),
        (
            headers("misc.test", "Followup-To: a,b,c\r\n"),
            "b",
            "More than 2 newsgroups in Followup-To; name fewer, or \"poster\"",
        ),
        (
            headers("misc.test,poster", ""),
            "b",
            "\"poster\" is a reserved name, no newsgroup; remove it from Newsgroups",
        ),
        (
            headers("misc.test,example.all.x", ""),
            "b",
            "\"example.all.x\" is a reserved name, no newsgroup; remove it from Newsgroups",
        ),
        (headers("no.such,nor.this", ""), "b", "None of these newsgroups is carried here: no.such,nor.this"),
        (headers("control", ""), "b", "Posting to control is not permitted to you"),
        (
            headers("misc.test", "Control: rmgroup misc.test\r\n"),
            "b",
            "Control message rmgroup is not taken from you, only cancel",
        ),
        (headers("misc.test", "X-Trace: x\r\n"), "b", "X-Trace header must not be in a post; remove it"),
        (
            headers("misc.test", "Expires: 1 Jan 2001 00:00:00 GMT\r\n"),
            "b",
            "Expires header is in the past; remove it or name a later date",
        ),
        (headers("misc.test", "Summary: \r\n"), "b", "Summary header is empty; fill it in or remove it"),
        (
            headers("misc.test", "Supersedes: x\r\n"),
            "b",
            "Posting failed: no Message-ID of the article to withdraw",
        ),
        (
            good.replace("a post", "cmsg newgroup x"),
            "b",
            "Subject begins with \"cmsg\"; a control message has a Control header, other articles another Subject",
        ),
    ] {
        assert_eq!(post(&mut client, &headers, body), format!("441 {answer}"), "{headers}");
    }
    let long = "x".repeat(999);
    assert_eq!(
        post(&mut client, &good, &format!("short\r\n{long}")),
        "441 Line 2 of the body has more than 998 bytes; break it"
    );
    assert!(post(&mut client, &good, &long[1..]).starts_with("240 "));
    let answer =
        post(&mut client, &headers("misc.test", &format!("Date: {}\r\n", "1 Jan 2100 00:00:00 GMT")), "b");
    assert_eq!(answer, "441 Date header is more than a day ahead; check your clock");
    assert_eq!(client.ask("GROUP misc.test"), "211 1 1 1 misc.test", "nothing refused was filed");
}

#[test]
fn posts_may_have_a_smaller_size_limit() {
    let server = site_with("\n[posting]\narticle_bytes_max = \"2 KiB\"\nline_bytes_max = 78\n");
    let mut client = server.client();
    let line = "x".repeat(78) + "\r\n";
    assert_eq!(
        post(&mut client, &headers("misc.test", ""), &line.repeat(30)),
        "441 Article is too large: at most 2048 bytes are accepted"
    );
    assert!(post(&mut client, &headers("misc.test", ""), &line.repeat(10)).starts_with("240 "));
    assert!(
        post(&mut client, &headers("misc.test", ""), &(line.repeat(10) + "y" + &line))
            .starts_with("441 Line 11 ")
    );
}

#[test]
fn every_group_flag_has_its_effect() {
    let server = Server::start();
    let mut client = server.client();
    let count = |client: &mut Client, group: &str| {
        let answer = client.ask(&format!("GROUP {group}"));
        answer.split(' ').nth(1).unwrap().parse::<u32>().unwrap()
    };
    // Posts: y and an alias of y are accepted, m is mailed, the others are refused.
    for (group, start) in [
        ("misc.test", "240 Article received OK <"),
        ("alias.test", "240 Article received OK <"),
        ("local.moderated", "240 Queued for the moderator of local.moderated <"),
        ("local.closed", "441 Posting to local.closed is not permitted"),
        ("local.flood", "441 Posting to local.flood is not permitted"),
        ("local.refused", "441 Posting to local.refused is not permitted"),
        ("misc.test,local.refused", "441 Posting to local.refused is not permitted"),
    ] {
        let answer = post(&mut client, &headers(group, ""), "b");
        assert!(answer.starts_with(start), "{group}: {answer}");
    }
    assert_eq!(count(&mut client, "misc.test"), 2, "the alias is filed into what it stands for");
    assert_eq!(count(&mut client, "local.moderated"), 0);
    // From peers: n is filed, j goes to junk, x nowhere, =alias into its target, m only when approved.
    for (n, (groups, filed_in)) in [
        ("local.closed", Some("local.closed")),
        ("local.flood", Some("junk")),
        ("local.flood,misc.test", Some("misc.test")),
        ("local.refused", None),
        ("local.refused,misc.test", Some("misc.test")),
        ("alias.test,misc.test", Some("misc.test")),
        ("local.moderated", None),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("<flag{n}@x.example>");
        let all = ["misc.test", "junk", "local.closed", "local.flood", "local.refused", "local.moderated"];
        let before: Vec<u32> = all.iter().map(|group| count(&mut client, group)).collect();
        client.send(format!("TAKETHIS {id}\r\n{}", article(&id, groups, "b")));
        let code = if filed_in.is_some() { "239 " } else { "439 " };
        let answer = client.line();
        assert!(answer.starts_with(code), "{groups}: {answer}");
        for (group, before) in all.iter().zip(before) {
            let expected = before + u32::from(Some(*group) == filed_in);
            assert_eq!(count(&mut client, group), expected, "{groups} in {group}");
        }
    }
    // A changed flag takes effect at once.
    assert!(server.operate(&["changegroup", "misc.test", "x"]));
    assert!(post(&mut client, &headers("misc.test", ""), "b").starts_with("441 Posting to misc.test"));
    client.send(format!("TAKETHIS <late@x.example>\r\n{}", article("<late@x.example>", "misc.test", "b")));
    assert_eq!(client.line(), "439 <late@x.example> groups take no articles");
    assert!(server.operate(&["changegroup", "local.closed", "y"]));
    assert!(post(&mut client, &headers("local.closed", ""), "b").starts_with("240 "));
}

#[test]
fn fast_posters_are_delayed_increasingly() {
    let server = site_with(
        "\n[posting]\nbackoff_trigger = 3\nbackoff_fast = \"10 min\"\nbackoff_slow = \"1 h\"\nbackoff_first = \"1 s\"\n",
    );
    let mut client = server.client();
    for _ in 0..3 {
        assert!(post(&mut client, &headers("misc.test", ""), "b").starts_with("240 "));
    }
    let mut posted = Instant::now();
    assert!(post(&mut client, &headers("misc.test", ""), "b").starts_with("240 "));
    for secs in [1, 2] {
        assert!(
            post(&mut client, &headers("no.such", ""), "b").starts_with("441 None of these newsgroups"),
            "what is wrong is told first"
        );
        // Another connection from the same address.
        let mut again = server.client();
        let mut tried = Instant::now();
        let attempt = || {
            tried = Instant::now();
            post(&mut again, &headers("misc.test", ""), "b")
        };
        wait_for(attempt, |answer| {
            let left = answer.strip_prefix("441 Posting too fast: wait ");
            let left =
                left.map(|left| left.strip_suffix(" s and try again").unwrap().parse::<u64>().unwrap());
            assert!(left.is_none_or(|left| (1..=secs).contains(&left)), "{answer}");
            assert!(left.is_some() || answer.starts_with("240 "), "{answer}");
            left.is_none()
        });
        assert!(posted.elapsed() >= Duration::from_secs(secs), "{:?}, {secs} s asked for", posted.elapsed());
        posted = tried;
    }
}

#[test]
fn rights_to_approve_and_post_to_closed_groups_belong_to_users() {
    let server = auth::start();
    let mut client = server.client();
    assert!(client.ask(&auth::plain("fred", "flintstone")).starts_with("281 "));
    let approved = headers("local.moderated", "Approved: me@x.example\r\n");
    assert_eq!(
        post(&mut client, &approved, "b"),
        "441 You may not approve articles for local.moderated; remove the Approved header"
    );
    let elsewhere = headers("misc.test", "Approved: me@x.example\r\n");
    assert!(post(&mut client, &elsewhere, "b").starts_with("441 You may not approve articles for misc.test"));
    assert!(post(&mut client, &headers("local.closed", ""), "b").starts_with("441 Posting to local.closed"));
    assert!(
        post(&mut client, &headers("local.moderated", ""), "b").starts_with("240 Queued for the moderator")
    );
    let mut client = server.client();
    assert!(client.ask(&auth::plain("wilma", "pebblestone")).starts_with("281 "));
    assert!(post(&mut client, &approved, "b").starts_with("240 Article received OK"));
    assert!(post(&mut client, &elsewhere, "b").starts_with("240 Article received OK"));
    assert!(post(&mut client, &headers("local.closed", ""), "b").starts_with("240 Article received OK"));
    let newgroup = headers("misc.test", "Control: newgroup x.y\r\n");
    assert!(
        post(&mut client, &newgroup, "b").starts_with("240 "),
        "who may approve may send control messages"
    );
    assert!(client.ask("GROUP x.y").starts_with("411 "), "and they are filed, not obeyed");
    assert_eq!(client.ask("GROUP control").split(' ').nth(1), Some("1"));
}
