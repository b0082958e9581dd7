//! The file of users: what is read is what is written again, and that reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use newsreel::fuzzing::users_file;

fuzz_target!(|text: &str| {
    let Some(written) = users_file(text) else { return };
    assert_eq!(users_file(&written).as_ref(), Some(&written));
    assert_eq!(written.lines().count(), text.lines().count(), "a line for each line");
});
