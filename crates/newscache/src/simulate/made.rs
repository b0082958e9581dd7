//! Synthetic traces, for tests and for comparing strategies; identical on every machine.
//!
//! [`paper`] has returning readers, with the shares that the NewsCache paper reports; [`scans`] has them
//! beside programs that fetch whole groups; [`decay`] has no readers: each article has a popularity, which
//! fades. The others are simple: [`zipf`], [`scan`], [`mixed`], [`repeated`], [`downloads`]. Called by tests.

use super::trace::{Trace, TraceBuilder};

const DAY: u64 = 86_400;
/// Time at which traces begin: some Monday.
const BEGIN: u64 = 1_767_571_200;

/// Requests of table 3 of the paper: for articles, and all others.
pub const PAPER_ARTICLES: u64 = 205_363;
const PAPER_OTHERS: u64 = 322_934 - PAPER_ARTICLES;
/// Sessions, clients and groups of section 6.
const PAPER_SESSIONS: u64 = 6350;
const PAPER_CLIENTS: u64 = 309;
const PAPER_GROUPS: u64 = 1314;
/// Percentage of the requests for the ten most popular groups.
const PAPER_TOP_PERCENT: u64 = 59;
const TOP: u64 = 10;
const PAPER_DAYS: u64 = 10;
/// Distance that readers go back: the median, and the spread.
const PATIENCE: f64 = 300.0;
const PATIENCE_SPREAD: f64 = 1.5;

/// SplitMix64.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a rank below `end`, where rank r has the weight 1 / (r + 1).
    fn rank(&mut self, end: u64) -> u64 {
        (((end as f64 + 1.0).powf(self.unit()) - 1.0) as u64).min(end - 1)
    }

    /// Returns a value of a distribution with a long tail: half of the values are below `middle`.
    fn tailed(&mut self, middle: f64, spread: f64) -> f64 {
        let normal: f64 = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
        middle * (normal * spread).exp()
    }
}

/// A growing group.
struct GrowingGroup {
    /// Index in the list of groups, and part of its name.
    number: u64,
    /// Number of new articles per day.
    per_day: f64,
    is_binary: bool,
    /// Number of articles at the beginning.
    before: u64,
}

impl GrowingGroup {
    fn high(&self, at: u64) -> u64 {
        self.before + (self.per_day * (at - BEGIN) as f64 / DAY as f64) as u64
    }
}

/// Returns the size of an article, which depends on its name alone.
fn size(group: u64, number: u64, is_binary: bool) -> u64 {
    let mut random = SplitMix(group.wrapping_mul(0x1234_5678_9abc) ^ number);
    let bytes = if is_binary { random.tailed(60_000.0, 1.0) } else { random.tailed(1900.0, 0.6) };
    bytes.clamp(300.0, 2_000_000.0) as u64
}

fn groups(count: u64, random: &mut SplitMix) -> Vec<GrowingGroup> {
    let group = |at: u64| {
        let per_day = random.tailed(if at < TOP { 100.0 } else { 14.0 }, 0.8);
        GrowingGroup { number: at, per_day, is_binary: at % 9 == 3, before: (per_day * 12.0) as u64 }
    };
    (0..count).map(group).collect()
}

/// A reader: the groups it follows, and the number up to which it has read each.
struct SimulatedReader {
    follows: Vec<u64>,
    places: std::collections::HashMap<u64, u64>,
    /// Percentage of new articles that it reads.
    thorough: u64,
    /// Maximum number of articles that it goes back.
    patience: u64,
}

fn reader(random: &mut SplitMix) -> SimulatedReader {
    let count = 2 + random.below(14);
    let follow = |random: &mut SplitMix| match random.below(100) {
        0..PAPER_TOP_PERCENT => random.rank(TOP),
        _ => TOP + random.rank(PAPER_GROUPS - TOP),
    };
    let follows = (0..count).map(|_| follow(random)).collect();
    let patience = random.tailed(PATIENCE, PATIENCE_SPREAD) as u64;
    SimulatedReader { follows, places: Default::default(), thorough: 20 + random.below(70), patience }
}

/// Simulates one visit of a group: some of the articles since the last one, or of the newest ones.
fn visit(
    to: &mut TraceBuilder,
    random: &mut SplitMix,
    group: &GrowingGroup,
    reader: &mut SimulatedReader,
    client: &str,
    at: u64,
    most: u64,
) -> u64 {
    let n = group.number;
    let high = group.high(at);
    let oldest = high.saturating_sub((group.per_day * 12.0) as u64);
    let first = high.saturating_sub(30 + random.below(120));
    // A reader that has missed too many articles skips them.
    let place =
        reader.places.get(&n).copied().unwrap_or(first).max(oldest).max(high.saturating_sub(reader.patience));
    let name = format!("g{n}");
    let (mut read, mut number) = (0, place);
    while number < high && read < most {
        number += 1;
        // Threads that interest one reader interest others.
        let interest = SplitMix((n << 32) | (number / 3)).below(100);
        if (interest + random.below(100)) / 2 < reader.thorough {
            read += 1;
            let bytes = size(n, number, group.is_binary);
            to.article(at + read * 20, client, &name, number, "", bytes);
        }
    }
    reader.places.insert(n, number);
    read
}

