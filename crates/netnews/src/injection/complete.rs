//! Completion of a proto-article: the headers that the injecting agent adds.
//!
//! Existing headers keep their bytes and order, except for Path, which gets our name, and Cancel-Lock and
//! Cancel-Key, which may get further elements; new headers go before the blank line. The body is not touched.
//! Called by newsreel's `inject`. Sources: RFC 5537 section 3.5 steps 5 to 11, RFC 5536 section 3.2.8, RFC
//! 8315 sections 3.1 to 3.4.

use crate::article::{Article, Known};
use crate::path::{self, PathDiagnostic};
use crate::{date, decimal};

/// Tail entry of a Path that had none.
const TAIL: &[u8] = b"not-for-mail";

/// Additions of an injecting agent to a proto-article. Empty texts are left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct InjectionStamp<'a> {
    /// Names prepended to Path: our path identity, perhaps followed by other names of ours with `!` between
    /// them.
    pub identity: &'a str,
    /// Text after `.POSTED.` in Path: the poster's address or a substitute.
    pub posted_from: &'a str,
    /// Current time in Unix seconds.
    pub now: i64,
    /// Message-ID for an article that has none.
    pub message_id: &'a str,
    /// Organization for an article that has none.
    pub organization: &'a str,
    /// Value of Injection-Info, as written by `append_info`.
    pub info: &'a [u8],
    /// Elements for Cancel-Lock.
    pub cancel_lock: &'a str,
    /// Elements for Cancel-Key.
    pub cancel_key: &'a str,
    /// True if the article goes to a moderator: then no injection headers are added (RFC 5537 section 3.5
    /// step 7).
    pub to_moderator: bool,
}

/// Returns the article completed from a proto-article, in wire format without the final `.` line.
pub fn complete(article: &Article<'_>, stamp: &InjectionStamp<'_>) -> Vec<u8> {
    let missing = |known| article.count(known) == 0;
    let mut today = Vec::new();
    date::format_rfc5322(stamp.now, &mut today);
    let mut put = HeaderInserts { article, inserts: Vec::new(), headers: Vec::new() };
    if !stamp.to_moderator {
        put.path(stamp);
    }
    if missing(Known::MessageId) {
        put.header(Known::MessageId, stamp.message_id.as_bytes());
    }
    if missing(Known::Date) {
        put.header(Known::Date, &today);
    }
    if !stamp.to_moderator {
        // An article that had both may be injected elsewhere too, and must be identical everywhere.
        let perhaps_injected_twice = !missing(Known::MessageId) && !missing(Known::Date);
        if missing(Known::InjectionDate) && !perhaps_injected_twice {
            put.header(Known::InjectionDate, &today);
        }
        put.header(Known::InjectionInfo, stamp.info);
    }
    if missing(Known::Organization) {
        put.header(Known::Organization, stamp.organization.as_bytes());
    }
    put.elements(Known::CancelLock, stamp.cancel_lock);
    put.elements(Known::CancelKey, stamp.cancel_key);
    put.done()
}

/// Insertions into an article.
struct HeaderInserts<'a, 'b> {
    article: &'a Article<'b>,
    /// Texts, each with its position in the wire format.
    inserts: Vec<(usize, Vec<u8>)>,
    /// Whole header lines.
    headers: Vec<u8>,
}

impl HeaderInserts<'_, '_> {
    fn path(&mut self, stamp: &InjectionStamp<'_>) {
        let mut prefix = Vec::new();
        path::prefix(
            stamp.identity.as_bytes(),
            PathDiagnostic::Posted(stamp.posted_from.as_bytes()),
            &mut prefix,
        );
        match self.article.header_lines(Known::Path) {
            Some(lines) => {
                let value = self.article.header(Known::Path).unwrap_or_default();
                self.inserts.push((lines.end.saturating_sub(value.len() + b"\r\n".len()), prefix));
            }
            None => {
                prefix.extend_from_slice(TAIL);
                self.header(Known::Path, &prefix);
            }
        }
    }

    fn header(&mut self, known: Known, value: &[u8]) {
        if !value.is_empty() {
            self.headers.extend_from_slice(known.name().as_bytes());
            self.headers.extend_from_slice(b": ");
            self.headers.extend_from_slice(value);
            self.headers.extend_from_slice(b"\r\n");
        }
    }

    /// Adds elements to an existing header, on a line of their own, or adds the header.
    fn elements(&mut self, known: Known, elements: &str) {
        match self.article.header_lines(known) {
            Some(lines) if !elements.is_empty() => {
                let text = [b"\r\n ", elements.as_bytes()].concat();
                self.inserts.push((lines.end.saturating_sub(b"\r\n".len()), text));
            }
            Some(_) => {}
            None => self.header(known, elements.as_bytes()),
        }
    }

    fn done(mut self) -> Vec<u8> {
        let wire = self.article.wire();
        self.inserts.push((self.article.head().len(), self.headers));
        self.inserts.sort_by_key(|(at, _)| *at);
        let added: usize = self.inserts.iter().map(|(_, text)| text.len()).sum();
        let mut complete = Vec::with_capacity(wire.len() + added);
        let mut from = 0;
        for (at, text) in &self.inserts {
            complete.extend_from_slice(wire.get(from..*at).unwrap_or_default());
            complete.extend_from_slice(text);
            from = *at;
        }
        complete.extend_from_slice(wire.get(from..).unwrap_or_default());
        complete
    }
}

/// Appends the value of Injection-Info: our identity, then `; name="value"` for each non-empty parameter.
pub fn append_info(identity: &str, parameters: &[(&str, &str)], out: &mut Vec<u8>) {
    out.extend_from_slice(identity.as_bytes());
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        // Four parameters of addresses and names would make a line too long to read.
        out.extend_from_slice(if out.len() > 60 { b";\r\n " } else { b"; " });
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"=\"");
        for &b in value.as_bytes() {
            match b {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
                0..=31 | 127 => out.push(b'?'),
                _ => out.push(b),
            }
        }
        out.push(b'"');
    }
}

