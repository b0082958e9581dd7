//! What answers have in common: headers, plain texts, and what is said where there is no page.
//!
//! [`guarded`] is the last thing that happens to every answer. Source: CSP level 3; RFC 9110 section 15.

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, LOCATION, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;

/// Pages load what they need from here alone, run no script of their own text, and are shown in no frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Seconds after which a client may ask again.
const RETRY_SECS: &str = "5";
/// An answer is for who asked, now; what may be kept says so itself.
const NOT_KEPT: &str = "no-store";

/// An answer of a few words.
pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Response {
    of_type(status, "text/plain; charset=utf-8", text.into() + "\n")
}

/// The answer where there is no thread or no memory for another one.
pub(super) fn busy() -> Response {
    let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, "The server is busy. Try again in a moment.");
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_SECS));
    answer
}

/// The answer that leads to another page of ours.
pub(super) fn gone_to(path: &str) -> Response {
    let mut answer = text(StatusCode::SEE_OTHER, "Done.");
    if let Ok(path) = HeaderValue::from_str(path) {
        answer.headers_mut().insert(LOCATION, path);
    }
    answer
}

/// An answer of this media type.
pub(super) fn of_type(status: StatusCode, media_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// There is nothing by that name.
pub(super) async fn no_page() -> Response {
    text(StatusCode::NOT_FOUND, "There is no such page.")
}

/// It is there, and cannot be asked for in that way.
pub(super) async fn no_method() -> Response {
    text(StatusCode::METHOD_NOT_ALLOWED, "This page does not take such requests.")
}

/// An answer with the headers that every one has.
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
