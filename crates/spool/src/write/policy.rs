//! The expiry policy: when a kept article is due in a group (CN-46).

use crate::base::config::{ExpireConfig, Keep};
use crate::base::error::SpoolError;
use crate::base::ids::GroupId;
use crate::index::kept::KeptEntry;
use netnews::wildmat::Wildmat;
use std::collections::HashMap;

#[derive(Debug)]
struct Rule {
    class: Option<usize>,
    groups: Option<Wildmat>,
    keep: Keep,
}

/// The policy: the first rule for class and group decides; without one an article is kept forever.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    rules: Vec<Rule>,
    known: HashMap<(Option<usize>, GroupId), Option<usize>>,
}

impl Policy {
    /// Compiles the rules; `class` returns the number of a class by name.
    pub fn new(config: &[ExpireConfig], class: impl Fn(&str) -> Option<usize>) -> Result<Self, SpoolError> {
        let mut rules = Vec::new();
        for c in config {
            let number = match &c.class {
                Some(name) => Some(class(name).ok_or_else(|| {
                    SpoolError::Unfit(format!("an expiry rule names the unknown class \"{name}\""))
                })?),
                None => None,
            };
            let wildmat = |text: &String| {
                Wildmat::parse(text.as_bytes())
                    .map_err(|e| SpoolError::Unfit(format!("expiry rule pattern \"{text}\": {e}")))
            };
            let groups = c.groups.as_ref().map(wildmat).transpose()?;
            rules.push(Rule { class: number, groups, keep: c.keep });
        }
        Ok(Self { rules, known: HashMap::new() })
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Groups may have been added or removed.
    pub fn forget_groups(&mut self) {
        self.known.clear();
    }

    /// When an article is due in a group, Unix seconds; `None`: never.
    pub fn due(&mut self, e: &KeptEntry, class: Option<usize>, group: GroupId, name: &str) -> Option<u64> {
        let rules = &self.rules;
        let rule = *self.known.entry((class, group)).or_insert_with(|| {
            rules.iter().position(|r| {
                r.class.is_none_or(|c| Some(c) == class)
                    && r.groups.as_ref().is_none_or(|w| w.matches(name.as_bytes()))
            })
        });
        match rules.get(rule?)?.keep {
            Keep::Forever => None,
            Keep::Secs { min, default, max } => {
                let arrived = u64::from(e.arrived);
                let expires = u64::from(e.expires);
                let wanted = if expires == 0 { arrived.saturating_add(default) } else { expires };
                Some(wanted.max(arrived.saturating_add(min)).min(arrived.saturating_add(max)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::Key;

    fn entry(expires: u32) -> KeptEntry {
        let (place, key, class, arrived, stored_bytes, numbers) = (0, Key(0), 0, 1000, 0, Vec::new());
        KeptEntry { place, key, class, arrived, expires, stored_bytes, numbers }
    }

    /// CN-46: min-default-max, first match wins.
    #[test]
    fn an_explicit_date_is_honoured_within_bounds() {
        let keep = Keep::Secs { min: 10, default: 70, max: 300 };
        let rule = |groups: &str, class: Option<&str>, keep| ExpireConfig {
            groups: Some(groups.into()),
            class: class.map(str::to_owned),
            keep,
        };
        let config =
            [rule("local.*", None, Keep::Forever), rule("a.*", Some("x"), keep), rule("a.b", None, keep)];
        let mut p = Policy::new(&config, |name| (name == "x").then_some(1)).unwrap();
        let mut due = |class, expires, id, name| p.due(&entry(expires), Some(class), GroupId(id), name);
        assert_eq!(due(0, 5, 0, "local.x"), None);
        assert_eq!(due(1, 0, 1, "a.c"), Some(1070));
        assert_eq!(due(1, 1200, 1, "a.c"), Some(1200));
        assert_eq!(due(1, 1001, 1, "a.c"), Some(1010));
        assert_eq!(due(1, 9999, 1, "a.c"), Some(1300));
        assert_eq!(due(0, 0, 1, "a.c"), None);
        assert_eq!(due(0, 0, 2, "a.b"), Some(1070));
        assert!(Policy::new(&[rule("a", Some("none"), keep)], |_| None).is_err());
    }
}
