//! An article as a page: whatever is in it, the page has known elements and plain links alone, and its files
//! keep their numbers and have safe names. More steps for each byte than linear work takes are a fault, too.
#![no_main]

#[path = "../../crates/newspages/tests/safe.rs"]
mod safe;

use libfuzzer_sys::fuzz_target;
use newspages::content::{self, ArticleContent, SHOWN_BYTES};
use newspages::work::{StopFlag, allowance, limited};
use newspages::{names, view};

/// Renders within the steps that an input of this size may take.
fn bounded<T>(bytes: usize, render: impl FnOnce() -> T) -> T {
    limited(allowance(bytes), &StopFlag::default(), render).expect("a page takes linear work")
}

fuzz_target!(|article: &[u8]| {
    let render = || {
        let content = ArticleContent::of(article, SHOWN_BYTES);
        let page =
            view::article(&content, &view::ArticlePage { place: Some(("a.b", 7)), ..Default::default() });
        content::quoted(&content);
        (content, page)
    };
    let (content, page) = bounded(article.len(), render);
    let place = view::ThreadPlace { number: 7, ..Default::default() };
    let threaded = bounded(article.len(), || view::threaded(&content, &place));
    safe::assert_safe(&page.into_string());
    safe::assert_safe(&threaded.into_string());
    for (at, file) in content.files.iter().enumerate() {
        let (name, decoded) = bounded(article.len(), || ArticleContent::file(article, at + 1))
            .expect("every file that is shown can be had");
        assert_eq!(name, file.name);
        assert_eq!(names::safe(&name, "file"), name);
        assert!(decoded.octets.len() <= article.len());
    }
    assert!(ArticleContent::file(article, content.files.len() + 1).is_none());
});
