//! `[[ldap]]`: a login at a directory.
//!
//! The entry of a user is found by its name's place in a distinguished name, or by a search; a bind as that
//! entry proves the password. The name and the groups are those of the entry. Each login has a connection of
//! its own: none is left over that a bind has changed, and one that fails concerns one login. Called by
//! `outside`. Sources: RFC 4511, RFC 4513 section 5.1, RFC 4514 section 2.4 and RFC 4515 for names in names
//! and filters.

use super::group_name::DirectoryGroupName;
use super::ldap::{
    LdapConnection, LdapEntry, LdapError, LdapScope, SearchRequest, filter_for, filter_for_any,
};
use super::verdict::{OutsideUser, OutsideVerdict, PasswordAttempt, granted};
use crate::tls::{RemoteServer, RemoteServerError, first_line};
use crate::users::prepared;
use hashbrown::HashSet;
use nntp_io::{ClientLimits, ConnectOptions, Role};
use site_config::{Ldap, Link};
use std::fmt;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::{debug, warn};

/// Most groups of a user that a search returns.
const GROUPS_MAX: usize = 1000;
/// The list of attributes that asks for none (RFC 4511 section 4.5.1.8).
const NO_ATTRIBUTES: &[&str] = &["1.1"];

/// An `[[ldap]]` section.
#[derive(Debug)]
pub(super) struct Directory {
    config: Ldap,
    places: Semaphore,
}

/// The reason why a login at a directory comes to no result.
#[derive(Debug)]
enum DirectoryError {
    /// The connection cannot be prepared.
    Setup(RemoteServerError),
    /// The directory fails.
    Ldap(LdapError),
    /// The account that searches is refused.
    Service,
    /// The user may be in more groups than the directory has returned.
    Groups,
    /// A thread of ours has failed.
    Internal,
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(error) => error.fmt(f),
            Self::Ldap(error) => error.fmt(f),
            Self::Service => f.write_str("the password of service_dn is wrong"),
            Self::Groups => f.write_str(
                "it did not return all groups of a user; narrow group_base or group_filter, or raise its limits",
            ),
            Self::Internal => f.write_str("an internal failure"),
        }
    }
}

impl From<LdapError> for DirectoryError {
    fn from(error: LdapError) -> Self {
        Self::Ldap(error)
    }
}

/// What a login needs of the machine's files.
struct DirectoryAccess {
    options: ConnectOptions,
    service_password: Option<String>,
}

impl Directory {
    pub fn new(config: &Ldap) -> Self {
        Self { config: config.clone(), places: Semaphore::new(config.connections_max) }
    }

    /// Asks the directory about a name and a password.
    pub async fn ask(&self, attempt: &PasswordAttempt<'_>) -> OutsideVerdict {
        let PasswordAttempt { name, password, locked, .. } = *attempt;
        let directory = self.config.name.as_str();
        // A bind without a password is an anonymous one, and succeeds (RFC 4513 section 5.1.2).
        let Some(name) = prepared(name).filter(|_| !password.is_empty()) else {
            return OutsideVerdict::Refused;
        };
        let limit = self.config.timeout;
        let Ok(Ok(_place)) = timeout(limit, self.places.acquire()).await else {
            warn!(directory, "all connections to the directory were busy for too long");
            return OutsideVerdict::Unavailable;
        };
        if let Some(left) = locked() {
            return OutsideVerdict::Locked(left);
        }
        match timeout(limit, self.log_in(&name, password)).await {
            Ok(Ok(Some(user))) => OutsideVerdict::Accepted(user),
            Ok(Ok(None)) => OutsideVerdict::Refused,
            Ok(Err(error)) => {
                warn!(directory, %error, "cannot ask the directory");
                OutsideVerdict::Unavailable
            }
            Err(_) => {
                warn!(directory, "the directory did not answer in time");
                OutsideVerdict::Unavailable
            }
        }
    }

    async fn log_in(&self, name: &str, password: &[u8]) -> Result<Option<OutsideUser>, DirectoryError> {
        let access = self.access().await?;
        let mut connection = LdapConnection::open(&access.options).await?;
        let outcome = self.log_in_over(&mut connection, &access, name, password).await;
        connection.close().await;
        outcome
    }

