//! A user's own account: another password, after logging in or by a one-time link of the operator.
//!
//! Passwords are taken where AUTHINFO would take them. A link is looked at by GET and used by POST; what is
//! said of one that is not valid does not depend on whether its user exists. Every other login of the user
//! ends with the old password.

use super::form::FormSubmission;
use super::login::{self, with_cookie};
use super::page::{ACCOUNT_PATH, HtmlPage, form_token};
use super::visitor::Visitor;
use super::{WebState, answers};
use access::PasswordChangeDenial;
use access::users::{ADDRESS_BYTES_MAX, PASSWORD_CHARS_MIN};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use maud::{Markup, html};
use std::sync::Arc;
use std::time::Instant;

/// Path to which a mail address is sent.
const MAIL_PATH: &str = "/account/mail";

/// What is said if two passwords differ that should not.
pub(super) const DIFFERENT: &str = "The new passwords are not the same.";

pub(super) fn routes() -> Router<Arc<WebState>> {
    Router::new()
        .route(ACCOUNT_PATH, get(account).post(change))
        .route(MAIL_PATH, post(change_mail))
        .route("/reset/{token}", get(reset_page).post(reset))
}

async fn account(State(shared): State<Arc<WebState>>, visitor: Visitor) -> Response {
    match visitor.user() {
        Some(_) => page(&shared, &visitor, StatusCode::OK, None),
        None => answers::gone_to(&login::before(ACCOUNT_PATH)),
    }
}

fn page(shared: &WebState, visitor: &Visitor, status: StatusCode, problem: Option<&str>) -> Response {
    let user = visitor.user().unwrap_or_default();
    let body = html! {
        section.narrow.card {
            h1 { (user) }
            @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
            @if !shared.site.gate.has_own_password(user) {
                p { "Your password is not kept here, so it cannot be changed here." }
            } @else if !visitor.client().may_send_passwords() {
                (unencrypted())
            } @else {
                h2 { "Another password" }
                form.stacked method="post" action=(ACCOUNT_PATH) {
                    (form_token(shared, visitor))
                    label for="present" { "Present password" }
                    input #present name="present" type="password" autocomplete="current-password" required;
                    (new_password())
                    button type="submit" { "Change it" }
                }
                @if shared.config().web.reset_by_mail { (mail_form(shared, visitor, user)) }
            }
        }
    };
    HtmlPage::new(shared, visitor, "Account").answer(status, &body)
}

/// Renders the form for the address to which a link to another password may go.
fn mail_form(shared: &WebState, visitor: &Visitor, user: &str) -> Markup {
    let is_known = shared.site.gate.has_mail(user);
    html! {
        h2 { "Mail address" }
        p {
            @if is_known { "An address is known. " } @else { "No address is known. " }
            "A link to another password goes there if you forget yours and give the address. It is not kept as text, \
             so it cannot be shown."
        }
        form.stacked method="post" action=(MAIL_PATH) {
            (form_token(shared, visitor))
            label for="mail" { "Mail address; empty for none" }
            input #mail name="mail" type="email" maxlength=(ADDRESS_BYTES_MAX) autocomplete="email";
            label for="own" { "Present password" }
            input #own name="present" type="password" autocomplete="current-password" required;
            button type="submit" { "Keep it" }
        }
    }
}

async fn change_mail(State(shared): State<Arc<WebState>>, form: FormSubmission) -> Response {
    let visitor = &form.visitor;
    let Some(user) = visitor.user() else { return answers::text(StatusCode::FORBIDDEN, "Log in first.") };
    if !visitor.client().may_send_passwords() || !shared.config().web.reset_by_mail {
        return page(&shared, visitor, StatusCode::FORBIDDEN, None);
    }
    let (gate, caller) = (&shared.site.gate, visitor.client().caller());
    let (present, address) = (form.field("present").as_bytes(), form.field("mail").trim());
    match gate.set_mail(caller, user, present, address).await {
        Ok(()) => answers::gone_to(ACCOUNT_PATH),
        Err(denial) => denied(denial, |status| page(&shared, visitor, status, Some(&denial.to_string()))),
    }
}

/// Renders the fields of a new password.
pub(super) fn new_password() -> Markup {
    html! {
        label for="new" { "New password, at least " (PASSWORD_CHARS_MIN) " characters" }
        input #new name="new" type="password" autocomplete="new-password" minlength=(PASSWORD_CHARS_MIN) required;
        label for="again" { "The new password once more" }
        input #again name="again" type="password" autocomplete="new-password" required;
    }
}

/// Renders the advice where no password is taken.
pub(super) fn unencrypted() -> Markup {
    html! { p { "This connection is not encrypted, so no password is taken here. Use https." } }
}

