//! Every renderer is linear: 4 MiB of each repeated token of its grammar cost no more steps for each byte
//! than any other input.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use newspages::content::{ArticleContent, SHOWN_BYTES_MAX};
use newspages::feed::{self, AtomFeed, FeedEntry};
use newspages::threads::{self, ThreadRow, threads};
use newspages::work::{self, StopFlag};
use newspages::{content, flowed, header, links, view};
use std::time::Instant;

const BYTES: usize = 4 << 20;
/// A hundred times what linear work takes on a busy machine; anything else takes hours. It is for work that
/// is not counted in steps.
const SECONDS_MAX: u64 = 60;

/// 4 MiB of a token.
fn repeated(token: &str) -> String {
    token.repeat(BYTES / token.len())
}

/// Renders within the steps that an input of this size may take.
fn assert_linear<T>(what: &str, bytes: usize, render: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = work::limited(work::allowance(bytes), &StopFlag::default(), render);
    let took = begun.elapsed();
    assert!(took.as_secs() < SECONDS_MAX, "{}: {took:?}", what.escape_debug());
    result.unwrap_or_else(|error| panic!("{}: {error}", what.escape_debug()))
}

/// The page of an article and each of its files.
fn assert_page_is_linear(what: &str, wire: &[u8]) {
    let content = assert_linear(what, wire.len(), || {
        let content = ArticleContent::of(wire, SHOWN_BYTES_MAX);
        view::article(
            &content,
            &view::ArticlePage { place: Some(("a.b", 7)), ..view::ArticlePage::default() },
        );
        content
    });
    assert_linear(what, wire.len(), || {
        view::threaded(&content, &view::ThreadPlace { number: 7, title: "x", ..view::ThreadPlace::default() })
    });
    assert_linear(what, wire.len(), || content::quoted(&content));
    for number in [1, content.files.len()] {
        assert_linear(what, wire.len(), || ArticleContent::file(wire, number));
    }
}

const TEXT: &[&str] = &[
    ":",
    "a:",
    "abc:",
    "http:",
    "http:/",
    "http://",
    "HTTP://a",
    "http://a ",
    "http://a@",
    "http://a)",
    "https://a/(",
    "https:",
    "ftp:",
    "ftp://a[",
    "news:",
    "news:a",
    "news:a@b ",
    "news:%",
    "(http://a)",
    "(",
    ")",
    "[",
    "]",
    "()",
    ")(",
    "http://a)))",
    "http://a...",
    "<",
    ">",
    "<a",
    "<1@a>",
    "<1@a",
    "<<1@a>",
    "<>",
    "@",
    ".",
    ",",
    "*",
    "_",
    "!",
    "?",
    "abc:))))",
    "abc:) ",
    "http://a):",
    "-- \r\n",
    ">\r\n",
    "> ",
    ">>\r\n>\r\n",
    "> >",
    "\r\n",
    "\n",
    " ",
    " \r\n",
    "\t",
    "a",
    "\u{e9}",
    "\u{20ac}",
    "\u{202e}",
    "\u{feff}",
    "\u{1b}",
    "\0",
    "&",
    "\"",
    "-",
    "--",
    ".\r\n",
    "..\r\n",
    "begin 644 x\r\n",
    "begin 644 x\r\n#9F]U\r\n",
    "begin ",
    "begin 644 x\r\n`\r\nend\r\n",
    "end\r\n",
    "M\r\n",
    "`\r\n",
    "=ybegin line=1 size=1 name=x\r\n",
    "=ybegin ",
    "=ybegin line= size=\r\n",
    "=ypart \r\n",
    "=yend size=1\r\n",
    "=",
    "=ybegin part=1 line=1 size=1 name=x\r\n=yend size=1\r\n",
];

