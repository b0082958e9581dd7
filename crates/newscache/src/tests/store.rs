//! Tests of storing and finding articles, rows, heads and lists.

use super::*;
use crate::books::bookkeeping::DatedAnswer;
use crate::books::stats::{CacheAccess, RequestKind};
use crate::reading::group::{GroupOutcome, RowCoverage};
use crate::reading::large::ArticleDestination;
use crate::reading::lists::ListKind;
use crate::reading::numbers::{Neighbour, NeighbourDirection};
use disk::{OpenMode, ReadMode};
use netnews::GroupMarks;
use std::io::IoSlice;

fn get(group: &crate::reading::group::CacheGroup, number: u64) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut bytes = Vec::new();
    let id = group.article(number, &mut bytes, 9).unwrap()?;
    Some((id, bytes))
}

#[test]
fn articles_are_found_by_number_and_id_also_after_a_restart() {
    let sim = SimDisk::new();
    let (small, large) = (article(1, 2000), article(2, 100_000));
    for round in 0..2 {
        let (cache, opened) = open(&sim, settings(4 << 20), 5 + round);
        let group = cache.group("isp", b"a.b", 5);
        if round == 0 {
            assert_eq!(group.put_article(1, &id(1), &small, 5).unwrap(), GroupOutcome::None);
            assert_eq!(group.put_article(2, &id(2), &large, 5).unwrap(), GroupOutcome::None);
            cache.put_by_id("isp", &id(3), &article(3, 500), 5).unwrap();
        } else {
            assert_eq!((opened.groups, opened.files, opened.removed.len()), (2, 3, 0), "{opened:?}");
        }
        assert_eq!(get(&group, 1), Some((id(1), small.clone())));
        assert_eq!(get(&group, 2), Some((id(2), large.clone())));
        assert_eq!((get(&group, 3), group.id_of(2).unwrap()), (None, Some(id(2))));
        let mut bytes = Vec::new();
        assert!(cache.by_id(&id(3), &mut bytes, 5).unwrap() && bytes == article(3, 500));
        assert!(cache.has_id(&id(2), 5).unwrap() && !cache.has_id(&id(4), 5).unwrap());
    }
}

#[test]
fn a_crosspost_is_stored_once_also_when_another_upstream_numbers_it() {
    let sim = SimDisk::new();
    let (cache, _) = open(&sim, settings(4 << 20), 5);
    let (one, other) = (cache.group("isp", b"a.b", 5), cache.group("second", b"c.d", 5));
    let text = article(7, 9000);
    assert_eq!(one.put_article(7, &id(7), &text, 5).unwrap(), GroupOutcome::None);
    let before = bytes_on(&sim);
    assert_eq!(other.put_article(100, &id(7), &text, 5).unwrap(), GroupOutcome::None);
    assert!(bytes_on(&sim) < before + 1000, "it is stored twice");
    assert_eq!(get(&other, 100), Some((id(7), text.clone())));
    // A row that names the article is enough.
    let line = [b"55", row(7, 9000).as_slice().strip_prefix(b"7").unwrap()].concat();
    let third = cache.group("third", b"e.f", 5);
    assert_eq!(third.put_rows(50..=60, &line, 5).unwrap(), GroupOutcome::None);
    assert_eq!(get(&third, 55), Some((id(7), text)));
}

