//! Content of an article: its text in blocks, and the files it offers.
//!
//! Files are numbered from 1 in the order of the article, regardless of what is shown, so that the number is
//! a permanent name. Called by `view` and the web server.

use std::borrow::Cow;

use netnews::message_id::MESSAGE_ID_BYTES_MAX;
use netnews::nntp::wire;
use netnews::{Article, Known, MessageId, date};

use crate::flowed::{self, QuotedLine};
use crate::mime::{self, MimeLeaf};
use crate::{charset, embedded, header, html, links, names, work};

/// Maximum size of a body that is examined, in bytes; the rest is available as raw source.
const BODY_BYTES_MAX: usize = 32 << 20;
/// Maximum number of groups and references that are shown.
const NAMES_MAX: usize = 100;
/// Maximum amount of text that is shown by default, in bytes.
pub const SHOWN_BYTES: usize = 128 << 10;
/// Maximum amount of text that is shown if all of it is requested, in bytes.
pub const SHOWN_BYTES_MAX: usize = 4 << 20;
/// Least number of bytes that a line counts as: an empty one costs memory and markup, too.
const LINE_BYTES_MIN: usize = 32;
/// Maximum number of lines that a follow-up quotes.
const QUOTED_LINES_MAX: usize = 500;
/// Quotations with more lines than this are folded.
pub const QUOTED_LINES_OPEN: usize = 12;

/// Types of pictures that can be shown.
const IMAGE_TYPES: [&str; 5] = ["image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"];
/// Suffixes of their files.
const IMAGE_SUFFIXES: [&str; 5] = [".png", ".jpg", ".jpeg", ".gif", ".webp"];
/// Lines that begin a signed text, its signature, and the text after it.
const SIGNED_BEGIN: &str = "-----BEGIN PGP SIGNED MESSAGE-----";
const SIGNATURE_BEGIN: &str = "-----BEGIN PGP SIGNATURE-----";
const SIGNATURE_END: &str = "-----END PGP SIGNATURE-----";

/// An article as it can be shown.
#[derive(Debug, Default)]
pub struct ArticleContent {
    /// Headers that are relevant to a reader.
    pub head: ShownHeaders,
    /// The text, in order.
    pub blocks: Vec<TextBlock>,
    /// The files, in order.
    pub files: Vec<AttachedFile>,
    /// Kind of signature over the article, which is not checked here.
    pub signed: Option<SignatureKind>,
    /// True if there is more text than was requested.
    pub is_cut: bool,
    /// True if part of the article exceeds the limits and was not examined.
    pub is_incomplete: bool,
}

/// Kind of a digital signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureKind {
    /// OpenPGP, in a part of its own (RFC 3156) or around the text (RFC 9580 section 7).
    OpenPgp,
    /// S/MIME (RFC 8551).
    Smime,
}

impl SignatureKind {
    /// Returns the kind of a signature with this media type.
    fn of_type(media_type: &str) -> Option<Self> {
        match media_type {
            "application/pgp-signature" => Some(Self::OpenPgp),
            "application/pkcs7-signature" | "application/x-pkcs7-signature" => Some(Self::Smime),
            _ => None,
        }
    }

    /// Returns its description for readers.
    pub fn words(self) -> &'static str {
        match self {
            Self::OpenPgp => "with OpenPGP, which is not checked here",
            Self::Smime => "with S/MIME, which is not checked here",
        }
    }
}

/// Headers as text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ShownHeaders {
    /// Subject.
    pub subject: String,
    /// From.
    pub from: String,
    /// Date in Unix seconds.
    pub date: Option<i64>,
    /// Date as written in the article.
    pub date_text: String,
    /// Message-ID, if it is valid.
    pub message_id: Option<String>,
    /// Newsgroups.
    pub groups: Vec<String>,
    /// Followup-To: groups, or `poster`.
    pub followup_to: Vec<String>,
    /// References, the oldest first.
    pub references: Vec<String>,
    /// Organization.
    pub organization: String,
}

/// A piece of the text.
#[derive(Debug, PartialEq, Eq)]
pub enum TextBlock {
    /// Lines of the author.
    Text(Vec<String>),
    /// Quoted lines, with the depth of quotation.
    Quote(Vec<QuotedLine>),
    /// Lines after `-- `.
    Signature(Vec<String>),
    /// Lines of an OpenPGP signature.
    Armour(Vec<String>),
    /// Position of a file: its index in [`ArticleContent::files`].
    File(usize),
    /// Beginning of a message within the message: From, Subject and Date.
    Message([String; 3]),
    /// Notice that the following text was HTML.
    FromHtml,
}

