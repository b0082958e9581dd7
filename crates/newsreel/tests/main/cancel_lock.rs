//! Cancels and Supersedes: rights to withdraw articles, from peers and posters, before and after their
//! arrival.

use crate::auth::{self, with_access};
use crate::client::{Client, article};
use crate::operated::Operated;
use crate::posting::{head, headers, post, posted_id};
use crate::running::Server;
use disk::{CrashKind, SimDisk};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Example of RFC 8315 section 5.1.
const KEY: &str = "sha256:qv1VXHYiCGjkX/N1nhfYKcAeUn8bCVhrWhoKuBSnpMA=";
const LOCK: &str = "sha256:s/pmK/3grrz++29ce2/mQydzJuc7iqHn1nqcJiQTPMc=";

fn with(id: &str, groups: &str, more: &str) -> String {
    article(id, groups, "b").replacen("\r\n", &format!("\r\n{more}"), 1)
}

fn locked(id: &str) -> String {
    with(id, "misc.test", &format!("Cancel-Lock: {LOCK}\r\n"))
}

fn cancel(id: &str, target: &str, key: &str) -> String {
    let key = if key.is_empty() { String::new() } else { format!("Cancel-Key: {key}\r\n") };
    with(id, "misc.test", &format!("Control: cancel {target}\r\n{key}"))
}

fn take(client: &mut Client, id: &str, wire: &str) -> String {
    client.send(format!("TAKETHIS {id}\r\n{wire}"));
    client.line()
}

fn is_here(client: &mut Client, id: &str) -> bool {
    client.ask(&format!("STAT {id}")).starts_with("223 ")
}

#[test]
fn only_the_key_withdraws_and_everything_agrees_at_once() {
    let server = Server::start();
    let mut client = server.client();
    for n in 1..=3 {
        let id = format!("<l{n}@x.example>");
        assert_eq!(take(&mut client, &id, &locked(&id)), format!("239 {id}"));
    }
    let wrong = KEY.replace("qv1V", "qv1W");
    for (n, key) in ["", &wrong, "sha1:aaaBBBcccDDDeeeFFF", LOCK].iter().enumerate() {
        let id = format!("<c{n}@x.example>");
        assert_eq!(take(&mut client, &id, &cancel(&id, "<l2@x.example>", key)), format!("239 {id}"));
        assert!(is_here(&mut client, "<l2@x.example>"), "{key}");
    }
    let id = "<c9@x.example>";
    assert_eq!(
        take(&mut client, id, &cancel(id, "<l2@x.example>", &format!("{wrong} {KEY}"))),
        format!("239 {id}")
    );
    assert!(!is_here(&mut client, "<l2@x.example>"));
    assert_eq!(client.ask("GROUP misc.test"), "211 2 1 3 misc.test");
    assert!(client.ask("LISTGROUP").starts_with("211 2 "));
    assert_eq!(client.block(), ["1", "3"]);
    assert!(client.ask("OVER 1-3").starts_with("224 "));
    assert_eq!(client.block().len(), 2);
    assert!(client.ask("ARTICLE 2").starts_with("423 "));
    assert!(client.ask("LIST COUNTS misc.test").starts_with("215 "));
    assert_eq!(client.block(), ["misc.test 3 1 2 y"]);
    assert_eq!(
        take(&mut client, "<l2@x.example>", &locked("<l2@x.example>")),
        "439 <l2@x.example> duplicate"
    );
    // The cancels themselves are articles of control.cancel.
    assert_eq!(client.ask("GROUP control.cancel"), "211 5 1 5 control.cancel");
}

