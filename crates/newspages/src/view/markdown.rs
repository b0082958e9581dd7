//! The operator's text for the front page: Markdown as markup.
//!
//! HTML within it shows as text, links lead to the site, to the web, to mail and to news, and pictures become
//! links. Source: CommonMark 0.31.

use std::fmt::Write;

use maud::{Escaper, Markup, PreEscaped};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag};

use crate::work;

/// Schemes that links may have.
const SCHEMES: [&str; 7] = ["http://", "https://", "ftp://", "mailto:", "news:", "nntp:", "nntps:"];

/// Renders Markdown.
pub fn markdown(text: &str) -> Markup {
    let mut out = String::with_capacity(2 * text.len());
    // Ends of the open elements; empty for those that are not shown.
    let mut open: Vec<&str> = Vec::new();
    work::take(text.len());
    for event in Parser::new_ext(text, Options::empty()) {
        match event {
            Event::Start(tag) => open.push(begun(&tag, &mut out)),
            Event::End(_) => out.push_str(open.pop().unwrap_or_default()),
            Event::Code(code) => {
                out.push_str("<code>");
                escaped(&code, &mut out);
                out.push_str("</code>");
            }
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => escaped(&text, &mut out),
            Event::SoftBreak => out.push('\n'),
            Event::HardBreak => out.push_str("<br>"),
            Event::Rule => out.push_str("<hr>"),
            // Only with options that are off.
            Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::TaskListMarker(_) => {}
        }
    }
    PreEscaped(out)
}

/// Writes the beginning of an element; returns its end.
fn begun(tag: &Tag<'_>, out: &mut String) -> &'static str {
    let (begin, end) = match tag {
        Tag::Paragraph => ("<p>", "</p>\n"),
        // The first level is the page's own.
        Tag::Heading { level: HeadingLevel::H1, .. } => ("<h2>", "</h2>\n"),
        Tag::Heading { .. } => ("<h3>", "</h3>\n"),
        Tag::BlockQuote(_) => ("<blockquote>", "</blockquote>\n"),
        Tag::CodeBlock(_) => ("<pre class=\"text\">", "</pre>\n"),
        Tag::List(None) => ("<ul>", "</ul>\n"),
        Tag::List(Some(_)) => ("<ol>", "</ol>\n"),
        Tag::Item => ("<li>", "</li>\n"),
        Tag::Emphasis => ("<em>", "</em>"),
        Tag::Strong => ("<strong>", "</strong>"),
        Tag::HtmlBlock => ("<p>", "</p>\n"),
        Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } if is_allowed(dest_url) => {
            out.push_str("<a href=\"");
            escaped(dest_url, out);
            ("\">", "</a>")
        }
        _ => ("", ""),
    };
    out.push_str(begin);
    end
}

/// Returns whether a link may lead there.
fn is_allowed(url: &str) -> bool {
    let begins =
        |scheme: &&str| url.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
    let is_ours = url.starts_with('/') && !url.starts_with("//") && !url.contains('\\');
    !url.chars().any(char::is_control) && (is_ours || SCHEMES.iter().any(begins))
}

fn escaped(text: &str, out: &mut String) {
    // Writing to a string cannot fail.
    let _written = Escaper::new(out).write_str(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_the_operator_becomes_markup() {
        let html = markdown(
            "# News\n\nFor *all* of [us](/groups), **by** `nntp`.\n\n* one\n* two\n\n1. a\n\n> q\n\n    x < y\n",
        );
        assert_eq!(
            html.into_string(),
            "<h2>News</h2>\n<p>For <em>all</em> of <a href=\"/groups\">us</a>, <strong>by</strong> \
             <code>nntp</code>.</p>\n<ul><li>one</li>\n<li>two</li>\n</ul>\n<ol><li>a</li>\n</ol>\n\
             <blockquote><p>q</p>\n</blockquote>\n<pre class=\"text\">x &lt; y\n</pre>\n"
        );
    }

    #[test]
    fn markdown_makes_no_scripts_and_loads_nothing() {
        for attack in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "[x](javascript:alert(1))",
            "[x](JaVaScRiPt:alert(1))",
            "[x](data:text/html,1)",
            "[x](//evil.example)",
            "[x](/\\evil.example)",
            "[x](https://a/\"onclick=\"alert(1))",
            "![x](https://evil.example/pixel.png)",
            "<https://a/\"><script>",
            "[x]: javascript:alert(1)\n\n[x]",
            "```html\"><script>\n<script>\n```",
        ] {
            let html = markdown(attack).into_string();
            assert!(!html.contains("<script") && !html.contains("<img"), "{html}");
            assert!(!html.contains("href=\"javascript") && !html.contains("\"onclick"), "{html}");
            assert!(!html.contains("href=\"//") && !html.contains("href=\"data"), "{html}");
        }
    }

    #[test]
    fn nested_markdown_takes_linear_work() {
        for text in ["> ".repeat(20_000), "* ".repeat(20_000), "[".repeat(20_000), "*a ".repeat(20_000)] {
            let begun = std::time::Instant::now();
            markdown(&text);
            assert!(begun.elapsed().as_secs() < 20);
        }
    }
}
