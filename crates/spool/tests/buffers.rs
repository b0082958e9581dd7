//! Buffers that change: growing, at opening and while serving, and what a crash leaves of it.

use crate::news::*;
use disk::{Disk, OpenMode, SimDisk};
use spool::*;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

fn disk() -> (SimDisk, Arc<dyn Disk>) {
    let sim = SimDisk::new();
    (sim.clone(), Arc::new(sim))
}

fn feed(spool: &Spool, numbers: std::ops::Range<u64>) -> Vec<News> {
    let news: Vec<News> = numbers.map(|n| News::new(n, 3, 1500)).collect();
    for part in news.chunks(25) {
        let (_, outcomes) = commit(spool, part).unwrap();
        assert!(outcomes.iter().all(|o| matches!(o, ChangeOutcome::Filed(_))), "{outcomes:?}");
    }
    news
}

/// The numbers of the articles that can be read; each must have its own bytes.
fn readable(spool: &Spool, upto: u64) -> Vec<u64> {
    let lives = |n: &u64| {
        let news = News::new(*n, 3, 1500);
        let wire = fetch(spool, &news.id);
        assert!(wire.as_ref().is_none_or(|wire| *wire == news.wire), "{}", news.id);
        wire.is_some()
    };
    (0..upto).filter(lives).collect()
}

#[test]
fn a_buffer_that_grows_keeps_its_articles_and_their_tokens() {
    let (_, disk) = disk();
    let mut config = config("/s", &[("a", 200_000)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 3);
    spool.close().unwrap();
    drop(spool);
    let mut fed = 0;
    for round in 0..5u64 {
        let (spool, _) = open(&disk, &config);
        feed(&spool, fed..fed + 137);
        fed += 137;
        let before = agree(&spool);
        let status = spool.meter().status().unwrap().buffers.remove(0);
        spool.close().unwrap();
        drop(spool);
        let old = config.clone();
        config.buffers[0].size_bytes += 90_000 + round * 7_777;
        let (spool, recovery) = open(&disk, &config);
        assert!(!recovery.crashed && recovery.rows == 0, "{recovery}");
        assert_eq!(agree(&spool), before, "round {round}");
        let grown = spool.meter().status().unwrap().buffers.remove(0);
        assert!(grown.area_bytes > status.area_bytes + 70_000, "{grown:?} {status:?}");
        assert_eq!((grown.cycle, grown.free), (status.cycle, status.free));
        for (_, _, id) in &before {
            let Lookup::Present(token) = spool.lookup(&spool.key(id.as_bytes())) else { panic!("{id}") };
            let text = spool.tokens().text(&token);
            assert_eq!(spool.tokens().parse(&text), Some(Token { class: 0, ..token }), "{text}");
        }
        assert_eq!(spool.verifier().verify(&()).findings, []);
        spool.close().unwrap();
        drop(spool);
        let error = Spool::open(disk.clone(), old, &()).unwrap_err().to_string();
        assert!(error.contains("cannot be made smaller"), "{error}");
    }
    // The last articles live, without a gap, as many as fit.
    let (spool, _) = open(&disk, &config);
    feed(&spool, fed..fed + 1000);
    let alive = readable(&spool, fed + 1000);
    assert!(alive.len() > 300 && alive.windows(2).all(|w| w[1] == w[0] + 1), "{alive:?}");
    assert_eq!(alive.last(), Some(&(fed + 999)));
    let before = agree(&spool);
    spool.close().unwrap();
    drop(spool);
    rebuild(disk.clone(), config.clone(), &()).unwrap();
    let (spool, _) = open(&disk, &config);
    assert_eq!(agree(&spool), before);
}

#[test]
fn a_grown_buffer_without_headers_is_found_again_by_its_third_copy() {
    let (_, disk) = disk();
    let mut config = config("/s", &[("a", 200_000)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 3);
    feed(&spool, 0..300);
    spool.close().unwrap();
    drop(spool);
    config.buffers[0].size_bytes = 400_000;
    let (spool, _) = open(&disk, &config);
    feed(&spool, 300..400);
    let before = agree(&spool);
    spool.close().unwrap();
    drop(spool);
    let file = disk.open(Path::new("/s/a.cyc"), OpenMode::Existing).unwrap();
    file.write_all_at(&[IoSlice::new(b"newsreel cycbuff damaged"), IoSlice::new(&[0xff; 8000])], 0).unwrap();
    let error = Spool::open(disk.clone(), config.clone(), &()).unwrap_err().to_string();
    assert!(error.contains("newsreel rebuild"), "{error}");
    rebuild(disk.clone(), config.clone(), &()).unwrap();
    let (spool, _) = open(&disk, &config);
    assert_eq!(agree(&spool), before);
    feed(&spool, 400..900);
    assert_eq!(spool.verifier().verify(&()).findings, []);
}
