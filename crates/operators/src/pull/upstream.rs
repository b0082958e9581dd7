//! Contents of a server: its groups with their numbers, and new articles.
//!
//! Sources: RFC 3977 sections 7.1, 7.4 and 7.6, RFC 977 section 3.1.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use netnews::date::format_nntp;
use netnews::decimal::parse_decimal;
use netnews::nntp::command::ARTICLE_NUMBER_MAX;
use netnews::nntp::response::code;
use netnews::printable::stripped;
use netnews::{MessageId, newsgroups};
use nntp_io::{Error, LIST_BYTES_MAX, LIST_TIME_MAX, NntpClient};

use site_config::NamePattern;

/// Maximum number of groups accepted from one server.
const GROUPS_MAX: usize = 1_000_000;
/// Maximum number of Message-IDs accepted from one response to NEWNEWS.
const IDS_MAX: usize = 2_000_000;
/// Maximum length of such a response, in bytes, and the time within which it ends.
const IDS_BYTES_MAX: u64 = 256 << 20;
const IDS_TIME_MAX: Duration = Duration::from_secs(1_200);
/// Longest wildmat that is sent, in bytes; with a longer one everything is listed.
const WILDMAT_BYTES_MAX: usize = 400;
/// Maximum number of invalid lines quoted, and maximum length of each quote.
const ODD_LINES_MAX: usize = 3;
const ODD_LINE_CHARS_MAX: usize = 80;
/// Longest description of a group accepted, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 1024;

/// A group of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteGroup {
    pub low: u64,
    pub high: u64,
    /// Flag as in LIST ACTIVE.
    pub flag: String,
}

/// Result of LIST ACTIVE.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListedGroups {
    /// Matching groups, by name.
    pub groups: BTreeMap<String, RemoteGroup>,
    /// Number of invalid lines, and some of them.
    pub odd: u64,
    pub odd_lines: Vec<String>,
}

/// Asks for the groups of the server that match.
pub(crate) async fn groups(client: &mut NntpClient, wanted: &NamePattern) -> Result<ListedGroups, Error> {
    let mut found = ListedGroups::default();
    list(client, "LIST ACTIVE", wanted, &mut |line: &str| match active_line(line) {
        Some((name, there)) => {
            if wanted.matches(name.as_bytes()) && found.groups.len() < GROUPS_MAX {
                found.groups.insert(name.to_owned(), there);
            }
        }
        None => {
            found.odd += 1;
            if found.odd_lines.len() < ODD_LINES_MAX {
                found.odd_lines.push(stripped(line).chars().take(ODD_LINE_CHARS_MAX).collect());
            }
        }
    })
    .await?;
    Ok(found)
}

/// Parses a line of LIST ACTIVE about a group that could be here: a name, two numbers that may be article
/// numbers, a flag.
fn active_line(line: &str) -> Option<(&str, RemoteGroup)> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next().filter(|name| newsgroups::valid_name(name.as_bytes()))?;
    let mut number = || words.next()?.parse::<u64>().ok().filter(|number| *number <= ARTICLE_NUMBER_MAX);
    let (high, low) = (number()?, number()?);
    let flag = words.next()?;
    // An empty group has a low mark above its high one.
    Some((name, RemoteGroup { low, high, flag: flag.to_owned() }))
}

/// Asks for the descriptions of those groups.
pub(crate) async fn descriptions(
    client: &mut NntpClient,
    wanted: &NamePattern,
    of: &HashSet<&str>,
) -> Result<HashMap<String, String>, Error> {
    let mut found = HashMap::new();
    let mut read = |line: &str| {
        if let Some((name, text)) = line.split_once(|c: char| c.is_ascii_whitespace())
            && of.contains(name)
        {
            let text = stripped(text.trim());
            if text.len() <= DESCRIPTION_BYTES_MAX {
                found.insert(name.to_owned(), text.into_owned());
            }
        }
    };
    list(client, "LIST NEWSGROUPS", wanted, &mut read).await?;
    Ok(found)
}

