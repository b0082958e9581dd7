//! The digest of a site: the same for the same news, however it is stored, and another for any other.

use crate::news::*;
use disk::crc::crc32c;
use disk::{Disk, FileAccess, SimDisk, durable_replace};
use spool::*;
use std::path::Path;
use std::sync::Arc;

/// Gives a spool in `/s` that does not exist yet a secret that is always the same.
pub fn write_secret(disk: &dyn Disk) {
    let digits = "0123456789abcdef0123456789abcdef";
    let text = format!("{digits} {:08x}\n", crc32c(digits.as_bytes()));
    disk.create_dir(Path::new("/s")).unwrap();
    durable_replace(disk, Path::new("/s/secret"), &[text.as_bytes()], FileAccess::Owner).unwrap();
}

fn disk() -> Arc<dyn Disk> {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    write_secret(&*disk);
    disk
}

/// Files articles, the first of which a small buffer overwrites; withdraws, hides, remembers and notes.
fn fill(spool: &Spool) {
    add_groups(spool, 3);
    for n in 0..90 {
        commit(spool, &[News::new(n, 3, 900)]).unwrap();
    }
    spool.cancel(News::new(55, 3, 900).id.as_bytes()).unwrap();
    spool.hide_all(&[News::new(56, 3, 900).id.as_bytes()], "operator", "why").unwrap();
    spool.remember(ArticleIdent::Id(b"<remembered@x>")).unwrap();
    let note = Change::Note { kind: NoteKind::ControlDate, key: b"a", value: Some(b"b"), since: NOW };
    spool.commit_one(note).unwrap();
}

#[test]
fn the_digest_is_the_same_after_a_restart_and_a_rebuild() {
    let (disk, config) = (disk(), config("/s", &[("a", 64 << 10)]));
    let (spool, _) = open(&disk, &config);
    fill(&spool);
    let all = agree(&spool);
    assert!(all.len() > 10 && !all.iter().any(|(_, _, id)| *id == News::new(0, 3, 900).id), "overwritten");
    let digest = spool.digest();
    assert!(digest.is_some());
    assert_eq!(spool.meter().status().unwrap().digest, digest);
    // As after a kill.
    drop(spool);
    let (spool, _) = open(&disk, &config);
    assert_eq!(spool.digest(), digest);
    spool.close().unwrap();
    drop(spool);
    let (spool, _) = open(&disk, &config);
    assert_eq!(spool.digest(), digest);
    spool.close().unwrap();
    drop(spool);
    rebuild(disk.clone(), config.clone(), &()).unwrap();
    let (spool, _) = open(&disk, &config);
    assert_eq!(spool.digest(), digest);
    spool.close().unwrap();
}

#[test]
fn each_change_of_the_news_changes_the_digest() {
    let (disk, config) = (disk(), config("/s", &[("a", 1 << 20)]));
    let (spool, _) = open(&disk, &config);
    fill(&spool);
    let mut seen = vec![spool.digest().unwrap()];
    let id = |n: u64| News::new(n, 3, 900).id;
    let (hidden, cancelled, key) = (id(3), id(4), spool.key(id(3).as_bytes()));
    let note = |value| Change::Note { kind: NoteKind::ControlDate, key: b"a", value, since: NOW };
    let changes: [&dyn Fn(); 9] = [
        &|| drop(commit(&spool, &[News::new(100, 3, 900)]).unwrap()),
        &|| {
            spool.cancel(cancelled.as_bytes()).unwrap();
        },
        &|| {
            spool.hide_all(&[hidden.as_bytes()], "operator", "why").unwrap();
        },
        &|| {
            spool.remember(ArticleIdent::Id(b"<other@x>")).unwrap();
        },
        &|| {
            spool.raise_high(&[("test.g1".into(), 1_000)]).unwrap();
        },
        &|| {
            spool.remove_group("test.g2").unwrap();
        },
        &|| {
            spool.commit_one(note(Some(b"c"))).unwrap();
        },
        &|| {
            spool.commit_one(note(None)).unwrap();
        },
        &|| {
            let change =
                GroupChange { description: Some("what it is about".into()), ..GroupChange::default() };
            spool.change_group("test.g0", &change).unwrap();
        },
    ];
    for change in changes {
        change();
        let digest = spool.digest().unwrap();
        assert!(!seen.contains(&digest), "change {}", seen.len());
        seen.push(digest);
    }
    // What is undone leaves no trace.
    let before = *seen.last().unwrap();
    spool.unhide_all(&[key]).unwrap();
    assert_ne!(spool.digest(), Some(before));
    spool.hide_all(&[hidden.as_bytes()], "operator", "why").unwrap();
    assert_eq!(spool.digest(), Some(before));
    agree(&spool);
    spool.close().unwrap();
}
