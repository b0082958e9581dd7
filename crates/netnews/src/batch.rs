//! Batches of articles, as transported by UUCP and in files.
//!
//! A batch is `#! rnews N` lines, each followed by N bytes of article (lines as in the file: LF, not
//! dot-stuffed). Data that begins with a header is one article. Damage affects only the articles that it
//! touches: reading resumes at the next `#! rnews` line, and an article is accepted only where its announced
//! end is plausible. Called by `newsreel rnews`, after decompression. Source: RFC 1036 section 3.3, RFC 5537
//! section 3.10 (media type application/news-transmission).

use crate::decimal::{append_decimal, parse_decimal};
use memchr::memchr_iter;
use std::fmt;

/// The largest article size a `#! rnews` line may announce: 1 GiB.
pub const BATCHED_ARTICLE_BYTES_MAX: u64 = 1 << 30;
/// The longest `#! rnews` line, in bytes.
const LINE_BYTES_MAX: usize = 256;

/// A piece of a batch that contains no article that can be trusted: up to the next `#! rnews` line, or to the
/// end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage<'a> {
    /// Offset in the batch.
    pub at: usize,
    /// The piece, including the `#! rnews` line at its beginning, if there is one.
    pub piece: &'a [u8],
    /// What is wrong.
    pub fault: BatchFault,
}

/// Why a piece of a batch is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchFault {
    /// There is no `#! rnews` line where one must be.
    NotRnews,
    /// The batch ends within the article.
    Truncated {
        /// Bytes announced.
        announced: u64,
        /// Bytes present.
        present: u64,
    },
    /// The article does not end where the next one begins.
    OtherLength {
        /// Bytes announced.
        announced: u64,
        /// Bytes up to the next `#! rnews` line, or to the end.
        present: u64,
    },
}

impl fmt::Display for BatchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRnews => f.write_str("no \"#! rnews\" line"),
            Self::Truncated { announced, present } => {
                write!(f, "the batch ends after {present} of {announced} bytes of an article")
            }
            Self::OtherLength { announced, present } => {
                write!(f, "an article has {present} bytes and not {announced} as announced")
            }
        }
    }
}

/// The articles of a batch, and the damaged pieces between them.
#[derive(Clone, Debug)]
pub struct Articles<'a> {
    batch: &'a [u8],
    at: usize,
}

/// The articles of `batch`: one, if it begins with a header; none, if it is empty.
pub fn rnews(batch: &[u8]) -> Articles<'_> {
    Articles { batch, at: 0 }
}

/// Appends the line that precedes an article of `article_bytes` bytes.
pub fn append_rnews_line(article_bytes: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"#! rnews ");
    append_decimal(article_bytes, out);
    out.push(b'\n');
}

impl<'a> Iterator for Articles<'a> {
    type Item = Result<&'a [u8], Damage<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = self.batch.get(at..).filter(|rest| !rest.is_empty())?;
        if at == 0 && is_bare_article(rest) {
            self.at = self.batch.len();
            return Some(Ok(rest));
        }
        let mut damaged = |bytes: usize, fault| {
            self.at = at + bytes;
            Some(Err(Damage { at, piece: rest.get(..bytes).unwrap_or_default(), fault }))
        };
        let Some((announced, line_bytes)) = rnews_line(rest) else {
            return damaged(next_line(rest), BatchFault::NotRnews);
        };
        let rest = rest.get(line_bytes..).unwrap_or_default();
        let parts = usize::try_from(announced).ok().and_then(|n| rest.split_at_checked(n));
        if let Some((article, after)) = parts.filter(|(article, after)| can_end(article, after)) {
            self.at += line_bytes + article.len();
            debug_assert_eq!(after.len(), self.batch.len() - self.at);
            return Some(Ok(article));
        }
        let bytes = next_line(rest);
        let present = bytes as u64;
        let fault = if bytes == rest.len() && present < announced {
            BatchFault::Truncated { announced, present }
        } else {
            BatchFault::OtherLength { announced, present }
        };
        damaged(line_bytes + bytes, fault)
    }
}

