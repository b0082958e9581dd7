//! Links that are mailed: to a new account (`web.sign_up = "mail"`), and to another password
//! (`web.reset_by_mail`).
//!
//! The page answers alike, and before anything is looked up, whether a name is taken or an address known;
//! what is found out goes by mail, to the address alone. So each request first tries whether a mail could be
//! queued at all: a full disk or queue is answered 503. Mails count for the budgets of accounts, and each
//! address gets a few in a day. Links name the site as it is configured, never as the request does.

use super::account::{DIFFERENT, denied, new_password, unencrypted};
use super::asking::{NO_ADDRESS, address_field, name_field, within_budgets};
use super::form::FormSubmission;
use super::login;
use super::page::{FORGOTTEN_PATH, HtmlPage, SIGN_UP_PATH, form_token};
use super::visitor::Visitor;
use super::{WebState, answers};
use access::SignUpMail;
use access::users::is_mail_address;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};
use site::moderation::{MailKind, OwnMail};
use site_base::clock::unix_now;
use site_config::Config;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;
use tracing::{info, warn};

/// Mails of one kind that an address gets in a day.
const MAILS_PER_ADDRESS: u32 = 3;
/// Time in which that number is allowed again.
const ADDRESS_TIME: Duration = Duration::from_secs(86_400);
/// Path of the page that makes an account.
const CONFIRM_PATH: &str = "/sign-up/confirm";

pub(super) fn routes() -> Router<Arc<WebState>> {
    Router::new()
        .route("/sign-up/confirm/{token}", get(confirm_page).post(confirm))
        .route(FORGOTTEN_PATH, get(forgotten_page).post(forgotten))
}

/// A mail.
struct MailText {
    subject: String,
    text: String,
}

/// What is said where no mail could be queued.
pub(super) const NO_MAILS: &str = "No mails can be sent now. Try again later.";

/// Returns whether a mail could be queued now.
pub(super) async fn can_mail(shared: &Arc<WebState>) -> bool {
    let Some(server) = shared.server.upgrade() else { return false };
    spawn_blocking(move || server.context.injector.moderation().has_room()).await.unwrap_or(false)
}

/// Kinds of mail, each with a budget of its own: a stranger who asks for accounts with an address
/// does not keep its owner from setting another password.
#[derive(Debug, Clone, Copy)]
enum LinkKind {
    SignUp,
    Reset,
}

/// Mails what `make` returns, after the request has been answered.
fn mail_later(
    shared: &Arc<WebState>,
    kind: LinkKind,
    address: &str,
    make: impl FnOnce(&WebState, &Config, &str) -> Option<MailText> + Send + 'static,
) {
    let (shared, address) = (shared.clone(), address.to_owned());
    // The request has been answered; a failure is in the log.
    let _sending = spawn_blocking(move || {
        let config = shared.config();
        let Some(mail) = make(&shared, &config, &address) else { return };
        if shared
            .sign_ups
            .take_for_mailbox(&format!("{kind:?} {address}"), MAILS_PER_ADDRESS, ADDRESS_TIME, Instant::now())
            .is_err()
        {
            info!("an address has been mailed to often enough for a day");
            return;
        }
        let Some(server) = shared.server.upgrade() else { return };
        let queue = server.context.injector.moderation();
        let (subject, text) = (mail.subject.as_str(), mail.text.as_bytes());
        let own = OwnMail { kind: MailKind::Account, to: &address, subject, text, about: None };
        if let Err(error) = queue.notify(&own, unix_now()) {
            warn!(?error, "a link cannot be mailed");
        }
    });
}

/// Returns the site's name, and the address of its pages.
fn site_of(config: &Config) -> Option<(&str, String)> {
    let site = config.site.path_identity.as_str();
    Some((site, config.web.url(site)?))
}

/// Mails a link that makes an account.
pub(super) fn mail_sign_up(shared: &Arc<WebState>, name: &str, address: &str) {
    let name = name.to_owned();
    mail_later(shared, LinkKind::SignUp, address, move |shared, config, address| {
        let (site, url) = site_of(config)?;
        let found = shared.site.gate.sign_up_mail(config, &name, address)?;
        info!(user = name, is_free = found != SignUpMail::Taken, "an account was asked for by mail");
        let what = match found {
            SignUpMail::Token(token) => format!(
                "This link makes it, once and within a day:\n\n{url}{CONFIRM_PATH}/{token}\n\nIf it was not you, do \
                 nothing: without the link no account is made.\n"
            ),
            SignUpMail::Taken => {
                format!("This name cannot be had. Choose another one:\n\n{url}{}\n", SIGN_UP_PATH)
            }
        };
        Some(MailText {
            subject: format!("Your account at {site}"),
            text: format!("The account {name} at {site} was asked for with this mail address.\n\n{what}"),
        })
    });
}

