//! Access rights in words: the table that `check` prints, `check --access`, and names that the file of users
//! lacks.
//!
//! Called by `check`.

use super::screen::CliError;
use super::table::Columns;
use access::rules::AccessContext;
use access::users::UserTable;
use access::{User, rules, users};
use disk::RealDisk;
use site_base::units;
use site_base::units::counted;
use site_config::{Access, Cidr, Config, LocalAddress, NamePattern, NumberWidth, faults};
use std::net::{IpAddr, SocketAddr};

/// The client that `check --access` asks about.
#[derive(Debug, Clone)]
pub(super) struct AccessQuery {
    pub address: IpAddr,
    pub listener: Option<SocketAddr>,
    pub user: Option<String>,
    pub tls: bool,
}

/// Returns one row for each `[[access]]` section, in order.
pub(super) fn overview(config: &Config) -> String {
    if config.access.is_empty() {
        return "  nobody may read or post: there is no [[access]]".to_owned();
    }
    let sections: Vec<(usize, &Access)> = (1..).zip(&config.access).collect();
    Columns::of(&sections)
        .left("", |(at, _)| format!("  {at}"))
        .left("who", |(_, access)| who(access))
        .left("reads", |(_, access)| wildmat(&access.read, "nothing"))
        .left("posts to", |(_, access)| wildmat(&access.post, "nothing"))
        .left("besides", |(_, access)| besides(access))
        .text()
}

fn joined<T: ToString>(all: &[T]) -> String {
    all.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

fn wildmat(groups: &NamePattern, none: &str) -> String {
    match groups.as_str() {
        "" => none.to_owned(),
        "*" => "everything".to_owned(),
        text => text.to_owned(),
    }
}

fn who(access: &Access) -> String {
    let from = match access.from == Cidr::ALL {
        true => "everyone".to_owned(),
        false => joined(&access.from),
    };
    let mut words = match (&access.users, access.user_groups.as_slice()) {
        (None, []) => from,
        (None, groups) => format!("users in {} from {from}", groups.join(" or ")),
        (Some(users), []) => format!("users {} from {from}", users.as_str()),
        (Some(users), groups) => format!("users {} in {} from {from}", users.as_str(), groups.join(" or ")),
    };
    if !access.listener.is_empty() {
        let at: Vec<String> = access.listener.iter().map(LocalAddress::to_string).collect();
        words.push_str(&format!(" at {}", at.join(", ")));
    }
    match access.tls {
        Some(true) => words.push_str(" under TLS"),
        Some(false) => words.push_str(" without TLS"),
        None => {}
    }
    words
}

fn besides(access: &Access) -> String {
    let mut words = Vec::new();
    match (access.operator, access.manage) {
        (true, true) => words.push("sees and manages the site as its operator".to_owned()),
        (true, false) => words.push("sees the operator's pages and metrics".to_owned()),
        (false, _) => {}
    }
    if !access.approve.is_empty() {
        words.push(format!("approves in {}", wildmat(&access.approve, "")));
    }
    if !access.local.is_empty() {
        words.push(format!("posts where closed in {}", wildmat(&access.local, "")));
    }
    if !access.newnews {
        words.push("no NEWNEWS".to_owned());
    }
    if access.numbers == NumberWidth::Bits31 {
        words.push("numbers in 31 bits".to_owned());
    }
    if let Some(n) = access.connections_per_address_max {
        words.push(format!("{} an address", counted(n as u64, "connection")));
    }
    if let Some(n) = access.connections_per_user_max {
        words.push(format!("{} a user", counted(n as u64, "connection")));
    }
    if let Some(bytes) = access.bytes_per_sec_max {
        words.push(format!("{} a second", units::size_text(bytes)));
    }
    if let Some(n) = access.posts_per_hour_max {
        words.push(format!("{} an hour", counted(n, "post")));
    }
    words.join("; ")
}

/// Reads the file of users, if there is one.
pub(super) fn users_of(config: &Config) -> Result<Option<UserTable>, CliError> {
    users::load(&RealDisk::new(), &config.site.data)
        .map_err(|error| CliError::Problem(format!("cannot read the users: {error}")))
}

/// Returns warnings about names of the configuration that the file of users lacks.
pub(super) fn unknown(config: &Config, known: Option<&UserTable>) -> Vec<String> {
    let mut told = Vec::new();
    let all_groups = || known.into_iter().flat_map(UserTable::iter).flat_map(|record| &record.user.groups);
    for (at, access) in config.access.iter().enumerate() {
        for group in &access.user_groups {
            if known.is_some_and(|table| table.has_group(group))
                || config.outside_groups().any(|own| own == group)
            {
                continue;
            }
            let near = faults::nearest(group, all_groups().map(|group| &**group));
            let advice = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("add one with: newsreel user add NAME --group {group}"),
            };
            told.push(format!("[[access]] {}: no user is in the group `{group}`; {advice}", at + 1));
        }
    }
    for peer in &config.peers {
        let Some(user) = &peer.user else { continue };
        if !config.has_outside_passwords() && known.is_none_or(|table| table.get(user).is_none()) {
            let name = &peer.name;
            told.push(format!(
                "peer {name}: there is no user `{user}`; add it with: newsreel user add {user}"
            ));
        }
    }
    told
}

