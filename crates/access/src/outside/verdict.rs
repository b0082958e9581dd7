//! What a source says of a login, and which of its groups count.
//!
//! Called by the sources, and by `web` for those of providers.

use site_config::GroupGrant;

/// A user that a source accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutsideUser {
    /// The name, as the source has it.
    pub name: Vec<u8>,
    /// The groups that the source brings.
    pub groups: Box<[Box<str>]>,
}

/// The judgement of a source about a name and a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OutsideVerdict {
    Accepted(OutsideUser),
    Refused,
    /// The source could not be asked.
    Unavailable,
}

/// Returns the groups of users that these groups elsewhere stand for.
pub fn granted_groups(grants: &[GroupGrant], found: &[&str]) -> Box<[Box<str>]> {
    granted(grants, |name| found.contains(&name))
}

/// Returns the groups of users that some groups elsewhere stand for; `has` says of a name there whether the
/// user is in that group.
pub(super) fn granted(grants: &[GroupGrant], has: impl Fn(&str) -> bool) -> Box<[Box<str>]> {
    let holds = |grant: &&GroupGrant| has(&grant.value);
    let mut groups: Vec<Box<str>> =
        grants.iter().filter(holds).map(|grant| grant.group.as_str().into()).collect();
    groups.sort_unstable();
    groups.dedup();
    groups.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_groups_count() {
        let grant = |value: &str, group: &str| GroupGrant { value: value.into(), group: group.into() };
        let grants = [grant("sudo", "staff"), grant("news", "news"), grant("wheel", "staff")];
        let of = |found: &[&str]| granted_groups(&grants, found);
        assert_eq!(*of(&["sudo", "wheel", "mail"]), ["staff".into()]);
        assert_eq!(*of(&["news", "sudo"]), ["news".into(), "staff".into()]);
        assert!(of(&["staff", "Sudo"]).is_empty(), "a name here is none elsewhere");
    }
}
