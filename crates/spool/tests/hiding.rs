//! Hidden articles: shown nowhere, as they were once they are shown again, and all of it at every crash point
//! of hiding, showing, cancelling and purging.

use crate::news::*;
use disk::{CrashKind, Disk, ReadMode, SimDisk};
use netnews::GroupMarks;
use netnews::wildmat::Wildmat;
use spool::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

const GROUPS: u64 = 3;
const PER_BATCH: u64 = 9;
const PURGED: &str = "test.g1";

fn news(n: u64) -> News {
    News::new(n, GROUPS, 700)
}

fn batch(n: u64) -> Vec<News> {
    (n * PER_BATCH..(n + 1) * PER_BATCH).map(news).collect()
}

/// A batch of which the last two are hidden as they are filed.
fn filed_hidden(n: u64) -> Vec<News> {
    let mut batch = batch(n);
    batch[7..].iter_mut().for_each(|news| news.is_hidden = true);
    batch
}

fn hide(spool: &Spool, ids: &[String]) -> Result<Vec<HideOutcome>, SpoolTrouble> {
    let ids: Vec<&[u8]> = ids.iter().map(String::as_bytes).collect();
    spool.hide_all(&ids, "operator", "spam")
}

fn unhide(spool: &Spool, ids: &[String]) -> Result<Vec<bool>, SpoolTrouble> {
    spool.unhide_all(&ids.iter().map(|id| spool.key(id.as_bytes())).collect::<Vec<_>>())
}

/// Groups, numbers and Message-IDs; overview rows; what NEWNEWS lists; what NEXT and LAST find.
type Everything = (Vec<(String, u64, String)>, Vec<u8>, Vec<Vec<u8>>, Vec<Option<u64>>);

