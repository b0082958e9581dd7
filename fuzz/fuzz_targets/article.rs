//! Articles: whatever parses keeps the promises of `Article` (RFC 5536 section 2).
#![no_main]

use libfuzzer_sys::fuzz_target;
use netnews::nntp::wire::{BlockEnd, find_end, unstuff};
use netnews::{Article, Known};

/// Lines of an article, without their CRLF.
fn lines(wire: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = wire.split(|&b| b == b'\n').collect();
    assert_eq!(lines.pop(), Some(&b""[..]));
    lines.iter().map(|line| line.strip_suffix(b"\r").expect("bare LF")).collect()
}

fuzz_target!(|wire: &[u8]| {
    let Ok(article) = Article::parse(wire) else {
        return;
    };
    let all = lines(wire);
    assert!(all.iter().all(|line| !line.contains(&b'\r') && !line.contains(&0) && *line != b"."));
    let blank = all.iter().position(|line| line.is_empty()).expect("no blank line");
    assert_eq!(article.lines(), (all.len() - blank - 1) as u64);
    assert_eq!([article.head(), b"\r\n", article.body()].concat(), wire);
    assert_eq!(lines(article.head()), all[..blank]);

    let mut text = Vec::new();
    unstuff(wire, &mut text);
    assert_eq!(article.bytes(), text.len() as u64);

    let framed = [wire, b".\r\nQUIT\r\n"].concat();
    assert_eq!(find_end(&framed, 0), BlockEnd::Found { article_len: wire.len(), next: wire.len() + 3 });

    let headers: Vec<_> = article.headers().collect();
    assert_eq!(
        headers.len(),
        all[..blank].iter().filter(|line| !line.starts_with(b" ") && !line.starts_with(b"\t")).count()
    );
    for &known in Known::ALL {
        let own: Vec<_> =
            headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(known.name().as_bytes())).collect();
        assert_eq!(usize::from(article.count(known)), own.len().min(255));
        assert_eq!(article.header(known), own.first().map(|(_, value)| *value));
        let whole = article.header_lines(known).map(|range| &wire[range]);
        assert_eq!(whole.is_some(), !own.is_empty());
        if let (Some(whole), Some((name, value))) = (whole, own.first()) {
            assert!(whole.starts_with(name) && whole.ends_with(&[value, &b"\r\n"[..]].concat()));
        }
    }
    if article.required().is_ok() {
        assert!(netnews::article::REQUIRED.iter().all(|&known| article.count(known) == 1));
    }
});
