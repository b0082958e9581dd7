//! `newsreel expire`: deletion, explanation and forecast, with a running server and without one.

use crate::operated::{Operated, complaints};
use crate::purging::feed;
use crate::waiting::wait_for_next_second;
use std::fs;

const RULES: &str = "\n[[expire]]\ngroups = \"kept.short\"\nkeep = \"1 ms\"\n\n\
                     [[expire]]\nmoderated = true\nkeep = \"never\"\narticles_max = 1\n\n\
                     [[expire]]\nclass = \"files\"\ngroups = \"kept.long\"\nkeep = \"20 days\"\nage = \"thread\"\n";

fn filled() -> Operated {
    let site = Operated::new();
    site.edit(|text| {
        let text = text.replacen("max_age_days = 10", "max_age_days = \"none\"", 1);
        let rule = "[[class]]\nname = \"files\"\nmethod = \"tradspool\"\nfree_min = \"1 %\"\n\n\
                    [[rule]]\nclass = \"files\"\ngroups = \"kept.*\"\n\n[[rule]]";
        text.replacen("[[rule]]", rule, 1)
    });
    for group in ["kept.short", "kept.long", "misc.one"] {
        site.done(&["group", "add", group]);
    }
    site.done(&["group", "add", "kept.mod", "--flag", "m"]);
    feed(
        &site,
        &[
            ("<1@x.example>", "kept.short"),
            ("<2@x.example>", "kept.short,kept.long"),
            ("<3@x.example>", "kept.long"),
            ("<4@x.example>", "misc.one"),
        ],
    );
    site
}

#[test]
fn expiry_is_forecast_explained_and_done() {
    for served in [true, false] {
        let site = filled();
        let serving = served.then(|| site.serve());
        let file = site.dir().join("other.toml");
        let rules = fs::read_to_string(site.dir().join("newsreel.toml")).unwrap() + RULES;
        fs::write(&file, &rules).unwrap();
        let file = file.to_str().unwrap();
        // Times of arrival are whole seconds.
        wait_for_next_second();
        let table = site.done(&["expire", "--what-if", file, "--days", "30"]);
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["articles", "gone", "now", "bytes", "in", "30", "d", "bytes"], "{table}");
        assert!(table.contains("[[expire]] 1  groups = \"kept.short\""), "{table}");
        let json = site.done(&["expire", "--what-if", file, "--days", "30", "--json"]);
        let rows: serde_json::Value = serde_json::from_str(&json).unwrap();
        let of = |at: usize| {
            let row = &rows[at];
            ["articles", "now_articles", "later_articles"].map(|key| row[key].as_u64().unwrap())
        };
        assert_eq!([of(0), of(1), of(2), of(3)], [[1, 1, 1], [0, 0, 0], [2, 0, 2], [0, 0, 0]], "{json}");
        let without = site.done(&["expire", "--what-if", file, "--json"]);
        assert!(without.contains("\"later_articles\": null"), "{without}");
        assert!(site.done(&["expire", "--dry-run"]).starts_with("0 of 3 articles would be expired"));

        let faulty = site.dir().join("faulty.toml");
        fs::write(&faulty, rules.replace("1 ms", "soon")).unwrap();
        let refused = site.run(&["expire", "--what-if", faulty.to_str().unwrap()]);
        assert!(!refused.status.success() && complaints(&refused).contains("`soon` is not a time"));
        for wrong in [&["expire", "--days", "3"][..], &["expire", "--dry-run", "--explain", "<1@x>"]] {
            assert_eq!(site.run(wrong).status.code(), Some(2), "{wrong:?}");
        }

        // A reload starts a pass at once, but nothing is due yet.
        let take = |rules: String| {
            site.edit(|_| rules);
            if served {
                site.done(&["ctl", "reload"]);
            }
        };
        take(rules.replace("1 ms", "10 days"));
        let told = site.done(&["expire", "--explain", "<2@x.example>"]);
        for part in [
            "stored in      files (tradspool)",
            "kept.short:2: by [[expire]] 1 (groups = \"kept.short\") due ",
            "kept.long:1: by [[expire]] 3 (groups = \"kept.long\", class = \"files\") due ",
            "thread         its newest article arrived ",
            ", with its last number",
            "and free_min is ",
        ] {
            assert!(told.contains(part), "no {part:?} in {told}");
        }
        let told = site.done(&["expire", "--explain", "<4@x.example>"]);
        assert!(told.contains("goes           when ") && told.contains("written to the buffer"), "{told}");
        let unknown = site.run(&["expire", "--explain", "<9@x.example>"]);
        assert!(!unknown.status.success() && complaints(&unknown).contains("was never here"));

        take(rules);
        let said = site.done(&["expire"]);
        let expected = "1 of 3 articles expired, with 2 article numbers and ";
        assert!(served || said.starts_with(expected), "{said}");
        let told = site.done(&["expire", "--explain", "<2@x.example>"]);
        assert!(told.contains("kept.long:1") && !told.contains("kept.short"), "{told}");
        let gone = site.run(&["expire", "--explain", "<1@x.example>"]);
        assert!(complaints(&gone).contains("is gone: it was cancelled, expired or rejected"));
        drop(serving);
        site.done(&["verify"]);
    }
}
