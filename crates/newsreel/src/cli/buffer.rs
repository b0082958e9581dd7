//! `buffer list`.

use std::time::{SystemTime, UNIX_EPOCH};

use super::locate::Where;
use super::reach;
use super::screen::{Failure, say, say_json};
use super::table::{Side, table};
use crate::base::units::{about_size, about_span};
use crate::operations::request::{BufferRow, Reply, Request};

pub(super) fn list(at: &Where, json: bool) -> Result<(), Failure> {
    let config = at.load()?;
    let mut rows: Vec<BufferRow> = Vec::new();
    let ok = reach::ask(&config, &Request::buffers(), &mut |reply| {
        if let Reply::Buffer(row) = reply {
            rows.push(row);
        }
    })?;
    if json {
        say_json(&rows)?;
    } else {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        say(text(&rows, now))?;
    }
    if ok { Ok(()) } else { Err(Failure::Told) }
}

fn text(rows: &[BufferRow], now: u64) -> String {
    let heads = [
        ("buffer", Side::Left),
        ("class", Side::Left),
        ("size", Side::Right),
        ("used", Side::Right),
        ("block", Side::Right),
        ("oldest article", Side::Right),
        ("", Side::Left),
        ("path", Side::Left),
    ];
    let cells = |row: &BufferRow| {
        vec![
            row.name.clone(),
            row.class.clone(),
            about_size(row.size_bytes),
            about_size(row.used_bytes),
            row.block_bytes.to_string(),
            row.oldest_arrival.map_or("none".into(), |at| about_span(now.saturating_sub(at))),
            if row.retired { "retired".into() } else { String::new() },
            row.path.clone(),
        ]
    };
    table(&heads, &rows.iter().map(cells).collect::<Vec<_>>())
}
