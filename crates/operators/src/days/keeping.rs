//! The thread that keeps the daily record.
//!
//! Articles are counted from the journal, with a cursor that is moved after the record is durable: rows read
//! again after a crash are recognized by their sequence numbers. Growth of the counters between two writes of
//! the record, a minute apart, is lost with the process. The thread has the lowest priority.

use super::record::{self, ClassDay, DayRecord, PeerDay, count};
use super::{DayTotals, history};
use crate::report::{LoginStatus, PeerStatus, Report, ServerStatus};
use crate::trouble;
use netnews::path;
use site::Site;
use site_base::clock::unix_secs;
use site_base::units::DAY_SECS;
use site_config::Config;
use spool::{ArticleRow, Cursor, GroupId, GroupTable, JournalBatch, JournalEvent, TailStart};
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::warn;

/// Niceness of the thread: the lowest priority.
const NICE: i32 = 19;
/// Name of the cursor.
const CURSOR: &str = "days";
/// Interval of checks whether to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Interval at which the journal is read.
const READ_INTERVAL: Duration = Duration::from_secs(10);
/// Interval at which the record is written.
const WRITE_INTERVAL: Duration = Duration::from_secs(60);
/// Sampling of Path headers: one article in this many.
const PATH_SAMPLE: u64 = 8;
/// Maximum number of servers counted in a Path.
const HOPS_MAX: usize = 30;

/// The thread; ends with the server.
#[derive(Debug)]
pub struct DayKeeper {
    thread: JoinHandle<()>,
}

impl DayKeeper {
    /// Waits for the thread to end. The server must be stopping.
    pub fn end(self) {
        if self.thread.join().is_err() {
            warn!("the thread that records the day has failed");
        }
    }
}

/// Starts the thread; `report` returns the status of the server, as long as there is one.
pub fn start(
    site: &Arc<Site>,
    days: &Arc<DayTotals>,
    report: impl Fn() -> Option<Report> + Send + 'static,
) -> io::Result<DayKeeper> {
    // From here on no article is missed.
    drop(site.spool.journal().cursor(CURSOR, TailStart::Now)?);
    let (site, days) = (site.clone(), days.clone());
    let thread = thread::Builder::new().name("days".into()).spawn(move || {
        // A failure only leaves the thread its usual priority.
        let _as_before = rustix::process::setpriority_process(None, NICE);
        // A server that stops at once has a day, too.
        while let Err(error) = run(&site, &days, &report) {
            warn!(%error, "days are not recorded now");
            if site.is_stopping() {
                break;
            }
            rest(&site, WRITE_INTERVAL);
        }
    })?;
    Ok(DayKeeper { thread })
}

/// Waits, unless the server stops.
fn rest(site: &Site, time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until && !site.is_stopping() {
        thread::sleep(LOOK_INTERVAL);
    }
}

/// Records days until the server stops, its last counts included.
fn run(site: &Site, days: &DayTotals, report: &dyn Fn() -> Option<Report>) -> io::Result<()> {
    let data = site.config.load().site.data.clone();
    days.history.store(Arc::new(history(&**site.spool.disk(), &data)));
    let mut keeping = OpenDayRecord::open(site)?;
    let mut written = Instant::now();
    loop {
        rest(site, READ_INTERVAL);
        let (is_last, today) = (site.is_stopping(), unix_secs() / DAY_SECS);
        let is_due = is_last || today != keeping.day || written.elapsed() >= WRITE_INTERVAL;
        let done = keeping.read().and_then(|()| if is_due { keeping.write(report()) } else { Ok(()) });
        // Counts are kept in memory after an error.
        if let Err(error) = done {
            warn!(%error, "the day cannot be recorded now");
        }
        if is_due {
            written = Instant::now();
        }
        if today != keeping.day {
            let next = keeping.record.next;
            (keeping.day, keeping.record) = (today, DayRecord { next, ..DayRecord::default() });
            days.history.store(Arc::new(history(&**site.spool.disk(), &data)));
        }
        if is_last {
            return Ok(());
        }
    }
}

/// The daily record that is being kept.
struct OpenDayRecord<'a> {
    site: &'a Site,
    day: u64,
    record: DayRecord,
    cursor: Cursor,
    batch: JournalBatch,
    /// State of the counters at the last update.
    before: ServerStatus,
    numbers: Vec<(GroupId, u64)>,
}

impl<'a> OpenDayRecord<'a> {
    fn open(site: &'a Site) -> io::Result<Self> {
        let (spool, day) = (&site.spool, unix_secs() / DAY_SECS);
        let data = site.config.load().site.data.clone();
        let cursor = spool.journal().cursor(CURSOR, TailStart::Now)?;
        let last = match record::read(&**spool.disk(), &data, day)? {
            Some(record) => record,
            // The sequence number of the last record avoids counting articles twice.
            None => {
                let days = record::days(&**spool.disk(), &data);
                let last = days.last().and_then(|last| record::read(&**spool.disk(), &data, *last).ok()?);
                DayRecord { next: last.map_or(0, |last| last.next), ..DayRecord::default() }
            }
        };
        let before = ServerStatus::default();
        Ok(Self {
            site,
            day,
            record: last,
            cursor,
            batch: JournalBatch::default(),
            before,
            numbers: Vec::new(),
        })
    }

