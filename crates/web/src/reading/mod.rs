//! Reading on the web: the front page, groups, threads and articles, and posting for those who may.
//!
//! The articles come from the same source as a newsreader's, and the same view limits them: a group that a
//! visitor may not read, and an article in such groups alone, does not exist for it. The crate `newspages`
//! converts articles to markup, passing only text and plain links, on threads of its own (`rendering`). Every
//! page has limits on rows, articles and bytes, and is in the memory budget from the first article on
//! (`memory`). Called by `web`. Documentation: `docs/web.md`.

mod api;
mod article;
mod dates;
mod feeds;
mod front;
mod groups;
mod mailboxes;
mod posting;
mod rows;
mod search;
mod threads;
pub(super) mod ties;
pub(super) mod traffic;

pub(super) use api::json_of_refusal;

use super::form::{NotANumber, asked, asked_number};
use super::memory::{MemoryReservation, MemoryShare, NoHttpMemory};
use super::page::HtmlPage;
use super::rendering::NotRendered;
use super::visitor::Visitor;
use super::{WebState, answers, hosts};
use access::rules::AccessRight;
use axum::Router;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;
use maud::Markup;
use netnews::GroupMarks;
use netnews::MessageId;
use netnews::article::HEADER_BYTES_MAX;
use newspages::urls;
use site::serve::ReaderView;
use std::sync::Arc;
use tracing::{debug, warn};
use upstreams::{
    ArticleBytes, ArticlePart, Fetched, LocalFirst, LocalSpool, NewsSource, SideBySide, SourceError,
    SourceLocator, Upstreams,
};

/// The source of readers' news.
type Source = SideBySide<LocalSpool, Upstreams, LocalFirst>;
/// A group of that source.
type Group = <Source as NewsSource>::Group;

pub(super) fn routes(shared: &Arc<WebState>) -> Router<Arc<WebState>> {
    Router::new()
        .route(urls::SEARCH, get(search::search))
        .route("/search/mbox.gz", get(mailboxes::found))
        .route("/", get(front::front))
        .route("/robots.txt", get(robots))
        .route(urls::GROUPS, get(groups::list))
        .route("/groups/{group}", get(threads::group))
        .route("/groups/{group}/atom", get(feeds::group))
        .route("/groups/{group}/mbox.gz", get(mailboxes::group))
        .route("/groups/{group}/write", get(posting::article_form).post(posting::send))
        .route("/groups/{group}/thread/{id}", get(threads::thread))
        .route("/groups/{group}/thread/{id}/atom", get(feeds::thread))
        .route("/groups/{group}/thread/{id}/mbox", get(mailboxes::thread))
        .route("/groups/{group}/{number}", get(article::numbered))
        .route("/article/{id}", get(article::article))
        .route("/article/{id}/raw", get(article::raw))
        .route("/article/{id}/file/{number}/{name}", get(article::file))
        .route("/article/{id}/follow-up", get(posting::follow_up_form))
        .route("/sitemap.xml", get(groups::sitemap))
        .merge(api::routes(shared))
}

/// A visitor who may read, with its readable news.
struct NewsPages<'a> {
    shared: &'a WebState,
    visitor: &'a Visitor,
    news: ReadableNews,
}

/// The news that a visitor may read: the source, the view, and the memory for it.
#[derive(Clone)]
struct ReadableNews {
    source: Source,
    view: ReaderView,
    memory: MemoryShare,
    article_bytes_max: usize,
}

/// An article that the visitor may read, with its memory.
struct FoundArticle {
    bytes: ArticleBytes,
    memory: MemoryReservation,
}

impl FoundArticle {
    /// Returns the article in wire format, without the final `.` line.
    fn wire(&self) -> &[u8] {
        let wire = self.bytes.article();
        wire.strip_suffix(b".\r\n").unwrap_or(wire)
    }

    /// Returns the header lines.
    fn head(&self) -> &[u8] {
        self.bytes.head()
    }
}

/// Result of reading an article with a bounded reservation.
enum ReadAttempt {
    Missing,
    Done(FoundArticle),
    /// Nothing is held any longer; the next attempt needs this many bytes.
    TooLarge(usize),
}

/// The reason why news cannot be read now.
#[derive(Debug)]
enum NotReadable {
    Source(SourceError),
    NoRoom,
}

impl From<SourceError> for NotReadable {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

impl From<NoHttpMemory> for NotReadable {
    fn from(_: NoHttpMemory) -> Self {
        Self::NoRoom
    }
}

impl ReadableNews {
    /// Returns the memory for a part of any article, before its size is known.
    fn room(&self, part: ArticlePart) -> usize {
        let bytes = if part == ArticlePart::Head { HEADER_BYTES_MAX } else { self.article_bytes_max };
        bytes.min(self.memory.first_bytes_max())
    }

