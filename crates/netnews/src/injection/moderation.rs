//! Mail to a moderator: the recipient and the form.
//!
//! The plain form is the proto-article as a mail, which moderators' software expects; the other form
//! encapsulates it whole. Called by newsreel's `moderation`. Sources: RFC 5537 sections 3.5.1 and 4.1, INN's
//! moderators file.

use crate::article::{Article, Known};
use crate::encoded_word;

/// Returns the moderator's address for `group`: in `template`, `%s` becomes the group's name with dashes for
/// dots, `%%` a `%`.
pub fn address(template: &str, group: &str) -> String {
    let mut address = String::with_capacity(template.len() + group.len());
    let mut rest = template;
    while let Some(at) = rest.find('%') {
        let (before, after) = rest.split_at(at);
        address.push_str(before);
        rest = match after.as_bytes().get(1) {
            Some(b's') => {
                address.push_str(&group.replace('.', "-"));
                after.get(2..).unwrap_or_default()
            }
            Some(b'%') => {
                address.push('%');
                after.get(2..).unwrap_or_default()
            }
            _ => {
                address.push('%');
                after.get(1..).unwrap_or_default()
            }
        };
    }
    address.push_str(rest);
    address
}

/// Returns the proto-article as a mail: To before its own headers, without headers that have no meaning in a
/// mail or that would send it elsewhere. CRLF lines, no dot-stuffing.
pub fn plain(article: &Article<'_>, to: &str) -> Vec<u8> {
    const LEFT_OUT: [&[u8]; 4] = [b"To", b"Cc", b"Bcc", b"Path"];
    let mut mail = Vec::with_capacity(article.wire().len() + to.len() + 64);
    header(&mut mail, "To", to.as_bytes());
    for (name, value) in article.headers() {
        let left_out = LEFT_OUT.iter().any(|known| known.eq_ignore_ascii_case(name));
        if left_out || name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case(b"Resent-")) {
            continue;
        }
        mail.extend_from_slice(name);
        mail.extend_from_slice(b": ");
        mail.extend_from_slice(value);
        mail.extend_from_slice(b"\r\n");
    }
    mail.extend_from_slice(b"\r\n");
    append_unstuffed(article.body(), &mut mail);
    mail
}

/// The headers of a mail that encapsulates a proto-article.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    /// The moderator's address.
    pub to: &'a str,
    /// The site's address.
    pub from: &'a str,
    /// The date of the mail (RFC 5322 section 3.3).
    pub date: &'a [u8],
    /// The Message-ID of the mail, which is not that of the article.
    pub message_id: &'a str,
    /// The moderated group.
    pub group: &'a str,
}

/// Returns a mail of type application/news-transmission with the whole proto-article as its body. CRLF lines,
/// no dot-stuffing.
pub fn encapsulated(article: &Article<'_>, envelope: &Envelope<'_>) -> Vec<u8> {
    let mut mail = Vec::with_capacity(article.wire().len() + 512);
    header(&mut mail, "To", envelope.to.as_bytes());
    header(&mut mail, "From", envelope.from.as_bytes());
    let subject = encoded_word::encode(&format!("Submission to {}", envelope.group));
    header(&mut mail, "Subject", subject.as_bytes());
    header(&mut mail, "Date", envelope.date);
    header(&mut mail, "Message-ID", envelope.message_id.as_bytes());
    // No person wrote the mail itself (RFC 3834 section 5).
    header(&mut mail, "Auto-Submitted", b"auto-generated");
    if let Some(reply) = article.header(Known::ReplyTo).or_else(|| article.header(Known::From)) {
        header(&mut mail, "Reply-To", reply);
    }
    header(&mut mail, "MIME-Version", b"1.0");
    header(&mut mail, "Content-Type", b"application/news-transmission; usage=moderate");
    let seven_bit = article.wire().is_ascii();
    header(&mut mail, "Content-Transfer-Encoding", if seven_bit { b"7bit" } else { b"8bit" });
    mail.extend_from_slice(b"\r\n");
    append_unstuffed(article.wire(), &mut mail);
    mail
}

fn header(mail: &mut Vec<u8>, name: &str, value: &[u8]) {
    mail.extend_from_slice(name.as_bytes());
    mail.extend_from_slice(b": ");
    mail.extend_from_slice(value);
    mail.extend_from_slice(b"\r\n");
}

fn append_unstuffed(wire: &[u8], mail: &mut Vec<u8>) {
    for line in wire.split_inclusive(|&b| b == b'\n') {
        mail.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIRE: &[u8] = b"From: a@b\r\nNewsgroups: c.d.e\r\nSubject: s\r\n t\r\nPath: x\r\nTo: evil@x\r\n\
        Resent-To: y\r\n\r\n..dot\r\nbody\r\n";

    #[test]
    fn addresses_from_templates() {
        for (template, expected) in [
            ("%s@moderators.isc.org", "c-d-e@moderators.isc.org"),
            ("mod@x.example", "mod@x.example"),
            ("100%%-%s-%s@x%", "100%-c-d-e-c-d-e@x%"),
            ("%d@x", "%d@x"),
        ] {
            assert_eq!(address(template, "c.d.e"), expected);
        }
    }

    #[test]
    fn the_plain_form_is_the_article_with_a_recipient() {
        let mail = plain(&Article::parse(WIRE).unwrap(), "mod@x");
        assert_eq!(
            String::from_utf8(mail).unwrap(),
            "To: mod@x\r\nFrom: a@b\r\nNewsgroups: c.d.e\r\nSubject: s\r\n t\r\n\r\n.dot\r\nbody\r\n"
        );
    }

    #[test]
    fn encapsulated_form_keeps_the_article_whole() {
        let envelope =
            Envelope { to: "mod@x", from: "news@me", date: b"DATE", message_id: "<1@me>", group: "c.d.e" };
        let mail = encapsulated(&Article::parse(WIRE).unwrap(), &envelope);
        let mail = String::from_utf8(mail).unwrap();
        let (head, body) = mail.split_once("\r\n\r\n").unwrap();
        assert_eq!(
            head,
            "To: mod@x\r\nFrom: news@me\r\nSubject: Submission to c.d.e\r\nDate: DATE\r\n\
             Message-ID: <1@me>\r\nAuto-Submitted: auto-generated\r\nReply-To: a@b\r\n\
                MIME-Version: 1.0\r\n\
             Content-Type: application/news-transmission; usage=moderate\r\nContent-Transfer-Encoding: 7bit"
        );
        assert_eq!(body, std::str::from_utf8(WIRE).unwrap().replace("..dot", ".dot"));
    }
}
