//! Lines of text with the depth of their quotation, and paragraphs that flow.
//!
//! Called by `content`. Source: RFC 3676 section 4.

use crate::work;

/// Maximum depth of quotation; deeper lines are treated alike.
const DEPTH_MAX: usize = 20;

/// A line for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotedLine {
    /// Depth of quotation.
    pub depth: usize,
    /// Text without quotation marks.
    pub text: String,
}

/// Returns the lines of text that is not `format=flowed`.
pub fn fixed(text: &str) -> impl Iterator<Item = QuotedLine> {
    taken(text).map(|line| quoted(line, true))
}

/// Returns the lines as written, while work is allowed.
fn taken(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| work::take(line.len() + 1))
}

/// Returns the lines of `format=flowed`, with each paragraph in one line; `delsp` removes the blank before a
/// soft line end.
pub fn flowed(text: &str, delsp: bool) -> impl Iterator<Item = QuotedLine> {
    let mut rest = taken(text).map(move |raw| FlowedLine::of(raw, delsp)).peekable();
    std::iter::from_fn(move || {
        let FlowedLine { mut line, mut is_soft, .. } = rest.next()?;
        let follows = |next: &FlowedLine, depth| next.line.depth == depth && !next.is_signature;
        while is_soft && let Some(next) = rest.next_if(|next| follows(next, line.depth)) {
            line.text.push_str(&next.line.text);
            is_soft = next.is_soft;
        }
        Some(line)
    })
}

/// A line of `format=flowed`.
struct FlowedLine {
    line: QuotedLine,
    /// True if the next line belongs to its paragraph.
    is_soft: bool,
    is_signature: bool,
}

impl FlowedLine {
    fn of(raw: &str, delsp: bool) -> Self {
        let QuotedLine { depth, text } = quoted(raw, false);
        let text = text.strip_prefix(' ').unwrap_or(&text);
        let is_signature = text == "-- ";
        let is_soft = text.ends_with(' ') && !is_signature;
        let kept = if is_soft && delsp { text.get(..text.len() - 1).unwrap_or_default() } else { text };
        Self { line: QuotedLine { depth, text: kept.to_owned() }, is_soft, is_signature }
    }
}

/// Removes quotation marks; with `spaced`, marks may have blanks between them and one after them.
fn quoted(line: &str, spaced: bool) -> QuotedLine {
    let (mut rest, mut depth) = (line, 0);
    while depth < DEPTH_MAX {
        let next = if spaced && depth > 0 { rest.strip_prefix(' ').unwrap_or(rest) } else { rest };
        let Some(after) = next.strip_prefix('>') else { break };
        (rest, depth) = (after, depth + 1);
    }
    let rest = if spaced && depth > 0 { rest.strip_prefix(' ').unwrap_or(rest) } else { rest };
    QuotedLine { depth, text: rest.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(lines: impl Iterator<Item = QuotedLine>) -> Vec<(usize, String)> {
        lines.map(|line| (line.depth, line.text)).collect()
    }

    #[test]
    fn quotations_are_measured() {
        let lines = rows(fixed("a\n> b\n>> c\n> > d\n>e\n >f\n>\n"));
        let expected = [(0, "a"), (1, "b"), (2, "c"), (2, "d"), (1, "e"), (0, " >f"), (1, "")];
        assert_eq!(lines, expected.map(|(depth, text)| (depth, text.to_owned())));
    }

    #[test]
    fn paragraphs_flow_as_in_the_rfc() {
        let text = "`Take some more tea,' the March Hare \nsaid to Alice.\n>> So \n>> deep.\n> Not \n  stuffed\n-- \nsig \nnature";
        assert_eq!(
            rows(flowed(text, false)),
            [
                (0, "`Take some more tea,' the March Hare said to Alice."),
                (2, "So deep."),
                (1, "Not "),
                (0, " stuffed"),
                (0, "-- "),
                (0, "sig nature"),
            ]
            .map(|(depth, text)| (depth, text.to_owned()))
        );
        assert_eq!(rows(flowed("a \nb", true)), [(0, "ab".to_owned())]);
    }

    #[test]
    fn odd_flowed_lines_are_read() {
        for (text, delsp, expected) in [
            ("\u{65e5} \n\u{672c} \n\u{8a9e}", true, &[(0, "\u{65e5}\u{672c}\u{8a9e}")][..]),
            ("a  \nb", true, &[(0, "a b")]),
            ("> a \n> b\n>> c \n> d", true, &[(1, "ab"), (2, "c"), (1, "d")]),
            ("> a \n> -- \n> b", false, &[(1, "a "), (1, "-- "), (1, "b")]),
            ("-- \na", true, &[(0, "-- "), (0, "a")]),
            (" >a\n  b", false, &[(0, ">a"), (0, " b")]),
            ("> \n>\n> a", false, &[(1, ""), (1, ""), (1, "a")]),
            ("a \n\nb", false, &[(0, "a "), (0, "b")]),
            ("a ", true, &[(0, "a")]),
            (" ", true, &[(0, "")]),
            ("", true, &[]),
        ] {
            let expected: Vec<(usize, String)> =
                expected.iter().map(|(depth, text)| (*depth, (*text).to_owned())).collect();
            assert_eq!(rows(flowed(text, delsp)), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost(text in "[a >\n-]{0,80}") {
            let letters = |text: &str| text.chars().filter(|c| *c == 'a').count();
            let all: [Vec<QuotedLine>; 3] =
                [fixed(&text).collect(), flowed(&text, false).collect(), flowed(&text, true).collect()];
            for lines in all {
                prop_assert_eq!(lines.iter().map(|line| letters(&line.text)).sum::<usize>(), letters(&text));
                prop_assert!(lines.iter().all(|line| line.depth <= DEPTH_MAX));
            }
        }
    }
}
