//! Lock-outs of clients that guess: after a number of failures an address or a user's name is refused for a
//! time that doubles with every further failure.
//!
//! A name is treated alike whether or not it is a user's. A user who has logged in from an address stays
//! welcome there, whatever others do from that address or elsewhere with that name, so that no one can be
//! locked out by strangers or by others behind the same NAT; such a pair has a count of its own. Failures
//! fade with time and no success clears them: otherwise a guesser with an account could clear them between
//! its guesses. The table has a limit; when it is full, entries without recent failures are dropped. Called
//! by `gate`. Source: RFC 4643 section 6 and guarantee G6.

use super::users::prepared;
use hashbrown::HashMap;
use site_base::back_off::BackOff;
use site_base::lock::Leaf;
use site_config::Auth;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Time for which a user is known at an address after logging in from it.
const KNOWN_TIME: Duration = Duration::from_secs(86_400);
/// Length to which names are cut for counting.
const NAME_BYTES_MAX: usize = 128;

/// The address or user whose failures are counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum LockoutSubject {
    Address(IpAddr),
    User(Box<[u8]>),
    /// A user at an address from which that user has logged in.
    Known(IpAddr, Box<[u8]>),
}

/// The failures of one subject.
#[derive(Debug, Clone, Copy)]
struct FailureRecord {
    failures: u32,
    /// Time up to which failures have faded; while locked out they do not fade.
    faded: Instant,
    /// The end of the latest lock-out.
    until: Instant,
    /// A refusal in this lock-out has been logged already.
    is_reported: bool,
    /// The last failure or login.
    last: Instant,
    /// The last login, of a user at an address.
    login: Instant,
}

impl FailureRecord {
    fn new(now: Instant) -> Self {
        Self { failures: 0, faded: now, until: now, is_reported: false, last: now, login: now }
    }

    /// Fades failures, `free` of them in each `span`.
    fn fade(&mut self, free: u32, span: Duration, now: Instant) {
        let from = self.faded.max(self.until);
        let step = (span / free.max(1)).max(Duration::from_millis(1));
        let steps = now.saturating_duration_since(from).as_millis() / step.as_millis();
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        self.faded = if steps >= self.failures { now.max(from) } else { from + step * steps };
        self.failures = self.failures.saturating_sub(steps);
    }
}

/// Table of failures by address and by user.
#[derive(Debug)]
pub(super) struct LockoutTable {
    table: Leaf<HashMap<LockoutSubject, FailureRecord>>,
    per_address_max: u32,
    per_user_max: u32,
    lockouts: BackOff,
    entries_max: usize,
}

/// The result of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FailureCount {
    /// Failures of the address that have not faded.
    pub failures: u32,
    /// Time for which the address or the user is locked out now; zero if not yet.
    pub locked: Duration,
}

/// A lock-out that refuses a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ActiveLockout {
    /// Remaining time.
    pub left: Duration,
    /// No login has been refused by this lock-out before.
    pub is_first: bool,
}

/// Returns the address as counted: for IPv6 the /64 network, which belongs to one customer.
pub fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6) & (u128::MAX << 64))),
        v4 => v4,
    }
}

/// Returns the name under which failures are counted: prepared as for the check of its password, and in lower
/// case, since directories compare names without case. An invalid name counts as it is.
fn user(name: &[u8]) -> Box<[u8]> {
    match prepared(name) {
        Some(name) => name.to_lowercase().into_bytes().into(),
        None => name.get(..NAME_BYTES_MAX).unwrap_or(name).into(),
    }
}

type Table = HashMap<LockoutSubject, FailureRecord>;

impl LockoutTable {
    pub fn new(auth: &Auth) -> Self {
        Self {
            table: Leaf::default(),
            per_address_max: auth.failures_per_address_max,
            per_user_max: auth.failures_per_user_max,
            lockouts: BackOff::new(auth.lockout_first, auth.lockout_longest),
            entries_max: auth.lockout_entries_max,
        }
    }

    /// Applies other limits from now on; counts are kept.
    pub fn set_limits(&mut self, auth: &Auth) {
        let table = std::mem::take(&mut self.table);
        *self = Self { table, ..Self::new(auth) };
    }

