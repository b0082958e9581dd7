//! Compresses cold overview while the server runs, in a low-rate thread that pauses while a feed is busy.
//!
//! The work is done by `spool::OverviewCare`; this module schedules it. A failed pass has changed nothing
//! and is tried again later.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use spool::{PackReport, Spool};
use tracing::{debug, warn};

use crate::load::{FeedRate, TimeShare, WorkPace};
use site_base::units::about_size;

/// Time between two passes.
const PASS_INTERVAL: Duration = Duration::from_secs(20);
/// Pause after a failed pass.
const RETRY_INTERVAL: Duration = Duration::from_secs(600);
/// Interval over which the feed's rate is measured, and the shortest pause for a busy feed.
const FEED_INTERVAL: Duration = Duration::from_secs(1);

/// The thread; ends when this is dropped.
#[derive(Debug)]
pub struct OverviewPacker {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl OverviewPacker {
    /// Starts the thread.
    pub fn start(spool: &Arc<Spool>) -> io::Result<Self> {
        Self::start_every(spool, PASS_INTERVAL)
    }

    fn start_every(spool: &Arc<Spool>, interval: Duration) -> io::Result<Self> {
        let (spool, stop) = (Arc::downgrade(spool), Arc::new(AtomicBool::new(false)));
        let told = stop.clone();
        let thread = thread::Builder::new()
            .name("overview-pack".into())
            .spawn(move || run(&spool, &told, interval))?;
        Ok(Self { thread: Some(thread), stop })
    }

    /// Waits a few milliseconds for the thread to end.
    pub fn end(mut self) {
        let thread = self.thread.take();
        self.stop(thread.as_ref());
        if thread.is_some_and(|thread| thread.join().is_err()) {
            warn!("the thread that compresses overview has failed");
        }
    }

    fn stop(&self, thread: Option<&JoinHandle<()>>) {
        self.stop.store(true, Ordering::Release);
        thread.map(JoinHandle::thread).into_iter().for_each(Thread::unpark);
    }
}

impl Drop for OverviewPacker {
    fn drop(&mut self) {
        self.stop(self.thread.as_ref());
    }
}

fn run(spool: &Weak<Spool>, stop: &AtomicBool, interval: Duration) {
    let mut wait = interval;
    while rest(stop, wait) {
        let Some(spool) = spool.upgrade() else { return };
        wait = match pass(&spool, stop) {
            Ok(report) => {
                tell(&report);
                interval
            }
            Err(error) => {
                warn!(%error, "cannot compress overview; it stays as it is, and is tried again in ten minutes");
                RETRY_INTERVAL
            }
        };
    }
}

fn pass(spool: &Spool, stop: &AtomicBool) -> io::Result<PackReport> {
    let now = Instant::now();
    let (mut feed, mut pace) =
        (FeedRate::of_journal(FEED_INTERVAL, spool.ticket().position(), now), WorkPace::new(now));
    spool.overview().pack(&mut |took| {
        pace.worked(took, TimeShare::TENTH);
        let mut goes_on = rest(stop, pace.rest(Instant::now(), TimeShare::TENTH));
        while goes_on && feed.is_busy(spool.ticket().position(), Instant::now()) {
            goes_on = rest(stop, FEED_INTERVAL);
        }
        goes_on
    })
}

/// Waits; returns false if the thread is to stop.
fn rest(stop: &AtomicBool, time: Duration) -> bool {
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let stops = stop.load(Ordering::Acquire);
        if stops || left.is_zero() {
            return !stops;
        }
        thread::park_timeout(left);
    }
}

fn tell(report: &PackReport) {
    if report.damaged > 0 {
        let blocks = report.damaged;
        warn!(blocks, "overview is damaged and was not compressed; `newsreel verify --repair` rebuilds it");
    }
    if report.blocks > 0 {
        let (from, to) = (about_size(report.plain_bytes), about_size(report.packed_bytes));
        debug!(blocks = report.blocks, "overview compressed from {from} to {to}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spool::ChangeMaker as _;

    /// Files `articles` in one group; the text before the Message-ID is identical in all.
    fn file(spool: &Spool, articles: std::ops::Range<u64>) {
        for n in articles {
            let id = format!("<{n}@packing.example>");
            let wire = format!("Message-ID: {id}\r\n\r\n");
            let fields = netnews::overview_row::OverviewFields {
                subject: b"the same subject again and again",
                from: b"A Person <person@packing.example>",
                date: b"Sat, 21 Nov 2026 10:00:00 +0000",
                message_id: id.as_bytes(),
                references: b"",
                bytes: 100,
                lines: 1,
            };
            let article = spool::NewArticle {
                key: None,
                message_id: id.as_bytes(),
                pieces: &[wire.as_bytes()],
                header_bytes: wire.len(),
                message_id_at: 12,
                groups: spool::ArticleGroups::Named(&[b"local.test"]),
                numbers: &[],
                fields,
                arrived: 1_795_000_000,
                expires: None,
                criteria: spool::Criteria::default(),
                tagged: spool::TaggedFields::default(),
            };
            let outcome = spool.commit_one(spool::Change::Article(article)).unwrap();
            assert!(matches!(outcome, spool::ChangeOutcome::Filed(_)), "{outcome:?}");
        }
    }

    #[test]
    fn thread_compresses_until_it_is_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let text = "[site]\ncompress_overview_after = \"0 s\"\n[[buffer]]\nname = \"b\"\npath = \"b.cyc\"\nsize = \"1 MiB\"\n\
                    [[class]]\nname = \"c\"\nbuffers = [\"b\"]\n[[rule]]\nclass = \"c\"\n";
        let mut config = site_config::parse(text, &dir.path().join("newsreel.toml")).unwrap().spool_config();
        assert_eq!(config.overview_cold_secs, 0);
        config.overview = spool::OverviewShape { block_text_bytes: 2048, segment_bytes: 16 << 10 };
        let (spool, _) = Spool::open(Arc::new(disk::RealDisk::new()), config, &()).unwrap();
        let spool = Arc::new(spool);
        let group = spool::NewGroup { name: "local.test".into(), ..spool::NewGroup::default() };
        spool.add_groups(&[group]).unwrap();
        file(&spool, 0..300);
        let plain = spool.meter().status().unwrap().overview_bytes;
        let packing = OverviewPacker::start_every(&spool, Duration::from_millis(5)).unwrap();
        let began = Instant::now();
        while spool.meter().status().unwrap().overview_bytes * 2 > plain {
            assert!(began.elapsed() < Duration::from_secs(60), "{plain} bytes and not less");
            thread::sleep(Duration::from_millis(5));
        }
        packing.end();
        assert_eq!(Arc::strong_count(&spool), 1);
        spool.close().unwrap();
    }
}
