//! Lists of groups of several upstreams, and the entries of single groups.
//!
//! Each upstream lists the groups that it numbers; the lists are merged while they arrive. Called by
//! `upstream` and `prefetching`.

use super::lists::{self, CachedListKind, ListLines};
use super::selected::UpstreamGroup;
use super::table::{NumberingRules, Upstream, UpstreamTable};
use super::trouble::UpstreamError;
use crate::listed::OwnedGroupInfo;
use crate::{Answer, CountingBase, GroupInfo, GroupList, GroupSelection, GroupStream, SourceError, Wanted};
use netnews::Wildmat;
use netnews::date::format_nntp;
use newscache::RequestKind;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::JoinHandle;
use tracing::debug;

/// Groups of upstreams, in the order of their names if the upstreams list them in order.
pub struct UpstreamGroups {
    list: GroupList,
    base: CountingBase,
    routes: Arc<NumberingRules>,
    parts: Vec<ListPart>,
    last: OwnedGroupInfo,
}

impl UpstreamGroups {
    /// Lists groups, counted as a request of this client.
    pub(super) async fn list(
        table: &Arc<UpstreamTable>,
        client: &Arc<str>,
        list: GroupList,
        which: GroupSelection<'_, UpstreamGroup>,
        base: CountingBase,
    ) -> Answer<Self> {
        let mut groups = Self {
            list,
            base,
            routes: table.routes.clone(),
            parts: Vec::new(),
            last: OwnedGroupInfo::default(),
        };
        let one = match which {
            GroupSelection::All | GroupSelection::Like(_) => {
                let pattern = match which {
                    GroupSelection::Like(text) => Wildmat::parse_lenient(text).ok(),
                    _ => None,
                };
                let may_have = |upstream: &Upstream| {
                    pattern.as_ref().is_none_or(|pattern| upstream.config.groups.may_overlap(pattern))
                };
                // All are asked before the first has answered.
                let asked = table.upstreams.iter().enumerate();
                let asked = asked.filter(|(_, u)| !u.config.fill && !u.config.is_unread() && may_have(u));
                let asked =
                    asked.map(|(at, upstream)| (at, upstream, ask_list(upstream.clone(), list, client)));
                for (at, upstream, lines) in asked.collect::<Vec<_>>() {
                    let lines = match lines.await.map_err(|error| SourceError::Fault(error.into()))? {
                        // No reader has seen its groups yet, so none is missed.
                        Err(UpstreamError::Away(_)) if upstream.is_unheard() => continue,
                        // Nor has the cache ever had a whole list of it.
                        Err(trouble @ UpstreamError::Endless(_)) => {
                            debug!(%trouble, "the groups of other servers are listed");
                            continue;
                        }
                        lines => lines?,
                    };
                    groups.parts.push(ListPart { at, lines, next: None, is_over: false });
                }
                return Ok(groups);
            }
            GroupSelection::Named(name) => one(table, list, name, base, true).await?,
            GroupSelection::One(selected) => match selected.current() {
                Ok(group) => one(table, list, &group.name, base, false).await?,
                Err(_) => None,
            },
        };
        if let Some(one) = one
            && let Some(at) = table.routes.numbering(&one.name)
        {
            groups.parts.push(ListPart { at, lines: ListLines::none(), next: Some(one), is_over: true });
        }
        Ok(groups)
    }
}

/// The list of one upstream, and its next group.
struct ListPart {
    /// Index of the upstream.
    at: usize,
    lines: ListLines,
    next: Option<OwnedGroupInfo>,
    is_over: bool,
}

impl ListPart {
    /// Advances to the next wanted group.
    async fn advance(
        &mut self,
        list: GroupList,
        base: CountingBase,
        routes: &NumberingRules,
        wanted: Wanted<'_>,
    ) -> Answer<()> {
        while self.next.is_none() && !self.is_over {
            match self.lines.next().await? {
                None => self.is_over = true,
                Some(line) => {
                    let found = lists::info(list, line, base).filter(|group| wanted(group.name));
                    let own = found.filter(|group| routes.numbering(group.name) == Some(self.at));
                    self.next = own.map(|group| OwnedGroupInfo::of(&group));
                }
            }
        }
        Ok(())
    }
}

impl GroupStream for UpstreamGroups {
    async fn next<'s>(&'s mut self, wanted: Wanted<'_>) -> Answer<Option<GroupInfo<'s>>> {
        for part in &mut self.parts {
            part.advance(self.list, self.base, &self.routes, wanted).await?;
        }
        let names = self.parts.iter().enumerate();
        let first = names.filter_map(|(at, part)| Some((&part.next.as_ref()?.name, at))).min();
        let part = first.map(|(_, at)| at).and_then(|at| self.parts.get_mut(at));
        let Some(next) = part.and_then(|part| part.next.take()) else { return Ok(None) };
        self.last = next;
        Ok(Some(self.last.info()))
    }
}

