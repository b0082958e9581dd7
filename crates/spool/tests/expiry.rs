//! Expiry from classes that keep, compared with a naive model: caps, threads, moderated groups and room; and
//! the predictions of it.

use crate::news::*;
use disk::{CrashKind, Disk, OpenMode, ReadMode, SimDisk};
use spool::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

const GROUPS: u64 = 4;
const KEEPING: [MethodKind; 3] = [MethodKind::AppendOnly, MethodKind::Tradspool, MethodKind::Hashed];
/// Threads among the articles of [`news`].
const THREADS: u64 = 11;
const STEP_SECS: u64 = 100;

/// Article `n`, which arrives at `NOW + n * STEP_SECS`: the first [`THREADS`] begin threads, the others
/// answer.
fn news(n: u64) -> News {
    let mut news = News::new(n, GROUPS, 700);
    if n >= THREADS {
        let (first, before) =
            (News::new(n % THREADS, GROUPS, 700).id, News::new(n - THREADS, GROUPS, 700).id);
        let references = format!("References: {first} {before}\r\n");
        news.wire.splice(0..0, references.into_bytes());
    }
    news
}

fn config(method: MethodKind, expire: Vec<ExpireConfig>) -> SpoolConfig {
    let mut config = crate::news::config("/s", &[("a", 1 << 20)]);
    config.durability = Durability::Process;
    config.buffers.clear();
    let class = &mut config.classes[0];
    (class.method, class.size_bytes) = (method, 1 << 20);
    class.buffers.clear();
    class.tree = TreeConfig { path: "/s/kept".into(), file_bytes: 16 << 10, ..TreeConfig::default() };
    config.expire = expire;
    config
}

fn filled(sim: &SimDisk, config: &SpoolConfig, articles: u64) -> Spool {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = open(&disk, config);
    let flag = |i| if i == 1 { GroupFlag::Moderated } else { GroupFlag::Open };
    let new = |i| NewGroup { name: format!("test.g{i}"), flag: flag(i), created: NOW, ..NewGroup::default() };
    spool.add_groups(&(0..GROUPS).map(new).collect::<Vec<_>>()).unwrap();
    for n in 0..articles {
        commit_at(&spool, &[news(n)], NOW + n * STEP_SECS).unwrap();
    }
    spool
}

/// Holds removals, once those of a checkpoint have ended.
fn hold_removals(sim: &SimDisk, spool: &Spool) {
    spool.checkpoint().unwrap();
    sim.hold_removals(true);
}

/// The articles that live in each group, oldest first.
fn living(spool: &Spool) -> BTreeMap<String, Vec<String>> {
    let mut living: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (group, _, id) in agree(spool) {
        living.entry(group).or_default().push(id);
    }
    living
}

/// Returns the articles that should live in each group after a pass at `now`, where there is room.
fn model(articles: u64, expire: &[ExpireConfig], now: u64) -> BTreeMap<String, Vec<String>> {
    let mut newest: HashMap<u64, u64> = HashMap::new();
    for n in 0..articles {
        newest.insert(n % THREADS, NOW + n * STEP_SECS);
    }
    let (mut living, mut gone) = (BTreeMap::new(), BTreeSet::new());
    for g in 0..GROUPS {
        let group = format!("test.g{g}");
        let holds = |rule: &&ExpireConfig| {
            rule.groups.as_ref().is_none_or(|groups| *groups == group)
                && rule.moderated.is_none_or(|moderated| moderated == (g == 1))
        };
        let rule = expire.iter().find(holds);
        let here: Vec<u64> = (0..articles).filter(|n| news(*n).groups.contains(&group)).collect();
        let cap = rule.and_then(|rule| rule.articles_max).unwrap_or(u64::MAX) as usize;
        let stay = here.iter().skip(here.len().saturating_sub(cap)).filter(|n| {
            let Some(Retention::Secs { default, .. }) = rule.map(|rule| rule.keep) else { return true };
            let since = if rule.unwrap().by_thread { newest[&(*n % THREADS)] } else { NOW + **n * STEP_SECS };
            since + default > now
        });
        let stay: Vec<u64> = stay.copied().collect();
        if rule.is_some_and(|rule| rule.from_all_groups) {
            gone.extend(here.iter().filter(|n| !stay.contains(n)).copied());
        }
        living.insert(group, stay);
    }
    let stay = |stay: Vec<u64>| stay.into_iter().filter(|n| !gone.contains(n)).map(|n| news(n).id).collect();
    let living = living.into_iter().map(|(group, here)| (group, stay(here)));
    living.filter(|(_, stay): &(String, Vec<String>)| !stay.is_empty()).collect()
}

