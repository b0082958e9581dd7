//! Logging in and out.
//!
//! A password is checked by the same gate as for AUTHINFO, under the same lock-outs, accepted only where
//! AUTHINFO would accept it, and judged by the same filters. The page to go to afterwards is a path of ours,
//! never another site.

use super::form::FormSubmission;
use super::page::{FORGOTTEN_PATH, HtmlPage, SIGN_UP_PATH, form_token};
use super::visitor::Visitor;
use super::{WebState, answers};
use access::users::NAME_RULE;
use access::{LoginDenial, User};
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::header::{RETRY_AFTER, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use ingest::programs;
use maud::{Markup, html};
use newspages::urls::escape;
use site_config::SignUpMode;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::block_in_place;
use tracing::info;

/// Path of the page.
pub(super) const PATH: &str = "/login";
/// Beginning of the paths of logins at providers.
pub(super) const PROVIDERS_PATH: &str = "/login/with";
/// Name of logins over HTTP in the log.
const MECHANISM: &str = "WEB";

pub(super) fn routes() -> Router<Arc<WebState>> {
    Router::new().route(PATH, get(login_page).post(log_in)).route("/logout", post(log_out))
}

/// Returns the path of the page from which a visitor comes back to `path`, which needs no escaping.
pub(super) fn before(path: &str) -> String {
    format!("{PATH}?next={path}")
}

async fn login_page(
    State(shared): State<Arc<WebState>>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Response {
    let next = query.as_deref().and_then(|query| query.strip_prefix("next=")).map(str::as_bytes);
    let next = next.and_then(super::form::decoded).unwrap_or_default();
    page(&shared, &visitor, StatusCode::OK, local_path(&next), "", None)
}

/// Returns the login page with the problem of a login at a provider.
pub(super) fn refused(
    shared: &WebState,
    visitor: &Visitor,
    status: StatusCode,
    next: &str,
    problem: &str,
) -> Response {
    page(shared, visitor, status, next, "", Some(problem))
}

/// Returns `path` if it is a path of ours, else that of the home page.
pub(super) fn local_path(path: &str) -> &str {
    let is_plain = |c: char| c.is_ascii_graphic() && c != '\\';
    let is_ours = path.starts_with('/') && !path.starts_with("//") && path.chars().all(is_plain);
    if is_ours { path } else { "/" }
}

fn page(
    shared: &WebState,
    visitor: &Visitor,
    status: StatusCode,
    next: &str,
    name: &str,
    problem: Option<&str>,
) -> Response {
    let body = html! {
        section.narrow.card {
            h1 { "Log in" }
            @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
            @if let Some(user) = visitor.user() {
                p { "You are logged in as " strong { (user) } "." }
            } @else if visitor.may_log_in() {
                @if visitor.may_send_password() {
                    (form(shared, visitor, next, name))
                    @if shared.config().web.reset_by_mail {
                        p { a href=(FORGOTTEN_PATH) { "Forgotten your password?" } }
                    }
                }
                @if visitor.may_log_in_elsewhere() { (providers(shared, next)) }
                @if shared.config().web.sign_up != SignUpMode::Closed {
                    p { "No account yet? " a href=(SIGN_UP_PATH) { "Sign up" } }
                }
            } @else if visitor.may_log_in_encrypted() {
                p { "This connection is not encrypted, so no password is taken here. Use https." }
            } @else {
                p { "Nobody can log in here with a password." }
            }
        }
    };
    HtmlPage::new(shared, visitor, "Log in").answer(status, &body)
}

fn form(shared: &WebState, visitor: &Visitor, next: &str, name: &str) -> Markup {
    html! {
        form.stacked method="post" action="/login" {
            (form_token(shared, visitor))
            input type="hidden" name="next" value=(next);
            label for="user" { "Name" }
            input #user name="user" value=(name) autocomplete="username" autocapitalize="none"
                spellcheck="false" required;
            label for="password" { "Password" }
            input #password name="password" type="password" autocomplete="current-password" required;
            button type="submit" { "Log in" }
        }
    }
}

/// Renders the buttons of all providers: links, which need no script.
fn providers(shared: &WebState, next: &str) -> Markup {
    let config = shared.config();
    html! {
        @for provider in &config.providers {
            p {
                a.button rel="nofollow" href=(format!("{PROVIDERS_PATH}/{}?next={}", provider.name, escape(next))) {
                    "Log in with " (provider.shown_name())
                }
            }
        }
    }
}

async fn log_in(State(shared): State<Arc<WebState>>, form: FormSubmission) -> Response {
    let visitor = &form.visitor;
    let (name, next) = (form.field("user"), local_path(form.field("next")));
    let refused = |status, problem: &str| page(&shared, visitor, status, next, name, Some(problem));
    if visitor.user().is_some() {
        return answers::gone_to(next);
    }
    if !visitor.may_send_password() {
        return refused(StatusCode::FORBIDDEN, "No password is taken over this connection.");
    }
    let (gate, caller) = (&shared.site.gate, visitor.client().caller());
    let judged = gate.password(caller, name.as_bytes(), form.field("password").as_bytes(), MECHANISM).await;
    match judged.map_err(LoginProblem::from).and_then(|user| begin(&shared, visitor, user)) {
        Ok(cookie) => with_cookie(answers::gone_to(next), cookie),
        Err(problem) => problem.answered(|status, text| refused(status, text)),
    }
}

/// The reason why a login fails, for the page.
pub(super) struct LoginProblem {
    status: StatusCode,
    text: String,
    retry_secs: Option<u64>,
}

impl LoginProblem {
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), retry_secs: None }
    }

    /// A limit is reached, and there is room again after this time.
    pub fn limited(text: impl Into<String>, retry_secs: u64) -> Self {
        Self { retry_secs: Some(retry_secs), ..Self::new(StatusCode::TOO_MANY_REQUESTS, text) }
    }

    /// Returns the page that `page` makes of it.
    pub fn answered(&self, page: impl FnOnce(StatusCode, &str) -> Response) -> Response {
        let mut answer = page(self.status, &self.text);
        if let Some(seconds) = self.retry_secs {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        answer
    }
}

