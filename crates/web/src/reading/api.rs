//! The pages for programs: groups, threads, articles and searches as JSON, under `/api/v1`.
//!
//! The answers have what the pages show, by the same rights and within the same limits. `openapi.json`
//! describes them. Programs in pages of other sites may read them if `web.api_origins` names those sites;
//! they are visitors without a login, as cookies are not sent along (SameSite). Sources: RFC 8259, OpenAPI
//! 3.1; the Fetch standard for CORS.

use super::dates::{self, CalendarSpan, NoDate};
use super::threads::{ARTICLES_PER_PAGE, CONTEXT_ARTICLES, ThreadPart, lowest_of_page};
use super::traffic::MonthlyTraffic;
use super::{NewsPages, NotANumber, asked, asked_number, failed};
use crate::visitor::Visitor;
use crate::{WebState, answers};
use axum::Router;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, HeaderName, LOCATION, ORIGIN, VARY};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use newspages::content::{ArticleContent, SHOWN_BYTES, TextBlock};
use newspages::threads::{ThreadNode, ThreadRow, base_subject, threads};
use newspages::view::GroupListEntry;
use newspages::{feed, urls};
use operators::search::SearchCoverage;
use serde_json::{Value, json};
use std::sync::Arc;
use upstreams::ArticlePart;

/// Description of the answers.
const OPENAPI: &str = include_str!("../assets/openapi.json");
/// Origins that stand for all sites.
const ANY_ORIGIN: &str = "*";

pub(super) fn routes(shared: &Arc<WebState>) -> Router<Arc<WebState>> {
    let routes = Router::new()
        .route("/api/v1/openapi.json", get(openapi))
        .route("/api/v1/groups", get(groups))
        .route("/api/v1/groups/{group}", get(group))
        .route("/api/v1/groups/{group}/threads", get(group_threads))
        .route("/api/v1/groups/{group}/threads/{id}", get(thread))
        .route("/api/v1/articles/{id}", get(article));
    let routes = routes.route("/api/v1/search", get(search)).route("/api/v1/{*other}", get(answers::no_page));
    routes.layer(from_fn_with_state(shared.clone(), for_programs))
}

/// Makes JSON of refusals, and lets pages of other sites read the answers that may.
async fn for_programs(State(shared): State<Arc<WebState>>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(ORIGIN).cloned();
    let mut answer = next.run(request).await;
    let is_json = answer.headers().get("content-type").is_some_and(|value| value == JSON_TYPE);
    if !is_json {
        answer = json_of_refusal(answer);
    }
    let config = shared.config();
    let origins = &config.web.api_origins;
    if origins.is_empty() {
        return answer;
    }
    let is_any = origins.iter().any(|own| own == ANY_ORIGIN);
    let allowed = origin.filter(|origin| origins.iter().any(|own| own.as_bytes() == origin.as_bytes()));
    let allowed = if is_any { Some(HeaderValue::from_static(ANY_ORIGIN)) } else { allowed };
    let headers = answer.headers_mut();
    headers.append(VARY, HeaderValue::from_static("origin"));
    if let Some(allowed) = allowed {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        let policy = HeaderName::from_static("cross-origin-resource-policy");
        headers.insert(policy, HeaderValue::from_static("cross-origin"));
    }
    headers.remove(LOCATION);
    answer
}

/// Returns the refusal of a page as JSON.
pub(crate) fn json_of_refusal(page: Response) -> Response {
    let status = match page.status() {
        // A redirect to the login.
        StatusCode::SEE_OTHER => StatusCode::UNAUTHORIZED,
        status => status,
    };
    let (old, _page) = page.into_parts();
    let mut answer = refused(status, status.canonical_reason().unwrap_or("Refused"));
    let kept = old.headers.into_iter().filter_map(|(name, value)| Some((name?, value)));
    let kept = kept.filter(|(name, _)| *name == "retry-after" || *name == "x-robots-tag");
    answer.headers_mut().extend(kept);
    answer
}

/// Media type of all answers.
const JSON_TYPE: &str = "application/json";

fn answered(value: &Value) -> Response {
    answers::of_type(StatusCode::OK, JSON_TYPE, value.to_string())
}

fn refused(status: StatusCode, reason: &str) -> Response {
    answers::of_type(status, JSON_TYPE, json!({ "error": reason }).to_string())
}

/// Returns the refusal of a field of a query that is no number.
fn no_number(error: NotANumber) -> Response {
    refused(StatusCode::BAD_REQUEST, &error.to_string())
}

