//! `newsreel rnews`: batches as delivered by UUCP, including damaged ones.

use crate::client::article;
use crate::operated::{Operated, complaints, with_tight_class};
use crate::waiting::wait_for;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::{Output, Stdio};

/// Articles of the batch.
const ARTICLES: usize = 171;

fn site() -> Operated {
    let site = Operated::new();
    site.edit(|text| text.replacen("max_age_days = 10", "max_age_days = \"none\"", 1));
    site
}

/// Returns an article of a batch, as stored in a file.
fn text(n: usize) -> String {
    let wire = article(&format!("<{n}@x.example>"), "local.test", &format!("body of {n}"));
    wire.replace("\r\n", "\n").strip_suffix(".\n").unwrap().to_owned()
}

fn entry(n: usize) -> String {
    format!("#! rnews {}\n{}", text(n).len(), text(n))
}

/// Returns a badly damaged batch, and the number of whole articles: article 4 has lost bytes, the line before
/// 50 is garbled, 100 has bytes too many, something lies between 120 and 121, 130 has no valid header, 170
/// was cut off.
fn damaged() -> (Vec<u8>, usize) {
    let mut batch = String::new();
    for n in 0..ARTICLES {
        let entry = entry(n);
        match n {
            4 => batch.push_str(&entry.replace("Subject: test ", "Sub")),
            50 => batch.push_str(&entry.replace("#! rnews", "#! rnewt")),
            100 => batch.push_str(&entry.replace("body of", "body of of of")),
            120 => batch.push_str(&format!("{entry}lost in transit\n")),
            130 => batch.push_str("#! rnews 20\nnothing\nlike\nnews!\n\n"),
            170 => batch.push_str(&entry[..entry.len() - 8]),
            _ => batch.push_str(&entry),
        }
    }
    (batch.into_bytes(), ARTICLES - 5)
}