#[test]
fn supersedes_replaces_the_article() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(take(&mut client, "<old@x.example>", &locked("<old@x.example>")), "239 <old@x.example>");
    let newer = |id: &str, key: &str| {
        with(
            id,
            "misc.test",
            &format!("Supersedes: <old@x.example>\r\nCancel-Key: {key}\r\nCancel-Lock: {LOCK}\r\n"),
        )
    };
    assert_eq!(
        take(&mut client, "<n1@x.example>", &newer("<n1@x.example>", "sha256:no=")),
        "239 <n1@x.example>"
    );
    assert!(
        is_here(&mut client, "<old@x.example>") && is_here(&mut client, "<n1@x.example>"),
        "both are filed"
    );
    assert_eq!(take(&mut client, "<n2@x.example>", &newer("<n2@x.example>", KEY)), "239 <n2@x.example>");
    assert!(!is_here(&mut client, "<old@x.example>") && is_here(&mut client, "<n2@x.example>"));
}

#[test]
fn early_cancel_is_remembered_until_its_article_arrives() {
    let dir = tempfile::TempDir::new().unwrap();
    let configured = |text: String| {
        let data = format!("data = \"{}\"", dir.path().display());
        let lines = text.lines().map(|line| if line.starts_with("data = ") { &data } else { line });
        lines.collect::<Vec<_>>().join("\n")
    };
    let server = Server::start_with(configured);
    let mut client = server.client();
    for (id, target, key) in [
        ("<e1@x.example>", "<a1@x.example>", KEY),
        ("<e2@x.example>", "<a2@x.example>", "sha256:wrong="),
        ("<e3@x.example>", "<a2@x.example>", ""),
        ("<e4@x.example>", "<a3@x.example>", "sha256:wrong="),
        ("<e5@x.example>", "<a3@x.example>", KEY),
        ("<e6@x.example>", "<a4@x.example>", KEY),
    ] {
        assert_eq!(take(&mut client, id, &cancel(id, target, key)), format!("239 {id}"));
    }
    let late = |client: &mut Client, id: &str| take(client, id, &locked(id));
    assert_eq!(late(&mut client, "<a1@x.example>"), "439 <a1@x.example> cancelled before it came");
    assert_eq!(late(&mut client, "<a1@x.example>"), "439 <a1@x.example> duplicate", "remembered");
    assert_eq!(late(&mut client, "<a2@x.example>"), "239 <a2@x.example>", "nobody showed its key");
    assert_eq!(late(&mut client, "<a3@x.example>"), "439 <a3@x.example> cancelled before it came");
    drop(client);
    drop(server);
    let server = Server::start_with(configured);
    let mut client = server.client();
    assert_eq!(
        late(&mut client, "<a4@x.example>"),
        "439 <a4@x.example> cancelled before it came",
        "after a restart"
    );
    // In one batch the order does not matter either.
    let (a, c) = ("<a5@x.example>", "<e7@x.example>");
    client.send(format!("TAKETHIS {c}\r\n{}TAKETHIS {a}\r\n{}", cancel(c, a, KEY), locked(a)));
    assert_eq!(client.line(), format!("239 {c}"));
    let answer = client.line();
    assert!(
        answer == format!("239 {a}") || answer == format!("439 {a} cancelled before it came"),
        "{answer}"
    );
    assert!(!is_here(&mut client, a));
}