    /// Returns the lock-out that refuses a login as `name` from `address`, if any.
    pub fn locked(&self, address: IpAddr, name: &[u8], now: Instant) -> Option<ActiveLockout> {
        let mut table = self.table.lock();
        let (own, others) = subjects(&table, counted(address), name, now);
        let deciding = own.map_or_else(|| others.to_vec(), |own| vec![own]);
        let left = |table: &Table, subject: &LockoutSubject| {
            table.get(subject).map_or(Duration::ZERO, |record| record.until.saturating_duration_since(now))
        };
        let longest = deciding.into_iter().max_by_key(|subject| left(&table, subject))?;
        let left = Some(left(&table, &longest)).filter(|left| !left.is_zero())?;
        let is_reported = table.get_mut(&longest).map(|record| &mut record.is_reported)?;
        Some(ActiveLockout { left, is_first: !std::mem::replace(is_reported, true) })
    }

    /// Counts a failure.
    pub fn failed(&self, address: IpAddr, name: &[u8], now: Instant) -> FailureCount {
        let mut table = self.table.lock();
        let (own, [by_address, by_name]) = subjects(&table, counted(address), name, now);
        let by_address = self.count(&mut table, by_address, self.per_address_max, now);
        let by_name = self.count(&mut table, by_name, self.per_user_max, now);
        let own = own.map(|own| self.count(&mut table, own, self.per_address_max, now));
        let left = |record: FailureRecord| record.until.saturating_duration_since(now);
        let locked = own.map_or_else(|| left(by_address).max(left(by_name)), left);
        FailureCount { failures: by_address.failures, locked }
    }

    fn count(&self, table: &mut Table, subject: LockoutSubject, free: u32, now: Instant) -> FailureRecord {
        self.make_room(table, &subject);
        let record = table.entry(subject).or_insert(FailureRecord::new(now));
        record.fade(free, self.lockouts.longest(), now);
        record.failures = record.failures.saturating_add(1);
        record.last = now;
        if let Some(over) = record.failures.checked_sub(free) {
            record.until = now + self.lockouts.exact(over.saturating_add(1));
            record.is_reported = false;
        }
        *record
    }

    /// Records a successful login.
    pub fn succeeded(&self, address: IpAddr, name: &[u8], now: Instant) {
        let mut table = self.table.lock();
        let known = LockoutSubject::Known(counted(address), user(name));
        self.make_room(&mut table, &known);
        let record = table.entry(known).or_insert(FailureRecord::new(now));
        (record.last, record.login) = (now, now);
    }

    /// Drops the entries that have been quiet longest if there is no room for `subject`.
    fn make_room(&self, table: &mut Table, subject: &LockoutSubject) {
        if table.len() < self.entries_max || table.contains_key(subject) {
            return;
        }
        // A sixteenth is dropped at once, so that a full table is not searched at every failure.
        let mut quiet: Vec<Instant> = table.values().map(|record| record.last).collect();
        let nth = self.entries_max / 16;
        let (_, newest, _) = quiet.select_nth_unstable(nth.min(table.len() - 1));
        let newest = *newest;
        table.retain(|_, record| record.last > newest);
    }
}

