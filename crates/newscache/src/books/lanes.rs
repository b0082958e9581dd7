//! Frequent actions of readers, recorded separately for each thread, so that threads that only read do not
//! wait for each other: uses of files, and requests without a group.
//!
//! Uses are passed to the books a few dozen at a time, and before the choice of files to remove. Called by
//! `cache`.

use lock_order::Innermost;
use lock_order::thread_number;

use crate::base::packed::CacheFile;
use crate::books::stats::{CacheAccess, CountsByKind};

/// Number of lanes, shared if there are more threads.
const LANES: usize = 16;
/// Number of uses after which the lane is passed to the books.
const USES: usize = 64;

/// Use of a file, at a time in Unix seconds.
#[derive(Debug)]
pub(crate) struct FileUse {
    pub unit: u32,
    pub file: CacheFile,
    pub now: u64,
}

/// Records of one thread.
#[derive(Debug, Default)]
struct ThreadLane {
    uses: Vec<FileUse>,
    requests: CountsByKind,
}

/// A lane in a processor cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CacheAligned(Innermost<ThreadLane>);

/// All lanes.
#[derive(Debug, Default)]
pub(crate) struct ThreadLanes([CacheAligned; LANES]);

impl ThreadLanes {
    fn of_thread(&self) -> &Innermost<ThreadLane> {
        &self.0[thread_number() % LANES].0
    }

    /// Records a use; returns those that are to be passed to the books now.
    pub fn note(&self, used: FileUse) -> Option<Vec<FileUse>> {
        let mut lane = self.of_thread().lock();
        lane.uses.push(used);
        (lane.uses.len() >= USES).then(|| std::mem::replace(&mut lane.uses, Vec::with_capacity(USES)))
    }

    /// Takes the uses that were not passed to the books.
    pub fn take_uses(&self) -> impl Iterator<Item = Vec<FileUse>> {
        let uses = self.0.iter().map(|lane| std::mem::take(&mut lane.0.lock().uses));
        uses.filter(|uses| !uses.is_empty())
    }

    /// Counts a request without a group.
    pub fn count(&self, access: &CacheAccess<'_>) {
        if let Some(counts) = self.of_thread().lock().requests.get_mut(access.kind as usize) {
            counts.add(access);
        }
    }

    /// Takes the requests that were counted since the last call.
    pub fn take_requests(&self) -> impl Iterator<Item = CountsByKind> {
        self.0.iter().map(|lane| std::mem::take(&mut lane.0.lock().requests))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::stats::RequestKind;

    #[test]
    fn nothing_that_threads_record_is_lost() {
        let lanes = ThreadLanes::default();
        let access = CacheAccess {
            at: 1,
            client: "192.0.2.1",
            kind: RequestKind::Article,
            upstream: "",
            group: b"",
            number: 0,
            id: b"<a@b>",
            cache_bytes: 10,
            upstream_bytes: 0,
            is_hit: true,
        };
        let (threads, each) = (2 * LANES as u32, 1000_u64);
        let told: Vec<FileUse> = std::thread::scope(|scope| {
            let of_thread = |unit| {
                let (lanes, access) = (&lanes, &access);
                scope.spawn(move || {
                    let note = |now| {
                        lanes.count(access);
                        lanes.note(FileUse { unit, file: CacheFile::Large(0), now })
                    };
                    (0..each).filter_map(note).flatten().collect::<Vec<_>>()
                })
            };
            let running: Vec<_> = (0..threads).map(of_thread).collect();
            running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let rest: Vec<FileUse> = lanes.take_uses().flatten().collect();
        assert!(rest.len() < LANES * USES && !rest.is_empty(), "{}", rest.len());
        assert_eq!(told.len() + rest.len(), threads as usize * each as usize);
        assert_eq!(lanes.take_uses().count(), 0);
        let counted: Vec<CountsByKind> = lanes.take_requests().collect();
        let articles = counted.iter().map(|kinds| kinds[RequestKind::Article as usize]);
        let (requests, bytes) = articles.fold((0, 0), |(n, b), of| (n + of.requests, b + of.cache_bytes));
        assert_eq!((requests, bytes), (u64::from(threads) * each, 10 * u64::from(threads) * each));
        assert!(lanes.take_requests().all(|kinds| kinds == CountsByKind::default()));
    }

    #[test]
    fn one_thread_uses_one_lane_in_order() {
        let lanes = ThreadLanes::default();
        let note = |now| lanes.note(FileUse { unit: 1, file: CacheFile::Large(0), now });
        let told: Vec<Vec<FileUse>> = (0..200).filter_map(note).collect();
        let times = |uses: &[FileUse]| uses.iter().map(|used| used.now).collect::<Vec<_>>();
        assert_eq!(told.iter().map(Vec::len).collect::<Vec<_>>(), [USES; 3]);
        assert_eq!(times(&told[2]), (128..192).collect::<Vec<_>>());
        let rest: Vec<Vec<FileUse>> = lanes.take_uses().collect();
        assert_eq!(rest.iter().map(|uses| times(uses)).collect::<Vec<_>>(), [(192..200).collect::<Vec<_>>()]);
    }
}
