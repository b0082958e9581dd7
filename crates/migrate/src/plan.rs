//! Plan of an import: which articles are filed, in which order and under which numbers.
//!
//! The head of each article is read once. Called by `cli::import`.

use std::collections::HashMap;

use disk::Progress;
use netnews::date;
use spool::{Criteria, Estimator, ProspectiveArticle, inn_hash};

use super::head;
use super::order::NumberedArticles;
use super::site::OtherSite;
use super::source::ArticleLocation;
use site_config::NamePattern;

/// Number of Message-IDs that are looked up in history together.
const LOOKED_UP: usize = 4096;

/// Look-up that reports which Message-IDs this site knows.
pub type KnownIds<'a, E> = dyn FnMut(&[String]) -> Result<Vec<bool>, E> + 'a;

/// Articles of an import. An article's number is its index in `Found::items`.
#[derive(Debug, Default)]
pub struct ImportPlan {
    /// Names of the groups in which articles have numbers, by their index in `numbered`.
    pub groups: Vec<String>,
    /// Groups and numbers of the articles that have numbers.
    pub numbered: NumberedArticles,
    /// Groups in which the file of an article without Xref has no number, in the form of
    /// [`ImportPlan::places`].
    unplaced: HashMap<u32, String>,
    /// Wanted articles with numbers, in the order in which they were numbered.
    pub order: Vec<u32>,
    /// Wanted articles without numbers.
    pub unnumbered: Vec<u32>,
    /// Number of articles in no wanted group.
    pub unwanted: u64,
    /// Beginning of INN's hash of the Message-ID of each article.
    pub hashes: Vec<u64>,
    /// Articles that the other server still stores and shows in no wanted group any more.
    pub expired: Vec<u32>,
    /// Storage class and size there for each article, if a rule chooses a class and the article is not known
    /// here.
    weights: Vec<Option<(u8, u32)>>,
}

impl ImportPlan {
    /// Examines all articles of `other`; those in no group of `wanted` are left out. `known` reports which
    /// Message-IDs this site knows: these articles need no room.
    pub fn make<E>(
        other: &OtherSite,
        wanted: Option<&NamePattern>,
        estimator: &Estimator,
        known: &mut KnownIds<'_, E>,
        progress: &dyn Progress,
    ) -> Result<Self, E> {
        let mut plan = Self::default();
        let mut ids: HashMap<Vec<u8>, Option<u32>> = HashMap::new();
        let mut begun = Vec::new();
        let mut looked_up = Vec::with_capacity(LOOKED_UP);
        let mut left_out = vec![false; other.found.items.len()];
        progress.start("looking through the articles", other.found.items.len() as u64);
        for ((at, item), left_out) in other.found.items.iter().enumerate().zip(&mut left_out) {
            // Unreadable articles are reported when they are to be filed.
            if other.found.read_head(item, &mut begun).is_err() {
                begun.clear();
            }
            let named = other.found.places(item);
            let mut head = head::read(&begun);
            let unplaced = complete(&mut head, &named, other, wanted);
            let has_places = !head.places.is_empty();
            let is_expired =
                remove_expired(&mut head, Some(item).filter(|_| !named.is_empty()), other, wanted);
            for (name, number) in &head.places {
                if let Some(group) = plan.group(name, wanted, &mut ids) {
                    plan.numbered.pairs.push((group, *number));
                }
            }
            plan.hashes.push(short_hash(head.message_id));
            plan.numbered.push(arrival(other, item, head.message_id));
            *left_out = has_places && plan.numbered.of(at as u32).is_empty();
            match (*left_out, unplaced) {
                (true, _) if is_expired => plan.expired.push(at as u32),
                (true, _) => plan.unwanted += 1,
                (false, unplaced) => plan.unplaced.extend(unplaced.map(|unplaced| (at as u32, unplaced))),
            }
            let arrived = plan.numbered.arrived.last().copied().unwrap_or(0);
            plan.weights.push(weigh(
                estimator,
                &head,
                wanted,
                head::wire_bytes(&begun, item.bytes.into()),
                arrived,
            ));
            looked_up.push(String::from_utf8_lossy(head.message_id).into_owned());
            if looked_up.len() >= LOOKED_UP {
                plan.unweigh(&known(&looked_up)?);
                looked_up.clear();
            }
            progress.step(at as u64);
        }
        if !looked_up.is_empty() {
            plan.unweigh(&known(&looked_up)?);
        }
        progress.finish();
        let order = plan.numbered.order().into_iter();
        let wanted = order.filter(|article| left_out.get(*article as usize) == Some(&false));
        (plan.order, plan.unnumbered) = wanted.partition(|article| !plan.numbered.of(*article).is_empty());
        Ok(plan)
    }

    /// Returns the size of an article, if it is stored in this class.
    pub fn weight(&self, article: u32, class: usize) -> Option<u64> {
        let (chosen, bytes) = (*self.weights.get(article as usize)?)?;
        (usize::from(chosen) == class).then_some(u64::from(bytes))
    }

    /// Takes the weight from those of the last articles that are `known` here.
    fn unweigh(&mut self, known: &[bool]) {
        let first = self.weights.len().saturating_sub(known.len());
        let last = self.weights.iter_mut().skip(first);
        last.zip(known).filter(|(_, known)| **known).for_each(|(weight, _)| *weight = None);
    }

    fn group(
        &mut self,
        name: &[u8],
        wanted: Option<&NamePattern>,
        ids: &mut HashMap<Vec<u8>, Option<u32>>,
    ) -> Option<u32> {
        if let Some(id) = ids.get(name) {
            return *id;
        }
        let text =
            std::str::from_utf8(name).ok().filter(|_| wanted.is_none_or(|wanted| wanted.matches(name)));
        let id = text.map(|text| {
            self.groups.push(text.to_owned());
            self.groups.len() as u32 - 1
        });
        ids.insert(name.to_vec(), id);
        id
    }

