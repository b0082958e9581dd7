//! Hands the batches of a peer to its `after_batch`, one after the other, once the cursor has passed them.
//!
//! A batch is removed once the program has ended with exit code 0. Whatever else happens, it stays, and is
//! handed over again: so every batch is at least once with the program, and a crash may hand it over twice.

use super::batch_dir::{Batches, First, Ready, first_of};
use super::outlet::Outlet;
use super::peer::{Peer, Trouble};
use super::shared::Shared;
use crate::base::counters::add;
use crate::base::program::{Group, complaint};
use spool::Start;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::task::block_in_place;
use tokio::time::{sleep, timeout};
use tracing::info;

/// How often the directory is looked at, though no batch was made: others may take batches away.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// As much of the program's complaints as is shown, in bytes.
const COMPLAINT_BYTES_MAX: u64 = 1_000;

/// Hands over until the feed ends.
pub(super) async fn run(peer: Arc<Peer>, shared: Arc<Shared>) {
    let Outlet::Batches(own) = &peer.outlet else { return };
    let mut end = peer.end.subscribe();
    let mut failures = 0;
    while !peer.is_ending() {
        let pause = match next(&peer, own, &shared).await {
            Ok(true) => {
                failures = 0;
                peer.works(Trouble::HandOver);
                continue;
            }
            Ok(false) => LOOK_INTERVAL,
            Err(error) => {
                peer.fail(Trouble::HandOver, error);
                failures += 1;
                let pause = Duration::from_millis(peer.pause_ms(failures));
                *own.retry_at.lock() = Some(Instant::now() + pause);
                peer.attention.notify_one();
                pause
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = own.hurry.notified() => {}
            () = own.fresh.notified(), if failures == 0 => {}
            _ = end.changed() => {}
        }
        *own.retry_at.lock() = None;
    }
}

/// Hands over the oldest batch; false: there is none, nobody to hand it to, or an operator has stopped the
/// feed.
async fn next(peer: &Peer, own: &Batches, shared: &Shared) -> Result<bool, String> {
    let cannot = |error: io::Error| format!("after_batch: cannot read {}: {error}", own.dir.display());
    let ready = block_in_place(|| {
        let ready = own.ready()?;
        let end = shared.spool.journal_mark(Start::Now)?.position;
        Ok(ready.into_iter().find(|batch| is_passed(peer, batch, end)))
    });
    let (Some(batch), Some(words)) = (ready.map_err(cannot)?, &peer.send.after_batch) else {
        return Ok(false);
    };
    if peer.is_halted() {
        return Ok(false);
    }
    let file = match File::open(&batch.path) {
        // Somebody else has taken it away.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        file => file.map_err(cannot)?,
    };
    let inode = file.metadata().map_err(cannot)?.ino();
    let mut end = peer.end.subscribe();
    tokio::select! {
        ended = run_program(peer, words, &batch, file) => ended?,
        // The feed waits for us a little while; the program is killed then.
        _ = async { _ = end.changed().await; sleep(super::run::DRAIN_TIMEOUT).await } => {
            return Err("after_batch: killed, since the feed ends; the batch stays".to_owned());
        }
    }
    match block_in_place(|| own.remove(&batch.path, inode)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(format!("after_batch: cannot remove {}: {error}", batch.path.display()));
        }
        _ => {}
    }
    add(&own.handed_over, 1);
    info!(peer = peer.name, batch = %batch.path.display(), bytes = batch.bytes, "batch handed over");
    Ok(true)
}

/// Whether the cursor has passed a batch; one that it has not passed is made again after a crash. `end` is
/// the end of the journal: what begins after that is of one that was lost.
fn is_passed(peer: &Peer, batch: &Ready, end: u64) -> bool {
    let durable = peer.durable.lock();
    match first_of(&batch.path) {
        First::At(position) => position < durable.cursor.saved().position || position >= end,
        First::Deferred(key) => !durable.deferrals.has(&key),
        First::None => true,
    }
}

/// Runs the program on a batch to its end.
async fn run_program(peer: &Peer, words: &[String], batch: &Ready, file: File) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let fill = |argument: &String| filled(argument, batch, &peer.name);
    let mut child = Command::new(program)
        .args(arguments.iter().map(fill))
        .stdin(Stdio::from(file))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("after_batch: {program}: {error}"))?;
    let group = Group::of(child.id());
    let stderr = child.stderr.take();
    let ended = async { tokio::join!(complaint(stderr, COMPLAINT_BYTES_MAX), child.wait()) };
    let Ok((complaint, status)) = timeout(peer.send.after_batch_timeout, ended).await else {
        return Err(format!("after_batch: {program} did not end in time and was killed"));
    };
    group.ended();
    let status = status.map_err(|error| format!("after_batch: {program}: {error}"))?;
    match status.success() {
        true => Ok(()),
        false if complaint.is_empty() => Err(format!("after_batch: {program}: {status}")),
        false => Err(format!("after_batch: {program}: {status}: {complaint}")),
    }
}

/// An argument with what `%f`, `%n`, `%p` and `%%` stand for.
fn filled(argument: &str, batch: &Ready, peer: &str) -> String {
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
    fn arguments_name_the_batch() {
        let batch = Ready { path: "/out/leaf/01-x.rnews".into(), bytes: 7 };
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
