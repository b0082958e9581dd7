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
/// The longest `#! rnews` line after `#!`, in bytes.
const LINE_BYTES_MAX: usize = 256;
/// Number of bytes needed to recognize an `#! rnews` line.
const LOOK_AHEAD_BYTES: usize = LINE_BYTES_MAX + 2;

/// Piece of a batch that contains no article that can be trusted: up to the next `#! rnews` line, or to the
/// end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchDamage<'a> {
    /// Offset in the batch.
    pub at: usize,
    /// The piece, including the `#! rnews` line at its beginning, if there is one.
    pub piece: &'a [u8],
    /// Kind of damage.
    pub fault: BatchFault,
}

/// Reason why a piece of a batch is damaged.
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
    /// The article is larger than the reader accepts; the piece is empty.
    TooLarge {
        /// Bytes announced.
        announced: u64,
        /// Bytes up to the next `#! rnews` line, or to the end.
        present: u64,
    },
    /// The piece exceeds the reader's window; it continues in the next one.
    Unending {
        /// Length of the piece.
        bytes: u64,
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
            Self::TooLarge { announced, present } if announced == present => {
                write!(f, "an article of {announced} bytes is too large")
            }
            Self::TooLarge { announced, present } => {
                write!(
                    f,
                    "an article of {announced} bytes is announced, which is too large, and has {present}"
                )
            }
            Self::Unending { bytes } => {
                write!(f, "{bytes} bytes without a \"#! rnews\" line where the next article would begin")
            }
        }
    }
}

/// The articles of a batch, and the damaged pieces between them.
#[derive(Clone, Debug)]
pub struct BatchArticles<'a> {
    rest: &'a [u8],
    splitter: BatchSplitter,
}

/// Returns the articles of `batch`: one, if it begins with a header; none, if it is empty.
pub fn rnews(batch: &[u8]) -> BatchArticles<'_> {
    BatchArticles { rest: batch, splitter: BatchSplitter::new(BATCHED_ARTICLE_BYTES_MAX) }
}

/// Appends the line that precedes an article of `article_bytes` bytes.
pub fn append_rnews_line(article_bytes: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"#! rnews ");
    append_decimal(article_bytes, out);
    out.push(b'\n');
}

impl<'a> Iterator for BatchArticles<'a> {
    type Item = Result<&'a [u8], BatchDamage<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (bytes, part) = match self.splitter.step(self.rest, true) {
                BatchStep::Skip(bytes) => (bytes, None),
                BatchStep::Part(bytes, part) => (bytes, Some(part)),
                BatchStep::More | BatchStep::End => return None,
            };
            self.rest = self.rest.get(bytes..).unwrap_or_default();
            if part.is_some() {
                return part;
            }
        }
    }
}

/// Splitter of a batch that is read in pieces. The caller keeps a window of the batch: the bytes that were
/// read and are not consumed yet, at most [`BatchSplitter::window_bytes_max`].
#[derive(Clone, Debug)]
pub struct BatchSplitter {
    /// Offset of the window in the batch.
    at: usize,
    article_bytes_max: u64,
    state: WindowStart,
}

/// Position of the window's beginning in the batch's grammar.
#[derive(Clone, Copy, Debug)]
enum WindowStart {
    Start,
    BetweenArticles,
    /// In a damaged piece; true at the start of a line.
    Damaged(bool),
    /// In an article that is too large, which began at `start`.
    TooLarge {
        start: usize,
        announced: u64,
        present: u64,
        at_line_start: bool,
    },
}

/// Meaning of the beginning of a window.
#[derive(Debug)]
pub enum BatchStep<'a> {
    /// Unknown before more is read.
    More,
    /// This many bytes of the window are to be skipped.
    Skip(usize),
    /// This many bytes of the window are an article, or a damaged piece.
    Part(usize, Result<&'a [u8], BatchDamage<'a>>),
    /// The batch ends here.
    End,
}

impl BatchSplitter {
    /// Creates a splitter for a batch from its beginning. Larger articles are damage, and are not kept in the
    /// window.
    pub fn new(article_bytes_max: u64) -> Self {
        Self { at: 0, article_bytes_max, state: WindowStart::Start }
    }

    /// Returns the window size with which the answer is never [`BatchStep::More`].
    pub fn window_bytes_max(&self) -> usize {
        usize::try_from(self.article_bytes_max).unwrap_or(usize::MAX).saturating_add(2 * LOOK_AHEAD_BYTES)
    }

