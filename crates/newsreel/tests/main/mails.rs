//! Articles exported and imported as mbox, maildir and batches come back identical to the byte.

use std::fs;
use std::io::Write;
use std::path::Path;

use netnews::mbox::{MboxSplitter, MboxStep, append_mail};
use serde_json::Value;

use crate::operated::Operated;
use crate::zipped::zipped;

/// Arrival of the first article in Unix seconds, in 2001.
const THEN: i64 = 1_000_000_000;

/// Returns texts that their containers could alter, in two groups.
fn articles() -> Vec<String> {
    let bodies = [
        "plain\n",
        "From here\n>From there\n>>From\n\nFrom me Thu Jan  1 00:00:00 1970\n",
        ".\n..\n.dots\n",
        "blank lines\n\n\n\n",
        "",
        "#! rnews 7\nnot one\n",
        "caf\u{e9} \u{1b}[ tab\t \n-- \n",
        "long ",
    ];
    let articles = bodies.iter().enumerate().map(|(n, body)| {
        let groups = if n % 3 == 0 { "a.one,a.two" } else { "a.one" };
        let body = if *body == "long " { "long line ".repeat(2_000) + "\n" } else { (*body).to_owned() };
        format!(
            "Path: x.example!not-for-mail\nFrom: Jane <jane@x.example>\nNewsgroups: {groups}\nSubject: s {n}\n \
             folded\nMessage-ID: <{n}@x.example>\nDate: Sun, 9 Sep 2001 01:46:40 +0000\nFrom : no\n\n{body}"
        )
        .replace("From : no\n", "X-From: From\n")
    });
    articles.collect()
}

fn mbox(texts: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    for (n, text) in texts.iter().enumerate() {
        append_mail("jane@x.example", THEN + n as i64, text.as_bytes(), &mut out);
    }
    out
}

/// Returns the mails of a file: arrival, and text without Xref, which is each site's own.
fn mails(file: &Path) -> Vec<(i64, String)> {
    let bytes = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let (mut splitter, mut rest, mut mails) = (MboxSplitter::new(1 << 20), bytes.as_slice(), Vec::new());
    loop {
        match splitter.step(rest, true) {
            MboxStep::Mail(bytes, mail) => {
                let mut text = Vec::new();
                mail.append_text(&mut text);
                let text = String::from_utf8(text).unwrap();
                let lines = text.split_inclusive('\n').filter(|line| !line.starts_with("Xref: "));
                mails.push((mail.arrived.unwrap(), lines.collect()));
                rest = &rest[bytes..];
            }
            MboxStep::Skip(bytes) => rest = &rest[bytes..],
            MboxStep::End => return mails,
            other => panic!("{other:?}"),
        }
    }
}

fn import(site: &Operated, arguments: &[&str]) -> Value {
    let told = site.run(&[&["import"], arguments, &["--json"]].concat());
    assert!(told.status.success(), "{told:?}");
    serde_json::from_slice(&told.stdout).unwrap()
}

fn counts(told: &Value) -> [u64; 3] {
    ["imported", "duplicates", "damaged"].map(|name| told[name].as_u64().unwrap())
}

