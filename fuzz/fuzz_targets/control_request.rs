//! A line over the control socket: a request, written and read again, is the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use newsreel::fuzzing::control_request;

fuzz_target!(|line: &[u8]| {
    if let Some(written) = control_request(line) {
        assert!(!written.contains(&b'\n'), "a request is one line");
        assert_eq!(control_request(&written), Some(written));
    }
});