#[test]
fn target_of_a_link_is_read_once_and_cached_per_link() {
    let sim = SimDisk::new();
    let (cache, _) = open(&sim, settings(4 << 20), 5);
    let (stored, linked) = (cache.group("isp", b"a.b", 5), cache.group("isp", b"c.d", 5));
    for n in [7, 8, 9] {
        assert_eq!(stored.put_article(n, &id(n), &article(n, 9000), 5).unwrap(), GroupOutcome::None);
    }
    assert_eq!(linked.put_article(100, &id(7), &article(7, 9000), 5).unwrap(), GroupOutcome::None);
    assert_eq!(linked.put_article(101, &id(8), &article(8, 9000), 5).unwrap(), GroupOutcome::None);
    let ids = |numbers: &[u64]| -> Vec<_> {
        numbers.iter().map(|number| get(&linked, *number).map(|(id, _)| id)).collect()
    };
    assert_eq!(ids(&[100, 101, 100]), [Some(id(7)), Some(id(8)), Some(id(7))]);
    // The file is not read any more.
    let groups = files(&sim, &Path::new(DIR).join("groups"));
    let smallest = groups.iter().min_by_key(|path| sim.about(path).unwrap().unwrap().bytes).unwrap();
    let file = sim.open(smallest, OpenMode::Existing).unwrap();
    file.write_all_at(&[IoSlice::new(&[b'?'; 400])], 0).unwrap();
    assert_eq!(ids(&[100, 101]), [Some(id(7)), Some(id(8))]);
    // Another article at the same position of a file whose name differs only in the generation.
    linked.begin_anew(6).unwrap();
    assert_eq!(ids(&[100]), [None]);
    assert_eq!(linked.put_article(100, &id(9), &article(9, 9000), 7).unwrap(), GroupOutcome::None);
    assert_eq!(ids(&[100, 101]), [Some(id(9)), None]);
}

#[test]
fn rows_are_stored_in_any_order_and_made_of_small_articles() {
    let sim = SimDisk::new();
    let (cache, _) = open(&sim, settings(4 << 20), 5);
    let group = cache.group("isp", b"a.b", 5);
    assert_eq!(group.put_article(15, &id(15), &article(15, 600), 5).unwrap(), GroupOutcome::None);
    let mut made = Vec::new();
    assert_eq!(group.rows(15..=15, 9999, &mut made, 5).unwrap(), RowCoverage::Done);
    assert_eq!(made, row(15, 600));
    // From the newest backwards.
    for first in [21, 11, 1] {
        let before = bytes_on(&sim);
        let range = first..=first + 9;
        assert_eq!(group.put_rows(range.clone(), &rows(range), 5).unwrap(), GroupOutcome::None);
        let text = rows(first..=first + 9).len() as u64;
        assert!(bytes_on(&sim) - before < text + 100, "more was written than the rows");
    }
    let mut text = Vec::new();
    assert_eq!(group.rows(1..=30, 99_999, &mut text, 5).unwrap(), RowCoverage::Done);
    assert_eq!(text, rows(1..=30));
    let stored = bytes_on(&sim);
    assert!(stored < rows(1..=30).len() as u64 + 600 + 700, "the row of 15 is stored as well");
    text.clear();
    assert_eq!(group.rows(25..=40, 99_999, &mut text, 5).unwrap(), RowCoverage::Missing { range: 31..=40 });
    assert_eq!(text, rows(25..=30));
    assert!(matches!(group.rows(1..=30, 10, &mut text, 5).unwrap(), RowCoverage::Limit { next: 11 }));
    for bad in [
        "x\r\n",
        "31\ta\tb\tc\t<d@e>\t\t1\t2\n",
        "99\ta\tb\tc\t<d@e>\t\t1\t2\r\n",
        "31\ta\tb\tc\t\t\t1\t2\r\n",
    ] {
        let refused = group.put_rows(31..=40, bad.as_bytes(), 5).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::InvalidData, "{bad}");
    }
}

