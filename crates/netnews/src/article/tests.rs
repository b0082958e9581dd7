//! Tests of `Article`: values, folds, counts, and an error for every defect.

use super::*;

const PLAIN: &[u8] = b"Path: a.example!b!tail\r\nFrom: who@x.example\r\nNewsgroups: a.b,c.d\r\nSubject: \
    one\r\n two\r\n\tthree\r\n\
message-id:<1@x>\r\nDate: 6 Apr 93 09:54:13 -0400\r\nX-Other: yes\r\nLINES: \t 3\r\nSummary:\r\nKeywords: \
\t \r\n\r\nbody\r\n..dot\r\n\r\n";

/// Returns a complete article with this header line added before the others.
fn with(line: &str) -> Vec<u8> {
    [line.as_bytes(), PLAIN].concat()
}

fn malformed(wire: &[u8]) -> MalformedArticle {
    Article::parse(wire).expect_err("parses")
}

#[test]
fn values() {
    let article = Article::parse(PLAIN).unwrap();
    assert_eq!(article.wire(), PLAIN);
    assert_eq!(article.header(Known::Path).unwrap(), b"a.example!b!tail");
    assert_eq!(article.header(Known::Subject).unwrap(), b"one\r\n two\r\n\tthree");
    assert_eq!(article.header(Known::MessageId).unwrap(), b"<1@x>");
    assert_eq!(article.message_id().unwrap().as_bytes(), b"<1@x>");
    assert_eq!(article.header(Known::Lines).unwrap(), b"3");
    assert_eq!(article.header(Known::Summary).unwrap(), b"");
    assert_eq!(article.header(Known::Keywords).unwrap(), b"");
    assert_eq!(article.header(Known::References), None);
    assert_eq!(article.header_lines(Known::References), None);
    assert_eq!(&PLAIN[article.header_lines(Known::Subject).unwrap()], b"Subject: one\r\n two\r\n\tthree\r\n");
    assert_eq!(&PLAIN[article.header_lines(Known::Path).unwrap()], b"Path: a.example!b!tail\r\n");
    assert_eq!(article.body(), b"body\r\n..dot\r\n\r\n");
    assert_eq!([article.head(), b"\r\n", article.body()].concat(), PLAIN);
    assert_eq!(article.lines(), 3);
    assert_eq!(article.bytes(), PLAIN.len() as u64 - 1);
    assert_eq!(article.required(), Ok(()));
}

#[test]
fn content_is_without_exactly_the_first_blank() {
    for (line, content) in [
        ("Subject: one", "one"),
        ("Subject:one", "one"),
        ("Subject:  two", " two"),
        ("Subject:\tone", "one"),
        ("Subject: \tx \t", "\tx \t"),
        ("Subject:\r\n one", "one"),
        ("Subject:\r\n  two", " two"),
        ("Subject: \r\n one", "\r\n one"),
        ("Subject:", ""),
        ("Subject:  ", " "),
    ] {
        let wire = format!("SENDER: x\r\n{line}\r\nSubject: other\r\n\r\n");
        let article = Article::parse(wire.as_bytes()).unwrap();
        assert_eq!(article.content(Known::Subject), Some(content.as_bytes()), "{line:?}");
        assert_eq!(content_of(article.head(), b"subJect"), Some(content.as_bytes()), "{line:?}");
        assert_eq!(article.content(Known::References), None);
        assert_eq!(content_of(article.head(), b"Sub"), None);
    }
}

