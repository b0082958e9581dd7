//! Memory is given back after a busy feed, on a real file system, and nothing else changes.

use crate::news::*;
use disk::{Disk, OpenMode, RealDisk};
use spool::*;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn what_was_given_back_is_read_from_the_disk_and_outlives_a_kill() {
    let dir = std::env::temp_dir().join(format!("newsreel-hot-{}", std::process::id()));
    let config = SpoolConfig {
        durability: Durability::Process,
        hot_memory: HotMemory {
            bytes: 64 << 10,
            step_bytes: 16 << 10,
            busy_step: Duration::MAX,
            slow_step: Duration::ZERO,
        },
        ..config(dir.to_str().unwrap(), &[("a", 400_000), ("b", 400_000)])
    };
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 5);
    let mut next = 0;
    // Past the end of both buffers.
    for _ in 0..4 {
        for _ in 0..6 {
            let news: Vec<News> = (next..next + 40).map(|n| News::new(n, 5, 1500)).collect();
            commit(&spool, &news).unwrap();
            next += 40;
        }
        // The kernel gives back only memory whose bytes are on the medium.
        spool.sync().unwrap();
        let id = News::new(next - 1, 5, 1500).id;
        assert!(spool.cancel(id.as_bytes()).unwrap());
        agree(&spool);
    }
    let buffer = disk.open(&config.buffers[0].path, OpenMode::ReadOnly).unwrap();
    if buffer.is_in_memory() {
        assert_eq!(spool.meter().status().unwrap().released_bytes, 0);
    } else {
        wait_until("nothing is given back", || spool.meter().status().unwrap().released_bytes > 800_000);
    }
    let before = agree(&spool);
    assert!(before.len() > 200, "{}", before.len());
    // As a kill.
    drop(spool);
    let (spool, recovery) = open(&disk, &config);
    assert!(recovery.crashed && !recovery.power_lost, "{recovery}");
    assert_eq!(agree(&spool), before);
    spool.close().unwrap();
    let _left = std::fs::remove_dir_all(&dir);
}
