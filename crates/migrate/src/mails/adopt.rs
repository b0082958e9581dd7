//! Conversion of a mail, or of news in an older form, to an article.
//!
//! A valid article is kept unchanged. In other texts, header lines are kept, and missing ones are inserted
//! before them; only an invalid Message-ID is renamed. The same text becomes the same article each time, so
//! a second import finds duplicates. Bytes in, values out; called by `cli::import`. Sources: RFC 850, RFC
//! 1036 and RFC 5536 section 3.1; the B News 2.10 manual (`Article-I.D.`, `Posted`, `Title`); RFC 5322.

use md5::{Digest, Md5};
use netnews::article::Headers;
use netnews::nntp::wire;
use netnews::{MessageId, date};
use newspages::content::answered;

/// Longest head examined, in bytes.
const HEAD_BYTES_MAX: usize = 1 << 20;

/// Facts about a text from outside of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConversionHints<'a> {
    /// Arrival in Unix seconds, if known.
    pub arrived: Option<i64>,
    /// Arrival to be used if the text has no usable date either.
    pub file_time: i64,
    /// Groups it goes to: those of its Newsgroups header, if it has one and no others were requested.
    pub groups: &'a [String],
}

impl ConversionHints<'_> {
    /// When a text with this head counts as arrived, Unix seconds.
    pub fn arrival(&self, old: &OldHeaders<'_>) -> i64 {
        self.arrived.or_else(|| old.written()).unwrap_or(self.file_time)
    }
}

/// A converted article.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ConvertedArticle {
    /// Wire format, without the final `.` line.
    pub wire: Vec<u8>,
    /// Arrival in Unix seconds; 0: now.
    pub arrived: u32,
}

/// Header values used here, trimmed; empty if absent.
#[derive(Debug, Default)]
pub struct OldHeaders<'a> {
    /// Value of Newsgroups.
    pub newsgroups: &'a [u8],
    from: &'a [u8],
    path: &'a [u8],
    subject: &'a [u8],
    title: &'a [u8],
    date: &'a [u8],
    injected: &'a [u8],
    posted: &'a [u8],
    received: &'a [u8],
    message_id: &'a [u8],
    article_id: &'a [u8],
    references: &'a [u8],
    in_reply_to: &'a [u8],
}

/// Returns the head of a text, in lines ending in LF or CRLF, and the part after its empty line.
pub fn divide(text: &[u8]) -> (&[u8], &[u8]) {
    // A mail in a maildir may begin with the separator of an mbox, and UUCP left quoted ones.
    let mut text = text;
    while text.starts_with(b"From ") || text.starts_with(b">From ") {
        let Some(lf) = memchr::memchr(b'\n', text) else { break };
        text = text.get(lf + 1..).unwrap_or_default();
    }
    let begun = text.get(..text.len().min(HEAD_BYTES_MAX)).unwrap_or_default();
    if begun.starts_with(b"\n") || begun.starts_with(b"\r\n") {
        return (b"", text);
    }
    let ends = [&b"\n\n"[..], b"\n\r\n"].map(|blank| memchr::memmem::find(begun, blank));
    match ends.into_iter().flatten().min() {
        Some(end) => {
            let (head, rest) = text.split_at(end + 1);
            (head, rest.strip_prefix(b"\r").unwrap_or(rest).strip_prefix(b"\n").unwrap_or(rest))
        }
        None => (text, b""),
    }
}

impl<'a> OldHeaders<'a> {
    /// Parses a head.
    pub fn of(head: &'a [u8]) -> Self {
        let mut old = Self::default();
        for (name, value) in Headers::of(head) {
            let field = match name.to_ascii_lowercase().as_slice() {
                b"newsgroups" => &mut old.newsgroups,
                b"from" => &mut old.from,
                b"path" => &mut old.path,
                b"subject" => &mut old.subject,
                b"title" => &mut old.title,
                b"date" => &mut old.date,
                b"injection-date" => &mut old.injected,
                b"posted" => &mut old.posted,
                b"received" | b"date-received" => &mut old.received,
                b"message-id" => &mut old.message_id,
                b"article-i.d." => &mut old.article_id,
                b"references" => &mut old.references,
                b"in-reply-to" => &mut old.in_reply_to,
                _ => continue,
            };
            if field.is_empty() {
                *field = value.trim_ascii();
            }
        }
        old
    }

    /// Returns when the text was written, or taken by a server, as far as it is stated.
    fn written(&self) -> Option<i64> {
        // In a mail, the time follows the other parts of Received.
        let received = self.received.rsplit(|b| *b == b';').next().unwrap_or_default();
        [self.injected, self.date, self.posted, received].into_iter().find_map(date::parse)
    }

