//! Lines of text with the depth of their quotation, and paragraphs that flow.
//!
//! Called by `content`. Source: RFC 3676 section 4.

/// Deepest quotation that is told apart.
const DEPTH_MAX: usize = 20;

/// A line as it is to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// How often it is quoted.
    pub depth: usize,
    /// Without quotation marks.
    pub text: String,
}

/// Lines of text that has no format.
pub fn fixed(text: &str) -> Vec<Line> {
    text.lines().map(|line| quoted(line, true)).collect()
}

/// Lines of `format=flowed`, with its paragraphs in one line each; `delsp`: the blank before a soft line end
/// goes.
pub fn flowed(text: &str, delsp: bool) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut flows = false;
    for raw in text.lines() {
        let Line { depth, text } = quoted(raw, false);
        let text = text.strip_prefix(' ').unwrap_or(&text);
        let is_signature = text == "-- ";
        let is_soft = text.ends_with(' ') && !is_signature;
        let kept = if is_soft && delsp { text.get(..text.len() - 1).unwrap_or_default() } else { text };
        match lines.last_mut() {
            Some(last) if flows && last.depth == depth && !is_signature => last.text.push_str(kept),
            _ => lines.push(Line { depth, text: kept.to_owned() }),
        }
        flows = is_soft;
    }
    lines
}

/// Cuts quotation marks off; with `spaced`, marks may have blanks between them and one after them.
fn quoted(line: &str, spaced: bool) -> Line {
    let (mut rest, mut depth) = (line, 0);
    while depth < DEPTH_MAX {
        let next = if spaced && depth > 0 { rest.strip_prefix(' ').unwrap_or(rest) } else { rest };
        let Some(after) = next.strip_prefix('>') else { break };
        (rest, depth) = (after, depth + 1);
    }
    let rest = if spaced && depth > 0 { rest.strip_prefix(' ').unwrap_or(rest) } else { rest };
    Line { depth, text: rest.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(lines: &[Line]) -> Vec<(usize, &str)> {
        lines.iter().map(|line| (line.depth, line.text.as_str())).collect()
    }

    #[test]
    fn quotations_are_measured() {
        let lines = fixed("a\n> b\n>> c\n> > d\n>e\n >f\n>\n");
        assert_eq!(rows(&lines), [(0, "a"), (1, "b"), (2, "c"), (2, "d"), (1, "e"), (0, " >f"), (1, "")]);
    }

    #[test]
    fn paragraphs_flow_as_in_the_rfc() {
        let text = "`Take some more tea,' the March Hare \nsaid to Alice.\n>> So \n>> deep.\n> Not \n  stuffed\n-- \nsig \nnature";
        assert_eq!(
            rows(&flowed(text, false)),
            [
                (0, "`Take some more tea,' the March Hare said to Alice."),
                (2, "So deep."),
                (1, "Not "),
                (0, " stuffed"),
                (0, "-- "),
                (0, "sig nature"),
            ]
        );
        assert_eq!(rows(&flowed("a \nb", true)), [(0, "ab")]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(text in "[a >\n-]{0,80}") {
            let letters = |text: &str| text.chars().filter(|c| *c == 'a').count();
            for lines in [fixed(&text), flowed(&text, false), flowed(&text, true)] {
                prop_assert_eq!(lines.iter().map(|line| letters(&line.text)).sum::<usize>(), letters(&text));
                prop_assert!(lines.iter().all(|line| line.depth <= DEPTH_MAX));
            }
        }
    }
}