/// The sender of a cancel is not known any more when its article arrives, nor are its groups known before.
#[test]
fn early_cancels_need_the_proof_that_their_section_requires() {
    let dir = tempfile::TempDir::new().unwrap();
    let configured = |text: String| {
        let data = format!("data = \"{}\"", dir.path().display());
        let lines = text.lines().map(|line| if line.starts_with("data = ") { &data } else { line });
        let section = |from: &str, lock: &str| {
            format!(
                "\n[[control]]\ntype = \"cancel\"\nfrom = \"{from}\"\ngroups = \"misc.*\"\naction = \"do\"\n\
                 lock = \"{lock}\"\n"
            )
        };
        let text = lines.collect::<Vec<_>>().join("\n");
        text + &section("free@site.example", "ignored") + &section("some@site.example", "key if locked")
    };
    let server = Server::start_with(configured);
    let mut client = server.client();
    let plain = |id: &str, groups: &str| article(id, groups, "b");
    let both = "misc.test,local.empty";
    // Sender and key of the cancel; the article; whether it is filed.
    let cases = [
        ("free", "", locked("<a0@x.example>"), false),
        ("free", "", plain("<a1@x.example>", "misc.test"), false),
        ("free", "", plain("<a2@x.example>", both), true),
        ("some", "", plain("<a3@x.example>", "misc.test"), false),
        ("some", "", plain("<a4@x.example>", both), true),
        ("some", "", locked("<a5@x.example>"), true),
        ("some", KEY, locked("<a6@x.example>"), false),
        ("other", "", plain("<a7@x.example>", "misc.test"), true),
        ("other", KEY, locked("<a8@x.example>"), false),
    ];
    for (n, (from, key, ..)) in cases.iter().enumerate() {
        let id = format!("<c{n}@x.example>");
        let cancel = cancel(&id, &format!("<a{n}@x.example>"), key).replace("tester@", &format!("{from}@"));
        assert_eq!(take(&mut client, &id, &cancel), format!("239 {id}"));
    }
    drop(client);
    drop(server);
    let server = Server::start_with(configured);
    let mut client = server.client();
    for (n, (from, key, wire, is_filed)) in cases.iter().enumerate() {
        let id = format!("<a{n}@x.example>");
        let answer = take(&mut client, &id, wire);
        let expected =
            if *is_filed { format!("239 {id}") } else { format!("439 {id} cancelled before it came") };
        assert_eq!(answer, expected, "{from} {key}: {wire}");
    }
}

#[test]
fn honored_cancels_depend_on_the_policy() {
    let honor = |policy: &str| {
        let policy = policy.to_owned();
        let server = Server::start_with(|text| format!("{text}\n[cancel]\n{policy}\n"));
        let mut client = server.client();
        for id in ["<p@x.example>", "<q@x.example>"] {
            let wire = if id == "<p@x.example>" { article(id, "misc.test", "b") } else { locked(id) };
            assert_eq!(take(&mut client, id, &wire), format!("239 {id}"));
        }
        for (id, target, key) in [
            ("<1@x.example>", "<p@x.example>", ""),
            ("<2@x.example>", "<q@x.example>", KEY),
            ("<3@x.example>", "<late@x.example>", ""),
        ] {
            assert_eq!(take(&mut client, id, &cancel(id, target, key)), format!("239 {id}"));
        }
        let late = take(&mut client, "<late@x.example>", &article("<late@x.example>", "misc.test", "b"));
        (
            is_here(&mut client, "<p@x.example>"),
            is_here(&mut client, "<q@x.example>"),
            late.starts_with("239 "),
        )
    };
    assert_eq!(honor("honor = \"verified\""), (true, false, true));
    assert_eq!(honor("honor = \"verified\"\nunlocked = true"), (false, false, false));
    assert_eq!(honor("honor = \"all\""), (false, false, false));
    assert_eq!(honor("honor = \"none\""), (true, true, true));
}

#[test]
fn operators_key_withdraws_local_posts() {
    let server = Server::start();
    let mut client = server.client();
    let id = posted_id(&post(&mut client, &headers("misc.test", ""), "spam"));
    // A cancel without the key does not withdraw a post.
    let control = format!("Control: cancel {id}\r\n");
    assert!(post(&mut client, &headers("misc.test", &control), "cancel").starts_with("240 "));
    assert!(is_here(&mut client, &id));
    let config = server.data().parent().unwrap().join("newsreel.toml");
    let rule = "[[class]]\nname = \"c\"\nmethod = \"trash\"\n[[rule]]\nclass = \"c\"\n";
    std::fs::write(&config, format!("[site]\ndata = \"data\"\n{rule}")).unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_newsreel"))
        .arg("cancel-key")
        .arg("--config")
        .arg(&config)
        .arg(&id)
        .output();
    let out = out.unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let key = String::from_utf8(out.stdout).unwrap();
    assert!(key.starts_with("Cancel-Key: sha256:"), "{key}");
    let control = format!("{control}{}\r\n", key.trim_end());
    assert!(post(&mut client, &headers("misc.test", &control), "cancel").starts_with("240 "));
    assert!(!is_here(&mut client, &id));
}

