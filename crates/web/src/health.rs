//! `/health` and `/ready`, for programs that start, stop and balance servers.
//!
//! `/health` is 200 as long as the server answers at all. `/ready` is 200 while it accepts articles and is
//! not stopping, and, as a member of a cluster, follows its log, else 503 with the reason. Neither reveals
//! anything else, so both are open to all.

use super::{WebState, answers};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;

pub(super) fn routes() -> Router<Arc<WebState>> {
    Router::new().route("/health", get(health)).route("/ready", get(ready))
}

async fn health() -> Response {
    answers::text(StatusCode::OK, "ok")
}

async fn ready(State(shared): State<Arc<WebState>>) -> Response {
    let site = &shared.site;
    if site.is_stopping() || site.is_draining() {
        return answers::text(StatusCode::SERVICE_UNAVAILABLE, "The server is stopping.");
    }
    if site.filer.paused().is_some() {
        return answers::text(StatusCode::SERVICE_UNAVAILABLE, "The server is paused.");
    }
    if !site.filer.log().is_accepting() {
        let state = site.spool.shared_log().map(|log| log.status().state).unwrap_or_default();
        let text = format!("No articles are accepted: this member of a cluster {state}.");
        return answers::text(StatusCode::SERVICE_UNAVAILABLE, text);
    }
    match site.spool.trouble() {
        None => answers::text(StatusCode::OK, "ready"),
        Some(_) => answers::text(StatusCode::SERVICE_UNAVAILABLE, "No articles are accepted; see the log."),
    }
}
