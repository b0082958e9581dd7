//! The appendix of the C News paper on one machine: what a batch costs that is accepted, known already or too
//! old, and what it costs to make batches and to expire, in C News, two INNs and newsreel.
//!
//! Every server is new and empty for each pass; the least of all passes counts, since other work on the
//! machine only ever adds. System calls are counted in a pass of their own. Figures: `docs/bench/cnews.md`.

mod batch;
mod beside;
mod cost;
pub mod expiring;
mod report;
mod sites;

use crate::others::Scripts;
use crate::{Verdict, page};
use batch::{ARTICLES, Batch};
use clap::Args;
use cost::{Cost, Task};
use sites::{KINDS, Kind, Site, Workshop};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How many times the paper's batch the large one is.
const TIMES: u64 = 100;
/// Size of a cyclic buffer.
const BUFFER_MIB: u64 = 256;
/// Numbers that the articles of the paper's batch take.
const NUMBERS: u64 = 275;

/// The options of `lab cnews`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    place: crate::Place,
    /// The directory of the scripts that run the others (cnews, inn, inn17); without it, or without root,
    /// they are left out
    #[arg(long)]
    peers: Option<PathBuf>,
    /// How often each is measured
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Where cnews.md's tables and cnews.svg go; without it they are not written
    #[arg(long)]
    docs: Option<PathBuf>,
}

/// Something that is measured.
struct Job {
    name: &'static str,
    /// Above its table.
    title: &'static str,
    /// With the paper's batch; else with a hundred of them.
    is_small: bool,
}

const JOBS: [Job; 8] = [
    Job { name: "small accepted", title: "171 articles, accepted", is_small: true },
    Job { name: "small known", title: "171 articles, all known", is_small: true },
    Job { name: "small old", title: "171 articles, all too old", is_small: true },
    Job { name: "accepted", title: "17,100 articles, accepted", is_small: false },
    Job { name: "known", title: "17,100 articles, all known", is_small: false },
    Job { name: "too old", title: "17,100 articles, all too old", is_small: false },
    Job { name: "batched", title: "17,271 articles put into batches", is_small: false },
    Job { name: "expired", title: "17,271 articles expired", is_small: false },
];

/// What a job cost.
#[derive(Debug)]
struct Done {
    job: &'static str,
    articles: u64,
    cost: Cost,
    calls: Option<u64>,
}

/// What was measured of one server.
#[derive(Debug)]
struct Measured {
    kind: Kind,
    done: Vec<Done>,
}

/// The batches, as files.
struct Batches {
    small: PathBuf,
    small_old: PathBuf,
    large: PathBuf,
    large_old: PathBuf,
}

/// How a job is carried out: measured, or with its calls counted.
type Way<'a> = &'a mut dyn FnMut(&'static str, u64, &Site, &Task) -> io::Result<()>;

/// Runs the comparison.
pub fn run(options: &Options) -> Verdict {
    let dir = &options.place.dir;
    fs::create_dir_all(dir)?;
    let batches = Batches::write(dir)?;
    let workshop = workshop(&options.place, options.peers.as_deref())?;
    let mut all = Vec::new();
    for kind in KINDS {
        eprintln!("lab: {}", kind.name());
        match measure(&workshop, kind, &batches, options.runs.max(1)) {
            Ok(Some(measured)) => all.push(measured),
            Ok(None) => {}
            Err(error) => eprintln!("lab: {} is left out: {error}", kind.name()),
        }
    }
    if all.is_empty() {
        return Err("nothing could be measured".into());
    }
    let table = report::markdown(&all);
    print!("{table}");
    if let Some(docs) = &options.docs {
        fs::create_dir_all(docs)?;
        fs::write(docs.join("cnews.svg"), report::plot(&all))?;
        page::put_table(&docs.join("cnews.md"), "make bench-cnews", table.trim_end())?;
    }
    Ok(true)
}

fn workshop(place: &crate::Place, peers: Option<&Path>) -> io::Result<Workshop> {
    Ok(Workshop {
        binary: match &place.binary {
            Some(binary) => binary.clone(),
            None => std::env::current_exe()?.with_file_name("newsreel"),
        },
        scripts: Scripts::new(peers, &place.dir)?,
        dir: place.dir.clone(),
        port: place.port,
        buffer_mib: BUFFER_MIB,
    })
}

fn measure(workshop: &Workshop, kind: Kind, batches: &Batches, runs: usize) -> io::Result<Option<Measured>> {
    let mut measured = Measured { kind, done: Vec::new() };
    for _ in 0..runs {
        let Some(mut site) = workshop.make(kind)? else { return Ok(None) };
        let nothing = match site.nothing() {
            Some(nothing) => nothing.cost(None)?.least(nothing.cost(None)?),
            None => Cost::default(),
        };
        pass(&mut site, kind, batches, &mut |job, articles, site, task| {
            let cost = task.cost(site.server)?.without(nothing);
            match measured.done.iter_mut().find(|done| done.job == job) {
                Some(done) => done.cost = done.cost.least(cost),
                None => measured.done.push(Done { job, articles, cost, calls: None }),
            }
            Ok(())
        })?;
    }
    let Some(mut site) = workshop.make(kind)? else { return Ok(None) };
    let nothing = site.nothing().map_or(Ok(0), |nothing| nothing.calls(None, &workshop.dir))?;
    pass(&mut site, kind, batches, &mut |job, _, site, task| {
        let calls = task.calls(site.server, &workshop.dir)?.saturating_sub(nothing);
        measured.done.iter_mut().filter(|done| done.job == job).for_each(|done| done.calls = Some(calls));
        Ok(())
    })?;
    Ok(Some(measured))
}

/// All jobs, once, on a new site.
fn pass(site: &mut Site, kind: Kind, batches: &Batches, way: Way<'_>) -> io::Result<()> {
    let large = ARTICLES * TIMES;
    let mut filed = 0;
    for (job, articles, batch, new) in [
        ("small accepted", ARTICLES, &batches.small, NUMBERS),
        ("small known", ARTICLES, &batches.small, 0),
        ("small old", ARTICLES, &batches.small_old, 0),
        ("accepted", large, &batches.large, NUMBERS * TIMES),
        ("known", large, &batches.large, 0),
        ("too old", large, &batches.large_old, 0),
    ] {
        if job.ends_with("old") && !kind.knows_old_age() {
            continue;
        }
        way(job, articles, site, &site.file(batch))?;
        filed += new;
        let has = site.filed()?;
        if has != filed {
            return Err(io::Error::other(format!("{job}: {has} numbers given out, not {filed}")));
        }
    }
    let task = site.batch()?;
    way("batched", ARTICLES + large, site, &task)?;
    if kind.expires() {
        let task = site.expire()?;
        way("expired", ARTICLES + large, site, &task)?;
    }
    Ok(())
}

impl Batches {
    fn write(dir: &Path) -> io::Result<Self> {
        let write = |name: &'static str, times, is_old| {
            let path = dir.join(format!("{name}.batch"));
            Batch { name, times, is_old }.write(&mut fs::File::create(&path)?)?;
            Ok::<_, io::Error>(path)
        };
        Ok(Self {
            small: write("small", 1, false)?,
            small_old: write("small-old", 1, true)?,
            large: write("large", TIMES, false)?,
            large_old: write("large-old", TIMES, true)?,
        })
    }
}
