//! Storage rules: the first rule all of whose conditions hold names the class (CNFS-22 to CNFS-26).

use crate::index::change::Criteria;
use netnews::article::Headers;
use netnews::path;
use netnews::wildmat::Wildmat;
use spool_base::config::RuleConfig;
use spool_base::error::SpoolError;

/// Maximum number of rules in a spool: each has a bit in a group's precomputed match set.
pub(crate) const RULES_MAX: usize = 64;

/// Maximum number of storage classes: a token has one byte for them.
pub(crate) const CLASSES_MAX: usize = 255;

#[derive(Debug)]
struct StorageRule {
    class: usize,
    larger_than: Option<u64>,
    smaller_than: Option<u64>,
    crossposts_at_least: Option<usize>,
    from: Option<Wildmat>,
    path: Option<Wildmat>,
    headers: Vec<(String, Wildmat)>,
    verdict: Option<Wildmat>,
    origin: Option<Wildmat>,
    expires_within_secs: Option<u64>,
    expires_beyond_secs: Option<u64>,
    expires_absent: Option<bool>,
}

/// Properties of an article that a rule may check besides the groups.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArticleTraits<'a> {
    pub size_bytes: u64,
    pub groups: usize,
    pub criteria: &'a Criteria<'a>,
    /// Time from arrival to the Expires date, in seconds.
    pub expires_in_secs: Option<u64>,
}

/// All rules, in order.
#[derive(Debug, Default)]
pub(crate) struct StorageRules {
    rules: Vec<StorageRule>,
    groups: Vec<Option<Wildmat>>,
    /// Bit set of the rules that any of an article's groups may meet.
    any: u64,
}

impl StorageRules {
    /// Compiles the rules; `class` returns the number of a class by name.
    pub fn new(config: &[RuleConfig], class: impl Fn(&str) -> Option<usize>) -> Result<Self, SpoolError> {
        if config.len() > RULES_MAX {
            return Err(SpoolError::Unfit(format!(
                "{} storage rules; at most {RULES_MAX} are possible",
                config.len()
            )));
        }
        let parse = |t: &String| {
            // Header values contain spaces.
            Wildmat::parse_lenient(t.as_bytes())
                .map_err(|e| SpoolError::Unfit(format!("storage rule pattern \"{t}\": {e}")))
        };
        let wildmat = |text: &Option<String>| text.as_ref().map(parse).transpose();
        let mut new = Self { rules: Vec::new(), groups: Vec::new(), any: 0 };
        for (number, c) in config.iter().enumerate() {
            let class = class(&c.class).ok_or_else(|| {
                SpoolError::Unfit(format!("a storage rule names the unknown class \"{}\"", c.class))
            })?;
            new.groups.push(wildmat(&c.groups)?);
            new.any |= u64::from(c.any_group) << number;
            let header = |h: &spool_base::config::HeaderCondition| Ok((h.name.clone(), parse(&h.matches)?));
            new.rules.push(StorageRule {
                class,
                larger_than: c.larger_than,
                smaller_than: c.smaller_than,
                crossposts_at_least: c.crossposts_at_least,
                from: wildmat(&c.from)?,
                path: wildmat(&c.path)?,
                headers: c.headers.iter().map(header).collect::<Result<_, SpoolError>>()?,
                verdict: wildmat(&c.verdict)?,
                origin: wildmat(&c.origin)?,
                expires_within_secs: c.expires_within_secs,
                expires_beyond_secs: c.expires_beyond_secs,
                expires_absent: c.expires_absent,
            });
        }
        Ok(new)
    }

    /// Returns the rules whose group condition a group meets, as a bit set; computed once per group.
    pub fn group_bits(&self, group: &[u8]) -> u64 {
        let meets = |w: &Option<Wildmat>| w.as_ref().is_none_or(|w| w.matches(group));
        self.groups.iter().enumerate().filter(|(_, w)| meets(w)).fold(0, |bits, (i, _)| bits | 1 << i)
    }

    /// Returns the class of an article by the bits of its first group and, for rules that ask for any group,
    /// of all its groups together; `None` if no rule matches.
    pub fn class(&self, first: u64, all: impl FnOnce() -> u64, article: &ArticleTraits<'_>) -> Option<usize> {
        self.class_among(first, all, article, |_| true)
    }

