//! Hands the batches of a peer to its `after_batch`, one after the other, once the cursor has passed them.
//!
//! A batch is removed once the program has exited with code 0. Otherwise it stays, and is handed over
//! again: so the program gets every batch at least once, and a crash may hand it over twice. The oldest is
//! first. One that the program has refused several times no longer delays later ones: they have their turn
//! before it is tried again.

use crate::outlets::Outlet;
use crate::outlets::batch_dir::{FirstArticle, OutgoingBatches, ReadyBatch, first_of};
use crate::peer::feed::{FeedTrouble, PeerFeed};
use crate::shared::FeedContext;
use site_base::counters::add;
use site_base::program::{ProcessGroup, wait_for_end};
use spool::TailStart;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::task::block_in_place;
use tokio::time::{sleep, timeout};
use tracing::info;

/// Interval for scanning the directory though no batch was made: others may take batches away.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Bytes of the program's error output shown.
const COMPLAINT_BYTES_MAX: u64 = 1_000;

/// Refusals after which later batches are handed over before this one.
const REFUSALS_IN_ORDER: u32 = 3;

/// Reason why a batch, or all of them, could not be handed over.
struct HandOverFailure {
    /// Batch refused by the program.
    batch: Option<PathBuf>,
    why: String,
}

impl From<String> for HandOverFailure {
    fn from(why: String) -> Self {
        Self { batch: None, why }
    }
}

/// Batches refused by the program.
#[derive(Debug, Default)]
struct BatchRefusals(HashMap<PathBuf, BatchRefusal>);

#[derive(Debug)]
struct BatchRefusal {
    times: u32,
    again_at: Instant,
}

impl BatchRefusals {
    /// Returns the next of the ready batches, which are sorted oldest first.
    fn choose(&mut self, ready: Vec<ReadyBatch>, now: Instant) -> Option<ReadyBatch> {
        self.0.retain(|path, _| ready.iter().any(|batch| batch.path == *path));
        let is_late = |batch: &ReadyBatch| self.0.get(&batch.path).filter(|refusal| refusal.is_late());
        let mut late: Vec<ReadyBatch> = Vec::new();
        for batch in ready {
            match is_late(&batch) {
                None => return Some(batch),
                Some(refusal) if refusal.again_at <= now => late.push(batch),
                Some(_) => {}
            }
        }
        late.into_iter().next()
    }

    /// Records that the program has refused a batch; `pause` returns the time until it is handed over
    /// again, by the number of its refusals. Returns true if later ones precede it from now on.
    fn add(&mut self, batch: PathBuf, now: Instant, pause: impl FnOnce(u32) -> Duration) -> bool {
        let refusal = self.0.entry(batch).or_insert(BatchRefusal { times: 0, again_at: now });
        refusal.times = refusal.times.saturating_add(1);
        refusal.again_at = now + pause(refusal.times);
        refusal.is_late()
    }

    /// Returns when the first of the batches preceded by others is to be tried again.
    fn next(&self) -> Option<Instant> {
        self.0.values().filter(|refusal| refusal.is_late()).map(|refusal| refusal.again_at).min()
    }

    /// Makes all of them due for another attempt.
    fn hurry(&mut self, now: Instant) {
        self.0.values_mut().for_each(|refusal| refusal.again_at = now);
    }
}

impl BatchRefusal {
    fn is_late(&self) -> bool {
        self.times >= REFUSALS_IN_ORDER
    }
}

