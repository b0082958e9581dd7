//! Figures 8 and 9 of the CNFS paper (CNFS-N1, CNFS-N2), with what was measured here beside the paper's
//! numbers.

use super::batches::Batches;
use super::measuring::Measured;
use super::subject::Subject;
use crate::others::Inn;
use std::fmt::Write as _;

/// Figure 8: seconds for each batch, of INN with one file per article and with a cyclic buffer.
const STANDARD_SECONDS: [f64; 4] = [480.0, 486.0, 551.0, 530.0];
const CYCLIC_SECONDS: [f64; 4] = [153.0, 168.0, 135.0, 141.0];

/// What has cyclic buffers, and what it is compared with.
static PAIRS: [(Subject, Subject); 4] = [
    (Subject::Inn(Inn::New("cnfs")), Subject::Inn(Inn::New("tradspool"))),
    (Subject::Inn(Inn::New("cnfs")), Subject::Inn(Inn::Old)),
    (Subject::Newsreel("cnfs"), Subject::Newsreel("tradspool")),
    (Subject::Newsreel("cnfs"), Subject::Inn(Inn::Old)),
];

/// A row of figure 9.
struct Statistic {
    name: &'static str,
    /// With one file per article, and with a cyclic buffer.
    paper: Option<(f64, f64)>,
    value: fn(&Measured) -> Option<f64>,
}

/// Figure 9. Where Linux does not count what Solaris did, the row is what comes next to it.
const STATISTICS: [Statistic; 18] = [
    Statistic { name: "elapsed, s", paper: Some((2047.0, 597.0)), value: |m| Some(m.total()) },
    Statistic { name: "CPU idle, %", paper: Some((26.41, 38.43)), value: |m| Some(part(m, m.spent.idle)) },
    Statistic {
        name: "CPU user, %, of the server",
        paper: Some((13.39, 40.09)),
        value: |m| Some(part(m, m.counters.user_ticks as f64)),
    },
    Statistic {
        name: "CPU system, %, of the server",
        paper: Some((12.63, 12.71)),
        value: |m| Some(part(m, m.counters.system_ticks as f64)),
    },
    Statistic { name: "CPU wait, %", paper: Some((47.57, 8.77)), value: |m| Some(part(m, m.spent.wait)) },
    Statistic { name: "CPU of others, %", paper: None, value: |m| Some(others(m)) },
    Statistic {
        name: "read calls",
        paper: Some((192_280.0, 28_622.0)),
        value: |m| Some(m.calls?.read as f64),
    },
    Statistic {
        name: "write calls",
        paper: Some((367_806.0, 136_368.0)),
        value: |m| Some(m.calls?.write as f64),
    },
    Statistic {
        name: "path look-ups",
        paper: Some((35_325.0, 3_606.0)),
        value: |m| Some(m.calls?.path as f64),
    },
    Statistic {
        name: "inode gets; here inodes made",
        paper: Some((26_592.0, 65.0)),
        value: |m| Some(m.files as f64),
    },
    Statistic {
        name: "disk KB read",
        paper: Some((153_575.0, 50_116.0)),
        value: |m| Some(m.counters.disk_read_bytes as f64 / 1024.0),
    },
    Statistic {
        name: "disk KB written",
        paper: Some((519_802.0, 75_688.0)),
        value: |m| Some(m.counters.disk_bytes as f64 / 1024.0),
    },
    Statistic {
        name: "disk reads",
        paper: Some((25_258.0, 1_245.0)),
        value: |m| Some(m.counters.disk_reads as f64),
    },
    Statistic {
        name: "disk writes",
        paper: Some((88_600.0, 8_059.0)),
        value: |m| Some(m.counters.disk_writes as f64),
    },
    Statistic { name: "disk service time, ms", paper: Some((48.0, 13.0)), value: service_ms },
    Statistic {
        name: "buffer cache hits, %",
        paper: Some((92.63, 98.37)),
        value: |m| hits(m, |calls| calls.read + calls.path),
    },
    Statistic {
        name: "name cache (DNLC) hits, %",
        paper: Some((65.74, 93.01)),
        value: |m| hits(m, |calls| calls.path),
    },
    Statistic {
        name: "inode cache hits, %",
        paper: Some((11.77, 16.20)),
        value: |m| hits(m, |calls| calls.path),
    },
];

/// Percent of the time of all processors.
fn part(measured: &Measured, ticks: f64) -> f64 {
    measured.spent.percent(ticks)
}

/// The feeder, the disk and the rest of the machine.
fn others(measured: &Measured) -> f64 {
    let server = (measured.counters.user_ticks + measured.counters.system_ticks) as f64;
    let busy = measured.spent.all() - measured.spent.idle - measured.spent.wait;
    part(measured, (busy - server).max(0.0))
}

