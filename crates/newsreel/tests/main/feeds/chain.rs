//! Two newsreels that feed each other.

use super::{hand_in, id};
use crate::operated::Operated;
use crate::waiting::wait_for;

/// Creates a site that has `other` as a peer, at a port that is determined later.
fn site(name: &str) -> Operated {
    let site = Operated::with(&["--path-identity", name]);
    site.done(&["group", "add", "misc.test"]);
    site
}

#[test]
fn chain_of_two_servers_relays_articles_despite_kills() {
    let (upper, lower) = (site("upper.example"), site("lower.example"));
    let known = "\n[[peer]]\nname = \"upstream.example\"\naddresses = \"127.0.0.1\"\n";
    lower.edit(|text| text + known);
    // A loopback address of its own, so that the port stays free while the server is down, and a different
    // one in each process that runs this test.
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = format!("127.86.{high}.{low}:11119");
    lower.edit(|text| text.replace("127.0.0.1:0", &address));
    upper.edit(|text| {
        text + known
            + &format!(
                "\n[[peer]]\nname = \"lower.example\"\n[peer.send]\nto = \"{address}\"\n\
                 retry_first = \"10ms\"\nretry_longest = \"200ms\"\n"
            )
    });
    let mut handed_in = 0;
    for round in 0..4 {
        let (from, to) = (upper.serve(), lower.serve());
        hand_in(&mut from.client(), handed_in..handed_in + 300, "misc.test");
        handed_in += 300;
        if round % 2 == 0 { drop(to) } else { drop(from) }
    }
    let (from, to) = (upper.serve(), lower.serve());
    let mut client = to.client();
    let expected = format!("211 {handed_in} 1 {handed_in} misc.test");
    wait_for(|| (client.ask("GROUP misc.test"), from.log()), |(group, _)| *group == expected);
    assert!(client.ask(&format!("HEAD {}", id(7))).starts_with("221 "));
    let head = client.block();
    assert!(
        head.iter().any(|line| line.starts_with("Path: lower.example!.SEEN.127.0.0.1!upper.example!")),
        "{head:?}"
    );
}
