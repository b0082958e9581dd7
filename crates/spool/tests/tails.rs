//! Reading the journal while it is written: in memory, with a cursor file, and too slowly
//! (`docs/formats/cursor.md`).

use crate::news::*;
use disk::{CrashKind, Disk, FileAccess, OpenMode, SimDisk, durable_replace, read_small};
use spool::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const GROUPS: u64 = 3;
const BATCHES: u64 = 16;
const PER_BATCH: u64 = 6;
/// After this many batches the buffer has wrapped.
const WRAPPED: u64 = 80;
/// After this a reader that waits has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Small journal files, which go at the next checkpoint unless they are claimed.
fn tail_config() -> SpoolConfig {
    let mut config = config("/s", &[("a", 8192 + 4096 + 400 * 512)]);
    config.checkpoint_rows = 20;
    config.journal_file_bytes = 4 << 10;
    config.full_disk_retry = Duration::from_millis(1);
    config.article_bytes_max = 4096;
    config.overview = OverviewShape { block_text_bytes: 1024, segment_bytes: 4096 };
    config
}

fn batch(n: u64) -> Vec<News> {
    (n * PER_BATCH..(n + 1) * PER_BATCH).map(|i| News::new(i, GROUPS, 700)).collect()
}

fn ids(news: &[News]) -> Vec<String> {
    news.iter().map(|n| n.id.clone()).collect()
}

/// The Message-IDs of a batch's articles; each row has what peers will want to know.
fn articles(batch: &JournalBatch, out: &mut Vec<String>) {
    for (_, event) in batch.events() {
        if let JournalEvent::Article(article) = event {
            // Rows that recovery wrote have no tagged fields.
            if article.tagged != TaggedFields::default() {
                assert_eq!(article.tagged.has_passed(b"OTHER"), Some(true));
                assert_eq!(article.tagged.origin(), Some(&b"peer other"[..]));
                assert!(article.tagged.wire_bytes().unwrap() > 100);
            }
            out.push(String::from_utf8(article.message_id.to_vec()).unwrap());
        }
    }
}

/// All that there is for a tail now.
fn drain(tail: &mut Tail) -> TestResult<Vec<String>> {
    drain_by(|batch| Ok(tail.next(batch)?))
}

fn drain_cursor(cursor: &mut Cursor) -> TestResult<Vec<String>> {
    drain_by(|batch| Ok(cursor.next(batch)?))
}

fn drain_by(mut next: impl FnMut(&mut JournalBatch) -> TestResult) -> TestResult<Vec<String>> {
    let (mut batch, mut seen) = (JournalBatch::default(), Vec::new());
    loop {
        next(&mut batch)?;
        if batch.is_empty() {
            return Ok(seen);
        }
        articles(&batch, &mut seen);
    }
}

fn await_durable(spool: &Spool, ticket: CommitTicket) -> TestResult {
    while !spool.is_durable(ticket) {
        if let Some(trouble) = spool.trouble() {
            return Err(trouble.into());
        }
        std::thread::yield_now();
    }
    Ok(())
}

fn journal_files(disk: &dyn Disk) -> usize {
    disk.list(Path::new("/s/journal")).unwrap().iter().filter(|name| name.ends_with(".journal")).count()
}

#[test]
fn a_waiting_tail_is_woken_and_sees_what_readers_see() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &tail_config());
    add_groups(&spool, GROUPS);
    commit(&spool, &batch(0)).unwrap();
    let mut tail = spool.journal().tail("memory", TailStart::Now).unwrap();
    assert!(!tail.wait(Duration::ZERO));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut rows, mut seen) = (JournalBatch::default(), Vec::new());
            while !tail.is_ended() {
                assert!(tail.wait(PATIENCE), "it was not woken");
                tail.next(&mut rows).unwrap();
                let mut new = Vec::new();
                articles(&rows, &mut new);
                // Whatever a tail returns can be read at once.
                assert!(new.iter().all(|id| fetch(&spool, id).is_some()));
                seen.extend(new);
            }
            seen
        });
        for n in 1..BATCHES {
            commit(&spool, &batch(n)).unwrap();
        }
        spool.close().unwrap();
        let all: Vec<String> = (1..BATCHES).flat_map(|n| ids(&batch(n))).collect();
        assert_eq!(reader.join().unwrap(), all);
    });
    assert_eq!(tail.pin().lost(), (0, 0));
}

