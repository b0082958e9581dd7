//! `newsreel pull`: one pull, now.

use super::{PullCounters, PullCounts, PullError, PullSite, PullSpec, run};
use crate::Sink;
use crate::operation::{OperatedSite, Operation};
use crate::reply::Reply;
use serde::{Deserialize, Serialize};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Interval of progress replies.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Fetch articles from another server; answered by [`Reply::Progress`] and [`Reply::Pulled`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PullOperation {
    /// Server, groups and limits of the pull.
    pub spec: Box<PullSpec>,
}

impl Operation for PullOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let filer = match site.filer() {
            Ok(filer) => filer,
            Err(error) => {
                sink(Reply::Error(error.to_string()));
                return false;
            }
        };
        let ground = PullSite::of(filer.clone(), site.spool().clone(), &site.config());
        let begins_filters = matches!(site, OperatedSite::Stopped { .. });
        if begins_filters {
            filer.start_filters();
        }
        let ok = site.in_runtime(sink, |sink| once(&self.spec, &ground, sink, &|| site.is_over()));
        if begins_filters {
            filer.end_filters();
        }
        ok
    }
}

/// Runs one pull now, with its progress, until `is_over` returns true; blocks. Returns whether everything
/// that the server lists was fetched.
fn once(
    spec: &PullSpec,
    ground: &PullSite,
    sink: &mut Sink<'_>,
    is_over: &(dyn Fn() -> bool + Sync),
) -> bool {
    let counts = Arc::<PullCounters>::default();
    let began = Instant::now();
    let ended = tokio::runtime::Handle::current().block_on(async {
        let mut run = pin!(run(spec, ground, &counts));
        loop {
            tokio::select! {
                ended = &mut run => break ended,
                () = sleep(PROGRESS_INTERVAL) => {
                    if is_over() {
                        break Err(PullError::Stopped);
                    }
                    let PullCounts { total, done, .. } = counts.now();
                    if total > 0 {
                        sink(Reply::Progress { what: "pulling".into(), done: done.min(total - 1), total });
                    }
                }
            }
        }
    });
    let run = counts.now();
    sink(Reply::Progress { what: "pulling".into(), done: run.total, total: run.total });
    let seconds = began.elapsed().as_secs_f64();
    sink(Reply::Pulled { counts: run, seconds, details: counts.details() });
    if let Err(error) = &ended {
        sink(Reply::Error(format!("{error}; what was fetched stays, and the next pull continues")));
    }
    ended.is_ok() && !run.lacks_some()
}
