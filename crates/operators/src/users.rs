//! Changes of users; typed as `user add`, `user set`, `user passwd`, `user reset` and `user remove`.
//!
//! The command makes credentials of a password, which goes nowhere else. They are options within an option,
//! so that the audit log has none of them. The users file is changed by the server if one runs, and needs no
//! spool otherwise.

use super::operation::{FileOperation, OperatedSite, Operation, SiteFiles};
use super::reply::Reply;
use super::sink::Sink;
use access::User;
use access::users::{
    EditError, StoredCredentials, UserRecord, UserTable, edit, is_group_name, load, prepared,
};
use disk::Disk;
use serde::{Deserialize, Serialize};
use site_base::clock::unix_secs;
use std::path::{Path, PathBuf};

/// Change of users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum UsersCommand {
    /// Adds a user.
    Add {
        /// Name, prepared.
        name: String,
        /// Groups of users that this one is in.
        groups: Vec<String>,
        /// Credentials; `None` if a program or a certificate decides.
        credentials: Option<StoredCredentials>,
    },
    /// Puts a user into other groups.
    Set {
        /// Name, prepared.
        name: String,
        /// Groups that the user is in from now on.
        groups: Vec<String>,
    },
    /// Replaces the credentials of a user.
    Passwd {
        /// Name, prepared.
        name: String,
        /// The new ones.
        credentials: StoredCredentials,
    },
    /// Records that a link was made with which a user sets another password.
    Reset {
        /// Name, prepared.
        name: String,
    },
    /// Removes users: all of them, or none.
    Remove {
        /// Names, prepared.
        names: Vec<String>,
    },
}

/// Change users; answered by [`Reply::Text`] each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsersOperation {
    /// The change.
    pub command: UsersCommand,
}

/// Reason why users were not changed.
#[derive(Debug, thiserror::Error)]
pub enum UserChangeError {
    /// The text cannot be a user's name.
    #[error(
        "`{0}` cannot be a user's name: 1 to 128 bytes, no spaces, commas, angle brackets or control characters"
    )]
    NoName(String),
    /// The text cannot be the name of a group of users.
    #[error("`{0}` cannot be a group of users: 1 to 15 letters, digits, `_`, `.` or `-`")]
    NoGroup(String),
    /// A user of this name exists.
    #[error("user `{0}` is there already; newsreel user passwd and user set change users")]
    Exists(String),
    /// There is no user of this name.
    #[error("there is no user `{0}`; see newsreel user list")]
    Unknown(String),
    /// There is no user of this name, so none of those named was removed.
    #[error("there is no user `{0}`; see newsreel user list; nobody was removed")]
    NoneRemoved(String),
    /// This user has no password here.
    #[error("{0} has no password here: an authenticator program or a certificate decides")]
    NoPassword(String),
    /// The file of users in this directory cannot be read or written.
    #[error("cannot change the users in {}: {}", .0.display(), .1)]
    Io(PathBuf, std::io::Error),
}

/// Returns the prepared form of a user's name.
pub fn user_name(name: &str) -> Result<String, UserChangeError> {
    prepared(name.as_bytes()).ok_or_else(|| UserChangeError::NoName(name.to_owned()))
}

/// Returns names of groups of users, sorted, each once.
pub fn user_groups(names: &[String]) -> Result<Box<[Box<str>]>, UserChangeError> {
    if let Some(bad) = names.iter().find(|name| !is_group_name(name)) {
        return Err(UserChangeError::NoGroup(bad.clone()));
    }
    let mut groups: Vec<Box<str>> = names.iter().map(|name| name.as_str().into()).collect();
    groups.sort_unstable();
    groups.dedup();
    Ok(groups.into())
}

impl Operation for UsersOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        said(execute(&**site.spool().disk(), &site.config().site.data, &self.command), sink)
    }

    fn on_files(&self) -> Option<&dyn FileOperation> {
        Some(self)
    }
}

