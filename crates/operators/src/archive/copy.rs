//! A copy of an article, as archives take it.

use disk::Patience;
use netnews::nntp::wire;
use spool::{ArticleBuf, Key, Lookup, Spool, Token};

/// An article that is to be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    pub key: Key,
    /// When it arrived, Unix seconds.
    pub arrived: u64,
    /// Its groups that the archive is for, with its numbers there; at least one.
    pub numbers: Vec<(String, u64)>,
    /// The article as files have it: lines end in LF, no dot-stuffing.
    pub text: Vec<u8>,
}

impl Copy {
    /// Of what was read.
    pub fn of(key: Key, numbers: Vec<(String, u64)>, buf: &ArticleBuf) -> Self {
        let article = buf.article();
        let mut text = Vec::new();
        wire::to_text(article.strip_suffix(b".\r\n").unwrap_or(article), &mut text);
        Self { key, arrived: buf.arrived(), numbers, text }
    }
}

/// Whether its author asks that an article be in no archive: `Archive: no` (RFC 5536 section 3.2.2), or
/// `X-No-Archive: yes`, as Google has it.
pub(super) fn declines(head: &[u8]) -> bool {
    head.split(|b| *b == b'\n').any(|line| {
        let Some(colon) = memchr::memchr(b':', line) else { return false };
        let (name, value) = line.split_at(colon);
        let word = value.split(|b| b": ;\t\r".contains(b)).find(|word| !word.is_empty()).unwrap_or_default();
        name.eq_ignore_ascii_case(b"archive") && word.eq_ignore_ascii_case(b"no")
            || name.eq_ignore_ascii_case(b"x-no-archive") && word.eq_ignore_ascii_case(b"yes")
    })
}

/// What was found at a token.
#[derive(Debug)]
pub(super) enum Found {
    /// The article.
    Here,
    /// It was cancelled or is hidden (CN-25), or its author declines: it is not for archives.
    Withdrawn,
    /// It was overwritten or has expired, or cannot be read.
    Lost,
}

/// Reads an article; with `asks`, one whose author may decline.
pub(super) fn fetch(spool: &Spool, asks: bool, (key, token): (&Key, &Token), buf: &mut ArticleBuf) -> Found {
    match spool.read(token, Some(key), Patience::Wait, buf) {
        Ok(true) if asks && declines(buf.head()) => Found::Withdrawn,
        Ok(true) => Found::Here,
        Ok(false) if matches!(spool.lookup(key), Lookup::Remembered | Lookup::Hidden(_)) => Found::Withdrawn,
        Ok(false) | Err(_) => Found::Lost,
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
