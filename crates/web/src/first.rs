//! The home page: a description of the site and its parts.

use super::page::HtmlPage;
use super::visitor::Visitor;
use super::{WebState, operator};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use maud::html;
use std::sync::Arc;

pub(super) fn routes() -> Router<Arc<WebState>> {
    Router::new().route("/", get(first))
}

async fn first(State(shared): State<Arc<WebState>>, visitor: Visitor) -> Response {
    let config = visitor.client().config();
    let body = html! {
        section.narrow.card {
            h1 { (config.site.path_identity) }
            p { "A Usenet server. Newsreaders reach it over NNTP." }
            @if config.web.operator && visitor.may_operate() {
                p { a href=(operator::PATH) { "How the server is" } }
            }
            @if visitor.may_log_in() { p { a.button href="/login" { "Log in" } } }
        }
    };
    HtmlPage::new(&shared, &visitor, "News").answer(StatusCode::OK, &body)
}
