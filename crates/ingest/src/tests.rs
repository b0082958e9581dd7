//! The path of an article, on a spool in memory.

mod aside;
pub(crate) mod filters;
mod follow_ups;

use super::*;
use disk::{ReadMode, SimDisk};
use site_config as config;
use spool::{ArticleBuf, ChangeMaker as _, GroupFlag, Lookup, NewGroup};
use std::path::Path;

const CONFIG: &str = r#"
[site]
path_identity = "site.example"
listen = ["127.0.0.1:0"]
data = "/sim"
durability = "process"
max_age_days = "none"
unknown_groups = "UNKNOWN"

[[buffer]]
name = "text0"
path = "text0.cyc"
size = "4 MiB"

[[class]]
name = "text"
buffers = ["text0"]

[[rule]]
class = "text"
"#;

fn filer(disk: &SimDisk, unknown_groups: &str) -> Filer {
    let filer = opened(disk, &CONFIG.replace("UNKNOWN", unknown_groups));
    let group = |name: &str, flag| NewGroup { name: name.into(), flag, ..NewGroup::default() };
    let alias = GroupFlag::Alias("misc.test".into());
    let groups = [
        group("misc.test", GroupFlag::Open),
        group("old.test", alias),
        group("to.moderated", GroupFlag::Alias("local.moderated".into())),
        group("to.alias", GroupFlag::Alias("old.test".into())),
        group("local.moderated", GroupFlag::Moderated),
        group("local.junked", GroupFlag::Junk),
        group("junk", GroupFlag::Closed),
        group("control.cancel", GroupFlag::Closed),
    ];
    filer.spool.add_groups(&groups).unwrap();
    filer
}

/// Opens a filer for the site of this configuration.
fn opened(disk: &SimDisk, text: &str) -> Filer {
    let config = config::parse(text, Path::new("/sim/newsreel.toml")).map_err(|e| e.to_string()).unwrap();
    let (spool, _) = Spool::open(Arc::new(disk.clone()), config.spool_config(), &()).unwrap();
    Filer::new(Arc::new(config), Arc::new(spool))
}

fn wire(id: &str, groups: &str, more: &str) -> String {
    format!(
        "Path: x.example!y\r\nFrom: a@b\r\nNewsgroups: {groups}\r\nSubject: s\r\nDate: 15 Apr 1993 12:00:00 GMT\r\n\
         Message-ID: {id}\r\n{more}\r\nbody of {id}\r\n"
    )
}

fn ingest(filer: &Filer, wires: &[(String, &str)]) -> Vec<Disposition> {
    let batch: Vec<_> = wires
        .iter()
        .map(|(wire, claimed)| IncomingArticle {
            wire: wire.as_bytes(),
            claimed_id: Some(claimed.as_bytes()),
        })
        .collect();
    let mut dispositions = Vec::new();
    filer.ingest_now(&Origin::batch("site.example"), &batch, &mut dispositions);
    dispositions
}

fn stored(filer: &Filer, id: &str) -> String {
    let key = filer.spool.key(id.as_bytes());
    let Lookup::Present(token) = filer.spool.lookup(&key) else { return String::new() };
    let mut article = ArticleBuf::default();
    assert!(filer.spool.read(&token, Some(&key), ReadMode::Wait, &mut article).unwrap());
    String::from_utf8(article.article().to_vec()).unwrap()
}

#[test]
fn a_batch_keeps_its_order_with_any_dispositions() {
    let filer = filer(&SimDisk::new(), "reject");
    let good = |id: &'static str| (wire(id, "misc.test", ""), id);
    let dispositions = ingest(
        &filer,
        &[
            good("<1@x>"),
            (wire("<2@x>", "no.such", ""), "<2@x>"),
            ("garbage\r\n".into(), "<3@x>"),
            good("<1@x>"),
            (wire("<4@x>", "misc.test", ""), "<5@x>"),
            good("<6@x>"),
            (wire("<2@x>", "no.such", ""), "<2@x>"),
        ],
    );
    let told: Vec<_> = dispositions
        .iter()
        .map(|disposition| match disposition {
            Disposition::Accepted(_) => "accepted",
            Disposition::Rejected(reject) => reject.text(),
            Disposition::TryLater => "later",
            Disposition::Deferred(_) => "deferred",
        })
        .collect();
    let expected = [
        "accepted",
        "no group carried here",
        "malformed article",
        "duplicate",
        "Message-ID is not the announced one",
        "accepted",
        "no group carried here",
    ];
    assert_eq!(told, expected);
    let known = |id: &str| filer.spool.is_known(&filer.spool.key(id.as_bytes()));
    for (id, remembered) in [
        ("<1@x>", true),
        ("<2@x>", true),
        ("<3@x>", false),
        ("<4@x>", false),
        ("<5@x>", false),
        ("<6@x>", true),
    ] {
        assert_eq!(known(id), remembered, "{id}");
    }
    assert_eq!(
        stored(&filer, "<6@x>"),
        format!(
            "Xref: site.example misc.test:2\r\n{}.\r\n",
            wire("<6@x>", "misc.test", "").replace("x.example!y", "site.example!x.example!y")
        )
    );
}

