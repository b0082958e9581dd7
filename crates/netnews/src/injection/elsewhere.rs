//! Conversion of an article back to a proto-article, for injection at another server too.
//!
//! The trace headers that this injecting agent has added are removed: Path and Injection-Info. Message-ID,
//! Date and Injection-Date stay, so that the article is the same everywhere. Called by newsreel's `inject`.
//! Source: RFC 5537 section 3.4.2.

use crate::article::{Article, Known};

/// Returns the proto-article for another injecting agent, in wire format without the final `.` line.
pub fn for_another(article: &Article<'_>) -> Vec<u8> {
    let wire = article.wire();
    let mut left_out: Vec<_> = [Known::Path, Known::InjectionInfo]
        .into_iter()
        .filter_map(|known| article.header_lines(known))
        .collect();
    left_out.sort_unstable_by_key(|lines| lines.start);
    let (mut proto, mut from) = (Vec::with_capacity(wire.len()), 0);
    for lines in left_out {
        proto.extend_from_slice(wire.get(from..lines.start).unwrap_or_default());
        from = lines.end;
    }
    proto.extend_from_slice(wire.get(from..).unwrap_or_default());
    proto
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_headers_are_removed_and_identity_is_kept() {
        let kept = "Newsgroups: x.y\r\nMessage-ID: <a@b>\r\nInjection-Date: 1 Jan 2026 00:00:00 +0000\r\n";
        let rest = "Subject: Path: s\r\n\r\nPath: x\r\n";
        let wire = format!("Injection-Info: a;\r\n b=\"c\"\r\n{kept}Path: a!.POSTED!b\r\n{rest}");
        let expected = format!("{kept}{rest}").into_bytes();
        let article = Article::parse(wire.as_bytes()).unwrap();
        assert_eq!(for_another(&article), expected);
        assert_eq!(for_another(&Article::parse(&expected).unwrap()), expected);
    }
}
