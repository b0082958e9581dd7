//! The front page: the operator's text, the groups that the visitor may read, and the way for newsreaders.

use super::traffic::{MonthlyTraffic, TrafficCounts};
use super::{NewsPages, failed, has_search, hosts, is_open};
use crate::page::HtmlPage;
use crate::visitor::Visitor;
use crate::{WebState, operator};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use newspages::view::{self, FrontGroup, FrontPage, GroupListEntry, Hierarchy, NewsServer};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use upstreams::{GroupList, GroupSelection, GroupStream, NewsSource};

/// Number of groups up to which each is listed; of more there are the hierarchies alone.
const LISTED_MAX: usize = 100;
/// Hierarchies of the server itself, which the list of all groups has.
const SERVERS_OWN: [&str; 3] = ["control", "junk", "to"];
/// Maximum number of hierarchies.
const HIERARCHIES_MAX: usize = 500;

pub(super) async fn front(
    State(shared): State<Arc<WebState>>,
    headers: HeaderMap,
    visitor: Visitor,
) -> Result<Response, Response> {
    let config = visitor.client().config();
    let mut hierarchies = None;
    if is_open(&visitor) {
        let reading = NewsPages::begin(&shared, &visitor, "/")?;
        let traffic = MonthlyTraffic::current(&shared).await;
        hierarchies = Some(reading.hierarchies(traffic.as_deref()).await?);
    }
    let server = news_server(&shared, &visitor, hosts::asked_for(&headers, config));
    let about = config.web.about.as_deref().map(view::markdown);
    let page = FrontPage {
        site: &config.site.path_identity,
        about: about.as_ref(),
        server: server.as_ref(),
        hierarchies: hierarchies.as_deref(),
        has_upstreams: !config.upstreams.is_empty(),
        has_search: has_search(&shared, &visitor),
        may_log_in: visitor.may_log_in(),
        operator: (config.web.operator && visitor.may_operate()).then_some(operator::paths::OVERVIEW),
    };
    let answer = HtmlPage::new(&shared, &visitor, "News").answer(StatusCode::OK, &view::front(&page));
    Ok(super::marked(&visitor, answer))
}

/// Returns how newsreaders reach the server under the name by which the visitor did; `None` if they cannot
/// from there.
fn news_server(shared: &WebState, visitor: &Visitor, asked_for: &str) -> Option<NewsServer> {
    let server = shared.server.upgrade()?;
    let site = &visitor.client().config().site;
    let is_near = visitor.client().address().is_loopback();
    let addresses = server.listening.addresses();
    let reachable = addresses.nntp.iter().filter(|address| is_near || !address.ip().is_loopback());
    let is_tls = |address: &&SocketAddr| {
        let mut ports = site.tls_listen.iter().filter_map(|own| own.rsplit_once(':'));
        ports.any(|(_, port)| port.parse() == Ok(address.port()))
    };
    let (tls, plain) = reachable.partition::<Vec<&SocketAddr>, _>(is_tls);
    let port = |addresses: &[&SocketAddr]| addresses.first().map(|address| address.port());
    let (port, tls_port) = (port(&plain), port(&tls));
    (port.is_some() || tls_port.is_some()).then(|| NewsServer {
        host: hosts::without_port(asked_for).to_owned(),
        port,
        tls_port,
        has_starttls: visitor.client().config().tls.is_offered(),
    })
}

impl NewsPages<'_> {
    /// Returns the groups by hierarchy.
    async fn hierarchies(&self, traffic: Option<&TrafficCounts>) -> Result<Vec<Hierarchy>, Response> {
        let mut found: BTreeMap<String, Hierarchy> = BTreeMap::new();
        let mut listed = Vec::new();
        let shown = |name: &[u8]| self.news.view.shows(name);
        let mut groups =
            self.news.source.groups(GroupList::Counts, GroupSelection::All, |_| 0).await.map_err(failed)?;
        while let Some(group) = groups.next(&shown).await.map_err(failed)? {
            // An alias has no articles, and a group that is not carried has no page.
            if group.flag.starts_with(b"=") || group.flag == b"x" {
                continue;
            }
            let month = traffic.and_then(|traffic| traffic.of(group.name));
            let name = String::from_utf8_lossy(group.name);
            let first = name.split('.').next().unwrap_or_default();
            let is_full = found.len() == HIERARCHIES_MAX && !found.contains_key(first);
            if is_full || SERVERS_OWN.contains(&first) {
                continue;
            }
            let hierarchy = found.entry(first.to_owned()).or_insert_with(|| Hierarchy {
                name: first.to_owned(),
                groups: 0,
                month: None,
                listed: Vec::new(),
            });
            hierarchy.groups += 1;
            hierarchy.month = match (hierarchy.month, month) {
                (Some(all), Some(own)) => Some(all + own),
                (all, own) => all.or(own),
            };
            if listed.len() <= LISTED_MAX {
                let articles = group.marks.count;
                let entry = GroupListEntry { name: name.into_owned(), description: String::new(), articles };
                listed.push((entry, month));
            }
        }
        drop(groups);
        if listed.len() <= LISTED_MAX {
            let (mut entries, months): (Vec<GroupListEntry>, Vec<Option<u64>>) = listed.into_iter().unzip();
            self.describe(&mut entries).await?;
            for (entry, month) in entries.into_iter().zip(months) {
                let first = entry.name.split('.').next().unwrap_or_default();
                if let Some(hierarchy) = found.get_mut(first) {
                    let GroupListEntry { name, description, articles } = entry;
                    hierarchy.listed.push(FrontGroup { name, description, articles, month });
                }
            }
        }
        Ok(found.into_values().collect())
    }
}
