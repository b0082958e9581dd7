//! The way of pages for reading from their handlers to the connection: kept pages, budgets of networks,
//! entity tags, and what caches may do with them.
//!
//! A visitor without a login may be sent a page that was made for another one of the same rights. Caches of
//! others may keep such a page if everyone may read it, that is, if a visitor from an address that no
//! section names has the same rights. What has the token of a form, or is for a user who has logged in, is
//! never kept. Wraps the handlers of `reading`. Sources: RFC 9110 section 8.8 and 13.1.2, RFC 9111 section
//! 5.2.2.

use super::answers::ForOneVisitor;
use super::coding::{self, ContentCoding};
use super::crawlers::{PROOF_COOKIE, WORK_BITS};
use super::kept::KeptPage;
use super::page::HtmlPage;
use super::reading::json_of_refusal;
use super::visitor::{Visitor, cookie_in};
use super::{WebState, assets};
use access::ClientEndpoint;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, ETAG, HOST, HeaderName, IF_NONE_MATCH, ORIGIN,
    RETRY_AFTER, SET_COOKIE, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use maud::html;
use ring::digest::{SHA256, digest};
use site::session::ConnectedClient;
use site_base::clock::unix_secs;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

/// Beginning of the paths of pages for programs.
const API: &str = "/api/";
/// Size up to which a page has an entity tag and may be kept, in bytes.
const TAGGED_BYTES_MAX: usize = 4 << 20;
/// Length of an entity tag, in octets before they are written as digits.
const TAG_BYTES: usize = 12;

/// Answers a request for a page, from those that are kept or by its handler.
pub(super) async fn deliver(
    State(shared): State<Arc<WebState>>,
    visitor: Visitor,
    mut request: Request,
    next: Next,
) -> Response {
    // HEAD costs as much as GET, and has the same headers; the connection leaves the body out.
    if request.method() == Method::HEAD {
        *request.method_mut() = Method::GET;
    }
    if request.method() != Method::GET || visitor.user().is_some() {
        return next.run(request).await;
    }
    let config = visitor.client().config().clone();
    let (age_max, bytes_max) = (config.web.cache_age, config.web.cache_max);
    let coding = ContentCoding::for_client(request.headers());
    let key = key_of(&shared, &visitor, coding, &request);
    let (made, withdrawals) = (Instant::now(), shared.site.spool.withdrawals());
    let wanted = request.headers().get(IF_NONE_MATCH).cloned();
    if let Some(kept) = shared.kept.get(&key, age_max, withdrawals) {
        return answer_of(kept.headers.clone(), kept.body.clone(), wanted.as_ref());
    }
    if let Err(refused) = admit(&shared, &visitor, request.headers()) {
        let is_of_program = request.uri().path().starts_with(API);
        return if is_of_program { json_of_refusal(refused) } else { refused };
    }
    let answer = tagged(next.run(request).await).await;
    let mut answer = coding::encoded(coding, answer).await;
    if !answer.headers().contains_key(ETAG) {
        return answer;
    }
    let headers = answer.headers_mut();
    let seconds = age_max.as_secs();
    let kind = if is_for_everyone(&shared, &visitor) { "public" } else { "private" };
    if let Ok(value) = HeaderValue::try_from(format!("{kind}, max-age={seconds}")) {
        headers.entry(CACHE_CONTROL).or_insert(value);
    }
    headers.append(VARY, HeaderValue::from_static("cookie"));
    let (parts, body) = answer.into_parts();
    // The body is one piece already.
    let Ok(body) = to_bytes(body, TAGGED_BYTES_MAX).await else { return super::answers::busy() };
    let is_kept_by_caches = parts.headers.get(CACHE_CONTROL).is_none_or(|value| value != "no-store");
    if is_kept_by_caches && !age_max.is_zero() {
        let page = KeptPage { headers: parts.headers.clone(), body: body.clone(), made, withdrawals };
        shared.kept.put(&key, page, usize::try_from(bytes_max).unwrap_or(usize::MAX));
    }
    let mut answer = answer_of(parts.headers, body, wanted.as_ref());
    *answer.extensions_mut() = parts.extensions;
    answer
}

/// Returns what a page depends on.
fn key_of(shared: &WebState, visitor: &Visitor, coding: ContentCoding, request: &Request) -> String {
    let client = visitor.client();
    let section = client
        .access()
        .and_then(|own| client.config().access.iter().position(|access| std::ptr::eq(access, own)));
    let header = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
    let (host, origin) = (header(HOST).unwrap_or_default(), header(ORIGIN).unwrap_or_default());
    let rights = (section, client.tls().is_some(), visitor.may_log_in(), client.address().is_loopback());
    format!("{} {rights:?} {coding:?} {host} {origin} {}", shared.site.reloads(), request.uri())
}

/// Returns whether a visitor from an address that no section names would have the same rights.
fn is_for_everyone(shared: &WebState, visitor: &Visitor) -> bool {
    let client = visitor.client();
    let nowhere =
        ClientEndpoint { address: Ipv4Addr::UNSPECIFIED.into(), port: 0, local: client.caller().local };
    let stranger = ConnectedClient::at(client.config(), &shared.site.gate, nowhere);
    let stranger = client.tls().map_or_else(|| stranger.clone(), |facts| stranger.secured(facts.clone()));
    let section = |client: &ConnectedClient| client.access().map(std::ptr::from_ref);
    section(&stranger) == section(client)
}

