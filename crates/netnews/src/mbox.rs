//! Files of several mails: mbox, written in the form mboxrd and read in all its forms.
//!
//! A mail begins with a line `From SENDER DATE` followed by header lines. The empty line before it may be
//! missing, as where the mail before had no last line end; after an empty line the date may be missing. A
//! `From ` line without header lines after it is text of the mail before: nothing is lost. In mboxrd a line
//! of a mail that begins with any number of `>` and `From ` gets one more `>`, so that written mails are read
//! back to the byte. Lines end in LF; CRLF is read too. Called by archives, `newsreel import` and `export`,
//! and the pages that offer a thread as a file. Source: qmail's mbox(5), RFC 4155.

use crate::date;
use memchr::{memchr, memmem};

/// Maximum length in bytes of a `From ` line that begins a mail.
const FROM_LINE_BYTES_MAX: usize = 1024;
/// Beginning of that line.
const FROM: &[u8] = b"From ";
/// Maximum number of lines between it and the first header: similar lines, quoted or not, that mailers have
/// left.
const LEFT_LINES_MAX: usize = 4;
/// Maximum length of the first header's name, in bytes.
const NAME_BYTES_MAX: usize = 100;
/// Headers that mark the beginning of a mail after a `From ` line without a date.
const USUAL: [&[u8]; 17] = [
    b"From",
    b"To",
    b"Cc",
    b"Subject",
    b"Date",
    b"Message-ID",
    b"Received",
    b"Return-Path",
    b"Delivered-To",
    b"Reply-To",
    b"Sender",
    b"Path",
    b"Newsgroups",
    b"MIME-Version",
    b"Content-Type",
    b"Status",
    b"References",
];

const TOO_LARGE: &str = "the mail is too large";

/// A mail as stored in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MboxMail<'a> {
    /// Time in its `From ` line, in Unix seconds.
    pub arrived: Option<i64>,
    /// Text after that line, still quoted, without the empty line that ends the mail.
    pub quoted: &'a [u8],
}

impl MboxMail<'_> {
    /// Appends the text of the mail, with one `>` removed from quoted lines.
    pub fn append_text(&self, out: &mut Vec<u8>) {
        let mut start = 0;
        for at in memmem::find_iter(self.quoted, FROM) {
            let before = self.quoted.get(start..at).unwrap_or_default();
            let quotes = before.iter().rev().take_while(|b| **b == b'>').count();
            let line_starts = match before.len() - quotes {
                0 => start == 0,
                others => before.get(others - 1) == Some(&b'\n'),
            };
            if quotes > 0 && line_starts {
                out.extend_from_slice(before.get(..before.len() - 1).unwrap_or_default());
                start = at;
            }
        }
        out.extend_from_slice(self.quoted.get(start..).unwrap_or_default());
    }
}

/// Appends a text with LF line ends as a mail that arrived at this time (Unix seconds).
pub fn append_mail(sender: &str, arrived: i64, text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len() + sender.len() + 64);
    out.extend_from_slice(FROM);
    out.extend_from_slice(sender.as_bytes());
    out.push(b' ');
    out.extend_from_slice(asctime(arrived).as_bytes());
    out.push(b'\n');
    let mut rest = text;
    while !rest.is_empty() {
        let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(end);
        let quotes = line.iter().take_while(|b| **b == b'>').count();
        if line.get(quotes..).is_some_and(|line| line.starts_with(FROM)) {
            out.push(b'>');
        }
        out.extend_from_slice(line);
        rest = after;
    }
    if !out.ends_with(b"\n") {
        out.push(b'\n');
    }
    out.push(b'\n');
}

