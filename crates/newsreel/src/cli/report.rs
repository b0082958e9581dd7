//! `report`: summary of a day on one page, as text, HTML or mail.
//!
//! Reads the record of the day, whether a server runs or not. The contents are those of INN's innreport and
//! inpaths.

use super::locate::SiteLocation;
use super::screen::{CliError, say};
use super::table::Columns;
use clap::{Args, ValueEnum};
use disk::RealDisk;
use netnews::printable::stripped;
use operators::days::{ClassDay, DayRecord, PeerDay, date_of, days, read};
use site_base::clock::unix_secs;
use site_base::units::{DAY_SECS, about_size, about_span, grouped};
use site_config::FeedStart;
use std::collections::BTreeMap;
use std::io;

/// Rows of a table that is sorted by count.
const ROWS_MAX: usize = 40;

/// Options of `report`.
#[derive(Debug, Args)]
pub(super) struct ReportOptions {
    /// The day (UTC): a date such as 2026-01-31, today, or yesterday [default: the last complete one]
    #[arg(long, value_name = "DAY", value_parser = day)]
    day: Option<u64>,
    /// The output format
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
    /// The address of the mail
    #[arg(long, value_name = "ADDRESS", default_value = "news")]
    to: String,
}

/// Format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// For a terminal
    Text,
    /// A page that needs nothing else
    Html,
    /// Text with the header of a mail, for sendmail -t
    Mail,
}

/// Parses a day.
fn day(text: &str) -> io::Result<u64> {
    let today = unix_secs() / DAY_SECS;
    match (text, FeedStart::parse(text)) {
        ("today", _) => Ok(today),
        ("yesterday", _) => Ok(today.saturating_sub(1)),
        (_, Ok(start @ FeedStart::Day(_))) => Ok(start.since() / DAY_SECS),
        _ => {
            let what = format!("`{text}` is neither a date such as 2026-01-31 nor today nor yesterday");
            Err(io::Error::new(io::ErrorKind::InvalidInput, what))
        }
    }
}

pub(super) fn report(at: &SiteLocation, options: &ReportOptions) -> Result<(), CliError> {
    let config = at.load()?;
    let (disk, data) = (RealDisk::new(), &config.site.data);
    let known = days(&disk, data);
    let today = unix_secs() / DAY_SECS;
    let over = known.iter().rev().find(|day| **day < today).or(known.last());
    let Some(day) = options.day.or(over.copied()) else {
        return Err(CliError::Problem(
            "no day is recorded yet: the server records each while it runs".into(),
        ));
    };
    let problem = |error: io::Error| CliError::Problem(format!("cannot read the record: {error}"));
    let Some(record) = read(&disk, data, day).map_err(problem)? else {
        return Err(CliError::Problem(format!("nothing is recorded of {}", date_of(day))));
    };
    let title = format!("newsreel on {}: {}", config.site.path_identity, date_of(day));
    let parts = parts(&record);
    say(match options.format {
        ReportFormat::Text => text(&title, &parts),
        ReportFormat::Html => html(&title, &parts),
        ReportFormat::Mail => format!("{}\n{}", head(&options.to, &title), text(&title, &parts)),
    })
}

/// Returns the header of a mail; line ends in the values are removed.
fn head(to: &str, title: &str) -> String {
    format!(
        "To: {}\nSubject: {}\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\
         Content-Transfer-Encoding: 8bit\nAuto-Submitted: auto-generated\n",
        stripped(to),
        stripped(title)
    )
}

/// A part of the report: a title, and rows, the first of which has the headings.
struct ReportSection {
    title: &'static str,
    rows: Vec<Vec<String>>,
}

fn part(title: &'static str, headings: &[&str], rows: Vec<Vec<String>>) -> Option<ReportSection> {
    let head = headings.iter().map(|text| (*text).to_owned()).collect();
    (!rows.is_empty()).then(|| ReportSection { title, rows: std::iter::once(head).chain(rows).collect() })
}

