//! Articles set aside by filters are known by their Message-ID alone, and are restored unchanged on
//! release.

use super::filters::{BySubject, CLASSES, batch, file, filtering};
use super::*;
use crate::aside;
use crate::filters::{BatchFilter, Filters};
use crate::judging::FilingRules;
use crate::release::{ReleaseContext, way};
use disk::CrashKind;
use spool::ChangeMaker as _;
use std::time::Duration;

const TIME_MAX: Duration = Duration::from_secs(3_600);

fn strict(disk: &SimDisk) -> Filer {
    let filer = filtering(disk, vec![BatchFilter::BySubject(BySubject::default())], TIME_MAX);
    let group = |name: &str| NewGroup { name: name.into(), ..NewGroup::default() };
    filer.spool.add_groups(&["other.test", "junk", "control.cancel"].map(group)).unwrap();
    filer
}

/// Reopens the site after a crash, with the same filter.
fn reopened(disk: &SimDisk, text: &str) -> Filer {
    let filer = opened(disk, text);
    let rules = FilingRules::of(filer.judge.rules.load().config.clone(), None, &filer.log);
    let filter = BatchFilter::BySubject(BySubject::default());
    filer.judge.rules.store(Arc::new(FilingRules { filters: Filters::new(vec![filter], TIME_MAX), ..rules }));
    filer
}

fn usual() -> String {
    CONFIG.replace("UNKNOWN", "reject").replace("\n[[rule]]", CLASSES)
}

fn release(filer: &Filer, id: &str) -> String {
    // After a crash nothing can be read.
    let releasing = ReleaseContext { filer, all: filer.reviews().all().unwrap_or_default() };
    match releasing.release(netnews::MessageId::parse(id.as_bytes()).unwrap()) {
        Ok(text) => text.to_owned(),
        Err(error) => format!("error: {error}"),
    }
}

/// Returns how articles with findings can be released.
fn ways(filer: &Filer) -> Vec<&'static str> {
    filer.reviews().all().unwrap().iter().map(|review| way(filer, review)).collect()
}

/// Returns the number of readable articles in a group.
fn count(filer: &Filer, group: &str) -> u64 {
    filer.spool.group(filer.spool.group_id(group.as_bytes()).unwrap()).unwrap().marks().count
}

fn is_aside(filer: &Filer, id: &str) -> bool {
    matches!(aside::lookup(&filer.spool, id.as_bytes()), Lookup::Present(_))
}

/// Returns the copy as which an article is set aside.
fn copy_of(filer: &Filer, id: &str) -> String {
    let key = filer.spool.key(&[b"aside ", id.as_bytes()].concat());
    stored(filer, &format!("<{:032x}@aside.invalid>", key.0))
}

#[test]
fn an_article_set_aside_is_released_unchanged() {
    let disk = SimDisk::new();
    let filer = strict(&disk);
    let articles = batch(&["aside", "x"]);
    assert_eq!(file(&filer, &articles), ["class 0", "class 0"]);
    assert_eq!((count(&filer, "misc.test"), count(&filer, "junk")), (1, 1));
    assert_eq!(filer.spool.lookup(&filer.spool.key(b"<0@x>")), Lookup::Remembered);
    assert_eq!(file(&filer, &articles), ["duplicate", "duplicate"]);
    let label = "X-Newsreel-Aside: * rnews\r\nX-Newsreel-Aside-Message-ID: <0@x>\r\n";
    let copy = copy_of(&filer, "<0@x>");
    assert!(copy.contains(label) && copy.starts_with("Xref: site.example junk:1\r\n"), "{copy}");
    filer.spool.sync().unwrap();
    assert_eq!(filer.spool.verifier().verify(&()).findings, []);
    // A kill loses none of it.
    let left = disk.image_after(CrashKind::Kill, 0).unwrap();
    drop(filer);
    let filer = reopened(&left, &usual());
    assert_eq!(ways(&filer), ["now"]);
    assert_eq!(release(&filer, "<0@x>"), "is filed");
    let came = articles[0].0.replace("Path: ", "Path: site.example!");
    assert_eq!(stored(&filer, "<0@x>"), format!("Xref: site.example misc.test:2\r\n{came}.\r\n"));
    assert_eq!((count(&filer, "misc.test"), count(&filer, "junk")), (2, 0));
    assert_eq!(ways(&filer), [""]);
    assert_eq!(release(&filer, "<0@x>"), "has come meanwhile");
    assert_eq!(file(&filer, &articles), ["duplicate", "duplicate"]);
    assert_eq!(filer.spool.verifier().verify(&()).findings, []);
}

