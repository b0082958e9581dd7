//! Foreign text is shown to operators without its control sequences reaching their terminals.

use crate::client::article;
use crate::operated::{Operated, complaints};

/// Clears the screen, in C0, in C1 and by overriding the direction.
const EVIL: &str = "\u{1b}[2J\u{9b}2J\u{202e}\u{7}";

fn assert_harmless(text: &str) {
    let harms = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!text.contains(harms), "{text:?}");
}

#[test]
fn commands_and_log_escape_control_characters() {
    let site = Operated::new();
    site.edit(|text| text.replacen("[site]", "[site]\nlog_level = \"debug\"", 1));
    let evil = article(&format!("<{EVIL}@x.example>"), "local.test", "b").replace("\r\n", "\n");
    assert_harmless(&complaints(&site.run_with(&["rnews"], evil.as_bytes())));
    let explained = complaints(&site.run(&["explain", EVIL]));
    assert!(explained.contains("\\u{1b}[2J\\u{9b}2J\\u{202e}\\u{7}"), "{explained}");
    assert_harmless(&explained);
    let mut serving = site.serve();
    assert!(site.run_with(&["rnews"], evil.as_bytes()).status.code().is_some());
    serving.logged(|line| line.contains("rejected") && line.contains("\\u{1b}[2J"));
    assert_harmless(&serving.log().join("\n"));
}

#[test]
fn json_escapes_control_characters() {
    let site = Operated::new();
    let asked = site.run(&["group", "add", "local.evil", "--description", "a\u{202e}b"]);
    assert!(asked.status.success(), "{}", complaints(&asked));
    let listed = site.done(&["group", "list", "local.evil", "--json"]);
    assert_harmless(&listed);
    let rows: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(rows[0]["description"], "a b");
    assert_harmless(&site.done(&["group", "list"]));
}
