//! `newsreel cancel` and `newsreel purge`: articles withdrawn by the operator, regardless of their locks.

use netnews::{MessageId, Wildmat};
use site_log::SiteLog;
use spool::{ArticleIdent, ChangeMaker as _, Lookup, PurgeReport, Spool, SpoolTrouble};

use super::request::{PurgeRow, Reply};
use super::sink::{self, Sink};

/// Cancels these articles; those not here yet are refused when they arrive. Returns true if each was a
/// Message-ID and was handled.
pub(super) fn cancel(log: &SiteLog, message_ids: &[String], dry_run: bool, sink: &mut Sink<'_>) -> bool {
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
    Ok(match log.spool().lookup(&key) {
        Lookup::Present(_) | Lookup::Hidden(_) if dry_run => "would be cancelled",
        Lookup::Present(_) | Lookup::Hidden(_) if log.cancel(id.as_bytes())? => "cancelled",
        Lookup::Present(_) | Lookup::Hidden(_) => "is not here any more",
        Lookup::Unknown if dry_run => "is not here; it would be refused when it comes",
        Lookup::Unknown => {
            log.remember(ArticleIdent::Key(key))?;
            "is not here; it will be refused when it comes"
        }
        Lookup::Remembered | Lookup::Gone => "is not here any more, and is refused when it comes",
    })
}

/// Removes all articles from the groups that match.
pub(super) fn purge(spool: &Spool, groups: &str, dry_run: bool, sink: &mut Sink<'_>) -> bool {
    let wildmat = match Wildmat::parse(groups.as_bytes()) {
        Ok(wildmat) => wildmat,
        Err(error) => {
            sink(Reply::Error(format!("`{groups}` is not a wildmat: {error}")));
            return false;
        }
    };
    let purged = spool.purge(&wildmat, dry_run, &sink::ProgressRelay::new(sink));
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