/// All that readers can ask for of a group.
fn everything(spool: &Spool) -> Everything {
    let (mut rows, mut arrived, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for group in spool.groups().iter() {
        let most = [1, usize::MAX][group.id.0 as usize % 2];
        let mut from = Some(0);
        while let Some(n) = from {
            from = spool.over(group.id, n..=u64::MAX, most, ReadMode::Wait, &mut rows).unwrap();
        }
        spool.arrived_since(group.id, 0, &mut |id| arrived.push(id.to_vec())).unwrap();
        let (mut next, mut last) = (Some(0), Some(group.marks().high + 1));
        while let Some(n) = next {
            next = spool.next_number(group.id, n);
            steps.push(next);
        }
        while let Some(n) = last {
            last = spool.previous_number(group.id, n);
            steps.push(last);
        }
    }
    (agree(spool), rows, arrived, steps)
}

fn small_config() -> SpoolConfig {
    SpoolConfig {
        checkpoint_rows: 40,
        article_bytes_max: 4096,
        overview: OverviewShape { block_text_bytes: 1024, segment_bytes: 4096 },
        overview_cold_secs: 0,
        ..config("/s", &[("a", 8192 + 4096 + 48 * 512), ("b", 8192 + 4096 + 40 * 512)])
    }
}

fn large_config() -> SpoolConfig {
    SpoolConfig { buffers: config("/s", &[("a", 1 << 20), ("b", 1 << 20)]).buffers, ..small_config() }
}

#[test]
fn what_is_hidden_is_shown_nowhere_and_comes_back_as_it_was() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let config = large_config();
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, GROUPS);
    (0..8).for_each(|n| drop(commit(&spool, &batch(n)).unwrap()));
    spool.overview().pack(&mut |_| true).unwrap();
    (8..12).for_each(|n| drop(commit(&spool, &batch(n)).unwrap()));
    let before = everything(&spool);
    let marks: Vec<GroupMarks> = spool.groups().iter().map(|g| g.marks()).collect();
    let articles = spool.meter().status().unwrap().articles;
    // The first and the last of all, one in the middle, and one that is not here.
    let ids: Vec<String> = [0, 1, 30, 31, 70, 107].map(|n| news(n).id).to_vec();
    assert_eq!(hide(&spool, &ids).unwrap(), [HideOutcome::Hidden; 6]);
    assert_eq!(
        hide(&spool, &[ids[0].clone(), "<none@x>".into()]).unwrap(),
        [HideOutcome::Already, HideOutcome::NotHere]
    );
    let check = |spool: &Spool| {
        let (named, rows, arrived, steps) = everything(spool);
        let left: Vec<_> = before.0.iter().filter(|row| !ids.contains(&row.2)).cloned().collect();
        assert!(named == left && left.len() < before.0.len());
        let text = String::from_utf8(rows).unwrap();
        assert!(!ids.iter().any(|id| text.contains(id.as_str())));
        assert_eq!(text.lines().count(), left.len());
        assert!(!ids.iter().any(|id| arrived.contains(&id.as_bytes().to_vec())));
        assert_eq!(steps.iter().flatten().count(), 2 * left.len());
        for id in &ids {
            let key = spool.key(id.as_bytes());
            let Lookup::Hidden(token) = spool.lookup(&key) else { panic!("{id}") };
            let mut buf = ArticleBuf::default();
            assert!(
                !spool.read(&token, None, ReadMode::Wait, &mut buf).unwrap() && buf.message_id().is_empty()
            );
            assert!(spool.read_stored(&token, Some(&key), ReadMode::Wait, &mut buf).unwrap());
            assert_eq!(buf.message_id(), id.as_bytes());
            // It is not offered again.
            assert!(spool.is_known(&key));
            let offer = spool.reserve(&[key], &[id.as_bytes()]).next();
            assert!(matches!(offer, Some(OfferAnswer::Have | OfferAnswer::Pending)));
            let hidden = spool.hidden_article(&key).unwrap();
            assert_eq!((hidden.by.as_str(), hidden.reason.as_str()), ("operator", "spam"));
        }
        for (group, old) in spool.groups().iter().zip(&marks) {
            let (now, hidden) = (group.marks(), before.0.len() - left.len());
            assert!((now.low, now.high) == (old.low, old.high) && now.count + hidden as u64 >= old.count);
            assert_eq!(group.marks_above(|_| 0), now);
            let above = now.high - 3;
            assert_eq!(
                group.marks_above(|_| above).count,
                left.iter().filter(|row| *row.0 == *group.name && row.1 > above).count() as u64
            );
        }
        let status = spool.meter().status().unwrap();
        assert_eq!((status.articles, status.hidden), (articles, ids.len() as u64));
        assert_eq!(
            (spool.verifier().verify(&()).findings, spool.verifier().verify(&()).hidden),
            (Vec::new(), 6)
        );
        let lines = spool.tokens().explain_message_id(ids[0].as_bytes()).1.unwrap().lines;
        assert!(lines.iter().any(|(label, text)| *label == "hidden" && text.starts_with("by operator, ")));
    };
    check(&spool);
    // Killed, closed in order, and with all indexes rebuilt.
    drop(spool);
    let (spool, recovery) = open(&disk, &config);
    assert!(recovery.crashed);
    check(&spool);
    spool.close().unwrap();
    drop(spool);
    let (spool, recovery) = open(&disk, &config);
    assert_eq!(recovery.rows, 0);
    check(&spool);
    spool.close().unwrap();
    drop(spool);
    rebuild(disk.clone(), config.clone(), &()).unwrap();
    let (spool, _) = open(&disk, &config);
    check(&spool);
    let dir = Path::new("/s/index");
    for checkpoint in ["checkpoint", "checkpoint.copy"] {
        disk.remove(&dir.join(checkpoint)).unwrap();
    }
    drop(spool);
    let (spool, recovery) = open(&disk, &config);
    assert!(recovery.lost.is_some(), "{recovery}");
    check(&spool);
    assert_eq!(unhide(&spool, &ids).unwrap(), [true; 6]);
    assert_eq!(unhide(&spool, &ids).unwrap(), [false; 6]);
    assert!(everything(&spool) == before && spool.hidden().is_empty());
    assert_eq!(spool.verifier().verify(&()).findings, []);
    drop(spool);
    let (spool, _) = open(&disk, &config);
    assert!(everything(&spool) == before && spool.hidden().is_empty());
}

