//! Feeds generated articles by TAKETHIS, several connections at once, at full speed, and records what was
//! answered and when.
//!
//! Every article sent and every answer gets a stamp of one clock, which shows which articles may have been
//! stored after which. A connection that breaks is drained: what the server answered before it died counts.

use crate::articles::Generator;
use crate::client::{Client, unexpected};
use crate::site::Site;
use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An article that was not answered, as its stamp.
pub const UNANSWERED: u64 = u64::MAX;

/// An article that was sent.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// Which.
    pub index: u64,
    /// When it was sent.
    pub sent: u64,
    /// When the answer was read, or [`UNANSWERED`].
    pub answered: u64,
    /// The answer: 239, 439 ...; 0 if there was none.
    pub code: u16,
    /// Its length in wire format.
    pub bytes: u32,
}

/// What to feed.
#[derive(Debug)]
pub struct Feed<'a> {
    /// To whom.
    pub address: String,
    /// Generates the articles.
    pub generator: &'a Generator,
    /// Sent before the others.
    pub first: Mutex<Vec<u64>>,
    /// Index of the next article to be made.
    pub next: &'a AtomicU64,
    /// The clock of stamps.
    pub clock: &'a AtomicU64,
    /// Articles to send.
    pub budget: AtomicU64,
    /// Ends the feed early.
    pub stop: AtomicBool,
    /// Connections.
    pub connections: usize,
    /// Unanswered articles of a connection at most.
    pub window: usize,
}

/// Feeds `budget` articles to a site; all must be accepted.
pub fn feed(
    site: &Site,
    generator: &Generator,
    next: &AtomicU64,
    budget: u64,
    connections: usize,
    window: usize,
) -> io::Result<()> {
    let feed = Feed {
        address: site.address(),
        generator,
        first: Mutex::default(),
        next,
        clock: &AtomicU64::new(0),
        budget: AtomicU64::new(budget),
        stop: AtomicBool::new(false),
        connections,
        window,
    };
    let accepted = feed.run()?.iter().filter(|article| article.code == 239).count() as u64;
    if accepted == budget {
        Ok(())
    } else {
        Err(io::Error::other(format!("{accepted} of {budget} articles were accepted")))
    }
}

impl Feed<'_> {
    /// Feeds until the budget is spent, or the server breaks off.
    pub fn run(&self) -> io::Result<Vec<Sent>> {
        let parts: Vec<io::Result<Vec<Sent>>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.connections).map(|_| scope.spawn(|| self.connection())).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|part| part.unwrap_or_else(|_| Err(io::Error::other("a feeder failed")))).collect()
        });
        let mut all = Vec::new();
        for part in parts {
            all.extend(part?);
        }
        Ok(all)
    }

    fn take(&self) -> Option<u64> {
        let spent = |left: u64| left.checked_sub(1);
        if self.stop.load(Ordering::Relaxed)
            || self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent).is_err()
        {
            return None;
        }
        let first = self.first.lock().ok().and_then(|mut first| first.pop());
        Some(first.unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed)))
    }

    fn connection(&self) -> io::Result<Vec<Sent>> {
        let mut sent = Vec::new();
        let Ok(mut client) = Client::connect(&self.address) else { return Ok(sent) };
        if client.expect("MODE STREAM", "203").is_err() {
            return Ok(sent);
        }
        let mut open: VecDeque<usize> = VecDeque::new();
        loop {
            while open.len() < self.window {
                let Some(index) = self.take() else { break };
                open.push_back(sent.len());
                sent.push(self.put(index, &mut client));
            }
            if open.is_empty() || !self.answers(&mut client, &mut sent, &mut open)? {
                return Ok(sent);
            }
        }
    }

    /// Queues an article; on a broken connection it stays unanswered.
    fn put(&self, index: u64, client: &mut Client) -> Sent {
        let mut article = Vec::new();
        self.generator.put(index, &mut article);
        let bytes = article.len() as u32;
        let sent = self.clock.fetch_add(1, Ordering::SeqCst);
        let _seen_at_the_next_answer =
            client.queue_article(self.generator.message_id(index).as_bytes(), article);
        Sent { index, sent, answered: UNANSWERED, code: 0, bytes }
    }

    /// Reads at least one answer, and all that have come; false if the connection broke.
    fn answers(
        &self,
        client: &mut Client,
        sent: &mut [Sent],
        open: &mut VecDeque<usize>,
    ) -> io::Result<bool> {
        loop {
            let Ok(text) = client.answer() else { return Ok(false) };
            let Some(article) = open.pop_front().and_then(|at| sent.get_mut(at)) else { return Ok(true) };
            let mut words = text.split(' ');
            article.code = words.next().and_then(|code| code.parse().ok()).unwrap_or_default();
            let id = words.next().unwrap_or_default();
            if article.code == 400 {
                article.code = 0;
                return Ok(false);
            }
            if self.generator.index_of(id.as_bytes()) != Some(article.index) {
                let command = format!("TAKETHIS {}", self.generator.message_id(article.index));
                return Err(unexpected(&command, &text));
            }
            article.answered = self.clock.fetch_add(1, Ordering::SeqCst);
            if !client.has_answer() {
                return Ok(true);
            }
        }
    }
}
