//! Responses to readers while upstreams are away, or offline by configuration.

use super::fake::{Fake, Fault, id};
use super::{CACHE, article_of, section, wait_until_asked};
use crate::clients::screen::Screen;
use crate::clients::{installed, tin};
use crate::running::Server;
use crate::waiting::wait_until;
use crate::web::http;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Returns a site whose upstream has a group of ten articles, of which all rows and the third article were
/// read, and then two more, of which only the marks are known.
fn partly_read() -> (Fake, Server) {
    let fake = Fake::with("comp.a", 10, 500);
    fake.put("comp.b", 1, 500);
    let own = section("fake", fake.address, "");
    let server = Server::start_showing(&[("misc.test", "y", "Ours")], |text| text + &own + CACHE);
    let mut client = server.client();
    assert!(client.ask("LIST ACTIVE").starts_with("215 "));
    assert_eq!(client.block().len(), 3);
    assert_eq!(client.ask("GROUP comp.a"), "211 10 1 10 comp.a");
    assert!(client.ask("LISTGROUP").starts_with("211 "));
    client.block();
    assert!(client.ask("OVER 1-").starts_with("224 "));
    assert_eq!(client.block().len(), 10);
    assert!(article_of(&mut client, "ARTICLE 3").is_some());
    (11..=12).for_each(|number| fake.put("comp.a", number, 500));
    assert_eq!(client.ask("GROUP comp.a"), "211 12 1 12 comp.a");
    (fake, server)
}

/// Returns the response to each command in a session of its own, in which comp.a is selected and the third
/// article is current.
fn answers(server: &Server, commands: &[&str]) -> Vec<String> {
    let answer = |command: &&str| {
        let mut client = server.client();
        assert!(client.ask("GROUP comp.a").starts_with("211 12 1 12"), "{command}");
        assert!(client.ask("STAT 3").starts_with("223 "), "{command}");
        let code = client.ask(command)[..3].to_owned();
        assert!(client.ask("DATE").starts_with("111 ") || code.starts_with('2'), "{command}");
        format!("{code} {command}")
    };
    commands.iter().map(answer).collect()
}

#[test]
fn unreachable_articles_are_never_reported_as_absent() {
    let (fake, server) = partly_read();
    let (kept, other, none) = (
        format!("STAT {}", id("comp.a", 3)),
        format!("ARTICLE {}", id("comp.a", 4)),
        "STAT <no@where.example>",
    );
    let expected = [
        "215 LIST ACTIVE",
        "403 LIST NEWSGROUPS",
        "211 GROUP comp.a",
        "403 GROUP comp.b",
        "403 GROUP comp.c",
        "403 LISTGROUP comp.a",
        "211 LISTGROUP comp.a 1-10",
        "224 OVER 1-10",
        "403 OVER 1-",
        "403 OVER 11",
        "225 HDR Subject 1-10",
        "403 HDR Subject 9-11",
        "223 STAT 4",
        "403 STAT 11",
        "223 NEXT",
        "223 LAST",
        "220 ARTICLE 3",
        "220 ARTICLE",
        "403 ARTICLE 4",
        "403 HEAD 4",
        "403 BODY 11",
        &format!("223 {kept}"),
        &format!("403 {other}"),
        &format!("403 {none}"),
        "403 NEWNEWS comp.a 20260101 000000 GMT",
        "403 NEWGROUPS 20260101 000000 GMT",
        "211 GROUP misc.test",
    ];
    let commands: Vec<&str> = expected.iter().map(|line| &line[4..]).collect();
    fake.fail(Fault::Dead);
    // The first client detects the failure.
    assert!(server.client().ask(none).starts_with("403 "));
    assert_eq!(answers(&server, &commands), expected, "away");
    fake.fail(Fault::None);
    server.reload(|text| text.replacen("answer_timeout", "offline = true\nanswer_timeout", 1)).unwrap();
    fake.take("");
    assert_eq!(answers(&server, &commands), expected, "offline");
    assert_eq!(fake.take(""), [""; 0]);
}

