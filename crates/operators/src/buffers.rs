//! `newsreel buffer`: lists, adds, grows, retires, moves and removes buffers, together with the
//! configuration.
//!
//! A command that changes a buffer also changes the configuration's text, at the one moment the spool names;
//! the file is read again for it, so that edits made meanwhile are kept. See
//! `docs/decisions/0023-buffers-change-while-serving.md`.

use spool::{BufferConfig, CommitError, Glance, Spool, SpoolError};

use super::operation::{OperatedSite, Operation};
use super::reload::BUSY;
use super::reply::{BufferRow, Reply};
use super::{Sink, sink};
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use site_base::units;
use site_base::units::size_text;
use site_config::edit;
use site_config::edit::ConfigEdit;
use site_config::{Buffer, Config};
use std::sync::Arc;

/// Default block size of a new buffer, in bytes, as in the configuration's table.
const BLOCK_BYTES: u32 = 64;

/// Action on a buffer; answered by [`Reply::Buffer`] each, or by [`Reply::Progress`] and [`Reply::Text`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BufferCommand {
    /// List the buffers
    List {
        /// Print JSON
        #[arg(long)]
        #[serde(skip)]
        json: bool,
    },
    /// Create a buffer and assign it to a class
    Add {
        /// Its name
        name: String,
        /// The class that will use it
        #[arg(long)]
        class: String,
        /// Its file or block device [default: NAME.cyc]
        #[arg(long)]
        path: Option<String>,
        /// Its size [default: that of the file or device]
        #[arg(long, value_parser = units::parse_size)]
        size: Option<u64>,
        /// Articles begin at multiples of this many bytes: a power of two from 64 to 16384 [default: 64]
        #[arg(long, value_name = "BYTES")]
        block: Option<u32>,
    },
    /// Enlarge a buffer; everything in it stays where it is
    Grow {
        /// Its name
        name: String,
        /// Its new size
        #[arg(value_parser = units::parse_size)]
        size: u64,
    },
    /// Make a buffer accept no more articles; those it holds stay readable
    Retire {
        /// Its name
        name: String,
    },
    /// Make a retired buffer accept articles again
    Use {
        /// Its name
        name: String,
    },
    /// Move a buffer to another file or block device
    Move {
        /// Its name
        name: String,
        /// The new file or block device
        path: String,
    },
    /// Remove a retired buffer from the spool; its file is not deleted
    Remove {
        /// Its name
        name: String,
        /// Even if it still holds articles, which are then lost
        #[arg(long)]
        articles: bool,
    },
}

/// List, add, grow, retire, reuse, move or remove buffers, whether the server runs or not
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
#[command(
    long_about = "List, add, grow, retire, reuse, move or remove buffers, whether the server runs or not.\n\n\
    This also edits the configuration, as little of its text as possible, so the server's user needs the right to \
    write it. PATH is relative to the directory in data, as in the configuration."
)]
#[command(after_long_help = "Examples:\n  newsreel buffer add text2 --class text --size \"20 GiB\"\n  \
    newsreel buffer grow text2 \"40 GiB\"\n  newsreel buffer move text0 /disk2/text0.cyc\n  \
    newsreel buffer retire text1\n  newsreel buffer remove text1 --articles")]
pub struct BufferOperation {
    #[command(subcommand)]
    /// Action on a buffer.
    pub command: BufferCommand,
}

impl BufferOperation {
    /// Returns the operation that lists the buffers.
    pub fn list() -> Self {
        Self { command: BufferCommand::List { json: false } }
    }
}

impl Operation for BufferOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let (spool, config) = (site.spool(), site.config());
        let OperatedSite::Running { server, .. } = site else {
            return run(spool, &config, &self.command, sink);
        };
        if matches!(self.command, BufferCommand::List { .. }) {
            return list(spool, sink);
        }
        let Some(_one_at_a_time) = server.site.changing.try_lock() else {
            sink(Reply::Error(BUSY.into()));
            return false;
        };
        let ok = run(spool, &config, &self.command, sink);
        if ok {
            // A reload then finds no difference.
            server.site.config.replace(Arc::new(changed(&config, &self.command)));
        }
        ok
    }

    fn glance(&self, _config: &Config, glance: &Glance, why: &str, sink: &mut Sink<'_>) -> bool {
        if !matches!(self.command, BufferCommand::List { .. }) {
            return false;
        }
        sink(Reply::Error(why.to_owned()));
        for b in &glance.buffers {
            let row = row(&b.config, &b.class, b.area_bytes, b.used_bytes);
            sink(Reply::Buffer(BufferRow { away: b.is_away, ..row }));
        }
        true
    }
}

/// Lists the buffers.
fn list(spool: &Spool, sink: &mut Sink<'_>) -> bool {
    match spool.buffers().list() {
        Ok(all) => {
            for b in all {
                let row = row(&b.config, &b.class, b.area_bytes, b.used_bytes);
                sink(Reply::Buffer(BufferRow { oldest_arrival: b.oldest_arrival, ..row }));
            }
            true
        }
        Err(error) => {
            sink(Reply::Error(error.to_string()));
            false
        }
    }
}

