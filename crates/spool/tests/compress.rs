//! Classes that store compressed: exact bytes through wraps, restarts, rebuilds; dictionaries lost and found.

use crate::news::*;
use disk::{Disk, OpenMode, ReadMode, SimDisk};
use spool::*;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const DIR: &str = "/s/dictionaries";

fn packed_config(samples: u32) -> SpoolConfig {
    let mut config = config("/s", &[("a", 100_000), ("b", 100_000)]);
    config.classes[0].compress = Some(CompressConfig { level: 6, samples });
    config.buffers.iter_mut().for_each(|b| b.block_bytes = 64);
    config.checkpoint_rows = 300;
    config
}

fn batch(from: u64, n: u64) -> Vec<News> {
    (from..from + n).map(|n| News::new(n, 5, 1500)).collect()
}

/// Stores as many articles as the dictionary is trained from, and waits for it: what came meanwhile would
/// displace them.
fn train(spool: &Spool, samples: u64) {
    commit(spool, &batch(0, samples)).unwrap();
    let began = Instant::now();
    while spool.meter().dictionaries().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "no dictionary after {samples} articles");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn exact(spool: &Spool, below: u64) -> usize {
    let read = |n: u64| {
        let news = News::new(n, 5, 1500);
        fetch(spool, &news.id).inspect(|wire| assert!(*wire == news.wire, "{} has other bytes", news.id))
    };
    (0..below).filter_map(read).count()
}

#[test]
fn exact_bytes_through_wraps_restarts_and_rebuilds() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let config = packed_config(100);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 5);
    train(&spool, 100);
    // It is listed a moment before it is used; from a start on it is used at once.
    spool.close().unwrap();
    drop(spool);
    let (spool, _) = open(&disk, &config);
    let mut n = 100;
    for _ in 0..60 {
        commit(&spool, &batch(n, 25)).unwrap();
        n += 25;
    }
    assert!(
        spool.meter().status().unwrap().buffers.iter().all(|b| b.cycle >= 2),
        "{:?}",
        spool.meter().status().unwrap().buffers
    );
    let there = exact(&spool, n);
    assert!(there > 300, "only {there} articles in 180 KB");
    let named = agree(&spool);
    assert_eq!(spool.verifier().verify(&()).findings, []);
    let Lookup::Present(token) = spool.lookup(&spool.key(News::new(n - 1, 5, 1500).id.as_bytes())) else {
        panic!()
    };
    let told = spool.tokens().explain(&token, None);
    assert!(
        told.alive && told.lines.iter().any(|(label, text)| *label == "compressed" && text.contains("from"))
    );
    assert_eq!(spool.cancel(News::new(n - 2, 5, 1500).id.as_bytes()), Ok(true));
    drop(spool);

    let (spool, recovery) = open(&disk, &config);
    assert!(recovery.crashed);
    assert_eq!(exact(&spool, n), there - 1);
    let named_now = agree(&spool);
    assert!(named_now.len() < named.len());
    spool.close().unwrap();
    drop(spool);
    rebuild(disk.clone(), config.clone(), &()).unwrap();

    // Switched off, what is stored stays readable; what comes is stored as it is.
    let off =
        SpoolConfig { classes: vec![ClassConfig { compress: None, ..config.classes[0].clone() }], ..config };
    let (spool, _) = open(&disk, &off);
    assert_eq!(agree(&spool), named_now);
    assert_eq!(exact(&spool, n), there - 1);
    commit(&spool, &batch(n, 10)).unwrap();
    assert!(spool.try_apply(NOW, &[], &mut Vec::new()).is_some());
    assert!(exact(&spool, n + 10) > there / 2);
    assert_eq!(spool.verifier().verify(&()).findings, []);
}

#[test]
fn a_lost_dictionary_costs_only_its_articles() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim);
    let config = packed_config(60);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 5);
    let n = 60;
    train(&spool, n);
    // It is listed a moment before it is used; from a start on it is used at once.
    spool.close().unwrap();
    drop(spool);
    let (spool, _) = open(&disk, &config);
    commit(&spool, &batch(n, 20)).unwrap();
    let all = exact(&spool, n + 20);
    assert_eq!(all as u64, n + 20);
    spool.close().unwrap();
    drop(spool);
    let files: Vec<PathBuf> =
        disk.list(Path::new(DIR)).unwrap().iter().map(|f| Path::new(DIR).join(f)).collect();
    assert_eq!(files.len(), 2, "{files:?}");

    // One copy: nothing is lost, and the next start writes it again.
    let before = disk.open(&files[1], OpenMode::Existing).unwrap();
    let mut byte = [0];
    before.read_at(&mut byte, 700).unwrap();
    before.write_all_at(&[IoSlice::new(&[byte[0] ^ 1])], 700).unwrap();
    let (spool, _) = open(&disk, &config);
    assert_eq!(exact(&spool, n + 20), all);
    assert_eq!(spool.verifier().verify(&()).findings, []);
    disk.remove(&files[0]).unwrap();
    let found = spool.verifier().verify(&()).findings;
    assert!(found.len() == 1 && found[0].what.contains("nothing is lost"), "{found:?}");
    assert_eq!(spool.repairer().repair(false, &()).repaired.len(), 1);
    assert_eq!(spool.verifier().verify(&()).findings, []);
    spool.close().unwrap();
    drop(spool);

    // Both: the articles that need it cannot be read, and it is said why; the others can.
    let saved = disk.open(&files[1], OpenMode::ReadOnly).unwrap();
    let mut bytes = vec![0; saved.len().unwrap() as usize];
    saved.read_exact_at(&mut bytes, 0).unwrap();
    files.iter().for_each(|f| drop(disk.remove(f)));
    let (spool, _) = open(&disk, &config);
    let mut buf = ArticleBuf::default();
    let (mut readable, mut refused) = (0, 0);
    for i in 0..n + 20 {
        let key = spool.key(News::new(i, 5, 1500).id.as_bytes());
        let Lookup::Present(token) = spool.lookup(&key) else { panic!() };
        match spool.read(&token, Some(&key), ReadMode::Wait, &mut buf) {
            Ok(true) => readable += 1,
            Ok(false) => panic!("no such article"),
            Err(e) => {
                assert!(e.to_string().contains("dictionary") && e.to_string().contains("put it back"), "{e}");
                refused += 1;
            }
        }
    }
    assert!(readable >= 60 && refused >= 20, "{readable} {refused}");
    assert!(spool.verifier().verify(&()).findings.len() >= 20);
    spool.close().unwrap();
    drop(spool);
    disk.open(&files[0], OpenMode::Create).unwrap().write_all_at(&[IoSlice::new(&bytes)], 0).unwrap();
    let (spool, _) = open(&disk, &config);
    assert_eq!(exact(&spool, n + 20), all);
}
