//! `filter review`.

use super::locate::Where;
use super::reach;
use super::screen::{Failure, say, say_json};
use super::table::Columns;
use crate::base::clock::unix_secs;
use crate::base::units::about_span;
use crate::operations::request::{Reply, Request, ReviewRow};

pub(super) fn review(at: &Where, request: &Request, json: bool) -> Result<(), Failure> {
    let config = at.load()?;
    let mut rows = Vec::new();
    let ok = reach::ask(&config, request, &mut |reply| {
        if let Reply::Review(row) = reply {
            rows.push(row);
        }
    })?;
    if json {
        say_json(&rows)?;
    } else {
        say(text(&rows, unix_secs()))?;
    }
    if ok { Ok(()) } else { Err(Failure::Told) }
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
        };
        assert_eq!(
            text(&[row], 8_200),
            "Message-ID     ago  filter  article  reason    groups   subject\n\
             <1@x.example>  2 h  spam    hidden   too many  a.b,a.c  Buy"
        );
        assert_eq!(text(&[], 0), "filters have found nothing");
    }
}
