//! Forms from browsers: fields that are read are the same when they are written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use newsreel::fuzzing::form_fields;

fn encoded(text: &str) -> String {
    text.bytes().map(|octet| format!("%{octet:02X}")).collect()
}

fuzz_target!(|body: &[u8]| {
    let Some(fields) = form_fields(body) else { return };
    assert!(fields.len() <= 100);
    let pairs = fields.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    let written = pairs.collect::<Vec<_>>().join("&");
    assert_eq!(form_fields(written.as_bytes()), Some(fields));
});