#[test]
fn exported_articles_are_imported_unchanged() {
    let first = Operated::new();
    let texts = articles();
    let from = first.home().join("in.mbox");
    fs::write(&from, mbox(&texts)).unwrap();
    let from = from.to_str().unwrap();
    let expected: Vec<(i64, String)> =
        texts.iter().cloned().enumerate().map(|(n, t)| (THEN + n as i64, t)).collect();
    let both: Vec<(i64, String)> = expected.iter().step_by(3).cloned().collect();

    let dry = import(&first, &["mbox", "--create-groups", "--dry-run", from]);
    assert_eq!((counts(&dry), dry["groups_added"].as_u64()), ([8, 0, 0], Some(2)));
    let double = first.home().join("twice.mbox");
    fs::write(&double, [mbox(&texts), mbox(&texts)].concat()).unwrap();
    let twice = import(&first, &["mbox", "--create-groups", "--dry-run", double.to_str().unwrap()]);
    assert_eq!(counts(&twice), [8, 8, 0], "what comes twice is told before anything is filed");
    assert_eq!(counts(&import(&first, &["mbox", "--create-groups", from])), [8, 0, 0]);
    // A second import, through a server, files nothing twice.
    let serving = first.serve();
    assert_eq!(counts(&import(&first, &["mbox", from])), [0, 8, 0]);
    let out = first.home().join("out");
    let at = out.to_str().unwrap();
    for form in ["mbox", "maildir", "rnews"] {
        assert_eq!(first.done(&["export", form, "a.*", "--out", at]), "11 articles of 2 groups written\n");
    }
    drop(serving);
    assert_eq!(mails(&out.join("a.one.mbox")), expected);
    assert_eq!(mails(&out.join("a.two.mbox")), both);
    let refused = first.run(&["export", "mbox", "a.two", "--out", at]);
    assert!(
        !refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("is there already")
    );

    for form in ["mbox", "maildir", "rnews"] {
        let second = Operated::new();
        // Each form alone.
        let alone = second.home().join("alone");
        fs::create_dir(&alone).unwrap();
        for group in ["a.one", "a.two"] {
            let name = if form == "maildir" { group.to_owned() } else { format!("{group}.{form}") };
            fs::rename(out.join(&name), alone.join(&name)).unwrap();
        }
        let told = import(&second, &[form, "--create-groups", alone.to_str().unwrap()]);
        assert_eq!(counts(&told), [8, 3, 0], "{form}: a crosspost is in both files");
        let again = second.home().join("again");
        second.done(&["export", "mbox", "a.*", "--out", again.to_str().unwrap()]);
        let mut came = mails(&again.join("a.one.mbox"));
        if form == "rnews" {
            // A batch does not record arrivals; articles count from their Date.
            assert!(came.iter().all(|(arrived, _)| *arrived == THEN));
            came.iter_mut().zip(THEN..).for_each(|(mail, at)| mail.0 = at);
        }
        assert_eq!(came, expected, "{form}");
    }
}

#[test]
fn imported_replies_with_in_reply_to_alone_have_references_in_overview() {
    let site = Operated::new();
    let file = site.home().join("dev.mbox");
    let mails = [
        "From: a@b.example\nSubject: s\nMessage-ID: <1@x>\n\nfirst\n",
        "From: c@d.example\nSubject: other\nMessage-ID: <2@x>\nIn-Reply-To: <1@x>\n\nsecond\n",
    ];
    fs::write(&file, mbox(&mails.map(str::to_owned))).unwrap();
    let told = import(&site, &["mbox", "--group", "lists.dev", "--create-groups", file.to_str().unwrap()]);
    assert_eq!(counts(&told), [2, 0, 0], "{told}");
    let out = site.home().join("out");
    site.done(&["export", "mbox", "lists.dev", "--out", out.to_str().unwrap()]);
    let text = fs::read_to_string(out.join("lists.dev.mbox")).unwrap();
    assert!(text.contains("\nReferences: <1@x>\nFrom: c@d.example\n"), "{text}");
}