    /// Returns the mail answered by a mail, if only In-Reply-To names it; nothing is added to articles.
    fn answered(&self) -> Option<MessageId<'a>> {
        let is_mail = self.path.is_empty() || self.newsgroups.is_empty();
        (is_mail && self.references.is_empty()).then(|| answered(self.in_reply_to)).flatten()
    }
}

/// Converts a text to an article; returns the reason if that is impossible.
pub fn adopt(text: &[u8], hints: &ConversionHints<'_>) -> Result<ConvertedArticle, &'static str> {
    let a_news = of_a_news(text);
    let text = a_news.as_deref().unwrap_or(text);
    let (head, body) = divide(text);
    if head.is_empty() {
        return Err("no headers");
    }
    if head.starts_with(b" ") || head.starts_with(b"\t") {
        return Err("the first line is a continuation");
    }
    let old = OldHeaders::of(head);
    let arrived = hints.arrival(&old);
    let mut plain = Vec::with_capacity(text.len() + 256);
    let mut add = |name: &str, value: &[u8]| {
        plain.extend_from_slice(name.as_bytes());
        plain.extend_from_slice(b": ");
        plain.extend(value.iter().filter(|b| !matches!(b, b'\r' | b'\n')));
        plain.push(b'\n');
    };
    let id = MessageId::from_header(old.message_id);
    if old.path.is_empty() {
        add("Path", &path_of(old.from));
    }
    if old.from.is_empty() {
        add("From", b"unknown@from.invalid");
    }
    if old.newsgroups.is_empty() {
        if hints.groups.is_empty() {
            return Err("no Newsgroups header, and no --group, --rule or folder that names a group");
        }
        add("Newsgroups", hints.groups.join(",").as_bytes());
    }
    if old.subject.is_empty() {
        add("Subject", if old.title.is_empty() { b"(no subject)" } else { old.title });
    }
    if old.date.is_empty() {
        let mut value = Vec::new();
        date::format_rfc5322(old.written().unwrap_or(arrived), &mut value);
        add("Date", &value);
    }
    if id.is_none() {
        add("Message-ID", made_id(&old, body).as_bytes());
    }
    if let Some(answered) = old.answered() {
        add("References", answered.as_bytes());
    }
    append_head(head, &old, id.is_none(), &mut plain);
    plain.push(b'\n');
    plain.extend_from_slice(body);
    let mut wire = Vec::new();
    wire::dot_stuff(&plain, &mut wire);
    Ok(ConvertedArticle { wire, arrived: u32::try_from(arrived).unwrap_or(0) })
}

/// Appends the header lines, without empty ones that must not be empty; an invalid Message-ID is renamed.
fn append_head(head: &[u8], old: &OldHeaders<'_>, rename: bool, out: &mut Vec<u8>) {
    let mut left_out = false;
    for line in head.split_inclusive(|b| *b == b'\n') {
        // Left by a mailer or by UUCP; not a header.
        if line.starts_with(b"From ") || line.starts_with(b">From ") {
            left_out = true;
            continue;
        }
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            if !left_out {
                out.extend_from_slice(line);
            }
            continue;
        }
        let name = memchr::memchr(b':', line).and_then(|colon| line.get(..colon)).unwrap_or_default();
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        left_out = is("subject") && old.subject.is_empty()
            || is("from") && old.from.is_empty()
            || is("newsgroups") && old.newsgroups.is_empty()
            || is("date") && old.date.is_empty()
            || is("path") && old.path.is_empty()
            || is("references") && old.answered().is_some()
            || is("message-id") && old.message_id.is_empty();
        if left_out {
            continue;
        }
        if rename && is("message-id") {
            out.extend_from_slice(b"X-Original-");
        }
        out.extend_from_slice(line);
    }
    if !out.ends_with(b"\n") {
        out.push(b'\n');
    }
}

/// Returns the Path for an article without one: B News had it in From.
fn path_of(from: &[u8]) -> Vec<u8> {
    let address = from.split(|b| b.is_ascii_whitespace()).next().unwrap_or_default();
    let is_path = address.contains(&b'!')
        && address.iter().all(|b| b.is_ascii_alphanumeric() || b"!-._".contains(b))
        && !address.starts_with(b"!");
    if is_path { address.to_vec() } else { b"not-for-mail".to_vec() }
}

