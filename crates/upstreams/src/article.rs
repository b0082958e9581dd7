//! An article as returned by a source: its head whole, its body whole or as far as it has arrived.

use super::Answer;
use memchr::memmem;
use netnews::article::content_of;
use netnews::newsgroups;
use std::convert::Infallible;
use std::ops::Range;

/// Part of an article wanted by a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArticlePart {
    /// Head and body.
    Article,
    /// The header lines.
    Head,
    /// The body.
    Body,
    /// The part present here, to be counted: the whole article, or only the headers if there is no body.
    Counted,
}

/// Result of reading an article.
#[derive(Debug)]
pub enum Fetched<R> {
    /// There is none (any more).
    Missing,
    /// The article is complete.
    Whole,
    /// The head is complete, and the body as far as it has arrived; the rest is still to come.
    Begun(R),
}

/// Further pieces of an article, in wire format, to be concatenated.
pub type More<'a> = [&'a [u8]; 3];

/// The rest of an article that is still arriving. Dropped when no reader waits for it any longer.
pub trait Remainder: Send {
    /// Waits for more, ending with the final `.`-line; returns `None` at the end.
    fn next(&mut self) -> impl Future<Output = Answer<Option<More<'_>>>> + Send;
}

/// For sources whose articles are always whole.
impl Remainder for Infallible {
    async fn next(&mut self) -> Answer<Option<More<'_>>> {
        match *self {}
    }
}

/// Offsets in the buffer of an [`ArticleBytes`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArticleLayout {
    /// Start of the article.
    pub article_at: usize,
    /// Start of its body: after the empty line.
    pub body_at: usize,
    /// Range of its Message-ID.
    pub message_id: Range<usize>,
}

/// A reusable buffer with one article in wire format: CRLF lines, dots doubled, a final `.`-line.
#[derive(Debug, Default)]
pub struct ArticleBytes {
    bytes: Vec<u8>,
    /// Second buffer, for sources that read into one and decode into the other.
    scratch: Vec<u8>,
    layout: ArticleLayout,
}

impl ArticleBytes {
    /// Sets the article, or as much of it as there is, which must include all of its head.
    pub fn set(&mut self, message_id: &[u8], wire: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(message_id);
        self.bytes.extend_from_slice(wire);
        let head = memmem::find(wire, b"\r\n\r\n").map_or(wire.len(), |at| at + 4);
        let id = message_id.len();
        self.layout = ArticleLayout { article_at: id, body_at: id + head, message_id: 0..id };
    }

    /// Takes both buffers out, to read into them; to be returned with [`ArticleBytes::put`].
    pub fn take(&mut self) -> (Vec<u8>, Vec<u8>) {
        self.layout = ArticleLayout::default();
        (std::mem::take(&mut self.bytes), std::mem::take(&mut self.scratch))
    }

    /// Puts in a buffer with an article in this layout, and a second one of which only the memory is kept.
    pub fn put(&mut self, bytes: Vec<u8>, scratch: Vec<u8>, layout: ArticleLayout) {
        *self = Self { bytes, scratch, layout };
    }

    /// Waits for the rest of the article.
    pub async fn complete(&mut self, mut rest: impl Remainder) -> Answer<()> {
        while let Some(parts) = rest.next().await? {
            parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        }
        Ok(())
    }

    /// Returns the Message-ID.
    pub fn message_id(&self) -> &[u8] {
        self.bytes.get(self.layout.message_id.clone()).unwrap_or_default()
    }

    /// Returns head and body.
    pub fn article(&self) -> &[u8] {
        self.bytes.get(self.layout.article_at..).unwrap_or_default()
    }

    /// Returns the header lines, without the empty line.
    pub fn head(&self) -> &[u8] {
        self.bytes.get(self.layout.article_at..self.layout.body_at.saturating_sub(2)).unwrap_or_default()
    }

    /// Returns the body.
    pub fn body(&self) -> &[u8] {
        self.bytes.get(self.layout.body_at..).unwrap_or_default()
    }

    /// Returns this part. [`ArticlePart::Head`] has no final `.`-line.
    pub fn part(&self, part: ArticlePart) -> &[u8] {
        match part {
            ArticlePart::Article | ArticlePart::Counted => self.article(),
            ArticlePart::Head => self.head(),
            ArticlePart::Body => self.body(),
        }
    }

    /// Returns the memory held, in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.scratch.capacity()
    }
}

/// Returns the groups in the Newsgroups header.
pub fn newsgroups_of(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    newsgroups::split(content_of(head, b"Newsgroups").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIRE: &[u8] = b"Path: x\r\nMessage-ID: <a@b>\r\n\r\nBody\r\n.\r\n";

    fn check(article: &ArticleBytes) {
        assert_eq!(article.message_id(), b"<a@b>");
        assert_eq!(article.part(ArticlePart::Article), WIRE);
        assert_eq!(article.part(ArticlePart::Head), b"Path: x\r\nMessage-ID: <a@b>\r\n");
        assert_eq!(article.part(ArticlePart::Body), b"Body\r\n.\r\n");
    }

    #[test]
    fn parts_of_an_article() {
        let mut article = ArticleBytes::default();
        assert!(article.article().is_empty() && article.head().is_empty() && article.message_id().is_empty());
        article.set(b"<a@b>", WIRE);
        check(&article);
        let (mut bytes, scratch) = article.take();
        assert!(article.article().is_empty());
        bytes.clear();
        bytes.extend_from_slice(b"xyz");
        bytes.extend_from_slice(WIRE);
        article.put(bytes, scratch, ArticleLayout { article_at: 3, body_at: 33, message_id: 24..29 });
        check(&article);
    }

    #[test]
    fn a_layout_beyond_the_bytes_is_empty() {
        let mut article = ArticleBytes::default();
        let layout = ArticleLayout { article_at: 9, body_at: 4, message_id: 7..90 };
        article.put(b"abcdef".to_vec(), Vec::new(), layout);
        assert!(article.article().is_empty() && article.head().is_empty() && article.message_id().is_empty());
        assert_eq!(article.body(), b"ef");
    }
}
