//! A group's name.map, generated from its living articles (CNFS-31, CNFS-33).

use disk::ReadMode;
use spool::Spool;

use super::Sink;
use super::request::Reply;
use migrate::name_map::{BODY_START, GONE, NameMapHead, line};
use site_base::clock::unix_now;

/// Longest map, in lines; groups with a wider range of numbers are refused.
const LINES_MAX: u64 = 100_000_000;

pub(super) fn name_map(spool: &Spool, group: &str, sink: &mut Sink<'_>) -> bool {
    match lines(spool, group, sink) {
        Ok(()) => true,
        Err(text) => {
            sink(Reply::Error(text));
            false
        }
    }
}

fn lines(spool: &Spool, group: &str, sink: &mut Sink<'_>) -> Result<(), String> {
    let id = spool.group_id(group.as_bytes()).ok_or_else(|| format!("there is no group {group}"))?;
    let marks = spool.marks(id).ok_or_else(|| format!("there is no group {group}"))?;
    if marks.high.saturating_sub(marks.low) >= LINES_MAX {
        return Err(format!("{group} reaches from {} to {}: too long for a map", marks.low, marks.high));
    }
    let rewritten = u64::try_from(unix_now()).unwrap_or_default();
    let head = NameMapHead { body_start: BODY_START, low: marks.low, rewritten };
    let too_long = |what: &str| format!("{what} does not fit a line of a map");
    head.lines().ok_or_else(|| too_long("a number"))?.into_iter().for_each(|text| sink(Reply::Text(text)));
    for number in marks.low..=marks.high {
        let token = spool.token_of(id, number, ReadMode::Wait).map_err(|error| error.to_string())?;
        let text = match token {
            None => line(GONE),
            // The short form, if the buffer's name is long.
            Some(token) => line(&spool.token_text(&token)).or_else(|| line(&token.to_string())),
        };
        sink(Reply::Text(text.ok_or_else(|| too_long(&format!("the token of {group}:{number}")))?));
    }
    Ok(())
}