impl From<LoginDenial> for LoginProblem {
    fn from(denial: LoginDenial) -> Self {
        match denial {
            LoginDenial::Wrong => Self::new(StatusCode::FORBIDDEN, "Wrong name or password."),
            LoginDenial::Locked(left) => {
                let seconds = left.as_secs() + 1;
                Self::limited(format!("Too many failures. Try again in {seconds} s."), seconds)
            }
            LoginDenial::Nameless => {
                Self::new(StatusCode::FORBIDDEN, format!("Your name there is not usable here: {NAME_RULE}."))
            }
            LoginDenial::Trouble => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "Passwords cannot be checked now.")
            }
        }
    }
}

/// Begins the login of a user who has proven to be one, unless a filter refuses; returns the cookie.
pub(super) fn begin(
    shared: &WebState,
    visitor: &Visitor,
    user: Arc<User>,
) -> Result<Option<HeaderValue>, LoginProblem> {
    judge(shared, visitor, &user)?;
    let config = shared.config();
    let mark = shared.site.gate.password_mark(&user.name);
    let no_login = || LoginProblem::new(StatusCode::SERVICE_UNAVAILABLE, "No login can begin now.");
    let id = shared.sessions.begin(user, mark, &config.web, Instant::now()).ok_or_else(no_login)?;
    if let Some(old) = visitor.id() {
        shared.sessions.end(old);
    }
    Ok(visitor.cookie(&id))
}

/// Asks the filters about a login that has succeeded.
fn judge(shared: &WebState, visitor: &Visitor, user: &User) -> Result<(), LoginProblem> {
    let address = visitor.client().address().to_string();
    let filer = &shared.site.filer;
    match block_in_place(|| filer.with_filters(|filters| filters.login(&address, &user.name))) {
        Ok(()) => Ok(()),
        Err(programs::ProgramVerdict::Reject(reason)) => {
            info!(address, user = &*user.name, reason, "login refused by a filter");
            Err(LoginProblem::new(StatusCode::FORBIDDEN, reason))
        }
        Err(_) => {
            let text = "Logins cannot be judged now, try again later.";
            Err(LoginProblem::new(StatusCode::SERVICE_UNAVAILABLE, text))
        }
    }
}

async fn log_out(State(shared): State<Arc<WebState>>, form: FormSubmission) -> Response {
    if let Some(id) = form.visitor.id() {
        shared.sessions.end(id);
    }
    // The browser gets another identifier with the next form.
    let new = shared.sessions.new_id().and_then(|id| form.visitor.cookie(&id));
    with_cookie(answers::gone_to("/"), new)
}

/// Adds a cookie to an answer, if there is one.
pub(super) fn with_cookie(mut answer: Response, cookie: Option<HeaderValue>) -> Response {
    if let Some(cookie) = cookie {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::local_path;

    #[test]
    fn redirects_never_lead_to_another_site() {
        for path in ["/", "/operator", "/groups/misc.test?page=2#a"] {
            assert_eq!(local_path(path), path);
        }
        for path in [
            "",
            "x",
            "//evil.example/",
            "/\\evil.example",
            "https://evil.example/",
            "/a\r\nSet-Cookie: a=b",
            "/\t/evil.example",
            "javascript:alert(1)",
            "/\u{2028}",
        ] {
            assert_eq!(local_path(path), "/", "{path:?}");
        }
    }
}
