//! Times the per-article functions over a tree of articles (first argument): one pass each, best of many
//! rounds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use netnews::nntp::{command, wire};
use netnews::{Article, Known, Wildmat, date, newsgroups, overview_row};
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

const ROUNDS: usize = 60;

fn files(dir: &Path, found: &mut Vec<Vec<u8>>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            let mut out = Vec::new();
            wire::dot_stuff(&std::fs::read(path).unwrap(), &mut out);
            found.push(out);
        }
    }
}

/// Makes the compiler believe that the result is used.
fn keep<T>(result: T) {
    black_box(&result);
}

fn time(what: &str, articles: &[Vec<u8>], mut work: impl FnMut(&[u8])) {
    let best = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            articles.iter().for_each(|article| work(black_box(article)));
            start.elapsed()
        })
        .min()
        .unwrap_or_default();
    println!("{what:<28} {:>8.1} ns/article", best.as_nanos() as f64 / articles.len() as f64);
}

fn main() {
    let mut articles = Vec::new();
    files(Path::new(&std::env::args().nth(1).expect("usage: speed DIR")), &mut articles);
    let total: usize = articles.iter().map(Vec::len).sum();
    println!("{} articles, {} bytes each on average", articles.len(), total / articles.len());
    // As many as stay in the processor's cache, all of ordinary size.
    articles.retain(|article| (1500..3500).contains(&article.len()));
    articles.truncate(100);
    let total: usize = articles.iter().map(Vec::len).sum();
    println!("{} articles timed, {} bytes each on average", articles.len(), total / articles.len());

    time("Article::parse", &articles, |wire| keep(Article::parse(wire)));
    time("parse + required", &articles, |wire| {
        let article = Article::parse(wire).unwrap();
        keep((article.required(), article.message_id().is_some()));
    });
    let framed: Vec<Vec<u8>> = articles.iter().map(|a| [a, &b".\r\n"[..]].concat()).collect();
    time("wire::find_end", &framed, |wire| keep(wire::find_end(wire, 0)));
    let mut out = Vec::new();
    time("parse + append_fields", &articles, |wire| {
        let article = Article::parse(wire).unwrap();
        let id = article.header(Known::MessageId).unwrap_or_default();
        out.clear();
        overview_row::append_fields(&overview_row::OverviewFields::of(&article, id), &mut out);
    });
    let dates: Vec<Vec<u8>> =
        articles.iter().map(|a| Article::parse(a).unwrap().header(Known::Date).unwrap().to_vec()).collect();
    time("date::parse", &dates, |value| keep(date::parse(value)));
    let groups: Vec<Vec<u8>> = articles
        .iter()
        .map(|a| Article::parse(a).unwrap().header(Known::Newsgroups).unwrap().to_vec())
        .collect();
    time("newsgroups::split", &groups, |value| keep(newsgroups::split(value).count()));
    let feed = Wildmat::parse(b"*,!local.*,!*.test,!alt.binaries.*").unwrap();
    time("Wildmat::matches", &groups, |value| keep(feed.matches(value)));
    let checks: Vec<Vec<u8>> = articles
        .iter()
        .map(|a| [b"CHECK ", Article::parse(a).unwrap().message_id().unwrap().as_bytes()].concat())
        .collect();
    time("command::parse CHECK", &checks, |line| keep(command::parse(line)));
    let lists = vec![b"NEWGROUPS 19930415 000000 GMT".to_vec(); 100];
    time("command::parse NEWGROUPS", &lists, |line| keep(command::parse(line)));
}
