//! Mails that the server writes itself, in the form that RFC 5322 asks for.
//!
//! Each has From, To, Subject, Date, Message-ID and Auto-Submitted (RFC 3834 section 5), and lines that every
//! mail server takes: text with other characters than those of ASCII, or with long lines, is sent in
//! quoted-printable. Called by `moderation`.

use super::queue::MailKind;
use netnews::transfer::quoted_printable_of;
use netnews::{date, encoded_word};

/// Maximum length of a subject, in bytes before it is encoded.
const SUBJECT_BYTES_MAX: usize = 200;
/// Longest line of a mail, in bytes (RFC 5322 section 2.1.1).
const LINE_BYTES_MAX: usize = 998;

/// A mail to the newsmaster, a poster or a user.
#[derive(Debug, Clone, Copy)]
pub struct OwnMail<'a> {
    /// What it is.
    pub kind: MailKind,
    /// The recipient's address.
    pub to: &'a str,
    /// The subject, in one line.
    pub subject: &'a str,
    /// The text, in lines that end in LF.
    pub text: &'a [u8],
    /// The Message-ID of the article that it is about.
    pub about: Option<&'a str>,
}

impl OwnMail<'_> {
    /// Returns headers and body, in lines that end in CRLF.
    pub(super) fn composed(&self, from: &str, message_id: &str, now: i64) -> Vec<u8> {
        let mut today = Vec::new();
        date::format_rfc5322(now, &mut today);
        let subject = self.subject.get(..self.subject.floor_char_boundary(SUBJECT_BYTES_MAX));
        let subject: String = subject.unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
        let about = self.about.map(|id| format!("In-Reply-To: {id}\r\nReferences: {id}\r\n"));
        let is_plain = self.text.split(|b| *b == b'\n').all(|line| {
            line.len() <= LINE_BYTES_MAX && line.iter().all(|b| (b' '..0x7f).contains(b) || *b == b'\t')
        });
        let (encoding, body) = match is_plain {
            true => ("7bit", with_crlf(self.text)),
            false => ("quoted-printable", quoted_printable_of(self.text)),
        };
        let head = format!(
            "From: {from}\r\nTo: {}\r\nSubject: {}\r\nDate: {}\r\nMessage-ID: {message_id}\r\n{}\
             Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n\
             Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n",
            self.to,
            encoded_word::encode(&subject),
            String::from_utf8_lossy(&today),
            about.unwrap_or_default(),
        );
        [head.as_bytes(), &body].concat()
    }
}

fn with_crlf(text: &[u8]) -> Vec<u8> {
    let mut lines = Vec::with_capacity(text.len() + text.len() / 32);
    for line in text.split_inclusive(|b| *b == b'\n') {
        lines.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        lines.extend_from_slice(b"\r\n");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use netnews::transfer::decoded;

    fn composed(subject: &str, text: &[u8], about: Option<&str>) -> (String, Vec<u8>) {
        let mail = OwnMail { kind: MailKind::Notice, to: "a@b.example", subject, text, about };
        let mail = mail.composed("news@me.example", "<1@me.example>", 1_780_000_000);
        let at = memchr::memmem::find(&mail, b"\r\n\r\n").unwrap();
        (String::from_utf8(mail[..at].to_vec()).unwrap(), mail[at + 4..].to_vec())
    }

    #[test]
    fn mails_have_every_header_that_the_standards_ask_for() {
        let (head, body) = composed("Your post", b"one\n\ntwo\n", Some("<x@y>"));
        assert_eq!(
            head,
            "From: news@me.example\r\nTo: a@b.example\r\nSubject: Your post\r\n\
             Date: Thu, 28 May 2026 20:26:40 +0000\r\nMessage-ID: <1@me.example>\r\n\
             In-Reply-To: <x@y>\r\nReferences: <x@y>\r\nAuto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n\
             Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 7bit"
        );
        assert_eq!(body, b"one\r\n\r\ntwo\r\n");
    }

    #[test]
    fn no_text_has_lines_or_octets_that_a_mail_server_may_refuse() {
        let long = "x".repeat(5_000);
        for text in ["gr\u{fc}n \n=a\t\n", &long, "a\rb\n\0\n", &"\u{e9}".repeat(400)] {
            let (head, body) = composed("Gr\u{fc}\u{df}e\r\nBcc: x", text.as_bytes(), None);
            assert!(
                head.ends_with("quoted-printable") && head.is_ascii() && !head.contains("\nBcc"),
                "{head}"
            );
            assert!(body.is_ascii() && body.split(|b| *b == b'\n').all(|line| line.len() <= 77));
            let read = decoded(b"quoted-printable", &body);
            let read = String::from_utf8(read.into_owned()).unwrap();
            assert_eq!(read.trim_end_matches('\n'), text.trim_end_matches('\n'));
        }
    }
}
