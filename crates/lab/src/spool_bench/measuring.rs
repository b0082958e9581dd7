//! One server under the batches: how long each took, and what kernel and disk counted meanwhile.

use super::batches::{Batch, Batches};
use super::meter::{self, CallCounter, Calls, Counters};
use super::subject::{Running, Subject, Workshop};
use crate::client::{Client, unexpected};
use crate::record::Spent;
use std::io;
use std::time::{Duration, Instant};

/// Articles sent and not yet answered at most.
const WINDOW: usize = 100;

/// What was measured of one server.
#[derive(Debug)]
pub struct Measured {
    pub subject: Subject,
    /// How often it was.
    pub runs: usize,
    /// Fastest time for each batch.
    pub seconds: Vec<f64>,
    /// Writing out everything afterwards.
    pub sync_seconds: f64,
    pub counters: Counters,
    pub calls: Option<Calls>,
    /// What the machine's processors did while the batches were sent, the last time.
    pub spent: Spent,
    /// Files and directories that were made.
    pub files: u64,
}

/// Measures it so many times, or fewer if that took more than the time.
pub fn measure(
    workshop: &Workshop<'_>,
    subject: &Subject,
    made: &Batches,
    runs: usize,
    time: Duration,
) -> io::Result<Measured> {
    let begun = Instant::now();
    let mut measured = Measured {
        subject: subject.clone(),
        runs: 0,
        seconds: vec![f64::INFINITY; made.batches.len()],
        sync_seconds: f64::INFINITY,
        counters: Counters::default(),
        calls: None,
        spent: Spent::default(),
        files: 0,
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
        let files = meter::free_inodes(&server.dir)?;
        workshop.slow_down(true);
        let (before, spent) = (Counters::read(server.pid, &server.dir)?, Spent::now());
        for (batch, best) in made.batches.iter().zip(&mut measured.seconds) {
            *best = best.min(feed(workshop, batch)?.as_secs_f64());
        }
        measured.spent = Spent::now().since(&spent);
        let began = Instant::now();
        meter::sync(&server.dir)?;
        measured.sync_seconds = measured.sync_seconds.min(began.elapsed().as_secs_f64());
        let counted = Counters::read(server.pid, &server.dir)?.since(&before);
        workshop.slow_down(false);
        measured.files = files.saturating_sub(meter::free_inodes(&server.dir)?);
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
pub fn feed(workshop: &Workshop<'_>, batch: &Batch) -> io::Result<Duration> {
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
