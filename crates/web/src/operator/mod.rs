//! The operator's pages: the state of the server on one page, and pages on which operators act.
//!
//! On the first trouble comes first, in words; then traffic, the buffers, how long articles stay, peers, and
//! the last events. It is made from one report and earlier samples (`samples`); `figures` draws. On the
//! others an action is a form, carried out by the operation of the same command (`desk`). Shown to clients
//! whose `[[access]]` section allows `operator`; those whose section allows `manage` act.

mod accounts;
mod audit;
mod cache;
pub(super) mod desk;
mod feeds;
mod figures;
mod filters;
mod moderation;
mod parts;
pub(super) mod paths;
pub(super) mod samples;

use super::page::HtmlPage;
use super::visitor::Visitor;
use super::{WebState, answers};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use desk::OperatorDesk;
use maud::html;
use operators::trouble;
use site::log::recent;
use site_base::clock::unix_secs;
use std::sync::Arc;

/// Seconds between refreshes by a browser that shows the page.
const REFRESH_SECS: u32 = 5;

pub(super) fn routes() -> Router<Arc<WebState>> {
    Router::new()
        .route(paths::OVERVIEW, get(operator))
        .route(paths::MODERATION, get(moderation::show).post(moderation::act))
        .route(paths::FILTERS, get(filters::show).post(filters::act))
        .route(paths::FEEDS, get(feeds::show).post(feeds::act))
        .route(paths::CACHE, get(cache::show).post(cache::act))
        .route(paths::ACCOUNTS, get(accounts::show).post(accounts::act))
        .route(paths::AUDIT, get(audit::show))
}

async fn operator(State(shared): State<Arc<WebState>>, visitor: Visitor) -> Result<Response, Response> {
    OperatorDesk::open(&shared, &visitor, paths::OVERVIEW)?;
    let Some(report) = shared.report() else { return Err(desk::stopping()) };
    let Some(server) = &report.server else { return Err(answers::no_page().await) };
    let (now, samples) = (unix_secs(), &shared.samples);
    let body = html! {
        (parts::heading(&report, server))
        (desk::navigation(paths::OVERVIEW))
        (parts::troubles(&trouble::all(&report, now)))
        (parts::tiles(&report, server, samples))
        (parts::cluster(server.cluster.as_ref()))
        (parts::buffers(&report.spool, now))
        (parts::classes(&report.spool, now))
        (parts::peers_in(server, samples))
        (parts::peers_out(server, samples))
        (parts::events(&recent::events(), now))
    };
    Ok(HtmlPage::new(&shared, &visitor, "Server").refreshed_every(REFRESH_SECS).answer(StatusCode::OK, &body))
}
