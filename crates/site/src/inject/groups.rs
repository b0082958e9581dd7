//! Destinations of a proto-article: its groups, the servers that have them, or a moderator.
//!
//! All groups that are carried here or at an upstream must be open to the poster; if one is closed the post
//! is refused, so that its name appears in no article of ours. Other names are left to other servers, as long
//! as one group is known. For a name that the poster may not read, the refusal is worded as for a closed
//! group, whether or not the group exists: posters can neither post to hidden groups nor find out their
//! names. Called by `inject`. Sources: RFC 5537 section 3.5 steps 4 and 7, RFC 5536 section 3.1.4 (reserved
//! names), the flags of RFC 6048 section 3.1; `docs/decisions/0058-closed-groups.md`.

use super::elsewhere::UpstreamTakers;
use super::poster::Poster;
use super::refusal::{PostRefusal, shown};
use ingest::carried;
use netnews::control::{self, ControlCommand};
use netnews::{Article, Known, newsgroups};
use site_config::{Access, NamePattern};
use spool::{Group, GroupFlag, GroupTable};
use std::sync::Arc;
use upstreams::PostTaker;

/// Destination of a proto-article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PostDestination {
    /// The groups.
    File {
        /// File in the spool, in these of the groups it names and in no other.
        here: Vec<Box<[u8]>>,
        /// Send to the upstreams of these names.
        elsewhere: Vec<Arc<str>>,
    },
    /// The moderator of this group.
    Moderator(String),
}

/// A group of a proto-article that is visible to the poster.
struct TargetGroup<'a> {
    /// Name in the article.
    name: &'a [u8],
    /// The group it is filed in, which is another one if `name` is an alias.
    group: Arc<Group>,
    flag: GroupFlag,
}

impl<'a> TargetGroup<'a> {
    /// Finds a group; `None` if there is none of that name, or the poster may not read it.
    fn find(table: &GroupTable, poster: &Poster<'_>, name: &'a [u8]) -> Option<Self> {
        let (id, flag) = carried(table, name)?;
        let target = Self { name, group: table.get(id)?.clone(), flag };
        target.is_in(&poster.access.read).then_some(target)
    }

    /// Returns true if `groups` includes both the name in the article and the group's own.
    fn is_in(&self, groups: &NamePattern) -> bool {
        groups.matches(self.name) && groups.matches(self.group.name.as_bytes())
    }
}

/// Upstreams that take posts to the groups of an article.
pub(super) struct PostTakers<'a> {
    /// Takers for groups that only upstreams have.
    pub listed: &'a UpstreamTakers,
    /// Returns the taker for a group that is carried here.
    pub of_carried: &'a dyn Fn(&[u8]) -> Option<Arc<str>>,
}

