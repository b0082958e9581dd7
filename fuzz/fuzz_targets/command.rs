//! NntpCommand lines (RFC 3977 section 9.2).
#![no_main]

use libfuzzer_sys::fuzz_target;
use netnews::nntp::command::{ArticleSelector, NntpCommand, NumberRange, RangeSelector, parse, verb};
use netnews::nntp::{response, wire};

fuzz_target!(|line: &[u8]| {
    let parsed = parse(line);

    if !line.contains(&b'\n') {
        // Padding changes nothing.
        let padded = [b" \t", line, b"  \t"].concat();
        assert_eq!(parsed, parse(&padded));
        // Nor does the case of the verb.
        let mut lower = line.to_vec();
        let start = line.iter().position(|b| !b" \t".contains(b)).unwrap_or(0);
        let end = line[start..].iter().position(|b| b" \t".contains(b)).map_or(line.len(), |n| start + n);
        lower[start..end].make_ascii_lowercase();
        assert_eq!(parsed, parse(&lower));
    }

    match &parsed {
        Err(syntax) => {
            let mut out = Vec::new();
            syntax.append(&mut out);
            assert_eq!(response::parse_code(&out), Some(syntax.code()));
            assert!(
                matches!(wire::next_line(&out, 0), wire::NextLine::Line { next, .. } if next == out.len())
            );
            let first = line.split(|b| b" \t".contains(b)).find(|word| !word.is_empty()).unwrap_or_default();
            // TAKETHIS is never refused: its article follows.
            assert!(!first.eq_ignore_ascii_case(b"TAKETHIS"));
            if syntax.code() == 501 {
                assert!(verb::find(first).is_some());
            }
        }
        Ok(
            NntpCommand::Article(ArticleSelector::MessageId(id))
            | NntpCommand::Over(RangeSelector::MessageId(id))
            | NntpCommand::Ihave(id),
        ) => {
            assert!(id.as_bytes().len() <= 250);
        }
        Ok(NntpCommand::Xover(Some(range))) => check(range),
        Ok(NntpCommand::Over(RangeSelector::Range(range))) => check(range),
        Ok(NntpCommand::ListGroup { range: Some(range), .. }) => check(range),
        Ok(_) => {}
    }
});

fn check(range: &NumberRange) {
    let text = match range.high {
        None => format!("{}-", range.low),
        Some(high) => format!("{}-{high}", range.low),
    };
    assert_eq!(NumberRange::parse(text.as_bytes()).as_ref(), Some(range));
    assert_eq!(range.is_empty(), !range.contains(range.low));
}