#[test]
fn group_is_reset_when_its_numbers_change() {
    let sim = SimDisk::new();
    let (cache, _) = open(&sim, settings(4 << 20), 5);
    let group = cache.group("isp", b"a.b", 5);
    let marks = |high| GroupMarks { low: 1, high, count: high };
    let fill = || {
        assert_eq!(group.set_marks(marks(20), 5).unwrap(), GroupOutcome::None);
        assert_eq!(group.put_rows(1..=20, &rows(1..=20), 5).unwrap(), GroupOutcome::None);
        assert_eq!(group.put_article(7, &id(7), &article(7, 600), 5).unwrap(), GroupOutcome::None);
    };
    fill();
    assert_eq!(group.set_marks_of_same(marks(19), 6).unwrap(), GroupOutcome::None, "the last was removed");
    assert_eq!(get(&group, 7), Some((id(7), article(7, 600))));
    fill();
    assert_eq!(group.set_marks(marks(19), 6).unwrap(), GroupOutcome::Anew);
    assert_eq!((get(&group, 7), group.marks()), (None, Some(DatedAnswer { value: marks(19), at: 6 })));
    fill();
    assert_eq!(
        group.put_article(7, &id(8), &article(8, 600), 7).unwrap(),
        GroupOutcome::Anew,
        "an article's number"
    );
    assert_eq!(get(&group, 7), Some((id(8), article(8, 600))));
    group.begin_anew(7).unwrap();
    fill();
    assert_eq!(
        group.put_article(9, &id(8), &article(8, 600), 7).unwrap(),
        GroupOutcome::Anew,
        "a row's number"
    );
    group.begin_anew(7).unwrap();
    fill();
    let other = [b"7", row(9, 600).as_slice().strip_prefix(b"9").unwrap()].concat();
    assert_eq!(
        group.put_rows(7..=7, &other, 7).unwrap(),
        GroupOutcome::Anew,
        "a row for an article's number"
    );
    let mut text = Vec::new();
    assert_eq!(group.rows(1..=9, 9999, &mut text, 7).unwrap(), RowCoverage::Missing { range: 1..=6 });
    assert_eq!(open_after(&sim, cache), 0);
}

/// Reopens the cache; returns the number of removed files.
fn open_after(sim: &SimDisk, cache: Cache) -> usize {
    drop(cache);
    open(&sim.image().unwrap(), settings(4 << 20), 9).1.removed.len()
}

#[test]
fn cancelled_numbers_leave_and_reinstated_ones_come() {
    let sim = SimDisk::new();
    let (cache, _) = open(&sim, settings(4 << 20), 5);
    let group = cache.group("isp", b"a.b", 5);
    assert_eq!(group.set_marks(GroupMarks { low: 1, high: 10, count: 10 }, 5).unwrap(), GroupOutcome::None);
    assert_eq!(group.put_rows(1..=10, &rows((1..=10).filter(|n| *n != 4)), 5).unwrap(), GroupOutcome::None);
    assert_eq!(group.put_article(6, &id(6), &article(6, 600), 5).unwrap(), GroupOutcome::None);
    assert_eq!(group.neighbour(5, NeighbourDirection::Next).unwrap(), Neighbour::Unknown);
    let all: Vec<u64> = (1..=10).filter(|n| *n != 4).collect();
    let first = group.set_numbers(1..=10, &all, 5).unwrap();
    assert!(first.is_kept && first.cancelled == 0);
    let now: Vec<u64> = (1..=10).filter(|n| *n != 6).collect();
    let changed = group.set_numbers(1..=10, &now, 6).unwrap();
    assert_eq!((changed.cancelled, changed.reinstated), (1, 1));
    assert_eq!((get(&group, 6), group.count(1..=10).unwrap()), (None, Some(9)));
    let mut text = Vec::new();
    assert_eq!(group.rows(1..=10, 9999, &mut text, 6).unwrap(), RowCoverage::Missing { range: 4..=4 });
    assert_eq!(group.put_rows(4..=4, &row(4, 600), 6).unwrap(), GroupOutcome::None);
    text.clear();
    assert_eq!(group.rows(1..=10, 99_999, &mut text, 6).unwrap(), RowCoverage::Done);
    assert_eq!(text, rows(now.iter().copied()));
    let neighbours = [
        (5, NeighbourDirection::Next),
        (7, NeighbourDirection::Previous),
        (10, NeighbourDirection::Next),
        (1, NeighbourDirection::Previous),
    ];
    let found = neighbours.map(|(n, side)| group.neighbour(n, side).unwrap());
    assert_eq!(found, [Neighbour::Number(7), Neighbour::Number(5), Neighbour::None, Neighbour::None]);
    group.forget(8, 6).unwrap();
    let mut numbers = Vec::new();
    assert!(group.numbers(7..=10, 9, &mut numbers).unwrap() && numbers == [7, 9, 10]);
    assert!(!group.numbers(7..=11, 9, &mut numbers).unwrap());
    drop((group, cache));
    let (cache, _) = open(&sim, settings(4 << 20), 7);
    let group = cache.group("isp", b"a.b", 7);
    assert_eq!(group.count(1..=10).unwrap(), Some(8));
    assert_eq!(group.marks().unwrap().value.high, 10);
    assert_eq!(group.set_marks(GroupMarks { low: 9, high: 12, count: 4 }, 8).unwrap(), GroupOutcome::None);
    assert_eq!((group.count(1..=10).unwrap(), group.id_of(7).unwrap()), (Some(2), None));
}

