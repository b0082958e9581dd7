//! The papers' comparison on one machine: how fast each storage method accepts articles, and what that costs.
//!
//! The four batches of the CNFS paper are sent in one streaming session each to a new, empty server, several
//! times; the fastest of each batch counts, and the least of what kernel and disk counted, since other work
//! on the machine only ever adds. Then once more to count system calls. Figures: `docs/bench/spool.md`.

mod batches;
mod meter;
mod plot;
mod report;
mod subject;

use crate::client::{Client, unexpected};
use crate::record::{self, Machine, Table};
use crate::{Verdict, page};
use batches::{Batch, Batches};
use clap::Args;
use meter::{CallCounter, Calls, Counters};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
pub(crate) use subject::with_method;
use subject::{Running, Subject, Workshop};

/// Articles sent and not yet answered at most.
const WINDOW: usize = 100;
/// What is measured of newsreel, if the binary knows it.
const METHODS: [&str; 8] =
    ["cnfs", "tradspool", "hashed", "timehash", "bucketed", "appendonly", "memory", "trash"];
/// What is measured of INN.
const INN_METHODS: [&str; 4] = ["cnfs", "tradspool", "timehash", "timecaf"];

/// The options of `lab spool`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    place: crate::Place,
    /// A directory of real articles, one a file, or one with a .tar.xz of them
    #[arg(long)]
    corpus: PathBuf,
    /// The directory of the script that runs private INN instances; without it INN is left out
    #[arg(long)]
    inn: Option<PathBuf>,
    /// How often each is measured
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Minutes that all may take: where they do not suffice for all runs there are fewer, at least one
    #[arg(long, default_value_t = 9)]
    minutes: u64,
    /// Only these, such as cnfs,tradspool,inn-cnfs
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Send so much less than the paper (10: a tenth)
    #[arg(long, default_value_t = 1)]
    share: usize,
    /// Seed of the batches
    #[arg(long, default_value_t = 1997)]
    seed: u64,
    /// Where the JSON goes
    #[arg(long, default_value = "bench-results")]
    results: PathBuf,
    /// Where spool.md's table, spool.svg and the release's record go; without it they are not written
    #[arg(long)]
    docs: Option<PathBuf>,
}

/// What was measured of one server.
#[derive(Debug)]
struct Measured {
    subject: Subject,
    /// How often it was.
    runs: usize,
    /// Fastest time for each batch.
    seconds: Vec<f64>,
    /// Writing out everything afterwards.
    sync_seconds: f64,
    counters: Counters,
    calls: Option<Calls>,
}

/// Runs the comparison.
pub fn run(options: &Options) -> Verdict {
    let (began, machine) = (crate::articles::unix_now(), Machine::look());
    let dir = &options.place.dir;
    fs::create_dir_all(dir)?;
    let corpus = unpack(&options.corpus, dir)?;
    let made = batches::make(&corpus, options.seed, options.share.max(1))?;
    let groups = dir.join("groups");
    fs::write(&groups, made.groups.join("\n") + "\n")?;
    let workshop = Workshop {
        binary: match &options.place.binary {
            Some(binary) => binary.clone(),
            None => std::env::current_exe()?.with_file_name("newsreel"),
        },
        inn: inn_script(options.inn.as_deref()),
        dir,
        port: options.place.port,
        groups,
    };
    let mut all = Vec::new();
    let subjects = subjects(options, &workshop);
    let end = Instant::now() + Duration::from_secs(options.minutes * 60);
    for (at, subject) in subjects.iter().enumerate() {
        eprintln!("lab: {}", subject.name());
        // Each gets the same share of what is left.
        let share = end.saturating_duration_since(Instant::now()) / (subjects.len() - at) as u32;
        match measure(&workshop, subject, &made, (options.runs.max(1), share)) {
            Ok(measured) => all.push(measured),
            Err(error) => eprintln!("lab: {} is left out: {error}", subject.name()),
        }
        let _gone = fs::remove_dir_all(dir.join(subject.name().replace(' ', "-")));
    }
    if all.is_empty() {
        return Err("nothing could be measured".into());
    }
    print!("{}", report::table(&all, &made));
    fs::create_dir_all(&options.results)?;
    let file = options.results.join(format!("spool-{}.json", crate::articles::unix_now()));
    fs::write(&file, report::json(&all, &made, options.seed))?;
    eprintln!("lab: {}", file.display());
    if let Some(docs) = &options.docs {
        fs::create_dir_all(docs)?;
        fs::write(docs.join("spool.svg"), plot::svg(&all, &made))?;
        let runs = all.iter().map(|measured| measured.runs).min().unwrap_or_default();
        let values = report::values(&all, &made);
        record::keep(
            docs,
            &Table { bench: "spool", began, machine, runs, values },
            &[plot::over_releases()],
        )?;
        page::put_table(&docs.join("spool.md"), "make bench-spool", &report::markdown(&all, &made))?;
    }
    Ok(true)
}