    async fn log_in_over(
        &self,
        connection: &mut LdapConnection,
        access: &DirectoryAccess,
        name: &str,
        password: &[u8],
    ) -> Result<Option<OutsideUser>, DirectoryError> {
        let entry = match &self.config.user_dn {
            Some(template) => {
                let dn = template.replace("%s", &escaped_for_dn(name));
                if !connection.bind(&dn, password).await? {
                    return Ok(None);
                }
                self.search_for_one(connection, &dn, LdapScope::Base, &filter_for_any()).await?
            }
            None => {
                self.bind_for_search(connection, access).await?;
                let base = self.config.base.as_deref().unwrap_or_default();
                let filter = filter_for(&self.config.filter, name, "");
                let found = self.search_for_one(connection, base, LdapScope::Subtree, &filter).await?;
                let Some(entry) = found else { return Ok(None) };
                if !connection.bind(&entry.dn, password).await? {
                    return Ok(None);
                }
                Some(entry)
            }
        };
        let Some(entry) = entry else { return Ok(None) };
        let Some((name_there, own_name)) = name_of(&entry, &self.config.name_attribute, name) else {
            let (directory, attribute) = (self.config.name.as_str(), self.config.name_attribute.as_str());
            warn!(directory, dn = entry.dn, attribute, "the entry has no name of a user");
            return Ok(None);
        };
        let groups = self.groups(connection, access, &entry, name_there).await?;
        Ok(Some(OutsideUser { name: own_name.into_bytes(), groups }))
    }

    /// Binds as the account that searches, if there is one.
    async fn bind_for_search(
        &self,
        connection: &mut LdapConnection,
        access: &DirectoryAccess,
    ) -> Result<(), DirectoryError> {
        let (Some(dn), Some(password)) = (&self.config.service_dn, &access.service_password) else {
            return Ok(());
        };
        let is_right = connection.bind(dn, password.as_bytes()).await?;
        is_right.then_some(()).ok_or(DirectoryError::Service)
    }

    /// Returns the only entry that a search finds.
    async fn search_for_one(
        &self,
        connection: &mut LdapConnection,
        base: &str,
        scope: LdapScope,
        filter: &[u8],
    ) -> Result<Option<LdapEntry>, DirectoryError> {
        let attributes = &[self.config.name_attribute.as_str(), self.config.group_attribute.as_str()];
        let request = SearchRequest { base, scope, filter, attributes, entries_max: 1 };
        let mut found = connection.search(&request).await?;
        if found.has_more {
            warn!(directory = self.config.name, base, "several entries have the name of a user");
            return Ok(None);
        }
        // A bind as an entry without a name would be anonymous.
        Ok(found.entries.pop().filter(|entry| !entry.dn.is_empty()))
    }

    /// Returns the groups of users that those of an entry stand for.
    async fn groups(
        &self,
        connection: &mut LdapConnection,
        access: &DirectoryAccess,
        entry: &LdapEntry,
        name: &str,
    ) -> Result<Box<[Box<str>]>, DirectoryError> {
        let config = &self.config;
        if config.groups.is_empty() {
            return Ok(Box::default());
        }
        let (mut found, mut has_more) = (Vec::new(), entry.has_more_values(&config.group_attribute));
        if let Some(base) = &config.group_base {
            self.bind_for_search(connection, access).await?;
            let filter = filter_for(&config.group_filter, name, &entry.dn);
            let attributes = NO_ATTRIBUTES;
            let scope = LdapScope::Subtree;
            let request = SearchRequest { base, scope, filter: &filter, attributes, entries_max: GROUPS_MAX };
            let result = connection.search(&request).await?;
            has_more |= result.has_more;
            found = result.entries;
        }
        let listed = entry.values(&config.group_attribute);
        let all = listed.chain(found.iter().map(|group| group.dn.as_str()));
        let all: HashSet<DirectoryGroupName> = all.map(DirectoryGroupName::of).collect();
        debug!(directory = config.name, dn = entry.dn, groups = all.len(), "groups in the directory");
        let has = |name: &str| all.contains(&DirectoryGroupName::of(name));
        // A group that is not known of may take rights as well as give them.
        if has_more && !config.groups.iter().all(|grant| has(&grant.value)) {
            return Err(DirectoryError::Groups);
        }
        Ok(granted(&config.groups, has))
    }

    async fn access(&self) -> Result<DirectoryAccess, DirectoryError> {
        let config = self.config.clone();
        let read = move || {
            let link = Link {
                bind: None,
                tls: config.tls,
                tls_verify: config.tls_verify,
                tls_ca: config.tls_ca,
                user: None,
                password_file: None,
                mechanisms: Vec::new(),
                compress: false,
            };
            let limits = ClientLimits {
                connect_timeout: config.timeout,
                idle_timeout: config.timeout,
                ..ClientLimits::default()
            };
            let options = RemoteServer { to: config.to, link }.target(Role::Any, limits)?;
            let service_password = config.service_password_file.as_deref().map(first_line).transpose()?;
            Ok(DirectoryAccess { options, service_password })
        };
        let read = spawn_blocking(read).await.map_err(|_| DirectoryError::Internal)?;
        read.map_err(DirectoryError::Setup)
    }
}

