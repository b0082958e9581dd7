//! Pages that are kept for a moment, to be sent again as they are.
//!
//! A page is kept under everything that it depends on: its address, the rights of the visitor, the host that
//! was asked for, and the coding. It is sent again while it is younger than `web.cache_age`, and while no
//! article was withdrawn and no configuration applied since. Called by `delivery`.

use super::generations::Generations;
use axum::body::Bytes;
use axum::http::HeaderMap;
use site_base::lock::Leaf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that a page counts in addition to its body.
const PAGE_BYTES_BASE: usize = 1 << 10;
/// Longest key under which a page is kept, in bytes: it has the whole address.
const KEY_BYTES_MAX: usize = 2 << 10;

/// A page with its headers.
#[derive(Debug)]
pub(super) struct KeptPage {
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Time at which its making began.
    pub made: Instant,
    /// Count of withdrawals before it was made.
    pub withdrawals: u64,
}

impl KeptPage {
    fn bytes(&self) -> usize {
        self.body.len() + PAGE_BYTES_BASE
    }
}

/// The kept pages.
#[derive(Debug, Default)]
pub(super) struct KeptPages {
    pages: Leaf<Generations<Box<str>, Arc<KeptPage>>>,
}

impl KeptPages {
    /// Returns a page that can be sent again.
    pub fn get(&self, key: &str, age_max: Duration, withdrawals: u64) -> Option<Arc<KeptPage>> {
        let page = self.pages.lock().get(key).cloned()?;
        Some(page).filter(|page| page.made.elapsed() < age_max && page.withdrawals == withdrawals)
    }

    /// Keeps a page; all pages, with their keys, have at most about `bytes_max`.
    pub fn put(&self, key: &str, page: KeptPage, bytes_max: usize) {
        if key.len() > KEY_BYTES_MAX {
            return;
        }
        let bytes = page.bytes() + key.len();
        self.pages.lock().put(key.into(), Arc::new(page), bytes, bytes_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: usize, withdrawals: u64) -> KeptPage {
        let body = Bytes::from(vec![0; bytes]);
        KeptPage { headers: HeaderMap::new(), body, made: Instant::now(), withdrawals }
    }

    const LONG: Duration = Duration::from_secs(3_600);

    #[test]
    fn pages_are_sent_again_until_they_are_old_or_an_article_is_withdrawn() {
        let pages = KeptPages::default();
        pages.put("a", page(10, 7), 1 << 20);
        assert!(pages.get("a", LONG, 7).is_some() && pages.get("b", LONG, 7).is_none());
        assert!(pages.get("a", LONG, 8).is_none(), "something was withdrawn");
        assert!(pages.get("a", Duration::ZERO, 7).is_none(), "nothing is kept");
    }

    /// Whoever asks chooses the address.
    #[test]
    fn long_addresses_push_out_no_page() {
        let pages = KeptPages::default();
        pages.put("a", page(10, 7), 1 << 20);
        (0..1_000).for_each(|n| pages.put(&format!("{n}{}", "x".repeat(30_000)), page(10, 7), 1 << 20));
        assert!(pages.get("a", LONG, 7).is_some());
    }

    #[test]
    fn kept_pages_stay_within_their_memory() {
        let pages = KeptPages::default();
        let bytes_max = 100 << 10;
        for n in 0..1_000 {
            pages.put(&n.to_string(), page(1 << 10, 0), bytes_max);
            assert!(pages.get("0", LONG, 0).is_some(), "a page that is asked for stays: {n}");
            let bytes = pages.pages.lock().bytes();
            assert!(bytes <= bytes_max + (2 << 10), "{bytes}");
        }
        pages.put("large", page(90 << 10, 0), bytes_max);
        assert!(pages.get("large", LONG, 0).is_none());
    }
}
