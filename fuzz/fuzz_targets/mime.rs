//! Header lines and a body of MIME: within bounds, every leaf is a piece of the body, and what is decoded is
//! not longer. More steps for each byte than linear work takes are a fault, too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use newspages::mime::{LEAVES_MAX, leaves};
use newspages::work::{StopFlag, allowance, limited};
use newspages::{charset, embedded, header};

fuzz_target!(|input: (&[u8], &[u8])| {
    let (head, body) = input;
    let found = limited(allowance(head.len() + body.len()), &StopFlag::default(), || leaves(head, body));
    let found = found.expect("a message is taken apart in linear work");
    assert!(!found.all.is_empty() && found.all.len() <= LEAVES_MAX);
    let all = body.as_ptr_range();
    for leaf in &found.all {
        let part = leaf.body.as_ptr_range();
        assert!(leaf.body.is_empty() || all.start <= part.start && part.end <= all.end);
        let octets = leaf.octets(usize::MAX);
        assert!(octets.len() <= leaf.body.len());
        let text = charset::decode(leaf.charset.as_deref(), &octets);
        assert!(text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')));
        for file in embedded::find(&octets) {
            let decoded = embedded::decode(&octets[file.range.clone()], file.encoding, 1 << 20);
            assert!(decoded.octets.len() <= file.range.len());
        }
    }
    assert!(header::text(head).chars().all(|c| !c.is_control()));
});