#[test]
fn size_limit_always_holds_under_every_strategy() {
    for strategy in StrategyKind::ALL {
        let sim = SimDisk::new();
        let size = 2 << 20;
        let (cache, _) = open(&sim, CacheSettings { strategy, ..settings(size) }, 5);
        for n in 1..400 {
            let group = cache.group("isp", format!("g{}", n % 5).as_bytes(), n);
            let bytes = if n % 9 == 0 { 60_000 } else { 3000 + n as usize % 5000 };
            assert_eq!(group.put_article(n, &id(n), &article(n, bytes), n).unwrap(), GroupOutcome::None);
            assert!(get(&group, n).is_some(), "{strategy}: {n} is not there");
            assert!(bytes_on(&sim) <= size + size / 20, "{strategy}: {} bytes", bytes_on(&sim));
        }
        let stats = cache.stats();
        assert!(stats.used_bytes > size / 2, "{strategy}: nearly nothing is kept");
        assert_eq!(cache.verify(&()).unwrap().damaged, Vec::<String>::new(), "{strategy}");
        cache.set(CacheSettings { strategy: StrategyKind::S3fifo, ..settings(1 << 20) }).unwrap();
        assert!(bytes_on(&sim) <= (1 << 20) + (1 << 20) / 20, "{strategy}");
    }
}

#[test]
fn the_order_of_use_survives_a_restart() {
    let sim = SimDisk::new();
    let (cache, _) = open(&sim, settings(1 << 20), 5);
    let of = |cache: &Cache, n: u64| cache.group("isp", format!("g{n}").as_bytes(), 5);
    for n in 0..10 {
        assert_eq!(of(&cache, n).put_article(1, &id(n), &article(n, 60_000), n).unwrap(), GroupOutcome::None);
    }
    let mut bytes = Vec::new();
    assert!(of(&cache, 0).article(1, &mut bytes, 100).unwrap().is_some());
    cache.save().unwrap();
    drop(cache);
    let (cache, opened) = open(&sim, settings(1 << 20), 102);
    assert!(opened.removed.is_empty());
    for n in 20..30 {
        assert_eq!(
            of(&cache, n).put_article(1, &id(n), &article(n, 60_000), 102).unwrap(),
            GroupOutcome::None
        );
    }
    assert!(get(&of(&cache, 0), 1).is_some(), "it was used last before the restart");
    assert!(get(&of(&cache, 1), 1).is_none(), "it was used before all others");
}

