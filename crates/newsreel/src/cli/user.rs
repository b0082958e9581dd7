//! `user add|set|passwd|remove|list|check`: the file of users, beside a running server or without one.

use super::locate::SiteLocation;
use super::password;
use super::reach;
use super::screen::{CliError, complain, problem, say, say_json};
use super::table::Columns;
use access::User;
use access::rules;
use access::users;
use access::users::{EditError, StoredCredentials, UserRecord, UserTable};
use clap::Subcommand;
use disk::{Disk, RealDisk};
use netnews::date::format_nntp;
use operators::accounts::{AccountsCommand, AccountsOperation};
use operators::reply::SignUpRow;
use serde::Serialize;
use site_base::clock::unix_secs;
use site_base::figures::age;
use site_config::{Access, Config};

/// Subcommands of `user`.
#[derive(Debug, Subcommand)]
pub(super) enum UserCommand {
    /// Add a user, whose password is asked for or read from standard input
    Add {
        /// The name
        name: String,
        /// A group of users that this one is in (repeatable); [[access]] sections name them in user_groups
        #[arg(long, value_name = "GROUP")]
        group: Vec<String>,
        /// Store groups but no password: a login from outside (docs/logins.md) or a TLS certificate decides
        #[arg(long)]
        no_password: bool,
    },
    /// Put a user into other groups
    Set {
        /// The name
        name: String,
        /// A group that the user is in from now on (repeatable); without any, the user is in none
        #[arg(long, value_name = "GROUP")]
        group: Vec<String>,
    },
    /// Give a user a new password
    Passwd {
        /// The name
        name: String,
    },
    /// Print a link with which a user sets another password, once and within a day
    #[command(
        long_about = "Print a link to the site's pages with which a user sets another password. It works once, within \
        a day, and only until the password changes; it needs [web]. Pass it on so that nobody else sees it."
    )]
    Reset {
        /// The name
        name: String,
    },
    /// List the accounts that were asked for on the web and wait ([web] sign_up)
    Waiting {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make users of accounts that wait
    Confirm {
        /// Their names
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Delete accounts that wait
    Refuse {
        /// Their names
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Remove users; those who are connected stay connected
    Remove {
        /// Their names
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// List users with their groups
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Ask for a user's password and say whether it is right
    #[command(
        long_about = "Ask for a user's password and say whether it is right. Exit code 1 if it is not."
    )]
    Check {
        /// The name
        name: String,
    },
}

pub(super) fn run(command: UserCommand, at: &SiteLocation) -> Result<(), CliError> {
    let config = at.load()?;
    match command {
        UserCommand::Add { name, group, no_password } => add(&config, &name, &group, no_password),
        UserCommand::Set { name, group } => set(&config, &name, &group),
        UserCommand::Passwd { name } => passwd(&config, &name),
        UserCommand::Reset { name } => reset(&config, &name),
        UserCommand::Waiting { json } => waiting(&config, json),
        UserCommand::Confirm { names } => decide(&config, AccountsCommand::Confirm { names }),
        UserCommand::Refuse { names } => decide(&config, AccountsCommand::Refuse { names }),
        UserCommand::Remove { names } => remove(&config, &names),
        UserCommand::List { json } => list(&config, json),
        UserCommand::Check { name } => check(&config, &name),
    }
}

fn prepared(name: &str) -> Result<String, CliError> {
    users::prepared(name.as_bytes()).ok_or_else(|| {
        CliError::Usage(format!(
            "`{name}` cannot be a user's name: 1 to 128 bytes, no spaces, commas, angle brackets or control characters"
        ))
    })
}

fn groups(names: &[String]) -> Result<Box<[Box<str>]>, CliError> {
    if let Some(bad) = names.iter().find(|name| !users::is_group_name(name)) {
        let text = format!("`{bad}` cannot be a group of users: 1 to 15 letters, digits, `_`, `.` or `-`");
        return Err(CliError::Usage(text));
    }
    let mut groups: Vec<Box<str>> = names.iter().map(|name| name.as_str().into()).collect();
    groups.sort_unstable();
    groups.dedup();
    Ok(groups.into())
}

/// Calls `change` with the users, and saves them; creates the site's directory if needed.
fn edit(
    config: &Config,
    change: impl FnOnce(&mut UserTable) -> Result<(), UserChangeError>,
) -> Result<(), CliError> {
    let (disk, data) = (RealDisk::new(), &config.site.data);
    let made = disk.create_dir(data).map_err(EditError::Io);
    made.and_then(|()| users::edit(&disk, data, change)).map_err(|error| match error {
        EditError::Refused(reason) => CliError::Problem(reason.to_string()),
        EditError::Io(error) => {
            CliError::Problem(format!("cannot change the users in {}: {error}", data.display()))
        }
    })
}

fn load(config: &Config) -> Result<Option<UserTable>, CliError> {
    let data = &config.site.data;
    users::load(&RealDisk::new(), data)
        .map_err(|error| CliError::Problem(format!("cannot read the users in {}: {error}", data.display())))
}

fn credentials(password: &[u8]) -> Result<StoredCredentials, CliError> {
    StoredCredentials::new(password).map_err(|_| CliError::Problem("the system has no random numbers".into()))
}

/// Reason why users were not changed.
#[derive(Debug, thiserror::Error)]
enum UserChangeError {
    /// A user of this name exists.
    #[error("user `{0}` is there already; newsreel user passwd and user set change users")]
    Exists(String),
    /// There is no user of this name.
    #[error("there is no user `{0}`; see newsreel user list")]
    Unknown(String),
    /// There is no user of this name, so none of those named was removed.
    #[error("there is no user `{0}`; see newsreel user list; nobody was removed")]
    NoneRemoved(String),
}

fn add(config: &Config, name: &str, group_names: &[String], no_password: bool) -> Result<(), CliError> {
    let (name, groups) = (prepared(name)?, groups(group_names)?);
    let there = || UserChangeError::Exists(name.clone());
    if load(config)?.is_some_and(|table| table.get(&name).is_some()) {
        return Err(problem(there()));
    }
    let made = if no_password { None } else { Some(credentials(&password::ask_new(&name)?)?) };
    let user = User::new(name.as_str(), groups);
    edit(config, |table| {
        if table.get(&name).is_some() {
            return Err(there());
        }
        table.put(UserRecord { user: user.clone(), changed: unix_secs(), credentials: made, mail: None });
        Ok(())
    })?;
    say(format_args!("{name} added"))?;
    if let Some(hint) = gains_nothing(config, &user) {
        complain(format_args!("newsreel: {hint}"));
    }
    Ok(())
}

/// Returns a warning if nothing in the configuration applies to this user.
fn gains_nothing(config: &Config, user: &User) -> Option<String> {
    let is_meant = |access: &Access| access.names_users() && rules::is_user_of(access, Some(user));
    let is_peer = config.peers.iter().any(|peer| peer.user.as_deref() == Some(&*user.name));
    (!is_peer && !config.access.iter().any(is_meant)).then(|| {
        format!(
            "{} gains nothing by logging in: no [[access]] section has users or user_groups that name this \
             user, and no [[peer]] has; newsreel explain-config access.users shows how",
            user.name
        )
    })
}

fn set(config: &Config, name: &str, group_names: &[String]) -> Result<(), CliError> {
    let (name, groups) = (prepared(name)?, groups(group_names)?);
    let shown = if groups.is_empty() { "no group".to_owned() } else { groups.join(", ") };
    edit(config, |table| {
        let record = table.get(&name).cloned().ok_or_else(|| UserChangeError::Unknown(name.clone()))?;
        table.put(UserRecord { user: User { groups, ..record.user }, ..record });
        Ok(())
    })?;
    say(format_args!("{name} is in {shown}"))
}

fn passwd(config: &Config, name: &str) -> Result<(), CliError> {
    let name = prepared(name)?;
    if load(config)?.is_none_or(|table| table.get(&name).is_none()) {
        return Err(problem(UserChangeError::Unknown(name)));
    }
    let made = credentials(&password::ask_new(&name)?)?;
    edit(config, |table| {
        let record = table.get(&name).cloned().ok_or_else(|| UserChangeError::Unknown(name.clone()))?;
        table.put(UserRecord { changed: unix_secs(), credentials: Some(made), ..record });
        Ok(())
    })?;
    say(format_args!("{name} has a new password"))
}

fn reset(config: &Config, name: &str) -> Result<(), CliError> {
    let name = prepared(name)?;
    let Some(url) = config.web.url(&config.site.path_identity) else {
        return Err(CliError::Problem("there are no pages to link to: [web] has no listen".into()));
    };
    let table = load(config)?;
    let table = table.filter(|table| table.get(&name).is_some());
    let table = table.ok_or_else(|| problem(UserChangeError::Unknown(name.clone())))?;
    match users::reset_token(&table, &name, unix_secs()) {
        Some(token) => say(format_args!("{url}/reset/{token}")),
        None => Err(CliError::Problem(no_password(&name))),
    }
}

/// Lists the accounts that wait.
fn waiting(config: &Config, json: bool) -> Result<(), CliError> {
    let list = AccountsOperation { command: AccountsCommand::List {} };
    let rows = reach::rows::<SignUpRow>(config, list)?;
    if json {
        return say_json(&rows);
    }
    let now = unix_secs();
    let columns = Columns::of(&rows)
        .left("name", |row| row.name.clone())
        .left("asked", |row| age(Some(row.asked), now))
        .left("from", |row| row.address.clone())
        .left("note", |row| row.note.clone());
    say(columns.text())
}

/// Decides about accounts that wait.
fn decide(config: &Config, command: AccountsCommand) -> Result<(), CliError> {
    reach::print(config, AccountsOperation { command })
}

fn no_password(name: &str) -> String {
    format!("{name} has no password here: an authenticator program or a certificate decides")
}

fn remove(config: &Config, names: &[String]) -> Result<(), CliError> {
    let names: Vec<String> = names.iter().map(|name| prepared(name)).collect::<Result<_, _>>()?;
    edit(config, |table| match names.iter().find(|name| table.get(name).is_none()) {
        Some(missing) => Err(UserChangeError::NoneRemoved(missing.clone())),
        None => {
            names.iter().for_each(|name| {
                table.remove(name);
            });
            Ok(())
        }
    })?;
    names.iter().try_for_each(|name| say(format_args!("{name} removed")))
}

/// A user as shown by `list --json`.
#[derive(Debug, Serialize)]
struct UserRow<'a> {
    name: &'a str,
    groups: &'a [Box<str>],
    /// Whether the file has a password; otherwise a program or certificate decides.
    password: bool,
    /// Time at which the password was set, in Unix seconds.
    changed: u64,
}

