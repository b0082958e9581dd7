//! `newsreel expire --what-if`: effect of another configuration's expiry rules.

use spool::{Spool, WhatIfRow};
use std::path::Path;

use super::super::reply::{ExpirePreview, Reply};
use super::super::sink::{ProgressRelay, Sink};
use site_base::units::DAY_SECS;
use site_config as config;
use site_config::Config;

/// Counts what the rules of a file would remove, now and in `days` days; returns true on success.
pub(super) fn what_if(
    spool: &Spool,
    file: &Path,
    text: &str,
    days: Option<u32>,
    sink: &mut Sink<'_>,
) -> bool {
    let config = match config::parse(text, file) {
        Ok(config) => config,
        Err(fault) => {
            let messages: Vec<&str> = fault.faults().iter().map(|fault| fault.message.as_str()).collect();
            sink(Reply::Error(format!("{fault}: {}", messages.join("; "))));
            return false;
        }
    };
    let secs = u64::from(days.unwrap_or(0)) * DAY_SECS;
    match spool.expiry().what_if(&config.spool_config(), secs, &ProgressRelay::new(sink)) {
        Ok(report) => {
            let rows = report.rows.iter().enumerate().map(|(at, row)| would_expire(&config, at, row, days));
            rows.for_each(|row| sink(Reply::WouldExpire(row)));
            true
        }
        Err(trouble) => {
            sink(Reply::Error(trouble.to_string()));
            false
        }
    }
}

fn would_expire(config: &Config, at: usize, row: &WhatIfRow, days: Option<u32>) -> ExpirePreview {
    let section = config.expire.get(at);
    ExpirePreview {
        section: section.map(|_| at + 1),
        conditions: section.map(config::Expire::conditions).unwrap_or_default(),
        articles: row.later.looked_at,
        now_articles: row.now.articles,
        now_bytes: row.now.bytes,
        later_articles: days.map(|_| row.later.articles),
        later_bytes: days.map(|_| row.later.bytes),
    }
}