/// Hands batches over until the feed ends.
pub(crate) async fn run(peer: Arc<PeerFeed>, shared: Arc<FeedContext>) {
    let Outlet::Batches(own) = &peer.outlet else { return };
    let mut end = peer.end.subscribe();
    let (mut failures, mut refusals) = (0, BatchRefusals::default());
    while !peer.is_ending() {
        let (mut takes_fresh, mut is_retry) = (true, true);
        let handed_over = next(&peer, own, &shared, &mut refusals).await;
        if handed_over.is_ok() && refusals.0.is_empty() {
            peer.works(FeedTrouble::HandOver);
        }
        let pause = match handed_over {
            Ok(true) => {
                failures = 0;
                continue;
            }
            Ok(false) => {
                let again_at = refusals.next();
                is_retry = again_at.is_some();
                let pause = again_at.map(|at| at.saturating_duration_since(Instant::now()));
                pause.unwrap_or(LOOK_INTERVAL).min(LOOK_INTERVAL)
            }
            Err(HandOverFailure { batch, why }) => {
                peer.fail(FeedTrouble::HandOver, why);
                failures += 1;
                let pause = |times| Duration::from_millis(peer.pause_ms(times));
                takes_fresh = batch.is_some_and(|batch| refusals.add(batch, Instant::now(), pause));
                pause(failures)
            }
        };
        if is_retry {
            *own.retry_at.lock() = Some(Instant::now() + pause);
            peer.attention.notify_one();
        }
        tokio::select! {
            () = sleep(pause) => {}
            () = own.hurry.notified() => refusals.hurry(Instant::now()),
            () = own.fresh.notified(), if takes_fresh => {}
            _ = end.changed() => {}
        }
        *own.retry_at.lock() = None;
    }
}

/// Hands over the next batch; returns false if there is none, no program for it, or an operator has stopped
/// the feed.
async fn next(
    peer: &PeerFeed,
    own: &OutgoingBatches,
    shared: &FeedContext,
    refusals: &mut BatchRefusals,
) -> Result<bool, HandOverFailure> {
    let cannot = |error: io::Error| format!("after_batch: cannot read {}: {error}", own.dir.display());
    let ready = block_in_place(|| {
        let mut ready = own.ready()?;
        let end = shared.spool.journal().mark(TailStart::Now)?.position;
        ready.retain(|batch| is_passed(peer, batch, end));
        Ok(ready)
    });
    let batch = refusals.choose(ready.map_err(cannot)?, Instant::now());
    let (Some(batch), Some(words)) = (batch, &peer.send.after_batch) else {
        return Ok(false);
    };
    if peer.is_halted() {
        return Ok(false);
    }
    let file = match File::open(&batch.path) {
        // Another program has taken it away.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        file => file.map_err(cannot)?,
    };
    let about = file.metadata().map_err(cannot)?;
    let identity = (about.dev(), about.ino());
    let mut end = peer.end.subscribe();
    tokio::select! {
        ended = run_program(peer, words, &batch, file) => {
            ended.map_err(|error| HandOverFailure { batch: Some(batch.path.clone()), why: error.to_string() })?;
        }
        // The feed waits a little while; then the program is killed.
        _ = async { _ = end.changed().await; sleep(crate::peer::run::DRAIN_TIMEOUT).await } => {
            return Err("after_batch: killed, since the feed ends; the batch stays".to_owned().into());
        }
    }
    match block_in_place(|| own.remove(&batch.path, identity)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let why = format!("after_batch: cannot remove {}: {error}", batch.path.display());
            return Err(why.into());
        }
        _ => {}
    }
    add(&own.handed_over, 1);
    info!(peer = peer.name, batch = %batch.path.display(), bytes = batch.bytes, "batch handed over");
    Ok(true)
}

/// Returns whether the cursor has passed a batch; one not passed is made again after a crash. `end` is the
/// end of the journal: a batch that begins after it belongs to a lost journal.
fn is_passed(peer: &PeerFeed, batch: &ReadyBatch, end: u64) -> bool {
    let durable = peer.durable.lock();
    match first_of(&batch.path) {
        FirstArticle::At(position) => position < durable.cursor.saved().position || position >= end,
        FirstArticle::Deferred(key) => !durable.deferrals.has(&key),
        FirstArticle::None => true,
    }
}

/// Reason why the program has not taken a batch.
#[derive(Debug)]
enum AfterBatchError {
    /// The program cannot be started, or waited for.
    Io {
        /// The program.
        program: String,
        /// The error.
        error: io::Error,
    },
    /// The program did not end in time.
    Killed(String),
    /// The program has ended in failure.
    Failed {
        /// The program.
        program: String,
        /// Exit status of the program.
        status: ExitStatus,
        /// Error output of the program; empty if there is none.
        complaint: String,
    },
}

impl fmt::Display for AfterBatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { program, error } => write!(f, "after_batch: {program}: {error}"),
            Self::Killed(program) => {
                write!(f, "after_batch: {program} did not end in time and was killed")
            }
            Self::Failed { program, status, complaint } if complaint.is_empty() => {
                write!(f, "after_batch: {program}: {status}")
            }
            Self::Failed { program, status, complaint } => {
                write!(f, "after_batch: {program}: {status}: {complaint}")
            }
        }
    }
}

