//! `buffer list`.

use super::locate::Where;
use super::reach;
use super::screen::{Failure, say, say_json};
use super::table::{Columns, age};
use crate::base::clock::unix_secs;
use crate::base::units::about_size;
use crate::operations::request::{BufferRow, Reply, Request};

pub(super) fn list(at: &Where, json: bool) -> Result<(), Failure> {
    let config = at.load()?;
    let rows = reach::rows(&config, &Request::buffers(), |reply| match reply {
        Reply::Buffer(row) => Some(row),
        _ => None,
    })?;
    if json { say_json(&rows) } else { say(text(&rows, unix_secs())) }
}

fn text(rows: &[BufferRow], now: u64) -> String {
    Columns::of(rows)
        .left("buffer", |row| row.name.clone())
        .left("class", |row| row.class.clone())
        .right("size", |row| about_size(row.size_bytes))
        .right("used", |row| about_size(row.used_bytes))
        .right("block", |row| row.block_bytes.to_string())
        .right("oldest article", |row| age(row.oldest_arrival, now))
        .left("", |row| if row.retired { "retired".into() } else { String::new() })
        .left("path", |row| row.path.clone())
        .text()
}
