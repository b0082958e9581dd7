//! Write rates of a volume, computed from the arrival times of its articles: without state of their own, so
//! nothing needs to be kept over a restart.
//!
//! Articles lie in the order of their arrival, so the first one after a given time is found by bisection:
//! some thirty headers are read, for any size of the volume. Nothing is locked: articles overwritten
//! meanwhile are not counted. Called by `SpoolMeter::measure`.

use crate::cnfs::record::{HEADER_BYTES, RecordHeader};
use crate::volume::Cyclic;
use disk::ReadMode;

/// Records read to determine the overhead per article.
const SAMPLES_MAX: u64 = 200;
/// Articles read to determine the makeup of a volume.
const MAKEUP_SAMPLES: u64 = 16;
/// Distance from the write position at which the samples begin, in bytes.
const SAMPLE_BYTES: u64 = 512 << 10;

fn header_at(volume: &dyn Cyclic, place: u64) -> Option<RecordHeader> {
    let mut raw = [0; HEADER_BYTES];
    let n = volume.read_at(place, ReadMode::Wait, &mut raw).ok()?;
    let (header, _) = RecordHeader::parse(raw.get(..n)?)?;
    (header.place == place).then_some(header)
}

/// Returns place and arrival (Unix seconds) of the oldest living article; up to [`SAMPLES_MAX`] unreadable
/// headers are skipped.
pub fn oldest(volume: &dyn Cyclic) -> Option<(u64, u32)> {
    let mut place = volume.tail().max(volume.first());
    for _ in 0..SAMPLES_MAX {
        let living = volume.next_living(place)?;
        if let Some(header) = header_at(volume, living) {
            return Some((living, header.arrived));
        }
        place = living + volume.block().max(1);
    }
    None
}

/// Returns the bytes written since a time (Unix seconds) that are still there.
pub fn written_since(volume: &dyn Cyclic, since: u64) -> u64 {
    let head = volume.head();
    let (mut low, mut high) = (volume.tail().max(volume.first()).min(head), head);
    let block = volume.block().max(1);
    while high.saturating_sub(low) > block {
        let middle = low + (high - low) / 2 / block * block;
        let found = volume.next_living(middle).filter(|place| *place < high);
        match found.and_then(|place| Some((place, header_at(volume, place)?))) {
            Some((place, header)) if u64::from(header.arrived) < since => low = place + block,
            _ => high = middle,
        }
    }
    volume.next_living(low).map_or(0, |place| head.saturating_sub(place.min(high.max(low))))
}

/// Returns the bytes that records take beyond their data, on average over the last ones: header, padding, and
/// the usage bits of their blocks; `None` if there are none.
pub fn record_overhead(volume: &dyn Cyclic) -> Option<u64> {
    let (mut bytes, mut bits, mut records) = (0, 0, 0);
    let mut place = volume.head().saturating_sub(SAMPLE_BYTES).max(volume.tail());
    while let Some(header) = volume.next_living(place).and_then(|at| header_at(volume, at)) {
        let padded = volume.padded(header.record_bytes());
        bytes += padded - u64::from(header.data_bytes);
        bits += padded / volume.block().max(1);
        records += 1;
        place = header.place + volume.block();
        if records == SAMPLES_MAX {
            break;
        }
    }
    (records > 0).then(|| (bytes + bits / 8) / records)
}

/// Makeup of a volume, from samples: shares from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VolumeMakeup {
    /// Share of the articles' bytes that is compressed.
    pub compressed: f64,
    /// Share of the bytes from the oldest article to the write position that lies between articles.
    pub holes: f64,
}

/// Estimates the makeup of a volume from a few living articles spread over it, each with the hole behind it.
/// `None`: the volume is empty.
pub fn makeup(volume: &dyn Cyclic) -> Option<VolumeMakeup> {
    let (tail, head) = (volume.tail().max(volume.first()), volume.head());
    let step = head.saturating_sub(tail) / MAKEUP_SAMPLES;
    let (mut living, mut compressed, mut holes) = (0, 0, 0);
    for n in 0..MAKEUP_SAMPLES {
        let Some(header) = volume.next_living(tail + n * step).and_then(|at| header_at(volume, at)) else {
            continue;
        };
        let bytes = volume.padded(header.record_bytes());
        let end = header.place + bytes;
        let next = volume.next_living(end).unwrap_or(head);
        living += bytes;
        compressed += if header.packed { bytes } else { 0 };
        if volume.cycle(end) != volume.cycle(next) {
            // The rest at the end of the area is not a hole.
            continue;
        }
        holes += next.saturating_sub(end);
    }
    let share = |part: u64, all: u64| part as f64 / all as f64;
    (living > 0)
        .then(|| VolumeMakeup { compressed: share(compressed, living), holes: share(holes, living + holes) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryVolume;
    use crate::cnfs::{Cycbuff, record};
    use crate::volume::Volume;
    use disk::SimDisk;
    use spool_base::config::BufferConfig;
    use spool_base::key::ArticleKey;

    #[test]
    fn bytes_written_since_a_time_are_found_by_bisection() {
        let config = BufferConfig {
            name: "a".into(),
            path: "/a".into(),
            size_bytes: 1 << 20,
            block_bytes: 512,
            retired: false,
        };
        let buffer = Cycbuff::create(&SimDisk::new(), &config, 0, &"0".repeat(32)).unwrap();
        assert_eq!((written_since(&buffer, 0), oldest(&buffer), record_overhead(&buffer)), (0, None, None));
        assert_eq!(makeup(&buffer), None);
        // Its write position begins after places that never were.
        assert_eq!(written_since(&MemoryVolume::new(0, "ram", 1 << 20, None), 0), 0);
        let mut places = Vec::new();
        for n in 0..3000u32 {
            let len = 64 + 700 + (n as usize * 37) % 900;
            let place = buffer.plan(buffer.head(), len).unwrap();
            let header = RecordHeader {
                data_bytes: (len - 64) as u32,
                header_bytes: 0,
                place,
                sequence: u64::from(n),
                key: ArticleKey(1),
                arrived: 1000 + n / 3,
                expires: 0,
                message_id_at: 0,
                message_id_bytes: 0,
                class: 0,
                packed: false,
            };
            let mut bytes = Vec::new();
            header.put(&mut bytes);
            bytes.resize(len, b'x');
            record::seal(&mut bytes);
            let end = place + buffer.padded(len);
            buffer.advance(end);
            buffer.write(place, &bytes).unwrap();
            if n % 7 != 3 {
                buffer.mark_alive(place);
            }
            places.push((place, 1000 + u64::from(n) / 3, n % 7 != 3));
        }
        for since in [0, 1500, 1900, 1950, 1999, 2000, 5000] {
            let tail = buffer.tail();
            let first =
                places.iter().find(|(place, arrived, lives)| *place >= tail && *arrived >= since && *lives);
            let expected = first.map_or(0, |(place, _, _)| buffer.head() - place);
            let told = written_since(&buffer, since);
            assert!(told.abs_diff(expected) <= 4096, "{since}: {told} {expected}");
        }
        let first = places.iter().find(|(place, _, lives)| *place >= buffer.tail() && *lives);
        assert_eq!(
            oldest(&buffer).map(|(place, arrived)| (place, u64::from(arrived))),
            first.map(|f| (f.0, f.1))
        );
        assert!((64..64 + 512).contains(&record_overhead(&buffer).unwrap()));
        // Every seventh article is dead.
        let makeup = makeup(&buffer).unwrap();
        assert!(makeup.compressed == 0.0 && (0.02..0.35).contains(&makeup.holes), "{makeup:?}");
    }
}
