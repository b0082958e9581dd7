//! Differences between two configurations, key by key and section by section.
//!
//! Works on the output of `newsreel show`, so no key can be forgotten. Sections with a name are compared with
//! those of the same name; others by their order. Called by `reload` and `newsreel check --diff`.

use super::Config;
use super::place::ConfigLocation;
use super::table::{self, Lines, SECTIONS};
use std::fmt;

/// A difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Place in the new file, or in the old one if it is no longer there.
    pub place: ConfigLocation,
    /// Name of the section for people: `[limits]`, `[[peer]] news.example.org`, `[[access]] 2`.
    pub section: String,
    /// The change at that place.
    pub change: ConfigChange,
}

/// A change at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigChange {
    /// The section is new.
    Added,
    /// The section was removed.
    Removed,
    /// The section comes earlier or later than before.
    Moved,
    /// The old and new value of a key, as TOML; `None` if absent.
    Value(Option<String>, Option<String>),
}

/// Longest value that is shown, in characters.
const SHOWN_CHARS_MAX: usize = 60;

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.place.key.map(|key| format!(" {key}")).unwrap_or_default();
        let shown = |value: &Option<String>| {
            let value = value.as_deref().unwrap_or("none");
            let mut text: String = value.chars().take(SHOWN_CHARS_MAX).collect();
            if text.len() < value.len() {
                text.push_str("...");
            }
            text
        };
        match &self.change {
            ConfigChange::Added => write!(f, "{} added", self.section),
            ConfigChange::Removed => write!(f, "{} removed", self.section),
            ConfigChange::Moved => write!(f, "{} in another place", self.section),
            ConfigChange::Value(old, new) => {
                write!(f, "{}{key}: {} -> {}", self.section, shown(old), shown(new))
            }
        }
    }
}

/// A section of a configuration: its index among those of its kind, and its keys.
type Section = (usize, Lines);

/// Returns all differences, in the order of the documentation.
pub fn differences(old: &Config, new: &Config) -> Vec<Difference> {
    let (old, new) = (old.sections(), new.sections());
    let mut found = Vec::new();
    for section in SECTIONS.iter() {
        let of = |all: &[(&'static str, Lines)]| -> Vec<Section> {
            let own = all.iter().filter(|(name, _)| *name == section.name);
            own.map(|(_, lines)| lines.clone()).enumerate().collect()
        };
        let (old, new) = (of(&old), of(&new));
        let find = DifferenceFinder { section: section.name, repeated: section.repeated };
        if section.repeated && table::key(section.name, "name").is_some() {
            find.named(&old, &new, &mut found);
        } else {
            find.ordered(&old, &new, &mut found);
        }
    }
    found
}

struct DifferenceFinder {
    section: &'static str,
    repeated: bool,
}

fn name_of((_, lines): &Section) -> Option<&str> {
    lines.iter().find(|(key, _)| *key == "name").map(|(_, value)| value.as_str())
}

impl DifferenceFinder {
    fn difference(&self, at: &Section, key: Option<&'static str>, change: ConfigChange) -> Difference {
        let section = match (self.repeated, name_of(at)) {
            (false, _) => format!("[{}]", self.section),
            (true, Some(name)) => format!("[[{}]] {}", self.section, name.trim_matches('"')),
            (true, None) => format!("[[{}]] {}", self.section, at.0 + 1),
        };
        Difference { place: ConfigLocation { section: self.section, index: at.0, key }, section, change }
    }

    fn named(&self, old: &[Section], new: &[Section], found: &mut Vec<Difference>) {
        let there = |all: &[Section], one: &Section| all.iter().any(|other| name_of(other) == name_of(one));
        let gone = old.iter().filter(|section| !there(new, section));
        found.extend(gone.map(|section| self.difference(section, None, ConfigChange::Removed)));
        let common: Vec<_> = old.iter().filter(|section| there(new, section)).map(name_of).collect();
        let mut order = common.iter();
        for section in new {
            let Some(before) = old.iter().find(|before| name_of(before) == name_of(section)) else {
                found.push(self.difference(section, None, ConfigChange::Added));
                continue;
            };
            self.keys(before, section, found);
            if order.next().is_some_and(|name| *name != name_of(section)) {
                found.push(self.difference(section, None, ConfigChange::Moved));
            }
        }
    }

    fn ordered(&self, old: &[Section], new: &[Section], found: &mut Vec<Difference>) {
        let same = |(old, new): &(&Section, &Section)| old.1 == new.1;
        let front = old.iter().zip(new).take_while(same).count();
        let (old, new) = (old.get(front..).unwrap_or_default(), new.get(front..).unwrap_or_default());
        let back = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
        let (old, new) = (
            old.get(..old.len() - back).unwrap_or_default(),
            new.get(..new.len() - back).unwrap_or_default(),
        );
        if old.len() == new.len() && !old.iter().any(|old| new.iter().any(|new| old.1 == new.1)) {
            old.iter().zip(new).for_each(|(old, new)| self.keys(old, new, found));
            return;
        }
        let there = |all: &[Section], one: &Section| all.iter().any(|other| other.1 == one.1);
        let gone = old.iter().filter(|section| !there(new, section));
        found.extend(gone.map(|section| self.difference(section, None, ConfigChange::Removed)));
        for section in new {
            let change = if there(old, section) { ConfigChange::Moved } else { ConfigChange::Added };
            found.push(self.difference(section, None, change));
        }
    }

    fn keys(&self, old: &Section, new: &Section, found: &mut Vec<Difference>) {
        let value = |(_, lines): &Section, key: &str| {
            lines.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone())
        };
        // For an added or removed part, one key stands for all.
        let has =
            |(_, lines): &Section, part: &str| lines.iter().any(|(name, _)| part_of(name) == Some(part));
        let mut told = Vec::new();
        for key in table::keys().filter(|key| key.section == self.section) {
            let (before, after) = (value(old, key.name), value(new, key.name));
            if before == after {
                continue;
            }
            if let Some(part) = part_of(key.name).filter(|part| has(old, part) != has(new, part)) {
                if told.contains(&part) {
                    continue;
                }
                told.push(part);
            }
            found.push(self.difference(new, Some(key.name), ConfigChange::Value(before, after)));
        }
    }
}

