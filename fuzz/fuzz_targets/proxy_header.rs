//! What a proxy sends before the client's own bytes: no input costs more than the longest header.
#![no_main]

use libfuzzer_sys::fuzz_target;
use newsreel::fuzzing::proxy_header;

fuzz_target!(|data: &[u8]| {
    if let Some((bytes, _)) = proxy_header(data) {
        assert!(bytes <= data.len() && bytes <= 4096);
        // What follows the header is not looked at.
        assert_eq!(proxy_header(&data[..bytes]), proxy_header(data));
    }
});
