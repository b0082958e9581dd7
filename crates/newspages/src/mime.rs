//! Division of a body into its leaf parts.
//!
//! The tree of a message is walked once, within bounds for depth and number of parts; parts beyond them are
//! shown as the text that they are. Nothing is decoded before it is needed. Called by `content`. Sources: RFC
//! 2045, RFC 2046 section 5, RFC 2183, RFC 3676 section 4.

use std::borrow::Cow;

use memchr::memchr;
use netnews::article::EmbeddedEncoding;
use netnews::transfer::{base64, base64_and_rest, quoted_printable};

use crate::header::{self, MimeField};
use crate::{charset, embedded, work};

/// Maximum depth of nested multiparts and messages.
pub const DEPTH_MAX: usize = 8;
/// Maximum number of leaves of an article.
pub const LEAVES_MAX: usize = 100;
/// Maximum length of a boundary, in bytes (RFC 2046 has 70).
const BOUNDARY_BYTES_MAX: usize = 200;
/// Maximum size of a part's header lines, in bytes.
const PART_HEAD_BYTES_MAX: usize = 64 << 10;

/// Number of octets that are decoded first, to check whether a text is blank.
const GLANCE_BYTES: usize = 1 << 10;

/// Transfer encoding of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferEncoding {
    /// No encoding: 7bit, 8bit, binary, or something unknown.
    Plain,
    /// Quoted-printable.
    QuotedPrintable,
    /// Base64.
    Base64,
    /// A file within the body as in text, in uuencode or yEnc.
    Embedded,
}

/// A part without parts of its own.
#[derive(Debug)]
pub struct MimeLeaf<'a> {
    /// Media type, in lower case: `text/plain`. A message within the message, whose parts follow, has
    /// `message/rfc822`.
    pub media_type: String,
    /// Declared charset.
    pub charset: Option<String>,
    /// `Some` for `format=flowed`, with the value of `delsp=yes`.
    pub flowed: Option<bool>,
    /// File name as written.
    pub name: Option<String>,
    /// True if it is to be shown: text that is neither attached nor the lesser form of another part.
    pub is_shown: bool,
    /// True for text other than HTML that has nothing but white space.
    pub is_blank: bool,
    /// Transfer encoding.
    pub transfer: TransferEncoding,
    /// Header lines.
    pub head: &'a [u8],
    /// Body, still encoded.
    pub body: &'a [u8],
}

impl<'a> MimeLeaf<'a> {
    /// Returns the octets, of which no more than about `bytes_max` are decoded.
    pub fn octets(&self, bytes_max: usize) -> Cow<'a, [u8]> {
        self.decoded(bytes_max).0
    }

    /// Like [`octets`](Self::octets), and returns whether that is all, as far as the encoding shows.
    pub fn decoded(&self, bytes_max: usize) -> (Cow<'a, [u8]>, bool) {
        let bytes_each = match self.transfer {
            TransferEncoding::Plain | TransferEncoding::Embedded => 1,
            TransferEncoding::QuotedPrintable => 3,
            TransferEncoding::Base64 => 2,
        };
        let bytes = self.body.len().min(bytes_max.saturating_mul(bytes_each));
        let cut = self.body.get(..bytes).unwrap_or_default();
        work::take(cut.len());
        let octets = match self.transfer {
            TransferEncoding::Plain => Cow::Borrowed(cut),
            TransferEncoding::QuotedPrintable => Cow::Owned(quoted_printable(cut)),
            TransferEncoding::Base64 => Cow::Owned(base64(cut)),
            // A file in text that is shown is offered at its position in the text.
            TransferEncoding::Embedded if self.is_text_with_files() => Cow::Borrowed(cut),
            TransferEncoding::Embedded => match embedded::first(self.body, bytes_max) {
                Some((_, file)) => return (Cow::Owned(file.octets), file.is_whole),
                None => Cow::Borrowed(cut),
            },
        };
        (octets, true)
    }

    /// Returns plain text that was appended after the end of base64, as mailing lists do.
    pub fn appended(&self) -> &'a [u8] {
        if self.transfer != TransferEncoding::Base64 || !work::take(self.body.len()) {
            return b"";
        }
        base64_and_rest(self.body).1
    }

    /// Returns whether the leaf is shown, and files within it are searched for.
    pub fn is_text_with_files(&self) -> bool {
        self.is_shown && self.media_type != "text/html"
    }

    fn has_only_blanks(&self) -> bool {
        let is_blank =
            |bytes_max| charset::decode(self.charset.as_deref(), &self.octets(bytes_max)).trim().is_empty();
        is_blank(GLANCE_BYTES) && is_blank(usize::MAX)
    }
}