/// Returns the row of an existing buffer, without the time of its oldest article.
fn row(config: &BufferConfig, class: &str, area_bytes: u64, used_bytes: u64) -> BufferRow {
    BufferRow {
        name: config.name.clone(),
        class: class.to_owned(),
        path: config.path.display().to_string(),
        size_bytes: config.size_bytes,
        area_bytes,
        block_bytes: config.block_bytes,
        used_bytes,
        retired: config.retired,
        oldest_arrival: None,
        away: false,
    }
}

/// Carries out a command.
fn run(spool: &Spool, config: &Config, command: &BufferCommand, sink: &mut Sink<'_>) -> bool {
    let set = |name: &str, key, value| ConfigEdit::Set { name: name.to_owned(), key, value };
    let file = |change: ConfigEdit| {
        move || edit::apply(&config.file, std::slice::from_ref(&change)).map_err(CommitError::from)
    };
    let path = |path: &str| config.site.data.join(path);
    let (name, result) = match command {
        BufferCommand::List { .. } => return list(spool, sink),
        BufferCommand::Add { name, path: to, size, block, class } => {
            let to = path_of(name, to.as_deref());
            let mut keys = vec![("name", name.into()), ("path", (&to).into())];
            keys.extend(size.map(|size| ("size", size_text(size).into())));
            keys.extend(block.map(|block| ("block", block.to_string().into())));
            let new = BufferConfig {
                name: name.to_owned(),
                path: path(&to),
                size_bytes: size.unwrap_or(0),
                block_bytes: block.unwrap_or(BLOCK_BYTES),
                retired: false,
            };
            let change = ConfigEdit::Add { name: name.to_owned(), keys, class: class.clone() };
            let done = spool.buffers().add(&new, class, &mut file(change));
            (name, done.map(|()| format!("added to class {class}")))
        }
        BufferCommand::Grow { name, size } => {
            let text = size_text(*size);
            let present = config.buffers.iter().find(|buffer| buffer.name == *name);
            if let Some(present) = present.and_then(|buffer| buffer.size).filter(|present| size <= present) {
                let present = size_text(present);
                sink(Reply::Error(format!(
                    "{name} has {present} and cannot shrink: {text} is not larger; name a larger size"
                )));
                return false;
            }
            let done = spool.buffers().grow(name, *size, &mut file(set(name, "size", text.clone().into())));
            (name, done.map(|()| format!("has {text} now")))
        }
        BufferCommand::Retire { name } | BufferCommand::Use { name } => {
            let retired = matches!(command, BufferCommand::Retire { .. });
            let done = spool.buffers().retire(name, retired, &mut file(set(name, "retired", retired.into())));
            let text = if retired { "accepts no more articles" } else { "accepts articles again" };
            (name, done.map(|()| text.to_owned()))
        }
        BufferCommand::Move { name, path: to } => {
            let (to_path, mut file) = (path(to), file(set(name, "path", to.into())));
            let moved = spool.buffers().move_to(name, &to_path, &sink::ProgressRelay::new(sink), &mut file);
            let text = |()| format!("is in {} now; its old file is of no use any more", to_path.display());
            (name, moved.map(text))
        }
        BufferCommand::Remove { name, articles } => {
            let mut file = file(ConfigEdit::Remove { name: name.to_owned() });
            let done = spool.buffers().remove(name, *articles, &mut file);
            (name, done.map(|()| "removed; its file is of no use any more".to_owned()))
        }
    };
    answer(name, result, sink)
}

/// Returns the path of a new buffer for the configuration.
fn path_of(name: &str, path: Option<&str>) -> String {
    path.map_or_else(|| format!("{name}.cyc"), str::to_owned)
}

fn named<'a>(buffers: &'a mut [Buffer], name: &'a str) -> impl Iterator<Item = &'a mut Buffer> {
    buffers.iter_mut().filter(move |buffer| buffer.name == name)
}

/// Returns the configuration after a command.
pub fn changed(config: &Config, command: &BufferCommand) -> Config {
    let mut config = config.clone();
    let data = config.site.data.clone();
    let Config { buffers, classes, .. } = &mut config;
    match command {
        BufferCommand::List { .. } => {}
        BufferCommand::Add { name, path, size, block, class } => {
            let (path, block) = (data.join(path_of(name, path.as_deref())), block.unwrap_or(BLOCK_BYTES));
            buffers.push(Buffer { name: name.to_owned(), path, size: *size, block, retired: false });
            let class = classes.iter_mut().find(|known| known.name == *class);
            class.into_iter().for_each(|class| class.buffers.push(name.to_owned()));
        }
        BufferCommand::Grow { name, size } => {
            named(buffers, name).for_each(|buffer| buffer.size = Some(*size))
        }
        BufferCommand::Retire { name } => named(buffers, name).for_each(|buffer| buffer.retired = true),
        BufferCommand::Use { name } => named(buffers, name).for_each(|buffer| buffer.retired = false),
        BufferCommand::Move { name, path } => {
            named(buffers, name).for_each(|buffer| buffer.path = data.join(path))
        }
        BufferCommand::Remove { name, .. } => {
            buffers.retain(|buffer| buffer.name != *name);
            classes.iter_mut().for_each(|class| class.buffers.retain(|buffer| buffer != name));
        }
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
