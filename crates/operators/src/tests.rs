//! Every request on a spool in a temporary directory.

use std::path::Path;
use std::sync::Arc;

use disk::RealDisk;
use spool::Spool;

use super::care::VerifyOperation;
use super::explain::ExplainOperation;
use super::groups::{
    GroupAddOperation, GroupEntry, GroupListOperation, GroupRemoveOperation, GroupSetOperation,
};
use super::operation::{OperatedSite, Operation};
use super::reply::Reply;
use site_config::Config;

/// Configuration of the site in a directory.
fn config(dir: &Path) -> Config {
    let text = "[[buffer]]\nname = \"b\"\npath = \"b.cyc\"\nsize = \"1 MiB\"\n\
                [[class]]\nname = \"c\"\nbuffers = [\"b\"]\n[[rule]]\nclass = \"c\"\n";
    site_config::parse(text, &dir.join("newsreel.toml")).unwrap()
}

fn spool() -> (tempfile::TempDir, Arc<Spool>) {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path()).spool_config();
    let (spool, _) = Spool::open(Arc::new(RealDisk::default()), config, &()).unwrap();
    (dir, Arc::new(spool))
}

fn run(spool: &Arc<Spool>, operation: &dyn Operation) -> (bool, Vec<Reply>) {
    let config = config(&spool.config().dir);
    let mut replies = Vec::new();
    let site = OperatedSite::Stopped { spool, config: &config };
    let ok = operation.run(&site, &mut |reply| replies.push(reply));
    (ok, replies)
}

fn entry(name: &str, flag: &str, description: &str) -> GroupEntry {
    GroupEntry {
        name: name.into(),
        flag: flag.into(),
        description: description.into(),
        high: 0,
        ..GroupEntry::default()
    }
}

fn changed(name: &str, changed: bool, error: Option<&str>) -> Reply {
    Reply::Changed { name: name.into(), changed, error: error.map(str::to_owned) }
}

#[test]
fn groups_are_added_once_and_bad_ones_do_not_stop_others() {
    let (_dir, spool) = spool();
    let groups = vec![
        entry("local.test", "y", "For\ttrying\n things out"),
        entry("bad..name", "y", ""),
        entry("local.odd", "q", ""),
        entry("local.test", "n", ""),
        entry("local.ann", "m", ""),
    ];
    let (ok, replies) = run(&spool, &GroupAddOperation { groups });
    assert!(!ok);
    assert_eq!(
        replies,
        [
            changed("bad..name", false, Some("not a valid group name")),
            changed(
                "local.odd",
                false,
                Some("`q` is not a flag; the flags are y, n, m, j, x and =other.name")
            ),
            changed("local.test", false, None),
            changed("local.test", true, None),
            changed("local.ann", true, None),
        ]
    );
    let (ok, replies) = run(&spool, &GroupListOperation { wildmat: Some("*.test".into()) });
    assert!(ok);
    let [Reply::Group(row)] = replies.as_slice() else { panic!("{replies:?}") };
    assert_eq!((row.name.as_str(), row.flag.as_str(), row.count), ("local.test", "y", 0));
    assert_eq!(row.description, "For trying things out");
}

#[test]
fn groups_are_changed_and_removed() {
    let (_dir, spool) = spool();
    run(&spool, &GroupAddOperation { groups: vec![entry("local.test", "y", "Tests")] });
    let set = |name: &str, flag: &str| GroupSetOperation {
        name: name.into(),
        flag: Some(flag.into()),
        description: None,
    };
    assert_eq!(run(&spool, &set("local.test", "m")), (true, vec![changed("local.test", true, None)]));
    assert_eq!(
        run(&spool, &set("local.none", "m")),
        (false, vec![changed("local.none", false, Some("no such group"))])
    );
    let (_, replies) = run(&spool, &GroupListOperation { wildmat: None });
    let [Reply::Group(row)] = replies.as_slice() else { panic!("{replies:?}") };
    assert_eq!((row.flag.as_str(), row.description.as_str()), ("m", "Tests"));
    let remove = GroupRemoveOperation { names: vec!["local.test".into(), "local.none".into()] };
    let (ok, replies) = run(&spool, &remove);
    assert!(!ok);
    assert_eq!(
        replies,
        [changed("local.test", true, None), changed("local.none", false, Some("no such group"))]
    );
    assert_eq!(run(&spool, &GroupListOperation { wildmat: None }), (true, vec![]));
}

