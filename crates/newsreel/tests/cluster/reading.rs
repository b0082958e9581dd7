//! What readers and operators see at a member that has not applied yet what another one has accepted.

use crate::links::Link;
use crate::nodes::{Nodes, Scratch, program};
use crate::{await_same_digest, done, members_of};
use std::time::Duration;

/// Time after which a member with a slow line has what was accepted elsewhere; readers wait for 2 s.
const BEHIND: Duration = Duration::from_secs(1);

#[test]
fn a_member_that_is_behind_finds_and_withdraws_what_was_accepted_elsewhere() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("behind");
    let nodes = Nodes::start(program, &scratch.0, 3, "always");
    let links: Vec<Link> = nodes.ports.iter().map(|ports| Link::to(ports[0])).collect();
    let mut members = members_of(&["fe1", "fe2", "fe3"], &scratch, &nodes, "");
    for (member, reads) in members[1..].iter_mut().zip(["fresh", "local"]) {
        member.stop();
        member.connect_through(&nodes, &links);
        member.edit(|text| text + &format!("reads = \"{reads}\"\n"));
        member.serve();
    }
    links.iter().for_each(|link| link.delay(BEHIND));
    let [first, second, third] = &members[..] else { unreachable!() };
    let (mut poster, mut fresh, mut local) = (first.client(), second.client(), third.client());
    let mut post = |id: &str| {
        let answer = poster.post(id, "test.a").unwrap();
        assert!(answer.starts_with("240"), "{answer}");
    };

    // Every question about a Message-ID waits where readers are to see what others have seen.
    for verb in ["STAT", "HEAD", "BODY", "ARTICLE", "OVER", "HDR Subject"] {
        let id = format!("<{}@behind.example>", &verb[..4].trim());
        post(&id);
        let answer = local.ask(&format!("{verb} {id}")).unwrap();
        assert!(answer.starts_with("430"), "{verb} at a member that is behind: {answer}");
        let answer = match verb {
            "STAT" => fresh.ask(&format!("STAT {id}")).unwrap(),
            _ => fresh.lines(&format!("{verb} {id}")).join("\n"),
        };
        let is_found = if verb == "STAT" { answer.starts_with("223") } else { !answer.is_empty() };
        assert!(is_found, "{verb}: {answer}");
    }
    assert!(fresh.ask("STAT <none@behind.example>").unwrap().starts_with("430"));

    // An operator's cancel finds the article, whatever readers are shown.
    for (at, member) in [(2, second), (3, third)] {
        let id = format!("<operator.{at}@behind.example>");
        post(&id);
        let told = done(&member.dir, &["cancel", &id]);
        assert_eq!(told.trim(), format!("{id} cancelled"));
        assert!(first.client().ask(&format!("STAT {id}")).unwrap().starts_with("430"));
    }
    // So does one by its author, who has the key of its lock (RFC 8315).
    let fed = |id: &str, more: &str| {
        format!(
            "TAKETHIS {id}\r\nPath: peer.example!not-for-mail\r\nFrom: a@x.example\r\nNewsgroups: test.a\r\n\
             Subject: fed\r\nMessage-ID: {id}\r\nDate: Sat, 21 Nov 2026 10:00:00 +0000\r\n{more}\r\n\r\nNo.\r\n."
        )
    };
    let lock = "Cancel-Lock: sha256:HBGF4C/z4js+WhxbyGzxXUEmyqPc3g/bbpOtxN7sEZ4=";
    let answer = first.client().ask(&fed("<author@behind.example>", lock)).unwrap();
    assert!(answer.starts_with("239"), "{answer}");
    let cancel = "Control: cancel <author@behind.example>\r\nCancel-Key: sha256:c2VjcmV0";
    let answer = local.ask(&fed("<cancel@behind.example>", cancel)).unwrap();
    assert!(answer.starts_with("239"), "{answer}");
    crate::nodes::wait_until("the author's article is withdrawn", || {
        first.client().ask("STAT <author@behind.example>").unwrap().starts_with("430")
    });
    // A purge removes what was accepted before it.
    post("<purged@behind.example>");
    done(&second.dir, &["purge", "--groups", "test.a", "--yes"]);
    let marks = first.client().ask("GROUP test.a").unwrap();
    assert!(marks.starts_with("211 0 "), "{marks}");
    links.iter().for_each(|link| link.delay(Duration::ZERO));
    await_same_digest(&members);
}
