//! Tests of the index alone: words, fields, removal, and crashes at every write.

use super::*;
use disk::{CrashKind, SimDisk};

const DIR: &str = "/search";

/// Returns an article.
fn text(subject: &str, from: &str, body: &str) -> String {
    format!("Path: a!b\r\nSubject: {subject}\r\nFrom: {from}\r\n\r\n{body}\r\n")
}

fn add(writer: &mut SearchWriter, n: u64, wire: &str) {
    let id = format!("<{n}@x>");
    let (groups, thread) = (["a.b", if n.is_multiple_of(2) { "even" } else { "odd" }], [n, n / 10]);
    let (arrived, place) = (i64::try_from(n).unwrap() * 86_400, n * 100);
    let article = IndexedArticle {
        key: n,
        message_id: &id,
        arrived,
        volume: 1,
        place,
        groups: &groups,
        thread: &thread,
        wire: wire.as_bytes(),
        text_bytes_max: 1 << 20,
    };
    writer.add(&article, true).unwrap();
}

fn found(searcher: &Searcher, query: &str) -> Vec<String> {
    let query = Query::parse(query).unwrap();
    searcher.search(&query, None, None, 0, 100).unwrap()
}

fn fresh() -> (Arc<dyn Disk>, SearchWriter, Searcher) {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (writer, searcher) = open(&disk, Path::new(DIR), 0, WriterMode::Following).unwrap();
    (disk, writer, searcher)
}

#[test]
fn words_phrases_fields_groups_dates_and_threads_are_found() {
    let (_disk, mut writer, searcher) = fresh();
    add(&mut writer, 1, &text("Cats and dogs", "Jane <jane@x.org>", "A black cat sleeps"));
    add(&mut writer, 2, &text("dogs", "Jo <jo@x.org>", "the cat is black; no Jane here"));
    add(&mut writer, 12, &text("Nothing", "Jo <jo@x.org>", "at all"));
    assert_eq!(found(&searcher, "cat"), Vec::<String>::new(), "not before the commit");
    writer.commit("1").unwrap();
    assert_eq!(found(&searcher, "CAT black"), ["<2@x>", "<1@x>"], "the newest first");
    assert_eq!(found(&searcher, "cat black order:oldest"), ["<1@x>", "<2@x>"]);
    assert_eq!(found(&searcher, "\"black cat\""), ["<1@x>"]);
    assert_eq!(found(&searcher, "cat -sleeps"), ["<2@x>"]);
    assert_eq!(found(&searcher, "jane"), ["<2@x>", "<1@x>"]);
    assert_eq!(found(&searcher, "from:jane"), ["<1@x>"]);
    assert_eq!(found(&searcher, "subject:dogs -subject:cats"), ["<2@x>"]);
    assert_eq!(found(&searcher, "after:1970-01-03"), ["<12@x>", "<2@x>"]);
    assert_eq!(found(&searcher, "dogs before:1970-01-03"), ["<1@x>"]);
    assert_eq!(found(&searcher, "unheard"), Vec::<String>::new());
    let all = Query { from: Some(0), ..Query::default() };
    let in_groups = |groups: &[&str]| {
        let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        searcher.search(&all, None, Some(&groups), 0, 100).unwrap()
    };
    assert_eq!(in_groups(&["odd", "none"]), ["<1@x>"]);
    assert_eq!(in_groups(&[]), Vec::<String>::new());
    assert_eq!(searcher.search(&Query::default(), Some(1), None, 0, 100).unwrap(), ["<12@x>", "<1@x>"]);
    assert_eq!(searcher.search(&all, None, None, 1, 1).unwrap(), ["<2@x>"], "a page of it");
    assert!(searcher.search(&all, None, None, ANSWERS_MAX, 10).unwrap().is_empty());
}

#[test]
fn phrases_to_leave_out_are_left_out() {
    let (_disk, mut writer, searcher) = fresh();
    for n in 1..=200 {
        let body = if n % 5 == 0 { "a purple elephant" } else { "the elephant is purple" };
        add(&mut writer, n, &text("x", "y", body));
    }
    writer.commit("1").unwrap();
    assert_eq!(found(&searcher, "elephant -\"purple elephant\" order:oldest")[..2], ["<1@x>", "<2@x>"]);
    assert!(!found(&searcher, "elephant -\"purple elephant\"").contains(&"<195@x>".to_owned()));
    assert_eq!(found(&searcher, "\"purple elephant\" -\"elephant is\"").len(), 40);
}

/// A search for a phrase costs what the places of its words do, so an article of one word counts little.
#[test]
fn only_the_first_places_of_a_word_in_an_article_are_indexed() {
    let (_disk, mut writer, searcher) = fresh();
    let body = format!("first {}last {}end", "a ".repeat(1_000), "a ".repeat(100_000));
    add(&mut writer, 1, &text("x", "y", &body));
    writer.commit("1").unwrap();
    for query in ["a", "\"first a\"", "\"a last\"", "\"a a\"", "end"] {
        assert_eq!(found(&searcher, query), ["<1@x>"], "{query}");
    }
    assert!(found(&searcher, "\"a end\"").is_empty());
}

#[test]
fn removed_replaced_and_overwritten_articles_are_not_found() {
    let (_disk, mut writer, searcher) = fresh();
    (1..=4).for_each(|n| add(&mut writer, n, &text("word", "x", "")));
    writer.commit("1").unwrap();
    writer.remove(4).unwrap();
    writer.remove_before(1, 200);
    writer.remove_before(2, 1_000);
    add(&mut writer, 3, &text("other word", "x", ""));
    writer.commit("2").unwrap();
    assert_eq!(found(&searcher, "word"), ["<3@x>", "<2@x>"]);
    assert_eq!(found(&searcher, "other"), ["<3@x>"]);
    assert_eq!((searcher.articles(), writer.progress()), (2, Some("2")));
}