/// Leaves of a message.
#[derive(Debug, Default)]
pub struct MimeLeaves<'a> {
    /// Leaves in order.
    pub all: Vec<MimeLeaf<'a>>,
    /// True if a limit was reached: the rest is in the last leaf, or in none.
    pub is_cut: bool,
}

/// Divides a message: its header lines, and its body with CRLF or LF lines, without dot-stuffing.
pub fn leaves<'a>(head: &'a [u8], body: &'a [u8]) -> MimeLeaves<'a> {
    let mut leaves = MimeLeaves::default();
    leaves.part(head, body, "text/plain", 0);
    leaves
}

impl<'a> MimeLeaves<'a> {
    fn part(&mut self, head: &'a [u8], body: &'a [u8], default: &str, depth: usize) {
        if self.all.len() >= LEAVES_MAX {
            self.is_cut = true;
            return;
        }
        let get = |name: &[u8]| content(head, name);
        let field = get(b"Content-Type").map(MimeField::parse).unwrap_or_default();
        // An invalid type means text, as in articles before MIME.
        let media_type = match field.value.as_str() {
            // RFC 5537 section 4 has made it obsolete.
            "message/news" => "message/rfc822",
            value if value.contains('/') => value,
            _ => default,
        };
        let media_type = media_type.to_owned();
        let transfer = get(b"Content-Transfer-Encoding").map_or(TransferEncoding::Plain, transfer);
        if depth < DEPTH_MAX && media_type.starts_with("multipart/") {
            let parts = field.get("boundary").map(|boundary| split(body, boundary)).unwrap_or_default();
            if !parts.is_empty() {
                self.parts(&parts, &media_type, depth);
                return;
            }
        }
        self.is_cut |= depth >= DEPTH_MAX && media_type.starts_with("multipart/");
        let is_message =
            media_type == "message/rfc822" && transfer == TransferEncoding::Plain && depth < DEPTH_MAX;
        let disposition = get(b"Content-Disposition").map(MimeField::parse).unwrap_or_default();
        let name = disposition.get("filename").or(field.get("name")).map(str::to_owned);
        let is_text = media_type.starts_with("text/") || media_type.starts_with("multipart/");
        let is_attached =
            disposition.value == "attachment" || depth > 0 && name.is_some() && media_type != "text/plain";
        let is_flowed = field.get("format").is_some_and(|format| format.eq_ignore_ascii_case("flowed"));
        let flowed = (is_flowed && media_type == "text/plain")
            .then(|| field.get("delsp").is_some_and(|delsp| delsp.eq_ignore_ascii_case("yes")));
        let mut leaf = MimeLeaf {
            charset: field.get("charset").map(str::to_owned),
            flowed,
            name,
            is_shown: is_message || is_text && !is_attached,
            is_blank: false,
            transfer,
            head,
            body,
            media_type,
        };
        leaf.is_blank = is_text && leaf.is_text_with_files() && leaf.has_only_blanks();
        self.all.push(leaf);
        if is_message {
            let (head, body) = divide(body);
            self.part(head, body, "text/plain", depth + 1);
        }
    }

    fn parts(&mut self, parts: &[&'a [u8]], media_type: &str, depth: usize) {
        let default = if media_type == "multipart/digest" { "message/rfc822" } else { "text/plain" };
        let is_alternative = media_type == "multipart/alternative";
        let mut ranges = Vec::new();
        for part in parts {
            let start = self.all.len();
            let (head, body) = divide(part);
            self.part(head, body, default, depth + 1);
            ranges.push(start..self.all.len());
        }
        if !is_alternative {
            return;
        }
        // The last form that is plain text and not blank is shown, otherwise the last that is text.
        let has = |range: &std::ops::Range<usize>, wanted: &str, may_be_blank: bool| {
            let leaves = self.all.get(range.clone()).unwrap_or_default();
            leaves.iter().any(|leaf| {
                leaf.is_shown && leaf.media_type.starts_with(wanted) && (may_be_blank || !leaf.is_blank)
            })
        };
        let best = [("text/plain", false), ("text/", false), ("text/", true)].iter().find_map(
            |(wanted, may_be_blank)| ranges.iter().rposition(|range| has(range, wanted, *may_be_blank)),
        );
        for (_, range) in ranges.into_iter().enumerate().filter(|(at, _)| Some(*at) != best) {
            self.all.get_mut(range).unwrap_or_default().iter_mut().for_each(|leaf| leaf.is_shown = false);
        }
    }
}

/// Returns the value of the first header of that name, in lines that were not checked.
pub(crate) fn content<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = head;
    while !rest.is_empty() {
        let (line, after) = rest.split_at(field_bytes(rest));
        if !work::take(line.len()) {
            break;
        }
        rest = after;
        if let Some(colon) = memchr(b':', line)
            && let Some((found, value)) = line.split_at_checked(colon)
            && found.trim_ascii_end().eq_ignore_ascii_case(name)
        {
            return value.get(1..).map(<[u8]>::trim_ascii);
        }
    }
    None
}

