//! [`BusySources`]: the injecting sites, or the posting addresses, that most articles come from.
//!
//! A table of a fixed number of names, kept by the Space-Saving algorithm: a name that is not in it takes the
//! place of the one with the least weight, and that weight plus one. A name with more than one in
//! [`SOURCES_MAX`] of the recent articles is therefore in the table, however many others there are. Its
//! counts begin when it takes its place, so that they are never too high. Weights are halved each hour.
//! Source: Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in data
//! streams" (2005).

use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// Names in a table.
pub(super) const SOURCES_MAX: usize = 128;
/// Names that are shown of a table.
const SHOWN_MAX: usize = 20;
/// Hours for which articles are counted.
const HOURS: usize = 24;
/// Length of an hour, in seconds.
const HOUR_SECS: u64 = 3_600;

/// Counts of the articles from one source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceCounts {
    /// Articles that the filters have seen.
    pub articles: u64,
    /// Articles among these that a filter refused, or filed as hidden.
    pub refused: u64,
    /// Articles among these that a filter in shadow mode would have refused.
    pub would_refuse: u64,
}

/// An injecting site or a posting address, with its articles.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpamSource {
    /// Name, as the articles have it, made safe and shortened.
    pub name: String,
    /// Articles of this hour and the one before it.
    pub hour: SourceCounts,
    /// Articles of this hour and the 23 before it.
    pub day: SourceCounts,
}

/// The busiest sources of articles.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpamSources {
    /// Injecting sites, those with most articles that are or would be refused first.
    pub sites: Vec<SpamSource>,
    /// Posting hosts and accounts, as the injecting sites name them, likewise.
    pub addresses: Vec<SpamSource>,
}

impl SourceCounts {
    /// Counts an article.
    fn count(&mut self, fate: ArticleFate) {
        self.articles += 1;
        match fate {
            ArticleFate::Passed => {}
            ArticleFate::Refused => self.refused += 1,
            ArticleFate::WouldBeRefused => self.would_refuse += 1,
        }
    }

    fn add(&mut self, other: &Self) {
        self.articles += other.articles;
        self.refused += other.refused;
        self.would_refuse += other.would_refuse;
    }
}

/// The decision of the filters on an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArticleFate {
    /// No filter objected.
    Passed,
    /// Refused, or filed as hidden.
    Refused,
    /// A filter in shadow mode would have refused it.
    WouldBeRefused,
}

/// A source in a table.
#[derive(Debug)]
struct BusySource {
    key: u64,
    name: String,
    weight: u64,
    /// Counts by hour, in a ring, each with the hour that it is of.
    hours: [(u64, SourceCounts); HOURS],
}

impl BusySource {
    fn count(&mut self, fate: ArticleFate, hour: u64) {
        if let Some((of, counts)) = self.hours.get_mut(hour as usize % HOURS) {
            if *of != hour {
                (*of, *counts) = (hour, SourceCounts::default());
            }
            counts.count(fate);
        }
    }

    /// Returns the counts of the last hours.
    fn last(&self, hours: usize, hour: u64) -> SourceCounts {
        let mut sum = SourceCounts::default();
        let is_recent = |of: u64| of <= hour && hour - of < hours as u64;
        self.hours.iter().filter(|(of, _)| is_recent(*of)).for_each(|(_, counts)| sum.add(counts));
        sum
    }
}

/// A table of sources: at most 128 KiB.
#[derive(Debug, Default)]
pub(super) struct BusySources {
    sources: Vec<BusySource>,
    /// The hour of the last article.
    hour: u64,
}

impl BusySources {
    /// Counts an article of the source with this key at this time, in Unix seconds; `name` is for a source
    /// that is not in the table.
    pub fn count(&mut self, key: u64, name: impl FnOnce() -> String, fate: ArticleFate, now: u64) {
        let hour = now / HOUR_SECS;
        if hour > self.hour {
            let halvings = u32::try_from(hour - self.hour).unwrap_or(u32::MAX);
            for source in &mut self.sources {
                source.weight = source.weight.checked_shr(halvings).unwrap_or(0);
            }
            self.hour = hour;
        }
        let own = self.sources.iter().position(|source| source.key == key);
        let at = own.unwrap_or_else(|| self.enter(key, name()));
        if let Some(source) = self.sources.get_mut(at) {
            source.weight = source.weight.saturating_add(1);
            source.count(fate, hour);
        }
    }

