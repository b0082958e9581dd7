//! Content types of an article, detected from its header lines and the form of its body lines.
//!
//! Feeds choose articles by these types. As in Diablo, data is recognized without the lines that should
//! surround it, by several consecutive lines that look like nothing else. Decodes nothing; stops at the first
//! data. Called by `newsreel`'s routing. Sources: Diablo's dnewsfeeds(5), "arttypes"; RFC 2045 sections 5 and
//! 6; yEnc draft 1.3.

use super::binary::DATA_LINES_MIN;
use super::encoded::{self, EmbeddedEncoding};
use memchr::memchr;

/// Lengths of lines of base64: most programs write 64, 72 or 76 characters.
const BASE64_LINE_BYTES: std::ops::RangeInclusive<usize> = 60..=76;
/// Lengths of lines of BinHex.
const BINHEX_LINE_BYTES: std::ops::RangeInclusive<usize> = 64..=65;
/// The characters of BinHex 4.0.
const BINHEX: &[u8] = b"!\"#$%&'()*+,-012345689@ABCDEFGHIJKLMNPQRSTUVXYZ[`abcdefhijklmpqr";

/// Set of types of an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArticleTypes(u16);

impl ArticleTypes {
    /// Text of none of the other types.
    pub const PLAIN: Self = Self(1);
    /// A control message.
    pub const CONTROL: Self = Self(1 << 1);
    /// Data of any encoding.
    pub const BINARY: Self = Self(1 << 2);
    /// Data encoded by yEnc.
    pub const YENC: Self = Self(1 << 3);
    /// Uuencoded data.
    pub const UUENCODE: Self = Self(1 << 4);
    /// Data in base64.
    pub const BASE64: Self = Self(1 << 5);
    /// Data encoded by BinHex.
    pub const BINHEX: Self = Self(1 << 6);
    /// One part of a posting in several articles.
    pub const PARTIAL: Self = Self(1 << 7);
    /// An article with MIME headers.
    pub const MIME: Self = Self(1 << 8);
    /// An article with several MIME parts.
    pub const MULTIPART: Self = Self(1 << 9);
    /// HTML, alone or in a part.
    pub const HTML: Self = Self(1 << 10);
    /// An article that contains a PGP message.
    pub const PGP: Self = Self(1 << 11);

    /// Returns the types of an article in wire format. Its head ends at `body_offset`.
    pub fn of(wire: &[u8], body_offset: usize) -> Self {
        let (head, body) = wire.split_at_checked(body_offset).unwrap_or((wire, &[]));
        let mut types = Self::default();
        for line in lines(head) {
            types.note_header(line);
            types.add_if(has_prefix(line, b"control:"), Self::CONTROL);
            types.add_if(has_prefix(line, b"mime-version:"), Self::MIME);
        }
        let mut runs = DataRun::default();
        for line in lines(body) {
            if types.has(Self::BINARY) {
                break;
            }
            types.note_header(line);
            types.note_body_line(line, &mut runs);
        }
        if types == Self::default() { Self::PLAIN } else { types }
    }

    /// Returns whether all the types of `other` are in this set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    fn add_if(&mut self, is_so: bool, other: Self) {
        if is_so {
            self.add(other);
        }
    }

    /// Examines a line that may be a header of the article or of a part of it.
    fn note_header(&mut self, line: &[u8]) {
        if let Some(value) = after_prefix(line, b"content-type:") {
            self.add(Self::MIME);
            self.add_if(has_prefix(value, b"text/html"), Self::HTML);
            self.add_if(has_prefix(value, b"multipart/"), Self::MULTIPART);
            self.add_if(has_prefix(value, b"message/partial"), Self::PARTIAL);
            self.add_if(has_prefix(value, b"application/octet-stream"), Self::BINARY);
        } else if let Some(value) = after_prefix(line, b"content-transfer-encoding:") {
            self.add_if(has_prefix(value, b"base64"), Self(Self::BASE64.0 | Self::BINARY.0));
            match EmbeddedEncoding::named(value.trim_ascii_end()) {
                Some(EmbeddedEncoding::Uuencode) => self.add(Self(Self::UUENCODE.0 | Self::BINARY.0)),
                Some(EmbeddedEncoding::Yenc) => self.add(Self(Self::YENC.0 | Self::BINARY.0)),
                None => {}
            }
        }
    }

    fn note_body_line(&mut self, line: &[u8], runs: &mut DataRun) {
        if line.starts_with(b"=y") {
            let begin = encoded::yenc_begin(line);
            let is_yenc = begin.is_some() || encoded::is_yenc_mark(line);
            self.add_if(is_yenc, Self(Self::YENC.0 | Self::BINARY.0));
            let is_part = begin.is_some_and(|begin| begin.part.is_some()) || encoded::is_yenc_part(line);
            self.add_if(is_part, Self::PARTIAL);
        }
        self.add_if(line.starts_with(b"-----BEGIN PGP MESSAGE-----"), Self::PGP);
        // Data is sometimes quoted.
        let line = line.strip_prefix(b">").map_or(line, |line| line.strip_prefix(b" ").unwrap_or(line));
        // Uuencoded lines may look like BinHex, so they are tested first.
        let kinds = [Self::UUENCODE, Self::BINHEX, Self::BASE64];
        let kind = kinds.into_iter().find(|kind| is_data(line, *kind, runs.kind == Some(*kind)));
        if runs.count(kind) >= DATA_LINES_MIN {
            kind.into_iter().for_each(|kind| self.add(kind));
            self.add(Self::BINARY);
        }
    }
}

/// Consecutive lines that look like data of one kind.
#[derive(Default)]
struct DataRun {
    kind: Option<ArticleTypes>,
    lines: u32,
}

