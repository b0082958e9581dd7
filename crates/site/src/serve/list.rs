//! LIST and XGTITLE.
//!
//! A complete LIST ACTIVE may be ready in the source; then it is sent in one write. All other lists are made
//! group by group, in the order of the source. Sources: RFC 3977 sections 7.6 and 8.4, RFC 6048 section 2,
//! RFC 2980 section 2.5 (XGTITLE).

use super::texts::{ListText, plain_text};
use super::{NewsReader, ReaderView, cut_off, failed, sending_meanwhile};
use netnews::Wildmat;
use netnews::date::parse_nntp;
use netnews::decimal::{append_decimal, parse_decimal};
use netnews::nntp::command::ListKeyword;
use netnews::nntp::response::{append, append_standard, code};
use netnews::nntp::wire::dot_stuff;
use netnews::overview_row::OVERVIEW_FMT;
use nntp_io::ServerOutput;
use site_base::clock::unix_now;
use site_config::PassedList;
use std::io;
use upstreams::{Answer, GroupInfo, GroupList, GroupSelection, GroupStream, NewsSource};

/// Bytes of a list that are gathered before the first write.
const FIRST_BYTES: usize = 4 << 10;

impl<S: NewsSource> NewsReader<S> {
    pub(super) async fn list(&mut self, kind: ListKeyword<'_>, out: &mut ServerOutput) -> io::Result<()> {
        match kind {
            ListKeyword::Active(None)
                if self.view.is_everything() && !self.view.is_narrow() && self.view.has_plain_flags() =>
            {
                self.list_active(out).await
            }
            ListKeyword::Active(wildmat) => self.list_groups(GroupList::Active, wildmat, out).await,
            ListKeyword::Newsgroups(wildmat) => self.list_groups(GroupList::Descriptions, wildmat, out).await,
            ListKeyword::ActiveTimes(wildmat) => self.list_groups(GroupList::Times, wildmat, out).await,
            ListKeyword::Counts(wildmat) => self.list_groups(GroupList::Counts, wildmat, out).await,
            ListKeyword::OverviewFmt => {
                append(out.text(), code::LIST_FOLLOWS, "Order of fields in overview");
                append_lines(OVERVIEW_FMT, out.text());
                for name in self.view.overview_headers() {
                    if name.starts_with('.') {
                        out.text().push(b'.');
                    }
                    out.text().extend_from_slice(name.as_bytes());
                    out.text().extend_from_slice(b":full\r\n");
                }
                out.text().extend_from_slice(b".\r\n");
                Ok(())
            }
            ListKeyword::Headers(_) => {
                append(out.text(), code::LIST_FOLLOWS, "Headers and metadata items supported");
                append_lines(&[":", ":bytes", ":lines"], out.text());
                out.text().extend_from_slice(b".\r\n");
                Ok(())
            }
            ListKeyword::ActiveModtime { since, wildmat } => self.list_changed(since, wildmat, out).await,
            ListKeyword::DistribPats => {
                self.list_text(ListText::DistribPats, out).await;
                Ok(())
            }
            ListKeyword::Distributions => {
                self.list_text(ListText::Distributions, out).await;
                Ok(())
            }
            ListKeyword::Motd => {
                self.list_text(ListText::Motd, out).await;
                Ok(())
            }
            ListKeyword::Subscriptions(wildmat) => self.list_subscriptions(wildmat, out).await,
            ListKeyword::Moderators => self.list_moderators(out).await,
            ListKeyword::Extensions => {
                append(out.text(), code::NOT_SUPPORTED, "List not kept here");
                Ok(())
            }
        }
    }