fn keep(secs: u64) -> Retention {
    Retention::Secs { min: 0, default: secs, max: secs }
}

/// Rules that follow from a seed.
fn rules(seed: u64) -> Vec<ExpireConfig> {
    let mix = |k: u64| (seed * 31 + k).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    let rule = |k: u64| ExpireConfig {
        groups: (!mix(k).is_multiple_of(3)).then(|| format!("test.g{}", mix(k + 1) % GROUPS)),
        moderated: mix(k + 2).is_multiple_of(3).then(|| mix(k + 3).is_multiple_of(2)),
        keep: if mix(k + 4).is_multiple_of(5) { Retention::Forever } else { keep(mix(k + 5) % 9000) },
        // Whose articles go together is no matter of threads in the model.
        by_thread: !seed.is_multiple_of(4) && mix(k + 6).is_multiple_of(3),
        from_all_groups: seed.is_multiple_of(4) && mix(k + 9).is_multiple_of(2),
        articles_max: mix(k + 7).is_multiple_of(3).then(|| mix(k + 8) % 30),
        ..ExpireConfig::default()
    };
    (0..1 + mix(99) % 4).map(|k| rule(k * 20)).collect()
}

#[test]
fn whatever_the_rules_are_what_goes_is_what_the_model_says() {
    let articles = 90;
    let mut removed = 0;
    for seed in 0..60 {
        let method = KEEPING[seed as usize % KEEPING.len()];
        let sim = SimDisk::new();
        let config = config(method, rules(seed));
        let spool = filled(&sim, &config, articles);
        let before = living(&spool);
        for now in [NOW, NOW + 5000, NOW + 9000] {
            let dry = spool.expiry().expire(now, true).unwrap();
            let done = if seed % 2 == 0 {
                spool.expiry().expire(now, false)
            } else {
                spool.expiry().expire_due(now)
            }
            .unwrap();
            let told = |r: &ExpireReport| (r.articles, r.numbers, r.bytes);
            assert_eq!(told(&dry), told(&done), "{seed} {now}");
            assert_eq!(
                living(&spool),
                model(articles, &config.expire, now),
                "{seed} {now}: {:?}",
                config.expire
            );
            removed += done.articles;
        }
        assert_eq!(spool.verifier().verify(&()).findings, [], "{seed}");
        drop(spool);
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let (spool, _) = open(&disk, &config);
        assert_eq!(living(&spool), model(articles, &config.expire, NOW + 9000), "{seed}: after a crash");
        assert!(before.values().flatten().count() > 90);
    }
    assert!(removed > 500, "{removed}");
}

/// The newest stay as long as their bytes fit; a crosspost stays while one of its groups wants it.
#[test]
fn bytes_of_a_group_are_capped() {
    for method in KEEPING {
        let sim = SimDisk::new();
        let spool = filled(&sim, &config(method, Vec::new()), 60);
        let all = living(&spool);
        let stored = spool.meter().status().unwrap().kept[0].bytes;
        spool.close().unwrap();
        drop(spool);
        let cap = |bytes| ExpireConfig { bytes_max: Some(bytes), ..ExpireConfig::default() };
        let disk: Arc<dyn Disk> = Arc::new(sim);
        let (spool, _) = open(&disk, &config(method, vec![cap(stored)]));
        assert_eq!(spool.expiry().expire(NOW, false).unwrap().numbers, 0, "{method:?}");
        spool.close().unwrap();
        drop(spool);
        let (spool, _) = open(&disk, &config(method, vec![cap(stored / 10)]));
        let done = spool.expiry().expire(NOW, false).unwrap();
        assert!(done.capped > 0 && done.capped == done.articles, "{method:?} {done:?}");
        let left = living(&spool);
        for (group, ids) in &left {
            assert!(ids.len() > 2 && ids.len() < all[group].len(), "{method:?} {group}");
            assert!(all[group].ends_with(ids), "{method:?} {group}: the newest stay");
        }
        let stays: BTreeSet<&String> = left.values().flatten().collect();
        let kept = spool.meter().status().unwrap().kept.remove(0);
        assert_eq!(kept.articles as usize, stays.len(), "{method:?}");
        assert_eq!(spool.verifier().verify(&()).findings, [], "{method:?}");
    }
}

