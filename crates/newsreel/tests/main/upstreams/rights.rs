//! Rights of readers and posters in groups of other servers.

use super::fake::{Fake, Fault, id};
use super::{CACHE, section};
use crate::client::{Client, article};
use crate::posting::{headers, post};
use crate::running::Server;

/// Starts a site of these upstreams with a group of its own, whose readers may read and post to `groups`.
fn narrow(groups: &str, sections: &str) -> Server {
    let rights = format!("read = \"{groups}\"\npost = \"{groups}\"");
    Server::start_showing(&[("misc.test", "y", "Ours")], |text| {
        text.replace("read = \"*\"\npost = \"*,!control\"", &rights) + sections + CACHE
    })
}

/// Returns the response codes of commands.
fn codes(client: &mut Client, commands: &[String]) -> Vec<String> {
    let code = |command: &String| {
        let answer = client.ask(command);
        if ["220", "221", "222"].contains(&&answer[..3]) {
            client.block();
        }
        answer[..3].to_owned()
    };
    commands.iter().map(code).collect()
}

fn without_xref(fake: &Fake) {
    fake.change(|groups| {
        for article in groups.values_mut().flat_map(|group| group.articles.values_mut()) {
            let (before, rest) = article.split_once("Xref:").unwrap();
            *article = format!("{before}{}", rest.split_once("\r\n").unwrap().1);
        }
    });
}

#[test]
fn rights_follow_newsgroups_without_xref() {
    let fake = Fake::with("comp.a", 4, 500);
    fake.put("private.a", 1, 500);
    without_xref(&fake);
    for groups in ["comp.*", "*,!private.*"] {
        let server = narrow(groups, &section("fake", fake.address, ""));
        let mut client = server.client();
        let shown: Vec<_> = ["ARTICLE", "HEAD", "BODY", "STAT"]
            .iter()
            .zip(1..)
            .map(|(verb, number)| format!("{verb} {}", id("comp.a", number)))
            .collect();
        assert_eq!(codes(&mut client, &shown), ["220", "221", "222", "223"], "{groups}");
        let hidden = ["ARTICLE", "STAT"].map(|verb| format!("{verb} {}", id("private.a", 1)));
        assert_eq!(codes(&mut client, &hidden), ["430", "430"], "{groups}");
        // Also when another reader has had it cached.
        let before = std::fs::read_to_string(server.file()).unwrap();
        server.reload(|text| text.replace(&format!("\"{groups}\""), "\"private.*\"")).unwrap();
        assert_eq!(codes(&mut server.client(), &hidden), ["220", "223"], "{groups}");
        server.reload(|_| before).unwrap();
        assert_eq!(codes(&mut server.client(), &hidden), ["430", "430"], "{groups}");
    }
}

#[test]
fn rights_follow_newsgroups_for_articles_of_fill_servers() {
    let (main, fill) = (Fake::with("comp.a", 3, 500), Fake::with("comp.a", 3, 500));
    main.fail(Fault::Forgetful);
    let sections = section("main", main.address, "") + &section("fill", fill.address, "fill = true");
    let server = narrow("*,!private.*", &sections);
    let commands = ["ARTICLE", "BODY", "STAT"].map(|verb| format!("{verb} {}", id("comp.a", 2)));
    assert_eq!(codes(&mut server.client(), &commands), ["220", "222", "223"]);
}

#[test]
fn post_to_a_closed_group_of_an_upstream_is_refused() {
    let fake = Fake::with("comp.a", 1, 500);
    fake.put("comp.secret", 1, 500);
    fake.put("private.a", 1, 500);
    let server = Server::start_showing(&[("misc.test", "y", "Ours")], |text| {
        let rights = "read = \"*,!private.*\"\npost = \"*,!private.*,!comp.secret\"";
        text.replace("read = \"*\"\npost = \"*,!control\"", rights) + &section("fake", fake.address, "")
    });
    let mut client = server.client();
    for (groups, closed) in [
        ("comp.a,comp.secret", "comp.secret"),
        ("misc.test,comp.secret", "comp.secret"),
        ("comp.a,private.a", "private.a"),
        ("comp.a,private.absent", "private.absent"),
    ] {
        let refused = format!("441 Posting to {closed} is not permitted to you");
        assert_eq!(post(&mut client, &headers(groups, ""), "b"), refused, "{groups}");
    }
    assert_eq!(fake.posts(), [""; 0]);
    assert_eq!(client.ask("GROUP misc.test"), "211 0 1 0 misc.test");
    assert!(post(&mut client, &headers("comp.a,no.such.group", ""), "b").starts_with("240 "));
    assert_eq!(fake.posts().len(), 1);
}

#[test]
fn articles_hidden_or_cancelled_here_are_430_despite_upstreams() {
    let fake = Fake::with("comp.a", 1, 500);
    let server = Server::start_showing(&[("misc.test", "y", "Ours")], |text| {
        text + &section("fake", fake.address, "") + CACHE
    });
    let mut client = server.client();
    let ids = ["<cancelled@x.example>", "<hidden@x.example>"];
    for own in ids {
        client.send(format!("TAKETHIS {own}\r\n{}", article(own, "misc.test", "text")));
        assert_eq!(client.line(), format!("239 {own}"));
    }
    assert!(server.operate(&["cancel", ids[0]]));
    assert!(server.operate(&["hide", ids[1]]));
    let commands: Vec<_> =
        ids.iter().flat_map(|own| ["STAT", "ARTICLE"].map(|verb| format!("{verb} {own}"))).collect();
    assert_eq!(codes(&mut client, &commands), ["430"; 4]);
    // The upstream has them, and is away.
    fake.change(|groups| {
        let text =
            groups["comp.a"].articles[&1].replace("Newsgroups: comp.a", "Newsgroups: misc.test,comp.a");
        let group = groups.get_mut("comp.a").unwrap();
        for (own, number) in ids.iter().zip(2..) {
            group.articles.insert(number, text.replace(&id("comp.a", 1), own));
        }
    });
    assert_eq!(codes(&mut client, &commands), ["430"; 4]);
    fake.fail(Fault::Dead);
    assert!(client.ask("STAT <no@where.example>").starts_with("403 "));
    assert_eq!(codes(&mut client, &commands), ["430"; 4]);
}
