//! Memory that quiet groups do not need is given back, and nothing else changes.

use crate::news::*;
use disk::{Disk, SimDisk};
use spool::*;
use std::sync::Arc;

const GROUPS: u64 = 12;

fn resting_config() -> SpoolConfig {
    let mut config = config("/s", &[("a", 400_000), ("b", 400_000)]);
    config.durability = Durability::Process;
    config.overview = OverviewShape { block_text_bytes: 4096, segment_bytes: 64 << 10 };
    config
}

fn feed(spool: &Spool, numbers: std::ops::Range<u64>) {
    for n in numbers.step_by(10) {
        commit(spool, &(n..n + 10).map(|n| News::new(n, GROUPS, 600)).collect::<Vec<_>>()).unwrap();
    }
}

#[test]
fn blocks_of_quiet_groups_are_written_and_read_as_before() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (mut spool, _) = open(&disk, &resting_config());
    add_groups(&spool, GROUPS);
    for round in 0..6 {
        feed(&spool, round * 300..(round + 1) * 300);
        // Else one that the start or the feed has begun may write beside what is counted.
        spool.checkpoint().unwrap();
        let (before, steps) = (agree(&spool), sim.steps());
        spool.overview().rest(3600);
        assert_eq!(sim.steps(), steps, "groups were not quiet");
        spool.overview().rest(0);
        assert!(sim.steps() > steps, "nothing was written in round {round}");
        assert!(agree(&spool) == before);
        let steps = sim.steps();
        spool.overview().rest(0);
        assert_eq!(sim.steps(), steps, "what rests already was written again");
        if round % 2 == 1 {
            // As after a kill, and after an end in order.
            if round == 3 {
                spool.close().unwrap();
            }
            drop(spool);
            spool = open(&disk, &resting_config()).0;
            assert!(agree(&spool) == before);
        }
    }
    assert_eq!(spool.verifier().verify(&()).findings, []);
}

#[test]
fn a_full_disk_leaves_blocks_open_and_articles_where_they_are() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = open(&disk, &resting_config());
    add_groups(&spool, GROUPS);
    feed(&spool, 0..300);
    let before = agree(&spool);
    // Else the one that the start has begun may meet the full disk.
    spool.checkpoint().unwrap();
    sim.fill_at(sim.steps());
    spool.overview().rest(0);
    assert!(agree(&spool) == before);
    assert!(spool.trouble().is_none(), "{:?}", spool.trouble());
    sim.free();
    spool.overview().rest(0);
    feed(&spool, 300..600);
    assert!(agree(&spool).len() > before.len());
    assert_eq!(spool.verifier().verify(&()).findings, []);
    spool.close().unwrap();
}
