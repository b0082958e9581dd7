//! `search`, and `rebuild --search`.

use super::control::{ControlClient, ControlSocketState};
use super::listing::{self, ListedRow};
use super::locate::SiteLocation;
use super::reach;
use super::screen::{CliError, complain, problem, say};
use super::table::Columns;
use clap::Args;
use disk::{Disk, RealDisk};
use operators::reply::{FoundRow, FromReply, Reply};
use operators::search::{RebuildSearchOperation, SearchOperation};
use site_base::units::day_text;

/// Directory of the index below site.data.
const DIR_NAME: &str = operators::search::CURSOR;

/// Options of `search`.
#[derive(Debug, Args)]
pub(super) struct SearchOptions {
    /// Articles shown at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    limit: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The query
    #[arg(required = true, value_name = "WORD")]
    query: Vec<String>,
}

pub(super) fn search(at: &SiteLocation, options: &SearchOptions) -> Result<(), CliError> {
    let request = SearchOperation { query: options.query.join(" "), limit: usize::from(options.limit) };
    if !matches!(ControlClient::find(&at.load()?.site.data)?, ControlSocketState::Server(_)) {
        return Err(CliError::Problem("no server runs: only a running server has the index open".into()));
    }
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    let ok = reach::ask(&at.load()?, request, &mut |reply| match reply {
        Reply::Text(note) => notes.push(note),
        other => rows.extend(FoundRow::of(other)),
    })?;
    let printed = listing::print(&rows, options.json, ok);
    notes.iter().for_each(complain);
    printed
}

impl ListedRow for FoundRow {
    fn table(rows: &[Self], _now: u64) -> String {
        Columns::of(rows)
            .left("date", |row| day_text(row.date))
            .left("group", |row| row.groups.first().cloned().unwrap_or_default())
            .left("from", |row| newspages::header::author(&row.from).to_owned())
            .left("subject", |row| row.subject.clone())
            .left("Message-ID", |row| row.message_id.clone())
            .text_or("nothing was found")
    }
}

pub(super) fn rebuild(at: &SiteLocation) -> Result<(), CliError> {
    let config = at.load()?;
    match ControlClient::find(&config.site.data)? {
        ControlSocketState::Server(_) => reach::print(&config, RebuildSearchOperation {}),
        ControlSocketState::Silent => Err(CliError::Problem("the server does not answer: try again".into())),
        ControlSocketState::Nobody => {
            super::owner::refuse_root(&config).map_err(problem)?;
            let (disk, dir) = (RealDisk::new(), config.site.data.join(DIR_NAME));
            let removed = match disk.has_dir(&dir) {
                Ok(true) => newssearch::index::remove(&disk, &dir),
                other => other.map(drop),
            };
            removed
                .map_err(|error| CliError::Problem(format!("cannot remove {}: {error}", dir.display())))?;
            say("the search index was removed; the server builds it again when it is started")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn found_articles_are_listed() {
        let row = FoundRow {
            message_id: "<1@x.example>".into(),
            date: 86_400,
            from: "Jane <a@b.example>".into(),
            subject: "Cats".into(),
            groups: vec!["misc.test".into(), "other".into()],
        };
        assert_eq!(
            FoundRow::table(&[row], 0),
            "date        group      from  subject  Message-ID\n\
             1970-01-02  misc.test  Jane  Cats     <1@x.example>"
        );
        assert_eq!(FoundRow::table(&[], 0), "nothing was found");
    }
}
