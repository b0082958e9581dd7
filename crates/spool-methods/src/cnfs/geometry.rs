//! Layout of a buffer: bitmap and area in the file, places in the area.
//!
//! Pure arithmetic. A buffer that grows keeps the start of its area and gets a new bitmap at its new end. The
//! cycle that was being written then (its first place is `base`) and later ones have the new length; earlier
//! cycles keep the old one (`before`), so that every token stays valid (`docs/formats/cnfs.md`, Growing).

use super::header::{HEADERS_BYTES, SLOT_BYTES};
use disk::STEP_BYTES_MAX;

/// Smallest article area: enough for a few articles.
const AREA_BYTES_MIN: u64 = 8 << 10;
/// In small buffers a step is this fraction of the area that the first bitmap can describe.
const STEP_PART: u64 = 8192;
/// Alignment of mapped parts.
const PAGE_BYTES: u64 = 4096;

/// The lengths and offsets of one buffer, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Unit in which records start.
    pub block: u64,
    /// Offset of the area in the file.
    pub area_start: u64,
    /// Length of the area.
    pub area: u64,
    /// Offset of the usage bitmap in the file.
    pub bitmap_at: u64,
    /// Length of the bitmap in words.
    pub bitmap_words: usize,
    /// First place of the cycle that was being written when the buffer last grew; 0 if it never did.
    pub base: u64,
    /// Number of that cycle.
    pub base_cycle: u64,
    /// Length of the cycles before `base`.
    pub before: u64,
}

fn bitmap_bytes(len: u64, block: u64) -> u64 {
    (len.saturating_sub(HEADERS_BYTES) / block).div_ceil(8).next_multiple_of(PAGE_BYTES)
}

impl Geometry {
    /// Returns the geometry of a new buffer of `len` bytes; `None` if it is too small.
    pub fn new(len: u64, block: u64) -> Option<Self> {
        let bitmap = bitmap_bytes(len, block);
        let area_start = (HEADERS_BYTES + bitmap).next_multiple_of(block.max(PAGE_BYTES));
        let area = len.checked_sub(area_start)? / block * block;
        let new = Self {
            block,
            area_start,
            area,
            bitmap_at: HEADERS_BYTES,
            bitmap_words: usize::try_from((area_start - HEADERS_BYTES) / 8).ok()?,
            base: 0,
            base_cycle: 0,
            before: area,
        };
        (area >= AREA_BYTES_MIN).then_some(new)
    }

    /// Returns the geometry after growing to `len` bytes with the write position at `head`; `None` if the
    /// growth is too small: the new bitmap must be after the old one, and the area must become longer.
    pub fn grown(&self, head: u64, len: u64) -> Option<Self> {
        let start = head - self.offset(head)?;
        let (base, base_cycle, before) = match start == self.base {
            // The buffer has not wrapped since it last grew: the cycle at `base` becomes longer again.
            true => (self.base, self.base_cycle, self.before),
            false => (start, self.cycle(head), self.area),
        };
        let grown = Self { base, base_cycle, before, ..*self };
        let old_end = self.bitmap_at + self.bitmap_words as u64 * 8 + SLOT_BYTES;
        grown.with_len(len).filter(|g| g.area > self.area && g.bitmap_at >= old_end)
    }

    /// Like [`Geometry::grown`], from the header of a buffer that has grown.
    pub fn with_len(self, len: u64) -> Option<Self> {
        let bitmap = bitmap_bytes(len, self.block);
        let bitmap_at = Self::last_slot(len)?.checked_sub(bitmap)?;
        let area = bitmap_at.checked_sub(self.area_start)? / self.block * self.block;
        let bitmap_words = usize::try_from(bitmap / 8).ok()?;
        (area >= AREA_BYTES_MIN).then_some(Self { area, bitmap_at, bitmap_words, ..self })
    }