/// Whether `article` can be as long as was announced, with `after` following it: the batch ends there or the
/// next article begins. If neither, what follows is damaged, and the article is whole if it ends with a line
/// and holds no other article's beginning: if bytes were lost it would reach into the next one, if bytes were
/// inserted it would end within a line.
fn can_end(article: &[u8], after: &[u8]) -> bool {
    after.is_empty()
        || rnews_line(after).is_some()
        || (article.ends_with(b"\n") && next_line(article) == article.len())
}

/// Whether data that is not a batch is one article: it begins with a header, or contains nothing of a batch.
fn is_bare_article(data: &[u8]) -> bool {
    let name_bytes = data.iter().take_while(|b| b.is_ascii_graphic() && **b != b':').count();
    let is_header = name_bytes > 0 && data.get(name_bytes) == Some(&b':');
    !data.starts_with(b"#!") && (is_header || next_line(data) == data.len())
}

/// Where the next `#! rnews N` line begins in `bytes`, at the start of a line; the end if there is none.
fn next_line(bytes: &[u8]) -> usize {
    let is_line = |at: &usize| bytes.get(*at..).is_some_and(|rest| rnews_line(rest).is_some());
    let starts = std::iter::once(0).chain(memchr_iter(b'\n', bytes).map(|lf| lf + 1));
    starts.into_iter().find(is_line).unwrap_or(bytes.len())
}

