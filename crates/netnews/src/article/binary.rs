//! Detection of binary data encoded as text in a body: yEnc 1.3 or uuencode.
//!
//! Looks for the lines that such data begins with, for those inside yEnc and, for parts of uuencoded files
//! that were posted in several, for lines of data on end; decodes nothing. Called by the storage rules. How
//! such lines look: `encoded`.

use super::encoded::{self, EmbeddedEncoding};
use memchr::{memchr, memmem};

/// Lines of uuencoded data on end that are data without a `begin` line.
pub(super) const DATA_LINES_MIN: u32 = 9;

/// Returns the encoding of binary data that `body` (wire format) holds, if any.
pub fn encoding(body: &[u8]) -> Option<EmbeddedEncoding> {
    let is_yenc = |text: &[u8]| {
        let line = memchr(b'\n', text).and_then(|end| text.get(..end)).unwrap_or(text);
        encoded::yenc_begin(line).is_some() || encoded::is_yenc_mark(line)
    };
    if starts(body, b"=y").any(is_yenc) {
        return Some(EmbeddedEncoding::Yenc);
    }
    let is_uuencoded = starts(body, b"begin ").any(|text| encoded::uu_begin(text).is_some());
    (is_uuencoded || has_uu_run(body)).then_some(EmbeddedEncoding::Uuencode)
}

/// Returns the rest of `body` from each line that begins with `word`; for yEnc only that line matters.
fn starts<'a>(body: &'a [u8], word: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    memmem::find_iter(body, word).filter_map(move |at| {
        let first = at == 0 || body.get(at - 1) == Some(&b'\n');
        body.get(at..).filter(|_| first)
    })
}

/// Whether lines on end look like uuencoded data.
fn has_uu_run(body: &[u8]) -> bool {
    let mut rest = body;
    let mut run = 0;
    while !rest.is_empty() {
        let end = memchr(b'\n', rest).unwrap_or(rest.len());
        let line = rest.get(..end).unwrap_or_default();
        run =
            if encoded::is_uu_data(line.strip_suffix(b"\r").unwrap_or(line), run > 0) { run + 1 } else { 0 };
        if run >= DATA_LINES_MIN {
            return true;
        }
        // Only a line that begins with M may be one.
        let skipped = if run > 0 { Some(end) } else { memmem::find(rest, b"\nM") };
        rest = skipped.and_then(|at| rest.get(at + 1..)).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yenc_and_uuencode_are_distinguished_from_text_about_them() {
        let uu = format!("M{}\r\n", "#".repeat(60)).repeat(4);
        for (body, expected) in [
            (
                "=ybegin line=128 size=9 name=a.b\r\nxyz\r\n=yend size=9\r\n".to_owned(),
                Some(EmbeddedEncoding::Yenc),
            ),
            (
                "hello\r\n=ybegin part=1 total=2 line=128 size=9 name=a\r\n".to_owned(),
                Some(EmbeddedEncoding::Yenc),
            ),
            ("the line \"=ybegin line=128\" begins it\r\n".to_owned(), None),
            ("=ybegin is a word\r\nthat has line=1 elsewhere\r\n".to_owned(), None),
            (format!("see:\r\nbegin 644 pic.gif\r\n{uu}`\r\nend\r\n"), Some(EmbeddedEncoding::Uuencode)),
            (format!("begin with something\r\n{uu}"), None),
            ("begin 644 pic.gif\r\nis how it begins\r\nreally\r\nyes\r\n".to_owned(), None),
            // Parts whose beginning was posted elsewhere, or got lost.
            (
                "=ypart begin=100 end=200\r\nxyz\r\n=yend size=100 part=2\r\n".to_owned(),
                Some(EmbeddedEncoding::Yenc),
            ),
            (format!("part 2\r\n{}", uu.repeat(3)), Some(EmbeddedEncoding::Uuencode)),
            (uu.clone() + "and text\r\n" + &uu, None),
            // Blanks at the ends of lines got lost.
            ("begin 644 a.bin\r\nM\r\nM#\r\n`\r\nend\r\n".to_owned(), Some(EmbeddedEncoding::Uuencode)),
            (uu.clone() + &"M#\r\n".repeat(5), Some(EmbeddedEncoding::Uuencode)),
            ("MAKE MONEY FAST\r\n".repeat(20), None),
            (String::new(), None),
        ] {
            assert_eq!(encoding(body.as_bytes()), expected, "{body}");
        }
    }
}
