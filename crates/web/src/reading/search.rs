//! Search on the web: a form, and the found articles that the visitor may read.
//!
//! The index returns candidates; each is then looked up in the source of news, like a request of a
//! newsreader, and only existing and readable ones are shown.

use super::dates::{time_of, year_of};
use super::{FoundArticle, NewsPages, asked, asked_number, failed};
use crate::visitor::Visitor;
use crate::{WebState, answers};
use axum::extract::{RawQuery, State};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use netnews::article::{content_of, xref_places};
use newspages::content::ArticleContent;
use newspages::view::{self, FacetLink, PageLinks, SearchFacet, SearchHit, SearchPage};
use newspages::{header, urls};
use newssearch::index::ANSWERS_MAX;
use newssearch::query::{Query, ResultOrder};
use newssearch::snippet::snippet;
use operators::search::{SearchCoverage, SearchError, VISITORS_QUERIES_MAX, first_of_thread};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::task::block_in_place;
use tracing::warn;
use upstreams::ArticlePart;

/// Articles per page.
const LINES_PER_PAGE: usize = 30;
/// Results that are looked at for groups, years and authors, and how many of each are listed.
const FACET_HITS: usize = 300;
const FACET_VALUES_MAX: usize = 8;
/// Bytes of an article's text that are searched for its snippet.
const SNIPPET_TEXT_BYTES: usize = 64 << 10;
/// Maximum number of candidates examined for one page; removed ones are skipped.
const LOOKED_AT_MAX: usize = 300;

pub(super) async fn search(
    State(shared): State<Arc<WebState>>,
    RawQuery(asked_for): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, urls::SEARCH)?;
    let text = asked(asked_for.as_deref(), "q");
    let from = asked_number(asked_for.as_deref(), "from").map_err(|error| reading.no_number(&error))?;
    let from = from.unwrap_or(0).min(ANSWERS_MAX);
    let hint = Query::hint(&text);
    let page = SearchPage {
        query: &text,
        lines: None,
        problem: None,
        hint: hint.as_deref(),
        building_percent: None,
        other_order: None,
        facets: &[],
        facets_of: FACET_HITS,
        mbox: None,
        turning: &PageLinks::default(),
    };
    if text.trim().is_empty() {
        return Ok(reading.page("Search", &view::search(&page)));
    }
    let query = match Query::parse(&text) {
        Ok(query) => query,
        Err(error) => {
            let problem = error.to_string();
            let page = SearchPage { problem: Some(&problem), ..page };
            return Ok(reading.page_with("Search", None, StatusCode::BAD_REQUEST, &view::search(&page)));
        }
    };
    let found = reading.found(&query, from).await?;
    let facets = if from == 0 { reading.facets(&query, &text).await? } else { Vec::new() };
    let to = |from: usize| format!("{}&from={from}", urls::search(&text));
    let turning = PageLinks { newer: (from > 0).then(|| to(0)), older: found.next.map(to) };
    let mbox = format!("{}/mbox.gz?q={}", urls::SEARCH, urls::escape(&text));
    let (other, name) = match query.order {
        ResultOrder::Newest => (format!("{text} order:oldest"), "Oldest first"),
        ResultOrder::Oldest => (format!("{text} order:newest"), "Newest first"),
    };
    let page = SearchPage {
        lines: Some(&found.lines),
        building_percent: (found.coverage != SearchCoverage::Whole).then(|| found.coverage.percent()),
        other_order: Some((&other, name)),
        facets: &facets,
        mbox: Some(&mbox),
        turning: &turning,
        ..page
    };
    // Articles that were removed are in no results, as soon as their removal is acknowledged.
    Ok(answers::never_kept(reading.page("Search", &view::search(&page))))
}

/// A page of results.
pub(super) struct FoundPage {
    pub lines: Vec<SearchHit>,
    /// The result with which the next page begins.
    pub next: Option<usize>,
    /// How far the index has got.
    pub coverage: SearchCoverage,
}

