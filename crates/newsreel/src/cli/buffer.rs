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
    let mut rows = Vec::new();
    let ok = reach::ask(&config, &Request::buffers(), &mut |reply| {
        if let Reply::Buffer(row) = reply {
            rows.push(row);
        }
    })?;
    if json {
        say_json(&rows)?;
    } else if ok || !rows.is_empty() {
        say(text(&rows, unix_secs()))?;
    }
    if ok { Ok(()) } else { Err(Failure::Told) }
}

fn text(rows: &[BufferRow], now: u64) -> String {
    Columns::of(rows)
        .left("buffer", |row| row.name.clone())
        .left("class", |row| row.class.clone())
        .right("size", |row| about_size(row.size_bytes))
        .right("used", |row| if row.away { String::new() } else { about_size(row.used_bytes) })
        .right("block", |row| row.block_bytes.to_string())
        .right("oldest article", |row| match row.oldest_arrival {
            // Of a spool that cannot be opened it is not known.
            None if row.away || row.used_bytes > 0 => String::new(),
            arrival => age(arrival, now),
        })
        .left("", |row| match row.away {
            true => "AWAY".into(),
            false if row.retired => "retired".into(),
            false => String::new(),
        })
        .left("path", |row| row.path.clone())
        .text()
}