#[test]
fn text_of_one_repeated_token_takes_linear_work() {
    for token in TEXT {
        assert_page_is_linear(token, format!("Subject: x\r\n\r\n{}", repeated(token)).as_bytes());
    }
    // Within a file, whose lines may have lost the blanks at their ends.
    for token in ["M\r\n", "_\r\n", "\r\n", " \r\n", "`\r\n", "#9F]U\r\n", "\r\n\r\nend\r\n"] {
        for begin in ["begin 644 x", "begin 644 x\r\nM", "=ybegin line=1 size=1 name=x=ypart begin=1 end=1"] {
            assert_page_is_linear(token, format!("\r\n{begin}\r\n{}", repeated(token)).as_bytes());
        }
    }
    // A line of it alone, which a page would cut, and what reads lines.
    for token in TEXT {
        let line = repeated(token);
        assert_linear(token, line.len(), || links::spans(&line));
        assert_linear(token, line.len(), || flowed::flowed(&line, true).count());
        assert_linear(token, line.len(), || flowed::fixed(&line).count());
    }
}

#[test]
fn a_link_after_many_that_are_none_is_found_in_linear_work() {
    for token in ["http:)", "news:/ ", "abc:)))", "http://a@b ", "ftp:", "<1", "<1@ ", "<1@a>> <"] {
        let line = format!("{}http://example.org/", repeated(token).get(..BYTES / 2).unwrap());
        assert_linear(token, line.len(), || links::spans(&line));
    }
}

#[test]
fn html_of_one_repeated_token_takes_linear_work() {
    for token in [
        "<",
        ">",
        "<a",
        "<a>",
        "<p>",
        "</",
        "</p",
        "</p>",
        "<br>",
        "<br> ",
        "<!--",
        "-->",
        "<!-- -->",
        "<!",
        "<?",
        "<script>",
        "</script>",
        "<script></",
        "<script></script>",
        "<style>",
        "<style></style ",
        "<pre>",
        "</pre>",
        "<li>",
        "<a href='",
        "&",
        "&amp;",
        "&#",
        "&#1;",
        "&#x41;",
        "&amp",
        "&a",
        "&ab",
        "&abc",
        "&abcdef",
        "&abcdef;",
        "&abcdefghijklm",
        "&abcdefghijklm;",
        "&1",
        "& ",
        "&<",
        "&\u{e9}",
        "&copy",
        "&thetasy",
        "&#x",
        "&#0",
        "&#xffffffff",
        "0",
        "&#128",
        "&;",
        ";",
        " ",
        "\n",
        "<p> ",
        "<p>\n",
        "'",
        "\"",
        "<title/>",
        "<script/>",
        "<////",
        "</>",
        "<>",
        "<a/>",
        "<abcdef>",
        "<pre> \n",
        "<a href=https://a/>",
        "<a href=https://a/>x",
        "<a href=https://a/ ",
        "<a a=b ",
        "=",
        "<blockquote>",
        "<blockquote>x<br>",
        "</blockquote>",
        "<ol><li>",
        "<ul><li>x",
        "<td>",
        "<td>x",
        "<img alt=a>",
        "<img alt='&amp;'>",
    ] {
        let head = "Content-Type: text/html\r\n\r\n";
        assert_page_is_linear(token, format!("{head}{}", repeated(token)).as_bytes());
    }
}

#[test]
fn an_ampersand_costs_no_more_than_any_other_character() {
    let steps = |token: &str| {
        let wire = format!("Content-Type: text/html\r\n\r\n{}", token.repeat(10_000));
        work::counted(|| ArticleContent::of(wire.as_bytes(), SHOWN_BYTES_MAX)).1
    };
    let plain = steps("a");
    for token in ["&", "<", "& ", "&&<", "&1", "&#", "&#x"] {
        let per_byte = steps(token) / token.len() as u64;
        assert!(per_byte <= 2 * plain, "{token}: {per_byte} {plain}");
    }
}

/// Beginnings and ends of parts, and what may stand in their heads.
const PARTS: &[&str] = &[
    "--x\r\n",
    "--x\r\n\r\n",
    "--x--\r\n",
    "--x ",
    "--",
    "\r\n",
    "a:\r\n",
    "a: b\r\n",
    " \r\n",
    "a\r\n",
    "--x\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n",
    "Content-Type: message/rfc822\r\n\r\n",
    "--x\r\nContent-Type: message/rfc822\r\n\r\n",
    "--x\r\nContent-Type: text/html\r\n\r\n<",
];

