//! Lines of text as markup: links, and quotations that can be folded.

use maud::{Markup, html};

use crate::content::QUOTED_LINES_OPEN;
use crate::flowed::QuotedLine;
use crate::links::{self, LinkSpan};

/// Renders a line with its links.
pub(super) fn line(text: &str) -> Markup {
    html! {
        @for span in links::spans(text) {
            @match span {
                LinkSpan::Text(text) => (text),
                LinkSpan::Outside(url) => a href=(url) rel="nofollow noopener noreferrer ugc" { (url) },
                LinkSpan::Inside(text, place) => a href=(place) { (text) },
            }
        }
    }
}

/// Renders lines as they are.
pub(super) fn lines<T: AsRef<str>>(lines: &[T]) -> Markup {
    html! { @for text in lines { (line(text.as_ref())) "\n" } }
}

/// Renders a quotation; a long one is folded.
pub(super) fn quotation(quoted: &[QuotedLine]) -> Markup {
    let rows = html! {
        @for run in quoted.chunk_by(|a, b| a.depth == b.depth) {
            @let depth = run.first().map_or(1, |line| line.depth);
            div class={ "quote depth" (depth.min(5)) } {
                @for line in run { (self::line(&line.text)) "\n" }
            }
        }
    };
    if quoted.len() <= QUOTED_LINES_OPEN {
        return rows;
    }
    html! {
        details {
            summary { (quoted.len()) " quoted lines" }
            (rows)
        }
    }
}
