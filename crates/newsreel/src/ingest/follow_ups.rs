//! What follows a commit: the articles that withdraw others are obeyed, off the road on which they came.
//!
//! All batches share one bounded queue, which is carried out in order and up to 1,024 tasks at a time: one
//! sync of the journal serves many. A thread does it ([`Worker`]). It rests after each round, so that it
//! takes a tenth of the time at most, unless much waits. Who may not go on before an effect (a post, which
//! promises it; an article whose withdrawal waits; a batch that finds the queue full) carries out what
//! waits itself. Newgroup and its like have a reader of the journal instead
//! ([`Controls`](super::Controls)); feeds are woken by the spool.
//!
//! Nothing is lost at a crash. Every batch holds the place where the journal ended before its commit, until
//! all that it brought is carried out and durable; a cursor on disk is never beyond the first place held, and
//! `again` begins there at the next start. States: `docs/states.md`.

use super::patiently;
use super::withdraw::{NotWithdrawn, Outcome, Task, Withdrawals};
use parking_lot::{Condvar, Mutex};
use spool::{Cursor, Key, Mark, Spool};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::warn;

/// Tasks that wait at most.
const TASKS_MAX: usize = 8_192;
/// Bytes of the articles of tasks that wait; a larger one waits alone.
const TASKS_BYTES_MAX: usize = 32 << 20;
/// Tasks carried out together.
const TOGETHER_MAX: usize = 1_024;
/// The thread rests for so many times as long as it worked, but not for longer than this, and not while more
/// than so many tasks wait.
const REST_TIMES: u32 = 9;
const REST_MAX: Duration = Duration::from_millis(50);
const RESTING_TASKS_MAX: usize = TASKS_MAX / 2;
/// How often the position is saved: what a start looks through again.
const SAVE_INTERVAL: Duration = Duration::from_secs(30);

/// The queue.
pub(super) struct FollowUps {
    spool: Arc<Spool>,
    pub withdrawals: Withdrawals,
    state: Mutex<State>,
    /// Tasks that are not done, for a look without the lock.
    undone: AtomicUsize,
    /// Held by whoever carries out tasks, which keeps them in order.
    at_work: Mutex<()>,
    /// Wakes the thread.
    wake: Condvar,
    position: Mutex<Option<Position>>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Queued>,
    waiting_bytes: usize,
    /// Tasks that ever came, and those of them that are done: tickets.
    queued: u64,
    done: u64,
    /// The last task that withdraws each article.
    targets: HashMap<Key, u64>,
    /// Places of the journal that are held, and how often; `None`: no position is kept.
    holds: Option<BTreeMap<u64, (Mark, usize)>>,
    /// The thread is to end.
    is_ending: bool,
}

struct Queued {
    task: Task,
    /// What it withdraws.
    target: Option<Key>,
    /// The place that is held for it.
    held: Option<Mark>,
}

/// Up to where all is carried out.
struct Position {
    cursor: Cursor,
    /// What had been entered into history when it was saved.
    refused: u64,
}

/// A batch that is being committed.
pub(super) struct Hold<'a> {
    follow_ups: &'a FollowUps,
    mark: Option<Mark>,
}

/// The tasks of a batch, for those who wait for them.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    ticket: u64,
    /// Why the first of its articles that withdraws nothing does not.
    answer: Arc<OnceLock<NotWithdrawn>>,
}

impl FollowUps {
    pub fn new(spool: Arc<Spool>, withdrawals: Withdrawals) -> Self {
        Self {
            spool,
            withdrawals,
            state: Mutex::default(),
            undone: AtomicUsize::new(0),
            at_work: Mutex::default(),
            wake: Condvar::new(),
            position: Mutex::default(),
        }
    }

