//! Batches filed by rnews, ours and INN's, in alternating runs: from a file in the page cache until the
//! command ends.

use crate::articles::{Generator, Shape, group_name};
use crate::feeds::inn::Inn;
use crate::rates::median;
use crate::site::{Plan, Site};
use crate::{Place, Verdict};
use clap::Args;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const GROUPS: u64 = 40;
/// With its headers an article has 2,350 bytes, as in the papers.
const SHAPE: Shape = Shape { bytes: (2_140, 2_140), large_every: 0, large_bytes: (0, 0) };
const BUFFER_BYTES: u64 = 1 << 30;

/// Limits: times INN's rate; articles a second on an idle machine.
const INN_TIMES_MIN: f64 = 12.0;
const RATE_MIN: f64 = 100_000.0;

#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// Articles of a batch
    #[arg(long, default_value_t = 20_000)]
    articles: u64,
    /// Runs of which the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// The directory of inn.sh; without it, or without INN and root, INN is left out
    #[arg(long)]
    inn: Option<PathBuf>,
}

/// Runs both in turn.
pub fn run(options: &Options) -> Verdict {
    let (mut ours, mut inn) = (Vec::new(), Vec::new());
    fs::create_dir_all(&options.place.dir)?;
    let batch = options.place.dir.join("batch");
    let generator = Generator::new(1, GROUPS, SHAPE);
    write_batch(&batch, &generator, options.articles)?;
    for _ in 0..options.runs {
        ours.push(newsreel(options, &batch)?);
        inn.extend(inn_rate(options, &batch)?);
    }
    fs::remove_file(&batch)?;
    let (rate, inn_rate) = (median(ours), median(inn));
    println!("rnews of {} articles: {rate:.0} a second", options.articles);
    let mut held = rate >= RATE_MIN;
    println!("{} {RATE_MIN} a second on an idle machine", if held { "ok    " } else { "MISSED" });
    if inn_rate > 0.0 {
        let times = rate / inn_rate;
        let holds = times >= INN_TIMES_MIN;
        println!("INN's rnews: {inn_rate:.0} a second");
        println!("{} times INN's rnews: {times:.1}", if holds { "ok    " } else { "MISSED" });
        held &= holds;
    }
    Ok(held)
}

/// A batch as UUCP has it: lines end with LF, nothing is dot-stuffed.
fn write_batch(file: &Path, generator: &Generator, articles: u64) -> io::Result<()> {
    let mut out = io::BufWriter::new(File::create(file)?);
    for index in 0..articles {
        let mut wire = Vec::new();
        generator.put(index, &mut wire);
        let text: Vec<u8> = wire.into_iter().filter(|byte| *byte != b'\r').collect();
        let text = text.strip_suffix(b".\n").unwrap_or(&text);
        writeln!(out, "#! rnews {}", text.len())?;
        out.write_all(text)?;
    }
    out.flush()
}

fn newsreel(options: &Options, batch: &Path) -> io::Result<f64> {
    let plan = Plan { groups: GROUPS, buffer_bytes: BUFFER_BYTES, durability: None };
    let mut site = Site::make(&options.place, "rnews", options.place.port, plan)?;
    site.start(&group_name(0))?;
    let mut rnews = Command::new(site.binary());
    rnews.arg("rnews").arg(batch).arg("--dir").arg(site.dir());
    let rate = timed(options, &mut rnews)?;
    site.stop()?;
    fs::remove_dir_all(site.dir())?;
    Ok(rate)
}

fn inn_rate(options: &Options, batch: &Path) -> io::Result<Option<f64>> {
    let Some(scripts) = &options.inn else { return Ok(None) };
    let groups: Vec<String> = (0..GROUPS).map(group_name).collect();
    let dir = options.place.dir.join("inn");
    let Some(inn) = Inn::start(scripts, &dir, options.place.port + 10, &groups, &[])? else {
        return Ok(None);
    };
    let mut rnews = inn.tool("rnews");
    rnews.stdin(File::open(batch)?);
    timed(options, &mut rnews).map(Some)
}

/// Articles a second of a command that files the batch.
fn timed(options: &Options, command: &mut Command) -> io::Result<f64> {
    let begun = Instant::now();
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?.wait_with_output()?;
    let rate = options.articles as f64 / begun.elapsed().as_secs_f64();
    if output.status.success() {
        return Ok(rate);
    }
    Err(io::Error::other(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))))
}
