//! A configuration file: it is taken, or each fault is said in a few lines, however it is damaged.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = newsreel::fuzzing::configuration(text) {
        let fault = error.to_string();
        assert!(!fault.is_empty());
        let again = newsreel::fuzzing::configuration(text).map_err(|error| error.to_string());
        assert_eq!(again, Err(fault), "the same file has the same faults");
    }
});
