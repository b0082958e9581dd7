//! The state of the spool in numbers: measured every few seconds, reported at any time.

use crate::index::checkpoint;
use crate::index::fold::SharedIndexes;
use crate::index::groups::LiveSet;
use crate::index::overview::{GroupOverview, RowEntry};
use crate::open::paths::SpoolPaths;
use crate::write::locked::LockedWriter;
use arc_swap::ArcSwap;
use disk::clock::unix_secs;
use spool_base::config::SpoolConfig;
use spool_base::status::{BufferStatus, ClassStatus, KeptStatus, RowSavings, SpoolMetrics};
use spool_base::token::{MethodKind, Token};
use spool_history::Reservations;
use spool_journal::Readers;
use spool_methods::cnfs::Cycbuff;
use spool_methods::packing::DictionaryStatus;
use spool_methods::{Cyclic, Retained, rates};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Number of overview rows that are made to measure the cost of one.
const ROWS_TRIED: u64 = 256;
/// An overview row of typical length.
const ROW_USUAL: &[u8] = &[b'x'; 300];

/// The state of an open spool in numbers.
#[derive(Debug, Clone, Copy)]
pub struct SpoolMeter<'s> {
    shared: &'s SharedIndexes,
    writer: &'s LockedWriter,
    readers: &'s Readers,
    offers: &'s Reservations,
    /// Latest result of [`SpoolMeter::measure`].
    measured: &'s ArcSwap<SpoolMetrics>,
}

impl<'s> SpoolMeter<'s> {
    pub(crate) fn new(
        shared: &'s SharedIndexes,
        writer: &'s LockedWriter,
        readers: &'s Readers,
        offers: &'s Reservations,
        measured: &'s ArcSwap<SpoolMetrics>,
    ) -> Self {
        Self { shared, writer, readers, offers, measured }
    }

    /// Returns the state in numbers, measured now: reads the disk, without blocking commits.
    pub fn status(&self) -> io::Result<SpoolMetrics> {
        self.measure()?;
        Ok(self.report())
    }

    /// Returns the state in numbers, without the writer's lock and without reading the disk: counters in
    /// memory as of now, the rest as of [`SpoolMetrics::measured`].
    pub fn report(&self) -> SpoolMetrics {
        let (measured, sync) = (self.measured.load(), self.writer.sync());
        SpoolMetrics {
            groups: self.shared.groups.table().sorted().len() as u64,
            articles: self.shared.articles.load(Ordering::Relaxed),
            hidden: self.shared.hidden.count() as u64,
            history_entries: self.shared.history.entries(),
            digest: self.shared.digest(),
            mended_pages: self.shared.mended_pages.load(Ordering::Relaxed),
            passed_over: self.shared.passed_over.load(Ordering::Relaxed),
            unnumbered: self.saved(),
            journal_position: sync.written(),
            undurable_bytes: sync.written().saturating_sub(sync.durable()),
            readers: self.readers.status(),
            offers: self.offers.len() as u64,
            trouble: sync.trouble(),
            ..SpoolMetrics::clone(&measured)
        }
    }

    /// Returns the dictionaries that articles were or are compressed with, oldest first.
    pub fn dictionaries(&self) -> Vec<DictionaryStatus> {
        self.shared.packing.status()
    }

    /// Returns the savings by articles without numbers.
    fn saved(&self) -> Option<RowSavings> {
        let saved = &self.shared.unnumbered;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (articles, rows, overview_bytes) =
            (load(&saved.articles), load(&saved.rows), load(&saved.row_bytes));
        let cost = || u128::from(rows) * row_cost().as_nanos() / u128::from(ROWS_TRIED);
        (articles > 0).then(|| RowSavings { articles, overview_bytes, nanos: cost() as u64 })
    }

    /// Measures the data about volumes, classes and files for [`SpoolMeter::report`]. To be called every few
    /// seconds; reads the disk. The writer's lock is held only to copy the writer's counters.
    pub fn measure(&self) -> io::Result<()> {
        let (current, now) = (self.shared.current.load(), unix_secs());
        let (mut status, journal_end) = self.counted(&current, now);
        let volumes = self.shared.volumes.load();
        status.buffers = volumes.all().iter().filter_map(|v| v.cyclic()).map(|v| measured(v, now)).collect();
        for kept in &mut status.kept {
            if let Some(volume) = volumes.retained().find(|volume| volume.name() == kept.name) {
                kept.room_bytes = self.room_bytes(&current, volume, kept.bytes);
            }
        }
        status.history_bytes = self.shared.history.log_bytes() + self.shared.history.index_bytes();
        let files =
            spool_journal::starts(&*self.shared.disk, &SpoolPaths::new(&self.shared.config.dir).journal)?;
        status.journal_bytes = files.first().map_or(0, |start| journal_end.saturating_sub(*start));
        status.measured = now;
        self.measured.store(Arc::new(status));
        Ok(())
    }

