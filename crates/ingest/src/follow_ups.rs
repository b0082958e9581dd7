//! Follow-ups of a commit: articles that withdraw others are obeyed outside the path on which they arrived.
//!
//! All batches share one bounded queue, which is carried out from its beginning, up to 1,024 tasks at a time:
//! one sync of the journal serves many. A thread does this ([`FollowUpThread`]). While a feed runs, it rests
//! after each round, so that it takes a twentieth of the time at most, unless the queue is nearly full.
//! Callers that need an effect before they continue carry it out themselves: a post, which promises it, and
//! an article whose withdrawal waits, only those tasks; a batch that finds the queue full, the oldest ones.
//! Group control messages have a reader of the journal instead ([`Controls`](super::Controls)); feeds are
//! woken by the spool.
//!
//! Nothing is lost in a crash. Every batch holds the journal position before its commit until all its tasks
//! are carried out and durable; a cursor on disk is never beyond the first held position, and `again`
//! begins there at the next start. A shared log may apply a batch after the wait for it was given up: its
//! hold is kept until that is known, and the rows after it are then read as at a start. States:
//! `docs/states.md`.

use super::again;
use super::patiently;
use super::withdraw::{FollowUpTask, WithdrawalOutcome, WithdrawalRefusal, Withdrawals};
use hashbrown::HashMap;
use lock_order::{Ordered, OrderedGuard};
use parking_lot::Condvar;
use site_base::lock::rank;
use site_log::SiteLog;
use spool::{ArticleKey, Cursor, JournalMark, Spool};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::warn;

/// Limits of the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct FollowUpLimits {
    /// Most tasks in the queue.
    pub tasks: usize,
    /// Bytes of articles kept by tasks; a larger task waits alone.
    pub bytes: usize,
}

const LIMITS: FollowUpLimits = FollowUpLimits { tasks: 131_072, bytes: 48 << 20 };
/// Tasks carried out in one round.
const TOGETHER_MAX: usize = 1_024;
/// Rest of the thread while batches are filed, as a multiple of its work, and the longest rest. The thread
/// continues at once when less than an eighth of the queue is free.
const REST_TIMES: u32 = 19;
const REST_MAX: Duration = Duration::from_secs(1);
/// Time without a batch after which no feed is considered to be running.
const QUIET: Duration = Duration::from_millis(50);
/// Interval for saving the position, which bounds what a start must scan again.
const SAVE_INTERVAL: Duration = Duration::from_secs(30);
/// Interval of looks at what is in doubt.
const DOUBT_INTERVAL: Duration = Duration::from_secs(1);

/// Queue of follow-up tasks.
pub(super) struct FollowUps {
    log: Arc<SiteLog>,
    pub spool: Arc<Spool>,
    pub withdrawals: Withdrawals,
    state: Ordered<FollowUpQueue, { rank::FOLLOW_UPS }>,
    /// Tasks not done, readable without the lock.
    undone: AtomicUsize,
    /// Number of batches begun.
    batches: AtomicU64,
    /// Wakes the thread.
    wake: Condvar,
    /// Notified when tasks are done.
    done: Condvar,
    position: Ordered<Option<FollowUpPosition>, { rank::FOLLOW_UPS_POSITION }>,
}

struct FollowUpQueue {
    limits: FollowUpLimits,
    /// Waiting tasks in the order of their tickets, without a gap; `None`: taken ahead of its turn.
    waiting: VecDeque<Option<QueuedFollowUp>>,
    waiting_bytes: usize,
    /// Ticket of the first of them, or of the next task.
    first: u64,
    /// Tickets of tasks being carried out, by the thread or by callers waiting for them.
    working: BTreeSet<u64>,
    /// Last task that withdraws each article.
    targets: HashMap<ArticleKey, u64>,
    /// Held positions of the journal and their counts; `None`: no position is kept.
    holds: Option<BTreeMap<u64, (JournalMark, usize)>>,
    /// Held position of the first batch in doubt.
    doubtful: Option<JournalMark>,
    /// Whether the thread should end.
    is_ending: bool,
}