/// Returns a time as text; null for an unknown one.
fn moment(secs: Option<i64>) -> Value {
    secs.map_or(Value::Null, |secs| json!(feed::rfc3339(secs)))
}

async fn openapi() -> Response {
    answers::of_type(StatusCode::OK, JSON_TYPE, OPENAPI)
}

async fn groups(
    State(shared): State<Arc<WebState>>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, urls::GROUPS)?;
    let field = |name: &str| asked(query.as_deref(), name);
    let (wanted, within, after) = (field("match").to_lowercase(), field("in"), field("after"));
    let (mut lines, is_all) = reading.lines(wanted.as_bytes(), &within, after.as_bytes()).await?;
    reading.describe(&mut lines).await?;
    let traffic = MonthlyTraffic::current(&shared).await;
    let next = lines.last().filter(|_| !is_all).map(|line| line.name.clone());
    let group = |line: GroupListEntry| {
        let month = traffic.as_ref().and_then(|traffic| traffic.of(line.name.as_bytes()));
        json!({
            "name": line.name, "description": line.description, "articles": line.articles, "month": month,
        })
    };
    let groups: Vec<Value> = lines.into_iter().map(group).collect();
    Ok(reading.marked(answered(&json!({ "groups": groups, "next_after": next }))))
}

async fn group(
    State(shared): State<Arc<WebState>>,
    Path(name): Path<String>,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, &urls::group(&name))?;
    let (_, marks) = reading.group(&name).await?;
    let description = reading.description(&name).await?;
    let may_post = reading.may_post(&name);
    Ok(reading.marked(answered(&json!({
        "name": name, "description": description, "articles": marks.count, "low": marks.low,
        "high": marks.high, "may_post": may_post,
    }))))
}

async fn group_threads(
    State(shared): State<Arc<WebState>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, &urls::group(&name))?;
    let (group, marks) = reading.group(&name).await?;
    let field = |name: &str| asked(query.as_deref(), name);
    let span = CalendarSpan::asked(&field("date"));
    let span = span.map_err(|NoDate| refused(StatusCode::BAD_REQUEST, "date is no year, month or day"))?;
    let before = match span.and_then(CalendarSpan::end) {
        Some(end) => dates::first_since(&reading.news.source, &group, &marks, end).await.map_err(failed)?,
        None => asked_number(query.as_deref(), "before").map_err(no_number)?.unwrap_or(u64::MAX),
    };
    // As on the page: threads of its articles, with what came before of them.
    let text = reading.rows_before(&group, &marks, before, ARTICLES_PER_PAGE + CONTEXT_ARTICLES).await?;
    let bytes = text.bytes();
    let work = move || {
        let rows = text.last(ARTICLES_PER_PAGE + CONTEXT_ARTICLES);
        let lowest = lowest_of_page(&rows);
        let thread = |thread: &newspages::threads::Thread| {
            let of_thread: Vec<&ThreadRow> = thread.rows().filter_map(|at| rows.get(at)).collect();
            if of_thread.iter().all(|row| row.number < lowest) {
                return None;
            }
            let first = thread.first(&rows)?;
            let newest = of_thread.iter().max_by_key(|row| row.date).copied().unwrap_or(first);
            Some(json!({
                "subject": base_subject(&first.subject).0, "message_id": first.message_id,
                "articles": of_thread.len(), "from": first.from, "newest_from": newest.from,
                "newest_date": moment(newest.date),
            }))
        };
        let threads: Vec<Value> = threads(&rows).iter().filter_map(thread).collect();
        let next = (lowest > marks.low).then_some(lowest);
        (json!({ "threads": threads, "next_before": next }).to_string(), text.into_memory())
    };
    let (text, _memory) = reading.render(bytes, work).await?;
    Ok(reading.marked(answers::of_type(StatusCode::OK, JSON_TYPE, text)))
}

