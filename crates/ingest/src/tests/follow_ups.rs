//! Withdrawals: carried out after the commit, many by one sync, and never lost.

use super::*;
use crate::follow_ups::FollowUpLimits;
use disk::CrashKind;
use spool::{
    Change, ChangeMaker as _, ChangeOutcome, JobLead, OtherMember, SharedLog, SharedLogStatus, SpoolTrouble,
};
use std::pin::pin;
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// RFC 8315 section 5.1.
pub(super) const LOCK: &str = "Cancel-Lock: sha256:s/pmK/3grrz++29ce2/mQydzJuc7iqHn1nqcJiQTPMc=\r\n";
const KEY: &str = "Cancel-Key: sha256:qv1VXHYiCGjkX/N1nhfYKcAeUn8bCVhrWhoKuBSnpMA=\r\n";

pub(super) fn cancel(target: &str) -> String {
    format!("Control: cancel {target}\r\n{KEY}")
}

fn article(name: &str) -> (String, String) {
    let id = format!("<{name}@x>");
    (wire(&id, "misc.test", LOCK), id)
}

fn cancelling(name: &str) -> (String, String) {
    let id = format!("<c-{name}@x>");
    (wire(&id, "misc.test", &cancel(&format!("<{name}@x>"))), id)
}

fn superseding(name: &str) -> (String, String) {
    let id = format!("<s-{name}@x>");
    (wire(&id, "misc.test", &format!("Supersedes: <{name}@x>\r\n{KEY}{LOCK}")), id)
}

/// Files a batch as a session does: follow-ups are only queued.
fn feed(filer: &Filer, batch: &[(String, String)]) -> (Vec<Disposition>, Receipt) {
    let incoming: Vec<_> = batch
        .iter()
        .map(|(wire, id)| IncomingArticle { wire: wire.as_bytes(), claimed_id: Some(id.as_bytes()) })
        .collect();
    let mut dispositions = Vec::new();
    let origin = Origin::batch("site.example");
    let receipt = {
        let filed = pin!(filer.ingest(&origin, &incoming, &mut dispositions));
        match filed.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(receipt) => receipt,
            Poll::Pending => panic!("nobody else has the turn"),
        }
    };
    (dispositions, receipt)
}

fn is_here(filer: &Filer, name: &str) -> bool {
    let key = filer.spool.key(format!("<{name}@x>").as_bytes());
    matches!(filer.spool.lookup(&key), Lookup::Present(_))
}

fn strict(disk: &SimDisk) -> Filer {
    filer(disk, "reject")
}

#[test]
fn a_feed_does_not_wait_for_its_cancels_and_one_sync_serves_many() {
    let disk = SimDisk::new();
    let filer = strict(&disk);
    assert_eq!(filer.obey_again().unwrap(), 0);
    let names: Vec<String> = (0..300).map(|n| format!("a{n}")).collect();
    feed(&filer, &names.iter().map(|name| article(name)).collect::<Vec<_>>());
    let cancels: Vec<_> = names.iter().map(|name| cancelling(name)).collect();
    let (dispositions, receipt) = feed(&filer, &cancels);
    assert!(dispositions.iter().all(|d| matches!(d, Disposition::Accepted(Some(_)))));
    assert_eq!(filer.follow_ups.waiting(), 300, "none has been carried out");
    assert!(names.iter().all(|name| is_here(&filer, name)));
    let steps = disk.steps();
    assert_eq!(filer.settle(&receipt.pending.unwrap()), None);
    // The position of each is marked; the spool's own thread may sync, too.
    assert!(disk.steps() - steps < 550, "{} writes and syncs", disk.steps() - steps);
    assert!(!names.iter().any(|name| is_here(&filer, name)));
}

#[test]
fn the_answer_says_why_nothing_was_withdrawn() {
    let filer = strict(&SimDisk::new());
    feed(&filer, &[article("a")]);
    let keyless = wire("<k@x>", "misc.test", "Control: cancel <a@x>\r\n");
    let answer = |batch: &[(String, String)]| {
        let pending = feed(&filer, batch).1.pending?;
        Some(filer.settle(&pending))
    };
    assert_eq!(answer(&[article("b")]), None, "nothing to wait for");
    assert_eq!(answer(&[(keyless, "<k@x>".into())]), Some(Some(WithdrawalRefusal::NoKey)));
    assert_eq!(answer(&[cancelling("a")]), Some(None));
    assert_eq!(answer(&[superseding("a")]), Some(Some(WithdrawalRefusal::NotHere)));
}

