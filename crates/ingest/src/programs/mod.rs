//! Programs that judge articles, posts and logins (`[[filter]]`).
//!
//! Each program runs as long as the server and gets batches over a pipe (`protocol`). A thread of its own
//! (`worker`) starts it, hands it one request at a time, kills it when it takes too long, and starts it
//! again, so that callers wait no longer than the program's time limit. The caller handles articles that
//! were not judged, according to the section. Called by `ingest` for articles, `inject` for posts,
//! `session` for logins. The protocol is specified in docs/filters.md.

mod process;
mod protocol;
mod questions;
#[cfg(test)]
mod tests;
mod worker;

pub use protocol::{FilterAnswer, FilterRequest, ProgramVerdict};

use parking_lot::Condvar;
use site_base::counters::{add, read};
use site_base::figures;
use site_base::lock::Leaf;
use site_base::patiently::patiently;
use site_base::printable;
use site_config::{FilterFailurePolicy, FilterProgram, FilterStage};
use site_log::SiteLog;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tracing::{error, warn};
use worker::{FilterJob, FilterWorker, WorkerMessage};

/// Time for the programs to get ready before the server starts without them.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of a reason.
const REASON_BYTES_MAX: usize = 200;

/// The programs of a configuration, in their order.
#[derive(Debug, Default)]
pub struct FilterPrograms(Vec<Arc<RunningFilter>>);

/// One `[[filter]]`.
#[derive(Debug)]
pub struct RunningFilter {
    /// Section of the configuration.
    pub section: FilterProgram,
    log: Weak<SiteLog>,
    state: Arc<ProgramState>,
    worker: OnceLock<Option<UnboundedSender<WorkerMessage>>>,
    thread: Leaf<Option<JoinHandle<()>>>,
}

/// State of a program visible outside of its thread.
#[derive(Debug, Default)]
struct ProgramState {
    /// Whether it cannot judge now.
    is_down: AtomicBool,
    /// Articles, posts and logins that it judged, and those it did not.
    judged: AtomicU64,
    unjudged: AtomicU64,
    /// Number of starts.
    starts: AtomicU64,
    /// Whether it has been ready, or failed, for the first time.
    settled: Leaf<bool>,
    settling: Condvar,
}

figures! {
    /// Status of the program of a `[[filter]]`.
    #[derive(Eq)]
    #[serde(default)]
    pub struct FilterStatus {
        /// Name of the filter.
        name name: String,
        /// Whether it cannot judge now.
        gauge down: bool =>
            words("state" = |filter, _| filter.state().to_owned(), Status, Page),
        /// Articles, posts and logins that it has judged since the start.
        counter judged: u64 => count("judged", Status, Page),
        /// Articles, posts and logins that passed or were deferred without being judged.
        counter unjudged: u64 => count("not judged", Status, Page),
        /// Number of starts of the program.
        counter starts: u64 => count("started", Status, Page),
    }
}

impl FilterStatus {
    fn state(&self) -> &'static str {
        if self.down { "cannot judge" } else { "judges" }
    }
}

impl FilterPrograms {
    /// Returns the programs of another configuration; unchanged ones keep running, and reload their files.
    pub fn after(before: &Self, sections: &[FilterProgram], log: &Arc<SiteLog>) -> Self {
        let kept = |section: &FilterProgram| {
            let program = before.0.iter().find(|program| program.section == *section)?;
            program.reload();
            Some(program.clone())
        };
        let new =
            |section: &FilterProgram| Arc::new(RunningFilter::new(section.clone(), Arc::downgrade(log)));
        Self(sections.iter().map(|section| kept(section).unwrap_or_else(|| new(section))).collect())
    }

    /// Returns the programs that judge events of this kind.
    pub fn judging(&self, what: FilterStage) -> impl Iterator<Item = &Arc<RunningFilter>> {
        self.0.iter().filter(move |program| program.section.judges(what))
    }

    /// Starts the programs and waits until each is ready, or has failed.
    pub fn start(&self) {
        let until = Instant::now() + READY_TIMEOUT;
        self.begin();
        self.0.iter().for_each(|program| program.settled(until));
    }

    /// Starts the programs.
    pub fn begin(&self) {
        self.0.iter().for_each(|program| {
            program.worker();
        });
    }

    /// Returns whether articles are deferred, since a program cannot judge them now.
    pub fn is_deferring(&self) -> bool {
        self.judging(FilterStage::Feed).any(|program| program.defers() && program.state.is_down())
    }

    /// Ends the programs, and waits for their threads.
    pub fn end(&self) {
        let all = || self.0.iter();
        all().for_each(|program| program.send(WorkerMessage::End));
        let threads: Vec<_> = all().filter_map(|program| program.thread.lock().take()).collect();
        for thread in threads {
            let _panicked = thread.join();
        }
    }

