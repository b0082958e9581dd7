//! Files of the configurations of INN, C News, leafnode and Diablo: whatever they are, the result is a
//! configuration.
#![no_main]

use libfuzzer_sys::fuzz_target;
use newsreel::fuzzing::imported_settings;

fuzz_target!(|text: &str| {
    for (new, refused) in imported_settings(text) {
        assert_eq!(refused, None, "{new}");
        assert!(!new.contains(|c: char| c.is_ascii_control() && c != '\n' && c != '\t'), "{new:?}");
    }
});
