//! Finding the `[[access]]` section of a client, and the advice to a client that lacks a right.
//!
//! The first section whose conditions all hold decides. Called by `site::session` for each client, and by
//! `newsreel check --access`. Sources: RFC 3977 section 3.2.1 (480 and 483); INN's readers.conf for the
//! rights.

use super::User;
use site_config::{Access, Config};
use std::net::{IpAddr, SocketAddr};

/// The properties of a client that conditions are about.
#[derive(Debug, Clone, Copy)]
pub struct AccessContext<'a> {
    /// Address of the client.
    pub address: IpAddr,
    /// The local address of the connection; `None` if unknown, which meets no condition on it.
    pub local: Option<SocketAddr>,
    /// The user that it has logged in as.
    pub user: Option<&'a User>,
    /// Whether the connection is encrypted.
    pub tls: bool,
}

/// Something a client may be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessRight {
    /// Read any group.
    Read,
    /// Post to any group.
    Post,
    /// Ask for new articles with NEWNEWS.
    Newnews,
}

/// The step by which a client could obtain a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthHint {
    /// Nothing would help.
    None,
    /// Log in as the right user.
    Authenticate,
    /// Begin TLS, and perhaps log in then.
    Encrypt,
}

impl AccessRight {
    /// Returns true if a section grants this right.
    fn granted_by(self, access: &Access) -> bool {
        match self {
            Self::Read => !access.read.is_empty(),
            Self::Post => !access.post.is_empty(),
            Self::Newnews => !access.read.is_empty() && access.newnews,
        }
    }
}

/// Returns true if a section's conditions on the connection hold, which are all but those on the user.
fn matches_connection(access: &Access, who: &AccessContext<'_>, tls: bool) -> bool {
    access.from.iter().any(|network| network.contains(who.address))
        && (access.listener.is_empty()
            || who.local.is_some_and(|local| access.listener.iter().any(|at| at.matches(local))))
        && access.tls.is_none_or(|wanted| wanted == tls)
}

/// Returns true if a section's conditions on the user hold; `None`: the client has not logged in.
pub fn is_user_of(access: &Access, user: Option<&User>) -> bool {
    let Some(user) = user else { return !access.names_users() };
    access.users.as_ref().is_none_or(|users| users.matches(user.name.as_bytes()))
        && (access.user_groups.is_empty()
            || user.all_groups().any(|group| access.user_groups.iter().any(|wanted| wanted == group)))
}

/// Returns the number of the `[[access]]` section that decides what a client may do; `None`: it may do
/// nothing.
pub fn deciding_section(config: &Config, who: &AccessContext<'_>) -> Option<usize> {
    config
        .access
        .iter()
        .position(|access| matches_connection(access, who, who.tls) && is_user_of(access, who.user))
}

/// Returns the step by which `who` could obtain a right that it lacks. `login`: logging in is possible;
/// `tls`: TLS can be started.
pub fn auth_hint(
    config: &Config,
    who: &AccessContext<'_>,
    right: AccessRight,
    login: bool,
    tls: bool,
) -> AuthHint {
    let login = login && who.user.is_none();
    if login && some_user_has(config, who, right, who.tls) {
        return AuthHint::Authenticate;
    }
    if tls && !who.tls {
        let under_tls = AccessContext { tls: true, ..*who };
        let granted = deciding_section(config, &under_tls).and_then(|at| config.access.get(at));
        if granted.is_some_and(|access| right.granted_by(access))
            || (login && some_user_has(config, who, right, true))
        {
            return AuthHint::Encrypt;
        }
    }
    AuthHint::None
}

/// Returns the sections that would decide for `who` after logging in, with their numbers: those with a
/// condition on users that come before the first section for everyone.
pub fn of_users<'a>(
    config: &'a Config,
    who: &AccessContext<'_>,
    tls: bool,
) -> impl Iterator<Item = (usize, &'a Access)> {
    let sections = config.access.iter().enumerate();
    sections
        .filter(move |(_, access)| matches_connection(access, who, tls))
        .take_while(|(_, access)| access.names_users())
}

/// Returns true if one of those sections grants the right.
fn some_user_has(config: &Config, who: &AccessContext<'_>, right: AccessRight, tls: bool) -> bool {
    of_users(config, who, tls).any(|(_, access)| right.granted_by(access))
}

#[cfg(test)]
mod tests {
    use super::*;
    use site_config::testing::with_trash;

    const RULES: &str = r#"
[[access]]
from = "all"
user_groups = ["staff"]
post = "*"
[[access]]
from = "all"
users = "*,!guest*"
tls = true
post = "local.*"
[[access]]
from = "203.0.113.0/24"
listener = ["*:1563"]
read = "secret.*"
newnews = false
[[access]]
from = "203.0.113.0/24"
read = "open.*"
"#;

    fn user(name: &str, groups: &[&str]) -> User {
        User::new(name, groups.iter().copied())
    }

    #[test]
    fn the_first_section_whose_conditions_hold_decides() {
        let config = with_trash(RULES);
        let (fred, guest) = (user("fred", &[]), user("guest1", &[]));
        let staff = user("guest2", &["x", "staff"]);
        let port = |port: u16| Some(SocketAddr::from(([192, 0, 2, 9], port)));
        for (address, local, who, tls, section) in [
            ("203.0.113.5", port(119), None, false, Some(3)),
            ("203.0.113.5", port(1563), None, true, Some(2)),
            ("203.0.113.5", None, None, false, Some(3)),
            ("203.0.113.5", port(119), Some(&fred), false, Some(3)),
            ("203.0.113.5", port(119), Some(&fred), true, Some(1)),
            ("203.0.113.5", port(119), Some(&guest), true, Some(3)),
            ("198.51.100.1", port(119), Some(&guest), true, None),
            ("198.51.100.1", port(119), Some(&staff), false, Some(0)),
            ("198.51.100.1", port(119), None, false, None),
        ] {
            let context = AccessContext { address: address.parse().unwrap(), local, user: who, tls };
            assert_eq!(deciding_section(&config, &context), section, "{context:?}");
        }
    }

    #[test]
    fn hints_name_the_step_that_would_grant_the_right() {
        let config = with_trash(RULES);
        let guest = user("guest1", &[]);
        let at = |address: &str, user| AccessContext {
            address: address.parse().unwrap(),
            local: None,
            user,
            tls: false,
        };
        let stranger = at("198.51.100.1", None);
        assert_eq!(auth_hint(&config, &stranger, AccessRight::Read, true, true), AuthHint::Authenticate);
        assert_eq!(auth_hint(&config, &stranger, AccessRight::Read, false, true), AuthHint::None);
        assert_eq!(
            auth_hint(&config, &at("203.0.113.5", None), AccessRight::Post, true, true),
            AuthHint::Authenticate
        );
        assert_eq!(
            auth_hint(&config, &at("203.0.113.5", None), AccessRight::Post, false, true),
            AuthHint::None
        );
        assert_eq!(
            auth_hint(&config, &at("198.51.100.1", Some(&guest)), AccessRight::Read, true, true),
            AuthHint::None
        );
        let fred = user("fred", &[]);
        assert_eq!(
            auth_hint(&config, &at("198.51.100.1", Some(&fred)), AccessRight::Post, true, true),
            AuthHint::Encrypt
        );
        assert_eq!(
            auth_hint(&config, &at("198.51.100.1", Some(&fred)), AccessRight::Post, true, false),
            AuthHint::None
        );
    }
}
