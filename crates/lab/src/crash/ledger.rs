//! What was acknowledged, and what may have been overwritten since.
//!
//! An acknowledged article may be gone only if enough bytes may have been stored after it to wrap around to
//! it. What may have been stored after an article is what was answered after it was sent, and what never was
//! answered.

use crate::feeder::{Sent, UNANSWERED};

/// Room that records, Xref and Path need beyond the article, and half a block of padding, in bytes.
const RECORD_BYTES: u64 = 64 + 60 + 25 + 256;
/// Buffers are filled to within this part of each other, and some room is lost where they wrap: an article
/// may be gone when nine tenths of the space were written after it.
pub const GONE_AFTER_TURNS: f64 = 0.9;
/// After this many times the space an article is certainly gone, and no longer requested individually.
const FORGET_AFTER_TURNS: f64 = 1.6;

/// What is known of an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Answered 239, or found after a crash.
    Accepted,
    /// In flight when the server died; not asked for yet.
    Unknown,
    /// In flight when the server died, and not there: counts as bytes only.
    Vanished,
}

/// An article that may still be there.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Which.
    pub index: u64,
    /// Whether it must be there.
    pub standing: Standing,
    sent: u64,
    answered: u64,
    bytes: u64,
}

/// All articles that were sent.
#[derive(Debug)]
pub struct Ledger {
    space: u64,
    recent: Vec<Entry>,
    /// Those that are certainly gone.
    pub gone: Vec<u64>,
}

impl Ledger {
    /// Of a site whose buffers have `space` bytes together.
    pub fn new(space: u64) -> Self {
        Self { space, recent: Vec::new(), gone: Vec::new() }
    }

    /// Records what was sent.
    pub fn add(&mut self, sent: &[Sent]) {
        for article in sent.iter().filter(|article| matches!(article.code, 0 | 239)) {
            self.recent.push(Entry {
                index: article.index,
                standing: if article.code == 239 { Standing::Accepted } else { Standing::Unknown },
                sent: article.sent,
                answered: article.answered,
                bytes: u64::from(article.bytes) + RECORD_BYTES,
            });
        }
    }

    /// The articles that may be there, each with how many times the space may have been written over since.
    pub fn recent(&self) -> Vec<(Entry, f64)> {
        let turns = |after: u64| after as f64 / self.space as f64;
        self.recent.iter().copied().zip(self.bytes_after().into_iter().map(turns)).collect()
    }

    /// Records what became of an article that was in flight; whatever it was, it was before `stamp`.
    pub fn settle(&mut self, index: u64, found: bool, stamp: u64) {
        let unknown = |entry: &&mut Entry| entry.index == index && entry.standing == Standing::Unknown;
        if let Some(entry) = self.recent.iter_mut().rev().find(unknown) {
            entry.standing = if found { Standing::Accepted } else { Standing::Vanished };
            entry.answered = stamp;
        }
    }

    /// Moves what is certainly gone to `gone`.
    pub fn forget(&mut self) {
        let limit = (self.space as f64 * FORGET_AFTER_TURNS) as u64;
        let after = self.bytes_after();
        let mut after = after.iter();
        let gone = &mut self.gone;
        self.recent.retain(|entry| {
            let keep = after.next().is_none_or(|after| *after < limit);
            if !keep && entry.standing == Standing::Accepted {
                gone.push(entry.index);
            }
            keep
        });
    }

    /// How many articles fill the space this many times.
    pub fn articles_of_wraps(&self, wraps: u64) -> u64 {
        let bytes: u64 = self.recent.iter().map(|entry| entry.bytes).sum();
        wraps * self.space / (bytes / (self.recent.len() as u64).max(1)).max(500)
    }

    /// For each article, the bytes that may have been stored after it.
    fn bytes_after(&self) -> Vec<u64> {
        let mut by_answer: Vec<(u64, u64)> = self.recent.iter().map(|e| (e.answered, e.bytes)).collect();
        by_answer.sort_unstable();
        let mut total = 0;
        let before: Vec<u64> = std::iter::once(0)
            .chain(by_answer.iter().map(|(_, bytes)| {
                total += bytes;
                total
            }))
            .collect();
        let answered_before = |stamp: u64| by_answer.partition_point(|(answered, _)| *answered < stamp);
        let after = |entry: &Entry| {
            debug_assert!(entry.answered == UNANSWERED || entry.answered > entry.sent);
            total - before.get(answered_before(entry.sent)).copied().unwrap_or(total) - entry.bytes
        };
        self.recent.iter().map(after).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(index: u64, at: u64, answered: u64) -> Sent {
        let code = if answered == UNANSWERED { 0 } else { 239 };
        Sent { index, sent: at, answered, code, bytes: (1000 - RECORD_BYTES) as u32 }
    }

    #[test]
    fn what_was_answered_after_an_article_was_sent_may_lie_over_it() {
        let mut ledger = Ledger::new(3000);
        ledger.add(&[
            sent(0, 1, 10),
            sent(1, 2, 3),
            sent(2, 11, 12),
            sent(3, 13, 20),
            sent(4, 14, UNANSWERED),
        ]);
        assert_eq!(ledger.bytes_after(), [4000, 4000, 2000, 1000, 1000]);
        let may_be_gone = ledger.recent().iter().filter(|(_, turns)| *turns >= GONE_AFTER_TURNS).count();
        assert_eq!(may_be_gone, 2);
        ledger.settle(4, false, 15);
        assert_eq!(ledger.bytes_after(), [4000, 4000, 2000, 1000, 1000]);
        ledger.space = 2000;
        ledger.forget();
        assert_eq!(ledger.gone, [0, 1]);
        assert_eq!(ledger.recent().len(), 3);
    }
}