/// A file in an article.
#[derive(Debug, PartialEq, Eq)]
pub struct AttachedFile {
    /// A safe name.
    pub name: String,
    /// Type as declared, or encoding of a file in the text.
    pub kind: String,
    /// Approximate size in bytes.
    pub bytes: usize,
    /// Part number of a split file, and number of parts (0: unknown).
    pub part: Option<(u32, u32)>,
}

impl AttachedFile {
    /// Returns whether this may be a picture that browsers show, by its type, or by its name if it is in
    /// text.
    pub fn may_be_image(&self) -> bool {
        let is_named = |suffix: &&str| {
            let name = self.name.as_bytes();
            name.len()
                .checked_sub(suffix.len())
                .and_then(|at| name.get(at..))
                .is_some_and(|end| end.eq_ignore_ascii_case(suffix.as_bytes()))
        };
        let is_whole = self.part.is_none_or(|(_, total)| total <= 1);
        let is_in_text = matches!(self.kind.as_str(), "yEnc" | "uuencode" | "application/octet-stream");
        is_whole
            && (IMAGE_TYPES.contains(&self.kind.as_str())
                || is_in_text && IMAGE_SUFFIXES.iter().any(is_named))
    }
}

/// Returns the media type of octets that begin like a picture which browsers show; SVG is none, as it may
/// contain scripts.
pub fn image_type(octets: &[u8]) -> Option<&'static str> {
    let begins = |magic: &[u8]| octets.starts_with(magic);
    if begins(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if begins(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if begins(b"GIF87a") || begins(b"GIF89a") {
        Some("image/gif")
    } else if begins(b"RIFF") && octets.get(8..12) == Some(b"WEBP") {
        Some("image/webp")
    } else {
        None
    }
}

/// Position of a file.
enum FilePosition<'a> {
    Leaf(&'a MimeLeaf<'a>),
    Text(Vec<u8>, embedded::EmbeddedEncoding),
}

/// How the text of a part is written.
#[derive(Debug, Clone, Copy, Default)]
struct TextForm<'a> {
    /// Declared charset.
    charset: Option<&'a str>,
    /// DelSp of `format=flowed`; `None`: its lines are fixed.
    delsp: Option<bool>,
}

impl ArticleContent {
    /// Extracts the content of an article (wire format, without the final `.` line); at most about
    /// `shown_bytes_max` of its text.
    pub fn of(article: &[u8], shown_bytes_max: usize) -> Self {
        let (head, body, is_whole) = divided(article);
        let leaves = mime::leaves(head, &body);
        let mut content = Self {
            head: ShownHeaders::of(head),
            is_incomplete: leaves.is_cut || !is_whole,
            ..Self::default()
        };
        let mut left = shown_bytes_max;
        for leaf in &leaves.all {
            content.leaf(leaf, &mut left);
        }
        content
    }

    /// Returns the name and the octets of a file, with a flag for damage; `number` counts from 1.
    pub fn file(article: &[u8], number: usize) -> Option<(String, embedded::DecodedFile)> {
        let (head, body, _) = divided(article);
        let leaves = mime::leaves(head, &body);
        let mut content = Self::default();
        let mut place = None;
        for leaf in &leaves.all {
            let before = content.files.len();
            let mut found = content.files_of(leaf);
            if number > before && number <= content.files.len() {
                place = Some(found.swap_remove(number - before - 1));
                break;
            }
        }
        let name = content.files.get(number.checked_sub(1)?)?.name.clone();
        Some((name, place?.decoded()))
    }

    /// Adds the files of a leaf; returns their positions.
    fn files_of<'a>(&mut self, leaf: &'a MimeLeaf<'a>) -> Vec<FilePosition<'a>> {
        if leaf.media_type == "message/rfc822" && leaf.is_shown {
            return Vec::new();
        }
        if !leaf.is_shown {
            self.files.push(self.attached(leaf));
            return vec![FilePosition::Leaf(leaf)];
        }
        if leaf.media_type == "text/html" {
            return Vec::new();
        }
        let octets = leaf.octets(BODY_BYTES_MAX);
        let mut places = Vec::new();
        for file in embedded::find(&octets) {
            let text = octets.get(file.range.clone()).unwrap_or_default().to_vec();
            self.files.push(self.within_text(&file, text.len()));
            places.push(FilePosition::Text(text, file.encoding));
        }
        places
    }