#[test]
fn damage_of_a_large_article_is_found_before_its_first_piece() {
    let sim = SimDisk::new();
    let text = article(1, 700_000);
    let (cache, _) = open(&sim, settings(8 << 20), 5);
    cache.put_by_id("isp", &id(1), &text, 5).unwrap();
    let opened = |cache: &Cache, patience| cache.find(&id(1), patience, &mut Vec::new(), 6);
    // The whole article is checked in advance, for which the disk may have to be waited for.
    let refused = opened(&cache, ReadMode::CacheOnly).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::WouldBlock);
    assert!(opened(&cache, ReadMode::Wait).unwrap().is_some());
    let mut large = opened(&cache, ReadMode::CacheOnly).unwrap().unwrap().large.unwrap();
    assert_eq!(large.bytes().unwrap().abs_diff(text.len() as u64) / 256, 0);
    let (mut bytes, mut at) = (Vec::new(), 0);
    while large.next(ReadMode::CacheOnly, &mut bytes).unwrap() {
        assert!((1..=128 << 10).contains(&(bytes.len() - at)));
        at = bytes.len();
    }
    assert!(bytes == text);
    // Later damage ends the reading; the next one finds nothing.
    let hash = crate::base::record::hash(&[&id(1)]);
    let path = crate::books::bookkeeping::CacheFile::Large(hash).path(Path::new(DIR));
    let damage = |sim: &SimDisk| {
        let file = sim.open(&path, disk::OpenMode::Existing).unwrap();
        file.write_all_at(&[std::io::IoSlice::new(b"?")], 300_000).unwrap();
    };
    let mut large = opened(&cache, ReadMode::CacheOnly).unwrap().unwrap().large.unwrap();
    assert!(large.next(ReadMode::Wait, &mut bytes).unwrap());
    damage(&sim);
    let ended = loop {
        match large.next(ReadMode::Wait, &mut bytes) {
            Ok(true) => {}
            ended => break ended,
        }
    };
    assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::InvalidData);
    assert!(opened(&cache, ReadMode::Wait).unwrap().is_none());
    // An article that was damaged before is not begun.
    cache.put_by_id("isp", &id(1), &text, 7).unwrap();
    damage(&sim);
    assert!(opened(&cache, ReadMode::Wait).unwrap().is_none());
    // An article that comes again is another file.
    for n in [500_000, 600_000] {
        let mut writer = cache.writer(ArticleDestination::Upstream("isp"), &id(1), 8).unwrap();
        writer.write(&article(1, n), 8).unwrap();
        assert_eq!(writer.finish(8).unwrap(), GroupOutcome::None);
        bytes.clear();
        assert!(cache.by_id(&id(1), &mut bytes, 8).unwrap() && bytes == article(1, n));
    }
}

#[test]
fn large_articles_of_any_length_are_read_whole() {
    const PIECE: usize = crate::reading::pieces::PIECE_BYTES;
    let sim = SimDisk::new();
    let (cache, _) = open(&sim, settings(32 << 20), 5);
    // Lengths whose last piece is read in the same step as two others, and similar ones.
    for (n, len) in
        (1..).zip([PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 1, 2 * PIECE + 3000, 3 * PIECE, 4 * PIECE + 1])
    {
        let mut text = article(n, len);
        text.truncate(len);
        cache.put_by_id("isp", &id(n), &text, 5).unwrap();
        let mut buffer = b"what was there".to_vec();
        let found = cache.find(&id(n), ReadMode::Wait, &mut buffer, 6).unwrap().unwrap();
        assert_eq!((found.id_in(&buffer), found.from), (&id(n)[..], buffer.len()));
        let (mut large, mut bytes) = (found.large.unwrap(), Vec::new());
        loop {
            let has_more = large.read(ReadMode::CacheOnly).unwrap();
            large.parts().iter().for_each(|part| bytes.extend_from_slice(part));
            if !has_more {
                break;
            }
        }
        assert!(bytes == text, "{len} bytes");
    }
}

#[test]
fn reading_an_article_replaces_the_buffer() {
    let sim = SimDisk::new();
    let (cache, _) = open(&sim, settings(4 << 20), 5);
    let group = cache.group("isp", b"a.b", 5);
    for n in 1..=3 {
        assert_eq!(
            group.put_article(n, &id(n), &article(n, 700 * n as usize), 5).unwrap(),
            GroupOutcome::None
        );
    }
    let mut buffer = Vec::new();
    for n in [3, 1, 2] {
        for is_by_number in [true, false] {
            let found = match is_by_number {
                true => group.find(n, ReadMode::CacheOnly, &mut buffer, 6).unwrap().unwrap(),
                false => cache.find(&id(n), ReadMode::CacheOnly, &mut buffer, 6).unwrap().unwrap(),
            };
            assert_eq!(found.id_in(&buffer), id(n));
            assert!(buffer[found.from..] == article(n, 700 * n as usize) && found.large.is_none());
        }
    }
    assert!(group.find(4, ReadMode::Wait, &mut buffer, 6).unwrap().is_none());
}