impl DataRun {
    /// Counts a line. Returns the length of the run, this line included.
    fn count(&mut self, kind: Option<ArticleTypes>) -> u32 {
        let before = if kind == self.kind { self.lines } else { 0 };
        (self.kind, self.lines) = (kind, if kind.is_some() { before + 1 } else { 0 });
        self.lines
    }
}

/// Whether a line looks like data of a kind, and `continues` it if the line before did.
fn is_data(line: &[u8], kind: ArticleTypes, continues: bool) -> bool {
    match kind {
        ArticleTypes::UUENCODE => encoded::is_uu_data(line, continues),
        ArticleTypes::BINHEX => {
            BINHEX_LINE_BYTES.contains(&line.len()) && line.iter().all(|b| BINHEX.contains(b))
        }
        _ => {
            let is_base64 = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
            BASE64_LINE_BYTES.contains(&line.len()) && line.iter().all(is_base64)
        }
    }
}

/// Returns the lines without their ends.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = memchr(b'\n', rest)?;
        let line = rest.get(..end)?;
        rest = rest.get(end + 1..)?;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    })
}

/// Returns whether `text` begins with `prefix`, ignoring case. `prefix` must be in lower case.
fn has_prefix(text: &[u8], prefix: &[u8]) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn after_prefix<'a>(line: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    has_prefix(line, prefix).then(|| line.get(prefix.len()..).unwrap_or_default().trim_ascii_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(head: &str, body: &str) -> ArticleTypes {
        let head = format!("Subject: s\r\n{head}\r\n");
        ArticleTypes::of(format!("{head}{body}").as_bytes(), head.len())
    }

    fn all(types: &[ArticleTypes]) -> ArticleTypes {
        types.iter().fold(ArticleTypes::default(), |all, one| ArticleTypes(all.0 | one.0))
    }

    #[test]
    fn types_are_detected_from_headers_and_body_lines() {
        let uu = format!("M{}\r\n", "#8V%T".repeat(12)).repeat(9);
        let base64 = format!("{}\r\n", "QWxsIHdvcmRz".repeat(6)).repeat(9);
        let binhex = format!("{}\r\n", "$f*TEQKPH#jdD@4".repeat(5).get(..64).unwrap()).repeat(9);
        let words = "Words as people write them, and that look like nothing else at all\r\n".repeat(20);
        let eight = |text: &str| text.lines().take(8).map(|line| format!("{line}\r\n")).collect::<String>();
        let (uu_8, base64_8) = (eight(&uu), eight(&base64));
        let html = "Content-Type: text/html; charset=utf-8\r\n";
        let multipart = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n";
        for (head, body, expected) in [
            ("", words.as_str(), all(&[ArticleTypes::PLAIN])),
            ("", "", all(&[ArticleTypes::PLAIN])),
            ("Control: cancel <a@b>\r\n", "", all(&[ArticleTypes::CONTROL])),
            ("", "=ybegin line=128 size=9 name=a\r\n", all(&[ArticleTypes::YENC, ArticleTypes::BINARY])),
            (
                "",
                "=ybegin part=1 total=2 line=128 size=9 name=a\r\n",
                all(&[ArticleTypes::YENC, ArticleTypes::BINARY, ArticleTypes::PARTIAL]),
            ),
            ("", "=ybegin is a word\r\n", all(&[ArticleTypes::PLAIN])),
            (
                "",
                "=ypart begin=9 end=99\r\n",
                all(&[ArticleTypes::YENC, ArticleTypes::BINARY, ArticleTypes::PARTIAL]),
            ),
            (
                "Content-Transfer-Encoding: x-uuencode\r\n",
                "begin 644 a\r\n",
                all(&[ArticleTypes::UUENCODE, ArticleTypes::BINARY]),
            ),
            ("", uu.as_str(), all(&[ArticleTypes::UUENCODE, ArticleTypes::BINARY])),
            ("", uu_8.as_str(), all(&[ArticleTypes::PLAIN])),
            ("", base64.as_str(), all(&[ArticleTypes::BASE64, ArticleTypes::BINARY])),
            ("", base64_8.as_str(), all(&[ArticleTypes::PLAIN])),
            ("", binhex.as_str(), all(&[ArticleTypes::BINHEX, ArticleTypes::BINARY])),
            (html, words.as_str(), all(&[ArticleTypes::MIME, ArticleTypes::HTML])),
            (
                multipart,
                "--x\r\nContent-Type: text/html\r\n\r\nHi\r\n",
                all(&[ArticleTypes::MIME, ArticleTypes::MULTIPART, ArticleTypes::HTML]),
            ),
            (
                multipart,
                "--x\r\ncontent-transfer-encoding: BASE64\r\n\r\nAAAA\r\n",
                all(&[
                    ArticleTypes::MIME,
                    ArticleTypes::MULTIPART,
                    ArticleTypes::BASE64,
                    ArticleTypes::BINARY,
                ]),
            ),
            ("Content-Type: message/partial\r\n", "", all(&[ArticleTypes::MIME, ArticleTypes::PARTIAL])),
            ("", "-----BEGIN PGP MESSAGE-----\r\n", all(&[ArticleTypes::PGP])),
        ] {
            assert_eq!(types(head, body), expected, "{head}{body}");
        }
        let quoted: String = uu.lines().map(|line| format!("> {line}\r\n")).collect();
        assert!(types("", &quoted).has(ArticleTypes::UUENCODE));
        let interrupted = uu_8.clone() + "a word\r\n" + &uu_8;
        assert_eq!(types("", &interrupted), ArticleTypes::PLAIN);
    }
}
