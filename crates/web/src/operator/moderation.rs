//! Posts that wait for a moderator here: read, approve, refuse.

use super::desk::{ActionNotice, OperatorDesk, PlannedAction, ago};
use super::paths;
use crate::WebState;
use crate::answers;
use crate::form::{FormSubmission, asked};
use crate::memory::AnswerReservation;
use crate::visitor::Visitor;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use maud::{Markup, html};
use netnews::nntp::wire::dot_stuff;
use newspages::content::ArticleContent;
use newspages::{header, view};
use operators::moderation::{ModerationCommand, ModerationOperation};
use operators::reply::{HeldRow, Reply};
use site_base::clock::unix_secs;
use site_base::units::counted;
use std::sync::Arc;

const PATH: &str = paths::MODERATION;
/// Posts on a page.
const POSTS_MAX: usize = 10;
/// Most bytes of a post that are read, and of those its text.
const POST_BYTES_MAX: usize = 64 << 10;
const TEXT_BYTES_MAX: usize = 32 << 10;
/// Memory for a page: each post as read, in wire format, as text and as markup.
const MEMORY_BYTES: usize = POSTS_MAX * (4 * POST_BYTES_MAX + 12 * TEXT_BYTES_MAX);
/// Longest reason of a refusal, in bytes.
const REASON_BYTES_MAX: usize = 2_000;

pub(super) async fn show(
    State(shared): State<Arc<WebState>>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    let desk = OperatorDesk::open(&shared, &visitor, PATH)?;
    let page = asked(query.as_deref(), "page").parse().unwrap_or(1);
    held(&desk, page, None).await
}

pub(super) async fn act(
    State(shared): State<Arc<WebState>>,
    form: FormSubmission,
) -> Result<Response, Response> {
    let desk = OperatorDesk::open(&shared, &form.visitor, PATH)?;
    let notice = desk.act(&form, planned(&form)).await?;
    held(&desk, 1, Some(&notice)).await
}

fn planned(form: &FormSubmission) -> Option<PlannedAction> {
    let (id, reason) = (form.field("id").to_owned(), form.field("reason").trim().to_owned());
    match form.field("action") {
        "approve" => {
            let command = ModerationCommand::Approve { message_ids: vec![id], by: None };
            Some(PlannedAction::at_once(ModerationOperation { command }))
        }
        "refuse" if (1..=REASON_BYTES_MAX).contains(&reason.len()) => {
            let question =
                format!("The post {id} will be deleted, and its poster mailed this reason: {reason}");
            let command = ModerationCommand::Reject { message_id: id, reason };
            Some(PlannedAction::after(question, ModerationOperation { command }))
        }
        _ => None,
    }
}

/// Returns a page of the posts that wait, the oldest first; pages count from 1.
async fn held(
    desk: &OperatorDesk<'_>,
    page: usize,
    notice: Option<&ActionNotice>,
) -> Result<Response, Response> {
    let list = ModerationOperation { command: ModerationCommand::List { json: false } };
    let rows = desk.ask(list, Vec::new(), |rows: &mut Vec<HeldRow>, reply| {
        if let Reply::Held(row) = reply {
            rows.push(row);
        }
    });
    let rows = rows.await?;
    let pages = rows.len().div_ceil(POSTS_MAX).max(1);
    let page = page.clamp(1, pages);
    let shown = rows.iter().skip((page - 1) * POSTS_MAX).take(POSTS_MAX);
    let memory = desk.visitor().memory().take(MEMORY_BYTES).await.map_err(|_| answers::busy())?;
    let mut posts = Vec::new();
    for row in shown {
        let command = ModerationCommand::Show { message_id: row.message_id.clone() };
        let text = desk.ask(ModerationOperation { command }, String::new(), |text: &mut String, reply| {
            if let Reply::Text(mut post) = reply {
                post.truncate(post.floor_char_boundary(POST_BYTES_MAX));
                post.shrink_to_fit();
                *text = post;
            }
        });
        posts.push((row, text.await?));
    }
    let texts = posts.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>();
    let limit = desk.visitor().client().config().web.page_timeout;
    let render = move || texts.iter().map(|text| text_of(text)).collect::<Vec<Markup>>();
    let rendered = desk.shared().renderers.render(limit, POSTS_MAX * POST_BYTES_MAX, render).await;
    let rendered = rendered.map_err(|_| answers::busy())?;
    let now = unix_secs();
    let body = html! {
        p.quiet { (counted(rows.len() as u64, "post")) " " @if rows.len() == 1 { "waits" } @else { "wait" } " here for a moderator." }
        @for ((row, source), text) in posts.iter().zip(&rendered) { (one(desk, row, source, text, now)) }
        @if pages > 1 {
            nav.pages aria-label="Pages" {
                @if page > 1 { a rel="prev" href={ (PATH) "?page=" (page - 1) } { "Older" } " " }
                span.quiet { "Page " (page) " of " (pages) } " "
                @if page < pages { a rel="next" href={ (PATH) "?page=" (page + 1) } { "Newer" } }
            }
        }
    };
    Ok(AnswerReservation::with(desk.page("Moderation", notice, &body), memory))
}

/// Renders the text of a post as [`ModerationCommand::Show`] has it: a line about it, an empty line, and the
/// article.
fn text_of(shown: &str) -> Markup {
    let article = shown.split_once("\n\n").map_or("", |(_, article)| article);
    let mut wire = Vec::new();
    dot_stuff(article.as_bytes(), &mut wire);
    view::unfiled(&ArticleContent::of(&wire, TEXT_BYTES_MAX))
}

fn one(desk: &OperatorDesk<'_>, row: &HeldRow, source: &str, text: &Markup, now: u64) -> Markup {
    let id = [("id", row.message_id.as_str())];
    let subject = header::text(row.subject.as_bytes());
    let reason = html! {
        label.hidden for={ "reason" (row.message_id) } { "Reason of the refusal, for the poster" }
        input id={ "reason" (row.message_id) } name="reason" type="text" maxlength=(REASON_BYTES_MAX)
            placeholder="Why, for the poster" required;
    };
    html! {
        section.card.held {
            h2 dir="auto" { @if subject.is_empty() { "(no subject)" } @else { (subject) } }
            dl.head {
                dt { "From" } dd dir="auto" { (header::text(row.from.as_bytes())) }
                dt { "For" } dd { (row.group) }
                dt { "Posted" }
                dd { (ago(row.queued, now)) ", from " (row.address) @if !row.user.is_empty() { " as " (row.user) } }
                dt { "Message-ID" } dd { code { (row.message_id) } }
            }
            (text)
            details { summary { "Source" } pre.text { "\n" (source) } }
            div.ways {
                (desk.button("Approve", "approve", &id))
                (desk.form("Refuse", "refuse", &id, &reason))
            }
        }
    }
}
