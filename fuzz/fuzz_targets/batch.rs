//! Batches of articles.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netnews::batch::{append_rnews_line, rnews};

fuzz_target!(|data: &[u8]| {
    let mut from = data.as_ptr() as usize;
    let mut errors = 0;
    for article in rnews(data) {
        assert_eq!(errors, 0, "nothing comes after an error");
        match article {
            Ok(article) => {
                let at = article.as_ptr() as usize;
                assert!(at >= from && at + article.len() <= data.as_ptr() as usize + data.len());
                from = at + article.len();
            }
            Err(_) => errors += 1,
        }
    }
    assert!(data.is_empty() || errors == 1 || from == data.as_ptr() as usize + data.len());

    let articles: Vec<&[u8]> = data.split(|&b| b == b'|').collect();
    let mut batch = Vec::new();
    for article in &articles {
        append_rnews_line(article.len() as u64, &mut batch);
        batch.extend_from_slice(article);
    }
    let back: Result<Vec<_>, _> = rnews(&batch).collect();
    assert_eq!(back.as_deref(), Ok(&articles[..]));
});
