//! The connections to one upstream.
//!
//! At most `connections` of them, made when they are needed and kept for the next question. A server that
//! does not answer is left alone for a while, longer each time, and those who ask meanwhile are told at once;
//! after that one tries, and the others wait for what becomes of it. A question is asked again on a fresh
//! connection if the kept one turns out to have ended.

use super::line::{Lacking, Line};
use super::trouble::Trouble;
use crate::base::counters::{add, read};
use crate::base::lock::Leaf;
use crate::config;
use crate::tls::Dial;
use nntp_io::{Client, Limits, Role};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex as Turn, Semaphore};
use tokio::task::block_in_place;
use tokio::time::timeout;
use tracing::{info, warn};

/// The first pause after a failure, doubled each time.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
/// The longest one.
const PAUSE_LONGEST: Duration = Duration::from_secs(60);
/// How long a connection is kept that nobody uses.
const KEPT_MAX: Duration = Duration::from_secs(120);

/// For how long a server that gave a wrong answer is asked after all others.
const DISTRUST: Duration = Duration::from_secs(60);
/// For how long it counts how soon a server has answered.
const MEASURE_AGE_MAX: Duration = Duration::from_secs(60);
/// A server that takes so many times what it usually does, and not less than this, is not waited for where
/// another one can be asked.
const PATIENCE_TIMES: u32 = 8;
const PATIENCE_LEAST: Duration = Duration::from_secs(2);

/// Something that is asked of an upstream, in one go on one connection.
pub(super) trait Question: Send {
    /// What comes back.
    type Answer: Send;

    /// Asks it. May be called again after [`Trouble::Stale`].
    fn ask(&mut self, line: &mut Line) -> impl Future<Output = Result<Self::Answer, Trouble>> + Send;
}

/// What was asked of an upstream since the start.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub connections: AtomicU64,
    pub questions: AtomicU64,
    pub failures: AtomicU64,
    pub wrong: AtomicU64,
    pub bytes: AtomicU64,
}

/// The connections to one upstream.
pub(super) struct Pool {
    name: String,
    dial: Dial,
    limits: Limits,
    permits: Semaphore,
    kept: Leaf<Vec<(Line, Instant)>>,
    health: Leaf<Health>,
    /// Held by the one that tries a server again.
    trying: Turn<()>,
    offline: bool,
    pub tally: Tally,
}

/// Whether the upstream answers.
#[derive(Default)]
struct Health {
    failures: u32,
    retry_at: Option<Instant>,
    last_error: String,
    lacking: Arc<Lacking>,
    /// How long its answers took of late to begin, and when that was found out.
    usual: Option<(Duration, Instant)>,
    distrusted_until: Option<Instant>,
}

impl Health {
    /// An answer took this long to begin.
    fn took(&mut self, took: Duration) {
        let known = self.usual.filter(|(_, at)| at.elapsed() < MEASURE_AGE_MAX);
        let usual = known.map_or(took, |(usual, _)| (usual * 3 + took) / 4);
        self.usual = Some((usual, Instant::now()));
    }
}

impl Pool {
    pub fn new(config: &config::Upstream) -> Self {
        let limits = Limits {
            connect_timeout: config.connect_timeout,
            greeting_timeout: config.answer_timeout,
            answer_timeout: config.answer_timeout,
            idle_timeout: config.answer_timeout,
            ..Limits::default()
        };
        Self {
            name: config.name.clone(),
            dial: Dial { to: config.host.clone(), link: config.link() },
            limits,
            permits: Semaphore::new(config.connections),
            kept: Leaf::default(),
            health: Leaf::default(),
            trying: Turn::default(),
            offline: config.offline,
            tally: Tally::default(),
        }
    }

    /// Asks a question; waits for a connection if all are in use.
    pub async fn ask<Q: Question>(&self, mut question: Q) -> Result<Q::Answer, Trouble> {
        self.may_ask()?;
        let permit = timeout(self.limits.answer_timeout, self.permits.acquire()).await;
        let _permit = match permit {
            Ok(Ok(permit)) => permit,
            _ => return Err(Trouble::Away(format!("all connections to {} are in use", self.name))),
        };
        add(&self.tally.questions, 1);
        if let Some(mut line) = self.kept().await {
            match self.answered(question.ask(&mut line).await, line).await {
                Err(Trouble::Stale) => {}
                answer => return answer,
            }
        }
        let mut line = self.connected().await?;
        let answer = question.ask(&mut line).await;
        self.answered(answer, line).await.map_err(|trouble| match trouble {
            Trouble::Stale => Trouble::Away(trouble.to_string()),
            other => other,
        })
    }

