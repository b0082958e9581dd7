//! Commands that list what a site has: as a table, or as JSON.

use super::locate::Where;
use super::reach;
use super::screen::{Failure, say, say_json};
use crate::base::clock::unix_secs;
use crate::operations::request::{Reply, Request};
use serde::Serialize;

/// Shows the rows that answer a request; `text` gets them with the time, in Unix seconds.
pub(super) fn show<T: Serialize + Send>(
    at: &Where,
    request: &Request,
    json: bool,
    row: fn(Reply) -> Option<T>,
    text: fn(&[T], u64) -> String,
) -> Result<(), Failure> {
    let config = at.load()?;
    let mut rows = Vec::new();
    let ok = reach::ask(&config, request, &mut |reply| rows.extend(row(reply)))?;
    if json {
        say_json(&rows)?;
    } else {
        say(text(&rows, unix_secs()))?;
    }
    if ok { Ok(()) } else { Err(Failure::Told) }
}