/// Returns a trace of returning readers, as in the paper's trial of ten days.
pub fn paper(seed: u64) -> Trace {
    let mut to = TraceBuilder::default();
    let random = &mut SplitMix(seed);
    let groups = groups(PAPER_GROUPS, random);
    let mut readers: Vec<SimulatedReader> = (0..PAPER_CLIENTS).map(|_| reader(random)).collect();
    readings(&mut to, random, &groups, &mut readers);
    (0..PAPER_OTHERS).for_each(|_| to.other());
    to.finish()
}

/// Simulates all sessions of the paper's trial.
fn readings(
    to: &mut TraceBuilder,
    random: &mut SplitMix,
    groups: &[GrowingGroup],
    readers: &mut [SimulatedReader],
) {
    let (mut articles, mut of_top) = (0, 0);
    for session in 0..PAPER_SESSIONS {
        let at = BEGIN + session * PAPER_DAYS * DAY / PAPER_SESSIONS;
        // Every client comes once at first; then some come often.
        let who = if session < PAPER_CLIENTS { session } else { random.rank(PAPER_CLIENTS) };
        let Some(reader) = readers.get_mut(who as usize) else { continue };
        let client = format!("192.0.2.{who}");
        let due = PAPER_ARTICLES * (session + 1) / PAPER_SESSIONS;
        let mut visits = 0;
        while articles < due {
            visits += 1;
            let wants_top = of_top * 100 < articles * PAPER_TOP_PERCENT;
            let own: Vec<u64> = reader.follows.iter().copied().filter(|n| (*n < TOP) == wants_top).collect();
            let n = match own.get(random.below(own.len().max(1) as u64) as usize) {
                Some(own) if visits < 6 => *own,
                // Every group is visited once.
                _ if wants_top => random.below(TOP),
                _ => TOP + (session * 7 + visits) % (PAPER_GROUPS - TOP),
            };
            let Some(group) = groups.get(n as usize) else { continue };
            let most = (due - articles).min(60) + random.below(30);
            let most = most.min(PAPER_ARTICLES - articles);
            let at = at + visits * 60;
            let mut read = visit(to, random, group, reader, &client, at, most);
            if read == 0 {
                // Without new articles an older one is read again.
                let number = group.high(at).saturating_sub(random.rank(100)).max(1);
                to.article(at, &client, &format!("g{n}"), number, "", size(n, number, group.is_binary));
                read = 1;
            }
            articles += read;
            of_top += if n < TOP { read } else { 0 };
        }
    }
}

/// Returns a trace of the same readers, and of three programs that fetch all of some groups every night.
pub fn scans(seed: u64) -> Trace {
    let mut to = TraceBuilder::default();
    let random = &mut SplitMix(seed ^ 0x5ca5);
    let groups = groups(PAPER_GROUPS, random);
    let mut readers: Vec<SimulatedReader> = (0..PAPER_CLIENTS).map(|_| reader(random)).collect();
    readings(&mut to, random, &groups, &mut readers);
    for night in 1..PAPER_DAYS {
        for program in 0..3_u64 {
            for n in (0..60).map(|at| TOP + (program * 400 + night * 60 + at) % (PAPER_GROUPS - TOP)) {
                let Some(group) = groups.get(n as usize) else { continue };
                let at = BEGIN + night * DAY + 3 * 3600 + program * 600;
                let high = group.high(at);
                let first = high.saturating_sub((group.per_day * 12.0) as u64).max(1);
                for number in first..high {
                    let bytes = size(n, number, group.is_binary);
                    to.article(at + number % 500, "192.0.2.250", &format!("g{n}"), number, "", bytes);
                }
            }
        }
    }
    to.finish()
}

