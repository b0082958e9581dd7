//! Traces for a simulation: requests for articles, in the order of time.
//!
//! Read from an access log of ours or from the log of INN's nnrpd; lines of neither form are skipped and
//! counted. Bounded: names and requests have a limit. Called by `simulate`.

use std::collections::HashMap;
use std::io::{self, BufRead, Read};

use super::nnrpd::NnrpdLog;
use crate::base::record::hash64;
use crate::books::access_log::{LINE_BYTES_MAX, parse_line};
use crate::books::stats::RequestKind;

/// Maximum number of requests of a trace.
const REQUESTS_MAX: usize = 1 << 26;
/// Maximum number of names of groups and clients.
const NAMES_MAX: usize = 1 << 20;
/// Maximum size of an article; sums of sizes stay far from their limits.
const ARTICLE_BYTES_MAX: u64 = 1 << 36;
/// Size of an article if the log does not have it: the mean of the articles of 1999.
pub(crate) const USUAL_BYTES: u64 = 2350;

/// An article of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceArticle {
    /// Group in which it was requested first, numbered densely.
    pub group: u32,
    /// Size, as far as it was read.
    pub bytes: u64,
    /// Time of posting, estimated from its number.
    pub posted: u64,
    number: u64,
}

/// A request for an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRequest {
    /// Time in Unix seconds.
    pub at: u64,
    /// Index of the article in [`Trace::articles`].
    pub article: u32,
}

/// A trace.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Requests for articles.
    pub requests: Vec<TraceRequest>,
    /// The articles.
    pub articles: Vec<TraceArticle>,
    /// Number of their groups.
    pub groups: usize,
    /// Number of clients.
    pub clients: usize,
    /// Number of other requests, which are not replayed.
    pub others: u64,
    /// Number of lines of unknown form.
    pub unknown_lines: u64,
}

/// A trace that is being read.
#[derive(Debug, Default)]
pub(crate) struct TraceBuilder {
    trace: Trace,
    groups: HashMap<Box<str>, u32>,
    clients: HashMap<u64, ()>,
    articles: HashMap<u64, u32>,
}

impl TraceBuilder {
    /// Adds a request that is not for an article.
    pub fn other(&mut self) {
        self.trace.others += 1;
    }

    fn group(&mut self, name: &str) -> Option<u32> {
        if let Some(known) = self.groups.get(name) {
            return Some(*known);
        }
        let next = self.groups.len();
        (next < NAMES_MAX).then(|| *self.groups.entry(name.into()).or_insert(next as u32))
    }

    /// Adds a request for an article, which is identified by its Message-ID or else by group and number.
    pub fn article(&mut self, at: u64, client: &str, group: &str, number: u64, id: &str, bytes: u64) {
        let Some(group_at) = self.group(group).filter(|_| self.trace.requests.len() < REQUESTS_MAX) else {
            return;
        };
        let bytes = bytes.clamp(1, ARTICLE_BYTES_MAX);
        if self.clients.len() < NAMES_MAX {
            self.clients.insert(hash64(&[client.as_bytes()]), ());
        }
        let key = match id {
            "" | "-" => hash64(&[group.as_bytes(), &number.to_le_bytes()]),
            id => hash64(&[id.as_bytes()]),
        };
        let next = self.trace.articles.len() as u32;
        let article = *self.articles.entry(key).or_insert(next);
        if article == next {
            self.trace.articles.push(TraceArticle { group: group_at, bytes, posted: at, number });
        } else if let Some(known) = self.trace.articles.get_mut(article as usize) {
            known.bytes = known.bytes.max(bytes);
        }
        self.trace.requests.push(TraceRequest { at, article });
    }

    /// Returns the trace, with the data that depends on all of it.
    pub fn finish(mut self) -> Trace {
        self.trace.groups = self.groups.len();
        self.trace.clients = self.clients.len();
        self.trace.requests.sort_by_key(|request| request.at);
        self.estimate_posted();
        self.trace
    }

