//! One article in memory, as it was read from its volume, and the parts of it that commands send.

use crate::method::cnfs::record::{HEADER_BYTES, RecordHeader};

/// The part of an article a reader wants; decides nothing about what is read and checked, only what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Headers and body.
    Article,
    /// Headers.
    Head,
    /// Body.
    Body,
    /// Nothing but the Message-ID.
    Stat,
}

/// A reusable buffer that holds one article as stored.
#[derive(Debug, Default)]
pub struct ArticleBuf {
    pub(crate) bytes: Vec<u8>,
    /// What a compressed article was read into.
    pub(crate) raw: Vec<u8>,
    pub(crate) header: Option<RecordHeader>,
}

impl ArticleBuf {
    fn data(&self) -> &[u8] {
        self.bytes.get(HEADER_BYTES..).unwrap_or_default()
    }

    fn header_bytes(&self) -> usize {
        self.header.map_or(0, |h| h.header_bytes as usize)
    }

    /// Its Message-ID.
    pub fn message_id(&self) -> &[u8] {
        let Some(h) = self.header else { return &[] };
        let at = h.message_id_at as usize;
        self.data().get(at..at + usize::from(h.message_id_bytes)).unwrap_or_default()
    }

    /// The article in wire format with the final `.`-line, Xref first.
    pub fn article(&self) -> &[u8] {
        self.data()
    }

    /// The header lines, without the blank line.
    pub fn head(&self) -> &[u8] {
        self.data().get(..self.header_bytes().saturating_sub(2)).unwrap_or_default()
    }

    /// The body in wire format with the final `.`-line.
    pub fn body(&self) -> &[u8] {
        self.data().get(self.header_bytes()..).unwrap_or_default()
    }

    /// The part of it that a command sends, in wire format with the final `.`-line but for [`Part::Head`], whose
    /// `.`-line the caller adds.
    pub fn part(&self, part: Part) -> &[u8] {
        match part {
            Part::Article => self.article(),
            Part::Head => self.head(),
            Part::Body => self.body(),
            Part::Stat => &[],
        }
    }

    /// When it arrived, Unix seconds.
    pub fn arrived(&self) -> u64 {
        self.header.map_or(0, |h| u64::from(h.arrived))
    }

    /// Memory held, in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.raw.capacity()
    }

    /// Gives memory back beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        if self.capacity() > bytes {
            *self = Self::default();
        }
    }
}
