//! The threads of a group, and the articles of one.

use super::{Found, Reading, asked};
use crate::server::web::Shared;
use crate::server::web::visitor::Visitor;
use crate::source::Part;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use newspages::threads::{Row, Thread, threads};
use newspages::urls;
use newspages::view::{self, GroupPage, ThreadPage, Turning};
use std::sync::Arc;

/// Articles of one page of a group.
const ARTICLES_PER_PAGE: usize = 100;
/// Articles before and after one, by number, among which its thread is looked for.
const BEFORE_MAX: u64 = 1_000;
const AFTER_MAX: u64 = 2_000;
/// Articles of a thread that are shown.
const THREAD_MAX: usize = 500;

pub(super) async fn group(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    let place = urls::group(&name);
    let reading = Reading::begin(&shared, &visitor, &place)?;
    let (group, marks) = reading.group(&name).await?;
    let before = asked(query.as_deref(), "before").parse().unwrap_or(u64::MAX);
    let rows = reading.rows_before(&group, &marks, before, ARTICLES_PER_PAGE).await?;
    let lowest = rows.first().map_or(0, |row| row.number);
    let to = |before: u64| format!("{place}?before={before}");
    let turning = Turning {
        newer: (before <= marks.high).then(|| {
            let above = before.saturating_add(ARTICLES_PER_PAGE as u64);
            if above > marks.high { place.clone() } else { to(above) }
        }),
        older: (lowest > marks.low).then(|| to(lowest)),
    };
    let description = reading.description(&name).await?;
    let write = reading.may_post(&name).then(|| format!("{place}/write"));
    let page = GroupPage {
        name: &name,
        description: &description,
        rows: &rows,
        threads: &threads(&rows),
        turning: &turning,
        write: write.as_deref(),
    };
    let feed = format!("{place}/atom");
    Ok(reading.page_with(&name, Some(&feed), StatusCode::OK, &view::group(&page)))
}

pub(super) async fn thread(
    State(shared): State<Arc<Shared>>,
    Path((name, id)): Path<(String, String)>,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = Reading::begin(&shared, &visitor, &urls::thread(&name, &id))?;
    let (rows, thread) = reading.thread_of(&name, &id).await?;
    let page = ThreadPage { group: &name, rows: &rows, thread: &thread };
    let title = thread.title(&rows);
    let feed = thread.first(&rows).map(|row| format!("{}/atom", urls::thread(&name, &row.message_id)));
    Ok(reading.page_with(title, feed.as_deref(), StatusCode::OK, &view::thread(&page)))
}

impl Reading<'_> {
    /// The thread of an article in a group, and the rows around it.
    pub(super) async fn thread_of(&self, name: &str, id: &str) -> Result<(Vec<Row>, Thread), Response> {
        let (group, marks) = self.group(name).await?;
        let found = self.article(id, Part::Head).await?;
        let Some(number) = number_in(&found, name) else { return Err(self.no_article()) };
        let low = number.saturating_sub(BEFORE_MAX).max(marks.low);
        let rows = self.rows(&group, low..=number.saturating_add(AFTER_MAX).min(marks.high)).await?;
        let is_it = |at: usize| rows.get(at).is_some_and(|row| row.number == number);
        let mut all = threads(&rows).into_iter();
        let Some(mut thread) = all.find(|thread| thread.rows().any(is_it)) else {
            return Err(self.no_article());
        };
        thread.nodes.truncate(THREAD_MAX);
        Ok((rows, thread))
    }
}

/// The number of an article in a group.
fn number_in(found: &Found, name: &str) -> Option<u64> {
    let mut places = netnews::article::xref_places(found.bytes.head());
    let (_, number) = places.find(|(group, _)| *group == name.as_bytes())?;
    netnews::decimal::parse_decimal(number)
}