impl std::error::Error for AfterBatchError {}

/// Runs the program on a batch and waits for its exit.
async fn run_program(
    peer: &PeerFeed,
    words: &[String],
    batch: &ReadyBatch,
    file: File,
) -> Result<(), AfterBatchError> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let failed = |error| AfterBatchError::Io { program: program.clone(), error };
    let fill = |argument: &String| filled(argument, batch, &peer.name);
    let mut child = Command::new(program)
        .args(arguments.iter().map(fill))
        .stdin(Stdio::from(file))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let group = ProcessGroup::of(child.id());
    let end = wait_for_end(&mut child, COMPLAINT_BYTES_MAX);
    let Ok(ended) = timeout(peer.send.after_batch_timeout, end).await else {
        return Err(AfterBatchError::Killed(program.clone()));
    };
    group.ended();
    let (status, complaint) = ended.map_err(failed)?;
    if status.success() {
        return Ok(());
    }
    Err(AfterBatchError::Failed { program: program.clone(), status, complaint })
}

/// Returns an argument with `%f`, `%n`, `%p` and `%%` expanded.
fn filled(argument: &str, batch: &ReadyBatch, peer: &str) -> String {
    let path = std::path::absolute(&batch.path).unwrap_or_else(|_| batch.path.clone());
    let mut text = String::new();
    let mut rest = argument;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        let mut letters = after.chars();
        match letters.next() {
            Some('f') => text.push_str(&path.to_string_lossy()),
            Some('n') => text.push_str(&path.file_name().unwrap_or_default().to_string_lossy()),
            Some('p') => text.push_str(peer),
            Some('%') => text.push('%'),
            other => {
                text.push('%');
                text.extend(other);
            }
        }
        rest = letters.as_str();
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_refused_three_times_is_handed_over_after_the_others() {
        let batches = |names: &[&str]| -> Vec<ReadyBatch> {
            names.iter().map(|name| ReadyBatch { path: name.into(), bytes: 1 }).collect()
        };
        let (begun, mut refusals) = (Instant::now(), BatchRefusals::default());
        let at = |secs| begun + Duration::from_secs(secs);
        let choose = |refusals: &mut BatchRefusals, names: &[&str], secs| {
            let chosen = refusals.choose(batches(names), at(secs));
            chosen.map(|batch| batch.path.to_string_lossy().into_owned())
        };
        let pause = |times: u32| Duration::from_secs(u64::from(times) * 10);
        for is_late in [false, false, true] {
            assert_eq!(choose(&mut refusals, &["1", "2"], 0).as_deref(), Some("1"));
            assert_eq!(refusals.add("1".into(), at(0), pause), is_late);
        }
        assert_eq!(choose(&mut refusals, &["1", "2"], 0).as_deref(), Some("2"));
        assert_eq!(choose(&mut refusals, &["1", "2"], 100).as_deref(), Some("2"), "though 1 is due");
        assert_eq!(choose(&mut refusals, &["1"], 29), None);
        assert_eq!(refusals.next(), Some(at(30)));
        assert_eq!(choose(&mut refusals, &["1"], 30).as_deref(), Some("1"));
        refusals.add("1".into(), at(30), pause);
        assert_eq!(choose(&mut refusals, &["1"], 40), None);
        refusals.hurry(at(40));
        assert_eq!(choose(&mut refusals, &["1"], 40).as_deref(), Some("1"));
        assert_eq!(choose(&mut refusals, &[], 40), None);
        assert!(refusals.0.is_empty(), "what was taken away is forgotten");
    }

    #[test]
    fn placeholders_in_arguments_are_expanded() {
        let batch = ReadyBatch { path: "/out/leaf/01-x.rnews".into(), bytes: 7 };
        for (argument, text) in [
            ("%f", "/out/leaf/01-x.rnews"),
            ("host:in/%p-%n", "host:in/leaf-01-x.rnews"),
            ("100%% %", "100% %"),
            ("%x%", "%x%"),
            ("", ""),
        ] {
            assert_eq!(filled(argument, &batch, "leaf"), text, "{argument}");
        }
    }
}
