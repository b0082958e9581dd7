//! Groups, threads and the results of a search as mbox, plain or compressed.
//!
//! A mailbox is made article by article, each when the client has taken the one before, so that its size does
//! not matter: a download that is not read holds two articles at most.

use super::dates::{CalendarSpan, NoDate, TimeSpan, TimedNumbers, dated, time_of};
use super::threads::{THREAD_MAX, ThreadAround};
use super::{FoundArticle, Group, NewsPages, NotReadable, ReadAttempt, ReadableNews, asked, failed};
use crate::memory::MemoryReservation;
use crate::pieces::{self, PieceSender};
use crate::visitor::Visitor;
use crate::{WebState, answers};
use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, State};
use axum::http::header::CONTENT_DISPOSITION;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use memchr::memmem;
use netnews::article::content_of;
use netnews::overview_row::{self, index};
use netnews::{decimal, mbox};
use newspages::threads::ThreadRow;
use newspages::{names, urls};
use std::io::{self, Write};
use std::sync::Arc;
use tracing::debug;
use upstreams::{ArticlePart, NewsSource};

/// Maximum bytes of a thread's mbox, unless it has a single article.
const THREAD_BYTES_MAX: usize = 32 << 20;
/// Copies of an article during conversion to a mail: as stored and as text, then as text and as mail.
const MAIL_COPIES: usize = 2;
/// Bytes of a mail in addition to its article.
const MAIL_BYTES_BASE: usize = 256;
/// Bytes of overview rows that are read at once.
const ROW_BYTES_MAX: usize = 16 << 10;
/// Memory of a compressor, in bytes: its window, hash chains and output.
const COMPRESSOR_BYTES: usize = 300 << 10;
/// Compressed bytes that are sent at once.
const PIECE_BYTES: usize = 32 << 10;
/// Header with the number of articles left out of a thread's mbox.
const LEFT_OUT: HeaderName = HeaderName::from_static("x-articles-left-out");
/// The sender in the line that begins each mail.
const SENDER: &str = "newsreel";

/// Returns a thread.
pub(super) async fn thread(
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
    let body = pieces::body(|pieces| async move {
        let mut mailbox = MailboxSender { news, pieces, compressor: None, sent_bytes: 0 };
        for article in articles {
            let bytes_left = THREAD_BYTES_MAX.saturating_sub(mailbox.sent_bytes);
            if !mailbox.add(&article, bytes_left).await? {
                break;
            }
        }
        mailbox.finish().await
    });
    let mut answer = reading.mailbox(&title, MailboxForm::Plain, body);
    if left_out > 0 {
        answer.headers_mut().insert(LEFT_OUT, left_out.into());
    }
    Ok(answer)
}

/// Returns a group, or what was written in it in a time, compressed.
pub(super) async fn group(
    State(shared): State<Arc<WebState>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, &urls::group(&name))?;
    let (group, marks) = reading.group(&name).await?;
    let begin = |field: &'static str| match CalendarSpan::asked(&asked(query.as_deref(), field)) {
        Ok(span) => Ok(span.and_then(CalendarSpan::begin)),
        Err(NoDate) => Err(field),
    };
    let wrong =
        |field| reading.problem(StatusCode::BAD_REQUEST, &format!("“{field}” is no year, month or day."));
    let span = TimeSpan { begin: begin("after").map_err(wrong)?, end: begin("before").map_err(wrong)? };
    let numbers = TimedNumbers::find(&reading.news.source, &group, &marks, span).await.map_err(failed)?;
    let news = reading.news.clone();
    let compressor = Some(MailboxCompressor::new(&shared, &reading).await?);
    let body = pieces::body(|pieces| async move {
        let mut mailbox = MailboxSender { news, pieces, compressor, sent_bytes: 0 };
        mailbox.add_numbers(&group, &numbers).await?;
        mailbox.finish().await
    });
    Ok(reading.mailbox(&name, MailboxForm::Gzip, body))
}

/// Returns the results of a search, compressed.
pub(super) async fn found(
    State(shared): State<Arc<WebState>>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    use newssearch::index::ANSWERS_MAX;
    let reading = NewsPages::begin(&shared, &visitor, urls::SEARCH)?;
    let text = asked(query.as_deref(), "q");
    let parsed = newssearch::query::Query::parse(&text);
    let parsed = parsed.map_err(|error| reading.problem(StatusCode::BAD_REQUEST, &error.to_string()))?;
    let ids = reading.hits(&parsed, 0, ANSWERS_MAX).await?;
    let ids_bytes = ids.iter().map(|id| size_of::<String>() + id.len()).sum();
    let ids_memory = reading.news.memory.take(ids_bytes).await.map_err(failed)?;
    let news = reading.news.clone();
    let compressor = Some(MailboxCompressor::new(&shared, &reading).await?);
    let body = pieces::body(|pieces| async move {
        let mut mailbox = MailboxSender { news, pieces, compressor, sent_bytes: 0 };
        for message_id in ids {
            mailbox.add(&MailRow { message_id, date: None, bytes: 0 }, usize::MAX).await?;
        }
        drop(ids_memory);
        mailbox.finish().await
    });
    Ok(reading.mailbox("search", MailboxForm::Gzip, body))
}

/// Form of a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MailboxForm {
    Plain,
    Gzip,
}

