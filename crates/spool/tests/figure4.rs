//! CNFS-03: figure 4 of the CNFS paper. After articles A to L, writing M, N, O and P leaves I as the oldest
//! that can be read: A to G are overwritten by M, N and O, and H partly by P. And CNFS-02, CNFS-10, CNFS-11,
//! CNFS-33.

use crate::news::*;
use disk::{Disk, SimDisk};
use netnews::GroupMarks;
use spool::*;
use std::sync::Arc;

/// An article that makes a record of exactly `blocks` blocks of 512 bytes.
fn sized(name: &str, blocks: usize) -> News {
    let id = format!("<{name}@figure4.example>");
    let mut wire = format!(
        "Path: x!y\r\nFrom: a@b.example\r\nNewsgroups: test.g0\r\nSubject: {name}\r\nMessage-ID: {id}\r\n\
         Date: Sat, 21 Nov 2026 10:00:00 +0000\r\n\r\n"
    )
    .into_bytes();
    while wire.len() + 64 + 45 < blocks * 512 - 40 {
        wire.extend_from_slice(b"0123456789\r\n");
    }
    News { id, groups: vec!["test.g0".into()], wire, is_hidden: false, sites: &[] }
}

#[test]
fn the_oldest_readable_article_is_i() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    // Area of 32 blocks: A to L take 31 of them.
    let mut config = config("/spool", &[("SD1", 8192 + 4096 + 32 * 512)]);
    config.durability = Durability::Process;
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 1);
    let area = spool.meter().status().unwrap().buffers[0].area_bytes;
    assert_eq!(area, 32 * 512);
    let sizes = [3, 2, 3, 2, 3, 2, 3, 4, 2, 3, 2, 2];
    let letters = |from: u8, sizes: &[usize]| -> Vec<News> {
        sizes.iter().enumerate().map(|(i, s)| sized(&((from + i as u8) as char).to_string(), *s)).collect()
    };
    let first = letters(b'A', &sizes);
    let mut tokens = Vec::new();
    for news in &first {
        let (_, outcomes) = commit(&spool, std::slice::from_ref(news)).unwrap();
        let ChangeOutcome::Filed(filed) = outcomes[0] else { panic!("{outcomes:?}") };
        tokens.push(filed.token);
    }
    assert_eq!(agree(&spool).len(), 12);
    // The text form is buffer:offset:cycle and round-trips (CNFS-10).
    assert_eq!(spool.tokens().text(&tokens[0]), "SD1:0:1");
    assert_eq!(spool.tokens().text(&tokens[1]), "SD1:600:1");
    assert_eq!(spool.tokens().parse("SD1:600:1"), Some(tokens[1]));
    assert_eq!(spool.tokens().parse("SD1:600:x"), None);
    assert_eq!(spool.tokens().parse("SD2:600:1"), None);

    // M does not fit into the last block: it goes to the beginning, whole, and the cycle number rises
    // (CNFS-02).
    let second = letters(b'M', &[6, 6, 6, 2]);
    for (i, news) in second.iter().enumerate() {
        let (_, outcomes) = commit(&spool, std::slice::from_ref(news)).unwrap();
        let ChangeOutcome::Filed(filed) = outcomes[0] else { panic!("{outcomes:?}") };
        if i == 0 {
            assert_eq!(spool.tokens().text(&filed.token), "SD1:0:2");
        }
        // At every step what is named can be read, and nothing else (CNFS-33).
        agree(&spool);
    }
    // 20 blocks written: A to G (18 blocks) are lost, H (blocks 18 to 21) is partly overwritten.
    for (i, news) in first.iter().enumerate() {
        let alive = i >= 8;
        assert_eq!(fetch(&spool, &news.id).as_deref(), alive.then_some(news.wire.as_slice()), "{}", news.id);
        let want = if alive { Lookup::Present(tokens[i]) } else { Lookup::Gone };
        assert_eq!(spool.lookup(&spool.key(news.id.as_bytes())), want, "{}", news.id);
    }
    for news in &second {
        assert_eq!(fetch(&spool, &news.id).unwrap(), news.wire);
    }
    let marks = spool.marks(spool.group_id(b"test.g0").unwrap()).unwrap();
    assert_eq!(marks, GroupMarks { low: 9, high: 16, count: 8 });
    let list = String::from_utf8(spool.list_active().to_vec()).unwrap();
    assert_eq!(list, "test.g0 16 9 y\r\n");
    spool.close().unwrap();
}