/// Describes which section decides for a client, and what it grants.
pub(super) fn decision(
    config: &Config,
    known: Option<&UserTable>,
    asked: &AccessQuery,
) -> Result<String, CliError> {
    let user = match &asked.user {
        None => None,
        Some(name) => Some(user(known, name)?),
    };
    let context = AccessContext {
        address: asked.address.to_canonical(),
        local: asked.listener,
        user: user.as_ref(),
        tls: asked.tls,
    };
    let as_whom = user.as_ref().map_or("not logged in".to_owned(), |user| match user.groups.as_ref() {
        [] => format!("logged in as {}", user.name),
        groups => format!("logged in as {} ({})", user.name, joined(groups)),
    });
    let cover = if asked.tls { "under TLS" } else { "without TLS" };
    let mut lines = vec![format!("{}, {as_whom}, {cover}:", asked.address)];
    lines.extend(user.as_ref().and_then(|user| no_such_user(config, known, &user.name)));
    match rules::deciding_section(config, &context).and_then(|at| Some((at, config.access.get(at)?))) {
        None => lines.push("  no [[access]] section fits: may do nothing".to_owned()),
        Some((at, access)) => {
            lines.push(format!("  [[access]] {} decides: {}", at + 1, who(access)));
            lines.push(format!("  reads     {}", wildmat(&access.read, "nothing")));
            lines.push(format!("  posts to  {}", wildmat(&access.post, "nothing")));
            let besides = besides(access);
            if !besides.is_empty() {
                lines.push(format!("  besides   {besides}"));
            }
        }
    }
    if asked.listener.is_none() && config.access.iter().any(|access| !access.listener.is_empty()) {
        lines.push(
            "  (sections with listener were left out; name where it connects to with --listener)".to_owned(),
        );
    }
    Ok(lines.join("\n"))
}

/// Returns advice if the file of users does not have a name.
fn no_such_user(config: &Config, known: Option<&UserTable>, name: &str) -> Option<String> {
    if known.is_some_and(|table| table.get(name).is_some()) {
        return None;
    }
    let names = known.into_iter().flat_map(UserTable::iter).map(|record| &*record.user.name);
    let advice = match faults::nearest(name, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None if !config.has_outside_users() && config.tls.client_ca.is_none() => {
            format!("add it with: newsreel user add {name}")
        }
        None => "only a login from outside or a certificate can let it in".to_owned(),
    };
    Some(format!("  there is no user `{name}` in the users file; {advice}"))
}