#[test]
fn a_hidden_article_is_cancelled_purged_and_overwritten_like_any_other() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let config = small_config();
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, GROUPS);
    (0..2).for_each(|n| drop(commit(&spool, &batch(n)).unwrap()));
    let all: Vec<String> = (0..2 * PER_BATCH).map(|n| news(n).id).collect();
    let wildmat = Wildmat::parse(PURGED.as_bytes()).unwrap();
    let planned = |spool: &Spool| spool.purge(&wildmat, true, &()).unwrap();
    let before = planned(&spool);
    assert!(before.numbers > 4, "{before:?}");
    assert!(hide(&spool, &all).unwrap().iter().all(|h| *h == HideOutcome::Hidden));
    assert_eq!(agree(&spool), []);
    assert_eq!(planned(&spool), before);
    assert!(spool.cancel(all[17].as_bytes()).unwrap());
    assert_eq!((spool.hidden().len(), spool.meter().status().unwrap().articles), (17, 17));
    let report = spool.purge(&Wildmat::parse(PURGED.as_bytes()).unwrap(), false, &()).unwrap();
    assert_eq!(spool.hidden().len() as u64, 17 - report.articles);
    assert_eq!(spool.verifier().verify(&()).findings, []);
    let stay: Vec<String> = spool.hidden().iter().map(|h| h.message_id.clone()).collect();
    assert!(unhide(&spool, &all[17..]).unwrap() == [false]);
    let half = stay.len() / 2;
    assert!(unhide(&spool, &stay[..half]).unwrap().iter().all(|shown| *shown));
    let shown: BTreeSet<String> = agree(&spool).into_iter().map(|row| row.2).collect();
    assert_eq!(shown, stay[..half].iter().cloned().collect());
    assert!(!agree(&spool).iter().any(|row| row.0 == PURGED));
    (2..14).for_each(|n| drop(commit(&spool, &batch(n)).unwrap()));
    assert!(spool.hidden().is_empty(), "{:?}", spool.hidden());
    assert!(unhide(&spool, &stay[half..]).unwrap().iter().all(|shown| !shown));
    assert_eq!(spool.lookup(&spool.key(stay[half].as_bytes())), Lookup::Gone);
    let living: BTreeSet<String> = agree(&spool).into_iter().map(|row| row.2).collect();
    assert_eq!(spool.meter().status().unwrap().articles, living.len() as u64);
    assert_eq!(spool.verifier().verify(&()).findings, []);
}

/// Nothing is hidden that cannot be recorded, and what has no place is refused.
#[test]
fn what_cannot_be_recorded_is_refused() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &large_config());
    add_groups(&spool, GROUPS);
    commit(&spool, &batch(0)).unwrap();
    let id = news(0).id;
    for (by, reason) in [("", "x".to_owned()), ("x", "y".repeat(REASON_BYTES_MAX + 1))] {
        let refused = spool.hide_all(&[id.as_bytes()], by, &reason).unwrap_err();
        assert_eq!(refused.kind, TroubleKind::Refused, "{refused}");
    }
    let by = "x".repeat(HIDER_BYTES_MAX);
    let outcomes =
        spool.hide_all(&[id.as_bytes(), id.as_bytes()], &by, &"y".repeat(REASON_BYTES_MAX)).unwrap();
    assert_eq!(outcomes, [HideOutcome::Hidden, HideOutcome::Already]);
}