    /// Returns the writer's counters, and the end of the journal, without reading the disk.
    fn counted(&self, current: &SpoolConfig, now: u64) -> (SpoolMetrics, u64) {
        let writer = &mut *self.writer.lock();
        let volumes = self.shared.volumes.load();
        let lists = volumes.all().iter().zip(&writer.folds.kept);
        let kept = lists.filter_map(|(volume, list)| {
            let list = list.as_ref()?;
            Some(KeptStatus {
                name: volume.name().to_owned(),
                method: volume.method().name(),
                articles: list.entries,
                bytes: list.bytes,
                full: volume.retained().is_some_and(|v| v.is_full(v.head())),
                oldest_arrival: list.ages.oldest(),
                written_hour_bytes: list.ages.bytes_since(now.saturating_sub(3_600)),
                written_day_bytes: list.ages.bytes_since(now.saturating_sub(86_400)),
                room_bytes: 0,
            })
        });
        let kept = kept.collect();
        let named = |volume: &usize| volumes.all().get(*volume).map(|volume| volume.name().to_owned());
        let classes = current.classes.iter().zip(&writer.classes);
        let classes = classes.map(|(config, class)| ClassStatus {
            name: config.name.clone(),
            method: config.method.name(),
            buffers: class.volumes.iter().filter_map(named).collect(),
            spilled: class.spilled,
            turned_away: class.turned_away,
            overwritten_early: writer.folds.rings.early(&config.name),
        });
        let status = SpoolMetrics {
            classes: classes.collect(),
            kept,
            overview_bytes: writer.folds.segments.bytes(),
            residents_bytes: writer.folds.residents.iter().map(|r| r.bytes()).sum::<u64>()
                + writer.folds.kept.iter().flatten().map(|k| k.file_bytes()).sum::<u64>(),
            checkpoint_bytes: writer.checkpointed.1 * checkpoint::NAMES.len() as u64,
            rows_to_replay: writer.rows,
            released_bytes: writer.behind.released_bytes(),
            ..SpoolMetrics::default()
        };
        (status, writer.journal.end())
    }

    /// Returns the capacity in bytes of a volume of retained articles.
    fn room_bytes(&self, current: &SpoolConfig, volume: &dyn Retained, used: u64) -> u64 {
        let class = current.classes.iter().find(|c| c.name == volume.name());
        let free = || Some(self.shared.disk.file_system(&class?.tree.path).ok()?.free_bytes);
        volume.bytes_max().unwrap_or_else(|| used.saturating_add(free().unwrap_or(0)))
    }
}

/// Returns the cost of [`ROWS_TRIED`] numbers and their overview rows, measured once, in memory.
fn row_cost() -> Duration {
    static COST: OnceLock<Duration> = OnceLock::new();
    *COST.get_or_init(|| {
        let (mut overview, mut live) = (GroupOverview::default(), LiveSet::default());
        let token = Token { method: MethodKind::Memory, class: 0, volume: 0, place: 0 };
        let began = Instant::now();
        for number in 1..=ROWS_TRIED {
            let entry = RowEntry { number, end: 0, token, arrived: 0 };
            overview.push(entry, ROW_USUAL.len(), |text| text.extend_from_slice(ROW_USUAL));
            live.insert(number);
        }
        began.elapsed()
    })
}

/// Measures a volume that displaces its oldest articles, from its newest and oldest records.
fn measured(volume: &dyn Cyclic, now: u64) -> BufferStatus {
    let oldest = rates::oldest(volume);
    let makeup = rates::makeup(volume);
    BufferStatus {
        name: volume.name().to_owned(),
        method: volume.method().name(),
        size_bytes: volume.as_cycbuff().map_or(volume.area(), Cycbuff::file_bytes),
        area_bytes: volume.area(),
        used_bytes: oldest.map_or(0, |(place, _)| volume.head().saturating_sub(place)),
        cycle: volume.cycle(volume.head()),
        free: volume.offset(volume.head()).unwrap_or_default(),
        oldest_arrival: oldest.map(|(_, arrived)| u64::from(arrived)),
        written_hour_bytes: rates::written_since(volume, now.saturating_sub(3_600)),
        written_day_bytes: rates::written_since(volume, now.saturating_sub(86_400)),
        record_overhead_bytes: rates::record_overhead(volume),
        compressed_share: makeup.map(|makeup| makeup.compressed),
        holes_share: makeup.map(|makeup| makeup.holes),
    }
}