    /// From now on places are held; the first is where what is carried out again begins.
    pub fn hold_from(&self, mark: Mark) -> Hold<'_> {
        self.state.lock().holds = Some(BTreeMap::from([(mark.position, (mark, 1))]));
        Hold { follow_ups: self, mark: Some(mark) }
    }

    /// From now on the place up to which all is carried out is saved with this cursor.
    pub fn keep_position(&self, cursor: Cursor) {
        // What was entered into history so far may not be durable.
        *self.position.lock() = Some(Position { cursor, refused: 0 });
    }

    /// A batch is about to be committed: the position stays before its rows until the hold is dropped, and
    /// all that was queued with it is carried out.
    pub fn hold(&self) -> Hold<'_> {
        let mut state = self.state.lock();
        let mark = state.holds.as_mut().map(|holds| {
            let mark = self.spool.journal_end();
            holds.entry(mark.position).or_insert((mark, 0)).1 += 1;
            mark
        });
        Hold { follow_ups: self, mark }
    }

    /// Whether any task is not done.
    pub fn is_idle(&self) -> bool {
        self.undone.load(Ordering::Acquire) == 0
    }

    /// How many tasks wait.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// The last of the tasks not done that withdraws this article.
    pub fn withdrawing(&self, target: &Key) -> Option<u64> {
        if self.is_idle() {
            return None;
        }
        self.state.lock().targets.get(target).copied()
    }

    /// Carries out the oldest tasks that wait; false if there are none. May wait for the disk.
    pub fn carry_out(&self) -> bool {
        let _in_order = self.at_work.lock();
        let tasks = self.state.lock().take();
        if tasks.is_empty() {
            return false;
        }
        let outcomes = self.withdrawals.carry_out(&self.spool, tasks.iter().map(|queued| &queued.task));
        let mut state = self.state.lock();
        for (queued, outcome) in tasks.iter().zip(outcomes) {
            let why = match outcome {
                Outcome::Withdrawn => None,
                Outcome::Nothing(why) => Some(why),
                Outcome::Undone => Some(NotWithdrawn::Trouble),
            };
            if let (Task::Obey(asking), Some(why)) = (&queued.task, why)
                && let Some(answer) = &asking.answer
            {
                let _first_counts = answer.set(why);
            }
            // What is undone holds the position until the next start.
            if outcome != Outcome::Undone {
                state.release(queued.held);
            }
        }
        state.done += tasks.len() as u64;
        let done = state.done;
        for target in tasks.iter().filter_map(|queued| queued.target) {
            if state.targets.get(&target).is_some_and(|ticket| *ticket <= done) {
                state.targets.remove(&target);
            }
        }
        self.undone.fetch_sub(tasks.len(), Ordering::AcqRel);
        true
    }

    /// Returns once the task with this ticket, and all before it, are done.
    pub fn settle(&self, ticket: u64) {
        while self.state.lock().done < ticket {
            self.carry_out();
        }
    }

    /// Saves the position; what is before it is durable. May wait for the disk.
    pub fn save(&self) {
        let mut position = self.position.lock();
        let Some(position) = position.as_mut() else { return };
        let mark = {
            let state = self.state.lock();
            let held = state.holds.iter().flat_map(BTreeMap::values).next().map(|(mark, _)| *mark);
            held.unwrap_or_else(|| self.spool.journal_end())
        };
        if let Err(error) = self.save_at(position, mark) {
            warn!(%error, "cannot save up to where withdrawals were carried out");
        }
    }

    fn save_at(&self, position: &mut Position, mark: Mark) -> io::Result<()> {
        let refused = self.withdrawals.refused();
        if refused != position.refused {
            self.spool.sync().map_err(|trouble| io::Error::other(trouble.to_string()))?;
            position.refused = refused;
        }
        if !self.withdrawals.sync() {
            return Ok(());
        }
        position.cursor.save_at(mark)
    }

    /// What the thread does.
    fn run(&self) {
        let mut saved = Instant::now();
        loop {
            let begun = Instant::now();
            self.carry_out();
            let rest = (begun.elapsed() * REST_TIMES).min(REST_MAX);
            if saved.elapsed() >= SAVE_INTERVAL {
                self.save();
                saved = Instant::now();
            }
            let mut state = self.state.lock();
            self.wake.wait_while_for(&mut state, |state| state.may_rest(), rest);
            let until_save = SAVE_INTERVAL.saturating_sub(saved.elapsed());
            self.wake.wait_while_for(&mut state, |state| state.is_idle(), until_save);
            if state.is_ending {
                return;
            }
        }
    }
}

