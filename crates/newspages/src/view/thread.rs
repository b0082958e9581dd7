//! The page of a thread: its articles one below the other, and the tree of their answers.

use maud::{Markup, html};

use super::lists::{articles, pages};
use super::{PageLinks, moment};
use crate::threads::{ThreadNode, ThreadRow, base_subject};
use crate::{header, urls};

/// Maximum indentation of the tree.
const INDENT_MAX: usize = 12;

/// Content of a thread's page.
#[derive(Debug)]
pub struct ThreadPage<'a> {
    /// The group.
    pub group: &'a str,
    /// Path of this page, under which its feed and its mbox are.
    pub place: &'a str,
    /// Title of the thread.
    pub title: &'a str,
    /// Rows that the nodes refer to.
    pub rows: &'a [ThreadRow],
    /// The part of the thread that is on this page.
    pub nodes: &'a [ThreadNode],
    /// Number of the thread's articles before this page.
    pub before: usize,
    /// Number of all articles of the thread.
    pub total: usize,
    /// Paths of the other pages.
    pub turning: &'a PageLinks,
    /// The articles of this page, each made by [`threaded`](super::threaded).
    pub articles: &'a Markup,
}

/// Renders a thread.
pub fn thread(page: &ThreadPage<'_>) -> Markup {
    let place = page.place;
    let shown = page.nodes.iter().filter(|node| node.row.is_some()).count();
    html! {
        h1 dir="auto" { (base_subject(page.title).0) }
        p.ways {
            a href=(urls::group(page.group)) { (page.group) } " "
            a href={ (place) "/atom" } { "Atom feed" } " "
            a href={ (place) "/mbox" } { "As a file (mbox)" }
        }
        @if shown < page.total {
            p { "Articles " (page.before + 1) " to " (page.before + shown) " of " (articles(page.total as u64)) }
            (pages(page.turning, "Earlier in the thread", "Later in the thread"))
        }
        div.threaded {
            nav.tree aria-label="Articles" {
                ul { @for node in page.nodes { (tree_line(node, page.rows)) } }
            }
            div.articles { (page.articles) }
        }
        (pages(page.turning, "Earlier in the thread", "Later in the thread"))
    }
}

fn tree_line(node: &ThreadNode, rows: &[ThreadRow]) -> Markup {
    html! {
        li class={ "in" (node.depth.min(INDENT_MAX)) } {
            @match node.row.and_then(|at| rows.get(at)) {
                None => span.missing { "(not here)" },
                Some(row) => {
                    a href={ "#a" (row.number) } { bdi { (author(row)) } }
                    " " time { (moment(row.date)) }
                }
            }
        }
    }
}

fn author(row: &ThreadRow) -> &str {
    match header::author(&row.from) {
        "" => "(no name)",
        author => author,
    }
}