    fn attached(&self, leaf: &MimeLeaf<'_>) -> AttachedFile {
        let fallback = format!("file-{}{}", self.files.len() + 1, suffix(&leaf.media_type));
        let factor = match leaf.transfer {
            mime::TransferEncoding::Base64 | mime::TransferEncoding::Embedded => 3,
            mime::TransferEncoding::Plain | mime::TransferEncoding::QuotedPrintable => 4,
        };
        let inner_name = || match leaf.transfer {
            mime::TransferEncoding::Embedded => {
                embedded::find(leaf.body).into_iter().next().map(|file| file.name)
            }
            _ => None,
        };
        let name = leaf.name.clone().or_else(inner_name);
        AttachedFile {
            name: names::safe(name.as_deref().unwrap_or_default(), &fallback),
            kind: leaf.media_type.clone(),
            bytes: leaf.body.len() / 4 * factor,
            part: None,
        }
    }

    fn within_text(&self, file: &embedded::EmbeddedFile, text_bytes: usize) -> AttachedFile {
        let fallback = format!("file-{}.bin", self.files.len() + 1);
        let (kind, bytes) = match file.encoding {
            embedded::EmbeddedEncoding::Yenc => ("yEnc", text_bytes),
            embedded::EmbeddedEncoding::Uuencode => ("uuencode", text_bytes / 4 * 3),
        };
        AttachedFile {
            name: names::safe(&file.name, &fallback),
            kind: kind.to_owned(),
            bytes,
            part: file.part,
        }
    }

    fn leaf(&mut self, leaf: &MimeLeaf<'_>, left: &mut usize) {
        if leaf.media_type == "message/rfc822" && leaf.is_shown {
            let get = |name: &[u8]| mime::inner_header(leaf, name).unwrap_or_default();
            self.blocks.push(TextBlock::Message([get(b"From"), get(b"Subject"), get(b"Date")]));
            return;
        }
        if !leaf.is_shown {
            self.signed = self.signed.or(SignatureKind::of_type(&leaf.media_type));
            self.blocks.push(TextBlock::File(self.files.len()));
            self.files.push(self.attached(leaf));
            self.appended(leaf, left);
            return;
        }
        let octets = leaf.octets(BODY_BYTES_MAX);
        if leaf.media_type == "text/html" {
            self.blocks.push(TextBlock::FromHtml);
            let octets = octets.get(..octets.len().min(SHOWN_BYTES_MAX)).unwrap_or_default();
            let text = html::to_text(&charset::decode(leaf.charset.as_deref(), octets));
            self.lines(flowed::fixed(&text), left, true);
            self.appended(leaf, left);
            return;
        }
        let form = TextForm { charset: leaf.charset.as_deref(), delsp: leaf.flowed };
        let mut start = 0;
        for file in embedded::find(&octets) {
            self.text(form, octets.get(start..file.range.start).unwrap_or_default(), left, false);
            self.blocks.push(TextBlock::File(self.files.len()));
            self.files.push(self.within_text(&file, file.range.len()));
            start = file.range.end;
        }
        self.text(form, octets.get(start..).unwrap_or_default(), left, true);
        self.appended(leaf, left);
    }

    /// Adds text after the end of an encoded part.
    fn appended(&mut self, leaf: &MimeLeaf<'_>, left: &mut usize) {
        self.text(TextForm::default(), leaf.appended(), left, true);
    }

    /// Adds text.
    fn text(&mut self, form: TextForm<'_>, octets: &[u8], left: &mut usize, is_last: bool) {
        let shown = octets.get(..octets.len().min(*left)).unwrap_or_default();
        self.is_cut |= shown.len() < octets.len();
        let mut text = charset::decode(form.charset, shown);
        if shown.len() < octets.len() {
            text.truncate(links::whole_links(&text, text.len().saturating_sub(1)));
        }
        match form.delsp {
            Some(delsp) => self.lines(flowed::flowed(&text, delsp), left, is_last),
            None => self.lines(flowed::fixed(&text), left, is_last),
        }
    }

