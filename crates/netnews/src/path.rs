//! The Path header: relaying agents that an article has passed.
//!
//! A Path is path identities and diagnostics between `!`, then the tail entry, which is not an identity.
//! Called by relay checks (loops), by the choice of feeds (a peer in the Path has the article) and by ingest,
//! which prepends our name to the old value. Sources: RFC 5536 section 3.1.5, RFC 5537 section 3.2.1.

use memchr::{memchr2_iter, memrchr};

/// Returns whether `identity` is one of the path identities of `path`, in any case. The tail entry does not
/// count.
pub fn contains_identity(path: &[u8], identity: &[u8]) -> bool {
    let Some(first) = identity.first() else { return false };
    let identities = identities(path);
    let ends = |at: Option<usize>| at.and_then(|at| identities.get(at)).is_none_or(|&b| separates(b));
    memchr2_iter(first.to_ascii_lowercase(), first.to_ascii_uppercase(), identities).any(|at| {
        let end = at + identity.len();
        identities.get(at..end).is_some_and(|entry| entry.eq_ignore_ascii_case(identity))
            && ends(at.checked_sub(1))
            && ends(Some(end))
    })
}

/// Returns the path identities, leftmost (nearest) first, without diagnostics and without the tail entry.
pub fn hops(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    entries(path).filter(|entry| !entry.starts_with(b"."))
}

/// Returns the tail entry: the text after the last `!` (a user name or `not-for-mail`).
pub fn tail(path: &[u8]) -> &[u8] {
    let from = memrchr(b'!', path).map_or(0, |bang| bang + 1);
    path.get(from..).unwrap_or_default().trim_ascii()
}

/// Returns everything before the last `!`.
fn identities(path: &[u8]) -> &[u8] {
    let end = memrchr(b'!', path).unwrap_or(0);
    path.get(..end).unwrap_or_default()
}

fn separates(b: u8) -> bool {
    matches!(b, b'!' | b' ' | b'\t' | b'\r' | b'\n')
}

fn entries(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    identities(path).split(|&b| separates(b)).filter(|entry| !entry.is_empty())
}

/// Statement of a relaying agent about where it got the article from (RFC 5537 section 3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathDiagnostic<'a> {
    /// Nothing: `identity!`
    None,
    /// The sender is named by the leftmost path identity: `identity!!`
    Match,
    /// Got from this address or name; not compared: `identity!.SEEN.address!`
    Seen(&'a [u8]),
    /// Got from this address or name, which is not the leftmost identity: `identity!.MISMATCH.address!`
    Mismatch(&'a [u8]),
    /// Injected here, from this address or name (may be empty): `identity!.POSTED.address!`
    Posted(&'a [u8]),
}

/// Appends the text that precedes the old Path value: our identity, `!`, and the diagnostic.
pub fn prefix(identity: &[u8], diagnostic: PathDiagnostic<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(identity);
    out.push(b'!');
    let (keyword, address) = match diagnostic {
        PathDiagnostic::None => return,
        PathDiagnostic::Match => {
            out.push(b'!');
            return;
        }
        PathDiagnostic::Seen(address) => (&b".SEEN"[..], address),
        PathDiagnostic::Mismatch(address) => (&b".MISMATCH"[..], address),
        PathDiagnostic::Posted(address) => (&b".POSTED"[..], address),
    };
    out.extend_from_slice(keyword);
    if !address.is_empty() {
        out.push(b'.');
        out.extend_from_slice(address);
    }
    out.push(b'!');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MODERN: &[u8] = b"foo.isp.example!.SEEN.isp.example!!foo-news\r\n \
            !.MISMATCH.2001:DB8:0:0:8:800:200C:417A!bar.isp.example!!old.site.example!\
            barbaz!!baz.isp.example!.POSTED.dialup123.baz.isp.example!not-for-mail";

    #[test]
    fn identities_of_a_path() {
        assert!(contains_identity(MODERN, b"foo.isp.example"));
        assert!(contains_identity(MODERN, b"FOO-News"));
        assert!(contains_identity(MODERN, b"baz.isp.example"));
        assert!(!contains_identity(MODERN, b"not-for-mail"));
        assert!(!contains_identity(MODERN, b"isp.example"));
        assert!(!contains_identity(MODERN, b""));
        assert!(!contains_identity(b"", b"a"));
        assert!(!contains_identity(b"a", b"a"));
        assert!(contains_identity(b"a!a", b"a"));
    }

    proptest! {
        #[test]
        fn an_identity_is_one_of_the_entries(path in "[ab!. ]{0,30}", identity in "[aAb.]{0,3}") {
            let (path, identity) = (path.as_bytes(), identity.as_bytes());
            let expected = entries(path).any(|entry| entry.eq_ignore_ascii_case(identity));
            prop_assert_eq!(contains_identity(path, identity), expected);
        }
    }

    #[test]
    fn hops_leave_diagnostics_out() {
        let seen: Vec<_> = hops(MODERN).collect();
        let expected: [&[u8]; 6] = [
            b"foo.isp.example",
            b"foo-news",
            b"bar.isp.example",
            b"old.site.example",
            b"barbaz",
            b"baz.isp.example",
        ];
        assert_eq!(seen, expected);
        assert_eq!(hops(b"alone").count(), 0);
        assert_eq!(tail(MODERN), b"not-for-mail");
        assert_eq!(tail(b"alone"), b"alone");
    }

    #[test]
    fn prefixes() {
        for (diagnostic, expected) in [
            (PathDiagnostic::None, &b"me!"[..]),
            (PathDiagnostic::Match, b"me!!"),
            (PathDiagnostic::Seen(b"192.0.2.1"), b"me!.SEEN.192.0.2.1!"),
            (PathDiagnostic::Mismatch(b"peer.example"), b"me!.MISMATCH.peer.example!"),
            (PathDiagnostic::Posted(b"h.example"), b"me!.POSTED.h.example!"),
            (PathDiagnostic::Posted(b""), b"me!.POSTED!"),
        ] {
            let mut out = Vec::new();
            prefix(b"me", diagnostic, &mut out);
            assert_eq!(out, expected);
            out.extend_from_slice(b"old.example!tail");
            assert!(contains_identity(&out, b"ME"));
            assert_eq!(hops(&out).count(), 2);
        }
    }
}