    /// Returns an error if a client with these credentials is refused, with the reason.
    pub fn login(&self, address: &str, user: &str) -> Result<(), ProgramVerdict> {
        for program in self.judging(FilterStage::Login) {
            let mut request = FilterRequest::new("login");
            request.push(format_args!("{address} {user}"), b"");
            match program.ask(request).pop().map(|answer| answer.verdict) {
                Some(verdict @ ProgramVerdict::Reject(_)) => return Err(verdict),
                Some(ProgramVerdict::Fail(_)) | None if program.defers() => {
                    return Err(ProgramVerdict::Fail(String::new()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the status of each program.
    pub fn status(&self) -> Vec<FilterStatus> {
        self.0.iter().map(|program| program.status()).collect()
    }
}

impl RunningFilter {
    fn new(section: FilterProgram, log: Weak<SiteLog>) -> Self {
        let (worker, thread) = (OnceLock::new(), Leaf::default());
        Self { section, log, state: Arc::default(), worker, thread }
    }

    /// Returns whether articles it cannot judge are deferred.
    pub fn defers(&self) -> bool {
        self.section.on_failure == FilterFailurePolicy::Defer
    }

    /// Sends a request for judgement; returns one answer for each article of the request, in order, or
    /// fewer if it could not judge them all. Waits for at most the time limit of its section once earlier
    /// requests have been answered.
    pub fn ask(&self, request: FilterRequest) -> Vec<FilterAnswer> {
        let asked = request.count();
        let (reply, answered) = mpsc::sync_channel(1);
        self.send(WorkerMessage::Job(FilterJob::new(request, reply)));
        // The worker answers or drops each job.
        let mut answers = patiently(|| answered.recv()).unwrap_or_default();
        answers.truncate(asked);
        self.count(&mut answers, asked);
        answers
    }

    /// Counts the answers, and logs when articles begin to pass unjudged.
    fn count(&self, answers: &mut [FilterAnswer], asked: usize) {
        let failed =
            answers.iter().filter(|answer| matches!(answer.verdict, ProgramVerdict::Fail(_))).count();
        let unjudged = asked - answers.len() + failed;
        add(&self.state.judged, asked - unjudged);
        add(&self.state.unjudged, unjudged);
        for answer in answers {
            match &mut answer.verdict {
                ProgramVerdict::Reject(reason) | ProgramVerdict::Fail(reason) => *reason = shortened(reason),
                _ => {}
            }
            if let ProgramVerdict::Fail(reason) = &answer.verdict {
                warn!(filter = self.section.name, reason, "a filter could not judge an article");
            }
        }
    }

    /// Requests the program to reload its files, if it runs.
    fn reload(&self) {
        if let Some(Some(worker)) = self.worker.get() {
            let (reply, _nobody_waits) = mpsc::sync_channel(1);
            let mut request = FilterRequest::new("reload");
            request.push(format_args!("-"), b"");
            let _ended = worker.send(WorkerMessage::Job(FilterJob::new(request, reply)));
        }
    }

    fn send(&self, message: WorkerMessage) {
        if let Some(worker) = self.worker() {
            let _ended = worker.send(message);
        }
    }

    /// Returns the channel to its thread, which is started on first use.
    fn worker(&self) -> Option<&UnboundedSender<WorkerMessage>> {
        let start = || {
            let (jobs, waiting) = unbounded_channel();
            let worker =
                FilterWorker::new(self.section.clone(), waiting, self.log.clone(), self.state.clone());
            match thread::Builder::new().name("filter".into()).spawn(move || worker.run()) {
                Ok(thread) => *self.thread.lock() = Some(thread),
                Err(error) => {
                    error!(filter = self.section.name, %error, "cannot start a thread for a filter");
                    self.state.set_down();
                    return None;
                }
            }
            Some(jobs)
        };
        self.worker.get_or_init(start).as_ref()
    }

    /// Waits until it has been ready or has failed for the first time.
    fn settled(&self, until: Instant) {
        let mut settled = self.state.settled.lock();
        while !*settled {
            if settled.wait_until(&self.state.settling, until) {
                warn!(filter = self.section.name, "the program of a filter is not ready yet");
                return;
            }
        }
    }

    fn status(&self) -> FilterStatus {
        FilterStatus {
            name: self.section.name.clone(),
            down: self.state.is_down(),
            judged: read(&self.state.judged),
            unjudged: read(&self.state.unjudged),
            starts: read(&self.state.starts),
        }
    }
}

impl ProgramState {
    fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Relaxed)
    }

    /// Marks the program as unable to judge; returns true if it was able before.
    fn set_down(&self) -> bool {
        self.settle();
        !self.is_down.swap(true, Ordering::Relaxed)
    }

    /// Marks the program as able to judge.
    fn set_up(&self) {
        self.is_down.store(false, Ordering::Relaxed);
        self.settle();
    }

    fn settle(&self) {
        *self.settled.lock() = true;
        self.settling.notify_all();
    }
}

/// Returns a reason as passed on: one printable line.
pub(crate) fn shortened(reason: &str) -> String {
    let mut shown = printable::line(reason).into_owned();
    shown.truncate(shown.floor_char_boundary(REASON_BYTES_MAX));
    shown
}
