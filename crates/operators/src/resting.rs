//! Frees memory kept for a burst of articles or readers once it is over. A task of `server`.

use site::Site;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::block_in_place;
use tracing::warn;

/// Lowest priority; see nice(2).
const NICE_MAX: i32 = 19;
/// Interval of the task.
const PAUSE: Duration = Duration::from_secs(10);
/// Time without new articles after which a group is quiet.
const QUIET_SECS: u64 = 20;
/// Time without use after which a compressed article is dropped.
const UNUSED: Duration = Duration::from_secs(30);

/// Frees memory that quiet groups and readers do not need, periodically until the server stops.
pub async fn rest_when_quiet(site: Arc<Site>) {
    let mut stopping = std::pin::pin!(site.stopping());
    loop {
        tokio::select! {
            () = &mut stopping => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
        site.compressed.forget(UNUSED);
        block_in_place(|| site.spool.overview().rest(QUIET_SECS));
    }
}

/// Checks the indexes of a spool that is too large for a check when it is opened, once, in a thread of the
/// lowest priority, which logs its findings.
pub fn look_over_indexes(site: &Arc<Site>) {
    let spool = site.spool.clone();
    let thread = std::thread::Builder::new().name("look-over".into()).spawn(move || {
        // Affects the calling thread only.
        let _as_before = rustix::process::setpriority_process(None, NICE_MAX);
        spool.repairer().look_over()
    });
    if let Err(error) = thread {
        warn!(%error, "the indexes are not looked over");
    }
}