#[test]
fn ranges_known_in_part_are_refused_whole_if_the_upstream_has_just_gone_away() {
    let commands = ["OVER 1-60", "XOVER 1-", "HDR Subject 1-60", "XHDR From 1-60", "XPAT Subject 1-60 *"];
    let fake = Fake::start();
    let name = |at: usize| format!("comp.{}", char::from(b'a' + at as u8));
    for at in 0..commands.len() {
        (1..=60).for_each(|number| fake.put(&name(at), number, 500));
    }
    let own = section("fake", fake.address, "").replace("\"0 s\"", "\"1 h\"");
    let server = Server::start_showing(&[], |text| text + &own + CACHE);
    for (at, command) in commands.iter().enumerate() {
        let mut client = server.client();
        assert_eq!(client.ask(&format!("GROUP {}", name(at))), format!("211 60 1 60 {}", name(at)));
        assert!(client.ask("OVER 1-20").starts_with("224 "));
        assert_eq!(client.block().len(), 20);
        fake.fail(Fault::Dead);
        let mut client = server.client();
        assert!(client.ask(&format!("GROUP {}", name(at))).starts_with("211 "));
        assert!(client.ask(command).starts_with("403 "), "{command}");
        assert!(client.ask("OVER 1-20").starts_with("224 "), "{command}");
        assert_eq!(client.block().len(), 20);
        fake.fail(Fault::None);
        wait_until_asked(&mut client);
        // Once the upstream answers, all rows are shown.
        assert!(client.ask("OVER 1-60").starts_with("224 "), "{command}");
        assert_eq!(client.block().len(), 60);
    }
}

#[test]
fn newnews_of_a_second_upstream_that_is_away_is_refused() {
    let (first, second) = (Fake::with("comp.a", 3, 500), Fake::with("comp.b", 3, 500));
    let sections =
        [section("first", first.address, "groups = \"comp.a\""), section("second", second.address, "")];
    let lists_kept = |text: &String| text.replace("active_age = \"0 s\"", "active_age = \"1 h\"");
    let server = Server::start_showing(&[], |text| {
        text + &sections.iter().map(lists_kept).collect::<String>() + CACHE
    });
    let mut client = server.client();
    assert!(client.ask("LIST ACTIVE").starts_with("215 "));
    assert_eq!(client.block().len(), 2);
    assert!(client.ask("NEWNEWS comp.* 20200101 000000 GMT").starts_with("230 "));
    assert_eq!(client.block().len(), 6);
    second.fail(Fault::Dead);
    assert!(client.ask("NEWNEWS comp.* 20200101 000000 GMT").starts_with("403 "));
    assert!(client.ask("DATE").starts_with("111 "));
}

#[test]
fn upstream_that_is_back_is_found_without_a_reader() {
    let fake = Fake::with("comp.a", 3, 500);
    let own = section("fake", fake.address, "");
    let server = Server::start_showing(&[], |text| text + &own + CACHE);
    let problem = || server.status()["upstreams"][0]["problem"].as_str().unwrap().to_owned();
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 "));
    fake.fail(Fault::Dead);
    assert!(client.ask("ARTICLE 1").starts_with("403 "));
    drop(client);
    assert!(!problem().is_empty());
    fake.fail(Fault::None);
    fake.take("");
    wait_until("the upstream is tried again", || problem().is_empty());
    assert_eq!(fake.take("").last().map(String::as_str), Some("DATE"));
}

#[test]
fn pages_do_without_descriptions_and_name_servers_that_are_away() {
    let fake = Fake::with("comp.a", 10, 500);
    let own = section("fake", fake.address, "").replace("\"0 s\"", "\"1 h\"");
    let server = Server::start_showing(&[], |text| text + &own + CACHE);
    let mut client = server.client();
    server.reload(|text| text + "[web]\nlisten = [\"127.0.0.1:0\"]\n").unwrap();
    assert!(client.ask("LIST ACTIVE").starts_with("215 "));
    client.block();
    assert!(client.ask("GROUP comp.a").starts_with("211 "));
    assert!(client.ask("OVER 1-").starts_with("224 "));
    client.block();
    fake.fail(Fault::Dead);
    let pages = http::address(&server);
    for path in ["/", "/groups", "/groups/comp.a", "/api/v1/groups", "/api/v1/groups/comp.a"] {
        let page = http::get(pages, path);
        assert_eq!(page.status, 200, "{path}: {}", page.body);
        assert!(page.body.contains("comp.a"), "{path}: {}", page.body);
    }
    assert!(http::get(pages, "/groups").body.contains("does not answer"));
    assert!(client.ask("LIST NEWSGROUPS").starts_with("403 "));
}

/// Returns a site that refuses articles by a header that overview rows do not have: the second of three, and
/// the twelfth, which is large.
fn refusing(more: &str) -> (Fake, Server) {
    let fake = Fake::with("comp.a", 3, 500);
    fake.put("comp.a", 12, 300_000);
    fake.change(|groups| {
        for number in [2, 12] {
            let text = groups.get_mut("comp.a").unwrap().articles.get_mut(&number).unwrap();
            *text = text.replace("Subject:", "X-No: 1\r\nSubject:");
        }
    });
    let refuse = "[cache]\nrefuse = [{ name = \"X-No\", matches = \"*\" }]\n";
    let own = section("fake", fake.address, "").replace("\"0 s\"", "\"1 h\"") + refuse + more;
    let server = Server::start_showing(&[], |text| text + &own);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 4 "));
    assert!(client.ask("OVER 1-").starts_with("224 "));
    // Rows do not have the header.
    assert_eq!(client.block().len(), 4);
    assert!(client.ask("LISTGROUP").starts_with("211 "));
    client.block();
    fake.take("");
    (fake, server)
}

