//! Peers that get batches, and sites that file them.

use super::{hand_in, id, status, wait_for_status};
use crate::client::article;
use crate::operated::{Operated, complaints};
use crate::running::Server;
use crate::waiting::wait_for;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Returns the section of a peer that gets batches, which are made only by size or on command.
pub(super) fn section(name: &str, keys: &str) -> String {
    format!(
        "\n[[peer]]\nname = \"{name}\"\n[peer.send]\nbatch = \"out/{name}\"\nbatch_age = \"30 days\"\n\
         retry_first = \"10ms\"\nretry_longest = \"200ms\"\n{keys}\n"
    )
}

/// Returns the batches that wait for a peer.
pub(super) fn waiting(data: &Path, peer: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(data.join("out").join(peer)) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "rnews"));
    paths.sort();
    paths
}

/// Makes batches now; returns the server's reply.
pub(super) fn batch(server: &Server, peer: &str) -> (String, bool) {
    let (replies, ok) = server.control(&json!({ "do": "batch", "peer": peer }));
    let reply = &replies[0];
    (reply["text"].as_str().or(reply["error"].as_str()).unwrap().to_owned(), ok)
}

/// Creates a site that files batches.
pub(super) fn lower() -> Operated {
    let site = Operated::with(&["--path-identity", "lower.example"]);
    site.done(&["group", "add", "misc.test"]);
    site
}