#[test]
fn unknown_subjects_are_explained_as_unknown() {
    let (_dir, spool) = spool();
    let (ok, replies) = run(&spool, &ExplainOperation { subject: "<a@example.org>".into() });
    assert!(!ok);
    assert_eq!(
        replies.last(),
        Some(&Reply::Text("history        unknown: it would be taken if it were offered".into()))
    );
    let (ok, replies) = run(&spool, &ExplainOperation { subject: "nonsense".into() });
    assert!(!ok);
    assert!(matches!(replies.as_slice(), [Reply::Error(_)]), "{replies:?}");
}

#[test]
fn an_article_is_explained_with_the_date_of_its_arrival() {
    let (dir, spool) = spool();
    run(&spool, &GroupAddOperation { groups: vec![entry("local.test", "y", "Tests")] });
    let text = "[site]\nmax_age_days = \"none\"\n[[class]]\nname = \"c\"\nmethod = \"trash\"\n[[rule]]\nclass = \"c\"\n";
    let config = site_config::parse(text, &dir.path().join("newsreel.toml")).unwrap();
    let filer = ingest::Filer::new(Arc::new(config), Arc::clone(&spool));
    let fates = filer.file_batch(&[
        b"Path: x!y\r\nFrom: a@b\r\nNewsgroups: local.test\r\nSubject: s\r\nDate: 15 Apr 1993 12:00:00 GMT\r\n\
          Message-ID: <a@example.org>\r\n\r\nbody\r\n",
    ]);
    assert_eq!(fates[0].reason, "");
    let (ok, replies) = run(&spool, &ExplainOperation { subject: "<a@example.org>".into() });
    assert!(ok, "{replies:?}");
    let arrived = replies.iter().find_map(|reply| match reply {
        Reply::Text(text) => text.strip_prefix("arrived        "),
        _ => None,
    });
    let (date, secs) = arrived.unwrap().split_once(" (").unwrap();
    let secs: i64 = secs.strip_suffix(')').unwrap().parse().unwrap();
    assert_eq!(netnews::date::parse(date.as_bytes()), Some(secs), "{arrived:?}");
    assert!((0..60).contains(&(site_base::clock::unix_now() - secs)), "{arrived:?}");
}

#[test]
fn problem_is_reported_with_its_repair_and_repaired() {
    let (dir, spool) = spool();
    let secret =
        std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).find(|p| p.ends_with("secret"));
    let secret = secret.unwrap_or_else(|| spool.config().dir.join("secret"));
    let whole = std::fs::read(&secret).unwrap();
    std::fs::write(&secret, "something else").unwrap();
    let (ok, replies) = run(&spool, &VerifyOperation { repair: true, dry_run: true, json: false });
    let told = |replies: &[Reply]| {
        let told = |r: &&Reply| matches!(r, Reply::Repair { what, error: None } if what == "write it again");
        replies.iter().filter(told).count()
    };
    assert!(!ok && told(&replies) == 1, "{replies:?}");
    assert_ne!(std::fs::read(&secret).unwrap(), whole);
    let (ok, replies) = run(&spool, &VerifyOperation { repair: true, dry_run: false, json: false });
    assert!(ok && told(&replies) == 1, "{replies:?}");
    assert!(
        matches!(replies.last(), Some(Reply::Text(text)) if text.ends_with("all is well")),
        "{replies:?}"
    );
    assert_eq!(std::fs::read(&secret).unwrap(), whole);
}

#[test]
fn an_empty_spool_verifies() {
    let (_dir, spool) = spool();
    let (ok, replies) = run(&spool, &VerifyOperation { repair: false, dry_run: false, json: false });
    assert!(ok);
    assert!(
        matches!(replies.last(), Some(Reply::Text(text)) if text.ends_with("all is well")),
        "{replies:?}"
    );
}
