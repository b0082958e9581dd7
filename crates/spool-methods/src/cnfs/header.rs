//! The buffer's state header: two copies, written in turn, each with a checksum (CNFS-07).
//!
//! Lines of ASCII in a slot of 4096 bytes, so that `head -c 4096 FILE` identifies a file on any machine
//! (CNFS-06). The journal is authoritative for the write position; the header lets a rebuild start and
//! distinguishes buffers from other files.

use super::geometry::Geometry;
use std::fmt::Write;

/// Length of one slot.
pub(crate) const SLOT_BYTES: u64 = 4096;
/// Length of both slots.
pub(crate) const HEADERS_BYTES: u64 = 2 * SLOT_BYTES;
const MAGIC: &str = "newsreel cycbuff 1";
/// First line of a buffer that has grown: a program that knows only the first version must not misread its
/// lengths.
const MAGIC_GROWN: &str = "newsreel cycbuff 2";
/// Common beginning of both first lines.
const MAGIC_ANY: &str = "newsreel cycbuff ";

/// Beginning of a file that is no longer a buffer; the reason follows.
pub(crate) const MAGIC_RETRACTED: &str = "newsreel cycbuff - ";

/// Returns the reason why a file is no longer a buffer, if it was one.
pub(crate) fn retracted(slots: &[u8]) -> Option<String> {
    let text = slots.strip_prefix(MAGIC_RETRACTED.as_bytes())?;
    let end = memchr::memchr(b'\n', text)?;
    Some(String::from_utf8_lossy(text.get(..end)?).into_owned())
}

/// Contents of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferHeader {
    /// Name of the buffer.
    pub name: String,
    /// Path of its file when the header was written.
    pub path: String,
    /// Number of the volume in tokens.
    pub volume: u16,
    /// Size of the whole file in bytes.
    pub len: u64,
    /// Size of a block in bytes.
    pub block: u32,
    /// Absolute write position.
    pub head: u64,
    /// Offset of the write position in the article area, as in the paper.
    pub free: u64,
    /// Number of the cycle: times wrapped, from 1.
    pub cycle: u64,
    /// Number of header writes; the slot with the greater number is valid.
    pub written: u64,
    /// Time of the write, in Unix seconds.
    pub updated: u64,
    /// Secret of the Message-ID hash, hexadecimal.
    pub secret: String,
    /// Layout since the buffer last grew.
    pub grown: Option<GrownLayout>,
}

/// Layout of a buffer that has grown; see [`Geometry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrownLayout {
    pub(crate) area_start: u64,
    pub(crate) base: u64,
    pub(crate) base_cycle: u64,
    pub(crate) before: u64,
}

impl GrownLayout {
    /// Returns the geometry fields of a header.
    pub fn of(g: &Geometry) -> Option<Self> {
        let Geometry { area_start, base, base_cycle, before, .. } = *g;
        g.has_grown().then_some(Self { area_start, base, base_cycle, before })
    }

    /// Returns the geometry that the fields describe.
    pub fn geometry(self, len: u64, block: u64) -> Option<Geometry> {
        let Self { area_start, base, base_cycle, before } = self;
        let told = Geometry {
            block,
            area_start,
            area: before,
            bitmap_at: 0,
            bitmap_words: 0,
            base,
            base_cycle,
            before,
        };
        let sane = before > 0 && base > 0 && before.is_multiple_of(block) && area_start.is_multiple_of(block);
        told.with_len(len).filter(|g| sane && g.area > before)
    }
}

impl BufferHeader {
    /// Returns the bytes of one slot.
    pub fn encode(&self) -> Vec<u8> {
        let mut t = format!("{}\n", if self.grown.is_some() { MAGIC_GROWN } else { MAGIC });
        let _ = writeln!(t, "name {}\npath {}", self.name, self.path);
        let _ = writeln!(t, "volume {}\nlen {}\nblock {}", self.volume, self.len, self.block);
        let _ = writeln!(t, "head {:x}\nfree {:x}\ncyclenum {:x}", self.head, self.free, self.cycle);
        let _ = writeln!(t, "written {}\nupdated {}\nsecret {}", self.written, self.updated, self.secret);
        if let Some(g) = self.grown {
            let _ = writeln!(t, "area {}\nbase {:x}", g.area_start, g.base);
            let _ = writeln!(t, "basecycle {:x}\nbefore {}", g.base_cycle, g.before);
        }
        let crc = disk::crc::crc32c(t.as_bytes());
        let _ = writeln!(t, "crc32c {crc:08x}");
        let mut slot = t.into_bytes();
        slot.resize(SLOT_BYTES as usize, 0);
        slot
    }