/// An article hidden as it is filed is like one hidden afterwards, but no reader ever saw it.
#[test]
fn what_is_filed_hidden_is_shown_once_it_is_to_be() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let config = large_config();
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, GROUPS);
    commit(&spool, &filed_hidden(0)).unwrap();
    let ids: Vec<String> = filed_hidden(0).into_iter().filter(|n| n.is_hidden).map(|n| n.id).collect();
    let check = |spool: &Spool| {
        assert_eq!(agree(spool).iter().filter(|row| ids.contains(&row.2)).count(), 0);
        for id in &ids {
            let hidden = spool.hidden_article(&spool.key(id.as_bytes())).unwrap();
            assert_eq!((&hidden.message_id, &*hidden.by, &*hidden.reason), (id, "spam", "a filter"));
        }
        assert_eq!(spool.meter().status().unwrap().hidden, 2);
        assert_eq!(spool.verifier().verify(&()).findings, []);
    };
    check(&spool);
    assert_eq!(spool.groups().iter().map(|g| g.marks().high).max(), Some(6));
    drop(spool);
    let (spool, recovery) = open(&disk, &config);
    assert!(recovery.crashed);
    check(&spool);
    // A rebuild that finds no checkpoint takes it from the rows.
    drop(spool);
    let dir = Path::new("/s/index");
    for checkpoint in ["checkpoint", "checkpoint.copy"] {
        disk.remove(&dir.join(checkpoint)).unwrap_or_default();
    }
    let (spool, _) = open(&disk, &config);
    check(&spool);
    assert_eq!(unhide(&spool, &ids).unwrap(), [true; 2]);
    let shown = agree(&spool);
    assert!(ids.iter().all(|id| shown.iter().any(|row| row.2 == *id)));
    drop(spool);
    let (spool, _) = open(&disk, &config);
    assert!(spool.hidden().is_empty() && agree(&spool) == shown);
}

/// State that an article must have after a crash.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Shown,
    /// It was being filed hidden.
    NeverShown,
    Hidden,
    Cancelled,
    /// The machine ended meanwhile.
    Either,
}

#[derive(Default)]
struct Told {
    named: HashMap<(String, u64), String>,
    fates: BTreeMap<String, Fate>,
    purged: bool,
    fed: u64,
}

impl Told {
    /// Runs what changes the fate of articles.
    fn change<T>(
        &mut self,
        ids: &[String],
        fate: Fate,
        change: impl FnOnce() -> Result<T, SpoolTrouble>,
    ) -> TestResult {
        self.fates.extend(ids.iter().map(|id| (id.clone(), Fate::Either)));
        change()?;
        self.fates.extend(ids.iter().map(|id| (id.clone(), fate)));
        Ok(())
    }

    fn note(&mut self, spool: &Spool) {
        for (group, number, id) in agree(spool) {
            let old = self.named.insert((group.clone(), number), id.clone());
            assert!(old.is_none_or(|old| old == id), "{group}:{number} named two articles");
        }
    }
}

fn feed(spool: &Spool, n: u64) -> TestResult {
    let (ticket, _) = commit(spool, &filed_hidden(n))?;
    while !spool.is_durable(ticket) {
        if let Some(trouble) = spool.trouble() {
            return Err(trouble.into());
        }
        std::thread::yield_now();
    }
    Ok(())
}

fn purge(spool: &Spool) -> Result<PurgeReport, SpoolTrouble> {
    spool.purge(&Wildmat::parse(PURGED.as_bytes()).unwrap(), false, &())
}

/// Hides, shows, cancels and purges in a spool that wraps twice.
fn run(sim: &SimDisk, told: &mut Told) -> TestResult {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = Spool::open(disk, small_config(), &())?;
    let new = |i| NewGroup { name: format!("test.g{i}"), created: NOW, ..NewGroup::default() };
    spool.add_groups(&(0..GROUPS).map(new).collect::<Vec<_>>())?;
    for n in 0..8 {
        let ids: Vec<String> = batch(n).into_iter().map(|x| x.id).collect();
        told.fates.extend(ids[7..].iter().map(|id| (id.clone(), Fate::NeverShown)));
        feed(&spool, n)?;
        told.fates.extend(ids[7..].iter().map(|id| (id.clone(), Fate::Hidden)));
        told.fed = (n + 1) * PER_BATCH;
        if sim.crashed() {
            return Err("the machine has ended".into());
        }
        told.note(&spool);
        told.change(&ids[..5], Fate::Hidden, || hide(&spool, &ids[..5]))?;
        told.change(&ids[..2], Fate::Shown, || unhide(&spool, &ids[..2]))?;
        let keys = [1, 4, 6].map(|at| spool.key(ids[at].as_bytes()));
        let cancelled = [1, 4, 6].map(|at| ids[at].clone());
        told.change(&cancelled, Fate::Cancelled, || spool.cancel_all(&keys))?;
        if n % 3 == 1 {
            let _ = spool.overview().pack(&mut |_| true);
        }
        if n == 4 {
            purge(&spool)?;
            told.purged = true;
        }
    }
    Ok(spool.close()?)
}

