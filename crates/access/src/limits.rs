//! The counts behind the limits of `[[access]]` sections: connections, bytes per second, posts per hour.
//!
//! Counts are kept per section and per user, or per address ([`counted`]) for clients that are not logged in.
//! An [`AccessPermit`] is a drop guard: its connection counts until it is dropped. Counts of posts outlive
//! connections, in a table of limited size. Called by the session and the web.

use super::connections::{Connections, too_many};
use super::lockout::counted;
use hashbrown::HashMap;
use nntp_io::rate::{Bandwidth, TokenBucket};
use site_base::lock::Leaf;
use site_config::Access;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Users and addresses whose posts are counted at once; beyond it those with the most posts left are dropped.
const POSTERS_MAX: usize = 20_000;

/// The user or address for which something is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ClientKey {
    Address(IpAddr),
    User(Box<str>),
}

/// A subject under the `[[access]]` section of these conditions.
type Key = (u64, ClientKey);

/// All counts of a server.
#[derive(Debug, Default)]
pub struct AccessLimits(Leaf<AccessCounts>);

#[derive(Debug, Default)]
struct AccessCounts {
    connections: Connections<Key>,
    bandwidths: HashMap<Key, Weak<Bandwidth>>,
    posts: HashMap<Key, TokenBucket>,
}

/// A client under a section: the section's limits and the address or user that they count for.
#[derive(Debug, Clone, Copy)]
pub struct LimitSubject<'a> {
    /// The section.
    pub access: &'a Access,
    /// The client's address.
    pub address: IpAddr,
    /// The name that it has logged in as.
    pub user: Option<&'a str>,
}

impl LimitSubject<'_> {
    fn by_address(&self) -> Key {
        (self.access.identity(), ClientKey::Address(counted(self.address)))
    }

    fn by_user(&self) -> Option<Key> {
        self.user.map(|user| (self.access.identity(), ClientKey::User(user.into())))
    }

    fn key(&self) -> Key {
        self.by_user().unwrap_or_else(|| self.by_address())
    }
}

/// The limit on connections that is reached, with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitReached {
    /// `connections_per_address_max`.
    Address(usize),
    /// `connections_per_user_max`.
    User(usize),
}

/// Formats the message for the client.
impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whose, max) = match self {
            Self::Address(max) => (" from your address", max),
            Self::User(max) => (" of this user", max),
        };
        too_many(f, whose, *max)
    }
}

/// A connection's permit under a section.
#[derive(Debug)]
pub struct AccessPermit {
    limits: Arc<AccessLimits>,
    subject: Key,
    counted: Vec<Key>,
    bandwidth: Option<Arc<Bandwidth>>,
}

impl AccessPermit {
    /// Returns true if this is the permit of this client under this section.
    pub fn is_of(&self, subject: &LimitSubject<'_>) -> bool {
        self.subject == subject.key()
    }

    /// Returns the bandwidth that this connection shares with others.
    pub fn bandwidth(&self) -> Option<Arc<Bandwidth>> {
        self.bandwidth.clone()
    }
}

impl Drop for AccessPermit {
    fn drop(&mut self) {
        let mut counts = self.limits.0.lock();
        self.counted.iter().for_each(|key| counts.connections.close(key));
        if let Some(bandwidth) = self.bandwidth.take()
            && Arc::strong_count(&bandwidth) == 1
        {
            counts.bandwidths.retain(|_, known| known.as_ptr() != Arc::as_ptr(&bandwidth));
        }
    }
}

impl AccessLimits {
    /// Returns a permit for a connection if the limits allow it; one that `stays` always gets it.
    pub fn enter(
        self: &Arc<Self>,
        subject: &LimitSubject<'_>,
        stays: bool,
    ) -> Result<AccessPermit, LimitReached> {
        let access = subject.access;
        let mut counts = self.0.lock();
        let mut counted = Vec::new();
        if let Some(max) = access.connections_per_address_max {
            counted.push((subject.by_address(), max, LimitReached::Address(max)));
        }
        if let (Some(max), Some(key)) = (access.connections_per_user_max, subject.by_user()) {
            counted.push((key, max, LimitReached::User(max)));
        }
        for (key, max, crowded) in counted.iter().filter(|_| !stays) {
            if counts.connections.is_full(key, *max) {
                return Err(*crowded);
            }
        }
        let counted: Vec<Key> = counted.into_iter().map(|(key, ..)| key).collect();
        counted.iter().for_each(|key| counts.connections.open(key.clone()));
        let bandwidth = access.bytes_per_sec_max.map(|bytes| {
            let known = counts.bandwidths.get(&subject.key()).and_then(Weak::upgrade);
            known.inspect(|bandwidth| bandwidth.resize(bytes, Instant::now())).unwrap_or_else(|| {
                let bandwidth = Arc::new(Bandwidth::new(bytes, Instant::now()));
                counts.bandwidths.insert(subject.key(), Arc::downgrade(&bandwidth));
                bandwidth
            })
        });
        Ok(AccessPermit { limits: self.clone(), subject: subject.key(), counted, bandwidth })
    }

