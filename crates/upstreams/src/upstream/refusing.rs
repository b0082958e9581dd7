//! Articles that are not shown: those with a header of `cache.refuse`.
//!
//! They are filtered from everything shown, cached or not, so that a change of the configuration takes
//! effect at once. Source: the NewsCache paper, related work.

use netnews::Wildmat;
use netnews::article::Headers;
use netnews::overview_row::{field, index};
use site_config::HeaderMatch;

/// Headers contained in overview rows.
const IN_ROWS: [(&[u8], usize); 5] = [
    (b"Subject", index::SUBJECT),
    (b"From", index::FROM),
    (b"Date", index::DATE),
    (b"Message-ID", index::MESSAGE_ID),
    (b"References", index::REFERENCES),
];

/// Refused header values.
#[derive(Debug, Default)]
pub(super) struct RefusedHeaders(Vec<(String, Wildmat)>);

impl RefusedHeaders {
    pub fn new(config: &[HeaderMatch]) -> Self {
        let pattern = |header: &HeaderMatch| {
            Some((header.name.clone(), Wildmat::parse_lenient(header.matches.as_bytes()).ok()?))
        };
        Self(config.iter().filter_map(pattern).collect())
    }

    /// Returns whether nothing is refused.
    pub fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether only the head of an article shows whether it is refused.
    pub fn needs_heads(&self) -> bool {
        let is_in_rows =
            |own: &str| IN_ROWS.iter().any(|(name, _)| own.as_bytes().eq_ignore_ascii_case(name));
        self.0.iter().any(|(own, _)| !is_in_rows(own))
    }

    /// Returns whether the article with these header lines is refused.
    pub fn refuses(&self, head: &[u8]) -> bool {
        !self.is_nothing()
            && Headers::of(head).fields().any(|(name, text)| self.matches(name, text.trim_ascii()))
    }

    /// Returns whether the article of an overview row is refused, as far as the row shows.
    pub fn refuses_row(&self, row: &[u8]) -> bool {
        IN_ROWS.iter().any(|(name, at)| field(row, *at).is_some_and(|text| self.matches(name, text)))
    }

    /// Removes the rows of refused articles, beginning after this many bytes.
    pub fn leave_out(&self, rows: &mut Vec<u8>, from: usize) {
        if self.is_nothing() {
            return;
        }
        let new = rows.split_off(from);
        for row in new.split_inclusive(|b| *b == b'\n') {
            if !self.refuses_row(row) {
                rows.extend_from_slice(row);
            }
        }
    }

    fn matches(&self, name: &[u8], text: &[u8]) -> bool {
        self.0.iter().any(|(own, wildmat)| own.as_bytes().eq_ignore_ascii_case(name) && wildmat.matches(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_rows_are_matched() {
        let of = |name: &str, matches: &str| HeaderMatch { name: name.into(), matches: matches.into() };
        let refusing = RefusedHeaders::new(&[of("subject", "*make money*"), of("X-Spam", "yes")]);
        assert!(refusing.refuses(b"From: x\r\nSubject: how to make money\r\n"));
        assert!(
            refusing.refuses(b"x-spam: yes\r\n") && !refusing.refuses(b"X-Spam: no\r\n\r\nX-Spam: yes\r\n")
        );
        let mut rows = b"1\tmake money\tF\tD\t<1@x>\t\t1\t1\r\n2\tother\tF\tD\t<2@x>\t\t1\t1\r\n".to_vec();
        refusing.leave_out(&mut rows, 0);
        assert!(rows.starts_with(b"2\t") && rows.iter().filter(|b| **b == b'\n').count() == 1);
        assert!(
            refusing.needs_heads()
                && !RefusedHeaders::new(&[of("SUBJECT", "x"), of("from", "x")]).needs_heads()
        );
        assert!(!RefusedHeaders::default().refuses(b"Subject: x\r\n"));
    }
}
