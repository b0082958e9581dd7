//! Reading of a batch: a window of it, split into parcels of articles and damaged pieces.
//!
//! A parcel is filed as one unit: it ends when it is large enough, and before any wait for input. The
//! window is bounded by the largest article. Called by `newsreel rnews` and by the task that files waiting
//! batches.

use std::io::{self, Read};
use std::ops::Range;

use netnews::batch::{BatchFault, BatchSplitter, BatchStep};
use netnews::nntp::wire::dot_stuff;

use super::unpack::UnpackedBatch;

/// Smallest size of a read, in bytes: a parcel of short articles.
const READ_BYTES: usize = 1 << 20;
/// Most articles and damaged pieces in one parcel.
const PARCEL_PIECES_MAX: usize = 512;

/// A batch being read.
pub struct BatchReader {
    source: UnpackedBatch,
    splitter: BatchSplitter,
    window: Vec<u8>,
    /// Bytes of the window already consumed.
    consumed: usize,
    /// Offset of the window in the batch.
    at: u64,
    is_end: bool,
    damage: Option<String>,
}

/// Consecutive articles and damaged pieces of a batch.
#[derive(Default)]
pub struct BatchParcel {
    /// Octets as they stand in the batch.
    raw: Vec<u8>,
    /// The articles in wire format.
    wire: Vec<u8>,
    pieces: Vec<PieceSpan>,
}

struct PieceSpan {
    at: u64,
    raw: Range<usize>,
    wire: Range<usize>,
    fault: Option<BatchFault>,
}

/// An article or a damaged piece of a parcel.
pub struct ParcelPiece<'a> {
    /// Offset in the decompressed batch.
    pub at: u64,
    /// Octets as they stand in the batch.
    pub raw: &'a [u8],
    /// Defect of a damaged piece; `None` for an article.
    pub fault: Option<BatchFault>,
}

impl BatchParcel {
    /// Returns its articles, in wire format without the final `.` line.
    pub fn wires(&self) -> Vec<&[u8]> {
        let articles = self.pieces.iter().filter(|piece| piece.fault.is_none());
        articles.map(|piece| self.wire.get(piece.wire.clone()).unwrap_or_default()).collect()
    }

    /// Returns whether it has articles, not only damaged pieces.
    pub fn has_articles(&self) -> bool {
        self.pieces.iter().any(|piece| piece.fault.is_none())
    }

    /// Returns all articles and damaged pieces, in order.
    pub fn pieces(&self) -> impl Iterator<Item = ParcelPiece<'_>> {
        self.pieces.iter().map(|PieceSpan { at, raw, fault, .. }| ParcelPiece {
            at: *at,
            raw: self.raw.get(raw.clone()).unwrap_or_default(),
            fault: *fault,
        })
    }
}

impl BatchReader {
    /// Opens a batch at its beginning, compressed or not; larger articles are only measured.
    pub fn new(source: Box<dyn Read + Send>, article_bytes_max: u64) -> Self {
        Self {
            source: UnpackedBatch::new(source),
            splitter: BatchSplitter::new(article_bytes_max),
            window: Vec::new(),
            consumed: 0,
            at: 0,
            is_end: false,
            damage: None,
        }
    }

