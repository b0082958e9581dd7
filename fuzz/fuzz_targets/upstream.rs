//! What an upstream sends: rows are shown as one line of nine fields and perhaps a further header, with the
//! right number, marks fit to each other, and another Xref leaves the rest of an article as it is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netnews::Article;
use netnews::article::xref_places;
use netnews::overview_row::{field, further, index};
use newsreel::fuzzing::from_upstream;

fuzz_target!(|data: &[u8]| {
    let read = from_upstream(data);
    if !read.row.is_empty() {
        assert!(read.row.ends_with(b"\r\n"));
        assert!(!read.row[..read.row.len() - 2].iter().any(|b| b"\r\n\0".contains(b)));
        let tabs = read.row.iter().filter(|&&b| b == b'\t').count();
        assert_eq!(tabs, 8 + usize::from(further(&read.row, b"Keywords").is_some()));
        assert_eq!(field(&read.row, index::NUMBER), Some(&b"7"[..]));
        let xref = field(&read.row, index::XREF).unwrap_or_default();
        let places: Vec<_> =
            xref_places(&[xref, b"\r\n"].concat()).map(|(g, n)| (g.to_vec(), n.to_vec())).collect();
        assert!(places.contains(&(b"a.b".to_vec(), b"7".to_vec())), "{places:?}");
        assert!(places.iter().all(|(group, _)| group != b"c.d"));
    }
    for (low, high, count) in read.marks {
        // A list that has no marks leaves them at zero.
        assert!((low, high, count) == (0, 0, 0) || low >= 1 && low <= high + 1);
        assert!(count <= (high + 1).saturating_sub(low));
    }
    if let Ok(article) = Article::parse(data) {
        let changed = Article::parse(&read.article).expect("it is an article as before");
        assert_eq!(changed.body(), article.body());
        assert!(xref_places(changed.head()).eq([(&b"a.b"[..], &b"1"[..])]));
    }
});
