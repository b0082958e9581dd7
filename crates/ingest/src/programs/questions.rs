//! Questions of programs while they judge, answered from the spool.
//!
//! Called by `process`, on the program's thread.

use super::protocol::FilterQuery;
use disk::ReadMode;
use netnews::MessageId;
use site_log::SiteLog;
use spool::{ArticleBuf, ArticleIdent, ChangeMaker as _, Lookup, Spool};
use std::sync::Weak;
use tracing::{info, warn};

/// Returns the answer; `None` if nothing is found, or the request cannot be carried out.
pub(super) fn answer(filter: &str, log: &Weak<SiteLog>, question: FilterQuery<'_>) -> Option<Vec<u8>> {
    let log = log.upgrade()?;
    let spool = log.spool();
    let is_known = |id| spool.is_known(&spool.key(id));
    match question {
        FilterQuery::Known(id) => is_known(id).then(Vec::new),
        FilterQuery::Group(name) => {
            let table = spool.group_table();
            let group = table.id(name).and_then(|id| table.get(id))?;
            Some(group.flag().to_string().into_bytes())
        }
        FilterQuery::Head(id) => article(spool, id).map(|mut article| {
            let end = memchr::memmem::find(&article, b"\r\n\r\n").map_or(article.len(), |at| at + 2);
            article.truncate(end);
            article
        }),
        FilterQuery::Article(id) => article(spool, id),
        FilterQuery::Remember(id) => remember(filter, &log, MessageId::parse(id)?),
        FilterQuery::Cancel(id) => {
            let id = MessageId::parse(id)?;
            let cancelled = log.cancel(id.as_bytes());
            match cancelled {
                Ok(true) => {
                    info!(filter, %id, "article cancelled by a filter");
                    Some(Vec::new())
                }
                Ok(false) => remember(filter, &log, id),
                Err(trouble) => {
                    warn!(filter, %id, %trouble, "cannot cancel an article for a filter");
                    None
                }
            }
        }
    }
}

/// Enters a Message-ID into history, so that the article is refused when it arrives.
fn remember(filter: &str, log: &SiteLog, id: MessageId<'_>) -> Option<Vec<u8>> {
    let key = log.spool().key(id.as_bytes());
    if log.spool().lookup(&key) != Lookup::Unknown {
        return None;
    }
    match log.remember(ArticleIdent::Key(key)) {
        Ok(_) => Some(Vec::new()),
        Err(trouble) => {
            warn!(filter, %id, %trouble, "cannot enter a Message-ID into history for a filter");
            None
        }
    }
}

/// Returns an article as stored, in wire format.
fn article(spool: &Spool, id: &[u8]) -> Option<Vec<u8>> {
    let key = spool.key(id);
    let Lookup::Present(token) = spool.lookup(&key) else { return None };
    let mut buf = ArticleBuf::default();
    let found = spool.read(&token, Some(&key), ReadMode::Wait, &mut buf).ok()?;
    found.then(|| buf.article().to_vec())
}
