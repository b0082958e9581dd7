//! HDR through an upstream for headers that overview rows do not have.

use super::fake::{Fake, Fault};
use super::{article_of, section, showing, wait_until_asked};
use crate::client::Client;

fn header(client: &mut Client, command: &str) -> Vec<String> {
    let answer = client.ask(command);
    assert!(answer.starts_with("22"), "{command}: {answer}");
    client.block()
}

#[test]
fn headers_of_a_range_are_requested_at_once_and_answered_completely() {
    let fake = Fake::with("comp.a", 3, 500);
    let own = section("fake", fake.address, "").replace("\"0 s\"", "\"1 h\"");
    let server = showing(&[own]);
    let mut client = server.client();
    assert!(client.ask("LISTGROUP comp.a").starts_with("211 3 "));
    client.block();
    fake.take("");
    let expected = ["1 comp.a", "2 comp.a", "3 comp.a"];
    for verb in ["HDR", "XHDR"] {
        assert_eq!(header(&mut client, &format!("{verb} Newsgroups 1-3")), expected, "{verb}");
        let none = [if verb == "HDR" { "3 " } else { "3 (none)" }];
        assert_eq!(header(&mut client, &format!("{verb} Keywords 3")), none);
    }
    // Answered headers are not requested again.
    let asked = fake.take("");
    assert_eq!(asked, ["HDR Newsgroups 1-3", "HDR Keywords 3-3"]);
    // The upstream closes in the middle of its response.
    fake.fail(Fault::BreaksOff);
    assert!(client.ask("HDR Path 1-").starts_with("403 "));
    fake.fail(Fault::None);
    wait_until_asked(&mut client);
    (1..=3).for_each(|number| _ = article_of(&mut client, &format!("ARTICLE {number}")).unwrap());
    fake.fail(Fault::Dead);
    assert_eq!(header(&mut client, "HDR Newsgroups 1-"), expected);
    assert_eq!(header(&mut client, "HDR Path 1-").len(), 3);
}

#[test]
fn only_new_headers_of_a_range_are_requested() {
    let fake = Fake::with("comp.a", 1, 100);
    (2..=100).for_each(|number| fake.put("comp.a", number, 100));
    let server = showing(&[section("fake", fake.address, "")]);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 100 "));
    let asked =
        [("Newsgroups 1-80", 80), ("newsgroups 11-70", 60), ("Newsgroups 1-", 100), ("NEWSGROUPS 1-", 100)];
    for (range, count) in asked {
        assert_eq!(header(&mut client, &format!("HDR {range}")).len(), count, "{range}");
    }
    // Headers in overview rows come from there.
    for name in ["Subject", "From", "Message-ID", ":bytes"] {
        assert_eq!(header(&mut client, &format!("HDR {name} 1-")).len(), 100, "{name}");
    }
    let mut asked = fake.take("");
    asked.retain(|command| command.contains("HDR") || command.contains("OVER"));
    assert_eq!(asked, ["HDR Newsgroups 1-80", "HDR Newsgroups 81-100", "XOVER 1-100"]);
    // One article is cancelled there, and another arrives.
    fake.change(|groups| _ = groups.get_mut("comp.a").unwrap().articles.remove(&50));
    fake.put("comp.a", 101, 100);
    let values = header(&mut client, "HDR Newsgroups 49-");
    assert_eq!(values.len(), 52);
    assert_eq!(values[..2], ["49 comp.a", "51 comp.a"]);
    assert_eq!(fake.take("HDR"), ["HDR Newsgroups 101-101"]);
    // After renumbering, nothing of the old group is used.
    fake.change(|groups| _ = groups.remove("comp.a"));
    (1..=70).for_each(|number| fake.put("comp.a", number, 100));
    assert!(client.ask("GROUP comp.a").starts_with("211 70 "));
    assert_eq!(header(&mut client, "HDR Newsgroups 1-").len(), 70);
    assert_eq!(fake.take("HDR"), ["HDR Newsgroups 1-70"]);
}
