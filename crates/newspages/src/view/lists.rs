//! Pages with lists: groups, the threads of a group, the articles of a thread.

use maud::{Markup, html};

use super::moment;
use crate::threads::{Thread, ThreadRow, base_subject};
use crate::{header, urls};

/// Maximum indentation of a thread.
const INDENT_MAX: usize = 12;

/// A group in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupListEntry {
    /// Name of the group.
    pub name: String,
    /// Description in one line.
    pub description: String,
    /// Number of articles.
    pub articles: u64,
}

/// Paths of the pages before and after.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageLinks {
    /// Page with newer or earlier items.
    pub newer: Option<String>,
    /// Page with older or later items.
    pub older: Option<String>,
}

/// Content of a group's page.
#[derive(Debug)]
pub struct GroupPage<'a> {
    /// Name of the group.
    pub name: &'a str,
    /// Description in one line.
    pub description: &'a str,
    /// Articles of this page.
    pub rows: &'a [ThreadRow],
    /// Threads of these articles.
    pub threads: &'a [Thread],
    /// Paths of the other pages.
    pub turning: &'a PageLinks,
    /// Path of the form for an article, if the reader may post.
    pub write: Option<&'a str>,
}

/// Content of a thread's page.
#[derive(Debug)]
pub struct ThreadPage<'a> {
    /// The group.
    pub group: &'a str,
    /// Path of this page, under which its feed and its mbox are.
    pub place: &'a str,
    /// Title of the thread.
    pub title: &'a str,
    /// Rows that the thread's nodes refer to.
    pub rows: &'a [ThreadRow],
    /// The thread, or the part of it that is shown.
    pub thread: &'a Thread,
    /// Number of articles that are not shown.
    pub left_out: usize,
}

/// An article found by a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// Message-ID.
    pub message_id: String,
    /// Subject.
    pub subject: String,
    /// From.
    pub from: String,
    /// Time of writing, in Unix seconds.
    pub date: Option<i64>,
    /// Groups that the reader may read.
    pub groups: Vec<String>,
}

/// Content of a search page.
#[derive(Debug, Clone, Copy)]
pub struct SearchPage<'a> {
    /// Query as entered.
    pub query: &'a str,
    /// Articles found; `None` without a search.
    pub lines: Option<&'a [SearchHit]>,
    /// Error in the query.
    pub problem: Option<&'a str>,
    /// True if the index is complete.
    pub is_complete: bool,
    /// Paths of the other pages.
    pub turning: &'a PageLinks,
}

/// Renders a search and its results.
pub fn search(page: &SearchPage<'_>) -> Markup {
    html! {
        h1 { "Search" }
        form.search action=(urls::SEARCH) method="get" role="search" {
            label for="q" { "Words " }
            input id="q" name="q" type="search" value=(page.query) maxlength="1000" aria-describedby="how";
            button { "Search" }
        }
        p.quiet id="how" {
            "All words must be there. " code { "\"in a row\"" } ", " code { "-without" } ", "
            code { "subject:" } ", " code { "from:" } ", " code { "group:comp.*" } ", "
            code { "after:2026-01-31" } ", " code { "before:2026" } ", " code { "thread:" } "Message-ID"
        }
        @if let Some(problem) = page.problem { p.problem role="alert" { (problem) } }
        @if !page.is_complete { p { "The index is still being built: older articles may be missing." } }
        @if let Some(lines) = page.lines {
            @if lines.is_empty() { p { "Nothing that you may read has these words." } }
            ul.threads { @for line in lines { li { (found_line(line)) } } }
        }
        (pages(page.turning, "First", "Next"))
    }
}

fn found_line(line: &SearchHit) -> Markup {
    html! {
        a dir="auto" href=(urls::article(&line.message_id)) {
            @if line.subject.is_empty() { "(no subject)" } @else { (line.subject) }
        }
        span.by {
            bdi { (header::author(&line.from)) }
            @if let Some(date) = line.date { " " time { (moment(date)) } }
            @for group in &line.groups { " " a href=(urls::group(group)) { (group) } }
        }
    }
}