/// Checks the groups, and the rights to send control messages and approved articles.
pub(super) fn judge(
    article: &Article<'_>,
    poster: &Poster<'_>,
    table: &GroupTable,
    takers: &PostTakers<'_>,
) -> Result<PostDestination, PostRefusal> {
    let is_control = article.count(Known::Control) > 0;
    let approved = article.count(Known::Approved) > 0;
    control_permitted(article, poster)?;
    let value = article.header(Known::Newsgroups).unwrap_or_default();
    let access = poster.access;
    let (mut judged, mut elsewhere, mut moderated) = (Vec::new(), Vec::new(), None);
    let (mut approves, mut submitted) = (false, false);
    for name in newsgroups::split(value) {
        let Some(target) = TargetGroup::find(table, poster, name) else {
            reserved(name)?;
            if !access.read.matches(name) {
                return Err(PostRefusal::NotYourGroup(shown(name)));
            }
            if let Some((_, taker)) = takers.listed.iter().find(|(taken, _)| **taken == *name) {
                let upstream = taken_by(taker, name, access)?;
                // Moderation, and the right to approve, are decided by that server.
                approves |= access.approve.matches(name);
                if !elsewhere.contains(&upstream) {
                    elsewhere.push(upstream);
                }
            }
            continue;
        };
        if !target.is_in(&access.post) {
            return Err(PostRefusal::NotYourGroup(shown(name)));
        }
        let upstream = (takers.of_carried)(name);
        let is_sent_on = upstream.is_some();
        elsewhere.extend(upstream.filter(|upstream| !elsewhere.contains(upstream)));
        match target.flag {
            GroupFlag::Open => {}
            GroupFlag::Closed if target.is_in(&access.local) => {}
            GroupFlag::Closed => return Err(PostRefusal::Closed(shown(name))),
            GroupFlag::Refused | GroupFlag::Junk | GroupFlag::Alias(_) => {
                return Err(PostRefusal::NoArticles(shown(name)));
            }
            GroupFlag::Moderated if approved && target.is_in(&access.approve) => approves = true,
            GroupFlag::Moderated if approved => return Err(PostRefusal::MayNotApprove(shown(name))),
            // A cancel is not sent to a moderator: its key decides.
            GroupFlag::Moderated if is_control => {}
            // The upstream submits it, and nothing is filed before its moderator has approved it.
            GroupFlag::Moderated if is_sent_on => submitted = true,
            GroupFlag::Moderated if moderated.is_none() => moderated = Some(target.group.name.to_string()),
            GroupFlag::Moderated => {}
        }
        judged.push(name.into());
    }
    if judged.is_empty() && elsewhere.is_empty() {
        return Err(PostRefusal::NoSuchGroup(shown(value)));
    }
    if approved && !approves && access.approve.is_empty() {
        return Err(PostRefusal::MayNotApprove(shown(value)));
    }
    Ok(match moderated {
        Some(group) => PostDestination::Moderator(group),
        None if submitted => PostDestination::File { here: Vec::new(), elsewhere },
        None => PostDestination::File { here: judged, elsewhere },
    })
}

/// Returns the upstream that takes a post to this group of another server.
fn taken_by(taker: &PostTaker, name: &[u8], access: &Access) -> Result<Arc<str>, PostRefusal> {
    match taker {
        _ if !access.post.matches(name) => Err(PostRefusal::NotYourGroup(shown(name))),
        PostTaker::Nobody => Err(PostRefusal::NoArticles(shown(name))),
        PostTaker::Upstream(upstream) => Ok(upstream.clone()),
    }
}

/// Checks the right to send a control message: cancels for every poster; others for posters that may approve
/// in the group of their kind.
fn control_permitted(article: &Article<'_>, poster: &Poster<'_>) -> Result<(), PostRefusal> {
    let Some(value) = article.header(Known::Control) else { return Ok(()) };
    if let Ok(ControlCommand::Cancel(_)) = control::parse(value) {
        return Ok(());
    }
    let verb = control::verb(value).to_ascii_lowercase();
    let group = [b"control.", &verb[..]].concat();
    if poster.may_control(&group) {
        return Ok(());
    }
    Err(PostRefusal::ControlNotPermitted(shown(&verb)))
}

/// Refuses names that no group may have: `poster`, those with a component `all` or `ctl`, and `to.*`,
/// `control.*`, `example.*`.
fn reserved(name: &[u8]) -> Result<(), PostRefusal> {
    let mut components = name.split(|&b| b == b'.');
    let first = components.clone().next().unwrap_or_default();
    let taken = [&b"to"[..], b"control", b"example"].contains(&first)
        || [&b"poster"[..], b"junk"].contains(&name)
        || components.any(|component| matches!(component, b"all" | b"ctl"));
    if taken { Err(PostRefusal::ReservedName(shown(name))) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names() {
        for name in
            ["poster", "to", "to.peer", "control.cancel", "example.test", "a.all.b", "alt.ctl", "junk"]
        {
            assert_eq!(reserved(name.as_bytes()), Err(PostRefusal::ReservedName(name.into())));
        }
        for name in ["posters", "alt.all-about", "tools.to", "local.example", "junk.yard"] {
            assert_eq!(reserved(name.as_bytes()), Ok(()), "{name}");
        }
    }
}