/// Returns a Message-ID for a text without one: from `Article-I.D.: site.number` of B News 2.10, or else
/// from a hash of the text, so that it is the same each time.
fn made_id(old: &OldHeaders<'_>, body: &[u8]) -> String {
    let id = std::str::from_utf8(old.article_id).unwrap_or_default();
    let is_atom = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    if let Some((site, number)) =
        id.rsplit_once('.').filter(|(site, number)| is_atom(site) && is_atom(number))
    {
        return format!("<{number}@{site}.UUCP>");
    }
    let mut hash = Md5::new();
    for part in [old.from, old.date, old.posted, old.subject, old.title, old.message_id, old.article_id] {
        hash.update(part);
        hash.update([0]);
    }
    // Line ends depend on the file, and are ignored.
    for line in body.split(|b| *b == b'\n') {
        hash.update(line.strip_suffix(b"\r").unwrap_or(line));
        hash.update([b'\n']);
    }
    format!("<{}@content.invalid>", disk::hex::digits(&hash.finalize()))
}

/// Converts the form of A News: `A` and an identifier, newsgroups, path, date and title in a line each,
/// then the body.
fn of_a_news(text: &[u8]) -> Option<Vec<u8>> {
    let mut rest = text.strip_prefix(b"A")?;
    let mut lines = [&b""[..]; 5];
    for line in &mut lines {
        let lf = memchr::memchr(b'\n', rest)?;
        *line = rest.get(..lf)?.trim_ascii_end();
        rest = rest.get(lf + 1..)?;
    }
    let [id, groups, path, date, title] = lines;
    let is_id = !id.is_empty() && id.iter().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(b));
    if !is_id || date::parse(date).is_none() || groups.contains(&b':') || !path.contains(&b'!') {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() + 128);
    for (name, value) in [
        ("Path", path),
        ("From", path),
        ("Newsgroups", groups),
        ("Subject", title),
        ("Date", date),
        ("Article-I.D.", id),
    ] {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.push(b'\n');
    }
    out.push(b'\n');
    out.extend_from_slice(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netnews::Article;
    use proptest::prelude::*;

    fn adopted(text: &str, groups: &[&str]) -> (String, u32) {
        let groups: Vec<String> = groups.iter().map(|name| (*name).to_owned()).collect();
        let hints = ConversionHints { arrived: None, file_time: 77, groups: &groups };
        let ConvertedArticle { wire, arrived } = adopt(text.as_bytes(), &hints).unwrap();
        Article::parse(&wire).unwrap().required().unwrap();
        (String::from_utf8(wire).unwrap().replace("\r\n", "\n"), arrived)
    }

    const ARTICLE: &str = "Path: a!b\nFrom: a@b\nNewsgroups: a.b\nSubject: x\nMessage-ID: <1@x>\n\
        Date: Thu, 1 Jan 1970 00:00:09 +0000\n\n.body\n\n\n";

    #[test]
    fn an_article_is_kept_unchanged() {
        let (article, arrived) = adopted(ARTICLE, &["c.d"]);
        assert_eq!((article.replace("\n..", "\n."), arrived), (ARTICLE.to_owned(), 9));
        assert_eq!(adopted(&ARTICLE.replace('\n', "\r\n"), &[]), (article, 9));
    }

    #[test]
    fn a_mail_gets_its_missing_headers() {
        let mail = "From jane Thu Jan  1 00:00:00 1970\nReceived: by x\n\tfor y; Thu, 1 Jan 1970 00:00:05 +0000\n\
            From: jane@x\nSubject:\n\nbody\n";
        let (article, arrived) = adopted(mail, &["lists.dev"]);
        let id = article.lines().find(|line| line.starts_with("Message-ID")).unwrap();
        assert_eq!(
            article.replace(&id[13..45], "ID"),
            "Path: not-for-mail\nNewsgroups: lists.dev\nSubject: (no subject)\nDate: Thu, 1 Jan 1970 00:00:05 +0000\n\
             Message-ID: <ID@content.invalid>\nReceived: by x\n\tfor y; Thu, 1 Jan 1970 00:00:05 +0000\nFrom: jane@x\n\nbody\n"
        );
        assert_eq!(arrived, 5);
        assert_eq!(adopted(&mail.replace("; Thu, 1 Jan", ""), &["lists.dev"]).1, 77);
        // The Message-ID depends on the text, not on its line ends.
        assert!(adopted(&mail.replace('\n', "\r\n"), &["lists.dev"]).0.contains(&id[13..45]));
        assert!(!adopted(&mail.replace("body", "Body"), &["lists.dev"]).0.contains(&id[13..45]));
        assert_eq!(
            adopt(mail.as_bytes(), &ConversionHints::default()).unwrap_err(),
            "no Newsgroups header, and no --group, --rule or folder that names a group"
        );
    }

    #[test]
    fn a_mail_with_in_reply_to_alone_gets_references() {
        let mail = "From: a@b\nSubject: Re: s\nMessage-ID: <2@x>\nReferences:\n\
            In-Reply-To: Your message of \"Fri, 1 Jan\"\n <1@x>\n\nbody\n";
        let (article, _) = adopted(mail, &["a.b"]);
        assert!(article.contains("\nReferences: <1@x>\nFrom: a@b\n"), "{article}");
        assert_eq!(article.matches("References:").count(), 1, "{article}");
        let known = mail.replace("References:", "References: <0@x>");
        assert!(!adopted(&known, &["a.b"]).0.contains("References: <1@x>"));
        let article = ARTICLE.replace("Subject", "In-Reply-To: <1@x>\nSubject");
        assert_eq!(adopted(&article, &[]).0.replace("\n..", "\n."), article, "it is an article");
    }

    #[test]
    fn lines_of_mboxes_among_the_headers_are_left_out() {
        let mail = "From: a@b\n>From - Mon Jan 26 17:20:56 2009\nSubject: s\nFrom c Mon Jan 26 17:20:56 2009\n\
            Message-ID: <1@x>\n\nFrom here\n";
        let (article, _) = adopted(mail, &["a.b"]);
        assert!(article.ends_with("\nFrom: a@b\nSubject: s\nMessage-ID: <1@x>\n\nFrom here\n"), "{article}");
    }

    #[test]
    fn b_news_is_converted() {
        let (article, arrived) = adopted(
            "Relay-Version: version B 2.10 5/3/83; site utzoo.UUCP\nFrom: decvax!ucbvax!jane (Jane Doe)\nNewsgroups: net.general\n\
             Title: hello\nArticle-I.D.: ucbvax.1234\nPosted: Sat May  1 12:00:00 1982\nReceived: Sun May  2 01:00:00 1982\n\nbody\n",
            &[],
        );
        assert!(article.starts_with(
            "Path: decvax!ucbvax!jane\nSubject: hello\nDate: Sat, 1 May 1982 12:00:00 +0000\nMessage-ID: <1234@ucbvax.UUCP>\nRelay-Version:"
        ), "{article}");
        assert_eq!(arrived, 389_102_400);
    }

    #[test]
    fn a_news_is_converted() {
        let (article, arrived) = adopted(
            "Aduke.2042\nnet.general\nutzoo!duke!jane\nSat May  1 12:00:00 1982\nhello\nfirst line\n",
            &[],
        );
        assert!(
            article.contains("\nMessage-ID: <2042@duke.UUCP>\n")
                || article.starts_with("Message-ID: <2042@duke.UUCP>\n")
        );
        assert!(
            article.contains("Newsgroups: net.general\n") && article.ends_with("\n\nfirst line\n"),
            "{article}"
        );
        assert_eq!(arrived, 389_102_400);
    }

    #[test]
    fn an_invalid_message_id_is_renamed() {
        let (article, _) = adopted(&ARTICLE.replace("<1@x>", "<a b@x>"), &[]);
        assert!(article.contains("\nX-Original-Message-ID: <a b@x>\n"), "{article}");
    }

    proptest! {
        #[test]
        fn any_text_becomes_an_article_or_has_a_reason(text in prop::collection::vec(prop::sample::select(vec![
            "From: a@b\n", "Subject:\n", "Subject: x\r\n", "Message-ID: <1@x>\n", "Message-ID: x\n", "\n", "\r\n", " folded\n",
            "In-Reply-To: <0@x>\n", "References:\n", "From x\n", "Title: t\n", "Article-I.D.: a.1\n", "Aa.1\n", "a!b\n", "1 May 1982\n", "Newsgroups: a\n", "x",
        ]), 0..14)) {
            let text = text.concat();
            let groups = ["a.b".to_owned()];
            let hints = ConversionHints { arrived: Some(5), file_time: 0, groups: &groups };
            if let Ok(first) = adopt(text.as_bytes(), &hints) {
                prop_assert!(first.wire.ends_with(b"\r\n"));
                // A converted article is accepted unchanged the next time.
                if Article::parse(&first.wire).is_ok_and(|article| article.required().is_ok()) {
                    let mut plain = Vec::new();
                    wire::to_text(&first.wire, &mut plain);
                    prop_assert_eq!(adopt(&plain, &hints).unwrap(), first);
                }
            }
        }
    }
}
