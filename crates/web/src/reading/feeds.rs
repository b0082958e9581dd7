//! Groups and threads for programs, as Atom.

use super::{NewsPages, failed, site_url};
use crate::memory::{AnswerReservation, MemoryReservation, SMALL_BYTES_MAX};
use crate::visitor::Visitor;
use crate::{WebState, answers};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use newspages::content::{ArticleContent, TextBlock};
use newspages::feed::{AtomFeed, FeedEntry, SUMMARY_BYTES, atom};
use newspages::threads::{self, ThreadRow};
use newspages::urls;
use std::sync::Arc;
use upstreams::ArticlePart;

/// Maximum number of articles of a feed.
const ENTRIES_MAX: usize = 25;

/// Articles of a feed, the newest first, and the memory reserved for them.
struct FeedRows {
    rows: Vec<ThreadRow>,
    memory: MemoryReservation,
}

pub(super) async fn group(
    State(shared): State<Arc<WebState>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    visitor: Visitor,
) -> Result<Response, Response> {
    let page = urls::group(&name);
    let reading = NewsPages::begin(&shared, &visitor, &page)?;
    let (group, marks) = reading.group(&name).await?;
    let text = reading.rows_before(&group, &marks, u64::MAX, ENTRIES_MAX).await?;
    let text_bytes = text.bytes();
    let work = move || FeedRows {
        rows: text.last(ENTRIES_MAX).into_iter().rev().collect(),
        memory: text.into_memory(),
    };
    let newest = reading.render(text_bytes, work).await?;
    reading.feed(&headers, name, page, newest).await
}

pub(super) async fn thread(
    State(shared): State<Arc<WebState>>,
    Path((name, id)): Path<(String, String)>,
    headers: HeaderMap,
    visitor: Visitor,
) -> Result<Response, Response> {
    let page = urls::thread(&name, &id);
    let reading = NewsPages::begin(&shared, &visitor, &page)?;
    let text = reading.thread_of(&name, &id).await?;
    let text_bytes = text.rows.bytes();
    let work = move || {
        let found = text.thread()?;
        let mut rows: Vec<&ThreadRow> = found.thread.rows().filter_map(|at| found.rows.get(at)).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.number));
        let rows = rows.into_iter().take(ENTRIES_MAX).cloned().collect();
        Some((found.title().to_owned(), FeedRows { rows, memory: text.rows.into_memory() }))
    };
    let found = reading.render(text_bytes, work).await?;
    let (title, newest) = found.ok_or_else(|| reading.no_article())?;
    reading.feed(&headers, title, page, newest).await
}

impl NewsPages<'_> {
    async fn feed(
        &self,
        headers: &HeaderMap,
        title: String,
        page: String,
        newest: FeedRows,
    ) -> Result<Response, Response> {
        let FeedRows { rows, mut memory } = newest;
        // Leaves all memory to a large article.
        let rows_bytes = threads::bytes_of(&rows);
        memory.shrink(if rows_bytes > SMALL_BYTES_MAX { rows_bytes } else { 0 });
        let mut texts = Vec::new();
        for row in &rows {
            let article = self.news.find(&row.message_id, ArticlePart::Article).await.map_err(failed)?;
            texts.push(match article {
                Some(found) => self.render_article(found, 2, 0, summary).await?.0,
                None => String::new(),
            });
        }
        let config = self.visitor.client().config();
        let (site, path) = (site_url(self.visitor, headers), format!("{page}/atom"));
        let authority = config.site.path_identity.clone();
        let work = move || {
            let entry = |(row, summary)| FeedEntry { row, summary };
            let entries: Vec<FeedEntry<'_>> =
                rows.iter().zip(texts.iter().map(String::as_str)).map(entry).collect();
            let feed =
                AtomFeed { title: &title, site: &site, authority: &authority, page: &page, path: &path };
            atom(&feed, &entries)
        };
        let xml = self.render(ENTRIES_MAX * SUMMARY_BYTES, work).await?;
        let answer = answers::of_type(StatusCode::OK, "application/atom+xml; charset=utf-8", xml);
        Ok(AnswerReservation::with(self.marked(answer), memory))
    }
}

/// Returns the beginning of an article's own text.
fn summary(wire: &[u8]) -> String {
    let content = ArticleContent::of(wire, SUMMARY_BYTES);
    let own = content.blocks.iter().filter_map(|block| match block {
        TextBlock::Text(lines) => Some(lines.join("\n")),
        _ => None,
    });
    own.collect::<Vec<_>>().join("\n").trim().to_owned()
}
