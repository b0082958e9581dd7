//! Message-IDs: the identity of an article.
//!
//! Invariant: a `MessageId` starts with `<`, ends with `>`, holds printable ASCII without space or `>` between, and is
//! at most `MESSAGE_ID_BYTES_MAX` long. RFC 3977's grammar is taken and not RFC 5536's stricter one, since articles of
//! 1993 carry two `@` or none. Called by everything that names an article. Source: RFC 3977 section 3.6.

use std::fmt;

/// The longest Message-ID, angle brackets included (RFC 3977 section 3.6).
pub const MESSAGE_ID_BYTES_MAX: usize = 250;

/// A checked Message-ID, with its angle brackets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId<'a>(&'a [u8]);

impl<'a> MessageId<'a> {
    /// Takes `text` as a Message-ID if all of it is one: `<`, 1 to 248 octets of 0x21-0x7e but `>`, `>`.
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

    /// The Message-ID in the value of a Message-ID header, which may have white space or folds around it.
    pub fn from_header(value: &'a [u8]) -> Option<MessageId<'a>> {
        MessageId::parse(value.trim_ascii())
    }

    /// The octets, angle brackets included.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The text, angle brackets included; Message-IDs are ASCII.
    pub fn as_str(&self) -> &'a str {
        std::str::from_utf8(self.0).unwrap_or("")
    }
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
    fn header_values_are_trimmed() {
        assert_eq!(MessageId::from_header(b" \r\n\t<a@b> \t").unwrap().as_bytes(), b"<a@b>");
        assert_eq!(MessageId::from_header(b"<a@b> (comment)"), None);
        assert_eq!(MessageId::from_header(b""), None);
    }
}
