//! Filters: what looks at the articles of a batch together, once the guards have let them through.
//!
//! Filters come one after the other, and share a time limit for each batch. What is not judged when it has
//! passed goes on as if there were no filter: accepting does not wait for opinions. That is logged when it
//! begins and when it ends. A filter returns when the limit passes, with the opinions that it has; one that
//! asks somebody else waits no longer for the answer. Called by `ingest`.

use super::Reject;
use super::drafts::Drafts;
use crate::base::printable;
use crate::config::Config;
use netnews::Article;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// How long the filters may take for a batch.
const BATCH_TIME_MAX: Duration = Duration::from_millis(500);
/// Length of a reason at most.
const REASON_BYTES_MAX: usize = 200;

/// What a filter says of an article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Opinion {
    /// There is nothing to say of it.
    Pass,
    /// It is what storage rules call so (`verdict`).
    Verdict(&'static str),
    /// It is refused, for this reason.
    #[cfg_attr(not(test), expect(dead_code, reason = "the filter that ships refuses nothing"))]
    Refuse(String),
}

/// Something that judges articles.
pub(crate) trait Filter: fmt::Debug + Send + Sync {
    /// For the log.
    fn name(&self) -> &str;

    /// Appends an opinion for each of the articles, in order, and returns at `until` at the latest; the
    /// articles without one are not judged. May wait.
    fn judge(&self, articles: &[Article<'_>], until: Instant, opinions: &mut Vec<Opinion>);
}

/// The filters of a site.
#[derive(Debug)]
pub(super) struct Filters {
    filters: Vec<Box<dyn Filter>>,
    time_max: Duration,
    /// The last batch was not judged whole.
    is_late: AtomicBool,
}

impl Filters {
    /// Those that the configuration asks for: looking into bodies is expensive, so nobody does unless a
    /// storage rule asks for a verdict.
    pub fn of(config: &Config) -> Self {
        let asks_verdict = config.rules.iter().any(|rule| rule.verdict.is_some());
        let filters: Vec<Box<dyn Filter>> = if asks_verdict { vec![Box::new(Encodings)] } else { Vec::new() };
        Self::new(filters, BATCH_TIME_MAX)
    }

    pub fn new(filters: Vec<Box<dyn Filter>>, time_max: Duration) -> Self {
        Self { filters, time_max, is_late: AtomicBool::new(false) }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Lets all filters judge the articles of `drafts`; `refuse` gets each that is refused, by its place in
    /// the batch, with the reason. What one filter refuses the next does not see.
    pub fn judge(&self, drafts: &mut Drafts<'_>, mut refuse: impl FnMut(usize, Reject)) {
        let until = Instant::now() + self.time_max;
        let mut late = None;
        for filter in &self.filters {
            let mut opinions = Vec::new();
            let articles = drafts.parsed();
            filter.judge(articles, until, &mut opinions);
            if opinions.len() < articles.len() {
                late = late.or(Some((filter.name(), articles.len() - opinions.len())));
            }
            drafts.follow(opinions, &mut refuse);
        }
        match late {
            Some((filter, articles)) if !self.is_late.swap(true, Ordering::Relaxed) => {
                let millis_max = self.time_max.as_millis();
                warn!(
                    filter,
                    articles, millis_max, "a filter is too slow: articles pass without being judged"
                );
            }
            None if self.is_late.load(Ordering::Relaxed) && self.is_late.swap(false, Ordering::Relaxed) => {
                info!("filters judge all articles again");
            }
            _ => {}
        }
    }
}

/// A filter's reason as it is passed on: one printable line.
pub(super) fn reject(reason: &str) -> Reject {
    let shown = printable::line(reason);
    let end = shown.floor_char_boundary(REASON_BYTES_MAX);
    Reject::Filtered(shown.get(..end).unwrap_or_default().into())
}

/// Says which articles carry binaries.
#[derive(Debug)]
struct Encodings;

impl Filter for Encodings {
    fn name(&self) -> &str {
        "encodings"
    }

    fn judge(&self, articles: &[Article<'_>], until: Instant, opinions: &mut Vec<Opinion>) {
        let in_time = articles.iter().take_while(|_| Instant::now() < until);
        opinions.extend(in_time.map(|article| match netnews::article::encoding(article.body()) {
            Some(_) => Opinion::Verdict("binary"),
            None => Opinion::Pass,
        }));
    }
}
