//! `buffer list|add|grow|retire|use|move|remove`.

use std::time::{SystemTime, UNIX_EPOCH};

use super::args::{BufferCommand, Where};
use super::table::{Side, table};
use super::{Failure, reach, say, say_json};
use crate::config::Config;
use crate::config::units::{about_size, about_span};
use crate::control_socket::protocol::{BufferChange, BufferRow, Reply, Request};

pub(super) fn run(command: BufferCommand, at: &Where) -> Result<(), Failure> {
    let config = at.load()?;
    let (name, change) = match command {
        BufferCommand::List { json } => return list(&config, json),
        BufferCommand::Add { name, class, path, size, block } => {
            let path = path.unwrap_or_else(|| format!("{name}.cyc"));
            (name, BufferChange::Add { path, size, block, class })
        }
        BufferCommand::Grow { name, size } => (name, BufferChange::Grow { size }),
        BufferCommand::Retire { name } => (name, BufferChange::Retire { retired: true }),
        BufferCommand::Use { name } => (name, BufferChange::Retire { retired: false }),
        BufferCommand::Move { name, path } => (name, BufferChange::Move { path }),
        BufferCommand::Remove { name, articles } => (name, BufferChange::Remove { articles }),
    };
    let mut said = Ok(());
    let ok = reach::ask(&config, &Request::BufferChange { name, change }, &mut |reply| {
        if let (Reply::Text(text), Ok(())) = (reply, &said) {
            said = say(text);
        }
    })?;
    said?;
    if ok { Ok(()) } else { Err(Failure::Told) }
}

fn list(config: &Config, json: bool) -> Result<(), Failure> {
    let mut rows: Vec<BufferRow> = Vec::new();
    let ok = reach::ask(config, &Request::BufferList, &mut |reply| {
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