struct QueuedFollowUp {
    ticket: u64,
    task: FollowUpTask,
    /// Key of the article to be withdrawn.
    target: Option<ArticleKey>,
    /// Position held for the task.
    held: Option<JournalMark>,
}

/// Position up to which everything is carried out.
struct FollowUpPosition {
    cursor: Cursor,
    /// Number of articles entered into history or notes when it was last saved.
    entered: u64,
}

/// Hold on the position for a batch being committed.
pub(super) struct PositionHold<'a> {
    follow_ups: &'a FollowUps,
    mark: Option<JournalMark>,
}

/// Tasks of a batch, for callers that wait for them.
#[derive(Debug, Clone)]
pub struct PendingWithdrawals {
    /// Range of tickets; other batches may own some of them.
    tickets: RangeInclusive<u64>,
    /// Refusal of the first of its articles that should have withdrawn another and did not.
    answer: Arc<OnceLock<WithdrawalRefusal>>,
}

impl FollowUps {
    pub fn new(log: Arc<SiteLog>, spool: Arc<Spool>, withdrawals: Withdrawals) -> Self {
        Self {
            log,
            spool,
            withdrawals,
            state: Ordered::new(FollowUpQueue::new(LIMITS)),
            undone: AtomicUsize::new(0),
            batches: AtomicU64::new(0),
            wake: Condvar::new(),
            done: Condvar::new(),
            position: Ordered::default(),
        }
    }