#[test]
fn mime_of_one_repeated_token_takes_linear_work() {
    for (head, tokens) in [
        ("Content-Type: multipart/mixed; boundary=x", PARTS),
        ("Content-Type: multipart/alternative; boundary=x", PARTS),
        ("Content-Type: message/rfc822", PARTS),
        (
            "Content-Transfer-Encoding: quoted-printable",
            &["=", "==", "=4", "=41", "=\r\n", "a \r\n", "a", " "][..],
        ),
        (
            "Content-Type: image/gif\r\nContent-Transfer-Encoding: x-uuencode",
            &["begin 644 x\r\n", "begin 644 x\r\nM\r\n", "M\r\n", "\r\n", "end\r\n", "=ybegin "][..],
        ),
        (
            "Content-Type: multipart/alternative; boundary=x",
            &["--x\r\n\r\n \r\n", "--x\r\nContent-Transfer-Encoding: base64\r\n\r\nICAg\r\n"][..],
        ),
        ("Content-Transfer-Encoding: base64", &["A", "A=", "AAAA", "AAAA=", "AAAA\r\n", "=", "-"][..]),
        (
            "Content-Type: text/plain; format=flowed; delsp=yes",
            &["> \r\n", "a \r\n", "-- \r\n", " \r\n", ">", "> > "][..],
        ),
        ("Content-Type: text/plain; charset=iso-2022-jp", &["\u{1b}$B", "\u{1b}(B", "\u{1b}"][..]),
        ("Content-Type: text/plain; charset=utf-16le", &["a", "\u{d8}", "\n"][..]),
    ] {
        for token in tokens {
            let wire = format!("{head}\r\n\r\n{}", repeated(token));
            assert_page_is_linear(&format!("{head}: {token}"), wire.as_bytes());
        }
    }
}

#[test]
fn headers_of_one_repeated_token_take_linear_work() {
    const NAMES: &[&str] = &[
        "Subject",
        "From",
        "Date",
        "References",
        "In-Reply-To",
        "Newsgroups",
        "Message-ID",
        "Content-Type",
        "Followup-To",
        "Content-Disposition",
        "Content-Transfer-Encoding",
    ];
    const TOKENS: &[&str] = &[
        "=?",
        "=?a?q?",
        "=?a?q? ",
        "=?utf-8?q?a?= ",
        "=?utf-8?b?QQ==?=",
        "?=",
        "?",
        ";",
        "; a=b",
        ";a*0=b",
        "; a*=u''%41",
        ";a=\"",
        "\"",
        "\\",
        "\\\"",
        "a",
        " ",
        "\r\n ",
        "\r\n\t",
        ",",
        "a,",
        "a.b,",
        "<a@b> ",
        "<a@b>,",
        "<",
        ">",
        "<>",
        "(",
        ")",
        "()",
        "(\\",
        ":",
        "Re: ",
        "re:",
        "Re[",
        "1 ",
        "-",
        "%",
        "%41",
        "'",
        "*",
        "=",
        "\u{e9}",
        "\u{1b}",
    ];
    for token in TOKENS {
        let value = repeated(token);
        let part = value.get(..value.floor_char_boundary(BYTES / NAMES.len())).unwrap();
        let head: String = NAMES.iter().map(|name| format!("{name}: {part}\r\n")).collect();
        assert_page_is_linear(token, format!("{head}\r\nbody\r\n").as_bytes());
        assert_linear(token, value.len(), || header::text(value.as_bytes()));
        assert_linear(token, value.len(), || header::MimeField::parse(format!("a/b; {value}").as_bytes()));
        assert_linear(token, value.len(), || content::references(value.as_bytes()).len());
        assert_linear(token, value.len(), || threads::base_subject(&value).1);
        let row =
            format!("1\t{value}\t{value}\t{value}\t<a@b>\t{value}\t1\t1\r\n").replace(['\r', '\n'], " ");
        assert_linear(token, row.len(), || ThreadRow::parse(row.as_bytes()));
    }
    for head in [
        "a: b\r\n",
        "a:\r\n",
        ":\r\n",
        "a\r\n",
        " a\r\n",
        "\r\n ",
        "Subject: x\r\n",
        "Content-Type: a\r\n b\r\n",
    ] {
        assert_page_is_linear(head, format!("{}\r\nbody\r\n", repeated(head)).as_bytes());
    }
}