    /// Decodes one slot; `None` if it is damaged or something else.
    pub fn decode(slot: &[u8]) -> Option<Self> {
        let end = memchr::memchr(0, slot).unwrap_or(slot.len());
        let text = std::str::from_utf8(slot.get(..end)?).ok()?;
        let (body, crc) = text.split_once("crc32c ")?;
        if u32::from_str_radix(crc.trim_end(), 16).ok()? != disk::crc::crc32c(body.as_bytes()) {
            return None;
        }
        let mut lines = body.lines();
        let grown = match lines.next()? {
            MAGIC => false,
            MAGIC_GROWN => true,
            _ => return None,
        };
        let mut value = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ').map(str::to_owned);
        let hex = |text: String| u64::from_str_radix(&text, 16).ok();
        Some(Self {
            name: value("name")?,
            path: value("path")?,
            volume: value("volume")?.parse().ok()?,
            len: value("len")?.parse().ok()?,
            block: value("block")?.parse().ok()?,
            head: hex(value("head")?)?,
            free: hex(value("free")?)?,
            cycle: hex(value("cyclenum")?)?,
            written: value("written")?.parse().ok()?,
            updated: value("updated")?.parse().ok()?,
            secret: value("secret")?,
            grown: match grown {
                false => None,
                true => Some(GrownLayout {
                    area_start: value("area")?.parse().ok()?,
                    base: hex(value("base")?)?,
                    base_cycle: hex(value("basecycle")?)?,
                    before: value("before")?.parse().ok()?,
                }),
            },
        })
    }

    /// Reports whether a slot claims to be a newsreel buffer's, damaged or not.
    pub fn claims(slot: &[u8]) -> bool {
        slot.starts_with(MAGIC_ANY.as_bytes())
    }

    /// Reports whether the creation of a buffer was cut off in the first header written, which is that of
    /// slot 1.
    pub fn is_unfinished(slots: &[u8]) -> bool {
        let Some((a, b)) = slots.split_at_checked(SLOT_BYTES as usize) else { return false };
        let begins = b.iter().zip(MAGIC.as_bytes()).take_while(|(b, _)| **b != 0).all(|(b, m)| b == m);
        a.iter().all(|b| *b == 0) && begins && Self::decode(b).is_none()
    }

    /// Reports whether both slots are valid.
    pub fn both(slots: &[u8]) -> bool {
        slots.chunks(SLOT_BYTES as usize).filter_map(Self::decode).count() == 2
    }

    /// Returns the newer valid slot.
    pub fn newest(slots: &[u8]) -> Option<Self> {
        let (a, b) = slots.split_at_checked(SLOT_BYTES as usize)?;
        [a, b].into_iter().filter_map(Self::decode).max_by_key(|h| h.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_the_loss_of_either_copy() {
        let mut old = BufferHeader {
            name: "text0".into(),
            path: "spool/text 0.cyc".into(),
            volume: 3,
            len: 1 << 31,
            block: 512,
            head: 0x1e_024d_a800,
            free: 0x24d_a800,
            cycle: 0x1e,
            written: 8,
            updated: 1_795_000_000,
            secret: "00".repeat(16),
            grown: Some(GrownLayout { area_start: 16_384, base: 1 << 40, base_cycle: 0x1d, before: 1 << 30 }),
        };
        assert_eq!(BufferHeader::decode(&old.encode()).as_ref(), Some(&old));
        old.grown = None;
        assert_eq!(BufferHeader::decode(&old.encode()).as_ref(), Some(&old));
        let first = old.encode();
        old.written = 9;
        let second = old.encode();
        let both = [first.clone(), second.clone()].concat();
        assert_eq!(BufferHeader::newest(&both).unwrap().written, 9);
        for at in 0..400 {
            let mut bad = both.clone();
            bad[4096 + at] ^= 0x20;
            assert!(BufferHeader::newest(&bad).unwrap().written >= 8);
        }
        let mut bad = both.clone();
        bad[4096..].fill(0xff);
        assert_eq!(BufferHeader::newest(&bad).unwrap().written, 8);

        for written in [0, 3, 18, 40, 200] {
            let mut part = vec![0; 8192];
            part[4096..4096 + written].copy_from_slice(&second[..written]);
            assert!(BufferHeader::is_unfinished(&part), "{written}");
            part[0] = 1;
            assert!(!BufferHeader::is_unfinished(&part));
        }
        assert!(!BufferHeader::is_unfinished(&both));
        assert!(!BufferHeader::is_unfinished(&[vec![0; 4096], b"precious data".repeat(400)].concat()));
    }
}
