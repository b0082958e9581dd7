//! `filter review`.

use super::listing;
use super::locate::Where;
use super::screen::Failure;
use super::table::Columns;
use crate::base::units::about_span;
use crate::operations::request::{Reply, Request, ReviewRow};

pub(super) fn review(at: &Where, request: &Request, json: bool) -> Result<(), Failure> {
    let row = |reply| match reply {
        Reply::Review(row) => Some(row),
        _ => None,
    };
    listing::show(at, request, json, row, text)
}

fn text(rows: &[ReviewRow], now: u64) -> String {
    if rows.is_empty() {
        return "filters have found nothing".to_owned();
    }
    Columns::of(rows)
        .left("Message-ID", |row| row.message_id.clone())
        .right("ago", |row| about_span(now.saturating_sub(row.at)))
        .left("filter", |row| row.filter.clone())
        .left("article", |row| row.finding.clone())
        .left("release", |row| row.release.clone())
        .left("reason", |row| row.reason.clone())
        .left("groups", |row| row.groups.clone())
        .left("subject", |row| row.subject.clone())
        .text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_listed_with_filter_and_reason() {
        let row = ReviewRow {
            at: 1_000,
            filter: "spam".into(),
            finding: "hidden".into(),
            filed: true,
            message_id: "<1@x.example>".into(),
            groups: "a.b,a.c".into(),
            subject: "Buy".into(),
            reason: "too many".into(),
            release: "now".into(),
        };
        assert_eq!(
            text(&[row], 8_200),
            "Message-ID     ago  filter  article  release  reason    groups   subject\n\
             <1@x.example>  2 h  spam    hidden   now      too many  a.b,a.c  Buy"
        );
        assert_eq!(text(&[], 0), "filters have found nothing");
    }
}
