//! ihave and sendme between two servers that exchange only batches.

use super::batches::{batch, section, waiting};
use super::{hand_in, id};
use crate::running::Server;
use crate::waiting::{wait_for, wait_until};
use std::fs;
use std::path::PathBuf;

/// A server that speaks ihave and sendme with another one.
pub(super) fn server(own: &str, other: &str, keys: &str) -> Server {
    let section = section(other, &format!("ihave = true\n{keys}"));
    Server::start_with(|text| text.replace("\"site.example\"", &format!("\"{own}\"")) + &section)
}

/// Waits for batches to a peer, and takes them away.
pub(super) fn taken(server: &Server, peer: &str) -> String {
    let batches = wait_for(|| waiting(&server.data(), peer), |batches| !batches.is_empty());
    let text = batches.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    batches.iter().for_each(|path| fs::remove_file(path).unwrap());
    text
}

/// Makes a server file a batch.
pub(super) fn file(server: &Server, batch: &str) {
    let incoming: PathBuf = server.data().join("incoming");
    fs::create_dir_all(&incoming).unwrap();
    let filed = || server.status()["batches"]["filed"].as_u64().unwrap();
    let before = filed();
    fs::write(incoming.join(".unfinished"), batch).unwrap();
    fs::rename(incoming.join(".unfinished"), incoming.join("1.batch")).unwrap();
    wait_until("the batch is filed", || filed() != before);
}

pub(super) fn ids_in(batch: &str, header: &str) -> Vec<String> {
    batch.lines().filter_map(|line| line.strip_prefix(header)).map(str::to_owned).collect()
}

#[test]
fn peers_request_and_get_missing_articles() {
    let upper = server("up.example", "low.example", "groups = \"misc.*\"");
    let lower = server("low.example", "up.example", "groups = \"none.*\"");
    hand_in(&mut upper.client(), 0..10, "misc.test");
    hand_in(&mut upper.client(), 20..21, "local.closed");
    hand_in(&mut lower.client(), 5..10, "misc.test");
    let (said, ok) = batch(&upper, "low.example");
    assert!(ok && said.starts_with("low.example: 1 batch with 0 articles and 10 announced, "), "{said}");
    let ihave = taken(&upper, "low.example");
    assert!(
        ihave.contains("\nControl: ihave up.example\n") && ihave.contains("\nNewsgroups: to.low.example\n")
    );
    assert_eq!(ids_in(&ihave, "<").len(), 10, "{ihave}");
    file(&lower, &ihave);
    let sendme = taken(&lower, "up.example");
    assert!(sendme.contains("\nControl: sendme low.example\n"), "{sendme}");
    let asked: Vec<String> = ids_in(&sendme, "<").into_iter().map(|rest| format!("<{rest}")).collect();
    assert_eq!(asked, (0..5).map(id).collect::<Vec<_>>());
    // The peer also requests one that it may not have, and one that does not exist.
    let more = format!("<0@x.example>\n{}\n<nothing@x.example>\n", id(20));
    let length = sendme.split(['\n', ' ']).nth(2).unwrap().parse::<usize>().unwrap();
    let sendme = sendme.replacen("<0@x.example>\n", &more, 1).replacen(
        &length.to_string(),
        &(length + more.len() - "<0@x.example>\n".len()).to_string(),
        1,
    );
    file(&upper, &sendme);
    let mut batch = String::new();
    while ids_in(&batch, "Message-ID: ").len() < asked.len() {
        batch += &taken(&upper, "low.example");
    }
    let mut sent = ids_in(&batch, "Message-ID: ");
    sent.sort_unstable();
    assert_eq!(sent, asked, "{batch}");
    file(&lower, &batch);
    assert!(lower.client().ask("GROUP misc.test").starts_with("211 10 1 10 "));
    // Offered articles that are here are not requested again.
    file(&lower, &ihave.replace("<ihave.", "<again."));
    let (said, ok) = super::batches::batch(&lower, "up.example");
    assert!(ok && said == "up.example: nothing waits for a batch", "{said}");
    assert_eq!(waiting(&lower.data(), "up.example"), Vec::<PathBuf>::new());
}

#[test]
fn an_ihave_of_a_peer_that_cannot_be_answered_holds_up_no_other_peer() {
    let peers = ["odd.example", "low.example"];
    let sections: String =
        peers.iter().map(|peer| section(peer, "ihave = true\ngroups = \"none.*\"")).collect();
    let upper = Server::start_with(|text| text.replace("\"site.example\"", "\"up.example\"") + &sections);
    let ihaves = peers.map(|peer| {
        let lower = server(peer, "up.example", "groups = \"misc.*\"");
        hand_in(&mut lower.client(), 0..3, "misc.test");
        assert!(batch(&lower, "up.example").1);
        taken(&lower, "up.example")
    });
    // No batch can be put there.
    let dir = upper.data().join("out/odd.example");
    fs::create_dir_all(dir.parent().unwrap()).unwrap();
    fs::write(&dir, "no directory").unwrap();
    ihaves.iter().for_each(|ihave| file(&upper, ihave));
    assert_eq!(ids_in(&taken(&upper, "low.example"), "<").len(), 3);
    fs::remove_file(&dir).unwrap();
    assert_eq!(ids_in(&taken(&upper, "odd.example"), "<").len(), 3);
}
