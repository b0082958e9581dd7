//! Search on the web: a form, and the found articles that the visitor may read.
//!
//! The index returns candidates; each is then looked up in the source of news, like a request of a
//! newsreader, and only existing and readable ones are shown.

use super::{NewsPages, asked, failed};
use crate::WebState;
use crate::visitor::Visitor;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use netnews::article::{content_of, xref_places};
use newspages::view::{self, PageLinks, SearchHit, SearchPage};
use newspages::{header, urls};
use newssearch::index::ANSWERS_MAX;
use newssearch::query::Query;
use operators::search::{SearchError, first_of_thread};
use std::sync::Arc;
use tokio::task::block_in_place;
use tracing::warn;
use upstreams::ArticlePart;

/// Articles per page.
const LINES_PER_PAGE: usize = 30;
/// Maximum number of candidates examined for one page; removed ones are skipped.
const LOOKED_AT_MAX: usize = 300;

pub(super) async fn search(
    State(shared): State<Arc<WebState>>,
    RawQuery(asked_for): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, urls::SEARCH)?;
    let text = asked(asked_for.as_deref(), "q");
    let from = asked(asked_for.as_deref(), "from").parse().unwrap_or(0).min(ANSWERS_MAX);
    let page = SearchPage {
        query: &text,
        lines: None,
        problem: None,
        is_complete: true,
        turning: &PageLinks::default(),
    };
    if text.trim().is_empty() {
        return Ok(reading.page("Search", &view::search(&page)));
    }
    let query = match Query::parse(&text) {
        Ok(query) => query,
        Err(error) => {
            let problem = error.to_string();
            let page = SearchPage { problem: Some(&problem), ..page };
            return Ok(reading.page_with("Search", None, StatusCode::BAD_REQUEST, &view::search(&page)));
        }
    };
    let (lines, next, is_complete) = reading.found(&query, from).await?;
    let to = |from: usize| format!("{}?q={}&from={from}", urls::SEARCH, urls::escape(&text));
    let turning = PageLinks { newer: (from > 0).then(|| to(0)), older: next.map(to) };
    let page = SearchPage { lines: Some(&lines), is_complete, turning: &turning, ..page };
    Ok(reading.page("Search", &view::search(&page)))
}

impl NewsPages<'_> {
    /// Returns the articles of a page, the start of the next one, and whether the index is complete.
    async fn found(
        &self,
        query: &Query,
        from: usize,
    ) -> Result<(Vec<SearchHit>, Option<usize>, bool), Response> {
        let Some(server) = self.shared.server.upgrade() else {
            return Err(self.problem(StatusCode::SERVICE_UNAVAILABLE, "The server is stopping."));
        };
        let spool = &server.site.spool;
        let groups = self.groups_of(query, &spool.groups());
        let thread = block_in_place(|| query.thread.as_deref().map(|id| first_of_thread(spool, id)));
        let (mut lines, mut at) = (Vec::new(), from);
        while at < from + LOOKED_AT_MAX {
            let found = block_in_place(|| {
                server.search.find(query, thread.as_ref(), groups.as_deref(), at, LINES_PER_PAGE)
            });
            let ids = found.map_err(|error| self.not_answered(&error))?;
            for id in &ids {
                if lines.len() == LINES_PER_PAGE {
                    return Ok((lines, Some(at), server.search.is_complete()));
                }
                at += 1;
                if let Some(found) = self.news.find(id, ArticlePart::Head).await.map_err(failed)? {
                    lines.push(self.line(id, found.head()));
                }
            }
            if ids.len() < LINES_PER_PAGE {
                return Ok((lines, None, server.search.is_complete()));
            }
        }
        Ok((lines, Some(at).filter(|at| *at < ANSWERS_MAX), server.search.is_complete()))
    }

    /// Returns the requested groups that may be read; `None` means all groups.
    fn groups_of(&self, query: &Query, groups: &[Arc<spool::Group>]) -> Option<Vec<String>> {
        let is_wanted = |name: &[u8]| self.news.view.shows(name) && query.is_for_group(name);
        let wanted = groups.iter().filter(|group| is_wanted(group.name.as_bytes()));
        let names: Vec<String> = wanted.map(|group| group.name.to_string()).collect();
        (names.len() < groups.len()).then_some(names)
    }

    fn line(&self, id: &str, head: &[u8]) -> SearchHit {
        let get = |name: &[u8]| content_of(head, name).unwrap_or_default();
        let groups = xref_places(head).filter(|(group, _)| self.news.view.shows(group));
        SearchHit {
            message_id: id.to_owned(),
            subject: header::text(get(b"Subject")),
            from: header::text(get(b"From")),
            date: netnews::date::parse(get(b"Date")),
            groups: groups.map(|(group, _)| String::from_utf8_lossy(group).into_owned()).collect(),
        }
    }

    fn not_answered(&self, error: &SearchError) -> Response {
        match error {
            SearchError::Off => self.problem(StatusCode::NOT_FOUND, "There is no search on this site."),
            SearchError::Busy => self.problem(
                StatusCode::SERVICE_UNAVAILABLE,
                "Too many searches at once: try again in a moment.",
            ),
            SearchError::Failed(error) => {
                warn!(%error, "a query has no answer");
                self.problem(StatusCode::INTERNAL_SERVER_ERROR, "This cannot be searched for now.")
            }
        }
    }
}
