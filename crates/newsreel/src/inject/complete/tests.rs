//! Completed proto-articles, header by header.

use super::*;
use crate::config;
use std::path::Path;

const NOW: i64 = 1_780_000_000;

fn completed(proto: &str) -> String {
    let text = "[site]\npath_identity = \"me.example\"\norganization = \"Us\"\nlisten = [\"127.0.0.1:0\"]\n\
                [[buffer]]\nname = \"b\"\npath = \"b\"\nsize = \"4 MiB\"\n[[class]]\nname = \"c\"\nbuffers = [\"b\"]\n[[rule]]\nclass = \"c\"\n";
    let config = config::parse(text, Path::new("/nowhere/newsreel.toml")).map_err(|e| e.to_string()).unwrap();
    let article = Article::parse(proto.as_bytes()).unwrap();
    let complete = Additions::for_article(&article, &config, "192.0.2.1", NOW).applied_to(&article);
    let complete = String::from_utf8(complete).unwrap();
    Article::parse(complete.as_bytes()).unwrap().required().unwrap();
    complete
}

#[test]
fn what_is_missing_is_added_behind_what_is_there() {
    let own = "From: a@b\r\nNewsgroups: c.d\r\nSubject: s\r\n";
    let complete = completed(&format!("{own}\r\nbody\r\n"));
    let (head, body) = complete.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, "body\r\n");
    let mut added = head.strip_prefix(own).unwrap().split("\r\n");
    assert_eq!(added.next(), Some("Path: me.example!.POSTED.192.0.2.1!not-for-mail"));
    let id = added.next().unwrap();
    assert!(id.starts_with("Message-ID: <") && id.ends_with("@me.example>"), "{id}");
    let date = added.next().unwrap().strip_prefix("Date: ").unwrap();
    assert_eq!(date::parse(date.as_bytes()), Some(NOW));
    assert_eq!(added.next().unwrap(), format!("Injection-Date: {date}"));
    assert_eq!(added.next(), Some("Injection-Info: me.example; posting-host=\"192.0.2.1\""));
    assert_eq!(added.next(), Some("Organization: Us"));
    assert_eq!(added.next(), None);
}

#[test]
fn injection_date_is_left_out_where_the_article_may_be_injected_elsewhere_too() {
    let own = "From: a@b\r\nNewsgroups: c.d\r\nSubject: s\r\n";
    let (id, date) = ("Message-ID: <i@x>\r\n", "Date: 15 Apr 2026 12:00:00 GMT\r\n");
    for (given, added) in [("", true), (id, true), (date, true), (&format!("{id}{date}"), false)] {
        let complete = completed(&format!("{own}{given}\r\nbody\r\n"));
        assert_eq!(complete.contains("\r\nInjection-Date: "), added, "{given}");
        assert!(complete.contains(given));
    }
    let given = "Injection-Date: 14 Apr 2026 12:00:00 GMT\r\n";
    assert_eq!(completed(&format!("{own}{given}\r\n")).matches("Injection-Date").count(), 1);
}

#[test]
fn a_path_of_the_poster_stays_behind_ours() {
    let complete =
        completed("Path: \r\n reader!me\r\nFrom: a@b\r\nNewsgroups: c.d\r\nSubject: s\r\n\r\n..b\r\n");
    assert!(complete.starts_with("Path: me.example!.POSTED.192.0.2.1!\r\n reader!me\r\nFrom"), "{complete}");
    assert!(complete.ends_with("\r\n\r\n..b\r\n"));
}

#[test]
fn message_ids_never_repeat() {
    let ids: std::collections::HashSet<_> = (0..10_000).map(|_| fresh_message_id("me.example")).collect();
    assert_eq!(ids.len(), 10_000);
    assert!(ids.iter().all(|id| netnews::MessageId::parse(id.as_bytes()).is_some()));
}