/// Returns the length of a header with its continuation lines.
fn field_bytes(head: &[u8]) -> usize {
    let mut end = 0;
    loop {
        match head.get(end..).and_then(|rest| memchr(b'\n', rest)) {
            None => return head.len(),
            Some(lf) => end += lf + 1,
        }
        if !matches!(head.get(end), Some(b' ' | b'\t')) {
            return end;
        }
    }
}

fn transfer(value: &[u8]) -> TransferEncoding {
    match value.split(|b| b";( \t\r\n".contains(b)).next().unwrap_or_default().to_ascii_lowercase().as_slice()
    {
        b"quoted-printable" => TransferEncoding::QuotedPrintable,
        b"base64" => TransferEncoding::Base64,
        name if EmbeddedEncoding::named(name).is_some() => TransferEncoding::Embedded,
        _ => TransferEncoding::Plain,
    }
}

/// Splits a part into header lines and body. Without an empty line it has no headers.
fn divide(part: &[u8]) -> (&[u8], &[u8]) {
    let mut end = 0;
    while let Some(rest) = part.get(end..).filter(|_| end <= PART_HEAD_BYTES_MAX) {
        let Some(lf) = memchr(b'\n', rest) else {
            // The part has headers alone, or a line that is no header.
            return if memchr(b':', rest).is_some() || rest.is_empty() { (part, b"") } else { (b"", part) };
        };
        let line = rest.get(..lf).unwrap_or_default().trim_ascii_end();
        if !work::take(lf + 1) {
            break;
        }
        if line.is_empty() {
            return (part.get(..end).unwrap_or_default(), part.get(end + lf + 1..).unwrap_or_default());
        }
        let is_header = line.starts_with(b" ") || line.starts_with(b"\t") || memchr(b':', line).is_some();
        if !is_header {
            break;
        }
        end += lf + 1;
    }
    (b"", part)
}

/// Returns the parts between lines of the boundary; none if there is no such line.
fn split<'a>(body: &'a [u8], boundary: &str) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    if boundary.is_empty() || boundary.len() > BOUNDARY_BYTES_MAX {
        return parts;
    }
    let (mut start, mut at): (Option<usize>, usize) = (None, 0);
    while let Some(rest) = body.get(at..).filter(|rest| !rest.is_empty() && parts.len() < LEAVES_MAX) {
        let bytes = memchr(b'\n', rest).map_or(rest.len(), |lf| lf + 1);
        let line = rest.get(..bytes).unwrap_or_default();
        if !work::take(bytes) {
            break;
        }
        let after = line.strip_prefix(b"--").and_then(|line| line.strip_prefix(boundary.as_bytes()));
        let kind = after.map(<[u8]>::trim_ascii_end);
        if matches!(kind, Some(b"" | b"--")) {
            if let Some(start) = start.replace(at + bytes) {
                // The line end before the boundary is part of the boundary.
                let part = body.get(start..at).unwrap_or_default();
                let part = part.strip_suffix(b"\n").unwrap_or(part);
                parts.push(part.strip_suffix(b"\r").unwrap_or(part));
            }
            if kind == Some(b"--") {
                return parts;
            }
        }
        at += bytes;
    }
    // The last part was truncated.
    parts.extend(start.and_then(|start| body.get(start..)).filter(|part| !part.is_empty()));
    parts
}