    /// Adds lines in blocks: quotations, the author's own, the signature.
    fn lines(&mut self, lines: impl Iterator<Item = QuotedLine>, left: &mut usize, may_be_signed: bool) {
        let mut kept = Vec::new();
        for mut line in lines {
            let bytes = (line.text.len() + 1).max(LINE_BYTES_MIN);
            if *left < bytes {
                // The limit is reached: neither the rest of this text nor later text is shown.
                line.text.truncate(links::whole_links(&line.text, left.saturating_sub(1)));
                if *left >= LINE_BYTES_MIN && !line.text.is_empty() {
                    kept.push(line);
                }
                (self.is_cut, *left) = (true, 0);
                break;
            }
            *left -= bytes;
            kept.push(line);
        }
        let mark = kept.iter().rposition(|line| may_be_signed && line.depth == 0 && line.text == "-- ");
        let mut fresh = Vec::new();
        let mut is_armour = false;
        for (at, line) in kept.into_iter().enumerate() {
            let is_armoured = is_armour;
            if line.depth == 0 && line.text.starts_with("-----") {
                let text = line.text.trim_end();
                self.signed = self.signed.or((text == SIGNED_BEGIN).then_some(SignatureKind::OpenPgp));
                is_armour = text == SIGNATURE_BEGIN || is_armour && text != SIGNATURE_END;
            }
            match (fresh.last_mut(), mark) {
                (Some(TextBlock::Armour(lines)), _) if is_armour || is_armoured => lines.push(line.text),
                (_, _) if is_armour => fresh.push(TextBlock::Armour(vec![line.text])),
                (_, Some(mark)) if at == mark => fresh.push(TextBlock::Signature(Vec::new())),
                (Some(TextBlock::Signature(lines)), _) => lines.push(line.text),
                (Some(TextBlock::Quote(lines)), _) if line.depth > 0 => lines.push(line),
                (_, _) if line.depth > 0 => fresh.push(TextBlock::Quote(vec![line])),
                (Some(TextBlock::Text(lines)), _) => lines.push(line.text),
                _ => fresh.push(TextBlock::Text(vec![line.text])),
            }
        }
        let is_empty = |block: &TextBlock| matches!(block, TextBlock::Text(lines) if lines.iter().all(|l| l.trim().is_empty()));
        self.blocks.extend(fresh.into_iter().filter(|block| !is_empty(block)));
    }
}

impl FilePosition<'_> {
    fn decoded(&self) -> embedded::DecodedFile {
        match self {
            Self::Leaf(leaf) => {
                let (octets, is_whole) = leaf.decoded(BODY_BYTES_MAX);
                embedded::DecodedFile { octets: octets.into_owned(), is_whole }
            }
            Self::Text(text, encoding) => embedded::decode(text, *encoding, BODY_BYTES_MAX),
        }
    }
}

impl ShownHeaders {
    fn of(head: &[u8]) -> Self {
        let get = |name: &[u8]| mime::content(head, name);
        let text = |name: &[u8]| get(name).map(header::text).unwrap_or_default();
        let list = |name: &[u8]| -> Vec<String> {
            let names = text(name);
            names
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .take(NAMES_MAX)
                .map(str::to_owned)
                .collect()
        };
        let id = get(Known::MessageId.name().as_bytes()).and_then(MessageId::from_header);
        Self {
            subject: text(b"Subject"),
            from: text(b"From"),
            date: get(b"Date").and_then(date::parse),
            date_text: text(b"Date"),
            message_id: id.map(|id| id.as_str().to_owned()),
            groups: list(b"Newsgroups"),
            followup_to: list(b"Followup-To"),
            references: ancestors(
                get(b"References").unwrap_or_default(),
                get(b"In-Reply-To").unwrap_or_default(),
            ),
            organization: text(b"Organization"),
        }
    }
}

/// Returns the beginning of a follow-up: attribution and quotation, without the signature.
pub fn quoted(content: &ArticleContent) -> String {
    let head = &content.head;
    let when = head.date.map_or_else(|| head.date_text.clone(), crate::feed::rfc3339);
    let mut out = format!("On {when}, {} wrote:\n", header::author(&head.from));
    let mut lines = 0;
    let mut quote = |depth: usize, text: &str| {
        lines += 1;
        if lines <= QUOTED_LINES_MAX {
            out.push_str(&">".repeat(depth + 1));
            if !text.is_empty() {
                out.push(' ');
                out.push_str(text);
            }
            out.push('\n');
        }
    };
    for block in &content.blocks {
        match block {
            TextBlock::Text(lines) => lines.iter().for_each(|line| quote(0, line)),
            TextBlock::Quote(lines) => lines.iter().for_each(|line| quote(line.depth, &line.text)),
            _ => {}
        }
    }
    out.push('\n');
    out
}

