//! Values of the Message-ID, Newsgroups and Path headers (RFC 5536 section 3.1, RFC 3977 sections 3.6 and
//! 9.8).
#![no_main]

use libfuzzer_sys::fuzz_target;
use netnews::path::{self, PathDiagnostic};
use netnews::{MessageId, Wildmat, newsgroups};

fuzz_target!(|value: &[u8]| {
    if let Some(id) = MessageId::from_header(value) {
        let text = id.as_bytes();
        assert!((3..=250).contains(&text.len()));
        assert!(text.iter().all(u8::is_ascii_graphic));
        assert_eq!(text.iter().position(|&b| b == b'>'), Some(text.len() - 1));
        assert_eq!(MessageId::parse(text), Some(id));
        assert_eq!(id.as_str().as_bytes(), text);
    }

    for name in newsgroups::split(value) {
        assert!(!name.is_empty() && !name.contains(&b',') && name == name.trim_ascii());
        if newsgroups::valid_name(name) {
            // A valid name is a wildmat that matches itself only, and stays where a path puts it.
            assert!(Wildmat::parse(name).is_ok_and(|wildmat| wildmat.matches(name)));
            let text = std::str::from_utf8(name).expect("valid names are UTF-8");
            assert!(text.split('.').all(|component| !component.is_empty()));
            assert!(!text.contains(['/', '\\', ' ', '\t', '\r', '\n', '\0']));
        }
    }

    let before: Vec<_> = path::hops(value).collect();
    for hop in &before {
        assert!(path::contains_identity(value, hop));
        assert!(path::contains_identity(value, &hop.to_ascii_uppercase()));
    }
    for diagnostic in [
        PathDiagnostic::None,
        PathDiagnostic::Match,
        PathDiagnostic::Seen(b"192.0.2.1"),
        PathDiagnostic::Mismatch(b"peer.example"),
        PathDiagnostic::Posted(b""),
    ] {
        let mut longer = Vec::new();
        path::prefix(b"news.example", diagnostic, &mut longer);
        longer.extend_from_slice(value);
        let after: Vec<_> = path::hops(&longer).collect();
        assert_eq!(after[0], b"news.example");
        assert_eq!(after[1..], before);
        assert_eq!(path::tail(&longer), path::tail(value));
    }
});
