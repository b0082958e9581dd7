//! `cache posts list`.

use super::listing;
use super::locate::Where;
use super::screen::Failure;
use super::table::Columns;
use crate::base::units::about_span;
use crate::operations::request::{PostRow, Reply, Request};

pub(super) fn list(at: &Where, request: &Request, json: bool) -> Result<(), Failure> {
    let row = |reply| match reply {
        Reply::Post(row) => Some(row),
        _ => None,
    };
    listing::show(at, request, json, row, text)
}

fn text(rows: &[PostRow], now: u64) -> String {
    if rows.is_empty() {
        return "no posts wait for an upstream".to_owned();
    }
    Columns::of(rows)
        .left("Message-ID", |row| row.message_id.clone())
        .left("upstream", |row| row.upstream.clone())
        .right("ago", |row| about_span(now.saturating_sub(row.queued)))
        .left("state", |row| if row.is_refused { "refused" } else { "waits" }.to_owned())
        .left("groups", |row| row.groups.clone())
        .left("subject", |row| row.subject.clone())
        .left("why", |row| row.problem.clone())
        .text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posts_for_upstreams_are_listed() {
        let row = PostRow {
            message_id: "<1@x.example>".into(),
            upstream: "isp".into(),
            queued: 1_000,
            is_refused: true,
            problem: "441 no".into(),
            groups: "comp.a".into(),
            subject: "Hi".into(),
            ..PostRow::default()
        };
        assert_eq!(
            text(&[row], 8_200),
            "Message-ID     upstream  ago  state    groups  subject  why\n\
             <1@x.example>  isp       2 h  refused  comp.a  Hi       441 no"
        );
        assert_eq!(text(&[], 0), "no posts wait for an upstream");
    }
}