#[test]
fn a_group_that_becomes_moderated_has_another_rule() {
    let rule = ExpireConfig { moderated: Some(true), keep: keep(50), ..ExpireConfig::default() };
    let sim = SimDisk::new();
    let spool = filled(&sim, &config(MethodKind::AppendOnly, vec![rule]), 30);
    let late = NOW + 100_000;
    spool.expiry().expire_due(late).unwrap();
    let left = living(&spool);
    assert!(!left.contains_key("test.g1") && left.contains_key("test.g2"), "{left:?}");
    let change = GroupChange { flag: Some(GroupFlag::Moderated), ..GroupChange::default() };
    assert!(spool.change_group("test.g2", &change).unwrap());
    spool.expiry().expire_due(late).unwrap();
    let left = living(&spool);
    assert!(!left.contains_key("test.g2") && left.contains_key("test.g3"), "{left:?}");
}

/// With too little room the oldest go, as much as is needed and no younger ones than the rules allow.
#[test]
fn the_oldest_are_given_up_when_room_is_short() {
    for method in KEEPING {
        let sim = SimDisk::new();
        let forever = ExpireConfig { groups: Some("test.g3".into()), ..ExpireConfig::default() };
        let never = Retention::Secs { min: 3000, default: NEVER, max: NEVER };
        let rules = vec![forever, ExpireConfig { keep: never, ..ExpireConfig::default() }];
        let mut config = config(method, rules);
        config.classes[0].tree.free_min = Some(FreeMin::Bytes(100_000));
        let articles = 120;
        let spool = filled(&sim, &config, articles);
        let now = NOW + articles * STEP_SECS;
        sim.set_free_bytes(100_000);
        assert!(!spool.expiry().is_short_of_room());
        assert_eq!(spool.expiry().expire(now, false).unwrap().numbers, 0, "{method:?}");
        // It goes on until there is a tenth more.
        sim.set_free_bytes(99_000);
        assert!(spool.expiry().is_short_of_room());
        let dry = spool.expiry().expire(now, true).unwrap();
        let done = spool.expiry().expire_due(now).unwrap();
        assert_eq!((dry.articles, dry.bytes), (done.articles, done.bytes), "{method:?}");
        assert!(done.is_short && done.given_up == done.articles, "{method:?} {done:?}");
        assert!((11_000..13_000).contains(&done.bytes), "{method:?} {done:?}");
        sim.set_free_bytes(105_000);
        let more = spool.expiry().expire_due(now).unwrap();
        assert!((5_000..7_000).contains(&more.bytes) && !more.is_short, "{method:?} {more:?}");
        sim.set_free_bytes(110_000);
        assert_eq!(spool.expiry().expire_due(now).unwrap().articles, 0, "{method:?}");
        sim.set_free_bytes(105_000);
        assert_eq!(spool.expiry().expire_due(now).unwrap().articles, 0, "{method:?}: it had stopped");
        let gone: Vec<u64> = (0..articles).filter(|n| fetch(&spool, &news(*n).id).is_none()).collect();
        assert_eq!(gone.len() as u64, done.articles + more.articles, "{method:?}");
        let in_g3 = |n: &u64| news(*n).groups.contains(&"test.g3".to_owned());
        assert!(!gone.iter().any(in_g3), "{method:?}: kept forever");
        let newest = *gone.last().unwrap();
        let span = |n: u64| (NOW + n * STEP_SECS) / 600;
        let skipped = (0..newest).filter(|n| span(*n) < span(newest) && !in_g3(n) && !gone.contains(n));
        assert_eq!(skipped.collect::<Vec<_>>(), [] as [u64; 0], "{method:?}: older ones stayed");
        // Of those that are old enough all may go, and no others.
        sim.set_free_bytes(0);
        spool.expiry().expire_due(now).unwrap();
        for n in 0..articles {
            let stays = in_g3(&n) || NOW + n * STEP_SECS + 3000 > now;
            assert_eq!(fetch(&spool, &news(n).id).is_some(), stays, "{method:?} {n}");
        }
        assert!(!spool.expiry().expire_due(now).unwrap().articles > 0);
        assert_eq!(spool.verifier().verify(&()).findings, [], "{method:?}");
    }
}

