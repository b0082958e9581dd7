//! Groups and threads for programs: Atom, and threads as mbox.

use super::{FoundArticle, ReadableNews, Reading, failed};
use crate::server::web::pieces::{self, PieceSender};
use crate::server::web::visitor::Visitor;
use crate::server::web::{Shared, answers, hosts};
use crate::source::Part;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_DISPOSITION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use netnews::mbox;
use newspages::content::{Block, Content};
use newspages::feed::{Entry, Feed, SUMMARY_BYTES, atom};
use newspages::threads::Row;
use newspages::{names, urls};
use std::io;
use std::sync::Arc;
use tracing::debug;

/// Articles of a feed.
const ENTRIES_MAX: usize = 25;
/// Bytes of a thread's mbox, after which no further article is put in.
const MBOX_BYTES_MAX: usize = 32 << 20;
/// Copies of an article while it becomes a mail: as it is stored, as text, and as mail.
const MAIL_COPIES: usize = 3;
/// Bytes of a mail besides its article.
const MAIL_BYTES_BASE: usize = 256;
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
    let text = reading.rows_before(&group, &marks, u64::MAX, ENTRIES_MAX).await?;
    let text_bytes = text.bytes();
    let work = move || text.last(ENTRIES_MAX).into_iter().rev().collect();
    let rows = reading.render(text_bytes, work).await?;
    reading.feed(&headers, name, page, rows).await
}

pub(super) async fn thread(
    State(shared): State<Arc<Shared>>,
    Path((name, id)): Path<(String, String)>,
    headers: HeaderMap,
    visitor: Visitor,
) -> Result<Response, Response> {
    let page = urls::thread(&name, &id);
    let reading = Reading::begin(&shared, &visitor, &page)?;
    let (title, mut rows) = reading.articles_of_thread(&name, &id).await?;
    rows.sort_by_key(|row| std::cmp::Reverse(row.number));
    rows.truncate(ENTRIES_MAX);
    reading.feed(&headers, title, page, rows).await
}

pub(super) async fn mbox(
    State(shared): State<Arc<Shared>>,
    Path((name, id)): Path<(String, String)>,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = Reading::begin(&shared, &visitor, &urls::thread(&name, &id))?;
    let (title, rows) = reading.articles_of_thread(&name, &id).await?;
    let articles = rows.into_iter().map(|row| (row.message_id, row.date)).collect();
    let news = reading.news.clone();
    let body = pieces::body(|pieces| mails(news, articles, pieces));
    let mut answer = answers::of_type(StatusCode::OK, "application/mbox", body);
    let name = format!("{}.mbox", names::safe(&title, "thread"));
    if let Ok(disposition) = HeaderValue::try_from(names::disposition(&name)) {
        answer.headers_mut().insert(CONTENT_DISPOSITION, disposition);
    }
    Ok(reading.marked(answer))
}

/// Sends articles as mails, each when there is room for it.
async fn mails(news: ReadableNews, articles: Vec<(String, i64)>, pieces: PieceSender) -> io::Result<()> {
    let (mut left, mut text) = (MBOX_BYTES_MAX, Vec::new());
    for (id, date) in articles {
        let room = pieces.room().await?;
        let first = MAIL_COPIES.saturating_mul(news.article_bytes_max).min(news.memory.first_bytes_max());
        let memory = news.memory.wait(first).await;
        let found = match news.find_within(memory, &id, Part::Article).await {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            Err(error) => {
                debug!(?error, "a thread is not sent to its end");
                return Err(io::ErrorKind::Other.into());
            }
        };
        let FoundArticle { bytes, mut memory } = found;
        let wire = bytes.article().strip_suffix(b".\r\n").unwrap_or(bytes.article());
        let needed = MAIL_COPIES * wire.len() + MAIL_BYTES_BASE;
        if needed > memory.bytes() {
            // Given back before more is waited for, so that no two downloads wait for each other.
            drop(memory);
            memory = news.memory.wait(needed).await;
        }
        let mut mail = Vec::with_capacity(wire.len() + MAIL_BYTES_BASE);
        text.clear();
        netnews::nntp::wire::to_text(wire, &mut text);
        mbox::append_mail(SENDER, date, &text, &mut mail);
        text = Vec::new();
        let size = mail.len();
        drop(bytes);
        room.send(memory.hold(mail));
        if size > left {
            break;
        }
        left -= size;
    }
    Ok(())
}

impl Reading<'_> {
    /// The title of a thread, and its articles that are here.
    async fn articles_of_thread(&self, name: &str, id: &str) -> Result<(String, Vec<Row>), Response> {
        let text = self.thread_of(name, id).await?;
        let text_bytes = text.rows.bytes();
        let work = move || {
            let (rows, thread) = text.thread()?;
            let own = thread.rows().filter_map(|at| rows.get(at)).cloned();
            Some((thread.title(&rows).to_owned(), own.collect()))
        };
        self.render(text_bytes, work).await?.ok_or_else(|| self.no_article())
    }

    async fn feed(
        &self,
        headers: &HeaderMap,
        title: String,
        page: String,
        rows: Vec<Row>,
    ) -> Result<Response, Response> {
        let mut texts = Vec::new();
        for row in &rows {
            let article = self.news.find(&row.message_id, Part::Article).await.map_err(failed)?;
            texts.push(match article {
                Some(found) => self.render_article(found, (2, 0), summary).await?.0,
                None => String::new(),
            });
        }
        let config = self.visitor.client().config();
        let host = hosts::asked_for(headers, &config);
        let scheme = if self.visitor.client().tls().is_some() { "https" } else { "http" };
        let (site, path) = (format!("{scheme}://{host}"), format!("{page}/atom"));
        let work = move || {
            let entry = |(row, summary)| Entry { row, summary };
            let entries: Vec<Entry<'_>> =
                rows.iter().zip(texts.iter().map(String::as_str)).map(entry).collect();
            atom(&Feed { title: &title, site: &site, page: &page, path: &path }, &entries)
        };
        let xml = self.render(ENTRIES_MAX * SUMMARY_BYTES, work).await?;
        Ok(self.marked(answers::of_type(StatusCode::OK, "application/atom+xml; charset=utf-8", xml)))
    }
}

/// The beginning of what an article says itself.
fn summary(wire: &[u8]) -> String {
    let content = Content::of(wire, SUMMARY_BYTES);
    let own = content.blocks.iter().filter_map(|block| match block {
        Block::Text(lines) => Some(lines.join("\n")),
        _ => None,
    });
    own.collect::<Vec<_>>().join("\n").trim().to_owned()
}
