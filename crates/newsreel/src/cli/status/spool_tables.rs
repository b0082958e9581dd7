//! Status of the spool: its files, classes, buffers, kept volumes and readers of the journal.

use crate::cli::table::{Columns, age};
use operators::report::{BufferReport, ClassReport, Overhead, SpoolStatus, UnnumberedSavings};
use site_base::units::{about_size, about_span, counted, grouped};

/// Text for figures that take time to measure.
const NOT_KNOWN: &str = "not known yet";
/// Age from which measurements are marked, in seconds.
const MEASURED_SECS_MAX: u64 = 60;

pub(super) fn spool_text(spool: &SpoolStatus, now: u64) -> String {
    let mut text = format!("spool {}, durability {}", spool.dir, spool.durability);
    if let Some(reason) = &spool.unopened {
        text.push_str(&format!(
            "\n  at its last checkpoint: {} in {}\n  CANNOT BE OPENED: {reason}",
            counted(spool.articles, "article"),
            counted(spool.groups, "group"),
        ));
        return text;
    }
    text.push_str(&format!(
        "\n  {}{} in {}; history {}, {} requested from peers",
        counted(spool.articles, "article"),
        if spool.hidden > 0 { format!(" ({} hidden)", grouped(spool.hidden)) } else { String::new() },
        counted(spool.groups, "group"),
        counted(spool.history_entries, "Message-ID"),
        grouped(spool.offers),
    ));
    text.push_str(&format!(
        "\n  journal {}, {} of it not durable yet; {} to replay after a crash",
        about_size(spool.journal_bytes),
        about_size(spool.undurable_bytes),
        counted(spool.rows_to_replay, "row"),
    ));
    text.push_str(&format!(
        "\n  history {}, overview {}, residents {}, checkpoints {}",
        about_size(spool.history_bytes),
        about_size(spool.overview_bytes),
        about_size(spool.residents_bytes),
        about_size(spool.checkpoint_bytes),
    ));
    if let Some(digest) = &spool.digest {
        text.push_str(&format!("\n  digest {digest}"));
    }
    text.push_str(&hot_memory_text(spool));
    text.push_str(&spool.overhead.as_ref().map_or_else(overhead_unknown, overhead_text));
    if spool.mended_pages > 0 {
        text.push_str(&format!("\n  {} unreadable pages rebuilt", grouped(spool.mended_pages)));
    }
    if spool.passed_over > 0 {
        let names = counted(spool.passed_over, "name");
        text.push_str(&format!("\n  {names} passed over: files that no index knows have them"));
    }
    text.push_str(&spool.unnumbered.as_ref().map_or_else(String::new, unnumbered_text));
    let age = now.saturating_sub(spool.measured);
    if age > MEASURED_SECS_MAX {
        text.push_str(&format!("\n  MEASURED {} AGO: the disk does not answer", about_span(age)));
    }
    if let Some(reason) = &spool.stopped {
        text.push_str(&format!("\n  ACCEPTS NOTHING: {reason}"));
    }
    text
}

/// Describes the memory of data that busy feeds write.
fn hot_memory_text(spool: &SpoolStatus) -> String {
    let (Some(bytes), released) = (spool.hot_memory_bytes, spool.released_bytes) else {
        return String::new();
    };
    format!(
        "\n  of what busy feeds write the newest {} stay in memory; {} given back since the start",
        about_size(bytes),
        about_size(released),
    )
}

fn unnumbered_text(saved: &UnnumberedSavings) -> String {
    format!(
        "\n  {} without numbers since the start, which saved {} of overview and at least {:.1} us an article",
        counted(saved.articles, "article"),
        about_size(saved.overview_bytes),
        saved.nanos as f64 / 1_000.0 / saved.articles.max(1) as f64,
    )
}

fn overhead_unknown() -> String {
    format!("\n  on disk for each article beyond its own bytes: {NOT_KNOWN}")
}

fn overhead_text(o: &Overhead) -> String {
    format!(
        "\n  on disk for each article beyond its own bytes: {} (record {}, journal {}, history {}, overview {}, residents {}, \
         checkpoint {})",
        o.sum(),
        o.record_bytes,
        o.journal_bytes,
        o.history_bytes,
        o.overview_bytes,
        o.residents_bytes,
        o.checkpoint_bytes
    )
}

