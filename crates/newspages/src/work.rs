//! Work of a rendering: counted in steps, bounded by the size of the input, and stopped from outside.
//!
//! A step corresponds to about one byte examined. Every renderer takes its steps before it does the work and
//! stops when none are left, so that its thread is free again at once; its result is then discarded. All
//! renderers are linear in their input: no input needs more than [`allowance`], which tests and fuzz targets
//! check. Outside of [`limited`] steps are counted and nothing is stopped. Called by all modules here; the
//! web server sets the bound.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of steps per byte of input: about twenty passes examine each byte, one of them for each
/// level of MIME.
const STEPS_PER_BYTE_MAX: u64 = 50;
/// Steps allowed for an input of any size.
const STEPS_BASE: u64 = 100_000;

/// Returns the number of steps allowed for an input of this size.
pub fn allowance(input_bytes: usize) -> u64 {
    STEPS_BASE.saturating_add(STEPS_PER_BYTE_MAX.saturating_mul(input_bytes as u64))
}

/// Error for a rendering that needed more steps than allowed, or was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkLimitExceeded;

impl fmt::Display for WorkLimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rendering was stopped: it took too long")
    }
}

impl std::error::Error for WorkLimitExceeded {}

/// Flag that a caller sets when it no longer waits for the result.
pub type StopFlag = Arc<AtomicBool>;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
    static STEPS_MAX: Cell<u64> = const { Cell::new(u64::MAX) };
    static STOP: RefCell<Option<StopFlag>> = const { RefCell::new(None) };
}

/// Renders within a number of steps, as long as `stop` is not set.
pub fn limited<T>(
    steps_max: u64,
    stop: &StopFlag,
    render: impl FnOnce() -> T,
) -> Result<T, WorkLimitExceeded> {
    let _bounds = WorkBounds::set(steps_max, Some(stop.clone()));
    let result = render();
    if take(0) { Ok(result) } else { Err(WorkLimitExceeded) }
}

/// Renders without a bound; returns the number of steps too.
pub fn counted<T>(render: impl FnOnce() -> T) -> (T, u64) {
    let _bounds = WorkBounds::set(u64::MAX, None);
    let result = render();
    (result, TAKEN.get())
}

/// Takes steps in advance; returns false if the rendering must stop.
pub(crate) fn take(steps: usize) -> bool {
    let taken = TAKEN.get().saturating_add(steps as u64);
    TAKEN.set(taken);
    if taken > STEPS_MAX.get() {
        return false;
    }
    let is_stopped = STOP.with_borrow(|stop| stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)));
    if is_stopped {
        STEPS_MAX.set(0);
        TAKEN.set(taken.max(1));
    }
    !is_stopped
}

/// Bounds of a rendering on this thread; dropping them restores the previous ones.
struct WorkBounds {
    before: (u64, u64, Option<StopFlag>),
}

impl WorkBounds {
    fn set(steps_max: u64, stop: Option<StopFlag>) -> Self {
        Self { before: (TAKEN.replace(0), STEPS_MAX.replace(steps_max), STOP.replace(stop)) }
    }
}

impl Drop for WorkBounds {
    fn drop(&mut self) {
        TAKEN.set(self.before.0);
        STEPS_MAX.set(self.before.1);
        STOP.set(self.before.2.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rendering_stops_where_its_steps_are_spent() {
        let stop = StopFlag::default();
        let steps = |count: usize| (0..count).take_while(|_| take(1)).count();
        assert_eq!(limited(10, &stop, || steps(10)), Ok(10));
        assert_eq!(limited(10, &stop, || steps(1_000)), Err(WorkLimitExceeded));
        assert_eq!(counted(|| steps(1_000)), (1_000, 1_000));
        let nested = limited(10, &stop, || (limited(5, &stop, || steps(9)), steps(10)));
        assert_eq!(nested, Ok((Err(WorkLimitExceeded), 10)), "each rendering has bounds of its own");
    }

    #[test]
    fn rendering_stops_when_the_caller_sets_the_flag() {
        let stop = StopFlag::default();
        let endless = || {
            let mut steps = 0_u64;
            while take(1) {
                steps += 1;
                stop.store(steps >= 100, Ordering::Relaxed);
            }
            steps
        };
        assert_eq!(limited(u64::MAX, &stop, endless), Err(WorkLimitExceeded));
    }
}
