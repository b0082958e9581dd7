//! What the server promised to peers and readers, and whether it still holds.

use crate::machine::{Client, GROUPS};
use std::collections::HashMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two articles of the feed.
const FEED_PAUSE: Duration = Duration::from_millis(2);

/// Numbers and Message-IDs.
type Rows = Vec<(u64, String)>;

/// An article that the server said it has.
struct Acknowledged {
    n: u64,
    sent: Instant,
    answered: Instant,
}

#[derive(Default)]
pub struct Ledger {
    /// With `durability = "always"` nothing acknowledged may be lost.
    always: bool,
    /// With `durability = "interval(T)"` what is lost arrived within T.
    interval: Option<Duration>,
    next: u64,
    /// Since the server was started.
    now: Vec<Acknowledged>,
    /// Whether answers are recorded: the power is on.
    open: bool,
    /// Found after a cut: that is durable.
    kept: Vec<u64>,
    named: HashMap<(usize, u64), String>,
    high: [u64; GROUPS.len()],
    longest_span: Duration,
    acknowledged: u64,
}

fn id(n: u64) -> String {
    format!("<{n}@power.example>")
}

fn body(n: u64) -> String {
    let line = format!("line of {n}, {:x}\r\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    line.repeat(1 + (n % 97) as usize)
}

fn article(n: u64) -> String {
    let group = GROUPS[(n % GROUPS.len() as u64) as usize];
    format!(
        "Path: peer.example!not-for-mail\r\nFrom: A <a@x.example>\r\nNewsgroups: {group}\r\nSubject: number \
            {n}\r\n\
         Message-ID: {}\r\nDate: Sat, 21 Nov 2026 10:00:00 +0000\r\n\r\n{}",
        id(n),
        body(n)
    )
}

impl Ledger {
    pub fn new(durability: &str) -> Self {
        let interval = durability.strip_prefix("interval(").and_then(|rest| rest.strip_suffix("ms)"));
        let interval = interval.map(|ms| Duration::from_millis(ms.parse().unwrap()));
        Self { always: durability == "always", interval, ..Self::default() }
    }

    pub fn begin(&mut self) {
        self.open = true;
    }

    pub fn end(&mut self) {
        self.open = false;
    }

    pub fn acknowledged_now(&self) -> usize {
        self.now.len()
    }

    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    pub fn seen(&self) -> usize {
        self.named.len()
    }

    pub fn longest_span(&self) -> Duration {
        self.longest_span
    }

    /// Records what a reader sees of a group; numbers name what they named, and high marks never fall (G2).
    fn note(&mut self, group: usize, high: u64, rows: &[(u64, String)], what: &str) {
        let name = GROUPS[group];
        assert!(
            high >= self.high[group],
            "{what}: the high mark of {name} fell from {} to {high}",
            self.high[group]
        );
        self.high[group] = high;
        for (number, id) in rows {
            self.high[group] = self.high[group].max(*number);
            let old = self.named.entry((group, *number)).or_insert_with(|| id.clone());
            assert_eq!(old, id, "{what}: {name}:{number} names another article");
        }
    }

    /// Checks everything after a cut; returns how many acknowledged articles are lost.
    pub fn audit(&mut self, client: &mut Client, what: &str) -> u64 {
        let fail = |e: io::Error| -> ! { panic!("{what}: {e}") };
        for (group, name) in GROUPS.into_iter().enumerate() {
            let (count, high, rows) = overview(client, group).unwrap_or_else(|e| fail(e));
            let numbers = client.lines("LISTGROUP", "211").unwrap_or_else(|e| fail(e));
            assert!(numbers.len() == rows.len() && count == rows.len() as u64, "{what}: {name} differs");
            self.note(group, high, &rows, what);
        }
        let now = std::mem::take(&mut self.now);
        for n in &self.kept {
            assert!(is_there(client, *n, what), "{what}: {} was there after a cut before", id(*n));
        }
        let (mut kept, mut lost) = (Vec::new(), Vec::new());
        for article in now {
            let side = if is_there(client, article.n, what) { &mut kept } else { &mut lost };
            side.push(article);
        }
        self.kept.extend(kept.iter().map(|a| a.n));
        assert!(!self.always || lost.is_empty(), "{what}: {} acknowledged articles are lost", lost.len());
        if let (Some(first), Some(last)) = (lost.first(), lost.last()) {
            let span = last.sent.saturating_duration_since(first.answered);
            self.longest_span = self.longest_span.max(span);
            assert!(
                self.interval.is_none_or(|max| span <= max),
                "{what}: what arrived within {span:?} is lost"
            );
        }
        lost.len() as u64
    }
}

/// Whether an article is there, in every byte (G3); CHECK must say the same.
fn is_there(client: &mut Client, n: u64, what: &str) -> bool {
    let id = id(n);
    let lines = client.lines(&format!("BODY {id}"), "222").unwrap();
    let there = !lines.is_empty();
    assert!(!there || lines.join("\r\n") + "\r\n" == body(n), "{what}: {id} has other bytes");
    let answer = client.ask(&format!("CHECK {id}")).unwrap();
    assert_eq!(answer, format!("{} {id}", if there { 438 } else { 238 }), "{what}");
    there
}

/// Count, high mark, and the numbers and Message-IDs of a group.
fn overview(client: &mut Client, group: usize) -> io::Result<(u64, u64, Rows)> {
    let answer = client.ask(&format!("GROUP {}", GROUPS[group]))?;
    let marks: Vec<u64> = answer.split(' ').skip(1).map_while(|word| word.parse().ok()).collect();
    let [count, _, high] = marks[..] else { return Err(io::Error::other(answer)) };
    let rows = client.lines("OVER 1-", "224")?;
    let row = |line: &String| {
        let mut fields = line.split('\t');
        Some((fields.next()?.parse().ok()?, fields.nth(3)?.to_owned()))
    };
    Ok((count, high, rows.iter().filter_map(row).collect()))
}

/// Sends articles one after the other until the machine ends.
pub fn feed(client: &mut Client, ledger: &Mutex<Ledger>, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        let n = {
            let mut ledger = ledger.lock().unwrap();
            ledger.next += 1;
            ledger.next
        };
        let sent = Instant::now();
        let Ok(answer) = client.feed(&id(n), &article(n)) else { break };
        let answered = Instant::now();
        let mut ledger = ledger.lock().unwrap();
        if ledger.open {
            assert_eq!(answer, format!("239 {}", id(n)));
            ledger.now.push(Acknowledged { n, sent, answered });
            ledger.acknowledged += 1;
        }
        drop(ledger);
        std::thread::sleep(FEED_PAUSE);
    }
}

/// Reads until the machine ends.
pub fn look(client: &mut Client, ledger: &Mutex<Ledger>, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        for group in 0..GROUPS.len() {
            let Ok((_, high, rows)) = overview(client, group) else { return };
            let mut ledger = ledger.lock().unwrap();
            if ledger.open {
                ledger.note(group, high, &rows, "while it was fed");
            }
        }
    }
}