fn subjects(options: &Options, workshop: &Workshop<'_>) -> Vec<Subject> {
    let ours = METHODS.iter().map(|method| Subject::Newsreel(method));
    let inns = INN_METHODS.iter().filter(|_| workshop.inn.is_some()).map(|method| Subject::Inn(method));
    let wanted = |subject: &Subject| {
        let name = match subject {
            Subject::Newsreel(method) => (*method).to_owned(),
            Subject::Inn(method) => format!("inn-{method}"),
        };
        options.only.is_empty() || options.only.contains(&name)
    };
    ours.chain(inns).filter(wanted).collect()
}

fn inn_script(dir: Option<&Path>) -> Option<PathBuf> {
    let script = fs::canonicalize(dir?).ok()?.join("inn.sh");
    let installed = Path::new("/usr/lib/news/bin/innd").exists();
    if !script.exists() || !installed || !rustix::process::geteuid().is_root() {
        eprintln!("lab: INN is left out: it needs the package inn2, {} and root", script.display());
        return None;
    }
    Some(script)
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

fn measure(
    workshop: &Workshop<'_>,
    subject: &Subject,
    made: &Batches,
    (runs, time): (usize, Duration),
) -> io::Result<Measured> {
    let begun = Instant::now();
    let mut measured = Measured {
        subject: subject.clone(),
        runs: 0,
        seconds: vec![f64::INFINITY; made.batches.len()],
        sync_seconds: f64::INFINITY,
        counters: Counters::default(),
        calls: None,
    };
    for run in 0..runs {
        // This one, and the one in which calls are counted.
        let needed = begun.elapsed() * 2 / run.max(1) as u32;
        if run > 0 && begun.elapsed() + needed > time {
            break;
        }
        measured.runs += 1;
        let server = workshop.start(subject)?;
        meter::sync(&server.dir)?;
        let before = Counters::read(server.pid, &server.dir)?;
        for (batch, best) in made.batches.iter().zip(&mut measured.seconds) {
            *best = best.min(feed(workshop, batch)?.as_secs_f64());
        }
        let began = Instant::now();
        meter::sync(&server.dir)?;
        measured.sync_seconds = measured.sync_seconds.min(began.elapsed().as_secs_f64());
        let counted = Counters::read(server.pid, &server.dir)?.since(&before);
        measured.counters = if run == 0 { counted } else { measured.counters.least(&counted) };
        server.stop()?;
    }
    measured.calls = calls(workshop, &workshop.start(subject)?, made)?;
    Ok(measured)
}

fn calls(workshop: &Workshop<'_>, server: &Running, made: &Batches) -> io::Result<Option<Calls>> {
    let Some(counter) = CallCounter::begin(server.pid) else { return Ok(None) };
    let fed: io::Result<Vec<Duration>> = made.batches.iter().map(|batch| feed(workshop, batch)).collect();
    let calls = counter.end()?;
    fed?;
    Ok(calls)
}

/// Sends a batch in one streaming session; how long it took from the first command to the last answer.
fn feed(workshop: &Workshop<'_>, batch: &Batch) -> io::Result<Duration> {
    let mut client = Client::connect(&workshop.address())?;
    client.expect("MODE STREAM", "203")?;
    let began = Instant::now();
    let (mut sent, mut answered, mut start) = (0, 0, 0);
    while answered < batch.ends.len() {
        for end in batch.ends.iter().skip(sent).take(WINDOW - (sent - answered)) {
            client.queue(batch.wire.get(start..*end).unwrap_or_default())?;
            start = *end;
            sent += 1;
        }
        while answered < sent {
            let answer = client.answer()?;
            if !answer.starts_with("239") {
                return Err(unexpected("TAKETHIS", &answer));
            }
            answered += 1;
            if !client.has_answer() {
                break;
            }
        }
    }
    let took = began.elapsed();
    client.command("QUIT")?;
    Ok(took)
}