/// Files batches; returns how many of their articles were accepted, and how many were known.
pub(super) fn file(site: &Operated, batches: &[PathBuf]) -> (usize, usize) {
    let mut filed = (0, 0);
    for batch in batches {
        let output = site.run(&["rnews", batch.to_str().unwrap()]);
        assert!(output.status.success(), "{}", complaints(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        let before = |what: &str| -> usize {
            let words = text.split([':', ',']).find(|part| part.contains(what));
            words.map_or(0, |words| words.trim().split(' ').next().unwrap().parse().unwrap())
        };
        assert!(text.contains(" 0 rejected"), "{text}");
        filed = (filed.0 + before("accepted"), filed.1 + before("duplicate"));
    }
    filed
}

/// Returns the Message-IDs of the articles in plain batches, with the number of copies.
fn articles(batches: &[PathBuf]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for batch in batches {
        let text = fs::read_to_string(batch).unwrap();
        assert!(text.starts_with("#! rnews "), "{text}");
        for id in text.lines().filter_map(|line| line.strip_prefix("Message-ID: ")) {
            *found.entry(id.to_owned()).or_default() += 1;
        }
    }
    found
}

fn each_once(articles: usize) -> BTreeMap<String, usize> {
    (0..articles).map(|n| (id(n), 1)).collect()
}

#[test]
fn batches_of_every_form_are_filed_by_another_server() {
    let forms = ["none", "compress", "gzip", "bzip2", "zstd"];
    let sections: String = forms
        .iter()
        .map(|form| section(form, &format!("batch_bytes = \"4 KiB\"\nbatch_compress = \"{form}\"")))
        .collect();
    let server = Server::start_with(|text| text + &sections);
    hand_in(&mut server.client(), 0..100, "misc.test");
    let lower = lower();
    for (at, form) in forms.iter().enumerate() {
        let (said, ok) = batch(&server, form);
        assert!(ok, "{said}");
        let batches = waiting(&server.data(), form);
        assert!(batches.len() > 3, "{batches:?}");
        let name = batches[0].file_name().unwrap().to_str().unwrap();
        assert!(name.ends_with("-site.example.rnews"), "{name}");
        let head = fs::read(&batches[0]).unwrap();
        let line = ["#! rnews ", "#! cunbatch\n", "#! gunbatch\n", "#! bunbatch\n", "#! zstdunbatch\n"][at];
        assert!(head.starts_with(line.as_bytes()), "{form}");
        // Articles brought in one form are duplicates in the next one.
        assert_eq!(file(&lower, &batches), if at == 0 { (100, 0) } else { (0, 100) }, "{form}");
        let feed = status(&server, form);
        assert_eq!((&feed["accepted"], &feed["lag_articles"]), (&100.into(), &0.into()), "{feed}");
        assert_eq!(feed["output"]["waiting_files"], batches.len(), "{feed}");
        assert_eq!(batch(&server, form), (format!("{form}: nothing waits for a batch"), true));
    }
    let stored = fs::read_to_string(&waiting(&server.data(), "none")[0]).unwrap();
    assert!(stored.contains("\nPath: site.example!!peer.example!"), "{stored}");
    assert!(
        stored.contains("\n\n.body\n") && !stored.contains("Xref:") && !stored.contains('\r'),
        "{stored}"
    );
    assert!(!batch(&server, "peer.example").1);
}

#[test]
fn batch_is_made_when_its_first_article_has_waited() {
    let section = section("leaf", "").replace("30 days", "1 s");
    let server = Server::start_with(|text| text + &section);
    hand_in(&mut server.client(), 0..3, "misc.test");
    wait_for_status(&server, "leaf", |feed| feed["accepted"] == 3 && feed["state"] == "idle");
    assert_eq!(articles(&waiting(&server.data(), "leaf")), each_once(3));
}

#[test]
fn after_batch_program_is_retried_until_it_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let (there, works) = (dir.path().join("there"), dir.path().join("works"));
    fs::create_dir(&there).unwrap();
    let script = format!(
        "test -e {} || {{ echo the line is down >&2; exit 69; }}; cmp - %f && cat %f > {}/%p-%n",
        works.display(),
        there.display()
    );
    let keys = format!("batch_bytes = \"2 KiB\"\nafter_batch = [\"/bin/sh\", \"-c\", \"{script}\"]");
    let section = section("leaf", &keys);
    let server = Server::start_with(|text| text + &section);
    hand_in(&mut server.client(), 0..50, "misc.test");
    assert!(batch(&server, "leaf").1);
    let made = waiting(&server.data(), "leaf");
    wait_for_status(&server, "leaf", |feed| feed["last_error"].is_string());
    let feed = status(&server, "leaf");
    let error = feed["last_error"].as_str().unwrap();
    assert_eq!(error, "after_batch: /bin/sh: exit status: 69: the line is down");
    assert_eq!(feed["output"]["batches_handed_over"], 0);
    assert_eq!(waiting(&server.data(), "leaf"), made, "nothing is removed");
    fs::write(&works, "").unwrap();
    let flush = json!({ "do": "feed", "peer": "leaf", "command": "flush" });
    assert!(server.control(&flush).1);
    wait_for_status(&server, "leaf", |feed| feed["output"]["batches_handed_over"] == made.len());
    assert_eq!(waiting(&server.data(), "leaf"), Vec::<PathBuf>::new());
    let taken: Vec<PathBuf> = fs::read_dir(&there).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(articles(&taken), each_once(50));
    assert!(taken.iter().all(|path| path.file_name().unwrap().to_str().unwrap().starts_with("leaf-0")));
}

/// A transport may leave a process behind that still has its standard error.
#[test]
fn batch_is_handed_over_once_its_program_has_ended() {
    let keys = "after_batch = [\"/bin/sh\", \"-c\", \"cat > /dev/null; sleep 30 &\"]";
    let section = section("leaf", keys);
    let server = Server::start_with(|text| text + &section);
    hand_in(&mut server.client(), 0..5, "misc.test");
    assert!(batch(&server, "leaf").1);
    let begun = Instant::now();
    wait_for_status(&server, "leaf", |feed| feed["output"]["batches_handed_over"] == 1);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(waiting(&server.data(), "leaf"), Vec::<PathBuf>::new());
}

#[test]
fn refused_batch_does_not_delay_later_ones() {
    let dir = tempfile::tempdir().unwrap();
    let works = dir.path().join("works");
    // The program fails for one of the first articles.
    let script = format!("test -e {} || ! grep -qF '{}'", works.display(), id(1));
    let keys = format!("batch_bytes = \"2 KiB\"\nafter_batch = [\"/bin/sh\", \"-c\", \"{script}\"]");
    let section = section("leaf", &keys);
    let server = Server::start_with(|text| text + &section);
    let mut client = server.client();
    hand_in(&mut client, 0..50, "misc.test");
    assert!(batch(&server, "leaf").1);
    wait_for_status(&server, "leaf", |feed| feed["output"]["waiting_files"] == 1);
    let made = waiting(&server.data(), "leaf");
    assert!(articles(&made).contains_key(&id(1)), "{made:?}");
    let handed_over = status(&server, "leaf")["output"]["batches_handed_over"].as_u64().unwrap();
    // Later batches do not wait for it either.
    hand_in(&mut client, 50..60, "misc.test");
    assert!(batch(&server, "leaf").1);
    wait_for_status(&server, "leaf", |feed| {
        feed["output"]["batches_handed_over"].as_u64().unwrap() > handed_over
            && feed["output"]["waiting_files"] == 1
    });
    wait_for_status(&server, "leaf", |feed| feed["last_error"].is_string());
    fs::write(&works, "").unwrap();
    wait_for_status(&server, "leaf", |feed| feed["output"]["waiting_files"] == 0);
    wait_for_status(&server, "leaf", |feed| feed["last_error"].is_null());
}

#[test]
fn waiting_batches_are_bounded_and_the_cursor_stops() {
    let section = section("leaf", "batch_bytes = \"1 KiB\"\nwaiting_files_max = 2");
    let server = Server::start_with(|text| text + &section);
    hand_in(&mut server.client(), 0..100, "misc.test");
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    wait_for_status(&server, "leaf", |feed| {
        feed["state"] == "full" && feed["lag_articles"].as_u64().is_some_and(|lag| lag > 50)
    });
    let feed = status(&server, "leaf");
    assert!(feed["last_error"].as_str().unwrap().contains("2 batches ("), "{feed}");
    let (said, ok) = batch(&server, "leaf");
    assert!(!ok && said.contains("no more is made"), "{said}");
    while found.len() < 100 {
        wait_for_status(&server, "leaf", |feed| {
            feed["state"] == "full" || feed["state"] == "collecting" || feed["state"] == "idle"
        });
        if status(&server, "leaf")["state"] != "full" {
            let (said, ok) = batch(&server, "leaf");
            assert!(ok || said.contains("no more is made"), "{said}");
        }
        let batches = waiting(&server.data(), "leaf");
        assert!(batches.len() <= 2, "{batches:?}");
        found.extend(articles(&batches));
        batches.iter().for_each(|batch| fs::remove_file(batch).unwrap());
        // The batches were taken away, so the feed may look at once.
        let flush = json!({ "do": "feed", "peer": "leaf", "command": "flush" });
        assert!(server.control(&flush).1);
    }
    assert_eq!(found, each_once(100));
}

#[test]
fn articles_filed_without_a_server_are_batched() {
    let site = lower();
    // No server has run yet.
    site.edit(|text| text + &section("leaf", ""));
    let wire = article(&id(1), "misc.test", "body");
    let text = wire.replace("\r\n", "\n").strip_suffix(".\n").unwrap().to_owned();
    let filed = site.run_with(&["rnews"], text.as_bytes());
    assert!(filed.status.success(), "{}", complaints(&filed));
    let said = site.done(&["batch", "leaf"]);
    assert!(said.starts_with("leaf: 1 batch with 1 article, "), "{said}");
    assert_eq!(articles(&waiting(&site.dir(), "leaf")), [(id(1), 1)].into());
}

#[test]
fn batch_made_again_after_a_kill_replaces_itself() {
    let site = lower();
    site.edit(|text| text + &section("leaf", "") + "\n[[peer]]\nname = \"up\"\naddresses = \"127.0.0.1\"\n");
    let cursor = site.dir().join("journal/feed.leaf.cursor");
    let server = site.serve();
    let before = fs::read(&cursor).unwrap();
    hand_in(&mut server.client(), 0..10, "misc.test");
    let said = site.done(&["batch", "leaf"]);
    assert!(said.starts_with("leaf: 1 batch with 10 articles, "), "{said}");
    let made = waiting(&site.dir(), "leaf");
    drop(server);
    // As if killed before the cursor was saved, while writing a batch.
    fs::write(&cursor, before).unwrap();
    fs::write(made[0].with_extension("rnews.new"), "#! rnews 100\n").unwrap();
    let server = site.serve();
    hand_in(&mut server.client(), 10..12, "misc.test");
    let said = site.done(&["batch", "leaf"]);
    assert!(said.starts_with("leaf: 1 batch with 12 articles, "), "{said}");
    assert_eq!(waiting(&site.dir(), "leaf"), made);
    assert_eq!(articles(&made), each_once(12));
    assert_eq!(fs::read_dir(site.dir().join("out/leaf")).unwrap().count(), 1);
    drop(server);
}

#[test]
fn batches_before_the_cursor_are_made_again_before_handover() {
    let site = lower();
    let log = site.home().join("handed-over");
    site.edit(|text| {
        text + &section("leaf", "batch_bytes = \"1 KiB\"")
            + "\n[[peer]]\nname = \"up\"\naddresses = \"127.0.0.1\"\n"
    });
    let cursor = site.dir().join("journal/feed.leaf.cursor");
    let server = site.serve();
    let before = fs::read(&cursor).unwrap();
    hand_in(&mut server.client(), 0..20, "misc.test");
    site.done(&["batch", "leaf"]);
    let made = waiting(&site.dir(), "leaf");
    assert!(made.len() > 3, "{made:?}");
    drop(server);
    // As if killed while the batches got their names: the cursor is before all of them, the last but one has
    // no name yet, and one would be lost if it were not made again.
    fs::write(&cursor, before).unwrap();
    fs::rename(&made[made.len() - 2], made[made.len() - 2].with_extension("rnews.new")).unwrap();
    fs::write(&made[1], "").unwrap();
    let program = format!("echo %n >> {0}; cat >> {0}", log.display());
    let keys = format!("after_batch = [\"/bin/sh\", \"-c\", \"{program}\"]\nretry_first");
    site.edit(|text| text.replace("retry_first", &keys));
    let server = site.serve();
    site.done(&["batch", "leaf"]);
    wait_for(|| waiting(&site.dir(), "leaf"), Vec::is_empty);
    drop(server);
    let text = fs::read_to_string(&log).unwrap();
    let names: Vec<&str> = text.lines().filter(|line| line.ends_with(".rnews")).collect();
    let first: Vec<&str> = made.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, first, "each once, in order");
    for n in 0..20 {
        let line = format!("Message-ID: {}", id(n));
        assert_eq!(text.lines().filter(|text| *text == line).count(), 1, "{n}");
    }
}

