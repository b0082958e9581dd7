//! A journal that lost rows which no crash explains: files full of zeros, cut to nothing or removed. What was
//! acknowledged is found again where it was stored, and no number names another article (guarantees G1, G2,
//! G4).

use crate::news::*;
use disk::{Disk, OpenMode, SimDisk};
use spool::*;
use std::collections::HashMap;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const GROUPS: u64 = 3;
const SCALE: u64 = 900;
/// Articles acknowledged after the checkpoint of a spool that was closed in order.
const FED: u64 = 230;

/// Damage to a journal file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// As long as before, and all zeros.
    Zeros,
    /// The head and some rows are there, then come zeros.
    ZerosFrom(u64),
    /// Of length 0.
    Empty,
    Removed,
}

/// Which files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    First,
    Last,
    All,
}

fn kept(method: MethodKind) -> SpoolConfig {
    let mut config = config("/s", &[]);
    let class = &mut config.classes[0];
    class.method = method;
    class.tree = TreeConfig { path: PathBuf::from("/s/kept"), file_bytes: 64 << 10, ..TreeConfig::default() };
    config
}

fn lose(disk: &Arc<dyn Disk>, loss: Loss, which: Which) {
    let dir = Path::new("/s/journal");
    let names = disk.list(dir).unwrap();
    let lost = match which {
        Which::First => &names[..1],
        Which::Last => &names[names.len() - 1..],
        Which::All => &names[..],
    };
    for path in lost.iter().map(|name| dir.join(name)) {
        let file = disk.open(&path, OpenMode::Existing).unwrap();
        let len = file.len().unwrap();
        let from = if let Loss::ZerosFrom(from) = loss { from } else { 0 };
        match loss {
            Loss::Zeros | Loss::ZerosFrom(_) => {
                let zeros = vec![0; len.saturating_sub(from) as usize];
                file.write_all_at(&[IoSlice::new(&zeros)], from).unwrap();
            }
            Loss::Empty => file.set_len(0).unwrap(),
            Loss::Removed => disk.remove(&path).unwrap(),
        }
    }
}

fn feed(spool: &Spool, range: std::ops::Range<u64>) {
    let news: Vec<News> = range.map(|n| News::new(n, GROUPS, SCALE)).collect();
    for part in news.chunks(7) {
        let (ticket, outcomes) = commit(spool, part).unwrap();
        assert!(outcomes.iter().all(|o| matches!(o, ChangeOutcome::Filed(_))), "{outcomes:?}");
        while !spool.is_durable(ticket) {
            std::thread::yield_now();
        }
    }
}

fn high_marks(spool: &Spool) -> HashMap<String, u64> {
    spool.groups().iter().map(|g| (g.name.to_string(), g.marks().high)).collect()
}

/// A spool that was closed, opened again, fed, and killed or closed. `damage` is done to it; the next start
/// must find what was acknowledged, and go on.
fn survives(
    config: &SpoolConfig,
    killed: bool,
    damage: &dyn Fn(&Arc<dyn Disk>),
    what: &str,
) -> RecoveryReport {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, config);
    // Some groups get no articles.
    add_groups(&spool, GROUPS + 40);
    feed(&spool, 0..50);
    spool.close().unwrap();
    drop(spool);
    let (spool, _) = open(&disk, config);
    feed(&spool, 50..50 + FED);
    let cancelled = News::new(40 + FED, GROUPS, SCALE).id;
    assert!(spool.cancel(cancelled.as_bytes()).unwrap());
    feed(&spool, 50 + FED..60 + FED);
    let (before, high) = (agree(&spool), high_marks(&spool));
    if !killed {
        spool.close().unwrap();
    }
    drop(spool);
    damage(&disk);

    let (spool, recovery) = open(&disk, config);
    let what = format!("{what}: {recovery}");
    let now = agree(&spool);
    let lost: Vec<_> = before.iter().filter(|named| !now.contains(named)).collect();
    let ids: std::collections::BTreeSet<_> = lost.iter().map(|(_, _, id)| id).collect();
    assert!(ids.len() as u64 <= recovery.given_up, "{what}: {} are lost: {lost:?}", ids.len());
    assert_eq!(fetch(&spool, &cancelled), None, "{what}");
    // Of a cancelled article whose file is removed only the journal tells.
    if !matches!(config.classes[0].method, MethodKind::Tradspool | MethodKind::Hashed | MethodKind::Timehash)
    {
        assert!(spool.is_known(&spool.key(cancelled.as_bytes())), "{what}");
    }
    for (group, high) in &high {
        let now = high_marks(&spool).get(group).copied();
        assert!(now >= Some(*high), "{what}: the high mark of {group} went from {high} to {now:?}");
    }
    feed(&spool, 60 + FED..100 + FED);
    let named: HashMap<_, _> = before.into_iter().map(|(group, number, id)| ((group, number), id)).collect();
    for (group, number, id) in agree(&spool) {
        let old = named.get(&(group.clone(), number));
        assert!(old.is_none_or(|old| *old == id), "{what}: {group}:{number} names another article now");
    }
    let mut findings = spool.verifier().verify(&()).findings;
    // The rest of a damaged file is still there, and still damaged.
    findings.retain(|finding| !finding.place.starts_with("/s/journal/"));
    assert_eq!(findings, [], "{what}");
    spool.close().unwrap();
    recovery
}

