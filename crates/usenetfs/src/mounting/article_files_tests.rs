//! Tests of listings and caching, without a kernel.

use super::*;

/// A group of a million articles.
#[derive(Default)]
struct Large {
    /// Number of an article that was removed.
    gone: AtomicU64,
    /// Number of calls of `give_way`.
    gave_way: AtomicU64,
}

const NUMBERS: u64 = 1_000_000;

impl ArticleProvider for Large {
    type Locator = u64;

    fn give_way(&self) {
        self.gave_way.fetch_add(1, Ordering::Relaxed);
    }

    fn group_from(&self, name: &str) -> Option<Arc<str>> {
        (name <= "a").then(|| "a".into())
    }

    fn group_changed(&self, group: &str) -> Option<u64> {
        (group == "a").then_some(7)
    }

    fn numbers(&self, _: &str, from: u64, max: usize, into: &mut Vec<u64>) {
        assert!(max <= NUMBERS_AT_ONCE, "no listing is collected");
        into.extend((from..=NUMBERS).take(max));
    }

    fn is_shown(&self, group: &str, number: u64) -> bool {
        group == "b" || number <= NUMBERS && number != self.gone.load(Ordering::Relaxed)
    }

    fn article(
        &self,
        place: ArticleLookup<'_, u64>,
        wait: DiskWait,
    ) -> Result<Option<ShownArticle<u64>>, ReadFailure> {
        let number = match place {
            ArticleLookup::Number(_, number) => number,
            ArticleLookup::Again(number) => *number,
            ArticleLookup::MessageId(_) => return Ok(None),
        };
        match number {
            7 if wait == DiskWait::No => Err(ReadFailure::WouldWait),
            8 => Err(ReadFailure::Failed),
            // Returns another article in place of this one.
            9 if matches!(place, ArticleLookup::Again(_)) => Ok(Some(article(10))),
            _ => Ok((number <= NUMBERS).then(|| article(number))),
        }
    }
}

fn article(number: u64) -> ShownArticle<u64> {
    let text = vec![b'x'; number as usize % 100_000];
    let places = ["a", "b", "a"].into_iter().zip([number, number, NUMBERS + number]);
    let places = places.map(|(group, number)| (group.into(), number)).collect();
    ShownArticle { sequence: number, text, places, arrived: 9, locator: number }
}

fn files() -> ArticleFiles<Large> {
    ArticleFiles::new(Large::default(), (1, 2)).unwrap()
}

#[test]
fn each_question_about_a_file_can_wait() {
    let files = files();
    let gave_way = || files.shared.articles.gave_way.load(Ordering::Relaxed);
    for asked in 1..=3 {
        files.answer((), |_, _| Ok(()), |_, ()| {});
        assert_eq!(gave_way(), asked);
    }
}

#[test]
fn a_large_group_is_listed_in_pieces_from_every_position() {
    let files = files();
    let shared = &files.shared;
    let root = shared.open_listing(1).unwrap();
    let mut group = 0;
    shared
        .list(root, 0, |inode, _, _, name| {
            group = if name == "a" { inode } else { group };
            false
        })
        .unwrap();
    let handle = shared.open_listing(group).unwrap();
    let piece = |position: u64, most: usize| {
        let mut found = Vec::new();
        shared
            .list(handle, position, |_, next, _, name| {
                let is_full = found.len() == most;
                if !is_full {
                    found.push((name.to_owned(), next));
                }
                is_full
            })
            .unwrap();
        found
    };
    let (mut position, mut names) = (0, 0u64);
    loop {
        let found = piece(position, 1_000);
        let Some((last, next)) = found.last() else { break };
        names += found.len() as u64;
        assert!(names < 3 || *last == (names - 2).to_string());
        position = *next;
    }
    assert_eq!(names, NUMBERS + 2);
    let again = piece(FIRST_NUMBER + 4_711, 2);
    assert_eq!(again, [("4712".to_owned(), FIRST_NUMBER + 4_712), ("4713".to_owned(), FIRST_NUMBER + 4_713)]);
    assert_eq!(piece(1, 1), [("..".to_owned(), 2)]);
}

fn looked_up(files: &ArticleFiles<Large>, number: u64) -> FileAttr {
    let directory = files.shared.tree.number(&GroupDirectory::Group("a".into()));
    let name = number.to_string();
    match files.shared.look_up(directory, name.as_ref(), DiskWait::Yes) {
        Ok((attributes, _)) => attributes,
        Err(_) => panic!("{number}"),
    }
}

#[test]
fn inode_belongs_to_one_article_forever() {
    let files = files();
    let attributes = looked_up(&files, 9);
    assert_eq!((attributes.ino.0, attributes.nlink, attributes.size), (9 + FIRST_ARTICLE, 2, 9));
    let text = |wait| files.shared.text(attributes.ino.0, wait);
    assert!(text(DiskWait::No).is_ok_and(|text| text.len() == 9), "it was just looked up");
    *files.shared.recent.lock() = RecentTexts::default();
    let error = text(DiskWait::Yes).map_err(|failed| match failed {
        LookupFailure::With(error) => error,
        LookupFailure::WouldWait => panic!(),
    });
    assert_eq!(error.err().map(i32::from), Some(Errno::EIO.into()));
    files.shared.known.lock().forget(attributes.ino.0, 1);
    assert!(files.shared.known.lock().articles.is_empty());
}

