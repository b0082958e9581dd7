//! Keys of issuers of control messages: import, list, trust, remove.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use spool::Spool;
use std::io;
use std::path::PathBuf;

use super::Sink;
use super::operation::{OperatedSite, Operation};
use super::reply::Reply;
use clap::{Args, Subcommand};
use ingest::control::{Keyring, SigningKey};
use site_base::units::counted;

/// Reason why a command about keys failed.
#[derive(Debug, thiserror::Error)]
enum KeyCommandError {
    /// The content of the file did not arrive in Base64.
    #[error("{0}")]
    Encoding(base64::DecodeError),
    /// The keyring cannot be read or written.
    #[error("{0}")]
    Keyring(#[from] io::Error),
    /// The file has no usable key.
    #[error("there is no OpenPGP public key (of version 4) in it")]
    NoKey,
    /// These keys were not imported; a reason each.
    #[error("{}", .0.join("; "))]
    NotImported(Vec<String>),
    /// No key has this name.
    #[error("there is no key `{0}`; `newsreel keys list` lists them")]
    Unknown(String),
    /// Several keys have this name.
    #[error("several keys are called `{0}`; name one by its fingerprint")]
    Ambiguous(String),
}

/// Action on the site's keys; answered by [`Reply::Text`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum KeysCommand {
    /// Import the public keys in a file, as gpg --export writes it; a known key is replaced
    Import {
        /// The file
        #[serde(skip)]
        file: PathBuf,
        /// Contents of the file, in Base64.
        #[arg(skip)]
        content: String,
    },
    /// List the keys: fingerprint, whether it is trusted, users
    List,
    /// Trust a key, so that it counts for [[control]] sections that name it
    Trust {
        /// Its fingerprint, or a user of it
        key: String,
    },
    /// Remove a key
    Remove {
        /// Its fingerprint, or a user of it
        key: String,
    },
}

/// List, import, trust or remove keys that may sign control messages
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
#[command(
    long_about = "List, import, trust or remove the OpenPGP keys that may sign control messages, whether the \
    server runs or not. A key counts only once it is trusted; signed_by in [[control]] says who may sign what."
)]
#[command(after_long_help = "Examples:\n  newsreel keys import PGPKEYS.asc\n  newsreel keys list\n  \
    newsreel keys trust news.announce.newgroups\n  newsreel keys remove 3D2A...")]
pub struct KeysOperation {
    #[command(subcommand)]
    /// Action on a key.
    pub command: KeysCommand,
}

impl Operation for KeysOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        execute(site.spool(), &self.command, sink)
    }
}

fn execute(spool: &Spool, command: &KeysCommand, sink: &mut Sink<'_>) -> bool {
    let keyring = Keyring::of(spool.disk().clone(), &spool.config().dir);
    let done = match command {
        KeysCommand::Import { content, .. } => import(&keyring, content, sink),
        KeysCommand::List => keyring.keys().map_err(KeyCommandError::Keyring).map(|keys| {
            keys.iter().for_each(|key| sink(Reply::Text(line(key))));
        }),
        KeysCommand::Trust { key } => found(&keyring, key).and_then(|key| {
            let key = keyring.trust(&key)?;
            sink(Reply::Text(line(&key)));
            Ok(())
        }),
        KeysCommand::Remove { key } => found(&keyring, key).and_then(|key| {
            keyring.remove(&key)?;
            sink(Reply::Text(format!("removed: {}", key.fingerprint)));
            Ok(())
        }),
    };
    if let Err(error) = &done {
        sink(Reply::Error(error.to_string()));
    }
    done.is_ok()
}

fn import(keyring: &Keyring, content: &str, sink: &mut Sink<'_>) -> Result<(), KeyCommandError> {
    let file = BASE64_STANDARD.decode(content).map_err(KeyCommandError::Encoding)?;
    let imported = keyring.import(&file)?;
    let mut failed = Vec::new();
    if imported.outdated > 0 {
        failed.push(format!(
            "{} of version 3 or older, which anybody can imitate: not taken, ask the hierarchy for a newer key",
            counted(imported.outdated as u64, "key")
        ));
    } else if imported.keys.is_empty() {
        return Err(KeyCommandError::NoKey);
    }
    for key in imported.keys {
        match key {
            Ok(key) => sink(Reply::Text(line(&key))),
            Err(error) => failed.push(error.to_string()),
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(KeyCommandError::NotImported(failed)) }
}

/// Returns the only key of that name.
fn found(keyring: &Keyring, name: &str) -> Result<SigningKey, KeyCommandError> {
    let keys = keyring.keys()?;
    let mut called = keys.iter().filter(|key| key.is_called(name));
    match (called.next(), called.next()) {
        (Some(key), None) => Ok(key.clone()),
        (None, _) => Err(KeyCommandError::Unknown(name.to_owned())),
        (Some(_), Some(_)) => Err(KeyCommandError::Ambiguous(name.to_owned())),
    }
}

/// Describes a key in a line.
fn line(key: &SigningKey) -> String {
    let state = match (key.unusable, key.is_trusted) {
        (Some(why), _) => format!("cannot be used: {why}"),
        (None, true) => "trusted".into(),
        (None, false) => "not trusted".into(),
    };
    let expires = match key.expires {
        Some(at) => format!(", expires {}", date_text(at)),
        None => String::new(),
    };
    format!("{}  {state}{expires}  {}", key.fingerprint, key.users.join(", "))
}

/// Formats a day, as in the Date of an article.
fn date_text(secs: i64) -> String {
    let mut text = Vec::new();
    netnews::date::format_rfc5322(secs, &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    let day = text.split_once(", ").map_or(text.as_str(), |(_, rest)| rest);
    day.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