#[test]
fn a_tail_that_keeps_its_file_open_goes_on_to_the_next_ones() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &tail_config());
    add_groups(&spool, GROUPS);
    let mut open = spool.journal().tail("open", TailStart::Now).unwrap().kept_open();
    let mut other = spool.journal().tail("other", TailStart::Now).unwrap();
    let mut files = BTreeSet::new();
    for n in 0..WRAPPED {
        let batch = batch(n);
        commit(&spool, &batch).unwrap();
        assert_eq!(drain(&mut open).unwrap(), ids(&batch), "{n}");
        assert_eq!(drain(&mut other).unwrap(), ids(&batch), "{n}");
        assert_eq!(open.mark().sequence, other.mark().sequence);
        files.extend(disk.list(Path::new("/s/journal")).unwrap());
    }
    assert!(files.len() > 10, "it never left its first file: {files:?}");
    assert_eq!(open.pin().lost(), (0, 0));
    spool.close().unwrap();
}

#[test]
fn rows_are_passed_over_only_where_no_article_goes_to_a_site() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &tail_config());
    add_groups(&spool, GROUPS);
    let mut tail = spool.journal().tail("feeds", TailStart::Now).unwrap().kept_open();
    let mut all = spool.journal().tail("all", TailStart::Now).unwrap();
    let (mut sent, mut passed_over) = (Vec::new(), 0);
    for n in 0..WRAPPED {
        let mut batch = batch(n);
        if n % 5 == 3 {
            batch[2].sites = &[0, 4];
            sent.push(batch[2].id.clone());
        } else if n % 2 == 0 {
            // Guards have left none.
            batch[0].sites = &[0, 0];
        }
        commit(&spool, &batch).unwrap();
        drain(&mut all).unwrap();
        if n % 7 == 1 {
            // The next time there are rows of several commits, across files of the journal.
            continue;
        }
        if tail.pass_over_unsent() {
            passed_over += 1;
        } else {
            let seen = drain(&mut tail).unwrap();
            sent.retain(|id| !seen.contains(id));
        }
        // Where a file ends, the position may be before or after the head of the next one.
        assert_eq!((tail.mark().sequence, tail.unread_bytes()), (all.mark().sequence, 0), "{n}");
        assert!(!tail.pass_over_unsent(), "there is nothing more");
    }
    assert!(passed_over > 20, "{passed_over}");
    assert!(sent.is_empty(), "not seen: {sent:?}");
    assert_eq!(tail.pin().lost(), (0, 0));
}

#[test]
fn a_task_is_woken_and_other_events_are_seen() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};
    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &tail_config());
    add_groups(&spool, GROUPS);
    let mut tail = spool.journal().tail("memory", TailStart::Now).unwrap();
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let poll = |tail: &Tail| tail.poll_rows(&Context::from_waker(&waker));
    assert_eq!(poll(&tail), Poll::Pending);
    assert_eq!(poll(&tail), Poll::Pending);
    commit(&spool, &batch(0)).unwrap();
    assert_eq!(count.0.load(Ordering::Relaxed), 1, "once, and not for each look");
    assert_eq!(poll(&tail), Poll::Ready(()));
    let id = batch(0)[1].id.clone();
    assert!(spool.cancel(id.as_bytes()).unwrap());
    spool.remove_group("test.g2").unwrap();
    let mut rows = JournalBatch::default();
    let mut seen = Vec::new();
    while !rows.is_empty() || seen.is_empty() {
        tail.next(&mut rows).unwrap();
        seen.extend(rows.events().filter_map(|(_, event)| match event {
            JournalEvent::Cancelled { key, .. } => Some(key == spool.key(id.as_bytes())),
            JournalEvent::GroupRemoved { name } => Some(name == "test.g2"),
            _ => None,
        }));
    }
    assert_eq!(seen, [true, true]);
    assert_eq!(poll(&tail), Poll::Pending);
}