fn row(number: u64, references: Vec<String>) -> ThreadRow {
    ThreadRow {
        number,
        message_id: format!("<m{number}@x>"),
        references,
        date: Some(number as i64),
        ..ThreadRow::default()
    }
}

/// Rows of `count` articles, whose References are these.
fn rows(count: u64, references: impl Fn(u64) -> Vec<String>) -> Vec<ThreadRow> {
    (0..count).map(|number| row(number, references(number))).collect()
}

#[test]
fn threads_of_any_structure_take_linear_work() {
    let id = |name: String| format!("<{name}@x>");
    let absent = |n: u64| id(format!("a{n}"));
    let own = |n: u64| id(format!("m{n}"));
    let count = 3_000;
    let range = |from: u64, to: u64| (from..to).map(absent).collect::<Vec<_>>();
    for (what, rows) in [
        ("chains of absent ancestors, each below the last", rows(count, |n| range(49 * n, 49 * n + 50))),
        ("the same, from the last on", rows(count, |n| range(49 * (count - n), 49 * (count - n) + 50))),
        ("one ancestor with many absent children", rows(count, |n| vec![absent(0), absent(n + 1)])),
        (
            "an ancestor again and again",
            rows(count, |n| (0..25).flat_map(|k| [absent(0), absent(25 * n + k + 1)]).collect()),
        ),
        ("one chain of articles", rows(count, |n| n.checked_sub(1).map(own).into_iter().collect())),
        ("the same upwards", rows(count, |n| vec![own(n + 1)])),
        ("a circle", rows(count, |n| vec![own((n + 1) % count)])),
        ("everyone above everyone", rows(count, |n| (n..n + 50).map(|k| own(k * 7 % count)).collect())),
        ("one absent parent for all", rows(count, |_| vec![absent(0)])),
        (
            "absent ancestors in reverse",
            rows(count, |n| range(49 * n, 49 * n + 50).into_iter().rev().collect()),
        ),
        (
            "one subject",
            rows(count, |_| Vec::new())
                .into_iter()
                .map(|row| ThreadRow { subject: "Re: x".into(), ..row })
                .collect(),
        ),
    ] {
        let bytes = threads::bytes_of(&rows);
        let found = assert_linear(what, bytes, || threads(&rows));
        let shown: usize = found.iter().map(|thread| thread.rows().count()).sum();
        assert_eq!(shown, rows.len(), "{what}");
        for thread in &found {
            assert_linear(what, bytes, || {
                let nodes = thread.nearest(thread.rows().next().unwrap_or_default(), usize::MAX);
                let (thread, left_out) = thread.only(nodes);
                view::thread(&view::ThreadPage {
                    group: "a.b",
                    place: "/",
                    title: thread.title(&rows),
                    rows: &rows,
                    nodes: &thread.nodes,
                    before: 0,
                    total: rows.len() + left_out,
                    turning: &view::PageLinks::default(),
                    articles: &maud::Markup::default(),
                })
            });
        }
        let entries: Vec<FeedEntry<'_>> = rows.iter().map(|row| FeedEntry { row, summary: "<&>" }).collect();
        let feed = AtomFeed {
            title: "x",
            site: "https://x.example",
            authority: "x.example",
            page: "/",
            path: "/atom",
        };
        assert_linear(what, bytes, || feed::atom(&feed, &entries));
    }
}
