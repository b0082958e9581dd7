//! Posts to groups of other servers: sent once to each server, even after an outage, and reported to the
//! poster.

use super::fake::{Fake, Fault};
use super::{CACHE, section, showing};
use crate::client::Client;
use crate::posting;
use crate::running::Server;
use crate::waiting::wait_until;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Posts an article; returns the response.
fn post(client: &mut Client, id: &str, groups: &str) -> String {
    let id = if id.is_empty() { String::new() } else { format!("Message-ID: {id}\r\n") };
    posting::post(client, &posting::headers(groups, &id), "body\r\n..stuffed")
}

/// Returns the posts that the operator sees: upstream, refused or not, and the reason.
fn listed(server: &Server) -> Vec<(String, bool, String)> {
    let (replies, ok) = server.control(&json!({ "do": "posts", "command": { "list": {} } }));
    assert!(ok, "{replies:?}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let row = |reply: &Value| {
        let post = &reply["post"];
        (text(&post["upstream"]), post["is_refused"].as_bool().unwrap(), text(&post["problem"]))
    };
    replies.iter().map(row).collect()
}

fn operate(server: &Server, command: &Value) -> bool {
    server.control(&json!({ "do": "posts", "command": command })).1
}

#[test]
fn crosspost_is_sent_once_to_each_numbering_upstream() {
    let (isp, project, block) =
        (Fake::with("comp.a", 1, 500), Fake::with("project.a", 1, 500), Fake::with("comp.a", 1, 500));
    isp.put("comp.b", 1, 500);
    isp.put("comp.announce", 1, 500);
    isp.put("comp.read", 1, 500);
    let sections = [
        section("isp", isp.address, "post = \"*,!comp.announce,!comp.read\""),
        section("project", project.address, "groups = \"project.*\""),
        section("block", block.address, "fill = true\npost = \"comp.announce\""),
    ];
    let groups = [("misc.test", "y", ""), ("local.moderated", "m", "")];
    let server = Server::start_showing(&groups, |text| text + &sections.concat());
    let mut client = server.client();
    assert_eq!(client.ask("GROUP comp.a"), "211 1 1 1 comp.a");
    let answer = post(&mut client, "", "comp.a,misc.test,comp.b,project.a,no.where");
    assert!(answer.starts_with("240 Article received OK <"), "{answer}");
    let id = answer.rsplit(' ').next().unwrap().to_owned();
    // One article for all, without traces of its way through here.
    let (at_isp, at_project) = (isp.posts(), project.posts());
    assert_eq!((at_isp.len(), &at_isp, block.posts().len()), (1, &at_project, 0));
    let text = &at_isp[0];
    for header in
        [&format!("Message-ID: {id}\n"), "Date: ", "Injection-Date: ", "Newsgroups: comp.a,misc.test,"]
    {
        assert!(text.contains(header), "{header}: {text}");
    }
    assert!(!text.contains("Path:") && !text.contains("Injection-Info:"), "{text}");
    assert!(text.ends_with("\nbody\n..stuffed"), "{text}");
    assert_eq!(client.ask("GROUP misc.test"), "211 1 1 1 misc.test");
    assert!(client.ask("ARTICLE 1").starts_with(&format!("220 1 {id}")));
    assert!(client.block().iter().any(|line| line.starts_with("Injection-Info: site.example")));
    // The next selection of the group asks again, though its marks are recent.
    isp.take("");
    assert_eq!(client.ask("GROUP comp.a"), "211 1 1 1 comp.a");
    assert_ne!(isp.take("GROUP comp.a"), [""; 0]);
    // Another upstream accepts what the numbering one does not; a post that none accepts is refused.
    assert!(post(&mut client, "", "comp.announce").starts_with("240 Article received OK <"));
    assert_eq!((isp.posts().len(), block.posts().len()), (1, 1));
    for (groups, refused) in [
        ("comp.read", "441 Posting to comp.read is not permitted: it accepts no articles"),
        ("comp.c", "441 None of these newsgroups is carried here: comp.c"),
    ] {
        assert_eq!(post(&mut client, "", groups), refused);
    }
    // A post for a moderator is sent nowhere else.
    assert!(post(&mut client, "", "local.moderated,comp.a").starts_with("240 Queued for the moderator"));
    // A post refused here is sent nowhere.
    assert!(post(&mut client, &id, "misc.test,comp.a").starts_with("441 "));
    assert_eq!((isp.posts().len(), listed(&server)), (1, vec![]));
}

