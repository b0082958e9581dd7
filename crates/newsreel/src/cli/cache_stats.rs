//! `cache stats`: requests of readers and the share that the cache answered, as in table 3 of the NewsCache
//! paper, and by upstream and group.

use super::locate::SiteLocation;
use super::reach;
use super::screen::{CliError, problem, say, say_json};
use super::status::{cache_text, counts_text};
use disk::RealDisk;
use operators::cached;
use operators::report::{CacheStatus, Report};
use operators::status::StatusOperation;
use std::sync::Arc;

/// Groups shown without `--all`.
const GROUPS_SHOWN: usize = 20;

pub(super) fn stats(at: &SiteLocation, all: bool, json: bool) -> Result<(), CliError> {
    let config = at.load()?;
    let (reports, _) = reach::heard::<Box<Report>>(&config, StatusOperation::default())?;
    let mut status = reports.into_iter().find_map(|report| report.server?.cache);
    if status.is_none() {
        // No server runs, so the cache can be opened here.
        let cache = cached::open(Arc::new(RealDisk::new()), &config).map_err(problem)?;
        status = cache.map(|cache| CacheStatus::of(&cache.stats()));
    }
    let Some(mut status) = status else {
        return Err(CliError::Problem("there is no cache: nothing was read from an [[upstream]] yet".into()));
    };
    if json {
        return say_json(&status);
    }
    if !all {
        status.groups.truncate(GROUPS_SHOWN);
    }
    say(text(&status))
}

fn text(status: &CacheStatus) -> String {
    let mut text = cache_text(status);
    for (head, rows) in [("upstream", &status.upstreams), ("group", &status.groups)] {
        if !rows.is_empty() {
            text += &format!("\n\n{}", counts_text(head, rows));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use operators::report::CacheCounts;

    #[test]
    fn requests_are_shown_by_kind_upstream_and_group() {
        let counts = |of: &str, requests| CacheCounts {
            of: of.into(),
            requests,
            hits: requests / 4,
            cache_bytes: 2_048,
            upstream_bytes: 4_096,
        };
        let status = CacheStatus {
            used_bytes: 1_024,
            size_bytes: 2_048,
            files: 1,
            kinds: vec![counts("article", 1_000)],
            upstreams: vec![counts("", 8), counts("isp", 0)],
            groups: vec![counts("comp.a", 4)],
        };
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            words(&text(&status)),
            "cached requests hits share from cache from upstream article 1,000 250 25 % 2.00 KiB 4.00 KiB 1.00 \
             KiB of 2.00 KiB in 1 file upstream requests hits share from cache from upstream by Message-ID 8 2 25 \
             % 2.00 KiB 4.00 KiB isp 0 0 - 2.00 KiB 4.00 KiB group requests hits share from cache from upstream \
             comp.a 4 1 25 % 2.00 KiB 4.00 KiB"
        );
    }
}
