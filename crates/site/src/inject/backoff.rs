//! Limit on the rate of posts: after too many fast posts the delay doubles from post to post.
//!
//! Counted for each user, or for the address (for IPv6 its /64 network) of a client that has not logged in;
//! the table is bounded. Called by `inject` for every post. Source: INN's `backoff*` of readers.conf.

use hashbrown::HashMap;
use site_base::back_off::BackOff;
use site_base::lock::Leaf;
use site_config::Posting;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Number of posters remembered at once; those that posted longest ago are dropped first.
const POSTERS_MAX: usize = 16_384;

/// Limits on the rate of a user's or address's posts (`posting.backoff_*`).
#[derive(Debug, Clone, Copy)]
pub(super) struct BackoffLimits {
    /// Fast posts allowed before there is a delay.
    trigger: u32,
    /// Interval below which a post is fast.
    fast: Duration,
    /// Interval after which counting starts over.
    slow: Duration,
    /// The delays.
    waits: BackOff,
}

impl BackoffLimits {
    /// Returns the limits of a configuration.
    pub fn of(posting: &Posting) -> Self {
        Self {
            trigger: posting.backoff_trigger,
            fast: posting.backoff_fast,
            slow: posting.backoff_slow,
            waits: BackOff::new(posting.backoff_first, posting.backoff_longest),
        }
    }
}

/// The subject for which posts are counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum PosterKey {
    User(Box<str>),
    Network(IpAddr),
}

impl PosterKey {
    pub fn new(user: Option<&str>, address: IpAddr) -> Self {
        match (user, address) {
            (Some(user), _) => Self::User(user.into()),
            (None, IpAddr::V6(v6)) => {
                let network = u128::from(v6) & !u128::from(u64::MAX);
                Self::Network(IpAddr::V6(network.into()))
            }
            (None, v4) => Self::Network(v4),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct PostingPace {
    last: Instant,
    /// Posts that came fast after the previous one.
    fast: u32,
    /// Fast posts beyond the allowed number.
    beyond: u32,
    /// Time that must pass after `last`.
    wait: Duration,
}

/// The posting rates of all posters.
#[derive(Debug, Default)]
pub(super) struct PostingPaces {
    posters: Leaf<HashMap<PosterKey, PostingPace>>,
}

impl PostingPaces {
    /// Counts a post; the error is the time that the poster must still wait.
    pub fn post(&self, limits: &BackoffLimits, who: PosterKey, now: Instant) -> Result<(), Duration> {
        let mut posters = self.posters.lock();
        if let Some(pace) = posters.get_mut(&who) {
            let since = now.saturating_duration_since(pace.last);
            if since < pace.wait {
                return Err(pace.wait - since);
            }
            *pace = next(limits, *pace, since, now);
            return Ok(());
        }
        if posters.len() >= POSTERS_MAX {
            forget(limits.slow, &mut posters, now);
        }
        posters.insert(who, PostingPace { last: now, fast: 0, beyond: 0, wait: Duration::ZERO });
        Ok(())
    }
}

fn next(limits: &BackoffLimits, pace: PostingPace, since: Duration, now: Instant) -> PostingPace {
    let rested = since.saturating_sub(pace.wait) >= limits.slow;
    if rested {
        return PostingPace { last: now, fast: 0, beyond: 0, wait: Duration::ZERO };
    }
    let fast = if since <= limits.fast { pace.fast.saturating_add(1) } else { pace.fast };
    if fast < limits.trigger {
        return PostingPace { last: now, fast, beyond: 0, wait: Duration::ZERO };
    }
    let beyond = pace.beyond.saturating_add(1);
    PostingPace { last: now, fast, beyond, wait: limits.waits.exact(beyond) }
}

/// Makes room: drops posters that have rested, and if that is not enough, the half that posted longest ago.
fn forget(slow: Duration, posters: &mut HashMap<PosterKey, PostingPace>, now: Instant) {
    posters.retain(|_, pace| now.saturating_duration_since(pace.last) < pace.wait + slow);
    if posters.len() >= POSTERS_MAX {
        let mut times: Vec<Instant> = posters.values().map(|pace| pace.last).collect();
        let middle = times.len() / 2;
        let (_, median, _) = times.select_nth_unstable(middle);
        let median = *median;
        posters.retain(|_, pace| pace.last > median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    const LIMITS: BackoffLimits =
        BackoffLimits { trigger: 3, fast: secs(1), slow: secs(60), waits: BackOff::new(secs(2), secs(10)) };

    fn who(n: u32) -> PosterKey {
        PosterKey::new(None, IpAddr::V4(n.into()))
    }

    #[test]
    fn the_wait_doubles_and_rest_clears_it() {
        let (paces, start) = (PostingPaces::default(), Instant::now());
        // One post, and three fast ones after it.
        for _ in 0..4 {
            assert_eq!(paces.post(&LIMITS, who(1), start), Ok(()));
        }
        assert_eq!(paces.post(&LIMITS, who(1), start), Err(secs(2)));
        assert_eq!(paces.post(&LIMITS, who(1), start + secs(1)), Err(secs(1)));
        assert_eq!(paces.post(&LIMITS, who(2), start), Ok(()), "others do not wait");
        let mut now = start;
        for wait in [2, 4, 8, 10, 10] {
            now += secs(wait);
            assert_eq!(
                paces.post(&LIMITS, who(1), now - Duration::from_millis(1)),
                Err(Duration::from_millis(1)),
                "{wait}"
            );
            assert_eq!(paces.post(&LIMITS, who(1), now), Ok(()), "{wait}");
        }
        now += secs(70);
        for _ in 0..4 {
            assert_eq!(paces.post(&LIMITS, who(1), now), Ok(()));
        }
        assert_eq!(paces.post(&LIMITS, who(1), now), Err(secs(2)));
    }

    #[test]
    fn slow_posters_never_wait() {
        let (paces, start) = (PostingPaces::default(), Instant::now());
        for n in 0..100 {
            assert_eq!(paces.post(&LIMITS, who(1), start + secs(2 * n)), Ok(()));
        }
    }

    #[test]
    fn users_and_networks_count_separately_and_the_table_is_bounded() {
        let v6 = |text: &str| PosterKey::new(None, text.parse().unwrap());
        assert_eq!(v6("2001:db8::1"), v6("2001:db8::ffff:1:2:3"));
        assert_ne!(v6("2001:db8::1"), v6("2001:db8:0:1::1"));
        assert_ne!(PosterKey::new(Some("a"), [192, 0, 2, 1].into()), who(1));
        let (paces, start) = (PostingPaces::default(), Instant::now());
        for n in 0..3 * POSTERS_MAX as u32 {
            assert_eq!(paces.post(&LIMITS, who(n), start + Duration::from_micros(u64::from(n))), Ok(()));
        }
        assert!(paces.posters.lock().len() <= POSTERS_MAX);
    }
}