fn lose_checkpoint(disk: &Arc<dyn Disk>) {
    for name in ["checkpoint", "checkpoint.copy"] {
        disk.remove(&Path::new("/s/index").join(name)).unwrap();
    }
}

/// Returns how many losses were tried.
fn every_loss(config: &SpoolConfig, losses: &[Loss]) -> usize {
    let mut tried = 0;
    let journal_files = if config.journal_file_bytes > 1 << 20 { 1 } else { 3 };
    for (killed, checkpoint) in [(true, true), (true, false), (false, true), (false, false)] {
        for loss in losses {
            for which in [Which::First, Which::Last, Which::All].into_iter().take(journal_files) {
                let damage = |disk: &Arc<dyn Disk>| {
                    lose(disk, *loss, which);
                    if !checkpoint {
                        lose_checkpoint(disk);
                    }
                };
                survives(
                    config,
                    killed,
                    &damage,
                    &format!("{loss:?} {which:?}, killed {killed}, {checkpoint}"),
                );
                tried += 1;
            }
        }
    }
    tried
}

const LOSSES: [Loss; 5] =
    [Loss::Zeros, Loss::ZerosFrom(4096), Loss::ZerosFrom(20_000), Loss::Empty, Loss::Removed];

/// A first journal file of zeros begins at position 0 as its name says: it was taken for a journal that ends
/// there, and so for a spool closed in order, as the checkpoint has it.
#[test]
fn a_first_file_of_zeros_is_no_end() {
    let config = SpoolConfig { journal_file_bytes: 8 << 20, ..config("/s", &[("a", 4 << 20)]) };
    for killed in [true, false] {
        survives(&config, killed, &|disk| lose(disk, Loss::Zeros, Which::First), &format!("killed {killed}"));
    }
}

/// The rest of the only file is lost, and with it the record that the spool was ever opened again: only the
/// buffers know.
#[test]
fn records_at_the_write_position_show_that_rows_are_missing() {
    let config =
        SpoolConfig { journal_file_bytes: 8 << 20, ..config("/s", &[("a", 4 << 20), ("b", 4 << 20)]) };
    for killed in [true, false] {
        let damage = |disk: &Arc<dyn Disk>| {
            lose(disk, Loss::ZerosFrom(checkpoint_position(disk)), Which::First);
        };
        survives(&config, killed, &damage, &format!("killed {killed}"));
    }
}

/// Where the rows end that the checkpoint covers.
fn checkpoint_position(disk: &Arc<dyn Disk>) -> u64 {
    let file = disk.open(Path::new("/s/index/checkpoint"), OpenMode::ReadOnly).unwrap();
    let mut position = [0; 8];
    file.read_exact_at(&mut position, 12).unwrap();
    u64::from_le_bytes(position)
}

#[test]
fn every_loss_of_a_journal_of_one_file() {
    let config = SpoolConfig { journal_file_bytes: 8 << 20, ..config("/s", &[("a", 4 << 20)]) };
    assert_eq!(every_loss(&config, &LOSSES), 20);
}

#[test]
fn every_loss_of_a_journal_of_many_files() {
    assert_eq!(every_loss(&config("/s", &[("a", 2 << 20), ("b", 2 << 20)]), &LOSSES), 60);
}

#[test]
fn every_loss_with_buffers_that_wrapped() {
    for (journal_file_bytes, losses) in [(64 << 10, 60), (8 << 20, 20)] {
        let config = SpoolConfig { journal_file_bytes, ..config("/s", &[("a", 150_000), ("b", 90_000)]) };
        assert_eq!(every_loss(&config, &LOSSES), losses);
    }
}

#[test]
fn every_loss_with_methods_that_keep() {
    for method in [MethodKind::AppendOnly, MethodKind::Tradspool, MethodKind::Hashed, MethodKind::Timehash] {
        let config = SpoolConfig { journal_file_bytes: 8 << 20, ..kept(method) };
        assert_eq!(every_loss(&config, &LOSSES), 20, "{method:?}");
    }
}
