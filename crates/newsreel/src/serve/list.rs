//! LIST and XGTITLE.
//!
//! LIST ACTIVE of everything is a text the spool keeps ready; it goes out in one write. All others are made group by
//! group. Sources: RFC 3977 sections 7.6 and 8.4, RFC 6048 section 2, RFC 2980 section 2.5 (XGTITLE).

use super::source::{Found, NewsSource};
use super::texts::Text;
use super::{Reader, View, failed};
use crate::site::unix_now;
use netnews::Wildmat;
use netnews::date::parse_nntp;
use netnews::decimal::{append_decimal, parse_decimal};
use netnews::nntp::command::ListKind;
use netnews::nntp::response::{append, append_standard, code};
use netnews::nntp::wire::dot_stuff;
use netnews::overview_row::OVERVIEW_FMT;
use nntp_io::Output;
use spool::Group;
use std::io;
use std::sync::Arc;

/// What may pass between a change of an active entry and the moment it is noted, in seconds.
const CHANGE_SLACK_SECS: u64 = 2;

impl<S: NewsSource> Reader<S> {
    pub(super) async fn list(&mut self, kind: ListKind<'_>, out: &mut Output) -> io::Result<()> {
        match kind {
            ListKind::Active(None) if self.view.is_everything() && !self.view.is_narrow() => {
                self.list_active(out).await
            }
            ListKind::Active(wildmat) => {
                let row = |group: &Group, out: &mut Vec<u8>| append_active(group, &self.view, out);
                self.list_groups(code::LIST_FOLLOWS, wildmat, row, out).await
            }
            ListKind::Newsgroups(wildmat) => {
                self.list_groups(code::LIST_FOLLOWS, wildmat, append_description, out).await
            }
            ListKind::ActiveTimes(wildmat) => {
                self.list_groups(code::LIST_FOLLOWS, wildmat, append_times, out).await
            }
            ListKind::Counts(wildmat) => {
                let row = |group: &Group, out: &mut Vec<u8>| append_counts(group, &self.view, out);
                self.list_groups(code::LIST_FOLLOWS, wildmat, row, out).await
            }
            ListKind::OverviewFmt => {
                append(out.text(), code::LIST_FOLLOWS, "Order of fields in overview");
                append_lines(OVERVIEW_FMT, out.text());
                Ok(())
            }
            ListKind::Headers(_) => {
                append(out.text(), code::LIST_FOLLOWS, "Headers and metadata items supported");
                append_lines(&[":", ":bytes", ":lines"], out.text());
                Ok(())
            }
            ListKind::ActiveModtime { since, wildmat } => self.list_changed(since, wildmat, out).await,
            ListKind::DistribPats => {
                self.list_text(Text::DistribPats, out);
                Ok(())
            }
            ListKind::Distributions => {
                self.list_text(Text::Distributions, out);
                Ok(())
            }
            ListKind::Motd => {
                self.list_text(Text::Motd, out);
                Ok(())
            }
            ListKind::Subscriptions(wildmat) => self.list_subscriptions(wildmat, out).await,
            ListKind::Moderators => {
                append(out.text(), code::LIST_FOLLOWS, "List of submission addresses follows");
                for (groups, address) in self.view.moderators() {
                    dot_stuff(format!("{groups}:{address}").as_bytes(), out.text());
                }
                out.text().extend_from_slice(b".\r\n");
                Ok(())
            }
            ListKind::Extensions => {
                append(out.text(), code::NOT_SUPPORTED, "List not kept here");
                Ok(())
            }
        }
    }

    /// XGTITLE; without a wildmat it is the selected group's title.
    pub(super) async fn group_titles(&mut self, wildmat: Option<&[u8]>, out: &mut Output) -> io::Result<()> {
        if wildmat.is_some() {
            return self.list_groups(code::GROUP_TITLES_FOLLOW, wildmat, append_description, out).await;
        }
        let named = match self.selected {
            Some(selected) => self.source.named(selected.group).await,
            None => Ok(None),
        };
        match named {
            Ok(Some((group, _))) => {
                append_standard(out.text(), code::GROUP_TITLES_FOLLOW);
                append_description(&group, out.text());
                out.text().extend_from_slice(b".\r\n");
            }
            // RFC 2980's code, which RFC 4643 has for something else since.
            Ok(None) => {
                append(out.text(), code::AUTHENTICATION_FAILED, "Groups and descriptions unavailable")
            }
            Err(error) => append_standard(out.text(), failed(&error)),
        }
        Ok(())
    }

    async fn list_active(&self, out: &mut Output) -> io::Result<()> {
        let list = match self.source.list_active().await {
            Ok(list) => list,
            Err(error) => {
                append_standard(out.text(), failed(&error));
                return Ok(());
            }
        };
        append_standard(out.text(), code::LIST_FOLLOWS);
        out.send(&list, b".\r\n").await
    }