    /// Starts holding positions; the first is where carrying out again begins.
    pub fn hold_from(&self, mark: JournalMark) -> PositionHold<'_> {
        self.state.lock().holds = Some(BTreeMap::from([(mark.position, (mark, 1))]));
        PositionHold { follow_ups: self, mark: Some(mark) }
    }

    /// Starts saving the position up to which everything is carried out, with this cursor.
    pub fn keep_position(&self, cursor: Cursor) {
        // What was entered so far may not be durable.
        *self.position.lock() = Some(FollowUpPosition { cursor, entered: 0 });
    }

    /// Holds the position for a batch about to be committed: it stays before the batch's rows until the
    /// hold is dropped and all tasks queued with it are carried out.
    pub fn hold(&self) -> PositionHold<'_> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        let mark = state.holds.as_mut().map(|holds| {
            let mark = self.spool.journal().end();
            holds.entry(mark.position).or_insert((mark, 0)).1 += 1;
            mark
        });
        PositionHold { follow_ups: self, mark }
    }

    /// Takes the hold of batches that were in doubt, if it is known by now what became of them.
    pub fn take_settled(&self) -> Option<PositionHold<'_>> {
        let mark = self.state.lock().doubtful.take()?;
        let hold = PositionHold { follow_ups: self, mark: Some(mark) };
        // Asked once it is taken: a batch that comes to be in doubt from here on has a hold of its own.
        if self.log.is_in_doubt() {
            hold.keep_in_doubt();
            return None;
        }
        Some(hold)
    }

    /// Obeys articles of batches that were in doubt, once it is known whether they were filed. Blocks.
    pub fn obey_doubtful(&self) {
        let Some(hold) = self.take_settled() else { return };
        // Not locked meanwhile: only this thread saves it.
        let Some(mut position) = self.position.lock().take() else { return hold.keep_in_doubt() };
        if let Err(error) = again::obey_after(self, &hold, &mut position.cursor) {
            warn!(%error, "cannot look for cancels that were in doubt; the next start does");
            self.state.lock().retain(hold.mark);
        }
        *self.position.lock() = Some(position);
    }

    /// Returns whether all tasks are done.
    pub fn is_idle(&self) -> bool {
        self.undone.load(Ordering::Acquire) == 0
    }

    /// Returns the number of tasks not done.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.undone.load(Ordering::Acquire)
    }

    /// Sets other limits.
    #[cfg(test)]
    pub fn limit(&self, limits: FollowUpLimits) {
        self.state.lock().limits = limits;
    }

    /// Returns the last unfinished task that withdraws this article.
    pub fn withdrawing(&self, target: &ArticleKey) -> Option<u64> {
        if self.is_idle() {
            return None;
        }
        self.state.lock().targets.get(target).copied()
    }

    /// Carries out the oldest waiting tasks; returns false if there are none. May wait for the disk.
    pub fn carry_out(&self) -> bool {
        let tasks = self.state.lock().take_oldest();
        self.carry_out_all(&tasks);
        !tasks.is_empty()
    }

    /// Carries out tasks that were taken from the queue.
    fn carry_out_all(&self, tasks: &[QueuedFollowUp]) {
        let outcomes = self.withdrawals.carry_out(&self.log, tasks.iter().map(|queued| &queued.task));
        let mut state = self.state.lock();
        for (queued, outcome) in tasks.iter().zip(outcomes) {
            let why = match outcome {
                WithdrawalOutcome::Withdrawn => None,
                WithdrawalOutcome::Nothing(why) => Some(why),
                WithdrawalOutcome::Undone => Some(WithdrawalRefusal::Trouble),
            };
            if let (FollowUpTask::Obey(asking), Some(why)) = (&queued.task, why)
                && let Some(answer) = &asking.answer
            {
                let _first_counts = answer.set(why);
            }
            // A failed task holds the position until the next start.
            if outcome != WithdrawalOutcome::Undone {
                state.release(queued.held);
            }
        }
        for queued in tasks {
            state.working.remove(&queued.ticket);
            let Some(target) = queued.target else { continue };
            // A later task may withdraw the same article.
            if state.targets.get(&target) == Some(&queued.ticket) {
                state.targets.remove(&target);
            }
        }
        self.undone.fetch_sub(tasks.len(), Ordering::AcqRel);
        self.done.notify_all();
    }

    /// Waits until the task with this ticket, and all before it, are done.
    pub fn settle_up_to(&self, ticket: u64) {
        self.settle_by(
            0..=ticket,
            |state| if state.first > ticket { Vec::new() } else { state.take_oldest() },
        );
    }

    /// Waits until the tasks with these tickets are done, whatever waits before them.
    pub fn settle(&self, tickets: RangeInclusive<u64>) {
        self.settle_by(tickets.clone(), |state| state.take_these(tickets.clone()));
    }

    /// Waits until all tasks of a batch are done.
    pub fn settle_all(&self, pending: &PendingWithdrawals) {
        if !self.is_idle() {
            patiently(|| self.settle(pending.tickets()));
        }
    }

    /// Carries out tasks returned by `take` until there are none and other threads have done those they
    /// took.
    fn settle_by(
        &self,
        tickets: RangeInclusive<u64>,
        take: impl Fn(&mut FollowUpQueue) -> Vec<QueuedFollowUp>,
    ) {
        let mut state = self.state.lock();
        loop {
            let tasks = take(&mut state);
            if !tasks.is_empty() {
                state.unlocked(|| self.carry_out_all(&tasks));
            } else if state.working.range(tickets.clone()).next().is_some() {
                state.wait(&self.done);
            } else {
                return;
            }
        }
    }

    /// Saves the position; everything before it is durable. May wait for the disk.
    pub fn save(&self) {
        let mut position = self.position.lock();
        let Some(position) = position.as_mut() else { return };
        let mark = {
            let state = self.state.lock();
            let held = state.holds.iter().flat_map(BTreeMap::values).next().map(|(mark, _)| *mark);
            held.unwrap_or_else(|| self.spool.journal().end())
        };
        if let Err(error) = self.save_at(position, mark) {
            warn!(%error, "cannot save up to where withdrawals were carried out");
        }
    }

    fn save_at(&self, position: &mut FollowUpPosition, mark: JournalMark) -> io::Result<()> {
        let entered = self.withdrawals.entered();
        if entered != position.entered {
            self.spool.sync().map_err(|trouble| io::Error::other(trouble.to_string()))?;
            position.entered = entered;
        }
        position.cursor.save_at(mark)
    }

    /// Waits until `until`, or until no feed runs, or until the queue is nearly full.
    fn rest(&self, state: &mut OrderedGuard<'_, FollowUpQueue, { rank::FOLLOW_UPS }>, until: Instant) {
        let mut batches = None;
        while state.may_rest() && batches.replace(self.batches.load(Ordering::Relaxed)) != batches {
            let left = until.saturating_duration_since(Instant::now());
            state.wait_while_for(&self.wake, |state| state.may_rest(), left.min(QUIET));
            if left <= QUIET {
                return;
            }
        }
    }

    /// Main loop of the thread.
    fn run(&self) {
        let mut saved = Instant::now();
        loop {
            let begun = Instant::now();
            self.carry_out();
            self.obey_doubtful();
            let rest_until = Instant::now() + (begun.elapsed() * REST_TIMES).min(REST_MAX);
            if saved.elapsed() >= SAVE_INTERVAL {
                self.save();
                saved = Instant::now();
            }
            let mut state = self.state.lock();
            self.rest(&mut state, rest_until);
            let most = if state.doubtful.is_some() { DOUBT_INTERVAL } else { SAVE_INTERVAL };
            let until = most.min(SAVE_INTERVAL.saturating_sub(saved.elapsed()));
            state.wait_while_for(&self.wake, |state| state.is_idle(), until);
            if state.is_ending {
                return;
            }
        }
    }
}

