//! Bugs of newsreel itself: broken invariants of the spool.
//!
//! [`own_bug!`] stands in the commit, in the folds and in the replay, where a default would hide that data is
//! missing. Debug builds, and so all tests, panic. A release build gets a [`SpoolTrouble`] and acts as after
//! a failed write: nothing more is accepted or acknowledged until a restart, and readers continue.

use crate::error::{SpoolTrouble, TroubleKind};
use std::fmt;
use std::io;

/// Reports a bug of ours, described as for `format!`. Evaluates to a [`SpoolTrouble`].
#[macro_export]
macro_rules! own_bug {
    ($($what:tt)+) => { $crate::bug::found(format_args!($($what)+)) };
}

/// Returns the trouble that a bug of ours is; see [`own_bug!`]. Debug builds panic.
#[cold]
pub fn found(what: fmt::Arguments<'_>) -> SpoolTrouble {
    debug_assert!(is_planted(), "a bug in newsreel: {what}");
    SpoolTrouble::new(TroubleKind::Bug, format!("a bug in newsreel: {what}; please report it"))
}

/// Returns the bug that an error carries, if any.
pub fn in_error(e: &io::Error) -> Option<&SpoolTrouble> {
    e.get_ref()?.downcast_ref::<SpoolTrouble>().filter(|trouble| trouble.kind == TroubleKind::Bug)
}

#[cfg(not(any(test, feature = "testing")))]
fn is_planted() -> bool {
    false
}

#[cfg(any(test, feature = "testing"))]
fn is_planted() -> bool {
    PLANTED.get()
}

#[cfg(any(test, feature = "testing"))]
thread_local! {
    static PLANTED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs a test with a planted bug, which is handled as in a release build.
#[cfg(any(test, feature = "testing"))]
pub fn planted<T>(run: impl FnOnce() -> T) -> T {
    PLANTED.set(true);
    let result = run();
    PLANTED.set(false);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a bug in newsreel: number 7 is missing")]
    fn a_bug_of_ours_panics_in_tests() {
        let trouble = own_bug!("number {} is missing", 7);
        assert_eq!(trouble.kind, TroubleKind::Io, "not reached");
    }

    #[test]
    fn a_bug_can_be_recovered_from_an_io_error() {
        let e = planted(|| io::Error::other(own_bug!("lost")));
        assert_eq!(in_error(&e).map(|t| t.text.as_str()), Some("a bug in newsreel: lost; please report it"));
        assert!(in_error(&io::Error::other("lost")).is_none());
    }
}
