//! The list of groups that a visitor may read.

use super::{NewsPages, asked, failed};
use crate::WebState;
use crate::visitor::Visitor;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use newspages::urls;
use newspages::view::{self, GroupListEntry, PageLinks};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use upstreams::{GroupList, GroupSelection, GroupStream, NewsSource};

/// Groups per page.
const GROUPS_PER_PAGE: usize = 200;
/// Maximum length of a search term for names, in bytes.
const MATCH_BYTES_MAX: usize = 100;

pub(super) async fn list(
    State(shared): State<Arc<WebState>>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, urls::GROUPS)?;
    let wanted = asked(query.as_deref(), "match").to_lowercase();
    let wanted = wanted.get(..wanted.floor_char_boundary(MATCH_BYTES_MAX)).unwrap_or_default();
    let after = asked(query.as_deref(), "after");
    let (mut lines, is_all) = reading.lines(wanted.as_bytes(), after.as_bytes()).await?;
    reading.describe(&mut lines).await?;
    let query = if wanted.is_empty() { String::new() } else { format!("match={}&", urls::escape(wanted)) };
    let to = |after: &str| format!("{}?{query}after={}", urls::GROUPS, urls::escape(after));
    let turning = PageLinks {
        newer: (!after.is_empty()).then(|| format!("{}?{}", urls::GROUPS, query.trim_end_matches('&'))),
        older: lines.last().filter(|_| !is_all).map(|last| to(&last.name)),
    };
    let (wanted, bytes) = (wanted.to_owned(), lines.iter().map(|line| line.description.len()).sum());
    let markup = reading.render(bytes, move || view::groups(&lines, &wanted, &turning)).await?;
    Ok(reading.page("Groups", &markup))
}

impl NewsPages<'_> {
    /// Returns the groups of a page, and whether there are no more.
    async fn lines(&self, wanted: &[u8], after: &[u8]) -> Result<(Vec<GroupListEntry>, bool), Response> {
        let has = |name: &[u8]| {
            wanted.is_empty() || memchr::memmem::find(&name.to_ascii_lowercase(), wanted).is_some()
        };
        let shown = |name: &[u8]| name > after && self.news.view.shows(name) && has(name);
        let mut groups =
            self.news.source.groups(GroupList::Counts, GroupSelection::All, |_| 0).await.map_err(failed)?;
        let mut lines = Vec::new();
        while let Some(group) = groups.next(&shown).await.map_err(failed)? {
            if lines.len() == GROUPS_PER_PAGE {
                return Ok((lines, false));
            }
            // An alias has no articles, and a group that is not carried has no page.
            if group.flag.starts_with(b"=") || group.flag == b"x" {
                continue;
            }
            let name = String::from_utf8_lossy(group.name).into_owned();
            lines.push(GroupListEntry { name, description: String::new(), articles: group.marks.count });
        }
        Ok((lines, true))
    }

    async fn describe(&self, lines: &mut [GroupListEntry]) -> Result<(), Response> {
        let mut found: HashMap<Vec<u8>, String> = HashMap::new();
        {
            let names: HashSet<&[u8]> = lines.iter().map(|line| line.name.as_bytes()).collect();
            let shown = |name: &[u8]| names.contains(name);
            let which = match &*lines {
                [line] => GroupSelection::Named(line.name.as_bytes()),
                _ => GroupSelection::All,
            };
            let list = GroupList::Descriptions;
            let mut groups = self.news.source.groups(list, which, |_| 0).await.map_err(failed)?;
            while let Some(group) = groups.next(&shown).await.map_err(failed)? {
                found.insert(group.name.to_vec(), newspages::header::text(group.description));
            }
        }
        for line in lines {
            line.description = found.remove(line.name.as_bytes()).unwrap_or_default();
        }
        Ok(())
    }

    /// Returns the description of a group.
    pub(super) async fn description(&self, name: &str) -> Result<String, Response> {
        let mut line = [GroupListEntry { name: name.to_owned(), description: String::new(), articles: 0 }];
        self.describe(&mut line).await?;
        let [line] = line;
        Ok(line.description)
    }
}
