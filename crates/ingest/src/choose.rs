//! The groups an article is filed in.
//!
//! From the Newsgroups header: the groups that are carried and that the sender may post to, each once,
//! aliases followed. Control messages go to the group of their kind instead, or to none
//! (`docs/decisions/0027`). Called by `ingest`. Sources: RFC 5537 sections 3.6 and 3.7, RFC 6048 section
//! 3.1, INN's handling of `control` and `junk`.

use super::{Origin, Reject};
use netnews::{Article, Known, control, newsgroups};
use site_config::UnknownGroups;
use spool::{GroupFlag, GroupId, GroupTable};

/// Group for articles without a carried group, if `unknown_groups = "junk"`, and for those of groups with
/// flag `j`.
const JUNK: &[u8] = b"junk";
/// Group for control messages without a `control.KIND` group.
const CONTROL: &[u8] = b"control";
/// Longest kind of control message examined, in bytes.
const CONTROL_KIND_BYTES_MAX: usize = 32;
/// Most groups one article is filed in.
pub(super) const GROUPS_PER_ARTICLE_MAX: usize = 250;

/// Findings of a walk through Newsgroups besides groups to file in.
#[derive(Default)]
struct GroupWalk {
    not_accepted: bool,
    refused: bool,
    junk: bool,
}

/// Appends the groups in which `article` is filed: at least one, except for a control message that no group
/// takes.
pub(super) fn groups(
    table: &GroupTable,
    unknown: UnknownGroups,
    origin: &Origin,
    article: &Article<'_>,
    out: &mut Vec<GroupId>,
) -> Result<(), Reject> {
    let start = out.len();
    let mut seen = GroupWalk::default();
    for name in newsgroups::split(article.header(Known::Newsgroups).unwrap_or_default()) {
        one(table, origin, article, name, start, &mut seen, out)?;
    }
    if let Some(control) = article.header(Known::Control) {
        out.truncate(start);
        out.extend(control_group(table, control));
        return Ok(());
    }
    if out.len() > start {
        return Ok(());
    }
    if seen.not_accepted {
        return Err(Reject::NotAccepted);
    }
    if seen.refused {
        return Err(Reject::RefusedGroups);
    }
    if !seen.junk && unknown == UnknownGroups::Reject {
        return Err(Reject::UnknownGroups);
    }
    out.push(table.id(JUNK).ok_or(Reject::UnknownGroups)?);
    Ok(())
}

fn one(
    table: &GroupTable,
    origin: &Origin,
    article: &Article<'_>,
    name: &[u8],
    start: usize,
    seen: &mut GroupWalk,
    out: &mut Vec<GroupId>,
) -> Result<(), Reject> {
    if !origin.accepts(name) {
        seen.not_accepted = true;
        return Ok(());
    }
    let Some((id, flag)) = carried(table, name) else { return Ok(()) };
    match flag {
        GroupFlag::Open | GroupFlag::Closed => {}
        GroupFlag::Moderated if article.count(Known::Approved) == 0 => return Err(Reject::Unapproved),
        GroupFlag::Moderated => {}
        GroupFlag::Junk => {
            seen.junk = true;
            return Ok(());
        }
        GroupFlag::Refused => {
            seen.refused = true;
            return Ok(());
        }
        // An alias of an alias is not followed.
        GroupFlag::Alias(_) => return Ok(()),
    }
    if out.get(start..).is_some_and(|chosen| chosen.contains(&id)) {
        return Ok(());
    }
    if out.len() - start >= GROUPS_PER_ARTICLE_MAX {
        return Err(Reject::TooManyGroups { groups_max: GROUPS_PER_ARTICLE_MAX });
    }
    out.push(id);
    Ok(())
}

/// Checks whether an article is taken for one of its groups, on a site without numbers. `is_carried`
/// returns whether one of them is sent to a peer.
pub(super) fn unnumbered(
    unknown: UnknownGroups,
    origin: &Origin,
    article: &Article<'_>,
    is_carried: impl FnOnce() -> bool,
) -> Result<(), Reject> {
    let newsgroups = article.header(Known::Newsgroups).unwrap_or_default();
    if !newsgroups::split(newsgroups).any(|name| origin.accepts(name)) {
        return Err(Reject::NotAccepted);
    }
    if unknown == UnknownGroups::Reject && !is_carried() {
        return Err(Reject::UnknownGroups);
    }
    Ok(())
}

/// Returns the group in which articles for `name` are filed, one alias followed, and its flag.
pub fn carried(table: &GroupTable, name: &[u8]) -> Option<(GroupId, GroupFlag)> {
    let id = table.id(name)?;
    match table.get(id)?.flag() {
        GroupFlag::Alias(real) => {
            let id = table.id(real.as_bytes())?;
            Some((id, table.get(id)?.flag()))
        }
        flag => Some((id, flag)),
    }
}

/// Returns the group of a control message, `control.KIND` or else `control`, if there is one.
fn control_group(table: &GroupTable, value: &[u8]) -> Option<GroupId> {
    let kind = control::verb(value);
    let mut name = Vec::with_capacity(CONTROL.len() + 1 + CONTROL_KIND_BYTES_MAX);
    name.extend_from_slice(CONTROL);
    name.push(b'.');
    name.extend(kind.iter().take(CONTROL_KIND_BYTES_MAX).map(u8::to_ascii_lowercase));
    table.id(&name).or_else(|| table.id(CONTROL))
}
