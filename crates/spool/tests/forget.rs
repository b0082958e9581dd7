//! Message-IDs that are forgotten: unknown at once, after every crash and after a rebuild, and their articles
//! are taken then.

use crate::news::*;
use disk::{CrashKind, Disk, SimDisk};
use spool::*;
use std::sync::Arc;

const GROUPS: u64 = 2;
const COUNT: u64 = 16;

fn news(n: u64) -> News {
    News::new(n, GROUPS, 500)
}

fn small_config() -> SpoolConfig {
    SpoolConfig { checkpoint_rows: 9, ..config("/s", &[("a", 1 << 17)]) }
}

#[derive(Default)]
struct Told {
    forgotten: Vec<u64>,
}

fn arrived(n: u64) -> u32 {
    (NOW + n) as u32
}

fn lookup(spool: &Spool, n: u64) -> Lookup {
    spool.lookup(&spool.key(news(n).id.as_bytes()))
}

/// Remembers Message-IDs, forgets each other one and files some of those.
fn run(sim: &SimDisk, told: &mut Told) -> TestResult {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = Spool::open(disk, small_config(), &())?;
    let new = |i| NewGroup { name: format!("test.g{i}"), created: NOW, ..NewGroup::default() };
    spool.add_groups(&(0..GROUPS).map(new).collect::<Vec<_>>())?;
    for n in 0..COUNT {
        let key = spool.key(news(n).id.as_bytes());
        let remembered = Change::Remember { id: ArticleIdent::Key(key), arrived: NOW + n };
        spool.commit(&[remembered], &mut Vec::new())?;
        assert!(!spool.forget(&key, arrived(n) + 1)?, "of another time");
        if n % 2 == 0 {
            assert!(spool.forget(&key, arrived(n))?);
            assert_eq!(lookup(&spool, n), Lookup::Unknown);
            if !sim.crashed() {
                told.forgotten.push(n);
            }
        }
        if n % 4 == 0 {
            let (_, outcomes) = commit_at(&spool, &[news(n)], NOW + n)?;
            assert!(matches!(outcomes[..], [ChangeOutcome::Filed(_)]));
        }
        if sim.crashed() {
            return Err("the machine has ended".into());
        }
    }
    Ok(spool.close()?)
}

fn check(image: SimDisk, told: &Told, what: &str) {
    let disk: Arc<dyn Disk> = Arc::new(image);
    let (spool, recovery) = Spool::open(disk, small_config(), &()).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(spool.verifier().verify(&()).findings, [], "{what} ({recovery})");
    add_groups(&spool, GROUPS);
    for n in &told.forgotten {
        let found = lookup(&spool, *n);
        assert!(
            matches!(found, Lookup::Unknown | Lookup::Present(_)),
            "{what} ({recovery}): {n} is {found:?}"
        );
        commit_at(&spool, &[news(*n)], NOW + COUNT).unwrap();
        assert!(matches!(lookup(&spool, *n), Lookup::Present(_)), "{what}: {n}");
    }
    assert_eq!(spool.verifier().verify(&()).findings, [], "{what} ({recovery})");
}

fn steps() -> u64 {
    let (sim, mut told) = (SimDisk::new(), Told::default());
    run(&sim, &mut told).unwrap();
    assert_eq!(told.forgotten.len() as u64, COUNT / 2);
    check(sim.image().unwrap(), &told, "closed in order");
    let left = sim.image().unwrap();
    rebuild(Arc::new(left.clone()), small_config(), &()).unwrap();
    check(left, &told, "rebuilt");
    sim.steps()
}

#[test]
fn what_is_forgotten_stays_so_at_every_crash() {
    let steps = steps();
    assert!(steps > 60, "{steps}");
    for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
        crashed_at((0..steps + 2).step_by(crash_every(7)), kind, run, check);
    }
}

#[test]
fn every_call_of_forgetting_may_fail() {
    failed_at((0..steps()).step_by(crash_every(7)), run, check);
}
