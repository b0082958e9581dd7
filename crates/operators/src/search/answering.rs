//! Answers of a server to its operator, who may see all articles.

use super::{SearchCoverage, SearchError, SearchService};
use crate::Sink;
use crate::operation::{OperatedSite, Operation, replied};
use crate::reply::{FoundRow, Reply};
use disk::ReadMode;
use netnews::article::{content_of, xref_places};
use netnews::date;
use newspages::content::references;
use newspages::header;
use newssearch::query::Query;
use serde::{Deserialize, Serialize};
use spool::{ArticleBuf, ArticleKey, Lookup, Spool};
use std::sync::atomic::Ordering;

/// Maximum number of hits examined for one query; removed articles are skipped.
const LOOKED_AT_MAX: usize = 2_000;
/// Hits requested from the index at once.
const STEP: usize = 100;

impl std::fmt::Display for SearchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Off => f.write_str("there is no search index: [search] does not say enabled = true"),
            Self::Opening => f.write_str("the search index is being opened: try again in a moment"),
            Self::NotOpened(problem) => write!(f, "the search index cannot be opened: {problem}"),
            Self::Busy => f.write_str("too many searches at once: try again in a moment"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

/// Search for articles, the newest first; answered by [`Reply::FoundArticle`] each, and by a [`Reply::Text`]
/// while the index is being built. Only in servers built with search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchOperation {
    /// The query.
    pub query: String,
    /// Maximum number of articles.
    pub limit: usize,
}

impl Operation for SearchOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let Some(server) = site.server(sink) else { return false };
        let rows = Query::parse(&self.query).map_err(|error| error.to_string()).and_then(|query| {
            found(&server.search, site.spool(), &query, self.limit).map_err(|error| error.to_string())
        });
        match rows {
            Ok(rows) => {
                rows.into_iter().for_each(|row| sink(Reply::FoundArticle(row)));
                let coverage = server.search.coverage(site.spool(), &server.site.config.current().search);
                if coverage != SearchCoverage::Whole {
                    sink(Reply::Text(coverage.to_string()));
                }
            }
            Err(error) => {
                sink(Reply::Error(error));
                return false;
            }
        }
        true
    }
}

/// Build the search index again, in the background; answered by [`Reply::Text`]. Only in servers built
/// with search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuildSearchOperation {}

impl Operation for RebuildSearchOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        site.server(sink).is_some_and(|server| replied(rebuild(&server.search).map(Reply::Text), sink))
    }
}

fn rebuild(search: &SearchService) -> Result<String, SearchError> {
    search.opened()?;
    search.is_stale.store(true, Ordering::Release);
    Ok("the search index is built again, in the background; newsreel status shows when".into())
}

/// Returns the key of the first article of a Message-ID's thread, according to its References.
pub fn first_of_thread(spool: &Spool, id: &str) -> ArticleKey {
    let key = spool.key(id.as_bytes());
    let mut buf = ArticleBuf::default();
    let read = match spool.lookup(&key) {
        Lookup::Present(token) => spool.read(&token, Some(&key), ReadMode::Wait, &mut buf).unwrap_or(false),
        _ => false,
    };
    let named = if read { content_of(buf.head(), b"References") } else { None };
    references(named.unwrap_or_default()).first().map_or(key, |first| spool.key(first.as_bytes()))
}

fn found(
    search: &SearchService,
    spool: &Spool,
    query: &Query,
    limit: usize,
) -> Result<Vec<FoundRow>, SearchError> {
    let thread = query.thread.as_deref().map(|id| first_of_thread(spool, id));
    let groups: Option<Vec<String>> = (!query.groups.is_empty()).then(|| {
        let groups = spool.groups();
        let names = groups.iter().filter(|group| query.is_for_group(group.name.as_bytes()));
        names.map(|group| group.name.to_string()).collect()
    });
    let (mut rows, mut buf, mut from) = (Vec::new(), ArticleBuf::default(), 0);
    while rows.len() < limit && from < LOOKED_AT_MAX.max(2 * limit) {
        let ids = search.find(query, thread.as_ref(), groups.as_deref(), from, STEP)?;
        for id in &ids {
            let key = spool.key(id.as_bytes());
            let Lookup::Present(token) = spool.lookup(&key) else { continue };
            // Articles that cannot be read now are not shown either.
            if rows.len() < limit && spool.read(&token, Some(&key), ReadMode::Wait, &mut buf).unwrap_or(false)
            {
                rows.push(row(id, &buf));
            }
        }
        from += ids.len();
        if ids.len() < STEP {
            break;
        }
    }
    Ok(rows)
}

fn row(id: &str, buf: &ArticleBuf) -> FoundRow {
    let (head, arrived) = (buf.head(), i64::try_from(buf.arrived()).unwrap_or(i64::MAX));
    let get = |name: &[u8]| content_of(head, name).unwrap_or_default();
    FoundRow {
        message_id: id.to_owned(),
        date: date::of_article(date::parse(get(b"Date")), Some(arrived), arrived).unwrap_or(arrived),
        from: header::text(get(b"From")),
        subject: header::text(get(b"Subject")),
        groups: xref_places(head).map(|(group, _)| String::from_utf8_lossy(group).into_owned()).collect(),
    }
}
