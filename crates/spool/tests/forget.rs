//! Message-IDs that are forgotten: unknown at once, after every crash and after a rebuild, and their articles
//! are taken then.

use crate::news::*;
use disk::{CrashKind, Disk, SimDisk};
use spool::*;
use std::path::Path;
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

/// Refused, cancelled early and late, overwritten, out of its ring: each was remembered again.
#[test]
fn a_rebuild_remembers_nothing_that_was_forgotten() {
    const HOUR: u64 = 3600;
    let mut config = config("/s", &[("a", 1 << 20), ("b", 64 << 10)]);
    config.remember_secs = 10 * HOUR;
    config.journal_keep_bytes = 1 << 40;
    config.classes[0].buffers = vec!["a".into()];
    let small = ClassConfig { name: "small".into(), buffers: vec!["b".into()], ..config.classes[0].clone() };
    config.classes.push(small);
    let rule = RuleConfig { class: "small".into(), groups: Some("test.g0".into()), ..RuleConfig::default() };
    config.rules.insert(0, rule);
    let day = NOW - NOW % HOUR;
    let news = |n: u64, group: u64| {
        let mut news = News::new(n, 1, 900);
        news.groups = vec![format!("test.g{group}")];
        news
    };
    let apply = |spool: &Spool, time: u64, changes: &[Change<'_>]| {
        spool.apply(time, changes, &mut Vec::new()).unwrap();
    };
    let file = |spool: &Spool, time: u64, news: &[News]| {
        let drafts: Vec<_> = news.iter().map(NewsDraft::of).collect();
        let changes: Vec<_> = drafts.iter().map(|draft| Change::Article(draft.article(time, &[]))).collect();
        apply(spool, time, &changes);
    };
    let id = |n: u64| news(n, 1).id;
    let cancel = |spool: &Spool, time: u64, n: u64| {
        apply(spool, time, &[Change::Cancel { id: ArticleIdent::Id(id(n).as_bytes()) }]);
    };
    let remember = |spool: &Spool, time: u64, id: &str, arrived: u64| {
        apply(spool, time, &[Change::Remember { id: ArticleIdent::Id(id.as_bytes()), arrived }]);
    };
    for (is_before_forgetting, is_closed, has_journal) in
        [(true, false, true), (false, false, true), (false, true, true), (false, true, false)]
    {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let (spool, _) = open(&disk, &config);
        for group in ["test.g0", "test.g1"] {
            let new = NewGroup { name: group.into(), created: NOW, ..NewGroup::default() };
            apply(&spool, day, &[Change::Groups(&[GroupUpdate::Add(new)])]);
        }
        file(&spool, day, &(0..4).map(|n| news(n, 1)).collect::<Vec<_>>());
        file(&spool, day, &(10..90).map(|n| news(n, 0)).collect::<Vec<_>>());
        remember(&spool, day, "<refused@x>", day);
        cancel(&spool, day, 0);
        // Its row does not say when it arrived.
        file(&spool, day + 15 * HOUR, &(100..190).map(|n| news(n, 0)).collect::<Vec<_>>());
        (1..4).for_each(|n| cancel(&spool, day + 15 * HOUR, n));
        remember(&spool, day + 15 * HOUR, "<late@x>", day);
        if is_before_forgetting {
            spool.checkpoint().unwrap();
        }
        file(&spool, day + 20 * HOUR, &[news(200, 1)]);
        if !is_before_forgetting {
            spool.checkpoint().unwrap();
        }
        let all: Vec<String> =
            (0..201).map(id).chain(["<refused@x>", "<late@x>"].map(str::to_owned)).collect();
        let seen = |spool: &Spool| -> Vec<String> {
            all.iter().filter(|id| spool.is_known(&spool.key(id.as_bytes()))).cloned().collect()
        };
        let before = (seen(&spool), spool.digest());
        assert!(before.0.contains(&"<late@x>".to_owned()) && before.0.contains(&id(150)));
        let left: Vec<u64> = (0..4).chain(10..90).filter(|n| before.0.contains(&id(*n))).collect();
        assert_eq!(left, [0; 0]);
        assert!(!before.0.contains(&"<refused@x>".to_owned()));
        if is_closed {
            spool.close().unwrap();
        }
        drop(spool);
        let what =
            format!("checkpoint before: {is_before_forgetting}, closed: {is_closed}, journal: {has_journal}");
        if !has_journal {
            let journal = Path::new("/s/journal");
            disk.list(journal).unwrap().iter().for_each(|file| disk.remove(&journal.join(file)).unwrap());
        }
        rebuild(disk.clone(), config.clone(), &()).unwrap();
        let (spool, _) = open(&disk, &config);
        assert_eq!(seen(&spool), before.0, "{what}");
        // Without rows numbers continue after those that were promised.
        assert!(spool.digest() == before.1 || !has_journal, "{what}");
        assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
        spool.close().unwrap();
        drop(spool);
        if !has_journal {
            continue;
        }
        // Rows alone do not say when a withdrawn article had arrived.
        for checkpoint in ["checkpoint", "checkpoint.copy"] {
            disk.remove(&Path::new("/s/index").join(checkpoint)).unwrap();
        }
        rebuild(disk.clone(), config.clone(), &()).unwrap();
        let (spool, _) = open(&disk, &config);
        let withdrawn_late = [id(1), id(2), id(3)];
        let seen: Vec<String> = seen(&spool).into_iter().filter(|id| !withdrawn_late.contains(id)).collect();
        assert_eq!(seen, before.0, "{what}, without checkpoint");
    }
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
