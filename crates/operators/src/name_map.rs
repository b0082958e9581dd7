//! A group's name.map, generated from its living articles (CNFS-31, CNFS-33).

use disk::ReadMode;
use spool::{ReadError, Spool};

use super::Sink;
use super::operation::{OperatedSite, Operation};
use super::reply::Reply;
use migrate::name_map::{BODY_START, GONE, NameMapHead, line};
use serde::{Deserialize, Serialize};
use site_base::clock::unix_secs;

/// Longest map, in lines; groups with a wider range of numbers are refused.
const LINES_MAX: u64 = 100_000_000;

/// Reason why a group has no map.
#[derive(Debug, thiserror::Error)]
enum NameMapError {
    /// There is no group of this name.
    #[error("there is no group {0}")]
    NoGroup(String),
    /// The numbers of the group need more than [`LINES_MAX`] lines.
    #[error("{group} reaches from {low} to {high}: too long for a map")]
    TooLong { group: String, low: u64, high: u64 },
    /// This is too wide for a line.
    #[error("{0} does not fit a line of a map")]
    DoesNotFit(String),
    /// A token cannot be read.
    #[error("{0}")]
    Spool(ReadError),
}

/// Return a group's name.map; answered by its lines, one [`Reply::Text`] each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NameMapOperation {
    /// Name of the group.
    pub group: String,
}

impl Operation for NameMapOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let written = lines(site.spool(), &self.group, sink);
        if let Err(error) = &written {
            sink(Reply::Error(error.to_string()));
        }
        written.is_ok()
    }
}

fn lines(spool: &Spool, group: &str, sink: &mut Sink<'_>) -> Result<(), NameMapError> {
    let no_group = || NameMapError::NoGroup(group.to_owned());
    let id = spool.group_id(group.as_bytes()).ok_or_else(no_group)?;
    let marks = spool.marks(id).ok_or_else(no_group)?;
    if marks.high.saturating_sub(marks.low) >= LINES_MAX {
        return Err(NameMapError::TooLong { group: group.to_owned(), low: marks.low, high: marks.high });
    }
    let rewritten = unix_secs();
    let head = NameMapHead { body_start: BODY_START, low: marks.low, rewritten };
    let head = head.lines().ok_or_else(|| NameMapError::DoesNotFit("a number".into()))?;
    head.into_iter().for_each(|text| sink(Reply::Text(text)));
    for number in marks.low..=marks.high {
        let token = spool.token_of(id, number, ReadMode::Wait).map_err(NameMapError::Spool)?;
        let text = match token {
            None => line(GONE),
            // The short form, if the buffer's name is long.
            Some(token) => line(&spool.tokens().text(&token)).or_else(|| line(&token.to_string())),
        };
        let too_wide = || NameMapError::DoesNotFit(format!("the token of {group}:{number}"));
        sink(Reply::Text(text.ok_or_else(too_wide)?));
    }
    Ok(())
}
