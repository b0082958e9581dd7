//! The front page: what the site is, its groups, and how a newsreader reaches it.

use maud::{Markup, html};

use super::lists::articles;
use crate::urls;

/// Content of the front page.
#[derive(Debug)]
pub struct FrontPage<'a> {
    /// Name of the site.
    pub site: &'a str,
    /// The operator's text, as markup.
    pub about: Option<&'a Markup>,
    /// How newsreaders reach the server; `None` if they cannot from where the visitor is.
    pub server: Option<&'a NewsServer>,
    /// Groups by hierarchy; `None` if the visitor may not read here.
    pub hierarchies: Option<&'a [Hierarchy]>,
    /// Whether other servers have groups that are shown here.
    pub has_upstreams: bool,
    /// True if articles can be searched for.
    pub has_search: bool,
    /// True if the visitor can log in.
    pub may_log_in: bool,
    /// Path of the operator's page, if the visitor may see it.
    pub operator: Option<&'a str>,
}

/// Address of the server for newsreaders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewsServer {
    /// Host name, as in a URL: an IPv6 address has brackets.
    pub host: String,
    /// Port of connections that begin in the clear.
    pub port: Option<u16>,
    /// Port of connections that begin with TLS.
    pub tls_port: Option<u16>,
    /// True if STARTTLS is offered on the first port.
    pub has_starttls: bool,
}

/// Groups whose names begin alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// First part of the names.
    pub name: String,
    /// Number of its groups.
    pub groups: usize,
    /// Articles of the last month, if they have been counted.
    pub month: Option<u64>,
    /// The groups, if there are few enough to be listed.
    pub listed: Vec<FrontGroup>,
}

/// A group on the front page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontGroup {
    /// Name of the group.
    pub name: String,
    /// Description in one line.
    pub description: String,
    /// Number of articles.
    pub articles: u64,
    /// Articles of the last month, if they have been counted.
    pub month: Option<u64>,
}

/// Renders the front page.
pub fn front(page: &FrontPage<'_>) -> Markup {
    html! {
        h1 { (page.site) }
        @match page.about {
            Some(about) => div.about { (about) },
            None => p { "A Usenet server: articles in groups, to be read here or with a newsreader." },
        }
        @if page.has_search { (search()) }
        @if page.may_log_in || page.operator.is_some() {
            p.ways {
                @if page.may_log_in { a.button href="/login" { "Log in" } " " }
                @if let Some(place) = page.operator { a href=(place) { "How the server is" } }
            }
        }
        @if let Some(hierarchies) = page.hierarchies { (groups(hierarchies, page.has_upstreams)) }
        @if let Some(server) = page.server { (connecting(server)) }
    }
}

fn search() -> Markup {
    html! {
        form.search action=(urls::SEARCH) method="get" role="search" {
            label for="q" { "Search articles " }
            input id="q" name="q" type="search" maxlength="1000";
            button { "Search" }
        }
    }
}

fn groups(hierarchies: &[Hierarchy], has_upstreams: bool) -> Markup {
    let none = match has_upstreams {
        true => "There is no group here that you may read, or the servers that have them do not answer now.",
        false => "There is no group here that you may read.",
    };
    html! {
        section aria-labelledby="groups" {
            h2 id="groups" { "Groups" }
            @if hierarchies.is_empty() { p { (none) } }
            @for hierarchy in hierarchies { (self::hierarchy(hierarchy)) }
            @if !hierarchies.is_empty() { p { a href=(urls::GROUPS) { "All groups" } } }
        }
    }
}

fn hierarchy(hierarchy: &Hierarchy) -> Markup {
    html! {
        h3 {
            a href=(urls::hierarchy(&hierarchy.name)) { (hierarchy.name) }
            " " span.count {
                @if hierarchy.groups == 1 { "1 group" } @else { (hierarchy.groups) " groups" }
                (month(hierarchy.month))
            }
        }
        @if !hierarchy.listed.is_empty() {
            ul.groups {
                @for group in &hierarchy.listed {
                    li {
                        a href=(urls::group(&group.name)) { (group.name) }
                        " " span.count { (articles(group.articles)) (month(group.month)) }
                        " " span.description dir="auto" { (group.description) }
                    }
                }
            }
        }
    }
}

fn month(count: Option<u64>) -> Markup {
    html! { @if let Some(count) = count { ", " (count) " in the last 30 days" } }
}

fn connecting(server: &NewsServer) -> Markup {
    let NewsServer { host, port, tls_port, has_starttls } = server;
    html! {
        section aria-labelledby="newsreader" {
            h2 id="newsreader" { "With a newsreader" }
            dl.head {
                dt { "Server" } dd { code.copied { (host.trim_matches(['[', ']'])) } }
                @if let Some(port) = tls_port { dt { "Port, with TLS" } dd { code.copied { (port) } } }
                @if let Some(port) = port {
                    dt { "Port" } dd { code.copied { (port) } @if *has_starttls { " (STARTTLS)" } }
                }
            }
            p.ways {
                @if let Some(port) = tls_port { a href={ "nntps://" (host) ":" (port) "/" } { "Open with TLS" } " " }
                @if let Some(port) = port { a href={ "news://" (host) ":" (port) "/" } { "Open in a newsreader" } }
            }
        }
    }
}
