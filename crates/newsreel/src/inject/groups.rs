//! Where a proto-article may go: into its groups, or to a moderator.
//!
//! All groups that are carried here and that the poster can see must be open to the poster; those unknown here are other
//! servers' matter, as long as one is known. Called by `inject`. Sources: RFC 5537 section 3.5 steps 4 and 7, RFC 5536
//! section 3.1.4 (reserved names), the flags of RFC 6048 section 3.1.

use super::poster::Poster;
use super::refusal::{Refusal, shown};
use crate::ingest::carried;
use netnews::control::{self, Control};
use netnews::{Article, Known, newsgroups};
use spool::{Flag, GroupTable};

/// Where a proto-article goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// Into the spool.
    File,
    /// To the moderator of this group.
    Moderator(String),
}

/// Judges the groups, and the rights to send control messages and approved articles.
pub(super) fn judge(article: &Article<'_>, poster: &Poster<'_>, table: &GroupTable) -> Result<Way, Refusal> {
    let is_control = article.count(Known::Control) > 0;
    let approved = article.count(Known::Approved) > 0;
    control_permitted(article, poster)?;
    let value = article.header(Known::Newsgroups).unwrap_or_default();
    let (mut any, mut moderated, mut approves) = (false, None, false);
    for name in newsgroups::split(value) {
        let Some((id, flag)) = carried(table, name) else {
            reserved(name)?;
            continue;
        };
        if !poster.access.read.matches(name) {
            continue;
        }
        any = true;
        if !poster.access.post.matches(name) {
            return Err(Refusal::NotYourGroup(shown(name)));
        }
        match flag {
            Flag::Open => {}
            Flag::Closed if poster.may_post_closed(name) => {}
            Flag::Closed => return Err(Refusal::Closed(shown(name))),
            Flag::Refused | Flag::Junk | Flag::Alias(_) => return Err(Refusal::NoArticles(shown(name))),
            Flag::Moderated if approved && poster.may_approve(name) => approves = true,
            Flag::Moderated if approved => return Err(Refusal::MayNotApprove(shown(name))),
            // A cancel is not submitted to anybody: its key decides.
            Flag::Moderated if is_control => {}
            Flag::Moderated if moderated.is_none() => {
                moderated = table.get(id).map(|group| group.name.to_string());
            }
            Flag::Moderated => {}
        }
    }
    if !any {
        return Err(Refusal::NoSuchGroup(shown(value)));
    }
    if approved && !approves && !poster.may_approve_anything() {
        return Err(Refusal::MayNotApprove(shown(value)));
    }
    Ok(moderated.map_or(Way::File, Way::Moderator))
}

/// Cancels are for everybody who may post; other control messages for who may approve in the group of their kind.
fn control_permitted(article: &Article<'_>, poster: &Poster<'_>) -> Result<(), Refusal> {
    let Some(value) = article.header(Known::Control) else { return Ok(()) };
    if let Ok(Control::Cancel(_)) = control::parse(value) {
        return Ok(());
    }
    let verb = control::verb(value).to_ascii_lowercase();
    let group = [b"control.", &verb[..]].concat();
    if poster.may_control(&group) {
        return Ok(());
    }
    Err(Refusal::ControlNotPermitted(shown(&verb)))
}

/// Names that no group may have: `poster`, those with a component `all` or `ctl`, and `to.*`, `control.*`, `example.*`.
fn reserved(name: &[u8]) -> Result<(), Refusal> {
    let mut components = name.split(|&b| b == b'.');
    let first = components.clone().next().unwrap_or_default();
    let taken = [&b"to"[..], b"control", b"example"].contains(&first)
        || [&b"poster"[..], b"junk"].contains(&name)
        || components.any(|component| matches!(component, b"all" | b"ctl"));
    if taken { Err(Refusal::ReservedName(shown(name))) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names() {
        for name in
            ["poster", "to", "to.peer", "control.cancel", "example.test", "a.all.b", "alt.ctl", "junk"]
        {
            assert_eq!(reserved(name.as_bytes()), Err(Refusal::ReservedName(name.into())));
        }
        for name in ["posters", "alt.all-about", "tools.to", "local.example", "junk.yard"] {
            assert_eq!(reserved(name.as_bytes()), Ok(()), "{name}");
        }
    }
}