#[test]
fn groups_are_chosen() {
    let strict = filer(&SimDisk::new(), "reject");
    let junking = filer(&SimDisk::new(), "junk");
    for (n, (groups, more, xref, xref_when_junking)) in [
        ("misc.test", "", "misc.test:1", "misc.test:1"),
        ("old.test,misc.test", "", "misc.test:2", "misc.test:2"),
        ("no.such,misc.test", "", "misc.test:3", "misc.test:3"),
        ("no.such", "", "", "junk:1"),
        ("local.junked", "", "junk:1", "junk:2"),
        ("local.junked,misc.test", "", "misc.test:4", "misc.test:4"),
        ("local.moderated", "", "", ""),
        ("misc.test,local.moderated", "", "", ""),
        ("local.moderated", "Approved: m@x\r\n", "local.moderated:1", "local.moderated:1"),
        ("to.moderated", "", "", ""),
        ("to.alias", "", "", "junk:3"),
        ("misc.test", "Control: cancel <a@b>\r\n", "control.cancel:1", "control.cancel:1"),
        ("misc.test", "Control: nonsense\r\n", "", ""),
        ("../../etc/passwd", "", "", "junk:4"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("<{n}@x>");
        for (filer, xref) in [(&strict, xref), (&junking, xref_when_junking)] {
            ingest(filer, &[(wire(&id, groups, more), &id)]);
            let stored = stored(filer, &id);
            let expected = if xref.is_empty() { String::new() } else { format!("Xref: site.example {xref}") };
            assert_eq!(stored.lines().next().unwrap_or_default(), expected, "{groups} {more}");
        }
    }
}

#[test]
fn articles_are_not_remembered_after_local_trouble() {
    let disk = SimDisk::new();
    let filer = filer(&disk, "reject");
    disk.fail_at(disk.steps(), SimDisk::ENOSPC, true);
    assert_eq!(ingest(&filer, &[(wire("<1@x>", "misc.test", ""), "<1@x>")]), [Disposition::TryLater]);
    assert_eq!(
        ingest(&filer, &[(wire("<2@x>", "no.such", ""), "<2@x>")]),
        [Disposition::Rejected(Reject::UnknownGroups)]
    );
    let fates = filer.file_batch(&[wire("<1@x>", "misc.test", "").as_bytes()]);
    assert_eq!((fates[0].outcome, &*fates[0].message_id), (BatchOutcome::TryLater, "<1@x>"));
    assert!(!fates[0].reason.is_empty());
    assert!(!filer.spool.is_known(&filer.spool.key(b"<1@x>")));
}

#[test]
fn offline_filing_reports_reasons() {
    let filer = filer(&SimDisk::new(), "reject");
    let wires = [
        wire("<1@x>", "misc.test", ""),
        wire("<1@x>", "misc.test", ""),
        wire("nonsense", "misc.test", ""),
        "a: b\r\n".into(),
        wire("<2@x>", "no.such", ""),
    ];
    let fates = filer.file_batch(&wires.each_ref().map(|wire| wire.as_bytes()));
    let told: Vec<_> =
        fates.iter().map(|f| format!("{:?} {}{}", f.outcome, f.message_id, f.reason)).collect();
    assert_eq!(
        told,
        [
            "Accepted ",
            "Duplicate ",
            "Malformed bad Message-ID",
            "Malformed no blank line after headers",
            "Rejected <2@x>no group carried here",
        ]
    );
}

/// Returns the class for an article from `origin` under these rules.
fn class_under(rules: &str, origin: &Origin, wire: &str) -> String {
    let classes = "\n[[class]]\nname = \"ram\"\nmethod = \"memory\"\nsize = \"64 KiB\"\n";
    let text =
        CONFIG.replace("UNKNOWN", "reject").replace("[[rule]]", &format!("{classes}\n{rules}\n[[rule]]"));
    let config = config::parse(&text, Path::new("/sim/newsreel.toml")).map_err(|e| e.to_string()).unwrap();
    let (spool, _) = Spool::open(Arc::new(SimDisk::new()), config.spool_config(), &()).unwrap();
    let groups =
        ["misc.test", "misc.other"].map(|name| NewGroup { name: name.into(), ..NewGroup::default() });
    spool.add_groups(&groups).unwrap();
    let classes: Vec<String> = config.classes.iter().map(|class| class.name.clone()).collect();
    let filer = Filer::new(Arc::new(config), Arc::new(spool));
    let mut dispositions = Vec::new();
    filer.ingest_now(
        origin,
        &[IncomingArticle { wire: wire.as_bytes(), claimed_id: None }],
        &mut dispositions,
    );
    let [Disposition::Accepted(Some(token))] = dispositions[..] else { panic!("{dispositions:?}") };
    classes[usize::from(token.class)].clone()
}

#[test]
fn rules_see_verdict_origin_path_headers_and_every_group() {
    let batch = Origin::batch("site.example");
    let plain = wire("<a@b>", "misc.test,misc.other", "X-Trace: a spam b\r\n");
    let binary = format!("{}=ybegin line=128 size=3 name=a\r\nxyz\r\n=yend size=3\r\n", plain);
    for (condition, wire, expected) in [
        ("verdict = \"binary\"", &plain, "text"),
        ("verdict = \"binary\"", &binary, "ram"),
        ("groups = \"misc.other\"", &plain, "text"),
        ("groups = \"misc.other\"\nmatch = \"any\"", &plain, "ram"),
        ("origin = \"rnews\"", &plain, "ram"),
        ("origin = \"peer *\"", &plain, "text"),
        ("path = \"x.example\"", &plain, "ram"),
        ("path = \"site.example\"", &plain, "text"),
        ("header = { name = \"x-trace\", matches = \"* spam *\" }", &plain, "ram"),
        ("header = { name = \"X-Trace\", matches = \"spam\" }", &plain, "text"),
    ] {
        let rule = format!("[[rule]]\nclass = \"ram\"\n{condition}\n");
        assert_eq!(class_under(&rule, &batch, wire), expected, "{condition}");
    }
    let rule = "[[rule]]\nclass = \"ram\"\norigin = \"injected\"\n";
    let injected = Origin::injected(
        "192.0.2.1",
        Some(&config::NamePattern::parse("*").unwrap()),
        vec![b"misc.test"[..].into()],
    );
    assert_eq!(class_under(rule, &injected, &plain), "ram");
}
