//! Logging in and out.
//!
//! A password is checked by the same gate as for AUTHINFO, under the same lock-outs, accepted only where
//! AUTHINFO would accept it, and judged by the same filters. The page to go to afterwards is a path of ours,
//! never another site.

use super::form::FormSubmission;
use super::page::{HtmlPage, SIGN_UP_PATH, form_token};
use super::visitor::Visitor;
use super::{WebState, answers};
use access::{LoginDenial, User};
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::header::{RETRY_AFTER, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use ingest::programs;
use maud::{Markup, html};
use site_config::SignUpMode;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::block_in_place;
use tracing::info;

/// Path of the page.
pub(super) const PATH: &str = "/login";
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

/// Returns `path` if it is a path of ours, else that of the home page.
fn local_path(path: &str) -> &str {
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
                (form(shared, visitor, next, name))
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

async fn log_in(State(shared): State<Arc<WebState>>, form: FormSubmission) -> Response {
    let visitor = &form.visitor;
    let (name, next) = (form.field("user"), local_path(form.field("next")));
    let refused = |status, problem: &str| page(&shared, visitor, status, next, name, Some(problem));
    if visitor.user().is_some() {
        return answers::gone_to(next);
    }
    if !visitor.may_log_in() {
        return refused(StatusCode::FORBIDDEN, "No password is taken over this connection.");
    }
    let (gate, caller) = (&shared.site.gate, visitor.client().caller());
    let judged = gate.password(caller, name.as_bytes(), form.field("password").as_bytes(), MECHANISM).await;
    let user = match judged {
        Ok(user) => user,
        Err(LoginDenial::Wrong) => return refused(StatusCode::FORBIDDEN, "Wrong name or password."),
        Err(LoginDenial::Locked(left)) => {
            let seconds = left.as_secs() + 1;
            let problem = format!("Too many failures. Try again in {seconds} s.");
            let mut answer = refused(StatusCode::TOO_MANY_REQUESTS, &problem);
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
            return answer;
        }
        Err(LoginDenial::Trouble) => {
            return refused(StatusCode::SERVICE_UNAVAILABLE, "Passwords cannot be checked now.");
        }
    };
    if let Err((status, problem)) = judge(&shared, visitor, &user) {
        return refused(status, &problem);
    }
    let config = shared.config();
    let mark = gate.password_mark(&user.name);
    let Some(id) = shared.sessions.begin(user, mark, &config.web, Instant::now()) else {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "No login can begin now.");
    };
    if let Some(old) = visitor.id() {
        shared.sessions.end(old);
    }
    with_cookie(answers::gone_to(next), visitor.cookie(&id))
}

/// Asks the filters about a login that has succeeded.
fn judge(shared: &WebState, visitor: &Visitor, user: &User) -> Result<(), (StatusCode, String)> {
    let address = visitor.client().address().to_string();
    let filer = &shared.site.filer;
    match block_in_place(|| filer.with_filters(|filters| filters.login(&address, &user.name))) {
        Ok(()) => Ok(()),
        Err(programs::ProgramVerdict::Reject(reason)) => {
            info!(address, user = &*user.name, reason, "login refused by a filter");
            Err((StatusCode::FORBIDDEN, reason))
        }
        Err(_) => {
            Err((StatusCode::SERVICE_UNAVAILABLE, "Logins cannot be judged now, try again later.".into()))
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
