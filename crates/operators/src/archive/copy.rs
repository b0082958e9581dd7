//! A copy of an article for an archive.

use disk::ReadMode;
use netnews::nntp::wire;
use spool::{ArticleBuf, ArticleKey, Lookup, SpoolReader, Token};

/// An article to be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveCopy {
    /// Key of its Message-ID.
    pub key: ArticleKey,
    /// Time of arrival, in Unix seconds.
    pub arrived: u64,
    /// Groups of the article that the archive is for, with its numbers there; at least one.
    pub numbers: Vec<(String, u64)>,
    /// The article as stored in files: lines end in LF, no dot-stuffing.
    pub text: Vec<u8>,
}

impl ArchiveCopy {
    /// Creates a copy of the article in `buf`.
    pub fn of(key: ArticleKey, numbers: Vec<(String, u64)>, buf: &ArticleBuf) -> Self {
        let article = buf.article();
        let mut text = Vec::new();
        wire::to_text(article.strip_suffix(b".\r\n").unwrap_or(article), &mut text);
        Self { key, arrived: buf.arrived(), numbers, text }
    }
}

/// Returns whether the author asks for no archiving: `Archive: no` (RFC 5536 section 3.2.2), or Google's
/// `X-No-Archive: yes`.
pub(super) fn declines(head: &[u8]) -> bool {
    head.split(|b| *b == b'\n').any(|line| {
        let Some(colon) = memchr::memchr(b':', line) else { return false };
        let (name, value) = line.split_at(colon);
        let word = value.split(|b| b": ;\t\r".contains(b)).find(|word| !word.is_empty()).unwrap_or_default();
        name.eq_ignore_ascii_case(b"archive") && word.eq_ignore_ascii_case(b"no")
            || name.eq_ignore_ascii_case(b"x-no-archive") && word.eq_ignore_ascii_case(b"yes")
    })
}

/// Result of reading a token.
#[derive(Debug)]
pub(super) enum CopyOutcome {
    /// The article was read.
    Here,
    /// The article was cancelled or is hidden (CN-25), or its author declines: it is not for archives.
    Withdrawn,
    /// The article was overwritten, has expired, or cannot be read.
    Lost,
}

/// Reads an article; with `asks`, respects authors who decline.
pub(super) fn fetch(
    reader: &SpoolReader<'_>,
    asks: bool,
    key: &ArticleKey,
    token: &Token,
    buf: &mut ArticleBuf,
) -> CopyOutcome {
    match reader.read(token, Some(key), ReadMode::Wait, buf) {
        Ok(true) if asks && declines(buf.head()) => CopyOutcome::Withdrawn,
        Ok(true) => CopyOutcome::Here,
        Ok(false) if matches!(reader.lookup(key), Lookup::Remembered | Lookup::Hidden(_)) => {
            CopyOutcome::Withdrawn
        }
        Ok(false) | Err(_) => CopyOutcome::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::declines;

    #[test]
    fn authors_may_decline() {
        for head in ["a: b\r\nArchive: no", "archive:no;filename=x\r\n", "X-No-Archive: Yes\r\nb: c"] {
            assert!(declines(head.as_bytes()), "{head}");
        }
        for head in
            ["Archive: yes", "Subject: Archive: no", "X-No-Archive: no", "Archive: nothing", "Archive"]
        {
            assert!(!declines(head.as_bytes()), "{head}");
        }
    }
}
