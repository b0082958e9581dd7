//! Feeds to peers: how far they are behind, what is set aside and why; stop, resume, retry, give up.

use super::desk::{ActionNotice, OperatorDesk, PlannedAction};
use super::figure_table::figure_list;
use super::paths;
use crate::WebState;
use crate::form::FormSubmission;
use crate::visitor::Visitor;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use newspages::urls;
use operators::feed::{BatchOperation, FeedCommand, FeedOperation};
use operators::report::FeedStatus;
use site_base::clock::unix_secs;
use site_base::units::grouped;
use std::sync::Arc;

const PATH: &str = paths::FEEDS;
/// Peers that are shown.
const PEERS_MAX: usize = 500;
/// Articles that are listed for a peer.
const ARTICLES_MAX: usize = 50;

pub(super) async fn show(
    State(shared): State<Arc<WebState>>,
    visitor: Visitor,
) -> Result<Response, Response> {
    let desk = OperatorDesk::open(&shared, &visitor, PATH)?;
    Ok(all(&desk, None))
}

pub(super) async fn act(
    State(shared): State<Arc<WebState>>,
    form: FormSubmission,
) -> Result<Response, Response> {
    let desk = OperatorDesk::open(&shared, &form.visitor, PATH)?;
    let notice = desk.act(&form, planned(&form)).await?;
    Ok(all(&desk, Some(&notice)))
}

fn planned(form: &FormSubmission) -> Option<PlannedAction> {
    let peer = form.field("peer").to_owned();
    let order = |command| Some(PlannedAction::at_once(FeedOperation { peer: peer.clone(), command }));
    match form.field("action") {
        "start" => order(FeedCommand::Start),
        "stop" => order(FeedCommand::Stop),
        "retry" => order(FeedCommand::Flush),
        "batch" => Some(PlannedAction::at_once(BatchOperation { peer: peer.clone() })),
        "give-up" => {
            let question = format!("Nothing that waits for {peer} now will be sent to it.");
            let command = FeedCommand::From { place: "now".to_owned() };
            Some(PlannedAction::after(question, FeedOperation { peer: peer.clone(), command }))
        }
        _ => None,
    }
}

fn all(desk: &OperatorDesk<'_>, notice: Option<&ActionNotice>) -> Response {
    let report = desk.server().report();
    let peers = report.server.iter().flat_map(|server| &server.peers);
    let fed: Vec<(&str, &FeedStatus)> =
        peers.filter_map(|peer| Some((peer.name.as_str(), peer.feed.as_ref()?))).take(PEERS_MAX).collect();
    let body = html! {
        @if fed.is_empty() { p { "No peer is fed: no " code { "[[peer]]" } " has " code { "send" } "." } }
        @for (name, feed) in fed { (one(desk, name, feed)) }
    };
    desk.page("Feeds", notice, &body)
}

fn one(desk: &OperatorDesk<'_>, name: &str, feed: &FeedStatus) -> Markup {
    let (peer, now) = ([("peer", name)], unix_secs());
    html! {
        section.card {
            h2 { (name) " " span.state.(feed.state) { (feed.state) } }
            (figure_list(feed, now))
            @if let Some(output) = &feed.output { h3 { "Output" } (figure_list(output, now)) }
            @if !feed.set_aside_articles.is_empty() { (set_aside(feed)) }
            @if feed.state == "elsewhere" { p { "Another member of the cluster feeds this peer." } }
            @else { div.ways {
                @if feed.state == "stopped" { (desk.button("Resume", "start", &peer)) }
                @else { (desk.button("Stop", "stop", &peer)) }
                (desk.button("Retry now", "retry", &peer))
                @if feed.output.is_some() { (desk.button("Make a batch now", "batch", &peer)) }
                (desk.button("Give up what waits", "give-up", &peer))
            } }
        }
    }
}

fn set_aside(feed: &FeedStatus) -> Markup {
    html! {
        h3 { "Articles with odd answers" }
        div.table { table {
            thead { tr {
                th scope="col" { "article" } th scope="col" { "last answer" }
                th.n scope="col" { "answers" } th scope="col" { "state" }
            } }
            tbody { @for article in feed.set_aside_articles.iter().rev().take(ARTICLES_MAX) { tr {
                th scope="row" { a href=(urls::article(&article.message_id)) { (article.message_id) } }
                td.wide data-label="last answer" { (article.answer) }
                td.n data-label="answers" { (grouped(article.answers)) }
                td data-label="state" { @if article.given_up { "given up" } @else { "offered again" } }
            } } }
        } }
    }
}
