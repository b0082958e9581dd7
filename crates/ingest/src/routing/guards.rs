//! Conditions of peers on single articles, apart from groups and Path: a flat list, all of which must pass.

use super::facts::{RoutingFacts, RoutingStep};
use super::hash::{Digest, digest_of, part_in};
use super::matrix::set;
use netnews::article::ArticleTypes;
use netnews::{newsgroups, path};
use site_base::units::counted;
use site_base::units::size_text;
use site_config::{ArticleType, ConfigWord, Distributions, FeedCondition, HashSplit, PeerSend};
use spool::ArticleKind;
use std::cell::OnceCell;

/// A condition on an article; variants that are quick to judge come first.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RoutingGuard {
    SizeMin(u64),
    SizeMax(u64),
    Only(FeedCondition),
    CrosspostsMax(usize),
    HopsMax(usize),
    Distributions(Distributions),
    Hash(HashSplit),
    /// The article must be of one of these types.
    Types(Vec<ArticleType>),
    /// The article must be of none of these types.
    TypesNever(Vec<ArticleType>),
}

/// Guards of all peers, each judged once for all peers that have it.
#[derive(Debug, Default)]
pub(super) struct Guards(Vec<(RoutingGuard, Vec<u64>)>);

impl Guards {
    /// Returns the guards of peers by column.
    pub fn of<'a>(peers: impl Iterator<Item = (usize, &'a PeerSend)>, words: usize) -> Self {
        let mut all: Vec<(RoutingGuard, Vec<u64>)> = Vec::new();
        for (column, send) in peers {
            for guard in RoutingGuard::all(send) {
                if let Some((_, those)) = all.iter_mut().find(|(other, _)| *other == guard) {
                    set(those, column);
                } else {
                    let mut those = vec![0; words];
                    set(&mut those, column);
                    all.push((guard, those));
                }
            }
        }
        all.sort_by_key(|(guard, _)| guard.rank());
        Self(all)
    }

    /// Clears the peers that have a guard which the article does not meet.
    pub fn keep(&self, left: &mut [u64], facts: &RoutingFacts<'_>, own: &[Box<[u8]>]) {
        let found = ArticleFacts::default();
        for (guard, those) in &self.0 {
            let is_asked = left.iter().zip(those).any(|(left, those)| left & those != 0);
            if is_asked && !guard.passes(facts, &found, own) {
                left.iter_mut().zip(those).for_each(|(left, those)| *left &= !those);
            }
        }
    }
}

/// Facts that need the whole article or a digest, computed on first use.
#[derive(Debug, Default)]
pub(super) struct ArticleFacts {
    types: OnceCell<ArticleTypes>,
    digest: OnceCell<Digest>,
}

impl ArticleFacts {
    fn types(&self, facts: &RoutingFacts<'_>) -> ArticleTypes {
        *self.types.get_or_init(|| ArticleTypes::of(facts.wire, facts.body_offset))
    }

    fn is_any(&self, facts: &RoutingFacts<'_>, types: &[ArticleType]) -> bool {
        let own = self.types(facts);
        types.iter().any(|one| own.has(one.types()))
    }

    fn part(&self, facts: &RoutingFacts<'_>, split: &HashSplit) -> u32 {
        part_in(self.digest.get_or_init(|| digest_of(facts.message_id)), split)
    }
}

impl RoutingGuard {
    /// Returns the guards of a peer, in the order of the variants.
    pub fn all(send: &PeerSend) -> Vec<Self> {
        let mut all = Vec::new();
        all.extend(send.size_min.map(Self::SizeMin));
        all.extend(send.size_max.map(Self::SizeMax));
        let of_kind =
            |only: &&FeedCondition| !matches!(only, FeedCondition::Moderated | FeedCondition::Unmoderated);
        all.extend(send.only.iter().filter(of_kind).map(|only| Self::Only(*only)));
        all.extend(send.crossposts_max.map(Self::CrosspostsMax));
        all.extend(send.hops_max.map(Self::HopsMax));
        if send.distributions.as_str() != "*" {
            all.push(Self::Distributions(send.distributions.clone()));
        }
        all.extend(send.hash.map(Self::Hash));
        if !send.types.is_empty() {
            all.push(Self::Types(send.types.clone()));
        }
        if !send.types_never.is_empty() {
            all.push(Self::TypesNever(send.types_never.clone()));
        }
        all
    }

    /// Returns its position in the order of the variants.
    fn rank(&self) -> u8 {
        match self {
            Self::SizeMin(_) => 0,
            Self::SizeMax(_) => 1,
            Self::Only(_) => 2,
            Self::CrosspostsMax(_) => 3,
            Self::HopsMax(_) => 4,
            Self::Distributions(_) => 5,
            Self::Hash(_) => 6,
            Self::Types(_) => 7,
            Self::TypesNever(_) => 8,
        }
    }

