//! `newsreel cancel` and `newsreel purge`, with a running server and without one.

use crate::client::{Client, article};
use crate::operated::{Operated, complaints};

pub fn feed(site: &Operated, articles: &[(&str, &str)]) {
    let batch: String = articles
        .iter()
        .map(|(id, groups)| {
            let text = article(id, groups, "b").replace("\r\n", "\n");
            let text = text.trim_end_matches(".\n");
            format!("#! rnews {}\n{text}", text.len())
        })
        .collect();
    let filed = site.run_with(&["rnews"], batch.as_bytes());
    assert!(filed.status.success(), "{}", complaints(&filed));
}

fn count(client: &mut Client, group: &str) -> String {
    client.ask(&format!("GROUP {group}"))
}

fn filled() -> Operated {
    let site = Operated::new();
    site.edit(|text| text.replacen("max_age_days = 10", "max_age_days = \"none\"", 1));
    for group in ["junk.one", "junk.two", "keep.one"] {
        site.done(&["group", "add", group]);
    }
    let articles = [
        ("<1@x.example>", "junk.one"),
        ("<2@x.example>", "junk.one,junk.two"),
        ("<3@x.example>", "junk.two,keep.one"),
        ("<4@x.example>", "keep.one,junk.one"),
        ("<5@x.example>", "keep.one"),
    ];
    feed(&site, &articles);
    site
}

const PURGED: &str = "2 articles purged from 2 groups, with 5 article numbers; 2 crossposted articles stay in their other groups\n";

fn assert_purged(client: &mut Client) {
    assert_eq!(count(client, "junk.one"), "211 0 4 3 junk.one");
    assert_eq!(count(client, "junk.two"), "211 0 3 2 junk.two");
    assert_eq!(count(client, "keep.one"), "211 3 1 3 keep.one");
    for (id, code) in [(1, "430 "), (2, "430 "), (3, "223 "), (4, "223 "), (5, "223 ")] {
        assert!(client.ask(&format!("STAT <{id}@x.example>")).starts_with(code), "{id}");
    }
}

#[test]
fn purge_removes_all_articles_of_groups_but_keeps_crossposts_elsewhere() {
    for served in [true, false] {
        let site = filled();
        let serving = served.then(|| site.serve());
        let asked = site.run(&["purge", "--groups", "junk.*"]);
        assert!(!asked.status.success() && complaints(&asked).contains("--yes"), "{}", complaints(&asked));
        let dry = site.done(&["purge", "--groups", "junk.*", "--dry-run"]);
        assert_eq!(dry, PURGED.replace("purged", "would be purged"));
        let json = |arguments: &[&str]| {
            let said = site.done(&[&["purge", "--groups", "junk.*", "--json"], arguments].concat());
            serde_json::from_str::<serde_json::Value>(&said).unwrap()
        };
        let report = |dry_run, articles, crossposts, numbers| {
            serde_json::json!({
                "dry_run": dry_run, "groups": 2, "articles": articles, "crossposts": crossposts, "numbers": numbers
            })
        };
        assert_eq!(json(&["--dry-run"]), report(true, 2, 2, 5));
        assert_eq!(site.done(&["purge", "--groups", "junk.*", "--yes"]), PURGED, "the dry run took nothing");
        assert!(
            site.done(&["purge", "--groups", "junk.*", "--yes"])
                .starts_with("0 articles purged from 2 groups")
        );
        assert_eq!(json(&["--yes"]), report(false, 0, 0, 0));
        drop(serving);
        site.done(&["verify"]);
        let serving = site.serve();
        assert_purged(&mut serving.client());
    }
}

#[test]
fn purge_of_no_group_fails_and_counts_of_one_are_singular() {
    for served in [true, false] {
        let site = filled();
        let serving = served.then(|| site.serve());
        for how in ["--dry-run", "--yes"] {
            let none = site.run(&["purge", "--groups", "none.*", how]);
            let said = complaints(&none);
            assert!(!none.status.success() && said.contains("no group matches `none.*`"), "{said}");
        }
        assert_eq!(
            site.done(&["purge", "--groups", "keep.one", "--dry-run"]),
            "1 article would be purged from 1 group, with 3 article numbers; 2 crossposted articles stay in \
             their other groups\n"
        );
        drop(serving);
    }
}

#[test]
fn cancel_ignores_cancel_locks() {
    for served in [true, false] {
        let site = filled();
        let serving = served.then(|| site.serve());
        let (here, absent) = ("<2@x.example>", "<absent@x.example>");
        assert_eq!(
            site.done(&["cancel", "--dry-run", here, absent]),
            format!("{here} would be cancelled\n{absent} is not here; it would be refused when it comes\n")
        );
        assert_eq!(
            site.done(&["cancel", here, absent]),
            format!("{here} cancelled\n{absent} is not here; it will be refused when it comes\n")
        );
        let again = format!("{here} is not here any more, and is refused when it comes\n");
        assert_eq!(site.done(&["cancel", here]), again);
        let bad = site.run(&["cancel", "noid"]);
        assert!(
            !bad.status.success() && complaints(&bad).contains("is not a Message-ID"),
            "{}",
            complaints(&bad)
        );
        feed_refused(&site, absent);
        drop(serving);
        site.done(&["verify"]);
        let serving = site.serve();
        let mut client = serving.client();
        assert_eq!(count(&mut client, "junk.one"), "211 2 1 3 junk.one");
        assert!(client.ask(&format!("STAT {here}")).starts_with("430 "));
        assert!(client.ask(&format!("STAT {absent}")).starts_with("430 "));
    }
}

/// Feeds an article that was cancelled before its arrival.
fn feed_refused(site: &Operated, id: &str) {
    let text = article(id, "keep.one", "b").replace("\r\n", "\n");
    let filed = site.run_with(&["rnews"], text.trim_end_matches(".\n").as_bytes());
    let _a_duplicate_is_no_failure = filed.status;
}

#[test]
fn articles_of_a_removed_group_can_be_purged() {
    for served in [true, false] {
        let site = filled();
        let serving = served.then(|| site.serve());
        site.done(&["group", "remove", "junk.one", "junk.two"]);
        let dry = site.done(&["purge", "--groups", "junk.*", "--dry-run"]);
        assert_eq!(dry, "2 articles would be purged from 2 groups, with 0 article numbers\n");
        let purged = site.done(&["purge", "--groups", "junk.*", "--yes"]);
        assert_eq!(purged, dry.replace("would be purged", "purged"));
        let again = site.done(&["purge", "--groups", "junk.one", "--yes"]);
        assert_eq!(again, "0 articles purged from 1 group, with 0 article numbers\n");
        let serving = serving.unwrap_or_else(|| site.serve());
        let mut client = serving.client();
        assert_eq!(count(&mut client, "keep.one"), "211 3 1 3 keep.one");
        for (id, code) in [(1, "430 "), (2, "430 "), (3, "223 "), (4, "223 "), (5, "223 ")] {
            assert!(client.ask(&format!("STAT <{id}@x.example>")).starts_with(code), "{id}");
        }
        assert!(site.run(&["verify"]).status.success());
    }
}
