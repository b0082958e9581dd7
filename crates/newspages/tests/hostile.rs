//! Articles that try to be more than text: each shows as text, and costs no more than its size.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod safe;

use newspages::content::{ArticleContent, SHOWN_BYTES, SHOWN_BYTES_MAX};
use newspages::threads::{ThreadRow, threads};
use newspages::view;
use safe::assert_safe;

/// The text of an article's page.
fn shown(article: &str) -> String {
    let wire = article.replace('\n', "\r\n");
    let content = ArticleContent::of(wire.as_bytes(), SHOWN_BYTES);
    let page = view::article(
        &content,
        &view::ArticlePage { place: Some(("a.b", 7)), ..view::ArticlePage::default() },
    );
    for number in 1..=content.files.len() {
        let (name, _) = ArticleContent::file(wire.as_bytes(), number).unwrap();
        assert_eq!(name, content.files[number - 1].name);
    }
    let place =
        view::ThreadPlace { number: 7, previous: Some(6), next: Some(8), title: "x", may_follow_up: true };
    assert_safe(&view::threaded(&content, &place).into_string());
    assert_safe(&page.into_string())
}

const HEAD: &str = "From: a@b.example\nNewsgroups: a.b\nMessage-ID: <1@x>\n";

#[test]
fn markup_shows_as_text() {
    for attack in [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "\"><svg/onload=alert(1)>",
        "<style>*{display:none}</style>",
        "<iframe srcdoc='<script>1</script>'></iframe>",
        "<a href=\"javascript:alert(1)\">x</a>",
        "<base href=http://evil.example/>",
        "<meta http-equiv=refresh content='0;url=http://evil.example/'>",
        "</div></article></main><form action=http://evil.example/>",
        "<!-- --!><b>",
        "<![CDATA[<script>]]>",
        "<plaintext>",
        "&lt;script&gt;",
        "{{constructor.constructor('alert(1)')()}}",
        "%3Cscript%3E",
        "+ADw-script+AD4-",
    ] {
        let text = shown(&format!(
            "{HEAD}Subject: {attack}\nOrganization: {attack}\n\n{attack}\n> {attack}\n-- \n{attack}\n"
        ));
        assert!(text.matches(attack).count() >= 5, "{attack}: {text}");
    }
}

#[test]
fn headers_show_as_text() {
    for (header, expected) in [
        ("From: \"<script>\" <x@y>", "\"<script>\" <x@y>"),
        ("Subject: =?utf-8?B?PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==?=", "<script>alert(1)</script>"),
        ("Subject: =?utf-7?Q?+ADw-script+AD4-?=", "<script>"),
        ("Subject: =?utf-8?Q?a=0D=0ASet-Cookie:_x?=", "a Set-Cookie: x"),
        ("Newsgroups: a.b,\"><script>x", "\"><script>x"),
        ("Followup-To: <script>", "<script>"),
        ("Date: <script>", "<script>"),
        ("Message-ID: <\"onclick=alert(1)@x>", "<\"onclick=alert(1)@x>"),
        ("References: <javascript:alert(1)@x>", "<javascript:alert(1)@x>"),
        ("Subject: \u{202e}gpj.exe", "\u{fffd}gpj.exe"),
        ("Subject: a\u{1b}[2Jb", "a\u{241b}[2Jb"),
        ("Content-Type: text/plain; charset=\"><script>\"", "body"),
        ("Content-Type: <script>/x", "file-1.bin"),
    ] {
        let text = shown(&format!("{header}\n\nbody\n"));
        assert!(text.contains(expected), "{header}: {text}");
    }
}

#[test]
fn urls_lead_to_where_they_say_or_nowhere() {
    // `assert_safe` looks at each link.
    for attack in [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "java\u{0}script:alert(1)",
        "data:text/html;base64,PHNjcmlwdD4=",
        "http://\"onmouseover=\"alert(1)",
        "http://a/'><script>",
        "https://user:password@evil.example/",
        "news:\"><script>@x",
        "news:javascript:alert(1)@x",
        "news:../../admin@x",
        "news:..",
        "<1\"onmouseover=alert(1)//@x>",
        "//evil.example/",
        "http:evil.example",
        "https:\\\\evil.example",
        "view-source:http://x",
    ] {
        let text = shown(&format!("{HEAD}Subject: x\n\nsee {attack} there\n"));
        assert!(text.contains("there"), "{attack}");
    }
}