impl<'a> UserRow<'a> {
    fn of(record: &'a UserRecord) -> Self {
        Self {
            name: &record.user.name,
            groups: &record.user.groups,
            password: record.credentials.is_some(),
            changed: record.changed,
        }
    }
}

fn list(config: &Config, json: bool) -> Result<(), CliError> {
    let loaded = load(config)?;
    let records: Vec<&UserRecord> = loaded.iter().flat_map(UserTable::iter).collect();
    if json {
        let rows: Vec<UserRow<'_>> = records.iter().map(|record| UserRow::of(record)).collect();
        return say_json(&rows);
    }
    let since = |record: &&UserRecord| {
        let since = format_nntp(i64::try_from(record.changed).unwrap_or_default());
        let digits = String::from_utf8_lossy(since.as_ref()).into_owned();
        let part = |range: std::ops::Range<usize>| digits.get(range).unwrap_or_default().to_owned();
        let since = format!("{}-{}-{} {}:{}", part(0..4), part(4..6), part(6..8), part(8..10), part(10..12));
        if record.credentials.is_some() { since } else { "none here".to_owned() }
    };
    let columns = Columns::of(&records)
        .left("user", |record| record.user.name.to_string())
        .left("groups", |record| record.user.groups.join(","))
        .left("password set (UTC)", since);
    say(columns.text())
}

fn check(config: &Config, name: &str) -> Result<(), CliError> {
    let name = prepared(name)?;
    let table = load(config)?;
    let record = table.as_ref().and_then(|table| table.get(&name));
    let record = record.ok_or_else(|| problem(UserChangeError::Unknown(name.clone())))?;
    let Some(credentials) = &record.credentials else {
        return Err(CliError::Problem(no_password(&name)));
    };
    if credentials.argon2.verifies(&password::ask(&format!("Password of {name}: "))?) {
        say(format_args!("right: this is the password of {name}"))
    } else {
        Err(CliError::Problem(format!("wrong: this is not the password of {name}")))
    }
}
