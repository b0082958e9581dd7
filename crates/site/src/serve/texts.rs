//! LIST MOTD, DISTRIBUTIONS, DISTRIB.PATS and SUBSCRIPTIONS: texts kept in files by the operator.
//!
//! A file is read when it is requested, so a change is visible at once; without a file the answer is 503.
//! Lines that are invalid in the list are left out, so a mistake in a file never reaches a client. Sources:
//! RFC 6048 sections 2.3, 2.5 and 2.6, RFC 3977 section 7.6.5.

use super::{NewsReader, failed};
use netnews::Wildmat;
use netnews::nntp::response::{append, append_standard, code};
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

impl<S: NewsSource> NewsReader<S> {
    /// Returns true if the list is available: as a file of the site, or from an upstream.
    pub(crate) fn has_list(&self, list: PassedList) -> bool {
        let has_file = |name: &str| block_in_place(|| self.view.lists_dir().join(name).exists());
        list.file_name().is_some_and(has_file) || self.source.passes_list(list)
    }

    pub(super) async fn list_text(&self, kind: ListText, out: &mut ServerOutput) {
        let Some(text) = self.read_list(kind.passed(), out).await else { return };
        append(out.text(), code::LIST_FOLLOWS, kind.title());
        if kind == ListText::Motd {
            dot_stuff(text.as_bytes(), out.text());
        } else {
            for line in entries(&text).filter(|line| kind.has(line)) {
                dot_stuff(line.as_bytes(), out.text());
            }
        }
        out.text().extend_from_slice(b".\r\n");
    }

    /// Answers LIST SUBSCRIPTIONS: the recommended groups that are carried here and that the client may see.
    pub(super) async fn list_subscriptions(
        &self,
        wildmat: Option<&[u8]>,
        out: &mut ServerOutput,
    ) -> io::Result<()> {
        let Ok(wildmat) = wildmat.map(Wildmat::parse_lenient).transpose() else {
            append(out.text(), code::SYNTAX_ERROR, "Not a wildmat");
            return Ok(());
        };
        let Some(text) = self.read_list(PassedList::Subscriptions, out).await else {
            return Ok(());
        };
        let start = out.text().len();
        append(out.text(), code::LIST_FOLLOWS, "List of recommended newsgroups follows");
        for line in entries(&text) {
            let name = line.as_bytes();
            if !self.view.shows(name) || wildmat.as_ref().is_some_and(|wildmat| !wildmat.matches(name)) {
                continue;
            }
            match self.source.group(name, self.view.base()).await {
                Ok(Some(_)) => append_line(line, out.text()),
                Ok(None) => {}
                Err(error) => {
                    out.text().truncate(start);
                    failed(error).append(out.text());
                    return Ok(());
                }
            }
        }
        out.text().extend_from_slice(b".\r\n");
        Ok(())
    }

    /// Reads a file of the site's lists, or the source's list; answers 503 if there is neither and 403 if it
    /// cannot be read.
    async fn read_list(&self, list: PassedList, out: &mut ServerOutput) -> Option<String> {
        let path = self.view.lists_dir().join(list.file_name().unwrap_or_default());
        match block_in_place(|| read(&path)) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == ErrorKind::NotFound => match self.source.list_text(list).await {
                Ok(Some(lines)) => Some(plain_text(&lines)),
                Ok(None) => {
                    append(out.text(), code::NOT_SUPPORTED, "List not kept here");
                    None
                }
                Err(error) => {
                    failed(error).append(out.text());
                    None
                }
            },
            Err(error) => {
                warn!(%error, path = %path.display(), "cannot read a list");
                append_standard(out.text(), code::INTERNAL_FAULT);
                None
            }
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
