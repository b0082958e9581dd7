//! `newsreel hide` and `newsreel unhide`, with a running server and without one.

use crate::client::Client;
use crate::operated::{Operated, complaints};
use crate::purging::feed;

const FIRST: &str = "<1@x.example>";
const SECOND: &str = "<2@x.example>";

fn filled() -> Operated {
    let site = Operated::new();
    site.edit(|text| text.replacen("max_age_days = 10", "max_age_days = \"none\"", 1));
    site.edit(|text| text + "\n[[peer]]\nname = \"other.example\"\naddresses = [\"127.0.0.2\"]\n");
    site.done(&["group", "add", "misc.one"]);
    site.done(&["group", "add", "misc.two"]);
    feed(&site, &[(FIRST, "misc.one"), (SECOND, "misc.one,misc.two"), ("<3@x.example>", "misc.one")]);
    site
}

/// Returns a reader's view of a group and its articles.
fn seen(client: &mut Client) -> Vec<String> {
    let mut all: Vec<String> =
        ["GROUP misc.two", "GROUP misc.one"].map(|command| client.ask(command)).to_vec();
    for command in ["LISTGROUP misc.one", "OVER 1-9", "HDR Message-ID 1-9", "LIST COUNTS misc.*"] {
        all.push(client.ask(command));
        all.extend(client.block());
    }
    for command in ["STAT 1", "STAT 2", "STAT 3", "STAT <1@x.example>", "STAT <2@x.example>"] {
        all.push(client.ask(command));
    }
    all
}

#[test]
fn hidden_articles_are_invisible_and_return_under_their_numbers() {
    for served in [true, false] {
        let site = filled();
        let serving = site.serve();
        let before = seen(&mut serving.client());
        let serving = served.then_some(serving);
        assert_eq!(
            site.done(&["hide", "--dry-run", SECOND]),
            format!("{SECOND} would be hidden\n"),
            "nothing has happened yet"
        );
        assert_eq!(
            site.done(&["hide", "--reason", "complaint 7", FIRST, SECOND]),
            format!("{FIRST} hidden\n{SECOND} hidden\n")
        );
        let absent = site.run(&["hide", SECOND, "<absent@x.example>"]);
        assert!(!absent.status.success());
        let said = String::from_utf8(absent.stdout).unwrap();
        assert_eq!(said, format!("{SECOND} is hidden already\n<absent@x.example> is not here\n"));
        let bad = site.run(&["hide", "noid"]);
        assert!(complaints(&bad).contains("is not a Message-ID"), "{}", complaints(&bad));
        let list = site.done(&["hide", "--list", "--since", "2h", "--issuer", "operator"]);
        assert_eq!(list.lines().count(), 3, "{list}");
        assert!(list.contains("complaint 7"), "{list}");
        assert_eq!(site.done(&["hide", "--list", "--issuer", "nobody"]), "no articles are hidden\n");
        let json: serde_json::Value =
            serde_json::from_str(&site.done(&["hide", "--list", "--json"])).unwrap();
        assert_eq!(json[0]["by"], "operator");
        assert!(site.done(&["status"]).contains("3 articles (2 hidden) in "));
        let explained = site.run(&["explain", FIRST]);
        let explained = String::from_utf8(explained.stdout).unwrap();
        assert!(explained.contains("present, and hidden"), "{explained}");
        assert!(explained.contains("by operator, ") && explained.contains(": complaint 7"), "{explained}");
        drop(serving);
        assert!(site.done(&["verify"]).contains("2 hidden articles"));
        let serving = site.serve();
        let mut client = serving.client();
        assert_eq!(client.ask("GROUP misc.two"), "211 0 1 1 misc.two");
        // The low mark does not rise, as the hidden articles may return (RFC 3977 section 6.1.1.2).
        assert_eq!(client.ask("GROUP misc.one"), "211 1 1 3 misc.one");
        for command in ["ARTICLE 1", "HEAD 2", "BODY 2", "OVER 1-2", "HDR Subject 1-2"] {
            assert!(client.ask(command).starts_with("423 "), "{command}");
        }
        for command in ["STAT", "ARTICLE", "HEAD", "BODY", "OVER", "HDR Subject"] {
            let answer = client.ask(&format!("{command} {SECOND}"));
            assert!(answer.starts_with("430 "), "{command}: {answer}");
        }
        client.ask("LISTGROUP misc.one");
        assert_eq!(client.block(), ["3"]);
        client.ask("NEWNEWS misc.* 19990101 000000 GMT");
        assert_eq!(client.block(), ["<3@x.example>"]);
        let mut peer = Client::greeted_from([127, 0, 0, 2], serving.address);
        // Peers are refused it as a duplicate.
        for (command, code) in [("IHAVE", "435 "), ("CHECK", "438 ")] {
            let answer = peer.ask(&format!("{command} {SECOND}"));
            assert!(answer.starts_with(code), "{command}: {answer}");
        }
        drop(client);
        let serving = served.then_some(serving);
        assert_eq!(site.done(&["unhide", "--dry-run", FIRST]), format!("{FIRST} would be shown again\n"));
        assert_eq!(site.done(&["unhide", FIRST]), format!("{FIRST} is shown again\n"));
        assert_eq!(
            site.done(&["unhide", "--issuer", "operator", "--since", "1d"]),
            format!("{SECOND} is shown again\n")
        );
        let again = site.run(&["unhide", FIRST]);
        assert!(!again.status.success());
        assert_eq!(String::from_utf8(again.stdout).unwrap(), format!("{FIRST} is not hidden\n"));
        drop(serving);
        let serving = site.serve();
        assert_eq!(seen(&mut serving.client()), before);
    }
}

#[test]
fn hidden_article_can_be_cancelled_for_good() {
    let site = filled();
    let serving = site.serve();
    site.done(&["hide", FIRST, SECOND]);
    assert_eq!(site.done(&["cancel", FIRST]), format!("{FIRST} cancelled\n"));
    assert!(site.done(&["purge", "--groups", "misc.two", "--yes"]).starts_with("0 articles purged"));
    let gone = site.run(&["unhide", FIRST, SECOND]);
    assert!(!gone.status.success());
    assert_eq!(
        String::from_utf8(gone.stdout).unwrap(),
        format!(
            "{FIRST} is not here any more: it was cancelled, expired or rejected\n{SECOND} is shown again\n"
        )
    );
    let mut client = serving.client();
    assert_eq!(client.ask("GROUP misc.one"), "211 2 2 3 misc.one");
    assert_eq!(client.ask("GROUP misc.two"), "211 0 2 1 misc.two");
    drop(client);
    drop(serving);
    site.done(&["verify"]);
}
