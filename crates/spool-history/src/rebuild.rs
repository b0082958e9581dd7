//! Builds the index from the log, and tests whether an index matches a log.
//!
//! Each thread reads the whole log and inserts only the records of its own shards. Each shard therefore has
//! one writer, its records come in order, and nothing is shared.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::index::{HistoryIndex, IndexReader};
use super::log::{HistoryLog, LogSegments};
use super::record::raw_key_bits;
use disk::Progress;
use spool_base::key::ArticleKey;

const THREADS: usize = 2;
/// Progress is reported after this many records.
const RECORDS_PER_STEP: u64 = 1 << 16;
/// Records whose buckets are fetched together.
const RECORDS_PER_BATCH: usize = 64;
/// Records that are sorted together, at 32 bytes each.
const RECORDS_PER_SORT: u64 = 1 << 19;
/// Records that an index of the same boot must find before it is trusted.
const SAMPLES: u64 = 1024;

/// Inserts all records of the log into an empty index. Returns false if a record found no slot.
pub(super) fn fill(
    index: &HistoryIndex,
    log: &HistoryLog,
    living: &Range<u64>,
    progress: &dyn Progress,
) -> bool {
    let segments = log.snapshot();
    progress.start("building the history index", living.end - living.start);
    let done = AtomicU64::new(0);
    let fill_part = |part| {
        fill_shards(index, &segments, living, part, &|records| {
            let all = done.fetch_add(records, Ordering::Relaxed) + records;
            progress.step(all / THREADS as u64);
        })
    };
    let filled = std::thread::scope(|scope| {
        let others: Vec<_> = (1..THREADS).map(|part| scope.spawn(move || fill_part(part))).collect();
        let first = fill_part(0);
        others.into_iter().fold(first, |all, other| all & other.join().unwrap_or(false))
    });
    progress.finish();
    filled
}

/// Inserts the records whose shard number leaves `part` when divided by the number of threads.
fn fill_shards(
    index: &HistoryIndex,
    log: &LogSegments,
    living: &Range<u64>,
    part: usize,
    step: &dyn Fn(u64),
) -> bool {
    let mut batch = Vec::with_capacity(RECORDS_PER_BATCH);
    let mut reader = index.reader();
    let mut from = living.start;
    while from < living.end {
        let to = living.end.min(from + RECORDS_PER_STEP);
        for number in from..to {
            // A record that fails its check still gets a slot: a cancel may have been cut off, and the
            // journal's replay must find the record. Look-ups do not believe it.
            let Some(key) = log.read(number).map(|words| ArticleKey(raw_key_bits(&words))) else { continue };
            if index.place(&key).0 % THREADS == part {
                batch.push((key, number));
            }
            if batch.len() == RECORDS_PER_BATCH && !insert_batch(&mut reader, &mut batch, living) {
                return false;
            }
        }
        step(to - from);
        from = to;
    }
    insert_batch(&mut reader, &mut batch, living)
}

/// Enters the records from `from` on, whose slots may be missing in the index files, page by page. Returns
/// false if one found no slot.
pub(super) fn fill_rest(index: &HistoryIndex, log: &HistoryLog, living: &Range<u64>, from: u64) -> bool {
    let (segments, mut reader, mut start) = (log.snapshot(), index.reader(), from);
    while start < living.end {
        let end = living.end.min(start + RECORDS_PER_SORT);
        let key = |number| segments.read(number).map(|words| (ArticleKey(raw_key_bits(&words)), number));
        let mut records: Vec<(ArticleKey, u64)> = (start..end).filter_map(key).collect();
        // The places of keys are in the order of the keys.
        records.sort_unstable_by_key(|(key, _)| key.0);
        if !records.iter().all(|(key, number)| reader.insert(key, *number, living)) {
            return false;
        }
        start = end;
    }
    true
}

/// Inserts the records in order. Their buckets are prefetched, so that the processor waits for memory once
/// for many and not for each.
fn insert_batch(
    index: &mut IndexReader<'_>,
    batch: &mut Vec<(ArticleKey, u64)>,
    living: &Range<u64>,
) -> bool {
    std::hint::black_box(batch.iter().fold(0, |all, (key, _)| all ^ index.touch(key)));
    batch.drain(..).all(|(key, number)| index.insert(&key, number, living))
}

/// Reports whether the index finds records all over the log, including the newest.
pub(super) fn goes_with(index: &HistoryIndex, log: &HistoryLog, living: &Range<u64>) -> bool {
    let count = living.end - living.start;
    let samples = SAMPLES.min(count);
    (1..=samples).all(|n| {
        let number = living.start + (u128::from(count) * u128::from(n) / u128::from(samples)) as u64 - 1;
        let Some(words) = log.read(number) else { return false };
        let key = ArticleKey(raw_key_bits(&words));
        index.reader().find(&key, living, |candidate| (candidate == number).then_some(())).is_some()
    })
}
