//! The label of an article that is set aside: without it the article is as it was, byte by byte, and nothing
//! that somebody else wrote is taken for more than a label.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netnews::Article;

fuzz_target!(|data: &[u8]| {
    let (groups, wire) = data.split_at(data.iter().position(|b| *b == b'\n').unwrap_or(0));
    let wire = wire.strip_prefix(b"\n").unwrap_or(wire);
    for wire in [wire, data] {
        let (found, back) = newsreel::fuzzing::set_aside(wire, groups);
        if let Some(found) = found {
            assert!(found.len() < wire.len());
        }
        if let Some(back) = back {
            assert!(Article::parse(wire).is_ok_and(|article| article.message_id().is_some()));
            assert_eq!(back, wire);
        }
    }
});
