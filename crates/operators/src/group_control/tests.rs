//! A flood of messages on a spool in memory: its cost, and recovery after crashes.

use super::*;
use disk::{CrashKind, SimDisk};
use ingest::{IncomingArticle, Origin};
use site_config as config;
use site_config::LiveConfig;
use spool::{ChangeMaker as _, GroupFlag, NewGroup, Spool};
use std::path::Path;
use tokio::runtime::{Builder, Runtime};

const CONFIG: &str = r#"
[site]
path_identity = "site.example"
listen = ["127.0.0.1:0"]
data = "/sim"
durability = "process"
max_age_days = "none"

[[buffer]]
name = "text0"
path = "text0.cyc"
size = "4 MiB"

[[class]]
name = "text"
buffers = ["text0"]

[[rule]]
class = "text"

[[control]]
type = ["newgroup", "rmgroup"]
action = "do"
age_max = "36500 days"
"#;

struct Fixture {
    site: Arc<Site>,
    mail: Arc<ModerationQueue>,
    reader: ControlReader,
    runtime: Runtime,
}

impl Fixture {
    fn open(disk: &SimDisk) -> io::Result<Self> {
        let config = config::parse(CONFIG, Path::new("/sim/newsreel.toml")).map_err(|e| e.to_string());
        let config = Arc::new(config.unwrap());
        let (spool, _) = Spool::open(Arc::new(disk.clone()), config.spool_config(), &())
            .map_err(|trouble| io::Error::other(trouble.to_string()))?;
        let groups = ["control", "x.old"];
        let groups =
            groups.map(|name| NewGroup { name: name.into(), flag: GroupFlag::Open, ..Default::default() });
        spool.add_groups(&groups).map_err(io::Error::other)?;
        let site = Site::new(LiveConfig::new(config), Arc::new(spool), None);
        let mail = ModerationQueue::open(&site.config, site.spool.disk())?;
        let mut reader = ControlReader::open(&site)?;
        reader.pace = crate::load::WorkPace::of_all();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        Ok(Self { site, mail, reader, runtime })
    }

    /// Files messages dated a minute apart on a day in April 1993.
    fn file(&self, day: u32, messages: &[String]) {
        let wires: Vec<_> = messages.iter().enumerate().map(|(n, command)| wire(day, n, command)).collect();
        let batch: Vec<IncomingArticle<'_>> = wires
            .iter()
            .map(|(id, wire)| IncomingArticle { wire: wire.as_bytes(), claimed_id: Some(id.as_bytes()) })
            .collect();
        let origin = Origin::batch("peer.example");
        let mut dispositions = Vec::new();
        self.runtime.block_on(self.site.filer.ingest(&origin, &batch, &mut dispositions));
        assert_eq!(dispositions.len(), messages.len());
        self.site.spool.sync().unwrap();
    }

    fn catch_up(&mut self) -> io::Result<()> {
        self.runtime.block_on(self.reader.catch_up(&self.site, &self.mail))
    }

    fn groups(&self) -> Vec<String> {
        let table = self.site.spool.group_table();
        let names = table.sorted().iter().map(|group| group.name.to_string());
        names.filter(|name| name.starts_with("x.")).collect()
    }
}

fn wire(day: u32, n: usize, command: &str) -> (String, String) {
    let id = format!("<{n}.{day}@x>");
    let (hours, minutes) = (n / 60, n % 60);
    let wire = format!(
        "Path: peer.example!y\r\nFrom: a@x\r\nNewsgroups: control\r\nSubject: {command}\r\nControl: {command}\r\n\
         Approved: a@x\r\nDate: {day} Apr 1993 {hours:02}:{minutes:02}:00 GMT\r\nMessage-ID: {id}\r\n\r\nb\r\n"
    );
    (id, wire)
}

