//! NEWGROUPS and NEWNEWS.
//!
//! Source: RFC 3977 sections 7.3 and 7.4.

use super::{NewsReader, cut_off, failed};
use hashbrown::HashSet;
use netnews::Wildmat;
use netnews::date::parse_nntp;
use netnews::nntp::response::{append, append_standard, code};
use nntp_io::ServerOutput;
use site_base::clock::unix_now;
use std::hash::{BuildHasher, RandomState};
use std::io;
use upstreams::{GroupList, GroupSelection, GroupStream, NewsSource};

impl<S: NewsSource> NewsReader<S> {
    pub(super) async fn new_groups(
        &mut self,
        date: &[u8],
        time: &[u8],
        out: &mut ServerOutput,
    ) -> io::Result<()> {
        let Some(since) = since(date, time, out) else { return Ok(()) };
        self.send_groups(code::NEWGROUPS_FOLLOWS, GroupList::New { since }, None, out).await
    }

    pub(super) async fn new_news(
        &mut self,
        text: &[u8],
        date: &[u8],
        time: &[u8],
        out: &mut ServerOutput,
    ) -> io::Result<()> {
        let Some(since) = since(date, time, out) else { return Ok(()) };
        let Ok(wildmat) = Wildmat::parse_lenient(text) else {
            append(out.text(), code::SYNTAX_ERROR, "Not a wildmat");
            return Ok(());
        };
        let wanted = |name: &[u8]| self.view.shows(name) && wildmat.matches(name);
        let groups = self.source.groups(GroupList::Names, GroupSelection::Like(text), self.view.base()).await;
        let mut groups = match groups {
            Ok(groups) => groups,
            Err(error) => {
                failed(error).append(out.text());
                return Ok(());
            }
        };
        let start = out.text().len();
        append_standard(out.text(), code::NEWNEWS_FOLLOWS);
        // A crosspost is listed once. Only hashes of the listed Message-IDs are kept.
        let (hasher, mut listed, mut ids) = (RandomState::new(), HashSet::new(), Vec::new());
        while let Some(group) = groups.next(&wanted).await.map_err(cut_off)? {
            ids.clear();
            match self.source.arrived_since(group.name, since, &mut ids).await {
                Err(error) if listed.is_empty() => {
                    out.text().truncate(start);
                    failed(error).append(out.text());
                    return Ok(());
                }
                arrived => arrived.map_err(cut_off)?,
            }
            for id in ids.split_inclusive(|&b| b == b'\n') {
                if listed.insert(hasher.hash_one(id)) {
                    out.text().extend_from_slice(id);
                    out.relieve().await?;
                }
            }
        }
        out.text().extend_from_slice(b".\r\n");
        Ok(())
    }
}

/// Parses the client's date and time into Unix seconds; answers 501 if they are invalid.
fn since(date: &[u8], time: &[u8], out: &mut ServerOutput) -> Option<u64> {
    let since = parse_nntp(date, time, unix_now());
    if since.is_none() {
        append(out.text(), code::SYNTAX_ERROR, "No such date or time");
    }
    since.map(|since| u64::try_from(since).unwrap_or_default())
}
