//! What a source says of a login, and which of its groups count.
//!
//! Called by the sources, and by `web` for those of providers.

use crate::endpoint::ClientEndpoint;
use site_config::GroupGrant;
use std::time::Duration;

/// A name and a password to be checked.
pub(crate) struct PasswordAttempt<'a> {
    pub caller: &'a ClientEndpoint,
    /// As received.
    pub name: &'a [u8],
    /// As received.
    pub password: &'a [u8],
    /// Returns for how long the client is locked out, if it is by now: others may have failed while this one
    /// waited for its turn.
    pub locked: &'a (dyn Fn() -> Option<Duration> + Sync),
}

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
    /// The source was not asked, as the client is locked out for this time.
    Locked(Duration),
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