impl NewsPages<'_> {
    /// Returns the articles of a page.
    pub(super) async fn found(&self, query: &Query, from: usize) -> Result<FoundPage, Response> {
        let mut lines = Vec::new();
        let (mut at, mut is_over) = (from, false);
        while !is_over && lines.len() < LINES_PER_PAGE && at < from + LOOKED_AT_MAX {
            let ids = self.hits(query, at, LINES_PER_PAGE).await?;
            is_over = ids.len() < LINES_PER_PAGE;
            for id in &ids {
                if lines.len() == LINES_PER_PAGE {
                    is_over = false;
                    break;
                }
                at += 1;
                if let Some(found) = self.news.find(id, ArticlePart::Article).await.map_err(failed)? {
                    lines.push(self.line(query, id, found).await?);
                }
            }
        }
        let next = Some(at).filter(|at| !is_over && *at < ANSWERS_MAX);
        let coverage = self.shared.server.upgrade().map_or(SearchCoverage::Percent(0), |server| {
            server.search.coverage(&server.site.spool, &self.visitor.client().config().search)
        });
        Ok(FoundPage { lines, next, coverage })
    }

    /// Returns the Message-IDs of hits that the index has; the articles may have been removed.
    pub(super) async fn hits(
        &self,
        query: &Query,
        from: usize,
        count: usize,
    ) -> Result<Vec<String>, Response> {
        let Some(server) = self.shared.server.upgrade() else {
            return Err(self.problem(StatusCode::SERVICE_UNAVAILABLE, "The server is stopping."));
        };
        let turns = self.news.memory.in_another(&self.shared.searches, VISITORS_QUERIES_MAX);
        let Ok(_turn) = turns.take(1).await else { return Err(self.not_answered(&SearchError::Busy)) };
        let spool = &server.site.spool;
        let groups = self.groups_of(query, &spool.groups());
        // An article that the visitor may not read must not reveal its thread.
        let is_shown = match &query.thread {
            Some(id) => self.news.find(id, ArticlePart::Head).await.map_err(failed)?.is_some(),
            None => false,
        };
        let found = block_in_place(|| {
            let thread = query.thread.as_deref().map(|id| match is_shown {
                true => first_of_thread(spool, id),
                false => spool.key(id.as_bytes()),
            });
            server.search.find(query, thread.as_ref(), groups.as_deref(), from, count)
        });
        found.map_err(|error| self.not_answered(&error))
    }

    /// Returns what the first results have in common: groups, years and authors.
    async fn facets(&self, query: &Query, text: &str) -> Result<Vec<SearchFacet>, Response> {
        let mut counts: [HashMap<String, usize>; 3] = Default::default();
        for id in self.hits(query, 0, FACET_HITS).await? {
            let Some(found) = self.news.find(&id, ArticlePart::Head).await.map_err(failed)? else { continue };
            let get = |name: &[u8]| content_of(found.head(), name).unwrap_or_default();
            let is_asked = |group: &[u8]| self.news.view.shows(group) && query.is_for_group(group);
            let shown = xref_places(found.head()).filter(|(group, _)| is_asked(group));
            let groups = shown.map(|(group, _)| String::from_utf8_lossy(group).into_owned());
            let time = time_of(&self.news.source, id.as_bytes(), get(b"Date"));
            let year = time.map(|secs| year_of(secs).to_string());
            let from = header::text(get(b"From"));
            let author = Some(header::author(&from).to_owned()).filter(|author| !author.is_empty());
            let [by_group, by_year, by_author] = &mut counts;
            groups.for_each(|group| *by_group.entry(group).or_default() += 1);
            year.into_iter().for_each(|year| *by_year.entry(year).or_default() += 1);
            author.into_iter().for_each(|author| *by_author.entry(author).or_default() += 1);
        }
        let [by_group, by_year, by_author] = counts;
        let in_year = |year: &str| {
            let next = year.parse::<i32>().unwrap_or(0) + 1;
            format!("after:{year} before:{next}")
        };
        let all = [
            facet("Groups", by_group, text, |group| format!("group:{group}")),
            facet("Years", by_year, text, in_year),
            facet("Authors", by_author, text, |author| format!("from:\"{}\"", author.replace('"', " "))),
        ];
        Ok(all.into_iter().flatten().collect())
    }

    /// Returns the requested groups that may be read; `None` means all groups.
    fn groups_of(&self, query: &Query, groups: &[Arc<spool::Group>]) -> Option<Vec<String>> {
        let is_wanted = |name: &[u8]| self.news.view.shows(name) && query.is_for_group(name);
        let wanted = groups.iter().filter(|group| is_wanted(group.name.as_bytes()));
        let names: Vec<String> = wanted.map(|group| group.name.to_string()).collect();
        (names.len() < groups.len()).then_some(names)
    }

    async fn line(&self, query: &Query, id: &str, found: FoundArticle) -> Result<SearchHit, Response> {
        let get = |name: &[u8]| content_of(found.head(), name).unwrap_or_default();
        let groups = xref_places(found.head()).filter(|(group, _)| self.news.view.shows(group));
        let hit = SearchHit {
            message_id: id.to_owned(),
            subject: header::text(get(b"Subject")),
            from: header::text(get(b"From")),
            date: time_of(&self.news.source, id.as_bytes(), get(b"Date")),
            groups: groups.map(|(group, _)| String::from_utf8_lossy(group).into_owned()).collect(),
            snippet: Vec::new(),
        };
        let query = query.clone();
        let cut = move |wire: &[u8]| snippet(&query, &ArticleContent::of(wire, SNIPPET_TEXT_BYTES));
        // An article that cannot be rendered now is found without a snippet.
        let cut = self.render_article(found, 2, SNIPPET_TEXT_BYTES, cut).await;
        Ok(SearchHit { snippet: cut.map(|(snippet, _memory)| snippet).unwrap_or_default(), ..hit })
    }

    fn later(&self, words: &str) -> Response {
        let mut answer = self.problem(StatusCode::SERVICE_UNAVAILABLE, words);
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(answers::RETRY_SECS));
        answer
    }

    fn not_answered(&self, error: &SearchError) -> Response {
        match error {
            SearchError::Off => self.problem(StatusCode::NOT_FOUND, "There is no search on this site."),
            SearchError::Busy => self.later("Too many searches at once: try again in a moment."),
            SearchError::Opening => self.later("The search index is being opened: try again in a moment."),
            SearchError::Failed(_) | SearchError::NotOpened(_) => {
                warn!(%error, "a query has no answer");
                self.problem(StatusCode::INTERNAL_SERVER_ERROR, "This cannot be searched for now.")
            }
        }
    }
}

/// Returns the most frequent values of a property, each with a narrower query; `None` if there is only one.
fn facet(
    name: &'static str,
    counts: HashMap<String, usize>,
    text: &str,
    narrower: impl Fn(&str) -> String,
) -> Option<SearchFacet> {
    if counts.len() < 2 {
        return None;
    }
    let mut values: Vec<(String, usize)> = counts.into_iter().collect();
    values.sort_by(|(a, more), (b, less)| less.cmp(more).then_with(|| a.cmp(b)));
    values.truncate(FACET_VALUES_MAX);
    let links = values.into_iter().map(|(value, count)| {
        let query = Query::narrowed(text, &narrower(&value));
        FacetLink { value, count, query }
    });
    Some(SearchFacet { name, values: links.collect() })
}