#[test]
fn heads_do_not_count_as_articles() {
    let sim = SimDisk::new();
    let (cache, _) = open(&sim, settings(4 << 20), 5);
    let group = cache.group("isp", b"a.b", 5);
    let text = article(1, 40_000);
    let head = &text[..memchr::memmem::find(&text, b"\r\n\r\n").unwrap() + 4];
    assert_eq!(group.put_head(1, &id(1), head, 5).unwrap(), GroupOutcome::None);
    drop((group, cache));
    let (cache, _) = open(&sim, settings(4 << 20), 6);
    let group = cache.group("isp", b"a.b", 6);
    let kept = |patience| {
        let mut bytes = Vec::new();
        let found = group.head(1, patience, &mut bytes, 7).unwrap();
        (found, bytes)
    };
    assert_eq!(kept(ReadMode::Wait), (Some(id(1)), head.to_vec()));
    assert_eq!(kept(ReadMode::CacheOnly), (Some(id(1)), head.to_vec()));
    assert!(cache.has_head(&id(1), 7).unwrap() && !cache.has_id(&id(1), 7).unwrap());
    assert_eq!(get(&group, 1), None);
    // Another article with that number: the group is reset.
    assert_eq!(group.put_head(1, &id(2), head, 8).unwrap(), GroupOutcome::Anew);
    // The article itself replaces its head.
    assert_eq!(group.put_article(1, &id(2), &article(2, 900), 8).unwrap(), GroupOutcome::None);
    assert_eq!(get(&group, 1), Some((id(2), article(2, 900))));
    assert_eq!(group.put_head(1, &id(2), head, 9).unwrap(), GroupOutcome::None);
    assert_eq!(get(&group, 1), Some((id(2), article(2, 900))));
}

#[test]
fn damaged_file_is_removed_and_never_read_wrongly() {
    let sim = SimDisk::new();
    let (cache, _) = open(&sim, settings(4 << 20), 5);
    let group = cache.group("isp", b"a.b", 5);
    assert_eq!(group.put_rows(1..=30, &rows(1..=30), 5).unwrap(), GroupOutcome::None);
    for n in 1..=20 {
        assert_eq!(
            group.put_article(n, &id(n), &article(n, 500 + 2500 * n as usize), 5).unwrap(),
            GroupOutcome::None
        );
    }
    assert!(group.set_numbers(1..=30, &(1..=30).collect::<Vec<_>>(), 5).unwrap().is_kept);
    drop((group, cache));
    let image = sim.image().unwrap();
    let all: Vec<PathBuf> =
        files(&image, Path::new(DIR)).into_iter().filter(|p| !p.ends_with("lock")).collect();
    let (mut seed, mut told) = (1_u64, 0);
    for round in 0..120 {
        let image = sim.image().unwrap();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(7);
        let path = &all[round % all.len()];
        let file = image.open(path, disk::OpenMode::Existing).unwrap();
        let at = (seed >> 20) % file.len().unwrap().max(1);
        let mut byte = [0];
        file.read_at(&mut byte, at).unwrap();
        file.write_all_at(&[std::io::IoSlice::new(&[byte[0] ^ 0x41])], at).unwrap();
        let (cache, opened) = open(&image, settings(4 << 20), 6);
        let before = cache.stats().files;
        let group = cache.group("isp", b"a.b", 5);
        for n in 1..=20 {
            if let Some((found, bytes)) = get(&group, n) {
                assert_eq!(
                    (found, bytes),
                    (id(n), article(n, 500 + 2500 * n as usize)),
                    "{}",
                    path.display()
                );
            }
        }
        let mut text = Vec::new();
        if group.rows(1..=30, 99_999, &mut text, 6).unwrap() == RowCoverage::Done {
            let sizes = |n: u64| if n <= 20 { 500 + 2500 * n as usize } else { 600 };
            let either = |n| [row(n, 600), row(n, sizes(n))];
            for (n, line) in (1..).zip(text.split_inclusive(|b| *b == b'\n')) {
                assert!(either(n).iter().any(|row| row == line), "{}: row {n}", path.display());
            }
        }
        told += usize::from(cache.stats().files < before || !opened.removed.is_empty());
        assert_eq!(cache.verify(&()).unwrap().damaged, Vec::<String>::new(), "{}", path.display());
        assert_eq!(group.put_article(25, &id(25), &article(25, 700), 6).unwrap(), GroupOutcome::None);
    }
    assert!(told > 60, "only {told} of 120 damages were noticed");
}

