//! Framing: the first byte of the input says how big the pieces are in which the rest arrives.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netnews::nntp::wire::{BlockEnd, NextLine, dot_stuff, find_end, next_line_within, unstuff};

const LINE_BYTES_MAX: usize = 20;

fn resumed(buf: &[u8], step: usize) -> BlockEnd {
    let (mut have, mut from) = (0, 0);
    loop {
        match find_end(&buf[..have], from) {
            BlockEnd::More { resume_from } if have < buf.len() => {
                assert!(resume_from >= from && resume_from <= have);
                from = resume_from;
                have = buf.len().min(have + step);
            }
            end => return end,
        }
    }
}

fn naive_end(buf: &[u8]) -> Option<usize> {
    if buf.starts_with(b".\r\n") {
        return Some(0);
    }
    buf.windows(5).position(|window| window == b"\r\n.\r\n").map(|at| at + 2)
}

fuzz_target!(|data: &[u8]| {
    let Some((&step, buf)) = data.split_first() else {
        return;
    };
    let step = usize::from(step % 16) + 1;

    let expected = naive_end(buf);
    for end in [find_end(buf, 0), resumed(buf, step)] {
        match end {
            BlockEnd::Found { article_len, next } => {
                assert_eq!(Some(article_len), expected);
                assert_eq!(&buf[article_len..next], b".\r\n");
            }
            BlockEnd::More { .. } => assert_eq!(expected, None),
        }
    }

    let mut wire = Vec::new();
    dot_stuff(buf, &mut wire);
    let framed = [&wire[..], b".\r\n", buf].concat();
    assert_eq!(find_end(&framed, 0), BlockEnd::Found { article_len: wire.len(), next: wire.len() + 3 });
    let (mut text, mut again, mut same) = (Vec::new(), Vec::new(), Vec::new());
    unstuff(&wire, &mut text);
    dot_stuff(&text, &mut again);
    unstuff(&again, &mut same);
    if !text.windows(3).any(|window| window == b"\r\r\n") {
        assert_eq!(again, wire);
        assert_eq!(same, text);
    }

    let mut from = 0;
    let mut taken = Vec::new();
    loop {
        match next_line_within(buf, from, LINE_BYTES_MAX) {
            NextLine::Line { line, next } => {
                assert!(next > from && next - from <= LINE_BYTES_MAX && !line.contains(&b'\n'));
                assert!(line.len() < next - from);
                taken.extend_from_slice(&buf[from..next]);
                from = next;
            }
            NextLine::TooLong { next: Some(next) } => {
                assert!(next - from > LINE_BYTES_MAX);
                taken.extend_from_slice(&buf[from..next]);
                from = next;
            }
            NextLine::TooLong { next: None } => {
                assert!(buf.len() - from >= LINE_BYTES_MAX);
                break;
            }
            NextLine::More => {
                assert!(buf.len() - from < LINE_BYTES_MAX && !buf[from..].contains(&b'\n'));
                break;
            }
        }
    }
    assert_eq!(taken, buf[..from]);
});
