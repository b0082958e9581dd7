//! An article as a page, in its original form, and its attachments.

use super::{NewsPages, asked, failed, found_at};
use crate::memory::AnswerReservation;
use crate::visitor::Visitor;
use crate::{WebState, answers};
use axum::extract::{Path, RawQuery, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use netnews::article::{content_of, xref_places};
use netnews::newsgroups;
use netnews::overview_row::{self, index};
use newspages::content::{self, ArticleContent, SHOWN_BYTES, SHOWN_BYTES_MAX};
use newspages::embedded::PADDED_BYTES_MAX;
use newspages::view::{self, ArticlePage};
use newspages::{charset, names, urls};
use std::sync::Arc;
use upstreams::{ArticlePart, NewsSource};

/// Maximum number of groups for a follow-up.
const GROUPS_MAX: usize = 100;
/// Bytes of memory for each byte of text that is shown: the text, its markup, and the copy in its page.
pub(super) const MARKUP_FACTOR: usize = 12;
/// What a picture may do that is opened by itself: nothing.
const PICTURE_POLICY: &str = "default-src 'none'; sandbox";
/// Further bytes of a page.
pub(super) const MARKUP_BYTES_BASE: usize = 64 << 10;

pub(super) async fn article(
    State(shared): State<Arc<WebState>>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    let place = urls::article(&id);
    let reading = NewsPages::begin(&shared, &visitor, &place)?;
    let found = reading.article(&id, ArticlePart::Article).await?;
    let is_all = asked(query.as_deref(), "all") == "1";
    let bytes_max = if is_all { SHOWN_BYTES_MAX } else { SHOWN_BYTES };
    let in_group = xref_places(found.head()).filter(|(group, _)| reading.news.view.shows(group)).find_map(
        |(group, number)| {
            let number = netnews::decimal::parse_decimal(number)?;
            Some((std::str::from_utf8(group).ok()?.to_owned(), number))
        },
    );
    let names = newsgroups::split(content_of(found.head(), b"Newsgroups").unwrap_or_default());
    let may_post = names
        .take(GROUPS_MAX)
        .filter_map(|name| std::str::from_utf8(name).ok())
        .any(|name| reading.may_post(name));
    let follow_up = may_post.then(|| format!("{place}/follow-up"));
    let all = (!is_all).then(|| format!("{place}?all=1"));
    let markup_bytes = MARKUP_BYTES_BASE + MARKUP_FACTOR * bytes_max.min(found.wire().len());
    let render = move |wire: &[u8]| {
        let content = ArticleContent::of(wire, bytes_max);
        let place = in_group.as_ref().map(|(group, number)| (group.as_str(), *number));
        let page = ArticlePage { place, follow_up: follow_up.as_deref(), all: all.as_deref() };
        let markup = view::article(&content, &page);
        (content.head.subject, markup)
    };
    let ((subject, markup), memory) = reading.render_article(found, 2, markup_bytes, render).await?;
    Ok(AnswerReservation::with(reading.page(&subject, &markup), memory))
}

/// Redirects from a group and number to the permanent address.
pub(super) async fn numbered(
    State(shared): State<Arc<WebState>>,
    Path((name, number)): Path<(String, String)>,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, &urls::group(&name))?;
    let (group, _) = reading.group(&name).await?;
    let Ok(number) = number.parse::<u64>() else { return Err(reading.no_article()) };
    let mut row = Vec::new();
    reading.news.source.over(&group, number..=number, usize::MAX, &mut row).await.map_err(failed)?;
    let id = overview_row::field(&row, index::MESSAGE_ID).and_then(|id| std::str::from_utf8(id).ok());
    id.map(|id| found_at(&urls::article(id))).ok_or_else(|| reading.no_article())
}

/// Returns an article as stored, without dot-stuffing.
pub(super) async fn raw(
    State(shared): State<Arc<WebState>>,
    Path(id): Path<String>,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, &urls::article(&id))?;
    let found = reading.article(&id, ArticlePart::Article).await?;
    let render = |wire: &[u8]| {
        let mut text = Vec::with_capacity(wire.len());
        netnews::nntp::wire::unstuff(wire, &mut text);
        let media_type = match charset::is_utf_8(&text) {
            true => "text/plain; charset=utf-8",
            false => "text/plain; charset=windows-1252",
        };
        (media_type, text)
    };
    let ((media_type, text), memory) = reading.render_article(found, 1, 0, render).await?;
    Ok(AnswerReservation::with(reading.marked(answers::of_type(StatusCode::OK, media_type, text)), memory))
}

/// Returns a file of an article: as a download, or if `show` is asked for and its octets are those of a
/// picture, as one that the browser shows.
pub(super) async fn file(
    State(shared): State<Arc<WebState>>,
    Path((id, number, _name)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, &urls::article(&id))?;
    let found = reading.article(&id, ArticlePart::Article).await?;
    let number = number.parse().unwrap_or(0);
    let render = move |wire: &[u8]| ArticleContent::file(wire, number);
    let (file, memory) = reading.render_article(found, 3, PADDED_BYTES_MAX, render).await?;
    let Some((name, decoded)) = file else { return Err(reading.no_article()) };
    let shown_as = content::image_type(&decoded.octets).filter(|_| asked(query.as_deref(), "show") == "1");
    let media_type = shown_as.unwrap_or("application/octet-stream");
    let mut answer = answers::of_type(StatusCode::OK, media_type, decoded.octets);
    let headers = answer.headers_mut();
    match shown_as {
        Some(_) => {
            headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PICTURE_POLICY));
        }
        None => {
            if let Ok(disposition) = HeaderValue::try_from(names::disposition(&name)) {
                headers.insert(CONTENT_DISPOSITION, disposition);
            }
        }
    }
    Ok(AnswerReservation::with(reading.marked(answer), memory))
}