/// A dry run of another policy reports what the policy would remove, and changes nothing.
#[test]
fn what_another_policy_would_remove_is_foretold() {
    let sim = SimDisk::new();
    let articles = 60;
    let spool = filled(&sim, &config(MethodKind::Tradspool, Vec::new()), articles);
    let old = ExpireConfig { groups: Some("test.g0".into()), keep: keep(50), ..ExpireConfig::default() };
    let young =
        ExpireConfig { groups: Some("test.g2".into()), keep: keep(1 << 40), ..ExpireConfig::default() };
    let capped =
        ExpireConfig { groups: Some("test.g3".into()), articles_max: Some(5), ..ExpireConfig::default() };
    let other = config(MethodKind::Tradspool, vec![old, young, capped]);
    let before = living(&spool);
    let foretold = spool.expiry().what_if(&other, 1 << 41, &()).unwrap();
    assert_eq!(foretold.rows.len(), 4);
    assert_eq!(living(&spool), before);
    let of = |at: usize| (foretold.rows[at].now.articles, foretold.rows[at].later.articles);
    assert!(foretold.rows.iter().map(|row| row.now.looked_at).sum::<u64>() == articles);
    assert!(of(0).0 == 0 || NOW + 100 * STEP_SECS < 1_900_000_000, "articles arrive about now");
    let (of_young, of_none) = (of(1), of(3));
    assert!(of_young.0 == 0 && of_young.1 > 0 && of_none == (0, 0), "{foretold:?}");
    assert!(of(2).0 > 0 && of(2).0 <= of(2).1, "{foretold:?}");
    spool.close().unwrap();
    drop(spool);
    let disk: Arc<dyn Disk> = Arc::new(sim);
    let (spool, _) = open(&disk, &other);
    let dry = spool.expiry().expire(disk::clock::unix_secs(), true).unwrap();
    assert_eq!(dry.articles, foretold.rows.iter().map(|row| row.now.articles).sum::<u64>());
    assert_eq!(dry.bytes, foretold.rows.iter().map(|row| row.now.bytes).sum::<u64>());
    let unfit = ExpireConfig { class: Some("none".into()), ..ExpireConfig::default() };
    assert!(spool.expiry().what_if(&config(MethodKind::Tradspool, vec![unfit]), 0, &()).is_err());
}

