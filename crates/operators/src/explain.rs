//! `newsreel explain`: everything known about an article.

use super::operation::{OperatedSite, Operation};
use super::reply::Reply;
use super::sink::Sink;
use clap::Args;
use serde::{Deserialize, Serialize};
use spool::{Lookup, Spool};

/// Show everything known about an article
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
#[command(
    long_about = "Show everything known about an article: where it is stored, whether it can be read, its history.\n\n\
    Exit code 1 if it cannot be read."
)]
#[command(after_long_help = "Examples:\n  newsreel explain '<1993Apr5.012345@example.org>'\n  \
    newsreel explain text0:24da800:1e\n  newsreel explain ./article.txt")]
pub struct ExplainOperation {
    /// A token, a <message-id>, or a file that holds an article
    #[arg(value_name = "TOKEN|<MESSAGE-ID>|FILE")]
    pub subject: String,
}

impl Operation for ExplainOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        explain(site.spool(), &self.subject, sink)
    }
}

fn explain(spool: &Spool, subject: &str, sink: &mut Sink<'_>) -> bool {
    let mut say = |label: &str, text: &str| sink(Reply::Text(format!("{label:<14} {text}")));
    let explanation = if subject.starts_with('<') {
        spool.freshen();
        let (found, explanation) = spool.tokens().explain_message_id(subject.as_bytes());
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
    } else if let Some(token) = spool.tokens().parse(subject) {
        Some(spool.tokens().explain(&token, None))
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
