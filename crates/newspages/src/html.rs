//! HTML as plain text: what a reader would see, with its links, lists, tables and quotations.
//!
//! This is no parser of HTML: tags are removed or become marks of plain text, those that end a line end one,
//! and `entities` are decoded. The result is text, which is escaped like any other; the address of a link
//! stands after its text, so that a link never hides where it leads. Called by `content`.

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

/// Maximum depth of quotation, and of lists within lists.
const DEPTH_MAX: usize = 5;
/// Maximum length of the address of a link that is kept, in bytes.
const ADDRESS_BYTES_MAX: usize = 1_000;
/// Beginnings of addresses that are kept.
const SCHEMES: [&str; 4] = ["http://", "https://", "ftp://", "news:"];

/// Returns the text of HTML: links with their addresses, quotations with `>`, cells with `|` between them.
pub fn to_text(html: &str) -> String {
    let mut text = HtmlText { out: String::with_capacity(html.len()), ..HtmlText::default() };
    let mut rest = html;
    while let Some(at) = rest.find(['<', '&']) {
        let before_bytes = rest.len();
        let (before, after) = rest.split_at(at);
        text.append(before);
        rest = if after.starts_with('&') {
            let (character, bytes) = entities::read(after).unwrap_or(('&', 1));
            text.push(if character == '\u{a0}' { ' ' } else { character });
            after.get(bytes..).unwrap_or_default()
        } else {
            text.tag(after)
        };
        if !work::take(before_bytes - rest.len()) {
            break;
        }
    }
    work::take(rest.len());
    text.append(rest);
    text.end_link();
    tidied(&text.out)
}

/// Text that is being made of HTML.
#[derive(Default)]
struct HtmlText {
    out: String,
    is_pre: bool,
    /// Number of open quotations.
    quotes: usize,
    /// Open lists: the number of the next item, if items are numbered.
    lists: Vec<Option<u32>>,
    /// Address of the open link, and the length of the text before it.
    link: Option<(String, usize)>,
    /// True if the next text of the line is in another cell.
    is_next_cell: bool,
}

impl HtmlText {
    /// Returns whether the line has no text yet.
    fn is_at_line_start(&self) -> bool {
        self.out.is_empty() || self.out.ends_with('\n')
    }

    /// Adds a character that is no white space of the source.
    fn push(&mut self, character: char) {
        if self.is_at_line_start() {
            (0..self.quotes.min(DEPTH_MAX)).for_each(|_| self.out.push_str("> "));
        } else if self.is_next_cell {
            self.out.push_str(if self.out.ends_with(' ') { "| " } else { " | " });
        }
        self.is_next_cell = false;
        self.out.push(character);
    }

    /// Adds text with white space collapsed, unless it is preformatted.
    fn append(&mut self, text: &str) {
        for c in text.chars() {
            if self.is_pre && c == '\n' {
                self.out.push('\n');
            } else if self.is_pre || !c.is_ascii_whitespace() {
                self.push(c);
            } else if !self.out.ends_with([' ', '\n']) && !self.out.is_empty() {
                self.out.push(' ');
            }
        }
    }

    fn end_line(&mut self) {
        if !self.out.is_empty() {
            while self.out.ends_with(' ') {
                self.out.pop();
            }
            self.out.push('\n');
        }
        self.is_next_cell = false;
    }

    /// Adds the address of the open link after its text, unless the text is the address.
    fn end_link(&mut self) {
        let Some((address, start)) = self.link.take() else { return };
        let Some(shown) = self.out.get(start..).map(str::trim) else { return };
        let is_shown = shown == address || address.strip_suffix('/') == Some(shown);
        if !shown.is_empty() && !is_shown && work::take(address.len()) {
            self.out.push_str(if self.out.ends_with([' ', '\n']) { "<" } else { " <" });
            self.out.push_str(&address);
            self.out.push('>');
        }
    }

