//! Pages with lists: groups, the threads of a group.

use maud::{Markup, html};

use super::moment;
use crate::threads::{Thread, ThreadRow, base_subject};
use crate::{header, urls};

/// Maximum number of years that are listed.
const YEARS_MAX: i32 = 60;

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
    /// Lowest number of the page itself. A thread whose articles are all below is on a later page.
    pub lowest: u64,
    /// Highest number at the reader's last visit, if that is known.
    pub seen: Option<u64>,
    /// The years and months that the page can begin with.
    pub dates: &'a DateLinks,
    /// Paths of the other pages.
    pub turning: &'a PageLinks,
    /// Path of the form for an article, if the reader may post.
    pub write: Option<&'a str>,
}

/// The years and months of a group's articles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DateLinks {
    /// First and last year; `None` if the group is empty, or its dates cannot be read.
    pub years: Option<(i32, i32)>,
    /// The year whose months are listed.
    pub year: i32,
    /// The date that was asked for, to be shown in the form.
    pub asked: String,
    /// True if that is no date.
    pub is_wrong: bool,
}

/// Renders the list of groups; `within` is the hierarchy, `pattern` the part that names must have. `is_part`:
/// a server is away whose groups may be missing.
pub fn groups(
    lines: &[GroupListEntry],
    within: &str,
    pattern: &str,
    turning: &PageLinks,
    is_part: bool,
) -> Markup {
    html! {
        h1 { "Groups" @if !within.is_empty() { " in " (within) } }
        form.search action=(urls::GROUPS) method="get" role="search" {
            @if !within.is_empty() { input type="hidden" name="in" value=(within); }
            label for="match" { "Name has " }
            input id="match" name="match" type="search" value=(pattern) maxlength="100";
            button { "Show" }
        }
        @if is_part {
            p { "A server whose groups are shown here does not answer: its groups may be missing." }
        } @else if lines.is_empty() && pattern.is_empty() {
            p { "There is no group that you may read." }
        } @else if lines.is_empty() {
            p { "No group that you may read has this in its name." }
        }
        ul.groups {
            @for line in lines {
                li {
                    a href=(urls::group(&line.name)) { (line.name) }
                    " " span.count { (articles(line.articles)) }
                    " " span.description dir="auto" { (line.description) }
                }
            }
        }
        (pages(turning, "First", "Next"))
    }
}

/// Returns a number of articles in words.
pub(super) fn articles(count: u64) -> String {
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
            a href={ (place) "/atom" } { "Atom feed" } " "
            a href={ (place) "/mbox.gz" } { "All as mbox.gz" }
        }
        (dates(&place, page.dates))
        @if page.threads.is_empty() { p { "There is nothing to read here now." } }
        ul.threads {
            @for thread in page.threads { (thread_line(page, thread)) }
        }
        (pages(page.turning, "Newer", "Older"))
    }
}

fn thread_line(page: &GroupPage<'_>, thread: &Thread) -> Markup {
    let rows: Vec<&ThreadRow> = thread.rows().filter_map(|at| page.rows.get(at)).collect();
    let Some(first) = rows.first().filter(|_| rows.iter().any(|row| row.number >= page.lowest)) else {
        return Markup::default();
    };
    let unread = page.seen.map_or(0, |seen| rows.iter().filter(|row| row.number > seen).count());
    let (subject, _) = base_subject(&first.subject);
    let newest = rows.iter().max_by_key(|row| row.date).unwrap_or(first);
    let place = match rows.len() {
        1 => urls::article(&first.message_id),
        _ => urls::thread(page.name, &first.message_id),
    };
    html! {
        li {
            a dir="auto" href=(place) { @if subject.is_empty() { "(no subject)" } @else { (subject) } }
            " " span.count { (articles(rows.len() as u64)) }
            @if unread > 0 { " " span.unread { (unread) " new" } }
            " " span.by {
                bdi { (header::author(&first.from)) }
                @if rows.len() > 1 { ", newest by " bdi { (header::author(&newest.from)) } }
                " " time { (moment(newest.date)) }
            }
        }
    }
}

/// Renders the years of a group, the months of one of them, and a form for any date.
fn dates(place: &str, dates: &DateLinks) -> Markup {
    let problem = html! {
        @if dates.is_wrong {
            p.problem role="alert" {
                "“" (dates.asked) "” is no date. Write a year, month or day, such as 2026, 2026-01 or 2026-01-31."
            }
        }
    };
    let Some((first, last)) = dates.years else { return problem };
    let first = first.max(last.saturating_sub(YEARS_MAX - 1));
    html! {
        (problem)
        details.dates open[!dates.asked.is_empty()] {
            summary { "Jump to a date" }
            form.search action=(place) method="get" {
                label for="date" { "Year, month or day " }
                input id="date" name="date" type="text" value=(dates.asked) maxlength="10" placeholder="2026-01";
                button { "Show" }
            }
            nav.years aria-label="Years" {
                @for year in (first..=last).rev() {
                    a href={ (place) "?date=" (year) } { (year) } " "
                }
            }
            nav.years aria-label={ "Months of " (dates.year) } {
                @for month in 1..=12 {
                    a href={ (place) "?date=" (dates.year) "-" (format!("{month:02}")) } {
                        (dates.year) "-" (format!("{month:02}"))
                    } " "
                }
            }
        }
    }
}

/// Renders links to the pages before and after.
pub(super) fn pages(turning: &PageLinks, newer: &str, older: &str) -> Markup {
    html! {
        @if turning.newer.is_some() || turning.older.is_some() {
            nav.pages aria-label="Pages" {
                @if let Some(place) = &turning.newer { a rel="prev" href=(place) { (newer) } }
                @if let Some(place) = &turning.older { a rel="next" href=(place) { (older) } }
            }
        }
    }
}
