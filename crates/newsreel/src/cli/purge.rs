//! `purge`: removes all articles from groups.

use super::locate::Where;
use super::reach;
use super::screen::{Failure, say, say_json};
use operators::request::{Purged, Request};
use site_base::units::{counted, grouped};

/// Carries out the request, and prints the result as text or JSON.
pub(super) fn purge(at: &Where, request: &Request, json: bool) -> Result<(), Failure> {
    let (purged, ok) = reach::heard::<Purged>(&at.load()?, request)?;
    if let Some(report) = purged.first() {
        if json { say_json(report)? } else { say(text(report))? }
    }
    if ok { Ok(()) } else { Err(Failure::Told) }
}

fn text(report: &Purged) -> String {
    let Purged { dry_run, groups, articles, crossposts, numbers } = *report;
    let verb = if dry_run { "would be purged" } else { "purged" };
    let mut text = format!(
        "{} {verb} from {}, with {}",
        counted(articles, "article"),
        counted(groups, "group"),
        counted(numbers, "article number")
    );
    match crossposts {
        0 => {}
        1 => text += "; 1 crossposted article stays in its other groups",
        n => text += &format!("; {} crossposted articles stay in their other groups", grouped(n)),
    }
    text
}
