//! `[[archive]]` with a running server and without one: arriving and expiring articles, a disk that is away.

use crate::operated::Operated;
use crate::purging::feed;
use crate::waiting::{wait_for_next_second, wait_until};
use std::fs;

fn site() -> Operated {
    let site = Operated::new();
    let (arrived, expired) = (site.home().join("arrived"), site.home().join("expired"));
    fs::create_dir(&arrived).unwrap();
    site.edit(|text| {
        let text = text.replacen("max_age_days = 10", "max_age_days = \"none\"", 1);
        let rule = "[[class]]\nname = \"files\"\nmethod = \"tradspool\"\n\n\
                    [[rule]]\nclass = \"files\"\ngroups = \"kept.*\"\n\n[[rule]]";
        let text = text.replacen("[[rule]]", rule, 1);
        format!(
            "{text}\n[[expire]]\nkeep = \"1 ms\"\n\n\
             [[archive]]\nname = \"arrived\"\nwhen = \"arrival\"\nform = \"maildir\"\npath = {arrived:?}\n\n\
             [[archive]]\nname = \"expired\"\ngroups = \"kept.*\"\npath = {expired:?}\n"
        )
    });
    site.done(&["group", "add", "kept.one"]);
    site.done(&["group", "add", "misc.one"]);
    site
}

#[test]
fn arriving_and_expiring_articles_are_copied_when_the_disk_is_back() {
    let site = site();
    let serving = site.serve();
    feed(&site, &[("<1@x.example>", "kept.one,misc.one"), ("<2@x.example>", "misc.one")]);
    let mails = || fs::read_dir(site.home().join("arrived/new")).map_or(0, Iterator::count);
    wait_until("what arrived is copied", || mails() == 2);
    // Times of arrival are whole seconds.
    wait_for_next_second();
    assert!(site.done(&["expire"]).starts_with("0 of "), "its archive is not there");
    let told = site.done(&["archive", "status"]);
    assert!(told.contains("expired: there is no directory "), "{told}");
    assert!(told.contains("; 1 article due, held back for "), "{told}");
    assert!(site.done(&["status"]).contains("arrived  arrival  maildir"), "{}", site.done(&["status"]));
    // Expiry tries again long before its next regular pass.
    fs::create_dir(site.home().join("expired")).unwrap();
    wait_until("what is due is copied", || site.home().join("expired/kept/one/1").exists());
    feed(&site, &[("<3@x.example>", "kept.one")]);
    wait_until("what arrived is copied, too", || mails() == 3);
    wait_for_next_second();
    // A copy is counted after it has been made.
    serving.stop();

    // Expiry without a server also copies first.
    assert!(site.done(&["expire"]).starts_with("1 of 1 article expired"));
    let copy = fs::read_to_string(site.home().join("expired/kept/one/1")).unwrap();
    assert!(copy.contains("\nMessage-ID: <1@x.example>\n"), "{copy}");
    assert!(!site.home().join("expired/misc").exists(), "it is for kept.* alone");
    let json: serde_json::Value = serde_json::from_str(&site.done(&["archive", "status", "--json"])).unwrap();
    assert_eq!((json[0]["archived"].as_u64(), json[1]["archived"].as_u64()), (Some(3), Some(2)));
    assert_eq!(site.done(&["archive", "missed"]), "");
    site.done(&["verify"]);
}
