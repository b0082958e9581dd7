//! Kinds of input that a session expects next.
//!
//! Changed by `rounds`; read by `pace` and `reception`, whose limits depend on it.

use super::budget::NoArticleMemory;
use super::commands::takethis_id;
use super::xbatch::Xbatch;

/// Discarded bytes that a search for an article's end must see again.
pub(super) const END_OVERLAP_BYTES: usize = 5;

/// The kind of the next bytes.
#[derive(Debug)]
pub(super) enum ExpectedInput {
    /// A command line.
    Command,
    /// A line of a SASL exchange.
    SaslResponse,
    /// The rest of a command line that was too long.
    LineEnd,
    /// Octets of a batch.
    Batch(Box<Xbatch>),
    /// An article.
    Article {
        way: ArticleCommand,
        /// Offset of the article from the start of its command line, which is kept in the buffer; 0 if the
        /// line is not.
        head: usize,
        /// Offset in the article at which to resume the search for its end.
        resume_from: usize,
    },
    /// The rest of an article that is discarded.
    ArticleEnd { way: ArticleCommand, id: Box<[u8]>, why: DiscardReason },
}

/// The reason why an article is discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiscardReason {
    TooLarge,
    /// The client may not send it.
    NotPermitted,
    NoRoom(NoArticleMemory),
}

/// The command that brings an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArticleCommand {
    Takethis,
    Ihave,
    Post,
}

impl ExpectedInput {
    /// Returns the state for an article at this offset from the start of its command line.
    pub fn article_behind(head: usize) -> Self {
        Self::Article { way: ArticleCommand::Takethis, head, resume_from: 0 }
    }

    /// Returns true if an article is under way.
    pub fn is_article(&self) -> bool {
        matches!(self, Self::Article { .. } | Self::ArticleEnd { .. } | Self::Batch(_))
    }

    /// Returns true if an article is under way that the client posts.
    pub fn is_post(&self) -> bool {
        matches!(self, Self::Article { way: ArticleCommand::Post, .. })
    }

    /// Returns true if bytes are not kept in the buffer.
    pub fn is_skipping(&self) -> bool {
        matches!(self, Self::LineEnd | Self::ArticleEnd { .. } | Self::Batch(_))
    }

    /// Discards the article whose command line is at `at` from here on; returns the end of the bytes handled.
    pub fn discard_article(&mut self, buffer: &[u8], at: usize, why: DiscardReason) -> usize {
        let Self::Article { way, head, .. } = *self else { return at };
        let id = takethis_id(buffer, at, head).into();
        *self = Self::ArticleEnd { way, id, why };
        buffer.len().saturating_sub(END_OVERLAP_BYTES).max(at)
    }
}