/// Returns the user of that name; a user that the file lacks may still come from a program or certificate.
fn user(known: Option<&UserTable>, name: &str) -> Result<User, CliError> {
    let name = users::prepared(name.as_bytes())
        .ok_or_else(|| CliError::Usage(format!("`{name}` cannot be a user's name")))?;
    let record = known.and_then(|table| table.get(&name));
    Ok(record.map_or_else(|| User::named(name), |record| record.user.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use access::users::{UserRecord, UserTable};
    use site_config::testing::with_trash;

    const RULES: &str = r#"
[[peer]]
name = "p"
addresses = ["192.0.2.1"]
user = "feeder"
[[access]]
from = "all"
user_groups = ["staff"]
post = "*"
approve = "local.announce"
[[access]]
from = "192.0.2.0/24"
listener = ["*:563"]
tls = true
newnews = false
bytes_per_sec_max = "1 MiB"
[[access]]
from = "all"
users = "*"
read = "misc.*"
numbers = "31-bit"
operator = true
manage = true
"#;

    fn parts() -> (Config, UserTable) {
        let mut users = UserTable::empty([0; 16]);
        let user = User::new("fred", ["stuff", "staff"]);
        users.put(UserRecord { user, changed: 1, credentials: None, mail: None });
        (with_trash(RULES), users)
    }

    #[test]
    fn table_lists_access_rights() {
        let (config, _) = parts();
        let lines: Vec<String> = overview(&config).lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[1].starts_with("  1  users in staff from everyone"), "{lines:#?}");
        assert!(lines[1].ends_with("everything  everything  approves in local.announce"), "{lines:#?}");
        assert!(lines[2].contains("192.0.2.0/24 at *:563 under TLS"), "{lines:#?}");
        assert!(lines[2].ends_with("nothing     no NEWNEWS; 1 MiB a second"), "{lines:#?}");
        assert!(lines[3].contains("users * from everyone") && lines[3].contains("misc.*"), "{lines:#?}");
        let besides = "sees and manages the site as its operator; numbers in 31 bits";
        assert!(lines[3].ends_with(besides), "{lines:#?}");
    }

    #[test]
    fn deciding_section_is_named() {
        let (config, users) = parts();
        let asked = |user: Option<&str>, tls, listener: Option<&str>| {
            let asked = AccessQuery {
                address: "192.0.2.7".parse().unwrap(),
                listener: listener.map(|at| at.parse().unwrap()),
                user: user.map(str::to_owned),
                tls,
            };
            decision(&config, Some(&users), &asked).unwrap()
        };
        let stranger = asked(None, false, None);
        assert!(stranger.contains("may do nothing") && stranger.contains("--listener"), "{stranger}");
        let fred = asked(Some("fred"), false, None);
        assert!(
            fred.contains("logged in as fred (stuff, staff)") && fred.contains("[[access]] 1 decides"),
            "{fred}"
        );
        assert!(!fred.contains("there is no user"), "{fred}");
        let wilma = asked(Some("wilma"), true, Some("192.0.2.9:563"));
        assert!(wilma.contains("[[access]] 2 decides"), "{wilma}");
        assert!(wilma.contains("there is no user `wilma` in the users file; add it with"), "{wilma}");
        let fried = asked(Some("fredd"), false, None);
        assert!(
            fried.contains("there is no user `fredd` in the users file; did you mean `fred`?"),
            "{fried}"
        );
        assert!(asked(Some("wilma"), true, Some("192.0.2.9:119")).contains("[[access]] 3 decides"));
        let asked = AccessQuery {
            address: "::1".parse().unwrap(),
            listener: None,
            user: Some("a b".into()),
            tls: false,
        };
        assert!(matches!(decision(&config, None, &asked), Err(CliError::Usage(_))));
    }

    #[test]
    fn sections_that_match_nobody_are_reported() {
        let (config, users) = parts();
        assert_eq!(
            unknown(&config, Some(&users)),
            ["peer p: there is no user `feeder`; add it with: newsreel user add feeder"]
        );
        let mut other = users.clone();
        let user = User::new("fred", ["stuff"]);
        other.put(UserRecord { user, changed: 1, credentials: None, mail: None });
        let told = unknown(&config, Some(&other));
        assert_eq!(told[0], "[[access]] 1: no user is in the group `staff`; did you mean `stuff`?");
        assert_eq!(unknown(&config, None).len(), 2);
    }
}