impl State {
    /// Takes the oldest tasks.
    fn take(&mut self) -> Vec<Queued> {
        let count = self.waiting.len().min(TOGETHER_MAX);
        let taken: Vec<Queued> = self.waiting.drain(..count).collect();
        self.waiting_bytes -= taken.iter().map(Queued::bytes).sum::<usize>();
        taken
    }

    fn has_room_for(&self, queued: &Queued) -> bool {
        let bytes = self.waiting_bytes.saturating_add(queued.bytes());
        self.waiting.is_empty() || (self.waiting.len() < TASKS_MAX && bytes <= TASKS_BYTES_MAX)
    }

    fn may_rest(&self) -> bool {
        !self.is_ending && self.waiting.len() <= RESTING_TASKS_MAX
    }

    fn is_idle(&self) -> bool {
        !self.is_ending && self.waiting.is_empty()
    }

    fn retain(&mut self, held: Option<Mark>) {
        if let (Some(mark), Some(holds)) = (held, &mut self.holds) {
            holds.entry(mark.position).or_insert((mark, 0)).1 += 1;
        }
    }

    fn release(&mut self, held: Option<Mark>) {
        let (Some(mark), Some(holds)) = (held, &mut self.holds) else { return };
        if let Some((_, count)) = holds.get_mut(&mark.position) {
            *count -= 1;
            if *count == 0 {
                holds.remove(&mark.position);
            }
        }
    }
}

impl Queued {
    fn bytes(&self) -> usize {
        match &self.task {
            Task::Obey(asking) => asking.wire.len(),
            Task::Late(_) => 0,
        }
    }
}

impl Hold<'_> {
    /// Queues tasks of the batch, with what each withdraws. Waits for the disk if the queue is full.
    pub fn queue(&self, tasks: impl Iterator<Item = (Task, Option<Key>)>) -> Option<Pending> {
        let mut pending: Option<Pending> = None;
        for (mut task, target) in tasks {
            let pending = pending.get_or_insert_with(|| Pending { ticket: 0, answer: Arc::default() });
            if let Task::Obey(asking) = &mut task {
                asking.answer = Some(pending.answer.clone());
            }
            pending.ticket = self.queue_one(Queued { task, target, held: self.mark });
        }
        pending
    }

    fn queue_one(&self, queued: Queued) -> u64 {
        let follow_ups = self.follow_ups;
        loop {
            let mut state = follow_ups.state.lock();
            if !state.has_room_for(&queued) {
                drop(state);
                patiently(|| follow_ups.carry_out());
                continue;
            }
            state.queued += 1;
            let ticket = state.queued;
            if let Some(target) = queued.target {
                state.targets.insert(target, ticket);
            }
            state.retain(queued.held);
            state.waiting_bytes += queued.bytes();
            state.waiting.push_back(queued);
            follow_ups.undone.fetch_add(1, Ordering::AcqRel);
            if state.waiting.len() == 1 || !state.may_rest() {
                follow_ups.wake.notify_one();
            }
            return ticket;
        }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if self.mark.is_some() {
            self.follow_ups.state.lock().release(self.mark);
        }
    }
}

impl Pending {
    pub fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Why the first article of the batch that was to withdraw another one and did not, did not; known once
    /// all is carried out.
    pub fn answer(&self) -> Option<NotWithdrawn> {
        self.answer.get().copied()
    }
}

/// The thread that carries out what waits; ends, with nothing left to do, when it is dropped.
pub(crate) struct Worker {
    follow_ups: Arc<FollowUps>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(super) fn start(follow_ups: &Arc<FollowUps>) -> io::Result<Self> {
        let running = follow_ups.clone();
        let thread = std::thread::Builder::new().name("follow-ups".into()).spawn(move || running.run())?;
        Ok(Self { follow_ups: follow_ups.clone(), thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.follow_ups.state.lock().is_ending = true;
        self.follow_ups.wake.notify_all();
        // It has said itself why it panicked.
        let _ended = self.thread.take().map(JoinHandle::join);
        while self.follow_ups.carry_out() {}
        self.follow_ups.save();
    }
}
