//! Injects a held post after its moderator has approved it (RFC 5537 section 3.9).
//!
//! The post takes the path of all posts, into the groups that it names and that are carried here, and to the
//! upstreams that have its other groups. Injection-Info describes the original poster. Called for `newsreel
//! moderation approve`.

use super::filtering::JudgedPost;
use super::poster::Author;
use super::refusal::PostRefusal;
use super::stamp::InjectionMarks;
use super::{Injector, elsewhere, file, signing};
use crate::moderation::HeldPost;
use crate::site::Site;
use ingest::{Reject, carried};
use netnews::injection::{self, InjectionStamp};
use netnews::{Article, Known, newsgroups};
use site_base::clock::unix_now;
use site_config::Config;
use spool::{GroupFlag, GroupTable};
use tracing::info;

impl Injector {
    /// Files a post as approved by `by`, a mail address; returns false if it is known here already. The error
    /// is the reason why it is not filed.
    pub async fn approve(&self, site: &Site, post: &HeldPost, by: &str) -> Result<bool, PostRefusal> {
        match self.inject_approved(site, post, by).await {
            Ok(()) => {
                info!(id = post.message_id, group = post.group, by, "post approved and filed");
                Ok(true)
            }
            Err(PostRefusal::Rejected(Reject::Duplicate)) => Ok(false),
            Err(refusal) => Err(refusal),
        }
    }

    async fn inject_approved(&self, site: &Site, post: &HeldPost, by: &str) -> Result<(), PostRefusal> {
        let wire = with_approval(&Article::parse(&post.wire)?, by);
        let article = Article::parse(&wire)?;
        let config = self.config.current();
        let user = Some(post.user.as_str()).filter(|user| !user.is_empty());
        let author = Author { address_text: &post.address, user };
        let marks = InjectionMarks::of(&article, author, &config, self.secret()?);
        // The locks and keys were added when it was posted.
        let stamp =
            InjectionStamp { cancel_lock: "", cancel_key: "", ..marks.stamp(&config, unix_now(), false) };
        let mut complete = injection::complete(&article, &stamp);
        if let Some(command) = signer(&config, &post.group) {
            complete = signing::signed(command, &complete).await?;
        }
        let table = site.spool.group_table();
        let groups = groups_of(&article, &table);
        let takers = elsewhere::takers(&self.upstreams, &article, |_| true, &table).await;
        let to = elsewhere::upstreams_of(&takers);
        let outbox = elsewhere::queue(&self.upstreams, &to, &marks.message_id, &complete, author, &config)?;
        file(site, author, None, groups, JudgedPost::passed(complete)).await?;
        // Their outcome is in the log.
        _ = outbox.send(true).await;
        // The article must be durable before the held post is removed.
        tokio::task::block_in_place(|| site.spool.sync()).map_err(|_| PostRefusal::Trouble)
    }
}

/// Returns the command that signs posts to this group.
fn signer<'c>(config: &'c Config, group: &str) -> Option<&'c [String]> {
    let moderator = config.moderators.iter().find(|moderator| moderator.groups.matches(group.as_bytes()))?;
    moderator.sign.as_deref()
}

/// Returns the article with an Approved header, unless it has one.
fn with_approval(article: &Article<'_>, by: &str) -> Vec<u8> {
    let (wire, at) = (article.wire(), article.head().len());
    let header = match article.count(Known::Approved) {
        0 => format!("Approved: {by}\r\n"),
        _ => String::new(),
    };
    let (head, rest) = wire.split_at_checked(at).unwrap_or((wire, &[]));
    [head, header.as_bytes(), rest].concat()
}

/// Returns the groups that the article names and that take articles here.
fn groups_of(article: &Article<'_>, table: &GroupTable) -> Vec<Box<[u8]>> {
    let takes = |name: &&[u8]| {
        let flag = carried(table, name).map(|(_, flag)| flag);
        matches!(flag, Some(GroupFlag::Open | GroupFlag::Moderated | GroupFlag::Closed))
    };
    let value = article.header(Known::Newsgroups).unwrap_or_default();
    newsgroups::split(value).filter(takes).map(Box::from).collect()
}