    /// Examines the window; `is_end`: the batch ends with it. The bytes that the answer counts are consumed.
    pub fn step<'a>(&mut self, window: &'a [u8], is_end: bool) -> BatchStep<'a> {
        let step = match self.state {
            WindowStart::TooLarge { .. } => self.skip_article(window, is_end),
            _ if window.is_empty() => {
                if is_end {
                    BatchStep::End
                } else {
                    BatchStep::More
                }
            }
            WindowStart::Start => self.start(window, is_end),
            WindowStart::BetweenArticles => self.article(window, is_end),
            WindowStart::Damaged(at_line_start) => {
                let span = damage_span(window, at_line_start, is_end);
                if span.is_ended && span.bytes == 0 {
                    self.state = WindowStart::BetweenArticles;
                    return self.step(window, is_end);
                }
                self.damage(window, span, |bytes| BatchFault::Unending { bytes })
            }
        };
        if let BatchStep::Skip(bytes) | BatchStep::Part(bytes, _) = step {
            self.at += bytes;
        }
        step
    }

    fn start<'a>(&mut self, window: &'a [u8], is_end: bool) -> BatchStep<'a> {
        let is_small = window.len() as u64 <= self.article_bytes_max;
        let (is_whole, is_full) = (is_end && is_small, window.len() >= self.window_bytes_max());
        match is_bare_article(window) {
            true if is_whole => return BatchStep::Part(window.len(), Ok(window)),
            true if !is_end && !is_full => return BatchStep::More,
            _ if !is_end && window.len() < LOOK_AHEAD_BYTES => return BatchStep::More,
            _ => self.state = WindowStart::BetweenArticles,
        }
        self.article(window, is_end)
    }

    fn article<'a>(&mut self, window: &'a [u8], is_end: bool) -> BatchStep<'a> {
        let Some((announced, line_bytes)) = rnews_line(window) else {
            if !is_end && window.len() < LOOK_AHEAD_BYTES {
                return BatchStep::More;
            }
            return self.damage(window, damage_span(window, true, is_end), |_| BatchFault::NotRnews);
        };
        if announced > self.article_bytes_max {
            let (start, present) = (self.at, 0);
            self.state = WindowStart::TooLarge { start, announced, present, at_line_start: true };
            return BatchStep::Skip(line_bytes);
        }
        let rest = window.get(line_bytes..).unwrap_or_default();
        let parts = usize::try_from(announced).ok().and_then(|n| rest.split_at_checked(n));
        if !is_end && parts.is_none_or(|(_, after)| after.len() < LOOK_AHEAD_BYTES) {
            return BatchStep::More;
        }
        if let Some((article, _)) = parts.filter(|(article, after)| can_end(article, after)) {
            self.state = WindowStart::BetweenArticles;
            return BatchStep::Part(line_bytes + article.len(), Ok(article));
        }
        let span = damage_span(rest, true, is_end);
        let is_cut_off = is_end && span.bytes == rest.len() && (span.bytes as u64) < announced;
        self.damage(window, DamagedSpan { bytes: line_bytes + span.bytes, ..span }, |bytes| {
            let present = bytes - line_bytes as u64;
            match is_cut_off {
                true => BatchFault::Truncated { announced, present },
                false => BatchFault::OtherLength { announced, present },
            }
        })
    }

    /// Returns a damaged piece, or as much of it as the window holds.
    fn damage<'a>(
        &mut self,
        window: &'a [u8],
        DamagedSpan { bytes, is_ended }: DamagedSpan,
        fault: impl FnOnce(u64) -> BatchFault,
    ) -> BatchStep<'a> {
        let piece = window.get(..bytes).unwrap_or_default();
        let damage = |fault| BatchDamage { at: self.at, piece, fault };
        if is_ended {
            let part = Err(damage(fault(bytes as u64)));
            self.state = WindowStart::BetweenArticles;
            return BatchStep::Part(bytes, part);
        }
        if window.len() < self.window_bytes_max() {
            return BatchStep::More;
        }
        let part = Err(damage(BatchFault::Unending { bytes: bytes as u64 }));
        self.state = WindowStart::Damaged(piece.ends_with(b"\n"));
        BatchStep::Part(bytes, part)
    }

    fn skip_article<'a>(&mut self, window: &'a [u8], is_end: bool) -> BatchStep<'a> {
        let WindowStart::TooLarge { start, announced, present, at_line_start } = &mut self.state else {
            return BatchStep::More;
        };
        let DamagedSpan { bytes, is_ended } = damage_span(window, *at_line_start, is_end);
        *present += bytes as u64;
        if is_ended {
            let fault = BatchFault::TooLarge { announced: *announced, present: *present };
            let part = Err(BatchDamage { at: *start, piece: &[], fault });
            self.state = WindowStart::BetweenArticles;
            return BatchStep::Part(bytes, part);
        }
        let Some(last) = window.get(..bytes).and_then(<[u8]>::last) else { return BatchStep::More };
        *at_line_start = *last == b'\n';
        BatchStep::Skip(bytes)
    }
}

