//! Storage rules: the first rule all of whose conditions hold names the class (CNFS-22 to CNFS-26).

use crate::config::RuleConfig;
use crate::error::SpoolError;
use netnews::wildmat::Wildmat;

/// Most rules a spool may have: each has a bit in a group's precomputed match set.
pub(crate) const RULES_MAX: usize = 64;

/// Most storage classes: a token has one byte for them.
pub(crate) const CLASSES_MAX: usize = 255;

#[derive(Debug)]
struct Rule {
    class: usize,
    larger_than: Option<u64>,
    smaller_than: Option<u64>,
    crossposts_at_least: Option<usize>,
    from: Option<Wildmat>,
    expires_within_secs: Option<u64>,
    expires_beyond_secs: Option<u64>,
}

/// What a rule may look at besides the group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traits<'a> {
    pub size_bytes: u64,
    pub groups: usize,
    pub from: &'a [u8],
    /// Seconds from arrival to the Expires date.
    pub expires_in_secs: Option<u64>,
}

/// All rules, in order.
#[derive(Debug)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    groups: Vec<Option<Wildmat>>,
}

impl Rules {
    /// Compiles the rules; `class` gives the number of a class by name.
    pub fn new(config: &[RuleConfig], class: impl Fn(&str) -> Option<usize>) -> Result<Self, SpoolError> {
        if config.len() > RULES_MAX {
            return Err(SpoolError::Unfit(format!(
                "{} storage rules; at most {RULES_MAX} are possible",
                config.len()
            )));
        }
        let wildmat = |text: &Option<String>| {
            let parse = |t: &String| {
                Wildmat::parse(t.as_bytes())
                    .map_err(|e| SpoolError::Unfit(format!("storage rule pattern \"{t}\": {e}")))
            };
            text.as_ref().map(parse).transpose()
        };
        let mut new = Self { rules: Vec::new(), groups: Vec::new() };
        for c in config {
            let class = class(&c.class).ok_or_else(|| {
                SpoolError::Unfit(format!("a storage rule names the unknown class \"{}\"", c.class))
            })?;
            new.groups.push(wildmat(&c.groups)?);
            new.rules.push(Rule {
                class,
                larger_than: c.larger_than,
                smaller_than: c.smaller_than,
                crossposts_at_least: c.crossposts_at_least,
                from: wildmat(&c.from)?,
                expires_within_secs: c.expires_within_secs,
                expires_beyond_secs: c.expires_beyond_secs,
            });
        }
        Ok(new)
    }

    /// Which rules' group condition a group meets, a bit a rule; computed once a group.
    pub fn group_bits(&self, group: &str) -> u64 {
        let meets = |w: &Option<Wildmat>| w.as_ref().is_none_or(|w| w.matches(group.as_bytes()));
        self.groups.iter().enumerate().filter(|(_, w)| meets(w)).fold(0, |bits, (i, _)| bits | 1 << i)
    }

    /// The class of an article whose first group has these bits; `None` if no rule matches.
    pub fn class(&self, group_bits: u64, article: &Traits<'_>) -> Option<usize> {
        let rule = |(i, r): &(usize, &Rule)| group_bits & 1 << i != 0 && r.matches(article);
        self.rules.iter().enumerate().find(rule).map(|(_, r)| r.class)
    }
}

impl Rule {
    fn matches(&self, a: &Traits<'_>) -> bool {
        if self.larger_than.is_some_and(|n| a.size_bytes <= n) {
            return false;
        }
        if self.smaller_than.is_some_and(|n| a.size_bytes >= n) {
            return false;
        }
        if self.crossposts_at_least.is_some_and(|n| a.groups < n) {
            return false;
        }
        if self.from.as_ref().is_some_and(|w| !w.matches(a.from)) {
            return false;
        }
        if self.expires_within_secs.is_some_and(|n| a.expires_in_secs.is_none_or(|e| e > n)) {
            return false;
        }
        if self.expires_beyond_secs.is_some_and(|n| a.expires_in_secs.is_none_or(|e| e <= n)) {
            return false;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(class: &str) -> RuleConfig {
        RuleConfig { class: class.into(), ..RuleConfig::default() }
    }

    /// The example of the CNFS paper (CNFS-22 to CNFS-25).
    fn paper() -> Rules {
        let config = [
            RuleConfig { groups: Some("*warez*".into()), ..rule("big") },
            RuleConfig { groups: Some("*binaries*".into()), ..rule("big") },
            RuleConfig { larger_than: Some(100_000), ..rule("big") },
            RuleConfig { crossposts_at_least: Some(10), ..rule("big") },
            RuleConfig { expires_within_secs: Some(3600), ..rule("short") },
            RuleConfig { from: Some("*@bot.example*".into()), ..rule("short") },
            RuleConfig { groups: Some("*,!private.*".into()), ..rule("small") },
        ];
        let names = ["big", "small", "short"];
        Rules::new(&config, |name| names.iter().position(|n| *n == name)).unwrap()
    }

    #[test]
    fn first_match_decides() {
        let rules = paper();
        let plain = Traits { size_bytes: 2350, groups: 1, from: b"a@b.example", expires_in_secs: None };
        let class = |group: &str, t: Traits<'_>| rules.class(rules.group_bits(group), &t);
        assert_eq!(class("comp.lang.c", plain), Some(1));
        assert_eq!(class("alt.binaries.x", plain), Some(0));
        assert_eq!(class("comp.x", Traits { size_bytes: 100_000, ..plain }), Some(1));
        assert_eq!(class("comp.x", Traits { size_bytes: 100_001, ..plain }), Some(0));
        assert_eq!(class("comp.x", Traits { groups: 9, ..plain }), Some(1));
        assert_eq!(class("comp.x", Traits { groups: 10, ..plain }), Some(0));
        assert_eq!(class("comp.x", Traits { expires_in_secs: Some(60), ..plain }), Some(2));
        assert_eq!(class("comp.x", Traits { from: b"x@bot.example (X)", ..plain }), Some(2));
        assert_eq!(class("private.x", plain), None);
    }

    #[test]
    fn an_unknown_class_or_bad_pattern_is_said() {
        let error = Rules::new(&[rule("none")], |_| None).unwrap_err().to_string();
        assert!(error.contains("\"none\""), "{error}");
        let many = vec![rule("a"); RULES_MAX + 1];
        assert!(Rules::new(&many, |_| Some(0)).is_err());
    }
}
