//! Why an article is not wanted.
//!
//! Each reason knows its text and whether the Message-ID is remembered: policy that any copy of the article
//! would meet is; damage in transit, and what only this sender or this copy did wrong, is not, since another
//! peer may bring a good copy. Called by `ingest` and `checks`.

use crate::base::units::counted;
use netnews::Malformed;
use std::fmt;
use std::sync::Arc;

/// Why an article is not wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reject {
    /// It is not an article.
    Malformed(Malformed),
    /// Its Message-ID, or the announced one, is none.
    BadMessageId,
    /// It has another Message-ID than announced.
    OtherMessageId,
    /// It is an article without its body, and the sender may not bring such.
    NoBody,
    /// It was seen before.
    Duplicate,
    /// It has been here: our path identity is in its Path.
    Loop,
    /// Its date cannot be read.
    BadDate,
    /// Its date is more than a day ahead.
    FutureDate,
    /// Its date is older than `site.max_age_days`.
    TooOld {
        /// How old it may be, in days.
        days_max: u32,
    },
    /// It is longer than `site.article_bytes_max`.
    TooLarge {
        /// How long it may be.
        bytes_max: u64,
    },
    /// It has only distributions that `site.distributions` does not accept.
    UnwantedDistribution,
    /// It has only distributions that the peer may not send.
    DistributionNotAccepted,
    /// No group of it is carried.
    UnknownGroups,
    /// The peer may send none of its groups.
    NotAccepted,
    /// Its groups take no articles.
    RefusedGroups,
    /// It is for a moderated group and has no Approved header.
    Unapproved,
    /// It is for more groups than one article may be filed in.
    TooManyGroups {
        /// In how many it may be filed.
        groups_max: usize,
    },
    /// It was withdrawn before it came.
    Withdrawn,
    /// It asks for something that a `[[control]]` section refuses.
    ControlRefused,
    /// A filter refuses it, for this reason: one printable line.
    Filtered(Arc<str>),
    /// No storage rule or buffer takes it.
    NoPlace,
    /// A number it brings may name another article already.
    NumberTaken,
}

impl Reject {
    /// Whether its Message-ID goes into history, so that no copy of it is asked for again.
    pub fn is_remembered(&self) -> bool {
        match self {
            Self::Malformed(_) | Self::BadMessageId | Self::OtherMessageId | Self::NoBody => false,
            Self::BadDate | Self::FutureDate => false,
            Self::Duplicate | Self::Loop | Self::NoPlace | Self::NumberTaken => false,
            Self::NotAccepted | Self::DistributionNotAccepted => false,
            Self::TooOld { .. } | Self::TooLarge { .. } | Self::TooManyGroups { .. } => true,
            Self::UnwantedDistribution => true,
            Self::UnknownGroups | Self::RefusedGroups | Self::Unapproved | Self::Withdrawn => true,
            Self::ControlRefused | Self::Filtered(_) => true,
        }
    }

    /// The reason in words, without details.
    pub fn text(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed article",
            Self::BadMessageId => "bad Message-ID",
            Self::OtherMessageId => "Message-ID is not the announced one",
            Self::NoBody => "only the headers",
            Self::Duplicate => "duplicate",
            Self::Loop => "path loop",
            Self::BadDate => "bad date",
            Self::FutureDate => "date more than a day ahead",
            Self::TooOld { .. } => "too old",
            Self::TooLarge { .. } => "too large",
            Self::UnwantedDistribution => "distribution not accepted here",
            Self::DistributionNotAccepted => "distribution not accepted from you",
            Self::UnknownGroups => "no group carried here",
            Self::NotAccepted => "no group accepted from you",
            Self::RefusedGroups => "groups take no articles",
            Self::Unapproved => "no Approved header for moderated group",
            Self::TooManyGroups { .. } => "too many groups",
            Self::Withdrawn => "cancelled before it came",
            Self::ControlRefused => "control message refused here",
            Self::Filtered(_) => "refused by a filter",
            Self::NoPlace => "no storage for such an article",
            Self::NumberTaken => "article number given out already",
        }
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(malformed) => malformed.fmt(f),
            Self::TooOld { days_max } => {
                write!(f, "{} (at most {})", self.text(), counted(u64::from(*days_max), "day"))
            }
            Self::TooLarge { bytes_max } => write!(f, "{} (at most {bytes_max} bytes)", self.text()),
            Self::TooManyGroups { groups_max } => write!(f, "{} (at most {groups_max})", self.text()),
            Self::Filtered(reason) => f.write_str(reason),
            other => f.write_str(other.text()),
        }
    }
}

impl From<Malformed> for Reject {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reason that follows, so that none is forgotten.
    fn next(reject: &Reject) -> Option<Reject> {
        Some(match reject {
            Reject::Malformed(_) => Reject::BadMessageId,
            Reject::BadMessageId => Reject::OtherMessageId,
            Reject::OtherMessageId => Reject::NoBody,
            Reject::NoBody => Reject::Duplicate,
            Reject::Duplicate => Reject::Loop,
            Reject::Loop => Reject::BadDate,
            Reject::BadDate => Reject::FutureDate,
            Reject::FutureDate => Reject::TooOld { days_max: 10 },
            Reject::TooOld { .. } => Reject::TooLarge { bytes_max: 1 },
            Reject::TooLarge { .. } => Reject::UnwantedDistribution,
            Reject::UnwantedDistribution => Reject::DistributionNotAccepted,
            Reject::DistributionNotAccepted => Reject::UnknownGroups,
            Reject::UnknownGroups => Reject::NotAccepted,
            Reject::NotAccepted => Reject::RefusedGroups,
            Reject::RefusedGroups => Reject::Unapproved,
            Reject::Unapproved => Reject::TooManyGroups { groups_max: 1 },
            Reject::TooManyGroups { .. } => Reject::Withdrawn,
            Reject::Withdrawn => Reject::ControlRefused,
            Reject::ControlRefused => Reject::Filtered("spam".into()),
            Reject::Filtered(_) => Reject::NoPlace,
            Reject::NoPlace => Reject::NumberTaken,
            Reject::NumberTaken => return None,
        })
    }

    #[test]
    fn the_book_says_what_to_do_about_each() {
        let page = include_str!("../../../../docs/book/src/refusals.md");
        assert!(page.contains("| malformed article |"));
        let all = std::iter::successors(Some(Reject::BadMessageId), next);
        all.for_each(|reject| assert!(page.contains(&format!("| {} |", reject.text())), "{}", reject.text()));
    }
}