/// Returns the value of a header of a leaf that is a message, as text.
pub fn inner_header(leaf: &MimeLeaf<'_>, name: &[u8]) -> Option<String> {
    content(divide(leaf.body).0, name).map(header::text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(head: &str, body: &str) -> Vec<(String, String, bool)> {
        let leaves = leaves(head.as_bytes(), body.as_bytes());
        let row = |leaf: &MimeLeaf<'_>| {
            let text = String::from_utf8_lossy(&leaf.octets(1000)).into_owned();
            (leaf.media_type.clone(), text, leaf.is_shown)
        };
        leaves.all.iter().map(row).collect()
    }

    fn leaf(media_type: &str, text: &str, is_shown: bool) -> (String, String, bool) {
        (media_type.to_owned(), text.to_owned(), is_shown)
    }

    #[test]
    fn an_article_without_mime_is_one_leaf() {
        assert_eq!(shown("Subject: x\r\n", "a\r\nb\r\n"), [leaf("text/plain", "a\r\nb\r\n", true)]);
        assert_eq!(shown("Content-Type: text\r\n", "a"), [leaf("text/plain", "a", true)]);
        assert_eq!(shown("", ""), [leaf("text/plain", "", true)]);
    }

    #[test]
    fn plain_alternative_is_shown() {
        let head = "Content-Type: multipart/alternative;\r\n boundary=\"b b\"\r\n";
        let body = "preamble\r\n--b b\r\n\r\nplain\r\n--b b  \r\nContent-Type: text/html\r\n\r\n<b>html</b>\r\n--b b--\r\nepilogue";
        assert_eq!(
            shown(head, body),
            [leaf("text/plain", "plain", true), leaf("text/html", "<b>html</b>", false)]
        );
        let html = body.replace("\r\n\r\nplain", "\r\nContent-Type: image/png\r\n\r\nplain");
        assert_eq!(
            shown(head, &html),
            [leaf("image/png", "plain", false), leaf("text/html", "<b>html</b>", true)]
        );
    }

    #[test]
    fn html_is_shown_if_the_plain_alternative_is_blank() {
        let head = "Content-Type: multipart/alternative; boundary=x\n";
        for (encoding, blank) in [
            ("7bit", "".to_owned()),
            ("7bit", " \n\t\n".repeat(1_000)),
            ("quoted-printable", "=20=\n\n=A0\n".to_owned()),
            ("base64", "DQoNCg==\n".to_owned()),
        ] {
            let body = format!(
                "--x\nContent-Transfer-Encoding: {encoding}\n\n{blank}\n--x\nContent-Type: text/html\n\n<b>html</b>\n--x--\n"
            );
            let forms: Vec<_> =
                shown(head, &body).into_iter().map(|(form, _, is_shown)| (form, is_shown)).collect();
            let expected = [("text/plain".to_owned(), false), ("text/html".to_owned(), true)];
            assert_eq!(forms, expected, "{encoding} {blank:?}");
        }
        assert_eq!(
            shown(head, "--x\n\n \n--x--\n"),
            [leaf("text/plain", " ", true)],
            "there is nothing else"
        );
    }

    #[test]
    fn parts_with_a_file_in_uuencode_or_yenc_are_decoded() {
        let head = "Content-Type: multipart/mixed; boundary=x\n";
        let part = |kind: &str, encoding: &str, text: &str| {
            format!("--x\nContent-Type: {kind}\nContent-Transfer-Encoding: {encoding}\n\n{text}\n")
        };
        let uu = "begin 644 a.gif\n#9F]U\n`\nend";
        let body = [
            part("image/gif", "X-UUencode", &format!("\n{uu}")),
            part("image/gif", "uuencode", "none"),
            part("image/gif", "x-yencode", "=ybegin line=1 size=1 name=a\n\u{7f}\n=yend size=1"),
            part("text/plain", "x-uuencode", uu),
        ]
        .concat();
        assert_eq!(
            shown(head, &body),
            [
                leaf("image/gif", "fou", false),
                leaf("image/gif", "none", false),
                leaf("image/gif", "U", false),
                // No boundary follows that its last line end would belong to.
                leaf("text/plain", "begin 644 a.gif\n#9F]U\n`\nend\n", true),
            ]
        );
        let cut = part("image/gif", "uuencode", "begin 644 a.gif\n#9F]U");
        assert!(!leaves(head.as_bytes(), cut.as_bytes()).all[0].decoded(99).1);
    }

    #[test]
    fn attachments_and_messages_are_distinguished_from_text() {
        let head = "Content-Type: multipart/mixed; boundary=x\n";
        let body = "--x\nContent-Type: text/plain; name=a.txt\nContent-Transfer-Encoding: Quoted-Printable\n\n=41=\nb=3\n\
            --x\nContent-Type: image/jpeg\nContent-Disposition: attachment; filename=\"b.jpg\"\n\
            Content-Transfer-Encoding: base64\n\naGFs\nbG8=!\n--x\nContent-Type: message/rfc822\n\nSubject: in\n\nner\n--x--\n";
        assert_eq!(
            shown(head, body),
            [
                leaf("text/plain", "Ab=3", true),
                leaf("image/jpeg", "hallo", false),
                leaf("message/rfc822", "Subject: in\n\nner", true),
                leaf("text/plain", "ner", true),
            ]
        );
        let leaves = leaves(head.as_bytes(), body.as_bytes());
        assert_eq!(inner_header(&leaves.all[2], b"subject").as_deref(), Some("in"));
        assert_eq!(leaves.all[1].name.as_deref(), Some("b.jpg"));
        assert_eq!(leaves.all[0].name.as_deref(), Some("a.txt"));
    }

    #[test]
    fn odd_messages_within_messages_are_shown() {
        let head = "Content-Type: multipart/digest; boundary=x\n";
        let body = "--x\n\nSubject: one\n\n1\n--x\nContent-Type: message/news\n\nSubject: two\n\n2\n\
            --x\nContent-Type: text/plain\n\n3\n--x\nContent-Type: message/rfc822\n\n--x--\n";
        assert_eq!(
            shown(head, body),
            [
                leaf("message/rfc822", "Subject: one\n\n1", true),
                leaf("text/plain", "1", true),
                leaf("message/rfc822", "Subject: two\n\n2", true),
                leaf("text/plain", "2", true),
                leaf("text/plain", "3", true),
                leaf("message/rfc822", "", true),
                leaf("text/plain", "", true),
            ]
        );
    }

    #[test]
    fn depth_and_number_are_bounded() {
        // Messages in messages, 100,000 deep.
        let deep = "Content-Type: message/rfc822\r\n\r\n".repeat(100_000);
        let found = leaves(b"Content-Type: message/rfc822\r\n", deep.as_bytes());
        assert_eq!(found.all.len(), DEPTH_MAX + 1);
        // Multiparts in multiparts with the same boundary.
        let deep = "--x\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n".repeat(20_000);
        let found = leaves(b"Content-Type: multipart/mixed; boundary=x\r\n", deep.as_bytes());
        assert!(found.all.len() <= LEAVES_MAX);
        let nested: String = (0..500)
            .map(|n| format!("--b{n}\r\nContent-Type: multipart/mixed; boundary=b{}\r\n\r\n", n + 1))
            .collect();
        let found = leaves(b"Content-Type: multipart/mixed; boundary=b0\r\n", nested.as_bytes());
        assert!(found.is_cut && found.all.len() == 1, "{}", found.all.len());
        // Many parts on one level.
        let wide = "--x\r\n\r\na\r\n".repeat(5_000);
        let found = leaves(b"Content-Type: multipart/mixed; boundary=x\r\n", wide.as_bytes());
        assert_eq!(found.all.len(), LEAVES_MAX);
    }

    #[test]
    fn a_multipart_without_its_boundary_is_text() {
        for head in ["Content-Type: multipart/mixed\r\n", "Content-Type: multipart/mixed; boundary=\"\"\r\n"]
        {
            assert_eq!(shown(head, "--\r\nbody\r\n"), [leaf("multipart/mixed", "--\r\nbody\r\n", true)]);
        }
    }

    proptest! {
        #[test]
        fn any_body_is_divided_without_panic(pieces in prop::collection::vec(prop::sample::select(vec![
            "--x\r\n", "--x--\r\n", "\r\n", "Content-Type: multipart/mixed; boundary=x\r\n", "text = =41\r\n", "--",
            "Content-Type: multipart/alternative; boundary=y\r\n", "--y\n", "Content-Type: message/rfc822\r\n", ":",
            "Content-Transfer-Encoding: base64\r\n", "Content-Disposition: attachment\r\n", " =?x?q??=", "AAAA=\n",
        ]), 0..60)) {
            let text = pieces.concat();
            let found = leaves(b"Content-Type: multipart/mixed; boundary=x\r\n", text.as_bytes());
            prop_assert!(!found.all.is_empty() && found.all.len() <= LEAVES_MAX);
            for leaf in &found.all {
                prop_assert!(leaf.octets(usize::MAX).len() <= leaf.body.len());
                prop_assert!(leaf.octets(10).len() <= 10 * 3);
            }
        }
    }
}