/// Formats a time like `Thu Jan  1 00:00:00 1970`, UTC.
fn asctime(secs: i64) -> String {
    let mut text = Vec::new();
    date::format_rfc5322(secs, &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    match *text.split(' ').collect::<Vec<_>>().as_slice() {
        [weekday, day, month, year, time, ..] => {
            format!("{} {month} {day:>2} {time} {year}", weekday.trim_end_matches(','))
        }
        _ => text,
    }
}

/// Splitter of a file that is read in pieces. The caller keeps a window of the file: the bytes that were read
/// and are not consumed yet.
#[derive(Clone, Debug)]
pub struct MboxSplitter {
    mail_bytes_max: usize,
    /// Length of the window's beginning that is known to contain no beginning of a mail except the first.
    searched: usize,
    /// True while the rest of a mail that is too large is skipped.
    passing: bool,
}

/// Meaning of the beginning of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MboxStep<'a> {
    /// Unknown before more is read.
    More,
    /// This many bytes are a mail.
    Mail(usize, MboxMail<'a>),
    /// This many bytes are empty lines, or the rest of damage.
    Skip(usize),
    /// This many bytes are not a mail, for this reason; the bytes up to the next mail are skipped.
    Damaged(usize, &'static str),
    /// The file ends here.
    End,
}

impl MboxSplitter {
    /// Creates a splitter for a file from its beginning. Larger mails are damage.
    pub fn new(mail_bytes_max: usize) -> Self {
        Self { mail_bytes_max, searched: 0, passing: false }
    }

    /// Returns the window size with which the answer is never [`MboxStep::More`].
    pub fn window_bytes_max(&self) -> usize {
        self.mail_bytes_max.saturating_add((LEFT_LINES_MAX + 4) * FROM_LINE_BYTES_MAX)
    }

    /// Examines the window; `is_end`: the file ends with it. The bytes that the answer counts are consumed.
    pub fn step<'a>(&mut self, window: &'a [u8], is_end: bool) -> MboxStep<'a> {
        if window.is_empty() {
            return if is_end { MboxStep::End } else { MboxStep::More };
        }
        if self.passing {
            return self.pass(window, is_end);
        }
        let blank = window.iter().take_while(|b| matches!(b, b'\n' | b'\r')).count();
        if blank > 0 {
            self.searched = 0;
            return MboxStep::Skip(blank);
        }
        let first = match mail_start(window, is_end, true) {
            FromLine::More => return MboxStep::More,
            FromLine::Not => {
                self.passing = true;
                return MboxStep::Damaged(
                    0,
                    "no line \"From SENDER DATE\" with headers after it where a mail must begin",
                );
            }
            FromLine::Is { bytes, arrived, head } => (bytes, arrived, head),
        };
        match self.next_start(window, first.2, is_end) {
            Some(end) => {
                self.searched = 0;
                let quoted = window.get(first.0..end).unwrap_or_default();
                if quoted.len() > self.mail_bytes_max {
                    return MboxStep::Damaged(end, TOO_LARGE);
                }
                MboxStep::Mail(end, MboxMail { arrived: first.1, quoted: without_blank_line(quoted) })
            }
            // The mail has at least the bytes that were searched.
            None if self.searched.saturating_sub(first.0) >= self.mail_bytes_max => {
                self.passing = true;
                self.searched = 0;
                MboxStep::Damaged(first.0, TOO_LARGE)
            }
            None => MboxStep::More,
        }
    }

    /// Returns the position of the mail after the one whose headers begin at `head`, or of the file's end.
    fn next_start(&mut self, window: &[u8], head: usize, is_end: bool) -> Option<usize> {
        let mut from = self.searched.max(head.saturating_sub(1));
        while let Some(at) = window.get(from..).and_then(|rest| memmem::find(rest, b"\nFrom ")) {
            let lf = from + at;
            let before = window.get(..lf).unwrap_or_default();
            let is_after_blank = before.ends_with(b"\n") || before.ends_with(b"\n\r");
            match mail_start(window.get(lf + 1..).unwrap_or_default(), is_end, is_after_blank) {
                FromLine::Is { .. } => return Some(lf + 1),
                FromLine::Not => {}
                FromLine::More => {
                    self.searched = lf;
                    return None;
                }
            }
            from = lf + 1;
        }
        self.searched = window.len().saturating_sub(FROM.len() + 1);
        is_end.then_some(window.len())
    }

    /// Skips damage, up to the next mail.
    fn pass<'a>(&mut self, window: &'a [u8], is_end: bool) -> MboxStep<'a> {
        let mut from = 0;
        while let Some(at) = window.get(from..).and_then(|rest| memmem::find(rest, b"\nFrom ")) {
            let start = from + at + 1;
            match mail_start(window.get(start..).unwrap_or_default(), is_end, true) {
                FromLine::Is { .. } => {
                    self.passing = false;
                    return MboxStep::Skip(start);
                }
                FromLine::More if from + at > 0 => return MboxStep::Skip(from + at),
                FromLine::More => return MboxStep::More,
                FromLine::Not => from = start,
            }
        }
        let kept = if is_end { 0 } else { FROM.len() + 1 };
        match window.len().saturating_sub(kept) {
            0 => MboxStep::More,
            bytes => MboxStep::Skip(bytes),
        }
    }
}