#[test]
fn refusal_of_a_release_is_explained() {
    let filer = strict(&SimDisk::new());
    file(&filer, &batch(&["aside", "shadow", "x"]));
    let no_filter = "error: no filter is known to have refused or hidden it";
    assert_eq!([release(&filer, "<2@x>"), release(&filer, "<9@x>")], [no_filter, no_filter]);
    let shadow = "error: it was let in: by subject would only have refused it";
    assert_eq!(release(&filer, "<1@x>"), shadow);
    filer.pause("repairs".into());
    let said = release(&filer, "<0@x>");
    assert!(said.starts_with("error: it is not filed, and stays set aside: ") && said.contains("repairs"));
    assert!(is_aside(&filer, "<0@x>"));
    filer.go();
    assert_eq!(filer.spool.lookup(&filer.spool.key(b"<0@x>")), Lookup::Remembered, "nothing has changed");
    assert_eq!(release(&filer, "<0@x>"), "is filed");
}

#[test]
fn a_cancel_that_is_set_aside_withdraws_nothing_until_it_is_released() {
    let filer = strict(&SimDisk::new());
    let target = wire("<t@x>", "misc.test", follow_ups::LOCK);
    file(&filer, &[(target, "<t@x>".into())]);
    let cancel = wire("<c@x>", "misc.test", &follow_ups::cancel("<t@x>"));
    file(&filer, &[(cancel.replace("Subject: s", "Subject: aside"), "<c@x>".into())]);
    assert!(is_aside(&filer, "<c@x>") && !stored(&filer, "<t@x>").is_empty());
    assert_eq!(release(&filer, "<c@x>"), "is filed");
    assert!(stored(&filer, "<t@x>").is_empty() && stored(&filer, "<c@x>").contains("control.cancel:1"));
}

#[test]
fn an_article_cancelled_while_set_aside_is_not_released() {
    let filer = strict(&SimDisk::new());
    let target = wire("<t@x>", "misc.test", follow_ups::LOCK).replace("Subject: s", "Subject: aside");
    file(&filer, &[(target, "<t@x>".into())]);
    let cancel = wire("<c@x>", "misc.test", &follow_ups::cancel("<t@x>"));
    file(&filer, &[(cancel, "<c@x>".into())]);
    assert_eq!((ways(&filer), is_aside(&filer, "<t@x>")), (vec![""], false));
    assert_eq!(release(&filer, "<t@x>"), "error: it has been withdrawn");
    // A cancel without its key withdraws nothing.
    let other = wire("<u@x>", "misc.test", follow_ups::LOCK).replace("Subject: s", "Subject: aside");
    let cancel = wire("<d@x>", "misc.test", "Control: cancel <u@x>\r\n");
    file(&filer, &[(other, "<u@x>".into()), (cancel, "<d@x>".into())]);
    assert_eq!(release(&filer, "<u@x>"), "is filed");
}

/// Groups that the sender may not post to, headers like ours, a Message-ID in another form.
#[test]
fn hostile_articles_are_restored_unchanged() {
    let filer = strict(&SimDisk::new());
    let crossposted = wire("<i@x>", "misc.test,other.test", "").replace("Subject: s", "Subject: aside");
    let origin = Origin::injected("192.0.2.7", None, vec![b"other.test"[..].into()]);
    let incoming = [IncomingArticle { wire: crossposted.as_bytes(), claimed_id: None }];
    filer.ingest_now(&origin, &incoming, &mut Vec::new());
    assert!(copy_of(&filer, "<i@x>").contains("X-Newsreel-Aside: other.test injected\r\n"));
    assert_eq!(release(&filer, "<i@x>"), "is filed");
    let came = format!("Xref: site.example other.test:1\r\n{crossposted}.\r\n");
    assert_eq!(stored(&filer, "<i@x>"), came);

    let forged = "X-Newsreel-Aside: * peer z\r\nX-Newsreel-Aside-Message-ID: <z@aside.invalid>\r\nSubject: ";
    for (id, from, to) in [("<h@x>", "Message-ID: ", "message-id:\r\n "), ("<f@x>", "Subject: ", forged)] {
        let came = wire(id, "misc.test", "").replace("Subject: s", "Subject: aside").replace(from, to);
        assert_eq!(file(&filer, &[(came.clone(), id.into())]), ["class 0"]);
        assert!(is_aside(&filer, id) && release(&filer, id) == "is filed");
        let came = came.replace("Path: ", "Path: site.example!");
        assert!(stored(&filer, id).ends_with(&format!("\r\n{came}.\r\n")), "{}", stored(&filer, id));
    }

    for (id, more) in [("<l@x>", "X: y\r\n".repeat(993)), ("<b@x>", format!("X: {}\r\n", "y".repeat(64_000)))]
    {
        let large = wire(id, "misc.test", &more).replace("Subject: s", "Subject: aside");
        assert_eq!(file(&filer, &[(large, id.into())]), ["its headers are too large to set it aside"]);
    }
    assert_eq!(filer.spool.verifier().verify(&()).findings, []);
}