impl FileOperation for UsersOperation {
    fn run_on_files(&self, files: &SiteFiles<'_>, sink: &mut Sink<'_>) -> bool {
        said(execute(&**files.disk, &files.config.site.data, &self.command), sink)
    }
}

/// Sends the lines of an answer, or the error.
fn said(done: Result<Vec<String>, UserChangeError>, sink: &mut Sink<'_>) -> bool {
    match done {
        Ok(lines) => {
            lines.into_iter().for_each(|line| sink(Reply::Text(line)));
            true
        }
        Err(error) => {
            sink(Reply::Error(error.to_string()));
            false
        }
    }
}

/// Makes a change in the site's directory, which is made if it is missing; returns what to say.
fn execute(disk: &dyn Disk, data: &Path, command: &UsersCommand) -> Result<Vec<String>, UserChangeError> {
    let unreadable = |error| UserChangeError::Io(data.to_owned(), error);
    let change = |change: &dyn Fn(&mut UserTable) -> Result<Vec<String>, UserChangeError>| {
        disk.create_dir(data).map_err(unreadable)?;
        edit(disk, data, change).map_err(|error| match error {
            EditError::Refused(reason) => reason,
            EditError::Io(error) => unreadable(error),
        })
    };
    match command {
        UsersCommand::Add { name, groups, credentials } => {
            let (name, groups) = (user_name(name)?, user_groups(groups)?);
            change(&|table| {
                if table.get(&name).is_some() {
                    return Err(UserChangeError::Exists(name.clone()));
                }
                let user = User::new(name.as_str(), groups.clone());
                let credentials = credentials.clone();
                table.put(UserRecord { user, changed: unix_secs(), credentials, mail: None });
                Ok(vec![format!("{name} added")])
            })
        }
        UsersCommand::Set { name, groups } => {
            let (name, groups) = (user_name(name)?, user_groups(groups)?);
            let shown = if groups.is_empty() { "no group".to_owned() } else { groups.join(", ") };
            change(&|table| {
                let record = known(table, &name)?.clone();
                table.put(UserRecord { user: User { groups: groups.clone(), ..record.user }, ..record });
                Ok(vec![format!("{name} is in {shown}")])
            })
        }
        UsersCommand::Passwd { name, credentials } => {
            let name = user_name(name)?;
            change(&|table| {
                let record = known(table, &name)?.clone();
                let credentials = Some(credentials.clone());
                table.put(UserRecord { changed: unix_secs(), credentials, ..record });
                Ok(vec![format!("{name} has a new password")])
            })
        }
        UsersCommand::Reset { name } => {
            let name = user_name(name)?;
            let table = load(disk, data).map_err(unreadable)?;
            let table = table.ok_or_else(|| UserChangeError::Unknown(name.clone()))?;
            match known(&table, &name)?.credentials {
                Some(_) => Ok(vec![format!("{name} gets a link to set another password")]),
                None => Err(UserChangeError::NoPassword(name)),
            }
        }
        UsersCommand::Remove { names } => {
            let names: Vec<String> = names.iter().map(|name| user_name(name)).collect::<Result<_, _>>()?;
            change(&|table| {
                if let Some(missing) = names.iter().find(|name| table.get(name).is_none()) {
                    return Err(UserChangeError::NoneRemoved(missing.clone()));
                }
                Ok(names
                    .iter()
                    .map(|name| {
                        table.remove(name);
                        format!("{name} removed")
                    })
                    .collect())
            })
        }
    }
}

