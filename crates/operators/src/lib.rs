//! Requests of operators, carried out on an open spool.
//!
//! Shared by a running server (`control_socket`) and commands that open the spool themselves (`cli`), so that
//! both answer alike. Filing articles is in `ingest`. Everything blocks.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod archive;
pub mod buffers;
pub mod cached;
mod care;
mod certificates;
pub mod control_socket;
pub mod days;
mod expire;
mod export;
mod feed;
mod feed_rate;
pub mod filter;
mod group_control;
pub mod group_sync;
mod groups;
pub(crate) mod hide;
mod history;
mod incoming;
mod keys;
pub mod moderation;
#[cfg(feature = "mount")]
pub(crate) mod mounted;
mod name_map;
pub mod overview;
pub(crate) mod pause;
pub mod posts;
pub mod pull;
pub mod reload;
pub mod report;
pub mod request;
mod resting;
pub mod retention;
pub mod running;
#[cfg(feature = "search")]
pub mod search;
mod sink;
mod state_files;
#[cfg(test)]
mod tests;
pub mod transmit;
pub mod trouble;
mod why;
mod withdraw;

use site_log::SiteLog;
use spool::{ChangeMaker as _, Lookup, Spool};

use request::{BufferCommand, Reply, Request};

pub use certificates::keep_renewed;
pub use expire::keep_expiring;
pub use feed::{batch, feed};
pub use group_control::ControlMessages;
pub use incoming::file_incoming;
pub use pull::standing::{Pulls, keep_pulling};
pub use resting::{look_over_indexes, rest_when_quiet};
pub use sink::Sink;
pub use why::why;

/// Carries out `request` and sends replies to `sink`; returns whether it succeeded and found no problem. The
/// caller sends the final [`Reply::Done`]. Requests that need more than a spool and its log, those of the
/// last arm, are left to the caller.
pub fn execute(request: &Request, log: &SiteLog, sink: &mut Sink<'_>) -> bool {
    let spool = log.spool();
    match request {
        Request::GroupAdd { groups } => groups::add(log, groups, sink),
        Request::GroupUpdate { add, set, remove } => groups::update(log, add, set, remove, sink),
        Request::GroupRemove { names } => groups::remove(log, names, sink),
        Request::GroupSet { name, flag, description } => {
            groups::set(log, name, flag.as_deref(), description.clone(), sink)
        }
        Request::GroupList { wildmat } => groups::list(spool, wildmat.as_deref(), sink),
        Request::Explain { subject } => explain(spool, subject, sink),
        Request::Articles { group } => export::articles(spool, group, sink),
        Request::NameMap { group } => name_map::name_map(spool, group, sink),
        Request::Verify { repair: false, .. } => care::verify(spool, sink),
        Request::Verify { dry_run, .. } => care::repair(spool, *dry_run, sink),
        Request::Cancel { message_ids, dry_run } => withdraw::cancel(log, message_ids, *dry_run, sink),
        Request::Hide { list: true, by, .. } => hide::list(spool, by, sink),
        Request::Hide { message_ids, reason, dry_run, .. } => {
            hide::hide(log, message_ids, reason.as_deref().unwrap_or_default(), *dry_run, sink)
        }
        Request::Unhide { message_ids, by, dry_run } => hide::unhide(log, message_ids, by, *dry_run, sink),
        Request::Purge { groups, dry_run, .. } => withdraw::purge(spool, groups, *dry_run, sink),
        Request::Keys { command } => keys::execute(spool, command, sink),
        Request::Expire { explain: Some(message_id), .. } => expire::explain(spool, message_id, sink),
        Request::Expire { what_if: Some(file), text, days, .. } => {
            expire::what_if(spool, file, text.as_deref().unwrap_or_default(), *days, sink)
        }
        Request::Expire { dry_run, .. } => expire::expire(spool, *dry_run, sink),
        Request::CountLiving { tokens } => {
            let tokens: Vec<spool::Token> = tokens.iter().filter_map(|t| spool::Token::from_hex(t)).collect();
            sink(Reply::Count(spool.count_living(&tokens)));
            true
        }
        Request::HistoryImport { lines } => history::import(log, lines, sink),
        Request::HistoryExport { form } => history::export(spool, *form, sink),
        Request::RaiseHigh { marks } => groups::raise_high(log, marks, sink),
        Request::Buffer { command: BufferCommand::List { .. } } => buffers::list(spool, sink),
        Request::Ping
        | Request::Archive { .. }
        | Request::Moderation { .. }
        | Request::Posts { .. }
        | Request::Filter { .. }
        | Request::VerifyCache
        | Request::Status { .. }
        | Request::Buffer { .. }
        | Request::Rnews
        | Request::Import
        | Request::Pull { .. }
        | Request::Send { .. }
        | Request::Reload
        | Request::Pause { .. }
        | Request::Go
        | Request::Why { .. }
        | Request::Feed { .. }
        | Request::Batch { .. }
        | Request::Mount { .. }
        | Request::MountStanding { .. }
        | Request::Search { .. }
        | Request::RebuildSearch
        | Request::Compare { .. } => {
            sink(Reply::Error("this request is not carried out on the spool alone".into()));
            false
        }
    }
}

fn explain(spool: &Spool, subject: &str, sink: &mut Sink<'_>) -> bool {
    let mut say = |label: &str, text: &str| sink(Reply::Text(format!("{label:<14} {text}")));
    let explanation = if subject.starts_with('<') {
        let (found, explanation) = spool.explain_message_id(subject.as_bytes());
        say("Message-ID", subject);
        say(
            "history",
            match found {
                Lookup::Unknown if spool.is_hash_known(subject.as_bytes()) => {
                    "remembered: another server's history, which was imported, has its hash"
                }
                Lookup::Unknown => "unknown: it would be taken if it were offered",
                Lookup::Remembered => "remembered without an article: it was rejected or cancelled",
                Lookup::Gone => "remembered; its article has been overwritten",
                Lookup::Present(_) => "present",
                Lookup::Hidden(_) => "present, and hidden",
            },
        );
        explanation
    } else if let Some(token) = spool.parse_token(subject) {
        Some(spool.explain_token(&token, None))
    } else {
        let message = format!("`{subject}` is neither a token (buffer:offset:cycle) nor a <message-id>");
        sink(Reply::Error(message));
        return false;
    };
    let Some(explanation) = explanation else { return false };
    say("token", &explanation.token);
    say("article", if explanation.alive { "can be read" } else { "cannot be read" });
    if let Some(message_id) = explanation.message_id.as_deref().filter(|_| !subject.starts_with('<')) {
        say("Message-ID", message_id);
    }
    for (label, text) in &explanation.lines {
        say(label, text);
    }
    explanation.alive
}