#[test]
fn users_withdraw_and_supersede_their_own_posts() {
    let server = auth::start();
    let logged_in = |name: &str, password: &str| {
        let mut client = server.client();
        assert!(client.ask(&auth::plain(name, password)).starts_with("281 "));
        client
    };
    let (mut fred, mut wilma) = (logged_in("fred", "flintstone"), logged_in("wilma", "pebblestone"));
    let ids: Vec<_> =
        (0..2).map(|_| posted_id(&post(&mut fred, &headers("misc.test", ""), "mine"))).collect();
    let locks = head(&mut fred, &ids[0]).join("\n").matches("sha256:").count();
    assert_eq!(locks, 2, "fred's and the operator's");
    let cancel = headers("misc.test", &format!("Control: cancel {}\r\n", ids[0]));
    assert!(post(&mut wilma, &cancel, "cancel").starts_with("240 "));
    assert!(is_here(&mut fred, &ids[0]), "another user's key opens nothing");
    let id = posted_id(&post(&mut logged_in("fred", "flintstone"), &cancel, "cancel"));
    assert!(!is_here(&mut fred, &ids[0]));
    let shown = head(&mut wilma, &id).join("\n");
    assert!(shown.contains("\nCancel-Key: sha256:") && !shown.contains("fred"), "{shown}");
    let newer = headers("misc.test", &format!("Supersedes: {}\r\n", ids[1]));
    assert!(post(&mut fred, &newer, "mine, better").starts_with("240 "));
    assert!(!is_here(&mut fred, &ids[1]));
    let wrong = headers("misc.test", "Control: cancel nothing\r\n");
    assert!(post(&mut fred, &wrong, "cancel").starts_with("441 Posting failed: no Message-ID"));
}

#[test]
fn control_message_without_a_group_is_carried_out_and_not_shown() {
    let server = Server::start();
    let mut client = server.client();
    assert!(server.operate(&["rmgroup", "control"]) && server.operate(&["rmgroup", "control.cancel"]));
    let (id, cancelled) = ("<c1@x.example>", "<l1@x.example>");
    assert_eq!(take(&mut client, cancelled, &locked(cancelled)), format!("239 {cancelled}"));
    assert_eq!(take(&mut client, id, &cancel(id, cancelled, KEY)), format!("239 {id}"));
    assert!(!is_here(&mut client, cancelled), "obeyed");
    assert_eq!(client.ask("GROUP misc.test"), "211 0 2 1 misc.test", "not filed in the group it names");
    assert!(!is_here(&mut client, id));
    assert_eq!(client.ask(&format!("CHECK {id}")), format!("438 {id}"), "nobody offers it again");
    let control = "Control: cancel <nothing@x.example>\r\n";
    assert!(post(&mut client, &headers("misc.test", control), "b").starts_with("240 "));
    assert_eq!(client.ask("GROUP misc.test"), "211 0 2 1 misc.test");
}

/// Sends a cancel and returns the text after `240 Article received OK`.
fn cancelled(client: &mut Client, target: &str, more: &str) -> String {
    let control = format!("Control: cancel {target}\r\n{more}");
    let answer = post(client, &headers("misc.test", &control), "cancel");
    let text = answer.strip_prefix("240 Article received OK").unwrap_or_else(|| panic!("{answer}"));
    text.rsplit_once(" <").unwrap().0.to_owned()
}

