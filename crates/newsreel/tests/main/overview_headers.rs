//! Additional overview headers: added to a site that has articles and removed again, through a reload, a
//! restart and a cache in front.

use crate::client::{Client, article};
use crate::running::Server;
use std::fs::File;
use std::os::unix::fs::FileExt;

const KEY: &str = "[site]\noverview_headers = ";

/// Returns the configuration with these additional headers.
fn keeping(text: &str, headers: &str) -> String {
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("overview_headers")).collect();
    let line = format!("overview_headers = {headers}");
    let at = lines.iter().position(|line| *line == "[site]").unwrap();
    lines.insert(at + 1, &line);
    lines.join("\n") + "\n"
}

/// Files an article with these header lines.
fn feed(client: &mut Client, n: u32, headers: &str) {
    let id = format!("<{n}@headers.example>");
    let text = article(&id, "misc.test", "body");
    client.send(format!(
        "TAKETHIS {id}\r\n{}",
        text.replacen("Newsgroups:", &format!("{headers}Newsgroups:"), 1)
    ));
    assert_eq!(client.line(), format!("239 {id}"));
}

fn listed(client: &mut Client, command: &str) -> Vec<String> {
    let answer = client.ask(command);
    assert!(answer.starts_with("22") || answer.starts_with("215"), "{command}: {answer}");
    client.block()
}

/// Returns the fields of rows after Xref.
fn further(client: &mut Client, command: &str) -> Vec<String> {
    let rows = listed(client, command);
    let after = |row: &String| row.splitn(10, '\t').nth(9).unwrap_or("nothing").to_owned();
    rows.iter().map(after).collect()
}

/// Returns the lines of LIST OVERVIEW.FMT after the standard ones.
fn named(client: &mut Client) -> Vec<String> {
    let lines = listed(client, "LIST OVERVIEW.FMT");
    assert_eq!(lines[7], "Xref:full");
    lines[8..].to_vec()
}

