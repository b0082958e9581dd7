//! The snapshot that a running member offers to those that join.

use super::MemberError;
use cluster::MachineWorld;
use cluster::nats::NatsEngine;
use cluster::transfer::{SnapshotOffer, WantedSnapshot};
use site_base::low_priority::lower_this_thread;
use spool::Spool;
use std::path::Path;
use std::sync::{Arc, Weak};
use tracing::{info, warn};

/// Name of the requests for snapshots.
pub(super) const SNAPSHOT_REQUESTS: &str = "snapshot";
/// Directory of the snapshots that are offered, in the site's directory.
const OFFERS_DIR: &str = "offered-snapshots";

/// Niceness of the threads that write a snapshot: they give way to the site, and to a restoration on the same
/// machine, which takes longer than they do.
const NICE: i32 = 10;

/// Answers requests for snapshots of a member, as long as the engine is connected.
pub(super) fn offer_snapshots(
    engine: &NatsEngine,
    spool: &Arc<Spool>,
    data: &Path,
) -> Result<Arc<SnapshotOffer>, MemberError> {
    let world = Arc::new(MachineWorld::default());
    let offer = SnapshotOffer::open(spool.disk().clone(), data.join(OFFERS_DIR), world);
    let offer = Arc::new(offer.map_err(|error| {
        MemberError::Other(format!("cannot use the directory {}: {error}", data.join(OFFERS_DIR).display()))
    })?);
    let (answering, spool) = (offer.clone(), Arc::downgrade(spool));
    let answer = move |request: &[u8]| answering.answer(request, |wanted| begin(&answering, &spool, wanted));
    engine.answer_requests(SNAPSHOT_REQUESTS, answer);
    Ok(offer)
}

/// Writes a snapshot on a thread of its own.
fn begin(offer: &Arc<SnapshotOffer>, spool: &Weak<Spool>, wanted: WantedSnapshot) {
    let (spool, wanted) = (spool.clone(), Arc::new(wanted));
    let write = {
        let (offer, wanted) = (offer.clone(), wanted.clone());
        move || write(&offer, &spool, &wanted)
    };
    if let Err(error) = std::thread::Builder::new().name("cluster-snapshot".into()).spawn(write) {
        warn!(%error, "cannot start a thread for a snapshot");
        offer.failed(&wanted, &error.to_string());
    }
}

fn write(offer: &SnapshotOffer, spool: &Weak<Spool>, wanted: &WantedSnapshot) {
    lower_this_thread(NICE);
    let written = spool.upgrade().map(|spool| spool.snapshots().write_for_now(&wanted.file));
    match written {
        Some(Ok(report)) => {
            info!(articles = report.articles, bytes = report.bytes, "snapshot written for another member");
            offer.written(wanted);
        }
        Some(Err(error)) => {
            warn!(%error, "cannot write a snapshot for another member");
            offer.failed(wanted, &error.to_string());
        }
        None => offer.failed(wanted, "the server is stopping"),
    }
}