    /// Puts a source into the table, in the place of the one with the least weight if it is full.
    fn enter(&mut self, key: u64, name: String) -> usize {
        let hours = [(0, SourceCounts::default()); HOURS];
        if self.sources.len() < SOURCES_MAX {
            self.sources.push(BusySource { key, name, weight: 0, hours });
            return self.sources.len() - 1;
        }
        let least = self.sources.iter().enumerate().min_by_key(|(_, source)| source.weight);
        let at = least.map_or(0, |(at, _)| at);
        if let Some(source) = self.sources.get_mut(at) {
            *source = BusySource { key, name, weight: source.weight, hours };
        }
        at
    }

    /// Returns the busiest sources at this time: those with most articles of the day that are or would be
    /// refused, then those with most articles.
    pub fn busiest(&self, now: u64) -> Vec<SpamSource> {
        let hour = now / HOUR_SECS;
        let source = |source: &BusySource| SpamSource {
            name: source.name.clone(),
            hour: source.last(2, hour),
            day: source.last(HOURS, hour),
        };
        let mut all: Vec<SpamSource> =
            self.sources.iter().map(source).filter(|source| source.day.articles > 0).collect();
        all.sort_by_key(|source| {
            Reverse((source.day.refused + source.day.would_refuse, source.day.articles))
        });
        all.truncate(SHOWN_MAX);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ArticleFate::{Passed, Refused, WouldBeRefused};

    const HOUR: u64 = HOUR_SECS;

    fn count(sources: &mut BusySources, name: u64, fate: ArticleFate, now: u64) {
        sources.count(name, || name.to_string(), fate, now);
    }

    #[test]
    fn articles_are_counted_by_hour_and_day() {
        let mut sources = BusySources::default();
        let day = 100 * 24 * HOUR;
        [Passed, Refused, WouldBeRefused].into_iter().for_each(|fate| count(&mut sources, 7, fate, day));
        count(&mut sources, 7, Passed, day + 5 * HOUR);
        let of = |sources: &BusySources, now| sources.busiest(now).first().cloned();
        let three = SourceCounts { articles: 3, refused: 1, would_refuse: 1 };
        let found = of(&sources, day + HOUR + 1).unwrap();
        assert_eq!((found.name.as_str(), found.hour, found.day), ("7", three, three));
        let found = of(&sources, day + 5 * HOUR).unwrap();
        assert_eq!((found.hour.articles, found.day.articles), (1, 4));
        let found = of(&sources, day + 24 * HOUR).unwrap();
        assert_eq!((found.hour.articles, found.day.articles), (0, 1), "the first hour is a day ago");
        assert_eq!(of(&sources, day + 40 * HOUR), None);
    }

    #[test]
    fn sources_that_are_refused_most_come_first() {
        let mut sources = BusySources::default();
        (0..50).for_each(|_| count(&mut sources, 1, Passed, 0));
        (0..3).for_each(|_| count(&mut sources, 2, WouldBeRefused, 0));
        (0..5).for_each(|_| count(&mut sources, 3, Refused, 0));
        let names: Vec<String> = sources.busiest(0).into_iter().map(|source| source.name).collect();
        assert_eq!(names, ["3", "2", "1"]);
    }

    #[test]
    fn a_flood_is_seen_among_ever_new_names_in_a_table_that_does_not_grow() {
        let mut sources = BusySources::default();
        let mut other = 1_000;
        for n in 0..100_000 {
            // One article in 50 is of the flood, which begins when the table is full.
            if n > 10_000 && n % 50 == 0 {
                count(&mut sources, 1, WouldBeRefused, n / 10);
            } else {
                other += 1;
                count(&mut sources, other, Passed, n / 10);
            }
        }
        assert_eq!(sources.sources.len(), SOURCES_MAX);
        assert!(size_of::<BusySource>() * SOURCES_MAX <= 128 << 10);
        let busiest = sources.busiest(10_000);
        assert_eq!(busiest.len(), SHOWN_MAX);
        let flood = busiest.first().unwrap();
        assert_eq!(flood.name, "1");
        assert!((1_500..=1_800).contains(&flood.day.would_refuse), "{flood:?}");
    }

    #[test]
    fn what_was_busy_yesterday_makes_room() {
        let mut sources = BusySources::default();
        (0..SOURCES_MAX as u64).for_each(|name| (0..100).for_each(|_| count(&mut sources, name, Passed, 0)));
        let now = 24 * HOUR;
        (0..20).for_each(|_| (500..510).for_each(|name| count(&mut sources, name, Passed, now)));
        let busiest = sources.busiest(now);
        assert_eq!(busiest.len(), 10, "{busiest:?}");
        assert!(busiest.iter().all(|source| source.day.articles == 20), "{busiest:?}");
        // A clock that is set back does no harm.
        count(&mut sources, 500, Passed, 0);
    }
}