pub fn classes_text(spool: &SpoolStatus, now: u64) -> String {
    let rate = |bytes: f64| format!("{}/s", about_size(bytes as u64));
    let span = |secs: Option<u64>| secs.map_or_else(String::new, about_span);
    let stay = |class: &ClassReport| {
        let unknown = if class.keeps_nothing() { "" } else { NOT_KNOWN };
        class.stays_secs.map_or_else(|| unknown.to_owned(), about_span)
    };
    let note = |class: &ClassReport| {
        let mut notes = Vec::new();
        if class.is_below_target() {
            let from = class.target_missed.filter(|at| *at > now);
            let from = from.map(|at| format!(" in {}", about_span(at - now)));
            notes.push(format!("BELOW TARGET{}", from.unwrap_or_default()));
        }
        if class.spilled > 0 {
            notes.push(format!("{} to overflow", grouped(class.spilled)));
        }
        if class.turned_away > 0 {
            notes.push(format!("{} REJECTED", grouped(class.turned_away)));
        }
        if class.overwritten_early > 0 {
            notes.push(format!("{} OVERWRITTEN WITHIN THE RING", grouped(class.overwritten_early)));
        }
        notes.join(", ")
    };
    Columns::of(&spool.classes)
        .left("class", |class| class.name.clone())
        .left("method", |class| class.method.clone())
        .right("oldest article", |class| age(class.oldest_arrival, now))
        .right("last hour", |class| rate(class.hour_bytes_per_sec))
        .right("last day", |class| rate(class.day_bytes_per_sec))
        .right("articles stay", stay)
        .right("worst day", |class| span(class.stays_worst_secs))
        .right("target", |class| span(class.keep_target_secs))
        .right("promise", |class| span(class.keep_at_least_secs))
        .left("", note)
        .text_if_any()
}

pub fn buffers_text(spool: &SpoolStatus, now: u64) -> String {
    // Unknown if the spool is not open; nothing is known of a buffer that is away.
    let oldest = |buffer: &BufferReport| match buffer.oldest_arrival {
        None if spool.unopened.is_some() => String::new(),
        arrival => age(arrival, now),
    };
    let of_here = |buffer: &BufferReport, text: String| if buffer.away { String::new() } else { text };
    let percent = |buffer: &BufferReport| {
        let percent = u128::from(buffer.used_bytes) * 100 / u128::from(buffer.area_bytes.max(1));
        percent.to_string()
    };
    Columns::of(&spool.buffers)
        .left("buffer", |buffer| buffer.name.clone())
        .right("size", |buffer| about_size(buffer.size_bytes))
        .right("used", |buffer| of_here(buffer, about_size(buffer.used_bytes)))
        .right("%", |buffer| of_here(buffer, percent(buffer)))
        .right("cycle", |buffer| of_here(buffer, buffer.cycle.to_string()))
        .right("oldest article", oldest)
        .left("", |buffer| if buffer.away { "AWAY".into() } else { String::new() })
        .text_if_any()
}

pub(super) fn kept_text(spool: &SpoolStatus, now: u64) -> String {
    Columns::of(&spool.kept)
        .left("kept by class", |kept| kept.name.clone())
        .left("method", |kept| kept.method.clone())
        .right("articles", |kept| grouped(kept.articles))
        .right("size", |kept| about_size(kept.bytes))
        .right("room", |kept| about_size(kept.room_bytes))
        .right("oldest article", |kept| age(kept.oldest_arrival, now))
        .left("", |kept| if kept.full { "FULL".into() } else { String::new() })
        .text_if_any()
}

pub(super) fn readers_text(spool: &SpoolStatus) -> String {
    Columns::of(&spool.readers)
        .left("reader of the journal", |reader| reader.name.clone())
        .right("position", |reader| grouped(reader.position))
        .right("backlog", |reader| about_size(reader.backlog_bytes))
        .right("articles lost", |reader| grouped(reader.lost_articles))
        .left("", |reader| match &reader.damage {
            Some(damage) => format!("DAMAGED: {damage}"),
            None if reader.durable => String::new(),
            None => "until it ends".into(),
        })
        .text_if_any()
}