async fn change(State(shared): State<Arc<WebState>>, form: FormSubmission) -> Response {
    let visitor = &form.visitor;
    let Some(user) = visitor.client().user().cloned() else {
        return answers::text(StatusCode::FORBIDDEN, "Log in first.");
    };
    if !visitor.client().may_send_passwords() {
        return page(&shared, visitor, StatusCode::FORBIDDEN, None);
    }
    if form.field("new") != form.field("again") {
        return page(&shared, visitor, StatusCode::UNPROCESSABLE_ENTITY, Some(DIFFERENT));
    }
    let (gate, caller) = (&shared.site.gate, visitor.client().caller());
    let [present, new] = ["present", "new"].map(|name| form.field(name).as_bytes());
    if let Err(denial) = gate.change_password(caller, &user.name, present, new).await {
        return denied(denial, |status| page(&shared, visitor, status, Some(&denial.to_string())));
    }
    // The login ended with the old password; this browser has another one.
    let mark = gate.password_mark(&user.name);
    let id = shared.sessions.begin(Arc::new(user), mark, &shared.config().web, Instant::now());
    if let Some(old) = visitor.id() {
        shared.sessions.end(old);
    }
    with_cookie(answers::gone_to("/"), id.and_then(|id| visitor.cookie(&id)))
}

/// Returns the answer to a denial, made with its status.
pub(super) fn denied(denial: PasswordChangeDenial, page: impl FnOnce(StatusCode) -> Response) -> Response {
    let (status, seconds) = match denial {
        PasswordChangeDenial::Wrong => (StatusCode::FORBIDDEN, None),
        PasswordChangeDenial::Unfit | PasswordChangeDenial::NoAddress => {
            (StatusCode::UNPROCESSABLE_ENTITY, None)
        }
        PasswordChangeDenial::Locked(left) => (StatusCode::TOO_MANY_REQUESTS, Some(left.as_secs() + 1)),
        PasswordChangeDenial::Trouble => (StatusCode::SERVICE_UNAVAILABLE, None),
    };
    let mut answer = page(status);
    if let Some(seconds) = seconds {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

async fn reset_page(
    State(shared): State<Arc<WebState>>,
    Path(token): Path<String>,
    visitor: Visitor,
) -> Response {
    link_page(&shared, &visitor, &token, StatusCode::OK, None)
}

fn link_page(
    shared: &WebState,
    visitor: &Visitor,
    token: &str,
    status: StatusCode,
    problem: Option<&str>,
) -> Response {
    let user = shared.site.gate.user_of_reset(token);
    let status = if user.is_none() { StatusCode::FORBIDDEN } else { status };
    let body = html! {
        section.narrow.card {
            h1 { "Another password" }
            @if let Some(problem) = problem.filter(|_| user.is_some()) { p.problem role="alert" { (problem) } }
            @match user {
                None => p { "This link is not valid any more. Ask the operator for another one." },
                Some(_) if !visitor.client().may_send_passwords() => (unencrypted()),
                Some(user) => {
                    p { "For the user " strong { (user) } "." }
                    form.stacked method="post" action={ "/reset/" (token) } {
                        (form_token(shared, visitor))
                        input type="hidden" name="user" value=(user) autocomplete="username";
                        (new_password())
                        button type="submit" { "Set it" }
                    }
                },
            }
        }
    };
    HtmlPage::new(shared, visitor, "Another password").answer(status, &body)
}

async fn reset(
    State(shared): State<Arc<WebState>>,
    Path(token): Path<String>,
    form: FormSubmission,
) -> Response {
    let visitor = &form.visitor;
    if !visitor.client().may_send_passwords() {
        return link_page(&shared, visitor, &token, StatusCode::FORBIDDEN, None);
    }
    if form.field("new") != form.field("again") {
        return link_page(&shared, visitor, &token, StatusCode::UNPROCESSABLE_ENTITY, Some(DIFFERENT));
    }
    let (gate, caller) = (&shared.site.gate, visitor.client().caller());
    match gate.reset_password(caller, &token, form.field("new").as_bytes()).await {
        Ok(()) => {
            let body = html! {
                section.narrow.card {
                    h1 { "Another password" }
                    p role="status" { "Your password is set." }
                    p { a.button href=(login::PATH) { "Log in" } }
                }
            };
            HtmlPage::new(&shared, visitor, "Another password").answer(StatusCode::OK, &body)
        }
        Err(denial) => {
            denied(denial, |status| link_page(&shared, visitor, &token, status, Some(&denial.to_string())))
        }
    }
}