#[test]
fn post_is_visible_at_once_despite_older_marks() {
    let isp = Fake::with("comp.a", 1, 500);
    let section = section("isp", isp.address, "").replace("_age = \"0 s\"", "_age = \"1 h\"");
    let server = Server::start_showing(&[], |text| text + &section + CACHE);
    let mut client = server.client();
    assert!(client.ask("LIST ACTIVE").starts_with("215 "));
    assert_eq!(client.block(), ["comp.a 1 1 y"]);
    let answer = post(&mut client, "<new@x.example>", "comp.a");
    assert!(answer.starts_with("240 "), "{answer}");
    // The upstream files the post.
    isp.put("comp.a", 2, 500);
    assert_eq!(client.ask("GROUP comp.a"), "211 2 1 2 comp.a");
}

#[test]
fn posts_wait_for_an_upstream_and_arrive_once() {
    let (isp, project) = (Fake::with("comp.a", 1, 500), Fake::with("project.a", 1, 500));
    let sections =
        [section("isp", isp.address, ""), section("project", project.address, "groups = \"project.*\"")];
    let server = showing(&sections);
    let mut client = server.client();
    assert_eq!(client.ask("GROUP comp.a"), "211 1 1 1 comp.a");
    isp.fail(Fault::Dead);
    let queued = |id: &str| format!("240 Article queued for isp, which cannot take it now {id}");
    assert_eq!(post(&mut client, "<1@x.example>", "comp.a"), queued("<1@x.example>"));
    let answer = post(&mut client, "<2@x.example>", "project.a,comp.a");
    let expected = "240 Article received OK; queued for isp, which cannot take it now <2@x.example>";
    assert_eq!((answer.as_str(), project.posts().len()), (expected, 1));
    assert!(post(&mut client, "<1@x.example>", "comp.a").starts_with("441 "), "it waits already");
    let upstream = |server: &Server| server.status()["upstreams"][0].clone();
    assert_eq!(upstream(&server)["posts_waiting"], 2);
    // Posts survive a restart, and one of them arrives though its response does not.
    isp.fail(Fault::TakesSilently);
    let server = server.again_as_configured();
    wait_until("a post arrives", || !isp.posts().is_empty());
    isp.fail(Fault::None);
    wait_until("both posts arrive", || listed(&server).is_empty());
    assert_eq!((isp.posts().len(), project.posts().len()), (2, 1));
    // While offline, posts wait until the configuration changes.
    server.reload(|text| text.replacen("answer_timeout", "offline = true\nanswer_timeout", 1)).unwrap();
    let mut client = server.client();
    assert_eq!(post(&mut client, "<3@x.example>", "comp.a"), queued("<3@x.example>"));
    assert_eq!((listed(&server).len(), isp.posts().len()), (1, 2));
    server.reload(|text| text.replacen("offline = true\n", "", 1)).unwrap();
    wait_until("the third post arrives", || listed(&server).is_empty());
    assert_eq!(isp.posts().len(), 3);
}

#[test]
fn a_silent_upstream_does_not_hold_up_posts_for_others() {
    let (isp, project) = (Fake::with("comp.a", 1, 500), Fake::with("project.a", 1, 500));
    let sections =
        [section("isp", isp.address, ""), section("project", project.address, "groups = \"project.*\"")];
    let server = showing(&sections);
    let mut client = server.client();
    assert_eq!(client.ask("GROUP comp.a"), "211 1 1 1 comp.a");
    isp.fail(Fault::Dead);
    assert!(post(&mut client, "<1@x.example>", "comp.a").starts_with("240 Article queued for isp"));
    drop(client);
    // After the restart the silent server is waited for as long as its configuration says.
    isp.fail(Fault::Silent);
    let server = server.again_as_configured();
    project.fail(Fault::TakesPostsLater);
    let mut client = server.client();
    assert!(post(&mut client, "<2@x.example>", "project.a").starts_with("240 Article queued for project"));
    project.fail(Fault::None);
    let begun = Instant::now();
    wait_until("the other post arrives", || project.posts().len() == 1);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    wait_until("only the first one waits", || listed(&server).len() == 1);
    assert_eq!(isp.posts().len(), 0);
}