/// Reads a list, restricted to the groups that match if the server accepts a wildmat.
async fn list(
    client: &mut NntpClient,
    command: &str,
    wanted: &NamePattern,
    read: &mut impl FnMut(&str),
) -> Result<(), Error> {
    let is_short = wanted.as_str().len() <= WILDMAT_BYTES_MAX && !wanted.as_str().contains(' ');
    let commands = [is_short.then(|| format!("{command} {}", wanted.as_str())), Some(command.to_owned())];
    let mut refused = None;
    for command in commands.into_iter().flatten() {
        let answer = client.request(&command).await?;
        if answer.has_block {
            client.bound_block(LIST_BYTES_MAX, LIST_TIME_MAX);
            while let Some(line) = client.block_line().await? {
                read(&String::from_utf8_lossy(line));
            }
            return Ok(());
        }
        refused = Some(super::worker::refused(
            answer.code,
            &super::aside::FetchRefusal::answer(answer.code, answer.text()).text,
        ));
    }
    refused.map_or(Ok(()), Err)
}

/// Returns the Message-ID of the article of a number; `None` if there is none, or the server does not say.
pub(super) async fn id_of(
    client: &mut NntpClient,
    group: &str,
    number: u64,
) -> Result<Option<Vec<u8>>, Error> {
    if client.request(format!("GROUP {group}")).await?.code != code::GROUP_SELECTED {
        return Ok(None);
    }
    let answer = client.request(format!("STAT {number}")).await?;
    let mut words = answer.text().split(|byte| *byte == b' ');
    let is_about_it =
        answer.code == code::ARTICLE_EXISTS && words.next().and_then(parse_decimal) == Some(number);
    let id = words.next().filter(|id| is_about_it && MessageId::parse(id).is_some());
    Ok(id.map(<[u8]>::to_vec))
}

/// Asks for the Message-IDs of articles that have arrived in these groups since `since`; also returns the
/// server's time, in Unix seconds.
pub(super) async fn newnews(
    client: &mut NntpClient,
    groups: &NamePattern,
    since: impl FnOnce(u64) -> u64,
) -> Result<(Vec<Box<str>>, u64), Error> {
    let answer = client.request("DATE").await?;
    let now = match answer.code {
        code::DATE => std::str::from_utf8(answer.first_word()).ok().and_then(seconds_of),
        _ => None,
    };
    let now = now.unwrap_or_else(site_base::clock::unix_secs);
    let begin = i64::try_from(since(now)).unwrap_or_default();
    let digits = String::from_utf8_lossy(format_nntp(begin).as_ref()).into_owned();
    let (day, time) = digits.split_at_checked(8).unwrap_or_default();
    let answer = client.request(format!("NEWNEWS {} {day} {time} GMT", groups.as_str())).await?;
    if !answer.has_block {
        return Err(super::worker::refused(
            answer.code,
            &super::aside::FetchRefusal::answer(answer.code, answer.text()).text,
        ));
    }
    client.bound_block(IDS_BYTES_MAX, IDS_TIME_MAX);
    let mut ids = Vec::new();
    while let Some(line) = client.block_line().await? {
        let id = std::str::from_utf8(line).ok().map(str::trim);
        if let Some(id) = id.filter(|id| MessageId::parse(id.as_bytes()).is_some())
            && ids.len() < IDS_MAX
        {
            ids.push(id.into());
        }
    }
    Ok((ids, now))
}

/// Converts `yyyymmddhhmmss` to Unix seconds.
fn seconds_of(digits: &str) -> Option<u64> {
    let (day, time) = digits.split_at_checked(8)?;
    netnews::date::parse_nntp(day.as_bytes(), time.as_bytes(), site_base::clock::unix_now())
        .and_then(|at| u64::try_from(at).ok())
}
