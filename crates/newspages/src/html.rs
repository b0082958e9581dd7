//! HTML as plain text: only the text that a reader would see.
//!
//! This is no parser of HTML: tags are removed, those that end a line end one, and `entities` are decoded.
//! The result is text, which is escaped like any other. Called by `content`.

use crate::{entities, work};

/// Elements whose contents are not text.
const SILENT: &[&str] = &["script", "style", "head", "title", "template", "noscript", "svg"];
/// Elements that begin or end a line.
const LINES: &[&str] = &[
    "br",
    "p",
    "div",
    "tr",
    "li",
    "ul",
    "ol",
    "table",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "blockquote",
    "pre",
    "section",
    "article",
    "header",
    "footer",
    "dt",
    "dd",
];

/// Returns the text of HTML.
pub fn to_text(html: &str) -> String {
    let mut out = String::with_capacity(html.len());
    let mut rest = html;
    let mut is_pre = false;
    while let Some(at) = rest.find(['<', '&']) {
        let before_bytes = rest.len();
        let (before, after) = rest.split_at(at);
        append(before, is_pre, &mut out);
        rest = if after.starts_with('&') {
            let (character, bytes) = entities::read(after).unwrap_or(('&', 1));
            out.push(if character == '\u{a0}' { ' ' } else { character });
            after.get(bytes..).unwrap_or_default()
        } else {
            tag(after, &mut is_pre, &mut out)
        };
        if !work::take(before_bytes - rest.len()) {
            break;
        }
    }
    work::take(rest.len());
    append(rest, is_pre, &mut out);
    tidied(&out)
}

/// Appends text with white space collapsed, unless it is preformatted.
fn append(text: &str, is_pre: bool, out: &mut String) {
    if is_pre {
        out.push_str(text);
        return;
    }
    for c in text.chars() {
        if !c.is_ascii_whitespace() {
            out.push(c);
        } else if !out.ends_with([' ', '\n']) && !out.is_empty() {
            out.push(' ');
        }
    }
}

/// Handles the tag at whose `<` the text begins; returns the rest after it.
fn tag<'a>(text: &'a str, is_pre: &mut bool, out: &mut String) -> &'a str {
    if text.starts_with("<!--") {
        return text.find("-->").and_then(|end| text.get(end + 3..)).unwrap_or_default();
    }
    let inner = text.get(1..).unwrap_or_default();
    if !inner.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?')) {
        out.push('<');
        return inner;
    }
    let Some(end) = inner.find('>') else { return "" };
    let (tag, after) = (inner.get(..end).unwrap_or_default(), inner.get(end + 1..).unwrap_or_default());
    let closes = tag.starts_with('/');
    let name = tag.trim_start_matches('/');
    let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let is = |known: &&str| name.eq_ignore_ascii_case(known);
    if LINES.iter().any(is) && !out.is_empty() {
        while out.ends_with(' ') {
            out.pop();
        }
        out.push('\n');
    }
    if is(&"li") && !closes {
        out.push_str("* ");
    }
    if is(&"pre") {
        *is_pre = !closes;
    }
    if SILENT.iter().any(is) && !closes && !tag.ends_with('/') {
        return after_end_of(name, after);
    }
    after
}

/// Returns the text after the end tag of an element; nothing if it never ends.
fn after_end_of<'a>(name: &str, text: &'a str) -> &'a str {
    let mut rest = text;
    while let Some(at) = rest.find("</") {
        rest = rest.get(at + 2..).unwrap_or_default();
        if rest.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name)) {
            return rest.find('>').and_then(|end| rest.get(end + 1..)).unwrap_or_default();
        }
    }
    ""
}

/// Collapses consecutive empty lines, and removes control characters that came from entities.
fn tidied(text: &str) -> String {
    let clean = crate::charset::clean(text);
    work::take(clean.len());
    let mut out = String::with_capacity(clean.len());
    let mut empty = 0;
    for line in clean.trim().lines() {
        empty = if line.trim().is_empty() { empty + 1 } else { 0 };
        if empty < 2 {
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn html_becomes_text() {
        for (html, text) in [
            ("<p>Hello,\n <b>world</b>!<br>Bye</p>", "Hello, world!\nBye\n"),
            ("a<script>alert('</p>')</SCRIPT >b<style>x</style>c", "abc\n"),
            ("<script>alert(1)", "\n"),
            ("<!-- a > b -->x<!-- no end", "x\n"),
            ("1 &lt; 2 &amp;&nbsp;3 &#x41;&#66; &bogus; & &#27;[", "1 < 2 & 3 AB &bogus; & \u{241b}[\n"),
            ("&#147;so&#148; &#150 R&D", "\u{201c}so\u{201d} \u{2013} R&D\n"),
            ("&copy 2026, &copyright", "\u{a9} 2026, \u{a9}right\n"),
            ("a < b and <3", "a < b and <3\n"),
            ("<ul><li>one</li><li>two</li></ul>", "* one\n\n* two\n"),
            ("<pre>a\n  b</pre>", "a\n  b\n"),
            ("&lt;script&gt;x", "<script>x\n"),
            ("<img src=x onerror=alert(1)>", "\n"),
            ("<a href='unfinished", "\n"),
        ] {
            // An empty text has no line.
            let text = if text == "\n" { "" } else { text };
            assert_eq!(to_text(html), text, "{html}");
        }
    }

    proptest! {
        #[test]
        fn text_has_no_controls_and_is_not_longer(html in "(<|>|&|;|/|#|!|-|script|li|x|\\n|\\x1b|\\PC){0,80}") {
            let text = to_text(&html);
            prop_assert!(text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')));
            prop_assert!(text.len() <= 3 * html.len() + 1);
        }
    }
}
