//! `newsreel buffer`: buffers are listed, added, grown, retired, moved and removed, and the configuration with them.
//!
//! The command that changes a buffer changes the configuration's text too, at the one moment the spool says; the file is
//! read anew for it, so that what its owner has written meanwhile stays. See `docs/decisions/0023-buffers-change-while-serving.md`.

use spool::{BufferConfig, Spool, SpoolError};

use super::{Sink, sink};
use crate::config::edit::{self, Change};
use crate::config::units::size_text;
use crate::config::{Buffer, Config};
use crate::control_socket::protocol::{BufferChange, BufferRow, Reply};

/// Block of a new buffer where none is named, in bytes: that of the configuration's table.
const BLOCK_BYTES: u32 = 64;

/// Lists the buffers.
pub fn list(spool: &Spool, sink: &mut Sink<'_>) -> bool {
    match spool.buffers() {
        Ok(all) => {
            for b in all {
                sink(Reply::Buffer(BufferRow {
                    name: b.config.name,
                    class: b.class,
                    path: b.config.path.display().to_string(),
                    size_bytes: b.config.size_bytes,
                    area_bytes: b.area_bytes,
                    block_bytes: b.config.block_bytes,
                    used_bytes: b.used_bytes,
                    retired: b.config.retired,
                    oldest_arrival: b.oldest_arrival,
                }));
            }
            true
        }
        Err(error) => {
            sink(Reply::Error(error.to_string()));
            false
        }
    }
}

/// Carries out a change.
pub fn change(spool: &Spool, config: &Config, name: &str, what: &BufferChange, sink: &mut Sink<'_>) -> bool {
    let set = |key, value| Change::Set { name: name.to_owned(), key, value };
    let file = |change: Change| move || edit::apply(&config.file, &change);
    let path = |path: &str| config.site.data.join(path);
    let result = match what {
        BufferChange::Add { path: to, size, block, class } => {
            let mut keys = vec![("name", name.into()), ("path", to.into())];
            keys.extend(size.map(|size| ("size", size_text(size).into())));
            keys.extend(block.map(|block| ("block", block.to_string().into())));
            let new = BufferConfig {
                name: name.to_owned(),
                path: path(to),
                size_bytes: size.unwrap_or(0),
                block_bytes: block.unwrap_or(BLOCK_BYTES),
                retired: false,
            };
            let change = Change::Add { name: name.to_owned(), keys, class: class.clone() };
            spool.add_buffer(&new, class, &mut file(change)).map(|()| format!("added to class {class}"))
        }
        BufferChange::Grow { size } => {
            let text = size_text(*size);
            let done = spool.grow_buffer(name, *size, &mut file(set("size", text.clone().into())));
            done.map(|()| format!("has {text} now"))
        }
        BufferChange::Retire { retired } => {
            let done = spool.retire_buffer(name, *retired, &mut file(set("retired", (*retired).into())));
            done.map(|()| if *retired { "takes no more articles" } else { "takes articles again" }.to_owned())
        }
        BufferChange::Move { path: to } => {
            let (to_path, mut file) = (path(to), file(set("path", to.into())));
            let moved = spool.move_buffer(name, &to_path, &sink::Relay::new(sink), &mut file);
            moved.map(|()| format!("is in {} now; its old file is of no use any more", to_path.display()))
        }
        BufferChange::Remove { articles } => {
            let mut file = file(Change::Remove { name: name.to_owned() });
            let done = spool.remove_buffer(name, *articles, &mut file);
            done.map(|()| "removed; its file is of no use any more".to_owned())
        }
    };
    answer(name, result, sink)
}

/// The configuration after a change.
pub(crate) fn changed(config: &Config, name: &str, what: &BufferChange) -> Config {
    let mut config = config.clone();
    let data = config.site.data.clone();
    if let BufferChange::Add { path, size, block, class } = what {
        let (path, block) = (data.join(path), block.unwrap_or(BLOCK_BYTES));
        config.buffers.push(Buffer { name: name.to_owned(), path, size: *size, block, retired: false });
        let class = config.classes.iter_mut().find(|known| known.name == *class);
        class.into_iter().for_each(|class| class.buffers.push(name.to_owned()));
    }
    for buffer in config.buffers.iter_mut().filter(|buffer| buffer.name == name) {
        match what {
            BufferChange::Add { .. } | BufferChange::Remove { .. } => {}
            BufferChange::Grow { size } => buffer.size = Some(*size),
            BufferChange::Retire { retired } => buffer.retired = *retired,
            BufferChange::Move { path } => buffer.path = data.join(path),
        }
    }
    if let BufferChange::Remove { .. } = what {
        config.buffers.retain(|buffer| buffer.name != name);
        config.classes.iter_mut().for_each(|class| class.buffers.retain(|buffer| buffer != name));
    }
    config
}

fn answer(name: &str, result: Result<String, SpoolError>, sink: &mut Sink<'_>) -> bool {
    let ok = result.is_ok();
    sink(match result {
        Ok(text) => {
            tracing::info!("buffer {name} {text}");
            Reply::Text(format!("{name} {text}"))
        }
        Err(error) => Reply::Error(error.to_string()),
    });
    ok
}