#[test]
fn a_claim_keeps_the_journal_within_its_bounds_and_what_is_lost_is_counted() {
    for (bytes, secs, loses) in [(1 << 30, 1 << 30, false), (8 << 10, 1 << 30, true), (1 << 30, 0, true)] {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let mut config = tail_config();
        (config.journal_claim_bytes, config.journal_claim_secs) = (bytes, secs);
        let (spool, _) = open(&disk, &config);
        add_groups(&spool, GROUPS);
        let mut slow = spool.journal().tail("slow", TailStart::Now).unwrap();
        for n in 0..BATCHES {
            commit(&spool, &batch(n)).unwrap();
        }
        spool.close().unwrap();
        let status = spool.journal().status().remove(0);
        assert_eq!((status.name.as_str(), status.durable), ("slow", false));
        assert!(status.backlog_bytes > 12 << 10);
        let seen = drain(&mut slow).unwrap();
        let (lost_bytes, lost) = slow.pin().lost();
        assert_eq!((lost > 0, lost_bytes > 0), (loses, loses), "{bytes} bytes, {secs} s");
        assert_eq!(seen.len() as u64 + lost, BATCHES * PER_BATCH, "{bytes} bytes, {secs} s");
        let all: Vec<String> = (0..BATCHES).flat_map(|n| ids(&batch(n))).collect();
        assert_eq!(seen, all[lost as usize..], "the newest are kept, in order");
    }
}

/// Without a reader nothing is claimed; with one that is given up nothing is either.
#[test]
fn what_nobody_claims_is_removed() {
    let files = |keep_pin: bool| {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let (spool, _) = open(&disk, &tail_config());
        add_groups(&spool, GROUPS);
        let pin = spool.journal().tail("idle", TailStart::Now).unwrap();
        let pin = keep_pin.then_some(pin);
        (0..BATCHES).for_each(|n| _ = commit(&spool, &batch(n)).unwrap());
        spool.close().unwrap();
        drop(pin);
        journal_files(&*disk)
    };
    let (claimed, free) = (files(true), files(false));
    assert!(claimed > 3 && free <= 2, "{claimed} files claimed, {free} not");
}

/// A disk that claims have filled is freed by the writer alone; readers count what it costs.
#[test]
fn on_a_full_disk_accepting_wins_over_claims() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let config = tail_config();
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, GROUPS);
    // Until the buffer has wrapped: indexes hardly grow from then on.
    (0..WRAPPED).for_each(|n| _ = commit(&spool, &batch(n)).unwrap());
    let slow = spool.journal().cursor("slow", TailStart::Now).unwrap();
    let (mut n, mut accepted) = (WRAPPED, 0);
    while spool.journal().status()[0].backlog_bytes < 64 * config.journal_file_bytes {
        commit(&spool, &batch(n)).unwrap();
        (n, accepted) = (n + 1, accepted + PER_BATCH);
    }
    // The checkpoint that closing takes needs none of this.
    spool.close().unwrap();
    drop((slow, spool));
    let (spool, _) = open(&disk, &config);
    let mut slow = spool.journal().cursor("slow", TailStart::Now).unwrap();
    assert!(journal_files(&*disk) > 40, "it is still claimed");
    sim.leave_bytes(4 * config.journal_file_bytes);
    let mut file = |n: u64| match commit(&spool, &batch(n)) {
        Ok((_, outcomes)) => {
            accepted += outcomes.iter().filter(|o| matches!(o, ChangeOutcome::Filed(_))).count() as u64;
            true
        }
        Err(trouble) => {
            assert_eq!(trouble.kind, TroubleKind::Full, "{trouble}");
            false
        }
    };
    while file(n) {
        n += 1;
        assert!(n < 1000, "the disk is never full");
    }
    assert_eq!(slow.tail().pin().lost(), (0, 0));
    wait_until("the spool accepts again", || file(n));
    assert!(file(n + 1), "there is room for more than one");
    let seen = drain_cursor(&mut slow).unwrap();
    let (_, lost) = slow.tail().pin().lost();
    assert!(lost > 0);
    assert!(seen.len() as u64 + lost >= accepted, "{} seen, {lost} lost of {accepted}", seen.len());
    slow.save().unwrap();
    let readers = spool.meter().report().readers;
    assert_eq!((readers[0].name.as_str(), readers[0].lost_articles), ("slow", lost));
}

