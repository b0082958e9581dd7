//! The groups an article is filed in.
//!
//! Of the Newsgroups header those that are carried and that the sender may send to, each once, aliases
//! followed. Control messages go to the group of their kind instead, or nowhere (`docs/decisions/0027`).
//! Called by `ingest`. Sources: RFC 5537 sections 3.6 and 3.7, RFC 6048 section 3.1, INN's handling of
//! `control` and `junk`.

use super::{Origin, Reject};
use netnews::{Article, Known, control, newsgroups};
use site_config::UnknownGroups;
use spool::{Flag, GroupId, GroupTable};

/// Where articles without a carried group go, if `unknown_groups = "junk"`, and those of groups with flag
/// `j`.
const JUNK: &[u8] = b"junk";
/// Where control messages go that have no `control.KIND`.
const CONTROL: &[u8] = b"control";
/// The longest kind of control message looked at, in bytes.
const CONTROL_KIND_BYTES_MAX: usize = 32;
/// Most groups one article is filed in.
pub(super) const GROUPS_PER_ARTICLE_MAX: usize = 250;

/// What a walk through Newsgroups found besides groups to file in.
#[derive(Default)]
struct Seen {
    not_accepted: bool,
    refused: bool,
    junk: bool,
}

/// Appends the groups that `article` is filed in: at least one, but for a control message where no group
/// takes it.
pub(super) fn groups(
    table: &GroupTable,
    unknown: UnknownGroups,
    origin: &Origin,
    article: &Article<'_>,
    out: &mut Vec<GroupId>,
) -> Result<(), Reject> {
    let start = out.len();
    let mut seen = Seen::default();
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
    seen: &mut Seen,
    out: &mut Vec<GroupId>,
) -> Result<(), Reject> {
    if !origin.accepts(name) {
        seen.not_accepted = true;
        return Ok(());
    }
    let Some((id, flag)) = carried(table, name) else { return Ok(()) };
    match flag {
        Flag::Open | Flag::Closed => {}
        Flag::Moderated if article.count(Known::Approved) == 0 => return Err(Reject::Unapproved),
        Flag::Moderated => {}
        Flag::Junk => {
            seen.junk = true;
            return Ok(());
        }
        Flag::Refused => {
            seen.refused = true;
            return Ok(());
        }
        // An alias of an alias leads nowhere.
        Flag::Alias(_) => return Ok(()),
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

/// On a site without numbers, whether an article is taken for one of its groups. `is_carried`: a peer is sent
/// one of them.
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

/// The group that articles for `name` are filed in, one alias followed, and its flag.
pub fn carried(table: &GroupTable, name: &[u8]) -> Option<(GroupId, Flag)> {
    let id = table.id(name)?;
    match table.get(id)?.flag() {
        Flag::Alias(real) => {
            let id = table.id(real.as_bytes())?;
            Some((id, table.get(id)?.flag()))
        }
        flag => Some((id, flag)),
    }
}

/// For a control message `control.KIND` or else `control`, if there is such a group.
fn control_group(table: &GroupTable, value: &[u8]) -> Option<GroupId> {
    let kind = control::verb(value);
    let mut name = Vec::with_capacity(CONTROL.len() + 1 + CONTROL_KIND_BYTES_MAX);
    name.extend_from_slice(CONTROL);
    name.push(b'.');
    name.extend(kind.iter().take(CONTROL_KIND_BYTES_MAX).map(u8::to_ascii_lowercase));
    table.id(&name).or_else(|| table.id(CONTROL))
}
