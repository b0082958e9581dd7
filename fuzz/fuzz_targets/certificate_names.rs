//! A client's certificate: names are texts that stand in it, without control characters, each once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use newsreel::fuzzing::certificate_names;

fuzz_target!(|der: &[u8]| {
    let names = certificate_names(der);
    for (at, name) in names.iter().enumerate() {
        assert!(!name.is_empty() && !name.chars().any(char::is_control));
        assert!(der.windows(name.len()).any(|text| text == name.as_bytes()));
        assert!(!names[..at].contains(name));
    }
});
