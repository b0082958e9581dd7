//! A configuration file: it is taken, or each fault is said in a few lines, however it is damaged.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(fault) = newsreel::fuzzing::configuration(text) {
        assert!(!fault.is_empty());
        assert_eq!(newsreel::fuzzing::configuration(text), Err(fault), "the same file has the same faults");
    }
});