    /// Answers XGTITLE; without a wildmat for the selected group.
    pub(super) async fn group_titles(
        &mut self,
        wildmat: Option<&[u8]>,
        out: &mut ServerOutput,
    ) -> io::Result<()> {
        let (follows, list) = (code::GROUP_TITLES_FOLLOW, GroupList::Descriptions);
        if wildmat.is_some() {
            return self.send_groups(follows, list, wildmat, out).await;
        }
        // The code of RFC 2980, to which RFC 4643 later gave another meaning.
        let none = |out: &mut ServerOutput| {
            append(out.text(), code::AUTHENTICATION_FAILED, "Groups and descriptions unavailable");
        };
        let Some(selected) = &self.selected else {
            none(out);
            return Ok(());
        };
        let read = async {
            let mut groups =
                self.source.groups(list, GroupSelection::One(&selected.group), self.view.base()).await?;
            let Some(info) = groups.next(&|_| true).await? else { return Ok(false) };
            append_standard(out.text(), follows);
            append_description(&info, out.text());
            out.text().extend_from_slice(b".\r\n");
            Ok(true)
        };
        match read.await {
            Ok(true) => {}
            Ok(false) => none(out),
            Err(error) => failed(error).append(out.text()),
        }
        Ok(())
    }

    /// Answers LIST MODERATORS: the entries for groups that the reader may see.
    async fn list_moderators(&self, out: &mut ServerOutput) -> io::Result<()> {
        let mut lines = Vec::new();
        let elsewhere = match self.source.list_text(PassedList::Moderators).await {
            Ok(text) => plain_text(&text.unwrap_or_default()),
            Err(error) => {
                failed(error).append(out.text());
                return Ok(());
            }
        };
        let own = self.view.moderators();
        let elsewhere = elsewhere.lines().filter_map(|line| line.split_once(':'));
        let elsewhere = elsewhere.map(|(groups, address)| (groups, address.to_owned()));
        for (groups, address) in own.chain(elsewhere) {
            match self.shows_some_of(groups).await {
                Ok(true) => dot_stuff(format!("{groups}:{address}").as_bytes(), &mut lines),
                Ok(false) => {}
                Err(error) => {
                    failed(error).append(out.text());
                    return Ok(());
                }
            }
        }
        append(out.text(), code::LIST_FOLLOWS, "List of submission addresses follows");
        out.send(&lines, b".\r\n").await
    }

    /// Returns true if the reader may see a group that a wildmat of the configuration matches.
    async fn shows_some_of(&self, text: &str) -> Answer<bool> {
        let text = text.as_bytes();
        if self.view.is_everything() {
            return Ok(true);
        }
        let Ok(wildmat) = Wildmat::parse(text) else { return Ok(false) };
        let wanted = |name: &[u8]| self.view.shows(name) && wildmat.matches(name);
        let mut groups = self.source.groups(GroupList::Names, which(Some(text)), self.view.base()).await?;
        Ok(groups.next(&wanted).await?.is_some())
    }

    async fn list_active(&self, out: &mut ServerOutput) -> io::Result<()> {
        match self.source.active_text().await {
            Ok(Some(list)) => {
                append_standard(out.text(), code::LIST_FOLLOWS);
                out.send(&list, b".\r\n").await
            }
            Ok(None) => self.list_groups(GroupList::Active, None, out).await,
            Err(error) => {
                failed(error).append(out.text());
                Ok(())
            }
        }
    }

    /// Answers LIST ACTIVE.MODTIME: active entries that changed since a time, given in Unix seconds or in the
    /// form of DATE.
    async fn list_changed(
        &self,
        since: &[u8],
        wildmat: Option<&[u8]>,
        out: &mut ServerOutput,
    ) -> io::Result<()> {
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
        self.list_groups(GroupList::Changed { since }, wildmat, out).await
    }

    async fn list_groups(
        &self,
        list: GroupList,
        wildmat: Option<&[u8]>,
        out: &mut ServerOutput,
    ) -> io::Result<()> {
        self.send_groups(code::LIST_FOLLOWS, list, wildmat, out).await
    }