#[test]
fn an_article_explains_when_it_goes() {
    for method in KEEPING {
        let by_thread = ExpireConfig { keep: keep(1 << 33), by_thread: true, ..ExpireConfig::default() };
        let capped = ExpireConfig {
            groups: Some("test.g2".into()),
            articles_max: Some(5),
            keep: Retention::Secs { min: 7, default: NEVER, max: NEVER },
            ..ExpireConfig::default()
        };
        let rules = vec![ExpireConfig { groups: Some("test.g3".into()), ..by_thread }, capped];
        let mut config = config(method, rules);
        config.classes[0].tree.free_min = Some(FreeMin::Bytes(5));
        let articles = 60;
        let sim = SimDisk::new();
        let spool = filled(&sim, &config, articles);
        let in_g2: Vec<u64> =
            (0..articles).filter(|n| news(*n).groups.contains(&"test.g2".to_owned())).collect();
        for n in 0..articles {
            let expiry = spool.expiry().explain(news(n).id.as_bytes()).unwrap().unwrap();
            assert_eq!(
                (expiry.arrived, expiry.expires, expiry.volume.as_str()),
                (NOW + n * STEP_SECS, 0, "all")
            );
            let ExpiryFate::Kept { numbers, thread_newest, given_up_from, room } = expiry.fate else {
                panic!("{method:?} {n}: {expiry:?}");
            };
            let groups: Vec<&String> = numbers.iter().map(|number| &number.group).collect();
            assert!(groups.into_iter().eq(&news(n).groups), "{method:?} {n}");
            assert!(room.is_some_and(|(free, least)| free > 0 && least == 5));
            let newest = (0..articles).filter(|other| other % THREADS == n % THREADS).max().unwrap();
            for number in &numbers {
                match number.group.as_str() {
                    "test.g3" => {
                        assert_eq!(thread_newest, Some(NOW + newest * STEP_SECS));
                        // The thread matters only for articles that are due by their own age.
                        assert_eq!(number.due, Some(NOW + n * STEP_SECS + (1 << 33)));
                        assert_eq!(number.rule, Some(0));
                    }
                    "test.g2" => {
                        let newer = in_g2.iter().filter(|other| **other > n).count() as u64;
                        assert_eq!((number.rule, number.due, number.newer.0), (Some(1), None, newer));
                        assert_eq!(number.is_capped, newer >= 5, "{method:?} {n}");
                    }
                    _ => assert_eq!((number.rule, number.due), (None, None)),
                }
            }
            let ruled = numbers.iter().all(|number| number.group == "test.g2");
            let from = if numbers.iter().any(|number| number.rule.is_none()) { None } else { given_up_from };
            assert_eq!(given_up_from, from, "{method:?} {n}");
            assert!(!ruled || given_up_from == Some(NOW + n * STEP_SECS + 7), "{method:?} {n}");
        }
        assert_eq!(spool.expiry().explain(b"<none@x>").unwrap(), Err(Lookup::Unknown));
        assert!(spool.cancel(news(3).id.as_bytes()).unwrap());
        assert_eq!(spool.expiry().explain(news(3).id.as_bytes()).unwrap(), Err(Lookup::Remembered));
    }
}

/// INN's flag X.
#[test]
fn an_article_leaves_all_groups_with_the_first_that_says_so() {
    let short = ExpireConfig {
        groups: Some("test.g0".into()),
        keep: keep(1000),
        from_all_groups: true,
        ..ExpireConfig::default()
    };
    let long = ExpireConfig { keep: keep(1 << 30), ..ExpireConfig::default() };
    let spool = filled(&SimDisk::new(), &config(MethodKind::Hashed, vec![short, long]), 60);
    let crossposted = |n: &u64| news(*n).groups.len() > 1 && news(*n).groups.contains(&"test.g0".to_owned());
    let crossposted: Vec<u64> = (0..60).filter(crossposted).collect();
    assert!(crossposted.len() > 3, "{crossposted:?}");
    for n in &crossposted {
        let expiry = spool.expiry().explain(news(*n).id.as_bytes()).unwrap().unwrap();
        let ExpiryFate::Kept { numbers, .. } = expiry.fate else { panic!() };
        let due = Some(NOW + n * STEP_SECS + 1000);
        assert!(numbers.iter().all(|number| (number.rule, number.due) == (Some(0), due)), "{numbers:?}");
    }
    let now = NOW + 60 * STEP_SECS + 1000;
    spool.expiry().expire(now, false).unwrap();
    assert!(crossposted.iter().all(|n| fetch(&spool, &news(*n).id).is_none()));
    let others = (0..60).filter(|n| !news(*n).groups.contains(&"test.g0".to_owned()));
    assert!(others.into_iter().all(|n| fetch(&spool, &news(n).id).is_some()));
}