#[test]
fn ineffective_cancel_is_reported_to_the_poster() {
    let server = Server::start_with(with_access(
        "[[peer]]\nname = \"peer.example\"\naddresses = [\"127.0.0.1\"]\n\
         [[access]]\nfrom = \"all\"\nusers = \"fred\"\nread = \"*\"\npost = \"*\"\n\
         [[access]]\nfrom = \"all\"\nread = \"misc.*\"\npost = \"misc.*\"\n",
    ));
    auth::add_users(&server);
    let (mut client, mut fred) = (server.client(), server.client());
    assert!(fred.ask(&auth::plain("fred", "flintstone")).starts_with("281 "));
    let id = posted_id(&post(&mut fred, &headers("misc.test", ""), "mine"));
    for (id, groups, more) in [
        ("<locked@x.example>", "misc.test", format!("Cancel-Lock: {LOCK}\r\n")),
        ("<open@x.example>", "misc.test", String::new()),
        ("<hidden@x.example>", "local.hidden", format!("Cancel-Lock: {LOCK}\r\n")),
        ("<bare@x.example>", "local.hidden", String::new()),
    ] {
        assert_eq!(take(&mut client, id, &with(id, groups, &more)), format!("239 {id}"));
    }
    let not = ", but withdraws nothing: ";
    let not_here = format!("{not}that article is not here");
    let key = format!("Cancel-Key: {KEY}\r\n");
    assert_eq!(cancelled(&mut client, &id, ""), format!("{not}no key fits that article's lock"));
    assert_eq!(
        cancelled(&mut client, "<locked@x.example>", ""),
        format!("{not}no key fits that article's lock")
    );
    assert_eq!(cancelled(&mut client, "<open@x.example>", &key), format!("{not}that article has no lock"));
    // Articles that the poster may not read are reported as absent, unless the poster has the key.
    for target in ["<absent@x.example>", "<hidden@x.example>", "<bare@x.example>"] {
        assert_eq!(cancelled(&mut client, target, ""), not_here, "{target}");
    }
    assert_eq!(cancelled(&mut client, "<hidden@x.example>", &key), "");
    assert!(!is_here(&mut fred, "<hidden@x.example>") && is_here(&mut fred, "<bare@x.example>"));
    assert_eq!(cancelled(&mut fred, &id, ""), "");
    assert_eq!(cancelled(&mut fred, &id, ""), not_here, "withdrawn already");
    let supersedes = headers("misc.test", "Supersedes: <open@x.example>\r\n");
    assert!(post(&mut client, &supersedes, "b").contains(&format!("{not}that article has no lock <")));
}

#[test]
fn unreadable_articles_are_withdrawn_only_with_a_key() {
    for policy in ["honor = \"all\"", "unlocked = true"] {
        let server = Server::start_with(|text| {
            let text = with_access(
                "[[peer]]\nname = \"peer.example\"\naddresses = [\"127.0.0.1\"]\n\
                [[access]]\nfrom = \"all\"\nread = \"misc.*\"\npost = \"misc.*\"\n",
            )(text);
            format!("{text}[cancel]\n{policy}\n")
        });
        let mut client = server.client();
        for (id, groups) in [("<h@x.example>", "local.hidden"), ("<m@x.example>", "misc.test,local.hidden")] {
            assert_eq!(take(&mut client, id, &article(id, groups, "b")), format!("239 {id}"));
        }
        assert_eq!(cancelled(&mut client, "<m@x.example>", ""), "", "{policy}");
        assert_eq!(
            cancelled(&mut client, "<h@x.example>", ""),
            ", but withdraws nothing: that article is not here",
            "{policy}"
        );
        assert!(server.operate(&["cancel", "<h@x.example>"]), "it is still there");
        assert!(!server.operate(&["cancel", "<m@x.example>"]));
    }
    let server = Server::start_with(|text| format!("{text}[cancel]\nhonor = \"none\"\n"));
    assert_eq!(
        cancelled(&mut server.client(), "<m@x.example>", ""),
        ", but withdraws nothing: cancels are not honored here"
    );
}

#[test]
fn ineffective_cancels_are_logged() {
    let site = Operated::new();
    let mut serving = site.serve();
    let control = headers("local.test", "Control: cancel <absent@x.example>\r\n");
    let id = posted_id(&post(&mut serving.client(), &control, "cancel"));
    let line = serving.logged(|line| line.contains("withdraws nothing"));
    assert!(
        line.contains("INFO") && line.contains(&id) && line.contains("that article is not here"),
        "{line}"
    );
}