#[test]
fn refused_articles_are_absent_for_stat() {
    let (fake, server) = refusing("");
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 4 "));
    for (number, is_there) in [(1, true), (2, false), (3, true), (12, false), (12, false)] {
        let (by_number, by_id) = if is_there { ("223 ", "223 ") } else { ("423 ", "430 ") };
        assert!(client.ask(&format!("STAT {number}")).starts_with(by_number), "{number}");
        assert!(client.ask(&format!("STAT {}", id("comp.a", number))).starts_with(by_id), "{number}");
    }
    // Its head is fetched once for that, or a small article as a whole.
    let mut asked = fake.take("");
    asked.retain(|command| command != "GROUP comp.a");
    assert_eq!(asked, ["ARTICLE 1", "ARTICLE 2", "ARTICLE 3", "HEAD 12"]);
    assert!(client.ask("STAT 1").starts_with("223 "));
    assert!(client.ask("NEXT").starts_with("223 3 "));
    assert!(client.ask("NEXT").starts_with("421 "));
    assert!(client.ask("LAST").starts_with("223 1 "));
}

#[test]
fn stat_causes_no_later_fetch() {
    let (fake, server) = refusing("[prefetch]\nfetch_later = true\n");
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 4 "));
    assert!(client.ask("STAT 2").starts_with("423 "));
    fake.fail(Fault::Dead);
    assert!(client.ask("STAT <no@where.example>").starts_with("403 "));
    let expected = [
        // Cached articles show that they are refused.
        ("STAT 2", "423 "),
        (&format!("STAT {}", id("comp.a", 2)), "430 "),
        // As last known, or not known at all.
        ("STAT 12", "223 "),
        ("LAST", "223 3 "),
        (&format!("STAT {}", id("comp.a", 12)), "403 "),
        (&format!("ARTICLE {}", id("comp.a", 3)), "403 "),
    ];
    for (command, answer) in expected {
        assert!(client.ask(command).starts_with(answer), "{command}");
    }
    fake.take("");
    fake.fail(Fault::None);
    // Only articles that a client wanted to read are fetched later.
    let mut asked = Vec::new();
    wait_until("an article is fetched", || {
        asked.extend(fake.take(""));
        asked.iter().any(|command| command.starts_with("ARTICLE"))
    });
    asked.retain(|command| command.starts_with("ARTICLE") || command.starts_with("HEAD"));
    assert_eq!(asked, [format!("ARTICLE {}", id("comp.a", 3))]);
}

#[test]
fn tin_starts_without_any_known_list() {
    if !installed(tin::PROGRAMS) {
        return;
    }
    let (dir, fake) = (TempDir::new().unwrap(), Fake::with("comp.a", 3, 500));
    let server = Server::start_showing(&[("misc.test", "y", "Ours")], |text| {
        text + &section("fake", fake.address, "") + CACHE
    });
    let mut client = server.client();
    assert_eq!(client.ask("GROUP comp.a"), "211 3 1 3 comp.a");
    assert!(client.ask("OVER 1-").starts_with("224 "));
    client.block();
    fake.fail(Fault::Dead);
    assert!(client.ask("STAT <no@where.example>").starts_with("403 "));
    // Lists that other servers copy are complete or refused.
    assert!(client.ask("LIST ACTIVE").starts_with("403 "));
    assert!(client.ask("LIST COUNTS").starts_with("215 "));
    assert_eq!(client.block(), ["comp.a 3 1 3 y", "misc.test 0 1 0 y"]);
    let home = tin::home(dir.path());
    fs::write(home.join(".newsrc"), "comp.a:\n").unwrap();
    let screen = Screen::start(&home, &format!("tin -r -g 127.0.0.1 -p {}", server.address.port()));
    screen.wait(&["Group Selection (127.0.0.1  1)"]);
    screen.wait_line(&["1", "3", "comp.a"]);
    screen.leave(&["ended: 0"]);
    assert_eq!(read_in(&home.join(".newsrc")), "comp.a:");
}

/// Returns the line of comp.a in a .newsrc.
fn read_in(newsrc: &Path) -> String {
    let text = fs::read_to_string(newsrc).unwrap();
    text.lines().find(|line| line.starts_with("comp.a")).unwrap().trim_end().to_owned()
}