#[test]
fn every_article_is_in_one_batch_despite_kills() {
    let site = Operated::with(&["--peer", "127.0.0.1"]);
    site.done(&["group", "add", "misc.test"]);
    let section = section("leaf", "batch_bytes = \"3 KiB\"");
    site.edit(|text| text + &section);
    let mut handed_in = 0;
    for _ in 0..5 {
        let server = site.serve();
        hand_in(&mut server.client(), handed_in..handed_in + 100, "misc.test");
        handed_in += 100;
        // Killed by SIGKILL while batches are made.
        drop(server);
    }
    // The rest is made without a server.
    let said = site.done(&["batch", "leaf"]);
    assert!(said.starts_with("leaf: "), "{said}");
    let data = site.dir();
    assert_eq!(articles(&waiting(&data, "leaf")), each_once(handed_in));
    assert_eq!(site.done(&["batch", "leaf"]), "leaf: nothing waits for a batch\n");
    let names: Vec<_> =
        fs::read_dir(data.join("out/leaf")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name.to_str().unwrap().ends_with(".rnews")), "{names:?}");
}

#[test]
fn damaged_cursor_loses_no_waiting_article() {
    let site = lower();
    site.edit(|text| text + &section("leaf", "") + "\n[[peer]]\nname = \"up\"\naddresses = \"127.0.0.1\"\n");
    let cursor = site.dir().join("journal/feed.leaf.cursor");
    let server = site.serve();
    hand_in(&mut server.client(), 0..10, "misc.test");
    drop(server);
    let whole = fs::read(&cursor).unwrap();
    let mut flipped = whole.clone();
    (flipped[30], flipped[4_126]) = (!flipped[30], !flipped[4_126]);
    let mut in_one = whole.clone();
    in_one[30] ^= 4;
    for (at, (damaged, told)) in [
        (Some(in_one), "one of two copies was damaged"),
        (Some(flipped), "its file was damaged"),
        (Some(vec![0; whole.len()]), "its file was damaged"),
        (Some(whole[..50].to_vec()), "its file was damaged"),
        (Some(Vec::new()), "its file was damaged"),
        (None, "its file was missing"),
    ]
    .into_iter()
    .enumerate()
    {
        match damaged {
            Some(bytes) => fs::write(&cursor, bytes).unwrap(),
            None => fs::remove_file(&cursor).unwrap(),
        }
        // A new peer gets articles that arrive from now on.
        let new = format!("new{at}");
        site.edit(|text| text + &section(&new, ""));
        let server = site.serve();
        let shown = site.done(&["status"]);
        let line = shown.lines().find(|line| line.starts_with("feed.leaf ")).unwrap();
        assert!(line.contains(told), "{shown}");
        assert_eq!(site.done(&["batch", &new]).trim(), format!("{new}: nothing waits for a batch"));
        let count = 10 + at;
        let said = site.done(&["batch", "leaf"]);
        assert!(said.starts_with(&format!("leaf: 1 batch with {count} articles, ")), "{told}: {said}");
        assert_eq!(articles(&waiting(&site.dir(), "leaf")), each_once(count), "{told}");
        waiting(&site.dir(), "leaf").iter().for_each(|path| fs::remove_file(path).unwrap());
        // One more article waits then, and all of them are sent again after the next damage.
        hand_in(&mut server.client(), count..count + 1, "misc.test");
        drop(server);
    }
    let log = fs::read_to_string(site.home().join("log")).unwrap();
    assert!(log.contains("where a reader of the journal was is lost"), "{log}");
}
