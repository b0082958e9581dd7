//! Questions of one session sent together: all commands at once on one connection, then the answers in
//! order.
//!
//! Each is answered on its own. If the connection fails among the answers, questions without an answer are
//! returned, and asked alone. Called by `ahead` and `searching`.

use super::line::UpstreamConnection;
use super::pool::{ConnectionPool, UpstreamQuestion};
use super::trouble::UpstreamError;
use site_base::lock::Leaf;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// A question whose commands can be sent before earlier answers have arrived.
pub(super) trait Pipelined: UpstreamQuestion {
    /// Queues its commands.
    fn submit(&mut self, line: &mut UpstreamConnection) -> Result<(), UpstreamError>;

    /// Reads its whole answer.
    fn take(
        &mut self,
        line: &mut UpstreamConnection,
    ) -> impl Future<Output = Result<Self::Answer, UpstreamError>> + Send;
}

/// Answer to a question sent with others; its sender is dropped if there was none.
pub(super) type PromisedAnswer<T> = oneshot::Receiver<Result<T, UpstreamError>>;

/// A question asked ahead.
pub(super) struct EarlyQuestion<T> {
    pub pool: Arc<ConnectionPool>,
    /// Time when it was asked.
    pub at: Instant,
    pub answer: PromisedAnswer<T>,
}

/// A question, and the sender for its answer.
type Queued<Q> = (Q, oneshot::Sender<Result<<Q as UpstreamQuestion>::Answer, UpstreamError>>);

/// Several questions sent together.
struct AskTogether<Q: Pipelined> {
    queue: VecDeque<Queued<Q>>,
    has_begun: Arc<AtomicBool>,
}

impl<Q: Pipelined> UpstreamQuestion for AskTogether<Q> {
    type Answer = ();

    async fn ask(&mut self, line: &mut UpstreamConnection) -> Result<(), UpstreamError> {
        for (question, _) in &mut self.queue {
            question.submit(line)?;
        }
        while let Some((question, _)) = self.queue.front_mut() {
            let answer = question.take(line).await;
            if matches!(answer, Err(UpstreamError::Stale)) {
                return Err(UpstreamError::Stale);
            }
            self.has_begun.store(true, Ordering::Relaxed);
            // After these the connection is in a known state.
            let broken = match &answer {
                Ok(_) | Err(UpstreamError::Refused(..) | UpstreamError::Missing) => None,
                Err(trouble) => Some(trouble.clone()),
            };
            if let Some((_, sender)) = self.queue.pop_front() {
                let _nobody_waits = sender.send(answer);
            }
            if let Some(trouble) = broken {
                return Err(trouble);
            }
        }
        Ok(())
    }
}

/// Asks these questions together, in a task of its own.
pub(super) fn ask_together<Q: Pipelined + 'static>(
    pool: &Arc<ConnectionPool>,
    questions: impl IntoIterator<Item = Q>,
) -> Vec<PromisedAnswer<Q::Answer>> {
    let (queue, promised) = questions
        .into_iter()
        .map(|question| {
            let (sender, receiver) = oneshot::channel();
            ((question, sender), receiver)
        })
        .unzip();
    let (pool, has_begun) = (pool.clone(), Arc::default());
    tokio::spawn(async move {
        // Unanswered questions drop their senders.
        let _answered = pool.ask(AskTogether { queue, has_begun }).await;
    });
    promised
}

/// Questions to one upstream, gathered until all that were announced have arrived.
struct QuestionBatch<Q: Pipelined> {
    pool: Arc<ConnectionPool>,
    /// Time to wait for the first answer; `None` for the pool's own limit.
    patience: Option<Duration>,
    gathered: Leaf<PendingQuestions<Q>>,
    was_slow: AtomicBool,
}

struct PendingQuestions<Q: Pipelined> {
    queue: VecDeque<Queued<Q>>,
    /// Questions still to come.
    announced: usize,
}

/// Announcement of one question. Dropping it withdraws the announcement.
pub(super) struct QuestionTicket<Q: Pipelined + 'static>(Arc<QuestionBatch<Q>>);

/// Announces `count` questions.
pub(super) fn tickets<Q: Pipelined + 'static>(
    pool: &Arc<ConnectionPool>,
    patience: Option<Duration>,
    count: usize,
) -> Vec<QuestionTicket<Q>> {
    let gathered = Leaf::new(PendingQuestions { queue: VecDeque::new(), announced: count });
    let gathering =
        QuestionBatch { pool: pool.clone(), patience, gathered, was_slow: AtomicBool::new(false) };
    let gathering = Arc::new(gathering);
    (0..count).map(|_| QuestionTicket(gathering.clone())).collect()
}

impl<Q: Pipelined + 'static> QuestionTicket<Q> {
    /// Returns whether it is for this upstream.
    pub fn is_for(&self, pool: &Arc<ConnectionPool>) -> bool {
        Arc::ptr_eq(&self.0.pool, pool)
    }

    /// Asks together with the others; returns `None` if there was no answer, and it may be asked alone.
    pub async fn ask(self, question: Q) -> Option<Result<Q::Answer, UpstreamError>> {
        let (sender, receiver) = oneshot::channel();
        let gathering = self.0.clone();
        gathering.gathered.lock().queue.push_back((question, sender));
        drop(self);
        match receiver.await {
            Ok(answer) => Some(answer),
            Err(_) => gathering.was_slow.load(Ordering::Relaxed).then_some(Err(UpstreamError::Slow)),
        }
    }
}

impl<Q: Pipelined + 'static> Drop for QuestionTicket<Q> {
    fn drop(&mut self) {
        let queue = {
            let mut gathered = self.0.gathered.lock();
            gathered.announced -= 1;
            if gathered.announced > 0 || gathered.queue.is_empty() {
                return;
            }
            std::mem::take(&mut gathered.queue)
        };
        tokio::spawn(asked(self.0.clone(), queue));
    }
}

/// Asks the gathered questions.
async fn asked<Q: Pipelined>(gathering: Arc<QuestionBatch<Q>>, queue: VecDeque<Queued<Q>>) {
    let has_begun = Arc::<AtomicBool>::default();
    let question = AskTogether { queue, has_begun: has_begun.clone() };
    let mut asked = pin!(gathering.pool.ask(question));
    let begun = Instant::now();
    let Some(patience) = gathering.patience else {
        let _answered = asked.await;
        return;
    };
    if timeout(patience, &mut asked).await.is_err() {
        if has_begun.load(Ordering::Relaxed) {
            let _answered = asked.await;
        } else {
            gathering.was_slow.store(true, Ordering::Relaxed);
            gathering.pool.was_slow(begun);
        }
    }
}
