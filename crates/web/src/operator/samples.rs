//! History of the last hour and day: figures taken every few seconds, in rings of limited size.
//!
//! Taken from reports by [`keep`] while HTTP is served, whether or not the page is open, so that an open page
//! costs no more. 360 samples of an hour and 288 of a day, with up to [`PEERS_MAX`] peers each: 7 MB at most.

use crate::WebState;
use operators::report::{PeerStatus, Report};
use site_base::lock::Leaf;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::sleep;

/// Time between two samples.
const INTERVAL: Duration = Duration::from_secs(10);
/// Number of samples of the last hour.
const HOUR_SAMPLES: usize = 360;
/// Interval, in samples, between those kept for the day, and the number of those.
const DAY_STEP: u64 = 30;
const DAY_SAMPLES: usize = 288;
/// Maximum number of peers in a sample.
const PEERS_MAX: usize = 200;

/// Figures at one time; counts are since the start.
#[derive(Debug, Clone, Default)]
struct LoadSample {
    accepted: u64,
    rejected: u64,
    connections: u64,
    undurable_bytes: u64,
    peers: Box<[PeerSample]>,
}

#[derive(Debug, Clone, Default)]
struct PeerSample {
    name: Arc<str>,
    came: u64,
    sent: u64,
    lag_secs: u64,
}