    /// Writes the locations of an article as in a frame of the control socket; numbers of groups refused by
    /// `keep` are 0.
    pub fn places(&self, article: u32, keep: impl Fn(u32) -> bool, out: &mut Vec<u8>) {
        for (group, number) in self.numbered.of(article) {
            let Some(name) = self.groups.get(*group as usize) else { continue };
            out.extend_from_slice(name.as_bytes());
            let number = if keep(*group) { *number } else { 0 };
            out.extend_from_slice(format!(":{number} ").as_bytes());
        }
        out.extend_from_slice(self.unplaced.get(&article).map_or(&[][..], String::as_bytes));
    }

    /// Returns whether an article gets a new number in some group.
    pub fn is_renumbered(&self, article: u32, keep: impl Fn(u32) -> bool) -> bool {
        let pairs = self.numbered.of(article);
        pairs.is_empty()
            || self.unplaced.contains_key(&article)
            || pairs.iter().any(|(group, _)| !keep(*group))
    }
}

/// Adds locations from the names of the article's file to those of Xref, for groups in its Newsgroups
/// header or in the active file. Returns the remaining groups of an article without Xref.
fn complete<'a>(
    head: &mut head::ArticleHead<'a>,
    named: &'a [(String, u64)],
    other: &OtherSite,
    wanted: Option<&NamePattern>,
) -> Option<String> {
    let has_xref = !head.places.is_empty();
    let newsgroups = head.newsgroups;
    let listed = || newsgroups.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    for (group, number) in named {
        let name = group.as_bytes();
        let known = listed().any(|other| other == name) || other.groups.contains_key(group);
        if known && head.places.iter().all(|(other, _)| *other != name) {
            head.places.push((name, *number));
        }
    }
    if has_xref || head.places.is_empty() {
        return None;
    }
    let is_unplaced = |name: &&[u8]| {
        netnews::newsgroups::valid_name(name)
            && head.places.iter().all(|(other, _)| other != name)
            && wanted.is_none_or(|wanted| wanted.matches(name))
    };
    let names = listed().filter(is_unplaced).filter_map(|name| std::str::from_utf8(name).ok());
    Some(names.map(|name| format!("{name}:0 ")).collect::<String>()).filter(|places| !places.is_empty())
}

/// Removes the locations in which the other server no longer shows the article, which expires in one group
/// after the other; one of tradspool is in `tree`. Returns whether one of them was in a wanted group.
fn remove_expired(
    head: &mut head::ArticleHead<'_>,
    tree: Option<&ArticleLocation>,
    other: &OtherSite,
    wanted: Option<&NamePattern>,
) -> bool {
    let mut is_expired = false;
    head.places.retain(|(name, number)| {
        let is_shown = other.shows(tree, name, *number);
        is_expired |= !is_shown && wanted.is_none_or(|wanted| wanted.matches(name));
        is_shown
    });
    is_expired
}

/// Returns the class that the rules choose for an article in wire format, by its index in the configuration,
/// and its size there. It is filed in `groups`, or if there are none in those of its Newsgroups header.
pub fn weigh_article(
    estimator: &Estimator,
    wire: &[u8],
    groups: &[&[u8]],
    arrived: u32,
) -> Option<(usize, u64)> {
    let mut head = head::read(wire);
    head.places = groups.iter().map(|group| (*group, 0)).collect();
    let (class, bytes) = weigh(estimator, &head, None, wire.len() as u64, arrived)?;
    Some((usize::from(class), u64::from(bytes)))
}

/// Returns the class that the rules choose for an article, and its size there.
fn weigh(
    estimator: &Estimator,
    head: &head::ArticleHead<'_>,
    wanted: Option<&NamePattern>,
    wire_bytes: u64,
    arrived: u32,
) -> Option<(u8, u32)> {
    let named: Vec<&[u8]> = match head.places.as_slice() {
        [] => head.newsgroups.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect(),
        places => places.iter().map(|(name, _)| *name).collect(),
    };
    let carried = named.into_iter().filter(|name| wanted.is_none_or(|wanted| wanted.matches(name)));
    let groups: Vec<&str> = carried.filter_map(|name| std::str::from_utf8(name).ok()).collect();
    let expires = date::parse(head.expires).map(|expires| expires.saturating_sub(i64::from(arrived)));
    let candidate = ProspectiveArticle {
        groups: &groups,
        wire_bytes,
        criteria: Criteria {
            from: head.from,
            path: head.path,
            head: head.lines,
            verdict: None,
            origin: "import",
            newsgroups: head.newsgroups,
        },
        expires_in_secs: expires.map(|secs| u64::try_from(secs).unwrap_or(0)),
    };
    let (class, bytes) = estimator.place(&candidate)?;
    Some((u8::try_from(class).ok()?, u32::try_from(bytes).ok()?))
}

/// Returns the beginning of INN's hash of a Message-ID.
pub fn short_hash(message_id: &[u8]) -> u64 {
    let hash = u128::from_be_bytes(inn_hash(message_id));
    (hash >> 64) as u64
}

/// Returns when an article arrived: by history if that was read, otherwise by its own file.
fn arrival(other: &OtherSite, item: &ArticleLocation, message_id: &[u8]) -> u32 {
    if other.arrivals.by_hash.is_empty() {
        return item.arrived;
    }
    other.arrivals.by_hash.get(&inn_hash(message_id)).copied().unwrap_or(item.arrived)
}
