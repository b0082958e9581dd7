//! The log: one line per event on standard error, as text or JSON.
//!
//! Modules are the targets (`newsreel::relay`), so that a line tells which duty speaks. Per-article events are
//! formatted only if their level is on. Called by `cli` before anything else runs.

use crate::config::{LogFormat, LogLevel};
use std::io::{self, IsTerminal};
use tracing::level_filters::LevelFilter;

/// Starts logging; a second call has no effect.
pub fn init(level: LogLevel, format: LogFormat) {
    let filter = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt().with_max_level(filter).with_writer(io::stderr);
    // An error here says that a subscriber is set already.
    let _set_already = match format {
        LogFormat::Plain => lines.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
}
