//! Pages without their frame: markup of the results of other modules.
//!
//! Every text is escaped by maud; every link is made by `urls`, or is one to the web that `links` allowed. No
//! scripts, no styles within elements, nothing from other hosts, so that the strictest
//! Content-Security-Policy fits. Called by the web server.

mod article;
mod lists;
mod text;

pub use article::{ArticlePage, article};
pub use lists::{
    GroupListEntry, GroupPage, PageLinks, SearchHit, SearchPage, ThreadPage, group, groups, search, thread,
};

/// Formats a time like `2026-11-21 01:24`; empty for an unknown time.
fn moment(secs: i64) -> String {
    match secs {
        0 => String::new(),
        secs => crate::feed::rfc3339(secs).replace('T', " ").get(..16).unwrap_or_default().to_owned(),
    }
}