/// A cursor beyond the end of a journal that was lost begins with what there is.
#[test]
fn a_cursor_outlives_the_journal() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = open(&disk, &tail_config());
    add_groups(&spool, GROUPS);
    let mut cursor = spool.journal().cursor("durable", TailStart::Oldest).unwrap();
    (0..BATCHES).for_each(|n| _ = commit(&spool, &batch(n)).unwrap());
    drain_cursor(&mut cursor).unwrap();
    spool.close().unwrap();
    cursor.save().unwrap();
    drop((cursor, spool));
    for name in disk.list(Path::new("/s/journal")).unwrap() {
        if name.ends_with(".journal") {
            disk.remove(&Path::new("/s/journal").join(name)).unwrap();
        }
    }
    for name in ["checkpoint", "checkpoint.copy"] {
        disk.remove(&Path::new("/s/index").join(name)).unwrap();
    }
    let (spool, recovery) = open(&disk, &tail_config());
    assert!(recovery.rebuilt.is_some(), "{recovery}");
    let mut cursor = spool.journal().cursor("durable", TailStart::Oldest).unwrap();
    commit(&spool, &batch(BATCHES)).unwrap();
    let seen = drain_cursor(&mut cursor).unwrap();
    assert_eq!(seen, ids(&batch(BATCHES)), "what comes after the rebuild, and nothing else");
    assert_eq!(cursor.tail().pin().lost().1, 0, "it had read all that was lost");
}

/// A noted position holds after a kill. After a power cut the reader continues at the saved one.
#[test]
fn a_note_outlives_the_process_and_a_save_the_machine() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = open(&disk, &tail_config());
    add_groups(&spool, GROUPS);
    let mut cursor = spool.journal().cursor("durable", TailStart::Now).unwrap();
    let (ticket, _) = commit(&spool, &batch(0)).unwrap();
    await_durable(&spool, ticket).unwrap();
    assert_eq!(drain_cursor(&mut cursor).unwrap(), ids(&batch(0)));
    cursor.set_decided_from(3);
    cursor.save().unwrap();
    let (ticket, _) = commit(&spool, &batch(1)).unwrap();
    await_durable(&spool, ticket).unwrap();
    assert_eq!(drain_cursor(&mut cursor).unwrap(), ids(&batch(1)));
    cursor.note(cursor.mark()).unwrap();
    cursor.note(cursor.mark()).unwrap();
    for (kind, again) in [(CrashKind::Kill, Vec::new()), (CrashKind::Lost, ids(&batch(1)))] {
        let disk: Arc<dyn Disk> = Arc::new(sim.image_after(kind, 1).unwrap());
        let (spool, _) = open(&disk, &tail_config());
        let mut cursor = spool.journal().cursor("durable", TailStart::Now).unwrap();
        assert_eq!(drain_cursor(&mut cursor).unwrap(), again, "{kind:?}");
        assert_eq!((cursor.decided_from(), cursor.tail().pin().lost()), (Some(3), (0, 0)));
        // It may go back, to any place between two rows.
        let start = spool.journal().mark(TailStart::Oldest).unwrap();
        cursor.seek(start);
        assert_eq!(drain_cursor(&mut cursor).unwrap(), [ids(&batch(0)), ids(&batch(1))].concat());
    }
}

