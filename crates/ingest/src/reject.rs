//! Reasons for rejecting an article.
//!
//! Each reason has a text and determines whether the Message-ID is remembered: policy that applies to any
//! copy of the article is; damage in transit, and faults of only this sender or this copy, are not, since
//! another peer may bring a good copy. Called by `ingest` and `checks`.

use super::programs;
use netnews::MalformedArticle;
use site_base::units::counted;
use std::fmt;
use std::sync::Arc;

/// Reason for rejecting an article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reject {
    /// Not an article.
    Malformed(MalformedArticle),
    /// The Message-ID, or the announced one, is invalid.
    BadMessageId,
    /// The Message-ID is not the announced one.
    OtherMessageId,
    /// The article has no body, and the sender may not send such articles.
    NoBody,
    /// The article was seen before.
    Duplicate,
    /// The article has been here: our path identity is in its Path.
    Loop,
    /// The date cannot be parsed.
    BadDate,
    /// The date is more than a day ahead.
    FutureDate,
    /// The date is older than `site.max_age_days`.
    TooOld {
        /// Greatest age in days.
        days_max: u32,
    },
    /// The article is longer than `site.article_bytes_max`.
    TooLarge {
        /// Greatest length in bytes.
        bytes_max: u64,
    },
    /// All its distributions are refused by `site.distributions`.
    UnwantedDistribution,
    /// The peer may send none of its distributions.
    DistributionNotAccepted,
    /// None of its groups is carried.
    UnknownGroups,
    /// The peer may send to none of its groups.
    NotAccepted,
    /// The groups of the article take no articles.
    RefusedGroups,
    /// A moderated group without an Approved header.
    Unapproved,
    /// More groups than one article may be filed in.
    TooManyGroups {
        /// Most groups for one article.
        groups_max: usize,
    },
    /// The article was withdrawn before it arrived.
    Withdrawn,
    /// The request of the article is refused by a `[[control]]` section.
    ControlRefused,
    /// Refused by a filter, for this reason: one printable line.
    Filtered(Arc<str>),
    /// No storage rule or buffer takes the article.
    NoPlace,
    /// An article number it brings may be in use already.
    NumberTaken,
}

impl Reject {
    /// Returns the refusal by a filter, whose reason becomes one printable line.
    pub fn by_filter(reason: &str) -> Self {
        Self::Filtered(programs::shortened(reason).into())
    }

    /// Returns whether its Message-ID is entered into history, so that no copy is asked for again.
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

    /// Returns the reason in words, without details.
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

impl From<MalformedArticle> for Reject {
    fn from(malformed: MalformedArticle) -> Self {
        Self::Malformed(malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the next reason, so that the test covers them all.
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
    fn the_book_documents_every_reason() {
        let page = include_str!("../../../docs/book/src/refusals.md");
        assert!(page.contains("| malformed article |"));
        let all = std::iter::successors(Some(Reject::BadMessageId), next);
        all.for_each(|reject| assert!(page.contains(&format!("| {} |", reject.text())), "{}", reject.text()));
    }
}
