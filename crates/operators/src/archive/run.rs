//! The archives of a running server: a task for each. In a cluster one member writes each archive.

use super::Archives;
use super::arrivals::ArrivalCopier;
use super::overwriting::OverwriteCopier;
use super::section::{ArchiveSection, CURSOR_PREFIX, reader_of};
use crate::trailing::{SharedJournalWork, WorkTurn, job_time};
use site::{SessionSignal, Site};
use site_base::back_off::BackOff;
use spool::Spool;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinSet, block_in_place};
use tokio::time::sleep;
use tracing::{error, warn};

/// Time that articles gather before they are copied, as each copy costs several syncs, whatever its size.
const GATHER: Duration = Duration::from_secs(1);
/// Pause after an error.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// Pauses before articles that are due are tried again, as each pass examines all of them.
const EXPIRY_RETRY: BackOff = BackOff::new(RETRY_INTERVAL, Duration::from_secs(600));

/// Copies articles until the server stops.
pub async fn keep_archiving(site: Arc<Site>, archives: Arc<Archives>) {
    loop {
        let config = site.config.current();
        archives.apply(&config);
        block_in_place(|| forget_others(&site.spool, &archives));
        let mut tasks = JoinSet::new();
        for section in archives.sections() {
            tasks.spawn(copy(site.spool.clone(), section));
        }
        loop {
            let signal = retrying(&site, &archives).await;
            if signal == SessionSignal::Stop {
                tasks.shutdown().await;
                return;
            }
            if site.config.load().archives != config.archives {
                break;
            }
        }
        tasks.shutdown().await;
    }
}

/// Waits for a signal; meanwhile starts passes of expiry as long as articles that are due wait for an
/// archive, as nothing else retries them.
async fn retrying(site: &Site, archives: &Archives) -> SessionSignal {
    let (mut signal, mut passes) = (pin!(site.signal()), 1);
    loop {
        tokio::select! {
            signal = &mut signal => return signal,
            () = sleep(EXPIRY_RETRY.exact(passes)) => {}
        }
        if archives.are_awaited() {
            site.expiry.notify_one();
            passes += 1;
        } else {
            passes = 1;
        }
    }
}

/// Removes the cursors of archives that are no longer configured.
fn forget_others(spool: &Spool, archives: &Archives) {
    let sections = archives.sections();
    for reader in spool.journal().status() {
        let Some(name) = reader.name.strip_prefix(CURSOR_PREFIX) else { continue };
        if sections.iter().any(|section| section.config.name == name && !section.is_for_expiry()) {
            continue;
        }
        if let Err(error) = spool.journal().remove_cursor(&reader_of(name)) {
            warn!(archive = name, %error, "cannot remove the cursor of an archive that is no more");
        }
    }
    spool
        .cyclic_articles()
        .end_watches_but(&|reader| sections.iter().any(|s| s.is_for_expiry() && s.reader() == reader));
}

/// Copies articles for one archive.
async fn copy(spool: Arc<Spool>, section: Arc<ArchiveSection>) {
    loop {
        let Err(error) = follow(&spool, &section).await;
        section.fails(&error);
        sleep(RETRY_INTERVAL).await;
    }
}

/// Follows new articles; returns only on an error.
async fn follow(spool: &Arc<Spool>, section: &ArchiveSection) -> Result<std::convert::Infallible, io::Error> {
    let job = format!("{CURSOR_PREFIX}{}", section.config.name);
    if section.is_for_expiry() {
        let mut overwriting = OverwriteCopier::default();
        loop {
            if !spool.leads(&job) || !block_in_place(|| overwriting.step(spool, section))? {
                sleep(GATHER).await;
            }
            tokio::task::yield_now().await;
        }
    }
    let mut arrivals = block_in_place(|| ArrivalCopier::open(spool, section)).inspect_err(|error| {
        error!(archive = section.config.name, %error, "cannot follow the journal");
    })?;
    let mut work = SharedJournalWork::of(job);
    loop {
        match block_in_place(|| work.turn(spool))? {
            WorkTurn::Work => {
                let begun = job_time(spool);
                while block_in_place(|| arrivals.step(spool, section))? {
                    tokio::task::yield_now().await;
                }
                work.settle(begun);
            }
            WorkTurn::Wait(done) => block_in_place(|| done.map_or(Ok(()), |mark| arrivals.pass_to(mark)))?,
        }
        if spool.shared_log().is_none() {
            poll_fn(|context| arrivals.cursor.poll_rows(context)).await;
        }
        sleep(GATHER).await;
    }
}
