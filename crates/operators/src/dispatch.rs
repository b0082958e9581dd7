//! The one road of a request of an operator to its [`Operation`](crate::operation::Operation): from the
//! control socket, from a page, and from a command that has opened the spool itself or needs none. Actions
//! are recorded in the audit log.

use crate::audit::{AuditEntry, AuditLog, AuditParty};
use crate::control_socket::exchange::ControlExchange;
use crate::operation::{OperatedSite, SiteFiles};
use crate::reply::LastWords;
use crate::request::Request;
use crate::running::Server;
use crate::sink::Sink;
use serde_json::Value;
use std::fmt::Write as _;
use std::io;

/// Maximum number of words of a list that are named in a description.
const WORDS_MAX: usize = 10;
/// Longest word that is named in a description, in bytes.
const WORD_BYTES_MAX: usize = 300;

/// Carries out a request, and passes its replies on but for [`Reply::Done`](crate::reply::Reply::Done);
/// returns whether it succeeded.
pub fn carry_out(request: &Request, site: &OperatedSite<'_>, by: &AuditParty, sink: &mut Sink<'_>) -> bool {
    let mut said = LastWords::default();
    let ok = request.operation().run(site, &mut |reply| {
        said.hear(&reply);
        sink(reply);
    });
    if request.is_action() {
        let entry = AuditEntry::now(by, &described(request), ok, said.text());
        match site {
            OperatedSite::Running { server, .. } => server.audit.record(&entry),
            OperatedSite::Stopped { spool, config } => {
                AuditLog::of(spool.disk().clone(), &config.site.data).record(&entry);
            }
        }
    }
    ok
}

/// Carries out a request on the files of a site that no server has open, if it needs no spool; returns
/// whether it succeeded.
pub fn carry_out_on_files(
    request: &Request,
    files: &SiteFiles<'_>,
    by: &AuditParty,
    sink: &mut Sink<'_>,
) -> Option<bool> {
    let operation = request.operation().on_files()?;
    let mut said = LastWords::default();
    let ok = operation.run_on_files(files, &mut |reply| {
        said.hear(&reply);
        sink(reply);
    });
    if request.is_action() {
        let log = AuditLog::of(files.disk.clone(), &files.config.site.data);
        log.record(&AuditEntry::now(by, &described(request), ok, said.text()));
        log.give_to_owner_of(&files.config.site.data);
    }
    Some(ok)
}

/// Carries out a request for a client of the control socket; returns whether it succeeded.
pub(crate) fn answer(
    request: &Request,
    server: &Server,
    by: &AuditParty,
    client: &mut ControlExchange,
) -> io::Result<bool> {
    let answered = request.operation().answer(server, client);
    if request.is_action() {
        let ok = *answered.as_ref().unwrap_or(&false);
        server.audit.record(&AuditEntry::now(by, &described(request), ok, client.said()));
    }
    answered
}

/// Describes a request in one line: its name, and its options that are not empty.
fn described(request: &Request) -> String {
    let mut text = String::new();
    if let Ok(Value::Object(options)) = serde_json::to_value(request) {
        text.push_str(options.get("do").and_then(Value::as_str).unwrap_or_default());
        options
            .iter()
            .filter(|(name, _)| *name != "do")
            .for_each(|(name, value)| add(&mut text, name, value));
    }
    text
}

/// Adds an option. Options within options are left out, as they may have passwords of other servers, except
/// subcommands and selections.
fn add(text: &mut String, name: &str, value: &Value) {
    // Writing to a string does not fail.
    let _infallible = match value {
        Value::Null | Value::Bool(false) => Ok(()),
        Value::Array(none) if none.is_empty() => Ok(()),
        Value::Bool(true) => write!(text, " {name}"),
        // A subcommand, or options of one.
        Value::String(word) if name == "command" => write!(text, " {word}"),
        Value::Object(command) if name == "command" => {
            for (name, options) in command {
                text.push(' ');
                text.push_str(name);
                add_all(text, options);
            }
            Ok(())
        }
        Value::Object(_) if name == "by" => {
            add_all(text, value);
            Ok(())
        }
        Value::Object(_) => Ok(()),
        Value::String(long) if long.len() > WORD_BYTES_MAX => write!(text, " {name}=({} bytes)", long.len()),
        Value::String(word) => write!(text, " {name}={word}"),
        Value::Array(all) => match all.iter().map(word_of).collect::<Option<Vec<&str>>>() {
            Some(words) if words.len() <= WORDS_MAX => write!(text, " {name}={}", words.join(",")),
            _ => write!(text, " {name}=({})", all.len()),
        },
        Value::Number(number) => write!(text, " {name}={number}"),
    };
}

/// Returns the word that stands for an element of a list: itself, or its name.
fn word_of(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("name")?.as_str())
}

/// Adds all options of an object.
fn add_all(text: &mut String, options: &Value) {
    options.as_object().into_iter().flatten().for_each(|(name, value)| add(text, name, value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_described_in_one_line() {
        for (line, text) in [
            (r#"{"do":"go"}"#, "go"),
            (
                r#"{"do":"group_add","groups":[{"name":"a.b","flag":"y","description":"x"}]}"#,
                "group_add groups=a.b",
            ),
            (r#"{"do":"feed","peer":"x","command":"stop"}"#, "feed stop peer=x"),
            (r#"{"do":"feed","peer":"x","command":{"from":{"place":"now"}}}"#, "feed from place=now peer=x"),
            (
                r#"{"do":"moderation","command":{"reject":{"message_id":"<1@x>","reason":"off topic"}}}"#,
                "moderation reject message_id=<1@x> reason=off topic",
            ),
            (
                r#"{"do":"cancel","message_ids":["<1@x>","<2@x>"],"dry_run":false}"#,
                "cancel message_ids=<1@x>,<2@x>",
            ),
            (
                r#"{"do":"unhide","message_ids":[],"by":{"issuer":"nocem:x","since":null},"dry_run":false}"#,
                "unhide issuer=nocem:x",
            ),
            (r#"{"do":"verify","repair":true,"dry_run":false}"#, "verify repair"),
        ] {
            let request: Request = serde_json::from_str(line).unwrap();
            assert_eq!(described(&request), text);
            assert!(request.is_action(), "{line}");
        }
    }

    #[test]
    fn looking_is_no_action() {
        for line in [
            r#"{"do":"ping"}"#,
            r#"{"do":"status"}"#,
            r#"{"do":"group_list","wildmat":null}"#,
            r#"{"do":"buffer","command":{"list":{}}}"#,
            r#"{"do":"moderation","command":{"list":{}}}"#,
            r#"{"do":"filter","command":{"review":{"filter":null,"since":null}}}"#,
            r#"{"do":"cancel","message_ids":["<1@x>"],"dry_run":true}"#,
            r#"{"do":"verify","repair":false,"dry_run":false}"#,
            r#"{"do":"hide","message_ids":[],"reason":null,"dry_run":false,"list":true,"by":{"issuer":null,"since":2}}"#,
        ] {
            assert!(!serde_json::from_str::<Request>(line).unwrap().is_action(), "{line}");
        }
    }
}
