//! The threads of a group, and the articles of one.

use super::rows::RowText;
use super::{FoundArticle, NewsPages, asked};
use crate::WebState;
use crate::memory::AnswerReservation;
use crate::visitor::Visitor;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use newspages::threads::{Thread, ThreadRow, threads};
use newspages::urls;
use newspages::view::{self, GroupPage, PageLinks, ThreadPage};
use std::sync::Arc;
use upstreams::ArticlePart;

/// Articles per page of a group.
const ARTICLES_PER_PAGE: usize = 100;
/// Numbers of articles before and after one, among which its thread is searched for.
const BEFORE_MAX: u64 = 1_000;
const AFTER_MAX: u64 = 2_000;
/// Maximum number of articles of a thread that are shown, or sent as mbox.
pub(super) const THREAD_MAX: usize = 500;

pub(super) async fn group(
    State(shared): State<Arc<WebState>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    let place = urls::group(&name);
    let reading = NewsPages::begin(&shared, &visitor, &place)?;
    let (group, marks) = reading.group(&name).await?;
    let before = asked(query.as_deref(), "before").parse().unwrap_or(u64::MAX);
    let text = reading.rows_before(&group, &marks, before, ARTICLES_PER_PAGE).await?;
    let bytes = text.bytes();
    let description = reading.description(&name).await?;
    let write = reading.may_post(&name).then(|| format!("{place}/write"));
    let (title, feed) = (name.clone(), format!("{place}/atom"));
    let (low, high) = (marks.low, marks.high);
    let work = move || {
        let rows = text.last(ARTICLES_PER_PAGE);
        let lowest = rows.first().map_or(0, |row| row.number);
        let to = |before: u64| format!("{place}?before={before}");
        let turning = PageLinks {
            newer: (before <= high).then(|| {
                let above = before.saturating_add(ARTICLES_PER_PAGE as u64);
                if above > high { place.clone() } else { to(above) }
            }),
            older: (lowest > low).then(|| to(lowest)),
        };
        let page = GroupPage {
            name: &name,
            description: &description,
            rows: &rows,
            threads: &threads(&rows),
            turning: &turning,
            write: write.as_deref(),
        };
        (view::group(&page), text.into_memory())
    };
    let (markup, memory) = reading.render(bytes, work).await?;
    let page = reading.page_with(&title, Some(&feed), StatusCode::OK, &markup);
    Ok(AnswerReservation::with(page, memory))
}

pub(super) async fn thread(
    State(shared): State<Arc<WebState>>,
    Path((name, id)): Path<(String, String)>,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, &urls::thread(&name, &id))?;
    let text = reading.thread_of(&name, &id).await?;
    let bytes = text.rows.bytes();
    let work = move || {
        let found = text.thread()?;
        let (rows, title) = (&found.rows, found.title());
        let (thread, left_out) = found.thread.only(found.thread.nearest(found.row, THREAD_MAX));
        let place = urls::thread(&name, &found.named()?.message_id);
        let markup =
            view::thread(&ThreadPage { group: &name, place: &place, title, rows, thread: &thread, left_out });
        Some((title.to_owned(), Some(format!("{place}/atom")), markup, text.rows.into_memory()))
    };
    let rendered = reading.render(bytes, work).await?;
    let (title, feed, markup, memory) = rendered.ok_or_else(|| reading.no_article())?;
    Ok(AnswerReservation::with(reading.page_with(&title, feed.as_deref(), StatusCode::OK, &markup), memory))
}

/// The rows around an article, among which its thread is searched for.
pub(super) struct ThreadText {
    pub rows: RowText,
    number: u64,
}

impl ThreadText {
    /// Returns the thread of the article. To be called on a rendering thread.
    pub fn thread(&self) -> Option<ThreadAround> {
        let rows = self.rows.all();
        let row = rows.iter().position(|row| row.number == self.number)?;
        let thread = threads(&rows).into_iter().find(|thread| thread.rows().any(|at| at == row))?;
        Some(ThreadAround { rows, thread, row })
    }
}

/// The part of a thread that is among the rows around an article.
pub(super) struct ThreadAround {
    pub rows: Vec<ThreadRow>,
    pub thread: Thread,
    /// Index of the article's row.
    pub row: usize,
}

impl ThreadAround {
    /// Returns the thread's title.
    pub fn title(&self) -> &str {
        self.thread.title(&self.rows)
    }

    fn named(&self) -> Option<&ThreadRow> {
        self.rows.get(self.row)
    }
}

impl NewsPages<'_> {
    /// Reads the rows around an article in a group.
    pub(super) async fn thread_of(&self, name: &str, id: &str) -> Result<ThreadText, Response> {
        let (group, marks) = self.group(name).await?;
        let found = self.article(id, ArticlePart::Head).await?;
        let Some(number) = number_in(&found, name) else { return Err(self.no_article()) };
        drop(found);
        let low = number.saturating_sub(BEFORE_MAX).max(marks.low);
        let high = number.saturating_add(AFTER_MAX).min(marks.high);
        let rows = self.rows_around(&group, low..=high, number).await?;
        Ok(ThreadText { rows, number })
    }
}

/// Returns the number of an article in a group.
fn number_in(found: &FoundArticle, name: &str) -> Option<u64> {
    let mut places = netnews::article::xref_places(found.head());
    let (_, number) = places.find(|(group, _)| *group == name.as_bytes())?;
    netnews::decimal::parse_decimal(number)
}
