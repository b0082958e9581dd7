//! Files of posts for upstreams: whatever is in them, what is read of one is written again as it was read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use newsreel::fuzzing::rewritten_post;

const KIND: &[u8] = b"newsreel post ";
const HEAD: &[u8] = b"\nid <1@x>\nto isp\nfrom ::1\nuser \nqueued 5\nrefused \n\n";

fuzz_target!(|data: &[u8]| {
    if let Some(file) = rewritten_post(data) {
        assert_eq!(rewritten_post(&file).as_ref(), Some(&file));
    }
    // Whatever follows the head is the post; the hash of both follows it.
    let file = rewritten_post(&[KIND, b"1", HEAD, data].concat()).expect("it is one of the first version");
    assert!(file.starts_with(&[KIND, b"2", HEAD, data, b"sum "].concat()));
    assert_eq!(rewritten_post(&file).as_ref(), Some(&file));
});
