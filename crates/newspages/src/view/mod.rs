//! Pages without their frame: markup of the results of other modules.
//!
//! Every text is escaped by maud; every link is made by `urls`, or is one to the web that `links` allowed, or
//! the operator's. No scripts, no styles within elements, nothing from other hosts, so that the strictest
//! Content-Security-Policy fits. The pages are complete as text, without styles. Called by the web server.

mod article;
mod front;
mod lists;
mod markdown;
mod search;
mod text;
mod thread;

pub use article::{ArticlePage, ThreadPlace, article, threaded, unfiled, withheld};
pub use front::{FrontGroup, FrontPage, Hierarchy, NewsServer, front};
pub use lists::{DateLinks, GroupListEntry, GroupPage, PageLinks, group, groups};
pub use markdown::markdown;
pub use search::{FacetLink, SearchFacet, SearchHit, SearchPage, SnippetPiece, search};
pub use thread::{ThreadPage, thread};

/// Formats a time like `2026-11-21 01:24`; empty for an unknown time.
fn moment(secs: Option<i64>) -> String {
    let text = secs.map(crate::feed::rfc3339).unwrap_or_default();
    text.replace('T', " ").get(..16).unwrap_or_default().to_owned()
}