/// Returns a trace of articles whose popularity fades with the days since their posting; without readers.
pub fn decay(seed: u64) -> Trace {
    let mut to = TraceBuilder::default();
    let random = &mut SplitMix(seed ^ 0xdeca);
    let count = 300;
    let groups = groups(count, random);
    // In each group readers look back a different time, in days.
    let patience: Vec<f64> = (0..count).map(|_| random.tailed(1.2, 0.7)).collect();
    for request in 0..200_000_u64 {
        let at = BEGIN + request * PAPER_DAYS * DAY / 200_000;
        let n = random.rank(count);
        let (Some(group), Some(patience)) = (groups.get(n as usize), patience.get(n as usize)) else {
            continue;
        };
        let age_days = -patience * (1.0 - random.unit()).ln();
        let back = (age_days * group.per_day) as u64;
        let newest = group.high(at);
        let near = newest.saturating_sub(back).max(1);
        // The most interesting one of some that were posted together.
        let few = (0..4).map(|_| (near + random.below(8)).min(newest.max(1)));
        let number = few.min_by_key(|number| SplitMix((n << 40) ^ number).next()).unwrap_or(near);
        let bytes = size(n, number, group.is_binary);
        to.article(at, &format!("192.0.2.{}", random.below(250)), &format!("g{n}"), number, "", bytes);
    }
    to.finish()
}

/// Number of requests of the simple traces.
const SIMPLE_REQUESTS: u64 = 100_000;

/// Returns a size between 1 and 5 KB, which depends on the article alone.
fn plain_size(article: u64) -> u64 {
    1000 + SplitMix(article).below(4000)
}

/// Returns a trace of 5,000 articles of one group whose popularity does not change.
pub fn zipf(seed: u64) -> Trace {
    let (mut to, random) = (TraceBuilder::default(), &mut SplitMix(seed));
    for request in 0..SIMPLE_REQUESTS {
        let number = random.rank(5000) + 1;
        to.article(BEGIN + request, "192.0.2.1", "g0", number, "", plain_size(number));
    }
    to.finish()
}

/// Returns a trace of a popular group; a third of the requests read another one once from end to end.
pub fn scan(seed: u64) -> Trace {
    let (mut to, random, mut place) = (TraceBuilder::default(), &mut SplitMix(seed), 0);
    for request in 0..SIMPLE_REQUESTS {
        let (group, number) = if (request / 2000) % 3 == 2 {
            place += 1;
            ("g1", place)
        } else {
            ("g0", random.rank(2000) + 1)
        };
        to.article(BEGIN + request, "192.0.2.1", group, number, "", plain_size(number));
    }
    to.finish()
}

/// Returns a trace of popular groups, groups that are read repeatedly, and groups that are read once.
pub fn mixed(seed: u64) -> Trace {
    let (mut to, random) = (TraceBuilder::default(), &mut SplitMix(seed));
    let mut places = [0_u64; 20];
    for request in 0..SIMPLE_REQUESTS {
        let group = random.below(20);
        let Some(place) = places.get_mut(group as usize) else { continue };
        *place += 1;
        let number = match group {
            0..8 => random.rank(400) + 1,
            8..14 => *place % 300 + 1,
            _ => *place,
        };
        let bytes = plain_size(number ^ (group << 32));
        to.article(BEGIN + request, "192.0.2.1", &format!("g{group}"), number, "", bytes);
    }
    to.finish()
}

/// Returns a trace of `articles` articles, read in the same order `times` times.
pub fn repeated(seed: u64, articles: u64, times: u64) -> Trace {
    let mut to = TraceBuilder::default();
    for request in 0..articles * times {
        let number = request % articles + 1;
        to.article(BEGIN + request, "192.0.2.1", "g0", number, "", plain_size(seed ^ number));
    }
    to.finish()
}

/// Returns a trace of downloads of 10 to 90 large articles by their Message-IDs, each of which is read up to
/// three times before the next one begins.
pub fn downloads(seed: u64, count: u64) -> Trace {
    let (mut to, random, mut at) = (TraceBuilder::default(), &mut SplitMix(seed), BEGIN);
    for download in 0..count {
        let (articles, times) = (10 + random.below(80), 1 + random.below(3));
        for article in (0..times).flat_map(|_| 0..articles) {
            let id = format!("<{article}.{download}@made.example>");
            at += 1;
            to.article(at, "192.0.2.1", "", 0, &id, 700_000 + SplitMix(article).below(50_000));
        }
    }
    to.finish()
}

/// Returns a trace of downloads that are read once, of which the last `hot` articles are read twice more, and
/// then one of `articles` that is read twice.
pub fn download_after_others(others: u64, hot: u64, articles: u64) -> Trace {
    let (mut to, mut at) = (TraceBuilder::default(), BEGIN);
    let before = (0..others).chain((0..2).flat_map(|_| others - hot..others));
    let twice = (0..2).flat_map(|_| others..others + articles);
    for article in before.chain(twice) {
        at += 1;
        let id = format!("<{article}@made.example>");
        to.article(at, "192.0.2.1", "", 0, &id, 700_000 + SplitMix(article).below(50_000));
    }
    to.finish()
}