    /// Returns the offset of the last copy of the header in a grown buffer of `len` bytes.
    pub fn last_slot(len: u64) -> Option<u64> {
        (len / PAGE_BYTES * PAGE_BYTES).checked_sub(SLOT_BYTES)
    }

    /// Reports whether the buffer has ever grown.
    pub fn has_grown(&self) -> bool {
        self.base > 0
    }

    /// See [`Volume::offset`](crate::Volume::offset).
    pub fn offset(&self, place: u64) -> Option<u64> {
        match place.checked_sub(self.base) {
            Some(behind) => Some(behind % self.area),
            None => (place + self.before).checked_sub(self.base),
        }
    }

    /// See [`Volume::cycle`](crate::Volume::cycle).
    pub fn cycle(&self, place: u64) -> u64 {
        match place.checked_sub(self.base) {
            Some(behind) => self.base_cycle + behind / self.area,
            None => self.base_cycle.saturating_sub((self.base - place).div_ceil(self.before)),
        }
    }

    /// See [`Volume::room`](crate::Volume::room). The cycle before `base` ends there, even if the
    /// area is larger now.
    pub fn room(&self, place: u64) -> u64 {
        let rest = self.offset(place).map_or(0, |offset| self.area.saturating_sub(offset));
        if place < self.base { rest.min(self.base - place) } else { rest }
    }

    /// See [`Volume::place_in`](crate::Volume::place_in).
    pub fn place_in(&self, cycle: u64, offset: u64) -> Option<u64> {
        match cycle.checked_sub(self.base_cycle) {
            Some(after) => after
                .checked_mul(self.area)?
                .checked_add(self.base)?
                .checked_add(offset)
                .filter(|_| offset < self.area),
            None if self.base_cycle - cycle == 1 && offset < self.before => {
                (self.base + offset).checked_sub(self.before)
            }
            None => None,
        }
    }

    /// See [`Volume::tail_at`](crate::Volume::tail_at). While the cycle at `base` is being written,
    /// the write position displaces the cycle before it; the new part of the area displaces nothing.
    pub fn tail_at(&self, head: u64) -> u64 {
        let end = self.step_end(head);
        let before = end.saturating_sub(self.before).min(self.base);
        end.saturating_sub(self.area).max(before)
    }

    /// Returns the end of the step in which a place lies, or of its cycle: nothing before it lives once the
    /// write position is there.
    pub fn step_end(&self, place: u64) -> u64 {
        let Some(offset) = self.offset(place) else { return place };
        let at = self.area_start + offset;
        place + (at.next_multiple_of(self.step()) - at).min(self.room(place))
    }

    /// Returns the length of a step: a power of two, in bytes, that stays the same when the buffer grows.
    pub fn step(&self) -> u64 {
        let made_for = self.area_start.saturating_sub(HEADERS_BYTES).saturating_mul(8 * self.block);
        let most = (made_for / STEP_PART).clamp(1, STEP_BYTES_MAX);
        (1 << most.ilog2()).max(self.block)
    }

    /// Returns the first place that may ever have been written and whose offset is known.
    pub fn first(&self) -> u64 {
        if self.has_grown() { self.base.saturating_sub(self.before) } else { self.area }
    }

