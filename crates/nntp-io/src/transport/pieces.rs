//! Cache of recently compressed pieces of text: an article that many clients read is compressed once.
//!
//! Invariants: the compressed form of a piece was made of exactly these bytes; it refers to nothing sent
//! before, ends in a sync flush, and so fits into any stream between two others. Called by
//! [`super::deflate`].

use lock_order::Innermost;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Minimum size of a piece: the ends of shorter ones would take more than compression saves.
pub(crate) const PIECE_BYTES_MIN: usize = 512;
/// Maximum size of a piece: longer ones would leave room for few others.
const PIECE_BYTES_MAX: usize = 32 << 10;
/// log2 of the number of sets.
const SET_BITS: u32 = 6;
/// Maximum size of a set's pieces, plain and compressed: 8 MiB for all sets.
const SET_BYTES_MAX: usize = 128 << 10;
/// log2 of the number of remembered pieces that were sent once.
const SENT_BITS: u32 = 14;
/// Number of bytes at the beginning of a piece that are hashed, with its length. Articles begin with lines of
/// their own.
const HASHED_BYTES: usize = 256;

/// A piece, and its compressed form.
struct KeptPiece {
    hash: u64,
    plain: Box<[u8]>,
    packed: Arc<[u8]>,
    /// Time of last use, in seconds since the creation of the cache.
    used: AtomicU32,
}

type PieceSet = VecDeque<KeptPiece>;

/// Pieces in sets by their hash; in a set the oldest is replaced.
pub(super) struct PieceCache {
    sets: Box<[Innermost<PieceSet>]>,
    /// Parts of the hashes of pieces that were sent once.
    sent: Box<[AtomicU32]>,
    hasher: RandomState,
    begun: Instant,
}

impl std::fmt::Debug for PieceCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pieces").finish_non_exhaustive()
    }
}

/// Result of a lookup.
pub(super) enum PieceLookup {
    /// Compressed form of the piece.
    Found(Arc<[u8]>),
    /// The piece was sent before and is worth keeping.
    Again,
    /// The piece is unknown.
    Unknown,
}

impl Default for PieceCache {
    fn default() -> Self {
        Self {
            sets: (0..1 << SET_BITS).map(|_| Innermost::default()).collect(),
            sent: (0..1 << SENT_BITS).map(|_| AtomicU32::new(0)).collect(),
            hasher: RandomState::new(),
            begun: Instant::now(),
        }
    }
}

impl PieceCache {
    fn hash(&self, plain: &[u8]) -> u64 {
        self.hasher.hash_one((plain.get(..HASHED_BYTES).unwrap_or(plain), plain.len()))
    }

    fn set(&self, hash: u64) -> Option<&Innermost<PieceSet>> {
        self.sets.get((hash >> (u64::BITS - SET_BITS)) as usize)
    }

    fn now(&self) -> u32 {
        u32::try_from(self.begun.elapsed().as_secs()).unwrap_or(u32::MAX)
    }

    /// Looks up a piece that is about to be sent.
    pub fn ask(&self, plain: &[u8]) -> PieceLookup {
        if !(PIECE_BYTES_MIN..=PIECE_BYTES_MAX).contains(&plain.len()) {
            return PieceLookup::Unknown;
        }
        let hash = self.hash(plain);
        let Some(set) = self.set(hash) else { return PieceLookup::Unknown };
        if let Some(kept) = set.lock().iter().find(|kept| kept.hash == hash && *kept.plain == *plain) {
            kept.used.store(self.now(), Ordering::Relaxed);
            return PieceLookup::Found(kept.packed.clone());
        }
        let (slot, mark) = ((hash as usize) & ((1 << SENT_BITS) - 1), (hash >> SENT_BITS) as u32 | 1);
        let before = self.sent.get(slot).map_or(0, |sent| sent.swap(mark, Ordering::Relaxed));
        if before == mark { PieceLookup::Again } else { PieceLookup::Unknown }
    }

    /// Keeps a piece with its compressed form, which was compressed separately.
    pub fn put(&self, plain: &[u8], packed: &[u8]) {
        let (hash, bytes) = (self.hash(plain), plain.len() + packed.len());
        let Some(set) = self.set(hash).filter(|_| bytes <= SET_BYTES_MAX) else { return };
        let mut set = set.lock();
        if set.iter().any(|kept| kept.hash == hash && *kept.plain == *plain) {
            return;
        }
        let held =
            |set: &PieceSet| set.iter().map(|kept| kept.plain.len() + kept.packed.len()).sum::<usize>();
        while held(&set) + bytes > SET_BYTES_MAX {
            set.pop_front();
        }
        let used = AtomicU32::new(self.now());
        set.push_back(KeptPiece { hash, plain: plain.into(), packed: packed.into(), used });
    }

    /// Removes pieces that were not used for this time.
    pub fn forget(&self, unused: Duration) {
        let Some(since) = self.begun.elapsed().checked_sub(unused) else { return };
        for set in &self.sets {
            set.lock().retain(|kept| u64::from(kept.used.load(Ordering::Relaxed)) >= since.as_secs());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(n: u32, bytes: usize) -> Vec<u8> {
        n.to_le_bytes().into_iter().cycle().take(bytes).collect()
    }

    #[test]
    fn piece_is_kept_on_second_use_and_compared_in_full() {
        let pieces = PieceCache::default();
        let mut text = piece(7, 2000);
        assert!(matches!(pieces.ask(&text), PieceLookup::Unknown));
        assert!(matches!(pieces.ask(&text), PieceLookup::Again));
        pieces.put(&text, b"packed");
        assert!(matches!(pieces.ask(&text), PieceLookup::Found(packed) if *packed == *b"packed"));
        // Differs only beyond the hashed bytes.
        text[1999] ^= 1;
        assert!(!matches!(pieces.ask(&text), PieceLookup::Found(_)));
        pieces.forget(Duration::from_secs(3600));
        text[1999] ^= 1;
        assert!(matches!(pieces.ask(&text), PieceLookup::Found(_)));
        for bytes in [PIECE_BYTES_MIN - 1, PIECE_BYTES_MAX + 1] {
            assert!((0..3).all(|_| matches!(pieces.ask(&piece(9, bytes)), PieceLookup::Unknown)));
        }
        pieces.forget(Duration::ZERO);
    }

    #[test]
    fn memory_is_bounded() {
        let pieces = PieceCache::default();
        for n in 0..20_000 {
            let text = piece(n, PIECE_BYTES_MIN + n as usize % 5000);
            pieces.put(&text, &text[..300]);
        }
        let held = |set: &Innermost<PieceSet>| {
            set.lock().iter().map(|kept| kept.plain.len() + kept.packed.len()).sum::<usize>()
        };
        assert!(pieces.sets.iter().all(|set| (1..=SET_BYTES_MAX).contains(&held(set))));
    }
}
