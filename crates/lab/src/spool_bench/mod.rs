//! The papers' comparison on one machine: how fast each storage method accepts articles, and what that costs.
//!
//! The four batches of the CNFS paper are sent in one streaming session each to a new, empty server, several
//! times; the fastest of each batch counts, and the least of what kernel and disk counted, since other work
//! on the machine only ever adds. Then once more to count system calls. Figures: `docs/bench/spool.md`.

mod batches;
mod many;
mod measuring;
mod meter;
mod paper;
mod plot;
mod report;
mod slow_disk;
mod subject;

use crate::others::{Inn, Scripts};
use crate::record::{self, Machine, Table};
use crate::{Verdict, page};
use batches::{Batches, Maker};
use clap::Args;
use measuring::{Measured, measure};
use slow_disk::{SlowDisk, Speed};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
pub(crate) use subject::with_method;
use subject::{Subject, Workshop};

/// Size of each of two buffers: all four batches fit into one.
const BUFFER_MIB: u64 = 128;
/// Of the disk of limited speed.
const DISK_BYTES_PER_SECOND: f64 = 50e6;
/// What is measured on it, as in the paper's figures: a file for each article, then cyclic buffers.
const ON_SLOW_DISK: [Subject; 6] = [
    Subject::Inn(Inn::Old),
    Subject::Inn(Inn::New("tradspool")),
    Subject::Inn(Inn::New("cnfs")),
    Subject::Newsreel("tradspool"),
    Subject::Newsreel("hashed"),
    Subject::Newsreel("cnfs"),
];
/// What is measured of newsreel, if the binary knows it.
const METHODS: [&str; 8] =
    ["cnfs", "tradspool", "hashed", "timehash", "bucketed", "appendonly", "memory", "trash"];
/// What is measured of INN.
const INNS: [Inn; 5] =
    [Inn::New("cnfs"), Inn::New("tradspool"), Inn::New("timehash"), Inn::New("timecaf"), Inn::Old];

/// The options of `lab spool`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    place: crate::Place,
    /// A directory of real articles, one a file, or one with a .tar.xz of them
    #[arg(long)]
    corpus: PathBuf,
    /// The directory of the scripts that run INN (inn, inn17); without it, or without root, INN is left out
    #[arg(long)]
    peers: Option<PathBuf>,
    /// How often each is measured
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Minutes that all may take: where they do not suffice for all runs there are fewer, at least one
    #[arg(long, default_value_t = 9)]
    minutes: u64,
    /// Only these, such as cnfs,tradspool,inn-cnfs,inn17
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Send so much less than the paper (10: a tenth)
    #[arg(long, default_value_t = 1)]
    share: usize,
    /// Seed of the batches
    #[arg(long, default_value_t = 1997)]
    seed: u64,
    /// Then the paper's partners again, on a disk that takes this many milliseconds for each access (0: not)
    #[arg(long, default_value_t = 1.0)]
    disk_ms: f64,
    /// Then this many articles in newsreel's cnfs, tradspool and hashed (540000: as many as CNFS-42; 0: not)
    #[arg(long, default_value_t = 0)]
    many: usize,
    /// Where spool.md's table, spool.svg and the release's record go; without it they are not written
    #[arg(long)]
    docs: Option<PathBuf>,
}

/// Runs the comparison.
pub fn run(options: &Options) -> Verdict {
    let (began, machine) = (disk::clock::unix_now(), Machine::look());
    let dir = &options.place.dir;
    fs::create_dir_all(dir)?;
    let maker = Maker::new(&unpack(&options.corpus, dir)?, options.seed, options.share.max(1))?;
    let made = maker.batches(0);
    let groups = dir.join("groups");
    fs::write(&groups, maker.groups.join("\n") + "\n")?;
    let scripts = Scripts::new(options.peers.as_deref(), dir)?;
    let binary = match &options.place.binary {
        Some(binary) => binary.clone(),
        None => std::env::current_exe()?.with_file_name("newsreel"),
    };
    let (port, buffer_mib) = (options.place.port, BUFFER_MIB);
    let workshop = Workshop { binary, scripts: &scripts, dir, port, groups, buffer_mib, disk: None };
    let subjects = subjects(options, &scripts)?;
    let all = measure_all(options, &workshop, &subjects, &made);
    if all.is_empty() {
        return Err("nothing could be measured".into());
    }
    let slow =
        if options.disk_ms > 0.0 { on_slow_disk(options, &workshop, &subjects, &made) } else { Vec::new() };
    let many = many::measure(&workshop, &subjects, &maker, options.many)?;
    print!("{}", report::table(&all, &made));
    let more = paper::figures(&all, &slow, options.disk_ms, &made) + &many::markdown(&many, options.many);
    print!("{more}");
    if let Some(docs) = &options.docs {
        fs::create_dir_all(docs)?;
        fs::write(docs.join("spool.svg"), plot::svg(&all, &made))?;
        // A part of it is nothing to compare releases by.
        if options.share <= 1 && options.only.is_empty() {
            let runs = all.iter().map(|measured| measured.runs).min().unwrap_or_default();
            let values = report::values(&all, &made);
            let table = Table { bench: "spool", began, machine, runs, values };
            record::keep(docs, &table, &[plot::over_releases()])?;
        }
        page::put_table(
            &docs.join("spool.md"),
            "make bench-spool",
            &(report::markdown(&all, &made) + &more),
        )?;
    }
    Ok(true)
}

