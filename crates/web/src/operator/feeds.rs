//! Feeds to peers: how far they are behind, what is set aside and why; stop, resume, retry, give up.

use super::desk::{ActionNotice, OperatorDesk, PlannedAction};
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
use site_base::units::{about_size, about_span, counted, grouped};
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
    let peer = [("peer", name)];
    html! {
        section.card {
            h2 { (name) " " span.state.(feed.state) { (feed.state) } }
            @if let Some(error) = &feed.last_error { p.problem { (error) } }
            dl {
                dt { "not sent yet" }
                dd {
                    (counted(feed.lag_articles, "article"))
                    @if feed.lag_articles > 0 { ", the oldest " (about_span(feed.lag_secs)) " ago" }
                }
                dt { "to be offered again" } dd { (grouped(feed.waiting)) }
                @if let Some(secs) = feed.retry_secs { dt { "next attempt" } dd { "in " (about_span(secs)) } }
                dt { "taken" } dd { (grouped(feed.accepted)) " of " (grouped(feed.offered)) " offered, " (about_size(feed.sent_bytes)) }
                dt { "refused, rejected, deferred" }
                dd { (grouped(feed.refused)) ", " (grouped(feed.rejected)) ", " (grouped(feed.deferred)) }
                @if feed.missed > 0 { dt { "missed" } dd { (grouped(feed.missed)) } }
                @if feed.given_up > 0 { dt { "given up" } dd { (grouped(feed.given_up)) } }
                @if let Some(output) = &feed.output {
                    dt { "output" } dd { (output.to) ": " (grouped(output.waiting_files)) " files, " (about_size(output.waiting_bytes)) }
                }
            }
            @if !feed.set_aside_articles.is_empty() { (set_aside(feed)) }
            div.ways {
                @if feed.state == "stopped" { (desk.button("Resume", "start", &peer)) }
                @else { (desk.button("Stop", "stop", &peer)) }
                (desk.button("Retry now", "retry", &peer))
                @if feed.output.is_some() { (desk.button("Make a batch now", "batch", &peer)) }
                (desk.button("Give up what waits", "give-up", &peer))
            }
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
