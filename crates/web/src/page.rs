//! The frame of every page: title, navigation, the visitor's name, and the files that it loads.
//!
//! Called by the parts with their text. Everything is escaped by `maud`; styles and script are files of ours.

use super::answers::ForOneVisitor;
use super::form::TOKEN_FIELD;
use super::visitor::Visitor;
use super::{WebState, answers, assets, reading};
use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::response::Response;
use maud::{DOCTYPE, Markup, html};

/// Path of the page of a user's own account.
pub(super) const ACCOUNT_PATH: &str = "/account";

/// Path of the page on which visitors ask for an account.
pub(super) const SIGN_UP_PATH: &str = "/sign-up";

/// Path of the page on which users ask for a link to another password.
pub(super) const FORGOTTEN_PATH: &str = "/forgotten";

/// A page that is being built.
pub(super) struct HtmlPage<'a> {
    shared: &'a WebState,
    visitor: &'a Visitor,
    title: &'a str,
    refresh_secs: Option<u32>,
    feed: Option<&'a str>,
}

impl<'a> HtmlPage<'a> {
    /// Creates a page for a visitor.
    pub fn new(shared: &'a WebState, visitor: &'a Visitor, title: &'a str) -> Self {
        Self { shared, visitor, title, refresh_secs: None, feed: None }
    }

    /// Makes JavaScript fetch the page's text again at this interval, as its contents change.
    pub fn refreshed_every(self, seconds: u32) -> Self {
        Self { refresh_secs: Some(seconds), ..self }
    }

    /// Adds the path of the page's Atom feed.
    pub fn with_feed(self, feed: Option<&'a str>) -> Self {
        Self { feed, ..self }
    }

    /// Returns the page with this text as an answer.
    pub fn answer(&self, status: StatusCode, body: &Markup) -> Response {
        let text = self.html(body).into_string();
        let mut answer = answers::of_type(status, "text/html; charset=utf-8", text);
        if self.visitor.has_form() {
            answer.extensions_mut().insert(ForOneVisitor);
        }
        if let Some(cookie) = self.visitor.new_cookie() {
            answer.headers_mut().insert(SET_COOKIE, cookie);
        }
        answer
    }

    fn html(&self, body: &Markup) -> Markup {
        let site = &self.visitor.client().config().site.path_identity;
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) " \u{b7} " (site) }
                    link rel="icon" type="image/svg+xml" href=(assets::path("icon.svg"));
                    link rel="stylesheet" href=(assets::path("style.css"));
                    @if let Some(feed) = self.feed {
                        link rel="alternate" type="application/atom+xml" href=(feed);
                    }
                    script src=(assets::path("script.js")) defer {}
                }
                body {
                    (self.bar(site))
                    main data-refresh=[self.refresh_secs] { (body) }
                }
            }
        }
    }

    /// Renders the bar at the top: the site, its parts, and the visitor's name.
    fn bar(&self, site: &str) -> Markup {
        let config = self.visitor.client().config();
        html! {
            header.bar {
                a.site href="/" { (site) } " "
                nav aria-label="Parts" {
                    @if reading::is_open(self.visitor) { a href=(newspages::urls::GROUPS) { "Groups" } " " }
                    @if reading::has_search(self.shared, self.visitor) {
                        a href=(newspages::urls::SEARCH) { "Search" } " "
                    }
                    @if config.web.operator && self.visitor.may_operate() { a href=(super::operator::paths::OVERVIEW) { "Server" } }
                }
                @if let Some(user) = self.visitor.user() {
                    form.who method="post" action="/logout" {
                        (form_token(self.shared, self.visitor))
                        a href=(ACCOUNT_PATH) { (user) }
                        button.quiet type="submit" { "Log out" }
                    }
                } @else if self.visitor.may_log_in() {
                    a.who href="/login" { "Log in" }
                }
            }
        }
    }
}

/// Renders the hidden field which shows that a form came from this server. Its token belongs to one browser,
/// so a page with it is not cached for others.
pub(super) fn form_token(shared: &WebState, visitor: &Visitor) -> Markup {
    html! { input type="hidden" name=(TOKEN_FIELD) value=(visitor.form_token(shared)); }
}

/// Returns a page that refuses access and names the remedy.
pub(super) fn forbidden(shared: &WebState, visitor: &Visitor, here: &str) -> Response {
    let body = html! {
        section.narrow.card {
            h1 { "Not for you" }
            p { "This page is for others than " (visitor.user().unwrap_or("visitors of your address")) "." }
            @if visitor.may_log_in() {
                p { a.button href={ "/login?next=" (here) } { "Log in" } }
            }
        }
    };
    HtmlPage::new(shared, visitor, "Not for you").answer(StatusCode::FORBIDDEN, &body)
}