/// Returns the user's name in an entry, as it is there and as it is here: of several the one that was typed,
/// else the first.
fn name_of<'e>(entry: &'e LdapEntry, attribute: &str, typed: &str) -> Option<(&'e str, String)> {
    let names = entry.values(attribute).filter_map(|value| Some((value, prepared(value.as_bytes())?)));
    let mut names: Vec<(&str, String)> = names.collect();
    let is_typed = |(_, name): &(&str, String)| name.to_lowercase() == typed.to_lowercase();
    let at = names.iter().position(is_typed).unwrap_or_default();
    (at < names.len()).then(|| names.swap_remove(at))
}

/// Escapes a name for a value in a distinguished name (RFC 4514 section 2.4): all that is neither a letter
/// nor a digit, octet by octet.
pub(super) fn escaped_for_dn(name: &str) -> String {
    let octet = |octet: u8| match octet.is_ascii_alphanumeric() {
        true => char::from(octet).to_string(),
        false => format!("\\{octet:02x}"),
    };
    name.bytes().map(octet).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fake_directory::{FakeDirectory, FakeEntry, Manners};
    use super::*;
    use crate::endpoint::ClientEndpoint;
    use site_config::testing::with_trash;
    use std::net::Ipv4Addr;
    use std::time::{Duration, Instant};

    const PEOPLE: &[FakeEntry] = &[
        FakeEntry { dn: "cn=service,dc=x", password: "for searching", attributes: &[] },
        FakeEntry {
            dn: "uid=fred,ou=people,dc=x",
            password: "flintstone",
            attributes: &[
                ("uid", "fred"),
                ("mail", "fred@x.example"),
                ("memberOf", "cn=news, ou=groups,dc=x"),
                ("memberOf", "cn=other,ou=groups,dc=x"),
            ],
        },
        FakeEntry {
            dn: "uid=wilma,ou=people,dc=x",
            password: "pebble",
            attributes: &[("uid", "wilma"), ("mail", "both@x.example")],
        },
        FakeEntry {
            dn: "uid=betty,ou=people,dc=x",
            password: "rubble",
            attributes: &[("uid", "betty"), ("mail", "both@x.example"), ("mail", "b.rubble@x.example")],
        },
        FakeEntry {
            dn: "uid=pebbles,ou=people,dc=x",
            password: "pw",
            attributes: &[("uid", "pebbles"), ("isMemberOf;range=0-1", "cn=a,dc=x")],
        },
        FakeEntry { dn: "uid=nameless,ou=people,dc=x", password: "pw", attributes: &[("cn", "nameless")] },
        FakeEntry {
            dn: "cn=mods,ou=groups,dc=x",
            password: "",
            attributes: &[("member", "uid=wilma,ou=people,dc=x"), ("memberUid", "betty")],
        },
    ];

    const SEARCHING: &str = "base = \"ou=people,dc=x\"\n";
    const BY_NAME: &str = "user_dn = \"uid=%s,ou=people,dc=x\"\n";
    const GROUPS: &str =
        "groups = [\"CN=news,ou=groups,dc=X -> staff\", \"cn=mods,ou=groups,dc=x -> mods\"]\n";

    fn directory(fake: &FakeDirectory, keys: &str) -> Directory {
        let address = fake.address;
        let encryption = if keys.contains("tls = ") { "" } else { "tls = \"off\"\n" };
        let timeout = if keys.contains("timeout = ") { "" } else { "timeout = \"30 s\"\n" };
        let section = format!("[[ldap]]\nname = \"people\"\nto = \"{address}\"\n{encryption}{timeout}{keys}");
        Directory::new(&with_trash(&section).directories[0])
    }

    fn accepted(name: &str, groups: &[&str]) -> OutsideVerdict {
        let groups = groups.iter().map(|&group| group.into()).collect();
        OutsideVerdict::Accepted(OutsideUser { name: name.into(), groups })
    }

    async fn asked(directory: &Directory, name: &str, password: &str) -> OutsideVerdict {
        asked_while(directory, name, password, &|| None).await
    }

    async fn asked_while(
        directory: &Directory,
        name: &str,
        password: &str,
        locked: &(dyn Fn() -> Option<Duration> + Sync),
    ) -> OutsideVerdict {
        let caller = &ClientEndpoint { address: Ipv4Addr::LOCALHOST.into(), port: 1, local: None };
        let attempt =
            PasswordAttempt { caller, name: name.as_bytes(), password: password.as_bytes(), locked };
        directory.ask(&attempt).await
    }

    #[tokio::test]
    async fn passwords_are_checked_by_a_bind_and_the_entry_has_name_and_groups() {
        let fake = FakeDirectory::start(Manners::Good, PEOPLE);
        for keys in [SEARCHING, BY_NAME] {
            let directory = directory(&fake, &format!("{keys}{GROUPS}"));
            assert_eq!(asked(&directory, "fred", "flintstone").await, accepted("fred", &["staff"]));
            assert_eq!(
                asked(&directory, "FRED", "flintstone").await,
                accepted("fred", &["staff"]),
                "one user"
            );
            for (name, password) in [
                ("fred", "wrong"),
                ("fred", "rubble"),
                ("barney", "flintstone"),
                ("nameless", "pw"),
                ("a b", "flintstone"),
                ("", "flintstone"),
            ] {
                assert_eq!(
                    asked(&directory, name, password).await,
                    OutsideVerdict::Refused,
                    "{name} {password}"
                );
            }
        }
    }

    #[tokio::test]
    async fn an_empty_password_never_reaches_the_directory() {
        let fake = FakeDirectory::start(Manners::Good, PEOPLE);
        for keys in [SEARCHING, BY_NAME] {
            assert_eq!(asked(&directory(&fake, keys), "fred", "").await, OutsideVerdict::Refused);
        }
        assert!(fake.binds.lock().is_empty());
    }

    #[tokio::test]
    async fn no_name_changes_what_is_searched_for() {
        let fake = FakeDirectory::start(Manners::Good, PEOPLE);
        let by_mail = "filter = \"(&(uid=*)(|(uid=%s)(mail=%s)))\"\n";
        let searching = directory(&fake, &format!("{SEARCHING}{by_mail}"));
        assert_eq!(asked(&searching, "fred@x.example", "flintstone").await, accepted("fred", &[]));
        assert_eq!(
            asked(&searching, "both@x.example", "pebble").await,
            OutsideVerdict::Refused,
            "two entries"
        );
        for name in ["*", "fred)(uid=*", "*)(|(uid=*", "fred\\2a", "(", "\u{e9}"] {
            assert_eq!(asked(&searching, name, "flintstone").await, OutsideVerdict::Refused, "{name}");
        }
        let by_name = directory(&fake, BY_NAME);
        for name in ["fred+cn=x", "x\\+uid=fred", "fred\"", "#fred"] {
            assert_eq!(asked(&by_name, name, "flintstone").await, OutsideVerdict::Refused, "{name}");
        }
        let binds = fake.binds.lock();
        assert!(binds.iter().any(|(dn, _)| dn == "uid=fred\\2bcn\\3dx,ou=people,dc=x"), "{binds:?}");
    }

    #[tokio::test]
    async fn groups_can_be_searched_for_by_an_account_of_their_own() {
        let fake = FakeDirectory::start(Manners::Good, PEOPLE);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        let service = format!("service_dn = \"cn=service,dc=x\"\nservice_password_file = {file:?}\n");
        let keys = format!("{SEARCHING}{GROUPS}{service}group_base = \"ou=groups,dc=x\"\n");
        std::fs::write(&file, "for searching\n").unwrap();
        let with = |more: &str| directory(&fake, &format!("{keys}{more}"));
        assert_eq!(asked(&with(""), "wilma", "pebble").await, accepted("wilma", &["mods"]));
        assert_eq!(asked(&with(""), "betty", "rubble").await, accepted("betty", &[]));
        let by_uid = with("group_filter = \"(memberUid=%s)\"\n");
        assert_eq!(asked(&by_uid, "betty", "rubble").await, accepted("betty", &["mods"]));
        let typed = asked(&by_uid, "BETTY", "rubble").await;
        assert_eq!(typed, accepted("betty", &["mods"]), "the name in the filter is that of the entry");
        let by_mail = with("filter = \"(mail=%s)\"\ngroup_filter = \"(memberUid=%s)\"\n");
        assert_eq!(asked(&by_mail, "b.rubble@x.example", "rubble").await, accepted("betty", &["mods"]));
        // A wrong password of the account is no user's fault.
        std::fs::write(&file, "wrong\n").unwrap();
        assert_eq!(asked(&with(""), "wilma", "pebble").await, OutsideVerdict::Unavailable);
        std::fs::write(&file, "\n").unwrap();
        assert_eq!(asked(&with(""), "wilma", "pebble").await, OutsideVerdict::Unavailable);
    }

    #[tokio::test]
    async fn nobody_logs_in_while_it_is_unknown_whether_all_groups_were_found() {
        let mods = "groups = [\"cn=mods,ou=groups,dc=x -> mods\"]\ngroup_base = \"ou=groups,dc=x\"\n";
        let fake = FakeDirectory::start(Manners::Limited, PEOPLE);
        let unknown = directory(&fake, &format!("{SEARCHING}{GROUPS}group_base = \"ou=groups,dc=x\"\n"));
        assert_eq!(asked(&unknown, "wilma", "pebble").await, OutsideVerdict::Unavailable);
        let none_else = directory(&fake, &format!("{SEARCHING}{mods}"));
        assert_eq!(asked(&none_else, "wilma", "pebble").await, accepted("wilma", &["mods"]));
        assert_eq!(asked(&none_else, "betty", "rubble").await, OutsideVerdict::Unavailable);
        let by_list = directory(&fake, &format!("{SEARCHING}{GROUPS}group_attribute = \"isMemberOf\"\n"));
        assert_eq!(asked(&by_list, "pebbles", "pw").await, OutsideVerdict::Unavailable);
        assert_eq!(asked(&by_list, "betty", "rubble").await, accepted("betty", &[]));
        // A base that does not exist holds no group, and no user; neither is the user's fault.
        let fake = FakeDirectory::start(Manners::Good, PEOPLE);
        for keys in [
            format!("{SEARCHING}{GROUPS}group_base = \"ou=grups,dc=x\"\n"),
            "base = \"ou=pepple,dc=x\"\n".to_owned(),
        ] {
            let verdict = asked(&directory(&fake, &keys), "wilma", "pebble").await;
            assert_eq!(verdict, OutsideVerdict::Unavailable, "{keys}");
        }
    }

    #[tokio::test]
    async fn a_bad_directory_lets_nobody_in_and_costs_little() {
        for manners in [
            Manners::Silent,
            Manners::Garbage,
            Manners::Huge,
            Manners::Endless,
            Manners::Slow,
            Manners::OtherRequests,
            Manners::Short,
            Manners::Busy,
        ] {
            let fake = FakeDirectory::start(manners, PEOPLE);
            let is_slow = matches!(manners, Manners::Silent | Manners::Slow);
            let timeout = if is_slow { "timeout = \"300 ms\"\n" } else { "" };
            for keys in [SEARCHING, BY_NAME] {
                let directory = directory(&fake, &format!("{keys}{timeout}"));
                let begun = Instant::now();
                let verdict = asked(&directory, "fred", "flintstone").await;
                assert_eq!(verdict, OutsideVerdict::Unavailable, "{manners:?} {keys}");
                assert!(begun.elapsed() < Duration::from_secs(20), "{manners:?}: {:?}", begun.elapsed());
            }
        }
    }

    #[tokio::test]
    async fn client_locked_out_while_it_waited_is_not_asked_about() {
        let fake = FakeDirectory::start(Manners::Good, PEOPLE);
        let directory = directory(&fake, SEARCHING);
        let left = Duration::from_secs(9);
        let verdict = asked_while(&directory, "fred", "flintstone", &|| Some(left)).await;
        assert_eq!(verdict, OutsideVerdict::Locked(left));
    }

    #[tokio::test]
    async fn a_slow_directory_makes_nobody_wait_longer_than_its_time() {
        let fake = FakeDirectory::start(Manners::Silent, PEOPLE);
        let directory = directory(&fake, &format!("{SEARCHING}timeout = \"300 ms\"\nconnections_max = 1\n"));
        let begun = Instant::now();
        let ask = || asked(&directory, "fred", "flintstone");
        let all = tokio::join!(ask(), ask(), ask(), ask());
        assert_eq!(all.0, OutsideVerdict::Unavailable);
        assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_directory_that_refuses_tls_is_sent_no_password() {
        let fake = FakeDirectory::start(Manners::Good, PEOPLE);
        let directory = directory(&fake, &format!("{BY_NAME}tls = \"starttls\"\ntls_verify = false\n"));
        assert_eq!(asked(&directory, "fred", "flintstone").await, OutsideVerdict::Unavailable);
        assert!(fake.binds.lock().is_empty());
    }

    #[test]
    fn a_name_is_one_value_of_a_distinguished_name() {
        assert_eq!(escaped_for_dn("fred1"), "fred1");
        assert_eq!(escaped_for_dn("a,ou=x+\"\u{e9}"), "a\\2cou\\3dx\\2b\\22\\c3\\a9");
    }
}
