//! Compression and decompression of one article: zstd with per-thread contexts.

use std::cell::RefCell;
use zstd::zstd_safe::{CCtx, CDict, DCtx, DDict, compress_bound};

/// Length of the dictionary id and article length before the Xref line.
pub(super) const PREFIX_BYTES: usize = 8;
/// Beginning of every frame, which is left out of records (RFC 8878 3.1.1).
const FRAME_MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
/// Articles shorter than this are not worth compressing.
const ARTICLE_BYTES_MIN: usize = 128;
/// Longest article that decompression will produce.
const ARTICLE_BYTES_MAX: usize = 1 << 31;

thread_local! {
    static COMPRESSING: RefCell<(CCtx<'static>, Vec<u8>)> = RefCell::new((CCtx::create(), Vec::new()));
    static DECOMPRESSING: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// Appends `text` as one zstd frame; returns false if compression fails.
pub fn put_frame(text: &[u8], level: i32, out: &mut Vec<u8>) -> bool {
    COMPRESSING.with_borrow_mut(|(context, frame)| {
        frame.clear();
        frame.reserve(compress_bound(text.len()));
        let done = context.compress(frame, text, level).is_ok();
        out.extend_from_slice(if done { frame } else { &[] });
        done
    })
}

/// Fills `target` from a frame; returns false if its content has another length, or is invalid.
pub fn read_frame(frame: &[u8], target: &mut [u8]) -> bool {
    DECOMPRESSING.with_borrow_mut(|context| context.decompress(target, frame)) == Ok(target.len())
}

/// A compressed article on its way to its record.
#[derive(Debug)]
pub struct PackedArticle {
    /// Class that it was compressed for.
    pub class: usize,
    dictionary: u32,
    wire_bytes: u32,
    /// Frame, including the magic number.
    frame: Vec<u8>,
}

impl PackedArticle {
    /// Returns the length of the record's data, without the Xref line.
    pub fn data_bytes(&self) -> usize {
        PREFIX_BYTES + self.frame.len() - FRAME_MAGIC.len()
    }

    /// Appends the record's data except for the frame, which follows the Xref line.
    pub fn put_prefix(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.dictionary.to_le_bytes());
        out.extend_from_slice(&self.wire_bytes.to_le_bytes());
    }

    /// Appends the frame.
    pub fn put_frame(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.frame.get(FRAME_MAGIC.len()..).unwrap_or_default());
    }
}

/// Compresses an article passed in pieces; `None` if that does not make it shorter.
pub(super) fn compress(
    class: usize,
    pieces: &[&[u8]],
    with: Option<(u32, &CDict<'static>)>,
    level: i32,
) -> Option<PackedArticle> {
    COMPRESSING.with_borrow_mut(|(context, joined)| {
        joined.clear();
        pieces.iter().for_each(|p| joined.extend_from_slice(p));
        let wire_bytes = u32::try_from(joined.len()).ok()?;
        if joined.len() < ARTICLE_BYTES_MIN || joined.len() > ARTICLE_BYTES_MAX {
            return None;
        }
        let mut frame = Vec::with_capacity(compress_bound(joined.len()));
        let (dictionary, done) = match with {
            Some((id, cdict)) => (id, context.compress_using_cdict(&mut frame, joined, cdict)),
            None => (0, context.compress(&mut frame, joined, level)),
        };
        done.ok()?;
        let packed = PackedArticle { class, dictionary, wire_bytes, frame };
        (packed.data_bytes() < joined.len()).then_some(packed)
    })
}

/// The beginning of a compressed record's data.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackedPrefix {
    /// Id of the dictionary; 0: none.
    pub dictionary: u32,
    /// Length of the article.
    pub wire_bytes: usize,
    /// Offset at which the Xref line ends and the frame begins.
    pub xref_end: usize,
}

impl PackedPrefix {
    /// Reads the prefix; `None` if it is invalid.
    pub fn of(data: &[u8]) -> Option<Self> {
        let (id, rest) = data.split_first_chunk::<4>()?;
        let (wire, rest) = rest.split_first_chunk::<4>()?;
        let wire_bytes = u32::from_le_bytes(*wire) as usize;
        let xref_end = PREFIX_BYTES + memchr::memchr(b'\n', rest)? + 1;
        let sane = wire_bytes <= ARTICLE_BYTES_MAX && xref_end >= PREFIX_BYTES + FRAME_MAGIC.len();
        sane.then_some(Self { dictionary: u32::from_le_bytes(*id), wire_bytes, xref_end })
    }
}

/// Appends the article to `out`; returns false if the data is invalid. The end of the Xref line in `data` is
/// overwritten with the frame's magic number, so that the frame need not be copied.
pub(super) fn decompress(
    data: &mut [u8],
    prefix: PackedPrefix,
    with: Option<&DDict<'static>>,
    out: &mut Vec<u8>,
) -> bool {
    let Some(frame) = data.get_mut(prefix.xref_end - FRAME_MAGIC.len()..) else { return false };
    let Some(room) = frame.get_mut(..FRAME_MAGIC.len()) else { return false };
    room.copy_from_slice(&FRAME_MAGIC);
    let start = out.len();
    out.resize(start + prefix.wire_bytes, 0);
    let target = out.get_mut(start..).unwrap_or_default();
    let done = DECOMPRESSING.with_borrow_mut(|context| match with {
        Some(ddict) => context.decompress_using_ddict(target, frame, ddict),
        None => context.decompress(target, frame),
    });
    done == Ok(prefix.wire_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_random_articles_stay_as_they_are() {
        assert!(compress(0, &[b"Path: a\r\n", b"\r\n"], None, 3).is_none());
        let mut n = 1u64;
        let mut random = || {
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (n >> 33) as u8
        };
        let noise: Vec<u8> = (0..4000).map(|_| random()).collect();
        assert!(compress(0, &[&noise], None, 3).is_none());
    }

    #[test]
    fn invalid_data_is_refused() {
        let article = b"Subject: again and again\r\n".repeat(30);
        let packed = compress(0, &[&article], None, 3).unwrap();
        let mut data = Vec::new();
        packed.put_prefix(&mut data);
        data.extend_from_slice(b"Xref: a b:1\r\n");
        packed.put_frame(&mut data);
        assert_eq!(data.len(), packed.data_bytes() + 13);
        let prefix = PackedPrefix::of(&data).unwrap();
        let mut out = b"before".to_vec();
        assert!(decompress(&mut data.clone(), prefix, None, &mut out));
        assert_eq!(out, [b"before".as_slice(), &article].concat());
        for wrong in [prefix.wire_bytes - 1, prefix.wire_bytes + 1, 0] {
            let prefix = PackedPrefix { wire_bytes: wrong, ..prefix };
            assert!(!decompress(&mut data.clone(), prefix, None, &mut Vec::new()));
        }
        for cut in 0..data.len() {
            let part = &mut data.clone()[..cut];
            let whole = PackedPrefix::of(part).is_some_and(|p| decompress(part, p, None, &mut Vec::new()));
            assert!(!whole, "{cut}");
        }
    }
}
