//! Feeds the whole corpus of real articles, by TAKETHIS and by `newsreel rnews`, and reads it back, octet by
//! octet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::fed::{self, Text};
use super::site::Site;
use super::{corpus, installed, scripts, text};
use crate::client::Client;

/// Articles of the corpus with a valid Message-ID, and how many of these share theirs with another.
const ARTICLES: usize = 1_999;
const DUPLICATES: usize = 8;
/// Number of group names in their Newsgroups headers.
const GROUP_NAMES: usize = 395;

/// Responses that are read after their commands are sent.
const WINDOW: usize = 50;

/// Returns the valid group names of the articles, as a file of groups.
fn groups(articles: &[Text]) -> String {
    let names: BTreeSet<String> = articles.iter().flat_map(Text::groups).collect();
    assert_eq!(names.len(), GROUP_NAMES);
    let valid = |name: &&String| netnews::newsgroups::valid_name(name.as_bytes());
    let text: String = names.iter().filter(valid).map(|name| format!("{name} y\n")).collect();
    text + "misc.test y For trying things out\n"
}

/// Returns a site with the groups of the articles, the articles, and one that every server rejects, with two
/// `@` in its Message-ID, which is removed from `unpacked`.
fn site(unpacked: &Path) -> (Site, Vec<Text>, Text) {
    let all = fed::read(unpacked);
    let site = Site::start(&groups(&all));
    let (articles, mut refused): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|article| article.message_id().matches('@').count() == 1);
    assert_eq!((articles.len(), refused.len()), (ARTICLES, 1));
    let refused = refused.remove(0);
    fed::remove(unpacked, &refused);
    (site, articles, refused)
}

/// Checks that the server has every article once, in every group that it names, with the body that was fed.
fn has_all(client: &mut Client, articles: &[Text]) {
    let mut kept: BTreeMap<String, Vec<&Text>> = BTreeMap::new();
    for article in articles {
        kept.entry(article.message_id()).or_default().push(article);
    }
    assert_eq!(kept.len(), ARTICLES - DUPLICATES);
    let ids: Vec<_> = kept.keys().collect();
    let mut numbers: BTreeMap<String, u64> = BTreeMap::new();
    for window in ids.chunks(WINDOW) {
        client.send(window.iter().map(|id| format!("ARTICLE {id}\r\n")).collect::<String>());
        for id in window {
            assert_eq!(client.line(), format!("220 0 {id}"));
            let lines = client.block();
            let blank = lines.iter().position(String::is_empty).unwrap();
            let body = octets(&lines[blank + 1..]);
            assert!(kept[*id].iter().any(|copy| copy.body() == body), "{id}");
            let xref = lines.iter().find_map(|line| line.strip_prefix("Xref: site.example ")).unwrap();
            for place in xref.split(' ') {
                *numbers.entry(place.split_once(':').unwrap().0.to_owned()).or_default() += 1;
            }
        }
    }
    assert!(client.ask("LIST COUNTS").starts_with("215 "));
    for row in client.block() {
        let [name, high, _low, count, _flag] = row.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let expected = numbers.get(name).copied().unwrap_or_default();
        assert_eq!((count, high), (expected.to_string().as_str(), expected.to_string().as_str()), "{name}");
    }
    let named: BTreeMap<String, u64> = kept.values().fold(BTreeMap::new(), |mut named, copies| {
        for group in copies[0].groups().iter().filter(|name| netnews::newsgroups::valid_name(name.as_bytes()))
        {
            *named.entry(group.clone()).or_default() += 1;
        }
        named
    });
    assert_eq!(numbers, named);
}

/// Returns the lines of a block as octets of a file.
fn octets(lines: &[String]) -> Vec<u8> {
    let mut octets = Vec::new();
    for line in lines {
        let line = line.strip_prefix('.').unwrap_or(line);
        octets.extend(line.chars().map(|c| u8::try_from(u32::from(c)).unwrap()));
        octets.push(b'\n');
    }
    octets
}

#[test]
fn corpus_fed_by_takethis_is_read_by_all_clients() {
    let dir = tempfile::TempDir::new().unwrap();
    let Some(unpacked) = corpus::unpack(dir.path()) else { return };
    let (site, articles, refused) = site(&unpacked);
    let mut client = site.client();
    let bad = refused.message_id();
    assert_eq!(fed::takethis(&mut client, &[refused]), [format!("439 {bad} bad Message-ID")]);
    let answers = fed::takethis(&mut client, &articles);
    let mut seen = BTreeSet::new();
    for (article, answer) in articles.iter().zip(&answers) {
        let id = article.message_id();
        let expected =
            if seen.insert(id.clone()) { format!("239 {id}") } else { format!("439 {id} duplicate") };
        assert_eq!(*answer, expected);
    }
    assert_eq!(answers.iter().filter(|answer| answer.starts_with("439 ")).count(), DUPLICATES);
    has_all(&mut client, &articles);
    if let Some(python) = scripts::python() {
        let said = scripts::run(&[python, "-W", "ignore"], "reading.py", &[&site.port(), text(&unpacked)]);
        assert!(said.starts_with("1991 articles in "), "{said}");
    }
    if installed(&[("perl", "perl")]) {
        let said = scripts::run(&["perl"], "reading.pl", &[&site.port(), text(&unpacked), "misc.test"]);
        assert_eq!(said, "1991 articles read\n");
    }
}

#[test]
fn corpus_fed_by_rnews_is_complete() {
    let dir = tempfile::TempDir::new().unwrap();
    let Some(unpacked) = corpus::unpack(dir.path()) else { return };
    let (site, articles, refused) = site(&unpacked);
    let mut batch = Vec::new();
    for article in articles.iter().chain([&refused]) {
        batch.extend_from_slice(format!("#! rnews {}\n", article.bytes.len()).as_bytes());
        batch.extend_from_slice(&article.bytes);
    }
    let file = dir.path().join("batch");
    std::fs::write(&file, batch).unwrap();
    let filed = site.run(&["rnews", text(&file)]);
    assert_eq!(filed.status.code(), Some(1), "{filed:?}");
    assert_eq!(
        String::from_utf8_lossy(&filed.stdout),
        "1,999 articles: 1,991 accepted, 0 rejected, 8 duplicates, 1 damaged piece in quarantine\n"
    );
    let complaints = String::from_utf8_lossy(&filed.stderr);
    assert!(complaints.contains(": bad Message-ID; "), "{complaints}");
    has_all(&mut site.client(), &articles);
}