/// Result of the search for a line that begins a mail.
enum FromLine {
    /// Length of the line, its time, and the position of the headers.
    Is {
        bytes: usize,
        arrived: Option<i64>,
        head: usize,
    },
    Not,
    /// More input is needed.
    More,
}

/// Looks for a `From ` line with header lines after it.
fn mail_start(text: &[u8], is_end: bool, is_after_blank: bool) -> FromLine {
    if !may_begin_with(text, FROM) {
        return FromLine::Not;
    }
    let (line, bytes) = match whole_line(text, is_end) {
        Some(Some(found)) => found,
        Some(None) => return FromLine::Not,
        None => return FromLine::More,
    };
    let Some(rest) = line.strip_prefix(FROM) else { return FromLine::Not };
    let arrived = time_of(rest);
    let sender = rest.trim_ascii();
    // Without a date the line may be the beginning of a sentence.
    if arrived.is_none() && !(is_after_blank && is_address(sender)) {
        return FromLine::Not;
    }
    let mut at = bytes;
    for _ in 0..=LEFT_LINES_MAX {
        let rest = text.get(at..).unwrap_or_default();
        let unquoted = rest.strip_prefix(b">").unwrap_or(rest);
        if may_begin_with(unquoted, FROM) && !unquoted.is_empty() {
            match whole_line(rest, is_end) {
                Some(Some((_, bytes))) if unquoted.starts_with(FROM) => at += bytes,
                Some(_) => break,
                None => return FromLine::More,
            }
            continue;
        }
        return match header_name(rest, is_end) {
            FirstHeader::More => FromLine::More,
            FirstHeader::Name(name) if arrived.is_some() || is_usual(name) => {
                FromLine::Is { bytes, arrived, head: at }
            }
            FirstHeader::ANews if arrived.is_some() => FromLine::Is { bytes, arrived, head: at },
            FirstHeader::Name(_) | FirstHeader::ANews | FirstHeader::Not => FromLine::Not,
        };
    }
    FromLine::Not
}

/// Returns whether this can be all that a `From ` line without a date has: nothing, an address, or one like
/// `name at site` of an archive that hides addresses.
fn is_address(sender: &[u8]) -> bool {
    match sender.split(|b| *b == b' ').collect::<Vec<_>>().as_slice() {
        [_] => true,
        [_, between, _] => *between == b"at",
        _ => false,
    }
}

/// Returns whether the received part of a text agrees with `prefix`.
fn may_begin_with(text: &[u8], prefix: &[u8]) -> bool {
    let begun = text.get(..text.len().min(prefix.len())).unwrap_or_default();
    prefix.starts_with(begun)
}