#[test]
fn refusals_are_reported_to_the_poster_or_operator() {
    let (isp, project) = (Fake::with("comp.a", 1, 500), Fake::with("project.a", 1, 500));
    let sections =
        [section("isp", isp.address, ""), section("project", project.address, "groups = \"project.*\"")];
    let server = showing(&sections);
    let mut client = server.client();
    isp.fail(Fault::RefusesPosts);
    let refused = "441 Posting failed: isp: 441 Not in my house";
    assert_eq!(post(&mut client, "<1@x.example>", "comp.a"), refused);
    assert_eq!(listed(&server), []);
    let answer = post(&mut client, "<2@x.example>", "comp.a,project.a");
    assert_eq!(answer, "240 Article received OK; refused by isp: 441 Not in my house <2@x.example>");
    let kept = ("isp".to_owned(), true, "441 Not in my house".to_owned());
    assert_eq!(listed(&server), [kept]);
    // A temporary refusal is not final.
    isp.fail(Fault::TakesPostsLater);
    assert!(post(&mut client, "<3@x.example>", "comp.a").starts_with("240 Article queued for isp"));
    assert_eq!(listed(&server)[1].2, "441 436 Not now");
    // The posters of these posts were informed that they wait.
    isp.fail(Fault::RefusesPosts);
    wait_until("the third post is refused", || listed(&server).iter().all(|(_, is_refused, _)| *is_refused));
    isp.fail(Fault::None);
    assert!(operate(&server, &json!({ "retry": { "message_id": "<2@x.example>", "upstream": null } })));
    wait_until("the second post arrives", || isp.posts().len() == 1);
    let drop = json!({ "drop": { "message_id": "<3@x.example>", "upstream": "isp" } });
    assert!(operate(&server, &drop) && !operate(&server, &drop));
    wait_until("nothing waits", || listed(&server).is_empty());
    assert_eq!(isp.posts().len(), 1);
}

/// As after a migration from leafnode: articles are fetched by a [[pull]], and posts go to the same server.
#[test]
fn posts_to_local_groups_are_also_sent_to_an_upstream() {
    let isp = Fake::with("comp.a", 1, 500);
    let own = "groups = \"\"\npost_carried = \"*,!local.*\"";
    let groups = [("comp.a", "y", ""), ("comp.m", "m", ""), ("local.a", "y", "")];
    let server = Server::start_showing(&groups, |text| text + &section("isp", isp.address, own));
    let mut client = server.client();
    let answer = post(&mut client, "<1@x.example>", "comp.a,local.a");
    assert_eq!(answer, "240 Article received OK <1@x.example>");
    assert_eq!(client.ask("GROUP comp.a"), "211 1 1 1 comp.a");
    assert!(post(&mut client, "<2@x.example>", "local.a").starts_with("240 "));
    let posts = isp.posts();
    assert!(posts.len() == 1 && posts[0].contains("Message-ID: <1@x.example>"), "{posts:?}");
    assert!(!posts[0].contains("Path:"), "{posts:?}");
    // The moderator gets it first.
    assert!(post(&mut client, "<3@x.example>", "comp.m,comp.a").starts_with("240 Article received OK"));
    assert_eq!((isp.posts().len(), client.ask("GROUP comp.a").as_str()), (2, "211 1 1 1 comp.a"));
    // The upstream is not used for reading: neither for lists, nor for missing articles.
    isp.take("");
    assert!(client.ask("LIST ACTIVE").starts_with("215 "));
    client.block();
    assert!(client.ask("STAT <no@x.example>").starts_with("430 "));
    assert!(client.ask("GROUP comp.b").starts_with("411 "));
    assert_eq!(isp.take(""), [""; 0]);
}
