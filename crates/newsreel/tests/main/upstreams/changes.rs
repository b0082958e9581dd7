//! LIST ACTIVE of an upstream, refreshed by what has changed there, and what readers learn of changes.

use super::fake::Fake;
use super::{section, showing};
use crate::client::Client;
use crate::lists::time_without_changes;

fn listed(client: &mut Client, command: &str) -> Vec<String> {
    assert!(client.ask(command).starts_with("215 "), "{command}");
    client.block()
}

/// An upstream with these groups, each with an article.
fn with_groups(names: &[&str]) -> Fake {
    let fake = Fake::start();
    names.iter().for_each(|name| fake.put(name, 1, 500));
    fake
}

#[test]
fn a_list_is_refreshed_by_what_has_changed_there_also_after_a_restart() {
    let fake = with_groups(&["comp.a", "comp.b", "comp.d"]);
    fake.offer_changes(&[]);
    let server = showing(&[section("fake", fake.address, "")]);
    let all = ["comp.a 1 1 y", "comp.b 1 1 y", "comp.d 1 1 y"];
    assert_eq!(listed(&mut server.client(), "LIST ACTIVE"), all);
    assert_eq!(fake.take("LIST"), ["LIST ACTIVE"]);
    fake.put("comp.b", 2, 500);
    fake.put("comp.c", 1, 500);
    fake.offer_changes(&["comp.b", "comp.c"]);
    let all = ["comp.a 1 1 y", "comp.b 2 1 y", "comp.c 1 1 y", "comp.d 1 1 y"];
    assert_eq!(listed(&mut server.client(), "LIST ACTIVE"), all);
    let asked = fake.take("LIST");
    assert!(matches!(&asked[..], [one] if one.starts_with("LIST ACTIVE.MODTIME ")), "{asked:?}");
    // The time is the upstream's own: its clock stands still on 22 November 2026, at 10:00.
    let since: u64 = asked[0].split(' ').next_back().unwrap().parse().unwrap();
    assert!((1_795_341_600 - 90..=1_795_341_600).contains(&since), "{since}");
    fake.offer_changes(&[]);
    let server = server.again_as_configured();
    assert_eq!(listed(&mut server.client(), "LIST ACTIVE"), all);
    let asked = fake.take("LIST");
    assert!(matches!(&asked[..], [one] if one.starts_with("LIST ACTIVE.MODTIME ")), "{asked:?}");
}

#[test]
fn readers_learn_of_changes_of_an_upstream_without_such_a_list_also_after_a_restart() {
    let fake = with_groups(&["comp.a", "comp.b"]);
    let server = showing(&[section("fake", fake.address, "")]);
    let mut client = server.client();
    assert_eq!(listed(&mut client, "LIST ACTIVE"), ["comp.a 1 1 y", "comp.b 1 1 y"]);
    let command = format!("LIST ACTIVE.MODTIME {}", time_without_changes(&mut client));
    fake.put("comp.b", 2, 500);
    assert_eq!(listed(&mut client, &command), ["comp.b 2 1 y"]);
    let server = server.again_as_configured();
    assert_eq!(listed(&mut server.client(), &command), ["comp.b 2 1 y"]);
    assert!(fake.take("LIST").iter().all(|asked| asked == "LIST ACTIVE"));
}