    /// Returns an article by Message-ID, if it exists and may be read.
    async fn find(&self, id: &str, part: ArticlePart) -> Result<Option<FoundArticle>, NotReadable> {
        let mut needed = self.room(part);
        loop {
            let memory = self.memory.take(needed).await?;
            match self.try_read(memory, id, part, 1).await? {
                ReadAttempt::Missing => return Ok(None),
                ReadAttempt::Done(found) => return Ok(Some(found)),
                ReadAttempt::TooLarge(bytes) => needed = bytes,
            }
        }
    }

    /// Reads an article of which `copies` are needed. If the reservation is too small for them, and there is
    /// no room now for a larger one, the article and the reservation are dropped: no request waits for memory
    /// while it holds an article that is not in the budget.
    async fn try_read(
        &self,
        mut memory: MemoryReservation,
        id: &str,
        part: ArticlePart,
        copies: usize,
    ) -> Result<ReadAttempt, NotReadable> {
        let Some(id) = MessageId::parse(id.as_bytes()) else { return Ok(ReadAttempt::Missing) };
        let mut bytes = ArticleBytes::default();
        match self.source.article(SourceLocator::MessageId(id), part, &mut bytes).await? {
            Fetched::Missing => return Ok(ReadAttempt::Missing),
            Fetched::Whole => {}
            Fetched::Begun(rest) => {
                // The final size is not known yet.
                let needed = copies.saturating_mul(self.article_bytes_max);
                if memory.grow(needed).is_err() {
                    return Ok(ReadAttempt::TooLarge(needed));
                }
                bytes.complete(rest).await?;
            }
        }
        if !self.view.shows_article(bytes.head()) {
            return Ok(ReadAttempt::Missing);
        }
        let needed = copies.saturating_mul(bytes.capacity());
        Ok(match memory.grow(needed) {
            Ok(()) => ReadAttempt::Done(FoundArticle { bytes, memory }),
            Err(NoHttpMemory) => ReadAttempt::TooLarge(needed),
        })
    }
}

/// Returns true if a visitor may read here at all.
pub(super) fn is_open(visitor: &Visitor) -> bool {
    visitor.client().config().web.reading && visitor.client().may_read()
}

/// Returns true if a visitor may search.
pub(super) fn has_search(shared: &WebState, visitor: &Visitor) -> bool {
    is_open(visitor) && shared.server.upgrade().is_some_and(|server| server.search.is_on())
}

impl<'a> NewsPages<'a> {
    /// Begins for a visitor, if it may read; `path` is the page to return to after logging in.
    #[expect(clippy::result_large_err, reason = "the answer is what the handler returns")]
    fn begin(shared: &'a WebState, visitor: &'a Visitor, path: &str) -> Result<Self, Response> {
        let client = visitor.client();
        if !client.config().web.reading {
            return Err(answers::text(StatusCode::NOT_FOUND, "There is no such page."));
        }
        if !client.may_read() {
            let helps = client.may_become(AccessRight::Read) && visitor.may_log_in();
            return Err(match helps {
                true => answers::gone_to(&format!("/login?next={}", urls::escape(path))),
                false => answers::text(StatusCode::FORBIDDEN, "You may not read here."),
            });
        }
        let Some(server) = shared.server.upgrade() else {
            return Err(answers::text(StatusCode::SERVICE_UNAVAILABLE, "The server is stopping."));
        };
        let source = SideBySide::of_site(&server.site.spool, &server.upstreams);
        let source = source.under(&server.site.config).of_client(client.address_text());
        let article_bytes_max = client.config().site.article_bytes_max;
        let news = ReadableNews {
            source,
            view: client.view(),
            memory: visitor.memory().clone(),
            article_bytes_max: usize::try_from(article_bytes_max).unwrap_or(usize::MAX),
        };
        Ok(Self { shared, visitor, news })
    }

    /// Returns the refusal of a field of a query that is no number.
    fn no_number(&self, error: &NotANumber) -> Response {
        self.problem(StatusCode::BAD_REQUEST, &format!("{error}."))
    }

    /// Returns a group that the visitor may read.
    async fn group(&self, name: &str) -> Result<(Group, GroupMarks), Response> {
        if !self.news.view.shows(name.as_bytes()) {
            return Err(self.no_group());
        }
        let found = self.news.source.group(name.as_bytes(), |_| 0).await.map_err(failed)?;
        let found = found.ok_or_else(|| self.no_group())?;
        self.shared.site.counters.select(name.as_bytes());
        Ok(found)
    }

    fn no_group(&self) -> Response {
        self.problem(StatusCode::NOT_FOUND, "There is no such group, or you may not read it.")
    }

    fn no_article(&self) -> Response {
        self.problem(
            StatusCode::NOT_FOUND,
            "This article is not here: it has expired, was cancelled or never came, or you may not read it.",
        )
    }