    /// Handles the tag at whose `<` the text begins; returns the rest after it.
    fn tag<'a>(&mut self, text: &'a str) -> &'a str {
        if text.starts_with("<!--") {
            return text.find("-->").and_then(|end| text.get(end + 3..)).unwrap_or_default();
        }
        let inner = text.get(1..).unwrap_or_default();
        if !inner.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?')) {
            self.push('<');
            return inner;
        }
        let Some(end) = inner.find('>') else { return "" };
        let (tag, after) = (inner.get(..end).unwrap_or_default(), inner.get(end + 1..).unwrap_or_default());
        let closes = tag.starts_with('/');
        let name = tag.trim_start_matches('/');
        let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        if LINES.contains(&name.as_str()) {
            self.end_line();
        }
        self.element(&name, tag, closes);
        if SILENT.contains(&name.as_str()) && !closes && !tag.ends_with('/') {
            return after_end_of(&name, after);
        }
        after
    }

    /// Takes notice of the beginning or end of an element.
    fn element(&mut self, name: &str, tag: &str, closes: bool) {
        match (name, closes) {
            ("pre", _) => self.is_pre = !closes,
            ("blockquote", false) => self.quotes += 1,
            ("blockquote", true) => self.quotes = self.quotes.saturating_sub(1),
            ("td" | "th", false) => self.is_next_cell = !self.is_at_line_start(),
            ("ul", false) if self.lists.len() < DEPTH_MAX => self.lists.push(None),
            ("ol", false) if self.lists.len() < DEPTH_MAX => self.lists.push(Some(1)),
            ("ul" | "ol", true) => {
                self.lists.pop();
            }
            ("li", false) => self.begin_item(),
            ("a", _) => {
                self.end_link();
                let address = attribute(tag, "href").filter(|_| !closes).and_then(address);
                self.link = address.map(|address| (address, self.out.len()));
            }
            ("img", _) => {
                let alt = attribute(tag, "alt").map(|alt| decoded(&alt)).unwrap_or_default();
                if !alt.trim().is_empty() {
                    self.push('[');
                    self.append(alt.trim());
                    self.push(']');
                }
            }
            _ => {}
        }
    }

    fn begin_item(&mut self) {
        let indent = self.lists.len().saturating_sub(1);
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number = number.saturating_add(1);
                format!("{}. ", *number - 1)
            }
            _ => "* ".to_owned(),
        };
        (0..indent).for_each(|_| self.push(' '));
        mark.chars().for_each(|c| self.push(c));
    }
}

/// Returns the value of an attribute as written.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let mut rest = tag.split_once(|c: char| c.is_ascii_whitespace())?.1;
    work::take(rest.len());
    loop {
        let (before, after) = rest.split_once('=')?;
        let own = before.trim_end().rsplit(|c: char| c.is_ascii_whitespace()).next().unwrap_or_default();
        let after = after.trim_start();
        let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''));
        let (value, next) = match quote {
            Some(quote) => after.get(1..)?.split_once(quote)?,
            None => after.split_at(after.find(|c: char| c.is_ascii_whitespace()).unwrap_or(after.len())),
        };
        if own.eq_ignore_ascii_case(name) {
            return Some(value.to_owned());
        }
        rest = next;
    }
}

/// Returns a value with its character references decoded.
fn decoded(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.find('&') {
        let (before, after) = rest.split_at(at);
        let (character, bytes) = entities::read(after).unwrap_or(('&', 1));
        out.push_str(before);
        out.push(character);
        rest = after.get(bytes..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// Returns the address of a link, if it is one that text may have.
fn address(value: String) -> Option<String> {
    if value.len() > ADDRESS_BYTES_MAX {
        return None;
    }
    let address = decoded(value.trim());
    let begins =
        |scheme: &&str| address.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
    let is_plain = address.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"".contains(&byte));
    (is_plain && SCHEMES.iter().any(begins)).then_some(address)
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
            ("<img src='http://a/b.png' alt='A &amp; B'>", "[A & B]\n"),
            ("<a href='unfinished", "\n"),
            ("<a href=\"https://a.example/?b=1&amp;c\">here</a>.", "here <https://a.example/?b=1&c>.\n"),
            ("<A class=x HREF=https://a.example/>https://a.example</A>", "https://a.example\n"),
            ("<a href='javascript:alert(1)'>here</a>", "here\n"),
            ("<a href='https://a/\n\"onclick=x'>here</a>", "here\n"),
            ("<a href='https://a/'><img src=x></a>z", "z\n"),
            ("<a href='https://a/'>one<a href='https://b/'>two", "one <https://a/>two <https://b/>\n"),
            ("a<blockquote>b<br>c<blockquote>d</blockquote></blockquote>e", "a\n> b\n> c\n> > d\n\ne\n"),
            (
                "<table><tr><th>a</th><th>b</th></tr>\n<tr><td>1</td> <td>2</td></tr></table>",
                "a | b\n\n1 | 2\n",
            ),
            ("<ol><li>one<ul><li>x</ul><li>two</ol>", "1. one\n\n * x\n\n2. two\n"),
            ("</blockquote></ul></a>x", "x\n"),
        ] {
            // An empty text has no line.
            let text = if text == "\n" { "" } else { text };
            assert_eq!(to_text(html), text, "{html}");
        }
    }

    proptest! {
        #[test]
        fn text_has_no_controls_and_is_not_longer(html in "(<|>|&|;|/|#|!|-|script|li|a href=|https://|blockquote|td|x|\\n|\\x1b|\\PC){0,80}") {
            let text = to_text(&html);
            prop_assert!(text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')));
            prop_assert!(text.len() <= 4 * html.len() + 1);
        }
    }
}