const CURSOR_FILE: &str = "/s/journal/durable.cursor";
/// Distance of the two copies, and the length of each.
const COPY_BYTES: usize = 4_096;
const STATE_BYTES: usize = 76;

/// A spool whose durable reader is done with the first batch, and not with the second.
fn half_read(is_new: bool) -> (SimDisk, Vec<u8>) {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = open(&disk, &tail_config());
    add_groups(&spool, GROUPS);
    let mut cursor = spool.journal().cursor("durable", TailStart::Now).unwrap();
    commit(&spool, &batch(0)).unwrap();
    if !is_new {
        assert_eq!(drain_cursor(&mut cursor).unwrap(), ids(&batch(0)));
    }
    let (ticket, _) = commit(&spool, &batch(1)).unwrap();
    await_durable(&spool, ticket).unwrap();
    if !is_new {
        cursor.save_at(JournalMark { position: cursor.saved().position, ..cursor.mark() }).unwrap();
        cursor.save().unwrap();
    }
    spool.close().unwrap();
    let file = read_small(&sim, Path::new(CURSOR_FILE), 1 << 20).unwrap().unwrap();
    (sim, file)
}

/// Opens the spool with this in place of the cursor's file, and returns what the reader then reads. The
/// reported damage must be `damage`.
fn read_after(
    sim: &SimDisk,
    file: Option<&[u8]>,
    damage: Option<CursorDamage>,
    verifies: bool,
) -> Vec<String> {
    let image = sim.image_after(CrashKind::Kill, 1).unwrap();
    match file {
        Some(bytes) => durable_replace(&image, Path::new(CURSOR_FILE), &[bytes], FileAccess::Group).unwrap(),
        None => image.remove(Path::new(CURSOR_FILE)).unwrap(),
    }
    let disk: Arc<dyn Disk> = Arc::new(image);
    let (spool, _) = open(&disk, &tail_config());
    let findings = || {
        let found = spool.verifier().verify(&()).findings;
        found.into_iter().map(|finding| finding.place).collect::<Vec<_>>()
    };
    if verifies {
        assert_eq!(findings(), damage.iter().map(|_| CURSOR_FILE).collect::<Vec<_>>());
    }
    let mut cursor = spool.journal().cursor("durable", TailStart::Now).unwrap();
    let told = |spool: &Spool, name: &str| {
        spool.journal().status().into_iter().find(|reader| reader.name == name).unwrap().damage
    };
    assert_eq!(told(&spool, "durable"), damage);
    let rows = drain_cursor(&mut cursor).unwrap();
    let aside = format!("{CURSOR_FILE}.damaged");
    assert_eq!(
        disk.about(Path::new(&aside)).unwrap().is_some(),
        damage == Some(CursorDamage::BothCopies),
        "what is damaged is set aside"
    );
    if verifies {
        let expected = if damage == Some(CursorDamage::BothCopies) { vec![aside] } else { Vec::new() };
        assert_eq!(findings(), expected, "the file is whole again");
    }
    // A new reader begins at the place it asks for.
    let mut new = spool.journal().cursor("new", TailStart::Now).unwrap();
    assert_eq!((drain_cursor(&mut new).unwrap(), told(&spool, "new")), (Vec::new(), None));
    rows
}

