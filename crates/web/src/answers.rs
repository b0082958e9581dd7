//! Common parts of answers: headers, plain texts, and errors without a page.
//!
//! [`guarded`] is applied to every answer last. Source: CSP level 3; RFC 9110 section 15.

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, LOCATION, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;

/// Pages load everything from this host, run no inline scripts, and are shown in no frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Seconds after which a client may try again.
pub(super) const RETRY_SECS: &str = "5";
/// Answers are for one client at one time; those that may be cached set their own header.
const NOT_KEPT: &str = "no-store";

/// Mark of an answer that has the token of a form, attached as an extension: it is neither kept nor
/// compressed.
#[derive(Debug, Clone, Copy)]
pub(super) struct ForOneVisitor;

/// Returns a plain text answer.
pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Response {
    of_type(status, "text/plain; charset=utf-8", text.into() + "\n")
}

/// Returns the answer when there is no thread or no memory for another page.
pub(super) fn busy() -> Response {
    let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, "The server is busy. Try again in a moment.");
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_SECS));
    answer
}

/// Returns a redirect to another page of ours after a form.
pub(super) fn gone_to(path: &str) -> Response {
    let mut answer = text(StatusCode::SEE_OTHER, "Done.");
    if let Ok(path) = HeaderValue::from_str(path) {
        answer.headers_mut().insert(LOCATION, path);
    }
    answer
}

/// Returns an answer of this media type.
pub(super) fn of_type(status: StatusCode, media_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Answers a request for an unknown path.
pub(super) async fn no_page() -> Response {
    text(StatusCode::NOT_FOUND, "There is no such page.")
}

/// Answers a request with a method that the path does not take.
pub(super) async fn no_method() -> Response {
    text(StatusCode::METHOD_NOT_ALLOWED, "This page does not take such requests.")
}

/// Returns the answer marked so that it is not kept, not even for a moment.
pub(super) fn never_kept(mut answer: Response) -> Response {
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(NOT_KEPT));
    answer
}

/// Adds the headers that every answer has.
pub(super) fn guarded(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(X_FRAME_OPTIONS, "DENY");
    set(REFERRER_POLICY, "no-referrer");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    set(CACHE_CONTROL, NOT_KEPT);
    response
}