/// Returns the ancestors named in the headers of an article, the oldest first. A reply with In-Reply-To only
/// answers the first article there.
fn ancestors(references_value: &[u8], in_reply_to: &[u8]) -> Vec<String> {
    let ids = references(references_value);
    if !ids.is_empty() {
        return ids;
    }
    work::take(in_reply_to.len());
    in_reply_to.split_inclusive(|b| *b == b'>').find_map(named_id).map(id_text).into_iter().collect()
}

fn id_text(id: &[u8]) -> String {
    String::from_utf8_lossy(id).into_owned()
}

/// Returns the article that is answered, by the value of In-Reply-To: the first Message-ID there, since
/// mailers surround it with words and addresses.
pub fn answered(in_reply_to: &[u8]) -> Option<MessageId<'_>> {
    work::take(in_reply_to.len());
    in_reply_to.split_inclusive(|b| *b == b'>').filter_map(named_id).find_map(MessageId::parse)
}

/// Returns the Message-ID at the end of these words: from `<` on, with commas that are part of it, and blanks
/// if it begins with a quoted string (RFC 5322 section 3.6.4), as in mails.
fn named_id(words: &[u8]) -> Option<&[u8]> {
    let tail = words.get(words.len().saturating_sub(MESSAGE_ID_BYTES_MAX)..)?;
    let from = |at: usize| tail.get(at..);
    if let Some(id) = memchr::memmem::rfind(tail, b"<\"").and_then(from).filter(|id| has_quoted_name(id)) {
        return Some(id);
    }
    let word = tail.iter().rposition(u8::is_ascii_whitespace).map_or(0, |blank| blank + 1);
    let first = from(word)?.iter().position(|b| *b == b'<').and_then(|at| from(word + at));
    let last = || tail.iter().rposition(|b| *b == b'<').and_then(from);
    first.into_iter().chain(last()).find(|id| MessageId::parse(id).is_some())
}

/// Returns whether this is `<"...">` or `<"..."@...>`, the quoted string without line ends.
fn has_quoted_name(id: &[u8]) -> bool {
    let Some(inner) = id.strip_prefix(b"<\"").and_then(|rest| rest.strip_suffix(b">")) else { return false };
    let Some(close) = inner.iter().rposition(|b| *b == b'"') else { return false };
    let (name, rest) = inner.split_at(close);
    name.iter().all(|b| matches!(b, b' '..=b'~'))
        && rest.iter().all(u8::is_ascii_graphic)
        && matches!(rest, [b'"'] | [b'"', b'@', _, ..])
}

/// Returns the Message-IDs in the value of References, the oldest first; if there are too many, the first,
/// which a follow-up may not drop (RFC 5537 section 3.4.4), and the last ones.
pub fn references(value: &[u8]) -> Vec<String> {
    work::take(value.len());
    let mut ids: Vec<&[u8]> = value.split_inclusive(|b| *b == b'>').filter_map(named_id).collect();
    if ids.len() > NAMES_MAX {
        ids.drain(1..=ids.len() - NAMES_MAX);
    }
    ids.into_iter().map(id_text).collect()
}

/// Returns header lines and body without dot-stuffing, and whether the body is complete.
fn divided(article: &[u8]) -> (&[u8], Cow<'_, [u8]>, bool) {
    let (head, body) = match Article::parse(article) {
        Ok(parsed) => (parsed.head(), parsed.body()),
        // An invalid article is shown as far as possible.
        Err(_) => match memchr::memmem::find(article, b"\r\n\r\n") {
            Some(at) => article.split_at(at + 2),
            None => (article, &b""[..]),
        },
    };
    let is_whole = body.len() <= BODY_BYTES_MAX;
    let body = body.get(..body.len().min(BODY_BYTES_MAX)).unwrap_or_default();
    work::take(article.len());
    if body.starts_with(b".") || memchr::memmem::find(body, b"\n.").is_some() {
        let mut plain = Vec::new();
        wire::unstuff(body, &mut plain);
        return (head, Cow::Owned(plain), is_whole);
    }
    (head, Cow::Borrowed(body), is_whole)
}

