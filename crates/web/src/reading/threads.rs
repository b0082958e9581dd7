//! The threads of a group, and the articles of one.

use super::article::MARKUP_FACTOR;
use super::dates::{self, CalendarSpan, NoDate};
use super::rows::RowText;
use super::{FoundArticle, Group, NewsPages, ReadAttempt, asked, asked_number, failed};
use crate::WebState;
use crate::memory::{AnswerReservation, MemoryReservation};
use crate::visitor::Visitor;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, PreEscaped};
use netnews::{GroupMarks, MessageId};
use newspages::content::ArticleContent;
use newspages::threads::{self, Thread, ThreadNode, ThreadRow, threads};
use newspages::urls;
use newspages::view::{self, DateLinks, GroupPage, PageLinks, ThreadPage, ThreadPlace};
use site_base::clock::{unix_now, unix_secs};
use std::sync::Arc;
use upstreams::{ArticlePart, Either, ForeseenRequest, NewsSource, SourceLocator};

/// Articles per page of a group.
pub(super) const ARTICLES_PER_PAGE: usize = 100;
/// Articles before those of a page that are read for the beginnings of its threads.
pub(super) const CONTEXT_ARTICLES: usize = 400;
/// Numbers of articles before and after one, among which its thread is searched for.
const BEFORE_MAX: u64 = 1_000;
const AFTER_MAX: u64 = 2_000;
/// Maximum number of articles of a thread that are sent as mbox.
pub(super) const THREAD_MAX: usize = 500;
/// Maximum number of articles on a page of a thread, those that are missing included.
const NODES_PER_PAGE: usize = 100;
/// Maximum bytes of text on a page of a thread, unless it has a single article.
const PAGE_TEXT_BYTES_MAX: usize = 1 << 20;
/// Bytes of an article's text in its thread; the page of the article has the rest.
const THREADED_BYTES: usize = 32 << 10;
/// Size from which an article is only named in its thread, in bytes.
const WITHHELD_BYTES_MIN: usize = 256 << 10;
/// Copies of an article while it is rendered: as stored, decoded, and as text.
const ARTICLE_COPIES: usize = 3;
/// Bytes of memory for an article in addition to its size.
const ARTICLE_BYTES_BASE: usize = 16 << 10;
/// Bytes of markup for an article in addition to that of its text.
const ARTICLE_MARKUP_BYTES: usize = 4 << 10;

/// Returns the lowest number on a page whose rows these are, after those that came before of their threads.
pub(super) fn lowest_of_page(rows: &[ThreadRow]) -> u64 {
    rows.get(rows.len().saturating_sub(ARTICLES_PER_PAGE)).map_or(0, |row| row.number)
}

pub(super) async fn group(
    State(shared): State<Arc<WebState>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    let place = urls::group(&name);
    let reading = NewsPages::begin(&shared, &visitor, &place)?;
    let (group, marks) = reading.group(&name).await?;
    let (before, dates) = reading.page_begin(&group, &marks, query.as_deref()).await?;
    let text = reading.rows_before(&group, &marks, before, ARTICLES_PER_PAGE + CONTEXT_ARTICLES).await?;
    let bytes = text.bytes();
    let description = reading.description(&name).await?;
    let write = reading.may_post(&name).then(|| format!("{place}/write"));
    let (title, feed) = (name.clone(), format!("{place}/atom"));
    let status = if dates.is_wrong { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let (low, high) = (marks.low, marks.high);
    let seen = visitor.user().and_then(|user| shared.visits.seen(user, &name, high, unix_secs()));
    let work = move || {
        let rows = text.last(ARTICLES_PER_PAGE + CONTEXT_ARTICLES);
        let lowest = lowest_of_page(&rows);
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
            lowest,
            seen,
            dates: &dates,
            turning: &turning,
            write: write.as_deref(),
        };
        (view::group(&page), text.into_memory())
    };
    let (markup, memory) = reading.render(bytes, work).await?;
    let page = reading.page_with(&title, Some(&feed), status, &markup);
    Ok(AnswerReservation::with(page, memory))
}