fn check(image: SimDisk, told: &Told, what: &str) {
    let disk: Arc<dyn Disk> = Arc::new(image);
    let (spool, recovery) = Spool::open(disk, small_config(), &()).unwrap_or_else(|e| panic!("{what}: {e}"));
    check_open(&spool, told, &format!("{what} ({recovery})"));
}

fn check_open(spool: &Spool, told: &Told, what: &str) {
    assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
    let named = agree(spool);
    for (id, fate) in &told.fates {
        let found = spool.lookup(&spool.key(id.as_bytes()));
        assert_eq!(fetch(spool, id).is_some(), matches!(found, Lookup::Present(_)), "{what}: {id}");
        match (fate, found) {
            (Fate::Hidden, Lookup::Hidden(_) | Lookup::Gone)
            | (Fate::Shown, Lookup::Present(_) | Lookup::Gone)
            | (Fate::Cancelled, Lookup::Remembered | Lookup::Gone)
            | (Fate::NeverShown, Lookup::Hidden(_) | Lookup::Gone | Lookup::Unknown)
            | (Fate::Either, _) => {}
            // A purge that was running when the machine ended.
            (Fate::Hidden | Fate::Shown, Lookup::Remembered) => {}
            (fate, found) => panic!("{what}: {id} is to be {fate:?} and is {found:?}"),
        }
        let is_named = named.iter().any(|row| row.2 == *id);
        assert_eq!(is_named, matches!(found, Lookup::Present(_)), "{what}: {id}");
    }
    // All are shown again, each under its own numbers, and no number ever names another article.
    let ids: Vec<String> = spool.hidden().iter().map(|h| h.message_id.clone()).collect();
    add_groups(spool, GROUPS);
    assert!(unhide(spool, &ids).unwrap().iter().all(|shown| *shown), "{what}");
    let now = agree(spool);
    assert!(ids.iter().all(|id| now.iter().any(|row| row.2 == *id)), "{what}");
    let same = |spool: &Spool| {
        for (group, number, id) in agree(spool) {
            let old = told.named.get(&(group.clone(), number));
            assert!(old.is_none_or(|old| *old == id), "{what}: {group}:{number} names {id}, not {old:?}");
        }
    };
    same(spool);
    hide(spool, &ids).unwrap();
    for n in 0..16 {
        commit(spool, &batch(n)).unwrap_or_else(|e| panic!("{what}: {e}"));
    }
    same(spool);
    assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
}

fn steps() -> u64 {
    let (sim, mut told) = (SimDisk::new(), Told::default());
    run(&sim, &mut told).unwrap();
    assert!(told.purged && told.fed == 8 * PER_BATCH);
    check(sim.image().unwrap(), &told, "closed in order");
    sim.steps()
}

fn crash_everywhere(kind: CrashKind) {
    let steps = steps();
    assert!(steps > 100, "{steps}");
    crashed_at((0..steps + 2).step_by(crash_every(7)), kind, run, check);
}

#[test]
fn killed_at_every_step_of_hiding() {
    crash_everywhere(CrashKind::Kill);
}

#[test]
fn power_cut_at_every_step_of_hiding() {
    crash_everywhere(CrashKind::Power);
}

#[test]
fn power_cut_that_loses_all_unsynced_of_hiding() {
    crash_everywhere(CrashKind::Lost);
}