    /// Estimates times of posting: numbers rise evenly between the first request for the lowest number of a
    /// group and that for its highest one.
    fn estimate_posted(&mut self) {
        #[derive(Clone, Copy)]
        struct NumberSpan {
            low: (u64, u64),
            high: (u64, u64),
        }
        let mut spans: Vec<Option<NumberSpan>> = vec![None; self.trace.groups];
        for article in self.trace.articles.iter().filter(|article| article.number > 0) {
            let here = (article.number, article.posted);
            let Some(span) = spans.get_mut(article.group as usize) else { continue };
            let known = span.get_or_insert(NumberSpan { low: here, high: here });
            (known.low, known.high) = (known.low.min(here), known.high.max(here));
        }
        for article in self.trace.articles.iter_mut().filter(|article| article.number > 0) {
            let Some(Some(NumberSpan { low, high })) = spans.get(article.group as usize) else { continue };
            let numbers = (high.0 - low.0).max(1);
            let seconds = u128::from(high.1.saturating_sub(low.1)) * u128::from(article.number - low.0);
            article.posted = low.1 + (seconds / u128::from(numbers)) as u64;
        }
    }
}

impl Trace {
    /// Reads a log. `progress` is called with the number of bytes read.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn read(mut log: impl BufRead, mut progress: impl FnMut(u64)) -> io::Result<Self> {
        let mut builder = TraceBuilder::default();
        let mut nnrpd = NnrpdLog::default();
        let (mut line, mut done) = (Vec::new(), 0_u64);
        loop {
            line.clear();
            // The rest of a longer line counts as a line of unknown form.
            let read = log.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line)?;
            if read == 0 {
                break;
            }
            done += read as u64;
            progress(done);
            let text = std::str::from_utf8(line.trim_ascii_end()).unwrap_or_default();
            if let Some(line) = parse_line(text) {
                match line.kind {
                    RequestKind::Article if line.bytes > 0 => {
                        builder.article(line.at, line.client, line.group, line.number, line.id, line.bytes);
                    }
                    _ => builder.other(),
                }
            } else if !nnrpd.line(text, &mut builder) {
                builder.trace.unknown_lines += 1;
            }
        }
        nnrpd.finish(&mut builder);
        Ok(builder.finish())
    }

    /// Returns the total size of all articles.
    pub fn article_bytes(&self) -> u64 {
        self.articles.iter().map(|article| article.bytes).sum()
    }

    /// Returns the total size of all requests.
    pub fn asked_bytes(&self) -> u64 {
        let bytes =
            |request: &TraceRequest| self.articles.get(request.article as usize).map_or(0, |a| a.bytes);
        self.requests.iter().map(bytes).sum()
    }

    /// Returns the share of the requests for the most popular groups.
    pub fn share_of_top(&self, groups: usize) -> f64 {
        let mut counts = vec![0_u64; self.groups];
        for request in &self.requests {
            let group = self.articles.get(request.article as usize).map(|article| article.group as usize);
            if let Some(count) = group.and_then(|group| counts.get_mut(group)) {
                *count += 1;
            }
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts.iter().take(groups).sum::<u64>() as f64 / (self.requests.len() as f64).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_log_is_read_and_crossposts_are_one_article() {
        let log = "100 c1 article isp a.b 7 <x@y> 0 2000 miss\n150 c2 article isp c.d 70 <x@y> 2000 0 hit\n\
                   160 c2 overview isp c.d 1 - 2000 0 hit\nrubbish\n200 c2 article isp a.b 17 - 0 500 miss\n\
                   300 c1 article isp a.b 12 - 0 900 miss\n";
        let trace = Trace::read(log.as_bytes(), |_| ()).unwrap();
        assert_eq!((trace.requests.len(), trace.articles.len(), trace.groups, trace.clients), (4, 3, 2, 2));
        assert_eq!((trace.others, trace.unknown_lines), (1, 1));
        assert_eq!((trace.article_bytes(), trace.asked_bytes()), (3400, 5400));
        // Number 12 is halfway between 7, asked for at 100, and 17, at 200.
        assert_eq!(trace.articles[2].posted, 150);
    }
}
