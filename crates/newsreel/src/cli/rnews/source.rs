//! A batch as it is read: a window of it, and the articles and damaged pieces that come out.

use std::io::{self, Read};

use netnews::batch::{BatchFault, Splitter, Step};

/// Read at least at once, in bytes.
const READ_BYTES: usize = 64 << 10;

/// A batch.
pub(super) struct Batch {
    source: Box<dyn Read + Send>,
    splitter: Splitter,
    window: Vec<u8>,
    /// Bytes of the window that are consumed.
    consumed: usize,
    /// Offset of the window in the batch.
    at: u64,
    is_end: bool,
}

/// A part of a batch, and where it begins.
pub(super) struct Part {
    pub at: u64,
    pub bytes: Vec<u8>,
    /// What is wrong with a damaged piece; `None` for an article.
    pub fault: Option<BatchFault>,
}

impl Batch {
    /// A batch from its beginning; of larger articles only the size is looked at.
    pub fn new(source: Box<dyn Read + Send>, article_bytes_max: u64) -> Self {
        let splitter = Splitter::new(article_bytes_max);
        Self { source, splitter, window: Vec::new(), consumed: 0, at: 0, is_end: false }
    }

    /// The next part; `None` at the end.
    pub fn next(&mut self) -> io::Result<Option<Part>> {
        loop {
            let window = self.window.get(self.consumed..).unwrap_or_default();
            let at = self.at + self.consumed as u64;
            match self.splitter.step(window, self.is_end) {
                Step::More => self.read_on()?,
                Step::Skip(bytes) => self.consumed += bytes,
                Step::Part(bytes, Ok(article)) => {
                    let part = Part { at, bytes: article.to_vec(), fault: None };
                    self.consumed += bytes;
                    return Ok(Some(part));
                }
                Step::Part(bytes, Err(damage)) => {
                    let (at, piece) = (damage.at as u64, damage.piece.to_vec());
                    self.consumed += bytes;
                    return Ok(Some(Part { at, bytes: piece, fault: Some(damage.fault) }));
                }
                Step::End => return Ok(None),
            }
        }
    }

    /// Reads what there is, at most as much again as the window holds, so that looking at it again and again costs
    /// little.
    fn read_on(&mut self) -> io::Result<()> {
        self.at += self.consumed as u64;
        self.window.drain(..self.consumed);
        self.consumed = 0;
        let len = self.window.len();
        let room = self.splitter.window_bytes_max().saturating_sub(len);
        self.window.resize(len + len.max(READ_BYTES).min(room.max(1)), 0);
        let read = loop {
            match self.source.read(self.window.get_mut(len..).unwrap_or_default()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.window.truncate(len + read.as_ref().map_or(0, |read| *read));
        self.is_end = read? == 0;
        Ok(())
    }
}