fn printed(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn file_damaged(site: &Operated) {
    let (batch, whole) = damaged();
    let file = site.home().join("batch");
    fs::write(&file, &batch).unwrap();
    let filed = site.run(&["rnews", file.to_str().unwrap()]);
    let told = complaints(&filed);
    assert_eq!(filed.status.code(), Some(1), "{told}");
    assert_eq!(
        printed(&filed),
        format!("{whole} articles: {whole} accepted, 0 rejected, 6 damaged pieces in quarantine\n"),
        "{told}"
    );
    assert_eq!(told.lines().count(), 6, "{told}");
    for line in told.lines() {
        assert!(line.starts_with(&format!("damaged: {}, byte ", file.display())), "{line}");
        let (_, path) = line.split_once(" bytes are in ").unwrap();
        let piece = fs::read(path).unwrap();
        assert!(batch.windows(piece.len()).any(|part| part == piece), "{path}");
    }
    let kept: Vec<u8> = fs::read_dir(site.dir().join("quarantine"))
        .unwrap()
        .flat_map(|entry| fs::read(entry.unwrap().path()).unwrap())
        .collect();
    let kept = String::from_utf8(kept).unwrap();
    for n in [4, 50, 100, 170] {
        assert!(kept.contains(&format!("Message-ID: <{n}@x.example>\n")), "{n}");
    }
    assert!(kept.contains("lost in transit\n") && kept.contains("nothing\nlike\nnews!\n"));
    // The second time one line summarizes all duplicates.
    let again = site.run(&["rnews", file.to_str().unwrap()]);
    assert_eq!(
        printed(&again),
        format!(
            "{whole} articles: 0 accepted, 0 rejected, {whole} duplicates, 6 damaged pieces in quarantine\n"
        )
    );
    // Through a server, responses come while the batch is still being read.
    let sorted = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(sorted(&complaints(&again)), sorted(&told), "each piece is where it was");
    assert_eq!(fs::read_dir(site.dir().join("quarantine")).unwrap().count(), 6);
}

/// Returns `text` in each form of compression, after the line that names it.
fn packed(text: &[u8]) -> Vec<Vec<u8>> {
    let mut gzip = flate2::write::GzEncoder::new(b"#! gunbatch\n".to_vec(), flate2::Compression::fast());
    gzip.write_all(text).unwrap();
    let mut bzip2 = bzip2::write::BzEncoder::new(b"#! bunbatch\n".to_vec(), bzip2::Compression::fast());
    bzip2.write_all(text).unwrap();
    let zstd = zstd::encode_all(text, 1).unwrap();
    vec![gzip.finish().unwrap(), bzip2.finish().unwrap(), [b"#! zstdunbatch\n", &*zstd].concat()]
}

#[test]
fn compressed_and_nested_batches_are_filed() {
    let site = site();
    for served in [false, true] {
        let serving = served.then(|| site.serve());
        let ids = if served { 100..150 } else { 0..50 };
        let batch: String = ids.map(entry).collect();
        for (n, packed_once) in packed(batch.as_bytes()).into_iter().enumerate() {
            for batch in packed(&packed_once).into_iter().chain([packed_once.clone()]) {
                let filed = site.run_with(&["rnews"], &batch);
                assert!(filed.status.success(), "{n}: {}", complaints(&filed));
                assert!(printed(&filed).starts_with("50 articles: "), "{}", printed(&filed));
            }
        }
        drop(serving);
    }
    let batch: String = (0..50).map(entry).collect();
    let filed = site.run_with(&["rnews"], batch.as_bytes());
    assert_eq!(printed(&filed), "50 articles: 0 accepted, 0 rejected, 50 duplicates\n");
    assert!(!site.dir().join("quarantine").exists());
}

#[test]
fn readable_part_of_a_truncated_compressed_batch_is_filed() {
    let site = site();
    let batch: String = (0..2_000).map(entry).collect();
    let gzip = packed(batch.as_bytes()).swap_remove(0);
    let filed = site.run_with(&["rnews"], &gzip[..gzip.len() / 2]);
    let told = complaints(&filed);
    assert_eq!(filed.status.code(), Some(1), "{told}");
    assert!(told.contains("standard input: what follows cannot be decompressed: "), "{told}");
    let articles: usize = printed(&filed).split(' ').next().unwrap().replace(',', "").parse().unwrap();
    assert!((100..1_900).contains(&articles), "{}", printed(&filed));
    // Bytes with which no batch begins, and an unknown form.
    for (batch, why) in [
        (&b"#! cunbatch\nnothing"[..], "not in a form known here"),
        (b"\xfd7zXZ\0\0", "xz is not a form known here"),
        (b"\x1f\x9d\x90\xff\xff\xff\xff", "stands for no octet"),
    ] {
        let filed = site.run_with(&["rnews"], batch);
        assert_eq!(filed.status.code(), Some(1));
        assert!(complaints(&filed).contains(why), "{}", complaints(&filed));
    }
}

/// Waits until the server's status of batches satisfies `is_so`, and none is left.
fn filed(site: &Operated, is_so: impl Fn(&serde_json::Value) -> bool) {
    let batches = || {
        let status: serde_json::Value = serde_json::from_str(&site.done(&["status", "--json"])).unwrap();
        status["server"]["batches"].clone()
    };
    let is_empty = || fs::read_dir(site.dir().join("incoming")).unwrap().next().is_none();
    wait_for(batches, |batches| is_empty() && batches["waiting"] == 0 && is_so(batches));
}

#[test]
fn files_moved_into_the_incoming_directory_are_filed_and_removed() {
    let site = site();
    let incoming = site.dir().join("incoming");
    fs::create_dir(&incoming).unwrap();
    let batch: String = (0..50).map(entry).collect();
    fs::write(incoming.join("waits"), batch).unwrap();
    let mut serving = site.serve();
    for (n, batch) in packed((50..60).map(entry).collect::<String>().as_bytes()).into_iter().enumerate() {
        fs::write(incoming.join(format!(".{n}")), batch).unwrap();
        fs::rename(incoming.join(format!(".{n}")), incoming.join(n.to_string())).unwrap();
    }
    fs::write(incoming.join("article"), text(60)).unwrap();
    fs::write(incoming.join("damaged"), "#! rnews 9999\nnothing").unwrap();
    filed(&site, |batches| batches["accepted"] == 61 && batches["damaged"] == 1 && batches["filed"] == 6);
    serving.logged(|line| line.contains("damaged") && line.contains("byte 0: the batch ends after"));
    assert!(serving.client().ask("GROUP local.test").starts_with("211 61 "));
    assert_eq!(fs::read_dir(site.dir().join("quarantine")).unwrap().count(), 1);
}

#[test]
fn files_in_the_incoming_directory_are_filed_in_the_groups_that_batches_may_have() {
    let site = site();
    site.edit(|text| text + "\n[batches]\naccept = \"*,!local.hidden\"\n");
    site.done(&["group", "add", "local.hidden"]);
    let hidden = text(99).replace("local.test", "local.hidden");
    let batch: String = (0..3).map(entry).chain([format!("#! rnews {}\n{hidden}", hidden.len())]).collect();
    let incoming = site.dir().join("incoming");
    fs::create_dir(&incoming).unwrap();
    fs::write(incoming.join("waits"), batch).unwrap();
    let serving = site.serve();
    filed(&site, |batches| batches["accepted"] == 3 && batches["filed"] == 1);
    let mut client = serving.client();
    assert!(client.ask("GROUP local.test").starts_with("211 3 "));
    assert!(client.ask("GROUP local.hidden").starts_with("211 0 "));
}

#[test]
fn peers_send_batches_by_xbatch_within_their_rights() {
    let site = site();
    let peer = "\n[[peer]]\nname = \"a peer\"\naddresses = \"127.0.0.1\"\nxbatch = true\naccept = \"*,!local.hidden\"\n";
    site.edit(|text| text + peer);
    site.done(&["group", "add", "local.hidden"]);
    let serving = site.serve();
    let mut client = serving.client();
    let hidden = text(99).replace("local.test", "local.hidden");
    let batch: String = (0..30).map(entry).chain([format!("#! rnews {}\n{hidden}", hidden.len())]).collect();
    for batch in packed(batch.as_bytes()) {
        assert!(client.ask(&format!("XBATCH {}", batch.len())).starts_with("339 "));
        let (first, second) = batch.split_at(batch.len() / 2);
        client.send(first);
        client.send(second);
        assert!(client.line().starts_with("239 "));
    }
    assert!(client.ask("XBATCH 9999999999").starts_with("436 "));
    // Pipelined, and the connection continues.
    let plain = entry(30);
    client.send(format!("XBATCH {}\r\n{plain}DATE\r\n", plain.len()));
    assert!(client.line().starts_with("339 ") && client.line().starts_with("239 "));
    assert!(client.line().starts_with("111 "));
    // Nothing is left of an incomplete batch.
    let mut other = serving.client();
    assert!(other.ask("XBATCH 100").starts_with("339 "));
    other.send("#! rnews 80\n");
    drop(other);
    filed(&site, |batches| batches["filed"] == 4 && batches["accepted"] == 31);
    assert!(client.ask("GROUP local.test").starts_with("211 31 "));
    assert!(client.ask("GROUP local.hidden").starts_with("211 0 "));
    assert!(client.ask("STAT <99@x.example>").starts_with("430 "));
    assert!(client.ask("ARTICLE <3@x.example>").starts_with("220 "));
    assert!(
        client.block().iter().any(|line| line.starts_with("Path: ") && line.contains("!.SEEN.127.0.0.1!")),
        "not as a peer's"
    );
}

#[test]
fn damaged_pieces_are_quarantined_and_other_articles_filed() {
    file_damaged(&site());
}

#[test]
fn damaged_pieces_are_quarantined_through_a_server() {
    let site = site();
    let serving = site.serve();
    file_damaged(&site);
    let mut client = serving.client();
    assert!(client.ask("GROUP local.test").starts_with("211 166 "));
    for n in [3, 5, 49, 51, 99, 101, 119, 120, 121, 129, 131, 169] {
        assert!(client.ask(&format!("STAT <{n}@x.example>")).starts_with("223 "), "{n}");
    }
}

#[test]
fn dash_is_standard_input() {
    let site = site();
    for arguments in [&["rnews", "-"][..], &["rnews"]] {
        let filed = site.run_with(arguments, (entry(1) + &entry(2)).as_bytes());
        assert!(filed.status.success(), "{}", complaints(&filed));
    }
    assert!(!site.dir().join("quarantine").exists());
}

/// A batch many times as large as allowed in memory, with oversized articles among the others.
#[test]
fn batch_is_filed_article_by_article() {
    let site = site();
    site.edit(|text| text.replacen("[site]\n", "[site]\narticle_bytes_max = \"64 KiB\"\n", 1));
    let large = |n: usize| {
        let text = text(n) + &"x".repeat(99) + &("\n".to_owned() + &"x".repeat(99)).repeat(1_000) + "\n";
        format!("#! rnews {}\n{text}", text.len())
    };
    let batch: Vec<u8> = (0..600)
        .map(|n| if n % 10 == 0 { large(n) } else { entry(n) })
        .chain([format!("#! rnews 999999999\n{}", text(600)), entry(601)])
        .collect::<String>()
        .into_bytes();
    for served in [false, true] {
        let serving = served.then(|| site.serve());
        let filed = site.run_with(&["rnews"], &batch);
        let told = complaints(&filed);
        assert_eq!(filed.status.code(), Some(1), "{told}");
        let counts =
            if served { "0 accepted, 60 rejected, 541 duplicates" } else { "541 accepted, 60 rejected" };
        assert_eq!(
            printed(&filed),
            format!("601 articles: {counts}, 1 damaged piece in quarantine\n"),
            "{told}"
        );
        assert!(told.contains("rejected: standard input, byte 0: an article of 10"), "{told}");
        assert!(told.contains(" bytes is announced, which is too large, and has "), "{told}");
        drop(serving);
    }
    // A stopping server answers no more, and nothing waits for it.
    let serving = site.serve();
    let mut command = site.command(&["rnews"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = command.stdin.take().unwrap();
    input.write_all(entry(700).as_bytes()).unwrap();
    // Later articles show where it ends.
    (701..704).for_each(|n| input.write_all(entry(n).as_bytes()).unwrap());
    let mut client = serving.client();
    // Before the end of the batch.
    wait_for(|| client.ask("STAT <700@x.example>"), |answer| answer.starts_with("223 "));
    drop(client);
    drop(serving);
    let rest = std::thread::spawn(move || (0..20_000).try_for_each(|n| input.write_all(entry(n).as_bytes())));
    let output = command.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", complaints(&output));
    assert!(printed(&output).contains(" articles kept; the server files them"), "{}", printed(&output));
    rest.join().unwrap().unwrap();
    let serving = site.serve();
    filed(&site, |batches| batches["filed"] == 1);
    // The buffers have room for the last of them.
    for n in [19_000, 19_990, 19_999] {
        assert!(serving.client().ask(&format!("STAT <{n}@x.example>")).starts_with("2"), "{n}");
    }
}

/// Waiting batches are bounded; beyond that the batch must be given again.
#[test]
fn batch_without_room_to_wait_must_be_given_again() {
    let site = site();
    site.edit(|text| text + "\n[batches]\nwaiting_bytes_max = \"1 MiB\"\n");
    let serving = site.serve();
    let mut command = site.command(&["rnews"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = command.stdin.take().unwrap();
    (0..4).for_each(|n| input.write_all(entry(n).as_bytes()).unwrap());
    let mut client = serving.client();
    wait_for(|| client.ask("STAT <0@x.example>"), |answer| answer.starts_with("223 "));
    drop((client, serving));
    (0..20_000).for_each(|n| input.write_all(entry(n).as_bytes()).unwrap());
    drop(input);
    let output = command.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(75), "{}", complaints(&output));
    assert!(complaints(&output).contains("batches.waiting_bytes_max"), "{}", complaints(&output));
    assert!(fs::read_dir(site.dir().join("incoming")).unwrap().next().is_none());
}

/// uuxqt keeps a job whose command exits with 75, and discards the others.
#[test]
fn batch_that_cannot_be_filed_now_must_be_given_again() {
    let site = site();
    site.edit(|text| text.replacen("[site]\n", "[site]\nno_such_key = 1\n", 1));
    let later = site.run_with(&["rnews"], entry(1).as_bytes());
    assert_eq!(later.status.code(), Some(75), "{}", complaints(&later));
    assert!(complaints(&later).contains("no_such_key"));
    site.edit(|text| text.replacen("no_such_key = 1\n", "", 1));
    let serving = site.serve();
    site.edit(|text| text.replacen("[site]\n", "[site]\nno_such_key = 1\n", 1));
    let filed = site.run_with(&["rnews"], entry(1).as_bytes());
    assert_eq!(filed.status.code(), Some(0), "the server runs on: {}", complaints(&filed));
    assert!(serving.client().ask("STAT <1@x.example>").starts_with("223 "));
    let wrong = site.run(&["rnews", "/no/such/batch"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn articles_of_a_full_class_in_a_batch_hold_up_no_others() {
    let site = site();
    site.edit(|text| with_tight_class(&text, "local.tight"));
    site.done(&["group", "add", "local.tight"]);
    let big = |n: usize| {
        let long = "a line of an article that fills a class\n".repeat(500);
        let text = text(n).replace("local.test", "local.tight") + &long;
        format!("#! rnews {}\n{text}", text.len())
    };
    let incoming = site.dir().join("incoming");
    fs::create_dir(&incoming).unwrap();
    fs::write(incoming.join("1"), (100..130).map(big).chain((10..20).map(entry)).collect::<String>())
        .unwrap();
    fs::write(incoming.join("2"), (20..30).map(entry).collect::<String>()).unwrap();
    let serving = site.serve();
    let count = || {
        let files = fs::read_dir(&incoming).unwrap();
        files.filter(|file| !file.as_ref().unwrap().file_name().to_str().unwrap().starts_with('.')).count()
    };
    wait_for(
        || (serving.client().ask("GROUP local.test"), count(), site.done(&["status"])),
        |(group, count, _)| group.starts_with("211 20 ") && *count == 1,
    );
    drop(serving);
    // Those that wait are filed once there is room.
    site.edit(|text| text.replace("files_max = 1\n", "files_max = 20\n"));
    let serving = site.serve();
    filed(&site, |_| true);
    assert!(serving.client().ask("GROUP local.tight").starts_with("211 30 "));
}