#[test]
fn each_damaged_byte_of_a_cursor_is_told_and_costs_no_row() {
    let all = [ids(&batch(0)), ids(&batch(1))].concat();
    for is_new in [true, false] {
        let (sim, whole) = half_read(is_new);
        let left = if is_new { all.clone() } else { ids(&batch(1)) };
        assert_eq!(read_after(&sim, Some(&whole), None, true), left);
        let one = Some(CursorDamage::OneCopy);
        let both = Some(CursorDamage::BothCopies);
        for at in 0..STATE_BYTES {
            let flipped = |places: &[usize]| {
                let mut bytes = whole.clone();
                places.iter().for_each(|place| bytes[*place] ^= 1 << (at % 8));
                bytes
            };
            let verifies = at % 19 == 0;
            for copy in [0, COPY_BYTES] {
                let rows = read_after(&sim, Some(&flipped(&[copy + at])), one, verifies);
                assert!(rows == left || rows == all, "{at} of the copy at {copy}: {rows:?}");
                let mut zeroed = whole.clone();
                zeroed[copy..copy + STATE_BYTES].fill(0);
                let rows = read_after(&sim, Some(&zeroed), one, false);
                assert!(rows == left || rows == all, "zeros in the copy at {copy}: {rows:?}");
            }
            let rows = read_after(&sim, Some(&flipped(&[at, COPY_BYTES + at])), both, verifies);
            assert_eq!(rows, all, "{at} of both copies");
            assert_eq!(read_after(&sim, Some(&whole[..at]), both, verifies), all, "cut at {at}");
            let rows = read_after(&sim, Some(&whole[..COPY_BYTES + at]), one, false);
            assert!(rows == left || rows == all, "cut at {at} of the second copy: {rows:?}");
        }
        assert_eq!(read_after(&sim, Some(&vec![0; whole.len()]), both, true), all);
        assert_eq!(read_after(&sim, None, Some(CursorDamage::Missing), true), all);
    }
}

#[test]
fn repair_makes_the_file_of_a_cursor_whole_while_it_is_read_with() {
    let (sim, whole) = half_read(false);
    let disk: Arc<dyn Disk> = Arc::new(sim);
    let (spool, _) = open(&disk, &tail_config());
    let mut cursor = spool.journal().cursor("durable", TailStart::Now).unwrap();
    for spoiled in [0..STATE_BYTES, COPY_BYTES..COPY_BYTES + STATE_BYTES, 0..whole.len()] {
        let file = disk.open(Path::new(CURSOR_FILE), OpenMode::Existing).unwrap();
        file.write_all_at(&[std::io::IoSlice::new(&vec![7; spoiled.len()])], spoiled.start as u64).unwrap();
        let report = spool.repairer().repair(false, &());
        assert_eq!((report.before.problems(), report.after.unwrap().problems()), (1, 0), "{spoiled:?}");
    }
    disk.remove(Path::new(CURSOR_FILE)).unwrap();
    disk.remove(Path::new("/s/journal/readers")).unwrap();
    let report = spool.repairer().repair(false, &());
    assert_eq!((report.before.problems(), report.after.unwrap().problems()), (2, 0));
    assert_eq!(drain_cursor(&mut cursor).unwrap(), ids(&batch(1)));
    drop((cursor, spool));
    // Where it was saved when it was mended: nothing is left out.
    let (spool, _) = open(&disk, &tail_config());
    let mut cursor = spool.journal().cursor("durable", TailStart::Now).unwrap();
    assert_eq!(drain_cursor(&mut cursor).unwrap(), ids(&batch(1)));
}

/// Events before the crash.
#[derive(Default)]
struct History {
    acknowledged: Vec<String>,
    /// Articles that the durable reader had processed.
    done: BTreeSet<String>,
}

/// Three readers: in memory, durable, and one that never reads and loses.
fn run(sim: &SimDisk, config: &SpoolConfig, past: &mut History) -> TestResult {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = Spool::open(disk, config.clone(), &())?;
    let mut durable = spool.journal().cursor("durable", TailStart::Oldest)?;
    let _slow = spool.journal().cursor("slow", TailStart::Oldest)?;
    let new = |i| NewGroup { name: format!("test.g{i}"), created: NOW, ..NewGroup::default() };
    spool.add_groups(&(0..GROUPS).map(new).collect::<Vec<_>>())?;
    let mut memory = spool.journal().tail("memory", TailStart::Now)?;
    for n in 0..BATCHES {
        let (ticket, _) = commit(&spool, &batch(n))?;
        past.done.extend(drain_cursor(&mut durable)?);
        // Mostly of rows that are not durable yet.
        durable.note(durable.mark())?;
        await_durable(&spool, ticket)?;
        past.acknowledged.extend(ids(&batch(n)));
        if n % 3 != 1 {
            durable.save()?;
        }
        if !sim.crashed() {
            assert_eq!(drain(&mut memory)?, ids(&batch(n)));
        }
    }
    Ok(spool.close()?)
}