/// Adds an entity tag to a page that may be kept.
async fn tagged(answer: Response) -> Response {
    let size = answer.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    let is_personal =
        answer.headers().contains_key(SET_COOKIE) || answer.extensions().get::<ForOneVisitor>().is_some();
    if answer.status() != StatusCode::OK || is_personal || size.is_none_or(|size| size > TAGGED_BYTES_MAX) {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    let Ok(octets) = to_bytes(body, TAGGED_BYTES_MAX).await else { return super::answers::busy() };
    let mut tag = String::with_capacity(2 * TAG_BYTES + 4);
    tag.push_str("W/\"");
    digest(&SHA256, &octets)
        .as_ref()
        .iter()
        .take(TAG_BYTES)
        .for_each(|octet| tag.push_str(&format!("{octet:02x}")));
    tag.push('"');
    if let Ok(tag) = HeaderValue::try_from(tag) {
        parts.headers.insert(ETAG, tag);
    }
    Response::from_parts(parts, Body::from(octets))
}

/// Returns a page, or the answer that the client has it already.
fn answer_of(headers: HeaderMap, body: Bytes, wanted: Option<&HeaderValue>) -> Response {
    let is_known = wanted.and_then(|value| value.to_str().ok()).is_some_and(|wanted| {
        let tag = headers.get(ETAG).and_then(|tag| tag.to_str().ok()).unwrap_or_default();
        wanted.split(',').map(str::trim).any(|own| own == "*" || opaque(own) == opaque(tag))
    });
    let mut answer = Response::new(if is_known { Body::empty() } else { Body::from(body) });
    *answer.headers_mut() = headers;
    if is_known {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        answer.headers_mut().remove(CONTENT_TYPE);
        answer.headers_mut().remove(CONTENT_LENGTH);
    }
    answer
}

/// Returns an entity tag without its mark of weakness.
fn opaque(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

/// Takes a page from the visitor's budget; the error is the answer if that is used up.
#[expect(clippy::result_large_err, reason = "the answer is what the handler returns")]
fn admit(shared: &Arc<WebState>, visitor: &Visitor, headers: &HeaderMap) -> Result<(), Response> {
    let web = &visitor.client().config().web;
    let Some(pages_per_minute) = web.pages_per_minute else { return Ok(()) };
    let (address, now, budgets) = (visitor.client().address(), Instant::now(), &shared.budgets);
    let Err(seconds) = budgets.take(address, pages_per_minute, now) else { return Ok(()) };
    let mut seconds = seconds;
    if web.proof_of_work {
        let proof = cookie_in(headers.get_all(COOKIE), PROOF_COOKIE);
        match proof.filter(|proof| budgets.is_proof(proof, address, unix_secs())) {
            None => return Err(challenged(shared, visitor)),
            Some(proof) => match budgets.take_proven(proof, pages_per_minute, now) {
                Ok(()) => return Ok(()),
                Err(proven) => seconds = proven,
            },
        }
    }
    let body = html! {
        h1 { "Later" }
        p.problem role="alert" { "So many pages were asked for from your network that this one has to wait." }
        p { "Try again in " (seconds) " s." }
    };
    let mut answer = HtmlPage::new(shared, visitor, "Later").answer(StatusCode::TOO_MANY_REQUESTS, &body);
    answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    Err(answer)
}

/// Returns the page whose script proves work.
fn challenged(shared: &Arc<WebState>, visitor: &Visitor) -> Response {
    let challenge = shared.budgets.challenge(visitor.client().address(), unix_secs());
    let body = html! {
        h1 { "One moment" }
        p #work data-challenge=(challenge) data-bits=(WORK_BITS) data-cookie=(PROOF_COOKIE) role="status" {
            "Very many pages were asked for from your network. Your browser computes a number, which takes \
             some seconds; then the page is shown. Without JavaScript, log in or try again later."
        }
        script src=(assets::path("work.js")) defer {}
    };
    let mut answer =
        HtmlPage::new(shared, visitor, "One moment").answer(StatusCode::TOO_MANY_REQUESTS, &body);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_that_has_a_page_is_not_sent_it_again() {
        let answer = tagged(super::super::answers::text(StatusCode::OK, "a page")).await;
        let tag = answer.headers()[ETAG].to_str().unwrap().to_owned();
        let headers = answer.headers().clone();
        let strong = tag.strip_prefix("W/").unwrap();
        for wanted in [&tag, strong, "*", &format!("\"x\", {tag}")] {
            let value = HeaderValue::from_str(wanted).unwrap();
            let again = answer_of(headers.clone(), Bytes::from_static(b"a page\n"), Some(&value));
            assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{wanted}");
            assert_eq!(again.headers()[ETAG], tag.as_str());
            assert_eq!(again.body().size_hint().exact(), Some(0));
        }
        let value = HeaderValue::from_static("W/\"x\"");
        assert_eq!(answer_of(headers.clone(), Bytes::new(), Some(&value)).status(), StatusCode::OK);
        assert_eq!(answer_of(headers, Bytes::new(), None).status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn errors_and_pages_for_one_visitor_have_no_tag() {
        let missing = super::super::answers::no_page().await;
        let mut personal = super::super::answers::text(StatusCode::OK, "x");
        personal.extensions_mut().insert(ForOneVisitor);
        let mut with_cookie = super::super::answers::text(StatusCode::OK, "x");
        with_cookie.headers_mut().insert(SET_COOKIE, HeaderValue::from_static("a=b"));
        for answer in [missing, personal, with_cookie] {
            assert!(!tagged(answer).await.headers().contains_key(ETAG));
        }
    }
}
