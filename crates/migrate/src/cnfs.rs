//! INN's cyclic buffers: header, usage bitmap, article headers, as bytes.
//!
//! Bytes in, values out; the data may be damaged in any way. The format is described in
//! `docs/formats/inn.md`. Called by `import::source`. Sources: cnfsheadconf(8), cycbuff.conf(5), CNFS-07 to
//! CNFS-09, and buffers made by INN 2.7.

/// Bytes before the usage bitmap, including the header.
pub const HEADER_BYTES: usize = 512;
/// Size of the longest article header, in bytes.
pub const ARTICLE_HEADER_BYTES_MAX: usize = 24;
/// Alignment of the area of articles.
const AREA_ALIGN_BYTES: u64 = 16 << 10;
/// Largest block size INN uses.
const BLOCK_BYTES_MAX: u64 = 16 << 10;
/// Set bits examined to detect the layout of the bitmap's words.
const DETECT_BLOCKS_MAX: usize = 256;

/// Header of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CycbuffHeader {
    /// Name of the buffer, such as `B1`.
    pub name: String,
    /// Length of the buffer in bytes.
    pub len: u64,
    /// Offset of the next article.
    pub free: u64,
    /// Number of the current cycle, from 1 on; 0: never used.
    pub cycle: u32,
    /// Block size in bytes.
    pub block: u64,
}

/// Reason why a file is not read as a buffer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The file does not begin with the magic of a buffer.
    #[error("it does not begin with CBuf3 or CBuf4, so it is no CNFS buffer, or its header is lost")]
    NoMagic,
    /// The buffer was written by an INN before 2.3.
    #[error("it is a CNFS buffer of an INN before 2.3; let a newer INN take it over first")]
    TooOld,
    /// The named field is invalid.
    #[error("the field \"{0}\" of its header makes no sense")]
    Field(&'static str),
}

impl CycbuffHeader {
    /// Parses the first [`HEADER_BYTES`] of a buffer.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        let field = |at: usize, len: usize| bytes.get(at..at + len).unwrap_or_default();
        let number = |at, name| hex(field(at, 16)).ok_or(HeaderError::Field(name));
        let block = match text(field(0, 8)) {
            b"CBuf4" => number(192, "block size")?,
            b"CBuf3" => 512,
            b"Cycbuff" | b"CBuf1" => return Err(HeaderError::TooOld),
            _ => return Err(HeaderError::NoMagic),
        };
        if !block.is_power_of_two() || !(512..=BLOCK_BYTES_MAX).contains(&block) {
            return Err(HeaderError::Field("block size"));
        }
        let header = Self {
            name: String::from_utf8_lossy(text(field(8, 16))).into_owned(),
            len: number(88, "length")?,
            free: number(104, "free")?,
            cycle: u32::try_from(number(136, "cycle number")?)
                .map_err(|_| HeaderError::Field("cycle number"))?,
            block,
        };
        if header.len > 1 << 50 || header.len <= header.area() {
            return Err(HeaderError::Field("length"));
        }
        if header.cycle > 0 && !(header.area()..=header.len).contains(&header.free) {
            return Err(HeaderError::Field("free"));
        }
        Ok(header)
    }

    /// Returns the offset at which the first article may begin.
    pub fn area(&self) -> u64 {
        // The area begins one page later if the bitmap ends on a page.
        let end = self.len / (self.block * 8) + HEADER_BYTES as u64;
        end + (AREA_ALIGN_BYTES - end % AREA_ALIGN_BYTES)
    }

    /// Returns the size of the bitmap, which follows the header.
    pub fn bitmap_bytes(&self) -> usize {
        // Rounded up to words of 8 bytes.
        (self.len / self.block).div_ceil(64) as usize * 8
    }

    /// Returns the blocks that may begin an article, in the order they were written: first the rest of the
    /// last cycle, then the current one. The header may be damaged: a file of `file_bytes` holds no more
    /// than that.
    pub fn blocks(&self, file_bytes: u64) -> impl Iterator<Item = u64> + use<> {
        let (first, end) = (self.area() / self.block, self.len.min(file_bytes) / self.block);
        let free = if self.cycle == 0 { first } else { self.free / self.block };
        (free.max(first)..end).chain(first..free.min(end))
    }
}

