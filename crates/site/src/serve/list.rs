//! LIST and XGTITLE.
//!
//! A complete LIST ACTIVE may be ready in the source; then it is sent in one write. All other lists are made
//! group by group, in the order of the source. Sources: RFC 3977 sections 7.6 and 8.4, RFC 6048 section 2,
//! RFC 2980 section 2.5 (XGTITLE).

use super::ReaderView;
use super::news::VisibleNews;
use super::refusal::{Answered, CommandRefusal, NO_WILDMAT, cut_off, failed, sending_meanwhile};
use super::texts::{ListText, NO_LIST, list_subscriptions, list_text, plain_text};
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
use upstreams::{Answer, GroupInfo, GroupList, GroupSelection, GroupStream, NewsSource};

/// Bytes of a list that are gathered before the first write.
const FIRST_BYTES: usize = 4 << 10;

/// Answers LIST.
pub(super) async fn list<S: NewsSource>(
    news: &VisibleNews<S>,
    kind: ListKeyword<'_>,
    out: &mut ServerOutput,
) -> Answered {
    let (list, wildmat) = match kind {
        ListKeyword::Active(None)
            if news.view.is_everything() && !news.view.is_narrow() && news.view.has_plain_flags() =>
        {
            return list_active(news, out).await;
        }
        ListKeyword::Active(wildmat) => (GroupList::Active, wildmat),
        ListKeyword::Newsgroups(wildmat) => (GroupList::Descriptions, wildmat),
        ListKeyword::ActiveTimes(wildmat) => (GroupList::Times, wildmat),
        ListKeyword::Counts(wildmat) => (GroupList::Counts, wildmat),
        ListKeyword::ActiveModtime { since, wildmat } => {
            (GroupList::Changed { since: changed_since(since)? }, wildmat)
        }
        ListKeyword::OverviewFmt => {
            append(out.text(), code::LIST_FOLLOWS, "Order of fields in overview");
            append_lines(OVERVIEW_FMT, out.text());
            for name in news.view.overview_headers() {
                if name.starts_with('.') {
                    out.text().push(b'.');
                }
                out.text().extend_from_slice(name.as_bytes());
                out.text().extend_from_slice(b":full\r\n");
            }
            out.text().extend_from_slice(b".\r\n");
            return Ok(());
        }
        ListKeyword::Headers(_) => {
            append(out.text(), code::LIST_FOLLOWS, "Headers and metadata items supported");
            append_lines(&[":", ":bytes", ":lines", "."], out.text());
            return Ok(());
        }
        ListKeyword::DistribPats => return list_text(news, ListText::DistribPats, out).await,
        ListKeyword::Distributions => return list_text(news, ListText::Distributions, out).await,
        ListKeyword::Motd => return list_text(news, ListText::Motd, out).await,
        ListKeyword::Subscriptions(wildmat) => return list_subscriptions(news, wildmat, out).await,
        ListKeyword::Moderators => return list_moderators(news, out).await,
        ListKeyword::Extensions => return Err(NO_LIST.into()),
    };
    send_groups(news, code::LIST_FOLLOWS, list, wildmat, out).await
}

/// Answers XGTITLE; without a wildmat for the selected group.
pub(super) async fn group_titles<S: NewsSource>(
    news: &VisibleNews<S>,
    selected: Option<&S::Group>,
    wildmat: Option<&[u8]>,
    out: &mut ServerOutput,
) -> Answered {
    let (follows, list) = (code::GROUP_TITLES_FOLLOW, GroupList::Descriptions);
    if wildmat.is_some() {
        return send_groups(news, follows, list, wildmat, out).await;
    }
    // The code of RFC 2980, to which RFC 4643 later gave another meaning.
    let none = CommandRefusal::new(code::AUTHENTICATION_FAILED, "Groups and descriptions unavailable");
    let selected = GroupSelection::One(selected.ok_or(none)?);
    let mut groups = news.groups(list, selected).await.map_err(failed)?;
    let info = groups.next(&|_| true).await.map_err(failed)?.ok_or(none)?;
    append_standard(out.text(), follows);
    append_description(&info, out.text());
    out.text().extend_from_slice(b".\r\n");
    Ok(())
}