/// Returns the list of an upstream from which groups are listed.
async fn lines_of(upstream: &Upstream, list: GroupList) -> Result<ListLines, UpstreamError> {
    let (pool, age_max) = (&upstream.pool, upstream.config.active_age);
    let kept = async |kind| upstream.lists.list(kind, pool, &upstream.cache, age_max).await;
    let found = match list {
        GroupList::Active | GroupList::Names | GroupList::Changed { .. } => {
            kept(CachedListKind::Active).await
        }
        GroupList::Times => kept(CachedListKind::Times).await,
        GroupList::Descriptions => kept(CachedListKind::Descriptions).await,
        GroupList::Counts => match kept(CachedListKind::Counts).await {
            Err(UpstreamError::Refused(..) | UpstreamError::Away(_)) => match kept(CachedListKind::Active)
                .await
            {
                // For readers of counts a partial list will do; LIST ACTIVE is copied by other servers.
                Err(UpstreamError::Away(_)) => Ok(lists::of_known(&upstream.cache, &upstream.config.name)),
                active => active,
            },
            counts => counts,
        },
        GroupList::New { since } => {
            if let Some(refused) = pool.lists_refused() {
                return Err(refused);
            }
            let digits = format_nntp(i64::try_from(since).unwrap_or_default());
            let (day, time) = digits.as_ref().split_at_checked(8).unwrap_or_default();
            lists::fetch(pool, [b"NEWGROUPS ", day, b" ", time, b" GMT"].concat()).await
        }
    };
    found.map(ListLines::of)
}

/// Fetches the list in a task of its own, counted as a request of this client.
fn ask_list(
    upstream: Arc<Upstream>,
    list: GroupList,
    client: &Arc<str>,
) -> JoinHandle<Result<ListLines, UpstreamError>> {
    let client = client.clone();
    tokio::spawn(async move {
        let asked = upstream.pool.questions();
        let lines = lines_of(&upstream, list).await?;
        let is_hit = upstream.pool.questions() == asked;
        upstream.record(&client, RequestKind::Active, b"", is_hit);
        Ok(lines)
    })
}

/// Returns the line of one group in a list.
async fn one_line(upstream: &Upstream, list: GroupList, name: &[u8]) -> Answer<Option<OwnedGroupInfo>> {
    let (kind, word) = match list {
        GroupList::Times => (CachedListKind::Times, "ACTIVE.TIMES"),
        GroupList::Descriptions => (CachedListKind::Descriptions, "NEWSGROUPS"),
        _ => (CachedListKind::Active, "ACTIVE"),
    };
    let found = match upstream.lists.at_hand(kind, upstream.config.active_age) {
        Some(found) => found,
        None if upstream.pool.lists_refused().is_some() => {
            let age_max = upstream.config.active_age;
            match upstream.lists.list(kind, &upstream.pool, &upstream.cache, age_max).await {
                Err(UpstreamError::Endless(_)) => return Ok(None),
                found => found?,
            }
        }
        None => match lists::fetch(&upstream.pool, [b"LIST ", word.as_bytes(), b" ", name].concat()).await {
            // The list fetched last has it, too.
            Err(UpstreamError::Away(_)) => {
                let age_max = upstream.config.active_age;
                upstream.lists.list(kind, &upstream.pool, &upstream.cache, age_max).await?
            }
            found => found?,
        },
    };
    let mut lines = ListLines::of(found);
    let list = match list {
        GroupList::Changed { .. } => list,
        list if kind != CachedListKind::Active => list,
        _ => GroupList::Active,
    };
    while let Some(line) = lines.next().await? {
        if let Some(group) = lists::info(list, line, |_| 0).filter(|group| group.name == name) {
            return Ok(Some(OwnedGroupInfo::of(&group)));
        }
    }
    Ok(None)
}

/// Returns the information on one group, if it exists.
async fn one(
    table: &UpstreamTable,
    list: GroupList,
    name: &[u8],
    base: CountingBase,
    with_flag: bool,
) -> Answer<Option<OwnedGroupInfo>> {
    let Some(upstream) = table.numbering(name) else { return Ok(None) };
    match list {
        GroupList::Times | GroupList::Descriptions | GroupList::New { .. } | GroupList::Changed { .. } => {
            one_line(upstream, list, name).await
        }
        GroupList::Active | GroupList::Counts | GroupList::Names => {
            let begun = Instant::now();
            let Some(group) = upstream.group(name).await? else { return Ok(None) };
            let Some(marks) = group.marks_above(base, begun).await? else { return Ok(None) };
            let line = if with_flag { one_line(upstream, GroupList::Active, name).await? } else { None };
            let flag = line.map_or_else(|| b"y".to_vec(), |line| line.flag);
            Ok(Some(OwnedGroupInfo { name: name.to_vec(), marks, flag, ..OwnedGroupInfo::default() }))
        }
    }
}

/// Refreshes the descriptions of all groups that are numbered by upstreams that answer.
pub(super) async fn refresh_descriptions(table: &UpstreamTable) {
    let unread = |upstream: &Upstream| upstream.config.fill || upstream.config.is_unread();
    for upstream in table.upstreams.iter().filter(|upstream| !unread(upstream) && !upstream.pool.is_away()) {
        let read = async {
            let mut lines = lines_of(upstream, GroupList::Descriptions).await.map_err(SourceError::from)?;
            while lines.next().await?.is_some() {}
            Answer::Ok(())
        };
        if let Err(error) = read.await {
            debug!(upstream = upstream.config.name, %error, "no descriptions of groups");
        }
    }
}

/// Returns the names of all groups, as far as they can be listed now.
pub(super) async fn names(table: &Arc<UpstreamTable>) -> Answer<Vec<Vec<u8>>> {
    let all = GroupSelection::All;
    let mut groups = UpstreamGroups::list(table, &"".into(), GroupList::Names, all, |_| 0).await?;
    let mut names = Vec::new();
    while let Some(group) = groups.next(&|_| true).await? {
        names.push(group.name.to_vec());
    }
    Ok(names)
}
