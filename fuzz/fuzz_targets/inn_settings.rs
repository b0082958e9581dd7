//! Files of INN's configuration: whatever they are, the result is a configuration.
#![no_main]

use libfuzzer_sys::fuzz_target;
use newsreel::fuzzing::imported_settings;

fuzz_target!(|text: &str| {
    let (new, refused) = imported_settings(text);
    assert_eq!(refused, None, "{new}");
    assert!(!new.contains(|c: char| c.is_control() && c != '\n'), "{new:?}");
});
