//! Budgets of networks: how many pages are made for visitors of one network, and a proof of work for more.
//!
//! Crawlers come from many addresses of few networks, and name themselves as they please. Each network (/24
//! of IPv4, /48 of IPv6) has a bucket of pages that fills steadily. Beyond it a visitor is answered 429 or,
//! if `web.proof_of_work` says so, with a page whose script finds a number: that takes a browser a second,
//! and a crawler one for each of its visitors. The proof is a cookie that is valid for an hour, in its
//! network, and has a bucket of its own. Pages that are kept cost nothing, and users that have logged in have
//! no budget. Called by `delivery`.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use site_base::lock::Leaf;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Bits of an address that name its network.
const V4_BITS: u32 = 24;
const V6_BITS: u32 = 48;
/// Time in which a budget of pages fills.
const MINUTE: Duration = Duration::from_secs(60);
/// Maximum number of buckets; beyond it those that are full are dropped, as they are like new ones.
const BUCKETS_MAX: usize = 100_000;
/// Leading zeros of a hash that proves work: 65,536 attempts on average.
pub(super) const WORK_BITS: u32 = 16;
/// Time that a challenge is valid for, in seconds; the one before counts as well.
const CHALLENGE_SECS: u64 = 60 * 60;
/// Octets of a challenge.
const CHALLENGE_BYTES: usize = 12;
/// Maximum length of a proof, in bytes.
const PROOF_BYTES_MAX: usize = 100;
/// Name of the cookie with a proof.
pub(super) const PROOF_COOKIE: &str = "newsreel-work";

/// Holder of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum BucketHolder {
    /// All visitors together.
    All,
    Network(IpAddr),
    /// A mail address, by its hash.
    Mailbox([u8; 16]),
    /// A proof, by its hash.
    Proof([u8; 16]),
}

/// Pages that may be made now.
#[derive(Debug, Clone, Copy)]
struct PageBucket {
    pages: f64,
    at: Instant,
}

/// The budgets of all networks.
pub(super) struct NetworkBudgets {
    buckets: Leaf<HashMap<BucketHolder, PageBucket>>,
    key: hmac::Key,
}

impl NetworkBudgets {
    /// Creates full budgets.
    pub fn new() -> Self {
        let mut key = [0; 32];
        // Without random numbers challenges can be computed in advance, which saves a crawler nothing.
        let _unfilled = SystemRandom::new().fill(&mut key);
        Self { buckets: Leaf::default(), key: hmac::Key::new(hmac::HMAC_SHA256, &key) }
    }

    /// Takes a page from the budget of a visitor, which has `pages_per_minute`; returns the seconds after
    /// which there is another if it is used up.
    pub fn take(&self, address: IpAddr, pages_per_minute: u32, now: Instant) -> Result<(), u64> {
        self.take_of(BucketHolder::Network(network(address)), pages_per_minute, MINUTE, now)
    }

    /// Takes one from the budget of a visitor's network, or without an address from that of all visitors
    /// together, which has `count_max` and is full again after `span`.
    pub fn take_within(
        &self,
        address: Option<IpAddr>,
        count_max: u32,
        span: Duration,
        now: Instant,
    ) -> Result<(), u64> {
        let holder = address.map_or(BucketHolder::All, |address| BucketHolder::Network(network(address)));
        self.take_of(holder, count_max, span, now)
    }

    /// Takes one from the budget of a mail address, which is full again after `span`.
    pub fn take_for_mailbox(
        &self,
        address: &str,
        count_max: u32,
        span: Duration,
        now: Instant,
    ) -> Result<(), u64> {
        let holder = BucketHolder::Mailbox(short_hash(&address.to_lowercase()));
        self.take_of(holder, count_max, span, now)
    }

    /// Takes a page from the budget of a proof of work.
    pub fn take_proven(&self, proof: &str, pages_per_minute: u32, now: Instant) -> Result<(), u64> {
        self.take_of(BucketHolder::Proof(short_hash(proof)), pages_per_minute, MINUTE, now)
    }

    fn take_of(&self, holder: BucketHolder, count_max: u32, span: Duration, now: Instant) -> Result<(), u64> {
        let full = f64::from(count_max);
        let per_second = full / span.as_secs_f64();
        let filled = |bucket: &PageBucket| {
            let seconds = now.saturating_duration_since(bucket.at).as_secs_f64();
            (bucket.pages + seconds * per_second).min(full)
        };
        let mut buckets = self.buckets.lock();
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(&holder) {
            buckets.retain(|_, bucket| filled(bucket) < full);
            if buckets.len() >= BUCKETS_MAX {
                // So many networks at once are no one crawler.
                buckets.retain(|holder, _| *holder == BucketHolder::All);
            }
        }
        let bucket = buckets.entry(holder).or_insert(PageBucket { pages: full, at: now });
        *bucket = PageBucket { pages: filled(bucket), at: now };
        if bucket.pages < 1.0 {
            let seconds = (1.0 - bucket.pages) / per_second.max(f64::MIN_POSITIVE);
            return Err(seconds.ceil().clamp(1.0, 3_600.0) as u64);
        }
        bucket.pages -= 1.0;
        Ok(())
    }

    /// Returns the challenge for a visitor.
    pub fn challenge(&self, address: IpAddr, now_secs: u64) -> String {
        self.challenge_of(address, now_secs / CHALLENGE_SECS)
    }

