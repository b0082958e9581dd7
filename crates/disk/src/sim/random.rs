//! Randomness in simulated crashes: the same seed results in the same disk.

/// SplitMix64 generator.
#[derive(Debug, Clone)]
pub struct SimRandom(u64);

impl SimRandom {
    /// Creates a generator; equal seeds yield equal numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 to `most`, inclusive.
    pub fn up_to(&mut self, most: usize) -> usize {
        (self.next() % (most as u64 + 1)) as usize
    }

    /// Returns a number from 0 on, below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// Returns how much survives; nothing, everything and a part are each likely in a test of some hundred
    /// crashes.
    pub(super) fn survival(&mut self) -> Survival {
        match self.up_to(3) {
            0 => Survival::Nothing,
            1 => Survival::Everything,
            _ => Survival::Some,
        }
    }
}

/// Share of the unsynced changes that survives a power cut.
#[derive(Debug, Clone, Copy)]
pub(super) enum Survival {
    Nothing,
    Everything,
    Some,
}

impl Survival {
    /// Reports whether one thing survives.
    pub fn of(self, random: &mut SimRandom) -> bool {
        self.count_of(1, random) == 1
    }

    /// Returns how many of `all` things in a row survive.
    pub fn count_of(self, all: usize, random: &mut SimRandom) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Everything => all,
            Self::Some => random.up_to(all),
        }
    }
}