/// The wire format puts a dot before a line that begins with one, headers too (RFC 3977 section 3.1.1).
#[test]
fn a_header_whose_name_begins_with_a_dot_is_found_under_its_name() {
    let wire = b"..X-Dot: dotted\r\n more\r\nSubject: s\r\n...Y: two\r\n\r\n";
    let article = Article::parse(wire).unwrap();
    let names: Vec<&[u8]> = article.headers().map(|(name, _)| name).collect();
    assert_eq!(names, [&b".X-Dot"[..], b"Subject", b"..Y"]);
    assert_eq!(content_of(article.head(), b".x-dot"), Some(&b"dotted\r\n more"[..]));
    assert_eq!(content_of(article.head(), b"..X-Dot"), None);
    let lines: Vec<u8> = article.headers().fields().lines().flat_map(|(_, lines)| lines.to_vec()).collect();
    assert_eq!(lines, article.head(), "as it stands");
}

#[test]
fn all_headers_in_order() {
    let article = Article::parse(PLAIN).unwrap();
    let headers: Vec<_> = article.headers().collect();
    assert_eq!(headers.len(), 10);
    assert_eq!(headers[3], (&b"Subject"[..], &b"one\r\n two\r\n\tthree"[..]));
    assert_eq!(headers[4], (&b"message-id"[..], &b"<1@x>"[..]));
    assert_eq!(headers[6], (&b"X-Other"[..], &b"yes"[..]));
    assert_eq!(headers[8], (&b"Summary"[..], &b""[..]));
    assert_eq!(Headers::of(PLAIN).count(), 10);
    assert_eq!(Headers::of(b"").count(), 0);
}

#[test]
fn the_first_of_repeated_headers_counts_and_keeps_its_own_folds() {
    let wire = b"Subject: a\r\n b\r\nSUBJECT: c\r\n d\r\nsubject: e\r\n\r\n";
    let article = Article::parse(wire).unwrap();
    assert_eq!(article.count(Known::Subject), 3);
    assert_eq!(article.header(Known::Subject).unwrap(), b"a\r\n b");
    assert_eq!(article.count(Known::From), 0);
    let many = [b"Sender: x\r\n".repeat(300), b"\r\n".to_vec()].concat();
    assert_eq!(Article::parse(&many).unwrap().count(Known::Sender), 255);
}

#[test]
fn empty_body_needs_its_blank_line() {
    let article = Article::parse(b"A: b\r\n\r\n").unwrap();
    assert_eq!((article.body(), article.lines(), article.bytes()), (&b""[..], 0, 8));
    assert_eq!(malformed(b"A: b\r\n"), MalformedArticle::NoBlankLine);
    assert_eq!(malformed(b""), MalformedArticle::NoBlankLine);
    assert_eq!(malformed(b"A: b"), MalformedArticle::UnfinishedLine);
    assert_eq!(malformed(b"A: b\r\n\r\nbody"), MalformedArticle::UnfinishedLine);
    assert_eq!(Article::parse(b"\r\n").unwrap().headers().count(), 0);
}

#[test]
fn header_lines_have_a_form() {
    assert_eq!(malformed(&with("no colon here\r\n")), MalformedArticle::HeaderNoColon);
    assert_eq!(malformed(&with(": no name\r\n")), MalformedArticle::EmptyHeaderName);
    assert_eq!(malformed(&with(" continued\r\n")), MalformedArticle::LeadingContinuation);
    assert_eq!(malformed(&with("\tcontinued\r\n")), MalformedArticle::LeadingContinuation);
    for name in ["From ", "A name", "Caf\u{e9}", "X\x7fY", "X\tY", "Message-ID ", "Message\u{1}ID"] {
        assert_eq!(malformed(&with(&format!("{name}: x\r\n"))), MalformedArticle::HeaderName, "{name}");
    }
    for name in ["X", "x_y", "Article-I.D.", "!#$%&'*+", "..dotted"] {
        assert!(Article::parse(&with(&format!("{name}: x\r\n"))).is_ok(), "{name}");
    }
}

