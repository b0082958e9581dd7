//! The expiry policy: which rule decides about an article in a group, and when the article is due (CN-46).
//!
//! Pure and immutable. [`crate::write::expire`] applies it to one article after the other.

use crate::write::caps::Cap;
use netnews::wildmat::Wildmat;
use spool_base::config::{ExpireConfig, Retention, SpoolConfig};
use spool_base::error::SpoolError;
use spool_base::token::MethodKind;

#[derive(Debug)]
struct ExpiryRule {
    class: Option<usize>,
    groups: Option<Wildmat>,
    moderated: Option<bool>,
    keep: Retention,
    by_thread: bool,
    from_all_groups: bool,
    cap: Cap,
}

/// The policy: the first rule for class and group decides; without one an article is kept forever.
#[derive(Debug, Default)]
pub(crate) struct ExpiryPolicy {
    rules: Vec<ExpiryRule>,
    /// Name and method of each class.
    classes: Vec<(String, MethodKind)>,
}

impl ExpiryPolicy {
    /// Compiles the rules of a configuration.
    pub fn new(config: &SpoolConfig) -> Result<Self, SpoolError> {
        let rule = |c: &ExpireConfig| {
            let known = |name: &String| config.classes.iter().position(|class| class.name == *name);
            let class = |name: &String| {
                let text = || format!("an expiry rule names the unknown class \"{name}\"");
                known(name).ok_or_else(|| SpoolError::Unfit(text()))
            };
            let wildmat = |text: &String| {
                Wildmat::parse(text.as_bytes())
                    .map_err(|e| SpoolError::Unfit(format!("expiry rule pattern \"{text}\": {e}")))
            };
            Ok(ExpiryRule {
                class: c.class.as_ref().map(class).transpose()?,
                groups: c.groups.as_ref().map(wildmat).transpose()?,
                moderated: c.moderated,
                keep: c.keep,
                by_thread: c.by_thread,
                from_all_groups: c.from_all_groups,
                cap: Cap {
                    articles: c.articles_max.unwrap_or(Cap::NONE.articles),
                    bytes: c.bytes_max.unwrap_or(Cap::NONE.bytes),
                },
            })
        };
        let classes = config.classes.iter().map(|class| (class.name.clone(), class.method)).collect();
        Ok(Self { rules: config.expire.iter().map(rule).collect::<Result<_, SpoolError>>()?, classes })
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Reports whether any rule has a cap.
    pub fn has_caps(&self) -> bool {
        self.rules.iter().any(|rule| rule.cap != Cap::NONE)
    }

    /// Reports whether any rule counts ages by threads.
    pub fn has_threads(&self) -> bool {
        self.rules.iter().any(|rule| rule.by_thread)
    }

    /// Returns the class of a volume of retained articles, which has the name of its class.
    pub fn class_of(&self, name: &str, method: MethodKind) -> Option<usize> {
        self.classes.iter().position(|class| class.0 == name && class.1 == method)
    }

    /// Returns the rule that decides about articles of a class in a group.
    pub fn rule(&self, class: Option<usize>, group: &str, is_moderated: impl Fn() -> bool) -> Option<usize> {
        self.rules.iter().position(|r| {
            r.class.is_none_or(|c| Some(c) == class)
                && r.groups.as_ref().is_none_or(|w| w.matches(group.as_bytes()))
                && r.moderated.is_none_or(|wanted| wanted == is_moderated())
        })
    }

    /// Returns the retention of a rule.
    pub fn keep(&self, rule: usize) -> Retention {
        self.rules.get(rule).map_or(Retention::Forever, |rule| rule.keep)
    }

    /// Reports whether a rule counts the age of an article from the newest of its thread.
    pub fn by_thread(&self, rule: usize) -> bool {
        self.rules.get(rule).is_some_and(|rule| rule.by_thread)
    }

    /// Reports whether an article that leaves a group by a rule leaves all its groups.
    pub fn leaves_all_groups(&self, rule: usize) -> bool {
        self.rules.get(rule).is_some_and(|rule| rule.from_all_groups)
    }

    /// Returns the cap of a rule.
    pub fn cap(&self, rule: usize) -> Cap {
        self.rules.get(rule).map_or(Cap::NONE, |rule| rule.cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spool_base::config::{ClassConfig, SpoolConfig};

    fn policy(expire: Vec<ExpireConfig>) -> Result<ExpiryPolicy, SpoolError> {
        let class = |name: &str| ClassConfig { name: name.into(), ..ClassConfig::default() };
        ExpiryPolicy::new(&SpoolConfig {
            classes: vec![class("w"), class("x")],
            expire,
            ..SpoolConfig::new("/")
        })
    }

    /// CN-46: first match wins; m and u.
    #[test]
    fn the_first_rule_that_fits_decides() {
        let rule = |groups: &str, class: Option<&str>, moderated| ExpireConfig {
            groups: Some(groups.into()),
            class: class.map(str::to_owned),
            moderated,
            ..ExpireConfig::default()
        };
        let p = policy(vec![
            rule("local.*", None, None),
            rule("a.*", Some("x"), None),
            rule("a.*,b.*", None, Some(true)),
            rule("b.*", None, Some(false)),
        ]);
        let p = p.unwrap();
        let decides = |class, group, moderated| p.rule(Some(class), group, || moderated);
        assert_eq!(decides(1, "local.x", true), Some(0));
        assert_eq!(decides(1, "a.b", true), Some(1));
        assert_eq!((decides(0, "a.b", true), decides(0, "a.b", false)), (Some(2), None));
        assert_eq!((decides(0, "b.b", true), decides(0, "b.b", false)), (Some(2), Some(3)));
        assert_eq!(p.rule(None, "a.b", || false), None);
        assert!(policy(vec![rule("a", Some("none"), None)]).is_err());
        assert!(policy(vec![rule("a[", None, None)]).is_err());
    }
}
