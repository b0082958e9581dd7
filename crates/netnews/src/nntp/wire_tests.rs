//! Tests of framing: the same lines and blocks are found in whatever pieces the bytes arrive.

use super::*;
use proptest::prelude::*;

fn line(line: &[u8], next: usize) -> NextLine<'_> {
    NextLine::Line { line, next }
}

#[test]
fn lines() {
    assert_eq!(next_line(b"QUIT\r\nx", 0), line(b"QUIT", 6));
    assert_eq!(next_line(b"QUIT\nx", 0), line(b"QUIT", 5));
    assert_eq!(next_line(b"ab\r\ncd\r\n", 4), line(b"cd", 8));
    assert_eq!(next_line(b"\r\n", 0), line(b"", 2));
    assert_eq!(next_line(b"\n", 0), line(b"", 1));
    assert_eq!(next_line(b"a\r\r\n", 0), line(b"a\r", 4));
    assert_eq!(next_line(b"QUIT\r", 0), NextLine::More);
    assert_eq!(next_line(b"", 0), NextLine::More);
    assert_eq!(next_line(b"ab", 7), NextLine::More);
}

#[test]
fn the_line_limit_includes_the_crlf() {
    let mut buf = vec![b'x'; LINE_BYTES_MAX - 2];
    buf.extend_from_slice(b"\r\n");
    assert_eq!(next_line(&buf, 0), line(&buf[..LINE_BYTES_MAX - 2], LINE_BYTES_MAX));
    buf.insert(0, b'x');
    assert_eq!(next_line(&buf, 0), NextLine::TooLong { next: Some(LINE_BYTES_MAX + 1) });
    assert_eq!(next_line(&buf[..LINE_BYTES_MAX], 0), NextLine::TooLong { next: None });
    assert_eq!(next_line(&buf[..LINE_BYTES_MAX - 1], 0), NextLine::More);
    assert_eq!(next_line_within(b"abc\n", 0, 3), NextLine::TooLong { next: Some(4) });
}

#[test]
fn ends() {
    assert_eq!(find_end(b"a\r\n.\r\nQUIT", 0), BlockEnd::Found { article_len: 3, next: 6 });
    assert_eq!(find_end(b".\r\nQUIT", 0), BlockEnd::Found { article_len: 0, next: 3 });
    assert_eq!(find_end(b"\r\n.\r\n", 0), BlockEnd::Found { article_len: 2, next: 5 });
    assert_eq!(find_end(b"a\r\n..\r\n.\r\n", 0), BlockEnd::Found { article_len: 7, next: 10 });
    for not_yet in [
        &b""[..],
        b".",
        b".\r",
        b"a\r\n.",
        b"a\r\n.\r",
        b"a\n.\n",
        b"a\n.\r\n",
        b"a\r\n.\n",
        b"a\r.\r\n",
        b"a\r\n.x\r\n",
    ] {
        assert!(matches!(find_end(not_yet, 0), BlockEnd::More { .. }), "{not_yet:?}");
    }
}

#[test]
fn stuffing() {
    let mut wire = Vec::new();
    dot_stuff(b".\n..a\r\nb.\n\n.last", &mut wire);
    assert_eq!(wire, b"..\r\n...a\r\nb.\r\n\r\n..last\r\n");
    let mut text = Vec::new();
    unstuff(&wire, &mut text);
    let mut lines = Vec::new();
    to_text(&wire, &mut lines);
    assert_eq!(lines, b".\n..a\nb.\n\n.last\n");
    assert_eq!(text, b".\r\n..a\r\nb.\r\n\r\n.last\r\n");
    let mut empty = Vec::new();
    dot_stuff(b"", &mut empty);
    unstuff(b"", &mut empty);
    to_text(b"", &mut empty);
    assert_eq!(empty, b"");
}

fn framing_text() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'.'), Just(b'x')], 0..60)
}

proptest! {
    #[test]
    fn resumed_equals_one_shot(buf in framing_text(), steps in prop::collection::vec(1usize..7, 0..40)) {
        let (mut have, mut from) = (0, 0);
        let mut steps = steps.into_iter().chain(std::iter::repeat(5));
        let resumed = loop {
            match find_end(&buf[..have], from) {
                BlockEnd::More { resume_from } if have < buf.len() => {
                    from = resume_from;
                    have = buf.len().min(have + steps.next().unwrap_or(1));
                }
                end => break end,
            }
        };
        match (find_end(&buf, 0), resumed) {
            (BlockEnd::Found { article_len, next }, resumed) => {
                prop_assert_eq!(resumed, BlockEnd::Found { article_len, next })
            }
            (BlockEnd::More { .. }, BlockEnd::Found { .. }) => {
                prop_assert!(false, "resumed found an end that is not there")
            }
            (BlockEnd::More { .. }, BlockEnd::More { .. }) => {}
        }
    }

    #[test]
    fn stuffed_text_has_its_end_found_and_is_restored(text in framing_text(), after in framing_text()) {
        let mut wire = Vec::new();
        dot_stuff(&text, &mut wire);
        let article_len = wire.len();
        wire.extend_from_slice(b".\r\n");
        let next = wire.len();
        wire.extend_from_slice(&after);
        prop_assert_eq!(find_end(&wire, 0), BlockEnd::Found { article_len, next });
        let mut back = Vec::new();
        unstuff(&wire[..article_len], &mut back);
        let mut lines: Vec<&[u8]> = text.split(|&b| b == b'\n').collect();
        lines.pop_if(|last| last.is_empty());
        let ended = |l: &&[u8]| [l.strip_suffix(b"\r").unwrap_or(l), b"\r\n"].concat();
        let whole: Vec<u8> = lines.iter().flat_map(ended).collect();
        prop_assert_eq!(back, whole);
    }
}
