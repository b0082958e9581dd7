//! Posts to groups of other servers: the servers that take them, and the answer to the poster.
//!
//! The upstreams inject such a post, each in its own name; they receive the proto-article with the Message-ID
//! and Date assigned here, the same for all (RFC 5537 section 3.4.2). Called by `inject`.

use super::poster::Author;
use super::refusal::{PostRefusal, shown};
use ingest::{Reject, carried};
use netnews::injection;
use netnews::{Article, Known, newsgroups};
use site_config::Config;
use spool::GroupTable;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use upstreams::{Outbox, PostResult, PostTaker, QueuePostError, QueuedPost, Upstreams};

/// The groups of a post that are not carried here, that its poster may read and that an upstream has, each
/// with the taker of posts to it.
pub(super) type UpstreamTakers = Vec<(Box<[u8]>, PostTaker)>;

/// Returns the takers for the groups of a post that are not carried here.
pub(super) async fn takers(
    upstreams: &Upstreams,
    article: &Article<'_>,
    may_read: impl Fn(&[u8]) -> bool + Send,
    table: &GroupTable,
) -> UpstreamTakers {
    let mut takers = Vec::new();
    if upstreams.is_empty() {
        return takers;
    }
    for name in newsgroups::split(article.header(Known::Newsgroups).unwrap_or_default()) {
        if carried(table, name).is_none()
            && may_read(name)
            && let Some(taker) = upstreams.delivery().taker(name).await
        {
            takers.push((name.into(), taker));
        }
    }
    takers
}

/// Queues a complete article for upstreams; it is on disk when this returns, and not sent yet.
pub(super) fn queue(
    upstreams: &Upstreams,
    to: &[Arc<str>],
    message_id: &str,
    complete: &[u8],
    author: Author<'_>,
    config: &Config,
) -> Result<Outbox, PostRefusal> {
    let proto = injection::for_another(&Article::parse(complete)?);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let queued = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    let max = config.posting.upstream_queue_max;
    let post = |upstream: &str| QueuedPost {
        message_id: message_id.to_owned(),
        upstream: upstream.to_owned(),
        address: author.address_text.to_owned(),
        user: author.user.unwrap_or_default().to_owned(),
        queued,
        refused: String::new(),
        wire: proto.clone(),
    };
    tokio::task::block_in_place(|| upstreams.delivery().queue_post(to, max, post)).map_err(|not| match not {
        QueuePostError::Known => PostRefusal::Rejected(Reject::Duplicate),
        QueuePostError::Full => PostRefusal::UpstreamQueueFull(max),
        QueuePostError::Io => PostRefusal::Trouble,
    })
}

/// Returns the upstreams among the takers, each once.
pub(super) fn upstreams_of(takers: &UpstreamTakers) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for (_, taker) in takers {
        if let PostTaker::Upstream(name) = taker
            && !names.contains(name)
        {
            names.push(name.clone());
        }
    }
    names
}

/// Returns the text after `240 Article` about a post's fate elsewhere; an error if it was refused everywhere.
pub(super) fn answer(fates: &[(Arc<str>, PostResult)], is_filed: bool) -> Result<String, PostRefusal> {
    let names = |wanted: fn(&PostResult) -> bool| -> Vec<&str> {
        fates.iter().filter(|(_, fate)| wanted(fate)).map(|(name, _)| &**name).collect()
    };
    let waits = names(|fate| matches!(fate, PostResult::Waits(_)));
    let mut refused = String::new();
    for (name, fate) in fates {
        if let PostResult::Refused(text) = fate {
            let separator = if refused.is_empty() { "" } else { ", " };
            let _infallible = write!(refused, "{separator}{name}: {}", shown(text.as_bytes()));
        }
    }
    let is_received = is_filed || fates.iter().any(|(_, fate)| *fate == PostResult::Taken);
    if !is_received && waits.is_empty() {
        return Err(PostRefusal::RefusedElsewhere(refused));
    }
    let mut text = if is_received { "received OK".to_owned() } else { String::new() };
    let mut say = |what: &str| {
        text.push_str(if text.is_empty() { "" } else { "; " });
        text.push_str(what);
    };
    if !waits.is_empty() {
        say(&format!("queued for {}, which cannot take it now", waits.join(", ")));
    }
    if !refused.is_empty() {
        say(&format!("refused by {refused}"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_reports_the_fates_at_other_servers() {
        let (taken, waits) = (PostResult::Taken, PostResult::Waits("away".into()));
        let refused = PostResult::Refused("441 no such\r\ngroup".into());
        let answer = |fates: &[&PostResult], is_filed| {
            let names = ["a", "b", "c"].map(Arc::<str>::from);
            let fates: Vec<_> = names.into_iter().zip(fates.iter().map(|fate| (*fate).clone())).collect();
            answer(&fates, is_filed).map_err(|refusal| refusal.to_string())
        };
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(answer(&[&taken], false), ok("received OK"));
        assert_eq!(answer(&[], true), ok("received OK"));
        assert_eq!(answer(&[&waits, &waits], false), ok("queued for a, b, which cannot take it now"));
        assert_eq!(
            answer(&[&waits, &refused, &taken], false),
            ok("received OK; queued for a, which cannot take it now; refused by b: 441 no such  group")
        );
        assert_eq!(answer(&[&refused], true), ok("received OK; refused by a: 441 no such  group"));
        assert_eq!(answer(&[&refused], false), Err("Posting failed: a: 441 no such  group".to_owned()));
    }
}
