//! Thread of a filter program: starts it, sends it requests one after the other, and starts it again when
//! it exits or takes too long.
//!
//! A request whose program dies is sent to the next one, once, if there is time left. A program that fails
//! repeatedly is started at growing intervals. Nothing waits in the meantime: requests come back
//! unanswered.

use super::ProgramState;
use super::process::{self, FilterProcess, ProgramFault};
use super::protocol::{FilterAnswer, FilterRequest};
use site_base::back_off::BackOff;
use site_base::counters::add;
use site_config::{FilterFailurePolicy, FilterProgram};
use site_log::SiteLog;
use std::pin::pin;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{error, info, warn};

/// Shortest time between two starts.
const START_INTERVAL: Duration = Duration::from_millis(250);
/// Pauses after the second failure in a row and further ones.
const RESTARTS: BackOff = BackOff::new(Duration::from_secs(1), Duration::from_secs(60));

/// Messages to the thread.
#[derive(Debug)]
pub(super) enum WorkerMessage {
    Job(FilterJob),
    End,
}

/// A request being processed.
#[derive(Debug)]
pub(super) struct FilterJob {
    request: FilterRequest,
    pub payload: Arc<Vec<u8>>,
    pub count: usize,
    /// Answers so far.
    pub answers: Vec<FilterAnswer>,
    reply: SyncSender<Vec<FilterAnswer>>,
    /// Deadline; set when its turn has come.
    until: Option<Instant>,
    /// Whether a program has died while processing it.
    is_again: bool,
}

impl FilterJob {
    pub fn new(mut request: FilterRequest, reply: SyncSender<Vec<FilterAnswer>>) -> Self {
        let payload = Arc::new(request.take_payload());
        let count = request.count();
        Self { request, payload, count, answers: Vec::new(), reply, until: None, is_again: false }
    }

    /// Returns the first line of its request.
    pub fn head(&self, number: u64) -> Vec<u8> {
        self.request.head(number, self.payload.len())
    }

    fn until(&mut self, timeout: Duration) -> Instant {
        *self.until.get_or_insert_with(|| Instant::now() + timeout)
    }

    fn reply(self) {
        let _nobody_waits = self.reply.send(self.answers);
    }
}

/// State of the thread.
pub(super) struct FilterWorker {
    section: FilterProgram,
    jobs: UnboundedReceiver<WorkerMessage>,
    log: Weak<SiteLog>,
    state: Arc<ProgramState>,
    /// Job to be processed next.
    pending: Option<FilterJob>,
    /// Failures since its last answer.
    failures: u32,
    last_start: Option<Instant>,
    next_start: Instant,
    /// Number of the last request.
    number: u64,
}

impl FilterWorker {
    pub fn new(
        section: FilterProgram,
        jobs: UnboundedReceiver<WorkerMessage>,
        log: Weak<SiteLog>,
        state: Arc<ProgramState>,
    ) -> Self {
        let (pending, last_start, next_start) = (None, None, Instant::now());
        Self { section, jobs, log, state, pending, failures: 0, last_start, next_start, number: 0 }
    }

    /// Runs until the program is no longer needed.
    pub fn run(mut self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => runtime.block_on(async {
                while let Some(mut process) = self.launch().await {
                    match self.serve(&mut process).await {
                        Ok(()) => return process.end().await,
                        Err(fault) => {
                            let fault = process.kill().await.map_or(fault, ProgramFault::Exited);
                            self.failed(&fault);
                        }
                    }
                }
            }),
            Err(error) => {
                error!(filter = self.section.name, %error, "cannot run a filter");
                self.state.set_down();
            }
        }
    }

    /// Starts the program when it is due; jobs that cannot wait that long come back unanswered. Returns
    /// `None` if the program is no longer needed.
    async fn launch(&mut self) -> Option<FilterProcess> {
        loop {
            let (section, next) = (self.section.clone(), self.next_start);
            let mut starting = pin!(async move {
                sleep_until(next).await;
                (Instant::now(), process::start(&section).await)
            });
            let mut in_vain = false;
            let (at, started) = loop {
                let mut job = match self.pending.take() {
                    Some(job) => job,
                    None => tokio::select! {
                        biased;
                        started = &mut starting => break started,
                        message = self.jobs.recv() => match message {
                            Some(WorkerMessage::Job(job)) => job,
                            Some(WorkerMessage::End) | None => return None,
                        },
                    },
                };
                let until = job.until(self.section.timeout);
                if in_vain || next >= until {
                    self.unjudged(job);
                    continue;
                }
                match timeout_at(until, &mut starting).await {
                    Ok(started) => {
                        self.pending = Some(job);
                        break started;
                    }
                    Err(_) => {
                        in_vain = true;
                        self.unjudged(job);
                    }
                }
            };
            self.last_start = Some(at);
            add(&self.state.starts, 1);
            match started {
                Ok(process) => {
                    info!(filter = self.section.name, process = process.child.id(), "filter program started");
                    self.state.set_up();
                    return Some(process);
                }
                Err(fault) => self.failed(&fault),
            }
        }
    }

    /// Sends requests to the program. Returns `Ok` if it should end, or its fault.
    async fn serve(&mut self, process: &mut FilterProcess) -> Result<(), ProgramFault> {
        loop {
            let mut job = match self.pending.take() {
                Some(job) => job,
                None => tokio::select! {
                    biased;
                    message = self.jobs.recv() => match message {
                        Some(WorkerMessage::Job(job)) => job,
                        Some(WorkerMessage::End) | None => return Ok(()),
                    },
                    status = process.child.wait() => {
                        return Err(status.map_or_else(ProgramFault::Io, ProgramFault::Exited));
                    }
                },
            };
            self.number += 1;
            let until = job.until(self.section.timeout);
            let exchange = process.exchange(&self.section.name, &mut job, self.number, &self.log);
            match timeout_at(until, exchange).await {
                Ok(Ok(())) => {
                    self.failures = 0;
                    self.state.set_up();
                    job.reply();
                }
                Ok(Err(fault)) if job.is_again => {
                    self.unjudged(job);
                    return Err(fault);
                }
                Ok(Err(fault)) => {
                    job.is_again = true;
                    self.pending = Some(job);
                    return Err(fault);
                }
                Err(_) => {
                    self.unjudged(job);
                    return Err(ProgramFault::TimedOut(self.section.timeout));
                }
            }
        }
    }

    /// Schedules the next start after a failure.
    fn failed(&mut self, fault: &ProgramFault) {
        warn!(filter = self.section.name, why = fault.to_string(), "filter program failed");
        let pause = if self.failures == 0 { Duration::ZERO } else { RESTARTS.pause(self.failures) };
        self.failures = self.failures.saturating_add(1);
        let now = Instant::now();
        let soonest = self.last_start.map_or(now, |at| at + START_INTERVAL);
        self.next_start = (now + pause).max(soonest);
        self.state.settle();
    }

    /// Returns the rest of a job unjudged.
    fn unjudged(&self, job: FilterJob) {
        if self.state.set_down() {
            let filter = &self.section.name;
            match self.section.on_failure {
                FilterFailurePolicy::Pass => {
                    warn!(filter, "a filter cannot judge: everything passes meanwhile")
                }
                FilterFailurePolicy::Defer => {
                    warn!(filter, "a filter cannot judge: everything is deferred meanwhile")
                }
            }
        }
        job.reply();
    }
}
