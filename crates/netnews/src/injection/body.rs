//! Requirements on the body of a proto-article.
//!
//! Checked after everything else, since it costs a pass over all lines. Called by newsreel's `inject`.
//! Source: INN's nnrpd (its `checkincludedtext`, the empty body), RFC 5536 section 2.2 for the length of
//! lines.

use super::{InjectionError, InjectionRules};
use crate::article::Article;
use memchr::memchr_iter;

/// Minimum number of lines for the limit on quoted text; shorter bodies may quote without limit.
const QUOTED_LINES_MIN: u64 = 40;

/// Checks the body.
pub fn check(article: &Article<'_>, rules: &InjectionRules) -> Result<(), InjectionError> {
    let body = article.body();
    let (mut at, mut lines, mut quoted, mut text) = (0, 0, 0, false);
    for lf in memchr_iter(b'\n', body) {
        let line = body.get(at..lf).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = if line.starts_with(b".") { line.get(1..).unwrap_or_default() } else { line };
        lines += 1;
        if line.len() > rules.line_bytes_max {
            return Err(InjectionError::LongLine { line: lines, bytes_max: rules.line_bytes_max });
        }
        quoted += u64::from(is_quoted(line));
        text |= !line.trim_ascii().is_empty();
        at = lf + 1;
    }
    if !text {
        return Err(InjectionError::NoBody);
    }
    if rules.check_quoted && lines > QUOTED_LINES_MIN && quoted * 2 > lines {
        return Err(InjectionError::MostlyQuoted);
    }
    Ok(())
}

/// Returns whether a line begins with a quote character of newsreaders: `>`, `¦`, `:`.
fn is_quoted(line: &[u8]) -> bool {
    matches!(line.first(), Some(b'>' | b'|' | b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(body: &str, check_quoted: bool) -> Result<(), InjectionError> {
        let rules = InjectionRules {
            article_bytes_max: 1 << 20,
            age_secs_max: None,
            groups_max: 1,
            followup_groups_max: 1,
            line_bytes_max: 80,
            check_quoted,
        };
        let wire = format!("Subject: s\r\n\r\n{body}");
        check(&Article::parse(wire.as_bytes()).unwrap(), &rules)
    }

    #[test]
    fn bodies() {
        let x80 = "x".repeat(80);
        assert_eq!(judged("a\r\n", true), Ok(()));
        assert_eq!(judged("", true), Err(InjectionError::NoBody));
        assert_eq!(judged("\r\n \t\r\n", true), Err(InjectionError::NoBody));
        assert_eq!(judged(&format!("{x80}\r\n.{x80}\r\n"), true), Ok(()));
        assert_eq!(
            judged(&format!("a\r\n{x80}x\r\n"), true),
            Err(InjectionError::LongLine { line: 2, bytes_max: 80 })
        );
        let (quote, own) = ("> q\r\n", "own\r\n");
        assert_eq!(judged(&(quote.repeat(21) + &own.repeat(20)), true), Err(InjectionError::MostlyQuoted));
        assert_eq!(judged(&(quote.repeat(21) + &own.repeat(20)), false), Ok(()));
        assert_eq!(judged(&(quote.repeat(21) + &own.repeat(21)), true), Ok(()));
        assert_eq!(judged(&(quote.repeat(39) + own), true), Ok(()));
    }
}