/// An article to be converted to a mail.
struct MailRow {
    message_id: String,
    /// Time in Unix seconds; `None` if the article has to be asked.
    date: Option<i64>,
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
        before == 0 || total <= THREAD_BYTES_MAX
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

/// Compresses mails, on the threads of pages.
struct MailboxCompressor {
    coder: GzEncoder<Vec<u8>>,
    shared: Arc<WebState>,
    _memory: MemoryReservation,
}

impl MailboxCompressor {
    async fn new(shared: &Arc<WebState>, reading: &NewsPages<'_>) -> Result<Self, Response> {
        let memory = reading.news.memory.take(COMPRESSOR_BYTES).await.map_err(failed)?;
        let coder = GzEncoder::new(Vec::new(), Compression::fast());
        Ok(Self { coder, shared: shared.clone(), _memory: memory })
    }

    /// Adds an article as a mail; returns what has been compressed, if that is enough to be sent, and the
    /// bytes of the mail.
    async fn add(mut self, found: FoundArticle, date: i64) -> io::Result<(Self, Option<Bytes>, usize)> {
        let shared = self.shared.clone();
        let work = move || {
            let (mail, memory) = mail_of(found, date);
            self.coder.write_all(&mail)?;
            let is_enough = self.coder.get_ref().len() >= PIECE_BYTES;
            let piece = is_enough.then(|| memory.hold(std::mem::take(self.coder.get_mut())));
            Ok((self, piece, mail.len()))
        };
        shared.renderers.work_for_download(work).await?
    }
}

/// Sends articles as mails, each when there is room for it.
struct MailboxSender {
    news: ReadableNews,
    pieces: PieceSender,
    compressor: Option<MailboxCompressor>,
    /// Bytes of the mails so far, before compression.
    sent_bytes: usize,
}

impl MailboxSender {
    /// Adds the articles with these numbers.
    async fn add_numbers(&mut self, group: &Group, numbers: &TimedNumbers) -> io::Result<()> {
        let (mut from, to) = numbers.outer.clone().into_inner();
        let mut rows = Vec::new();
        while from <= to {
            rows.clear();
            let source = &self.news.source;
            let next =
                source.over(group, from..=to, ROW_BYTES_MAX, &mut rows).await.map_err(io::Error::other)?;
            for row in rows.split_inclusive(|b| *b == b'\n') {
                let Some((number, time)) = dated(&self.news.source, row) else { continue };
                if numbers.has(number, time)
                    && let Some(row) = mail_row(row, time)
                {
                    self.add(&row, usize::MAX).await?;
                }
            }
            match next.filter(|next| *next > from) {
                Some(next) => from = next,
                None => break,
            }
        }
        Ok(())
    }

    /// Adds an article, if it is still here; returns false if its mail is longer than `bytes_max` and not the
    /// first.
    async fn add(&mut self, article: &MailRow, bytes_max: usize) -> io::Result<bool> {
        // The client wants more before another article is read.
        self.pieces.room().await?;
        let found = match find_for_mail(&self.news, article).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(true),
            Err(error) => {
                debug!(?error, "a mailbox is not sent to its end");
                return Err(io::ErrorKind::Other.into());
            }
        };
        let own_date = || {
            let written = content_of(found.head(), b"Date").unwrap_or_default();
            time_of(&self.news.source, article.message_id.as_bytes(), written)
        };
        let date = article.date.or_else(own_date).unwrap_or(0);
        match self.compressor.take() {
            None => {
                let (mail, memory) = mail_of(found, date);
                // Rows may have wrong sizes.
                if self.sent_bytes > 0 && mail.len() > bytes_max {
                    return Ok(false);
                }
                self.sent_bytes += mail.len();
                self.pieces.room().await?.send(memory.hold(mail));
            }
            Some(compressor) => {
                let (compressor, piece, bytes) = compressor.add(found, date).await?;
                self.compressor = Some(compressor);
                self.sent_bytes += bytes;
                if let Some(piece) = piece {
                    self.pieces.room().await?.send(piece);
                }
            }
        }
        Ok(true)
    }

    /// Sends the rest.
    async fn finish(self) -> io::Result<()> {
        if let Some(compressor) = self.compressor {
            let rest = compressor.coder.finish()?;
            self.pieces.room().await?.send(Bytes::from(rest));
        }
        Ok(())
    }
}

/// Reads the overview row of an article of this time.
fn mail_row(row: &[u8], time: Option<i64>) -> Option<MailRow> {
    let field = |at| overview_row::field(row, at);
    Some(MailRow {
        message_id: std::str::from_utf8(field(index::MESSAGE_ID)?).ok()?.to_owned(),
        date: time,
        bytes: field(index::BYTES)
            .and_then(decimal::parse_decimal)
            .and_then(|n| n.try_into().ok())
            .unwrap_or(0),
    })
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
    /// Returns a mailbox of this name as an answer.
    fn mailbox(&self, name: &str, form: MailboxForm, body: Body) -> Response {
        let (media_type, suffix) = match form {
            MailboxForm::Plain => ("application/mbox", "mbox"),
            MailboxForm::Gzip => ("application/gzip", "mbox.gz"),
        };
        let mut answer = answers::of_type(StatusCode::OK, media_type, body);
        let name = format!("{}.{suffix}", names::safe(name, "articles"));
        if let Ok(disposition) = HeaderValue::try_from(names::disposition(&name)) {
            answer.headers_mut().insert(CONTENT_DISPOSITION, disposition);
        }
        self.marked(answer)
    }
}