/// Word layout of a bitmap: INN sets the highest bit of a `long` first, in its machine's byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BitmapLayout {
    /// 8 bytes, lowest byte first.
    Little64,
    /// 4 bytes, lowest byte first.
    Little32,
    /// Highest byte first, for any word size.
    Big,
}

impl BitmapLayout {
    /// Returns whether a block's bit is set.
    pub fn is_set(self, bitmap: &[u8], block: u64) -> bool {
        let (byte, bit) = ((block / 8) as usize, block % 8);
        let at = match self {
            Self::Little64 => byte ^ 7,
            Self::Little32 => byte ^ 3,
            Self::Big => byte,
        };
        bitmap.get(at).is_some_and(|b| b & (0x80 >> bit) != 0)
    }

    /// Detects the layout in a file of `file_bytes`: the one whose set bits most often match the beginning of
    /// an article.
    pub fn detect(
        header: &CycbuffHeader,
        file_bytes: u64,
        bitmap: &[u8],
        mut begins: impl FnMut(u64) -> std::io::Result<bool>,
    ) -> std::io::Result<Self> {
        let mut best = (Self::Little64, 0.0);
        for words in [Self::Little64, Self::Little32, Self::Big] {
            let (mut seen, mut right) = (0.0, 0.0);
            for block in
                header.blocks(file_bytes).filter(|b| words.is_set(bitmap, *b)).take(DETECT_BLOCKS_MAX)
            {
                seen += 1.0;
                right += if begins(block)? { 1.0 } else { 0.0 };
            }
            let share = if seen > 0.0 { right / seen } else { 0.0 };
            if share > best.1 {
                best = (words, share);
            }
        }
        Ok(best.0)
    }
}

/// Header before an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArticleHeader {
    /// Length of this header in bytes.
    pub header_bytes: usize,
    /// Length of the article in bytes.
    pub bytes: u32,
    /// Arrival in Unix seconds.
    pub arrived: u32,
}

impl ArticleHeader {
    /// Parses the header at the beginning of `bytes`, as written by machines with `long`s of 4 or 8 bytes:
    /// size, arrival and class, with the numbers in network order in the first bytes of each word.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| -> Option<u32> { Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?)) };
        let words = [word(0)?, word(4)?, word(8)?];
        let header = match words {
            [bytes, 0, arrived] => Self { header_bytes: 24, bytes, arrived },
            [0, bytes, 0] => Self { header_bytes: 24, bytes, arrived: word(12)? },
            [bytes, arrived, _] => Self { header_bytes: 12, bytes, arrived },
        };
        (header.bytes > 0 && header.bytes <= i32::MAX as u32 && header.arrived > 0).then_some(header)
    }

    /// Returns whether the bytes at a block's start look like an article with its header.
    pub fn begins(bytes: &[u8]) -> bool {
        Self::parse(bytes)
            .and_then(|header| bytes.get(header.header_bytes))
            .is_some_and(|first| first.is_ascii_alphabetic())
    }
}