/// Answers LIST MODERATORS: the entries for groups that the reader may see.
async fn list_moderators<S: NewsSource>(news: &VisibleNews<S>, out: &mut ServerOutput) -> Answered {
    let mut lines = Vec::new();
    let elsewhere = news.source.list_text(PassedList::Moderators).await.map_err(failed)?;
    let elsewhere = plain_text(&elsewhere.unwrap_or_default());
    let own = news.view.moderators();
    let elsewhere = elsewhere.lines().filter_map(|line| line.split_once(':'));
    let elsewhere = elsewhere.map(|(groups, address)| (groups, address.to_owned()));
    for (groups, address) in own.chain(elsewhere) {
        if out.during(shows_some_of(news, groups)).await?.map_err(failed)? {
            dot_stuff(format!("{groups}:{address}").as_bytes(), &mut lines);
        }
    }
    append(out.text(), code::LIST_FOLLOWS, "List of submission addresses follows");
    Ok(out.send(&lines, b".\r\n").await?)
}

/// Returns true if the reader may see a group that a wildmat of the configuration matches.
async fn shows_some_of<S: NewsSource>(news: &VisibleNews<S>, text: &str) -> Answer<bool> {
    let text = text.as_bytes();
    if news.view.is_everything() {
        return Ok(true);
    }
    let Ok(wildmat) = Wildmat::parse(text) else { return Ok(false) };
    let wanted = |name: &[u8]| news.view.shows(name) && wildmat.matches(name);
    let mut groups = news.groups(GroupList::Names, which(Some(text))).await?;
    Ok(groups.next(&wanted).await?.is_some())
}

async fn list_active<S: NewsSource>(news: &VisibleNews<S>, out: &mut ServerOutput) -> Answered {
    let Some(list) = news.source.active_text().await.map_err(failed)? else {
        return send_groups(news, code::LIST_FOLLOWS, GroupList::Active, None, out).await;
    };
    append_standard(out.text(), code::LIST_FOLLOWS);
    Ok(out.send(&list, b".\r\n").await?)
}

/// Parses the time of LIST ACTIVE.MODTIME, given in Unix seconds or in the form of DATE.
fn changed_since(text: &[u8]) -> Result<u64, CommandRefusal> {
    const NO_TIME: &str = "No such time; send Unix seconds or yyyymmddhhmmss";
    let since = match text.split_at_checked(8) {
        Some((date, time)) if time.len() == 6 => {
            parse_nntp(date, time, unix_now()).map(|since| u64::try_from(since).unwrap_or_default())
        }
        _ => parse_decimal(text),
    };
    since.ok_or(CommandRefusal::new(code::SYNTAX_ERROR, NO_TIME))
}

/// Sends a list of the matching groups that the reader may see.
pub(super) async fn send_groups<S: NewsSource>(
    news: &VisibleNews<S>,
    follows: u16,
    list: GroupList,
    text: Option<&[u8]>,
    out: &mut ServerOutput,
) -> Answered {
    let wildmat = text.map(Wildmat::parse_lenient).transpose().map_err(|_| NO_WILDMAT)?;
    let wanted =
        |name: &[u8]| news.view.shows(name) && wildmat.as_ref().is_none_or(|wildmat| wildmat.matches(name));
    let mut groups = news.groups(list, which(text)).await.map_err(failed)?;
    append_standard(out.text(), follows);
    let mut any = false;
    loop {
        let next = groups.next(&wanted);
        // As long as there is no group, a refusal may still replace the list.
        let next = if any { sending_meanwhile(next, out).await? } else { out.during(next).await? };
        match next {
            Ok(Some(group)) => {
                append_row(list, &group, &news.view, out.text());
                any = true;
            }
            Ok(None) => break,
            Err(error) if out.is_begun() => return Err(cut_off(error).into()),
            Err(error) => return Err(failed(error).into()),
        }
        if !out.is_begun() && out.gathered_bytes() >= FIRST_BYTES {
            out.flush().await?;
        }
        out.relieve().await?;
    }
    out.text().extend_from_slice(b".\r\n");
    Ok(())
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