/// Returns the record of a user.
fn known<'t>(table: &'t UserTable, name: &str) -> Result<&'t UserRecord, UserChangeError> {
    table.get(name).ok_or_else(|| UserChangeError::Unknown(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{AuditLog, AuditParty};
    use crate::dispatch;
    use crate::request::Request;
    use std::sync::Arc;

    fn credentials() -> StoredCredentials {
        StoredCredentials::new(b"a long password").unwrap()
    }

    #[test]
    fn changes_without_a_server_need_no_spool_and_are_in_the_audit_log_without_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let text = "[[buffer]]\nname = \"b\"\npath = \"b.cyc\"\nsize = \"1 MiB\"\n\
                    [[class]]\nname = \"c\"\nbuffers = [\"b\"]\n[[rule]]\nclass = \"c\"\n";
        let config = site_config::parse(text, &dir.path().join("newsreel.toml")).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(disk::RealDisk::new());
        let files = SiteFiles { disk: &disk, config: &config };
        let made = credentials();
        let fred = || "fred".to_owned();
        let add = UsersCommand::Add {
            name: fred(),
            groups: vec!["staff".into(), "staff".into()],
            credentials: Some(made.clone()),
        };
        let commands = [
            (add.clone(), "fred added", true),
            (add, "user `fred` is there already; newsreel user passwd and user set change users", false),
            (UsersCommand::Set { name: fred(), groups: vec!["web".into()] }, "fred is in web", true),
            (
                UsersCommand::Passwd { name: fred(), credentials: credentials() },
                "fred has a new password",
                true,
            ),
            (UsersCommand::Reset { name: fred() }, "fred gets a link to set another password", true),
            (
                UsersCommand::Remove { names: vec![fred(), "wilma".into()] },
                "there is no user `wilma`; see newsreel user list; nobody was removed",
                false,
            ),
            (UsersCommand::Remove { names: vec![fred()] }, "fred removed", true),
            (
                UsersCommand::Set { name: fred(), groups: Vec::new() },
                "there is no user `fred`; see newsreel user list",
                false,
            ),
        ];
        for (command, text, ok) in commands.clone() {
            // As it is sent over the control socket.
            let line = serde_json::to_string(&Request::from(UsersOperation { command })).unwrap();
            let request: Request = serde_json::from_str(&line).unwrap();
            let mut heard = Vec::new();
            let done = dispatch::carry_out_on_files(&request, &files, &AuditParty::own(), &mut |reply| {
                heard.push(reply);
            });
            let told = match ok {
                true => Reply::Text(text.to_owned()),
                false => Reply::Error(text.to_owned()),
            };
            assert_eq!((done, heard), (Some(ok), vec![told]));
        }
        let log = AuditLog::of(disk.clone(), &config.site.data).newest(100).unwrap();
        let said: Vec<&str> = log.iter().rev().map(|entry| entry.said.as_str()).collect();
        assert_eq!(said, commands.each_ref().map(|(_, text, _)| *text));
        let actions: Vec<&str> = log.iter().rev().map(|entry| entry.action.as_str()).collect();
        assert_eq!(actions[0], "users add groups=staff,staff name=fred");
        assert_eq!(actions[3], "users passwd name=fred");
        let bytes = std::fs::read_to_string(config.site.data.join("audit-log")).unwrap();
        assert!(!bytes.contains("argon2") && !bytes.contains("SCRAM"), "{bytes}");
    }

    #[test]
    fn odd_names_groups_and_credentials_are_refused() {
        let sim = disk::SimDisk::new();
        let data = Path::new("/d");
        let refused = |command: UsersCommand| execute(&sim, data, &command).unwrap_err().to_string();
        let add = |name: &str, group: &str| UsersCommand::Add {
            name: name.into(),
            groups: vec![group.into()],
            credentials: None,
        };
        assert!(refused(add("a b", "x")).starts_with("`a b` cannot be a user's name"));
        assert!(refused(add("ab", "x y")).starts_with("`x y` cannot be a group of users"));
        let odd =
            r#"{"do":"users","command":{"passwd":{"name":"x","credentials":{"argon2":"x","scram":"y"}}}}"#;
        let error = serde_json::from_str::<Request>(odd).unwrap_err().to_string();
        assert!(error.contains("these are not credentials"), "{error}");
    }
}