    /// Counts a post; if there were too many, the error is the time until the next one is allowed.
    pub fn post(&self, subject: &LimitSubject<'_>, now: Instant) -> Result<(), Duration> {
        let Some(max) = subject.access.posts_per_hour_max else { return Ok(()) };
        let mut counts = self.0.lock();
        let key = subject.key();
        if counts.posts.len() >= POSTERS_MAX && !counts.posts.contains_key(&key) {
            counts.posts.retain(|_, bucket| !bucket.is_full(now));
            if counts.posts.len() >= POSTERS_MAX {
                forget_fullest(&mut counts.posts, now);
            }
        }
        let hour = Duration::from_secs(3600);
        let bucket = counts.posts.entry(key).or_insert_with(|| TokenBucket::new(max, hour, now));
        bucket.resize(max, now);
        bucket.ready(1, now)?;
        bucket.take(1);
        Ok(())
    }
}

fn forget_fullest(posts: &mut HashMap<Key, TokenBucket>, now: Instant) {
    let fullest = posts
        .iter_mut()
        .map(|(key, bucket)| (bucket.ready(1, now).unwrap_or_default(), key))
        .max_by_key(|(tokens, _)| *tokens)
        .map(|(_, key)| key.clone());
    if let Some(key) = fullest {
        posts.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        let text = "[[access]]\nfrom = \"all\"\nusers = \"*\"\nconnections_per_address_max = 3\n\
                    connections_per_user_max = 2\nbytes_per_sec_max = 100\nposts_per_hour_max = 2\n";
        site_config::testing::with_trash(text).access.remove(0)
    }

    fn subject<'a>(access: &'a Access, host: u8, user: &'a str) -> LimitSubject<'a> {
        LimitSubject { access, address: [192, 0, 2, host].into(), user: Some(user) }
    }

    #[test]
    fn connections_count_until_they_end() {
        let (access, limits) = (access(), Arc::new(AccessLimits::default()));
        let first = limits.enter(&subject(&access, 1, "fred"), false).unwrap();
        let second = limits.enter(&subject(&access, 2, "fred"), false).unwrap();
        assert_eq!(limits.enter(&subject(&access, 3, "fred"), false).unwrap_err(), LimitReached::User(2));
        let others = ["a", "b"].map(|user| limits.enter(&subject(&access, 1, user), false).unwrap());
        assert_eq!(limits.enter(&subject(&access, 1, "c"), false).unwrap_err(), LimitReached::Address(3));
        assert!(Arc::ptr_eq(&first.bandwidth().unwrap(), &second.bandwidth().unwrap()));
        assert!(!Arc::ptr_eq(&first.bandwidth().unwrap(), &others[0].bandwidth().unwrap()));
        drop(first);
        let again = limits.enter(&subject(&access, 3, "fred"), false).unwrap();
        drop((second, again, others));
        let counts = limits.0.lock();
        assert!(counts.connections.is_empty() && counts.bandwidths.is_empty());
    }

    /// A customer has a whole network of IPv6.
    #[test]
    fn one_network_of_ipv6_is_one_address() {
        let (access, limits) = (access(), Arc::new(AccessLimits::default()));
        let from =
            |address: &str| LimitSubject { access: &access, address: address.parse().unwrap(), user: None };
        let enter = |address: &str| limits.enter(&from(address), false);
        let _permits =
            ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:f::"].map(|address| enter(address).unwrap());
        assert_eq!(enter("2001:db8::4").unwrap_err(), LimitReached::Address(3));
        assert!(enter("2001:db8:0:1::1").is_ok() && enter("::ffff:192.0.2.1").is_ok());
        let now = Instant::now();
        assert_eq!(
            ["2001:db8::1", "2001:db8::2"].map(|address| limits.post(&from(address), now)),
            [Ok(()); 2]
        );
        assert!(limits.post(&from("2001:db8::3"), now).is_err());
    }

    #[test]
    fn posts_are_counted_by_user_and_come_back() {
        let (access, limits) = (access(), AccessLimits::default());
        let now = Instant::now();
        let fred = subject(&access, 1, "fred");
        assert_eq!((limits.post(&fred, now), limits.post(&fred, now)), (Ok(()), Ok(())));
        assert_eq!(limits.post(&subject(&access, 9, "fred"), now), Err(Duration::from_secs(1800)));
        assert_eq!(limits.post(&subject(&access, 1, "wilma"), now), Ok(()));
        assert_eq!(limits.post(&fred, now + Duration::from_secs(1800)), Ok(()));
    }

    #[test]
    fn the_table_of_posters_is_bounded() {
        let (access, limits) = (access(), AccessLimits::default());
        let now = Instant::now();
        for n in 0..=POSTERS_MAX {
            assert_eq!(limits.post(&subject(&access, 1, &n.to_string()), now), Ok(()));
        }
        assert_eq!(limits.0.lock().posts.len(), POSTERS_MAX);
    }
}
