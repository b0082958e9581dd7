//! An article as a page: whatever is in it, the page has known elements and plain links alone, and its files
//! keep their numbers and have safe names.
#![no_main]

#[path = "../../crates/newspages/tests/safe.rs"]
mod safe;

use libfuzzer_sys::fuzz_target;
use newspages::content::{Content, SHOWN_BYTES};
use newspages::{names, view};

fuzz_target!(|article: &[u8]| {
    let content = Content::of(article, SHOWN_BYTES);
    let page = view::article(&content, &view::ArticlePage { group: Some("a.b"), ..Default::default() });
    safe::assert_safe(&page.into_string());
    for (at, file) in content.files.iter().enumerate() {
        let (name, decoded) = Content::file(article, at + 1).expect("every file that is shown can be had");
        assert_eq!(name, file.name);
        assert_eq!(names::safe(&name, "file"), name);
        assert!(decoded.octets.len() <= article.len());
    }
    assert!(Content::file(article, content.files.len() + 1).is_none());
});
