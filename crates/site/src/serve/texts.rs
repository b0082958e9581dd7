//! LIST MOTD, DISTRIBUTIONS, DISTRIB.PATS and SUBSCRIPTIONS: texts kept in files by the operator.
//!
//! A file is read when it is requested, so a change is visible at once; without a file the answer is 503.
//! Lines that are invalid in the list are left out, so a mistake in a file never reaches a client. Sources:
//! RFC 6048 sections 2.3, 2.5 and 2.6, RFC 3977 section 7.6.5.

use super::news::VisibleNews;
use super::refusal::{Answered, CommandRefusal, NO_WILDMAT, failed};
use netnews::Wildmat;
use netnews::nntp::response::{append, code};
use netnews::nntp::wire::dot_stuff;
use nntp_io::ServerOutput;
use site_config::PassedList;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use tokio::task::block_in_place;
use tracing::warn;
use upstreams::NewsSource;

/// Maximum number of bytes of a file that are sent.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The refusal of a list that the site does not have.
pub(super) const NO_LIST: CommandRefusal = CommandRefusal::new(code::NOT_SUPPORTED, "List not kept here");

/// One of the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListText {
    Motd,
    Distributions,
    DistribPats,
}

impl ListText {
    fn passed(self) -> PassedList {
        match self {
            Self::Motd => PassedList::Motd,
            Self::Distributions => PassedList::Distributions,
            Self::DistribPats => PassedList::DistribPats,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Motd => "Message of the day follows",
            Self::Distributions => "List of distributions follows",
            Self::DistribPats => "Default distributions in form weight:wildmat:value",
        }
    }

    fn has(self, line: &str) -> bool {
        match self {
            Self::Motd => true,
            Self::Distributions => line.split_whitespace().nth(1).is_some(),
            Self::DistribPats => is_distrib_pat(line),
        }
    }
}

/// Returns true if the list is available: as a file of the site, or from an upstream.
pub(super) fn has_list<S: NewsSource>(news: &VisibleNews<S>, list: PassedList) -> bool {
    let has_file = |name: &str| block_in_place(|| news.view.lists_dir().join(name).exists());
    list.file_name().is_some_and(has_file) || news.source.passes_list(list)
}

/// Answers LIST with a text.
pub(super) async fn list_text<S: NewsSource>(
    news: &VisibleNews<S>,
    kind: ListText,
    out: &mut ServerOutput,
) -> Answered {
    let text = read_list(news, kind.passed()).await?;
    append(out.text(), code::LIST_FOLLOWS, kind.title());
    if kind == ListText::Motd {
        dot_stuff(text.as_bytes(), out.text());
    } else {
        for line in entries(&text).filter(|line| kind.has(line)) {
            dot_stuff(line.as_bytes(), out.text());
        }
    }
    out.text().extend_from_slice(b".\r\n");
    Ok(())
}

/// Answers LIST SUBSCRIPTIONS: the recommended groups that are carried here and that the client may see.
pub(super) async fn list_subscriptions<S: NewsSource>(
    news: &VisibleNews<S>,
    wildmat: Option<&[u8]>,
    out: &mut ServerOutput,
) -> Answered {
    let wildmat = wildmat.map(Wildmat::parse_lenient).transpose().map_err(|_| NO_WILDMAT)?;
    let text = read_list(news, PassedList::Subscriptions).await?;
    append(out.text(), code::LIST_FOLLOWS, "List of recommended newsgroups follows");
    for line in entries(&text) {
        let name = line.as_bytes();
        if !news.view.shows(name) || wildmat.as_ref().is_some_and(|wildmat| !wildmat.matches(name)) {
            continue;
        }
        if news.group(name).await.map_err(failed)?.is_some() {
            append_line(line, out.text());
        }
    }
    out.text().extend_from_slice(b".\r\n");
    Ok(())
}

/// Reads a file of the site's lists, or the source's list.
async fn read_list<S: NewsSource>(news: &VisibleNews<S>, list: PassedList) -> Result<String, CommandRefusal> {
    let path = news.view.lists_dir().join(list.file_name().unwrap_or_default());
    match block_in_place(|| read(&path)) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let lines = news.source.list_text(list).await.map_err(failed)?;
            lines.map(|lines| plain_text(&lines)).ok_or(NO_LIST)
        }
        Err(error) => {
            warn!(%error, path = %path.display(), "cannot read a list");
            Err(code::INTERNAL_FAULT.into())
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(cleaned(&bytes))
}

fn cleaned(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace(['\0', '\r'], " ")
}

/// Decodes lines from wire format.
pub(super) fn plain_text(wire: &[u8]) -> String {
    let text = cleaned(wire);
    let lines = text.lines().map(|line| line.strip_prefix('.').unwrap_or(line));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Returns the lines without comments, blank lines and surrounding white space.
fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Returns true if the line has the form `weight:wildmat:value`.
fn is_distrib_pat(line: &str) -> bool {
    let mut parts = line.splitn(3, ':');
    let weight =
        parts.next().is_some_and(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()));
    let wildmat = parts.next().is_some_and(|text| Wildmat::parse_lenient(text.as_bytes()).is_ok());
    weight && wildmat && parts.next().is_some()
}

fn append_line(line: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_forms_are_left_out() {
        let kept = |kind: ListText, text: &str| {
            entries(text).filter(|line| kind.has(line)).map(str::to_owned).collect::<Vec<_>>()
        };
        let pats = "# comment\n\n 10:local.*:local \nlocal.*:x\n1:a.b\nx:a:b\n5:*,!a.*:\n";
        assert_eq!(kept(ListText::DistribPats, pats), ["10:local.*:local", "5:*,!a.*:"]);
        assert_eq!(kept(ListText::Distributions, "usa\tIn the USA\nalone\n"), ["usa\tIn the USA"]);
    }
}
