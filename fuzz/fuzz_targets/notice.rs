//! A text signed in the clear, and a NoCeM notice: what is read of either keeps to its form and its limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netnews::control::nocem::{LISTED_MAX, NocemNotice};
use netnews::openpgp::{Cleartext, may_be_cleartext};

fuzz_target!(|body: &[u8]| {
    if let Ok(signed) = Cleartext::of(body) {
        assert!(may_be_cleartext(body) && signed.text.len() <= body.len());
        for line in signed.text.split(|b| *b == b'\n') {
            assert!(!line.ends_with(b" ") && !line.ends_with(b"\t"));
        }
        read(&signed.text);
    }
    read(body);
});

fn read(text: &[u8]) {
    if let Ok(notice) = NocemNotice::of(text) {
        assert!((1..=LISTED_MAX).contains(&notice.listed.len()));
        for listed in &notice.listed {
            let id = listed.id.as_bytes();
            assert!(!listed.groups.is_empty() && text.windows(id.len()).any(|part| part == id));
        }
    }
}