async fn thread(
    State(shared): State<Arc<WebState>>,
    Path((name, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, &urls::thread(&name, &id))?;
    let text = reading.thread_of(&name, &id).await?;
    let bytes = text.rows.bytes();
    let from = asked_number(query.as_deref(), "from").map_err(no_number)?;
    let work = move || {
        let part = ThreadPart::of(&text.thread()?, from)?;
        let node = |node: &ThreadNode| {
            let row = node.row.and_then(|at| part.rows.get(at))?;
            Some(json!({
                "message_id": row.message_id, "number": row.number, "depth": node.depth,
                "subject": row.subject, "from": row.from, "date": moment(row.date), "lines": row.lines,
            }))
        };
        let articles: Vec<Value> = part.nodes.iter().filter_map(node).collect();
        let subject = base_subject(&part.title).0;
        Some(json!({
            "subject": subject, "total": part.total, "articles": articles,
            "earlier_from": part.earlier, "later_from": part.later,
        }))
    };
    let found = reading.render(bytes, work).await?.ok_or_else(|| reading.no_article())?;
    Ok(reading.marked(answered(&found)))
}

async fn article(
    State(shared): State<Arc<WebState>>,
    Path(id): Path<String>,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, &urls::article(&id))?;
    let found = reading.article(&id, ArticlePart::Article).await?;
    let render = |wire: &[u8]| json_of(&ArticleContent::of(wire, SHOWN_BYTES)).to_string();
    let (text, _memory) = reading.render_article(found, 2, JSON_FACTOR * SHOWN_BYTES, render).await?;
    Ok(reading.marked(answers::of_type(StatusCode::OK, JSON_TYPE, text)))
}

/// Bytes of JSON for each byte of text: a control character has six.
const JSON_FACTOR: usize = 8;

fn json_of(content: &ArticleContent) -> Value {
    let head = &content.head;
    let id = head.message_id.as_deref().unwrap_or_default();
    let mut text = String::new();
    for block in &content.blocks {
        match block {
            TextBlock::Text(lines) | TextBlock::Armour(lines) => {
                lines.iter().for_each(|line| text.extend([line.as_str(), "\n"]));
            }
            TextBlock::Quote(lines) => lines.iter().for_each(|line| {
                text.extend([">".repeat(line.depth).as_str(), " ", line.text.as_str(), "\n"]);
            }),
            TextBlock::Signature(lines) => {
                text.push_str("-- \n");
                lines.iter().for_each(|line| text.extend([line.as_str(), "\n"]));
            }
            TextBlock::File(_) | TextBlock::Message(_) | TextBlock::FromHtml => {}
        }
    }
    let files = content.files.iter().enumerate().map(|(at, file)| {
        json!({
            "name": file.name, "type": file.kind, "bytes": file.bytes,
            "path": urls::file(id, at + 1, &file.name),
        })
    });
    let files: Vec<Value> = files.collect();
    json!({
        "message_id": id, "subject": head.subject, "from": head.from,
        "date": moment(head.date), "groups": head.groups, "references": head.references,
        "followup_to": head.followup_to, "text": text, "files": files, "is_cut": content.is_cut,
        "is_signed": content.signed.is_some(),
    })
}

async fn search(
    State(shared): State<Arc<WebState>>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, urls::SEARCH)?;
    let text = asked(query.as_deref(), "q");
    let from = asked_number(query.as_deref(), "from")
        .map_err(no_number)?
        .unwrap_or(0)
        .min(newssearch::index::ANSWERS_MAX);
    let parsed = newssearch::query::Query::parse(&text);
    let parsed = parsed.map_err(|error| refused(StatusCode::BAD_REQUEST, &error.to_string()))?;
    let found = reading.found(&parsed, from).await?;
    let hit = |hit: &newspages::view::SearchHit| {
        let snippet: String = hit.snippet.iter().map(|piece| piece.text.as_str()).collect();
        json!({
            "message_id": hit.message_id, "subject": hit.subject, "from": hit.from,
            "date": moment(hit.date), "groups": hit.groups, "snippet": snippet,
        })
    };
    let articles: Vec<Value> = found.lines.iter().map(hit).collect();
    Ok(answers::never_kept(reading.marked(answered(&json!({
        "articles": articles, "next_from": found.next, "is_complete": found.coverage == SearchCoverage::Whole,
        "indexed_percent": found.coverage.percent(),
    })))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_names_every_route() {
        let described: Value = serde_json::from_str(OPENAPI).unwrap();
        let paths: Vec<&str> = described["paths"].as_object().unwrap().keys().map(String::as_str).collect();
        let routes = include_str!("api.rs").lines().filter_map(|line| line.trim().strip_prefix(".route(\""));
        let mut routes: Vec<&str> = routes.filter_map(|rest| rest.split('"').next()).collect();
        routes.push("/api/v1/search");
        routes.sort_unstable();
        assert_eq!(paths, routes);
    }
}