    fn challenge_of(&self, address: IpAddr, hour: u64) -> String {
        let tag = hmac::sign(&self.key, format!("{} {hour}", network(address)).as_bytes());
        let octets: Vec<u8> = tag.as_ref().iter().take(CHALLENGE_BYTES).copied().collect();
        BASE64_URL_SAFE_NO_PAD.encode(octets)
    }

    /// Returns whether a proof, `challenge.number`, solves a challenge that this visitor could have.
    pub fn is_proof(&self, proof: &str, address: IpAddr, now_secs: u64) -> bool {
        let hour = now_secs / CHALLENGE_SECS;
        let Some((challenge, _)) = proof.split_once('.').filter(|_| proof.len() <= PROOF_BYTES_MAX) else {
            return false;
        };
        let is_ours =
            [hour, hour.saturating_sub(1)].iter().any(|at| self.challenge_of(address, *at) == challenge);
        is_ours && zero_bits(digest::digest(&digest::SHA256, proof.as_bytes()).as_ref()) >= WORK_BITS
    }
}

/// Returns the beginning of the hash of a text.
fn short_hash(text: &str) -> [u8; 16] {
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    hash.as_ref().first_chunk().copied().unwrap_or_default()
}

/// Returns the number of zero bits with which octets begin.
fn zero_bits(octets: &[u8]) -> u32 {
    let zeros = octets.iter().take_while(|octet| **octet == 0).count();
    let next = octets.get(zeros).map_or(0, |octet| octet.leading_zeros());
    8 * u32::try_from(zeros).unwrap_or(u32::MAX / 8) + next
}

/// Returns the network of an address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let kept = u32::from(address) & (u32::MAX << (u32::BITS - V4_BITS));
            IpAddr::V4(kept.into())
        }
        IpAddr::V6(address) => {
            let kept = u128::from(address) & (u128::MAX << (u128::BITS - V6_BITS));
            IpAddr::V6(Ipv6Addr::from(kept))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_one_budget_that_fills_again() {
        let budgets = NetworkBudgets::new();
        let now = Instant::now();
        let take = |address: &str, now: Instant| budgets.take(address.parse().unwrap(), 60, now);
        for n in 0..60 {
            assert_eq!(take(&format!("192.0.2.{n}"), now), Ok(()));
        }
        assert_eq!(take("192.0.2.99", now), Err(1));
        assert_eq!(take("198.51.100.1", now), Ok(()), "another network");
        assert_eq!(take("::ffff:192.0.2.1", now), Err(1), "an address in another form");
        assert_eq!(take("192.0.2.99", now + Duration::from_secs(1)), Ok(()));
        assert_eq!(take("192.0.2.99", now + Duration::from_secs(1)), Err(1));
        for n in 0..60 {
            assert_eq!(take(&format!("2001:db8:1:{n}::1"), now), Ok(()));
        }
        assert_eq!(take("2001:db8:1:ffff::1", now), Err(1));
        assert_eq!(take("2001:db8:2::1", now), Ok(()));
    }

    #[test]
    fn all_visitors_together_have_a_budget_that_networks_do_not_clear() {
        let budgets = NetworkBudgets::new();
        let (now, day) = (Instant::now(), Duration::from_secs(86_400));
        let take = |address: Option<u32>, now| {
            budgets.take_within(address.map(|n| IpAddr::V4((n << 8).into())), 2, day, now)
        };
        assert_eq!([take(None, now), take(None, now), take(None, now)], [Ok(()), Ok(()), Err(3_600)]);
        for n in 0..=u32::try_from(BUCKETS_MAX).unwrap() {
            assert_eq!(take(Some(n), now), Ok(()));
        }
        assert_eq!(take(None, now), Err(3_600));
        assert_eq!(take(None, now + day / 2), Ok(()));
    }

    #[test]
    fn buckets_are_bounded() {
        let budgets = NetworkBudgets::new();
        let now = Instant::now();
        for n in 0..=u32::try_from(BUCKETS_MAX).unwrap() {
            let address = IpAddr::V4((n << 8).into());
            budgets.take(address, 10, now).unwrap();
        }
        assert!(budgets.buckets.lock().len() <= BUCKETS_MAX);
    }

    #[test]
    fn only_work_for_this_network_and_hour_is_a_proof() {
        let budgets = NetworkBudgets::new();
        let (here, there) = ("192.0.2.1".parse().unwrap(), "198.51.100.1".parse().unwrap());
        let now = 1_000_000;
        let challenge = budgets.challenge(here, now);
        let proofs = (0..).map(|number| format!("{challenge}.{number}"));
        let is_solved = |proof: &String| {
            zero_bits(digest::digest(&digest::SHA256, proof.as_bytes()).as_ref()) >= WORK_BITS
        };
        let proof = proofs.into_iter().find(is_solved).unwrap();
        assert!(budgets.is_proof(&proof, here, now));
        assert!(budgets.is_proof(&proof, here, now + CHALLENGE_SECS), "the hour before counts");
        assert!(!budgets.is_proof(&proof, here, now + 2 * CHALLENGE_SECS));
        assert!(!budgets.is_proof(&proof, there, now));
        assert!(!NetworkBudgets::new().is_proof(&proof, here, now), "the key is another after a restart");
        for wrong in ["", ".", &challenge, &format!("{challenge}.x"), &"x".repeat(200)] {
            assert!(!budgets.is_proof(wrong, here, now), "{wrong}");
        }
        assert_eq!((zero_bits(&[0, 0, 1]), zero_bits(&[0x80]), zero_bits(&[])), (23, 0, 0));
    }
}
