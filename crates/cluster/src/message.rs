//! Messages of the log: head, body, checksum (`docs/formats/log.md`).
//!
//! Sizes are checked before anything is decompressed or allocated. Read by the fold, written by the
//! proposer.

use crate::world::World;
use disk::crc::crc32c;
use spool::ByteReader;
use std::borrow::Cow;
use std::fmt;

const MAGIC: &[u8; 4] = b"NRL1";
/// Format that this version writes, and the highest that it reads.
pub const FORMAT: u8 = 1;
/// Maximum length of a message.
pub const MESSAGE_BYTES_MAX: usize = 1_000_000;
/// Maximum length of a body before compression.
pub const BODY_BYTES_MAX: usize = 4 << 20;
/// Length of everything before the body.
const HEAD_BYTES: usize = 44;
/// Length of the checksum.
const CHECKSUM_BYTES: usize = 4;
/// Length of a message beyond its body.
pub const FRAME_BYTES: usize = HEAD_BYTES + CHECKSUM_BYTES;
/// Flag of a compressed body.
const IS_COMPRESSED: u8 = 1;

/// Id of a cluster, drawn when it is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ClusterId(pub [u8; 8]);

impl ClusterId {
    /// Draws the id of a new cluster.
    pub fn random(world: &dyn World) -> Self {
        Self(world.random().to_be_bytes())
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Tag of a message: equal tags are the same message, however often it is appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageTag {
    /// Number of the member.
    pub member: u16,
    /// Incarnation of the member: greater in each process.
    pub incarnation: u64,
    /// Number of the message in the incarnation.
    pub counter: u64,
}

impl fmt::Display for MessageTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.member, self.incarnation, self.counter)
    }
}

/// Head of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageHead {
    /// Cluster of the member.
    pub cluster: ClusterId,
    /// Tag.
    pub tag: MessageTag,
    /// Revision of the shared configuration.
    pub revision: u32,
    /// Time of the member, in Unix seconds.
    pub time: u32,
}

/// Reason why a message cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageError {
    /// No version writes such a message.
    Malformed(&'static str),
    /// A later version wrote it.
    Newer {
        /// The unknown thing.
        what: &'static str,
        /// Number of its kind or format.
        number: u8,
    },
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "the message is malformed: {what}"),
            Self::Newer { what, number } => {
                write!(
                    f,
                    "the message has {what} {number}, which a later version writes: upgrade this member"
                )
            }
        }
    }
}

impl std::error::Error for MessageError {}

/// A message as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogMessage<'a> {
    /// Head of the message.
    pub head: MessageHead,
    /// Sections, decompressed.
    pub body: Cow<'a, [u8]>,
}

impl<'a> LogMessage<'a> {
    /// Reads a message.
    pub fn read(bytes: &'a [u8]) -> Result<Self, MessageError> {
        let malformed = MessageError::Malformed;
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(malformed("too long"));
        }
        let (rest, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(malformed("too short"))?;
        let (head, body) = rest.split_first_chunk::<HEAD_BYTES>().ok_or(malformed("too short"))?;
        if !head.starts_with(MAGIC) {
            return Err(malformed("no magic"));
        }
        if u32::from_le_bytes(*checksum) != crc32c(rest) {
            return Err(malformed("wrong checksum"));
        }
        let (head, format, flags, body_bytes) = read_head(head).ok_or(malformed("too short"))?;
        if format != FORMAT {
            return Err(MessageError::Newer { what: "format", number: format });
        }
        if flags & !IS_COMPRESSED != 0 {
            return Err(MessageError::Newer { what: "flags", number: flags });
        }
        if body_bytes > BODY_BYTES_MAX {
            return Err(malformed("the body is too long"));
        }
        let body = match flags & IS_COMPRESSED {
            0 => Cow::Borrowed(body),
            _ => Cow::Owned(zstd::bulk::decompress(body, body_bytes).map_err(|_| malformed("no zstd"))?),
        };
        if body.len() != body_bytes {
            return Err(malformed("a body of another length"));
        }
        Ok(Self { head, body })
    }
}

/// Reads the fields of a head: the head itself, format, flags, and length of the body.
fn read_head(bytes: &[u8; HEAD_BYTES]) -> Option<(MessageHead, u8, u8, usize)> {
    let mut r = ByteReader(bytes);
    r.take(MAGIC.len())?;
    let (format, flags) = (r.u8()?, r.u8()?);
    let cluster = ClusterId(r.array()?);
    let tag = MessageTag { member: u16::from_le_bytes(r.array()?), incarnation: r.u64()?, counter: r.u64()? };
    let head = MessageHead { cluster, tag, revision: r.u32()?, time: r.u32()? };
    Some((head, format, flags, r.u32()? as usize))
}