/// Returns the part of a section that a key belongs to.
fn part_of(key: &str) -> Option<&str> {
    key.split_once('.').map(|(part, _)| part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::with_trash;

    fn told(old: &str, new: &str) -> Vec<String> {
        differences(&with_trash(old), &with_trash(new)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn keys_sections_and_order() {
        assert_eq!(told("", ""), Vec::<String>::new());
        let limits = told("", "[limits]\nconnections_max = 7\nidle_timeout = \"4 min\"\n");
        assert_eq!(
            limits,
            ["[limits] connections_max: 20000 -> 7", "[limits] idle_timeout: \"10 min\" -> \"4 min\""]
        );
        let peer = |name: &str, rest: &str| {
            format!("[[peer]]\nname = \"{name}\"\naddresses = [\"192.0.2.{}\"]\n{rest}", name.len())
        };
        let old = peer("a", "") + &peer("bb", "") + &peer("ccc", "");
        let new = peer("bb", "user = \"x\"\n") + &peer("a", "") + &peer("dddd", "");
        assert_eq!(
            told(&old, &new),
            [
                "[[peer]] ccc removed",
                "[[peer]] bb user: none -> \"x\"",
                "[[peer]] bb in another place",
                "[[peer]] a in another place",
                "[[peer]] dddd added"
            ]
        );
    }

    #[test]
    fn sections_without_a_name_are_compared_in_order() {
        let access = |users: &str, read: &str| {
            format!("[[access]]\nfrom = \"all\"\nusers = \"{users}\"\nread = \"{read}\"\n")
        };
        let old = access("a", "*") + &access("b", "*") + &access("c", "*");
        let changed = access("a", "*") + &access("b", "x.*") + &access("c", "*");
        assert_eq!(told(&old, &changed), ["[[access]] 2 read: \"*\" -> \"x.*\""]);
        let inserted = access("a", "*") + &access("n", "*") + &access("b", "*") + &access("c", "*");
        assert_eq!(told(&old, &inserted), ["[[access]] 2 added"]);
        assert_eq!(told(&inserted, &old), ["[[access]] 2 removed"]);
        let swapped = access("b", "*") + &access("a", "*") + &access("c", "*");
        assert_eq!(told(&old, &swapped), ["[[access]] 1 in another place", "[[access]] 2 in another place"]);
    }
}