#[test]
fn an_article_whose_cancel_waits_is_refused() {
    let filer = strict(&SimDisk::new());
    feed(&filer, &[cancelling("a")]);
    assert!(!filer.follow_ups.is_idle());
    assert_eq!(feed(&filer, &[article("a")]).0, [Disposition::Rejected(Reject::Withdrawn)]);
    assert!(filer.follow_ups.is_idle());
    // Within one batch the order does not matter either.
    let (dispositions, receipt) = feed(&filer, &[cancelling("b"), article("b")]);
    assert!(matches!(dispositions[1], Disposition::Accepted(_)));
    filer.settle(&receipt.pending.unwrap());
    assert!(!is_here(&filer, "b"));
}

#[test]
fn the_queue_is_bounded_and_a_batch_that_finds_it_full_helps() {
    let filer = strict(&SimDisk::new());
    filer.follow_ups.limit(FollowUpLimits { tasks: 2_048, bytes: 1 << 20 });
    let mut queued_max = 0;
    for part in 0..40 {
        let cancels: Vec<_> = (0..100).map(|n| cancelling(&format!("{part}-{n}"))).collect();
        feed(&filer, &cancels);
        queued_max = queued_max.max(filer.follow_ups.waiting());
    }
    assert!((2_000..=2_048).contains(&queued_max), "{queued_max}");
    while filer.follow_ups.carry_out() {}
    assert_eq!(filer.early_cancels(), 4_000);
    // Articles whose signature may count are kept whole, and bounded in bytes.
    let body = format!("{}\r\n", "x".repeat(900)).repeat(100);
    let large = |n: usize, more: &str| {
        let wire =
            wire(&format!("<l{n}@x>"), "misc.test", &format!("{more}{}", cancel(&format!("<t{n}@x>"))));
        (wire.replace("\r\nbody of", &format!("\r\n{body}body of")), format!("<l{n}@x>"))
    };
    (0..30).for_each(|n| drop(feed(&filer, &[large(n, "X-PGP-Sig: 1 From\r\n\tx\r\n")])));
    let waiting = filer.follow_ups.waiting();
    assert!(0 < waiting && waiting * 90_000 < 1 << 20, "{waiting}");
    // All others are kept only with the header lines that decide.
    while filer.follow_ups.carry_out() {}
    (30..60).for_each(|n| drop(feed(&filer, &[large(n, "")])));
    assert_eq!(filer.follow_ups.waiting(), 30);
}

/// Callers that need one withdrawal do not wait for earlier ones.
#[test]
fn an_urgent_withdrawal_does_not_wait_for_its_turn() {
    let filer = strict(&SimDisk::new());
    feed(&filer, &["a", "b", "c"].map(article));
    feed(&filer, &[cancelling("a")]);
    let (_, receipt) = feed(&filer, &[cancelling("b")]);
    feed(&filer, &[cancelling("c")]);
    assert_eq!(filer.settle(&receipt.pending.clone().unwrap()), None);
    assert_eq!(["a", "b", "c"].map(|name| is_here(&filer, name)), [true, false, true]);
    assert_eq!(filer.follow_ups.waiting(), 2);
    // A session that must see its own effects waits for all tasks up to that point.
    filer.settle_up_to(&receipt.pending.unwrap());
    assert!(!is_here(&filer, "a"));
    while filer.follow_ups.carry_out() {}
    assert!(!is_here(&filer, "c") && filer.follow_ups.is_idle());
}