    /// Like [`StorageRules::class`], ignoring rules for classes that `may` rejects.
    pub fn class_among(
        &self,
        first: u64,
        all: impl FnOnce() -> u64,
        article: &ArticleTraits<'_>,
        may: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let met = if self.any == 0 { first } else { first & !self.any | all() & self.any };
        let rule = |(i, r): &(usize, &StorageRule)| met & 1 << i != 0 && may(r.class) && r.matches(article);
        self.rules.iter().enumerate().find(rule).map(|(_, r)| r.class)
    }
}

impl StorageRule {
    fn matches(&self, a: &ArticleTraits<'_>) -> bool {
        if self.larger_than.is_some_and(|n| a.size_bytes <= n) {
            return false;
        }
        if self.smaller_than.is_some_and(|n| a.size_bytes >= n) {
            return false;
        }
        if self.crossposts_at_least.is_some_and(|n| a.groups < n) {
            return false;
        }
        if self.from.as_ref().is_some_and(|w| !w.matches(a.criteria.from)) {
            return false;
        }
        if self.origin.as_ref().is_some_and(|w| !w.matches(a.criteria.origin.as_bytes())) {
            return false;
        }
        if self.verdict.as_ref().is_some_and(|w| !a.criteria.verdict.is_some_and(|v| w.matches(v.as_bytes())))
        {
            return false;
        }
        if self.expires_within_secs.is_some_and(|n| a.expires_in_secs.is_none_or(|e| e > n)) {
            return false;
        }
        if self.expires_beyond_secs.is_some_and(|n| a.expires_in_secs.is_none_or(|e| e <= n)) {
            return false;
        }
        if self.expires_absent.is_some_and(|absent| absent != a.expires_in_secs.is_none()) {
            return false;
        }
        if self.path.as_ref().is_some_and(|w| !matches_path(w, a.criteria.path)) {
            return false;
        }
        // Checked last because it is the most expensive condition.
        self.headers.iter().all(|(name, w)| has_header(a.criteria.head, name, w))
    }
}

/// Reports whether a path identity in the Path, or the whole Path, matches.
fn matches_path(wildmat: &Wildmat, path: &[u8]) -> bool {
    wildmat.matches(path.trim_ascii()) || path::hops(path).any(|hop| wildmat.matches(hop))
}