/// Extent of a damaged piece at the beginning of a window.
#[derive(Clone, Copy)]
struct DamagedSpan {
    bytes: usize,
    /// Whether the piece ends there: at an `#! rnews N` line or at the end of the batch. Otherwise more of it
    /// may follow.
    is_ended: bool,
}

/// Returns the extent of the damage in `bytes`: up to the next `#! rnews N` line or the end of the batch; if
/// neither is known yet, the bytes that cannot be part of such a line.
fn damage_span(bytes: &[u8], at_line_start: bool, is_end: bool) -> DamagedSpan {
    let first = match at_line_start {
        true => Some(0),
        false => memchr::memchr(b'\n', bytes).map(|lf| lf + 1),
    };
    let found = first.map_or(bytes.len(), |first| first + next_line(bytes.get(first..).unwrap_or_default()));
    if is_end || found < bytes.len() {
        return DamagedSpan { bytes: found, is_ended: true };
    }
    let line = memchr::memrchr(b'\n', bytes).map(|lf| lf + 1).or(first).unwrap_or(bytes.len());
    let is_open = bytes.len() - line < LOOK_AHEAD_BYTES;
    DamagedSpan { bytes: if is_open { line } else { bytes.len() }, is_ended: false }
}

/// Returns whether `article` can be as long as announced, with `after` following it: the batch ends there or
/// the next article begins. Otherwise what follows is damaged, and the article is whole if it ends with a
/// line and contains no other article's beginning: if bytes were lost it would reach into the next one, if
/// bytes were inserted it would end within a line.
fn can_end(article: &[u8], after: &[u8]) -> bool {
    after.is_empty()
        || rnews_line(after).is_some()
        || (article.ends_with(b"\n") && next_line(article) == article.len())
}

/// Returns whether data that is not a batch is one article: it begins with a header, or contains no `#!
/// rnews` line.
fn is_bare_article(data: &[u8]) -> bool {
    let name_bytes = data.iter().take_while(|b| b.is_ascii_graphic() && **b != b':').count();
    let is_header = name_bytes > 0 && data.get(name_bytes) == Some(&b':');
    !data.starts_with(b"#!") && (is_header || next_line(data) == data.len())
}

/// Returns the position of the next `#! rnews N` line in `bytes`, at the start of a line; the end if there is
/// none.
fn next_line(bytes: &[u8]) -> usize {
    let is_line = |at: &usize| bytes.get(*at..).is_some_and(|rest| rnews_line(rest).is_some());
    let starts = std::iter::once(0).chain(memchr_iter(b'\n', bytes).map(|lf| lf + 1));
    starts.into_iter().find(is_line).unwrap_or(bytes.len())
}

