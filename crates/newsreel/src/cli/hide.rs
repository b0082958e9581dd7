//! `hide --list`.

use super::listing;
use super::locate::Where;
use super::screen::Failure;
use super::table::Columns;
use crate::base::units::about_span;
use crate::operations::request::{HiddenRow, Reply, Request};

pub(super) fn list(at: &Where, request: &Request, json: bool) -> Result<(), Failure> {
    let row = |reply| match reply {
        Reply::Hidden(row) => Some(row),
        _ => None,
    };
    listing::show(at, request, json, row, text)
}

fn text(rows: &[HiddenRow], now: u64) -> String {
    if rows.is_empty() {
        return "no articles are hidden".to_owned();
    }
    Columns::of(rows)
        .left("Message-ID", |row| row.message_id.clone())
        .left("hidden by", |row| row.by.clone())
        .right("for", |row| about_span(now.saturating_sub(row.since)))
        .left("reason", |row| row.reason.clone())
        .text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_articles_are_listed_with_who_and_why() {
        let row = |id: &str, by: &str, reason: &str| HiddenRow {
            message_id: id.into(),
            by: by.into(),
            since: 1_000,
            reason: reason.into(),
        };
        let rows = [row("<1@x.example>", "operator", ""), row("<22@x.example>", "nocem:bot", "spam")];
        assert_eq!(
            text(&rows, 8_200),
            "Message-ID      hidden by  for  reason\n\
             <1@x.example>   operator   2 h\n\
             <22@x.example>  nocem:bot  2 h  spam"
        );
        assert_eq!(text(&[], 0), "no articles are hidden");
    }
}
