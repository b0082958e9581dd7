//! `/metrics`: the figures of `newsreel status --json` and the latencies, as OpenMetrics.
//!
//! The report declares each value with its type and help (`site_base::figures`). Names are those of the JSON,
//! joined with `_`: `server.peers[].offered` is `newsreel_server_peers_offered_total{peer="..."}`. A scrape
//! takes a report (see `operations::report`), so it needs neither the writer's lock nor a read of the
//! disk. Clients that accept Prometheus' text format and not OpenMetrics get that ([`plain`]). Sources:
//! OpenMetrics 1.0; RFC 9110 section 12.5.1.

mod encode;
mod latencies;
mod plain;
#[cfg(test)]
pub(super) mod strict;
#[cfg(test)]
mod tests;

use super::visitor::Visitor;
use super::{WebState, answers};
use axum::Router;
use axum::extract::State;
use axum::http::header::{ACCEPT, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;

/// The media type of OpenMetrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) fn routes() -> Router<Arc<WebState>> {
    Router::new().route("/metrics", get(metrics))
}

async fn metrics(State(shared): State<Arc<WebState>>, headers: HeaderMap, visitor: Visitor) -> Response {
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
    let text = encode::text(&report, latencies::of(&shared.site));
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let (media_type, text) = match wants_plain_text(accepted) {
        true => (plain::MEDIA_TYPE, text.map(|text| plain::of_open_metrics(&text))),
        false => (OPEN_METRICS, text),
    };
    match text {
        Ok(text) => {
            let mut answer = answers::of_type(StatusCode::OK, media_type, text);
            answer.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
            answer
        }
        Err(_) => answers::text(StatusCode::INTERNAL_SERVER_ERROR, "The figures cannot be written."),
    }
}

/// Returns true if the client prefers Prometheus' text format: it accepts that, and OpenMetrics less or not
/// at all. Clients that accept anything get OpenMetrics.
fn wants_plain_text<'a>(accepted: impl Iterator<Item = &'a str>) -> bool {
    let (mut plain, mut open) = (0, 0);
    for range in accepted.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
        let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let thousandths = quality.map_or(1_000, thousandths);
        match media_type.as_str() {
            "text/plain" | "text/*" => plain = thousandths.max(plain),
            "application/openmetrics-text" | "application/*" => open = thousandths.max(open),
            _ => {}
        }
    }
    plain > open
}

/// Parses a quality between 0 and 1, in thousandths; 0 if it is invalid.
fn thousandths(quality: &str) -> u32 {
    let (whole, rest) = quality.split_once('.').unwrap_or((quality, ""));
    let digits = format!("{whole}{rest:0<3}");
    digits.parse().ok().filter(|value| digits.len() == 4 && *value <= 1_000).unwrap_or(0)
}
