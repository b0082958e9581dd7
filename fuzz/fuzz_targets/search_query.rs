//! Queries of the full text search: what is parsed has bounds, and each of its words is a query.
#![no_main]

use libfuzzer_sys::fuzz_target;
use newssearch::query::{QUERY_BYTES_MAX, Query};
use newssearch::words::{WORD_BYTES_MAX, words};

fuzz_target!(|text: &str| {
    assert!(words(text).iter().all(|word| !word.is_empty()));
    let Ok(query) = Query::parse(text) else { return };
    assert!(text.len() <= QUERY_BYTES_MAX);
    for phrase in query.with.iter().chain(&query.without) {
        assert!(!phrase.words.is_empty());
        for word in &phrase.words {
            assert!(word.len() <= WORD_BYTES_MAX);
            assert!(Query::parse(word).is_ok_and(|again| again.with.len() == 1));
        }
    }
});
