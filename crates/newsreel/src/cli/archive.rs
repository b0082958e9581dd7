//! `archive status`.

use super::listing::ListedRow;
use super::table::status_table;
use operators::report::ArchiveStatus;
use site_base::units::{about_span, counted};

impl ListedRow for ArchiveStatus {
    fn table(archives: &[Self], now: u64) -> String {
        text(archives, now)
    }
}

/// Returns the archives as a table, followed by their problems.
pub(super) fn text(archives: &[ArchiveStatus], now: u64) -> String {
    if archives.is_empty() {
        return "there is no [[archive]] in the configuration".to_owned();
    }
    let mut text = status_table("archive", archives, now);
    for archive in archives.iter().filter(|archive| !archive.problem.is_empty()) {
        text.push_str(&format!("\n  {}: {}", archive.name, archive.problem));
        if let Some(secs) = archive.gives_up_secs {
            let due = counted(archive.held, "article");
            text.push_str(&format!("; {due} due, held back for {} at most", about_span(secs)));
        }
    }
    if archives.iter().any(|archive| archive.missed > 0) {
        text.push_str("\n  newsreel archive missed lists the articles that went without a copy");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_listed_with_their_problems() {
        let works = ArchiveStatus {
            name: "comp".into(),
            path: "/archive".into(),
            when: "arrival".into(),
            form: "tree".into(),
            archived: 12_345,
            last: Some(1_000),
            waiting_bytes: Some(2_048),
            ..ArchiveStatus::default()
        };
        let fails = ArchiveStatus {
            name: "old".into(),
            path: "/old".into(),
            when: "expiry".into(),
            form: "mbox".into(),
            missed: 3,
            held: 1_200,
            gives_up_secs: Some(7_200),
            problem: "there is no directory /old".into(),
            ..ArchiveStatus::default()
        };
        assert_eq!(
            text(&[works, fails], 8_200),
            "archive  at       form  copied  missed  last copy             to read  in\n\
             comp     arrival  tree  12,345       0  2 h ago              2.00 KiB  /archive\n\
             old      expiry   mbox       0       3  not since the start            /old\n  \
             old: there is no directory /old; 1,200 articles due, held back for 2 h at most\n  \
             newsreel archive missed lists the articles that went without a copy"
        );
        assert_eq!(text(&[], 0), "there is no [[archive]] in the configuration");
    }
}
