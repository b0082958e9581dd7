//! What was kept while a burst of articles or readers lasted is given up when it is over. A task of `server`.

use site::Site;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::block_in_place;
use tracing::warn;

/// See nice(2).
const NICE_MAX: i32 = 19;
/// From one look to the next.
const PAUSE: Duration = Duration::from_secs(10);
/// A group is quiet when nothing was filed in it for so long.
const QUIET_SECS: u64 = 20;
/// A compressed article is kept for others until it was not sent for so long.
const UNUSED: Duration = Duration::from_secs(30);

/// Frees what quiet groups and readers do not need, again and again until the server stops.
pub async fn rest_when_quiet(site: Arc<Site>) {
    let mut stopping = std::pin::pin!(site.stopping());
    loop {
        tokio::select! {
            () = &mut stopping => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
        site.compressed.forget(UNUSED);
        block_in_place(|| site.spool.rest(QUIET_SECS));
    }
}

/// Looks over the indexes of a spool that is too large for the opening to do it, once, in a thread to which
/// all others go first. What it finds is logged there.
pub fn look_over_indexes(site: &Arc<Site>) {
    let spool = site.spool.clone();
    let thread = std::thread::Builder::new().name("look-over".into()).spawn(move || {
        // Of the calling thread alone.
        let _as_before = rustix::process::setpriority_process(None, NICE_MAX);
        spool.look_over_indexes()
    });
    if let Err(error) = thread {
        warn!(%error, "the indexes are not looked over");
    }
}
