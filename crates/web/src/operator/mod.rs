//! The operator's page: the state of the server on one page.
//!
//! Trouble comes first, in words; then traffic, the buffers, how long articles stay, peers, and the last
//! events. Made from one report and earlier samples (`samples`); `figures` draws. Shown to clients whose
//! `[[access]]` section allows `operator`.

mod figures;
mod parts;
pub(super) mod samples;

use super::page::{self, HtmlPage};
use super::visitor::Visitor;
use super::{WebState, answers};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use maud::html;
use operators::trouble;
use site::log::recent;
use site_base::clock::unix_secs;
use std::sync::Arc;

/// Path of the page.
pub(super) const PATH: &str = "/operator";
/// Seconds between refreshes by a browser that shows the page.
const REFRESH_SECS: u32 = 5;

pub(super) fn routes() -> Router<Arc<WebState>> {
    Router::new().route(PATH, get(operator))
}

async fn operator(State(shared): State<Arc<WebState>>, visitor: Visitor) -> Response {
    if !visitor.client().config().web.operator {
        return answers::no_page().await;
    }
    if !visitor.may_operate() {
        return page::forbidden(&shared, &visitor, PATH);
    }
    let Some(report) = shared.report() else {
        return answers::text(StatusCode::SERVICE_UNAVAILABLE, "The server is stopping.");
    };
    let Some(server) = &report.server else { return answers::no_page().await };
    let (now, samples) = (unix_secs(), &shared.samples);
    let body = html! {
        (parts::heading(&report, server))
        (parts::troubles(&trouble::all(&report, now)))
        (parts::tiles(&report, server, samples))
        (parts::buffers(&report.spool, now))
        (parts::classes(&report.spool, now))
        (parts::peers_in(server, samples))
        (parts::peers_out(server, samples))
        (parts::events(&recent::events(), now))
    };
    HtmlPage::new(&shared, &visitor, "Server").refreshed_every(REFRESH_SECS).answer(StatusCode::OK, &body)
}