/// Uses enough words that they are sorted in buckets; some are in many articles, some twice in one.
#[test]
fn large_part_has_correct_results() {
    let (_disk, mut writer, searcher) = fresh();
    let mut state = 1u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let texts: Vec<Vec<String>> = (0..300)
        .map(|_| {
            let mut word = || {
                let bound = below(6_000) + 1;
                format!("{}{}", if bound % 2 == 0 { "w" } else { "longer" }, below(bound))
            };
            (0..60).map(|_| word()).collect()
        })
        .collect();
    for (n, words) in (1..).zip(&texts) {
        add(&mut writer, n, &text("s", "f", &words.join(" ")));
    }
    writer.commit("1").unwrap();
    assert_eq!(searcher.parts(), 1);
    let different: std::collections::BTreeSet<&String> = texts.iter().flatten().collect();
    assert!(different.len() > 3_000, "{}", different.len());
    let expected = |is_found: &dyn Fn(&[String]) -> bool| {
        let with = (1_u64..).zip(&texts).filter(|(_, words)| is_found(words));
        let mut ids: Vec<String> = with.map(|(n, _)| format!("<{n}@x>")).collect();
        ids.reverse();
        ids.truncate(100);
        ids
    };
    for words in texts.iter().step_by(7) {
        let (one, two) = (&words[0], &words[1]);
        assert_eq!(found(&searcher, one), expected(&|words| words.contains(one)), "{one}");
        let phrase = format!("\"{one} {two}\"");
        let is_there = |words: &[String]| words.windows(2).any(|pair| pair == [one.clone(), two.clone()]);
        assert_eq!(found(&searcher, &phrase), expected(&is_there), "{phrase}");
    }
}

/// With a memory limit this small each article becomes a part of its own.
#[test]
fn removals_and_replacements_apply_to_uncommitted_parts() {
    let (disk, fields) = (Arc::new(SimDisk::new()) as Arc<dyn Disk>, schema().1);
    let (mut writer, searcher) = open(&disk, Path::new(DIR), 0, WriterMode::Following).unwrap();
    writer.workers = IndexWorkers::start(1, 0, writer.writer.index(), fields).unwrap();
    (1..=4).for_each(|n| add(&mut writer, n, &text("word", "x", "")));
    writer.remove(2).unwrap();
    add(&mut writer, 3, &text("other", "x", ""));
    writer.commit("1").unwrap();
    assert_eq!(found(&searcher, "word"), ["<4@x>", "<1@x>"]);
    assert_eq!(found(&searcher, "other"), ["<3@x>"]);
    assert_eq!((searcher.articles(), searcher.parts()), (3, 3));
    // Again, now that the parts are committed and tantivy knows them.
    writer.remove(4).unwrap();
    add(&mut writer, 1, &text("other", "x", ""));
    writer.commit("2").unwrap();
    assert_eq!(found(&searcher, "word"), Vec::<String>::new());
    assert_eq!(found(&searcher, "other"), ["<3@x>", "<1@x>"]);
}

#[test]
fn overlong_words_break_a_phrase() {
    let (_disk, mut writer, searcher) = fresh();
    add(&mut writer, 1, &text("", "", &format!("one {} two", "x".repeat(65))));
    writer.commit("").unwrap();
    assert_eq!(found(&searcher, "one two"), ["<1@x>"]);
    assert_eq!(found(&searcher, "\"one two\""), Vec::<String>::new());
}

#[test]
fn index_of_another_format_is_rebuilt() {
    let (disk, mut writer, _) = fresh();
    add(&mut writer, 1, &text("word", "", ""));
    writer.commit("far").unwrap();
    writer.close().unwrap();
    durable(&disk, "meta.json", b"{}");
    let (writer, searcher) = open(&disk, Path::new(DIR), 0, WriterMode::Following).unwrap();
    assert_eq!((writer.progress(), searcher.articles()), (None, 0));
}

fn durable(disk: &Arc<dyn Disk>, name: &str, bytes: &[u8]) {
    disk::durable_replace(&**disk, &Path::new(DIR).join(name), &[bytes], disk::FileAccess::Group).unwrap();
}

/// Makes two commits; after a crash at any write the index is in the state of one of them, or empty, and
/// usable.
#[test]
fn a_crash_at_any_write_leaves_a_commit() {
    let run = |disk: &Arc<dyn Disk>| -> Result<(), IndexError> {
        let (mut writer, _) = open(disk, Path::new(DIR), 0, WriterMode::Following)?;
        for commit in 1..=2 {
            add(&mut writer, commit, &text("word", "", ""));
            writer.commit(&commit.to_string())?;
        }
        writer.close()
    };
    let whole = SimDisk::new();
    run(&(Arc::new(whole.clone()) as Arc<dyn Disk>)).unwrap();
    let steps = whole.steps();
    for step in (1..=steps).step_by(7) {
        let disk = SimDisk::new();
        disk.crash_at(step, CrashKind::Lost, step);
        let stopped = run(&(Arc::new(disk.clone()) as Arc<dyn Disk>));
        let after: Arc<dyn Disk> = match disk.crashed() {
            true => Arc::new(disk.image().unwrap()),
            false => Arc::new(disk),
        };
        let (mut writer, searcher) = open(&after, Path::new(DIR), 0, WriterMode::Following).unwrap();
        let commits = writer.progress().map_or(0, |text| text.parse::<u64>().unwrap());
        assert_eq!(searcher.articles(), commits, "step {step} of {steps}, {stopped:?}");
        add(&mut writer, 3, &text("word", "", ""));
        writer.commit("3").unwrap();
        assert_eq!(searcher.articles(), commits + 1, "step {step} of {steps}");
    }
}