/// Renders the list of groups; `pattern` is the search pattern.
pub fn groups(lines: &[GroupListEntry], pattern: &str, turning: &PageLinks) -> Markup {
    html! {
        h1 { "Groups" }
        form.search action=(urls::GROUPS) method="get" role="search" {
            label for="match" { "Name has " }
            input id="match" name="match" type="search" value=(pattern) maxlength="100";
            button { "Show" }
        }
        @if lines.is_empty() { p { "No group that you may read has this in its name." } }
        ul.groups {
            @for line in lines {
                li {
                    a href=(urls::group(&line.name)) { (line.name) }
                    span.count { (articles(line.articles)) }
                    span.description dir="auto" { (line.description) }
                }
            }
        }
        (pages(turning, "First", "Next"))
    }
}

/// Returns a number of articles in words.
fn articles(count: u64) -> String {
    if count == 1 { "1 article".to_owned() } else { format!("{count} articles") }
}

/// Renders the threads of a group.
pub fn group(page: &GroupPage<'_>) -> Markup {
    let place = urls::group(page.name);
    html! {
        h1 { (page.name) }
        @if !page.description.is_empty() { p.description dir="auto" { (page.description) } }
        p.ways {
            @if let Some(write) = page.write { a href=(write) { "Write" } " " }
            a href={ (place) "/atom" } { "Atom feed" }
        }
        @if page.threads.is_empty() { p { "There is nothing to read here now." } }
        ul.threads {
            @for thread in page.threads { (thread_line(page, thread)) }
        }
        (pages(page.turning, "Newer", "Older"))
    }
}

fn thread_line(page: &GroupPage<'_>, thread: &Thread) -> Markup {
    let rows: Vec<&ThreadRow> = thread.rows().filter_map(|at| page.rows.get(at)).collect();
    let Some(first) = rows.first() else { return Markup::default() };
    let (subject, _) = base_subject(&first.subject);
    let newest = rows.iter().max_by_key(|row| row.date).unwrap_or(first);
    let place = match rows.len() {
        1 => urls::article(&first.message_id),
        _ => urls::thread(page.name, &first.message_id),
    };
    html! {
        li {
            a dir="auto" href=(place) { @if subject.is_empty() { "(no subject)" } @else { (subject) } }
            span.count { (articles(rows.len() as u64)) }
            span.by {
                bdi { (header::author(&first.from)) }
                @if rows.len() > 1 { ", newest by " bdi { (header::author(&newest.from)) } }
                " " time { (moment(newest.date)) }
            }
        }
    }
}

/// Renders the articles of a thread, as they answer each other.
pub fn thread(page: &ThreadPage<'_>) -> Markup {
    let place = page.place;
    html! {
        h1 dir="auto" { (base_subject(page.title).0) }
        p.ways {
            a href=(urls::group(page.group)) { (page.group) } " "
            a href={ (place) "/atom" } { "Atom feed" } " "
            a href={ (place) "/mbox" } { "As a file (mbox)" }
        }
        @if page.left_out > 0 {
            p { (articles(page.left_out as u64)) " of this thread, further from the one asked for, left out." }
        }
        ul.thread {
            @for node in &page.thread.nodes {
                li class={ "in" (node.depth.min(INDENT_MAX)) } {
                    @match node.row.and_then(|at| page.rows.get(at)) {
                        None => span.missing { "(not here)" },
                        Some(row) => (article_line(row)),
                    }
                }
            }
        }
    }
}

fn article_line(row: &ThreadRow) -> Markup {
    html! {
        a dir="auto" href=(urls::article(&row.message_id)) {
            @if row.subject.is_empty() { "(no subject)" } @else { (row.subject) }
        }
        span.by { bdi { (header::author(&row.from)) } " " time { (moment(row.date)) } ", " (row.lines) " lines" }
    }
}

/// Renders links to the pages before and after.
fn pages(turning: &PageLinks, newer: &str, older: &str) -> Markup {
    html! {
        @if turning.newer.is_some() || turning.older.is_some() {
            nav.pages aria-label="Pages" {
                @if let Some(place) = &turning.newer { a rel="prev" href=(place) { (newer) } }
                @if let Some(place) = &turning.older { a rel="next" href=(place) { (older) } }
            }
        }
    }
}
