//! Upstreams and the cache: health, space, posts that wait for an upstream; retry, drop, purge, refresh,
//! hide.

use super::desk::{ActionNotice, OperatorDesk, PlannedAction, ago};
use super::figure_table::{FigureRow, figure_table};
use super::figures;
use super::paths;
use crate::WebState;
use crate::form::FormSubmission;
use crate::visitor::Visitor;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use newspages::header;
use operators::cached::{PurgeCacheOperation, RefreshCacheOperation};
use operators::hide::{HiddenFilter, HideOperation, UnhideOperation};
use operators::posts::{PostsCommand, PostsOperation};
use operators::reply::{PostRow, Reply};
use operators::report::{CacheStatus, UpstreamStatus};
use site_base::clock::unix_secs;
use site_base::units::{about_size, counted, grouped};
use std::sync::Arc;

const PATH: &str = paths::CACHE;
/// Posts that are listed.
const POSTS_MAX: usize = 100;
/// Groups that are listed.
const GROUPS_MAX: usize = 50;
/// Longest name of a group or an article, in bytes.
const NAME_BYTES_MAX: usize = 500;
/// Longest reason for hiding an article, in bytes.
const REASON_BYTES_MAX: usize = 200;

pub(super) async fn show(
    State(shared): State<Arc<WebState>>,
    visitor: Visitor,
) -> Result<Response, Response> {
    let desk = OperatorDesk::open(&shared, &visitor, PATH)?;
    all(&desk, None).await
}

pub(super) async fn act(
    State(shared): State<Arc<WebState>>,
    form: FormSubmission,
) -> Result<Response, Response> {
    let desk = OperatorDesk::open(&shared, &form.visitor, PATH)?;
    let notice = desk.act(&form, planned(&form)).await?;
    all(&desk, Some(&notice)).await
}

fn planned(form: &FormSubmission) -> Option<PlannedAction> {
    match form.field("action") {
        "purge" | "refresh" => planned_in_cache(form),
        _ => planned_for_article(form),
    }
}

/// Returns the action on what is cached.
fn planned_in_cache(form: &FormSubmission) -> Option<PlannedAction> {
    let name = form.field("name").trim().to_owned();
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return None;
    }
    Some(match form.field("action") {
        "purge" => {
            let question =
                format!("{name} will be dropped from the cache. It is fetched again when it is wanted.");
            PlannedAction::after(question, PurgeCacheOperation { names: vec![name] })
        }
        _ => PlannedAction::at_once(RefreshCacheOperation { groups: vec![name] }),
    })
}

/// Returns the action on a post or an article.
fn planned_for_article(form: &FormSubmission) -> Option<PlannedAction> {
    let message_id = form.field("id").trim().to_owned();
    let reason = Some(form.field("reason").trim().to_owned()).filter(|reason| !reason.is_empty());
    let upstream = Some(form.field("upstream").to_owned()).filter(|name| !name.is_empty());
    if message_id.is_empty() || reason.as_ref().is_some_and(|reason| reason.len() > REASON_BYTES_MAX) {
        return None;
    }
    let (message_ids, by) = (vec![message_id.clone()], HiddenFilter::default());
    Some(match form.field("action") {
        "retry" => {
            PlannedAction::at_once(PostsOperation { command: PostsCommand::Retry { message_id, upstream } })
        }
        "drop" => {
            let question = format!("The post {message_id} will be deleted, and not sent.");
            let command = PostsCommand::Drop { message_id, upstream };
            PlannedAction::after(question, PostsOperation { command })
        }
        "hide" => PlannedAction::at_once(HideOperation {
            message_ids,
            reason,
            dry_run: false,
            list: false,
            by,
            json: false,
        }),
        "unhide" => PlannedAction::at_once(UnhideOperation { message_ids, by, dry_run: false }),
        _ => return None,
    })
}

async fn all(desk: &OperatorDesk<'_>, notice: Option<&ActionNotice>) -> Result<Response, Response> {
    let list = PostsOperation { command: PostsCommand::List { json: false } };
    let posts = desk.ask(list, (0, Vec::new()), |(count, posts): &mut (u64, Vec<PostRow>), reply| {
        if let Reply::Post(post) = reply {
            *count += 1;
            if posts.len() < POSTS_MAX {
                posts.push(post);
            }
        }
    });
    let (count, posts) = posts.await?;
    let report = desk.server().report();
    let (upstreams, cache) = match &report.server {
        Some(server) => (server.upstreams.as_slice(), server.cache.as_ref()),
        None => (&[][..], None),
    };
    let body = html! {
        (of_upstreams(upstreams))
        @if let Some(cache) = cache {
            (space(cache))
            @if desk.has_forms() { (dropping(desk)) }
        }
        @if count > 0 { (waiting(desk, &posts, count)) }
        @if desk.has_forms() { (withdrawing(desk)) }
    };
    Ok(desk.page("Cache", notice, &body))
}

