//! Standing pulls: each `[[pull]]` section is fetched repeatedly while the server runs.
//!
//! The pull of a section that a reload has changed or removed ends at once, and a changed one begins again;
//! articles fetched stay. `newsreel pull` runs one in addition (`operation`); the lock of the server's marks
//! prevents two runs from the same server at once. In a cluster one member runs each.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use site_base::lock::Leaf;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{info, warn};

use super::{PullCounters, PullCounts, PullError, PullSite, PullSpec, run};
use crate::report::PullStatus;
use site::{SessionSignal, Site};
use site_base::clock::unix_secs;
use site_config::{Config, Pull};

/// Interval of questions whether another member of the cluster runs a pull.
const LEAD_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of progress replies.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Status of the standing pulls, by name.
#[derive(Debug, Default)]
pub struct Pulls(Leaf<HashMap<String, PullStatus>>);

impl Pulls {
    /// Returns the status of the pulls in `config`, in order.
    pub fn status(&self, config: &Config) -> Vec<PullStatus> {
        let known = self.0.lock();
        let status = |pull: &Pull| PullStatus {
            name: pull.name.clone(),
            from: pull.from.clone(),
            ..known.get(&pull.name).cloned().unwrap_or_default()
        };
        config.pulls.iter().map(status).collect()
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut PullStatus)) {
        change(self.0.lock().entry_ref(name).or_default());
    }
}

/// Runs all standing pulls until the server stops.
pub async fn keep_pulling(site: Arc<Site>, pulls: Arc<Pulls>) {
    let mut running: HashMap<String, (Pull, tokio::task::AbortHandle)> = HashMap::new();
    let mut tasks = JoinSet::new();
    loop {
        let signal = site.signal();
        let config = site.config.current();
        // Pulls removed or changed are aborted; the marks are whole at any moment.
        let mut ending = Vec::new();
        running.retain(|_, (pull, task)| {
            let stays = config.pulls.contains(pull);
            if !stays {
                task.abort();
                ending.push(task.clone());
            }
            stays
        });
        // A changed one needs the marks, which the old one has until it has ended.
        while ending.iter().any(|task| !task.is_finished()) && tasks.join_next().await.is_some() {}
        pulls.0.lock().retain(|name, _| config.pulls.iter().any(|pull| pull.name == *name));
        for pull in &config.pulls {
            if !running.contains_key(&pull.name) {
                let task = tasks.spawn(stand(site.clone(), pulls.clone(), pull.clone()));
                running.insert(pull.name.clone(), (pull.clone(), task));
            }
        }
        let mut signal = pin!(signal);
        loop {
            tokio::select! {
                signal = &mut signal => match signal {
                    SessionSignal::Reloaded => break,
                    SessionSignal::Stop => return,
                },
                Some(_ended) = tasks.join_next() => {}
            }
        }
    }
}

/// Runs one standing pull.
async fn stand(site: Arc<Site>, pulls: Arc<Pulls>, pull: Pull) {
    let spec = PullSpec::from(&pull);
    let mut last_error = String::new();
    let job = format!("pull.{}", pull.name);
    loop {
        while !site.spool.leads(&job) {
            sleep(LEAD_INTERVAL).await;
        }
        let counts = Arc::<PullCounters>::default();
        let before = unix_secs();
        pulls.change(&pull.name, |status| status.running_since = Some(before));
        let ground = PullSite::of(site.filer.clone(), site.spool.clone(), &site.config.load());
        let ended = {
            let mut run = pin!(run(&spec, &ground, &counts));
            loop {
                tokio::select! {
                    ended = &mut run => break ended,
                    () = sleep(PROGRESS_INTERVAL) => {
                        pulls.change(&pull.name, |status| status.run = counts.now());
                        if !site.spool.leads(&job) {
                            break Err(PullError::Stopped);
                        }
                    }
                }
            }
        };
        let (run, details) = (counts.now(), counts.details());
        pulls.change(&pull.name, |status| {
            status.details = details;
            status.running_since = None;
            status.last_run = Some(unix_secs());
            status.run = run;
            status.runs += 1;
            status.fetched += run.fetched;
            status.accepted += run.accepted;
            status.last_error = ended.as_ref().err().map(ToString::to_string).unwrap_or_default();
            if ended.is_ok() && run.groups_skipped == 0 {
                status.complete = Some(before);
            }
        });
        match ended {
            Ok(()) if run.fetched > 0 || !last_error.is_empty() => {
                info!(pull = pull.name, "{}", summary(&run));
                last_error.clear();
            }
            Ok(()) => {}
            Err(error) => {
                let text = error.to_string();
                if text != last_error {
                    warn!(pull = pull.name, "pull ended early: {text}; {}", summary(&run));
                }
                last_error = text;
            }
        }
        sleep(pull.interval).await;
    }
}

/// Summarizes a run in one line.
pub fn summary(run: &PullCounts) -> String {
    use site_base::units::{about_size, counted, grouped};
    let mut text = format!(
        "{} of {} fetched ({}): {} accepted, {} rejected",
        counted(run.fetched, "article"),
        counted(run.groups, "group"),
        about_size(run.bytes),
        grouped(run.accepted),
        grouped(run.rejected),
    );
    let mut also = |count: u64, what: &str| {
        if count > 0 {
            text.push_str(&format!(", {} {what}", grouped(count)));
        }
    };
    also(run.duplicates, "known by then");
    also(run.known, "known and not fetched");
    also(run.missing, "listed and not there");
    also(run.set_aside, "set aside");
    also(run.given_up, "given up");
    if run.groups_made > 0 {
        text.push_str(&format!("; {} made", counted(run.groups_made, "group")));
    }
    if run.groups_skipped > 0 {
        text.push_str(&format!("; {} left out", counted(run.groups_skipped, "group")));
    }
    if run.odd_lines > 0 {
        text.push_str(&format!("; {} of its lists make no sense", counted(run.odd_lines, "line")));
    }
    if run.not_carried > 0 {
        text.push_str(&format!("; {} not carried here", counted(run.not_carried, "matching group")));
    }
    text
}