#[test]
fn arriving_article_is_visible_when_complete() {
    let sim = SimDisk::new();
    let (cache, _) = open(&sim, settings(4 << 20), 5);
    let group = cache.group("isp", b"a.b", 5);
    for (n, bytes) in [(1, 3000), (2, 300_000)] {
        let text = article(n, bytes);
        let mut writer = cache.writer(ArticleDestination::Group(&group, n), &id(n), 5).unwrap();
        let mut dropped = cache.writer(ArticleDestination::Upstream("isp"), &id(n + 10), 5).unwrap();
        for piece in text.chunks(7000) {
            writer.write(piece, 5).unwrap();
            dropped.write(piece, 5).unwrap();
            assert!(get(&group, n).is_none());
        }
        assert_eq!(writer.finish(5).unwrap(), GroupOutcome::None);
        drop(dropped);
        assert_eq!(get(&group, n), Some((id(n), text)));
        assert!(!cache.has_id(&id(n + 10), 5).unwrap());
    }
    let used = cache.stats().used_bytes;
    let left = files(&sim, Path::new("/cache/large/new"));
    assert!(left.is_empty() && used.abs_diff(bytes_on(&sim)) < 4 * 4096, "{left:?}, {used}");
    let mut writer = cache.writer(ArticleDestination::Group(&group, 3), &id(3), 5).unwrap();
    for _ in 0..100 {
        writer.write(&[b'a'; 10_000], 5).unwrap();
    }
    assert_eq!(writer.finish(5).unwrap(), GroupOutcome::None);
    assert!(get(&group, 3).is_none(), "it is too large for this cache");
}

#[test]
fn lists_are_replaced_as_a_whole() {
    let sim = SimDisk::new();
    let (cache, _) = open(&sim, settings(4 << 20), 5);
    assert!(cache.list("isp", ListKind::Active).unwrap().is_none());
    let lines: Vec<u8> = (0..20_000).flat_map(|n| format!("g.{n} {n} 1 y\r\n").into_bytes()).collect();
    let mut writer = cache.put_list("isp", ListKind::Active, 77).unwrap();
    for piece in lines.chunks(1000) {
        writer.append(piece).unwrap();
    }
    writer.finish().unwrap();
    cache.put_list("isp", ListKind::Active, 78).unwrap().append(b"half").unwrap();
    let read = |cache: &Cache| {
        let mut reader = cache.list("isp", ListKind::Active).unwrap()?;
        let (mut all, mut piece) = (Vec::new(), Vec::new());
        while reader.next(&mut piece).unwrap() {
            assert!(piece.ends_with(b"\r\n"));
            all.append(&mut piece);
        }
        Some((reader.at(), all))
    };
    assert_eq!(read(&cache), Some((77, lines)));
    assert!(cache.list("isp", ListKind::Times).unwrap().is_none());
    let path = files(&sim, Path::new("/cache/lists")).remove(0);
    sim.open(&path, disk::OpenMode::Existing).unwrap().set_len(70_000).unwrap();
    assert_eq!(read(&cache), None, "it has no end");
}