    /// Returns an article by its Message-ID, with or without angle brackets.
    async fn article(&self, id: &str, part: ArticlePart) -> Result<FoundArticle, Response> {
        let found = self.news.find(&format!("<{}>", urls::bare_id(id)), part).await.map_err(failed)?;
        found.ok_or_else(|| self.no_article())
    }

    /// Runs `render` for an input of this size on a rendering thread.
    async fn render<T: Send + 'static>(
        &self,
        input_bytes: usize,
        render: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Response> {
        let limit = self.visitor.client().config().web.page_timeout;
        let rendered = self.shared.renderers.render(limit, input_bytes, render).await;
        rendered.map_err(|NotRendered| answers::busy())
    }

    /// Runs `render` for an article, with memory for `copies` of it and `more_bytes`.
    async fn render_article<T: Send + 'static>(
        &self,
        found: FoundArticle,
        copies: usize,
        more_bytes: usize,
        render: impl FnOnce(&[u8]) -> T + Send + 'static,
    ) -> Result<(T, MemoryReservation), Response> {
        let FoundArticle { bytes, mut memory } = found;
        let needed = bytes.capacity().saturating_mul(1 + copies).saturating_add(more_bytes);
        memory.resize(needed).await.map_err(failed)?;
        let size = bytes.article().len();
        let work = move || {
            let found = FoundArticle { bytes, memory };
            let rendered = render(found.wire());
            (rendered, found.memory)
        };
        self.render(size, work).await
    }

    /// Returns true if the visitor may post to this group.
    fn may_post(&self, group: &str) -> bool {
        let client = self.visitor.client();
        client.may_post() && client.access().is_some_and(|access| access.post.matches(group.as_bytes()))
    }

    fn page(&self, title: &str, body: &Markup) -> Response {
        self.page_with(title, None, StatusCode::OK, body)
    }

    fn problem(&self, status: StatusCode, words: &str) -> Response {
        let body = maud::html! { h1 { "Not here" } p.problem role="alert" { (words) } };
        self.page_with("Not here", None, status, &body)
    }

    fn page_with(&self, title: &str, feed: Option<&str>, status: StatusCode, body: &Markup) -> Response {
        let page = HtmlPage::new(self.shared, self.visitor, title).with_feed(feed);
        self.marked(page.answer(status, body))
    }

    /// Adds the header with the rules for robots.
    fn marked(&self, answer: Response) -> Response {
        marked(self.visitor, answer)
    }
}

/// Adds the header with the rules for robots.
fn marked(visitor: &Visitor, mut answer: Response) -> Response {
    if !visitor.client().config().web.robots {
        let refused = HeaderValue::from_static("noindex, nofollow");
        answer.headers_mut().insert(HeaderName::from_static("x-robots-tag"), refused);
    }
    answer
}

/// Returns the answer to a failure of the source, which is logged.
fn failed(error: impl Into<NotReadable>) -> Response {
    match error.into() {
        NotReadable::NoRoom => answers::busy(),
        NotReadable::Source(SourceError::Unavailable(reason)) => {
            debug!(reason, "the source of news is not available now");
            answers::text(StatusCode::SERVICE_UNAVAILABLE, "This is not available now. Try again later.")
        }
        NotReadable::Source(SourceError::Fault(error)) => {
            warn!(%error, "cannot read news");
            answers::text(StatusCode::INTERNAL_SERVER_ERROR, "This cannot be read.")
        }
    }
}

/// Returns a redirect to the permanent address.
fn found_at(place: &str) -> Response {
    let mut answer = answers::text(StatusCode::FOUND, "It is somewhere else.");
    if let Ok(place) = HeaderValue::try_from(place) {
        answer.headers_mut().insert(LOCATION, place);
    }
    answer
}

/// Returns the rules for robots.
async fn robots(headers: HeaderMap, visitor: Visitor) -> Response {
    let config = visitor.client().config();
    let text = match config.web.reading && config.web.robots {
        true => format!(
            "User-agent: *\nDisallow: /login\nDisallow: /operator\nDisallow: /search\nDisallow: /api/\n\
             Disallow: /*/raw\nDisallow: /*/mbox\nDisallow: /*/write\nDisallow: /*/follow-up\n\
             Sitemap: {}/sitemap.xml",
            site_url(&visitor, &headers)
        ),
        false => "User-agent: *\nDisallow: /".to_owned(),
    };
    answers::text(StatusCode::OK, text)
}

/// Returns the address of the site, as the visitor has reached it.
fn site_url(visitor: &Visitor, headers: &HeaderMap) -> String {
    let scheme = if visitor.client().tls().is_some() { "https" } else { "http" };
    format!("{scheme}://{}", hosts::asked_for(headers, visitor.client().config()))
}
