//! What a client sends in a SASL exchange: nobody is let in by guessing octets, and an exchange ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use newsreel::fuzzing::sasl_exchange;

/// So long a password no input comes to by itself.
const PASSWORD: &[u8] = b"a password that is not in the input, 0123456789";

fuzz_target!(|data: &[u8]| {
    let mut lines = data.split(|&b| b == b'\n');
    let mechanism = lines.next().unwrap_or_default();
    let responses: Vec<&[u8]> = lines.collect();
    let told = sasl_exchange(mechanism, &responses, PASSWORD);
    assert!(told.len() <= responses.len());
    assert!(told.iter().all(|turn| !["password", "proven"].contains(turn)), "{told:?}");
    // At most two turns, the first of which asks for keys; everything else is the end.
    assert!(told.iter().take(told.len().saturating_sub(1)).all(|turn| *turn == "keys"), "{told:?}");
    assert!(told.len() <= 2);
});
