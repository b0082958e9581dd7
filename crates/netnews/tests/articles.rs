//! Articles as 1993 wrote them: a handful kept in `tests/data`, and any tree of articles that
//! `NEWSREEL_CORPUS` names (files with LF lines, not dot-stuffed; run with `-- --ignored`). All must parse,
//! whole, with their dates.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use netnews::nntp::wire::{BlockEnd, dot_stuff, find_end, unstuff};
use netnews::{Article, Known, MalformedArticle, date, newsgroups, overview_row};
use std::error::Error;
use std::path::{Path, PathBuf};

fn data(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let mut wire = Vec::new();
    dot_stuff(&std::fs::read(path).unwrap(), &mut wire);
    wire
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Checks what must hold for every real article.
fn check(text: &[u8]) -> Result<(), Box<dyn Error>> {
    let mut wire = Vec::new();
    dot_stuff(text, &mut wire);
    let article = Article::parse(&wire)?;
    article.required()?;
    article.message_id().ok_or("bad Message-ID")?;
    let date_value = article.header(Known::Date).unwrap();
    date::parse(date_value).ok_or_else(|| format!("bad Date {}", String::from_utf8_lossy(date_value)))?;
    let mut back = Vec::new();
    unstuff(&wire, &mut back);
    assert_eq!(article.bytes(), back.len() as u64);
    assert_eq!(article.body_offset(), memchr::memmem::find(&wire, b"\r\n\r\n").unwrap() + 4);
    assert_eq!(article.lines(), article.body().iter().filter(|&&b| b == b'\n').count() as u64);
    for (known, value) in Known::ALL.iter().filter_map(|&known| Some((known, article.header(known)?))) {
        let (_, expected) = article.headers().find(|(name, _)| Known::find(name) == Some(known)).unwrap();
        assert_eq!(value, expected);
        assert!(wire[article.header_lines(known).unwrap()].ends_with(&[value, b"\r\n"].concat()));
    }
    let framed = [&wire[..], b".\r\n"].concat();
    assert_eq!(find_end(&framed, 0), BlockEnd::Found { article_len: wire.len(), next: framed.len() });
    Ok(())
}

#[test]
fn all_kept_articles_parse() {
    let mut paths = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data"), &mut paths);
    assert!(paths.len() >= 8);
    for path in paths {
        let checked = check(&std::fs::read(&path).unwrap());
        assert!(checked.is_ok(), "{}: {checked:?}", path.display());
    }
}

#[test]
#[ignore = "needs NEWSREEL_CORPUS, a directory of articles"]
fn the_corpus_parses() {
    let dir = std::env::var_os("NEWSREEL_CORPUS").expect("NEWSREEL_CORPUS names no directory");
    let mut paths = Vec::new();
    files(Path::new(&dir), &mut paths);
    assert!(!paths.is_empty());
    let bad: Vec<String> = paths
        .iter()
        .filter_map(|path| {
            Some(format!("{}: {}", path.display(), check(&std::fs::read(path).unwrap()).err()?))
        })
        .collect();
    assert!(bad.is_empty(), "{} of {} articles:\n{}", bad.len(), paths.len(), bad.join("\n"));
}

#[test]
fn two_at_signs_in_a_message_id() {
    let wire = data("two_at_message_id.article");
    let article = Article::parse(&wire).unwrap();
    assert_eq!(article.message_id().unwrap().as_str(), "<thomas.d.fellrath.1@nd.edu.36.0@nd.edu>");
    assert_eq!(article.lines(), 4);
    assert_eq!(article.bytes(), wire.len() as u64 - 2);
}

#[test]
fn empty_values() {
    let wire = data("empty_value.article");
    let article = Article::parse(&wire).unwrap();
    assert_eq!(article.header(Known::Summary), Some(&b""[..]));
    assert!(article.headers().any(|header| header == (b"To", b"")));
}

#[test]
fn newsgroups_with_spaces_and_empty_pieces() {
    let wire = data("newsgroups_empty_component.article");
    let article = Article::parse(&wire).unwrap();
    let groups: Vec<_> = newsgroups::split(article.header(Known::Newsgroups).unwrap()).collect();
    let expected: [&[u8]; 4] =
        [b"comp.sys.ibm.pc.hardware", b"biz.comp.hardware", b"comp.misc", b"comp.sys.ibm.pc.misc"];
    assert_eq!(groups, expected);
    assert!(groups.iter().all(|name| newsgroups::valid_name(name)));
}

#[test]
fn folds_become_spaces_in_the_overview() {
    let wire = data("folded_keywords.article");
    let article = Article::parse(&wire).unwrap();
    let keywords = article.header(Known::Keywords).unwrap();
    assert_eq!(keywords.iter().filter(|&&b| b == b'\n').count(), 6);
    let mut out = Vec::new();
    overview_row::append_value(keywords, &mut out);
    assert!(out.starts_with(b"Questions on Merc 300E 2.6       To reader,           Can anyone"));
    assert_eq!(article.header(Known::Lines), Some(&b"3"[..]));
}

#[test]
fn control_octets_case_and_missing_spaces() {
    let wire = data("control_octets.article");
    let article = Article::parse(&wire).unwrap();
    assert_eq!(article.header(Known::Newsgroups), Some(&b"rec.photo,misc.forsale"[..]));
    assert!(article.header(Known::Subject).unwrap().starts_with(b"\x10More"));
    assert_eq!(article.message_id().unwrap().as_bytes(), b"<1rh03j$arn@wintermute.phys.psu.edu>");
}

#[test]
fn dots_are_stuffed_and_a_lone_dot_is_not_an_article() {
    let wire = data("dot_lines.article");
    let article = Article::parse(&wire).unwrap();
    assert!(article.body().ends_with(b"....regards\r\n..\r\n"));
    assert_eq!(article.bytes(), wire.len() as u64 - 2);
    let unstuffed = [wire.strip_suffix(b"..\r\n").unwrap(), b".\r\n"].concat();
    assert_eq!(Article::parse(&unstuffed).err(), Some(MalformedArticle::LoneDot));
}
