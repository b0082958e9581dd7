//! How long articles stay: age of the oldest, rate of writing, conclusions from these, and log messages about
//! them.
//!
//! Pure, but for [`watch`], which does it periodically in a server: takes a spool's figures and returns
//! reports. Called by `report` and by newsreel's `server`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use super::report::{ClassReport, Overhead};
use site::Site;
use site_base::clock::unix_now;
use site_base::units::{self, DAY_SECS};
use site_config::Config;

/// Interval of checks for rejected articles.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// Checks between two warnings that a class is below its target: a day.
const LOOKS_PER_WARNING: u64 = 24 * 60;
/// Number of articles below which the fixed size of the files dominates the overhead per article.
const OVERHEAD_ARTICLES_MIN: u64 = 10_000;
/// Shortest period, in seconds, from which a rate is computed.
const RATE_SECS_MIN: u64 = HOUR_SECS;
const HOUR_SECS: u64 = 3_600;

/// Returns the bytes on disk for each article beyond its own; `None` with too few articles for an estimate.
pub fn overhead(status: &spool::SpoolMetrics) -> Option<Overhead> {
    if status.articles < OVERHEAD_ARTICLES_MIN {
        return None;
    }
    let each = |bytes: u64| bytes.checked_div(status.articles).unwrap_or(0);
    // Weighted by the contents of the buffers.
    let known = status.buffers.iter().filter_map(|b| Some((b.record_overhead_bytes?, b.used_bytes.max(1))));
    let (sum, used) = known.fold((0u128, 0u128), |(sum, all), (bytes, used)| {
        (sum + u128::from(bytes) * u128::from(used), all + u128::from(used))
    });
    Some(Overhead {
        record_bytes: u64::try_from(sum.checked_div(used).unwrap_or(0)).unwrap_or(u64::MAX),
        journal_bytes: each(status.journal_bytes),
        history_bytes: each(status.history_bytes),
        overview_bytes: each(status.overview_bytes),
        residents_bytes: each(status.residents_bytes),
        checkpoint_bytes: each(status.checkpoint_bytes),
    })
}

/// Returns the status of the classes, at `now` (Unix seconds).
pub fn classes(status: &spool::SpoolMetrics, config: &Config, now: i64) -> Vec<ClassReport> {
    let now = u64::try_from(now).unwrap_or_default();
    status.classes.iter().map(|class| one(class, status, config, now)).collect()
}

fn one(class: &spool::ClassStatus, status: &spool::SpoolMetrics, config: &Config, now: u64) -> ClassReport {
    let buffers = || {
        let own = |b: &&spool::BufferStatus| class.buffers.contains(&b.name);
        status.buffers.iter().filter(own)
    };
    let kept = || status.kept.iter().filter(|k| class.buffers.contains(&k.name));
    let oldest = buffers().filter_map(|b| b.oldest_arrival).chain(kept().filter_map(|k| k.oldest_arrival));
    let oldest_arrival = oldest.min();
    // A class younger than the period is judged by its age.
    let age = oldest_arrival.map_or(0, |at| now.saturating_sub(at));
    let rate = |bytes: u64, secs: u64| bytes as f64 / age.clamp(1, secs) as f64;
    let hour_bytes = buffers().map(|b| b.written_hour_bytes).chain(kept().map(|k| k.written_hour_bytes));
    let day_bytes = buffers().map(|b| b.written_day_bytes).chain(kept().map(|k| k.written_day_bytes));
    let day = rate(day_bytes.sum(), DAY_SECS);
    let area: u64 = buffers().map(|b| b.area_bytes).chain(kept().map(|k| k.room_bytes)).sum();
    let configured = config.classes.iter().find(|c| c.name == class.name);
    let secs = |span: Option<Duration>| span.map(|span| span.as_secs());
    let ring = configured.and_then(|class| class.ring).unwrap_or(u64::MAX);
    ClassReport {
        name: class.name.clone(),
        method: class.method.to_owned(),
        oldest_arrival,
        hour_bytes_per_sec: rate(hour_bytes.sum(), HOUR_SECS),
        day_bytes_per_sec: day,
        stays_secs: (day > 0.0 && age >= RATE_SECS_MIN).then(|| (area.min(ring) as f64 / day) as u64),
        room_bytes: area,
        worst_day: None,
        stays_worst_secs: None,
        target_missed: None,
        promise_missed: None,
        keep_target_secs: secs(configured.and_then(|c| c.keep_target)),
        keep_at_least_secs: secs(configured.and_then(|c| c.keep_at_least)),
        spilled: class.spilled,
        turned_away: class.turned_away,
        overwritten_early: class.overwritten_early.unwrap_or_default(),
    }
}

/// State for log messages about the figures.
#[derive(Debug, Default)]
pub struct RetentionWatch {
    looks: u64,
    /// Counts of spilled and rejected articles at the last check, by class.
    counted: HashMap<String, (u64, u64)>,
}

impl RetentionWatch {
    /// Returns the messages to log after another minute.
    pub fn look(&mut self, classes: &[ClassReport]) -> Vec<String> {
        let mut said = Vec::new();
        for class in classes {
            let now = (class.spilled, class.turned_away);
            let before = self.counted.insert(class.name.clone(), now).unwrap_or_default();
            let (spilled, away) = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
            if spilled > 0 {
                let text = "articles went to its overflow: they would have displaced what is to stay";
                said.push(format!("class {}: {spilled} {text}", class.name));
            }
            if away > 0 {
                let text = "articles were rejected: they would have displaced what is to stay, and no overflow took \
                            them; give the class or its overflow more room (newsreel buffer grow or add)";
                said.push(format!("class {}: {away} {text}", class.name));
            }
            if let (true, Some(stays), Some(target)) = (
                self.looks.is_multiple_of(LOOKS_PER_WARNING) && class.is_below_target(),
                class.stays_secs,
                class.keep_target_secs,
            ) {
                said.push(format!(
                    "class {}: at the last day's rate articles stay {}, which is less than keep_target = {}; give it more room",
                    class.name,
                    units::about_span(stays),
                    units::about_span(target)
                ));
            }
        }
        self.looks += 1;
        said
    }
}

/// Logs once a minute what classes could not keep, and once a day which ones are below their target, until
/// the server stops.
pub async fn watch(site: Arc<Site>) {
    let mut stopping = std::pin::pin!(site.stopping());
    let mut watch = RetentionWatch::default();
    loop {
        tokio::select! {
            () = &mut stopping => return,
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
        for text in watch.look(&classes(&site.spool.meter().report(), &site.config.load(), unix_now())) {
            warn!("{text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_logged_each_minute_and_missed_targets_each_day() {
        let mut class = ClassReport { name: "text".into(), ..ClassReport::default() };
        let mut watch = RetentionWatch::default();
        assert!(watch.look(&[class.clone()]).is_empty());
        class.spilled = 5;
        assert!(watch.look(&[class.clone()])[0].starts_with("class text: 5 articles went to its overflow"));
        class.turned_away = 2;
        let said = watch.look(&[class.clone()]);
        assert!(said.len() == 1 && said[0].contains("2 articles were rejected"), "{said:?}");
        class.stays_secs = Some(3 * DAY_SECS);
        class.keep_target_secs = Some(10 * DAY_SECS);
        let told: Vec<u64> = (3..3000).filter(|_| !watch.look(&[class.clone()]).is_empty()).collect();
        assert_eq!(told, [1440, 2880]);
        class.stays_secs = Some(30 * DAY_SECS);
        assert!(!class.is_below_target());
    }
}
