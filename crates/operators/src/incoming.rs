//! Files the batches in the incoming directory while the server runs.
//!
//! A batch is removed once everything in it has its fate and is as durable as an acknowledgement promises;
//! after a crash it is filed again, and its articles already filed are duplicates. While the spool accepts
//! nothing, batches wait. Articles sent by a peer with XBATCH are filed as if the peer had offered them.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use tokio::task::block_in_place;
use tokio::time::sleep;
use tracing::{info, warn};

use ingest::batches::{
    BatchLedger, BatchReader, BatchTally, IncomingDir, Quarantine, UnfiledPolicy, WaitingBatch,
};
use ingest::{BatchOutcome, Origin};
use site::Site;
use site_base::counters::add;
use site_config::Config;

/// Interval at which the directory is read.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Pause before a failed batch is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Reason why a batch stays where it is.
enum BatchFailure {
    /// The spool accepts nothing, or the server stops.
    Later(String),
    /// Nothing of it can be filed now, though others can.
    Alone(String),
    /// The batch cannot be read, or its results cannot be written.
    Broken(io::Error),
}

/// Files batches until the server stops.
pub async fn file_incoming(site: Arc<Site>) {
    let mut stopping = pin!(site.stopping());
    let mut retry: Option<Instant> = None;
    let mut alone = HashMap::new();
    loop {
        tokio::select! {
            () = &mut stopping => return,
            () = site.waiting.fresh.notified() => {}
            () = sleep(LOOK_INTERVAL) => {}
        }
        let rests = retry.is_some_and(|at| Instant::now() < at);
        if let Err(why) = block_in_place(|| pass(&site, rests, &mut alone)) {
            let text = match why {
                BatchFailure::Later(text) => {
                    retry = Some(Instant::now() + RETRY_INTERVAL);
                    text
                }
                BatchFailure::Alone(text) => text,
                BatchFailure::Broken(error) => error.to_string(),
            };
            let mut problem = site.waiting.problem.lock();
            if *problem != text && !site.is_stopping() {
                warn!("a batch waits to be filed: {text}");
            }
            *problem = text;
        } else if !rests {
            retry = None;
        }
    }
}

/// Files all that waits, unless it is only to be counted. `alone` has when batches are tried again of which
/// nothing can be filed.
fn pass(site: &Site, only_counts: bool, alone: &mut HashMap<PathBuf, Instant>) -> Result<(), BatchFailure> {
    let config = site.config.current();
    let incoming = IncomingDir::of(&config, site.spool.disk());
    let waiting = incoming.waiting().map_err(BatchFailure::Broken)?;
    let count = |waiting: &[WaitingBatch]| {
        site.waiting.batches.store(waiting.len() as u64, Ordering::Relaxed);
        site.waiting.bytes.store(waiting.iter().map(|found| found.bytes).sum(), Ordering::Relaxed);
    };
    count(&waiting);
    if only_counts {
        return Ok(());
    }
    alone.retain(|path, _| waiting.iter().any(|found| found.path == *path));
    let mut first = Ok(());
    for (at, found) in waiting.iter().enumerate() {
        if alone.get(&found.path).is_some_and(|until| Instant::now() < *until) {
            continue;
        }
        let is_again = alone.contains_key(&found.path);
        match file(site, &config, &incoming, found, is_again) {
            Ok(tally) => {
                info!(batch = %found.path.display(), "{}", tally.summary());
                site.waiting.problem.lock().clear();
            }
            // One that cannot be read, or filed, does not keep others waiting.
            Err(why @ (BatchFailure::Broken(_) | BatchFailure::Alone(_))) => {
                if let BatchFailure::Alone(_) = why {
                    alone.insert(found.path.clone(), Instant::now() + RETRY_INTERVAL);
                }
                first = first.and(Err(why));
            }
            Err(later) => return Err(later),
        }
        count(waiting.get(at + 1..).unwrap_or_default());
    }
    first
}

/// Files one batch and removes it; if it is tried again (`is_again`), its articles are not named again.
fn file(
    site: &Site,
    config: &Config,
    incoming: &IncomingDir,
    found: &WaitingBatch,
    is_again: bool,
) -> Result<BatchTally, BatchFailure> {
    let identity = &config.site.path_names();
    let origin = match &found.sender {
        None => Some(Origin::batch(identity).accepting(&config.batches.accept)),
        Some(sender) => config
            .peers
            .iter()
            .find(|peer| peer.name == sender.peer)
            .map(|peer| Origin::peer(identity, peer, site.counters.of_peer(&peer.name), &sender.address)),
    };
    let source = File::open(&found.path).map_err(BatchFailure::Broken)?;
    let mut batch = BatchReader::new(Box::new(source), config.site.article_bytes_max);
    let mut line = |line: std::fmt::Arguments<'_>| {
        if !is_again {
            warn!("{line}");
        }
    };
    let name = found.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let keep = UnfiledPolicy::In(incoming.clone(), found.sender.clone());
    let quarantine = Quarantine::of(&config.site.data, site.spool.disk());
    let mut ledger = BatchLedger::new(name, quarantine, keep, &mut line);
    let mut waits_for = None;
    while let (Some(origin), Some(parcel)) = (&origin, batch.next_parcel().map_err(BatchFailure::Broken)?) {
        if site.is_stopping() {
            return Err(BatchFailure::Later("the server stops".into()));
        }
        let fates = site.filer.file_from(origin, &parcel.wires());
        ledger.settle(&parcel, &fates).map_err(BatchFailure::Broken)?;
        let mut later = fates.into_iter().filter(|fate| fate.outcome == BatchOutcome::TryLater);
        let (first, trouble) = (later.next(), later.find(|fate| !fate.is_alone));
        match trouble.or(first) {
            Some(fate) if !fate.is_alone => return Err(BatchFailure::Later(fate.reason)),
            Some(fate) => waits_for = Some(fate.reason),
            None => {}
        }
    }
    if let Some(why) = waits_for.filter(|_| ledger.tally.try_later == ledger.tally.all()) {
        return Err(BatchFailure::Alone(why));
    }
    if origin.is_none() {
        ledger.refused("its sender is no longer a peer");
    }
    if let Some(why) = batch.damage() {
        ledger.not_decompressed(why);
    }
    site.spool.settle().map_err(|trouble| BatchFailure::Later(trouble.text))?;
    let tally = ledger.tally;
    // On disk before the batch is removed.
    ledger.end().map_err(|why| BatchFailure::Alone(why.to_string()))?;
    incoming.remove(found).map_err(BatchFailure::Broken)?;
    let count = |counter, n: u64| add(counter, usize::try_from(n).unwrap_or(usize::MAX));
    count(&site.waiting.filed, 1);
    count(&site.waiting.accepted, tally.accepted);
    count(&site.waiting.damaged, tally.damaged);
    Ok(tally)
}