impl FollowUpQueue {
    fn new(limits: FollowUpLimits) -> Self {
        let (waiting, targets) = Default::default();
        let (working, holds) = (BTreeSet::new(), None);
        let (doubtful, is_ending) = (None, false);
        Self { limits, waiting, waiting_bytes: 0, first: 1, working, targets, holds, doubtful, is_ending }
    }

    /// Takes the oldest tasks.
    fn take_oldest(&mut self) -> Vec<QueuedFollowUp> {
        let mut taken = Vec::new();
        while taken.len() < TOGETHER_MAX
            && let Some(queued) = self.waiting.pop_front()
        {
            self.first += 1;
            taken.extend(queued);
        }
        self.taken(taken)
    }

    /// Takes the tasks with these tickets that still wait; a large range is not taken all at once.
    fn take_these(&mut self, tickets: RangeInclusive<u64>) -> Vec<QueuedFollowUp> {
        let at = |ticket: u64| usize::try_from(ticket.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let begin = at(*tickets.start()).min(self.waiting.len());
        let end = at(tickets.end().saturating_add(1)).clamp(begin, self.waiting.len());
        let taken = self.waiting.range_mut(begin..end).filter_map(Option::take).take(TOGETHER_MAX).collect();
        while let Some(None) = self.waiting.front() {
            self.waiting.pop_front();
            self.first += 1;
        }
        self.taken(taken)
    }

    fn taken(&mut self, taken: Vec<QueuedFollowUp>) -> Vec<QueuedFollowUp> {
        self.waiting_bytes -= taken.iter().map(QueuedFollowUp::bytes).sum::<usize>();
        self.working.extend(taken.iter().map(|queued| queued.ticket));
        taken
    }

    /// Returns the ticket of the next task.
    fn next(&self) -> u64 {
        self.first + self.waiting.len() as u64
    }

    fn has_room_for(&self, queued: &QueuedFollowUp) -> bool {
        let bytes = self.waiting_bytes.saturating_add(queued.bytes());
        self.waiting.is_empty() || (self.waiting.len() < self.limits.tasks && bytes <= self.limits.bytes)
    }

    fn may_rest(&self) -> bool {
        let much = |limit: usize| limit - limit / 8;
        let FollowUpLimits { tasks, bytes } = self.limits;
        !self.is_ending && self.waiting.len() <= much(tasks) && self.waiting_bytes <= much(bytes)
    }

    fn is_idle(&self) -> bool {
        !self.is_ending && self.waiting.is_empty()
    }

    fn retain(&mut self, held: Option<JournalMark>) {
        if let (Some(mark), Some(holds)) = (held, &mut self.holds) {
            holds.entry(mark.position).or_insert((mark, 0)).1 += 1;
        }
    }

    /// Takes over a hold until it is known what became of its batch. The first one serves for all.
    fn doubt(&mut self, held: JournalMark) {
        let (first, other) = match self.doubtful {
            None => (held, None),
            Some(mark) if mark.position <= held.position => (mark, Some(held)),
            Some(mark) => (held, Some(mark)),
        };
        self.doubtful = Some(first);
        self.release(other);
    }

    fn release(&mut self, held: Option<JournalMark>) {
        let (Some(mark), Some(holds)) = (held, &mut self.holds) else { return };
        if let Some((_, count)) = holds.get_mut(&mark.position) {
            *count -= 1;
            if *count == 0 {
                holds.remove(&mark.position);
            }
        }
    }
}

impl QueuedFollowUp {
    fn bytes(&self) -> usize {
        match &self.task {
            FollowUpTask::Obey(asking) => asking.bytes(),
            FollowUpTask::Late(_) => 0,
        }
    }
}

impl PositionHold<'_> {
    /// Queues the tasks of the batch, each with the article it withdraws. Waits for the disk if the queue
    /// is full.
    pub fn queue(
        &self,
        tasks: impl Iterator<Item = (FollowUpTask, Option<ArticleKey>)>,
    ) -> Option<PendingWithdrawals> {
        let mut pending: Option<PendingWithdrawals> = None;
        for (mut task, target) in tasks {
            let answer = pending.as_ref().map(|pending| pending.answer.clone()).unwrap_or_default();
            if let FollowUpTask::Obey(asking) = &mut task {
                asking.answer = Some(answer.clone());
            }
            let last = self.queue_one(QueuedFollowUp { ticket: 0, task, target, held: self.mark });
            let first = pending.map_or(last, |pending| *pending.tickets.start());
            pending = Some(PendingWithdrawals { tickets: first..=last, answer });
        }
        pending
    }

