//! NEWGROUPS and NEWNEWS.
//!
//! Source: RFC 3977 sections 7.3 and 7.4.

use super::list::send_groups;
use super::news::VisibleNews;
use super::refusal::{Answered, CommandRefusal, NO_WILDMAT, cut_off, failed};
use hashbrown::HashSet;
use netnews::Wildmat;
use netnews::date::parse_nntp;
use netnews::nntp::response::{append_standard, code};
use nntp_io::ServerOutput;
use site_base::clock::unix_now;
use std::hash::{BuildHasher, RandomState};
use upstreams::{GroupList, GroupSelection, GroupStream, NewsSource};

pub(super) async fn new_groups<S: NewsSource>(
    news: &VisibleNews<S>,
    date: &[u8],
    time: &[u8],
    out: &mut ServerOutput,
) -> Answered {
    let since = since(date, time)?;
    send_groups(news, code::NEWGROUPS_FOLLOWS, GroupList::New { since }, None, out).await
}

pub(super) async fn new_news<S: NewsSource>(
    news: &VisibleNews<S>,
    text: &[u8],
    date: &[u8],
    time: &[u8],
    out: &mut ServerOutput,
) -> Answered {
    let since = since(date, time)?;
    let wildmat = Wildmat::parse_lenient(text).map_err(|_| NO_WILDMAT)?;
    let wanted = |name: &[u8]| news.view.shows(name) && wildmat.matches(name);
    let mut groups = news.groups(GroupList::Names, GroupSelection::Like(text)).await.map_err(failed)?;
    append_standard(out.text(), code::NEWNEWS_FOLLOWS);
    // A crosspost is listed once. Only hashes of the listed Message-IDs are kept.
    let (hasher, mut listed, mut ids) = (RandomState::new(), HashSet::new(), Vec::new());
    while let Some(group) = out.during(groups.next(&wanted)).await?.map_err(cut_off)? {
        ids.clear();
        match news.source.arrived_since(group.name, since, &mut ids).await {
            Err(error) if listed.is_empty() || !out.is_begun() => return Err(failed(error).into()),
            arrived => arrived.map_err(cut_off)?,
        }
        for id in ids.split_inclusive(|&b| b == b'\n') {
            if listed.insert(hasher.hash_one(id)) {
                out.text().extend_from_slice(id);
                out.relieve().await?;
            }
        }
        out.search_on().await?;
    }
    out.text().extend_from_slice(b".\r\n");
    Ok(())
}

/// Parses the client's date and time into Unix seconds.
fn since(date: &[u8], time: &[u8]) -> Result<u64, CommandRefusal> {
    let since = parse_nntp(date, time, unix_now());
    let since = since.ok_or(CommandRefusal::new(code::SYNTAX_ERROR, "No such date or time"))?;
    Ok(u64::try_from(since).unwrap_or_default())
}
