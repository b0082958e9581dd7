//! Groups and threads for programs: Atom, and threads as mbox.

use super::threads::{THREAD_MAX, ThreadAround};
use super::{FoundArticle, NewsPages, NotReadable, ReadAttempt, ReadableNews, failed};
use crate::memory::{AnswerReservation, MemoryReservation, SMALL_BYTES_MAX};
use crate::pieces;
use crate::pieces::PieceSender;
use crate::visitor::Visitor;
use crate::{WebState, answers, hosts};
use axum::extract::{Path, State};
use axum::http::header::CONTENT_DISPOSITION;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use memchr::memmem;
use netnews::mbox;
use newspages::content::{ArticleContent, TextBlock};
use newspages::feed::{AtomFeed, FeedEntry, SUMMARY_BYTES, atom};
use newspages::threads::{self, ThreadRow};
use newspages::{names, urls};
use std::io;
use std::sync::Arc;
use tracing::debug;
use upstreams::ArticlePart;

/// Maximum number of articles of a feed.
const ENTRIES_MAX: usize = 25;
/// Maximum bytes of a thread's mbox, unless it has a single article.
const MBOX_BYTES_MAX: usize = 32 << 20;
/// Copies of an article during conversion to a mail: as stored and as text, then as text and as mail.
const MAIL_COPIES: usize = 2;
/// Bytes of a mail in addition to its article.
const MAIL_BYTES_BASE: usize = 256;
/// Header with the number of articles left out of a thread's mbox.
const LEFT_OUT: HeaderName = HeaderName::from_static("x-articles-left-out");
/// The sender in the line that begins each mail.
const SENDER: &str = "newsreel";

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
    let work = move || (text.last(ENTRIES_MAX).into_iter().rev().collect(), text.into_memory());
    let entries = reading.render(text_bytes, work).await?;
    reading.feed(&headers, name, page, entries).await
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
        let newest = rows.into_iter().take(ENTRIES_MAX).cloned().collect();
        Some((found.title().to_owned(), (newest, text.rows.into_memory())))
    };
    let found = reading.render(text_bytes, work).await?;
    let (title, entries) = found.ok_or_else(|| reading.no_article())?;
    reading.feed(&headers, title, page, entries).await
}

pub(super) async fn mbox(
    State(shared): State<Arc<WebState>>,
    Path((name, id)): Path<(String, String)>,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, &urls::thread(&name, &id))?;
    let text = reading.thread_of(&name, &id).await?;
    let text_bytes = text.rows.bytes();
    let work = move || text.thread().map(|found| (found.title().to_owned(), mail_rows(&found)));
    let found = reading.render(text_bytes, work).await?;
    let (title, (articles, left_out)) = found.ok_or_else(|| reading.no_article())?;
    let news = reading.news.clone();
    let body = pieces::body(|pieces| mails(news, articles, pieces));
    let mut answer = answers::of_type(StatusCode::OK, "application/mbox", body);
    let name = format!("{}.mbox", names::safe(&title, "thread"));
    if let Ok(disposition) = HeaderValue::try_from(names::disposition(&name)) {
        answer.headers_mut().insert(CONTENT_DISPOSITION, disposition);
    }
    if left_out > 0 {
        answer.headers_mut().insert(LEFT_OUT, left_out.into());
    }
    Ok(reading.marked(answer))
}

/// An article to be converted to a mail.
struct MailRow {
    message_id: String,
    date: i64,
    /// Size in its overview row.
    bytes: usize,
}

/// Returns the articles of a thread for its mbox, in reading order, and the number left out: those nearest to
/// the requested article are included, as far as they fit.
fn mail_rows(found: &ThreadAround) -> (Vec<MailRow>, usize) {
    let bytes_of = |row: &ThreadRow| usize::try_from(row.bytes).unwrap_or(usize::MAX);
    let row_of = |node: usize| found.thread.nodes.get(node)?.row.and_then(|at| found.rows.get(at));
    let mut total = 0_usize;
    let fits = |node: &usize| {
        let before = total;
        let mail = row_of(*node).map_or(0, |row| bytes_of(row).saturating_add(MAIL_BYTES_BASE));
        total = total.saturating_add(mail);
        before == 0 || total <= MBOX_BYTES_MAX
    };
    let nearest = found.thread.nearest(found.row, THREAD_MAX).into_iter().take_while(fits).collect();
    let (thread, left_out) = found.thread.only(nearest);
    let rows = thread.rows().filter_map(|at| found.rows.get(at));
    let mail = |row: &ThreadRow| MailRow {
        message_id: row.message_id.clone(),
        date: row.date,
        bytes: bytes_of(row),
    };
    (rows.map(mail).collect(), left_out)
}

/// Sends articles as mails, each when there is room for it.
async fn mails(news: ReadableNews, articles: Vec<MailRow>, pieces: PieceSender) -> io::Result<()> {
    let mut sent = 0;
    for article in articles {
        let room = pieces.room().await?;
        let found = match find_for_mail(&news, &article).await {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            Err(error) => {
                debug!(?error, "a thread is not sent to its end");
                return Err(io::ErrorKind::Other.into());
            }
        };
        let (mail, memory) = mail_of(found, article.date);
        // Rows may have wrong sizes.
        if sent > 0 && sent + mail.len() > MBOX_BYTES_MAX {
            break;
        }
        sent += mail.len();
        room.send(memory.hold(mail));
    }
    Ok(())
}

/// Returns an article with memory for its conversion, waiting for room as long as necessary.
async fn find_for_mail(news: &ReadableNews, article: &MailRow) -> Result<Option<FoundArticle>, NotReadable> {
    let bytes = article.bytes.min(news.article_bytes_max).saturating_add(MAIL_BYTES_BASE);
    let mut needed = MAIL_COPIES.saturating_mul(bytes);
    loop {
        let memory = news.memory.wait(needed).await;
        match news.try_read(memory, &article.message_id, ArticlePart::Article, MAIL_COPIES).await? {
            ReadAttempt::Missing => return Ok(None),
            ReadAttempt::Done(found) => return Ok(Some(found)),
            ReadAttempt::TooLarge(bytes) => needed = bytes,
        }
    }
}

/// Converts an article to a mail. At most [`MAIL_COPIES`] are in memory: each line that gets a `>` has lost
/// its CR.
fn mail_of(found: FoundArticle, date: i64) -> (Vec<u8>, MemoryReservation) {
    let mut text = Vec::with_capacity(found.wire().len());
    netnews::nntp::wire::to_text(found.wire(), &mut text);
    let FoundArticle { bytes, memory } = found;
    drop(bytes);
    let quoted = memmem::find_iter(&text, b"From ").count();
    let mut mail = Vec::with_capacity(text.len() + quoted + MAIL_BYTES_BASE);
    mbox::append_mail(SENDER, date, &text, &mut mail);
    (mail, memory)
}

impl NewsPages<'_> {
    async fn feed(
        &self,
        headers: &HeaderMap,
        title: String,
        page: String,
        (rows, mut memory): (Vec<ThreadRow>, MemoryReservation),
    ) -> Result<Response, Response> {
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
        let host = hosts::asked_for(headers, config);
        let scheme = if self.visitor.client().tls().is_some() { "https" } else { "http" };
        let (site, path) = (format!("{scheme}://{host}"), format!("{page}/atom"));
        let work = move || {
            let entry = |(row, summary)| FeedEntry { row, summary };
            let entries: Vec<FeedEntry<'_>> =
                rows.iter().zip(texts.iter().map(String::as_str)).map(entry).collect();
            atom(&AtomFeed { title: &title, site: &site, page: &page, path: &path }, &entries)
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