    /// The same in a task of its own: it goes on if nobody waits for the answer any longer.
    pub async fn ask_apart<Q: Question + 'static>(
        self: &Arc<Self>,
        question: Q,
    ) -> Result<Q::Answer, Trouble> {
        let pool = self.clone();
        let asked = tokio::spawn(async move { pool.ask(question).await }).await;
        asked.unwrap_or_else(|error| Err(Trouble::Away(error.to_string())))
    }

    /// Questions so far.
    pub fn questions(&self) -> u64 {
        read(&self.tally.questions)
    }

    /// The upstream's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Why nothing is asked now, as far as it is known without asking.
    fn may_ask(&self) -> Result<(), Trouble> {
        if self.offline {
            return Err(Trouble::Away(format!("{} is offline by the configuration", self.name)));
        }
        let health = self.health.lock();
        match health.retry_at.filter(|at| *at > Instant::now()) {
            Some(_) => Err(Trouble::Away(format!("{} is away: {}", self.name, health.last_error))),
            None => Ok(()),
        }
    }

    /// Whether nothing is asked now.
    pub fn is_away(&self) -> bool {
        self.may_ask().is_err()
    }

    /// Whether it has answered when it was last asked.
    pub fn problem(&self) -> Option<String> {
        let health = self.health.lock();
        (health.failures > 0).then(|| health.last_error.clone())
    }

    /// Whether it answers, as far as is known, and has not lied of late.
    pub fn is_trusted(&self) -> bool {
        let health = self.health.lock();
        health.failures == 0 && health.distrusted_until.is_none_or(|until| until < Instant::now())
    }

    /// How long its answers take to begin; `None`: it is not known.
    pub fn usual_time(&self) -> Option<Duration> {
        let known = self.health.lock().usual.filter(|(_, at)| at.elapsed() < MEASURE_AGE_MAX);
        known.map(|(usual, _)| usual)
    }

    /// How long it is waited for where another server can be asked.
    pub fn patience(&self) -> Duration {
        (self.usual_time().unwrap_or_default() * PATIENCE_TIMES).max(PATIENCE_LEAST)
    }

    /// It was not waited for.
    pub fn was_slow(&self, waited: Duration) {
        self.health.lock().took(waited);
    }

    /// A connection that was kept.
    async fn kept(&self) -> Option<Line> {
        loop {
            let (mut line, since) = self.kept.lock().pop()?;
            if since.elapsed() < KEPT_MAX && line.is_reusable().await {
                line.fresh = false;
                return Some(line);
            }
        }
    }

    /// What became of a question; the connection is kept if it is of more use.
    async fn answered<T>(&self, answer: Result<T, Trouble>, mut line: Line) -> Result<T, Trouble> {
        add(&self.tally.bytes, line.take_bytes());
        if let Some(took) = line.take_time() {
            self.health.lock().took(took);
        }
        match &answer {
            Ok(_) | Err(Trouble::Refused(..)) => self.health.lock().failures = 0,
            Err(Trouble::Stale | Trouble::Missing | Trouble::Slow) => {}
            Err(Trouble::Away(text)) => self.failed(text),
            Err(Trouble::Wrong(text)) => {
                self.told_wrong();
                warn!(upstream = self.name, "wrong answer: {text}");
            }
        }
        if line.is_reusable().await {
            self.kept.lock().push((line, Instant::now()));
        }
        answer
    }

    /// Its answer was found to be wrong.
    pub fn told_wrong(&self) {
        add(&self.tally.wrong, 1);
        self.health.lock().distrusted_until = Some(Instant::now() + DISTRUST);
    }

    /// Leaves the server alone for a while.
    fn failed(&self, text: &str) {
        add(&self.tally.failures, 1);
        let mut health = self.health.lock();
        if health.failures == 0 {
            warn!(upstream = self.name, "the upstream is away: {text}");
        }
        let pause = PAUSE_FIRST.saturating_mul(1 << health.failures.min(10)).min(PAUSE_LONGEST);
        health.failures = health.failures.saturating_add(1);
        health.retry_at = Some(Instant::now() + pause);
        text.clone_into(&mut health.last_error);
        // Another one may come back.
        health.lacking = Arc::default();
        drop(health);
        self.kept.lock().clear();
    }

    /// A new connection. While the server is away one tries, and the others learn of it.
    async fn connected(&self) -> Result<Line, Trouble> {
        let _trying = if self.health.lock().failures > 0 { Some(self.trying.lock().await) } else { None };
        self.may_ask()?;
        match self.connect().await {
            Ok(line) => {
                let failures = std::mem::take(&mut self.health.lock().failures);
                if failures > 0 {
                    info!(upstream = self.name, "the upstream is back");
                }
                Ok(line)
            }
            Err(trouble) => {
                self.failed(&trouble.to_string());
                Err(Trouble::Away(trouble.to_string()))
            }
        }
    }

    async fn connect(&self) -> Result<Line, Trouble> {
        let target = block_in_place(|| self.dial.target(Role::Reader, self.limits.clone()));
        let client = Client::connect(&target.map_err(Trouble::Away)?).await?;
        add(&self.tally.connections, 1);
        Ok(Line::new(client, self.health.lock().lacking.clone()))
    }
}