/// Returns the first line of a text without its LF, and its length with the LF: `None` if the whole line has
/// not arrived, `Some(None)` if it is too long.
fn whole_line(text: &[u8], is_end: bool) -> Option<Option<(&[u8], usize)>> {
    let begun = text.get(..text.len().min(FROM_LINE_BYTES_MAX)).unwrap_or_default();
    match memchr(b'\n', begun) {
        Some(lf) => Some(begun.get(..lf).map(|line| (line, lf + 1))),
        None if text.len() >= FROM_LINE_BYTES_MAX => Some(None),
        None => is_end.then_some(Some((begun, begun.len()))),
    }
}

/// Beginning of a text, examined for a header.
enum FirstHeader<'a> {
    Name(&'a [u8]),
    /// The first line of A News, which has no header lines: `A` and an identifier.
    ANews,
    Not,
    More,
}

fn header_name(text: &[u8], is_end: bool) -> FirstHeader<'_> {
    let is_name = |b: &u8| b.is_ascii_graphic() && *b != b':';
    let begun = text.get(..text.len().min(NAME_BYTES_MAX)).unwrap_or_default();
    let end = begun.iter().position(|b| !is_name(b)).unwrap_or(begun.len());
    let (name, after) = begun.split_at(end);
    let is_id = name.iter().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(b));
    match after.first() {
        Some(b':') if !name.is_empty() => FirstHeader::Name(name),
        Some(b'\n' | b'\r') if name.starts_with(b"A") && is_id && name.contains(&b'.') => FirstHeader::ANews,
        Some(_) => FirstHeader::Not,
        None if !is_end && text.len() < NAME_BYTES_MAX => FirstHeader::More,
        None => FirstHeader::Not,
    }
}

fn is_usual(name: &[u8]) -> bool {
    let is_own = name.get(..2).is_some_and(|begin| begin.eq_ignore_ascii_case(b"X-"));
    is_own || USUAL.iter().any(|usual| usual.eq_ignore_ascii_case(name))
}

/// Returns the time in the text after `From `: a sender, a date, and perhaps `remote from SITE`.
fn time_of(rest: &[u8]) -> Option<i64> {
    let rest = rest.trim_ascii();
    let rest = memmem::find(rest, b" remote from ").and_then(|at| rest.get(..at)).unwrap_or(rest);
    let sender = memchr(b' ', rest)?;
    let after = rest.get(sender..)?.trim_ascii();
    // A sender may have blanks; the date is the last 24 octets then.
    date::parse(after).or_else(|| date::parse(after.get(after.len().checked_sub(24)?..)?))
}

