//! The audit log: the newest actions of operators.

use super::desk::{OperatorDesk, ago};
use super::paths;
use crate::WebState;
use crate::answers;
use crate::visitor::Visitor;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use operators::audit::AuditEntry;
use site_base::clock::unix_secs;
use std::sync::Arc;
use tokio::task::spawn_blocking;
use tracing::warn;

const PATH: &str = paths::AUDIT;
/// Actions that are listed.
const ENTRIES_MAX: usize = 200;

pub(super) async fn show(
    State(shared): State<Arc<WebState>>,
    visitor: Visitor,
) -> Result<Response, Response> {
    let desk = OperatorDesk::open(&shared, &visitor, PATH)?;
    let server = desk.server().clone();
    let read = spawn_blocking(move || server.audit.newest(ENTRIES_MAX)).await;
    let entries = match read {
        Ok(Ok(entries)) => entries,
        unread => {
            warn!(?unread, "the audit log cannot be read");
            return Err(answers::text(StatusCode::INTERNAL_SERVER_ERROR, "The audit log cannot be read."));
        }
    };
    let now = unix_secs();
    let body = html! {
        @if entries.is_empty() { p { "No operator has acted yet." } }
        @else {
            p.quiet { "The newest " (entries.len()) " actions, on pages and by commands." }
            div.card.table { table {
                thead { tr {
                    @for title in ["when", "who", "from", "action", "result"] { th scope="col" { (title) } }
                } }
                tbody { @for entry in &entries { (one(entry, now)) } }
            } }
        }
    };
    Ok(desk.page("Audit", None, &body))
}

fn one(entry: &AuditEntry, now: u64) -> Markup {
    html! {
        tr {
            th scope="row" { (ago(entry.at, now)) }
            td data-label="who" { (entry.by.user) }
            td data-label="from" { (entry.by.road.word()) " " (entry.by.address) }
            td.wide data-label="action" { code { (entry.action) } }
            td.wide data-label="result" {
                @if entry.ok { span.state.sending { "done" } } @else { span.state.stopped { "failed" } }
                " " (entry.said)
            }
        }
    }
}
