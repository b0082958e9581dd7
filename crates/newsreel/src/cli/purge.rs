//! `purge`: takes all articles out of groups.

use super::locate::Where;
use super::reach;
use super::screen::{Failure, say, say_json};
use super::table::grouped;
use crate::operations::request::{Purged, Reply, Request};

/// Carries out the request, and prints what was done as text or as JSON.
pub(super) fn purge(at: &Where, request: &Request, json: bool) -> Result<(), Failure> {
    let config = at.load()?;
    let mut purged = None;
    let ok = reach::ask(&config, request, &mut |reply| {
        if let Reply::Purged(report) = reply {
            purged = Some(report);
        }
    })?;
    if let Some(report) = purged {
        if json { say_json(&report)? } else { say(text(&report))? }
    }
    if ok { Ok(()) } else { Err(Failure::Told) }
}

fn text(report: &Purged) -> String {
    let Purged { dry_run, groups, articles, crossposts, numbers } = *report;
    let verb = if dry_run { "would be purged" } else { "purged" };
    let mut text = format!(
        "{} articles {verb} from {} groups, with {} article numbers",
        grouped(articles),
        grouped(groups),
        grouped(numbers)
    );
    if crossposts > 0 {
        text += &format!("; {} crossposted articles stay in their other groups", grouped(crossposts));
    }
    text
}
