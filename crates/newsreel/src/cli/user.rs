//! `user add|set|passwd|remove|list|check`: users, with a running server or without one. Changes are
//! operations, for which passwords become credentials here.

use super::locate::SiteLocation;
use super::password;
use super::reach;
use super::screen::{CliError, complain, problem, say, say_json};
use super::table::Columns;
use access::User;
use access::rules;
use access::users;
use access::users::{StoredCredentials, UserRecord, UserTable};
use clap::Subcommand;
use disk::RealDisk;
use operators::accounts::{AccountsCommand, AccountsOperation};
use operators::reply::SignUpRow;
use operators::users::{UserChangeError, UsersCommand, UsersOperation, user_groups, user_name};
use serde::Serialize;
use site_base::clock::unix_secs;
use site_base::figures::age;
use site_base::units::minute_text;
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

fn name_of(name: &str) -> Result<String, CliError> {
    user_name(name).map_err(|error| CliError::Usage(error.to_string()))
}

fn groups_of(names: &[String]) -> Result<Box<[Box<str>]>, CliError> {
    user_groups(names).map_err(|error| CliError::Usage(error.to_string()))
}

/// Makes a change, and prints what is said of it.
fn change(config: &Config, command: UsersCommand) -> Result<(), CliError> {
    reach::print(config, UsersOperation { command })
}

fn load(config: &Config) -> Result<Option<UserTable>, CliError> {
    let data = &config.site.data;
    users::load(&RealDisk::new(), data)
        .map_err(|error| CliError::Problem(format!("cannot read the users in {}: {error}", data.display())))
}

fn credentials(password: &[u8]) -> Result<StoredCredentials, CliError> {
    StoredCredentials::new(password).map_err(|_| CliError::Problem("the system has no random numbers".into()))
}

fn add(config: &Config, name: &str, group_names: &[String], no_password: bool) -> Result<(), CliError> {
    let (name, groups) = (name_of(name)?, groups_of(group_names)?);
    if load(config)?.is_some_and(|table| table.get(&name).is_some()) {
        return Err(problem(UserChangeError::Exists(name)));
    }
    let credentials = if no_password { None } else { Some(credentials(&password::ask_new(&name)?)?) };
    let user = User::new(name.as_str(), groups);
    change(config, UsersCommand::Add { name, groups: group_names.to_vec(), credentials })?;
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
    let (name, _valid) = (name_of(name)?, groups_of(group_names)?);
    change(config, UsersCommand::Set { name, groups: group_names.to_vec() })
}

fn passwd(config: &Config, name: &str) -> Result<(), CliError> {
    let name = name_of(name)?;
    if load(config)?.is_none_or(|table| table.get(&name).is_none()) {
        return Err(problem(UserChangeError::Unknown(name)));
    }
    let credentials = credentials(&password::ask_new(&name)?)?;
    change(config, UsersCommand::Passwd { name, credentials })
}

fn reset(config: &Config, name: &str) -> Result<(), CliError> {
    let name = name_of(name)?;
    let Some(url) = config.web.url(&config.site.path_identity) else {
        return Err(CliError::Problem("there are no pages to link to: [web] has no listen".into()));
    };
    let table = load(config)?;
    let table = table.filter(|table| table.get(&name).is_some());
    let table = table.ok_or_else(|| problem(UserChangeError::Unknown(name.clone())))?;
    let Some(token) = users::reset_token(&table, &name, unix_secs()) else {
        return Err(problem(UserChangeError::NoPassword(name)));
    };
    // The audit log has that there is a link, and the link is here alone.
    let command = UsersCommand::Reset { name };
    if !reach::ask(config, UsersOperation { command }, &mut |_| ())? {
        return Err(CliError::Told);
    }
    say(format_args!("{url}/reset/{token}"))
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

fn remove(config: &Config, names: &[String]) -> Result<(), CliError> {
    let names = names.iter().map(|name| name_of(name)).collect::<Result<_, _>>()?;
    change(config, UsersCommand::Remove { names })
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
    let since = |record: &&UserRecord| match record.credentials {
        Some(_) => minute_text(i64::try_from(record.changed).unwrap_or_default()),
        None => "none here".to_owned(),
    };
    let columns = Columns::of(&records)
        .left("user", |record| record.user.name.to_string())
        .left("groups", |record| record.user.groups.join(","))
        .left("password set (UTC)", since);
    say(columns.text())
}

fn check(config: &Config, name: &str) -> Result<(), CliError> {
    let name = name_of(name)?;
    let table = load(config)?;
    let record = table.as_ref().and_then(|table| table.get(&name));
    let record = record.ok_or_else(|| problem(UserChangeError::Unknown(name.clone())))?;
    let Some(credentials) = &record.credentials else {
        return Err(problem(UserChangeError::NoPassword(name)));
    };
    if credentials.argon2.verifies(&password::ask(&format!("Password of {name}: "))?) {
        say(format_args!("right: this is the password of {name}"))
    } else {
        Err(CliError::Problem(format!("wrong: this is not the password of {name}")))
    }
}
