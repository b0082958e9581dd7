//! Locking out who guesses: after so many failures an address, or a user's name, is refused for a time that doubles with
//! every further failure.
//!
//! Whether a name is a user's makes no difference here. An address from which a user has logged in stays open for that
//! user, so that strangers cannot lock anybody out. The table has a limit; when it is full, whoever has been quiet longest
//! is forgotten. Called by `gate`. Source: RFC 4643 section 6 and guarantee G6.

use crate::config::Auth;
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// How long an address stays open for a user who has logged in from it.
const KNOWN_TIME: Duration = Duration::from_secs(86_400);
/// Of a name so many bytes tell it from others.
const NAME_BYTES_MAX: usize = 128;

/// What is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    Address(IpAddr),
    User(Box<[u8]>),
    /// A user who has logged in from an address.
    Known(IpAddr, Box<[u8]>),
}

#[derive(Debug, Clone, Copy)]
struct Record {
    failures: u32,
    last: Instant,
    until: Instant,
}

/// Failures by address and by user.
#[derive(Debug)]
pub(super) struct Lockout {
    table: Mutex<HashMap<Subject, Record>>,
    per_address_max: u32,
    per_user_max: u32,
    first: Duration,
    longest: Duration,
    entries_max: usize,
}

/// What a failure led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    /// Failures of the address so far.
    pub failures: u32,
    /// How long it, or the user, is locked out now; zero: not yet.
    pub locked: Duration,
}

/// The address as it is counted: of IPv6 the /64 network, which is one customer's.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6) & (u128::MAX << 64))),
        v4 => v4,
    }
}

fn user(name: &[u8]) -> Box<[u8]> {
    name.get(..name.len().min(NAME_BYTES_MAX)).unwrap_or_default().into()
}

impl Lockout {
    pub fn new(auth: &Auth) -> Self {
        Self {
            table: Mutex::default(),
            per_address_max: auth.failures_per_address_max,
            per_user_max: auth.failures_per_user_max,
            first: auth.lockout_first,
            longest: auth.lockout_longest,
            entries_max: auth.lockout_entries_max,
        }
    }

    /// How much longer a login as `name` from `address` is refused; `None`: it is not.
    pub fn locked(&self, address: IpAddr, name: &[u8], now: Instant) -> Option<Duration> {
        let address = counted(address);
        let table = self.table.lock();
        let left = |subject: &Subject| {
            table
                .get(subject)
                .map(|record| record.until.saturating_duration_since(now))
                .filter(|left| !left.is_zero())
        };
        let known = table
            .get(&Subject::Known(address, user(name)))
            .is_some_and(|record| now.saturating_duration_since(record.last) < KNOWN_TIME);
        let by_user = if known { None } else { left(&Subject::User(user(name))) };
        left(&Subject::Address(address)).max(by_user)
    }

    /// Counts a failure.
    pub fn failed(&self, address: IpAddr, name: &[u8], now: Instant) -> Counted {
        let mut table = self.table.lock();
        let by_address =
            self.count(&mut table, Subject::Address(counted(address)), self.per_address_max, now);
        let by_user = self.count(&mut table, Subject::User(user(name)), self.per_user_max, now);
        let left = |record: Record| record.until.saturating_duration_since(now);
        Counted { failures: by_address.failures, locked: left(by_address).max(left(by_user)) }
    }

    fn count(
        &self,
        table: &mut HashMap<Subject, Record>,
        subject: Subject,
        free: u32,
        now: Instant,
    ) -> Record {
        self.make_room(table, &subject);
        let record = table.entry(subject).or_insert(Record { failures: 0, last: now, until: now });
        if now.saturating_duration_since(record.last) > self.longest {
            record.failures = 0;
        }
        record.failures = record.failures.saturating_add(1);
        record.last = now;
        if let Some(over) = record.failures.checked_sub(free) {
            let factor = 1u32.checked_shl(over).unwrap_or(u32::MAX);
            record.until = now + self.first.saturating_mul(factor).min(self.longest);
        }
        *record
    }

