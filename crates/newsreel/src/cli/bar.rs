//! Progress of long work: a bar on a terminal, occasional plain lines elsewhere; both on standard error.
//!
//! Short work shows nothing.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use disk::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use site_base::lock::Leaf;

/// Time between two plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Progress of one command.
pub(super) struct Bar {
    state: Leaf<BarState>,
}

struct BarState {
    terminal: bool,
    what: String,
    note: String,
    total: u64,
    bar: Option<ProgressBar>,
    /// Time of the last plain line, or the start of the work.
    told: Instant,
    percent: u128,
}

impl Bar {
    /// Creates a bar for standard error, whether it is a terminal or not.
    pub(super) fn new() -> Self {
        let state = BarState {
            terminal: std::io::stderr().is_terminal(),
            what: String::new(),
            note: String::new(),
            total: 0,
            bar: None,
            told: Instant::now(),
            percent: 0,
        };
        Self { state: Leaf::new(state) }
    }

    /// Shows a few words next to the name of the work.
    pub(super) fn note(&self, words: &str) {
        let mut state = self.state.lock();
        if let Some(bar) = &state.bar {
            bar.set_message(format!("{}: {words}", state.what));
        }
        state.note.clear();
        state.note.push_str(words);
    }

    /// Shows the progress that a server reports; each report carries the name of the work.
    pub(super) fn show(&self, what: &str, done: u64, total: u64) {
        let begins = { self.state.lock().what != what };
        if begins {
            self.start(what, total);
        }
        if done >= total { self.finish() } else { self.step(done) }
    }
}

impl BarState {
    /// The plain line that is due, if the last one was printed so long ago.
    fn line(&mut self, done: u64, interval: Duration) -> Option<String> {
        let percent = u128::from(done) * 100 / u128::from(self.total.max(1));
        if percent == self.percent || self.told.elapsed() < interval {
            return None;
        }
        (self.percent, self.told) = (percent, Instant::now());
        let (comma, note) = (if self.note.is_empty() { "" } else { ", " }, &self.note);
        Some(format!("{}: {percent} %{comma}{note}", self.what))
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} % {eta:>4}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Progress for Bar {
    fn start(&self, what: &str, total: u64) {
        let mut state = self.state.lock();
        state.what = what.to_owned();
        state.note.clear();
        state.total = total;
        state.told = Instant::now();
        state.percent = 0;
        if state.terminal {
            let bar =
                ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()).with_style(style());
            bar.set_message(what.to_owned());
            state.bar = Some(bar);
        }
    }

    fn step(&self, done: u64) {
        let mut state = self.state.lock();
        if let Some(bar) = &state.bar {
            bar.set_position(done);
        } else if let Some(line) = state.line(done, LINE_INTERVAL) {
            super::screen::complain(format_args!("{line}"));
        }
    }

    fn finish(&self) {
        let mut state = self.state.lock();
        state.what.clear();
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_line_has_another_percentage_than_the_one_before() {
        let bar = Bar::new();
        bar.start("pulling", 1_000);
        bar.note("7 filed");
        let mut state = bar.state.lock();
        let mut line = |done| state.line(done, Duration::ZERO);
        assert_eq!((line(0), line(9)), (None, None));
        assert_eq!(line(10).as_deref(), Some("pulling: 1 %, 7 filed"));
        assert_eq!((line(10), line(19)), (None, None));
        assert_eq!(line(999).as_deref(), Some("pulling: 99 %, 7 filed"));
        assert_eq!(state.line(500, Duration::from_secs(3_600)), None, "too soon");
    }
}
