//! Batches of articles.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netnews::batch::{append_rnews_line, rnews};

fuzz_target!(|data: &[u8]| {
    // Articles and damaged pieces come in order and leave out nothing but the lines before articles.
    let mut at = 0;
    for article in rnews(data) {
        match article {
            Ok(article) => {
                let start = article.as_ptr() as usize - data.as_ptr() as usize;
                assert!(start >= at && start - at <= 258 && start + article.len() <= data.len());
                at = start + article.len();
            }
            Err(damage) => {
                assert!(damage.at == at && !damage.piece.is_empty());
                assert!(data[at..].starts_with(damage.piece));
                at += damage.piece.len();
            }
        }
    }
    assert_eq!(at, data.len());

    let articles: Vec<&[u8]> = data.split(|&b| b == b'|').collect();
    let mut batch = Vec::new();
    for article in &articles {
        append_rnews_line(article.len() as u64, &mut batch);
        batch.extend_from_slice(article);
    }
    let back: Result<Vec<_>, _> = rnews(&batch).collect();
    assert_eq!(back.as_deref(), Ok(&articles[..]));
});
