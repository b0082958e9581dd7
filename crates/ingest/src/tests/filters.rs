//! Filters judge whole batches, in time or not at all.

use super::*;
use crate::filters::{BatchFilter, Filters};
use crate::judging::FilingRules;
use crate::opinions::Opinion;
use crate::reviews::FilterReview;
use netnews::Article;
use parking_lot::Mutex;
use spool::ChangeMaker as _;
use std::time::{Duration, Instant};

/// A filter that follows the Subject of each article, and gives up before the first one called "slow".
#[derive(Debug, Default)]
pub(crate) struct BySubject {
    /// Sizes of the batches it was given.
    batches: Arc<Mutex<Vec<usize>>>,
}

impl BySubject {
    pub fn judge(&self, articles: &[Article<'_>], until: Instant, opinions: &mut Vec<Opinion>) {
        self.batches.lock().push(articles.len());
        for article in articles {
            let subject = article.header(netnews::Known::Subject).unwrap_or_default();
            opinions.push(match subject {
                b"slow" => {
                    std::thread::sleep(until.saturating_duration_since(Instant::now()));
                    return;
                }
                b"refuse" => Opinion::Refuse(format!("spam\r\n239 {}\x1b", article.body().len())),
                b"long" => Opinion::Refuse("é".repeat(1_000)),
                b"verdict" => Opinion::Verdict("binary".into()),
                b"shadow" => Opinion::Shadow("looks bad".into(), None),
                b"aside" => Opinion::Aside("junk".into()),
                b"hide" => Opinion::Hide("looks\tbad".into()),
                _ => Opinion::Pass,
            });
        }
    }
}

pub(super) const CLASSES: &str = "\n[[class]]\nname = \"ram\"\nmethod = \"memory\"\nsize = \"64 KiB\"\n\
                       [[rule]]\nclass = \"ram\"\nverdict = \"binary\"\n[[rule]]";

pub(super) fn filtering(disk: &SimDisk, filters: Vec<BatchFilter>, time_max: Duration) -> Filer {
    let text = CONFIG.replace("UNKNOWN", "reject").replace("\n[[rule]]", CLASSES);
    let filer = opened(disk, &text);
    filer.spool.add_groups(&[NewGroup { name: "misc.test".into(), ..NewGroup::default() }]).unwrap();
    let config = filer.judge.rules.load().config.clone();
    let rules = FilingRules::of(config, None, &filer.log);
    filer.judge.rules.store(Arc::new(FilingRules { filters: Filters::new(filters, time_max), ..rules }));
    filer
}

pub(super) fn batch(subjects: &[&str]) -> Vec<(String, String)> {
    let one = |n: usize, subject: &str| {
        let id = format!("<{n}@x>");
        (wire(&id, "misc.test", "").replace("Subject: s", &format!("Subject: {subject}")), id)
    };
    subjects.iter().enumerate().map(|(n, subject)| one(n, subject)).collect()
}

pub(super) fn file(filer: &Filer, batch: &[(String, String)]) -> Vec<String> {
    let batch: Vec<_> = batch.iter().map(|(wire, id)| (wire.clone(), id.as_str())).collect();
    let said = |disposition: &Disposition| match disposition {
        Disposition::Accepted(Some(token)) => format!("class {}", token.class),
        Disposition::Rejected(reject) => reject.to_string(),
        other => format!("{other:?}"),
    };
    ingest(filer, &batch).iter().map(said).collect()
}

#[test]
fn a_batch_is_judged_at_once_and_each_article_gets_its_own_opinion() {
    let (first, second) = (BySubject::default(), BySubject::default());
    let sizes = [first.batches.clone(), second.batches.clone()];
    let filer = filtering(
        &SimDisk::new(),
        vec![BatchFilter::BySubject(first), BatchFilter::BySubject(second)],
        Duration::from_secs(3_600),
    );
    let mut articles = batch(&["x", "refuse", "verdict", "long", "x"]);
    articles.push((wire("<6@x>", "no.such", ""), "<6@x>".into()));
    let long = "é".repeat(100);
    let body = "body of <1@x>\r\n".len();
    let refused = format!("spam\\u{{d}}\\u{{a}}239 {body}\\u{{1b}}");
    let expected = ["class 0", &refused, "class 1", &long, "class 0", "no group carried here"];
    assert_eq!(file(&filer, &articles), expected);
    assert_eq!(*sizes[0].lock(), [5], "what a guard rejects is not shown");
    assert_eq!(*sizes[1].lock(), [3], "nor what another filter refuses");
    assert_eq!(file(&filer, &articles[1..2]), ["duplicate"], "what is refused is remembered");
    assert!(stored(&filer, "<1@x>").is_empty() && !stored(&filer, "<4@x>").is_empty());
}

#[test]
fn an_article_hidden_by_a_filter_is_filed_and_not_shown() {
    let disk = SimDisk::new();
    let filer =
        filtering(&disk, vec![BatchFilter::BySubject(BySubject::default())], Duration::from_secs(3_600));
    let said = file(&filer, &batch(&["x", "hide", "x"]));
    assert!(said.iter().all(|said| said == "class 0"), "{said:?}");
    let check = |filer: &Filer| {
        let group = filer.spool.group(filer.spool.group_id(b"misc.test").unwrap()).unwrap();
        assert_eq!((group.marks().high, group.marks().count), (3, 2));
        let key = filer.spool.key(b"<1@x>");
        assert!(matches!(filer.spool.lookup(&key), Lookup::Hidden(_)) && stored(filer, "<1@x>").is_empty());
        let hidden = filer.spool.hidden_article(&key).unwrap();
        assert_eq!(
            (&*hidden.by, &*hidden.reason, &*hidden.message_id),
            ("by subject", "looks\\u{9}bad", "<1@x>")
        );
    };
    check(&filer);
    // The state is the same after a kill.
    let filer = opened(
        &disk.image_after(disk::CrashKind::Kill, 0).unwrap(),
        &CONFIG.replace("UNKNOWN", "reject").replace("\n[[rule]]", CLASSES),
    );
    check(&filer);
    assert_eq!(filer.spool.unhide_all(&[filer.spool.key(b"<1@x>")]).unwrap(), [true]);
    assert!(stored(&filer, "<1@x>").contains("Subject: hide"));
}

#[test]
fn findings_are_kept_and_released_articles_let_in() {
    let disk = SimDisk::new();
    let filer =
        filtering(&disk, vec![BatchFilter::BySubject(BySubject::default())], Duration::from_secs(3_600));
    let articles = batch(&["x", "refuse", "hide", "shadow", "verdict"]);
    let refused = file(&filer, &articles)[1].clone();
    filer.spool.sync().unwrap();
    let found = |filer: &Filer| -> Vec<(String, String, bool)> {
        let row = |review: FilterReview| {
            (review.message_id, review.finding.word().to_owned(), review.finding.is_filed())
        };
        filer.reviews().all().unwrap().into_iter().map(row).collect()
    };
    let expected = [("<1@x>", "refused", false), ("<2@x>", "hidden", true), ("<3@x>", "would refuse", true)];
    let expected = expected.map(|(id, finding, filed)| (id.to_owned(), finding.to_owned(), filed));
    assert_eq!(found(&filer), expected);
    assert_eq!(file(&filer, &articles[1..2]), ["duplicate"]);
    let (key, at) = (filer.spool.key(b"<1@x>"), filer.reviews().all().unwrap()[0].at);
    filer.reviews().release(key, "by subject").unwrap();
    // Another filter may have refused it, too.
    filer.reviews().release(key, "another").unwrap();
    assert!(filer.spool.forget(&key, at as u32).unwrap());
    // A kill loses none of it; the filter is another one now, which would refuse it again.
    let left = disk.image_after(disk::CrashKind::Kill, 0).unwrap();
    drop(filer);
    let filer = opened(&left, &CONFIG.replace("UNKNOWN", "reject").replace("\n[[rule]]", CLASSES));
    let rules = FilingRules::of(filer.judge.rules.load().config.clone(), None, &filer.log);
    let filters =
        Filters::new(vec![BatchFilter::BySubject(BySubject::default())], Duration::from_secs(3_600));
    filer.judge.rules.store(Arc::new(FilingRules { filters, ..rules }));
    assert_eq!(found(&filer), expected);
    assert_eq!(file(&filer, &articles[1..2]), ["class 0"]);
    assert!(!filer.spool.forget(&key, at as u32).unwrap());
    let other = batch(&["x", "x", "x", "x", "x", "refuse"]);
    assert_eq!(file(&filer, &other[5..]), [refused.replace(&articles[1].1, &other[5].1)]);
}

#[test]
fn articles_not_judged_in_time_pass() {
    let filter = BySubject::default();
    let sizes = filter.batches.clone();
    let filer = filtering(&SimDisk::new(), vec![BatchFilter::BySubject(filter)], Duration::from_millis(20));
    let articles = batch(&["refuse", "slow", "refuse", "verdict"]);
    let said = file(&filer, &articles);
    assert!(said[0].starts_with("spam"), "{said:?}");
    assert_eq!(said[1..], ["class 0", "class 0", "class 0"]);
    assert_eq!(*sizes.lock(), [4]);
}

#[test]
fn a_cancel_that_a_filter_refuses_withdraws_nothing() {
    let filer = filtering(
        &SimDisk::new(),
        vec![BatchFilter::BySubject(BySubject::default())],
        Duration::from_secs(3_600),
    );
    filer.spool.add_groups(&[NewGroup { name: "control".into(), ..NewGroup::default() }]).unwrap();
    let target = wire("<t@x>", "misc.test", follow_ups::LOCK);
    assert!(file(&filer, &[(target, "<t@x>".into())])[0].starts_with("class"));
    let cancel = wire("<c@x>", "misc.test", &follow_ups::cancel("<t@x>"));
    let refused = cancel.replace("Subject: s", "Subject: refuse").replace("<c@x>", "<r@x>");
    assert!(file(&filer, &[(refused, "<r@x>".into())])[0].starts_with("spam"));
    assert!(!stored(&filer, "<t@x>").is_empty());
    assert!(file(&filer, &[(cancel, "<c@x>".into())])[0].starts_with("class"));
    assert!(stored(&filer, "<t@x>").is_empty());
}