/// The row of an article says that it is hidden. Where a crash takes that and leaves the article, another row
/// says it, which was durable before the article was stored.
#[test]
fn what_is_filed_hidden_is_not_shown_without_its_row() {
    let start = |sim: &SimDisk| {
        let (spool, _) = open(&(Arc::new(sim.clone()) as Arc<dyn Disk>), &large_config());
        add_groups(&spool, GROUPS);
        let (ticket, _) = commit(&spool, &batch(0)).unwrap();
        wait_until("not durable", || spool.is_durable(ticket));
        spool
    };
    let mut without_rows = 0;
    for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
        for step in 0.. {
            let sim = SimDisk::new();
            let spool = start(&sim);
            sim.crash_at(sim.steps() + step, kind, step * 7919);
            let fed = catch_unwind(AssertUnwindSafe(|| feed(&spool, 1)));
            let ended = !sim.crashed();
            drop(catch_unwind(AssertUnwindSafe(|| drop(spool))));
            let disk: Arc<dyn Disk> = Arc::new(sim.image().unwrap());
            let (spool, recovery) = open(&disk, &large_config());
            let what = format!("{kind:?} at step {step} ({recovery})");
            let found: Vec<Lookup> =
                batch(1)[7..].iter().map(|news| spool.lookup(&spool.key(news.id.as_bytes()))).collect();
            let is_hidden = |found: &Lookup| matches!(found, Lookup::Hidden(_));
            let is_right = |found: &Lookup| is_hidden(found) || *found == Lookup::Unknown;
            assert!(found.iter().all(is_right), "{what}: {found:?}");
            assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
            without_rows += u64::from(recovery.taken_in == PER_BATCH && found.iter().all(is_hidden));
            if ended {
                assert!(fed.is_ok_and(|fed| fed.is_ok()) && found.iter().all(is_hidden), "{what}");
                break;
            }
        }
    }
    assert!(without_rows > 0, "no article was found without its row");
}

#[test]
fn every_call_of_hiding_may_fail() {
    failed_at((0..steps()).step_by(crash_every(7)), run, check);
}

/// A rebuild that is killed goes on with what the one before it knew, however often.
#[test]
fn killed_at_every_step_of_a_rebuild_what_is_hidden_stays_hidden() {
    let (sim, mut told) = (SimDisk::new(), Told::default());
    run(&sim, &mut told).unwrap();
    let hidden = |spool: &Spool| -> BTreeSet<String> {
        spool.hidden().iter().map(|hidden| hidden.message_id.clone()).collect()
    };
    let (spool, _) = open(&(Arc::new(sim.clone()) as Arc<dyn Disk>), &small_config());
    let before = hidden(&spool);
    assert!(before.len() > 3, "{before:?}");
    spool.close().unwrap();
    drop(spool);
    // No row of theirs is left.
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    for name in disk.list(Path::new("/s/journal")).unwrap() {
        disk.remove(&Path::new("/s/journal").join(name)).unwrap();
    }
    let base = sim.image().unwrap();
    let whole = base.image().unwrap();
    let first = whole.steps();
    rebuild(Arc::new(whole.clone()), small_config(), &()).unwrap();
    let count = whole.steps() - first;
    assert!(count > 20, "{count}");
    for step in (0..count).step_by(crash_every(3)) {
        let mut sim = base.image().unwrap();
        for again in 0..2 {
            sim.crash_at(sim.steps() + step, CrashKind::Power, step + again);
            let disk: Arc<dyn Disk> = Arc::new(sim.clone());
            let ended = catch_unwind(AssertUnwindSafe(|| rebuild(disk, small_config(), &()).is_ok()));
            assert!(sim.crashed() || ended.is_ok());
            sim = sim.image().unwrap();
        }
        let (spool, recovery) = open(&(Arc::new(sim) as Arc<dyn Disk>), &small_config());
        assert_eq!(hidden(&spool), before, "step {step}: {recovery}");
        assert_eq!(spool.verifier().verify(&()).findings, [], "step {step}: {recovery}");
        agree(&spool);
    }
}
