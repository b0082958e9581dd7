//! The queue: bounded, in order, and whole after any crash.

use super::*;
use disk::{CrashKind, FileAccess, SimDisk};

fn post(n: u64) -> QueuedPost {
    QueuedPost {
        message_id: format!("<{n}@x.example>"),
        upstream: if n == 2 { "block account".into() } else { "isp".into() },
        address: "192.0.2.7".into(),
        user: if n == 1 { "fred".into() } else { String::new() },
        queued: n,
        refused: String::new(),
        wire: format!("Subject: {n}\r\n\r\nbody\n\n\r\n").into_bytes(),
    }
}

fn open(sim: &SimDisk) -> UpstreamPosts {
    UpstreamPosts::open(Arc::new(sim.clone()), Path::new("/d"))
}

fn all(posts: &UpstreamPosts) -> Vec<QueuedPost> {
    posts.all().into_iter().map(|waiting| waiting.post).collect()
}

#[test]
fn posts_wait_in_order_and_within_the_limit() {
    let sim = SimDisk::new();
    let posts = open(&sim);
    let first = posts.put(&post(3), 2).unwrap();
    posts.put(&post(2), 1).unwrap();
    // Those for another upstream take none of its room.
    assert_eq!(posts.put(&post(1), 1), Err(QueuePostError::Full));
    assert_eq!(posts.put(&QueuedPost { wire: Vec::new(), ..post(3) }, 9), Err(QueuePostError::Known));
    assert_eq!(all(&posts), [post(2), post(3)]);
    let waits = QueuedPostCounts { waiting: 1, refused: 0 };
    assert_eq!((posts.counts("isp"), posts.counts("block account")), (waits, waits));
    // The post is busy until its poster is answered.
    assert!(!posts.drop_post(&post(3)).unwrap());
    posts.refuse(&first, post(3), "441 no");
    assert_eq!(posts.counts("isp"), QueuedPostCounts { waiting: 0, refused: 1 });
    let posts = open(&sim);
    let refused = posts.of("<3@x.example>", Some("isp"));
    assert_eq!(refused[0].post.refused, "441 no", "after a restart");
    assert_eq!(
        (posts.of("<3@x.example>", Some("other")).len(), posts.of("<2@x.example>", None).len()),
        (0, 1)
    );
    posts.retry(&refused[0].post).unwrap();
    let posts = open(&sim);
    assert_eq!(all(&posts), [post(2), post(3)]);
    assert!(posts.drop_post(&post(3)).unwrap());
    assert_eq!(all(&open(&sim)), [post(2)]);
    disk::durable_replace(&sim, Path::new("/d/posts/00.post"), &[b"garbage"], FileAccess::Owner).unwrap();
    disk::durable_replace(&sim, Path::new("/d/posts/01.post.new"), &[b"gar"], FileAccess::Owner).unwrap();
    assert_eq!(all(&open(&sim)), [post(2)]);
    assert_eq!(disk::Disk::list(&sim, Path::new("/d/posts")).unwrap().len(), 2, "the unfinished one is gone");
}

#[test]
fn a_crash_at_any_step_loses_no_post_and_tears_none() {
    for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
        for step in 0.. {
            let sim = SimDisk::new();
            sim.crash_at(step, kind, step * 7919);
            let posts = open(&sim);
            let put: Vec<u64> = (1..=3).filter(|n| posts.put(&post(*n), 9).is_ok()).collect();
            let is_whole = put.len() == 3;
            let name = name_of("<2@x.example>", "block account");
            if is_whole {
                posts.refuse(&name, post(2), "441 no");
            }
            let removed = is_whole && posts.remove(&name_of("<1@x.example>", "isp")).is_ok();
            let (what, after) = (format!("{kind:?} at step {step}"), open(&sim.image().unwrap()));
            let left: Vec<_> = all(&after).into_iter().map(|left| (left.queued, left)).collect();
            for n in &put {
                let found = left.iter().find(|(queued, _)| queued == n);
                assert!(found.is_some() || (*n == 1 && is_whole), "{what}: {left:?}");
            }
            for (n, left) in &left {
                let refused = QueuedPost { refused: "441 no".into(), ..post(*n) };
                assert!(*left == post(*n) || (*n == 2 && *left == refused), "{what}: {left:?}");
            }
            assert!(left.len() <= put.len() + 1, "{what}: {left:?}");
            if !sim.crashed() {
                assert!(removed && left.len() == 2 && step > 12, "{what}: {left:?}");
                break;
            }
        }
    }
}
