//! Reports: taken without the writer's lock and without the disk.

use crate::news::{News, add_groups, commit, config, open, wait_until};
use disk::{CrashKind, Disk, SimDisk};
use spool::{ChangeMaker as _, NewGroup, SpoolMetrics};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Groups of a large site.
const GROUPS: u64 = 3_000;
/// Only a test that fails waits for so long.
const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn a_report_needs_neither_the_writer_nor_the_disk() {
    let sim = Arc::new(SimDisk::new());
    let disk: Arc<dyn Disk> = sim.clone();
    let (spool, _) = open(&disk, &config("/s", &[("a", 400_000)]));
    add_groups(&spool, GROUPS);
    let news: Vec<_> = (0..20).map(|n| News::new(n, GROUPS, 1)).collect();
    commit(&spool, &news).unwrap();
    let unmeasured = spool.meter().report();
    assert_eq!((unmeasured.measured, unmeasured.articles, unmeasured.groups), (0, 20, GROUPS));
    assert!(unmeasured.buffers.is_empty());
    spool.meter().measure().unwrap();
    let before = spool.meter().report();
    assert!(before.measured > 0 && before.buffers[0].used_bytes > 0 && before.journal_bytes > 0);
    assert!(before.buffers[0].record_overhead_bytes.is_some() && before.rows_to_replay > 0);
    // A report would wait for rows that are not durable yet, without the lock.
    spool.settle().unwrap();
    // The writer waits for the disk, with its lock.
    sim.hold_syncs(true);
    std::thread::scope(|scope| {
        let group = NewGroup { name: "late.group".into(), ..NewGroup::default() };
        let adding = scope.spawn(|| spool.add_groups(&[group]));
        wait_until("the writer is busy", || spool.try_apply(0, &[], &mut Vec::new()).is_none());
        let (reported, reports) = mpsc::channel();
        let asked = &spool;
        scope.spawn(move || reported.send(asked.meter().report()).unwrap());
        let report = reports.recv_timeout(DEADLINE);
        sim.hold_syncs(false);
        assert_eq!(adding.join().unwrap().unwrap(), 1);
        let report = report.expect("the report waited for the writer");
        assert_eq!(
            (report.articles, &report.buffers, &report.classes),
            (20, &before.buffers, &before.classes)
        );
    });
    // From here on every call to the disk fails.
    let steady = |status| SpoolMetrics { trouble: None, journal_position: 0, undurable_bytes: 0, ..status };
    let before = steady(spool.meter().report());
    sim.crash_at(sim.steps(), CrashKind::Kill, 1);
    let late = NewGroup { name: "later.group".into(), ..NewGroup::default() };
    assert!(spool.add_groups(&[late]).is_err() && sim.crashed());
    assert!(spool.meter().measure().is_err());
    assert_eq!(steady(spool.meter().report()), before);
}
