//! The page of a search: its form, the articles found, and what they have in common.

use maud::{Markup, html};

use super::lists::pages;
use super::{PageLinks, moment};
use crate::{header, urls};

/// A piece of text around a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnippetPiece {
    /// Text of the piece.
    pub text: String,
    /// True if it is a word of the query.
    pub is_match: bool,
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
    /// Time of the article, in Unix seconds.
    pub date: Option<i64>,
    /// Groups that the reader may read.
    pub groups: Vec<String>,
    /// The place that matches.
    pub snippet: Vec<SnippetPiece>,
}

/// A property by which results can be narrowed down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchFacet {
    /// Name of the property.
    pub name: &'static str,
    /// Values of it, the most frequent first.
    pub values: Vec<FacetLink>,
}

/// A value of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FacetLink {
    /// The value.
    pub value: String,
    /// Number of articles that have it.
    pub count: usize,
    /// The query that is restricted to it.
    pub query: String,
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
    /// Hint about the query.
    pub hint: Option<&'a str>,
    /// How many in a hundred articles the index has while it is being built; `None` once it has all.
    pub building_percent: Option<u8>,
    /// The query with the results in the other order, and the name of that order.
    pub other_order: Option<(&'a str, &'a str)>,
    /// Properties of the results.
    pub facets: &'a [SearchFacet],
    /// Number of results that were looked at for the properties.
    pub facets_of: usize,
    /// Path of the results as mbox.
    pub mbox: Option<&'a str>,
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
            code { "after:2026-01-31" } ", " code { "before:2026" } ", " code { "thread:" } "Message-ID, "
            code { "order:oldest" }
        }
        @if let Some(problem) = page.problem { p.problem role="alert" { (problem) } }
        @if let Some(hint) = page.hint { p.note { (hint) } }
        @if let Some(percent) = page.building_percent {
            p.note role="status" {
                "The search index is still being built, with " (percent) " % of the articles so far: others are not \
                 found yet."
            }
        }
        @if let Some(lines) = page.lines { (results(page, lines)) }
        (pages(page.turning, "First", "Next"))
    }
}

fn results(page: &SearchPage<'_>, lines: &[SearchHit]) -> Markup {
    html! {
        @if lines.is_empty() {
            @if page.building_percent.is_some() {
                p { "Nothing that is in the index so far has these words." }
            } @else {
                p { "Nothing that you may read has these words." }
            }
        } @else {
            p.ways {
                @if let Some((query, name)) = page.other_order { a href=(urls::search(query)) { (name) } " " }
                @if let Some(mbox) = page.mbox { a href=(mbox) { "Results as mbox.gz" } }
            }
        }
        @for facet in page.facets { (self::facet(facet)) }
        @if !page.facets.is_empty() { p.quiet { "As far as the first " (page.facets_of) " results go." } }
        ul.threads { @for line in lines { li { (found_line(line)) } } }
    }
}

fn facet(facet: &SearchFacet) -> Markup {
    html! {
        nav.facets aria-label=(facet.name) {
            b { (facet.name) } " "
            @for value in &facet.values {
                a dir="auto" href=(urls::search(&value.query)) { (value.value) " (" (value.count) ")" } " "
            }
        }
    }
}

fn found_line(line: &SearchHit) -> Markup {
    html! {
        a dir="auto" href=(urls::article(&line.message_id)) {
            @if line.subject.is_empty() { "(no subject)" } @else { (line.subject) }
        }
        " " span.by {
            bdi { (header::author(&line.from)) }
            @if line.date.is_some() { " " time { (moment(line.date)) } }
            @for group in &line.groups { " " a href=(urls::group(group)) { (group) } }
        }
        @if !line.snippet.is_empty() {
            " " span.snippet dir="auto" {
                @for piece in &line.snippet {
                    @if piece.is_match { mark { (piece.text) } } @else { (piece.text) }
                }
            }
        }
    }
}