#[test]
fn headers_are_added_to_and_removed_from_existing_overview() {
    let server = Server::start();
    let mut client = server.client();
    feed(&mut client, 1, "Keywords: old\r\n");
    assert!(client.ask("GROUP misc.test").starts_with("211 1 "));
    assert_eq!(named(&mut client), [""; 0]);
    server.reload(|text| keeping(&text, "[\"Keywords\", \"Summary\"]")).unwrap();
    feed(&mut client, 2, "keywords: new\r\n\tfolded\r\nSummary:\r\n  long\r\n");
    feed(&mut client, 3, "Summary: alone\r\n");
    feed(&mut client, 4, "");
    assert_eq!(named(&mut client), ["Keywords:full", "Summary:full"]);
    // RFC 3977 section 8.3.2: whole header lines; an empty field without one, omitted at the end.
    let sent = ["nothing", "Keywords: new folded\tSummary: long", "\tSummary: alone", "nothing"];
    for command in ["OVER 1-", "XOVER 1-4"] {
        assert_eq!(further(&mut client, command), sent, "{command}");
    }
    assert_eq!(further(&mut client, "OVER <2@headers.example>"), sent[1..2]);
    for command in ["HDR Keywords 1-", "HDR keywords 1-4"] {
        assert_eq!(listed(&mut client, command), ["1 old", "2 new folded", "3 ", "4 "], "{command}");
    }
    assert_eq!(listed(&mut client, "HDR Keywords 2-3"), ["2 new folded", "3 "]);
    assert_eq!(listed(&mut client, "XHDR Keywords 1-"), ["1 old", "2 new folded", "3 (none)", "4 (none)"]);
    assert_eq!(listed(&mut client, "XPAT Keywords 1- *o*"), ["1 old", "2 new folded"]);
    assert_eq!(listed(&mut client, "HDR Keywords <1@headers.example>"), ["0 old"]);
    // Another order, a new header, and one removed.
    server.reload(|text| keeping(&text, "[\"Organization\", \"Summary\"]")).unwrap();
    assert_eq!(named(&mut client), ["Organization:full", "Summary:full"]);
    assert_eq!(
        further(&mut client, "OVER 1-"),
        ["nothing", "\tSummary: long", "\tSummary: alone", "nothing"]
    );
    // No headers, also after a restart.
    let text = std::fs::read_to_string(server.file()).unwrap();
    server.reload(|text| keeping(&text, "[]")).unwrap();
    assert_eq!(
        (named(&mut client), further(&mut client, "OVER 1-")),
        (vec![], vec!["nothing".to_owned(); 4])
    );
    drop(client);
    let server = server.again_as_configured();
    let mut client = server.client();
    assert!(client.ask("GROUP misc.test").starts_with("211 4 "));
    assert_eq!(further(&mut client, "OVER 1-"), ["nothing"; 4]);
    assert_eq!(listed(&mut client, "HDR Keywords 1-")[..2], ["1 old", "2 new folded"]);
    server.reload(|_| text).unwrap();
    assert_eq!(further(&mut client, "OVER 1-")[1..3], ["\tSummary: long", "\tSummary: alone"]);
    for (headers, why) in [
        ("[\"Subject\"]", "overview has it anyway"),
        ("[\"Keywords\", \"keywords\"]", "is kept already"),
        ("[\"A B\"]", "is not a header's name"),
    ] {
        let said = server.reload(|text| keeping(&text, headers)).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}

/// For a client without support for large numbers, Xref is renumbered in the middle of the row.
#[test]
fn renumbered_rows_keep_additional_headers() {
    let server = Server::start_with(|text| text.replacen("[site]\n", &format!("{KEY}[\"Keywords\"]\n"), 1));
    assert!(server.operate(&["user", "old", "secretive"]));
    let high = 1_u64 << 33;
    assert!(server.operate(&["raise", "misc.test", &high.to_string()]));
    let mut client = server.client();
    feed(&mut client, 1, "Keywords: k\r\n");
    let mut old = server.client();
    assert!(old.ask("AUTHINFO USER old").starts_with("381"));
    assert!(old.ask("AUTHINFO PASS secretive").starts_with("281"));
    let selected = old.ask("GROUP misc.test");
    let shown = selected.split(' ').nth(3).unwrap().to_owned();
    assert!(shown.parse::<u64>().unwrap() < 1 << 31, "{selected}");
    let row = listed(&mut old, "OVER 1-").concat();
    assert!(row.ends_with(&format!("\tXref: site.example misc.test:{shown}\tKeywords: k")), "{row}");
    assert_eq!(listed(&mut old, "HDR Keywords 1-"), [format!("{shown} k")]);
}

/// HDR needs no article for a header in the overview.
#[test]
fn overview_header_is_available_for_a_damaged_article() {
    let server = Server::start_with(|text| text.replacen("[site]\n", &format!("{KEY}[\"Keywords\"]\n"), 1));
    let mut client = server.client();
    feed(&mut client, 1, "Keywords: k\r\nSummary: a-summary-to-be-damaged\r\n");
    let path = server.data().join("text0.cyc");
    let stored = std::fs::read(&path).unwrap();
    let at = stored.windows(7).position(|bytes| bytes == b"damaged").unwrap() as u64;
    File::options().write(true).open(path).unwrap().write_all_at(b"DAMAGED", at).unwrap();
    assert!(client.ask("GROUP misc.test").starts_with("211 1 "));
    assert_eq!(listed(&mut client, "HDR Keywords 1"), ["1 k"]);
    let answer = client.ask("HDR Summary 1");
    assert!(!answer.starts_with("225") || client.block().is_empty(), "it is read from the article: {answer}");
}

/// A cache in front has the fields of the rows that it gets, and of those that it makes from its articles.
#[test]
fn additional_headers_pass_through_a_cache() {
    let change = |text: String| text.replacen("[site]\n", &format!("{KEY}[\"Keywords\"]\n"), 1);
    let behind = Server::start_with(change);
    let mut feeder = behind.client();
    feed(&mut feeder, 1, "Keywords: k\r\n");
    feed(&mut feeder, 2, "");
    let upstream = format!("[[upstream]]\nname = \"behind\"\nhost = \"{}\"\n", behind.address);
    let front = Server::start_showing(&[], |text| change(text) + &upstream);
    for round in ["asked", "cached", "made of the article"] {
        let mut client = front.client();
        assert!(client.ask("GROUP misc.test").starts_with("211 2 "), "{round}");
        assert_eq!(further(&mut client, "OVER 1-"), ["Keywords: k", "nothing"], "{round}");
        assert_eq!(listed(&mut client, "HDR Keywords 1-"), ["1 k", "2 "], "{round}");
        if round == "cached" {
            assert!(client.ask("ARTICLE 1").starts_with("220 "));
            client.block();
        }
    }
    front.reload(|text| text.replacen("[\"Keywords\"]", "[\"Summary\"]", 1)).unwrap();
    let mut client = front.client();
    assert!(client.ask("GROUP misc.test").starts_with("211 2 "));
    assert_eq!(
        (named(&mut client), further(&mut client, "OVER 1-")),
        (vec!["Summary:full".into()], vec!["nothing".to_owned(); 2])
    );
}
