//! What the pages have in common on which operators act: rights, requests, confirmations, results.
//!
//! An action is a form with its token, carried out by the operation of the same command, through the one
//! dispatch (`operators::dispatch`), which records it in the audit log. What cannot be undone is asked about
//! first. Called by the pages beside this file.

use super::paths;
use crate::form::FormSubmission;
use crate::page::{self, HtmlPage, form_token};
use crate::visitor::Visitor;
use crate::{WebState, answers};
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use operators::audit::{AuditParty, AuditRoad};
use operators::dispatch;
use operators::operation::OperatedSite;
use operators::reply::Reply;
use operators::request::Request;
use operators::running::Server;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::error;

/// Requests of operators over the web that are carried out at once.
pub(crate) const REQUESTS_MAX: usize = 4;
/// Time that a request waits for others.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Lines of an answer that are shown.
const LINES_MAX: usize = 20;
/// Name of the field of a confirmed form.
const CONFIRMED: &str = "confirmed";
/// Names of the pages, in the order of the navigation.
const PAGES: [(&str, &str); 7] = [
    (paths::OVERVIEW, "Overview"),
    (paths::MODERATION, "Moderation"),
    (paths::FILTERS, "Filters"),
    (paths::FEEDS, "Feeds"),
    (paths::CACHE, "Cache"),
    (paths::ACCOUNTS, "Accounts"),
    (paths::AUDIT, "Audit"),
];

/// A visitor who may see an operator's page, at its path.
pub(super) struct OperatorDesk<'a> {
    shared: &'a WebState,
    visitor: &'a Visitor,
    server: Arc<Server>,
    path: &'static str,
}

/// An action that a form asks for.
pub(super) struct PlannedAction {
    /// The request to carry out.
    pub request: Request,
    /// Question to be answered first, for what cannot be undone.
    pub question: Option<String>,
}

impl PlannedAction {
    /// Returns an action that can be undone.
    pub fn at_once(request: impl Into<Request>) -> Self {
        Self { request: request.into(), question: None }
    }

    /// Returns an action that is asked about.
    pub fn after(question: String, request: impl Into<Request>) -> Self {
        Self { request: request.into(), question: Some(question) }
    }
}

/// The result of an action.
pub(super) struct ActionNotice {
    ok: bool,
    lines: Vec<String>,
}

impl ActionNotice {
    /// Takes a line of an answer.
    fn hear(&mut self, reply: Reply) {
        if let Reply::Text(text) | Reply::Error(text) = reply
            && self.lines.len() < LINES_MAX
        {
            self.lines.push(text);
        }
    }
}

impl<'a> OperatorDesk<'a> {
    /// Opens the page at `path`, if the visitor may see it.
    #[expect(clippy::result_large_err, reason = "the answer is what the handler returns")]
    pub fn open(shared: &'a WebState, visitor: &'a Visitor, path: &'static str) -> Result<Self, Response> {
        if !visitor.client().config().web.operator {
            return Err(answers::text(StatusCode::NOT_FOUND, "There is no such page."));
        }
        if !visitor.may_operate() {
            return Err(page::forbidden(shared, visitor, path));
        }
        let server = shared.server.upgrade().ok_or_else(stopping)?;
        Ok(Self { shared, visitor, server, path })
    }

    /// Returns the visitor.
    pub fn visitor(&self) -> &Visitor {
        self.visitor
    }

    /// Returns the state that is shared by all requests.
    pub fn shared(&self) -> &WebState {
        self.shared
    }

    /// Returns the server.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Returns whether the page has forms for this visitor.
    pub fn has_forms(&self) -> bool {
        self.visitor.may_manage()
    }

