//! Groups and threads for programs: Atom, and threads as mbox.

use super::Reading;
use crate::server::web::visitor::Visitor;
use crate::server::web::{Shared, answers};
use crate::source::Part;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_DISPOSITION, HOST};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use netnews::mbox;
use netnews::nntp::wire;
use newspages::content::{Block, Content};
use newspages::feed::{Entry, Feed, SUMMARY_BYTES, atom};
use newspages::threads::Row;
use newspages::{names, urls};
use std::sync::Arc;

/// Articles of a feed.
const ENTRIES_MAX: usize = 25;
/// Bytes of a thread's mbox, after which no further article is put in.
const MBOX_BYTES_MAX: usize = 32 << 20;
/// The sender in the line that begins a mail.
const SENDER: &str = "newsreel";

pub(super) async fn group(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    visitor: Visitor,
) -> Result<Response, Response> {
    let page = urls::group(&name);
    let reading = Reading::begin(&shared, &visitor, &page)?;
    let (group, marks) = reading.group(&name).await?;
    let rows = reading.rows_before(&group, &marks, u64::MAX, ENTRIES_MAX).await?;
    let rows: Vec<&Row> = rows.iter().rev().collect();
    reading.feed(&headers, &name, &page, &rows).await
}

pub(super) async fn thread(
    State(shared): State<Arc<Shared>>,
    Path((name, id)): Path<(String, String)>,
    headers: HeaderMap,
    visitor: Visitor,
) -> Result<Response, Response> {
    let page = urls::thread(&name, &id);
    let reading = Reading::begin(&shared, &visitor, &page)?;
    let (rows, thread) = reading.thread_of(&name, &id).await?;
    let title = thread.title(&rows);
    let mut rows: Vec<&Row> = thread.rows().filter_map(|at| rows.get(at)).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.number));
    rows.truncate(ENTRIES_MAX);
    reading.feed(&headers, title, &page, &rows).await
}

pub(super) async fn mbox(
    State(shared): State<Arc<Shared>>,
    Path((name, id)): Path<(String, String)>,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = Reading::begin(&shared, &visitor, &urls::thread(&name, &id))?;
    let (rows, thread) = reading.thread_of(&name, &id).await?;
    let (mut out, mut text) = (Vec::new(), Vec::new());
    for row in thread.rows().filter_map(|at| rows.get(at)) {
        let Some(article) = reading.find(&row.message_id, Part::Article).await? else { continue };
        let whole = article.article();
        text.clear();
        wire::to_text(whole.strip_suffix(b".\r\n").unwrap_or(whole), &mut text);
        mbox::append_mail(SENDER, row.date, &text, &mut out);
        if out.len() > MBOX_BYTES_MAX {
            break;
        }
    }
    let mut answer = answers::of_type(StatusCode::OK, "application/mbox", out);
    let name = format!("{}.mbox", names::safe(thread.title(&rows), "thread"));
    if let Ok(disposition) = HeaderValue::try_from(names::disposition(&name)) {
        answer.headers_mut().insert(CONTENT_DISPOSITION, disposition);
    }
    Ok(reading.marked(answer))
}

impl Reading<'_> {
    async fn feed(
        &self,
        headers: &HeaderMap,
        title: &str,
        page: &str,
        rows: &[&Row],
    ) -> Result<Response, Response> {
        let mut texts = Vec::new();
        for row in rows {
            let article = self.find(&row.message_id, Part::Article).await?;
            texts.push(article.map_or_else(String::new, |article| summary(article.article())));
        }
        let entry = |(row, summary)| Entry { row, summary };
        let entries: Vec<Entry<'_>> =
            rows.iter().copied().zip(texts.iter().map(String::as_str)).map(entry).collect();
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let scheme = if self.visitor.client().tls().is_some() { "https" } else { "http" };
        let (site, path) = (format!("{scheme}://{host}"), format!("{page}/atom"));
        let xml = atom(&Feed { title, site: &site, page, path: &path }, &entries);
        Ok(self.marked(answers::of_type(StatusCode::OK, "application/atom+xml; charset=utf-8", xml)))
    }
}

/// The beginning of what an article says itself.
fn summary(wire: &[u8]) -> String {
    let content = Content::of(wire.strip_suffix(b".\r\n").unwrap_or(wire), SUMMARY_BYTES);
    let own = content.blocks.iter().filter_map(|block| match block {
        Block::Text(lines) => Some(lines.join("\n")),
        _ => None,
    });
    own.collect::<Vec<_>>().join("\n").trim().to_owned()
}
