//! Cost of a report on a large site: neither the writer's lock nor the disk, and very little time.

use super::*;
use disk::SimDisk;
use site::inject::Injector;
use site::moderation::ModerationQueue;
use site::session::{ReceiveBudget, SessionContext};
use site_config as config;
use site_config::LiveConfig;
use spool::{ArticleIdent, Change, ChangeMaker as _, NewGroup};
use std::fmt::Write;
use std::sync::mpsc;
use std::time::Instant;
use tempfile::TempDir;

const PEERS: usize = 100;
const GROUPS: usize = 3_000;
/// Time limit that only a failing test reaches.
const DEADLINE: Duration = Duration::from_secs(60);

/// Returns a site of [`PEERS`] and [`GROUPS`], measured once, and its disk.
fn large_site(dir: &TempDir) -> (Arc<Site>, SessionContext, SimDisk) {
    let mut text = format!("[site]\ndata = {:?}\n", dir.path());
    text += "[[class]]\nname = \"c\"\nmethod = \"trash\"\n[[rule]]\nclass = \"c\"\n";
    for n in 0..PEERS {
        write!(text, "[[peer]]\nname = \"p{n}\"\naddresses = [\"192.0.2.{n}\"]\n").unwrap();
    }
    let config = config::parse(&text, &dir.path().join("newsreel.toml")).map_err(|e| e.to_string()).unwrap();
    let sim = SimDisk::new();
    let (spool, _) = Spool::open(Arc::new(sim.clone()), config.spool_config(), &()).unwrap();
    let group = |n| NewGroup { name: format!("local.g{n}"), ..NewGroup::default() };
    spool.add_groups(&(0..GROUPS).map(group).collect::<Vec<_>>()).unwrap();
    spool.meter().measure().unwrap();
    let config = LiveConfig::new(Arc::new(config));
    let spool = Arc::new(spool);
    let upstreams = Upstreams::open(&config.load(), &spool).unwrap();
    let injector = Injector::open(
        spool.disk().clone(),
        &config,
        ModerationQueue::open(&config, spool.disk()).unwrap(),
        upstreams,
    );
    let context = SessionContext { injector, budget: ReceiveBudget::default() };
    (Site::new(config, spool, None), context, sim)
}

#[test]
fn report_does_not_wait_for_a_blocked_writer() {
    let dir = TempDir::new().unwrap();
    let (site, context, sim) = large_site(&dir);
    let listen = ["127.0.0.1:119".parse().unwrap()];
    // Undurable rows would delay the report even without the writer's lock.
    site.spool.settle().unwrap();
    sim.hold_syncs(true);
    std::thread::scope(|scope| {
        let group = NewGroup { name: "late.group".into(), ..NewGroup::default() };
        let spool = &site.spool;
        let adding = scope.spawn(move || spool.add_groups(&[group]));
        let begun = Instant::now();
        while spool.try_apply(1, &[], &mut Vec::new()).is_some() {
            assert!(begun.elapsed() < DEADLINE, "the writer never waits");
            std::thread::yield_now();
        }
        let (reported, reports) = mpsc::channel();
        let feeds = Feeds::new(site.spool.clone(), site.filer.clone());
        let archives = Archives::of(&site.config.load(), site.spool.disk());
        let upstreams = Upstreams::open(&site.config.load(), &site.spool).unwrap();
        let asked = (&*site, &context);
        scope.spawn(move || {
            let pulls = Pulls::default();
            let (feeds, archives, upstreams) = (&feeds, &archives, &upstreams);
            let sources = ReportSources { feeds, pulls: &pulls, archives, upstreams };
            reported.send(of_server(asked.0, asked.1, sources, &listen, &[])).unwrap()
        });
        let report = reports.recv_timeout(DEADLINE);
        sim.hold_syncs(false);
        assert_eq!(adding.join().unwrap().unwrap(), 1);
        let report = report.expect("the report waited for the writer");
        let server = report.server.unwrap();
        assert_eq!((server.peers.len(), server.listen), (PEERS, vec!["127.0.0.1:119".to_owned()]));
        assert!(report.spool.groups >= GROUPS as u64 && report.spool.measured > 0);
    });
}

#[test]
fn refresh_waits_for_fresh_figures_with_a_limit() {
    let dir = TempDir::new().unwrap();
    let (site, _, _) = large_site(&dir);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let measuring = MeasureRequests::new();
    // No measuring task runs, as if the disk did not answer.
    runtime.block_on(measuring.refresh(Duration::from_millis(1)));
    let task = runtime.spawn(measure(site.clone(), measuring.clone()));
    runtime.block_on(measuring.refresh(DEADLINE));
    let before = site.spool.meter().report().journal_bytes;
    let change = Change::Remember { id: ArticleIdent::Id(b"<a@x.example>"), arrived: 1 };
    site.spool.commit(&[change], &mut Vec::new()).unwrap();
    runtime.block_on(measuring.refresh(DEADLINE));
    assert!(site.spool.meter().report().journal_bytes > before);
    site.stop();
    runtime.block_on(task).unwrap();
}

#[test]
#[ignore = "measures time: part of `make soak`"]
fn a_report_of_a_large_site_takes_less_than_a_millisecond() {
    let dir = TempDir::new().unwrap();
    let (site, context, _) = large_site(&dir);
    let archives = Archives::of(&site.config.load(), site.spool.disk());
    let feeds = Feeds::new(site.spool.clone(), site.filer.clone());
    let upstreams = Upstreams::open(&site.config.load(), &site.spool).unwrap();
    let mut micros: Vec<u128> = (0..1_001)
        .map(|_| {
            let begun = Instant::now();
            let (feeds, archives, upstreams) = (&feeds, &archives, &upstreams);
            let sources = ReportSources { feeds, pulls: &Pulls::default(), archives, upstreams };
            std::hint::black_box(of_server(&site, &context, sources, &[], &[]));
            begun.elapsed().as_micros()
        })
        .collect();
    micros.sort_unstable();
    println!(
        "a report of {GROUPS} groups and {PEERS} peers: median {} us, longest {} us",
        micros[500], micros[1_000]
    );
    assert!(micros[500] < 1_000, "{} us", micros[500]);
}
