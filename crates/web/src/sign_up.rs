//! Asking for an account (`web.sign_up`), within budgets of networks and of all visitors together.
//!
//! Where an operator or a mail decides, the answer is the same whether a name is taken or not. Passwords are
//! taken where AUTHINFO would take them.

use super::account::{DIFFERENT, new_password, unencrypted};
use super::asking::{NO_ADDRESS, address_field, name_field, within_budgets};
use super::form::FormSubmission;
use super::login;
use super::page::{HtmlPage, SIGN_UP_PATH, form_token};
use super::visitor::Visitor;
use super::{WebState, answers, mailed};
use access::users::is_mail_address;
use access::{NOTE_BYTES_MAX, SignUpDenial, is_sign_up_name};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use maud::html;
use site_config::SignUpMode;
use std::sync::Arc;

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
    let mode = visitor.client().config().web.sign_up;
    let is_moderated = mode == SignUpMode::Moderated;
    // No password is asked for before the address is known to be right.
    let is_mailed = mode == SignUpMode::Mail;
    let body = html! {
        section.narrow.card {
            h1 { "Sign up" }
            @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
            @if let Some(user) = visitor.user() {
                p { "You are logged in as " strong { (user) } "." }
            } @else if !is_mailed && !visitor.client().may_send_passwords() {
                (unencrypted())
            } @else {
                @if is_moderated { p { "The operator looks at each account before it can be used." } }
                form.stacked method="post" action=(SIGN_UP_PATH) {
                    (form_token(shared, visitor))
                    (name_field(name))
                    @if is_mailed { (address_field()) } @else { (new_password()) }
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
    let is_mailed = config.web.sign_up == SignUpMode::Mail;
    if visitor.user().is_some() || !is_mailed && !visitor.client().may_send_passwords() {
        return page(&shared, visitor, StatusCode::FORBIDDEN, name, None);
    }
    let address = form.field("mail").trim();
    if is_mailed && !is_mail_address(address) {
        return refused(StatusCode::UNPROCESSABLE_ENTITY, NO_ADDRESS);
    }
    if is_mailed && !is_sign_up_name(name) {
        return refused(StatusCode::UNPROCESSABLE_ENTITY, &SignUpDenial::Name.to_string());
    }
    if !is_mailed && form.field("new") != form.field("again") {
        return refused(StatusCode::UNPROCESSABLE_ENTITY, DIFFERENT);
    }
    if let Err(full) = within_budgets(&shared, visitor, &config) {
        return full.answered(refused);
    }
    if is_mailed {
        if !mailed::can_mail(&shared).await {
            return refused(StatusCode::SERVICE_UNAVAILABLE, mailed::NO_MAILS);
        }
        mailed::mail_sign_up(&shared, name, address);
        let body = html! {
            section.narrow.card {
                h1 { "Sign up" }
                (mailed::on_its_way("Thank you:", address))
            }
        };
        return HtmlPage::new(&shared, visitor, "Sign up").answer(StatusCode::OK, &body);
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