    /// Returns word and mask of a place in the usage bitmap.
    pub fn bit(&self, place: u64) -> Option<(usize, u64)> {
        let block = self.offset(place)? / self.block;
        Some((usize::try_from(block / 64).ok()?, 1 << (block % 64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the write position at which everything before `place` is displaced.
    fn head_past(g: &Geometry, place: u64) -> u64 {
        place.saturating_add(if place <= g.base { g.before } else { g.area })
    }

    #[test]
    fn every_size_and_block_has_space_and_every_place_its_own_bit() {
        for len in [64 << 10, 1 << 20, (1 << 30) + 12_345, 1 << 45, 1 << 52] {
            for block in (6..=14).map(|b| 1u64 << b) {
                let g = Geometry::new(len, block).unwrap();
                assert!(g.area_start + g.area <= len && g.area.is_multiple_of(block));
                assert!(g.area_start.is_multiple_of(block) && g.area_start.is_multiple_of(4096));
                // The overhead is the bitmap and some rounding.
                assert!(len - g.area <= len / block / 8 + 8192 + 4 * 16_384, "{len} {block} {g:?}");
                let last = g.area - block;
                let (word, mask) = g.bit(7 * g.area + last).unwrap();
                assert_eq!((word as u64 * 64) + u64::from(mask.trailing_zeros()), g.area / block - 1);
                assert!(word < g.bitmap_words);
                assert_eq!(g.place_in(g.cycle(7 * g.area + last), last), Some(7 * g.area + last));
                let grown = g.grown(5 * g.area + last, len * 2).unwrap();
                assert!(grown.bitmap_at >= grown.area_start + grown.area);
                assert!(grown.bitmap_at + grown.bitmap_words as u64 * 8 <= len * 2);
                let (word, _) = grown.bit(grown.base + grown.area - block).unwrap();
                assert!(word < grown.bitmap_words);
            }
        }
        assert!(Geometry::new(12 << 10, 512).is_none());
        // More than 2^32 blocks.
        let g = Geometry::new(1 << 45, 512).unwrap();
        assert!(g.area / 512 > 1 << 32);
        assert_eq!(g.bit(g.area + (1 << 44)), Some((1 << 29, 1)));
    }

    /// Compares with a model of the contents: each block of the area holds the place last written there.
    #[test]
    fn growing_keeps_every_place_and_displaces_nothing_too_early() {
        let block = 512;
        for seed in 1..60u64 {
            let mut mix = seed;
            let mut random = |n: u64| {
                mix = mix.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                (mix >> 33) % n
            };
            let mut len = 40 << 10;
            let mut g = Geometry::new(len, block).unwrap();
            let mut head = g.area;
            let mut lies = std::collections::BTreeMap::new();
            let mut written = Vec::new();
            for _ in 0..600 {
                if random(40) == 0 {
                    len += (8 << 10) + 512 * random(64);
                    let old = g;
                    g = g.grown(head, len).unwrap_or(g);
                    assert_eq!(g.tail_at(head), old.tail_at(head).max(g.first().min(head)), "{g:?}");
                    assert_eq!((g.offset(head), g.cycle(head)), (old.offset(head), old.cycle(head)));
                }
                // The write position may skip places, as at the end of a cycle.
                head += block * random(5);
                lies.insert(g.offset(head).unwrap() / block, head);
                written.push(head);
                head += block;
                // Writing ahead overwrites these places.
                for place in (head..g.step_end(head - 1).max(head)).step_by(block as usize) {
                    lies.remove(&(g.offset(place).unwrap() / block));
                }
                let tail = g.tail_at(head);
                let behind = g.tail_at(head_past(&g, tail));
                assert!(
                    behind < tail + g.step() && behind.max(tail) - tail <= g.step_end(head) - head + g.step()
                );
                for (at, place) in lies.iter().filter(|(_, place)| **place >= tail) {
                    assert_eq!(g.offset(*place), Some(at * block), "{place} {g:?}");
                    let (cycle, offset) = (g.cycle(*place), g.offset(*place).unwrap());
                    assert_eq!(g.place_in(cycle, offset), Some(*place));
                }
                for place in written.iter().filter(|place| **place >= tail) {
                    assert_eq!(
                        lies.get(&(g.offset(*place).unwrap() / block)),
                        Some(place),
                        "{g:?} head {head}"
                    );
                }
                // Only places that the write position has passed are dead.
                let end = g.step_end(head);
                let passed =
                    |at: u64| at * block < g.offset(head).unwrap() + end - head || g.offset(head) == Some(0);
                for (at, place) in lies.iter().filter(|(_, place)| **place < tail) {
                    assert!(passed(*at) || head_past(&g, *place) < head, "{place} at {at} {g:?} head {head}");
                }
            }
        }
    }
}
