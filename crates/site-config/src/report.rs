//! Rendering of a fault for people: the message, the lines around the place with a mark under it, the advice.
//! Called by `faults`.

use super::faults::ConfigFault;
use std::fmt::Write as _;
use textwrap::{Options, WordSplitter};

/// Width at which messages and advice are wrapped; lines of the file are shown unchanged.
const COLUMNS_MAX: usize = 110;

/// The beginning of a span: its line from 0, and the text before it and of it in that line.
struct SpanStart<'t> {
    line: usize,
    before: &'t str,
    within: &'t str,
}

impl<'t> SpanStart<'t> {
    /// Returns `None` if the span is outside of the text.
    fn of(fault: &ConfigFault, text: &'t str) -> Option<Self> {
        let (head, rest) = text.split_at_checked(fault.span.start)?;
        let len = rest.find(['\r', '\n']).unwrap_or(rest.len()).min(fault.span.len());
        let before = head.rsplit('\n').next().unwrap_or(head);
        Some(Self { line: head.matches('\n').count(), before, within: rest.get(..len)? })
    }
}

/// Renders a fault in the text of a file, with colours for a terminal if asked.
pub(super) fn rendered(fault: &ConfigFault, file: &str, text: &str, colour: bool) -> String {
    let painted = |code: &str, text: &str| match colour {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text.to_owned(),
    };
    let mut out = wrapped("  × ", &fault.message, "  │ ").replacen('×', &painted("31", "×"), 1);
    if let Some(SpanStart { line, before, within }) = SpanStart::of(fault, text) {
        let lines: Vec<&str> = text.lines().collect();
        let shown = line.saturating_sub(1)..(line + 2).min(lines.len());
        let digits = shown.end.max(line + 1).to_string().len();
        let margin = " ".repeat(digits + 2);
        let column = before.chars().count() + 1;
        let _ = writeln!(out, "{margin}╭─[{file}:{}:{column}]", line + 1);
        for number in shown {
            let code = lines.get(number).copied().unwrap_or_default();
            let counted = painted("2", &format!("{:>digits$}", number + 1));
            let _ = writeln!(out, " {counted} │ {}", expanded(code));
            if number == line {
                let (at, len) = (width(before), width(within));
                let mark = match len {
                    0 => "▲".to_owned(),
                    len => format!("{}┬{}", "─".repeat(len / 2), "─".repeat(len - len / 2 - 1)),
                };
                let _ = writeln!(out, "{margin}· {}{}", " ".repeat(at), painted("35;1", &mark));
                let label = painted("35;1", &format!("╰── {}", fault.label));
                let _ = writeln!(out, "{margin}· {}{label}", " ".repeat(at + len / 2));
            }
        }
        let _ = writeln!(out, "{margin}╰────");
    }
    if let Some(advice) = &fault.advice {
        out += &wrapped("  help: ", advice, "        ").replacen("help:", &painted("36", "help:"), 1);
    }
    out
}

/// Replaces tabs in a line by spaces, as wide as [`width`] counts.
fn expanded(line: &str) -> String {
    line.replace('\t', "    ")
}

fn width(text: &str) -> usize {
    expanded(text).chars().count()
}

fn wrapped(first: &str, text: &str, others: &str) -> String {
    let options = Options::new(COLUMNS_MAX).initial_indent(first).subsequent_indent(others);
    textwrap::fill(text, options.word_splitter(WordSplitter::NoHyphenation)) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(span: std::ops::Range<usize>) -> ConfigFault {
        ConfigFault { message: "it is wrong".into(), span, label: "here".into(), advice: None }
    }

    #[test]
    fn a_mark_points_at_its_place_whatever_is_there() {
        let shown = |span, text| rendered(&fault(span), "f", text, false);
        assert_eq!(
            shown(1..3, "\tä = 1\n"),
            "  × it is wrong\n   ╭─[f:1:2]\n 1 │     ä = 1\n   ·     ┬\n   ·     ╰── here\n   ╰────\n"
        );
        assert_eq!(
            shown(0..0, ""),
            "  × it is wrong\n   ╭─[f:1:1]\n   ╰────\n",
            "an empty file has no lines"
        );
        let over_lines = shown(0..9, "[a\nb = 1]\n");
        assert!(over_lines.contains("\n   · ─┬\n"), "{over_lines}");
        assert_eq!(shown(7..9, "short"), "  × it is wrong\n", "the place is not in the file");
        assert!(shown(2..4, "äöü").contains("╰── here"), "{}", shown(2..4, "äöü"));
    }

    #[test]
    fn long_messages_and_advice_are_wrapped_and_colours_are_for_terminals() {
        let long = ConfigFault { message: "word ".repeat(40), advice: Some("do ".repeat(60)), ..fault(0..1) };
        let plain = rendered(&long, "f", "x\n", false);
        assert!(plain.lines().all(|line| line.chars().count() <= COLUMNS_MAX), "{plain}");
        assert!(plain.contains("\n  │ word") && plain.contains("\n        do"), "{plain}");
        assert!(!plain.contains('\x1b'));
        let coloured = rendered(&long, "f", "x\n", true);
        assert!(
            coloured.contains("\x1b[31m×\x1b[0m") && coloured.contains("\x1b[36mhelp:\x1b[0m"),
            "{coloured}"
        );
    }
}
