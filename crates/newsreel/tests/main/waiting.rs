//! Waits of tests. All have one limit, and all look again at one interval.
//!
//! A test waits for an event: a field of the status, a line of the log, an answer, a file, a connection that
//! a peer has seen. That something does not happen is shown by a later event. Where only a clock helps,
//! [`let_pass`] has the reason. No other function of these tests sleeps; `tidy` counts those that do.

use rustix::event::{PollFd, PollFlags, poll};
use std::fmt::{Debug, Display};
use std::net::TcpStream;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time limit of every wait, which only a failing test reaches.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Pause between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Looks until `is_so` of what is seen, and returns that. A failure shows what was seen last.
pub fn wait_for<V: Debug>(mut look: impl FnMut() -> V, is_so: impl Fn(&V) -> bool) -> V {
    let begun = Instant::now();
    loop {
        let seen = look();
        if is_so(&seen) {
            return seen;
        }
        rest(begun, || format!("after {PATIENCE:?} there is still {seen:?}"));
    }
}

/// Waits until `holds`; `what` is expected, for the report of a failure.
pub fn wait_until(what: impl Display, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        rest(begun, || format!("not within {PATIENCE:?}: {what}"));
    }
}

/// Pauses between two looks of a wait that has not been too long.
fn rest(begun: Instant, report: impl FnOnce() -> String) {
    assert!(begun.elapsed() < PATIENCE, "{}", report());
    thread::sleep(LOOK_INTERVAL);
}

/// Waits until a process has ended.
pub fn wait_for_exit(child: &mut Child) -> ExitStatus {
    wait_for(|| child.try_wait().unwrap(), Option::is_some).unwrap()
}

/// Waits until the other side closes the connection, without reading what it sends.
pub fn wait_for_close(stream: &TcpStream) {
    // An error is a signal, and another look follows.
    while poll(&mut [PollFd::new(stream, PollFlags::RDHUP)], None).is_err() {}
}

/// Waits until the clock shows another second, for what counts whole ones.
pub fn wait_for_next_second() {
    let second = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let begun = second();
    wait_for(second, |now| *now != begun);
}

/// Lets time pass because nothing else would do: `why` says for what.
pub fn let_pass(time: Duration, why: &str) {
    assert!(!why.is_empty());
    thread::sleep(time);
}