fn has_header(head: &[u8], name: &str, wildmat: &Wildmat) -> bool {
    Headers::of(head)
        .any(|(n, value)| n.eq_ignore_ascii_case(name.as_bytes()) && wildmat.matches(value.trim_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(class: &str) -> RuleConfig {
        RuleConfig { class: class.into(), ..RuleConfig::default() }
    }

    /// Returns the example of the CNFS paper (CNFS-22 to CNFS-25).
    fn paper() -> StorageRules {
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
        StorageRules::new(&config, |name| names.iter().position(|n| *n == name)).unwrap()
    }

    const PLAIN: Criteria<'static> = Criteria {
        from: b"a@b.example",
        path: b"",
        head: b"",
        verdict: None,
        origin: "rnews",
        newsgroups: b"",
    };

    #[test]
    fn first_match_decides() {
        let rules = paper();
        let plain = ArticleTraits { size_bytes: 2350, groups: 1, criteria: &PLAIN, expires_in_secs: None };
        let class =
            |group: &str, t: ArticleTraits<'_>| rules.class(rules.group_bits(group.as_bytes()), || 0, &t);
        assert_eq!(class("comp.lang.c", plain), Some(1));
        assert_eq!(class("alt.binaries.x", plain), Some(0));
        assert_eq!(class("comp.x", ArticleTraits { size_bytes: 100_000, ..plain }), Some(1));
        assert_eq!(class("comp.x", ArticleTraits { size_bytes: 100_001, ..plain }), Some(0));
        assert_eq!(class("comp.x", ArticleTraits { groups: 9, ..plain }), Some(1));
        assert_eq!(class("comp.x", ArticleTraits { groups: 10, ..plain }), Some(0));
        assert_eq!(class("comp.x", ArticleTraits { expires_in_secs: Some(60), ..plain }), Some(2));
        let robot = Criteria { from: b"x@bot.example (X)", ..PLAIN };
        assert_eq!(class("comp.x", ArticleTraits { criteria: &robot, ..plain }), Some(2));
        assert_eq!(class("private.x", plain), None);
    }

    #[test]
    fn a_rule_can_require_an_expires_date_or_its_absence() {
        let config = [
            RuleConfig { expires_absent: Some(true), ..rule("absent") },
            RuleConfig { expires_absent: Some(false), ..rule("there") },
        ];
        let rules =
            StorageRules::new(&config, |name| ["absent", "there"].iter().position(|n| *n == name)).unwrap();
        for (expires_in_secs, class) in [(None, Some(0)), (Some(60), Some(1))] {
            let traits = ArticleTraits { size_bytes: 9, groups: 1, criteria: &PLAIN, expires_in_secs };
            assert_eq!(rules.class(rules.group_bits(b"a.b"), || 0, &traits), class);
        }
    }

    #[test]
    fn rules_match_any_group_path_headers_verdict_and_origin() {
        let header = |name: &str, matches: &str| spool_base::config::HeaderCondition {
            name: name.into(),
            matches: matches.into(),
        };
        let both = vec![header("x-trace", "*spam*"), header("Subject", "*")];
        let config = [
            RuleConfig { groups: Some("*.binaries.*".into()), any_group: true, ..rule("any") },
            RuleConfig { path: Some("*.bad.example".into()), ..rule("path") },
            RuleConfig { headers: both, ..rule("headers") },
            RuleConfig { verdict: Some("binary,spam".into()), ..rule("verdict") },
            RuleConfig { origin: Some("peer up*".into()), ..rule("origin") },
            rule("rest"),
        ];
        let names = ["any", "path", "headers", "verdict", "origin", "rest"];
        let rules = StorageRules::new(&config, |name| names.iter().position(|n| *n == name)).unwrap();
        let class = |groups: &[&str], criteria: Criteria<'_>| {
            let traits = ArticleTraits {
                size_bytes: 9,
                groups: groups.len(),
                criteria: &criteria,
                expires_in_secs: None,
            };
            let bits: Vec<u64> = groups.iter().map(|g| rules.group_bits(g.as_bytes())).collect();
            rules.class(bits[0], || bits.iter().fold(0, |a, b| a | b), &traits).map(|n| names[n])
        };
        let a = ["comp.a"];
        assert_eq!(class(&a, PLAIN), Some("rest"));
        assert_eq!(class(&["comp.a", "alt.binaries.x"], PLAIN), Some("any"));
        assert_eq!(class(&a, Criteria { path: b"x!news.bad.example!y!tail", ..PLAIN }), Some("path"));
        assert_eq!(class(&a, Criteria { path: b"x!bad.example!y!tail", ..PLAIN }), Some("rest"));
        let head = |head| Criteria { head, ..PLAIN };
        assert_eq!(class(&a, head(b"Subject: a\r\nX-Trace: is spam\r\n\r\n")), Some("headers"));
        assert_eq!(
            class(&a, head(b"Subject: a\r\nX-Trace: x\r\nx-trace: a\r\n b spam\r\n")),
            Some("headers")
        );
        assert_eq!(class(&a, head(b"X-Trace: is spam\r\n")), Some("rest"));
        assert_eq!(class(&a, head(b"Subject: a\r\nX-Trace: fine\r\n")), Some("rest"));
        assert_eq!(class(&a, Criteria { verdict: Some("binary"), ..PLAIN }), Some("verdict"));
        assert_eq!(class(&a, Criteria { verdict: Some("other"), ..PLAIN }), Some("rest"));
        assert_eq!(class(&a, Criteria { origin: "peer upstream", ..PLAIN }), Some("origin"));
    }

    #[test]
    fn an_unknown_class_or_bad_pattern_is_reported() {
        let error = StorageRules::new(&[rule("none")], |_| None).unwrap_err().to_string();
        assert!(error.contains("\"none\""), "{error}");
        let many = vec![rule("a"); RULES_MAX + 1];
        assert!(StorageRules::new(&many, |_| Some(0)).is_err());
    }
}
