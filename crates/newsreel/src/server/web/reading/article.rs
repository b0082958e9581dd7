//! An article as a page, as it is, and its files.

use super::{Reading, asked, failed, found_at};
use crate::server::web::visitor::Visitor;
use crate::server::web::{Shared, answers};
use crate::source::{NewsSource, Part};
use axum::extract::{Path, RawQuery, State};
use axum::http::header::CONTENT_DISPOSITION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use netnews::article::xref_places;
use netnews::overview_row::{self, index};
use newspages::content::{Content, SHOWN_BYTES, SHOWN_BYTES_MAX};
use newspages::view::{self, ArticlePage};
use newspages::{names, urls};
use std::sync::Arc;
use tokio::task::block_in_place;

pub(super) async fn article(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    let place = urls::article(&id);
    let reading = Reading::begin(&shared, &visitor, &place)?;
    let found = reading.article(&id, Part::Article).await?;
    let is_all = asked(query.as_deref(), "all") == "1";
    let bytes_max = if is_all { SHOWN_BYTES_MAX } else { SHOWN_BYTES };
    let content = block_in_place(|| Content::of(found.wire(), bytes_max));
    let mut places = xref_places(found.bytes.head()).filter(|(group, _)| reading.view.shows(group));
    let group = places.find_map(|(group, _)| std::str::from_utf8(group).ok());
    let may_post = content.head.groups.iter().any(|group| reading.may_post(group));
    let (follow_up, all) = (may_post.then(|| format!("{place}/follow-up")), format!("{place}?all=1"));
    let page =
        ArticlePage { group, follow_up: follow_up.as_deref(), all: Some(all.as_str()).filter(|_| !is_all) };
    Ok(reading.page(&content.head.subject, &view::article(&content, &page)))
}

/// Leads from a group and number to the permanent place.
pub(super) async fn numbered(
    State(shared): State<Arc<Shared>>,
    Path((name, number)): Path<(String, String)>,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = Reading::begin(&shared, &visitor, &urls::group(&name))?;
    let (group, _) = reading.group(&name).await?;
    let Ok(number) = number.parse::<u64>() else { return Err(reading.no_article()) };
    let mut row = Vec::new();
    reading.source.over(&group, number..=number, usize::MAX, &mut row).await.map_err(failed)?;
    let id = overview_row::field(&row, index::MESSAGE_ID).and_then(|id| std::str::from_utf8(id).ok());
    id.map(|id| found_at(&urls::article(id))).ok_or_else(|| reading.no_article())
}

/// As it is stored, without dot-stuffing.
pub(super) async fn raw(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = Reading::begin(&shared, &visitor, &urls::article(&id))?;
    let found = reading.article(&id, Part::Article).await?;
    let mut text = Vec::new();
    netnews::nntp::wire::unstuff(found.wire(), &mut text);
    let media_type = match std::str::from_utf8(&text) {
        Ok(_) => "text/plain; charset=utf-8",
        Err(_) => "text/plain; charset=windows-1252",
    };
    Ok(reading.marked(answers::of_type(StatusCode::OK, media_type, text)))
}

/// A file that an article brings; never of a type that a browser shows.
pub(super) async fn file(
    State(shared): State<Arc<Shared>>,
    Path((id, number, _name)): Path<(String, String, String)>,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = Reading::begin(&shared, &visitor, &urls::article(&id))?;
    let found = reading.article(&id, Part::Article).await?;
    let number = number.parse().unwrap_or(0);
    let file = block_in_place(|| Content::file(found.wire(), number));
    let Some((name, decoded)) = file else { return Err(reading.no_article()) };
    let mut answer = answers::of_type(StatusCode::OK, "application/octet-stream", decoded.octets);
    if let Ok(disposition) = HeaderValue::try_from(names::disposition(&name)) {
        answer.headers_mut().insert(CONTENT_DISPOSITION, disposition);
    }
    Ok(reading.marked(answer))
}
