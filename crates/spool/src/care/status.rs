//! The state of the spool in numbers, for `newsreel status` and metrics.

use crate::base::clock::unix_now;
use crate::base::error::Trouble;
use crate::method::{Volume, rates};
use crate::spool::Spool;
use std::io;

/// One volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferStatus {
    /// Its name.
    pub name: String,
    /// Its method's name.
    pub method: &'static str,
    /// Room for records, in bytes.
    pub area_bytes: u64,
    /// Bytes between the oldest living record and the write position.
    pub used_bytes: u64,
    /// Times wrapped, from 1 (CNFS cycle number).
    pub cycle: u64,
    /// Offset of the write position in the area.
    pub free: u64,
    /// Arrival of the oldest living article, Unix seconds.
    pub oldest_arrival: Option<u64>,
    /// Bytes written in the last hour.
    pub written_hour_bytes: u64,
    /// Bytes written in the last day.
    pub written_day_bytes: u64,
    /// Bytes that a record takes beyond its article, on average over the last ones: header, padding and usage
    /// bits.
    pub record_overhead_bytes: Option<u64>,
}

/// A volume that keeps its articles until they are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptStatus {
    /// Its name, which is that of its class.
    pub name: String,
    /// Its method's name.
    pub method: &'static str,
    /// Articles in it; cancelled ones are counted until expiry has passed them.
    pub articles: u64,
    /// Bytes of those articles as stored.
    pub bytes: u64,
    /// It accepts no more for now.
    pub full: bool,
    /// Arrival of the oldest, Unix seconds.
    pub oldest_arrival: Option<u64>,
    /// Bytes of those that arrived in the last hour.
    pub written_hour_bytes: u64,
    /// Bytes of those that arrived in the last day.
    pub written_day_bytes: u64,
    /// Bytes that it has room for, those in it included: of the files it may have, or on its file system.
    pub room_bytes: u64,
}

/// One storage class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// Its method's name.
    pub method: &'static str,
    /// Names of the buffers it writes to.
    pub buffers: Vec<String>,
    /// Articles that went to its overflow since the start, as they would have displaced what is to stay.
    pub spilled: u64,
    /// Articles not stored since the start, as neither it nor an overflow could take them.
    pub turned_away: u64,
}

/// The whole spool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Classes, in the order of the configuration.
    pub classes: Vec<ClassStatus>,
    /// Volumes, in the order of the configuration.
    pub buffers: Vec<BufferStatus>,
    /// Volumes that keep.
    pub kept: Vec<KeptStatus>,
    /// Groups carried.
    pub groups: u64,
    /// Living articles.
    pub articles: u64,
    /// Message-IDs known.
    pub history_entries: u64,
    /// Bytes of history files.
    pub history_bytes: u64,
    /// Bytes of overview segments.
    pub overview_bytes: u64,
    /// Bytes of residents files.
    pub residents_bytes: u64,
    /// Bytes of both copies of the last checkpoint.
    pub checkpoint_bytes: u64,
    /// Bytes of journal kept.
    pub journal_bytes: u64,
    /// Journal rows that a crash now would replay.
    pub rows_to_replay: u64,
    /// Why nothing is accepted at the moment.
    pub trouble: Option<Trouble>,
}

impl Spool {
    /// The state in numbers.
    pub fn status(&self) -> io::Result<Status> {
        let (current, now) = (self.shared.current.load(), unix_now());
        let writer = &mut *self.writer.lock();
        let mut buffers = Vec::new();
        for (volume, residents) in self.shared.volumes.load().all().iter().zip(&mut writer.folds.residents) {
            if volume.keeps() {
                continue;
            }
            let front = residents.front().unwrap_or_default();
            buffers.push(BufferStatus {
                name: volume.name().to_owned(),
                method: volume.method().name(),
                area_bytes: volume.area(),
                used_bytes: front.map_or(0, |r| volume.head() - r.place),
                cycle: volume.cycle(volume.head()),
                free: volume.offset(volume.head()).unwrap_or_default(),
                oldest_arrival: front.map(|r| u64::from(r.arrived)),
                written_hour_bytes: rates::written_since(&**volume, now.saturating_sub(3_600)),
                written_day_bytes: rates::written_since(&**volume, now.saturating_sub(86_400)),
                record_overhead_bytes: rates::record_overhead(&**volume),
            });
        }
        let volumes = self.shared.volumes.load();
        let lists = volumes.all().iter().zip(&writer.folds.kept);
        let kept = lists.filter_map(|(volume, list)| {
            let list = list.as_ref()?;
            Some(KeptStatus {
                name: volume.name().to_owned(),
                method: volume.method().name(),
                articles: list.entries,
                bytes: list.bytes,
                full: volume.is_full(volume.head()),
                oldest_arrival: list.ages.oldest(),
                written_hour_bytes: list.ages.bytes_since(now.saturating_sub(3_600)),
                written_day_bytes: list.ages.bytes_since(now.saturating_sub(86_400)),
                room_bytes: self.room_bytes(&**volume, list.bytes),
            })
        });
        let kept = kept.collect();
        let classes = current.classes.iter().zip(&writer.classes);
        let classes = classes.map(|(config, class)| ClassStatus {
            name: config.name.clone(),
            method: config.method.name(),
            buffers: class
                .volumes
                .iter()
                .filter_map(|v| volumes.all().get(*v))
                .map(|v| v.name().to_owned())
                .collect(),
            spilled: class.spilled,
            turned_away: class.turned_away,
        });
        Ok(Status {
            classes: classes.collect(),
            kept,
            buffers,
            groups: self.groups().len() as u64,
            articles: self.shared.articles.load(std::sync::atomic::Ordering::Relaxed),
            history_entries: self.shared.history.entries(),
            history_bytes: self.shared.history.log_bytes() + self.shared.history.index_bytes(),
            overview_bytes: writer.folds.segments.bytes(),
            residents_bytes: writer.folds.residents.iter().map(|r| r.bytes()).sum::<u64>()
                + writer.folds.kept.iter().flatten().map(|k| k.file_bytes()).sum::<u64>(),
            checkpoint_bytes: writer.checkpointed.1 * crate::index::checkpoint::NAMES.len() as u64,
            journal_bytes: writer.journal.bytes()?,
            rows_to_replay: writer.rows,
            trouble: self.trouble(),
        })
    }

    /// Bytes that a volume which keeps has room for.
    fn room_bytes(&self, volume: &dyn Volume, used: u64) -> u64 {
        let current = self.shared.current.load();
        let class = current.classes.iter().find(|c| c.name == volume.name());
        let free = || Some(self.shared.disk.file_system(&class?.tree.path).ok()?.free_bytes);
        volume.bytes_max().unwrap_or_else(|| used.saturating_add(free().unwrap_or(0)))
    }
}