/// A figure of which there are samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadSeries<'a> {
    /// Articles accepted per second.
    Accepted,
    /// Articles rejected per second.
    Rejected,
    /// Connections.
    Connections,
    /// Bytes that a power failure could lose.
    Undurable,
    /// Articles accepted from a peer per second.
    From(&'a str),
    /// Articles taken by a peer per second.
    To(&'a str),
    /// Seconds by which a feed lags.
    Lag(&'a str),
}

/// The time covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HistorySpan {
    Hour,
    Day,
}

/// All samples.
#[derive(Debug, Default)]
pub(crate) struct LoadHistory(Leaf<Rings>);

#[derive(Debug, Default)]
struct Rings {
    taken: u64,
    hour: VecDeque<LoadSample>,
    day: VecDeque<LoadSample>,
}

impl LoadHistory {
    /// Adds the figures of a report.
    fn add(&self, report: &Report) {
        let mut rings = self.0.lock();
        let names = rings.hour.back().map(|last| last.peers.clone()).unwrap_or_default();
        let sample = LoadSample::of(report, &names);
        if rings.taken.is_multiple_of(DAY_STEP) {
            push(&mut rings.day, DAY_SAMPLES, sample.clone());
        }
        push(&mut rings.hour, HOUR_SAMPLES, sample);
        rings.taken += 1;
    }

    /// Returns the values of a figure, oldest first: changes per second, or levels.
    pub(super) fn series(&self, of: LoadSeries<'_>, span: HistorySpan) -> Vec<f64> {
        let rings = self.0.lock();
        let (ring, step) = match span {
            HistorySpan::Hour => (&rings.hour, INTERVAL.as_secs()),
            HistorySpan::Day => (&rings.day, INTERVAL.as_secs() * DAY_STEP),
        };
        let values = ring.iter().map(|sample| sample.value(of));
        if matches!(of, LoadSeries::Connections | LoadSeries::Undurable | LoadSeries::Lag(_)) {
            return values.map(|value| value.unwrap_or_default() as f64).collect();
        }
        let values: Vec<Option<u64>> = values.collect();
        // A figure without an earlier value, such as that of a new peer, has no rate yet.
        let rate = |pair: &[Option<u64>]| match pair {
            [Some(before), Some(after)] => after.saturating_sub(*before) as f64 / step as f64,
            _ => 0.0,
        };
        values.windows(2).map(rate).collect()
    }
}

fn push(ring: &mut VecDeque<LoadSample>, max: usize, sample: LoadSample) {
    if ring.len() >= max {
        ring.pop_front();
    }
    ring.push_back(sample);
}

impl LoadSample {
    /// Takes the figures of a report, sharing names with the previous sample.
    fn of(report: &Report, before: &[PeerSample]) -> Self {
        let Some(server) = &report.server else { return Self::default() };
        let peer = |peer: &PeerStatus| {
            let known = before.iter().find(|known| *known.name == *peer.name);
            PeerSample {
                name: known.map_or_else(|| peer.name.as_str().into(), |known| known.name.clone()),
                came: peer.accepted,
                sent: peer.feed.as_ref().map_or(0, |feed| feed.accepted),
                lag_secs: peer.feed.as_ref().map_or(0, |feed| feed.lag_secs),
            }
        };
        Self {
            accepted: server.accepted,
            rejected: server.rejected,
            connections: server.connections,
            undurable_bytes: report.spool.undurable_bytes,
            peers: server.peers.iter().take(PEERS_MAX).map(peer).collect(),
        }
    }

    fn value(&self, of: LoadSeries<'_>) -> Option<u64> {
        let peer = |name: &str| self.peers.iter().find(|peer| *peer.name == *name);
        match of {
            LoadSeries::Accepted => Some(self.accepted),
            LoadSeries::Rejected => Some(self.rejected),
            LoadSeries::Connections => Some(self.connections),
            LoadSeries::Undurable => Some(self.undurable_bytes),
            LoadSeries::From(name) => peer(name).map(|peer| peer.came),
            LoadSeries::To(name) => peer(name).map(|peer| peer.sent),
            LoadSeries::Lag(name) => peer(name).map(|peer| peer.lag_secs),
        }
    }
}

/// Takes samples until the server stops, while HTTP is served.
pub(crate) async fn keep(shared: Weak<WebState>, stopping: impl Future<Output = ()>) {
    let mut stopping = std::pin::pin!(stopping);
    loop {
        tokio::select! {
            () = &mut stopping => return,
            () = sleep(INTERVAL) => {}
        }
        let Some(shared) = shared.upgrade() else { return };
        let config = shared.config();
        if config.web.is_on()
            && config.web.operator
            && let Some(report) = shared.report()
        {
            shared.samples.add(&report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use operators::report::ServerStatus;

    fn report(accepted: u64, peers: &[(&str, u64)]) -> Report {
        let peer = |(name, accepted): &(&str, u64)| PeerStatus {
            name: (*name).into(),
            accepted: *accepted,
            ..PeerStatus::default()
        };
        let peers = peers.iter().map(peer).collect();
        let server = ServerStatus { accepted, connections: 7, peers, ..ServerStatus::default() };
        Report { server: Some(server), ..Report::default() }
    }

    #[test]
    fn rates_are_differences_between_samples() {
        let samples = LoadHistory::default();
        samples.add(&report(100, &[("a", 10)]));
        samples.add(&report(150, &[("b", 500), ("a", 30)]));
        samples.add(&report(150, &[("b", 510)]));
        // The counts start at 0 again, as after a restart of the counted part.
        samples.add(&report(20, &[("b", 0)]));
        assert_eq!(samples.series(LoadSeries::Accepted, HistorySpan::Hour), [5.0, 0.0, 0.0]);
        assert_eq!(samples.series(LoadSeries::From("a"), HistorySpan::Hour), [2.0, 0.0, 0.0]);
        assert_eq!(
            samples.series(LoadSeries::From("b"), HistorySpan::Hour),
            [0.0, 1.0, 0.0],
            "500 came before we looked"
        );
        assert_eq!(samples.series(LoadSeries::Connections, HistorySpan::Hour), [7.0; 4]);
    }

    #[test]
    fn the_rings_are_bounded() {
        let samples = LoadHistory::default();
        let many: Vec<String> = (0..PEERS_MAX + 9).map(|n| n.to_string()).collect();
        let many: Vec<(&str, u64)> = many.iter().map(|name| (name.as_str(), 1)).collect();
        for n in 0..(DAY_STEP * DAY_SAMPLES as u64 + 100) {
            let peers = if n > 9_000 { many.as_slice() } else { &[] };
            samples.add(&report(n * 10, peers));
        }
        assert_eq!(samples.series(LoadSeries::Accepted, HistorySpan::Hour), vec![1.0; HOUR_SAMPLES - 1]);
        assert_eq!(samples.series(LoadSeries::Accepted, HistorySpan::Day), vec![1.0; DAY_SAMPLES - 1]);
        assert!(samples.0.lock().hour.iter().all(|sample| sample.peers.len() <= PEERS_MAX));
    }
}
