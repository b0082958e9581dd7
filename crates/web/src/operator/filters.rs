//! What filters found: counts, the newest findings, and their release.

use super::desk::{ActionNotice, OperatorDesk, PlannedAction, ago};
use super::figure_table::{FigureRow, figure_section, figure_table};
use super::paths;
use crate::WebState;
use crate::form::{FormSubmission, asked};
use crate::visitor::Visitor;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use maud::{Markup, html};
use newspages::{header, urls};
use operators::filter::{FilterCommand, FilterOperation};
use operators::reply::{Reply, ReviewRow};
use operators::report::{Report, SpamSource};
use site_base::clock::unix_secs;
use site_base::units::grouped;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

const PATH: &str = paths::FILTERS;
/// Findings that are listed.
const ROWS_MAX: usize = 100;
/// Reasons that are counted.
const REASONS_MAX: usize = 100;
/// Time for which findings are counted, in seconds.
const COUNTED_SECS: u64 = 86_400;

pub(super) async fn show(
    State(shared): State<Arc<WebState>>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    let desk = OperatorDesk::open(&shared, &visitor, PATH)?;
    let filter = Some(asked(query.as_deref(), "filter")).filter(|filter| !filter.is_empty());
    found(&desk, filter, None).await
}

pub(super) async fn act(
    State(shared): State<Arc<WebState>>,
    form: FormSubmission,
) -> Result<Response, Response> {
    let desk = OperatorDesk::open(&shared, &form.visitor, PATH)?;
    let notice = desk.act(&form, planned(&form)).await?;
    found(&desk, None, Some(&notice)).await
}

fn planned(form: &FormSubmission) -> Option<PlannedAction> {
    let id = form.field("id").to_owned();
    (form.field("action") == "release").then(|| {
        let question = format!(
            "{id} will be shown, or accepted when it comes, and goes to peers. The filter does not judge it any more."
        );
        let command = FilterCommand::Release { message_ids: vec![id] };
        PlannedAction::after(question, FilterOperation { command })
    })
}

/// Findings as they are heard, the oldest first.
#[derive(Default)]
struct HeardFindings {
    newest: VecDeque<ReviewRow>,
    /// Findings of the last day, by filter, action and reason.
    counts: BTreeMap<(String, String, String), u64>,
    since: u64,
}

impl HeardFindings {
    fn hear(&mut self, reply: Reply) {
        let Reply::Review(row) = reply else { return };
        if row.at >= self.since {
            let key = (row.filter.clone(), row.finding.clone(), row.reason.clone());
            if self.counts.len() < REASONS_MAX || self.counts.contains_key(&key) {
                *self.counts.entry(key).or_default() += 1;
            }
        }
        if self.newest.len() >= ROWS_MAX {
            self.newest.pop_front();
        }
        self.newest.push_back(row);
    }
}

async fn found(
    desk: &OperatorDesk<'_>,
    filter: Option<String>,
    notice: Option<&ActionNotice>,
) -> Result<Response, Response> {
    let now = unix_secs();
    let review = FilterOperation { command: FilterCommand::Review { filter, since: None, json: false } };
    let none = HeardFindings { since: now.saturating_sub(COUNTED_SECS), ..HeardFindings::default() };
    let heard = desk.ask(review, none, HeardFindings::hear).await?;
    let report = desk.server().report();
    let body = html! {
        (checks(&report, now))
        @if let Some(server) = &report.server {
            (sources("sites", "Injecting sites", &server.spam_sources.sites))
            (sources("addresses", "Posting addresses", &server.spam_sources.addresses))
        }
        (counts(&heard))
        section aria-labelledby="findings" {
            h2 #findings { "Newest findings" }
            @if heard.newest.is_empty() { p { "Filters have found nothing." } }
            @else {
                div.card.table { table {
                    thead { tr {
                        @for title in ["when", "filter", "finding", "article", "reason", "release"] {
                            th scope="col" { (title) }
                        }
                    } }
                    tbody { @for row in heard.newest.iter().rev() { (finding(desk, row, now)) } }
                } }
            }
        }
    };
    Ok(desk.page("Filters", notice, &body))
}

/// Renders the built-in filters and filter programs with their counts since the start.
fn checks(report: &Report, now: u64) -> Markup {
    let (spam, programs) = match &report.server {
        Some(server) => (server.spam.as_slice(), server.filters.as_slice()),
        None => (&[][..], &[][..]),
    };
    html! {
        section aria-labelledby="built-in" {
            h2 #built-in { "Built-in filters since the start" }
            @if spam.is_empty() { p { "None is on: " code { "[spam]" } " turns them on." } }
            @else {
                (figure_table("filter", &[], spam.iter().map(FigureRow::of), now))
            }
        }
        (figure_section("Filter programs since the start", "programs", "filter", programs, now))
    }
}

/// Renders the busiest sources of articles, of one kind.
fn sources(id: &str, title: &str, sources: &[SpamSource]) -> Markup {
    let in_hour =
        |of_day: u64, of_hour: u64| html! { (grouped(of_day)) " " span.quiet { "(" (grouped(of_hour)) ")" } };
    html! {
        @if !sources.is_empty() {
            section aria-labelledby=(id) {
                h2 id=(id) { (title) }
                p.quiet { "Articles of the last day, and of the last hour, that the built-in filters have seen." }
                div.card.table { table {
                    thead { tr {
                        th scope="col" { "name" }
                        @for title in ["articles", "refused or hidden", "would have refused"] {
                            th.n scope="col" { (title) }
                        }
                    } }
                    tbody { @for SpamSource { name, hour, day } in sources { tr {
                        th scope="row" dir="auto" { (name) }
                        td.n data-label="articles" { (in_hour(day.articles, hour.articles)) }
                        td.n data-label="refused or hidden" { (in_hour(day.refused, hour.refused)) }
                        td.n data-label="would have refused" { (in_hour(day.would_refuse, hour.would_refuse)) }
                    } } }
                } }
            }
        }
    }
}

fn counts(heard: &HeardFindings) -> Markup {
    html! {
        @if !heard.counts.is_empty() {
            section aria-labelledby="counts" {
                h2 #counts { "Findings of the last day" }
                div.card.table { table {
                    thead { tr {
                        @for title in ["filter", "finding", "reason"] { th scope="col" { (title) } }
                        th.n scope="col" { "articles" }
                    } }
                    tbody { @for ((filter, finding, reason), count) in &heard.counts { tr {
                        th scope="row" { a href={ (PATH) "?filter=" (urls::escape(filter)) } { (filter) } }
                        td data-label="finding" { (finding) }
                        td.wide data-label="reason" { (reason) }
                        td.n data-label="articles" { (grouped(*count)) }
                    } } }
                } }
            }
        }
    }
}

fn finding(desk: &OperatorDesk<'_>, row: &ReviewRow, now: u64) -> Markup {
    html! {
        tr {
            th scope="row" { (ago(row.at, now)) }
            td data-label="filter" { (row.filter) }
            td data-label="finding" { (row.finding) }
            td.wide data-label="article" { div {
                span dir="auto" { (header::text(row.subject.as_bytes())) } br;
                span.quiet { (row.groups) } " "
                a href=(urls::article(&row.message_id)) { (row.message_id) }
            } }
            td.wide data-label="reason" { (row.reason) }
            td data-label="release" {
                (row.release)
                @if !row.release.is_empty() { (desk.button("Release", "release", &[("id", &row.message_id)])) }
            }
        }
    }
}