#[test]
fn an_article_in_a_cyclic_buffer_tells_what_must_be_written_first() {
    let sim = SimDisk::new();
    let mut config = crate::news::config("/s", &[("a", 1 << 18)]);
    config.buffers[0].path = PathBuf::from("/s/a.cyc");
    let spool = filled(&sim, &config, 20);
    let left = |n: u64| match spool.expiry().explain(news(n).id.as_bytes()).unwrap().unwrap().fate {
        ExpiryFate::Overwritten { offset, head, area, bytes_left, .. } => {
            assert!(offset < head && head < area, "{n}: {offset} {head} {area}");
            // Give or take a block.
            assert!(
                bytes_left.abs_diff(area - head + offset) <= 512,
                "{n}: {bytes_left} {offset} {head} {area}"
            );
            bytes_left
        }
        other => panic!("{n}: {other:?}"),
    };
    let all: Vec<u64> = (0..20).map(left).collect();
    assert!(all.is_sorted() && all[0] < all[19]);
}

/// Whatever a crash leaves of a pass with caps and room that is short: what goes on is the same pass.
#[derive(Default)]
struct Told {
    filed: u64,
    done: bool,
}

const CRASH_ARTICLES: u64 = 24;

fn crash_config(method: MethodKind) -> SpoolConfig {
    let cap =
        ExpireConfig { groups: Some("test.g0".into()), articles_max: Some(3), ..ExpireConfig::default() };
    let keep = Retention::Secs { min: 0, default: NEVER, max: NEVER };
    let mut config = config(method, vec![cap, ExpireConfig { keep, ..ExpireConfig::default() }]);
    config.classes[0].tree.free_min = Some(FreeMin::Bytes(100_000));
    config
}

fn run(sim: &SimDisk, config: &SpoolConfig, told: &mut Told) -> TestResult {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = Spool::open(disk, config.clone(), &())?;
    let new = |i| NewGroup { name: format!("test.g{i}"), created: NOW, ..NewGroup::default() };
    spool.add_groups(&(0..GROUPS).map(new).collect::<Vec<_>>())?;
    for n in 0..CRASH_ARTICLES {
        commit_at(&spool, &[news(n)], NOW + n * STEP_SECS)?;
        told.filed = n + 1;
    }
    sim.set_free_bytes(99_000);
    spool.expiry().expire(NOW + CRASH_ARTICLES * STEP_SECS, false)?;
    told.done = true;
    Ok(spool.close()?)
}

#[test]
fn killed_at_every_step_of_a_pass() {
    for method in KEEPING {
        let config = crash_config(method);
        let sim = SimDisk::new();
        run(&sim, &config, &mut Told::default()).unwrap();
        let every = crash_every(7);
        let first = method as u64 % every as u64;
        crashed_at(
            (first..sim.steps() + 3).step_by(every),
            CrashKind::Kill,
            |sim, told| run(sim, &config, told),
            |image, told, what| {
                let disk: Arc<dyn Disk> = Arc::new(image);
                let (spool, _) = open(&disk, &config);
                let left: Vec<u64> =
                    (0..told.filed).filter(|n| fetch(&spool, &news(*n).id) == Some(news(*n).wire)).collect();
                let gone = told.filed - left.len() as u64;
                assert!(told.filed == CRASH_ARTICLES || gone == 0, "{method:?} {what}: {gone} are lost");
                assert!(!told.done || gone > 0, "{method:?} {what}: what went is there again");
                spool.expiry().expire(NOW + CRASH_ARTICLES * STEP_SECS, false).unwrap();
                let left = living(&spool);
                assert!(left.get("test.g0").is_none_or(|ids| ids.len() <= 3), "{method:?} {what}");
                let findings = spool.repairer().repair(false, &());
                assert!(findings.after.is_none_or(|r| r.findings.is_empty()), "{method:?} {what}");
            },
        );
    }
}