/// Returns `<time.count.random@identity>`: time and count make it unique on this host, the random part after
/// a clock was set back.
pub fn message_id(identity: &str, nanos: u64, count: u64, random: u32) -> String {
    let mut id = Vec::with_capacity(48 + identity.len());
    id.push(b'<');
    for (n, separator) in [(nanos, b'.'), (count, b'.'), (u64::from(random), b'@')] {
        decimal::append_decimal(n, &mut id);
        id.push(separator);
    }
    id.extend_from_slice(identity.as_bytes());
    id.push(b'>');
    String::from_utf8(id).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_780_000_000;
    const OWN: &str = "From: a@b\r\nNewsgroups: c.d\r\nSubject: s\r\n";

    fn stamp() -> InjectionStamp<'static> {
        InjectionStamp {
            identity: "me.example",
            posted_from: "192.0.2.1",
            now: NOW,
            message_id: "<fresh@me.example>",
            organization: "Us",
            info: b"me.example; posting-host=\"192.0.2.1\"",
            ..InjectionStamp::default()
        }
    }

    fn completed(proto: &str, stamp: &InjectionStamp<'_>) -> String {
        let article = Article::parse(proto.as_bytes()).unwrap();
        let complete = String::from_utf8(complete(&article, stamp)).unwrap();
        Article::parse(complete.as_bytes()).unwrap();
        complete
    }

    #[test]
    fn missing_headers_are_added_after_existing_ones() {
        let complete = completed(&format!("{OWN}\r\nbody\r\n"), &stamp());
        let (head, body) = complete.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, "body\r\n");
        let added: Vec<_> = head.strip_prefix(OWN).unwrap().split("\r\n").collect();
        assert_eq!(
            added,
            [
                "Path: me.example!.POSTED.192.0.2.1!not-for-mail",
                "Message-ID: <fresh@me.example>",
                "Date: Thu, 28 May 2026 20:26:40 +0000",
                "Injection-Date: Thu, 28 May 2026 20:26:40 +0000",
                "Injection-Info: me.example; posting-host=\"192.0.2.1\"",
                "Organization: Us",
            ]
        );
    }

    #[test]
    fn injection_date_is_omitted_if_message_id_and_date_are_present() {
        let (id, date) = ("Message-ID: <i@x>\r\n", "Date: 15 Apr 2026 12:00:00 GMT\r\n");
        for (given, added) in [("", true), (id, true), (date, true), (&format!("{id}{date}"), false)] {
            let complete = completed(&format!("{OWN}{given}\r\nbody\r\n"), &stamp());
            assert_eq!(complete.contains("\r\nInjection-Date: "), added, "{given}");
            assert!(complete.contains(given));
        }
        let given = "Injection-Date: 14 Apr 2026 12:00:00 GMT\r\n";
        assert_eq!(completed(&format!("{OWN}{given}\r\n"), &stamp()).matches("Injection-Date").count(), 1);
    }

    #[test]
    fn path_and_cancel_headers_of_the_poster_are_extended() {
        let proto = format!("Path: \r\n reader!me\r\nCancel-Lock: sha256:own\r\n{OWN}\r\n..b\r\n");
        let stamp = InjectionStamp { cancel_lock: "sha256:ours", cancel_key: "sha256:key", ..stamp() };
        let complete = completed(&proto, &stamp);
        assert!(complete.starts_with(
            "Path: me.example!.POSTED.192.0.2.1!\r\n reader!me\r\nCancel-Lock: sha256:own\r\n \
                sha256:ours\r\nFrom"
        ));
        assert!(complete.ends_with("\r\nCancel-Key: sha256:key\r\n\r\n..b\r\n"), "{complete}");
        let complete = completed(&format!("{OWN}\r\nb\r\n"), &InjectionStamp { posted_from: "", ..stamp });
        assert!(complete.contains("\r\nPath: me.example!.POSTED!not-for-mail\r\n"));
        assert!(complete.contains("\r\nCancel-Lock: sha256:ours\r\n"));
    }

    #[test]
    fn moderator_copy_has_no_injection_headers() {
        let complete =
            completed(&format!("{OWN}\r\nb\r\n"), &InjectionStamp { to_moderator: true, ..stamp() });
        assert_eq!(
            complete,
            format!(
                "{OWN}Message-ID: <fresh@me.example>\r\nDate: Thu, 28 May 2026 20:26:40 +0000\r\n\
                    Organization: Us\r\n\r\nb\r\n"
            )
        );
    }

    #[test]
    fn information_is_quoted_and_folded() {
        let mut info = Vec::new();
        let parameters = [
            ("posting-host", "192.0.2.1"),
            ("posting-account", ""),
            ("logging-data", "a\"b\\\r\n"),
            ("mail-complaints-to", "abuse@me.example"),
        ];
        append_info("me.example", &parameters, &mut info);
        assert_eq!(
            String::from_utf8(info).unwrap(),
            "me.example; posting-host=\"192.0.2.1\"; logging-data=\"a\\\"b\\\\??\";\r\n \
                mail-complaints-to=\"abuse@me.example\""
        );
    }

    #[test]
    fn generated_message_ids_are_valid() {
        let id = message_id("me.example", u64::MAX, u64::MAX, u32::MAX);
        assert!(crate::MessageId::parse(id.as_bytes()).is_some(), "{id}");
        assert_ne!(message_id("me", 1, 2, 3), message_id("me", 1, 2, 4));
    }
}