#[test]
fn octets_that_break_lines_are_rejected_anywhere() {
    for at in [0, 3, 12, PLAIN.len() - 8, PLAIN.len() - 2] {
        for (octet, expected) in
            [(0, MalformedArticle::Nul), (b'\r', MalformedArticle::BareCr), (b'\n', MalformedArticle::BareLf)]
        {
            let mut wire = PLAIN.to_vec();
            wire.insert(at, octet);
            assert_eq!(malformed(&wire), expected, "at {at}");
        }
    }
    let eight_bit: Vec<u8> = (1..=255).filter(|b| !b"\r\n".contains(b)).collect();
    let wire = [b"Subject: ", &eight_bit[..], b"\r\n\r\n", &eight_bit, b"\r\n"].concat();
    assert_eq!(Article::parse(&wire).unwrap().lines(), 1);
}

#[test]
fn limits() {
    let long = |n: usize| format!("X: {}\r\n", "y".repeat(n));
    assert!(Article::parse(&with(&long(40_000))).is_ok());
    assert_eq!(malformed(&with(&long(HEADER_BYTES_MAX))), MalformedArticle::HeadersTooLarge);
    let exact = [long(HEADER_BYTES_MAX - 7).as_bytes(), b"\r\nbody\r\n"].concat();
    assert_eq!(Article::parse(&exact).unwrap().body_offset(), HEADER_BYTES_MAX);
    let over = [long(HEADER_BYTES_MAX - 6).as_bytes(), b"\r\nbody\r\n"].concat();
    assert_eq!(malformed(&over), MalformedArticle::HeadersTooLarge);
    let lines = |n: usize| ["X: y\r\n".repeat(n), "\r\n".into()].concat();
    assert!(Article::parse(lines(HEADER_LINES_MAX as usize).as_bytes()).is_ok());
    assert_eq!(
        malformed(lines(HEADER_LINES_MAX as usize + 1).as_bytes()),
        MalformedArticle::TooManyHeaderLines
    );
    let stored = |n: usize| ["Xref: here a:1\r\n b:2\r\n", &lines(n)].concat();
    assert!(Article::parse(stored(HEADER_LINES_MAX as usize).as_bytes()).is_ok());
    assert_eq!(
        malformed(stored(HEADER_LINES_MAX as usize + 1).as_bytes()),
        MalformedArticle::TooManyHeaderLines
    );
}

#[test]
fn required_headers() {
    for known in REQUIRED {
        let line = format!("{}:", known.name()).to_lowercase();
        let lines: Vec<&str> = str::from_utf8(PLAIN).unwrap().split_inclusive("\r\n").collect();
        let own = lines.iter().position(|l| l.to_lowercase().starts_with(&line)).unwrap();
        let edit = |replacement: &str| {
            let mut edited = lines.clone();
            edited[own] = replacement;
            // Folds of Subject would become folds of the header before it.
            edited.retain(|l| known != Known::Subject || !(l.starts_with([' ', '\t'])));
            edited.concat().into_bytes()
        };
        let check = |wire: &[u8]| Article::parse(wire).unwrap().required();
        assert_eq!(check(&edit("")), Err(MalformedArticle::Missing(known)));
        assert_eq!(check(&edit(&format!("{line} \t\r\n"))), Err(MalformedArticle::Empty(known)));
        assert_eq!(
            check(&edit(&format!("{line} a\r\n{line} b\r\n"))),
            Err(MalformedArticle::Repeated(known))
        );
    }
}

#[test]
fn texts_are_short() {
    assert_eq!(MalformedArticle::Missing(Known::Date).to_string(), "missing Date header");
    assert_eq!(malformed(b"A: b\r\n").to_string(), "no blank line after headers");
}

#[test]
fn places_of_an_xref() {
    let head = b"Xref: news.example a.b:1\r\n c:d:22 junk\r\nPath: x!y\r\n";
    let places: Vec<_> = xref_places(head).collect();
    assert_eq!(places, [(&b"a.b"[..], &b"1"[..]), (b"c:d", b"22")]);
    assert_eq!(xref_places(b"Path: x!y\r\n").count(), 0);
}
