//! An article in memory, as read from its volume, and its parts.

use spool_base::xref::XREF_NAME;
use spool_methods::cnfs::record::{HEADER_BYTES, RecordHeader};
use std::ops::Range;

/// A reusable buffer that holds one article as stored.
#[derive(Debug, Default)]
pub struct ArticleBuf {
    pub(crate) bytes: Vec<u8>,
    /// Buffer that a compressed article is read into.
    pub(crate) raw: Vec<u8>,
    pub(crate) header: Option<RecordHeader>,
}

impl ArticleBuf {
    /// Creates an article buffer from two byte buffers, whose contents are ignored.
    pub fn from_buffers(bytes: Vec<u8>, raw: Vec<u8>) -> Self {
        Self { bytes, raw, header: None }
    }

    /// Returns the byte buffers; the first one holds the article, as described by [`ArticleBuf::layout`].
    pub fn into_buffers(self) -> (Vec<u8>, Vec<u8>) {
        (self.bytes, self.raw)
    }

    /// Returns the offsets in the first buffer of the article and of its body, and the range of its
    /// Message-ID. An Xref line without any group, as in articles without numbers, is left out (RFC 5536
    /// section 3.2.14).
    pub fn layout(&self) -> (usize, usize, Range<usize>) {
        let Some(h) = self.header else { return Default::default() };
        let id = HEADER_BYTES + h.message_id_at as usize;
        (
            HEADER_BYTES + empty_xref_bytes(self.data()),
            HEADER_BYTES + self.header_bytes(),
            id..id + usize::from(h.message_id_bytes),
        )
    }

    fn data(&self) -> &[u8] {
        self.bytes.get(HEADER_BYTES..).unwrap_or_default()
    }

    fn header_bytes(&self) -> usize {
        self.header.map_or(0, |h| h.header_bytes as usize)
    }

    /// Returns the Message-ID.
    pub fn message_id(&self) -> &[u8] {
        let Some(h) = self.header else { return &[] };
        let at = h.message_id_at as usize;
        self.data().get(at..at + usize::from(h.message_id_bytes)).unwrap_or_default()
    }

    /// Returns the article in wire format with the final `.` line, Xref first.
    pub fn article(&self) -> &[u8] {
        self.data()
    }

    /// Returns the header lines, without the blank line.
    pub fn head(&self) -> &[u8] {
        self.data().get(..self.header_bytes().saturating_sub(2)).unwrap_or_default()
    }

    /// Returns the body in wire format with the final `.` line.
    pub fn body(&self) -> &[u8] {
        self.data().get(self.header_bytes()..).unwrap_or_default()
    }

    /// Returns the article as sent to readers, with the final `.` line: see [`ArticleBuf::layout`].
    pub fn shown(&self) -> &[u8] {
        self.bytes.get(self.layout().0..).unwrap_or_default()
    }

    /// Returns the article's sequence number, which is unique in the spool.
    pub fn sequence(&self) -> u64 {
        self.header.map_or(0, |h| h.sequence)
    }

    /// Returns the time of arrival, in Unix seconds.
    pub fn arrived(&self) -> u64 {
        self.header.map_or(0, |h| u64::from(h.arrived))
    }

    /// Returns the memory held, in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.raw.capacity()
    }

    /// Frees memory beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        if self.capacity() > bytes {
            *self = Self::default();
        }
    }
}

/// Returns the length of the Xref line that an article begins with, if it names only our server.
fn empty_xref_bytes(data: &[u8]) -> usize {
    let Some(end) = memchr::memchr(b'\n', data) else { return 0 };
    let line = data.get(..end).unwrap_or_default();
    let is_empty = line.strip_prefix(XREF_NAME).is_some_and(|value| !value.contains(&b' '));
    if is_empty { end + 1 } else { 0 }
}