/// How long the disk was busy for each request.
fn service_ms(measured: &Measured) -> Option<f64> {
    let requests = measured.counters.disk_reads + measured.counters.disk_writes;
    (requests > 0).then(|| measured.counters.disk_ms as f64 / requests as f64)
}

/// At least this many look-ups needed no read of the disk.
fn hits(measured: &Measured, lookups: impl Fn(&super::meter::Calls) -> u64) -> Option<f64> {
    let lookups = lookups(measured.calls.as_ref()?);
    let missed = measured.counters.disk_reads.min(lookups);
    (lookups > 0).then(|| 100.0 - 100.0 * missed as f64 / lookups as f64)
}

/// Both figures; the second only where a disk of limited speed was there.
pub fn figures(all: &[Measured], slow: &[Measured], disk_ms: f64, made: &Batches) -> String {
    let mut text = String::from("\n### Figure 8: the four batches\n\n");
    text += &figure_8(all, made);
    if slow.is_empty() {
        return text;
    }
    let _ = write!(text, "\n### Figure 8 on a disk of {disk_ms} ms an access\n\n{}", figure_8(slow, made));
    let _ = write!(text, "\n### Figure 9 on that disk\n\n{}", figure_9(slow));
    text
}

fn figure_8(all: &[Measured], made: &Batches) -> String {
    let mut text = String::from("| articles a second |");
    for (at, batch) in made.batches.iter().enumerate() {
        let _ = write!(text, " {}: {} |", at + 1, batch.articles());
    }
    let _ = writeln!(text, " all |\n|---|{}", "---:|".repeat(made.batches.len() + 1));
    let rates = |seconds: &[f64]| -> Vec<f64> {
        let each = made.batches.iter().zip(seconds).map(|(batch, seconds)| batch.articles() as f64 / seconds);
        each.chain([made.articles() as f64 / seconds.iter().sum::<f64>()]).collect()
    };
    // The paper's batches had as many articles as these have when nothing is left out.
    let of_paper = |seconds: [f64; 4]| -> Vec<f64> {
        let articles = super::batches::PAPER.map(|(articles, ..)| articles as f64);
        let each = articles.iter().zip(seconds).map(|(articles, seconds)| articles / seconds);
        each.chain([articles.iter().sum::<f64>() / seconds.iter().sum::<f64>()]).collect()
    };
    let (standard, cyclic) = (of_paper(STANDARD_SECONDS), of_paper(CYCLIC_SECONDS));
    row(&mut text, "the paper's INN, one file an article", &standard);
    row(&mut text, "the paper's INN, cyclic", &cyclic);
    for measured in all.iter().filter(|measured| is_in_a_pair(&measured.subject)) {
        row(&mut text, &measured.subject.name(), &rates(&measured.seconds));
    }
    let factors =
        |fast: &[f64], slow: &[f64]| -> Vec<f64> { fast.iter().zip(slow).map(|(f, s)| f / s).collect() };
    row(&mut text, "**factors**: the paper's", &factors(&cyclic, &standard));
    let find = |subject: &Subject| all.iter().find(|measured| measured.subject == *subject);
    for (fast, slow) in &PAIRS {
        let (Some(fast), Some(slow)) = (find(fast), find(slow)) else { continue };
        let name = format!("{} to {}", fast.subject.name(), slow.subject.name());
        row(&mut text, &name, &factors(&rates(&fast.seconds), &rates(&slow.seconds)));
    }
    text
}

fn is_in_a_pair(subject: &Subject) -> bool {
    PAIRS.iter().any(|(fast, slow)| subject == fast || subject == slow)
}

fn figure_9(slow: &[Measured]) -> String {
    let find = |subject: &Subject| slow.iter().find(|measured| measured.subject == *subject);
    // Within one program; what the paper compared.
    let pairs: Vec<(&Measured, &Measured)> =
        [&PAIRS[0], &PAIRS[2]].iter().filter_map(|(fast, slow)| Some((find(fast)?, find(slow)?))).collect();
    let mut heads = vec!["the paper's standard".to_owned(), "cyclic".into(), "change".into()];
    heads.extend(slow.iter().map(|measured| measured.subject.name()));
    heads.extend(pairs.iter().map(|(fast, _)| format!("change to {}", fast.subject.name())));
    let mut text = format!("| | {} |\n|---|{}\n", heads.join(" | "), "---:|".repeat(heads.len()));
    for statistic in &STATISTICS {
        let mut cells = match statistic.paper {
            Some((standard, cyclic)) => vec![number(standard), number(cyclic), change(cyclic, standard)],
            None => vec!["-".to_owned(); 3],
        };
        let value = |measured: &Measured| (statistic.value)(measured);
        cells.extend(slow.iter().map(|measured| value(measured).map_or_else(|| "-".into(), number)));
        for (fast, slow) in &pairs {
            let both = value(fast).zip(value(slow));
            cells.push(both.map_or_else(|| "-".into(), |(fast, slow)| change(fast, slow)));
        }
        let _ = writeln!(text, "| {} | {} |", statistic.name, cells.join(" | "));
    }
    text
}

