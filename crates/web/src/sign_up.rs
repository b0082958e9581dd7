//! Asking for an account (`web.sign_up`), within budgets of networks and of all visitors together.
//!
//! Where an operator decides, the answer is the same whether a name is taken or not. Passwords are taken
//! where AUTHINFO would take them.

use super::account::{DIFFERENT, new_password, unencrypted};
use super::form::FormSubmission;
use super::login;
use super::page::{HtmlPage, SIGN_UP_PATH, form_token};
use super::visitor::Visitor;
use super::{WebState, answers};
use access::{NOTE_BYTES_MAX, SignUpDenial};
use axum::Router;
use axum::extract::State;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;
use maud::html;
use site_config::SignUpMode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time in which a budget fills.
const BUDGET_TIME: Duration = Duration::from_secs(86_400);

pub(super) fn routes() -> Router<Arc<WebState>> {
    Router::new().route(SIGN_UP_PATH, get(show).post(ask))
}

async fn show(State(shared): State<Arc<WebState>>, visitor: Visitor) -> Response {
    match visitor.client().config().web.sign_up {
        SignUpMode::Closed => answers::no_page().await,
        _ => page(&shared, &visitor, StatusCode::OK, "", None),
    }
}

fn page(
    shared: &WebState,
    visitor: &Visitor,
    status: StatusCode,
    name: &str,
    problem: Option<&str>,
) -> Response {
    let is_moderated = visitor.client().config().web.sign_up == SignUpMode::Moderated;
    let body = html! {
        section.narrow.card {
            h1 { "Sign up" }
            @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
            @if let Some(user) = visitor.user() {
                p { "You are logged in as " strong { (user) } "." }
            } @else if !visitor.client().may_send_passwords() {
                (unencrypted())
            } @else {
                @if is_moderated { p { "The operator looks at each account before it can be used." } }
                form.stacked method="post" action=(SIGN_UP_PATH) {
                    (form_token(shared, visitor))
                    label for="user" { "Name, of lower case letters, digits, dots and hyphens" }
                    input #user name="user" value=(name) autocomplete="username" autocapitalize="none"
                        spellcheck="false" minlength="3" maxlength="32" required;
                    (new_password())
                    @if is_moderated {
                        label for="note" { "To the operator: who are you?" }
                        input #note name="note" type="text" maxlength=(NOTE_BYTES_MAX);
                    }
                    button type="submit" { "Sign up" }
                }
            }
        }
    };
    HtmlPage::new(shared, visitor, "Sign up").answer(status, &body)
}

async fn ask(State(shared): State<Arc<WebState>>, form: FormSubmission) -> Response {
    let (visitor, name) = (&form.visitor, form.field("user"));
    let config = shared.config();
    let refused = |status, problem: &str| page(&shared, visitor, status, name, Some(problem));
    if config.web.sign_up == SignUpMode::Closed {
        return answers::no_page().await;
    }
    if visitor.user().is_some() || !visitor.client().may_send_passwords() {
        return page(&shared, visitor, StatusCode::FORBIDDEN, name, None);
    }
    if form.field("new") != form.field("again") {
        return refused(StatusCode::UNPROCESSABLE_ENTITY, DIFFERENT);
    }
    let (budgets, now) = (&shared.sign_ups, Instant::now());
    let own = budgets.take_within(
        Some(visitor.client().address()),
        config.web.sign_ups_per_network,
        BUDGET_TIME,
        now,
    );
    if let Err(seconds) =
        own.and_then(|()| budgets.take_within(None, config.web.sign_ups_per_day, BUDGET_TIME, now))
    {
        let problem = "Too many accounts were asked for. Try again another day.";
        let mut answer = refused(StatusCode::TOO_MANY_REQUESTS, problem);
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        return answer;
    }
    let (gate, caller) = (&shared.site.gate, visitor.client().caller());
    let password = form.field("new").as_bytes();
    match gate.sign_up(caller, &config, name, password, form.field("note")).await {
        Ok(()) => done(&shared, visitor, config.web.sign_up),
        Err(denial) => {
            let status = match denial {
                SignUpDenial::Closed => StatusCode::NOT_FOUND,
                SignUpDenial::Name | SignUpDenial::Password => StatusCode::UNPROCESSABLE_ENTITY,
                SignUpDenial::Taken => StatusCode::CONFLICT,
                SignUpDenial::Full | SignUpDenial::Trouble => StatusCode::SERVICE_UNAVAILABLE,
            };
            refused(status, &denial.to_string())
        }
    }
}

fn done(shared: &WebState, visitor: &Visitor, mode: SignUpMode) -> Response {
    let body = html! {
        section.narrow.card {
            h1 { "Sign up" }
            @if mode == SignUpMode::Moderated {
                p role="status" {
                    "Your account waits for the operator. If it is confirmed, you can log in by its name; if not, \
                     the name may be taken: ask for another one."
                }
            } @else {
                p role="status" { "Your account is made." }
                p { a.button href=(login::PATH) { "Log in" } }
            }
        }
    };
    HtmlPage::new(shared, visitor, "Sign up").answer(StatusCode::OK, &body)
}
