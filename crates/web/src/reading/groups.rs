//! The list of groups that a visitor may read.

use super::{NewsPages, asked, failed, site_url};
use crate::visitor::Visitor;
use crate::{WebState, answers};
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use newspages::urls;
use newspages::view::{self, GroupListEntry, PageLinks};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use upstreams::{GroupList, GroupSelection, GroupStream, NewsSource, SourceError};

/// Groups per page.
const GROUPS_PER_PAGE: usize = 200;
/// Maximum number of groups in the sitemap; its standard allows 50,000.
const SITEMAP_GROUPS_MAX: usize = 50_000;
/// Maximum length of a search term for names, in bytes.
const MATCH_BYTES_MAX: usize = 100;

pub(super) async fn list(
    State(shared): State<Arc<WebState>>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, urls::GROUPS)?;
    let cut = |text: String| {
        let bytes = text.floor_char_boundary(MATCH_BYTES_MAX);
        text.get(..bytes).unwrap_or_default().to_owned()
    };
    let wanted = cut(asked(query.as_deref(), "match").to_lowercase());
    let after = asked(query.as_deref(), "after");
    let within = cut(asked(query.as_deref(), "in"));
    let (mut lines, is_all) = reading.lines(wanted.as_bytes(), &within, after.as_bytes()).await?;
    reading.describe(&mut lines).await?;
    let field = |name: &str, value: &str| match value {
        "" => String::new(),
        value => format!("{name}={}&", urls::escape(value)),
    };
    let query = field("in", &within) + &field("match", &wanted);
    let to = |after: &str| format!("{}?{query}after={}", urls::GROUPS, urls::escape(after));
    let turning = PageLinks {
        newer: (!after.is_empty()).then(|| format!("{}?{}", urls::GROUPS, query.trim_end_matches('&'))),
        older: lines.last().filter(|_| !is_all).map(|last| to(&last.name)),
    };
    let bytes = lines.iter().map(|line| line.description.len()).sum();
    let is_part = reading.lacks_upstreams();
    let render = move || view::groups(&lines, &within, &wanted, &turning, is_part);
    let markup = reading.render(bytes, render).await?;
    Ok(reading.page("Groups", &markup))
}

/// Returns the addresses of the groups, for robots that may read here.
pub(super) async fn sitemap(
    State(shared): State<Arc<WebState>>,
    headers: HeaderMap,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, "/sitemap.xml")?;
    if !visitor.client().config().web.robots {
        return Err(answers::no_page().await);
    }
    let site = site_url(&visitor, &headers);
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n");
    xml.push_str("<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n");
    let shown = |name: &[u8]| reading.news.view.shows(name);
    let mut groups =
        reading.news.source.groups(GroupList::Counts, GroupSelection::All, |_| 0).await.map_err(failed)?;
    let mut listed = 0;
    while listed < SITEMAP_GROUPS_MAX
        && let Some(group) = groups.next(&shown).await.map_err(failed)?
    {
        if group.marks.count > 0 && !group.flag.starts_with(b"=") && group.flag != b"x" {
            // Neither part has characters that XML would have to escape.
            let place = urls::group(&String::from_utf8_lossy(group.name));
            xml.push_str(&format!("<url><loc>{site}{place}</loc></url>\n"));
            listed += 1;
        }
    }
    xml.push_str("</urlset>\n");
    Ok(answers::of_type(StatusCode::OK, "application/xml", xml))
}

impl NewsPages<'_> {
    /// Returns the groups of a page, and whether there are no more.
    pub(super) async fn lines(
        &self,
        wanted: &[u8],
        within: &str,
        after: &[u8],
    ) -> Result<(Vec<GroupListEntry>, bool), Response> {
        let is_within = |name: &[u8]| {
            let rest = name.strip_prefix(within.as_bytes());
            within.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
        };
        let has = |name: &[u8]| {
            wanted.is_empty() || memchr::memmem::find(&name.to_ascii_lowercase(), wanted).is_some()
        };
        let shown = |name: &[u8]| name > after && is_within(name) && self.news.view.shows(name) && has(name);
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

    /// Adds the descriptions of groups, as far as they are available: pages do without those of a server that
    /// is away.
    pub(super) async fn describe(&self, lines: &mut [GroupListEntry]) -> Result<(), Response> {
        let mut found: HashMap<Vec<u8>, String> = HashMap::new();
        {
            let names: HashSet<&[u8]> = lines.iter().map(|line| line.name.as_bytes()).collect();
            let shown = |name: &[u8]| names.contains(name);
            let which = match &*lines {
                [line] => GroupSelection::Named(line.name.as_bytes()),
                _ => GroupSelection::All,
            };
            let list = GroupList::Descriptions;
            let described = async {
                let mut groups = self.news.source.groups(list, which, |_| 0).await?;
                while let Some(group) = groups.next(&shown).await? {
                    found.insert(group.name.to_vec(), newspages::header::text(group.description));
                }
                Ok(())
            };
            match described.await {
                Ok(()) | Err(SourceError::Unavailable(_)) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        for line in lines {
            line.description = found.remove(line.name.as_bytes()).unwrap_or_default();
        }
        Ok(())
    }

    /// Returns whether another server whose groups are shown is away, so that some may be missing.
    fn lacks_upstreams(&self) -> bool {
        self.shared.server.upgrade().is_some_and(|server| server.upstreams.may_lack_groups())
    }

    /// Returns the description of a group.
    pub(super) async fn description(&self, name: &str) -> Result<String, Response> {
        let mut line = [GroupListEntry { name: name.to_owned(), description: String::new(), articles: 0 }];
        self.describe(&mut line).await?;
        let [line] = line;
        Ok(line.description)
    }
}
