//! Lines of text as markup: links, and quotations that can be folded.
//!
//! Line ends, indentation and quotation marks are part of the markup, so that they survive where styles do
//! not: in text browsers, in screen readers, and when text is copied.

use maud::{Markup, html};

use crate::content::QUOTED_LINES_OPEN;
use crate::flowed::QuotedLine;
use crate::links::{self, LinkSpan};

/// Length up to which lines are preformatted, in bytes. A text browser does not fold such lines.
const PREFORMATTED_BYTES_MAX: usize = 120;
/// Maximum number of quotation marks before a line.
const MARKS_MAX: usize = 8;

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
    let lines = lines.iter().map(AsRef::as_ref);
    block(lines.clone().all(is_short), lines.map(line))
}

/// Returns whether a screen shows the line without folding it.
fn is_short(line: &str) -> bool {
    line.len() <= PREFORMATTED_BYTES_MAX
}

/// Renders lines as a block, which is preformatted if none of them must be folded.
fn block(is_preformatted: bool, lines: impl Iterator<Item = Markup>) -> Markup {
    html! {
        @if is_preformatted {
            // The first line end in the element does not count.
            pre.text dir="auto" { "\n" @for line in lines { (line) "\n" } }
        } @else {
            div.text dir="auto" { @for line in lines { (line) br; } }
        }
    }
}

/// Renders a quotation; a long one is folded.
pub(super) fn quotation(quoted: &[QuotedLine]) -> Markup {
    let rows = html! {
        @for run in quoted.chunk_by(|a, b| a.depth == b.depth) {
            @let depth = run.first().map_or(1, |line| line.depth);
            blockquote class={ "quote depth" (depth.min(5)) } {
                (block(run.iter().all(|line| is_short(&line.text)), run.iter().map(quoted_line)))
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

fn quoted_line(quoted: &QuotedLine) -> Markup {
    let marks = ">".repeat(quoted.depth.min(MARKS_MAX));
    html! { (marks) " " (line(&quoted.text)) }
}
