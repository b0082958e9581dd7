//! A buffer whose disk is away: read-only commands still answer, nothing is created on the bare mount point,
//! a rebuild gives up the buffer only by name, and its articles return with it.

use crate::client::article;
use crate::operated::{Operated, complaints};
use std::path::Path;

/// Creates a site with two buffers, the second of them alone in `disk`, and articles in both.
fn two_buffers() -> Operated {
    let site = Operated::new();
    site.edit(|text| text.replacen("max_age_days = 10", "max_age_days = \"none\"", 1));
    std::fs::create_dir(site.dir().join("disk")).unwrap();
    site.done(&["buffer", "move", "text1", "disk/text1.cyc"]);
    std::fs::remove_file(site.dir().join("text1.cyc")).unwrap();
    for batch in 0..40 {
        let batch: String = (0..10)
            .map(|n| {
                let text = article(&format!("<{batch}.{n}@x.example>"), "local.test", &"text ".repeat(900));
                let text = text.replace("\r\n", "\n");
                let text = text.trim_end_matches(".\n");
                format!("#! rnews {}\n{text}", text.len())
            })
            .collect();
        let filed = site.run_with(&["rnews"], batch.as_bytes());
        assert!(filed.status.success(), "{}", complaints(&filed));
    }
    site
}

fn json(output: &std::process::Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", complaints(output)))
}

fn articles(site: &Operated) -> u64 {
    json(&site.run(&["status", "--json"]))["spool"]["articles"].as_u64().unwrap()
}

fn names_in(dir: &Path) -> Vec<std::ffi::OsString> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn buffer_on_a_missing_disk_is_given_up_only_by_name_and_returns() {
    let site = two_buffers();
    let (disk, aside) = (site.dir().join("disk"), site.dir().join("aside"));
    let total = articles(&site);
    let whole = std::fs::read_to_string(site.dir().join("newsreel.toml")).unwrap();
    std::fs::rename(disk.join("text1.cyc"), &aside).unwrap();

    // Commands that show the site answer for the rest, and name the missing buffer.
    let status = site.run(&["status", "--json"]);
    assert_eq!(status.status.code(), Some(1));
    let spool = &json(&status)["spool"];
    let why = spool["unopened"].as_str().unwrap();
    assert!(
        why.contains("buffer \"text1\" is missing") && why.contains("newsreel rebuild --without text1"),
        "{why}"
    );
    assert_eq!((spool["articles"].as_u64(), &spool["buffers"][1]["away"]), (Some(total), &true.into()));
    assert!(spool["buffers"][0]["used_bytes"].as_u64() > Some(0));
    let shown = String::from_utf8(site.run(&["status"]).stdout).unwrap();
    assert!(
        shown.contains("CANNOT BE OPENED: buffer \"text1\" is missing") && shown.contains("AWAY"),
        "{shown}"
    );
    let list = site.run(&["buffer", "list", "--json"]);
    assert!(!list.status.success() && complaints(&list).contains("is missing"), "{}", complaints(&list));
    let rows = json(&list);
    assert_eq!((&rows[0]["away"], &rows[1]["away"]), (&serde_json::Value::Null, &true.into()));

    // All other commands refuse, and create nothing.
    for command in [&["serve"][..], &["rebuild"], &["verify"], &["buffer", "grow", "text0", "9 MiB"]] {
        let refused = site.run(command);
        assert!(!refused.status.success(), "{command:?}");
        let told = complaints(&refused);
        assert!(
            told.contains("text1\" is missing") && told.contains("mount its disk"),
            "{command:?}: {told}"
        );
    }
    for (name, told) in [("text0", "is not missing"), ("text7", "no index knows of a buffer \"text7\"")] {
        let refused = site.run(&["rebuild", "--without", "text1", "--without", name]);
        assert!(!refused.status.success() && complaints(&refused).contains(told), "{}", complaints(&refused));
    }
    assert_eq!(std::fs::read_to_string(site.dir().join("newsreel.toml")).unwrap(), whole);

    let said = site.done(&["rebuild", "--without", "text1"]);
    let left = articles(&site);
    assert!(left > 0 && left < total, "{left} of {total}");
    assert!(said.contains(&format!("indexes rebuilt: {left} articles")), "{said}");
    assert!(said.contains(&format!("given up: {} articles of text1\n", total - left)), "{said}");
    assert!(said.contains("buffer text1 is out of the configuration"), "{said}");
    assert!(site.done(&["verify"]).contains("all is well"));
    assert_eq!(names_in(&disk), Vec::<std::ffi::OsString>::new(), "the bare mount point");

    // The disk is back.
    std::fs::rename(&aside, disk.join("text1.cyc")).unwrap();
    site.edit(|_| whole.clone());
    let refused = site.run(&["serve"]);
    assert!(
        complaints(&refused).contains("text1.cyc holds articles of buffer \"text1\" that are in no index")
    );
    assert!(site.done(&["rebuild"]).contains(&format!("indexes rebuilt: {total} articles")));
    assert_eq!(articles(&site), total);
    assert!(site.done(&["verify"]).contains("all is well"));
}