pub(super) async fn thread(
    State(shared): State<Arc<WebState>>,
    Path((name, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, &urls::thread(&name, &id))?;
    let text = reading.thread_of(&name, &id).await?;
    let bytes = text.rows.bytes();
    let from = asked_number(query.as_deref(), "from").map_err(|error| reading.no_number(&error))?;
    let work = move || {
        let part = ThreadPart::of(&text.thread()?, from)?;
        Some((part, text.rows.into_memory()))
    };
    let (part, mut memory) = reading.render(bytes, work).await?.ok_or_else(|| reading.no_article())?;
    let articles = reading.articles_of(&part, reading.may_post(&name), &mut memory).await?;
    let place = urls::thread(&name, &part.named);
    let (title, feed) = (part.title.clone(), format!("{place}/atom"));
    let work = move || {
        let to = |from: usize| format!("{place}?from={from}");
        let turning = PageLinks { newer: part.earlier.map(to), older: part.later.map(to) };
        view::thread(&ThreadPage {
            group: &name,
            place: &place,
            title: &part.title,
            rows: &part.rows,
            nodes: &part.nodes,
            before: part.before,
            total: part.total,
            turning: &turning,
            articles: &articles,
        })
    };
    let markup = reading.render(bytes, work).await?;
    Ok(AnswerReservation::with(reading.page_with(&title, Some(&feed), StatusCode::OK, &markup), memory))
}

/// The part of a thread that is on one page.
pub(super) struct ThreadPart {
    pub title: String,
    /// Message-ID of the article that was asked for.
    pub named: String,
    /// Rows of the articles on the page, in the order of reading.
    pub rows: Vec<ThreadRow>,
    /// The tree on the page; its rows are those above.
    pub nodes: Vec<ThreadNode>,
    /// Number of articles before the page, and of all articles.
    pub before: usize,
    pub total: usize,
    /// Nodes with which the pages before and after begin.
    pub earlier: Option<usize>,
    pub later: Option<usize>,
}

impl ThreadPart {
    /// Returns the part that begins with node `from`, or one with the article that was asked for.
    pub fn of(found: &ThreadAround, from: Option<usize>) -> Option<Self> {
        let all = &found.thread.nodes;
        let own = all.iter().position(|node| node.row == Some(found.row)).unwrap_or(0);
        let row_of = |node: &ThreadNode| node.row.and_then(|at| found.rows.get(at));
        let end_of = |begin: usize| {
            let mut text_bytes = 0_usize;
            let nodes = all.iter().skip(begin).take(NODES_PER_PAGE);
            let fits = |node: &&ThreadNode| {
                let before = text_bytes;
                text_bytes = text_bytes.saturating_add(row_of(node).map_or(0, shown_bytes));
                before == 0 || text_bytes <= PAGE_TEXT_BYTES_MAX
            };
            begin + nodes.take_while(fits).count()
        };
        let mut begin = from.unwrap_or(own - own % NODES_PER_PAGE);
        if begin >= all.len() || from.is_none() && end_of(begin) <= own {
            begin = own;
        }
        let end = end_of(begin);
        let (mut rows, mut nodes) = (Vec::new(), Vec::new());
        for node in all.get(begin..end)? {
            let row = row_of(node).map(|row| {
                rows.push(row.clone());
                rows.len() - 1
            });
            nodes.push(ThreadNode { row, depth: node.depth });
        }
        Some(Self {
            title: found.title().to_owned(),
            named: found.named()?.message_id.clone(),
            rows,
            nodes,
            before: all.iter().take(begin).filter(|node| node.row.is_some()).count(),
            total: found.thread.rows().count(),
            earlier: (begin > 0).then(|| begin.saturating_sub(NODES_PER_PAGE)),
            later: (end < all.len()).then_some(end),
        })
    }
}

/// Returns the bytes of text that an article has in its thread, about.
fn shown_bytes(row: &ThreadRow) -> usize {
    match stored_bytes(row) {
        bytes if bytes > WITHHELD_BYTES_MIN => 0,
        bytes => bytes.min(THREADED_BYTES),
    }
}

fn stored_bytes(row: &ThreadRow) -> usize {
    usize::try_from(row.bytes).unwrap_or(usize::MAX)
}

/// Rows around an article, with all of its thread.
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
    /// Returns the number before which a page of a group begins, by its query, and the dates for its links.
    async fn page_begin(
        &self,
        group: &Group,
        marks: &GroupMarks,
        query: Option<&str>,
    ) -> Result<(u64, DateLinks), Response> {
        let before =
            asked_number(query, "before").map_err(|error| self.no_number(&error))?.unwrap_or(u64::MAX);
        let date = asked(query, "date");
        let (span, is_wrong) = match CalendarSpan::asked(&date) {
            Ok(span) => (span, false),
            Err(NoDate) => (None, true),
        };
        let source = &self.news.source;
        let this_year = dates::year_of(unix_now());
        let first = match group {
            // Another server is asked only if that is wanted.
            Either::Second(_) if date.is_empty() => None,
            _ if marks.count == 0 => None,
            _ => dates::first_year(source, group, marks).await.map_err(failed)?,
        };
        let years = first.map(|first| (first.min(this_year), this_year));
        let year = span.map_or(this_year, |span| span.year);
        let links = DateLinks { years, year, asked: date, is_wrong };
        let before = match span.and_then(CalendarSpan::end) {
            Some(end) => dates::first_since(source, group, marks, end).await.map_err(failed)?,
            None => before,
        };
        Ok((before, links))
    }

    /// Returns the articles of a part of a thread as markup. All memory for it is reserved first, since no
    /// request waits for memory while it holds articles.
    async fn articles_of(
        &self,
        part: &ThreadPart,
        may_follow_up: bool,
        memory: &mut MemoryReservation,
    ) -> Result<Markup, Response> {
        let text_bytes: usize = part.rows.iter().map(shown_bytes).sum();
        let stored = part.rows.iter().map(stored_bytes).filter(|bytes| *bytes <= WITHHELD_BYTES_MIN);
        let room = ARTICLE_COPIES * stored.max().unwrap_or(0).saturating_add(ARTICLE_BYTES_BASE);
        let markup_bytes = MARKUP_FACTOR * text_bytes + part.rows.len() * ARTICLE_MARKUP_BYTES;
        let rows_bytes = threads::bytes_of(&part.rows);
        memory.shrink(rows_bytes);
        memory.resize(rows_bytes + markup_bytes + room).await.map_err(failed)?;
        self.look_ahead(&part.rows).await;
        let numbers: Vec<u64> = part.rows.iter().map(|row| row.number).collect();
        let mut articles = String::new();
        for (at, row) in part.rows.iter().enumerate() {
            let (id, number) = (row.message_id.clone(), row.number);
            if stored_bytes(row) > WITHHELD_BYTES_MIN {
                let kilobytes = row.bytes / 1_000;
                let reason = format!("This article has {kilobytes} kB, too many for this page.");
                articles.push_str(&view::withheld(&id, number, &reason).into_string());
                continue;
            }
            let mut own = memory.split(room);
            let attempt = self.news.try_read(own, &id, ArticlePart::Article, ARTICLE_COPIES).await;
            let found = match attempt.map_err(failed)? {
                ReadAttempt::Done(found) => found,
                ReadAttempt::Missing | ReadAttempt::TooLarge(_) => {
                    let reason = "This article is not here, or too large for this page.";
                    articles.push_str(&view::withheld(&id, number, reason).into_string());
                    memory.resize(rows_bytes + markup_bytes + room).await.map_err(failed)?;
                    continue;
                }
            };
            let place = (
                at.checked_sub(1).and_then(|before| numbers.get(before).copied()),
                numbers.get(at + 1).copied(),
            );
            let title = part.title.clone();
            let size = found.wire().len();
            let work = move || {
                let content = ArticleContent::of(found.wire(), THREADED_BYTES);
                let (previous, next) = place;
                let place = ThreadPlace { number, previous, next, title: &title, may_follow_up };
                (view::threaded(&content, &place), found.memory)
            };
            let markup;
            (markup, own) = self.render(size, work).await?;
            memory.join(own);
            articles.push_str(&markup.into_string());
        }
        Ok(PreEscaped(articles))
    }

    /// Announces the articles of a page, so that another server is asked for all of them at once.
    async fn look_ahead(&self, rows: &[ThreadRow]) {
        let source = &self.news.source;
        if !source.looks_ahead() {
            return;
        }
        let ids = rows.iter().filter_map(|row| MessageId::parse(row.message_id.as_bytes()));
        let foreseen: Vec<ForeseenRequest<'_, Group>> = ids
            .map(|id| ForeseenRequest::Article(SourceLocator::MessageId(id), ArticlePart::Article))
            .collect();
        source.look_ahead(&foreseen).await;
    }

    /// Reads the rows among which the thread of an article in a group is: those that are tied to it or, where
    /// that is not known, all around it.
    pub(super) async fn thread_of(&self, name: &str, id: &str) -> Result<ThreadText, Response> {
        let (group, marks) = self.group(name).await?;
        let found = self.article(id, ArticlePart::Head).await?;
        let Some(number) = number_in(&found, name) else { return Err(self.no_article()) };
        drop(found);
        let low = number.saturating_sub(BEFORE_MAX).max(marks.low);
        let high = number.saturating_add(AFTER_MAX).min(marks.high);
        let rows = match self.tied_numbers(&group, low..=high, number).await? {
            Some(numbers) => self.rows_of(&group, &numbers).await?,
            None => None,
        };
        let rows = match rows {
            Some(rows) => rows,
            None => self.rows_around(&group, low..=high, number).await?,
        };
        Ok(ThreadText { rows, number })
    }
}

/// Returns the number of an article in a group.
fn number_in(found: &FoundArticle, name: &str) -> Option<u64> {
    let mut places = netnews::article::xref_places(found.head());
    let (_, number) = places.find(|(group, _)| *group == name.as_bytes())?;
    netnews::decimal::parse_decimal(number)
}
