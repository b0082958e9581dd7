//! Message-IDs: the identity of an article.
//!
//! Invariant: a `MessageId` starts with `<`, ends with `>`, contains printable ASCII without space or `>` in
//! between, and is at most `MESSAGE_ID_BYTES_MAX` long. This is RFC 3977's grammar, since imported articles
//! of 1993 have two `@` or none; peers and posters must follow stricter ones (`is_relayable`, `is_strict`).
//! Called wherever an article is named. Sources: RFC 3977 section 3.6, RFC 5536 section 3.1.3.

use std::fmt;

/// Maximum length of a Message-ID, angle brackets included (RFC 3977 section 3.6).
pub const MESSAGE_ID_BYTES_MAX: usize = 250;

/// A checked Message-ID, with its angle brackets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId<'a>(&'a [u8]);

impl<'a> MessageId<'a> {
    /// Accepts `text` as a Message-ID if all of it is one: `<`, 1 to 248 octets of 0x21-0x7e but `>`, `>`.
    pub fn parse(text: &'a [u8]) -> Option<MessageId<'a>> {
        if text.len() > MESSAGE_ID_BYTES_MAX {
            return None;
        }
        let inner = text.strip_prefix(b"<")?.strip_suffix(b">")?;
        if inner.is_empty() {
            return None;
        }
        let bad = inner.iter().fold(false, |bad, &b| bad | !(0x21..=0x7e).contains(&b) | (b == b'>'));
        (!bad).then_some(MessageId(text))
    }

    /// Returns the Message-ID in the value of a Message-ID header, which may have white space or folds around
    /// it.
    pub fn from_header(value: &'a [u8]) -> Option<MessageId<'a>> {
        MessageId::parse(value.trim_ascii())
    }

    /// Returns whether peers may send an article of this name: one `@`, with something on both sides.
    /// Stricter servers reject others.
    pub fn is_relayable(&self) -> bool {
        self.halves().is_some_and(|(left, right)| !left.is_empty() && !right.is_empty())
    }

    /// Returns whether the Message-ID follows RFC 5536 section 3.1.3, so that every server accepts it.
    pub fn is_strict(&self) -> bool {
        self.halves()
            .is_some_and(|(left, right)| is_dot_atom(left) && (is_dot_atom(right) || is_literal(right)))
    }

    /// Returns the parts before and after the `@`; `None` unless there is exactly one.
    fn halves(&self) -> Option<(&'a [u8], &'a [u8])> {
        let inner = self.0.get(1..self.0.len().saturating_sub(1))?;
        let at = memchr::memchr(b'@', inner)?;
        let (left, right) = (inner.get(..at)?, inner.get(at + 1..)?);
        memchr::memchr(b'@', right).is_none().then_some((left, right))
    }

    /// Returns the octets, angle brackets included.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Returns the text, angle brackets included; Message-IDs are ASCII.
    pub fn as_str(&self) -> &'a str {
        std::str::from_utf8(self.0).unwrap_or("")
    }
}

/// Checks for `dot-atom-text` of RFC 5322 section 3.2.3.
fn is_dot_atom(text: &[u8]) -> bool {
    let is_atext = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(b);
    text.split(|&b| b == b'.').all(|atom| !atom.is_empty() && atom.iter().all(is_atext))
}

/// Checks for `no-fold-literal` of RFC 5536 section 3.1.3; the octets have been checked already.
fn is_literal(text: &[u8]) -> bool {
    let inner = text.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    inner.is_some_and(|inner| !inner.iter().any(|b| b"[\\]".contains(b)))
}

impl fmt::Display for MessageId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for MessageId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted() {
        let longest = format!("<{}@x>", "a".repeat(246));
        assert_eq!(longest.len(), MESSAGE_ID_BYTES_MAX);
        for good in [
            "<a@b>",
            "<1>",
            "<thomas.d.fellrath.1@nd.edu.36.0@nd.edu>",
            "<1993Apr15.204033.28463@freenet.carleton.ca>",
            "<<a@b>",
            "<\"odd\\,local\"@[127.0.0.1]>",
            longest.as_str(),
        ] {
            assert_eq!(MessageId::parse(good.as_bytes()).unwrap().to_string(), good);
        }
    }

    #[test]
    fn refused() {
        let too_long = format!("<{}@x>", "a".repeat(247));
        for bad in [
            "",
            "<",
            ">",
            "<>",
            "a@b",
            "<a@b",
            "a@b>",
            "<a b@c>",
            "<a@b>>",
            "<a>b@c>",
            " <a@b>",
            "<a\t@b>",
            "<\u{e9}@b>",
            "<a\x7f@b>",
            &too_long,
        ] {
            assert_eq!(MessageId::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn peers_and_posters_are_held_to_stricter_grammars() {
        for (text, relayable, strict) in [
            ("<a@b>", true, true),
            ("<A.1+x{y}~@[192.0.2.1]>", true, true),
            ("<a@[]>", true, true),
            ("<a..b@c>", true, false),
            ("<.a@b>", true, false),
            ("<a.@b>", true, false),
            ("<a@b.>", true, false),
            ("<a@b..c>", true, false),
            ("<a@[b>", true, false),
            ("<a@[b\\]>", true, false),
            ("<a:b@c>", true, false),
            ("<a,b@c>", true, false),
            ("<<a@b>", true, false),
            ("<\"odd\"@b>", true, false),
            ("<@>", false, false),
            ("<@b>", false, false),
            ("<a@>", false, false),
            ("<noat>", false, false),
            ("<a@@b>", false, false),
            ("<a@b@c>", false, false),
        ] {
            let id = MessageId::parse(text.as_bytes()).unwrap();
            assert_eq!((id.is_relayable(), id.is_strict()), (relayable, strict), "{text}");
        }
    }

    #[test]
    fn header_values_are_trimmed() {
        assert_eq!(MessageId::from_header(b" \r\n\t<a@b> \t").unwrap().as_bytes(), b"<a@b>");
        assert_eq!(MessageId::from_header(b"<a@b> (comment)"), None);
        assert_eq!(MessageId::from_header(b""), None);
    }
}