/// Returns the text without the empty line at the end.
fn without_blank_line(quoted: &[u8]) -> &[u8] {
    if quoted.ends_with(b"\n\n") || quoted == b"\n" {
        return quoted.get(..quoted.len() - 1).unwrap_or_default();
    }
    if quoted.ends_with(b"\n\r\n") {
        return quoted.get(..quoted.len() - 2).unwrap_or_default();
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Arrival time and text of each mail.
    type Mails = Vec<(Option<i64>, Vec<u8>)>;

    /// Returns all mails of a file that arrives in pieces of `piece` bytes, and the number of damaged pieces.
    fn read(file: &[u8], piece: usize, mail_bytes_max: usize) -> (Mails, usize) {
        let mut splitter = MboxSplitter::new(mail_bytes_max);
        let (mut start, mut end, mut mails, mut damaged) = (0, 0, Vec::new(), 0);
        loop {
            let is_end = end == file.len();
            match splitter.step(&file[start..end], is_end) {
                MboxStep::More => {
                    assert!(!is_end && end - start < splitter.window_bytes_max());
                    end = (end + piece).min(file.len());
                }
                MboxStep::Mail(bytes, mail) => {
                    let mut text = Vec::new();
                    mail.append_text(&mut text);
                    mails.push((mail.arrived, text));
                    start += bytes;
                }
                MboxStep::Skip(bytes) => start += bytes,
                MboxStep::Damaged(bytes, _) => {
                    damaged += 1;
                    start += bytes;
                }
                MboxStep::End => return (mails, damaged),
            }
        }
    }

    #[test]
    fn written_mails_are_separated_again() {
        let mut mail = Vec::new();
        append_mail("newsreel", 0, b"Subject: x\n\nFrom here\n>From there\n>>From\nend", &mut mail);
        let expected = "From newsreel Thu Jan  1 00:00:00 1970\nSubject: x\n\n>From here\n>>From there\n\
                        >>From\nend\n\n";
        assert_eq!(String::from_utf8(mail).unwrap(), expected);
    }

    #[test]
    fn a_mail_is_too_large_from_its_first_byte_beyond_the_limit_however_it_arrives() {
        const MAX: usize = 3_000;
        let from = "From a Thu Jan  1 00:00:07 1970\n";
        let next = format!("{from}{}C: d\n\n", format!(">From {}\n", "x".repeat(600)).repeat(4));
        for (bytes, expected) in [(MAX - 1, (2, 0)), (MAX, (2, 0)), (MAX + 1, (1, 1))] {
            let mail = format!("A: b\n\n{}\n\n", "x".repeat(bytes - 8));
            let file = format!("{from}{mail}{next}");
            for piece in (1..200).chain([MAX, MAX + 40, MAX + 41, 5_000, 9_000]) {
                let (mails, damaged) = read(file.as_bytes(), piece, MAX);
                assert_eq!((mails.len(), damaged), expected, "{bytes} bytes in pieces of {piece}");
            }
        }
    }

    #[test]
    fn all_forms_are_read() {
        for (file, expected) in [
            (
                "From a Thu Jan  1 00:00:07 1970\nA: b\n\nx\n\nFrom me to you\n",
                vec![(7, "A: b\n\nx\n\nFrom me to you\n")],
            ),
            (
                "From a Thu Jan  1 00:00:07 1970 remote from z\nA: b\n\nx\n\n\
                 From b@c Fri Jan  2 00:00:00 1970\nC: d\n\n\n",
                vec![(7, "A: b\n\nx\n"), (86_400, "C: d\n\n")],
            ),
            (
                "\nFrom a b c Thu Jan  1 00:00:07 1970\r\nA: b\r\n\r\nx\r\n\r\n\
                 From - Thu, 1 Jan 1970 00:00:08 +0000\r\nC: d\r\n\r\n",
                vec![(7, "A: b\r\n\r\nx\r\n"), (8, "C: d\r\n")],
            ),
            // No empty line before the `From ` line.
            (
                "From a Thu Jan  1 00:00:07 1970\nA: b\n\nx\nFrom c Thu Jan  1 00:00:08 1970\nC: d\n\n",
                vec![(7, "A: b\n\nx\n"), (8, "C: d\n")],
            ),
            // No headers after the `From ` line: text of the mail before.
            (
                "From a Thu Jan  1 00:00:07 1970\nA: b\n\nx\n\nFrom c Thu Jan  1 00:00:08 1970\n\n\
                 no headers\n",
                vec![(7, "A: b\n\nx\n\nFrom c Thu Jan  1 00:00:08 1970\n\nno headers\n")],
            ),
            // Similar lines left among the headers by mailers.
            (
                "From - Thu Jan  1 00:00:07 1970\n>From - Mon Jan 26 17:20:56 2009\nA: b\n\nx\n\n",
                vec![(7, "From - Mon Jan 26 17:20:56 2009\nA: b\n\nx\n")],
            ),
            // A `From ` line not after an empty line: a quotation.
            (
                "From a Thu Jan  1 00:00:07 1970\nA: b\n\nx\nFrom b Thu Jan  1 00:00:08 1970\n",
                vec![(7, "A: b\n\nx\nFrom b Thu Jan  1 00:00:08 1970\n")],
            ),
            ("", vec![]),
        ] {
            let expected: Mails =
                expected.into_iter().map(|(at, text)| (Some(at), text.as_bytes().to_vec())).collect();
            for piece in [1, 7, 10_000] {
                assert_eq!(read(file.as_bytes(), piece, 1 << 16), (expected.clone(), 0), "{file:?} {piece}");
            }
        }
    }

    #[test]
    fn a_line_without_a_date_begins_a_mail_only_before_usual_headers() {
        let file = b"From MAILER-DAEMON\nFrom: a@b\n\nx\n\nFrom here\nNote: no mail\n\n\
            From you\nOdd: no mail\n\nFrom MAILER-DAEMON\nX-Own: y\n\nz\n";
        for piece in [1, 7, 10_000] {
            let (mails, damaged) = read(file, piece, 1 << 16);
            let texts: Vec<_> =
                mails.iter().map(|(_, text)| String::from_utf8_lossy(text).into_owned()).collect();
            let first = "From: a@b\n\nx\n\nFrom here\nNote: no mail\n\nFrom you\nOdd: no mail\n";
            assert_eq!((texts, damaged), (vec![first.to_owned(), "X-Own: y\n\nz\n".into()], 0), "{piece}");
        }
    }

    #[test]
    fn a_line_may_have_no_address_or_a_hidden_one() {
        let file = b"From \nFrom: a@b\n\nx\n\nFrom john at site.example\nSubject: s\n\ny\n\n\
            From \nSomething else\n\nFrom all of us\nTo: you\n\nFrom \nSubject: t\n\nz\n";
        for piece in [1, 7, 10_000] {
            let (mails, damaged) = read(file, piece, 1 << 16);
            let texts: Vec<_> =
                mails.iter().map(|(_, text)| String::from_utf8_lossy(text).into_owned()).collect();
            let second = "Subject: s\n\ny\n\nFrom \nSomething else\n\nFrom all of us\nTo: you\n";
            let expected = ["From: a@b\n\nx\n", second, "Subject: t\n\nz\n"].map(str::to_owned);
            assert_eq!((texts, damaged), (expected.to_vec(), 0), "{piece}");
        }
    }

    #[test]
    fn damage_affects_only_mails_it_touches() {
        let good = "From a Thu Jan  1 00:00:07 1970\nA: b\n\nx\n\n";
        let large = format!("From a Thu Jan  1 00:00:07 1970\nA: b\n\n{}\n\n", "y".repeat(5_000));
        for piece in [1, 100, 1 << 20] {
            let (mails, damaged) = read(format!("garbage\n\n{good}{large}{good}").as_bytes(), piece, 1_000);
            assert_eq!((mails.len(), damaged), (2, 2), "{piece}");
        }
        assert_eq!(read(b"garbage without an end", 3, 1_000), (vec![], 1));
    }

    proptest! {
        #[test]
        fn written_mails_are_read_back(
            texts in prop::collection::vec("(>{0,2}(From )?[ -~]{0,9}\n){1,6}", 1..5),
            at in prop::collection::vec(0..4_000_000_000_i64, 5), piece in 1..60_usize,
        ) {
            let texts: Vec<String> = texts.iter().map(|text| format!("A: b\n\n{text}")).collect();
            let mut file = Vec::new();
            for (text, at) in texts.iter().zip(&at) {
                append_mail("a@b", *at, text.as_bytes(), &mut file);
            }
            let (mails, damaged) = read(&file, piece, 1 << 16);
            prop_assert_eq!(damaged, 0);
            let expected: Mails =
                texts.iter().zip(&at).map(|(text, at)| (Some(*at), text.as_bytes().to_vec())).collect();
            prop_assert_eq!(mails, expected);
        }

        #[test]
        fn result_is_independent_of_pieces(file in prop::collection::vec(prop::sample::select(
            vec!["From a Thu Jan  1 00:00:07 1970\n", "\n", "x\n", "From ", ">From b\n", "\r\n", "From c",
                 "A: b\n", "From d\n", "Subject: e\n"],
        ), 0..20),
            piece in 1..30_usize,
        ) {
            let file = file.concat().into_bytes();
            prop_assert_eq!(read(&file, piece, 1 << 16).0, read(&file, 1 << 20, 1 << 16).0);
        }
    }
}