/// Mails a link to another password, if the account was made with this address.
fn mail_reset(shared: &Arc<WebState>, name: &str, address: &str) {
    let name = name.to_owned();
    mail_later(shared, LinkKind::Reset, address, move |shared, config, address| {
        let (site, url) = site_of(config)?;
        let token = shared.site.gate.reset_mail(config, &name, address)?;
        info!(user = name, "a link to another password is mailed");
        Some(MailText {
            subject: format!("Your password at {site}"),
            text: format!(
                "Another password for the account {name} at {site} was asked for.\n\nThis link sets one, once and \
                 within a day:\n\n{url}/reset/{token}\n\nIf it was not you, do nothing: the password stays as it \
                 is.\n"
            ),
        })
    });
}

/// Renders what is said whatever comes of it.
pub(super) fn on_its_way(what: &str, address: &str) -> Markup {
    html! {
        p role="status" { (what) " a mail is on its way to " strong { (address) } ". It has a link that works for a \
            day." }
    }
}

async fn confirm_page(
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
    let name = shared.site.gate.name_of_sign_up(&shared.config(), token);
    let status = if name.is_none() { StatusCode::FORBIDDEN } else { status };
    let body = html! {
        section.narrow.card {
            h1 { "Sign up" }
            @if let Some(problem) = problem.filter(|_| name.is_some()) { p.problem role="alert" { (problem) } }
            @match name {
                None => p { "This link is not valid any more, or the name is taken." },
                Some(_) if !visitor.client().may_send_passwords() => (unencrypted()),
                Some(name) => {
                    p { "Choose a password for " strong { (name) } "." }
                    form.stacked method="post" action={ (CONFIRM_PATH) "/" (token) } {
                        (form_token(shared, visitor))
                        input type="hidden" name="user" value=(name) autocomplete="username";
                        (new_password())
                        button type="submit" { "Make the account" }
                    }
                },
            }
        }
    };
    HtmlPage::new(shared, visitor, "Sign up").answer(status, &body)
}

async fn confirm(
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
    match gate.confirm_by_mail(caller, &shared.config(), &token, form.field("new").as_bytes()).await {
        Ok(()) => {
            let body = html! {
                section.narrow.card {
                    h1 { "Sign up" }
                    p role="status" { "Your account is made." }
                    p { a.button href=(login::PATH) { "Log in" } }
                }
            };
            HtmlPage::new(&shared, visitor, "Sign up").answer(StatusCode::OK, &body)
        }
        Err(denial) => {
            denied(denial, |status| link_page(&shared, visitor, &token, status, Some(&denial.to_string())))
        }
    }
}

async fn forgotten_page(State(shared): State<Arc<WebState>>, visitor: Visitor) -> Response {
    match shared.config().web.reset_by_mail {
        true => ask_page(&shared, &visitor, StatusCode::OK, "", None),
        false => answers::no_page().await,
    }
}

fn ask_page(
    shared: &WebState,
    visitor: &Visitor,
    status: StatusCode,
    name: &str,
    problem: Option<&str>,
) -> Response {
    let body = html! {
        section.narrow.card {
            h1 { "Forgotten password" }
            @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
            p { "A link to another password is mailed to the address with which the account was made." }
            form.stacked method="post" action=(FORGOTTEN_PATH) {
                (form_token(shared, visitor))
                (name_field(name))
                (address_field())
                button type="submit" { "Send the link" }
            }
        }
    };
    HtmlPage::new(shared, visitor, "Forgotten password").answer(status, &body)
}

async fn forgotten(State(shared): State<Arc<WebState>>, form: FormSubmission) -> Response {
    let (visitor, name, address) = (&form.visitor, form.field("user"), form.field("mail").trim());
    let config = shared.config();
    if !config.web.reset_by_mail {
        return answers::no_page().await;
    }
    if !is_mail_address(address) {
        return ask_page(&shared, visitor, StatusCode::UNPROCESSABLE_ENTITY, name, Some(NO_ADDRESS));
    }
    if let Err(full) = within_budgets(&shared, visitor, &config) {
        return full.answered(|status, text| ask_page(&shared, visitor, status, name, Some(text)));
    }
    if !can_mail(&shared).await {
        return ask_page(&shared, visitor, StatusCode::SERVICE_UNAVAILABLE, name, Some(NO_MAILS));
    }
    mail_reset(&shared, name, address);
    let body = html! {
        section.narrow.card {
            h1 { "Forgotten password" }
            (on_its_way("If the account was made with this address,", address))
        }
    };
    HtmlPage::new(&shared, visitor, "Forgotten password").answer(StatusCode::OK, &body)
}