/// Returns the announced size and the length of a `#! rnews N` line. Words after N are ignored, as C News
/// does.
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

    /// Returns the articles, and the positions and bytes of the damaged pieces.
    fn read(batch: &[u8]) -> (Vec<&[u8]>, Vec<Damaged<'_>>) {
        let (articles, damages) = rnews(batch).partition::<Vec<_>, _>(Result::is_ok);
        let damages = damages.into_iter().map(Result::unwrap_err).map(|damage| (damage.at, damage.piece));
        (articles.into_iter().map(Result::unwrap).collect(), damages.collect())
    }

    fn fault(batch: &[u8]) -> BatchFault {
        rnews(batch).find_map(Result::err).unwrap().fault
    }

    #[test]
    fn data_that_is_not_a_batch_is_damaged_as_a_whole() {
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
            // Bytes lost, bytes inserted, counts that are too small or too large.
            ("#! rnews 5\nB:\n", vec![a, c], 1),
            ("#! rnews 5\nB: 2222\n", vec![a, c], 1),
            ("#! rnews 4\nB: 2\n", vec![a, c], 1),
            ("#! rnews 500\nB: 2\n", vec![a, c], 1),
            // Damage to the `#! rnews` line itself: the article before it is whole.
            ("#? rnews 5\nB: 2\n", vec![a, c], 1),
            ("#! rnews 5", vec![a, c], 1),
            // Bytes between two articles.
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

    type Owned = (usize, Vec<u8>, BatchFault);

    fn owned(damage: BatchDamage<'_>) -> Owned {
        (damage.at, damage.piece.to_vec(), damage.fault)
    }

    /// Returns the parts of a batch that is read in pieces of these lengths, repeated.
    fn in_pieces(
        splitter: &mut BatchSplitter,
        batch: &[u8],
        lengths: &[usize],
    ) -> Vec<Result<Vec<u8>, Owned>> {
        let (mut parts, mut from, mut to) = (Vec::new(), 0, 0);
        let mut lengths = lengths.iter().cycle();
        loop {
            let bytes = match splitter.step(&batch[from..to], to == batch.len()) {
                BatchStep::More => {
                    assert!(to - from < splitter.window_bytes_max() && to < batch.len());
                    let next = to + lengths.next().unwrap();
                    to = next.min(from + splitter.window_bytes_max()).min(batch.len());
                    0
                }
                BatchStep::Skip(bytes) => bytes,
                BatchStep::Part(bytes, part) => {
                    parts.push(part.map(<[u8]>::to_vec).map_err(owned));
                    bytes
                }
                BatchStep::End => return parts,
            };
            from += bytes;
        }
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
        fn result_is_independent_of_the_pieces_read(
            parts in prop::collection::vec(
                prop_oneof![
                    Just(b"#! rnews 5\n".to_vec()),
                    Just(b"#! rnews 600\n".to_vec()),
                    Just(b"\n".to_vec()),
                    prop::collection::vec(any::<u8>(), 0..12),
                    prop::collection::vec(any::<u8>(), 590..610),
                ],
                0..20,
            ),
            lengths in prop::collection::vec(1..700_usize, 1..6),
        ) {
            let batch = parts.concat();
            let mut splitter = BatchSplitter::new(BATCHED_ARTICLE_BYTES_MAX);
            let read = in_pieces(&mut splitter, &batch, &lengths);
            let whole: Vec<_> = rnews(&batch).map(|part| part.map(<[u8]>::to_vec).map_err(owned)).collect();
            prop_assert_eq!(read, whole);
        }

        #[test]
        fn small_window_loses_only_articles_that_do_not_fit(
            sizes in prop::collection::vec(1..3_000_usize, 1..12),
            lengths in prop::collection::vec(1..700_usize, 1..6),
            garbage in 0..5_000_usize,
        ) {
            let text = |bytes: usize| [&b"x".repeat(bytes - 1)[..], b"\n"].concat();
            let mut batch = Vec::new();
            for bytes in &sizes {
                append_rnews_line(*bytes as u64, &mut batch);
                batch.extend_from_slice(&text(*bytes));
            }
            batch.extend_from_slice(&b"?".repeat(garbage));
            let mut splitter = BatchSplitter::new(1_000);
            let read = in_pieces(&mut splitter, &batch, &lengths);
            let articles: Vec<usize> = read.iter().flatten().map(Vec::len).collect();
            let small: Vec<usize> = sizes.iter().copied().filter(|bytes| *bytes <= 1_000).collect();
            // The article before the garbage may be damaged by it.
            prop_assert!(small.starts_with(&articles));
            prop_assert!(articles.len() + usize::from(garbage > 0) >= small.len());
            let faults: Vec<&Owned> = read.iter().filter_map(|part| part.as_ref().err()).collect();
            let is_larger = |fault: &&&Owned| matches!(fault.2, BatchFault::TooLarge { .. });
            prop_assert_eq!(faults.iter().filter(is_larger).count(), sizes.len() - small.len());
            let damaged: usize = faults.iter().map(|(_, piece, _)| piece.len()).sum();
            prop_assert!(damaged <= garbage + 1_100);
            prop_assert!(faults.iter().all(|(_, piece, _)| piece.len() <= splitter.window_bytes_max()));
        }

        #[test]
        fn damage_affects_only_articles_it_touches(
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
            // Data that does not begin like a batch is taken for a single article, so the first line is not
            // damaged.
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
