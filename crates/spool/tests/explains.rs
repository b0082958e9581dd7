//! The spool explains itself in the log: what a start found and did, why indexes were rebuilt, why a
//! checkpoint is late.

use crate::news::*;
use disk::{CrashKind, Disk, SimDisk};
use spool::{Spool, SpoolConfig};
use std::fmt::{Debug, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Log lines of all threads of this process.
static LOGGED: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Log;

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("spool")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        LOGGED.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        write!(self.0, " {value:?}").unwrap();
    }
}

/// Returns the log lines about the spool in this directory.
fn logged(dir: &str) -> Vec<String> {
    let about = format!(" spool {dir}: ");
    let lines = LOGGED.lock().unwrap();
    lines.iter().filter(|line| line.contains(&about)).map(|line| line.replace(&about, ": ")).collect()
}

fn disk() -> (SimDisk, Arc<dyn Disk>) {
    let sim = SimDisk::new();
    (sim.clone(), Arc::new(sim))
}

fn log() {
    static LOG: Once = Once::new();
    LOG.call_once(|| tracing::subscriber::set_global_default(Log).unwrap());
}

#[test]
fn a_start_logs_what_it_replayed_and_why_it_rebuilt() {
    log();
    let (sim, disk) = disk();
    let config = config("/explained", &[("a", 2_000_000)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 3);
    spool.checkpoint().unwrap();
    let news: Vec<News> = (0..40).map(|n| News::new(n, 3, 900)).collect();
    commit(&spool, &news).unwrap();
    assert_eq!(logged("/explained"), ["INFO: new spool"]);
    let killed = sim.image_after(CrashKind::Kill, 0).unwrap();
    drop(Spool::open(Arc::new(killed.clone()), config.clone(), &()).unwrap());
    let lines = logged("/explained");
    let last = lines.last().unwrap();
    assert!(last.starts_with("INFO: the last run was cut off; ") && last.contains("rows replayed"), "{last}");
    let killed = sim.image_after(CrashKind::Kill, 0).unwrap();
    let index = Path::new("/explained/index");
    let disk: Arc<dyn Disk> = Arc::new(killed);
    for name in disk.list(index).unwrap() {
        disk.remove(&index.join(name)).unwrap();
    }
    drop(Spool::open(disk, config, &()).unwrap());
    let lines = logged("/explained");
    let [.., begun, done] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(begun, "WARN: the indexes are rebuilt, which may take a while: the checkpoint is lost");
    assert!(done.starts_with("WARN: the last run was cut off; "), "{done}");
    assert!(done.contains("the checkpoint is lost; indexes rebuilt from the journal"), "{done}");
}

#[test]
fn a_checkpoint_that_is_late_is_logged_once_and_so_is_its_end() {
    log();
    let (sim, disk) = disk();
    let retry = Duration::from_millis(20);
    let config = SpoolConfig { full_disk_retry: retry, ..config("/late", &[("a", 2_000_000)]) };
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 3);
    commit(&spool, &(0..40).map(|n| News::new(n, 3, 900)).collect::<Vec<_>>()).unwrap();
    spool.checkpoint().unwrap();
    let times = |text: &str| logged("/late").iter().filter(|line| line.contains(text)).count();
    sim.fill_at(sim.steps());
    spool.checkpoint().unwrap();
    wait_until("a late checkpoint is logged", || times(" is late, and the one before counts: ") == 1);
    // It is tried again and again.
    std::thread::sleep(5 * retry);
    sim.free();
    wait_until("the end is logged", || times("INFO: the late checkpoint at ") == 1);
    assert_eq!(times(" is late, and the one before counts: "), 1);
}
