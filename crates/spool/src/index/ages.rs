//! Arrival times and sizes of the articles of a list: enough to know the oldest one and the write rate.
//!
//! Sums over spans of [`SPAN_SECS`], updated as entries are added and removed, so that queries read nothing.
//! Used by [`crate::index::kept`].

use std::collections::BTreeMap;

/// Length in seconds of a span whose arrivals are summed: the precision of the result.
const SPAN_SECS: u32 = 600;

#[derive(Debug, Clone, Copy)]
struct ArrivalSpan {
    articles: u64,
    bytes: u64,
    /// Earliest arrival ever in this span, Unix seconds.
    first: u32,
}

/// Sums by span.
#[derive(Debug, Default)]
pub(crate) struct ArrivalHistogram {
    spans: BTreeMap<u32, ArrivalSpan>,
}

impl ArrivalHistogram {
    /// Adds an article.
    pub fn add(&mut self, arrived: u32, bytes: u64) {
        let new = ArrivalSpan { articles: 0, bytes: 0, first: arrived };
        let span = self.spans.entry(arrived / SPAN_SECS).or_insert(new);
        span.articles += 1;
        span.bytes += bytes;
        span.first = span.first.min(arrived);
    }

    /// Removes an article.
    pub fn take(&mut self, arrived: u32, bytes: u64) {
        let at = arrived / SPAN_SECS;
        let Some(span) = self.spans.get_mut(&at) else { return };
        span.articles = span.articles.saturating_sub(1);
        span.bytes = span.bytes.saturating_sub(bytes);
        if span.articles == 0 {
            self.spans.remove(&at);
        }
    }

    /// Returns the arrival of the oldest article, Unix seconds.
    pub fn oldest(&self) -> Option<u64> {
        self.spans.values().next().map(|span| u64::from(span.first))
    }

    /// Returns the bytes of articles that arrived at `since` (Unix seconds) or later.
    pub fn bytes_since(&self, since: u64) -> u64 {
        let since = u32::try_from(since).unwrap_or(u32::MAX);
        self.spans.range(since.div_ceil(SPAN_SECS)..).map(|(_, span)| span.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_and_removed_articles_are_summed_up() {
        let mut ages = ArrivalHistogram::default();
        assert_eq!((ages.oldest(), ages.bytes_since(0)), (None, 0));
        (0..100).for_each(|n| ages.add(6000 + n * 60, 10));
        assert_eq!((ages.oldest(), ages.bytes_since(0)), (Some(6000), 1000));
        assert_eq!(ages.bytes_since(6000 + 50 * 60), 500);
        (0..35).for_each(|n| ages.take(6000 + n * 60, 10));
        assert_eq!((ages.oldest(), ages.bytes_since(0)), (Some(6000 + 30 * 60), 650));
        (35..100).for_each(|n| ages.take(6000 + n * 60, 10));
        assert_eq!((ages.oldest(), ages.bytes_since(0)), (None, 0));
    }
}
