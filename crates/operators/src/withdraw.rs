//! `newsreel cancel` and `newsreel purge`: articles withdrawn by the operator, regardless of their locks.

use clap::Args;
use netnews::{MessageId, Wildmat};
use site_log::SiteLog;
use spool::{ArticleIdent, ChangeMaker as _, ChangeOutcome, Lookup, PurgeReport, SpoolTrouble};

use super::operation::{OperatedSite, Operation};
use super::reply::{PurgeRow, Reply};
use super::sink::{self, Sink};
use serde::{Deserialize, Serialize};

/// Cancel articles by Message-ID
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
#[command(
    long_about = "Cancel articles by Message-ID, whatever their Cancel-Locks, whether the server runs or not. An article \
    that is not here yet is refused when it arrives. A cancelled article cannot be restored."
)]
pub struct CancelOperation {
    /// Message-IDs, with their angle brackets
    #[arg(required = true, value_name = "MESSAGE-ID")]
    pub message_ids: Vec<String>,
    /// Only show what would be done
    #[arg(long)]
    pub dry_run: bool,
}

impl Operation for CancelOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        cancel(&site.log(), &self.message_ids, self.dry_run, sink)
    }
}

/// Delete all articles of groups
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
#[command(
    long_about = "Delete all articles of the matching groups, whether the server runs or not. An article that is also in \
    other groups stays there. The groups remain, and their numbering continues. A purged article cannot be restored, \
    but a rebuild after the loss of journal and indexes brings crossposted articles back into purged groups."
)]
pub struct PurgeOperation {
    /// The groups, a wildmat such as "alt.test.*,!alt.test.keep"
    #[arg(long, value_name = "WILDMAT")]
    pub groups: String,
    /// Only show what would be deleted
    #[arg(long)]
    pub dry_run: bool,
    /// Really delete; without this nothing is deleted
    #[arg(long, conflicts_with = "dry_run", required_unless_present = "dry_run")]
    #[serde(skip)]
    pub yes: bool,
    /// Print JSON
    #[arg(long)]
    #[serde(skip)]
    pub json: bool,
}

impl Operation for PurgeOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        purge(&site.log(), &self.groups, self.dry_run, sink)
    }
}

/// Cancels these articles; those not here yet are refused when they arrive. Returns true if each was a
/// Message-ID and was handled.
fn cancel(log: &SiteLog, message_ids: &[String], dry_run: bool, sink: &mut Sink<'_>) -> bool {
    let mut ok = true;
    for text in message_ids {
        let Some(id) = MessageId::parse(text.as_bytes()) else {
            ok = false;
            sink(Reply::Error(not_an_id(text)));
            continue;
        };
        match one(log, id, dry_run) {
            Ok(done) => sink(Reply::Text(format!("{id} {done}"))),
            Err(trouble) => {
                ok = false;
                sink(Reply::Error(format!("{id}: {trouble}")));
            }
        }
    }
    ok
}

/// Returns the message about a text that should be a Message-ID.
pub(super) fn not_an_id(text: &str) -> String {
    format!("`{text}` is not a Message-ID; write it like <left@right>")
}

fn one(log: &SiteLog, id: MessageId<'_>, dry_run: bool) -> Result<&'static str, SpoolTrouble> {
    let key = log.spool().key(id.as_bytes());
    let mut found = log.spool().lookup_fresh(&key);
    if found == Lookup::Unknown && !dry_run {
        if log.remember(ArticleIdent::Key(key))? == ChangeOutcome::Remembered {
            return Ok("is not here; it will be refused when it comes");
        }
        // It has arrived meanwhile; at a member of a cluster, by way of another one.
        found = log.spool().lookup(&key);
    }
    Ok(match found {
        Lookup::Present(_) | Lookup::Hidden(_) if dry_run => "would be cancelled",
        Lookup::Present(_) | Lookup::Hidden(_) if log.cancel(id.as_bytes())? => "cancelled",
        Lookup::Present(_) | Lookup::Hidden(_) => "is not here any more",
        Lookup::Unknown => "is not here; it would be refused when it comes",
        Lookup::Remembered | Lookup::Gone => "is not here any more, and is refused when it comes",
    })
}

/// Removes all articles from the groups that match.
fn purge(log: &SiteLog, groups: &str, dry_run: bool, sink: &mut Sink<'_>) -> bool {
    let wildmat = match Wildmat::parse(groups.as_bytes()) {
        Ok(wildmat) => wildmat,
        Err(error) => {
            sink(Reply::Error(format!("`{groups}` is not a wildmat: {error}")));
            return false;
        }
    };
    log.spool().freshen();
    let purged = log.purge(&wildmat, dry_run, &sink::ProgressRelay::new(sink));
    match purged {
        Ok(PurgeReport { groups: 0, .. }) => {
            sink(Reply::Error(format!("no group matches `{groups}`; nothing is purged")));
            return false;
        }
        Ok(PurgeReport { groups, articles, crossposts, numbers }) => {
            sink(Reply::Purged(PurgeRow { dry_run, groups, articles, crossposts, numbers }));
        }
        Err(trouble) => {
            sink(Reply::Error(trouble.to_string()));
            return false;
        }
    }
    true
}