    /// Asks a question of the server; `hear` takes the replies into `heard`.
    pub async fn ask<T: Send + 'static>(
        &self,
        request: impl Into<Request>,
        heard: T,
        hear: fn(&mut T, Reply),
    ) -> Result<T, Response> {
        self.carry_out(request.into(), heard, hear).await.map(|(_, heard)| heard)
    }

    async fn carry_out<T: Send + 'static>(
        &self,
        request: Request,
        mut heard: T,
        hear: fn(&mut T, Reply),
    ) -> Result<(bool, T), Response> {
        let Ok(Ok(_permit)) = timeout(WAIT_MAX, self.shared.desk.acquire()).await else {
            return Err(answers::busy());
        };
        let server = self.server.clone();
        let by = AuditParty {
            road: AuditRoad::Web,
            user: self.visitor.user().unwrap_or_default().to_owned(),
            address: self.visitor.client().address().to_string(),
        };
        let carrying_out = move || {
            let is_over = || server.site.is_stopping();
            let site = OperatedSite::Running { server: &server, is_over: &is_over };
            let ok = dispatch::carry_out(&request, &site, &by, &mut |reply| hear(&mut heard, reply));
            (ok, heard)
        };
        // A visitor that leaves does not interrupt an action.
        spawn_blocking(carrying_out).await.map_err(|error| {
            error!(%error, "a request of an operator failed");
            answers::text(StatusCode::INTERNAL_SERVER_ERROR, "That failed by a fault of newsreel's.")
        })
    }

    /// Carries out the action that a form asks for. The error is an answer: a refusal, or the question that
    /// comes first.
    pub async fn act(
        &self,
        form: &FormSubmission,
        planned: Option<PlannedAction>,
    ) -> Result<ActionNotice, Response> {
        if !self.visitor.may_manage() {
            return Err(page::forbidden(self.shared, self.visitor, self.path));
        }
        let Some(PlannedAction { request, question }) = planned else {
            return Ok(ActionNotice { ok: false, lines: vec!["The form is incomplete.".into()] });
        };
        if let Some(question) = question.filter(|_| form.field(CONFIRMED) != "yes") {
            return Err(self.confirmation(form, &question));
        }
        let none = ActionNotice { ok: false, lines: Vec::new() };
        let (ok, notice) = self.carry_out(request, none, ActionNotice::hear).await?;
        Ok(ActionNotice { ok, ..notice })
    }

    /// Returns the page that asks before something is done that cannot be undone.
    fn confirmation(&self, form: &FormSubmission, question: &str) -> Response {
        let fields = form.fields().filter(|(name, _)| *name != CONFIRMED);
        let body = html! {
            section.narrow.card {
                h1 { "Are you sure?" }
                p.asked { (question) }
                form method="post" action=(self.path) {
                    (form_token(self.shared, self.visitor))
                    @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
                    input type="hidden" name=(CONFIRMED) value="yes";
                    p.ways { button.final type="submit" { "Yes, do it" } a.button.quiet href=(self.path) { "No" } }
                }
            }
        };
        HtmlPage::new(self.shared, self.visitor, "Are you sure?").answer(StatusCode::OK, &body)
    }

    /// Renders a button that asks for an action, with these further fields.
    pub fn button(&self, words: &str, action: &str, fields: &[(&str, &str)]) -> Markup {
        self.form(words, action, fields, &html! {})
    }

    /// Renders a form that asks for an action: hidden fields, those in `inner`, and a button.
    pub fn form(&self, words: &str, action: &str, fields: &[(&str, &str)], inner: &Markup) -> Markup {
        html! {
            @if self.has_forms() {
                form.action method="post" action=(self.path) {
                    (form_token(self.shared, self.visitor))
                    input type="hidden" name="action" value=(action);
                    @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
                    (inner)
                    button.quiet type="submit" { (words) }
                }
            }
        }
    }

    /// Returns the page, after an action with its result.
    pub fn page(&self, title: &str, notice: Option<&ActionNotice>, body: &Markup) -> Response {
        let status = match notice {
            Some(ActionNotice { ok: false, .. }) => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::OK,
        };
        let body = html! {
            h1 { (title) }
            (navigation(self.path))
            @if let Some(notice) = notice { (shown(notice)) }
            (body)
            @if !self.has_forms() {
                p.quiet {
                    "To act here, log in as a user whose " code { "[[access]]" } " section says "
                    code { "manage = true" } "."
                }
            }
        };
        HtmlPage::new(self.shared, self.visitor, title).answer(status, &body)
    }
}

/// Renders the links to all operator's pages.
pub(super) fn navigation(here: &str) -> Markup {
    html! {
        nav.desk aria-label="Operator" {
            @for (path, words) in PAGES {
                a href=(path) aria-current=[(path == here).then_some("page")] { (words) } " "
            }
        }
    }
}

fn shown(notice: &ActionNotice) -> Markup {
    let (class, role) = if notice.ok { ("done", "status") } else { ("problem", "alert") };
    html! {
        div.(class) role=(role) {
            @for line in &notice.lines { p { (line) } }
            @if notice.lines.is_empty() { p { @if notice.ok { "Done." } @else { "That did not work." } } }
        }
    }
}

/// Returns the answer while the server stops.
pub(super) fn stopping() -> Response {
    answers::text(StatusCode::SERVICE_UNAVAILABLE, "The server is stopping.")
}

/// Renders how long ago a time was.
pub(super) fn ago(at: u64, now: u64) -> Markup {
    html! { (site_base::units::about_span(now.saturating_sub(at))) " ago" }
}
