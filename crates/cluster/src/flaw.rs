//! Flaws that are planted into a member, to see that the simulation finds each. Only in tests.

use crate::position::TagVerdict;

/// A flaw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlantedFlaw {
    /// The proposer takes an append for failed when its answer is lost, and appends again under another tag.
    ForgetsTag,
    /// The proposer answers clients once the engine has the message.
    AnswersWhenAppended,
    /// The fold takes the time from a clock, in Unix seconds, instead of from the log.
    ReadsClock(u32),
    /// The fold applies a message that was appended twice twice.
    AppliesTwice,
    /// The fold applies messages of a process that has ended.
    HeedsOutdated,
    /// A member that feeds a peer takes everything for settled up to the time of its own clock.
    SettlesByClock,
    /// A member that takes over a feed begins with the first article.
    FeedsFromStart,
}

impl PlantedFlaw {
    /// Returns the flaw at a time, in Unix seconds.
    pub fn at(self, now: u32) -> Self {
        if let Self::ReadsClock(_) = self { Self::ReadsClock(now) } else { self }
    }

    /// Reports whether it is a flaw of the fold, which one member has alone.
    pub fn is_of_fold(self) -> bool {
        matches!(self, Self::ReadsClock(_) | Self::AppliesTwice | Self::HeedsOutdated)
    }

    /// Reports whether a message counts in spite of its tag.
    pub fn overlooks(self, verdict: TagVerdict) -> bool {
        matches!(
            (self, verdict),
            (Self::AppliesTwice, TagVerdict::Repeated) | (Self::HeedsOutdated, TagVerdict::Outdated)
        )
    }
}