#[test]
fn flood_needs_few_commits() {
    let disk = SimDisk::new();
    let mut fixture = Fixture::open(&disk).unwrap();
    fixture.file(15, &(0..1_200).map(|n| format!("newgroup x.g{n}")).collect::<Vec<_>>());
    let steps = disk.steps();
    fixture.catch_up().unwrap();
    assert_eq!(fixture.groups().len(), 1_201);
    // A line is written for each message; everything else takes three commits, and the spool's own thread.
    // Earlier versions needed three syncs for each message.
    let steps = disk.steps() - steps - 1_200;
    assert!(steps < 150, "{steps} writes and syncs");
    // Two messages about one group are carried out in order.
    fixture.file(16, &["rmgroup x.g1", "newgroup x.g1", "rmgroup x.old"].map(String::from));
    fixture.catch_up().unwrap();
    let groups = fixture.groups();
    assert!(groups.contains(&"x.g1".into()) && !groups.contains(&"x.old".into()));
}

/// Regression: the journal was read up to its end while a feed ran, which cost the feed a twentieth of its
/// rate.
#[test]
fn articles_after_the_last_control_message_are_not_read() {
    let mut fixture = Fixture::open(&SimDisk::new()).unwrap();
    let place = |fixture: &Fixture| fixture.site.spool.journal().mark(TailStart::Now).unwrap().position;
    fixture.file(15, &["newgroup x.a", "newgroup x.b"].map(String::from));
    let end = place(&fixture);
    let long = "x".repeat(600);
    fixture.file(16, &(0..1_000).map(|n| format!("unheard-of {n} {long}")).collect::<Vec<_>>());
    assert!(place(&fixture) - end > 600 << 10, "more than is read at once");
    let Fixture { site, mail, reader, runtime } = &mut fixture;
    runtime.block_on(reader.read_to(end, site, mail)).unwrap();
    let read_to = reader.cursor.mark().position;
    assert!((end..place(&fixture) - (200 << 10)).contains(&read_to), "{read_to} of {end}");
    assert_eq!(fixture.groups(), ["x.a", "x.b", "x.old"]);
    fixture.catch_up().unwrap();
    assert_eq!(fixture.reader.cursor.mark().position, place(&fixture));
}

#[test]
fn refused_message_does_not_stop_the_others() {
    let mut fixture = Fixture::open(&SimDisk::new()).unwrap();
    let change = |name: &str| changes::PendingChange {
        name: name.into(),
        date: 1,
        update: Some(spool::GroupUpdate::Add(NewGroup { name: name.into(), ..NewGroup::default() })),
        text: String::new(),
        what: String::new(),
        from: String::new(),
        id: String::new(),
        mail: None,
    };
    ["x.a", "x. b", "x.c"].into_iter().for_each(|name| fixture.reader.changes.add(change(name)));
    let Fixture { site, mail, reader, .. } = &mut fixture;
    reader.changes.make(site.filer.log(), &reader.done, mail, 1).unwrap();
    assert!(reader.changes.is_empty() && !reader.changes.took().is_zero());
    assert!(reader.done.has_group("x.c", 1) && !reader.done.has_group("x. b", 1));
    assert_eq!(fixture.groups(), ["x.a", "x.c", "x.old"]);
}

#[test]
fn crash_at_any_step_loses_no_change() {
    let messages: Vec<String> = (0..12)
        .map(|n| format!("newgroup x.g{n}"))
        .chain(["rmgroup x.old", "rmgroup x.g3"].map(String::from))
        .collect();
    let mut expected: Vec<String> = (0..12).filter(|n| *n != 3).map(|n| format!("x.g{n}")).collect();
    expected.sort();
    for (first, kind) in [(0, CrashKind::Kill), (1, CrashKind::Power), (2, CrashKind::Lost)] {
        for step in (first..).step_by(3) {
            let disk = SimDisk::new();
            let mut fixture = Fixture::open(&disk).unwrap();
            fixture.file(15, &messages);
            disk.crash_at(disk.steps() + step, kind, step * 7919);
            let caught_up = fixture.catch_up();
            let crashed = disk.crashed();
            assert!(crashed || caught_up.is_ok());
            let left = if crashed { disk.image() } else { disk.image_after(kind, step) }.unwrap();
            drop(fixture);
            let mut fixture = Fixture::open(&left).unwrap();
            fixture.catch_up().unwrap();
            let groups: Vec<String> = fixture.groups().into_iter().filter(|name| name != "x.old").collect();
            assert_eq!(groups, expected, "{kind:?} at step {step}");
            if !crashed {
                assert!(step > 6, "nothing was tried");
                break;
            }
        }
    }
}