    /// Returns the held position.
    pub fn mark(&self) -> Option<JournalMark> {
        self.mark
    }

    /// Keeps the position until it is known what became of the batch, which is in doubt.
    pub fn keep_in_doubt(&self) {
        let mut state = self.follow_ups.state.lock();
        state.retain(self.mark);
        self.mark.into_iter().for_each(|mark| state.doubt(mark));
    }

    fn queue_one(&self, mut queued: QueuedFollowUp) -> u64 {
        let follow_ups = self.follow_ups;
        loop {
            let mut state = follow_ups.state.lock();
            if !state.has_room_for(&queued) {
                drop(state);
                patiently(|| follow_ups.carry_out());
                continue;
            }
            let ticket = state.next();
            queued.ticket = ticket;
            if let Some(target) = queued.target {
                state.targets.insert(target, ticket);
            }
            state.retain(queued.held);
            state.waiting_bytes += queued.bytes();
            state.waiting.push_back(Some(queued));
            follow_ups.undone.fetch_add(1, Ordering::AcqRel);
            if state.waiting.len() == 1 || !state.may_rest() {
                follow_ups.wake.notify_one();
            }
            return ticket;
        }
    }
}

impl Drop for PositionHold<'_> {
    fn drop(&mut self) {
        if self.mark.is_some() {
            self.follow_ups.state.lock().release(self.mark);
        }
    }
}

impl PendingWithdrawals {
    /// Returns the tickets of its tasks, in the order in which they are carried out.
    pub fn tickets(&self) -> RangeInclusive<u64> {
        self.tickets.clone()
    }

    /// Returns why the first article of the batch that should have withdrawn another did not; known once
    /// all tasks are carried out.
    pub fn answer(&self) -> Option<WithdrawalRefusal> {
        self.answer.get().copied()
    }
}

/// Thread that carries out waiting tasks; when dropped, it finishes them and ends.
pub struct FollowUpThread {
    follow_ups: Arc<FollowUps>,
    thread: Option<JoinHandle<()>>,
}

impl FollowUpThread {
    pub(super) fn start(follow_ups: &Arc<FollowUps>) -> io::Result<Self> {
        let running = follow_ups.clone();
        let thread = std::thread::Builder::new().name("follow-ups".into()).spawn(move || running.run())?;
        Ok(Self { follow_ups: follow_ups.clone(), thread: Some(thread) })
    }
}

impl Drop for FollowUpThread {
    fn drop(&mut self) {
        self.follow_ups.state.lock().is_ending = true;
        self.follow_ups.wake.notify_all();
        // A panic has been reported already.
        let _ended = self.thread.take().map(JoinHandle::join);
        while self.follow_ups.carry_out() {}
        self.follow_ups.save();
    }
}
