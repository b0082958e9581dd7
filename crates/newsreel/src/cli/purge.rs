//! `purge`: removes all articles from groups.

use super::locate::SiteLocation;
use super::reach;
use super::screen::{CliError, say, say_json};
use super::typed::TypedOperation;
use operators::reply::PurgeRow;
use operators::withdraw::PurgeOperation;
use site_base::units::{counted, grouped};

impl TypedOperation for PurgeOperation {
    fn carry_out(self, at: &SiteLocation) -> Result<(), CliError> {
        let json = self.json;
        let (purged, ok) = reach::heard::<PurgeRow>(&at.load()?, self)?;
        if let Some(report) = purged.first() {
            if json { say_json(report)? } else { say(text(report))? }
        }
        if ok { Ok(()) } else { Err(CliError::Told) }
    }
}

fn text(report: &PurgeRow) -> String {
    let PurgeRow { dry_run, groups, articles, crossposts, numbers } = *report;
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
