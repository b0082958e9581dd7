//! NEWGROUPS and NEWNEWS.
//!
//! Source: RFC 3977 sections 7.3 and 7.4.

use super::list::append_active;
use super::source::NewsSource;
use super::{Reader, failed};
use crate::site::unix_now;
use hashbrown::HashSet;
use netnews::Wildmat;
use netnews::date::parse_nntp;
use netnews::nntp::response::{append, append_standard, code};
use nntp_io::Output;
use std::hash::{BuildHasher, RandomState};
use std::io;

impl<S: NewsSource> Reader<S> {
    pub(super) async fn new_groups(&mut self, date: &[u8], time: &[u8], out: &mut Output) -> io::Result<()> {
        let Some(since) = since(date, time, out) else { return Ok(()) };
        let groups = match self.source.groups().await {
            Ok(groups) => groups,
            Err(error) => {
                append_standard(out.text(), failed(&error));
                return Ok(());
            }
        };
        append_standard(out.text(), code::NEWGROUPS_FOLLOWS);
        for group in groups.iter().filter(|group| group.created >= since) {
            if self.view.shows(group.name.as_bytes()) {
                append_active(group, &self.view, out.text());
                out.relieve().await?;
            }
        }
        out.text().extend_from_slice(b".\r\n");
        Ok(())
    }

    pub(super) async fn new_news(
        &mut self,
        wildmat: &[u8],
        date: &[u8],
        time: &[u8],
        out: &mut Output,
    ) -> io::Result<()> {
        let Some(since) = since(date, time, out) else { return Ok(()) };
        let Ok(wildmat) = Wildmat::parse_lenient(wildmat) else {
            append(out.text(), code::SYNTAX_ERROR, "Not a wildmat");
            return Ok(());
        };
        let groups = match self.source.groups().await {
            Ok(groups) => groups,
            Err(error) => {
                append_standard(out.text(), failed(&error));
                return Ok(());
            }
        };
        append_standard(out.text(), code::NEWNEWS_FOLLOWS);
        // A crosspost is told once. Of the Message-IDs told only hashes are kept.
        let (hasher, mut told, mut ids) = (RandomState::new(), HashSet::new(), Vec::new());
        for group in groups.iter() {
            let name = group.name.as_bytes();
            if !self.view.shows(name) || !wildmat.matches(name) {
                continue;
            }
            ids.clear();
            if let Err(error) = self.source.arrived_since(group.id, since, &mut ids).await {
                failed(&error);
                return Err(io::ErrorKind::Other.into());
            }
            for id in ids.split_inclusive(|&b| b == b'\n') {
                if told.insert(hasher.hash_one(id)) {
                    out.text().extend_from_slice(id);
                    out.relieve().await?;
                }
            }
        }
        out.text().extend_from_slice(b".\r\n");
        Ok(())
    }
}

/// The moment meant by a client, as Unix seconds; answers 501 if there is none.
fn since(date: &[u8], time: &[u8], out: &mut Output) -> Option<u64> {
    let since = parse_nntp(date, time, unix_now());
    if since.is_none() {
        append(out.text(), code::SYNTAX_ERROR, "No such date or time");
    }
    since.map(|since| u64::try_from(since).unwrap_or_default())
}