#[test]
fn control_section_takes_precedence_over_cancel() {
    let server = Server::start_with(|text| {
        format!(
            "{text}\n[[control]]\ntype = \"cancel\"\nfrom = \"tester@site.example\"\ngroups = \"misc.*\"\naction = \"do\"\n\
             lock = \"key if locked\"\n[[control]]\ntype = \"supersede\"\naction = \"refuse\"\n"
        )
    });
    let mut client = server.client();
    let plain = |id: &str, groups: &str| article(id, groups, "b");
    for (id, wire) in [
        ("<o1@x.example>", plain("<o1@x.example>", "misc.test")),
        ("<o2@x.example>", plain("<o2@x.example>", "misc.test,local.empty")),
        ("<o3@x.example>", locked("<o3@x.example>")),
    ] {
        assert_eq!(take(&mut client, id, &wire), format!("239 {id}"));
    }
    for (n, here) in [(1, false), (2, true), (3, true)] {
        let (id, target) = (format!("<k{n}@x.example>"), format!("<o{n}@x.example>"));
        assert_eq!(take(&mut client, &id, &cancel(&id, &target, "")), format!("239 {id}"));
        assert_eq!(is_here(&mut client, &target), here, "{target}");
    }
    let other = cancel("<k4@x.example>", "<o2@x.example>", "").replace("tester@", "other@");
    assert_eq!(take(&mut client, "<k4@x.example>", &other), "239 <k4@x.example>");
    assert!(is_here(&mut client, "<o2@x.example>"), "[cancel] asks for a key");
    let wire = with("<s@x.example>", "misc.test", "Supersedes: <o3@x.example>\r\n");
    let refused = "439 <s@x.example> control message refused here";
    assert_eq!(take(&mut client, "<s@x.example>", &wire), refused);
    assert!(is_here(&mut client, "<o3@x.example>"));
}

/// Interval at which a running server saves how far withdrawals have been carried out.
const SAVED_AFTER: Duration = Duration::from_secs(30);

/// Simulates a server that dies after cancels were filed and before the next save. A server that honors no
/// cancels carries none out, so the disk is then as it was before.
#[test]
fn cancel_interrupted_by_a_crash_is_carried_out_at_the_start() {
    let (mut server, disk, killed) = loop {
        let begun = Instant::now();
        let disk = SimDisk::new();
        let server = Server::start_on(Arc::new(disk.clone()), |text| text + "\n[cancel]\nhonor = \"none\"\n");
        let mut client = server.client();
        for n in 1..=3 {
            let id = format!("<l{n}@x.example>");
            assert_eq!(take(&mut client, &id, &locked(&id)), format!("239 {id}"));
        }
        for (n, key) in [(1, KEY), (2, ""), (9, KEY)] {
            let id = format!("<c{n}@x.example>");
            let cancel = cancel(&id, &format!("<l{n}@x.example>"), key);
            assert_eq!(take(&mut client, &id, &cancel), format!("239 {id}"));
        }
        assert!(is_here(&mut client, "<l1@x.example>"));
        let killed = disk.image_after(CrashKind::Kill, 0).unwrap();
        if begun.elapsed() < SAVED_AFTER {
            break (server, disk, killed);
        }
    };
    let text = std::fs::read_to_string(server.file()).unwrap();
    std::fs::write(server.file(), text.replace("honor = \"none\"", "honor = \"verified\"")).unwrap();
    // After a regular stop nothing remains to be carried out.
    server = server.again(Arc::new(disk));
    assert!(is_here(&mut server.client(), "<l1@x.example>"));
    server = server.again(Arc::new(killed));
    let mut client = server.client();
    assert!(!is_here(&mut client, "<l1@x.example>"));
    assert!(is_here(&mut client, "<l2@x.example>") && is_here(&mut client, "<l3@x.example>"));
    assert_eq!(client.ask("GROUP misc.test"), "211 2 2 3 misc.test");
    // A cancel whose article has not arrived waits for it.
    let id = "<l9@x.example>";
    assert!(take(&mut client, id, &locked(id)).starts_with("439 "));
}