#[test]
fn a_pass_goes_on_beside_checkpoints_commits_and_cancels() {
    let (articles, due) = (300, 280);
    for method in KEEPING {
        let sim = SimDisk::new();
        let mut config = config(method, vec![ExpireConfig { keep: keep(5_000), ..ExpireConfig::default() }]);
        config.classes[0].size_bytes = 4 << 20;
        let spool = filled(&sim, &config, articles);
        let now = NOW + due * STEP_SECS + 5_000;
        let mut images = Vec::new();
        std::thread::scope(|scope| {
            let pass = scope.spawn(|| spool.expiry().expire(now, false).unwrap());
            for n in (0..due).step_by(40) {
                spool.cancel(news(n).id.as_bytes()).unwrap();
                spool.checkpoint().unwrap();
                commit_at(&spool, &[news(articles + n)], now).unwrap();
            }
            images.push(sim.image_after(CrashKind::Kill, 1).unwrap());
            pass.join().unwrap();
        });
        let gone: BTreeSet<String> = (0..=due).map(|n| news(n).id).collect();
        assert!(!living(&spool).values().flatten().any(|id| gone.contains(id)), "{method:?}");
        assert_eq!(spool.verifier().verify(&()).findings, [], "{method:?}");
        images.push(sim.image_after(CrashKind::Kill, 0).unwrap());
        for (at, image) in images.into_iter().enumerate() {
            let disk: Arc<dyn Disk> = Arc::new(image);
            let (spool, _) = open(&disk, &config);
            spool.expiry().expire(now, false).unwrap();
            let living = living(&spool);
            assert!(!living.values().flatten().any(|id| gone.contains(id)), "{method:?}, image {at}");
            assert_eq!(spool.verifier().verify(&()).findings, [], "{method:?}, image {at}");
        }
    }
}

/// Expiry reads no article: those that cannot be read go like others.
#[test]
fn articles_that_cannot_be_read_are_expired() {
    let articles = 100;
    for method in KEEPING {
        let sim = SimDisk::new();
        let config = config(method, vec![ExpireConfig { keep: keep(1), ..ExpireConfig::default() }]);
        let spool = filled(&sim, &config, articles);
        let (mut dirs, mut spoilt) = (vec![PathBuf::from("/s/kept")], 0);
        while let Some(dir) = dirs.pop() {
            for path in sim.list(&dir).unwrap().iter().filter(|name| !name.starts_with("newsreel.")) {
                let path = dir.join(path);
                let len = sim.open(&path, OpenMode::ReadOnly).unwrap().len().unwrap();
                sim.spoil(&path, 0..len).unwrap();
                spoilt += 1;
            }
            dirs.extend(sim.list_dirs(&dir).unwrap().iter().map(|name| dir.join(name)));
        }
        let Lookup::Present(token) = spool.lookup(&spool.key(news(0).id.as_bytes())) else { panic!() };
        spool.read(&token, None, ReadMode::Wait, &mut ArticleBuf::default()).unwrap_err();
        let report = spool.expiry().expire(NOW + 2 * articles * STEP_SECS, false).unwrap();
        assert!(spoilt > 3 && living(&spool).is_empty(), "{method:?}: {spoilt} files, {report:?}");
        assert_eq!((report.looked_at, report.articles), (articles, articles), "{method:?}");
    }
}

/// With a file for each article.
const TREES: [MethodKind; 4] =
    [MethodKind::Tradspool, MethodKind::Bucketed, MethodKind::Hashed, MethodKind::Timehash];

/// A pass of expiry that waits for the disk to remove the first file; `work` is done meanwhile.
fn beside_a_slow_pass<T: Send>(
    sim: &SimDisk,
    spool: &Spool,
    now: u64,
    work: impl FnOnce() -> T + Send,
) -> (ExpireReport, T) {
    hold_removals(sim, spool);
    std::thread::scope(|scope| {
        let pass = scope.spawn(|| spool.expiry().expire(now, false).unwrap());
        sim.wait_for_removal();
        let (done, is_done) = std::sync::mpsc::channel();
        let work = scope.spawn(move || {
            let result = work();
            let _too_late = done.send(());
            result
        });
        let in_time = is_done.recv_timeout(std::time::Duration::from_secs(60)).is_ok();
        sim.hold_removals(false);
        assert!(in_time, "it waited for the removal");
        (pass.join().unwrap(), work.join().unwrap())
    })
}

