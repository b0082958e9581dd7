//! A signed article and keys: whatever they hold, nothing panics, and without a key nobody has signed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use newsreel::fuzzing::Keys;

fuzz_target!(|input: (&[u8], &[u8])| {
    let (wire, keys) = input;
    let names = ["x-admin".to_owned()];
    assert!(!Keys::of(b"").unwrap().have_signed(wire, &names));
    if let Ok(keys) = Keys::of(keys) {
        keys.have_signed(wire, &names);
    }
});