/// Returns the field up to the first NUL.
fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn hex(field: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text(field)).ok()?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(magic: &str, len: &str, free: &str, cycle: &str, block: &str) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        for (at, text) in
            [(0, magic), (8, "B1"), (24, "/news/b1"), (88, len), (104, free), (136, cycle), (192, block)]
        {
            bytes[at..at + text.len()].copy_from_slice(text.as_bytes());
        }
        bytes
    }

    #[test]
    fn a_header_of_inn_is_parsed() {
        let bytes =
            header("CBuf4", "0000000000800000", "0000000000004000", "0000000000000002", "0000000000001000");
        let read = CycbuffHeader::parse(&bytes).unwrap();
        assert_eq!(
            read,
            CycbuffHeader { name: "B1".into(), len: 8 << 20, free: 0x4000, cycle: 2, block: 4096 }
        );
        assert_eq!((read.area(), read.bitmap_bytes()), (0x4000, 256));
        let mut blocks = read.blocks(8 << 20);
        assert_eq!((blocks.next(), blocks.last()), (Some(4), Some(2047)));
        let bytes = header("CBuf3", "0000000000800000", "0000000000010000", "0000000000000002", "");
        let read = CycbuffHeader::parse(&bytes).unwrap();
        assert_eq!((read.block, read.area()), (512, 0x4000));
        let blocks: Vec<u64> = read.blocks(8 << 20).collect();
        assert_eq!((blocks[0], blocks.len()), (128, 16_384 - 32));
        assert_eq!(&blocks[16_384 - 130..16_384 - 126], &[16_382, 16_383, 32, 33]);
    }

    #[test]
    fn damaged_headers_are_reported_by_field() {
        let (len, free, cycle, block) =
            ("0000000000800000", "0000000000004000", "0000000000000001", "0000000000001000");
        for (bytes, error) in [
            (header("", len, free, cycle, block), HeaderError::NoMagic),
            (header("CBuf1", len, free, cycle, block), HeaderError::TooOld),
            (header("CBuf4", "x", free, cycle, block), HeaderError::Field("length")),
            (header("CBuf4", "0000000000004000", free, cycle, block), HeaderError::Field("length")),
            (header("CBuf4", "ffffffffffffffff", free, cycle, block), HeaderError::Field("length")),
            (header("CBuf4", len, "0000000000003fff", cycle, block), HeaderError::Field("free")),
            (header("CBuf4", len, "0000000000800001", cycle, block), HeaderError::Field("free")),
            (header("CBuf4", len, free, "-1", block), HeaderError::Field("cycle number")),
            (header("CBuf4", len, free, cycle, "0000000000000fff"), HeaderError::Field("block size")),
            (header("CBuf4", len, free, cycle, "0000000000008000"), HeaderError::Field("block size")),
            (b"CBuf4".to_vec(), HeaderError::NoMagic),
            (Vec::new(), HeaderError::NoMagic),
        ] {
            assert_eq!(CycbuffHeader::parse(&bytes).unwrap_err(), error);
            assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn bitmaps_are_read_in_the_word_layout_of_their_machine() {
        let bits = [0x01, 0, 0, 0, 0, 0, 0, 0x80];
        assert!(BitmapLayout::Little64.is_set(&bits, 0) && BitmapLayout::Little64.is_set(&bits, 63));
        assert!(BitmapLayout::Little32.is_set(&bits, 31) && BitmapLayout::Little32.is_set(&bits, 32));
        assert!(BitmapLayout::Big.is_set(&bits, 7) && BitmapLayout::Big.is_set(&bits, 56));
        assert!(!BitmapLayout::Big.is_set(&bits, 64));
        let header = CycbuffHeader { name: String::new(), len: 1 << 20, free: 0x4000, cycle: 1, block: 512 };
        for words in [BitmapLayout::Little64, BitmapLayout::Little32, BitmapLayout::Big] {
            let articles: Vec<u64> = (32..2048).filter(|b| b % 7 == 0).collect();
            let mut bitmap = vec![0u8; header.bitmap_bytes()];
            for block in &articles {
                let at = (0..bitmap.len() * 8).find(|at| {
                    let mut probe = vec![0u8; bitmap.len()];
                    probe[at / 8] = 1 << (at % 8);
                    words.is_set(&probe, *block)
                });
                bitmap[at.unwrap() / 8] |= 1 << (at.unwrap() % 8);
            }
            let found =
                BitmapLayout::detect(&header, 1 << 20, &bitmap, |block| Ok(articles.contains(&block)))
                    .unwrap();
            assert_eq!(found, words);
        }
    }

    #[test]
    fn article_headers_of_all_machines_are_parsed() {
        let parse = |words: &[u32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
            ArticleHeader::parse(&bytes).map(|h| (h.header_bytes, h.bytes, h.arrived))
        };
        assert_eq!(parse(&[0x665, 0, 0x6b01_2512, 0, 0, 0]), Some((24, 0x665, 0x6b01_2512)));
        assert_eq!(parse(&[0, 0x665, 0, 0x6b01_2512, 0, 0]), Some((24, 0x665, 0x6b01_2512)));
        assert_eq!(parse(&[0x665, 0x6b01_2512, 0]), Some((12, 0x665, 0x6b01_2512)));
        assert_eq!(parse(&[0, 0, 0, 0]), None);
        assert_eq!(parse(&[0xffff_ffff, 0, 1]), None);
        assert_eq!(parse(&[1, 2]), None);
    }
}