    /// Sends a list of the matching groups that the reader may see.
    pub(super) async fn send_groups(
        &self,
        follows: u16,
        list: GroupList,
        text: Option<&[u8]>,
        out: &mut ServerOutput,
    ) -> io::Result<()> {
        let Ok(wildmat) = text.map(Wildmat::parse_lenient).transpose() else {
            append(out.text(), code::SYNTAX_ERROR, "Not a wildmat");
            return Ok(());
        };
        let wanted = |name: &[u8]| {
            self.view.shows(name) && wildmat.as_ref().is_none_or(|wildmat| wildmat.matches(name))
        };
        let mut groups = match self.source.groups(list, which(text), self.view.base()).await {
            Ok(groups) => groups,
            Err(error) => {
                failed(error).append(out.text());
                return Ok(());
            }
        };
        let start = out.text().len();
        append_standard(out.text(), follows);
        let (mut any, mut sent) = (false, false);
        loop {
            let gathered = out.text().len();
            let next = groups.next(&wanted);
            // As long as there is no group, a refusal may still replace the list.
            let next = if any { sending_meanwhile(next, out).await? } else { next.await };
            sent |= out.text().len() < gathered;
            match next {
                Ok(Some(group)) => {
                    append_row(list, &group, &self.view, out.text());
                    any = true;
                }
                Ok(None) => break,
                Err(error) if sent => return Err(cut_off(error)),
                Err(error) => {
                    out.text().truncate(start);
                    failed(error).append(out.text());
                    return Ok(());
                }
            }
            let gathered = out.text().len();
            if !sent && gathered >= start + FIRST_BYTES {
                out.flush().await?;
            }
            out.relieve().await?;
            sent |= out.text().len() < gathered;
        }
        out.text().extend_from_slice(b".\r\n");
        Ok(())
    }
}

/// Returns the groups that a wildmat selects; a plain name is that of one group, as clients often ask for
/// single groups.
fn which<G>(wildmat: Option<&[u8]>) -> GroupSelection<'_, G> {
    match wildmat {
        None => GroupSelection::All,
        Some(text) if text.iter().any(|b| b"*?,![\\".contains(b)) => GroupSelection::Like(text),
        Some(name) => GroupSelection::Named(name),
    }
}

/// Appends the line of a group in a list.
fn append_row(list: GroupList, group: &GroupInfo<'_>, view: &ReaderView, out: &mut Vec<u8>) {
    match list {
        GroupList::Active | GroupList::Changed { .. } | GroupList::New { .. } => {
            append_active(group, view, out);
        }
        GroupList::Counts => append_counts(group, view, out),
        GroupList::Times => append_times(group, out),
        GroupList::Descriptions => append_description(group, out),
        GroupList::Names => {}
    }
}

/// Appends `name high low flag` (RFC 3977 section 7.6.3).
fn append_active(group: &GroupInfo<'_>, view: &ReaderView, out: &mut Vec<u8>) {
    let marks = view.window(group.marks.high).shown_marks(group.marks);
    out.extend_from_slice(group.name);
    append_numbers(&[marks.high, marks.low], out);
    append_flag(group, view, out);
}

/// Appends `name high low count flag` (RFC 6048 section 2.2).
fn append_counts(group: &GroupInfo<'_>, view: &ReaderView, out: &mut Vec<u8>) {
    let marks = view.window(group.marks.high).shown_marks(group.marks);
    out.extend_from_slice(group.name);
    append_numbers(&[marks.high, marks.low, marks.count], out);
    append_flag(group, view, out);
}

/// Appends `name TAB description` (RFC 3977 section 7.6.6); nothing for a group without description.
fn append_description(group: &GroupInfo<'_>, out: &mut Vec<u8>) {
    let description = group.description.trim_ascii();
    if description.is_empty() {
        return;
    }
    out.extend_from_slice(group.name);
    out.push(b'\t');
    append_text(description, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends `name created creator` (RFC 3977 section 7.6.4).
fn append_times(group: &GroupInfo<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(group.name);
    append_numbers(&[group.created], out);
    out.push(b' ');
    append_text(if group.creator.is_empty() { b"unknown" } else { group.creator }, out);
    out.extend_from_slice(b"\r\n");
}

fn append_text(text: &[u8], out: &mut Vec<u8>) {
    out.extend(text.iter().map(|b| if b.is_ascii_control() { b' ' } else { *b }));
}

fn append_numbers(numbers: &[u64], out: &mut Vec<u8>) {
    for number in numbers {
        out.push(b' ');
        append_decimal(*number, out);
    }
}

fn append_flag(group: &GroupInfo<'_>, view: &ReaderView, out: &mut Vec<u8>) {
    out.push(b' ');
    out.extend_from_slice(view.flag(group.name, group.flag));
    out.extend_from_slice(b"\r\n");
}

fn append_lines(lines: &[&str], out: &mut Vec<u8>) {
    for line in lines {
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}
