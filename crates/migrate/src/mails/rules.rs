//! Choice of groups for a text: `--group`, the first `--rule` that matches, its own Newsgroups header, or
//! its folder, in this order.
//!
//! Called by `cli::import`. A rule is `HEADER: PATTERN = GROUP`, such as `List-Id: *<dev.example.org>* =
//! lists.dev`; the pattern is a wildmat as in the configuration, and matches the whole value, ignoring
//! case.

use std::str::FromStr;

use netnews::article::Headers;
use netnews::wildmat::WildmatError;
use netnews::{Wildmat, newsgroups};

/// A rule, as given on the command line.
#[derive(Debug, Clone)]
pub struct GroupRule {
    header: String,
    pattern: Wildmat,
    group: String,
}

/// Reason why a rule or a group name is invalid.
#[derive(Debug, thiserror::Error)]
pub enum GroupRuleError {
    /// The text is not a rule.
    #[error("write a rule as HEADER: PATTERN = GROUP, such as \"List-Id: *dev.example.org* = lists.dev\"")]
    Form,
    /// The pattern is invalid.
    #[error("its pattern is not one: {0}")]
    Pattern(WildmatError),
    /// The group name is invalid.
    #[error("`{0}` is not a valid group name")]
    Group(String),
}

impl FromStr for GroupRule {
    type Err = GroupRuleError;

    fn from_str(text: &str) -> Result<Self, GroupRuleError> {
        let (header, rest) = text.split_once(':').ok_or(GroupRuleError::Form)?;
        let (pattern, group) = rest.rsplit_once('=').ok_or(GroupRuleError::Form)?;
        let (header, pattern) = (header.trim(), pattern.trim());
        if header.is_empty() || pattern.is_empty() {
            return Err(GroupRuleError::Form);
        }
        let pattern =
            Wildmat::parse(pattern.to_ascii_lowercase().as_bytes()).map_err(GroupRuleError::Pattern)?;
        Ok(Self { header: header.to_owned(), pattern, group: group_name(group.trim())? })
    }
}

/// Parses the name of a group, as given on the command line.
pub fn group_name(text: &str) -> Result<String, GroupRuleError> {
    let is_valid = newsgroups::valid_name(text.as_bytes());
    is_valid.then(|| text.to_owned()).ok_or_else(|| GroupRuleError::Group(text.to_owned()))
}

impl GroupRule {
    /// Returns the group that the rule chooses.
    pub fn target(&self) -> &str {
        &self.group
    }

    /// Returns the group, if these header lines have a value that matches.
    pub fn group(&self, head: &[u8]) -> Option<&str> {
        let mut values =
            Headers::of(head).filter(|(name, _)| name.eq_ignore_ascii_case(self.header.as_bytes()));
        let matches = |value: &[u8]| self.pattern.matches(&unfolded(value));
        values.any(|(_, value)| matches(value)).then_some(self.group.as_str())
    }
}

/// Returns a value in one line and in lower case.
fn unfolded(value: &[u8]) -> Vec<u8> {
    let kept = value.trim_ascii().iter().filter(|b| !matches!(b, b'\r' | b'\n'));
    kept.map(|b| if *b == b'\t' { b' ' } else { b.to_ascii_lowercase() }).collect()
}

/// Settings for the choice of groups.
#[derive(Debug, Clone, Default)]
pub struct GroupChoice {
    /// Group for all texts.
    pub group: Option<String>,
    /// Rules, of which the first match decides.
    pub rules: Vec<GroupRule>,
}

impl GroupChoice {
    /// Returns the groups of a text with this head; `None` if its own Newsgroups header decides.
    pub fn groups(&self, head: &[u8], newsgroups: &[u8], folder: Option<&str>) -> Option<Vec<String>> {
        if let Some(group) = &self.group {
            return Some(vec![group.clone()]);
        }
        if let Some(group) = self.rules.iter().find_map(|rule| rule.group(head)) {
            return Some(vec![group.to_owned()]);
        }
        if !newsgroups.is_empty() {
            return None;
        }
        Some(folder.map(str::to_owned).into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_applicable_choice_decides() {
        let rule = |text: &str| text.parse::<GroupRule>().unwrap();
        let choice = GroupChoice {
            group: None,
            rules: vec![rule("List-Id: *<dev.example.org>* = lists.dev"), rule("subject: *a=b* = lists.odd")],
        };
        let list = b"From: x\r\nList-ID: The\r\n\tlist <DEV.example.org>\r\n";
        assert_eq!(choice.groups(list, b"a.b", Some("c.d")), Some(vec!["lists.dev".to_owned()]));
        assert_eq!(choice.groups(b"Subject: is a=b?\n", b"", None), Some(vec!["lists.odd".to_owned()]));
        assert_eq!(choice.groups(b"Subject: x\n", b"a.b", Some("c.d")), None);
        assert_eq!(choice.groups(b"Subject: x\n", b"", Some("c.d")), Some(vec!["c.d".to_owned()]));
        assert_eq!(choice.groups(b"Subject: x\n", b"", None), Some(Vec::new()));
        let all = GroupChoice { group: Some("e.f".into()), ..choice };
        assert_eq!(all.groups(list, b"a.b", None), Some(vec!["e.f".to_owned()]));
    }

    #[test]
    fn invalid_rules_are_reported() {
        for text in
            ["", "List-Id", "List-Id: x", ": x = a.b", "List-Id: = a.b", "List-Id: x = a..b", "List-Id: x = "]
        {
            assert!(text.parse::<GroupRule>().is_err(), "{text}");
        }
    }
}
