//! When the log has a line about the articles that a check in shadow mode would have refused: once a minute
//! at most, with their number, so that a flood does not fill the log. Each article is in the filter log.

/// Shortest time between two lines of a check, in seconds.
const LINE_SECS: u64 = 60;

/// Articles that a check would have refused since its last line.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ShadowLine {
    articles: u64,
    /// Time of the last line, in Unix seconds; `None` if there was none.
    last: Option<u64>,
}

impl ShadowLine {
    /// Counts an article at this time, in Unix seconds; returns the number since the last line if another is
    /// due.
    pub fn count(&mut self, now: u64) -> Option<u64> {
        self.articles += 1;
        if self.last.is_some_and(|last| now.abs_diff(last) < LINE_SECS) {
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.articles))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_has_a_line_a_minute_and_all_of_it_is_counted() {
        let mut line = ShadowLine::default();
        let lines: Vec<u64> = (0..1_000_u64).filter_map(|n| line.count(1_000 + n / 5)).collect();
        assert_eq!(lines, [1, 300, 300, 300]);
        assert_eq!(line.count(10), Some(100), "the clock was set back");
    }
}
