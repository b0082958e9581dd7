//! Connections to one upstream.
//!
//! There are at most `connections` of them, or as many as the server lets us have (`allowance`), made when
//! needed and kept for the next question. A server that does not answer is left alone for a while, longer
//! each time, and questions in the meantime fail at once; after that one question tries, and the others
//! wait for its result. A silent server is tried by a task of its own (`probe`), which costs readers no time;
//! another one that is away is tried by a task (`look_again`) if no question does. A question is repeated on
//! another connection if the kept one turns out to have ended, and once if its answer breaks off.

use super::allowance::{ConnectionAllowance, OpeningConnection};
use super::line::{LastHeard, MissingCommands, UpstreamConnection};
use super::trouble::UpstreamError;
use access::tls::RemoteServer;
use nntp_io::{ClientLimits, NntpClient, Role};
use site_base::back_off::BackOff;
use site_base::counters::{add, read};
use site_base::lock::Leaf;
use site_config as config;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Mutex as Turn;
use tokio::task::block_in_place;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

/// Pauses after failures.
const RETRY: BackOff = BackOff::new(Duration::from_millis(500), Duration::from_secs(60));
/// Pauses after lists in a row that did not end.
const LIST_RETRY: BackOff = BackOff::new(Duration::from_secs(60), Duration::from_secs(3600));
/// Pauses of the task that tries a server which refuses us: many refused logins in a row may have it block
/// the account.
const REFUSED_RETRY: BackOff = BackOff::new(Duration::from_secs(60), Duration::from_secs(3600));
/// Shortest pause before a server that is away is tried without a question.
const LOOK_LEAST: Duration = Duration::from_millis(100);
/// Least rate, in bytes per second, at which a server must take data in order not to count as silent.
const SENT_BYTES_PER_SEC_LEAST: usize = 32 << 10;
/// Longest time a silent server is waited for when it is tried again.
const PROBE_TIMEOUT_MAX: Duration = Duration::from_secs(10);
/// Time for which an unused connection is kept.
const KEPT_MAX: Duration = Duration::from_secs(120);

/// Time for which a server that gave a wrong answer is asked last.
const DISTRUST: Duration = Duration::from_secs(60);
/// Time for which a measured answer time counts.
const MEASURE_AGE_MAX: Duration = Duration::from_secs(60);
/// Multiple of its usual answer time, and the least time, after which a server is given up if another one
/// can be asked.
const PATIENCE_TIMES: u32 = 8;
const PATIENCE_LEAST: Duration = Duration::from_secs(2);

/// A question to an upstream, asked and answered on one connection.
pub(super) trait UpstreamQuestion: Send {
    /// Type of the answer.
    type Answer: Send;

    /// Whether it may be repeated after [`UpstreamError::Broken`].
    const MAY_BREAK: bool = false;

    /// Asks the question. May be called again after [`UpstreamError::Stale`].
    fn ask(
        &mut self,
        line: &mut UpstreamConnection,
    ) -> impl Future<Output = Result<Self::Answer, UpstreamError>> + Send;
}

/// Counts for an upstream since the start.
#[derive(Debug, Default)]
pub(super) struct UpstreamCounts {
    pub connections: AtomicU64,
    pub questions: AtomicU64,
    pub failures: AtomicU64,
    /// Answers during which a connection ended or fell silent, also on a second one.
    pub broken: AtomicU64,
    pub wrong: AtomicU64,
    pub bytes: AtomicU64,
}

/// Connections to one upstream.
pub(super) struct ConnectionPool {
    name: String,
    dial: RemoteServer,
    limits: ClientLimits,
    allowance: ConnectionAllowance,
    pulse: Arc<LastHeard>,
    kept: Leaf<Vec<(UpstreamConnection, Instant)>>,
    health: Leaf<UpstreamHealth>,
    /// Held by the question that tries a server again.
    trying: Turn<()>,
    offline: bool,
    /// Reference for the task that tries a silent server.
    own: Weak<Self>,
    pub tally: UpstreamCounts,
}