/// In percent of the second, as the paper has it.
fn change(to: f64, from: f64) -> String {
    if from == 0.0 { "-".into() } else { format!("{:+.0} %", 100.0 * (to - from) / from) }
}

fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn row(text: &mut String, name: &str, values: &[f64]) {
    let cells: Vec<String> = values.iter().map(|value| number(*value)).collect();
    let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::super::batches::Batch;
    use super::super::meter::{Calls, Counters};
    use super::*;
    use crate::record::Spent;

    fn measured(subject: Subject, seconds: [f64; 4], disk_reads: u64) -> Measured {
        let counters = Counters {
            user_ticks: 30,
            system_ticks: 10,
            disk_reads,
            disk_writes: 90,
            disk_ms: 1000,
            ..Counters::default()
        };
        Measured {
            subject,
            runs: 1,
            seconds: seconds.to_vec(),
            sync_seconds: 1.0,
            counters,
            calls: Some(Calls { read: 1000, path: 40, ..Calls::default() }),
            spent: Spent { user: 50.0, system: 20.0, idle: 60.0, wait: 60.0, stolen: 10.0 },
            files: 7,
        }
    }

    fn cells(text: &str, start: &str) -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with(&format!("| {start} |"))).unwrap();
        line.split(" | ").skip(1).map(|cell| cell.trim_end_matches(" |").to_owned()).collect()
    }

    #[test]
    fn batches_are_columns_and_the_papers_factors_stand_beside() {
        let batch = || Batch { ends: vec![0; 100], ..Batch::default() };
        let made = Batches { groups: 1, batches: (0..4).map(|_| batch()).collect() };
        let all = [
            measured(Subject::Newsreel("cnfs"), [0.5, 0.25, 1.0, 0.25], 0),
            measured(Subject::Newsreel("tradspool"), [5.0, 5.0, 5.0, 5.0], 0),
            measured(Subject::Newsreel("trash"), [1.0; 4], 0),
        ];
        let text = figures(&all, &[], 1.0, &made);
        assert_eq!(cells(&text, "newsreel cnfs"), ["200", "400", "100", "400", "200"]);
        // As the paper has them, rounded; the last one it does not print.
        assert_eq!(cells(&text, "**factors**: the paper's"), ["3.14", "2.89", "4.08", "3.76", "3.43"]);
        assert_eq!(
            cells(&text, "newsreel cnfs to newsreel tradspool"),
            ["10.00", "20.00", "5.00", "20.00", "10.00"]
        );
        assert!(!text.contains("trash") && !text.contains("INN 2.7") && !text.contains("Figure 9"), "{text}");
        let slow = figures(&all, &all, 1.5, &made);
        assert!(slow.contains("Figure 9") && slow.contains("a disk of 1.5 ms"), "{slow}");
    }

    #[test]
    fn each_statistic_of_figure_9_is_a_row() {
        let all = [
            measured(Subject::Newsreel("tradspool"), [5.0; 4], 10),
            measured(Subject::Newsreel("cnfs"), [1.0; 4], 0),
        ];
        let text = figure_9(&all);
        assert_eq!(text.lines().count(), 2 + STATISTICS.len());
        let row = |name: &str| cells(&text, name);
        assert_eq!(row("elapsed, s"), ["2047", "597", "-71 %", "20.00", "4.00", "-80 %"]);
        assert_eq!(row("CPU wait, %")[3..], ["30.00", "30.00", "+0 %"]);
        assert_eq!(row("CPU user, %, of the server")[3..5], ["15.00", "15.00"]);
        assert_eq!(row("CPU of others, %"), ["-", "-", "-", "20.00", "20.00", "+0 %"]);
        assert_eq!(row("disk service time, ms"), ["48.00", "13.00", "-73 %", "10.00", "11.11", "+11 %"]);
        assert_eq!(row("disk reads")[3..], ["10.00", "0.00", "-100 %"]);
        assert_eq!(row("buffer cache hits, %")[3..5], ["99.04", "100"]);
        assert_eq!(row("name cache (DNLC) hits, %")[3..5], ["75.00", "100"]);
    }
}
