//! One article in memory, as it was read from its volume, and its parts.

use crate::base::xref::XREF_NAME;
use crate::method::cnfs::record::{HEADER_BYTES, RecordHeader};
use std::ops::Range;

/// A reusable buffer that holds one article as stored.
#[derive(Debug, Default)]
pub struct ArticleBuf {
    pub(crate) bytes: Vec<u8>,
    /// What a compressed article was read into.
    pub(crate) raw: Vec<u8>,
    pub(crate) header: Option<RecordHeader>,
}

impl ArticleBuf {
    /// A buffer that reads into these two, whose contents do not matter.
    pub fn from_buffers((bytes, raw): (Vec<u8>, Vec<u8>)) -> Self {
        Self { bytes, raw, header: None }
    }

    /// The buffers it was made from; the first one holds what was read, as [`ArticleBuf::layout`] says.
    pub fn into_buffers(self) -> (Vec<u8>, Vec<u8>) {
        (self.bytes, self.raw)
    }

    /// Where in the first buffer the article starts, where its body, and where its Message-ID is. An Xref
    /// line without any place, as articles without numbers have it, is left out (RFC 5536 section 3.2.14).
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

    /// The article as readers are sent it, with the final `.`-line: see [`ArticleBuf::layout`].
    pub fn shown(&self) -> &[u8] {
        self.bytes.get(self.layout().0..).unwrap_or_default()
    }

    /// Its position in the order of all articles of the spool, which no other article has.
    pub fn sequence(&self) -> u64 {
        self.header.map_or(0, |h| h.sequence)
    }

    /// When it arrived, Unix seconds.
    pub fn arrived(&self) -> u64 {
        self.header.map_or(0, |h| u64::from(h.arrived))
    }

    /// Memory held, in bytes.
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

/// Length of the Xref line that an article begins with, if it names our server and nothing else.
fn empty_xref_bytes(data: &[u8]) -> usize {
    let Some(end) = memchr::memchr(b'\n', data) else { return 0 };
    let line = data.get(..end).unwrap_or_default();
    let is_empty = line.strip_prefix(XREF_NAME).is_some_and(|value| !value.contains(&b' '));
    if is_empty { end + 1 } else { 0 }
}