/// Availability of the upstream.
#[derive(Default)]
struct UpstreamHealth {
    failures: u32,
    retry_at: Option<Instant>,
    /// Whether the server is silent, and a task is trying it.
    is_silent: bool,
    /// Whether a task tries the server that is away.
    is_looked_at: bool,
    /// Whether it refused the last connection or login.
    has_refused: bool,
    /// Attempts to reach the silent server since it last answered a question.
    silences: u32,
    /// Whether it has asked for a login just after accepting ours, and answered nothing since.
    is_logged_out: bool,
    last_error: String,
    lacking: Arc<MissingCommands>,
    /// Usual time until its answers begin, and when that was measured.
    usual: Option<(Duration, Instant)>,
    distrusted_until: Option<Instant>,
    endless_list: Option<EndlessList>,
}

/// A list that did not end.
struct EndlessList {
    command: Vec<u8>,
    /// Lists in a row that did not end.
    failures: u32,
    /// Time when a list may be requested again.
    again_at: Instant,
    error: String,
}

impl UpstreamHealth {
    /// Records that an answer took this long to begin.
    fn took(&mut self, took: Duration) {
        let known = self.usual.filter(|(_, at)| at.elapsed() < MEASURE_AGE_MAX);
        let usual = known.map_or(took, |(usual, _)| (usual * 3 + took) / 4);
        self.usual = Some((usual, Instant::now()));
    }
}

impl ConnectionPool {
    pub fn new(config: &config::Upstream) -> Arc<Self> {
        let limits = ClientLimits {
            connect_timeout: config.connect_timeout,
            greeting_timeout: config.answer_timeout,
            answer_timeout: config.answer_timeout,
            idle_timeout: config.answer_timeout,
            ..ClientLimits::default()
        };
        Arc::new_cyclic(|own| Self {
            name: config.name.clone(),
            dial: RemoteServer { to: config.host.clone(), link: config.link() },
            limits,
            allowance: ConnectionAllowance::of(config.connections),
            pulse: Arc::default(),
            kept: Leaf::default(),
            health: Leaf::default(),
            trying: Turn::default(),
            offline: config.offline,
            own: own.clone(),
            tally: UpstreamCounts::default(),
        })
    }

    /// Asks a question; waits for a connection if all are in use.
    pub async fn ask<Q: UpstreamQuestion>(&self, mut question: Q) -> Result<Q::Answer, UpstreamError> {
        self.may_ask()?;
        add(&self.tally.questions, 1);
        let (mut wants_fresh, mut has_broken) = (false, false);
        loop {
            let permit = timeout(self.limits.answer_timeout, self.allowance.permit()).await;
            let Ok(permit) = permit else {
                return Err(UpstreamError::Away(format!("all connections to {} are in use", self.name)));
            };
            let kept = if wants_fresh { None } else { self.kept().await };
            let mut line = match kept {
                Some(line) => line,
                None => match self.connected().await? {
                    Some(line) => line,
                    // One of the open connections answers it.
                    None => {
                        permit.give_up();
                        wants_fresh = false;
                        continue;
                    }
                },
            };
            let begun = Instant::now();
            let answer = question.ask(&mut line).await;
            let may_break = Q::MAY_BREAK && !has_broken;
            match self.answered(answer, line, begun, may_break).await {
                Err(UpstreamError::Stale) if !wants_fresh => {}
                Err(UpstreamError::Broken(_)) if may_break => has_broken = true,
                answer => return answer.map_err(UpstreamError::outward),
            }
            wants_fresh = true;
        }
    }

