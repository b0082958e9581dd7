//! Decompression of batches: detects the format and takes off all layers.
//!
//! A line such as `#! cunbatch` may precede a compressed batch; the data after it, and a batch without such
//! a line, is recognized by its first octets. A batch may be compressed several times. Output is bounded by
//! a multiple of the input, however deep the layers, so a small file cannot keep the reader busy for long.
//! Called by `reader`.

use std::io::{self, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;

use super::lzw;
use site_base::unpacking::unpacked_bytes_max;

/// Most layers of compression taken off.
const LAYERS_MAX: usize = 4;
/// Octets examined to recognize a format, with the line before them.
const HEAD_BYTES_MAX: usize = 256;
/// Largest window of zstd, as a power of two: the default limit of its decoder.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

type Source = Box<dyn Read + Send>;

/// A batch without its compression.
pub struct UnpackedBatch {
    source: Source,
    /// Whether the layers are still to be taken off.
    is_packed: bool,
    layers: usize,
    raw: Arc<RawInput>,
}

/// State of the compressed input.
#[derive(Default)]
struct RawInput {
    bytes: AtomicU64,
    /// Whether reading failed, which is not a fault of the batch.
    failed: AtomicBool,
}

struct CountedSource(Source, Arc<RawInput>);

impl Read for CountedSource {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(out);
        match &read {
            Ok(bytes) => {
                self.1.bytes.fetch_add(*bytes as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.1.failed.store(true, Ordering::Relaxed),
        }
        read
    }
}

/// Compression of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompressionForm {
    Compress,
    Gzip,
    Bzip2,
    Zstd,
    Xz,
}

/// Magic octets and their formats.
const FORMS: [(&[u8], CompressionForm); 5] = [
    (lzw::MAGIC, CompressionForm::Compress),
    (b"\x1f\x8b", CompressionForm::Gzip),
    (b"BZh", CompressionForm::Bzip2),
    (b"\x28\xb5\x2f\xfd", CompressionForm::Zstd),
    (b"\xfd7zXZ\0", CompressionForm::Xz),
];

/// Classification of the beginning of a batch.
#[derive(Debug, PartialEq, Eq)]
enum BatchHead {
    /// Unknown until more is read.
    More,
    /// Not compressed.
    Plain,
    /// Compressed, in this format after this many octets.
    Packed(usize, CompressionForm),
    /// Announced as compressed by a line, without a known format after it.
    Unknown,
}

impl UnpackedBatch {
    /// Returns the batch read from `source`, compressed or not.
    pub fn new(source: Source) -> Self {
        let raw = Arc::<RawInput>::default();
        let source = Box::new(CountedSource(source, raw.clone()));
        Self { source, is_packed: true, layers: 0, raw }
    }

    /// Returns whether reading the batch itself failed, rather than decompressing it.
    pub fn has_failed(&self) -> bool {
        self.raw.failed.load(Ordering::Relaxed)
    }

    /// Takes off all layers of compression.
    fn unpack(&mut self) -> io::Result<()> {
        loop {
            let mut begin = Vec::with_capacity(HEAD_BYTES_MAX);
            let head = loop {
                let more = read_some(&mut self.source, &mut begin)?;
                match head(&begin, !more || begin.len() >= HEAD_BYTES_MAX) {
                    BatchHead::More => {}
                    head => break head,
                }
            };
            let source = std::mem::replace(&mut self.source, Box::new(io::empty()));
            match head {
                BatchHead::More | BatchHead::Plain => {
                    self.source = Box::new(Cursor::new(begin).chain(source));
                    return Ok(());
                }
                BatchHead::Unknown => {
                    return Err(damaged("it is said to be compressed, but not in a form known here"));
                }
                BatchHead::Packed(..) if self.layers >= LAYERS_MAX => {
                    return Err(damaged("it is compressed too many times"));
                }
                BatchHead::Packed(skipped, form) => {
                    begin.drain(..skipped);
                    self.layers += 1;
                    let source = decoder(form, Box::new(Cursor::new(begin).chain(source)))?;
                    self.source = Box::new(BoundedLayer { source, bytes: 0, raw: self.raw.clone() });
                }
            }
        }
    }
}

impl Read for UnpackedBatch {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.is_packed {
            self.is_packed = false;
            self.unpack()?;
        }
        self.source.read(out)
    }
}

/// What comes out of one layer of compression: each is bounded, since an outer one may yield little of what
/// it is given, and take long for that.
struct BoundedLayer {
    source: Source,
    bytes: u64,
    raw: Arc<RawInput>,
}

impl Read for BoundedLayer {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(out)?;
        self.bytes += read as u64;
        if self.bytes > unpacked_bytes_max(self.raw.bytes.load(Ordering::Relaxed)) {
            return Err(damaged("more comes out of it than of any batch"));
        }
        Ok(read)
    }
}

