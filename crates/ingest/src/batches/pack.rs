//! Outgoing batches: `#! rnews N` and an article each, compressed after a line that names the format.
//!
//! Called by `relay::feed` for peers that take batches. Sources: RFC 1036 section 3.3, RFC 5537 section
//! 3.10; lines before compressed batches as in C News and INN.

use std::io::{self, Write};

use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use netnews::batch::append_rnews_line;
use netnews::nntp::wire;

use super::lzw_encoder::LzwEncoder;
use site_config::BatchCompress;

/// Compression level of zstd: the default of its command line, between speed and size.
const ZSTD_LEVEL: i32 = 3;

/// A batch being made, in memory.
pub struct BatchPacker {
    form: PackForm,
    articles: u64,
    bytes: u64,
    line: Vec<u8>,
    text: Vec<u8>,
}

enum PackForm {
    None(Vec<u8>),
    Compress(LzwEncoder<Vec<u8>>),
    Gzip(GzEncoder<Vec<u8>>),
    Bzip2(BzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl BatchPacker {
    /// Creates an empty batch.
    pub fn new(form: BatchCompress) -> io::Result<Self> {
        let form = match form {
            BatchCompress::None => PackForm::None(Vec::new()),
            BatchCompress::Compress => PackForm::Compress(LzwEncoder::new(b"#! cunbatch\n".to_vec())?),
            BatchCompress::Gzip => {
                PackForm::Gzip(GzEncoder::new(b"#! gunbatch\n".to_vec(), flate2::Compression::default()))
            }
            BatchCompress::Bzip2 => {
                PackForm::Bzip2(BzEncoder::new(b"#! bunbatch\n".to_vec(), bzip2::Compression::default()))
            }
            BatchCompress::Zstd => {
                let begin = b"#! zstdunbatch\n".to_vec();
                let mut encoder = zstd::stream::write::Encoder::new(begin, ZSTD_LEVEL)?;
                encoder.include_checksum(true)?;
                PackForm::Zstd(encoder)
            }
        };
        Ok(Self { form, articles: 0, bytes: 0, line: Vec::new(), text: Vec::new() })
    }

    /// Adds an article in wire format, without its final `.` line.
    pub fn add(&mut self, wire: &[u8]) -> io::Result<()> {
        self.text.clear();
        wire::to_text(wire, &mut self.text);
        self.line.clear();
        append_rnews_line(self.text.len() as u64, &mut self.line);
        let out: &mut dyn Write = match &mut self.form {
            PackForm::None(out) => out,
            PackForm::Compress(out) => out,
            PackForm::Gzip(out) => out,
            PackForm::Bzip2(out) => out,
            PackForm::Zstd(out) => out,
        };
        out.write_all(&self.line)?;
        out.write_all(&self.text)?;
        self.articles += 1;
        self.bytes += (self.line.len() + self.text.len()) as u64;
        Ok(())
    }

    /// Returns the number of articles so far.
    pub fn articles(&self) -> u64 {
        self.articles
    }

    /// Returns their bytes, before compression.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the whole batch.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        match self.form {
            PackForm::None(batch) => Ok(batch),
            PackForm::Compress(encoder) => encoder.finish(),
            PackForm::Gzip(encoder) => encoder.finish(),
            PackForm::Bzip2(encoder) => encoder.finish(),
            PackForm::Zstd(encoder) => encoder.finish(),
        }
    }
}

/// Returns `text` compressed in a format, without the line before it.
#[cfg(test)]
pub(super) fn packed(form: BatchCompress, text: &[u8]) -> Vec<u8> {
    let mut packer = BatchPacker::new(form).unwrap();
    match &mut packer.form {
        PackForm::None(out) => out.extend_from_slice(text),
        PackForm::Compress(out) => out.write_all(text).unwrap(),
        PackForm::Gzip(out) => out.write_all(text).unwrap(),
        PackForm::Bzip2(out) => out.write_all(text).unwrap(),
        PackForm::Zstd(out) => out.write_all(text).unwrap(),
    }
    let batch = packer.finish().unwrap();
    let line = if form == BatchCompress::None { None } else { batch.iter().position(|b| *b == b'\n') };
    batch[line.map_or(0, |lf| lf + 1)..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::super::BatchReader;
    use super::*;
    use site_config::ConfigWord;
    use std::io::Cursor;

    #[test]
    fn batches_of_every_form_can_be_read_back() {
        let wires: Vec<Vec<u8>> = (0..300)
            .map(|n| format!("Path: x!y\r\nMessage-ID: <{n}@x>\r\n\r\n..dot\r\n{n}\r\n").into_bytes())
            .collect();
        for (word, form) in BatchCompress::WORDS {
            let mut packer = BatchPacker::new(*form).unwrap();
            wires.iter().for_each(|wire| packer.add(wire).unwrap());
            assert_eq!(packer.articles(), 300);
            let plain_bytes = packer.bytes();
            let batch = packer.finish().unwrap();
            assert_eq!(batch.len() as u64 == plain_bytes, *form == BatchCompress::None, "{word}");
            let mut read = BatchReader::new(Box::new(Cursor::new(batch)), 1 << 20);
            let mut back = Vec::new();
            while let Some(parcel) = read.next_parcel().unwrap() {
                back.extend(parcel.wires().iter().map(|wire| wire.to_vec()));
            }
            assert_eq!((back, read.damage()), (wires.clone(), None), "{word}");
        }
    }
}