#[test]
fn mime_is_bounded() {
    let multipart = "Content-Type: multipart/mixed; boundary=x\n";
    let part = format!("--x\n{multipart}\n");
    let nested: String = (0..4_000)
        .map(|n| format!("--b{n}\nContent-Type: multipart/mixed; boundary=b{}\n\n", n + 1))
        .collect();
    for (head, body) in [
        (multipart, part.repeat(4_000)),
        ("Content-Type: message/rfc822\n", "Content-Type: message/rfc822\n\n".repeat(6_000)),
        ("Content-Type: multipart/mixed; boundary=b0\n", nested),
        (multipart, "--x\n\n<script>\n".repeat(4_000)),
        (multipart, format!("--x\nContent-Type: application/x; name=\"{}\"\n\n", "a".repeat(60_000))),
        ("Content-Type: multipart/mixed; boundary=\"\"\n", "--\n".repeat(20_000)),
        ("Content-Type: text/plain; format=flowed\n", "> ".repeat(60_000)),
        ("Content-Type: text/plain; format=flowed\n", "x \n".repeat(40_000)),
        ("Content-Transfer-Encoding: base64\n", "=".repeat(100_000)),
        ("Content-Type: text/html\n", "<div>".repeat(20_000)),
        ("Content-Type: text/html\n", "<script></".repeat(10_000)),
        ("Content-Type: text/html\n", "&".repeat(100_000)),
        ("Content-Type: text/plain; charset=iso-2022-jp\n", "\u{1b}$B".repeat(20_000)),
        ("X: y\n", "begin 644 x\n#\n".repeat(6_000)),
        ("X: y\n", "=ybegin line=1 size=9999999999 name=x\n".repeat(4_000)),
        ("X: y\n", "http://a ".repeat(10_000)),
        ("X: y\n", "<".repeat(60_000)),
        ("X: y\n", "news:".repeat(20_000)),
        ("X: y\n", "(((((http://a)))))".repeat(4_000)),
        ("X: y\n", ">".repeat(100_000)),
        ("X: y\n", "\n".repeat(100_000)),
    ] {
        let began = std::time::Instant::now();
        shown(&format!("{HEAD}Subject: x\n{head}\n{body}"));
        let wire = format!("{head}\n{body}").replace('\n', "\r\n");
        let content = ArticleContent::of(wire.as_bytes(), SHOWN_BYTES_MAX);
        assert!(content.files.len() <= 100 && content.blocks.len() <= 500_000);
        // It is linear: far from a second, even without optimisation; a square would take minutes.
        let start: String = body.chars().take(40).collect();
        assert!(began.elapsed().as_secs() < 60, "{head}{start}: {:?}", began.elapsed());
    }
}

