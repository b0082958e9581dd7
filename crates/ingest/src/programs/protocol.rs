//! Messages to and from filter programs; docs/filters.md is the specification.
//!
//! Pure: bytes to values and back. Called by `process`.

use std::fmt::Arguments;
use std::io::Write;

/// First line of a program.
pub(super) const HELLO: &[u8] = b"newsreel-filter 1";
/// Largest header block with which a program may replace that of a post.
const HEADERS_BYTES_MAX: usize = 1 << 20;

/// Articles, posts or a login to be judged.
#[derive(Debug)]
pub struct FilterRequest {
    kind: &'static str,
    count: usize,
    bytes: Vec<u8>,
}

impl FilterRequest {
    /// Creates an empty request: "feed", "post", "login" or "reload".
    pub fn new(kind: &'static str) -> Self {
        Self { kind, count: 0, bytes: Vec::new() }
    }

    /// Adds an article, preceded by a line of facts about it.
    pub fn push(&mut self, about: Arguments<'_>, wire: &[u8]) {
        // Writing to a vector does not fail.
        let _infallible = writeln!(self.bytes, "{} {about}", wire.len());
        self.bytes.extend_from_slice(wire);
        self.count += 1;
    }

    /// Returns the number of articles in it.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns its length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the first line of the request with this number, if `bytes` bytes follow.
    pub(super) fn head(&self, number: u64, bytes: usize) -> Vec<u8> {
        format!("{} {number} {} {bytes}\n", self.kind, self.count).into_bytes()
    }

    /// Takes the bytes after the first line.
    pub(super) fn take_payload(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

/// Verdict of a program on an article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramVerdict {
    /// Nothing.
    Pass,
    /// Not wanted, for this reason.
    Reject(String),
    /// Verdict for storage rules.
    Class(String),
    /// Accepted, but not passed on.
    Keep,
    /// Filed in another group.
    Aside,
    /// A post to be discarded without notice to its poster.
    Drop,
    /// Could not be judged.
    Fail(String),
}

/// Verdict, with new headers for a post.
#[derive(Debug, PartialEq, Eq)]
pub struct FilterAnswer {
    /// Replacement for the headers of the post.
    pub headers: Option<Vec<u8>>,
    /// The verdict on the article.
    pub verdict: ProgramVerdict,
}

/// A question asked by a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilterQuery<'a> {
    /// Is this Message-ID in history?
    Known(&'a [u8]),
    /// The flag of a group.
    Group(&'a [u8]),
    /// The headers of an article.
    Head(&'a [u8]),
    /// An article.
    Article(&'a [u8]),
    /// Request to refuse this Message-ID from now on.
    Remember(&'a [u8]),
    /// Request to cancel this article.
    Cancel(&'a [u8]),
}

/// A line written by a program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProgramLine<'a> {
    Verdict(ProgramVerdict),
    /// A header block of this many bytes follows.
    Headers(usize),
    Question(FilterQuery<'a>),
    /// End of the answer to the request with this number.
    Done(u64),
}

/// Parses a line, without its end; returns `None` if it is not of the protocol.
pub(super) fn read(line: &[u8]) -> Option<ProgramLine<'_>> {
    let split = memchr::memchr(b' ', line).unwrap_or(line.len());
    let (word, rest) = line.split_at(split);
    let rest = rest.trim_ascii();
    let text = || String::from_utf8_lossy(rest).into_owned();
    let number = || std::str::from_utf8(rest).ok().and_then(|digits| digits.parse::<u64>().ok());
    Some(match word {
        b"pass" => ProgramLine::Verdict(ProgramVerdict::Pass),
        b"reject" if rest.is_empty() => {
            ProgramLine::Verdict(ProgramVerdict::Reject("refused by a filter".into()))
        }
        b"reject" => ProgramLine::Verdict(ProgramVerdict::Reject(text())),
        b"class" if is_name(rest) => ProgramLine::Verdict(ProgramVerdict::Class(text())),
        b"keep" => ProgramLine::Verdict(ProgramVerdict::Keep),
        b"aside" => ProgramLine::Verdict(ProgramVerdict::Aside),
        b"drop" => ProgramLine::Verdict(ProgramVerdict::Drop),
        b"fail" => ProgramLine::Verdict(ProgramVerdict::Fail(text())),
        b"headers" => {
            let bytes = number().and_then(|bytes| usize::try_from(bytes).ok());
            ProgramLine::Headers(bytes.filter(|bytes| *bytes <= HEADERS_BYTES_MAX)?)
        }
        b"done" => ProgramLine::Done(number()?),
        b"?" => ProgramLine::Question(question(rest)?),
        _ => return None,
    })
}

fn question(text: &[u8]) -> Option<FilterQuery<'_>> {
    let (word, rest) = text.split_at(memchr::memchr(b' ', text)?);
    let rest = rest.trim_ascii();
    Some(match word {
        b"known" => FilterQuery::Known(rest),
        b"group" => FilterQuery::Group(rest),
        b"head" => FilterQuery::Head(rest),
        b"article" => FilterQuery::Article(rest),
        b"remember" => FilterQuery::Remember(rest),
        b"cancel" => FilterQuery::Cancel(rest),
        _ => return None,
    })
}

/// Returns whether `name` is valid as a verdict for storage rules.
fn is_name(name: &[u8]) -> bool {
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=64).contains(&name.len()) && name.iter().all(is_part)
}

/// Returns the reply to a question: these bytes, or that nothing was found.
pub(super) fn reply(found: Option<&[u8]>) -> Vec<u8> {
    match found {
        Some(bytes) => [format!("= {}\n", bytes.len()).as_bytes(), bytes].concat(),
        None => b"= none\n".to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_encoded_and_lines_parsed() {
        let mut request = FilterRequest::new("feed");
        request.push(format_args!("peer a b"), b"one\r\n");
        request.push(format_args!("rnews"), b"");
        assert_eq!((request.count(), request.bytes()), (2, 24));
        assert_eq!(request.head(7, 24), b"feed 7 2 24\n");
        assert_eq!(request.take_payload(), b"5 peer a b\none\r\n0 rnews\n");
        let verdict = |line: &str| match read(line.as_bytes()) {
            Some(ProgramLine::Verdict(verdict)) => verdict,
            other => panic!("{other:?}"),
        };
        for (line, expected) in [
            ("pass", ProgramVerdict::Pass),
            ("reject EMP (md5)", ProgramVerdict::Reject("EMP (md5)".into())),
            ("reject", ProgramVerdict::Reject("refused by a filter".into())),
            ("class spam-1", ProgramVerdict::Class("spam-1".into())),
            ("keep", ProgramVerdict::Keep),
            ("aside", ProgramVerdict::Aside),
            ("drop", ProgramVerdict::Drop),
            ("fail not loaded", ProgramVerdict::Fail("not loaded".into())),
        ] {
            assert_eq!(verdict(line), expected);
        }
        assert_eq!(read(b"done 12"), Some(ProgramLine::Done(12)));
        assert_eq!(read(b"headers 99"), Some(ProgramLine::Headers(99)));
        assert_eq!(read(b"? known <a@b>"), Some(ProgramLine::Question(FilterQuery::Known(b"<a@b>"))));
        for line in
            ["", "passes", "class", "class a b", "headers 9999999", "headers -1", "done", "? x y", "?"]
        {
            assert_eq!(read(line.as_bytes()), None, "{line}");
        }
        assert_eq!((reply(Some(b"y")), reply(None)), (b"= 1\ny".to_vec(), b"= none\n".to_vec()));
    }
}
