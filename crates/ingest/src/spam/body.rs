//! Sketches that recognize a body despite small changes: inserted names, numbers and random words.
//!
//! Sequences of three words of the body are hashed, and of all hashes the least under each of six orders is
//! kept (MinHash, Broder 1997): two bodies share about as many of them as they share sequences. A body
//! belongs to a flood if half of its hashes occurred often. Quoted lines and signatures, which good
//! articles share, are left out, and so are words with digits.

use super::counts::{DecayingCounts, hash, mixed};
use netnews::{Article, Known};

/// Number of orders under which the least hash is kept.
const ORDERS: usize = 6;
/// The orders: multiplication by an odd number is a permutation.
const PERMUTATIONS: [u64; ORDERS] = [
    0x9e37_79b9_7f4a_7c15,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0xd6e8_feb8_6659_fd93,
    0xa076_1d64_78bd_642f,
    0xe703_7ed1_a0b4_28db,
];
/// Words hashed together.
const WORDS: usize = 3;
/// Bytes of a body examined.
const BODY_BYTES_MAX: usize = 4_096;
/// Fewest sequences for a sketch; a body with fewer is compared as a whole, with its subject.
const SEQUENCES_MIN: u32 = 12;
/// Fewest letters for a body to be compared as a whole.
const LETTERS_MIN: u32 = 30;
/// Fewest letters of a word.
const WORD_LETTERS_MIN: u32 = 2;

/// Sketch by which a body is recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodySketch {
    /// Least hashes of its sequences.
    Hashes([u64; ORDERS]),
    /// Hash of a short body.
    Whole(u64),
}

impl BodySketch {
    /// Returns the sketch of an article; `None` if there is too little to compare.
    pub fn of(article: &Article<'_>) -> Option<Self> {
        let mut words = SketchBuilder::default();
        let body = article.body();
        let body = body.get(..BODY_BYTES_MAX).unwrap_or(body);
        for line in body.split_inclusive(|b| *b == b'\n') {
            match line {
                b"-- \r\n" => break,
                [b'>' | b'|' | b':', ..] => words.end_sequence(),
                _ => line.iter().for_each(|byte| words.add(*byte)),
            }
        }
        words.end_word();
        if words.sequences >= SEQUENCES_MIN {
            return Some(Self::Hashes(words.least));
        }
        let subject = article.header(Known::Subject).unwrap_or_default();
        (words.letters >= LETTERS_MIN).then(|| Self::Whole(words.whole ^ hash(subject.trim_ascii())))
    }

    /// Counts the body; returns how often such bodies arrived recently.
    pub fn count(&self, counts: &mut DecayingCounts, now: u64) -> u32 {
        match self {
            Self::Whole(hash) => counts.add(*hash, now),
            Self::Hashes(hashes) => {
                let mut often = hashes.map(|hash| counts.add(hash, now));
                often.sort_unstable();
                often.get(ORDERS / 2).copied().unwrap_or_default()
            }
        }
    }
}

/// Word reader for a body.
#[derive(Debug)]
struct SketchBuilder {
    /// Hash of the current word so far.
    word: u64,
    word_letters: u32,
    has_digits: bool,
    /// Hashes of the last words.
    last: [u64; WORDS],
    in_sequence: usize,
    sequences: u32,
    least: [u64; ORDERS],
    /// Hash of all words, and number of their letters, of a short body.
    whole: u64,
    letters: u32,
}

impl Default for SketchBuilder {
    fn default() -> Self {
        Self {
            word: 0,
            word_letters: 0,
            has_digits: false,
            last: [0; WORDS],
            in_sequence: 0,
            sequences: 0,
            least: [u64::MAX; ORDERS],
            whole: 0,
            letters: 0,
        }
    }
}

impl SketchBuilder {
    fn add(&mut self, byte: u8) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | 0x80.. => {
                self.word = self.word.rotate_left(7) ^ u64::from(byte | 0x20);
                self.word_letters += 1;
            }
            b'0'..=b'9' => self.has_digits = true,
            // These characters often separate letters.
            b'\'' | b'*' | b'_' => {}
            _ => self.end_word(),
        }
    }

    fn end_word(&mut self) {
        let (word, letters) = (self.word, self.word_letters);
        let is_word = letters >= WORD_LETTERS_MIN && !self.has_digits;
        (self.word, self.word_letters, self.has_digits) = (0, 0, false);
        if !is_word {
            return;
        }
        if self.sequences < SEQUENCES_MIN {
            self.letters += letters;
            self.whole = mixed(self.whole ^ word);
        }
        self.last.rotate_left(1);
        if let Some(last) = self.last.last_mut() {
            *last = word;
        }
        self.in_sequence += 1;
        if self.in_sequence < WORDS {
            return;
        }
        self.sequences += 1;
        let [a, b, c] = self.last;
        let sequence = mixed(a.rotate_left(1) ^ b.rotate_left(23) ^ c.rotate_left(45));
        for (least, order) in self.least.iter_mut().zip(PERMUTATIONS) {
            *least = (*least).min(sequence.wrapping_mul(order));
        }
    }

    /// Ends a sequence: the following words do not continue it.
    fn end_sequence(&mut self) {
        self.end_word();
        self.in_sequence = 0;
    }
}