/// All of them in turn; what cannot be measured is left out, with a word.
fn measure_all(
    options: &Options,
    workshop: &Workshop<'_>,
    subjects: &[Subject],
    made: &Batches,
) -> Vec<Measured> {
    let mut all = Vec::new();
    let end = Instant::now() + Duration::from_secs(options.minutes * 60);
    for (at, subject) in subjects.iter().enumerate() {
        eprintln!("lab: {}", subject.name());
        // Each gets the same share of what is left.
        let share = end.saturating_duration_since(Instant::now()) / (subjects.len() - at) as u32;
        let runs = if workshop.disk.is_some() { 1 } else { options.runs.max(1) };
        match measure(workshop, subject, made, runs, share) {
            Ok(measured) => all.push(measured),
            Err(error) => eprintln!("lab: {} is left out: {error}", subject.name()),
        }
        workshop.slow_down(false);
        let _gone = fs::remove_dir_all(workshop.place(subject));
    }
    all
}

/// The paper's partners on a disk that somebody waits for; none where there cannot be such a disk.
fn on_slow_disk(
    options: &Options,
    workshop: &Workshop<'_>,
    subjects: &[Subject],
    made: &Batches,
) -> Vec<Measured> {
    let access = Duration::from_secs_f64(options.disk_ms / 1e3);
    let speed = Speed { access, bytes_per_second: DISK_BYTES_PER_SECOND };
    let disk = match SlowDisk::new(workshop.dir, speed) {
        Ok(disk) => disk,
        Err(error) => {
            eprintln!("lab: no disk of limited speed: {error}");
            return Vec::new();
        }
    };
    eprintln!("lab: on a disk of {} ms an access", options.disk_ms);
    let there = Workshop {
        binary: workshop.binary.clone(),
        groups: workshop.groups.clone(),
        dir: disk.point(),
        disk: Some(&disk),
        ..*workshop
    };
    let subjects: Vec<Subject> =
        ON_SLOW_DISK.into_iter().filter(|subject| subjects.contains(subject)).collect();
    measure_all(options, &there, &subjects, made)
}

/// What is asked for, of what can be had here.
fn subjects(options: &Options, scripts: &Scripts) -> io::Result<Vec<Subject>> {
    let is_wanted = |subject: &Subject| options.only.is_empty() || options.only.contains(&subject.word());
    let mut subjects: Vec<Subject> = METHODS.iter().map(|method| Subject::Newsreel(method)).collect();
    subjects.extend(INNS.map(Subject::Inn));
    subjects.retain(is_wanted);
    let mut here = Vec::new();
    for subject in subjects {
        let is_here = match &subject {
            Subject::Newsreel(_) => true,
            Subject::Inn(inn) => scripts.inn(*inn)?.is_some(),
        };
        here.extend(is_here.then_some(subject));
    }
    Ok(here)
}

/// The corpus as files: `from`, or what is packed in it, unpacked below `dir`.
fn unpack(from: &Path, dir: &Path) -> io::Result<PathBuf> {
    let packed = fs::read_dir(from)?
        .flatten()
        .map(|e| e.path())
        .find(|path| path.extension().is_some_and(|e| e == "xz"));
    let Some(packed) = packed else { return Ok(from.to_owned()) };
    let to = dir.join("corpus");
    fs::create_dir_all(&to)?;
    let status = Command::new("tar").arg("-xJf").arg(&packed).arg("-C").arg(&to).status()?;
    if status.success() {
        Ok(to)
    } else {
        Err(io::Error::other(format!("cannot unpack {}", packed.display())))
    }
}
