//! Snapshots: whatever is read as one is written and read again in the same way, and no file makes the reader
//! fail otherwise than with an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spool::fuzzing::{snapshot, snapshot_again};

fuzz_target!(|input: &[u8]| {
    // The content of a frame, which has a checksum.
    if let Some(again) = snapshot_again(input) {
        assert_eq!(snapshot_again(&again).as_ref(), Some(&again));
    }
    // A whole file.
    let file = [b"NSnapsh1", input].concat();
    let _is_damaged = snapshot(&file);
});