/// (announced size, length of the line) of a `#! rnews N` line. Words after N are ignored, as C News does.
fn rnews_line(rest: &[u8]) -> Option<(u64, usize)> {
    let words = rest.strip_prefix(b"#!")?;
    let lf = words.iter().take(LINE_BYTES_MAX).position(|&b| b == b'\n')?;
    let words = words.get(..lf)?.trim_ascii_start().strip_prefix(b"rnews")?;
    if !matches!(words.first(), Some(b' ' | b'\t')) {
        return None;
    }
    let digits = words.trim_ascii_start().split(u8::is_ascii_whitespace).next()?;
    let announced = parse_decimal(digits).filter(|&n| n <= BATCHED_ARTICLE_BYTES_MAX)?;
    Some((announced, b"#!".len() + lf + 1))
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

    type Damaged<'a> = (usize, &'a [u8]);

    /// The articles, and where the damaged pieces begin and what is in them.
    fn read(batch: &[u8]) -> (Vec<&[u8]>, Vec<Damaged<'_>>) {
        let (articles, damages): (Vec<_>, Vec<_>) = rnews(batch).partition(Result::is_ok);
        let damages = damages.into_iter().map(Result::unwrap_err).map(|damage| (damage.at, damage.piece));
        (articles.into_iter().map(Result::unwrap).collect(), damages.collect())
    }

    fn fault(batch: &[u8]) -> BatchFault {
        rnews(batch).find_map(Result::err).unwrap().fault
    }

    #[test]
    fn what_is_no_batch_is_damaged_as_a_whole() {
        for bad in [
            "#! cunbatch\n",
            "#! rnews\n",
            "#! rnews x\nx",
            "#! rnewsx 1\nx",
            "#! rnews -1\n",
            "#! rnews 1",
            "#! rnews 1073741825\n",
        ] {
            assert_eq!(read(bad.as_bytes()), (vec![], vec![(0, bad.as_bytes())]), "{bad}");
            assert_eq!(fault(bad.as_bytes()), BatchFault::NotRnews);
        }
    }

    #[test]
    fn reading_resumes_at_the_next_article() {
        let (one, two, three) = ("#! rnews 5\nA: 1\n".to_owned(), "#! rnews 5\nB: 2\n", "#! rnews 5\nC: 3\n");
        let whole = [one.as_str(), two, three].concat();
        let (a, b, c) = (&b"A: 1\n"[..], &b"B: 2\n"[..], &b"C: 3\n"[..]);
        assert_eq!(read(whole.as_bytes()), (vec![a, b, c], vec![]));
        for (damaged, articles, pieces) in [
            // Bytes lost, bytes put in, a wrong count, a count too many.
            ("#! rnews 5\nB:\n", vec![a, c], 1),
            ("#! rnews 5\nB: 2222\n", vec![a, c], 1),
            ("#! rnews 4\nB: 2\n", vec![a, c], 1),
            ("#! rnews 500\nB: 2\n", vec![a, c], 1),
            // The line itself: the article before it is whole.
            ("#? rnews 5\nB: 2\n", vec![a, c], 1),
            ("#! rnews 5", vec![a, c], 1),
            // Something between two articles.
            ("garbage\n#! rnews 5\nB: 2\n", vec![a, b, c], 1),
            ("\0\0\0\n", vec![a, c], 1),
        ] {
            let batch =
                [one.as_str(), damaged, if damaged.ends_with('5') { "\n" } else { "" }, three].concat();
            let (read, damages) = read(batch.as_bytes());
            assert_eq!((read, damages.len()), (articles, pieces), "{damaged:?}: {damages:?}");
        }
        let first = [b"x! rnews 5\nA: 1\n", two.as_bytes()].concat();
        assert_eq!(read(&first), (vec![b], vec![(0, &b"x! rnews 5\nA: 1\n"[..])]));
        assert_eq!(fault(b"#! rnews 9\nabc"), BatchFault::Truncated { announced: 9, present: 3 });
        assert_eq!(fault(b"#! rnews 1\nxyz"), BatchFault::OtherLength { announced: 1, present: 3 });
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

        #[test]
        fn damage_costs_what_it_touches(
            count in 2..20_usize,
            at in any::<prop::sample::Index>(),
            lost in 1..200_usize,
            put in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let texts: Vec<Vec<u8>> = (0..count).map(|n| format!("Subject: {n}\n\n\
                {}\n", "x".repeat(60))).map(String::into_bytes).collect();
            let mut batch = Vec::new();
            for text in &texts {
                append_rnews_line(text.len() as u64, &mut batch);
                batch.extend_from_slice(text);
            }
            // What does not begin like a batch is taken for a single article, so the first line stays.
            let first = memchr::memchr(b'\n', &batch).unwrap() + 1;
            let at = first + at.index(batch.len() - first);
            let end = (at + lost).min(batch.len());
            batch.splice(at..end, put);
            let (articles, _) = read(&batch);
            // Damage of up to 200 bytes touches four articles of some 90 bytes at most, and the one before
            // it.
            let whole = texts.iter().filter(|text| articles.contains(&text.as_slice())).count();
            prop_assert!(whole + 5 >= count, "{whole} of {count}");
        }

        #[test]
        fn every_byte_is_in_an_article_a_damaged_piece_or_a_line_before_an_article(
            parts in prop::collection::vec(
                prop_oneof![
                    Just(b"#! rnews 5\n".to_vec()),
                    Just(b"#! rnews 99\n".to_vec()),
                    Just(b"\n".to_vec()),
                    prop::collection::vec(any::<u8>(), 0..12),
                ],
                0..20,
            ),
        ) {
            let batch = parts.concat();
            let mut at = 0;
            for part in rnews(&batch) {
                match part {
                    Ok(article) => {
                        let start = article.as_ptr() as usize - batch.as_ptr() as usize;
                        prop_assert!(start >= at && start - at <= LINE_BYTES_MAX + 2);
                        at = start + article.len();
                    }
                    Err(damage) => {
                        prop_assert!(damage.at == at && !damage.piece.is_empty());
                        prop_assert!(batch[at..].starts_with(damage.piece));
                        at += damage.piece.len();
                    }
                }
            }
            prop_assert_eq!(at, batch.len());
        }
    }
}
