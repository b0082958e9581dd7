//! Groups that a poster may not read: a post that names one is refused, whether the group exists or not.
//!
//! Nothing can be filed in them, and no response reveals whether they exist.

use crate::auth::{add_users, plain, with_access};
use crate::client::Client;
use crate::posting::{headers, post};
use crate::running::Server;

/// Access rights: fred reads everything; everyone else reads, posts and approves everywhere but in
/// `private.*`.
const ACCESS: &str = r#"
[[access]]
from = "all"
users = "fred"
read = "*"

[[access]]
from = "all"
read = "*,!private.*,!control.*"
post = "*,!private.*"
approve = "*,!private.*"
local = "*,!private.*"
"#;

/// Hidden groups with their flags.
const HIDDEN: &[(&str, &str)] = &[
    ("private.open", "y"),
    ("private.closed", "n"),
    ("private.moderated", "m"),
    ("private.flood", "j"),
    ("private.refused", "x"),
    ("private.alias", "=private.open"),
    ("private.outward", "=misc.test"),
    // The alias is visible, its target is not.
    ("local.inward", "=private.open"),
];

fn site() -> Server {
    let server = Server::start_with(with_access(ACCESS));
    add_users(&server);
    for (name, flag) in HIDDEN {
        assert!(server.operate(&["newgroup", name, flag]));
    }
    server
}

fn count(client: &mut Client, group: &str) -> u64 {
    client.ask(&format!("GROUP {group}")).split(' ').nth(1).unwrap().parse().unwrap()
}

/// Returns the response without the parts that differ from post to post.
fn told(answer: &str, group: &str) -> String {
    let answer = answer.replace(group, "GROUP");
    answer.split_once('<').map_or(answer.clone(), |(text, _)| text.to_owned())
}

#[test]
fn crosspost_is_filed_only_where_its_poster_may_post() {
    let server = site();
    let (mut client, mut fred) = (server.client(), server.client());
    assert!(fred.ask(&plain("fred", "flintstone")).starts_with("281 "));
    // A name that is hidden likewise, but no group.
    let absent = |name: &str| if name.starts_with("private.") { "private.absent" } else { "no.such.group" };
    for more in ["", "Approved: me@x.example\r\n"] {
        for (name, _) in HIDDEN {
            for groups in
                ["GROUP", "GROUP,misc.test", "misc.test,GROUP", "local.moderated,GROUP", "GROUP,local.closed"]
            {
                let ask = |client: &mut Client, name: &str| {
                    told(&post(client, &headers(&groups.replace("GROUP", name), more), "b"), name)
                };
                assert_eq!(
                    ask(&mut client, name),
                    ask(&mut client, absent(name)),
                    "{groups} with {name}; {more}"
                );
            }
        }
    }
    for (name, _) in HIDDEN.iter().filter(|(_, flag)| !flag.starts_with('=')) {
        assert_eq!(count(&mut fred, name), 0, "{name}");
    }
    assert_eq!(count(&mut fred, "junk"), 0);
    for groups in ["private.open,misc.test", "misc.test,private.absent", "private.outward"] {
        let name = groups.split(',').find(|name| name.starts_with("private.")).unwrap();
        let refused = format!("441 Posting to {name} is not permitted to you");
        assert_eq!(post(&mut client, &headers(groups, ""), "b"), refused);
    }
    // Unknown groups that are not hidden belong to other servers. Newsgroups stays as written; Xref names
    // only the groups of the article here.
    let answer = post(&mut client, &headers("no.such.group,local.inward,misc.test", ""), "b");
    assert!(answer.starts_with("240 Article received OK"), "{answer}");
    assert!(fred.ask(&format!("HEAD {}", answer.rsplit(' ').next().unwrap())).starts_with("221 "));
    let head = fred.block();
    assert!(head.contains(&"Newsgroups: no.such.group,local.inward,misc.test".into()), "{head:?}");
    let xref = head.iter().find(|line| line.starts_with("Xref: ")).unwrap();
    assert!(!xref.contains("private."), "{xref}");
}

#[test]
fn crosspost_to_a_read_only_group_is_refused() {
    let server = Server::start_with(with_access(
        "[[access]]\nfrom = \"all\"\nread = \"*\"\npost = \"*,!local.empty\"\n",
    ));
    let mut client = server.client();
    let refused = "441 Posting to local.empty is not permitted to you";
    for groups in ["local.empty", "misc.test,local.empty", "no.such.group,local.empty,misc.test"] {
        assert_eq!(post(&mut client, &headers(groups, ""), "b"), refused, "{groups}");
    }
    assert_eq!(count(&mut client, "misc.test"), 0);
    assert!(post(&mut client, &headers("misc.test,no.such.group", ""), "b").starts_with("240 "));
}

#[test]
fn reserved_names_are_refused_whether_they_exist_or_not() {
    let server = site();
    let mut client = server.client();
    // control.cancel is a group of this site, control.newgroup is not; this poster can read neither.
    for name in ["control.cancel", "control.newgroup"] {
        assert_eq!(
            post(&mut client, &headers(&format!("{name},misc.test"), ""), "b"),
            format!("441 \"{name}\" is a reserved name, no newsgroup; remove it from Newsgroups")
        );
    }
}

#[test]
fn moderators_of_hidden_groups_are_not_named() {
    const MODERATORS: &str = r#"
[[moderator]]
groups = "private.*"
address = "boss@private.example"
[[moderator]]
groups = "local.moderated,private.moderated"
address = "mod@x.example"
"#;
    let server = Server::start_with(|text| with_access(ACCESS)(text) + MODERATORS);
    add_users(&server);
    assert!(server.operate(&["newgroup", "private.moderated", "m"]));
    let listed = |client: &mut Client| {
        assert!(client.ask("LIST MODERATORS").starts_with("215 "));
        client.block()
    };
    let mut client = server.client();
    let seen = listed(&mut client);
    assert!(!seen.iter().any(|line| line.contains("boss")), "{seen:?}");
    assert!(seen.contains(&"local.moderated,private.moderated:mod@x.example".to_owned()), "{seen:?}");
    assert!(client.ask(&plain("fred", "flintstone")).starts_with("281 "));
    let all = listed(&mut client);
    assert!(all.contains(&"private.*:boss@private.example".to_owned()) && all.len() > seen.len(), "{all:?}");
}