    /// Returns why the batch ends early: it could not be decompressed beyond that point.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Returns the next parcel, which is never empty; `None` at the end.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub fn next_parcel(&mut self) -> io::Result<Option<BatchParcel>> {
        let mut parcel = BatchParcel::default();
        loop {
            let at = self.at + self.consumed as u64;
            let window = self.window.get(self.consumed..).unwrap_or_default();
            let (bytes, piece) = match self.splitter.step(window, self.is_end) {
                BatchStep::More if parcel.pieces.is_empty() => {
                    self.read_on()?;
                    continue;
                }
                BatchStep::More => return Ok(Some(self.complete(parcel))),
                BatchStep::End => break,
                BatchStep::Skip(bytes) => (bytes, None),
                BatchStep::Part(bytes, Ok(article)) => {
                    if parcel.pieces.is_empty() {
                        // Dot-stuffing makes lines one octet longer.
                        parcel.wire.reserve(window.len() + window.len() / 32);
                    }
                    let start = parcel.wire.len();
                    dot_stuff(article, &mut parcel.wire);
                    // The article is the last part of the octets its step consumes.
                    let raw = self.consumed + bytes - article.len()..self.consumed + bytes;
                    (bytes, Some(PieceSpan { at, raw, wire: start..parcel.wire.len(), fault: None }))
                }
                BatchStep::Part(bytes, Err(damage)) => {
                    let raw = self.consumed..self.consumed + damage.piece.len();
                    let (at, fault) = (damage.at as u64, Some(damage.fault));
                    (bytes, Some(PieceSpan { at, raw, wire: 0..0, fault }))
                }
            };
            self.consumed += bytes;
            parcel.pieces.extend(piece);
            if parcel.pieces.len() >= PARCEL_PIECES_MAX {
                break;
            }
        }
        Ok((!parcel.pieces.is_empty()).then(|| self.complete(parcel)))
    }

    /// Moves the consumed part of the window into the parcel made from it.
    fn complete(&mut self, mut parcel: BatchParcel) -> BatchParcel {
        let rest = self.window.get(self.consumed..).unwrap_or_default().to_vec();
        self.at += self.consumed as u64;
        self.consumed = 0;
        parcel.raw = std::mem::replace(&mut self.window, rest);
        parcel
    }

    /// Reads available input, at most as much again as the window holds, so that scanning the window
    /// repeatedly costs little.
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
        match read {
            Err(error) if self.source.has_failed() => return Err(error),
            Err(error) => {
                self.damage = Some(error.to_string());
                self.is_end = true;
            }
            Ok(read) => self.is_end = read == 0,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::unpack;
    use super::*;
    use std::io::Cursor;

    fn batch(articles: usize) -> Vec<u8> {
        let article = |n: usize| format!("Subject: {n}\n\n{}\n.\n", "x".repeat(n % 300));
        (0..articles)
            .map(article)
            .map(|text| format!("#! rnews {}\n{text}", text.len()))
            .collect::<String>()
            .into()
    }

    fn parcels(batch: Vec<u8>) -> (Vec<BatchParcel>, Option<String>) {
        let mut batch = BatchReader::new(Box::new(Cursor::new(batch)), 1 << 20);
        let parcels = std::iter::from_fn(|| batch.next_parcel().unwrap()).collect();
        (parcels, batch.damage().map(str::to_owned))
    }

    #[test]
    fn parcels_hold_the_articles_in_order() {
        let plain = batch(3_000);
        let wanted: Vec<Vec<u8>> = netnews::batch::rnews(&plain).map(|part| part.unwrap().to_vec()).collect();
        for (line, packed) in unpack::tests::packed(&plain).into_iter().chain([("", plain.clone())]) {
            let (parcels, damage) = parcels([line.as_bytes(), &packed].concat());
            assert_eq!(damage, None);
            assert!(parcels.len() >= 3_000 / PARCEL_PIECES_MAX);
            let raw: Vec<Vec<u8>> =
                parcels.iter().flat_map(BatchParcel::pieces).map(|piece| piece.raw.to_vec()).collect();
            assert_eq!(raw, wanted, "{line}");
            let wires: Vec<&[u8]> = parcels.iter().flat_map(BatchParcel::wires).collect();
            assert!(wires.len() == 3_000 && wires.iter().all(|wire| wire.ends_with(b"\r\n..\r\n")));
            for piece in parcels.iter().flat_map(BatchParcel::pieces) {
                let line = format!("#! rnews {}\n", piece.raw.len());
                assert!(plain[piece.at as usize..].starts_with(&[line.as_bytes(), piece.raw].concat()));
            }
        }
    }

    #[test]
    fn articles_before_the_damage_are_read() {
        let plain = batch(3_000);
        let gzip = unpack::tests::packed(&plain).swap_remove(1).1;
        let (parcels, damage) = parcels(gzip[..gzip.len() / 2].to_vec());
        let articles: usize = parcels.iter().map(|parcel| parcel.wires().len()).sum();
        assert!((100..2_900).contains(&articles) && damage.is_some(), "{articles}, {damage:?}");
    }
}