#[test]
fn groups_come_from_rules_headers_and_folders() {
    let site = Operated::new();
    let dir = site.home().join("archive");
    fs::create_dir_all(dir.join("lists")).unwrap();
    let mail = |n: u32, head: &str| format!("From: a@b.example\nSubject: {n}\n{head}\nbody {n}\n");
    let mut file = mbox(&[
        mail(1, "List-Id: Dev\n <dev.example.org>\n"),
        mail(2, "X-Newsgroups: a.b\n"),
        mail(3, "Newsgroups: own.group\n"),
    ]);
    file.extend_from_slice(
        b"From a@b Sun Sep  9 01:46:40 2001\nno header at all, so it belongs to the mail before\n\n",
    );
    fs::write(dir.join("lists/misc.mbox"), file).unwrap();
    let arguments = [
        "mbox",
        "--create-groups",
        "--rule",
        "List-Id: *<dev.example.org>* = lists.dev",
        dir.to_str().unwrap(),
    ];
    let told = import(&site, &arguments);
    assert_eq!(counts(&told), [3, 0, 0], "{told}");
    assert_eq!(told["skipped"].as_object().unwrap().len(), 0, "{told}");
    assert_eq!(
        counts(&import(&site, &arguments)),
        [0, 3, 0],
        "mails without Message-ID get the same one again"
    );
    let groups = site.done(&["group", "list", "*s.dev,lists.misc,own.*", "--json"]);
    let groups: Value = serde_json::from_str(&groups).unwrap();
    let row =
        |at: usize| (groups[at]["name"].as_str().unwrap().to_owned(), groups[at]["count"].as_u64().unwrap());
    assert_eq!(
        [row(0), row(1), row(2)],
        [("lists.dev", 1), ("lists.misc", 1), ("own.group", 1)].map(|(g, n)| (g.to_owned(), n))
    );
    // A nonexistent group for everything.
    let told = site.run(&["import", "mbox", "--group", "not.here", dir.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&told.stderr).contains("there is no group not.here"), "{told:?}");
    let wrong = site.run(&["import", "mbox", "--rule", "List-Id = x", dir.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("HEADER: PATTERN = GROUP"), "{wrong:?}");
}

#[test]
fn mails_that_no_article_can_hold_are_skipped_unread() {
    let site = Operated::new();
    site.edit(|text| text.replacen("[site]\n", "[site]\narticle_bytes_max = \"64 KiB\"\n", 1));
    let file = site.home().join("in.mbox");
    let mail =
        |n: u32, body: &str| format!("From: a@b.example\nSubject: {n}\nMessage-ID: <{n}@x>\n\n{body}\n");
    let large = "a line of a long mail\n".repeat(10_000);
    fs::write(&file, mbox(&[mail(1, "first"), mail(2, &large), mail(3, "third")])).unwrap();
    let done =
        site.run(&["import", "mbox", "--group", "lists.dev", "--create-groups", file.to_str().unwrap()]);
    let (said, why) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(why.contains("the mail is too large") && said.contains("imported"), "{said}{why}");
    let status: Value = serde_json::from_str(&site.done(&["status", "--json"])).unwrap();
    assert_eq!(status["spool"]["articles"].as_u64(), Some(2), "{status}");
    assert!(!site.dir().join("quarantine").exists(), "it is still in its file");
}

#[test]
fn mboxes_in_zip_files_are_imported() {
    let site = Operated::new();
    let texts = articles();
    let (first, rest) = texts.split_at(3);
    let bare = |texts: &[String]| {
        mbox(&texts.iter().map(|t| t.replace("Newsgroups", "X-Groups")).collect::<Vec<_>>())
    };
    let dir = site.home().join("archive");
    fs::create_dir(&dir).unwrap();
    let (one, two) = (bare(first), bare(rest));
    let archive = zipped(&[("usenet/a.three.mbox", &one, true), ("mbox", &two, false)]);
    fs::write(dir.join("a.four.mbox.zip"), archive).unwrap();
    let told = import(&site, &["mbox", "--create-groups", dir.to_str().unwrap()]);
    assert_eq!((counts(&told), told["groups_added"].as_u64()), ([8, 0, 0], Some(2)), "{told}");
    let groups = site.done(&["group", "list", "a.*"]);
    assert!(groups.contains("a.three") && groups.contains("a.four"), "{groups}");
    // A damaged member is reported, and does not affect the others.
    let damaged = site.home().join("b.mbox.zip");
    let mut bytes = zipped(&[("c.one", &one, false), ("c.two", &two, true)]);
    bytes[100] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let told = site.run(&["import", "mbox", damaged.to_str().unwrap(), "--create-groups"]);
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert_eq!(told.status.code(), Some(1), "{told:?}");
    assert!(said.contains("b.mbox.zip (c.") && said.contains("checksum is wrong"), "{said}");
    fs::write(&damaged, b"PK\x03\x04 cut off").unwrap();
    let told = site.run(&["import", "mbox", damaged.to_str().unwrap()]);
    assert!(
        !told.status.success() && String::from_utf8_lossy(&told.stderr).contains("cannot be read"),
        "{told:?}"
    );
}

#[test]
fn archive_larger_than_the_buffers_needs_confirmation() {
    let site = Operated::new();
    let mail = |n: u32| {
        format!(
            "Path: x\nFrom: a@b.example\nNewsgroups: a.one\nSubject: s\nMessage-ID: <{n}@big.example>\n\
             Date: Sun, 9 Sep 2001 01:46:40 +0000\n\n{}",
            "a line of text that fills the buffers\n".repeat(500)
        )
    };
    let buffers: Value = serde_json::from_str(&site.done(&["buffer", "list", "--json"])).unwrap();
    let bytes: u64 = buffers.as_array().unwrap().iter().map(|row| row["area_bytes"].as_u64().unwrap()).sum();
    let texts: Vec<String> = (0..(bytes / 19_000 + 20) as u32).map(mail).collect();
    let archive = zipped(&[("a.one.mbox", &mbox(&texts), true)]);
    assert!((archive.len() as u64) < bytes / 10, "by its size it would fit");
    let file = site.home().join("big.zip");
    fs::write(&file, archive).unwrap();
    let file = file.to_str().unwrap();
    let told = site.run(&["import", "mbox", "--create-groups", file]);
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(
        !told.status.success() && said.contains("nothing was imported; to import all the same"),
        "{told:?}"
    );
    assert!(!site.run(&["group", "list", "a.*"]).status.success(), "no group was added");
    let packed = site.home().join("big.mbox.gz");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&mbox(&texts)).unwrap();
    fs::write(&packed, gzip.finish().unwrap()).unwrap();
    let told = site.run(&["import", "mbox", "--create-groups", packed.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(
        !told.status.success() && said.contains("nothing was imported; to import all the same"),
        "{told:?}"
    );
    let told = site.run(&["import", "mbox", "--create-groups", "--yes", file, "--json"]);
    let counted: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(told.status.code(), Some(1), "{counted}");
    assert!(counted["displaced"].as_u64() > Some(0), "{counted}");
    assert_eq!(counted["imported"].as_u64(), Some(texts.len() as u64), "{counted}");
}

#[test]
fn import_copies_what_is_refused_as_it_is_filed_to_quarantine() {
    let site = Operated::new();
    let file = site.home().join("in.mbox");
    let good = "From: a@b.example\nSubject: good\nMessage-ID: <1@x>\n\nfirst\n".to_owned();
    let bad = "From: a@b.example\nSubject: bad\nMessage-ID: <2@x>\n\nsec\0ond\n".to_owned();
    fs::write(&file, mbox(&[good, bad])).unwrap();
    let done =
        site.run(&["import", "mbox", "--group", "lists.dev", "--create-groups", file.to_str().unwrap()]);
    let (said, why) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.code(), Some(1), "{said}{why}");
    assert!(said.contains("skipped: 1 (1 copy in "), "{said}");
    let kept = why.lines().find_map(|line| line.split_once("; kept as ")).unwrap().1;
    assert!(fs::read_to_string(kept).unwrap().ends_with("\nSubject: bad\nMessage-ID: <2@x>\n\nsec\0ond\n"));
}

#[test]
fn arrivals_of_one_import_ascend_over_files_and_the_oldest_file_comes_first() {
    let site = Operated::new();
    let dir = site.home().join("archive");
    fs::create_dir(&dir).unwrap();
    let mail = |n: i64| format!("From: a@b.example\nSubject: {n}\nMessage-ID: <{n}@x>\n\n{n}\n");
    // The newer file has the name that comes first, and a mail that arrived before its neighbours.
    for (name, times) in [("a.mbox", [500, 300, 600]), ("b.mbox", [100, 200, 400])] {
        let mut file = Vec::new();
        times.iter().for_each(|at| append_mail("x", THEN + at, mail(*at).as_bytes(), &mut file));
        fs::write(dir.join(name), file).unwrap();
    }
    import(&site, &["mbox", "--group", "lists.dev", "--create-groups", dir.to_str().unwrap()]);
    let out = site.home().join("out");
    site.done(&["export", "mbox", "lists.dev", "--out", out.to_str().unwrap()]);
    let arrived: Vec<i64> = mails(&out.join("lists.dev.mbox")).iter().map(|(at, _)| at - THEN).collect();
    assert_eq!(arrived, [100, 200, 400, 500, 500, 600]);
}