fn crash_config() -> SpoolConfig {
    SpoolConfig { journal_claim_bytes: 12 << 10, ..tail_config() }
}

/// After a crash the durable reader misses nothing that was acknowledged, the slow one counts what it
/// missed, and both go on with what comes.
fn check(image: SimDisk, config: &SpoolConfig, past: &History, what: &str) {
    let disk: Arc<dyn Disk> = Arc::new(image);
    let (spool, recovery) = open(&disk, config);
    add_groups(&spool, GROUPS);
    let what = format!("{what}: {recovery}");
    let mut durable = spool.journal().cursor("durable", TailStart::Oldest).unwrap();
    let mut slow = spool.journal().cursor("slow", TailStart::Oldest).unwrap();
    assert!(spool.journal().cursor("slow", TailStart::Oldest).is_err(), "a second reader with it");
    let mut memory = spool.journal().tail("memory", TailStart::Now).unwrap();
    let (ticket, _) = commit(&spool, &batch(BATCHES)).unwrap();
    // A position is saved only as far as the journal is durable.
    await_durable(&spool, ticket).unwrap();
    assert_eq!(drain(&mut memory).unwrap(), ids(&batch(BATCHES)), "{what}");
    let again = drain_cursor(&mut durable).unwrap();
    assert!(again.ends_with(&ids(&batch(BATCHES))), "{what}");
    let mut all = past.done.clone();
    all.extend(again.iter().cloned());
    for id in &past.acknowledged {
        assert!(all.contains(id), "{what}: the durable reader misses {id}");
    }
    // Each article that is here was or is past.
    for (group, number, id) in agree(&spool) {
        assert!(all.contains(&id), "{what}: the durable reader misses {id} ({group}:{number})");
    }
    assert_eq!(durable.tail().pin().lost().1, 0, "{what}");
    let seen = drain_cursor(&mut slow).unwrap().len() as u64;
    let (_, lost) = slow.tail().pin().lost();
    let accepted = past.acknowledged.len() as u64 + PER_BATCH;
    assert!(seen + lost >= accepted, "{what}: slow saw {seen}, lost {lost} of {accepted}");
    durable.save().unwrap();
    slow.save().unwrap();
    drop((durable, slow));
    spool.close().unwrap();
    drop(spool);
    let (spool, _) = open(&disk, config);
    let mut durable = spool.journal().cursor("durable", TailStart::Oldest).unwrap();
    assert_eq!(drain_cursor(&mut durable).unwrap().len(), 0, "{what}: what was saved comes again");
    drop(durable);
    assert!(spool.journal().remove_cursor("durable").unwrap());
    assert!(!spool.journal().remove_cursor("durable").unwrap());
    assert_eq!(spool.journal().status().len(), 1);
}

fn crash_everywhere(kind: CrashKind) {
    let config = crash_config();
    let sim = SimDisk::new();
    let mut past = History::default();
    run(&sim, &config, &mut past).unwrap();
    let steps = sim.steps();
    check(sim.image_after(CrashKind::Kill, 1).unwrap(), &config, &past, "closed");
    let every = crash_every(1);
    let tried = crashed_at(
        (0..steps + 5).step_by(every),
        kind,
        |sim, past| run(sim, &config, past),
        |image, past: &History, what| check(image, &config, past, what),
    );
    assert!(tried * every as u64 >= steps);
}

#[test]
fn killed_at_every_step() {
    crash_everywhere(CrashKind::Kill);
}

#[test]
fn power_cut_at_every_step() {
    crash_everywhere(CrashKind::Power);
}

#[test]
fn power_cut_that_loses_all_unsynced_at_every_step() {
    crash_everywhere(CrashKind::Lost);
}
