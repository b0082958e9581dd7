//! Forecast of how long articles will stay, from the bytes stored on past days. Pure.
//!
//! An article is overwritten once as many bytes have been stored after it as its class has room for. From the
//! rate of the last day, and the records of the days before, follows the day on which overwritten articles
//! will first be younger than they should be.

use super::{History, date_of};
use crate::report::ClassReport;
use site_base::units::DAY_SECS;

/// Number of past days among which the worst one is sought.
const WORST_DAYS: u64 = 365;
/// Number of steps into which the time ahead is divided.
const STEPS: u64 = 200;

/// Adds the forecast from past days to the status of classes, at `now` (Unix seconds).
pub(crate) fn foretell(classes: &mut [ClassReport], history: &History, now: u64) {
    for class in classes.iter_mut().filter(|class| class.room_bytes > 0) {
        let today = now / DAY_SECS;
        let past = history.range(today.saturating_sub(WORST_DAYS)..today);
        let stored = past.filter_map(|(day, classes)| Some((*day, *classes.get(&class.name)?)));
        // The last one of equal days.
        if let Some((day, bytes)) = stored.max_by_key(|(_, bytes)| *bytes).filter(|(_, bytes)| *bytes > 0) {
            class.worst_day = Some(date_of(day));
            class.stays_worst_secs = Some(seconds(class.room_bytes, bytes));
        }
        class.target_missed = missed(class, class.keep_target_secs, history, now);
        class.promise_missed = missed(class, class.keep_at_least_secs, history, now);
    }
}

/// Returns how long this many bytes take at this daily rate, in seconds.
fn seconds(bytes: u64, bytes_a_day: u64) -> u64 {
    let secs = u128::from(bytes) * u128::from(DAY_SECS) / u128::from(bytes_a_day.max(1));
    u64::try_from(secs).unwrap_or(u64::MAX)
}

/// Returns when articles younger than `wanted` will first be overwritten, in Unix seconds; `None`: not at
/// this rate.
fn missed(class: &ClassReport, wanted: Option<u64>, history: &History, now: u64) -> Option<u64> {
    let (wanted, stays, rate) = (wanted?, class.stays_secs?, class.day_bytes_per_sec);
    if stays >= wanted || rate <= 0.0 {
        return None;
    }
    let step = (wanted / STEPS).max(1);
    let is_missed = |ahead: u64| {
        let stored = before(class, wanted - ahead, history, now) + rate * ahead as f64;
        stored >= class.room_bytes as f64
    };
    let ahead = (0..=STEPS).map(|n| (n * step).min(wanted)).find(|ahead| is_missed(*ahead));
    Some(now + ahead.unwrap_or(wanted))
}

/// Returns the bytes that were stored in the last `secs` seconds.
fn before(class: &ClassReport, secs: u64, history: &History, now: u64) -> f64 {
    let rate = class.day_bytes_per_sec;
    let age = class.oldest_arrival.map_or(0, |at| now.saturating_sub(at));
    let mut bytes = 0.0;
    let mut at = 0;
    while at < secs {
        let piece = (secs - at).min(DAY_SECS);
        let known = history.get(&(now.saturating_sub(at) / DAY_SECS)).and_then(|day| day.get(&class.name));
        bytes += match known {
            // The unfinished day is extrapolated from its rate.
            Some(stored) if at >= DAY_SECS => *stored as f64 * piece as f64 / DAY_SECS as f64,
            _ if at < age => rate * piece.min(age - at) as f64,
            _ => 0.0,
        };
        at += piece;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const NOW: u64 = 20_000 * DAY_SECS;

    /// Returns a class with room for 1,000 bytes that gets this many a day, and should keep articles 10 days.
    fn class(bytes_a_day: f64) -> ClassReport {
        let rate = bytes_a_day / DAY_SECS as f64;
        ClassReport {
            name: "text".into(),
            room_bytes: 1_000,
            day_bytes_per_sec: rate,
            oldest_arrival: Some(NOW - 30 * DAY_SECS),
            stays_secs: Some((1_000.0 / rate) as u64),
            keep_target_secs: Some(10 * DAY_SECS),
            ..ClassReport::default()
        }
    }

    fn history(days: impl IntoIterator<Item = (u64, u64)>) -> History {
        let day = |(ago, bytes)| (20_000 - ago, BTreeMap::from([("text".to_owned(), bytes)]));
        days.into_iter().map(day).collect()
    }

    fn told(class: ClassReport, history: &History) -> ClassReport {
        let mut all = [class];
        foretell(&mut all, history, NOW);
        let [class] = all;
        class
    }

    #[test]
    fn worst_day_bounds_the_retention() {
        let class = told(class(50.0), &history([(1, 50), (3, 500), (400, 900)]));
        assert_eq!(class.worst_day.as_deref(), Some("2024-10-01"), "of the last year");
        assert_eq!((class.stays_worst_secs, class.target_missed), (Some(2 * DAY_SECS), None));
        let none = told(self::class(50.0), &History::new());
        assert_eq!((none.worst_day, none.stays_worst_secs), (None, None));
    }

    #[test]
    fn missed_target_is_forecast_in_advance() {
        // 50 bytes a day for long, and 300 since yesterday: the buffer will have turned over within 10 days
        // once 10 days have brought 1,000 bytes: 300 n + 50 (10 - n) = 1,000 at n = 2, of which one is over.
        let class = told(class(300.0), &history((1..40).map(|ago| (ago, 50))));
        let ahead = class.target_missed.unwrap() - NOW;
        assert!((DAY_SECS * 9 / 10..DAY_SECS * 12 / 10).contains(&ahead), "{ahead}");
        // The rate was the same all the time.
        let class = told(self::class(300.0), &history((1..40).map(|ago| (ago, 300))));
        assert_eq!(class.target_missed, Some(NOW));
        assert_eq!(class.promise_missed, None, "nothing was promised");
    }

    #[test]
    fn forecast_allows_for_the_unfilled_part_of_a_buffer() {
        // A day old, and filled at 200 bytes a day: full after 5 days.
        let young = ClassReport { oldest_arrival: Some(NOW - DAY_SECS), ..class(200.0) };
        let ahead = told(young, &History::new()).target_missed.unwrap() - NOW;
        assert!((DAY_SECS * 39 / 10..=DAY_SECS * 42 / 10).contains(&ahead), "{ahead}");
    }
}