    /// Asks a question in a task of its own, which continues even if the caller stops waiting.
    pub async fn ask_apart<Q: UpstreamQuestion + 'static>(
        self: &Arc<Self>,
        question: Q,
    ) -> Result<Q::Answer, UpstreamError> {
        let pool = self.clone();
        let asked = tokio::spawn(async move { pool.ask(question).await }).await;
        asked.unwrap_or_else(|error| Err(UpstreamError::Away(error.to_string())))
    }

    /// Returns the number of answers that broke off so far.
    pub fn broken(&self) -> u64 {
        read(&self.tally.broken)
    }

    /// Returns the number of questions so far.
    pub fn questions(&self) -> u64 {
        read(&self.tally.questions)
    }

    /// Returns the upstream's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns why no question is asked now, as far as is known without asking.
    fn may_ask(&self) -> Result<(), UpstreamError> {
        if self.offline {
            return Err(UpstreamError::Away(format!("{} is offline by the configuration", self.name)));
        }
        let health = self.health.lock();
        let is_away = health.is_silent || health.retry_at.is_some_and(|at| at > Instant::now());
        match is_away {
            true => Err(UpstreamError::Away(format!("{} is away: {}", self.name, health.last_error))),
            false => Ok(()),
        }
    }

    /// Returns why no list is requested now: the last one did not end.
    pub fn lists_refused(&self) -> Option<UpstreamError> {
        let health = self.health.lock();
        let endless = health.endless_list.as_ref().filter(|list| list.again_at > Instant::now())?;
        Some(UpstreamError::Endless(format!("no list of {} now: {}", self.name, endless.error)))
    }

    /// Records that the list that this command requests did not end: none is requested for a while, longer
    /// each time.
    pub fn list_did_not_end(&self, command: Vec<u8>, text: &str) {
        let mut health = self.health.lock();
        let failures = health.endless_list.as_ref().map_or(0, |list| list.failures).saturating_add(1);
        let pause = LIST_RETRY.pause(failures);
        let (again_at, error) = (Instant::now() + pause, text.to_owned());
        health.endless_list = Some(EndlessList { command, failures, again_at, error });
        drop(health);
        warn!(upstream = self.name, pause_secs = pause.as_secs(), "a list did not end: {text}");
    }

    /// Records that the list that this command requests was complete.
    pub fn list_ended(&self, command: &[u8]) {
        self.health.lock().endless_list.take_if(|list| list.command == command);
    }

    /// Returns whether no question is asked now.
    pub fn is_away(&self) -> bool {
        self.may_ask().is_err()
    }

    /// Returns the last error, if it did not answer the last question.
    pub fn problem(&self) -> Option<String> {
        let health = self.health.lock();
        (health.failures > 0).then(|| health.last_error.clone())
    }

    /// Returns whether it answers, as far as is known, and has not given wrong answers recently.
    pub fn is_trusted(&self) -> bool {
        let health = self.health.lock();
        health.failures == 0 && health.distrusted_until.is_none_or(|until| until < Instant::now())
    }

    /// Returns how long its answers take to begin; `None` if unknown.
    pub fn usual_time(&self) -> Option<Duration> {
        let known = self.health.lock().usual.filter(|(_, at)| at.elapsed() < MEASURE_AGE_MAX);
        known.map(|(usual, _)| usual)
    }

    /// Returns how long to wait for it if another server can be asked.
    pub fn patience(&self) -> Duration {
        (self.usual_time().unwrap_or_default() * PATIENCE_TIMES).max(PATIENCE_LEAST)
    }

    /// Records how long an answer took to begin.
    pub fn took(&self, took: Duration) {
        self.health.lock().took(took);
    }

    /// Waits for an answer, unless the server stays silent for its [`ConnectionPool::patience`].
    pub async fn soon<T>(
        &self,
        asked: impl Future<Output = Result<T, UpstreamError>>,
    ) -> Result<T, UpstreamError> {
        self.soon_taken(asked, 0).await
    }

    /// Like [`ConnectionPool::soon`], for a question that sends this many bytes first.
    pub async fn soon_taken<T>(
        &self,
        asked: impl Future<Output = Result<T, UpstreamError>>,
        bytes: usize,
    ) -> Result<T, UpstreamError> {
        let sending = Duration::from_secs((bytes / SENT_BYTES_PER_SEC_LEAST) as u64);
        let (patience, begun) = (self.patience() + sending, Instant::now());
        timeout(patience, asked).await.unwrap_or_else(|_| {
            self.was_slow(begun);
            Err(UpstreamError::Away(format!("{} does not answer soon", self.name)))
        })
    }

    /// Records that an answer to a question of `begun` is no longer awaited. If the server was not heard at
    /// all since then, it is silent. The measured answer time is not affected.
    pub fn was_slow(&self, begun: Instant) {
        if !self.pulse.was_heard_since(begun) {
            self.fell_silent(&format!("no answer within {} s", begun.elapsed().as_secs()));
        }
    }

    /// Asks it no more questions until it answers a probe.
    fn fell_silent(&self, text: &str) {
        if std::mem::replace(&mut self.health.lock().is_silent, true) {
            return;
        }
        self.failed(text);
        tokio::spawn(probe(self.own.clone()));
    }

    /// Returns how long to wait before a silent server is tried again.
    fn next_pause(&self) -> Duration {
        let mut health = self.health.lock();
        health.silences = health.silences.saturating_add(1);
        RETRY.pause(health.silences)
    }

    /// Returns whether a silent server answers again.
    async fn is_back(&self) -> bool {
        let limit = self.limits.answer_timeout.min(PROBE_TIMEOUT_MAX);
        let Ok(Ok(line)) = timeout(limit, self.probed()).await else { return false };
        self.came_back(line);
        true
    }

    /// Records that the server has answered on this connection.
    fn came_back(&self, line: UpstreamConnection) {
        {
            let mut health = self.health.lock();
            (health.is_silent, health.failures, health.retry_at) = (false, 0, None);
            health.has_refused = false;
        }
        info!(upstream = self.name, "the upstream is back");
        self.kept.lock().push((line, Instant::now()));
    }

    /// Returns how long to wait before a server that is away is tried without a question; `None` if it need
    /// not be. A silent one has a task of its own, and of one that does not honour our login only the answer
    /// to a question shows that it does again.
    fn until_next_look(&self) -> Option<Duration> {
        let mut health = self.health.lock();
        if health.failures == 0 || health.is_silent || health.is_logged_out {
            health.is_looked_at = false;
            return None;
        }
        let pause = health.retry_at.map_or(Duration::ZERO, |at| at.duration_since(Instant::now()));
        Some(if health.has_refused { pause.max(REFUSED_RETRY.pause(health.failures)) } else { pause })
    }

    /// Tries a server that is away, unless a question has tried it meanwhile.
    async fn look(&self) {
        let Ok(_permit) = timeout(self.limits.answer_timeout, self.allowance.permit()).await else { return };
        let _trying = self.trying.lock().await;
        let is_due = {
            let health = self.health.lock();
            let is_for_others = health.is_silent || health.is_logged_out;
            health.failures > 0 && !is_for_others && health.retry_at.is_none_or(|at| at <= Instant::now())
        };
        if !is_due {
            return;
        }
        match self.probed().await {
            Ok(line) => self.came_back(line),
            Err(UpstreamError::Silent(text)) => self.fell_silent(&text),
            Err(trouble) => self.could_not_connect(&trouble),
        }
    }

    /// Records that no connection could be made.
    fn could_not_connect(&self, trouble: &UpstreamError) {
        self.health.lock().has_refused = matches!(trouble, UpstreamError::Refused(..));
        self.failed(&trouble.to_string());
    }

    /// Returns a new connection that has answered a command.
    async fn probed(&self) -> Result<UpstreamConnection, UpstreamError> {
        let mut line = self.connect(self.allowance.opening()).await?;
        line.request("DATE").await?;
        if let Some(took) = line.take_time() {
            self.took(took);
        }
        Ok(line)
    }

    /// Returns whether the server was heard since the start.
    pub fn was_heard(&self) -> bool {
        self.pulse.was_heard()
    }

    /// Returns the most connections that the server lets us have, if it has refused one more.
    pub fn limit(&self) -> Option<usize> {
        self.allowance.limit()
    }

    /// Returns a kept connection.
    async fn kept(&self) -> Option<UpstreamConnection> {
        loop {
            let (mut line, since) = self.kept.lock().pop()?;
            if since.elapsed() < KEPT_MAX && line.is_reusable().await {
                (line.fresh, line.is_kept) = (false, true);
                return Some(line);
            }
        }
    }

    /// Evaluates the outcome of a question asked at `begun`, and keeps the connection if it is still
    /// usable. `may_break`: the question is repeated if its answer breaks off.
    async fn answered<T>(
        &self,
        answer: Result<T, UpstreamError>,
        mut line: UpstreamConnection,
        begun: Instant,
        may_break: bool,
    ) -> Result<T, UpstreamError> {
        add(&self.tally.bytes, line.take_bytes());
        let took = line.take_time();
        if let Some(took) = took {
            self.took(took);
        }
        match &answer {
            Err(UpstreamError::Broken(_)) if may_break => {}
            Err(UpstreamError::Away(_) | UpstreamError::Broken(_) | UpstreamError::Silent(_)) => {
                add(&self.tally.broken, 1);
            }
            _ => {}
        }
        match &answer {
            Ok(_) | Err(UpstreamError::Refused(..)) => {
                let mut health = self.health.lock();
                (health.failures, health.silences, health.is_logged_out) = (0, 0, false);
            }
            Err(UpstreamError::Stale | UpstreamError::Missing | UpstreamError::Slow) => {}
            Err(UpstreamError::Broken(_)) if may_break => {}
            Err(UpstreamError::LoggedOut(text)) => {
                self.failed(text);
                self.health.lock().is_logged_out = true;
            }
            // A server that answers, and breaks off at one article again and again, is not away.
            Err(UpstreamError::Broken(_)) if took.is_some() => add(&self.tally.failures, 1),
            Err(UpstreamError::Away(text) | UpstreamError::Broken(text)) => self.failed(text),
            // An answer that has begun, or another connection, shows that the server is not silent.
            Err(UpstreamError::Silent(text)) if took.is_some() => self.failed(text),
            Err(UpstreamError::Silent(_)) if self.pulse.was_heard_since(begun) => {
                add(&self.tally.failures, 1)
            }
            Err(UpstreamError::Silent(text)) => self.fell_silent(text),
            Err(UpstreamError::Wrong(text) | UpstreamError::Endless(text)) => {
                self.told_wrong();
                warn!(upstream = self.name, "wrong answer: {text}");
            }
        }
        if line.is_reusable().await {
            self.kept.lock().push((line, Instant::now()));
        }
        answer
    }

    /// Records that an answer was wrong.
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
        health.failures = health.failures.saturating_add(1);
        health.retry_at = Some(Instant::now() + RETRY.pause(health.failures));
        text.clone_into(&mut health.last_error);
        // Another server may replace it.
        health.lacking = Arc::default();
        let is_looked_at = std::mem::replace(&mut health.is_looked_at, true);
        drop(health);
        self.kept.lock().clear();
        if !is_looked_at {
            tokio::spawn(look_again(self.own.clone()));
        }
    }

    /// Returns a new connection. While the server is away one caller tries, and the others get its result.
    /// Returns `None` if the server refused it, and others are open.
    async fn connected(&self) -> Result<Option<UpstreamConnection>, UpstreamError> {
        let _trying = if self.health.lock().failures > 0 { Some(self.trying.lock().await) } else { None };
        self.may_ask()?;
        match self.connect(self.allowance.opening()).await {
            Ok(line) => {
                let mut health = self.health.lock();
                health.has_refused = false;
                // A successful login proves nothing if it was not honoured before: an answer does.
                let failures = if health.is_logged_out { 0 } else { std::mem::take(&mut health.failures) };
                drop(health);
                if failures > 0 {
                    info!(upstream = self.name, "the upstream is back");
                }
                Ok(Some(line))
            }
            Err(UpstreamError::Refused(code, text)) if self.allowance.others() > 0 => {
                let others = self.allowance.others();
                info!(upstream = self.name, others, "no further connection: {code} {text}");
                Ok(None)
            }
            Err(UpstreamError::Silent(text)) => {
                self.fell_silent(&text);
                Err(UpstreamError::Away(text))
            }
            Err(trouble) => {
                self.could_not_connect(&trouble);
                Err(UpstreamError::Away(trouble.to_string()))
            }
        }
    }

    async fn connect(&self, opening: OpeningConnection) -> Result<UpstreamConnection, UpstreamError> {
        let target = block_in_place(|| self.dial.target(Role::Reader, self.limits.clone()));
        let client =
            NntpClient::connect(&target.map_err(|error| UpstreamError::Away(error.to_string()))?).await?;
        add(&self.tally.connections, 1);
        let lacking = self.health.lock().lacking.clone();
        Ok(UpstreamConnection::new(client, lacking, self.pulse.clone(), opening.done()))
    }
}

/// Tries a server that is away, as long as no question finds it back and it is configured: otherwise it would
/// be reported as away until a reader asks.
async fn look_again(pool: Weak<ConnectionPool>) {
    while let Some(pause) = pool.upgrade().and_then(|pool| pool.until_next_look()) {
        sleep(pause.max(LOOK_LEAST)).await;
        let Some(pool) = pool.upgrade() else { return };
        pool.look().await;
    }
}

/// Tries a silent server until it answers, or is no longer configured.
async fn probe(pool: Weak<ConnectionPool>) {
    while let Some(pause) = pool.upgrade().map(|pool| pool.next_pause()) {
        sleep(pause).await;
        let Some(pool) = pool.upgrade() else { return };
        if pool.is_back().await {
            return;
        }
    }
}
