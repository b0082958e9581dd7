//! `moderation list`.

use super::listing;
use super::locate::Where;
use super::screen::Failure;
use super::table::Columns;
use crate::base::units::about_span;
use crate::operations::request::{HeldRow, Reply, Request};

pub(super) fn list(at: &Where, request: &Request, json: bool) -> Result<(), Failure> {
    let row = |reply| match reply {
        Reply::Held(row) => Some(row),
        _ => None,
    };
    listing::show(at, request, json, row, text)
}

fn text(rows: &[HeldRow], now: u64) -> String {
    if rows.is_empty() {
        return "no posts wait here for a moderator".to_owned();
    }
    Columns::of(rows)
        .left("Message-ID", |row| row.message_id.clone())
        .right("ago", |row| about_span(now.saturating_sub(row.queued)))
        .left("group", |row| row.group.clone())
        .left("from", |row| row.from.clone())
        .left("subject", |row| row.subject.clone())
        .text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posts_that_wait_are_listed() {
        let row = HeldRow {
            message_id: "<1@x.example>".into(),
            group: "local.mod".into(),
            queued: 1_000,
            from: "a@b.example".into(),
            subject: "Please".into(),
            ..HeldRow::default()
        };
        assert_eq!(
            text(&[row], 8_200),
            "Message-ID     ago  group      from         subject\n\
             <1@x.example>  2 h  local.mod  a@b.example  Please"
        );
        assert_eq!(text(&[], 0), "no posts wait here for a moderator");
    }
}