fn parts(record: &DayRecord) -> Vec<ReportSection> {
    let logins = &record.logins;
    let sums = [
        ("articles accepted", record.accepted),
        ("articles rejected", record.rejected),
        ("answers \"try later\"", record.try_later),
        ("connections of readers", record.readers),
        ("connections refused", record.refused),
        ("logins", logins.succeeded),
        ("failed logins", logins.failed),
        ("lock-outs", logins.lock_outs),
    ];
    let sums = sums.into_iter().map(|(what, n)| vec![what.to_owned(), grouped(n)]).collect();
    let mut trouble: Vec<(&String, &u64)> = record.trouble.iter().collect();
    trouble.sort_by_key(|(_, at)| **at);
    let trouble = trouble.into_iter().map(|(what, at)| vec![clock(*at), what.clone()]).collect();
    [
        part("Trouble", &["since", "what"], trouble),
        part("In all", &["what", "count"], sums),
        part("How articles came", &["from", "articles"], most(&record.origins)),
        part(
            "Peers in",
            &["peer", "offered", "accepted", "rejected", "not wanted"],
            peers(&record.peers, |peer| peer.offered + peer.accepted > 0, incoming),
        ),
        part(
            "Peers out",
            &["peer", "offered", "refused", "accepted", "rejected", "deferred", "missed", "sent"],
            peers(&record.peers, |peer| peer.sent_offered + peer.missed > 0, outgoing),
        ),
        part("Rejected, and why", &["reason", "articles"], most(&record.reasons)),
        part(
            "Storage",
            &["class", "articles", "stored", "articles stay"],
            record.classes.iter().map(|(name, class)| stored(name, class)).collect(),
        ),
        part("Groups by articles", &["group", "articles"], most(&record.groups)),
        part("Groups by readers", &["group", "selected"], most(&record.selections)),
        part("Servers in Path", &["server", "share"], shares(&record.path, record.paths)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns names with their counts, the highest first.
fn most(counts: &BTreeMap<String, u64>) -> Vec<Vec<String>> {
    ordered(counts).into_iter().map(|(name, n)| vec![name.clone(), grouped(*n)]).collect()
}

fn ordered(counts: &BTreeMap<String, u64>) -> Vec<(&String, &u64)> {
    let mut all: Vec<(&String, &u64)> = counts.iter().collect();
    all.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    all.truncate(ROWS_MAX);
    all
}

fn shares(counts: &BTreeMap<String, u64>, all: u64) -> Vec<Vec<String>> {
    let share = |n: u64| format!("{:.1} %", 100.0 * n as f64 / all.max(1) as f64);
    ordered(counts).into_iter().map(|(name, n)| vec![name.clone(), share(*n)]).collect()
}

fn peers(
    all: &BTreeMap<String, PeerDay>,
    is_shown: impl Fn(&PeerDay) -> bool,
    row: impl Fn(&PeerDay) -> Vec<String>,
) -> Vec<Vec<String>> {
    let shown = all.iter().filter(|(_, peer)| is_shown(peer));
    shown.map(|(name, peer)| std::iter::once(name.clone()).chain(row(peer)).collect()).collect()
}

fn incoming(peer: &PeerDay) -> Vec<String> {
    let unwanted = peer.offered.saturating_sub(peer.accepted + peer.rejected);
    [peer.offered, peer.accepted, peer.rejected, unwanted].map(grouped).to_vec()
}

fn outgoing(peer: &PeerDay) -> Vec<String> {
    let PeerDay { sent_offered, sent_refused, sent_accepted, sent_rejected, sent_deferred, missed, .. } =
        peer;
    let counts = [sent_offered, sent_refused, sent_accepted, sent_rejected, sent_deferred, missed];
    counts.into_iter().map(|n| grouped(*n)).chain([about_size(peer.sent_bytes)]).collect()
}

fn stored(name: &str, class: &ClassDay) -> Vec<String> {
    let stay = class.stays_secs.map_or_else(|| "not known yet".to_owned(), about_span);
    vec![name.to_owned(), grouped(class.articles), about_size(class.bytes), stay]
}

/// Formats a time of day, UTC.
fn clock(secs: u64) -> String {
    let of_day = secs % DAY_SECS;
    format!("{:02}:{:02}", of_day / 3_600, of_day / 60 % 60)
}

fn text(title: &str, parts: &[ReportSection]) -> String {
    let mut out = format!("{title}\n");
    for ReportSection { title, rows } in parts {
        let Some((head, rows)) = rows.split_first() else { continue };
        let cell = |at: usize| move |row: &Vec<String>| row.get(at).cloned().unwrap_or_default();
        let mut columns = Columns::of(rows);
        for (at, heading) in head.iter().enumerate() {
            // Words are aligned left, numbers right.
            let is_words = at == 0 || *title == "Trouble";
            columns = match is_words {
                true => columns.left(heading, cell(at)),
                false => columns.right(heading, cell(at)),
            };
        }
        out.push_str(&format!("\n{title}\n{}\n{}\n", "-".repeat(title.len()), columns.text()));
    }
    out.trim_end().to_owned()
}

fn html(title: &str, parts: &[ReportSection]) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n<style>:root {{ \
         color-scheme: light dark; }} body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 1rem auto; \
         padding: 0 1rem; }} table {{ border-collapse: collapse; }} th, td {{ text-align: right; padding: .1rem .8rem; \
         overflow-wrap: anywhere; }} th:first-child, td:first-child {{ text-align: left; padding-left: 0; }}</style>\n\
         </head><body><main>\n<h1>{0}</h1>\n",
        escaped(title)
    );
    for ReportSection { title, rows } in parts {
        out.push_str(&format!("<h2>{}</h2>\n<table>\n", escaped(title)));
        for (at, row) in rows.iter().enumerate() {
            let tag = if at == 0 { "th" } else { "td" };
            let cells: String = row.iter().map(|text| format!("<{tag}>{}</{tag}>", escaped(text))).collect();
            out.push_str(&format!("<tr>{cells}</tr>\n"));
        }
        out.push_str("</table>\n");
    }
    out + "</main></body></html>"
}

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> DayRecord {
        let counts = |all: &[(&str, u64)]| all.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        let peer = PeerDay { offered: 10, accepted: 7, rejected: 1, ..PeerDay::default() };
        DayRecord {
            accepted: 1_234,
            groups: counts(&[("a.few", 3), ("a.many", 40)]),
            path: counts(&[("far.example<b>", 30), ("near.example", 40)]),
            paths: 40,
            peers: BTreeMap::from([("peer.example".to_owned(), peer)]),
            trouble: counts(&[("it was full", 3_660)]),
            ..DayRecord::default()
        }
    }

    #[test]
    fn day_is_reported_in_parts() {
        let shown = text("A day", &parts(&record()));
        for piece in [
            "Trouble\n-------\nsince  what\n01:01  it was full",
            "articles accepted       1,234",
            "peer          offered  accepted  rejected  not wanted\npeer.example       10         7         1           2",
            "Groups by articles\n------------------\ngroup   articles\na.many        40\na.few          3",
            "near.example    100.0 %\nfar.example<b>   75.0 %",
        ] {
            assert!(shown.contains(piece), "{piece} is not in:\n{shown}");
        }
        assert!(!shown.contains("Peers out"), "{shown}");
    }

    #[test]
    fn foreign_names_cannot_inject_html_or_mail_headers() {
        let page = html("A <day>", &parts(&record()));
        assert!(page.contains("far.example&lt;b&gt;") && !page.contains("<b>"), "{page}");
        assert_eq!(page.matches("<h1>").count(), 1);
        assert!(
            head("a@b.example\nBcc: c@d.example", "x")
                .starts_with("To: a@b.exampleBcc: c@d.example\nSubject: x\n")
        );
    }

    #[test]
    fn days_are_dates_or_words() {
        assert_eq!(day("1970-01-03").unwrap(), 2);
        assert_eq!(day("today").unwrap(), day("yesterday").unwrap() + 1);
        assert!(day("now").is_err() && day("tomorrow").is_err());
    }
}