    /// LIST ACTIVE.MODTIME: active entries that changed since a time, which is Unix seconds or what DATE answers.
    async fn list_changed(&self, since: &[u8], wildmat: Option<&[u8]>, out: &mut Output) -> io::Result<()> {
        let since = match since.split_at_checked(8) {
            Some((date, time)) if time.len() == 6 => {
                parse_nntp(date, time, unix_now()).map(|since| u64::try_from(since).unwrap_or_default())
            }
            _ => parse_decimal(since),
        };
        let Some(since) = since else {
            append(out.text(), code::SYNTAX_ERROR, "No such time; send Unix seconds or yyyymmddhhmmss");
            return Ok(());
        };
        let row = |group: &Group, out: &mut Vec<u8>| {
            if group.changed() + CHANGE_SLACK_SECS >= since {
                append_active(group, &self.view, out);
            }
        };
        self.list_groups(code::LIST_FOLLOWS, wildmat, row, out).await
    }

    /// All groups; only the one of that name if the wildmat is a plain name, as clients ask for their groups one by one.
    async fn groups_like(&self, wildmat: Option<&[u8]>) -> Found<Arc<[Arc<Group>]>> {
        let Some(name) = wildmat.filter(|text| !text.iter().any(|b| b"*?,![\\".contains(b))) else {
            return self.source.groups().await;
        };
        let Some((id, _)) = self.source.group(name).await? else { return Ok(Arc::default()) };
        Ok(self.source.named(id).await?.map(|(group, _)| group).into_iter().collect())
    }

    /// A list of groups; `row` appends what a group adds to it, nothing if it is not in it.
    async fn list_groups(
        &self,
        follows: u16,
        wildmat: Option<&[u8]>,
        row: impl Fn(&Group, &mut Vec<u8>) + Send,
        out: &mut Output,
    ) -> io::Result<()> {
        let text = wildmat;
        let wildmat = match text.map(Wildmat::parse_lenient).transpose() {
            Ok(wildmat) => wildmat,
            Err(_) => {
                append(out.text(), code::SYNTAX_ERROR, "Not a wildmat");
                return Ok(());
            }
        };
        let groups = match self.groups_like(text).await {
            Ok(groups) => groups,
            Err(error) => {
                append_standard(out.text(), failed(&error));
                return Ok(());
            }
        };
        append_standard(out.text(), follows);
        for group in groups.iter() {
            let name = group.name.as_bytes();
            if self.view.shows(name) && wildmat.as_ref().is_none_or(|wildmat| wildmat.matches(name)) {
                row(group, out.text());
                out.relieve().await?;
            }
        }
        out.text().extend_from_slice(b".\r\n");
        Ok(())
    }
}

/// `name high low flag` (RFC 3977 section 7.6.3).
pub(super) fn append_active(group: &Group, view: &View, out: &mut Vec<u8>) {
    let (_, marks) = view.window_of(group);
    out.extend_from_slice(group.name.as_bytes());
    append_numbers(&[marks.high, marks.low], out);
    append_flag(group, out);
}

/// `name high low count flag` (RFC 6048 section 2.2).
fn append_counts(group: &Group, view: &View, out: &mut Vec<u8>) {
    let (_, marks) = view.window_of(group);
    out.extend_from_slice(group.name.as_bytes());
    append_numbers(&[marks.high, marks.low, marks.count], out);
    append_flag(group, out);
}

/// `name TAB description` (RFC 3977 section 7.6.6); nothing for a group without description.
fn append_description(group: &Group, out: &mut Vec<u8>) {
    let description = group.description();
    if description.trim().is_empty() {
        return;
    }
    out.extend_from_slice(group.name.as_bytes());
    out.push(b'\t');
    out.extend(description.trim().bytes().map(|b| if b.is_ascii_control() { b' ' } else { b }));
    out.extend_from_slice(b"\r\n");
}

/// `name created creator` (RFC 3977 section 7.6.4).
fn append_times(group: &Group, out: &mut Vec<u8>) {
    out.extend_from_slice(group.name.as_bytes());
    append_numbers(&[group.created], out);
    out.push(b' ');
    let creator = if group.creator.is_empty() { "unknown" } else { &group.creator };
    out.extend(creator.bytes().map(|b| if b.is_ascii_control() { b' ' } else { b }));
    out.extend_from_slice(b"\r\n");
}

fn append_numbers(numbers: &[u64], out: &mut Vec<u8>) {
    for number in numbers {
        out.push(b' ');
        append_decimal(*number, out);
    }
}

fn append_flag(group: &Group, out: &mut Vec<u8>) {
    out.push(b' ');
    out.extend_from_slice(group.flag().to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn append_lines(lines: &[&str], out: &mut Vec<u8>) {
    for line in lines {
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b".\r\n");
}
