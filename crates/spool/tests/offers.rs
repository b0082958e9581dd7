//! Offers that are answered together get the answers that they would get one by one.

use crate::news::*;
use disk::{Disk, SimDisk};
use spool::*;
use std::sync::Arc;

/// The answers to offers of these articles, this many at a time; what is reserved stays so to the end.
fn answers(spool: &Spool, ids: &[String], at_once: usize) -> Vec<&'static str> {
    let mut held = Vec::new();
    for ids in ids.chunks(at_once) {
        let keys: Vec<ArticleKey> = ids.iter().map(|id| spool.key(id.as_bytes())).collect();
        let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes()).collect();
        held.extend(spool.reserve(&keys, &ids));
    }
    let word = |offer: &OfferAnswer| match offer {
        OfferAnswer::Wanted(_) => "wanted",
        OfferAnswer::Have => "have",
        OfferAnswer::InFlight => "in flight",
        OfferAnswer::Pending => "pending",
    };
    held.iter().map(word).collect()
}

#[test]
fn offers_together_are_answered_as_one_by_one() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut config = config("/s", &[("a", 100_000)]);
    config.durability = Durability::Process;
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 3);
    // Most of them are overwritten by now.
    for n in (0..600).step_by(10) {
        commit(&spool, &(n..n + 10).map(|n| News::new(n, 3, 600)).collect::<Vec<_>>()).unwrap();
    }
    for n in [570, 580, 599] {
        assert!(spool.cancel(News::new(n, 3, 600).id.as_bytes()).unwrap());
    }
    // Known and unknown ones, in no order, and some of each twice.
    let ids: Vec<String> = (0..1200u64).map(|n| News::new(n * 7919 % 1000, 3, 600).id).collect();
    let other_feed = spool.reserve(&[spool.key(ids[3].as_bytes())], &[ids[3].as_bytes()]).next();
    let single = answers(&spool, &ids, 1);
    for (answer, least) in [("wanted", 300), ("have", 600), ("in flight", 50)] {
        let count = single.iter().filter(|a| **a == answer).count();
        assert!(count >= least, "{answer}: {count}");
    }
    for at_once in [2, 48, 333, ids.len()] {
        assert!(answers(&spool, &ids, at_once) == single, "{at_once} at once");
    }
    drop(other_feed);
}