#[test]
fn known_articles_are_not_read_again_and_vanish_at_once() {
    let files = files();
    let directory = files.shared.tree.number(&GroupDirectory::Group("a".into()));
    let again = |wait| files.shared.look_up(directory, "7".as_ref(), wait);
    assert!(matches!(again(DiskWait::No), Err(LookupFailure::WouldWait)), "it must be read");
    let read = looked_up(&files, 7);
    let Ok((known, _)) = again(DiskWait::No) else { panic!("it is known") };
    assert_eq!((known.ino, known.size, known.mtime, known.nlink), (read.ino, 7, read.mtime, 2));
    files.shared.articles.gone.store(7, Ordering::Relaxed);
    assert!(
        matches!(again(DiskWait::No), Err(LookupFailure::With(error)) if i32::from(error) == i32::from(Errno::ENOENT))
    );
    files.shared.articles.gone.store(0, Ordering::Relaxed);
    // Forgotten articles lose their names as well.
    files.shared.known.lock().forget(read.ino.0, 1);
    assert!(again(DiskWait::No).is_ok(), "one look-up is left");
    files.shared.known.lock().forget(read.ino.0, 2);
    assert!(files.shared.known.lock().by_name.is_empty());
    assert!(matches!(again(DiskWait::No), Err(LookupFailure::WouldWait)));
}

#[test]
fn kernel_is_asked_to_forget_the_oldest_look_ups() {
    let files = files();
    let numbers = |range: std::ops::Range<u64>| range.map(|n| n + FIRST_ARTICLE).collect::<Vec<_>>();
    let most = FORGOTTEN_AT_ONCE as u64;
    for number in 1..=most + 9 {
        looked_up(&files, number + 10);
    }
    let too_many = |max| files.shared.known.lock().too_many(max);
    assert_eq!(too_many(10), Vec::<u64>::new(), "there is room for some more");
    looked_up(&files, 1_000);
    assert_eq!(too_many(10), numbers(11..most + 11));
    let directory = |group: &str| files.shared.tree.number(&GroupDirectory::Group(group.into()));
    let names = files.shared.names_of(1_000 + FIRST_ARTICLE);
    let of = |group, number: u64| (directory(group), OsString::from(number.to_string()));
    assert_eq!(names, [of("b", 1_000), of("a", NUMBERS + 1_000), of("a", 1_000)]);
    // Articles that are still in use come again, after the others.
    assert_eq!(too_many(10)[..10], [numbers(most + 11..most + 20), numbers(1_000..1_001)].concat());
    // Forgotten articles leave nothing behind, however often they come back.
    for _ in 0..2_000 {
        let inode = looked_up(&files, 77).ino.0;
        files.shared.known.lock().forget(inode, 2);
        looked_up(&files, 77);
        too_many(10);
    }
    let known = files.shared.known.lock();
    assert!(known.turns.len() <= 2 * known.articles.len() + 1);
    assert_eq!(known.by_name.len(), 3 * known.articles.len());
}

#[test]
fn group_has_an_mh_sequences_file() {
    let files = files();
    let look_up = |group: &str| {
        let directory = files.shared.tree.number(&GroupDirectory::Group(group.into()));
        files.shared.look_up(directory, ".mh_sequences".as_ref(), DiskWait::No)
    };
    let Ok((found, _)) = look_up("a") else { panic!("there is none") };
    assert_eq!((found.kind, found.size, found.perm), (FileType::RegularFile, 0, 0o444));
    assert!(files.shared.stat(found.ino.0, DiskWait::No).is_ok_and(|(again, _)| again == found));
    assert!(files.shared.text(found.ino.0, DiskWait::No).is_ok_and(|text| text.is_empty()));
    assert!(matches!(look_up("b"), Err(LookupFailure::With(_))), "no group");
}

#[test]
fn requests_that_wait_for_the_disk_are_answered_by_a_worker() {
    let files = files();
    let directory = files.shared.tree.number(&GroupDirectory::Group("a".into()));
    for (name, found) in [("6", true), ("7", true), ("8", false), ("1000001", false)] {
        let (send, receive) = std::sync::mpsc::channel();
        files.answer(
            send,
            move |shared, wait| shared.look_up(directory, name.as_ref(), wait),
            |found, send| send.send(found.is_ok()).unwrap(),
        );
        assert_eq!(receive.recv().unwrap(), found, "{name}");
    }
}

#[test]
fn number_of_recent_articles_is_bounded() {
    let mut recent = RecentTexts::default();
    for n in 0..1000 {
        recent.put(n, Arc::new(vec![0; 1 << 19]));
        assert!(recent.bytes <= RECENT_BYTES_MAX && recent.get(n).is_some());
    }
    recent.put(1000, Arc::new(vec![0; 2 * RECENT_BYTES_MAX]));
    assert_eq!((recent.articles.len(), recent.get(999)), (1, None));
    for n in 0..1000 {
        recent.put(n, Arc::default());
    }
    assert_eq!((recent.articles.len(), recent.bytes), (RECENT_MAX, 0));
}