/// The amount of dead data on disk stays below about that of live data.
#[test]
fn files_are_compacted_when_most_of_them_is_dead() {
    let sim = SimDisk::new();
    let (cache, _) = open(&sim, settings(8 << 20), 5);
    let group = cache.group("isp", b"a.b", 5);
    for n in 1..=300 {
        assert_eq!(group.put_article(n, &id(n), &article(n, 4000), 5).unwrap(), GroupOutcome::None);
    }
    let before = bytes_on(&sim);
    assert_eq!(group.put_rows(1..=300, &rows(1..=300), 5).unwrap(), GroupOutcome::None);
    assert!(bytes_on(&sim) - before < 300 * 10, "rows of small articles are stored");
    for n in (1..=300).filter(|n| n % 5 > 0) {
        group.forget(n, 6).unwrap();
    }
    let living: u64 = (1..=60).map(|n| article(5 * n, 4000).len() as u64 + 100).sum();
    assert!(bytes_on(&sim) < 5 * living / 2, "{} bytes for {living}", bytes_on(&sim));
    drop((group, cache));
    let (cache, _) = open(&sim.image().unwrap(), settings(8 << 20), 7);
    let group = cache.group("isp", b"a.b", 5);
    for n in 1..=300 {
        let expected = (n % 5 == 0).then(|| (id(n), article(n, 4000)));
        assert_eq!(get(&group, n), expected, "{n}");
    }
    let articles = cache.verify(&()).unwrap().articles;
    assert!((60..150).contains(&articles), "{articles} articles are stored");
}

/// A group's index takes more than its articles alone: with one article each, memory would grow with the
/// number of groups.
#[test]
fn memory_of_many_indexes_is_bounded() {
    let sim = SimDisk::new();
    let (cache, _) = open(&sim, settings(1 << 30), 5);
    let name = |n: u64| format!("a.g{n}").into_bytes();
    for n in 0..12_000 {
        let group = cache.group("isp", &name(n), 5);
        assert_eq!(group.put_article(1, &id(n), &article(n, 400), 5).unwrap(), GroupOutcome::None);
    }
    assert!(
        cache.0.cells.index_bytes() <= crate::index::cells::INDEX_BYTES_MAX,
        "{}",
        cache.0.cells.index_bytes()
    );
    for n in (0..12_000).step_by(17) {
        assert!(get(&cache.group("isp", &name(n), 5), 1).is_some(), "{n}");
    }
    assert!(cache.0.cells.index_bytes() <= crate::index::cells::INDEX_BYTES_MAX);
}

/// Requests are counted in the cells of their groups, which are dropped when they are not referenced.
#[test]
fn counters_survive_dropped_cells_and_restarts() {
    let sim = SimDisk::new();
    let access = |at, id| CacheAccess {
        at,
        client: "192.0.2.1",
        kind: RequestKind::Article,
        upstream: if id { "" } else { "isp" },
        group: if id { b"" } else { b"a.read" },
        number: 1,
        id: b"<a@b>",
        cache_bytes: 10,
        upstream_bytes: 0,
        is_hit: true,
    };
    let counted = |cache: &Cache| {
        let (stats, read) = (cache.stats(), cache.read_groups());
        let groups: Vec<_> = stats.groups.iter().map(|(_, kinds)| kinds[3].requests).collect();
        let upstreams: Vec<_> =
            stats.upstreams.iter().map(|(name, kinds)| (name.clone(), kinds[3].requests)).collect();
        (stats.kinds[3].requests, groups, upstreams, read.first().map(|group| group.read_at))
    };
    let expected = (3, vec![2], vec![(String::new(), 1), ("isp".to_owned(), 2)], Some(8));
    {
        let (cache, _) = open(&sim, settings(4 << 20), 5);
        let group = cache.group("isp", b"a.read", 5);
        [8, 7].into_iter().for_each(|at| group.record(&access(at, false)));
        cache.record(&access(9, true));
        drop(group);
        for n in 0..5_000 {
            cache.group("isp", format!("a.g{n}").as_bytes(), 5);
        }
        let mut living =
            cache.0.cells.by_slot.lock().values().map(|cell| cell.name.clone()).collect::<Vec<_>>();
        living.retain(|name| **name == *b"a.read");
        assert!(living.is_empty(), "its cell is still there");
        assert_eq!(counted(&cache), expected);
        cache.save().unwrap();
    }
    let (cache, _) = open(&sim, settings(4 << 20), 5);
    assert_eq!(counted(&cache), (3, vec![2], expected.2, Some(8)));
}
