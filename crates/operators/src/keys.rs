//! Keys of issuers of control messages: import, list, trust, remove.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use spool::Spool;

use super::Sink;
use super::request::{KeysCommand, Reply};
use ingest::control::{Keyring, SigningKey};
use site_base::units::counted;

pub(super) fn execute(spool: &Spool, command: &KeysCommand, sink: &mut Sink<'_>) -> bool {
    let keyring = Keyring::of(spool.disk().clone(), &spool.config().dir);
    let done = match command {
        KeysCommand::Import { content, .. } => import(&keyring, content, sink),
        KeysCommand::List => keyring.keys().map_err(|error| error.to_string()).map(|keys| {
            keys.iter().for_each(|key| sink(Reply::Text(line(key))));
        }),
        KeysCommand::Trust { key } => found(&keyring, key).and_then(|key| {
            let key = keyring.trust(&key).map_err(|error| error.to_string())?;
            sink(Reply::Text(line(&key)));
            Ok(())
        }),
        KeysCommand::Remove { key } => found(&keyring, key).and_then(|key| {
            keyring.remove(&key).map_err(|error| error.to_string())?;
            sink(Reply::Text(format!("removed: {}", key.fingerprint)));
            Ok(())
        }),
    };
    if let Err(error) = &done {
        sink(Reply::Error(error.clone()));
    }
    done.is_ok()
}

fn import(keyring: &Keyring, content: &str, sink: &mut Sink<'_>) -> Result<(), String> {
    let file = BASE64_STANDARD.decode(content).map_err(|error| error.to_string())?;
    let imported = keyring.import(&file).map_err(|error| error.to_string())?;
    let mut failed = Vec::new();
    if imported.outdated > 0 {
        failed.push(format!(
            "{} of version 3 or older, which anybody can imitate: not taken, ask the hierarchy for a newer key",
            counted(imported.outdated as u64, "key")
        ));
    } else if imported.keys.is_empty() {
        return Err("there is no OpenPGP public key (of version 4) in it".into());
    }
    for key in imported.keys {
        match key {
            Ok(key) => sink(Reply::Text(line(&key))),
            Err(error) => failed.push(error.to_string()),
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

/// Returns the only key of that name.
fn found(keyring: &Keyring, name: &str) -> Result<SigningKey, String> {
    let keys = keyring.keys().map_err(|error| error.to_string())?;
    let mut called = keys.iter().filter(|key| key.is_called(name));
    match (called.next(), called.next()) {
        (Some(key), None) => Ok(key.clone()),
        (None, _) => Err(format!("there is no key `{name}`; `newsreel keys list` lists them")),
        (Some(_), Some(_)) => Err(format!("several keys are called `{name}`; name one by its fingerprint")),
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
