//! Ids of another server: remembered by id or by INN's hash, as long as others, through anything.

use crate::news::*;
use disk::{CrashKind, Disk, SimDisk};
use spool::{ArticleIdent, ChangeMaker as _, ImportedIdOutcome, Spool, inn_hash, rebuild};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

const DAY: u64 = 86_400;

fn is_known(spool: &Spool, id: &str) -> bool {
    spool.are_known(&[spool.key(id.as_bytes())], &[id.as_bytes()]) == [true]
}

#[test]
fn moved_ids_are_known_as_long_as_others_through_restart_and_rebuild() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut config = config("/s", &[("a", 1 << 20)]);
    config.remember_secs = 11 * DAY;
    let (spool, _) = open(&disk, &config);
    let hashed = |id: &str| ArticleIdent::InnHash(inn_hash(id.as_bytes()));
    let ids = [
        (ArticleIdent::Id(b"<id@x>"), now() - 5 * DAY),
        (hashed("<hash@x>"), now() - 4 * DAY),
        (hashed("<old@x>"), now() - 20 * DAY),
        (hashed("<ahead@x>"), now() + 20 * DAY),
    ];
    use ImportedIdOutcome::*;
    assert_eq!(spool.remember_moved(&ids).unwrap(), [Remembered, Remembered, Old, Remembered]);
    assert_eq!(spool.remember_moved(&ids).unwrap(), [Known, Known, Old, Known]);
    let check = |spool: &Spool, what: &str| {
        let known = ["<id@x>", "<hash@X>", "<old@x>", "<ahead@x>", "<other@x>"].map(|id| is_known(spool, id));
        assert_eq!(known, [true, true, false, true, false], "{what}");
    };
    check(&spool, "at once");
    spool.close().unwrap();
    drop(spool);
    let (spool, _) = open(&disk, &config);
    check(&spool, "after a restart");
    spool.close().unwrap();
    drop(spool);
    rebuild(disk.clone(), config.clone(), &()).unwrap();
    let (spool, _) = open(&disk, &config);
    check(&spool, "after a rebuild");
    spool.close().unwrap();
    drop(spool);
}

#[test]
fn ids_are_not_hashed_any_more_once_every_hash_is_forgotten() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut config = config("/s", &[("a", 1 << 20)]);
    config.remember_secs = 11 * DAY;
    let (spool, _) = open(&disk, &config);
    let hash = ArticleIdent::InnHash(inn_hash(b"<hash@x>"));
    assert_eq!(spool.remember_moved(&[(hash, now() - 4 * DAY)]).unwrap(), [ImportedIdOutcome::Remembered]);
    assert!(spool.is_hash_known(b"<hash@x>"));
    spool.close().unwrap();
    drop(spool);
    config.remember_secs = DAY;
    let (spool, _) = open(&disk, &config);
    assert!(!spool.is_hash_known(b"<hash@x>"));
    spool.close().unwrap();
}

/// Hashes that were acknowledged as durable are known after a crash at any point, although a hash is looked
/// up only if its mark is there, too.
#[test]
fn no_crash_forgets_a_hash_that_was_durable() {
    const PARTS: usize = 4;
    const IDS: usize = 300;
    let config = config("/s", &[("a", 1 << 20)]);
    let ids = |part: usize| (0..IDS).map(move |n| format!("<{part}.{n}@x>"));
    let run = |sim: &SimDisk, done: &mut usize| -> TestResult {
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let (spool, _) = Spool::open(disk, config.clone(), &())?;
        for part in 0..PARTS {
            let hash = |id: String| (ArticleIdent::InnHash(inn_hash(id.as_bytes())), now() - DAY);
            let moved: Vec<_> = ids(part).map(hash).collect();
            spool.remember_moved(&moved)?;
            spool.sync()?;
            *done = part + 1;
        }
        Ok(spool.close()?)
    };
    let whole = SimDisk::new();
    run(&whole, &mut 0).unwrap();
    let steps = whole.steps();
    for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
        let tried = crashed_at((0..steps).step_by(crash_every(9)), kind, run, |image, done: &usize, what| {
            let disk: Arc<dyn Disk> = Arc::new(image);
            let (spool, _) = Spool::open(disk, config.clone(), &()).unwrap_or_else(|e| panic!("{what}: {e}"));
            for id in (0..*done).flat_map(ids) {
                assert!(is_known(&spool, &id), "{what}: {id} of {done} parts");
            }
            assert!(!is_known(&spool, "<other@x>"), "{what}");
            spool.close().unwrap();
        });
        assert!(tried > 3, "{tried} crashes");
    }
}
