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
    state: Leaf<State>,
}

struct State {
    terminal: bool,
    what: String,
    note: String,
    total: u64,
    bar: Option<ProgressBar>,
    /// Time of the last plain line, or the start of the work.
    told: Instant,
}

impl Bar {
    /// Creates a bar for standard error, whether it is a terminal or not.
    pub(super) fn new() -> Self {
        let state = State {
            terminal: std::io::stderr().is_terminal(),
            what: String::new(),
            note: String::new(),
            total: 0,
            bar: None,
            told: Instant::now(),
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
        } else if state.told.elapsed() >= LINE_INTERVAL {
            state.told = Instant::now();
            let (comma, note) = (if state.note.is_empty() { "" } else { ", " }, &state.note);
            let percent = u128::from(done) * 100 / u128::from(state.total.max(1));
            super::screen::complain(format_args!("{}: {percent} %{comma}{note}", state.what));
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