/// Returns the usual suffix of file names of this type.
fn suffix(media_type: &str) -> &'static str {
    match media_type {
        "text/plain" => ".txt",
        "text/html" => ".html.txt",
        "image/jpeg" => ".jpg",
        "image/png" => ".png",
        "image/gif" => ".gif",
        "application/pdf" => ".pdf",
        "application/pgp-signature" => ".asc",
        "message/rfc822" => ".eml",
        _ => ".bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(text: &str) -> ArticleContent {
        ArticleContent::of(text.replace('\n', "\r\n").as_bytes(), SHOWN_BYTES)
    }

    #[test]
    fn a_text_without_line_ends_is_shown_up_to_the_limit() {
        let shown = |head: &str, body: &str| {
            let content = ArticleContent::of(format!("{head}\r\n\r\n{body}").as_bytes(), SHOWN_BYTES);
            assert!(content.is_cut, "{head}");
            let lines = content.blocks.iter().filter_map(|block| match block {
                TextBlock::Text(lines) => Some(lines.concat()),
                _ => None,
            });
            lines.collect::<String>()
        };
        let latin = "Content-Type: text/plain; charset=koi8-r";
        let flowed = "Content-Type: text/plain; format=flowed";
        for head in ["Subject: x", "Content-Type: text/html", flowed, latin] {
            for token in ["http://a ", "word \u{e9} ", "a", "\u{20ac}", "<1@a.b> ", "x>http://a/"] {
                let text = shown(head, &token.repeat(400_000 / token.len()));
                assert!(text.len() > SHOWN_BYTES - 4096 && text.len() <= SHOWN_BYTES, "{head}: {token}");
                if token == "http://a " {
                    assert!(text.ends_with("http://a"), "{head}");
                }
            }
            let text = shown(head, &format!("short\r\n{}", "http://a ".repeat(100_000)));
            assert!(text.starts_with("short") && text.len() > SHOWN_BYTES - 4096, "{head}");
        }
    }

    #[test]
    fn text_comes_in_blocks() {
        let content = content(
            "From: =?utf-8?Q?J=C3=BCrgen?= <j@x.de>\nSubject: =?utf-8?B?R3LDvMOfZQ==?=\nNewsgroups: a.b, c.d\n\
             Message-ID: <1@x>\nReferences: <0@x>\n  bad <00@x>\nDate: Thu, 1 Jan 1970 00:00:09 +0000\n\n\
             On Friday she wrote:\n> one\n>> two\n\n..dots\n-- \nJ.\n",
        );
        assert_eq!(content.head.subject, "Gr\u{fc}\u{df}e");
        assert_eq!(header::author(&content.head.from), "J\u{fc}rgen");
        assert_eq!(content.head.references, ["<0@x>", "<00@x>"]);
        assert_eq!((content.head.groups.len(), content.head.date), (2, Some(9)));
        let line = |depth, text: &str| QuotedLine { depth, text: text.to_owned() };
        assert_eq!(
            content.blocks,
            [
                TextBlock::Text(vec!["On Friday she wrote:".into()]),
                TextBlock::Quote(vec![line(1, "one"), line(2, "two")]),
                TextBlock::Text(vec![String::new(), ".dots".into()]),
                TextBlock::Signature(vec!["J.".into()]),
            ]
        );
    }

    #[test]
    fn in_reply_to_alone_names_the_answered_article() {
        for (head, expected) in [
            ("In-Reply-To: <1@x>\n", &["<1@x>"][..]),
            ("In-Reply-To: Your message of \"Fri, 1 Jan\"\n <1@x> <2@x>\n", &["<1@x>"]),
            ("In-Reply-To: a < b <c d@x> <1@x> from J\n", &["<1@x>"]),
            ("In-Reply-To: your letter <\n", &[]),
            ("References: <0@x>\nIn-Reply-To: <1@x>\n", &["<0@x>"]),
            ("In-Reply-To: <a,b@x>\n", &["<a,b@x>"]),
            ("In-Reply-To: \"Doe, J.\" <\"a, b\"@x> (x)\n", &["<\"a, b\"@x>"]),
        ] {
            assert_eq!(content(&format!("{head}\nx\n")).head.references, expected, "{head}");
        }
    }

    #[test]
    fn of_too_many_references_the_first_is_kept_with_the_last() {
        let value: String = (0..150).map(|n| format!("<{n}@x> ")).collect();
        let ids = references(value.as_bytes());
        assert_eq!(ids.len(), NAMES_MAX);
        assert_eq!(
            (ids[0].as_str(), ids[1].as_str(), ids[NAMES_MAX - 1].as_str()),
            ("<0@x>", "<51@x>", "<149@x>")
        );
    }

    #[test]
    fn references_are_told_apart_whatever_is_in_them() {
        for (value, expected) in [
            ("<1@x> <2@x>", &["<1@x>", "<2@x>"][..]),
            ("<1@x>,<2@x>, <3@x>", &["<1@x>", "<2@x>", "<3@x>"]),
            ("<1@x><2@x>", &["<1@x>", "<2@x>"]),
            ("<a,b@x> <,@x>", &["<a,b@x>", "<,@x>"]),
            ("<\"a,b\"@x> <\"a b\"@x>", &["<\"a,b\"@x>", "<\"a b\"@x>"]),
            ("\"a, b\" <1@x> text <<2@x> x<3@x>", &["<1@x>", "<<2@x>", "<3@x>"]),
            ("<a b@x> <\" <1@x> <\"a\"b c@x>", &["<1@x>"]),
            ("<1@x", &[]),
            ("> >", &[]),
        ] {
            assert_eq!(references(value.as_bytes()), expected, "{value}");
        }
        let page = crate::view::article(
            &content("Message-ID: <2@x>\nReferences: <\"a,b\"@x>\n\nx\n"),
            &crate::view::ArticlePage::default(),
        );
        assert!(page.into_string().contains("In reply to"));
    }

    #[test]
    fn text_after_base64_is_shown_as_text() {
        let footer = "_______\nlist mailing list\n";
        let text = content(&format!(
            "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\nR3LDvMOfZQo=\n{footer}"
        ));
        let lines = |lines: &[&str]| TextBlock::Text(lines.iter().map(|line| (*line).to_owned()).collect());
        assert_eq!(text.blocks, [lines(&["Gr\u{fc}\u{df}e"]), lines(&["_______", "list mailing list"])]);
        let wide = content(&format!(
            "Content-Type: text/plain; charset=utf-16le\nContent-Transfer-Encoding: base64\n\nYQBiAA==\n{footer}"
        ));
        assert_eq!(wide.blocks, [lines(&["ab"]), lines(&["_______", "list mailing list"])]);
        let html = content(&format!(
            "Content-Type: text/html\nContent-Transfer-Encoding: base64\n\nPGI+eDwvYj4=\n{footer}"
        ));
        assert_eq!(html.blocks[1..], [lines(&["x"]), lines(&["_______", "list mailing list"])]);
        let file = format!(
            "Content-Type: image/gif; name=a.gif\nContent-Transfer-Encoding: base64\n\nZm91\n{footer}"
        );
        assert_eq!(content(&file).blocks[1..], [lines(&["_______", "list mailing list"])]);
        let (_, file) = ArticleContent::file(file.replace('\n', "\r\n").as_bytes(), 1).unwrap();
        assert_eq!(file.octets, b"fou");
    }

    #[test]
    fn name_of_uuencoded_part_is_that_in_its_begin_line() {
        let text = "Content-Type: image/gif\nContent-Transfer-Encoding: x-uuencode\n\nbegin 644 a.gif\n#9F]U\n`\nend\n";
        assert_eq!(content(text).files[0].name, "a.gif");
        let (name, file) = ArticleContent::file(text.replace('\n', "\r\n").as_bytes(), 1).unwrap();
        assert_eq!((name.as_str(), file.octets.as_slice(), file.is_whole), ("a.gif", &b"fou"[..], true));
    }

    #[test]
    fn blank_plain_alternative_is_replaced_by_html() {
        let content = content(
            "Content-Type: multipart/alternative; boundary=b\n\n--b\n\n\n--b\nContent-Type: text/html\n\n<p>Hello</p>\n--b--\n",
        );
        assert_eq!(content.blocks[1..], [TextBlock::FromHtml, TextBlock::Text(vec!["Hello".into()])]);
    }

    #[test]
    fn follow_up_quotes_text_without_signature() {
        let content =
            content("From: Jane <j@x>\nDate: Thu, 1 Jan 1970 00:00:09 +0000\n\none\n\n> two\n-- \nsig\n");
        assert_eq!(quoted(&content), "On 1970-01-01T00:00:09Z, Jane wrote:\n> one\n>\n>> two\n\n");
    }

    #[test]
    fn files_keep_their_numbers_and_have_safe_names() {
        let text = "Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nsee\nbegin 644 ../../x.gif\n#9F]U\n`\nend\nthat\n\
            --b\nContent-Type: application/octet-stream; name=\"a/../../b.exe\"\nContent-Transfer-Encoding: base64\n\naGFsbG8=\n--b--\n";
        let shown = content(text);
        let names: Vec<&str> = shown.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["x.gif", "b.exe"]);
        assert!(shown.blocks.contains(&TextBlock::File(0)) && shown.blocks.contains(&TextBlock::File(1)));
        let wire = text.replace('\n', "\r\n");
        let (name, file) = ArticleContent::file(wire.as_bytes(), 1).unwrap();
        assert_eq!((name.as_str(), file.octets.as_slice(), file.is_whole), ("x.gif", &b"fou"[..], true));
        let (name, file) = ArticleContent::file(wire.as_bytes(), 2).unwrap();
        assert_eq!((name.as_str(), file.octets.as_slice()), ("b.exe", &b"hallo"[..]));
        assert!(
            ArticleContent::file(wire.as_bytes(), 0).is_none()
                && ArticleContent::file(wire.as_bytes(), 3).is_none()
        );
    }

    #[test]
    fn shown_text_is_limited() {
        let text = format!("Subject: x\r\n\r\n{}", "0123456789\r\n".repeat(1_000));
        let part = ArticleContent::of(text.as_bytes(), 1_000);
        let [TextBlock::Text(lines)] = part.blocks.as_slice() else { panic!("{:?}", part.blocks) };
        assert!(part.is_cut && lines.len() <= 100);
        assert!(!ArticleContent::of(text.as_bytes(), 100_000).is_cut);
    }

    #[test]
    fn signed_articles_are_marked_and_their_signature_is_apart() {
        let inline = content(
            "Subject: x\n\n-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nhello\n\
             -----BEGIN PGP SIGNATURE-----\n\nabc\n-----END PGP SIGNATURE-----\nlater\n",
        );
        assert_eq!(inline.signed, Some(SignatureKind::OpenPgp));
        let [TextBlock::Text(before), TextBlock::Armour(armour), TextBlock::Text(after)] = &*inline.blocks
        else {
            panic!("{:?}", inline.blocks)
        };
        assert_eq!((before.len(), armour.len(), after.as_slice()), (4, 4, &["later".to_owned()][..]));
        let apart = content(
            "Content-Type: multipart/signed; boundary=b\n\n--b\n\nx\n--b\n\
             Content-Type: application/pgp-signature; name=s.asc\n\nabc\n--b--\n",
        );
        assert_eq!(apart.signed, Some(SignatureKind::OpenPgp));
        assert_eq!(content("Subject: x\n\nhello\n").signed, None);
        // A signature that never ends does not fold more than the rest.
        let open = content("Subject: x\n\nx\n-----BEGIN PGP SIGNATURE-----\ny\n");
        assert_eq!(open.blocks.len(), 2);
    }

    #[test]
    fn pictures_are_recognised_by_their_octets() {
        for (octets, expected) in [
            (&b"\x89PNG\r\n\x1a\nx"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\0\0\0\0WEBPx", Some("image/webp")),
            (b"<svg xmlns='http://www.w3.org/2000/svg'>", None),
            (b"<html>", None),
            (b"RIFF", None),
            (b"", None),
        ] {
            assert_eq!(image_type(octets), expected, "{octets:?}");
        }
        let file = |kind: &str, name: &str| AttachedFile {
            name: name.into(),
            kind: kind.into(),
            bytes: 1,
            part: None,
        };
        assert!(file("image/png", "x").may_be_image() && file("yEnc", "x.JPG").may_be_image());
        assert!(!file("image/svg+xml", "x.svg").may_be_image() && !file("text/html", "x.png").may_be_image());
        let part = AttachedFile { part: Some((1, 2)), ..file("yEnc", "x.jpg") };
        assert!(!part.may_be_image());
    }

    #[test]
    fn html_is_shown_as_text() {
        let content =
            content("Subject: x\nContent-Type: text/html\n\n<b>bold</b><script>alert(1)</script>&lt;i&gt;\n");
        assert_eq!(content.blocks, [TextBlock::FromHtml, TextBlock::Text(vec!["bold<i>".into()])]);
    }
}