#[test]
fn an_overwritten_article_is_let_in_when_offered_again() {
    // The class for articles set aside is in memory.
    let text = usual().replace("verdict = \"binary\"", "verdict = \"aside\"");
    let disk = SimDisk::new();
    let filer = strict(&disk);
    filer.spool.sync().unwrap();
    let disk = disk.image_after(CrashKind::Kill, 0).unwrap();
    drop(filer);
    let filer = reopened(&disk, &text);
    let articles = batch(&["aside"]);
    assert_eq!(file(&filer, &articles), ["class 1"]);
    filer.spool.sync().unwrap();
    let filer = reopened(&disk.image_after(CrashKind::Kill, 0).unwrap(), &text);
    assert_eq!(ways(&filer), ["when it comes"]);
    assert_eq!(release(&filer, "<0@x>"), "is not here any more, and is let in when it comes again");
    assert_eq!(file(&filer, &articles), ["class 0"]);
}

/// Acknowledgements: set aside, set aside durably, released.
#[derive(Default)]
struct Told {
    aside: Vec<String>,
    durable: Vec<String>,
    released: Vec<String>,
}

fn work(filer: &Filer, disk: &SimDisk, told: &mut Told) {
    for article in &batch(&["aside", "aside"]) {
        let said = file(filer, std::slice::from_ref(article));
        if !disk.crashed() && said == ["class 0"] {
            told.aside.push(article.1.clone());
        }
    }
    if filer.spool.sync().is_ok() && !disk.crashed() {
        told.durable.clone_from(&told.aside);
    }
    let said = release(filer, "<0@x>");
    if !disk.crashed() && said == "is filed" {
        told.released.push("<0@x>".into());
    }
}

#[test]
fn a_crash_at_any_step_loses_and_duplicates_nothing() {
    // Each step is tested with one of the three, which keeps this short.
    for (first, kind) in [(0, CrashKind::Kill), (1, CrashKind::Power), (2, CrashKind::Lost)] {
        for step in (first..).step_by(3) {
            let disk = SimDisk::new();
            let filer = strict(&disk);
            filer.spool.sync().unwrap();
            disk.crash_at(disk.steps() + step, kind, step * 7919);
            let mut told = Told::default();
            work(&filer, &disk, &mut told);
            let crashed = disk.crashed();
            let left = if crashed { disk.image() } else { disk.image_after(kind, step) }.unwrap();
            let what = format!("{kind:?} at step {step}");
            let filer = reopened(&left, &usual());
            assert_eq!(filer.spool.verifier().verify(&()).findings, [], "{what}");
            let is_filed = |id: &str| !stored(&filer, id).is_empty();
            let promised = if kind == CrashKind::Kill { &told.aside } else { &told.durable };
            promised.iter().for_each(|id| assert!(is_filed(id) || is_aside(&filer, id), "{id}: {what}"));
            told.released
                .iter()
                .for_each(|id| assert!(is_filed(id) && !is_aside(&filer, id), "{id}: {what}"));
            // In any state, releasing and offering the articles again ends with one copy of each.
            let mut here = 0;
            for (wire, id) in batch(&["aside", "aside"]) {
                release(&filer, &id);
                file(&filer, &[(wire, id.clone())]);
                release(&filer, &id);
                // Articles lost in a power cut before they were durable are unknown, too.
                assert!(is_filed(&id), "{id}: {what}");
                here += u64::from(is_filed(&id));
            }
            assert_eq!((count(&filer, "misc.test"), count(&filer, "junk")), (here, 0), "{what}");
            assert_eq!(filer.spool.verifier().verify(&()).findings, [], "{what}");
            if !crashed {
                assert!(step > 10 && told.released.len() == 1, "{what}: {:?}", told.released);
                break;
            }
        }
    }
}

#[test]
fn two_operators_release_it_once() {
    let filer = strict(&SimDisk::new());
    let articles = batch(&["aside"; 20]);
    file(&filer, &articles);
    std::thread::scope(|scope| {
        let one = || articles.iter().map(|(_, id)| release(&filer, id)).collect::<Vec<_>>();
        let (first, second) = (scope.spawn(one), scope.spawn(one));
        for (first, second) in first.join().unwrap().into_iter().zip(second.join().unwrap()) {
            let mut said = [first.as_str(), second.as_str()];
            said.sort_unstable();
            assert_eq!(said, ["has come meanwhile", "is filed"]);
        }
    });
    assert_eq!((count(&filer, "misc.test"), count(&filer, "junk")), (20, 0));
    assert_eq!(filer.spool.verifier().verify(&()).findings, []);
}