/// Appends the octets of one read, up to [`HEAD_BYTES_MAX`] in all; returns false at the end.
fn read_some(source: &mut Source, begin: &mut Vec<u8>) -> io::Result<bool> {
    let mut octets = [0; HEAD_BYTES_MAX];
    let room = octets.get_mut(begin.len()..).unwrap_or_default();
    let read = loop {
        match source.read(room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    begin.extend(room.iter().take(read));
    Ok(read > 0)
}

fn head(begin: &[u8], is_all: bool) -> BatchHead {
    let mut at = 0;
    if begin.starts_with(b"#!") {
        let Some(lf) = memchr::memchr(b'\n', begin) else {
            return if is_all { BatchHead::Plain } else { BatchHead::More };
        };
        let words = begin.get(2..lf).unwrap_or_default().trim_ascii();
        if !words.ends_with(b"unbatch") {
            return BatchHead::Plain;
        }
        at = lf + 1;
    }
    let rest = begin.get(at..).unwrap_or_default();
    if let Some((_, form)) = FORMS.iter().find(|(magic, _)| rest.starts_with(magic)) {
        return BatchHead::Packed(at, *form);
    }
    let may_be = |(magic, _): &&(&[u8], CompressionForm)| magic.starts_with(rest);
    if !is_all && (rest.len() < 2 || FORMS.iter().any(|form| may_be(&form))) {
        return BatchHead::More;
    }
    if at > 0 { BatchHead::Unknown } else { BatchHead::Plain }
}

fn decoder(form: CompressionForm, source: Source) -> io::Result<Source> {
    Ok(match form {
        CompressionForm::Compress => {
            // Skips the magic octets.
            let mut source = BufReader::new(source);
            source.read_exact(&mut [0; lzw::MAGIC.len()])?;
            Box::new(lzw::LzwDecoder::new(source))
        }
        CompressionForm::Gzip => Box::new(MultiGzDecoder::new(source)),
        CompressionForm::Bzip2 => Box::new(MultiBzDecoder::new(source)),
        CompressionForm::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::new(source)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
        CompressionForm::Xz => {
            return Err(damaged("xz is not a form known here; decompress it first, by xz -dc"));
        }
    })
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::pack;
    use super::*;
    use site_config::BatchCompress;
    use std::io::Write;

    /// Compresses in each format, with the line that names the format apart.
    pub(in crate::batches) fn packed(text: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
        let form = |line, form| (line, pack::packed(form, text));
        vec![
            form("#! cunbatch\n", BatchCompress::Compress),
            form("#! gunbatch\n", BatchCompress::Gzip),
            form("#! bunbatch\n", BatchCompress::Bzip2),
            form("#! zstdunbatch\n", BatchCompress::Zstd),
        ]
    }

    /// A source that returns a few octets at a time.
    struct Slowly(Cursor<Vec<u8>>);

    impl Read for Slowly {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let bytes = out.len().min(3);
            self.0.read(out.get_mut(..bytes).unwrap())
        }
    }

    fn unpacked(batch: &[u8]) -> (io::Result<()>, Vec<u8>) {
        let mut text = Vec::new();
        let mut unpacked = UnpackedBatch::new(Box::new(Slowly(Cursor::new(batch.to_vec()))));
        let read = unpacked.read_to_end(&mut text);
        assert!(!unpacked.has_failed());
        (read.map(|_| ()), text)
    }

    const TEXT: &[u8] = b"#! rnews 3\nabc#! rnews 2\nxy";

    #[test]
    fn every_form_is_unpacked_with_and_without_its_line_and_nested() {
        for (line, octets) in packed(TEXT) {
            for batch in [octets.clone(), [line.as_bytes(), &octets].concat()] {
                assert_eq!(unpacked(&batch).1, TEXT, "{line}");
                for (outer, octets) in packed(&batch) {
                    assert_eq!(unpacked(&[outer.as_bytes(), &octets].concat()).1, TEXT, "{line}{outer}");
                }
            }
        }
        for plain in [TEXT, b"", b"#", b"#!", b"#! rnews 3", b"B", b"Path: x\n\n"] {
            assert_eq!(unpacked(plain).1, plain);
        }
    }

    #[test]
    fn truncated_damaged_and_unknown_input_is_an_error() {
        for (line, octets) in packed(&TEXT.repeat(100)).into_iter().skip(1) {
            let (read, text) = unpacked(&octets[..octets.len() - 5]);
            assert!(read.is_err() && TEXT.repeat(100).starts_with(&text), "{line}");
            let mut damaged = octets.clone();
            let middle = damaged.len() / 2;
            damaged[middle] ^= 0x55;
            assert!(unpacked(&damaged).0.is_err() || line.contains("zstd"), "{line}");
        }
        for (bad, why) in [
            (&b"#! cunbatch\nabc"[..], "not in a form known here"),
            (b"#! gunbatch\n", "not in a form known here"),
            (b"\xfd7zXZ\0\0", "xz is not a form"),
        ] {
            assert!(unpacked(bad).0.unwrap_err().to_string().contains(why));
        }
        let mut deep = TEXT.to_vec();
        for _ in 0..=LAYERS_MAX {
            deep = packed(&deep).swap_remove(1).1;
        }
        assert!(unpacked(&deep).0.unwrap_err().to_string().contains("too many times"));
    }

    #[test]
    fn a_decompression_bomb_is_given_up() {
        let zeros = unpacked_bytes_max(0) as usize + (32 << 20);
        let mut bomb = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        (0..zeros >> 20).for_each(|_| bomb.write_all(&[0; 1 << 20]).unwrap());
        let bomb = bomb.finish().unwrap();
        assert!(bomb.len() < 1 << 17);
        let mut unpacked = UnpackedBatch::new(Box::new(Cursor::new(bomb)));
        let read = io::copy(&mut unpacked, &mut io::sink());
        assert!(read.unwrap_err().to_string().contains("more comes out"));
    }

    /// Nothing comes out of members without text, however many there are.
    #[test]
    fn a_bomb_in_an_inner_layer_is_given_up() {
        let empty = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()).finish().unwrap();
        let some = empty.repeat(50_000);
        let mut bomb = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        let times = (unpacked_bytes_max(0) as usize + (32 << 20)) / some.len();
        (0..times).for_each(|_| bomb.write_all(&some).unwrap());
        let bomb = bomb.finish().unwrap();
        assert!(bomb.len() < 1 << 17);
        let mut unpacked = UnpackedBatch::new(Box::new(Cursor::new(bomb)));
        let read = io::copy(&mut unpacked, &mut io::sink());
        assert!(read.unwrap_err().to_string().contains("more comes out"));
    }
}