/// Removing 15,000 files under the writer's lock left a peer 80 articles a second.
#[test]
fn articles_are_filed_while_the_files_of_expired_ones_are_removed() {
    let articles = 120;
    for method in TREES {
        let sim = SimDisk::new();
        let mut config = config(method, vec![ExpireConfig { keep: keep(5_000), ..ExpireConfig::default() }]);
        config.classes[0].size_bytes = 4 << 20;
        let spool = filled(&sim, &config, articles);
        let now = NOW + articles * STEP_SECS + 5_000;
        let (report, image) = beside_a_slow_pass(&sim, &spool, now, || {
            for n in articles..articles + 20 {
                commit_at(&spool, &[news(n)], now).unwrap();
                assert_eq!(fetch(&spool, &news(n).id), Some(news(n).wire));
            }
            sim.image_after(CrashKind::Kill, 1).unwrap()
        });
        assert_eq!(report.articles, articles, "{method:?}");
        assert_eq!(spool.verifier().verify(&()).findings, [], "{method:?}");
        // Killed while files were still to be removed: the next start removes them.
        let disk: Arc<dyn Disk> = Arc::new(image);
        let (spool, _) = open(&disk, &config);
        spool.expiry().expire(now, false).unwrap();
        assert_eq!(spool.verifier().verify(&()).findings, [], "{method:?}");
        (articles..articles + 20).for_each(|n| assert!(fetch(&spool, &news(n).id).is_some(), "{method:?}"));
        assert!((0..articles).all(|n| fetch(&spool, &news(n).id).is_none()), "{method:?}");
    }
}

/// The checkpoint would say that the rows are applied.
#[test]
fn a_checkpoint_waits_for_files_that_are_still_to_be_removed() {
    let articles = 60;
    for method in TREES {
        let sim = SimDisk::new();
        let config = config(method, vec![ExpireConfig { keep: keep(1), ..ExpireConfig::default() }]);
        let spool = filled(&sim, &config, articles);
        let now = NOW + 2 * articles * STEP_SECS;
        hold_removals(&sim, &spool);
        std::thread::scope(|scope| {
            let pass = scope.spawn(|| spool.expiry().expire(now, false).unwrap());
            sim.wait_for_removal();
            let checkpoint = scope.spawn(|| spool.checkpoint());
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!checkpoint.is_finished(), "{method:?}");
            sim.hold_removals(false);
            checkpoint.join().unwrap().unwrap();
            pass.join().unwrap();
        });
        let disk: Arc<dyn Disk> = Arc::new(sim.image_after(CrashKind::Kill, 1).unwrap());
        let (spool, _) = open(&disk, &config);
        assert_eq!(spool.verifier().verify(&()).findings, [], "{method:?}");
    }
}

#[test]
fn a_request_beside_a_running_pass_reports_what_that_removed() {
    let articles = 100;
    let sim = SimDisk::new();
    let config =
        config(MethodKind::Tradspool, vec![ExpireConfig { keep: keep(1), ..ExpireConfig::default() }]);
    let spool = filled(&sim, &config, articles);
    let now = NOW + 2 * articles * STEP_SECS;
    hold_removals(&sim, &spool);
    std::thread::scope(|scope| {
        let pass = scope.spawn(|| spool.expiry().expire_due(now).unwrap());
        sim.wait_for_removal();
        let (begun_to, begun) = std::sync::mpsc::channel();
        let spool = &spool;
        let request = scope.spawn(move || {
            begun_to.send(()).unwrap();
            spool.expiry().expire(now, false).unwrap()
        });
        begun.recv().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(!request.is_finished());
        sim.hold_removals(false);
        let (pass, request) = (pass.join().unwrap(), request.join().unwrap());
        let counts = |r: &ExpireReport| (r.articles, r.numbers, r.bytes);
        assert_eq!(counts(&request), counts(&pass));
        assert_eq!((request.articles, request.looked_at), (articles, articles));
    });
    assert_eq!(spool.expiry().expire(now, false).unwrap().articles, 0);
}
