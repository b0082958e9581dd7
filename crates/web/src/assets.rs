//! The files that pages load: styles, a script, a picture. They are compiled into the program.
//!
//! Their paths contain a hash of their contents, so that a browser caches them for good and gets new ones
//! with a new version. Nothing is read from a disk, whatever a request names.

use super::{WebState, answers};
use axum::Router;
use axum::extract::Path;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;
use ring::digest::{SHA256, digest};
use std::sync::{Arc, LazyLock};

/// Name, media type and contents.
const ASSETS: &[(&str, &str, &str)] = &[
    ("style.css", "text/css; charset=utf-8", include_str!("assets/style.css")),
    ("script.js", "text/javascript; charset=utf-8", include_str!("assets/script.js")),
    ("work.js", "text/javascript; charset=utf-8", include_str!("assets/work.js")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

/// Hash of all contents.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let texts: String = ASSETS.iter().map(|(.., text)| *text).collect();
    let hash = digest(&SHA256, texts.as_bytes());
    hash.as_ref().iter().take(6).map(|octet| format!("{octet:02x}")).collect()
});

pub(super) fn routes() -> Router<Arc<WebState>> {
    Router::new().route("/assets/{version}/{name}", get(asset))
}

/// Returns the path of a file.
pub(super) fn path(name: &str) -> String {
    format!("/assets/{}/{name}", *VERSION)
}

async fn asset(Path((version, name)): Path<(String, String)>) -> Response {
    let found = ASSETS.iter().find(|(own, ..)| *own == name && version == *VERSION);
    let Some((_, media_type, text)) = found else { return answers::no_page().await };
    let mut answer = answers::of_type(StatusCode::OK, media_type, *text);
    let kept = HeaderValue::from_static("public, max-age=31536000, immutable");
    answer.headers_mut().insert(CACHE_CONTROL, kept);
    answer
}