/// All files below a directory.
fn files(dir: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
#[ignore = "needs NEWSREEL_CORPUS, a directory of articles"]
fn the_corpus_parses_into_pages() {
    let mut paths = Vec::new();
    files(
        std::env::var_os("NEWSREEL_CORPUS").expect("NEWSREEL_CORPUS names no directory").as_ref(),
        &mut paths,
    );
    let out = std::env::var_os("NEWSREEL_PAGES");
    let (mut octets, mut controls, mut files) = (0, 0, 0);
    for path in &paths {
        let (text, mut wire) = (std::fs::read(path).unwrap(), Vec::new());
        netnews::nntp::wire::dot_stuff(&text, &mut wire);
        let content = ArticleContent::of(&wire, SHOWN_BYTES);
        let page =
            view::article(&content, &view::ArticlePage { place: Some(("a.b", 7)), ..Default::default() });
        let page = page.into_string();
        let shown = assert_safe(&page);
        octets += shown.len();
        controls += usize::from(shown.contains('\u{241b}'));
        files += content.files.len();
        assert!(!content.head.subject.is_empty() && content.head.message_id.is_some(), "{}", path.display());
        if let Some(out) = &out {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            std::fs::write(std::path::Path::new(out).join(name + ".html"), page).unwrap();
        }
    }
    eprintln!("{} articles, {octets} octets of text, {files} files, {controls} with escapes", paths.len());
    assert!(!paths.is_empty() && octets > 0);
}

#[test]
fn names_of_files_are_safe() {
    for name in [
        "../../../etc/passwd",
        "a\\b\\c.exe",
        "\"><script>",
        "=?utf-8?Q?..=2F..=2Fx?=",
        "con\u{202e}gpj.exe",
        "....",
    ] {
        let text = shown(&format!(
            "{HEAD}Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: application/x\n\
             Content-Disposition: attachment; filename=\"{}\"\n\nx\n--b--\nbegin 644 {name}\n#9F]U\n`\nend\n",
            name.replace('"', "\\\"")
        ));
        assert!(!text.contains("../") && !text.contains('\u{202e}'), "{text}");
    }
}

#[test]
fn what_is_no_article_is_shown_too() {
    for octets in
        [&b""[..], b"\r\n", b"no header", b"\xff\xfe\x00<script>", b": \r\n\r\n<script>", b"A: b\r\n c"]
    {
        let content = ArticleContent::of(octets, SHOWN_BYTES);
        assert_safe(&view::article(&content, &view::ArticlePage::default()).into_string());
    }
}

#[test]
fn lists_show_what_rows_say_as_text() {
    let row = |n: u64, id: &str| {
        let row = format!("{n}\t</title><script>\t<script> <a@b>\t1 Jan 1970\t{id}\t<a@b> <1@x>\t1\t1\r\n");
        ThreadRow::parse(row.as_bytes()).unwrap()
    };
    let rows = [row(1, "<\"onclick=1@x>"), row(2, "<script>"), row(3, "<1@x>")];
    let threads = threads(&rows);
    for thread in &threads {
        let page = view::thread(&view::ThreadPage {
            group: "a.b",
            place: "/groups/a.b/thread/%3Cscript%3E",
            title: thread.title(&rows),
            rows: &rows,
            nodes: &thread.nodes,
            before: 100,
            total: 200,
            turning: &view::PageLinks { newer: Some("/groups/a.b/thread/x?from=0".into()), older: None },
            articles: &view::withheld("<script>@x", 1, "<script> is too large."),
        });
        assert!(assert_safe(&page.into_string()).contains("</title><script>"));
    }
    let turning =
        view::PageLinks { newer: Some("/groups/a.b".into()), older: Some("/groups/a.b?before=1".into()) };
    let page = view::GroupPage {
        name: "a.b",
        description: "<script>",
        rows: &rows,
        threads: &threads,
        lowest: 1,
        seen: Some(1),
        dates: &view::DateLinks {
            years: Some((1979, 2026)),
            year: 2026,
            asked: "\"><script>".into(),
            is_wrong: true,
        },
        turning: &turning,
        write: Some("/groups/a.b/write"),
    };
    assert!(assert_safe(&view::group(&page).into_string()).contains("<script>"));
    let line = view::GroupListEntry { name: "a.b".into(), description: "<b>".into(), articles: 3 };
    let page = view::groups(&[line], "\"><i>", "\"><script>", &turning, true);
    assert!(assert_safe(&page.into_string()).contains("<b>"));
}

#[test]
fn search_page_shows_what_it_found_as_text() {
    let attack = "\"><script>alert(1)</script>";
    let piece = |is_match| view::SnippetPiece { text: attack.into(), is_match };
    let hit = view::SearchHit {
        message_id: attack.into(),
        subject: attack.into(),
        from: attack.into(),
        date: Some(1),
        groups: vec![attack.into()],
        snippet: vec![piece(false), piece(true)],
    };
    let value = view::FacetLink { value: attack.into(), count: 3, query: attack.into() };
    let page = view::SearchPage {
        query: attack,
        lines: Some(&[hit]),
        problem: Some(attack),
        hint: Some(attack),
        building_percent: Some(12),
        other_order: Some((attack, "Oldest first")),
        facets: &[view::SearchFacet { name: "Groups", values: vec![value] }],
        facets_of: 300,
        mbox: Some("/search/mbox.gz?q=x"),
        turning: &view::PageLinks::default(),
    };
    assert!(assert_safe(&view::search(&page).into_string()).contains(attack));
}

#[test]
fn front_page_shows_names_as_text() {
    let attack = "\"><script>alert(1)</script>";
    let group =
        view::FrontGroup { name: attack.into(), description: attack.into(), articles: 3, month: Some(2) };
    let hierarchies = [view::Hierarchy { name: attack.into(), groups: 1, month: None, listed: vec![group] }];
    let page = view::FrontPage {
        site: attack,
        about: Some(&view::markdown(attack)),
        server: None,
        hierarchies: Some(&hierarchies),
        has_upstreams: false,
        has_search: true,
        may_log_in: true,
        operator: Some("/operator"),
    };
    assert!(assert_safe(&view::front(&page).into_string()).contains(attack));
}
