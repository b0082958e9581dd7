//! Batches of articles, as UUCP and files carry them.
//!
//! A batch is `#! rnews N` lines, each followed by N bytes of article (lines as in the file: LF, not dot-stuffed).
//! Data that does not begin with `#!` is one article. Called by `newsreel rnews` and import, after decompression.
//! Source: RFC 1036 section 3.3, RFC 5537 section 3.10 (media type application/news-transmission).

use crate::decimal::{append_decimal, parse_decimal};
use memchr::memchr;
use std::fmt;

/// The largest article size a `#! rnews` line may announce: 1 GiB.
pub const BATCHED_ARTICLE_BYTES_MAX: u64 = 1 << 30;

/// Why a batch cannot be read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchError {
    /// Where a `#! rnews N` line must be, at this offset, there is something else.
    NotRnews {
        /// Offset in the batch.
        at: usize,
    },
    /// The last article is shorter than announced.
    Truncated {
        /// Bytes announced.
        announced: u64,
        /// Bytes there.
        present: u64,
    },
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BatchError::NotRnews { at } => write!(f, "no \"#! rnews\" line at byte {at} of the batch"),
            BatchError::Truncated { announced, present } => {
                write!(f, "batch ends after {present} of {announced} bytes of its last article")
            }
        }
    }
}

impl std::error::Error for BatchError {}

/// The articles of a batch; after an error nothing more comes.
#[derive(Clone, Debug)]
pub struct Articles<'a> {
    batch: &'a [u8],
    at: usize,
}

/// The articles of `batch`: one, if it does not begin with `#!`; none, if it is empty.
pub fn rnews(batch: &[u8]) -> Articles<'_> {
    Articles { batch, at: 0 }
}

/// Appends the line that goes before an article of `article_bytes` bytes.
pub fn append_rnews_line(article_bytes: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"#! rnews ");
    append_decimal(article_bytes, out);
    out.push(b'\n');
}

impl<'a> Iterator for Articles<'a> {
    type Item = Result<&'a [u8], BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.batch.get(self.at..).filter(|rest| !rest.is_empty())?;
        if self.at == 0 && !rest.starts_with(b"#!") {
            self.at = self.batch.len();
            return Some(Ok(rest));
        }
        let Some((announced, line_bytes)) = rnews_line(rest) else {
            let at = std::mem::replace(&mut self.at, self.batch.len());
            return Some(Err(BatchError::NotRnews { at }));
        };
        let rest = rest.get(line_bytes..).unwrap_or_default();
        match usize::try_from(announced).ok().and_then(|n| rest.get(..n)) {
            Some(article) => {
                self.at += line_bytes + article.len();
                Some(Ok(article))
            }
            None => {
                self.at = self.batch.len();
                Some(Err(BatchError::Truncated { announced, present: rest.len() as u64 }))
            }
        }
    }
}

/// (announced size, length of the line) of a `#! rnews N` line. Words after N are ignored, as C News does.
fn rnews_line(rest: &[u8]) -> Option<(u64, usize)> {
    const LINE_BYTES_MAX: usize = 256;
    let rest = rest.get(..LINE_BYTES_MAX).unwrap_or(rest);
    let lf = memchr(b'\n', rest)?;
    let words = rest.get(..lf)?.strip_prefix(b"#!")?.trim_ascii_start().strip_prefix(b"rnews")?;
    if !matches!(words.first(), Some(b' ' | b'\t')) {
        return None;
    }
    let digits = words.trim_ascii_start().split(u8::is_ascii_whitespace).next()?;
    let announced = parse_decimal(digits).filter(|&n| n <= BATCHED_ARTICLE_BYTES_MAX)?;
    Some((announced, lf + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_articles_and_an_empty_one() {
        let batch = b"#! rnews 4\na\n\nb#! rnews 0 extra words\n#!rnews 3\r\nxyz";
        let articles: Vec<_> = rnews(batch).map(|a| a.unwrap()).collect();
        assert_eq!(articles, [&b"a\n\nb"[..], b"", b"xyz"]);
    }

    #[test]
    fn one_bare_article() {
        assert_eq!(
            rnews(b"Path: x\n\nb\n#! rnews 3\n").collect::<Vec<_>>(),
            [Ok(&b"Path: x\n\nb\n#! rnews 3\n"[..])]
        );
        assert_eq!(rnews(b"").count(), 0);
    }

    #[test]
    fn errors_end_the_batch() {
        let truncated = rnews(b"#! rnews 2\nab#! rnews 9\nabc").collect::<Vec<_>>();
        assert_eq!(truncated, [Ok(&b"ab"[..]), Err(BatchError::Truncated { announced: 9, present: 3 })]);
        for bad in [
            "#! cunbatch\n",
            "#! rnews\n",
            "#! rnews x\nx",
            "#! rnewsx 1\nx",
            "#! rnews -1\n",
            "#! rnews 1",
            "#! rnews 1073741825\n",
        ] {
            assert_eq!(
                rnews(bad.as_bytes()).collect::<Vec<_>>(),
                [Err(BatchError::NotRnews { at: 0 })],
                "{bad}"
            );
        }
        let garbage = rnews(b"#! rnews 1\nxyz").collect::<Vec<_>>();
        assert_eq!(garbage, [Ok(&b"x"[..]), Err(BatchError::NotRnews { at: 12 })]);
    }

    proptest! {
        #[test]
        fn round_trip(articles in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..8)) {
            let mut batch = Vec::new();
            for article in &articles {
                append_rnews_line(article.len() as u64, &mut batch);
                batch.extend_from_slice(article);
            }
            let read: Result<Vec<_>, _> = rnews(&batch).collect();
            prop_assert_eq!(read.unwrap(), articles);
        }
    }
}