    /// Counts the new articles in the journal.
    fn read(&mut self) -> io::Result<()> {
        let mut batch = std::mem::take(&mut self.batch);
        loop {
            let read = self.cursor.next(&mut batch);
            if read.is_err() || batch.is_empty() {
                self.batch = batch;
                return read;
            }
            let (table, config) = (self.site.spool.group_table(), self.site.config.current());
            for (_, event) in batch.events() {
                if let JournalEvent::Article(row) = event
                    && row.sequence >= self.record.next
                {
                    self.record.next = row.sequence + 1;
                    self.article(&row, &table, &config);
                }
            }
        }
    }

    fn article(&mut self, row: &ArticleRow<'_>, table: &GroupTable, config: &Config) {
        let record = &mut self.record;
        if let Some(class) = config.classes.get(usize::from(row.token.class)) {
            let class = match record.classes.get_mut(&class.name) {
                Some(known) => known,
                None => record.classes.entry(class.name.clone()).or_default(),
            };
            class.articles += 1;
            class.bytes += row.stored_bytes;
        }
        self.numbers.clear();
        if row.numbers(&mut self.numbers) {
            for group in self.numbers.iter().filter_map(|(id, _)| table.get(*id)) {
                count(&mut record.groups, &group.name, 1);
            }
        }
        let origin = row.tagged.origin().and_then(|origin| std::str::from_utf8(origin).ok());
        count(&mut record.origins, origin.unwrap_or("unknown"), 1);
        if row.sequence.is_multiple_of(PATH_SAMPLE)
            && let Some(value) = row.tagged.path()
        {
            record.paths += 1;
            for hop in path::hops(value).take(HOPS_MAX).filter_map(|hop| std::str::from_utf8(hop).ok()) {
                count(&mut record.path, hop, 1);
            }
        }
    }

    /// Adds the growth of the counters.
    fn grow(&mut self, report: &Report) {
        let Some(server) = &report.server else { return };
        let (now, before, record) = (unix_secs(), &self.before, &mut self.record);
        record.accepted += server.accepted.saturating_sub(before.accepted);
        record.rejected += server.rejected.saturating_sub(before.rejected);
        record.try_later += server.try_later.saturating_sub(before.try_later);
        record.refused += server.refused.saturating_sub(before.refused);
        record.readers += server.readers_served.saturating_sub(before.readers_served);
        record.logins = grown(&record.logins, &before.logins, &server.logins);
        for peer in &server.peers {
            let known = before.peers.iter().find(|known| known.name == peer.name);
            let day = record.peers.entry(peer.name.clone()).or_default();
            grow_peer(day, &known.cloned().unwrap_or_default(), peer);
        }
        for class in &report.spool.classes {
            let day: &mut ClassDay = record.classes.entry(class.name.clone()).or_default();
            day.stays_secs = class.stays_secs.or(day.stays_secs);
        }
        let counters = &self.site.counters;
        counters.take_reasons().into_iter().for_each(|(reason, n)| count(&mut record.reasons, reason, n));
        counters
            .take_selections()
            .into_iter()
            .for_each(|(group, n)| count(&mut record.selections, &group, n));
        trouble::all(report, now).into_iter().for_each(|trouble| record.note(trouble.what, now));
        self.before = server.clone();
    }

    /// Makes the record durable, with the figures of a report, and then moves the cursor.
    fn write(&mut self, report: Option<Report>) -> io::Result<()> {
        report.iter().for_each(|report| self.grow(report));
        let config = self.site.config.current();
        record::write(&**self.site.spool.disk(), &config.site.data, self.day, &self.record)?;
        self.cursor.save()
    }
}

fn grown(day: &LoginStatus, before: &LoginStatus, now: &LoginStatus) -> LoginStatus {
    LoginStatus {
        succeeded: day.succeeded + now.succeeded.saturating_sub(before.succeeded),
        failed: day.failed + now.failed.saturating_sub(before.failed),
        lock_outs: day.lock_outs + now.lock_outs.saturating_sub(before.lock_outs),
        refused: day.refused + now.refused.saturating_sub(before.refused),
    }
}

fn grow_peer(day: &mut PeerDay, before: &PeerStatus, now: &PeerStatus) {
    day.offered += now.offered.saturating_sub(before.offered);
    day.accepted += now.accepted.saturating_sub(before.accepted);
    day.rejected += now.rejected.saturating_sub(before.rejected);
    let (Some(feed), before) = (&now.feed, before.feed.clone().unwrap_or_default()) else { return };
    day.sent_offered += feed.offered.saturating_sub(before.offered);
    day.sent_refused += feed.refused.saturating_sub(before.refused);
    day.sent_accepted += feed.accepted.saturating_sub(before.accepted);
    day.sent_rejected += feed.rejected.saturating_sub(before.rejected);
    day.sent_deferred += feed.deferred.saturating_sub(before.deferred);
    day.sent_bytes += feed.sent_bytes.saturating_sub(before.sent_bytes);
    day.missed += feed.missed.saturating_sub(before.missed);
}