    /// A login succeeded.
    pub fn succeeded(&self, address: IpAddr, name: &[u8], now: Instant) {
        let address = counted(address);
        let mut table = self.table.lock();
        table.remove(&Subject::Address(address));
        let known = Subject::Known(address, user(name));
        self.make_room(&mut table, &known);
        table.insert(known, Record { failures: 0, last: now, until: now });
    }

    /// Forgets whoever has been quiet longest if there is no room for `subject`.
    fn make_room(&self, table: &mut HashMap<Subject, Record>, subject: &Subject) {
        if table.len() < self.entries_max || table.contains_key(subject) {
            return;
        }
        // A sixteenth at once, so that a full table is not searched at every failure.
        let mut quiet: Vec<Instant> = table.values().map(|record| record.last).collect();
        let nth = self.entries_max / 16;
        let (_, newest, _) = quiet.select_nth_unstable(nth.min(table.len() - 1));
        let newest = *newest;
        table.retain(|_, record| record.last > newest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lockout() -> Lockout {
        Lockout {
            table: Mutex::default(),
            per_address_max: 3,
            per_user_max: 5,
            first: Duration::from_secs(2),
            longest: Duration::from_secs(10),
            entries_max: 100,
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_delay_doubles_up_to_its_limit_and_ends() {
        let lockout = lockout();
        let (here, now) = (ip("192.0.2.1"), Instant::now());
        let delays: Vec<u64> = (0..7u8).map(|n| lockout.failed(here, &[n], now).locked.as_secs()).collect();
        assert_eq!(delays, [0, 0, 2, 4, 8, 10, 10]);
        assert_eq!(lockout.locked(here, b"anybody", now), Some(Duration::from_secs(10)));
        assert_eq!(lockout.locked(ip("192.0.2.2"), b"anybody", now), None);
        assert_eq!(lockout.locked(here, b"anybody", now + Duration::from_secs(10)), None);
        // After a quiet time the count begins anew.
        let later = now + Duration::from_secs(21);
        assert_eq!(lockout.failed(here, b"z", later), Counted { failures: 1, locked: Duration::ZERO });
    }

    #[test]
    fn a_user_is_locked_out_for_strangers_only() {
        let lockout = lockout();
        let now = Instant::now();
        lockout.succeeded(ip("2001:db8::1"), b"fred", now);
        for n in 0..5 {
            lockout.failed(ip(&format!("192.0.2.{n}")), b"fred", now);
        }
        assert!(lockout.locked(ip("192.0.2.99"), b"fred", now).is_some());
        assert_eq!(lockout.locked(ip("192.0.2.99"), b"wilma", now), None);
        assert_eq!(lockout.locked(ip("2001:db8::77"), b"fred", now), None, "the same /64");
        assert!(lockout.locked(ip("2001:db8:0:1::1"), b"fred", now).is_some());
    }

    #[test]
    fn success_clears_the_address() {
        let lockout = lockout();
        let (here, now) = (ip("192.0.2.1"), Instant::now());
        lockout.failed(here, b"fred", now);
        lockout.failed(here, b"fred", now);
        lockout.succeeded(here, b"fred", now);
        assert_eq!(lockout.failed(here, b"fred", now).failures, 1);
    }

    #[test]
    fn the_table_is_bounded_and_keeps_the_latest() {
        let lockout = lockout();
        let start = Instant::now();
        for n in 0..10_000u32 {
            let address = IpAddr::V4(n.into());
            lockout.failed(address, &n.to_be_bytes(), start + Duration::from_millis(n.into()));
            assert!(lockout.table.lock().len() <= 100);
        }
        let now = start + Duration::from_secs(10);
        assert_eq!(lockout.failed(IpAddr::V4(9_999.into()), b"x", now).failures, 2);
        assert_eq!(lockout.failed(IpAddr::V4(1.into()), b"x", now).failures, 1);
    }
}
