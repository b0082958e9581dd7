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
fn a_rebuild_keeps_when_ids_without_an_article_arrived() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let config = config("/s", &[("a", 1 << 20)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, GROUPS);
    let keys: Vec<ArticleKey> = (0..COUNT).map(|n| spool.key(news(n).id.as_bytes())).collect();
    for (n, key) in (0..COUNT).zip(&keys) {
        if n % 2 == 0 {
            let remembered = Change::Remember { id: ArticleIdent::Key(*key), arrived: NOW + n };
            spool.commit(&[remembered], &mut Vec::new()).unwrap();
        } else {
            commit_at(&spool, &[news(n)], NOW + n).unwrap();
        }
    }
    let seen = |spool: &Spool| keys.iter().map(|key| spool.seen(key)).collect::<Vec<_>>();
    let before = seen(&spool);
    assert_eq!(before[4..6], [Some((arrived(4), false)), Some((arrived(5), true))]);
    spool.close().unwrap();
    drop(spool);
    rebuild(disk.clone(), config.clone(), &()).unwrap();
    let (spool, _) = open(&disk, &config);
    assert_eq!(seen(&spool), before);
    assert!(spool.forget(&keys[4], arrived(4)).unwrap());
    assert_eq!(spool.verifier().verify(&()).findings, []);
}

/// In `hashed` the article would have the place of the withdrawn one again, which the list of kept articles
/// and the rows of the journal name.
#[test]
fn a_message_id_whose_article_was_withdrawn_or_has_expired_is_not_forgotten() {
    for (expires, crashes) in [(false, false), (false, true), (true, false), (true, true)] {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let mut config = small_config();
        config.classes[0].method = MethodKind::Hashed;
        config.classes[0].tree = TreeConfig { path: "/s/kept".into(), ..TreeConfig::default() };
        let keep = Retention::Secs { min: 0, default: 1_000, max: 1_000 };
        config.expire = vec![ExpireConfig { keep, ..ExpireConfig::default() }];
        let (mut spool, _) = open(&disk, &config);
        add_groups(&spool, GROUPS);
        let key = spool.key(news(3).id.as_bytes());
        commit_at(&spool, &[news(3)], NOW).unwrap();
        match expires {
            true => assert_eq!(spool.expiry().expire(NOW + 2_000, false).unwrap().articles, 1),
            false => assert!(spool.cancel(news(3).id.as_bytes()).unwrap()),
        }
        if crashes {
            drop(spool);
            (spool, _) = open(&disk, &config);
        }
        assert!(!spool.forget(&key, NOW as u32).unwrap());
        let (_, outcomes) = commit_at(&spool, &[news(3)], NOW + 100_000).unwrap();
        assert_eq!(outcomes, [ChangeOutcome::Duplicate], "expires {expires}, crashes {crashes}");
        assert_eq!(spool.verifier().verify(&()).findings, []);
    }
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