/// Level of compression: the fastest, since every message waits for it.
const COMPRESSION_LEVEL: i32 = 1;
/// Bodies that are shorter are not compressed.
const COMPRESSED_BYTES_MIN: usize = 1 << 10;

/// Returns the bytes of a message; `None` if it would be too long. A body is compressed if that is wanted and
/// makes it shorter.
pub fn encode(head: &MessageHead, body: &[u8], compresses: bool) -> Option<Vec<u8>> {
    if body.len() > BODY_BYTES_MAX {
        return None;
    }
    let compressed = (compresses && body.len() >= COMPRESSED_BYTES_MIN)
        .then(|| zstd::bulk::compress(body, COMPRESSION_LEVEL).ok())
        .flatten()
        .filter(|compressed| compressed.len() < body.len());
    let flags = if compressed.is_some() { IS_COMPRESSED } else { 0 };
    let stored = compressed.as_deref().unwrap_or(body);
    if stored.len() + FRAME_BYTES > MESSAGE_BYTES_MAX {
        return None;
    }
    let MessageHead { cluster, tag, revision, time } = head;
    let mut out = Vec::with_capacity(stored.len() + FRAME_BYTES);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[FORMAT, flags]);
    out.extend_from_slice(&cluster.0);
    out.extend_from_slice(&tag.member.to_le_bytes());
    out.extend_from_slice(&tag.incarnation.to_le_bytes());
    out.extend_from_slice(&tag.counter.to_le_bytes());
    out.extend_from_slice(&revision.to_le_bytes());
    out.extend_from_slice(&time.to_le_bytes());
    out.extend_from_slice(&u32::try_from(body.len()).ok()?.to_le_bytes());
    out.extend_from_slice(stored);
    let checksum = crc32c(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> MessageHead {
        MessageHead {
            cluster: ClusterId(*b"cluster!"),
            tag: MessageTag { member: 2, incarnation: 7, counter: 1 << 40 },
            revision: 3,
            time: 1_795_000_000,
        }
    }

    #[test]
    fn messages_are_read_as_written_and_no_flipped_bit_goes_unnoticed() {
        for (body, compresses) in
            [(vec![], true), (b"short".to_vec(), true), (vec![7; 40_000], true), (vec![7; 40_000], false)]
        {
            let bytes = encode(&head(), &body, compresses).unwrap();
            assert_eq!(bytes.len() < 1_000, body.len() < 1_000 || compresses);
            let message = LogMessage::read(&bytes).unwrap();
            assert_eq!((message.head, &*message.body), (head(), &body[..]));
            for bit in 0..bytes.len().min(200) * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(LogMessage::read(&flipped).is_err(), "bit {bit}");
            }
            for cut in 0..bytes.len().min(200) {
                assert!(LogMessage::read(&bytes[..cut]).is_err(), "cut to {cut}");
            }
        }
    }

    #[test]
    fn sizes_are_checked_before_decompression() {
        let sealed = |mut bytes: Vec<u8>| {
            let end = bytes.len() - CHECKSUM_BYTES;
            let checksum = crc32c(&bytes[..end]).to_le_bytes();
            bytes[end..].copy_from_slice(&checksum);
            bytes
        };
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 1).unwrap();
        let mut bytes = encode(&head(), &bomb, false).unwrap();
        bytes[5] = IS_COMPRESSED;
        for (claimed, error) in [(64u32 << 20, "the body is too long"), (1 << 20, "no zstd")] {
            bytes[40..44].copy_from_slice(&claimed.to_le_bytes());
            let read = LogMessage::read(&sealed(bytes.clone())).map(|_| ());
            assert_eq!(read, Err(MessageError::Malformed(error)));
        }
        assert_eq!(encode(&head(), &vec![0; BODY_BYTES_MAX + 1], true), None);
        assert_eq!(encode(&head(), &vec![0; MESSAGE_BYTES_MAX], false), None);
    }

    #[test]
    fn later_formats_are_refused_with_the_advice_to_upgrade() {
        for (at, what) in [(4, "format"), (5, "flags")] {
            let mut bytes = encode(&head(), b"", false).unwrap();
            bytes[at] = 9;
            let end = bytes.len() - CHECKSUM_BYTES;
            let checksum = crc32c(&bytes[..end]).to_le_bytes();
            bytes[end..].copy_from_slice(&checksum);
            let error = LogMessage::read(&bytes).unwrap_err();
            assert_eq!(error, MessageError::Newer { what, number: 9 });
            assert!(error.to_string().contains("upgrade this member"));
        }
    }
}