/// The thread does only part of the work while batches arrive, and all of it once none does.
#[test]
fn the_thread_yields_to_a_feed() {
    let filer = strict(&SimDisk::new());
    filer.obey_again().unwrap();
    let worker = filer.start_follow_ups().unwrap();
    for part in 0..20 {
        let cancels: Vec<_> = (0..100).map(|n| cancelling(&format!("{part}-{n}"))).collect();
        feed(&filer, &cancels);
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while !filer.follow_ups.is_idle() {
        assert!(Instant::now() < deadline, "{} tasks wait", filer.follow_ups.waiting());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(filer.early_cancels(), 2_000);
    drop(worker);
}

#[test]
fn the_thread_finishes_all_tasks_before_it_ends() {
    let disk = SimDisk::new();
    let filer = strict(&disk);
    filer.obey_again().unwrap();
    let worker = filer.start_follow_ups().unwrap();
    feed(&filer, &[article("a"), article("b")]);
    feed(&filer, &[cancelling("a")]);
    let deadline = Instant::now() + Duration::from_secs(60);
    while is_here(&filer, "a") {
        assert!(Instant::now() < deadline, "nobody carries it out");
        std::thread::sleep(Duration::from_millis(1));
    }
    feed(&filer, &[cancelling("b"), cancelling("later")]);
    drop(worker);
    assert!(filer.follow_ups.is_idle() && !is_here(&filer, "b"));
    // Everything was saved: the next start finds nothing to do.
    filer.spool.close().unwrap();
    drop(filer);
    let filer = opened(&disk, &CONFIG.replace("UNKNOWN", "reject"));
    assert_eq!(filer.obey_again().unwrap(), 0);
    assert_eq!(feed(&filer, &[article("later")]).0, [Disposition::Rejected(Reject::Withdrawn)]);
}

#[test]
fn an_unfiled_cancel_is_obeyed_before_it_is_remembered() {
    let disk = SimDisk::new();
    let filer = strict(&disk);
    feed(&filer, &[article("a")]);
    filer.spool.remove_group("control.cancel").unwrap();
    let (dispositions, receipt) = feed(&filer, &[cancelling("a")]);
    assert_eq!((dispositions, receipt.pending.unwrap().answer()), (vec![Disposition::Accepted(None)], None));
    assert!(!is_here(&filer, "a") && filer.follow_ups.is_idle());
}

/// Work acknowledged on a disk that crashes: the names of cancels acknowledged before a kill, and before a
/// power cut.
#[derive(Default)]
struct Acknowledged {
    written: Vec<&'static str>,
    durable: Vec<&'static str>,
}

/// Carries out two rounds, of which the second is not saved, and leaves one queued.
fn work(filer: &Filer, disk: &SimDisk, acknowledged: &mut Acknowledged) {
    let mut withdraw = |batch: &[(String, String)], names: &[&'static str]| {
        let (dispositions, _) = feed(filer, batch);
        let accepted = dispositions.iter().all(|d| matches!(d, Disposition::Accepted(_)));
        if accepted && !disk.crashed() {
            acknowledged.written.extend(names);
        }
        if filer.spool.sync().is_ok() && accepted && !disk.crashed() {
            acknowledged.durable.extend(names);
        }
    };
    withdraw(&[cancelling("a"), cancelling("b")], &["a", "b"]);
    filer.follow_ups.carry_out();
    filer.follow_ups.save();
    withdraw(&[superseding("c"), cancelling("early1")], &["c", "early1"]);
    filer.follow_ups.carry_out();
    withdraw(&[cancelling("d"), cancelling("early2")], &["d", "early2"]);
    filer.follow_ups.save();
}

#[test]
fn a_crash_at_any_step_leaves_no_cancel_undone() {
    // Each step is tested with one of the three, which keeps this short.
    for (first, kind) in [(0, CrashKind::Kill), (1, CrashKind::Power), (2, CrashKind::Lost)] {
        for step in (first..).step_by(3) {
            let disk = SimDisk::new();
            let filer = strict(&disk);
            filer.obey_again().unwrap();
            feed(&filer, &["a", "b", "c", "d", "stays"].map(article));
            filer.spool.sync().unwrap();
            disk.crash_at(disk.steps() + step, kind, step * 7919);
            let mut acknowledged = Acknowledged::default();
            work(&filer, &disk, &mut acknowledged);
            let crashed = disk.crashed();
            let left = if crashed { disk.image() } else { disk.image_after(kind, step) }.unwrap();
            let context = format!("{kind:?} at step {step}");
            let filer = opened(&left, &CONFIG.replace("UNKNOWN", "reject"));
            filer.obey_again().unwrap();
            let names = if kind == CrashKind::Kill { &acknowledged.written } else { &acknowledged.durable };
            for name in names {
                match name.starts_with("early") {
                    true => {
                        let came = feed(&filer, &[article(name)]).0;
                        assert_eq!(came, [Disposition::Rejected(Reject::Withdrawn)], "{name}: {context}");
                    }
                    false => assert!(!is_here(&filer, name), "{name}: {context}"),
                }
            }
            assert!(is_here(&filer, "stays"), "{context}");
            if !crashed {
                assert!(step > 10, "nothing was tried");
                assert_eq!(names.len(), 6);
                break;
            }
        }
    }
}

/// The position is kept although most cancels were carried out long ago: only later rows are scanned.
#[test]
fn a_start_scans_only_rows_after_the_saved_position() {
    let disk = SimDisk::new();
    let filer = strict(&disk);
    filer.obey_again().unwrap();
    for n in 0..20 {
        feed(&filer, &[cancelling(&format!("old{n}"))]);
    }
    while filer.follow_ups.carry_out() {}
    filer.spool.sync().unwrap();
    filer.follow_ups.save();
    feed(&filer, &[cancelling("new1"), article("other"), superseding("new2")]);
    let filer = opened(&disk.image_after(CrashKind::Kill, 0).unwrap(), &CONFIG.replace("UNKNOWN", "reject"));
    assert_eq!(filer.obey_again().unwrap(), 2);
    // A crash while they are obeyed again changes nothing.
    assert_eq!(filer.early_cancels(), 22);
}

/// A shared log that gives no answer while it is in doubt.
#[derive(Debug)]
struct DoubtfulLog {
    spool: Weak<Spool>,
    is_in_doubt: AtomicBool,
}

impl DoubtfulLog {
    fn of(spool: &Arc<Spool>) -> Arc<Self> {
        let log = Arc::new(Self { spool: Arc::downgrade(spool), is_in_doubt: AtomicBool::new(false) });
        spool.follow(log.clone());
        log
    }

    fn doubt(&self, is_in_doubt: bool) {
        self.is_in_doubt.store(is_in_doubt, Ordering::Relaxed);
    }
}

impl SharedLog for DoubtfulLog {
    fn commit(
        &self,
        changes: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<CommitTicket, SpoolTrouble> {
        match self.is_in_doubt() {
            true => Err(SpoolTrouble::new(TroubleKind::InDoubt, "no answer")),
            false => self.spool.upgrade().unwrap().apply(1_780_000_000, changes, outcomes),
        }
    }

    fn is_in_doubt(&self) -> bool {
        self.is_in_doubt.load(Ordering::Relaxed)
    }

    fn is_accepting(&self) -> bool {
        true
    }

    fn freshen(&self) {}

    fn status(&self) -> SharedLogStatus {
        unreachable!()
    }

    fn lead(&self, _: &str, _: u64) -> JobLead {
        JobLead::Elsewhere { reached: None }
    }

    fn others(&self) -> Vec<OtherMember> {
        Vec::new()
    }

    fn halt(&self, _: Option<String>) {}

    fn end(&self) {}
}

/// The session is told that it is not known what becomes of its cancel, and the log files it later.
#[test]
fn a_cancel_that_is_filed_after_the_wait_for_it_was_given_up_is_obeyed() {
    let disk = SimDisk::new();
    let filer = strict(&disk);
    filer.obey_again().unwrap();
    feed(&filer, &[article("a"), article("b")]);
    let log = DoubtfulLog::of(&filer.spool);
    log.doubt(true);
    let (dispositions, receipt) = feed(&filer, &[cancelling("a")]);
    assert_eq!(dispositions, [Disposition::TryLater]);
    assert_eq!(receipt.trouble.unwrap().kind, TroubleKind::InDoubt);
    assert_eq!(feed(&filer, &[superseding("b")]).0, [Disposition::TryLater]);
    filer.follow_ups.obey_doubtful();
    assert!(filer.follow_ups.is_idle(), "nothing is known yet");
    // The log applies it here, without a session that waits for it.
    log.doubt(false);
    let config = config::parse(&CONFIG.replace("UNKNOWN", "reject"), Path::new("/sim/newsreel.toml"));
    let applying = Filer::new(Arc::new(config.map_err(|e| e.to_string()).unwrap()), filer.spool.clone());
    feed(&applying, &[cancelling("a"), superseding("b")]);
    assert_eq!(feed(&filer, &[cancelling("a")]).0, [Disposition::Rejected(Reject::Duplicate)]);
    filer.spool.sync().unwrap();
    filer.follow_ups.save();
    assert!(is_here(&filer, "a") && is_here(&filer, "b"));
    let crashed = disk.image_after(CrashKind::Kill, 0).unwrap();

    filer.follow_ups.obey_doubtful();
    while filer.follow_ups.carry_out() {}
    assert!(!is_here(&filer, "a") && !is_here(&filer, "b"));
    filer.spool.sync().unwrap();
    filer.follow_ups.save();
    let opened = |disk: &SimDisk| opened(disk, &CONFIG.replace("UNKNOWN", "reject"));
    let settled = opened(&disk.image_after(CrashKind::Kill, 0).unwrap());
    assert_eq!(settled.obey_again().unwrap(), 0, "nothing is held any more");
    // A crash before changes nothing.
    let filer = opened(&crashed);
    assert_eq!(filer.obey_again().unwrap(), 2);
    assert!(!is_here(&filer, "a") && !is_here(&filer, "b"));
}