fn of_upstreams(upstreams: &[UpstreamStatus]) -> Markup {
    html! {
        section aria-labelledby="upstreams" {
            h2 #upstreams { "Upstreams" }
            @if upstreams.is_empty() { p { "There is no " code { "[[upstream]]" } "." } }
            @else {
                (figure_table("upstream", &["problem"], upstreams.iter().map(of_upstream), unix_secs()))
            }
        }
    }
}

fn of_upstream(upstream: &UpstreamStatus) -> FigureRow<'_, UpstreamStatus> {
    let state = match upstream.state() {
        "answers" => "sending",
        "away" => "stopped",
        _ => "paused",
    };
    FigureRow {
        head: html! {
            (upstream.name) " " span.quiet { (upstream.host) } " " span.state.(state) { (upstream.state()) }
        },
        figures: upstream,
        further: html! { td.wide data-label="problem" { (upstream.problem) } },
    }
}

fn space(cache: &CacheStatus) -> Markup {
    let requests = cache.kinds.iter().chain(cache.groups.iter().take(GROUPS_MAX));
    let share = if cache.size_bytes == 0 { 0.0 } else { cache.used_bytes as f64 / cache.size_bytes as f64 };
    let used = format!("{} of {}", about_size(cache.used_bytes), about_size(cache.size_bytes));
    html! {
        section aria-labelledby="space" {
            h2 #space { "Space" }
            div.card {
                p.value { (used) }
                (figures::bar(share, None, &used))
                p.quiet { "in " (counted(cache.files, "file")) }
            }
        }
        section aria-labelledby="requests" {
            h2 #requests { "Requests of readers" }
            (figure_table("kind or group", &[], requests.map(FigureRow::of), unix_secs()))
        }
    }
}

fn waiting(desk: &OperatorDesk<'_>, posts: &[PostRow], count: u64) -> Markup {
    let now = unix_secs();
    html! {
        section aria-labelledby="posts" {
            h2 #posts { "Posts for upstreams" }
            @if count > posts.len() as u64 { p.quiet { "The first " (posts.len()) " of " (grouped(count)) "." } }
            @for post in posts {
                @let fields = [("id", post.message_id.as_str()), ("upstream", post.upstream.as_str())];
                div.card.held {
                    h3 dir="auto" { (header::text(post.subject.as_bytes())) }
                    dl.head {
                        dt { "From" } dd dir="auto" { (header::text(post.from.as_bytes())) }
                        dt { "For" } dd { (post.groups) " at " (post.upstream) }
                        dt { "Posted" } dd { (ago(post.queued, now)) }
                        dt { "State" }
                        dd {
                            @if post.is_refused { "refused" } @else { "waits" }
                            @if !post.problem.is_empty() { ": " (post.problem) }
                        }
                        dt { "Message-ID" } dd { code { (post.message_id) } }
                    }
                    div.ways {
                        (desk.button("Send again now", "retry", &fields))
                        (desk.button("Drop", "drop", &fields))
                    }
                }
            }
        }
    }
}

fn dropping(desk: &OperatorDesk<'_>) -> Markup {
    let name = |label: &str, id: &str, example: &str| {
        html! {
            label for=(id) { (label) }
            input id=(id) name="name" type="text" placeholder=(example) maxlength=(NAME_BYTES_MAX) required;
        }
    };
    html! {
        section aria-labelledby="contents" {
            h2 #contents { "What is cached" }
            div.card {
                (desk.form("Refresh", "refresh", &[], &name("Ask the upstream of a group now", "refresh", "comp.lang.c")))
                (desk.form("Purge", "purge", &[], &name("Drop an article, or all of a group", "purge", "<left@right>")))
            }
        }
    }
}

fn withdrawing(desk: &OperatorDesk<'_>) -> Markup {
    let id = |label: &str, id: &str| {
        html! {
            label for=(id) { (label) }
            input id=(id) name="id" type="text" placeholder="<left@right>" maxlength="250" required;
        }
    };
    let hide = html! {
        (id("Hide an article", "hide"))
        label for="why" { "Why" }
        input #why name="reason" type="text" maxlength=(REASON_BYTES_MAX);
    };
    html! {
        section aria-labelledby="hiding" {
            h2 #hiding { "Articles, here or of an upstream" }
            div.card {
                (desk.form("Hide", "hide", &[], &hide))
                (desk.form("Show again", "unhide", &[], &id("Show a hidden article again", "unhide")))
            }
        }
    }
}