    /// Returns whether an article meets the guard. `own` are our own names, which do not count as hops.
    pub fn passes(&self, facts: &RoutingFacts<'_>, found: &ArticleFacts, own: &[Box<[u8]>]) -> bool {
        match self {
            Self::SizeMin(bytes) => facts.wire_bytes >= *bytes,
            Self::SizeMax(bytes) => facts.wire_bytes <= *bytes,
            Self::CrosspostsMax(groups) => crossposts(facts) <= *groups,
            Self::HopsMax(max) => hops(facts, own) <= *max,
            Self::Distributions(accepted) => accepted.accept(facts.distribution),
            Self::Only(FeedCondition::Control) => facts.kind.has(ArticleKind::CONTROL),
            Self::Only(FeedCondition::NoControl) => !facts.kind.has(ArticleKind::CONTROL),
            Self::Only(FeedCondition::Injected) => facts.origin == "injected",
            Self::Only(FeedCondition::Distribution) => !facts.distribution.is_empty(),
            // A condition on groups, not on articles.
            Self::Only(FeedCondition::Moderated | FeedCondition::Unmoderated) => true,
            Self::Types(wanted) => found.is_any(facts, wanted),
            Self::TypesNever(never) => !found.is_any(facts, never),
            Self::Hash(split) => (split.first..=split.last).contains(&found.part(facts, split)),
        }
    }

    /// Returns the outcome in words.
    pub fn explain(&self, facts: &RoutingFacts<'_>, own: &[Box<[u8]>]) -> RoutingStep {
        let (what, text) = match self {
            Self::SizeMin(min) => ("size_min", bytes_against(facts, "least", *min)),
            Self::SizeMax(max) => ("size_max", bytes_against(facts, "most", *max)),
            Self::CrosspostsMax(max) => (
                "crossposts_max",
                format!("it is in {}; at most {max}", counted(crossposts(facts) as u64, "group")),
            ),
            Self::HopsMax(max) => (
                "hops_max",
                format!("it has passed {}; at most {max}", counted(hops(facts, own) as u64, "server")),
            ),
            Self::Distributions(accepted) => {
                let own = String::from_utf8_lossy(facts.distribution);
                let own = if own.is_empty() { "none".into() } else { own };
                ("distributions", format!("Distribution: {own}; wanted \"{}\"", accepted.as_str()))
            }
            Self::Only(only) => ("only", kind_text(facts, *only).to_owned()),
            Self::Hash(split) => {
                let part = part_in(&digest_of(facts.message_id), split);
                ("hash", format!("it is in part {part} of {}; wanted {split}", split.of))
            }
            Self::Types(wanted) => ("types", types_text(facts, wanted, "wanted")),
            Self::TypesNever(never) => ("types_never", types_text(facts, never, "not wanted")),
        };
        RoutingStep { what, passed: self.passes(facts, &ArticleFacts::default(), own), text }
    }
}

fn bytes_against(facts: &RoutingFacts<'_>, bound: &str, bytes: u64) -> String {
    format!("it has {} bytes; at {bound} {}", facts.wire_bytes, size_text(bytes))
}

fn types_text(facts: &RoutingFacts<'_>, types: &[ArticleType], wanted: &str) -> String {
    let found = ArticleFacts::default();
    let own: Vec<&str> = ArticleType::WORDS
        .iter()
        .filter(|(_, one)| found.is_any(facts, &[*one]))
        .map(|(word, _)| *word)
        .collect();
    let types: Vec<&str> = types.iter().map(|one| one.word()).collect();
    format!("it is {}; {wanted}: {}", own.join(", "), types.join(", "))
}

fn kind_text(facts: &RoutingFacts<'_>, only: FeedCondition) -> &'static str {
    match only {
        FeedCondition::Control | FeedCondition::NoControl if facts.kind.has(ArticleKind::CONTROL) => {
            "it is a control message"
        }
        FeedCondition::Control | FeedCondition::NoControl => "it is no control message",
        FeedCondition::Injected if facts.origin == "injected" => "it was posted here",
        FeedCondition::Injected => "it was not posted here",
        FeedCondition::Distribution if facts.distribution.is_empty() => "it has no Distribution",
        FeedCondition::Distribution => "it has a Distribution",
        FeedCondition::Moderated | FeedCondition::Unmoderated => "groups decide this",
    }
}

fn crossposts(facts: &RoutingFacts<'_>) -> usize {
    newsgroups::split(facts.newsgroups).count()
}

/// Returns the number of servers an article has passed, without our own.
fn hops(facts: &RoutingFacts<'_>, own: &[Box<[u8]>]) -> usize {
    let is_own = |hop: &&[u8]| own.iter().any(|own| own.eq_ignore_ascii_case(hop));
    path::hops(facts.path).filter(|hop| !is_own(hop)).count()
}
