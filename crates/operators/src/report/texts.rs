//! Texts of columns that are computed from several figures of a row.

use super::{
    BatchesStatus, BufferReport, ClassReport, JournalReaderReport, Overhead, PeerStatus, PullStatus,
    ServerStatus, SpoolStatus,
};
use site_base::units::{about_size, about_span, counted, grouped};

/// Text for figures that take time to measure.
const NOT_KNOWN: &str = "not known yet";
/// Age from which measurements are marked, in seconds.
const MEASURED_SECS_MAX: u64 = 60;

/// Returns how long ago a time was, or `never` if it is absent.
pub(super) fn ago(at: Option<u64>, never: &str, now: u64) -> String {
    at.map_or_else(|| never.to_owned(), |at| format!("{} ago", about_span(now.saturating_sub(at))))
}

/// Returns the mark of a row in a certain state.
pub(super) fn marked(is_so: bool, mark: &str) -> String {
    if is_so { mark.to_owned() } else { String::new() }
}

pub(super) fn overhead_text(overhead: Option<&Overhead>) -> String {
    let text = overhead.map_or_else(
        || NOT_KNOWN.to_owned(),
        |o| {
            format!(
                "{} (record {}, journal {}, history {}, overview {}, residents {}, checkpoint {})",
                o.sum(),
                o.record_bytes,
                o.journal_bytes,
                o.history_bytes,
                o.overview_bytes,
                o.residents_bytes,
                o.checkpoint_bytes
            )
        },
    );
    format!("on disk for each article beyond its own bytes: {text}")
}

impl ServerStatus {
    pub(super) fn certificate_text(&self, now: u64) -> String {
        let Some(expires) = self.certificate_expires else { return String::new() };
        let left = u64::try_from(expires).unwrap_or_default().checked_sub(now);
        left.map_or_else(|| "EXPIRED".to_owned(), |secs| format!("expires in {}", about_span(secs)))
    }

    /// Describes how long no articles have been accepted, why, and what ends it.
    pub(super) fn paused_text(&self, now: u64) -> String {
        let Some(since) = self.paused_since else { return String::new() };
        let reason = self.paused_reason.as_str();
        let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        format!("for {}{reason}; newsreel ctl go", about_span(now.saturating_sub(since)))
    }
}

impl BatchesStatus {
    /// Returns why the oldest batch waits, if it does.
    pub(super) fn problem_text(&self) -> String {
        if self.waiting > 0 { self.problem.clone() } else { String::new() }
    }
}

impl PullStatus {
    pub(super) fn last_run_text(&self, now: u64) -> String {
        if self.running_since.is_some() { "running".to_owned() } else { ago(self.last_run, "not yet", now) }
    }
}

impl PeerStatus {
    /// Returns the number of offers that were neither accepted nor rejected: not requested.
    pub(super) fn not_wanted(&self) -> u64 {
        self.offered.saturating_sub(self.accepted).saturating_sub(self.rejected)
    }
}

impl SpoolStatus {
    pub(super) fn articles_text(&self) -> String {
        let hidden =
            if self.hidden > 0 { format!(" ({} hidden)", grouped(self.hidden)) } else { String::new() };
        format!("{}{hidden} in {}", counted(self.articles, "article"), counted(self.groups, "group"))
    }

    /// Returns the age of the measurements, if they are old.
    pub(super) fn measured_text(&self, now: u64) -> String {
        let age = now.saturating_sub(self.measured);
        if age > MEASURED_SECS_MAX {
            format!("{} AGO: the disk does not answer", about_span(age))
        } else {
            String::new()
        }
    }

    /// Returns the memory released, if only recent writes stay in memory.
    pub(super) fn released_text(&self) -> String {
        self.hot_memory_bytes.map_or_else(String::new, |_| about_size(self.released_bytes))
    }

    pub(super) fn unnumbered_text(&self) -> String {
        let Some(saved) = &self.unnumbered else { return String::new() };
        format!(
            "{} without numbers since the start, which saved {} of overview and at least {:.1} us an article",
            counted(saved.articles, "article"),
            about_size(saved.overview_bytes),
            saved.nanos as f64 / 1_000.0 / saved.articles.max(1) as f64,
        )
    }
}

impl ClassReport {
    pub(super) fn stays_text(&self) -> String {
        let unknown = if self.keeps_nothing() { "" } else { NOT_KNOWN };
        self.stays_secs.map_or_else(|| unknown.to_owned(), about_span)
    }

    /// Returns what is wrong with the class.
    pub(super) fn notes(&self, now: u64) -> String {
        let mut notes = Vec::new();
        if self.is_below_target() {
            let from = self.target_missed.filter(|at| *at > now);
            let from = from.map(|at| format!(" in {}", about_span(at - now)));
            notes.push(format!("BELOW TARGET{}", from.unwrap_or_default()));
        }
        let counts = [
            (self.spilled, "to overflow"),
            (self.turned_away, "REJECTED"),
            (self.overwritten_early, "OVERWRITTEN WITHIN THE RING"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        notes.extend(counts.map(|(count, what)| format!("{} {what}", grouped(*count))));
        notes.join(", ")
    }
}

impl BufferReport {
    /// Returns a text, or nothing if the file is missing, as nothing is known of it.
    pub(super) fn if_here(&self, text: String) -> String {
        if self.away { String::new() } else { text }
    }

    pub(super) fn used_percent(&self) -> String {
        (u128::from(self.used_bytes) * 100 / u128::from(self.area_bytes.max(1))).to_string()
    }

    /// Returns the age of the oldest article, which is unknown if the spool is not open.
    pub(super) fn oldest_text(&self, now: u64) -> String {
        match self.oldest_arrival {
            None if self.away || self.used_bytes > 0 => String::new(),
            arrival => site_base::figures::age(arrival, now),
        }
    }
}

impl JournalReaderReport {
    pub(super) fn note(&self) -> String {
        match &self.damage {
            Some(damage) => format!("DAMAGED: {damage}"),
            None if self.durable => String::new(),
            None => "until it ends".to_owned(),
        }
    }
}
