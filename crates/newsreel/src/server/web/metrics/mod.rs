//! `/metrics`: the figures of `newsreel status --json` and how long things take, as OpenMetrics.
//!
//! `figures` has a row for each value of the report: its type and what it is. Names are those of the JSON,
//! joined with `_`: `server.peers[].offered` is `newsreel_server_peers_offered_total{peer="..."}`. A scrape
//! takes a report (see `operations::report`), so it costs neither the writer's lock nor a read of the disk.
//! Source: OpenMetrics 1.0.

mod encode;
mod figures;
mod latencies;
#[cfg(test)]
pub(super) mod strict;
#[cfg(test)]
mod tests;

use super::visitor::Visitor;
use super::{Shared, answers};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;

/// The media type of OpenMetrics.
const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/metrics", get(metrics))
}

async fn metrics(State(shared): State<Arc<Shared>>, visitor: Visitor) -> Response {
    if !visitor.client().config().web.metrics {
        return answers::no_page().await;
    }
    if !visitor.may_operate() {
        let text = "The figures are for those whom an [[access]] section of the configuration says operator.";
        return answers::text(StatusCode::FORBIDDEN, text);
    }
    let Some(report) = shared.report() else {
        return answers::text(StatusCode::SERVICE_UNAVAILABLE, "The server is stopping.");
    };
    match encode::text(&report, latencies::of(&shared.site)) {
        Ok(text) => answers::of_type(StatusCode::OK, MEDIA_TYPE, text),
        Err(_) => answers::text(StatusCode::INTERNAL_SERVER_ERROR, "The figures cannot be written."),
    }
}