/// Returns the user at this address, if known there, and the two subjects for which all failures count:
/// address and name.
fn subjects(
    table: &Table,
    address: IpAddr,
    name: &[u8],
    now: Instant,
) -> (Option<LockoutSubject>, [LockoutSubject; 2]) {
    let known = LockoutSubject::Known(address, user(name));
    let is_known =
        table.get(&known).is_some_and(|known| now.saturating_duration_since(known.login) < KNOWN_TIME);
    (is_known.then_some(known), [LockoutSubject::Address(address), LockoutSubject::User(user(name))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lockout() -> LockoutTable {
        LockoutTable {
            table: Leaf::default(),
            per_address_max: 3,
            per_user_max: 5,
            lockouts: BackOff::new(Duration::from_secs(2), Duration::from_secs(10)),
            entries_max: 100,
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn secs_left(lockout: &LockoutTable, address: IpAddr, name: &[u8], now: Instant) -> Option<u64> {
        lockout.locked(address, name, now).map(|locked| locked.left.as_secs())
    }

    #[test]
    fn the_delay_doubles_up_to_its_limit_and_ends() {
        let lockout = lockout();
        let (here, now) = (ip("192.0.2.1"), Instant::now());
        let delays: Vec<u64> = (0..7u8).map(|n| lockout.failed(here, &[n], now).locked.as_secs()).collect();
        assert_eq!(delays, [0, 0, 2, 4, 8, 10, 10]);
        assert_eq!(secs_left(&lockout, here, b"anybody", now), Some(10));
        assert_eq!(secs_left(&lockout, ip("192.0.2.2"), b"anybody", now), None);
        assert_eq!(secs_left(&lockout, here, b"anybody", now + Duration::from_secs(10)), None);
        // Nothing fades during the lock-out.
        let at_once = now + Duration::from_secs(10);
        assert_eq!(lockout.failed(here, b"x", at_once).failures, 8);
        // Failures fade after a quiet time.
        let later = at_once + Duration::from_secs(40);
        assert_eq!(lockout.failed(here, b"z", later), FailureCount { failures: 1, locked: Duration::ZERO });
    }

    /// All of these have the same password.
    #[test]
    fn a_name_counts_once_however_it_is_written() {
        let (lockout, now) = (lockout(), Instant::now());
        let names = ["fred", "f\u{ad}red", "fr\u{200d}ed", "\u{ff46}red", "FRED"];
        for (n, name) in (1..).zip(names) {
            lockout.failed(ip(&format!("192.0.2.{n}")), name.as_bytes(), now);
        }
        assert!(lockout.locked(ip("192.0.2.9"), b"Fred", now).is_some());
        assert!(lockout.locked(ip("192.0.2.9"), b"wilma", now).is_none());
    }

    #[test]
    fn failures_fade_one_by_one() {
        let lockout = lockout();
        let (here, now) = (ip("192.0.2.1"), Instant::now());
        let failures = |secs| lockout.failed(here, b"x", now + Duration::from_secs(secs)).failures;
        // Three in ten seconds are allowed: one fades every 3.3 s.
        assert_eq!([failures(0), failures(1), failures(4), failures(8), failures(12)], [1, 2, 2, 2, 2]);
        // The third of them locks out for two seconds, in which nothing fades.
        assert_eq!([failures(13), failures(14)], [3, 4]);
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
        assert!(lockout.locked(ip("2001:db8::1"), b"fred", now + KNOWN_TIME).is_none(), "faded");
    }

    #[test]
    fn a_guesser_with_an_account_clears_nothing() {
        let lockout = lockout();
        let (here, now) = (ip("192.0.2.1"), Instant::now());
        let mut judged = 0;
        for n in 0..60u8 {
            let name = [b'u', n];
            if lockout.locked(here, &name, now).is_none() {
                judged += 1;
                lockout.failed(here, &name, now);
            }
            assert_eq!(lockout.locked(here, b"mallory", now), None, "an own account is never locked out");
            lockout.succeeded(here, b"mallory", now);
        }
        assert_eq!(judged, 3);
    }

    #[test]
    fn neighbours_of_a_guesser_stay_welcome_and_can_be_guessed_at_no_longer_than_others() {
        let lockout = lockout();
        let (nat, now) = (ip("192.0.2.1"), Instant::now());
        lockout.succeeded(nat, b"fred", now);
        for _ in 0..9 {
            lockout.failed(nat, b"wilma", now);
        }
        assert!(lockout.locked(nat, b"wilma", now).is_some());
        assert_eq!(lockout.locked(nat, b"fred", now), None);
        lockout.failed(nat, b"fred", now);
        lockout.succeeded(nat, b"fred", now);
        assert_eq!(lockout.locked(nat, b"fred", now), None);
        let delays = [(); 3].map(|()| lockout.failed(nat, b"fred", now).locked.as_secs());
        assert_eq!(delays, [0, 2, 4]);
        assert_eq!(secs_left(&lockout, nat, b"fred", now), Some(4));
    }

    #[test]
    fn each_lock_out_is_reported_once() {
        let lockout = lockout();
        let (here, now) = (ip("192.0.2.1"), Instant::now());
        for _ in 0..3 {
            lockout.failed(here, b"x", now);
        }
        let first =
            |at| (0..20).filter(|_| lockout.locked(here, b"x", at).is_some_and(|l| l.is_first)).count();
        assert_eq!(first(now), 1);
        let later = now + Duration::from_secs(3);
        assert_eq!(first(later), 0);
        lockout.failed(here, b"x", later);
        assert_eq!(first(later), 1);
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
